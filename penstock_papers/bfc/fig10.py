"""BFC (NSDI 2022), figure 10: FCT slowdown and buffer occupancy for the Google distribution at 60 % load, no incast.

Section 6.2.2 on the set-up of section 6.2.1, see `_fabric`: average, 95th and 99th percentile of the slowdown by flow
size, the buffer in use at the switches, and how many flows are active at a port of BFC, with the traffic of figure 9
(5 % incast) beside it; HPCC-PFC and ExpressPass: `_without_pfc`. DCQCN without a window and HPCC with the maxStage of the
text (see `_variants`) are ours, and so is the lowest row, HPCC and BFC with the load of the text.
"""

from typing import Any

import polars as pl

from penstock_papers.bfc import _fabric as fabric
from penstock_papers.bfc import _rivals as rivals
from penstock_papers.bfc import _without_pfc as without_pfc
from penstock_papers.bfc._fabric import BFC, DCQCN_ALONE, HPCC, HPCC_5, IDEAL, SCHEMES, named, value
from penstock_papers.bfc._rivals import EXPRESSPASS_8, HPCC_PFC
from penstock_papers.bfc._variants import LOAD, LOAD_BESIDE
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import OURS, WORDS, Differs
from penstock_papers.sentences import Numbers, Row, ascending, within
from penstock_papers.style import DASHES, PAGE, figure, legend_above, lettered

TITLE = "FCT slowdown and buffer without incast, Google at 60 %"
PAPER = "BFC, NSDI 2022, section 6.2.2, figure 10"
DURATION = {"quick": "1ms", "paper": "50ms"}
SEEDS = fabric.MAIN_SEEDS
QUEUES = 32
SHOWN = {LOAD: (*SCHEMES, DCQCN_ALONE, HPCC_5), LOAD_BESIDE: (HPCC, BFC)}
BESIDE = (EXPRESSPASS_8,)  # of ExpressPass
WORST_FIRST = "DCQCN is worst on latency for small flow sizes, both at the average and the tail"
DIFFERS: dict[str, Differs] = {}


def _hpcc_row(load_of: str) -> Row:
    """HPCC's tail over BFC's by a definition of load."""
    (prefix, where), kind = fabric.prefix_of(load_of), fabric.kind_of(load_of)
    what = f"{where}short flows (< 3 KB), p99: HPCC / BFC"
    return within(f"{prefix}hpcc", what, fabric.WORSE, 2.3, 3, why=fabric.RANGE, kind=kind)


CLAIMS = (
    _hpcc_row(LOAD),
    fabric.near_optimal("ideal-p99", "short flows, p99: BFC / Ideal-FQ"),
    fabric.near_optimal("ideal-avg", "short flows, average: BFC / Ideal-FQ"),
    fabric.near_optimal("ideal-sizes", "average slowdown, mean over the size bins: BFC / Ideal-FQ", quick=False),
    ascending("order-p99", "short flows, p99: order of the schemes", WORST_FIRST, kind=OURS),
    ascending("order-avg", "short flows, average: order of the schemes", WORST_FIRST, kind=OURS),
    *fabric.long_rows(),
    *fabric.medium_rows(),
    *fabric.pfc_rows(),
    fabric.no_drops(),
    within(
        "active",
        "no incast: share of time with fewer than 32 active flows at a port",
        "the number of active flows is smaller than the total queues 99% of the time",
        0.99,
        why="the share that the paper names, or more",
        quick=True,
    ),
    ascending(
        "active-incast", "share of time with fewer than 32 active flows", "With incast, the number of active flows increases"
    ),
    *without_pfc.latency_rows(),
    *without_pfc.plain_rows(),
    *without_pfc.throughput_rows(),
    *without_pfc.best_rows(),
    _hpcc_row(LOAD_BESIDE),
    *(
        within(
            f"stages-{group}",
            f"{what}: HPCC with maxStage 5 / HPCC",
            "We use the parameters from the paper, eta=0.95 and maxStage=5",
            *WORDS["similar"],
            why="what is judged does not depend on it: similar",
            kind=OURS,
        )
        for group, what in (("short", "short flows (< 3 KB), p99"), ("long", "flows > 3 MB, average"))
    ),
)


