"""DCTCP's windows and rates against the transcription, ACK by ACK."""

import pytest
from alone import Alone, check_mistake
from drawn import examples
from helpers import QUEUED_ACKS, acted, check_alone, check_bad, check_sending, check_threads, check_windows, senders, traced
from hypothesis import given
from hypothesis import strategies as st
from paper import dctcp

from penstock_net.composition import parse
from penstock_net.sim.config import Measure
from penstock_net.sim.simulate import simulate
from penstock_net.topology import star
from penstock_net.workload import flow_list

MEASURE = Measure(sample="0.1us", packets=True, flow_series=True, flows=False)
MARKS = {"k_min": "10KB", "k_max": "60KB", "per": 0}


def crowd(topo):
    return flow_list(topo, [(i, 0, 150_000 + 40_000 * i, f"{3 * i}us") for i in range(1, 6)])


def model_of(values, most):
    if values["form"]:
        model = dctcp.Rate(1e11, values["r_ai"], values["min_rate"], 1000, values["g"], most, values["slow_start"])
        model.alpha = values["alpha"]
        return model
    first = min(1000 * values["slow_start"], most) if values["slow_start"] else most
    return dctcp.Window(first, 1000, values["g"], values["alpha"], values["slow_start"] > 0)


def trajectories(topo, flows, rows, values):
    """Flow -> (W, gap) at the start and after each ACK; how often W was cut."""
    sent, acks = senders(topo, flows, rows)
    most = values["w_max"] or -(-topo.base_rtt_ps() // 80)
    out, cuts = {}, 0
    for flow, got in acks.items():
        model = model_of(values, most)
        state = (lambda m: (most * m.rate / 1e11, 8e12 / m.rate)) if values["form"] else (lambda m: (m.W, 0))
        out[flow] = [(0, *state(model))]
        seq = 0
        for ack in got:
            model.on_ack(ack.at, ack.seq, ack.snd_nxt, ack.ecn, -(-(ack.seq - seq) // 1000))
            seq = ack.seq
            if not values["form"]:
                model.W = min(model.W, most)
            out[flow].append((ack.at, *state(model)))
            cuts += out[flow][-1][1] < out[flow][-2][1]
    return sent, acks, out, cuts


CASES = {
    "paper": ("dctcp", MARKS),
    "slow start": ("dctcp:slow_start", MARKS),
    "slow start of the rate": ("dctcp:bfc_slow_start", MARKS),
    "large": ("dctcp", {**MARKS, "w_max": "200KB", "g": 0.3, "alpha": 0.0}),
    "ns3": ("dctcp:ns3", MARKS),
    "bfc": ("dctcp:bfc", {**MARKS, "alpha": 0.5}),
}


@pytest.mark.parametrize("case", CASES)
def test_every_window_and_every_departure(case):
    scheme, parameters = CASES[case]
    topo = star(hosts=6)
    flows = crowd(topo)
    run, rows = traced(topo, flows, scheme, parameters, measure=MEASURE, host=QUEUED_ACKS)
    assert run.ports["pauses_sent"].sum() == 0 and run.ports["ecn_marks"].sum() > 100
    sent, acks, states, cuts = trajectories(topo, flows, rows, parse(scheme, parameters).values("dctcp"))
    for flow, got in states.items():
        assert check_windows(run, flow, [(at, w) for at, w, _ in got]) > 30
        check_sending(sent[flow], acks[flow], [w for _, w, _ in got], lambda k, _, got=got: got[k][2])
    assert cuts > 5


def test_slow_start_doubles_until_the_first_mark():
    topo = star(hosts=2)
    flows = flow_list(topo, [(1, 0, 300_000, "0us")])
    run, _ = traced(topo, flows, "dctcp:slow_start", measure=MEASURE)
    windows = run.extra["flow_series"]["window_bytes"].to_list()
    assert windows[0] == 10_000 and max(windows) == -(-topo.base_rtt_ps() // 80)
    assert run.flows["slowdown"][0] > 1.05


def test_the_window_doubles_in_each_round_trip():
    """Two hosts, 52 packets in a round trip: 10, 20 and 40 packets, then the largest window; its packets are back to back."""
    topo = star(hosts=2)
    flows = flow_list(topo, [(1, 0, 300_000, "0us")])
    run, _ = traced(topo, flows, "dctcp:slow_start", measure=MEASURE)
    frame = run.extra["flow_series"]
    rtt = topo.base_rtt_ps() / 1000
    ends = [rtt - 1, *(rtt * k + 10 * 2 ** (k - 1) * 84 for k in (1, 2, 3))]
    windows = [frame.filter(frame["time_ns"] <= end)["window_bytes"][-1] for end in ends]
    assert windows == [10_000, 20_000, 40_000, -(-topo.base_rtt_ps() // 80)]


# ---- the file itself, fed with any marks ----


def compare(walk, scheme, text="", parameters=None):
    """The file against the transcription; walk: (packets in flight, whether the ACK is marked, bytes that it acknowledges)."""
    alone, seq = Alone(scheme, parameters, text, bdp=60_000), 0
    values = parse(scheme, parameters).values("dctcp")
    model = model_of(values, 60_000)
    for in_flight, ecn, *acked in walk:
        seq += acked[0] if acked else 1000
        packets = 1 + in_flight % 3
        alone.ack(0, seq, seq + 1000 * in_flight, ecn=ecn, packets=packets)
        model.on_ack(0, seq, seq + 1000 * in_flight, ecn, packets)
        if values["form"]:
            assert alone.flow.pace == pytest.approx(model.rate, rel=1e-9)
            assert alone.flow.window == pytest.approx(60_000 * model.rate / 1e11, abs=1.001)
        else:
            model.W = min(model.W, 60_000)
            assert alone.mine.w == pytest.approx(model.W, rel=1e-9)
            assert alone.flow.window == int(alone.mine.w)


FORMS = ["dctcp", "dctcp:bfc", "dctcp:slow_start", "dctcp:bfc_slow_start"]


@examples(100)
@given(
    st.lists(st.tuples(st.integers(0, 60), st.booleans()), min_size=5, max_size=150), st.sampled_from(FORMS), st.integers(0, 80)
)
def test_any_marks(walk, scheme, unmarked):
    compare([(10, False)] * unmarked + walk, scheme)


MISTAKES = {
    "one packet per window": ("elif ended or mine.growing", "elif ended"),
    "no end": ("        mine.growing = 0\n", ""),
    "the first window": ("dctcp.slow_start * dctcp.at.world.mtu", "(dctcp.slow_start + 1) * dctcp.at.world.mtu"),
    "the first rate": ("mine.line * (mine.w / dctcp.most)", "mine.line"),
    "the step of the rate": ("if mine.growing else dctcp.r_ai", "if not mine.growing else dctcp.r_ai"),
    "an ACK is a packet": ("mine.acks += packets", "mine.acks += 1"),
    "a mark is that of one packet": ("mine.marked += packets", "mine.marked += 1"),
    "the first alpha": ("mine.alpha = dctcp.alpha", "mine.alpha = 0.0"),
    "the weights": ("(1 - dctcp.g) * mine.alpha + dctcp.g", "dctcp.g * mine.alpha + (1 - dctcp.g)"),
    "the new alpha is not used": (
        "mine.w * (1 - mine.alpha / 2)",
        "mine.w * (1 - (mine.alpha - dctcp.g * (1 - mine.alpha)) / 2)",
    ),
    "W is cut by alpha": ("mine.w * (1 - mine.alpha / 2)", "mine.w * (1 - mine.alpha)"),
    "the rate is cut by alpha": ("mine.rate * (1 - mine.alpha / 2)", "mine.rate * (1 - mine.alpha)"),
    "the least window": (" / 2), dctcp.at.world.mtu)", " / 2), 2 * dctcp.at.world.mtu)"),
    "the least rate": ("dctcp.min_rate)", "1.0)"),
    "the largest window": ("min(mine.w + dctcp.at.world.mtu, dctcp.most)", "mine.w + dctcp.at.world.mtu"),
    "the line": ("min(mine.rate + step, mine.line)", "mine.rate + step"),
    "marks of all windows": ("    mine.marked = 0\n", ""),
    "ACKs of all windows": ("    mine.acks = 0\n", ""),
    "a window a packet longer": ("if pkt.seq <= mine.window_end", "if pkt.seq - 1000 <= mine.window_end"),
    "windows of one ACK": ("    mine.window_end = flow.sent\n    return 1", "    mine.window_end = pkt.seq\n    return 1"),
    "the estimate of packets": ("(flow.sent - pkt.seq) // dctcp.at.world.mtu + 1", "(flow.sent - pkt.seq) // dctcp.at.world.mtu"),
    "F in the other form": ("if dctcp.form == WINDOW:\n        mine.packets", "if dctcp.form == RATE:\n        mine.packets"),
    "F beyond 1": ("min(float(mine.marked) / mine.packets, 1.0)", "float(mine.marked) / mine.packets"),
    "cut at every mark": ("            mine.cwr_end = flow.sent\n", ""),
    "cut in every other window": ("if pkt.seq > mine.cwr_end", "if pkt.seq > mine.cwr_end + 60000"),
    "a cut and an increase": ("        elif ended or", "        if ended or"),
    "no increase after a cut": ("        mine.cwr_end = NONE\n    if", "        mine.cwr_end = 2**60\n    if"),
    "the window does not follow": ("mine.w = dctcp.most * (mine.rate / mine.line)", "mine.w = dctcp.most"),
    "the pace does not follow": ("set_rate(flow, mine.rate)", "set_rate(flow, mine.line)"),
}


def long_walk(text=""):
    """Many windows without marks, with some, with none but marks, in all forms; ACKs that acknowledge nothing."""
    walk = [(12, False)] * 25 + [(12, k % 7 == 0) for k in range(300)]
    walk += [(9, False)] * 500
    walk += [(9, k % 3 > 0, 1000 * (k % 4 == 3)) for k in range(200)]  # more ACKs than were packets in flight
    walk += [(9, False)] * 500
    walk += [(5 * k % 23, k // 60 % 3 == 1 or (k // 60 % 3 == 2 and k % 11 < 3)) for k in range(900)] + [(3, True)] * 400
    walk += [(9, False)] * 2000
    for scheme in FORMS:
        compare(walk, scheme, text, {"min_rate": "5Gbps", "r_ai": "2Gbps"})


def test_a_long_walk():
    long_walk()


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found(mistake):
    check_mistake("dctcp", *MISTAKES[mistake], long_walk)


def test_the_queue_settles_around_k():
    """Section 3.4 of DCTCP: two long flows keep the queue near K, not at the end of the buffer."""
    topo = star(hosts=3)
    flows = flow_list(topo, [(1, 0, 8_000_000, "0us"), (2, 0, 8_000_000, "0us")])
    parameters = {"k_min": "60KB", "k_max": "60KB", "w_max": "1MB"}
    run = simulate(topo, flows, parse("dctcp", parameters), measure=Measure(sample="1us", port_series=True))
    series = run.extra["port_series"]
    queue = series.filter((series["node"] == 3) & (series["port"] == 0) & series["time_ns"].is_between(300e3, 1200e3))
    assert queue["queue_bytes"].max() < 130_000 and queue["queue_bytes"].quantile(0.5) > 10_000
    assert max(run.flows["slowdown"]) < 2.1


def test_a_lone_flow_finishes_in_the_ideal_time():
    check_alone("dctcp")
    check_alone("dctcp:ns3")
    check_alone("dctcp:bfc")


def test_any_number_of_threads_gives_the_same_results():
    for preset in ("", ":ns3", ":slow_start", ":bfc_slow_start"):
        run = check_threads("dctcp" + preset, MARKS)
        assert run.ports["ecn_marks"].sum() > 100 and acted(run)


def test_parts_and_presets():
    assert list(parse("dctcp").parts) == ["ecn", "pfc", "dctcp"]
    assert parse("dctcp:ns3").values("ecn")["k_min"] == parse("dctcp:ns3").values("ecn")["k_max"] == 300_000
    assert parse("dctcp:bfc").values("dctcp")["r_ai"] == 5e8


def test_bad_parameters_are_refused():
    check_bad("dctcp", {"form": "both"}, "window, rate")
    check_bad("dctcp", {"slow_start": -1}, "0..100000")
    check_bad("dctcp", {"g": 1.5}, "0..1")
