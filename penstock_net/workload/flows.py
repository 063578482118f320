"""What is to be sent: the columns of all flows, how to check, merge, measure, save and read them.

Load counts payload bytes per second, without headers and acknowledgements:

* "core" is relative to the sum of ToR uplink rates, one direction, and counts *all* flows, whether they leave their
  rack or not, as the BFC paper's simulator does. With uniform pairs the links of the core therefore see less
  than nominal: on 128 hosts under 8 ToRs 15 of 127 destinations are in the source's rack, so 88 % of it.
* "host" is relative to the sum of host link rates, one direction (HPCC, Floodgate).
"""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from penstock_net.errors import SpecError, nearest
from penstock_net.inputs import MAX_FLOW_BYTES, MAX_TIME_PS, elements, whole
from penstock_net.scratch import filled, parts, release
from penstock_net.topology.graph import check_topology
from penstock_net.workload import limits as of_some
from penstock_net.workload.connections import ALONE, Grouped, checked, grouped, refuse_mixed
from penstock_net.workload.limits import Limits
from penstock_net.workload.operations import Operations
from penstock_net.workload.shown import as_html

if TYPE_CHECKING:
    from penstock_net.topology import Topology

PRIORITIES = 8
_CLASS_NAME = re.compile(r"[\w.+:/-](?:[\w.+:/ -]*[\w.+:/-])?", re.ASCII)
_COLUMNS = {
    "start_ps": np.int64,
    "src": np.int32,
    "dst": np.int32,
    "bytes": np.int64,
    "class_id": np.int8,
    "priority": np.int8,
    "gap_ps": np.int64,
}
After = tuple[np.ndarray, np.ndarray]
_NO_GAPS = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False, repr=False)
class Flows:
    """Flows as numpy columns of equal length (read-only), sorted by start; unsorted columns are sorted, stably.

    start_ps   int64, picoseconds: when the flow is handed to the NIC        src, dst   int32, numbers of hosts
    bytes      int64, payload, >= 1                                          priority   int8, 0 is the highest of 8
               A flow of 0 bytes from a host to itself is a computation: it sends nothing and is received when it starts
    class_id   int8, index into `classes`, such as ("poisson", "incast")
    after      None, or (offsets int64[n + 1], parents int32): flow i starts gap_ps[i] after all of
               parents[offsets[i]:offsets[i + 1]], not before start_ps[i]. A parent to the child's src counts when it has been
               received in full, one from the child's src when it has been acknowledged in full
    gap_ps     int64, time from the arrival of the last parent to the start, such as that of a computation; default 0
    nominal    one dict per source: what was asked for (JSON types)
    operations what the flows are part of (`penstock_net.workload.operations`); None: no operations
    connection None, or int32: flows of the same src, dst and number >= 0 are messages of one connection, sent one after another
               in the order in which they start, with one path, congestion state and sequence: see `workload.connections`
    limits     None, or bounds on the rate and the window of flows, and which are open-loop: see `workload.limits`

    SpecError on columns of unequal length or an unknown class; `check` tests everything else.
    """

    start_ps: np.ndarray
    src: np.ndarray
    dst: np.ndarray
    bytes: np.ndarray
    class_id: np.ndarray
    priority: np.ndarray
    classes: tuple[str, ...]
    after: After | None = None
    nominal: list[dict[str, Any]] = field(default_factory=list)
    gap_ps: np.ndarray = field(default_factory=lambda: _NO_GAPS)
    operations: Operations | None = None
    connection: np.ndarray | None = None
    limits: Limits | None = None

    def __post_init__(self) -> None:
        if len(self.gap_ps) == 0:
            object.__setattr__(self, "gap_ps", np.zeros(len(self.start_ps), dtype=np.int64))
        for name, dtype in _COLUMNS.items():
            self._set(name, _exactly(getattr(self, name), name, dtype))
            if getattr(self, name).shape != (len(self.start_ps),):
                raise SpecError(
                    f"has shape {getattr(self, name).shape}, start_ps has {self.start_ps.shape}",
                    path=f"flows.{name}",
                    remedy="give one value per flow",
                )
        object.__setattr__(self, "classes", tuple(class_name(name) for name in self.classes))
        object.__setattr__(self, "nominal", list(self.nominal))
        self._check_classes()
        object.__setattr__(self, "connection", checked(self.connection, len(self)))
        object.__setattr__(self, "limits", of_some.checked(self.limits, len(self)))
        if self.operations is not None and len(self.operations.number) != len(self):
            raise SpecError(f"{len(self.operations.number)} numbers for {len(self)} flows", path="flows.operations")
        if self.after is not None:
            self._check_after(*self.after)
        alone = self.gap_ps != 0 if self.after is None else (self.gap_ps != 0) & (np.diff(self.after[0]) == 0)
        self._refuse(alone, "gap_ps", "is the time after the flows that it waits for, but it waits for none")
        if not np.all(self.start_ps[1:] >= self.start_ps[:-1]):
            self._sort()
        release(*self.columns)

    @classmethod
    def none(cls) -> "Flows":
        """No flows."""
        start_ps, src, dst, size, class_id, priority, _ = (np.zeros(0, dtype) for dtype in _COLUMNS.values())
        return cls(start_ps, src, dst, size, class_id, priority, ())

    def _set(self, name: str, column: np.ndarray) -> None:
        column = column.view()
        column.flags.writeable = False
        object.__setattr__(self, name, column)

    def _check_classes(self) -> None:
        if len(set(self.classes)) != len(self.classes) or len(self.classes) > 127:
            raise SpecError("must be at most 127 distinct names", path="flows.classes", value=self.classes)
        if len(self) and not 0 <= self.class_id.min() <= self.class_id.max() < len(self.classes):
            raise SpecError(f"there are {len(self.classes)} classes", path="flows.class_id", value=int(self.class_id.max()))

    def _check_after(self, offsets: np.ndarray, parents: np.ndarray) -> None:
        offsets, parents = np.asarray(offsets, dtype=np.int64), np.asarray(parents)
        if parents.dtype.kind not in "iu" and len(parents):
            raise SpecError("must be numbers of flows", path="flows.after", value=parents[0])
        if offsets.shape != (len(self) + 1,) or offsets[0] != 0 or offsets[-1] != len(parents) or np.any(np.diff(offsets) < 0):
            rule = f"offsets must rise from 0 to {len(parents)} in {len(self) + 1} steps (CSR)"
            raise SpecError(rule, path="flows.after")
        if len(parents) and not 0 <= parents.min() <= parents.max() < len(self):
            strange = parents[(parents < 0) | (parents >= len(self))][0]
            raise SpecError(f"parent {strange} is not one of the {len(self)} flows", path="flows.after")
        parents = parents.astype(np.int32)
        for column in (offsets, parents):
            column.flags.writeable = False
        object.__setattr__(self, "after", (offsets, parents) if len(parents) else None)

    def _sort(self) -> None:
        order = np.argsort(self.start_ps, kind="stable")
        for name in _COLUMNS:
            self._set(name, getattr(self, name)[order])
        for name, value in of_some.chosen(self, order).items():
            object.__setattr__(self, name, value)
        if self.after is not None:
            number = np.empty(len(order), dtype=np.int64)
            number[order] = np.arange(len(order))
            child, parent = self.edges()
            object.__setattr__(self, "after", csr(number[child], number[parent], len(self)))

    @property
    def columns(self) -> list[np.ndarray]:
        """The columns that every flow has a value in."""
        return [getattr(self, name) for name in _COLUMNS]

    @property
    def computes(self) -> np.ndarray:
        """bool by flow: whether it is a computation, which sends nothing."""
        return self.src == self.dst

    def edges(self) -> tuple[np.ndarray, np.ndarray]:
        """(child, parent) numbers of every dependency, int64, ordered by child."""
        if self.after is None:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        offsets, parents = self.after
        return np.repeat(np.arange(len(self)), np.diff(offsets)), parents.astype(np.int64)

    @classmethod
    def empty(cls) -> "Flows":
        """An empty `Flows`."""
        none = np.empty(0, dtype=np.int64)
        return cls(none, none, none, none, none, none, classes=())

    def __len__(self) -> int:
        return len(self.start_ps)

    def __repr__(self) -> str:
        last = f", the last at {self.start_ps[-1] / 1e9:.6g} ms" if len(self) else ""
        return f"Flows({len(self)} of {int(self.bytes.sum())} B, classes={', '.join(self.classes)}{last})"

    def _repr_html_(self) -> str:
        return as_html(self.classes, self.class_id, self.bytes, self.start_ps)

    def __add__(self, other: "Flows") -> "Flows":
        """Both, merged by start; at equal starts those of the left come first."""
        if not isinstance(other, Flows):
            return NotImplemented
        n = len(self) + len(other)
        theirs = np.searchsorted(self.start_ps, other.start_ps, side="right") + np.arange(len(other))
        is_mine = np.ones(n, dtype=bool)
        is_mine[theirs] = False
        classes = self.classes + tuple(name for name in other.classes if name not in self.classes)
        columns: dict[str, Any] = {}
        for name, dtype in _COLUMNS.items():
            columns[name] = filled(n, 0, dtype)
            columns[name][is_mine] = getattr(self, name)
            columns[name][theirs] = getattr(other, name)
            release(columns[name], getattr(self, name), getattr(other, name))
        lookup = np.array([classes.index(name) for name in other.classes], dtype=np.int8)
        columns["class_id"][theirs] = lookup[other.class_id]
        after = None
        if self.after is not None or other.after is not None:
            mine = np.flatnonzero(is_mine)
            child, parent = (np.concatenate([mine[here], theirs[there]]) for here, there in zip(self.edges(), other.edges()))
            after = csr(child, parent, n)
        nominal = self.nominal + other.nominal
        return Flows(**columns, classes=classes, after=after, nominal=nominal, **of_some.joined(self, other, is_mine))

    def __radd__(self, other: Any) -> "Flows":
        return self if other == 0 else NotImplemented  # so that sum([...]) works

    def until(self, end_ps: int) -> "Flows":
        """The flows that start before `end_ps` and wait for no flow that is left out."""
        keep = self.start_ps < end_ps
        if keep.all():
            return self
        child, parent = self.edges()
        _leave_out(keep, child, parent)
        number, both = np.cumsum(keep) - 1, keep[child]
        after = csr(number[child[both]], number[parent[both]], int(keep.sum()))
        columns = {name: getattr(self, name)[keep] for name in _COLUMNS}
        return Flows(**columns, classes=self.classes, after=after, nominal=self.nominal, **of_some.chosen(self, keep))

    @cached_property
    def connections(self) -> Grouped | None:
        """The connections of more than one flow; None: no flow names one."""
        return None if self.connection is None else grouped(self.connection, self.src, self.dst)

    def check(self, topo: "Topology") -> "Flows":
        """Itself, if every flow can be sent on `topo`; otherwise a SpecError that names the first one that cannot."""
        check_topology(topo)
        for part in parts(*self.columns):
            self._check_part(topo.hosts, part)
            sends = np.flatnonzero(self.src[part] != self.dst[part]) + part.start
            topo.refuse_unreachable(self.src, self.dst, sends)
        if self.connection is not None and self.connections is not None:
            refuse_mixed(self.connection, self.connections, self.src, self.dst, self.priority)
        if self.limits is not None:
            of_some.refuse_mixed(self)
        if self.after is not None:
            self._check_dependencies()
        return self

    def _check_part(self, hosts: int, part: slice) -> None:
        start, src, dst, size, _, priority, gap = (column[part] for column in self.columns)
        at = part.start
        self._refuse((src < 0) | (src >= hosts), "src", f"hosts are 0 to {hosts - 1}", at)
        self._refuse((dst < 0) | (dst >= hosts), "dst", f"hosts are 0 to {hosts - 1}", at)
        sends = src != dst
        self._refuse(~sends & (size != 0), "dst", "must differ from src", at)
        self._refuse(sends & ((size < 1) | (size > MAX_FLOW_BYTES)), "bytes", f"must be between 1 and {MAX_FLOW_BYTES}", at)
        self._refuse((start < 0) | (start > MAX_TIME_PS), "start_ps", "must not be negative", at)
        self._refuse((priority < 0) | (priority >= PRIORITIES), "priority", "must be 0 (highest) to 7", at)
        self._refuse((gap < 0) | (gap > MAX_TIME_PS), "gap_ps", "must not be negative", at)

    def _refuse(self, bad: np.ndarray, column: str, rule: str, first: int = 0) -> None:
        if bad.any():
            i = first + int(np.argmax(bad))
            raise SpecError(rule, path=f"flows.{i}.{column}", value=int(getattr(self, column)[i]))

    def _check_dependencies(self) -> None:
        child, parent = self.edges()
        strange = (self.dst[parent] != self.src[child]) & (self.src[parent] != self.src[child])
        if strange.any():
            i = int(np.argmax(strange))
            raise SpecError(
                f"waits for flow {parent[i]}, from host {self.src[parent[i]]} to host {self.dst[parent[i]]}",
                path=f"flows.{child[i]}.src",
                value=int(self.src[child[i]]),
                remedy="a flow can only wait for flows that its own host receives or sends",
            )
        refuse_circle(child, parent, len(self))

    def to_frame(self) -> pl.DataFrame:
        """flow_id, src, dst, bytes, class, priority, start_ns (Float64, exact below 75 min); after and gap_ns if flows wait;
        connection, rate_bps, window_bytes and open_loop if there are some."""
        class_of = pl.Series(self.classes, dtype=pl.Enum(self.classes)).gather(self.class_id)
        frame = pl.DataFrame(
            {
                "flow_id": np.arange(len(self), dtype=np.int64),
                "src": self.src,
                "dst": self.dst,
                "bytes": self.bytes,
                "class": class_of,
                "priority": self.priority,
                "start_ns": self.start_ps / 1000,
            }
        )
        frame = frame.with_columns(**of_some.columns(self))
        if self.after is None:
            return frame
        offsets, parents = self.after
        lists = np.split(parents, offsets[1:-1])
        return frame.with_columns(pl.Series("after", lists, dtype=pl.List(pl.Int32)), pl.Series("gap_ns", self.gap_ps / 1000))

    @classmethod
    def from_frame(
        cls, frame: pl.DataFrame, nominal: Sequence[dict[str, Any]] = (), operations: Operations | None = None
    ) -> "Flows":
        """The flows of a frame with src, dst, bytes, start_ns and perhaps class, priority, after (row numbers), gap_ns,
        connection, rate_bps, window_bytes, open_loop.

        operations   their `number` by row
        """
        for name in ("src", "dst", "bytes", "start_ns"):
            if name not in frame.columns:
                raise SpecError("the column is missing", path=f"flows.{name}", remedy=f"there are {', '.join(frame.columns)}")
        try:
            labels, classes = _labels(frame)
            class_id = labels.replace_strict(list(classes), list(range(len(classes))), return_dtype=pl.Int8).to_numpy()
            src, dst, size = (_whole_column(frame[name], f"flows.{name}") for name in ("src", "dst", "bytes"))
            zeros = pl.Series(np.zeros(len(frame), np.int8))
            priority = _whole_column(frame["priority"] if "priority" in frame.columns else zeros, "flows.priority")
            gap = _time_column(frame["gap_ns"], "flows.gap_ns") if "gap_ns" in frame.columns else _NO_GAPS
            start = _time_column(frame["start_ns"], "flows.start_ns")
            after = _after_column(frame["after"]) if "after" in frame.columns else None
            if after is not None and "flow_id" in frame.columns:
                rows = np.arange(len(frame))
                if not np.array_equal(_whole_column(frame["flow_id"], "flows.flow_id"), rows):
                    rule = "must be the number of the row, from 0, by which the column after names flows"
                    raise SpecError(rule, path="flows.flow_id", remedy="number them anew, or leave the column out")
            connection = (
                _optional_column(frame["connection"], "flows.connection", ALONE) if "connection" in frame.columns else None
            )
            further = gap, operations, connection, of_some.from_frame(frame, _optional_column)
            return cls(start, src, dst, size, class_id, priority, classes, after, list(nominal), *further)
        except (pl.exceptions.PolarsError, TypeError, ValueError) as error:
            first_line = str(error).split("\n", 1)[0]
            raise SpecError(f"the frame holds a value of the wrong kind: {first_line}", path="flows") from None

    def key(self) -> str:
        """A hash of the content, 32 hex digits, the same on every machine: for caches."""
        digest = hashlib.blake2b(digest_size=16)
        columns = [getattr(self, name) for name in _COLUMNS if name != "gap_ps" or self.gap_ps.any()] + list(self.after or ())
        content: list[Any] = [self.classes, self.nominal]
        if self.operations is not None:
            columns.append(self.operations.number)
            content += self.operations.content()
        for name, column in of_some.columns(self).items():
            columns.append(column)
            content.append(name)
        for column in columns:
            digest.update(f"{column.dtype.str[1:]}{len(column)};".encode())
            digest.update(np.ascontiguousarray(column, dtype=column.dtype.newbyteorder("<")).data)
        digest.update(json.dumps(content, sort_keys=True, default=str).encode())
        return digest.hexdigest()

    def realised(self, topo: "Topology", duration_ps: int) -> dict[str, Any]:
        """The load that the flows starting before `duration_ps` offer, and what was asked for.

        {"duration_ps", "flows", "bytes", "load_core", "load_host", "load_crossing", "classes": {name: the same},
        "load_links", "nominal"}: loads as the module says (None where the topology has no such links); load_crossing counts
        only the flows between racks, relative to the core: what the uplinks really carry; load_links is
        `Topology.offered_loads`, by the tiers that links join.
        """
        duration_ps = whole(duration_ps, "duration_ps", 1, MAX_TIME_PS)
        n = int(np.searchsorted(self.start_ps, duration_ps))
        found = self._counts(topo.host_switches, n)
        per_class = {name: _offered(topo, duration_ps, *counts) for name, counts in zip(self.classes, found.tolist())}
        total = _offered(topo, duration_ps, *found.sum(axis=0).tolist())
        links = topo.offered_loads(self.src[:n], self.dst[:n], self.bytes[:n], duration_ps)
        return {"duration_ps": duration_ps, **total, "classes": per_class, "load_links": links, "nominal": list(self.nominal)}

    def overloaded(self, topo: "Topology", duration_ps: int) -> dict[str, float]:
        """The `load_links` above 1 of flows that arrive throughout `duration_ps`; empty if most start at its begin or end."""
        n = int(np.searchsorted(self.start_ps, duration_ps))
        if not n or not 0.25 < self.start_ps[:n].mean() / duration_ps < 0.75:
            return {}
        loads = topo.offered_loads(self.src[:n], self.dst[:n], self.bytes[:n], duration_ps)
        return {name: load for name, load in loads.items() if load > 1}

    def _counts(self, rack: np.ndarray, n: int) -> np.ndarray:
        """int64[classes, 3] of the first n flows: flows, their bytes, and those of them between racks; without computations."""
        found = np.zeros((len(self.classes), 3), dtype=np.int64)
        columns = [column[:n] for column in (self.src, self.dst, self.bytes, self.class_id)]
        for part in parts(*columns):
            src, dst, size, class_id = (column[part] for column in columns)
            sends, crosses = src != dst, rack[src] != rack[dst]
            for i, row in enumerate(found):
                chosen = sends & (class_id == i)
                row += np.count_nonzero(chosen), np.sum(size, where=chosen), np.sum(size, where=chosen & crosses)
        return found


