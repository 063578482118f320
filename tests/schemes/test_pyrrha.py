"""Pyrrha beside a transcription of its authors' rules, a dialogue by hand, its laws, and what its authors' simulator gave."""

from collections import Counter, defaultdict, deque
from pathlib import Path

import pytest
from drawn import examples
from helpers import acted, check_alone, check_bad, check_threads, incast, network, peers_of, planted, traced
from hypothesis import given
from hypothesis import strategies as st
from paper import pyrrha

import penstock_net as ps
from penstock_net.composition import parse
from penstock_net.sim.config import HostConfig
from penstock_net.sim.simulate import simulate
from penstock_net.topology import clos, leaf_spine
from penstock_net.workload import flow_list

TOLERANT = str(Path(__file__).parent / "hooks/tolerant.py")
PATIENT = HostConfig(rto="1s")
KINDS = {0: "RESUME", 1: "PAUSE", 3: "DEALLOC", 4: "MERGE"}
NAMES = {"nearest": "nearest", "merge": "merges", "dealloc": "deallocates"}
FRAME = 64


def paths_of(rows, hosts):
    """Flow -> the <switch, port> of its hops, as its first packet took them."""
    out = defaultdict(list)
    for row in sorted(rows, key=lambda r: r.at):
        if row.event == "dequeue" and row.kind == 0 and row.offset == 0 and row.node >= hosts:
            out[row.flow].append((row.node, row.port))
    return {flow: tuple(hops) for flow, hops in out.items()}


