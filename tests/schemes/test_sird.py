"""SIRD packet by packet and credit by credit against the transcription, its laws, and what it does about losses."""

import numpy as np
import polars as pl
import pytest
from helpers import CONTROL, DATA, US, check_alone, check_bad, check_threads, network, planted, traced
from hypothesis import given
from hypothesis import strategies as st
from paper import sird

from penstock_net.composition import parse
from penstock_net.sim.config import HostConfig, Measure
from penstock_net.sim.simulate import simulate
from penstock_net.topology import leaf_spine, star
from penstock_net.workload import flow_list

MTU, WIRE, GAP = 1000, 1048, 80
CREDIT = 4  # command of frames
SMALL = {"bdp": "40KB"}  # of 54 KB of the star
MODEL = {"B": 60_000, "bucket": 40_000, "UnschT": 40_000, "NThr": 50_000, "SThr": 20_000}


def crowd(seed, hosts=7, count=30, largest=120_000, receivers=2):
    """Messages of all sizes within 30 us to some receivers, some from the same sender: (src, dst, bytes, start in ns)."""
    r = np.random.default_rng(seed)
    sizes = np.exp(r.uniform(0, np.log(largest), count)).astype(int) + 1
    sizes[::3] = -(-sizes[::3] // MTU) * MTU
    starts = np.sort(r.choice(30_000, count, replace=False))
    flows = []
    for size, start in zip(sizes.tolist(), starts.tolist()):
        dst = int(r.integers(0, receivers))
        src = int(r.choice([host for host in range(hosts) if host != dst]))
        flows.append((src, dst, size, start))
    return flows


def sent_by_the_switch(scheme, flows, parameters, hosts=7):
    topo = star(hosts=hosts)
    listed = flow_list(topo, [(src, dst, size, f"{start}ns") for src, dst, size, start in flows])
    run, rows = traced(topo, listed, scheme, parameters)
    data = [(r.at, r.port, r.flow, r.offset, r.size) for r in rows if r.kind == DATA and r.event == "dequeue"]
    return run, sorted(data), sorted(credits_of(rows))


def credits_of(rows):
    """(time, sender, message) of each credit that arrives."""
    return [(r.at, r.node, r.offset) for r in rows if r.kind >= CONTROL and r.event == "receive" and r.flow == CREDIT]


def modelled(flows, hosts=7, **changes):
    in_ps = [(src, dst, size, 1000 * start) for src, dst, size, start in flows]
    data, credits = sird.run(hosts, in_ps, **{**MODEL, **changes})
    return sorted(data), sorted(credits)


# ---- packet by packet ----


def few_receivers(case):
    """Long messages of two senders to four receivers, which give them more credit than they can use."""
    return [(src, 2 + dst, 150_000 + 7_001 * dst + 500 * src, 100 * dst + src + case) for dst in range(4) for src in (0, 1)]


CASES = {
    **{f"crowd {i}": (crowd(i), {}, {}) for i in range(3)},
    "everybody": (crowd(7, count=60, receivers=7, largest=300_000), {}, {}),
    "pressed senders": (few_receivers(0), {}, {}),
    "marks": (crowd(11, count=60, largest=40_000), {"n_thr": 0.3}, {"NThr": 12_000}),
    "little credit": (crowd(5), {"budget": 0.5, "bucket": 0.2, "s_thr": 0.05}, {"B": 20_000, "bucket": 8_000, "SThr": 2_000}),
    "all ask": (crowd(3), {"unsch": 0}, {"UnschT": 0}),
    "nobody asks": (crowd(4, largest=200_000), {"unsch": 20}, {"UnschT": 800_000}),
    "fair": (few_receivers(5), {"fair": 1}, {"fair": 1.0}),
    "shortest": (few_receivers(9), {"fair": 0.05, "g": 0.5, "s_min": 0.01}, {"fair": 0.05, "g": 0.5, "host_floor": 0.01}),
    "floors": (few_receivers(2), {"s_thr": 0, "g": 1, "s_min": 0.2}, {"SThr": 0, "g": 1.0, "host_floor": 0.2}),
    "both loops": (
        sorted([*few_receivers(1), *crowd(6, count=150, largest=9_000, receivers=6)], key=lambda flow: flow[3]),
        {"n_thr": 0.1, "s_thr": 0.1, "g": 0.5},
        {"NThr": 4_000, "SThr": 4_000, "g": 0.5},
    ),
    "as the simulator": (few_receivers(3), {"always_adds": True}, {"always": True}),
}


def differs(scheme, name):
    flows, given, changes = CASES[name]
    run, *found = sent_by_the_switch(scheme, flows, {**SMALL, **given})
    expected = modelled(flows, **changes)
    return run, len(expected[0]), tuple(found) != expected


@pytest.mark.parametrize("name", CASES)
def test_every_packet_leaves_and_every_credit_arrives_when_the_transcription_says(name):
    run, count, other = differs("sird", name)
    assert count > 100 and not other
    assert run.summary["retransmissions"] == 0


MISTAKES = {
    "order of messages": ("rank_incoming(node, incoming, mine.size - inc", "rank_incoming(node, incoming, mine.size + inc"),
    "a packet above the budget": ("here.out + bytes > sird.most", "here.out > sird.most"),
    "no bucket": ("if sender.out + bytes <= sird.each and", "if"),
    "a packet below the limit": ("sender.out <= sender.limit:", "sender.out + bytes <= sender.limit:"),
    "marks, not their share": ("loop.marked / packets", "loop.marked"),
    "cuts by the whole ratio": ("loop.ratio / 2.0", "loop.ratio"),
    "cuts each limit": ("whole(1.5 * limit / packet)", "whole(limit / packet)"),
    "marks when alone": ("here.messages > 1 and", ""),
    "marks of the sender by one receiver's credit": (
        "and here.unused > sird.idle",
        "and here.unused_of[flow.dst] > sird.idle",
    ),
    "adds as at first": ("packet * packet / limit", "packet * packet / sird.each"),
    "pace by payload": ("whole(bytes * inbound", "whole(payload * inbound"),
    "what is sent unasked costs no credit": ("    here.out += wire_bytes(sird, blind)\n", ""),
    "nor the sender's": ("    senders_at(here, incoming.src).out += wire_bytes(sird, blind)\n", ""),
    "unasked last": ("FIRST if sird.unsch_first", "SECOND if sird.unsch_first"),
    "everybody's share": ("sird.fair / here.ready", "sird.fair"),
    "the longest first": ("left < here.fewest", "left > here.fewest"),
    "late turns": ("max(mine.turn, here.now_served)", "mine.turn"),
    "one queue": ("port.bytes > sird.queue", "queue.bytes > sird.queue"),
    "no room kept": ("(sird.each - here.unused_of[flow.dst])", "sird.each"),
    "one floor": ("sender.limit, sird.s_min)", "sender.limit, sird.n_min)"),
    "the larger limit": ("min(by_switches.limit, by_sender.limit)", "max(by_switches.limit, by_sender.limit)"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found(tmp_path, mistake):
    file = planted(tmp_path, "sird", *MISTAKES[mistake])
    assert any(differs(file, name)[2] for name in CASES)


# ---- laws ----

HANDSHAKE = 2 * (64 * GAP + US) / 1000  # ns for each link: a request there and a credit back


def test_a_lone_message_takes_the_ideal_time_if_it_is_short():
    check_alone("sird", sizes=(1, 1000, 5500, 60_000))
    check_alone("sird+spray", sizes=(1, 1000, 5500, 60_000))
    check_alone("sird", {"unsch": 1000})


@pytest.mark.parametrize("scheme", ["sird", "sird+spray"])
def test_a_lone_long_message_takes_the_ideal_time_after_request_and_credit(scheme):
    """One sender has as much credit as fills its link: a bucket is a bandwidth-delay product and a packet."""
    topo = network(spines=4)
    pairs = [(0, 1, 2), (0, 5, 4), (9, 14, 4)]
    flows = flow_list(topo, [(src, dst, 1_000_000 + 300 * i, f"{i}ms") for i, (src, dst, _) in enumerate(pairs)])
    run = simulate(topo, flows, parse(scheme))
    late = (run.flows["fct_ns"] - run.flows["ideal_fct_ns"]).to_numpy()
    assert late.round(3).tolist() == [round(links * HANDSHAKE, 3) for *_, links in pairs]


def test_the_time_of_the_first_credit_and_of_all_others():
    """A request takes two links, as does a credit; then there is one in each packet time, 41 of 40.5 KB."""
    topo = star(hosts=2)
    _, rows = traced(topo, flow_list(topo, [(1, 0, 40_500, "0us")]), "sird", {"unsch": 0})
    first = 4 * (64 * GAP + US)
    assert credits_of(rows) == [(first + i * WIRE * GAP, 1, 0) for i in range(41)]


def with_senders(rows, flows):
    """Over time: packets of credit, by (receiver, sender), that have reached the sender and whose data has not arrived."""
    src, dst = flows.src.tolist(), flows.dst.tolist()
    events = [(at, dst[flow], src[flow], 1) for at, _, flow in credits_of(rows)]
    for r in rows:
        if r.event == "dequeue" and r.kind == DATA:
            events.append((r.at + r.size * GAP + US, dst[r.flow], src[r.flow], -1))
    out = {}
    for _, receiver, sender, change in sorted(events, key=lambda event: (event[0], event[3])):
        out[receiver, sender] = out.get((receiver, sender), 0) + change
        yield out


@pytest.mark.parametrize("budget, bucket", [(1.5, 1.0), (0.8, 0.3), (3.0, 1.0), (0.1, 1.0)])
def test_credit_is_at_most_the_budget_and_the_bucket(budget, bucket):
    """All messages ask, of twelve senders to two receivers: credit of a receiver is at most B, with one sender its bucket."""
    topo = star(hosts=14)
    flows = flow_list(topo, [(2 + i % 12, i // 2 % 2, 200_000, f"{i}us") for i in range(24)])
    settings = {**SMALL, "unsch": 0, "budget": budget, "bucket": bucket}
    _, rows = traced(topo, flows, "sird", settings)
    most = each = 0
    for out in with_senders(rows, flows):
        most = max(most, *(sum(n for (receiver, _), n in out.items() if receiver == r) for r in (0, 1)))
        each = max(each, *out.values())
    assert most <= budget * 40_000 / WIRE and each <= bucket * 40_000 / WIRE
    run = simulate(topo, flows, parse("sird", settings), measure=RECORDS)
    largest = record_of(run, "out").max()
    assert 0.95 * min(budget * 40_000, 50_000) - WIRE <= largest <= max(budget * 40_000, WIRE)  # a loop is of 50 KB


RECORDS = Measure(sample="0.1us", records=True)


def record_of(run, name):
    return run.frame("records").filter(name=f"sird.{name}")["value"]


def check_conservation(run):
    """All credit has come back, at receivers and senders."""
    frame = run.frame("records")
    assert (frame["value"] >= 0).all()
    last = frame.sort("time_ns").group_by("name", "node").last()
    assert set(last["name"]) <= {"sird.out", "sird.unused"} and last["value"].to_list() == [0] * len(last)


@pytest.mark.parametrize("senders, ahead", [(2, 0), (2, 1), (8, 0), (8, 0.2), (16, 0)])
def test_the_downlink_s_queue_is_what_the_budget_has_beyond_the_loop(senders, ahead):
    """Long messages, and one of each sender that goes unasked: B - BDP + these bytes, and a packet of each sender."""
    topo = star(hosts=senders + 1)
    flows = flow_list(topo, [(1 + i, 0, size, f"{k * 20}us") for i in range(senders) for k, size in enumerate((800_000, 8_000))])
    run, rows = traced(topo, flows, "sird", {**SMALL, "bdp": "60KB", "unsch": ahead})
    unasked = 0 if ahead == 0 else senders * 8 * WIRE
    longest = max(r.port_bytes for r in rows if r.port == 0)
    assert longest <= 90_000 - 50_000 + unasked + senders * WIRE
    assert run.flows["fct_ns"].max() < senders * 808_000 * WIRE / MTU * GAP / 1000 + 25_000 + 12_000


def congested_senders(parameters):
    """Three senders to each of four receivers, and one to the first alone: its Gbit/s, and unused credit of one of the three."""
    topo = star(hosts=8)
    flows = flow_list(topo, [*((src, 4 + i, "3MB", "0us") for src in range(3) for i in range(4)), (3, 4, "3MB", "1us")])
    run = simulate(topo, flows, parse("sird", parameters), measure=Measure(sample="1us", records=True))
    unused = run.frame("records").filter(name="sird.unused", node=0).filter(pl.col("time_ns").is_between(200_000, 900_000))
    return 8 * 3e6 / run.flows["fct_ns"][-1], unused["value"].median()


def test_receivers_learn_that_senders_are_busy():
    """Without marks of senders B is with the three, as much as each bucket takes; with them they have what they may unmarked."""
    free, little = congested_senders({"bdp": "60KB"})
    held, much = congested_senders({"bdp": "60KB", "s_thr": 1000})
    assert little <= 30_000 < 50_000 < much
    assert free > 1.6 * held


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(1, 5), st.integers(1, 90_000), st.integers(0, 40)), min_size=1, max_size=24
    ),
    st.sampled_from(
        [{}, {"unsch": 0}, {"budget": 0.3, "bucket": 0.1}, {"fair": 1, "always_adds": True}, {"n_thr": 0, "s_thr": 0}]
    ),
)
def test_whatever_is_sent_all_of_it_arrives_once_and_all_credit_comes_back(messages, settings):
    topo = leaf_spine(hosts=6, tors=3, spines=2)
    listed = [(src, (src + far) % 6, size, f"{at}us") for src, far, size, at in messages]
    flows = flow_list(topo, listed)
    run = simulate(topo, flows, parse("sird", {**SMALL, **settings}), measure=RECORDS)
    assert run.summary["flows_finished"] == len(listed) and run.summary["drops"] == run.summary["retransmissions"] == 0
    check_conservation(run)
    unasked = sum(sird.wire(size) for _, _, size, _ in listed if sird.wire(size) <= settings.get("unsch", 1) * 40_000)
    most = max(settings.get("budget", 1.5) * 40_000, WIRE)
    assert run.summary["max_buffer_bytes"] <= 6 * most + unasked


def test_half_of_the_line_is_for_the_shortest():
    """Of five long messages the shortest has 1/2 + 1/10 of the line, with fair = 1 a fifth, and with 0.01 all."""
    topo = star(hosts=6)
    flows = flow_list(topo, [(0, 1 + i, 800_000 + 1000 * i, "1us") for i in range(5)])
    for fair, share in ((0.5, 0.6), (1, 0.2)):
        run = simulate(topo, flows, parse("sird", {"unsch": 1000, "bucket": 1000, "fair": fair}))
        assert run.flows["fct_ns"][0] == pytest.approx(800 * WIRE * GAP / 1000 / share, rel=0.05)
    only = simulate(topo, flows, parse("sird", {"unsch": 1000, "bucket": 1000, "fair": 0.01}))
    assert only.flows.sort("finish_ns")["bytes"].is_sorted()


# ---- losses ----


@pytest.mark.parametrize("size", [1, 1000, 9_500, 150_000])
def test_whatever_is_lost_is_sent_again(size):
    """Data, requests, credit, acknowledgements; of messages of one packet, all that a receiver might know of them."""
    topo = network().with_loss(0.05)
    flows = flow_list(topo, [(i, (i + 5) % 16, size, f"{k * 7}us") for i in range(16) for k in range(6)])
    settings = {"resend": "50us", **SMALL}
    run = simulate(topo, flows, parse("sird", settings), measure=RECORDS, host=HostConfig(rto="100us"), control_loss=0.05)
    assert run.summary["flows_finished"] == len(flows) and run.flows["retransmitted_bytes"].sum() > 0
    check_conservation(run)


def test_a_gap_costs_its_packet_alone():
    topo = star(hosts=2).with_loss(0.01)
    run, _ = traced(topo, flow_list(topo, [(1, 0, 1_000_000, "1us")]), "sird", {"resend": "50us"}, host=HostConfig(rto="400us"))
    lost = run.summary["drops"]
    assert lost > 5 and run.flows["retransmitted_bytes"].sum() <= 1.5 * lost * MTU


def test_a_sender_that_is_busy_with_others_is_not_asked_again():
    """Of twenty long messages to as many receivers the last has credit, and its line little time for it, for 20 ms."""
    topo = star(hosts=21)
    flows = flow_list(topo, [(0, 1 + i, 2_000_000 + i, "1us") for i in range(20)])
    run = simulate(topo, flows, parse("sird"), host=HostConfig(rto="100us"))
    assert run.summary["flows_finished"] == 20 and run.summary["retransmissions"] == 0


# ---- the rest ----


def test_any_number_of_threads_gives_the_same_results():
    check_threads("sird", SMALL)
    check_threads("sird+spray", {"unsch": 0})


def test_bad_parameters_are_refused():
    check_bad("sird", {"budget": 0}, "0.01..1000")
    check_bad("sird", {"fair": 0}, "0.01..1")
    check_bad("sird", {"bdp": "2 apples"}, "2 apples")


def test_the_simulator_s_preset_counts_in_its_bdp():
    """82 packets of 1538 B are 1.25 BDP, 33 are half of one."""
    given = parse("sird:simulator").values("sird")
    assert (given["bdp"], given["always_adds"]) == (100_000, True)
    packets = [given[name] * 100_000 / 1538 for name in ("n_thr", "s_thr")]
    assert packets == pytest.approx([82, 33], rel=0.02)
