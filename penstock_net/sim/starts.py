"""Loads flows into the core in batches by start time, so that its memory grows with the active flows, not with all flows.

Flows of a host that start in one picosecond start in an order that the seed decides; those of one operation, such as a
collective, and those of one connection, in that in which they are listed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from penstock_net.hashing import flow_hash
from penstock_net.sim.layouts import row_type
from penstock_net.workload.limits import open_loop
from penstock_net.workload.operations import NO_OPERATION

if TYPE_CHECKING:
    from penstock_net.sim.config import InNetwork
    from penstock_net.sim.reductions import Reductions
    from penstock_net.sim.settings import Settings
    from penstock_net.workload.flows import Flows

FLOWS_AT_ONCE = 200_000  # in a batch
NEVER = 2**63 - 1


class Starts:
    """The flows of a run that are not loaded yet.  Flows that depend on others are all loaded at the beginning.

    batch             how many had been loaded before the last batch
    waiting, pending  of dependent flows: Start rows, and how many parents are not done; the core writes to both.  None: none
    seats, parts      of switches that reduce what flows carry: see reductions.py; the core writes to both.  None: none do
    turns             by port, of packets that take turns of the next hops; the core writes to it.  None: none do
    unsent, missing   of open-loop flows: bytes that are not sent yet, and that have not arrived; 0 of others; the core writes to
                      both.  None: there are none
    connections, messages  rows of those, which the core writes to; no messages: they share a path only.  None: none
    """

    def __init__(self, sim: Any, flows: Flows, hosts: int, seed: int, by_message: bool = False) -> None:
        self.sim, self.flows, self.hosts, self.seed, self.loaded, self.batch = sim, flows, hosts, seed, 0, 0
        self.waiting: np.ndarray | None = None
        self.pending: np.ndarray | None = None
        self.connections: np.ndarray | None = None
        self.messages: np.ndarray | None = None
        self.seats: np.ndarray | None = None
        self.parts: np.ndarray | None = None
        self.paths: np.ndarray | None = None
        self.turns: np.ndarray | None = None
        self.unsent: np.ndarray | None = None
        self.missing: np.ndarray | None = None
        self.order = self._arrange()
        self._connect(by_message)

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
        numbers = numbers[np.lexsort((self._turns(numbers), start[numbers], self.flows.src[numbers]))]
        firsts = np.searchsorted(self.flows.src[numbers], np.arange(self.hosts + 1))
        self.sim.load_starts(self._table(numbers), firsts.tolist())
        self.loaded = high
        return int(start[self._numbers(high, high + 1)[0]]) if high < count else NEVER

    def _numbers(self, low: int, high: int) -> np.ndarray:
        """Flow numbers in the order of loading."""
        return np.arange(low, high) if self.order is None else self.order[low:high]

    def _turns(self, numbers: np.ndarray) -> np.ndarray:
        """Where a flow stands among those that start with it at its host."""
        operations = self.flows.operations
        named = numbers if self.paths is None else self.paths[numbers]
        if operations is None:
            return flow_hash(named, self.seed)
        whole = operations.number[numbers]
        return flow_hash(np.where(whole == NO_OPERATION, named, whole + len(self.flows)), self.seed)

    def reload(self, batch: int) -> int:
        """Load again the batch that `load` loaded after this many flows."""
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

    def _connect(self, by_message: bool) -> None:
        """Tell the core of the connections of more than one flow."""
        if (found := self.flows.connections) is None:
            return
        self.paths = found.leaders()
        self.connections = np.zeros(len(found.first), dtype=row_type("Connection"))
        self.connections["number"], self.connections["count"] = found.first, found.size
        self.connections["first"] = np.cumsum(found.size) - found.size
        self.messages = np.zeros(0 if by_message else int(found.size.sum()), dtype=row_type("Message"))
        self.sim.set_connections(found.of, self.connections, self.messages)

    def reduce(self, found: Reductions | None, given: InNetwork) -> None:
        """Tell the core of the trees of switches that reduce what flows carry."""
        if found is None:
            return
        self.seats, self.parts = found.seats.copy(), found.parts.copy()
        self.sim.set_reductions(found.seat_of, self.seats, self.parts, given.window, int(given.groups > 0))

    def guide(self, settings: Settings) -> None:
        """Tell the core what was given to flows, ports: rails, paths, turns of packets, rates, windows, which are open-loop."""
        tables: dict[str, np.ndarray] = {}
        if settings.by_rail and self.flows.connection is not None:
            tables["rails"] = np.array(self.flows.connection, dtype=np.int32)
        if settings.paths is not None and settings.paths.turns is not None:
            self.turns = tables["turns"] = settings.paths.turns.copy()
        elif settings.paths is not None:
            tables |= {"pin_of": settings.paths.pin_of, "pins": settings.paths.pins}
        if self.flows.limits is not None:
            tables |= {"rates": self.flows.limits.rate_bps, "windows": self.flows.limits.window_bytes}
        if (found := open_loop(self.flows)) is not None:
            self.unsent, self.missing = (np.where(found, self.flows.bytes, 0) for _ in range(2))
            tables |= {"unsent": self.unsent, "missing": self.missing}
        if tables:
            self.sim.set_given(tables)

    def _table(self, numbers: np.ndarray) -> np.ndarray:
        """Flows as the core's Start rows."""
        table, flows = np.zeros(len(numbers), dtype=row_type("Start")), self.flows
        table["time"], table["size"], table["number"] = flows.start_ps[numbers], flows.bytes[numbers], numbers
        table["src"], table["dst"], table["priority"] = flows.src[numbers], flows.dst[numbers], flows.priority[numbers]
        return table
