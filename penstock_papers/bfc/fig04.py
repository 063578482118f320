"""BFC (NSDI 2022), figure 4: the number of active flows at a link, by load, link speed and scheduling policy.

One bottleneck link at 10, 40 and 100 Gbit/s; Google flow sizes; lognormal inter-arrival times with sigma 2; lines for
different loads (section 2.3). Scheduling is fair queueing (exact processor sharing), shortest remaining flow first, or
FIFO; a flow is active from its arrival until its last byte has been served. Every speed has traces of its own.

Beside the figure, Poisson arrivals under fair queueing are checked against M/G/1-PS, whose number of active flows is
geometric with mean rho / (1 - rho) whatever the sizes (Kleinrock; the paper's [37, 39]). The gaps of every trace are
stretched so that it offers exactly its nominal load (see `fluid.offered`).
"""

import itertools
from typing import Any

import numpy as np
import polars as pl

from penstock_net import SizeDistribution
from penstock_papers import fluid
from penstock_papers.bfc._workloads import GBPS
from penstock_papers.cache import Runs
from penstock_papers.claims import OURS
from penstock_papers.sentences import Numbers, as_said, ascending, within
from penstock_papers.style import BLUE, DASHES, GREEN, ORANGE, PAGE, PURPLE, RED, figure, legend_above

TITLE = "Active flows at one link by load, link speed and scheduling"
PAPER = "BFC, NSDI 2022, section 2.3, figure 4"
SIZES, SIGMA, QUEUES = "google", 2.0, 32  # Tofino2: 32 queues per 100G port
LOADS = (0.5, 0.7, 0.85, 0.9, 0.95)
POISSON_LOADS = (0.5, 0.6, 0.7, 0.8)
FLOWS = {"quick": 30_000, "paper": 1_000_000}  # of a trace, over 1 - load: a busier link forgets its past more slowly
TRACES = {"quick": 1, "paper": 2}
POISSON_FACTOR = 4
WARM_UP = 0.05
SHADES = dict(zip(LOADS, zip((GREEN, BLUE, PURPLE, ORANGE, RED), DASHES)))


