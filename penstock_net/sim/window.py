"""The measurement window of a run: readings of the core's counters where it begins and where it ends.

A statistic over time is a difference of two readings, or the largest value between them; the core starts its maxima anew at
each reading.  The time after the window is the drain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Counters = np.ndarray  # a row per port or node, fields by name


@dataclass(frozen=True)
class Reading:
    """The counters of the core at one time.

    ports, nodes  a row each; their maxima are since the reading before
    flow_samples  (node, port, active flows) -> samples
    """

    time_ps: int
    ports: Counters
    nodes: Counters
    flow_samples: dict[tuple[int, int, int], int]

    @classmethod
    def of(cls, sim: Any, time_ps: int) -> Reading:
        """Read the counters and restart the maxima."""
        samples = {(node, port, flows): count for node, port, flows, count in sim.flow_samples()}
        reading = cls(time_ps, sim.port_counters(time_ps), sim.node_counters(time_ps), samples)
        sim.restart_maxima()
        return reading

    def of_ports(self, key: str) -> np.ndarray:
        """A counter of every port."""
        return np.asarray(self.ports[key])

    def of_nodes(self, key: str) -> np.ndarray:
        """A counter of every node."""
        return np.asarray(self.nodes[key])


class Window:
    """The measurement window of one run, and the readings taken so far.

    start_ps, end_ps  as in Settings.window_ps: end_ps is None if it ends with the run
    """

    def __init__(self, start_ps: int, end_ps: int | None, first_arrival_ps: int) -> None:
        self.start_ps, self.end_ps = start_ps, end_ps
        self.first: Reading | None = None
        self.last: Reading | None = None
        self.pending = [start_ps] if start_ps > first_arrival_ps else []
        if end_ps is not None:
            self.pending.append(end_ps)

    def next_ps(self, never: int) -> int:
        """When the next reading is due, ps."""
        return self.pending[0] if self.pending else never

    def read(self, sim: Any, now_ps: int) -> None:
        """Take all readings that are due."""
        while self.pending and self.pending[0] <= now_ps:
            reading = Reading.of(sim, self.pending.pop(0))
            if reading.time_ps == self.start_ps:
                self.first = reading
            else:
                self.last = reading


@dataclass(frozen=True)
class Phases:
    """The readings of an ended run: at the start of the window (None: nothing was before), at its end, at the end of the run.

    A run that ends before its window counts as idle for the rest of it.
    """

    start_ps: int
    end_ps: int
    first: Reading | None
    last: Reading
    final: Reading

    @classmethod
    def of(cls, window: Window, final: Reading, interrupted: bool) -> Phases:
        """The phases of a run that has ended, with its final reading; the window of an interrupted run ends with the run."""
        end_ps = final.time_ps if window.end_ps is None else window.end_ps
        if interrupted:
            end_ps = min(end_ps, final.time_ps)
        first = window.first
        if first is None and window.pending and window.pending[0] == window.start_ps:  # the run ended before its window
            first = final
        return cls(window.start_ps, max(end_ps, window.start_ps), first, window.last or final, final)

    @property
    def window_ps(self) -> int:
        """Length of the window; 1 if it is empty."""
        return max(1, self.end_ps - self.start_ps)

    @property
    def drain_ps(self) -> int:
        """Time from the end of the window to the end of the run."""
        return max(0, self.final.time_ps - self.end_ps)

    def in_window(self, key: str) -> np.ndarray:
        """Growth of a counter of every port within the window."""
        return self.last.of_ports(key) - (0 if self.first is None else self.first.of_ports(key))

    def in_drain(self, key: str) -> np.ndarray:
        """Growth of a counter of every port after the window."""
        return self.final.of_ports(key) - self.last.of_ports(key)

    def port_maxima(self, key: str) -> np.ndarray:
        """A maximum of every port in the whole run."""
        return np.max([reading.of_ports(key) for reading in self._readings()], axis=0)

    def node_maxima(self, key: str) -> np.ndarray:
        """A maximum of every node in the whole run."""
        return np.max([reading.of_nodes(key) for reading in self._readings()], axis=0)

    def _readings(self) -> list[Reading]:
        return [reading for reading in (self.first, self.last, self.final) if reading is not None]

    def flow_samples(self) -> list[tuple[int, int, int, int]]:
        """(node, port, active flows, samples) within the window."""
        before = self.first.flow_samples if self.first else {}
        grown = ((*place, count - before.get(place, 0)) for place, count in self.last.flow_samples.items())
        return [row for row in grown if row[3]]
