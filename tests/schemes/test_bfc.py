"""Backpressure against the paper's transcription: every pause and resume, every choice of a queue and of a packet."""

from collections import defaultdict

import polars as pl
import pytest
from helpers import (
    PAUSE,
    QUANTUM,
    QUEUED_ACKS,
    US,
    LazyDRR,
    bouncing,
    check_alone,
    check_bad,
    check_frames,
    check_threads,
    incast,
    network,
    outcome,
    pauses_of,
    peers_of,
    switch_rows,
    traced,
)
from test_dqa import ASSIGNMENTS, RANDOM, model_of, packet_of

from penstock_net.composition import parse
from penstock_net.sim.config import HostConfig, Measure
from penstock_net.sim.simulate import simulate
from penstock_net.topology import star
from penstock_net.workload import flow_list


def one_level(values):
    """The scheduler of a port: all queues in one round."""
    return LazyDRR(values["queues"], QUANTUM)


def replay(topo, run, rows, scheme, parameters=None, model_of=model_of, packet_of=packet_of, link_of=one_level):
    """-> (switch, ingress) -> frames that the transcription sends: (time, upstream queue, whether a pause)."""
    values, obeyed, sent = parse(scheme, parameters).values("dqa"), pauses_of(run), defaultdict(list)
    for node, mine in switch_rows(topo, rows).items():
        model, packets, frames = model_of(topo, node, values), {}, []
        if parse(scheme, parameters).values("bfc")["elide"]:
            upwards = [
                port for port in range(int(topo.port_count[node])) if topo.tier[peers_of(topo)[node, port][0]] > topo.tier[node]
            ]
            model.no_backpressure = {(a, b) for a in upwards for b in upwards}
        arriving = {key: iter(got) for key, got in obeyed.items()}
        links = [link_of(values) for _ in range(int(topo.port_count[node]))]
        for row in mine:
            key = row.flow, row.offset, row.kind
            if row.event == "receive":
                at, queue, paused = next(arriving.get((node, row.port), iter(())), (None, 0, False))
                assert (at, paused) == (row.at, row.flow == PAUSE), f"{row}: it had no effect"
                (model.on_pause if paused else model.on_resume)(row.port, queue)
                (links[row.port].pause if paused else links[row.port].resume)(queue)
                continue
            if row.event == "enqueue":
                p = packets[key] = packet_of(row, run.flows, values)
                q, frames = model.on_enqueue(row.at, p, row.queue)
                assert q == row.queue, row
                links[row.port].enqueue(row.queue, row.size)
            elif row.event == "dequeue":
                frames = model.on_dequeue(row.at, packets.pop(key))
                assert links[row.port].dequeue() == (row.queue, row.size), row
            for frame in frames:
                sent[node, frame.ingress_port].append((row.at, frame.upstream_q, frame.kind == "pause"))
    return sent


def crowd(topo):
    return incast(
        topo,
        range(3, 16),
        size=[60_000 + 1700 * i for i in range(13)],
        every_ns=400,
        more=[(i, 15 - i, 90_000, f"{3 * i}us") for i in range(8)],
    )


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"queues": 4},
        {"queues": 100, "nic_queues": 2},
        *({"queues": 8, "assignment": name} for name in ASSIGNMENTS),
        *({"queues": 5, "assignment": name, "if_full": "unpaused"} for name in RANDOM),
    ],
    ids=["32", "4", "100", *ASSIGNMENTS, *(f"{name} if full unpaused" for name in RANDOM)],
)
def test_every_decision_is_the_paper_s(parameters):
    topo, parameters = network(), {**parameters, "refresh": 0}
    run, rows = traced(topo, crowd(topo), "bfc", parameters)
    sent = replay(topo, run, rows, "bfc", parameters)
    assert check_frames(run, topo, sent) > 100
    nodes = {node for node, _ in pauses_of(run)}
    assert min(nodes) < topo.hosts <= max(nodes)  # NICs were paused, and switches


def test_bitmaps_are_sent_as_long_as_a_queue_is_paused():
    """25 packets under way when the pause comes, of which the receiver takes one in 0.84 ms: for 3 ms, every 10 us."""
    topo = star(hosts=2).with_changes([{"time": "1ps", "a": "host1", "b": "switch0", "rate": "10Mbps"}])
    run = simulate(topo, flow_list(topo, [(0, 1, 200_000)]), parse("bfc", {"refresh": "10us"}), duration="3ms", drain=False)
    frames = run.ports.filter((pl.col("node") == 2) & (pl.col("port") == 0))["control_bytes"].item() / 64
    assert frames >= 295


def test_acknowledgements_in_the_data_queues():
    topo = network()
    run, rows = traced(topo, crowd(topo), "bfc", {"refresh": 0}, host=QUEUED_ACKS)
    assert check_frames(run, topo, replay(topo, run, rows, "bfc", {"refresh": 0})) > 100


