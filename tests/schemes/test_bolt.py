"""Bolt against the transcription: every packet and SRC on a star to the picosecond, senders and ports fed with anything; laws."""

import random
from fractions import Fraction
from itertools import pairwise
from types import SimpleNamespace

import polars as pl
import pytest
from alone import Alone, check_mistake
from drawn import examples
from helpers import (
    CONTROL,
    DATA,
    US,
    acted,
    check_alone,
    check_bad,
    check_threads,
    incast,
    network,
    traced,
)
from hypothesis import given
from hypothesis import strategies as st
from paper import bolt

from penstock_net.composition import parse
from penstock_net.errors import SpecError
from penstock_net.sim.config import HostConfig, Measure
from penstock_net.sim.simulate import simulate
from penstock_net.topology import star
from penstock_net.workload import flow_list

GAP, FULL, SRC = 80, 1059, 3
BASE_RTT = star(hosts=2).base_rtt_ps()
BDP = -(-BASE_RTT // GAP)
MODEL = bolt.Parameters(BDP, BASE_RTT)
GOLDEN = [52_662_560, 52_944_480]
SLOW = 800  # ps per byte: a window of six packets


def changed(gap=GAP, **more):
    base_rtt = network_of(gap).base_rtt_ps()
    return bolt.Parameters(-(-base_rtt // gap), base_rtt, **more)


def network_of(gap):
    return star(hosts=16, buffer="100MB", rate=f"{8000 // gap}Gbps")


# ---- a star, packet by packet ----

CASES = {  # flows (src, dst, bytes, start in ps), parameters, the same of the transcription
    "two to one": ([(1, 0, 300_000, 0), (2, 0, 300_000, 0)], {}, MODEL),
    "one joins another": ([(1, 0, 600_000, 0), (2, 0, 200_300, 9_000_000), (3, 4, 100_000, 3)], {}, MODEL),
    "a flow ends": ([(1, 0, 700_000, 0), (2, 0, 120_000, 1_000_001)], {"pru_max": 5}, changed(pru_max=5)),
    "no PRU": ([(1, 0, 700_000, 0), (2, 0, 120_000, 1_000_001)], {"pru_max": 0}, changed(pru_max=0)),
    "no SM": ([(1, 0, 700_000, 0), (2, 0, 120_000, 1_000_001)], {"sm_max": 1}, changed(sm_max=1)),
    "much supply": (
        [(1, 0, 500_000, 0), (2, 0, 60_000, 5_000_000), (3, 0, 50_000, 17_000_000)],
        {"sm_max": "20KB", "target_q": "1KB", "cc_threshold": "9KB", "ai": 2.0, "largest_cwnd": "150KB"},
        changed(sm_max=20_000, target_q=1000, threshold=9000, ai=2, largest=150_000),
    ),
    "below a packet": ([(i, 0, 40_000 + 777 * i, 3_000_000 * i) for i in range(1, 16)], {}, changed(SLOW)),
}


def found(scheme, flows, parameters, gap=GAP):
    """(time, port, source, offset, size) of data that leaves the switch, (time, source) of SRCs that arrive."""
    topo = network_of(gap)
    listed = flow_list(topo, [(src, dst, size, f"{start}ps") for src, dst, size, start in flows])
    run, rows = traced(topo, listed, scheme, {"pfc": False, **parameters})
    sources = listed.src.tolist()
    ends = dict(zip(sources, (1000 * run.flows.sort("flow_id")["acked_ns"]).round().cast(pl.Int64)))
    data = [(r.at, r.port, sources[r.flow], r.offset, r.size) for r in rows if r.kind == DATA and r.event == "dequeue"]
    srcs = [(r.at, r.node) for r in rows if r.kind >= CONTROL and r.event == "receive" and r.at < ends[r.node]]
    return run, sorted(data), sorted(srcs)


def expected(flows, p, gap=GAP):
    net = bolt.run(16, flows, p, gap)
    data = [(at, port, flows[flow][0], offset, size) for at, port, flow, offset, size in net.sent]
    return net, sorted(data), sorted((at, flows[flow][0]) for at, flow in net.srcs)


def near(got, exact, within):
    """The same but for so many ps, by which paces are rounded."""
    assert len(got) == len(exact)
    for a, b in zip(sorted(got, key=lambda e: (*e[1:], e[0])), sorted(exact, key=lambda e: (*e[1:], e[0]))):
        assert a[1:] == b[1:] and abs(a[0] - b[0]) <= within, (a, b)


@pytest.mark.parametrize("case", CASES)
def test_every_packet_and_every_src_as_the_transcription_says(case):
    flows, parameters, p = CASES[case]
    gap = SLOW if case == "below a packet" else GAP
    run, data, srcs = found("bolt", flows, parameters, gap)
    net, exact_data, exact_srcs = expected(flows, p, gap)
    within = 40 if case == "below a packet" else 0
    near(data, exact_data, within)
    near(srcs, exact_srcs, within)
    assert len(srcs) > 10 and len(srcs) <= run.counts["bolt.srcs"]
    kept = net.ports[0].tokens.kept
    assert (kept["pru"] > 0) <= (p.pru_max > 0) and (kept["supply"] > 0) <= (p.sm_max > 1)


def test_the_cases_reach_everything():
    nets = [expected(flows, p, SLOW if p.bdp < 10_000 else GAP)[0] for flows, _, p in CASES.values()]
    events = {e for net in nets for model in net.done for e in model.events}
    assert events == {"start", "ack", "ai", "inc", "dec", "too early", "halved"}
    kept = [net.ports[0].tokens.kept for net in nets]
    assert max(k["pru"] for k in kept) > 5 and max(k["supply"] for k in kept) > 20
    assert min(model.least_cwnd for model in nets[-1].done) < 500


starts = st.integers(0, 30 * US)
crowds = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 250_000), starts), min_size=2, max_size=12)


