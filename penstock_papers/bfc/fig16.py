"""BFC (NSDI 2022), figure 16: 99th percentile of the slowdown with end-to-end congestion control beside the backpressure.

Appendix A.1, on the two traffics of figure 11 (see `_fabric`): Facebook at 55 % load and 5 % 100-to-1 incast, and at 60 %.
BFC 32 (CC) is `bfc+rtt_target`, Algorithm 1 with RTTTarget 2.5 times the base RTT.
"""

from typing import Any

import polars as pl

from penstock_papers.bfc import _fabric as fabric
from penstock_papers.bfc._cc import BFC_CC
from penstock_papers.bfc._fabric import BFC, value
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import OURS
from penstock_papers.sentences import Numbers, about, ascending, within
from penstock_papers.style import PAGE, figure, legend_above, lettered, log_axis, size_text

TITLE = "BFC with end-to-end congestion control, Facebook"
PAPER = "BFC, NSDI 2022, appendix A.1, figure 16"
DURATION = {"quick": "1ms", "paper": "50ms"}
SEEDS = fabric.SEEDS
SIZES = "facebook_hadoop"
TRAFFIC = {"incast": 0.05, "plain": 0.0}
NAMES = {"incast": "55 % + 5 % incast", "plain": "60 %"}
SCHEMES = (BFC, BFC_CC)
LONG = "The FCTs of long flows are similar to that of the original BFC (within 10%)"
BETTER = "improves the 99th percentile FCT of short flows and the peak buffer occupancy by 30%"


CLAIMS = (
    *(
        within(
            f"long-{traffic}",
            f"{where}: flows > 3 MB, p99: {BFC_CC.legend} / BFC",
            LONG,
            0.9,
            1.1,
            why="the 10 % that the paper names",
        )
        for traffic, where in NAMES.items()
    ),
    *(
        row
        for id, what in (("short", "short flows (< 3 KB), p99"), ("buffer", "largest buffer in use (MB)"))
        for row in (
            about(id, f"with incast: {what}: less with {BFC_CC.legend}, share", BETTER, 0.3),
            ascending(f"{id}-order", f"with incast: {what}", BETTER, quick=id == "buffer", kind=OURS),
        )
    ),
    fabric.no_drops(),
)


def specs(scale: str) -> dict[str, Spec]:
    """Two traffics with and without Algorithm 1."""
    return {name: fabric.spec(SCHEMES, DURATION[scale], SIZES, incast=incast) for name, incast in TRAFFIC.items()}


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: flow size or buffer; y: slowdown or CDF, by traffic and panel."""
    return pl.concat(fabric.everything(runs, traffic, scheme, SIZES) for traffic in TRAFFIC for scheme in SCHEMES)


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Long flows stay, short ones and the buffer gain in the presence of incast."""
    short = {scheme.legend: value(data, "incast", scheme, "short p99") for scheme in (BFC_CC, BFC)}
    peak = {scheme.legend: _peak(data, scheme) for scheme in (BFC_CC, BFC)}
    return {
        **{f"long-{each}": value(data, each, BFC_CC, "long p99") / value(data, each, BFC, "long p99") for each in TRAFFIC},
        "short": 1 - short[BFC_CC.legend] / short["BFC"],
        "short-order": short,
        "buffer": 1 - peak[BFC_CC.legend] / peak["BFC"],
        "buffer-order": peak,
        "drops": fabric.dropped(data, "incast", SCHEMES),
    }


def _peak(data: pl.DataFrame, scheme: fabric.Scheme) -> float:
    return float(fabric.curve(data, "incast", scheme.label, "buffer")["x"].max())  # type: ignore[arg-type]


def plot(data: pl.DataFrame) -> Any:
    """Slowdown by size, with incast and without; the buffer with incast."""
    made, panels = figure(1, 3, width=PAGE, height=2.5)
    for axes, traffic, panel in zip(panels, ("incast", "plain", "incast"), ("p99", "p99", "buffer")):
        for scheme in SCHEMES:
            line = fabric.curve(data, traffic, scheme.label, panel).drop_nulls()
            axes.plot(line["x"], line["y"], **{**scheme.style, "marker": None}, label=scheme.legend)
    for axes in panels[:2]:
        log_axis(axes.xaxis, size_text)
        log_axis(axes.yaxis, None, (1, 2, 5))
        axes.set(xlabel="Flow size", ylabel="FCT slowdown, p99")
    panels[2].set(xlabel="Buffer in use at a switch (MB)", ylabel="CDF", ylim=(0, 1.02))
    lettered(panels, (*NAMES.values(), "buffer, 5 % incast"))
    legend_above(made, panels[0], columns=2)
    return made
