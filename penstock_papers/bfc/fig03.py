"""BFC (NSDI 2022), figure 3: how much the fair share of a long flow changes within an interval.

A long-lived flow shares one link with cross-traffic at 60 % average load, at 10, 40 and 100 Gbit/s, with sizes from the
Google, Facebook Hadoop and WebSearch workloads (section 2.1). With N(t) flows on a link of capacity C, the long one
included, the fair share is f(t) = C / N(t); its relative change over an interval I is |f(t+I) - f(t)| / f(t) (footnote
2), averaged here over the whole run.

Model: the link is an exact fair queue (processor sharing) with one permanent flow. Arrivals are lognormal with sigma 2,
as everywhere else in the paper. The text does not say which intervals were plotted; we draw 1 us to 1 ms.
"""

from typing import Any

import numpy as np
import polars as pl

from penstock_papers import fluid
from penstock_papers.bfc._workloads import GBPS, WORKLOADS, Workload
from penstock_papers.cache import Runs
from penstock_papers.sentences import Numbers, ascending
from penstock_papers.style import PAGE, figure, legend_above, lettered

TITLE = "Mean change of a long flow's fair share over an interval"
PAPER = "BFC, NSDI 2022, section 2.1, figure 3"
LOAD, SIGMA = 0.6, 2.0
FLOWS = {"quick": 100_000, "paper": 4_000_000}
INSTANTS = {"quick": 100_000, "paper": 1_000_000}
INTERVALS_US = (1, 2, 4, 8, 12, 16, 32, 64, 128, 256, 512, 1000)
RTT_US = 12  # the base round trip of figure 2, at which the claims are judged
WARM_UP = 0.1


CLAIMS = (
    *(
        ascending(
            f"faster-{load.name}",
            f"{load.legend}: change (%) over {RTT_US} us grows with link speed",
            "As link speeds increase [...] the fair-share rate changes more rapidly",
        )
        for load in WORKLOADS
    ),
    *(
        ascending(
            f"shorter-{gbps}g",
            f"{gbps}G: change (%) over {RTT_US} us grows as flows become shorter",
            "As [...] flows become shorter, the fair-share rate changes more rapidly",
        )
        for gbps in GBPS
    ),
)


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: interval in us, y: mean relative change in percent; one series per workload and link speed."""
    rows = []
    for step, (workload, gbps) in enumerate((workload, gbps) for workload in WORKLOADS for gbps in GBPS):
        runs.report(f"{workload.legend} at {gbps}G", step / (len(WORKLOADS) * len(GBPS)))
        rng = np.random.default_rng([3, step])
        times, flows = flows_on_link(rng, workload, gbps, FLOWS[scale])
        starts = np.sort(rng.uniform(times[0], times[-1] - max(INTERVALS_US), INSTANTS[scale]))
        for interval in INTERVALS_US:
            change = 100 * mean_change(times, flows, starts, interval)
            rows.append((f"{workload.legend}, {gbps}G", float(interval), change, workload.name, gbps))
    return pl.DataFrame(rows, schema=["series", "x", "y", "workload", "gbps"], orient="row")


def flows_on_link(rng: np.random.Generator, workload: Workload, gbps: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """N(t) as a step function after the warm-up: times in us, and the number of flows, the long one included."""
    work_us = np.asarray(workload.sizes.sample(rng, n), float) * 8e-3 / gbps
    arrivals = fluid.offered(fluid.lognormal_gaps(rng, n, SIGMA), work_us, LOAD)
    departures = fluid.fair_queueing(arrivals, work_us, permanent=1)
    times, cross = fluid.population(arrivals, departures)
    kept = (times >= WARM_UP * arrivals[-1]) & (times <= arrivals[-1])
    return times[kept], cross[kept] + 1


def mean_change(times: np.ndarray, flows: np.ndarray, starts: np.ndarray, interval: float) -> float:
    """Mean of |f(t+I) - f(t)| / f(t) = |N(t) / N(t+I) - 1| over the instants t."""
    before = flows[np.searchsorted(times, starts, side="right") - 1]
    after = flows[np.searchsorted(times, starts + interval, side="right") - 1]
    return float(np.abs(before / after - 1).mean())


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """At one round trip, faster links and shorter flows both make the fair share change more."""
    at = {(row["workload"], row["gbps"]): row["y"] for row in data.filter(pl.col("x") == RTT_US).iter_rows(named=True)}
    faster = {f"faster-{load.name}": {f"{gbps}G": at[load.name, gbps] for gbps in GBPS} for load in WORKLOADS}
    shorter = {f"shorter-{gbps}g": {load.legend: at[load.name, gbps] for load in reversed(WORKLOADS)} for gbps in GBPS}
    return faster | shorter


def plot(data: pl.DataFrame) -> Any:
    """One panel per link speed, one line per workload."""
    made, axes = figure(1, len(GBPS), width=PAGE, height=2.3, sharey=True)
    for panel, gbps in zip(axes, GBPS):
        for load, marker in zip(WORKLOADS, "os^"):
            curve = data.filter((pl.col("workload") == load.name) & (pl.col("gbps") == gbps))
            panel.plot(curve["x"], curve["y"], color=load.colour, ls=load.dash, marker=marker, label=load.legend)
        panel.axvline(RTT_US, color="0.5", lw=0.8, ls=(0, (2, 2)))
        panel.set(xscale="log", xlabel="Time interval (µs)", xlim=(0.8, 1250))
    axes[0].set_ylim(bottom=-2)
    axes[0].text(RTT_US * 0.85, 0.97, "RTT", transform=axes[0].get_xaxis_transform(), ha="right", va="top", size=7.5)
    axes[0].set_ylabel("Mean change of\nfair-share rate (%)")
    lettered(axes, [f"{gbps} Gbit/s" for gbps in GBPS])
    legend_above(made, axes[0], columns=3)
    return made