@examples(25)
@given(crowds, st.sampled_from([0, 3, 256]), st.sampled_from([1, 1059, 30_000]), st.sampled_from([1059, 2118, 20_000]))
def test_any_flows(crowd, pru_max, sm_max, threshold):
    """From hosts 3, 4, ... to the first three."""
    flows = [(3 + i, dst, size, start) for i, (dst, size, start) in enumerate(crowd)]
    parameters = {"pru_max": pru_max, "sm_max": sm_max, "cc_threshold": threshold}
    _, data, srcs = found("bolt", flows, parameters)
    net, exact_data, exact_srcs = expected(flows, changed(pru_max=pru_max, sm_max=sm_max, threshold=threshold))
    if min((model.least_cwnd for model in net.done), default=BDP) >= 1000:
        assert data == exact_data and srcs == exact_srcs


# ---- the file itself: a sender, fed with any ACKs, SRCs and losses ----


def sender_alone(parameters, text=""):
    flow_of = {"NACK": 4, "NO_FLOW": None, "flow_of": lambda _, pkt: pkt.flow, "my_frame": lambda _, pkt: pkt}
    alone = Alone("bolt", parameters, text, bdp=BDP, base_rtt=BASE_RTT, quantum=1048)
    alone.flow.__dict__.update(backoff=1, size=10**9, back=[])
    alone.update(flow_of, send_from=lambda _, flow, offset: flow.back.append(offset), port_of=lambda _: alone.line)
    alone.line = SimpleNamespace(ps_per_byte=GAP)
    alone.repaced = []
    alone.update(repace=lambda node, _: alone.repaced.append(node.now))
    return alone


def control(alone, now, src, flow):
    pkt = SimpleNamespace(flow=flow, tx_time=src.stamp, queue_size=src.queue, ps_per_byte=src.gap)
    alone.node.now = now
    alone["on_control"](alone.me, alone.node, None, pkt)


