"""The figures of the report page: their data for the page's script, and a table of each for readers without it.

A figure has variants: a set of curves, one per run, for each choice of class and statistic that it depends on.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import polars as pl

from penstock_net.errors import SpecError
from penstock_net.report.plots import canvas
from penstock_net.results.distribution import Distribution
from penstock_net.results.run import Run
from penstock_net.results.samples import Samples
from penstock_net.units import format_size

STATISTICS = {
    "p50": "median",
    "p90": "90th pct.",
    "p95": "95th pct.",
    "p99": "99th pct.",
    "p99.9": "99.9th pct.",
    "mean": "mean",
    "max": "worst",
}
SHARES = (10, 50, 90, 99)  # percentiles of the tables of distributions
POINTS = 800  # of a curve over time, at most
BACKGROUND, ALL = "background", "all"
Curve = dict[str, list[Any]]


@dataclass
class Table:
    """Headings and rows of text; the first cell of a row is its heading. runs: the number of each row's run."""

    heads: list[str]
    rows: list[list[str]] = field(default_factory=list)
    runs: list[int] = field(default_factory=list)


@dataclass
class Figure:
    """A figure of the page.

    variants  curves of the runs, x and y of equal length (None: this run has none), by "class|statistic"; "" stands for a
              choice that the figure does not depend on
    missing   why a run has no curve
    table     what it shows, as numbers
    """

    name: str
    caption: str
    x: str
    y: str
    kind: Literal["points", "steps", "line", "bars", "spans"]
    variants: dict[str, list[Curve | None]]
    table: Table
    missing: list[str] = field(default_factory=list)
    log_x: bool = False
    log_y: bool = False
    bytes_x: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether no run has a curve."""
        return not any(curve for curves in self.variants.values() for curve in curves)

    def data(self) -> dict[str, Any]:
        """What the script needs, for JSON."""
        keys = ("name", "x", "y", "kind", "variants")
        return {key: getattr(self, key) for key in keys} | {"logX": self.log_x, "logY": self.log_y, "bytesX": self.bytes_x}


def classes(runs: Sequence[Run]) -> dict[str, str]:
    """The choices of flows: a key of the variants, and what it means."""
    known = sorted({name for run in runs for name in run.classes})
    chosen = {BACKGROUND: "without incast"} if any(run.background() for run in runs) else {}
    return chosen | {ALL: "all flows"} | {f"={name}": f"only {name}" for name in known if len(known) > 1}


def figures(runs: Sequence[Run], clock: str) -> list[Figure]:
    """Every figure of the page.  SpecError: a run has no times by this clock."""
    return [
        _slowdown(runs, clock),
        _slowdown_cdf(runs, clock),
        _distribution(
            runs,
            "buffer",
            "Buffer in use, all samples of all switches",
            "Buffer in use at a switch (MB)",
            lambda found: found.distribution("buffer_bytes").in_units(1e6),
        ),
        _over_time(runs),
        _distribution(
            runs,
            "active",
            "Active flows at the switch port that has most of them, all samples",
            "Active flows at a port",
            lambda found: _counted(found.distribution("active_flows")),
        ),
        _pause_time(runs),
    ]


def chosen(run: Run, choice: str, clock: str) -> pl.DataFrame:
    """The flows of a choice of `classes`; a run without that class has none."""
    flows = run.by_clock(run.selected(), clock)
    if choice == ALL:
        return flows
    wanted = run.background() if choice == BACKGROUND else [choice[1:]]
    return flows if wanted is None else flows.filter(pl.col("class").cast(pl.String).is_in(wanted))


def _slowdown(runs: Sequence[Run], clock: str) -> Figure:
    choices = classes(runs)
    variants: dict[str, list[Curve | None]] = {f"{choice}|{name}": [] for choice in choices for name in STATISTICS}
    table = Table(["run, flow size", "flows", "not done", *STATISTICS.values()])
    for number, run in enumerate(runs):
        for choice in choices:
            rows = binned(run, choice, clock)
            finished = rows.filter(pl.col("flows") > 0)
            for name in STATISTICS:
                variants[f"{choice}|{name}"].append(
                    {"x": short(finished["bytes"]), "y": short(finished[name]), "n": finished["flows"].to_list()}
                    if finished.height
                    else None
                )
            if choice == next(iter(choices)):
                table.rows += [_row(run, row) for row in rows.iter_rows(named=True)]
                table.runs += [number] * rows.height
    caption = "FCT slowdown by flow size" + ", by the sender's clock" * (clock == "sender")
    return Figure(
        "slowdown", caption, "Flow size", "FCT slowdown", "points", variants, table, log_x=True, log_y=True, bytes_x=True
    )


def binned(run: Run, choice: str, clock: Any) -> pl.DataFrame:
    """Run.slowdown of a choice with every statistic as a column; no rows if the run has no such flows."""
    wanted = {BACKGROUND: run.background(), ALL: None}.get(choice, [choice[1:]])
    if wanted and not set(wanted) <= set(run.classes):
        wanted, run = None, run.changed(flows=run.flows.clear())
    options: dict[str, Any] = {"class_": wanted, "clock": clock}
    table = run.slowdown([float(name[1:]) for name in STATISTICS if name[0] == "p"], **options)
    mean = run.slowdown(statistic="mean", **options)["slowdown"].alias("mean")
    return table.with_columns(mean, run.slowdown(statistic="max", **options)["slowdown"].alias("max"))


def _row(run: Run, row: dict[str, Any]) -> list[str]:
    above, upto = row["above_bytes"], row["to_bytes"]
    size = f"more than {format_size(above)}" if upto is None else f"to {format_size(upto)}"
    return [f"{run.label}, {size}", f"{row['flows']:,}", f"{row['unfinished']:,}", *(_number(row[name]) for name in STATISTICS)]


def _slowdown_cdf(runs: Sequence[Run], clock: str) -> Figure:
    choices = classes(runs)
    variants: dict[str, list[Curve | None]] = {f"{choice}|": [] for choice in choices}
    table = _percentiles()
    for number, run in enumerate(runs):
        for choice in choices:
            found = Distribution.of(chosen(run, choice, clock)["slowdown"].drop_nulls().to_numpy())
            variants[f"{choice}|"].append(_cdf(found) if len(found) else None)
            if choice == next(iter(choices)):
                _add(table, number, run, found)
    caption = "Distribution of the FCT slowdown"
    return Figure("slowdown_cdf", caption, "FCT slowdown", "Share of flows", "steps", variants, table, log_x=True)


def _distribution(runs: Sequence[Run], name: str, caption: str, x: str, of: Callable[[Samples], Distribution]) -> Figure:
    curves: list[Curve | None] = []
    table, missing = _percentiles(), []
    for number, run in enumerate(runs):
        found = of(run.window_samples)
        if len(found):
            curves.append(_cdf(found))
            _add(table, number, run, found)
        else:
            curves.append(None)
            missing.append(f"{run.label}: its scheme counts no active flows" if run.samples.height else _no_samples(run))
    return Figure(name, caption, x, "Share of samples", "steps", {"|": curves}, table, missing)


def _over_time(runs: Sequence[Run]) -> Figure:
    curves: list[Curve | None] = []
    parts = 10
    end = max([1.0, *(float(run.samples.times.max() or 0) for run in runs)])  # type: ignore[arg-type]
    edges = np.linspace(0, end, parts + 1)
    table, missing = Table(["run, largest in", *(f"to {_number(edge / 1e6)} ms" for edge in edges[1:])]), []
    for number, run in enumerate(runs):
        if not run.samples.height:
            curves.append(None)
            missing.append(_no_samples(run))
            continue
        series = run.samples.largest("buffer_bytes")
        part = np.clip(np.searchsorted(edges, series["time_ns"].to_numpy(), side="left") - 1, 0, parts - 1)
        largest = dict(series.group_by(pl.Series(part)).agg(pl.col("buffer_bytes").max()).iter_rows())
        table.rows.append([run.label, *(_size(largest.get(i)) for i in range(parts))])
        table.runs.append(number)
        step = -(-series.height // POINTS)
        thin = series.group_by(pl.int_range(pl.len()) // step, maintain_order=True).agg(
            pl.col("time_ns").first(), pl.col("buffer_bytes").max()
        )
        curves.append({"x": short(thin["time_ns"] / 1e6), "y": short(thin["buffer_bytes"] / 1e6)})
    caption = "Buffer of the fullest switch over time, the drain included"
    return Figure("buffer_time", caption, "Time (ms)", "Fullest switch (MB)", "line", {"|": curves}, table, missing)


def _pause_time(runs: Sequence[Run]) -> Figure:
    shares = [100 * float(run.summary.get("pfc_pause_fraction") or 0) for run in runs]
    curves: list[Curve | None] = [{"x": [round(share, 4)], "y": [run.label]} for share, run in zip(shares, runs)]
    rows = [[run.label, f"{share:.3g} %"] for share, run in zip(shares, runs)]
    table = Table(["run", "paused"], rows, list(range(len(runs))))
    caption = "Share of port time for which ports were paused by PFC"
    return Figure("pause_time", caption, "Port time paused by PFC (%)", "", "bars", {"|": curves}, table)


# -- details


def _percentiles() -> Table:
    return Table(["run", "mean", *(f"p{share}" for share in SHARES), "largest"])


def _counted(found: Distribution) -> Distribution:
    """Without the switches whose flows are not counted."""
    kept = found.values >= 0
    return Distribution(found.values[kept], found.counts[kept])


def _add(table: Table, number: int, run: Run, found: Distribution) -> None:
    if len(found):
        numbers = [found.mean(), *found.percentiles(SHARES), found.values[-1]]
        table.rows.append([run.label, *map(_number, numbers)])
        table.runs.append(number)


def _cdf(found: Distribution) -> Curve:
    x, y = canvas.cdf(found)
    return {"x": short(x), "y": short(y)}


def short(values: Any) -> list[float]:
    """Rounded to five digits: what a screen can show, and half the size."""
    return [float(f"{value:.5g}") for value in values]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def _size(value: int | None) -> str:
    return "-" if value is None else format_size(float(f"{value:.3g}"))


def _no_samples(run: Run) -> str:
    return str(
        SpecError(f'run "{run.label}": has no samples of its switches', remedy="run it again with --set measure.sample=2us")
    )
