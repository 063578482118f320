"""BFC (NSDI 2022), figure 9: FCT slowdown, buffer and PFC pauses for Google at 55 % load with 5 % 100-to-1 incast.

Section 6.2.2 on the set-up of section 6.2.1, see `_fabric`: average, 95th and 99th percentile of the slowdown of the
flows that are not incast, the buffer in use at the switches, and the time that links were paused by PFC; HPCC-PFC and
ExpressPass: `_without_pfc`. BFC with 64 and 128 queues per port is ours: short flows' tail depends on the number of
queues here (docs/differences.md, bfc-fig09). So are DCQCN with a window, and the lowest row, with the load of the authors'
simulator.
"""

import math
from typing import Any

import polars as pl

from penstock.experiments.bfc import _fabric as fabric
from penstock.experiments.bfc import _rivals as rivals
from penstock.experiments.bfc import _without_pfc as without_pfc
from penstock.experiments.bfc._fabric import (
    BFC,
    BFC_64,
    BFC_128,
    CORE,
    DCQCN,
    DCQCN_WIN,
    DCTCP,
    HPCC,
    IDEAL,
    SCHEMES,
    UPLINKS,
    named,
    value,
)
from penstock.experiments.bfc._rivals import HPCC_PFC
from penstock.experiments.cache import Runs, Spec
from penstock.experiments.claims import FROM_PAPER, OURS, Claim, Differs, ascending, within
from penstock.experiments.style import PAGE, figure, legend_above, lettered

TITLE = "FCT slowdown, buffer and PFC with incast, Google at 55 + 5 %"
PAPER = "BFC, NSDI 2022, section 6.2.2, figure 9"
DURATION = {"quick": "2ms", "paper": "50ms"}
SEEDS = fabric.SEEDS
SHOWN = {CORE: (*SCHEMES, DCQCN_WIN, BFC_64, BFC_128), UPLINKS: SCHEMES}
ORDER = ("Ideal-FQ", "BFC", "HPCC", "DCTCP", "DCQCN")
BUFFER_MB = 12
WORST_FIRST = "DCQCN is worst on latency for small flow sizes, both at the average and the tail"
DIFFERS: dict[str, Differs] = {}


def specs(scale: str) -> dict[str, Spec]:
    """One traffic pattern by both definitions of load; schemes without PFC by that of the paper."""
    shown = {CORE: (*SHOWN[CORE], HPCC_PFC), UPLINKS: SHOWN[UPLINKS]}
    return {
        **{
            named("incast", load_of): fabric.spec(schemes, DURATION[scale], incast=0.05, load_of=load_of)
            for load_of, schemes in shown.items()
        },
        **without_pfc.expresspass_spec("incast", DURATION[scale], incast=0.05),
    }


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: flow size, buffer or kind of link; y: slowdown, CDF or per cent of time, by panel."""
    parts = [
        fabric.everything(runs, named("incast", load_of), scheme, "google")
        for load_of, shown in SHOWN.items()
        for scheme in shown
    ]
    return pl.concat([*parts, without_pfc.measure(runs, "incast", "google")])


def claims(data: pl.DataFrame, scale: str) -> list[Claim]:
    """Short flows' tail, the order of the schemes, long flows, the buffer, PFC and drops."""
    numbers = {
        panel: {scheme.legend: value(data, "incast", scheme, panel) for scheme in SHOWN[CORE]}
        for panel in ("short avg", "short p95", "short p99")
    }
    tail = numbers["short p99"]
    worst = max((scheme.legend for scheme in fabric.EXISTING), key=tail.__getitem__)
    return [
        *_hpcc(data, CORE),
        within(
            "existing-p99",
            f"short flows, p99: worst existing scheme ({worst}) / BFC",
            "the tail latency for short flows with BFC is still 5-30x better than existing schemes",
            tail[worst] / tail["BFC"],
            5,
            30,
            why=fabric.RANGE,
        ),
        *_best(numbers),
        ascending(
            "order-p99",
            "short flows, p99: order of the schemes",
            WORST_FIRST,
            {name: tail[name] for name in ORDER},
            quick=False,
            kind=OURS,
        ),
        ascending(
            "order-avg",
            "short flows, average: order of the schemes",
            WORST_FIRST,
            {name: numbers["short avg"][name] for name in ORDER},
            quick=False,
            kind=OURS,
        ),
        *_nearest_to_ideal(data),
        ascending(
            "queues",
            "short flows, p99: BFC by the number of its queues",
            "collisions for want of queues",
            {name: tail[name] for name in ("BFC, 128 queues", "BFC, 64 queues", "BFC")},
            quick=False,
            kind=OURS,
        ),
        *fabric.long_flows(data, "incast"),
        *fabric.medium_flows(data, "incast"),
        *_switches(data),
        *without_pfc.worst_latency(data, "incast"),
        *without_pfc.recovery_with_incast(data, "incast"),
        *without_pfc.least_throughput(data, "incast"),
        *without_pfc.best(data, "incast", incast=True),
        *_hpcc(data, UPLINKS),
    ]


