"""A run beside another simulator: ratios of quantiles, and of flows."""

from typing import TYPE_CHECKING

from penstock_net.report.plots.canvas import GREY, active, canvas, draw_lines, legend, log_axis, series_looks
from penstock_net.results.comparison import Comparison
from penstock_net.results.distribution import Distribution

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHARES = [*range(1, 99), *(99 + tenth / 10 for tenth in range(10))]


def agreement(found: Comparison) -> "Figure":
    """Quantiles of the completion time, and of the ratio of each flow's two times, against the percentile; 1: both are equal.

    The scale is logarithmic: half and twice are equally far from 1.
    """
    ours = Distribution.of(found.flows["fct_ns"].to_numpy()).percentiles(SHARES)
    theirs = Distribution.of(found.flows["reference_fct_ns"].to_numpy()).percentiles(SHARES)
    flows = Distribution.of(found.flows["ratio"].to_numpy()).percentiles(SHARES)
    with active():
        caption = f"{len(found.flows)} flows; {found.run.label} / {found.reference.rpartition('/')[2]}"
        figure, (axes,) = canvas(caption=caption)
        axes.axhline(1, color=GREY, linewidth=0.8)
        first, second = series_looks(2)
        draw_lines(axes, SHARES, ours / theirs, look=first, label="quantiles")
        draw_lines(axes, SHARES, flows, look={**second, "linestyle": (0, (4, 2))}, label="flow by flow")
        widest = 1.05 * max(1.1, *(max(values.max(), 1 / values.min()) for values in (ours / theirs, flows)))
        axes.set(xlabel="Percentile", ylabel="FCT here / FCT there", xlim=(0, 100), ylim=(1 / widest, widest))
        log_axis(axes.yaxis, lambda value, _: f"{value:.3g}", (1, 2, 5) if widest > 4 else (1, 1.5, 2, 3, 5, 7))
        legend(figure, axes)
    return figure
