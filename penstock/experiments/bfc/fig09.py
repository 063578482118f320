"""BFC (NSDI 2022), figure 9: FCT slowdown, buffer and PFC pauses for Google at 55 % load with 5 % 100-to-1 incast.

Section 6.2.2 on the set-up of section 6.2.1, see `_fabric`: average, 95th and 99th percentile of the slowdown of the
flows that are not incast, the buffer in use at the switches, and the time that links were paused by PFC. HPCC-PFC and
ExpressPass, which the paper shows as well, are not covered yet. BFC with 64 and 128 queues per port is ours: short
flows' tail depends on the number of queues here (docs/differences.md, bfc-fig09). So are DCQCN with a window, and the
lowest row, with the load of the authors' simulator.
"""

import math
from typing import Any

import polars as pl

from penstock.experiments import frames
from penstock.experiments.bfc import _fabric as fabric
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
from penstock.experiments.cache import Runs, Spec
from penstock.experiments.claims import MORE, OURS, Claim, Differs, ascending, holds, within
from penstock.experiments.style import PAGE, figure, legend_above, lettered

TITLE = "FCT slowdown, buffer and PFC with incast, Google at 55 + 5 %"
PAPER = "BFC, NSDI 2022, figure 9"
DURATION = {"quick": "2ms", "paper": "50ms"}
SHOWN = {CORE: (*SCHEMES, DCQCN_WIN, BFC_64, BFC_128), UPLINKS: SCHEMES}
ORDER = ("Ideal-FQ", "BFC", "HPCC", "DCTCP", "DCQCN")
BUFFER_MB = 12
_FULL = Differs("with 55 % in the core, ports run out of 32 queues before the 95th percentile of short flows", "bfc-fig09")
DIFFERS = {
    "hpcc-p99": _FULL.expecting(0.6, 3.5),
    "hpcc-p95": _FULL.expecting(1, 5),
    "existing-p99": _FULL.expecting(1.2, 5),
}


def specs(scale: str) -> dict[str, Spec]:
    """One traffic pattern by both definitions of load."""
    return {
        named("incast", load_of): fabric.spec(shown, DURATION[scale], incast=0.05, load_of=load_of)
        for load_of, shown in SHOWN.items()
    }


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: flow size, buffer or kind of link; y: slowdown, CDF or per cent of time, by panel."""
    return pl.concat(
        fabric.everything(runs, named("incast", load_of), scheme, "google")
        for load_of, shown in SHOWN.items()
        for scheme in shown
    )


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
            "5 .. 30 better than existing schemes",
            tail[worst] / tail["BFC"],
            5,
            30,
        ),
        *_best(numbers),
        ascending(
            "order-p99",
            "short flows, p99: order of the schemes",
            "DCQCN worst, then DCTCP, HPCC, BFC, Ideal-FQ",
            {name: tail[name] for name in ORDER},
            quick=False,
        ),
        ascending(
            "order-avg",
            "short flows, average: order of the schemes",
            "DCQCN worst, then DCTCP, HPCC, BFC, Ideal-FQ",
            {name: numbers["short avg"][name] for name in ORDER},
            quick=False,
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
        *_hpcc(data, UPLINKS),
    ]


def _hpcc(data: pl.DataFrame, load_of: str) -> list[Claim]:
    """HPCC's tail over BFC's by a definition of load."""
    (prefix, where), kind = fabric.prefix_of(load_of), fabric.kind_of(load_of)
    found = []
    for p in (99, 95):
        tail = {s.label: value(data, named("incast", load_of), s, f"short p{p}") for s in (HPCC, BFC)}
        what = f"{where}short flows (< 3 KB), p{p}: HPCC / BFC"
        found.append(within(f"{prefix}hpcc-p{p}", what, "5 .. 30", tail["hpcc"] / tail["bfc"], 5, 30, kind=kind))
    return found


def _best(numbers: dict[str, dict[str, float]]) -> list[Claim]:
    """BFC below every scheme that can be built."""
    found = []
    for panel, what in (("avg", "average"), ("p95", "p95"), ("p99", "p99")):
        of = {scheme.legend: numbers[f"short {panel}"][scheme.legend] for scheme in fabric.EXISTING}
        best = min(of, key=of.__getitem__)
        ratio = of[best] / numbers[f"short {panel}"]["BFC"]
        text = f"short flows, {what}: best existing scheme ({best}) / BFC"
        found.append(within(f"best-{panel}", text, "BFC achieves the best FCTs (both average and tail)", ratio, 1, why=MORE))
    return found


def _nearest_to_ideal(data: pl.DataFrame) -> list[Claim]:
    """The mean over the size bins of how far a scheme is from Ideal-FQ, as a ratio."""
    found = []
    for panel, what in (("avg", "average"), ("p99", "p99")):
        ideal = fabric.curve(data, "incast", IDEAL.label, panel)["y"].log()
        far = {
            scheme.legend: float((fabric.curve(data, "incast", scheme.label, panel)["y"].log() - ideal).mean())  # type: ignore[arg-type]
            for scheme in (BFC, HPCC, DCTCP, DCQCN)
        }
        text = frames.text({name: math.exp(distance) for name, distance in far.items()})
        found.append(
            holds(
                f"nearest-{panel}",
                f"slowdown over Ideal-FQ's, mean of the size bins, {what}",
                "BFC closest to Ideal-FQ",
                text,
                min(far, key=far.__getitem__) == "BFC",
                "BFC smallest",
            )
        )
    return found


def _switches(data: pl.DataFrame) -> list[Claim]:
    top = {s.legend: float(fabric.curve(data, "incast", s.label, "buffer")["x"].max()) for s in SCHEMES}  # type: ignore[arg-type]
    paused = {s.legend: value(data, "incast", s, "pfc") for s in (HPCC, DCTCP, DCQCN)}
    drops = sum(value(data, "incast", scheme, "drops") for scheme in (BFC, BFC_64, BFC_128))
    return [
        holds("drops", "packets dropped under BFC", "none", drops, drops == 0, "0"),
        ascending(
            "buffer",
            "largest buffer in use (MB): BFC below HPCC",
            "BFC reduces buffer occupancy",
            {name: top[name] for name in ("BFC", "HPCC")},
        ),
        within(
            "unfeasible",
            "Ideal-FQ: largest buffer in use (MB)",
            "can grow to an unfeasible level (> 12 MB)",
            top["Ideal-FQ"],
            BUFFER_MB,
            why="the paper says more than the switch's 12 MB and names no upper end",
        ),
        ascending(
            "pfc",
            "time paused by PFC, worst kind of link (%)",
            "HPCC reduces PFC pauses",
            {name: paused[name] for name in ("HPCC", "DCTCP", "DCQCN")},
        ),
    ]


def plot(data: pl.DataFrame) -> Any:
    """Slowdowns above; buffer, its tail, and PFC pauses below; then slowdowns with the load of the authors' simulator."""
    made, grid = figure(3, 3, width=PAGE, height=6.8)
    for panel, statistic in zip(grid[0], ("avg", "p95", "p99")):
        fabric.draw_slowdown(panel, data, "incast", statistic)
    for panel, statistic in zip(grid[2], ("avg", "p95", "p99")):
        fabric.draw_slowdown(panel, data, named("incast", UPLINKS), statistic)
    fabric.draw_buffer(grid[1, 0], data, "incast", BUFFER_MB)
    fabric.draw_buffer(grid[1, 1], data, "incast")
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
