"""A picture of a backpressure graph's cycles: the switches and links of a network, and which egress may pause which."""

from typing import TYPE_CHECKING

import numpy as np

from penstock_net.palette import BLACK, BLUE, GREEN, ORANGE, PAGE, PURPLE, RED, SKY
from penstock_net.report.plots.canvas import GREY, active
from penstock_net.topology import Topology
from penstock_net.topology.backpressure import Backpressure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

COLOURS = (GREEN, PURPLE, ORANGE, BLUE, RED, SKY)
LABELLED = 40  # switches, of which more have no names
SHOWN = 6  # cycles drawn
LIGHT = "#cccccc"


def backpressure(graph: Backpressure) -> "Figure":
    """Switches, links (dotted: down), and the egresses of each cycle as arrows in the direction of their data.

    An arrow may be paused by the one that follows it. Hosts are numbers at their switches.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from penstock_net.printing import Figure

    with active():
        figure = Figure(figsize=(PAGE, 3.4), layout="constrained")
        FigureCanvasAgg(figure)
        figure.legend(handles=draw_graph(figure.subplots(), graph), loc="outside upper center", ncols=2, frameon=False)
    return figure


def draw_graph(axes: "Axes", graph: Backpressure) -> "list[Line2D]":
    """Draw the picture into axes, and return what its legend explains."""
    axes.axis("off")
    at = places(graph.topo)
    _draw_network(axes, graph, at)
    for nth, cycle in enumerate(graph.cycles[:SHOWN]):
        _draw_cycle(axes, graph, cycle, at, nth)
    axes.margins(0.1, 0.16)
    return _explained(graph)


def places(topo: Topology) -> np.ndarray:
    """x, y of every switch, float64[switches, 2]: tiers as rows; on a circle if there are links within a tier."""
    tier = topo.tier[topo.hosts :].astype(int)
    inner = topo.links[topo.core_links]
    if (topo.tier[inner["a"]] == topo.tier[inner["b"]]).any():
        angles = np.pi / 2 - 2 * np.pi * np.arange(topo.switches) / topo.switches
        return np.column_stack([np.cos(angles), np.sin(angles)])
    at = np.zeros((topo.switches, 2))
    for row, level in enumerate(np.unique(tier)):
        members = np.flatnonzero(tier == level)
        at[members] = np.column_stack([(np.arange(len(members)) + 0.5) / len(members), np.full(len(members), row / 2)])
    return at


def _draw_network(axes: "Axes", graph: Backpressure, at: np.ndarray) -> None:
    topo = graph.topo
    for number in topo.core_links.tolist():
        ends = at[[int(topo.links[end][number]) - topo.hosts for end in "ab"]]
        dead = number in graph.down
        axes.plot(*ends.T, color=GREY if dead else LIGHT, ls=":" if dead else "-", lw=1.2 if dead else 0.8, zorder=1)
    few = topo.switches <= LABELLED
    hosts = np.bincount(topo.host_switches - topo.hosts, minlength=topo.switches).tolist()
    for switch, (x, y) in enumerate(at):
        if not few:
            axes.plot(x, y, "s", color=GREY, ms=3, zorder=3)
            continue
        text = topo.names[topo.hosts + switch] + {0: "", 1: "\n1 host"}.get(hosts[switch], f"\n{hosts[switch]} hosts")
        box = {"boxstyle": "round,pad=0.35", "fc": "white", "ec": BLACK, "lw": 0.7}
        axes.text(x, y, text, ha="center", va="center", fontsize=7, bbox=box, zorder=3, in_layout=False)


def _draw_cycle(axes: "Axes", graph: Backpressure, cycle: list[tuple[int, int]], at: np.ndarray, nth: int) -> None:
    """An arrow for each egress, beside its link; those of other cycles lie further away from it."""
    from matplotlib.patches import FancyArrowPatch

    topo = graph.topo
    size, gap = np.ptp(at, axis=0).max() or 1.0, 16 if topo.switches <= LABELLED else 4  # points between an arrow and a switch
    for egress in cycle:
        start, end = at[egress[0] - topo.hosts], at[graph.peer(egress) - topo.hosts]
        along = (end - start) / max(float(np.hypot(*(end - start))), 1e-9)
        aside = np.array([along[1], -along[0]]) * size * min(0.012, 0.25 / len(at)) * (1 + nth // 2)
        arrow = FancyArrowPatch(
            start + aside,
            end + aside,
            arrowstyle="-|>",
            mutation_scale=10,
            color=COLOURS[nth],
            lw=1.6,
            shrinkA=gap,
            shrinkB=gap,
            zorder=2,
        )
        arrow.set_in_layout(False)
        axes.add_artist(arrow)  # add_patch would extend the limits of the axes to where it begins


def _explained(graph: Backpressure) -> "list[Line2D]":
    from matplotlib.lines import Line2D

    lines = [Line2D([], [], color=LIGHT, label="link")]
    if graph.down:
        lines.append(Line2D([], [], color=GREY, ls=":", label="link that is down"))
    for cycle, colour in zip(graph.cycles[:SHOWN], COLOURS):
        lines.append(Line2D([], [], color=colour, lw=1.6, label=f"cycle of {len(cycle)} egresses"))
    if not graph.cycles:
        lines.append(Line2D([], [], ls="", label="no cycle"))
    return lines
