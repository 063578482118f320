"""The logs of a run: rows that were moved to a file during the run, followed by those still in the core."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from typing import IO, Any

import numpy as np

from penstock_net import scratch
from penstock_net.errors import InvariantError
from penstock_net.results.samples import Grid
from penstock_net.sim.layouts import log_type

NAMES = ("switch", "port", "queue", "flow", "pause", "trace", "count", "record", "print")
MOST_BYTES = 1 << 24  # of all logs in the core, before they are moved


class Logs:
    """Rows of all logs by name.

    They are moved between two calls of the core, when all nodes are at the same time: what a log gets later is of a later time.
    So the rows of one move, sorted, are a part of the sorted log, whenever that is and on however many threads.
    """

    def __init__(self, sim: Any, sample_ps: int) -> None:
        self.sim, self.sample_ps = sim, sample_ps
        self.files: dict[str, IO[bytes]] = {}
        self.parts: dict[str, list[int]] = {name: [] for name in NAMES}  # rows of each move

    @property
    def moved(self) -> bool:
        """Whether some rows are in a file."""
        return bool(self.files)

    def relieve(self) -> None:
        """Move the rows out of the core if there are many of them and large data are kept on disk."""
        if scratch.in_use() and self.sim.state()["log_bytes"] > MOST_BYTES:
            for name in NAMES:
                self.add(name, self._in_core(name, forget=True))

    def add(self, name: str, table: np.ndarray) -> None:
        """Append a part to a log."""
        if len(table):
            if name not in self.files:
                self.files[name] = scratch.new_file()
            self.files[name].seek(0, os.SEEK_END)
            scratch.write(self.files[name], table)
            self.parts[name].append(len(table))

    def moved_parts(self, name: str) -> Iterator[np.ndarray]:
        """The parts in the file, one per move."""
        kind = log_type(name)
        at = 0
        for rows in self.parts[name]:
            size = rows * kind.itemsize
            self.files[name].seek(at)
            yield np.frombuffer(self.files[name].read(size), dtype=kind)
            at += size

    def tables(self, name: str, grid: Grid | None = None) -> Iterator[np.ndarray]:
        """The whole log in tables of a limited size, sorted by time, then node (within a node in the order of events); of series,
        a row per sample.

        grid: leave out the samples of switches that were idle, of which it tells
        """
        for part in self._all_parts(name):
            yield from self._series(part if grid is None else part[~_as_idle(part, grid)])

    def grid(self, hosts: int, switches: int) -> Grid:
        """What tells of all samples of the switches.  InvariantError: some switch has more samples than others."""
        counts, flows = np.zeros(switches, dtype=np.int64), np.full(switches, -1, dtype=np.int32)
        for part in self._all_parts("switch"):
            np.add.at(counts, part["node"] - hosts, part["repeat"])
            idle = part[(part["buffer_bytes"] == 0) & (part["flows"] == 0)]
            flows[idle["node"] - hosts] = 0
        if (counts != counts[:1]).any():
            raise InvariantError(f"switches have {counts.min()} to {counts.max()} samples")
        return Grid(self.sample_ps, 0, int(counts.max(initial=0)), np.arange(hosts, hosts + switches, dtype=np.int32), flows)

    def sorted_parts(self, name: str) -> Iterator[np.ndarray]:
        """The log in parts, sorted as `tables` are; rows that stand for many samples are as they are."""
        yield from map(in_order, self._all_parts(name))

    def _all_parts(self, name: str) -> Iterator[np.ndarray]:
        yield from self.moved_parts(name)
        yield self._in_core(name)

    def whole(self, name: str) -> np.ndarray:
        """The whole log as one table."""
        return np.concatenate(list(self.tables(name)))

    def _in_core(self, name: str, *, forget: bool = False) -> np.ndarray:
        parts = self.sim.rows(name, forget)
        return np.concatenate([np.frombuffer(part, dtype=log_type(name)) for part in parts])

    def _series(self, table: np.ndarray) -> Iterator[np.ndarray]:
        """Rows that stand for many samples as one row per sample, sorted."""
        if "repeat" not in (table.dtype.names or ()) or not len(table):
            yield in_order(table)
            return
        repeat, first = table["repeat"], table["time"]
        end = int((first + self.sample_ps * repeat).max())
        count = -(-int(repeat.sum()) // scratch.LARGE)
        bounds = np.linspace(int(first.min()), end, count + 1).astype(np.int64)
        for low, high in pairwise(bounds.tolist()):
            yield in_order(expanded(table, self.sample_ps, low, high))


def _as_idle(table: np.ndarray, grid: Grid) -> np.ndarray:
    """Whether each row of the samples of switches says what the grid says."""
    nothing = (table["buffer_bytes"] == 0) & (table["max_queue_bytes"] == 0)
    return nothing & (table["flows"] == grid.active_flows[table["node"] - grid.switches[0]])


def expanded(table: np.ndarray, sample_ps: int, low: int, high: int) -> np.ndarray:
    """Expand rows that stand for many samples to one row per sample, within [low, high)."""
    skipped, until = (np.clip(-(-(bound - table["time"]) // max(1, sample_ps)), 0, table["repeat"]) for bound in (low, high))
    chosen = until > skipped
    table, skipped, repeat = table[chosen], skipped[chosen], (until - skipped)[chosen]
    first = np.repeat(np.cumsum(repeat) - repeat - skipped, repeat)
    out = np.repeat(table, repeat)
    out["time"] += sample_ps * (np.arange(len(out)) - first)
    return out


def in_order(table: np.ndarray) -> np.ndarray:
    """Sort rows by time, then node (stable)."""
    return table[np.lexsort((table["node"], table["time"]))]
