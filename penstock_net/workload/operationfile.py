"""The operations of flows in their Parquet file: a column, and the hosts of the ranks in the metadata.

column `operation`   a struct of FIELDS by flow, the same for all flows of an operation; null: part of none
metadata `penstock`  JSON: {"version": 1, "jobs": [[host of rank 0, host of rank 1, ...], ...]}
"""

import io
import json
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from penstock_net.errors import SpecError
from penstock_net.inputs import MAX_FLOW_BYTES, known_keys, one_of
from penstock_net.workload.flows import Flows
from penstock_net.workload.operations import KINDS, LONGEST_NAME, NO_OPERATION, Operation, Operations

if TYPE_CHECKING:
    from penstock_net.topology import Topology

COLUMN, KEY, VERSION = "operation", "penstock", 1
_TEXT = ("kind", "name", "algorithm")
_MOST = 2**31 - 1
_LIMITS = {"number": (0, _MOST), "ranks": (1, _MOST), "bytes": (0, MAX_FLOW_BYTES), "job": (0, _MOST), "iteration": (0, _MOST)}
FIELDS = ("number", *Operation._fields)


def to_column(operations: Operations) -> tuple[pl.Series, dict[str, str]]:
    """The column, and the metadata of the file.  SpecError: there are requests, of which neither tells."""
    if operations.requests is not None:
        rule = 'the requests of kind = "inference" do not fit into a file of flows'
        raise SpecError(rule, path="flows", remedy="give the workload itself, or write the flows as CSV, without the requests")
    columns = [list(values) for values in zip(*operations.listed)] or [[] for _ in Operation._fields]
    types = {name: pl.String if name in _TEXT else pl.Int64 for name in Operation._fields}
    listed = pl.DataFrame(dict(zip(Operation._fields, columns)), schema=types).with_row_index("number")
    number = pl.DataFrame({"number": operations.number}).select(pl.col("number").replace(NO_OPERATION, None).cast(pl.UInt32))
    rows = number.join(listed, on="number", how="left", maintain_order="left")
    column = pl.when(pl.col("number").is_not_null()).then(pl.struct(FIELDS)).alias(COLUMN)
    about = {"version": VERSION, "jobs": [job.tolist() for job in operations.jobs]}
    return rows.select(column).to_series(), {KEY: json.dumps(about)}


def from_file(raw: bytes, frame: pl.DataFrame, topo: "Topology") -> Operations | None:
    """The operations of the flows in a Parquet file, whose content as a frame is given; None: it has no such column.

    SpecError names the field, or the key of the metadata, that is missing or wrong.
    """
    if COLUMN not in frame.columns:
        return None
    jobs = _jobs(pl.read_parquet_metadata(io.BytesIO(raw)).get(KEY), topo)
    rows = _rows(frame[COLUMN])
    for name, (low, high) in _LIMITS.items():
        high = min(high, len(jobs) - 1) if name == "job" else high
        _refuse(rows, name, (pl.col(name) < low) | (pl.col(name) > high), f"must be between {low} and {high}")
    sizes = pl.Series([len(job) for job in jobs], dtype=pl.Int64)
    _refuse(rows, "ranks", pl.col("ranks") > sizes.gather(rows["job"]), "more ranks than the job has")
    _check_texts(rows)
    table = rows.drop("row").unique(maintain_order=True).sort("number", maintain_order=True)
    twice = table.filter(~pl.col("number").is_first_distinct())
    if len(twice):
        raise SpecError("differs between the flows of this operation", path=COLUMN, value=twice["number"][0])
    number = np.full(len(frame), NO_OPERATION)
    number[rows["row"].to_numpy()] = np.searchsorted(table["number"].to_numpy(), rows["number"].to_numpy())
    return Operations(number, tuple(Operation(*row) for row in table.drop("number").iter_rows()), jobs)


