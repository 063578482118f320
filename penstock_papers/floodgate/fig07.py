"""Floodgate (CoNEXT 2021), figure 7: distributions of the flow sizes of the four workloads.

Nothing is simulated: the sizes are those of the authors' files, read as piecewise-linear distributions, as their simulator
samples them, and both CDFs are exact. Left as in the paper, flows; right what the text says of them, bytes. Memcached is the
authors' file with their generalised Pareto tail up to p = 0.999; the sources of the others are in the distributions' CSV files.

A flow is small if it is below one bandwidth-delay product, as in section 1: "small flows whose size is smaller than one
Bandwidth-Delay-Product"; "the base BDP is 64KB" (section 6). How few flows "dominate the average flow size" is measured without
such a bound: by the fewest flows that have half of all bytes. The text has no number, so that exponential sizes, which have no
tail, are the measure: half of their bytes are in 18.7 % of the flows, q (1 - ln q) = 1/2. An MTU is the payload of the authors'
packets, 1460 B. The means in the authors' files, by which their simulator computes the load, are those of the step sampler.
"""

from typing import Any

import numpy as np
import polars as pl

from penstock_net import SizeDistribution
from penstock_papers import frames
from penstock_papers.cache import Runs
from penstock_papers.claims import OURS
from penstock_papers.floodgate._setup import PACKETS, SIZES, WORKLOADS
from penstock_papers.sentences import Numbers, ascending, within
from penstock_papers.style import (
    BLUE,
    DASHES,
    GREEN,
    ORANGE,
    PAGE,
    RED,
    figure,
    legend_above,
    lettered,
    log_axis,
    size_text,
)

TITLE = "Distributions of the flow sizes of four workloads"
PAPER = "Floodgate, CoNEXT 2021, section 6, figure 7"
BDP, KB, MTU = 64_000, 1000, int(str(PACKETS["mtu"]))
MIXED = ("web_server", "hadoop", "web_search")  # "the left three workloads"
EXPONENTIAL = 0.187  # of the flows have half of the bytes
MEANS = {"memcached": 185.0, "web_server": 62_874.27, "hadoop": 127_796.6, "web_search": 1744.70 * 1460}  # the authors' files
LOOKS = dict(zip(WORKLOADS, ((BLUE, DASHES[0]), (ORANGE, DASHES[1]), (GREEN, DASHES[2]), (RED, DASHES[3]))))
MOST = "more than a half; the other end is all"
LARGE = "large flows mixed with small flows where a small ratio of large flows dominates the average flow size"
KEYS = {name: name.replace("_", "-") for name in WORKLOADS}
CUT, ROUNDED = (0.05, "the file's is that without a cut at p = 0.999"), (0.001, "rounded to a thousandth")
CLAIMS = (
    within(
        "memcached-kb",
        "Memcached: flows smaller than 1 KB",
        "most of the flows are smaller than 1KB",
        0.5,
        1,
        why=MOST,
        quick=True,
    ),
    within(
        "memcached-mtu",
        "Memcached: flows smaller than one MTU",
        "Memcached workload is mostly composed of flows smaller than one MTU",
        0.5,
        1,
        why=MOST,
        quick=True,
    ),
    within(
        "memcached-small",
        "Memcached: flows smaller than one BDP, 64 KB",
        "Memcached is composed of small flows",
        1,
        1,
        why="of nothing else",
        quick=True,
    ),
    *(
        row
        for name in MIXED
        for row in (
            within(
                f"mixed-{KEYS[name]}",
                f"{WORKLOADS[name]}: flows smaller than one BDP, 64 KB",
                LARGE,
                0.05,
                0.95,
                why="mixed: of small and of large flows there is at least one in twenty",
                quick=True,
            ),
            within(
                f"few-{KEYS[name]}",
                f"{WORKLOADS[name]}: fewest flows with half of all bytes",
                LARGE,
                high=EXPONENTIAL,
                why="fewer than of exponential sizes, which have no tail; no ratio is too small",
                quick=True,
            ),
            within(
                f"bytes-{KEYS[name]}",
                f"{WORKLOADS[name]}: bytes in flows larger than one BDP, 64 KB",
                "large flows dominate, by another measure",
                0.5,
                1,
                why=MOST,
                quick=True,
                kind=OURS,
            ),
        )
    ),
    *(
        within(
            f"mean-{KEYS[name]}",
            f"{WORKLOADS[name]}: mean size, step sampler, bytes",
            f"the authors' file: {mean:g}",
            mean * (1 - off),
            mean * (1 + off),
            why=why,
            quick=True,
            kind=OURS,
        )
        for (name, mean), (off, why) in zip(MEANS.items(), (CUT, ROUNDED, ROUNDED, ROUNDED))
    ),
    ascending("order", "mean size, bytes", "the larger its flows the further right its line", kind=OURS),
)


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """Panels "flows" and "bytes": x bytes, y the fraction of either in flows up to x; "below": of flows smaller than x; "half":
    the fewest flows with half of all bytes; "mean" and "steps": the mean in bytes by the two samplers."""
    points = 400 if scale == "paper" else 100
    sizes = np.union1d(np.geomspace(1, 40e6, points), [KB, MTU, BDP])
    marks = np.array([KB, MTU, BDP])
    parts = []
    for name, legend in WORKLOADS.items():
        here = SizeDistribution.load(SIZES[name])
        parts += [
            frames.rows("flows", legend, sizes, here.cdf(sizes)),
            frames.rows("bytes", legend, sizes, here.byte_weighted_cdf(sizes)),
            frames.rows("below", legend, marks, here.cdf(marks - 1)),
            frames.rows("half", legend, [0.5], [fewest(here)]),
            frames.rows("mean", legend, [0], [here.mean()]),
            frames.rows("steps", legend, [0], [SizeDistribution.load(SIZES[name], interpolate=False).mean()]),
        ]
    return pl.concat(parts)


