"""The backpressure graph of a network (BFC, NSDI 2022, appendix B): how pauses spread, and whether they can do so in a circle.

The nodes of the graph are the egresses of switches. An edge from B to A says that a packet can go from A to B in one hop, so that
B, if it cannot send, may pause A. Packets go from any host to any other on every equal-cost shortest path. A cycle is what a
deadlock needs (a cyclic buffer dependency); without one there is none, whatever the traffic.

With symmetric paths all switches of a tier choose alike: a path that passes through a tier twice, as after failures, does not
take every combination of next hops there. Packets that were on their way while routes changed are not considered.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from penstock_net.topology.changes import LinkStates
from penstock_net.topology.graph import Topology

Egress = tuple[int, int]  # node, port
Edge = tuple[Egress, Egress]  # B, A: B may pause A
Choice = tuple[tuple[int, int, int], ...]  # tier, lowest hash and end of the hashes: what a path so far says of the flow's hash
HASHES = 1 << 31


@dataclass(frozen=True)
class Backpressure:
    """The graph from `time_ps` on, while the links in `down` are down."""

    topo: Topology
    edges: frozenset[Edge]
    time_ps: int = 0
    down: frozenset[int] = frozenset()
    failed: frozenset[int] = frozenset()  # switches, whose links are in `down`

    @classmethod
    def of(
        cls,
        topo: Topology,
        down: frozenset[int] = frozenset(),
        *,
        symmetric: bool = False,
        time_ps: int = 0,
        failed: frozenset[int] = frozenset(),
    ) -> "Backpressure":
        """The graph of a network without the links in `down`; `symmetric`: all switches of a tier choose alike."""
        edges = _Walk(topo, down).edges() if symmetric else _edges(topo, down)
        return cls(topo, frozenset(edges), time_ps, down, failed)

    @cached_property
    def egresses(self) -> list[Egress]:
        """The nodes with an edge, ascending."""
        return sorted({egress for edge in self.edges for egress in edge})

    @cached_property
    def cycles(self) -> list[list[Egress]]:
        """See `shortest_cycles`."""
        return shortest_cycles(self.edges)

    def without_elided(self) -> "Backpressure":
        """Without the edges that BFC elides: of packets that come from above and leave upwards, so that no cycle is left.

        Above is a higher tier or, within a tier, a higher number. Along a cycle without such edges packets would climb for ever
        or descend for ever, since after going down none goes up again.
        """
        left = frozenset(edge for edge in self.edges if not self._turns_upwards(edge))
        return replace(self, edges=left)

    def peer(self, egress: Egress) -> int:
        """The node at the other end of an egress's link."""
        return self._far[egress][0]

    def name(self, egress: Egress) -> str:
        """ "tor2 -> spine0" """
        return f"{self.topo.names[egress[0]]} -> {self.topo.names[self.peer(egress)]}"

    @cached_property
    def _far(self) -> dict[Egress, Egress]:
        return far_ends(self.topo)

    def _turns_upwards(self, edge: Edge) -> bool:
        (switch, port), (before, _) = edge
        tier = self.topo.tier

        def above(node: int) -> bool:
            return bool((tier[node], node) > (tier[switch], switch))

        return above(before) and above(self.peer((switch, port)))


def over_time(topo: Topology, *, symmetric: bool = False) -> list[Backpressure]:
    """The graphs before the first change of a network and after each one that takes links or switches down or up."""
    found = [Backpressure.of(topo, symmetric=symmetric)]
    states = LinkStates(topo.links)
    times = sorted({change.time_ps for change in topo.changes if change.up is not None})
    for time in times:
        for change in topo.changes:
            if change.time_ps == time:
                states.apply(change)
        if states.down != found[-1].down:
            failed = frozenset(states.failed)
            found.append(Backpressure.of(topo, states.down, symmetric=symmetric, time_ps=time, failed=failed))
    return found


