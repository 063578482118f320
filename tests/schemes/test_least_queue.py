"""The switch's adaptive choice: every choice beside the transcription, pauses, links that fail, and what it does to queues."""

import random
from collections import defaultdict
from itertools import count
from types import SimpleNamespace

import polars as pl
import pytest
from alone import check_mistake
from helpers import DATA, EVERYTHING, QUEUED_ACKS, acted, check_alone, check_bad, check_threads, network, pauses_of, traced
from paper import least_queue as paper

from penstock_net.composition import FOLDER, parse
from penstock_net.hashing import choice, flow_hash, node_seed
from penstock_net.sim.config import HostConfig
from penstock_net.sim.simulate import simulate
from penstock_net.workload import flow_list

US = 10**6
RANDOM_PATH = 4
CROSSING = [(i, (i + 4 * k) % 16, 60_000 + 7 * i, f"{i}us") for i in range(16) for k in (1, 2)]
BANDS = {"grades": ["2KB", "10KB", "30KB", 0, 0, 0, 0]}


# ---- the file as plain Python, at a switch with any ports ----


class Switch(dict):
    def __init__(self, text="", seed=1, gap=0, pauses=True, bands=(), entries=8, apart=True):
        drawn = random.Random(seed)
        super().__init__(RANDOM_PATH=RANDOM_PATH, whole=int, draw=lambda *_: drawn.randrange(1 << 31))
        exec(text or (FOLDER / "least_queue.py").read_text(), self)
        grades = [*bands, *[0] * (7 - len(bands))]
        world = SimpleNamespace(nic_by_priority=apart)
        at = SimpleNamespace(world=world)
        self.me = SimpleNamespace(gap=gap, pauses=pauses, grades=grades, entries=entries, at=at)
        self.mine = [SimpleNamespace(last=0, port=0) for _ in range(entries)]
        self.node = SimpleNamespace(now=0, hash_seed=0)
        self.update(path_count=lambda *_: len(self.ports), path_at=lambda node, pkt, i: self.ports[i])
        self.update(my_node=lambda *_: None, entries_at=lambda _, i: self.mine[i], pick=lambda h, _, n: h % n)
        self.update(queue_at=lambda port, i: port.queues[i])

    def choose(self, now, h, ports, priority=0):
        self.node.now, self.ports = now, ports
        return ports[self["choose_path"](self.me, self.node, None, SimpleNamespace(hash=h, priority=priority))].slot


