"""The table of training jobs: step time, exposed communication and bus bandwidth of each job, by its name."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from penstock_net.results.printed import Printed
from penstock_net.results.run import Run
from penstock_net.units import format_time

HEADS = ["scheme", "job", "steps", "step time", "exposed", "collective", "bus bandwidth", "slowest rank"]
NOTE = (
    "of each job, never of several: mean step; exposed: communication that no computation hides, mean over ranks and steps;\n"
    "median bus bandwidth of the collective that moves most bytes; "
    "the rank that most often ended a step last, and in how many steps"
)
SCHEMA = {
    "scheme": pl.String,
    "job": pl.String,
    "steps": pl.Int64,
    "step_ns": pl.Float64,
    "exposed_ns": pl.Float64,
    "collective": pl.String,
    "bus_bandwidth_bps": pl.Float64,
    "slowest_rank": pl.Int64,
    "slowest_in": pl.Int64,
}


def printed(runs: Sequence[Run]) -> Printed | None:
    """A row per run and job; None: no run has a job, or none with its name (it was made by an older version)."""
    rows = [_row(run, job) for run in runs for job in (run.summary.get("training") or {}).get("jobs", []) if "name" in job]
    if not rows:
        return None
    return Printed(HEADS, [_cells(row) for row in rows], pl.DataFrame(rows, schema=SCHEMA), [NOTE], names=2)


def _row(run: Run, job: dict[str, Any]) -> dict[str, Any]:
    ended = [each for each in run.summary["training"]["iterations"] if each["job"] == job["job"]]
    slowest = [each["slowest_rank"] for each in ended if each["slowest_rank"] is not None]
    most = max(sorted(set(slowest)), key=slowest.count, default=None)
    known = {name: job.get(name) for name in ("steps", "step_ns", "exposed_ns", "collective", "bus_bandwidth_bps")}
    return {"scheme": run.label, "job": job["name"], **known, "slowest_rank": most, "slowest_in": slowest.count(most)}


def _cells(row: dict[str, Any]) -> list[str]:
    bandwidth = row["bus_bandwidth_bps"]
    return [
        row["scheme"],
        row["job"],
        f"{row['steps']}",
        _time(row["step_ns"]),
        _time(row["exposed_ns"]),
        (row["collective"] or "-").replace("_", "-"),
        "-" if bandwidth is None else f"{bandwidth / 1e9:.3g} Gbit/s",
        "-" if row["slowest_rank"] is None else f"{row['slowest_rank']} (in {row['slowest_in']} of {row['steps']})",
    ]


def _time(ns: float | None) -> str:
    return "-" if ns is None else format_time(round(float(f"{ns:.4g}") * 1000))
