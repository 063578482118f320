"""BFC (NSDI 2022), figure 25: NICs that do not respond to backpressure, and sampling of recirculations.

Appendix A.8 on the set-up of figure 11a, see `_fabric`: Facebook distribution, 55 % load and 5 % 100-to-1 incast. "BFC - NIC":
NICs ignore pauses and cap the packets in flight of a flow at one bandwidth-delay product. "BFC + sampling": half of the packets
are recirculated, the others count neither in the flow table nor for pauses; the hardware has no other limit. (a) 99th percentile
of the slowdown, (b) CDF of the buffer in use at a switch; ours, (c): at ToR switches, of which the text speaks.
"""

from typing import Any

import numpy as np
import polars as pl

from penstock_papers.bfc import _fabric as fabric
from penstock_papers.bfc import _options as options
from penstock_papers.bfc._fabric import BFC, IDEAL, Scheme, value
from penstock_papers.bfc._options import BFC_NIC, BFC_SAMPLING
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import OURS, Differs
from penstock_papers.sentences import Numbers, as_said, within
from penstock_papers.style import PAGE, figure, legend_above, lettered, size_text

TITLE = "NICs that ignore pauses, and sampled recirculation, Facebook with incast"
PAPER = "BFC, NSDI 2022, appendix A.8, figure 25"
DURATION = {"quick": "2ms", "paper": "50ms"}
SEEDS = fabric.SEEDS
SIZES = "facebook_hadoop"
TRAFFIC = "incast"
SCHEMES = (BFC, BFC_NIC, BFC_SAMPLING, IDEAL)
SWITCH_MB = 12  # buffer of a switch
DIFFERS: dict[str, Differs] = {}
SIMILAR = "the frequency of collisions and hence the FCTs are similar to the orignal BFC"
MODERATE = "BFC experiences moderate increased buffering"
BELOW = "the tail buffer occupancy is still below the buffer size and there are no drops"
IDENTICAL = "BFC + Sampling achieves nearly identical tail latency FCT slowdowns and switch buffer occupancy as the orginal BFC"
FEWER = "With sampling, fewer than 0.04% of the packets were retransmitted due to packet reordering"
GROUPS = {"short": "flows < 3 KB", "long": "flows > 3 MB"}


_NEAR = "nearly identical is within 10 %"
CLAIMS = (
    *(as_said(f"nic-{group}", f"{what}, p99: BFC - NIC / BFC", SIMILAR, "similar") for group, what in GROUPS.items()),
    within(
        "nic-buffer",
        "buffer in use at a ToR, p99: BFC - NIC / BFC",
        MODERATE,
        1,
        2,
        why="increased is more; moderate is no more than double",
    ),
    within(
        "nic-peak",
        "BFC - NIC: largest buffer in use at a switch (MB)",
        BELOW,
        0,
        SWITCH_MB,
        why="the buffer size, which no switch exceeds",
        quick=True,
        kind=OURS,
    ),
    within("nic-drops", "BFC - NIC: packets dropped", BELOW, 0, 0, why="no drops", quick=True),
    *(
        within(f"sampling-{group}", f"{what}, p99: BFC + sampling / BFC", IDENTICAL, 0.9, 1.1, why=_NEAR)
        for group, what in GROUPS.items()
    ),
    within("sampling-buffer", "buffer in use at a ToR, p99: BFC + sampling / BFC", IDENTICAL, 0.9, 1.1, why=_NEAR),
    within("sampling-resent", "BFC + sampling: payload sent again (%)", FEWER, 0, 0.04, why="the paper's bound"),
)


def specs(scale: str) -> dict[str, Spec]:
    """The traffic of figure 11a."""
    return {TRAFFIC: fabric.spec(SCHEMES, DURATION[scale], SIZES, incast=0.05)}


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: flow size or buffer; y: slowdown or CDF; panels tor (CDF), peak (MB) and resent (per cent of the payload)."""
    return pl.concat(
        part for scheme in SCHEMES for part in (fabric.everything(runs, TRAFFIC, scheme, SIZES), *_more(runs, scheme))
    )


def _more(runs: Runs, scheme: Scheme) -> list[pl.DataFrame]:
    label = fabric.of(runs, TRAFFIC, scheme)
    tors = runs.scan(label, "nodes").filter(pl.col("tier") == 1).select(switch="node")
    samples = runs.scan(label, "switches").join(tors, on="switch").select(pl.col("buffer_bytes") / 1e6).collect().to_series()
    share = np.linspace(0, 1, fabric.POINTS)
    flows = runs.scan(label, "flows").select(pl.col("bytes", "retransmitted_bytes").sum()).collect().row(0)
    return [
        fabric.points(TRAFFIC, scheme, "tor", np.quantile(samples.to_numpy(), share), share),
        fabric.points(TRAFFIC, scheme, "tor p99", [0], [samples.quantile(0.99, "linear")]),
        fabric.points(TRAFFIC, scheme, "peak", [0], [runs.summary(label)["max_buffer_bytes"] / 1e6]),
        fabric.points(TRAFFIC, scheme, "resent", [0], [100 * flows[1] / max(1, flows[0])]),
    ]


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """What NICs that ignore pauses change, and that sampling changes nothing."""

    def over(scheme: Scheme, panel: str) -> float:
        return value(data, TRAFFIC, scheme, panel) / value(data, TRAFFIC, BFC, panel)

    return {
        **{f"nic-{group}": over(BFC_NIC, f"{group} p99") for group in GROUPS},
        "nic-buffer": over(BFC_NIC, "tor p99"),
        "nic-peak": value(data, TRAFFIC, BFC_NIC, "peak"),
        "nic-drops": value(data, TRAFFIC, BFC_NIC, "drops"),
        **{f"sampling-{group}": over(BFC_SAMPLING, f"{group} p99") for group in GROUPS},
        "sampling-buffer": over(BFC_SAMPLING, "tor p99"),
        "sampling-resent": value(data, TRAFFIC, BFC_SAMPLING, "resent"),
    }


def plot(data: pl.DataFrame) -> Any:
    """Slowdown by size, and buffers."""
    made, grid = figure(1, 3, width=PAGE, height=2.6)
    options.lines(grid[0], data, TRAFFIC, SCHEMES, "p99")
    options.slowdown_axes(grid[0], size_text, "FCT slowdown, p99")
    grid[0].set_xlabel("Flow size")
    for axes, panel in zip(grid[1:], ("buffer", "tor")):
        options.lines(axes, data, TRAFFIC, SCHEMES[:-1], panel, marker=None)
        axes.set(xlabel="Buffer in use (MB)", ylabel="CDF", ylim=(0, 1.02), xlim=(0, None))
    lettered(grid, ("55 % + 5 % incast", "all switches", "ToR switches"))
    legend_above(made, grid[0], columns=len(SCHEMES))
    return made
