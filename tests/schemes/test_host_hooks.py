"""What receivers, schedulers and switches that trim can do, each by a small scheme of hooks/ and a law that its runs obey."""

import json
import subprocess
import sys
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from helpers import ACK, DATA, EVERYTHING, QUEUED_ACKS, US, network, rows_of

from penstock_net.composition import parse
from penstock_net.sim.config import HostConfig
from penstock_net.sim.simulate import simulate
from penstock_net.testing.cases import digest, run_case
from penstock_net.topology import fat_tree, leaf_spine, planes, star
from penstock_net.workload import flow_list

HOOKS = Path(__file__).parent / "hooks"
MTU, HEADER = 1000, 48


def scheme(name):
    return str(HOOKS / f"{name}.py")


def run(name, topo, flows, parameters=None, **more):
    return simulate(topo, flow_list(topo, flows), parse(scheme(name), parameters), measure=EVERYTHING, **more)


# ---- receivers that grant ----


@pytest.mark.parametrize("size", (1, 999, 9_999, 60_000, 1_000_500))
def test_a_lone_flow_that_is_granted_in_time_is_ideal(size):
    topo = star(hosts=4)
    made = run("pull", topo, [[0, 1, size, "1us"]], {"blind": "100KB"})
    assert made.flows["slowdown"].item() == pytest.approx(1.0, abs=1e-12)


def test_one_grant_for_each_packet_but_the_last_and_one_answer_for_each_flow():
    topo = network()
    made = run("pull", topo, [[src, 0, 60_000, "1us"] for src in (5, 9, 13)], host=QUEUED_ACKS)
    grants = made.ports.filter(pl.col("node") == 0)["control_bytes"].item() // 64
    assert grants == 3 * 59
    acks = {(row.flow, row.node) for row in rows_of(made) if row.kind == ACK and row.node == 0}
    assert len(acks) <= 3  # on_data says when to acknowledge: when all has arrived


def test_bytes_without_a_grant_are_bounded():
    """Never more under way than the blind start and a packet."""
    topo = leaf_spine(hosts=8, tors=2, spines=2)
    flows = [[src, 0, 200_000, "1us"] for src in (1, 2, 4, 5, 6, 7)]
    made = run("pull", topo, flows)
    assert made.summary["flows_finished"] == 6
    assert made.ports["max_queue_bytes"].max() <= 6 * (10_000 + MTU) / MTU * (MTU + HEADER)


def test_the_flow_with_the_smallest_rank_sends_first():
    """Of flows that start together at one host, each with a window that covers it, the shorter ones end first."""
    topo = star(hosts=9)
    flows = [[0, 1 + i, (8 - i) * 5_000, "1us"] for i in range(8)]
    made = run("pull", topo, flows, {"blind": "100KB"})
    assert made.flows.sort("bytes")["finish_ns"].is_sorted()


# ---- paths ----


def path_of(rows, flow, kind):
    """The switches that the packets of a flow crossed, in the order of the first one's departures."""
    seen = []
    for row in sorted(row for row in rows if row.flow == flow and row.kind == kind and row.event == "dequeue"):
        if row.node not in seen:
            seen.append(row.node)
    return seen


def test_with_symmetric_paths_what_answers_meets_the_same_switches():
    topo = network(hosts=16, tors=4, spines=4)
    flows = [[src, (src + 5) % 16, 3_000, f"{src}us"] for src in range(16)]
    rows = rows_of(run("pull", topo, flows, host=QUEUED_ACKS))
    asymmetric = rows_of(simulate(topo, flow_list(topo, flows), parse("fifo"), measure=EVERYTHING, host=QUEUED_ACKS))

    def same(traced_rows):
        return [path_of(traced_rows, flow, ACK) == path_of(traced_rows, flow, DATA)[::-1] for flow in range(16)]

    assert all(same(rows)) and not all(same(asymmetric))


def test_with_symmetric_paths_a_frame_from_a_switch_takes_the_path_of_the_acks():
    """Frames of one switch about several flows of one source: of each flow they meet the switches that its ACKs meet."""
    topo = fat_tree(k=4)
    flows = [[0, 15, 5_000, f"{10 * i}us"] for i in range(12)] + [[src, 15 - src, 5_000, f"{10 * src}us"] for src in range(1, 8)]
    crossed = {symmetric: defaultdict(set) for symmetric in (False, True)}
    for symmetric, found in crossed.items():
        made = run("notice", topo, flows, {"symmetric": symmetric}, host=QUEUED_ACKS)
        assert made.summary["flows_finished"] == len(flows)
        for row in rows_of(made):
            if row.event == "dequeue" and row.node >= topo.hosts and row.kind != DATA:
                found[row.flow if row.kind == ACK else row.offset, row.kind == ACK].add(row.node)
    for symmetric, found in crossed.items():
        assert len(found) == 2 * len(flows)
        assert all(found[flow, True] == found[flow, False] for flow in range(len(flows))) == symmetric
    assert len({tuple(sorted(crossed[True][flow, False])) for flow in range(12)}) > 2


