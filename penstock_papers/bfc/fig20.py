"""BFC (NSDI 2022), figure 20: four traffic classes of strict priority, 99th percentile of the slowdown of each.

Appendix A.3 on the set-up of figure 11b, see `_fabric`: Facebook distribution, 60 % load without incast, of which each class has
15 %. BFC divides 32 or 128 queues evenly among the classes; DCTCP "marks packets based on per-class queueing, while HPCC uses
switch aggregates". Hosts, too, send in the order of the classes.

The paper does not say how the traffic is split: here each class is an arrival process of its own, lognormal with sigma 2. PFC,
which HPCC and DCTCP have, pauses a port as a whole. `alone` is one class at 15 % load, to which the text compares the highest
class.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from penstock_net.results.run import FACEBOOK_BINS, LONG_BYTES, SHORT_BYTES
from penstock_papers.bfc import _fabric as fabric
from penstock_papers.bfc import _options as options
from penstock_papers.bfc._fabric import BFC, BFC_128, DCTCP, HPCC, Scheme, value
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import WORDS, Differs
from penstock_papers.sentences import Numbers, about, as_said, ascending, within
from penstock_papers.style import PAGE, figure, legend_above, lettered, size_text

TITLE = "FCT slowdown (p99) of four traffic classes, Facebook"
PAPER = "BFC, NSDI 2022, appendix A.3, figure 20"
DURATION = {"quick": "4ms", "paper": "50ms"}
SEEDS = fabric.SEEDS
SIZES = "facebook_hadoop"
CLASSES = 4
BFC_8 = replace(BFC, legend="BFC, 8 queues per class", table={**BFC.table, "classes": CLASSES}, run="bfc8")
BFC_32 = replace(BFC_128, legend="BFC, 32 queues per class", table={**BFC_128.table, "classes": CLASSES}, run="bfc32")
SCHEMES = (DCTCP, HPCC, BFC_8, BFC_32)
SHARED, ALONE = "classes", "alone"
HIGH, LOW = 0, CLASSES - 1
DIFFERS: dict[str, Differs] = {}
UP_TO = "BFC achieves up to 5x better tail latency for short flows than DCTCP"
CONVERGES = "At the lowest priority level, DCTCP's short flow tail latency converges to that of BFC"
ANOMALOUS = "long flows at high priority achieve significantly worse service than short flows at lower priority"
FEWER = "BFC has only slightly better performance with 32 vs. 8 queues per priority level"
PREFERRED = "high priority traffic is preferentially scheduled, leading to short queues and few active flows"
EQUIVALENT = (
    "For high priority traffic, the setup is equivalent to running our experiment with just one traffic class at 15% load "
    "and a small number of queues"
)


_SHORT = "flows < 3 KB, p99"
CLAIMS = (
    about("up-to-5", f"{_SHORT}, 8 queues per class: DCTCP / BFC, class {{}}", UP_TO, 5, gain=True),
    within(
        "converges",
        f"{_SHORT}, lowest class: DCTCP / BFC with 8 queues per class",
        CONVERGES,
        *WORDS["similar"],
        why="what has converged is similar: the band of that word",
    ),
    as_said(
        "anomalous",
        "HPCC, p99: flows > 3 MB of the highest class / flows < 3 KB of lower ones ({:.3g} at most)",
        ANOMALOUS,
        "significantly",
    ),
    as_said("queues", f"{_SHORT}: BFC with 8 / with 32 queues per class, largest", FEWER, "slightly"),
    ascending("preferred", f"{_SHORT}: BFC, 8 queues per class", PREFERRED),
    within(
        "equivalent",
        f"{_SHORT}: highest class of BFC / alone at 15 % load with 8 queues",
        EQUIVALENT,
        *WORDS["similar"],
        why="equivalent is similar: the band of that word",
    ),
    fabric.no_drops(),
)


def class_of(i: int) -> str:
    """The name of the flows of a priority."""
    return f"class{i}"


def specs(scale: str) -> dict[str, Spec]:
    """All classes, and one alone with the queues that it has among four."""
    shared = fabric.spec(SCHEMES, DURATION[scale], SIZES)
    (poisson,) = shared["workload"]
    each = {**poisson, **fabric.load_keys(0.6 / CLASSES)}
    alone = replace(BFC, table={**BFC.table, "queues": 8})
    return {
        SHARED: {**shared, "workload": [{**each, "class": class_of(i), "priority": i} for i in range(CLASSES)]},
        ALONE: {**fabric.spec((alone,), DURATION[scale], SIZES), "workload": [{**each, "class": class_of(HIGH)}]},
    }


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: flow size; y: slowdown: panels 0 .. 3 (p99 by size), and short and long of each class; drops."""
    parts = [_class(runs, SHARED, scheme, i) for scheme in SCHEMES for i in range(CLASSES)]
    totals = [fabric.totals(runs, SHARED, scheme) for scheme in SCHEMES]
    return pl.concat([*parts, _class(runs, ALONE, BFC, HIGH), *totals])


