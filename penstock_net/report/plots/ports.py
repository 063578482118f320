"""Figures of egress ports: queue and pauses of one, what it sends, pauses of all links over time, the share of paused time."""

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from penstock_net.errors import SpecError
from penstock_net.inputs import whole
from penstock_net.report.plots.canvas import (
    GREY,
    POINTS,
    Look,
    active,
    at_least_one,
    canvas,
    draw_lines,
    legend,
    over_time,
    panels_over_time,
    styles,
    time_axis,
    time_caption,
    window_text,
)
from penstock_net.report.plots.select import frame, samples_of
from penstock_net.report.plots.style import current
from penstock_net.results.chosen import Port, end_ns, names, port_of, span_ns
from penstock_net.results.pauses import NEVER, by_port, by_queue, intervals, length_until, union
from penstock_net.results.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BINS = 200  # of time, at most
NAMED = 14  # rows of a map whose names can be read
PAUSED = "#F7C9A3"


def link_rate(*runs: Run, port: str | None = None, time: str | None = None) -> "Figure":
    """What a port sends, Gbit/s on the wire, of intervals of one sample or more; a panel per run.

    port  "tor0:3"; None: the switch port with the longest queue;  time: "0.2ms..1ms", a part of the time
    SpecError: no such port, or a run without port_series.
    """
    at_least_one(runs)
    where = port_of(runs, port)
    start, end = span_ns(time, runs)
    top = 0.0
    with active():
        figure, axes = canvas(len(runs), height=0.8 + 1.2 * len(runs), caption=time_caption(runs, start, end))
        for panel, run, look in zip(axes, runs, styles(runs)):
            sent = (
                where.of(frame(run, "link_rate", "port_series")).filter(pl.col("time_ns").is_between(start, end)).sort("time_ns")
            )
            sent = sent.gather_every(max(1, -(-sent.height // BINS)))
            times, sent_bytes = sent["time_ns"].to_numpy(), sent["tx_bytes"].to_numpy()
            rate = np.diff(sent_bytes) * 8 / np.diff(times)
            top = max([top, *rate])
            draw_lines(panel, (times[1:] + times[:-1]) / 2e6, rate, look=over_time(look))
        panels_over_time(figure, axes, runs, (start, end), f"Sent (Gbit/s), {where.text}", top)
    return figure


def port(*runs: Run, port: str | None = None, queue: int | None = None, time: str | None = None) -> "Figure":
    """Bytes queued at one port (KB) over time, shaded where the port or one of its queues is paused; a panel per run.

    port   "tor0:3"; None: the switch port with the longest queue;  time: "0.2ms..1ms", a part of the time
    queue  number of one of its queues: its bytes, and the pauses of this queue or the port; None: all of them
    SpecError: no such port, or a run without pauses or port_series (with `queue`: queues).
    """
    at_least_one(runs)
    where = port_of(runs, port)
    start, end = span_ns(time, runs)
    if queue is not None:
        whole(queue, "queue", 0)
    pauses = [where.of(frame(run, "port", "pauses")) for run in runs]
    if queue is not None:
        _known_queue(runs, where, queue)
        pauses = [log.filter(pl.col("queue").is_in([-1, queue])) for log in pauses]
    queues = queue is None and any((log["queue"] >= 0).any() for log in pauses)
    top = 0.0
    with active():
        caption = f"{'orange: a queue is paused' if queues else 'orange: paused'}; {time_caption(runs, start, end)}"
        figure, axes = canvas(len(runs), height=0.8 + 1.2 * len(runs), caption=caption)
        for panel, run, look, log in zip(axes, runs, styles(runs), pauses):
            _shade(panel, union(by_queue(intervals(log), end_ns([run])).values()), start, end)
            top = max(top, _queue_line(panel, run, where, queue, look, (start, end)))
        of = "" if queue is None else f" {queue}"
        panels_over_time(figure, axes, runs, (start, end), f"Queue{of} (KB), {where.text}", top)
    return figure


def _known_queue(runs: Sequence[Run], where: Port, queue: int) -> None:
    """SpecError for a queue that never held a packet at a sample."""
    used = pl.concat(where.of(frame(run, "port", "queues", "queues = true"))["queue"] for run in runs)
    if queue not in used:
        if not len(used):
            rule, remedy = f"no queue of {where.text} held a packet at a sample", "choose another port, or sample more often"
            raise SpecError(rule, path="queue", value=queue, remedy=remedy)
        numbers = ", ".join(map(str, used.value_counts(sort=True)["queue"][:8].sort()))
        rule = f"was empty at every sample of {where.text}"
        raise SpecError(rule, path="queue", value=queue, remedy=f"those that held packets most often: {numbers}")


def _queue_line(panel: "Axes", run: Run, where: Port, queue: int | None, look: Look, span: tuple[float, float]) -> float:
    """Draw the bytes queued, and return their maximum, KB."""
    if queue is None:
        series = where.of(frame(run, "port", "port_series")).select("time_ns", bytes="queue_bytes")
    else:
        filled = (
            where.of(frame(run, "port", "queues", "queues = true")).filter(pl.col("queue") == queue).select("time_ns", "bytes")
        )
        times = samples_of(run, "port").times.to_frame()
        series = times.join(filled, on="time_ns", how="left").with_columns(pl.col("bytes").fill_null(0))
    series = series.filter(pl.col("time_ns").is_between(*span)).sort("time_ns")
    step = max(1, -(-series.height // POINTS))
    series = series.group_by(pl.int_range(pl.len()) // step, maintain_order=True).agg(
        pl.col("time_ns").first(), pl.col("bytes").max()
    )
    draw_lines(panel, series["time_ns"].to_numpy() / 1e6, series["bytes"].to_numpy() / 1e3, look=over_time(look))
    return float(series["bytes"].max() or 0) / 1e3  # type: ignore[arg-type]


def _shade(panel: "Axes", spans: np.ndarray, start: float, end: float) -> None:
    spans = np.clip(spans, start, end)
    spans = spans[spans[:, 1] > spans[:, 0]] / 1e6
    panel.broken_barh(
        [(left, right - left) for left, right in spans],
        (0, 1),
        transform=panel.get_xaxis_transform(),
        color=PAUSED,
        linewidth=0,
        zorder=0.5,
    )


def port_life(*runs: Run, port: str | None = None, time: str | None = None) -> "Figure":
    """A port's queue (KB), what it sends (% of its rate), and the time it is paused (%), below one another; a curve per run.

    As `Run.port_life` has them, of intervals of one sample or more: the longest queue, and the means of the others.
    port  "tor0:3"; None: the switch port with the longest queue, of those ever paused;  time: "0.2ms..1ms", a part of the time
    SpecError: no such port, or a run without pauses or port_series.
    """
    at_least_one(runs)
    where = port_of(runs, port)
    start, end = span_ns(time, runs)
    for run in runs:
        for needed in ("port_series", "pauses"):
            frame(run, "port_life", needed)
    with active():
        figure, axes = canvas(3, height=3.3, caption=f"{where.text}; {time_caption(runs, start, end)}", heights=(1, 1, 1))
        for run, look in zip(runs, styles(runs)):
            table = run.port_life(f"{where.node}:{where.number}").with_columns(length=pl.col("time_ns").diff().fill_null(0))
            table = table.filter(pl.col("time_ns").is_between(start, end))
            group = pl.int_range(pl.len()) // max(1, -(-table.height // BINS))
            means = [(pl.col(name) * pl.col("length")).sum() / pl.col("length").sum() for name in ("utilization", "paused")]
            table = table.group_by(group, maintain_order=True).agg(pl.col("time_ns").last(), pl.col("queue_bytes").max(), *means)
            for panel, values in zip(axes, (table["queue_bytes"] / 1e3, 100 * table["utilization"], 100 * table["paused"])):
                draw_lines(panel, table["time_ns"].to_numpy() / 1e6, values.to_numpy(), look=over_time(look), label=run.label)
        for panel, label in zip(axes, ("Queue (KB)", "Sent (%)", "Paused (%)")):
            time_axis(panel, runs, start, end)
            panel.set_ylabel(label)
            panel.set_ylim(*((0, None) if panel is axes[0] else (-4, 108)))  # lines at 0 are seen, too
            panel.label_outer()
        figure.align_ylabels(axes)
        legend(figure, axes[0])
    return figure


def pause_map(*runs: Run, time: str | None = None) -> "Figure":
    """Share of time for which each link was paused, over time: a row per egress port that was ever paused, a panel per run.

    Rows are in the order of the path: from the hosts up to the core, and down again. A port counts as paused while it, or at
    least one of its queues, is.   time: "0.2ms..1ms", a part of the time.   SpecError: a run without pauses.
    """
    import matplotlib

    at_least_one(runs)
    start, end = span_ns(time, runs)
    edges = np.linspace(start, end, BINS + 1)
    paused = [frame(run, "pause_map", "pauses").filter((pl.col("time_ns") < end) & pl.col("paused")) for run in runs]
    rows = _along_the_path(runs[0], pl.concat(table.select("node", "port") for table in paused).unique())
    if not rows.height:
        raise SpecError("no link was paused", remedy="draw another kind, or another part of the time with --time")
    colours = matplotlib.colormaps["magma_r"].with_extremes(bad=(0, 0, 0, 0))
    groups = rows["hop"].n_unique()
    shown = [run for run, table in zip(runs, paused) if table.height]
    calm = [run.label for run in runs if not any(run is other for other in shown)]
    each = min(2.2, max(0.9, 0.5 + 0.012 * rows.height, 0.12 * (rows.height if rows.height <= NAMED else groups)))
    each = max(0.9, min(each, 6 / len(shown)))
    caption = f"no pauses: {', '.join(calm)}; " * bool(calm) + time_caption(runs, start, end)
    with active():
        figure, axes = canvas(len(shown), height=0.95 + (each + 0.25) * len(shown), caption=caption)
        image: Any = None
        for panel, run in zip(axes, shown):
            spans = by_port(by_queue(intervals(run.frame("pauses")), end_ns([run])))
            shares = np.vstack([_paused_share(spans.get(row, NEVER), edges) for row in rows.select("node", "port").iter_rows()])
            image = panel.imshow(
                np.ma.masked_less_equal(100 * shares, 0),
                aspect="auto",
                interpolation="nearest" if rows.height < 300 else "auto",
                cmap=colours,
                vmin=0,
                vmax=100,
                extent=(start / 1e6, end / 1e6, rows.height - 0.5, -0.5),
                zorder=1,
            )
            time_axis(panel, [run], start, end)
            panel.set_title(run.label if len(runs) > 1 else "", loc="left")
            _name_rows(panel, rows, 0.125 / each * rows.height)
            panel.grid(visible=False)
            panel.label_outer()
        bar = figure.colorbar(image, ax=axes, location="top", aspect=45, pad=0.02)
        queues = any((table["queue"] >= 0).any() for table in paused)
        bar.set_label("Time with a queue paused (%)" if queues else "Time paused (%)", fontsize=current().rc["ytick.labelsize"])
        bar.outline.set_linewidth(0.5)  # type: ignore[operator]
    return figure


def _along_the_path(run: Run, ports: pl.DataFrame) -> pl.DataFrame:
    """Ports with `hop` ("host to tor") and `text` ("host3 to tor0"), ordered by the tiers that their links join."""
    called = names(run)
    nodes = run.frames.get("nodes")
    tiers = {} if nodes is None else dict(zip(nodes["node"].to_list(), nodes["tier"].to_list()))
    peers = {(node, number): peer for node, number, peer in run.ports.select("node", "port", "peer").iter_rows()}
    rows = []
    for node, number in ports.iter_rows():
        peer = peers.get((node, number), -1)
        ends = [called.get(n, str(n)) for n in (node, peer)]
        low, high = tiers.get(node, 0), tiers.get(peer, 0)
        hop = " to ".join(name.rstrip("0123456789") for name in ends)
        rows.append((high < low, low if high >= low else -low, hop, node, number, " to ".join(ends)))
    schema = ["down", "tier", "hop", "node", "port", "text"]
    return pl.DataFrame(rows, schema=schema, orient="row").sort("down", "tier", "hop", "node", "port")


def _name_rows(panel: "Axes", rows: pl.DataFrame, apart: float) -> None:
    """Name each row, or each group of rows if there are many; `apart`: the least distance of two names, in rows."""
    panel.tick_params(axis="y", length=0)
    if rows.height <= NAMED:
        panel.set_yticks(range(rows.height), rows["text"].to_list(), fontsize=6.5)
        return
    places: list[float] = []
    names: list[str] = []
    for (hop,), group in rows.with_row_index().partition_by("hop", as_dict=True, maintain_order=True).items():
        low = int(group["index"][0])
        panel.axhline(low - 0.5, color=GREY, linewidth=0.5)
        middle = low + group.height / 2 - 0.5
        places.append(max(middle, places[-1] + apart) if places else middle)
        names.append(f"{hop} ({group.height})")
    for i in reversed(range(len(places))):
        places[i] = min(places[i], rows.height - 0.5 - apart * (len(places) - i - 0.5))
    panel.set_yticks(places, names, fontsize=6.5)


def _paused_share(spans: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Which part of each interval between edges (ns) lies in the spans."""
    return np.diff(length_until(spans, edges)) / np.diff(edges)


def pause_time(*runs: Run) -> "Figure":
    """Share of port time paused by PFC (%), a bar per run."""
    at_least_one(runs)
    with active():
        figure, (axes,) = canvas(height=0.75 + 0.26 * len(runs), caption=window_text(runs))
        _bars(axes, runs, styles(runs))
    return figure


def _bars(axes: "Axes", runs: Sequence[Run], looks: list[dict[str, Any]]) -> None:
    values = [100 * float(run.summary.get("pfc_pause_fraction") or 0) for run in runs]
    places = np.arange(len(runs))[::-1]
    axes.barh(places, values, color=[look["color"] for look in looks], height=0.62)
    for place, value in zip(places, values):
        text = f"{value:.2g} %" if value else "0"
        axes.annotate(text, (value, place), xytext=(3, 0), va="center", fontsize=8, textcoords="offset points")
    axes.set_yticks(places, [textwrap.fill(run.label, 24) for run in runs])
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.set(xlabel="Port time paused by PFC (%)", xlim=(0, max(values) * 1.18 or 1), ylim=(-0.6, len(runs) - 0.4))
