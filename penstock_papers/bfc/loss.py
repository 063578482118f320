"""BFC (NSDI 2022), section 3.3.2: lost pause and resume frames, with and without the bitmap of paused queues.

"For reliability against pause/resume packets being dropped, we also periodically send a bitmap of the queues that should be
paused at the upstream." The paper has no figure of it. Set-up of figure 9 (section 6.2.1, see `_fabric`): Google at 55 % load and
5 % 100-to-1 incast. Every link loses none, 1 % or 10 % of the control frames (pauses, resumes and bitmaps), and nothing else, so
that no flow waits for a retransmission. The bitmap is sent every 10 us, or never (`refresh`).

Unlike figure 9's, the runs go on after the last arrival until all flows have finished, or for 20 ms more: a queue that is paused
when nothing is left to send was never resumed, it is stuck.
"""

from typing import Any

import numpy as np
import polars as pl

from penstock_papers.bfc import _fabric as fabric
from penstock_papers.bfc._fabric import BFC, Scheme, points, value
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import MORE, OURS, WORDS
from penstock_papers.sentences import Numbers, ascending, within
from penstock_papers.style import BLACK, DASHES, ORANGE, PAGE, RED, figure, legend_above, lettered, log_axis, size_text

TITLE = "Lost pauses and resumes, with and without the bitmap"
PAPER = "BFC, NSDI 2022, section 3.3.2"
DURATION_MS = {"quick": 1, "paper": 10}
DRAIN_MS = 20
SEEDS = {"paper": 3}
REDUCED = "10 ms of arrivals instead of the other figures' 50, as without the bitmap the network comes to a stop"
LOSSES = (0.0, 0.01, 0.1)
WITHOUT = Scheme("BFC without the bitmap", {**BFC.table, "refresh": "0s"}, nth=1, run="bfc_no_bitmap")
SCHEMES = (BFC, WITHOUT)
INSTANTS = 300  # of the number of paused queues
COLOURS = dict(zip(LOSSES, (BLACK, ORANGE, RED)))
BITMAP = "For reliability against pause/resume packets being dropped, we also periodically send a bitmap"
RESILIENT = "pause and resume state is maintained idempotently, in a manner resilient to packet loss"


NOT_REPEATED = "a lost resume is not repeated"
CLAIMS = (
    *(
        row
        for loss in LOSSES[1:]
        for id, where in [(f"{100 * loss:g}", f"{loss:.0%} of the control frames lost")]
        for row in (
            within(f"stuck-{id}", f"{where}: queues never resumed", BITMAP, 0, 0, why="none", quick=True),
            within(f"unfinished-{id}", f"{where}: flows never finished", BITMAP, 0, 0, why="none", quick=True),
            within(
                f"short-{id}",
                f"{where}: short flows, p99, over that without losses",
                RESILIENT,
                *WORDS["comparable"],
                why="resilient is comparable: the band of that word",
                kind=OURS,
            ),
            within(
                f"drops-{id}",
                f"{where}: packets dropped for want of buffer",
                "more arrives where a pause is lost",
                0,
                0,
                why="a lost pause costs 10 us at line rate, 125 KB; of an incast of 100 flows ten are lost at 10 %",
                quick=True,
                kind=OURS,
            ),
            within(
                f"without-{id}", f"{where}, no bitmap: queues never resumed", NOT_REPEATED, 1, why=MORE, quick=True, kind=OURS
            ),
            within(
                f"unfinished-without-{id}",
                f"{where}, no bitmap: flows never finished",
                NOT_REPEATED,
                1,
                why=MORE,
                quick=True,
                kind=OURS,
            ),
        )
    ),
    ascending("more", "queues never resumed without the bitmap, by loss", NOT_REPEATED, kind=OURS),
    within(
        "needless",
        "no losses: short flows, p99: without the bitmap / with it",
        "the bitmap repeats what is known",
        0.95,
        1.05,
        why="only the bitmaps' own bytes are between them",
        kind=OURS,
    ),
)


def name(loss: float) -> str:
    """The label of the runs with this loss of control frames."""
    return f"loss{100 * loss:g}"


