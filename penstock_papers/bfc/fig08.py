"""BFC (NSDI 2022), figure 8: congestion spreading by how flows are assigned to queues.

Testbed of figure 6 (section 6.1), all ports 100 Gbit/s with 16 queues. Two group-1 flows (switch 1 to switch 2 to
receiver 1), 4 to 20 group-2 flows (switch 1 to switch 2 to receiver 2) and eight group-3 flows (switch 3 to switch 2 to
receiver 2), 1.5 MB each. Groups 2 and 3 are bottlenecked by the link to receiver 2, group 1 by the link from switch 1
to switch 2, where group 2 slows it down if they share a queue. BFC's backpressure with one queue, stochastic and
dynamic assignment; four runs, which differ in the seed of every hash and in the starts.

Set-up: as figure 7's; a host per flow. All flows start within 1 us of one another, at random. Ours is dynamic
assignment when a new flow takes the first empty queue.
"""

from typing import Any

import numpy as np
import polars as pl

from penstock_papers.bfc._variants import HARDWARE, HARDWARE_BESIDE
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import MORE
from penstock_papers.sentences import Numbers, as_said, ascending, within
from penstock_papers.style import BLACK, BLUE, COLUMN, DASHES, GREEN, MARKERS, RED, SKY, figure, legend_above

TITLE = "Congestion spreading: completion time of group 1 by queue assignment"
PAPER = "BFC, NSDI 2022, section 6.1, figure 8"
QUEUES, SIZE = 16, 1_500_000
GROUP_1, GROUP_3 = 2, 8
GROUP_2 = {"quick": (4, 10, 20), "paper": (4, 6, 8, 10, 12, 14, 16, 18, 20)}
RUNS = 4
SPREAD_PS = 1_000_000
ASSIGNMENTS = ("single", "stochastic", "dynamic")
OTHER = f"dynamic, {HARDWARE_BESIDE['assignment']}"
LOOKS = dict(zip((*ASSIGNMENTS, OTHER), zip((RED, GREEN, BLUE, SKY), (DASHES[2], DASHES[1], DASHES[0], DASHES[3]), MARKERS)))


CLAIMS = (
    ascending(
        "order",
        "mean FCT of group 1 while flows <= queues, us",
        "With dynamic assignment, BFC achieves the lowest average FCT; BFC + single achieves the worst FCT",
    ),
    as_said(
        "stochastic",
        "mean FCT of group 1 while flows <= queues: single / stochastic",
        "With stochastic assignment, the FCT is substantially lower",
        "substantially",
        quick=True,
    ),
    within(
        "never-worse",
        "numbers of flows at which dynamic is not better than single",
        "BFC achieves the lowest average FCT",
        0,
        0,
        why="the lowest at every number of flows",
        quick=True,
    ),
    within(
        "steady",
        "dynamic, flows <= queues: largest sd / mean of the FCT",
        "the standard deviation is close to 0 when the number of flows [...] is lower than the number of queues",
        None,
        0.05,
        quick=True,
        why="a standard deviation is at least 0; close to 0 is a twentieth of the mean",
    ),
    within(
        "scattered",
        "flows <= queues: median sd of the FCT of stochastic / largest of dynamic",
        "the standard deviation in FCT is high",
        5,
        quick=True,
        why=f"high beside one that is close to 0: five times as much; {MORE}",
    ),
    within(
        "beyond",
        "dynamic: largest sd of the FCT with more flows than queues / with fewer",
        "When the number of flows exceed the queues, [...] the standard deviation in FCT increases",
        5,
        quick=True,
        why=f"it increases from close to 0: five times as much; {MORE}",
    ),
)


def specs(scale: str, seed: int = 1) -> dict[str, Spec]:
    """One spec per number of group-2 flows and run, with the three assignments, and the third one in the other variant."""
    return {f"{n}flows{run}": _spec(n, RUNS * (seed - 1) + run) for n in GROUP_2[scale] for run in range(1, RUNS + 1)}