CLAIMS = (
    *(
        within(
            f"poisson-{100 * load:.0f}",
            f"Poisson, FQ, {load:.0%}: mean active flows / (rho/(1-rho))",
            "1 (M/G/1-PS)",
            0.95,
            1.05,
            why="the mean of so many flows is known to a few per cent",
            kind=OURS,
        )
        for load in POISSON_LOADS
    ),
    within(
        "geometric",
        "Poisson, FQ: largest distance of a CDF from the geometric distribution",
        "0",
        None,
        0.02,
        why="a distance is at least 0; 2 points of 1 % are the noise of so many flows",
        kind=OURS,
    ),
    within(
        "invariant",
        "FQ: largest distance between the CDFs of 10G, 40G and 100G at the same load",
        "the distribution is invariant to link speed",
        None,
        0.05,
        why="a distance is at least 0; lines 5 points of 1 % apart are one line in the figure",
    ),
    *(
        row
        for load in LOADS
        for row in (
            ascending(
                f"order-{100 * load:.0f}",
                f"{load:.0%} load: mean active flows by policy",
                "The result holds even more strongly with shortest remaining flow first (SRF) scheduling",
            ),
            as_said(
                f"fifo-{100 * load:.0f}",
                f"{load:.0%} load: mean active flows, FIFO / FQ",
                "with FIFO queuing [...] the number of active flows is much larger",
                "much",
                quick=True,
            ),
        )
    ),
    within(
        "few-to-85",
        "100G, FQ, loads to 85 %: fraction of time with more than 32 active flows",
        "significantly exceeds the number of queues only for loads above 85%",
        None,
        0.03,
        why="a fraction is at least 0; less than one part in thirty of the time is not seen in a CDF",
    ),
    within(
        "more-at-95",
        "100G, FQ, 95 % load: fraction of time with more than 32 active flows",
        "significantly exceeds the number of queues only for loads above 85%, and then only modestly",
        0.1,
        0.5,
        why="a tenth of the time is seen in a CDF; more than half of it would not be modest",
    ),
    within(
        "modest-at-95",
        "100G, FQ, 95 % load: median number of active flows",
        "and then only modestly",
        None,
        32,
        why="a number of flows is at least 0; modestly: for half of the time the queues are enough",
    ),
    ascending("grows", "100G, FQ: fraction of time with more than 32 active flows by load", "only for loads above 85%"),
    within(
        "srf",
        "100G, SRF, any load: fraction of time with more than 32 active flows",
        "The result holds even more strongly with shortest remaining flow first (SRF) scheduling",
        None,
        0.001,
        quick=True,
        why="a fraction is at least 0; a thirtieth of what fair queueing may have up to 85 %",
    ),
)


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: number of active flows, y: fraction of time with at most x; `mean` and `above` describe the whole series."""
    sizes = SizeDistribution.load(SIZES)
    frames = []
    for step, case in enumerate(cases := _cases()):
        runs.report("{policy}, {gbps}G, {load:.0%}, {arrivals}".format(**case), step / len(cases))
        flows = FLOWS[scale] * (POISSON_FACTOR if case["arrivals"] == "poisson" else 1) / (1 - case["load"])
        sigma = 0.0 if case["arrivals"] == "poisson" else SIGMA
        weights = []
        for trace in range(TRACES[scale]):
            rng = np.random.default_rng([4, case["gbps"], round(100 * case["load"]), round(sigma), trace])
            weights.append(active_flows(rng, sizes, case["policy"], case["gbps"], case["load"], sigma, round(flows)))
        frames.append(_frame(_average(weights), **case))
    return pl.concat(frames)


def _cases() -> list[dict[str, Any]]:
    """The cases of the figure, and Poisson arrivals for the comparison with M/G/1-PS."""
    drawn = itertools.product(["lognormal"], fluid.DISCIPLINES, GBPS, LOADS)
    law = itertools.product(["poisson"], ["FQ"], [100], POISSON_LOADS)
    return [dict(zip(("arrivals", "policy", "gbps", "load"), case)) for case in (*drawn, *law)]


def active_flows(
    rng: np.random.Generator, sizes: SizeDistribution, policy: str, gbps: int, load: float, sigma: float, n: int
) -> np.ndarray:
    """The fraction of time with 0, 1, 2, ... active flows; the same rng gives every policy the same trace."""
    work_us = np.asarray(sizes.sample(rng, n), float) * 8e-3 / gbps
    arrivals = fluid.offered(fluid.lognormal_gaps(rng, n, sigma), work_us, load)
    departures = fluid.DISCIPLINES[policy](arrivals, work_us)
    return fluid.occupancy(*fluid.population(arrivals, departures), WARM_UP * arrivals[-1], arrivals[-1])


def _average(distributions: list[np.ndarray]) -> np.ndarray:
    """The mean of distributions over 0, 1, 2, ..., which may end at different numbers."""
    longest = max(map(len, distributions))
    return np.mean([np.pad(weights, (0, longest - len(weights))) for weights in distributions], axis=0)


def _frame(weights: np.ndarray, points: int = 200, **what: Any) -> pl.DataFrame:
    """At most `points` points of a distribution's CDF, with its mean and the values for the claims."""
    cdf = np.cumsum(weights)
    x = np.unique(np.concatenate([np.arange(65), np.geomspace(1, len(cdf), points).astype(int)]))
    x = x[x < len(cdf)]
    series = f"{what['policy']}, {what['gbps']}G, {what['load']:.0%}, {what['arrivals']}"
    frame = pl.DataFrame({"series": series, "x": x, "y": np.minimum(cdf[x], 1.0)})
    return frame.with_columns(
        *(pl.lit(value).alias(name) for name, value in what.items()),
        pl.lit(fluid.mean(weights)).alias("mean"),
        pl.lit(fluid.quantile(weights, 0.99)).alias("p99"),
        pl.lit(fluid.above(weights, QUEUES)).alias("above"),
    )


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """M/G/1-PS for Poisson arrivals, the order of the policies, and the cases for which 32 queues suffice."""
    return {**_poisson(data), **_invariance(data), **_order(data), **_queues(data)}


