"""What all figures share: size, legend, caption, looks of the runs, lines with a band, log axes, the grey of the drain.

Functions that draw into axes that somebody else made are to be called within `active()`, which sets fonts and grid.
"""

import textwrap
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock_net.errors import SpecError
from penstock_net.palette import COLUMN, FAMILIES, MARKERS, OTHERS, family
from penstock_net.palette import look as look_of
from penstock_net.report.plots.style import current
from penstock_net.results.distribution import Distribution
from penstock_net.results.run import Run
from penstock_net.units import format_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = FAMILIES
WIDTH, HEIGHT = COLUMN, 2.4  # inches
POINTS = 1000  # of a curve, at most
GREY, SHADE = "#666666", "#efefef"
Look = dict[str, Any]  # color, linestyle, marker: keywords of Axes.plot


def active() -> Any:
    """The context in which figures are made and saved: fonts, line widths, grid; the width of the file is that of the figure."""
    import matplotlib

    return matplotlib.rc_context({**current().rc, "savefig.bbox": "standard"})


def styles(runs: Sequence[Run]) -> list[Look]:
    """Colour, dashes and marker per run: the colour by family, dashes and marker by run within a family."""
    colours = current().colours
    looks = looks_of([run.scheme for run in runs])
    return [look | ({"color": colours[run.label]} if run.label in colours else {}) for run, look in zip(runs, looks)]


def looks_of(schemes: Sequence[str]) -> list[Look]:
    """The same for names of schemes, one per curve."""
    others: list[str] = []
    seen: dict[str, int] = {}
    result: list[Look] = []
    for scheme in schemes:
        name = family(scheme)
        if name not in COLOURS and name not in others:
            others.append(name)
        colour = COLOURS.get(name) or OTHERS[others.index(name) % len(OTHERS)]
        count = seen[colour] = seen.get(colour, -1) + 1
        look = look_of(scheme, count if name in COLOURS else len(seen) + count, colour)
        free = [marker for marker in MARKERS if marker not in [other["marker"] for other in result]]
        look["marker"] = look["marker"] if look["marker"] in free or not free else free[0]
        result.append(look | {"color": current().colours.get(scheme, look["color"])})
    return result


