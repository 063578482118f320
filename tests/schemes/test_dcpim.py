"""dcPIM packet by packet and token by token against the transcription, its laws, what it does about losses, and known numbers."""

import numpy as np
import pytest
from helpers import CONTROL, DATA, US, check_bad, check_threads, network, planted, traced
from paper import dcpim

from penstock_net.composition import parse
from penstock_net.sim.config import HostConfig, Measure
from penstock_net.sim.simulate import simulate
from penstock_net.topology import leaf_spine, star
from penstock_net.workload import flow_list

MTU, WIRE, GAP, FRAME = 1000, 1048, 80, 40
TOKEN = 8  # command of frames
CRTT = 4 * US


def crowd(seed, hosts=7, count=24, largest=150_000, receivers=3, over=60_000):
    """Flows of all sizes within 60 us to some receivers, some from the same sender: (src, dst, bytes, start in ns)."""
    r = np.random.default_rng(seed)
    sizes = np.exp(r.uniform(4, np.log(largest), count)).astype(int) + 1
    starts = np.sort(r.choice(over, count, replace=False))
    flows = []
    for size, start in zip(sizes.tolist(), starts.tolist()):
        dst = int(r.integers(0, receivers))
        src = int(r.choice([host for host in range(hosts) if host != dst]))
        flows.append((src, dst, size, start))
    return flows


def sent_by_the_switch(scheme, flows, parameters, hosts=7):
    topo = star(hosts=hosts)
    listed = flow_list(topo, [(src, dst, size, f"{start}ns") for src, dst, size, start in flows])
    run, rows = traced(topo, listed, scheme, {"crtt": "4us", **parameters})
    data = [(r.at, r.port, r.flow, r.offset, r.size) for r in rows if r.kind == DATA and r.event == "dequeue"]
    return run, sorted(data), tokens_of(rows)


def tokens_of(rows):
    """(time, sender, flow) of each token that arrives."""
    return sorted((r.at, r.node, r.offset) for r in rows if r.kind >= CONTROL and r.event == "receive" and r.flow == TOKEN)


def modelled(flows, hosts=7, **changes):
    in_ps = [(src, dst, size, 1000 * start) for src, dst, size, start in flows]
    data, tokens, net = dcpim.run(hosts, in_ps, **changes)
    return sorted(data), sorted(tokens), net


# ---- packet by packet ----

BUSY = [(src, 4 + dst, 120_000 + 7_001 * dst + 500 * src, 100 * dst + src) for dst in range(3) for src in range(4)]
# short flows of senders whose long flows have tokens, and less left than the short ones have
LAST_WORDS = [(i, 3 + i, 100_000, 1000 + i) for i in range(3)] + [(i, 6, 48_000, 37_500 + 700 * i) for i in range(3)]
CASES = {
    **{f"crowd {i}": (crowd(i), {}, {}) for i in range(3)},
    "everybody": (crowd(7, count=50, receivers=7), {}, {}),
    "both busy": (BUSY, {}, {}),
    "one channel": (BUSY, *2 * ({"k": 1},)),
    "many": (crowd(4, receivers=6), *2 * ({"k": 8, "r": 2},)),
    "one round": (BUSY, *2 * ({"r": 1, "k": 2},)),
    "always the shortest": (BUSY, *2 * ({"min_rounds": 4},)),
    "always at random": (BUSY, *2 * ({"min_rounds": 0},)),
    "nothing at once": (crowd(5), {"at_once": 1}, {"short": 1}),
    "small windows": (crowd(6, receivers=5), {"window": 12, "at_once": 40}, {"W": 12, "short": 40}),
    "late messages": (crowd(8, receivers=5, count=40), *2 * ({"beta": 1.02},)),
    "too late": (BUSY, *2 * ({"beta": 1.01, "r": 8},)),
    "refused": (crowd(11, count=60, receivers=6, largest=120_000, over=40_000), *2 * ({"beta": 1.03, "r": 8, "k": 1},)),
    "requests too late": (crowd(4, receivers=7, count=30), *2 * ({"beta": 1.015, "r": 1},)),
    "short beside what is left of long": (LAST_WORDS, {}, {}),
    "short flows that wait": ([(1 + i, 0, 45_000 - 1000 * i, 100 * i) for i in range(6)], {}, {}),
    "slow rounds": (crowd(9), {"beta": 3, "resend": 0.6}, {"beta": 3, "again": 0.6}),
}


