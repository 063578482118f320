"""Loads flows into the core in batches by start time, so that its memory grows with the active flows, not with all flows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.sim.layouts import row_type

if TYPE_CHECKING:
    from penstock.workload.flows import Flows

FLOWS_AT_ONCE = 200_000  # in a batch
NEVER = 2**63 - 1


class Starts:
    """The flows of a run that are not loaded yet.  Dependent flows, which wait for others, are loaded at the beginning.

    batch             how many had been loaded before the last batch
    waiting, pending  of dependent flows: Start rows, and how many parents are not done; the core writes to both.  None: none
    """

    def __init__(self, sim: Any, flows: Flows, hosts: int) -> None:
        self.sim, self.flows, self.hosts, self.loaded, self.batch = sim, flows, hosts, 0, 0
        self.waiting: np.ndarray | None = None
        self.pending: np.ndarray | None = None
        self.order = self._arrange()

    def load(self) -> int:
        """Load the next batch into the core; returns the start of the first flow that is not loaded, ps (NEVER: none)."""
        start, count = self.flows.start_ps, len(self.flows) if self.order is None else len(self.order)
        self.batch = low = self.loaded
        high = min(low + FLOWS_AT_ONCE, count)
        if high < count:
            limit = start[self._numbers(high, high + 1)[0]]
            high = int(np.searchsorted(start[self._numbers(low, high)], limit, side="left")) + low
            if high == low:
                high = int(np.searchsorted(start[self._numbers(low, count)], limit, side="right")) + low
        numbers = self._numbers(low, high)
        numbers = numbers[np.argsort(self.flows.src[numbers], kind="stable")]
        firsts = np.searchsorted(self.flows.src[numbers], np.arange(self.hosts + 1))
        self.sim.load_starts(self._table(numbers), firsts.tolist())
        self.loaded = high
        return int(start[self._numbers(high, high + 1)[0]]) if high < count else NEVER

    def _numbers(self, low: int, high: int) -> np.ndarray:
        """Flows by their place in the order in which they are loaded."""
        return np.arange(low, high) if self.order is None else self.order[low:high]

    def reload(self, batch: int) -> int:
        """Load the batch before which this many were loaded, as `load` did."""
        self.loaded = batch
        return self.load()

    def _arrange(self) -> np.ndarray | None:
        """Load the dependent flows; returns the numbers of the others, by start time.  None: no flow depends on another."""
        flows = self.flows
        if flows.after is None:
            return None
        offsets, parents = flows.after
        waits = np.diff(offsets)
        numbers = np.flatnonzero(waits > 0)
        place = np.full(len(flows), -1, dtype=np.int64)
        place[numbers] = np.arange(len(numbers))
        child = np.repeat(np.arange(len(flows)), waits)
        by_parent = np.argsort(parents, kind="stable")
        child_offsets = np.zeros(len(flows) + 1, dtype=np.int32)
        np.cumsum(np.bincount(parents, minlength=len(flows)), out=child_offsets[1:])
        self.waiting, self.pending = self._table(numbers), waits[numbers].astype(np.int32)
        self.sim.set_dependencies(
            self.waiting,
            np.ascontiguousarray(flows.gap_ps[numbers]),
            self.pending,
            child_offsets,
            place[child[by_parent]].astype(np.int32),
        )
        return np.flatnonzero(waits == 0)

    def _table(self, numbers: np.ndarray) -> np.ndarray:
        """Flows as the core's Start rows."""
        table, flows = np.zeros(len(numbers), dtype=row_type("Start")), self.flows
        table["time"], table["size"], table["number"] = flows.start_ps[numbers], flows.bytes[numbers], numbers
        table["src"], table["dst"], table["priority"] = flows.src[numbers], flows.dst[numbers], flows.priority[numbers]
        return table
