"""Backdraft (NSDI 2022), abstract, introduction and key results (section 6): "up to 20x lower tail latency at the 99th
percentile"; Memcached's goodput "by up to 2.71x"; "1.9x higher goodput"; 16 K queues "without any throughput slow down", "with 2K
queues, throughput is 9x higher".

Figure 9 has the tail (BESS over Backdraft at the highest load), figure 10 the goodput (Backdraft over the lossy switch: of
Memcached alone at any speed of the receiver, of both applications with the slowest) and the tail of requests beside it (5.65x of
the lossy switch, 45.2x of the one with PFC), all on the real switch in virtual time. Scale "real" has figure 16's throughput.
"""

from typing import Any

import polars as pl

from penstock.experiments import headlines
from penstock.experiments.backdraft import fig09, fig10, fig16
from penstock.experiments.backdraft._setup import value
from penstock.experiments.cache import Runs
from penstock.experiments.claims import Claim
from penstock.experiments.headlines import Headline, factor

TITLE = "The abstract: tail latency and goodput with slow receivers"
PAPER = "Backdraft, NSDI 2022, abstract and section 6"
SCALES = ("quick", "paper", "real")
TAIL = factor("tail", "p99 of the victim: BESS / Backdraft", "up to 20x", 20)
GOODPUT = factor("goodput", "goodput: Backdraft / lossy", "1.9x", 1.9)
MEMCACHED = factor("memcached", "goodput of Memcached: Backdraft / lossy", "up to 2.71x", 2.71)
LOSSY = factor("lossy", "p99 of requests: lossy / Backdraft", "5.65x", 5.65)
PFC = factor("pfc", "p99 of requests: PFC / Backdraft", "45.2x", 45.2)
QUEUES = factor("queues", "throughput with 2 K queues: Backdraft / polling", "9x", 9)
SLOWDOWN = Headline("slowdown", "throughput with 16 K queues / with 8", "16 K queues without slow down", 0.8, 1.2)
VIRTUAL, REAL = (TAIL, GOODPUT, MEMCACHED, LOSSY, PFC), (QUEUES, SLOWDOWN)
DIFFERS = {
    "tail-largest": fig09.DIFFERS["better-5kb"],
    "pfc-largest": fig10.DIFFERS["tail-bp"],
    "slowdown-largest": fig16.DIFFERS["flat-real"],
}


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """The factors of figures 9 and 10, or those of figure 16 at scale real."""
    if scale == "real":
        return many_queues(fig16.measure(runs, scale))
    victims, components = fig09.measure(runs, scale), fig10.measure(runs, scale)
    load, slowest = fig09.LOADS[scale][-1], fig10.CYCLES[-1]
    tails = {
        size: value(victims, f"p99, {size}", fig09.BESS, load) / value(victims, f"p99, {size}", fig09.BACKDRAFT, load)
        for size in fig09.SIZES
    }

    def ratios(panel: str, above: str, below: str) -> dict[str, float]:
        return {
            f"{cycles} cycles": value(components, panel, above, cycles) / value(components, panel, below, cycles)
            for cycles in fig10.CYCLES
        }

    goodput = ratios("goodput", fig10.ON, fig10.LOSSY)
    found = {
        TAIL: tails,
        GOODPUT: {f"{slowest} cycles": goodput[f"{slowest} cycles"]},
        MEMCACHED: ratios("answers", fig10.ON, fig10.LOSSY),
        LOSSY: ratios("p99", fig10.LOSSY, fig10.ON),
        PFC: ratios("p99", fig10.BP, fig10.ON),
    }
    return pl.concat(headlines.rows(*each) for each in found.items())


def many_queues(data: pl.DataFrame) -> pl.DataFrame:
    """Throughput of doorbells over polling, and with many queues over few."""

    def mpps(series: str, queues: int) -> float:
        return value(data, "Mpps", series, queues)

    ratio = mpps(fig16.DOORBELLS, 2048) / mpps(fig16.POLLING, 2048)
    flat = mpps(fig16.DOORBELLS, 16384) / mpps(fig16.DOORBELLS, 8)
    return pl.concat([headlines.rows(QUEUES, {"2 K queues": ratio}), headlines.rows(SLOWDOWN, {"16 K queues": flat})])


def claims(data: pl.DataFrame, scale: str) -> list[Claim]:
    """Each is the largest factor that is reached."""
    return [headlines.largest(headline, data) for headline in (REAL if scale == "real" else VIRTUAL)]


def plot(data: pl.DataFrame) -> Any:
    """Every factor beside the paper's numbers."""
    shown = data["panel"].unique().to_list()
    return headlines.plot(data, tuple(headline for headline in (*VIRTUAL, *REAL) if headline.id in shown))
