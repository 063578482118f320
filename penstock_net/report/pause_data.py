"""What the report page shows of pauses: the network with the time each port was paused, and the recorded pauses."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from penstock_net.report.figures import Table
from penstock_net.report.network import Network, network
from penstock_net.results.links import Port
from penstock_net.results.pause_tree import Pauses
from penstock_net.results.pauses import within
from penstock_net.results.run import Run
from penstock_net.units import format_time

SPANS = 150_000  # of all runs on a page; about 10 bytes each
LISTED = 15  # ports of a table
REMEDY = "record them with --set measure.pauses=true, or [measure] pauses = true"


class PauseView:
    """A run's network and pauses for the page.

    net     None: the run recorded no ports
    pauses  None: the run did not record its pauses
    paused  time that each port was paused in the measurement window, ns: the mean of its queues
    queues  of each node's ports, which a pause may be of; 1 if whole ports are paused
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.net: Network | None = network(run)
        self.pauses = Pauses.of(run) if self.net and run.pauses is not None else None
        end = self.pauses.end_ns if self.pauses else float(run.summary.get("end_ns") or 0)
        self.window = run.window or (0.0, end)
        self.end_ns = max(end, self.window[1])
        rows = run.ports.select("node", "port", pl.coalesce("window_paused_ns", "paused_ns")).iter_rows()
        self.paused: dict[Port, float] = {(node, port): time for node, port, time in rows}
        self.queues = self._queues()
        self.drawn, self.gap_ns = self.pauses, 0.0
        if self.pauses:
            times = dict.fromkeys(self.pauses.ports, 0.0)
            for (node, port, queue), found in self.pauses.queues.items():
                times[node, port] += within(found, *self.window) / (self.queues[node] if queue >= 0 else 1)
            self.paused |= times

    def draw(self, spans: int) -> None:
        """Join pauses that are close to each other, so that the page holds at most about that many."""
        if self.pauses:
            self.drawn, self.gap_ns = self.pauses.coarser(spans)

    def _queues(self) -> list[int]:
        """Hosts have as many as the highest number of a paused queue of any host says, switches likewise."""
        highest = {False: 0, True: 0}
        if self.net and self.pauses:
            for node, _, queue in self.pauses.queues:
                host = bool(self.net.host[node])
                highest[host] = max(highest[host], queue)
        return [highest[bool(host)] + 1 for host in self.net.host] if self.net else []

    @property
    def by_queue(self) -> bool:
        """Whether the scheme pauses single queues."""
        return self.pauses is not None and any(queue >= 0 for _, _, queue in self.pauses.queues)

    def name(self, port: Port) -> str:
        """tor0 → spine1."""
        assert self.net is not None
        return f"{self.net.names[port[0]]} → {self.net.names[self.net.links.far_end[port][0]]}"

    def longest(self) -> list[Port]:
        """The ports that were paused longest in the window, at most LISTED."""
        ports = [port for port, time in self.paused.items() if time > 0 and self.net and port in self.net.links.far_end]
        return sorted(ports, key=lambda port: (-self.paused[port], port))[:LISTED]

    def rows(self) -> list[list[str]]:
        """A row per port of `longest`, for `table`."""
        rows = []
        share = 100 / max(1e-9, self.window[1] - self.window[0])
        for port in self.longest():
            row = [f"{self.run.label}, {self.name(port)}", f"{share * self.paused[port]:.3g} %"]
            if self.pauses:
                tree = self.pauses.causes(port, *self.window)
                why = [f"{self.name(branch.port)} paused ({time_text(branch.paused_ns)})" for branch in tree.branches[:2]]
                peer = self.pauses.names[self.pauses.links.far_end[port][0]]
                why += [f"{peer} congested ({time_text(tree.rest_ns)})"] if tree.rest_ns > 0 else []
                row += [time_text(tree.paused_ns), f"{len(tree.spans):,}", "; ".join(why)]
            else:
                row += [time_text(self.paused[port]), "-", "pauses were not recorded"]
            rows.append(row)
        return rows

    def data(self) -> dict[str, Any] | None:
        """What the script needs, for JSON; None: there is no network.

        ports   [node, peer, ns paused in the window, ns of the link's delay] in the order of their numbers
        causes  for a paused port, the numbers of the ports that may be why
        lanes   by port number: queue and [start, length, gap, length, gap, ...] in ns
        """
        if not self.net:
            return None
        net, number = self.net, {port: i for i, port in enumerate(sorted(self.net.links.far_end))}
        width, height = net.size
        out: dict[str, Any] = {
            "names": net.names,
            "host": net.host.astype(int).tolist(),
            "x": net.x.round(1).tolist(),
            "y": net.y.round(1).tolist(),
            "size": [round(width, 1), round(height, 1)],
            "text": net.text(),
            "ports": [[p[0], net.links.far_end[p][0], round(self.paused.get(p, 0.0)), net.links.delay_ns[p]] for p in number],
            "queues": self.queues,
            "window": list(self.window),
            "end": self.end_ns,
            "recorded": self.pauses is not None,
        }
        if self.pauses and self.drawn:
            paused = [port for port in self.pauses.ports if port in number]
            some = set(paused)
            out["causes"] = {
                number[port]: [number[other] for other in self.pauses.links.following(port) if other in some] for port in paused
            }
            lanes: dict[int, dict[int, list[int]]] = {}
            for (node, port, queue), spans in sorted(self.drawn.queues.items()):
                if (node, port) in number:
                    edges = np.round(spans).astype(np.int64).ravel()
                    lanes.setdefault(number[node, port], {})[queue] = np.diff(edges, prepend=0).tolist()
            out["lanes"] = lanes
        return out


def views(runs: Sequence[Run]) -> list[PauseView]:
    """One per run; together they draw about SPANS pauses."""
    made = [PauseView(run) for run in runs]
    left, waiting = SPANS, sorted((view.pauses.count, i) for i, view in enumerate(made) if view.pauses)
    for nth, (count, i) in enumerate(waiting):  # what the smaller ones leave goes to the larger ones
        part = min(count, left // (len(waiting) - nth))
        made[i].draw(part)
        left -= part
    return made


def table(found: Sequence[PauseView]) -> Table:
    """The ports that were paused longest, of all runs."""
    made = Table(["run, port", "share", "paused", "pauses", "because of"])
    for number, view in enumerate(found):
        rows = view.rows()
        made.rows += rows
        made.runs += [number] * len(rows)
    return made


def time_text(ns: float) -> str:
    """12.3 us."""
    return format_time(1000 * float(f"{ns:.3g}")) if ns else "0"
