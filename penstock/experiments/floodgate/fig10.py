"""Floodgate (CoNEXT 2021), figure 10: the most of its buffer that any switch used in the incast mix, DCQCN.

Section 6.1, see `_setup`. What virtual output queues hold is included.
"""

from typing import Any

import polars as pl

from penstock.experiments.cache import Runs, Spec
from penstock.experiments.claims import Claim, Differs, ascending, within
from penstock.experiments.floodgate import _mix as mix
from penstock.experiments.floodgate import _setup as setup
from penstock.experiments.floodgate._mix import TRIO
from penstock.experiments.floodgate._setup import DCQCN, FLOODGATE, WORKLOADS, value
from penstock.experiments.style import COLUMN, figure, legend_above

TITLE = "Maximum buffer occupancy in the incast mix"
PAPER = "Floodgate, CoNEXT 2021, section 6.1, figure 10"
PANEL = "buffer"
SEEDS = setup.SEEDS
DIFFERS = {
    "factor-memcached": Differs(
        "DCQCN fills a ToR until PFC begins, at 17.3 MB with alpha = 2; with the authors' alpha = 1 it is 3.2",
        "floodgate-alpha",
        expected=(3.8, 4.1),
    ),
}


def specs(scale: str) -> dict[str, Spec]:
    """The incast mix of every workload."""
    return mix.specs(scale)


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: 0; y: MB; a row per workload and scheme."""
    return mix.numbers(runs, PANEL, setup.max_buffer_mb)


def claims(data: pl.DataFrame, scale: str) -> list[Claim]:
    """Floodgate needs less, its ideal design still less; least with Memcached, which adds next to nothing."""
    found = []
    for workload, gain in zip(WORKLOADS, mix.ratios(data, PANEL, DCQCN, FLOODGATE).values()):
        name = WORKLOADS[workload]
        paper, why = "the maximum buffer occupancy is reduced 2.4x-3.7x", "the range that the paper names"
        found.append(within(f"factor-{workload}", f"{name}: DCQCN / Floodgate", paper, gain, 2.4, 3.7, why=why))
        mb = {scheme.legend: value(data, PANEL, scheme.legend, workload) for scheme in reversed(TRIO)}
        paper = "the ideal approach can reduce the buffer occupancy more effectively"
        found.append(ascending(f"order-{workload}", f"{name}: order of the schemes (MB)", paper, mb))
    least, *others = (value(data, PANEL, FLOODGATE.legend, workload) for workload in WORKLOADS)
    for workload, other in zip(list(WORKLOADS)[1:], others):
        found.append(
            within(
                f"larger-{workload}",
                f"Floodgate: {WORKLOADS[workload]} / Memcached",
                "buffer occupancy of Web Server, Hadoop, and Web search is a little larger than Memcached",
                other / least,
                1.0,
                1.2,
                why='"a little" as "slightly": a factor from 1 to 1.2',
            )
        )
    return found


def plot(data: pl.DataFrame) -> Any:
    """Three bars per workload."""
    made, axes = figure(width=COLUMN, height=2.3)
    mix.workload_bars(axes, data, PANEL)
    axes.set_ylabel("maximum buffer (MB)")
    legend_above(made, axes, columns=3)
    return made
