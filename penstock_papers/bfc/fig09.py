"""BFC (NSDI 2022), figure 9: FCT slowdown, buffer and PFC pauses for Google at 55 % load with 5 % 100-to-1 incast.

Section 6.2.2 on the set-up of section 6.2.1, see `_fabric`: average, 95th and 99th percentile of the slowdown of the
flows that are not incast, the buffer in use at the switches, and the time that links were paused by PFC; HPCC-PFC and
ExpressPass: `_without_pfc`. BFC with 64 and 128 queues per port is ours: short flows' tail depends on the number of
queues here (docs/differences.md, bfc-fig09). So is the lowest row, HPCC and BFC with the load of the text.
"""

import math
from typing import Any

import polars as pl

from penstock_papers.bfc import _fabric as fabric
from penstock_papers.bfc import _rivals as rivals
from penstock_papers.bfc import _without_pfc as without_pfc
from penstock_papers.bfc._fabric import (
    BFC,
    BFC_64,
    BFC_128,
    DCQCN,
    DCTCP,
    HPCC,
    IDEAL,
    SCHEMES,
    named,
    value,
)
from penstock_papers.bfc._rivals import EXPRESSPASS_8, HPCC_PFC
from penstock_papers.bfc._variants import LOAD, LOAD_BESIDE
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import OURS, Differs
from penstock_papers.sentences import Numbers, Row, ascending, within
from penstock_papers.style import PAGE, figure, legend_above, lettered

TITLE = "FCT slowdown, buffer and PFC with incast, Google at 55 + 5 %"
PAPER = "BFC, NSDI 2022, section 6.2.2, figure 9"
DURATION = {"quick": "2ms", "paper": "50ms"}
SEEDS = fabric.MAIN_SEEDS
SHOWN = {LOAD: (*SCHEMES, BFC_64, BFC_128), LOAD_BESIDE: (HPCC, BFC)}
BESIDE = (EXPRESSPASS_8,)  # of ExpressPass
ORDER = ("Ideal-FQ", "BFC", "HPCC", "DCTCP", "DCQCN")
BUFFER_MB = 12
WORST_FIRST = "DCQCN is worst on latency for small flow sizes, both at the average and the tail"
TRACKS = "BFC tracks the ideal behavior"
STATISTICS = {"avg": "average", "p95": "p95", "p99": "p99"}
FAR = "slowdown over Ideal-FQ's, mean of the size bins"
DIFFERS: dict[str, Differs] = {}


def _hpcc_rows(load_of: str) -> list[Row]:
    """HPCC's tail over BFC's by a definition of load."""
    (prefix, where), kind = fabric.prefix_of(load_of), fabric.kind_of(load_of)
    return [
        within(
            f"{prefix}hpcc-p{p}",
            f"{where}short flows (< 3 KB), p{p}: HPCC / BFC",
            fabric.WORSE,
            5,
            30,
            why=fabric.RANGE,
            kind=kind,
        )
        for p in (99, 95)
    ]


CLAIMS = (
    *_hpcc_rows(LOAD),
    within(
        "existing-p99",
        "short flows, p99: worst existing scheme ({}) / BFC",
        "the tail latency for short flows with BFC is still 5-30x better than existing schemes",
        5,
        30,
        why=fabric.RANGE,
    ),
    *(fabric.best(f"best-{p}", f"short flows, {what}") for p, what in STATISTICS.items()),
    ascending("order-p99", "short flows, p99: order of the schemes", WORST_FIRST, quick=False, kind=OURS),
    ascending("order-avg", "short flows, average: order of the schemes", WORST_FIRST, quick=False, kind=OURS),
    *(
        row
        for panel, what in (("avg", "average"), ("p99", "p99"))
        for row in (
            within(f"tracks-{panel}", f"{FAR}, {what}: BFC", TRACKS, 0.5, 2, why="tracks is within a factor of two"),
            within(f"nearest-{panel}", f"{FAR}, {what}: {{}} / BFC", TRACKS, 1, why="BFC is the closest", kind=OURS),
        )
    ),
    ascending(
        "queues", "short flows, p99: BFC by the number of its queues", "collisions for want of queues", quick=False, kind=OURS
    ),
    *fabric.long_rows(),
    *fabric.medium_rows(),
    fabric.no_drops(),
    ascending(
        "buffer",
        "largest buffer in use (MB): BFC below HPCC",
        "BFC tracks the ideal behavior, improves FCTs, and reduces buffer occupancy",
    ),
    within(
        "unfeasible",
        "Ideal-FQ: largest buffer in use (MB)",
        "its buffer occupancy can grow to an unfeasible level",
        BUFFER_MB,
        why="more than the switch has, 12 MB; the paper names no upper end",
    ),
    ascending(
        "pfc",
        "time paused by PFC, worst kind of link (%)",
        "Compared to DCQCN and DCTCP, HPCC reduces tail latency, tail buffer occupancy, and PFC pauses",
    ),
    *without_pfc.latency_rows(),
    *without_pfc.incast_rows(),
    *without_pfc.throughput_rows(),
    *without_pfc.best_rows(incast=True),
    *without_pfc.section_1(),
    *_hpcc_rows(LOAD_BESIDE),
)


