"""HPCC (SIGCOMM 2019), figure 10: HPCC and DCQCN on the testbed with WebSearch: slowdown by size, queue lengths.

Section 5.2 on the testbed of section 5.1 as it is drawn, see `_testbed`: (a, b) 30 % and (c, d) 50 % load, the mean of the
servers' links and of the ToRs' uplinks: 20 and 40 %, 33 and 67 %.  The paper's numbers are of the hardware, and the length of its
experiment is not published: flows arrive for 2 s, some 80 000 at 50 %, with each of three seeds.  Nor are the links that its load
is of, and the ports that the CDF counts: READINGS of `_testbed` are the candidates; every egress port of the switches is sampled
every 200 us, and of these ports those between switches are a panel of their own.  What is weighted by bytes sent, as a packet
finds the queue, is (ours).

HPCC is the testbed's, with maxStage 5 (issue 24 of the authors' repository, see `_fabric`); with 0, beside it, (ours).

DCQCN with section 5.1's thresholds for 100 Gbit/s at every port, 400 KB and 1600 KB ("high K"; section 2.3 has them, too), is
(ours): with links of four times the capacity at 50 % of the servers' links, as this figure was first judged, its tail and queues
were nearer to the paper's.

Scale quick: 20 ms.
"""

from typing import Any

import polars as pl

from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import FROM_PAPER, OURS, Differs
from penstock_papers.frames import Scheme
from penstock_papers.hpcc import _fabric as fabric
from penstock_papers.hpcc._fabric import curve, value
from penstock_papers.hpcc._testbed import DRAWN, Reading
from penstock_papers.sentences import Numbers, Row, about, as_said, ascending, within
from penstock_papers.style import DASHES, PAGE, figure, legend_above, lettered

TITLE = "Slowdown and queue length on the testbed, WebSearch"
PAPER = "HPCC, SIGCOMM 2019, section 5.2, figure 10"
ALL = fabric.schemes("25Gbps")
SCHEMES = (ALL["DCQCN"], ALL["HPCC"])
# section 5.1's ECN thresholds of 100 Gbit/s at the ports of 25 Gbit/s, too
HIGH_K = Scheme("DCQCN, high K (ours)", fabric.with_thresholds(SCHEMES[0].table, 400, 1600), nth=1, run="high_k")
# the maxStage of the simulations
STAGE_0 = Scheme("HPCC, maxStage 0 (ours)", {**SCHEMES[1].table, "max_stage": 0}, nth=1, run="stage_0")
SHOWN = (*SCHEMES, HIGH_K, STAGE_0)
READING = DRAWN  # of what the paper leaves open
DURATION = {"quick": "20ms", "paper": "2s"}
SAMPLE = {"quick": "50us", "paper": "200us"}
LOADS = {"30 %": 0.3, "50 %": 0.5}
SEEDS = {"paper": 3}
# the 99th percentile of flows shorter than 3 KB: slowdown of both schemes, completion time of HPCC (us)
SHORT = {"30 %": {"DCQCN": 11.2, "HPCC": 2.38, "fct": 16.9}, "50 %": {"DCQCN": 53.9, "HPCC": 2.70, "fct": 19.2}}
QUEUES = {"HPCC": {"p95": 19.7, "p99": 22.9}, "DCQCN": {"p95": 1100.0, "p99": 2100.0}}  # KB at 50 %
DIFFERS: dict[str, Differs] = {}
MUCH = "at 95th and 99th percentile, HPCC achieves a much better FCT slowdown especially for short flows"
TAGS = {load: load.removesuffix(" %") for load in LOADS}


def _rows(load: str) -> tuple[Row, ...]:
    tag, said, what = TAGS[load], SHORT[load], f"{load}: flows < 3 KB, p99"
    dcqcn, hpcc, fct = said.values()
    kind = OURS if load == "50 %" else FROM_PAPER
    return (
        about(f"{tag}-dcqcn", f"{what}: slowdown of DCQCN", f"{dcqcn}", dcqcn),
        about(f"{tag}-hpcc", f"{what}: slowdown of HPCC", f"{hpcc}", hpcc),
        about(f"{tag}-high", f"{what}: slowdown of {HIGH_K.legend}", f"{dcqcn}", dcqcn, kind=OURS),
        about(f"{tag}-fct", f"{what}: FCT of HPCC, us", f"{fct}us", fct),
        as_said(f"{tag}-order", f"{what}: slowdown, DCQCN / HPCC", MUCH, "much", quick=True, kind=kind),
        as_said(
            f"{tag}-median",
            f"{load}: slowdown p50, DCQCN / HPCC, geometric mean over the sizes",
            "HPCC and DCQCN achieve similar FCT slowdowns in the median",
            "similar",
        ),
        within(
            f"{tag}-pfc",
            f"{load}: HPCC: packets lost, time paused by PFC (%), the larger",
            "there is no packet loss and PFC is not necessary",
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
                0,
                0,
                why="the paper's number",
                quick=True,
            )
            for scheme in SCHEMES
        ),
    )


