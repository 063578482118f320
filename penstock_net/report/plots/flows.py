"""Figures of flows: slowdown by size, CDF of the completion time, throughput over time."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from penstock_net.errors import SpecError
from penstock_net.inputs import one_of
from penstock_net.report.plots.canvas import (
    active,
    at_least_one,
    canvas,
    cdf,
    draw_cdf,
    draw_lines,
    legend,
    log_axis,
    over_time,
    panels_over_time,
    series_looks,
    styles,
    time_caption,
    window_text,
)
from penstock_net.report.plots.select import Class, FlowFilter, frame
from penstock_net.results.bins import equal_shares
from penstock_net.results.chosen import span_ns
from penstock_net.results.distribution import Distribution
from penstock_net.results.run import Run
from penstock_net.units import format_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LARGEST = 6  # flows that are drawn one by one, if none are named
BINS = 200  # of time, at most


def slowdown_of_runs(
    *runs: Run,
    percentile: float = 99,
    statistic: Any = "percentile",
    class_: Class = "background",
    priority: int | str | None = None,
    size: str | None = None,
    bins: Any = None,
    clock: Any = "receiver",
) -> "Figure":
    """The figure of `slowdown` of runs."""
    at_least_one(runs)
    chosen = FlowFilter(class_, priority, size)
    parts = [chosen.apply(run) for run in runs]
    bounds = shares_of([finished_sizes(run) for run in parts], bins)
    tables = [
        run.slowdown(percentile, bins=bounds or bins, statistic=statistic, clock=clock).drop_nulls("slowdown") for run in parts
    ]
    without = [run.label for run, table in zip(runs, tables) if not table.height]
    with active():
        missing = f"no finished flows: {', '.join(without)}" if without else ""
        figure, (axes,) = canvas(caption=flow_caption(chosen, runs, missing, window_text(runs)))
        for run, look, table in zip(runs, styles(runs), tables):
            draw_lines(axes, place_of(table, bounds), table["slowdown"], look=look, label=run.label)
        if len(without) == len(runs):
            axes.set(xlim=(100, 1e6), ylim=(1, 10))
        slowdown_axes(axes, percentile, statistic, clock, bounds)
        legend(figure, axes)
    return figure


def finished_sizes(run: Run) -> np.ndarray:
    """Sizes of the flows of the window that have finished, bytes."""
    return run.selected().drop_nulls("slowdown")["bytes"].to_numpy()


def shares_of(sizes: Sequence[np.ndarray], bins: Any) -> list[int]:
    """Bounds of so many bins with equal shares of all these flows; [] if `bins` is no number, or there is no flow."""
    if not isinstance(bins, int) or isinstance(bins, bool):
        return []
    every = np.concatenate([np.zeros(0, dtype=np.int64), *sizes])
    return equal_shares(every, bins) if len(every) else []


def place_of(table: pl.DataFrame, bounds: Sequence[int]) -> pl.Series:
    """Where bins are on the axis: at the median size, or, with equal shares of flows, one after another."""
    return table["to_bytes"].replace_strict(bounds, list(range(len(bounds)))) if bounds else table["bytes"]


def slowdown_axes(axes: "Axes", percentile: float, statistic: str, clock: str, bounds: Sequence[int] = ()) -> None:
    """Labels and logarithmic axes of slowdown against flow size; bounds: of bins with equal shares, at equal distances."""
    what = {"mean": "mean", "max": "worst"}.get(statistic, f"{ordinal(percentile)} pct.")
    axes.set(xlabel="Flow size", ylabel=f"FCT slowdown ({what}{', by the sender' * (clock == 'sender')})")
    if bounds:
        names = [format_size(float(f"{bound:.3g}")) for bound in bounds]
        turned: Any = {"rotation": 45, "ha": "right"} if len(bounds) > 6 else {}
        axes.set_xticks(range(len(bounds)), names, **turned)
        axes.set_xlabel(f"Flow size, up to;\neach bin has 1/{len(bounds)} of the flows")
    else:
        log_axis(axes.xaxis, lambda value, _: format_size(value, " "))
    axes.set_yscale("log")
    axes.set_ylim(bottom=min(1, axes.get_ylim()[0]))
    low, high = axes.get_ylim()
    log_axis(axes.yaxis, lambda value, _: f"{value:g}", (1, 2, 5) if high / low > 6 else (1, 1.5, 2, 3, 4, 5, 7))


def fct_cdf(*runs: Run, class_: Class = "background", priority: int | str | None = None, size: str | None = None) -> "Figure":
    """CDF of the completion time of the finished flows, logarithmic in time.

    class_, priority, size: as in FlowFilter; incast flows are left out by default.  SpecError: no such flows, or none finished.
    """
    at_least_one(runs)
    chosen = FlowFilter(class_, priority, size)
    with active():
        figure, (axes,) = canvas(caption=flow_caption(chosen, runs, window_text(runs)))
        for nth, (run, look) in enumerate(zip(runs, styles(runs))):
            times = chosen.apply(run).within("flows")["fct_ns"].drop_nulls().to_numpy()
            if not len(times):
                raise SpecError(
                    f'run "{run.label}": none of these flows has finished', remedy="choose others, or let the run drain"
                )
            x, y = cdf(Distribution.of(times / 1000))
            draw_cdf(axes, x, y, look, nth, run.label)
        low, high = axes.get_xlim()
        log_axis(axes.xaxis, _microseconds, (1,) if high / max(low, 1) > 100 else (1, 2, 5))
        axes.set(xlabel="Flow completion time")
        legend(figure, axes)
    return figure


def throughput(
    *runs: Run,
    by: Any = "run",
    flows: Sequence[int] | None = None,
    class_: Class = None,
    priority: int | str | None = None,
    size: str | None = None,
    time: str | None = None,
) -> "Figure":
    """Acknowledged payload per time, Gbit/s, of intervals of one sample or more.

    by                      "run": a curve per run; "class" or "flow": a panel per run, a curve per class or flow
    flows                   numbers of the flows to draw; None: the LARGEST
    class_, priority, size  as in FlowFilter; default: all flows
    time                    "0.2ms..1ms": a part of the time
    SpecError: a run without flow_series, or no such flows.
    """
    at_least_one(runs)
    one_of(by, "by", ("run", "class", "flow"))
    chosen = FlowFilter(class_, priority, size)
    start, end = span_ns(time, runs)
    apart = by != "run"
    runs_apart = len(runs) if apart else 1
    more = f"the {LARGEST} largest flows" if by == "flow" and flows is None else ""
    sample = max(_sample_ns(run) for run in runs)
    width = sample * max(1, math.ceil((end - start) / (BINS * sample)))
    edges = start + width * np.arange(int((end - start) // width) + 1)
    tables = [_rates(chosen.apply(run), by, flows, edges) for run in runs]
    every = list(dict.fromkeys(name for table in tables for name in table))
    looks = dict(zip(every, series_looks(len(every))))
    with active():
        caption = flow_caption(chosen, runs, more, time_caption(runs, start, end))
        figure, axes = canvas(runs_apart, height=0.8 + 1.3 * runs_apart, caption=caption)
        for i, (run, look, table) in enumerate(zip(runs, styles(runs), tables)):
            for name, rate in table.items():
                line, label = ({**looks[name], "linewidth": 1}, name) if apart else (over_time(look), run.label)
                draw_lines(axes[i if apart else 0], (edges[1:] + edges[:-1]) / 2e6, rate, look=line, label=label)
        top = max((float(rate.max()) for table in tables for rate in table.values()), default=0.0)
        panels_over_time(figure, axes, runs, (start, end), "Throughput (Gbit/s)", top)
        legend(figure, axes[0])
    return figure


def _rates(run: Run, by: str, wanted: Sequence[int] | None, edges: np.ndarray) -> dict[str, np.ndarray]:
    """Gbit/s acknowledged between edges (ns), by the names of the curves."""
    series = frame(run, "throughput", "flow_series").select("time_ns", "flow_id", "acked_bytes")
    flows = run.flows.filter(pl.col("start_ns").is_not_null())
    if by == "flow":
        numbers = flows.sort("bytes", descending=True)["flow_id"][:LARGEST].to_list() if wanted is None else list(wanted)
        for number in numbers:
            if number not in flows["flow_id"]:
                raise SpecError(f'run "{run.label}": has no such flow among those chosen', path="flow", value=number)
        flows = flows.filter(pl.col("flow_id").is_in(numbers))
    finish = pl.coalesce("acked_ns", "finish_ns")
    ends = flows.filter(finish.is_not_null()).select(time_ns=finish, flow_id="flow_id", acked_bytes="bytes")
    steps = (
        pl.concat([series.join(flows.select("flow_id"), on="flow_id", how="semi"), ends])
        .sort("flow_id", "time_ns")
        .with_columns(bytes=pl.col("acked_bytes") - pl.col("acked_bytes").shift(1, fill_value=0).over("flow_id"))
        .join(flows.select("flow_id", pl.col("class").cast(pl.String)), on="flow_id")
    )
    key = {"run": pl.lit("all"), "class": pl.col("class"), "flow": pl.format("flow {}", "flow_id")}[by]
    made = {}
    for (name,), part in steps.with_columns(curve=key).partition_by("curve", as_dict=True, maintain_order=True).items():
        times, amount = part["time_ns"].to_numpy(), part["bytes"].to_numpy().astype(float)
        made[str(name)] = np.histogram(times - 1e-3, edges, weights=amount)[0] * 8 / np.diff(edges)  # a sample ends its interval
    return made


def _sample_ns(run: Run) -> float:
    """The time between two samples of the flows."""
    times = frame(run, "throughput", "flow_series")["time_ns"].unique().sort()
    gap = times.diff().min()
    return float(gap) if gap else 2000.0  # type: ignore[arg-type]


def flow_caption(chosen: FlowFilter, runs: Sequence[Run], *more: str) -> str:
    return "; ".join(dict.fromkeys(part for part in (*(chosen.text(run) for run in runs), *more) if part))


def ordinal(percentile: float) -> str:
    """ "99th" of 99, "99.9th", "1st"."""
    whole = int(percentile) if percentile == int(percentile) and percentile not in (11, 12, 13) else 0
    suffix = {1: "st", 2: "nd", 3: "rd"}.get(whole % 10, "th")
    return f"{percentile:g}{suffix}"


def _microseconds(value: float, _: Any) -> str:
    return f"{value:g} us" if value < 1000 else f"{value / 1000:g} ms" if value < 1e6 else f"{value / 1e6:g} s"
