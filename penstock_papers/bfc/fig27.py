"""BFC (NSDI 2022), figure 27: stochastic instead of dynamic assignment of flows to queues.

Appendix A.10, on the traffic of figure 11a (see `_fabric`): Facebook at 55 % load and 5 % 100-to-1 incast, pause thresholds the
same. (a) 99th percentile of the slowdown. (b) Collisions: how many other flows have packets in the queue in which the first
packet of a flow is put at a port, over all flows and ports of switches; the text does not define them. For (b) the
first ms (quick: 0.3 ms) is run once more with every packet recorded. (c) is ours: the number of active flows at a port.
"""

from typing import Any

import numpy as np
import polars as pl

from penstock_papers import frames
from penstock_papers.bfc import _fabric as fabric
from penstock_papers.bfc._fabric import BFC, Scheme, points, value
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import OURS
from penstock_papers.sentences import Numbers, as_said, ascending, within
from penstock_papers.style import BLUE, GREEN, PAGE, figure, legend_above, lettered, log_axis, size_text

TITLE = "Stochastic and dynamic queue assignment, Facebook with incast"
PAPER = "BFC, NSDI 2022, appendix A.10, figure 27"
DURATION = {"quick": "1ms", "paper": "50ms"}
TRACED = {"quick": "300us", "paper": "1ms"}
SEEDS = {"paper": 10}  # fewer left a claim undecided
QUEUES = 32
TRAFFIC, PACKETS = "incast", "packets"
DYNAMIC = Scheme("BFC + Dynamic", BFC.table, run="dynamic")
STOCHASTIC = Scheme("BFC + Stochastic", {**BFC.table, "assignment": "stochastic"}, nth=1, run="stochastic")
SCHEMES = (DYNAMIC, STOCHASTIC)
COLOURS = {DYNAMIC.label: BLUE, STOCHASTIC.label: GREEN}
WORSE = "tail latency for BFC + Stochastic is much worse for all flow sizes"


CLAIMS = (
    as_said("all-sizes", "p99: Stochastic / Dynamic, smallest of the size bins", WORSE, "much"),
    as_said("short", "short flows (< 3 KB), p99: Stochastic / Dynamic", WORSE, "much"),
    ascending("order", "short flows, p99", WORSE, kind=OURS),
    ascending(
        "small-flows",
        "p99: Stochastic / Dynamic: flows > 3 MB, flows < 3 KB",
        "leading to worse tail latency especially for small flows",
        quick=False,
    ),
    within(
        "collisions",
        "Stochastic: share of flows that come to a queue with others",
        "BFC+Stochastic experiences collisions in a high fraction of cases",
        0.2,
        1,
        why="one flow in five; section 3.2 wants fewer than one in a hundred",
    ),
    ascending(
        "fewer-collisions",
        "share of flows that come to a queue with others",
        "flows are often hashed to the same physical queue, [...] even when there are unoccupied physical queues",
    ),
    ascending(
        "active",
        "mean number of active flows at a port",
        "Such flows finish later, further increasing the number of active flows and collisions",
    ),
    within(
        "most-of-the-time",
        "Dynamic: share of time with fewer than 32 active flows at a port",
        "Even with incast, the number of active flows in BFC is smaller than the number of physical queues most of the time",
        0.5,
        1,
        why="most of the time is more than half",
        quick=True,
    ),
    as_said("long", "flows > 3 MB, p99: Stochastic / Dynamic", WORSE, "much"),
)


def specs(scale: str) -> dict[str, Spec]:
    """One traffic with both assignments; its beginning with every packet recorded."""
    return {
        TRAFFIC: fabric.spec(SCHEMES, DURATION[scale], "facebook_hadoop", incast=0.05),
        PACKETS: {
            **fabric.spec(SCHEMES, TRACED[scale], "facebook_hadoop", incast=0.05),
            "measure": {"packets": True, "sample": "0us", "flows": False},
        },
    }


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """As figure 9's; panel collisions: x other flows in the queue, y CDF; panel mean active: one number."""
    parts = []
    for scheme in SCHEMES:
        active = fabric.active_flows(runs, TRAFFIC, scheme)
        share = np.diff(active["y"].to_numpy(), prepend=0.0)
        others = collisions(runs, fabric.of(runs, PACKETS, scheme))
        x, counts = np.unique(others, return_counts=True)
        parts += [
            fabric.everything(runs, TRAFFIC, scheme, "facebook_hadoop"),
            active,
            points(TRAFFIC, scheme, "mean active", [0], [float((active["x"].to_numpy() * share).sum())]),
            points(TRAFFIC, scheme, "collisions", x, np.cumsum(counts) / len(others)),
        ]
    return pl.concat(parts)


