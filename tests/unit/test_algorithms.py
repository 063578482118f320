"""Collectives as messages: who has what at the end, bytes by formula, no message waits for itself; training as a graph."""

import numpy as np
import pytest
from drawn import examples
from hypothesis import given
from hypothesis import strategies as st

from penstock_net.errors import SpecError
from penstock_net.topology import leaf_spine, star
from penstock_net.topology.scale_up import Servers
from penstock_net.workload import build
from penstock_net.workload.algorithms import ALGORITHMS, IN_NETWORK, PXN, WITHIN_SERVERS, Messages, bus_factor, expand
from penstock_net.workload.collectives import collective
from penstock_net.workload.placement import placed
from penstock_net.workload.training import training

TOPO = leaf_spine(hosts=16, tors=4, spines=2)


def in_pairs(name: str, n: int) -> dict:
    """What an algorithm needs beside: two ranks to a server, or one where the last one would be alone."""
    return {"servers": Servers.even(n, 1 if n % 2 else 2)} if name in WITHIN_SERVERS else {}


CASES = [(kind, name) for kind, algorithms in ALGORITHMS.items() for name in algorithms if name != IN_NETWORK]
ALL_REDUCE = [name for kind, name in CASES if kind == "all_reduce"]
POWERS_ONLY = {"halving", "doubling"}


def waves(messages: Messages) -> list[np.ndarray]:
    """The messages in the order in which they can be sent; all of them must come to pass."""
    waiting = np.bincount(messages.child, minlength=len(messages))
    left, out = np.ones(len(messages), dtype=bool), []
    while left.any():
        ready = np.flatnonzero(left & (waiting == 0))
        assert len(ready), "messages wait for one another in a circle"
        left[ready] = False
        done = np.zeros(len(messages), dtype=bool)
        done[ready] = True
        waiting -= np.bincount(messages.child[done[messages.parent]], minlength=len(messages))
        out.append(ready)
    return out


def ranks_for(name: str, n: int) -> int:
    return 1 << (n.bit_length() - 1) if name in POWERS_ONLY else n


def moved(messages: Messages, n: int, size: int, begin) -> list[np.ndarray]:
    """Data movement by byte: held[rank][byte] is the set of contributions, as a bit mask; `begin(rank)` is what it has first.

    Within a wave all messages carry what their senders had before it: a message carries nothing that it does not wait for.
    """
    held = [np.array([begin(rank, byte) for byte in range(size)], dtype=object) for rank in range(n)]
    for wave in waves(messages):
        taken = [held[messages.src[i]][messages.offset[i] : messages.offset[i] + messages.bytes[i]].copy() for i in wave]
        for i, values in zip(wave, taken):
            at = slice(int(messages.offset[i]), int(messages.offset[i] + messages.bytes[i]))
            there = held[messages.dst[i]][at]
            assert len(values) == messages.bytes[i]
            if messages.reduces[i]:
                assert not any(a & b for a, b in zip(there, values)), "a contribution is added twice"
                held[messages.dst[i]][at] = there | values
            else:
                held[messages.dst[i]][at] = values
    return held


SHAPES = st.tuples(st.integers(2, 12), st.integers(1, 3), st.integers(0, 40))


@pytest.mark.parametrize("name", ALL_REDUCE)
@examples(40)
@given(shape=SHAPES)
def test_all_reduce_gives_every_rank_every_sum(name, shape):
    n, chunks, more = shape
    size = n * chunks + more
    messages = expand("all_reduce", n, size, algorithm=name, chunks=chunks, **in_pairs(name, n))
    held = moved(messages, n, size, lambda rank, byte: 1 << rank)
    assert all(value == (1 << n) - 1 for rank in held for value in rank)


def test_what_switches_reduce_is_sent_once_by_every_rank():
    """Of which the messages say no more: the sums are those of switches, see tests/laws/test_in_network.py."""
    messages = expand("all_reduce", 5, 7_001, algorithm=IN_NETWORK)
    assert messages.bytes.tolist() == [7_001] * 5 and len(messages.child) == 0
    assert sorted(messages.src) == sorted(messages.dst) == list(range(5)) and (messages.src != messages.dst).all()


@pytest.mark.parametrize("name", ALGORITHMS["reduce_scatter"])
@examples(40)
@given(shape=SHAPES)
def test_reduce_scatter_leaves_the_sums_in_parts(name, shape):
    n, chunks, more = shape
    n = ranks_for(name, n)
    size = n * chunks + more
    messages = expand("reduce_scatter", n, size, algorithm=name, chunks=chunks)
    held = moved(messages, n, size, lambda rank, byte: 1 << rank)
    full = [{byte for byte in range(size) if rank[byte] == (1 << n) - 1} for rank in held]
    assert set().union(*full) == set(range(size)) and sum(map(len, full)) == size
    assert max(map(len, full)) - min(map(len, full)) <= chunks


