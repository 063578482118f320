"""Flows as CSV: `src,dst,bytes,start_ns[,class][,priority]`, columns in any order, lines with # are comments.

Hosts by number or by name (a name goes before a number); start_ns is exact to the picosecond ("0.25" is 250 ps).
"""

import os
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from penstock.errors import SpecError
from penstock.inputs import MAX_FLOW_BYTES, MAX_TIME_PS, Table, decimal, inside, unknown_key, whole, whole_cell
from penstock.workload.flows import PRIORITIES, Flows, class_name, host_number

if TYPE_CHECKING:
    from penstock.topology import Topology

REQUIRED = ("src", "dst", "bytes", "start_ns")
OPTIONAL = ("class", "priority")
EXAMPLE = "src,dst,bytes,start_ns"


def flows_from_csv(path: str | os.PathLike[str], topo: "Topology", *, class_name: str = "flows", priority: int = 0) -> Flows:
    """The flows of a file; `class_name` and `priority` for rows that do not say.

    SpecError with file:line on anything that is wrong: columns, hosts, src = dst, sizes, starts, a truncated file.
    """
    table = Table(path, EXAMPLE)
    _check_columns(table)
    reader = _Reader(topo, table.columns, class_name, priority)
    for line, cells in table.rows():
        with inside(place=table.where(line)):
            reader.row(cells)
    if not reader.start:
        raise SpecError("no flows below the header line", remedy="is the file truncated?", place=table.path)
    return reader.flows(table.path).check(topo)


def flows_to_csv(flows: Flows, path: str | os.PathLike[str]) -> None:
    """Writes what `flows_from_csv` reads. SpecError if flows wait for others: a CSV file cannot say so."""
    if flows.after is not None:
        raise SpecError(
            "these flows wait for one another, which CSV cannot say",
            remedy="save flows.to_frame() as Parquet",
            place=os.fspath(path),
        )
    frame = flows.to_frame().drop("flow_id", "start_ns").with_columns(start_ps=pl.Series(flows.start_ps))
    fraction = (pl.col("start_ps") % 1000).cast(pl.String).str.zfill(3)
    exact = pl.concat_str((pl.col("start_ps") // 1000).cast(pl.String), pl.lit("."), fraction)
    exact = exact.str.strip_chars_end("0").str.strip_chars_end(".")
    try:
        frame.select("src", "dst", "bytes", exact.alias("start_ns"), "class", "priority").write_csv(os.fspath(path))
    except OSError as error:
        raise SpecError(f"cannot be written: {error.strerror or error}", remedy="check the path", place=os.fspath(path)) from None


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

    def row(self, cells: list[str]) -> None:
        src_cell, dst_cell, bytes_cell, start_cell = (cells[self.position[name]] for name in REQUIRED)
        class_cell, priority_cell = (cells[self.position[name]] if name in self.position else "" for name in OPTIONAL)
        src, dst = self._host(src_cell, "src"), self._host(dst_cell, "dst")
        if src == dst:
            raise SpecError("must differ from src, a flow needs two hosts", path="dst", value=dst_cell)
        self.src.append(src)
        self.dst.append(dst)
        self.bytes.append(whole_cell(bytes_cell, "bytes", 1, MAX_FLOW_BYTES))
        self.start.append(_start_ps(start_cell))
        self.class_id.append(self._class(class_cell or self.default_class))
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
        }
        nominal = {"kind": "flows", "file": path, "flows": len(self.start)}
        arrays: dict[str, Any] = {name: np.array(values) for name, values in columns.items()}
        return Flows(**arrays, classes=tuple(self.classes), nominal=[nominal])

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


def _start_ps(cell: str) -> int:
    whole_ns, _, fraction = cell.partition(".")
    if cell.isascii() and whole_ns.isdecimal() and len(whole_ns) < 16 and len(fraction) <= 3:
        if not fraction:
            return int(whole_ns) * 1000
        if fraction.isdecimal():
            return int(whole_ns + fraction.ljust(3, "0"))
    exact: Fraction = decimal(cell, "start_ns") * 1000
    if exact < 0:
        raise SpecError("must not be negative", path="start_ns", value=cell, remedy="time starts at 0")
    if exact.denominator != 1:
        raise SpecError("is not a whole number of ps", path="start_ns", value=cell, remedy="give at most three decimals")
    if exact > MAX_TIME_PS:
        raise SpecError(f"is more than {MAX_TIME_PS // 10**12} s", path="start_ns", value=cell, remedy="is it in picoseconds?")
    return int(exact)
