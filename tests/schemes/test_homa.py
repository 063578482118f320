"""Homa packet by packet against the transcription, its laws, its priorities, and what it does about losses."""

from collections import defaultdict

import numpy as np
import polars as pl
import pytest
from helpers import CONTROL, DATA, EVERYTHING, US, check_alone, check_bad, check_threads, network, planted, rows_of, traced
from paper import homa
from paper.turns import turn

from penstock_net.composition import available, parse
from penstock_net.sim.config import HostConfig
from penstock_net.sim.simulate import simulate
from penstock_net.topology import from_file, leaf_spine, star
from penstock_net.workload import SizeDistribution, flow_list

MTU, WIRE, GAP = 1000, 1048, 80
SETTINGS = {"rtt_bytes": "10KB", "priorities": 8, "unscheduled": 4, "k": 3, "cutoffs": [1000, 8000, 20000]}
MODEL = {"rtt_bytes": 10_000, "P": 8, "U": 4, "K": 3, "cutoffs": [1000, 8000, 20000]}


def crowd(seed, hosts=7, count=30, largest=60_000):
    """Messages of all sizes within 30 us to two receivers, some from the same sender: (src, dst, bytes, start in ns)."""
    r = np.random.default_rng(seed)
    sizes = np.exp(r.uniform(0, np.log(largest), count)).astype(int) + 1
    sizes[::3] = -(-sizes[::3] // MTU) * MTU
    starts = np.sort(r.choice(30_000, count, replace=False))
    flows = []
    for size, start in zip(sizes.tolist(), starts.tolist()):
        src, dst = int(r.integers(2, hosts)), int(r.integers(0, 2))
        flows.append((src, dst, size, start))
    return flows


def sent_by_the_switch(scheme, flows, parameters, hosts=7, **more):
    topo = star(hosts=hosts)
    listed = flow_list(topo, [(src, dst, size, f"{start}ns") for src, dst, size, start in flows])
    run, rows = traced(topo, listed, scheme, parameters, **more)
    data = [(r.at, r.port, r.flow, r.offset, r.size) for r in rows if r.kind == DATA and r.event == "dequeue"]
    grants = [(r.at, r.node, r.offset) for r in rows if r.kind >= CONTROL and r.event == "receive"]
    return run, sorted(data), sorted(grants)


def modelled(flows, hosts=7, **changes):
    in_ps = [(src, dst, size, 1000 * start) for src, dst, size, start in flows]
    data, grants = homa.run(hosts, in_ps, **{**MODEL, **changes})
    return sorted(data), sorted(grants)


# ---- packet by packet ----


def test_equal_messages_are_granted_one_after_the_other():
    """The one that came first, then of those that have as much left the one whose turn is the least."""
    flows = [(src, 0, 100_000, 0) for src in range(1, 6)]
    run, *_ = sent_by_the_switch("homa", flows, {**SETTINGS, "k": 1})
    first, *others = np.argsort(run.flows["finish_ns"]).tolist()
    assert others == sorted(set(range(5)) - {first}, key=lambda flow: turn(flow, 0))


def differs(scheme, case):
    """Crowds: RTTbytes below the control loop, and above it.  Case 8: packets come faster than grants may follow each other."""
    ahead, largest = (10_000, 60_000) if case % 2 else (60_000, 300_000)
    flows, k = crowd(case, largest=largest), 3
    if case == 8:
        long = [(2 + i, 0, 150_000 + 20_000 * i, 0) for i in range(3)]
        flows, k = [*long, *((5 + i % 2, 0, 150, 2000 + 100 * i) for i in range(500))], 1
    run, *found = sent_by_the_switch(scheme, flows, {**SETTINGS, "rtt_bytes": ahead, "k": k})
    expected = modelled(flows, rtt_bytes=ahead, K=k)
    return run, len(expected[0]), tuple(found) != expected


@pytest.mark.parametrize("case", range(9))
def test_every_packet_leaves_and_every_grant_arrives_when_the_transcription_says(case):
    run, count, other = differs("homa", case)
    assert count > 100 and not other
    assert run.summary["retransmissions"] == 0


@pytest.mark.parametrize("k, unscheduled", [(1, 7), (7, 1), (0, 2), (5, 6)])
def test_any_number_of_levels_and_grants(k, unscheduled):
    flows = crowd(99)
    cutoffs = [300, 900, 2000, 5000, 9000, 15000][: unscheduled - 1]
    settings = {**SETTINGS, "k": k, "unscheduled": unscheduled, "cutoffs": cutoffs}
    _, *found = sent_by_the_switch("homa", flows, settings)
    assert tuple(found) == modelled(flows, K=k or 8 - unscheduled, U=unscheduled, cutoffs=cutoffs)


MISTAKES = {
    "order of messages": (
        "rank_incoming(node, incoming, mine.size - mine.granted)",
        "rank_incoming(node, incoming, mine.granted)",
        2,
    ),
    "a message in flight too many": ("incoming.received >= mine.ahead", "incoming.received > mine.ahead"),
    "level of the best": ("homa.priorities - m + rank", "homa.priorities - 1 - rank"),
    "one message of a sender": ("if sources[i] == src:", "if sources[i] == -1 - src:"),
    "no pace of grants": ("if node.now < mine.next_grant:", "if node.now < 0:"),
    "no timer for grants": (
        "wake_by(node, homa.at.index, mine.next_grant)",
        "wake_by(node, homa.at.index, node.now + 1000000)",
        2,
    ),
    "the last bytes": ("left > mine.ahead or", "left > 0 or"),
    "class of a packet": ("if left <= homa.cutoffs[level]", "if left < homa.cutoffs[level]"),
    "order at the sender": ("set_rank(node, flow, flow.size - flow.sent)", "set_rank(node, flow, flow.sent)"),
    "blind bytes": ("flow.window = mine.ahead\n", "flow.window = mine.ahead + 1000\n"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found(tmp_path, mistake):
    file = planted(tmp_path, "homa", *MISTAKES[mistake])
    assert any(differs(file, case)[2] for case in range(9))


# ---- RTTbytes of each pair ----

PAIRS = [(0, 1), (0, 5), (0, 9), (13, 2)]  # in one rack, across, across, and to or from a rack that is farther


@pytest.fixture
def near_and_far(tmp_path):
    ends = [(f"h{i}", f"tor{i // 4}", "100Gbps", "1us") for i in range(16)]
    ends += [(f"tor{i}", "spine0", "100Gbps", "5us" if i == 3 else "2us") for i in range(4)]
    (tmp_path / "links.csv").write_text("a,b,rate,delay\n" + "".join(",".join(end) + "\n" for end in ends))
    return from_file(tmp_path / "links.csv", buffer="12MB")


def rtt_bytes_of(src, dst):
    """Of payload, in whole packets, by hand: a full packet there and an ACK back, store and forward, over links of 100 Gbit/s."""
    delays = [1, 1] if src // 4 == dst // 4 else [1, *(5 if host // 4 == 3 else 2 for host in (src, dst)), 1]
    rtt = sum(2 * delay * US + (WIRE + 60) * GAP for delay in delays)
    return -(-rtt // (GAP * MTU)) * MTU


def blind_and_grants(topo, parameters, size=400_000, scheme="homa"):
    """Of a message between each pair, one after another: the grants that its sender had, and the ideal time or not."""
    flows = flow_list(topo, [(src, dst, size, f"{i}ms") for i, (src, dst) in enumerate(PAIRS)])
    run, rows = traced(topo, flows, scheme, parameters)
    grants = defaultdict(int)
    for r in rows:
        if r.kind >= CONTROL and r.event == "receive":
            grants[r.at // 10**9] += 1
    return [size - MTU * grants[i] for i in range(len(PAIRS))], run.flows["slowdown"].to_list()


def test_own_rtt_bytes_are_blind_and_keep_the_link_busy(near_and_far):
    topo = near_and_far
    expected = [rtt_bytes_of(*pair) for pair in PAIRS]
    blind, slowdown = blind_and_grants(topo, {"own_rtt": True})
    assert blind == expected and len(set(expected)) == 3 and slowdown == [1.0] * 4
    least = min(expected)
    blind, slowdown = blind_and_grants(topo, {"rtt_bytes": least})
    assert blind == [least] * 4 and [s == 1.0 for s in slowdown] == [one == least for one in expected]
    blind, _ = blind_and_grants(topo, {})
    assert len(set(blind)) == 1 and blind[0] >= max(expected)


OWN_MISTAKES = {
    "one of them is the network's": ("mine.granted = min(mine.size, mine.ahead)", "mine.granted = min(mine.size, homa.ahead)"),
    "half of it at the sender": (
        "round_trip_of(node, flow))\n    flow.window",
        "round_trip_of(node, flow) // 2)\n    flow.window",
    ),
    "half of it": ("ceil(rtt / ps_per_byte)", "ceil(rtt / ps_per_byte / 2)"),
}


@pytest.mark.parametrize("mistake", OWN_MISTAKES)
def test_a_mistake_about_own_rtt_bytes_is_found(near_and_far, tmp_path, mistake):
    file = planted(tmp_path, "homa", *OWN_MISTAKES[mistake])
    found = blind_and_grants(near_and_far, {"own_rtt": True}, scheme=file)
    assert found != ([rtt_bytes_of(*pair) for pair in PAIRS], [1.0] * 4)


# ---- laws ----


def test_a_lone_message_takes_the_ideal_time():
    """The control loop is within RTTbytes: the default is a bandwidth-delay product."""
    check_alone("homa")
    check_alone("homa", {"unscheduled": 1, "priorities": 2})
    check_alone("homa+spray")


@pytest.mark.parametrize("size, grants", [(1, 0), (10_000, 0), (10_001, 1), (25_500, 16), (200_000, 190)])
def test_a_grant_for_each_packet_that_is_not_blind(size, grants):
    topo = star(hosts=3)
    run = simulate(topo, flow_list(topo, [(1, 0, size, "1us")]), parse("homa", SETTINGS), measure=EVERYTHING)
    assert run.ports.filter(pl.col("node") == 0)["control_bytes"].sum() == 64 * grants


def test_with_k_1_equal_messages_end_one_by_one():
    topo = star(hosts=6)
    settings = {**SETTINGS, "k": 1, "rtt_bytes": "60KB"}
    run = simulate(topo, flow_list(topo, [(i, 0, 300_000, "1us") for i in range(1, 6)]), parse("homa", settings))
    ends = np.sort(run.flows["finish_ns"].to_numpy())
    assert np.diff(ends).round(3).tolist() == [round(240 * WIRE * GAP / 1000, 3)] * 4


@pytest.mark.parametrize("k", [1, 2, 4])
def test_what_is_granted_and_has_not_arrived_is_bounded(k):
    """Once what was blind has left, no more than K (RTTbytes + a packet) are queued at the receiver's port."""
    topo = star(hosts=9)
    flows = flow_list(topo, [(i, 0, 200_000, "1us") for i in range(1, 9)])
    _, rows = traced(topo, flows, "homa", {**SETTINGS, "k": k})
    blind = 8 * 10 * WIRE * GAP
    later = [r.port_bytes for r in rows if r.port == 0 and r.at > 2 * blind]
    assert later and 0 < max(later) <= k * 11 * WIRE


def test_the_fewest_unsent_bytes_go_first():
    topo = star(hosts=9)
    flows = flow_list(topo, [(0, 1 + i, size, "1us") for i, size in enumerate((10_000, 8_000, 6_000, 4_000, 7_000, 3_000))])
    run = simulate(topo, flows, parse("homa", {"rtt_bytes": "10KB"}))
    assert run.flows.sort("finish_ns")["bytes"].is_sorted()


def busy_sender(k):
    """Two senders to host 0; the one with the best message there is busy with a shorter one to another host."""
    topo = star(hosts=4)
    flows = flow_list(topo, [(1, 3, 150_000, "1us"), (1, 0, 200_000, "1us"), (2, 0, 400_000, "1us")])
    return simulate(topo, flows, parse("homa", {**SETTINGS, "k": k}))


def test_a_downlink_waits_for_a_busy_sender_unless_more_are_granted():
    one, two = (busy_sender(k).flows["finish_ns"].max() for k in (1, 2))
    assert two < 0.85 * one


# ---- priorities ----


def test_the_dialogue_of_two_messages():
    """RTTbytes of 10 packets, two messages of 30, K = 2: blind at their class, A at level P - 2, B at P - 1, A overtakes B;
    the last 10 packets return to the classes of blind packets."""
    topo = star(hosts=3)
    flows = flow_list(topo, [(1, 0, 29_000, "1us"), (2, 0, 30_000, "1.001us")])
    settings = {"rtt_bytes": "10KB", "priorities": 8, "unscheduled": 2, "k": 2, "cutoffs": ["10KB"]}
    run, rows = traced(topo, flows, "homa", settings)
    levels = {flow: [r.queue for r in rows if r.event == "dequeue" and r.kind == DATA and r.flow == flow] for flow in (0, 1)}
    assert levels[0] == [1] * 10 + [7] + [6] * 8 + [0] * 10  # B had not come when A's first packet was granted
    assert levels[1] == [1] * 10 + [7] * 10 + [0] * 10
    finish = run.flows["finish_ns"].to_list()
    assert finish[0] < finish[1] and max(finish) - 1000 < 60 * WIRE * GAP / 1000 + 2.2 * topo.base_rtt_ps() / 1000


def shares(sizes, levels, rtt_bytes):
    """Cutoffs that give each level of blind packets the same wire bytes; as docs/schemes.md, but packet by packet."""
    weight = defaultdict(int)
    for size in sizes:
        for offset in range(0, size, MTU):
            left = size - offset
            if offset < rtt_bytes or left <= rtt_bytes:
                weight[left] += min(left, MTU) + 48
    lefts = sorted(weight)
    sums = np.cumsum([weight[left] for left in lefts])
    return [lefts[int(np.searchsorted(sums, sums[-1] * i / levels))] for i in range(1, levels)]


def test_equal_shares_fill_the_levels_alike():
    sizes = SizeDistribution.load("homa_w3")
    drawn = np.random.default_rng(1)
    values = np.minimum(np.maximum(sizes.quantile(drawn.random(400)), 1), 10_000).astype(int).tolist()
    cutoffs = shares(values, 4, 10_000)
    topo = star(hosts=9)
    listed = [(1 + i % 8, 0, size, f"{i * 40}ns") for i, size in enumerate(values)]
    settings = {"rtt_bytes": "10KB", "priorities": 8, "unscheduled": 4, "cutoffs": cutoffs}
    run = simulate(topo, flow_list(topo, listed), parse("homa", settings), measure=EVERYTHING)
    carried = defaultdict(int)
    for r in rows_of(run):
        if r.event == "dequeue" and r.kind == DATA:
            carried[r.queue] += r.size
    assert sorted(carried) == [0, 1, 2, 3]
    assert all(abs(4 * carried[level] / sum(carried.values()) - 1) < 0.1 for level in carried)


# ---- losses ----


@pytest.mark.parametrize("size", [1, 1000, 9_500, 150_000])
def test_whatever_is_lost_is_sent_again(size):
    """Data, grants, requests, acknowledgements; of messages of one packet, all that a receiver might know of them."""
    topo = network().with_loss(0.05)
    flows = flow_list(topo, [(i, (i + 5) % 16, size, f"{k * 7}us") for i in range(16) for k in range(6)])
    run, _ = traced(topo, flows, "homa", {"resend": "50us", "rtt_bytes": "10KB"}, host=HostConfig(rto="100us"))
    assert run.flows["retransmitted_bytes"].sum() > 0


def test_a_sender_that_repeats_itself_does_not_keep_the_receiver_from_asking():
    """Last packets are lost, and timeouts, of 4 ms, are shorter than the receiver's patience, of 5 ms."""
    topo = star(hosts=16, buffer="20KB")
    flows = flow_list(topo, [(src, 0, 3_000, "1us") for src in range(1, 16)])
    run = simulate(topo, flows, parse("homa"), max_time_ps=10**11)
    assert run.summary["drops"] > 10 and run.summary["flows_finished"] == len(flows)
    assert run.flows["fct_ns"].max() < 50e6


def test_a_message_that_waits_for_its_sender_s_others_is_not_sent_again():
    """The last of twenty messages begins after 140 us, seven timeouts."""
    topo = star(hosts=2)
    flows = flow_list(topo, [(1, 0, 90_000 + i, "1us") for i in range(20)])
    run = simulate(topo, flows, parse("homa", {"rtt_bytes": "100KB"}), host=HostConfig(rto="20us"))
    assert run.summary["flows_finished"] == 20 and run.flows["fct_ns"].max() > 140e3


def test_a_gap_costs_its_packet_alone():
    """Of a long message only what was lost is sent again, and sometimes its first packet."""
    topo = star(hosts=2).with_loss(0.01)
    run, _ = traced(topo, flow_list(topo, [(1, 0, 1_000_000, "1us")]), "homa", {"resend": "50us"}, host=HostConfig(rto="400us"))
    lost = run.summary["drops"]
    assert lost > 10 and run.flows["retransmitted_bytes"].sum() <= 1.5 * lost * MTU


def test_no_more_is_granted_than_a_receiver_can_note():
    """A switch takes a few packets of 8 MB with it: the receiver falls silent 4095 packets after the first, and asks for it."""
    fails = [{"time": "50us", "switch": "spine0", "up": False}, {"time": "1ms", "switch": "spine0", "up": True}]
    topo = leaf_spine(hosts=4, tors=2, spines=8, delay="1us").with_changes(fails)
    flows = flow_list(topo, [(0, 2, 8_000_000, "1us")])
    run, _ = traced(topo, flows, "homa+spray", {"resend": "500us"}, host=HostConfig(rto="500us"))
    lost, ideal = run.summary["drops"], run.flows["ideal_fct_ns"][0]
    assert 2 <= lost <= 20 and run.flows["retransmitted_bytes"].sum() <= (lost + 1) * MTU
    assert run.flows["fct_ns"][0] < ideal + 500e3 + (lost + 1) * 20e3


def test_nothing_is_sent_twice_without_losses():
    topo = network(spines=4)
    flows = flow_list(topo, [(i, (i + 4 * k) % 16, 120_000 + 7 * i, f"{i}us") for i in range(16) for k in (1, 2, 3)])
    for scheme in ("homa", "homa+spray"):
        run, _ = traced(topo, flows, scheme, {"rtt_bytes": "20KB"})
        assert run.summary["retransmissions"] == 0 and run.summary["drops"] == 0


# ---- the rest ----


def test_any_number_of_threads_gives_the_same_results():
    check_threads("homa", {"rtt_bytes": "20KB"})
    check_threads("homa+spray", SETTINGS)


def test_cutoffs_are_a_list_or_a_text():
    values = [parse("homa", {"cutoffs": given}).values("homa")["cutoffs"] for given in (["2KB", 9000], "2KB, 9KB", (2000, 9000))]
    assert values == [(2000, 9000, *[0] * 28)] * 3
    assert "homa" in available()


def test_bad_parameters_are_refused():
    check_bad("homa", {"priorities": 1}, "2..32")
    check_bad("homa", {"unscheduled": 0}, "1..31")
    check_bad("homa", {"cutoffs": 5}, "list of at most 30")
    check_bad("homa", {"cutoffs": [1] * 31}, "list of at most 30")
    check_bad("homa", {"cutoffs": ["2 apples"]}, "2 apples")


def test_times_of_the_first_grant():
    """10 packets blind, the 11th is granted when the first arrives: its grant crosses two links, then it follows at once."""
    topo = star(hosts=2)
    _, rows = traced(topo, flow_list(topo, [(1, 0, 11_000, "0us")]), "homa", {"rtt_bytes": "10KB"})
    out = [r.at for r in rows if r.event == "dequeue" and r.kind == DATA]
    first = WIRE * GAP + US
    assert out[:10] == [first + i * WIRE * GAP for i in range(10)]
    arrival = first + WIRE * GAP + US
    assert out[10] == arrival + 2 * (64 * GAP + US) + WIRE * GAP + US
