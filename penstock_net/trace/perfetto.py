"""A trace for ui.perfetto.dev: a process per node, in it a track per port, with its pauses as slices and its queue as a counter.

A queue has tracks of its own below its port's. An arrow leads from a pause to each that it caused. A track without events is
left out.
"""

import heapq
from collections import defaultdict
from collections.abc import Sequence
from math import inf
from operator import itemgetter
from typing import Any, BinaryIO

import polars as pl

from penstock_net.errors import SpecError
from penstock_net.results.pauses import QUEUE, causes, intervals
from penstock_net.trace.part import Part, Progress

try:
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto
except ImportError as error:
    raise SpecError("a Perfetto trace needs the package perfetto", remedy="pip install 'penstock-net[trace]'") from error

EVERY = 4096  # packets of the file that are written at once
END, BEGIN, VALUE = range(3)
Event = tuple[float, int, int, int, int, int]  # time in ns, kind, node, port, queue, the pause's number or the counter's value


def write(part: Part, out: BinaryIO, progress: Progress) -> dict[str, int]:
    """Write the trace; see `write_trace`."""
    log, port_series, queues = (part.run.frames.get(name) for name in ("pauses", "port_series", "queues"))
    if log is None and port_series is None and queues is None:
        raise SpecError(
            f'run "{part.run.label}": neither pauses nor queues were recorded',
            remedy="run again with [measure] pauses = true and port_series = true",
        )
    tables, counts, arrows = [], {}, []
    if log is not None:
        pauses = intervals(log)
        kept = part.of_shown(pauses).filter(pl.col("start_ns") < part.end_ns, pl.col("end_ns").fill_null(inf) >= part.start_ns)
        seen = set(kept["pause"])
        arrows = [arrow for arrow in causes(pauses, part.links) if seen.issuperset(arrow)]
        tables.append(_pause_events(kept, part))
        counts = {"pauses": kept.height, "arrows": len(arrows)}
    values = []
    if port_series is not None:
        values.append(port_series.select("time_ns", "node", "port", queue=pl.lit(-1, pl.Int32), bytes="queue_bytes"))
    if queues is not None:
        values.append(_with_empty(queues, part.run.samples.times))
    if values:
        tables.append(_value_events(pl.concat(values), part))
        counts["counter values"] = tables[-1].height
    total = sum(table.height for table in tables)
    writer = _Writer(part, out, _by_pause(arrows, 0), _by_pause(arrows, 1))
    writer.window()
    for done, event in enumerate(heapq.merge(*(table.iter_rows() for table in tables), key=itemgetter(0))):
        writer.event(event)
        if done % EVERY == 0:
            progress(done, total)
    writer.flush()
    progress(total, total)
    return counts


def _by_pause(arrows: Sequence[tuple[int, int]], end: int) -> dict[int, list[int]]:
    """The numbers of the arrows that begin (end 0) or end (1) at each pause."""
    out: dict[int, list[int]] = defaultdict(list)
    for number, arrow in enumerate(arrows):
        out[arrow[end]].append(number)
    return out


def _pause_events(kept: pl.DataFrame, part: Part) -> pl.DataFrame:
    """Beginnings and ends within the time shown, in the order of the log, as rows of Event."""
    begins = kept.select(
        pl.col("start_ns").clip(part.start_ns).alias("time_ns"), pl.lit(BEGIN).alias("kind"), *QUEUE, "pause", at="first"
    )
    ends = kept.drop_nulls("end_ns").filter(pl.col("end_ns") < part.end_ns)
    ends = ends.select(pl.col("end_ns").alias("time_ns"), pl.lit(END).alias("kind"), *QUEUE, "pause", at="last")
    return pl.concat([begins, ends]).sort("time_ns", "at").drop("at")


def _with_empty(queues: pl.DataFrame, times: pl.Series) -> pl.DataFrame:
    """The samples of queues, and one of 0 bytes after the last of each time that a queue was not empty."""
    after = pl.DataFrame({"time_ns": times, "after": times.shift(-1)})
    rows = queues.select("time_ns", *QUEUE, "bytes")
    again = pl.col("time_ns").shift(-1).over(QUEUE)
    empty = rows.join(after, on="time_ns", how="left", maintain_order="left").filter(
        pl.col("after").is_not_null() & (again.is_null() | (again > pl.col("after")))
    )
    zeros = empty.select(pl.col("after").alias("time_ns"), *QUEUE, pl.lit(0, pl.Int64).alias("bytes"))
    return pl.concat([rows, zeros])