def fewest(sizes: SizeDistribution, share: float = 0.5) -> float:
    """The smallest fraction of flows, the largest ones, that has this share of all bytes."""
    low, high = 1, int(sizes.bytes[-1])
    while low < high:  # the size of the smallest flow of them
        middle = (low + high) // 2
        low, high = (low, middle) if sizes.byte_weighted_cdf(middle) >= 1 - share else (middle + 1, high)
    too_many = float(sizes.byte_weighted_cdf(low)) - (1 - share)
    return 1 - float(sizes.cdf(low)) + too_many * sizes.mean() / low


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Memcached's flows are small; in the others few flows have most of the bytes. Ours: the means of the authors' files."""

    def of(name: str, panel: str, x: float = 0.0) -> float:
        return frames.value(data, panel=panel, series=WORKLOADS[name], x=x)

    return {
        "memcached-kb": of("memcached", "below", KB),
        "memcached-mtu": of("memcached", "below", MTU),
        "memcached-small": of("memcached", "below", BDP),
        **{f"mixed-{KEYS[name]}": of(name, "below", BDP) for name in MIXED},
        **{f"few-{KEYS[name]}": of(name, "half", 0.5) for name in MIXED},
        **{f"bytes-{KEYS[name]}": 1 - of(name, "bytes", BDP) for name in MIXED},
        **{f"mean-{KEYS[name]}": of(name, "steps") for name in MEANS},
        "order": {WORKLOADS[name]: of(name, "mean") for name in MEANS},
    }


def plot(data: pl.DataFrame) -> Any:
    """CDFs of flows and of bytes over a logarithmic size, and the sizes that the text names."""
    made, both = figure(1, 2, width=PAGE, height=2.6)
    for axes, panel in zip(both, ("flows", "bytes")):
        for name, legend in WORKLOADS.items():
            line, (colour, dash) = frames.chosen(data, panel=panel, series=legend), LOOKS[name]
            axes.plot(line["x"], line["y"], color=colour, ls=dash, label=legend)
        for size, text in ((KB, "1 KB"), (BDP, "BDP")):
            axes.axvline(size, color="0.35", lw=0.8, ls=(0, (2, 2)))
            height = 0.03 if panel == "flows" else 0.15  # where no line is
            axes.text(size / 1.15, height, text, ha="right", va="bottom", fontsize=7.5, rotation=90, color="0.35")
        log_axis(axes.xaxis, size_text)
        axes.set(xlim=(1, 40e6), ylim=(0, 1.01), xlabel="Flow size", ylabel=f"CDF of {panel}")
    lettered(both, ("flows", "bytes in flows up to this size"))
    legend_above(made, both[0], columns=4)
    return made
