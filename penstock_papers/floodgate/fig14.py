"""Floodgate (CoNEXT 2021), figure 14: the largest buffer use at every hop, by the number of ToRs, under one incast.

Section 6.2: all hosts but the destination send one flow of 30 to 40 packets to it at the same time. A ToR has 16 hosts and is
connected to the same 4 cores; so with their number the flows grow from 79 to 639.
"""

import math
from typing import Any

import polars as pl

from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import MORE, WORDS, Differs
from penstock_papers.floodgate import _setup as setup
from penstock_papers.floodgate._setup import DCQCN, FLOODGATE, PER_RACK
from penstock_papers.sentences import Numbers, within
from penstock_papers.style import PAGE, figure, legend_above, lettered

TITLE = "Buffers by the number of ToRs under one incast of all hosts"
PAPER = "Floodgate, CoNEXT 2021, section 6.2, figure 14"
TORS = {"quick": (5, 10, 20), "paper": (5, 10, 15, 20, 25, 30, 35, 40)}
SCHEMES = (DCQCN, FLOODGATE)
SEEDS = setup.SEEDS
DIFFERS: dict[str, Differs] = {
    "floodgate-core": Differs(
        "every ToR sends a window of 590 KB at once, before a credit could be delayed", "floodgate-fig14", expected=(9, 16)
    ),
}
REACHES = "When the number of ToRs reaches 20, PFC is triggered"
CLAIMS = (
    within(
        "dcqcn-linear",
        "DCQCN, ToR-Down: 10 ToRs / 5",
        "at a rate proportional to the number of flows",
        1.6,
        2.4,
        quick=True,
        why="159 flows against 79 are 2.01, and a fifth either way",
    ),
    within(
        "dcqcn-pfc",
        "DCQCN: ToRs from which PFC is triggered, of {}",
        REACHES,
        20,
        20,
        why="the paper's number, which is one of those run",
    ),
    within(
        "dcqcn-maximum",
        "DCQCN, ToR-Down: {} ToRs / 20",
        f"{REACHES} and the buffer occupancy reaches its maximum value",
        *WORDS["similar"],
        why='the same maximum, in the band of "similar"',
    ),
    within(
        "floodgate-pfc",
        "Floodgate: time held by PFC (us)",
        "DCQCN triggers PFC while Floodgate does not",
        0,
        0,
        why="the paper has none",
    ),
    *(
        within(
            f"floodgate-{hop.lower()}",
            f"Floodgate, {hop}: {{}} ToRs / 5",
            "The buffer occupancy of Floodgate remains stable when the number of ToR increases",
            0.5,
            2,
            why="from 5 ToRs to 40, eight times the flows, a factor of two either way is stable",
        )
        for hop in ("ToR-Down", "Core")
    ),
    within(
        "gain",
        "ToR-Down, {} ToRs: DCQCN / Floodgate",
        "Floodgate is more robust to handle large-scale topology",
        2,
        quick=True,
        why=MORE,
    ),
)


def specs(scale: str) -> dict[str, Spec]:
    """A network for each number of ToRs."""
    return {str(tors): spec(tors) for tors in TORS[scale]}


def spec(tors: int) -> Spec:
    """All hosts send to host 0."""
    hosts = tors * PER_RACK
    one = {**setup.incast([0], hosts - 1), "every": "1us", "pairs": "any", "replace": False}
    traffic = {key: value for key, value in one.items() if not key.startswith("load")}
    return setup.spec(SCHEMES, [traffic], "1us", {**setup.FABRIC, "hosts": hosts, "tors": tors})


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """Panels of the hops: x ToRs, y MB; "pfc": y us that any port was paused."""
    parts = []
    for tors in TORS[scale]:
        for scheme in SCHEMES:
            label = f"{tors}/{scheme.legend}"
            parts += [setup.rows(hop, scheme.legend, [tors], [most]) for hop, most in setup.hop_buffers(runs, label).items()]
            parts.append(setup.rows("pfc", scheme.legend, [tors], [sum(setup.pfc_us(runs, label).values())]))
    return pl.concat(parts)


def curve(data: pl.DataFrame, panel: str, series: str) -> dict[int, float]:
    """MB (or us) by number of ToRs."""
    kept = data.filter((pl.col("panel") == panel) & (pl.col("series") == series)).sort("x")
    return {int(x): y for x, y in kept.select("x", "y").iter_rows()}


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """DCQCN's buffer at the last hop grows with the flows until PFC pauses; Floodgate's do not grow."""
    last, held = curve(data, "ToR-Down", DCQCN.legend), curve(data, "pfc", DCQCN.legend)
    down, core = (curve(data, hop, FLOODGATE.legend) for hop in ("ToR-Down", "Core"))
    most = max(last)
    first = min((tors for tors, us in held.items() if us > 0), default=math.nan)
    return {
        "dcqcn-linear": last[10] / last[5],
        "dcqcn-pfc": (first, ", ".join(map(str, held))),
        "dcqcn-maximum": (last[most] / last[20], str(most)),
        "floodgate-pfc": max(curve(data, "pfc", FLOODGATE.legend).values()),
        "floodgate-tor-down": (down[most] / down[5], str(most)),
        "floodgate-core": (core[most] / core[5], str(most)),
        "gain": (last[most] / down[most], str(most)),
    }


def plot(data: pl.DataFrame) -> Any:
    """A panel per hop."""
    made, panels = figure(1, 3, width=PAGE, height=2.4)
    for axes, hop in zip(panels, ("ToR-Up", "Core", "ToR-Down")):
        for scheme, dash in zip(SCHEMES, ("-", "--")):
            line = curve(data, hop, scheme.legend)
            axes.plot(list(line), list(line.values()), **{**scheme.style, "linestyle": dash}, label=scheme.legend)
        axes.set(xlabel="ToRs", ylabel="Port buffer (MB)", xlim=(0, None), ylim=(0, None))
    lettered(panels, ("ToR-Up", "Core", "ToR-Down"))
    legend_above(made, panels[0], columns=2)
    return made
