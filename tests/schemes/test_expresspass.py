"""ExpressPass against the transcription, packet by packet, and its laws."""

from collections import defaultdict
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from helpers import ACK, DATA, EVERYTHING, US, check_bad, check_threads, planted, rows_of
from paper import expresspass
from test_dqa import drawn

from penstock_net.composition import parse
from penstock_net.sim.config import HostConfig
from penstock_net.sim.simulate import simulate
from penstock_net.topology import fat_tree, leaf_spine, star
from penstock_net.workload import flow_list

MTU, WIRE, CREDIT = 1000, 1048, 64
LINE = 80  # ps per byte
SLOT = (WIRE + CREDIT) * LINE
EVEN = {"jitter": 0.0, "spread": 0}  # gaps and sizes that do not vary
KINDS = {DATA: "data", ACK: "ack"}


def run(topo, flows, parameters=None, **more):
    return simulate(topo, flow_list(topo, flows), parse("expresspass", parameters), measure=EVERYTHING, **more)


def kind_of(row):
    return KINDS.get(row.kind) or ("request", "credit", "stop", "nack")[row.flow - 3]


def departures(made, node):
    """What left a node's queues: time, port, kind, flow, offset, size.  ACKs have a lane of their own."""
    out = []
    for row in rows_of(made):
        if row.event == "dequeue" and row.node == node and row.kind != ACK:
            flow = row.flow if row.kind == DATA else row.offset
            out.append((row.at, row.port, kind_of(row), flow, row.offset, row.size))
    return sorted(out)


CODE = {**EVEN, "feedback": "code", "alpha": 0.5, "target": 0.125}


def crowd(seed, count=14, largest=90_000):
    """Flows of one packet to `largest` bytes, each from a host of its own, to two receivers within 40 us."""
    r = np.random.default_rng(seed)
    sizes = np.exp(r.uniform(np.log(900), np.log(largest), count)).astype(int).tolist()
    starts = np.sort(r.integers(0, 40_000_000, count)).tolist()
    return [(2 + i, i % 2, size, start) for i, (size, start) in enumerate(zip(sizes, starts))]


TRANSFERS = {  # preset, flows, what is not as in the preset
    "alone": ("", [(1, 0, 40_300, 1_000_000)], {**EVEN, "alpha": 1.0}),
    "slow start": ("", [(1, 0, 90_000, 0)], {**EVEN, "alpha": 1 / 16}),
    "two at one receiver": ("", [(1, 0, 200_000, 0), (2, 0, 200_000, 3_333_000)], {**EVEN, "alpha": 0.5}),
    "many": (
        "",
        [(src, 0, 60_000 + 100 * src, 1_000_000 + 12_345 * src) for src in range(1, 12)],
        {**EVEN, "alpha": 0.25, "credits": 4},
    ),
    "to two receivers": (
        "",
        [(src, src % 2, 80_000, 1_000_000 + 77_777 * src) for src in range(2, 12)],
        {**EVEN, "alpha": 0.5, "credits": 2},
    ),
    "of any size": ("", crowd(1), {}),
    "a wide spread": ("", crowd(4), {"jitter": 0.5, "spread": 41, "w_min": 0.05, "w_max": 0.3}),
    "printed, many": (
        "",
        [(src, 0, 60_000 + 100 * src, 1_000_000 + 12_345 * src) for src in range(1, 12)],
        {**EVEN, "alpha": 0.25, "credits": 4, "feedback": "printed"},
    ),
    "printed, of any size": ("", crowd(1), {"feedback": "printed"}),
    "code, two": ("", [(1, 0, 300_000, 0), (2, 0, 300_000, 3_333_000)], CODE),
    "code, many": ("", [(src, src % 2, 60_000 + 100 * src, 1_000_000 + 12_345 * src) for src in range(2, 14)], CODE),
    "code, air": ("", crowd(4), {**CODE, "air": True, "w_max": 0.1}),
    "code, ecs": ("", crowd(7), {**CODE, "ecs": True}),
    "paper, both": ("", crowd(4), {**EVEN, "alpha": 0.5, "air": True, "ecs": True}),
    "both ways": ("", [(src, (src + 1) % 5, 40_000 + 700 * src, 100_000 * src) for src in range(16)], {"alpha": 0.5}),
    "slow senders": ("", [(src, src % 2, 60_000 + 700 * src, 100_000 * src) for src in range(2, 8)], {"alpha": 0.5}),
    "preset code": ("code", crowd(4, largest=300_000), {}),
    "preset bfc": ("bfc", crowd(21, largest=300_000), {}),
    "sizes that fill a queue": ("", [(src, src % 2, 80_000, 77_777 * src) for src in range(2, 14)], {"spread": 60, "alpha": 0.5}),
}
SLOWER = {3: 4 * LINE, 4: 3 * LINE, 7: 8 * LINE}  # ps per byte of hosts