def specs(scale: str) -> dict[str, Spec]:
    """One traffic pattern by both definitions of load; the text's for HPCC and BFC only."""
    shown = {LOAD: (*SHOWN[LOAD], HPCC_PFC), LOAD_BESIDE: SHOWN[LOAD_BESIDE]}
    return {
        **{
            named("incast", load_of): fabric.spec(schemes, DURATION[scale], incast=0.05, load_of=load_of)
            for load_of, schemes in shown.items()
        },
        **without_pfc.expresspass_spec("incast", DURATION[scale], incast=0.05, beside=BESIDE),
    }


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: flow size, buffer or kind of link; y: slowdown, CDF or per cent of time, by panel."""
    parts = [
        fabric.everything(runs, named("incast", load_of), scheme, "google")
        for load_of, shown in SHOWN.items()
        for scheme in shown
    ]
    return pl.concat([*parts, without_pfc.measure(runs, "incast", "google", beside=BESIDE)])


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Short flows' tail, the order of the schemes, long flows, the buffer, PFC and drops."""
    short = {p: {each.legend: value(data, "incast", each, f"short {p}") for each in SHOWN[LOAD]} for p in STATISTICS}
    tail = short["p99"]
    worst = max((scheme.legend for scheme in fabric.EXISTING), key=tail.__getitem__)
    return {
        **_hpcc(data, LOAD),
        "existing-p99": (tail[worst] / tail["BFC"], worst),
        **{f"best-{p}": fabric.best_existing(short[p]) for p in STATISTICS},
        "order-p99": {name: tail[name] for name in ORDER},
        "order-avg": {name: short["avg"][name] for name in ORDER},
        **_nearest_to_ideal(data, "avg"),
        **_nearest_to_ideal(data, "p99"),
        "queues": {name: tail[name] for name in ("BFC, 128 queues", "BFC, 64 queues", "BFC")},
        **fabric.long_flows(data, "incast"),
        **fabric.medium_flows(data, "incast"),
        **_switches(data),
        **without_pfc.worst_latency(data, "incast"),
        **without_pfc.recovery_with_incast(data, "incast"),
        **without_pfc.least_throughput(data, "incast"),
        **without_pfc.best(data, "incast", incast=True),
        **without_pfc.of_section_1(data, "incast"),
        **_hpcc(data, LOAD_BESIDE),
    }


def _hpcc(data: pl.DataFrame, load_of: str) -> Numbers:
    (prefix, _), traffic = fabric.prefix_of(load_of), named("incast", load_of)
    return {
        f"{prefix}hpcc-p{p}": value(data, traffic, HPCC, f"short p{p}") / value(data, traffic, BFC, f"short p{p}")
        for p in (99, 95)
    }


def _nearest_to_ideal(data: pl.DataFrame, panel: str) -> Numbers:
    """The mean over the size bins of how far a scheme is from Ideal-FQ, as a ratio."""
    ideal = fabric.curve(data, "incast", IDEAL.label, panel)["y"].log()
    far = {
        scheme.legend: float((fabric.curve(data, "incast", scheme.label, panel)["y"].log() - ideal).mean())  # type: ignore[arg-type]
        for scheme in (BFC, HPCC, DCTCP, DCQCN)
    }
    times = {name: math.exp(distance) for name, distance in far.items()}
    next_best = min((name for name in times if name != "BFC"), key=times.__getitem__)
    return {f"tracks-{panel}": times["BFC"], f"nearest-{panel}": (times[next_best] / times["BFC"], next_best)}


def _switches(data: pl.DataFrame) -> Numbers:
    top = {s.legend: float(fabric.curve(data, "incast", s.label, "buffer")["x"].max()) for s in SCHEMES}  # type: ignore[arg-type]
    paused = {s.legend: value(data, "incast", s, "pfc") for s in (HPCC, DCTCP, DCQCN)}
    return {
        "drops": fabric.dropped(data, "incast", (BFC, BFC_64, BFC_128)),
        "buffer": {name: top[name] for name in ("BFC", "HPCC")},
        "unfeasible": top["Ideal-FQ"],
        "pfc": paused,
    }


def plot(data: pl.DataFrame) -> Any:
    """Slowdowns above; buffer, its tail, and PFC pauses below; then slowdowns with the load of the text."""
    made, grid = figure(3, 3, width=PAGE, height=6.8)
    for panel, statistic in zip(grid[0], ("avg", "p95", "p99")):
        rivals.draw_sizes(panel, data, "incast", (*SHOWN[LOAD], *without_pfc.SERIES, *BESIDE), statistic)
    for panel, statistic in zip(grid[2], ("avg", "p95", "p99")):
        fabric.draw_slowdown(panel, data, named("incast", LOAD_BESIDE), statistic)
    for axes in grid[1, :2]:
        rivals.draw_cdf(axes, data, "incast", (*SHOWN[LOAD], HPCC_PFC), "buffer", "Buffer in use at a switch (MB)")
    grid[1, 0].set_xlim(0, BUFFER_MB)
    grid[1, 1].set(ylim=(0.99, 1.0001))
    grid[1, 1].axvline(BUFFER_MB, color="0.35", lw=1.2)
    grid[1, 1].annotate(
        f"{BUFFER_MB} MB", (BUFFER_MB, 0.9915), fontsize=7.5, color="0.35", xytext=(3, 0), textcoords="offset points"
    )
    fabric.draw_pauses(grid[1, 2], data, "incast")
    lower = (f"{what}, {fabric.SHORTER[LOAD_BESIDE]}" for what in ("average", "p95", "p99"))
    titles = ("average", "95th percentile", "99th percentile", "buffer", "buffer, tail", "PFC pauses", *lower)
    lettered(grid.flat, titles)
    legend_above(made, grid[0, 0], columns=4)
    return made
