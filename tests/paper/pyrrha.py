"""Pyrrha (NSDI 2025): a switch by the rules of its authors' simulator, in bytes; and what a host holds.

A root is <switch, port>. Where those rules leave a choice open, this file chooses:
* a packet that comes to a CIQ that is empty and may run is not counted in it: it goes on at once;
* while a CIQ may run, each departure from the ordinary queue moves its first packet, and so does what allows it to run; if that
  one goes to another CIQ, the next one follows it;
* CIQs of a port are asked in the order of their roots: the farthest one first, or with `nearest` the nearest one;
* of a host that was told to go on nothing is kept;
* a CIQ that nothing needs is freed also when a merge has made it so.
"""

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import NamedTuple


class Packet(NamedTuple):
    name: object
    ingress: int
    egress: int
    size: int
    further: tuple  # of <switch, port>: the hops after this switch


class Frame(NamedTuple):
    port: int
    kind: str  # PAUSE, RESUME, DEALLOC, MERGE
    root: tuple
    hop: int = 0
    old: tuple | None = None


@dataclass
class Root:
    """A foreign one."""

    hop: int
    ciq: dict = field(default_factory=dict)  # egress -> deque of packets
    status: dict = field(default_factory=dict)  # egress -> paused, resumed, merging
    made: dict = field(default_factory=dict)  # egress -> its place among all CIQs that were made
    bytes: Counter = field(default_factory=Counter)  # by ingress
    held: dict = field(default_factory=dict)  # ingress -> whether it is paused