def walk_of_sender(walk, text=""):
    """walk: (event, time since the last, RTT or the time of the SRC, queue, gap of its link); what the flow has to send grows."""
    parameters = {"least_cwnd": 200, "max_md": 0.25, "ai": 1.5, "target_q": "1500B", "largest_cwnd": "70KB"}
    alone = sender_alone(parameters, text)
    p = changed(least=200, max_md=Fraction(1, 4), ai=1.5, target_q=1500, largest=70_000)
    size = alone.flow.size = 120_300
    model, now, sent, acked, crossed, before = bolt.Sender(p, GAP, size, 0), 0, 0, 0, 0, False
    out = []  # packets on their way: (time, the scheme's, the model's flags, end)
    for what, later, rtt, queue, gap in walk:
        now += later
        if what == "send" and sent == acked == size:
            size = alone.flow.size = model.size = size + 150_000
        if what == "send" and sent < size:
            pkt = SimpleNamespace(size=1048, seq=sent)
            alone.flow.sent, alone.node.now = sent, now
            alone.call("on_send", now, pkt)
            payload = min(1000, size - sent)
            flags, sent = model.flags(sent, payload), sent + payload
            assert pkt.size == FULL and pkt.tx_time == now and pkt.dec == 0
            told = [bool(flags & bit) for bit in (bolt.FIRST, bolt.LAST, bolt.INC)]
            assert [bool(pkt.first), bool(pkt.last), bool(pkt.inc)] == told
            out.append((now, pkt, flags, sent))
        elif what == "ack" and out:
            at, pkt, flags, acked = out.pop(0)
            if queue > 20_000:  # a switch cleared it
                pkt.inc, pkt.dec, flags = 0, 1, (flags | bolt.DEC) & ~bolt.INC
            now = max(now, at + rtt)
            alone.ack(now, acked, sent, pkt, flags=0)
            model.on_ack(now, at, flags, sent)
        elif what == "src":
            src = bolt.Src(now - rtt // 2, queue, gap)
            control(alone, now, src, alone.flow)
            model.on_src(now, src)
        elif what == "lost" and out:  # all that is on its way, but for one packet, which a NACK answers
            at = out[-1][0]
            now, sent, out = max(now, at + rtt), acked, []
            alone.ack(now, acked, acked, SimpleNamespace(tx_time=at, inc=1), flags=4)
            model.on_loss(now, at)
        elif what == "timeout" and sent > acked:
            time_out(alone, now, sent, acked)
            assert alone.flow.back[-1] == acked
            model.on_loss(now)
            sent, out = acked, []
        crossed += before != (model.cwnd < 1000)
        before = model.cwnd < 1000
        assert alone.mine.cwnd == model.cwnd == alone.flow.window
        assert len(alone.repaced) == crossed
        if before:
            assert FULL * 8e12 / alone.flow.pace == pytest.approx(float(model.pacing_delay), rel=1e-9)
        elif crossed:
            assert alone.flow.pace == 8e12 / GAP
    return model


def time_out(alone, now, sent, acked):
    alone.node.now, alone.flow.sent, alone.flow.acked = now, sent, acked
    alone["on_timeout"](alone.me, alone.node, alone.flow)


WHAT = ["send"] * 8 + ["ack"] * 6 + ["src"] * 6 + ["lost", "timeout"]
steps = st.tuples(
    st.sampled_from(WHAT),
    st.integers(0, 3 * US),
    st.integers(2 * US, 40 * US),
    st.integers(1501, 60_000),
    st.sampled_from([20, 80, 800]),
)


@examples(100)
@given(st.lists(steps, min_size=5, max_size=150))
def test_any_acks_srcs_and_losses(walk):
    walk_of_sender(walk)


def long_walk(seed=7, count=6000):
    """SRCs before the first ACK; then spells of ACKs, which raise the window, of SRCs, which lower it, and of everything."""
    r = random.Random(seed)
    spells = ["send", "send", "ack"], ["src"] * 25 + ["send", "ack"], WHAT
    kinds = [r.choice(["send", "src"]) if k < 30 else r.choice(spells[k // 200 % 3]) for k in range(count)]
    longest = US // 2, 40 * US, 3 * US
    laters = [r.randint(0, US if k < 30 else longest[k // 200 % 3]) for k in range(count)]
    return [
        (what, later, r.randint(2, 30) * US, r.randint(1501, 25_000), r.choice([20, 80, 800]))
        for what, later in zip(kinds, laters)
    ]


def test_a_long_walk():
    model = walk_of_sender(long_walk())
    assert set(model.events) == {"start", "ack", "ai", "inc", "dec", "too early", "halved", "loss", "loss again"}
    assert model.least_cwnd == 200


def test_an_src_for_a_flow_that_has_ended_is_ignored():
    alone = sender_alone({})
    control(alone, US, bolt.Src(0, 10**6, GAP), None)
    assert alone.mine.cwnd == BDP


def test_a_flow_that_its_pace_holds_back_does_not_time_out():
    alone = sender_alone({})
    time_out(alone, 10**10, 5000, 5000)
    assert alone.mine.cwnd == BDP and alone.flow.backoff == 0 and not alone.flow.back


# ---- the file itself: a port, fed with any packets ----


def walk_of_port(walk, text="", **parameters):
    """walk: (time since the last, size, bytes queued before it, flags)."""
    alone = Alone("bolt", parameters, text, bdp=BDP, base_rtt=BASE_RTT, quantum=1048)
    p = changed(
        threshold=alone.me.threshold, pru_max=alone.me.pru_max, sm_max=alone.me.sm_max or FULL, stamp=alone.me.stamp_bytes
    )
    sent = []
    port = SimpleNamespace(ps_per_byte=GAP, bytes=0, sm_token=0.0, last_sm_time=0, pru_token=0, srcs=0)
    alone.update(
        ACK=1,
        UNANSWERED=8,
        my_port=lambda _, port: port,
        new_frame=lambda *_: SimpleNamespace(size=64),
        my_frame=lambda _, frame: frame,
        about_flow=lambda frame, pkt: setattr(frame, "about", pkt),
        send_to_host=lambda _, host, frame: sent.append((host, frame)),
    )
    alone.me.at.kind = 2
    tokens, now = bolt.Tokens(p, GAP), 0
    came = 0
    for later, size, queued, flags in walk:
        now += later
        pkt = SimpleNamespace(kind=0, flags=0, size=size, src=9, tx_time=now - 3)
        for bit, name in ((bolt.FIRST, "first"), (bolt.LAST, "last"), (bolt.INC, "inc"), (bolt.DEC, "dec")):
            setattr(pkt, name, 1 if flags & bit else 0)
        port.bytes, alone.node.now = queued + size, now
        before = len(sent)
        alone["on_enqueue"](alone.me, alone.node, port, None, pkt)
        flags, told = tokens.decide(now, size, flags, queued)
        assert (pkt.inc, pkt.dec) == (bool(flags & bolt.INC), bool(flags & bolt.DEC))
        assert len(sent) - before == told == port.srcs - before
        if told:
            host, frame = sent[-1]
            assert host == 9 and frame.about is pkt
            assert (frame.tx_time, frame.queue_size, frame.ps_per_byte) == (now - 3, queued, GAP)
        came += size + (FULL if flags & bolt.INC else 0)
        assert 0 <= port.pru_token == tokens.pru <= p.pru_max
        assert -came <= port.sm_token <= p.sm_max and port.sm_token == pytest.approx(float(tokens.supply), abs=1e-6)
    return tokens


packets = st.tuples(
    st.integers(0, 400_000), st.sampled_from([60, 559, FULL]), st.sampled_from([0, 0, 500, 2117, 2118, 9000]), st.integers(0, 15)
)


@examples(100)
@given(st.lists(packets, min_size=1, max_size=200), st.sampled_from([0, 2, 256]), st.sampled_from([1, 3001, 30_001]))
def test_any_packets(walk, pru_max, sm_max):
    walk_of_port(walk, pru_max=pru_max, sm_max=sm_max)


def long_port_walk(seed=3, count=4000):
    r = random.Random(seed)
    out = []
    rest = [bolt.LAST | bolt.FIRST, bolt.FIRST, 0, bolt.INC | bolt.DEC]
    for k in range(count):
        flags = r.choice([*[bolt.LAST if k // 20 % 5 == 0 else bolt.INC] * 5, *rest])
        out.append((r.randint(0, 300_000), r.choice([60, 559, FULL, FULL]), r.choice([0, 0, 0, 2117, 2118, 9000]), flags))
    return out


def test_many_packets():
    tokens = walk_of_port(long_port_walk(), pru_max=4, sm_max="3KB")
    assert tokens.most[0] == 4 and tokens.most[1] > 2000
    assert min(tokens.kept.values()) > 100


def test_what_is_no_data_is_passed_over_and_what_nobody_answers_uses_supply():
    alone = Alone("bolt", {}, bdp=BDP, base_rtt=BASE_RTT, quantum=1048)
    port = SimpleNamespace(ps_per_byte=GAP, bytes=9000, sm_token=0.0, last_sm_time=0, pru_token=0, srcs=0)
    alone.update(UNANSWERED=8, my_port=lambda _, port: port)
    alone.node.now = 800_000
    alone["on_enqueue"](alone.me, alone.node, port, None, SimpleNamespace(kind=1))
    assert port.last_sm_time == 0
    alone["on_enqueue"](alone.me, alone.node, port, None, SimpleNamespace(kind=0, size=FULL, flags=8))
    assert port.sm_token == 10_000 - FULL - (10_000 - 2 * FULL) == FULL and port.last_sm_time == 800_000


# ---- mistakes ----

SENDER_MISTAKES = {
    "every SRC is obeyed": ("reaction_factor >= rtt_src:", "reaction_factor >= 0:"),
    "the time of the last decrease": ("            mine.last_dec_time = node.now\n    apply", "    apply"),
    "the queue in packets": ("float(src.queue_size - bolt.target_q) / bolt.full", "float(src.queue_size - bolt.target_q) / 900"),
    "the queue that is left": ("src.queue_size - bolt.target_q", "src.queue_size"),
    "the share of the link": ("reaction_factor = rate * src.ps_per_byte", "reaction_factor = rate * port_of(flow).ps_per_byte"),
    "the rate before the first ACK": (
        "1.0 / port_of(flow).ps_per_byte\n        reaction",
        "0.5 / port_of(flow).ps_per_byte\n        reaction",
    ),
    "the time of the SRC": ("rtt_src = node.now - src.tx_time", "rtt_src = mine.rtt"),
    "a packet or less": (
        "if mine.cwnd <= bolt.at.world.mtu:\n        mine",
        "if mine.cwnd < bolt.at.world.mtu // 2:\n        mine",
    ),
    "growth that nobody allowed": (
        "        if carried.inc:\n            mine.cwnd",
        "        if not carried.last:\n            mine.cwnd",
    ),
    "additive increase at every ACK": ("mine.seq_no_at_last_ai = flow.sent", "mine.seq_no_at_last_ai = pkt.seq"),
    "losses at any time": ("node.now - mine.last_dec_time >= mine.rtt", "node.now >= mine.last_dec_time"),
    "growth in the first window": ("0 if carried.first or carried.last else 1", "0 if carried.last else 1"),
    "the last window": ("flow.size - pkt.seq <= max(mine.cwnd", "flow.size - pkt.seq < max(mine.cwnd // 2"),
    "the pace": ("* mine.cwnd / (float(mtu) * rtt)", "* mine.cwnd / (float(bolt.full) * rtt)"),
    "the pace stays": ("if mine.cwnd >= mtu and not mine.paced:", "if mine.cwnd >= mtu:"),
    "the bounds": ("max(mine.cwnd, bolt.least_cwnd)", "max(mine.cwnd, 1)"),
}
PORT_MISTAKES = {
    "the threshold": ("queue_size >= bolt.threshold", "queue_size > bolt.threshold"),
    "the packet itself": ("queue_size = port.bytes - pkt.size", "queue_size = port.bytes"),
    "SRCs from every switch": ("        if not carried.dec:\n", "        if True:\n"),
    "growth in congestion": ("        carried.inc = 0\n        if not", "        if not"),
    "first windows leave tokens": ("if not carried.first and mine", "if mine"),
    "tokens without bound": (" and mine.pru_token < bolt.pru_max", ""),
    "tokens that are not used up": ("            mine.pru_token -= 1\n", "            pass\n"),
    "supply that is not used up": ("            mine.sm_token -= bolt.full\n", "            pass\n"),
    "supply without demand": ("mine.sm_token + supply - pkt.size", "mine.sm_token + supply"),
    "supply without bound": ("min(mine.sm_token + supply - pkt.size, float(bolt.supply))", "mine.sm_token + supply - pkt.size"),
    "growth for nothing": ("        else:\n            carried.inc = 0\n", ""),
    "the time stamp": ("says.tx_time = my_packet(bolt, pkt).tx_time", "says.tx_time = node.now"),
}


@pytest.mark.parametrize("mistake", SENDER_MISTAKES)
def test_a_mistake_in_the_sender_is_found(mistake):
    check_mistake("bolt", *SENDER_MISTAKES[mistake], lambda text: walk_of_sender(long_walk(), text))


@pytest.mark.parametrize("mistake", PORT_MISTAKES)
def test_a_mistake_in_the_switch_is_found(mistake):
    compare = lambda text: walk_of_port(long_port_walk(), text, pru_max=4, sm_max="3KB")  # noqa: E731
    check_mistake("bolt", *PORT_MISTAKES[mistake], compare)


# ---- laws ----


def test_a_lone_flow_takes_its_ideal_time():
    check_alone("bolt", {"stamp_bytes": 0})


def test_a_lone_flow_pays_for_the_header():
    topo = network()
    run = simulate(topo, flow_list(topo, [(0, 15, 5_000_000, "0us")]), "bolt")
    assert run.flows["slowdown"][0] == pytest.approx(FULL / 1048, rel=0.001)
    assert run.counts["bolt.srcs"] == 0


def test_the_first_reaction_by_hand():
    """Two flows to host 0 from 0 on, packets of 1059 B, 84.72 ns on the line; windows of 52216 B.

    Both first packets come at 84.72 ns + 1 us; one is on the line at once, the other waits.  When the line is free the second
    packets have come: the first of them finds 1059 B, the other one 2118 B: that is the threshold, at 1.16944 us.  Its SRC, 64 B
    or 5.12 ns and 1 us, is there at 2.17456 us, half an RTT (4.17728 us) after the start, and 2 us before the first ACK.  2
    packets are queued, the rates are those of lines: the interval is half the time of the SRC, and has passed since the start.
    """
    assert BASE_RTT == 4_177_280 and BDP == 52_216
    topo = star(hosts=3, buffer="100MB")
    flows = flow_list(topo, [(1, 0, 300_000), (2, 0, 300_000)])
    _, rows = traced(topo, flows, "bolt")
    first = min((r for r in rows if r.kind >= CONTROL and r.event == "receive"), key=lambda r: r.at)
    assert first.at == 84_720 + 1_000_000 + 84_720 + 5_120 + 1_000_000 == 2_174_560
    series = run_of(topo, flows, "1ns", duration_ps=2_176_000).extra["flow_series"]
    series = series.filter(series["flow_id"] == first.node - 1)
    before, after = (series.filter(pl.col("time_ns") <= ns)["window_bytes"][-1] for ns in (2174, 2175))
    assert (before, after) == (BDP, BDP - 1000)


def run_of(topo, flows, sample, scheme="bolt", **more):
    return simulate(topo, flows, scheme, measure=Measure(sample=sample, flow_series=True), **more)


def windows_of(run, flow):
    series = run.extra["flow_series"]
    return series.filter(series["flow_id"] == flow)


@pytest.mark.parametrize("scheme", ["swift", "hpcc", "bolt"])
def test_it_reacts_before_a_round_trip_is_over(scheme):
    """The first change of a window, where others wait for the first ACK."""
    topo = star(hosts=3, buffer="100MB")
    flows = flow_list(topo, [(1, 0, 300_000), (2, 0, 300_000)])
    series = run_of(topo, flows, "10ns", scheme).extra["flow_series"]
    changes = series.filter(pl.col("window_bytes") != series["window_bytes"][0])["time_ns"]
    assert (1000 * changes.min() < BASE_RTT) == (scheme == "bolt")


def reported(topo, flows, parameters=None):
    """A run; the switch and source of each packet of which an SRC is to be sent: the first switch where it meets a queue."""
    run, rows = traced(topo, flows, "bolt", parameters)
    met = {}
    for r in rows:
        if r.kind == DATA and r.event == "enqueue" and r.port_bytes - r.size >= 2 * FULL:
            met.setdefault((r.flow, r.offset), (r.at, r.node))
    sources = flows.src.tolist()
    return run, rows, [(node, sources[flow]) for (flow, _), (_, node) in met.items()]


def test_one_src_a_packet_from_the_first_switch_with_a_queue_and_its_bytes_count():
    topo = network(buffer="100MB")
    flows = incast(topo, range(1, 16), size=90_000, every_ns=400, more=[(0, 9, 300_000, "0us"), (4, 9, 300_000, "0us")])
    run, rows, told = reported(topo, flows)
    assert len(told) == run.counts["bolt.srcs"] == pl.Series(run.frame("counts").filter(name="bolt.srcs")["value"]).sum() > 500
    arrived = [r.node for r in rows if r.kind >= CONTROL and r.event == "receive" and r.node < topo.hosts]
    assert sorted(arrived) == sorted(source for _, source in told)
    tor = lambda host: topo.hosts + host // 4  # noqa: E731
    hops = [1 if node == tor(source) else 2 if topo.tier[node] == 2 else 3 for node, source in told]
    assert set(hops) == {1, 2, 3}
    assert run.ports["control_bytes"].sum() == 64 * sum(hops)  # on each link
    data = [r for r in rows if r.kind == DATA and r.event == "dequeue"]
    links = len(data) + len({(r.flow, r.offset) for r in data})  # of data; as many of ACKs
    assert run.ports["tx_packets"].sum() == 2 * links + sum(hops)
    acks = run.ports["ack_bytes"].sum()
    sizes = sum(r.size for r in data) + sum({(r.flow, r.offset): r.size for r in data}.values())
    assert run.ports["tx_bytes"].sum() == sizes + acks + 64 * sum(hops)


def test_a_window_falls_by_no_more_than_the_srcs_say():
    """Without losses: a packet per SRC at most, and nothing without one."""
    topo = star(hosts=5, buffer="100MB")
    flows = incast(topo, range(1, 5), size=300_000, every_ns=2_000)
    _, rows = traced(topo, flows, "bolt", {"pfc": False})
    times = {
        node: [r.at / 1000 for r in rows if r.kind >= CONTROL and r.event == "receive" and r.node == node] for node in range(5)
    }
    run, falls = run_of(topo, flows, "10ns", parse("bolt", {"pfc": False})), 0
    for flow, source in enumerate(flows.src.tolist()):
        series = windows_of(run, flow).select("time_ns", "window_bytes").rows()
        for (t0, w0), (t1, w1) in pairwise(series):
            heard = sum(t0 < t <= t1 for t in times[source]) if w1 < w0 else 0
            assert w0 - w1 <= 1000 * heard
            falls += w1 < w0
    assert falls > 50


def test_tokens_stay_within_their_bounds():
    """PRU 0 to pru_max, SM up to sm_max; and what is taken from it is no more than has come: it goes below 0 as a queue grows."""
    topo = network()
    flows = incast(topo, range(1, 16), size=60_000, every_ns=1500, more=[(2, 9, 500_000, "0us"), (5, 9, 80_000, "5us")])
    run = simulate(topo, flows, parse("bolt", {"pru_max": 20}), measure=Measure(sample="50ns", records=True))
    records = run.frame("records")
    pru = records.filter(pl.col("name").str.ends_with("pru_token"))["value"]
    supply = records.filter(pl.col("name").str.ends_with("sm_token"))["value"]
    assert pru.min() >= 0 and 5 < pru.max() <= 20
    assert -2 * run.summary["max_buffer_bytes"] - 2 * FULL < supply.min() < 0 < supply.max() <= FULL


def test_bytes_are_conserved_when_packets_are_lost():
    """A small buffer, links that lose, frames that are lost: what was sent arrived or was dropped, and every flow ends."""
    topo = star(hosts=9, buffer="60KB").with_loss(0.002)
    flows = incast(topo, range(1, 9), size=200_000, every_ns=700)
    run = simulate(topo, flows, parse("bolt", {"pfc": False}), host=HostConfig(rto="200us"), control_loss=0.05)
    assert run.summary["flows_finished"] == 8 and run.summary["drops"] > 0 and run.summary["retransmissions"] > 0
    ports = run.ports.filter(pl.col("node") == 9)
    assert run.flows["retransmitted_bytes"].sum() > 0 and ports["control_bytes"].sum() == 64 * run.counts["bolt.srcs"] > 0
    free = simulate(topo, flows, parse("fifo"), host=HostConfig(rto="200us"))
    assert run.summary["drops"] < 0.5 * free.summary["drops"]


def test_a_flow_that_ends_leaves_its_share_to_others():
    """Without PRU and SM the other flow has additive increase alone and takes longer."""
    topo = star(hosts=3, buffer="100MB")
    flows = flow_list(topo, [(1, 0, 1_500_000), (2, 0, 500_000)])
    fct = {}
    for name, parameters in {"both": {}, "none": {"pru_max": 0, "sm_max": 1}}.items():
        fct[name] = simulate(topo, flows, parse("bolt", parameters)).flows.sort("bytes")["fct_ns"][-1]
    ideal = 2_000_000 / 1000 * FULL * 0.08 + BASE_RTT / 1000
    assert ideal < 1.001 * fct["both"] < 1.02 * ideal and fct["none"] > 1.01 * fct["both"]


def test_the_longest_queue_and_the_tail_of_short_flows():
    """An incast into a long flow's rack: the queue is far shorter than with HPCC and Swift, and short flows pass it sooner."""
    topo = network(buffer="12MB")
    short = [(3 + i % 12, 0, 1000, f"{20 + 3 * i}us") for i in range(40)]
    flows = incast(topo, range(4, 16), size=400_000, more=short)
    queue, tail = {}, {}
    for scheme in ("bolt", "hpcc", "swift"):
        run = simulate(topo, flows, scheme)
        queue[scheme] = run.summary["max_buffer_bytes"]
        tail[scheme] = run.flows.filter(bytes=1000)["slowdown"].quantile(0.95)
    assert queue["bolt"] < 0.7 * min(queue["hpcc"], queue["swift"])
    assert tail["bolt"] < 0.7 * min(tail["hpcc"], tail["swift"])


def test_open_loop_packets_call_for_no_src():
    topo = star(hosts=4, buffer="100MB")
    udp = [{"src": i, "dst": 0, "bytes": 200_000, "open_loop": True} for i in (1, 2, 3)]
    run = simulate(topo, flow_list(topo, udp), "bolt")
    assert run.counts["bolt.srcs"] == 0 and run.ports["control_bytes"].sum() == 0


def test_any_number_of_threads_gives_the_same_results():
    assert acted(check_threads("bolt"))
    check_threads("bolt:ns3")
    check_threads("bolt+dqa", {"queues": 8})


def test_golden_completion_times():
    """Of the transcription too, which has them from every packet (above); ps."""
    topo = star(hosts=16, buffer="100MB")
    flows = flow_list(topo, [(1, 0, 300_000), (2, 0, 300_000)])
    fct = (1000 * simulate(topo, flows, parse("bolt", {"pfc": False})).flows["fct_ns"]).round().cast(pl.Int64).to_list()
    net = bolt.run(16, CASES["two to one"][0], MODEL)
    last = {flow: max(at for at, _, f, *_ in net.sent if f == flow) for flow in (0, 1)}
    assert fct == [last[flow] + FULL * GAP + 1_000_000 for flow in (0, 1)] == GOLDEN


def test_acks_together_are_refused():
    topo = star(hosts=3)
    with pytest.raises(SpecError, match=r"host.ack_every = 2: bolt "):
        simulate(topo, flow_list(topo, [(0, 1, 5000)]), "bolt", host=HostConfig(ack_every=2))


def test_parts_and_presets():
    assert list(parse("bolt").parts) == ["pfc", "bolt"]
    values = parse("bolt:ns3").values("bolt")
    assert (values["cc_threshold"], values["sm_max"], values["largest_cwnd"]) == (62_000, 30_000, 373_760)


def test_bad_parameters_are_refused():
    check_bad("bolt", {"max_md": 1}, "0..0.99")
    check_bad("bolt", {"least_cwnd": 0}, "1..1000000")
