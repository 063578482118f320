"""Common parts of the figures of the incast mix (section 6.1, appendix A): DCQCN and its variants, values per workload, bars."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from penstock_papers.cache import Runs, Spec
from penstock_papers.floodgate import _setup as setup
from penstock_papers.floodgate._setup import CONTROLS, DCQCN, FLOODGATE, IDEAL, VARIANTS, WORKLOADS, Scheme, value
from penstock_papers.style import GREEN, ORANGE, SKY

TRIO = (DCQCN, FLOODGATE, IDEAL)
# section 6; see unknowns.toml and docs/differences.md, floodgate-alpha
TEXT = Scheme("DCQCN, alpha = 2 (ours)", {**CONTROLS["DCQCN"], "pfc": {**setup.OF_CODE, **setup.PFC_TEXT}}, nth=1)
STATISTICS = ("average", "99th percentile")
COLOURS = dict(zip(VARIANTS, (ORANGE, GREEN, SKY)))


def specs(scale: str, schemes: Sequence[Scheme] = TRIO) -> dict[str, Spec]:
    """The incast mix of every workload."""
    return {workload: setup.mix(schemes, workload, scale) for workload in WORKLOADS}


def known(data: pl.DataFrame) -> list[str]:
    """The workloads that were run: at scale quick some figures leave out the long ones."""
    return [workload for workload in WORKLOADS if workload in set(data["traffic"])]


def numbers(
    runs: Runs, panel: str, of: Callable[[Runs, str], float], workloads: Iterable[str] = tuple(WORKLOADS)
) -> pl.DataFrame:
    """`of` each run as a row of data.parquet: x is 0."""
    return pl.concat(
        setup.rows(panel, scheme.legend, [0], [of(runs, setup.of(runs, workload, scheme))], workload)
        for workload in workloads
        for scheme in TRIO
    )


def ratios(data: pl.DataFrame, panel: str, of: Scheme, to: Scheme, traffics: Iterable[str] = ()) -> dict[str, float]:
    """The value of one scheme divided by that of another, by workload or other traffic."""
    return {
        WORKLOADS.get(name, name): value(data, panel, of.legend, name) / value(data, panel, to.legend, name)
        for name in traffics or known(data)
    }


def bars(
    axes: Any, groups: Sequence[str], heights: Mapping[str, Sequence[float]], colours: Iterable[str], slant: bool = False
) -> None:
    """A bar for every series in every group; slanted names need less room."""
    width = 0.82 / len(heights)
    for i, ((name, values), colour) in enumerate(zip(heights.items(), colours)):
        places = np.arange(len(values)) + width * (i - (len(heights) - 1) / 2)
        axes.bar(places, values, 0.93 * width, color=colour, label=name)
    axes.set_xticks(range(len(groups)), groups, **({"rotation": 30, "ha": "right", "rotation_mode": "anchor"} if slant else {}))
    axes.tick_params(axis="x", labelsize=7, length=0)
    axes.grid(visible=False, axis="x")


def workload_bars(axes: Any, data: pl.DataFrame, panel: str, control: str = "DCQCN", legends: Sequence[str] = ()) -> None:
    """The bars of one control, alone and with Floodgate, over the workloads."""
    series = [f"{control}+{variant}" if variant else control for variant in VARIANTS]
    shown = known(data)
    heights = {
        legend: [value(data, panel, name, workload) for workload in shown] for legend, name in zip(legends or series, series)
    }
    bars(axes, [WORKLOADS[workload] for workload in shown], heights, COLOURS.values(), slant=True)


def draw_cdf(axes: Any, data: pl.DataFrame, traffic: str, schemes: Iterable[Scheme], legends: Sequence[str] = ()) -> None:
    """The distributions of completion times in the panel "cdf" of a control alone, with Floodgate, and with its ideal design."""
    schemes = list(schemes)
    for scheme, legend, colour in zip(schemes, legends or [scheme.legend for scheme in schemes], COLOURS.values()):
        kept = (pl.col("panel") == "cdf") & (pl.col("series") == scheme.legend) & (pl.col("traffic") == traffic)
        curve = data.filter(kept).sort("y", "x")
        axes.plot(curve["x"], curve["y"], label=legend, **{**scheme.style, "color": colour, "marker": ""})
    axes.set(xlabel="FCT (us)", ylim=(0, 1.01))