@pytest.mark.parametrize("name", ALGORITHMS["all_gather"])
@examples(40)
@given(shape=SHAPES)
def test_all_gather_gives_every_rank_every_part(name, shape):
    n, chunks, more = shape
    n = ranks_for(name, n)
    size = n * chunks + more
    messages = expand("all_gather", n, size, algorithm=name, chunks=chunks)
    first = messages.src == np.arange(n)[:, None]
    owner = np.full(size, -1)
    for rank in range(n):  # what a rank sends without waiting is its own part
        for i in np.flatnonzero(first[rank] & ~np.isin(np.arange(len(messages)), messages.child)):
            owner[messages.offset[i] : messages.offset[i] + messages.bytes[i]] = rank
    assert (owner >= 0).all()
    held = moved(messages, n, size, lambda rank, byte: int(owner[byte] == rank))
    assert all(value == 1 for rank in held for value in rank)


@pytest.mark.parametrize("name", ALGORITHMS["broadcast"])
@examples(40)
@given(shape=SHAPES, root=st.integers(0, 11))
def test_broadcast_reaches_every_rank(name, shape, root):
    n, chunks, more = shape
    root %= n
    size = chunks + more
    messages = expand("broadcast", n, size, algorithm=name, chunks=chunks, root=root)
    held = moved(messages, n, size, lambda rank, byte: int(rank == root))
    assert all(value == 1 for rank in held for value in rank)


@pytest.mark.parametrize("name", sorted({*ALGORITHMS["all_to_all"]} - {PXN}))  # whose own test is in tests/laws
@examples(40)
@given(shape=SHAPES)
def test_all_to_all_sends_every_block_once(name, shape):
    n, chunks, more = shape
    size = n * chunks + more
    messages = expand("all_to_all", n, size, algorithm=name, chunks=chunks)
    waves(messages)
    sent = np.zeros((n, n), dtype=np.int64)
    np.add.at(sent, (messages.src, messages.dst), messages.bytes)
    own = size - sent.sum(axis=1)  # a rank's block for itself
    assert np.all(np.diag(sent) == 0) and np.all(sent[~np.eye(n, dtype=bool)] > 0)
    assert np.all(sent == np.where(np.eye(n, dtype=bool), 0, own[None]))  # block j is equally long at every rank


def expected_bytes(kind: str, name: str, n: int, size: int) -> int:
    """Bytes on the network, by formula; size is a multiple of all that it is divided by."""
    extra = n - (1 << (n.bit_length() - 1))
    if kind == "all_reduce":
        inner = n - extra if name == "halving_doubling" else n
        return 2 * (inner - 1) * size + (2 * extra * size if name == "halving_doubling" else 0)
    return {
        "reduce_scatter": (n - 1) * size,
        "all_gather": (n - 1) * size,
        "all_to_all": (n - 1) * size,
        "broadcast": (n - 1) * size,
        "sendrecv": n * size,
    }[kind]


@pytest.mark.parametrize("kind, name", CASES)
@pytest.mark.parametrize("n", [2, 3, 4, 7, 8, 12, 16])
@pytest.mark.parametrize("chunks", [1, 4])
def test_bytes_by_formula(kind, name, n, chunks):
    n = ranks_for(name, n)
    size = 16 * 9 * 5 * 7 * 8 * 3 * chunks
    messages = expand(kind, n, size, algorithm=name, chunks=chunks, **in_pairs(name, n))
    own = slice(None) if messages.relayed is None else ~messages.relayed
    assert messages.bytes[own].sum() == expected_bytes(kind, name, n, size)
    assert np.array_equal(messages.src[messages.child], messages.dst[messages.parent])
    assert messages.bytes.min() >= 1 and (name == PXN or np.all(messages.offset + messages.bytes <= size))


def test_bus_factors_are_those_of_nccl():
    assert bus_factor("all_reduce", 8) == 1.75 and bus_factor("all_reduce", 2) == 1
    assert [bus_factor(kind, 4) for kind in ("all_gather", "reduce_scatter", "all_to_all")] == [0.75] * 3
    assert bus_factor("broadcast", 4) == bus_factor("sendrecv", 4) == bus_factor("send", 2) == 1


def test_placements():
    racks = TOPO.host_switches
    assert placed(TOPO, None).tolist() == list(range(16))
    strided = placed(TOPO, None, "strided")
    assert sorted(strided) == list(range(16)) and np.all(racks[strided][1:] != racks[strided][:-1])
    assert strided[:5].tolist() == [0, 4, 8, 12, 1]
    assert placed(TOPO, 3, "strided").tolist() == [0, 4, 8]
    assert placed(TOPO, [9, 8, 0, 1], "strided").tolist() == [0, 9, 1, 8]
    assert placed(TOPO, [9, 0], "packed").tolist() == [9, 0]
    drawn = [placed(TOPO, 8, "random", seed=seed).tolist() for seed in range(10)]
    assert len(set(map(tuple, drawn))) == 10 and all(len(set(hosts)) == 8 for hosts in drawn)
    assert placed(TOPO, 8, "random", seed=3).tolist() == drawn[3] != placed(TOPO, 8, "random", 3, index=1).tolist()


