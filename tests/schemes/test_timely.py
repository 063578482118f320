"""TIMELY's rates against the transcription of Algorithm 1, completion event by completion event."""

import random

import pytest
from alone import Alone, check_mistake
from drawn import examples
from helpers import (
    DATA,
    QUEUED_ACKS,
    US,
    acted,
    check_bad,
    check_sending,
    check_windows,
    incast,
    network,
    outcome,
    senders,
    traced,
)
from hypothesis import example, given
from hypothesis import strategies as st
from paper import timely

from penstock_net.composition import parse
from penstock_net.sim.config import Measure
from penstock_net.sim.simulate import simulate
from penstock_net.topology import star
from penstock_net.workload import flow_list

MEASURE = Measure(sample="0.2us", packets=True, flow_series=True, flows=False)
CLOSE = {"t_low": "12us", "t_high": "60us", "min_rtt": "8us"}  # thresholds that this network's RTTs, of 4 us and more, meet
SHORT = {"t_low": "5us", "t_high": "15us", "min_rtt": "3us"}  # the RTTs of flows with a window


def model_of(values):
    law = timely.Simulator if values["hai"] else timely.Paper
    return law(
        timely.Parameters(
            1e11,
            values["delta"],
            values["r_hai"] or values["n"] * values["delta"],
            values["min_rate"],
            values["alpha"],
            values["beta"],
            values["t_low"],
            values["t_high"],
            values["min_rtt"],
        )
    )


def crowd(topo, senders=4, size=700_000):
    return flow_list(topo, [(i, 0, size * i, f"{7 * i}us") for i in range(1, senders + 1)])


def rates(topo, flows, rows, values):
    """Flow -> its rate at the start and after each ACK; what the completion events did."""
    sent, acks = senders(topo, flows, rows)
    out, branches = {}, []
    for flow, got in acks.items():
        made = {p.offset: p.at for p in sent[flow]}
        model = timely.Sender(model_of(values))
        out[flow] = [(0, 1e11)]
        for ack in got:
            out[flow].append((ack.at, model.on_ack(ack.at, made[ack.offset], ack.seq, ack.snd_nxt)))
        branches += model.law.branches
    return sent, acks, out, branches


CASES = {
    "paper": ("timely", {}),
    "close": ("timely", {**CLOSE, "delta": "1Gbps"}),
    "gradient alone": ("timely", {"t_low": "1us", "t_high": "2ms", "delta": "3Gbps"}),
    "steep": ("timely", {"t_low": "2us", "t_high": "60us", "min_rtt": "2us", "alpha": 0.3, "n": 12.5, "min_rate": "3Gbps"}),
    "ns3": ("timely:ns3", CLOSE),
    "ns3 as it is": ("timely:ns3", {}),
    "floodgate": ("timely:floodgate", {**CLOSE, "window": False}),
}
HAI = ("gradient alone", "steep", "ns3", "ns3 as it is", "floodgate")  # the others have most increases below T_low


@pytest.mark.parametrize("case", CASES)
def test_every_departure(case):
    scheme, parameters = CASES[case]
    topo = star(hosts=5, buffer="100MB")
    flows = crowd(topo)
    run, rows = traced(topo, flows, scheme, parameters, measure=MEASURE, host=QUEUED_ACKS)
    assert run.ports["pauses_sent"].sum() == 0 and acted(run)
    sent, acks, rate, branches = rates(topo, flows, rows, parse(scheme, parameters).values("timely"))
    for flow, mine in sent.items():
        windows = [2**60] * (len(acks[flow]) + 1)
        check_sending(mine, acks[flow], windows, lambda k, _, flow=flow: 8e12 / rate[flow][k][1])
    assert "gradient" in branches and branches.count("hai" if case in HAI else "below") > 20
    assert "above" in branches or "t_high" not in parameters or case == "gradient alone"


