"""Figure of the tree of pauses behind a paused port."""

from typing import TYPE_CHECKING

import numpy as np

from penstock_net.errors import SpecError
from penstock_net.report.plots.canvas import active, at_least_one, canvas, legend_of, time_axis, time_caption
from penstock_net.report.plots.select import need
from penstock_net.report.plots.style import current
from penstock_net.results.chosen import span_ns
from penstock_net.results.pause_tree import PauseTree, Tree
from penstock_net.results.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROWS = 14  # of a panel
HELD, CONGESTED = "#F7C9A3", "#D55E00"


def pause_tree(*runs: Run, port: str | None = None, time: str | None = None) -> "Figure":
    """Why a port was paused, over time: its row, indented below it the ports that caused its pauses, and so on; a panel per run.

    Pale: paused because a port below was. Dark: paused while none below was, so that the end of the link itself was congested.
    Of a large tree the ports that were paused longest are shown.
    port  "tor0:3", "host0:0"; None: the one that was paused longest;  time: "0.2ms..1ms", a part of the time
    Runs in which it was not paused are left out, and the caption says so.
    SpecError: no such port, a run without pauses, or none in which the port was paused.
    """
    at_least_one(runs)
    start, end = span_ns(time, runs)
    drawn, calm = [], []
    for run in runs:
        need(run, "pause_tree", run.pauses is not None, "pauses")
        if (tree := PauseTree.of(run, port, time)).tree.paused_ns:
            drawn.append((run, tree))
        else:
            calm.append(run.label)
    if not drawn:
        remedy = "leave the port out for the one that was paused longest" if port else "look at another part of the time, or run"
        raise SpecError(f"{port or 'no port'} was {'not ' if port else ''}paused", remedy=remedy)
    shown = [chosen(tree.tree) for _, tree in drawn]
    heights = [max(0.45, 0.15 * len(rows)) for rows in shown]
    left = [len(list(tree.tree.walk())) - len(rows) for (_, tree), rows in zip(drawn, shown)]
    caption = f"no pauses: {', '.join(calm)}; " * bool(calm) + f"not shown: {sum(left)} ports that were paused less; " * any(left)
    caption += time_caption(runs, start, end)
    with active():
        figure, axes = canvas(len(shown), height=0.75 + sum(heights) + 0.25 * len(shown), caption=caption, heights=heights)
        for panel, (run, tree), rows in zip(axes, drawn, shown):
            for place, (_, branch) in enumerate(rows):
                for spans, colour in ((branch.spans, HELD), (branch.rest, CONGESTED)):
                    _bars(panel, spans, place, colour)
            time_axis(panel, [run], start, end)
            panel.set_title(run.label if len(runs) > 1 else "", loc="left")
            panel.set_ylim(len(rows) - 0.4, -0.6)
            panel.grid(visible=False, axis="y")
            panel.label_outer()
            _name(panel, tree, rows)
        handles = [axes[0].plot([], [], color=colour, linewidth=4)[0] for colour in (HELD, CONGESTED)]
        legend_of(figure, handles, ["a port below is paused", "congested at its end"])
    return figure


def chosen(tree: Tree) -> list[tuple[int, Tree]]:
    """The ports that were paused longest with their depths, in the order of the tree; with a port all those above it."""
    rows = list(tree.walk())
    longest = sorted(range(len(rows)), key=lambda row: (-rows[row][1].paused_ns, rows[row][0], row))[:ROWS]
    return [rows[row] for row in sorted(longest)]


def _bars(panel: "Axes", spans: np.ndarray, place: int, colour: str) -> None:
    pairs = [(start / 1e6, (end - start) / 1e6) for start, end in spans]
    panel.broken_barh(pairs, (place - 0.38, 0.76), color=colour, linewidth=0, zorder=2)


def _name(panel: "Axes", tree: PauseTree, rows: list[tuple[int, Tree]]) -> None:
    """Names on the left, in line, by depth."""
    names = ["   " * depth + tree.pauses.link(branch.port) + f" ({branch.note})" * bool(branch.note) for depth, branch in rows]
    panel.set_yticks(range(len(rows)), names, fontsize=6.5 * current().scale, ha="left")
    panel.tick_params(axis="y", length=0)
    figure = panel.figure
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    widest = max(label.get_window_extent(renderer).width for label in panel.get_yticklabels())
    panel.tick_params(axis="y", pad=widest * 72 / figure.dpi + 3)
