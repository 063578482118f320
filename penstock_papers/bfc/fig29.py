"""BFC (NSDI 2022), figure 29: the slowdown of the incast flows themselves.

Appendix A.12 on the set-up of figure 9: Google distribution, 55 % load and 5 % 100-to-1 incast, see `_fabric`; the runs are those
of figure 9, with HPCC-PFC and ExpressPass, see `_without_pfc`. The slowdown is that of each flow, 200 KB, not of an incast as a
whole: 100 flows to one host take 100 times as long as one alone if nothing is lost.

The appendix has no number; section 6.2.2 says that HPCC's tail is twice BFC's.
"""

from typing import Any

import numpy as np
import polars as pl

from penstock_papers.bfc import _fabric as fabric
from penstock_papers.bfc import _rivals as rivals
from penstock_papers.bfc import _without_pfc as without_pfc
from penstock_papers.bfc._fabric import BFC, EXISTING, HPCC, IDEAL, value
from penstock_papers.bfc._rivals import EXPRESSPASS, HPCC_PFC
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import MORE, Differs
from penstock_papers.sentences import Numbers, about, within
from penstock_papers.style import COLUMN, figure, legend_above

TITLE = "Slowdown of incast flows, Google at 55 + 5 %"
PAPER = "BFC, NSDI 2022, appendix A.12, figure 29"
DURATION = {"quick": "4ms", "paper": "50ms"}  # an incast alone takes 1.6 ms
SEEDS = fabric.SEEDS
FEASIBLE = (*EXISTING, HPCC_PFC, EXPRESSPASS)
SCHEMES = (*FEASIBLE, BFC, IDEAL)
STATISTICS = {"avg": "average", "p50": "median", "p99": "p99"}
REDUCES = "BFC reduces the FCT for incast flows compared to other feasible schemes"
TWO = "BFC also improves the performance of incast flows, achieving 2× better FCTs at the tail compared to HPCC"
EXPENSE = "The benefits of BFC for non-incast traffic do not come at the expense of worse incast performance"
DIFFERS: dict[str, Differs] = {}


CLAIMS = (
    *(
        row
        for panel, what in STATISTICS.items()
        for row in (
            within(f"reduces-{panel}", f"incast flows, {what}: best feasible scheme ({{}}) / BFC", REDUCES, 1, why=MORE),
            within(
                f"ideal-{panel}",
                f"incast flows, {what}: BFC / Ideal-FQ",
                EXPENSE,
                0.5,
                2,
                why="not worse is near the optimum: within a factor of two",
            ),
        )
    ),
    about("hpcc-p99", "incast flows, p99: HPCC / BFC", TWO, 2, gain=True),
)


def specs(scale: str) -> dict[str, Spec]:
    """The traffic of figure 9."""
    shared = [scheme for scheme in SCHEMES if scheme is not EXPRESSPASS]
    return {
        "incast": fabric.spec(shared, DURATION[scale], incast=0.05),
        **without_pfc.expresspass_spec("incast", DURATION[scale], incast=0.05),
    }


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: slowdown, y: CDF over the incast flows (panel cdf); or a statistic of them."""
    return pl.concat(_one(runs, scheme) for scheme in SCHEMES)


def _one(runs: Runs, scheme: fabric.Scheme) -> pl.DataFrame:
    traffic = "incast" + (without_pfc.APART if scheme is EXPRESSPASS else "")
    flows_of = without_pfc.by_script if scheme is EXPRESSPASS else fabric.counted
    found = flows_of(runs, fabric.of(runs, traffic, scheme), incast=True).collect()
    flows, finished = found["slowdown"].to_numpy(), int(found["finished"].sum())
    none = len(flows) == 0  # in time
    share = np.linspace(0, 1, 0 if none else fabric.POINTS)
    flows = np.array([np.inf]) if none else flows
    numbers = {"avg": flows.mean(), "p50": np.quantile(flows, 0.5), "p99": np.quantile(flows, 0.99)}
    parts = [fabric.points("incast", scheme, "cdf", np.quantile(flows, share), share)]
    parts += [fabric.points("incast", scheme, panel, [0], [y], [finished]) for panel, y in numbers.items()]
    return pl.concat(parts)


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """BFC against each of the others, and against Ideal-FQ."""
    found: Numbers = {}
    for panel in STATISTICS:
        of = {each.legend: value(data, "incast", each, panel) for each in SCHEMES}
        nearest = min((each.legend for each in FEASIBLE), key=of.__getitem__)
        found |= {f"reduces-{panel}": (of[nearest] / of["BFC"], nearest), f"ideal-{panel}": of["BFC"] / of["Ideal-FQ"]}
    return {**found, "hpcc-p99": value(data, "incast", HPCC, "p99") / value(data, "incast", BFC, "p99")}


def plot(data: pl.DataFrame) -> Any:
    """The distribution over the incast flows."""
    made, axes = figure(width=COLUMN, height=2.6)
    rivals.draw_cdf(axes, data, "incast", SCHEMES, "cdf", "FCT slowdown of incast flows")
    axes.set_xlim(1, None)
    fabric.log_axis(axes.xaxis, None, (1, 2, 5))
    legend_above(made, axes, columns=3)
    return made
