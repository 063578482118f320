"""BFC (NSDI 2022), figure 12: slowdown of long and of short flows as the load goes from 50 to 95 %.

Section 6.3, "Load": Facebook distribution, lognormal arrivals, no incast, on the set-up of section 6.2.1, see
`_fabric`; BFC with 32 and with 128 queues per port. (a) Average slowdown of flows > 3 MB, (b) 99th percentile of flows
< 3 KB, and, ours, (c) how many flows are outstanding by the end of the run over those at its middle: a scheme is
unstable when that number keeps growing. ExpressPass, which the paper shows as well, is not covered yet.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from penstock.experiments.bfc import _fabric as fabric
from penstock.experiments.bfc._fabric import BFC, BFC_128, DCQCN, DCTCP, HPCC, IDEAL, value
from penstock.experiments.cache import Runs, Spec
from penstock.experiments.claims import Claim, ascending, holds, within
from penstock.experiments.style import PAGE, figure, legend_above, lettered

TITLE = "Slowdown of long and short flows by load, Facebook"
PAPER = "BFC, NSDI 2022, figure 12"
LOADS = {"quick": (0.6, 0.9), "paper": (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)}
DURATION = {"quick": "2ms", "paper": "50ms"}
SIZES = "facebook_hadoop"
BFC_32 = replace(BFC, legend="BFC, 32 queues")
SHOWN = (DCQCN, DCTCP, HPCC, BFC_32, BFC_128, IDEAL)
INSTANTS = 200  # of the number of outstanding flows


def name(load: float) -> str:
    """The label of a load's runs."""
    return f"load{100 * load:.0f}"


