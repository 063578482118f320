"""Swift's windows and departures against the transcription of Algorithm 1, ACK by ACK; target delay; losses; slow receivers."""

import random
from dataclasses import fields
from itertools import pairwise
from math import sqrt
from types import SimpleNamespace

import pytest
from drawn import examples
from helpers import DATA, QUEUED_ACKS, US, acted, check_bad, check_sending, check_threads, check_windows, network, senders, traced
from hypothesis import given
from hypothesis import strategies as st
from paper import swift

from penstock_net.composition import FOLDER, parse
from penstock_net.sim.config import HostConfig, Measure
from penstock_net.sim.simulate import simulate
from penstock_net.topology import behind_vswitches, star, with_receivers
from penstock_net.workload import flow_list

MEASURE = Measure(sample="0.2us", packets=True, flow_series=True, flows=False)
FULL = 1056  # a data packet with its stamp
CLOSE = {"base_target": "5us", "hop_scale": "1us", "fs_range": "8us"}
SMALL = {"base_target": "6us", "hop_scale": "1us", "fs_range": "1us"}  # on a slow network: less than a packet per RTT
SLOW = star(hosts=14, rate="10Gbps", buffer="100MB")


def parameters_of(scheme, parameters=None):
    values = parse(scheme, parameters).values("swift")
    return swift.Parameters(**{f.name: values[f.name] for f in fields(swift.Parameters)})


def crowd(topo, size=400_000):
    """To host 0, from its rack and from others."""
    return flow_list(topo, [(i, 0, size + 30_000 * i, f"{4 * i}us") for i in range(1, min(topo.hosts, 14))])


def endpoint_delays(topo, rows):
    """(flow, offset) -> time in a virtual switch before the application; a network has none without virtual switches."""
    came, out = {}, {}
    for r in rows:
        if r.kind == DATA and r.node >= topo.hosts and topo.tier[r.node] == 0:
            if r.event == "enqueue":
                came[r.flow, r.offset] = r.at
            elif r.event == "dequeue":
                out[r.flow, r.offset] = r.at - came[r.flow, r.offset]  # the last of two switches is the receiver's
    return out


def applied(model):
    """Window in bytes, time between two packets."""
    return max(model.cwnd - 1, 0) * 1000 + 1, model.pacing_delay


