"""Reports of a job's steps: collectives with their bus bandwidth, iterations by rank, the timeline of every rank.

`step_frames` makes the frames of COLUMNS from the times of the flows, `step_summary` the key "training" of the summary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from penstock_net.workload.algorithms import bus_factor
from penstock_net.workload.operations import COMPUTE, ROOTED, SEND

if TYPE_CHECKING:
    from penstock_net.workload.flows import Flows
    from penstock_net.workload.operations import Operations

TIMES = ("start", "ready", "finish", "time", "step", "compute", "exposed", "paused")


def step_frames(flows: Flows, start: np.ndarray, finish: np.ndarray, paused: np.ndarray) -> dict[str, pl.DataFrame]:
    """The frames operations, timeline and ranks, by name; none of them if no flow is part of an operation.

    start, finish, paused: by flow, ps; a negative time means "not before the end of the run".
    """
    if flows.operations is None or not flows.operations.listed:
        return {}
    listed = _listed(flows.operations)
    timeline = _timeline(flows, listed, start, finish, paused)
    frames = {"operations": _operations(listed, timeline), "timeline": timeline.drop("gives"), "ranks": _ranks(timeline)}
    return {name: _in_ns(frame) for name, frame in frames.items()}


def _in_ns(frame: pl.DataFrame) -> pl.DataFrame:
    times = [name for name in TIMES if name in frame.columns]
    return frame.with_columns((pl.col(times) / 1000).name.suffix("_ns")).drop(times)


def _listed(operations: Operations) -> pl.DataFrame:
    """The operations themselves, a row each."""
    fields = ("kind", "name", "algorithm", "ranks", "bytes", "job", "iteration")
    columns = {name: [getattr(operation, name) for operation in operations.listed] for name in fields}
    return pl.DataFrame({"operation": np.arange(len(operations.listed), dtype=np.int32), **columns})


def _timeline(flows: Flows, listed: pl.DataFrame, start: np.ndarray, finish: np.ndarray, paused: np.ndarray) -> pl.DataFrame:
    """A row per operation and rank: when the rank entered it, and when it had received all that was for it; ps.

    gives: the rank sends a single message, which it does not wait for.
    """
    operations = flows.operations
    assert operations is not None
    chosen = np.flatnonzero(operations.number >= 0)
    number = operations.number[chosen]
    columns = {"begin": start - flows.gap_ps, "end": finish, "paused": paused, "src": flows.src, "dst": flows.dst}
    events = pl.DataFrame({"operation": number, "open": finish[chosen] < 0} | {k: v[chosen] for k, v in columns.items()})
    events = events.with_columns(
        begin=pl.when(pl.Series(start[chosen] >= 0)).then("begin"), end=pl.when(~pl.col("open")).then("end")
    )
    alone = pl.Series(np.array(listed["kind"] == SEND)[number])  # both ends of a single message take part from begin to end
    at_src = events.select(
        "operation", "begin", "paused", host="src", end=pl.when(alone).then("end"), open=pl.col("open") & alone, gives=alone
    )
    at_dst = events.select(
        "operation", "end", "open", host="dst", begin=pl.when(alone).then("begin"), paused=pl.lit(0, pl.Int64), gives=False
    )
    by_rank = (
        pl.concat([at_src, at_dst], how="diagonal")
        .group_by("operation", "host")
        .agg(
            pl.col("begin").min().alias("start"),
            pl.when(~pl.col("open").any()).then(pl.col("end").max()).alias("finish"),
            pl.col("paused").sum(),
            pl.col("gives").any(),
        )
    )
    places = [
        {"job": job, "host": host, "rank": rank}
        for job, hosts in enumerate(operations.jobs)
        for rank, host in enumerate(hosts.tolist())
    ]
    return (
        by_rank.join(listed.select("operation", "kind", "name", "job", "iteration"), on="operation")
        .join(pl.DataFrame(places, schema={"job": pl.Int64, "host": pl.Int32, "rank": pl.Int32}), on=["job", "host"])
        .sort("job", "rank", "start", "operation", nulls_last=True)
        .select("job", "rank", "host", "iteration", "operation", "kind", "name", "start", "finish", "paused", "gives")
    )


def _operations(listed: pl.DataFrame, timeline: pl.DataFrame) -> pl.DataFrame:
    """A row per collective and message. Its time counts from when the last rank has entered: until then it cannot be done."""
    unfinished = pl.col("finish").is_null()
    over = (
        timeline.filter(pl.col("kind") != COMPUTE)
        .sort("rank")
        .group_by("operation")
        .agg(
            pl.col("start").min(),
            pl.col("start").max().alias("ready"),
            pl.when(~unfinished.any()).then(pl.col("finish").max()).alias("finish"),
            pl.when(~unfinished.any())
            .then(pl.col("rank").sort_by("finish", descending=True, maintain_order=True).first())
            .alias("slowest_rank"),
            pl.col("paused").sum(),
        )
    )
    table = listed.join(over, on="operation").sort("operation")
    factor = [bus_factor(kind, ranks) * 8e12 for kind, ranks in table.select("kind", "ranks").iter_rows()]
    ready = pl.when(pl.col("kind").is_in(ROOTED)).then("start").otherwise("ready")
    table = table.with_columns(ready=ready).with_columns(time=pl.col("finish") - pl.col("ready"))
    bandwidth = pl.Series(factor, dtype=pl.Float64) * pl.col("bytes") / pl.col("time")
    return table.with_columns(bus_bandwidth_bps=pl.when((pl.col("time") > 0) & (pl.col("bytes") > 0)).then(bandwidth))


def _ranks(timeline: pl.DataFrame) -> pl.DataFrame:
    """A row per iteration and rank."""
    compute = pl.col("kind") == COMPUTE
    waited = pl.col("finish").filter(~pl.col("gives") | pl.col("gives").all())  # for what it sends only if it does nothing else
    before = pl.col("finish").shift(1).over("job", "rank")
    begin, end = (pl.col(name).filter(compute) for name in ("start", "finish"))
    alone = pl.max_horizontal(begin, end.cum_max().shift(1))  # those of a trace may overlap
    return (
        timeline.group_by("job", "iteration", "rank", "host", maintain_order=True)
        .agg(
            pl.col("start").min(),
            pl.when(waited.null_count() == 0).then(waited.max()).alias("finish"),
            (end - alone).clip(lower_bound=0).sum().alias("compute"),
            pl.col("paused").sum(),
        )
        .sort("job", "rank", "iteration")
        .with_columns(step=pl.col("finish") - pl.coalesce(before, "start"))
        .with_columns(exposed=pl.col("step") - pl.col("compute"))
        .sort("job", "iteration", "rank")
    )


def job_names(flows: Flows) -> list[str]:
    """The class of each job's flows; where several jobs have the same one, with the number of the job."""
    operations = flows.operations
    assert operations is not None
    chosen = np.flatnonzero(operations.number >= 0)
    jobs = np.array([operation.job for operation in operations.listed], dtype=np.int64)[operations.number[chosen]]
    found, first = np.unique(jobs, return_index=True)
    names = {int(job): flows.classes[int(flows.class_id[chosen[at]])] for job, at in zip(found, first)}
    every = [names.get(job, "job") for job in range(len(operations.jobs))]
    return [name if every.count(name) == 1 else f"{name} {job}" for job, name in enumerate(every)]


