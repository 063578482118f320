"""The table of training jobs: step time, exposed communication and bus bandwidth of each job, by its name."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from penstock_net.report.figures import Table
from penstock_net.results import cells
from penstock_net.results.printed import Printed
from penstock_net.results.run import Run
from penstock_net.units import format_size, format_time

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
    known = [(run, job) for run in runs for job in (run.summary.get("training") or {}).get("jobs", []) if "name" in job]
    if not known:
        return None
    rows = [_row(run, job) for run, job in known]
    return Printed(
        HEADS, [_cells(row) for row in rows], pl.DataFrame(rows, schema=SCHEMA), [NOTE, *map(sentence, known)], names=2
    )


def sentence(of: tuple[Run, dict[str, Any]]) -> str:
    """What the steps of a job waited for, all of them together."""
    run, job = of
    count = len([each for each in run.summary["training"]["iterations"] if each["job"] == job["job"]])
    return f"{run.label}, {job['name']}: {waited_for(job.get('waited_for'), f'its {count} steps' if count > 1 else 'its step')}"


def waited_for(found: dict[str, Any] | None, what: str = "it") -> str:
    """What a step, or several, waited for, in words."""
    if found is None:
        return "what delayed it is not known"
    if found["late_ns"] <= 0:
        return f"no message that {what} waited for was later than alone in the empty network"
    late = f"the messages that {what} waited for were late by {_short(found['late_ns'])}"
    ends = f"those from rank {found['src']} to {found['dst']} ({found['messages']}) by {_short(found['pair_late_ns'])}"
    parts = [f"{late}, {ends}"]
    behind, paused = found["pair_behind_ns"], found["pair_paused_ns"]
    parts += [f"{_short(behind)} of it behind earlier ones of their connection"] * (behind > 0)
    parts += [f"their flows were paused at the sender for {_short(paused)}"] * (paused > 0)
    if found["port"] is not None:
        port = f"busiest port on their path: {found['port']}, sending {100 * found['utilization']:.2g} % of the run"
        longest = found["max_queue_bytes"]
        parts.append(port + f", longest queue {format_size(float(f'{longest:.3g}'))}" * (longest > 0))
    stopped = found["paused_port"]
    parts.append(f"port paused longest: {stopped}, {_short(found['paused_port_ns'])}" if stopped else "no port of it was paused")
    return "; ".join(parts)


def _short(ns: float) -> str:
    return format_time(round(float(f"{ns:.3g}") * 1000))


def steps(runs: Sequence[Run]) -> Table:
    """A row per run, job and step; `runs`: the number of its run."""
    made = Table(["run, job, step", "step time", "slowest rank", "longest pauses of a rank", "why"])
    for number, run in enumerate(runs):
        for row in (run.summary.get("training") or {}).get("iterations", []):
            last = "-" if row["slowest_rank"] is None else str(row["slowest_rank"])
            shown = [cells.time(row["step_ns"]), last, cells.time(row["max_paused_ns"]), waited_for(row.get("waited_for"))]
            made.rows.append([f"{run.label}, {name_of(run, row['job'])}, {row['iteration']}", *shown])
            made.runs.append(number)
    return made


def operations(runs: Sequence[Run]) -> Table:
    """A row per run, job, and kind and name of collective or message; `runs`: the number of its run."""
    made = Table(["run, job, operation", "times", "mean time", "bus bandwidth, median", "least"])
    for number, run in enumerate(runs):
        for row in (run.summary.get("training") or {}).get("operations", []):
            name = f"{row['kind'].replace('_', '-')} {row['name']}".rstrip()
            width = [cells.bandwidth(row[key]) for key in ("bus_bandwidth_bps", "min_bus_bandwidth_bps")]
            first = f"{run.label}, {name_of(run, row['job'])}, {name}"
            made.rows.append([first, f"{row['count']:,}", cells.time(row["time_ns"]), *width])
            made.runs.append(number)
    return made


def name_of(run: Run, job: int) -> str:
    """The name of a job."""
    named = {each["job"]: each.get("name") for each in (run.summary.get("training") or {}).get("jobs", [])}
    return named.get(job) or f"job {job}"


def _row(run: Run, job: dict[str, Any]) -> dict[str, Any]:
    ended = [each for each in run.summary["training"]["iterations"] if each["job"] == job["job"]]
    slowest = [each["slowest_rank"] for each in ended if each["slowest_rank"] is not None]
    most = max(sorted(set(slowest)), key=slowest.count, default=None)
    known = {name: job.get(name) for name in ("steps", "step_ns", "exposed_ns", "collective", "bus_bandwidth_bps")}
    return {"scheme": run.label, "job": job["name"], **known, "slowest_rank": most, "slowest_in": slowest.count(most)}


def _cells(row: dict[str, Any]) -> list[str]:
    return [
        row["scheme"],
        row["job"],
        f"{row['steps']}",
        cells.time(row["step_ns"]),
        cells.time(row["exposed_ns"]),
        (row["collective"] or "-").replace("_", "-"),
        cells.bandwidth(row["bus_bandwidth_bps"]),
        "-" if row["slowest_rank"] is None else f"{row['slowest_rank']} (in {row['slowest_in']} of {row['steps']})",
    ]