def _class(runs: Runs, traffic: str, scheme: Scheme, i: int) -> pl.DataFrame:
    flows = options.of_class(runs, fabric.of(runs, traffic, scheme), class_of(i)).collect()
    bins = pl.Series("bin", np.searchsorted(FACEBOOK_BINS, flows["bytes"].to_numpy()))
    tail, count = pl.col("slowdown").quantile(0.99, "linear"), pl.len().alias("flows")
    sizes = flows.with_columns(bins).group_by("bin").agg(pl.col("bytes").median(), tail, count).sort("bin")
    out = [fabric.points(traffic, scheme, str(i), sizes["bytes"], sizes["slowdown"], sizes["flows"])]
    for group, inside in (("short", pl.col("bytes") < SHORT_BYTES), ("long", pl.col("bytes") > LONG_BYTES)):
        row = flows.filter(inside).select(tail, count)
        out.append(fabric.points(traffic, scheme, f"{group} {i}", [0], row["slowdown"], row["flows"]))
    return pl.concat(out)


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """BFC beside DCTCP, the anomaly of HPCC, the number of queues, the highest class."""
    short = {scheme.label: _tails(data, scheme, "short") for scheme in SCHEMES}
    bfc, wide, dctcp, hpcc = (short[scheme.label] for scheme in (BFC_8, BFC_32, DCTCP, HPCC))
    gains = [b / a for a, b in zip(bfc, dctcp)]
    return {
        "up-to-5": (max(gains), np.argmax(gains)),
        "converges": gains[LOW],
        "anomalous": (value(data, SHARED, HPCC, f"long {HIGH}") / max(hpcc[1:]), max(hpcc[1:])),
        "queues": max(a / b for a, b in zip(bfc, wide)),
        "preferred": {"highest": bfc[HIGH], "lowest": bfc[LOW]},
        "equivalent": bfc[HIGH] / value(data, ALONE, BFC, f"short {HIGH}"),
        "drops": fabric.dropped(data, SHARED, (BFC_8, BFC_32)),
    }


def _tails(data: pl.DataFrame, scheme: Scheme, group: str) -> list[float]:
    """The 99th percentile of a group of sizes in each class."""
    return [value(data, SHARED, scheme, f"{group} {i}") for i in range(CLASSES)]


def plot(data: pl.DataFrame) -> Any:
    """A panel per class, slowdown by size."""
    made, grid = figure(2, 2, width=PAGE, height=4.6, sharex=True, sharey=True)
    for i, axes in enumerate(grid.flat):
        options.lines(axes, data, SHARED, SCHEMES, str(i))
    for i, axes in enumerate(grid.flat):
        options.slowdown_axes(axes, size_text, "FCT slowdown, p99" if i % 2 == 0 else "")
        axes.set_xlabel("Flow size" if i >= 2 else "")
    lettered(grid.flat, ("highest priority", "second", "third", "lowest priority"))
    legend_above(made, grid[0, 0], columns=len(SCHEMES))
    return made
