"""Backdraft (NSDI 2022), figure 11: flows that share a queue, over the number of static queues.

Section 6.2: 100 K flows of which 1 K are active at any time; RSS hashes them to a fixed number of queues, or each gets a queue
of its own while it is active (dynamic). A collision is an active flow that shares its queue with another active one. "Counted":
flows 1000 k to 1000 k + 999 are active together, hashed by penstock's flow hash to 1 K to 100 K queues, every k. "Simulated": a
virtual switch to which two servers send 1000 flows in all, of two packets, which stay there since the application is stopped;
static queues are those of dqa:stochastic, up to 1024; dynamic ones are dqa's 1024. Its flow table identifies flows by the hash
that indexes it, so with its default of 100 entries for each queue five pairs of the thousand flows collide on average; with the
largest possible one, of 10000 (ours), a pair in one of twenty runs. "Real switch": the flow table of `penstock vswitch`:
all 100 K flows send a frame, 1000 at a time, and their entries expire when idle; each time the receive queues assigned to them
and the rings of these are counted. The memory is calculated as in the paper: 20 B for each ring.
The seed is that of the hashes; the real switch has no random numbers.
"""

from typing import Any

import numpy as np
import polars as pl

from penstock_net.hashing import choice, flow_hash, node_seed
from penstock_net.vswitch.bench import rig
from penstock_net.vswitch.dataplane.switch import Switch
from penstock_net.vswitch.memory.region import Region
from penstock_papers import frames
from penstock_papers.backdraft import _setup as setup
from penstock_papers.backdraft._setup import Scheme, Servers, value
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import OURS, Differs
from penstock_papers.sentences import Numbers, holds, within
from penstock_papers.style import BLUE, COLUMN, GREEN, SKY, figure, legend_above, log_axis