def _offered(topo: "Topology", duration_ps: int, flows: int, total: int, crossing: int) -> dict[str, Any]:
    """The load of so many flows with so many bytes, of which some cross racks."""
    seconds = duration_ps / 1e12

    def load(of: int, capacity: float) -> float | None:
        return 8 * of / seconds / capacity if capacity else None

    core, host = topo.core_capacity_bps, topo.host_capacity_bps
    return {
        "flows": flows,
        "bytes": total,
        "load_core": load(total, core),
        "load_host": load(total, host),
        "load_crossing": load(crossing, core),
    }


def _exactly(values: Any, name: str, dtype: type) -> np.ndarray:
    """The values as this dtype; SpecError if that would change one of them."""
    given = np.asarray(values)
    with np.errstate(invalid="ignore"):
        column: np.ndarray = given.astype(dtype, copy=False)
    if column.dtype != given.dtype and not np.array_equal(column, given):
        wrong = given[column != given][0]
        raise SpecError(f"does not fit into {np.dtype(dtype).name}", path=f"flows.{name}", value=wrong)
    return column


def _whole_column(column: pl.Series, path: str) -> np.ndarray:
    """A column of whole numbers as int64; SpecError: another type, a value that is none or is missing."""
    if not (column.dtype.is_integer() or column.dtype.is_float() or column.dtype == pl.Null):
        raise SpecError(f"is of type {column.dtype}", path=path, remedy="write whole numbers, such as Int64")
    if column.null_count():
        raise SpecError("a value is missing", path=path)
    if column.dtype.is_float():
        wrong = column.filter(~(column.is_finite() & (column == column.floor())))
        if len(wrong):
            raise SpecError("must be a whole number", path=path, value=wrong[0])
    whole_numbers = column.cast(pl.Int64, strict=False)
    if whole_numbers.null_count():
        raise SpecError("does not fit into int64", path=path, value=column.filter(whole_numbers.is_null())[0])
    return whole_numbers.to_numpy()


