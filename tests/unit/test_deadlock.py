"""Deadlocks at the end of a run: what two looks at the stopped queues say, and what a run reports."""

import subprocess
import sys

import pytest
from test_topology_backpressure import ring

from penstock_net.composition import parse
from penstock_net.sim import deadlock
from penstock_net.sim.config import Measure
from penstock_net.sim.simulate import simulate
from penstock_net.topology import leaf_spine
from penstock_net.topology.backpressure import over_time
from penstock_net.workload import flow_list

INTERPRETED = """
import sys
if sys.argv[1:]:
    from penstock_net.sim.interpreted import install
    install()
from penstock_net.sim.simulate import simulate
from penstock_net.topology import leaf_spine
from penstock_net.workload import flow_list
topo = leaf_spine(hosts=8, tors=4, spines=2, buffer="300KB")
failed = [{"time": "1ps", "a": tor, "b": spine, "up": False} for tor, spine in (("tor0", "spine0"), ("tor1", "spine1"))]
pairs = [(2 * tor + i, 2 * to + i, "60KB", "1us") for tor, to in ((0, 1), (1, 0), (2, 3), (3, 2)) for i in (0, 1)]
topo = topo.with_changes(failed)
print(simulate(topo, flow_list(topo, pairs * 2), "pfc", max_time_ps=10**9).summary["deadlock"])
"""
US = 10**6
ACK = 1


def bouncing(**more):
    """ToRs 0 and 1 reach each other by way of ToRs 2 and 3 only; 1 MB from every host of a ToR to those of another one."""
    topo = leaf_spine(hosts=16, tors=4, spines=2, buffer="1MB", **more)
    failed = [{"time": "1ps", "a": tor, "b": spine, "up": False} for tor, spine in (("tor0", "spine0"), ("tor1", "spine1"))]
    topo = topo.with_changes(failed)
    pairs = [(4 * tor + i, 4 * to + i) for tor, to in ((0, 1), (1, 0), (2, 3), (3, 2)) for i in range(4)]
    return topo, flow_list(topo, [(src, dst, "1MB", "1us") for src, dst in pairs])


@pytest.fixture(scope="module")
def stuck():
    topo, flows = bouncing()
    return topo, simulate(topo, flows, "pfc", max_time_ps=10_000 * US)


def port(topo, name, to):
    """The egress of a node towards another one."""
    node, peer = topo.node(name), topo.node(to)
    return node, next(p for p in range(int(topo.port_count[node])) if deadlock.far_ends(topo)[node, p][0] == peer)


def rows_of(topo, *egresses, first=(0, 0, 0), last=5):
    """A stopped queue at each of these egresses, (node, to, from): its packets came from a neighbour."""
    found = []
    for name, to, source in egresses:
        node, egress = port(topo, name, to)
        found.append((node, egress, 0, first, last, [port(topo, name, source)[1]]))
    return found


CIRCLE = [("tor2", "spine0", "spine1"), ("spine0", "tor3", "tor2"), ("tor3", "spine1", "spine0"), ("spine1", "tor2", "tor3")]


def test_a_circle_of_queues_that_have_not_moved():
    topo, _ = bouncing()
    found = deadlock.find(topo, rows_of(topo, *CIRCLE), [*rows_of(topo, *CIRCLE[:3]), *rows_of(topo, CIRCLE[3], last=9)])
    assert found.since_ps == 9 and len(found.egresses) == 4
    names = found.names(topo)
    start = names.index("tor2 -> spine0")
    turned = [*names[start:], *names[:start]]
    assert turned == ["tor2 -> spine0", "spine0 -> tor3", "tor3 -> spine1", "spine1 -> tor2"], "each waits for the next one"


def test_a_deadlock_begins_with_the_last_packet_of_any_queue():
    """Two queues of one port are in the circle: the later packet counts, whichever of them is listed first."""
    topo, _ = bouncing()
    node, egress, _, first, _, ingresses = rows_of(topo, CIRCLE[0])[0]
    two = [(node, egress, queue, first, last, ingresses) for queue, last in ((0, 9), (1, 5))]
    stopped = [*two, *rows_of(topo, *CIRCLE[1:])]
    assert deadlock.find(topo, stopped, stopped).since_ps == deadlock.find(topo, stopped[::-1], stopped[::-1]).since_ps == 9


