"""BFC (NSDI 2022), figure 23: DCTCP with slow start: 99th percentile and median of the slowdown, with and without incast.

Appendix A.6 on the set-up of figure 11 (Facebook distribution; 55 % load and 5 % 100-to-1 incast, or 60 % load), see `_fabric`.
DCTCP+SS starts with a window of 10 packets and doubles it in each RTT, see `_rivals`; DCTCP with one bandwidth-delay product.
"""

import math
from typing import Any

import numpy as np
import polars as pl

from penstock_papers.bfc import _fabric as fabric
from penstock_papers.bfc import _rivals as rivals
from penstock_papers.bfc._fabric import BFC, DCTCP, value
from penstock_papers.bfc._rivals import DCTCP_SS
from penstock_papers.bfc.fig11 import NAMES, SIZES, TRAFFIC
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import MORE, Differs
from penstock_papers.sentences import Numbers, about, ascending, within
from penstock_papers.style import PAGE, figure, legend_above, lettered

TITLE = "DCTCP with slow start: median and p99 of the slowdown, Facebook"
PAPER = "BFC, NSDI 2022, appendix A.6, figure 23"
DURATION = {"quick": "2ms", "paper": "50ms"}
SEEDS = fabric.SEEDS
SCHEMES = (DCTCP, DCTCP_SS, BFC)
STATISTICS = {"p99": "p99", "p50": "median"}
BUFFER = "With incast, DCTCP + SS reduces buffer occupancy by reducing the intensity of incast flows, improving tail latency"
TAIL = "With incast, DCTCP + SS (slow start) reduces the tail FCT"
MEDIAN = "but it increases median FCTs by up to 2x"
MAJORITY = "slow start increases both the tail and median FCT for the majority of flow sizes"
STILL = "short flows are still slower than with BFC, as slow start does not remove burstiness in buffer occupancy in the tail"
DIFFERS: dict[str, Differs] = {}


_PLAIN, _HALF = f"In the absence of incast, {MAJORITY}", "the majority of the size bins"
CLAIMS = (
    ascending("buffer", "incast: buffer in use (MB), p99", BUFFER),
    within("incast-tail", "incast: p99, mean of the size bins: DCTCP / DCTCP+SS", TAIL, 1, why=MORE),
    ascending("incast-short", "incast: short flows (< 3 KB), p99", TAIL, quick=False),
    about("incast-median", "incast: median: DCTCP+SS / DCTCP, largest of the size bins", MEDIAN, 2, gain=True),
    *(
        within(f"plain-{panel}", f"60 %, {what}: share of the size bins in which DCTCP+SS is slower", _PLAIN, 0.5, 1, why=_HALF)
        for panel, what in STATISTICS.items()
    ),
    within("plain-bfc", "60 %: short flows (< 3 KB), p99: DCTCP+SS / BFC", STILL, 1, why=MORE, quick=True),
)


def specs(scale: str) -> dict[str, Spec]:
    """The two traffics of figure 11."""
    return {traffic: fabric.spec(SCHEMES, DURATION[scale], SIZES, incast=incast) for traffic, incast in TRAFFIC.items()}


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: flow size or buffer; y: slowdown or CDF, by traffic and panel."""
    return pl.concat(
        part
        for traffic in TRAFFIC
        for scheme in SCHEMES
        for part in (fabric.everything(runs, traffic, scheme, SIZES), _medians(runs, traffic, scheme))
    )


def _medians(runs: Runs, traffic: str, scheme: fabric.Scheme) -> pl.DataFrame:
    """Panel p50: the median slowdown by size."""
    run = runs[fabric.of(runs, traffic, scheme)]
    found = run.slowdown(50, bins=fabric.SIZES[SIZES], class_="!incast", clock="sender").filter(pl.col("flows") > 0)
    return fabric.points(traffic, scheme, "p50", found["bytes"], found["slowdown"], found["flows"])


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """With incast a better tail and a worse median; without it both are worse; short flows against BFC."""
    buffer = {each.legend: rivals.buffer_at(data, "incast", each, 0.99) for each in (DCTCP_SS, DCTCP)}
    tail, median = slower(data, "incast", "p99"), slower(data, "incast", "p50")
    short = {each.legend: value(data, "incast", each, "short p99") for each in (DCTCP_SS, DCTCP)}
    plain = {each.legend: value(data, "plain", each, "short p99") for each in (DCTCP_SS, BFC)}
    return {
        "buffer": buffer,
        "incast-tail": math.exp(-np.log(list(tail.values())).mean()),
        "incast-short": short,
        "incast-median": max(median.values()),
        **{f"plain-{panel}": np.mean([ratio > 1 for ratio in slower(data, "plain", panel).values()]) for panel in STATISTICS},
        "plain-bfc": plain["DCTCP+SS"] / plain["BFC"],
    }


def slower(data: pl.DataFrame, traffic: str, panel: str) -> dict[int, float]:
    """DCTCP+SS over DCTCP in each size bin in which flows of both have finished."""
    bounds = fabric.SIZES[SIZES]
    with_it, without = (
        dict(zip(np.searchsorted(bounds, line["x"].to_numpy()).tolist(), line["y"]))
        for scheme in (DCTCP_SS, DCTCP)
        for line in [fabric.curve(data, traffic, scheme.label, panel).drop_nulls()]
    )
    return {place: with_it[place] / without[place] for place in sorted(with_it.keys() & without.keys())}


def plot(data: pl.DataFrame) -> Any:
    """99th percentile above, median below."""
    made, grid = figure(2, 2, width=PAGE, height=4.9)
    for row, panel in zip(grid, STATISTICS):
        for axes, traffic in zip(row, TRAFFIC):
            rivals.draw_sizes(axes, data, traffic, SCHEMES, panel)
    lettered(grid.flat, [f"{NAMES[traffic]}, {what}" for what in STATISTICS.values() for traffic in TRAFFIC])
    legend_above(made, grid[0, 0], columns=len(SCHEMES))
    return made
