"""A rate and a window of single flows, and whether they are open-loop: what their transport does; what else only some have."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl

from penstock_net.errors import SpecError
from penstock_net.inputs import MAX_FLOW_BYTES
from penstock_net.workload.connections import Grouped, merged
from penstock_net.workload.operations import NO_OPERATION, Operations

if TYPE_CHECKING:
    from penstock_net.workload.flows import Flows

LEAST_RATE, MOST_RATE = 10_000, 10**15  # bit/s
RANGES = {"rate_bps": (LEAST_RATE, MOST_RATE), "window_bytes": (1, MAX_FLOW_BYTES), "open_loop": (0, 1)}


class Limits(NamedTuple):
    """Bounds of flows, by flow; 0: the flow has none, or is as others.

    rate_bps      int64, bit/s of its packets, headers included: it sends no faster
    window_bytes  int64: it sends while fewer bytes of payload than this are unacknowledged
    open_loop     int64, 1: it sends at its rate or the line's, nobody acknowledges it, and what is lost is not sent again
    """

    rate_bps: np.ndarray
    window_bytes: np.ndarray
    open_loop: np.ndarray


def checked(limits: Any, flows: int) -> Limits | None:
    """The bounds as int64, read-only; None: no flow has any.  SpecError: of another shape, or out of range."""
    if limits is None:
        return None
    columns = []
    for name, column in zip(Limits._fields, limits):
        given = np.asarray(column)
        if given.shape != (flows,):
            rule = f"has shape {given.shape}, start_ps has {(flows,)}"
            raise SpecError(rule, path=f"flows.{name}", remedy="give one value per flow, 0 where there is none")
        low, high = RANGES[name]
        wrong = (given != 0) & ((given < low) | (given > high) | (given != np.floor(given)))
        if wrong.any():
            i = int(np.argmax(wrong))
            rule, remedy = f"must be a whole number between {low} and {high}", "0 stands for none"
            raise SpecError(rule, path=f"flows.{i}.{name}", value=given[i].item(), remedy=remedy)
        columns.append(given.astype(np.int64))
        columns[-1].flags.writeable = False
    return Limits(*columns) if any(column.any() for column in columns) else None


def from_frame(frame: pl.DataFrame, whole: Any) -> Limits | None:
    """The bounds in a frame of flows; a missing value is none.  whole: reads such a column, with a default."""
    given = {name: frame[name] for name in Limits._fields if name in frame.columns and frame[name].dtype != pl.Null}
    if not given:
        return None
    columns = {name: whole(column, f"flows.{name}", 0) for name, column in given.items()}
    return Limits(*(columns.get(name, np.zeros(len(frame), np.int64)) for name in Limits._fields))


def open_loop(flows: "Flows") -> np.ndarray | None:
    """bool by flow: whether it is open-loop.  None: no flow is."""
    if flows.limits is None or not flows.limits.open_loop.any():
        return None
    return flows.limits.open_loop != 0


def refuse_mixed(flows: "Flows") -> None:
    """SpecError: a computation has bounds, or flows of one connection have different ones; something counts on an open-loop
    flow to arrive, or on its answers."""
    limits, found, computes = flows.limits, flows.connections, flows.computes
    if limits is None:
        return
    _refuse_open_loop(flows, limits, found)
    leader = np.arange(len(computes)) if found is None else found.leaders()
    for name, column in zip(Limits._fields, limits):
        if (strange := computes & (column != 0)).any():
            i = int(np.argmax(strange))
            raise SpecError("is a computation, which sends nothing", path=f"flows.{i}.{name}", value=int(column[i]))
        if (other := column != column[leader]).any():
            i = int(np.argmax(other))
            rule = f"flow {leader[i]}, of the same connection, has {column[leader[i]]}"
            remedy = "a connection has one: give them the same, or another number in connection"
            raise SpecError(rule, path=f"flows.{i}.{name}", value=int(column[i]), remedy=remedy)


def _refuse_open_loop(flows: "Flows", limits: Limits, found: Grouped | None) -> None:
    if (opened := open_loop(flows)) is None:
        return

    def refuse(wrong: np.ndarray, rule: str, remedy: str) -> None:
        if wrong.any():
            raise SpecError(rule, path=f"flows.{int(np.argmax(wrong))}.open_loop", value=1, remedy=remedy)

    refuse(opened & (limits.window_bytes != 0), "nobody acknowledges it, so a window means nothing", "give it a rate")
    if found is not None:
        rule = "it is a message of a connection, which sends again what is lost"
        refuse(opened & (found.of > 0), rule, "leave its connection out")
    if flows.operations is not None:
        rule = "it is part of an operation, which ends when all of it has arrived"
        refuse(opened & (flows.operations.number != NO_OPERATION), rule, "leave it out")
    if flows.after is not None:
        child, parent = flows.edges()
        waits = np.zeros(len(flows), dtype=np.int64)
        waits[parent] = child
        wrong = opened & np.isin(np.arange(len(flows)), parent)
        who = int(waits[int(np.argmax(wrong))])
        refuse(wrong, f"flow {who} waits for it, and it may never arrive", f"let flow {who} wait for another one, or for a time")


# What only some flows have: operations, connections, limits


def chosen(flows: "Flows", which: np.ndarray) -> dict[str, Any]:
    """Of some flows, or of all in another order."""
    return {
        "operations": None if flows.operations is None else flows.operations.chosen(which),
        "connection": None if flows.connection is None else flows.connection[which],
        "limits": None if flows.limits is None else Limits(*(column[which] for column in flows.limits)),
    }


def joined(ours: "Flows", theirs: "Flows", is_mine: np.ndarray) -> dict[str, Any]:
    """Of flows of both, merged."""
    operations = limits = None
    if ours.operations is not None or theirs.operations is not None:
        first, second = (flows.operations or Operations.none(len(flows)) for flows in (ours, theirs))
        operations = first.joined(second, is_mine)
    if ours.limits is not None or theirs.limits is not None:
        limits = Limits(*(np.zeros(len(is_mine), dtype=np.int64) for _ in Limits._fields))
        for flows, mine in ((ours, is_mine), (theirs, ~is_mine)):
            for column, given in zip(limits, flows.limits or ()):
                column[mine] = given
    return {"operations": operations, "connection": merged(ours.connection, theirs.connection, is_mine), "limits": limits}


def columns(flows: "Flows") -> dict[str, np.ndarray]:
    """The columns that there are of connections and bounds, by name."""
    found = {"connection": flows.connection} | (flows.limits._asdict() if flows.limits else {})
    if open_loop(flows) is None:
        found.pop("open_loop", None)
    return {name: column for name, column in found.items() if column is not None}