def with_lines(topo, lines):
    """Other links for single hosts: ps per byte."""
    links = topo.links.copy()
    for host, line in lines.items():
        links["ps_per_byte"][links["a"] == host] = line
    return replace(topo, links=links)


def network(case):
    """The topology of a case, its flows, and its slower lines."""
    slower = SLOWER if case == "slow senders" else {}
    return with_lines(star(hosts=16), slower), TRANSFERS[case][1], slower


@cache
def transcribed(case):
    """What leaves the switch and when flows end, by the transcription; its switch and hosts."""
    preset, _, changes = TRANSFERS[case]
    topo, flows, slower = network(case)
    model, nodes = expresspass.transfer(flows, 16, {**expresspass.PRESETS[preset], **changes}, drawn, topo.base_rtt_ps(), slower)
    end = max(host.sender.acknowledged for host in nodes if host.sender)  # credits that are left are of no use then
    finished = {flow: at for host in nodes for flow, at in host.finished.items()}
    return (sorted(row for row in model.out if row[0] <= end), finished), (model, nodes)


def simulated(scheme, case):
    """What leaves the switch and when flows end, by a scheme."""
    preset, _, changes = TRANSFERS[case]
    topo, flows, _ = network(case)
    listed = flow_list(topo, [(src, dst, size, f"{start}ps") for src, dst, size, start in flows])
    named = parse(f"{scheme}:{preset}" if preset else scheme, changes)
    made = simulate(topo, listed, named, measure=EVERYTHING, max_time_ps=10**9)
    end = max((round(at * 1000) for at in made.flows["acked_ns"].drop_nulls()), default=0)  # as in `transcribed`
    left = [row for row in departures(made, 16) if row[0] <= end]
    return left, {flow: at and round(at * 1000) for flow, at in enumerate(made.flows["finish_ns"])}


@pytest.mark.parametrize("case", TRANSFERS)
def test_every_packet_of_a_switch(case):
    """The transcription is told how the dice fall, and nothing else of the run."""
    found, ended = simulated("expresspass", case)
    (expected, finished), (switch, nodes) = transcribed(case)
    for mine, theirs in zip(found, expected):
        assert mine == theirs
    assert len(found) == len(expected) and ended == finished
    assert sum(len(host.updates) for host in nodes) > 3 or case == "alone"
    assert sum(host.bucket.dropped for host in nodes) > 30 or len(ended) < 3
    assert (sum(bucket.dropped for bucket in switch.buckets) > 30) == (case == "slow senders")
    early = sum(host.sender.stopped > 0 for host in nodes if host.sender)
    anew = sum(flow.begun > 1 for host in nodes for flow in host.flows.values())
    assert (early > 3 and anew > 0) == (case in ("code, ecs", "paper, both", "preset code", "preset bfc"))


@pytest.mark.parametrize("preset", expresspass.PRESETS)
def test_the_presets(preset):
    values = {"drop": 0, **expresspass.PRESETS[preset]}  # the transcription is given how the dice fall
    values["feedback"] = ["came", "code", "printed"].index(values["feedback"])
    control = values.pop("control")
    named = parse(f"expresspass:{preset}" if preset else "expresspass")
    found = named.values("expresspass")
    assert {**found, "request_size": max(found["request_size"], control)} == values
    assert dict(named.host).get("control", 64) == control