def specs(scale: str) -> dict[str, Spec]:
    """All schemes without incast, HPCC and BFC by both definitions of load; BFC with it, for the active flows."""
    shown = {LOAD: (*SHOWN[LOAD], HPCC_PFC), LOAD_BESIDE: SHOWN[LOAD_BESIDE]}
    return {
        **{named("plain", load_of): fabric.spec(schemes, DURATION[scale], load_of=load_of) for load_of, schemes in shown.items()},
        **without_pfc.expresspass_spec("plain", DURATION[scale], beside=BESIDE),
        "incast": fabric.spec([BFC], DURATION[scale], incast=0.05, load_of=LOAD),
    }


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: flow size, buffer or active flows; y: slowdown or CDF, by panel."""
    parts = [
        fabric.everything(runs, named("plain", load_of), scheme, "google") for load_of, shown in SHOWN.items() for scheme in shown
    ]
    active = [fabric.active_flows(runs, traffic, BFC) for traffic in ("plain", "incast")]
    return pl.concat([*parts, *active, without_pfc.measure(runs, "plain", "google", beside=BESIDE)])


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """HPCC's tail against BFC's, BFC against Ideal-FQ, no PFC, enough queues, HPCC with the maxStage of the text."""
    short = {scheme.legend: value(data, "plain", scheme, "short p99") for scheme in SCHEMES}
    mean = {scheme.legend: value(data, "plain", scheme, "short avg") for scheme in SCHEMES}
    return {
        "hpcc": _hpcc(data, LOAD),
        "ideal-p99": short["BFC"] / short["Ideal-FQ"],
        "ideal-avg": mean["BFC"] / mean["Ideal-FQ"],
        "ideal-sizes": _mean_ratio(data, "avg"),
        "order-p99": {name: short[name] for name in ("BFC", "HPCC", "DCTCP", "DCQCN")},
        "order-avg": {name: mean[name] for name in ("BFC", "HPCC", "DCTCP", "DCQCN")},
        **fabric.long_flows(data, "plain"),
        **fabric.medium_flows(data, "plain"),
        **fabric.paused(data, "plain"),
        "drops": fabric.dropped(data, "plain"),
        **_active(data),
        **without_pfc.worst_latency(data, "plain"),
        **without_pfc.recovery_without_incast(data, "plain"),
        **without_pfc.least_throughput(data, "plain"),
        **without_pfc.best(data, "plain"),
        f"{fabric.prefix_of(LOAD_BESIDE)[0]}hpcc": _hpcc(data, LOAD_BESIDE),
        "stages-short": value(data, "plain", HPCC_5, "short p99") / short["HPCC"],
        "stages-long": value(data, "plain", HPCC_5, "long avg") / value(data, "plain", HPCC, "long avg"),
    }


def _hpcc(data: pl.DataFrame, load_of: str) -> float:
    hpcc, bfc = (value(data, named("plain", load_of), scheme, "short p99") for scheme in (HPCC, BFC))
    return hpcc / bfc


def _mean_ratio(data: pl.DataFrame, panel: str) -> float:
    ours, ideal = (fabric.curve(data, "plain", scheme.label, panel)["y"].to_numpy() for scheme in (BFC, IDEAL))
    return float((ours / ideal).mean())


def _active(data: pl.DataFrame) -> Numbers:
    curves = (fabric.curve(data, traffic, BFC.label, "active") for traffic in ("plain", "incast"))
    plain, incast = (curve.filter(pl.col("x") < QUEUES)["y"].max() for curve in curves)
    return {"active": plain, "active-incast": {"with incast": incast, "without": plain}}


def plot(data: pl.DataFrame) -> Any:
    """Slowdowns above; buffer and active flows below; then slowdowns with the load of the text."""
    made, grid = figure(3, 3, width=PAGE, height=6.6)
    for panel, statistic in zip(grid[0], ("avg", "p95", "p99")):
        rivals.draw_sizes(panel, data, "plain", (*SHOWN[LOAD], *without_pfc.SERIES, *BESIDE), statistic)
    for panel, statistic in zip(grid[2], ("avg", "p95", "p99")):
        fabric.draw_slowdown(panel, data, named("plain", LOAD_BESIDE), statistic)
    for axes in grid[1, :2]:
        rivals.draw_cdf(axes, data, "plain", (*SHOWN[LOAD], HPCC_PFC), "buffer", "Buffer in use at a switch (MB)")
    grid[1, 1].set(ylim=(0.99, 1.0001), title="tail")
    fabric.draw_active(grid[1, 2], data, {"plain": ("no incast", DASHES[0]), "incast": ("5 % incast", DASHES[1])})
    grid[1, 2].legend(loc="lower right")
    lower = (f"{what}, {fabric.SHORTER[LOAD_BESIDE]}" for what in ("average", "p95", "p99"))
    titles = ("average", "95th percentile", "99th percentile", "buffer", "buffer, tail", "active flows, BFC", *lower)
    lettered(grid.flat, titles)
    legend_above(made, grid[0, 0], columns=4)
    return made
