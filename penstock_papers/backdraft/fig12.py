"""Backdraft (NSDI 2022), figure 12: bursts against short, long and growing queues, on the real switch.

Section 6.2: a sender pushes bursts of 64 to 1024 frames, the receiver takes up to 1024 at a time. Short and long queues are
BESS's with PFC; their lengths are not given: 128 and 1024 slots here. DPFQ is mode `dpfq`, whose queues grow by rings of 64.
Frames are of 64 B; the receiver takes 100 ns or 1 us for each, and is offered eight tenths of what it can take, in bursts at
random times. A pause of the switch's PFC lasts 10 to 50 us: longer than the fast receiver takes to empty the short queue,
shorter than the slow one takes. Virtual time, in which goodput is (ours); the seed is that of the bursts. Latency counts from the
time at which a frame was meant to be sent: waiting in the sender is part of it.

Scale "real" measures what the text adds to the figure: the processor's cycles for a frame that extends a queue by a ring,
without those of reading the clock, as far as the processor's clock resolves them (25 cycles on the machine of the cost model).
"""

from typing import Any

import numpy as np
import polars as pl

from penstock_net.vswitch.bench import noise, rig
from penstock_net.vswitch.bench.rig import Bench, Row
from penstock_net.vswitch.memory.region import Region
from penstock_papers.backdraft import _setup as setup
from penstock_papers.backdraft._setup import value
from penstock_papers.backdraft._switch import each, in_virtual_time
from penstock_papers.cache import Runs
from penstock_papers.claims import MORE, OURS, Differs
from penstock_papers.sentences import Numbers, ascending, holds, within
from penstock_papers.style import COLUMN, ORANGE, PAGE, RED, SKY, figure, legend_above, lettered, log_axis

TITLE = "Bursts against short, long and growing queues (real switch)"
PAPER = "Backdraft, NSDI 2022, section 6.2, figure 12"
SCALES = ("quick", "paper", "real")
SEEDS = {"real": 3}  # times of a processor
BURSTS = (64, 128, 256, 512, 1024)
BIG = BURSTS[-1]
LOAD, BATCH = 0.8, 1024
FAST, SLOW = "10 Mpps", "1 Mpps"
RECEIVERS = {FAST: 100.0, SLOW: 1000.0}  # ns for a frame
FRAMES = {"quick": 50_000, "paper": 500_000}  # that the receiver could take
SHORT, LONG, DPFQ = "short queue, PFC", "long queue, PFC", "DPFQ"
MODES: dict[str, dict[str, Any]] = {
    SHORT: rig.bess("pfc", slots=128),
    LONG: rig.bess("pfc", slots=1024),
    DPFQ: {"mode": "dpfq", "th_net": "2MB", "th_over": "1MB", "th_goal": "32KB"},
}
APPENDED, EXTENDED, APPENDS = "within a ring", "extends the queue", 20_000
PERCENTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99)
JUDGED = (10, 50, 90)  # percentiles
LOOKS = dict(zip(MODES, ((RED, "s", 6.5), (ORANGE, "^", 5), (SKY, "o", 3))))  # they may coincide
HURTS = "that would hurt application performance in terms of goodput and tail latency"
ONLY = "It is the only configuration that does not generate PAUSE frames"
SHORT_MORE = "Short queues are more likely to generate PAUSE frames at a higher rate, whereas longer queues are less likely"
LOSS = "hurt: a loss of a twentieth or more, at most all"
DIFFERS = {
    "goodput-slow": Differs(
        "the short queue never runs empty in front of a receiver that is slower than its pauses",
        "backdraft-bursts",
        expected=(0.97, 1.02),
    ),
    "tail-long": Differs(
        "latency counts the wait in the sender, too, so a long queue and a growing one are the same",
        "backdraft-bursts",
        expected=(0.95, 1.05),
    ),
}


CLAIMS = (
    *(
        within(
            f"extension-p{p}",
            f"cycles to extend a queue, percentile {p}",
            "The number of cycles required to extend queues fluctuates between 24 and 350 cycles",
            0,
            350,
            why="the upper end that the paper names; 24, its lower end, is one step of the clock of our processor",
            kind=OURS,
        ).at("real")
        for p in JUDGED
    ),
    *in_virtual_time(
        holds("no-pause", "pauses of DPFQ, all bursts and receivers", ONLY, "0"),
        ascending("pauses", f"pauses a ms at bursts of {BIG}, {SLOW}", SHORT_MORE),
        ascending(
            "growth",
            f"pauses a ms of the short queue at bursts of 64 and {BIG}, {SLOW}",
            "when increasing the burst size, lossless BESS with short queues causes a high PFC PAUSE frame generation rate",
        ),
        within(
            "goodput",
            f"goodput of the short queue over DPFQ, bursts of {BIG}, {FAST}",
            HURTS,
            0,
            0.95,
            why=LOSS,
            quick=True,
            kind=OURS,
        ),
        within("goodput-slow", f"the same, {SLOW}", HURTS, 0, 0.95, why=LOSS, kind=OURS),
        within(
            "kept",
            f"goodput of DPFQ at bursts of {BIG} over that at 64, {FAST}",
            "Backdraft maintains high goodput with DPFQ",
            0.9,
            1.1,
            why="maintained: a tenth either way",
            kind=OURS,
        ),
        within(
            "tail-short",
            f"p99 of the short queue over DPFQ, bursts of {BIG}, {FAST}",
            HURTS,
            1.1,
            quick=True,
            why=f"hurt: a tenth or more; {MORE}",
        ),
        within(
            "tail-long",
            f"p99 of the long queue over DPFQ, bursts of {BIG}, {FAST}",
            "Although long queues reduce the PAUSE frame generation problem, this is at the cost of increased latency",
            1.1,
            why=f"increased: by a tenth or more; {MORE}",
        ),
    ),
)


