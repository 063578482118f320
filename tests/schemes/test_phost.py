"""pHost packet by packet against the transcription, its laws, and what it does about losses."""

from itertools import pairwise

import numpy as np
import pytest
from helpers import CONTROL, DATA, EVERYTHING, US, check_bad, check_threads, network, planted, rows_of, traced
from paper import phost

from penstock_net.composition import parse
from penstock_net.sim.config import HostConfig
from penstock_net.sim.simulate import simulate
from penstock_net.topology import star
from penstock_net.workload import flow_list

MTU, WIRE, GAP = 1000, 1048, 80
T = WIRE * GAP
RTS, TOKEN = 3, 4
SETTINGS = {"free": 8, "capacity": "36KB"}
MODEL = {
    **{"free": 8, "free_for_short": False, "ahead": 8, "expiry": 1.5, "pause": 25, "reissue": 9},
    **{"threshold": 8000, "capacity": 36_000, "mtu": MTU, "hold": True, "levels": 2, "control": 40, "ack": 60},
}


def crowd(seed, count=25, largest=60_000):
    """Flows of all sizes within 30 us from five senders to two receivers: (src, dst, bytes, start in ns)."""
    r = np.random.default_rng(seed)
    sizes = np.exp(r.uniform(0, np.log(largest), count)).astype(int) + 1
    starts = np.sort(r.choice(30_000, count, replace=False))
    return [(int(r.integers(2, 7)), int(r.integers(0, 2)), size, start) for size, start in zip(sizes.tolist(), starts.tolist())]


def found(scheme, flows, parameters):
    topo = star(hosts=7)
    listed = flow_list(topo, [(src, dst, size, f"{start}ns") for src, dst, size, start in flows])
    run, rows = traced(topo, listed, scheme, parameters)
    end = round(run.flows["finish_ns"].max() * 1000)
    rows = [r for r in rows if r.at < end]
    data = [(r.at, r.port, r.flow, r.offset, r.size) for r in rows if r.kind == DATA and r.event == "dequeue"]
    tokens = [(r.at, r.node, r.offset) for r in rows if r.kind >= CONTROL and r.flow == TOKEN and r.event == "receive"]
    return sorted(data), sorted(tokens), sum(r.event == "drop" for r in rows)


# ---- packet by packet ----

