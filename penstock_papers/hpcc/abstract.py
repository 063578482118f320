"""HPCC (SIGCOMM 2019), abstract: "compared to DCQCN and TIMELY, HPCC shortens flow completion times by up to 95%, causing little
congestion even under large-scale incasts"; and the numbers of section 1: "even under 50% traffic load, HPCC keeps the queue
size zero at the median and 22.9KB at the 99th-percentile, which results in a 95% reduction in the 99th-percentile latency
compared to DCQCN without sacrificing throughput"; "even under incast events where PFC storms happen frequently with DCQCN and
TIMELY, PFC pauses are not triggered with HPCC".

The runs of figures 10 and 11.  Of these figures' percentiles and sizes the 95 % is that of flows shorter than 3 KB: the 99th
percentile of their slowdown on the testbed (section 5.2); on the fat tree, where the text names none, the 95th (figure 11).
A reduction of 95 % is a factor of 20.
"""

from typing import Any

import polars as pl

from penstock_papers import frames, headlines
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import Differs
from penstock_papers.headlines import factor
from penstock_papers.hpcc import _fabric as fabric
from penstock_papers.hpcc import fig10, fig11
from penstock_papers.hpcc._fabric import value
from penstock_papers.sentences import Numbers, about, within

TITLE = "The abstract: completion times, queues, PFC"
PAPER = "HPCC, SIGCOMM 2019, abstract and section 1"
SHORTER = factor(
    "fct",
    "flows < 3 KB, tail: DCQCN or TIMELY / HPCC",
    "compared to DCQCN and TIMELY, HPCC shortens flow completion times by up to 95%",
    20,
)
TESTBED = factor(
    "testbed", "testbed, 50 %, flows < 3 KB, p99: DCQCN / HPCC", "a 95% reduction on the 99th-percentile FCT slowdown", 20
)
OTHERS = ("DCQCN", "TIMELY")
TREE = ("incast", "plain")
LOAD = "50 %"
PAUSED = "30 % + incast: time paused by PFC (%)"
SEEDS = {"paper": 3}
DIFFERS: dict[str, Differs] = {}
CLAIMS = (
    headlines.largest(SHORTER),
    headlines.largest(TESTBED),
    within("queue-p50", "testbed, 50 %, HPCC: queue length p50, KB", "zero at the median", 0, 0, why="zero", quick=True),
    about("queue-p99", "testbed, 50 %, HPCC: queue length p99, KB", "22.9KB at the 99th-percentile", 22.9),
    within(
        "throughput",
        "testbed, 50 %, flows > 1 MB: slowdown p50, HPCC / DCQCN",
        "without sacrificing throughput",
        0,
        1.24,
        why="up to what section 5.3 expects of the headroom and the INT at 50 %",
    ),
    within(
        "pfc-others",
        f"{PAUSED}: DCQCN and TIMELY, the smaller",
        "PFC storms happen frequently with DCQCN and TIMELY",
        1,
        why="frequently is a hundredth of the time; the paper gives no number",
    ),
    within("pfc-hpcc", f"{PAUSED}: HPCC", "PFC pauses are not triggered with HPCC", 0, 0, why="not", quick=True),
)


def specs(scale: str) -> dict[str, Spec]:
    """The traffics of figures 10 and 11, whose runs these are."""
    needed = {"HPCC", *OTHERS}
    found = {**fig10.specs(scale), **fig11.specs(scale)}
    return {
        traffic: {**spec, "scheme": [table for table in spec["scheme"] if table["label"] in needed]}
        for traffic, spec in found.items()
    }


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """The factors of every network, load and scheme; the numbers that section 1 has of one scheme."""
    tails: dict[str, float] = {}
    long: dict[str, float] = {}
    for traffic in (*fig10.LOADS, *TREE):
        on_testbed = traffic in fig10.LOADS
        known = fig10.ALL if on_testbed else fig11.SCHEMES
        shown = ("DCQCN", "HPCC") if on_testbed else (*OTHERS, "HPCC")
        panel = "short p99" if on_testbed else "short p95"
        data = pl.concat(fabric.slowdowns(runs, traffic, known[legend]) for legend in shown)
        where = f"testbed, {traffic}" if on_testbed else f"fat tree, {fig11.NAMES[traffic]}"
        ours = value(data, traffic, "HPCC", panel)
        tails |= {f"{where}, {legend}": value(data, traffic, legend, panel) / ours for legend in shown if legend != "HPCC"}
        if traffic == LOAD:
            long = {legend: value(data, traffic, legend, "long p50") for legend in ("HPCC", "DCQCN")}
    queue = pl.concat(part(runs, LOAD, fig10.ALL["HPCC"]) for part in (fabric.queues, fabric.queues_between))
    paused = {legend: fabric.totals(runs, "incast", fig11.SCHEMES[legend]) for legend in (*OTHERS, "HPCC")}
    numbers = [
        *(
            frames.rows(f"queue {p}", "HPCC", [0], [value(queue, LOAD, "HPCC", f"{fig10.READING.queue} {p}")])
            for p in ("p50", "p99")
        ),
        *(frames.rows("pfc", legend, [0], [value(data, "incast", legend, "pfc")]) for legend, data in paused.items()),
        frames.rows("long", "HPCC", [0], [long["HPCC"] / long["DCQCN"]]),
    ]
    at_50 = {name: number for name, number in tails.items() if name == f"testbed, {LOAD}, DCQCN"}
    return pl.concat([headlines.rows(SHORTER, tails), headlines.rows(TESTBED, at_50), *numbers])


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """The largest factor, the testbed's at 50 %, queues, throughput, and pauses."""
    paused = {legend: frames.value(data, panel="pfc", series=legend) for legend in (*OTHERS, "HPCC")}
    return {
        **headlines.ends(data, largest=(SHORTER, TESTBED)),
        **{f"queue-{p}": frames.value(data, panel=f"queue {p}") for p in ("p50", "p99")},
        "throughput": frames.value(data, panel="long"),
        "pfc-others": min(paused[legend] for legend in OTHERS),
        "pfc-hpcc": paused["HPCC"],
    }


def plot(data: pl.DataFrame) -> Any:
    """Every factor beside the abstract's number."""
    return headlines.plot(data, (SHORTER, TESTBED))