@pytest.mark.parametrize("gone", range(4))
def test_a_circle_with_a_queue_that_moves_is_none(gone):
    topo, _ = bouncing()
    rest = CIRCLE[:gone] + CIRCLE[gone + 1 :]
    before = rows_of(topo, *CIRCLE)
    assert deadlock.find(topo, before, rows_of(topo, *rest)) is None
    moved = rows_of(topo, *rest) + rows_of(topo, CIRCLE[gone], first=(0, 1000, 0))
    assert deadlock.find(topo, before, moved) is None


def test_a_circle_of_several_priorities_is_none():
    """Where priorities are paused apart, the queues of a circle are of one priority."""
    topo, _ = bouncing()
    of = lambda egresses, queue: [(*row[:2], queue, *row[3:]) for row in rows_of(topo, *egresses)]  # noqa: E731
    mixed = of(CIRCLE[:2], 1) + of(CIRCLE[2:], 2)
    assert deadlock.find(topo, mixed, mixed, by_priority=True) is None
    assert deadlock.find(topo, mixed, mixed).priority is None, "other schemes' queues pause one another"
    whole = mixed + of(CIRCLE, 6)
    found = deadlock.find(topo, whole, whole, by_priority=True)
    assert found.priority == 6 and len(found.egresses) == 4
    assert found.text(topo).startswith("deadlock of priority 6 since") and found.record(topo)["priority"] == 6


def test_a_chain_is_no_circle():
    topo, _ = bouncing()
    chain = rows_of(topo, *CIRCLE[:3], ("spine1", "tor2", "tor0"))
    assert deadlock.find(topo, chain, chain) is None


def test_a_run_reports_its_deadlock(stuck):
    topo, run = stuck
    found = run.summary["deadlock"]
    assert set(found["names"]) in [{graph_name(topo, egress) for egress in cycle} for cycle in failed(topo).cycles]
    assert [run.frame("nodes")["name"][node] for node, _ in found["egresses"]] == [n.split(" -> ")[0] for n in found["names"]]
    assert 0 < found["since_ns"] < 1_000_000
    assert sum("deadlock since" in warning for warning in run.summary["warnings"]) == 1


def failed(topo):
    return next(graph for graph in over_time(topo) if graph.down)


def graph_name(topo, egress):
    return failed(topo).name(egress)


def test_it_waits_along_edges_of_the_backpressure_graph(stuck):
    """An egress of the report waits for the next one, which pauses it."""
    topo, run = stuck
    egresses = [tuple(egress) for egress in run.summary["deadlock"]["egresses"]]
    assert {(b, a) for a, b in zip(egresses, [*egresses[1:], egresses[0]])} <= failed(topo).edges


def test_the_last_packet_came_when_the_pauses_say():
    topo, flows = bouncing()
    run = simulate(topo, flows, "pfc", max_time_ps=10_000 * US, measure=Measure(pauses=True, packets=True, sample="0s"))
    found = run.summary["deadlock"]
    rows = run.extra["packets"].filter(event="enqueue")
    latest = max(rows.filter(node=node, port=p)["time_ns"].max() for node, p in found["egresses"])
    assert found["since_ns"] == latest


@pytest.mark.parametrize("elide", [False, True])
def test_a_ring_with_one_queue_per_port(elide):
    """Within a tier, above is a higher number."""
    topo = ring(5)
    flows = flow_list(topo, [(i, (i + far) % 5, "200KB", "1us") for i in range(5) for far in (1, 2, 2, 2)])
    run = simulate(topo, flows, parse("bfc", {"assignment": "single", "elide": elide}), max_time_ps=40_000 * US)
    assert (run.summary["deadlock"] is None) == elide == (run.summary["flows_finished"] == len(flows))


@pytest.mark.parametrize("scheme", ["bfc", "ideal_fq"])
def test_runs_without_one(scheme):
    topo, flows = bouncing()
    run = simulate(topo, flows, scheme, max_time_ps=10_000 * US)
    assert run.summary["deadlock"] is None and run.summary["flows_finished"] == len(flows)


def test_a_run_that_is_cut_off_while_it_moves_has_none():
    topo = leaf_spine(hosts=16, tors=4, spines=2, buffer="1MB")
    flows = flow_list(topo, [(src, 0, "2MB", "0us") for src in range(1, 16)])
    run = simulate(topo, flows, parse("pfc"), duration="300us", drain=False)
    assert run.summary["pfc_pause_fraction"] > 0 and run.summary["deadlock"] is None


def test_the_interpreted_core_finds_the_same():
    runs = [
        subprocess.run([sys.executable, "-B", "-c", INTERPRETED, *given], capture_output=True, text=True) for given in ([], ["x"])
    ]
    assert runs[0].stdout == runs[1].stdout and "tor2" in runs[0].stdout, runs[1].stderr[-2000:]
