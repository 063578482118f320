"""BFC (NSDI 2022), figure 12: slowdown of long and of short flows as the load goes from 50 to 95 %.

Section 6.3, "Load": Facebook distribution, lognormal arrivals, no incast, on the set-up of section 6.2.1, see
`_fabric`; BFC with 32 and with 128 queues per port. (a) Average slowdown of flows > 3 MB, (b) 99th percentile of flows
< 3 KB, and, ours, (c) stability: by how much the number of outstanding flows grows from the second quarter of the run
to the last. A growth of at most 1.5 is stable. Bursts alone move the number, at 95 % beyond 1.5 with every scheme, so HPCC is
unstable only if it grows 1.5 times as much as Ideal-FQ with the same flows; ours are relative claims with a band of 1.1.
ExpressPass, see `_without_pfc`, has the load of the ToRs' uplinks: credits leave data 94.8 % of a link and payload 90 %.

HPCC has 42 B of INT in every packet, as in the authors' simulator and in HPCC's paper; the text of section 6.3 has 80 B, which
is shown beside it. The lower row, HPCC and BFC with the load of the text, is ours.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from penstock_papers.bfc import _fabric as fabric
from penstock_papers.bfc import _without_pfc as without_pfc
from penstock_papers.bfc._fabric import BFC, BFC_128, DCQCN, DCTCP, HPCC, HPCC_80, IDEAL, named, value
from penstock_papers.bfc._rivals import EXPRESSPASS
from penstock_papers.bfc._variants import LOAD, LOAD_BESIDE
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import FROM_PAPER, MORE, OURS, Differs
from penstock_papers.sentences import Numbers, Row, as_said, ascending, within
from penstock_papers.style import PAGE, figure, legend_above, lettered

TITLE = "Slowdown of long and short flows by load, Facebook"
PAPER = "BFC, NSDI 2022, section 6.3, figure 12"
LOADS = {"quick": (0.6, 0.9), "paper": (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)}
DURATION = {"quick": "2ms", "paper": "50ms"}
SEEDS = fabric.MAIN_SEEDS
SIZES = "facebook_hadoop"
BFC_32 = replace(BFC, legend="BFC, 32 queues")
SCHEMES = (DCQCN, DCTCP, HPCC, BFC_32, BFC_128, IDEAL)
SHOWN = {LOAD: (*SCHEMES, HPCC_80), LOAD_BESIDE: (HPCC, BFC_32, BFC_128)}
_ENOUGH = Differs("with the load of the authors' simulator ports do not run out of 32 queues, not even at 95 %", "bfc-fig12")
# short-95: by as much as Ideal-FQ's tail, 1.25 times; queues-95: 1
DIFFERS = {"short-95": _ENOUGH.expecting(1, 1.45), "queues-95": _ENOUGH.expecting(0.9, 1.2)}
OTHERS_STABLE = "All other schemes were stable across all load values"
FEWER = "half as many again are within what bursts do; fewer outstanding flows are stable, too"
AT_MOST_80 = "At loads <= 80%, BFC 32 achieves both lower tail latency for short flows and higher throughput for long flows"
DEGRADES = "At the very high load of 95%, the HoL blocking degrades tail latency substantially for BFC 32"
INSTANTS = 200  # of the number of outstanding flows
STABLE = 1.5  # a larger growth of their number is not stable
SHORT, GROWN = "short flows, p99", "outstanding flows, last quarter over second quarter"
GROWTH = "growth of the outstanding flows over Ideal-FQ's"
BOUND = 1.1  # of what is relative to Ideal-FQ
NOISE, WITHOUT = "a tenth is noise; fewer outstanding flows are stable, too", "a tenth is noise; the paper says without bound"
CLOSE = "The tail latency for short flows is close to the perfect value of 1"
PERMITTED = (0.5, 0.6, 0.7, 0.8)  # of the loads, what ExpressPass's credits permit
LOWER = f"lower is more than 1; {MORE}"


def _queues_rows(load_of: str) -> list[Row]:
    """Where 32 queues are enough, by a definition of load."""
    (prefix, where), kind = fabric.prefix_of(load_of), fabric.kind_of(load_of)
    close, text = "close is at most half as much again", f"{where}{SHORT}"
    return [
        within(f"{prefix}short-80", f"{text}: BFC 32, up to 80 %, largest", CLOSE, 1, 1.5, why=close, kind=kind),
        as_said(f"{prefix}short-95", f"{text}: BFC 32 at 95 % / at 80 %", DEGRADES, "substantially", kind=kind),
        as_said(f"{prefix}queues-95", f"{text}: BFC 32 / BFC 128, 95 %", DEGRADES, "substantially", kind=OURS),
    ]


_BY_LOAD = (
    within("hpcc-stable", f"HPCC, 50 to 70 %, largest: {GROWN}", "HPCC only supports loads up to 70%", None, STABLE, why=FEWER),
    *(
        within(
            f"hpcc-unstable-{high}",
            f"HPCC at {high}%: {GROWTH}",
            "At higher loads, it becomes unstable (the number of outstanding flows grows without bound)",
            STABLE,
            why="a growth beyond that of bursts, which Ideal-FQ has as well; the paper says without bound",
        )
        for high in (80, 95)
    ),
    within(
        "others-stable",
        f"DCTCP, DCQCN, BFC, Ideal-FQ, all loads, largest ({{}}): {GROWN}",
        OTHERS_STABLE,
        None,
        STABLE,
        why=FEWER,
    ),
    within("hpcc-relative-stable", f"HPCC, 50 to 70 %, largest: {GROWTH}", "", None, BOUND, why=NOISE, kind=OURS),
    within("hpcc-relative", f"HPCC, 80 to 95 %, smallest: {GROWTH}", "", BOUND, why=WITHOUT, kind=OURS),
    within("int-80", f"HPCC, 80 B of INT, 80 to 95 %, smallest: {GROWTH}", "", BOUND, why=WITHOUT, kind=OURS),
    within("others-relative", f"DCTCP, BFC, DCQCN, all loads, largest: {GROWTH}", "", None, BOUND, why=NOISE, kind=OURS),
    within(
        "long-80", "up to 80 %: flows > 3 MB, average: best of HPCC, DCTCP, DCQCN / BFC 32, smallest", AT_MOST_80, 1, why=MORE
    ),
    *(
        ascending(
            f"order-{load}",
            f"{load}%: {SHORT}: BFC by its queues",
            "BFC 128 achieves better tail latency for short flows at load >= 90%",
            quick=False,
            kind=kind,
        )
        for load, kind in ((90, FROM_PAPER), (95, OURS))
    ),
    within(
        "long-95",
        "95 %: flows > 3 MB, average: BFC 32 / BFC 128",
        "the impact of collisions is limited for long flows",
        None,
        1.5,
        why="limited is at most half as much again; below 1 there is no impact",
    ),
    within("expresspass-stable", f"ExpressPass, all loads, largest ({{}}): {GROWN}", OTHERS_STABLE, None, STABLE, why=FEWER),
    within(
        "expresspass-stable-80",
        f"ExpressPass, 50 to 80 %, largest: {GROWN}",
        "credits permit less than 90 %",
        None,
        STABLE,
        why=FEWER,
        kind=OURS,
    ),
    *(
        within(f"expresspass-{group}-80", f"up to 80 %: {of}: ExpressPass / BFC 32, smallest", AT_MOST_80, 1, why=MORE)
        for group, of in (("short", SHORT), ("long", "flows > 3 MB, average"))
    ),
    *_queues_rows(LOAD),
    *_queues_rows(LOAD_BESIDE),
)
BETTER = "short flows, p99: best of HPCC, DCTCP, DCQCN"
CLAIMS = (
    within("best-80", f"up to 80 %: {BETTER} / BFC 32, smallest", AT_MOST_80, 1, why=LOWER, quick=True),
    within("best-90", f"90 %: {BETTER} / BFC 128", "", 1, why=LOWER, quick=True, kind=OURS),
    *(row.at("paper") for row in _BY_LOAD),
)


def name(load: float, load_of: str = LOAD) -> str:
    """The label of the runs of a load by this definition."""
    return named(f"load{100 * load:.0f}", load_of)


def specs(scale: str) -> dict[str, Spec]:
    """A traffic per load by both definitions of load; ExpressPass by that of its script."""
    found = {
        name(load, load_of): fabric.spec(shown, DURATION[scale], SIZES, load, load_of=load_of)
        for load_of, shown in SHOWN.items()
        for load in LOADS[scale]
    }
    for load in LOADS[scale]:
        found |= without_pfc.expresspass_spec(name(load), DURATION[scale], SIZES, load)
    return found


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: load in per cent (panels long, short, growth) or time in ms (panel outstanding); y: as the panel says."""
    parts = [
        _one(runs, load, name(load, load_of), scheme)
        for load_of, shown in SHOWN.items()
        for load in LOADS[scale]
        for scheme in shown
    ]
    for load in LOADS[scale]:
        spec = name(load) + without_pfc.APART
        slowdowns = fabric.of_flows(without_pfc.by_script(runs, spec), spec, EXPRESSPASS, SIZES)
        found = _one(runs, load, spec, EXPRESSPASS, slowdowns).filter(pl.col("panel") != "drops")  # of credits
        parts.append(found.with_columns(traffic=pl.lit(name(load))))
    return pl.concat(parts)


