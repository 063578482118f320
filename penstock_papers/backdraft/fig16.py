"""Backdraft (NSDI 2022), figure 16: doorbells against polling over the number of queues, on the real switch.

Section 6.5: an application sends in 8 to 16 K queues, chosen by Zipf's law, through a switch with one core. At scales quick and
paper the work is counted: checks of transmit queues (the turns of the switch times its queues), and doorbells answered and rung,
for each frame. That is the same on every machine, but it is not throughput: no claim of the paper is judged by it. Scale "real"
measures throughput (`penstock_net.vswitch.bench.bench`), on a quiet machine only. The seed is that of the choice of queues.
"""

from typing import Any

import numpy as np
import polars as pl

from penstock_net.vswitch.bench import noise
from penstock_net.vswitch.bench.bench import frame, pair, queues
from penstock_net.vswitch.bench.rig import Row
from penstock_papers.backdraft import _setup as setup
from penstock_papers.backdraft._setup import value
from penstock_papers.backdraft._switch import each, in_virtual_time
from penstock_papers.cache import Runs
from penstock_papers.claims import OURS, Differs
from penstock_papers.sentences import Numbers, about, as_said, within
from penstock_papers.style import COLUMN, RED, SKY, figure, legend_above, log_axis

TITLE = "Doorbells and polling over the number of queues (real switch)"
PAPER = "Backdraft, NSDI 2022, section 6.5, figure 16"
SCALES = ("quick", "paper", "real")
SEEDS = {"real": 3}  # rates in real time
COUNTS = {"quick": (8, 1024, 2048), "paper": (8, 64, 256, 1024, 2048, 4096, 16384), "real": (8, 64, 256, 1024, 2048, 4096, 16384)}
DOORBELLS, POLLING = "doorbells (Backdraft)", "polling"
ROUNDS, OUTSTANDING = 20, 512
NINE = "With 2K queues, throughput is 9x higher than BESS"
NO_SLOW_DOWN = "Backdraft supports 16 K queues without any throughput slow down"
FLAT = "without slow down: a fifth either way, for a measurement in real time"
SEVERAL = "a doorbell serves several frames"
DIFFERS: dict[str, Differs] = {}


CLAIMS = (
    about("ratio-real", "throughput at 2 K queues, doorbells over polling", NINE, 9).at("real"),
    within("flat-real", "throughput with doorbells at 16 K queues over that at 8", NO_SLOW_DOWN, 0.8, 1.2, why=FLAT).at("real"),
    as_said(
        "few-real",
        "throughput at 8 queues, doorbells over polling",
        "With a small number of queues, both Backdraft and BESS perform similarly",
        "similar",
    ).at("real"),
    *(
        within(
            "flat",
            f"work for a frame with doorbells at {COUNTS[scale][-1]} queues over that at 1 K",
            "-",
            0.5,
            2,
            why="does not depend on them: half to double",
            quick=True,
            kind=OURS,
        ).at(scale)
        for scale in ("quick", "paper")
    ),
    *in_virtual_time(within("few", "doorbells for each frame with 8 queues", "-", 0, 1, why=SEVERAL, quick=True, kind=OURS)),
)


def measure(runs: Runs, scale: str, seed: int = 1) -> pl.DataFrame:
    """Panel "work": x queues, y queue checks and doorbells for each frame; "Mpps": y throughput, at scale real."""
    if scale == "real":
        return each(runs, "backdraft/fig16", [(count, seed) for count in COUNTS[scale]], speed)
    cases = [(count, series, seed) for count in COUNTS[scale] for series in (DOORBELLS, POLLING)]
    return each(runs, "backdraft/fig16", cases, work)


def work(count: int, series: str, seed: int = 1) -> list[Row]:
    """Queue checks and doorbells for each frame, while 512 frames are outstanding."""
    sender, receiver, switch = pair(count, doorbells=series == DOORBELLS)
    rng = np.random.default_rng(seed)
    weights = 1 / np.arange(1, count + 1)
    looked = frames = 0
    before = bells(switch)
    for _ in range(ROUNDS):
        total = 0
        for q, n in zip(*np.unique(rng.choice(count, OUTSTANDING, p=weights / weights.sum()), return_counts=True)):
            total += sender.send(int(q), [frame(1000 + int(q) % 60000)] * int(n))
        while total > 0:
            switch.turns(1)
            # polling looks at the transmit queues of both ports; the receiver's are not the application's
            looked += count if series == POLLING else 0
            got = len(receiver.receive(5000))
            frames += got
            total -= got
    answered = bells(switch) - before
    switch.close()
    return [("work", series, count, (looked + answered) / frames)]


def bells(switch: Any) -> int:
    """Doorbells so far."""
    return sum(row["bells_answered"] + row["bells_rung"] for row in switch.ports())


def speed(count: int, seed: int) -> list[Row]:
    """Mpps of the switch's core alone: the best of alternating blocks."""
    noise.look_first("before the run")
    with noise.Watch() as watch:
        found = queues(count, seed=seed)
    watch.seen.check("real time")
    both = [("Mpps", DOORBELLS, float(count), found["doorbell"]), ("Mpps", POLLING, float(count), found["poll"])]
    return [*both, *(("machine", name, 0.0, y) for name, y in watch.seen.record().items())]


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Doorbells keep the throughput that few queues have; polling does not."""
    most = COUNTS[scale][-1]
    if scale == "real":
        mpps = {
            series: {queues: value(data, "Mpps", series, queues) for queues in COUNTS[scale]} for series in (DOORBELLS, POLLING)
        }
        return {
            "ratio-real": mpps[DOORBELLS][2048] / mpps[POLLING][2048],
            "flat-real": mpps[DOORBELLS][most] / mpps[DOORBELLS][8],
            "few-real": mpps[DOORBELLS][8] / mpps[POLLING][8],
        }
    few, thousand, many = (value(data, "work", DOORBELLS, queues) for queues in (8, 1024, most))
    return {"flat": many / thousand, "few": few}


def plot(data: pl.DataFrame) -> Any:
    """Work for each frame, or throughput, over the number of queues."""
    made, axes = figure(width=COLUMN, height=2.4)
    panel = "Mpps" if data.filter(pl.col("panel") == "Mpps").height else "work"
    for series, colour, marker in ((DOORBELLS, SKY, "o"), (POLLING, RED, "s")):
        points = setup.line(data, panel, series)
        axes.plot(points["x"], points["y"], label=series, color=colour, marker=marker)
    log_axis(axes.xaxis)
    log_axis(axes.yaxis)
    axes.set_xlabel("transmit queues")
    axes.set_ylabel("throughput (Mpps)" if panel == "Mpps" else "looks and doorbells per frame")
    legend_above(made, axes, columns=2)
    return made
