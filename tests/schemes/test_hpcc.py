"""HPCC's senders against Algorithm 1 as transcribed, with their inputs reconstructed from the packet trace."""

import random
from itertools import pairwise
from types import SimpleNamespace

import pytest
from alone import Alone, check_mistake
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
from paper import hpcc

from penstock_net.composition import parse
from penstock_net.sim.config import Measure
from penstock_net.sim.simulate import simulate
from penstock_net.topology import parking_lot, star
from penstock_net.workload import flow_list

LINE = 80
REACTIONS = ["hpcc", "per-ack", "per-rtt"]


def t_of(topo, values, flow, pair, seed=1):
    """T of a flow: there in full packets, back as an ACK, hop by hop."""
    if not values["own_t"]:
        return values["t"] or topo.base_rtt_ps()
    hops = [len(topo.path_links(flow, *pair, seed=seed, ack=ack)) for ack in (False, True)]
    return sum(n * (1_000_000 + size * LINE) for n, size in zip(hops, (1048, 60)))


def model_of(values, T):
    W_AI = values["r_ai"] * T / 8e12 if values["r_ai"] else values["w_ai"]
    return (hpcc.MultiRate if values["multi_rate"] else hpcc.Sender)(
        T,
        T / LINE,
        values["eta"],
        values["max_stage"],
        W_AI,
        values["min_rate"] * T / 8e12,
        T / LINE,
        reaction=REACTIONS[values["reaction"]],
        rate=["txBytes", "rxBytes"][values["rate"]],
    )


def crowd(topo, near=()):
    return incast(
        topo,
        range(4, 12),
        size=[150_000 + 9000 * i for i in range(8)],
        every_ns=1100,
        more=[(12, 3, 200_000, "3us"), (13, 0, 2500, "9us"), (14, 0, 700, "9us"), (15, 2, 180_000, "2us"), *near],
    )


def trajectories(topo, flows, rows, scheme, parameters=None):
    """Flow -> (time, W) after each ACK, by the transcription."""
    values, out = parse(scheme, parameters).values("hpcc"), {}
    sent, acks = senders(topo, flows, rows)
    count = counters(rows)
    for flow, got in acks.items():
        model = model_of(values, t_of(topo, values, flow, (int(flows.src[flow]), int(flows.dst[flow]))))
        out[flow] = [(0, model.W)]
        for ack in got:
            links = []
            for r in ack.links:
                tx, rx = count[r.node, r.port, r.at]
                links.append(hpcc.Link(r.port_bytes, tx, r.at, 1 / LINE, rx))
            model.new_ack(hpcc.Ack(ack.seq, ack.snd_nxt, tuple(links)))
            out[flow].append((ack.at, model.W))
    return sent, acks, out


CASES = {
    "paper": ("hpcc", {}),
    "ns3": ("hpcc:ns3", {}),
    "bfc": ("hpcc:bfc", {"host.ack_priority": "data"}),
    "per ack": ("hpcc", {"reaction": "per_ack"}),
    "per rtt": ("hpcc", {"reaction": "per_rtt"}),
    "rx": ("hpcc", {"rate": "rx"}),
    "floodgate": ("hpcc:floodgate", {}),
    "floodgate per ack": ("hpcc:floodgate", {"reaction": "per_ack"}),
    "floodgate per rtt": ("hpcc:floodgate", {"reaction": "per_rtt", "rate": "rx"}),
    "own T": ("hpcc:ns3", {"own_t": True, "t": "99us"}),
    "others": ("hpcc", {"eta": 0.8, "max_stage": 1, "w_ai": "500B", "t": "13us", "min_rate": "5Gbps", "int_bytes": 0}),
}


