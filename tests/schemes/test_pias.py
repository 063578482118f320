"""PIAS: the level of every packet, strict priority among them, marks by port, the end of starvation; over DCTCP."""

from collections import defaultdict

import pytest
from helpers import DATA, QUEUED_ACKS, check_alone, check_bad, check_threads, outcome, planted, traced
from paper import pias

from penstock_net.composition import parse
from penstock_net.sim.config import HostConfig, Measure
from penstock_net.sim.simulate import simulate
from penstock_net.topology import star
from penstock_net.workload import flow_list

SETTINGS = {"thresholds": ["5KB", "20KB", "20500B", "80KB"], "k": "30KB", "ecn.k_min": "1GB", "ecn.k_max": "1GB"}
THRESHOLDS = [5_000, 20_000, 20_500, 80_000]


def crowd(topo):
    return flow_list(topo, [(i, 0, 20_000 * i + 999, f"{5 * i}us") for i in range(1, 8)] + [(8, 1, 120_000, "3us")])


def run_crowd(scheme, parameters=None):
    topo = star(hosts=9)
    return traced(topo, crowd(topo), scheme, parameters or SETTINGS, host=QUEUED_ACKS)


def check_against_the_transcription(rows, k=30_000):
    """Every packet's queue, mark and turn at every port of the switch; ACKs are at the level of their packet."""
    ports = defaultdict(lambda: pias.Port(k))
    levels, marks = set(), 0
    for r in rows:
        port = ports[r.port]
        if r.event == "enqueue":
            level = pias.level(r.offset, THRESHOLDS) if r.kind == DATA else r.queue
            assert r.queue == level, f"flow {r.flow} at {r.offset}: level {r.queue}"
            levels.add(r.queue)
            port.enqueue((r.flow, r.offset, r.kind), level, r.size)
        elif r.event == "dequeue":
            packet, marked = port.dequeue()
            assert packet == (r.flow, r.offset, r.kind)
            if r.kind == DATA:
                assert r.ecn == marked
                marks += marked
    return levels, marks


def test_every_level_every_turn_and_every_mark():
    run, rows = run_crowd("pias")
    levels, marks = check_against_the_transcription(rows)
    assert levels == {0, 1, 2, 3, 4} and marks == run.ports["ecn_marks"].sum() > 50


