"""Ideal-FQ: a queue for every active flow, served one packet each in turn, close to the fluid it stands for."""

from collections import defaultdict

import pytest
from helpers import (
    QUANTUM,
    LazyDRR,
    check_alone,
    check_bad,
    check_threads,
    incast,
    network,
    planted,
    switch_rows,
    traced,
)
from paper import ideal_fq

from penstock_net.composition import FOLDER, parse
from penstock_net.sim.config import HostConfig, Measure
from penstock_net.sim.simulate import simulate
from penstock_net.topology import star
from penstock_net.workload import flow_list


def crowd(topo):
    return incast(
        topo,
        range(3, 16),
        size=[20_000 + 3000 * i for i in range(13)],
        every_ns=200,
        more=[*((i, 15 - i, 50_000, f"{2 * i}us") for i in range(8)), *((7, 0, 900, f"{i}us") for i in range(30))],
    )


def replay(topo, rows, queues):
    """Assert that flows and queues belong together, and the order of service -> most flows at a port, shared queues."""
    most, shared = 0, 0
    for mine in switch_rows(topo, rows).values():
        links, holders, left = defaultdict(lambda: LazyDRR(queues, QUANTUM)), defaultdict(dict), defaultdict(int)
        for row in mine:
            link = links[row.port]
            key, held = (row.flow, row.kind), holders[row.port]
            if row.event == "enqueue":
                if key not in held:
                    taken = set(held.values())
                    assert row.queue not in taken or len(taken) == queues, "shared while there were others"
                    shared += row.queue in taken
                    held[key] = row.queue
                assert row.queue == held[key]
                left[row.port, key] += 1
                link.enqueue(row.queue, row.size)
                most = max(most, len(held))
            elif row.event == "dequeue":
                assert row.queue == held[key] and link.dequeue() == (row.queue, row.size)
                left[row.port, key] -= 1
                if not left[row.port, key]:
                    del held[key]
    return most, shared


@pytest.mark.parametrize("queues", [64, 2, 1])
@pytest.mark.parametrize("acks", ["control", "data"])
def test_a_queue_for_every_flow(queues, acks):
    topo = network()
    run, rows = traced(topo, crowd(topo), "ideal_fq", {"queues": queues}, host=HostConfig(ack_priority=acks))
    most, shared = replay(topo, rows, queues)
    assert most >= 13 and (shared > 0) == (queues < 13)
    assert run.summary["drops"] == 0


MISTAKES = {
    "queues are shared too soon": ("if mine.unused < ideal_fq.queues:", "if mine.unused < 8:"),
    "a queue is free before its last packet": ("    if queue.length == 0:\n", "    if queue.length == 1:\n"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found(tmp_path, mistake):
    topo, file = network(), planted(tmp_path, "ideal_fq", *MISTAKES[mistake])
    _, rows = traced(topo, crowd(topo), file, {"queues": 64}, host=HostConfig(ack_priority="data"))
    with pytest.raises(AssertionError):
        replay(topo, rows, 64)


def test_thousands_of_flows_at_one_port():
    """The table of active flows under load, with places taken and given back in any order."""
    topo = star(hosts=40)
    flows = flow_list(topo, [(1 + i % 39, 0, 1000 + i % 1700, f"{i // 1500}us") for i in range(6000)])
    run, rows = traced(topo, flows, "ideal_fq")
    most, shared = replay(topo, rows, 8192)
    assert most > 3000 and not shared and run.summary["drops"] == 0


def test_a_table_that_is_nearly_full(tmp_path):
    """The same scheme with 64 places for its active flows: most are not at the index of their hash."""
    source = (FOLDER / "ideal_fq.py").read_text()
    tight = tmp_path / "tight.py"
    for old, new in [("BITS = 16 ", "BITS = 6 "), ("MASK = 65535", "MASK = 63"), ("MOST = 60000", "MOST = 62")]:
        assert old in source
        source = source.replace(old, new)
    tight.write_text(source)
    topo = star(hosts=40)
    flows = flow_list(topo, [(1 + 7 * i % 39, 0, 1000 + 997 * i % 3000, f"{i * 90}ns") for i in range(400)])
    _, rows = traced(topo, flows, str(tight), {"queues": 256})
    most, shared = replay(topo, rows, 256)
    assert 40 < most <= 62 and not shared


def test_active_flows_are_counted():
    topo = network()
    run = simulate(topo, crowd(topo), "ideal_fq", measure=Measure(sample="0.5us"))
    assert 10 <= run.switches["active_flows"].max() <= 44
    assert run.extra["active_flows"]["active_flows"].max() == run.switches["active_flows"].max()


def test_close_to_the_fluid():
    """Finishing times are those of generalised processor sharing, to a few packets."""
    topo = star(hosts=9)
    flows = flow_list(topo, [(i, 0, 40_000 * i, f"{10 * i}us") for i in range(1, 9)])
    run = simulate(topo, flows, "ideal_fq")
    wire = [(int(s), int(b) // 1000 * 1048) for s, b in zip(flows.start_ps, flows.bytes)]
    fluid = ideal_fq.fluid(wire, 1 / 80)
    latency = 2_000_000 + 1048 * 80
    for got, ideal in zip(run.flows["finish_ns"], fluid.finish):
        assert abs(got * 1000 - latency - ideal) <= 10 * 1048 * 80


def test_the_buffer_has_no_limit():
    topo = network(buffer="50KB")
    run = simulate(topo, crowd(topo), "ideal_fq")
    assert run.summary["drops"] == 0 and run.summary["max_buffer_bytes"] > 50_000


def test_a_lone_flow_finishes_in_the_ideal_time():
    check_alone("ideal_fq")


def test_any_number_of_threads_gives_the_same_results():
    check_threads("ideal_fq")
    check_threads("ideal_fq", {"queues": 3})


def test_parts_and_presets():
    assert list(parse("ideal_fq").parts) == ["window_cap", "ideal_fq"]
    assert list(parse("ideal_fq", {"window_cap": False}).parts) == ["ideal_fq"]


def test_bad_parameters_are_refused():
    check_bad("ideal_fq", {"queues": 0}, "1..16384")
    check_bad("ideal_fq+dqa", None, "both choose the queue")
