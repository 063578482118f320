"""NDP against the transcription, packet by packet, and its laws."""

from collections import Counter, defaultdict, deque
from itertools import pairwise

import polars as pl
import pytest
from helpers import ACK, DATA, EVERYTHING, check_bad, check_threads, planted, rows_of
from paper import ndp
from test_dqa import drawn

from penstock_net.composition import parse
from penstock_net.sim.config import HostConfig
from penstock_net.sim.simulate import simulate
from penstock_net.topology import fat_tree, leaf_spine, star
from penstock_net.workload import flow_list

MTU, WIRE, HEADER, ANSWER = 1000, 1048, 64, 60
LINE = 80  # ps per byte
DELAY = 1_000_000
LATE = HostConfig(rto="50ms", ack_priority="data")  # a timeout would be a packet too many


def run(topo, flows, parameters=None, scheme="ndp", **more):
    return simulate(topo, flow_list(topo, flows), parse(scheme, parameters), measure=EVERYTHING, **{"host": LATE, **more})


def departures(topo, made):
    """What left the switch of a star: time, port, kind, flow, offset, size."""
    out = []
    for row in rows_of(made):
        if row.event == "dequeue" and row.node == topo.hosts:
            kind = {0: "data", 1: "answer"}.get(row.kind, "pull")
            flow, offset = (row.offset, row.offset) if kind == "pull" else (row.flow, row.offset)
            out.append((row.at, row.port, kind, flow, offset, row.size))
    return sorted(out)


INCASTS = {
    "one packet": ([(src, 0, 1000, "1us") for src in range(1, 13)], {"iw": 1}),
    "of short flows": ([(src, 0, 9_500, "1us") for src in range(1, 16)], {"iw": 10}),
    "of long flows": ([(src, 0, 120_000 + 700 * src, f"{1000 + 37 * src}ns") for src in range(1, 9)], {"iw": 30}),
    "sent back": ([(src, 0, 40_000, "1us") for src in range(1, 16)], {"iw": 40, "depth": 2, "weight": 2}),
    "to two": ([(src, src % 2, 60_000, f"{1000 + 211 * src}ns") for src in range(2, 12)], {"iw": 20}),
    "sent back later": (  # than a dozen of answers
        [(src, 0, 60_000, f"{1000 + 300 * src}ns") for src in range(1, 11)],
        {"iw": 40, "depth": 3, "weight": 1},
    ),
    "sent back again": (  # when all other packets of a flow have been pulled
        [(src, 0, 1000 + 1000 * (src % 3), "1us") for src in range(1, 4)] + [(src, 0, 20_000, "4100ns") for src in range(4, 16)],
        {"iw": 40, "depth": 2, "weight": 1},
    ),
}


def compared(scheme, case):
    """What left the switch, its counts, bytes sent again and when flows ended: of a scheme, and of the transcription."""
    flows, parameters = INCASTS[case]
    topo = star(hosts=16)
    made = run(topo, flows, parameters, scheme, max_time_ps=10**10)
    coin = drawn(topo.hosts)
    model, nodes = ndp.incast(
        [(src, dst, size, round(float(start[:-2]) * (1e6 if start[-2] == "u" else 1e3))) for src, dst, size, start in flows],
        topo.hosts,
        parameters["iw"],
        parameters.get("depth", 8),
        lambda now, arriving, tail: arriving is tail or next(coin) % 2 == 0,
        weight=parameters.get("weight", 10),
    )
    names = {"data": "data", "header": "data", "bounce": "data", "pull": "pull"}
    expected = sorted((at, i, names.get(kind, "answer"), *rest) for at, i, kind, *rest in model.out)
    resent = sum(n.resent for n in nodes if isinstance(n, ndp.Sender))
    finished = {f: t for n in nodes if isinstance(n, ndp.Receiver) for f, t in n.finished.items()}
    counts = made.ports["trims"].sum(), made.ports["returns"].sum(), made.flows["retransmitted_bytes"].sum()
    ended = {f: t and round(t * 1000) for f, t in enumerate(made.flows["finish_ns"])}
    return (departures(topo, made), counts, ended), (expected, (model.trims, model.bounces, resent), finished)


