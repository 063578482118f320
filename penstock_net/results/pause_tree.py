"""Which pauses caused which: by port, as a tree behind a paused port, and pause by pause.

    run.pause_tree("host0:0")      why host0 was paused: the ports that were paused before, and so on; a notebook shows a table
    run.pause_causes()             a row per pause, with the pause that caused it

Both need [measure] pauses = true. What causes a pause is told by `results.pauses`. While a port is paused and none of its
causes was, one delay of the link earlier, its peer itself is congested: more traffic arrives for an egress than its link
carries, or it is a slow receiver. Repeated for every cause, this gives a tree, whose leaves are where the congestion is.

Times are ns. A port counts as paused while the port or any of its queues is. Paths are those of the network with every link
up: a pause that spreads along a detour around a failed link ends where the detour leaves them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from penstock_net.errors import SpecError
from penstock_net.notebook import block
from penstock_net.results.chosen import port_of, span_ns
from penstock_net.results.links import Links, Port, node_names
from penstock_net.results.pauses import NEVER, Queue, by_port, by_queue, causes, common, intervals, length, union, without
from penstock_net.units import format_time

if TYPE_CHECKING:
    from penstock_net.results.run import Run

SHOWN = 30  # rows of a table in a notebook
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
    branches: list[Tree]
    lag: float = 0.0
    loop: bool = False
    cut: bool = False

    @property
    def paused_ns(self) -> float:
        """The length of its spans."""
        return length(self.spans)

    @property
    def rest_ns(self) -> float:
        """The length of its rest."""
        return length(self.rest)

    @cached_property
    def rest(self) -> np.ndarray:
        """Its spans, without those of its branches; in a tree of causes its peer itself was congested then."""
        return without(self.spans, union(branch.spans - branch.lag for branch in self.branches))

    def walk(self, depth: int = 0) -> Iterator[tuple[int, Tree]]:
        """Itself and all below, with their depths, each before its branches."""
        yield depth, self
        for branch in self.branches:
            yield from branch.walk(depth + 1)

    @property
    def note(self) -> str:
        """What to say of it: "in a loop", "..." for branches that are left out, or nothing."""
        return "in a loop" if self.loop else "..." if self.cut else ""

    def text(self, pauses: Pauses, indent: str = "") -> str:
        """A line per port: its link, the time paused, the time of it without a branch."""
        note = f", {self.note}" if self.note else ""
        line = f"{indent}{pauses.link(self.port, ' -> ')}: {self.paused_ns:g} ns, alone {self.rest_ns:g} ns{note}"
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
    def of(cls, run: Run) -> Pauses:
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

    def link(self, port: Port, to: str = " to ") -> str:
        """The ends of an egress's link: tor0 to spine1."""
        return f"{self.names[port[0]]}{to}{self.names[self.links.far_end[port][0]]}"

    def coarser(self, most: int) -> tuple[Pauses, float]:
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


@dataclass(frozen=True)
class PauseTree:
    """Why a port was paused, as `Run.pause_tree` returns it: a table in a notebook, text for `print`.

    tree    the port, with the ports that were paused before and caused it below
    pauses  all pauses of the run
    label   of the run
    """

    tree: Tree
    pauses: Pauses
    label: str

    @classmethod
    def of(cls, run: Run, port: str | None = None, time: str | None = None) -> PauseTree:
        """As `Run.pause_tree`."""
        pauses = Pauses.of(run)
        span = (0.0, pauses.end_ns) if time is None else span_ns(time, [run])
        if port is not None:
            chosen = port_of([run], port)
            return cls(pauses.causes((chosen.node, chosen.number), *span), pauses, run.label)
        within = np.array([span])
        paused = {port: length(common(found, within)) for port, found in pauses.ports.items() if port in pauses.links.far_end}
        longest = max(paused, key=lambda port: (paused[port], -port[0], -port[1]), default=min(pauses.links.far_end))
        return cls(pauses.causes(longest, *span), pauses, run.label)

    @property
    def table(self) -> pl.DataFrame:
        """A row per port of the tree, each before those below it.

        depth      0: the port that was asked for; 1: the ports that caused its pauses, ...
        node, port, link
        paused_ns  how long it was paused together with all ports above it in the tree, link delays taken into account
        alone_ns   the part of it in which no port below was paused: the congestion is at the end of this link
        note       "in a loop": it is above itself; "...": the ports below are left out, since there are many
        """
        schema = {"depth": pl.Int64, "node": pl.Int32, "port": pl.Int32, "link": pl.String}
        rows = [
            (depth, *tree.port, self.pauses.link(tree.port), tree.paused_ns, tree.rest_ns, tree.note)
            for depth, tree in self.tree.walk()
        ]
        return pl.DataFrame(
            rows, schema=schema | {"paused_ns": pl.Float64, "alone_ns": pl.Float64, "note": pl.String}, orient="row"
        )

    def __repr__(self) -> str:
        return self.tree.text(self.pauses)

    def _repr_html_(self) -> str:
        ports = list(self.tree.walk())
        rows = [
            ("\u2003" * depth + self.pauses.link(tree.port), _time(tree.paused_ns), _time(tree.rest_ns), tree.note)
            for depth, tree in ports[:SHOWN]
        ]
        left = [f"and {len(ports) - SHOWN:,} more: .table has all"] if len(ports) > SHOWN else []
        notes = [*left, "below a port: the ports that were paused before it, and caused it"]
        notes += ["alone: no port below was paused, so that the end of this link was congested itself"]
        link = self.pauses.link(self.tree.port)
        if not self.tree.paused_ns:
            return block(f"{link} was not paused, {self.label}")
        head = ("port", "paused", "alone", "")
        return block(f"Why {link} was paused, {self.label}", rows, notes, head)


def _time(ns: float) -> str:
    return format_time(1000 * float(f"{ns:.3g}")) if ns else "0"


def pause_causes(run: Run) -> pl.DataFrame:
    """As `Run.pause_causes`."""
    pauses = Pauses.of(run)
    found = intervals(run.frame("pauses")).sort("pause")
    start = found["start_ns"].to_list()
    parent: list[int | None] = [None] * len(start)
    count = [0] * len(start)
    for cause, effect in causes(found, pauses.links):
        count[effect] += 1
        best = parent[effect]
        before = (start[cause], cause) < (start[effect], effect)  # always, where links have delays
        if before and (best is None or (start[cause], cause) < (start[best], best)):
            parent[effect] = cause
    root, depth, held = list(range(len(start))), [0] * len(start), [0] * len(start)
    order = sorted(range(len(start)), key=lambda pause: (start[pause], pause))
    for pause in order:
        if (above := parent[pause]) is not None:
            root[pause], depth[pause] = root[above], depth[above] + 1
    for pause in reversed(order):
        if (above := parent[pause]) is not None:
            held[above] += held[pause] + 1
    links = [pauses.link(port) if port in pauses.links.far_end else None for port in found.select("node", "port").iter_rows()]
    columns = (("cause", parent), ("root", root), ("depth", depth), ("causes", count), ("caused", held))
    return found.select(
        pl.col("pause").cast(pl.Int64),
        *(pl.Series(name, values, dtype=pl.Int64) for name, values in columns),
        "node",
        "port",
        "queue",
        pl.Series("link", links, dtype=pl.String),
        "start_ns",
        "end_ns",
    )
