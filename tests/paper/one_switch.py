"""Hosts around one switch, store and forward, for transcriptions that are compared packet by packet.  All times in ps.

At one instant a node first takes what arrives, in the order of turns.py, then sends, by port, then serves its timers, then
starts flows.
"""

import heapq
from dataclasses import dataclass, field
from itertools import count

from .turns import in_turn

SEND, TIMER, START, FLOW_TIMER = 1, 2, 3, 4


@dataclass
class Packet:
    """kind: DATA, ACK or a command of the scheme; what it carries is in `says`."""

    kind: str
    flow: int
    offset: int
    size: int
    dst: int
    says: dict = field(default_factory=dict)


class Line:
    """One direction of a link: asks `pick(slot)` for a packet when it is free and `backlog(slot)`; a number: ask again then."""

    def __init__(self, net, owner, slot, peer, peer_slot, ps_per_byte):
        self.net, self.owner, self.slot, self.peer, self.peer_slot = net, owner, slot, peer, peer_slot
        self.ps_per_byte = ps_per_byte
        self.free_at = 0
        self.asked_at = None  # when it will ask

    def kick(self):
        """Something has come: send it now if the line is free and not about to ask anyway."""
        if self.asked_at is None or self.asked_at > max(self.free_at, self.net.now):
            if self.net.now >= self.free_at:
                self.ask()
            else:
                self.ask_at(self.free_at)

    def ask_at(self, when):
        self.asked_at = when
        self.net.at(when, self.owner, (SEND, self.slot), lambda: self.asked_at == when and self.ask())

    def ask(self):
        self.asked_at = None
        found = self.owner.pick(self.slot)
        if isinstance(found, Packet):
            self.free_at = self.net.now + found.size * self.ps_per_byte
            slot = self.peer_slot
            self.net.at(self.free_at + self.net.delay, self.peer, (0, slot), lambda: self.peer.arrive(found, slot))
            if self.owner.backlog(self.slot):
                self.ask_at(self.free_at)
        elif found is not None:
            self.ask_at(found)


class Net:
    """The clock, and hosts 0, 1, ... at the ports 0, 1, ... of one switch, whose number is that of hosts.

    slower: host -> ps per byte of its link, if not as of the others.
    """

    def __init__(self, ps_per_byte, delay, slower=None):
        self.ps_per_byte, self.delay, self.now = ps_per_byte, delay, 0
        self.slower = slower or {}
        self.events, self.ties = [], count()

    def connect(self, switch, hosts):
        switch.number = len(hosts)
        for i, host in enumerate(hosts):
            host.number = i
            host.line = Line(self, host, 0, switch, i, self.line_of(i))
            switch.lines.append(Line(self, switch, i, host, 0, self.line_of(i)))

    def line_of(self, host):
        return self.slower.get(host, self.ps_per_byte)

    def at(self, when, node, leaf, action):
        heapq.heappush(self.events, (when, node.number, leaf, next(self.ties), action))

    def run(self):
        while self.events:
            self.now, node, (phase, _), _, action = heapq.heappop(self.events)
            together = [action]
            while phase == 0 and self.events and self.events[0][:2] == (self.now, node) and self.events[0][2][0] == 0:
                together.append(heapq.heappop(self.events)[-1])
            for action in in_turn(together, self.now, node):
                action()
