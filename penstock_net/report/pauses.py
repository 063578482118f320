"""The pauses of a run for the report: the tree of pauses behind a paused port.

    pauses = Pauses.of(run)                            needs [measure] pauses = true
    print(pauses.causes((3, 0), 0, 1e6).text(pauses))

What causes a pause is told by `results.pauses`. While a port is paused and none of its causes was, one delay of the link
earlier, its peer itself is congested: more traffic arrives for an egress than its link carries, or it is a slow receiver.
Repeated for every cause, this gives a tree, whose leaves are where the congestion is.

Times are ns. A port counts as paused while the port or any of its queues is. Paths are those of the network with every link
up: a pause that spreads along a detour around a failed link ends where the detour leaves them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from penstock_net.errors import SpecError
from penstock_net.results.links import Links, Port, node_names
from penstock_net.results.pauses import NEVER, Queue, by_port, by_queue, common, intervals, length, union
from penstock_net.results.run import Run

MOST = 1000  # ports of a tree, about


@dataclass
class Tree:
    """A paused port with its causes (or the ports that it holds up in turn), longest first.

    spans  when it was paused, of the time for which everything above it in the tree was, `lag` ns apart from level to level
    lag    how much later its spans are than those of the port above that they go with; a cause is earlier
    loop   whether the port is above itself in the tree: the pauses wait for each other; it has no branches
    cut    whether its branches are left out, because the tree is large
    """

    port: Port
    spans: np.ndarray
    branches: list["Tree"]
    lag: float = 0.0
    loop: bool = False
    cut: bool = False

    @property
    def paused_ns(self) -> float:
        """The length of its spans."""
        return length(self.spans)

    @property
    def rest_ns(self) -> float:
        """The part of paused_ns in which no branch was paused; in a tree of causes its peer itself was congested then."""
        return self.paused_ns - length(union(branch.spans - branch.lag for branch in self.branches))

    def text(self, pauses: "Pauses", indent: str = "") -> str:
        """A line per port: its link, the time paused, the time of it without a branch."""
        node, peer = pauses.names[self.port[0]], pauses.names[pauses.links.far_end[self.port][0]]
        note = ", in a loop" * self.loop + ", ..." * self.cut
        line = f"{indent}{node} -> {peer}: {self.paused_ns:g} ns, alone {self.rest_ns:g} ns{note}"
        return "\n".join([line, *(branch.text(pauses, indent + "  ") for branch in self.branches)])


@dataclass(frozen=True)
class Pauses:
    """The pauses of a run.

    queues  intervals by node, port and queue (-1: the whole port), float64[n, 2]
    links   of the run
    names   of the nodes
    end_ns  of the run
    """

    queues: dict[Queue, np.ndarray]
    links: Links
    names: Sequence[str]
    end_ns: float

    @classmethod
    def of(cls, run: Run) -> "Pauses":
        """SpecError: the run did not record its pauses, or has no ports."""
        log, links = run.frame("pauses"), Links.of(run.ports)
        if not links.far_end:
            raise SpecError(f'run "{run.label}": has no ports', remedy="run again with [measure] ports = true")
        end = max([float(run.summary.get("end_ns") or 0), *log["time_ns"].top_k(1)])
        return cls(by_queue(intervals(log), end), links, node_names(run), end)

    @cached_property
    def ports(self) -> dict[Port, np.ndarray]:
        """Intervals of every port that was paused, or had a queue that was."""
        return by_port(self.queues)

    @cached_property
    def count(self) -> int:
        """Intervals of all queues."""
        return sum(map(len, self.queues.values()))

    def coarser(self, most: int) -> tuple["Pauses", float]:
        """At most about `most` intervals, but two per queue: those less than a gap (ns, returned) apart are joined; 0: none."""
        most = max(most, 2 * len(self.queues))
        if self.count <= most:
            return self, 0.0
        gaps = np.concatenate([spans[1:, 0] - spans[:-1, 1] for spans in self.queues.values()])
        gap = float(np.sort(gaps)[len(gaps) - (most - len(self.queues))])
        joined = {}
        for key, spans in self.queues.items():
            apart = spans[1:, 0] - spans[:-1, 1] >= gap
            joined[key] = np.column_stack([spans[np.append(True, apart), 0], spans[np.append(apart, True), 1]])
        return Pauses(joined, self.links, self.names, self.end_ns), gap

    def causes(self, port: Port, start_ns: float, end_ns: float) -> Tree:
        """Why a port was paused in an interval, as the module's docstring says."""
        return self._tree(port, start_ns, end_ns, self._earlier)

    def victims(self, port: Port, start_ns: float, end_ns: float) -> Tree:
        """Which ports were paused while this one was, and may have been because of it: the ports towards its node, and so on."""
        return self._tree(port, start_ns, end_ns, self._later)

    def _earlier(self, port: Port) -> list[tuple[Port, float]]:
        return [(other, -self.links.delay_ns[port]) for other in self.links.following(port)]

    def _later(self, port: Port) -> list[tuple[Port, float]]:
        return [(other, self.links.delay_ns[other]) for other in self.links.preceding(port)]

    def _tree(self, port: Port, start_ns: float, end_ns: float, step: Callable[[Port], list[tuple[Port, float]]]) -> Tree:
        """step: the ports that may be the branches of a port, with their lag."""
        chosen = np.array([[start_ns, end_ns]], dtype=np.float64)
        root = Tree(port, common(self.ports.get(port, NEVER), chosen), [])
        level: list[tuple[Tree, tuple[Port, ...]]] = [(root, (port,))]
        count = 1
        while level:
            deeper = []
            for tree, path in level:
                found = [(o, lag, common(self.ports.get(o, NEVER), tree.spans + lag)) for o, lag in step(tree.port)]
                found = [one for one in found if len(one[2])]
                if count >= MOST:
                    tree.cut = bool(found)
                    continue
                tree.branches = [Tree(other, spans, [], lag, loop=other in path) for other, lag, spans in found]
                tree.branches.sort(key=lambda branch: (-branch.paused_ns, branch.port))
                count += len(tree.branches)
                deeper += [(branch, (*path, branch.port)) for branch in tree.branches if not branch.loop]
            level = deeper
        return root
