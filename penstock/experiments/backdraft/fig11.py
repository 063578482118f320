"""Backdraft (NSDI 2022), figure 11: flows that share a queue, over the number of static queues.

Section 6.2: 100 K flows of which 1 K are active at any time; RSS hashes them to a fixed number of queues, or each gets a queue
of its own while it is active (dynamic). A collision is an active flow that shares its queue with another active one. "Counted":
flows 1000 k to 1000 k + 999 are active together, hashed by penstock's flow hash to 1 K to 100 K queues, every k. "Simulated": a
virtual switch to which two servers send 1000 flows in all, of two packets, that a stopped application leaves there; static
queues are those of dqa:stochastic, up to 1024; dynamic ones are dqa's 1024, with the largest flow table there is. It tells
flows apart by the hash that indexes it, so with its usual 100 entries for each queue five pairs of the thousand flows meet on
average, with 10000 one in twenty runs. The memory is that of the paper's sum: 20 B for each ring.
"""

from typing import Any

import numpy as np
import polars as pl

from penstock.experiments.backdraft import _setup as setup
from penstock.experiments.backdraft._setup import Scheme, Servers, value
from penstock.experiments.cache import Runs, Spec
from penstock.experiments.claims import Claim, Differs, holds, within
from penstock.experiments.style import COLUMN, SKY, figure, legend_above, log_axis
from penstock.hashing import choice, flow_hash, node_seed

TITLE = "Flows that share a queue: static and dynamic queues"
PAPER = "Backdraft, NSDI 2022, figure 11"
ACTIVE, FLOWS, SEED = 1000, 100_000, 1
QUEUES = (64, 128, 256, 512, 1000, 2500, 5000, 10_000, 20_000, 50_000, 100_000)
SIMULATED = {"quick": (1024,), "paper": (64, 128, 256, 512, 1024)}
MOST, PER_FLOW = 1024, 2 * 1048
NETWORK = Servers(3, vswitch_buffer="0B")
GREY = "#5A5A5A"
STATIC, DYNAMIC, COUNTED = "static, simulated", "dynamic, simulated", "static, counted"
DIFFERS: dict[str, Differs] = {}


def specs(scale: str) -> dict[str, Spec]:
    """A thousand flows to a virtual switch whose application takes a packet in a while."""
    common = {"name": "backdraft", "overlay": False, "most": "1GB"}
    schemes = [Scheme(f"{n} queues", {**common, "dqa": {"queues": n, "edge_queues": n, "assignment": "stochastic"}}, "fifo")
               for n in SIMULATED[scale]]  # fmt: skip
    schemes.append(Scheme(DYNAMIC, {**common, "dqa": {"queues": MOST, "edge_queues": MOST, "table": 10_000}}, "backdraft"))
    flows = {"kind": "list", "flows": [[1 + i % 2, 0, 2000, f"{i * 200}ns"] for i in range(ACTIVE)]}
    return {"two": setup.spec(schemes, NETWORK.table({0: "1Mbps"}), [flows], "260us", sample="250us", queues=True)}


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """Panel "collisions": x queues, y share of the active flows; "queues": y queues in use by as many flows."""
    shares = [collisions(queues) for queues in QUEUES]
    frames = [setup.rows("collisions", COUNTED, QUEUES, shares)]
    for series, names in ((STATIC, SIMULATED[scale]), (DYNAMIC, (MOST,))):
        for queues in names:
            flows, used, alone = in_queues(runs, f"two/{series if series == DYNAMIC else f'{queues} queues'}")
            found = {"collisions": 1 - alone / flows, "used": used, "flows": flows}
            frames += [setup.rows(panel, series, [queues], [y]) for panel, y in found.items()]
    return pl.concat(frames)


def collisions(queues: int) -> float:
    """Share of the active flows that are not alone in their queue, all batches of active flows together."""
    hashes = flow_hash(np.arange(FLOWS), SEED)
    chosen = choice(hashes, np.full(FLOWS, node_seed(0, SEED)), queues).reshape(-1, ACTIVE)
    shared = [ACTIVE - int((np.bincount(batch, minlength=queues) == 1).sum()) for batch in chosen]
    return float(np.mean(shared)) / ACTIVE


def in_queues(runs: Runs, label: str) -> tuple[int, int, int]:
    """Flows that wait at the virtual switch for their application, queues that hold any, and flows that are alone in theirs."""
    port = runs.scan(label, "ports").filter(pl.col("peer") == 0).select("node", "port")
    queues = runs.scan(label, "queues").join(port, on=["node", "port"]).filter(pl.col("bytes") > 0).collect()
    queues = queues.filter(pl.col("time_ns") == queues["time_ns"].max())
    flows = (queues["bytes"] / PER_FLOW).round().cast(pl.Int64)
    return int(flows.sum()), queues.height, int((flows == 1).sum())


def claims(data: pl.DataFrame, scale: str) -> list[Claim]:
    """Static queues collide even when there are ten times as many as flows; dynamic ones never, with a tenth of the memory."""
    counted = {queues: value(data, "collisions", COUNTED, queues) for queues in QUEUES}
    shared = value(data, "collisions", DYNAMIC, MOST)
    used, flows = (value(data, panel, DYNAMIC, MOST) for panel in ("used", "flows"))
    simulated = value(data, "collisions", STATIC, MOST)
    return [
        within("few", "active flows that share one of 2.5 K static queues", "high", counted[2500], 0.2, 1.0, quick=True),
        within("many", "active flows that share one of 10 K static queues", "still collisions", counted[10_000], 0.01, 0.2,
               quick=True),
        holds("dynamic", "active flows that share a dynamic queue, simulated", "0", shared, shared == 0, "0"),
        within("active", "flows that wait at once in the simulated switch", "1 K", flows, 990, 1000, quick=True),
        within("memory", "rings of 10 K static queues over those of the dynamic queues in use", "200 KB / 20 KB = 10",
               10_000 / used, 9, 11, quick=True),
        within("alike", "1024 static queues: share of collisions simulated / expected", "-",
               simulated / (1 - (1 - 1 / MOST) ** (ACTIVE - 1)), 0.9, 1.1, quick=True),
    ]  # fmt: skip


def plot(data: pl.DataFrame) -> Any:
    """Share of flows that collide over the number of queues."""
    made, axes = figure(width=COLUMN, height=2.4)
    for nth, (series, look) in enumerate(((COUNTED, "-"), (STATIC, ""), (DYNAMIC, ""))):
        points = setup.line(data, "collisions", series)
        colour, size = ((GREY, 3), (GREY, 6), (SKY, 6))[nth]
        axes.plot(points["x"], points["y"] * 100, label=series, linestyle=look or "none", clip_on=False, color=colour,
                  marker="osD"[nth], markersize=size, markerfacecolor="none" if nth == 1 else None)
    log_axis(axes.xaxis)
    axes.set_ylim(0, 100)
    axes.set_xlabel("queues")
    axes.set_ylabel("flows that share (%)")
    legend_above(made, axes, columns=2)
    return made