MISTAKES = {
    "no target for losses": ("    if loss > target:\n", "    if loss > 0.0:\n"),
    "the target does not fall": ("        target *= 1.0 - mine.rate\n", ""),
    "the other cut": ("expresspass.feedback == PRINTED:", "expresspass.feedback != PRINTED:"),
    "cut below the target": ("mine.rate * (1.0 - loss) * (1.0 + target)", "mine.rate * (1.0 - loss)"),
    "a cut that raises": ("mine.rate = min(mine.rate, came * (1.0 + target))", "mine.rate = came * (1.0 + target)"),
    "w is not halved": ("mine.w = max(mine.w / 2.0, expresspass.w_min)", "mine.w = max(mine.w, expresspass.w_min)"),
    "w rises at once": ("        if mine.raised:\n", "        if mine.w > 0.0:\n"),
    "w of the other rule": ("if expresspass.feedback == CODE else (mine.w", "if expresspass.feedback != CODE else (mine.w"),
    "rates beyond the maximum": ("        most = 1.0\n", ""),
    "no least rate": ("min(max(mine.rate, slot / mine.rtt), most)", "min(mine.rate, most)"),
    "feedback at every credit": ("node.now - mine.updated >= mine.rtt:", "node.now >= mine.updated:"),
    "a credit too many": (
        "    return queue_at(port, CREDITS).bytes + size <= kept",
        "    return queue_at(port, CREDITS).bytes <= kept",
    ),
    "a queue in packets": (
        "    return queue_at(port, CREDITS).bytes + size <= kept_bytes(expresspass)",
        "    return queue_at(port, CREDITS).length < expresspass.credits",
    ),
    "no limit at NICs": ("    if has_room(expresspass, port, size):\n", "    if size > 0:\n"),
    "no limit at ports": ("    if not has_room(expresspass, port, pkt.size):\n", "    if pkt.size < 0:\n"),
    "begins again as at first": ("mine.packets - incoming.expected // expresspass.at.world.mtu", "mine.packets"),
    "begins again slowly": ("mine.packets - incoming.expected // expresspass.at.world.mtu", "1"),
    "small requests": ("    frame.size = max(frame.size, expresspass.request_size)\n", "", 2),
    "credits of the default size": ('"host.control": 76', '"host.control": 64', 2),
    "a deeper bucket": ("2 * whole_slot", "3 * whole_slot"),
    "hosts do not shape": ("if mine.tokens >= cost:", "if mine.tokens >= cost or node.is_host:"),
    "the share of credits": ("+ expresspass.at.world.quantum)", ")"),
    "the size does not count": ("credits.head.size * whole_slot // mean_credit(expresspass)", "whole_slot"),
    "data first": (
        "    if credits.length > 0:\n        cost",
        "    if credits.length > 0 and queue_at(port, OTHERS).length == 0:\n        cost",
    ),
    "jitter to one side": ("/ 1073741824.0 - 1.0", "/ 2147483648.0"),
    "sizes that do not vary": ("expresspass.spread > 0", "expresspass.spread < 0"),
    "no STOP": ("    if flow.sent == flow.size and not mine.stopped:\n", "    if flow.sent > flow.size:\n"),
    "a receiver goes on": ("    mine.state = STOPPED\n", "    if mine.state == ACTIVE:\n        return\n"),
    "credits of all RTTs": ("        mine.used = 0\n", ""),
    "air for longer flows": ("AIR_PACKETS = 40", "AIR_PACKETS = 50"),
    "target of the preset": ('"target": 0.125', '"target": 0.1', 2),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found(tmp_path, mistake):
    file = planted(tmp_path, "expresspass", *MISTAKES[mistake])
    assert any(simulated(file, case) != transcribed(case)[0] for case in reversed(TRANSFERS))


# ---- laws ----


def test_the_dialogue_of_one_flow():
    """10 Gbit/s, 1 us, one switch: a request, credits 889.6 ns apart, and the packets that they call."""
    topo = star(hosts=2, rate="10Gbps", delay="1us")
    made = run(topo, [[1, 0, 50_000, "0us"]], {**EVEN, "alpha": 1.0, "feedback": "code"})
    small, large = (2 * (size * 800 + 1 * US) for size in (CREDIT, WIRE))
    assert small == 2_102_400 and large == 3_676_800
    came = [row.at for row in rows_of(made) if row.kind > 1 and row.event == "receive" and row.node == 1]
    assert came[:3] == [2 * small, 2 * small + 889_600, 2 * small + 2 * 889_600]
    assert round(made.flows["finish_ns"].item() * 1000) == 2 * small + large + 49 * 889_600


@pytest.mark.parametrize("alpha, wasted", ((1.0, 46), (0.5, 23), (0.25, 11), (0.125, 5)))
def test_credits_wasted_by_a_flow_of_one_packet(alpha, wasted):
    """Those sent in the round trip of the first one: alpha RTT / gap."""
    topo = star(hosts=2)
    made = run(topo, [[1, 0, 1000, "0us"]], {**EVEN, "alpha": alpha})
    credits = sum(row.kind > 1 and row.event == "dequeue" and row.node == 0 and kind_of(row) == "credit" for row in rows_of(made))
    rtt = 2 * (CREDIT * LINE + US) + 2 * (WIRE * LINE + US)
    assert credits - 1 == int(alpha * rtt / SLOT) == wasted


@pytest.mark.parametrize("preset", ("", ":code", ":bfc"))
def test_no_data_is_lost_and_credits_are_limited(preset):
    """In an incast of 15 with two packets of buffer a port; credits in any time no more than two and their share of the link."""
    topo = star(hosts=16, buffer="40KB")
    flows = flow_list(topo, [[src, 0, 150_000, "1us"] for src in range(1, 16)])
    made = simulate(topo, flows, parse("expresspass" + preset), measure=EVERYTHING)
    assert made.summary["flows_finished"] == 15 and made.summary["retransmissions"] == 0
    rows = rows_of(made)
    assert not any(row.event == "drop" and row.kind == DATA for row in rows)
    least, mean, most = (76, 84, 92) if preset else (64, 68, 72)
    credits = defaultdict(list)
    for row in rows:
        if row.event == "dequeue" and row.kind > 1 and kind_of(row) == "credit":
            credits[row.node, row.port].append((row.at, row.size))
    for sent in credits.values():
        bytes_sent = 0
        begin = sent[0][0]
        for at, size in sent:
            bytes_sent += size
            assert bytes_sent <= 2 * mean + most + (at - begin) * mean / (mean + WIRE) / LINE
    queue = max(row.queue_bytes for row in rows if row.event == "enqueue" and row.queue == 0)
    kept = (16 if preset == ":bfc" else 8) * mean
    assert kept - least < queue <= kept


@pytest.mark.parametrize("feedback, longest", (("code", 1.1), ("came", 1.1), ("printed", 1.25)))
def test_flows_share_a_link(feedback, longest):
    """A rate that is cut twice for one excess, since losses are seen an RTT late, leaves a fifth of the link unused."""
    topo = star(hosts=5)
    made = run(topo, [[src, 0, 2_000_000, "0us"] for src in range(1, 5)], {"feedback": feedback})
    took = made.flows["fct_ns"]
    ideal = 4 * 2_000 * (WIRE + 68) * LINE / 1000
    assert took.max() < longest * ideal and took.min() > 0.7 * ideal
    assert made.ports["max_queue_bytes"].max() < 4 * WIRE


def test_convergence_takes_a_few_round_trips():
    """A second flow has its share of a link after six of them (section 6.1)."""
    topo = star(hosts=3, delay="5us")
    made = run(topo, [[1, 0, 4_000_000, "0us"], [2, 0, 4_000_000, "150us"]], {"feedback": "code", "alpha": 0.5})
    rtt = 2 * (CREDIT * LINE + 5 * US) + 2 * (WIRE * LINE + 5 * US)
    came = [row.at for row in rows_of(made) if row.flow == 1 and row.kind == DATA and row.event == "dequeue" and row.node == 3]
    share = [sum(150 * US + k * rtt <= at < 150 * US + (k + 1) * rtt for at in came) * SLOT / rtt for k in range(12)]
    assert share[0] < 0.3
    assert all(0.3 < s < 0.7 for s in share[6:]), share


def test_the_additions_of_the_authors_code_save_credits():
    """Flows of a few packets: fewer credits for each."""
    topo = star(hosts=16)
    flows = [[src, (src + 1) % 16, 3_000, f"{src}us"] for src in range(16)]

    def credits(parameters):
        made = run(topo, flows, {**EVEN, "alpha": 0.5, **parameters})
        assert made.summary["flows_finished"] == 16
        return sum(row.kind > 1 and row.event == "receive" and kind_of(row) == "credit" for row in rows_of(made))

    plain, air, ecs, both = (credits(p) for p in ({}, {"air": True}, {"ecs": True}, {"air": True, "ecs": True}))
    assert air < plain / 2 and ecs <= plain and both <= air


def test_paths_are_symmetric():
    topo = fat_tree(k=4)
    made = run(topo, [[src, (src + 7) % 16, 30_000, f"{src}us"] for src in range(16)])
    links = defaultdict(set)
    for row in rows_of(made):
        if row.node >= 16 and row.event == "dequeue" and (row.kind == DATA or kind_of(row) == "credit"):
            flow = row.flow if row.kind == DATA else row.offset
            links[flow, row.kind == DATA].add(row.node)
    assert all(links[flow, True] == links[flow, False] for flow in range(16))


@pytest.mark.parametrize("loss", (0.002, 0.02))
def test_what_links_lose_is_sent_again(loss):
    topo = leaf_spine(hosts=16, tors=4, spines=2).with_loss(loss)
    made = run(topo, [[src, 0, 60_000, "1us"] for src in range(4, 16)], host=HostConfig(rto="200us"))
    assert made.summary["flows_finished"] == 12 and made.summary["retransmissions"] > 0
    assert made.flows["finish_ns"].max() < 25 * 200_000  # timeouts do not back off


def test_a_request_that_is_lost_is_repeated():
    """Its flow waits for permission to send: nothing of it is unacknowledged."""
    topo = star(hosts=2).with_loss(0.3)
    made = run(topo, [[1, 0, 500, f"{200 * k}us"] for k in range(20)], host=HostConfig(rto="40us"))
    rows = [row for row in rows_of(made) if row.kind > 1 and kind_of(row) == "request"]
    heard = {row.offset for row in rows if row.event == "receive"}
    lost = {row.offset for row in rows if row.event == "drop"}
    assert made.summary["flows_finished"] == 20 and len(lost) > 5 and lost <= heard


def longest(name="expresspass"):
    """The longest data queue of each kind of port, bytes, of random flows and of a far sender that a near one relieves."""
    topo = leaf_spine(hosts=12, tors=3, spines=2, uplink_delay="5us", buffer="0B")
    r = np.random.default_rng(1)
    flows = [(4, 0, 400_000, "0us"), (1, 0, 400_000, "30us")]  # 40 us of data: half of it is on its way when the near one begins
    pairs = zip(r.integers(1, 12, 60).tolist(), r.integers(1, 11, 60).tolist(), r.integers(1, 90_000, 60).tolist())
    flows += [(src, 1 + (src - 1 + step) % 11, size, f"{200 + 2 * k}us") for k, (src, step, size) in enumerate(pairs)]
    flows += [(4 + k % 4, 8 + k % 4, 60_000, "500us") for k in range(8)]  # the link up from a rack
    made = simulate(topo, flow_list(topo, flows), parse(name, {**EVEN, "alpha": 1.0}), measure=EVERYTHING)
    found = defaultdict(int)
    for row in made.ports.filter(pl.col("node") >= 12).iter_rows(named=True):
        kind = "spine" if row["node"] >= 15 else "up" if row["peer"] >= 15 else "down"
        found[kind] = max(found[kind], row["max_queue_bytes"])
    return found, made


def test_no_queue_is_longer_than_its_bound():
    """Section 3.1: the spread of the delays from a credit to its data. Data from far away meet those of a near sender."""
    bound = expresspass.bounds(LINE, US, 5 * US)
    found, made = longest()
    assert made.summary["flows_finished"] == len(made.flows)
    assert all(found[kind] <= bound[kind] for kind in bound), (found, bound)
    assert found["down"] > 0.25 * bound["down"]


def test_without_limits_of_credits_a_queue_exceeds_its_bound(tmp_path):
    right, wrong = "        if mine.tokens >= cost:\n", "        if mine.tokens >= cost or not node.is_host:\n"
    file = planted(tmp_path, "expresspass", right, wrong)
    bound = expresspass.bounds(LINE, US, 5 * US)
    found, _ = longest(file)
    assert any(found[kind] > bound[kind] for kind in bound), (found, bound)


def test_every_packet_answers_a_credit():
    """Also after a gap, when the sender goes back: before the end, when it says STOP, no credit is wasted."""
    topo = star(hosts=2).with_loss(0.01)
    made = run(topo, [[1, 0, 400_000, "0us"]], host=HostConfig(rto="1ms"))
    rows = rows_of(made)
    at_switch = [row for row in rows if row.node == 2 and row.kind == DATA and row.event in ("enqueue", "drop")]
    end = next(i for i, row in enumerate(at_switch) if row.offset == 399_000)
    sent = [row.at - US - row.size * LINE for row in at_switch[:end]]
    credits = [row.at for row in rows if row.node == 1 and row.kind > 1 and kind_of(row) == "credit" and row.event == "receive"]
    assert any(a.offset > b.offset for a, b in pairwise(at_switch[:end]))  # it has gone back
    assert all(sum(at <= now for at in credits) == k + 1 for k, now in enumerate(sent))


def test_any_number_of_threads_gives_the_same_results():
    check_threads("expresspass")
    check_threads("expresspass:code")


def test_bad_parameters_are_refused():
    check_bad("expresspass", {"alpha": 0}, "0.0001..1")
    check_bad("expresspass", {"feedback": "other"}, "came, code, printed")
    check_bad("expresspass", {"credits": 0}, "1..10000")