def test_bitmaps_change_nothing_when_no_frame_is_lost():
    """The pauses that took effect are those of the counters alone."""
    topo = network()
    runs = [traced(topo, crowd(topo), "bfc", {"refresh": period})[0] for period in (0, "10us")]
    assert set(pauses_of(runs[0])) == set(pauses_of(runs[1]))
    counts = [int(run.ports["pauses_sent"].sum()) for run in runs]
    assert counts[0] > 50 and abs(counts[0] - counts[1]) < 0.1 * counts[0]


def test_bitmaps_repair_what_was_lost():
    topo = network()
    run = simulate(topo, crowd(topo), parse("bfc"), control_loss=0.2, measure=Measure(sample="5us", pauses=True))
    assert run.summary["flows_finished"] == len(run.flows) and run.pauses.height > 100


def test_queues_stay_about_a_one_hop_bdp():
    """Section 3.3.2: what a queue holds is bounded by Th and what comes in one HRTT after the pause."""
    topo = network()
    run, rows = traced(topo, crowd(topo), "bfc")
    fifo, _ = traced(topo, crowd(topo), "fifo")
    assert max(row.queue_bytes for row in rows) < 25_000 + 2 * 25_000 + 3000
    assert run.summary["max_buffer_bytes"] < 0.5 * fifo.summary["max_buffer_bytes"]
    assert run.summary["drops"] == 0


def test_the_threshold_is_a_parameter():
    topo = network()
    thresholds = {"th": 4.0}, {}, {"th_bytes": "3KB"}
    pauses = [traced(topo, crowd(topo), "bfc", p)[0].ports["pauses_sent"].sum() for p in thresholds]
    assert pauses[0] < pauses[1] < pauses[2]


# Elided edges (appendix B)


def test_elided_edges_are_those_of_packets_that_turn_upwards():
    """The transcription, told which pairs of ports have no backpressure, sends the same frames; some are missing."""
    topo, flows = bouncing(size="200KB")
    frames = []
    for elide in (False, True):
        given = {"refresh": 0, "elide": elide, "queues": 4}
        run, rows = traced(topo, flows, "bfc", given)
        frames.append(check_frames(run, topo, replay(topo, run, rows, "bfc", given)))
    assert frames[0] != frames[1] > 100


def test_without_a_turn_upwards_nothing_is_elided():
    topo = network()
    runs = [simulate(topo, crowd(topo), parse("bfc", {"elide": elide, "queues": 8})) for elide in (False, True)]
    assert outcome(runs[0]) == outcome(runs[1]) and runs[0].ports["pauses_sent"].sum() > 100


@pytest.mark.parametrize("elide", [False, True])
def test_one_queue_deadlocks_unless_edges_are_elided(elide):
    topo, flows = bouncing()
    scheme = parse("bfc", {"assignment": "single", "elide": elide})
    runs = [simulate(topo, flows, scheme, threads=n, max_time_ps=4_000 * US) for n in (1, 2)]
    assert outcome(runs[0]) == outcome(runs[1])
    assert (runs[0].summary["flows_finished"] == len(flows)) == elide == (runs[0].summary["deadlock"] is None)


def test_a_lone_flow_finishes_in_the_ideal_time():
    check_alone("bfc")


def test_any_number_of_threads_gives_the_same_results():
    run = check_threads("bfc", {"queues": 8})
    assert run.ports["pauses_sent"].sum() > 0


def test_parts_and_presets():
    assert list(parse("bfc").parts) == ["dqa", "bfc"] and list(parse("bfc", {"dqa": False}).parts) == ["bfc"]


def test_bad_parameters_are_refused():
    check_bad("bfc", {"nic_queues": 0}, "1..1024")
    check_bad("bfc", {"refresh": "10 parsecs"}, "unit")
    check_bad("bfc", {"tickle": 1}, "tickle: .* no such parameter")


@pytest.mark.parametrize("scheme, parameters", [("bfc", {"queues": 4}), ("pfc", {"alpha": 0.02})])
@pytest.mark.parametrize("down", range(8, 24, 2))
def test_a_host_whose_uplink_fails_while_it_is_paused_sends_once_it_is_back(scheme, parameters, down):
    """What ends the pause waits at the switch, or is sent again: also a resume that is lost on the wire, as at 20 us."""
    changes = [{"time": f"{t}us", "a": "host4", "b": "tor1", "up": t > down} for t in (down, 300)]
    topo = network(buffer="2MB").with_changes(changes)
    flows = flow_list(topo, [*((i, 0, 300_000) for i in range(4, 16)), (4, 15, 300_000)])
    measure, host = Measure(sample="0s", pauses=True), HostConfig(rto="200us")
    run = simulate(topo, flows, parse(scheme, parameters), measure=measure, host=host, max_time_ps=10**11)
    last = {queue: (at, paused) for at, node, _, queue, paused in run.pauses.iter_rows() if node == 4 and at < 300_000}
    assert any(paused for _, paused in last.values())
    assert run.summary["flows_finished"] == len(flows) and run.flows["fct_ns"].max() < 400_000
