"""HPCC (SIGCOMM 2019), figure 3: ECN thresholds of DCQCN, K_min and K_max, with WebSearch at 30 % and 50 %.

Section 2.3 on its PoD of 230 servers, see `_fabric` and `_testbed`: slowdown at the 95th percentile by size.  Of the pairs of
thresholds the text names 400 KB and 1600 KB; 100 KB and 400 KB are those that section 5.1 has for 25 Gbit/s; 12 KB and 50 KB,
an eighth of that, are our choice of a low one.  They are those of all ports, whatever the rate.  The paper's are measurements
of the hardware.  Flows arrive for 100 ms, some 25 000 at 30 %, with each of three seeds.

Small flows are those below 3 KB, big ones those above 1 MB.  Scale quick: the testbed of section 5.1 for 10 ms.
"""

from typing import Any

import polars as pl

from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import MORE, Differs
from penstock_papers.frames import Scheme
from penstock_papers.hpcc import _fabric as fabric
from penstock_papers.hpcc._fabric import value
from penstock_papers.hpcc._testbed import POD, TESTBED
from penstock_papers.sentences import Numbers, about, ascending, within
from penstock_papers.style import PAGE, figure, legend_above, lettered

TITLE = "ECN thresholds of DCQCN: slowdown, WebSearch"
PAPER = "HPCC, SIGCOMM 2019, section 2.3, figure 3"
DCQCN = fabric.schemes("25Gbps")["DCQCN"].table
THRESHOLDS = ((12, 50), (100, 400), (400, 1600))  # K_min, K_max, KB
SCHEMES = [
    Scheme(
        f"Kmin = {low} KB, Kmax = {high} KB",
        fabric.with_thresholds(DCQCN, low, high),
        nth=nth,
        run=f"kmin{low}",
    )
    for nth, (low, high) in enumerate(THRESHOLDS)
]
DURATION = {"quick": "10ms", "paper": "100ms"}
SEEDS = {"paper": 3}
NETWORK = {"quick": TESTBED, "paper": POD}
LOADS = {"30 %": 0.3, "50 %": 0.5}
SMALL = "small flows which are latency-sensitive have lower FCT"
BIG = "big flows which are bandwidth-sensitive suffer from larger FCT"
SLOWDOWN, RTT_US = 30, 50  # of small flows with the highest thresholds at 50 %; what the application of Case-2 needs
DIFFERS: dict[str, Differs] = {}
CLAIMS = (
    *(
        row
        for load in LOADS
        for row in (
            ascending(f"{load.removesuffix(' %')}-small", f"{load}: slowdown p95 of small flows", SMALL),
            ascending(f"{load.removesuffix(' %')}-big", f"{load}: slowdown p95 of big flows", BIG, quick=False),
        )
    ),
    ascending(
        "trend",
        "slowdown p95 of small flows, highest thresholds / lowest",
        "the trend is more obvious when the network load is higher",
        quick=False,
    ),
    about("50-slowdown", "50 %: slowdown p95 of small flows with K_min = 400 KB", "30 (slowdown) x 5us", SLOWDOWN),
    within(
        "50-rtt",
        "50 %: FCT p95 of small flows with K_min = 400 KB, us",
        "a lot worse than the ML application's requirement (<50us)",
        RTT_US,
        why=MORE,
    ),
)


def specs(scale: str) -> dict[str, Spec]:
    """One for each load."""
    return {
        name: fabric.spec(NETWORK[scale], SCHEMES, [fabric.poisson("websearch", load)], DURATION[scale], sample="0us")
        for name, load in LOADS.items()
    }


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: flow size; y: slowdown or a number, by load and panel."""
    return pl.concat(fabric.slowdowns(runs, load, scheme) for load in LOADS for scheme in SCHEMES)


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Section 2.3 on bandwidth and latency."""
    small, big = (
        {load: {scheme.legend: value(data, load, scheme.legend, f"{kind} p95") for scheme in SCHEMES} for load in LOADS}
        for kind in ("short", "long")
    )
    low, high = SCHEMES[0].legend, SCHEMES[-1].legend
    return {
        **{f"{load.removesuffix(' %')}-small": by_scheme for load, by_scheme in small.items()},
        **{f"{load.removesuffix(' %')}-big": dict(reversed(by_scheme.items())) for load, by_scheme in big.items()},
        "trend": {load: small[load][high] / small[load][low] for load in LOADS},
        "50-slowdown": small["50 %"][high],
        "50-rtt": value(data, "50 %", high, "short fct p95"),
    }


def plot(data: pl.DataFrame) -> Any:
    """Slowdowns by size at both loads."""
    made, grid = figure(1, 2, width=PAGE, height=2.7)
    for axes, load in zip(grid, LOADS):
        fabric.draw_slowdown(axes, data, load, SCHEMES, fabric.SHADES)
    lettered(grid, LOADS)
    legend_above(made, grid[0], columns=3)
    return made
