"""Floodgate (CoNEXT 2021), figure 21: completion time of the incasts' flows in the incast mix, DCQCN.

Appendix A.1, the runs of section 6.1, see `_setup`. The paper ran everything ten times; here five seeds.
"""

from typing import Any

import polars as pl

from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import OURS, Differs
from penstock_papers.floodgate import _mix as mix
from penstock_papers.floodgate import _setup as setup
from penstock_papers.floodgate._mix import STATISTICS, TRIO
from penstock_papers.floodgate._setup import DCQCN, FLOODGATE, IDEAL, WORKLOADS
from penstock_papers.sentences import Numbers, as_said, within
from penstock_papers.style import PAGE, figure, legend_above, lettered

TITLE = "Completion time of incast flows in the incast mix"
PAPER = "Floodgate, CoNEXT 2021, appendix A.1, figure 21"
INCREASED = "For ideal design, the incast FCT is slightly increased"
SEEDS = setup.SEEDS
DIFFERS: dict[str, Differs] = {}
NOT_WORSE = "Floodgate does not downgrade the performance of incast flows"
CLAIMS = (
    *(
        within(
            f"no-harm-{panel[:3]}",
            f"{panel}: Floodgate / DCQCN, largest ({{}})",
            NOT_WORSE,
            high=1.05,
            quick=True,
            why="within what seeds differ; what is faster is not downgraded",
        )
        for panel in STATISTICS
    ),
    *(
        as_said(f"ideal-{panel[:3]}", f"{panel}, mean of the workloads: ideal / DCQCN", INCREASED, "slightly")
        for panel in STATISTICS
    ),
    *(
        as_said(
            f"ideal-{panel[:3]}-{end}", f"{panel}, {end} of the workloads: ideal / DCQCN ({{}})", INCREASED, "slightly", kind=OURS
        )
        for panel in STATISTICS
        for end in ("min", "max")
    ),
    as_said(
        "improved",
        "average, mean of the workloads: DCQCN / Floodgate",
        "a little improvement is observed",
        "slightly",
        said="a little",
    ),
)


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


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Floodgate does not harm incast flows and rather helps them; the ideal design harms them a little."""
    found: Numbers = {}
    for panel in STATISTICS:
        ours, ideal = (mix.ratios(data, panel, scheme, DCQCN) for scheme in (FLOODGATE, IDEAL))
        found |= {
            f"no-harm-{panel[:3]}": setup.most(ours),
            f"ideal-{panel[:3]}": setup.mean_ratio(ideal),
            f"ideal-{panel[:3]}-min": setup.least(ideal),
            f"ideal-{panel[:3]}-max": setup.most(ideal),
        }
    return {**found, "improved": setup.mean_ratio(mix.ratios(data, "average", DCQCN, FLOODGATE))}


def plot(data: pl.DataFrame) -> Any:
    """Three bars per workload."""
    made, axes = figure(1, 2, width=PAGE, height=2.2)
    for panel, statistic in zip(axes, STATISTICS):
        mix.workload_bars(panel, data, statistic)
        panel.set_ylabel("FCT (us)")
    lettered(axes, STATISTICS)
    legend_above(made, axes[0], columns=3)
    return made
