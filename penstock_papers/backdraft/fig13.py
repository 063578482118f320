"""Backdraft (NSDI 2022), figure 13: overlay pauses against PFC, four servers at a switch with PFC, one slow receiver.

Section 6.3: background UDP flows compete with TCP victims. The flows are in a figure that is not in the text; here three
servers send 2 Gbit/s each to a slow application of the fourth (background), one of them also 3 Gbit/s to a fast application
there, and one 3 Gbit/s to another of the three (victims), so that no link of 10 Gbit/s is full and all congestion is caused by
the slow receiver. Victims have no congestion control either: they cause no congestion of their own. The receiver's speed goes
from all of the background down to a twelfth. PFC in all switches; with Backdraft as well, as network-level pause (Th_net).
"""

from typing import Any

import polars as pl

from penstock_papers import frames
from penstock_papers.backdraft import _setup as setup
from penstock_papers.backdraft._setup import LOSSLESS, OVER_PFC, PREVENTS, SWITCH, VSWITCH, Servers, value
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import Differs
from penstock_papers.sentences import Numbers, Row, holds, within
from penstock_papers.style import PAGE, figure, legend_above, lettered

TITLE = "Overlay pauses and PFC frames in a lossless network with a slow receiver"
PAPER = "Backdraft, NSDI 2022, section 6.3, figure 13"
NETWORK = Servers(4, apps=2, rate="10Gbps", app_rate="10Gbps")
SLOW, FAST, ELSEWHERE = NETWORK.app(3), NETWORK.app(3, 1), NETWORK.app(2, 1)
BACKGROUND = [(NETWORK.app(server), SLOW) for server in range(3)]
VICTIMS = [(NETWORK.app(0, 1), FAST), (NETWORK.app(1, 1), ELSEWHERE)]
PACE = {**{src: "2Gbps" for src, _ in BACKGROUND}, **{src: "3.2Gbps" for src, _ in VICTIMS}}
OFFERED, VICTIM_RATE = 6.0, 3.2
SPEEDS = {"quick": (6.0, 2.0, 0.5), "paper": (6.0, 5.0, 4.0, 3.0, 2.0, 1.0, 0.5)}
DURATION = {"quick": "5ms", "paper": "40ms"}
SCHEMES = (LOSSLESS, OVER_PFC)
THROUGHPUT = "total throughput, Backdraft over PFC, at every speed below the background's"
HIGHER = "Backdraft achieves higher aggregate throughput than BESS"
NO_SPREADING = "Backdraft prevents congestion spreading in the network core"
NO_FRAMES = "However, this does not happen with Backdraft"
SENT = "PFC PAUSE frames sent by the receiving server to the upstream PFC enabled switch as a receiver gets slower"
SWITCH_TOO = "BESS causes the physical switch to also generate PAUSE frames"
FRAMES = {VSWITCH: "frames of the server", SWITCH: "frames of the switch"}
DIFFERS: dict[str, Differs] = {}


def if_slow(id: str, claim: str, paper: str, series: str) -> Row:
    """The row of `slow_frames`."""
    return holds(id, f"{claim} a millisecond, {series}, by the receiver's speed", paper, f"> 0 below {OFFERED:g}, else 0")


CLAIMS = (
    holds("throughput", THROUGHPUT, HIGHER, "all > 1"),
    within(
        "victims",
        "smallest throughput of a victim with Backdraft over what it offers",
        NO_SPREADING,
        0.98,
        1.02,
        why="2 % for the packets on the way when the run begins and ends",
        quick=True,
    ),
    holds("no-frames", "PFC frames with Backdraft, at any speed", NO_FRAMES, "0"),
    if_slow("receiver-frames", f"PFC {FRAMES[VSWITCH]}", SENT, LOSSLESS.legend),
    if_slow("spreading", f"PFC {FRAMES[SWITCH]}", SWITCH_TOO, LOSSLESS.legend),
    holds("no-drops", "packets dropped, of both", PREVENTS, "0"),
)


