"""HPCC (SIGCOMM 2019), figure 13: ways of reacting to ACKs in a 16-to-1 incast.

Section 5.4: 16 senders and one receiver at a single switch, 100 Gbit/s and 1 us per link. HPCC against reacting to
every ACK from the current window (equation 3, "per-ACK") and to the first ACK of each round trip only ("per-RTT"). All
flows start at the same time and go on. HPCC is that of the authors' simulator (`_fabric`): eta 95 %, maxStage 0, the
lowest rate of its configuration file, 100 Mbit/s; and W_AI 25 bytes, which the same section sets for this network, as the
simulator's 50 Mbit/s do. HPCC with the text's maxStage 5 is (ours). Queue and throughput of the receiver's port are sampled
every 1 us.
"""

from typing import Any

import numpy as np
import polars as pl

from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import MORE
from penstock_papers.hpcc import VARIANTS
from penstock_papers.sentences import Numbers, ascending, within
from penstock_papers.style import BLUE, DASHES, GREEN, PAGE, RED, SKY, figure, legend_above, lettered

TITLE = "Ways of reacting to ACKs, 16-to-1"
PAPER = "HPCC, SIGCOMM 2019, section 5.4, figure 13"
SENDERS, RECEIVER, SWITCH = 16, 16, 17
PER_ACK, PER_RTT, HPCC = "per-ACK", "per-RTT", "HPCC"
STAGE_5 = "HPCC, maxStage 5 (ours)"
TABLE = {"name": VARIANTS["hpcc"], "min_rate": "100Mbps", "r_ai": 0, "w_ai": "25B"}
REACTIONS = {PER_ACK: "per_ack", PER_RTT: "per_rtt", HPCC: "hpcc"}
RUNS = {series: {**TABLE, "reaction": how, "label": how} for series, how in REACTIONS.items()}
RUNS[STAGE_5] = {**TABLE, "reaction": "hpcc", "max_stage": 5, "label": "hpcc-5"}
LOOKS = {PER_ACK: (RED, DASHES[2]), PER_RTT: (GREEN, DASHES[1]), HPCC: (BLUE, DASHES[0]), STAGE_5: (SKY, DASHES[3])}
SHOWN_US, END_US, SMOOTH_US = 300, 500, 4  # throughput is averaged over about one round trip
LONG_QUEUE_KB = 50.0  # one bandwidth-delay product
SETTLED_US = 150  # twice what the first queue takes to drain at line rate
OSCILLATES, FAST = "drops to almost 0 and then oscillates", "HPCC achieves fast reaction without overreaction"
CLAIMS = (
    within(
        "per-ack-collapse",
        "per-ACK: lowest aggregate throughput once the queue has drained, Gbit/s",
        "the aggregate throughput soon drops to almost 0",
        0,
        5,
        why="almost 0 is a twentieth of the link's rate",
        quick=True,
    ),
    within(
        "per-ack-oscillates",
        f"per-ACK: times that the queue exceeds {LONG_QUEUE_KB:.0f} KB again",
        OSCILLATES,
        3,
        quick=True,
        why="any number of further swings is an oscillation",
    ),
    within(
        "hpcc-steady",
        "HPCC: lowest aggregate throughput once the queue has drained, Gbit/s",
        FAST,
        60,
        quick=True,
        why="a second reaction to the same ACKs would halve the rate; the other end is that of the link",
    ),
    ascending(
        "throughput",
        "mean aggregate throughput after that, Gbit/s",
        "it incurs a significant overreaction, so the aggregate throughput soon drops",
    ),
    within(
        "per-rtt-queue",
        f"time until the queue is below {LONG_QUEUE_KB:.0f} KB, per-RTT / HPCC",
        "the long queue persists for a long time",
        1.5,
        why=f"half as long again is seen in the figure; {MORE}",
        quick=True,
    ),
    within(
        "hpcc-no-queue",
        f"HPCC: longest queue after {SETTLED_US} us, KB",
        FAST,
        0,
        10,
        why="a fifth of a bandwidth-delay product",
        quick=True,
    ),
    within(
        "per-ack-queue",
        f"per-ACK: longest queue after {SETTLED_US} us, KB",
        OSCILLATES,
        2 * LONG_QUEUE_KB,
        quick=True,
        why=f"twice a bandwidth-delay product is a long queue; {MORE}",
    ),
)


