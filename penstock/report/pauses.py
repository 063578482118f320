"""Who paused whom: the pauses of a run as spans of time, and the tree of pauses behind a paused port.

    pauses = Pauses.of(run)                            needs [measure] pauses = true
    print(pauses.causes((3, 0), 0, 1e6).text(pauses))

The egress (node, port) is paused by its peer. The peer does so because packets from that link stay in its buffer; those
of its egresses that are paused at the same time, and that a shortest path leads to from that link, hold them there and are
the causes of this pause. While none of them is paused the peer itself is congested: more traffic arrives for an egress
than its link carries, or it is a slow receiver. Repeated for every cause, this gives a tree, whose leaves are where the
congestion is.

Times are ns. A port counts as paused while the port or any of its queues is. Paths are those of the network with every link
up: a pause that spreads along a detour around a failed link ends where the detour leaves them.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from penstock.errors import SpecError
from penstock.results.run import Run

Port = tuple[int, int]  # node, number of the egress within it
NOTHING = np.empty((0, 2))
MOST = 1000  # ports of a tree, about


def union(spans: Iterable[np.ndarray]) -> np.ndarray:
    """Spans, float64[n, 2] of starts and ends, as sorted ones that do not touch; empty ones go."""
    rows = np.concatenate([NOTHING, *spans])
    rows = rows[rows[:, 1] > rows[:, 0]]
    if not len(rows):
        return NOTHING
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    reached = np.maximum.accumulate(rows[:, 1])
    first = np.append(True, rows[1:, 0] > reached[:-1])
    last = np.append(first[1:], True)
    return np.column_stack([rows[first, 0], reached[last]])


def common(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The time that is in a span of both; each sorted and without overlaps, as `union` makes them."""
    if not len(a) or not len(b):
        return NOTHING
    first = np.searchsorted(b[:, 1], a[:, 0], side="right")
    count = np.searchsorted(b[:, 0], a[:, 1], side="left") - first
    left = np.repeat(np.arange(len(a)), count)
    right = np.arange(len(left)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)
    rows = np.column_stack([np.maximum(a[left, 0], b[right, 0]), np.minimum(a[left, 1], b[right, 1])])
    return rows[rows[:, 1] > rows[:, 0]]


def length(spans: np.ndarray) -> float:
    """The sum of the spans' lengths."""
    return float((spans[:, 1] - spans[:, 0]).sum())


def within(spans: np.ndarray, start: float, end: float) -> float:
    """The length of what lies in an interval."""
    return float((np.clip(spans[:, 1], start, end) - np.clip(spans[:, 0], start, end)).sum())


@dataclass
class Tree:
    """A paused port with its causes (or the ports that it holds up in turn), longest first.

    spans  when it was paused, of the time that everything above it in the tree was paused
    loop   whether the port is above itself in the tree: the pauses wait for each other; it has no branches
    cut    whether its branches are left out, because the tree is large
    """

    port: Port
    spans: np.ndarray
    branches: list["Tree"]
    loop: bool = False
    cut: bool = False

    @property
    def paused_ns(self) -> float:
        """The length of its spans."""
        return length(self.spans)

    @property
    def rest_ns(self) -> float:
        """The part of paused_ns in which no branch was paused; in a tree of causes its peer itself was congested then."""
        return self.paused_ns - length(union(branch.spans for branch in self.branches))

    def text(self, pauses: "Pauses", indent: str = "") -> str:
        """A line per port: its link, the time paused, the time of it without a branch."""
        node, peer = pauses.names[self.port[0]], pauses.names[pauses.far_end[self.port][0]]
        note = ", in a loop" * self.loop + ", ..." * self.cut
        line = f"{indent}{node} -> {peer}: {self.paused_ns:g} ns, alone {self.rest_ns:g} ns{note}"
        return "\n".join([line, *(branch.text(pauses, indent + "  ") for branch in self.branches)])


