"""HPCC (SIGCOMM 2019), figure 12: PFC, go-back-N and IRN, each under DCQCN and under HPCC: slowdown at the 95th percentile.

Section 5.3, "the same experiment" as figure 11: its network and its flows at 30 % load with 60-to-1 incasts of 500 KB that add
2 %, since without incasts there is nothing for flow control to do.  See `_fabric` and `fig11`.  20 ms, three seeds.

PFC is that of figure 11, and HPCC that of the authors' simulator (maxStage 0); HPCC+PFC with the text's maxStage 5 is beside it
in figure 11, (ours).  Go-back-N (GBN) and IRN have none; "we set the dynamic threshold for the egress queues with alpha = 1,
which allows a single congested egress port to consume up to half of the buffer" (footnote 6).  Go-back-N is that of the hosts:
a NACK for the first packet that is missing, at most one in 500 us for the same packet, and, which the authors' simulator does
not have, a timeout of 4 ms, without which a lost last packet would end the flow there.  IRN (`recovery:irn`) has the parameters
of its own paper: one bandwidth-delay product in flight, timeouts of 100 us and 320 us; the HPCC paper names none.

Scale quick: figure 11's tree of 64 hosts for 1 ms, with one incast of 24 flows of 1 MB; more of them, or less buffer, would make
PFC pause with HPCC, too.  Half of the buffer is not exceeded there, so that nothing is lost.
"""

from typing import Any

import polars as pl

from penstock_papers import frames
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import MORE, OURS, WORDS, Differs
from penstock_papers.frames import Scheme
from penstock_papers.hpcc import _fabric as fabric
from penstock_papers.hpcc import fig11
from penstock_papers.hpcc._fabric import curve, value
from penstock_papers.sentences import Numbers, holds, within
from penstock_papers.style import PAGE, figure, legend_above, lettered

TITLE = "Slowdown with PFC, go-back-N and IRN, FB_Hadoop"
PAPER = "HPCC, SIGCOMM 2019, section 5.3, figure 12"
TRAFFIC = "incast"
CONTROLS = ("DCQCN", "HPCC")
EGRESS = {"pfc": False, "dynamic_threshold": {"alpha": 1}}
INCAST = {"quick": {**fig11.INCAST["quick"], "fan_in": 24}, "paper": fig11.INCAST["paper"]}
SEEDS = {"paper": 3}
SAME = "with HPCC, different flow control schemes do not affect the performance"
IMPROVES = "a better flow control does improve its performance"
BEHIND = "even with IRN, DCQCN still cannot match HPCC's performance"
DIFFERS: dict[str, Differs] = {}


def _schemes(control: str) -> dict[str, Scheme]:
    """A congestion control with the three kinds of flow control."""
    table = fig11.SCHEMES[control].table
    lossy = {**table, **EGRESS, "name": f"{table['name']}+dynamic_threshold"}
    tables = {"PFC": table, "GBN": lossy, "IRN": {**lossy, "name": f"{lossy['name']}+recovery:irn"}}
    return {kind: Scheme(f"{control}+{kind}", each, nth=nth) for nth, (kind, each) in enumerate(tables.items())}


SCHEMES = {control: _schemes(control) for control in CONTROLS}
ALL = [scheme for of in SCHEMES.values() for scheme in of.values()]
WHAT = "slowdown p95, geometric mean over the sizes"
NO_EFFECT = "no effect is less than 5 %, what seeds differ"
AT_ANY_SIZE = 'no effect at any size: as "similar"; the sentence is on the curves, of which this is the worst point'
CLAIMS = (
    *(
        row
        for kind in ("GBN", "IRN")
        for row in (
            within(f"hpcc-{kind.lower()}", f"HPCC: {WHAT}: {kind} / PFC", SAME, 0.95, 1.05, why=NO_EFFECT),
            *(
                within(
                    f"hpcc-{kind.lower()}-{end}",
                    f"HPCC: slowdown p95, {end} of the sizes: {kind} / PFC",
                    SAME,
                    *WORDS["similar"],
                    why=AT_ANY_SIZE,
                    kind=OURS,
                )
                for end in ("min", "max")
            ),
        )
    ),
    holds(
        "dcqcn",
        f"DCQCN: {WHAT}: IRN below PFC and GBN",
        f"{IMPROVES}; IRN has improvement over the other two schemes",
        "IRN smallest",
    ),
    holds("behind", f"{WHAT}: DCQCN+IRN above HPCC with each flow control", BEHIND, "DCQCN+IRN above all of HPCC"),
    within(
        "behind-sizes",
        "slowdown p95 of sizes up to 120 KB, the least: DCQCN+IRN / HPCC+IRN",
        BEHIND,
        1,
        why=f"cannot match: above HPCC where HPCC is the best in figure 11; {MORE}",
        kind=OURS,
    ),
    within(
        "hpcc-spread",
        f"HPCC: {WHAT}: largest of the flow controls / smallest",
        "the same, at any scale",
        1,
        1.25,
        why="far from what DCQCN shows; small runs differ by more than 5 %",
        quick=True,
        kind=OURS,
    ),
    within(
        "drops",
        "DCQCN+GBN: packets dropped",
        "packet losses are not prevented by PFC",
        1,
        why="else there is nothing to repair, and nothing is compared",
        kind=OURS,
    ),
)


