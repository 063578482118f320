"""Figures of runs at the width of a paper's column: vector-safe fonts, colours that colour-blind readers can distinguish.

Every function takes runs and returns a matplotlib Figure:

    slowdown(bfc, hpcc).savefig("fct.pdf")          save(buffer_cdf(bfc, hpcc), "buffer.pdf")

A scheme family has the same colour in every figure; a second run of the same family gets other dashes and markers.
"""

import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from penstock.errors import SpecError, nearest
from penstock.palette import COLUMN, FAMILIES, OTHERS, RC, family
from penstock.palette import look as look_of
from penstock.results.run import Run
from penstock.results.rundir import write_file
from penstock.units import format_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = FAMILIES
WIDTH, HEIGHT = COLUMN, 2.4  # inches
POINTS = 1000  # of a curve, at most


def styles(runs: tuple[Run, ...]) -> list[dict[str, Any]]:
    """Colour, dashes and marker per run: the colour by family, dashes and marker by run within a family."""
    others: list[str] = []
    seen: dict[str, int] = {}
    result = []
    for run in runs:
        name = family(run.scheme)
        if name not in COLOURS and name not in others:
            others.append(name)
        colour = COLOURS.get(name) or OTHERS[others.index(name) % len(OTHERS)]
        count = seen[colour] = seen.get(colour, -1) + 1
        result.append(look_of(run.scheme, count if name in COLOURS else len(seen) + count, colour))
    return result