@dataclass(frozen=True)
class Pauses:
    """The pauses of a run.

    queues   spans by node, port and queue (-1: the whole port), float64[n, 2]
    far_end  the egress at the other end of each egress's link
    names    of the nodes
    end_ns   of the run
    """

    queues: dict[tuple[int, int, int], np.ndarray]
    far_end: dict[Port, Port]
    names: Sequence[str]
    end_ns: float

    @classmethod
    def of(cls, run: Run) -> "Pauses":
        """SpecError: the run did not record its pauses, or has no ports."""
        log = run.frame("pauses").sort("node", "port", "queue", "time_ns", maintain_order=True)
        ends = far_ends(run.ports)
        if not ends:
            raise SpecError(f'run "{run.label}": has no ports', remedy="run again with [measure] ports = true")
        last = max([float(run.summary.get("end_ns") or 0), *log["time_ns"].top_k(1)])
        return cls(_spans(log, last), ends, node_names(run), last)

    @cached_property
    def ports(self) -> dict[Port, np.ndarray]:
        """Spans of every port that was paused, or had a queue that was."""
        groups: dict[Port, list[np.ndarray]] = {}
        for (node, port, _), spans in self.queues.items():
            groups.setdefault((node, port), []).append(spans)
        return {port: union(spans) for port, spans in sorted(groups.items())}

    @cached_property
    def _held(self) -> dict[Port, list[Port]]:
        """The possible causes of every port's pauses: the next links of the paths over its link."""
        reached = _destinations(self.far_end)
        egresses: dict[int, list[Port]] = {}
        for port in sorted(self.far_end):
            egresses.setdefault(port[0], []).append(port)
        return {
            port: [n for n in egresses[back[0]] if n != back and (reached[port] & reached[n]).any()]
            for port, back in self.far_end.items()
        }

    @cached_property
    def _holding(self) -> dict[Port, list[Port]]:
        found: dict[Port, list[Port]] = {port: [] for port in self.far_end}
        for port in sorted(self._held):
            for cause in self._held[port]:
                found[cause].append(port)
        return found

    def held_by(self, port: Port) -> list[Port]:
        """The egresses of the port's peer that may be why it pauses this port."""
        return self._held[port]

    def holding(self, port: Port) -> list[Port]:
        """The egresses of other nodes that this port's node may pause because this port is paused."""
        return self._holding[port]

    @cached_property
    def count(self) -> int:
        """Spans of all queues."""
        return sum(map(len, self.queues.values()))

    def coarser(self, most: int) -> tuple["Pauses", float]:
        """At most about `most` spans, but two for each queue: those less than a gap (ns, returned) apart are joined; 0: none."""
        most = max(most, 2 * len(self.queues))
        if self.count <= most:
            return self, 0.0
        gaps = np.concatenate([spans[1:, 0] - spans[:-1, 1] for spans in self.queues.values()])
        gap = float(np.sort(gaps)[len(gaps) - (most - len(self.queues))])
        joined = {}
        for key, spans in self.queues.items():
            apart = spans[1:, 0] - spans[:-1, 1] >= gap
            joined[key] = np.column_stack([spans[np.append(True, apart), 0], spans[np.append(apart, True), 1]])
        return Pauses(joined, self.far_end, self.names, self.end_ns), gap

    def causes(self, port: Port, start_ns: float, end_ns: float) -> Tree:
        """Why a port was paused in an interval, as the module's docstring says."""
        return self._tree(port, start_ns, end_ns, self.held_by)

    def victims(self, port: Port, start_ns: float, end_ns: float) -> Tree:
        """Which ports were paused while this one was, and may have been because of it: the ports towards its node, and so on."""
        return self._tree(port, start_ns, end_ns, self.holding)

    def _tree(self, port: Port, start_ns: float, end_ns: float, step: Callable[[Port], list[Port]]) -> Tree:
        within = np.array([[start_ns, end_ns]], dtype=np.float64)
        root = Tree(port, common(self.ports.get(port, NOTHING), within), [])
        level: list[tuple[Tree, tuple[Port, ...]]] = [(root, (port,))]
        count = 1
        while level:
            deeper = []
            for tree, path in level:
                if count >= MOST:
                    tree.cut = any(len(common(self.ports.get(other, NOTHING), tree.spans)) for other in step(tree.port))
                    continue
                found = [(other, common(self.ports.get(other, NOTHING), tree.spans)) for other in step(tree.port)]
                tree.branches = [Tree(other, spans, [], other in path) for other, spans in found if len(spans)]
                tree.branches.sort(key=lambda branch: (-branch.paused_ns, branch.port))
                count += len(tree.branches)
                deeper += [(branch, (*path, branch.port)) for branch in tree.branches if not branch.loop]
            level = deeper
        return root


def far_ends(ports: pl.DataFrame) -> dict[Port, Port]:
    """The egress at the other end of every egress: the k-th port from a to b belongs to the k-th from b to a."""
    between: dict[tuple[int, int], list[int]] = {}
    for node, port, peer in ports.sort("node", "port").select("node", "port", "peer").iter_rows():
        between.setdefault((node, peer), []).append(port)
    return {
        (node, port): (peer, back)
        for (node, peer), own in between.items()
        for port, back in zip(own, between.get((peer, node), []))
    }


def _destinations(far_end: dict[Port, Port]) -> dict[Port, np.ndarray]:
    """Of every egress: to which switches with hosts its link is on a shortest path, bool[nodes]; from a host: to all."""
    links = np.array([(node, peer) for (node, _), (peer, _) in far_end.items()])
    count = int(links.max()) + 1
    host = np.bincount(links[:, 0], minlength=count) == 1
    inner = links[~host[links].any(axis=1)]
    ends = np.zeros(count, dtype=bool)
    ends[links[host[links[:, 0]], 1]] = True
    near = np.zeros((count, count), dtype=np.float32)
    near[inner[:, 0], inner[:, 1]] = 1
    hops = np.where(np.eye(count, dtype=bool), 0, count)
    reached, distance = np.eye(count, dtype=bool), 0
    while True:
        distance += 1
        new = (near @ reached > 0) & ~reached
        if not new.any():
            break
        hops[new] = distance
        reached |= new
    own = np.eye(count, dtype=bool)
    return {
        port: ends if host[port[0]] else own[port[0]] if host[peer] else ends & (hops[port[0]] == hops[peer] + 1)
        for port, (peer, _) in far_end.items()
    }


def node_names(run: Run) -> list[str]:
    """The name of every node, "node 7" in runs that have none."""
    if "nodes" in run.frames:
        return run.frame("nodes").sort("node")["name"].to_list()
    count = max([-1, *run.ports["node"].to_list(), *run.ports["peer"].to_list()]) + 1
    return [f"node {number}" for number in range(count)]


def _spans(log: pl.DataFrame, end: float) -> dict[tuple[int, int, int], np.ndarray]:
    """Spans by node, port and queue, of a log sorted by these and by time; a pause in force at the end lasts until then."""
    by = ["node", "port", "queue"]
    before = pl.col("paused").shift(fill_value=False).over(by)
    log = log.filter(pl.col("paused") != before).with_columns(end=pl.col("time_ns").shift(-1, fill_value=end).over(by))
    log = log.filter("paused", pl.col("end") > pl.col("time_ns"))
    keys, rows = log.select(by).to_numpy(), log.select("time_ns", "end").to_numpy()
    first = np.flatnonzero((np.diff(keys, axis=0, prepend=-9) != 0).any(axis=1))
    return {tuple(keys[i].tolist()): spans for i, spans in zip(first, np.split(rows, first[1:]))}
