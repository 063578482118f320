"""The Pareto front of a sweep: two of its statistics against each other, a mark per point."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock_net.errors import SpecError
from penstock_net.palette import BLUE
from penstock_net.report.plots.canvas import Look, active, canvas, legend_of, log_axis
from penstock_net.report.plots.sweeps import INTERVAL, axis_of, upright
from penstock_net.results.cells import heading
from penstock_net.results.pareto import USUAL
from penstock_net.results.sweep import Sweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOOKS = {  # face and edge of a mark, what a legend says
    "front": (BLUE, BLUE, "front"),
    "open": ("white", BLUE, "open"),
    "beaten": ("white", "#999999", "beaten"),
}
WIDE = 3.0  # an axis is logarithmic if its means differ by more than this factor
PLACES = ((4, 3), (4, -8), (-4, 3), (-4, -8), (4, 11), (4, -16), (-4, 11), (-4, -16))  # of a name beside its mark, points
LETTER, LINE = 3.6, 7.0  # points, of a name


def pareto(*sweeps: Any, x: str = USUAL[0], y: str = USUAL[1], over: tuple[str, ...] = USUAL) -> "Figure":
    """Two statistics of a sweep against each other: a mark for each of its points, filled if it is on the front.

    x, y  statistics, as in `Sweep.with_statistics`; less is better
    over  the front is by these, and x and y
    Bars: 95 % intervals of the means over the seeds.  SpecError: not one sweep, no such statistic, one point only.
    """
    from matplotlib.lines import Line2D

    if len(sweeps) != 1 or not isinstance(sweeps[0], Sweep):
        raise SpecError("draws one sweep", path="pareto", remedy="give the --out folder of penstock sweep")
    (sweep,) = sweeps
    known = [name for name in over if name in sweep.statistics and sweep.runs[name].null_count() < len(sweep)]
    front = sweep.pareto(*dict.fromkeys((x, y, *known)))
    tables = [sweep.over_seeds(name) for name in (x, y)]
    titles, factors = zip(*(axis_of(table["statistic"][0]) for table in tables))
    mean, low, high = (
        np.array([factor * table[name].fill_null(table["mean"]).to_numpy() for table, factor in zip(tables, factors)])
        for name in ("mean", "low", "high")
    )
    with active():
        caption = f"front by {', '.join(map(heading, front.statistics))}; open: seeds do not tell"
        caption += f"; bars: {INTERVAL}" * sweep.has_intervals
        figure, (axes,) = canvas(caption=caption)
        states = list(front.points["front"])
        for i, state in enumerate(states):
            face, edge, _ = LOOKS[state]
            spread = [np.array([[mean[k][i] - low[k][i]], [high[k][i] - mean[k][i]]]).clip(0) for k in (0, 1)]
            look: Look = {"marker": "o", "markersize": 4.5, "markerfacecolor": face, "markeredgecolor": edge, "linestyle": "none"}
            axes.errorbar(mean[0][i], mean[1][i], spread[1], spread[0], ecolor=edge, elinewidth=0.4, alpha=0.9, **look)
        axes.set(xlabel=titles[0], ylabel=upright(titles[1]))
        for k, axis in enumerate((axes.xaxis, axes.yaxis)):
            least, most = np.nanmin(mean[k]), np.nanmax(mean[k])
            if least > 0 and most > WIDE * least:
                log_axis(axis, lambda value, _: f"{value:g}", (1, 2, 5))
                limits = (least / 1.4, most * 1.6)
            else:
                limits = (max(0.0, least - 0.15 * (most - least)) if most > least else 0.0, most + 0.25 * (most - least) or 1.0)
            (axes.set_xlim if k == 0 else axes.set_ylim)(*limits)
        _name(axes, front.names, mean)
        shown = [state for state in LOOKS if state in states]
        marks = [
            Line2D([], [], marker="o", markerfacecolor=LOOKS[each][0], markeredgecolor=LOOKS[each][1], linestyle="none")
            for each in shown
        ]
        legend_of(figure, marks, [LOOKS[each][2] for each in shown])
    return figure


def _name(axes: "Axes", names: Sequence[str], at: np.ndarray) -> None:
    """Write a name beside each mark, where it is least in the way of marks and of names before it."""
    points = axes.transData.transform(at.T) * 72 / axes.figure.dpi
    taken = [(x - 3, y - 3, x + 3, y + 3) for x, y in points]
    for name, (x, y), mark in zip(names, points, at.T):
        boxes = []
        for dx, dy in PLACES:
            left = x + dx - (LETTER * len(name) if dx < 0 else 0)
            boxes.append((left, y + dy, left + LETTER * len(name), y + dy + LINE))
        best = min(range(len(PLACES)), key=lambda i: (sum(_shared(boxes[i], other) for other in taken), i))
        taken.append(boxes[best])
        side = "right" if PLACES[best][0] < 0 else "left"
        axes.annotate(name, tuple(mark), PLACES[best], textcoords="offset points", fontsize=7, color="#333333", ha=side)


def _shared(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    """The area that two boxes share."""
    return max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