def measure(runs: Runs, scale: str, seed: int = 1) -> pl.DataFrame:
    """Panels "pauses, RECEIVER" (a ms), "goodput, ..." (Gbit/s) and "p99, ..." (us), over the size of a burst.

    At scale real panel "cycles": x percentile, y cycles of an append."""
    if scale == "real":
        return each(runs, "backdraft/fig12", [()], extensions)
    cases = [(speed, mode, burst, scale, seed) for speed in RECEIVERS for mode in MODES for burst in BURSTS]
    return each(runs, "backdraft/fig12", cases, work)


def work(speed: str, mode: str, burst: int, scale: str, seed: int) -> list[Row]:
    """Simulate one point of each panel."""
    bench, service = Bench(MODES[mode], seed=seed), RECEIVERS[speed]
    sender = bench.app("sender", queues=4, buffers=8192, rings=512)
    receiver = bench.app("receiver", queues=4, buffers=32768, rings=1024, service=[service], batch=BATCH)
    bench.udp(sender, receiver, 1000, burst=burst, gap=burst * service / LOAD, poisson=True, most=1 << 20)
    bench.run(0, FRAMES[scale] * service / 1e6)
    ms = bench.harness.received(receiver)[2] / 1e6
    found = {"pauses": bench.pauses() / ms, "goodput": bench.goodput(receiver), "p99": bench.p99(receiver)}
    bench.close()
    return [(f"{panel}, {speed}", mode, burst, y) for panel, y in found.items()]


def extensions() -> list[Row]:
    """Percentiles of the cycles that a frame takes which is appended to a queue."""
    noise.look_first("before the run")
    with noise.Watch() as watch:
        found = zip((APPENDED, EXTENDED), Region.create(rings=256).extension_cycles(APPENDS))
    watch.seen.check("real time")
    rows = [("cycles", series, p, float(np.percentile(cycles, p))) for series, cycles in found for p in PERCENTILES]
    return [*rows, *(("machine", name, 0.0, y) for name, y in watch.seen.record().items())]


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Only growing queues need no pauses; growing takes few cycles."""
    if scale == "real":
        return {f"extension-p{p}": value(data, "cycles", EXTENDED, p) for p in JUDGED}

    def at(panel: str, speed: str, mode: str, burst: int = BIG) -> float:
        return value(data, f"{panel}, {speed}", mode, burst)

    paused = sum(at("pauses", speed, DPFQ, burst) for speed in RECEIVERS for burst in BURSTS)
    return {
        "no-pause": (paused == 0, paused),
        "pauses": {"none": 0.0, **{mode: at("pauses", SLOW, mode) for mode in (LONG, SHORT)}},
        "growth": {str(burst): at("pauses", SLOW, SHORT, burst) for burst in (64, BIG)},
        "goodput": at("goodput", FAST, SHORT) / at("goodput", FAST, DPFQ),
        "goodput-slow": at("goodput", SLOW, SHORT) / at("goodput", SLOW, DPFQ),
        "kept": at("goodput", FAST, DPFQ) / at("goodput", FAST, DPFQ, 64),
        "tail-short": at("p99", FAST, SHORT) / at("p99", FAST, DPFQ),
        "tail-long": at("p99", FAST, LONG) / at("p99", FAST, DPFQ),
    }


def plot(data: pl.DataFrame) -> Any:
    """Pauses, goodput and tail over the size of a burst, a row for each receiver; at scale real the cycles of an append."""
    if data["panel"].is_in(["cycles"]).any():
        return plot_cycles(data)
    made, grid = figure(2, 3, width=PAGE, height=4.2, sharex=True)
    texts = {"pauses": "pauses per ms", "goodput": "goodput (Gbit/s)", "p99": "p99 (us)"}
    for row, speed in zip(grid, RECEIVERS):
        for axes, (panel, text) in zip(row, texts.items()):
            for mode, (colour, marker, size) in LOOKS.items():
                points = setup.line(data, f"{panel}, {speed}", mode)
                axes.plot(points["x"], points["y"], label=mode, color=colour, marker=marker, markersize=size, clip_on=False)
            axes.set_xscale("log", base=2)
            axes.set_xticks(BURSTS, [str(burst) for burst in BURSTS])
            axes.minorticks_off()
            axes.set_ylabel(text)
            if panel == "p99":
                log_axis(axes.yaxis)
            else:
                axes.set_ylim(bottom=0)
    for axes in grid[1]:
        axes.set_xlabel("frames of a burst")
    titles = [f"{what}, receiver {speed}" for speed in RECEIVERS for what in ("pauses", "goodput", "latency")]
    lettered([*grid[0], *grid[1]], titles)
    legend_above(made, grid[0][0], columns=3)
    return made


def plot_cycles(data: pl.DataFrame) -> Any:
    """Distribution of the cycles of an append."""
    made, axes = figure(width=COLUMN, height=2.4)
    axes.axvspan(24, 350, color="0.9", zorder=0)
    for name, colour in ((APPENDED, ORANGE), (EXTENDED, SKY)):
        points = setup.line(data, "cycles", name)
        axes.plot(points["y"], points["x"], label=name, color=colour, marker="o", markersize=3)
    axes.set_xlim(0, 400)
    axes.set_xlabel("cycles of an append (grey: the paper's range)")
    axes.set_ylabel("percentile")
    axes.set_ylim(0, 100)
    legend_above(made, axes, columns=2)
    return made