MISTAKES = {
    "a packet late": ("sent >= pias.thresholds", "sent > pias.thresholds"),
    "by queue": ("port.bytes > pias.k", "queue.bytes > pias.k"),
    "one level for all": ("    return level\n", "    return 0\n"),
    "the mark": ("port.bytes > pias.k", "port.bytes >= pias.k + 1048"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found(tmp_path, mistake):
    file = planted(tmp_path, "pias", *MISTAKES[mistake])
    _, rows = run_crowd(file)
    with pytest.raises(AssertionError):
        check_against_the_transcription(rows)


def sent_by_one_host(scheme, nic):
    """Flows of one host that begin one after the other, as (flow, offset) in the order of the wire; no window, no marks."""
    topo = star(hosts=6)
    sizes = [100_000, 30_000, 90_000, 3_000, 25_000]
    flows = flow_list(topo, [(0, 1 + i, size, f"{500 * i}ns") for i, size in enumerate(sizes)])
    settings = {**SETTINGS, "k": "1GB", "dctcp.w_max": "1MB", "nic": nic}
    _, rows = traced(topo, flows, scheme, settings)
    return sizes, [(r.at, r.flow, r.offset) for r in rows if r.event == "enqueue" and r.kind == DATA]


def check_against_the_nic(scheme, nic):
    """A packet is at the switch as long after the NIC chose it as the first one."""
    sizes, rows = sent_by_one_host(scheme, nic)
    assert sum(sizes) // 1000 == len(rows)
    model, begun = pias.Nic(THRESHOLDS, 1000), 0
    for at, flow, offset in rows:
        while begun < len(sizes) and 500_000 * begun <= at - rows[0][0]:
            model.wait(begun, sizes[begun], 0)
            begun += 1
        assert model.send() == (flow, offset)


def test_a_nic_sends_by_level_and_in_turn():
    check_against_the_nic("pias", "levels")


NIC_MISTAKES = {
    "no turns": ("    turns.turns += 1\n", "    turns.turns += 0\n"),
    "no levels": ("my_flow(pias, flow).since) * A_LEVEL", "my_flow(pias, flow).since) * 0"),
    "of the packet before": ("level_of(pias, flow.sent - my", "level_of(pias, max(flow.sent - 1000, 0) - my"),
}


@pytest.mark.parametrize("mistake", NIC_MISTAKES)
def test_a_mistake_of_the_nic_is_found(tmp_path, mistake):
    with pytest.raises(AssertionError):
        check_against_the_nic(planted(tmp_path, "pias", *NIC_MISTAKES[mistake]), "levels")


def test_by_default_a_nic_serves_flows_in_turn():
    with pytest.raises(AssertionError):
        check_against_the_nic("pias", "turns")


def test_without_thresholds_it_is_dctcp():
    """Marks by port are those by queue then."""
    topo = star(hosts=9)
    marks = {"ecn.k_min": "30KB", "ecn.k_max": "30KB"}
    runs = [
        simulate(topo, crowd(topo), parse(scheme, {**marks, **more}), measure=Measure(sample="5us"))
        for scheme, more in (("dctcp", {}), ("pias", {"thresholds": [], "k": "1GB"}), ("pias", {"thresholds": [], "k": "30KB"}))
    ]
    assert outcome(runs[0]) == outcome(runs[1])
    assert runs[0].ports["ecn_marks"].sum() > 50 and runs[2].ports["ecn_marks"].sum() > 50


def test_short_flows_end_sooner_than_under_dctcp():
    topo = star(hosts=9)
    flows = flow_list(topo, [(1, 0, 3_000_000, "0us"), *((2 + i, 0, 20_000, f"{60 + 20 * i}us") for i in range(7))])
    settings = {"ecn.k_min": "60KB", "ecn.k_max": "60KB"}
    short = {}
    for scheme in ("dctcp", "pias"):
        frame = simulate(topo, flows, parse(scheme, settings)).flows
        short[scheme] = frame.filter(frame["bytes"] == 20_000)["slowdown"].mean()
    assert short["pias"] < 1.1 and short["dctcp"] > 1.3


def starved(timeouts):
    """A long flow at the second level, and a link full of others at the first."""
    topo = star(hosts=6)
    flows = flow_list(topo, [(1, 0, 60_000, "0us"), *((2 + i % 4, 0, 40_000, f"{i * 3}us") for i in range(400))])
    settings = {"thresholds": ["40KB"], "timeouts": timeouts}
    return simulate(topo, flows, parse("pias", settings), host=HostConfig(rto="50us")).flows["fct_ns"][0]


def test_a_flow_that_starves_is_at_the_highest_level_again():
    assert starved(2) < 0.7 * starved(0)


def test_a_lone_flow_takes_the_ideal_time():
    check_alone("pias")
    check_alone("pias:data_mining")


def test_any_number_of_threads_gives_the_same_results():
    check_threads("pias", SETTINGS)


def test_presets():
    """In packets of 1460 B, as the authors' simulation states them."""
    of = {name: parse(name).values("pias")["thresholds"] for name in ("pias", "pias:data_mining")}
    assert [t / 1460 for t in of["pias"]] == [46, 1084, 1717, 1943, 1989, 1999, 2001]
    assert [t / 1460 for t in of["pias:data_mining"]] == [745, 1083, 1391, 13689, 14936, 21149, 27245]
    assert list(parse("pias").parts) == ["ecn", "pfc", "dctcp", "pias"]


def test_bad_parameters_are_refused():
    check_bad("pias", {"thresholds": [1] * 8}, "list of at most 7")
    check_bad("pias", {"thresholds": [-1]}, "-1")
    check_bad("pias", {"timeouts": 7}, "0..6")