_UNITS = {"ns": 10**3, "us": 10**6, "ms": 10**9}  # ps


def _time_column(column: pl.Series, path: str) -> np.ndarray:
    """Picoseconds of a column of numbers in ns, or of Durations in their own unit.

    A float is the picosecond from which it differs by no more than rounding does.  SpecError: another type, a part of a ps.
    """
    dtype, unit = column.dtype, 1000
    if isinstance(dtype, pl.Duration):
        column, unit = column.to_physical(), _UNITS[str(dtype.time_unit)]
    if not (column.dtype.is_integer() or dtype.is_float() or dtype == pl.Null):
        raise SpecError(f"is of type {dtype}", path=path, remedy="write numbers of ns, or a Duration")
    if column.null_count():
        raise SpecError("a value is missing", path=path)
    if column.dtype.is_integer():
        column = column.cast(pl.Int64, strict=False)  # what does not fit is null, and too long
    bound = MAX_TIME_PS // unit
    if not column.is_between(-bound, bound).fill_null(False).all() or (dtype.is_float() and column.is_nan().any()):
        raise SpecError(f"must be a time of at most {MAX_TIME_PS // 10**12} s", path=path)
    if column.dtype.is_integer():
        return column.to_numpy() * unit
    exact = column.cast(pl.Float64).to_numpy() * 1000
    ps = np.rint(exact)
    strange = np.abs(exact - ps) > 4 * np.finfo(column.to_numpy().dtype).eps * np.abs(exact)
    if strange.any():
        remedy = "give at most three decimals"
        raise SpecError("is not a whole number of ps", path=path, value=float(column.to_numpy()[strange][0]), remedy=remedy)
    return ps.astype(np.int64)