def test_stages_begin_again_after_a_multiplicative_step():
    """A long flow that is left alone: additive steps, a multiplicative one, additive steps."""
    topo = network()
    flows = incast(topo, [4, 8, 12], size=[2_000_000, 150_000, 100_000])
    parameters = {"max_stage": 3, "w_ai": "300B"}
    run, rows = traced(topo, flows, "hpcc", parameters, measure=SAMPLES, host=QUEUED_ACKS)
    _, _, windows = trajectories(topo, flows, rows, "hpcc", parameters)
    assert check_windows(run, 0, windows[0]) > 300
    steps = [b - a for (_, a), (_, b) in pairwise(windows[0]) if b != a]
    assert sum(s == pytest.approx(300) for s in steps) > 4 and max(steps) > 3000


@pytest.mark.parametrize("case", CASES)
def test_every_window_and_every_departure(case):
    scheme, parameters = CASES[case]
    topo = network()
    near = [(1, 3, 150_000, "2us")]  # in one rack; the host does nothing else
    flows = crowd(topo, near if case == "own T" else ())
    run, rows = traced(topo, flows, scheme, parameters, measure=SAMPLES, host=QUEUED_ACKS)
    assert run.ports["pauses_sent"].sum() == 0  # so that all that a port sent is in the trace
    sent, acks, windows = trajectories(topo, flows, rows, scheme, parameters)
    values, round_trips = parse(scheme, parameters).values("hpcc"), set()
    compared, cut = 0, 0
    for flow in range(len(flows)):
        T = t_of(topo, values, flow, (int(flows.src[flow]), int(flows.dst[flow])))
        round_trips.add(T)
        compared += check_windows(run, flow, windows[flow])
        W = [w for _, w in windows[flow]]
        check_sending(sent[flow], acks[flow], W, lambda k, _, W=W, T=T: T / W[k], moves=True)
        cut += min(W) < 0.6 * T / LINE
    assert compared > 300 and cut >= 3 and len(round_trips) == 1 + values["own_t"]


# ---- the file itself, fed with any telemetry ----

BASE_RTT = 10 * US


