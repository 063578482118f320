"""pFabric packet by packet against the transcription, drops and timeouts included; its laws."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers import DATA, QUEUED_ACKS, check_alone, check_bad, check_threads, network, planted, rows_of, traced
from paper import pfabric

from penstock_net.composition import FOLDER, parse
from penstock_net.errors import SchemeError
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


PARAMETERS = {"queue": {"stamp": "queue", "nic": "10KB"}, "missing": {"again": "missing"}, "windows": {"windows": "code"}}
RULES = {"paper": (), "code": ("queue", "missing", "windows"), **{rule: (rule,) for rule in PARAMETERS}}
LARGEST = 24_000  # window, with rules of the code


def differs(scheme, seed, rules="paper", window=20_000, **more):
    """Packets that the switch sends and drops, and what NICs drop, until everything has arrived, when a run ends."""
    topo, flows, code = star(hosts=7), crowd(seed, **more), RULES[rules]
    listed = flow_list(topo, [(src, dst, size, f"{start}ns") for src, dst, size, start in flows])
    own = {key: value for rule in code for key, value in {**PARAMETERS[rule], "largest": LARGEST}.items()}
    run, rows = traced(topo, listed, scheme, {**SETTINGS, "window": window, **own, "host.rto": "45us"})
    end = round(1000 * run.flows["finish_ns"].max())
    data = [r for r in rows if r.kind == DATA and r.at < end]
    sent = [(r.at, r.port, r.flow, r.offset, r.size) for r in data if r.event == "dequeue" and r.node == 7]
    dropped = [[r.at for r in data if r.event == "drop" and (r.node == 7) == at_switch] for at_switch in (True, False)]
    in_ps = [(src, dst, size, 1000 * start) for src, dst, size, start in flows]
    nic = {"nic": 10_000} if "queue" in code else {}
    expected = pfabric.run(7, in_ps, window, 12_000, RTO, largest=LARGEST if code else None, code=code, **nic)
    return [len(d) for d in dropped], [sorted(found) for found in (sent, *dropped)] != [sorted(e) for e in expected]


@pytest.mark.parametrize("seed", range(6))
def test_every_packet_leaves_when_the_transcription_says(seed):
    (dropped, _), other = differs("pfabric", seed)
    assert dropped > 20 and not other


@pytest.mark.parametrize("seed", range(6))
def test_every_packet_leaves_as_with_the_rules_of_the_code(seed):
    (dropped, at_nics), other = differs("pfabric", seed, "code", 12_000)
    assert dropped > 0 and at_nics > 20 and not other


@pytest.mark.parametrize("rule", PARAMETERS)
def test_each_rule_of_the_code_alone(rule):
    assert not any(differs("pfabric", seed, rule, 12_000)[1] for seed in range(2))


MISTAKES = {
    "the best is dropped": ("worst = worst_packet(", "worst = best_packet("),
    "the arriving one stays": ("left(pfabric, worst) <= mine", "left(pfabric, worst) < mine"),
    "the smallest packet, not its flow's earliest": ("earliest_packet(node, port, best)", "best"),
    "bytes sent count as done": ("bytes = flow.size - mine.arrived\n", "bytes = flow.size - flow.acked\n"),
    "the window after a timeout": ("mine.w = mtu", "mine.w = 2 * mtu"),
    "the RTO backs off": ("    flow.backoff = 0\n", ""),
    "no growth": ("min(mine.w + mtu, pfabric.w_max)", "mine.w"),
    "SACKed bytes are under way": ("max(mine.arrived - flow.acked, 0)", "0"),
    "order at the sender": ("set_rank(node, flow, flow.size - mine.arrived)", "set_rank(node, flow, flow.size)"),
}
MISTAKES_OF_THE_CODE = {
    "no larger window": ("max(pfabric.w_first, pfabric.largest)", "pfabric.w_first"),
    "the larger one at once": ("w = pfabric.w_first\n", "w = pfabric.w_max\n"),
    "NICs as large as ports": ("pfabric.room if node.is_host else pfabric.most", "pfabric.most"),
    "NICs without limit": ("pfabric.nic if pfabric.nic > 0 else NEVER", "NEVER"),
    "in the order of the flows' ranks": ('"nic_order": "1 + stamp"', '"nic_order": 1'),
    "timeouts at quarters": (', "exact_rto": "windows"', ""),
    "everything again": (
        '"again": (\n        "choice all missing",\n        "all"',
        '"again": (\n        "choice missing all",\n        "missing"',
    ),
    "the one that has arrived, too": ("or not has_bit(mine.known, number & LAST_BIT)", "or number >= 0"),
    "duplicate ACKs open the window": ("or pfabric.windows != CODE", "or True"),
    "half the window, exactly": ("max(mine.w // mtu // 2, 2) * mtu", "max(mine.w // 2, 2 * mtu)"),
    "a packet per ACK for ever": ("if mine.half > 0 and mine.w >= mine.half", "if False"),
    "half is not reached": ("mine.w >= mine.half", "mine.w > mine.half"),
    "the count goes on": ("        mine.grown = 0\n", ""),
    "one ACK more": ("mine.grown * mtu < mine.w", "mine.grown * mtu <= mine.w"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found(tmp_path, mistake):
    file = planted(tmp_path, "pfabric", *MISTAKES[mistake])
    assert any(differs(file, seed)[1] for seed in range(6))


@pytest.mark.parametrize("mistake", MISTAKES_OF_THE_CODE)
def test_a_mistake_in_the_codes_rules_is_found(tmp_path, mistake):
    file = planted(tmp_path, "pfabric", *MISTAKES_OF_THE_CODE[mistake])
    assert any(differs(file, seed, "code", 12_000)[1] for seed in range(6))


def test_a_window_of_one_packet_grows_to_two_at_once(tmp_path):
    """With many flows that begin with one packet, and lose it."""
    crowded = {"rules": "code", "window": 1_000, "count": 80}
    file = planted(tmp_path, "pfabric", "max(mine.w // mtu // 2, 2)", "max(mine.w // mtu // 2, 0)")
    assert not differs("pfabric", 0, **crowded)[1] and differs(file, 0, **crowded)[1]


@pytest.mark.parametrize("mistake", ["none", "bits stay"])
def test_what_is_known_of_packets_is_forgotten_once_they_are_acknowledged(tmp_path, mistake):
    """With a ring of 32 packets, and flows of 300: the bit of an earlier one would be taken for that of a lost one."""
    file = Path(planted(tmp_path, "pfabric", "RING = 1024", "RING = 32"))
    text = file.read_text().replace("LAST_BIT = 1023", "LAST_BIT = 31")
    stays = ("        clear_bit(mine.known, mine.clear & LAST_BIT)\n", "")
    file.write_text(text.replace(*stays) if mistake == "bits stay" else text)
    topo = star(hosts=3).with_loss(0.03)
    scheme = parse(str(file), {"again": "missing", "window": "20KB", "host.rto": "45us"})
    flows = flow_list(topo, [(0, 1, 300_000, "1us"), (2, 1, 200_000, "1us")])
    run = simulate(topo, flows, scheme, duration="30ms", drain=False)
    assert run.summary["flows_finished"] == (0 if mistake == "bits stay" else 2)


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
    check_threads("pfabric:simulator+spray", {"capacity": "30KB", "nic": "12KB"})


def test_presets():
    assert parse("pfabric").host == {"rto": "45us"}
    values = {"capacity": 36_864, "nic": 36_864, "window": 12 * 1460, "largest": 15 * 1460, "stamp": 1, "again": 1, "windows": 1}
    assert parse("pfabric:simulator").values("pfabric") == values


def test_bad_parameters_are_refused():
    check_bad("pfabric", {"capacity": -1}, "zero or more")


def test_packets_do_not_wait_at_hosts_in_queues_of_priorities_as_well(tmp_path):
    file = tmp_path / "waiting.py"
    start = "def on_start(me, node, flow, pkt):\n    flow.window = 10_000\n"
    file.write_text('"""Packets wait at the port of their host."""\n\nfabric = {"nic_order": 2}\n\n\n' + start)
    topo = star(hosts=2)
    with pytest.raises(SchemeError, match="waiting queues packets at hosts"):
        simulate(topo, flow_list(topo, [(0, 1, 1000, "0us")]), parse(str(file)) + parse("ets"))


def test_a_link_that_comes_back_finds_what_waits_at_its_host():
    changes = [{"time": time, "a": "host1", "b": "tor0", "up": up} for time, up in (("20us", False), ("120us", True))]
    topo = network().with_changes(changes)
    run, _ = traced(topo, flow_list(topo, [(1, 5 + i, 100_000, f"{i}us") for i in range(8)]), "pfabric:simulator")
    assert run.summary["drops"] > 50 and run.flows["finish_ns"].min() > 120_000
