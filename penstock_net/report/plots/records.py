"""Figure of numbers over time: the windows of flows, and what schemes record of nodes, ports and flows."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from penstock_net.errors import SpecError, nearest
from penstock_net.report.plots.canvas import (
    active,
    at_least_one,
    canvas,
    draw_lines,
    legend,
    series_looks,
    time_axis,
    time_caption,
)
from penstock_net.report.plots.select import frame
from penstock_net.report.plots.style import current
from penstock_net.results.chosen import names, node_of, port_of, span_ns
from penstock_net.results.run import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST = 6  # curves of a panel
WINDOW = "window"
KEYS = ("flow_id", "node", "port")


def record(
    *runs: Run,
    record: str | None = None,
    flows: Sequence[int] | None = None,
    port: str | None = None,
    switch: str | int | None = None,
    time: str | None = None,
) -> "Figure":
    """A number over time, as steps; a panel per run, a curve per flow, port or node, at most MOST of them.

    record  what is drawn: "window", the windows of flows (KB, needs flow_series), or a name in the column `name` of
            records.parquet, or its end, such as "tokens"; None: the first that the runs have
    flows   numbers of flows; None: the largest;  port: "tor0:3";  switch: a node, by name or number; None: the busiest
    time    "0.2ms..1ms", a part of the time
    SpecError: it was not recorded, or not of this flow, port or node.
    """
    at_least_one(runs)
    names_of_runs = list(dict.fromkeys(name for run in runs for name in recorded(run)))
    wanted = record or next(iter(names_of_runs), WINDOW)
    start, end = span_ns(time, runs)
    tables = [_changes(run, wanted) for run in runs]
    chosen = [_curves(run, table, flows, port, switch) for run, table in zip(runs, tables)]
    scale, label = (1e3, "Window (KB)") if wanted == WINDOW else (1.0, _label(runs, wanted))
    with active():
        figure, axes = canvas(len(runs), height=0.8 + 1.3 * len(runs), caption=time_caption(runs, start, end))
        for panel, run, curves in zip(axes, runs, chosen):
            for look, (name, rows) in zip(series_looks(len(curves)), curves.items()):
                times, values = rows["time_ns"].to_numpy(), rows["value"].to_numpy() / scale
                last = min(end, float(run.summary.get("end_ns") or end))
                times, values = np.append(times, max(last, times[-1])), np.append(values, values[-1])
                draw_lines(panel, times / 1e6, values, look={**look, "linewidth": 1, "drawstyle": "steps-post"}, label=name)
            time_axis(panel, [run], start, end)
            panel.set_title(run.label if len(axes) > 1 else "", loc="left")
            panel.label_outer()
        if len(axes) > 1:
            figure.supylabel(label, fontsize=current().rc["axes.labelsize"])
        else:
            axes[0].set_ylabel(label)
        legend(figure, axes[0], least=1)
    return figure


def recorded(run: Run) -> list[str]:
    """What a run has recorded, by name, and windows."""
    found = run.frames["records"]["name"].unique(maintain_order=True).to_list() if "records" in run.frames else []
    return [*found, *([WINDOW] if "flow_series" in run.frames else [])]


def _label(runs: Sequence[Run], name: str) -> str:
    texts = {text for run in runs for key, text in (run.summary.get("meanings") or {}).items() if _is(key, name)}
    return texts.pop().capitalize() if len(texts) == 1 else name


def _is(full: str, name: str) -> bool:
    return full == name or full.endswith(f".{name}")


def _changes(run: Run, name: str) -> pl.DataFrame:
    """Rows of what is drawn: time_ns, flow_id, node, port, value."""
    if name == WINDOW:
        series = frame(run, "record", "flow_series").filter(pl.col("window_bytes") >= 0)
        if not series.height:
            remedy = "name what its scheme records, or leave this run out"
            raise SpecError(f'run "{run.label}": its flows have no windows', path="record", value=name, remedy=remedy)
        none = pl.lit(None, dtype=pl.Int32)
        return series.select("time_ns", "flow_id", node=none, port=none, value=pl.col("window_bytes").cast(pl.Float64))
    rows = frame(run, "record", "records", "records = true, and records in the file of its scheme")
    found = rows.filter((pl.col("name") == name) | pl.col("name").str.ends_with(f".{name}"))
    if not found.height:
        raise SpecError(
            f'run "{run.label}": recorded no such number', path="record", value=name, remedy=nearest(name, recorded(run))
        )
    return found.select("time_ns", "flow_id", "node", "port", "value")


def _curves(
    run: Run, rows: pl.DataFrame, flows: Sequence[int] | None, port: str | None, switch: str | int | None
) -> dict[str, pl.DataFrame]:
    """Rows by the name of the curve."""
    if flows is not None:
        rows = rows.filter(pl.col("flow_id").is_in(list(flows)))
    if port is not None:
        rows = port_of([run], port).of(rows)
    if switch is not None:
        rows = rows.filter((pl.col("node") == node_of(run, switch, "switch")) & pl.col("flow_id").is_null())
    if not rows.height:
        raise SpecError(f'run "{run.label}": recorded nothing of these flows, ports or nodes', remedy="leave the choice out")
    sizes = run.flows.select("flow_id", "bytes")
    order = (
        rows.group_by(KEYS)
        .len()
        .join(sizes, on="flow_id", how="left")
        .sort("bytes", "len", *KEYS, descending=[True, True] + [False] * 3)
    )
    called, made = names(run), {}
    for flow, node, number in order.select(KEYS).head(MOST).rows():
        keep = pl.col("flow_id") == flow if flow is not None else (pl.col("node") == node) & pl.col("port").eq_missing(number)
        of_node = called.get(node, f"node {node}")
        name = f"flow {flow}" if flow is not None else of_node if number is None else f"{of_node}:{number}"
        made[name] = rows.filter(keep).sort("time_ns")
    return made
