"""HPCC (SIGCOMM 2019), figure 5 and section 3.2: overreaction to sequential ACKs, and the reference window against it.

The scheme itself, in the simulator: two flows start at line rate to one host (a switch, 100 Gbit/s and 1 us per link, as in
figure 6), with the reaction to every ACK (equation 3) and with the reference window (equation 4); eta = 1 and W_AI = 0, as in
the figure, which is drawn and not simulated. The queue grows until the first ACKs are back. The ACKs of the packets that a
sender had in flight by then, one window of them, all tell of "almost the same set of packets and queues". Two flows are twice
what the link takes, so one right reaction to all of them halves the window, as in the paper's figure. Algorithm 1 only records
the first ACK, and averages U over a round trip; so the window falls in many small steps rather than in one, and two ACKs make
no factor of 4, which the paper has: a window of ACKs does, (ours).

Beside it, by hand (ours), the five unit-sized packets of the figure: P1, P2, P5 of sender S1 and P3, P4 of S2 in one egress
buffer. One packet leaves per slot and S2 sends one per slot, so each packet of S1 leaves 4 behind and its ACK says qLen = 4.
The link moves one packet per slot (txRate = B) and holds B * T = 4 packets, so U = qLen / (B * T) + txRate / B = 2: every ACK
asks for half the window. The text's W(2) = W(1) = W^c / 2 supposes that P1 and P2 belong to the same round.
"""

from dataclasses import dataclass
from typing import Any

import polars as pl

from penstock_papers import frames
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import OURS, Differs
from penstock_papers.sentences import Numbers, about, ascending, within
from penstock_papers.style import BLUE, DASHES, PAGE, RED, SKY, figure, lettered

TITLE = "Overreaction to two sequential ACKs"
PAPER = "HPCC, SIGCOMM 2019, section 3.2, figure 5"
Packet = tuple[str, str]
BDP, ETA = 4.0, 1.0
PANELS = ("run", "by hand")
START: tuple[Packet, ...] = (("P1", "S1"), ("P2", "S1"), ("P3", "S2"), ("P4", "S2"), ("P5", "S1"))
ARRIVALS: tuple[Packet, ...] = (("P6", "S2"), ("P7", "S1"), ("P8", "S2"), ("P9", "S2"), ("P10", "S2"))
PER_ACK, REFERENCE = "per-ACK", "reference window"
REACTIONS = {PER_ACK: "per_ack", REFERENCE: "hpcc"}
SENDERS, RECEIVER, MTU = 2, 2, 1000
DIFFERS = {
    "per-ack": Differs(
        "Algorithm 1 only records the first ACK, and averages U over a round trip, of which the second ACK is a fiftieth",
        "hpcc-fig05",
        expected=(0.9, 1),
        scales=("quick", "paper"),
    ),
}
PACKET_NS = (MTU + 48 + 42) * 8 / 100  # with headers and INT, at 100 Gbit/s
EXACT: dict[str, Any] = {"why": "arithmetic", "quick": True, "kind": OURS}
CLAIMS = (
    ascending("order", "window after the ACKs of one window, over W(0)", "reacting to each ACK causes overreaction"),
    within(
        "reference",
        "reference window: W after the ACKs of one window, over W(0)",
        "the sender can safely update its window size",
        0.25,
        0.9,
        quick=True,
        why="half and double of 1/2, but a reaction at all",
    ),
    about("per-ack", "per-ACK: W after two ACKs, over W(0)", "it ends up with W(2) = W(1)/2 = W(0)/4", 0.25, quick=True),
    within(
        "per-ack-window",
        "per-ACK: W after the ACKs of one window, over W(0)",
        "1/4 after two ACKs",
        high=0.25,
        quick=True,
        why="every further ACK of the window makes it smaller",
        kind=OURS,
    ),
    within("qlen", "by hand: packets that P1 and P2 leave behind", "4", 4, 4, **EXACT),
    within("per-ack-1", "by hand, per-ACK: W(1) / W(0)", "1/2", 0.5, 0.5, **EXACT),
    within("per-ack-2", "by hand, per-ACK: W(2) / W(0)", "1/4", 0.25, 0.25, **EXACT),
    within("reference-1", "by hand, reference window: W(1) / W(0)", "1/2", 0.5, 0.5, **EXACT),
    within("reference-2", "by hand, reference window: W(2) / W(0)", "1/2", 0.5, 0.5, **EXACT),
)


@dataclass(frozen=True)
class Departure:
    """A packet that leaves, and the buffer it leaves behind, which is what its ACK reports."""

    packet: str
    sender: str
    left: tuple[Packet, ...]


def departures() -> list[Departure]:
    """The buffer slot by slot, until all packets of the start have left."""
    buffer, gone = list(START), []
    for arrival in ARRIVALS:
        name, sender = buffer.pop(0)
        gone.append(Departure(name, sender, tuple(buffer)))
        buffer.append(arrival)
    return gone


def utilization(qlen: int) -> float:
    """U of equation 2 on a link that is never idle."""
    return qlen / BDP + 1.0


def windows(strategy: str, utilizations: list[float]) -> list[float]:
    """S1's window relative to W(0) by hand: first W(0), then after each ACK of one round."""
    found = [1.0]
    for u in utilizations:
        basis = found[-1] if strategy == PER_ACK else found[0]
        found.append(basis / (u / ETA))
    return found