def _after_column(column: pl.Series) -> After:
    """The flows that each one waits for, by row; SpecError: not lists of whole numbers."""
    dtype = pl.List(pl.Int64) if column.dtype == pl.Null else column.dtype
    if not isinstance(dtype, pl.List | pl.Array):
        raise SpecError(f"is of type {dtype}", path="flows.after", remedy="write lists of rows, such as List(Int64)")
    lists = column.cast(pl.List(dtype.inner))
    counts = lists.list.len().fill_null(0)
    parents = lists.filter(counts > 0).explode()
    given = _whole_column(parents.cast(pl.Int64) if not len(parents) else parents, "flows.after")
    return np.concatenate([[0], np.cumsum(counts.to_numpy())]), given


def _optional_column(column: pl.Series, path: str, missing: int) -> np.ndarray:
    """A column of whole numbers in which some may be missing."""
    numbers = np.full(len(column), missing, dtype=np.int64)
    if column.dtype != pl.Null:
        numbers[column.is_not_null().to_numpy()] = _whole_column(column.drop_nulls(), path)
    return numbers


def csr(child: np.ndarray, parent: np.ndarray, n: int) -> After:
    """(offsets, parents) of (child, parent) pairs of n flows; a child's parents keep their order."""
    order = np.argsort(child, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(child, minlength=n))]).astype(np.int64)
    return offsets, parent[order].astype(np.int32)


