"""The one rule for flows that have not finished at the end of a run: they count with their age.

Whoever leaves them out flatters schemes under which the slowest flows do not finish.  A flow's age, from its start to the end of
the run, is less than its completion time will be; so is the slowdown that it makes, and it counts as that of any other flow.  A
flow that is younger than its ideal time could not have finished under any scheme, and is in no statistic.
"""

from typing import Literal

import polars as pl

from penstock_papers.cache import Runs


def counted(runs: Runs, label: str, clock: Literal["receiver", "sender"]) -> pl.LazyFrame:
    """The flows of a run that count: all columns of flows, `finished`, and by this clock `fct_ns` and `slowdown`.

    clock  "receiver": a flow ends when its last byte has arrived; "sender": when its last acknowledgement has.  The ideal time of
           an unfinished flow has the longest path back of the finished ones then, so that its slowdown is at least the one given
    """
    end = runs.summary(label)["end_ns"]
    start, ideal = pl.col("start_ns"), pl.col("ideal_fct_ns")
    done, slowdown = ("finish_ns", "slowdown") if clock == "receiver" else ("acked_ns", "sender_slowdown")
    finished = pl.col(done).is_not_null()
    if clock == "sender":
        ideal = ideal + ((pl.col(done) - start) / pl.col(slowdown) - ideal).max().fill_null(0)
    flows = runs.scan(label, "flows").with_columns(
        finished=finished,
        fct_ns=pl.when(finished).then(pl.col(done)).otherwise(end) - start,
        slowdown=pl.when(finished).then(pl.col(slowdown)).otherwise((end - start) / ideal),
    )
    return flows.filter(pl.col("finished") | (pl.col("slowdown") >= 1))


def number_finished() -> pl.Expr:
    """Of the flows that count, how many have finished."""
    return pl.col("finished").sum().cast(pl.Int64)
