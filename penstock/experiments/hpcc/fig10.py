"""HPCC (SIGCOMM 2019), figure 10: HPCC and DCQCN on the testbed with WebSearch: slowdown by size, queue lengths.

Section 5.2 on the testbed of section 5.1, see `_fabric`: (a, b) 30 % and (c, d) 50 % load.  The paper's numbers are of the
hardware, and the length of its experiment is not published: flows arrive for 2 s, some 70 000 at 30 %, of which 3 000 are
shorter than 3 KB, with each of three seeds.  Nor is it which queues the CDF counts, and when: here every egress port of the
switches is sampled every 200 us; the same weighted by bytes sent, as a packet finds the queue, is (ours).

At 50 % DCQCN's tail and queues are longer in the paper than with section 5.1's thresholds for 25 Gbit/s, 100 KB and 400 KB.
DCQCN with those for 100 Gbit/s at every port, 400 KB and 1600 KB ("high K"; section 2.3 has them, too), is (ours).

Scale quick: 20 ms.
"""

from typing import Any

import polars as pl

from penstock.experiments.cache import Runs, Spec
from penstock.experiments.claims import FROM_PAPER, OURS, Claim, Differs, about, as_said, ascending, within
from penstock.experiments.frames import Scheme
from penstock.experiments.hpcc import _fabric as fabric
from penstock.experiments.hpcc._fabric import curve, value
from penstock.experiments.style import DASHES, PAGE, figure, legend_above, lettered

TITLE = "Slowdown and queue length on the testbed, WebSearch"
PAPER = "HPCC, SIGCOMM 2019, section 5.2, figure 10"
ALL = fabric.schemes("25Gbps")
SCHEMES = (ALL["DCQCN"], ALL["HPCC"])
# section 5.1's ECN thresholds of 100 Gbit/s at the ports of 25 Gbit/s, too
HIGH_K = Scheme("DCQCN, high K (ours)", fabric.with_thresholds(SCHEMES[0].table, 400, 1600), nth=1, run="high_k")
SHOWN = (*SCHEMES, HIGH_K)
DURATION = {"quick": "20ms", "paper": "2s"}
SAMPLE = {"quick": "50us", "paper": "200us"}
LOADS = {"30 %": 0.3, "50 %": 0.5}
SEEDS = {"paper": 3}
# the 99th percentile of flows shorter than 3 KB: slowdown of both schemes, completion time of HPCC (us)
SHORT = {"30 %": {"DCQCN": 11.2, "HPCC": 2.38, "fct": 16.9}, "50 %": {"DCQCN": 53.9, "HPCC": 2.70, "fct": 19.2}}
QUEUES = {"HPCC": {"p95": 19.7, "p99": 22.9}, "DCQCN": {"p95": 1100.0, "p99": 2100.0}}  # KB at 50 %
DIFFERS: dict[str, Differs] = {}


def specs(scale: str) -> dict[str, Spec]:
    """One for each load."""
    return {
        name: fabric.spec(
            fabric.TESTBED,
            SHOWN,
            [fabric.poisson("websearch", load)],
            DURATION[scale],
            sample=SAMPLE[scale],
            port_series=True,
        )
        for name, load in LOADS.items()
    }


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: flow size or queue length; y: slowdown, CDF or a number, by load and panel."""
    parts = (fabric.slowdowns, fabric.queues, fabric.totals)
    return pl.concat(part(runs, load, scheme) for load in LOADS for scheme in SHOWN for part in parts)


def claims(data: pl.DataFrame, scale: str) -> list[Claim]:
    """Section 5.2's sentences on figure 10."""
    return [claim for load in LOADS for claim in (*_short(data, load), *_all(data, load))] + _queues(data)