@pytest.mark.parametrize(
    "arguments, says",
    [
        ({"collective": "all_reduse"}, 'workload.0.collective = "all_reduse": must be one of all_reduce'),
        ({"algorithm": "rings"}, 'workload.0.algorithm = "rings": must be one of ring, halving_doubling, tree'),
        ({"collective": "all_gather", "algorithm": "doubling", "hosts": 6}, "take 4 or 8 of them"),
        ({"collective": "all_gather", "root": 1}, "workload.0.root = 1: all_gather has no root"),
        ({"placement": "spread"}, 'workload.0.placement = "spread": must be one of packed, strided, random'),
        ({"bytes": 3}, "workload.0.bytes = 3: fewer than one per piece; 16 ranks of 1 chunks need 16"),
        ({"chunks": 0}, "workload.0.chunks = 0: must be at least 1"),
        ({"collective": "broadcast", "root": 16}, "workload.0.root = 16: must be between 0 and 15"),
        ({"chunks": 10**9, "bytes": "1TB"}, "flows are more than"),
    ],
)
def test_bad_collectives(arguments, says):
    with pytest.raises(SpecError) as error:
        build({"kind": "collective", **arguments}, TOPO, 10**9, 1)
    assert says in str(error.value)


@pytest.mark.parametrize(
    "arguments, says",
    [
        ({"tensor": 3}, "workload.0.tensor = 3: tensor = 3 x pipeline = 1 does not divide 16 hosts; give data too"),
        (
            {"tensor": 4, "data": 5},
            "workload.0.data = 5: tensor = 4 x pipeline = 1 x data = 5 is 20 ranks, but there are 16 hosts",
        ),
        ({"expert": 3}, "workload.0.expert = 3: must divide data = 16"),
        ({"pipeline": 4, "layers": 6}, "workload.0.layers = 6: must be a multiple of pipeline = 4"),
        ({"iterations": 10**9}, "workload.0.iterations = 1000000000: layers x microbatches x iterations is"),
        ({"parameters": 15}, "workload.0.parameters = 15: fewer than one per piece; at least 16 B"),
        ({"activations": 1, "tensor": 2}, "workload.0.activations = 1: fewer than one per piece; at least 2 B"),
        ({"schedule": "zb"}, 'workload.0.schedule = "zb": must be one of 1f1b, gpipe'),
        ({"data": 1}, "one rank has nobody to talk to"),
        ({"forward": "-1us"}, 'workload.0.forward = "-1us": must be zero or more'),
        ({"overlap": 1}, "workload.0.overlap = 1: must be true or false"),
        ({"all_reduce": "halving"}, 'workload.0.all_reduce = "halving": must be one of ring'),
    ],
)
def test_bad_training(arguments, says):
    with pytest.raises(SpecError) as error:
        build({"kind": "training", **arguments}, TOPO, 10**9, 1)
    assert says in str(error.value)


@examples(40)
@given(
    tensor=st.sampled_from([1, 2, 4]),
    pipeline=st.sampled_from([1, 2, 4]),
    expert=st.sampled_from([1, 2]),
    microbatches=st.integers(1, 5),
    schedule=st.sampled_from(["1f1b", "gpipe"]),
    overlap=st.booleans(),
    expert_parameters=st.sampled_from([0, 1000]),
    placement=st.sampled_from(["packed", "strided", "random"]),
)
def test_training_is_a_graph_that_can_run(**plan):
    """Every task can run, on its own rank, and the computations of an iteration are all there."""
    if 16 // (plan["tensor"] * plan["pipeline"]) % plan["expert"]:
        plan["expert"] = 1
    flows = training(TOPO, layers=4, parameters=3000, activations=400, forward="3us", backward="5us", **plan).check(TOPO)
    assert flows.operations is not None
    computed = flows.gap_ps.reshape(-1)[flows.computes]
    by_host = np.bincount(flows.src[flows.computes], weights=computed, minlength=16)
    assert np.all(by_host == 2 * plan["microbatches"] * (4 // plan["pipeline"]) * 8_000_000)
    sends = ~flows.computes
    assert sends.any() and flows.bytes[sends].min() >= 1 and flows.bytes[~sends].max() == 0


def test_flows_with_operations_merge_and_are_cut():
    one = collective(TOPO, bytes=8000, hosts=4)
    two = collective(TOPO, bytes=4000, hosts=[8, 9], collective="sendrecv", start="1us")
    both = two + one + build({"kind": "permutation"}, TOPO, 10**9, 1)
    both.check(TOPO)
    assert [operation.kind for operation in both.operations.listed] == ["sendrecv", "all_reduce"]
    assert [operation.job for operation in both.operations.listed] == [0, 1]
    kinds = [both.operations.listed[i].kind if i >= 0 else "" for i in both.operations.number]
    assert all((kind == "sendrecv") == (src in (8, 9)) for kind, src, size in zip(kinds, both.src, both.bytes) if size != 10**6)
    early = both.until(10**6)
    assert set(early.operations.number.tolist()) == {-1, 1}
    assert both.key() != (one + two).key() and one.key() == collective(TOPO, bytes=8000, hosts=4).key()


def test_a_host_computes_only_with_nothing_to_send():
    topo = star(hosts=3)
    flows = collective(topo, bytes=3000)
    assert flows.computes.sum() == 6 and flows.realised(topo, 10**6)["flows"] == len(flows) - 6
