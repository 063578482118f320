"""TIMELY's rates against the transcription of Algorithm 1, completion event by completion event."""

from types import SimpleNamespace

import pytest
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
from hypothesis import example, given, settings
from hypothesis import strategies as st
from paper import timely

from penstock.composition import FOLDER, parse
from penstock.sim.config import Measure
from penstock.sim.simulate import simulate
from penstock.topology import star
from penstock.workload import flow_list

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


class Alone(dict):
    """The scheme's file as plain Python, with one flow on one line and nothing around it."""

    def __init__(self, scheme, parameters):
        super().__init__(min=min, max=max, float=float)
        self.flow = SimpleNamespace(sent=0, window=2**60, pace=0.0)
        self.mine = SimpleNamespace(rate=0.0, line=0.0, rtt_diff=0.0, prev_rtt=0, last_update_seq=0, in_a_row=0)
        self.me = SimpleNamespace(**parse(scheme, parameters).values("timely"))
        self.node, self.stamped = SimpleNamespace(now=0), SimpleNamespace(stamp=0)
        self.update(
            my_flow=lambda *_: self.mine,
            my_packet=lambda *_: self.stamped,
            whole=int,
            line_rate=lambda *_: 8e12 / 80,
            set_rate=lambda flow, rate: setattr(flow, "pace", rate),
        )
        exec((FOLDER / "timely.py").read_text(), self)
        self["set_up"](self.me)
        self["on_start"](self.me, self.node, self.flow, None)

    def ack(self, now, stamp, seq, snd_nxt):
        self.node.now, self.stamped.stamp, self.flow.sent = now, stamp, snd_nxt
        self["on_ack"](self.me, self.node, self.flow, SimpleNamespace(seq=seq))
        return self.flow.pace


walks = st.lists(st.integers(-40 * US, 40 * US), min_size=20, max_size=120)


@settings(max_examples=150, deadline=None)
@given(walks, st.sampled_from(["timely", "timely:ns3", "timely:floodgate"]), st.sampled_from([20, 60, 300, 600]), st.booleans())
@example([0] * 10 + [-30 * US] * 6, "timely", 600, False)  # no gradient is not a negative one
def test_any_rtts(walk, scheme, start, falling):
    parameters = {"window": False, "min_rate": "2Gbps"}
    scheme_, values = Alone(scheme, parameters), parse(scheme, parameters).values("timely")
    model = timely.Sender(model_of(values))
    rtt, now, seq = start * US, 10_000 * US, 0
    for k, step in enumerate(walk):
        rtt = min(max(rtt - abs(step) // 8 if falling and k % 9 else rtt + step, 1 * US), 900 * US)
        now, seq = now + rtt, seq + 1000
        snd_nxt = seq + 1000 * (k % 3)  # some ACKs are no completion events
        assert scheme_.ack(now, now - rtt, seq, snd_nxt) == model.on_ack(now, now - rtt, seq, snd_nxt)


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
    assert ns3.host == {"ack_priority": "data"} and ns3.values("pfc")["alpha"] == 0.125
    assert ns3.values("timely")["min_rate"] == 1e9 and not ns3.values("timely")["window"]
    assert {**ns3.values("timely"), "window": 1} == parse("timely:ns3_win").values("timely")
    assert parse("timely:floodgate").values("timely")["delta"] == 5e7


def test_bad_parameters_are_refused():
    check_bad("timely", {"min_rtt": 0}, "1..1e18")
    check_bad("timely", {"hai": "maybe"}, "gradient, increases")
    check_bad("timely", {"alpha": 1.5}, "0..1")
