"""Backdraft (NSDI 2022), figure 15, on real switches: the receiver doubles its speed half way.

Section 6.3: an application of one server sends to one of another, which takes 3 million packets per second, later 6 million, by
way of a lossless network. Frames are of 64 B, the sender offers 10 Mpps, links have 10 Gbit/s. The paper runs for a minute; here
the run is long compared with the 20 ms between two rate updates of a switch. A receiver is idle if and only if its queue is
empty, so the unused share of its speed is its empty-queue time. BESS has PFC and a queue of 1024 slots.
Virtual time, in which what is received and sent is (ours); no random numbers.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from penstock_net.vswitch.bench import rig
from penstock_net.vswitch.bench.rig import Row
from penstock_net.vswitch.bench.two_switches import Servers
from penstock_papers.backdraft import _setup as setup
from penstock_papers.backdraft._setup import PREVENTS, value
from penstock_papers.backdraft._switch import each
from penstock_papers.backdraft.fig15 import AVOIDS, SHARES
from penstock_papers.cache import Runs
from penstock_papers.claims import OURS, Differs
from penstock_papers.sentences import Numbers, holds, within
from penstock_papers.style import BLACK, ORANGE, PAGE, SKY, figure, legend_above, lettered

TITLE = "A receiver behind another real switch that doubles its speed"
PAPER = "Backdraft, NSDI 2022, section 6.3, figure 15"
LENGTH, BEFORE, AFTER, OFFERED = 64, 3.0, 6.0, 10.0  # bytes, Mpps
PFC, BACKDRAFT = "lossless (PFC)", "Backdraft"
MODES: dict[str, dict[str, Any]] = {PFC: rig.bess("pfc", LENGTH), BACKDRAFT: {"mode": "backdraft"}}
HALF_MS = {"quick": 100, "paper": 1000}
BIN_MS = 1
SETTLED, CORRECTIONS_MS = 0.95, 20
FEW = "one receiver and a rate in every pause: no more than a pause for a thousand frames"
DIFFERS = {
    "starves": Differs(
        "a queue of 1024 slots lasts longer than any pause of this switch's PFC; one of 128 slots does not",
        "backdraft-far-starvation",
        expected=(0.99, 1.01),
        scales=("quick", "paper"),
    )
}


CLAIMS = (
    *(replace(row, kind=OURS) for row in SHARES),
    within(
        "follows",
        "ms until the receiver takes 95 % of its new speed, Backdraft",
        "-",
        0,
        2 * CORRECTIONS_MS,
        why="two corrections of the rate",
        quick=True,
        kind=OURS,
    ),
    within(
        "sender",
        "what the sender's switch sends in the end over what the receiver takes, Backdraft",
        "-",
        0.95,
        1.05,
        why="what is sent is what is taken: 5 % for queues that grow and shrink",
        quick=True,
        kind=OURS,
    ),
    within("few", "overlay pauses for a thousand frames", "-", 0, 1, why=FEW, quick=True, kind=OURS),
    holds("no-frames", "PFC frames with Backdraft", AVOIDS, "0"),
    holds("no-drops", "frames dropped, of both", PREVENTS, "0"),
)


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """Panels "received", "sent" (at the sender's switch): x ms, y Mpps; "overlay": x ms, y pause frames so far; "PFC", "drops":
    y total."""
    return each(runs, "backdraft/fig15_switch", [(mode, scale) for mode in MODES], work)


def work(mode: str, scale: str) -> list[Row]:
    """Simulate one mode in steps of a millisecond."""
    made = Servers(MODES[mode], "10Gbps", overlay=mode == BACKDRAFT)
    sender = made.near.app("sender", queues=4)
    receiver = made.far.app("receiver", queues=64, service=[1e3 / BEFORE])
    made.connect()
    made.udp(sender, receiver, 1000, LENGTH, gap=1e3 / OFFERED, most=1 << 20)
    found: list[Row] = []
    for nth in range(2 * HALF_MS[scale] // BIN_MS):
        if nth * BIN_MS == HALF_MS[scale]:
            made.far.harness.service(receiver, 0, 1e3 / AFTER)
        made.reset()
        made.run(BIN_MS)
        ms = (nth + 0.5) * BIN_MS
        found += [
            ("received", mode, ms, made.far.rate(receiver)),
            ("sent", mode, ms, made.counts()["sent"] / BIN_MS / 1e3),
            ("overlay", mode, ms, made.totals()["overlay pauses"]),
        ]
    total = made.totals()
    made.close()
    found.append(("PFC", mode, 0, total["server frames"] + total["network frames"]))
    return [*found, ("drops", mode, 0, total["drops at switches"] + total["drops in the network"])]


def mean(data: pl.DataFrame, panel: str, mode: str, begin: float, end: float) -> float:
    """Average rate between two times, ms."""
    rates = setup.line(data, panel, mode).filter(pl.col("x").is_between(begin, end))["y"]
    return float(rates.sum()) / len(rates) if len(rates) else float("nan")


def settles(data: pl.DataFrame, panel: str, half: float) -> float:
    """Ms from the change until the rate reaches 95 % of the new speed, with Backdraft; nan: never."""
    rate = setup.line(data, panel, BACKDRAFT).filter((pl.col("x") > half) & (pl.col("y") >= SETTLED * AFTER))
    return float(rate["x"].min()) + BIN_MS / 2 - half if len(rate) else float("nan")  # type: ignore[arg-type]


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Backdraft adapts; PFC starves the receiver, according to the paper."""
    half = HALF_MS[scale]
    drops = sum(value(data, "drops", mode) for mode in MODES)
    frames, pauses = value(data, "PFC", BACKDRAFT), float(setup.line(data, "overlay", BACKDRAFT)["y"].max())  # type: ignore
    sent = 1e3 * float(setup.line(data, "sent", BACKDRAFT)["y"].sum())
    return {
        "before": mean(data, "received", BACKDRAFT, half / 2, half) / BEFORE,
        "adapts": mean(data, "received", BACKDRAFT, 1.75 * half, 2 * half) / AFTER,
        "average": mean(data, "received", BACKDRAFT, half, 2 * half) / AFTER,
        "follows": settles(data, "received", half),
        "sender": mean(data, "sent", BACKDRAFT, 1.75 * half, 2 * half) / AFTER,
        "starves": mean(data, "received", PFC, half, 2 * half) / AFTER,
        "few": 1e3 * pauses / sent,
        "no-frames": (frames == 0, frames),
        "no-drops": (drops == 0, drops),
    }


def plot(data: pl.DataFrame) -> Any:
    """Rates of the receiver and of the sender's switch, and pause frames, over time."""
    made, grid = figure(1, 3, width=PAGE, height=2.3)
    for mode, colour in ((PFC, ORANGE), (BACKDRAFT, SKY)):
        for axes, panel in zip(grid, ("received", "sent", "overlay")):
            points = setup.line(data, panel, mode)
            axes.plot(points["x"], points["y"], label=mode, color=colour, linewidth=2.5 if mode == PFC else 1.2)
    end = float(np.max(data["x"].to_numpy())) + BIN_MS / 2
    grid[0].plot([0, end / 2, end / 2, end], [BEFORE, BEFORE, AFTER, AFTER], color=BLACK, linestyle=":", label="what it can take")
    for axes, title in zip(grid, ("received (Mpps)", "sent (Mpps)", "pause frames so far")):
        axes.set_xlabel("time (ms)")
        axes.set_ylabel(title)
        axes.set_ylim(bottom=0)
    lettered(grid, ("receiver", "sender's switch", "overlay pauses"))
    legend_above(made, grid[0], columns=3)
    return made