def _poisson(data: pl.DataFrame) -> Numbers:
    poisson = data.filter(pl.col("arrivals") == "poisson")
    curves = {load: poisson.filter(pl.col("load") == load) for load in POISSON_LOADS}
    return {
        **{f"poisson-{100 * load:.0f}": curve["mean"][0] * (1 - load) / load for load, curve in curves.items()},
        "geometric": max(np.abs(curve["y"] - (1 - load ** (curve["x"] + 1))).max() for load, curve in curves.items()),
    }


def _invariance(data: pl.DataFrame) -> Numbers:
    fair = data.filter((pl.col("arrivals") == "lognormal") & (pl.col("policy") == "FQ") & (pl.col("x") <= 2 * QUEUES))
    gap = 0.0
    for load in LOADS:
        curves = fair.filter(pl.col("load") == load).pivot("gbps", index="x", values="y").drop("x")
        gap = max(gap, (curves.max_horizontal() - curves.min_horizontal()).to_numpy().max())
    return {"invariant": gap}


def _order(data: pl.DataFrame) -> Numbers:
    bursty = data.filter(pl.col("arrivals") == "lognormal")
    found: Numbers = {}
    for load in LOADS:
        means = {
            policy: bursty.filter((pl.col("policy") == policy) & (pl.col("load") == load))["mean"].to_numpy().mean()
            for policy in ("SRF", "FQ", "FIFO")
        }
        found |= {
            f"order-{100 * load:.0f}": {policy: means[policy] for policy in ("SRF", "FQ")},
            f"fifo-{100 * load:.0f}": means["FIFO"] / means["FQ"],
        }
    return found


def _queues(data: pl.DataFrame) -> Numbers:
    fair = data.filter((pl.col("arrivals") == "lognormal") & (pl.col("policy") == "FQ") & (pl.col("gbps") == 100))
    over = {load: fair.filter(pl.col("load") == load)["above"][0] for load in LOADS}
    srf = data.filter((pl.col("policy") == "SRF") & (pl.col("gbps") == 100))["above"].to_numpy().max()
    median = fair.filter((pl.col("load") == 0.95) & (pl.col("y") >= 0.5))["x"].to_numpy().min()
    return {
        "few-to-85": max(over[load] for load in LOADS if load <= 0.85),
        "more-at-95": over[0.95],
        "modest-at-95": median,
        "grows": {"85 %": over[0.85], "90 %": over[0.9], "95 %": over[0.95]},
        "srf": srf,
    }


def plot(data: pl.DataFrame) -> Any:
    """Policies in rows, link speeds in columns, loads as lines; the vertical bar is Tofino2's number of queues."""
    bursty = data.filter(pl.col("arrivals") == "lognormal")
    made, grid = figure(len(fluid.DISCIPLINES), len(GBPS), width=PAGE, height=5.2, sharey=True, sharex="row")
    for row, (policy, limit) in zip(grid, (("FQ", 100), ("SRF", 20), ("FIFO", 1e5))):
        for panel, gbps in zip(row, GBPS):
            for load, (colour, dash) in SHADES.items():
                curve = bursty.filter((pl.col("policy") == policy) & (pl.col("gbps") == gbps) & (pl.col("load") == load))
                steps = "steps-post" if policy == "SRF" else "default"
                panel.plot(curve["x"], curve["y"], ds=steps, color=colour, ls=dash, label=f"{load:.0%}")
            panel.set(ylim=(0, 1.02), title=f"{policy}, {gbps} Gbit/s")
            _axis(panel, policy, limit)
    for panel in grid[:, 0]:
        panel.set_ylabel("CDF (time)")
    for panel in grid[-1]:
        panel.set_xlabel("Active flows")
    grid[0, 0].text(QUEUES + 1.5, 0.08, "32 queues", fontsize=7.5)
    legend_above(made, grid[0, 0], columns=len(LOADS) + 1, title="Load")
    return made


def _axis(panel: Any, policy: str, limit: float) -> None:
    if policy == "FIFO":
        panel.set_xscale("symlog", linthresh=1)
        panel.set_xticks([0, 1, 10, 100, 1000, 10000, 100000])
    else:
        panel.axvline(QUEUES, color="0.35", lw=1.2)
    panel.set_xlim(0, limit)