def _leave_out(keep: np.ndarray, child: np.ndarray, parent: np.ndarray) -> None:
    """Clear `keep` of all flows that wait, perhaps through others, for one that is not kept."""
    offsets, children = csr(parent, child, len(keep))
    waiting = np.flatnonzero(~keep & (np.diff(offsets) > 0)).tolist()
    first, children = offsets.tolist(), children.tolist()
    while waiting:
        left_out = waiting.pop()
        for i in children[first[left_out] : first[left_out + 1]]:
            if keep[i]:
                keep[i] = False
                waiting.append(i)


def circle(child: np.ndarray, parent: np.ndarray, n: int) -> list[int]:
    """Flows of which each waits for the next one and the last for the first, the lowest number first; empty: there are none."""
    if np.all(parent < child):
        return []
    waits_for = np.bincount(child, minlength=n)
    offsets, children = csr(parent, child, n)
    free = list(np.flatnonzero(waits_for == 0))
    while free:
        done = free.pop()
        for i in children[offsets[done] : offsets[done + 1]]:
            waits_for[i] -= 1
            if waits_for[i] == 0:
                free.append(i)
    stuck = waits_for > 0  # each of these waits for another one of them
    if not stuck.any():
        return []
    waits = stuck[parent]
    awaited = dict(zip(child[waits].tolist(), parent[waits].tolist()))
    flow, way = int(np.argmax(stuck)), dict[int, int]()
    while flow not in way:
        way[flow] = len(way)
        flow = awaited[flow]
    found = list(way)[way[flow] :]
    first = found.index(min(found))
    return found[first:] + found[:first]


