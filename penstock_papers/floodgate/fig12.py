"""Floodgate (CoNEXT 2021), figure 12: throughput at the destination of incasts while links lose 5 % or 10 % of all packets.

Section 6.2, "handling packet loss": "we manufactured packet drops". It tests whether the windows of switches recover, so
the hosts' reaction to losses must not interfere; in the authors' simulator hosts do not react. Here they accept packets in
any order (so that packets after a gap are neither dropped nor requested again) and retransmit only after 20 ms without an
acknowledgement, when the measurement has ended. Every link loses all kinds of packets: data, ACKs, credits and switchSYNs.

Incasts of `_setup` (720 flows) go to one host every 2 ms for 16 ms, half as much again as its link can carry and more than
enough even for 10 % loss on each of the three links before the last (73 % arrive there). So that link is always busy unless
windows are missing: of the 590 KB that each core may have under way to this host, 5 MB are lost in 16 ms at 10 %. What its ToR
has stored hides short dips, so what comes from the cores is judged as well. (Were lost packets not made good by PSNs, 58 % of the
throughput would be left at 10 %, and none without switchSYN: docs/differences.md, floodgate-fig12.) Then the hosts repair
their losses, and every flow must finish.
"""

from typing import Any

import numpy as np
import polars as pl

from penstock_papers import frames
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import Differs
from penstock_papers.floodgate import _setup as setup
from penstock_papers.floodgate._setup import value
from penstock_papers.sentences import Numbers, holds, within
from penstock_papers.style import DASHES, GREEN, ORANGE, PAGE, PURPLE, figure, legend_above, lettered

TITLE = "Throughput when data and credits are lost"
PAPER = "Floodgate, CoNEXT 2021, section 6.2, figure 12"
LOSSES = {"no loss": 0.0, "5 % loss": 0.05, "10 % loss": 0.1}
RECOVERED = "the sending window of Floodgate's switch can be recovered quickly after packet loss happens"
COLOURS = dict(zip(LOSSES, (GREEN, ORANGE, PURPLE)))
LAST_MS = {"quick": 4, "paper": 16}
EVERY_MS = 2
BIN_US = 100
START_MS = 0.35  # the first incast has arrived
PANELS = {"last link": "to the receiver", "from cores": "from the cores to the receiver's ToR"}
SCHEME = setup.Scheme("DCQCN+Floodgate", {**setup.FLOODGATE.table, "name": setup.FLOODGATE.table["name"] + "+spray"})
SEEDS = {"paper": 10}  # "ten times" (section 6); five left a claim undecided
JUDGED = (  # loss, the paper's words, lowest mean and lowest 0.1 ms of the throughput over that without loss, why
    (
        "5",
        "no obvious effect on throughput has been observed",
        0.95,
        0.9,
        "a tenth for a moment and 5 % on average are not obvious",
    ),
    ("10", "throughput fluctuates within a small range", 0.85, 0.8, "a small range is a fifth, which a mean of 0.85 stays in"),
)
DIFFERS: dict[str, Differs] = {}
KEYS = {panel: panel.replace(" ", "-") for panel in PANELS}
CLAIMS = (
    *(
        row
        for loss, paper, mean, least, why in JUDGED
        for panel, where in PANELS.items()
        for row in (
            within(
                f"mean-{loss}-{KEYS[panel]}",
                f"throughput {where}: {loss} % loss / none",
                paper,
                mean,
                1.05,
                quick=True,
                why=why,
            ),
            within(
                f"least-{loss}-{KEYS[panel]}",
                f"the same, lowest {BIN_US} us / mean without loss",
                paper,
                least,
                why=f"{why}; the link's rate is the other end",
            ),
        )
    ),
    holds("stuck", "flows that never finish", RECOVERED, "0"),
)


