"""Floodgate against the paper's transcription: what is held back, where, when it goes on, and every credit's effect."""

import itertools
from collections import defaultdict, deque
from math import inf
from statistics import median

import polars as pl
import pytest
import test_hpcc
from helpers import (
    EVERYTHING,
    check_alone,
    check_bad,
    check_frames,
    check_threads,
    check_windows,
    incast,
    network,
    pauses_of,
    peers_of,
    planted,
    rows_of,
    traced,
)
from paper import floodgate

from penstock_net.composition import parse
from penstock_net.hashing import flow_hash
from penstock_net.sim.config import HostConfig, Measure
from penstock_net.sim.simulate import simulate
from penstock_net.topology import clos, leaf_spine
from penstock_net.workload import flow_list

QUIET = Measure(sample="0s")
QUANTUM = 1048
HEADER = 58
CREDIT = 3


class Replay:
    """Every switch of a run as a transcription; the run's packets are put through them."""

    def __init__(self, topo, flows, rows, scheme, parameters=None, seed=1):
        values = parse(scheme, parameters).values("floodgate")
        self.values, self.topo, self.flows, self.peers = values, topo, flows, peers_of(topo)
        self.T = values["t"]
        self.models, self.ticks, self.owed = {}, {}, defaultdict(int)
        self.frames = defaultdict(deque)  # (switch, port) -> frames on their way out of it: (sent at, credits)
        self.expected = defaultdict(deque)  # switch -> packets that a credit let go
        self.psn = {}  # (flow, offset) -> on the packet
        self.hash = {}  # (switch, group, destination) -> VOQ when there was no empty one
        self.pauses = defaultdict(list)  # (switch, port) -> (time, destination, whether a pause)
        self.count = defaultdict(int)
        self.sizes = []  # of credit frames
        for node in range(topo.hosts, topo.hosts + topo.switches):
            self.models[node] = self.model(node)
            random_seed = int(flow_hash(node + (1 << 41), seed)) * 4
            for port in range(int(topo.port_count[node])):
                self.ticks[node, port] = int(flow_hash(port, random_seed)) % self.T if self.T else inf
        for row in sorted(rows, key=lambda r: r.at):
            if row.node >= topo.hosts:
                self.step(row)
        assert not any(self.expected.values())
        assert all(not m.here and not m.voq_of for m in self.models.values())

    def model(self, node):
        values, topo = self.values, self.topo
        ports = {p: self.peers[node, p] for p in range(int(topo.port_count[node]))}
        up = {p: topo.tier[peer] > topo.tier[node] for p, (peer, *_) in ports.items() if peer >= topo.hosts}
        middle = any(up.values()) and not all(up.values())
        slack = 3 * QUANTUM + HEADER + values["entry"]
        bdp = {p: 2 * delay // ps for p, (_, _, delay, ps) in ports.items()}
        limited = [p for p in up if values["down"] or up[p] or not middle]
        window = {p: int(values["m"] * bdp[p]) + self.T // ports[p][3] + slack for p in limited}
        half = values["voqs"] // 2
        group = {}
        if values["groups"] == 2 and middle and half:
            group = {p: range(half) if up[p] else range(half, values["voqs"]) for p in up}
        hosts = [p for p in ports if p not in up] if values["host_pause"] else []
        return floodgate.Switch(
            window,
            values["voqs"],
            group,
            values["thre_credit"] * max(bdp.values()),
            delays=self.T > 0,
            thre_off={p: values["thre_off"] * bdp[p] for p in hosts},
            thre_on={p: values["thre_on"] * bdp[p] for p in hosts},
        )

    def tell(self, node, port, at):
        """A credit frame, if there is something to tell."""
        self.owed[node, port] = 0
        credits = self.models[node].credits(port)
        if credits:
            self.frames[node, port].append((at, credits))
            self.count["frames"] += 1

    def run_timer(self, node, port, until):
        """The timer T of an ingress, at each multiple of T."""
        while self.ticks[node, port] < until:
            waiting = [d for p, d in self.models[node].emitting if p == port]
            if not waiting:
                self.ticks[node, port] += (until - self.ticks[node, port] - 1) // self.T * self.T + self.T
                return
            sent = self.count["frames"]
            self.tell(node, port, self.ticks[node, port])
            self.count["delayed"] += sent == self.count["frames"]
            self.ticks[node, port] += self.T

    def step(self, row):
        for port in range(int(self.topo.port_count[row.node])):
            self.run_timer(row.node, port, row.at)
        model, key = self.models[row.node], (row.flow, row.offset)
        if row.kind == 2:
            if row.event == "receive" and row.flow == CREDIT:
                self.credit(row, model)
        elif row.kind == 0:
            if row.event == "dequeue":
                self.leave(row, model, key)
            elif key in model.here:
                expected = self.expected[row.node]
                assert row.event == "enqueue" and expected and expected.popleft() == key, row
                dst = int(self.flows.dst[row.flow])
                self.count["released"] += 1
                left = self.count_held(model, dst, row.node)
                self.pauses_end(row, model, dst, left)
            else:
                self.arrive(row, model, key)

    def count_held(self, model, dst, node):
        """What the VOQ held just after this one of the packets that a credit lets go."""
        return model.voq_length(dst) + sum(model.here[k].size for k in self.expected[node] if model.here[k].dst == dst)

    def arrive(self, row, model, key):
        assert not self.expected[row.node], f"{row}: before it packets should have gone on"
        dst = int(self.flows.dst[row.flow])
        packet = floodgate.Packet(key, row.in_port, row.port, dst, row.size, self.psn.get(key))
        chosen = model.on_data(packet, row.queue if row.event == "hold" else None)
        assert row.event == ("enqueue" if chosen is None else "hold"), row
        if chosen is None:
            return
        assert row.queue == chosen, row
        self.count["held"] += 1
        group = model.group.get(row.port, range(model.voqs))
        assert chosen in group
        if sum(d != dst for d in model.voq_of if model.voq_of[d] == chosen):
            self.count["shared"] += 1
        if model.dst_pause(packet):
            self.pauses[row.node, row.in_port].append((row.at, dst, True))

    def pauses_end(self, row, model, dst, left):
        for port in model.dst_resume(dst, left):
            self.pauses[row.node, port].append((row.at, dst, False))

    def leave(self, row, model, key):
        packet = model.here[key]
        self.psn[key] = model.on_leave(key)
        if packet.psn is None:
            return
        self.owed[row.node, packet.ingress] += packet.size
        if self.T == 0 or 0 < self.values["credit_bytes"] <= self.owed[row.node, packet.ingress]:
            self.tell(row.node, packet.ingress, row.at)

    def credit(self, row, model):
        peer, port, delay, ps_per_byte = self.peers[row.node, row.port]
        self.run_timer(peer, port, row.at)
        at, credits = self.frames[peer, port].popleft()
        assert row.size == max(64, HEADER + self.values["entry"] * len(credits)), row
        wire = delay + row.size * ps_per_byte
        assert wire <= row.at - at <= wire + 2500 * ps_per_byte, f"{row}: sent at {at}"
        assert not self.expected[row.node]
        self.expected[row.node].extend(p.name for p in model.on_credit(row.port, credits))
        self.count["credits"] += 1
        self.sizes.append(row.size)


def crowd(topo):
    """Three incasts, and others in both directions."""
    hosts, half = topo.hosts, topo.hosts // 2
    more = [(s, 1, 40_000 + 900 * s, f"{3000 + 137 * s}ns") for s in range(half - 2, hosts)]
    more += [(s, half + 1, 30_000 + 700 * s, f"{2000 + 91 * s}ns") for s in range(half)]
    more += [(i, hosts - 1 - i, 90_000, f"{3 * i}us") for i in range(half - 2)]
    sizes = [60_000 + 1700 * i for i in range(hosts - half + 2)]
    return incast(topo, range(half - 2, hosts), size=sizes, every_ns=400, more=more)


def replayed(topo, scheme, parameters=None, flows=None, **more):
    flows = flows if flows is not None else crowd(topo)
    run, rows = traced(topo, flows, scheme, parameters, **more)
    assert run.summary["drops"] == 0
    return run, Replay(topo, flows, rows, scheme, parameters)


SMALL = {"m": 0.5, "t": "2us"}
TIGHT = {"m": 0.2, "t": "1us", "thre_credit": 0.16768}  # four packets
CASES = {
    "paper": ("floodgate", {}, 2),
    "small windows": ("floodgate", SMALL, 2),
    "one byte short of 15 packets": ("floodgate", {"m": 0.5, "t": 0, "entry": 17}, 2),
    "delayed": ("floodgate", TIGHT, 2),
    "one VOQ": ("floodgate", {**SMALL, "voqs": 1}, 2),
    "two VOQs": ("floodgate", {**SMALL, "voqs": 2}, 3),
    "mixed": ("floodgate", {**SMALL, "groups": 1, "voqs": 2}, 3),
    "groups": ("floodgate", {**SMALL, "voqs": 5}, 3),
    "ideal": ("floodgate:ideal", {"m": 0.5, "thre_off": 0.16768, "thre_on": 0.08384}, 2),
    "ideal, three tiers": ("floodgate:ideal", {"m": 0.5, "voqs": 2}, 3),
    "ns3": ("floodgate:ns3", {"m": 0.1, "t": "1us"}, 2),
    "ns3, three tiers": ("floodgate:ns3", {"m": 0.1, "t": "1us", "thre_credit": 0.3}, 3),
    "ns3_ideal": ("floodgate:ns3_ideal", {"m": 0.1}, 2),
    "with bfc": ("bfc+floodgate", {"floodgate.m": 0.2, "floodgate.t": "1us"}, 2),
    "with dqa": ("dqa+floodgate", {"floodgate.m": 0.2, "floodgate.t": "1us"}, 2),
    "with dcqcn": ("dcqcn+floodgate", {"floodgate.m": 0.2, "floodgate.t": "1us"}, 2),
    "with hpcc": ("hpcc+floodgate", {"floodgate.m": 0.2, "floodgate.t": "1us"}, 2),
    "with dctcp": ("dctcp+floodgate", {"floodgate.m": 0.2, "floodgate.t": "1us"}, 2),
}
NETWORKS = {2: network, 3: lambda: clos(pods=2, tors=2, aggs=2, cores=2, hosts_per_tor=4, uplink_rate="100Gbps")}


@pytest.mark.parametrize("case", CASES)
def test_every_decision_is_the_paper_s(case):
    """Hold or pass, the VOQ, the order in which a credit lets packets go, every frame's time, size and effect."""
    scheme, parameters, tiers = CASES[case]
    topo = NETWORKS[tiers]()
    run, replay = replayed(topo, scheme, parameters)
    count = replay.count
    assert count["held"] == count["released"] > 500 and 50 < count["credits"] <= count["frames"] <= count["credits"] + 5
    assert (count["shared"] > 100) == (case in ("one VOQ", "two VOQs", "mixed", "ideal, three tiers"))
    assert (count["delayed"] > 5) == (case in ("delayed", "ns3, three tiers"))
    most = run.frame("nodes")["max_voqs"].to_list()
    assert {n: m.most for n, m in replay.models.items()} == dict(enumerate(most[topo.hosts :], topo.hosts))
    if replay.values["host_pause"]:
        assert check_frames(run, topo, replay.pauses) > 60
        to_host = run.ports["peer"].is_between(0, topo.hosts - 1)
        assert run.ports.filter(~to_host)["pauses_sent"].sum() == 0
    elif "with" not in case:
        assert not pauses_of(run)
    frames = sum(size for size in replay.sizes)  # the overhead that the ports report
    if "with" not in case and not replay.values["host_pause"]:
        assert run.ports["control_bytes"].sum() - frames in range(6 * 100)


MISTAKES = {  # case, what is wrong
    "a larger window": ("small windows", "to.inflight + pkt.size <= my_port", "to.inflight <= my_port"),
    "credits of what is stored": (
        "small windows",
        "cell.credited = cell.received - cell.stored\n                pkt",
        "cell.credited = cell.received\n                pkt",
    ),
    "delays": (
        "delayed",
        "floodgate.t == 0 or destinations_at(my_node(floodgate, node), dst).held <= my_node(floodgate, node).thre",
        "1",
    ),
    "a packet of each VOQ": (
        "small windows",
        "    while again:\n        again = 0\n        for i",
        "    if again:\n        again = 0\n        for i",
    ),
    "the groups of VOQs": ("groups", "first = half if port.up < 0 else 0", "first = 0"),
    "the host is paused late": ("ideal", "floodgate.thre_off * mine.hop_bdp", "2 * floodgate.thre_off * mine.hop_bdp"),
    "the host is resumed late": ("ideal", "to.held <= floodgate.thre_on * mine.hop_bdp", "to.held == 0"),
    "windows down": ("ns3, three tiers", "floodgate.down or port.up >= 0 or not mine.middle", "1"),
    "what an ingress owes": ("ns3", "mine.owed >= floodgate.credit_bytes", "mine.owed > 2 * floodgate.credit_bytes"),
    "no credit at once": ("ideal", "    if floodgate.t == 0 or (floodgate.credit_bytes", "    if (floodgate.credit_bytes"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found(tmp_path, mistake):
    case, right, wrong = MISTAKES[mistake]
    name, parameters, tiers = CASES[case]
    file, topo = planted(tmp_path, "floodgate", right, wrong), NETWORKS[tiers]()
    with pytest.raises(AssertionError):
        run, rows = traced(topo, crowd(topo), file + name.removeprefix("floodgate"), parameters)
        replay = Replay(topo, crowd(topo), rows, name, parameters)
        check_frames(run, topo, replay.pauses)


def test_what_is_under_way_never_exceeds_the_window():
    """From the trace alone: bytes for a destination that one switch has sent on and the next one has not."""
    topo = network()
    run, rows = traced(topo, crowd(topo), "floodgate", SMALL)
    window = 12_500 + 25_000 + 3 * QUANTUM + HEADER + 8  # 0.5 x 25 kB, 2 us of 100 Gbit/s, and the slack
    peers, under, most, flows = peers_of(topo), defaultdict(int), defaultdict(int), crowd(topo)
    for row in sorted(rows, key=lambda r: (r.at, r.event != "dequeue")):
        if row.kind or row.node < topo.hosts or row.event not in ("enqueue", "dequeue"):
            continue
        dst = int(flows.dst[row.flow])
        if row.event == "enqueue" and peers[row.node, row.port][0] >= topo.hosts:
            under[row.node, dst] += row.size
            most[row.node] = max(most[row.node], under[row.node, dst])
        elif row.event == "dequeue" and peers[row.node, row.in_port][0] >= topo.hosts:
            under[peers[row.node, row.in_port][0], dst] -= row.size
    assert max(most.values()) <= window and max(most.values()) > window - 2 * QUANTUM
    assert not any(under.values()) and run.summary["drops"] == 0


def credits_of(run, topo):
    """(switch, port) -> when credits came in."""
    out = defaultdict(list)
    for row in rows_of(run):
        if row.event == "receive" and row.flow == CREDIT:
            out[row.node, row.port].append(row.at)
    return out


def test_credits_are_aggregated():
    """At most one frame from each ingress per T, for all destinations; with T = 0 one for each packet."""
    topo = network()
    run, _ = traced(topo, crowd(topo), "floodgate")
    gaps = [b - a for times in credits_of(run, topo).values() for a, b in itertools.pairwise(times)]
    assert len(gaps) > 40 and min(gaps) > 10_000_000 - 2 * QUANTUM * 80
    ideal, rows = traced(topo, crowd(topo), "floodgate:ideal")
    peers = peers_of(topo)
    packets = sum(r.event == "dequeue" and r.kind == 0 and min(r.node, peers[r.node, r.in_port][0]) >= topo.hosts for r in rows)
    assert packets - 5 <= sum(map(len, credits_of(ideal, topo).values())) <= packets
    share = [r.ports["control_bytes"].sum() / r.ports["tx_bytes"].sum() for r in (run, ideal)]
    assert share[0] < 0.005 < 0.01 < share[1] < 0.06  # figure 18: 0.175 % and 3 %


def test_delayed_credits_keep_the_spines_empty():
    """Section 6.5: once the first windows are through, the spines hold what the threshold says, the senders' ToRs the rest."""
    topo = network(hosts=64, tors=16)
    flows, held = incast(topo, range(4, 64), size=60_000), []
    for thre in (1000, 0.2):
        parameters = {"m": 0.5, "t": "1us", "thre_credit": thre}
        run = simulate(topo, flows, parse("floodgate", parameters), measure=Measure(sample="2us"))
        later = run.switches.filter((pl.col("time_ns") > 100_000) & (pl.col("time_ns") < 250_000) & (pl.col("switch") >= 80))
        held.append(later["buffer_bytes"].mean())
    assert 10_000 < held[1] < 0.5 * held[0]


@pytest.mark.parametrize("scheme", ["floodgate", "floodgate:ideal", "floodgate:ns3", "floodgate:ns3_ideal", "bfc+floodgate"])
def test_a_lone_flow_is_left_alone(scheme):
    check_alone(scheme)


def test_less_than_a_bdp_slows_a_lone_flow():
    topo = network()
    run = simulate(topo, flow_list(topo, [(0, 15, 10**6)]), parse("floodgate", {"m": 0.1, "t": 0}), measure=QUIET)
    assert run.flows["slowdown"][0] > 3


def test_ecn_counts_what_is_held():
    """Section 8: a packet is marked when what is stored for its port, queued or held, exceeds K."""
    topo = network()
    parameters = {"floodgate.m": 0.2, "floodgate.t": "1us", "ecn.k_min": "30KB", "ecn.k_max": "30KB"}
    _, rows = traced(topo, crowd(topo), "dctcp+floodgate", parameters)
    marked, seen = defaultdict(bool), [0, 0, 0]
    for row in rows:
        if row.event == "dequeue" and row.kind == 0 and row.node >= topo.hosts:
            marks = row.port_bytes > 30_000
            marked[row.flow, row.offset] |= marks
            assert row.ecn == marked[row.flow, row.offset], row
            seen[0] += marks and row.queue_bytes <= 30_000
            seen[1] += marks
            seen[2] += not marks
    assert min(seen) > 100


def test_hpcc_does_not_see_what_is_held_unless_it_was_held():
    """Section 8: INT's qlen leaves out what is held, but not in packets that were held.  Its windows tell."""
    topo = network()
    flows = incast(
        topo,
        range(4, 16),
        size=[150_000 + 9000 * i for i in range(12)],
        every_ns=1100,
        more=[(s, 1, 100_000, "40us") for s in (4, 5)],
    )
    parameters = {"floodgate.m": 0.2, "floodgate.t": "1us", "host.ack_priority": "data"}
    run, rows = traced(topo, flows, "hpcc+floodgate", parameters, measure=test_hpcc.SAMPLES)
    held, once, adapted, hidden = defaultdict(int), set(), [], 0
    for row in rows:
        key, port = (row.node, row.flow, row.offset, row.kind), (row.node, row.port)
        if row.event == "hold":
            held[port] += row.size
            once.add(key)
            adapted.append(row._replace(event="enqueue"))
        elif row.event == "enqueue" and key in once:
            held[port] -= row.size
        elif row.event == "dequeue" and row.kind == 0 and key not in once:
            hidden += held[port] > 0
            adapted.append(row._replace(port_bytes=row.port_bytes - held[port]))
        else:
            adapted.append(row)
    _, _, windows = test_hpcc.trajectories(topo, flows, adapted, "hpcc+floodgate", parameters)
    assert sum(check_windows(run, flow, got) for flow, got in windows.items()) > 500 and len(once) > 200 and hidden > 50


def test_int_and_ecn_see_the_same_without_voqs():
    topo = network()
    flows = incast(topo, [4, 8], size=100_000)
    runs = [simulate(topo, flows, name, measure=QUIET) for name in ("hpcc", "hpcc+floodgate")]
    assert runs[0].flows["finish_ns"].to_list() == runs[1].flows["finish_ns"].to_list()


# ---- Hosts' support (section 4.3) ----


def test_a_host_paused_for_one_destination_sends_to_others():
    topo = network()
    flows = incast(topo, range(4, 16), size=400_000, more=[(4, 12, 400_000, "30us")])
    run = simulate(topo, flows, parse("floodgate:ideal"), measure=Measure(sample="0s", pauses=True))
    paused = run.pauses.filter((pl.col("node") == 4) & pl.col("paused"))
    assert set(paused["queue"].to_list()) == {0} and run.flows["paused_ns"][0] > 100_000
    assert run.flows["slowdown"][-1] < 2.2 and run.flows["paused_ns"][-1] == 0  # it shares its NIC, no more
    nodes = run.frame("nodes")
    without = simulate(topo, flows, parse("floodgate:ideal", {"host_pause": False}), measure=QUIET).frame("nodes")
    assert nodes["max_buffer_bytes"].max() < 0.2 * without["max_buffer_bytes"].max()


def test_a_lease_ends_unless_it_is_renewed():
    """The ToR's resume cannot come: the host's link lost it, or the ToR knows nothing any more."""
    topo = network()
    flows = incast(topo, range(4, 16), size=200_000)
    told = Measure(sample="0s", pauses=True)
    whole = simulate(topo, flows, parse("floodgate:ideal"), measure=told)
    lost = simulate(topo, flows, parse("floodgate:ideal", {"lease": "20us"}), control_loss=0.3, measure=told, max_time_ps=10**11)
    assert lost.summary["flows_finished"] == len(flows) and lost.summary["end_ns"] < 2 * whole.summary["end_ns"]
    for node in range(4, 16):  # the last word is always a resume
        assert not lost.pauses.filter(pl.col("node") == node)["paused"].to_list()[-1]


def test_a_lease_is_renewed_as_long_as_the_voq_is_long():
    """A lease of 4 us, pauses of some 100 us: no host sends before the pause ends."""
    topo = network()
    flows = incast(topo, range(4, 16), size=200_000)
    runs = [
        simulate(topo, flows, parse("floodgate:ideal", {"lease": lease}), measure=Measure(sample="0s", pauses=True))
        for lease in ("10ms", "8us")
    ]
    of = [sum(len(got) for got in pauses_of(run).values()) for run in runs]
    assert of[0] == of[1] > 20
    assert runs[0].flows["finish_ns"].to_list() == pytest.approx(runs[1].flows["finish_ns"].to_list(), rel=0.01)


# ---- The deadlock of figure 4 (section 4.2) ----


def figure_4():
    """Hosts of pod A send to one of pod B and the other way round, by one aggregation switch each and one core."""
    topo = clos(pods=2, tors=2, aggs=1, cores=1, hosts_per_tor=2, uplink_rate="100Gbps")
    a, b = 0, 4
    return topo, flow_list(topo, [*[(s, b, 300_000, "1us") for s in (1, 2, 3)], *[(s, a, 300_000, "1us") for s in (5, 6, 7)]])


@pytest.mark.parametrize("t", [0, "1us"])
def test_up_and_down_in_one_voq_lock_up_for_ever(t):
    topo, flows = figure_4()
    small, host = {"m": 0.2, "t": t}, HostConfig(rto="100ms")
    mixed = parse("floodgate", {**small, "groups": 1, "voqs": 1})
    run = simulate(topo, flows, mixed, measure=EVERYTHING, max_time_ps=5 * 10**10, host=host)
    assert run.summary["flows_finished"] == 0
    moved = [r.at for r in rows_of(run) if r.kind == 0 and r.node >= topo.hosts]
    assert max(moved) < 10**9  # nothing in the other 49 ms
    run = simulate(topo, flows, parse("floodgate", {**small, "groups": 2, "voqs": 2}), measure=QUIET, host=host)
    assert run.summary["flows_finished"] == len(flows) and run.summary["retransmissions"] == 0
    assert run.frame("nodes").filter(pl.col("tier") == 2)["max_voqs"].max() == 2


# ---- Loss (section 4.3) ----


@pytest.mark.parametrize("lasting", [3, 150])
@pytest.mark.parametrize("scheme", ["floodgate", "floodgate:ideal", "floodgate:ns3"])
def test_windows_are_whole_again_after_a_storm(scheme, lasting):
    """Links come and go, and data and credits with them; afterwards a lone flow and an incast take what they always took."""
    storm = [(s, 0, 300_000, "1us") for s in range(4, 16)]
    later = [(4, 0, 500_000, "20ms"), *[(s, 0, 200_000, "30ms") for s in range(4, 16)]]
    topo = network()
    lost = (20, "tor0", "spine0"), (40, "tor1", "spine1"), (60, "tor2", "spine0"), (90, "tor0", "spine1"), (120, "tor3", "spine1")
    cuts = [{"time": f"{at + lasting * k}us", "a": tor, "b": spine, "up": bool(k)} for at, tor, spine in lost for k in (0, 1)]
    whole, cut = (
        simulate(
            net,
            flow_list(net, storm + later),
            parse(scheme, {"syn_timeout": "30us"}),
            measure=QUIET,
            host=HostConfig(rto="500us"),
        )
        for net in (topo, topo.with_changes(cuts))
    )
    assert cut.summary["drops"] > 10 and cut.summary["flows_finished"] == 25
    times = [(run.flows["finish_ns"] - run.flows["start_ns"])[12:].to_list() for run in (whole, cut)]
    assert times[0] == times[1]


@pytest.mark.parametrize("scheme", ["floodgate", "floodgate:ideal", "floodgate:ns3"])
def test_throughput_with_lost_credits(scheme):
    """Figure 12: with 5 % of the frames lost no obvious effect, with 10 % little."""
    topo = network()
    flows = incast(topo, range(4, 16), size=400_000)

    def end(loss):  # in some seeds it waits for `syn_timeout`
        runs = [simulate(topo, flows, scheme, measure=QUIET, control_loss=loss, seed=seed) for seed in range(1, 6)]
        return median(run.summary["end_ns"] for run in runs)

    assert end(0.05) < 1.03 * end(0) and end(0.1) < 1.06 * end(0)


@pytest.mark.parametrize("loss", [0.05, 0.1])
def test_throughput_with_lost_data(loss):
    """Go-back-N costs more than Floodgate: compared with the same loss without it."""
    topo = network().with_loss(loss)
    flows = incast(topo, range(4, 16), size=100_000)
    host = HostConfig(rto="200us")
    ends = [
        simulate(topo, flows, parse(*s), measure=QUIET, host=host).summary["end_ns"]
        for s in (("pfc", {}), ("floodgate", {"syn_timeout": "100us"}))
    ]
    assert ends[1] < 1.5 * ends[0]


def test_what_a_dead_link_lost_does_not_narrow_the_other_paths():
    """Half of the window is lost with a link; credits by the other one keep coming, and the rest is asked for all the same."""
    topo = leaf_spine(hosts=8, tors=2, spines=2)
    flows = flow_list(topo, [(4 + i % 4, 0, 300_000, f"{i}us") for i in range(60)])
    cut = [{"time": "100us", "a": "tor1", "b": "spine0", "up": False}, {"time": "101us", "a": "tor1", "b": "spine0", "up": True}]
    host = HostConfig(rto="200us")
    parameters = {"t": 0, "m": 1.0, "syn_timeout": "50us"}
    ends = [
        simulate(net, flows, parse("floodgate", parameters), measure=QUIET, host=host).summary["end_ns"]
        for net in (topo, topo.with_changes(cut))
    ]
    assert ends[1] < 1.15 * ends[0] + 400_000


def test_a_voq_goes_on_when_one_of_its_destinations_has_all_credits():
    """Two destinations in one VOQ: what the first one's last packet frees may have had its credits long before."""
    slow = [{"time": "0us", "a": "host0", "b": "tor0", "rate": "1Gbps"}]
    topo = leaf_spine(hosts=8, tors=4, spines=1).with_changes(slow)
    flows = flow_list(topo, [(2, 0, 60_000, "1us"), (3, 1, 60_000, "2us"), (4, 0, 60_000, "1us"), (5, 1, 60_000, "1us")])
    run = simulate(topo, flows, parse("floodgate", {"voqs": 1, "m": 0.1, "t": 0}), measure=QUIET, max_time_ps=10**10)
    assert run.summary["flows_finished"] == len(flows) and run.summary["retransmissions"] == 0


@pytest.mark.parametrize("scheme", ["floodgate", "floodgate:ideal"])
@pytest.mark.parametrize("tor", ["tor0", "tor1"], ids=["the receivers' link", "the senders' link"])
def test_a_link_that_stays_down_does_not_block_other_paths(scheme, tor):
    """Packets that wait for it fill no window, at this switch or the one before; packets by other paths are not delayed."""
    topo = leaf_spine(hosts=8, tors=2, spines=2).with_changes([{"time": "60us", "a": tor, "b": "spine0", "up": False}])
    flows = flow_list(topo, [(s, d, 400_000, f"{s - 4}us") for d in (0, 1) for s in range(4, 8)])
    host = HostConfig(rto="200us")
    run = simulate(topo, flows, parse(scheme, {"syn_timeout": "200us"}), measure=QUIET, host=host, max_time_ps=10**10)
    assert run.summary["flows_finished"] == len(flows) and run.summary["end_ns"] < 3e6, run.summary["end_ns"]


def test_a_window_that_waits_for_a_dead_link_is_given_back():
    """All of it is at the spine that has lost its link to the receiver; the other spine has just got one."""
    topo = leaf_spine(hosts=16, tors=4, spines=2, uplink_rate="10Gbps")
    changes = ("0us", "spine1", False), ("400us", "spine1", True), ("401us", "spine0", False)
    topo = topo.with_changes([{"time": at, "a": "tor0", "b": spine, "up": up} for at, spine, up in changes])
    flows = flow_list(topo, [(s, 0, 200_000, "1us") for s in range(4, 16)])
    scheme = parse("floodgate", {"syn_timeout": "100us", "t": "1us", "m": 0.1, "thre_credit": 1000})
    run = simulate(topo, flows, scheme, measure=QUIET, host=HostConfig(rto="1ms"), max_time_ps=10**11)
    assert run.summary["flows_finished"] == len(flows) and run.summary["end_ns"] < 5.2e6  # 5.7 ms if it were not


def test_delayed_credits_are_sent_though_nothing_more_comes_from_that_ingress():
    """With `credit_bytes` below a packet every dequeue sends; the timer is there for what was delayed."""
    topo = leaf_spine(hosts=32, tors=8, spines=1)
    flows = flow_list(topo, [(s, 0, 120_000, "1us") for s in range(4, 32)])
    parameters = {"t": "1us", "m": 0.1, "thre_credit": 0.1, "credit_bytes": 1000, "syn_timeout": "10ms"}
    run = simulate(topo, flows, parse("floodgate", parameters), measure=QUIET, max_time_ps=10**10)
    assert run.summary["flows_finished"] == len(flows) and run.summary["end_ns"] < 1e6


def test_any_number_of_threads_gives_the_same_results():
    run = check_threads("floodgate", TIGHT)
    assert run.ports["control_bytes"].sum() > 0 and run.frame("nodes")["max_voqs"].max() > 0
    check_threads("floodgate:ideal", {"voqs": 2}, control_loss=0.05)


def test_parts_and_presets():
    assert list(parse("floodgate").parts) == ["pfc", "floodgate"]


def test_bad_parameters_are_refused():
    check_bad("floodgate", {"voqs": 0}, "1..4096")
    check_bad("floodgate", {"groups": 3}, "1..2")
    check_bad("floodgate", {"m": 0}, "0.01..1000")
