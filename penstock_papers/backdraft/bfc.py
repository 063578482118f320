"""Backdraft and BFC: slow receivers in a network with per-hop backpressure (argued in section 2.2 of Backdraft, NSDI 2022).

BFC relies on flows being short, so that few queues are paused at any time. A slow application violates that: its flows occupy
paused queues hop by hop back to their senders, and when all queues of a port are occupied, flows to other receivers must share
one and are served at the slow receiver's rate. With Backdraft senders hold these flows back before they fill queues in the
network. The paper argues so without a measurement.

Network: 16 servers in 4 racks, 4 spines, 100 Gbit/s, 1 us, 32 queues at each port; two applications behind each server's
virtual switch. One application of every server sends 8 endless flows to an application in each rack, 10 Gbit/s in all: a
receiver is sent 40 Gbit/s by 120 flows. It takes all of that (fast), or 2 Gbit/s. Victims are Poisson flows (the Google sizes)
among the other applications at 30 % of the servers' links, so that no link is full. Those to the server of a slow application
share its link.

BFC's threshold is one round trip of its hop; at virtual switches, towards applications, it may be 300 KB (Th_net): there it
must exceed Backdraft's 64 KB, or BFC holds the queues first. Virtual switches with Backdraft have 256 queues.
"""

from typing import Any

import numpy as np
import polars as pl

from penstock_papers import frames
from penstock_papers.backdraft import _setup as setup
from penstock_papers.backdraft._setup import PREVENTS, Scheme, value
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import MORE, OURS, Differs
from penstock_papers.sentences import Numbers, holds, within
from penstock_papers.style import BLACK, PAGE, figure, legend_above, lettered, log_axis

