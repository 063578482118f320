"""HPCC (SIGCOMM 2019), figure 2: timers of DCQCN's rate increase and decrease, T_i and T_d, with WebSearch at 30 %.

Section 2.3 on its PoD of 230 servers, see `_fabric` and `_testbed`: (a) slowdown at the 95th percentile without incast, (b)
time paused by PFC and 95th percentile of the latency of short flows with 60-to-1 incasts that add 2 %.  The size of these is
not published; 500 KB, as in section 5.3.  Nor are the other parameters of DCQCN; they are those of `_fabric`, with alpha
updated every 50 us for the timers of DCQCN's own paper, as in the authors' simulator.  The paper's are measurements of the
hardware.  Flows arrive for 100 ms, some 25 000, with each of three seeds.

Scale quick: the testbed of section 5.1 for 10 ms, with incasts of 24 hosts every 5 ms.
"""

from typing import Any

import polars as pl

from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import OURS, Differs
from penstock_papers.frames import Scheme
from penstock_papers.hpcc import _fabric as fabric
from penstock_papers.hpcc._fabric import curve, value
from penstock_papers.hpcc._testbed import POD, TESTBED
from penstock_papers.sentences import Numbers, ascending
from penstock_papers.style import PAGE, figure, legend_above, lettered

TITLE = "Timers of DCQCN: slowdown and PFC, WebSearch"
PAPER = "HPCC, SIGCOMM 2019, section 2.3, figure 2"
DCQCN = fabric.schemes("25Gbps")["DCQCN"].table
TIMERS = {(55, 50): 50, (300, 4): 1, (900, 4): 1}  # (T_i, T_d): interval of alpha, us; the most aggressive first


def _scheme(increase: int, decrease: int, nth: int) -> Scheme:
    timers = {
        "increase_interval": f"{increase}us",
        "decrease_interval": f"{decrease}us",
        "alpha_interval": f"{TIMERS[increase, decrease]}us",
    }
    return Scheme(f"Ti = {increase} us, Td = {decrease} us", {**DCQCN, **timers}, nth=nth, run=f"ti{increase}")


SCHEMES = [_scheme(increase, decrease, nth) for nth, (increase, decrease) in enumerate(TIMERS)]
DURATION = {"quick": "10ms", "paper": "100ms"}
SEEDS = {"paper": 3}
NETWORK = {"quick": TESTBED, "paper": POD}
INCAST = {"quick": {"kind": "incast", "fan_in": 24, "size": "500KB", "every": "5ms"}, "paper": fabric.INCAST}
LOAD = 0.3
DIFFERS: dict[str, Differs] = {}
CLAIMS = (
    ascending(
        "slowdown",
        "30 %: slowdown p95, geometric mean over the sizes",
        "smaller Ti and larger Td reduce the FCT slowdown",
        quick=False,
    ),
    ascending(
        "pfc",
        "30 % + incast: time paused by PFC (%)",
        "smaller Ti and larger Td suffers from longer PFC pause durations",
        quick=False,
    ),
    ascending("latency", "30 % + incast: FCT p95 of flows < 3 KB, us", "and larger tail latencies of flows", quick=False),
    ascending(
        "incast",
        "30 % + incast: FCT p95 of flows < 3 KB, us, with the least and the most aggressive timers",
        "a part of the sentence",
        kind=OURS,
    ),
)


def specs(scale: str) -> dict[str, Spec]:
    """Without and with incast."""
    flows = fabric.poisson("websearch", LOAD)
    traffic = {"plain": [flows], "incast": [flows, INCAST[scale]]}
    return {name: fabric.spec(NETWORK[scale], SCHEMES, each, DURATION[scale], sample="0us") for name, each in traffic.items()}


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: flow size; y: slowdown or a number, by traffic and panel."""
    parts = (fabric.slowdowns, fabric.totals)
    return pl.concat(part(runs, traffic, scheme) for traffic in ("plain", "incast") for scheme in SCHEMES for part in parts)


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Section 2.3: smaller T_i and larger T_d reduce the slowdown, and suffer from more pauses and larger tail latencies."""
    names = [scheme.legend for scheme in SCHEMES]
    latency = {name: value(data, "incast", name, "short fct p95") for name in reversed(names)}
    return {
        "slowdown": {name: fabric.geometric_mean(curve(data, "plain", name, "p95")["y"]) for name in names},
        "pfc": {name: value(data, "incast", name, "pfc") for name in reversed(names)},
        "latency": latency,
        "incast": {name: latency[name] for name in (names[2], names[0])},
    }


def plot(data: pl.DataFrame) -> Any:
    """Slowdowns by size; PFC and latency."""
    made, grid = figure(1, 3, width=PAGE, height=2.6, gridspec_kw={"width_ratios": [2.2, 1, 1]})
    fabric.draw_slowdown(grid[0], data, "plain", SCHEMES, fabric.SHADES)
    fabric.draw_bars(grid[1], data, "incast", SCHEMES, "pfc", "Time paused (%)", fabric.SHADES)
    fabric.draw_bars(grid[2], data, "incast", SCHEMES, "short fct p95", "FCT p95, < 3 KB (us)", fabric.SHADES)
    lettered(grid, ["30 %", "30 % + incast"])
    legend_above(made, grid[0], columns=3)
    return made
