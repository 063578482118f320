"""BFC (NSDI 2022), figure 11: 99th percentile of the slowdown for the Facebook distribution, with and without incast.

Section 6.2.2, "Another workload", on the set-up of section 6.2.1, see `_fabric`: (a) 55 % load and 5 % 100-to-1 incast,
(b) 60 % load. Averages and 95th percentiles are in data.parquet. HPCC-PFC and ExpressPass, which the paper shows as
well, are not covered yet. DCQCN with a window is ours, and so are (c) and (d), with the load of the authors' simulator.
"""

from typing import Any

import polars as pl

from penstock.experiments.bfc import _fabric as fabric
from penstock.experiments.bfc._fabric import BFC, CORE, DCQCN_WIN, HPCC, IDEAL, SCHEMES, UPLINKS, named, value
from penstock.experiments.cache import Runs, Spec
from penstock.experiments.claims import Claim, Differs, ascending, within
from penstock.experiments.style import PAGE, figure, legend_above, lettered

TITLE = "FCT slowdown (p99) with and without incast, Facebook"
PAPER = "BFC, NSDI 2022, section 6.2.2, figure 11"
DURATION = {"quick": "2ms", "paper": "50ms"}
SEEDS = fabric.SEEDS
SIZES = "facebook_hadoop"
TRAFFIC = {"incast": 0.05, "plain": 0.0}
SHOWN = {CORE: (*SCHEMES, DCQCN_WIN), UPLINKS: SCHEMES}
DIFFERS: dict[str, Differs] = {}
NAMES = {"incast": "55 % + 5 % incast", "plain": "60 %"}
GOOGLE = {"incast": (5, 30), "plain": (2.3, 3)}  # HPCC over BFC in figures 9 and 10
SIMILAR = "The trends in the FCT slowdowns are similar to that of the Google distribution"


def specs(scale: str) -> dict[str, Spec]:
    """Two traffics by both definitions of load."""
    return {
        named(name, load_of): fabric.spec(shown, DURATION[scale], SIZES, incast=incast, load_of=load_of)
        for load_of, shown in SHOWN.items()
        for name, incast in TRAFFIC.items()
    }


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: flow size or buffer; y: slowdown or CDF, by traffic and panel."""
    return pl.concat(
        fabric.everything(runs, named(traffic, load_of), scheme, SIZES)
        for load_of, shown in SHOWN.items()
        for traffic in TRAFFIC
        for scheme in shown
    )


def claims(data: pl.DataFrame, scale: str) -> list[Claim]:
    """The trends of figures 9 and 10 with this distribution."""
    found = [claim for traffic in TRAFFIC for claim in (_hpcc(data, traffic, CORE), *_trends(data, traffic))]
    return [*found, *_without_incast(data), *(_hpcc(data, traffic, UPLINKS) for traffic in TRAFFIC)]


def _hpcc(data: pl.DataFrame, traffic: str, load_of: str) -> Claim:
    """HPCC's tail over BFC's by a definition of load; the range is that of Google's traffic."""
    (low, high), (prefix, where) = GOOGLE[traffic], fabric.prefix_of(load_of)
    tail = {scheme.label: value(data, named(traffic, load_of), scheme, "short p99") for scheme in (HPCC, BFC)}
    return within(
        f"{prefix}{traffic}-hpcc",
        f"{where}{NAMES[traffic]}: short flows (< 3 KB), p99: HPCC / BFC",
        SIMILAR,
        tail["hpcc"] / tail["bfc"],
        low,
        high,
        why="the range that the paper has for Google's distribution",
        kind=fabric.kind_of(load_of),
    )


def _trends(data: pl.DataFrame, traffic: str) -> list[Claim]:
    tail = {scheme.legend: value(data, traffic, scheme, "short p99") for scheme in SCHEMES}
    where = NAMES[traffic]
    return [
        fabric.best(f"{traffic}-best", f"{where}: short flows, p99", tail),
        ascending(
            f"{traffic}-order",
            f"{where}: short flows, p99: order of the schemes",
            SIMILAR,
            {name: tail[name] for name in ("BFC", "HPCC", "DCTCP", "DCQCN")},
            quick=False,
        ),
        *fabric.long_flows(data, traffic, f"{traffic}-", f"{where}: "),
        *fabric.medium_flows(data, traffic, f"{traffic}-", f"{where}: "),
        fabric.no_drops(data, traffic, (BFC,), f"{traffic}-", f"{where}: "),
    ]


def _without_incast(data: pl.DataFrame) -> list[Claim]:
    tail = {scheme.legend: value(data, "plain", scheme, "short p99") for scheme in (BFC, IDEAL)}
    return [
        fabric.near_optimal("plain-ideal", "60 %: short flows, p99: BFC / Ideal-FQ", tail["BFC"] / tail["Ideal-FQ"]),
        *fabric.no_pfc(data, "plain", "plain-", "60 %: "),
    ]


def plot(data: pl.DataFrame) -> Any:
    """Slowdown by size, with incast and without, by both definitions of load."""
    made, grid = figure(2, 2, width=PAGE, height=4.9)
    for row, load_of in zip(grid, SHOWN):
        for panel, traffic in zip(row, TRAFFIC):
            fabric.draw_slowdown(panel, data, named(traffic, load_of), "p99")
    lettered(grid.flat, [*NAMES.values(), *(f"{name}, {fabric.LESS}" for name in NAMES.values())])
    legend_above(made, grid[0, 0], columns=len(SHOWN[CORE]))
    return made
