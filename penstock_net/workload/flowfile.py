"""Flows as CSV: `src,dst,bytes,start_ns[,class][,priority][,id][,after][,gap_ns][,connection][,rate_bps][,window_bytes]`;
at the end perhaps `[,open_loop]`.

# begins a comment.

Columns in any order, hosts by number or by name (a name goes before a number); times are exact to the picosecond ("0.25" is
250 ps).  A flow with `after` starts gap_ns after the last of the flows named there has arrived, or has been acknowledged to its
own host, not before start_ns.  They are named by their `id`, or without that column by the number of their row below the header,
from 0; several are separated by spaces.  Flows of the same src, dst and number in `connection` are messages of one connection.
A flow of 0 bytes from a host to itself is a computation.  The same columns as Parquet, without `id`, and with the operations
that flows are part of (`operationfile`).
"""

import io
import os
import re
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from penstock_net import formats
from penstock_net.errors import SpecError, nearest
from penstock_net.files import new_file
from penstock_net.inputs import (
    MAX_FLOW_BYTES,
    MAX_TIME_PS,
    Table,
    as_path,
    decimal,
    inside,
    left_out,
    read_bytes,
    read_text,
    unknown_key,
    whole,
    whole_cell,
)
from penstock_net.topology.graph import check_topology
from penstock_net.workload import operationfile
from penstock_net.workload.connections import ALONE, MOST
from penstock_net.workload.flows import PRIORITIES, After, Flows, circle, class_name, csr, host_number, waits_for_itself
from penstock_net.workload.limits import RANGES, Limits

if TYPE_CHECKING:
    from penstock_net.topology import Topology

REQUIRED = ("src", "dst", "bytes", "start_ns")
OPTIONAL = ("class", "priority", "id", "after", "gap_ns", "connection", "rate_bps", "window_bytes", "open_loop")
EXAMPLE = "src,dst,bytes,start_ns"
COUNT = re.compile(r"(\d{1,15}) flows, written by penstock", re.ASCII)  # the first line of a file that penstock wrote


def flows_from_csv(path: str | os.PathLike[str], topo: "Topology", *, class_name: str = "flows", priority: int = 0) -> Flows:
    """The flows of a file, which may also be a flow file of the HPCC simulator; `class_name` and `priority` for rows that do not
    say.

    SpecError with file:line on anything that is wrong: columns, hosts, src = dst, sizes, starts, a truncated file.
    """
    check_topology(topo)
    place = os.fspath(as_path(path, "file", "a CSV file"))
    if formats.refuse_others(read_bytes(place), formats.FLOWS, place) is not None:
        return _from_hpcc(place, topo, class_name).check(topo)
    table = Table(path, EXAMPLE)
    _check_columns(table)
    reader = _Reader(topo, table.columns, class_name, priority)
    for line, cells in table.rows():
        with inside(place=table.where(line)):
            reader.row(cells, table.where(line))
    if not reader.start:
        raise SpecError("no flows below the header line", remedy="is the file truncated?", place=table.path)
    _check_count(table, len(reader.start))
    return reader.flows(table.path).check(topo)