def waits_for_itself(found: Sequence[Any], what: str, **where: Any) -> SpecError:
    """The error of a circle of flows, each named as a `what`: "flow", "line"; `where` as of SpecError."""
    named = [*found[:6], "...", found[-1]] if len(found) > 8 else found
    chain = " after ".join(str(name) for name in (*named, found[0]))
    return SpecError(f"waits for itself: {what} {chain}", remedy="remove one of these dependencies", **where)


def refuse_circle(child: np.ndarray, parent: np.ndarray, n: int) -> None:
    """SpecError if one of n flows waits, perhaps through others, for itself."""
    if found := circle(child, parent, n):
        raise waits_for_itself(found, "flow", path=f"flows.{found[0]}.after")


def _labels(frame: pl.DataFrame) -> tuple[pl.Series, tuple[str, ...]]:
    """The class of every flow, and all classes: the categories of an Enum, or in order of appearance."""
    if "class" not in frame.columns:
        return pl.Series(["flows"] * len(frame), dtype=pl.String), ("flows",)
    dtype = frame["class"].dtype
    if not (dtype.is_integer() or isinstance(dtype, pl.String | pl.Categorical | pl.Enum)):
        raise SpecError(f"is of type {dtype}", path="flows.class", remedy="write texts")
    labels = frame["class"].cast(pl.String)
    return labels, tuple(dtype.categories if isinstance(dtype, pl.Enum) else labels.unique(maintain_order=True))