@pytest.mark.parametrize("case", INCASTS)
def test_every_packet_of_a_switch(case):
    """Senders, receivers and queues of the transcription, which is told only how the coin falls."""
    found, expected = compared("ndp", case)
    for mine, theirs in zip(found[0], expected[0]):
        assert mine == theirs
    assert found == expected
    trims, returns, _ = expected[1]
    assert trims > 3 and (returns > 10) == case.startswith("sent back")


MISTAKES = {
    "a packet less fits": ("if stored + pkt.size <= ndp.limit:", "if stored + pkt.size < ndp.limit:"),
    "the packet on the line does not count": ("data.bytes + (mine.size if mine.until > node.now else 0)", "data.bytes"),
    "always the arriving packet": ("data.length > 0 and draw", "data.length > 100000 and draw"),
    "another coin": ("draw(node, RANDOM_QUEUE) & 1:", "draw(node, RANDOM_QUEUE) % 4 == 1:"),
    "a header more": ("mine.headers < ndp.weight", "mine.headers <= ndp.weight"),
    "a count of headers that goes on": ("        mine.headers = 0\n", ""),
    "headers count without data": (
        "length == 0:\n        return HEADERS\n",
        "length == 0:\n        my_port(ndp, port).headers += 1\n        return HEADERS\n",
    ),
    "a longer queue of headers": ("if headers.bytes + CONTROL_SIZE <= ndp.most", "if headers.bytes <= ndp.most"),
    "dropped instead of sent back": ("ndp.most else RETURN", "ndp.most else DROPPED"),
    "sent again at once": ("if (mine.awaited == 0 and mine.first <= 1) or ", "if mine.awaited >= 0 or "),
    "sent again when pulled": ("min(mine.answered, HISTORY) < 4 * acks:", "acks > HISTORY:"),
    "all answers": ("MASK = 4095", "MASK = 16777215"),
    "not the first window": ("mine.first <= 1)", "mine.first <= 1000)"),
    "pulls are awaited for ever": ("        mine.awaited -= number - mine.pulled\n", ""),
    "headers count as ACKs": ("note_answer(ndp, flow, 1 - carried.trimmed)", "note_answer(ndp, flow, 1)"),
    "the lowest sequence number first": ("    while mine.queued > 0:", "    while mine.queued > RING:"),
    "the latest NACK first": ("carried.seq, False)", "carried.seq, True)"),
    "what came back last": ("pkt.seq, True)", "pkt.seq, False)"),
    "one flow at a time": (
        "    leave(ndp, node, incoming)\n    if owed > 0:\n        mine.owed = owed\n        join(ndp, node, incoming)\n",
        "    if owed > 0:\n        mine.owed = owed\n    else:\n        leave(ndp, node, incoming)\n",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found(tmp_path, mistake):
    file = planted(tmp_path, "ndp", *MISTAKES[mistake])
    assert any(found != expected for found, expected in (compared(file, case) for case in reversed(INCASTS)))


# ---- laws ----


@pytest.mark.parametrize("size", (1, 1000, 15_000, 30_000, 300_500))
def test_a_lone_flow_is_ideal_with_a_window_of_one_bdp(size):
    topo = fat_tree(k=4)
    made = run(topo, [[0, 15, size, "1us"]])
    assert made.flows["slowdown"].item() == 1.0 and made.summary["retransmissions"] == 0


@pytest.mark.parametrize("packets", (1, 2, 30))
def test_a_lone_flow_with_a_window_of_one_packet(packets):
    """Six links: n - 1 round trips of a packet and its answer, then one way."""
    topo = fat_tree(k=4)
    delay, line = int(topo.links["delay_ps"][0]), int(topo.links["ps_per_byte"][0])
    made = run(topo, [[0, 15, packets * MTU, "1us"]], {"iw": 1})
    one_way, back = (6 * (size * line + delay) for size in (WIRE, ANSWER))
    assert round(made.flows["fct_ns"].item() * 1000) == (packets - 1) * (one_way + back) + one_way


PUBLISHED = {  # us, of the authors' simulator: senders, packets, window
    (1, 50, 23): 404.816,
    (1, 30, 23): 259.792,
    (1, 30, 10): 259.792,
    (1, 30, 1): 1668.125,
    (2, 30, 1): 1675.376,
    (4, 30, 1): 1689.878,
    (5, 30, 1): 1697.130,
}


def jumbo(senders, packets, window, name="ndp"):
    """When the last of some flows ends, us: at once to one host, over six links of 10 Gbit/s and 1 us, packets of 9000 + 64 B."""
    topo = fat_tree(k=4, rate="10Gbps", delay="1us", buffer="0B")
    flows = flow_list(topo, [(15 - k, 0, 9000 * packets, "0s") for k in range(senders)])
    host = HostConfig(mtu=9000, header=64, ack=64, rto="10s")
    took = simulate(topo, flows, parse(name, {"iw": window}), host=host).flows["fct_ns"]
    return float("inf") if took.null_count() else took.max() / 1000


@pytest.mark.parametrize("case", PUBLISHED)
def test_what_has_no_random_part_is_as_published(case):
    """To the nanosecond. n packets of a lone flow: (n + 5) packet times and six delays; window 1: n - 1 round trips and one way,
    and a packet time more for each other sender, as long as they are not more than fit into a round trip."""
    senders, packets, window = case
    assert abs(jumbo(*case) - PUBLISHED[case]) < 0.001
    packet, header, delays = 7.2512, 0.0512, 6.0
    one_way, back = 6 * packet + delays, 6 * header + delays
    law = (packets + 5) * packet + delays if window > 1 else (packets - 1) * (one_way + back) + one_way + (senders - 1) * packet
    assert jumbo(*case) == pytest.approx(law, abs=1e-6)


IN_PULLS = {
    "pulls come late": (
        "here.next_pull = node.now + gap_of(ndp, node)\n    else",
        "here.next_pull = node.now + 9 * gap_of(ndp, node)\n    else",
    ),
    "the window is one more": ("mine.permitted = ndp.window * mtu", "mine.permitted = (ndp.window + 1) * mtu"),
    "an answer pulls nothing": ("        my_packet(ndp, pkt).pull = mine.pulled\n", "        mine.owed += 0\n"),
}


@pytest.mark.parametrize("mistake", IN_PULLS)
def test_a_mistake_in_pulls_is_found(tmp_path, mistake):
    file, cases = planted(tmp_path, "ndp", *IN_PULLS[mistake]), ((4, 30, 1), (1, 30, 1))
    assert any(not abs(jumbo(*case, name=file) - PUBLISHED[case]) < 0.001 for case in cases)


@pytest.mark.parametrize("senders, size", ((7, 60_000), (15, 60_000), (15, 9_000)))
def test_the_last_flow_of_an_incast(senders, size):
    """Not before all bytes can have come; the link is hardly ever idle, though most packets are trimmed at first."""
    topo = star(hosts=16)
    made = run(topo, [[src, 0, size, "1us"] for src in range(1, senders + 1)], {"iw": 20})
    least = senders * size // MTU * WIRE * LINE
    last = made.flows["fct_ns"].max() * 1000
    assert least < last < 1.1 * least + 8 * DELAY
    assert made.ports["trims"].sum() > 50 and made.summary["drops"] == 0 and made.summary["flows_finished"] == senders


def test_every_packet_is_answered_once_and_no_queue_is_longer():
    topo = star(hosts=16)
    flows = [[src, 0, 60_000, "1us"] for src in range(1, 16)]
    made = run(topo, flows, {"iw": 40, "depth": 3, "weight": 2})
    rows = rows_of(made)
    sent = made.summary["retransmissions"] + 15 * 60
    answers = sum(r.kind == 1 and r.event == "enqueue" for r in rows)
    returns = int(made.ports["returns"].sum())
    assert sent == answers + returns and returns > 10 and made.summary["drops"] == 0
    assert made.summary["retransmissions"] == made.ports["trims"].sum() + returns
    queues = {0: 0, 1: 0}
    for r in rows:
        if r.node == 16 and r.port == 0 and r.event == "enqueue":
            queues[r.queue] = max(queues[r.queue], r.queue_bytes)
    assert queues[1] == 3 * WIRE and 3 * WIRE - HEADER < queues[0] <= 3 * WIRE


def from_racks(scheme):
    """Racks of four hosts with one link up, which trims most packets; a spine where three such links meet."""
    topo = leaf_spine(hosts=16, tors=4, spines=1)
    made = run(topo, [[src, 0, 60_000, "1us"] for src in range(4, 16)], {"iw": 40, "depth": 3}, scheme, max_time_ps=10**10)
    return topo, made


def test_headers_that_come_trimmed_are_sent_back():
    """The spine sends back more than it trims."""
    topo, made = from_racks("ndp")
    spine = made.ports.filter(pl.col("node") == topo.node("spine0"))
    answers = sum(r.kind == 1 and r.event == "enqueue" and r.node == topo.node("tor0") for r in rows_of(made))
    assert made.summary["retransmissions"] + 12 * 60 == answers + spine["returns"].sum()
    assert spine["returns"].sum() > spine["trims"].sum() > 10
    assert made.summary["drops"] == 0 and made.summary["flows_finished"] == 12


def test_dropped_headers_that_came_trimmed_are_found(tmp_path):
    back = "    if pkt.kind == DATA and not pkt.flags & RETURNED:\n        return RETURN\n"
    assert from_racks(planted(tmp_path, "ndp", back, ""))[1].summary["drops"] > 10


def test_headers_and_data_alternate_by_weight():
    topo = star(hosts=16)
    made = run(topo, [[src, 0, 60_000, "1us"] for src in range(1, 16)], {"iw": 40, "weight": 3})
    waiting, headers, seen = {0: 0, 1: 0}, 0, set()
    for r in rows_of(made):
        if r.node == 16 and r.port == 0 and r.event == "enqueue":
            waiting[r.queue] += 1
        elif r.node == 16 and r.port == 0 and r.event == "dequeue":
            if waiting[0] and waiting[1]:
                headers = headers + 1 if r.queue == 0 else 0
                seen.add(headers)
            waiting[r.queue] -= 1
    assert seen == {0, 1, 2, 3}


def test_pulls_are_a_packet_time_apart_and_in_turn():
    topo = star(hosts=16)
    made = run(topo, [[src, 0, 60_000, "1us"] for src in range(1, 9)], {"iw": 30})
    pulls = [r for r in rows_of(made) if r.kind > 1 and r.node == 0 and r.event == "dequeue"]
    assert len(pulls) > 200
    assert all(b.at - a.at >= WIRE * LINE - ANSWER * LINE for a, b in pairwise(pulls))  # one may wait for an answer
    for k in range(50, 150, 8):
        assert len({r.offset for r in pulls[k : k + 8]}) == 8


def check_paths(scheme):
    """Section 3.1.1: the sender permutes the list of paths at random, so that each of the 24 orders of four occurs."""
    topo = fat_tree(k=4)
    made = run(topo, [[0, 15, 1_200_000, "1us"]], scheme=scheme)
    paths = defaultdict(list)
    for r in rows_of(made):
        if r.kind == DATA and r.event == "dequeue" and r.node >= 16:
            paths[r.offset].append(r.node)
    taken = [tuple(paths[1000 * n]) for n in range(1200)]
    rounds = [tuple(taken[n : n + 4]) for n in range(0, 1200, 4)]
    assert len(set(taken)) == 4
    assert all(len(set(one)) == 4 for one in rounds)
    assert len(set(rounds)) == 24
    for i in (0, 1):
        assert all(45 < count < 110 for count in Counter(one[i] for one in rounds).values())


def test_each_round_takes_every_path_once():
    check_paths("ndp")


IN_PATHS = {
    "any path": ("    mine.order[chosen] = mine.order[mine.left]\n", ""),
    "always the same order": ("chosen = draw(node, RANDOM_PATH) % mine.left", "chosen = mine.left - 1"),
    "one path left out": ("mine.left = min(ndp.paths, PLACES)", "mine.left = min(ndp.paths, PLACES) - 1"),
    "one digit for all tiers": ("(pkt.hash & POSITIVE) // ndp.stride[min(node.tier, TIERS - 1)]", "(pkt.hash & POSITIVE)"),
    "a path for a flow": ("    pkt.hash = next_path(ndp, node, flow)\n", ""),
}


@pytest.mark.parametrize("mistake", IN_PATHS)
def test_a_mistake_in_paths_is_found(tmp_path, mistake):
    with pytest.raises(AssertionError):
        check_paths(planted(tmp_path, "ndp", *IN_PATHS[mistake]))


# ---- the path penalty ----

SLOW = {  # what spine 2 sends to tor 1, parameters, flows from tor 0, whose queues do not trim
    "a fifth": ("20Gbps", {"iw": 40}, [(i, 4 + i, 1_500_000, "1us") for i in range(4)]),
    "hardly too much": ("20Gbps", {"iw": 40, "depth": 4}, [(i, 4 + i, 1_500_000, "1us") for i in range(2)]),
    "headers come back": ("500Mbps", {"iw": 200, "depth": 2}, [(0, 4, 2_000_000, "1us")]),
    "all paths trim": ("25Gbps", {"iw": 150, "pull_gap": 0.5}, [(i, 4, 1_500_000, f"{1000 + 7 * i}ns") for i in range(2)]),
}


def slowed(case):
    rate, parameters, flows = SLOW[case]
    topo = leaf_spine(hosts=8, tors=2, spines=4)
    return topo.with_changes([{"time": "1ns", "a": "tor1", "b": "spine2", "rate": rate, "of": "spine2"}]), flows, parameters


def sets_of_paths(case, scheme="ndp", board=ndp.Scoreboard, **more):
    """Flow -> for each permutation its set of paths, of a scheme; the transcription's; what happened: answers by kind."""
    topo, flows, parameters = slowed(case)
    made = run(topo, flows, {**parameters, **more}, scheme, max_time_ps=10**10)
    events = []
    arrived, answered, back = defaultdict(list), Counter(), defaultdict(deque)
    for r in sorted(rows_of(made), key=lambda r: r.at):
        there, host = r.node == topo.node("tor1"), r.port < 4
        if there and host and r.kind == DATA and r.event == "dequeue":
            arrived[r.flow].append((r.offset, "nack" if r.size == HEADER else "ack"))
        elif there and r.kind == ACK and r.event == "enqueue":  # answers leave in the order of arrivals
            back[r.flow, r.port].append(arrived[r.flow][answered[r.flow]])
            answered[r.flow] += 1
        elif r.node == topo.node("tor0") and r.kind == DATA and r.event == "enqueue" and r.in_port < 4:
            events.append((r.at - WIRE * LINE - DELAY, 2, r.flow, r.offset, r.port))  # all are of this size
        elif r.node == topo.node("tor0") and host and r.event == "dequeue":
            if r.kind == DATA:
                events.append((r.at + HEADER * LINE + DELAY, 0, r.flow, r.offset, "bounce"))
            elif r.kind == ACK:
                events.append((r.at + ANSWER * LINE + DELAY, 1, r.flow, *back[r.flow, r.in_port].popleft()))
    found, expected, kinds = defaultdict(list), defaultdict(list), Counter()
    boards, way = defaultdict(lambda: board(range(4, 8))), {}
    for _, what, flow, offset, kind in sorted(events):
        if what < 2:
            boards[flow].answer(way.pop((flow, offset)), kind)
            kinds[kind] += 1
        elif (flow, offset) not in way:  # else its header, which is enqueued again
            way[flow, offset] = kind
            if not expected[flow] or len(found[flow][-1]) == len(expected[flow][-1]):
                expected[flow].append(boards[flow].permutation())
                found[flow].append([])
            found[flow][-1].append(kind)
    assert made.summary["flows_finished"] == len(flows)
    of_both = [{flow: [sorted(one) for one in rounds[:-1]] for flow, rounds in sets.items()} for sets in (found, expected)]
    return *of_both, kinds  # without the last one, which is not used up


@pytest.mark.parametrize("case", SLOW)
def test_the_paths_of_each_permutation(case):
    """Those of the transcription, which is told in which order answers came and packets left."""
    found, expected, kinds = sets_of_paths(case)
    assert found == expected
    slow = [6 in paths for each in found.values() for paths in each]
    assert kinds["nack"] > 50 and (kinds["bounce"] > 10) == (case == "headers come back")
    assert 0.05 < sum(slow) / len(slow) < 0.7  # left out, and tried again


class NoPenalty(ndp.Scoreboard):
    def outlier(self, path):
        return False


def test_without_the_penalty_every_permutation_has_all_paths():
    found, _, _ = sets_of_paths("a fifth", board=NoPenalty, path_penalty=False)
    assert len(found) == 4 and all(paths == [4, 5, 6, 7] for each in found.values() for paths in each)


IN_PENALTIES = {
    "an answer less is enough": ("> ENOUGH", ">= ENOUGH"),
    "another ratio": ("10 * nacks > 3 * acks", "10 * nacks > 4 * acks"),
    "as many as on the mean path": ("5 * mine.all_nacks", "4 * mine.all_nacks"),
    "the mean of what was acknowledged": ("    mine.all_nacks += nacks\n", "    mine.all_nacks += acks\n"),
    "headers that come back count once": ("pkt.hash, 0, 3)", "pkt.hash, 0, 1)"),
    "the way of the answer": ("count_answer(ndp, flow, ~pkt.hash", "count_answer(ndp, flow, pkt.hash"),
    "left out for ever": ("        mine.idle[path] += 1\n", ""),
    "left out again at once": ("    mine.idle[path] = 0\n", ""),
    "no pardon": ("        mine.penalty[path] -= 1\n", "        mine.penalty[path] -= 0\n"),
    "the same penalty": ("        mine.penalty[path] += 1\n", "        mine.penalty[path] = 1\n"),
}


@pytest.mark.parametrize("mistake", IN_PENALTIES)
def test_a_mistake_in_penalties_is_found(tmp_path, mistake):
    file = planted(tmp_path, "ndp", *IN_PENALTIES[mistake])
    assert any(found != expected for found, expected, _ in (sets_of_paths(case, file) for case in SLOW))


def shares(topo, made):
    """Bytes to each spine, relative to the average of those that got any."""
    up = made.ports.filter((pl.col("node") == topo.hosts) & (pl.col("peer") >= topo.hosts) & (pl.col("tx_bytes") > 0))["tx_bytes"]
    return (up / up.mean()).to_list()


LONG = [(i, 4 + i, 300_000, f"{1000 + 25_000 * i}ns") for i in range(4)]
SHORT = [(k % 4, 4 + k % 8, 1_000 + 1_000 * (k % 3), f"{1000 + 250 * k}ns") for k in range(2_000)]


@pytest.mark.parametrize("flows", [LONG, SHORT], ids=["long", "short"])
@pytest.mark.parametrize("spines", [4, 6])
@pytest.mark.parametrize("gone", [0, 1, 2])
@pytest.mark.parametrize("what", ["switch", "link"])
def test_spines_that_are_left_have_equal_shares(flows, spines, gone, what):
    """Also if only the link of one ToR is down: the other ToRs have all paths among themselves."""
    topo = leaf_spine(hosts=12, tors=3, spines=spines)
    ends = [{"switch": f"spine{i}"} if what == "switch" else {"a": "tor0", "b": f"spine{i}"} for i in range(gone)]
    made = run(topo.with_changes([{"time": "1ns", **end, "up": False} for end in ends]), flows)
    found = shares(topo, made)
    assert made.summary["flows_finished"] == len(flows) and len(found) == spines - gone
    assert max(abs(share - 1) for share in found) < 0.1, found


def test_crossing_traffic_is_hardly_trimmed_in_the_middle():
    """Section 6: paths chosen by the sources keep the queues of the core short."""
    topo = fat_tree(k=4)
    made = run(topo, [[i, (i + 5) % 16, 500_000, f"{17 * i}ns"] for i in range(16)])
    assert made.flows["slowdown"].max() < 1.25 and made.summary["drops"] == 0


@pytest.mark.parametrize("loss", (0.002, 0.02))
def test_what_links_lose_is_sent_again(loss):
    topo = leaf_spine(hosts=16, tors=4, spines=2).with_loss(loss)
    made = run(topo, [[src, 0, 60_000, "1us"] for src in range(4, 16)], host=HostConfig(rto="200us", ack_priority="data"))
    assert made.summary["flows_finished"] == 12 and made.ports["trims"].sum() > 0


@pytest.mark.parametrize("loss", (0, 0.01))
def test_more_packets_to_be_sent_again_than_their_queue_holds(loss):
    """Up to 600 of a flow; each is sent again once for each time that it was trimmed or came back."""
    topo = star(hosts=5).with_loss(loss)
    host = HostConfig(rto="200us", ack_priority="data") if loss else LATE
    made = run(topo, [[src, 0, 800_000, "1us"] for src in range(1, 5)], {"iw": 600, "depth": 2}, host=host)
    assert made.summary["flows_finished"] == 4
    if loss == 0:
        assert made.summary["retransmissions"] == made.ports["trims"].sum() + made.ports["returns"].sum() > 1500


def crowded(parameters):
    """64 flows of 200 packets whose answers and headers need more of the links to the spine than their weight gives them."""
    topo = leaf_spine(hosts=64, tors=4, spines=4)
    flows = flow_list(topo, [[src, (src + 21) % 64, 200_000, "1us"] for src in range(64)])
    return simulate(topo, flows, parse("ndp", {"iw": 100, **parameters}), host=HostConfig(rto="1ms", ack_priority="data"))


def test_what_the_queue_of_headers_drops_is_sent_after_one_timeout():
    """Not one packet of each flow after another, a timeout each, which took 31 ms instead of 1.3."""
    made = crowded({})
    assert made.summary["drops"] > 100 and made.flows["finish_ns"].max() < 6_000_000


def test_headers_have_as_much_memory_as_beside_large_packets():
    """1125 of them, as beside eight packets of 9 KB: none is dropped or comes back."""
    made = crowded({"headers": 1125})
    assert made.summary["drops"] == 0 and made.ports["returns"].sum() == 0 and made.flows["finish_ns"].max() < 1_000_000


def test_any_number_of_threads_gives_the_same_results():
    made = check_threads("ndp", {"iw": 30})
    assert made.ports["trims"].sum() > 100


def test_penalties_on_any_number_of_threads():
    topo, flows, parameters = slowed("headers come back")
    one, two = (run(topo, flows, parameters, threads=n) for n in (1, 2))
    assert rows_of(one) == rows_of(two) and one.flows.equals(two.flows)


def test_bad_parameters_are_refused():
    check_bad("ndp", {"iw": -1}, "0..2000")
    check_bad("ndp", {"depth": 0}, "1..100000")
    check_bad("ndp", {"headers": -1}, "0..1000000")
    check_bad("ndp", {"weight": 0}, "1..1000000")
