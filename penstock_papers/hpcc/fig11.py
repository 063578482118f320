"""HPCC (SIGCOMM 2019), figure 11: six schemes on the fat tree with FB_Hadoop: slowdown at the 95th percentile, PFC, latency.

Section 5.3 on the network of section 5.1, see `_fabric`: (a, b) 30 % load and 60-to-1 incasts of 500 KB that add 2 %, (c, d)
50 % load.  (a, c) show slowdowns by size, (b, d) the time paused by PFC and the 95th percentile of the latency.  The CDF of
queue lengths is ours; the 50th and 99th percentiles of slowdowns are in data.parquet.  Flows arrive for 20 ms, some 200 000 at
30 %, with each of three seeds; the authors' example of their generator has 100 ms.

All schemes are those of the authors' simulator, and so is PFC.  Beside HPCC, (ours): the text's maxStage 5 in its place, and with
incasts the text's 11 % as the alpha of every port.

Scale quick: a tree of 64 hosts for 1 ms, with one incast of 32 flows of 1 MB.
"""

from typing import Any

import polars as pl

from penstock_papers import frames
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import MORE, OURS, Differs
from penstock_papers.frames import Scheme
from penstock_papers.hpcc import _fabric as fabric
from penstock_papers.hpcc._fabric import curve, value
from penstock_papers.sentences import Numbers, about, as_said, ascending, holds, within
from penstock_papers.style import PAGE, figure, legend_above, lettered

TITLE = "Slowdown, PFC and latency of six schemes, FB_Hadoop"
PAPER = "HPCC, SIGCOMM 2019, section 5.3, figure 11"
SCHEMES = fabric.schemes("100Gbps")
STAGE_5 = Scheme("HPCC, maxStage 5 (ours)", {**SCHEMES["HPCC"].table, "max_stage": 5}, nth=1, run="HPCC-5")
ELEVEN = Scheme("HPCC, alpha 11 % (ours)", {**SCHEMES["HPCC"].table, "pfc": fabric.PFC_TEXT}, nth=2, run="HPCC-11")
BESIDE = {"incast": (STAGE_5, ELEVEN), "plain": (STAGE_5,)}
OTHERS = [legend for legend in SCHEMES if legend != "HPCC"]
NETWORK = {"quick": {**fabric.FAT_TREE, "pods": 2, "tors": 2, "aggs": 2, "cores": 4}, "paper": fabric.FAT_TREE}
ONE_INCAST = {"kind": "incast", "fan_in": 32, "size": "1MB", "every": "1s"}
INCAST = {"quick": ONE_INCAST, "paper": fabric.INCAST}
DURATION = {"quick": "1ms", "paper": "20ms"}
SAMPLE = {"quick": "20us", "paper": "50us"}
TRAFFIC = {"incast": 0.3, "plain": 0.5}
NAMES = {"incast": "30 % + incast", "plain": "50 %"}
SEEDS = {"paper": 3}
SIZES = "hpcc_fb_hadoop"
SMALL = 120_000  # "flows shorter than 120KB", 90 % of them
DIFFERS: dict[str, Differs] = {}


CLAIMS = (
    *(
        row
        for traffic, where in NAMES.items()
        for row in (
            as_said(
                f"{traffic}-short",
                f"{where}: slowdown p95 of flows up to 120 KB, geometric mean over the sizes, other scheme / HPCC, least ({{}})",
                "for the flows shorter than 120KB, HPCC achieves much lower FCTs than all the other schemes",
                "much",
            ),
            as_said(
                f"{traffic}-short-least",
                f"{where}: slowdown p95 of flows up to 120 KB, other scheme / HPCC, least size and scheme ({{}})",
                "for the flows shorter than 120KB, HPCC achieves much lower FCTs than all the other schemes",
                "much",
                kind=OURS,
            ),
            within(
                f"{traffic}-latency",
                f"{where}: HPCC, latency p95, us",
                "HPCC still achieves very low round trip latency, under 20us",
                0,
                20,
                why="the paper's bound",
            ),
            holds(
                f"{traffic}-order",
                f"{where}: latency p95: DCTCP below DCQCN and TIMELY",
                "DCTCP outperforms DCQCN and TIMELY",
                "DCTCP < DCQCN, TIMELY",
            ),
            within(
                f"{traffic}-dctcp",
                f"{where}: latency p95: DCTCP / HPCC",
                "HPCC reduces DCTCP's latency by more than 2 times",
                2,
                why=f"the paper's bound; {MORE}",
            ),
            holds(
                f"{traffic}-best",
                f"{where}: latency p95: HPCC has the lowest",
                "All other CC schemes maintain standing queues, so they cannot keep the latency low",
                "HPCC smallest",
            ),
        )
    ),
    about("plain-19.8", "50 %: HPCC, latency p95, us", "19.8us", 19.8),
    within(
        "pfc-hpcc",
        "30 % + incast: HPCC: time paused by PFC (%)",
        "PFC pauses are not triggered with HPCC",
        0,
        0,
        why="not",
        quick=True,
    ),
    holds(
        "pfc-only",
        "30 % + incast: time paused by PFC (%): DCQCN and TIMELY above all others",
        "large scale PFC pauses only appear when using DCQCN and TIMELY",
        "DCQCN, TIMELY largest",
    ),
    *(
        within(
            f"pfc-win-{legend.lower()}",
            f"30 % + incast: time paused by PFC (%): {legend}+win / {legend}",
            "just adding a sending window to DCQCN and TIMELY reduces PFCs to almost zero",
            0,
            0.1,
            why="almost zero is at most a tenth",
        )
        for legend in ("DCQCN", "TIMELY")
    ),
    about(
        "long",
        "50 %: slowdown p95 of flows > 1 MB: HPCC / median of the other schemes",
        "at 50% load the long flows are 1.24 times slower with HPCC than with other schemes",
        1.24,
        gain=True,
    ),
    ascending(
        "long-load",
        "HPCC, slowdown p95 of flows > 1 MB at 30 % and at 50 %",
        "the slowdown increases with a higher load",
        quick=False,
    ),
)


