"""Backdraft (NSDI 2022), table 3: two servers at a lossy switch, a slow receiver and a fast one.

Section 6.3: one server sends a UDP flow to a slow receiver and one to a fast one in the other server, 100 Gbit/s. The paper's
columns give (victim, non-victim), of which the first, 2.36 Gbit/s and all the losses, is the flow to the slow receiver. Its
senders reach 21.85 Gbit/s each; here 20 (a byte takes whole picoseconds), in packets of 1500 B, as the paper's 1.6 Mpps are for
what is missing of 21.85 Gbit/s. Virtual switches drop (lossy), send PFC frames to the switch, which obeys them but drops when it
is full and sends no pauses itself (lossless), or have the overlay (Backdraft).
"""

from typing import Any

import polars as pl

from penstock_papers import frames
from penstock_papers.backdraft import _setup as setup
from penstock_papers.backdraft._setup import BACKDRAFT, SWITCH, VSWITCH, Scheme, Servers, value
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import MORE, OURS, Differs
from penstock_papers.sentences import Numbers, about, holds, within
from penstock_papers.style import PAGE, figure, legend_above, lettered

TITLE = "The overlay across a lossy network"
PAPER = "Backdraft, NSDI 2022, section 6.3, table 3"
SPEED, OFFERED, PACKET = 2.36, 20.0, {"mtu": 1452, "header": 48}
SLOTS = f"{1024 * sum(PACKET.values())}B"  # of BESS's queue, full of packets
NETWORK = Servers(2, apps=2, app_rate=f"{OFFERED:g}Gbps")
SLOW, FAST = NETWORK.app(1), NETWORK.app(1, 1)
LOSSY = Scheme("lossy", {**setup.LOSSY.table, "most": SLOTS}, like="fifo")
EDGE = Scheme("lossless (PFC)", {"name": "pfc", "senders": "edge"}, like="pfc")
SCHEMES = (LOSSY, EDGE, BACKDRAFT)
HIGH_LOSS = "it also suffers from a high degree of packet loss"
EDGE_LOSS = "a considerable amount of packet loss still appear, as the network core is lossy"
NO_LOSS = "due to overlay messages, Backdraft it is able to avoid packet losses"
REDUCED = "the throughput is reduced"
DROPS = "what is offered beyond the receiver's speed, in packets of 1500 B, is 1.5 to 1.6 Mpps; some tenth either way"
LOSS_OF_FAST = "half to double of the 12 % that the paper's flow loses"
FEWER = f"reduced: by 3 % or more; {MORE}"
SAME = "as much as without backpressure: between 2 % less and 5 % more"
BESIDE = "the paper's receiver takes 3 % less: 5 % either way"
DURATION = {"quick": "5ms", "paper": "50ms"}
DIFFERS = {
    "lossless-drops": Differs(
        "while the link is paused both flows lose what they offer beyond the slow receiver's speed, 2.94 Mpps, less what fills "
        "the switch at first",
        "backdraft-whole-port",
        expected=(2.65, 2.95),
    ),
    "lossless-pauses": Differs(
        "a pause ends as soon as 3 KB are free: the slow flow's half of what then arrives in a round trip of the link, 14 KB, "
        "lasts its receiver 47 us; the paper's frames come at the longest pause that one can ask for, 336 us",
        "backdraft-pause-length",
        expected=(15, 26),
    ),
    "lossless-fast": Differs(
        "a held port lets the fast flow have no more than its share of what the slow one frees: it falls "
        "to the slow receiver's speed, not by 12 %",
        "backdraft-whole-port",
        expected=(0.11, 0.135),
    ),
}


