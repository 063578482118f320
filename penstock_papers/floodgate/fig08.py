"""Floodgate (CoNEXT 2021), figure 8: completion time of Poisson flows in the incast mix.

Section 6.1: four workloads, with DCQCN, TIMELY and HPCC, each alone, with Floodgate, and with its ideal design; see `_setup`.
The average and the 99th percentile, of HPCC the distribution. Of DCQCN also the victims of the incast, that is the flows to the
rack of its receiver that start while it lasts. At scale quick Memcached and Web Server alone.

The largest gains, those of Memcached, depend on how long its flows arrive: 6 us here, as the authors' 50000 flows do. The load
of 0.8 overloads the hosts' links with headers and ACKs, so that queues grow under every scheme, and the gain at the 99th
percentile is 34 if flows arrive for 100 us, 13 for 300 us.
"""

from typing import Any

import numpy as np
import polars as pl

from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import FROM_PAPER, OURS, Differs
from penstock_papers.floodgate import _mix as mix
from penstock_papers.floodgate import _setup as setup
from penstock_papers.floodgate._mix import STATISTICS, TRIO
from penstock_papers.floodgate._setup import CONTROLS, DCQCN, FLOODGATE, VARIANTS, WORKLOADS, scheme, value
from penstock_papers.sentences import Numbers, about, as_said, holds, within
from penstock_papers.style import PAGE, figure, legend_above, lettered, log_axis

TITLE = "Completion time of Poisson flows in the incast mix"
PAPER = "Floodgate, CoNEXT 2021, section 6.1, figure 8"
SMALL, LARGE = ("memcached", "web_server"), ("hadoop", "web_search")
VICTIMS = "victims of incast"
AVERAGE, MEDIAN = f"average of {VICTIMS}", f"median of {VICTIMS}"
LEGENDS = ("without", "with Floodgate", "with its ideal design")
AVERAGES, TAILS = "reduces the average FCTs by 10.1%-98.1%", "the 99th-tail latency is 1.1x - 207x lower"
GREATLY = "the FCT of victim flows of incast are greatly reduced"
LESS = {
    "DCQCN": "For Hadoop and Web Search workloads, the improvement is less obvious",
    "TIMELY": "Floodgate's improvement for TIMELY is similar to that for DCQCN",
    "HPCC": "the improvement on Memcached and Web Server workloads is more significant",
}
SEEDS = setup.LONG_SEEDS
DIFFERS = {
    "victims-ave-web_search": Differs(
        "every victim waits for 620 us less, as the medians say, beside an average of 1546 us: a factor of 1.40",
        "floodgate-victims",
        expected=(1.3, 1.5),
    ),
}
RANGE = "the range that the paper names"
CLAIMS = (
    *(
        within(
            f"never-worse-{id}",
            f"{what}: without / with Floodgate, smallest ({{}})",
            paper,
            0.99,
            quick=True,
            kind=OURS,
            why="where large flows dominate seeds differ by some per cent; a larger gain agrees",
        )
        for id, what, paper in (("avg", "average FCT", AVERAGES), ("p99", "p99 FCT", TAILS))
    ),
    within("least-avg", "smallest gain in average FCT ({})", AVERAGES, 1 / 0.899, 1 / 0.019, why=RANGE),
    within("least-p99", "smallest gain in p99 FCT ({})", TAILS, 1.1, 207, why=RANGE),
    about("best-avg", "largest gain in average FCT (Memcached: 6 us)", AVERAGES, 1 / 0.019),
    about("best-p99", "largest gain in p99 FCT (Memcached: 6 us)", TAILS, 207),
    as_said(
        "timely-ideal",
        "TIMELY, Web Server, p99 FCT: ideal / Floodgate",
        "a little larger than TIMELY+Floodgate",
        "slightly",
        said="a little",
    ),
    *(
        holds(
            f"small-{control.lower()}",
            f"{control}: gain of Memcached and Web Server over that of Hadoop and Web Search",
            LESS[control],
            "larger",
        ).at("paper")
        for control in CONTROLS
    ),
    *(
        as_said(
            f"victims-{panel[:3]}-{workload}",
            f"{WORKLOADS[workload]}, {panel}: DCQCN / Floodgate",
            GREATLY,
            "greatly",
            kind=kind,
        ).at("paper")
        for panel, kind in ((AVERAGE, FROM_PAPER), (MEDIAN, OURS))
        for workload in LARGE
    ),
)


def workloads(scale: str) -> tuple[str, ...]:
    """Those that are run at this scale."""
    return SMALL + LARGE if scale == "paper" else SMALL


