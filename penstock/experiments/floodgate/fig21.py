"""Floodgate (CoNEXT 2021), figure 21: completion time of the incasts' flows in the incast mix, DCQCN.

Appendix A.1, the runs of section 6.1, see `_setup`. The paper ran everything ten times; here five seeds.
"""

from typing import Any

import polars as pl

from penstock.experiments import frames
from penstock.experiments.cache import Runs, Spec
from penstock.experiments.claims import Claim, Differs, holds, within
from penstock.experiments.floodgate import _mix as mix
from penstock.experiments.floodgate import _setup as setup
from penstock.experiments.floodgate._mix import STATISTICS, TRIO
from penstock.experiments.floodgate._setup import DCQCN, FLOODGATE, IDEAL, WORKLOADS
from penstock.experiments.style import PAGE, figure, legend_above, lettered

TITLE = "Completion time of incast flows in the incast mix"
PAPER = "Floodgate, CoNEXT 2021, figure 21"
SEEDS = setup.SEEDS
DIFFERS: dict[str, Differs] = {}


def specs(scale: str) -> dict[str, Spec]:
    """The incast mix of every workload."""
    return {workload: setup.mix(TRIO, workload, scale) for workload in WORKLOADS}


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: 0; y: us; a row per workload, scheme and statistic."""
    parts = []
    for workload in WORKLOADS:
        for scheme in TRIO:
            times = setup.fct(runs, setup.of(runs, workload, scheme), "incast")
            parts += [setup.rows(panel, scheme.legend, [0], [y], workload) for panel, y in zip(STATISTICS, times)]
    return pl.concat(parts)


def claims(data: pl.DataFrame, scale: str) -> list[Claim]:
    """Floodgate does not harm incast flows and rather helps them; the ideal design harms them a little."""
    found = []
    for panel in STATISTICS:
        ours, ideal = (mix.ratios(data, panel, scheme, DCQCN) for scheme in (FLOODGATE, IDEAL))
        found += [
            holds(
                f"no-harm-{panel[:3]}",
                f"{panel}: Floodgate / DCQCN",
                "not downgraded",
                frames.text(ours),
                max(ours.values()) <= 1.05,
                "all <= 1.05",
            ),
            holds(
                f"ideal-{panel[:3]}",
                f"{panel}: ideal / DCQCN",
                "slightly increased",
                frames.text(ideal),
                max(ideal.values()) <= 1.3,
                "all <= 1.3",
            ),
        ]
    ours, ideal = (mix.ratios(data, "average", scheme, DCQCN) for scheme in (FLOODGATE, IDEAL))
    found += [
        within(
            "improved",
            "average, mean of the workloads: Floodgate / DCQCN",
            "a little improvement",
            sum(ours.values()) / len(ours),
            0.8,
            1.0,
        ),
        within(
            "increased",
            "average, mean of the workloads: ideal / DCQCN",
            "slightly increased",
            sum(ideal.values()) / len(ideal),
            1.0,
            1.2,
        ),
    ]
    return found


def plot(data: pl.DataFrame) -> Any:
    """Three bars per workload."""
    made, axes = figure(1, 2, width=PAGE, height=2.2)
    for panel, statistic in zip(axes, STATISTICS):
        mix.workload_bars(panel, data, statistic)
        panel.set_ylabel("FCT (us)")
    lettered(axes, STATISTICS)
    legend_above(made, axes[0], columns=3)
    return made