CLAIMS = (
    within("lossy-drops", "packets lost at virtual switches, lossy, Mpps", "1.6 Mpps", 1.4, 1.8, why=DROPS, kind=OURS),
    within(
        "lossy-fast",
        "fast flow, lossy, over what it offers",
        "the overall throughput is high",
        0.95,
        quick=True,
        why="a flow gets no more than it offers",
    ),
    about("lossless-drops", "packets lost in the network with PFC at virtual switches, Mpps", "1.3 Mpps", 1.3),
    holds("lossless-edge", "packets lost at virtual switches with PFC, Mpps", EDGE_LOSS, "0", kind=OURS),
    about("lossless-pauses", "PFC frames a millisecond with PFC at virtual switches", "2.8 Kfps", 2.8),
    within("lossless-fast", "fast flow: PFC at virtual switches / lossy", "19.29 / 21.85 = 0.88", 0.766, 0.941, why=LOSS_OF_FAST),
    within("reduced", "the same", REDUCED, None, 0.97, why=FEWER, quick=True, kind=OURS),
    holds("overlay-pauses", "PFC frames a millisecond with Backdraft", "(0,0)", "0", kind=OURS),
    holds("overlay-drops", "packets lost with Backdraft, Mpps", NO_LOSS, "0"),
    within("overlay-fast", "fast flow: Backdraft / lossy", "21.98 / 21.85 = 1.006", 0.98, 1.05, why=SAME, quick=True),
    within("overlay-slow", "slow flow: Backdraft / lossy", "2.3 / 2.36 = 0.97", 0.95, 1.05, why=BESIDE),
)


def specs(scale: str) -> dict[str, Spec]:
    """One traffic pattern, three schemes."""
    flows = setup.endless([(NETWORK.app(0), SLOW), (NETWORK.app(0, 1), FAST)], "UDP")
    return {"two": setup.spec(SCHEMES, NETWORK.table({SLOW: f"{SPEED}Gbps"}), [flows], DURATION[scale], host=PACKET)}


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: 0; y: Gbit/s of either flow, pause frames to the network a millisecond, packets dropped a microsecond (Mpps)."""
    parts = []
    for scheme in SCHEMES:
        label = f"two/{scheme.legend}"
        table, us = setup.ports(runs, label, NETWORK), runs.summary(label)["end_ns"] / 1e3
        sent = setup.port_pauses(runs, label, NETWORK)
        found = {
            "slow": setup.delivered(runs, label, SLOW),
            "fast": setup.delivered(runs, label, FAST),
            "pauses": sum(sent.values()) / us * 1e3,
            "drops at virtual switches": setup.total(table, "drops", VSWITCH) / us,
            "drops in the network": setup.total(table, "drops", SWITCH) / us,
        }
        parts += [frames.rows(panel, scheme.legend, [0], [y]) for panel, y in found.items()]
    return pl.concat(parts)


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Lossy drops, PFC drops in the network and costs throughput, the overlay does neither."""
    lossy, edge, overlay = ({panel: value(data, panel, scheme.legend) for panel in data["panel"].unique()} for scheme in SCHEMES)
    at_edge, inside = "drops at virtual switches", "drops in the network"
    lost = overlay[at_edge] + overlay[inside]
    return {
        "lossy-drops": lossy[at_edge],
        "lossy-fast": lossy["fast"] / OFFERED,
        "lossless-drops": edge[inside],
        "lossless-edge": (edge[at_edge] == 0, edge[at_edge]),
        "lossless-pauses": edge["pauses"],
        "lossless-fast": edge["fast"] / lossy["fast"],
        "reduced": edge["fast"] / lossy["fast"],
        "overlay-pauses": (overlay["pauses"] == 0, overlay["pauses"]),
        "overlay-drops": (lost == 0, lost),
        "overlay-fast": overlay["fast"] / lossy["fast"],
        "overlay-slow": overlay["slow"] / lossy["slow"],
    }


def plot(data: pl.DataFrame) -> Any:
    """The table as bars."""
    made, grid = figure(1, 3, width=PAGE, height=2.2)
    panels = (("slow", "fast"), ("pauses",), ("drops at virtual switches", "drops in the network"))
    names = (("slow", "fast"), ("all",), ("virtual\nswitches", "network"))
    for axes, group, ticks in zip(grid, panels, names):
        for i, scheme in enumerate(SCHEMES):
            at = [x + (i - 1) * 0.27 for x in range(len(group))]
            bars = axes.bar(
                at, [value(data, panel, scheme.legend) for panel in group], 0.25, color=scheme.style["color"], label=scheme.legend
            )
            axes.bar_label(bars, fmt="%.3g", fontsize=7)
        axes.set_xticks(range(len(group)), ticks)
        axes.grid(False, axis="x")
        axes.margins(y=0.15)
    for axes, text in zip(grid, ("Gbit/s", "frames / ms", "Mpps")):
        axes.set_ylabel(text)
    lettered(grid, ("throughput by receiver", "PFC frames to the network", "lost packets"))
    legend_above(made, grid[0], columns=3)
    return made
