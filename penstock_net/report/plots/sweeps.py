"""Figures of a sweep: means over the seeds with 95 % intervals, as bands or error bars."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from penstock_net.errors import SpecError
from penstock_net.report.plots.canvas import active, canvas, draw_bars, draw_lines, legend, looks_of, window_text
from penstock_net.report.plots.flows import flow_caption, slowdown_axes
from penstock_net.report.plots.select import Class, FlowFilter
from penstock_net.results.run import Run
from penstock_net.results.sweep import SCHEME, Sweep
from penstock_net.units import format_size

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BAND = "band: 95 % interval of the mean over the seeds"
BARS = "bars: 95 % interval of the mean over the seeds"
LABELS = {  # of a statistic as an axis; the factor is from its value to the label's unit
    "max_buffer_bytes": ("Largest buffer (MB)", 1e-6),
    "pfc_pause_fraction": ("Port time paused by PFC (%)", 100.0),
    "drain_ns": ("Drain (ms)", 1e-6),
    "drops": ("Packets dropped", 1.0),
    "flows": ("Flows finished", 1.0),
    "unfinished": ("Flows not finished", 1.0),
}


def slowdown_of_sweep(
    sweep: Sweep,
    *,
    percentile: float = 99,
    statistic: Any = "percentile",
    class_: Class = "background",
    priority: int | str | None = None,
    size: str | None = None,
    bins: Any = None,
    clock: Any = "receiver",
) -> "Figure":
    """FCT slowdown against flow size, a curve per scheme and parameters: the mean over the seeds, with a band.

    The arguments are those of `slowdown`.  SpecError: the same, or a sweep without runs.
    """
    chosen = FlowFilter(class_, priority, size)
    runs: list[Run] = []

    def choose(run: Run) -> Run:
        a_flow_per_class = run.flows.unique("class")
        runs.append(Run(a_flow_per_class, run.samples.rows.clear(), run.ports.clear(), summary=run.summary))
        return chosen.apply(run)

    table = sweep.slowdown_of(choose, percentile, bins=bins, statistic=statistic, clock=clock)
    lines = lines_of(sweep)
    with active():
        figure, (axes,) = canvas(caption=flow_caption(chosen, runs, window_text(runs), BAND * sweep.has_intervals))
        looks = looks_of([str(values[SCHEME]) for _, values in lines])
        for (label, _), look, part in zip(lines, looks, parts_of(table, lines)):
            if part.height:
                mean = part["mean"]
                draw_lines(axes, part["bytes"], mean, part["low"].fill_null(mean), part["high"].fill_null(mean), look, label)
        slowdown_axes(axes, percentile, statistic, clock)
        legend(figure, axes)
    return figure


def against(*sweeps: Any, x: str | None = None, y: str = "short_p99") -> "Figure":
    """A statistic against a parameter of a sweep, a curve per scheme and other parameters, with error bars.

    x  the parameter, or the end of its name: "load" for workload.0.load; default: the one that varies
    y  a statistic of the comparison, such as short_p99, max_buffer_bytes, pfc_pause_fraction
    SpecError: not one sweep, no such parameter or statistic.
    """
    if len(sweeps) != 1 or not isinstance(sweeps[0], Sweep):
        raise SpecError("draws one sweep", path="against", remedy="give the --out folder of penstock sweep")
    (sweep,) = sweeps
    parameter = parameter_of(sweep, x)
    table = sweep.over_seeds(y)
    lines = lines_of(sweep, without=parameter)
    text, factor = axis_of(y)
    places = {value: i for i, value in enumerate(table[parameter].unique(maintain_order=True))}
    numeric = table[parameter].dtype.is_numeric()
    with active():
        figure, (axes,) = canvas(caption=BARS * sweep.has_intervals)
        looks = looks_of([str(values[SCHEME]) for _, values in lines])
        for (label, _), look, found in zip(lines, looks, parts_of(table, lines)):
            part = found.drop_nulls("mean")
            part = part.sort(parameter) if numeric else part
            mean, low, high = (factor * part[name].fill_null(part["mean"]) for name in ("mean", "low", "high"))
            at = part[parameter] if numeric else [places[value] for value in part[parameter]]
            draw_bars(axes, at, mean.to_numpy(), low.to_numpy(), high.to_numpy(), look, label)
        axes.set(xlabel=parameter, ylabel=text)
        axes.set_ylim(bottom=0)
        if not numeric:
            axes.set_xticks(list(places.values()), [str(value) for value in places])
        if parameter.endswith("bytes") and numeric:
            axes.xaxis.set_major_formatter(lambda value, _: format_size(value, " "))
        legend(figure, axes)
    return figure


def axis_of(statistic: str) -> tuple[str, float]:
    """Its label as an axis, and the factor from its value to the label's unit."""
    return LABELS.get(statistic, (f"FCT slowdown ({statistic.replace('_', ' ')})", 1.0))


def parameter_of(sweep: Sweep, name: str | None) -> str:
    """The parameter of a sweep of this name, or whose name ends so; None: the only one."""
    known = sweep.parameters
    if not known:
        raise SpecError("the sweep varies schemes and seeds only", path="x", remedy="penstock plot slowdown draws it")
    if name is None and len(known) > 1:
        raise SpecError("which parameter?", path="x", value="", remedy=f"give --x {' or '.join(known)}")
    return known[0] if name is None else sweep.parameter(name)


def lines_of(sweep: Sweep, without: str = "") -> list[tuple[str, dict[str, Any]]]:
    """(label, values of the parameters and scheme) of every curve, in the order of the runs."""
    keys = [*(name for name in sweep.parameters if name != without), SCHEME]
    varied = [name for name in keys[:-1] if sweep.runs[name].n_unique() > 1]
    return [
        (", ".join([str(row[SCHEME]), *(f"{name.split('.')[-1]} {row[name]}" for name in varied)]), row)
        for row in sweep.runs.select(keys).unique(maintain_order=True).iter_rows(named=True)
    ]


def parts_of(table: pl.DataFrame, lines: Sequence[tuple[str, dict[str, Any]]]) -> list[pl.DataFrame]:
    """The rows of a table that belong to each of the curves of `lines_of`."""
    parts = table.partition_by(list(lines[0][1]), maintain_order=True, as_dict=True)
    return [parts.get(tuple(values.values()), table.clear()) for _, values in lines]
