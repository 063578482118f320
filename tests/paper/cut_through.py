"""Virtual cut-through, from Kermani and Kleinrock (Computer Networks 1979) and from what makers of Ethernet switches say.

A message whose outgoing channel is free once its header has arrived is sent on before the rest is there; only one that finds the
channel busy is buffered, whole. The header are the first 64 bytes (HPE 5700); the egress is idle, and not faster than the ingress
(Microchip, on cut-through).

    model = Model([Wire(ps_per_byte, delay, header), ...])  # header: of the switch behind the wire, 0: it stores and forwards
    model.send(when, path, sizes); model.run()              # packets one behind another, over wires by number
    model.arrived                                           # when the last bit of each is at the end of its path, ps
"""

import heapq
from dataclasses import dataclass, field
from itertools import count


@dataclass
class Wire:
    """From a node to the next one; packets wait before it, first come, first served."""

    ps_per_byte: int
    delay: int
    header: int = 0
    free_at: int = 0
    waiting: list = field(default_factory=list)


@dataclass
class Packet:
    number: int
    size: int
    path: tuple
    hop: int = 0


class Model:
    """At one instant packets and headers come before lines are free again."""

    def __init__(self, wires):
        self.wires, self.arrived, self.events, self.order = wires, {}, [], count()
        self.cut = self.stored = 0

    def at(self, when, first, call, *given):
        heapq.heappush(self.events, (when, first, next(self.order), call, given))

    def run(self):
        while self.events:
            self.now, _, _, call, given = heapq.heappop(self.events)
            call(*given)

    def send(self, when, path, sizes):
        """By a host, which sends at the rate of its wire without a gap."""
        for size in sizes:
            self.at(when, 0, self.join, Packet(len(self.arrived), size, path))
            self.arrived[len(self.arrived)] = None

    def join(self, packet):
        """All of a packet is at a node: it waits for its wire."""
        wire = self.wires[packet.path[packet.hop]]
        wire.waiting.append(packet)
        if wire.free_at <= self.now and len(wire.waiting) == 1:
            self.at(self.now, 1, self.serve, wire)

    def serve(self, wire):
        if wire.waiting and wire.free_at <= self.now:
            self.begin(wire, wire.waiting.pop(0))

    def begin(self, wire, packet):
        wire.free_at = self.now + packet.size * wire.ps_per_byte
        self.at(wire.free_at, 1, self.serve, wire)
        packet.hop += 1
        if packet.hop == len(packet.path):
            self.at(wire.free_at + wire.delay, 0, self.finish, packet)
        elif 0 < wire.header < packet.size:
            self.at(self.now + wire.header * wire.ps_per_byte + wire.delay, 0, self.head, packet, wire)
        else:
            self.at(wire.free_at + wire.delay, 0, self.join, packet)

    def head(self, packet, wire):
        """The header of a packet is at a switch; `wire`: by which it comes."""
        out = self.wires[packet.path[packet.hop]]
        rest = (packet.size - wire.header) * wire.ps_per_byte
        underrun = packet.size * out.ps_per_byte < rest
        busy = self.now < out.free_at or out.waiting
        if busy or underrun:
            self.stored += 1
            self.at(self.now + rest, 0, self.join, packet)
        else:
            self.cut += 1
            self.begin(out, packet)

    def finish(self, packet):
        self.arrived[packet.number] = self.now