def specs(scale: str) -> dict[str, Spec]:
    """One run each, at both scales."""
    flows = [[sender, RECEIVER, "1GB", "0s"] for sender in range(SENDERS)]
    return {
        "16-to-1": {
            "run": {"duration": f"{END_US}us", "drain": False},
            "topology": {"kind": "star", "hosts": SENDERS + 1, "rate": "100Gbps", "delay": "1us"},
            "scheme": list(RUNS.values()),
            "workload": [{"kind": "list", "flows": flows}],
            "measure": {"sample": "1us", "port_series": True},
        }
    }


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: time in us; panel "throughput": y Gbit/s over the last round trip; panel "queue": y KB."""
    frames = []
    for series, table in RUNS.items():
        run = runs[f"16-to-1/{table['label']}"]
        port = run.ports.filter((pl.col("node") == SWITCH) & (pl.col("peer") == RECEIVER))["port"].item()
        samples = run.frame("port_series").filter((pl.col("node") == SWITCH) & (pl.col("port") == port)).sort("time_ns")
        sent = samples["tx_bytes"] - samples["tx_bytes"].shift(SMOOTH_US, fill_value=0)
        panels = {"throughput": sent * 8 / (SMOOTH_US * 1e3), "queue": samples["queue_bytes"] / 1e3}
        for panel, values in panels.items():
            frames.append(pl.DataFrame({"series": series, "x": samples["time_ns"] / 1e3, "y": values, "panel": panel}))
    return pl.concat(frames)


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Collapse and oscillation of per-ACK, the long queue of per-RTT, and neither with HPCC."""
    parts = {name: part.sort("x") for name, part in data.partition_by("series", "panel", as_dict=True).items()}
    queue = {name: parts[name, "queue"]["y"].to_numpy() for name in REACTIONS}
    drained = {name: _drained_us(lengths) for name, lengths in queue.items()}
    after = {name: parts[name, "throughput"]["y"].to_numpy()[drained[name] + SMOOTH_US :] for name in REACTIONS}
    again = {name: lengths[SETTLED_US:].max() for name, lengths in queue.items()}
    low = {name: float(values.min()) for name, values in after.items()}
    mean = {name: float(values.mean()) for name, values in after.items()}
    turns = int(np.sum(np.diff((queue[PER_ACK] > LONG_QUEUE_KB).astype(int)) > 0)) - 1
    return {
        "per-ack-collapse": low[PER_ACK],
        "per-ack-oscillates": turns,
        "hpcc-steady": low[HPCC],
        "throughput": {name: mean[name] for name in (PER_ACK, HPCC)},
        "per-rtt-queue": drained[PER_RTT] / drained[HPCC],
        "hpcc-no-queue": again[HPCC],
        "per-ack-queue": again[PER_ACK],
    }


def _drained_us(queue: np.ndarray) -> int:
    """When the queue, sampled every 1 us, is first short after its first peak."""
    peak = int(np.argmax(queue > LONG_QUEUE_KB))
    return peak + int(np.argmax(queue[peak:] < LONG_QUEUE_KB))


def plot(data: pl.DataFrame) -> Any:
    """Aggregate throughput and queue length over time."""
    made, (left, right) = figure(1, 2, width=PAGE, height=2.4)
    for panel, name in ((left, "throughput"), (right, "queue")):
        for series, (colour, dash) in LOOKS.items():
            line = data.filter((pl.col("panel") == name) & (pl.col("series") == series) & (pl.col("x") <= SHOWN_US))
            panel.plot(line["x"], line["y"], color=colour, ls=dash, label=series)
        panel.set(xlabel="Time (us)", xlim=(0, SHOWN_US), ylim=(0, None))
    left.set(ylabel="Throughput (Gbit/s)")
    right.set(ylabel="Queue length (KB)")
    lettered((left, right), ("aggregate throughput", "queue length"))
    legend_above(made, left, columns=4)
    return made
