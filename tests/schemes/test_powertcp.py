"""PowerTCP's windows and departures against Algorithm 1 as transcribed, with their inputs reconstructed from the packet trace."""

import random
from types import SimpleNamespace

import pytest
from drawn import examples
from helpers import (
    QUEUED_ACKS,
    SAMPLES,
    US,
    acted,
    check_bad,
    check_sending,
    check_threads,
    check_windows,
    counters,
    incast,
    network,
    senders,
    traced,
)
from hypothesis import given
from hypothesis import strategies as st
from paper import powertcp

from penstock_net.composition import FOLDER, parse
from penstock_net.errors import SchemeError
from penstock_net.sim.config import Measure
from penstock_net.sim.simulate import simulate
from penstock_net.topology import parking_lot, star
from penstock_net.workload import flow_list

LINE = 80
OPEN = network(buffer="100MB")


def model_of(topo, values):
    tau = values["t"] or topo.base_rtt_ps()
    return powertcp.PowerTCP(
        tau,
        tau / LINE,
        values["gamma"],
        values["r_ai"] * tau / 8e12,
        values["min_rate"] * tau / 8e12,
        tau / LINE,
        values["eta"],
        values["least_current"],
        ["cwnd", "cwnd_old"][values["average"]],
        values["first"],
    )


def crowd(topo):
    return incast(
        topo,
        range(4, 12),
        size=[150_000 + 9000 * i for i in range(8)],
        every_ns=1100,
        more=[(12, 3, 200_000, "3us"), (13, 0, 2500, "9us"), (14, 0, 700, "9us"), (15, 2, 180_000, "2us")],
    )


def trajectories(topo, flows, rows, values):
    """Flow -> (time, cwnd) after each ACK, by the transcription."""
    out = {}
    sent, acks = senders(topo, flows, rows)
    before = {departure: sent for departure, (sent, _) in counters(rows).items()}
    for flow, got in acks.items():
        model = model_of(topo, values)
        out[flow] = [(0, model.cwnd)]
        for ack in got:
            H = [powertcp.Hop(r.port_bytes, r.at, before[r.node, r.port, r.at], 1 / LINE) for r in ack.links]
            out[flow].append((ack.at, model.NEWACK(H, ack.seq, ack.snd_nxt)))
    return sent, acks, out


def check(topo, flows, scheme, parameters=None):
    """A run against the transcription -> windows that were compared, flows that were cut to less than 60 %."""
    run, rows = traced(topo, flows, scheme, parameters, measure=SAMPLES, host=QUEUED_ACKS)
    assert run.ports["pauses_sent"].sum() == 0  # so that all that a port sent is in the trace
    values = parse(scheme, parameters).values("powertcp")
    sent, acks, windows = trajectories(topo, flows, rows, values)
    tau = values["t"] or topo.base_rtt_ps()
    compared = cut = 0
    for flow in range(len(flows)):
        compared += check_windows(run, flow, windows[flow])
        cwnd = [w for _, w in windows[flow]]
        check_sending(sent[flow], acks[flow], cwnd, lambda k, _, cwnd=cwnd: tau / cwnd[k], moves=True)
        cut += min(cwnd) < 0.6 * tau / LINE
    return compared, cut


