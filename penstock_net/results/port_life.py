"""A port's life: what it holds, what it sends, and when it is paused, from sample to sample."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from penstock_net.results.chosen import end_ns, port_of, span_ns
from penstock_net.results.pauses import by_queue, intervals, length_until, union

if TYPE_CHECKING:
    from penstock_net.results.run import Run


def port_life(run: Run, port: str | None = None, time: str | None = None) -> pl.DataFrame:
    """As `Run.port_life`."""
    where = port_of([run], port)
    series = where.of(run.frame("port_series")).sort("time_ns")
    start, end = (0.0, end_ns([run])) if time is None else span_ns(time, [run])
    made = series.select(
        "time_ns", "queue_bytes", length=pl.col("time_ns").diff(), sent_bytes=pl.col("tx_bytes").diff()
    ).with_columns(rate_bps=8e9 * pl.col("sent_bytes") / pl.col("length"))
    rate = where.of(run.ports)["rate_bps"].item()
    paused = pl.lit(None, dtype=pl.Float64)
    if run.pauses is not None:
        spans = union(by_queue(intervals(where.of(run.pauses)), end_ns([run])).values())
        so_far = length_until(spans, made["time_ns"].to_numpy())
        paused = pl.Series(np.diff(so_far, prepend=np.nan), nan_to_null=True) / pl.col("length")
    made = made.select(
        "time_ns",
        "queue_bytes",
        "rate_bps",
        utilization=pl.col("rate_bps") / pl.lit(rate, dtype=pl.Float64),
        paused=paused,
    )
    return made.filter(pl.col("time_ns").is_between(start, end))