def _short(data: pl.DataFrame, load: str) -> list[Claim]:
    said, tag = SHORT[load], load.removesuffix(" %")
    tail = {scheme.legend: value(data, load, scheme.legend, "short p99") for scheme in SCHEMES}
    what = f"{load}: flows < 3 KB, p99"
    found = [
        about(f"{tag}-{name.lower()}", f"{what}: slowdown of {name}", f"{said[name]}", tail[name], said[name]) for name in tail
    ]
    high, dcqcn = value(data, load, HIGH_K.legend, "short p99"), said["DCQCN"]
    found.append(about(f"{tag}-high", f"{what}: slowdown of {HIGH_K.legend}", f"{dcqcn}", high, dcqcn, kind=OURS))
    fct = value(data, load, "HPCC", "short fct p99")
    found.append(about(f"{tag}-fct", f"{what}: FCT of HPCC, us", f"{said['fct']}us", fct, said["fct"]))
    found.append(
        as_said(
            f"{tag}-order",
            f"{what}: slowdown, DCQCN / HPCC",
            "at 95th and 99th percentile, HPCC achieves a much better FCT slowdown especially for short flows",
            tail["DCQCN"] / tail["HPCC"],
            "much",
            quick=True,
            kind=OURS if load == "50 %" else FROM_PAPER,
        )
    )
    if load == "50 %":
        ratio = tail["DCQCN"] / tail["HPCC"]
        found.append(about("50-reduction", f"{what}: slowdown, DCQCN / HPCC", "a 95% reduction", ratio, 20, gain=True))
    return found


def _all(data: pl.DataFrame, load: str) -> list[Claim]:
    tag = load.removesuffix(" %")
    medians = [curve(data, load, name, "p50")["y"] for name in ("DCQCN", "HPCC")]
    ratio = fabric.geometric_mean(medians[0] / medians[1])
    hpcc = {panel: value(data, load, "HPCC", panel) for panel in ("pfc", "drops")}
    return [
        as_said(
            f"{tag}-median",
            f"{load}: slowdown p50, DCQCN / HPCC, geometric mean over the sizes",
            "HPCC and DCQCN achieve similar FCT slowdowns in the median",
            ratio,
            "similar",
        ),
        within(
            f"{tag}-pfc",
            f"{load}: HPCC: packets lost, time paused by PFC (%), the larger",
            "there is no packet loss and PFC is not necessary",
            max(hpcc.values()),
            0,
            0,
            why="none of either",
            quick=True,
        ),
        *(
            within(
                f"{tag}-queue-median-{scheme.legend.lower()}",
                f"{load}: {scheme.legend}: queue length p50, KB",
                "in both cases, the median queue size is 0",
                value(data, load, scheme.legend, "queue p50"),
                0,
                0,
                why="the paper's number",
                quick=True,
            )
            for scheme in SCHEMES
        ),
    ]


def _queues(data: pl.DataFrame) -> list[Claim]:
    load = "50 %"
    found = []
    for name, numbers in QUEUES.items():
        for p, kb in numbers.items():
            ours, seen = (value(data, load, name, f"{kind}queue {p}") for kind in ("", "seen "))
            id, what, paper = f"50-queue-{name.lower()}-{p}", f"{load}: {name}: queue length {p}, KB", f"{kb:g} KB"
            found.append(about(id, what, paper, ours, kb))
            found.append(about(f"seen-{id}", f"{what}, as a byte finds it", paper, seen, kb, kind=OURS))
    for p, kb in QUEUES["DCQCN"].items():
        ours = value(data, load, HIGH_K.legend, f"queue {p}")
        what, paper = f"{load}: {HIGH_K.legend}: queue length {p}, KB", f"{kb:g} KB"
        found.append(about(f"50-queue-high-{p}", what, paper, ours, kb, kind=OURS))
    tails = {name: value(data, load, name, "queue p99") for name in ("HPCC", "DCQCN")}
    found.append(
        ascending("50-queue", f"{load}: queue length p99", "ultra-low queue size even at the very tail", tails, kind=OURS)
    )
    return found


def plot(data: pl.DataFrame) -> Any:
    """A row for each load: slowdowns at three percentiles, queue lengths."""
    made, grid = figure(2, 2, width=PAGE, height=4.6, gridspec_kw={"width_ratios": [1.5, 1]})
    lines = [(scheme, p, dash) for p, dash in zip(("p50", "p95", "p99"), reversed(DASHES[:3])) for scheme in SCHEMES]
    for (left, right), load in zip(grid, LOADS):
        for scheme, p, dash in (*lines, (HIGH_K, "p99", DASHES[3])):
            line = curve(data, load, scheme.legend, p)
            style = {**scheme.style, "linestyle": dash, "markersize": 2.5}
            left.plot(line["x"], line["y"], label=f"{scheme.legend}, {p}", **style)
        fabric.slowdown_axes(left)
        fabric.draw_queue(right, data, load, SHOWN)
    lettered(grid.flat, [f"{load}: {what}" for load in LOADS for what in ("FCT", "queues")])
    legend_above(made, grid[0, 0], columns=4)
    return made