def check_hosts(flows: Flows) -> None:
    """SpecError: a flow of an operation between hosts that have no rank of its job."""
    if flows.operations is None:
        return
    each, operations = 2**32, flows.operations
    chosen = np.flatnonzero(operations.number >= 0)
    of_operation = np.array([operation.job for operation in operations.listed], dtype=np.int64)
    job = of_operation[operations.number[chosen]]
    known = np.concatenate(
        [np.empty(0, np.int64), *(each * i + hosts.astype(np.int64) for i, hosts in enumerate(operations.jobs))]
    )
    for name in ("src", "dst"):
        hosts = getattr(flows, name)[chosen]
        strange = ~np.isin(each * job + hosts, known)
        if strange.any():
            i = int(np.argmax(strange))
            raise SpecError(f"no rank of job {job[i]} is on this host", path=f"flows.{chosen[i]}.{name}", value=int(hosts[i]))


def _jobs(text: str | None, topo: "Topology") -> tuple[np.ndarray, ...]:
    """The host of each rank, by job."""
    path, remedy = f"metadata.{KEY}", f"convert the trace again, or leave out the column {COLUMN}"
    if text is None:
        raise SpecError("is missing", path=path, remedy=remedy)
    try:
        about = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SpecError(f"is not JSON: {str(error)[:80]}", path=path, remedy=remedy) from None
    if not isinstance(about, dict) or type(about.get("version")) is not int or not isinstance(about.get("jobs"), list):
        raise SpecError("must be an object of a version and a list of jobs", path=path, remedy=remedy)
    known_keys(about, ("version", "jobs"), path)
    if about["version"] != VERSION:
        rule = f"this penstock reads version {VERSION}"
        raise SpecError(rule, path=f"{path}.version", value=about["version"], remedy="convert the trace again")
    for i, hosts in enumerate(about["jobs"]):
        where = f"{path}.jobs.{i}"
        if not isinstance(hosts, list) or not all(type(host) is int for host in hosts):
            raise SpecError("must be a list of the hosts of the ranks", path=where, value=hosts)
        if wrong := [host for host in hosts if not 0 <= host < topo.hosts]:
            raise SpecError(f"hosts are 0 to {topo.hosts - 1}", path=where, value=wrong[0])
        if len(set(hosts)) < len(hosts):
            raise SpecError("two ranks are on one host", path=where)
    return tuple(np.array(hosts, dtype=np.int32) for hosts in about["jobs"])


def _rows(column: pl.Series) -> pl.DataFrame:
    """The fields of the flows that have an operation, and the row of each."""
    if not isinstance(column.dtype, pl.Struct):
        raise SpecError(f"must be a struct of {', '.join(FIELDS)}", path=COLUMN)
    there = {field.name: field.dtype for field in column.dtype.fields}
    known_keys(there, FIELDS, COLUMN)
    for name in FIELDS:
        if name not in there:
            raise SpecError("is missing", path=f"{COLUMN}.{name}")
        wanted = pl.String if name in _TEXT else pl.Int64
        if not (there[name] == pl.String if name in _TEXT else there[name].is_integer()):
            raise SpecError(f"must be of type {wanted}", path=f"{COLUMN}.{name}", value=str(there[name]))
    rows = column.struct.unnest().with_columns(pl.exclude(_TEXT).cast(pl.Int64)).with_row_index("row")
    rows = rows.filter(~pl.all_horizontal(pl.col(FIELDS).is_null()))
    for name in FIELDS:
        if rows[name].null_count():
            raise SpecError("a value is missing", path=f"{COLUMN}.{name}")
    return rows.select("row", *FIELDS)


def _check_texts(rows: pl.DataFrame) -> None:
    for kind in rows["kind"].unique(maintain_order=True):
        one_of(kind, f"{COLUMN}.kind", KINDS)
    for name in ("name", "algorithm"):
        for text in rows[name].unique(maintain_order=True):
            if len(text) > LONGEST_NAME or not text.isprintable():
                rule = f"must be at most {LONGEST_NAME} characters that can be printed"
                raise SpecError(rule, path=f"{COLUMN}.{name}", value=text)


def _refuse(rows: pl.DataFrame, name: str, bad: pl.Expr, rule: str) -> None:
    wrong = rows.filter(bad)
    if len(wrong):
        raise SpecError(rule, path=f"{COLUMN}.{name}", value=wrong[name][0])
