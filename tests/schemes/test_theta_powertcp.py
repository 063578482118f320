"""theta-PowerTCP's windows and departures against Algorithm 2 and the authors' code as transcribed, ACK by ACK."""

import random
from types import SimpleNamespace

import pytest
from drawn import examples
from helpers import (
    DATA,
    QUEUED_ACKS,
    SAMPLES,
    US,
    acted,
    check_bad,
    check_sending,
    check_threads,
    check_windows,
    incast,
    network,
    senders,
    traced,
)
from hypothesis import given
from hypothesis import strategies as st
from paper import powertcp

from penstock_net.composition import FOLDER, parse
from penstock_net.sim.config import Measure
from penstock_net.sim.simulate import simulate
from penstock_net.topology import star
from penstock_net.workload import flow_list

LINE = 80
OPEN = network(buffer="100MB")


def model_of(base_rtt, values):
    tau = values["t"] or base_rtt
    if values["reaction"]:
        assert values["observe"] and values["first"]  # the code has no choice of them
        rates = values["r_ai"] / 8e12, values["min_rate"] / 8e12
        return powertcp.ThetaCode(tau, 1 / LINE, values["gamma"], *rates, values["least_current"], values["margin"])
    return powertcp.Theta(
        tau,
        tau / LINE,
        values["gamma"],
        values["r_ai"] * tau / 8e12,
        values["min_rate"] * tau / 8e12,
        tau / LINE,
        values["least_current"],
        bool(values["observe"]),
        values["margin"],
    )


def crowd(topo):
    return incast(topo, range(3, 12), size=[250_000 + 9000 * i for i in range(9)], every_ns=1700, more=[(12, 2, 200_000, "3us")])


def check(topo, flows, scheme, parameters=None):
    """A run against the transcription -> windows that were compared, flows that were cut to less than 60 %."""
    run, rows = traced(topo, flows, scheme, parameters, measure=SAMPLES, host=QUEUED_ACKS)
    assert run.ports["pauses_sent"].sum() == 0
    values = parse(scheme, parameters).values("theta_powertcp")
    sent, acks = senders(topo, flows, rows)
    compared = cut = 0
    for flow, got in acks.items():
        made = {s.offset: s.at for s in sent[flow]}
        model = model_of(topo.base_rtt_ps(), values)
        windows, gaps = [(0, model.cwnd)], [LINE]
        for a in got:
            windows.append((a.at, model.NEWACK(a.at, a.at - made[a.offset], a.seq, a.snd_nxt)))
            gaps.append(model.tau / model.cwnd)
        compared += check_windows(run, flow, windows)
        cwnd = [w for _, w in windows]
        check_sending(sent[flow], acks[flow], cwnd, lambda k, _, gaps=gaps: gaps[k], moves=True)
        cut += max(gaps) > LINE / 0.6
    return compared, cut


