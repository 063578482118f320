"""Backdraft (NSDI 2022), figure 13 and table 3, on real switches: overlay pauses against PFC, in two servers.

Section 6.3. Figure 13 as in backdraft/fig13, with as many servers as there are switches here: three applications of one server
send 2 Gbit/s each to a slow application of the other (background), a fourth 3.2 Gbit/s to a fast one there (victim); links of
10 Gbit/s, a lossless network. Table 3: one application sends 21.85 Gbit/s to a receiver of 2.36 Gbit/s, another as much to a
fast one; links of 100 Gbit/s, a network that drops. Frames are of 1500 B, as the paper's drops of 1.6 Mpps are for what is
missing of 21.85 Gbit/s. BESS, lossy and with PFC, has one queue for each application; DPFQ alone is Backdraft without the
overlay; with the overlay, the control frames of the switches use the same links.
Virtual time, in which throughput is (ours); no random numbers.
"""

from typing import Any

import polars as pl

from penstock_net.vswitch.bench import rig
from penstock_net.vswitch.bench.rig import Row
from penstock_net.vswitch.bench.two_switches import Servers
from penstock_papers import frames
from penstock_papers.backdraft import _setup as setup
from penstock_papers.backdraft._setup import PREVENTS, value
from penstock_papers.backdraft._switch import each
from penstock_papers.backdraft.fig13 import HIGHER, NO_FRAMES, NO_SPREADING, SENT, SWITCH_TOO, THROUGHPUT, if_slow, slow_frames
from penstock_papers.backdraft.table3 import (
    BESIDE,
    DROPS,
    EDGE_LOSS,
    FEWER,
    HIGH_LOSS,
    LOSS_OF_FAST,
    NO_LOSS,
    REDUCED,
    SAME,
)
from penstock_papers.cache import Runs
from penstock_papers.claims import OURS, Differs
from penstock_papers.sentences import Numbers, about, holds, within
from penstock_papers.style import GREEN, ORANGE, PAGE, RED, SKY, figure, legend_above, lettered

TITLE = "Overlay pauses between two real switches, with a slow receiver"
PAPER = "Backdraft, NSDI 2022, section 6.3, figure 13 and table 3"
LENGTH = 1500
LOSSY, PFC, DPFQ, BACKDRAFT = "lossy", "lossless (PFC)", "DPFQ alone", "Backdraft"
MODES: dict[str, dict[str, Any]] = {
    LOSSY: rig.bess(length=LENGTH),
    PFC: rig.bess("pfc", LENGTH),
    DPFQ: {"mode": "dpfq"},
    BACKDRAFT: {"mode": "backdraft"},
}
STYLES = {LOSSY: (RED, "s"), PFC: (ORANGE, "^"), DPFQ: (GREEN, "D"), BACKDRAFT: (SKY, "o")}
BACKGROUND, EACH, VICTIM = 3, 2.0, 3.2  # flows, Gbit/s
SPEEDS = {"quick": (6.0, 2.0, 0.5), "paper": (6.0, 5.0, 4.0, 3.0, 2.0, 1.0, 0.5)}
SLOWEST, FASTEST = min(SPEEDS["paper"]), max(SPEEDS["paper"])
TABLE_SPEED, TABLE_OFFERED = 2.36, 21.85
WARM_MS, MS = {"quick": 5, "paper": 50}, {"quick": 10, "paper": 200}
SERVER, NETWORK = "frames of the server", "frames of the network"
WHERE = ("drops at switches", "drops in the network")
ALONE = "it must send a pause frame to the upstream TOR switch"
FEW = "a pause for a hundred frames or more, as Th_over is at least a batch of frames above Th_goal"
HELD = "a held port lets the fast flow have no more than the slow one, so that more is lost and its throughput falls further"
DIFFERS = {
    "lossless-drops": Differs(HELD, "backdraft-held-link", expected=(3.1, 3.4)),
    "lossless-fast": Differs(HELD, "backdraft-held-link", expected=(0.10, 0.125)),
    "lossless-pauses": Differs(
        "each frame counted here pauses for 100 us, so a link that is held all the time counts 10; the paper's come at the "
        "longest pause that a frame can ask for, 336 us",
        "backdraft-pause-length",
        expected=(9, 10.1),
    ),
}


