"""Floodgate (CoNEXT 2021), table 2: PFC pause time of ports in the incast mix, DCQCN.

Section 6.1, see `_setup`: the times that egress ports were paused, summed over the hosts, the ToRs and the core switches.
Web Server also with the text's alpha of PFC, 2, (ours).
"""

from typing import Any

import numpy as np
import polars as pl

from penstock_papers import frames
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import Differs
from penstock_papers.floodgate import _mix as mix
from penstock_papers.floodgate import _setup as setup
from penstock_papers.floodgate._mix import TEXT, TRIO
from penstock_papers.floodgate._setup import DCQCN, WORKLOADS, value
from penstock_papers.sentences import Numbers, Row, about, holds, within
from penstock_papers.style import BLACK, COLUMN, ORANGE, PURPLE, SKY, figure, legend_above, log_axis

TITLE = "Time that PFC held ports in the incast mix"
PAPER = "Floodgate, CoNEXT 2021, section 6.1, table 2"
TIERS = ("Host", "ToR", "Core")
PRINTED = {
    "memcached": (0, 0, 6253),
    "web_server": (10594, 3999.5, 6578.9),
    "hadoop": (0, 0, 6508.6),
    "web_search": (0, 0, 37152.16),
}
SEEDS = setup.SEEDS
DIFFERS = {
    "web_search-core": Differs(
        "14 incasts in our 80 ms, of 5.3 to 6.4 ms each; the paper's figure is that of six",
        "floodgate-alpha",
        expected=(74_500, 90_000),
    ),
}


def _cell(workload: str, tier: str, paper: float) -> Row:
    id, what = f"{workload}-{tier.lower()}", f"DCQCN, {WORKLOADS[workload]}, {tier} (us)"
    return about(id, what, f"{paper:g}", paper) if paper else within(id, what, "0", 0, 0, why="the paper's number")


CLAIMS = (
    *(
        holds(
            f"none-{scheme.legend[6:]}",
            f"{scheme.legend}: time that PFC held ports (us)",
            "DCQCN triggers PFC while Floodgate does not",
            "0 in every workload",
        )
        for scheme in TRIO[1:]
    ),
    *(_cell(workload, tier, paper) for workload, cells in PRINTED.items() for tier, paper in zip(TIERS, cells)),
    holds(
        "triggered",
        "DCQCN: time that core switches were held (us)",
        "Under all four workloads, PFC is triggered by incast",
        "all > 0",
    ),
)


def specs(scale: str) -> dict[str, Spec]:
    """The incast mix of every workload."""
    return {**mix.specs(scale), "web_server": setup.mix((*TRIO, TEXT), "web_server", scale)}


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: 0; y: us; a row per workload, scheme and kind of node."""
    parts = []
    for workload in WORKLOADS:
        for scheme in (*TRIO, TEXT) if workload == "web_server" else TRIO:
            held = setup.pfc_us(runs, setup.of(runs, workload, scheme))
            parts += [setup.rows(tier, scheme.legend, [0], [us], workload) for tier, us in held.items()]
    return pl.concat(parts)


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """No pauses with Floodgate; without it, the cells of the table."""
    found: Numbers = {}
    for scheme in TRIO[1:]:
        held = {name: float(sum(value(data, tier, scheme.legend, w) for tier in TIERS)) for w, name in WORKLOADS.items()}
        found[f"none-{scheme.legend[6:]}"] = (max(held.values()) == 0, frames.text(held))
    cores = {name: value(data, "Core", DCQCN.legend, workload) for workload, name in WORKLOADS.items()}
    return {
        **found,
        **{f"{w}-{tier.lower()}": value(data, tier, DCQCN.legend, w) for w in PRINTED for tier in TIERS},
        "triggered": (min(cores.values()) > 0, frames.text(cores)),
    }


def plot(data: pl.DataFrame) -> Any:
    """The cells of the table as bars, what the paper printed as marks."""
    made, axes = figure(width=COLUMN, height=2.4)
    groups = [(DCQCN, workload) for workload in WORKLOADS] + [(TEXT, "web_server")]
    heights = {tier: [value(data, tier, scheme.legend, workload) for scheme, workload in groups] for tier in TIERS}
    names = [WORKLOADS[workload].replace(" ", "\n") for _, workload in groups]
    mix.bars(axes, [*names[:-1], "Web Server,\n$\\alpha$ = 2"], heights, (SKY, PURPLE, ORANGE))
    for i, tier in enumerate(TIERS):
        printed = [PRINTED[workload][i] or np.nan for _, workload in groups]
        axes.plot(
            np.arange(5) + 0.82 / 3 * (i - 1),
            printed,
            "_",
            color=BLACK,
            ms=10,
            mew=1.6,
            label="paper" if tier == "Core" else None,
        )
    log_axis(axes.yaxis)
    axes.set(ylim=(1, 3e5), ylabel="time held by PFC (us)")
    legend_above(made, axes, columns=4)
    return made
