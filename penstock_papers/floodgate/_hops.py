"""Counters per hop and line plots over a parameter, for several figures of Floodgate."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import polars as pl

from penstock_papers.cache import Runs
from penstock_papers.floodgate import _setup as setup
from penstock_papers.floodgate._setup import HOPS, Scheme, rows
from penstock_papers.style import BLUE, DASHES, MARKERS, ORANGE, PURPLE

UPLINK_GBPS = 400
POISSON_FROM_NS = 30_000.0
COLUMNS = {"data": "data", "credits": "control_bytes", "ACKs": "ack_bytes"}
OF_HOP = dict(zip(HOPS, zip((BLUE, ORANGE, PURPLE), DASHES, MARKERS)))


def named(scheme: Scheme, legend: str, **floodgate: Any) -> Scheme:
    """The same scheme under another legend, with parameters of Floodgate's own."""
    table = {**scheme.table, **({"floodgate": floodgate} if floodgate else {})}
    return replace(scheme, legend=legend, table=table)


def shares(runs: Runs, label: str, gbps: float = UPLINK_GBPS) -> pl.DataFrame:
    """time_ns and the shares of data, credits and ACKs on the links between switches since the previous sample, per cent of the
    capacity. Credits are all control frames (PFC's among them)."""
    tier = runs.scan(label, "nodes").filter(pl.col("tier") > 0).select("node").collect()["node"]
    both = runs.scan(label, "ports").filter(pl.col("node").is_in(tier.implode()) & pl.col("peer").is_in(tier.implode()))
    between = both.select("node", "port").collect()
    series = runs.scan(label, "port_series").join(between.lazy(), on=["node", "port"], how="semi")
    total = series.group_by("time_ns").agg(pl.col("tx_bytes", "ack_bytes", "control_bytes").sum()).sort("time_ns").collect()
    total = total.with_columns((pl.col("tx_bytes") - pl.col("ack_bytes") - pl.col("control_bytes")).alias("data"))
    capacity = pl.col("time_ns").diff() * (len(between) * gbps / 8)
    return total.select("time_ns", *((100 * pl.col(column).diff() / capacity).alias(name) for name, column in COLUMNS.items()))[
        1:
    ]


def overhead(runs: Runs, label: str, gbps: float = UPLINK_GBPS) -> dict[str, float]:
    """Mean of `shares` while flows arrive, in per cent."""
    table = shares(runs, label, gbps)
    end = float(runs.summary(label)["duration_ns"])
    busy = table.filter((pl.col("time_ns") > POISSON_FROM_NS) & (pl.col("time_ns") <= end))
    return {name: float(busy[name].mean()) for name in COLUMNS}  # type: ignore[arg-type]


def buffer_rows(runs: Runs, label: str, panel: str, x: float = 0.0, traffic: str = "") -> list[pl.DataFrame]:
    """A row per hop: series is the hop, y MB."""
    return [rows(panel, hop, [x], [most], traffic) for hop, most in setup.hop_buffers(runs, label).items()]


def draw_lines(axes: Any, data: pl.DataFrame, panel: str, looks: dict[str, tuple[Any, ...]], labels: Iterable[str] = ()) -> None:
    """A line per series over x; `looks` gives colour, dashes and marker."""
    texts = dict(zip(looks, labels)) if labels else {}
    for name, (colour, dash, marker) in looks.items():
        line = data.filter((pl.col("panel") == panel) & (pl.col("series") == name)).sort("x")
        axes.plot(line["x"], line["y"], color=colour, linestyle=dash, marker=marker, label=texts.get(name, name))