CLAIMS = (
    holds("throughput", THROUGHPUT, HIGHER, "all > 1", kind=OURS),
    within(
        "victims",
        "smallest throughput of the victim with Backdraft over what it offers",
        NO_SPREADING,
        0.98,
        1.02,
        why="2 % for the frames on the way when the run begins and ends",
        quick=True,
        kind=OURS,
    ),
    within(
        "slow",
        "smallest throughput of the slow receiver with Backdraft over what it can take",
        "-",
        0.95,
        1.02,
        why="5 % for a queue that runs empty at times; it can take no more",
        quick=True,
        kind=OURS,
    ),
    holds("no-frames", "PFC frames with Backdraft, at any speed", NO_FRAMES, "0"),
    if_slow("receiver-frames", f"PFC {SERVER}", SENT, PFC),
    if_slow("spreading", f"PFC {NETWORK}", SWITCH_TOO, PFC),
    if_slow("alone", f"PFC {SERVER}", ALONE, DPFQ),
    holds("no-drops", "frames dropped with Backdraft, PFC and DPFQ alone", PREVENTS, "0"),
    holds("lossy", "frames dropped by the lossy switches", HIGH_LOSS, "> 0"),
    within("few", "most overlay pauses for a thousand frames", "-", 0, 10, why=FEW, quick=True, kind=OURS),
    within(
        "tail",
        f"p99 of the victim with Backdraft, at {SLOWEST} over {FASTEST} Gbit/s",
        "-",
        0,
        2,
        why="not affected: at most twice as long",
        quick=True,
        kind=OURS,
    ),
    within(
        "lossy-drops",
        "table 3: frames lost at virtual switches, lossy, Mpps",
        "1.6 Mpps",
        1.4,
        1.8,
        why=DROPS,
        quick=True,
        kind=OURS,
    ),
    within("lossy-fast", "table 3: fast flow, lossy, Gbit/s", "21.85", 21.4, 22.3, why="2 %", quick=True, kind=OURS),
    about("lossless-drops", "table 3: frames lost in the network with PFC at virtual switches, Mpps", "1.3 Mpps", 1.3),
    holds("lossless-edge", "table 3: frames lost at virtual switches with PFC, Mpps", EDGE_LOSS, "0", kind=OURS),
    about("lossless-pauses", "table 3: PFC frames a millisecond with PFC", "2.8 Kfps", 2.8),
    within("lossless-fast", "table 3: fast flow, PFC / lossy", "19.29 / 21.85 = 0.88", 0.766, 0.941, why=LOSS_OF_FAST, kind=OURS),
    within("reduced", "table 3: the same", REDUCED, None, 0.97, why=FEWER, quick=True, kind=OURS),
    holds("overlay-pauses", "table 3: PFC frames a millisecond with Backdraft", "(0,0)", "0", kind=OURS),
    holds("overlay-drops", "table 3: frames lost with Backdraft, Mpps", NO_LOSS, "0"),
    within(
        "overlay-fast",
        "table 3: fast flow, Backdraft / lossy",
        "21.98 / 21.85 = 1.006",
        0.98,
        1.05,
        why=SAME,
        quick=True,
        kind=OURS,
    ),
    within(
        "overlay-slow",
        "table 3: slow flow, Backdraft / lossy",
        "2.3 / 2.36 = 0.97",
        0.95,
        1.05,
        why=BESIDE,
        quick=True,
        kind=OURS,
    ),
)


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """Figure 13: x, speed of the receiver, Gbit/s; y, Gbit/s of all and of the victim, its p99 in us, PFC frames a millisecond,
    overlay pauses by thousand frames sent, drops. Table 3, x 0: "slow", "fast" in Gbit/s, "table" PFC frames a millisecond,
    "table drops" in Mpps."""
    cases: list[tuple[Any, ...]] = [(spread, mode, speed, scale) for mode in MODES for speed in SPEEDS[scale]]
    cases += [(table, mode, scale) for mode in MODES]
    return each(runs, "backdraft/fig13_switch", cases, lambda work, *case: work(*case))