@pytest.mark.parametrize("symmetric", (False, True))
def test_an_ack_has_the_hash_of_its_packet_inverted_unless_paths_are_symmetric(symmetric):
    """The scheme ends the run if it has not; with symmetric paths each ACK also meets the switches of its packet."""
    topo = network(hosts=8, tors=2, spines=4)
    flows = [[src, (src + 4) % 8, 40_000, "1us"] for src in range(8)]
    made = run("echo", topo, flows, {"symmetric": symmetric}, host=QUEUED_ACKS)
    assert made.summary["flows_finished"] == 8
    seen = Counter((row.kind, row.node) for row in rows_of(made) if row.event == "dequeue")
    crossed = [(seen[DATA, spine], seen[ACK, spine]) for spine in range(10, 14)]
    assert min(there for there, _ in crossed) > 0 and all(there == back for there, back in crossed) == symmetric


# ---- trimming, sending back, selective repeat ----


@pytest.mark.parametrize("send_back", (False, True))
def test_what_is_trimmed_or_sent_back_is_sent_again_once(send_back):
    topo = leaf_spine(hosts=16, tors=4, spines=2)
    flows = [[src, 0, 60_000, "1us"] for src in range(4, 16)]
    made = run("trim", topo, flows, {"send_back": send_back})
    trims, returns = (int(made.ports[name].sum()) for name in ("trims", "returns"))
    assert (returns if send_back else trims) > 100 and (trims if send_back else returns) == 0
    assert made.summary["drops"] == 0 and made.summary["flows_finished"] == 12
    assert made.summary["retransmissions"] == trims + returns
    assert made.flows["retransmitted_bytes"].sum() == MTU * (trims + returns)
    assert int(made.ports["trimmed_bytes"].sum()) == (trims + returns) * (MTU + HEADER - 64)


def test_headers_overtake_the_data():
    """A trimmed packet leaves a port before data that was queued there when it came."""
    topo = leaf_spine(hosts=16, tors=4, spines=2)
    made = run("trim", topo, [[src, 0, 60_000, "1us"] for src in range(4, 16)])
    waited = defaultdict(list)
    for row in rows_of(made):
        if row.kind == DATA and row.node >= 16:
            waited[row.node, row.port, row.flow, row.offset, row.size].append(row.at)
    headers = [times[1] - times[0] for (*_, size), times in waited.items() if size == 64 and len(times) == 2]
    data = [times[1] - times[0] for (*_, size), times in waited.items() if size > 64 and len(times) == 2]
    assert headers and max(headers) < max(data) / 4


# ---- schedulers ----


def test_a_scheduler_holds_a_queue_back_and_is_called_again():
    topo = star(hosts=3)
    rows = rows_of(run("shape", topo, [[0, 1, 400, f"{1000 + 10 * i}ns"] for i in range(40)] + [[2, 1, 40_000, "1us"]]))
    out = [row for row in rows if row.node == 3 and row.event == "dequeue" and row.kind == DATA and row.port == 1]
    small = [row.at for row in out if row.size < 500]
    assert len(small) == 40 and min(b - a for a, b in pairwise(small)) >= 2 * US
    assert max(b - a for a, b in pairwise(small)) <= 2 * US + 1048 * 80  # at most a packet of the other queue in between
    big = [row.at for row in out if row.size > 500]
    assert len(big) == 40 and big[-1] < small[3]  # the others do not wait


# ---- packets that give way ----


@pytest.mark.parametrize("exchange", (True, False))
def test_what_gives_way_is_counted_and_told(exchange):
    topo = star(hosts=9)
    flows = [[src, 8, 30_000, "1us"] for src in range(8)]
    made = run("evict", topo, flows, {"exchange": exchange}, host=HostConfig(rto="100us"))
    assert made.summary["flows_finished"] == 8 and made.summary["drops"] > 20
    assert made.ports["max_queue_bytes"].max() <= 8 * (MTU + HEADER)
    delivered = int(made.flows["bytes"].sum())
    assert delivered == 240_000
    first = made.flows["fct_ns"].arg_min()
    assert first == 0 or not exchange


# ---- both cores, any number of threads ----

INTERPRETED = """
import json, sys
from penstock_net.sim.interpreted import install
install()
from penstock_net.testing.cases import digest, run_case
print(json.dumps([digest(run_case(case)) for case in json.load(sys.stdin)]))
"""
SMALL = {"kind": "leaf_spine", "hosts": 8, "tors": 2, "spines": 2, "buffer": "500KB"}
FLOWS = [[i, (i + 4) % 8, 40_000, f"{i}us"] for i in range(8)] + [[i, 5, 20_000, "3us"] for i in (0, 1, 2, 3)]


