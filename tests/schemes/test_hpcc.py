"""HPCC's senders against Algorithm 1 as transcribed, with their inputs reconstructed from the packet trace."""

from itertools import pairwise

import pytest
from helpers import (
    QUEUED_ACKS,
    SAMPLES,
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

from penstock.composition import parse
from penstock.sim.config import Measure
from penstock.sim.simulate import simulate
from penstock.topology import parking_lot, star
from penstock.workload import flow_list

LINE = 80
REACTIONS = ["hpcc", "per-ack", "per-rtt"]


def model_of(topo, values):
    T = values["t"] or topo.base_rtt_ps()
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


def crowd(topo):
    return incast(
        topo,
        range(4, 12),
        size=[150_000 + 9000 * i for i in range(8)],
        every_ns=1100,
        more=[(12, 3, 200_000, "3us"), (13, 0, 2500, "9us"), (14, 0, 700, "9us"), (15, 2, 180_000, "2us")],
    )


def trajectories(topo, flows, rows, scheme, parameters=None):
    """Flow -> (time, W) after each ACK, by the transcription."""
    values, out = parse(scheme, parameters).values("hpcc"), {}
    sent, acks = senders(topo, flows, rows)
    count = counters(rows)
    for flow, got in acks.items():
        model = model_of(topo, values)
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
    flows = crowd(topo)
    run, rows = traced(topo, flows, scheme, parameters, measure=SAMPLES, host=QUEUED_ACKS)
    assert run.ports["pauses_sent"].sum() == 0  # so that all that a port sent is in the trace
    sent, acks, windows = trajectories(topo, flows, rows, scheme, parameters)
    T = parse(scheme, parameters).values("hpcc")["t"] or topo.base_rtt_ps()
    compared, cut = 0, 0
    for flow in range(len(flows)):
        compared += check_windows(run, flow, windows[flow])
        W = [w for _, w in windows[flow]]
        check_sending(sent[flow], acks[flow], W, lambda k, _, W=W: T / W[k], moves=True)
        cut += min(W) < 0.6 * T / LINE
    assert compared > 300 and cut >= 3


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
    assert parse("hpcc:ns3").values("pfc")["reserve"] == 4096 and parse("hpcc:ns3").host == {"ack_priority": "data"}
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
