"""Floodgate (CoNEXT 2021), figure 21: completion time of the incasts' flows in the incast mix, DCQCN.

Appendix A.1, the runs of section 6.1, see `_setup`. The paper ran everything ten times; here five seeds.
"""

from typing import Any

import polars as pl

from penstock.experiments.cache import Runs, Spec
from penstock.experiments.claims import OURS, Claim, Differs, as_said, within
from penstock.experiments.floodgate import _mix as mix
from penstock.experiments.floodgate import _setup as setup
from penstock.experiments.floodgate._mix import STATISTICS, TRIO
from penstock.experiments.floodgate._setup import DCQCN, FLOODGATE, IDEAL, WORKLOADS
from penstock.experiments.style import PAGE, figure, legend_above, lettered

TITLE = "Completion time of incast flows in the incast mix"
PAPER = "Floodgate, CoNEXT 2021, appendix A.1, figure 21"
INCREASED = "For ideal design, the incast FCT is slightly increased"
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
            within(
                f"no-harm-{panel[:3]}",
                f"{panel}: Floodgate / DCQCN, largest ({max(ours, key=ours.__getitem__)})",
                "Floodgate does not downgrade the performance of incast flows",
                max(ours.values()),
                high=1.05,
                quick=True,
                why="within what seeds differ; what is faster is not downgraded",
            ),
            *(
                as_said(
                    f"ideal-{panel[:3]}-{end.__name__}",
                    f"{panel}, {end.__name__} of the workloads: ideal / DCQCN ({end(ideal, key=ideal.__getitem__)})",
                    INCREASED,
                    end(ideal.values()),
                    "slightly",
                )
                for end in (min, max)
            ),
        ]
    ours, ideal = mix.ratios(data, "average", DCQCN, FLOODGATE), mix.ratios(data, "average", IDEAL, DCQCN)
    found += [
        within(
            "improved",
            "average, mean of the workloads: DCQCN / Floodgate",
            "a little improvement is observed",
            sum(ours.values()) / len(ours),
            1.0,
            1.2,
            why='"a little" as "slightly": a factor from 1 to 1.2',
        ),
        as_said(
            "increased",
            "average, mean of the workloads: ideal / DCQCN",
            INCREASED,
            sum(ideal.values()) / len(ideal),
            "slightly",
            kind=OURS,
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