def specs(scale: str) -> dict[str, Spec]:
    """One, all schemes over the same flows."""
    flows = [fabric.poisson(fig11.SIZES, fig11.TRAFFIC[TRAFFIC]), INCAST[scale]]
    return {TRAFFIC: fabric.spec(fig11.NETWORK[scale], ALL, flows, fig11.DURATION[scale], sample="0us")}


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: flow size; y: slowdown or a number, by panel."""
    return pl.concat(part(runs, TRAFFIC, scheme) for scheme in ALL for part in (fabric.slowdowns, fabric.totals))


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Section 5.3's sentences on figure 12, and that there was something to repair."""
    mean = {scheme.legend: fabric.geometric_mean(curve(data, TRAFFIC, scheme.legend, "p95")["y"]) for scheme in ALL}
    dcqcn, hpcc = ({kind: mean[scheme.legend] for kind, scheme in SCHEMES[control].items()} for control in CONTROLS)
    sizes = {kind: _by_size(data, f"HPCC+{kind}", "HPCC+PFC") for kind in ("GBN", "IRN")}
    return {
        **{f"hpcc-{kind.lower()}": hpcc[kind] / hpcc["PFC"] for kind in sizes},
        **{f"hpcc-{kind.lower()}-min": min(ratios) for kind, ratios in sizes.items()},
        **{f"hpcc-{kind.lower()}-max": max(ratios) for kind, ratios in sizes.items()},
        "dcqcn": (dcqcn["IRN"] < min(dcqcn["PFC"], dcqcn["GBN"]), frames.text(dcqcn)),
        "behind": (dcqcn["IRN"] > max(hpcc.values()), frames.text(mean)),
        "behind-sizes": min(_by_size(data, "DCQCN+IRN", "HPCC+IRN", fig11.SMALL)),
        "hpcc-spread": max(hpcc.values()) / min(hpcc.values()),
        "drops": value(data, TRAFFIC, "DCQCN+GBN", "drops"),
    }


def _by_size(data: pl.DataFrame, legend: str, other: str, most: float = float("inf")) -> list[float]:
    """Ratios of slowdowns at the groups of sizes up to `most`."""
    ours, theirs = (curve(data, TRAFFIC, name, "p95").filter(pl.col("x") <= most)["y"] for name in (legend, other))
    return [float(ratio) for ratio in ours / theirs]


def plot(data: pl.DataFrame) -> Any:
    """Slowdowns by size, a panel for each congestion control; packets dropped, time paused."""
    made, grid = figure(1, 4, width=PAGE, height=2.6, gridspec_kw={"width_ratios": [2, 2, 1, 1]})
    for axes, control in zip(grid, CONTROLS):
        fabric.draw_slowdown(axes, data, TRAFFIC, SCHEMES[control].values(), fabric.SHADES)
    top = max(axes.get_ylim()[1] for axes in grid[:2])
    for axes in grid[:2]:
        axes.set_ylim(0.9, top)
    for axes, panel, label in zip(grid[2:], ("drops", "pfc"), ("Packets dropped", "Time paused (%)")):
        for place, (scheme, colour) in enumerate(zip(ALL, (*fabric.SHADES, *fabric.SHADES))):
            axes.bar([place + (place > 2)], [value(data, TRAFFIC, scheme.legend, panel)], 0.85, lw=0, color=colour)
        axes.set_xticks([1, 5], CONTROLS, size=7)
        axes.grid(visible=False, axis="x")
        axes.set(ylabel=label, ylim=(0, None if axes.dataLim.y1 > 0 else 1))
    lettered(grid[:2], CONTROLS)
    for line, kind in zip(grid[0].get_lines(), SCHEMES["DCQCN"]):
        line.set_label(kind)
    legend_above(made, grid[0], columns=3)
    return made
