"""The buffer that a port needs by the length of its cable: a panel for each rate, and lines for each scheme."""

from typing import TYPE_CHECKING

import polars as pl

from penstock_net.palette import BLACK, PAGE
from penstock_net.report.plots.canvas import GREY, active, looks_of
from penstock_net.units import format_rate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

COLUMNS = 2
TICKS = {1: "1 m", 10: "10 m", 100: "100 m", 1000: "1 km", 10_000: "10 km"}
SIZES = {1e3: "1 KB", 1e4: "10 KB", 1e5: "100 KB", 1e6: "1 MB", 1e7: "10 MB", 1e8: "100 MB"}


def buffers(table: pl.DataFrame, own: pl.DataFrame) -> "Figure":
    """`table` as of penstock_net.sim.buffers by rates and cables; `own`: rates and delays that are ringed.

    Solid: for the full rate; dashed: to lose nothing, where that is less.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.lines import Line2D

    from penstock_net.printing import Figure

    rates = table["rate_gbps"].unique().sort().to_list()
    names = table.select("scheme", "part").unique(maintain_order=True).rows()
    colours = [look["color"] for look in looks_of([f"{part}" for _, part in names])]
    rows = -(-len(rates) // COLUMNS)
    with active():
        figure = Figure(figsize=(PAGE, 0.6 + 2.1 * rows), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(rows, COLUMNS, sharex=True, sharey=True, squeeze=False)
        for panel, rate in zip(axes.flat, rates):
            for (scheme, part), colour in zip(names, colours):
                _draw(panel, table.filter(rate_gbps=rate, scheme=scheme, part=part).sort("cable_m"), colour)
            _ring(panel, table.filter(rate_gbps=rate).join(own.filter(rate_gbps=rate), on=["rate_gbps", "delay_ns"], how="semi"))
            panel.set_title(format_rate(round(rate * 1e9)).replace("Gbps", " Gbit/s"))
        for panel in axes.flat[len(rates) :]:
            panel.axis("off")
        first = axes[0, 0]
        first.set_xscale("log")
        first.set_yscale("log")
        first.set_xticks(list(TICKS), list(TICKS.values()))
        first.set_yticks(list(SIZES), list(SIZES.values()))
        low, high = table["lossless_bytes"].min(), table["full_rate_bytes"].max()
        first.set_ylim(max(float(low or 0), 500) / 2, 2 * float(high or 1e6))  # type: ignore[arg-type]
        for panel in axes.flat:
            panel.minorticks_off()
        figure.supxlabel("cable", fontsize=9)
        figure.supylabel("buffer of a port, for one class", fontsize=9)
        labels = [scheme if scheme == part else f"{part} of {scheme}" for scheme, part in names]
        handles = [Line2D([], [], color=colour, label=label) for label, colour in zip(labels, colours)]
        handles += [
            Line2D([], [], color=GREY, label="for the full rate"),
            Line2D([], [], color=GREY, linestyle="--", label="to lose nothing"),
        ]
        if own.height:
            handles.append(_rings([], [], label="this network"))
        figure.legend(handles=handles, loc="outside upper center", ncols=3, frameon=False)
    return figure


def _draw(axes: "Axes", rows: pl.DataFrame, colour: str) -> None:
    axes.plot(rows["cable_m"], rows["full_rate_bytes"], color=colour)
    if (rows["lossless_bytes"] < rows["full_rate_bytes"]).any():
        axes.plot(rows["cable_m"], rows["lossless_bytes"], color=colour, linestyle="--")


def _ring(axes: "Axes", rows: pl.DataFrame) -> None:
    axes.add_line(_rings(rows["cable_m"].to_list(), rows["full_rate_bytes"].to_list()))


def _rings(x: list[float], y: list[float], label: str = "") -> "Line2D":
    from matplotlib.lines import Line2D

    return Line2D(x, y, linestyle="none", marker="o", markersize=8, markerfacecolor="none", color=BLACK, label=label)