CASES = {  # flows, parameters, the same of the transcription
    "crowd": (crowd(1), {}, {}),
    "crowd of short ones": (crowd(2, count=40, largest=9_000), {"free": 3}, {"free": 3, "ahead": 3, "pause": 10, "reissue": 4}),
    "free for short ones": (crowd(3), {"free_for": "short"}, {"free_for_short": True}),
    "no hold": (crowd(4), {"hold": False}, {"hold": False}),
    "one level": (crowd(5), {"free_for": "short", "levels": 1}, {"free_for_short": True, "levels": 1}),
    "frames of 84 B": (crowd(6), {"host.control": 84, "host.ack": 40}, {"control": 84, "ack": 40}),
    "a small buffer": (
        [(2 + i % 5, i % 5 // 4, (12_000, 30_000)[i % 3 > 0] + i, 100 * i) for i in range(15)],
        {"capacity": "7KB", "threshold": "20KB"},
        {"capacity": 7_000, "threshold": 20_000},
    ),
    "three receivers": (
        [(2 + i % 2, i % 2, 40_000 + 1000 * i, 10 * i) for i in range(8)],
        {"expiry": 3.0, "ahead": 20, "pause": 30, "reissue": 40},
        {"expiry": 3.0, "ahead": 20, "pause": 30, "reissue": 40},
    ),
}


def compared(scheme, case):
    flows, parameters, changes = CASES[case]
    got = found(scheme, flows, {**SETTINGS, **parameters})
    in_ps = [(src, dst, size, 1000 * start) for src, dst, size, start in flows]
    data, tokens, drops = phost.run(7, in_ps, **{**MODEL, **changes})
    return got, (sorted(data), sorted(tokens), len(drops))


@pytest.mark.parametrize("case", CASES)
def test_every_packet_leaves_and_every_token_arrives_when_the_transcription_says(case):
    got, expected = compared("phost", case)
    for mine, theirs in zip(got[:2], expected[:2]):
        for a, b in zip(mine, theirs):
            assert a == b
    assert got == expected
    assert len(got[0]) > 80 and len(got[1]) > 20
    assert (got[2] > 5) == (case == "a small buffer")


MISTAKES = {
    "order at the receiver": ("mine.size - incoming.received)\n    wake_by", "incoming.received)\n    wake_by"),
    "order at the sender": ("set_rank(node, flow, frame.left)", "set_rank(node, flow, flow.sent)"),
    "tokens that do not expire": ("if node.now <= mine.until[i]:", "if mine.until[i] > 0:"),
    "no pause": ("if mine.tokens - mine.used >= phost.lead:", "if mine.tokens - mine.used > 1000000:"),
    "a pause without end": ("mine.used = mine.tokens - phost.lead + 1", "mine.used = mine.tokens"),
    "one token more": ("mine.tokens - mine.used >= phost.lead", "mine.tokens - mine.used > phost.lead"),
    "no hold": ("        if phost.hold:\n", "        if phost.hold > 1:\n"),
    "holds add up": ("left % time", "left"),
    "the turn begins anew": ("node.now + left % time", "node.now"),
    "levels": ("if phost.levels == 1:", "if phost.levels == 0:"),
    "missing packets at once": ("        again = phost.again\n", "        again = 1\n"),
    "short flows do not go first": ("if flow.size <= phost.limit else LONG", "if flow.size <= 0 else LONG"),
    "free packets for all": ("if phost.free_for and", "if phost.free_for > 7 and"),
    "twice as many tokens": (
        "next_token = node.now + packet_time(phost, node)",
        "next_token = node.now + packet_time(phost, node) // 2",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found(tmp_path, mistake):
    file = planted(tmp_path, "phost", *MISTAKES[mistake])
    assert any(got != expected for got, expected in (compared(file, case) for case in CASES))


# ---- laws ----


def longer_ps(run):
    """Than the ideal time."""
    return ((run.flows["fct_ns"] - run.flows["fct_ns"] / run.flows["slowdown"]) * 1000).round().to_list()


@pytest.mark.parametrize("scheme", ("phost", "phost+spray"))
def test_a_lone_flow_of_free_packets_takes_the_ideal_time_after_its_rts(scheme):
    topo = network()
    flows = flow_list(topo, [(i, 15 - i, size, f"{i * 500}us") for i, size in enumerate((100, 1000, 5500, 30_000))])
    assert longer_ps(simulate(topo, flows, parse(scheme))) == [40 * GAP] * 4


def test_the_dialogue_of_one_flow():
    """10 packets, 2 of them free: the RTS of 40 B crosses two links; two packet times later tokens begin to
    cross as many, and data follow a packet time apart."""
    topo = star(hosts=2)
    parameters = {"free": 2, "ahead": 100}
    _, rows = traced(topo, flow_list(topo, [(1, 0, 10_000, "0us")]), "phost", parameters)
    small = 2 * (40 * GAP + US)
    heard = [r.at for r in rows if r.kind >= CONTROL and r.flow == RTS and r.event == "receive"]
    tokens = [r.at for r in rows if r.kind >= CONTROL and r.flow == TOKEN and r.event == "receive"]
    assert heard == [small]
    assert tokens == [2 * small + (2 + k) * T for k in range(8)]
    out = [r.at for r in rows if r.event == "dequeue" and r.kind == DATA]
    first = 40 * GAP + WIRE * GAP + US  # the RTS goes before
    assert out == [first, first + T] + [2 * small + (2 + k) * T + WIRE * GAP + US for k in range(8)]


@pytest.mark.parametrize("free_for", ("all", "short"))
def test_a_longer_flow_costs_about_a_round_trip_more(free_for):
    topo = network()
    run = simulate(topo, flow_list(topo, [(0, 15, 2_000_000, "1us")]), parse("phost", {"free_for": free_for}))
    assert 0 < longer_ps(run)[0] < 2.2 * topo.base_rtt_ps()


def test_tokens_are_a_packet_time_apart_and_bounded():
    """At most `ahead` of a flow since the newest that was used, whatever its sender does."""
    topo = star(hosts=9)
    flows = [(1 + i % 4, 5 + i % 4 if i % 3 else 0, 100_000, f"{i}us") for i in range(12)]
    _, rows = traced(topo, flow_list(topo, flows), "phost", {"free": 6})
    for host in (0, 5, 6, 7, 8):
        came = sorted(
            r.at for r in rows if r.kind >= CONTROL and r.flow == TOKEN and r.event == "receive" and flows[r.offset][1] == host
        )
        assert all(b - a >= T - 40 * GAP for a, b in pairwise(came))  # one may wait for another frame
    tokens = sum(r.kind >= CONTROL and r.flow == TOKEN and r.event == "receive" for r in rows)
    assert tokens >= 12 * (100 - 6)


def test_a_sender_of_two_receivers_wastes_tokens():
    """Those that expire; the flow whose tokens do pauses, so that another sender has them.  It loses no more than a pause, and
    twice the time until missing packets have new tokens."""
    topo = star(hosts=4)
    flows = flow_list(topo, [(2, 0, 300_000, "0us"), (2, 1, 300_000, "0us"), (3, 0, 350_000, "0us")])
    run, rows = traced(topo, flows, "phost", {"free": 8, "ahead": 60})
    tokens = sum(r.kind >= CONTROL and r.flow == TOKEN and r.event == "receive" and r.node == 2 for r in rows)
    assert tokens > 600 - 2 * 8 + 60
    last = run.flows["finish_ns"] * 1000 / T
    assert last[:2].max() < 600 + 181 + 2 * 61 and last[2] < 1.25 * 650


def test_the_receivers_hold_leaves_room_for_free_packets():
    """Two long flows beside many of one packet, which take 70 % of the receiver's link, where all data have one priority."""
    topo = star(hosts=10)
    short = [(3 + k % 7, 0, 1000, f"{5000 + 120 * k}ns") for k in range(1000)]
    flows = flow_list(topo, [(1, 0, 1_000_000, "0us"), (2, 0, 1_000_000, "0us"), *short])
    held, not_held = (simulate(topo, flows, parse("phost:script", {"hold": hold})) for hold in (True, False))
    ends = [run.flows.filter(run.flows["bytes"] > 1000)["fct_ns"].mean() for run in (held, not_held)]
    assert ends[1] > 1.3 * ends[0]
    assert held.summary["drops"] < 0.1 * not_held.summary["drops"]


def test_the_presets():
    for name, levels in {"phost": 2, "phost:simulator": 2, "phost:script": 1}.items():
        scheme = parse(name)
        assert scheme.values("phost")["levels"] == levels and scheme.host == {"control": 40}


def test_the_shortest_flow_goes_first():
    topo = star(hosts=5)
    flows = flow_list(topo, [(1 + i, 0, size, "0us") for i, size in enumerate((90_000, 30_000, 120_000, 60_000))])
    run = simulate(topo, flows, parse("phost", {"free": 4}))
    assert run.flows.sort("finish_ns")["bytes"].is_sorted()


def test_an_incast_fills_the_link():
    """Section 4: within a few per cent of the ideal; nothing is dropped once the free packets have gone."""
    topo = star(hosts=16)
    flows = flow_list(topo, [(i, 0, 100_000, "0us") for i in range(1, 16)])
    run = simulate(topo, flows, parse("phost", {**SETTINGS, "ahead": 60}), measure=EVERYTHING)
    least = 15 * 100 * T / 1000
    assert least < run.flows["finish_ns"].max() < 1.1 * least
    drops = [r.at for r in rows_of(run) if r.event == "drop"]
    assert drops and max(drops) < 8 * T + 4 * US


# ---- losses ----


@pytest.mark.parametrize("size", (1, 9_500, 60_000))
def test_whatever_is_lost_is_sent_again(size):
    """RTS, tokens, data, acknowledgements."""
    topo = network().with_loss(0.05)
    flows = flow_list(topo, [(i, (i + 5) % 16, size, f"{k * 7}us") for i in range(16) for k in range(3)])
    run, _ = traced(topo, flows, "phost", {"free": 8}, host=HostConfig(rto="100us"))
    assert run.flows["retransmitted_bytes"].sum() > 0


def test_a_loss_costs_a_packet_even_of_a_flow_beyond_the_ring():
    """5000 packets, of which some are lost: tokens name them, and nearly nothing else is sent again."""
    topo = star(hosts=2).with_loss(0.002)
    run, _ = traced(topo, flow_list(topo, [(1, 0, 5_000_000, "0us")]), "phost", host=HostConfig(rto="50ms"))
    lost = run.summary["drops"]
    assert lost > 5 and run.flows["retransmitted_bytes"].sum() <= 2 * lost * MTU


# ---- the rest ----


def test_any_number_of_threads_gives_the_same_results():
    check_threads("phost", {"free": 8})
    check_threads("phost+spray", {"free_for": "short"})


def test_bad_parameters_are_refused():
    check_bad("phost", {"free": -1}, "0..2000")
    check_bad("phost", {"free_for": "long"}, "all, short")
    check_bad("phost", {"expiry": 0}, "0.1..1000")
