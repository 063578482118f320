"""Figures of a sweep: means over the seeds with 95 % intervals, as bands or error bars."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from penstock_net.errors import SpecError
from penstock_net.palette import DASHES, OTHERS
from penstock_net.report.plots.canvas import Look, active, canvas, draw_bars, draw_lines, legend_of, looks_of, window_text
from penstock_net.report.plots.flows import (
    finished_sizes,
    flow_caption,
    ordinal,
    place_of,
    shares_of,
    slowdown_axes,
    slowdown_of_runs,
)
from penstock_net.report.plots.select import Class, FlowFilter
from penstock_net.report.plots.style import current
from penstock_net.results.cells import OF_JOB, of_job, words
from penstock_net.results.limits import FIXED, Limits
from penstock_net.results.run import Run
from penstock_net.results.statistic import Statistic
from penstock_net.results.sweep import SCHEME, Sweep
from penstock_net.units import format_size

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BAND, BARS = "band", "bars"
INTERVAL = "95 % interval of the mean over the seeds"
PARAMETER = "#555555"  # of the lines that stand for a parameter in a legend
APART = 0.012  # of the width of a figure: between bars at the same place
MOST_BANDS = 8  # in a figure; of more curves nobody can tell bands apart
LONGEST = 34  # letters of the title of an axis in one line
LABELS = {  # of a statistic as an axis; the factor is from its value to the label's unit
    "short_p50": ("FCT slowdown, short flows (50th pct.)", 1.0),
    "short_p99": ("FCT slowdown, short flows (99th pct.)", 1.0),
    "long_p50": ("FCT slowdown, long flows (50th pct.)", 1.0),
    "long_p99": ("FCT slowdown, long flows (99th pct.)", 1.0),
    "all_p99": ("FCT slowdown, all sizes (99th pct.)", 1.0),
    "incast_p99": ("FCT slowdown, incast (99th pct.)", 1.0),
    "max_buffer_bytes": ("Largest buffer (MB)", 1e-6),
    "pfc_pause_fraction": ("Port time paused by PFC (%)", 100.0),
    "drain_ns": ("Drain (ms)", 1e-6),
    "drops": ("Packets dropped", 1.0),
    "flows": ("Flows finished", 1.0),
    "unfinished": ("Flows not finished", 1.0),
}


def slowdown(
    *runs: Run | Sweep,
    percentile: float = 99,
    statistic: Any = "percentile",
    class_: Class = "background",
    priority: int | str | None = None,
    size: str | None = None,
    bins: Any = None,
    clock: Any = "receiver",
) -> "Figure":
    """FCT slowdown against flow size, both axes logarithmic, of runs or of one sweep, with 95 % intervals over its seeds.

    percentile, statistic, clock    those of Run.slowdown
    bins                            as there; a number: bins with equal shares of the flows, at equal distances
    class_, priority, size          as in FlowFilter; incast flows are left out by default
    A sweep has a curve per scheme and parameters: colour and marker are those of the scheme, dashes those of the parameters.
    SpecError: no such class, statistic, bins or clock, or no such flows; a sweep and something else.
    """
    options: dict[str, Any] = {"percentile": percentile, "statistic": statistic, "class_": class_, "priority": priority}
    options |= {"size": size, "bins": bins, "clock": clock}
    if len(runs) == 1 and isinstance(runs[0], Sweep):
        return slowdown_of_sweep(runs[0], **options)
    return slowdown_of_runs(*runs, **options)  # type: ignore[arg-type]


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
    """The figure of `slowdown` of a sweep."""
    chosen = FlowFilter(class_, priority, size)
    runs: list[Run] = []

    def choose(run: Run) -> Run:
        a_flow_per_class = run.flows.unique("class")
        runs.append(Run(a_flow_per_class, run.samples.rows.clear(), run.ports.clear(), summary=run.summary))
        return chosen.apply(run)

    bounds = shares_of([finished_sizes(chosen.apply(run)) for _, run in sweep] if isinstance(bins, int) else [], bins)
    table = sweep.slowdown_of(choose, percentile, bins=bounds or bins, statistic=statistic, clock=clock)
    lines = lines_of(sweep)
    parts = parts_of(table, lines)
    single = all(part.height < 2 for part in parts)
    band = f"{'bar' if single else BAND}: {INTERVAL}" * sweep.has_intervals
    few = len(lines) <= MOST_BANDS or single
    if band and not few:
        band = f"{len(lines)} curves, means over the seeds, without intervals"
    with active():
        figure, (axes,) = canvas(caption=flow_caption(chosen, runs, window_text(runs), band))
        for nth, ((label, _), look, part) in enumerate(zip(lines, looks_of_lines(sweep, lines), parts)):
            if part.height:
                mean = part["mean"]
                least = mean.clip(upper_bound=1)  # the smallest slowdown there is
                low, high = part["low"].fill_null(mean).clip(lower_bound=least), part["high"].fill_null(mean)
                at = place_of(part, bounds)
                if single and not bounds:
                    at = at * (1 + 4 * APART) ** (nth - (len(lines) - 1) / 2)
                draw_lines(axes, at, mean, low if few else None, high if few else None, look, label)
        slowdown_axes(axes, percentile, statistic, clock, bounds)
        if single and not bounds:
            sizes = sorted({float(part["bytes"][0]) for part in parts if part.height})
            axes.set_xticks(sizes, [format_size(float(f"{size:.3g}"), " ") for size in sizes])
            axes.set_xticks([], minor=True)
        legend_of_lines(figure, sweep, lines)
    return figure


def against(*sweeps: Any, x: str | None = None, y: str | Statistic = "short_p99") -> "Figure":
    """A statistic against a parameter of a sweep, a curve per scheme and other parameters, with error bars.

    x  the parameter, or the end of its name: "load" for workload.0.load; default: the one that varies
    y  a statistic: of the comparison, such as short_p99 or max_buffer_bytes; any other as in `Sweep.with_statistics`, such as
       "p99.9 slowdown of flows < 10KB"
    SpecError: not one sweep, no such parameter or statistic.
    """
    if len(sweeps) != 1 or not isinstance(sweeps[0], Sweep):
        raise SpecError("draws one sweep", path="against", remedy="give the --out folder of penstock sweep")
    (sweep,) = sweeps
    parameter = parameter_of(sweep, x)
    table = sweep.over_seeds(y)
    lines = lines_of(sweep, without=parameter)
    statistic = table["statistic"][0]
    text, factor = axis_of(statistic, sweep.limits)
    notes = [f"{BARS}: {INTERVAL}"] * sweep.has_intervals + sweep.what_is_short([statistic])
    places = {value: i for i, value in enumerate(table[parameter].unique(maintain_order=True))}
    numeric = table[parameter].dtype.is_numeric()
    values = [float(value) for value in places] if numeric else [float(place) for place in places.values()]
    apart = APART * (max(values) - min(values))
    with active():
        figure, (axes,) = canvas(caption="; ".join(notes))
        for nth, ((label, _), look, found) in enumerate(
            zip(lines, looks_of_lines(sweep, lines, parameter), parts_of(table, lines))
        ):
            part = found.drop_nulls("mean")
            part = part.sort(parameter) if numeric else part
            mean, low, high = (factor * part[name].fill_null(part["mean"]) for name in ("mean", "low", "high"))
            at = np.array([value if numeric else places[value] for value in part[parameter]], dtype=float)
            at += (nth - (len(lines) - 1) / 2) * apart
            draw_bars(axes, at, mean.to_numpy(), low.to_numpy(), high.to_numpy(), look, label)
        axes.set(xlabel=words(parameter, sweep.parameters), ylabel=upright(text))
        axes.set_ylim(bottom=0)
        if not numeric:
            axes.set_xticks(list(places.values()), [str(value) for value in places])
        elif len(places) <= 8:
            axes.set_xticks(values)
        if parameter.endswith("bytes") and numeric:
            axes.xaxis.set_major_formatter(lambda value, _: format_size(value, " "))
        elif numeric:
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        legend_of_lines(figure, sweep, lines, parameter)
    return figure


def upright(text: str) -> str:
    """The title of a y axis, on two lines if one is longer than the axis."""
    return text if len(text) <= LONGEST else text.replace(" (", "\n(")


def axis_of(statistic: str, limits: Limits = FIXED) -> tuple[str, float]:
    """Its label as an axis, and the factor from its value to the label's unit; limits: of short and long flows."""
    if statistic in LABELS:
        text, factor = LABELS[statistic]
        part = statistic.partition("_p")[0]
        third = part in ("short", "long") and getattr(limits, part) != getattr(FIXED, part)
        which = "smallest" if part == "short" else "largest"
        return (text.replace(f"{part} flows", f"{which} third of flows") if third else text), factor
    if found := of_job(statistic):
        _, text, factor = OF_JOB[found[0]]
        return text.format(f" of {found[1]}"), factor
    if " " not in statistic:
        return statistic.replace("_", " ").capitalize(), 1.0
    parsed = Statistic.parse(statistic)
    of_share = f"{ordinal(parsed.percentile)} pct."
    how = of_share if parsed.statistic == "percentile" else {"max": "worst"}.get(parsed.statistic, "mean")
    class_ = "" if parsed.class_ == "background" else f"{parsed.class_} ".replace("!", "not ")
    which = f", {class_}flows {parsed.size or ''}".rstrip() if class_ or parsed.size else ""
    what, factor = ("FCT slowdown", 1.0) if parsed.of == "slowdown" else ("FCT (us)", 1e-3)
    return f"{what}{which} ({how})", factor


