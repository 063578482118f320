"""Beyond the papers: a link dies for good, and all switches know, or nobody does: under switches that push back and under Ultra
Ethernet's control at the ends.  All claims are our own.

The fabrics and schemes of beyond/ultra_ethernet without BFC with 128 queues, and NSCC with REPS: 128 hosts, links of 100 Gbit/s
and 1 us, a permutation of 2 MB, three times with the same flows:

* calm: nothing fails
* told: the link tor0 - spine0 dies at 50 us, and what waits for it and is on it is lost; all switches avoid it from then on
* silent: it dies at the same time, and no route changes: what is sent over it is lost, in both directions: data, ACKs, pauses,
  credits.  The ends have to find out which paths are bad

The link stays dead, so a flow whose one path leads over it, or whose ACKs do, never ends under silent.  A run ends at 50 ms, a
hundred timeouts of 500 us; a flow that has not ended then is counted, with its age as completion time.

Scale quick has 1 MB, and the link dies at 20 us.  Completion times are by the receiver's clock.
"""

from typing import Any

import numpy as np
import polars as pl

from penstock_papers import frames
from penstock_papers.beyond._ultra_ethernet import FABRICS, NAMES, ONE_LINK, RIVALS, Rival, ends_of, label, measured
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import OURS, Differs
from penstock_papers.frames import Scheme
from penstock_papers.sentences import Numbers, Row, holds, within
from penstock_papers.style import PAGE, figure, legend_above

TITLE = "A link that dies silently: per-hop backpressure beside Ultra Ethernet"
PAPER = "Beyond the papers: switches that push back, control at the ends, or both, when a link dies and nobody is told"
SEEDS = {"quick": 3, "paper": 3}
DIFFERS: dict[str, Differs] = {}
CALM, TOLD, SILENT = KINDS = ("calm", "told", "silent")
BYTES = {"quick": "1MB", "paper": "2MB"}
DIES_US = {"quick": 20, "paper": 50}
END_MS, TIMEOUT_US = 50, 500
NSCC = next(rival for rival in RIVALS if rival.legend == "NSCC")
REPS = Rival(Scheme("NSCC + REPS", {"name": "uec:nscc+reps"}, 4, run="nscc-reps"), True, NSCC.switches, NSCC.hosts)
ALL = (NSCC, REPS, *(rival for rival in RIVALS if rival.legend not in ("NSCC", "BFC + spray, 128Q")))
MEASURES = {
    "unfinished": "not ended",
    "p50": "p50 (us)",
    "p99": "p99 (us)",
    "max": "slowest (us)",
    "again": "sent again (%)",
    "elsewhere": "lost elsewhere",
}
ENDS = ("NSCC", "NSCC + REPS", "RCCC", "NSCC + RCCC", "MRC")
BY_FLOW = ("BFC", "Pyrrha", "DCQCN + Floodgate", "HPCC + PFC", "DCQCN + PFC")  # a path for each flow, and one for its ACKs
PAUSING = (*BY_FLOW, "BFC + spray", "BFC + REPS", "DCTCP + spray")


# -- claims: written before any run


def _number(id: str, what: str, low: float | None, high: float | None, why: str) -> Row:
    return within(id, what, "see the band", low, high, why=f"{why}; written before any run", kind=OURS)


