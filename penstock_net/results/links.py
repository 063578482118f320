"""The links of a run, from its frame of ports: the other end of each, and which links follow which on the paths of packets."""

from __future__ import annotations

import functools
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from operator import and_, or_
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from penstock_net.results.run import Run

Port = tuple[int, int]  # node, number of the egress within it


@dataclass(frozen=True)
class Links:
    """Every egress with its link; an egress whose other end was not recorded is left out.

    far_end   the egress at the other end of each egress's link
    delay_ns  of the link of each egress; 0: not known, in runs of an earlier version
    """

    far_end: dict[Port, Port]
    delay_ns: dict[Port, float]
    _following: dict[Port, list[Port]] = field(default_factory=dict)
    _preceding: dict[Port, list[Port]] = field(default_factory=dict)

    @classmethod
    def of(cls, ports: pl.DataFrame) -> Links:
        """From the frame `ports`: the k-th port from a to b belongs to the k-th from b to a."""
        rows = ports.sort("node", "port").select("node", "port", "peer", "delay_ns").rows()
        between: dict[tuple[int, int], list[int]] = defaultdict(list)
        for node, port, peer, _ in rows:
            between[node, peer].append(port)
        ends = {
            (node, port): (peer, back)
            for (node, peer), own in list(between.items())
            for port, back in zip(own, between[peer, node])
        }
        return cls(ends, {(node, port): delay or 0.0 for node, port, _, delay in rows if (node, port) in ends})

    @cached_property
    def _egresses(self) -> dict[int, list[Port]]:
        """Of every node, ascending."""
        found = defaultdict(list)
        for port in sorted(self.far_end):
            found[port[0]].append(port)
        return found

    @cached_property
    def _paths(self) -> _Paths:
        return _Paths(self.far_end)

    def following(self, port: Port) -> list[Port]:
        """The egresses of its peer that a shortest path, with every link up, leads to over an egress's link."""
        if port not in self._following:
            back = self.far_end.get(port)
            others = self._egresses[back[0]] if back else []
            self._following[port] = [other for other in others if other != back and self._paths.lead(port, other)]
        return self._following[port]

    def preceding(self, port: Port) -> list[Port]:
        """The egresses that an egress follows."""
        if port not in self._preceding:
            others = [self.far_end[back] for back in self._egresses.get(port[0], ()) if back != port]
            self._preceding[port] = sorted(other for other in others if self._paths.lead(other, port))
        return self._preceding[port]


def node_names(run: Run) -> list[str]:
    """The name of every node, "node 7" in runs that have none."""
    if "nodes" in run.frames:
        return run.frame("nodes").sort("node")["name"].to_list()
    count = max([-1, *run.ports["node"].to_list(), *run.ports["peer"].to_list()]) + 1
    return [f"node {number}" for number in range(count)]


class _Paths:
    """Where links lead to: to which switches with hosts each one is on a shortest path, a bit each, found when asked for."""

    def __init__(self, far_end: dict[Port, Port]) -> None:
        self.far_end = far_end
        links = np.array([(node, peer) for (node, _), (peer, _) in far_end.items()]).reshape(-1, 2)
        count = int(links.max(initial=-1)) + 1
        self.host = np.bincount(links[:, 0], minlength=count) == 1
        self.peers: dict[int, set[int]] = defaultdict(set)
        for node, peer in links[~self.host[links].any(axis=1)].tolist():
            self.peers[node].add(peer)
        ends = np.unique(links[self.host[links[:, 0]], 1]).tolist()
        self.bit = {switch: 1 << place for place, switch in enumerate(ends)}
        self.all = (1 << len(ends)) - 1
        self.rings = self._rings_of_all()
        self.destinations: dict[tuple[int, int], int] = {}

    def lead(self, port: Port, other: Port) -> bool:
        """Whether a shortest path leads over the link of `port`, then over that of `other`, an egress of its peer."""
        return self._of(port) & self._of(other) != 0

    def _of(self, port: Port) -> int:
        """To which switches a link is on a shortest path; from a host: to all."""
        node, peer = port[0], self.far_end[port][0]
        if self.host[node]:
            return self.all
        if self.host[peer]:
            return self.bit[node]
        if (node, peer) not in self.destinations:
            near, far = self.rings[peer], self.rings[node]
            self.destinations[node, peer] = functools.reduce(or_, map(and_, near, far[1:]), 0)
        return self.destinations[node, peer]

    def _rings_of_all(self) -> dict[int, list[int]]:
        """Of every switch: the switches with hosts at 0, 1, 2, ... hops."""
        ring = {switch: self.bit.get(switch, 0) for switch in {*self.peers, *self.bit}}
        rings, seen = {switch: [near] for switch, near in ring.items()}, dict(ring)
        while any(ring.values()):
            came = {switch: functools.reduce(or_, (ring[peer] for peer in self.peers[switch]), 0) for switch in ring}
            ring = {switch: new & ~seen[switch] for switch, new in came.items()}
            for switch, new in ring.items():
                rings[switch].append(new)
                seen[switch] |= new
        return rings