CASES = {
    "paper": ("theta_powertcp", {}),
    "ns3": ("theta_powertcp:ns3", {}),
    "least RTT": ("theta_powertcp", {"observe": True, "t": "30us", "margin": 1.05}),
    "others": (
        "theta_powertcp",
        {"gamma": 0.5, "r_ai": "2Gbps", "t": "13us", "min_rate": "5Gbps", "stamp_bytes": 0, "margin": 1.2},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_every_window_and_every_departure(case):
    compared, cut = check(OPEN, crowd(OPEN), *CASES[case])
    assert compared > 300 and cut >= 3


# ---- the file itself, fed with any RTTs ----


class Alone(dict):
    """The scheme's file as plain Python, with one flow on one line and nothing around it."""

    def __init__(self, parameters, text=""):
        super().__init__(min=min, max=max, float=float)
        self.flow = SimpleNamespace(sent=0, window=0, pace=0.0)
        zero = dict.fromkeys(("cwnd", "cwnd_old", "cwnd_most", "smooth", "tau", "prev_rtt", "prev_t_c", "last_updated"), 0)
        self.mine = SimpleNamespace(**zero)
        self.me = SimpleNamespace(**parse("theta_powertcp", parameters).values("theta_powertcp"))
        self.me.at = SimpleNamespace(world=SimpleNamespace(base_rtt=10 * US))
        self.node, self.stamped = SimpleNamespace(now=0), SimpleNamespace(stamp=0)
        self.update(
            my_flow=lambda *_: self.mine,
            my_packet=lambda *_: self.stamped,
            whole=int,
            port_of=lambda *_: SimpleNamespace(ps_per_byte=LINE),
            set_rate=lambda flow, rate: setattr(flow, "pace", rate),
            repace=lambda *_: None,
        )
        exec(text or (FOLDER / "theta_powertcp.py").read_text(), self)
        self["set_up"](self.me)
        self["on_start"](self.me, self.node, self.flow, None)


CODE = {"reaction": "per_ack", "observe": True, "first": True, "margin": 1.05, "gamma": 0.7}
RULES = {"paper": {}, "least RTT": {"observe": True}, "code": CODE}


def compare(walk, rules, text=""):
    """The file against the transcription; walk: (time since the last ACK, RTT, packets in flight)."""
    parameters = {"min_rate": "2Gbps", "r_ai": "1Gbps", **RULES[rules]}
    scheme, now, seq = Alone(parameters, text), 1000 * US, 0
    model = model_of(10 * US, parse("theta_powertcp", parameters).values("theta_powertcp"))
    for later, rtt, in_flight in walk:
        now, seq = now + later, seq + 1000
        scheme.node.now, scheme.stamped.stamp, scheme.flow.sent = now, now - rtt, seq + 1000 * in_flight
        scheme["on_ack"](scheme.me, scheme.node, scheme.flow, SimpleNamespace(seq=seq))
        cwnd = model.NEWACK(now, rtt, seq, seq + 1000 * in_flight)
        assert scheme.mine.cwnd == pytest.approx(cwnd, rel=1e-9)
        assert scheme.flow.window == int(scheme.mine.cwnd) and scheme.flow.pace == pytest.approx(cwnd * 8e12 / model.tau)


steps = st.tuples(st.integers(80_000, 30 * US), st.integers(6 * US, 90 * US), st.integers(0, 9))


@examples(150)
@given(st.lists(steps, min_size=10, max_size=100), st.sampled_from(list(RULES)))
def test_any_rtts(walk, rules):
    compare(walk, rules)


def long_walk(seed=5, count=2000):
    """RTTs that grow and fall around the base RTT of 10 us."""
    r = random.Random(seed)
    out, rtt = [], 12 * US
    for _ in range(count):
        rtt = min(max(rtt + r.randint(-3 * US, 3 * US), 6 * US), 30 * US)
        out.append((r.randint(80_000, 6 * US), rtt, r.randint(0, 9)))
    return out


@pytest.mark.parametrize("rules", RULES)
def test_a_long_walk(rules):
    compare(long_walk(), rules)


MISTAKES = {
    "no gradient": ("float(rtt - mine.prev_rtt) / dt + 1", "1.0", "paper"),
    "no RTT": ("current * rtt / (theta.margin * mine.tau)", "current", "paper"),
    "no smoothing": ("(1 - weight) * mine.smooth + weight * norm", "norm", "paper"),
    "at every ACK": ("theta.reaction == PER_ACK or", "theta.reaction != PER_ACK or", "paper"),
    "once per RTT": ("theta.reaction == PER_ACK or", "", "code"),
    "the reference at every ACK": (
        "pkt.seq > mine.last_updated:\n            mine.cwnd_old",
        "True:\n            mine.cwnd_old",
        "code",
    ),
    "the present window": ("theta.gamma * (mine.cwnd_old /", "theta.gamma * (mine.cwnd /", "code"),
    "the power at the updates alone": (
        "        norm_power(theta, node, flow, rtt)\n",
        "        if pkt.seq > mine.last_updated:\n            norm_power(theta, node, flow, rtt)\n",
        "paper",
    ),
    "the weight": ("theta.gamma * (mine.cwnd", "0.85 * (mine.cwnd", "paper"),
    "no increase": ("+ beta)", ")", "paper"),
    "the least RTT": ("if theta.observe and", "if not theta.observe and", "paper"),
    "the window of the network's RTT": ("    mine.cwnd *= ratio\n", "", "least RTT"),
    "the old window": ("    mine.cwnd_old *= ratio\n", "", "code"),
    "the rate of the network's RTT": ("mine.cwnd * 8e12 / mine.tau", "mine.cwnd * 8e12 / theta.base_rtt", "least RTT"),
    "the first ACK": ("mine.prev_t_c == 0 and not theta.first", "mine.prev_t_c == 0", "code"),
    "the first gradient": ("        mine.smooth = rtt / (theta.margin * mine.tau)\n        return\n", "        pass\n", "code"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found(mistake):
    text = (FOLDER / "theta_powertcp.py").read_text()
    right, wrong, rules = MISTAKES[mistake]
    assert text.count(right) == 1
    with pytest.raises(AssertionError):
        compare(long_walk(), rules, text.replace(right, wrong))


# ---- Laws ----


def test_power_by_hand():
    """tau 10: an RTT of 10 has power 1; one of 15 that has grown by 5 in 10 has 1.5 times 1.5."""
    model = powertcp.Theta(10, 100, gamma=1)
    assert model.NEWACK(10, 10, 1, 1) == 100
    assert model.NEWACK(20, 10, 2, 2) == 100
    assert model.NEWACK(30, 15, 3, 3) == pytest.approx(100 / 2.25)
    assert model.NEWACK(35, 10, 3, 9) == pytest.approx(100 / 2.25)  # not yet a round trip later
    assert model.smooth == pytest.approx((2.25 + 0.5) / 2)  # the gradient is -1, of which -1/2 counts


def test_the_first_ack_of_the_code_by_hand():
    """tau 10 of the network, 8 seen: no congestion at the first ACK; twice that at the next one, of which half an RTT counts."""
    model = powertcp.ThetaCode(10, 1, weight=1, margin=1)
    assert model.NEWACK(100, 8, 1, 4) == 8 and model.tau == 8
    assert model.NEWACK(104, 8, 2, 5) == 8
    assert model.NEWACK(108, 12, 3, 6) == pytest.approx(8 / 2)  # gradient 1, RTT 1.5 tau: 3, and 1 for the other half
    assert model.curRate == 1  # what every ACK starts from, until one of packet 5 comes
    model.NEWACK(112, 12, 5, 9)
    assert model.curRate == model.m_rate == pytest.approx(1 / 1.75)


@pytest.mark.parametrize("r_ai, count", [("3Gbps", 2), ("1Gbps", 6)])
def test_the_equilibrium(r_ai, count):
    """As with telemetry (section 3.5), at one bottleneck: a queue of the sum of the flows' beta, and equal shares."""
    topo = star(hosts=count + 1)
    flows = flow_list(topo, [(i, 0, 16_000_000 // count, "0us") for i in range(1, count + 1)])
    run = simulate(topo, flows, parse("theta_powertcp", {"r_ai": r_ai}), measure=Measure(sample="1us", port_series=True))
    series = run.extra["port_series"]
    port = series.filter((series["node"] == topo.hosts) & (series["port"] == 0) & series["time_ns"].is_between(600e3, 1100e3))
    tau = topo.base_rtt_ps()
    beta = parse("theta_powertcp", {"r_ai": r_ai}).values("theta_powertcp")["r_ai"] * tau / 8e12
    queue, _ = powertcp.equilibrium(1 / LINE, tau, [beta] * count)
    assert port["queue_bytes"].mean() == pytest.approx(queue, rel=0.35)
    fct = run.flows["fct_ns"].to_list()
    assert min(fct) > 0.9 * max(fct)


def test_stamps_are_on_the_wire():
    topo = star(hosts=2)
    flows = flow_list(topo, [(1, 0, 5500, "0us")])
    for parameters, extra in (({}, 8), ({"stamp_bytes": 0}, 0), ({"stamp_bytes": 30}, 30)):
        _, rows = traced(topo, flows, "theta_powertcp", parameters, host=QUEUED_ACKS)
        assert {r.size for r in rows if r.kind == DATA} == {1048 + extra, 548 + extra}
        assert {r.size for r in rows if r.kind != DATA} == {max(60, 46 + extra)}


def test_any_number_of_threads_gives_the_same_results():
    assert acted(check_threads("theta_powertcp"))
    check_threads("theta_powertcp:ns3")


def test_parts_and_presets():
    assert list(parse("theta_powertcp").parts) == ["pfc", "theta_powertcp"]
    values = parse("theta_powertcp:ns3").values("theta_powertcp")
    assert values["gamma"] == 0.7 and values["margin"] == 1.05 and values["observe"]
    assert values["reaction"] and values["first"] and values["stamp_bytes"] == 42


def test_bad_parameters_are_refused():
    check_bad("theta_powertcp", {"gamma": 0}, "0.01..1")
    check_bad("theta_powertcp", {"least_current": 0}, "0.01..1")
