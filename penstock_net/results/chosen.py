"""Parts of a run that are given as text: a span of time, a node, a port. Bad choices are SpecErrors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from penstock_net.errors import SpecError, closest
from penstock_net.inputs import time_ps
from penstock_net.units import format_time

if TYPE_CHECKING:
    from penstock_net.results.run import Run

DRAIN = 0.5  # of the drain, a span shows as much as this part of the window, unless told otherwise


def span(text: str, parse: Callable[[str], Any], path: str, example: str) -> tuple[Any, Any]:
    """(low, high) of "low..high", each None if left out; a single value is both.  SpecError: it is not a range, or is empty."""
    low, high = (parse(end.strip()) if end.strip() else None for end in ends_of(text))
    if (low is None and high is None) or text.count("..") > 1:
        raise SpecError("must be a value or a range", path=path, value=text, remedy=f'such as "{example}"')
    if low is not None and high is not None and low > high:
        raise SpecError("the range is empty", path=path, value=text, remedy="write the lower end first")
    return low, high


def ends_of(text: str) -> tuple[str, str]:
    """The ends of "low..high"; of a single value, it and itself."""
    low, dots, high = text.partition("..")
    return (low, high) if dots else (low, low)


def span_ns(time: str | None, runs: Sequence[Run]) -> tuple[float, float]:
    """The span of time of a figure, ns: "0.2ms..1ms", "1ms..", or from 0 to the end of the drain, at most DRAIN of the window.

    SpecError: it is empty, or beyond the end of the runs.
    """
    until = end_ns(runs)
    if time is None:
        windows = [run.window for run in runs if run.window]
        return 0.0, min([until, *(start + (1 + DRAIN) * (end - start) for start, end in windows)]) if windows else until
    low, high = span(time, lambda text: time_ps(text, "time"), "time", "0.2ms..1ms")
    start, end = (low or 0) / 1000, until if high is None else high / 1000
    if not start < min(end, until):
        remedy = f'the run ends at {format_time(round(until * 1000))}, write "0.2ms..1ms"'
        raise SpecError("holds no time of the run", path="time", value=time, remedy=remedy)
    return start, end


def end_ns(runs: Sequence[Run]) -> float:
    """When the last of the runs ended, ns; of a run without that entry, when its last flow did."""
    ends: list[Any] = [
        run.summary.get("end_ns") or run.flows["finish_ns"].max() or run.summary.get("duration_ns") for run in runs
    ]
    return max((float(end) for end in ends if end), default=1.0)


def names(run: Run) -> dict[int, str]:
    """Names of the nodes by number; empty for a run without its nodes."""
    nodes = run.frames.get("nodes")
    return {} if nodes is None else dict(zip(nodes["node"].to_list(), nodes["name"].to_list()))


def node_of(run: Run, given: str | int, path: str) -> int:
    """The number of a node given by name or number.  SpecError: there is none."""
    known = names(run) or {int(n): str(n) for n in run.ports["node"].unique().sort()}
    if str(given).isdecimal() and int(given) in known:
        return int(given)
    for number, name in known.items():
        if name == str(given):
            return number
    remedy = closest(str(given), known.values()) or f"known: {listed(list(known.items()))}"
    raise SpecError(f'run "{run.label}": has no such node', path=path, value=given, remedy=remedy)


def listed(items: Sequence[tuple[int, Any]]) -> str:
    """Numbers with names for a message: all of them, or the first and the last."""
    shown = [str(number) if str(name) == str(number) else f"{number} ({name})" for number, name in items]
    return ", ".join(shown) if len(shown) <= 8 else f"{shown[0]} to {shown[-1]}"


@dataclass(frozen=True)
class Port:
    """An egress port, and how a figure calls it."""

    node: int
    number: int
    text: str

    def of(self, table: pl.DataFrame) -> pl.DataFrame:
        """The rows of this port."""
        return table.filter((pl.col("node") == self.node) & (pl.col("port") == self.number))


def port_of(runs: Sequence[Run], given: str | None) -> Port:
    """The port that "tor0:3" or "16:3" means; None: the switch port with the longest queue of all runs, of those ever paused.

    SpecError: it does not exist in every run, with the ports of that node.
    """
    if given is None:
        return _of_each(runs, *_longest(runs))
    name, colon, text = given.rpartition(":")
    if not colon or not text.isdecimal():
        raise SpecError("must be a node and a port", path="port", value=given, remedy='such as "tor0:3"')
    return _of_each(runs, node_of(runs[0], name, "port"), int(text))


def _longest(runs: Sequence[Run]) -> tuple[int, int]:
    ports = pl.concat(run.ports.select("node", "port", "max_queue_bytes", paused=pl.col("pauses_received") > 0) for run in runs)
    if "nodes" in runs[0].frames:
        switches = runs[0].frames["nodes"].filter(pl.col("tier") > 0)["node"]
        ports = ports.filter(pl.col("node").is_in(switches.implode()))
    if not ports.height:
        raise SpecError(f'run "{runs[0].label}": has no counters of ports', remedy="run it again with [measure] ports = true")
    return ports.sort("paused", "max_queue_bytes", descending=True).select("node", "port").row(0)  # type: ignore[return-value]


def _of_each(runs: Sequence[Run], node: int, number: int) -> Port:
    """The port, if every run has it, with the same neighbour."""
    found = []
    for run in runs:
        called = names(run)
        name = called.get(node, f"node {node}")
        peers = dict(run.ports.filter(pl.col("node") == node).sort("port").select("port", "peer").iter_rows())
        if number not in peers:
            its = listed([(port, f"to {called.get(peer, peer)}") for port, peer in peers.items()])
            rule = f'{name} of run "{run.label}" has no such port'
            raise SpecError(rule, path="port", value=f"{node}:{number}", remedy=f"its ports: {its or 'none'}")
        found.append(Port(node, number, f"{name} to {called.get(peers[number], f'node {peers[number]}')}"))
    if len(set(found)) > 1:
        raise SpecError("the runs are of different networks", path="port", value=found[0].text, remedy="draw a figure of each")
    return found[0]
