"""How far nodes may run ahead of one another: windows between groups of nodes, and shorter steps within a group.

A packet takes at least the delay of its link, so nodes joined only by long links need to exchange packets rarely.  Where
delays differ much, nodes joined by links shorter than the window form groups.  A group belongs to one worker, and to groups
within it the same applies.  Results do not depend on it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from penstock_net import scratch

if TYPE_CHECKING:
    from penstock_net.topology import Topology
    from penstock_net.workload.flows import Flows

APART = 2  # delays that differ by less are not worth a group of their own
UNEVEN = 1.1  # the busiest worker may have so many times what it has if every node is a group of its own
UNEXPECTED = 0.01  # of the work: samples, and what takes other ways than expected; divided by ports
UNBOUNDED_PS = 1 << 62
WIDTH = 8  # places of a block


@dataclass
class Agenda:
    """A worker's tree of next-event times, as in sim/core/agenda.py; the block added last is the top.

    above    by block: its place in the block above; -1: none
    steps    by block, ps: how far its parts run before they look at one another
    numbers  by place: the node there; -1: none
    """

    above: list[int] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)

    def pack(self, items: list[int], step: int) -> int:
        """Put nodes, and blocks as ~block, below one block; returns that as ~block."""
        while True:
            blocks = [self._block(items[i : i + WIDTH]) for i in range(0, max(1, len(items)), WIDTH)]
            if len(blocks) == 1:
                self.steps[blocks[0]] = step
                return ~blocks[0]
            items = [~block for block in blocks]

    def _block(self, items: list[int]) -> int:
        number = len(self.steps)
        self.above.append(-1)
        self.steps.append(UNBOUNDED_PS)
        self.numbers += [max(item, -1) for item in items] + [-1] * (WIDTH - len(items))
        for i, item in enumerate(items):
            if item < 0:
                self.above[~item] = WIDTH * number + i
        return number


@dataclass(frozen=True)
class Lookahead:
    """The windows of a run.

    window_ps  the shortest delay of a link between groups
    near       by link: both its ends are in the same group
    agendas    by worker
    """

    window_ps: int
    near: np.ndarray
    agendas: list[Agenda]


def lookahead(topo: Topology, threads: int, flows: Flows | None = None, apart: bool = True) -> Lookahead:
    """The longest windows whose groups can be divided evenly among the threads; without `apart` every node is a group.

    flows    what the nodes have to do; without them a node has as much to do as it has ports
    """
    weight = topo.port_count / topo.port_count.sum()
    if flows is not None and threads > 1 and (expected := work(topo, flows)).any():
        weight = expected / expected.sum() + UNEXPECTED * weight
    workers = partition(topo, threads, weight)
    bounds = delays_apart(topo) if apart else [topo.min_delay_ps]
    labels = [components(topo, topo.links["delay_ps"] < bound) for bound in bounds]
    most = np.bincount(workers, weight).max()
    while True:
        whole = keep_whole(workers, labels[-1], weight)
        if len(labels) == 1 or np.bincount(whole, weight).max() <= UNEVEN * most:
            break
        labels.pop()
    near = labels[-1][topo.links["a"]] == labels[-1][topo.links["b"]]
    window = min(topo.links["delay_ps"][~near].tolist(), default=bounds[len(labels) - 1])
    return Lookahead(window, near, [agenda(np.flatnonzero(whole == i), labels, bounds) for i in range(threads)])


def delays_apart(topo: Topology) -> list[int]:
    """The shortest link delay and, from there on, each next delay that is at least APART times as long, ps."""
    out: list[int] = []
    for delay in np.unique(topo.links["delay_ps"]).tolist():
        if not out or delay >= APART * out[-1]:
            out.append(delay)
    return out


def components(topo: Topology, joined: np.ndarray) -> np.ndarray:
    """The group of each node, named by its first member; `joined`: the links that join nodes to groups."""
    group = np.arange(topo.nodes)
    a, b = topo.links["a"][joined], topo.links["b"][joined]
    while len(a):
        low, high = np.minimum(group[a], group[b]), np.maximum(group[a], group[b])
        np.minimum.at(group, high, low)
        while not np.array_equal(group, group[group]):
            group = group[group]
        apart = group[a] != group[b]
        a, b = a[apart], b[apart]
    return group


def keep_whole(workers: np.ndarray, group: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Assign each group to the worker that has most of its nodes; returns the worker of each node."""
    share = np.zeros((len(group), workers.max() + 1))
    np.add.at(share, (group, workers), weight)
    return share.argmax(axis=1)[group]


def agenda(nodes: np.ndarray, labels: list[np.ndarray], bounds: list[int]) -> Agenda:
    """The agenda of a worker's nodes.  labels[i]: their groups by links shorter than bounds[i]."""
    made = Agenda()

    def item(members: np.ndarray, level: int) -> int:
        """A group of some level: a node, or ~block."""
        if len(members) == 1:
            return int(members[0])
        inner = parts(members, level - 1)
        if len(inner) == 1:
            return item(members, level - 1)
        return made.pack([item(part, level - 1) for part in inner], bounds[level - 1])

    def parts(members: np.ndarray, level: int) -> list[np.ndarray]:
        """The groups of some level among these nodes."""
        order = members[np.argsort(labels[level][members], kind="stable")]
        return np.split(order, np.flatnonzero(np.diff(labels[level][order])) + 1)

    top = len(labels) - 1
    made.pack([item(part, top) for part in parts(nodes, top) if len(part)], UNBOUNDED_PS)
    return made


def work(topo: Topology, flows: Flows) -> np.ndarray:
    """float64 by node: bytes that flows are expected to bring to it and take from it."""
    hosts = np.zeros(topo.hosts)
    for part in scratch.parts(flows.src, flows.dst, flows.bytes):
        sends = np.where(flows.src[part] != flows.dst[part], flows.bytes[part], 0)
        for end in (flows.src, flows.dst):
            hosts += np.bincount(end[part], weights=sends, minlength=topo.hosts)
    on_link = topo.expected_bytes(flows.src, flows.dst, flows.bytes).sum(axis=1)
    alone = topo.port_count[: topo.hosts] == 1
    on_link[topo.host_links[topo.first_port[: topo.hosts][alone]]] = hosts[alone]
    a, b = (np.bincount(topo.links[end], weights=on_link, minlength=topo.nodes) for end in "ab")
    return a + b


def partition(topo: Topology, threads: int, weight: np.ndarray) -> np.ndarray:
    """Worker of each node.  Each tier is split in order, into parts as large as what the workers still lack of their share.

    The tier of the heaviest node comes first, so that those of many light ones, the hosts, even out the rest.
    """
    worker = np.zeros(topo.nodes, dtype=int)
    tiers = [np.flatnonzero(topo.tier == tier) for tier in range(int(topo.tier.max()) + 1)]
    share = weight.sum() / threads
    lacks = np.full(threads, share)
    for members in sorted((tier for tier in tiers if len(tier)), key=lambda tier: -weight[tier].max()):
        middle = np.cumsum(weight[members]) - weight[members] / 2
        wanted = np.maximum(lacks, 1e-9 * share)
        bounds = np.cumsum(wanted) / wanted.sum() * weight[members].sum()
        worker[members] = np.searchsorted(bounds[:-1], middle, side="right")
        lacks -= np.bincount(worker[members], weights=weight[members], minlength=threads)
    return worker
