"""HPCC (SIGCOMM 2019), figure 6: queue length over time with txRate and with rxRate in equation 2.

"A simple 2-to-1 congestion scenario" (section 3.4) of HPCC and of HPCC-rxRate, which takes the rate at which bytes come
to a link for its load in place of the rate at which they leave it. Set-up: as section 5.4's, two senders and a receiver
at one switch, 100 Gbit/s and 1 us per link; both flows start at the same time and go on. HPCC is that of the authors'
simulator (`_fabric`): eta 95 %, maxStage 0, 50 Mbit/s of increase, here 26 bytes (section 5.4 has 25 for such a network).
With maxStage 5 and W_AI 80 bytes, the text's numbers for the large network, it is (ours). The queue is sampled every 100 ns.
"""

from typing import Any

import numpy as np
import polars as pl

from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import Differs
from penstock_papers.hpcc import VARIANTS
from penstock_papers.sentences import Numbers, within
from penstock_papers.style import BLUE, COLUMN, DASHES, ORANGE, RED, SKY, figure

TITLE = "Queue length with txRate and with rxRate, 2-to-1"
PAPER = "HPCC, SIGCOMM 2019, section 3.4, figure 6"
TX, RX = "HPCC (txRate)", "HPCC-rxRate"
TEXT = {"max_stage": 5, "r_ai": 0, "w_ai": "80B"}
CASES = {"tx": (TX, {}), "rx": (RX, {}), "tx-5": (f"{TX}, text (ours)", TEXT), "rx-5": (f"{RX}, text (ours)", TEXT)}
SENDERS, RECEIVER, SWITCH = 2, 2, 3
SHOWN_US, CONVERGED_US = 80, 120
EMPTY_KB, SWING_KB = 2.2, 5.0  # two packets; a swing is a rise from there to five
STEADY = "using txRate gracefully converges without oscillation"
SWINGS = "using rxRate has oscillation before it finally converges"
NO_SWING = "less than what counts as a swing"
ONCE = Differs(
    "with maxStage 0 both flows multiply their windows as soon as the link is idle, and together overshoot once",
    "hpcc-fig06",
    scales=("quick", "paper"),
)
DIFFERS = {"tx": ONCE.expecting(1, 1), "tx-second": ONCE.expecting(0.105, 0.13)}
CLAIMS = (
    within("tx", "txRate: times that the drained queue builds up again", STEADY, 0, 0, why="without oscillation", quick=True),
    within(
        "rx",
        "rxRate: times that the drained queue builds up again",
        SWINGS,
        2,
        quick=True,
        why="any number of further swings is an oscillation",
    ),
    within(
        "rx-second",
        "rxRate: the queue's second peak relative to its first",
        SWINGS,
        0.3,
        1,
        why="a swing that is seen beside the first peak, and not above it",
        quick=True,
    ),
    within("tx-second", "txRate: the same", STEADY, 0, 0.1, why="a tenth of the first peak is not seen beside it", quick=True),
    within("tx-converged", f"txRate: longest queue after {CONVERGED_US} us, KB", STEADY, 0, SWING_KB, why=NO_SWING, quick=True),
    within("rx-converged", f"rxRate: longest queue after {CONVERGED_US} us, KB", SWINGS, 0, SWING_KB, why=NO_SWING, quick=True),
)


def specs(scale: str) -> dict[str, Spec]:
    """One run each, at both scales."""
    flows = [[sender, RECEIVER, "1GB", "0s"] for sender in range(SENDERS)]
    return {
        "2-to-1": {
            "run": {"duration": "400us", "drain": False},
            "topology": {"kind": "star", "hosts": SENDERS + 1, "rate": "100Gbps", "delay": "1us"},
            "scheme": [{"name": VARIANTS["hpcc"], "rate": case[:2], **more, "label": case} for case, (_, more) in CASES.items()],
            "workload": [{"kind": "list", "flows": flows}],
            "measure": {"sample": "100ns", "port_series": True},
        }
    }


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: time in us, y: queue at the receiver's port in KB."""
    frames = []
    for case, (series, _) in CASES.items():
        run = runs[f"2-to-1/{case}"]
        port = run.ports.filter((pl.col("node") == SWITCH) & (pl.col("peer") == RECEIVER))["port"].item()
        queue = run.frame("port_series").filter((pl.col("node") == SWITCH) & (pl.col("port") == port)).sort("time_ns")
        times, lengths = queue["time_ns"] / 1e3, queue["queue_bytes"] / 1e3
        frames.append(pl.DataFrame({"series": series, "x": times, "y": lengths}))
    return pl.concat(frames)


def swings(queue: np.ndarray) -> int:
    """How often the queue builds up again to SWING_KB after it has drained to EMPTY_KB."""
    count, drained = 0, False
    for length in queue[np.argmax(queue) :]:
        if length <= EMPTY_KB:
            drained = True
        elif drained and length >= SWING_KB:
            count, drained = count + 1, False
    return count


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Oscillation before convergence with rxRate, none with txRate."""
    queue = {series: data.filter(pl.col("series") == series)["y"].to_numpy() for series in (TX, RX)}
    late = {series: part["y"].max() for (series,), part in data.filter(pl.col("x") > CONVERGED_US).group_by("series")}
    return {
        "tx": swings(queue[TX]),
        "rx": swings(queue[RX]),
        "rx-second": _second_peak(queue[RX]),
        "tx-second": _second_peak(queue[TX]),
        "tx-converged": late[TX],
        "rx-converged": late[RX],
    }


def _second_peak(queue: np.ndarray) -> float:
    """The longest queue after it has first drained, over the longest of all."""
    top = int(np.argmax(queue))
    drained = top + int(np.argmax(queue[top:] <= EMPTY_KB))
    return float(queue[drained:].max() / queue[top])


def plot(data: pl.DataFrame) -> Any:
    """Both queues over time."""
    made, panel = figure(width=COLUMN, height=2.2)
    looks = ((BLUE, DASHES[0], 1.5), (RED, DASHES[1], 1.5), (SKY, DASHES[2], 0.9), (ORANGE, DASHES[3], 0.9))
    for (series, _), (colour, dash, width) in zip(CASES.values(), looks):
        line = data.filter((pl.col("series") == series) & (pl.col("x") <= SHOWN_US))
        panel.plot(line["x"], line["y"], color=colour, ls=dash, lw=width, label=series)
    panel.set(xlabel="Time (us)", ylabel="Queue length (KB)", xlim=(0, SHOWN_US), ylim=(0, None))
    panel.legend(loc="upper right", handlelength=2.6)
    return made