TITLE = "Flows that share a queue: static and dynamic queues"
PAPER = "Backdraft, NSDI 2022, section 6.2, figure 11"
ACTIVE, FLOWS = 1000, 100_000
QUEUES = (64, 128, 256, 512, 1000, 2500, 5000, 10_000, 20_000, 50_000, 100_000)
SIMULATED = {"quick": (1024,), "paper": (64, 128, 256, 512, 1024)}
MOST, PER_FLOW = 1024, 2 * 1048
NETWORK = Servers(3, vswitch_buffer="0B")
GREY = "#5A5A5A"
STATIC, DYNAMIC, COUNTED, REAL = "static, simulated", "dynamic, simulated", "static, counted", "dynamic, real switch"
LARGE = "dynamic, large table"
REAL_QUEUES, BATCHES = 2048, {"quick": 5, "paper": FLOWS // ACTIVE}
ZERO = "DPFQ avoids wasted memory and achieves a zero-collision rate thanks to its per-flow queueing mechanism"
TENFOLD = "This is a 10x reduction in memory utilization"
COUNTS = "a tenth either way: rings are counted, not measured"
SET_UP = "the thousand, less a hundredth that has not arrived or shares an entry of the flow table"
SEEDS = {"paper": 3}
DIFFERS = {
    "dynamic": Differs(
        "flows whose hashes meet in one of the 102 400 entries are one flow to the scheme: 4.9 pairs of a thousand flows",
        "backdraft-flow-table",
        expected=(0.002, 0.02),
        scales=("quick", "paper"),
        width="the number of pairs is Poisson's of mean 4.9: 1 to 10 in 97 of 100 runs",
    ),
}


CLAIMS = (
    within(
        "few",
        "active flows that share one of 2.5 K static queues",
        "when using only 2.5 K queues, the collision rate is high, even if only 1 K flows are active",
        0.2,
        1.0,
        why="high: a fifth of the flows or more, at most all",
        quick=True,
    ),
    within(
        "many",
        "active flows that share one of 10 K static queues",
        "Having 10x more static queues than active flows helps, but still collisions occur",
        0.01,
        0.2,
        why="collisions occur: 1 % or more; it helps: less than what is high with 2.5 K queues",
        quick=True,
    ),
    holds("dynamic", "active flows that share a dynamic queue, simulated", ZERO, "0"),
    holds("dynamic-large", "the same with the largest flow table", "-", "0", kind=OURS),
    within("active", "flows that wait at once in the simulated switch", "-", 990, 1000, why=SET_UP, quick=True, kind=OURS),
    within(
        "memory", "rings of 10 K static queues over those of the dynamic queues in use", TENFOLD, 9, 11, why=COUNTS, quick=True
    ),
    holds("switch", "active flows that share a queue of the real switch", ZERO, "0"),
    within(
        "switch-active",
        "flows that the real switch knows of those that are active",
        "-",
        ACTIVE,
        ACTIVE,
        why="every one",
        quick=True,
        kind=OURS,
    ),
    within(
        "switch-memory",
        "rings of 10 K static queues over the most that the real switch holds",
        TENFOLD,
        9,
        11,
        why=COUNTS,
        quick=True,
    ),
    within(
        "alike",
        "1024 static queues: share of collisions simulated / expected",
        "-",
        0.9,
        1.1,
        why="a tenth either way: one run of a thousand flows",
        quick=True,
        kind=OURS,
    ),
)


def specs(scale: str) -> dict[str, Spec]:
    """A thousand flows to a virtual switch whose application takes a packet in a while."""
    common = {"name": "backdraft", "overlay": False, "most": "1GB"}
    schemes = [
        Scheme(f"{n} queues", {**common, "dqa": {"queues": n, "edge_queues": n, "assignment": "stochastic"}}, like="fifo")
        for n in SIMULATED[scale]
    ]
    dynamic = {"queues": MOST, "edge_queues": MOST}
    schemes.append(Scheme(DYNAMIC, {**common, "dqa": dynamic}, like="backdraft"))
    schemes.append(Scheme(LARGE, {**common, "dqa": {**dynamic, "table": 10_000}}, like="backdraft"))
    flows = {"kind": "list", "flows": [[1 + i % 2, 0, 2000, f"{i * 200}ns"] for i in range(ACTIVE)]}
    return {"two": setup.spec(schemes, NETWORK.table({0: "1Mbps"}), [flows], "260us", sample="250us", queues=True)}


def measure(runs: Runs, scale: str, seed: int = 1) -> pl.DataFrame:
    """Panel "collisions": x queues, y share of the active flows; "queues": y queues in use by as many flows."""
    shares = [collisions(queues, seed) for queues in QUEUES]
    parts = [frames.rows("collisions", COUNTED, QUEUES, shares)]
    for series, names in ((STATIC, SIMULATED[scale]), (DYNAMIC, (MOST,)), (LARGE, (MOST,))):
        for queues in names:
            flows, used, alone = in_queues(runs, f"two/{f'{queues} queues' if series == STATIC else series}")
            found = {"collisions": 1 - alone / flows, "used": used, "flows": flows}
            parts += [frames.rows(panel, series, [queues], [y]) for panel, y in found.items()]
    on_real = dict(zip(("collisions", "used", "flows"), on_switch(BATCHES[scale])))
    for panel, y in on_real.items():
        parts.append(frames.rows(panel, REAL, [REAL_QUEUES], [y]))
    return pl.concat(parts)


def on_switch(batches: int) -> tuple[float, float, float]:
    """Share of the active flows that are not alone in their receive queue, most rings in use, fewest flows at a time."""
    sender = Region.create(queues=ACTIVE, rings=ACTIVE, bells=2048, buffer_bytes=64)
    receiver = Region.create(queues=REAL_QUEUES, rings=REAL_QUEUES, bells=4096, buffers=2048, buffer_bytes=64)
    switch = Switch(mode="backdraft", idle="1ms", flows=4096, hash_seed=1)
    for name, region, address in (("a", sender, "10.0.0.1"), ("b", receiver, "10.0.0.2")):
        switch.attach(name, Region.attach(region.fd, region.shape), [address])
    now, shared, rings, fewest = 0, 0, 0, ACTIVE
    for batch in range(batches):
        for nth in range(ACTIVE):
            head = rig.head("10.0.0.1", "10.0.0.2", 1 + nth, 64, 1 + batch)
            assert sender.send(nth, [head + bytes(64 - len(head))]) == 1
        while switch.waiting():
            now += 1000
            switch.turn_at(now)
        flows = [row for row in switch.flows() if row["target_port"] == 1 + batch]
        queues = np.array([row["queue"] for row in switch.flows()])
        alone = np.bincount(queues, minlength=REAL_QUEUES) == 1
        shared += len(flows) - int(alone[[row["queue"] for row in flows]].sum())
        rings, fewest = max(rings, REAL_QUEUES - receiver.free_rings()), min(fewest, len(flows))
        assert len(receiver.receive(2 * ACTIVE)) == ACTIVE
        for _ in range(16):  # idle: forgotten a part at a time
            now += 1_100_000
            switch.turn_at(now)
            receiver.receive(2 * ACTIVE)
    switch.close()
    return shared / (batches * ACTIVE), float(rings), float(fewest)


def collisions(queues: int, seed: int = 1) -> float:
    """Share of the active flows that are not alone in their queue, all batches of active flows together."""
    hashes = flow_hash(np.arange(FLOWS), seed)
    chosen = choice(hashes, np.full(FLOWS, node_seed(0, seed)), queues).reshape(-1, ACTIVE)
    shared = [ACTIVE - int((np.bincount(batch, minlength=queues) == 1).sum()) for batch in chosen]
    return float(np.mean(shared)) / ACTIVE


def in_queues(runs: Runs, label: str) -> tuple[int, int, int]:
    """Flows that wait at the virtual switch for their application, queues that hold any, and flows that are alone in theirs."""
    port = runs.scan(label, "ports").filter(pl.col("peer") == 0).select("node", "port")
    queues = runs.scan(label, "queues").join(port, on=["node", "port"]).filter(pl.col("bytes") > 0).collect()
    queues = queues.filter(pl.col("time_ns") == queues["time_ns"].max())
    flows = (queues["bytes"] / PER_FLOW).round().cast(pl.Int64)
    return int(flows.sum()), queues.height, int((flows == 1).sum())


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Static queues collide even when there are ten times as many as flows; dynamic ones never, with a tenth of the memory."""
    few, many = (value(data, "collisions", COUNTED, queues) for queues in (2500, 10_000))
    shared, large = (value(data, "collisions", series, MOST) for series in (DYNAMIC, LARGE))
    on_real, rings, known = (value(data, panel, REAL, REAL_QUEUES) for panel in ("collisions", "used", "flows"))
    return {
        "few": few,
        "many": many,
        "dynamic": (shared == 0, shared),
        "dynamic-large": (large == 0, large),
        "active": value(data, "flows", DYNAMIC, MOST),
        "memory": 10_000 / value(data, "used", DYNAMIC, MOST),
        "switch": (on_real == 0, on_real),
        "switch-active": known,
        "switch-memory": 10_000 / rings,
        "alike": value(data, "collisions", STATIC, MOST) / (1 - (1 - 1 / MOST) ** (ACTIVE - 1)),
    }


def plot(data: pl.DataFrame) -> Any:
    """Share of flows that collide over the number of queues."""
    made, axes = figure(width=COLUMN, height=2.4)
    for nth, (series, look) in enumerate(((COUNTED, "-"), (STATIC, ""), (DYNAMIC, ""), (LARGE, ""), (REAL, ""))):
        points = setup.line(data, "collisions", series)
        colour, size = ((GREY, 3), (GREY, 6), (SKY, 6), (GREEN, 7), (BLUE, 5))[nth]
        axes.plot(
            points["x"],
            points["y"] * 100,
            label=series,
            linestyle=look or "none",
            clip_on=False,
            color=colour,
            marker="osDv^"[nth],
            markersize=size,
            markerfacecolor="none" if nth in (1, 3) else None,
        )
    log_axis(axes.xaxis)
    axes.set_ylim(0, 100)
    axes.set_xlabel("queues")
    axes.set_ylabel("flows that share (%)")
    legend_above(made, axes, columns=2)
    return made
