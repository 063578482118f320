"""BFC (NSDI 2022), figure 12: slowdown of long and of short flows as the load goes from 50 to 95 %.

Section 6.3, "Load": Facebook distribution, lognormal arrivals, no incast, on the set-up of section 6.2.1, see
`_fabric`; BFC with 32 and with 128 queues per port. (a) Average slowdown of flows > 3 MB, (b) 99th percentile of flows
< 3 KB, and, ours, (c) stability: by how much the number of outstanding flows grows from the second quarter of the run
to the last, relative to Ideal-FQ with the same flows. Bursts alone move the number by up to a third; a scheme whose
number grows much more than Ideal-FQ's is unstable. ExpressPass, which the paper shows as well, is not covered yet.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from penstock.experiments import frames
from penstock.experiments.bfc import _fabric as fabric
from penstock.experiments.bfc._fabric import (
    BFC,
    BFC_128,
    CORE,
    DCQCN,
    DCQCN_WIN,
    DCTCP,
    HPCC,
    HPCC_80,
    IDEAL,
    UPLINKS,
    named,
    value,
)
from penstock.experiments.cache import Runs, Spec
from penstock.experiments.claims import MORE, Claim, Differs, ascending, holds, within
from penstock.experiments.style import PAGE, figure, legend_above, lettered

TITLE = "Slowdown of long and short flows by load, Facebook"
PAPER = "BFC, NSDI 2022, figure 12"
LOADS = {"quick": (0.6, 0.9), "paper": (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)}
DURATION = {"quick": "2ms", "paper": "50ms"}
SIZES = "facebook_hadoop"
BFC_32 = replace(BFC, legend="BFC, 32 queues")
SCHEMES = (DCQCN, DCTCP, HPCC, BFC_32, BFC_128, IDEAL)
SHOWN = {CORE: (*SCHEMES, DCQCN_WIN, HPCC_80), UPLINKS: SCHEMES}
_FEW = Differs("few ports run out of 32 queues; how few depends on ECMP and the choice of empty queues", "bfc-fig12")
DIFFERS = {
    "short-95": _FEW.expecting(1.2, 1.5),
    "queues-95": _FEW.expecting(1.0, 1.2),
    "dcqcn-stable": fabric.DCQCN_DIFFERS,
}
INSTANTS = 200  # of the number of outstanding flows


def name(load: float, of: str = CORE) -> str:
    """The label of the runs of a load by this definition."""
    return named(f"load{100 * load:.0f}", of)


def specs(scale: str) -> dict[str, Spec]:
    """A traffic per load by both definitions of load."""
    return {
        name(load, of): fabric.spec(shown, DURATION[scale], SIZES, load, of=of)
        for of, shown in SHOWN.items()
        for load in LOADS[scale]
    }


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: load in per cent (panels long, short, growth) or time in ms (panel outstanding); y: as the panel says."""
    parts = []
    for load in LOADS[scale]:
        for scheme in SHOWN:
            parts += [_one(runs, load, scheme), fabric.totals(runs, name(load), scheme)]
    return pl.concat(parts)


def _one(runs: Runs, load: float, scheme: fabric.Scheme) -> pl.DataFrame:
    traffic, x = name(load), [100 * load]
    numbers = fabric.statistics(runs, traffic, scheme, SIZES)
    times, flows = outstanding(runs, traffic, scheme)
    return pl.concat(
        [
            numbers,
            fabric.points(traffic, scheme, "long", x, [value(numbers, traffic, scheme, "long avg")]),
            fabric.points(traffic, scheme, "short", x, [value(numbers, traffic, scheme, "short p99")]),
            fabric.points(traffic, scheme, "outstanding", times, flows),
            fabric.points(traffic, scheme, "growth", x, [growth(flows)]),
        ]
    )


def outstanding(runs: Runs, traffic: str, scheme: fabric.Scheme) -> tuple[np.ndarray, np.ndarray]:
    """Instants in ms, and how many flows had started and not finished then."""
    label = fabric.of(runs, traffic, scheme)
    flows = runs.scan(label, "flows").select("start_ns", "finish_ns").collect()
    times = np.linspace(0, runs.summary(label)["duration_ns"], INSTANTS + 1)[1:]
    started = np.searchsorted(np.sort(flows["start_ns"].drop_nulls().to_numpy()), times, side="right")
    done = np.searchsorted(np.sort(flows["finish_ns"].drop_nulls().to_numpy()), times, side="right")
    return times / 1e6, (started - done).astype(float)


def growth(flows: np.ndarray) -> float:
    """Mean number of flows in the last quarter of the run over that in the second."""
    quarter = len(flows) // 4
    return float(flows[-quarter:].mean() / max(1.0, flows[quarter : 2 * quarter].mean()))


def claims(data: pl.DataFrame, scale: str) -> list[Claim]:
    """The loads at which HPCC is unstable and BFC runs out of queues, and the effect of more queues."""
    if scale == "quick":
        return _ordering(data)
    return [*_ordering(data), *_stability(data), *_tails(data)]


def _at(data: pl.DataFrame, load: float, scheme: fabric.Scheme, panel: str) -> float:
    return value(data, name(load), scheme, panel)


