"""BFC (NSDI 2022), abstract: "2.3 - 60x lower tail latency for short flows and 1.6 - 5x better average completion time for long
flows", compared to existing end-to-end schemes.

The runs of figures 9 to 11: Google and Facebook traffic at 60 %, with and without incast. The factor is the slowdown of HPCC,
DCTCP or DCQCN over that of BFC: the 99th percentile of flows below 3 KB, the average of flows above 3 MB (section 6.2.2).
Every pair of traffic and scheme must lie in the abstract's range.
"""

from typing import Any

import polars as pl

from penstock.experiments import headlines
from penstock.experiments.bfc import _fabric as fabric
from penstock.experiments.bfc import fig09, fig10, fig11
from penstock.experiments.bfc._fabric import BFC, DCQCN, DCTCP, HPCC, value
from penstock.experiments.cache import Runs, Spec
from penstock.experiments.claims import Claim, Differs
from penstock.experiments.headlines import Headline

TITLE = "The abstract: tail of short flows, average of long flows"
PAPER = "BFC, NSDI 2022, abstract"
SHORT = Headline("short", "short flows, p99: end-to-end scheme / BFC", "2.3 - 60x", 2.3, 60)
LONG = Headline("long", "long flows, average: end-to-end scheme / BFC", "1.6 - 5x", 1.6, 5)
PANELS = {SHORT: "short p99", LONG: "long avg"}
RIVALS = (HPCC, DCTCP, DCQCN)
SIZES = {"google": "Google", "facebook_hadoop": "Facebook"}
DIFFERS: dict[str, Differs] = {}


def specs(scale: str) -> dict[str, Spec]:
    """The traffics of figures 9, 10 and 11, whose runs these are."""
    return {
        "google incast": fig09.specs(scale)["incast"],
        "google plain": fig10.specs(scale)["plain"],
        **{f"facebook_hadoop {name}": spec for name, spec in fig11.specs(scale).items()},
    }


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """The factors of every traffic and scheme."""
    found: dict[Headline, dict[str, float]] = {SHORT: {}, LONG: {}}
    for traffic in specs(scale):
        sizes, incast = traffic.split()
        numbers = pl.concat(fabric.statistics(runs, traffic, scheme, sizes) for scheme in (BFC, *RIVALS))
        where = SIZES[sizes] + (" with incast" if incast == "incast" else "")
        for headline, panel in PANELS.items():
            ours = value(numbers, traffic, BFC, panel)
            found[headline] |= {f"{where}, {each.legend}": value(numbers, traffic, each, panel) / ours for each in RIVALS}
    return pl.concat(headlines.rows(headline, factors) for headline, factors in found.items())


def claims(data: pl.DataFrame, scale: str) -> list[Claim]:
    """The ends of both ranges."""
    return [end(headline, data) for headline in PANELS for end in (headlines.smallest, headlines.largest)]


def plot(data: pl.DataFrame) -> Any:
    """Every factor beside the ranges."""
    return headlines.plot(data, tuple(PANELS))
