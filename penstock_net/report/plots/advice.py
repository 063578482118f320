"""The headroom of a switch's lossless priorities by the length of the cable, with what shipped tables have."""

from typing import TYPE_CHECKING

import numpy as np

from penstock_net.advise.settings import Advice
from penstock_net.errors import SpecError
from penstock_net.palette import BLUE, GREEN, ORANGE, PAGE, PURPLE, RED, SKY
from penstock_net.report.plots.canvas import GREY, active
from penstock_net.units import SPEED_OF_LIGHT

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = (BLUE, ORANGE, GREEN, PURPLE, RED, SKY)
POINTS = 60


def headroom_by_length(advice: Advice) -> "Figure":
    """A line for each rate of the switch's ports, up to the longest cable or 300 m; dots are rows of the platform's table, rings
    what the switch is given.  The grey line is what is on the cable alone, both ways, at the highest rate."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from penstock_net.printing import Figure

    switch = advice.switch
    rates = sorted({kind.gbps for kind in switch.ports})
    longest = max(300, *(kind.metres for kind in switch.ports))
    steps = {metres + more for _, metres in switch.platform.xoff for more in (0, 1) if metres + more <= longest}
    lengths = sorted({round(metres) for metres in np.geomspace(1, longest, POINTS)} | steps)
    with active():
        figure = Figure(figsize=(PAGE, 3.0), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots()
        for colour, gbps in zip(COLOURS * 8, rates):
            known = [(metres, size) for metres in lengths if (size := _size(advice, gbps, metres)) is not None]
            axes.plot(*zip(*known), color=colour, label=f"{gbps} Gbit/s")
            rows = [(m, size / 1e3) for (g, m), size in switch.platform.xoff.items() if g == gbps and m <= longest]
            if rows and not switch.platform.fixed:
                axes.plot(*zip(*rows), "o", color=colour, markersize=4)
            given = [(one.ports.metres, one.xoff / 1e3) for one in advice.classes if one.ports.gbps == gbps]
            axes.plot(*zip(*given), "o", color=colour, markersize=9, markerfacecolor="none")
        cable = [2 * metres / SPEED_OF_LIGHT * rates[-1] * 1e9 / 8e3 for metres in lengths]
        axes.plot(lengths, cable, color=GREY, linestyle="--", zorder=0, label=f"{rates[-1]} Gbit/s, on the cable alone")
        if switch.platform.xoff and not switch.platform.fixed:
            axes.plot([], [], "o", color=GREY, markersize=4, label="rows of its table")
        axes.plot([], [], "o", color=GREY, markersize=9, markerfacecolor="none", label="this switch")
        axes.set_xscale("log")
        ticks = sorted({1, 5, 10, 40, 100, longest} | {metres for metres in (300, 1000, 3000, 10_000) if metres < longest})
        axes.set_xticks(ticks, [str(metres) for metres in ticks])
        axes.minorticks_off()
        axes.set_ylim(bottom=0)
        axes.set_xlabel("cable, m")
        axes.set_ylabel("headroom of a priority, KB")
        axes.legend(title=switch.platform.name, frameon=False, loc="upper left")
    return figure


def _size(advice: Advice, gbps: int, metres: int) -> float | None:
    try:
        return advice.switch.platform.headroom(gbps, metres).total / 1e3
    except SpecError:
        return None