def parameter_of(sweep: Sweep, name: str | None) -> str:
    """The parameter of a sweep of this name, or whose name ends so; None: the only one."""
    known = sweep.parameters
    if not known:
        raise SpecError("the sweep varies schemes and seeds only", path="x", remedy="penstock plot slowdown draws it")
    if name is None and len(known) > 1:
        raise SpecError("which parameter?", path="x", value="", remedy=f"give --x {' or '.join(known)}")
    return known[0] if name is None else sweep.parameter(name)


def lines_of(sweep: Sweep, without: str = "") -> list[tuple[str, dict[str, Any]]]:
    """(label, values of the parameters and scheme) of every curve, in the order of the style, then of the runs."""
    keys = [*(name for name in sweep.parameters if name != without), SCHEME]
    varied = varied_of(sweep, without)
    rows = sweep.runs.select(keys).unique(maintain_order=True).iter_rows(named=True)
    ordered = current().sorted(rows, lambda row: str(row[SCHEME]))
    return [(", ".join([str(row[SCHEME]), *_values(row, varied)]), row) for row in ordered]


def varied_of(sweep: Sweep, without: str = "") -> list[str]:
    """The parameters that have several values, but for one."""
    return [name for name in sweep.parameters if name != without and sweep.runs[name].n_unique() > 1]