def _ordering(data: pl.DataFrame) -> list[Claim]:
    """At 60 % everywhere; at 90 % BFC is still below the end-to-end schemes."""
    found = []
    for load in (0.6, 0.9):
        tail = {scheme.legend: _at(data, load, scheme, "short") for scheme in (BFC_128, HPCC, DCTCP, DCQCN)}
        found.append(
            holds(
                f"best-{100 * load:.0f}",
                f"{load:.0%}: short flows, p99: BFC 128 below HPCC, DCTCP, DCQCN",
                "lower tail latency",
                frames.text(tail),
                min(tail, key=tail.__getitem__) == BFC_128.legend,
                "BFC smallest",
            )
        )
    return found


def relative(data: pl.DataFrame, load: float, scheme: fabric.Scheme) -> float:
    """The growth of the number of outstanding flows over that of Ideal-FQ: about 1 for a stable scheme."""
    return _at(data, load, scheme, "growth") / _at(data, load, IDEAL, "growth")


def _stability(data: pl.DataFrame) -> list[Claim]:
    what, bound = "growth of the outstanding flows over Ideal-FQ's", 1.1
    loads = LOADS["paper"]
    others = max(relative(data, load, scheme) for load in loads for scheme in (DCTCP, BFC_32, BFC_128))
    return [
        within(
            "hpcc-stable",
            f"HPCC, 50 to 70 %, largest: {what}",
            "supports loads up to 70 %",
            max(relative(data, load, HPCC) for load in loads if load <= 0.7),
            None,
            bound,
            why="fewer outstanding flows are stable, too",
        ),
        within(
            "hpcc-unstable",
            f"HPCC, 80 to 95 %, smallest: {what}",
            "at higher loads grows without bound",
            min(relative(data, load, HPCC) for load in loads if load >= 0.8),
            bound,
            None,
            why="the paper says without bound",
        ),
        within(
            "others-stable",
            f"DCTCP and BFC, all loads, largest: {what}",
            "stable across all load values",
            others,
            None,
            bound,
            why="fewer outstanding flows are stable, too",
        ),
        within(
            "dcqcn-stable",
            f"DCQCN, all loads, largest: {what}",
            "stable across all load values",
            max(relative(data, load, DCQCN) for load in loads),
            None,
            bound,
            why="fewer outstanding flows are stable, too",
        ),
    ]


def _tails(data: pl.DataFrame) -> list[Claim]:
    low = max(_at(data, load, BFC_32, "short") for load in (0.5, 0.6, 0.7, 0.8))
    best = all(
        _at(data, load, BFC_32, "long") < min(_at(data, load, scheme, "long") for scheme in (HPCC, DCTCP, DCQCN))
        for load in (0.5, 0.6, 0.7, 0.8)
    )
    ratio = _at(data, 0.95, BFC_32, "short") / _at(data, 0.95, BFC_128, "short")
    long = _at(data, 0.95, BFC_32, "long") / _at(data, 0.95, BFC_128, "long")
    return [
        within("short-80", "BFC 32 up to 80 %: short flows, p99", "close to the perfect value of 1", low, 1, 1.5),
        holds(
            "long-80",
            "up to 80 %: flows > 3 MB, average: BFC 32 below HPCC, DCTCP, DCQCN",
            "higher throughput for long flows",
            "yes" if best else "no",
            best,
            "at every load",
            quick=False,
        ),
        within(
            "short-95",
            "short flows, p99: BFC 32 at 95 % / at 80 %",
            "degrades substantially at 95 %",
            _at(data, 0.95, BFC_32, "short") / _at(data, 0.8, BFC_32, "short"),
            1.5,
            None,
            why=MORE,
        ),
        *(
            ascending(
                f"order-{100 * load:.0f}",
                f"{load:.0%}: short flows, p99: BFC by its queues",
                "BFC 128 better at load >= 90 %",
                {q.legend: _at(data, load, q, "short") for q in (BFC_128, BFC_32)},
                quick=False,
            )
            for load in (0.9, 0.95)
        ),
        within(
            "queues-95", "95 %: short flows, p99: BFC 32 / BFC 128", "BFC 32 degrades substantially", ratio, 1.2, None, why=MORE
        ),
        within(
            "long-95",
            "95 %: flows > 3 MB, average: BFC 32 / BFC 128",
            "impact of collisions limited for long flows",
            long,
            None,
            1.5,
            why="below 1 there is no impact",
        ),
    ]


def plot(data: pl.DataFrame) -> Any:
    """Long flows, short flows, and the growth of the number of outstanding flows, by load."""
    made, axes = figure(1, 3, width=PAGE, height=2.7)
    loads = [load for load in LOADS["paper"] if name(load) in set(data["traffic"])]
    for scheme in SHOWN:
        for panel, what in zip(axes, ("long", "short")):
            panel.plot(
                [100 * load for load in loads],
                [_at(data, load, scheme, what) for load in loads],
                label=scheme.legend,
                **scheme.style,
            )
        axes[2].plot([100 * load for load in loads], [relative(data, load, scheme) for load in loads], **scheme.style)
    for panel, text in zip(axes, ("FCT slowdown, average", "FCT slowdown, p99", "Growth over Ideal-FQ's")):
        panel.set(xlabel="Load (%)", ylabel=text)
    for panel in axes[:2]:
        fabric.log_axis(panel.yaxis, None, (1, 2, 5))
    lettered(axes, ("flows > 3 MB", "flows < 3 KB", "outstanding flows"))
    legend_above(made, axes[0], columns=3)
    return made