def _spec(group_2: int, run: int) -> Spec:
    pairs = max(GROUP_1 + group_2, GROUP_3)  # hosts at switch 1, and at switch 3; their partners are at switch 2
    sender_1 = [2 + 2 * i for i in range(pairs)]
    sender_3 = [2 + 2 * (pairs + i) + 1 for i in range(pairs)]
    receiver_1, receiver_2 = sender_1[0] + 1, sender_1[1] + 1
    groups = [
        ("group1", sender_1[:GROUP_1], receiver_1),
        ("group2", sender_1[GROUP_1 : GROUP_1 + group_2], receiver_2),
        ("group3", sender_3[:GROUP_3], receiver_2),
    ]
    rng = np.random.default_rng([8, group_2, run])
    workload = [
        {"kind": "list", "class": name, "flows": [[host, to, SIZE, f"{rng.integers(SPREAD_PS)}ps"] for host in hosts]}
        for name, hosts, to in groups
    ]
    return {
        "run": {"duration": "10us", "seed": run},
        "topology": {"kind": "parking_lot", "hops": 2, "cross": pairs, "delay": "500ns"},
        "scheme": [
            *({**HARDWARE, "queues": QUEUES, "assignment": how, "label": how} for how in ASSIGNMENTS[:2]),
            {**HARDWARE, "queues": QUEUES, "label": "dynamic"},
            {**HARDWARE_BESIDE, "queues": QUEUES, "label": "beside"},
        ],
        "workload": workload,
        "measure": {"sample": "10us"},
    }


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: number of group-2 flows, y: mean completion time of group 1 in us, `sd`: standard deviation over the runs."""
    rows = []
    for label, series in zip((*ASSIGNMENTS, "beside"), LOOKS):
        for n in GROUP_2[scale]:
            taken = times(runs, n, label)
            rows.append((series, n, float(taken.mean()), float(taken.std())))
    return pl.DataFrame(rows, schema=["series", "x", "y", "sd"], orient="row")


def times(runs: Runs, flows: int, label: str, prefix: str = "") -> np.ndarray:
    """Completion times of group 1, us, in all runs with a number of group-2 flows; `prefix`: before the names of the specs."""
    labels = (f"{prefix}{flows}flows{run}/{label}" for run in range(1, RUNS + 1))
    return np.concatenate([runs[each].selected("group1")["fct_ns"].to_numpy() / 1e3 for each in labels])


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """The order of the three, and how steady dynamic assignment is while there are queues enough at switch 1."""
    enough = data.filter(pl.col("x") + GROUP_1 <= QUEUES)
    means = {how: enough.filter(pl.col("series") == how)["y"].to_numpy().mean() for how in reversed(ASSIGNMENTS)}
    worst = data.pivot("series", index="x", values="y").filter(pl.col("dynamic") >= pl.col("single"))
    dynamic = enough.filter(pl.col("series") == "dynamic")
    steady, within_sd = (dynamic["sd"] / dynamic["y"]).to_numpy().max(), dynamic["sd"].to_numpy().max()
    scattered = np.median(enough.filter(pl.col("series") == "stochastic")["sd"].to_numpy())
    beyond = data.filter((pl.col("series") == "dynamic") & (pl.col("x") + GROUP_1 > QUEUES))["sd"].to_numpy().max()
    return {
        "order": means,
        "stochastic": means["single"] / means["stochastic"],
        "never-worse": len(worst),
        "steady": steady,
        "scattered": scattered / within_sd,
        "beyond": beyond / within_sd,
    }


def plot(data: pl.DataFrame) -> Any:
    """Mean and standard deviation; right of the bar there are more flows than queues at switch 1."""
    made, panel = figure(width=COLUMN, height=2.6)
    for shift, (how, (colour, dash, marker)) in zip((-0.15, 0.15, 0, 0.3), LOOKS.items()):
        curve = data.filter(pl.col("series") == how).sort("x")
        panel.errorbar(
            curve["x"] + shift,
            curve["y"] / 1e3,
            curve["sd"] / 1e3,
            color=colour,
            ls=dash,
            marker=marker,
            capsize=2.5,
            elinewidth=0.9,
            label=how,
        )
    panel.axvline(QUEUES - GROUP_1 + 0.5, color=BLACK, lw=0.9, ls=":")
    panel.text(QUEUES - GROUP_1 + 0.3, 4.55, "16 flows at\nswitch 1", ha="right", va="top", fontsize=7.5)
    panel.set(xlabel="Group-2 flows", ylabel="FCT of group 1 (ms)", xlim=(3, 21), ylim=(0, 4.7))
    panel.set_xticks(range(4, 21, 4))
    legend_above(made, panel, columns=2, title="BFC with queue assignment")
    return made
