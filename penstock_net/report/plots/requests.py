"""Figure of the requests to a served model: time to first token, with the network and without."""

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock_net.errors import SpecError
from penstock_net.inputs import elements
from penstock_net.report.plots.canvas import active, at_least_one, canvas, legend, styles
from penstock_net.results.run import Run, checked_percentile

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST = 3  # percentiles in a figure
PALE = 0.45  # opacity of the lowest of them


def ttft(*runs: Run, percentiles: Any = (50, 99)) -> "Figure":
    """Percentiles of the time to first token, a bar each per run, and in black what they would be without a network.

    Of all requests that have their first token; a caption counts the others.
    percentiles  up to three, each 0 to 100.   SpecError: a run has no requests, or none has its first token.
    """
    at_least_one(runs)
    shown = sorted(checked_percentile(p, "percentiles") for p in elements(percentiles, "percentiles", "such as (50, 99)"))
    if not 1 <= len(shown) <= MOST:
        raise SpecError(f"must be one to {MOST} numbers", path="percentiles", value=percentiles)
    tables = [run.requests.select("ttft_ns", "ttft_without_network_ns") for run in runs]
    found = [_percentiles(run, table.drop_nulls(), shown) for run, table in zip(runs, tables)]
    late = [f"{run.label} {missing}" for run, table in zip(runs, tables) if (missing := table["ttft_ns"].null_count())]
    with active():
        caption = f"without a first token: {', '.join(late)}" if late else ""
        figure, (axes,) = canvas(height=0.95 + (0.12 + 0.17 * len(shown)) * len(runs), caption=caption)
        high, places = 0.8 / len(shown), np.arange(len(runs))[::-1].astype(float)
        for nth, percentile in enumerate(shown):
            at = places + 0.4 - high * (nth + 0.5)
            values = np.array([each[0][nth] for each in found]) / 1e6
            without = np.array([each[1][nth] for each in found]) / 1e6
            opacity = 1.0 if len(shown) == 1 else PALE + (1 - PALE) * nth / (len(shown) - 1)
            colours = [look["color"] for look in styles(runs)]
            axes.barh(at, values, color=colours, alpha=opacity, height=high * 0.9, linewidth=0)
            axes.vlines(without, at - high * 0.45, at + high * 0.45, color="black", linewidth=1.2, zorder=3)
            axes.plot([], [], color="#555555", alpha=opacity, linewidth=5, label=f"p{percentile:g}")
            for place, value in zip(at, values):
                axes.annotate(f"{value:.3g}", (value, place), xytext=(3, 0), va="center", fontsize=7, textcoords="offset points")
        axes.plot([], [], color="black", linewidth=1.2, label="no network")
        axes.set_yticks(places, [textwrap.fill(run.label, 24) for run in runs])
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
        top = max(float(each[0].max()) for each in found) / 1e6
        axes.set(xlabel="Time to first token (ms)", xlim=(0, top * 1.12), ylim=(-0.6, len(runs) - 0.4))
        legend(figure, axes)
    return figure


def _percentiles(run: Run, table: Any, shown: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """With the network and without, ns."""
    if not table.height:
        raise SpecError(f'run "{run.label}": no request has its first token', remedy="let the run drain")
    with_network, without = (np.percentile(table[name].to_numpy(), shown) for name in table.columns)
    return with_network, without
