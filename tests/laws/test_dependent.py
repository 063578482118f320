"""Flows that wait for others: the order, and the exact times of collectives on an idle star."""

import numpy as np
import pytest
from networks import HostConfig, Measure, flow_list, simulate

from penstock_net.errors import SpecError
from penstock_net.sim import starts
from penstock_net.topology import leaf_spine, star
from penstock_net.workload.collectives import ring_all_reduce, tree_all_reduce

SCHEMES = ["fifo", "dqa", "pfc", "bfc"]
RATE, DELAY, ACK = 80, 1_000_000, 60 * 80  # of a star, in ps per byte and ps


def times(run):
    ps = {name: np.rint(run.flows[f"{name}_ns"].to_numpy() * 1000).astype(np.int64) for name in ("start", "finish")}
    return ps["start"], ps["finish"]


def check_order(flows, start, finish) -> None:
    """A flow starts at the very moment at which the last flow it waits for has arrived."""
    offsets, parents = flows.after
    for i in range(len(flows)):
        waits = parents[offsets[i] : offsets[i + 1]]
        earliest = max([int(flows.start_ps[i]), *(int(finish[p]) for p in waits)])
        assert start[i] == earliest, f"flow {i} started at {start[i]} ps; what it waits for was there at {earliest} ps"


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("hosts, size", [(2, 2), (3, 3), (8, 8000), (3, 30_000), (5, 100_000), (16, 32_000)])
def test_ring_takes_its_exact_time(scheme, hosts, size):
    """2 (n - 1) steps of one segment each; segments never meet.  From the second step on an acknowledgement, of what
    came in at that very moment, goes before the second packet; segments are short enough that no other does."""
    topo = star(hosts=hosts)
    flows = ring_all_reduce(topo, bytes=size)
    run = simulate(topo, flows, scheme, measure=Measure(sample="0s"))
    start, finish = times(run)
    check_order(flows, start, finish)
    step = int(topo.ideal_fct_ps(0, 0, 1, size // hosts, 1)[0])
    steps, ack = 2 * (hosts - 1), ACK if size // hosts > 1000 else 0
    assert finish.max() == steps * step + (steps - 1) * ack, f"{finish.max()} ps, not {steps} steps of {step} ps"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_long_ring_is_late_by_its_acknowledgements_only(scheme):
    topo = star(hosts=8)
    run = simulate(topo, ring_all_reduce(topo, bytes=8_000_000), scheme, measure=Measure(sample="0s"))
    _, finish = times(run)
    step = int(topo.ideal_fct_ps(0, 0, 1, 10**6, 1)[0])
    assert 14 * step <= finish.max() <= 14 * (step + 1000 * ACK)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("hosts", [2, 3, 4, 7, 8, 15])
def test_tree_takes_its_exact_time(scheme, hosts):
    """One packet per flow: going up, two children share their parent's link; going down, the parent's link again,
    and between the two packets the acknowledgement of what the parent received."""
    topo = star(hosts=hosts)
    flows = tree_all_reduce(topo, bytes=1000)
    run = simulate(topo, flows, scheme, measure=Measure(sample="0s"))
    start, finish = times(run)
    check_order(flows, start, finish)
    wire = 1048 * RATE
    up, down = {}, {0: 0}
    for rank in range(hosts - 1, -1, -1):
        children = [c for c in (2 * rank + 1, 2 * rank + 2) if c < hosts]
        line = ready = 0  # of the switch towards this rank
        for child in sorted(children, key=lambda c: (up[c], c)):
            line = max(line, up[child] + wire + DELAY) + wire
            ready = line + DELAY
        up[rank] = ready
    down[0] = up[0]
    for rank in range(hosts):
        for place, child in enumerate(c for c in (2 * rank + 1, 2 * rank + 2) if c < hosts):
            down[child] = down[rank] + (place + 1) * wire + place * ACK + DELAY + wire + DELAY
    assert finish.max() == max(down.values()), f"{finish.max()} ps, expected {max(down.values())} ps"


@pytest.mark.parametrize("chunks", [1, 3])
@pytest.mark.parametrize("flows_at_once", [1, 200_000])
def test_order_under_congestion(monkeypatch, chunks, flows_at_once):
    monkeypatch.setattr(starts, "FLOWS_AT_ONCE", flows_at_once)
    topo = leaf_spine(hosts=8, tors=4, spines=2, uplink_rate="40Gbps")
    flows = ring_all_reduce(topo, bytes="400KB", chunks=chunks) + tree_all_reduce(topo, bytes="200KB", chunks=chunks, start="7us")
    for threads in (1, 2):
        run = simulate(topo, flows, "bfc", threads=threads, measure=Measure(sample="0s"))
        assert run.summary["flows_finished"] == len(flows)
        check_order(flows, *times(run))


def test_order_when_packets_are_lost():
    topo = star(hosts=6).with_loss(0.02)
    flows = ring_all_reduce(topo, bytes="300KB")
    run = simulate(topo, flows, "fifo", host=HostConfig(rto="100us"), measure=Measure(sample="0s"))
    assert run.summary["flows_finished"] == len(flows) and run.summary["retransmissions"] > 0
    check_order(flows, *times(run))


def test_a_start_time_after_the_parents_counts():
    topo = star(hosts=4)
    flows = flow_list(
        topo,
        [
            {"src": 0, "dst": 1, "bytes": 1000},
            {"src": 1, "dst": 2, "bytes": 1000, "start": "50us", "after": [0]},
            {"src": 1, "dst": 3, "bytes": 1000, "start": "20us", "after": [0]},
            {"src": 2, "dst": 3, "bytes": 1000, "start": "1us", "after": [1]},
        ],
    )
    run = simulate(topo, flows, "fifo")
    start, finish = times(run)
    check_order(flows, start, finish)
    assert sorted(start.tolist()) == sorted(
        [0, 20_000_000, 50_000_000, int(run.flows.filter(run.flows["dst"] == 2)["finish_ns"][0] * 1000)]
    )


def test_unstarted_flows_have_no_times():
    topo = star(hosts=4)
    flows = flow_list(topo, [{"src": 0, "dst": 1, "bytes": 10**6}, {"src": 1, "dst": 2, "bytes": 1000, "after": [0]}])
    run = simulate(topo, flows, "fifo", duration="10us", drain=False)
    assert run.flows["start_ns"].to_list() == [0.0, None] and run.flows["finish_ns"].to_list() == [None, None]
    assert run.summary["flows_started"] == 1


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_flow_starts_its_gap_after_the_last_of_its_parents(scheme, threads):
    """Compute between steps: three inputs of different sizes, then a result, sent after 7.25 us and after none."""
    topo = leaf_spine(hosts=8, tors=2, spines=2)
    inputs = [{"src": i, "dst": 0, "bytes": 20_000 * i, "start": f"{i}us"} for i in (1, 5, 6)]
    results = [{"src": 0, "dst": dst, "bytes": 9000, "after": [0, 1, 2], "gap": gap} for dst, gap in ((3, "7.25us"), (4, "0s"))]
    later = [{"src": 3, "dst": 2, "bytes": 500, "after": 3, "gap": "1us", "start": "1ms"}]
    flows = flow_list(topo, [*inputs, *results, *later])
    start, finish = times(simulate(topo, flows, scheme, threads=threads, measure=Measure(sample="0s")))
    number = {int(size): i for i, size in enumerate(flows.bytes) if size != 9000}
    ready = max(int(finish[number[20_000 * i]]) for i in (1, 5, 6))
    result, at_once = (int(np.flatnonzero((flows.bytes == 9000) & (flows.dst == dst))[0]) for dst in (3, 4))
    assert start[result] == ready + 7_250_000
    assert start[at_once] == ready
    assert start[number[500]] == 10**9 > finish[result] + 10**6


def test_a_pipeline_of_computations_takes_the_sum_of_its_parts():
    topo = star(hosts=4, rate="100Gbps", delay="1us")
    flows = flow_list(
        topo,
        [{"src": 0, "dst": 1, "bytes": 1000}]
        + [{"src": i, "dst": i + 1, "bytes": 1000, "after": i - 1, "gap": f"{10 * i}us"} for i in (1, 2)],
    )
    start, finish = times(simulate(topo, flows, "fifo", measure=Measure(sample="0s")))
    step = int(topo.ideal_fct_ps(0, 0, 1, 1000, 1)[0])
    assert list(start) == [0, step + 10**7, 2 * step + 3 * 10**7]
    assert finish[2] == 3 * step + 3 * 10**7


def test_a_gap_needs_a_flow_to_wait_for():
    topo = star(hosts=3)
    with pytest.raises(SpecError, match="it waits for none"):
        flow_list(topo, [{"src": 0, "dst": 1, "bytes": 1, "gap": "1us"}])
    with pytest.raises(SpecError, match=r"flows\.1\.gap"):
        flow_list(topo, [(0, 1, 1), {"src": 1, "dst": 2, "bytes": 1, "after": 0, "gap": "-1us"}])
