"""DCQCN's lazy clocks against real timers: the pace of every packet, the window at every sample."""

import random
from itertools import pairwise

import pytest
from alone import Alone, check_mistake
from helpers import QUEUED_ACKS, US, acted, check_alone, check_bad, check_sending, check_threads, check_windows, senders, traced
from paper import dcqcn

from penstock_net.composition import parse
from penstock_net.sim.config import Measure
from penstock_net.topology import star
from penstock_net.workload import flow_list

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


# ---- the file itself, fed with any marks ----


def compare(walk, scheme, text="", parameters=None):
    """The file against timers that fire; walk: (ps since the last event, None: a packet leaves, or whether its ACK is marked)."""
    alone, values = Alone(scheme, parameters, text, bdp=60_000), parse(scheme, parameters).values("dcqcn")
    model, now = model_of(values, 0), 0
    for later, ecn in walk:
        now += later
        if ecn is None:
            alone.send(now)
        else:
            alone.ack(now, 0, ecn=ecn)
            model.on_ack(now, ecn)
        assert alone.flow.pace == pytest.approx(model.rate_at(now), rel=1e-9)
        assert alone.mine.alpha == pytest.approx(0 if model.first_cnp else model.alpha, rel=1e-9)
        if values["window"]:
            assert abs(alone.flow.window - dcqcn.variable_window(60_000, model.rate, 1e11)) <= 1
    return model