def class_name(name: Any) -> str:
    """The name of a class of flows: letters, digits, spaces inside and _ . + : / -."""
    if not isinstance(name, str) or not _CLASS_NAME.fullmatch(name) or len(name) > 64:
        raise SpecError("must be 1 to 64 letters, digits or _.+:/- (spaces inside)", path="class", value=name)
    return name


def class_number(name: str, classes: list[str]) -> int:
    """The number of a class of flows, which joins the others if it is new."""
    if name not in classes:
        classes.append(name)
    return classes.index(name)


def host_number(topo: "Topology", host: Any, what: str = "host") -> int:
    """The number of a host given by name or by number; "3" is 3 alike, but where nodes are named so it is a name."""
    if isinstance(host, str):
        found = topo.numbers.get(host, -1)
        if 0 <= found < topo.hosts:
            return found
        if found > 0 or topo.names[0].isdecimal() or not (host.isascii() and host.isdecimal() and len(host) < 10):
            rule, known = "no such host" + ", this is a switch" * (found > 0), topo.names[: min(topo.hosts, 1000)]
            raise SpecError(rule, path=what, value=host, remedy=nearest(host, known))
    number = whole(int(host) if isinstance(host, str) else host, what, -(2**63))
    if not 0 <= number < topo.hosts:
        raise SpecError(f"hosts are 0 to {topo.hosts - 1}", path=what, value=number)
    return number


def host_numbers(topo: "Topology", hosts: Any, what: str = "hosts", least: int = 2) -> np.ndarray:
    """int32: None is all hosts, a number the first so many, a list those named in it; SpecError below `least`."""
    check_topology(topo)
    if hosts is None or (not isinstance(hosts, (str, bytes)) and not hasattr(hosts, "__len__")):
        chosen = np.arange(topo.hosts if hosts is None else whole(hosts, what, least, topo.hosts), dtype=np.int32)
    elif isinstance(hosts, (str, bytes)):
        raise SpecError("must be a number of hosts or a list of hosts", path=what, value=hosts)
    else:
        named = enumerate(elements(hosts, what, "such as [0, 1]"))
        chosen = np.array([host_number(topo, host, f"{what}.{i}") for i, host in named], dtype=np.int32)
        values, counts = np.unique(chosen, return_counts=True)
        if np.any(counts > 1):
            raise SpecError(f"host {values[np.argmax(counts)]} occurs twice", path=what, remedy="name each host once")
    if len(chosen) < least:
        raise SpecError(f"{len(chosen)} hosts, but at least {least} are needed", path=what)
    return chosen