def specs(scale: str) -> dict[str, Spec]:
    """One traffic per workload, nine schemes."""
    schemes = [scheme(control, variant) for control in CONTROLS for variant in VARIANTS]
    return {workload: setup.mix(schemes, workload, scale) for workload in workloads(scale)}


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: 0, y: us, a row per workload, scheme and statistic; and of HPCC x: us, y: share of the flows."""
    parts = []
    for workload in workloads(scale):
        for control in CONTROLS:
            for variant in VARIANTS:
                one = scheme(control, variant)
                label = setup.of(runs, workload, one)
                times = setup.fct(runs, label)
                parts += [setup.rows(panel, one.legend, [0], [time], workload) for panel, time in zip(STATISTICS, times)]
                if control == "HPCC":
                    parts.append(setup.rows("cdf", one.legend, *setup.cdf(setup.flows(runs, label)["fct"]), workload))
        for one in TRIO:
            hit = victims(runs, setup.of(runs, workload, one))
            parts += [
                setup.rows(AVERAGE, one.legend, [0], [hit.mean()], workload),
                setup.rows(MEDIAN, one.legend, [0], [hit.median()], workload),
            ]
    return pl.concat(parts)


def victims(runs: Runs, label: str) -> pl.Series:
    """Completion times of the flows to the rack of an incast's receiver that start before the incast has ended, us."""
    rack = (pl.col("dst") // setup.PER_RACK).alias("rack")
    event = (pl.col("start_ns") // 1e6).alias("event")
    incasts = (
        setup.flows(runs, label, "incast")
        .group_by(rack, event)
        .agg(pl.col("start_ns").min().alias("begin"), pl.col("finish_ns").max().alias("end"))
    )
    flows = setup.flows(runs, label, VICTIMS).select("fct", "start_ns", rack).sort("start_ns")
    hit = flows.join_asof(incasts.sort("begin"), left_on="start_ns", right_on="begin", by="rack", check_sortedness=False)
    return hit.filter(pl.col("start_ns") <= pl.col("end"))["fct"]


def gains(data: pl.DataFrame, panel: str, scale: str) -> dict[str, float]:
    """Time without Floodgate over time with, by control and workload."""
    return {
        f"{control} {name}": ratio
        for control in CONTROLS
        for name, ratio in mix.ratios(data, panel, scheme(control), scheme(control, "Floodgate"), workloads(scale)).items()
    }


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Average and tail are better everywhere, by factors within the paper's ranges; most where flows are small."""
    average, tail = (gains(data, panel, scale) for panel in STATISTICS)
    late = {name: value(data, STATISTICS[1], name, "web_server") for name in ("TIMELY+ideal", "TIMELY+Floodgate")}
    return {
        "never-worse-avg": setup.least(average),
        "never-worse-p99": setup.least(tail),
        "least-avg": setup.least(average),
        "least-p99": setup.least(tail),
        "best-avg": max(average.values()),
        "best-p99": max(tail.values()),
        "timely-ideal": late["TIMELY+ideal"] / late["TIMELY+Floodgate"],
        **(_large(data, average) if scale == "paper" else {}),
    }


def _large(data: pl.DataFrame, average: dict[str, float]) -> Numbers:
    """Large flows dominate Hadoop and Web Search, which hides what their victims gain."""
    found: Numbers = {}
    for control in CONTROLS:
        small = min(average[f"{control} {WORKLOADS[workload]}"] for workload in SMALL)
        large = max(average[f"{control} {WORKLOADS[workload]}"] for workload in LARGE)
        found[f"small-{control.lower()}"] = (small > large, f"{small:.3g} against {large:.3g}")
    for panel in (AVERAGE, MEDIAN):
        for workload, gain in zip(LARGE, mix.ratios(data, panel, DCQCN, FLOODGATE, LARGE).values()):
            found[f"victims-{panel[:3]}-{workload}"] = gain
    return found


def plot(data: pl.DataFrame) -> Any:
    """Bars for DCQCN and TIMELY above, distributions for HPCC below."""
    made, grid = figure(2, 4, width=PAGE, height=4.2, sharey="row")
    bars = [(control, panel) for control in ("DCQCN", "TIMELY") for panel in STATISTICS]
    for axes, (control, panel) in zip(grid[0], bars):
        mix.workload_bars(axes, data, panel, control, LEGENDS)
        log_axis(axes.yaxis)
    for axes in grid[1, len(mix.known(data)) :]:
        axes.set_visible(False)
    for axes, workload in zip(grid[1], mix.known(data)):
        mix.draw_cdf(axes, data, workload, [scheme("HPCC", variant) for variant in VARIANTS], LEGENDS)
        log_axis(axes.xaxis, lambda us, _: f"$10^{{{np.log10(us):.0f}}}$")
    grid[0, 0].set_ylabel("FCT (us)")
    grid[1, 0].set_ylabel("CDF")
    short = {"average": "average", "99th percentile": "p99"}
    lettered(grid.flat, [f"{c}, {short[p]}" for c, p in bars] + [f"HPCC, {name}" for name in WORKLOADS.values()])
    legend_above(made, grid[0, 0], columns=3)
    return made
