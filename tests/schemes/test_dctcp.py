"""DCTCP's windows and rates against the transcription, ACK by ACK."""

import pytest
from helpers import QUEUED_ACKS, acted, check_alone, check_bad, check_sending, check_threads, check_windows, senders, traced
from paper import dctcp

from penstock.composition import parse
from penstock.sim.config import Measure
from penstock.sim.simulate import simulate
from penstock.topology import star
from penstock.workload import flow_list

MEASURE = Measure(sample="0.1us", packets=True, flow_series=True, flows=False)
MARKS = {"k_min": "10KB", "k_max": "60KB", "per": 0}


class SlowStart(dctcp.Window):
    """Until the first mark every ACK is a packet more."""

    growing = True

    def on_ack(self, now, seq, snd_nxt, ecn):
        self.growing = self.growing and not ecn
        before = self.W
        super().on_ack(now, seq, snd_nxt, ecn)
        if self.growing:
            self.W = before + self.mss
        return self.W


def crowd(topo):
    return flow_list(topo, [(i, 0, 150_000 + 40_000 * i, f"{3 * i}us") for i in range(1, 6)])


def trajectories(topo, flows, rows, values):
    """Flow -> (W, gap) at the start and after each ACK; how often W was cut."""
    sent, acks = senders(topo, flows, rows)
    most = values["w_max"] or -(-topo.base_rtt_ps() // 80)
    out, cuts = {}, 0
    for flow, got in acks.items():
        if values["form"]:
            model = dctcp.Rate(1e11, values["r_ai"], values["min_rate"], 1000, values["g"])
            model.alpha = values["alpha"]
        elif values["slow_start"]:
            model = SlowStart(1000 * values["slow_start"], 1000, values["g"], values["alpha"])
        else:
            model = dctcp.Window(most, 1000, values["g"], values["alpha"])
        state = (lambda m: (most * m.rate / 1e11, 8e12 / m.rate)) if values["form"] else (lambda m: (m.W, 0))
        out[flow] = [(0, *state(model))]
        for ack in got:
            model.on_ack(ack.at, ack.seq, ack.snd_nxt, ack.ecn)
            if not values["form"]:
                model.W = min(model.W, most)
            out[flow].append((ack.at, *state(model)))
            cuts += out[flow][-1][1] < out[flow][-2][1]
    return sent, acks, out, cuts


CASES = {
    "paper": ("dctcp", MARKS),
    "slow start": ("dctcp:slow_start", MARKS),
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
    for preset in ("", ":ns3", ":slow_start"):
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
