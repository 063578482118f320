"""Beyond the papers: switches that push back beside Ultra Ethernet's control at the ends, on one fabric. All claims are our own.

Fabrics, 128 hosts each, links of 100 Gbit/s and 1 us, 12 MB a switch:

* non-blocking: 8 ToRs of 16 hosts, 16 spines
* 4:1: the same with 4 spines
* rails, 8 planes: 16 servers of 8 GPUs; a NIC has a link in each of 8 planes, GPU i of all servers is on leaf i of each plane,
  4 spines a plane, uplinks of 400 Gbit/s

Traffics, the same flows for all schemes; completion times are by the receiver's clock, unfinished flows count with their age:

* permutation: 2 MB from every host to one other, at once
* incasts of 8: 16 receivers, each of 8 senders of 500 KB, 1 us apart
* all-to-all: 64 KB from every host to every other, at once
* RPCs and an incast: the Google sizes (BFC) at 40 % of the hosts' links, and 60 flows of 100 KB to one host every 300 us, which
  are not judged
* slow receivers: a host in each rack takes 10 Gbit/s and is sent 400 KB by 8 senders in turn every 50 us, which are not judged;
  the Facebook sizes (BFC) at 30 % of the links of the others
* a link fails: permutation of 8 MB; the link tor0 - spine0 is down from 0.2 to 1.2 ms
* links lose 0.1 % of the frames in each direction: the permutation; and the same with link-level retry (LLR)
* permutation of 200 KB of which every packet is looked at: which have been overtaken when they leave the last switch

Packets have 4086 bytes of payload and 64 of headers, as in uet-htsim, under every scheme.  Parameters are the defaults;
timeouts are 500 us, those of Ultra Ethernet, MRC and IRN their own, 100 us.  On rails the packets of schemes that allow it take
turns of the planes; all others have a plane for each flow, since NICs obey pauses by flow there, or do not reorder.  NDP paces
what one link brings, and is not on rails.

Scale quick has a quarter of the bytes.  docs/ultra-ethernet.md is made by tools/ultra_ethernet.py.
"""

from typing import Any

import numpy as np
import polars as pl

from penstock_papers import frames
from penstock_papers.beyond._ultra_ethernet import FABRICS, NAMES, RIVALS, TRAFFICS
from penstock_papers.beyond._ultra_ethernet import measure as measure
from penstock_papers.beyond._ultra_ethernet import specs as specs
from penstock_papers.claims import OURS, Differs
from penstock_papers.sentences import Numbers, holds, within
from penstock_papers.style import PAGE, figure

TITLE = "Per-hop backpressure beside Ultra Ethernet"
PAPER = "Beyond the papers: switches that push back, control at the ends, or both"
SEEDS = {"quick": 3, "paper": 10}
DIFFERS: dict[str, Differs] = {}

ENDS = ("NSCC", "RCCC", "NSCC + RCCC", "MRC")
LOSSLESS = (
    "BFC",
    "BFC + spray",
    "BFC + spray, 128Q",
    "BFC + REPS",
    "DCQCN + Floodgate",
    "HPCC + PFC",
    "DCQCN + PFC",
    "DCTCP + spray",
)
CALM = ("permutation", "incasts", "all_to_all", "rpc", "slow")  # nothing fails, nothing is lost
TIMED = tuple(traffic for traffic in TRAFFICS if traffic != "order")
AS_GOOD = "as good: within a quarter"
BEFORE = "written after runs at scale quick, before any at scale paper"

QUESTIONS = {  # id: the question, traffics, ours over theirs, band, why
    "ends-full": ("full", CALM, "BFC + spray", "NSCC + RCCC", 0.8, 1.25, AS_GOOD),
    "ends-core": ("core", CALM, "BFC + spray", "NSCC + RCCC", 0.8, 1.25, AS_GOOD),
    "queues": (
        "full",
        ("rpc",),
        "BFC + spray",
        "BFC + spray, 128Q",
        2.0,
        None,
        "60 flows of an incast are at every spine, which has 32 queues",
    ),
    "credit-incasts": ("full", ("incasts",), "RCCC", "NSCC", None, 1.0, "credit is given at the rate of the receiver's link"),
    "paths": ("full", ("permutation",), "BFC", "BFC + spray", 2.0, None, "flows that share a link by their hash get half of it"),
    "retry": (
        "full",
        ("retry",),
        "BFC + spray",
        "NSCC + RCCC",
        0.8,
        1.5,
        "with LLR a lossy link is one that has a little jitter",
    ),
    "lossy": ("full", ("lossy",), "BFC + spray", "NSCC + RCCC", 1.5, None, "go-back-N waits for a timeout of 500 us"),
}