CASES = {
    "default": ("powertcp", {}),
    "equation 7": ("powertcp", {"average": "cwnd"}),
    "ns3": ("powertcp:ns3", {}),
    "others": (
        "powertcp",
        {"gamma": 0.5, "r_ai": "2Gbps", "t": "13us", "min_rate": "5Gbps", "int_bytes": 0, "eta": 0.9, "first": 1},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_every_window_and_every_departure(case):
    compared, cut = check(OPEN, crowd(OPEN), *CASES[case])
    assert compared > 300 and cut >= 3


def test_several_bottlenecks():
    topo = parking_lot(hops=4, cross=1)
    flows = flow_list(topo, [(i, topo.hosts - 1 - i, 200_000, f"{i}us") for i in range(topo.hosts // 2)])
    compared, _ = check(topo, flows, "powertcp")
    assert compared > 300


# ---- the file itself, fed with any telemetry ----


class Alone(dict):
    """The scheme's file as plain Python, with one flow on one line and nothing around it."""

    def __init__(self, parameters, text=""):
        super().__init__(min=min, max=max, float=float, range=range)
        self.flow = SimpleNamespace(sent=0, window=0, pace=0.0)
        old = [SimpleNamespace(ts=0, tx_bytes=0, qlen=0) for _ in range(5)]
        self.mine = SimpleNamespace(
            cwnd=0.0, cwnd_old=0.0, cwnd_most=0.0, smooth=0.0, last_update_seq=0, hops=0, path=0, prev_int=old
        )
        self.me = SimpleNamespace(**parse("powertcp", parameters).values("powertcp"))
        self.me.at = SimpleNamespace(world=SimpleNamespace(base_rtt=10 * US))
        self.node, self.ack = SimpleNamespace(now=0), SimpleNamespace(hops=0, path=0, ack_l=[])
        self.update(
            my_flow=lambda *_: self.mine,
            my_packet=lambda *_: self.ack,
            ack_l_at=lambda ack, i: ack.ack_l[i],
            prev_int_at=lambda mine, i: mine.prev_int[i],
            whole=int,
            port_of=lambda *_: SimpleNamespace(ps_per_byte=LINE),
            set_rate=lambda flow, rate: setattr(flow, "pace", rate),
            repace=lambda *_: None,
        )
        exec(text or (FOLDER / "powertcp.py").read_text(), self)
        self["set_up"](self.me)
        self["on_start"](self.me, self.node, self.flow, None)


def compare(walk, average="cwnd", text="", first=0):
    """The file against the transcription; walk: (time since the last ACK, (bytes sent, queue) of hops, path, in flight)."""
    parameters = {"average": average, "min_rate": "2Gbps", "r_ai": "1Gbps", "gamma": 0.8, "first": first}
    scheme, now, seq = Alone(parameters, text), 1000 * US, 0
    model = model_of(SimpleNamespace(base_rtt_ps=lambda: 10 * US), parse("powertcp", parameters).values("powertcp"))
    sent = [0] * 5
    for later, links, path, in_flight in walk:
        now, seq = now + later, seq + 1000
        H = []
        for i, (count, queue) in enumerate(links):
            sent[i] += count
            H.append(powertcp.Hop(queue, now - 100_000 * i, sent[i], 1 / [80, 160, 320][i % 3]))
        scheme.node.now, scheme.flow.sent = now, seq + 1000 * in_flight
        scheme.ack.hops, scheme.ack.path = len(links), path
        scheme.ack.ack_l = [SimpleNamespace(ts=h.ts, tx_bytes=h.txBytes, qlen=h.qlen, ps_per_byte=round(1 / h.b)) for h in H]
        scheme["on_ack"](scheme.me, scheme.node, scheme.flow, SimpleNamespace(seq=seq))
        cwnd = model.NEWACK(H, seq, seq + 1000 * in_flight, (path, len(links)))
        assert scheme.mine.cwnd == pytest.approx(cwnd, rel=1e-9)
        assert scheme.flow.window == int(scheme.mine.cwnd) and scheme.flow.pace == pytest.approx(cwnd * 8e12 / (10 * US))


hops = st.lists(st.tuples(st.integers(1000, 200_000), st.integers(0, 300_000)), min_size=2, max_size=5)
steps = st.tuples(st.integers(80_000, 30 * US), hops, st.integers(0, 1), st.integers(0, 9))


@examples(50)
@given(st.lists(steps, min_size=10, max_size=40), st.sampled_from(["cwnd", "cwnd_old"]), st.sampled_from([0, 0.5, 3]))
def test_any_telemetry(walk, average, first):
    compare(walk, average, first=first)


def long_walk(seed=3, count=2000):
    """Two hops that are about as loaded as the flow's own line; another path now and then."""
    r = random.Random(seed)
    out = []
    for k in range(count):
        later = r.randint(80_000, 12 * US)
        links = [
            (int(later / 80 * r.uniform(0.4, 1.1)), r.randint(0, 60_000)),
            (int(later / 160 * r.uniform(0.4, 1)), r.randint(0, 9000)),
        ]
        out.append((later, links, k // 97 % 2, r.randint(0, 9)))
    return out


MISTAKES = {
    "no queue gradient": ("(q_dot + mu)", "mu"),
    "no queue": ("link.qlen / powertcp.tau * link.ps_per_byte + 1", "1.0"),
    "the least power": ("if power > norm:", "if power < norm or norm == 0:"),
    "no smoothing": ("(1 - weight) * mine.smooth + weight * norm", "norm"),
    "the present window": ("powertcp.gamma * (mine.cwnd_old", "powertcp.gamma * (mine.cwnd"),
    "the average": ("if powertcp.average == CWND", "if powertcp.average != CWND"),
    "the old window at every ACK": ("if pkt.seq > mine.last_update_seq", "if pkt.seq > 0"),
    "the old telemetry": (
        "    remember(powertcp, flow, pkt)\n",
        "    if pkt.seq > mine.last_update_seq:\n        remember(powertcp, flow, pkt)\n",
    ),
    "no increase": ("+ powertcp.beta)", ")"),
    "the path": ("ack.hops == mine.hops and ack.path == mine.path", "ack.hops == mine.hops"),
    "the first ACK": ("mine.hops = -1", "mine.hops = 2"),
    "the bound": ("8e12), mine.cwnd_most)", "8e12), 9e9)"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found(mistake):
    text = (FOLDER / "powertcp.py").read_text()
    right, wrong = MISTAKES[mistake]
    assert text.count(right) == 1
    with pytest.raises(AssertionError):
        compare(long_walk(), "cwnd", text.replace(right, wrong))


def test_a_long_walk():
    compare(long_walk())
    compare(long_walk(), first=0.5)


@pytest.mark.parametrize("right, wrong", [(" * voltage_of(powertcp, ack_l_at(ack, i))", ""), ("mine.hops < 0 and", "")])
def test_a_mistake_at_the_first_ack_is_found(right, wrong):
    text = (FOLDER / "powertcp.py").read_text()
    assert text.count(right) == 1
    with pytest.raises(AssertionError):
        compare(long_walk(), text=text.replace(right, wrong), first=0.5)


# ---- Laws ----


def test_power_by_hand():
    """tau 10, b 1: a full link without a queue has power 1; a queue of half a BDP that grows at half the rate 1.5 times 1.5."""
    model = powertcp.PowerTCP(10, 100, gamma=1)
    hop = powertcp.Hop
    assert model.NEWACK([hop(0, 0, 0, 1)], 1, 100) == 100
    assert model.NEWACK([hop(0, 10, 10, 1)], 2, 100) == 100
    assert model.NEWACK([hop(5, 20, 20, 1)], 3, 100) == pytest.approx(100 / (1.5 * 1.5))
    assert model.smooth == 2.25
    model.NEWACK([hop(2.5, 25, 25, 1)], 4, 100)  # half of an RTT later: half of the weight; the queue is half as long
    assert model.smooth == pytest.approx((2.25 + 0.5 * 1.25) / 2)


def bottleneck(parameters, count, since=200e3, until=500e3, seed=1):
    """Long flows to one host -> mean queue, rate of the link in Gbit/s, FCTs."""
    topo = star(hosts=count + 1)
    flows = flow_list(topo, [(i, 0, 8_000_000 // count, "0us") for i in range(1, count + 1)])
    run = simulate(topo, flows, parse("powertcp", parameters), measure=Measure(sample="1us", port_series=True), seed=seed)
    series = run.extra["port_series"]
    port = series.filter((series["node"] == topo.hosts) & (series["port"] == 0) & series["time_ns"].is_between(since, until))
    rate = 8 * (port["tx_bytes"][-1] - port["tx_bytes"][0]) / (port["time_ns"][-1] - port["time_ns"][0])
    return port["queue_bytes"].mean(), rate, run.flows["fct_ns"].to_list()


@pytest.mark.parametrize("r_ai, count", [(3e9, 2), (1e9, 6)])
def test_the_equilibrium(r_ai, count):
    """Theorems 1 and 3: long flows keep a queue of the sum of their beta, to a packet, and share the link equally."""
    queue, rate, fct = bottleneck({"r_ai": r_ai}, count)
    tau = star(hosts=count + 1).base_rtt_ps()
    expected, _ = powertcp.equilibrium(1 / LINE, tau, [r_ai * tau / 8e12] * count)
    assert queue == pytest.approx(expected, abs=1048) and rate > 99.5 and min(fct) > 0.93 * max(fct)


def test_averaged_with_the_present_window_the_windows_swing():
    """What the scheme's docstring says of equation 7."""
    old, present = ([bottleneck({"average": of}, 4, seed=seed)[1] for seed in (1, 2, 5, 6)] for of in ("cwnd_old", "cwnd"))
    assert min(old) > 99 and max(present) < 98 and min(present) < 80


def test_a_free_link_is_filled_at_once():
    """One of two flows ends: within four RTTs the other one has the link; HPCC's additive steps take longer."""
    topo = star(hosts=3)
    flows = flow_list(topo, [(1, 0, 6_000_000, "0us"), (2, 0, 1_000_000, "0us")])
    run = simulate(topo, flows, parse("powertcp"), measure=Measure(sample="0.5us", port_series=True))
    series = run.extra["port_series"]
    end = run.flows["fct_ns"].to_list()[1]
    rtt = topo.base_rtt_ps() / 1000
    port = series.filter(
        (series["node"] == 3) & (series["port"] == 0) & series["time_ns"].is_between(end + 4 * rtt, end + 14 * rtt)
    )
    rate = 8 * (port["tx_bytes"][-1] - port["tx_bytes"][0]) / (port["time_ns"][-1] - port["time_ns"][0])
    assert rate > 98


def test_a_lone_flow_pays_for_the_header():
    topo = network()
    run = simulate(topo, flow_list(topo, [(0, 15, 5_000_000, "0us")]), "powertcp")
    assert run.flows["slowdown"][0] == pytest.approx(1090 / 1048, rel=0.001)


def test_a_new_path_starts_a_new_record():
    """A link on the way fails and comes back: the first ACK over each new path is only remembered."""
    topo = network()
    link = {"a": "tor0", "b": "spine0"}
    changes = [{**link, "time": "60us", "up": False}, {**link, "time": "120us", "up": True}]
    flows = flow_list(topo, [(i, 8 + i, 1_000_000, "0us") for i in range(4)])
    run = simulate(topo.with_changes(changes), flows, "powertcp")
    assert run.summary["flows_finished"] == 4


def test_without_telemetry_it_is_refused():
    with pytest.raises(SchemeError, match="powertcp needs what telemetry writes into packets"):
        simulate(star(hosts=2), flow_list(star(hosts=2), [(0, 1, 1000, "0us")]), parse("powertcp", {"telemetry": False}))


def test_any_number_of_threads_gives_the_same_results():
    assert acted(check_threads("powertcp"))
    check_threads("powertcp:ns3")
    check_threads("powertcp+dqa", {"queues": 8})


def test_parts_and_presets():
    assert list(parse("powertcp").parts) == ["pfc", "telemetry", "powertcp"]
    values = parse("powertcp:ns3").values("powertcp")
    assert values["eta"] == 0.95 and values["least_current"] == values["first"] == 0.5


def test_bad_parameters_are_refused():
    check_bad("powertcp", {"gamma": 0}, "0.01..1")
    check_bad("powertcp", {"average": "both"}, "cwnd, cwnd_old")