def specs(scale: str) -> dict[str, Spec]:
    """One for each speed of the receiver."""
    traffic = [setup.endless(BACKGROUND, "background"), setup.endless(VICTIMS, "victims")]
    return {
        f"{speed:g}Gbps": setup.spec(SCHEMES, NETWORK.table({SLOW: f"{speed:g}Gbps"}, PACE), traffic, DURATION[scale])
        for speed in SPEEDS[scale]
    }


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: speed of the receiver, Gbit/s; y: Gbit/s of all, of each victim, PFC frames a millisecond, dropped packets."""
    parts = []
    for speed in SPEEDS[scale]:
        for scheme in SCHEMES:
            label = f"{speed:g}Gbps/{scheme.legend}"
            rate = {dst: setup.delivered(runs, label, dst) for dst in (SLOW, FAST, ELSEWHERE)}
            table, ms = setup.ports(runs, label, NETWORK), runs.summary(label)["end_ns"] / 1e6
            pauses = setup.port_pauses(runs, label, NETWORK)
            found = {
                "all": sum(rate.values()),
                "same server": rate[FAST],
                "elsewhere": rate[ELSEWHERE],
                "drops": setup.total(table, "drops"),
                **{name: pauses[place] / ms for place, name in FRAMES.items()},
            }
            parts += [frames.rows(panel, scheme.legend, [speed], [y]) for panel, y in found.items()]
    return pl.concat(parts)


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Backdraft has more throughput, no PFC frames and no loss; PFC's frames spread."""
    speeds, (pfc, overlay) = SPEEDS[scale], (scheme.legend for scheme in SCHEMES)
    gain = {f"{x:g} Gbit/s": value(data, "all", overlay, x) / value(data, "all", pfc, x) for x in speeds}
    victims = [value(data, panel, overlay, x) / VICTIM_RATE for panel in ("same server", "elsewhere") for x in speeds]
    sent = {panel: float(setup.line(data, panel, overlay)["y"].sum()) for panel in FRAMES.values()}
    drops = float(data.filter(pl.col("panel") == "drops")["y"].sum())
    return {
        "throughput": (min(ratio for x, ratio in zip(speeds, gain.values()) if x < OFFERED) > 1, frames.text(gain)),
        "victims": min(victims),
        "no-frames": (sum(sent.values()) == 0, frames.text(sent)),
        "receiver-frames": slow_frames(data, FRAMES[VSWITCH], pfc, scale),
        "spreading": slow_frames(data, FRAMES[SWITCH], pfc, scale),
        "no-drops": (drops == 0, drops),
    }


def slow_frames(data: pl.DataFrame, panel: str, series: str, scale: str) -> tuple[bool, str]:
    """Whether frames are sent at each speed below the background's, and none if the receiver keeps up; how many at each."""
    sent = {x: value(data, panel, series, x) for x in SPEEDS[scale]}
    shown = frames.text({f"{x:g} Gbit/s": each for x, each in sent.items()})
    return all((each > 0) == (x < OFFERED) for x, each in sent.items()), shown


def plot(data: pl.DataFrame) -> Any:
    """Throughput of all and of the victims, and frames, over the receiver's speed."""
    made, (left, middle, right) = figure(1, 3, width=PAGE, height=2.3)
    for scheme in SCHEMES:
        for axes, panels in ((left, ("all",)), (middle, ("same server", "elsewhere")), (right, FRAMES.values())):
            for nth, panel in enumerate(panels):
                points = setup.line(data, panel, scheme.legend)
                label = scheme.legend if axes is left else None
                axes.plot(points["x"], points["y"], label=label, **{**scheme.style, "linestyle": "--" if nth else "-"})
    for axes, title in ((left, "all flows (Gbit/s)"), (middle, "a victim (Gbit/s)"), (right, "PFC frames / ms")):
        axes.set_xlabel("speed of the receiver (Gbit/s)")
        axes.set_ylabel(title)
        axes.set_ylim(bottom=0)
    lettered((left, middle, right), ("total throughput", "victims: -- other server", "frames: -- of the switch"))
    legend_above(made, left, columns=2)
    return made
