"""BFC's Algorithm 1 against the transcription, ACK by ACK; its bounds; what it leaves in the network."""

import random

import pytest
from alone import Alone, check_mistake
from helpers import QUEUED_ACKS, US, check_alone, check_bad, check_threads, check_windows, network, senders, traced
from paper.rtt_target import Sender

from penstock_net.sim.config import Measure
from penstock_net.sim.simulate import simulate
from penstock_net.topology import star
from penstock_net.workload import flow_list

MEASURE = Measure(sample="0.2us", packets=True, flow_series=True, flows=False)


def crowd(topo, size=400_000):
    return flow_list(topo, [(i, 0, size + 30_000 * i, f"{4 * i}us") for i in range(1, min(topo.hosts, 14))])


@pytest.mark.parametrize("scheme", ["rtt_target", "bfc+rtt_target"])
@pytest.mark.parametrize("factor", [1.2, 2.5])
@pytest.mark.parametrize("topo", [star(hosts=14), network()], ids=["star", "leaf_spine"])
def test_every_window_is_the_paper_s(scheme, factor, topo):
    flows = crowd(topo)
    run, rows = traced(topo, flows, scheme, {"target": factor}, measure=MEASURE, host=QUEUED_ACKS)
    sent, acks = senders(topo, flows, rows)
    seen = set()
    for flow, got in acks.items():
        made = {packet.offset: packet.at for packet in sent[flow]}
        model = Sender(topo.base_rtt_ps(), -(-topo.base_rtt_ps() // 80) / 1000, factor)
        windows = [(0, model.w * 1000)]
        for ack in got:
            model.acknowledgement(ack.at - made[ack.offset])
            windows.append((ack.at, model.w * 1000))
        seen |= {round(model.w, 3)} | {w for _, w in windows}
        assert check_windows(run, flow, [(at, int(w + 1e-6)) for at, w in windows]) > 30
    assert len(seen) > 100, "windows that do not move prove nothing"


# ---- the file itself, fed with any RTTs ----

BASE_RTT = 24 * US // 10


def compare(text="", factor=2.5, count=3000):
    """RTTs around the target, and long after another far below and far above it; four packets are under way at a time."""
    bdp = BASE_RTT // 80
    scheme = Alone("rtt_target", {"target": factor}, text, base_rtt=BASE_RTT, bdp=bdp)
    model, r, under_way, now, seen = Sender(BASE_RTT, bdp / 1000, factor), random.Random(factor), [], 0, set()
    assert scheme.flow.window == bdp == model.w * 1000
    for k in range(count):
        low, high = [(0.9, 2 * factor), (1, 1.1), (9 * factor, 10 * factor)][k // 500 % 3]
        pkt, rtt = scheme.send(now), int(r.uniform(low, high) * BASE_RTT)
        assert pkt.size == 1056
        under_way.append((now + rtt, k, now, pkt))
        now += BASE_RTT // 4
        if len(under_way) == 4:
            home, k, sent, pkt = under_way.pop(under_way.index(min(under_way)))
            scheme.ack(home, 1000 * (k + 1), pkt=pkt)
            model.acknowledgement(home - sent)
            assert scheme.flow.window == pytest.approx(model.w * 1000, abs=1)
            seen.add(model.w)
    assert {1, factor * bdp / 1000} < seen and len(seen) > count / 5, "both bounds and what lies between"


@pytest.mark.parametrize("factor", [1.2, 2.5, 9])
def test_any_rtts(factor):
    compare(factor=factor)


MISTAKES = {
    "the target": ("rtt_target.target * rtt_target.at.world.base_rtt", "2.4 * rtt_target.at.world.base_rtt"),
    "relative to the target": (
        "(rtt_target.rtt_target - rtt) / rtt\n",
        "(rtt_target.rtt_target - rtt) / rtt_target.rtt_target\n",
    ),
    "the wrong way": ("(rtt_target.rtt_target - rtt) /", "(rtt - rtt_target.rtt_target) /"),
    "decreases alone": ("(rtt_target.rtt_target - rtt) / rtt", "min((rtt_target.rtt_target - rtt) / rtt, 0.0)"),
    "increases alone": ("(rtt_target.rtt_target - rtt) / rtt", "max((rtt_target.rtt_target - rtt) / rtt, 0.0)"),
    "the header counts": ("packets * rtt_target.at.world.mtu", "packets * 1048"),
    "no least window": ("min(max(w, float(rtt_target.at.world.mtu)), rtt_target.most)", "min(max(w, 1.0), rtt_target.most)"),
    "the largest window": ("max(rtt_target.target * rtt_target.at.world.bdp,", "max(float(rtt_target.at.world.bdp),"),
    "no largest window": (
        "min(max(w, float(rtt_target.at.world.mtu)), rtt_target.most)",
        "max(w, float(rtt_target.at.world.mtu))",
    ),
    "the first window": ("set_window(rtt_target, flow, float(rtt_target.at.world.bdp))", "set_window(rtt_target, flow, 1e12)"),
    "the bounds do not last": ("whole(mine.w)", "whole(w)"),
    "time of the ACK": ("my_packet(rtt_target, pkt).stamp = node.now", "my_packet(rtt_target, pkt).stamp = node.now + 100000"),
    "the stamp's bytes": ("pkt.size += rtt_target.stamp_bytes", "pkt.size += 0"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found(mistake):
    check_mistake("rtt_target", *MISTAKES[mistake], compare)


def test_it_bounds_the_queue_of_many_long_flows():
    """Twenty flows: each has a bandwidth-delay product in the network at first, and a share of 2.5 of them in the end."""
    topo = star(hosts=21, buffer="0B")
    flows = flow_list(topo, [(i, 0, 2_000_000) for i in range(1, 21)])
    measure = Measure(sample="1us", port_series=True)
    queued = {}
    for name in ("fifo+window_cap", "rtt_target"):
        series = simulate(topo, flows, name, measure=measure).extra["port_series"]
        late = series.filter((series["node"] == 21) & (series["time_ns"] > 1.5e6) & (series["time_ns"] < 3e6))
        queued[name] = late.group_by("time_ns").sum()["queue_bytes"].mean()
    bdp = topo.base_rtt_ps() / 80
    assert queued["fifo+window_cap"] > 15 * bdp
    assert queued["rtt_target"] == pytest.approx(1.5 * bdp, rel=0.25), "the queue is what makes the RTT 2.5 times the base RTT"


def test_a_lone_flow_finishes_in_the_ideal_time():
    check_alone("rtt_target", {"stamp_bytes": 0})


def test_any_number_of_threads_gives_the_same_results():
    check_threads("bfc+rtt_target", {"target": 1.5})


def test_bad_parameters_are_refused():
    check_bad("rtt_target", {"target": 0.5}, "target = 0.5: must be 1")
