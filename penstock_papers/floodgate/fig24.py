"""Floodgate (CoNEXT 2021), figure 24: PFC with a destination tag against Floodgate, non-blocking and blocking.

Appendix B; the incast mix of Web Server with DCQCN (`_setup`). Open in the paper: how much the blocking topology blocks, its
load, and the thresholds of the tagged PFC. Ours has uplinks of 200 Gbit/s, 2 to 1, and Poisson flows at half the load, 0.4,
so that the uplinks are as busy as without blocking; the incasts are the same. A destination is paused at 64 KB, the base BDP,
and resumed at half of that; the figure shows 16 to 256 KB as well ("a smaller threshold should be set to detect incast
quickly"). Hosts are not paused by either.
"""

from typing import Any

import polars as pl

from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import MORE, OURS, Differs
from penstock_papers.floodgate import _setup as setup
from penstock_papers.floodgate._setup import CONTROLS, DCQCN, FLOODGATE, Scheme, rows, value
from penstock_papers.sentences import Numbers, about, as_said, within
from penstock_papers.style import DASHES, GREEN, MARKERS, ORANGE, PAGE, PURPLE, figure, legend_above, lettered

TITLE = "PFC with a destination tag, non-blocking and blocking"
PAPER = "Floodgate, CoNEXT 2021, appendix B, figure 24"
BLOCKING = {**setup.FABRIC, "uplink_rate": "200Gbps"}
CASES = {"non-blocking": (setup.FABRIC, 0.8), "blocking": (BLOCKING, 0.4)}
XOFF_KB = (16, 32, 64, 128, 256)
PANELS = ("average", "99th percentile", "VOQs", "buffer")
LABELS = ("Average FCT (us)", "p99 FCT (us)", "Most VOQs in use", "Most buffer (MB)")
COMPARABLE = "The performance of Floodgate is comparable with PFC w/ tag in non-blocking topology"
VOQS = "the number of VOQs used by PFC w/ tag is larger than Floodgate by an order of magnitude"
BETTER = "Under blocking topology, Floodgate achieves better performance than PFC w/ tag"
TIE = f"2 % would be no difference; {MORE}"
SEEDS = setup.SEEDS
DIFFERS = {
    "voqs": Differs(
        "the last hops' queues pass 64 KB without an incast, since DCQCN marks from 400 KB on: 69 queues, and one of Floodgate's",
        "floodgate-fig24",
        expected=(50, 100),
    ),
}


def tagged(xoff_kb: int) -> Scheme:
    """PFC w/ tag with one pair of thresholds."""
    thresholds = {"xoff": f"{xoff_kb}KB", "xon": f"{xoff_kb // 2}KB"}
    return Scheme(f"PFC w tag, {xoff_kb} KB", {**CONTROLS["DCQCN"], "name": "dcqcn:config+pfc_tagged", "pfc_tagged": thresholds})


TAGGED = {kb: tagged(kb) for kb in XOFF_KB}
CLAIMS = (
    as_said("free-avg", "non-blocking, average FCT: PFC w/ tag / Floodgate", COMPARABLE, "comparable"),
    as_said("free-p99", "non-blocking, p99 FCT: PFC w/ tag / Floodgate", COMPARABLE, "comparable"),
    about("voqs", "non-blocking, most VOQs in use: PFC w/ tag / Floodgate", VOQS, 10),
    within(
        "more-voqs",
        "blocking, most VOQs in use: PFC w/ tag / Floodgate",
        VOQS,
        1,
        quick=True,
        kind=OURS,
        why="the paper counts them without blocking; more agrees",
    ),
    within("blocking-avg", "blocking, average FCT: PFC w/ tag / Floodgate", BETTER, 1.02, why=TIE),
    within("blocking-p99", "blocking, p99 FCT: PFC w/ tag / Floodgate", BETTER, 1.02, why=TIE),
    within(
        "spread",
        "blocking, p99 FCT, smallest of all thresholds ({}): PFC w/ tag / Floodgate",
        BETTER,
        1,
        kind=OURS,
        why=MORE,
    ),
)


def specs(scale: str) -> dict[str, Spec]:
    """One traffic per topology."""
    schemes = (DCQCN, FLOODGATE, *TAGGED.values())
    return {
        case: setup.spec(
            schemes, [setup.poisson("web_server", load=load), setup.incast()], setup.DURATION[scale]["web_server"], fabric
        )
        for case, (fabric, load) in CASES.items()
    }


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: 0, or the threshold of the tagged PFC in KB; y: us, VOQs or MB, by panel; traffic: the topology."""
    parts = []
    for case in CASES:
        for x, scheme in ((0, DCQCN), (0, FLOODGATE), *TAGGED.items()):
            label = setup.of(runs, case, scheme)
            numbers = (*setup.fct(runs, label), setup.max_voqs(runs, label), setup.max_buffer_mb(runs, label))
            series = "PFC w/ tag" if x else scheme.legend
            parts += [rows(panel, series, [x], [number], case) for panel, number in zip(PANELS, numbers)]
    return pl.concat(parts)


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Comparable when nothing blocks, with ten times the VOQs; worse when something does."""

    def ratio(panel: str, case: str, x: float = 64) -> float:
        return value(data, panel, "PFC w/ tag", case, x) / value(data, panel, FLOODGATE.legend, case)

    spread = {f"{kb} KB": ratio("99th percentile", "blocking", kb) for kb in XOFF_KB}
    return {
        "free-avg": ratio("average", "non-blocking"),
        "free-p99": ratio("99th percentile", "non-blocking"),
        "voqs": ratio("VOQs", "non-blocking"),
        "more-voqs": ratio("VOQs", "blocking"),
        "blocking-avg": ratio("average", "blocking"),
        "blocking-p99": ratio("99th percentile", "blocking"),
        "spread": setup.least(spread),
    }


def plot(data: pl.DataFrame) -> Any:
    """A row per topology: everything over the threshold; Floodgate and DCQCN have none."""
    made, grid = figure(2, 4, width=PAGE, height=4)
    for row, case in zip(grid, CASES):
        for axes, panel, label in zip(row, PANELS, LABELS):
            for nth, (scheme, colour) in enumerate(((FLOODGATE, GREEN), (DCQCN, ORANGE))):
                axes.axhline(value(data, panel, scheme.legend, case), color=colour, ls=DASHES[nth], label=scheme.legend)
            line = data.filter(
                (pl.col("panel") == panel) & (pl.col("series") == "PFC w/ tag") & (pl.col("traffic") == case)
            ).sort("x")
            axes.plot(line["x"], line["y"], color=PURPLE, marker=MARKERS[0], label="PFC w/ tag")
            axes.set_xscale("log", base=2)
            axes.set_xticks(XOFF_KB, [str(kb) for kb in XOFF_KB], minor=False)
            axes.set(ylabel=label, ylim=(0, None))
            axes.minorticks_off()
    for axes in grid[1]:
        axes.set(xlabel="Threshold (KB)")
    lettered(grid.flat, [case for case in CASES for _ in PANELS])
    legend_above(made, grid[0, 0], columns=3)
    return made
