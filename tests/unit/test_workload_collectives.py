"""Lists, permutations, all-to-all, and collectives: who sends what to whom, after what."""

import numpy as np
import pytest

from penstock_net.errors import SpecError
from penstock_net.topology import leaf_spine
from penstock_net.workload import all_to_all, flow_list, long_flows, permutation, ring_all_reduce, tree_all_reduce

TOPO = leaf_spine(hosts=16, tors=4, spines=2)


def replay(flows):
    """The order in which dependent flows can be sent; everything must come to pass."""
    done = np.zeros(len(flows), dtype=bool)
    child, parent = flows.edges()
    waves = []
    while not done.all():
        waiting = np.zeros(len(flows), dtype=bool)
        waiting[child[~done[parent]]] = True
        ready = np.flatnonzero(~done & ~waiting)
        assert len(ready)
        done[ready] = True
        waves.append(ready)
    return waves


@pytest.mark.parametrize("chunks", [1, 3])
@pytest.mark.parametrize("n", [2, 3, 8, 16])
def test_ring_all_reduce(n, chunks):
    flows = ring_all_reduce(TOPO, bytes=100_001, hosts=n, chunks=chunks, start="3us").check(TOPO)
    assert len(flows) == 2 * (n - 1) * n * chunks
    assert flows.bytes.sum() == 2 * (n - 1) * 100_001
    assert np.ptp(flows.bytes) <= 1
    assert np.all(flows.dst == (flows.src + 1) % n)
    assert np.all(flows.start_ps == 3 * 10**6)
    waves = replay(flows)
    assert [len(wave) for wave in waves] == [n * chunks] * (2 * (n - 1))
    child, parent = flows.edges()
    assert len(child) == (2 * (n - 1) - 1) * n * chunks
    assert np.array_equal(flows.dst[parent], flows.src[child])


@pytest.mark.parametrize("n", [2, 5, 8])
def test_ring_all_reduce_reduces_and_gathers_every_segment(n):
    """Replayed with sets: at the end every rank holds the sum of all ranks for every segment."""
    flows = ring_all_reduce(TOPO, bytes=10 * n, hosts=n)
    held = [[{rank} for _ in range(n)] for rank in range(n)]  # held[rank][segment]: whose values are summed
    for wave in replay(flows):
        sent = []
        for i in wave:
            step, rank = divmod(int(i), n)
            segment = (rank - step) % n
            sent.append((int(flows.dst[i]), segment, set(held[flows.src[i]][segment]), step < n - 1))
        for dst, segment, values, reducing in sent:
            assert not reducing or not held[dst][segment] & values  # nothing is added twice
            held[dst][segment] = held[dst][segment] | values if reducing else values
    assert all(values == set(range(n)) for rank in held for values in rank)