def differs(scheme, name):
    flows, given, changes = CASES[name]
    _, *found = sent_by_the_switch(scheme, flows, given)
    *expected, net = modelled(flows, **changes)
    found = [[event for event in events if event[0] <= net.ended] for events in found]
    return len(expected[0]), found != expected


@pytest.mark.parametrize("name", CASES)
def test_every_packet_leaves_and_every_token_arrives_when_the_transcription_says(name):
    count, other = differs("dcpim", name)
    assert count > 100 and not other


def test_the_cases_have_channels_that_are_refused_and_flows_that_are_asked_for_again():
    refused, repeats = 0, 0
    for flows, _, changes in CASES.values():
        *_, net = modelled(flows, **changes)
        refused, repeats = refused + net.refused, repeats + net.repeats
    assert refused > 0 and repeats > 5


MISTAKES = {
    "grants what is used": ("free = dcpim.k - here.given", "free = 1 * dcpim.k"),
    "grants of an older round": (".number + 1 == here.round", ".number + 2 >= here.round"),
    "late requests": ("    if node.now > due:\n        return\n", "    due = max(due, node.now)\n"),
    "never refuses": ("    if here.giving == epoch + 1:\n", "    if here.giving < 0:\n"),
    "refusals are ignored": ("max(channel.links - frame.links, 0)", "channel.links"),
    "the longest first": ("key = offer.left", "key = -offer.left"),
    "random in the first round": ("number % dcpim.r < dcpim.min_rounds", "number % dcpim.r == dcpim.r"),
    "the same order in all rounds": ("hash31(node.id, number)", "node.id"),
    "asks for all": ("// fill - has, free)", "// fill, free)"),
    "asks again for what runs": (" + links_of(dcpim, node, epoch - 1, incoming.src)", ""),
    "all channels for one": ("(packets_of(dcpim, left) + fill - 1) // fill - has", "dcpim.k - has"),
    "tokens of a whole link": ("packet_time(dcpim, node) * dcpim.k // channel.links", "packet_time(dcpim, node)"),
    "the whole window": ("window = dcpim.most * channel.links // dcpim.k", "window = 1 * dcpim.most"),
    "no turns for short flows": ("here.hold -= 1", "here.hold = 0"),
    "the first flow, not the shortest": ("rank_incoming(node, incoming, left)", "rank_incoming(node, incoming, incoming.number)"),
    "a stale shortest flow": (
        "        if best == NO_INCOMING or not best.ranked or left <= best.rank:\n            peer.best = 0\n",
        "        pass\n",
    ),
    "tokens for ever": ("node.now > run.until", "node.now > NEVER"),
    "senders in the order of arrival": ("set_rank(node, flow, LATER + frame.left)", "set_rank(node, flow, LATER)"),
    "long before short": ("set_rank(node, flow, LATER + frame.left)", "set_rank(node, flow, frame.left)"),
    "one level": ("level += 1", "level += 0"),
    "short flows are not asked for again": (
        "node.now + mine.packets * packet_time(dcpim, node) + resend_time(dcpim, node)",
        "NEVER // 2",
    ),
    "from the first packet on": ("mine.next = missing_from(dcpim, incoming, 0)", "mine.next = 0"),
    "a row of old channels": ("        here.matched[row] = 0\n", ""),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found(tmp_path, mistake):
    file = planted(tmp_path, "dcpim", *MISTAKES[mistake])
    assert any(differs(file, name)[1] for name in CASES)


# ---- laws ----


@pytest.mark.parametrize("scheme", ["dcpim", "dcpim+spray"])
def test_a_lone_short_flow_takes_the_ideal_time_after_its_notification(scheme):
    """The frame is ahead on the first link only: it is shorter than the packets."""
    topo = network(spines=4)
    flows = flow_list(topo, [(i, 15 - i, size, f"{i}ms") for i, size in enumerate((100, 1000, 5500, 45_000))])
    run = simulate(topo, flows, parse(scheme))
    late = (run.flows["fct_ns"] - run.flows["ideal_fct_ns"]).to_numpy()
    assert late.round(3).tolist() == 4 * [FRAME * GAP / 1000]


def test_a_lone_long_flow_waits_for_its_epoch_and_has_the_line_then():
    """Heard of in an epoch of 4 x 5.2 us it is matched in this one; then a token comes in each packet time, 200 in all."""
    topo = star(hosts=2)
    period = 1.3 * CRTT
    flows = flow_list(topo, [(1, 0, 200_000, "1us"), (1, 0, 200_000, "1041us")])
    _, rows = traced(topo, flows, "dcpim", {"crtt": "4us"})
    way = 2 * (FRAME * GAP + US)
    tokens = [at for at, _, flow in tokens_of(rows) if flow == 0]
    assert tokens == [4 * period + way + i * WIRE * GAP for i in range(200)]
    later = [at for at, _, flow in tokens_of(rows) if flow == 1]
    epochs = (1_041_000_000 + way) // (4 * period) + 1
    assert later[0] == 4 * epochs * period + way and len(later) == 200


@pytest.mark.parametrize("k, r, most", [(1, 4, 2), (4, 4, 2), (4, 1, 4)])
def test_a_permutation_has_no_queue_but_what_begins_with_each_epoch(k, r, most):
    """Each receiver hears of one sender: their packets meet nobody's.  A channel's first token of an epoch comes with it."""
    topo = star(hosts=12)
    flows = flow_list(topo, [(i, (i + 1) % 12, 400_000, f"{i}us") for i in range(12)])
    run, rows = traced(topo, flows, "dcpim", {"k": k, "r": r})
    assert max(r.port_bytes for r in rows if r.kind == DATA) <= most * WIRE and run.summary["retransmissions"] == 0


@pytest.mark.parametrize("senders", [4, 16])
def test_an_incast_s_queue_is_a_packet_of_each_channel(senders):
    """Long flows to one receiver have its link in turn: no more than a packet of each channel meets at its port."""
    topo = star(hosts=senders + 1)
    flows = flow_list(topo, [(1 + i, 0, 300_000, f"{i}us") for i in range(senders)])
    run = simulate(topo, flows, parse("dcpim"))
    assert run.summary["max_buffer_bytes"] <= 5 * WIRE and run.summary["drops"] == 0
    busy = senders * 300 * WIRE * GAP / 1000
    assert busy < run.flows["finish_ns"].max() < 1.35 * busy + 60_000


def test_matching_finds_more_with_rounds_and_channels():
    """All to all among 16 hosts: one round leaves channels unused (authors' simulator: 54 % of the load, four rounds 80 %)."""
    topo = star(hosts=16)
    flows = flow_list(topo, [(i, (i + far) % 16, 100_000, "1us") for i in range(16) for far in range(1, 16)])
    ends = {}
    for r, k in ((1, 1), (1, 4), (4, 1), (4, 4)):
        settings = {"r": r, "k": k, "beta": 1.3 * 4 / r}  # epochs of one length
        ends[r, k] = simulate(topo, flows, parse("dcpim", settings)).flows["finish_ns"].max()
    assert ends[4, 4] < ends[4, 1] < ends[1, 1] and ends[4, 4] < ends[1, 4] < ends[1, 1]
    assert ends[1, 1] > 1.2 * ends[4, 4]


@pytest.mark.parametrize("size", [1, 1000, 9_500, 150_000])
def test_whatever_is_lost_is_sent_again(size):
    """Data, notifications, all messages of the matching, tokens, acknowledgements."""
    topo = network().with_loss(0.05)
    flows = flow_list(topo, [(i, (i + 5) % 16, size, f"{k * 7}us") for i in range(16) for k in range(4)])
    run = simulate(topo, flows, parse("dcpim"), host=HostConfig(rto="100us"), control_loss=0.05)
    assert run.summary["flows_finished"] == len(flows) and run.flows["retransmitted_bytes"].sum() > 0


def test_a_gap_costs_its_packet_alone():
    topo = star(hosts=2).with_loss(0.01)
    run, _ = traced(topo, flow_list(topo, [(1, 0, 1_000_000, "1us")]), "dcpim", host=HostConfig(rto="2ms"))
    lost = run.summary["drops"]
    assert lost > 5 and run.flows["retransmitted_bytes"].sum() <= 1.5 * lost * MTU


def test_a_sender_never_gives_more_channels_than_it_has():
    topo = leaf_spine(hosts=8, tors=2, spines=2)
    flows = flow_list(topo, [(i, j, 200_000, f"{i}us") for i in range(8) for j in range(8) if i != j])
    run = simulate(topo, flows, parse("dcpim", {"k": 3}), measure=Measure(sample="2us", records=True))
    given = run.frame("records").filter(name="dcpim.given")["value"]
    assert given.max() == 3 and run.summary["drops"] == 0


def test_any_number_of_threads_gives_the_same_results():
    check_threads("dcpim")
    check_threads("dcpim+spray", {"at_once": 1})


def test_bad_parameters_are_refused():
    check_bad("dcpim", {"k": 0}, "1..16")
    check_bad("dcpim", {"beta": 0}, "0.1..100")
    check_bad("dcpim", {"crtt": "2 apples"}, "2 apples")
