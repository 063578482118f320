"""DCQCN's lazy clocks against real timers: the pace of every packet, the window at every sample."""

from itertools import pairwise

import pytest
from helpers import QUEUED_ACKS, acted, check_alone, check_bad, check_sending, check_threads, check_windows, senders, traced
from paper import dcqcn

from penstock.composition import parse
from penstock.sim.config import Measure
from penstock.topology import star
from penstock.workload import flow_list

MEASURE = Measure(sample="0.2us", packets=True, flow_series=True, flows=False)
MARKS = {"k_min": "10KB", "k_max": "60KB", "per": 0}


def model_of(values, start):
    return dcqcn.Sender(
        start,
        dcqcn.Parameters(
            1e11,
            values["g"],
            values["alpha_interval"],
            values["decrease_interval"],
            values["increase_interval"],
            values["fast_recovery"],
            values["r_ai"],
            values["r_hai"],
            values["min_rate"],
            bool(values["cut_at_once"]),
            bool(values["clamp_target"]),
        ),
    )


def crowd(topo, senders=4, size=400_000):
    return flow_list(topo, [(i, 0, size * i, f"{7 * i}us") for i in range(1, senders + 1)])


def rates(topo, flows, rows, values):
    """Flow -> its rate at each departure and after each ACK, by timers that really fire; how many steps there were."""
    sent, acks = senders(topo, flows, rows)
    out, seen = {}, {"cuts": 0, "increases": 0, "stage": 0}
    for flow, mine in sent.items():
        model, out[flow] = model_of(values, int(flows.start_ps[flow])), {}
        touched = [(p.at, 1, None) for p in mine] + [(a.at, 0, a) for a in acks[flow]]
        for at, _, what in sorted(touched, key=lambda x: x[:2]):
            before = model.rate
            if what:
                model.on_ack(at, what.ecn)
            out[flow][at] = model.rate_at(at)
            seen["cuts"] += model.rate < before
            seen["increases"] += model.rate > before
            seen["stage"] = max(seen["stage"], model.stage)
    return sent, acks, out, seen


CASES = {
    "paper": ("dcqcn", MARKS),
    "ns3": ("dcqcn:ns3", MARKS),
    "ns3_paper": ("dcqcn:ns3_paper", MARKS),
    "config": ("dcqcn:config", MARKS),
    "all phases": (
        "dcqcn",
        {
            **MARKS,
            "increase_interval": "9us",
            "fast_recovery": 2,
            "r_ai": "300Mbps",
            "r_hai": "2Gbps",
            "alpha_interval": "3us",
            "decrease_interval": "60us",
            "g": 0.1,
        },
    ),
    "one instant": (
        "dcqcn",
        {
            **MARKS,
            "alpha_interval": "1us",
            "decrease_interval": "5us",
            "increase_interval": "5us",
            "clamp_target": False,
            "g": 0.03,
        },
    ),
    "no cut at once": ("dcqcn", {**MARKS, "cut_at_once": False, "min_rate": "2Gbps"}),
}


@pytest.mark.parametrize("case", CASES)
def test_every_departure(case):
    scheme, parameters = CASES[case]
    topo = star(hosts=5, buffer="100MB")
    flows = crowd(topo)
    run, rows = traced(topo, flows, scheme, parameters, measure=MEASURE, host=QUEUED_ACKS)
    assert run.ports["pauses_sent"].sum() == 0 and run.ports["ecn_marks"].sum() > 100
    sent, acks, rate, seen = rates(topo, flows, rows, parse(scheme, parameters).values("dcqcn"))
    for flow, mine in sent.items():
        windows = [2**60] * (len(acks[flow]) + 1)
        check_sending(mine, acks[flow], windows, lambda _, at, flow=flow: 8e12 / rate[flow][at])
    assert seen["cuts"] > 4
    if case == "all phases":
        assert seen["increases"] > 50 and seen["stage"] > 4
    assert acted(run)


def test_the_window_follows_the_rate():
    """DCQCN+win: the window is what the rate was when the flow last sent or was acknowledged."""
    topo, parameters = star(hosts=5), {**MARKS, "window": True, "increase_interval": "9us", "fast_recovery": 1}
    flows = crowd(topo)
    run, rows = traced(topo, flows, "dcqcn", parameters, measure=MEASURE, host=QUEUED_ACKS)
    _, _, rate, _ = rates(topo, flows, rows, parse("dcqcn", parameters).values("dcqcn"))
    bdp = -(-topo.base_rtt_ps() // 80)
    for flow, got in rate.items():
        windows = [(at, dcqcn.variable_window(bdp, r, 1e11)) for at, r in sorted(got.items())]
        assert check_windows(run, flow, windows) > 100
        assert min(w for _, w in windows) < 0.6 * bdp


def test_pauses_and_clocks():
    """A flow that a pause held for many slots has caught up with all of them."""
    topo = star(hosts=9, buffer="700KB")
    flows = crowd(topo, 8, 150_000)
    run, rows = traced(
        topo, flows, "dcqcn:ns3", {**MARKS, "pfc.reserve": 0, "pfc.alpha": 0.05}, measure=MEASURE, host=QUEUED_ACKS
    )
    assert run.ports["pauses_sent"].sum() > 3
    sent, _, rate, _ = rates(topo, flows, rows, parse("dcqcn:ns3").values("dcqcn"))
    late = 0
    for flow, mine in sent.items():
        for last, packet in pairwise(mine):
            due = last.at + max(int(last.size * 8e12 / rate[flow][last.at]), last.size * 80)
            assert packet.at >= due - 1
            late += packet.at > due + 1
    assert late > 3


def test_a_lone_flow_finishes_in_the_ideal_time():
    check_alone("dcqcn")
    check_alone("dcqcn:ns3")
    check_alone("dcqcn+window_cap")


def test_any_number_of_threads_gives_the_same_results():
    for preset in ("", ":ns3", ":config"):
        run = check_threads("dcqcn" + preset, MARKS)
        assert run.ports["ecn_marks"].sum() > 100 and acted(run)


def test_parts_and_presets():
    assert list(parse("dcqcn").parts) == ["ecn", "pfc", "dcqcn"]
    ns3 = parse("dcqcn:ns3")
    assert ns3.values("ecn")["k_max"] == 1_600_000 and ns3.values("pfc")["alpha"] == 0.125
    assert ns3.host == {"ack_priority": "data"} and ns3.values("dcqcn")["alpha_interval"] == 1_000_000
    assert parse("dcqcn").values("dcqcn")["decrease_interval"] == 50_000_000


def test_bad_parameters_are_refused():
    check_bad("dcqcn", {"alpha_interval": 0}, "1..1e18")
    check_bad("dcqcn", {"g": 2}, "0..1")
    check_bad("dcqcn", {"clamp_target": "yes"}, "true or false")
    check_bad("dcqcn", {"gain": 0.1}, "gain: .* no such parameter")