def series_looks(count: int) -> list[Look]:
    """Colours and dashes for curves that are not runs: classes or flows of one run."""
    from penstock_net.palette import BLUE, DASHES, GREEN, ORANGE, PURPLE, RED, SKY

    colours = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY)
    return [{"color": colours[i % 6], "linestyle": DASHES[i // 3 % len(DASHES)]} for i in range(count)]


def canvas(
    panels: int = 1, *, height: float = HEIGHT, caption: str = "", heights: Sequence[float] | None = None
) -> tuple["Figure", list["Axes"]]:
    """A figure of the width of a column or page with panels below one another, which share their axes, and these axes.

    height   inches, without the caption and the legend, which are given room of their own
    caption  small grey text below: the flows that were chosen, the measurement window
    heights  of the panels beside one another's; each has a y axis of its own then
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from penstock_net.printing import Figure

    style = current()
    caption = "\n".join(textwrap.wrap(style.text(caption), int(64 * style.inches / WIDTH / style.scale)))
    height += 0.13 * style.scale * (caption.count("\n") + bool(caption))
    figure = Figure(figsize=(style.inches, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(panels, squeeze=False, sharex=True, sharey=heights is None, height_ratios=heights)[:, 0]
    if caption:
        figure.supxlabel(caption, fontsize=7 * style.scale, color=GREY, x=0.995, ha="right")
    return figure, list(axes)


def panels_over_time(
    figure: "Figure", axes: Sequence["Axes"], runs: Sequence[Run], span_ns: tuple[float, float], label: str, top: float
) -> None:
    """Axes of panels, one per run, or of one panel for all: time, one y label, y from 0 to `top` and a bit, titles."""
    for i, panel in enumerate(axes):
        time_axis(panel, runs if len(axes) == 1 else [runs[i]], *span_ns)
        panel.set_title(runs[i].label if len(axes) > 1 else "", loc="left")
        panel.label_outer()
    axes[0].set_ylim(0, top * 1.05 or 1)
    if len(axes) > 1:
        figure.supylabel(label, fontsize=current().rc["axes.labelsize"])
    else:
        axes[0].set_ylabel(label.replace(", ", ",\n"))  # one line is longer than a panel is high


def legend(figure: "Figure", axes: "Axes", least: int = 2) -> None:
    """One legend above all panels, of the labels in `axes` if these are at least so many. The figure grows by its height."""
    handles, labels = axes.get_legend_handles_labels()
    if len(labels) >= least:
        legend_of(figure, handles, labels)


def legend_of(figure: "Figure", handles: Sequence[Any], labels: Sequence[str]) -> None:
    """A legend of these lines above all panels. The figure grows by its height."""
    style = current()
    room = int(53 * style.inches / WIDTH / style.scale)
    columns = max(1, min(4 if style.width == "column" else 8, len(labels), room // (max(map(len, labels)) + 5)))
    rows = -(-len(labels) // columns)
    columns = -(-len(labels) // rows)
    figure.set_size_inches(style.inches, figure.get_size_inches()[1] + 0.17 * style.scale * rows)
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


# -- curves


def draw_lines(
    axes: "Axes", x: Any, mean: Any, low: Any = None, high: Any = None, look: Look | None = None, label: str = ""
) -> None:
    """A curve, and the band from low to high around it, such as a 95 % interval.

    x, mean, low, high  sequences of equal length; low and high None: no band; of one point it is a bar. NaN leaves a gap
    look                colour, dashes and marker, of `styles`
    """
    look = dict(look or series_looks(1)[0])
    if low is not None and high is not None and len(x) == 1:
        draw_bars(axes, x, mean, low, high, look, label)
        return
    axes.plot(x, mean, label=label, **look)
    if low is not None and high is not None:
        axes.fill_between(np.asarray(x, dtype=float), low, high, color=look["color"], alpha=0.18, linewidth=0)


def draw_bars(axes: "Axes", x: Any, mean: Any, low: Any, high: Any, look: Look, label: str = "") -> None:
    """Points with error bars from low to high: for parameters without an order, or few of them. Arguments as of `draw_lines`."""
    mean = np.asarray(mean, dtype=float)
    spread = np.vstack([mean - low, np.asarray(high) - mean])
    axes.errorbar(x, mean, yerr=spread, label=label, capsize=2, elinewidth=0.9, **look)


def draw_cdf(axes: "Axes", x: np.ndarray, y: np.ndarray, look: Look, nth: int, label: str) -> None:
    """A CDF as steps, with a few markers, so that curves can be told apart in black and white; `nth` shifts them."""
    every = (0.04 + 0.05 * (nth % 4), 0.2)
    axes.plot(x, y, label=label, **look, markevery=every, drawstyle="steps-post")
    axes.set(ylabel="CDF", ylim=(0, 1.02))


def cdf(found: Distribution) -> tuple[np.ndarray, np.ndarray]:
    """Points of the empirical CDF, at most POINTS of them, the last at the maximum."""
    count = len(found)
    keep = np.unique(np.linspace(0, count - 1, min(POINTS, count)).round().astype(np.int64))
    x, y = found.at(keep), (keep + 1) / count
    last = np.append(x[1:] != x[:-1], True)
    return np.append(x[0], x[last]), np.append(0.0, y[last])


def over_time(look: Look) -> Look:
    """The look of a curve over time: thin, without markers, and solid where it would be dashed for an ideal."""
    ideal = look["color"] == COLOURS["ideal_fq"]
    return {**look, "marker": None, "linewidth": 1, "linestyle": "-" if ideal else look["linestyle"]}


# -- axes


def time_axis(axes: "Axes", runs: Sequence[Run], low_ns: float, high_ns: float) -> None:
    """The x axis as time in ms from low_ns to high_ns; what lies outside the runs' measurement window is grey."""
    axes.set(xlabel="Time (ms)", xlim=(low_ns / 1e6, high_ns / 1e6))
    for left, right in outside(runs, low_ns, high_ns):
        axes.axvspan(left / 1e6, right / 1e6, color=SHADE, linewidth=0, zorder=0)


def outside(runs: Sequence[Run], low_ns: float, high_ns: float) -> list[tuple[float, float]]:
    """The parts of a span of time, ns, that are not of the measurement window; none if the runs have windows of their own."""
    windows = {run.window for run in runs}
    window = windows.pop() if len(windows) == 1 else None
    if window is None:
        return []
    parts = ((low_ns, min(window[0], high_ns)), (max(window[1], low_ns), high_ns))
    return [(left, right) for left, right in parts if right - left > 0.002 * (high_ns - low_ns)]


def time_caption(runs: Sequence[Run], low_ns: float, high_ns: float) -> str:
    """What a figure over time says of the measurement window."""
    text = window_text(runs) + "; grey: outside this window" * any(outside([run], low_ns, high_ns) for run in runs)
    ends = max(run.summary.get("end_ns") or 0.0 for run in runs)
    return f"{text}; last flow done at {format_time(float(f'{ends:.3g}') * 1000)}" if low_ns == 0 and ends > high_ns else text


def log_axis(axis: Any, text: Callable[..., str], subs: tuple[float, ...] = (1,)) -> None:
    """Make an axis logarithmic, with ticks at `subs` of every decade, written by `text`."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    from penstock_net.printing import LogTicks

    axes = axis.axes
    (axes.set_xscale if axis is axes.xaxis else axes.set_yscale)("log")
    axis.set_major_locator(LogTicks(base=10, subs=subs, numticks=7 if subs == (1,) else 20))
    axis.set_major_formatter(FuncFormatter(text))
    axis.set_minor_formatter(NullFormatter())


def window_text(runs: Sequence[Run]) -> str:
    """The measurement window of the runs for a caption. That of arrivals begins with the first flow, which the seed decides."""
    texts = {"whole run, no measurement window" if run.window is None else run.window_text for run in runs}
    if len(texts) == 1:
        return texts.pop()
    ends = {run.window[1] if run.window and run.summary.get("window") == "arrivals" else None for run in runs}
    if len(ends) == 1 and (end := ends.pop()) is not None and not any(run.interruption for run in runs):
        return f"arrivals, from the first flow to {format_time(Fraction(end) * 1000)}"
    if all(run.summary.get("window") == "run" and not run.interruption for run in runs):
        return "the whole of each run"
    return "; ".join(["measurement windows differ", *(f"{run.label}: {run.interruption}" for run in runs if run.interruption)])


def at_least_one(runs: Sequence[Run]) -> None:
    """SpecError unless there is a run to draw, and nothing else."""
    if not runs:
        raise SpecError("nothing to plot: give at least one run")
    for run in runs:
        if not isinstance(run, Run):
            what, remedy = f"a {type(run).__name__} is no run", "give runs one by one, slowdown(bfc, hpcc) or slowdown(*runs)"
            if type(run).__name__ == "Sweep":
                what, remedy = "a sweep is drawn by itself, and as slowdown or against only", "or give some of its runs"
            raise SpecError(f"nothing to plot: {what}", remedy=remedy)
