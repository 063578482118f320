"""The frames of a run: made of numpy columns as `columns` describes them, and written as Parquet files."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from penstock_net.results.columns import COLUMNS, PER_FLOW
from penstock_net.results.reading import dtype
from penstock_net.results.samples import KEY, Grid
from penstock_net.version import version

NEVER = ("start_ns", "finish_ns", "fct_ns", "acked_ns")  # a negative time in these means "never"


def make_frame(name: str, data: Mapping[str, Any], *, null_below_zero: Sequence[str] = ()) -> pl.DataFrame:
    """A frame with exactly the columns of COLUMNS[name]; a column x_ns may be given as x_ps (integers, ps).

    null_below_zero: columns in which a negative time means "never".  ValueError: a column is unknown or missing.
    """
    spec, series = COLUMNS[name], []
    unknown = [key for key in data if key not in spec and f"{key.removesuffix('_ps')}_ns" not in spec]
    if unknown:
        raise ValueError(f"{name}: no column {unknown[0]!r}")
    for column in spec.values():
        if column.key != column.name and column.key in data:
            ps = np.asarray(data[column.key])
            values = ps / 1000.0
            if column.name in null_below_zero:
                values[ps < 0] = np.nan
            series.append(pl.Series(column.name, values, dtype=pl.Float64, nan_to_null=column.name in null_below_zero))
        elif column.name in data:
            given = data[column.name]
            made = pl.Series(column.name, given if isinstance(given, (pl.Series, list)) else np.asarray(given))
            series.append(made if column.dtype in ("Enum", str(made.dtype)) else made.cast(dtype(column)))
        elif column.optional:
            rows = len(series[0]) if series else 0
            series.append(pl.Series(column.name, [None] * rows, dtype=dtype(column)))
        else:
            raise ValueError(f"{name}: the column {column.name!r} is missing")
    return pl.DataFrame(series)


def flow_frame(
    *,
    start_ps: Any,
    finish_ps: Any,
    ideal_ps: Any,
    src: Any,
    dst: Any,
    bytes: Any,
    class_id: Any,
    classes: Sequence[str],
    priority: Any,
    ideal_acked_ps: Any = None,
    flow_id: Any = None,
    **per_flow: Any,
) -> pl.DataFrame:
    """The flows frame of numpy columns in ps and bytes; start_ps, finish_ps and acked_ps of -1 mean "never".

    ideal_ps        completion time of each flow alone: until its last byte is at the receiver
    ideal_acked_ps  until its last acknowledgement is at the sender; None: no sender_slowdown
    per_flow        what the core counts by flow (columns.PER_FLOW), such as acked_ps; default: the initial value
    Memory: about 110 bytes per flow, and temporarily 16 more.
    """
    start, finish, ideal = (np.asarray(a, dtype=np.int64) for a in (start_ps, finish_ps, ideal_ps))
    count = len(start)
    counted = {c.key: np.asarray(per_flow.pop(c.key, np.full(count, c.per_flow))) for c in PER_FLOW if c.name != "finish_ns"}
    if per_flow:
        raise ValueError(f"flows: no column {next(iter(per_flow))!r}")
    fct = np.where(finish < 0, -1, finish - start)
    acked = counted["acked_ps"]
    alone = np.ones(count) if ideal_acked_ps is None else np.asarray(ideal_acked_ps)
    acked_after = np.full(count, -1) if ideal_acked_ps is None else np.where(acked < 0, -1, acked - start)
    names = pl.Series(list(classes), dtype=pl.Enum(list(classes)))
    return make_frame(
        "flows",
        {
            "flow_id": np.arange(count) if flow_id is None else flow_id,
            "src": src,
            "dst": dst,
            "bytes": bytes,
            "class": names[np.asarray(class_id).astype(np.uint32)],
            "priority": priority,
            "start_ps": start,
            "finish_ps": finish,
            "fct_ps": fct,
            "ideal_fct_ps": ideal,
            "slowdown": _ratio(fct, ideal),
            "sender_slowdown": _ratio(acked_after, alone),
            **counted,
        },
        null_below_zero=NEVER,
    )


def _ratio(time_ps: np.ndarray, ideal_ps: np.ndarray) -> pl.Series:
    """time / ideal; null where the time is negative."""
    out = time_ps / ideal_ps
    out[time_ps < 0] = np.nan
    return pl.Series(out, nan_to_null=True)


def about_columns(name: str) -> dict[str, str]:
    """What a Parquet file says of itself: units and meanings of its columns, and what wrote it."""
    about = {c.name: {"unit": c.unit, "description": c.text} for c in COLUMNS.get(name, {}).values()}
    return {"penstock": version(), "columns": json.dumps(about)}


def about_samples(grid: Grid | None) -> dict[str, str]:
    """What switches.parquet says of itself."""
    return about_columns("switches") | ({KEY: grid.text()} if grid else {})


def write_frames(folder: Path, frames: Mapping[str, pl.DataFrame]) -> None:
    """Write a Parquet file for each frame."""
    for name, frame in frames.items():
        frame.write_parquet(folder / f"{name}.parquet", metadata=about_columns(name))


def empty_frame(name: str) -> pl.DataFrame:
    """A frame of COLUMNS[name] without rows."""
    return pl.DataFrame(schema={c.name: pl.String if c.dtype == "Enum" else dtype(c) for c in COLUMNS[name].values()})