class Replay:
    """Every switch of a run as a transcription; the run's packets and frames are put through them."""

    def __init__(self, topo, rows, parameters):
        self.values = parse("pyrrha", parameters).values("pyrrha")
        self.topo, self.peers, self.paths = topo, peers_of(topo), paths_of(rows, topo.hosts)
        self.models = {node: self.model(node) for node in range(topo.hosts, topo.hosts + topo.switches)}
        self.hosts = {host: pyrrha.Host() for host in range(topo.hosts)}
        self.told = defaultdict(list)  # host -> (time, roots that are paused from then on)
        self.frames = defaultdict(deque)  # (node, port) -> (time, frame) on their way out of it
        self.sent = Counter()  # kinds of frames
        self.log = []  # (time, node, frame), as sent
        self.ahead = defaultdict(deque)  # moves that the trace shows before what makes them
        self.expected = defaultdict(deque)  # moves that are still to be seen
        self.count = Counter()
        self.waited = set()  # flows that were in a CIQ
        for row in sorted(rows, key=lambda r: r.at):
            self.step(row)
        assert not any(self.expected.values()) and not any(self.ahead.values())

    def model(self, node):
        ports = {port: self.peers[node, port] for port in range(int(self.topo.port_count[node]))}
        to_hosts = {port for port, (peer, *_) in ports.items() if peer < self.topo.hosts}
        up = {port for port, (peer, *_) in ports.items() if self.topo.tier[peer] > self.topo.tier[node]}
        may = {"any": None, "down": lambda port: port not in up, "last": lambda port: port in to_hosts}
        kinds = ("any", "down", "last")
        roots = self.values["roots"]
        return pyrrha.Switch(
            node,
            {port: gap for port, (_, _, _, gap) in ports.items()},
            {port: delay for port, (_, _, delay, _) in ports.items()},
            up,
            to_hosts,
            self.values["th_congestion"],
            self.values["th_resume"],
            self.values["th_hol"],
            may[roots if roots in may else kinds[roots]],
            **{theirs: bool(self.values[ours]) for ours, theirs in NAMES.items()},
        )

    def step(self, row):
        if row.kind == 2:
            if row.event == "receive":
                self.frame(row)
        elif row.kind == 0 and row.node >= self.topo.hosts:
            model, key = self.models[row.node], (row.flow, row.offset)
            if row.event == "dequeue":
                assert key in model.passing, row
                model.on_leave(key)
                self.follow(row, self.ahead[row.node])
            elif self.is_waiting(model, row.port, key):
                self.move(row, key)
            else:
                self.arrive(row, model, key)
            self.post(row)

    def is_waiting(self, model, port, key):
        return any(p.name == key for e in model.roots.values() for p in e.ciq.get(port, ())) or any(
            name == key for name, _ in self.expected[model.number]
        )

    def move(self, row, key):
        seen = key, row.event == "hold"
        if self.expected[row.node]:
            assert self.expected[row.node].popleft() == seen, row
        else:
            self.ahead[row.node].append(seen)
        self.count["moved on" if row.event == "hold" else "released"] += 1

    def follow(self, row, seen):
        """The moves that the model has made now, of which the trace has shown these."""
        model = self.models[row.node]
        for name, root in model.moves:
            if seen:
                assert seen.popleft() == (name, root is not None), row
            else:
                self.expected[row.node].append((name, root is not None))
        model.moves.clear()
        assert not seen, f"{row}: {seen} should not have moved"

    def arrive(self, row, model, key):
        assert not self.expected[row.node], f"{row}: before it packets should have moved"
        path = self.paths[row.flow]
        at = path.index((row.node, row.port))
        packet = pyrrha.Packet(key, row.in_port, row.port, row.size, path[at + 1 :])
        root = model.on_packet(packet)
        assert row.event == ("enqueue" if root is None else "hold"), row
        self.count["held" if root else "passed"] += 1
        if root:
            self.waited.add(row.flow)
        if at == 0:
            peer, _, delay, gap = self.peers[row.node, row.in_port]
            self.check_host(row, peer, row.at - delay - row.size * gap, path)

    def check_host(self, row, host, sent, path):
        """No root on the path was paused; what was told at this very time may have come before the packet left, or after it."""
        before = [roots for time, roots in self.told[host] if time < sent][-1:] or [set()]
        now = [roots for time, roots in self.told[host] if time == sent]
        assert any(not roots & set(path) for roots in before + now), f"{row}: sent at {sent}, {self.told[host]}"

    def post(self, row):
        for frame in self.models[row.node].frames:
            self.frames[row.node, frame.port].append((row.at, frame))
            self.log.append((row.at, row.node, frame))
            self.sent[frame.kind] += 1
        self.models[row.node].frames.clear()

    def frame(self, row):
        peer, port, delay, gap = self.peers[row.node, row.port]
        assert self.frames[peer, port], f"{row}: nothing was sent"
        at, frame = self.frames[peer, port].popleft()
        assert KINDS[row.flow] == frame.kind and row.size == FRAME, f"{row}: {frame}"
        wire = delay + FRAME * gap
        assert wire <= row.at - at <= wire + 3000 * gap, f"{row}: {frame} sent at {at}"
        if row.node < self.topo.hosts:
            self.hosts[row.node].on_frame(frame)
            self.told[row.node].append((row.at, set(self.hosts[row.node].paused)))
            return
        self.models[row.node].on_frame(row.port, frame)
        self.follow(row, deque())
        self.post(row)

    def check_nothing_left(self):
        """Law 4: no entry, and no pause without its end."""
        for model in self.models.values():
            assert not model.roots and not model.passing, model.number
            assert not any(model.upstream.values()), (model.number, model.upstream)
        assert not any(host.paused for host in self.hosts.values())
        assert not any(self.frames.values())

    def check_pauses(self):
        """Law 3: by switch, ingress and root, a pause and its end in turn.  What a merge replaces is ended by it."""
        paused = set()
        for _, node, frame in self.log:
            key = node, frame.port, frame.root
            if frame.kind == "PAUSE":
                assert key not in paused, frame
                paused.add(key)
            elif frame.kind == "RESUME":
                assert key in paused, frame
                paused.remove(key)
            elif frame.kind == "MERGE":
                paused -= {key, (node, frame.port, frame.old)}
        assert not paused