TITLE = "Slow receivers under BFC, with and without Backdraft"
PAPER = "Backdraft, NSDI 2022, section 2.2 (no figure)"
SERVERS, RACKS, QUEUES = 16, 4, 32
NETWORK = {
    "kind": "leaf_spine",
    "hosts": SERVERS,
    "tors": RACKS,
    "spines": 4,
    "rate": "100Gbps",
    "delay": "1us",
    "buffer": "12MB",
    "vswitches": {"apps": 2, "rate": "100Gbps", "delay": "500ns", "buffer": "16MB"},
}
SLOW = [2 * server for server in range(0, SERVERS, SERVERS // RACKS)]
FAST = [2 * server + 1 for server in range(SERVERS)]
SPEED, SENDERS, EACH = "2Gbps", [2 * server for server in range(SERVERS)], 8
DURATION = {"quick": "1ms", "paper": "10ms"}
TH_NET = "300KB"
ALONE = Scheme("BFC", {"name": "bfc"}, like="bfc")
RAISED = Scheme("BFC, 300 KB", {"name": "bfc", "edge_th_bytes": TH_NET}, 1, like="bfc")
BOTH = Scheme(
    "BFC + Backdraft",
    {"name": "bfc+backdraft", "bfc": {"edge_th_bytes": TH_NET}, "dqa": {"edge_queues": 256}, "backdraft": {"most": "16MB"}},
    like="backdraft",
)
SCHEMES = (ALONE, RAISED, BOTH)
REFERENCE = "BFC, all fast"
GROUPS = ("same server", "other servers")
PLACES = dict(zip(GROUPS, ("same-server", "other-servers")))  # in ids
SPREADS = f"threefold or more, which is no noise; {MORE}"
DIFFERS: dict[str, Differs] = {}


CLAIMS = (
    *(
        row
        for group, place in PLACES.items()
        for row in (
            within(
                f"spreads-{place}",
                f"victims to {group}: p99 slowdown, BFC: slow receivers / fast",
                "slow receivers will cause congestion spreading",
                3.0,
                why=SPREADS,
                quick=True,
            ),
            within(f"raised-{place}", f"the same with a threshold of {TH_NET}", "-", 3.0, why=SPREADS, kind=OURS),
            within(
                f"prevents-{place}",
                f"victims to {group}: p99 slowdown, BFC + Backdraft: slow / BFC, fast",
                "Backdraft addresses this problem and prevents congestion spreading from slow receivers",
                0.5,
                1.5,
                why="as without slow receivers, a half either way for a tail of one run",
                quick=True,
            ),
        )
    ),
    holds("queues", "most queues of a port in the network that are held at once, of 32", "-", "32, and at most 16", kind=OURS),
    holds(
        "unfinished",
        "share of victims that have not ended when the run does",
        "-",
        "at most 0.1 % more than where all are fast, and fewer than BFC's",
        kind=OURS,
    ),
    holds("no-drops", "packets dropped, BFC + Backdraft", PREVENTS, "0"),
)


def specs(scale: str) -> dict[str, Spec]:
    """Slow receivers and fast ones, with the same traffic."""
    steady = setup.endless([(src, dst) for dst in SLOW for src in SENDERS if src != dst for _ in range(EACH)], "steady")
    victims = {
        "kind": "poisson",
        "sizes": "google",
        "load": 0.15,
        "load_on": "host",
        "hosts": FAST,
        "class": "victims",
        "start": "50us",
    }
    paces = [
        {"time": "0s", "a": f"host{src}", "b": f"vswitch{src // 2}", "rate": "10Gbps", "of": f"host{src}"} for src in SENDERS
    ]
    paced = {**NETWORK, "changes": paces}
    slow = {**paced, "receivers": [{"host": host, "rate": SPEED} for host in SLOW]}
    return {
        "slow": setup.spec(SCHEMES, slow, [steady, victims], DURATION[scale], flows=False),
        "fast": setup.spec([ALONE], paced, [steady, victims], DURATION[scale], flows=False),
    }


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """Panel "cdf": x slowdown of victims, y share; by group of victims "p50", "p99": y; "unfinished": y share of the victims;
    "held": y paused queues."""
    parts = []
    for series, label in ((REFERENCE, "fast"), *((scheme.legend, f"slow/{scheme.legend}") for scheme in SCHEMES)):
        found = victims(runs, label)
        share = np.linspace(0, 1, 500)
        parts.append(frames.rows("cdf", series, np.quantile(found["slowdown"].to_numpy(), share), share))
        for group in (*GROUPS, "all"):
            part = found if group == "all" else found.filter(pl.col("group") == group)
            parts += [
                frames.rows(f"{name}, {group}", series, [0], [part["slowdown"].quantile(q, "linear")])
                for name, q in (("p50", 0.5), ("p99", 0.99))
            ]
        parts += [
            frames.rows("unfinished", series, [0], [found["late"].mean()]),
            frames.rows("drops", series, [0], [runs.summary(label)["drops"]]),
            frames.rows("held", series, [0], [held_queues(runs, label)]),
        ]
    return pl.concat(parts)


def victims(runs: Runs, label: str) -> pl.DataFrame:
    """slowdown, late, group of the victims that start in the first 80 % of the run; one that never ended has waited till then."""
    end, per_rack = runs.summary(label)["end_ns"], SERVERS // RACKS
    is_victim = pl.col("class").cast(pl.String) == "victims"
    flows = runs.scan(label, "flows").filter(is_victim & (pl.col("start_ns") < 0.8 * end)).collect()
    server = pl.col("dst") // 2
    group = pl.when(server % per_rack == 0).then(pl.lit(GROUPS[0])).otherwise(pl.lit(GROUPS[1]))
    return flows.select(
        pl.coalesce("slowdown", (end - pl.col("start_ns")) / pl.col("ideal_fct_ns")).alias("slowdown"),
        pl.col("finish_ns").is_null().alias("late"),
        group.alias("group"),
    )


def held_queues(runs: Runs, label: str) -> float:
    """The largest number of queues of one port of a physical switch that were paused at the same time."""
    table = runs.scan(label, "pauses").filter((pl.col("node") >= 3 * SERVERS) & (pl.col("queue") >= 0)).sort("time_ns")
    step = pl.when(pl.col("paused")).then(1).otherwise(-1)
    held = table.select("node", "port", step.cum_sum().over("node", "port").alias("held")).collect()["held"].max()
    return float(held or 0)  # type: ignore[arg-type]


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """BFC spreads the congestion to victims everywhere; with Backdraft they are not affected."""
    found: Numbers = {}
    for group, place in PLACES.items():
        alone = value(data, f"p99, {group}", REFERENCE)
        for row, scheme in (("spreads", ALONE), ("raised", RAISED), ("prevents", BOTH)):
            found[f"{row}-{place}"] = value(data, f"p99, {group}", scheme.legend) / alone
    held = {series: value(data, "held", series) for series in (ALONE.legend, BOTH.legend)}
    unfinished = {series: value(data, "unfinished", series) for series in (ALONE.legend, REFERENCE, BOTH.legend)}
    drops = value(data, "drops", BOTH.legend)
    return {
        **found,
        "queues": (held[ALONE.legend] == QUEUES and held[BOTH.legend] <= QUEUES / 2, frames.text(held)),
        "unfinished": (
            unfinished[BOTH.legend] <= unfinished[REFERENCE] + 0.001 < unfinished[ALONE.legend],
            frames.text(unfinished),
        ),
        "no-drops": (drops == 0, drops),
    }


def plot(data: pl.DataFrame) -> Any:
    """Distribution of the victims' slowdown, and its 99th percentile by place."""
    made, (left, right) = figure(1, 2, width=PAGE, height=2.4)
    looks = {REFERENCE: (BLACK, ":"), **{s.legend: (s.style["color"], s.style["linestyle"]) for s in SCHEMES}}
    for nth, (series, (colour, dash)) in enumerate(looks.items()):
        points = setup.line(data, "cdf", series)
        left.plot(points["x"], points["y"], color=colour, linestyle=dash, label=series)
        heights = [value(data, f"p99, {group}", series) for group in GROUPS]
        right.bar(
            [x + (nth - 1.5) * 0.2 for x in range(len(GROUPS))],
            heights,
            0.18,
            color=colour,
            alpha=0.5 if series == RAISED.legend else 1,
        )
    log_axis(left.xaxis)
    log_axis(right.yaxis)
    left.set_xlabel("slowdown of victims")
    left.set_ylabel("CDF")
    left.set_ylim(0, 1)
    right.set_xticks(range(len(GROUPS)), [f"to the {GROUPS[0]}", f"to {GROUPS[1]}"])
    right.set_ylabel("p99 slowdown")
    right.grid(False, axis="x")
    lettered((left, right), ("victims", "by place"))
    legend_above(made, left, columns=4)
    return made