def specs(scale: str) -> dict[str, Spec]:
    """A traffic per load, all schemes."""
    return {name(load): fabric.spec(SHOWN, DURATION[scale], SIZES, load) for load in LOADS[scale]}


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: load in per cent (panels long, short, growth) or time in ms (panel outstanding); y: as the panel says."""
    frames = []
    for load in LOADS[scale]:
        for scheme in SHOWN:
            frames += [_one(runs, load, scheme), fabric.totals(runs, name(load), scheme)]
    return pl.concat(frames)


def _one(runs: Runs, load: float, scheme: fabric.Scheme) -> pl.DataFrame:
    traffic, x = name(load), [100 * load]
    numbers = fabric.statistics(runs, traffic, scheme, SIZES)
    times, flows = outstanding(runs, traffic, scheme)
    return pl.concat([
        numbers,
        fabric.points(traffic, scheme, "long", x, [value(numbers, traffic, scheme, "long avg")]),
        fabric.points(traffic, scheme, "short", x, [value(numbers, traffic, scheme, "short p99")]),
        fabric.points(traffic, scheme, "outstanding", times, flows),
        fabric.points(traffic, scheme, "growth", x, [growth(flows)]),
    ])  # fmt: skip


def outstanding(runs: Runs, traffic: str, scheme: fabric.Scheme) -> tuple[np.ndarray, np.ndarray]:
    """Instants in ms, and how many flows had started and not finished then."""
    label = fabric.of(runs, traffic, scheme)
    flows = runs.scan(label, "flows").select("start_ns", "finish_ns").collect()
    times = np.linspace(0, runs.summary(label)["duration_ns"], INSTANTS + 1)[1:]
    started = np.searchsorted(np.sort(flows["start_ns"].drop_nulls().to_numpy()), times, side="right")
    done = np.searchsorted(np.sort(flows["finish_ns"].drop_nulls().to_numpy()), times, side="right")
    return times / 1e6, (started - done).astype(float)


def growth(flows: np.ndarray) -> float:
    """Mean number of flows in the last quarter of the run over that in the second: about 1 once a scheme is stable."""
    quarter = len(flows) // 4
    return float(flows[-quarter:].mean() / max(1.0, flows[quarter:2 * quarter].mean()))


def claims(data: pl.DataFrame, scale: str) -> list[Claim]:
    """Where HPCC is unstable, where BFC runs out of queues, and what more of them do."""
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
        found.append(holds(f"best-{100 * load:.0f}", f"{load:.0%}: short flows, p99: BFC 128 below HPCC, DCTCP, DCQCN",
                           "lower tail latency", fabric.text(tail), min(tail, key=tail.__getitem__) == BFC_128.legend,
                           "BFC smallest"))  # fmt: skip
    return found


def _stability(data: pl.DataFrame) -> list[Claim]:
    stable = max(_at(data, load, HPCC, "growth") for load in (0.5, 0.6, 0.7))
    others = max(_at(data, load, scheme, "growth") for load in LOADS["paper"] for scheme in SHOWN if scheme != HPCC)
    return [
        within("hpcc-stable", "HPCC up to 70 %: outstanding flows, last quarter over second quarter",
               "stable up to 70 %", stable, None, 1.5),
        within("hpcc-unstable", "HPCC at 80 %: outstanding flows, last quarter over second quarter",
               "grows without bound above 70 %", _at(data, 0.8, HPCC, "growth"), 1.5, None),
        within("hpcc-unstable-95", "HPCC at 95 %: outstanding flows, last quarter over second quarter",
               "grows without bound above 70 %", _at(data, 0.95, HPCC, "growth"), 1.5, None),
        within("others-stable", "all others, all loads: outstanding flows, last quarter over second quarter",
               "stable across all load values", others, None, 1.5),
    ]  # fmt: skip


def _tails(data: pl.DataFrame) -> list[Claim]:
    low = max(_at(data, load, BFC_32, "short") for load in (0.5, 0.6, 0.7, 0.8))
    best = all(
        _at(data, load, BFC_32, "long") < min(_at(data, load, scheme, "long") for scheme in (HPCC, DCTCP, DCQCN))
        for load in (0.5, 0.6, 0.7, 0.8)
    )
    ratios = {load: _at(data, load, BFC_32, "short") / _at(data, load, BFC_128, "short") for load in (0.9, 0.95)}
    long = _at(data, 0.95, BFC_32, "long") / _at(data, 0.95, BFC_128, "long")
    return [
        within("short-80", "BFC 32 up to 80 %: short flows, p99", "close to the perfect value of 1", low, 1, 1.5),
        holds("long-80", "up to 80 %: flows > 3 MB, average: BFC 32 below HPCC, DCTCP, DCQCN",
              "higher throughput for long flows", "yes" if best else "no", best, "at every load", quick=False),
        within("short-95", "short flows, p99: BFC 32 at 95 % / at 80 %", "degrades substantially at 95 %",
               _at(data, 0.95, BFC_32, "short") / _at(data, 0.8, BFC_32, "short"), 1.5, None),
        ascending("queues-90", "90 %: short flows, p99: BFC by its queues", "BFC 128 better at load >= 90 %",
                  {str(q.legend): _at(data, 0.9, q, "short") for q in (BFC_128, BFC_32)}, quick=False),
        within("queues-95", "95 %: short flows, p99: BFC 32 / BFC 128", "BFC 128 better at load >= 90 %", ratios[0.95],
               1.2, None),
        within("long-95", "95 %: flows > 3 MB, average: BFC 32 / BFC 128",
               "impact of collisions limited for long flows", long, None, 1.5),
    ]  # fmt: skip


def plot(data: pl.DataFrame) -> Any:
    """Long flows, short flows, and the growth of the number of outstanding flows, by load."""
    made, axes = figure(1, 3, width=PAGE, height=2.7)
    rows = (("long", "average FCT slowdown, > 3 MB"), ("short", "p99 FCT slowdown, < 3 KB"),
            ("growth", "outstanding flows, late / early"))  # fmt: skip
    for panel, (what, text) in zip(axes, rows):
        for scheme in SHOWN:
            line = data.filter((pl.col("scheme") == scheme.label) & (pl.col("panel") == what)).sort("x").drop_nulls("y")
            panel.plot(line["x"], line["y"], label=scheme.legend, **scheme.style)
        fabric.log_axis(panel.yaxis, None, (1, 2, 5))
        panel.set(xlabel="Load (%)", ylabel=text[0].upper() + text[1:])
    lettered(axes, ("long flows", "short flows", "stability"))
    legend_above(made, axes[0], columns=3)
    return made