def _of_jobs(ranks: pl.DataFrame, operations: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """By job: its name, the communication that no computation hides, and the bandwidth of the kind that moves most bytes."""
    exposed = ranks.group_by("job").agg(pl.col("exposed_ns").mean())
    kinds = (
        operations.filter(pl.col("kind") != SEND)
        .group_by("job", "kind")
        .agg(pl.col("bytes").sum(), pl.col("bus_bandwidth_bps").median())
        .drop_nulls("bus_bandwidth_bps")
        .sort("bytes", "kind", descending=[True, False])
        .unique("job", keep="first", maintain_order=True)
        .select("job", pl.col("kind").alias("collective"), "bus_bandwidth_bps")
    )
    named = pl.DataFrame({"job": range(len(names)), "name": list(names)}, schema={"job": ranks.schema["job"], "name": pl.String})
    return named.join(exposed, on="job").join(kinds, on="job", how="left").sort("job")


def step_summary(frames: dict[str, pl.DataFrame], names: Sequence[str]) -> dict[str, Any]:
    """What `summary["training"]` says of the frames of `step_frames`; names: of the jobs."""
    ranks, operations = frames["ranks"], frames["operations"]
    last = pl.col("finish_ns").is_not_null().all()
    iterations = (
        ranks.sort("rank")
        .group_by("job", "iteration")
        .agg(
            pl.col("start_ns").min(),
            pl.when(last).then(pl.col("finish_ns").max()).alias("finish_ns"),
            pl.when(last)
            .then(pl.col("rank").sort_by("finish_ns", descending=True, maintain_order=True).first())
            .alias("slowest_rank"),
            pl.col("paused_ns").max().alias("max_paused_ns"),
        )
        .sort("job", "iteration")
    )
    before = pl.col("finish_ns").shift(1).over("job")
    iterations = iterations.with_columns(step_ns=pl.col("finish_ns") - pl.coalesce(before, "start_ns"))
    busbw = (
        operations.drop_nulls("bus_bandwidth_bps")
        .group_by("job", "kind", "name", maintain_order=True)
        .agg(
            pl.len().alias("count"),
            pl.col("time_ns").mean(),
            pl.col("bus_bandwidth_bps").median(),
            pl.col("bus_bandwidth_bps").min().alias("min_bus_bandwidth_bps"),
        )
    )
    steps = iterations.group_by("job", maintain_order=True).agg(
        pl.col("step_ns").mean(), pl.col("step_ns").count().alias("steps")
    )
    jobs = steps.join(_of_jobs(ranks, operations, names), on="job", how="left").to_dicts()
    return {
        "ranks": ranks.select("job", "rank").n_unique(),
        "step_ns": jobs[0]["step_ns"] if len(jobs) == 1 else None,
        "jobs": jobs,
        "iterations": iterations.to_dicts(),
        "operations": busbw.to_dicts(),
    }
