"""BFC (NSDI 2022), figure 2: cumulative bytes contributed by different flow sizes for three industry workloads.

Each point is the fraction of all bytes sent that belong to flows smaller than a threshold. The vertical lines are the
bandwidth-delay products of 10, 40 and 100 Gbit/s at a round trip of 12 us: section 2, trend 2. Nothing is drawn at
random: the sizes are read as piecewise-linear distributions, which is how the paper's simulator samples them, so the
byte-weighted CDF is exact. Sources of the sizes: the distributions' own CSV files (Google and Facebook Hadoop are
Homa's W3 and W4, WebSearch is DCTCP's).
"""

from typing import Any

import numpy as np
import polars as pl

from penstock_papers.bfc._workloads import GBPS, WORKLOADS, bdp_bytes
from penstock_papers.cache import Runs
from penstock_papers.claims import OURS
from penstock_papers.sentences import Numbers, ascending, within
from penstock_papers.style import figure, legend_above

TITLE = "Cumulative bytes contributed by flows of different sizes"
PAPER = "BFC, NSDI 2022, section 2, figure 2"
SHORT = 100_000  # bytes: "flows that are shorter than 100 KB represent nearly half of all bytes"


CLAIMS = (
    within(
        "google-short",
        "Google: share of bytes in flows < 100 KB",
        "flows that are shorter than 100 KB represent nearly half of all bytes",
        0.4,
        0.6,
        why="nearly a half: a fifth of it either way",
        quick=True,
    ),
    ascending("shorter-at-100g", "share of bytes in flows that fit into the BDP at 100 Gbit/s (150 KB)", "Most flows are short"),
    ascending(
        "faster-links",
        "Google: share of bytes in flows that fit into the BDP grows with link speed",
        "As link speed increases, a growing fraction of traffic belongs to flows that complete quickly",
        kind=OURS,
    ),
)


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: flow size in bytes, y: fraction of all bytes in flows up to that size."""
    points = 400 if scale == "paper" else 100
    marks = [SHORT, *(bdp_bytes(gbps) for gbps in GBPS)]
    sizes = np.union1d(np.geomspace(100, 50e6, points), marks)
    return pl.concat(
        pl.DataFrame({"series": workload.legend, "x": sizes, "y": workload.sizes.byte_weighted_cdf(sizes)})
        for workload in WORKLOADS
    )


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Half of Google's bytes are in short flows, and more of its bytes than of the others' are."""
    at_bdp = share(data, bdp_bytes(100))
    return {
        "google-short": share(data, SHORT)["Google"],
        "shorter-at-100g": {workload.legend: at_bdp[workload.legend] for workload in reversed(WORKLOADS)},
        "faster-links": {f"{gbps}G": share(data, bdp_bytes(gbps))["Google"] for gbps in GBPS},
    }


def share(data: pl.DataFrame, size: float) -> dict[str, float]:
    """The fraction of bytes in flows up to `size`, by workload."""
    at = data.filter(pl.col("x") == size)
    return dict(zip(at["series"], at["y"]))


def plot(data: pl.DataFrame) -> Any:
    """Byte-weighted CDFs over a logarithmic size, and the three BDPs."""
    made, axes = figure(height=2.3)
    for workload in WORKLOADS:
        curve = data.filter(pl.col("series") == workload.legend)
        axes.plot(curve["x"], curve["y"], color=workload.colour, ls=workload.dash, label=workload.legend)
    for gbps, side in zip(GBPS, ("right", "right", "left")):
        axes.axvline(bdp_bytes(gbps), color="0.35", lw=0.8, ls=(0, (2, 2)))
        away = 1.12 if side == "left" else 1 / 1.12
        axes.text(bdp_bytes(gbps) * away, 0.97, f"{gbps}G", ha=side, va="top", fontsize=7.5)
    axes.set(xscale="log", xlim=(100, 50e6), ylim=(0, 1), xlabel="Flow size (bytes)", ylabel="Fraction of bytes (CDF)")
    legend_above(made, axes, columns=3)
    return made
