"""A star of hosts around one switch, event by event: what the transcriptions of host-based transports run on.

Links are alike: `gap` ps per byte and `delay` ps.  Control packets overtake data at hosts and at the switch; nothing that is
being sent is interrupted.  Events of one node at one instant: arrivals in the order of turns.py, then transmissions by port,
then timers, then starts of flows by number.  A packet is stored and forwarded as a whole.
"""

import heapq
from collections import deque
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from paper.turns import in_turn

ARRIVAL, TRANSMISSION, TIMER, START = range(4)
HEADER, CONTROL, ACK = 48, 64, 60


@dataclass
class Packet:
    src: int
    dst: int
    flow: int
    offset: int = 0
    payload: int = 0
    size: int = CONTROL
    kind: str = "data"
    info: Any = None  # what its transport writes into it


@dataclass
class Line:
    """One end of a link: control packets first, then what `take` returns (None: nothing)."""

    free_at: int = 0
    armed: bool = False
    control: deque = field(default_factory=deque)


class Star:
    """`hosts`: objects with take(), receive(packet); `ports`: of the switch, objects with store(packet), take().

    `sent`: (time, port, flow, offset, size) of every data packet that the switch sends.
    """

    def __init__(self, gap=80, delay=1_000_000):
        self.gap, self.delay = gap, delay
        self.now = 0
        self.order = count()
        self.events = []
        self.hosts, self.ports, self.up, self.down = [], [], [], []
        self.sent = []
        self.arriving = {}  # at the switch: time -> [(port, packet)]

    def add(self, host, port):
        for kind, thing in ((self.hosts, host), (self.ports, port), (self.up, Line()), (self.down, Line())):
            kind.append(thing)

    def at(self, time, phase, place, what):
        heapq.heappush(self.events, (time, phase, place, next(self.order), what))

    def run(self):
        while self.events:
            self.now, *_, what = heapq.heappop(self.events)
            what()

    # ---- lines ----

    def kick(self, lines, i):
        """There is something to send: at once if the line is free."""
        if not lines[i].armed:
            if self.now >= lines[i].free_at:
                self.transmit(lines, i)
            else:
                self.arm(lines, i)

    def arm(self, lines, i):
        lines[i].armed = True
        self.at(max(lines[i].free_at, self.now), TRANSMISSION, i, lambda: self.transmit(lines, i))

    def transmit(self, lines, i):
        line, owner = lines[i], (self.hosts if lines is self.up else self.ports)[i]
        line.armed = False
        packet = line.control.popleft() if line.control else owner.take()
        if packet is None:
            return
        line.free_at = self.now + packet.size * self.gap
        arrives = line.free_at + self.delay
        if lines is self.up:
            if arrives not in self.arriving:
                self.at(arrives, ARRIVAL, 0, self.forward)
            self.arriving.setdefault(arrives, []).append((i, packet))
        else:
            if packet.kind == "data":
                self.sent.append((self.now, i, packet.flow, packet.offset, packet.size))
            self.at(arrives, ARRIVAL, 0, lambda: self.hosts[i].receive(packet))
        if line.control or owner.backlog():
            self.arm(lines, i)

    def forward(self):
        by_port = sorted(self.arriving.pop(self.now), key=lambda arrival: arrival[0])
        for _, packet in in_turn(by_port, self.now, len(self.hosts)):
            if packet.kind != "data":
                self.down[packet.dst].control.append(packet)
            elif not self.ports[packet.dst].store(packet):
                continue
            self.kick(self.down, packet.dst)

    def control(self, packet):
        """A host sends a control packet, ahead of ACKs that wait: after the events of this instant at its links."""
        line = self.up[packet.src]
        acks = sum(waiting.kind == "ack" for waiting in line.control)
        line.control.insert(len(line.control) - (acks if packet.kind != "ack" else 0), packet)
        if not line.armed:
            self.arm(self.up, packet.src)
