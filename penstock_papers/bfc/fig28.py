"""BFC (NSDI 2022), figure 28: 99th percentile of the slowdown by the size of the flow table, as a multiple of the queues.

Appendix A.11, on the traffic of figure 11a (see `_fabric`): Facebook at 55 % load and 5 % 100-to-1 incast. The table has so many
entries per queue and port; 100 is that of all other figures. The text names no other size than 100; it shows "both smaller and
larger flow tables".
"""

from typing import Any

import polars as pl

from penstock_papers.bfc import _fabric as fabric
from penstock_papers.bfc._fabric import BFC, Scheme, value
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import MORE, OURS
from penstock_papers.sentences import Numbers, ascending, within
from penstock_papers.style import BLACK, BLUE, COLUMN, GREEN, ORANGE, PURPLE, RED, figure, legend_above, log_axis, size_text

TITLE = "FCT slowdown by the size of the flow table, Facebook with incast"
PAPER = "BFC, NSDI 2022, appendix A.11, figure 28"
DURATION = {"quick": "1ms", "paper": "50ms"}
SEEDS = fabric.SEEDS
USUAL = 100
TABLES = {
    multiple: Scheme(f"{multiple}X", {**BFC.table, "table": multiple}, run=f"table{multiple}")
    for multiple in (1, 10, 50, USUAL, 200, 400)
}
SMALLEST, LARGEST = min(TABLES), max(TABLES)
COLOURS = dict(zip(TABLES, (RED, ORANGE, PURPLE, BLUE, GREEN, BLACK)))
DEGRADE = "Tail latency FCTs degrade as a result, particularly for small flows and for smaller table sizes"
TRAFFIC = "incast"


CLAIMS = (
    ascending("order", "short flows (< 3 KB), p99, by table", DEGRADE, quick=False),
    ascending("ends", "short flows, p99: the largest and the smallest table", DEGRADE, kind=OURS),
    ascending(
        "small-flows",
        f"p99 with {SMALLEST}X over that with {USUAL}X: flows > 3 MB, flows < 3 KB",
        "particularly for small flows",
        quick=False,
    ),
    within(
        "larger",
        f"short flows, p99: {USUAL}X / {LARGEST}X",
        "increasing the size of the flow table would moderately improve short flow tail latency",
        1,
        1.5,
        why="an improvement, and less than what significantly and much mean, a factor of 1.5",
    ),
    within(
        "larger-sizes",
        f"p99, mean of the size bins: {USUAL}X / {LARGEST}X",
        "all sizes",
        0.95,
        1.5,
        why="moderately, as for short flows; 5 % for other collisions by chance",
        kind=OURS,
    ),
    within("smaller", f"short flows, p99: {SMALLEST}X / {USUAL}X", DEGRADE, 1, why=MORE),
    fabric.no_drops(),
)


def specs(scale: str) -> dict[str, Spec]:
    """One traffic, a table size per scheme."""
    return {TRAFFIC: fabric.spec(TABLES.values(), DURATION[scale], "facebook_hadoop", incast=0.05)}


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: flow size or buffer; y: slowdown or CDF, by panel."""
    return pl.concat(fabric.everything(runs, TRAFFIC, scheme, "facebook_hadoop") for scheme in TABLES.values())


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Smaller tables are worse, for small flows most; larger ones are moderately better."""
    short, long = (
        {multiple: value(data, TRAFFIC, scheme, f"{group} p99") for multiple, scheme in TABLES.items()}
        for group in ("short", "long")
    )
    far, near = _by_size(data, TABLES[LARGEST]), _by_size(data, TABLES[USUAL])
    return {
        "order": {TABLES[multiple].legend: short[multiple] for multiple in (LARGEST, USUAL, 10, SMALLEST)},
        "ends": {TABLES[multiple].legend: short[multiple] for multiple in (LARGEST, SMALLEST)},
        "small-flows": {"long": long[SMALLEST] / long[USUAL], "short": short[SMALLEST] / short[USUAL]},
        "larger": short[USUAL] / short[LARGEST],
        "larger-sizes": (near / far).mean(),
        "smaller": short[SMALLEST] / short[USUAL],
        "drops": fabric.dropped(data, TRAFFIC, TABLES.values()),
    }


def _by_size(data: pl.DataFrame, scheme: Scheme) -> pl.Series:
    return fabric.curve(data, TRAFFIC, scheme.label, "p99")["y"]


def plot(data: pl.DataFrame) -> Any:
    """Slowdown by flow size, a line per size of the table."""
    made, axes = figure(width=COLUMN, height=2.6)
    for multiple, scheme in TABLES.items():
        line = fabric.curve(data, TRAFFIC, scheme.label, "p99").drop_nulls()
        axes.plot(line["x"], line["y"], color=COLOURS[multiple], label=scheme.legend)
    log_axis(axes.xaxis, size_text)
    log_axis(axes.yaxis, None, (1, 2, 5))
    axes.set(xlabel="Flow size", ylabel="FCT slowdown, p99")
    legend_above(made, axes, columns=6)
    return made