def _queue_rows(name: str, p: str, kb: float) -> tuple[Row, ...]:
    id, what, paper = f"50-queue-{name.lower()}-{p}", f"50 %: {name}: queue length {p}, KB", f"{kb:g} KB"
    return about(id, what, paper, kb), about(f"seen-{id}", f"{what}, as a byte finds it", paper, kb, kind=OURS)


CLAIMS = (
    *(row for load in LOADS for row in _rows(load)),
    about("50-reduction", "50 %: flows < 3 KB, p99: slowdown, DCQCN / HPCC", "a 95% reduction", 20, gain=True),
    *(row for name, said in QUEUES.items() for p, kb in said.items() for row in _queue_rows(name, p, kb)),
    *(
        about(f"50-queue-high-{p}", f"50 %: {HIGH_K.legend}: queue length {p}, KB", f"{kb:g} KB", kb, kind=OURS)
        for p, kb in QUEUES["DCQCN"].items()
    ),
    ascending("50-queue", "50 %: queue length p99", "ultra-low queue size even at the very tail", kind=OURS),
)


def specs(scale: str) -> dict[str, Spec]:
    """One for each load."""
    return of_reading(READING, scale)


def of_reading(reading: Reading, scale: str) -> dict[str, Spec]:
    """The specs of one reading of the testbed."""
    return {
        name: fabric.spec(
            reading.topology,
            SHOWN,
            [fabric.poisson("websearch", reading.of_hosts(load))],
            DURATION[scale],
            sample=SAMPLE[scale],
            port_series=True,
        )
        for name, load in LOADS.items()
    }


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: flow size or queue length; y: slowdown, CDF or a number, by load and panel."""
    parts = (fabric.slowdowns, fabric.queues, fabric.queues_between, fabric.totals)
    return pl.concat(part(runs, load, scheme) for load in LOADS for scheme in SHOWN for part in parts)


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """What section 5.2 says of figure 10."""
    seen = {id: number for load in LOADS for id, number in _by_load(data, load).items()}
    return {**seen, "50-reduction": seen["50-order"], **_queues(data, "50 %")}


def _by_load(data: pl.DataFrame, load: str) -> Numbers:
    tag = TAGS[load]
    tail = {scheme.legend: value(data, load, scheme.legend, "short p99") for scheme in SHOWN}
    medians = [curve(data, load, name, "p50")["y"] for name in ("DCQCN", "HPCC")]
    return {
        f"{tag}-dcqcn": tail["DCQCN"],
        f"{tag}-hpcc": tail["HPCC"],
        f"{tag}-high": tail[HIGH_K.legend],
        f"{tag}-fct": value(data, load, "HPCC", "short fct p99"),
        f"{tag}-order": tail["DCQCN"] / tail["HPCC"],
        f"{tag}-median": fabric.geometric_mean(medians[0] / medians[1]),
        f"{tag}-pfc": max(value(data, load, "HPCC", panel) for panel in ("pfc", "drops")),
        **{f"{tag}-queue-median-{s.legend.lower()}": value(data, load, s.legend, f"{READING.queue} p50") for s in SCHEMES},
    }


def _queues(data: pl.DataFrame, load: str) -> Numbers:
    of_all = {(name, p): f"50-queue-{name.lower()}-{p}" for name, said in QUEUES.items() for p in said}
    return {
        **{id: value(data, load, name, f"{READING.queue} {p}") for (name, p), id in of_all.items()},
        **{f"seen-{id}": value(data, load, name, f"seen {READING.queue} {p}") for (name, p), id in of_all.items()},
        **{f"50-queue-high-{p}": value(data, load, HIGH_K.legend, f"{READING.queue} {p}") for p in QUEUES["DCQCN"]},
        "50-queue": {name: value(data, load, name, f"{READING.queue} p99") for name in ("HPCC", "DCQCN")},
    }


def plot(data: pl.DataFrame) -> Any:
    """A row for each load: slowdowns at three percentiles, queue lengths."""
    made, grid = figure(2, 2, width=PAGE, height=4.6, gridspec_kw={"width_ratios": [1.5, 1]})
    lines = [(scheme, p, dash) for p, dash in zip(("p50", "p95", "p99"), reversed(DASHES[:3])) for scheme in SCHEMES]
    for (left, right), load in zip(grid, LOADS):
        for scheme, p, dash in (*lines, *((beside, "p99", DASHES[3]) for beside in (HIGH_K, STAGE_0))):
            line = curve(data, load, scheme.legend, p)
            style = {**scheme.style, "linestyle": dash, "markersize": 2.5}
            left.plot(line["x"], line["y"], label=f"{scheme.legend}, {p}", **style)
        fabric.slowdown_axes(left)
        fabric.draw_queue(right, data, load, SHOWN, READING.queue)
    lettered(grid.flat, [f"{load}: {what}" for load in LOADS for what in ("FCT", "queues")])
    legend_above(made, grid[0, 0], columns=4)
    return made