@pytest.mark.parametrize("name", ("pull", "trim", "shape", "evict", "echo"))
def test_interpreted_equals_compiled(name):
    case = {"topology": SMALL, "flows": FLOWS, "scheme": scheme(name), "host": {"rto": "200us"}}
    cases = [case, {**case, "topology": {**SMALL, "loss": 0.005}}] if name != "trim" else [case]
    compiled = [digest(run_case(case)) for case in cases]
    assert all(one["flows_finished"] == len(FLOWS) for one in compiled)
    assert [digest(run_case(case, threads=2)) for case in cases] == compiled
    done = subprocess.run([sys.executable, "-B", "-c", INTERPRETED], input=json.dumps(cases), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) == json.loads(json.dumps(compiled))


# ---- hosts that look at what arrives ----


@pytest.mark.parametrize("acks,expected", [("control", (60, 0)), ("data", (60, 60))])
def test_a_scheme_sees_every_packet_that_arrives_at_a_host(acks, expected):
    """Data, and acknowledgements that are queued as data; no control frames, and nothing that the link has lost."""
    topo = star(hosts=2)
    made = run("arrivals", topo, [[0, 1, 60_000, "1us"]], host=HostConfig(ack_priority=acks))
    marks = {node: made.ports.filter(pl.col("node") == node)["ecn_marks"].item() for node in (0, 1)}
    assert (marks[1], marks[0]) == expected
    lossy = run("arrivals", topo.with_loss(0.1), [{"src": 0, "dst": 1, "bytes": 600_000, "open_loop": True}])
    arrived = lossy.ports.filter(pl.col("node") == 1)["ecn_marks"].item()
    lost = lossy.ports["drops"].sum()
    assert lost > 50 and arrived + lost == 600


# ---- links that change ----


def told_of_links(topo, flows):
    """(node, state of the link) -> how often its scheme was told."""
    made = run("links", topo, flows, host=HostConfig(rto="20us"), max_time_ps=10**9)
    counts = made.frame("counts")
    return {
        (topo.names[node], name.partition(".")[2]): value for name, node, value in counts.select("name", "node", "value").rows()
    }


def test_a_scheme_is_told_of_links_that_change_at_both_ends():
    """Once of each change of the state, none of the rate, and after it has taken effect."""
    ways = [{"up": False, "on_down": way} for way in ("drop", "hold", "lose", "silent")]
    changes = [change for way in ways for change in (way, {"up": True})] + [{"rate": "50Gbps"}]
    at = {"a": "host0", "b": "switch0"}
    topo = star(hosts=3).with_changes([{"time": f"{1 + i}us", **at, **change} for i, change in enumerate(changes)])
    expected = {"down": 1, "dark": 1, "dead": 2, "up": 4}
    assert told_of_links(topo, [[1, 0, 60_000, "0us"]]) == {(node, s): n for node in at.values() for s, n in expected.items()}


def test_a_scheme_is_told_of_all_ports_of_a_host_whose_flows_have_moved():
    """Of host 0, since a link of host 1 is down; what host 2 sends stays."""
    down = {"time": "2us", "a": "host1", "b": "tor0", "up": False}
    topo = planes(hosts=4, planes=2, tors=1, spines=1, rate="100Gbps", delay="1us").with_changes([down])
    told = told_of_links(topo, [[0, 1, 60_000, "0us"]] * 8 + [[2, 3, 60_000, "0us"]])
    assert told == {("host0", "up"): 2, ("host1", "down"): 1, ("tor0", "down"): 1}


def brought(topo, flows):
    """How fast the links of host 0 bring data, at the end and at most, ps per byte."""
    counts = run("inbound", topo, flows, host=HostConfig(rto="50us")).frame("counts").filter(pl.col("node") == 0)
    return [counts.filter(pl.col("name") == f"inbound.{name}")["value"].item() / 1000 for name in ("last", "most")]


WAYS_IN = {  # changes of the second of two links of 100 Gbit/s, and what both then bring
    "as they are": ({}, 40),
    "down": ({"up": False}, 80),
    "dark": ({"up": False, "on_down": "hold"}, 80),
    "slower there": ({"rate": "50Gbps", "of": "tor1"}, 160 / 3),
    "slower here": ({"rate": "50Gbps", "of": "host0"}, 40),
}


@pytest.mark.parametrize("way", WAYS_IN)
def test_links_of_a_host_that_are_not_down_bring_data_together(way):
    change, expected = WAYS_IN[way]
    topo = planes(hosts=4, planes=2, tors=1, spines=1, rate="100Gbps", delay="1us")
    if change:
        topo = topo.with_changes([{"time": "1ns", "a": "host0", "b": "tor1", **change}])
    assert brought(topo, [[src, 0, 20_000, "0us"] for src in (1, 1, 2, 2, 3, 3)]) == pytest.approx([expected] * 2, abs=1e-3)