def _one(runs: Runs, load: float, traffic: str, scheme: fabric.Scheme, slowdowns: pl.DataFrame | None = None) -> pl.DataFrame:
    """`slowdowns`: by another clock than all others."""
    x = [100 * load]
    numbers = fabric.statistics(runs, traffic, scheme, SIZES) if slowdowns is None else slowdowns
    times, flows = outstanding(runs, traffic, scheme)
    return pl.concat(
        [
            numbers,
            fabric.points(traffic, scheme, "long", x, [value(numbers, traffic, scheme, "long avg")]),
            fabric.points(traffic, scheme, "short", x, [value(numbers, traffic, scheme, "short p99")]),
            fabric.points(traffic, scheme, "outstanding", times, flows),
            fabric.points(traffic, scheme, "growth", x, [growth(flows)]),
            fabric.totals(runs, traffic, scheme),
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


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """The loads at which HPCC is unstable and BFC runs out of queues, and the effect of more queues."""
    found = _best(data, LOADS[scale])
    if scale == "quick":
        return found
    parts = (_stability(data), _relative(data), _tails(data), expresspass(data), _queues(data, LOAD), _queues(data, LOAD_BESIDE))
    return found | {id: number for part in parts for id, number in part.items()}


def _at(data: pl.DataFrame, load: float, scheme: fabric.Scheme, panel: str, load_of: str = LOAD) -> float:
    return value(data, name(load, load_of), scheme, panel)


def _best(data: pl.DataFrame, loads: tuple[float, ...]) -> Numbers:
    """The tail of short flows up to 80 %; ours: at 90 %."""

    def ratio(load: float, ours: fabric.Scheme) -> float:
        return min(_at(data, load, each, "short") for each in fabric.EXISTING) / _at(data, load, ours, "short")

    return {"best-80": min(ratio(load, BFC_32) for load in loads if load <= 0.8), "best-90": ratio(0.9, BFC_128)}


def _stability(data: pl.DataFrame) -> Numbers:
    """The growth of the number of outstanding flows."""
    others = {(s.legend, load): _at(data, load, s, "growth") for s in SCHEMES if s != HPCC for load in LOADS["paper"]}
    worst, load = most = max(others, key=others.__getitem__)
    return {
        "hpcc-stable": max(_at(data, load, HPCC, "growth") for load in LOADS["paper"] if load <= 0.7),
        "hpcc-unstable-80": relative(data, 0.8, HPCC),
        "hpcc-unstable-95": relative(data, 0.95, HPCC),
        "others-stable": (others[most], f"{worst}, {load:.0%}"),
    }


def relative(data: pl.DataFrame, load: float, scheme: fabric.Scheme) -> float:
    """The growth of the number of outstanding flows over that of Ideal-FQ: about 1 for a stable scheme."""
    return _at(data, load, scheme, "growth") / _at(data, load, IDEAL, "growth")


def _relative(data: pl.DataFrame) -> Numbers:
    """Ours: the growth relative to Ideal-FQ's, which bursts do not move."""
    loads, stable = LOADS["paper"], (DCTCP, BFC_32, BFC_128, DCQCN)
    return {
        "hpcc-relative-stable": max(relative(data, load, HPCC) for load in loads if load <= 0.7),
        "hpcc-relative": min(relative(data, load, HPCC) for load in loads if load >= 0.8),
        "int-80": min(relative(data, load, HPCC_80) for load in loads if load >= 0.8),
        "others-relative": max(relative(data, load, scheme) for load in loads for scheme in stable),
    }


def _tails(data: pl.DataFrame) -> Numbers:
    """BFC's long flows, and its short ones by the number of queues."""
    others = (
        min(_at(data, load, scheme, "long") for scheme in (HPCC, DCTCP, DCQCN)) / _at(data, load, BFC_32, "long")
        for load in PERMITTED
    )
    by_queues = {load: {q.legend: _at(data, load, q, "short") for q in (BFC_128, BFC_32)} for load in (0.9, 0.95)}
    return {
        "long-80": min(others),
        "order-90": by_queues[0.9],
        "order-95": by_queues[0.95],
        "long-95": _at(data, 0.95, BFC_32, "long") / _at(data, 0.95, BFC_128, "long"),
    }


def expresspass(data: pl.DataFrame) -> Numbers:
    """Stable at all loads, ours: at those that its credits permit; BFC 32 is better up to 80 %."""
    grown = {load: _at(data, load, EXPRESSPASS, "growth") for load in LOADS["paper"]}
    most = max(grown, key=grown.__getitem__)
    better = {p: [_at(data, load, EXPRESSPASS, p) / _at(data, load, BFC_32, p) for load in PERMITTED] for p in ("short", "long")}
    return {
        "expresspass-stable": (grown[most], f"{most:.0%}"),
        "expresspass-stable-80": max(grown[load] for load in PERMITTED),
        **{f"expresspass-{group}-80": min(ratios) for group, ratios in better.items()},
    }


def _queues(data: pl.DataFrame, load_of: str) -> Numbers:
    """Where 32 queues are enough, by a definition of load."""
    prefix, _ = fabric.prefix_of(load_of)
    tail = {load: _at(data, load, BFC_32, "short", load_of) for load in LOADS["paper"]}
    return {
        f"{prefix}short-80": max(tail[load] for load in PERMITTED),
        f"{prefix}short-95": tail[0.95] / tail[0.8],
        f"{prefix}queues-95": tail[0.95] / _at(data, 0.95, BFC_128, "short", load_of),
    }


def plot(data: pl.DataFrame) -> Any:
    """Long flows, short flows, and the growth of the number of outstanding flows, by load and by both definitions of it."""
    made, grid = figure(2, 3, width=PAGE, height=4.9)
    loads = [load for load in LOADS["paper"] if name(load) in set(data["traffic"])]
    x = [100 * load for load in loads]
    for row, (load_of, shown), more in zip(grid, SHOWN.items(), ((EXPRESSPASS,), ())):
        for scheme in (*shown, *more):
            for axes, what in zip(row, ("long", "short", "growth")):
                axes.plot(x, [_at(data, load, scheme, what, load_of) for load in loads], label=scheme.legend, **scheme.style)
        for axes, text in zip(row, ("FCT slowdown, average", "FCT slowdown, p99", "Last over second quarter")):
            axes.set(xlabel="Load (%)", ylabel=text)
        row[2].axhline(STABLE, color="0.35", lw=1.2)
        for axes in row[:2]:
            fabric.log_axis(axes.yaxis, None, (1, 2, 5))
    titles = ("flows > 3 MB", "flows < 3 KB", "outstanding flows")
    lower = (f"{title}, {fabric.SHORTER[LOAD_BESIDE]}" for title in ("> 3 MB", "< 3 KB", "outstanding"))
    lettered(grid.flat, [*titles, *lower])
    legend_above(made, grid[0, 0], columns=4)
    return made
