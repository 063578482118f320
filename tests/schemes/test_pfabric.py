"""pFabric packet by packet against the transcription, drops and timeouts included; its laws."""

import json
import subprocess
import sys

import numpy as np
import pytest
from helpers import DATA, QUEUED_ACKS, check_alone, check_bad, check_threads, network, planted, rows_of, traced
from paper import pfabric

from penstock_net.composition import FOLDER, parse
from penstock_net.sim.simulate import simulate
from penstock_net.topology import leaf_spine, star
from penstock_net.workload import flow_list

WIRE, GAP = 1048, 80
SETTINGS = {"capacity": "12KB", "window": "20KB"}
RTO = 45_000_000  # ps, the preset


def crowd(seed, hosts=7, count=25, largest=80_000):
    """Flows of all sizes within 8 us to two receivers: (src, dst, bytes, start in ns)."""
    r = np.random.default_rng(seed)
    sizes = (np.exp(r.uniform(np.log(500), np.log(largest), count)).astype(int) + 1).tolist()
    starts = np.sort(r.choice(8_000, count, replace=False)).tolist()
    return [(int(r.integers(2, hosts)), int(r.integers(0, 2)), size, start) for size, start in zip(sizes, starts)]


RULES = {"paper": {}, "code": {"largest": 24_000, "stamp": "queue"}}


def differs(scheme, seed, rules="paper", window=20_000):
    """Packets that the switch sends and drops until everything has arrived, when a run ends."""
    topo, flows = star(hosts=7), crowd(seed)
    listed = flow_list(topo, [(src, dst, size, f"{start}ns") for src, dst, size, start in flows])
    run, rows = traced(topo, listed, scheme, {**SETTINGS, "window": window, **RULES[rules], "host.rto": "45us"})
    end = round(1000 * run.flows["finish_ns"].max())
    data = [r for r in rows if r.kind == DATA and r.at < end]
    sent = [(r.at, r.port, r.flow, r.offset, r.size) for r in data if r.event == "dequeue"]
    dropped = [r.at for r in data if r.event == "drop"]
    in_ps = [(src, dst, size, 1000 * start) for src, dst, size, start in flows]
    expected = pfabric.run(7, in_ps, window, 12_000, RTO, **RULES[rules])
    return len(dropped), (sorted(sent), sorted(dropped)) != tuple(map(sorted, expected))


@pytest.mark.parametrize("seed", range(6))
def test_every_packet_leaves_when_the_transcription_says(seed):
    dropped, other = differs("pfabric", seed)
    assert dropped > 20 and not other


@pytest.mark.parametrize("seed", range(6))
def test_every_packet_leaves_as_with_the_codes_stamps_and_windows(seed):
    dropped, other = differs("pfabric", seed, "code", 12_000)
    assert dropped > 10 and not other


