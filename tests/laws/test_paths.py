"""ECMP: the compiled switches take the path that topology.path_links names, for data and for acknowledgements."""

import polars as pl
import pytest
from drawn import examples
from hypothesis import given
from hypothesis import strategies as st
from networks import SHAPES, HostConfig, Measure, flow_list, networks, simulate

TRACE = Measure(sample="0s", packets=True)


def paths_taken(run, kind: int) -> dict[int, list[tuple[int, int]]]:
    """(node, port) of every switch that each flow's first packet crossed."""
    rows = run.frame("packets").filter((pl.col("kind") == kind) & (pl.col("event") == "dequeue"))
    first = rows.sort("time_ns", maintain_order=True).unique(["flow_id", "node"], keep="first", maintain_order=True)
    out: dict[int, list[tuple[int, int]]] = {}
    for flow, node, port in first.select("flow_id", "node", "port").iter_rows():
        out.setdefault(flow, []).append((node, port))
    return out


def check_paths(topo, flows, seed) -> None:
    """With ack_priority="data" acknowledgements are queued and show in the trace, too."""
    run = simulate(topo, flows, "fifo", seed=seed, measure=TRACE, host=HostConfig(ack_priority="data"))
    for kind, ack in ((0, False), (1, True)):
        taken = paths_taken(run, kind)
        for number in range(len(flows)):
            src, dst = int(flows.src[number]), int(flows.dst[number])
            named = [hop for hop in topo.path_links(number, src, dst, seed, ack=ack) if hop[0] >= topo.hosts]
            assert taken[number] == named, (
                f"{'ACK of ' if ack else ''}flow {number} from {src} to {dst}, seed {seed}: took "
                f"{taken[number]}, topology says {named}"
            )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", [1, 2**31 - 1, 2**31, 2**32 - 1])
def test_every_shape(shape, seed):
    topo = SHAPES[shape]()
    hosts = min(topo.hosts, 20)
    check_paths(
        topo,
        flow_list(topo, [(i, (i + k) % hosts, 1500) for i in range(hosts) for k in range(1, min(hosts, 12))]),
        seed,
    )


@examples(30)
@given(networks(switches=(2, 8), ps_per_byte=(10, 400)), st.data())
def test_random_networks(topo, data):
    pairs = [(i, j, 100) for i in range(topo.hosts) for j in range(topo.hosts) if i != j]
    check_paths(topo, flow_list(topo, pairs * 2), data.draw(st.integers(0, 2**32 - 1)))


def test_all_paths_are_used_evenly():
    topo = SHAPES["leaf_spine"]()
    flows = flow_list(topo, [(i % 4, 8 + i % 8, 1) for i in range(4000)])
    run = simulate(topo, flows, "fifo", measure=TRACE)
    used = run.frame("packets").filter((pl.col("node") == topo.node("tor0")) & (pl.col("event") == "enqueue"))
    counts = used.group_by("port").len()["len"].to_list()
    assert len(counts) == 4 and all(abs(c - 1000) < 4 * 1000**0.5 for c in counts), counts


@pytest.mark.parametrize("port", ["uplink", "downlink"])
def test_hashing_to_queues_is_independent_of_the_path(port):
    """Stochastic fair queueing at a ToR's uplink: flows that ECMP sends there still spread over all queues."""
    topo = SHAPES["leaf_spine"]()
    flows = flow_list(topo, [(i % 4, 8 + i % 8, 1) for i in range(4000)])
    for seed in range(1, 6):
        run = simulate(topo, flows, "dqa:stochastic", seed=seed, measure=TRACE)
        node, first = ("tor0", 4) if port == "uplink" else ("tor2", 0)
        rows = run.frame("packets").filter(
            (pl.col("node") == topo.node(node)) & (pl.col("event") == "enqueue") & (pl.col("port") == first)
        )
        share = (rows.group_by("queue").len()["len"] / rows.height).to_numpy()
        used = 1 / (share**2).sum()
        assert used > 24, f"seed {seed}: {rows.height} flows at {node} port {first} spread over {used:.1f} of 32 queues"
