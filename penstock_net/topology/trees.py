"""Trees of shortest paths over switches, for groups of hosts: what switches reduce goes up them, and comes down again."""

from collections import deque
from typing import NamedTuple

import numpy as np

from penstock_net.errors import SpecError
from penstock_net.topology.graph import Topology
from penstock_net.topology.wiring import switches_named

FAR = 2**31


class Tree(NamedTuple):
    """A tree by its nodes: the root, then the others by their distance from it; the children of a node follow one another.

    node      int64, host or switch
    parent    int64, place of its parent; -1: it is the root
    up, down  int64, its port to the parent, and the parent's port to it; -1 of the root
    depth     links from the root to the farthest host
    """

    node: np.ndarray
    parent: np.ndarray
    up: np.ndarray
    down: np.ndarray
    depth: int


class Trees:
    """Makes the trees of one network."""

    def __init__(self, topo: Topology) -> None:
        self.topo = topo
        self._links: list[list[tuple[int, int, int]]] = [[] for _ in range(topo.nodes)]  # by node: neighbour, port, its port
        for a, b, port_a, port_b in zip(*(topo.links[name].tolist() for name in ("a", "b", "port_a", "port_b"))):
            self._links[a].append((b, port_a, port_b))
            self._links[b].append((a, port_b, port_a))
        for links in self._links:
            links.sort(key=lambda link: link[1])
        self._from: dict[int, np.ndarray] = {}

    def tree(self, hosts: np.ndarray, root: str = "*", turn: int = 0, path: str = "root") -> Tree:
        """The tree of a group of hosts.

        root  a pattern of the names of the switches that its root may be. It is one whose farthest host is nearest
        turn  which of several that are as good, and which of several shortest paths: they are taken in turn
        path  the key that names the root, for errors

        SpecError: no switch has such a name, or none reaches all hosts over switches.
        """
        topo = self.topo
        may = switches_named(root, topo.names[topo.hosts :], path)
        far = np.max([self._distances(host) for host in hosts.tolist()], axis=0)
        far[~may] = FAR
        depth = int(far.min())
        if depth >= FAR:
            raise self._no_tree(hosts, root, may, path)
        best = np.flatnonzero(far == depth)
        return self._grow(topo.hosts + int(best[turn % len(best)]), hosts, turn, depth)

    def _distances(self, node: int) -> np.ndarray:
        """Links from a node to each switch, over switches; FAR: it is not reached."""
        hosts = self.topo.hosts
        if node < hosts:
            near = [self._distances(other) for other, _, _ in self._links[node] if other >= hosts]
            return np.min(near, axis=0) + 1 if near else np.full(self.topo.switches, FAR)
        if node not in self._from:
            found = np.full(self.topo.switches, FAR)
            found[node - hosts] = 0
            queue = deque([node])
            while queue:
                at = queue.popleft()
                for other, _, _ in self._links[at]:
                    if other >= hosts and found[other - hosts] == FAR:
                        found[other - hosts] = found[at - hosts] + 1
                        queue.append(other)
            self._from[node] = found
        return self._from[node]

    def _grow(self, root: int, hosts: np.ndarray, turn: int, depth: int) -> Tree:
        """Each node hangs on a neighbour that is one link nearer to the root."""
        near = self._distances(root)
        above: dict[int, tuple[int, int, int]] = {root: (-1, -1, -1)}
        for host in hosts.tolist():
            node = host
            while node not in above:
                over = [link for link in self._links[node] if link[0] >= self.topo.hosts]
                least = min(near[link[0] - self.topo.hosts] for link in over)
                closer = [link for link in over if near[link[0] - self.topo.hosts] == least]
                above[node] = closer[turn % len(closer)]
                node = above[node][0]
        below: dict[int, list[int]] = {}
        for node in sorted(above):
            below.setdefault(above[node][0], []).append(node)
        nodes, parent = [root], [-1]
        for place, node in enumerate(nodes):  # grows
            nodes += below.get(node, [])
            parent += [place] * len(below.get(node, []))
        _, up, down = np.array([above[node] for node in nodes], dtype=np.int64).T
        return Tree(np.array(nodes), np.array(parent), up, down, depth)

    def _no_tree(self, hosts: np.ndarray, root: str, may: np.ndarray, path: str) -> SpecError:
        """Names the first host, and the first one that no root reaches as well as all before it."""
        reached, host = np.ones(len(may), dtype=bool), hosts[0]
        for host in hosts.tolist():
            reached &= may & (self._distances(host) < FAR)
            if not reached.any():
                break
        names = self.topo.names
        return SpecError(
            f"no such switch reaches all hosts of a group, such as {names[hosts[0]]} and {names[host]}, over switches alone",
            path=path,
            value=root,
            remedy='take hosts of one plane, another root, or an algorithm of hosts, such as "ring"',
        )