def _from_hpcc(path: str, topo: "Topology", class_name: str) -> Flows:
    """The flows of a flow file of the HPCC simulator: their number, then `src dst priority [port] bytes start`, start in seconds.

    What follows the announced flows is not read, as in ns-3. ns3-rdma has `src dst priority packets start end` instead.
    """
    lines = [(n, words) for n, line in enumerate(read_text(path).splitlines(), start=1) if (words := line.split())]
    place = f"{path}:{lines[0][0]}"
    with inside(place=place):
        count = whole_cell(lines[0][1][0], "flows", 1, 2**31)
    rows = lines[1 : 1 + count]
    if len(rows) < count:
        raise SpecError(f"{count} flows are announced, {len(rows)} follow", remedy="is the file truncated?", place=place)
    if all(len(words) == 6 for _, words in rows) and (
        any("." in words[4] for _, words in rows) or any(len(words[3]) > 5 for _, words in rows)
    ):
        raise SpecError(
            "this is a flow file of ns3-rdma, whose flows are packets, with a start and an end",
            remedy=f"write it as CSV with the header {EXAMPLE}; a packet has the PACKET_PAYLOAD_SIZE of its configuration",
            place=path,
        )
    if further := sum(len(words) >= 5 and all(map(str.isdecimal, words[:4])) for _, words in lines[1 + count :]):
        left_out(path, f"{further} more flows than line {lines[0][0]} announces, which the simulator does not read either")
    reader = _Reader(topo, [*REQUIRED, "priority"], class_name, 0)
    for line, words in rows:
        where = f"{path}:{line}"
        with inside(place=where):
            if len(words) not in (5, 6):
                raise SpecError(
                    f'"{" ".join(words)[:60]}" has {len(words)} columns', remedy="a flow is: src dst priority port bytes start"
                )
            if len(words) != len(rows[0][1]):
                rule = f"{len(words)} columns, but the first flow has {len(rows[0][1])}"
                raise SpecError(rule, remedy="a flow is: src dst priority port bytes start")
            start = decimal(words[-1], "start") * 10**12
            if start.denominator != 1:
                raise SpecError("is not a whole number of ps", path="start", value=words[-1], remedy="give at most 12 decimals")
            reader.row([words[0], words[1], words[-2], f"{int(start) // 1000}.{int(start) % 1000:03}", words[2]], where)
    return reader.flows(path)


def flows_from_parquet(path: str | os.PathLike[str], topo: "Topology", *, class_name: str = "flows", priority: int = 0) -> Flows:
    """The flows of a file with the columns of `Flows.to_frame`; hosts by number, flows in `after` by row. With the column
    `operation` they are part of operations, which the run reports.

    SpecError: it is not Parquet, a column that is missing or unknown, a flow that cannot be sent on `topo`, malformed operations.
    """
    check_topology(topo)
    place = os.fspath(as_path(path, "file", "a Parquet file"))
    raw = read_bytes(place)
    try:
        frame = pl.read_parquet(io.BytesIO(raw))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        first_line = str(error).split("\n", 1)[0][:120]
        raise SpecError(f"is not Parquet: {first_line}", remedy="is the file truncated?", place=place) from None
    known = ("flow_id", *REQUIRED, *(name for name in OPTIONAL if name != "id"), operationfile.COLUMN)
    with inside(place=place):
        for name in frame.columns:
            if name not in known:
                raise unknown_key(name, known, what="column")
            if name in ("flow_id", *REQUIRED) and frame[name].null_count():
                raise SpecError("a value is missing", path=name)
        if not len(frame):
            raise SpecError("there are no flows in it")
        for name, value in (("class", class_name), ("priority", priority), ("gap_ns", 0)):
            if name not in frame.columns or frame[name].dtype == pl.Null:
                frame = frame.with_columns(pl.lit(value).alias(name))
            elif frame[name].null_count():
                frame = frame.with_columns(_filled(frame[name], value))
        operations = operationfile.from_file(raw, frame, topo)
        flows = Flows.from_frame(frame, [{"kind": "flows", "file": place, "flows": len(frame)}], operations).check(topo)
        operationfile.check_hosts(flows)
        return flows


def _filled(column: pl.Series, value: str | int) -> pl.Series:
    """The column, with `value` where there is none; one of a type that means something else as it is: Flows refuses it."""
    dtype = column.dtype
    if isinstance(value, str):
        is_text = isinstance(dtype, pl.String | pl.Categorical | pl.Enum) or dtype.is_integer()
        return column.cast(pl.String).fill_null(value) if is_text else column
    if isinstance(dtype, pl.Duration):
        return column.fill_null(timedelta(0))
    return column.fill_null(value) if dtype.is_integer() or dtype.is_float() else column


def flows_to_parquet(flows: Flows, path: str | os.PathLike[str]) -> None:
    """Writes what `flows_from_parquet` reads, operations included.  SpecError: it cannot be written."""
    frame, metadata = flows.to_frame(), None
    if flows.operations is not None:
        column, metadata = operationfile.to_column(flows.operations)
        frame = frame.with_columns(column)
    with new_file(Path(path), "check the path") as out:
        frame.write_parquet(out, metadata=metadata)