def _edges(topo: Topology, down: frozenset[int]) -> Iterator[Edge]:
    """Every edge if each switch chooses by itself.  Destinations are switches with hosts, a bit each."""
    fabric = topo.fabric(down)
    ports_to_hosts: dict[int, list[int]] = {}
    for host in np.flatnonzero(fabric.host_up).tolist():
        ports = ports_to_hosts.setdefault(int(fabric.host_switch[host]), [])
        ports += [int(fabric.host_port[host])] if fabric.host_link[host] >= 0 else []
    bit = {root: 1 << place for place, root in enumerate(fabric.roots.tolist()) if root in ports_to_hosts}
    everywhere = sum(bit.values())
    passing = [everywhere & ~bit[place] if place in bit else 0 for place in range(fabric.places)]
    first, heads, ports, towards = fabric.first.tolist(), fabric.head.tolist(), fabric.port.tolist(), fabric.towards
    waiting = list(bit)
    while waiting:  # the destinations of the packets that come to each switch
        switch = waiting.pop()
        for edge in range(first[switch], first[switch + 1]):
            peer, came = heads[edge], towards[edge] & passing[switch]
            if came & ~passing[peer]:
                passing[peer] |= came
                waiting.append(peer)
    for switch in range(fabric.switches):
        for before in range(first[switch], first[switch + 1]):
            came, at = towards[before] & passing[switch], heads[before]
            cause = topo.hosts + switch, ports[before]
            onward = [ports[edge] for edge in range(first[at], first[at + 1]) if towards[edge] & came]
            if came & bit.get(at, 0):
                onward += ports_to_hosts[at]
            yield from (((topo.hosts + at, port), cause) for port in onward)


class _Walk:
    """All paths to every switch with hosts, hop by hop, if all switches of a tier choose alike; hosts of a switch differ in the
    last hop only."""

    def __init__(self, topo: Topology, down: frozenset[int]) -> None:
        self.topo = topo
        self.routes, self.far = topo.routes(down), far_ends(topo)
        ends = topo.first_port[: topo.hosts]
        up = (topo.port_count[: topo.hosts] > 1) | ~np.isin(topo.host_links[ends], list(down))
        self.hosts_of: dict[int, list[int]] = {}  # a host with several links is of its own
        for host in np.flatnonzero(up).tolist():
            self.hosts_of.setdefault(host if topo.port_count[host] > 1 else int(topo.host_switches[host]), []).append(host)

    def edges(self) -> Iterator[Edge]:
        """Every edge; some more than once."""
        for root, hosts in self.hosts_of.items():
            local = [(root, port) for host in hosts for port in self.routes.ports(root, host)]
            seen: set[tuple[int, Choice, Egress | None]] = set()
            waiting: deque[tuple[int, Choice, Egress | None]] = deque(
                (switch, (), None) for switch in self.hosts_of if switch != root
            )
            while waiting:
                switch, choice, before = state = waiting.popleft()
                if state in seen:
                    continue
                seen.add(state)
                if switch == root and before is not None:
                    yield from ((egress, before) for egress in local)
                    continue
                for port, chosen in self.hops(switch, hosts[0], choice):
                    if before is not None:
                        yield (switch, port), before
                    waiting.append((self.far[switch, port][0], chosen, (switch, port)))

    def hops(self, switch: int, host: int, choice: Choice) -> Iterator[tuple[int, Choice]]:
        """Next hops of a flow whose hash is as `choice` says, and what they say of it."""
        ports = self.routes.ports(switch, host)
        tier = int(self.topo.tier[switch])
        known = {level: (low, end) for level, low, end in choice}
        low, end = known.get(tier, (0, HASHES))
        for i, port in enumerate(ports):
            first, last = (-(-j * HASHES // len(ports)) for j in (i, i + 1))
            known[tier] = max(low, first), min(end, last)
            if known[tier][0] < known[tier][1]:
                yield port, tuple((level, *bounds) for level, bounds in sorted(known.items()))


def far_ends(topo: Topology) -> dict[Egress, Egress]:
    """The port at the other end of the link of every port."""
    links = topo.links
    found: dict[Egress, Egress] = {}
    for a, port_a, b, port_b in links[["a", "port_a", "b", "port_b"]].tolist():
        found[a, port_a], found[b, port_b] = (b, port_b), (a, port_a)
    return found


def shortest_cycles(edges: Iterable[Edge]) -> list[list[Egress]]:
    """A shortest cycle of each strongly connected part of a graph, the largest part first: along the edges, back to the first."""
    import networkx

    graph: Any = networkx.DiGraph(sorted(edges))
    parts = [sorted(part) for part in networkx.strongly_connected_components(graph) if len(part) > 1]
    parts.sort(key=lambda part: (-len(part), part))
    return [_shortest_cycle(graph.subgraph(part), part) for part in parts]


def _shortest_cycle(part: Any, egresses: list[Egress]) -> list[Egress]:
    import networkx

    best: list[Egress] = []
    for start in egresses:
        there = networkx.single_source_shortest_path(part, start, cutoff=len(best) - 2 if best else None)
        found: list[Egress] = min(
            (there[last] for last in sorted(part.predecessors(start)) if last in there), key=len, default=[]
        )
        if found and (not best or len(found) < len(best)):
            best = found
    return best
