"""Figures of the samples of switches: buffer, longest queue, active flows."""

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from penstock_net.errors import SpecError, nearest
from penstock_net.report.plots.canvas import (
    GREY,
    POINTS,
    active,
    at_least_one,
    canvas,
    cdf,
    draw_cdf,
    draw_lines,
    legend,
    over_time,
    panels_over_time,
    styles,
    time_caption,
    window_text,
)
from penstock_net.report.plots.select import need, samples_of, switch_of
from penstock_net.results.chosen import names, span_ns
from penstock_net.results.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = {  # label, values per unit of the axis
    "buffer_bytes": ("Buffer in use (MB)", 1e6),
    "max_queue_bytes": ("Longest queue (MB)", 1e6),
    "active_flows": ("Active flows at a port", 1),
}


def buffer_cdf(*runs: Run) -> "Figure":
    """CDF of the buffer in use (MB) over the samples of all switches.  SpecError: a run has no samples."""
    at_least_one(runs)
    with active():
        figure, (axes,) = canvas(caption=window_text(runs))
        top = 0.0
        for nth, (run, look) in enumerate(zip(runs, styles(runs))):
            samples_of(run, "buffer_cdf")
            found = run.window_samples.distribution("buffer_bytes")
            need(run, "buffer_cdf", len(found), "samples in its measurement window")
            x, y = cdf(found.in_units(1e6))
            top = max(top, float(x[-1]))
            draw_cdf(axes, x, y, look, nth, run.label)
        axes.set(xlabel="Buffer in use at a switch (MB)", xlim=(0, top * 1.03 or 1))
        legend(figure, axes)
    return figure


def timeseries(*runs: Run, column: str = "buffer_bytes", switch: str | int | None = None, time: str | None = None) -> "Figure":
    """Buffer (MB), longest queue (MB) or active flows over time (ms): of one switch, or the largest of all.

    switch  name or number;  time: "0.2ms..1ms", a part of the time
    SpecError: unknown column, no such switch, a run without samples, or whose scheme counts no active flows.
    """
    from matplotlib.ticker import MaxNLocator

    at_least_one(runs)
    if column not in COLUMNS:
        raise SpecError("cannot be drawn over time", path="column", value=column, remedy=nearest(column, COLUMNS))
    label, unit = COLUMNS[column]
    start, end = span_ns(time, runs)
    without = _counting(runs)[1] if column == "active_flows" else []
    with active():
        figure, (axes,) = canvas(caption=_caption(without, time_caption(runs, start, end)))
        top = 0.0
        for run, look in zip(runs, styles(runs)):
            samples = samples_of(run, "timeseries")
            if any(run is other for other in without):
                continue
            if switch is not None:
                samples = samples.of(switch_of(run, switch))
            series = samples.between(start, end).largest(column)
            step = max(1, -(-series.height // POINTS))
            series = series.group_by(pl.int_range(pl.len()) // step, maintain_order=True).agg(
                pl.col("time_ns").first(), pl.col(column).max()
            )
            y = series[column].to_numpy() / unit
            top = max([top, *y])
            draw_lines(axes, series["time_ns"].to_numpy() / 1e6, y, look=over_time(look), label=run.label)
        where = (
            "largest of all switches" if switch is None else names(runs[0]).get(switch_of(runs[0], switch), f"switch {switch}")
        )
        panels_over_time(figure, [axes], runs, (start, end), f"{label},\n{where}", top)
        if unit == 1:
            axes.yaxis.set_major_locator(MaxNLocator("auto", integer=True))
        legend(figure, axes, least=1 if without else 2)
    return figure


def active_flows(*runs: Run) -> "Figure":
    """CDF of the number of active flows at a port over all samples; a dotted line marks the number of queues.

    Runs whose scheme counts none are named in the figure.  SpecError: no run counts them.
    """
    at_least_one(runs)
    counted, without = _counting(runs)
    with active():
        figure, (axes,) = canvas(caption=_caption(without, window_text(runs)))
        top = 1.0
        for nth, (run, look) in enumerate(zip(runs, styles(runs))):
            if any(run is other for other in without):
                continue
            x, y = _distribution(run)
            top = max(top, float(x[-1]))
            draw_cdf(axes, x, y, look, nth, run.label)
        axes.set(xlabel="Active flows at a port", xlim=(0, None))
        _queues(axes, counted, top)
        legend(figure, axes, least=1 if without else 2)
    return figure


def _counting(runs: tuple[Run, ...]) -> tuple[list[Run], list[Run]]:
    """The runs whose scheme counts active flows, and the others.  SpecError: there are no samples, or all are others."""
    counted: list[Run] = []
    without: list[Run] = []
    for run in runs:
        if "active_flows" not in run.frames:
            samples_of(run, "active_flows")
        most = run.samples.distribution("active_flows").values.max(initial=-1)
        (counted if "active_flows" in run.frames or most >= 0 else without).append(run)
    if not counted:
        schemes = ", ".join(dict.fromkeys(run.scheme for run in runs))
        raise SpecError(
            f"active flows are not counted by {schemes}", remedy="schemes with a queue per flow do, such as bfc and ideal_fq"
        )
    return counted, without


def _distribution(run: Run) -> tuple[np.ndarray, np.ndarray]:
    """The CDF of active flows over all ports, or over the switches' largest where ports were not counted."""
    if "active_flows" not in run.frames:
        return cdf(run.window_samples.distribution("active_flows"))
    counts = run.frames["active_flows"].group_by("active_flows").agg(pl.col("samples").sum()).sort("active_flows")
    need(run, "active_flows", counts["samples"].sum(), "counts of active flows")
    share = counts["samples"].cum_sum().to_numpy() / counts["samples"].sum()
    return np.append(0, counts["active_flows"].to_numpy()), np.append(0.0, share)


def _queues(axes: "Axes", runs: list[Run], top: float) -> None:
    numbers = {
        value
        for run in runs
        for key, value in (run.summary.get("scheme_parameters") or {}).items()
        if key.split(".")[-1] == "queues" and isinstance(value, int)
    }
    for number in sorted(q for q in numbers if 0 < q <= 2 * top):
        axes.axvline(number, color=GREY, linewidth=0.9, linestyle=(0, (1, 2)))
        axes.annotate(
            f"{number} queues",
            (number, 0.4),
            rotation=90,
            fontsize=7,
            color=GREY,
            ha="right",
            va="center",
            xytext=(-1, 0),
            textcoords="offset points",
        )


def _caption(without: list[Run], window: str) -> str:
    return f"not counted by {', '.join(run.label for run in without)}; {window}" if without else window