def compare(walk, scheme, parameters, text=""):
    """The file against Algorithm 1; walk: (ps since the last ACK, (bytes sent, queue) of links, path, packets beyond the ACK)."""
    parameters = {"min_rate": "20Gbps", "r_ai": "1Gbps", **parameters}
    alone = Alone(scheme, parameters, text, base_rtt=BASE_RTT, bdp=BASE_RTT // LINE)
    values = parse(scheme, parameters).values("hpcc")
    T = values["t"] or BASE_RTT
    model = model_of(values, T)
    sent, now, seq, windows = [0] * 5, 0, 0, []
    for later, loads, path, ahead in walk:
        now, seq, links = now + later, seq + 1000, []
        for i, (count, queue) in enumerate(loads):
            sent[i] += count
            # the third link has a clock that stands still for a while
            links.append(hpcc.Link(queue, sent[i], now - 100_000 * i if i < 2 else now // US * US, 1 / [80, 160, 40][i % 3]))
        links = [hpcc.Link(k.qLen, k.txBytes, k.ts, k.B, k.txBytes + k.qLen) for k in links]
        model.new_ack(hpcc.Ack(seq, seq + 1000 * ahead, tuple(links), (path, len(links))))
        told = [SimpleNamespace(ts=k.ts, tx_bytes=k.txBytes, qlen=k.qLen, ps_per_byte=round(1 / k.B)) for k in links]
        alone.ack(now, seq, seq + 1000 * ahead, hops=len(links), path=path, ack_l=told)
        assert alone.mine.w == pytest.approx(model.W, rel=1e-9)
        assert alone.flow.window == max(int(alone.mine.w), 1)
        assert alone.flow.pace == pytest.approx(model.W * 8e12 / T)
        windows.append(model.W)
    assert (min(windows), max(windows)) == (model.W_min, model.W_max) and len(set(windows)) > 100


ALONE = {
    "paper": ("hpcc", {}),
    "ns3": ("hpcc:ns3", {"eta": 0.8, "r_ai": 0, "w_ai": "300B"}),
    "per ack": ("hpcc", {"reaction": "per_ack", "eta": 0.9}),
    "per rtt": ("hpcc", {"reaction": "per_rtt", "max_stage": 3}),
    "rx": ("hpcc", {"rate": "rx", "t": "13us", "max_stage": 2}),
    "floodgate": ("hpcc:floodgate", {}),
    "floodgate per ack": ("hpcc:floodgate", {"reaction": "per_ack"}),
    "floodgate rx": ("hpcc:floodgate", {"rate": "rx", "max_stage": 1}),
}


def long_walk(*names, count=1500, seed=3):
    """Two or three links, full, half full and nearly empty by turns; another path now and then."""
    r, walk = random.Random(seed), []
    for k in range(count):
        later, busy = r.randint(80_000, 12 * US), [(0.4, 1.1), (0.9, 1), (0.1, 0.4), (0.02, 0.1)][k // 60 % 4]
        loads = [(int(later / rate * r.uniform(*busy)), r.randint(0, most)) for rate, most in ((80, 60_000), (160, 9000))]
        loads += [(int(later / 40 * r.uniform(0.1, 0.9)), r.randint(0, 20_000))] * (k // 350 % 2)
        walk.append((later, loads, k // 97 % 2, r.randint(0, 9)))

    def check(text=""):
        for name in names:
            compare(walk, *ALONE[name], text)

    return check


@pytest.mark.parametrize("name", ALONE)
def test_any_telemetry(name):
    long_walk(name)()


SINGLE = ("paper", "ns3", "per ack", "per rtt", "rx")
MULTI = ("floodgate", "floodgate per ack", "floodgate rx")
MISTAKES = {
    "T": (SINGLE, "hpcc.t if hpcc.t > 0", "hpcc.t if hpcc.t < 0"),
    "the increase as a rate": (SINGLE, "hpcc.r_ai * mine.base_rtt / 8e12 if", "hpcc.r_ai * mine.base_rtt / 9e12 if"),
    "the increase in bytes": (SINGLE, "if hpcc.r_ai > 0 else hpcc.w_ai", "if hpcc.r_ai > 0 else 80"),
    "the first U": (SINGLE, "reference.u = 1.0", "reference.u = 0.0"),
    "the first W^c": (SINGLE, "reference.wc = mine.w_init", "reference.wc = mine.w_init / 2"),
    "the first ACK": (SINGLE, "    mine.hops = -1\n", "    mine.hops = 2\n"),
    "the window in packets": (SINGLE, "whole(mine.w), 1)", "whole(mine.w) // 1000 * 1000, 1)"),
    "the pace": (SINGLE, "mine.w * 8e12 / mine.base_rtt)", "mine.w_init * 8e12 / mine.base_rtt)"),
    "the least window": (SINGLE, "max(w, hpcc.min_rate * mine.base_rtt / 8e12)", "max(w, 1.0)"),
    "the largest window": (SINGLE, "8e12), mine.w_init)", "8e12), 1e12)"),
    "bytes of the last hop": (SINGLE, "link.tx_bytes - old.tx_bytes", "link.tx_bytes - 0 * old.tx_bytes"),
    "rx is tx": (SINGLE, "        count += link.qlen - old.qlen\n", "        count += 0\n"),
    "tx is rx": (SINGLE, "    if hpcc.rate == RX:", "    if 1:"),
    "the larger queue": (SINGLE, "min(link.qlen, old.qlen)", "max(link.qlen, old.qlen)"),
    "the present queue": (SINGLE, "min(link.qlen, old.qlen)", "link.qlen"),
    "no queue": (SINGLE, "min(link.qlen, old.qlen) / mine.base_rtt + tx_rate", "tx_rate"),
    "the queue alone": (SINGLE, "min(link.qlen, old.qlen) / mine.base_rtt + tx_rate", "min(link.qlen, old.qlen) / mine.base_rtt"),
    "one speed": (SINGLE, "+ tx_rate) * link.ps_per_byte", "+ tx_rate) * 80"),
    "no average": (SINGLE, "(1 - weight) * reference.u + weight * u", "u"),
    "the weights": (SINGLE, "(1 - weight) * reference.u + weight * u", "weight * reference.u + (1 - weight) * u"),
    "a weight beyond 1": (SINGLE, "min(tau, T) / T", "tau / T"),
    "the least busy link": (SINGLE, "if u_link > u:", "if u_link < u or u == 0:"),
    "the last link": (SINGLE, "if u_link > u:", "if 1:"),
    "tau of the first link": (SINGLE, "tau = float(new.ts - old.ts)", "tau = tau or float(new.ts - old.ts)"),
    "equation (3) from W^c": (
        SINGLE,
        "mine.w / (u / hpcc.eta) + mine.step",
        "reference.wc / (u / hpcc.eta) + mine.step",
    ),
    "eta": (SINGLE, "reference.wc / (u / hpcc.eta) + mine.step", "reference.wc / u + mine.step"),
    "no increase beside the step": (SINGLE, "reference.wc / (u / hpcc.eta) + mine.step", "reference.wc / (u / hpcc.eta)"),
    "from W, not W^c": (SINGLE, "reference.wc / (u / hpcc.eta)", "my_flow(hpcc, flow).w / (u / hpcc.eta)"),
    "U below eta": (SINGLE, "if u >= hpcc.eta or", "if u >= 1.0 or"),
    "a stage more": (SINGLE, "reference.inc_stage >= hpcc.max_stage", "reference.inc_stage > hpcc.max_stage"),
    "stages never end": (SINGLE, " or reference.inc_stage >= hpcc.max_stage", ""),
    "stages do not begin again": (SINGLE, "            reference.inc_stage = 0\n", ""),
    "W^c is not cut": (SINGLE, "reference.inc_stage = 0\n            reference.wc = w\n", "reference.inc_stage = 0\n"),
    "W^c does not grow": (SINGLE, "reference.inc_stage += 1\n            reference.wc = w\n", "reference.inc_stage += 1\n"),
    "stages of ACKs": (
        SINGLE,
        "        if update_wc:\n            reference.inc_stage += 1\n            reference.wc = w",
        "        reference.inc_stage += 1\n        if update_wc:\n            reference.wc = w",
    ),
    "increases from W": (
        SINGLE,
        "bound(hpcc, flow, reference.wc + mine.step)",
        "bound(hpcc, flow, my_flow(hpcc, flow).w + mine.step)",
    ),
    "another path, the same hops": (SINGLE, "ack.hops != mine.hops or ack.path != mine.path", "ack.hops != mine.hops"),
    "the path is not noted": (SINGLE, "        mine.path = ack.path\n", ""),
    "the first ACK's round": (SINGLE, "        mine.last_update_seq = flow.sent\n        remember", "        remember"),
    "the first ACK is not noted": (SINGLE, "        remember(hpcc, flow, pkt)\n        return\n", "        return\n"),
    "a round for each ACK": (SINGLE, "        mine.last_update_seq = flow.sent\n    elif", "    elif"),
    "a round is a packet longer": (SINGLE, "pkt.seq > mine.last_update_seq", "pkt.seq - 1000 > mine.last_update_seq"),
    "per RTT at every ACK": (SINGLE, "    elif hpcc.reaction == PER_RTT:\n        return\n", ""),
    "per RTT, the last telemetry": (
        SINGLE,
        "    elif hpcc.reaction == PER_RTT:\n        return\n",
        "    elif hpcc.reaction == PER_RTT:\n        remember(hpcc, flow, pkt)\n        return\n",
    ),
    "rounds at all ACKs": (SINGLE, "mine.w = new_wind(hpcc, flow, pkt, 0)", "mine.w = new_wind(hpcc, flow, pkt, 1)"),
    "rounds at no ACK": (SINGLE, "mine.w = new_wind(hpcc, flow, pkt, 1)", "mine.w = new_wind(hpcc, flow, pkt, 0)"),
    "L of the round": (
        SINGLE,
        "    set_window(hpcc, node, flow)\n    remember(hpcc, flow, pkt)",
        "    set_window(hpcc, node, flow)",
    ),
    "the queue is not noted": (SINGLE, "        old.qlen = new.qlen\n", ""),
    "one reference": (MULTI, "        reference = r_at(mine, i)\n        if", "        reference = r_at(mine, 0)\n        if"),
    "not all references": (MULTI, "MAX_HOP if hpcc.multi_rate else 1", "2 if hpcc.multi_rate else 1"),
    "the busiest link": (MULTI, "    if not hpcc.multi_rate:", "    if 1:"),
    "the largest of the windows": (MULTI, "w = min(w, compute_wind", "w = max(w, compute_wind"),
    "the last window": (
        MULTI,
        "w = min(w, compute_wind(hpcc, flow, reference, reference.u, update_wc))",
        "w = compute_wind(hpcc, flow, reference, reference.u, update_wc)",
    ),
    "U of the first": (MULTI, "reference, reference.u, update_wc", "reference, r_at(mine, 0).u, update_wc"),
    "at most the present window": (MULTI, "    w = mine.w_init\n", "    w = mine.w\n"),
    "the clock of the first": (MULTI, "load_of(hpcc, flow, new, i), float(new.ts - old.ts)", "load_of(hpcc, flow, new, i), 1e6"),
    "W^c at all ACKs": (MULTI, "reference.u, update_wc))", "reference.u, 1))"),
    "a link that stands still has no window": (
        MULTI,
        "        w = min(w, compute_wind(hpcc, flow, reference, reference.u, update_wc))",
        "            w = min(w, compute_wind(hpcc, flow, reference, reference.u, update_wc))",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found(mistake):
    names, right, wrong = MISTAKES[mistake]
    check_mistake("hpcc", right, wrong, long_walk(*names))


def test_several_bottlenecks():
    topo = parking_lot(hops=4, cross=1)
    flows = flow_list(topo, [(i, topo.hosts - 1 - i, 200_000, f"{i}us") for i in range(topo.hosts // 2)])
    run, rows = traced(topo, flows, "hpcc", measure=SAMPLES, host=QUEUED_ACKS)
    sent, acks, windows = trajectories(topo, flows, rows, "hpcc")
    assert max(len(ack.links) for got in acks.values() for ack in got) >= 4
    assert sum(check_windows(run, flow, windows[flow]) for flow in windows) > 300
    assert sent


def test_telemetry_is_on_data_and_on_acknowledgements():
    topo = network()
    _, rows = traced(topo, crowd(topo), "hpcc", host=QUEUED_ACKS)
    assert {row.size for row in rows if row.kind == 1} == {60 + 28}  # 46 + 42
    assert max(row.size for row in rows if row.kind == 0) == 1090
    _, rows = traced(topo, crowd(topo), "hpcc", {"int_bytes": 0}, host=QUEUED_ACKS)
    assert {row.size for row in rows if row.kind == 1} == {60} and max(row.size for row in rows) == 1048


def test_two_flows_share_a_link_with_hardly_a_queue():
    """Sections 3.2 and 5.2: 95 % of the link, half of it each, next to no queue."""
    topo = star(hosts=3)
    flows = flow_list(topo, [(1, 0, 4_000_000, "0us"), (2, 0, 4_000_000, "30us")])
    run = simulate(topo, flows, "hpcc", measure=Measure(sample="1us", port_series=True))
    series = run.extra["port_series"]
    series = series.filter((series["node"] == 3) & (series["port"] == 0) & series["time_ns"].is_between(100e3, 500e3))
    rate = 8 * (series["tx_bytes"][-1] - series["tx_bytes"][0]) / (series["time_ns"][-1] - series["time_ns"][0])
    assert 93 < rate < 97 and series["queue_bytes"].quantile(0.95) < 5000
    fct = run.flows["fct_ns"].to_list()
    assert 0.85 < fct[0] / fct[1] < 1.15


def test_reactions_as_in_figure_13():
    """16 to 1: per-RTT holds the queue longer, per-ACK starves the link; HPCC does neither."""
    topo = star(hosts=17)
    flows = flow_list(topo, [(i, 0, 500_000, "0us") for i in range(1, 17)])
    queue, sent = {}, {}
    for reaction in ("hpcc", "per_ack", "per_rtt"):
        measure = Measure(sample="0.5us", port_series=True)
        run = simulate(topo, flows, parse("hpcc", {"reaction": reaction, "w_ai": "25B"}), measure=measure)
        series = run.extra["port_series"]
        series = series.filter((series["node"] == 17) & (series["port"] == 0))
        queue[reaction] = series.filter(series["time_ns"].is_between(5e3, 60e3))["queue_bytes"].mean()
        sent[reaction] = series.filter(series["time_ns"] <= 200e3)["tx_bytes"].max()
    assert queue["hpcc"] < 0.8 * queue["per_rtt"] and sent["per_ack"] < 0.9 * sent["hpcc"]


def test_a_lone_flow_loses_what_the_header_and_eta_cost():
    topo = network()
    flows = flow_list(topo, [(0, 15, 5_000_000, "0us")])
    run = simulate(topo, flows, "hpcc")
    assert 1090 / 1048 < run.flows["slowdown"][0] < 1.05 * 1090 / 1048 / 0.95
    assert run.summary["drops"] == 0 and run.ports["pauses_sent"].sum() == 0


def test_a_new_path_starts_a_new_record():
    """A link on the way fails and comes back: the first ACK over each new path is only remembered."""
    topo = network()
    link = {"a": "tor0", "b": "spine0"}
    changes = [{**link, "time": "60us", "up": False}, {**link, "time": "120us", "up": True}]
    flows = flow_list(topo, [(i, 8 + i, 1_000_000, "0us") for i in range(4)])
    run = simulate(topo.with_changes(changes), flows, "hpcc")
    assert run.summary["flows_finished"] == 4


def test_any_number_of_threads_gives_the_same_results():
    run = check_threads("hpcc")
    assert acted(run)
    check_threads("hpcc:ns3")
    check_threads("hpcc+dqa", {"queues": 8})


def test_parts_and_presets():
    assert list(parse("hpcc").parts) == ["pfc", "telemetry", "hpcc"]
    assert list(parse("hpcc", {"pfc": False}).parts) == ["telemetry", "hpcc"]
    assert parse("hpcc:ns3").values("pfc")["reserve"] == 4096
    assert parse("hpcc:ns3").host == {"ack_priority": "data", "pacing": "from start"}
    assert parse("hpcc:bfc").values("hpcc")["max_stage"] == 0 and parse("hpcc").values("hpcc")["max_stage"] == 5
    floodgate = parse("hpcc:floodgate")
    assert floodgate.values("hpcc")["multi_rate"] and not parse("hpcc").values("hpcc")["multi_rate"]
    assert floodgate.values("hpcc")["max_stage"] == 5 and floodgate.values("pfc")["alpha"] == 0.25


def test_bad_parameters_are_refused():
    check_bad("hpcc", {"eta": 1.5}, "0.01..1")
    check_bad("hpcc", {"reaction": "never"}, "hpcc, per_ack, per_rtt")
    check_bad("hpcc", {"w_ai": "80"}, "unit")
    check_bad("hpcc", {"min_rate": 0}, "1..1e15")
    check_bad("hpcc:bcf", None, 'preset "bcf"')
