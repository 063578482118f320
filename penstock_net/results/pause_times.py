"""How often and for how long the egresses of a run were paused."""

from __future__ import annotations

import polars as pl

from penstock_net.inputs import instance
from penstock_net.results.pauses import QUEUE, intervals
from penstock_net.results.run import Run


def pause_times(run: Run) -> pl.DataFrame:
    """How often and for how long each egress was paused, whole (queue -1) or a queue of it.

    A queue is a priority where these are paused apart.  Columns: node, port, queue, pauses, paused_ns (until the end of the run,
    if it was not resumed).  SpecError: the run did not record its pauses.
    """
    instance(run, Run, "run", "such as ps.simulate(...)")
    times = pl.col("end_ns").fill_null(float(run.summary["end_ns"])) - pl.col("start_ns")
    lasted = intervals(run.frame("pauses")).with_columns(paused_ns=times)
    return lasted.group_by(QUEUE).agg(pauses=pl.len().cast(pl.Int64), paused_ns=pl.col("paused_ns").sum()).sort(QUEUE)
