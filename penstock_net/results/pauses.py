"""The pauses of a run: when each queue and port was paused, and which pauses caused a pause.

The egress (node, port) is paused by its peer, one delay of the link before the pause takes effect. The peer does so because
packets that came over this link stay in its buffer. Its egresses that were paused at that moment, and to which a shortest path
leads from that link (`Links.following`), hold such packets: their pauses are the causes of this one.

Times are ns. Intervals of time are float64[n, 2], starts and ends; those of a queue or port are sorted and do not touch.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

import numpy as np
import polars as pl

from penstock_net.results.links import Links, Port

QUEUE = ("node", "port", "queue")  # queue -1: the whole port
Queue = tuple[int, int, int]
NEVER = np.empty((0, 2))


def intervals(log: pl.DataFrame) -> pl.DataFrame:
    """The pauses of a log whose rows of each queue are in order of time, in the order of their first rows.

    pause              the number of the row
    node, port, queue  as in the log
    first, last        its two rows in the log, by which events of the same time are ordered; last is null if it did not end
    start_ns, end_ns   end_ns is null if it did not end; may be equal
    """
    changed = pl.col("paused") != pl.col("paused").shift(fill_value=False).over(QUEUE)
    return (
        log.with_row_index("first")
        .filter(changed)
        .with_columns(end_ns=pl.col("time_ns").shift(-1).over(QUEUE), last=pl.col("first").shift(-1).over(QUEUE))
        .filter("paused")
        .with_row_index("pause")
        .select("pause", *QUEUE, "first", "last", pl.col("time_ns").alias("start_ns"), "end_ns")
    )


def by_queue(pauses: pl.DataFrame, end_ns: float) -> dict[Queue, np.ndarray]:
    """The intervals of every queue that was paused for some time; a pause that did not end lasts until end_ns."""
    lasted = pauses.with_columns(pl.col("end_ns").fill_null(end_ns)).filter(pl.col("end_ns") > pl.col("start_ns"))
    lasted = lasted.sort(*QUEUE, "pause")
    keys, rows = lasted.select(QUEUE).to_numpy(), lasted.select("start_ns", "end_ns").to_numpy()
    first = np.flatnonzero((np.diff(keys, axis=0, prepend=-9) != 0).any(axis=1))
    return {tuple(keys[i].tolist()): found for i, found in zip(first, np.split(rows, first[1:]))}


def by_port(queues: dict[Queue, np.ndarray]) -> dict[Port, np.ndarray]:
    """The intervals for which a port, or at least one of its queues, was paused."""
    groups: dict[Port, list[np.ndarray]] = defaultdict(list)
    for (node, port, _), found in queues.items():
        groups[node, port].append(found)
    return {port: union(found) for port, found in sorted(groups.items())}


def causes(pauses: pl.DataFrame, links: Links) -> Iterator[tuple[int, int]]:
    """(cause, effect) by number of the pause: one for each egress that is a cause of a pause, as the module's docstring says.

    Of several paused queues of an egress, the latest pause counts. A pause of no length is neither cause nor effect.
    """
    rows = pauses.select(*QUEUE, "start_ns", "end_ns").rows()
    END, START, SENT = range(3)  # the order at the same time
    events = []
    for index, (node, port, _, start, end) in enumerate(rows):
        if start == end:
            continue
        events.append((start, START, index))
        events.append((start - links.delay_ns.get((node, port), 0.0), SENT, index))
        if end is not None:
            events.append((end, END, index))
    events.sort()
    paused: dict[Port, dict[int, int]] = defaultdict(dict)  # the pause of each queue
    for _, kind, index in events:
        node, port, queue, _, _ = rows[index]
        if kind == START:
            paused[node, port][queue] = index
        elif kind == END:
            del paused[node, port][queue]
        else:
            for other in links.following((node, port)):
                if paused[other]:
                    yield next(reversed(paused[other].values())), index


# -- intervals of time


def union(parts: Iterable[np.ndarray]) -> np.ndarray:
    """Intervals in any order as sorted ones that do not touch; empty ones are dropped."""
    rows = np.concatenate([NEVER, *parts])
    rows = rows[rows[:, 1] > rows[:, 0]]
    if not len(rows):
        return NEVER
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    reached = np.maximum.accumulate(rows[:, 1])
    first = np.append(True, rows[1:, 0] > reached[:-1])
    last = np.append(first[1:], True)
    return np.column_stack([rows[first, 0], reached[last]])


def common(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The time that is in an interval of both; each sorted and without overlaps, as `union` makes them."""
    if not len(a) or not len(b):
        return NEVER
    first = np.searchsorted(b[:, 1], a[:, 0], side="right")
    count = np.searchsorted(b[:, 0], a[:, 1], side="left") - first
    left = np.repeat(np.arange(len(a)), count)
    right = np.arange(len(left)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)
    rows = np.column_stack([np.maximum(a[left, 0], b[right, 0]), np.minimum(a[left, 1], b[right, 1])])
    return rows[rows[:, 1] > rows[:, 0]]


def without(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The time that is in an interval of the first and in none of the second; each as `union` makes them."""
    return common(a, np.column_stack([np.append(-np.inf, b[:, 1]), np.append(b[:, 0], np.inf)]))


def length(found: np.ndarray) -> float:
    """The sum of the intervals' lengths."""
    return float((found[:, 1] - found[:, 0]).sum())


def length_until(found: np.ndarray, times: np.ndarray) -> np.ndarray:
    """The length of what lies before each of some times."""
    if not len(found):
        return np.zeros(len(times))
    total = np.concatenate([[0.0], np.cumsum(found[:, 1] - found[:, 0])])
    return np.interp(times, found.ravel(), np.column_stack([total[:-1], total[1:]]).ravel())


def within(found: np.ndarray, start: float, end: float) -> float:
    """The length of what lies between two times."""
    return float((np.clip(found[:, 1], start, end) - np.clip(found[:, 0], start, end)).sum())