def trajectories(topo, flows, rows, p, line=80):
    """Flow -> (time, window in bytes, pacing_delay) at the start and after each ACK; the models."""
    sent, acks = senders(topo, flows, rows)
    endpoint = endpoint_delays(topo, rows)
    bdp = -(-topo.base_rtt_ps() // line)
    out, models = {}, []
    for flow, got in acks.items():
        made = {s.offset: s.at for s in sent[flow]}
        model = swift.Sender(p, bdp / 1000, topo.base_rtt_ps())
        out[flow], seq = [(0, *applied(model))], 0
        for ack in got:
            hops = sum(topo.tier[r.node] > 0 for r in ack.links)
            delay = endpoint.get((flow, ack.offset), 0)
            model.on_ack(ack.at, ack.at - made[ack.offset], delay, hops, (ack.seq - seq) / 1000)
            out[flow].append((ack.at, *applied(model)))
            seq = ack.seq
        models.append(model)
    return sent, acks, out, models


def check(topo, flows, scheme, parameters=None, line=80):
    """A run against the transcription: every window that is sampled, and every departure -> the run, the models."""
    run, rows = traced(topo, flows, scheme, parameters, measure=MEASURE, host=QUEUED_ACKS)
    assert run.ports["pauses_sent"].sum() == 0 and acted(run)
    sent, acks, states, models = trajectories(topo, flows, rows, parameters_of("swift", parameters), line)
    for flow, got in states.items():
        assert check_windows(run, flow, [(at, w) for at, w, _ in got]) > 30
        check_sending(
            sent[flow],
            acks[flow],
            [w for _, w, _ in got],
            lambda k, _, got=got: got[k][2] / FULL,
            lambda k, got=got: (got[k][2] > 0) != (got[k - 1][2] > 0),
            line,
        )
    return run, models


def test_every_window_and_every_departure():
    for topo in (star(hosts=6, buffer="100MB"), network(buffer="100MB")):
        _, models = check(topo, crowd(topo), "swift", CLOSE)
        events = [e for m in models for e in m.events]
        assert min(events.count(e) for e in ("more", "less", "same")) > 20


def test_less_than_a_packet_per_rtt():
    _, models = check(SLOW, crowd(SLOW, 60_000), "swift", SMALL, 800)
    assert sum(m.least < 0.9 for m in models) > 10


# ---- Section 3.5: the target delay ----


def test_the_target_delay_by_hand():
    p = swift.Parameters()
    assert swift.target_delay(p, 1, 100) == swift.target_delay(p, 1, 5000) == 16 * US
    assert swift.target_delay(p, 5, 0.1) == swift.target_delay(p, 5, 0.01) == pytest.approx(95 * US)
    # alpha = 75 us / (sqrt(10) - 1/10) = 24.49 us, beta = -2.449 us
    assert swift.target_delay(p, 3, 4) == pytest.approx((18 + 24.4914 / 2 - 2.4491) * US, rel=1e-4)
    q = parameters_of("swift:htsim")
    assert swift.target_delay(q, 2, 1e9) == pytest.approx((20 + 2 * 20 / 6.55) * US)


# ---- the file itself, fed with any delays ----


class Alone(dict):
    """The scheme's file as plain Python, with one flow on one line and nothing around it."""

    def __init__(self, parameters, text=""):
        super().__init__(min=min, max=max, float=float, range=range)
        self.flow = SimpleNamespace(sent=0, acked=0, window=2**60, pace=0.0, backoff=1, back=[], repaced=0)
        windows = [SimpleNamespace(cwnd=0.0, cut_at=0) for _ in range(2)]
        self.mine = SimpleNamespace(w=windows, rtt=0, acked=0, retransmit_cnt=0, paced=0)
        self.me = SimpleNamespace(**parse("swift", parameters).values("swift"))
        self.me.at = SimpleNamespace(world=SimpleNamespace(mtu=1000, header=48, base_rtt=4 * US, bdp=50_000))
        self.node, self.carried = SimpleNamespace(now=0), SimpleNamespace(stamp=0, endpoint=0, hops=0)
        self.update(
            my_flow=lambda *_: self.mine,
            my_packet=lambda *_: self.carried,
            w_at=lambda mine, i: mine.w[i],
            time_waited=lambda _, pkt: pkt.waited,
            whole=int,
            sqrt=sqrt,
            NEVER=2**63 - 1,
            NACK=4,
            DATA=0,
            port_of=lambda *_: SimpleNamespace(ps_per_byte=80),
            set_rate=lambda flow, rate: setattr(flow, "pace", rate),
            repace=lambda node, flow: setattr(flow, "repaced", flow.repaced + 1),
            send_from=lambda node, flow, offset: flow.back.append(offset),
        )
        exec(text or (FOLDER / "swift.py").read_text(), self)
        self["set_up"](self.me)
        self["on_start"](self.me, self.node, self.flow, None)

    def ack(self, now, rtt, endpoint, hops, acked, flags=0):
        """A third of the endpoint's delay is the host's."""
        self.node.now = now
        self.carried.stamp, self.carried.endpoint, self.carried.hops = now - rtt, endpoint - endpoint // 3, hops
        self.flow.acked += acked
        self["on_ack"](self.me, self.node, self.flow, SimpleNamespace(flags=flags, waited=endpoint // 3))

    def timeout(self, now):
        self.node.now = now
        self.flow.sent = self.flow.acked + 1
        self["on_timeout"](self.me, self.node, self.flow)


def compare(walk, text=""):
    """The file against the transcription; walk: (event, rtt, endpoint's delay, hops, bytes acknowledged, time since the last)."""
    parameters = {"min_cwnd": 0.2, "max_cwnd": 60.0, "retx_reset_threshold": 3, "ai": 2.0}
    scheme, now, changes = Alone(parameters, text), 0, 0
    model = swift.Sender(parameters_of("swift", parameters), 50.0, 4 * US)
    for what, rtt, endpoint, hops, acked, later in walk:
        now += later
        before = model.cwnd < 1
        if what == "timeout":
            scheme.timeout(now)
            model.on_retransmit_timeout(now)
        elif what == "NACK":
            scheme.ack(now, rtt, 0, hops, acked, 4)
            model.on_fast_recovery(now, rtt)
        else:
            scheme.ack(now, rtt, min(endpoint, rtt), hops, acked)
            model.on_ack(now, rtt, min(endpoint, rtt), hops, acked / 1000)
        changes += before != (model.cwnd < 1)
        assert min(w.cwnd for w in scheme.mine.w) == pytest.approx(model.cwnd, rel=1e-9)
        assert scheme.flow.window == pytest.approx(max(model.cwnd - 1, 0) * 1000 + 1, abs=1.001)
        assert 8e12 * FULL / scheme.flow.pace == pytest.approx(model.pacing_delay or FULL * 80, rel=1e-9)
        assert scheme.flow.repaced == changes
    assert len(scheme.flow.back) == model.events.count("timeout")


EVENTS = ["ack"] * 20 + ["NACK", "timeout", "timeout"]
steps = st.tuples(
    st.sampled_from(EVENTS),
    st.integers(4 * US, 120 * US),
    st.integers(0, 30 * US),
    st.integers(1, 7),
    st.sampled_from([0, 1000, 1000, 1000, 5000, 300]),
    st.integers(0, 40 * US),
)


@examples(100)
@given(st.lists(steps, min_size=5, max_size=150))
def test_any_delays_losses_and_timeouts(walk):
    compare(walk)


def long_walk(seed=7, count=3000):
    r = random.Random(seed)
    out = []
    for k in range(count):
        busy = k // 100 % 3  # target met, exceeded, exceeded at the endpoint
        rtt = r.randint(4, 30) if busy == 0 else r.randint(20, 120)
        endpoint = r.randint(0, 40) if busy == 2 else r.randint(0, 10)
        acked, later = r.choice([0, 1000, 1000, 5000]), r.randint(0, 40)
        out.append((r.choice(EVENTS), rtt * US, endpoint * US, r.randint(1, 7), acked, later * US))
    return out


def test_a_long_walk():
    compare(long_walk())


MISTAKES = {
    "the increment below a packet": ("max(window.cwnd, 1.0)", "max(window.cwnd, 0.5)"),
    "the cut": ("swift.beta * (delay - target) / delay", "swift.beta * (delay - target) / target"),
    "the largest cut": ("/ delay, swift.max_mdf)", "/ delay, 0.45)"),
    "once per RTT": ("node.now - my_flow(swift, flow).rtt >= window.cut_at", "node.now >= window.cut_at"),
    "hops": ("hops * swift.hop_scale", "2 * swift.hop_scale"),
    "the root": ("swift.alpha / sqrt(fcwnd)", "swift.alpha / fcwnd"),
    "the shift": ("+ swift.shift, float", ", float"),
    "the pace": ("* cwnd / mine.rtt if", "/ mine.rtt if"),
    "the change to a pace": ("if paced != mine.paced", "if paced < mine.paced"),
    "the change from a pace": ("if paced != mine.paced", "if paced > mine.paced"),
    "a packet too much": ("whole(max(cwnd - 1, 0.0) * mtu) + 1", "whole(cwnd * mtu)"),
    "what the host adds": ("endpoint = ack.endpoint + time_waited(node, pkt)", "endpoint = ack.endpoint"),
    "recovery": ("if pkt.flags & NACK", "if pkt.flags & 8"),
    "timeouts counted over ACKs": ("    mine.retransmit_cnt = 0\n", ""),
    "the timeouts that reset": ("mine.retransmit_cnt >= swift", "mine.retransmit_cnt > swift"),
    "the fabric's delay": ("mine.rtt - endpoint,", "mine.rtt,"),
    "the endpoint's window": ("w_at(mine, ENDPOINT), endpoint", "w_at(mine, ENDPOINT), 0"),
    "the bounds": ("max(window.cwnd, swift.min_cwnd)", "max(window.cwnd, 0.001)"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found(mistake):
    text = (FOLDER / "swift.py").read_text()
    right, wrong = MISTAKES[mistake]
    assert text.count(right) == 1
    with pytest.raises(AssertionError):
        compare(long_walk(), text.replace(right, wrong))


def test_a_flow_that_its_pace_holds_back_does_not_time_out():
    scheme = Alone({})
    scheme.node.now = 10**10
    scheme["on_timeout"](scheme.me, scheme.node, scheme.flow)
    assert scheme.mine.retransmit_cnt == 0 and scheme.flow.backoff == 0 and not scheme.flow.back


# ---- Laws ----


def queue_of(run, topo, since, until):
    series = run.extra["port_series"]
    port = series.filter((series["node"] == topo.hosts) & (series["port"] == 0) & series["time_ns"].is_between(since, until))
    return port["queue_bytes"]


def test_the_delay_settles_at_the_target():
    """Two long flows of tens of packets: the RTT is near base_target + hop_scale + fs."""
    topo = star(hosts=3, buffer="100MB")
    flows = flow_list(topo, [(1, 0, 12_000_000, "0us"), (2, 0, 12_000_000, "0us")])
    run = simulate(topo, flows, parse("swift"), measure=Measure(sample="1us", port_series=True))
    rtt = topo.base_rtt_ps() + queue_of(run, topo, 500e3, 1800e3).mean() * 80
    fcwnd = rtt / 80 / FULL / 2
    assert 0.8 < rtt / swift.target_delay(swift.Parameters(), 1, fcwnd) < 1.05
    fct = run.flows["fct_ns"].to_list()
    assert max(run.flows["slowdown"]) < 2.05 and 0.85 < fct[0] / fct[1] < 1.15


def test_many_flows_share_a_link_by_less_than_a_packet_per_rtt():
    """40 flows that each add a packet per RTT to a path of 17: the RTT is above its target, and below that of whole packets."""
    topo = star(hosts=41, rate="10Gbps", buffer="100MB")
    flows = flow_list(topo, [(i, 0, 60_000, "0us") for i in range(1, 41)])
    rtt = {}
    for min_cwnd in (0.001, 1.0):
        values = {"base_target": "8us", "fs_range": "12us", "min_cwnd": min_cwnd}
        run = simulate(topo, flows, parse("swift", values), measure=Measure(sample="1us", port_series=True))
        rtt[min_cwnd] = topo.base_rtt_ps() + queue_of(run, topo, 600e3, 1500e3).mean() * 800
        assert max(run.flows["slowdown"]) < 1.15 * 40
    fcwnd = rtt[0.001] / 800 / FULL / 40
    assert fcwnd < 0.8 and 1 < rtt[0.001] / swift.target_delay(parameters_of("swift", values), 1, fcwnd) < 1.5
    assert rtt[1.0] > 1.5 * rtt[0.001]


def test_a_lone_flow_pays_for_the_stamps_alone():
    topo = network()
    sizes = (1, 1000, 5500, 2_000_000)
    flows = flow_list(topo, [(i, 15 - i, size, f"{i * 500}us") for i, size in enumerate(sizes)])
    assert all(1 < slowdown < 1.0145 for slowdown in simulate(topo, flows, parse("swift")).flows["slowdown"])
    free = simulate(topo, flows, parse("swift", {"stamp_bytes": 0}))
    assert free.flows["slowdown"].to_list() == [1.0] * len(sizes)


def test_losses_cut_the_window():
    """Beside a run with a large buffer: drops, NACKs, and every flow ends."""
    topo = star(hosts=9, buffer="60KB")
    flows = crowd(topo)
    run = simulate(topo, flows, parse("swift", {"pfc": False, **CLOSE}), host=HostConfig(rto="200us"))
    assert run.summary["drops"] > 0 and run.summary["flows_finished"] == len(flows)
    free = simulate(topo, flows, parse("fifo"), host=HostConfig(rto="200us"))
    assert run.summary["drops"] < 0.2 * free.summary["drops"]


def test_timeouts_in_succession_reset_the_window():
    """A link is down for 9 ms: cuts at the first four timeouts, then min_cwnd; an ACK ends that."""
    topo = star(hosts=2)
    down = {"a": "host0", "b": "switch0"}  # the receiver's
    changes = [{**down, "time": "20us", "up": False}, {**down, "time": "9ms", "up": True}]
    flows = flow_list(topo, [(1, 0, 2_000_000, "0us")])
    run = simulate(
        topo.with_changes(changes),
        flows,
        parse("swift", {"min_cwnd": 0.5}),
        host=HostConfig(rto="100us"),
        measure=Measure(sample="20us", flow_series=True),
    )
    windows = [w for t, w in run.extra["flow_series"].select("time_ns", "window_bytes").iter_rows() if 20e3 < t < 9e6]
    levels = list(dict.fromkeys(windows))
    packets = [(w - 1) / 1000 + 1 for w in levels]
    assert len(levels) == 6 and levels[-1] == 1
    assert [b / a for a, b in pairwise(packets[:-1])] == pytest.approx([0.5] * 4, rel=0.01)
    assert run.summary["flows_finished"] == 1


def slow_receiver(rate="10Gbps"):
    topo = behind_vswitches(star(hosts=4, buffer="12MB"), apps=1, buffer="8MB")
    return with_receivers(topo, [{"host": 0, "rate": rate}])


def test_a_slow_receiver_is_the_endpoint_s_delay():
    """The virtual switch's queue settles at endpoint_target, whatever the fabric's target."""
    topo = slow_receiver()
    flows = flow_list(topo, [(i, 0, 700_000, f"{3 * i}us") for i in (1, 2)])
    _, models = check(topo, flows, "swift", {"endpoint_target": "30us", "base_target": "40us"})
    assert all(m.endpoint.cwnd < m.fabric.cwnd for m in models)
    run = simulate(topo, flows, parse("swift", {"endpoint_target": "30us"}), measure=Measure(sample="2us", flows=False))
    deepest = run.switches.filter(run.switches["time_ns"].is_between(400e3, 1000e3))["buffer_bytes"].max()
    assert deepest * 800 < 45 * US


def test_stamps_are_on_the_wire():
    topo = star(hosts=2)
    flows = flow_list(topo, [(1, 0, 5500, "0us")])
    for parameters, extra in (({}, 8), ({"stamp_bytes": 0}, 0), ({"stamp_bytes": 30}, 30)):
        _, rows = traced(topo, flows, "swift", parameters, host=QUEUED_ACKS)
        assert {r.size for r in rows if r.kind == DATA} == {1048 + extra, 548 + extra}
        assert {r.size for r in rows if r.kind != DATA} == {max(60, 46 + extra)}


def test_any_number_of_threads_gives_the_same_results():
    assert acted(check_threads("swift", CLOSE))
    check_threads("swift", {**CLOSE, "pfc": False}, host=HostConfig(rto="100us"), topo=network(buffer="100KB"))


def test_parts_and_presets():
    assert list(parse("swift").parts) == ["pfc", "swift"]
    assert parameters_of("swift") == swift.Parameters()


def test_bad_parameters_are_refused():
    check_bad("swift", {"fs_min_cwnd": 10}, "1e-6..9.99")
    check_bad("swift", {"min_cwnd": 0}, "1e-6..1e6")
    check_bad("swift", {"max_mdf": 1.5}, "0..1")
