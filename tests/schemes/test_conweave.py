"""ConWeave: both switches beside the transcription, order, failures, tables that are full, what passes over several tiers."""

import heapq
import random
from itertools import count
from types import SimpleNamespace

import pytest
from alone import check_mistake, zeros
from helpers import DATA, check_alone, check_bad, check_threads, network, traced
from paper import conweave as paper

from penstock_net.composition import FOLDER, parse
from penstock_net.sim.config import HostConfig
from penstock_net.sim.simulate import simulate
from penstock_net.topology import fat_tree
from penstock_net.workload import flow_list

US = 1_000_000
NEVER = 2**62
HOSTS = 24  # 0 to 7 at switch 100, then eight at each of two others
FRAMES = {3: 0, 4: 1}  # REPLY, CLEAR -> phase


# ---- the file as plain Python, at switches that are given packets ----


class File(dict):
    """The scheme with switches of some uplinks, above which there are `fan` ways on."""

    def __init__(self, text="", seed=1, fan=1, **parameters):
        super().__init__(NEVER=NEVER, DATA=0, TRIMMED=32, RETURNED=64, RANDOM_PATH=4, NO_PORT=None, mark=None)
        exec(text or (FOLDER / "conweave.py").read_text(), self)
        values = parse("conweave", parameters).values("conweave")
        world = SimpleNamespace(host_count=HOSTS, base_rtt=8 * US)
        at = SimpleNamespace(index=0, kind=2, world=world)
        state = {"tors": [0] * HOSTS, "fan": [0, 0, fan] + [0] * 5, "up": [0] * 8}
        self.me = SimpleNamespace(**values, **state, at=at)
        self.sizes = {**values, "hosts": HOSTS, "switch": 1}
        self.drawn = random.Random(seed)
        self.update(
            draw=lambda *_: self.drawn.randrange(1 << 31),
            hash31=lambda a, b: (a * 7919 + b * 104729 + 13) % (1 << 31),
            pick=lambda h, _, n: h % n,
            my_node=lambda _, node: node.mine,
            my_packet=lambda _, pkt: pkt.says,
            my_frame=lambda _, pkt: pkt.says,
            path_count=lambda node, pkt: len(node.paths),
            path_at=lambda node, pkt, i: node.ports[node.paths[i]],
            port_at=lambda node, slot: node.ports[slot],
            port_towards=lambda node, pkt, host: node.ports[node.towards(host)],
            command_of=lambda pkt: pkt.command,
            new_frame=lambda node, kind, command: SimpleNamespace(command=command, says=SimpleNamespace()),
            about_flow=lambda frame, pkt: None,
            send_frame=lambda node, slot, frame: node.sent.append((slot, frame)),
            voq_at=lambda node, i: SimpleNamespace(length=len(node.voqs.get(i, ()))),
            release=lambda node, i: node.let_go.append(node.voqs[i].pop(0)),
            wake_by=lambda node, _, when: setattr(node, "timer", min(node.timer, when)),
            set_bit=lambda table, i: table.__setitem__(i >> 6, table[i >> 6] | 1 << (i & 63)),
            clear_bit=lambda table, i: table.__setitem__(i >> 6, table[i >> 6] & ~(1 << (i & 63))),
            bits_set=lambda word: word.bit_count(),
            lowest_bit=lambda word: (word & -word).bit_length() - 1,
            senders_at=lambda mine, k: mine.senders[k],
            receivers_at=lambda mine, k: mine.receivers[k],
            marks_at=lambda mine, k: mine.marks.setdefault(k, SimpleNamespace(until=0, there=0, way=0)),
        )

    def switch(self, number, hosts, uplinks, tier=1):
        ports = [SimpleNamespace(peer_node=host, up=-1, delay=US) for host in hosts]
        ports += [SimpleNamespace(peer_node=HOSTS + i, up=1, delay=US) for i in range(uplinks)]
        for slot, port in enumerate(ports):
            port.slot = slot
        mine = SimpleNamespace(marks={}, holders=[0] * self.me.voqs, due=[0] * self.me.voqs, **dict.fromkeys(self["counts"], 0))
        mine.busy = [0] * (self.me.voqs // 64 + 1)
        mine.busy_count = len(mine.busy)
        for table, record in (("senders", "sender"), ("receivers", "receiver")):
            setattr(mine, table, [zeros(self["structs"][record], {}, {}) for _ in range(self.me.entries)])
        node = SimpleNamespace(id=number, now=0, tier=tier, hash_seed=number, ports=ports, port_count=len(ports), mine=mine)
        node.paths = [slot for slot, port in enumerate(ports) if port.up > 0]
        node.towards = lambda host: hosts.index(host) if host in hosts else len(hosts)
        node.sent, node.voqs, node.let_go, node.timer = [], {}, [], NEVER
        self["set_up_node"](self.me, node)
        return node

    def packet(self, flow, src, dst, flags=0):
        pkt = SimpleNamespace(kind=0, flags=flags, number=flow, src=src, dst=dst, hash=flow * 37, ecn=0)
        pkt.says = zeros(self["packet_state"], {}, {})
        self["on_send"](self.me, None, None, pkt)
        return pkt

    def depart(self, node, now, pkt):
        """-> the port by which it leaves."""
        node.now = now
        return node.paths[self["choose_path"](self.me, node, node.ports[0], pkt)]

    def arrive(self, node, now, pkt):
        """-> whether it is held."""
        node.now = now
        i = self["choose_voq"](self.me, node, node.ports[node.towards(pkt.dst)], pkt)
        if i >= 0:
            node.voqs.setdefault(i, []).append(pkt)
        return i >= 0

    def time(self, node, now):
        """The timer expires -> what is let go."""
        node.now, node.timer, node.let_go = now, NEVER, []
        self["on_timer"](self.me, node)
        return node.let_go

    def told(self, node, now, frame):
        node.now = now
        self["on_control"](self.me, node, node.ports[-1], frame)


SHORT = {"reply": "2us", "pause": "5us", "extra": "3us", "wait": "11us", "idle": "60us", "entries": 64, "voqs": 16}


def time_of(given, name):
    return int(given[name].removesuffix("us")) * US


SEEN = ("held", "rerouted", "late", "notified", "refused", "stale", "expired")


HASTY = {**SHORT, "idle": "6us", "extra": "30us", "wait": "40us"}  # a new epoch begins while packets of the last one are held
GAPS = [80_000, 80_000, 200_000, 2 * US, 9 * US, 61 * US]


def walk(text="", seed=1, packets=350, fan=2, loss=0.0, given=SHORT, gaps=GAPS):
    """Flows from one switch to two others whose paths have delays that change; every decision beside the transcription.

    -> how often things happened that the comparison is about.
    """
    ours = File(text, seed, fan, **given)
    chosen = random.Random(900 + seed)
    source = ours.switch(100, list(range(8)), 3)
    ends = {to: ours.switch(to, list(range(8 * k, 8 * k + 8)), 3) for k, to in ((1, 101), (2, 102))}
    paths = [(slot, rest) for rest in range(fan) for slot in source.paths]
    drawn = random.Random(seed)
    theirs = paper.Source(lambda: drawn.randrange(1 << 31), lambda _: paths, 4 * US, 2 * US, 5 * US, time_of(given, "idle"))
    judges = {to: paper.Destination(time_of(given, "extra"), time_of(given, "wait")) for to in ends}
    epochs, numbers, ties, seen = {}, count(), count(), dict.fromkeys(SEEN, 0)
    flows = [(flow, flow % 8, chosen.choice([101, 102])) for flow in range(6)]
    delay, free = {}, {}
    events = [(chosen.randrange(20 * US), next(ties), "send", flow) for flow in flows]
    heapq.heapify(events)

    def later(when, what, *more):
        heapq.heappush(events, (when, next(ties), what, *more))

    def send(now, flow):
        number, src, to = flow
        pkt = ours.packet(number, src, 8 * (to - 100) + number)
        pkt.name, slot = next(numbers), ours.depart(source, now, pkt)
        tag, says = theirs.on_data(now, number, to), pkt.says
        assert (slot, says.rest if fan > 1 else 0) == tag.path, "another path"
        assert (says.phase, says.sent, says.tail) == (tag.phase, now, tag.tail_sent)
        assert says.asks == {paper.DATA: 0, paper.INIT: 1, paper.TAIL: 2}[tag.kind]
        assert epochs.setdefault((number, tag.epoch), says.epoch) == says.epoch
        assert says.epoch > epochs.get((number, tag.epoch - 1), 0)
        says.turns = 2
        if pkt.name < packets:
            later(now + chosen.choice(gaps), "send", flow)
        key = to, tag.path
        if chosen.random() < 0.05:
            delay[key] = chosen.choice([2 * US, 3 * US, 6 * US, 25 * US, 90 * US])
        if chosen.random() >= loss:
            free[key] = max(free.get(key, 0) + 1, now + delay.get(key, 2 * US) + chosen.randrange(20_000))
            pkt.ecn = int(chosen.random() < 0.1)
            later(free[key], "arrive", to, pkt, tag)

    def arrive(now, to, pkt, tag):
        node, judge = ends[to], judges[to]
        was = judge.flows.get(pkt.number)
        seen["stale"] += was is not None and tag.epoch < was.epoch
        held = ours.arrive(node, now, pkt)
        queued, back = judge.on_data(now, pkt.number, tag, pkt.ecn, pkt.name)
        assert held == queued, "one holds it"
        frames, node.sent = node.sent, []
        assert len(frames) == len(back)
        for (_, frame), said in zip(frames, back):
            if isinstance(said, paper.Reply):
                assert FRAMES[frame.command] == said.phase and frame.says.epoch == epochs[said.flow, said.epoch]
            else:
                assert frame.command == 5 and (frame.says.way % 4096, frame.says.way // 4096) == said
            if chosen.random() >= loss:
                later(now + chosen.choice([1, 2, 2, 5, 9]) * US, "frame", to, frame, said)
        wake(now, to)

    def wake(now, to):
        due = [r.flush_at for r in judges[to].flows.values() if r.voq is not None]
        assert not due or ends[to].timer <= min(due), "it sleeps too long"
        if ends[to].timer < NEVER:
            later(ends[to].timer, "time", to)

    def time(now, to):
        if ends[to].timer <= now:
            gone = [pkt.name for pkt in ours.time(ends[to], now)]
            expected = judges[to].on_time(now)
            assert sorted(gone) == sorted(name for names in expected.values() for name in names), "let go"
            for names in expected.values():
                assert [name for name in gone if name in names] == names
            wake(now, to)

    def frame(now, to, frame, said):
        ours.told(source, now, frame)
        if isinstance(said, paper.Reply):
            before = theirs.flows[said.flow].stabilized
            theirs.on_reply(now, said)
            seen["refused"] += not theirs.flows[said.flow].stabilized and not before
        else:
            theirs.on_notify(now, to, said)

    does = {"send": send, "arrive": arrive, "time": time, "frame": frame}
    while events:
        now, _, what, *more = heapq.heappop(events)
        assert next(ties) < 100 * packets, "it never ends"
        does[what](now, *more)
    assert source.mine.rerouted == theirs.reroutes
    for node in ends.values():
        assert not any(node.mine.busy) and not any(node.voqs.values())
        for name in ("held", "late", "notified"):
            seen[name] += getattr(node.mine, name)
    seen["rerouted"] += theirs.reroutes
    seen["expired"] += sum(s.epoch > 3 for s in theirs.flows.values())
    return seen


WALKS = [{"seed": s, "fan": f, "loss": loss} for s, f, loss in ((1, 1, 0), (3, 4, 0.05), (4, 1, 0.2))]
WALKS += [
    {"seed": s, "given": HASTY, "gaps": [80_000, 80_000, 200_000, 2 * US, 2 * US, 7 * US], "loss": loss}
    for s, loss in ((6, 0), (7, 0.05))
]


def same_place(text):
    """Marks that share a place are not taken for one another."""
    ours = File(text, **SHORT)
    ours["MARKS"] = 1
    source = ours.switch(100, list(range(8)), 3)
    told = SimpleNamespace(home=100, there=101, way=9)
    ours.told(source, 5 * US, SimpleNamespace(command=5, says=told))
    marked = [ours["is_marked"](ours.me, source, there, way) for there, way in ((101, 9), (102, 9), (101, 10))]
    assert marked == [1, 0, 0]


def before_the_queue_is_empty(text):
    """What comes in the nanosecond after the TAIL stays behind what is held."""
    ours = File(text, **SHORT)
    end = ours.switch(101, list(range(8, 16)), 3)

    def arrive(now, asks, phase):
        pkt = ours.packet(1, 1, 9)
        pkt.says = SimpleNamespace(epoch=7, sent=1, tail=5, asks=asks, phase=phase, home=100, way=9, turns=1)
        return ours.arrive(end, now, pkt)

    assert [arrive(US, 1, 0), arrive(2 * US, 0, 1), arrive(3 * US, 2, 0), arrive(3 * US + 500, 0, 1)] == [
        False,
        True,
        False,
        True,
    ]
    assert end.timer == 3 * US + 1000 and len(ours.time(end, end.timer)) == 2 and not arrive(4 * US, 0, 1)


def compare(text=""):
    same_place(text)
    before_the_queue_is_empty(text)
    total = dict.fromkeys(SEEN, 0)
    for way in WALKS:
        for name, times in walk(text, **way).items():
            total[name] += times
    return total


def test_both_switches_do_as_transcribed():
    assert min(compare().values()) > 5


MISTAKES = {
    "an epoch at every packet": ("if expired or sender.stable:", "if 1:"),
    "no new epoch after a reply": ("if expired or sender.stable:", "if expired:"),
    "stable for ever": ("    sender.stable = 0\n    sender.last", "    sender.last"),
    "a flow that never pauses": ("    if sender.last + weave.idle < node.now:", "    if 0:"),
    "a reply a little late": ("base_rtt(weave, node) + weave.reply\n", "base_rtt(weave, node) + weave.reply + 500000\n"),
    "the round trip is one way": ("total += 4 * weave.up", "total += 2 * weave.up"),
    "no TAIL": ("    elif sender.deadline < node.now:", "    elif 0:"),
    "the TAIL is of phase 1": (
        "        mine.phase = 0\n        sender.phase = 1\n",
        "        mine.phase = 1\n        sender.phase = 1\n",
    ),
    "phase 0 again": ("        sender.phase = 1\n", "        sender.phase = 0\n"),
    "phase 1 for ever": ("        sender.phase = 0\n        sender.tail = 0\n", "        sender.tail = 0\n"),
    "a TAIL at every packet": ("        sender.deadline = NEVER\n    sender.stable", "    sender.stable"),
    "no time of the TAIL": ("        sender.tail = node.now\n", ""),
    "the TAIL of an older epoch": ("        sender.tail = 0\n", ""),
    "the TAIL takes the new path": (
        "    if mine.asks == TAIL:\n        if take_path",
        "    if mine.asks == FIRST:\n        if take_path",
    ),
    "a pause keeps the path": ("    if expired:\n        if take_path", "    if before == 0:\n        if take_path"),
    "marked paths": ("    return 1 if found.until > node.now and", "    return 1 if 0 and"),
    "marked to all switches": ("found.there == there and", ""),
    "marked, whichever of the paths": (" and found.way == way else 0", " else 0"),
    "marked for ever": ("found.until > node.now and", "found.until > 0 and"),
    "marks last no time": ("found.until = node.now + weave.pause", "found.until = node.now"),
    "one draw": ("for _i in range(2):", "for _i in range(1):"),
    "three draws": ("for _i in range(2):", "for _i in range(3):"),
    "two draws anyway": ("            sender.rest = rest\n            return 1\n", "            sender.rest = rest\n"),
    "ports alone are drawn": ("% (count * ways)", "% count"),
    "a late reply counts": ("if node.now < sender.deadline and", "if"),
    "a reply after the TAIL": (" and sender.deadline != NEVER else 0", " else 0"),
    "a reply is enough": ("(in_time or command_of(pkt) == CLEAR)", "1"),
    "no CLEAR counts": ("(in_time or command_of(pkt) == CLEAR)", "in_time"),
    "of any epoch": ("told.epoch == sender.epoch and ", ""),
    "older epochs count": ("    if mine.epoch < receiver.epoch:\n", "    if 0:\n"),
    "nothing is held": ("    return 1 if mine.phase > receiver.phase else 0", "    return 0"),
    "all of phase 1 is held": ("    return 1 if mine.phase > receiver.phase else 0", "    return mine.phase"),
    "the TAIL lets nothing go": (
        "node.now + NS if mine.asks == TAIL else expected",
        "node.now + NS if mine.asks < 0 else expected",
    ),
    "held for good": ("    if mine.phase == 0 and receiver.voq > 0:", "    if 0:"),
    "a microsecond after the TAIL": ("NS = 1000", "NS = 1000000"),
    "phase 1 before what is held has gone": ("    elif mine.asks == TAIL and receiver.voq == 0:", "    elif mine.asks == TAIL:"),
    "the TAIL is not noted": ("    elif mine.asks == TAIL and receiver.voq == 0:", "    elif 0:"),
    "a TAIL that is the first": ("        if mine.asks == TAIL:\n            receiver.phase = 1\n", ""),
    "known from an older epoch": ("        receiver.known = 0\n", ""),
    "never known": ("        receiver.known = 1\n", "        receiver.known = 0\n"),
    "always known": ("    if receiver.known:\n", "    if 1:\n"),
    "phase of an older epoch": ("        receiver.phase = 0\n        receiver.known", "        receiver.known"),
    "when phase 0 was sent": ("        receiver.sent = mine.sent\n", ""),
    "when phase 0 came": ("        receiver.came = node.now\n", ""),
    "when the TAIL was sent": ("        receiver.tail = mine.tail\n", "        receiver.tail = 0\n"),
    "of TAILs alone": ("    if mine.asks == TAIL or mine.phase == 1:\n", "    if mine.asks == TAIL:\n"),
    "a TAIL sent before": ("max(receiver.tail - receiver.sent, 0)", "(receiver.tail - receiver.sent)"),
    "no extra time": (" - receiver.sent, 0) + weave.extra", " - receiver.sent, 0)"),
    "no extra time to wait": ("node.now + weave.wait + weave.extra", "node.now + weave.wait"),
    "the timer is never early": (
        "    my_node(weave, node).due[i] = max(when, node.now)\n",
        "    my_node(weave, node).due[i] = node.now + 99000000\n",
    ),
    "phase 0 after a timer": ("    receiver.voq = 0\n    receiver.phase = 1\n", "    receiver.voq = 0\n"),
    "one queue for all": (
        "    mine = my_node(weave, node)\n    for w in range(mine.busy_count):\n        if bits_set",
        "    return 0\n    mine = my_node(weave, node)\n    for w in range(mine.busy_count):\n        if bits_set",
    ),
    "one at a time": ("    while voq_at(node, i).length > 0:", "    if voq_at(node, i).length > 0:"),
    "a queue stays taken": ("    clear_bit(mine.busy, i)\n", ""),
    "all at once": ("            if mine.due[i] <= node.now:", "            if 1:"),
    "one timer": ("    wake_by(node, weave.at.index, soonest)\n", ""),
    "no reports": ("    if pkt.ecn:\n        my_node", "    if 0:\n        my_node"),
    "replies for CLEARs": ("tell(weave, node, pkt, CLEAR)", "tell(weave, node, pkt, REPLY)"),
    "no CLEAR": ("    elif mine.asks == TAIL:\n        tell(weave, node, pkt, CLEAR)\n", ""),
    "the port alone is marked": ("told.way = mine.way if mine.turns > 1 else", "told.way = mine.way if 0 else"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found(mistake):
    check_mistake("conweave", *MISTAKES[mistake], compare)


# ---- laws ----

EAGER = {"reply": "500ns", "ecn.k_min": "30KB", "ecn.k_max": "120KB"}


def crossing(topo, size=120_000):
    """Flows between racks, several at a time for each host, which meet on some of the paths and not on others."""
    chosen, hosts = random.Random(3), topo.hosts
    pairs = [(i, (i + 4 * k) % hosts) for i in range(hosts) for k in (1, 2, 3)]
    return flow_list(topo, [(src, dst, size + 7 * src, f"{chosen.randrange(60_000)}ns") for src, dst in pairs])


def out_of_order(rows, flows):
    """Packets that reach their host's port after a later one of their flow."""
    last, late = {}, 0
    for row in rows:
        if row.event == "dequeue" and row.kind == DATA and row.port < 4 and flows.dst[row.flow] % 4 == row.port:
            late += row.offset < last.get(row.flow, -1)
            last[row.flow] = max(row.offset, last.get(row.flow, -1))
    return late


def test_flows_change_their_paths_and_nothing_overtakes():
    """As long as no timer is early; with a single queue for what is early they reorder."""
    topo = network(spines=4)
    flows = crossing(topo)
    run, rows = traced(topo, flows, "dcqcn+conweave", EAGER)
    assert run.counts["conweave.rerouted"] > 20 < run.counts["conweave.held"] and run.counts["conweave.late"] == 0
    at_tors = [row for row in rows if topo.hosts <= row.node < topo.hosts + 4]
    assert out_of_order(at_tors, flows) == 0 == run.flows["retransmitted_bytes"].sum()
    assert {row.event for row in at_tors} >= {"hold"} and run.summary["drops"] == 0
    run, rows = traced(topo, flows, "dcqcn+conweave", {**EAGER, "voqs": 1})
    at_tors = [row for row in rows if topo.hosts <= row.node < topo.hosts + 4]
    assert out_of_order(at_tors, flows) > 100 < run.flows["retransmitted_bytes"].sum()


def test_the_paths_of_three_tiers():
    """Source routes over aggregation switches and cores; the answers pass these, too."""
    topo = fat_tree(k=4)
    flows = flow_list(topo, [(i, (i + 4 + i % 3) % 16, 250_000, f"{i}us") for i in range(16) for _ in range(2)])
    run, rows = traced(topo, flows, "dcqcn+conweave", EAGER)
    assert run.counts["conweave.rerouted"] > 20 < run.counts["conweave.held"] and run.counts["conweave.late"] == 0
    assert run.flows["retransmitted_bytes"].sum() == 0
    taken = {}
    for row in rows:
        if row.event == "enqueue" and row.kind == DATA and topo.tier[row.node] == 3:
            taken.setdefault(row.flow, set()).add(row.node)
    assert len(set().union(*taken.values())) == 4 and max(map(len, taken.values())) >= 3


def test_answers_take_the_way_of_their_flow():
    """Past the first switch as well: all cores have some of them."""
    topo = fat_tree(k=4)
    flows = flow_list(topo, [(i, (i + 4 + i % 3) % 16, 60_000, f"{i}us") for i in range(16) for _ in range(3)])
    ports = simulate(topo, flows, parse("conweave", {"reply": "500ns"})).ports
    passed = [ports.filter(node=topo.node(f"core{i}"))["control_bytes"].sum() for i in range(4)]
    assert 0 < max(passed) < 4 * min(passed)


def test_a_paused_flow_begins_anew_and_a_busy_one_keeps_its_path_while_answers_are_in_time():
    topo = network(spines=8)
    run, rows = traced(topo, flow_list(topo, [(0, 5, 3_000_000)]), "conweave")
    assert run.counts["conweave.rerouted"] == 0 and len({row.port for row in rows if row.node == topo.node("tor0")}) <= 2
    frames = run.ports.filter(node=topo.node("tor1"))["control_bytes"].sum() / 64
    assert 40 < frames < 80  # an answer in each round trip between the ToRs, 240 us in all


def test_without_room_flows_go_by_their_hash_or_are_not_held():
    """Nothing is lost; packets out of order are sent again."""
    topo = network(spines=4)
    flows = crossing(topo)
    for small in ({"entries": 2}, {"voqs": 1}):
        run = simulate(topo, flows, parse("dcqcn+conweave", {**EAGER, **small}))
        assert run.summary["flows_finished"] == len(flows) and run.summary["drops"] == 0
        assert run.counts["conweave.crowded"] > 20


@pytest.mark.parametrize("scheme", ["conweave", "dcqcn+conweave", "dcqcn+conweave+recovery:irn", "bfc+conweave", "uec+conweave"])
def test_whatever_is_lost_is_sent_again(scheme):
    """Data, TAILs, answers; a spine that fails for a while takes some with it."""
    changes = [{"time": time, "switch": "spine1", "up": up} for time, up in (("20us", False), ("90us", True))]
    topo = network(spines=2).with_loss(0.01).with_changes(changes)
    flows = crossing(topo, 40_000)
    eager = {"reply": "500ns", "conweave.wait": "20us"}
    run = simulate(topo, flows, parse(scheme, eager), host=HostConfig(rto="100us"), control_loss=0.02)
    assert run.summary["flows_finished"] == len(flows) and run.flows["retransmitted_bytes"].sum() > 0


def test_a_lone_flow_finishes_in_the_ideal_time():
    check_alone("conweave")
    check_alone("dcqcn+conweave")


def test_any_number_of_threads_gives_the_same_results():
    check_threads("dcqcn+conweave", EAGER)
    check_threads("bfc+conweave", {"reply": "200ns"})


def test_bad_parameters_are_refused():
    check_bad("conweave", {"voqs": 0}, "1..16384")
    check_bad("conweave+spray", None, "both choose the path")
    check_bad("conweave+floodgate", None, "both choose what is held back")
