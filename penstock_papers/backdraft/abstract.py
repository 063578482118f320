"""Backdraft (NSDI 2022), abstract, introduction and key results (section 6): "up to 20x lower tail latency at the 99th
percentile"; Memcached's goodput "by up to 2.71x"; "1.9x higher goodput"; 16 K queues "without any throughput slow down", "with 2K
queues, throughput is 9x higher".

Figure 9 with Homa has the tail (BESS over Backdraft at the highest load), figure 10 the goodput (Backdraft over the lossy
switch: of Memcached alone at any speed of the receiver, of both applications with the slowest) and the tail of requests beside
it (5.65x of the lossy switch, 45.2x of the one with PFC), all on the real switch in virtual time, in which goodput is (ours).
Scale "real" has figure 10's goodput and figure 16's throughput. The seed is that of figures 9 and 16.
"""

from dataclasses import replace
from typing import Any

import polars as pl

from penstock_papers import headlines
from penstock_papers.backdraft import fig09_homa, fig10, fig16
from penstock_papers.backdraft._setup import value
from penstock_papers.cache import Runs
from penstock_papers.claims import FROM_PAPER, OURS
from penstock_papers.headlines import Headline, factor
from penstock_papers.sentences import Numbers

TITLE = "The abstract: tail latency and goodput with slow receivers"
PAPER = "Backdraft, NSDI 2022, abstract and sections 1 and 6"
SCALES = ("quick", "paper", "real")
SAID = "16 K queues without any throughput slow down"
TAIL = factor("tail", "p99 of the victim: BESS / Backdraft", "up to 20x lower tail latency at the 99th percentile", 20)
GOODPUT = factor("goodput", "goodput: Backdraft / lossy", "1.9x higher goodput", 1.9)
MEMCACHED = factor("memcached", "goodput of Memcached: Backdraft / lossy", "by up to 2.71x", 2.71)
LOSSY = factor("lossy", "p99 of requests: lossy / Backdraft", "up to 5.65x", 5.65)
PFC = factor("pfc", "p99 of requests: PFC / Backdraft", "45.2x", 45.2)
QUEUES = factor("queues", "throughput with 2 K queues: Backdraft / polling", "9x higher than BESS", 9)
SLOWDOWN = Headline("slowdown", "throughput with 16 K queues / with 8", SAID, 0.8, 1.2, fig16.FLAT)
VIRTUAL, REAL = (TAIL, GOODPUT, MEMCACHED, LOSSY, PFC), (GOODPUT, MEMCACHED, QUEUES, SLOWDOWN)
MODELLED = (GOODPUT, MEMCACHED)  # in virtual time
SEEDS = {"paper": 3, "real": 3}
DIFFERS = {
    "pfc-largest": fig10.DIFFERS["tail-bp"],
}
CLAIMS = (
    *(
        headlines.largest(replace(headline, kind=OURS if headline in MODELLED else FROM_PAPER)).at("quick", "paper")
        for headline in VIRTUAL
    ),
    *(headlines.largest(headline).at("real") for headline in REAL),
)


def measure(runs: Runs, scale: str, seed: int = 1) -> pl.DataFrame:
    """The factors of figures 9 and 10, or of goodput and throughput in figures 10 and 16 at scale real."""
    if scale == "real":
        found = ratios(fig10.measure(runs, scale, seed), (GOODPUT, MEMCACHED))
        return pl.concat([*(headlines.rows(*each) for each in found.items()), many_queues(fig16.measure(runs, scale, seed))])
    victims, load = fig09_homa.measure(runs, scale, seed), fig09_homa.LOADS[scale][-1]
    tail = {size: [value(victims, f"p99, {size}", end, load) for end in fig09_homa.JUDGED] for size in fig09_homa.SIZES}
    tails = {size: without / with_it for size, (without, with_it) in tail.items()}
    found = {TAIL: tails, **ratios(fig10.measure(runs, scale, seed), (GOODPUT, MEMCACHED, LOSSY, PFC))}
    return pl.concat(headlines.rows(*each) for each in found.items())


def ratios(data: pl.DataFrame, chosen: tuple[Headline, ...]) -> dict[Headline, dict[str, float]]:
    """The factors of these headlines in figure 10: that of both applications with the slowest receiver, others with each."""
    sides = {
        GOODPUT: ("goodput", fig10.ON, fig10.LOSSY),
        MEMCACHED: ("answers", fig10.ON, fig10.LOSSY),
        LOSSY: ("p99", fig10.LOSSY, fig10.ON),
        PFC: ("p99", fig10.BP, fig10.ON),
    }
    found = {}
    for headline in chosen:
        panel, above, below = sides[headline]
        found[headline] = {
            f"{cycles} cycles": value(data, panel, above, cycles) / value(data, panel, below, cycles)
            for cycles in (fig10.CYCLES[-1:] if headline is GOODPUT else fig10.CYCLES)
        }
    return found


def many_queues(data: pl.DataFrame) -> pl.DataFrame:
    """Throughput of doorbells over polling, and with many queues over few."""

    def mpps(series: str, queues: int) -> float:
        return value(data, "Mpps", series, queues)

    ratio = mpps(fig16.DOORBELLS, 2048) / mpps(fig16.POLLING, 2048)
    flat = mpps(fig16.DOORBELLS, 16384) / mpps(fig16.DOORBELLS, 8)
    return pl.concat([headlines.rows(QUEUES, {"2 K queues": ratio}), headlines.rows(SLOWDOWN, {"16 K queues": flat})])


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Each is the largest factor that is reached."""
    return headlines.ends(data, largest=REAL if scale == "real" else VIRTUAL)


def plot(data: pl.DataFrame) -> Any:
    """Every factor beside the paper's numbers."""
    shown = data["panel"].unique().to_list()
    return headlines.plot(data, tuple(headline for headline in (*VIRTUAL, QUEUES, SLOWDOWN) if headline.id in shown))
