"""BFC (NSDI 2022), figure 16: 99th percentile of the slowdown with end-to-end congestion control beside the backpressure.

Appendix A.1, on the two traffics of figure 11 (see `_fabric`): Facebook at 55 % load and 5 % 100-to-1 incast, and at 60 %.
BFC 32 (CC) is `bfc+rtt_target`, Algorithm 1 with RTTTarget 2.5 times the base RTT.
"""

from typing import Any

import polars as pl

from penstock.experiments.bfc import _fabric as fabric
from penstock.experiments.bfc._cc import BFC_CC
from penstock.experiments.bfc._fabric import BFC, value
from penstock.experiments.cache import Runs, Spec
from penstock.experiments.claims import OURS, Claim, about, ascending, within
from penstock.experiments.style import PAGE, figure, legend_above, lettered, log_axis, size_text

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


def specs(scale: str) -> dict[str, Spec]:
    """Two traffics with and without Algorithm 1."""
    return {name: fabric.spec(SCHEMES, DURATION[scale], SIZES, incast=incast) for name, incast in TRAFFIC.items()}


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: flow size or buffer; y: slowdown or CDF, by traffic and panel."""
    return pl.concat(fabric.everything(runs, traffic, scheme, SIZES) for traffic in TRAFFIC for scheme in SCHEMES)


def claims(data: pl.DataFrame, scale: str) -> list[Claim]:
    """Long flows stay, short ones and the buffer gain in the presence of incast."""
    short = {scheme.legend: value(data, "incast", scheme, "short p99") for scheme in (BFC_CC, BFC)}
    peak = {scheme.legend: _peak(data, scheme) for scheme in (BFC_CC, BFC)}
    found = [
        within(
            f"long-{traffic}",
            f"{NAMES[traffic]}: flows > 3 MB, p99: {BFC_CC.legend} / BFC",
            LONG,
            value(data, traffic, BFC_CC, "long p99") / value(data, traffic, BFC, "long p99"),
            0.9,
            1.1,
            why="the 10 % that the paper names",
        )
        for traffic in TRAFFIC
    ]
    shown = (("short", "short flows (< 3 KB), p99", short), ("buffer", "largest buffer in use (MB)", peak))
    for id, what, numbers in shown:
        gain = 1 - numbers[BFC_CC.legend] / numbers["BFC"]
        found += [
            about(id, f"with incast: {what}: less with {BFC_CC.legend}, share", BETTER, gain, 0.3),
            ascending(f"{id}-order", f"with incast: {what}", BETTER, numbers, quick=id == "buffer", kind=OURS),
        ]
    return [*found, fabric.no_drops(data, "incast", SCHEMES)]


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
