"""The effect of each difference between Floodgate's paper and its authors' simulator. Not a figure of the paper.

Incast mix of Web Server (`_setup`), here with the text's alpha of PFC, 2, and its buffers, 20 MB. One by one: thre_credit of
1.5 BDP instead of 10, a window of 1.5 BDP_nextHop + C_out T instead of 1, a credit frame whenever an ingress owes 10240 B
instead of every T only, entries of 22 B instead of 8, no windows downwards in the middle of three tiers, PFC's alpha of 0.25 or
1 instead of 2; and all that belongs to Floodgate at once (preset `ns3`). Windows downwards exist in a fat tree only, so it is
shown as well, with one receiver in turn of each edge switch. The authors' DCTCP marks at DCQCN's thresholds (400 to 1600 KB, at
most 20 %) and has a gain of 1/256; DCTCP's own here is that of the HPCC paper: 300 KB, 1/16.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from penstock_papers import frames
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import OURS, Differs
from penstock_papers.floodgate import _hops as hops
from penstock_papers.floodgate import _setup as setup
from penstock_papers.floodgate._setup import FABRIC, FAT_TREE, Scheme, rows, value
from penstock_papers.sentences import Numbers, ascending, holds, within
from penstock_papers.style import GREEN, ORANGE, PAGE, PURPLE, SKY, family, figure

TITLE = "Paper against authors' code, one difference at a time"
PAPER = "Floodgate, CoNEXT 2021 (not a figure of the paper)"
DCQCN, FLOODGATE = (replace(one, table={**one.table, "pfc": setup.PFC_TEXT}) for one in (setup.DCQCN, setup.FLOODGATE))
NS3 = Scheme("all of the authors' code", {**FLOODGATE.table, "name": f"{FLOODGATE.table['name']}:ns3"})
NO_DOWN = hops.named(FLOODGATE, "no windows down", down=False)
CREDIT_BYTES = hops.named(FLOODGATE, "credits at 10240 B", credit_bytes="10240B")
ENTRY = hops.named(FLOODGATE, "entries of 22 B", entry=22)
FLOODGATES = (
    FLOODGATE,
    hops.named(FLOODGATE, "thre_credit 1.5", thre_credit=1.5),
    hops.named(FLOODGATE, "m 1.5", m=1.5),
    CREDIT_BYTES,
    ENTRY,
    NO_DOWN,
    NS3,
)


def with_alpha(one: Scheme, alpha: float) -> Scheme:
    """The same with another share of the buffer for an ingress."""
    return Scheme(f"{one.legend}, alpha {alpha:g}", {**one.table, "pfc": {"alpha": alpha}})


ALPHAS = {alpha: (with_alpha(DCQCN, alpha), with_alpha(FLOODGATE, alpha)) for alpha in (1, 0.25)}
DCTCPS = {"DCTCP": "dctcp:ns3", "DCTCP, DCQCN's marks": "dctcp:floodgate"}
OF_DCTCP = {
    legend: tuple(
        Scheme(f"{legend}{more}", {"name": f"{name}{part}", "pfc": setup.PFC_TEXT})
        for more, part in (("", ""), (", Floodgate", "+floodgate"))
    )
    for legend, name in DCTCPS.items()
}
IN_RACKS = (DCQCN, *FLOODGATES, *(one for pair in (*ALPHAS.values(), *OF_DCTCP.values()) for one in pair))
IN_TREE = (DCQCN, FLOODGATE, NO_DOWN, NS3)
SHOWN = {"leaf-spine": IN_RACKS, "fat tree": IN_TREE}
TREE_RECEIVERS = list(range(0, 128, 4))
PANELS = {
    "average": "Average FCT (us)",
    "99th percentile": "p99 FCT (us)",
    "buffer": "Buffer (MB)",
    "PFC": "PFC (ms)",
    "credits": "Credits (%)",
}
DIFFERS: dict[str, Differs] = {}
COMPARED = {"leaf-spine": FLOODGATES, "fat tree": IN_TREE[1:]}
PAIRS = {**{f"alpha {alpha:g}": pair for alpha, pair in ALPHAS.items()}, **OF_DCTCP}
CLAIMS = (
    *(
        holds(
            f"{fabric}-{panel[:3]}",
            f"{fabric}, {PANELS[panel]}: every variant of Floodgate below DCQCN ({{}})",
            "better",
            "all below",
            quick=False,
            kind=OURS,
        )
        for fabric in COMPARED
        for panel in ("average", "99th percentile")
    ),
    within(
        "spread",
        "average FCT of the variants: largest over smallest",
        "-",
        1,
        1.1,
        kind=OURS,
        why="a difference that matters is one of more than a tenth",
    ),
    *(
        ascending(
            f"better-{name}", f"average FCT (us), {name}: Floodgate below what it is added to", "better", quick=False, kind=OURS
        )
        for name in PAIRS
    ),
    ascending("credits", "credits (%)", "-", kind=OURS),
    ascending("pfc", "time paused by PFC under DCQCN (ms), by alpha", "-", quick=False, kind=OURS),
    holds("no-pfc", "time paused by PFC with Floodgate (ms), alpha 2", "none", "0", kind=OURS),
)


def specs(scale: str) -> dict[str, Spec]:
    """The mix on both topologies."""
    tree = [setup.poisson("web_server", TREE_RECEIVERS), setup.incast(TREE_RECEIVERS)]
    duration = setup.DURATION[scale]["web_server"]
    racks, in_tree = ({**network, "buffer": "20MB"} for network in (FABRIC, FAT_TREE))
    return {
        "leaf-spine": setup.spec(IN_RACKS, [setup.poisson("web_server"), setup.incast()], duration, racks, port_series=True),
        "fat tree": setup.spec(IN_TREE, tree, duration, in_tree, port_series=True),
    }


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: 0; y by panel; traffic: the topology."""
    parts = []
    for fabric, schemes in SHOWN.items():
        for one in schemes:
            label = setup.of(runs, fabric, one)
            gbps = 400 if fabric == "leaf-spine" else 100
            numbers = (
                *setup.fct(runs, label),
                setup.max_buffer_mb(runs, label),
                sum(setup.pfc_us(runs, label).values()) / 1000,
                hops.overhead(runs, label, gbps)["credits"],
            )
            parts += [rows(panel, one.legend, [0], [number], fabric) for panel, number in zip(PANELS, numbers)]
    return pl.concat(parts)


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """No difference reverses the result; the cost and effect of each."""

    def of(panel: str, schemes: Any, fabric: str = "leaf-spine") -> dict[str, float]:
        return {one.legend: value(data, panel, one.legend, fabric) for one in schemes}

    found: Numbers = {}
    for fabric, kinds in COMPARED.items():
        for panel in ("average", "99th percentile"):
            alone, others = value(data, panel, DCQCN.legend, fabric), of(panel, kinds, fabric)
            found[f"{fabric}-{panel[:3]}"] = (max(others.values()) < alone, frames.text(others), f"{alone:.3g}")
    spread, paused = of("average", FLOODGATES), of("PFC", FLOODGATES)
    return {
        **found,
        "spread": max(spread.values()) / min(spread.values()),
        **{f"better-{name}": of("average", reversed(pair)) for name, pair in PAIRS.items()},
        "credits": of("credits", (FLOODGATE, ENTRY, CREDIT_BYTES)),
        "pfc": {
            f"{DCQCN.legend}, alpha 2": value(data, "PFC", DCQCN.legend, "leaf-spine"),
            **of("PFC", (alone for alone, _ in ALPHAS.values())),
        },
        "no-pfc": (max(paused.values()) == 0, frames.text(paused)),
    }


