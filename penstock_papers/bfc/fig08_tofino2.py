"""BFC (NSDI 2022), figure 8 on the hardware model: congestion spreading by how flows are assigned to queues.

The set-up of bfc/fig08 with the limits of section 4 (docs/schemes.md, bfc_tofino2), which the switch had that the figure was
measured on: each ingress pipeline assigns queues by what it knew of them at the last update, from a starting point of its own.
All senders of a group have a port each at switch 1, so that its new flows are spread over the pipelines. Beside it, ours, is
dynamic assignment on the same switch without limits.

The claims on state, ours, are what sections 3.3 and 6.2.1 say of its size, by the formulas of `_tofino2`.
"""

from dataclasses import replace
from typing import Any

import polars as pl

from penstock_papers.bfc import fig08
from penstock_papers.bfc._tofino2 import IDEAL, TOFINO2, state
from penstock_papers.bfc.fig08 import ASSIGNMENTS, GROUP_1, GROUP_2, LOOKS, QUEUES
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import OURS, Differs
from penstock_papers.sentences import Numbers, about, within
from penstock_papers.style import BLACK, COLUMN, figure, legend_above

TITLE = "Congestion spreading: completion time of group 1 by queue assignment, with the limits of Tofino2"
PAPER = "BFC, NSDI 2022, sections 4 and 6.1, figure 8"
BESIDE = "dynamic, without limits"
SERIES = (*ASSIGNMENTS, BESIDE)
DIFFERS: dict[str, Differs] = {}


CLAIMS = (
    *(replace(row, kind=OURS) for row in fig08.CLAIMS),
    within(
        "limits",
        "mean FCT of group 1 while flows <= queues: dynamic with the limits / without",
        "group 1 flows consistently incur no collisions",
        0.95,
        1.05,
        why="without collisions the limits move only when queues are paused and resumed: a twentieth",
        kind=OURS,
        quick=True,
    ),
    within(
        "entries",
        "entries of Tofino2's flow table",
        "Tofino2 has 4096 queues in aggregate, and hence the size of the flow table is 409,600 entries",
        409_600,
        409_600,
        why="exact",
        kind=OURS,
        quick=True,
    ),
    about(
        "memory",
        "flow table of a switch of the simulations, KB",
        "our flow table has 76K entries. The flow table takes 400 KB of memory",
        400,
        kind=OURS,
        quick=True,
    ),
    within(
        "counters",
        "pause counters of a switch with 32 ports",
        "each upstream switch has 128 queues per egress port, then for a 32-port downstream switch [...] 4096 entries",
        4096,
        4096,
        why="exact",
        kind=OURS,
        quick=True,
    ),
)


def specs(scale: str, seed: int = 1) -> dict[str, Spec]:
    """The flows of bfc/fig08."""
    schemes = [
        *({**TOFINO2, "queues": QUEUES, "assignment": how, "label": how} for how in ASSIGNMENTS),
        {**IDEAL, "queues": QUEUES, "label": "beside"},
    ]
    return {name: {**spec, "scheme": schemes} for name, spec in fig08.specs(scale, seed).items()}


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: number of group-2 flows, y: mean completion time of group 1 in us, `sd`: standard deviation over the runs."""
    rows = []
    for label, series in zip((*ASSIGNMENTS, "beside"), SERIES):
        for n in GROUP_2[scale]:
            taken = fig08.times(runs, n, label)
            rows.append((series, n, float(taken.mean()), float(taken.std())))
    return pl.DataFrame(rows, schema=["series", "x", "y", "sd"], orient="row")


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Those of bfc/fig08, which judges them, here (ours); what the limits cost while queues suffice; state."""
    means = data.filter(pl.col("x") + GROUP_1 <= QUEUES).group_by("series").agg(pl.col("y").mean())
    mean = dict(means.iter_rows())
    simulated, tofino2 = state(ports=24, queues=32), state(ports=32, queues=128)
    return {
        **fig08.numbers(data, scale),
        "limits": mean["dynamic"] / mean[BESIDE],
        "entries": tofino2["entries"],
        "memory": simulated["entry bytes"] / 1e3,
        "counters": tofino2["counters"],
    }


def plot(data: pl.DataFrame) -> Any:
    """Mean and standard deviation; right of the bar there are more flows than queues at switch 1."""
    made, panel = figure(width=COLUMN, height=2.6)
    for how, shift, (colour, dash, marker) in zip(SERIES, (-0.15, 0.15, 0, 0.3), LOOKS.values()):
        curve = data.filter(pl.col("series") == how).sort("x").with_columns(pl.col("x") + shift, pl.col("y", "sd") / 1e3)
        looks = {"color": colour, "ls": dash, "marker": marker, "capsize": 2.5, "elinewidth": 0.9}
        panel.errorbar(curve["x"], curve["y"], curve["sd"], label=how, **looks)
    panel.axvline(QUEUES - GROUP_1 + 0.5, color=BLACK, lw=0.9, ls=":")
    panel.text(QUEUES - GROUP_1 + 0.3, 4.55, "16 flows at\nswitch 1", ha="right", va="top", fontsize=7.5)
    panel.set(xlabel="Group-2 flows", ylabel="FCT of group 1 (ms)", xlim=(3, 21), ylim=(0, 4.7), xticks=range(4, 21, 4))
    legend_above(made, panel, columns=2, title="BFC on Tofino2 with queue assignment")
    return made