# 28 of the 128 flows, 14 each way, pass the uplinks of the rack.  A flow's data are on the dead link with 1 of `spines`, and the
# ACKs of the others of these flows, too: at 4:1 7 flows whose data are, and 5 whose ACKs are and whose window ends before they do
PASSING, SPINES = 28, 4
DATA_LOST = PASSING / SPINES
BOTH_LOST = PASSING * (1 - (1 - 1 / SPINES) ** 2)
CLAIMS = (
    holds("told", "told, every cell: all flows end", "no route leads over the link", "all end", kind=OURS),
    holds(
        "ends",
        f"silent, every fabric: all flows of {', '.join(ENDS)} end",
        "a packet that is lost is sent again over another path",
        "all end",
        kind=OURS,
    ),
    holds(
        "elsewhere",
        "told and silent: packets that schemes that pause lose elsewhere than at the dead link",
        "a dead link takes what waits for it, and nothing overflows",
        "none",
        kind=OURS,
    ),
    _number(
        "by-flow",
        "4:1, silent: flows that do not end, fewest of BFC, Pyrrha, DCQCN + Floodgate, HPCC + PFC, DCQCN + PFC ({})",
        DATA_LOST / 2,
        BOTH_LOST * 1.5,
        "7 flows of 28 have their data on the dead link, 5 others their ACKs; a random part of half of it",
    ),
    _number(
        "mrc",
        "non-blocking: slowest flow of MRC, silent / calm",
        1.0,
        4.0,
        "it takes a path out at its first loss; one or two timeouts of 100 us for the last packets",
    ),
    _number(
        "gaps",
        "non-blocking, silent: p99 of NSCC / MRC",
        1.2,
        None,
        "NSCC's balancer does not learn which path a packet was lost on, so that it loses a sixteenth to the end",
    ),
    _number(
        "reps",
        "non-blocking, silent: p99 of NSCC + REPS / NSCC",
        None,
        1.0,
        "REPS uses again what has come back, and nothing does from a dead path",
    ),
    _number(
        "go-back",
        "non-blocking: slowest flow of BFC + spray, silent / calm",
        20,
        300,
        "one packet of 16 is lost, and each loss waits 500 us: 4 to 60 timeouts for 250 packets, 85 us when calm",
    ).at("quick"),
    _number(
        "go-back",
        "non-blocking: slowest flow of BFC + spray, silent / calm",
        20,
        300,
        "one packet of 16 is lost, and each loss waits 500 us: 7 to 100 timeouts for 490 packets, 170 us when calm",
    ).at("paper"),
    _number(
        "one-timeout",
        "non-blocking: slowest flow of BFC + spray, told less calm, in timeouts of 500 us",
        0.8,
        2.2,
        "what was lost is sent again after one timeout, and where its ACK found the link dead after a second one",
    ),
    _number(
        "again",
        "non-blocking, silent: bytes sent again, BFC + spray / MRC",
        4,
        None,
        "go-back-N repeats a window for each loss, MRC the packet, and a path has few of them before it is taken out",
    ),
    _number("told-ends", "non-blocking, told: p99 of MRC / NSCC", 0.5, 1.25, "nobody needs to find what the switches avoid"),
)


# -- set-up


def cells() -> list[tuple[str, str, Rival]]:
    """Fabric, kind and scheme of each run."""
    every = [(fabric, kind, rival) for fabric in FABRICS for kind in KINDS for rival in ALL]
    return [cell for cell in every if cell[0] != "rails" or cell[2].scheme.table["name"] != ONE_LINK]


def specs(scale: str) -> dict[str, Spec]:
    """One for each cell."""
    return {label(*cell): _spec(*cell, scale) for cell in cells()}


def _spec(fabric: str, kind: str, rival: Rival, scale: str) -> Spec:
    dies = {"time": f"{DIES_US[scale]}us", "a": "tor0", "b": "spine0", "up": False}
    changes = [] if kind == CALM else [{**dies, "on_down": "lose" if kind == TOLD else "silent"}]
    return {
        "run": {"duration": "100us", "max_time": f"{END_MS}ms"},
        "topology": {**FABRICS[fabric], "changes": changes},
        "host": ends_of(fabric, rival),
        "scheme": rival.scheme.table,
        "workload": [{"kind": "permutation", "bytes": BYTES[scale]}],
        "measure": {"sample": "0us"},
    }


# -- statistics


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """y: a number of MEASURES of each scheme (series), kind (traffic) and fabric."""
    parts = []
    for fabric, kind, rival in cells():
        name = label(fabric, kind, rival)
        found = {**measured(runs, name, kind), "elsewhere": elsewhere(runs.scan(name, "ports").collect())}
        parts += [frames.rows(panel, rival.legend, [0], [found[panel]], traffic=kind, fabric=fabric) for panel in MEASURES]
    return pl.concat(parts)


