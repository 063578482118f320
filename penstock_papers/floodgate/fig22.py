"""Floodgate (CoNEXT 2021), figure 22: completion time of Poisson flows when there is no incast, DCQCN.

Appendix A.2: the Poisson flows of section 6.1 alone, between all hosts; see `_setup`. At scale
quick without Web Search.
"""

from typing import Any

import polars as pl

from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import OURS, Differs
from penstock_papers.floodgate import _mix as mix
from penstock_papers.floodgate import _setup as setup
from penstock_papers.floodgate._mix import STATISTICS, TRIO
from penstock_papers.floodgate._setup import DCQCN, FLOODGATE, IDEAL, WORKLOADS, value
from penstock_papers.sentences import Numbers, as_said, within
from penstock_papers.style import PAGE, figure, legend_above, lettered, log_axis

TITLE = "Completion time without incast"
PAPER = "Floodgate, CoNEXT 2021, appendix A.2, figure 22"
WORSE = "The performance of DCQCN+ideal is slightly worse than DCQCN because of the overhead of credit"
SEEDS = setup.LONG_SEEDS
DIFFERS: dict[str, Differs] = {}
SAME = "the performance of DCQCN+Floodgate is almost the same as DCQCN"
CLAIMS = (
    *(as_said(f"ideal-{panel[:3]}", f"{panel}, mean of the workloads: ideal / DCQCN", WORSE, "slightly") for panel in STATISTICS),
    *(
        row
        for panel in STATISTICS
        for end in ("min", "max")
        for row in (
            within(
                f"same-{panel[:3]}-{end}",
                f"{panel}, {end} of the workloads: Floodgate / DCQCN ({{}})",
                SAME,
                0.95,
                1.05,
                quick=True,
                why="5 % either way is almost the same",
            ),
            as_said(
                f"ideal-{panel[:3]}-{end}", f"{panel}, {end} of the workloads: ideal / DCQCN ({{}})", WORSE, "slightly", kind=OURS
            ),
        )
    ),
    within(
        "voqs",
        "Floodgate: most virtual output queues in use at a switch, any workload",
        "no non-incast flows are wrongly recognized as incast",
        0,
        0,
        quick=True,
        why="a queue in use is a flow recognised as incast",
    ),
)


def specs(scale: str) -> dict[str, Spec]:
    """Poisson flows of every workload."""
    return {w: setup.spec(TRIO, [setup.poisson(w, exclude=())], setup.DURATION[scale][w]) for w in workloads(scale)}


def workloads(scale: str) -> list[str]:
    """Those that are run at this scale."""
    return list(WORKLOADS)[: 4 if scale == "paper" else 3]


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: 0; y: us, or virtual output queues in use; a row per workload, scheme and statistic."""
    parts = [mix.numbers(runs, "VOQs", lambda runs, label: float(setup.max_voqs(runs, label)), workloads(scale))]
    for workload in workloads(scale):
        for scheme in TRIO:
            times = setup.fct(runs, setup.of(runs, workload, scheme))
            parts += [setup.rows(panel, scheme.legend, [0], [y], workload) for panel, y in zip(STATISTICS, times)]
    return pl.concat(parts)


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Floodgate costs nothing, its ideal design a little."""
    found: Numbers = {}
    for panel in STATISTICS:
        for name, scheme in (("same", FLOODGATE), ("ideal", IDEAL)):
            ratios = mix.ratios(data, panel, scheme, DCQCN)
            found |= {f"{name}-{panel[:3]}-min": setup.least(ratios), f"{name}-{panel[:3]}-max": setup.most(ratios)}
        found[f"ideal-{panel[:3]}"] = setup.mean_ratio(mix.ratios(data, panel, IDEAL, DCQCN))
    voqs = [value(data, "VOQs", FLOODGATE.legend, workload) for workload in mix.known(data)]
    return {**found, "voqs": max(voqs)}


def plot(data: pl.DataFrame) -> Any:
    """Three bars per workload."""
    made, axes = figure(1, 2, width=PAGE, height=2.2, sharey=True)
    for panel, statistic in zip(axes, STATISTICS):
        mix.workload_bars(panel, data, statistic)
        log_axis(panel.yaxis)
    axes[0].set_ylabel("FCT (us)")
    lettered(axes, STATISTICS)
    legend_above(made, axes[0], columns=3)
    return made