@pytest.mark.parametrize("preset", ["ns3_win", "floodgate"])
def test_the_window_follows_the_rate(preset):
    topo = star(hosts=5)
    flows = crowd(topo)
    run, rows = traced(topo, flows, "timely:" + preset, SHORT, measure=MEASURE, host=QUEUED_ACKS)
    sent, acks, rate, _ = rates(topo, flows, rows, parse("timely:" + preset, SHORT).values("timely"))
    bdp = -(-topo.base_rtt_ps() // 80)
    assert sum(min(r for _, r in got) < 0.5e11 for got in rate.values()) > 1
    for flow, got in rate.items():
        windows = [(at, timely.variable_window(bdp, r, 1e11)) for at, r in got]
        assert check_windows(run, flow, windows) > 20
        check_sending(sent[flow], acks[flow], [w for _, w in windows], lambda k, _, got=got: 8e12 / got[k][1])


def test_a_growing_queue_cuts_unless_the_rtt_is_below_t_low():
    topo = star(hosts=3)
    flows = flow_list(topo, [(1, 0, 4_000_000, "0us"), (2, 0, 2_000_000, "60us")])
    for t_low, pace in (("5us", (0, 0.8)), ("1ms", (0.99, 1))):
        _, rows = traced(topo, flows, "timely", {"t_low": t_low, "t_high": "2ms"}, measure=MEASURE, host=QUEUED_ACKS)
        sent, _ = senders(topo, flows, rows)
        share = [sum(80 * p.size for p in sent[0] if at * US <= p.at < (at + 20) * US) / (20 * US) for at in (40, 80)]
        assert share[0] == pytest.approx(1, abs=0.01)
        assert pace[0] <= share[1] <= pace[1] + 0.01


def test_hyperactive_increase():
    """A flow that is alone again gets the line back below T_low: by delta, and in the simulators by more after five steps."""
    topo = star(hosts=3, buffer="100MB")
    flows = flow_list(topo, [(1, 0, 4_000_000, "0us"), (2, 0, 1_000_000, "0us")])
    for scheme, parameters, steps in (
        ("timely:ns3", {"t_low": "20us"}, [100e6] * 5 + [500e6] * 5),
        ("timely", {"t_low": "20us"}, [100e6] * 10),
        ("timely:floodgate", {"t_low": "20us", "window": False}, [50e6] * 5 + [100e6] * 5),
    ):
        _, rows = traced(topo, flows, scheme, parameters, measure=MEASURE, host=QUEUED_ACKS)
        _, _, rate, _ = rates(topo, flows, rows, parse(scheme, parameters).values("timely"))
        values = list(dict.fromkeys(r for _, r in rate[0]))
        lowest = values.index(min(values))
        got = [b - a for a, b in zip(values[lowest:], values[lowest + 1 :])][:10]
        assert got == pytest.approx(steps), scheme


def test_stamps_are_on_the_wire():
    topo = star(hosts=2)
    flows = flow_list(topo, [(1, 0, 5500, "0us")])
    for parameters, extra in (({}, 8), ({"stamp_bytes": 0}, 0), ({"stamp_bytes": 30}, 30)):
        _, rows = traced(topo, flows, "timely", parameters, host=QUEUED_ACKS)
        data = {r.size for r in rows if r.kind == DATA}
        acks = {r.size for r in rows if r.kind != DATA}
        assert data == {1048 + extra, 548 + extra}
        assert acks == {max(60, 46 + extra)}


def test_a_lone_flow_pays_for_the_stamps_alone():
    topo = network()
    sizes = (1, 1000, 5500, 2_000_000)
    flows = flow_list(topo, [(i, 15 - i, size, f"{i * 500}us") for i, size in enumerate(sizes)])
    for scheme in ("timely", "timely:ns3", "timely:ns3_win"):
        for slowdown in simulate(topo, flows, parse(scheme)).flows["slowdown"]:
            assert 1 < slowdown < 1056 / 1048 + 0.0065  # of one byte: 8 of 49 bytes, four times, on 8 us of delays
    free = simulate(topo, flows, parse("timely", {"stamp_bytes": 0}))
    assert free.flows["slowdown"].to_list() == [1.0] * len(sizes)


# ---- the file itself, fed with any RTTs ----


walks = st.lists(st.integers(-40 * US, 40 * US), min_size=20, max_size=120)


def compare(walk, scheme, start, text="", **more):
    """The file against the transcription; walk: (change of the RTT in ps, packets beyond the ACK that have been sent)."""
    parameters = {"window": False, "min_rate": "2Gbps", **more}
    alone, values = Alone(scheme, parameters, text, bdp=60_000), parse(scheme, parameters).values("timely")
    model = timely.Sender(model_of(values))
    rtt, now, seq = start * US, 10_000 * US, 0
    assert alone.flow.pace == model.law.rate
    for step, ahead in walk:
        rtt = min(max(rtt + step, 1 * US), 900 * US)
        now, seq = now + rtt, seq + 1000
        pkt = alone.send(now - rtt)
        alone.ack(now, seq, seq + 1000 * ahead, pkt)
        assert alone.flow.pace == model.on_ack(now, now - rtt, seq, seq + 1000 * ahead)
        if values["window"]:
            assert abs(alone.flow.window - timely.variable_window(60_000, alone.flow.pace, 1e11)) <= 1
    return model.law.branches


@examples(150)
@given(walks, st.sampled_from(["timely", "timely:ns3", "timely:floodgate"]), st.sampled_from([20, 60, 300, 600]), st.booleans())
@example([0] * 10 + [-30 * US] * 6, "timely", 600, False)  # no gradient is not a negative one
def test_any_rtts(walk, scheme, start, falling):
    """Some ACKs are no completion events."""
    steps = [-abs(step) // 8 if falling and k % 9 else step for k, step in enumerate(walk)]
    compare([(step, k % 3) for k, step in enumerate(steps)], scheme, start)


def long_walk(text=""):
    """RTTs that rise, fall, and stay as they are, below T_low, between the two, and above T_high."""
    r, walk = random.Random(5), [(0, 0)] * 8 + [(-500 * US, 0)] + [(10 * US, 0)] * 20
    for k in range(1500):
        way = [(-20, 20), (-6, 1), (0, 0), (-1, 6), (-60, 60)][k // 40 % 5]
        walk.append((r.randint(*way) * US, r.randint(0, 2)))
    for scheme, more in (("timely", {"n": 7.0}), ("timely:ns3", {}), ("timely:floodgate", {"window": True})):
        seen = set()
        for start in (10, 200, 800):
            seen |= set(compare(walk, scheme, start, text, **more))
        assert seen >= {"hai", "above", "gradient"}


def test_a_long_walk():
    long_walk()


MISTAKES = {
    "N": ("timely.n * timely.delta", "5.0 * timely.delta"),
    "the rate of HAI": ("timely.r_hai if timely.r_hai > 0", "timely.r_hai if timely.r_hai < 0"),
    "time of the stamp": ("my_packet(timely, pkt).stamp = node.now", "my_packet(timely, pkt).stamp = node.now + 1000"),
    "at every ACK": ("    mine.last_update_seq = flow.sent\n", ""),
    "an RTT later": ("mine.last_update_seq = flow.sent", "mine.last_update_seq = flow.sent + 1000"),
    "an ACK too soon": ("if pkt.seq <= mine.last_update_seq", "if pkt.seq < mine.last_update_seq"),
    "the first event counts": ("    if mine.prev_rtt > 0:\n", "    if mine.prev_rtt >= 0:\n"),
    "the old RTT": ("    mine.prev_rtt = new_rtt\n", "    if mine.prev_rtt == 0:\n        mine.prev_rtt = new_rtt\n"),
    "the first rate": ("    mine.rate = mine.line\n", "    mine.rate = timely.min_rate\n"),
    "the least rate": ("max(mine.rate, timely.min_rate)", "max(mine.rate, 1.0)"),
    "the line": ("min(max(mine.rate, timely.min_rate), mine.line)", "max(mine.rate, timely.min_rate)"),
    "the window does not follow": ("timely.at.world.bdp * (mine.rate / mine.line)", "timely.at.world.bdp * 1.0"),
    "no smoothing": ("(1 - timely.alpha) * mine.rtt_diff + timely.alpha * new_rtt_diff", "new_rtt_diff"),
    "the weights": ("(1 - timely.alpha) * mine.rtt_diff + timely.alpha", "timely.alpha * mine.rtt_diff + (1 - timely.alpha)"),
    "normalised by the RTT": ("mine.rtt_diff / timely.min_rtt", "mine.rtt_diff / new_rtt"),
    "no gradient counts": ("1 if normalized_gradient < 0 else 0", "1 if normalized_gradient <= 0 else 0"),
    "a positive gradient does not end HAI": ("mine.in_a_row + 1 if normalized_gradient < 0 else 0", "mine.in_a_row + 1"),
    "HAI below T_low": ("increase(timely, flow, timely.hai == INCREASES)", "increase(timely, flow, 1)"),
    "no HAI below T_low": ("increase(timely, flow, timely.hai == INCREASES)", "increase(timely, flow, 0)"),
    "T_low": ("if new_rtt < timely.t_low", "if new_rtt < timely.min_rtt"),
    "T_high": ("elif new_rtt > timely.t_high", "elif new_rtt > 2 * timely.t_high"),
    "the cut above T_high": ("1 - float(timely.t_high) / new_rtt", "float(timely.t_high) / new_rtt"),
    "a level RTT is cut": ("elif normalized_gradient <= 0:", "elif normalized_gradient < -0.001:"),
    "no additive increase": ("        increase(timely, flow, 1)\n", "        mine.in_a_row += 0\n"),
    "HAI one event late": ("mine.in_a_row >= timely.hai_from", "mine.in_a_row > timely.hai_from"),
    "increases do not count": ("        mine.in_a_row += 1\n", "        mine.in_a_row += 0\n"),
    "HAI survives a cut": ("        mine.in_a_row = 0\n", "        mine.in_a_row -= 0\n"),
    "beta": ("1 - timely.beta * share", "1 - share"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found(mistake):
    check_mistake("timely", *MISTAKES[mistake], long_walk)


@pytest.mark.parametrize("preset", ["", ":ns3", ":ns3_win", ":floodgate"])
def test_any_number_of_threads(preset):
    topo = network()
    flows = incast(topo, range(4, 16), size=300_000, every_ns=150, more=[(0, 9, 300_000, "0us")])
    scheme = parse("timely" + preset, CLOSE)
    runs = [simulate(topo, flows, scheme, threads=n, measure=Measure(sample="5us")) for n in (1, 2)]
    assert outcome(runs[0]) == outcome(runs[1])
    assert acted(runs[0])


def test_parts_and_presets():
    assert list(parse("timely").parts) == ["pfc", "timely"]
    ns3 = parse("timely:ns3")
    assert ns3.host == {"ack_priority": "data", "pacing": "from start"} and ns3.values("pfc")["alpha"] == 0.125
    assert ns3.values("timely")["min_rate"] == 1e9 and not ns3.values("timely")["window"]
    assert {**ns3.values("timely"), "window": 1} == parse("timely:ns3_win").values("timely")
    assert parse("timely:floodgate").values("timely")["delta"] == 5e7


def test_bad_parameters_are_refused():
    check_bad("timely", {"min_rtt": 0}, "1..1e18")
    check_bad("timely", {"hai": "maybe"}, "gradient, increases")
    check_bad("timely", {"alpha": 1.5}, "0..1")