def servers(mode: str, rate: str, lossless: bool, speed: float, flows: list[tuple[float, int]]) -> Servers:
    """Two servers: an application for each flow (Gbit/s, to which receiver), a slow receiver and a fast one."""
    made = Servers(MODES[mode], rate, lossless, mode == BACKDRAFT)
    for nth in range(len(flows)):
        made.near.app(f"sender{nth}", queues=4, buffers=1024, buffer_bytes=1536)
    for name, ns in (("slow", 8 * LENGTH / speed), ("fast", 20)):
        made.far.app(name, queues=64, buffers=rig.BESS_SLOTS, buffer_bytes=1536, service=[ns])
    made.connect()
    for nth, (offered, receiver) in enumerate(flows):
        made.udp(nth, receiver, 1000 + nth, LENGTH, gap=8 * LENGTH / offered, most=1 << 20, phase=nth * 731.0)
    return made


def measured(made: Servers, scale: str) -> tuple[float, float, dict[str, float]]:
    """Gbit/s of both receivers, and what was counted."""
    made.run(WARM_MS[scale])
    made.reset()
    made.run(MS[scale])
    return made.far.goodput(0), made.far.goodput(1), made.counts()


def spread(mode: str, speed: float, scale: str) -> list[Row]:
    """Figure 13 at one speed of the receiver."""
    made = servers(mode, "10Gbps", True, speed, [(EACH, 0)] * BACKGROUND + [(VICTIM, 1)])
    slow, fast, counts = measured(made, scale)
    total = made.totals()
    found = {
        "all": slow + fast,
        "victim": fast,
        "p99": made.far.p99(1),
        SERVER: counts["server frames"] / MS[scale],
        NETWORK: counts["network frames"] / MS[scale],
        "overlay": 1e3 * total["overlay pauses"] / total["sent"],
        "drops": sum(total[place] for place in WHERE),
    }
    made.close()
    return [(panel, mode, speed, y) for panel, y in found.items()]