def collisions(runs: Runs, label: str) -> np.ndarray:
    """Per flow and port of a switch, the number of other flows with packets in its queue when its first packet comes.

    Rows are numbered before they are joined: a join keeps no order, and this is of the order of events.
    """
    switches = runs.scan(label, "nodes").filter(pl.col("tier") > 0).select("node")
    stored = (pl.col("kind") == 0) & pl.col("event").is_in(["enqueue", "dequeue"])
    packets = runs.scan(label, "packets").with_row_index("row").filter(stored)
    step = pl.when(pl.col("event") == "enqueue").then(1).otherwise(-1)
    flow, queue = ["node", "port", "flow_id", "queue"], ["node", "port", "queue"]
    at_switches = packets.join(switches, on="node").with_columns(step=step.cast(pl.Int32))
    waiting = at_switches.with_columns(waiting=pl.col("step").cum_sum().over(flow, order_by="row"))
    comes, goes = (pl.col("step") == 1) & (pl.col("waiting") == 1), (pl.col("step") == -1) & (pl.col("waiting") == 0)
    changes = waiting.filter(comes | goes).with_columns(flows=pl.col("step").cum_sum().over(queue, order_by="row"))
    return (
        changes.filter(pl.col("row") == pl.col("row").min().over(flow[:3]))
        .select(pl.col("flows") - 1)
        .collect()["flows"]
        .to_numpy()
    )


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """The tail of all sizes, of small ones most, and the collisions that cause it."""
    ratio = {group: _ratio(data, f"{group} p99") for group in ("short", "medium", "long")}
    sizes = fabric.curve(data, TRAFFIC, STOCHASTIC.label, "p99")["y"] / fabric.curve(data, TRAFFIC, DYNAMIC.label, "p99")["y"]
    collided = {scheme.legend: 1 - float(_collisions(data, scheme)["y"][0]) for scheme in SCHEMES}
    few = fabric.curve(data, TRAFFIC, DYNAMIC.label, "active").filter(pl.col("x") < QUEUES)["y"].max()
    return {
        "all-sizes": sizes.min(),
        "short": ratio["short"],
        "order": {scheme.legend: value(data, TRAFFIC, scheme, "short p99") for scheme in SCHEMES},
        "small-flows": {"long": ratio["long"], "short": ratio["short"]},
        "collisions": collided[STOCHASTIC.legend],
        "fewer-collisions": {scheme.legend: collided[scheme.legend] for scheme in SCHEMES},
        "active": {scheme.legend: value(data, TRAFFIC, scheme, "mean active") for scheme in SCHEMES},
        "most-of-the-time": few,
        "long": ratio["long"],
    }


def _ratio(data: pl.DataFrame, panel: str) -> float:
    stochastic, dynamic = (value(data, TRAFFIC, scheme, panel) for scheme in (STOCHASTIC, DYNAMIC))
    return stochastic / dynamic


def _collisions(data: pl.DataFrame, scheme: Scheme) -> pl.DataFrame:
    return frames.chosen(data, scheme=scheme.label, panel="collisions").sort("x")


def plot(data: pl.DataFrame) -> Any:
    """Slowdown by flow size, collisions, active flows."""
    made, (left, middle, right) = figure(1, 3, width=PAGE, height=2.5)
    for scheme in SCHEMES:
        looks = {"color": COLOURS[scheme.label], "ls": scheme.style["linestyle"], "label": scheme.legend}
        tail = fabric.curve(data, TRAFFIC, scheme.label, "p99").drop_nulls()
        active, others = fabric.curve(data, TRAFFIC, scheme.label, "active"), _collisions(data, scheme)
        left.plot(tail["x"], tail["y"], **looks)
        middle.plot(others["x"], others["y"], ds="steps-post", **looks)
        right.plot(active["x"], active["y"], ds="steps-post", **looks)
    log_axis(left.xaxis, size_text)
    log_axis(left.yaxis, None, (1, 2, 5))
    left.set(xlabel="Flow size", ylabel="FCT slowdown, p99")
    middle.set(xlabel="Other flows in the queue", ylabel="CDF")
    right.axvline(QUEUES, color="0.35", lw=1.2)
    right.set(xlabel="Active flows at a port", ylabel="CDF", xlim=(0, 4 * QUEUES), ylim=(0, 1.02))
    lettered((left, middle, right), ("99th percentile", "collisions", "active flows"))
    legend_above(made, left, columns=2)
    return made