def plot(data: pl.DataFrame) -> Any:
    """A bar for each variant; orange is without Floodgate."""
    counts = [len(schemes) for schemes in SHOWN.values()]
    made, grid = figure(2, len(PANELS), width=PAGE, height=4.2, sharey="row", height_ratios=counts)
    for row, (fabric, schemes) in zip(grid, SHOWN.items()):
        y = np.arange(len(schemes))[::-1]
        for axes, (panel, label) in zip(row, PANELS.items()):
            numbers = [value(data, panel, one.legend, fabric) for one in schemes]
            axes.barh(y, numbers, 0.72, color=[_colour(one) for one in schemes])
            for at, number in zip(y, numbers):
                text = f"{number:.{3 if number >= 10 else 2}g}" if number < 1000 else f"{number:.0f}"
                axes.text(number + max(numbers) * 0.03, at, text, va="center", fontsize=6)
            axes.grid(visible=False, axis="y")
            axes.set(xlabel=label if fabric == "fat tree" else "", xlim=(0, 1.35 * max(numbers)))
        row[0].set_yticks(y, [one.legend.replace("DCQCN+", "") for one in schemes], fontsize=6.5)
        row[2].set_title(fabric)
        row[0].set_ylim(-0.6, len(schemes) - 0.4)
    return made


def _colour(one: Scheme) -> str:
    """By congestion control, and whether Floodgate is on."""
    on = family(one.table["name"]) == "floodgate"
    if "dctcp" in one.table["name"]:
        return SKY if on else PURPLE
    return GREEN if on else ORANGE
