"""Routing in a dragonfly: Kim et al., ISCA 2008, section 4, and topo_dragonfly::route_nonadaptive and route_ugal of SST's merlin.

A router knows the groups of hosts, the port on a minimal path to a host, and how many bytes wait at each port.
"""

from collections.abc import Callable
from dataclasses import dataclass

MINIMAL, VALIANT, UGAL = "minimal", "valiant", "ugal"


@dataclass
class Packet:
    """`mid`: a host on the way, None: none, or no longer; `vc`: the virtual channel of the next link."""

    dest: int
    mid: int | None = None
    vc: int = 0


@dataclass
class Router:
    """`port(host)`: the minimal port for this packet; `waiting(port)`: bytes; `draw()`: a host at random; `mine`: hosts here."""

    group: int
    mine: set[int]
    group_of: Callable[[int], int]
    draw: Callable[[], int]

    def from_host(self, packet, algorithm, port, waiting, bias=0):
        """A packet enters the network here: choose the group in between, or none."""
        if algorithm == MINIMAL or packet.dest in self.mine:
            return
        dest = self.group_of(packet.dest)
        mid = self.draw()
        while (self.group_of(mid) != dest) if dest == self.group else (self.group_of(mid) in (dest, self.group)):
            mid = self.draw()
        if mid in self.mine:
            return
        if algorithm == VALIANT or not waiting(port(packet.dest)) <= 2 * waiting(port(mid)) + bias:
            packet.mid = mid

    def from_router(self, packet, over_global, vcs):
        """A packet came from another router."""
        if over_global:
            packet.vc += 1
        if packet.mid is not None:
            within = self.group_of(packet.mid) == self.group_of(packet.dest)
            if within and packet.mid in self.mine:
                packet.mid = None
                packet.vc += 2
            elif not within and self.group_of(packet.mid) == self.group:
                packet.mid = None
        packet.vc = min(packet.vc, vcs - 1)

    def next_port(self, packet, port):
        return port(packet.dest if packet.mid is None else packet.mid)
