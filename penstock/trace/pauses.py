"""Pauses as spans of time, and which pause caused which."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from penstock.trace.part import Key, Port

KEY = ("node", "port", "queue")


def spans(log: pl.DataFrame) -> pl.DataFrame:
    """The pauses of a log that is in order of time.

    pause             the number of the row
    node, port, queue (-1: the whole port)
    start_ns, end_ns  null: it did not end
    first, last       its two rows in the log, by which events of the same time are ordered; null: it has no last
    """
    return (
        log.with_row_index("first")
        .with_columns(
            end_ns=pl.col("time_ns").shift(-1).over(KEY),
            last=pl.col("first").shift(-1).over(KEY),
        )
        .filter("paused")
        .with_row_index("pause")
        .select("pause", *KEY, "first", "last", pl.col("time_ns").alias("start_ns"), "end_ns")
    )


def causes(pauses: pl.DataFrame, ports: Mapping[Key, Port]) -> Iterator[tuple[int, int]]:
    """(cause, effect) by number of the pause: a pause of a port for each port of its peer that was paused when the peer sent it.

    What waits for a paused egress fills the peer's buffer, so that it pauses the link that more comes from. A frame does not
    return by the link that it came from, so the port back is none. Of several paused queues of a port, the latest pause counts.
    A pause was sent one delay of the link before it took effect.
    """
    rows = pauses.select(*KEY, "start_ns", "end_ns").rows()
    END, START, SENT = range(3)  # the order at the same time
    events = []
    for index, (node, number, _, start, end) in enumerate(rows):
        if start == end:
            continue
        events.append((start, START, index))
        events.append((start - ports[node, number].delay_ns, SENT, index))
        if end is not None:
            events.append((end, END, index))
    events.sort()
    paused: dict[int, dict[int, dict[int, int]]] = defaultdict(lambda: defaultdict(dict))  # node, port, queue -> row
    for _, kind, index in events:
        node, number, queue, _, _ = rows[index]
        if kind == START:
            paused[node][number][queue] = index
        elif kind == END:
            del paused[node][number][queue]
        else:
            peer, back = ports[node, number].peer
            for other, queues in paused[peer].items():
                if other != back and queues:
                    yield next(reversed(queues.values())), index


def by_pause(arrows: Sequence[tuple[int, int]], end: int) -> dict[int, list[int]]:
    """The numbers of the arrows that begin (end 0) or end (1) at each pause."""
    out: dict[int, list[int]] = defaultdict(list)
    for number, arrow in enumerate(arrows):
        out[arrow[end]].append(number)
    return out