@pytest.mark.parametrize("chunks", [1, 4])
@pytest.mark.parametrize("n", [2, 3, 7, 16])
def test_tree_all_reduce(n, chunks):
    flows = tree_all_reduce(TOPO, bytes=10_001, hosts=n, chunks=chunks).check(TOPO)
    up = (n - 1) * chunks
    assert len(flows) == 2 * up
    assert flows.bytes.sum() == 2 * (n - 1) * 10_001
    assert np.array_equal(flows.dst[:up], (flows.src[:up] - 1) // 2)
    assert np.array_equal(flows.src[up:], (flows.dst[up:] - 1) // 2)
    summed = [[{rank} for _ in range(chunks)] for rank in range(n)]
    for wave in replay(flows):
        for i in wave:
            piece, src, dst = int(i) % up // (n - 1), flows.src[i], flows.dst[i]
            summed[dst][piece] = summed[dst][piece] | summed[src][piece] if i < up else summed[src][piece]
    assert all(values == set(range(n)) for rank in summed for values in rank)


def test_collectives_on_chosen_hosts():
    ring = ring_all_reduce(TOPO, bytes="1MB", hosts=[3, "host9", 5])
    assert list(zip(ring.src[:3].tolist(), ring.dst[:3].tolist())) == [(3, 9), (9, 5), (5, 3)]
    assert set(tree_all_reduce(TOPO, bytes="1MB", hosts=[3, 9, 5]).src) == {3, 9, 5}
    assert len(ring_all_reduce(TOPO)) == 2 * 15 * 16


def test_permutation_is_a_derangement():
    seen = set()
    for seed in range(20):
        flows = permutation(TOPO, bytes="1MB", seed=seed).check(TOPO)
        assert sorted(flows.src) == sorted(flows.dst) == list(range(16))
        seen.add(tuple(flows.dst))
    assert len(seen) == 20
    assert permutation(TOPO, hosts=[4, 7]).dst.tolist() == [7, 4]


def test_all_to_all_is_every_pair_once():
    flows = all_to_all(TOPO, bytes="1KB", hosts=5).check(TOPO)
    assert len(set(zip(flows.src, flows.dst))) == len(flows) == 20
    assert flows.dst[:5].tolist() == [1, 2, 3, 4, 0]
    assert len(all_to_all(TOPO)) == 16 * 15


def test_lists_and_long_flows():
    flows = flow_list(
        TOPO,
        [
            (0, 1, "1MB", "5us"),
            ("host2", "3", 500),
            {"src": 1, "dst": 0, "bytes": 7, "start": "9us", "class": "reply", "priority": 2, "after": 0},
        ],
    )
    flows.check(TOPO)
    assert flows.start_ps.tolist() == [0, 5 * 10**6, 9 * 10**6]
    assert flows.bytes.tolist() == [500, 10**6, 7]
    assert flows.classes == ("flows", "reply")
    assert [edge.tolist() for edge in flows.edges()] == [[2], [1]]
    long = long_flows(TOPO, [(0, 4), (1, 4)], bytes="1GB", start="1us", every="10us")
    assert long.start_ps.tolist() == [10**6, 11 * 10**6]


def test_a_list_may_have_computations():
    flows = flow_list(TOPO, [(0, 1, 100), {"src": 1, "dst": 1, "bytes": 0, "after": 0, "gap": "3us"}, (2, 2, "0B")])
    assert flows.computes.tolist() == [False, True, True] and flows.gap_ps.tolist() == [0, 3 * 10**6, 0]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (
            lambda: flow_list(TOPO, [(0, 1, "1MB"), (5, 5, "1MB")]),
            "flows.1.dst = 5: must differ from src, a flow needs two hosts",
        ),
        (lambda: flow_list(TOPO, [(0, 99, "1MB")]), "flows.0.dst = 99: hosts are 0 to 15"),
        (lambda: flow_list(TOPO, [(0, 1, "0B")]), 'flows.0.bytes = "0B": must be greater than zero'),
        (lambda: flow_list(TOPO, [(0, 1, "1MB", "-1us")]), 'flows.0.start = "-1us": must be zero or more'),
        (lambda: flow_list(TOPO, [(0, 1)]), 'flows.0 = (0, 1): must be (src, dst, bytes, start), such as (0, 1, "1MB", "0s")'),
        (lambda: flow_list(TOPO, [{"src": 0, "dst": 1}]), "flows.0.bytes: is missing"),
        (lambda: flow_list(TOPO, [{"src": 0, "dst": 1, "bytes": 1, "strat": 0}]), 'did you mean "start"?'),
        (lambda: flow_list(TOPO, [{"src": 0, "dst": 1, "bytes": 1, "after": 4}]), "flows.0.after = 4: must be between 0 and 0"),
        (lambda: flow_list(TOPO, [(0, 1, 1), {"src": 2, "dst": 0, "bytes": 1, "after": 0}]), "its own host receives"),
        (lambda: flow_list(TOPO, [(0, 1, "2TB")]), "split the flow"),
        (
            lambda: flow_list(TOPO, [{"src": 0, "dst": 1, "bytes": 1, "after": 1}, {"src": 1, "dst": 0, "bytes": 1, "after": 0}]),
            "flows.0.after: waits for itself: flow 0 after 1 after 0; remove one of these dependencies",
        ),
        (lambda: ring_all_reduce(TOPO, hosts=1), "hosts = 1: must be between 2 and 16"),
        (lambda: ring_all_reduce(TOPO, chunks=0), "chunks = 0"),
        (lambda: tree_all_reduce(TOPO, bytes=3, chunks=4), "bytes = 3"),
        (lambda: all_to_all(TOPO, start="1e12s"), 'start = "1e12s": must be at most 4611686s'),
        (lambda: ring_all_reduce(TOPO, bytes="1TB", chunks=10**9), "flows are more than"),
    ],
)
def test_bad_lists_and_collectives(make, says):
    with pytest.raises(SpecError) as error:
        make()
    assert says in str(error.value)
