"""Floodgate (CoNEXT 2021), figure 10: the most of its buffer that any switch used in the incast mix, DCQCN.

Section 6.1, see `_setup`. What virtual output queues hold is included.
"""

from typing import Any

import polars as pl

from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import Differs
from penstock_papers.floodgate import _mix as mix
from penstock_papers.floodgate import _setup as setup
from penstock_papers.floodgate._mix import TRIO
from penstock_papers.floodgate._setup import DCQCN, FLOODGATE, WORKLOADS, value
from penstock_papers.sentences import Numbers, as_said, ascending, within
from penstock_papers.style import COLUMN, figure, legend_above

TITLE = "Maximum buffer occupancy in the incast mix"
PAPER = "Floodgate, CoNEXT 2021, section 6.1, figure 10"
PANEL = "buffer"
SEEDS = setup.SEEDS
DIFFERS: dict[str, Differs] = {}
REDUCED, RANGE = "the maximum buffer occupancy is reduced 2.4x-3.7x", "the range that the paper names"
CLAIMS = (
    *(
        row
        for workload, name in WORKLOADS.items()
        for row in (
            within(f"factor-{workload}", f"{name}: DCQCN / Floodgate", REDUCED, 2.4, 3.7, why=RANGE),
            ascending(
                f"order-{workload}",
                f"{name}: order of the schemes (MB)",
                "the ideal approach can reduce the buffer occupancy more effectively",
            ),
        )
    ),
    *(
        as_said(
            f"larger-{workload}",
            f"Floodgate: {name} / Memcached",
            "buffer occupancy of Web Server, Hadoop, and Web search is a little larger than Memcached",
            "slightly",
            said="a little",
        )
        for workload, name in WORKLOADS.items()
        if workload != "memcached"
    ),
)


def specs(scale: str) -> dict[str, Spec]:
    """The incast mix of every workload."""
    return mix.specs(scale)


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: 0; y: MB; a row per workload and scheme."""
    return mix.numbers(runs, PANEL, setup.max_buffer_mb)


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Floodgate needs less, its ideal design still less; least with Memcached, which adds next to nothing."""
    mb = {
        workload: {scheme.legend: value(data, PANEL, scheme.legend, workload) for scheme in reversed(TRIO)}
        for workload in WORKLOADS
    }
    least, *others = (by_scheme[FLOODGATE.legend] for by_scheme in mb.values())
    return {
        **{f"factor-{workload}": by_scheme[DCQCN.legend] / by_scheme[FLOODGATE.legend] for workload, by_scheme in mb.items()},
        **{f"order-{workload}": by_scheme for workload, by_scheme in mb.items()},
        **{f"larger-{workload}": other / least for workload, other in zip(list(WORKLOADS)[1:], others)},
    }


def plot(data: pl.DataFrame) -> Any:
    """Three bars per workload."""
    made, axes = figure(width=COLUMN, height=2.3)
    mix.workload_bars(axes, data, PANEL)
    axes.set_ylabel("maximum buffer (MB)")
    legend_above(made, axes, columns=3)
    return made
