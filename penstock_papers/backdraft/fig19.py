"""Backdraft (NSDI 2022), figure 19: a slow receiver costs another application's throughput, on the real switch.

Section A.2: A sends to B and C to D, 20 Mpps each, through a switch with one core; D takes 1 Mpps. The lossy switch spends half
of its core's time on frames that it drops; Backdraft pauses C and spends the time on A. Frames are of 64 B, each application has
one queue. Virtual time: the switch's core could carry 24.7 Mpps (`penstock_net.vswitch.bench.costs`), the paper's about 20;
throughput and the core's time are (ours), and there are no random numbers. In real time one core drives all applications and
cannot overload the switch's core, so of the paper only the losses are judged.
"""

from typing import Any

import polars as pl

from penstock_net.vswitch.bench import rig
from penstock_net.vswitch.bench.rig import Bench, Row
from penstock_papers.backdraft import _setup as setup
from penstock_papers.backdraft._setup import PREVENTS, value
from penstock_papers.backdraft._switch import core_ns, each, in_virtual_time
from penstock_papers.backdraft.fig10 import LESS, LESS_CPU
from penstock_papers.cache import Runs
from penstock_papers.claims import OURS, Differs
from penstock_papers.sentences import Numbers, holds, within
from penstock_papers.style import PAGE, RED, SKY, figure, lettered

TITLE = "Two pairs of applications, one slow receiver, one core (real switch)"
PAPER = "Backdraft, NSDI 2022, section A.2, figure 19"
SCALES = ("quick", "paper", "real")
OFFERED, SLOW = 20.0, 1.0  # Mpps
REAL_OFFERED = 1.0  # D takes a twentieth of that, too
MS = {"quick": 2, "paper": 20}
MODES = {"lossy": rig.bess(), "Backdraft": {"mode": "backdraft"}}
FAST, SLOWED = "A to B", "C to D"
TWOFOLD = "Backdraft delivers 2x higher throughput than its counterpart, BESS"
NEARLY = "With Backdraft, flow f_AB achieves 19 Mpps throughput"
HALF = "causing the flow to reach only 10 Mpps"
WASTES = "BESS, however, wastes CPU cycles and throughput bandwidth on dropping packets"
COSTS = "half of the core's time, if a frame costs as much to drop as to deliver; a quarter either way"
ALL = "19 of 20, and 5 % either way"
DIFFERS: dict[str, Differs] = {}


CLAIMS = (
    holds("no-loss", "frames that Backdraft drops", PREVENTS, "0"),
    holds("loss", "share of the frames that the lossy switch drops", WASTES, "> 0"),
    within(
        "slow",
        "C to D with Backdraft over what D can take",
        "-",
        0.9,
        1.01,
        why="a tenth less for a queue that runs empty at times; it can take no more",
        quick=True,
        kind=OURS,
    ),
    *in_virtual_time(
        within("twice", "A to B with Backdraft over lossy", TWOFOLD, 1.5, 2.5, why=COSTS, quick=True, kind=OURS),
        within("full", "A to B with Backdraft over what A offers", NEARLY, 0.9, 1.01, why=ALL, quick=True, kind=OURS),
        within("half", "A to B over what A offers, lossy", HALF, 0.4, 0.65, why=COSTS, quick=True, kind=OURS),
        within(
            "cpu",
            "the switch's core time for a delivered frame, Backdraft over lossy",
            LESS_CPU,
            None,
            0.95,
            quick=True,
            why=LESS,
            kind=OURS,
        ),
        within(
            "wasted",
            "share of the lossy switch's core spent on frames that it drops",
            WASTES,
            0.3,
            0.6,
            why=COSTS,
            quick=True,
            kind=OURS,
        ),
    ),
)


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """Panel "Mpps": x 0, A to B, 1, C to D; "time": share of the core's time, x 0 on frames delivered, 1 on dropped ones;
    "busy": ns of the core for each delivered frame."""
    return each(runs, "backdraft/fig19", [(mode, scale) for mode in MODES], work)


def work(mode: str, scale: str) -> list[Row]:
    """Simulate one mode."""
    bench = Bench(MODES[mode])
    a, b, c, d = (bench.app(name, queues=4, service=[1e3 / SLOW if name == "d" else 20]) for name in "abcd")
    offered = OFFERED if scale != "real" else REAL_OFFERED
    for source, target in ((a, b), (c, d)):
        bench.udp(source, target, 1000, gap=1e3 / offered)
    bench.harness.service(d, 0, 1e3 / (SLOW * offered / OFFERED))
    seen = bench.go(scale, 1, MS.get(scale, 0))
    found = [("Mpps", mode, nth, bench.rate(app)) for nth, app in enumerate((b, d))]
    found.append(("offered", mode, 0, offered))
    if scale != "real":
        counters, ns = bench.harness.counters(), bench.harness.received(b)[2]
        found += [("time", mode, nth, counters[what] / ns) for nth, what in enumerate(("working_ns", "wasted_ns", "looking_ns"))]
        found.append(("busy", mode, 0, core_ns(bench)))
    found.append(("lost", mode, 0, bench.lost()))
    bench.close()
    return found + seen


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Backdraft gives A what the lossy switch wastes on D."""
    (lossy, ours), (dropped, lost) = ([value(data, panel, mode) for mode in MODES] for panel in ("Mpps", "lost"))
    offered, slow = value(data, "offered", "Backdraft"), value(data, "Mpps", "Backdraft", 1)
    found = {"no-loss": (lost == 0, lost), "loss": (dropped > 0, dropped), "slow": slow / (offered * SLOW / OFFERED)}
    if scale == "real":
        return found
    return {
        **found,
        "twice": ours / lossy,
        "full": ours / offered,
        "half": lossy / offered,
        "cpu": value(data, "busy", "Backdraft") / value(data, "busy", "lossy"),
        "wasted": value(data, "time", "lossy", 1),
    }


def plot(data: pl.DataFrame) -> Any:
    """Throughput of both pairs, and the core's time by use."""
    made, (left, right) = figure(1, 2, width=PAGE, height=2.4)
    for nth, (mode, colour) in enumerate(zip(MODES, (RED, SKY))):
        points = setup.line(data, "Mpps", mode)
        left.bar(points["x"] + 0.36 * (nth - 0.5), points["y"], 0.34, label=mode, color=colour)
        base = 0.0
        for k, (text, shade) in enumerate(zip(("delivering", "dropping", "looking for work"), (SKY, RED, "#BBBBBB"))):
            share = 100 * value(data, "time", mode, k)
            if share == share:
                right.barh(nth, share, 0.6, left=base, color=shade, label=text if nth == 0 else None)
                base += share
    left.set_xticks((0, 1), (FAST, SLOWED))
    left.set_ylabel("throughput (Mpps)")
    right.set_yticks((0, 1), list(MODES))
    right.set_xlim(0, 100)
    right.set_ylim(-0.5, 2.0)
    right.set_xlabel("time of the switch's core (%)")
    if right.patches:
        right.legend(loc="upper center", ncols=3, frameon=False, handlelength=1.2, columnspacing=1.0)
    lettered((left, right), ("throughput", "what the core does"))
    left.legend(loc="upper right", frameon=False)
    return made
