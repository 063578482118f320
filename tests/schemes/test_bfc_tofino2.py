"""BFC on Tofino2 against its transcription and against bfc: pipelines, late queue depths, recirculation, sampling."""

from collections import defaultdict, deque
from fractions import Fraction

import pytest
from helpers import PAUSE, check_bad, check_frames, check_threads, network, pauses_of, peers_of, planted, switch_rows, traced
from paper import bfc, bfc_tofino2
from test_bfc import crowd
from test_dqa import drawn

from penstock_net.composition import parse
from penstock_net.hashing import choice, flow_hash, node_seed
from penstock_net.sim.config import Measure
from penstock_net.sim.simulate import simulate
from penstock_net.topology import star
from penstock_net.workload import flow_list

NAME = "bfc_tofino2"
PIPELINES = 4
IDEAL = "bfc_tofino2:ideal"


def busy_nics(topo):
    """So many flows per NIC that the packets of a flow are about as far apart as the sticky time, which some of them exceed."""
    return flow_list(
        topo, [(src, (src + 1 + i) % 16, 6000 + 500 * i, f"{37 * i}ns") for src in range(0, 16, 2) for i in range(13)] * 3
    )


def model_of(topo, node, values):
    ports = [peers_of(topo)[node, p] for p in range(int(topo.port_count[node]))]
    draws = drawn(node)
    pipelines = []
    for i in range(PIPELINES):
        rate = sum(1 / Fraction(ps) for slot, (*_, ps) in enumerate(ports) if PIPELINES * slot // len(ports) == i) or 1
        header, cycle = (Fraction(values[name]) / rate for name in ("header_size", "cycle"))
        pipelines.append(bfc_tofino2.Pipeline(round(header / Fraction(str(values["bandwidth"]))), round(cycle)))
    return bfc_tofino2.Switch(
        values["queues"],
        [2 * delay for _, _, delay, _ in ports],
        [ps for *_, ps in ports],
        table_size=values["queues"] * values["table"] // PIPELINES,
        sticky_hrtts=values["sticky"],
        pipelines=pipelines,
        update_ps=values["update"],
        latency_ps=values["latency"],
        most=values["headers"],
        draw=lambda: next(draws) % values["queues"],
    )


def packet_of(row, values):
    h = flow_hash(row.flow, 1)
    entry = choice(~h if row.kind else h, node_seed(row.node, 1) + 1, values["queues"] * values["table"] // PIPELINES)
    number = int(flow_hash(row.flow * 1_000_003 + row.offset + row.kind, int(node_seed(row.node, 1)) + 4))
    sampled = number < values["recirculated"] * 2**31
    return bfc.Packet(row.in_port, row.port, int(entry), row.upstream_q, row.size, sampled=sampled)


def replay(topo, run, rows, parameters):
    """Assert each choice of a queue -> (frames of the transcription by switch and ingress, how often what happened)."""
    values, obeyed, sent = parse(NAME, parameters).values(NAME), pauses_of(run), defaultdict(list)
    seen = {"counts": 0, "does not": 0, "late": 0, "moved": 0}
    for node, mine in switch_rows(topo, rows).items():
        model, packets = model_of(topo, node, values), defaultdict(deque)
        arriving = {key: iter(got) for key, got in obeyed.items()}
        for row in mine:
            key, frames = (row.flow, row.offset, row.kind, row.port, row.queue), []
            if row.event == "receive":
                at, queue, paused = next(arriving[node, row.port])
                assert (at, paused) == (row.at, row.flow == PAUSE)
                frames = model.advance(at)
                (model.on_pause if paused else model.on_resume)(row.port, queue)
            elif row.event == "enqueue":
                p = packet_of(row, values)
                packets[key].append(p)  # after reordering there may be another one, sent again
                before = model.entry(p).q_assignment
                q, frames = model.on_enqueue(row.at, p)
                assert q == row.queue, row
                seen["counts" if p.counts else "does not"] += 1
                seen["moved"] += before not in (-1, q)
                seen["late"] += model.known_length[row.port][q] != model.q_length[row.port][q] - row.size
            elif row.event == "dequeue":
                frames = model.on_dequeue(row.at, packets[key].popleft())
            for at, frame in frames:
                sent[node, frame.ingress_port].append((at, frame.upstream_q, frame.kind == "pause"))
        for at, frame in model.advance(1 << 60):
            sent[node, frame.ingress_port].append((at, frame.upstream_q, frame.kind == "pause"))
    return sent, seen


HARDWARE = {
    "as declared": {},
    "4 queues": {"queues": 4},
    "rare updates": {"queues": 8, "update": "7us", "latency": "313ns"},
    "the present": {"queues": 8, "update": 0, "latency": "313ns"},
    "slow links": {"queues": 8, "header_size": 150, "latency": "1ps"},
    "slow pipelines": {"queues": 8, "cycle": 777, "latency": "1.7us"},
    "few headers": {"queues": 8, "headers": 20, "latency": "2.3us"},
    "half of the packets": {"queues": 8, "recirculated": 0.5},
    "few packets": {"queues": 8, "recirculated": 0.05, "update": "100ns"},
    "small table": {"queues": 12, "table": 4},
}


def check(traffic, parameters, scheme=NAME):
    """Assert every choice and every frame -> (number of frames, what happened how often)."""
    topo, parameters = network(), {"refresh": 0, **parameters}
    run, rows = traced(topo, traffic(topo), scheme, parameters)
    sent, seen = replay(topo, run, rows, parameters)
    return check_frames(run, topo, sent), seen


@pytest.mark.parametrize(
    "hardware, traffic",
    [*((name, crowd) for name in HARDWARE), *((name, busy_nics) for name in ("as declared", "few packets", "small table"))],
)
def test_every_decision_is_that_of_the_transcription(hardware, traffic):
    frames, seen = check(traffic, HARDWARE[hardware])
    assert seen["counts"] > 50 and (frames > 30 if traffic == crowd else seen["moved"] > 2 or hardware == "as declared"), seen
    assert (seen["does not"] > 0) == (hardware in ("few headers", "half of the packets", "few packets"))
    assert (seen["late"] > 100) == (hardware != "the present")


READINGS = {"rotating": ({"assignment": "rotating"}, {}), "reserved": ({"if_full": "unpaused"}, {"assignment": "reserved"})}


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize(
    "parameters", [{}, {"queues": 4}, {"queues": 8, "th_bytes": "9KB"}, {"queues": 8, "nic_queues": 2}], ids=str
)
def test_ideal_hardware_is_bfc(parameters, reading):
    """With a table in which no flows share an entry."""
    topo, measure = network(), Measure(sample="2us", pauses=True, port_series=True)
    runs = [
        simulate(topo, crowd(topo), parse(name, {**parameters, "table": table, **more}), measure=measure)
        for name, table, more in zip(("bfc", IDEAL), (2000, 8000), READINGS[reading])
    ]
    assert runs[0].pauses.height > 100
    for table in ("flows", "ports", "pauses"):
        assert getattr(runs[0], table).equals(getattr(runs[1], table)), table
    buffers = [run.switches.drop("active_flows") for run in runs]  # which bfc counts
    assert buffers[0].equals(buffers[1])


@pytest.mark.parametrize("assignment", ["stochastic", "single"])
def test_ideal_hardware_with_the_other_assignments(assignment):
    topo = network()
    tables = ("bfc", {"table": 2000}), (IDEAL, {"table": 8000})
    runs = [simulate(topo, crowd(topo), parse(name, {"queues": 8, "assignment": assignment, **more})) for name, more in tables]
    assert runs[0].flows.equals(runs[1].flows) and runs[0].ports.equals(runs[1].ports)


def test_without_updates_all_queues_seem_empty():
    """Nothing is paused, and each new flow gets the next queue of its pipeline."""
    topo = star(hosts=16)
    flows = flow_list(topo, [(1 + i, 0, 50_000, f"{i}us") for i in range(15)])
    run, rows = traced(topo, flows, NAME, {"queues": 8, "update": "1000s"})
    assert run.ports["pauses_sent"].sum() == 0
    queue = dict((row.in_port, row.queue) for row in reversed(rows) if row.event == "enqueue" and row.kind == 0)
    for i in range(PIPELINES):
        ports = [port for port in range(1, 16) if port // 4 == i]
        assert [queue[port] for port in ports] == [(2 * i + k) % 8 for k in range(len(ports))]


@pytest.mark.parametrize("latency_ps", [100_000, 1_234_567])
def test_a_resume_is_late_by_the_latency(latency_ps):
    """The first one, before which nothing differs: by the latency and the time that the control frame may wait for a packet."""
    topo = star(hosts=4)
    flows = flow_list(topo, [(i, 0, 400_000, "0us") for i in (1, 2, 3)])
    first = []
    for ps in (0, latency_ps):
        run = simulate(topo, flows, parse(IDEAL, {"latency": f"{ps}ps", "refresh": 0}), measure=Measure(sample="0s", pauses=True))
        first.append(min(at for got in pauses_of(run).values() for at, _, paused in got if not paused))
    assert abs(first[1] - first[0] - latency_ps) <= 84 * 80


def test_without_samples_nothing_is_paused():
    topo = network()
    run = simulate(topo, crowd(topo), parse(NAME, {"queues": 8, "recirculated": 0}))
    assert run.ports["pauses_sent"].sum() == 0 and run.summary["flows_finished"] == len(run.flows)


MISTAKES = {  # parameters, what is wrong
    "the present": ("as declared", "of_queue.depth = bytes", "of_queue.depth = queue.bytes"),
    "N_active of the present": ("slow pipelines", "of_port.active = active", "of_port.active = port.active"),
    "links without limit": ("slow links", "max(pipe.link_free, node.now) + pipe.link_time", "node.now + pipe.link_time"),
    "cycles without limit": ("slow pipelines", "max(pipe.cycle_free, node.now) + pipe.cycle_time", "node.now"),
    "headers take no cycle": ("slow pipelines", "pipe.cycle_free = node.now + pipe.cycle_time", "pipe.cycle_free = node.now"),
    "no latency": ("few headers", "pipe.link_free + tofino2.latency", "pipe.link_free"),
    "a header too many": ("few headers", "pipe.counted < tofino2.headers", "pipe.counted <= tofino2.headers"),
    "one flow table": ("small table", "pipeline * part + pick", "pick"),
    "one starting point": ("4 queues", "(mine.start[pipeline] + i) %", "(mine.start[0] + i) %"),
    "timestamps at dequeue only": (
        "few packets",
        "    entry.expires = node.now + my_node(tofino2, node).sticky\n    my_packet",
        "    my_packet",
    ),
    "timestamps at enqueue only": (
        "as declared",
        "    entry.size -= 1\n    entry.expires = node.now + my_node(tofino2, node).sticky\n",
        "    entry.size -= 1\n",
    ),
    "unsampled packets pause": ("half of the packets", "mine.entry >= 0 and exceeds", "exceeds"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found(tmp_path, mistake):
    hardware, right, wrong = MISTAKES[mistake]
    file = planted(tmp_path, NAME, right, wrong)
    with pytest.raises(AssertionError):
        for traffic in (crowd, busy_nics):
            check(traffic, HARDWARE[hardware], file)


def test_bitmaps_repair_what_was_lost():
    topo = network()
    measure = Measure(sample="5us", pauses=True)
    run = simulate(topo, crowd(topo), parse(NAME, {"queues": 8}), control_loss=0.2, measure=measure)
    assert run.summary["flows_finished"] == len(run.flows) and run.pauses.height > 100


def test_bad_parameters_are_refused():
    check_bad(NAME, {"recirculated": 1.5}, "0..1")
    check_bad(NAME, {"bandwidth": 0}, "0.001..1")
    check_bad(NAME, {"headers": 0}, "1..65536")
    check_bad(NAME, {"table": 3}, "4..10000")


@pytest.mark.parametrize("parameters", [{}, {"recirculated": 0.3, "headers": 50}], ids=["declared", "sampling"])
def test_any_number_of_threads_gives_the_same_results(parameters):
    run = check_threads(NAME, {"queues": 8, **parameters})
    assert run.ports["pauses_sent"].sum() > 0
