"""HPCC (SIGCOMM 2019), figure 5 and section 3.2: overreaction to sequential ACKs, and the reference window against it.

Unit-sized packets in one egress buffer: P1, P2, P5 of sender S1 and P3, P4 of S2. One packet leaves per slot and S2
sends one per slot, so each packet of S1 leaves 4 behind and its ACK says qLen = 4. The link moves one packet per slot
(txRate = B) and holds B * T = 4 packets, so U = qLen / (B * T) + txRate / B = 2; with eta = 1 and W_AI = 0 every ACK
asks for half the window.

* per-ACK (equations 2 and 3): W = W / (U / eta) on every ACK.
* reference window (equation 4): W = W^c / (U / eta), with the same W^c for all ACKs of a round trip.

The text's W(2) = W(1) = W^c / 2 supposes that P1 and P2 belong to the same round. Algorithm 1 assigns W^c = W on the
ACK that starts a round (line 15); if that is P1's, the rest of the round halves once more, and only once; also drawn.
"""

from dataclasses import dataclass
from typing import Any

import polars as pl

from penstock.experiments.cache import Runs
from penstock.experiments.claims import Claim, within
from penstock.experiments.style import BLUE, DASHES, ORANGE, PAGE, RED, SKY, figure, lettered

TITLE = "Overreaction to two sequential ACKs"
PAPER = "HPCC, SIGCOMM 2019, figure 5"
Packet = tuple[str, str]
BDP, ETA = 4.0, 1.0
START: tuple[Packet, ...] = (("P1", "S1"), ("P2", "S1"), ("P3", "S2"), ("P4", "S2"), ("P5", "S1"))
ARRIVALS: tuple[Packet, ...] = (("P6", "S2"), ("P7", "S1"), ("P8", "S2"), ("P9", "S2"), ("P10", "S2"))
PER_ACK, REFERENCE, ALGORITHM = "per-ACK", "reference window", "reference window, round starts at P1"


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
    """S1's window relative to W(0): first W(0), then after each ACK."""
    found = [1.0]
    reference = 1.0
    for number, u in enumerate(utilizations):
        basis = found[-1] if strategy == PER_ACK else reference
        found.append(basis / (u / ETA))
        if strategy == ALGORITHM and number == 0:
            reference = found[-1]
    return found


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: number of ACKs that S1 has received, y: its window relative to W(0)."""
    acked = [gone for gone in departures() if gone.sender == "S1"]
    utilizations = [utilization(len(gone.left)) for gone in acked]
    labels = ["start", *(gone.packet for gone in acked)]
    return pl.concat(
        pl.DataFrame({"series": strategy, "x": range(len(labels)), "y": windows(strategy, utilizations), "ack": labels})
        for strategy in (PER_ACK, REFERENCE, ALGORITHM)
    )


def claims(data: pl.DataFrame, scale: str) -> list[Claim]:
    """The windows after the ACKs of P1 and P2, and a bound on the reference window wherever its round starts."""
    at = {(row["series"], row["ack"]): row["y"] for row in data.iter_rows(named=True)}
    exact: dict[str, Any] = {"quick": True}
    return [
        within("qlen", "packets that P1 and P2 leave behind", "4", len(departures()[1].left), 4, 4, **exact),
        within("per-ack-1", "per-ACK: W(1) / W(0)", "1/2", at[PER_ACK, "P1"], 0.5, 0.5, **exact),
        within("per-ack-2", "per-ACK: W(2) / W(0)", "1/4, an overreaction", at[PER_ACK, "P2"], 0.25, 0.25, **exact),
        within("reference-1", "reference window: W(1) / W(0)", "1/2", at[REFERENCE, "P1"], 0.5, 0.5, **exact),
        within("reference-2", "reference window: W(2) / W(0)", "1/2", at[REFERENCE, "P2"], 0.5, 0.5, **exact),
        within(
            "bounded",
            "Algorithm 1, round starts at P1: W(3) / W(0)",
            "does not go on falling",
            at[ALGORITHM, "P5"],
            0.25,
            0.5,
            **exact,
        ),
    ]


def plot(data: pl.DataFrame) -> Any:
    """The buffer of the paper's figure, and the windows that the ACKs lead to."""
    made, (left, right) = figure(1, 2, width=PAGE, height=2.5, gridspec_kw={"width_ratios": [1.15, 1]})
    _draw_buffers(left)
    looks = {PER_ACK: (RED, DASHES[1], "s"), ALGORITHM: (ORANGE, DASHES[2], "D"), REFERENCE: (BLUE, DASHES[0], "o")}
    for strategy, (colour, dash, marker) in looks.items():
        curve = data.filter(pl.col("series") == strategy)
        right.plot(curve["x"], curve["y"], color=colour, ls=dash, marker=marker, label=strategy)
    acks = data.filter(pl.col("series") == PER_ACK)["ack"].to_list()
    right.set_xticks(range(len(acks)), ["before", *(f"ACK of {name}" for name in acks[1:])])
    right.set(ylabel="Window, $W / W(0)$", ylim=(0, 1.5), xlim=(-0.2, 3.2), yticks=[0, 0.25, 0.5, 0.75, 1])
    right.legend(loc="upper right", handlelength=2.6)
    lettered((left, right), ("egress buffer", "window of $S_1$"))
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