@dataclass
class Switch:
    number: int
    ps_per_byte: dict
    delay: dict
    up: set
    to_hosts: set
    congestion: float = 2.0
    resume: float = 1.0
    hol: float = 2.0
    may_be_root: object = None  # egress -> bool
    nearest: bool = False
    merges: bool = True
    deallocates: bool = True

    def __post_init__(self):
        self.length = Counter()  # of the ordinary queues
        self.upstream = {}  # egress that is a root -> {ingress: whether paused}
        self.roots = {}  # foreign ones
        self.frames = []  # to be sent
        self.moves = []  # (name, root or None): packets that leave a CIQ
        self.passing = {}  # name -> packet, in the ordinary queues
        self.most = self.count = 0  # CIQs in use at once, made

    def hop_bdp(self, egress, ingress):
        return 2 * self.delay[ingress] / self.ps_per_byte[egress]

    def send(self, *frame):
        self.frames.append(Frame(*frame))

    # Where a packet belongs

    def candidates(self, egress):
        """Roots with a CIQ at a port, in the order in which packets are compared with them; of two as far the youngest first."""
        found = [(entry.hop, entry.made[egress], root) for root, entry in self.roots.items() if egress in entry.ciq]
        sign = 1 if self.nearest else -1
        return [root for _, _, root in sorted(found, key=lambda f: (sign * f[0], -f[1]))]

    def place(self, packet, after=None):
        order = self.candidates(packet.egress)
        if after is not None:
            order = order[order.index(after) + 1 :]
        for root in order:
            entry = self.roots[root]
            stops = entry.status[packet.egress] == "paused" or entry.ciq[packet.egress]
            if root in packet.further and stops:
                return root
        return None

    def on_packet(self, packet):
        """-> the root for which it waits; None: it goes to the ordinary queue."""
        root = self.place(packet)
        self.put(packet, root)
        return root

    def put(self, packet, root):
        out, into = packet.egress, packet.ingress
        if root is None:
            self.passing[packet.name] = packet
            self.length[out] += packet.size
            paused = self.upstream.get(out, {}).get(into, False)
            if not paused and self.length[out] > self.congestion * self.hop_bdp(out, into) and self.is_congested(out):
                self.upstream.setdefault(out, {})[into] = True
                self.send(into, "PAUSE", (self.number, out), 1)
            return
        entry = self.roots[root]
        entry.ciq[out].append(packet)
        entry.bytes[into] += packet.size
        may_pause = entry.status[out] != "merging" and not entry.held.get(into, False)
        if may_pause and entry.bytes[into] > self.congestion * self.hop_bdp(out, into):
            entry.held[into] = True
            self.send(into, "PAUSE", root, entry.hop + 1)

    def is_congested(self, out):
        if self.may_be_root and not self.may_be_root(out):
            return False
        if out not in self.up:
            return True
        return self.length[out] > self.hol * sum(self.length[port] for port in self.up) / len(self.up)

    def on_leave(self, name):
        """A packet leaves the ordinary queue."""
        packet = self.passing.pop(name)
        out = packet.egress
        self.length[out] -= packet.size
        for into in sorted(self.upstream.get(out, {})):
            if self.upstream[out][into] and self.length[out] < self.resume * self.hop_bdp(out, into):
                self.send(into, "RESUME", (self.number, out))
                self.tell_to_go_on(self.upstream[out], into)
        for root in self.candidates(out):
            entry = self.roots.get(root)
            if entry and entry.ciq.get(out) and entry.status[out] != "paused":
                self.move(root, out)

    def tell_to_go_on(self, held, ingress):
        held[ingress] = False
        if ingress in self.to_hosts:
            del held[ingress]

    def move(self, root, out):
        entry = self.roots[root]
        while entry.ciq[out]:
            packet = entry.ciq[out][0]
            there = self.place(packet, root)
            entry.ciq[out].popleft()
            into = packet.ingress
            entry.bytes[into] -= packet.size
            if (
                entry.status[out] != "merging"
                and entry.held.get(into)
                and (entry.bytes[into] < self.resume * self.hop_bdp(out, into))
            ):
                self.send(into, "RESUME", root)
                self.tell_to_go_on(entry.held, into)
            self.moves.append((packet.name, there))
            self.put(packet, there)
            if there is None:
                break
        self.tidy(root, out)

    # What is not needed

    def tidy(self, root, out):
        entry = self.roots.get(root)
        if not entry or out not in entry.ciq or entry.ciq[out]:
            return
        if entry.status[out] == "merging":
            self.free(root, out)
        elif entry.status[out] == "resumed":
            self.deallocate(root)

    def free(self, root, out):
        entry = self.roots[root]
        del entry.ciq[out], entry.status[out]
        if not entry.ciq:
            assert not entry.held and not any(entry.bytes.values())
            del self.roots[root]

    def deallocate(self, root):
        entry = self.roots[root]
        if entry.held or not self.deallocates:
            return
        for out in sorted(entry.ciq):
            if entry.status[out] == "resumed" and not entry.ciq[out]:
                self.send(out, "DEALLOC", root)
                self.free(root, out)

    # Frames, by the port on which they come

    def new_ciq(self, root, hop, out):
        entry = self.roots.setdefault(root, Root(hop))
        if out in entry.ciq:
            return False
        self.count += 1
        entry.ciq[out], entry.status[out], entry.made[out] = deque(), "resumed", self.count
        self.most = max(self.most, sum(len(e.ciq) for e in self.roots.values()))
        return True

    def on_frame(self, port, frame):
        getattr(self, f"on_{frame.kind.lower()}")(port, frame)

    def on_pause(self, port, frame):
        is_new = self.new_ciq(frame.root, frame.hop, port)
        entry = self.roots[frame.root]
        entry.status[port] = "paused"
        if is_new and self.merges and port not in self.up:
            for ingress in sorted(self.upstream.pop(port, {})):
                self.send(ingress, "MERGE", frame.root, entry.hop + 1, (self.number, port))
                self.tell_to_go_on(entry.held, ingress)

    def on_resume(self, port, frame):
        entry = self.roots.get(frame.root)
        if entry and port in entry.ciq:
            entry.status[port] = "resumed"
            self.move(frame.root, port)

    def on_dealloc(self, port, frame):
        switch, out = frame.root
        held = self.upstream.get(out, {}) if switch == self.number else None
        if held is None and frame.root in self.roots:
            held = self.roots[frame.root].held
        if held and held.get(port) is False:
            del held[port]
            if switch != self.number:
                self.deallocate(frame.root)

    def on_merge(self, port, frame):
        self.new_ciq(frame.root, frame.hop, port)
        entry = self.roots[frame.root]
        old = self.roots.get(frame.old)
        if old:
            for ingress in sorted(old.held):
                self.send(ingress, "MERGE", frame.root, frame.hop + 1, frame.old)
                self.tell_to_go_on(entry.held, ingress)
            old.held.clear()
        entry.status[port] = "resumed"
        if old and port in old.ciq:
            old.status[port] = "merging"
            self.move(frame.old, port)
        if self.roots.get(frame.root) is entry and port in entry.ciq:
            self.move(frame.root, port)


class Host:
    """Flows whose path passes a paused root wait."""

    def __init__(self):
        self.paused = set()

    def on_frame(self, frame):
        if frame.kind == "PAUSE":
            self.paused.add(frame.root)
        else:
            self.paused -= {frame.root, frame.old}