def _hpcc(data: pl.DataFrame, load_of: str) -> list[Claim]:
    """HPCC's tail over BFC's by a definition of load."""
    (prefix, where), kind = fabric.prefix_of(load_of), fabric.kind_of(load_of)
    found = []
    for p in (99, 95):
        tail = {s.label: value(data, named("incast", load_of), s, f"short p{p}") for s in (HPCC, BFC)}
        what = f"{where}short flows (< 3 KB), p{p}: HPCC / BFC"
        said = fabric.WORSE
        ratio = tail["hpcc"] / tail["bfc"]
        found.append(within(f"{prefix}hpcc-p{p}", what, said, ratio, 5, 30, why=fabric.RANGE, kind=kind))
    return found


def _best(numbers: dict[str, dict[str, float]]) -> list[Claim]:
    """BFC below every scheme that can be built."""
    named_as = {"avg": "average", "p95": "p95", "p99": "p99"}
    return [fabric.best(f"best-{p}", f"short flows, {what}", numbers[f"short {p}"]) for p, what in named_as.items()]


def _nearest_to_ideal(data: pl.DataFrame) -> list[Claim]:
    """The mean over the size bins of how far a scheme is from Ideal-FQ, as a ratio."""
    found = []
    for panel, what in (("avg", "average"), ("p99", "p99")):
        ideal = fabric.curve(data, "incast", IDEAL.label, panel)["y"].log()
        far = {
            scheme.legend: float((fabric.curve(data, "incast", scheme.label, panel)["y"].log() - ideal).mean())  # type: ignore[arg-type]
            for scheme in (BFC, HPCC, DCTCP, DCQCN)
        }
        times = {name: math.exp(distance) for name, distance in far.items()}
        next_best = min((name for name in times if name != "BFC"), key=times.__getitem__)
        where = f"slowdown over Ideal-FQ's, mean of the size bins, {what}"
        for id, text, ratio, low, high, why, kind in (
            ("tracks", "BFC", times["BFC"], 0.5, 2, "tracks is within a factor of two", FROM_PAPER),
            ("nearest", f"{next_best} / BFC", times[next_best] / times["BFC"], 1, None, "BFC is the closest", OURS),
        ):
            said = "BFC tracks the ideal behavior"
            found.append(within(f"{id}-{panel}", f"{where}: {text}", said, ratio, low, high, why=why, kind=kind))
    return found


def _switches(data: pl.DataFrame) -> list[Claim]:
    top = {s.legend: float(fabric.curve(data, "incast", s.label, "buffer")["x"].max()) for s in SCHEMES}  # type: ignore[arg-type]
    paused = {s.legend: value(data, "incast", s, "pfc") for s in (HPCC, DCTCP, DCQCN)}
    return [
        fabric.no_drops(data, "incast", (BFC, BFC_64, BFC_128)),
        ascending(
            "buffer",
            "largest buffer in use (MB): BFC below HPCC",
            "BFC tracks the ideal behavior, improves FCTs, and reduces buffer occupancy",
            {name: top[name] for name in ("BFC", "HPCC")},
        ),
        within(
            "unfeasible",
            "Ideal-FQ: largest buffer in use (MB)",
            "its buffer occupancy can grow to an unfeasible level",
            top["Ideal-FQ"],
            BUFFER_MB,
            why="more than the switch has, 12 MB; the paper names no upper end",
        ),
        ascending(
            "pfc",
            "time paused by PFC, worst kind of link (%)",
            "Compared to DCQCN and DCTCP, HPCC reduces tail latency, tail buffer occupancy, and PFC pauses",
            {name: paused[name] for name in ("HPCC", "DCTCP", "DCQCN")},
        ),
    ]


def plot(data: pl.DataFrame) -> Any:
    """Slowdowns above; buffer, its tail, and PFC pauses below; then slowdowns with the load of the authors' simulator."""
    made, grid = figure(3, 3, width=PAGE, height=6.8)
    for panel, statistic in zip(grid[0], ("avg", "p95", "p99")):
        rivals.draw_sizes(panel, data, "incast", (*SHOWN[CORE], *without_pfc.SERIES), statistic)
    for panel, statistic in zip(grid[2], ("avg", "p95", "p99")):
        fabric.draw_slowdown(panel, data, named("incast", UPLINKS), statistic)
    for axes in grid[1, :2]:
        rivals.draw_cdf(axes, data, "incast", (*SHOWN[CORE], HPCC_PFC), "buffer", "Buffer in use at a switch (MB)")
    grid[1, 0].set_xlim(0, BUFFER_MB)
    grid[1, 1].set(ylim=(0.99, 1.0001))
    grid[1, 1].axvline(BUFFER_MB, color="0.35", lw=1.2)
    grid[1, 1].annotate(
        f"{BUFFER_MB} MB", (BUFFER_MB, 0.9915), fontsize=7.5, color="0.35", xytext=(3, 0), textcoords="offset points"
    )
    fabric.draw_pauses(grid[1, 2], data, "incast")
    lower = (f"average, {fabric.LESS}", f"95th percentile, {fabric.LESS}", f"99th percentile, {fabric.LESS}")
    titles = ("average", "95th percentile", "99th percentile", "buffer", "buffer, tail", "PFC pauses", *lower)
    lettered(grid.flat, titles)
    legend_above(made, grid[0, 0], columns=4)
    return made
