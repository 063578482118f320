"""Beyond the papers: a link fails, and everybody knows, or nobody does: under switches that push back and under Ultra Ethernet's
control at the ends.  All claims are our own.

The fabrics and schemes of beyond/ultra_ethernet, and NSCC with REPS: 128 hosts, links of 100 Gbit/s and 1 us, a permutation of
8 MB.  The link tor0 - spine0 fails at 0.2 ms, and works again at 1.2 ms:

* rerouted: all switches avoid it at once, and what waits for it waits until it is back
* silent: no route changes, and what is sent over it is lost, in both directions: data, ACKs, pauses and credits.  The ends have
  to find out which paths are bad, for which MRC and REPS were made

Scale quick has 1 MB, and the link is down from 20 to 320 us.  Completion times are by the receiver's clock.
"""

from typing import Any

import numpy as np
import polars as pl

from penstock_papers import frames
from penstock_papers.beyond._ultra_ethernet import FABRICS, NAMES, ONE_LINK, RIVALS, Rival, label, measured, spec_of
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import OURS, Differs
from penstock_papers.frames import Scheme
from penstock_papers.sentences import Numbers, holds, within
from penstock_papers.style import PAGE, figure

TITLE = "A link that fails silently: per-hop backpressure beside Ultra Ethernet"
PAPER = "Beyond the papers: switches that push back, control at the ends, or both, when a link fails and nobody is told"
SEEDS = {"quick": 3, "paper": 10}
DIFFERS: dict[str, Differs] = {}
KINDS = {"failing": "rerouted", "silent": "silent"}
NSCC = next(rival for rival in RIVALS if rival.legend == "NSCC")
ALL = (
    NSCC,
    Rival(Scheme("NSCC + REPS", {"name": "uec:nscc+reps"}, 4, run="nscc-reps"), True, NSCC.switches, NSCC.hosts),
    *(rival for rival in RIVALS if rival is not NSCC),
)
MEASURES = {"p50": "p50 (us)", "p99": "p99 (us)", "max": "slowest (us)", "again": "sent again (%)"}
BEFORE = "written before any run"
QUESTIONS = {  # id: traffic, ours over theirs, p99 in the non-blocking fabric, band, why
    "mrc": ("silent", "BFC + spray", "MRC", 2.0, None, "MRC takes a path out at its first loss, go-back-N waits for timeouts"),
    "gaps": ("silent", "NSCC", "MRC", 1.2, None, "where no gap tells of a loss it takes a timeout of 100 us"),
    "reps": ("silent", "NSCC + REPS", "NSCC", None, 1.0, "REPS uses again what has come back, and nothing does from a bad path"),
    "rest": ("rerouted", "MRC", "NSCC", 0.5, 1.25, "nobody needs to find what the switches avoid"),
}
CLAIMS = (
    holds("finish", "every cell: all flows finish once the link is back", "no flow waits for ever", "all finish", kind=OURS),
    holds(
        "worse",
        "non-blocking: p99 with a silent failure, over that of one that is rerouted",
        "who is told loses less",
        "at least 0.9 for every scheme",
        kind=OURS,
    ),
    *(
        within(
            id,
            f"non-blocking, {kind}: p99 of {one} / {other}",
            "see the band",
            low,
            high,
            why=f"{why}; {BEFORE}",
            kind=OURS,
        )
        for id, (kind, one, other, low, high, why) in QUESTIONS.items()
    ),
)


def cells() -> list[tuple[str, str, Rival]]:
    """Fabric, traffic and scheme of each run."""
    every = [(fabric, traffic, rival) for fabric in FABRICS for traffic in KINDS for rival in ALL]
    return [cell for cell in every if cell[0] != "rails" or cell[2].scheme.table["name"] != ONE_LINK]


def specs(scale: str) -> dict[str, Spec]:
    """One for each cell."""
    return {label(*cell): spec_of(*cell, scale) for cell in cells()}


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """y: a number of MEASURES, `unfinished` or `drops`, of each scheme (series), traffic and fabric."""
    parts = []
    for fabric, traffic, rival in cells():
        found = measured(runs, label(fabric, traffic, rival), traffic)
        for panel in (*MEASURES, "unfinished", "drops"):
            parts.append(frames.rows(panel, rival.legend, [0], [found[panel]], traffic=KINDS[traffic], fabric=fabric))
    return pl.concat(parts)


def of(data: pl.DataFrame, fabric: str, kind: str, panel: str) -> dict[str, float]:
    """A measure by scheme; NaN where there is none."""
    found = dict(frames.chosen(data, fabric=fabric, traffic=kind, panel=panel).select("series", "y").iter_rows())
    return {rival.legend: float("nan") if found.get(rival.legend) is None else found[rival.legend] for rival in ALL}


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Laws, and the answers to the questions."""
    unfinished = {
        f"{NAMES[fabric]}, {kind}, {name}": number
        for fabric in FABRICS
        for kind in KINDS.values()
        for name, number in of(data, fabric, kind, "unfinished").items()
        if number > 0
    }
    tails = {kind: of(data, "full", kind, "p99") for kind in KINDS.values()}
    better = {
        name: tails["silent"][name] / told for name, told in tails["rerouted"].items() if tails["silent"][name] < 0.9 * told
    }
    return {
        "finish": (not unfinished, frames.text(unfinished) or "all do"),
        "worse": (not better, frames.text(better) or "all are"),
        **{id: tails[kind][one] / tails[kind][other] for id, (kind, one, other, *_) in QUESTIONS.items()},
    }


def plot(data: pl.DataFrame) -> Any:
    """p99 of every scheme in each fabric: rerouted, and silent."""
    made, grid = figure(1, len(FABRICS), width=PAGE, height=3.4, sharey=True)
    places = np.arange(len(ALL))
    for axes, fabric in zip(grid, FABRICS):
        for kind, marker in zip(KINDS.values(), ("o", "s")):
            tails = list(of(data, fabric, kind, "p99").values())
            colours = [rival.scheme.style["color"] for rival in ALL]
            faces = colours if kind == "silent" else "white"
            axes.scatter(tails, places, s=18, marker=marker, edgecolors=colours, facecolors=faces, label=kind, zorder=3)
        axes.set_yticks(places, [rival.legend for rival in ALL], size=7)
        axes.set_xscale("log")
        axes.set_xlabel("p99 (us)")
        axes.set_title(NAMES[fabric], size=8)
    grid[0].invert_yaxis()
    grid[-1].legend(loc="lower right", fontsize=7)
    return made
