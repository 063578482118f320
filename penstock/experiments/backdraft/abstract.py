"""Backdraft (NSDI 2022), abstract and key results (section 6): "up to 20x lower tail latency at the 99th percentile"; Memcached
"1.9x higher goodput".

Figure 9 has the tail (BESS over Backdraft at the highest load), figure 10 the goodput (Backdraft over the lossy switch with the
slowest receiver) and the tail of requests beside it (5.65x of the lossy switch, 45.2x of the one with PFC). All of them on the
real switch in virtual time.
"""

from typing import Any

import polars as pl

from penstock.experiments import headlines
from penstock.experiments.backdraft import fig09, fig10
from penstock.experiments.backdraft._setup import value
from penstock.experiments.cache import Runs
from penstock.experiments.claims import Claim, Differs
from penstock.experiments.headlines import factor

TITLE = "The abstract: tail latency and goodput with slow receivers"
PAPER = "Backdraft, NSDI 2022, abstract and section 6"
TAIL = factor("tail", "p99 of the victim: BESS / Backdraft", "up to 20x", 20)
GOODPUT = factor("goodput", "goodput: Backdraft / lossy", "1.9x", 1.9)
LOSSY = factor("lossy", "p99 of requests: lossy / Backdraft", "5.65x", 5.65)
PFC = factor("pfc", "p99 of requests: PFC / Backdraft", "45.2x", 45.2)
ALL = (TAIL, GOODPUT, LOSSY, PFC)
DIFFERS: dict[str, Differs] = {}


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """The factors of figures 9 and 10."""
    victims, components = fig09.measure(runs, scale), fig10.measure(runs, scale)
    load, slowest = fig09.LOADS[scale][-1], fig10.CYCLES[-1]
    tails = {
        size: value(victims, f"p99, {size}", fig09.BESS, load) / value(victims, f"p99, {size}", fig09.BACKDRAFT, load)
        for size in fig09.SIZES
    }
    goodput = value(components, "goodput", fig10.ON, slowest) / value(components, "goodput", fig10.LOSSY, slowest)

    def over(mode: str) -> dict[str, float]:
        return {
            f"{cycles} cycles": value(components, "p99", mode, cycles) / value(components, "p99", fig10.ON, cycles)
            for cycles in fig10.CYCLES
        }

    found = (TAIL, tails), (GOODPUT, {f"{slowest} cycles": goodput}), (LOSSY, over(fig10.LOSSY)), (PFC, over(fig10.BP))
    return pl.concat(headlines.rows(*each) for each in found)


def claims(data: pl.DataFrame, scale: str) -> list[Claim]:
    """Each is the largest factor that is reached."""
    return [headlines.largest(headline, data) for headline in ALL]


def plot(data: pl.DataFrame) -> Any:
    """Every factor beside the paper's numbers."""
    return headlines.plot(data, ALL)
