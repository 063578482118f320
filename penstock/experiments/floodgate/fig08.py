"""Floodgate (CoNEXT 2021), figure 8: average and 99th-percentile completion time of Poisson flows in the incast mix.

Section 6.1: four workloads, with DCQCN, TIMELY and HPCC, each alone, with Floodgate, and with its ideal design; see `_setup`.
"""

from typing import Any

import numpy as np
import polars as pl

from penstock.experiments.cache import Runs, Spec
from penstock.experiments.claims import Claim, Differs, holds, within
from penstock.experiments.floodgate import _setup as setup
from penstock.experiments.floodgate._setup import CONTROLS, VARIANTS, WORKLOADS, scheme, value
from penstock.experiments.style import GREEN, ORANGE, PAGE, SKY, figure, legend_above, lettered, log_axis

TITLE = "Completion time of Poisson flows in the incast mix"
PAPER = "Floodgate, CoNEXT 2021, figure 8"
PANELS = ("average", "99th percentile")
DIFFERS: dict[str, Differs] = {}


def specs(scale: str) -> dict[str, Spec]:
    """One traffic per workload, nine schemes."""
    schemes = [scheme(control, variant) for control in CONTROLS for variant in VARIANTS]
    return {workload: setup.mix(schemes, workload, scale) for workload in WORKLOADS}


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: 0; y: us; a row per workload, scheme and statistic."""
    frames = []
    for workload in WORKLOADS:
        for control in CONTROLS:
            for variant in VARIANTS:
                one = scheme(control, variant)
                times = setup.fct(runs, setup.of(runs, workload, one))
                frames += [setup.rows(panel, one.legend, [0], [time], workload) for panel, time in zip(PANELS, times)]
    return pl.concat(frames)


def gains(data: pl.DataFrame, panel: str, variant: str) -> dict[str, float]:
    """Time without over time with, by control and workload."""
    return {
        f"{control} {WORKLOADS[workload]}": value(data, panel, control, workload)
        / value(data, panel, f"{control}+{variant}", workload)
        for control in CONTROLS for workload in WORKLOADS
    }  # fmt: skip


def claims(data: pl.DataFrame, scale: str) -> list[Claim]:
    """Average and tail are better everywhere, by factors within the paper's ranges; most where flows are small."""
    average, tail = gains(data, "average", "Floodgate"), gains(data, "99th percentile", "Floodgate")
    found = [
        holds("never-worse-avg", "average FCT: without / with Floodgate, every workload and control",
              "1.11 .. 53 (-10.1 .. -98.1 %)", setup.text(average), min(average.values()) >= 0.99, "all >= 0.99", quick=False),
        holds("never-worse-p99", "p99 FCT: without / with Floodgate, every workload and control", "1.1 .. 207",
              setup.text(tail), min(tail.values()) >= 0.99, "all >= 0.99", quick=False),
        within("best-avg", "largest gain in average FCT", "-98.1 %, a factor of 53", max(average.values()), 3, 150),
        within("best-p99", "largest gain in p99 FCT", "207", max(tail.values()), 10, 600),
    ]  # fmt: skip
    for control in CONTROLS:
        of_small = min(average[f"{control} {WORKLOADS[w]}"] for w in ("memcached", "web_server"))
        of_large = max(average[f"{control} {WORKLOADS[w]}"] for w in ("hadoop", "web_search"))
        found.append(holds(f"small-{control.lower()}",
                           f"{control}: gain of Memcached and Web Server over that of Hadoop and Web Search",
                           "the improvement is less obvious for large flows", f"{of_small:.3g} against {of_large:.3g}",
                           of_small > of_large, "larger", quick=False))  # fmt: skip
    return found


def plot(data: pl.DataFrame) -> Any:
    """A panel per control and statistic, three bars per workload."""
    made, grid = figure(2, 3, width=PAGE, height=3.8, sharey=True)
    for row, panel in zip(grid, PANELS):
        for axes, control in zip(row, CONTROLS):
            for i, (variant, colour) in enumerate(zip(VARIANTS, (ORANGE, GREEN, SKY))):
                legend = f"{control}+{variant}" if variant else control
                heights = [value(data, panel, legend, workload) for workload in WORKLOADS]
                axes.bar(np.arange(4) + 0.27 * (i - 1), heights, 0.25, color=colour,
                         label=("without", "Floodgate", "ideal")[i])  # fmt: skip
            axes.set_xticks(range(4), [name.replace(" ", "\n") for name in WORKLOADS.values()])
            log_axis(axes.yaxis)
            axes.grid(visible=False, axis="x")
        row[0].set_ylabel("FCT (us)")
    lettered(grid.flat, [f"{control}, {panel}" for panel in PANELS for control in CONTROLS])
    legend_above(made, grid[0, 0], columns=3)
    return made