def _values(row: dict[str, Any], varied: Sequence[str]) -> list[str]:
    return [f"{name.split('.')[-1]} {row[name]}" for name in varied]


def looks_of_lines(sweep: Sweep, lines: Sequence[tuple[str, dict[str, Any]]], without: str = "") -> list[Look]:
    """Colour and marker by scheme; dashes by the other parameters, if some vary, else by scheme within a family."""
    schemes = list(dict.fromkeys(str(values[SCHEME]) for _, values in lines))
    by_scheme = dict(zip(schemes, looks_of(schemes)))
    varied = varied_of(sweep, without)
    if not varied:
        return [by_scheme[str(values[SCHEME])] for _, values in lines]
    if len(schemes) > 1:
        _colours_apart(by_scheme)
    dashes = _dashes(lines, varied)
    return [by_scheme[str(values[SCHEME])] | {"linestyle": dashes[", ".join(_values(values, varied))]} for _, values in lines]


def _colours_apart(looks: dict[str, Look]) -> None:
    """Other colours for schemes of one family, as dashes do not tell them apart."""
    free = iter(OTHERS * len(looks))
    used: set[str] = set()
    for name, look in looks.items():
        looks[name] = look if look["color"] not in used else look | {"color": next(free)}
        used.add(looks[name]["color"])


def _dashes(lines: Sequence[tuple[str, dict[str, Any]]], varied: Sequence[str]) -> dict[str, Any]:
    """Dashes by the values of the parameters."""
    every = dict.fromkeys(", ".join(_values(values, varied)) for _, values in lines)
    return {text: DASHES[nth % len(DASHES)] for nth, text in enumerate(every)}


def legend_of_lines(figure: "Figure", sweep: Sweep, lines: Sequence[tuple[str, dict[str, Any]]], without: str = "") -> None:
    """A legend of the schemes, by colour and marker, then of the other parameters, by dashes; nothing if there is one curve."""
    from matplotlib.lines import Line2D

    if len(lines) < 2:
        return
    varied = varied_of(sweep, without)
    found: dict[str, Look] = {}
    for (_, values), look in zip(lines, looks_of_lines(sweep, lines, without)):
        found.setdefault(str(values[SCHEME]), look | ({"linestyle": "-"} if varied else {}))
    if len(found) == 1 and varied:
        found = {}
    plain = {"color": PARAMETER, "marker": None} if found else looks_of_lines(sweep, lines, without)[0]
    dashes = _dashes(lines, varied) if varied else {}
    found |= {text: plain | {"linestyle": dash} for text, dash in dashes.items()}
    legend_of(figure, [Line2D([], [], **look) for look in found.values()], list(found))


def parts_of(table: pl.DataFrame, lines: Sequence[tuple[str, dict[str, Any]]]) -> list[pl.DataFrame]:
    """The rows of a table that belong to each of the curves of `lines_of`."""
    parts = table.partition_by(list(lines[0][1]), maintain_order=True, as_dict=True)
    return [parts.get(tuple(values.values()), table.clear()) for _, values in lines]