def flows_to_csv(flows: Flows, path: str | os.PathLike[str]) -> None:
    """Writes what `flows_from_csv` reads, without operations.  SpecError: it cannot be written."""
    frame = flows.to_frame().with_columns(start_ns=_exact_ns(flows.start_ps))
    columns = ["src", "dst", "bytes", "start_ns", "class", "priority"]
    if flows.after is not None:
        parents = pl.col("after").cast(pl.List(pl.String)).list.join(" ")
        frame = frame.with_columns(after=parents, gap_ns=_exact_ns(flows.gap_ps))
        columns += ["after", "gap_ns"]
    for name, least in (("connection", 0), *((name, low) for name, (low, _) in RANGES.items())):
        if name in frame.columns:
            frame = frame.with_columns(pl.when(pl.col(name) >= least).then(pl.col(name)))
            columns.append(name)
    with new_file(Path(path), "check the path") as out:
        out.write(f"# {len(flows)} flows, written by penstock\n".encode())
        frame.select(columns).write_csv(out)


def _exact_ns(ps: np.ndarray) -> pl.Series:
    """Times as text in ns, without trailing zeros."""
    column = pl.Series("ps", ps)
    fraction = (column % 1000).cast(pl.String).str.zfill(3)
    text = (column // 1000).cast(pl.String) + "." + fraction
    return text.str.strip_chars_end("0").str.strip_chars_end(".")


def _check_count(table: Table, rows: int) -> None:
    """SpecError: penstock wrote the file, and it is no longer whole."""
    counts = [int(found[1]) for comment in table.comments if (found := COUNT.fullmatch(comment))]
    for count in counts:
        if count != rows or not table.ends_with_newline:
            what = f"has {rows:,} flows and not the {count:,}" if count != rows else "ends within a line, and not with the flows"
            remedy = "is the file truncated? If you have changed it, remove that line"
            raise SpecError(f"{what} that its first line names", remedy=remedy, place=table.path)


def _check_columns(table: Table) -> None:
    known = REQUIRED + OPTIONAL
    where = table.where(table.header_line)
    for name in table.columns:
        if name not in known:
            raise unknown_key(name, known, what="column").within(place=where)
        if table.columns.count(name) > 1:
            raise SpecError("the column occurs twice", path=name, remedy="keep one", place=where)
    for name in REQUIRED:
        if name not in table.columns:
            raise SpecError("the column is missing", path=name, remedy=f"the header must hold {EXAMPLE}", place=where)


class _Reader:
    """Collects checked rows as columns."""

    def __init__(self, topo: "Topology", columns: list[str], default_class: str, default_priority: int) -> None:
        self.topo = topo
        self.position = {name: i for i, name in enumerate(columns)}
        self.default_class = class_name(default_class)
        self.default_priority = whole(default_priority, "priority", 0, PRIORITIES - 1)
        self.hosts: dict[str, int] = {}
        self.classes: dict[str, int] = {}
        self.src: list[int] = []
        self.dst: list[int] = []
        self.bytes: list[int] = []
        self.start: list[int] = []
        self.class_id: list[int] = []
        self.priority: list[int] = []
        self.gap: list[int] = []
        self.connection: list[int] = []
        self.bounds: dict[str, list[int]] = {name: [] for name in RANGES}
        self.ids: dict[str, int] = {}
        self.waits: list[tuple[int, str, list[str]]] = []  # row, its place in the file, what it waits for

    def row(self, cells: list[str], where: str) -> None:
        src_cell, dst_cell, bytes_cell, start_cell = (cells[self.position[name]] for name in REQUIRED)
        class_cell, priority_cell, id_cell, after_cell, gap_cell, connection_cell, *bounds = (
            cells[self.position[name]] if name in self.position else "" for name in OPTIONAL
        )
        number = len(self.start)
        if "id" in self.position:
            if not id_cell or len(id_cell.split()) > 1 or id_cell in self.ids:
                raise SpecError("must be one word, and different in every row", path="id", value=id_cell)
            self.ids[id_cell] = number
        if after_cell:
            self.waits.append((number, where, after_cell.split()))
        elif gap_cell and gap_cell != "0":
            raise SpecError("is the time after the flows in the column after, which is empty", path="gap_ns", value=gap_cell)
        src, dst = self._host(src_cell, "src"), self._host(dst_cell, "dst")
        size = whole_cell(bytes_cell, "bytes", 0 if src == dst else 1, MAX_FLOW_BYTES)
        if src == dst and size:
            raise SpecError("must differ from src, a flow needs two hosts", path="dst", value=dst_cell)
        self.src.append(src)
        self.dst.append(dst)
        self.bytes.append(size)
        self.start.append(_exact_ps(start_cell, "start_ns"))
        self.gap.append(_exact_ps(gap_cell, "gap_ns") if gap_cell else 0)
        self.class_id.append(self._class(class_cell or self.default_class))
        self.connection.append(whole_cell(connection_cell, "connection", 0, MOST) if connection_cell else ALONE)
        for name, cell in zip(RANGES, bounds):
            self.bounds[name].append(whole_cell(cell, name, *RANGES[name]) if cell else 0)
        default = self.default_priority
        self.priority.append(whole_cell(priority_cell, "priority", 0, PRIORITIES - 1) if priority_cell else default)

    def flows(self, path: str) -> Flows:
        """All rows; rows of equal start keep their order."""
        columns = {
            "start_ps": self.start,
            "src": self.src,
            "dst": self.dst,
            "bytes": self.bytes,
            "class_id": self.class_id,
            "priority": self.priority,
            "gap_ps": self.gap,
            "connection": self.connection,
        }
        nominal = {"kind": "flows", "file": path, "flows": len(self.start)}
        limits = Limits(*(np.array(values, dtype=np.int64) for values in self.bounds.values()))
        arrays: dict[str, Any] = {name: np.array(values) for name, values in columns.items()}
        return Flows(**arrays, classes=tuple(self.classes), after=self._after(), nominal=[nominal], limits=limits)

    def _after(self) -> After | None:
        """Who waits for whom, once all rows are known.  SpecError: a flow that is not in the file, or that waits for itself."""
        if not self.waits:
            return None
        pairs = [(number, self._flow(name, where)) for number, where, names in self.waits for name in names]
        child, parent = np.array(pairs).T
        if found := circle(child, parent, len(self.start)):
            place = {number: (where, names) for number, where, names in self.waits}
            lines = [place[row][0].rpartition(":")[2] for row in found]
            where, names = place[found[0]]
            raise waits_for_itself(lines, "line", path="after", value=" ".join(names), place=where)
        return csr(child, parent, len(self.start))

    def _flow(self, name: str, where: str) -> int:
        if "id" in self.position:
            if name not in self.ids:
                remedy = nearest(name, list(self.ids)[:1000])
                raise SpecError("no flow has this id", path="after", value=name, remedy=remedy, place=where)
            return self.ids[name]
        with inside(place=where):
            return whole_cell(name, "after", 0, len(self.start) - 1)

    def _host(self, cell: str, column: str) -> int:
        if cell not in self.hosts:
            self.hosts[cell] = host_number(self.topo, cell, column)
        return self.hosts[cell]

    def _class(self, name: str) -> int:
        if name not in self.classes:
            if len(self.classes) == 127:
                raise SpecError("the 128th class", path="class", value=name, remedy="127 are possible, merge some")
            self.classes[class_name(name)] = len(self.classes)
        return self.classes[name]


def _exact_ps(cell: str, column: str) -> int:
    whole_ns, _, fraction = cell.partition(".")
    if cell.isascii() and whole_ns.isdecimal() and len(whole_ns) < 16 and len(fraction) <= 3:
        if not fraction:
            return int(whole_ns) * 1000
        if fraction.isdecimal():
            return int(whole_ns + fraction.ljust(3, "0"))
    exact: Fraction = decimal(cell, column) * 1000
    if exact < 0:
        raise SpecError("must not be negative", path=column, value=cell, remedy="time starts at 0")
    if exact.denominator != 1:
        raise SpecError("is not a whole number of ps", path=column, value=cell, remedy="give at most three decimals")
    if exact > MAX_TIME_PS:
        raise SpecError(f"is more than {MAX_TIME_PS // 10**12} s", path=column, value=cell, remedy="is it in picoseconds?")
    return int(exact)