def crowd(topo, size=60_000):
    """Three incasts, and others in both directions."""
    hosts, half = topo.hosts, topo.hosts // 2
    more = [(s, 1, size // 2 + 900 * s, f"{3000 + 137 * s}ns") for s in range(half - 2, hosts)]
    more += [(s, half + 1, size // 2 + 700 * s, f"{2000 + 91 * s}ns") for s in range(half)]
    more += [(i, hosts - 1 - i, 3 * size // 2, f"{3 * i}us") for i in range(half - 2)]
    sizes = [size + 1700 * i for i in range(hosts - half + 2)]
    return incast(topo, range(half - 2, hosts), size=sizes, every_ns=400, more=more)


def series(topo):
    """Short flows of all hosts to one, which start one after the other."""
    return flow_list(topo, [(src, 0, 20_000, f"{2 * i}us") for i in range(15) for src in range(1, topo.hosts)])


def three_tiers():
    return clos(pods=2, tors=2, aggs=2, cores=2, hosts_per_tor=4, uplink_rate="100Gbps")


def replayed(topo, parameters, flows=None, scheme="pyrrha", **more):
    flows = flows or crowd(topo)
    run, rows = traced(topo, flows, f"{scheme}+{TOLERANT}", {"refresh": 0, **parameters}, host=PATIENT, **more)
    assert run.summary["drops"] == run.summary["retransmissions"] == 0
    return run, Replay(topo, rows, parameters)


TIGHT = {"th_congestion": 0.4, "th_resume": 0.2}
CASES = {
    "authors": (network, {}),
    "tight": (network, TIGHT),
    "nearest": (network, {**TIGHT, "nearest": True}),
    "no merge": (network, {**TIGHT, "merge": False}),
    "uplinks": (network, {**TIGHT, "th_hol": 0.5}),
    "down": (network, {**TIGHT, "roots": "down"}),
    "last hops": (network, {**TIGHT, "roots": "last"}),
    "three tiers": (three_tiers, TIGHT),
    "three tiers, nearest": (three_tiers, {**TIGHT, "nearest": True}),
    "three tiers, authors": (three_tiers, {}),
    "starts": (network, TIGHT),
}


def replayed_case(case, scheme="pyrrha"):
    made, parameters = CASES[case]
    topo = made()
    return replayed(topo, parameters, series(topo) if case == "starts" else None, scheme)[1]


@pytest.mark.parametrize("case", CASES)
def test_every_decision_is_the_transcription_s(case):
    """Where each packet waits, when it moves, and each frame's kind, time and effect; laws 3 and 4."""
    replay = replayed_case(case)
    assert replay.count["held"] > 0 and replay.sent["PAUSE"] > 10
    replay.check_pauses()
    replay.check_nothing_left()


# ---- a dialogue by hand ----


def test_the_dialogue_of_one_root():
    """100 Gbit/s, uplinks of 400, 1 us, 1000 B, three ToRs, one spine.

    Two hosts send to R: the frames numbered k of both are put into R's queue at 3120 + 80 k and 20 ns later, when it has k + 1 of
    them with these; one leaves each 80 ns.  Frame 50 of the first is the 51st, above 2 x 25 000 B: a pause of 64 B, there after
    1.28 ns + 1 us.  What the spine has sent until then are frames up to 75: 76 are left at 9140, and 24 after 9120 + 52 x 80,
    below 25 000 B.
    """
    topo = leaf_spine(hosts=6, tors=3, spines=1, uplink_rate="400Gbps")
    host = HostConfig(mtu=952, header=48, rto="1s")
    tor, spine, down = 8, 9, 2  # the spine's port to it
    listed = [(0, 4, 2_000_000, "0us"), (2, 4, 2_000_000, "0us"), (0, 5, 952, "9us")]
    run, rows = traced(topo, flow_list(topo, listed), f"pyrrha:ns3+{TOLERANT}", host=host)
    frames = [(row.at, KINDS[row.flow]) for row in rows if row.node == spine and row.kind == 2 and row.port == down]
    assert frames[:2] == [(8_121_280, "PAUSE"), (14_281_280, "RESUME")]
    of_r = [row for row in rows if row.node == spine and row.kind == 0 and row.flow < 2 and row.event in ("hold", "dequeue")]
    held = [row.at for row in of_r if row.event == "hold"]
    assert held[:4] == [8_180_000, 8_180_000, 8_260_000, 8_260_000]
    left = [row.at for row in of_r if row.event == "dequeue"]
    assert [at for at in left if at > 8_130_000][:2] == [14_281_280, 14_301_280]
    longest = max(row.queue_bytes for row in rows if row.node == tor and row.kind == 0 and row.at < 14_000_000)
    assert longest == 76_000
    # V's frame waits at its NIC for that of R which began at 8960 and the next one, and nowhere else: 4 us + 2 x 80 + 2 x 20 ns
    assert run.flows["fct_ns"][2] == 4200 + 120
    assert simulate(topo, flow_list(topo, listed[2:]), parse("pyrrha"), host=host).flows["fct_ns"][0] == 4200


# ---- what its authors' simulator gave on a star (3765687, config-CI.ini) ----


def test_four_to_one_and_a_victim():
    """The longest queue to the byte, and as many frames: 200."""
    topo = ps.star(hosts=16, rate="100Gbps", delay="1us", buffer="12MB")
    host = HostConfig(mtu=1000, header=76, ack_priority="data")
    flows = [*((i, 15, "1MB") for i in range(4)), (0, 14, "200KB", "20us")]
    run = simulate(topo, flow_list(topo, flows), parse("pyrrha:ns3"), host=host)
    assert [t / 1000 for t in run.flows["fct_ns"]] == pytest.approx([346.0, 346.7, 346.6, 346.4, 21.2], rel=0.015)
    assert run.ports["max_queue_bytes"].max() == 130_196
    assert run.ports["pauses_sent"].sum() == 100 and run.ports["control_bytes"].sum() == 200 * FRAME


# ---- laws ----


LAWS = st.fixed_dictionaries(
    {
        "th_congestion": st.sampled_from([0.1, 0.4, 1.0]),
        "th_resume": st.sampled_from([0.001, 0.1, 0.4]),
        "th_hol": st.sampled_from([0.5, 2.0]),
        "nearest": st.booleans(),
        "merge": st.booleans(),
        "roots": st.sampled_from(["any", "down", "last"]),
    }
)
SHAPES = {
    "two tiers": network,
    "oversubscribed": lambda: leaf_spine(hosts=12, tors=3, spines=2, uplink_rate="50Gbps"),
    "fast core": lambda: leaf_spine(hosts=8, tors=4, spines=2, uplink_rate="400Gbps", uplink_delay="300ns"),
    "three tiers": three_tiers,
}


@st.composite
def flows_on(draw, topo):
    hosts = st.integers(0, topo.hosts - 1)
    listed = []
    for _ in range(draw(st.integers(1, 4))):
        dst, start = draw(hosts), draw(st.integers(0, 20_000))
        senders = draw(st.sets(hosts, min_size=1, max_size=topo.hosts - 1)) - {dst}
        listed += [(src, dst, draw(st.integers(1, 60_000)), f"{start}ns") for src in sorted(senders)]
    return flow_list(topo, listed or [(0, 1, 1000, "0us")])


@examples(25)
@given(st.sampled_from(sorted(SHAPES)), LAWS, st.data())
def test_the_laws(shape, parameters, data):
    """Every decision is the transcription's; pauses and their ends in turn; nothing is left when no traffic is."""
    topo = SHAPES[shape]()
    _, replay = replayed(topo, parameters, data.draw(flows_on(topo)), seed=data.draw(st.integers(1, 99)))
    replay.check_pauses()
    replay.check_nothing_left()
    check_ciqs(topo, replay)


def check_ciqs(topo, replay):
    """Law 1: only what passes a root is in a CIQ.  Law 2: no more CIQs at a port than there were roots behind it."""
    roots = {frame.root for _, _, frame in replay.log if frame.kind == "PAUSE"}
    for node, model in replay.models.items():
        behind = defaultdict(set)
        for path in replay.paths.values():
            for i, (switch, port) in enumerate(path):
                if switch == node:
                    behind[port] |= roots & set(path[i + 1 :])
        assert model.most <= sum(map(len, behind.values())), node
    for flow in replay.waited:
        assert roots & set(replay.paths[flow][1:]), flow


# ---- mistakes ----

MISTAKES = {  # case, what is right, what is wrong
    "not the farthest root first": ("three tiers", "hop_of(pyrrha, node, j) > hop)", "hop_of(pyrrha, node, j) < hop)"),
    "the ordinary queue with what is held": ("tight", "return port.bytes - port.held", "return port.bytes"),
    "resumed at the first threshold": ("tight", "slot, part.bytes, pyrrha.th_resume)", "slot, part.bytes, pyrrha.th_congestion)"),
    "roots resumed when empty": ("authors", "slot, queued(port), pyrrha.th_resume)", "slot, 1 + queued(port), 0.001)"),
    "an uplink is a root as a downlink is": ("tight", "> pyrrha.th_hol * total else 0", ">= 0 else 0"),
    "hops are not counted": (
        "three tiers",
        "root.node, root.slot, root.hop + 1)\n\n\ndef note_out",
        "root.node, root.slot, 1)\n\n\ndef note_out",
    ),
    "merged roots are kept": ("tight", "            mine.upstream[i] = NONE\n            tell_of_two", "            tell_of_two"),
    "no DEALLOC": (
        "tight",
        "            tell(pyrrha, node, slot, DEALLOC, root.node, root.slot, 0)\n            free_ciq",
        "            free_ciq",
    ),
    "freed though a neighbour is held": (
        "three tiers",
        "        if share_of(pyrrha, node, r, slot).told != NONE:\n            return\n",
        "        pass\n",
    ),
    "a CIQ is emptied at once": (
        "tight",
        "            release(node, i)\n            break\n",
        "            release(node, i)\n            continue\n",
    ),
    "hosts are never let go": (
        "tight",
        "            let_go(node, flow)",
        "            hold_flow(node, flow, node.now + 50000000)",
    ),
    "flows that start are not held": (
        "starts",
        "    my_flow(pyrrha, flow).waits = 0\n    hold_or_let_go(pyrrha, node, flow)",
        "    my_flow(pyrrha, flow).waits = 0",
    ),
}


@pytest.mark.thorough
@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_planted_in_the_scheme_are_found(tmp_path, mistake):
    case, right, wrong = MISTAKES[mistake]
    name = planted(tmp_path, "pyrrha", right, wrong)
    with pytest.raises(AssertionError):
        replayed_case(case, name).check_nothing_left()


# ---- beside others ----


def test_a_lone_flow_is_ideal():
    check_alone("pyrrha")


def test_threads_give_the_same_bits():
    run = check_threads("pyrrha", TIGHT)
    assert acted(run) and run.ports["pauses_sent"].sum() > 20


@pytest.mark.parametrize("scheme", ["dcqcn+pyrrha", "hpcc+pyrrha", "pyrrha+window_cap"])
def test_under_a_congestion_control(scheme):
    topo = network()
    run = simulate(topo, crowd(topo), parse(scheme, {f"pyrrha.{key}": value for key, value in TIGHT.items()}))
    assert run.summary["drops"] == 0 and run.frame("nodes")["max_voqs"].max() > 0


def test_with_spraying_links_to_hosts_are_roots():
    """And nothing that is sprayed waits for another one."""
    topo = network()
    run = simulate(
        topo, crowd(topo), parse("pyrrha+spray", {**{f"pyrrha.{k}": v for k, v in TIGHT.items()}, "pyrrha.roots": "last"})
    )
    to_hosts = run.ports["peer"] < topo.hosts
    fifo = simulate(topo, crowd(topo), parse("spray"))
    assert run.frame("nodes")["max_voqs"].max() > 0
    longest = [r.ports.filter(to_hosts)["max_queue_bytes"].max() for r in (run, fifo)]
    assert longest[0] < longest[1] / 2


def test_lost_frames_are_repaired():
    """Pauses end that nobody repeats, and are repeated where they still hold."""
    topo = network()
    parameters = {**TIGHT, "refresh": "20us"}
    run = simulate(
        topo, crowd(topo), parse("pyrrha", parameters), control_loss=0.3, host=HostConfig(rto="1ms"), max_time_ps=10**11
    )
    assert run.summary["flows_finished"] == len(crowd(topo))
    held = simulate(
        topo, crowd(topo), parse("pyrrha:ns3", TIGHT), control_loss=0.3, host=HostConfig(rto="1ms"), max_time_ps=10**10
    )
    assert held.summary["flows_finished"] < len(crowd(topo))


def test_what_does_not_fit_is_refused():
    check_bad("pyrrha", {"th_resume": 0}, "th_resume")
    check_bad("pyrrha", {"ciqs": 0}, "ciqs")
