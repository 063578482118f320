"""Flows as Parquet: the type of a column says what its values mean, and the same table as CSV gives the same or is refused."""

import datetime as dt
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from drawn import examples
from hypothesis import given
from hypothesis import strategies as st

from penstock_net.errors import SpecError
from penstock_net.topology import star
from penstock_net.workload import flows_from_csv, flows_from_parquet
from penstock_net.workload.flows import Flows
from penstock_net.workload.limits import RANGES

TOPO = star(hosts=4)
PLAIN = {"src": [0, 1], "dst": [1, 2], "bytes": [10, 20], "start_ns": [0, 50]}


def read(folder, **columns) -> Flows:
    path = folder / "f.parquet"
    pl.DataFrame(PLAIN | columns).write_parquet(path)
    return flows_from_parquet(path, TOPO)


@pytest.mark.parametrize("unit, ps", [("ns", 10**3), ("us", 10**6), ("ms", 10**9)])
def test_a_duration_counts_in_its_own_unit(tmp_path, unit, ps):
    durations = pl.Series([0, 50], dtype=pl.Int64).cast(pl.Duration(unit))
    assert read(tmp_path, start_ns=durations).start_ps.tolist() == [0, 50 * ps]
    waits = read(tmp_path, start_ns=[0, 0], after=[[], [0]], gap_ns=durations)
    assert waits.gap_ps.tolist() == [0, 50 * ps]
    assert read(tmp_path, start_ns=[0, 0], after=[[], [0]], gap_ns=pl.Series([None, dt.timedelta(0)])).gap_ps.tolist() == [0, 0]
    with pytest.raises(SpecError, match=r"start_ns: must be a time of at most"):
        read(tmp_path, start_ns=pl.Series([0, 2**62 // ps + 1], dtype=pl.Int64).cast(pl.Duration(unit)))


ODD = {
    "Duration": pl.Series([dt.timedelta(microseconds=1)] * 2),
    "Datetime": pl.Series([dt.datetime(2026, 1, 1)] * 2),
    "Date": pl.Series([dt.date(1970, 1, 1)] * 2),
    "Time": pl.Series([dt.time(0, 0, 1)] * 2),
    "Boolean": pl.Series([True, False]),
    "String": pl.Series(["0", "1"]),
    "Binary": pl.Series([b"0", b"1"]),
    "List": pl.Series([[0], [1]]),
}


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize(
    "column", ["src", "dst", "bytes", "start_ns", "priority", "class", "after", "gap_ns", "connection", *RANGES]
)
def test_a_column_of_another_type_is_refused_by_name(tmp_path, column, kind):
    if (column, kind) in (("start_ns", "Duration"), ("gap_ns", "Duration"), ("class", "String"), ("after", "List")):
        return
    with_a_gap = [] if column in PLAIN else [pl.concat([ODD[kind].clear(1), ODD[kind][:1]])]  # a value may be missing there
    for values in (ODD[kind], *with_a_gap):
        with pytest.raises(SpecError) as caught:
            read(tmp_path, **{column: values})
        assert f"flows.{column}: is of type {kind}" in str(caught.value)


@pytest.mark.parametrize("dtype", [pl.Int8, pl.UInt64, pl.Float64])
def test_a_missing_number_is_the_default_whatever_the_type(tmp_path, dtype):
    flows = read(tmp_path, priority=pl.Series([None, 3], dtype=dtype), connection=pl.Series([4, None], dtype=dtype))
    assert flows.priority.tolist() == [0, 3] and flows.connection.tolist() == [4, -1]
    assert read(tmp_path, connection=pl.Series([None, None])).connection is None


@pytest.mark.parametrize(
    "columns, says",
    [
        ({"after": [[], [2**32]]}, "parent 4294967296 is not one of the 2 flows"),
        ({"after": [[], [-1]]}, "parent -1 is not one of"),
        ({"after": [[], [0, None]]}, "flows.after: a value is missing"),
        ({"after": [[], [0.5]]}, "flows.after = 0.5: must be a whole number"),
        ({"after": pl.Series([[], [2**64 - 1]], dtype=pl.List(pl.UInt64))}, "does not fit into int64"),
        ({"after": [[], [True]]}, "flows.after: is of type Boolean"),
        ({"after": [[], [0]], "flow_id": [5, 6]}, "flows.flow_id: must be the number of the row"),
        ({"start_ns": [0.0, 1e-4]}, "flows.start_ns = 0.0001: is not a whole number of ps"),
        ({"start_ns": [0.0, 1234567.0001]}, "is not a whole number of ps"),
        ({"start_ns": [0.0, float("nan")]}, "must be a time of at most"),
        ({"start_ns": [0, None]}, "start_ns: a value is missing"),
        ({"start_ns": pl.Series([0, 2**64 - 1], dtype=pl.UInt64)}, "must be a time of at most"),
        ({"bytes": pl.Series([1, 2**64 - 1], dtype=pl.UInt64)}, "bytes = 18446744073709551615: does not fit into int64"),
        ({"bytes": [1.0, 2.5]}, "bytes = 2.5: must be a whole number"),
        ({"bytes": [1.0, float("inf")]}, "bytes = inf: must be a whole number"),
        ({"bytes": [1.0, 1e19]}, "does not fit into int64"),
        ({"src": [0, 2**32]}, "src = 4294967296: does not fit into int32"),
        ({"priority": [0, 256]}, "priority = 256: does not fit into int8"),
        ({"dst": [1, None]}, "dst: a value is missing"),
    ],
)
def test_numbers_are_neither_wrapped_nor_rounded(tmp_path, columns, says):
    with pytest.raises(SpecError) as caught:
        read(tmp_path, **columns)
    assert says in str(caught.value)


def test_parents_beyond_32_bits_are_refused_in_python_too():
    flows = Flows.from_frame(pl.DataFrame(PLAIN))
    with pytest.raises(SpecError, match="parent 4294967296"):
        replace(flows, after=(np.array([0, 0, 1]), np.array([2**32])))


HOSTS = st.sampled_from(["0", "1", "2", "3", "4", "-1", "4294967296", ""])
NUMBERS = st.sampled_from(["0", "1", "2", "3", "7", "1.0", "2.5", "-1", "1e3", "8", "4294967296", "1e19", "1e12", "1e13", ""])
TIMES = st.sampled_from(
    ["0", "5", "0.25", "0.001", "1e-4", "0.0005", "1234567.125", "1234567.0001", "-1", "1e30", "inf", "nan", ""]
)
ROW = st.tuples(
    HOSTS, HOSTS, NUMBERS, TIMES, st.sampled_from(["", "rpc", "a b", "!"]), st.sampled_from(["", "0", "7", "8", "0.5"])
)


@given(st.lists(ROW, min_size=1, max_size=4))
@examples(200)
def test_the_same_table_as_csv_and_as_parquet(tmp_path_factory, rows):
    folder = tmp_path_factory.getbasetemp()
    names = ("src", "dst", "bytes", "start_ns", "class", "priority")
    (folder / "same.csv").write_text("\n".join([",".join(names), *map(",".join, rows)]))
    columns = dict(zip(names, zip(*rows)))
    made = {
        name: pl.Series([text or None for text in column], dtype=pl.String)
        if name == "class"
        else pl.Series([float(text) if text else None for text in column], dtype=pl.Float64)
        for name, column in columns.items()
    }
    pl.DataFrame(made).write_parquet(folder / "same.parquet")
    found = []
    for read_file, name in ((flows_from_csv, "same.csv"), (flows_from_parquet, "same.parquet")):
        try:
            flows = read_file(folder / name, TOPO)
            found.append(flows.to_frame().with_columns(pl.col("class").cast(pl.String)).rows())
        except SpecError as error:
            assert name in str(error) or "flows." in str(error)
            found.append(None)
    assert found[0] == found[1]