MISTAKES = {
    "the best is dropped": ("worst = worst_packet(", "worst = best_packet("),
    "the arriving one stays": ("left(pfabric, worst) <= mine", "left(pfabric, worst) < mine"),
    "the smallest packet, not its flow's earliest": ("earliest_packet(node, port, best)", "best"),
    "bytes sent count as done": ("flow.size - my_flow(pfabric, flow).arrived\n", "flow.size - flow.acked\n"),
    "the window after a timeout": ("w = pfabric.at.world.mtu", "w = 2 * pfabric.at.world.mtu"),
    "the RTO backs off": ("    flow.backoff = 0\n", ""),
    "no growth": ("mine.w + pfabric.at.world.mtu", "mine.w"),
    "SACKed bytes are under way": ("max(mine.arrived - flow.acked, 0)", "0"),
    "order at the sender": ("set_rank(node, flow, rank)", "set_rank(node, flow, flow.size)"),
}
MISTAKES_OF_THE_CODE = {
    "the oldest stamp for all": ("ends[mine.first] <= offset", "ends[mine.first] <= 0"),
    "the newest stamp for all": (
        "return mine.stamps[mine.first]\n",
        "return mine.stamps[(mine.first + mine.count - 1) & LAST_WAITING]\n",
    ),
    "stamps of what was given up": ("    mine.count = 0\n", ""),
    "no larger window": ("max(pfabric.w_first, pfabric.largest)", "pfabric.w_first"),
    "the larger one at once": ("w = pfabric.w_first\n", "w = pfabric.w_max\n"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found(tmp_path, mistake):
    file = planted(tmp_path, "pfabric", *MISTAKES[mistake])
    assert any(differs(file, seed)[1] for seed in range(6))


@pytest.mark.parametrize("mistake", MISTAKES_OF_THE_CODE)
def test_a_mistake_in_the_codes_rules_is_found(tmp_path, mistake):
    file = planted(tmp_path, "pfabric", *MISTAKES_OF_THE_CODE[mistake])
    assert any(differs(file, seed, "code", 12_000)[1] for seed in range(6))


# ---- the order of packets at a port, against walks through its queue ----

WALKS = """
def admit(pfabric, node, port, pkt):
    queue = queue_at(port, 0)
    while port.bytes + pkt.size > pfabric.most:
        worst = queue.head
        other = queue.head
        while other != NO_PACKET:
            if left(pfabric, other) >= left(pfabric, worst):
                worst = other
            other = other.next
        if worst == NO_PACKET or left(pfabric, worst) <= left(pfabric, pkt):
            return DROPPED
        drop_queued(node, port, queue, worst)
    return ADMITTED


def next_queue(pfabric, node, port):
    queue = queue_at(port, 0)
    best = queue.head
    other = best.next
    while other != NO_PACKET:
        if left(pfabric, other) < left(pfabric, best):
            best = other
        other = other.next
    earliest = queue.head
    while earliest.number != best.number:
        earliest = earliest.next
    move_to_head(node, port, queue, earliest)
    return 0
"""
ORDERS = {
    "one path": ("", {"capacity": "30KB"}, {}),
    "many packets": ("", {"capacity": "1MB", "window": "200KB"}, {}),
    "packets overtake": ("+spray", {"capacity": "40KB", "window": "60KB"}, {}),
    "ACKs among the data": ("+spray", {"capacity": "30KB"}, {"host": QUEUED_ACKS}),
}


@pytest.fixture(scope="module")
def walking(tmp_path_factory):
    """pFabric whose ports walk through their queues, as the paper describes it."""
    text = (FOLDER / "pfabric.py").read_text()
    start, end = text.index("def rank_packet"), text.index("# ---- Host ----")
    file = tmp_path_factory.mktemp("walks") / "walking.py"
    file.write_text(text[:start] + WALKS.lstrip() + "\n\n" + text[end:])
    return file


def crowded(seed):
    """Flows of few different sizes, so that many have equally much left, to few receivers."""
    r = np.random.default_rng(seed)
    sizes = (4_000, 30_000, 30_000, 77_700, 120_000)
    starts = np.sort(r.integers(0, 40_000, 120)).tolist()
    pairs = [(int(r.integers(3, 16)), int(r.integers(0, 3)), start) for start in starts]
    return [(src, dst, int(r.choice(sizes)), f"{start}ns") for src, dst, start in pairs]


@pytest.mark.parametrize("order", ORDERS)
def test_ports_serve_and_drop_what_walks_find(walking, order):
    more, parameters, settings = ORDERS[order]
    topo = network()
    flows = flow_list(topo, crowded(len(order)))
    (run, rows), (walked, other) = (traced(topo, flows, s + more, parameters, **settings) for s in ("pfabric", str(walking)))
    assert rows == other and run.flows.equals(walked.flows) and run.ports.equals(walked.ports)
    assert len({r.flow for r in rows}) == 120 and run.summary["drops"] > 100


FEW_ARRIVALS = """
import json, sys
from penstock_net.sim.interpreted import install
install()
from penstock_net.fabric import ranking
ranking.MOST_ARRIVALS = int(sys.argv[2])
from penstock_net.testing.cases import digest, run_case
print(digest(run_case(json.loads(sys.argv[1]))))
"""


def test_arrivals_may_be_counted_from_zero_again_at_any_time():
    """After every 9 packets that a port ranks, with more than that queued; in the interpreted core."""
    flows = [[1 + i % 5, 0, size, f"{i}us"] for i, size in enumerate((20_000, 30_000, 20_000, 12_345, 20_000, 9_000))]
    case = {"topology": {"kind": "star", "hosts": 6}, "scheme": "pfabric", "parameters": {"capacity": "30KB"}, "flows": flows}
    command = [sys.executable, "-c", FEW_ARRIVALS, json.dumps(case)]
    few, many = (subprocess.run([*command, str(n)], capture_output=True, text=True, check=True).stdout for n in (9, 2**31 - 1))
    assert few == many


# ---- laws ----


def test_a_lone_flow_takes_the_ideal_time():
    check_alone("pfabric")
    check_alone("pfabric+spray")


def test_the_shorter_of_two_flows_takes_its_ideal_time():
    """Up to a packet of the other that is being sent."""
    topo = star(hosts=3)
    flows = flow_list(topo, [(1, 0, 400_000, "1us"), (2, 0, 100_000, "9us")])
    run = simulate(topo, flows, parse("pfabric"))
    fct, ideal = run.flows["fct_ns"][1], run.flows["ideal_fct_ns"][1]
    assert ideal <= fct <= ideal + 2 * WIRE * GAP / 1000


def test_a_link_is_as_good_as_srpt():
    """FCTs of flows that start together, from hosts of their own: the sum of the shorter ones and itself, plus a packet each."""
    topo = star(hosts=7)
    sizes = [60_000, 10_000, 35_000, 22_000, 90_000, 5_000]
    run = simulate(
        topo, flow_list(topo, [(1 + i, 0, size, "1us") for i, size in enumerate(sizes)]), parse("pfabric", {"capacity": "1MB"})
    )
    ends = dict(zip(run.flows["bytes"].to_list(), run.flows["fct_ns"].to_list()))
    path = 2 * 1000 + WIRE * GAP / 1000
    total = 0
    for i, size in enumerate(sorted(sizes)):
        total += size // 1000 * WIRE * GAP / 1000
        assert path + total - 1 <= ends[size] <= path + total + (i + 2) * WIRE * GAP / 1000


def test_no_packet_overtakes_one_of_its_flow_on_its_path():
    topo = network()
    flows = flow_list(topo, [(i, (5 * i + 1) % 4, 60_000 + 999 * i, f"{100 * i}ns") for i in range(4, 16)])
    _, rows = traced(topo, flows, "pfabric", {"capacity": "1MB"})
    out = {}
    for r in rows:
        if r.kind == DATA and r.event == "dequeue":
            out.setdefault((r.node, r.flow), []).append(r.offset)
    assert len(out) > 20 and all(offsets == sorted(offsets) for offsets in out.values())


def test_a_port_stores_no_more_than_its_queue():
    topo = leaf_spine(hosts=16, tors=4, spines=2)
    flows = flow_list(topo, [(i, 0, 50_000, "1us") for i in range(4, 16)])
    run, _ = traced(topo, flows, "pfabric", {"capacity": "36KB"})
    assert run.ports["max_queue_bytes"].max() <= 36_000 and run.summary["drops"] > 50


def test_acks_among_the_data_are_never_dropped_for_data():
    topo = star(hosts=7)
    run, rows = traced(
        topo, flow_list(topo, [(i, (i + 1) % 7, 60_000, "1us") for i in range(7)]), "pfabric", SETTINGS, host=QUEUED_ACKS
    )
    assert run.summary["flows_finished"] == 7 and {r.kind for r in rows_of(run)} == {0, 1}
    assert not [r for r in rows if r.event == "drop" and r.kind == 1]


def test_losses_on_links_are_repaired():
    topo = network().with_loss(0.02)
    flows = flow_list(topo, [(i, (i + 5) % 16, 30_000 + 7 * i, f"{i}us") for i in range(16)])
    run, _ = traced(topo, flows, "pfabric")
    assert run.flows["retransmitted_bytes"].sum() > 0


# ---- the rest ----


def test_any_number_of_threads_gives_the_same_results():
    check_threads("pfabric")
    check_threads("pfabric+spray", {"capacity": "30KB"})


def test_presets():
    assert parse("pfabric").host == {"rto": "45us"}
    values = {"capacity": 36_864, "window": 12 * 1460, "largest": 15 * 1460, "stamp": 1}
    assert parse("pfabric:simulator").values("pfabric") == values


def test_bad_parameters_are_refused():
    check_bad("pfabric", {"capacity": -1}, "zero or more")