def walk(text="", seed=1, gap=0, pauses=True, bands=(), apart=True):
    """A thousand packets of a few flows at a switch whose ports have any loads and pauses."""
    chosen = random.Random(50 + seed)
    ours = Switch(text, seed, gap, pauses, bands, apart=apart)
    drawn = random.Random(seed)
    theirs = paper.Switch(lambda: drawn.randrange(1 << 31), bands, gap, lambda h: h % 8, pauses)
    now = gap + 1
    for _ in range(1000):
        now += chosen.choice([1, gap // 4, gap, gap + 1])
        ports, loads, stopped, priority = [], {}, set(), chosen.randrange(2)
        for slot in sorted(chosen.sample(range(8), chosen.choice([2, 4, 4, 4]))):
            stored, left = 1000 * chosen.randrange(5), chosen.choice([0, 0, 500, 1000])
            free = now + 80 * left if left else now - chosen.randrange(1000)
            paused, down = (chosen.choice([0] * 7 + [2]) for _ in range(2))
            of_priorities = [chosen.choice([0, 0, 0, 4]), 0]
            port = {"slot": slot, "bytes": stored, "free_at": free, "ps_per_byte": 80.0, "paused": paused, "down": down}
            ports.append(SimpleNamespace(**port, queues=[SimpleNamespace(paused=bits) for bits in of_priorities]))
            loads[slot] = stored + left
            if paused or down or (apart and of_priorities[priority]):
                stopped.add(slot)
        h = chosen.randrange(12)
        assert ours.choose(now, h, ports, priority) == theirs.port_of(now, h, loads, stopped)


WAYS = [{}, {"pauses": False}, {"bands": (1000, 2500, 4000)}, {"gap": 500}, {"gap": 2000, "bands": (3000,)}, {"apart": False}]


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_as_transcribed(way):
    for seed in range(3):
        walk(seed=seed, **way)


MISTAKES = {
    "the longest": ("if cost < smallest:", "if cost > smallest:"),
    "the first of equal ones": ("draw(node, RANDOM_PATH) % equal if equal > 1 else 0", "0"),
    "a draw for nothing": ("draw(node, RANDOM_PATH) % equal if equal > 1 else 0", "draw(node, RANDOM_PATH) % equal"),
    "not the last port": ("for i in range(1, count):", "for i in range(1, count - 1):"),
    "what is on the line is forgotten": ("if port.free_at > node.now:", "if 0:"),
    "a line that was busy": ("if port.free_at > node.now:", "if port.free_at != node.now:"),
    "beyond a band's end": ("load >= least.grades[grade]", "load > least.grades[grade]"),
    "two grades": ("GRADES = 7", "GRADES = 1"),
    "bytes within a grade": ("        load = grade\n", "        load += grade * 100000\n"),
    "a little worse": ("        load += STOPPED\n", "        load += 1500\n"),
    "pauses always count": ("if least.pauses and is_stopped", "if is_stopped"),
    "pauses of the line alone": ("    if least.at.world.nic_by_priority and", "    if 0 and"),
    "any priority": ("queue_at(port, pkt.priority)", "queue_at(port, 0)"),
    "priorities or not": ("    if least.at.world.nic_by_priority and", "    if"),
    "dark links are good": ("if port.paused or port.down:", "if port.paused:"),
    "no gap": ("if node.now - entry.last <= least.gap:", "if 1:"),
    "always anew": ("if node.now - entry.last <= least.gap:", "if 0:"),
    "the flowlet's age": ("    entry.last = node.now\n", ""),
    "a port that is none": ("        chosen = known(node, pkt, entry)", "        chosen = max(known(node, pkt, entry), 0)"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found(mistake):
    def compare(text):
        for way in WAYS:
            walk(text, **way)

    check_mistake("least_queue", *MISTAKES[mistake], compare)


# ---- in the network ----


@pytest.mark.parametrize("parameters", [{}, BANDS, {"gap": "2us", "entries": 64}], ids=["bytes", "grades", "flowlets"])
def test_every_packet_takes_the_transcription_s_port(parameters):
    """From the trace alone: what each port has stored, and since when its line is busy."""
    topo = network(spines=4, uplink_rate="40Gbps")
    flows, routes = flow_list(topo, CROSSING), topo.routes()
    _, rows = traced(topo, flows, "least_queue", parameters, host=QUEUED_ACKS)
    bands, gap = (2000, 10_000, 30_000) if "grades" in parameters else (), 2 * US if "gap" in parameters else 0
    models, stored, free, taken = {}, defaultdict(int), defaultdict(int), 0
    for node in range(16, 20):
        numbers, stream = count(1), int(flow_hash(node + (1 << 41), 1)) * 4 + RANDOM_PATH
        entry = lambda h, node=node: int(choice(h, node_seed(node, 1) + 3, 64))  # noqa: E731
        models[node] = paper.Switch(lambda n=numbers, s=stream: int(flow_hash(next(n), s)), bands, gap, entry)
    for row in rows:
        if row.node not in models:
            continue
        if row.event == "enqueue" and row.port >= 4:
            h = int(flow_hash(row.flow, 1))
            dst, h = (flows.src[row.flow], ~h) if row.kind else (flows.dst[row.flow], h)
            loads = {p: stored[row.node, p] + max(free[row.node, p] - row.at, 0) // 200 for p in routes.ports(row.node, dst)}
            assert row.port == models[row.node].port_of(row.at, h, loads), row
            taken += 1
        stored[row.node, row.port] = row.port_bytes
        if row.event == "dequeue":
            free[row.node, row.port] = row.at + 200 * row.size
    assert taken > 2000


def test_a_permutation_leaves_no_queue():
    """A Clos network with as much up as down: no uplink ever stores more than two packets."""
    topo = network(spines=4)
    flows = flow_list(topo, [(i, (i + 4) % 16, 400_000) for i in range(16)])
    longest = {}
    for scheme in ("least_queue", "spray", "fifo"):
        ports = simulate(topo, flows, parse(scheme)).ports
        longest[scheme] = ports.filter((pl.col("node").is_between(16, 19)) & (pl.col("port") >= 4))["max_queue_bytes"].max()
    assert longest["least_queue"] <= 2 * 1048 < longest["spray"] < longest["fifo"]


def test_a_paused_port_is_taken_only_if_all_are():
    """The link from one spine to a rack is slow, so that the spine pauses the racks that send there."""
    topo = network(spines=3).with_changes([{"time": "1ns", "a": "tor1", "b": "spine2", "rate": "10Gbps"}])
    flows = flow_list(topo, [(i, 4 + i, 400_000) for i in range(4)])
    parameters = {"pfc.alpha": 0.001}
    stopped = {}
    for heeds in (True, False):
        run, rows = traced(topo, flows, "pfc+least_queue", {**parameters, "least_queue.pauses": heeds})
        times = {port: [(0, False), *((t, p) for t, _, p in pauses_of(run).get((16, port), ()))] for port in (4, 5, 6)}

        def paused(port, at, times=times):
            return next(on for t, on in reversed(times[port]) if t <= at)

        sent = [r for r in rows if (r.node, r.event, r.kind) == (16, "enqueue", DATA) and r.port >= 4]
        sent = [r for r in sent if not any(t == r.at for mine in times.values() for t, _ in mine)]
        stopped[heeds] = sum(paused(r.port, r.at) and not all(paused(p, r.at) for p in times) for r in sent)
        assert run.pauses.height > 10 and run.summary["drops"] == 0
    assert stopped[True] == 0 < stopped[False]


def test_links_that_fail_are_left():
    topo = network(spines=4).with_changes([{"time": "8us", "a": "tor0", "b": "spine1", "up": False}])
    flows = flow_list(topo, CROSSING)
    for parameters in ({}, {"gap": "1s"}):
        run = simulate(topo, flows, parse("least_queue", parameters), measure=EVERYTHING, host=HostConfig(rto="200us"))
        late = run.frame("packets").filter((pl.col("event") == "enqueue") & (pl.col("node") == 16) & (pl.col("time_ns") > 8_000))
        assert run.summary["flows_finished"] == len(flows) and set(late["port"]) & {4, 5, 6, 7} == {4, 6, 7}


def test_flowlets_stay_in_order_and_packets_do_not():
    topo = network(spines=4, uplink_rate="40Gbps")
    flows = flow_list(topo, CROSSING)
    early = {}
    for gap in ("0s", "1ms"):
        run, rows = traced(topo, flows, "least_queue", {"gap": gap})
        latest, early[gap] = defaultdict(int), 0
        for row in rows:
            if row.kind == DATA and row.event == "dequeue" and row.port < 4 and 16 <= row.node < 20:
                early[gap] += row.offset < latest[row.flow]
                latest[row.flow] = max(row.offset, latest[row.flow])
        assert run.flows["retransmitted_bytes"].sum() == 0
    assert early["1ms"] == 0 < early["0s"]


@pytest.mark.parametrize("scheme", ["bfc+least_queue", "uec+least_queue", "dctcp+least_queue", "ndp+least_queue"])
def test_composed_with_a_transport(scheme):
    run = check_threads(scheme)
    assert acted(run) and run.summary["flows_finished"] == len(run.flows)


def test_flows_that_meet_no_other_are_ideal():
    check_alone("least_queue")
    check_alone("least_queue", {"gap": "1us"})


def test_bad_parameters_are_refused():
    check_bad("least_queue", {"entries": 0}, "1..16777216")
    check_bad("least_queue", {"grades": [-1]}, "grades")
    check_bad("least_queue+spray", None, "least_queue and spray both choose the path")
    check_bad("bfc+reps+least_queue", None, "reps and least_queue both choose the path")
