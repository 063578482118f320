"""Floodgate (CoNEXT 2021), figure 18: bandwidth of data, credits and acknowledgements over time.

Section 7.4. The paper monitors "switches' egress ports" and does not say with which traffic: here the links between switches
(credits are on no others), in the incast mix of Web Server, in per cent of their capacity; numbers are means while flows
arrive. At the paper's load of 0.8 an ACK of 84 B for each packet of 1460 B is 84 / 1460 x 0.8 = 4.6 %, and a credit of 58 B
3.2 %: so the paper's per cent are of the capacity, too. The text does not say how large a credit is. By default a frame has
58 B and 8 B for each destination; the authors' simulator counts 22 B for each and none in the ideal design, and also sends
credits whenever an ingress owes 10240 B (presets `ns3` and `ns3_ideal`). The paper's switch sends a credit packet for each
destination (section 4.1), ours one for all; what the former would take follows from the number of entries, that is from what
another 14 B in each add.
"""

from typing import Any

import polars as pl

from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import OURS, Differs
from penstock_papers.floodgate import _hops as hops
from penstock_papers.floodgate import _setup as setup
from penstock_papers.floodgate._setup import DCQCN, FLOODGATE, IDEAL, rows, value
from penstock_papers.sentences import Numbers, about, ascending, within
from penstock_papers.style import BLUE, ORANGE, PAGE, PURPLE, figure, legend_above, lettered

TITLE = "Bandwidth of data, credits and acknowledgements"
PAPER = "Floodgate, CoNEXT 2021, section 7.4, figure 18"
ENTRY_22 = hops.named(FLOODGATE, "Floodgate, 22 B entries", entry=22)
NS3 = setup.Scheme("Floodgate, authors' code", {**FLOODGATE.table, "name": FLOODGATE.table["name"] + ":ns3"})
NS3_IDEAL = setup.Scheme("ideal, authors' code", {**IDEAL.table, "name": FLOODGATE.table["name"] + ":ns3_ideal"})
SHOWN = (DCQCN, IDEAL, FLOODGATE, ENTRY_22, NS3, NS3_IDEAL)
COLOURS = {"data": BLUE, "ACKs": PURPLE, "credits": ORANGE}
SINGLE = 64  # a frame of its own for each destination
CREDITS = "For Floodgate, credit packets saturate 0.175% of bandwidth, and that value is 3.0% in ideal design"
ACKS = "saturate 4.5% of bandwidth in both approaches, the same as in DCQCN"
SAME = "a tenth either way is the same"
SEEDS = setup.SEEDS
DIFFERS: dict[str, Differs] = {}
CLAIMS = (
    about("practical-22", "Floodgate's credits with 22 B for each destination, %", CREDITS, 0.175, kind=OURS),
    about("practical-8", "Floodgate's credits with 8 B for each destination, %", CREDITS, 0.175),
    about(
        "practical-single", "Floodgate's credits if each destination had a frame of its own (64 B), %", CREDITS, 0.175, kind=OURS
    ),
    about("ideal", "credits of the ideal design, 66 B each, %", CREDITS, 3.0),
    about("ideal-58", "credits of the ideal design, 58 B each, %", CREDITS, 3.0, kind=OURS),
    ascending("order", "credits (%)", CREDITS, kind=OURS),
    about("acks", "ACKs under Floodgate, %", ACKS, 4.5),
    within("acks-ideal", "ACKs under Floodgate over those under the ideal design", ACKS, 1 / 1.1, 1.1, quick=True, why=SAME),
    within("acks-dcqcn", "ACKs under Floodgate over those under DCQCN", ACKS, 1 / 1.1, 1.1, why=SAME),
)


def specs(scale: str) -> dict[str, Spec]:
    """One traffic."""
    return {"web_server": setup.mix(SHOWN, "web_server", scale, port_series=True)}


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """Panel "mean": x 0; panel of a scheme: x ms; y: per cent of capacity; series: the kind of packet."""
    frames = []
    for scheme in SHOWN:
        label = setup.of(runs, "web_server", scheme)
        frames += [rows("mean", kind, [0], [share], scheme.legend) for kind, share in hops.overhead(runs, label).items()]
        table = hops.shares(runs, label).filter(pl.col("time_ns") <= runs.summary(label)["duration_ns"])
        frames += [rows("time", kind, table["time_ns"] / 1e6, table[kind], scheme.legend) for kind in COLOURS]
    return pl.concat(frames)


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """The two kinds of credits, and the ACKs."""
    credits = {scheme.legend: value(data, "mean", "credits", scheme.legend) for scheme in SHOWN}
    acks = {scheme.legend: value(data, "mean", "ACKs", scheme.legend) for scheme in (DCQCN, FLOODGATE, IDEAL)}
    entries = (credits[ENTRY_22.legend] - credits[FLOODGATE.legend]) / (22 - 8)  # so much for each byte of an entry
    return {
        "practical-22": credits[ENTRY_22.legend],
        "practical-8": credits[FLOODGATE.legend],
        "practical-single": SINGLE * entries,
        "ideal": credits[IDEAL.legend],
        "ideal-58": credits[NS3_IDEAL.legend],
        "order": {s.legend: credits[s.legend] for s in (FLOODGATE, IDEAL)},
        "acks": acks[FLOODGATE.legend],
        "acks-ideal": acks[FLOODGATE.legend] / acks[IDEAL.legend],
        "acks-dcqcn": acks[FLOODGATE.legend] / acks[DCQCN.legend],
    }


def plot(data: pl.DataFrame) -> Any:
    """Stacked, over time."""
    shown = (IDEAL, FLOODGATE, NS3)
    made, grid = figure(1, 3, width=PAGE, height=2.2, sharey=True)
    for axes, scheme in zip(grid, shown):
        part = data.filter((pl.col("panel") == "time") & (pl.col("traffic") == scheme.legend))
        lines = [part.filter(pl.col("series") == kind).sort("x") for kind in COLOURS]
        axes.stackplot(lines[0]["x"], *(line["y"] for line in lines), colors=COLOURS.values(), labels=COLOURS, lw=0)
        mean = "\n".join(f"{kind} {value(data, 'mean', kind, scheme.legend):.3g} %" for kind in ("credits", "ACKs"))
        axes.text(0.97, 0.05, mean, transform=axes.transAxes, ha="right", va="bottom", fontsize=7.5, color="white")
        axes.set(xlabel="Time (ms)", xlim=(0, float(part["x"].max())), ylim=(0, 100))  # type: ignore[arg-type]
        axes.grid(visible=False)
    grid[0].set(ylabel="Share of capacity (%)")
    lettered(grid, [scheme.legend.replace("DCQCN+", "") for scheme in shown])
    legend_above(made, grid[0], columns=3)
    return made