def _question(id: str) -> Any:
    fabric, traffics, one, other, low, high, why = QUESTIONS[id]
    where = ", ".join(TRAFFICS[traffic].lower() for traffic in traffics)
    what = f"{NAMES[fabric]}; {where}: p99 of {one} / {other}" + (", geometric mean" if len(traffics) > 1 else "")
    return within(id, what, AS_GOOD if why == AS_GOOD else why, low, high, why=f"{why}; {BEFORE}", kind=OURS)


CLAIMS = (
    holds("finish", "every cell: all flows finish", "no scheme may leave a flow behind", "all finish", kind=OURS),
    holds(
        "lossless",
        "schemes that pause, where nothing fails and no link loses: packets lost",
        "a lossless fabric loses nothing",
        "none",
        kind=OURS,
    ),
    holds(
        "repaired",
        "with LLR, every cell: packets lost",
        "links repair what they lose",
        "none, but where queues overflow",
        kind=OURS,
    ),
    *(_question(id) for id in QUESTIONS),
)


def of(data: pl.DataFrame, fabric: str, traffic: str, panel: str) -> dict[str, float]:
    """A measure by scheme; NaN where there is none."""
    chosen = frames.chosen(data, fabric=fabric, traffic=traffic, panel=panel)
    found = dict(chosen.select("series", "y").iter_rows())
    return {rival.legend: float("nan") if found.get(rival.legend) is None else found[rival.legend] for rival in RIVALS}


def ratio(data: pl.DataFrame, fabric: str, traffics: tuple[str, ...], one: str, other: str) -> float:
    """The geometric mean of p99 of one scheme over another's."""
    tails = [of(data, fabric, traffic, "p99") for traffic in traffics]
    return float(np.exp(np.mean([np.log(tail[one] / tail[other]) for tail in tails])))


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Laws, and the answers to the questions."""
    everywhere = [(fabric, traffic) for fabric in FABRICS for traffic in TRAFFICS]

    def some(panel: str, names: tuple[str, ...], where: list[tuple[str, str]]) -> dict[str, float]:
        """The cells in which a measure is not 0."""
        found = {(fabric, traffic): of(data, fabric, traffic, panel) for fabric, traffic in where}
        return {f"{NAMES[f]}, {TRAFFICS[t]}, {name}": n[name] for (f, t), n in found.items() for name in names if n[name] > 0}

    every = tuple(rival.legend for rival in RIVALS)
    unfinished = some("unfinished", every, everywhere)
    lost = some("drops", LOSSLESS, [(fabric, traffic) for fabric, traffic in everywhere if traffic in (*CALM, "order")])
    unrepaired = some("drops", LOSSLESS + ENDS, [(fabric, "retry") for fabric in FABRICS])
    return {
        "finish": (not unfinished, frames.text(unfinished) or "all do"),
        "lossless": (not lost, frames.text(lost) or "none"),
        "repaired": (not unrepaired, frames.text(unrepaired) or "none"),
        **{id: ratio(data, *QUESTIONS[id][:4]) for id in QUESTIONS},
    }


def plot(data: pl.DataFrame) -> Any:
    """p99 of every scheme and traffic in each fabric, coloured by its ratio to the best."""
    from matplotlib.colors import LogNorm

    made, grid = figure(1, len(FABRICS), width=PAGE, height=4.2, sharey=True)
    for axes, fabric in zip(grid, FABRICS):
        cells = np.array([list(of(data, fabric, traffic, "p99").values()) for traffic in TIMED]).T
        worse = np.maximum(cells / np.nanmin(cells, axis=0), 1)
        axes.imshow(worse, cmap="YlOrRd", norm=LogNorm(1, 20), aspect="auto")
        for (row, column), number in np.ndenumerate(cells):
            text = "" if np.isnan(number) else f"{number:.3g}" if number < 1000 else f"{number / 1000:.2g}k"
            axes.text(column, row, text, ha="center", va="center", size=5.5, color="white" if worse[row, column] > 9 else "black")
        axes.set_xticks(range(len(TIMED)), [TRAFFICS[traffic] for traffic in TIMED], rotation=40, ha="right", size=6.5)
        axes.set_yticks(range(len(RIVALS)), [rival.legend for rival in RIVALS], size=7)
        axes.tick_params(length=0)
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
        axes.set_title(f"{NAMES[fabric]}: p99 (us)", size=8)
    return made
