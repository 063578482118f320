"""BFC (NSDI 2022), abstract: "BFC achieves near optimal throughput and tail latency behavior even under challenging conditions
such as high network load and incast cross traffic. Compared to deployed end-to-end schemes, BFC achieves 2.3 - 60x lower tail
latency for short flows and 1.6 - 5x better average completion time for long flows."

The runs of figures 9 to 11: Google and Facebook traffic at 60 %, with and without incast. The factor is the slowdown of HPCC,
DCTCP or DCQCN over that of BFC: the 99th percentile of flows below 3 KB, the average of flows above 3 MB (section 6.2.2).
Every pair of traffic and scheme must lie in the abstract's range; the smallest factor is no more than double its lower end, and
the largest no less than half of its upper end. Near optimal is a factor of one over Ideal-FQ, by the same
statistics, also at the highest load of figure 12.
"""

from dataclasses import replace
from typing import Any

import polars as pl

from penstock_papers import headlines
from penstock_papers.bfc import _fabric as fabric
from penstock_papers.bfc import fig09, fig10, fig11, fig12
from penstock_papers.bfc._fabric import BFC, EXISTING, IDEAL, value
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import Differs, gain_band
from penstock_papers.headlines import Headline
from penstock_papers.sentences import Numbers

TITLE = "The abstract: tail of short flows, average of long flows"
PAPER = "BFC, NSDI 2022, abstract"
SEEDS = fabric.MAIN_SEEDS
SHORT = Headline("short", "short flows, p99: end-to-end scheme / BFC", "2.3 - 60x lower tail latency for short flows", 2.3, 60)
LONG = Headline(
    "long", "long flows, average: end-to-end scheme / BFC", "1.6 - 5x better average completion time for long flows", 1.6, 5
)
SAID, NEAR = "near optimal throughput and tail latency behavior", "near is within a factor of two"
TAIL = Headline("optimal-short", "short flows, p99: BFC / Ideal-FQ", SAID, 0.5, 2, NEAR)
THROUGHPUT = Headline("optimal-long", "long flows, average: BFC / Ideal-FQ", SAID, 0.5, 2, NEAR)
LOWER = "in the range of the abstract, and no more than double the gain of its lower end"
UPPER = "in the range of the abstract, and no less than half the gain of its upper end"
RANGES = {SHORT: "short p99", LONG: "long avg"}
OPTIMAL = {TAIL: "short p99", THROUGHPUT: "long avg"}
SIZES = {"google": "Google", "facebook_hadoop": "Facebook"}
DIFFERS: dict[str, Differs] = {}
CLAIMS = (
    *(
        row
        for headline in RANGES
        for row in (
            headlines.smallest(replace(headline, high=gain_band(headline.low)[1], why=LOWER)),
            headlines.largest(replace(headline, low=gain_band(headline.high)[0], why=UPPER)),
        )
    ),
    *(headlines.largest(headline) for headline in OPTIMAL),
)


def specs(scale: str) -> dict[str, Spec]:
    """The traffics of figures 9, 10 and 11, whose runs these are, and the highest load of figure 12."""
    load = max(fig12.LOADS[scale])
    found = {
        "google incast": fig09.specs(scale)["incast"],
        "google plain": fig10.specs(scale)["plain"],
        **{f"facebook_hadoop {traffic}": fig11.specs(scale)[traffic] for traffic in fig11.TRAFFIC},
        f"facebook_hadoop {load:.0%}": fig12.specs(scale)[fig12.name(load)],
    }
    needed = {scheme.label for scheme in (BFC, IDEAL, *EXISTING)}
    return {
        traffic: {**spec, "scheme": [table for table in spec["scheme"] if table["label"] in needed]}
        for traffic, spec in found.items()
    }


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """The factors of every traffic and scheme."""
    found: dict[Headline, dict[str, float]] = {headline: {} for headline in (*RANGES, *OPTIMAL)}
    for traffic in specs(scale):
        sizes, kind = traffic.split()
        numbers = pl.concat(fabric.statistics(runs, traffic, scheme, sizes) for scheme in (BFC, IDEAL, *EXISTING))
        where = SIZES[sizes] + {"incast": " with incast", "plain": ""}.get(kind, f" at {kind}")
        for headline, panel in OPTIMAL.items():
            found[headline][where] = value(numbers, traffic, BFC, panel) / value(numbers, traffic, IDEAL, panel)
        for headline, panel in RANGES.items() if kind in fig11.TRAFFIC else ():
            ours = value(numbers, traffic, BFC, panel)
            found[headline] |= {f"{where}, {each.legend}": value(numbers, traffic, each, panel) / ours for each in EXISTING}
    return pl.concat(headlines.rows(headline, factors) for headline, factors in found.items())


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """The ends of both ranges, and the largest factors over Ideal-FQ."""
    return headlines.ends(data, smallest=RANGES, largest=(*RANGES, *OPTIMAL))


def plot(data: pl.DataFrame) -> Any:
    """Every factor beside the ranges."""
    return headlines.plot(data, (*RANGES, *OPTIMAL))
