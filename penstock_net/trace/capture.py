"""A capture for Wireshark: the pauses that each port received as frames, and the packets that passed the switches."""

import heapq
from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import BinaryIO

import polars as pl

from penstock_net import pcapng
from penstock_net.errors import SpecError
from penstock_net.pcapng import INBOUND, OUTBOUND
from penstock_net.results.pauses import QUEUE
from penstock_net.trace import frames
from penstock_net.trace.part import Key, Part, Progress

EVERY = 4096  # frames between two reports of progress
ROWS = 1 << 16  # of a table that are taken at once
ACK = 1  # kind of a packet
Block = tuple[float, bytes]  # time in ns, block of the file


def write(part: Part, out: BinaryIO, progress: Progress) -> dict[str, int]:
    """Write the capture; see `write_trace`."""
    log, packets = part.run.frames.get("pauses"), part.run.frames.get("packets")
    if log is None and packets is None:
        raise SpecError(
            f'run "{part.run.label}": neither pauses nor packets were recorded',
            remedy="run again with [measure] pauses = true, and packets = true for the packets",
        )
    out.write(pcapng.section())
    interfaces = {key: number for number, key in enumerate(sorted(part.shown))}
    for key in interfaces:
        port = part.ports[key]
        out.write(pcapng.interface(port.name, f"to {port.peer_name}", port.rate_bps))
    counts, total = {}, 0
    sources: list[Iterator[Block]] = []
    if log is not None:
        table = _pause_table(log, part)
        paused = int(table["paused"].sum())
        counts["pauses"], counts["resumes"] = paused, table.height - paused
        sources.append(_pauses(table, part, interfaces))
        total += table.height
    if packets is not None:
        table = _packet_table(packets, part)
        counts["packets"] = table.height
        sources.append(_packets(table, part, interfaces))
        total += table.height
    for done, (_, block) in enumerate(heapq.merge(*sources, key=itemgetter(0))):
        out.write(block)
        if done % EVERY == 0:
            progress(done, total)
    progress(total, total)
    return counts


def _rows(table: pl.DataFrame) -> Iterator[tuple[int, ...]]:
    for piece in table.iter_slices(ROWS):
        yield from piece.rows()


def _pause_table(log: pl.DataFrame, part: Part) -> pl.DataFrame:
    """The rows of the log that are shown, with the length of each pause; null: it did not end."""
    length = pl.col("time_ns").shift(-1).over(QUEUE) - pl.col("time_ns")
    return part.within(part.of_shown(log.select("time_ns", *QUEUE, "paused", length=length)))


def _pauses(table: pl.DataFrame, part: Part, interfaces: Mapping[Key, int]) -> Iterator[Block]:
    """A frame for each row.  PFC pauses classes: a queue is the class of its number, and the whole port is all of them."""
    for time, node, number, queue, paused, length in _rows(table):
        port = part.ports[node, number]
        what = f"{'pause' if paused else 'resume'} of {'the port' if queue < 0 else f'queue {queue}'}"
        source = frames.mac(*port.peer)
        if queue < frames.CLASSES:
            classes = 0xFF if queue < 0 else 1 << queue
            frame = frames.pfc(source, classes, frames.quanta(length, port.rate_bps) if paused else 0)
        else:
            frame = frames.experimental(source, what)
        yield (time, pcapng.packet(interfaces[node, number], round(time), frame, flags=INBOUND, queue=queue, comment=what))


def _packet_table(packets: pl.DataFrame, part: Part) -> pl.DataFrame:
    """The events that are shown, with the port at which the packet was seen: it came in by one, and left by another."""
    packets = packets.filter(pl.col("kind") <= ACK, pl.col("event") != "receive")
    arrival = pl.col("event").is_in(["enqueue", "hold"])
    if (packets["event"] == "hold").any():  # it came in once, however often it is queued
        before = pl.col("event").shift(1).over("node", "flow_id", "offset_bytes", "kind")
        packets = packets.filter(((pl.col("event") == "enqueue") & (before == "hold")).not_().fill_null(True))
    seen = packets.select(
        "time_ns",
        "node",
        pl.when(arrival).then("in_port").otherwise("port").alias("port"),
        pl.when(arrival).then(INBOUND).when(pl.col("event") == "dequeue").then(OUTBOUND).otherwise(0).alias("flags"),
        "queue",
        "kind",
        "flow_id",
        "offset_bytes",
        "bytes",
        "ecn",
    )
    return part.within(part.of_shown(seen))


def _packets(table: pl.DataFrame, part: Part, interfaces: Mapping[Key, int]) -> Iterator[Block]:
    sources, destinations = part.run.flows["src"].to_list(), part.run.flows["dst"].to_list()
    for time, node, number, flags, queue, kind, flow, offset, size, ecn in _rows(table):
        length = max(size, frames.HEADERS)
        notes = [] if flags else ["dropped"]
        if length > size:
            notes.append(f"{size} B in the simulation")
        if kind == ACK and ecn:
            notes.append("echo of a mark")
        frame = frames.packet(flow, sources[flow], destinations[flow], offset, length, kind == ACK, bool(ecn))
        queue = queue if flags == OUTBOUND else -1
        comment = ", ".join(notes)
        yield (
            time,
            pcapng.packet(interfaces[node, number], round(time), frame, length, flags=flags, queue=queue, comment=comment),
        )
