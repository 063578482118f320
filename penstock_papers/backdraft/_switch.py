"""Data of the figures on the real switch: rows of (panel, series, x, y), measured case by case."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from penstock_net.vswitch.bench.noise import MachineBusy
from penstock_net.vswitch.bench.rig import COSTS, Bench, Row
from penstock_papers import frames, sentences

PATIENCE_S = 300.0  # until a measurement in real time succeeds, since the machine may be busy at times
PAUSE_S = 1.0


def table(points: Sequence[Row]) -> pl.DataFrame:
    """The rows as data.parquet has them."""
    return pl.concat([frames.rows(panel, series, [x], [y]) for panel, series, x, y in points])


def in_virtual_time(*rows: sentences.Row) -> tuple[sentences.Row, ...]:
    """Rows of a table of claims that scale "real" does not have."""
    return tuple(row.at("quick", "paper") for row in rows)


def core_ns(bench: Bench) -> float:
    """Time of the switch's core for each delivered frame: forwarding, dropping, doorbells and queue checks; not idle turns."""
    found = bench.harness.counters()
    spent = found["working_ns"] + found["wasted_ns"] + COSTS.bell * found["bells"] + COSTS.look * found["looks"]
    return float(spent / found["frames"])


def each(runs: Any, id: str, cases: Sequence[Any], work: Callable[..., list[Row]]) -> pl.DataFrame:
    """The rows of every case, with progress; a measurement that was disturbed (MachineBusy) is repeated for PATIENCE_S."""
    found: list[Row] = []
    for nth, case in enumerate(cases):
        runs.report(id, nth / len(cases))
        began, made = time.monotonic(), None
        while made is None:
            try:
                made = work(*case)
            except MachineBusy:
                if time.monotonic() - began >= PATIENCE_S:
                    raise
                time.sleep(PAUSE_S)
        found += [(panel, series, float(nth) if panel == "machine" else x, y) for panel, series, x, y in made]
    return table(found)