def elsewhere(ports: pl.DataFrame) -> int:
    """Packets that were lost for another reason than a dead link."""
    reasons = (each.rsplit(": ", 1) for said in ports["drop_reason"].drop_nulls() for each in said.split(", "))
    return sum(int(count) for reason, count in reasons if reason != "link down")


def of(data: pl.DataFrame, fabric: str, kind: str, panel: str) -> dict[str, float]:
    """A measure by scheme; NaN where there is none."""
    found = dict(frames.chosen(data, fabric=fabric, traffic=kind, panel=panel).select("series", "y").iter_rows())
    return {rival.legend: float("nan") if found.get(rival.legend) is None else found[rival.legend] for rival in ALL}


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Laws, and the answers to the questions."""

    def some(panel: str, kinds: tuple[str, ...], names: tuple[str, ...]) -> dict[str, float]:
        """The cells in which a measure is not 0."""
        found = {(fabric, kind): of(data, fabric, kind, panel) for fabric in FABRICS for kind in kinds}
        return {f"{NAMES[f]}, {k}, {name}": n[name] for (f, k), n in found.items() for name in names if n[name] > 0}

    every = tuple(rival.legend for rival in ALL)
    left, unnoticed = some("unfinished", (TOLD,), every), some("unfinished", (SILENT,), ENDS)
    lost = some("elsewhere", (TOLD, SILENT), PAUSING)
    hanging = of(data, "core", SILENT, "unfinished")
    fewest = min(BY_FLOW, key=lambda name: hanging[name])
    tails, slowest, again = ({kind: of(data, "full", kind, panel) for kind in KINDS} for panel in ("p99", "max", "again"))
    spray = {kind: slowest[kind]["BFC + spray"] for kind in KINDS}
    return {
        "told": (not left, frames.text(left) or "all do"),
        "ends": (not unnoticed, frames.text(unnoticed) or "all do"),
        "elsewhere": (not lost, frames.text(lost) or "none"),
        "by-flow": (hanging[fewest], fewest),
        "mrc": slowest[SILENT]["MRC"] / slowest[CALM]["MRC"],
        "gaps": tails[SILENT]["NSCC"] / tails[SILENT]["MRC"],
        "reps": tails[SILENT]["NSCC + REPS"] / tails[SILENT]["NSCC"],
        "go-back": spray[SILENT] / spray[CALM],
        "one-timeout": (spray[TOLD] - spray[CALM]) / TIMEOUT_US,
        "again": again[SILENT]["BFC + spray"] / again[SILENT]["MRC"],
        "told-ends": tails[TOLD]["MRC"] / tails[TOLD]["NSCC"],
    }


def plot(data: pl.DataFrame) -> Any:
    """The slowest flow of every scheme in each fabric, of each kind, and beside it how many do not end."""
    made, grid = figure(1, len(FABRICS), width=PAGE, height=3.4, sharey=True)
    places = np.arange(len(ALL))
    colours = [rival.scheme.style["color"] for rival in ALL]
    for axes, fabric in zip(grid, FABRICS):
        for kind, marker, faces in ((CALM, "|", colours), (TOLD, "o", "white"), (SILENT, "s", colours)):
            slowest = list(of(data, fabric, kind, "max").values())
            edges = {} if marker == "|" else {"edgecolors": colours}
            axes.scatter(slowest, places, s=18, marker=marker, c=faces, label=kind, zorder=3, **edges)
        for place, left in zip(places, of(data, fabric, SILENT, "unfinished").values()):
            if left > 0:
                axes.text(0.97, place, f"{left:.2g} left", ha="right", va="center", size=6, transform=axes.get_yaxis_transform())
        axes.set_yticks(places, [rival.legend for rival in ALL], size=7)
        axes.set_xscale("log")
        axes.set_xlim(right=END_MS * 1e3 * 20)
        axes.set_xlabel("slowest flow (us)")
        axes.set_title(NAMES[fabric], size=8)
    grid[0].invert_yaxis()
    legend_above(made, grid[0], columns=3)
    return made
