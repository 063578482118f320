"""Flowlets: the port of every packet, order and spread of what pauses, links that fail, the table's collisions."""

from collections import Counter
from itertools import count

import polars as pl
import pytest
from helpers import DATA, QUEUED_ACKS, check_alone, check_bad, check_threads, network, planted, switch_rows, traced
from paper import letflow

from penstock_net.composition import parse
from penstock_net.hashing import choice, flow_hash, node_seed
from penstock_net.sim.config import Measure
from penstock_net.sim.simulate import simulate
from penstock_net.topology import build, leaf_spine
from penstock_net.workload import flow_list

US = 1_000_000
RANDOM_PATH = 4

BURSTS = '''
"""Each flow sends `burst` packets at a time, and pauses for `pause`."""
parameters = {"burst": ("int32 1..1000", 4, "packets"), "pause": ("time", "20us", "between two bursts")}
flow_state = {"sent": "int32"}


def on_send(bursts, node, flow, pkt):
    mine = my_flow(bursts, flow)
    mine.sent += 1
    flow.fc_gap = 0.0
    if mine.sent % bursts.burst == 0:
        flow.fc_gap = float(bursts.pause) / pkt.size
'''


@pytest.fixture
def bursts(tmp_path):
    """The scheme of hosts that pause, with flowlets at the switches."""
    path = tmp_path / "bursts.py"
    path.write_text(BURSTS)
    return f"flowlet+{path}"


def crossing(topo):
    """Flows between racks, many at a time, whose queues make them pause."""
    hosts = topo.hosts
    return flow_list(topo, [(i, (i + 4 * k) % hosts, 60_000 + 7 * i, f"{i + 9 * k}us") for i in range(hosts) for k in (1, 2, 3)])


def judges(topo, gap, entries, seed=1):
    """A transcribed switch for each switch, with the random numbers of ours."""

    def judge(node):
        numbers, random = count(1), int(flow_hash(node + (1 << 41), seed)) * 4 + RANDOM_PATH
        hashed = node_seed(node, seed) + 3
        return letflow.Switch(gap, lambda h: int(choice(h, hashed, entries)), lambda: int(flow_hash(next(numbers), random)))

    return {node: judge(node) for node in range(topo.hosts, topo.nodes)}


def differs(scheme, gap=5 * US, entries=64, flowlets=10):
    """Whether a packet takes another port than LetFlow's table says."""
    topo = network(spines=4, uplink_rate="40Gbps")
    flows, routes = crossing(topo), topo.routes()
    _, rows = traced(topo, flows, scheme, {"gap": f"{gap}ps", "entries": entries}, host=QUEUED_ACKS)
    known = judges(topo, gap, entries)
    for node, mine in switch_rows(topo, rows).items():
        for row in mine:
            h = flow_hash(row.flow, 1)
            dst, h = (flows.src[row.flow], ~h) if row.kind else (flows.dst[row.flow], h)
            ports = routes.ports(node, dst)
            if row.event == "enqueue" and len(ports) > 1 and known[node].port_of(row.at, h, ports) != row.port:
                return True
    assert sum(judge.flowlets for judge in known.values()) > flowlets, "nothing paused: the test says nothing"
    return False