def specs(scale: str) -> dict[str, Spec]:
    """One run each, at both scales."""
    flows = [[sender, RECEIVER, "1GB", "0s"] for sender in range(SENDERS)]
    return {
        "2-to-1": {
            "run": {"duration": "30us", "drain": False},
            "topology": {"kind": "star", "hosts": SENDERS + 1, "rate": "100Gbps", "delay": "1us"},
            "scheme": [
                {"name": "hpcc", "reaction": how, "eta": ETA, "w_ai": "0B", "label": name} for name, how in REACTIONS.items()
            ],
            "workload": [{"kind": "list", "flows": flows}],
            "measure": {"sample": "20ns", "flow_series": True},
        }
    }


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """Window of S1 relative to W(0) over x ACKs received. Panel "run": those of the packets in flight when the first one came."""
    acked = [gone for gone in departures() if gone.sender == "S1"]
    utilizations = [utilization(len(gone.left)) for gone in acked]
    parts = []
    for strategy in REACTIONS:
        series = runs.scan(f"2-to-1/{strategy}", "flow_series").filter(pl.col("flow_id") == 0).sort("time_ns").collect()
        first = series["window_bytes"][0]
        in_flight = int(series.filter(pl.col("acked_bytes") > 0)["time_ns"][0] / PACKET_NS) * MTU
        after = series.group_by("acked_bytes", maintain_order=True).last().filter(pl.col("acked_bytes") <= in_flight)
        by_hand = windows(strategy, utilizations)
        for panel, x, y in (
            ("run", after["acked_bytes"] / MTU, after["window_bytes"] / first),
            ("by hand", range(len(by_hand)), by_hand),
        ):
            parts.append(frames.rows(panel, strategy, x, y))
    return pl.concat(parts)


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """What the ACKs of one window do to it; and the figure's two ACKs by hand."""
    run, by_hand = (
        {s: frames.chosen(data, panel=panel, series=s).sort("x")["y"].to_list() for s in REACTIONS} for panel in PANELS
    )
    ends = {strategy: found[-1] for strategy, found in run.items()}
    return {
        "order": ends,
        "reference": ends[REFERENCE],
        "per-ack": frames.chosen(data, panel="run", series=PER_ACK).filter(pl.col("x") <= 2).sort("x")["y"][-1],
        "per-ack-window": ends[PER_ACK],
        "qlen": len(departures()[1].left),
        "per-ack-1": by_hand[PER_ACK][1],
        "per-ack-2": by_hand[PER_ACK][2],
        "reference-1": by_hand[REFERENCE][1],
        "reference-2": by_hand[REFERENCE][2],
    }


def plot(data: pl.DataFrame) -> Any:
    """The buffer of the paper's figure, the windows that its ACKs lead to, and those of the run."""
    made, (left, middle, right) = figure(1, 3, width=PAGE, height=2.5, gridspec_kw={"width_ratios": [1.25, 0.8, 1]})
    _draw_buffers(left)
    looks = {PER_ACK: (RED, DASHES[1], "s"), REFERENCE: (BLUE, DASHES[0], "o")}
    for panel, name in ((middle, "by hand"), (right, "run")):
        for strategy, (colour, dash, marker) in looks.items():
            curve = frames.chosen(data, panel=name, series=strategy).sort("x")
            panel.plot(curve["x"], curve["y"], color=colour, ls=dash, marker=marker if panel is middle else "", label=strategy)
        panel.set(ylabel="Window, $W / W(0)$", ylim=(0, 1.5), yticks=[0, 0.25, 0.5, 0.75, 1])
        panel.legend(loc="upper right", handlelength=2.6)
    middle.set_xticks(range(4), ["before", "P1", "P2", "P5"])
    middle.set(xlabel="after the ACK of", xlim=(-0.2, 3.2))
    right.set(xlabel="ACKs received", xlim=(0, None))
    lettered((left, middle, right), ("egress buffer", "by hand", "two flows, simulated"))
    return made


def _draw_buffers(panel: Any) -> None:
    """One row per state; the packet that has just left stands apart on the right."""
    gone = departures()
    rows = [
        ("start", START, None),
        ("P1 leaves,\n$qLen$ = 4", gone[0].left, gone[0]),
        ("P2 leaves,\n$qLen$ = 4", gone[1].left, gone[1]),
    ]
    for row, (text, waiting, left) in enumerate(rows):
        y = 2 - row
        panel.text(-0.2, y, text, ha="right", va="center", fontsize=8)
        panel.plot([0, 5, 5, 0], [y + 0.36, y + 0.36, y - 0.36, y - 0.36], color="0.4", lw=0.8)
        for place, (name, sender) in enumerate(waiting):
            _draw_packet(panel, 4 - place, y, name, sender)
        if left:
            _draw_packet(panel, 5.55, y, left.packet, left.sender)
    for x, sender in ((0.0, "S1"), (3.0, "S2")):
        _draw_packet(panel, x, -1.05, "", sender)
        panel.text(x + 1.0, -1.05, f"from ${sender[0]}_{sender[1]}$", va="center", fontsize=8)
    panel.set(xlim=(-2.1, 6.6), ylim=(-1.5, 2.6))
    panel.axis("off")


def _draw_packet(panel: Any, x: float, y: float, name: str, sender: str) -> None:
    from matplotlib.patches import Rectangle

    fill = SKY if sender == "S1" else "white"
    panel.add_patch(Rectangle((x + 0.08, y - 0.27), 0.84, 0.54, facecolor=fill, edgecolor="0.2", lw=0.8))
    panel.text(x + 0.5, y, f"${name[0]}_{{{name[1:]}}}$" if name else "", ha="center", va="center", fontsize=8)