def specs(scale: str) -> dict[str, Spec]:
    """One traffic, three rates of loss, each with the bitmap and without."""
    arrivals = DURATION_MS[scale]
    spec = fabric.spec(SCHEMES, f"{arrivals}ms", incast=0.05)
    run = {**spec["run"], "drain": True, "max_time": f"{arrivals + DRAIN_MS}ms"}
    return {name(loss): {**spec, "run": {**run, "control_loss": loss}, "measure": {"pauses": True}} for loss in LOSSES}


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """Slowdowns and buffers as figure 9's; panel paused: x ms, y queues that are paused; stuck, unfinished, full: one number.

    `full`: packets dropped because a buffer was full.
    """
    return pl.concat(_one(runs, name(loss), scheme) for loss in LOSSES for scheme in SCHEMES)


def _one(runs: Runs, traffic: str, scheme: Scheme) -> pl.DataFrame:
    label = fabric.of(runs, traffic, scheme)
    times, queues = paused(runs, label)
    ports = runs.scan(label, "ports").select(full=pl.col("drop_reason").str.extract(r"buffer full: (\d+)").cast(pl.Int64))
    numbers = {"stuck": queues[-1], "full": ports.sum().collect().item() or 0}
    return pl.concat(
        [
            fabric.everything(runs, traffic, scheme, "google"),
            points(traffic, scheme, "paused", times, queues),
            *(points(traffic, scheme, panel, [0], [number]) for panel, number in numbers.items()),
        ]
    )


def paused(runs: Runs, label: str) -> tuple[np.ndarray, np.ndarray]:
    """Instants in ms, the last one the end of the run, and how many queues were paused then."""
    changes = runs.scan(label, "pauses").select("time_ns", "paused").collect().sort("time_ns")
    ends = np.concatenate([[0], np.cumsum(np.where(changes["paused"], 1, -1))])
    times = np.linspace(0, runs.summary(label)["end_ns"], INSTANTS)
    return times / 1e6, ends[np.searchsorted(changes["time_ns"].to_numpy(), times, side="right")].astype(float)


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """With the bitmap nothing is stuck and short flows' tail stays; ours: without it queues are stuck."""

    def number(loss: float, panel: str, scheme: Scheme = BFC) -> float:
        return value(data, name(loss), scheme, panel)

    tail = number(0.0, "short p99")
    found: Numbers = {}
    for loss in LOSSES[1:]:
        id = f"{100 * loss:g}"
        found |= {
            f"stuck-{id}": number(loss, "stuck"),
            f"unfinished-{id}": number(loss, "unfinished"),
            f"short-{id}": number(loss, "short p99") / tail,
            f"drops-{id}": number(loss, "full"),
            f"without-{id}": number(loss, "stuck", WITHOUT),
            f"unfinished-without-{id}": number(loss, "unfinished", WITHOUT),
        }
    return {
        **found,
        "more": {f"{loss:.0%}": number(loss, "stuck", WITHOUT) for loss in LOSSES},
        "needless": number(0.0, "short p99", WITHOUT) / tail,
    }


def plot(data: pl.DataFrame) -> Any:
    """Paused queues over time, slowdown by size with the bitmap, and the buffer in use."""
    made, (left, middle, right) = figure(1, 3, width=PAGE, height=2.6)
    for loss in LOSSES:
        for scheme, dash in zip(SCHEMES, DASHES):
            looks = {"color": COLOURS[loss], "ls": dash, "label": f"{loss:.0%} lost{'' if scheme is BFC else ', no bitmap'}"}
            over_time, buffer = (fabric.curve(data, name(loss), scheme.label, panel) for panel in ("paused", "buffer"))
            left.plot(over_time["x"], over_time["y"], **looks)
            right.plot(buffer["x"], buffer["y"], **looks)
        sizes = fabric.curve(data, name(loss), BFC.label, "p99").drop_nulls()
        middle.plot(sizes["x"], sizes["y"], color=COLOURS[loss])
    left.set(xlabel="Time (ms)", ylabel="Paused queues", yscale="symlog")
    log_axis(middle.xaxis, size_text)
    log_axis(middle.yaxis, None, (1, 2, 5))
    middle.set(xlabel="Flow size", ylabel="FCT slowdown, p99")
    right.set(xlabel="Buffer in use at a switch (MB)", ylabel="CDF", ylim=(0, 1.02))
    lettered((left, middle, right), ("queues that are paused", "with the bitmap", "buffer"))
    legend_above(made, left, columns=3)
    return made
