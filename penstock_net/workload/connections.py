"""Which flows are messages of one connection, as of a queue pair: they are sent one after another, over one path.

Flows from one host to another that name the same connection are its messages.  A collective, a training job or a trace says so
for its flows by `connections`: "pair", one from each host to each other one; "channel", one for each piece of a part (`chunks`)
as for NCCL's channels; "message", none.
"""

from typing import Any, NamedTuple

import numpy as np

from penstock_net.errors import SpecError
from penstock_net.inputs import one_of

CONNECTIONS = ("channel", "pair", "message")
ALONE = -1  # a flow that is no message of a connection
MOST = 2**31 - 1


class Grouped(NamedTuple):
    """The connections of more than one flow.

    of      int32 by flow: the number of its connection, plus one; 0: none
    first   int64 by connection: its first flow, by number
    size    int64 by connection: how many flows it has
    """

    of: np.ndarray
    first: np.ndarray
    size: np.ndarray

    def leaders(self) -> np.ndarray:
        """int64 by flow: the first flow of its connection, whose number decides the path; itself if it has none."""
        return np.where(self.of > 0, np.append(self.first, 0)[self.of - 1], np.arange(len(self.of)))


def numbered(connections: str, channel: np.ndarray) -> np.ndarray | None:
    """The column `connection` of flows by what `connections` says, given the channel of each; None: there are none.

    channel   ALONE: the flow sends nothing
    """
    kind = one_of(connections, "connections", CONNECTIONS)
    if kind == "message":
        return None
    return channel if kind == "channel" else np.minimum(channel, 0)


def checked(column: Any, flows: int) -> np.ndarray | None:
    """The column as int32, read-only; None: there are no connections.  SpecError: of another shape, or out of range."""
    if column is None:
        return None
    given = np.asarray(column)
    if given.shape != (flows,):
        rule = f"has shape {given.shape}, start_ps has {(flows,)}"
        raise SpecError(rule, path="flows.connection", remedy="give one value per flow")
    wrong = (given < ALONE) | (given > MOST) | (given != given.astype(np.int64))
    if wrong.any():
        remedy = f"0 to {MOST}, or {ALONE} for a flow by itself"
        raise SpecError("is no number of a connection", path="flows.connection", value=given[wrong][0], remedy=remedy)
    if not len(given) or given.max() < 0:
        return None
    numbers = given.astype(np.int32)
    numbers.flags.writeable = False
    return numbers


def merged(ours: np.ndarray | None, theirs: np.ndarray | None, is_mine: np.ndarray) -> np.ndarray | None:
    """Of flows of both, merged; those of theirs are numbered behind ours, so no two of them become one."""
    if ours is None and theirs is None:
        return None
    number = np.full(len(is_mine), ALONE, dtype=np.int64)
    behind = 0
    if ours is not None:
        number[is_mine] = ours
        behind = int(ours.max()) + 1
    if theirs is not None:
        number[~is_mine] = np.where(theirs < 0, ALONE, theirs.astype(np.int64) + behind)
    return number


def refuse_mixed(connection: np.ndarray, found: Grouped, src: np.ndarray, dst: np.ndarray, priority: np.ndarray) -> None:
    """SpecError: a computation has a connection, or flows of one have several priorities.  `found`: what `grouped` gives."""
    if (strange := (connection >= 0) & (src == dst)).any():
        i = int(np.argmax(strange))
        raise SpecError("is a computation, which sends nothing", path=f"flows.{i}.connection", value=int(connection[i]))
    member = np.flatnonzero(found.of)
    first = found.first[found.of[member] - 1]
    other = priority[member] != priority[first]
    if other.any():
        i, j = int(member[np.argmax(other)]), int(first[np.argmax(other)])
        raise SpecError(
            f"flow {j}, of the same connection from host {src[j]} to host {dst[j]}, has priority {priority[j]}",
            path=f"flows.{i}.priority",
            value=int(priority[i]),
            remedy="a connection has one priority: give them the same, or another number in connection",
        )


def grouped(connection: np.ndarray, src: np.ndarray, dst: np.ndarray) -> Grouped:
    """The connections of flows, in the order of their first flows."""
    members = np.flatnonzero(connection >= 0)
    keys = tuple(column[members] for column in (connection, dst, src))
    order = members[np.lexsort((members, *keys))]
    begins = np.ones(len(order), dtype=bool)
    for column in (connection, dst, src):
        begins[1:] &= column[order[1:]] == column[order[:-1]]
    begins[1:] = ~begins[1:]
    starts = np.flatnonzero(begins)
    count = np.diff(np.append(starts, len(order)))
    first, several = order[starts], count > 1
    number = np.zeros(len(starts), dtype=np.int32)
    by_first = np.flatnonzero(several)[np.argsort(first[several])]
    number[by_first] = np.arange(1, len(by_first) + 1)
    of = np.zeros(len(connection), dtype=np.int32)
    of[order] = np.repeat(number, count)
    return Grouped(of, first[by_first], count[by_first])