def table(mode: str, scale: str) -> list[Row]:
    """Table 3."""
    made = servers(mode, "100Gbps", False, TABLE_SPEED, [(TABLE_OFFERED, 0), (TABLE_OFFERED, 1)])
    slow, fast, counts = measured(made, scale)
    made.close()
    found = [("slow", mode, 0, slow), ("fast", mode, 0, fast), ("table", mode, 0, counts["server frames"] / MS[scale])]
    return [*found, *(("table drops", mode, nth, counts[place] / MS[scale] / 1e3) for nth, place in enumerate(WHERE))]


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Only Backdraft loses nothing, pauses no link and does not slow the victim down."""
    speeds, offered = SPEEDS[scale], BACKGROUND * EACH
    gain = {f"{x:g} Gbit/s": value(data, "all", BACKDRAFT, x) / value(data, "all", PFC, x) for x in speeds}
    slow = [(value(data, "all", BACKDRAFT, x) - value(data, "victim", BACKDRAFT, x)) / min(x, offered) for x in speeds]
    sent = sum(float(setup.line(data, panel, BACKDRAFT)["y"].sum()) for panel in (SERVER, NETWORK))
    drops = {mode: float(setup.line(data, "drops", mode)["y"].sum()) for mode in MODES}
    lossless = drops[BACKDRAFT] + drops[PFC] + drops[DPFQ]
    return {
        "throughput": (min(ratio for x, ratio in zip(speeds, gain.values()) if x < offered) > 1, frames.text(gain)),
        "victims": min(value(data, "victim", BACKDRAFT, x) / VICTIM for x in speeds),
        "slow": min(slow),
        "no-frames": (sent == 0, sent),
        "receiver-frames": slow_frames(data, SERVER, PFC, scale),
        "spreading": slow_frames(data, NETWORK, PFC, scale),
        "alone": slow_frames(data, SERVER, DPFQ, scale),
        "no-drops": (lossless == 0, lossless),
        "lossy": (drops[LOSSY] > 0, drops[LOSSY]),
        "few": setup.line(data, "overlay", BACKDRAFT)["y"].max(),
        "tail": value(data, "p99", BACKDRAFT, SLOWEST) / value(data, "p99", BACKDRAFT, FASTEST),
        **in_table(data),
    }


def in_table(data: pl.DataFrame) -> Numbers:
    """Table 3, row by row."""
    slow, fast, pauses = ({mode: value(data, panel, mode) for mode in MODES} for panel in ("slow", "fast", "table"))
    at_switch, inside = ({mode: value(data, "table drops", mode, x) for mode in MODES} for x in (0, 1))
    lost = at_switch[BACKDRAFT] + inside[BACKDRAFT]
    return {
        "lossy-drops": at_switch[LOSSY],
        "lossy-fast": fast[LOSSY],
        "lossless-drops": inside[PFC],
        "lossless-edge": (at_switch[PFC] == 0, at_switch[PFC]),
        "lossless-pauses": pauses[PFC],
        "lossless-fast": fast[PFC] / fast[LOSSY],
        "reduced": fast[PFC] / fast[LOSSY],
        "overlay-pauses": (pauses[BACKDRAFT] == 0, pauses[BACKDRAFT]),
        "overlay-drops": (lost == 0, lost),
        "overlay-fast": fast[BACKDRAFT] / fast[LOSSY],
        "overlay-slow": slow[BACKDRAFT] / slow[LOSSY],
    }


def plot(data: pl.DataFrame) -> Any:
    """Figure 13 above, table 3 below."""
    made, (upper, lower) = figure(2, 3, width=PAGE, height=4.4)
    for axes, panel, title in zip(upper, ("all", "victim", SERVER), ("all flows (Gbit/s)", "victim (Gbit/s)", "PFC frames / ms")):
        for mode, (colour, marker) in STYLES.items():
            points = setup.line(data, panel, mode)
            wide = {"linewidth": 3.5, "markersize": 8} if mode == LOSSY else {}  # hidden by others
            axes.plot(points["x"], points["y"], label=mode, color=colour, marker=marker, clip_on=False, **wide)
        axes.set_xlabel("speed of the receiver (Gbit/s)")
        axes.set_ylabel(title)
        axes.set_ylim(bottom=0)
    panels = ((("slow", 0), ("fast", 0)), (("table", 0),), (("table drops", 0), ("table drops", 1)))
    names = (("slow", "fast"), ("server",), ("virtual\nswitches", "network"))
    for axes, group, ticks, title in zip(lower, panels, names, ("Gbit/s", "PFC frames / ms", "Mpps")):
        for nth, (mode, (colour, _)) in enumerate(STYLES.items()):
            at = [x + (nth - 1.5) * 0.22 for x in range(len(group))]
            bars = axes.bar(at, [value(data, panel, mode, x) for panel, x in group], 0.2, color=colour)
            axes.bar_label(bars, fmt="%.2g", fontsize=6)
        axes.set_xticks(range(len(group)), ticks)
        axes.grid(False, axis="x")
        axes.margins(y=0.15)
        axes.set_ylabel(title)
    titles = (
        "total throughput",
        "the victim",
        "PFC frames of the server",
        "table 3: throughput",
        "table 3: PFC frames",
        "table 3: lost frames",
    )
    lettered((*upper, *lower), titles)
    legend_above(made, upper[0], columns=4)
    return made