def specs(scale: str) -> dict[str, Spec]:
    """One for each traffic, all schemes over the same flows."""
    return {
        traffic: fabric.spec(
            NETWORK[scale],
            (*SCHEMES.values(), *BESIDE[traffic]),
            [fabric.poisson(SIZES, load), *([INCAST[scale]] if traffic == "incast" else [])],
            DURATION[scale],
            sample=SAMPLE[scale],
            port_series=True,
        )
        for traffic, load in TRAFFIC.items()
    }


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: flow size or queue length; y: slowdown, CDF or a number, by traffic and panel."""
    parts = (fabric.slowdowns, fabric.queues, fabric.totals)
    return pl.concat(
        part(runs, traffic, scheme)
        for traffic, beside in BESIDE.items()
        for scheme in (*SCHEMES.values(), *beside)
        for part in parts
    )


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """What section 5.3 says of figure 11."""
    seen = {id: number for traffic in TRAFFIC for id, number in _short(data, traffic).items()}
    tail = {traffic: {legend: value(data, traffic, legend, "long p95") for legend in SCHEMES} for traffic in TRAFFIC}
    others = sorted(tail["plain"][legend] for legend in OTHERS)
    return {
        **seen,
        "plain-19.8": seen["plain-latency"],
        **_pfc(data),
        "long": tail["plain"]["HPCC"] / others[len(others) // 2],
        "long-load": {"30 %": tail["incast"]["HPCC"], "50 %": tail["plain"]["HPCC"]},
    }


def _short(data: pl.DataFrame, traffic: str) -> Numbers:
    latency = {legend: value(data, traffic, legend, "latency p95") for legend in SCHEMES}
    gains = {legend: _gain(data, traffic, legend) for legend in OTHERS}
    points = {legend: _gain(data, traffic, legend, least=True) for legend in OTHERS}
    worst, at_worst, text = min(gains, key=gains.__getitem__), min(points, key=points.__getitem__), frames.text(latency)
    return {
        f"{traffic}-short": (gains[worst], worst),
        f"{traffic}-short-least": (points[at_worst], at_worst),
        f"{traffic}-latency": latency["HPCC"],
        f"{traffic}-order": (latency["DCTCP"] < min(latency["DCQCN"], latency["TIMELY"]), text),
        f"{traffic}-dctcp": latency["DCTCP"] / latency["HPCC"],
        f"{traffic}-best": (latency["HPCC"] < min(latency[legend] for legend in OTHERS), text),
    }


def _gain(data: pl.DataFrame, traffic: str, legend: str, least: bool = False) -> float:
    """The ratio to HPCC's slowdown, mean over the sizes up to 120 KB, as the sentence is on the curve; `least`: at the worst."""
    ours, other = (curve(data, traffic, name, "p95").filter(pl.col("x") <= SMALL) for name in ("HPCC", legend))
    ratios = other["y"] / ours["y"]
    return float(ratios.min()) if least else fabric.geometric_mean(ratios)  # type: ignore[arg-type]


def _pfc(data: pl.DataFrame) -> Numbers:
    paused = {legend: value(data, "incast", legend, "pfc") for legend in SCHEMES}
    most = min(paused["DCQCN"], paused["TIMELY"]) > max(paused[name] for name in ("DCQCN+win", "TIMELY+win", "DCTCP", "HPCC"))
    return {
        "pfc-hpcc": paused["HPCC"],
        "pfc-only": (most, frames.text(paused)),
        "pfc-win-dcqcn": paused["DCQCN+win"] / paused["DCQCN"] if paused["DCQCN"] else float("nan"),
        "pfc-win-timely": paused["TIMELY+win"] / paused["TIMELY"] if paused["TIMELY"] else float("nan"),
    }


def plot(data: pl.DataFrame) -> Any:
    """A row for each traffic: slowdown, queue lengths, PFC, latency."""
    made, grid = figure(2, 4, width=PAGE, height=4.4, gridspec_kw={"width_ratios": [2.2, 1.6, 0.9, 0.9]})
    for row, traffic in zip(grid, TRAFFIC):
        shown = (*SCHEMES.values(), *BESIDE[traffic])
        fabric.draw_slowdown(row[0], data, traffic, shown)
        fabric.draw_queue(row[1], data, traffic, shown)
        fabric.draw_bars(row[2], data, traffic, shown, "pfc", "Time paused (%)")
        fabric.draw_bars(row[3], data, traffic, shown, "latency p95", "Latency p95 (us)")
    lettered(grid[:, ::2].flat, [name for traffic in NAMES.values() for name in (f"{traffic}: FCT", f"{traffic}: PFC, latency")])
    legend_above(made, grid[0, 0], columns=4)
    return made
