"""Backdraft (NSDI 2022), figure 14: one slow flow of twelve, on the real switch.

Section 6.4: 12 flows, their rates by Zipf's law, to a receiver with 8 cores, one of which is slow; 11 flows are fast. Together
they offer 95 Gbit/s in frames of 1500 B, which the switch's core can just carry (`penstock_net.vswitch.bench.costs`; the paper's
switch has several cores). Flow 6 of 12 has the slow core to itself; each of the other cores has one or two flows and takes
300 ns for a frame. The paper does not give the speed of the slow core: here it takes a tenth to all of what its flow offers.
BESS has one receive queue of 1024 descriptors, which the cores share in order; Backdraft's regions have as many buffers.
Senders are open-loop: frames held back in one queue delay no other queue. Virtual time, in which throughput is (ours): in real
time one core for all applications cannot offer 95 Gbit/s. The seed is that of the arrivals.
"""

from typing import Any

import polars as pl

from penstock_net.vswitch.bench import rig
from penstock_net.vswitch.bench.rig import Bench, Row
from penstock_papers.backdraft import _setup as setup
from penstock_papers.backdraft._setup import value
from penstock_papers.backdraft._switch import each
from penstock_papers.cache import Runs
from penstock_papers.claims import OURS, Differs
from penstock_papers.sentences import Numbers, about, holds, within
from penstock_papers.style import PAGE, RED, SKY, figure, legend_above, lettered

TITLE = "One slow flow of twelve (real switch)"
PAPER = "Backdraft, NSDI 2022, section 6.4, figure 14"
FLOWS, CORES, SLOW_FLOW, LENGTH = 12, 8, 5, 1500
OFFERED_GBPS, SERVICE_NS = 95.0, 300.0
SPEEDS = (0.1, 0.25, 0.5, 0.75, 1.0)  # of the slow core, of what its flow offers
SLOWEST = SPEEDS[0]
MS = {"quick": 5, "paper": 100}
LOSSY, BACKDRAFT = "lossy", "Backdraft"
MODES: dict[str, dict[str, Any]] = {LOSSY: rig.bess(length=LENGTH), BACKDRAFT: {"mode": "backdraft"}}
SHARES = [1 / k / sum(1 / i for i in range(1, FLOWS + 1)) for k in range(1, FLOWS + 1)]
DIFFERS = {
    "throughput": Differs(
        "the slow core's speed is not given; where one queue serves all cores it sets that of all flows: a tenth here, so that "
        "Backdraft has 9.5 times as much; 1.33 is that of a core which takes three quarters",
        "backdraft-slow-core",
        expected=(7, 13),
    ),
}


CLAIMS = (
    about(
        "throughput",
        f"throughput of all flows, Backdraft over lossy, slow core {SLOWEST}",
        "a decreased throughput of ~75 Gbps",
        100 / 75,
        gain=True,
        kind=OURS,
    ),
    within(
        "full",
        "throughput of the fast flows with Backdraft over what they offer",
        "Backdraft achieves full line-rate without any packet drops",
        0.97,
        1.02,
        why="full: 3 % less or 2 % more, as random arrivals give",
        quick=True,
        kind=OURS,
    ),
    holds("no-loss", "frames that Backdraft drops", "full line-rate without any packet drops", "0"),
    within(
        "victims",
        "share of the fast flows' frames that BESS drops",
        "With BESS, this experiment results in high packet loss",
        0.05,
        1.0,
        why="high: a twentieth or more, at most all",
        quick=True,
    ),
)


def measure(runs: Runs, scale: str, seed: int = 1) -> pl.DataFrame:
    """Panels "total", "victims" (the fast flows), "slow", "offered" (by the fast flows): Gbit/s; "lost", "lost of victims": share
    of the frames; x is the speed of the slow core."""
    return each(runs, "backdraft/fig14", [(mode, speed, scale, seed) for mode in MODES for speed in SPEEDS], work)


def work(mode: str, speed: float, scale: str, seed: int) -> list[Row]:
    """Simulate one mode; the kind of a frame is 0 for the slow flow, else 1 to 7 in round robin."""
    bench = Bench(MODES[mode], seed=seed)
    offered = [OFFERED_GBPS * share for share in SHARES]
    slow_ns = 8 * LENGTH / offered[SLOW_FLOW] / speed
    service = [slow_ns if core == SLOW_FLOW % CORES else SERVICE_NS for core in range(CORES)]
    sender = bench.app("sender", queues=32, buffers=4096, buffer_bytes=1536)
    receiver = bench.app("receiver", queues=32, buffers=rig.BESS_SLOTS, buffer_bytes=1536, service=service)
    for flow in range(FLOWS):
        single = mode == LOSSY
        # the slow core is only the slow flow's: those that would share it go to the next
        core = flow % CORES if flow % CORES != SLOW_FLOW or flow == SLOW_FLOW else SLOW_FLOW + 1
        bench.udp(
            sender,
            receiver,
            1000 if single else 1000 + flow,
            queue=0 if single else flow,
            length=LENGTH,
            core=core,
            gap=8 * LENGTH / offered[flow],
            poisson=True,
            most=300 * LENGTH,
            kind=0 if flow == SLOW_FLOW else 1 + flow % 7,
        )
    bench.run(2, MS[scale])
    victims = sum(bench.goodput(receiver, kind) for kind in range(1, 8))
    sent = {kind: 0 for kind in range(8)}
    for row in bench.harness.streams(sender):
        sent[row["kind"]] += row["sent"]
    got = sum(bench.harness.received(receiver, kind)[0] for kind in range(1, 8))
    found = {
        "total": victims + bench.goodput(receiver, 0),
        "victims": victims,
        "slow": bench.goodput(receiver, 0),
        "offered": sum(offered) - offered[SLOW_FLOW],
        "lost": bench.lost(),
        "lost of victims": max(0.0, 1 - got / sum(sent[kind] for kind in range(1, 8))),
    }
    bench.close()
    return [(panel, mode, speed, y) for panel, y in found.items()]


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Backdraft carries all that is offered and loses nothing."""
    total = {mode: value(data, "total", mode, SLOWEST) for mode in (BACKDRAFT, LOSSY)}
    lost = max(value(data, "lost", BACKDRAFT, speed) for speed in SPEEDS)
    fast = min(value(data, "victims", BACKDRAFT, speed) for speed in SPEEDS)
    return {
        "throughput": total[BACKDRAFT] / total[LOSSY],
        "full": fast / value(data, "offered", BACKDRAFT, SLOWEST),
        "no-loss": (lost == 0, lost),
        "victims": value(data, "lost of victims", LOSSY, SLOWEST),
    }


def plot(data: pl.DataFrame) -> Any:
    """Throughput and loss over the speed of the slow core."""
    made, (left, right) = figure(1, 2, width=PAGE, height=2.4)
    for mode, colour, marker in zip(MODES, (RED, SKY), "so"):
        for axes, panel, scale in ((left, "total", 1), (right, "lost of victims", 100)):
            points = setup.line(data, panel, mode)
            axes.plot(100 * points["x"], scale * points["y"], label=mode, color=colour, marker=marker, clip_on=False)
    left.set_ylabel("throughput (Gbit/s)")
    left.set_ylim(0, 100)
    right.set_ylabel("lost frames (%)")
    right.set_ylim(0, 100)
    for axes in (left, right):
        axes.set_xlabel("speed of the slow core (% of its flow)")
    lettered((left, right), ("all flows", "the fast flows"))
    legend_above(made, left, columns=2)
    return made
