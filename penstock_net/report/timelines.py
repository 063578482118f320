"""A figure of the report page: what each rank of a run computes and communicates over time, with the names of operations."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from penstock_net.report.figures import Figure, Table, short
from penstock_net.report.jobs import name_of
from penstock_net.report.plots.ranks import COMPUTED, SENT, rows_of
from penstock_net.results.run import Run

MOST = 12_000  # operations of ranks in a figure: of more, the first steps are shown
RANKS = 64


def timelines(runs: Sequence[Run]) -> list[Figure]:
    """A figure for each run with ranks."""
    return [_timeline(runs, number) for number, run in enumerate(runs) if "timeline" in run.frames]


def _timeline(runs: Sequence[Run], number: int) -> Figure:
    run = runs[number]
    table = rows_of(run, RANKS).filter(pl.col("finish_ns") > pl.col("start_ns"))
    missing = []
    if table.height > MOST:
        upto = table.sort("finish_ns")["finish_ns"][MOST - 1]
        table = table.filter(pl.col("finish_ns") <= upto)
        missing.append(f"The first {MOST:,} operations; penstock plot rank_timeline --time 2ms..3ms draws other times.")
    places = table.select("place", "job", "rank").unique().sort("place")
    several = places["job"].n_unique() > 1
    every = max(1, -(-places.height // 24))
    labels = [f"{name_of(run, job)} {rank}" if several else str(rank) for job, rank in places.select("job", "rank").iter_rows()]
    curve: dict[str, list[Any]] = {
        "spans": [_spans(part, what, colour) for what, colour in (COMPUTED | SENT).items() if (part := _of(table, what)).height],
        "ticks": [places["place"].to_list()[::every], labels[::every]],
        "height": [140 + 16 * places.height],
    }
    caption = "What each rank computes and communicates" + (f": {run.label}" if len(runs) > 1 else "")
    variants = [curve if other == number else None for other in range(len(runs))]
    return Figure(f"timeline{number}", caption, "Time (ms)", "Rank", "spans", {"|": variants}, _shares(run, number), missing)


def _of(table: pl.DataFrame, what: str) -> pl.DataFrame:
    return table.filter(pl.col("what") == what)


def _spans(part: pl.DataFrame, what: str, colour: str) -> dict[str, Any]:
    """Bars of one kind: where they begin and how long they are (ms), the row of their rank, and their names."""
    above = -0.22 if what in COMPUTED else 0.22
    names = [f"{name or kind}".replace("_", "-") for name, kind in part.select("name", "kind").iter_rows()]
    return {
        "name": what.replace("_", "-"),
        "colour": colour,
        "base": short(part["start_ns"] / 1e6),
        "x": short((part["finish_ns"] - part["start_ns"]) / 1e6),
        "y": [place + above for place in part["place"]],
        "text": names,
    }


def _shares(run: Run, number: int) -> Table:
    """By rank: the time of its steps, computation, exposed communication and pauses, mean over the steps."""
    ranks = run.frame("ranks")
    columns = ["step_ns", "compute_ns", "exposed_ns", "paused_ns"]
    means = ranks.group_by("job", "rank", maintain_order=True).agg(pl.col(columns).mean()).sort("job", "rank")
    made = Table(["run, job, rank", "step (ms)", "computes", "exposed communication", "paused"])
    for row in means.head(RANKS).iter_rows(named=True):
        values = ["-" if row[name] is None else f"{row[name] / 1e6:.4g}" for name in columns]
        made.rows.append([f"{run.label}, {name_of(run, row['job'])}, {row['rank']}", *values])
        made.runs.append(number)
    return made