def _figure(
    runs: tuple[Run, ...], draw: Callable[["Axes", list[dict[str, Any]]], None], *, legend: bool = True, height: float = HEIGHT
) -> "Figure":
    if not runs:
        raise SpecError("nothing to plot: give at least one run")
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(RC):
        columns = _legend_columns(runs)
        rows = -(-len(runs) // columns) if legend and len(runs) > 1 else 0
        figure = Figure(figsize=(WIDTH, height + 0.17 * rows), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots()
        draw(axes, styles(runs))
        if rows:
            handles, labels = axes.get_legend_handles_labels()
            figure.legend(
                handles,
                labels,
                loc="outside upper center",
                ncols=columns,
                handlelength=1.9,
                columnspacing=1.1,
                handletextpad=0.5,
                borderaxespad=0.2,
            )
    return figure


def _legend_columns(runs: tuple[Run, ...]) -> int:
    longest = max(len(run.label) for run in runs)
    return max(1, min(4, len(runs), 54 // (longest + 5)))


def slowdown(
    *runs: Run,
    percentile: float = 99,
    statistic: Any = "percentile",
    class_: Any = "background",
    bins: Any = None,
    clock: Any = "receiver",
) -> "Figure":
    """FCT slowdown against flow size, both axes logarithmic; the arguments are those of Run.slowdown.

    Incast flows are left out by default.  SpecError: no such class, statistic, bins or clock.
    """

    def draw(axes: "Axes", looks: list[dict[str, Any]]) -> None:
        for run, look in zip(runs, looks):
            chosen = run.background() if class_ == "background" else class_
            table = run.slowdown(percentile, class_=chosen, bins=bins, statistic=statistic, clock=clock).drop_nulls("slowdown")
            axes.plot(table["bytes"], table["slowdown"], label=run.label, **look)
        what = {"mean": "mean", "max": "worst"}.get(statistic, f"{_ordinal(percentile)} pct.")
        axes.set(xlabel="Flow size", ylabel=f"FCT slowdown ({what}{', by the sender' * (clock == 'sender')})")
        _log(axes.xaxis, lambda value, _: format_size(value, " "))
        axes.set_yscale("log")
        axes.set_ylim(bottom=min(1, axes.get_ylim()[0]))
        low, high = axes.get_ylim()
        _log(axes.yaxis, lambda value, _: f"{value:g}", (1, 2, 5) if high / low > 6 else (1, 1.5, 2, 3, 4, 5, 7))

    return _figure(runs, draw)


def buffer_cdf(*runs: Run) -> "Figure":
    """CDF of the buffer in use (MB) over the samples of all switches.  SpecError: a run has no samples."""

    def draw(axes: "Axes", looks: list[dict[str, Any]]) -> None:
        top = 0.0
        for run, look in zip(runs, looks):
            values = run.within(run.switches)["buffer_bytes"].to_numpy() / 1e6
            _need(run, len(values), "samples of its switches", "measure.sample=2us")
            x, y = _cdf(values)
            top = max(top, float(x[-1]))
            axes.plot(x, y, label=run.label, **{**look, "marker": None}, drawstyle="steps-post")
        axes.set(xlabel="Buffer in use at a switch (MB)", ylabel="CDF", ylim=(0, 1.02), xlim=(0, top * 1.03 or 1))

    return _figure(runs, draw)


def timeseries(*runs: Run, column: str = "buffer_bytes", switch: int | None = None) -> "Figure":
    """Buffer (MB), longest queue (MB) or active flows over time (ms): of one switch (by number), or the largest of all.

    SpecError: unknown column, or a run without samples.
    """
    labels = {
        "buffer_bytes": ("Buffer in use", 1e6),
        "max_queue_bytes": ("Longest queue", 1e6),
        "active_flows": ("Active flows at a port", 1),
    }
    if column not in labels:
        raise SpecError("cannot be drawn over time", path="column", value=column, remedy=nearest(column, labels))
    text, unit = labels[column]

    def draw(axes: "Axes", looks: list[dict[str, Any]]) -> None:
        top = 0.0
        for run, look in zip(runs, looks):
            frame = run.switches if switch is None else run.switches.filter(pl.col("switch") == switch)
            what = "samples" if switch is None else f"samples of switch {switch}"
            _need(run, frame.height, what, "measure.sample=2us")
            series = frame.group_by("time_ns").agg(pl.col(column).max()).sort("time_ns")
            step = -(-series.height // POINTS)
            series = series.group_by(pl.int_range(pl.len()) // step, maintain_order=True).agg(
                pl.col("time_ns").first(), pl.col(column).max()
            )
            y = series[column].to_numpy() / unit
            top = max(top, float(y.max()))
            axes.plot(
                series["time_ns"].to_numpy() / 1e6,
                y,
                label=run.label,
                **{**look, "marker": None, "linewidth": 1, "linestyle": _solid(look)},
            )
        where = "largest of all switches" if switch is None else f"switch {switch}"
        axes.set(xlabel="Time (ms)", ylabel=f"{text}{' (MB)' if unit > 1 else ''},\n{where}", ylim=(0, top * 1.05 or 1))
        axes.set_xlim(left=0)

    return _figure(runs, draw)


def active_flows(*runs: Run) -> "Figure":
    """CDF of the number of active flows at a port over all samples; a dotted line marks the number of queues."""

    def draw(axes: "Axes", looks: list[dict[str, Any]]) -> None:
        top = 1.0
        for run, look in zip(runs, looks):
            if "active_flows" in run.frames:
                frame = run.frame("active_flows").group_by("active_flows").agg(pl.col("samples").sum())
                frame = frame.sort("active_flows")
                x, weight = frame["active_flows"].to_numpy(), frame["samples"].to_numpy().astype(float)
                _need(run, len(x), "counts of active flows", "measure.flows=true")
                y = np.cumsum(weight) / weight.sum()
            else:
                _need(run, run.switches.height, "samples of its switches", "measure.sample=2us")
                x, y = _cdf(run.within(run.switches)["active_flows"].to_numpy())
            top = max(top, float(x[-1]))
            axes.plot(x, y, label=run.label, **{**look, "marker": None}, drawstyle="steps-post")
        queues = {
            value
            for run in runs
            for key, value in (run.summary.get("scheme_parameters") or {}).items()
            if key.split(".")[-1] == "queues" and isinstance(value, int)
        }
        for number in sorted(q for q in queues if 0 < q <= 2 * top):
            axes.axvline(number, color="#666666", linewidth=0.9, linestyle=(0, (1, 2)))
            axes.annotate(
                f"{number} queues",
                (number, 0.03),
                rotation=90,
                fontsize=7,
                color="#666666",
                ha="right",
                va="bottom",
                xytext=(-1, 0),
                textcoords="offset points",
            )
        axes.set(xlabel="Active flows at a port", ylabel="CDF", ylim=(0, 1.02), xlim=(0, None))

    return _figure(runs, draw)


def pause_time(*runs: Run) -> "Figure":
    """Share of port time paused by PFC (%), a bar per run."""

    def draw(axes: "Axes", looks: list[dict[str, Any]]) -> None:
        values = [100 * float(run.summary.get("pfc_pause_fraction") or 0) for run in runs]
        places = np.arange(len(runs))[::-1]
        axes.barh(places, values, color=[look["color"] for look in looks], height=0.62)
        for place, value in zip(places, values):
            axes.annotate(
                f"{value:.2g} %" if value else "0",
                (value, place),
                xytext=(3, 0),
                va="center",
                fontsize=8,
                textcoords="offset points",
            )
        axes.set_yticks(places, [run.label for run in runs])
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
        axes.set(xlabel="Port time paused by PFC (%)", xlim=(0, max(values) * 1.18 or 1), ylim=(-0.6, len(runs) - 0.4))

    return _figure(runs, draw, legend=False, height=0.75 + 0.26 * len(runs))


KINDS: dict[str, Callable[..., "Figure"]] = {
    "slowdown": slowdown,
    "buffer_cdf": buffer_cdf,
    "timeseries": timeseries,
    "active_flows": active_flows,
    "pause_time": pause_time,
}
FORMATS = ("pdf", "png", "svg", "eps")


def draw(kind: str, *runs: Run, **options: Any) -> "Figure":
    """The figure of a kind of KINDS, with its options.  SpecError: no such kind."""
    return KINDS[check_kind(kind)](*runs, **options)


def check_kind(kind: str) -> str:
    """The name of a kind of figure in KINDS; "-" may stand for "_".  SpecError: no such kind."""
    name = kind.replace("-", "_")
    if name not in KINDS:
        raise SpecError(f'plot "{kind}": no such kind', remedy=nearest(name, KINDS))
    return name


def check_format(path: str | Path) -> str:
    """The figure format of a file name's suffix.  SpecError: it is not one of FORMATS."""
    form = Path(path).suffix.lower().removeprefix(".")
    if form not in FORMATS:
        raise SpecError(f"a figure must end in {', '.join('.' + known for known in FORMATS)}", place=path)
    return form


def render(figure: "Figure", form: str) -> bytes:
    """The figure as a file's content; the same figure gives the same bytes."""
    import matplotlib

    clean = {
        "png": {"Software": None},
        "svg": {"Date": None, "Creator": None},
        "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    }.get(form)
    out = io.BytesIO()
    with matplotlib.rc_context(RC):
        figure.savefig(out, format=form, metadata=clean)
    return out.getvalue()


def save(figure: "Figure", path: str | Path) -> Path:
    """Write a figure atomically, in the format of the suffix.  SpecError: unknown format, or it cannot be written."""
    return write_file(Path(path), render(figure, check_format(path)))


# -- details


def _need(run: Run, count: int, what: str, setting: str) -> None:
    if not count:
        raise SpecError(f'run "{run.label}": has no {what}', remedy=f"run it again with --set {setting}")


def _cdf(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points of the empirical CDF, at most POINTS of them, the last at the maximum."""
    values = np.sort(values)
    share = np.arange(1, len(values) + 1) / len(values)
    keep = np.unique(np.linspace(0, len(values) - 1, min(POINTS, len(values))).round().astype(np.int64))
    x, y = values[keep], share[keep]
    last = np.append(x[1:] != x[:-1], True)
    return np.append(x[0], x[last]), np.append(0.0, y[last])


def _solid(look: dict[str, Any]) -> Any:
    return "-" if look["color"] == COLOURS["ideal_fq"] else look["linestyle"]


def _ordinal(percentile: float) -> str:
    whole = int(percentile) if percentile == int(percentile) and percentile not in (11, 12, 13) else 0
    suffix = {1: "st", 2: "nd", 3: "rd"}.get(whole % 10, "th")
    return f"{percentile:g}{suffix}"


def _log(axis: Any, text: Callable[..., str], subs: tuple[float, ...] = (1,)) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes = axis.axes
    (axes.set_xscale if axis is axes.xaxis else axes.set_yscale)("log")
    axis.set_major_locator(LogLocator(base=10, subs=subs, numticks=7 if subs == (1,) else 20))
    axis.set_major_formatter(FuncFormatter(text))
    axis.set_minor_formatter(NullFormatter())