def long_walk(text=""):
    """Often and rarely marked, packets close together and far apart; after the last mark until the line is reached again.

    Times are multiples of 500 ns, so that events and timers meet.
    """
    r, walk = random.Random(2), [(US, True)] + [(7 * US, False)] * 12
    for k in range(1200):
        spread, often = [(10, 0.5), (30, 0.1), (200, 0.3), (60, 0.02)][k // 100 % 4]
        walk.append((r.randint(0, spread) * US // 2, r.choice([None, r.random() < often])))
    walk += [(20 * US, None)] * 200
    for scheme, more in (
        ("dcqcn", {"r_ai": "300Mbps", "r_hai": "2Gbps", "fast_recovery": 2, "g": 0.1}),
        ("dcqcn:ns3", {"increase_interval": "30us", "window": True}),
        ("dcqcn:config", {"alpha_interval": "3us", "increase_interval": "10us", "min_rate": "1Gbps"}),
        ("dcqcn", {"clamp_target": False, "alpha_interval": "10us", "increase_interval": "25us", "min_rate": "30Gbps"}),
    ):
        model = compare(walk, scheme, text, more)
        assert model.rate > 0.9e11 and model.stage > values_of(scheme, more)["fast_recovery"]


def values_of(scheme, parameters):
    return parse(scheme, parameters).values("dcqcn")


def test_a_long_walk():
    long_walk()


MISTAKES = {
    "no mark, no notification": ("    if pkt.ecn:\n        mine.decrease", "    if 1:\n        mine.decrease"),
    "marks alone count": ("catch_up(dcqcn, node, flow)\n    if pkt.ecn:", "if pkt.ecn:"),
    "packets see no timers": ("flow, pkt):\n    catch_up(dcqcn, node, flow)", "flow, pkt):\n    pass"),
    "the first mark and alpha": (
        "        if mine.started:\n            mine.alpha_echo",
        "        if 1:\n            mine.alpha_echo",
    ),
    "the first alpha": ("    mine.alpha = 1.0\n", "    mine.alpha = 0.5\n"),
    "the clock of alpha": ("node.now + dcqcn.alpha_interval", "node.now + 2 * dcqcn.alpha_interval"),
    "the clock of cuts": ("node.now + dcqcn.decrease_interval + PHASE", "node.now + 2 * dcqcn.decrease_interval + PHASE"),
    "no phase": ("dcqcn.decrease_interval + PHASE", "dcqcn.decrease_interval"),
    "no cut at once": ("    if dcqcn.cut_at_once:", "    if 0:"),
    "always cut at once": ("    if dcqcn.cut_at_once:", "    if 1:"),
    "the first cut": (
        "        mine.rate = max(mine.rate * (1 - mine.alpha / 2), dcqcn.min_rate)\n        mine.d",
        "        mine.d",
    ),
    "the first mark cuts twice": ("        mine.decrease_echo = 0\n        mine.increase_at", "        mine.increase_at"),
    "no increase after the first cut": ("        mine.increase_at = node.now + dcqcn.increase_interval\n", ""),
    "cuts without marks": ("        if mine.decrease_echo:\n", "        if 1:\n"),
    "a cut at any time": ("    if mine.decrease_at <= node.now:\n", "    if 1:\n"),
    "alpha is late at a cut": ("            update_alpha(dcqcn, flow, mine.decrease_at)\n", ""),
    "increases are late at a cut": ("            increase(dcqcn, flow, mine.decrease_at)\n", ""),
    "the clock of cuts is restarted": (
        "mine.decrease_at += ((node.now - mine.decrease_at) // dcqcn.decrease_interval + 1) * dcqcn.decrease_interval",
        "mine.decrease_at = node.now + dcqcn.decrease_interval",
    ),
    "alpha at cuts alone": ("    update_alpha(dcqcn, flow, node.now)\n", ""),
    "increases at cuts alone": ("    increase(dcqcn, flow, node.now)\n", ""),
    "a slot too late": ("    if mine.alpha_at > until:", "    if mine.alpha_at >= until:"),
    "a slot too many": ("// dcqcn.alpha_interval + 1\n", "// dcqcn.alpha_interval + 2\n"),
    "the decay": ("power(1 - dcqcn.g, slots - 1)", "power(1 - dcqcn.g, slots)"),
    "no decay": ("    if slots > 1:\n", "    if slots > 2:\n"),
    "the weight of a mark": ("        mine.alpha += dcqcn.g\n", "        mine.alpha += 2 * dcqcn.g\n"),
    "a mark in all slots": ("        mine.alpha_echo = 0\n", ""),
    "an increase too late": ("    while mine.increase_at <= until:", "    while mine.increase_at < until:"),
    "one increase at a time": ("    while mine.increase_at <= until:", "    if mine.increase_at <= until:"),
    "F": ("if mine.stage == dcqcn.fast_recovery:", "if mine.stage == dcqcn.fast_recovery + 1:"),
    "hyper increase at once": ("elif mine.stage > dcqcn.fast_recovery:", "elif mine.stage > 0:"),
    "additive for hyper": ("mine.target += dcqcn.r_hai", "mine.target += dcqcn.r_ai"),
    "the line": ("mine.target = min(mine.target, mine.line)", "mine.target = mine.target"),
    "half way": ("(mine.rate + mine.target) / 2", "(mine.rate + 3 * mine.target) / 4"),
    "no stage": ("        mine.stage += 1\n", ""),
    "a mark cuts twice": ("    mine.decrease_echo = 0\n    if mine.stage", "    if mine.stage"),
    "the target at all cuts": ("    if mine.stage > 0 or dcqcn.clamp_target:", "    if 1:"),
    "the target is not clamped": ("    if mine.stage > 0 or dcqcn.clamp_target:", "    if mine.stage > 0:"),
    "the target after an increase": ("    if mine.stage > 0 or dcqcn.clamp_target:", "    if dcqcn.clamp_target:"),
    "cut by alpha": (
        "mine.rate * (1 - mine.alpha / 2), dcqcn.min_rate)\n    mine.stage",
        "mine.rate * (1 - mine.alpha), dcqcn.min_rate)\n    mine.stage",
    ),
    "the least rate": ("mine.alpha / 2), dcqcn.min_rate)\n    mine.stage", "mine.alpha / 2), 1.0)\n    mine.stage"),
    "the stage after a cut": ("    mine.stage = 0\n", ""),
    "the clock of increases goes on": ("    mine.increase_at = mine.decrease_at + dcqcn.increase_interval\n", ""),
    "increases since the packet": (
        "mine.increase_at = mine.decrease_at + dcqcn.increase_interval",
        "mine.increase_at = mine.decrease_at + dcqcn.decrease_interval + dcqcn.increase_interval",
    ),
    "the window does not follow": ("dcqcn.at.world.bdp * (mine.rate / mine.line)", "dcqcn.at.world.bdp * 1.0"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found(mistake):
    check_mistake("dcqcn", *MISTAKES[mistake], long_walk)


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
    assert ns3.host == {"ack_priority": "data", "pacing": "from start"} and ns3.values("dcqcn")["alpha_interval"] == 1_000_000
    assert parse("dcqcn").values("dcqcn")["decrease_interval"] == 50_000_000


def test_bad_parameters_are_refused():
    check_bad("dcqcn", {"alpha_interval": 0}, "1..1e18")
    check_bad("dcqcn", {"g": 2}, "0..1")
    check_bad("dcqcn", {"clamp_target": "yes"}, "true or false")
    check_bad("dcqcn", {"gain": 0.1}, "gain: .* no such parameter")
