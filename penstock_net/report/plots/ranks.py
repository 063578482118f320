"""Figure of the ranks of a job over time: what each computes, and the collectives and messages it takes part in."""

from typing import TYPE_CHECKING

import polars as pl

from penstock_net.errors import SpecError
from penstock_net.palette import BLUE, GREEN, ORANGE, PURPLE, RED, SKY, YELLOW
from penstock_net.report.plots.canvas import active, at_least_one, canvas, legend, time_axis, time_caption
from penstock_net.results.chosen import span_ns
from penstock_net.results.run import Run
from penstock_net.workload.operations import COMPUTE, SEND

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MANY = 128  # ranks in a panel; of more, every so-many-th is shown
COMPUTED = {"forward": SKY, "backward": BLUE, "other computation": "#888888"}
SENT = {
    "all_reduce": ORANGE,
    "reduce_scatter": RED,
    "all_gather": YELLOW,
    "all_to_all": PURPLE,
    "broadcast": GREEN,
    "sendrecv": GREEN,
    "scatter": GREEN,
    "reduce": RED,
    "gather": YELLOW,
    "barrier": "#000000",
    "message": GREEN,
}


def rank_timeline(*runs: Run, time: str | None = None) -> "Figure":
    """A row per rank: above what it computes, below what it communicates, from when it enters until it has all that is for it.

    time  "0.2ms..1ms", a part of the time.   SpecError: the workload of a run has no ranks.
    """
    at_least_one(runs)
    for run in runs:
        if "timeline" not in run.frames:
            remedy = 'draw a run whose [[workload]] kind is "training" or "collective", or a converted trace as Parquet'
            raise SpecError(f'run "{run.label}": its workload has no ranks', remedy=remedy)
    ends = max(float(run.summary.get("end_ns") or 0.0) for run in runs)
    start, end = (0.0, ends) if time is None else span_ns(time, runs)
    shown = [rows_of(run) for run in runs]
    most = max(table["place"].n_unique() for table in shown)
    each = min(2.4, max(0.8, 0.35 + 0.09 * most))
    with active():
        figure, axes = canvas(len(runs), height=0.9 + (each + 0.25) * len(runs), caption=time_caption(runs, start, end))
        for panel, run, table in zip(axes, runs, shown):
            _draw(panel, table, start, end)
            _name_ranks(panel, run, table)
            time_axis(panel, [run], start, end)
            panel.set_title(run.label if len(runs) > 1 else "", loc="left")
            panel.set_ylabel("Rank")
            panel.grid(visible=False)
            panel.label_outer()
        legend(figure, axes[0], least=1)
    return figure


def rows_of(run: Run, most: int = MANY) -> pl.DataFrame:
    """The timeline with the row of each rank (`place`) and what it is drawn as (`what`), of so many ranks at most."""
    table = run.frame("timeline").drop_nulls(["start_ns", "finish_ns"])
    ranks = table.select("job", "rank").unique().sort("job", "rank")
    ranks = ranks.gather_every(max(1, -(-ranks.height // most))).with_row_index("place")
    name = pl.col("name")
    forward = pl.when(name.str.starts_with("forward")).then(pl.lit("forward"))
    computed = forward.when(name.str.starts_with("backward")).then(pl.lit("backward")).otherwise(pl.lit("other computation"))
    sent = pl.when(pl.col("kind") == SEND).then(pl.lit("message")).otherwise("kind")
    what = pl.when(pl.col("kind") == COMPUTE).then(computed).otherwise(sent)
    return table.join(ranks, on=["job", "rank"]).with_columns(what=what, computes=pl.col("kind") == COMPUTE)


def _draw(panel: "Axes", table: pl.DataFrame, start: float, end: float) -> None:
    inside = table.filter((pl.col("finish_ns") > start) & (pl.col("start_ns") < end) & (pl.col("finish_ns") > pl.col("start_ns")))
    used = inside["what"].unique().to_list()
    for what, colour in (COMPUTED | SENT).items():
        if what not in used:
            continue
        above = what in COMPUTED
        for (place,), rows in inside.filter(pl.col("what") == what).partition_by("place", as_dict=True).items():
            spans = rows.select(pl.col("start_ns") / 1e6, (pl.col("finish_ns") - pl.col("start_ns")) / 1e6).rows()
            panel.broken_barh(spans, (place - 0.45 if above else place, 0.45), color=colour, linewidth=0, zorder=2)
        panel.plot([], [], color=colour, linewidth=4, label=what.replace("_", "-"))


def _name_ranks(panel: "Axes", run: Run, table: pl.DataFrame) -> None:
    """The numbers of the ranks; of several jobs the first rank of each has the job's name, and a line is between them."""
    places = table.select("place", "job", "rank").unique().sort("place")
    jobs = places["job"].unique(maintain_order=True).to_list()
    every = max(1, -(-places.height // 8))
    chosen = pl.concat([part.gather_every(every) for part in places.partition_by("job", maintain_order=True)])
    called = {job["job"]: job.get("name", f"job {job['job']}") for job in (run.summary.get("training") or {}).get("jobs", [])}
    labels = [str(rank) for rank in chosen["rank"]]
    if len(jobs) > 1:
        first = chosen["job"].is_first_distinct()
        labels = [
            f"{called.get(job, f'job {job}')} {text}" if new else text for job, text, new in zip(chosen["job"], labels, first)
        ]
        for edge in places.filter(pl.col("job").is_first_distinct())["place"].to_list()[1:]:
            panel.axhline(edge - 0.55, color="#999999", linewidth=0.7, zorder=1)
    panel.set_yticks(chosen["place"].to_list(), labels)
    panel.set_ylim(places.height - 0.5, -0.6)