@pytest.mark.parametrize(("gap", "entries"), [(5 * US, 64), (US, 65536), (30 * US, 3), (US // 4, 16)])
def test_every_packet_takes_the_port_of_its_flowlet(gap, entries):
    assert not differs("flowlet", gap, entries)


MISTAKES = {
    "no gap": ("if node.now - entry.last <= flowlet.gap:", "if 1:"),
    "always another": ("if node.now - entry.last <= flowlet.gap:", "if 0:"),
    "the flowlet's age": ("    entry.last = node.now\n    return", "    return"),
    "one hash at all switches": ("node.hash_seed + 3", "3"),
    "by destination": ("pick(pkt.hash,", "pick(pkt.dst,"),
    "not all paths": ("% path_count(node, pkt)", "% (path_count(node, pkt) - 1)"),
    "another stream": ("RANDOM_PATH", "RANDOM_QUEUE"),
    "a gap too long": ("<= flowlet.gap", "< flowlet.gap * 2"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found(tmp_path, mistake):
    file = planted(tmp_path, "flowlet", *MISTAKES[mistake])
    assert differs(file)


def uneven(tmp_path, longer):
    """Two racks and two ways between them, one of them with this much more delay."""
    path = tmp_path / "uneven.csv"
    hosts = [f"h{i},s{i // 2},100Gbps,1us" for i in range(4)]
    path.write_text("\n".join(["a,b,rate,delay", *hosts, "s0,x,100Gbps,1us", "x,s1,100Gbps,1us", "s0,y,100Gbps,1us"]))
    with path.open("a") as file:
        file.write(f"\ny,s1,100Gbps,{longer}\n")
    return build({"file": str(path)})


@pytest.mark.parametrize(("pause", "gap", "reordered"), [("20us", "12us", False), ("20us", "100us", False), ("5us", "4us", True)])
def test_a_gap_longer_than_the_paths_differ_keeps_the_order(tmp_path, bursts, pause, gap, reordered):
    """The paths differ by 10 us; a flow alone, in an idle network, whose hosts go back at a packet out of order."""
    topo = uneven(tmp_path, "11us")
    flows = flow_list(topo, [(0, 2, 400_000)])
    parameters = {"flowlet.gap": gap, "bursts.pause": pause}
    run = simulate(topo, flows, parse(bursts, parameters), measure=Measure(sample="0s", packets=True))
    assert run.summary["flows_finished"] == 1
    assert (run.flows["retransmitted_bytes"].sum() > 0) == reordered
    rows = run.frame("packets").filter(
        (pl.col("event") == "enqueue") & (pl.col("node") == topo.node("s0")) & (pl.col("kind") == DATA)
    )
    ports = Counter(rows["port"].to_list())
    assert len(ports) == (1 if gap == "100us" else 2), f"flowlets of pauses of {pause} took the ports {ports}"


def test_flowlets_spread_over_all_paths(bursts):
    """One flow of 400 flowlets and 8 paths: each has its share, within 4 standard deviations; ECMP has one path."""
    topo = leaf_spine(hosts=4, tors=2, spines=8)
    flows = flow_list(topo, [(0, 2, 1_600_000)])
    run = simulate(topo, flows, parse(bursts, {"flowlet.gap": "12us"}), measure=Measure(sample="0s", packets=True))
    assert run.summary["flows_finished"] == 1 and run.flows["retransmitted_bytes"].sum() == 0
    rows = run.frame("packets").filter(
        (pl.col("event") == "enqueue") & (pl.col("node") == topo.node("tor0")) & (pl.col("kind") == DATA)
    )
    taken = Counter(rows["port"].to_list())
    assert len(taken) == 8 and sum(taken.values()) == 1600
    assert all(packets % 4 == 0 and abs(packets / 4 - 50) < 4 * (400 / 8 * 7 / 8) ** 0.5 for packets in taken.values()), taken


def test_without_pauses_a_flow_keeps_its_path():
    topo = network(spines=4)
    run, rows = traced(topo, crossing(topo), "flowlet", {"gap": "1s"}, host=QUEUED_ACKS)
    paths = {}
    for row in rows:
        if row.event == "enqueue":
            paths.setdefault((row.node, row.flow, row.kind), set()).add(row.port)
    assert max(map(len, paths.values())) == 1 and run.flows["retransmitted_bytes"].sum() == 0


def test_a_path_that_fails_is_left_at_once_and_others_are_kept():
    topo = leaf_spine(hosts=16, tors=4, spines=4)
    failed = topo.with_changes([{"time": "50us", "a": "tor0", "b": "spine1", "up": False}])
    flows = flow_list(failed, [(i % 4, 4 + i % 12, 1_500_000) for i in range(24)])
    run = simulate(failed, flows, parse("flowlet", {"gap": "1s"}), measure=Measure(sample="0s", packets=True))
    assert run.summary["flows_finished"] == 24
    rows = run.frame("packets").filter(
        (pl.col("event") == "enqueue") & (pl.col("node") == topo.node("tor0")) & (pl.col("kind") == DATA)
    )
    early = dict(rows.filter(pl.col("time_ns") < 50_000).select("flow_id", "port").iter_rows())
    late = {}
    for flow, port in rows.filter(pl.col("time_ns") >= 50_000).select("flow_id", "port").iter_rows():
        late.setdefault(flow, set()).add(port)
    assert {port for ports in late.values() for port in ports} == {4, 6, 7} and 5 in early.values()
    kept = [late[flow] == {port} for flow, port in early.items() if port != 5 and flow in late]
    assert all(kept) and len(kept) > 5


def test_flows_of_one_entry_share_a_path():
    """A table of one entry is a path for all."""
    topo = network(spines=4)
    _, rows = traced(topo, crossing(topo), "flowlet", {"gap": "1s", "entries": 1})
    ports = {}
    for row in rows:
        if row.event == "enqueue" and topo.tier[row.node] == 1 and row.port >= 4:
            ports.setdefault(row.node, set()).add(row.port)
    assert ports and all(len(found) == 1 for found in ports.values())


def test_a_lone_flow_finishes_in_the_ideal_time():
    check_alone("flowlet")
    check_alone("bfc+flowlet", {"flowlet.gap": "1us"})


def test_any_number_of_threads_gives_the_same_results():
    check_threads("flowlet", {"gap": "5us", "entries": 16})
    check_threads("bfc+flowlet", {"flowlet.gap": "5us"})
    check_threads("hpcc+flowlet+recovery:irn", {"flowlet.gap": "2us"})


def test_bad_parameters_are_refused():
    check_bad("flowlet", {"gap": 0}, "gap")
    check_bad("flowlet", {"entries": 0}, "1..16777216")
    check_bad("flowlet+spray", None, "both choose the path")