def _value_events(values: pl.DataFrame, part: Part) -> pl.DataFrame:
    """Where a counter changes within the time shown, as rows of Event; at first it is 0."""
    rows = part.within(part.of_shown(values)).sort("time_ns", *QUEUE)
    changed = pl.col("bytes") != pl.col("bytes").shift(1, fill_value=0).over(QUEUE)
    return rows.filter(changed).select("time_ns", pl.lit(VALUE).alias("kind"), *QUEUE, "bytes")


class _Writer:
    """Writes events, and each track before the first event on it."""

    def __init__(self, part: Part, out: BinaryIO, leaving: dict[int, list[int]], arriving: dict[int, list[int]]) -> None:
        self.part, self.out, self.leaving, self.arriving = part, out, leaving, arriving
        self.tracks: dict[tuple[Any, ...], int] = {}
        self.trace = proto.Trace()

    def packet(self) -> Any:
        if len(self.trace.packet) == EVERY:
            self.flush()
        packet = self.trace.packet.add()
        packet.trusted_packet_sequence_id = 1
        return packet

    def flush(self) -> None:
        self.out.write(self.trace.SerializeToString())
        self.trace.Clear()

    def window(self) -> None:
        """The measurement window as a slice of a track of its own, if the run has one and it is in the time shown."""
        window = self.part.run.window
        if window is None:
            return
        start, end = max(window[0], self.part.start_ns), min(window[1], self.part.end_ns)
        if start < end:
            about = self.packet().track_descriptor
            about.uuid = self.tracks["window",] = len(self.tracks) + 1
            about.name = "measurement window"
            self.begin(about.uuid, start, self.part.run.window_text, "window")
            self.on_track(about.uuid, end).type = proto.TrackEvent.TYPE_SLICE_END

    def track(self, *key: Any) -> int:
        """The id of the track of a node, a port, a queue, or the counter below one: key (node, port, queue, "bytes")."""
        if key not in self.tracks:
            parent = self.track(*key[:-1]) if key[1:] else 0
            uuid = self.tracks[key] = len(self.tracks) + 1
            about = self.packet().track_descriptor
            about.uuid = uuid
            about.child_ordering = about.EXPLICIT
            if not parent:
                about.process.pid = key[0] + 1
                about.process.process_name = self.part.names[key[0]]
                return uuid
            about.parent_uuid = parent
            if key[-1] == "bytes":
                about.name = "bytes queued"
                about.counter.unit = about.counter.UNIT_SIZE_BYTES
            elif not key[2:]:
                about.name = f"port {key[1]} to {self.part.ports[key].peer_name}"
                about.sibling_order_rank = key[1]
            else:
                about.name = f"queue {key[2]}"
                about.sibling_order_rank = 1 + key[2]
        return self.tracks[key]

    def on_track(self, track: int, time: float) -> Any:
        """A new event of a track, to be filled in."""
        packet = self.packet()
        packet.timestamp = round(time)
        packet.track_event.track_uuid = track
        return packet.track_event

    def begin(self, track: int, time: float, name: str, category: str) -> Any:
        """The beginning of a slice."""
        about = self.on_track(track, time)
        about.type = about.TYPE_SLICE_BEGIN
        about.name = name
        about.categories.append(category)
        return about

    def event(self, event: Event) -> None:
        time, kind, node, port, queue, number = event
        key: tuple[Any, ...] = (node, port) if queue < 0 else (node, port, queue)
        if kind == VALUE:
            about = self.on_track(self.track(*key, "bytes"), time)
            about.type = about.TYPE_COUNTER
            about.counter_value = number
        elif kind == END:
            self.on_track(self.track(*key), time).type = proto.TrackEvent.TYPE_SLICE_END
        else:
            about = self.begin(self.track(*key), time, "paused", "pause")
            about.flow_ids.extend(arrow + 1 for arrow in self.leaving.get(number, ()))
            about.terminating_flow_ids.extend(arrow + 1 for arrow in self.arriving.get(number, ()))