def specs(scale: str) -> dict[str, Spec]:
    """The same incasts over links that lose more and more: what is measured, and again until all flows have finished."""
    one = {**setup.incast([0]), "every": f"{EVERY_MS}ms"}
    traffic = {key: value for key, value in one.items() if not key.startswith("load")}
    found = {}
    for name, loss in LOSSES.items():
        table = setup.spec([SCHEME], [traffic], f"{LAST_MS[scale]}ms", {**setup.FABRIC, "loss": loss}, {"rto": "20ms"})
        found[name] = {
            **table,
            "run": {**table["run"], "drain": False},
            "measure": {"sample": f"{BIN_US}us", "port_series": True},
        }
        found[f"{name}, to the end"] = {**table, "run": {**table["run"], "max_time": "30s"}, "measure": {"sample": "0us"}}
    return found


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """Panels "last link" and "from cores": x ms, y Gbit/s of data; "unfinished" and "lost": y flows, packets."""
    parts = []
    for name, loss in LOSSES.items():
        for panel in PANELS:
            times, rates = throughput(runs, name, panel, loss)
            parts.append(setup.rows(panel, name, times, rates))
        end = runs.summary(f"{name}, to the end")
        parts += [
            setup.rows("lost", name, [0], [runs.summary(name)["drops"]]),
            setup.rows("unfinished", name, [0], [end["flows_started"] - end["flows_finished"]]),
        ]
    return pl.concat(parts)


def throughput(runs: Runs, label: str, panel: str, loss: float) -> tuple[pl.Series, pl.Series]:
    """ms and Gbit/s of what is sent to the receiver, or comes from the cores to its ToR (less what links lose on average)."""
    ports = setup.ports(runs, label)
    last = ports.filter(pl.col("peer") == 0)
    at = last if panel == "last link" else ports.filter((pl.col("tier") == 2) & (pl.col("peer") == last["node"][0]))
    series = runs.scan(label, "port_series").join(at.select("node", "port").lazy(), on=["node", "port"])
    data = (pl.col("tx_bytes") - pl.col("ack_bytes") - pl.col("control_bytes")).sum().alias("data")
    sums = series.group_by("time_ns").agg(data).sort("time_ns")
    rate = pl.col("data").diff() * 8 / pl.col("time_ns").diff() * (1 if panel == "last link" else 1 - loss)
    table = sums.select((pl.col("time_ns") / 1e6).alias("ms"), rate.alias("rate")).drop_nulls().collect()
    return table["ms"], table["rate"]


def settled(data: pl.DataFrame, name: str, panel: str = "last link") -> np.ndarray:
    """Gbit/s of every interval but the first ones."""
    return data.filter((pl.col("panel") == panel) & (pl.col("series") == name) & (pl.col("x") > START_MS))["y"].to_numpy()


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """No effect at 5 %, small dips at 10 %, and nothing is left behind."""
    left = {name: value(data, "unfinished", name) for name in LOSSES}
    found: Numbers = {"stuck": (max(left.values()) == 0, frames.text(left))}
    for loss, *_ in JUDGED:
        for panel in PANELS:
            usual, rates = settled(data, "no loss", panel).mean(), settled(data, f"{loss} % loss", panel)
            found[f"mean-{loss}-{KEYS[panel]}"] = rates.mean() / usual
            found[f"least-{loss}-{KEYS[panel]}"] = rates.min() / usual
    return found


def plot(data: pl.DataFrame) -> Any:
    """A panel per place, a line per loss rate."""
    made, panels = figure(1, 2, width=PAGE, height=2.4)
    for axes, panel in zip(panels, PANELS):
        for (name, colour), dash in zip(COLOURS.items(), DASHES):
            line = data.filter((pl.col("panel") == panel) & (pl.col("series") == name) & (pl.col("x") > START_MS)).sort("x")
            axes.plot(line["x"], line["y"], color=colour, linestyle=dash, label=name, lw=1.2)
        axes.set(xlabel="Time (ms)", ylabel="Throughput (Gbit/s)", xlim=(0, None), ylim=(0, 160))
    lettered(panels, PANELS.values())
    legend_above(made, panels[0], columns=3)
    return made
