"""Floodgate (CoNEXT 2021), figure 2: throughput over time of flows that an incast harms, Web Server.

Section 2.2, with the traffic of section 6.1, see `_setup`: data that the ToRs send to the receiving hosts, in bins of 10 us.
Victims of incast go to the rack of the incast's receiver, victims of PFC to other racks; hosts that ever receive an incast are in
neither. DCQCN also with the text's alpha of PFC, 2, (ours).
"""

from typing import Any

import numpy as np
import polars as pl

from penstock_papers import frames
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import OURS, Differs
from penstock_papers.floodgate import _setup as setup
from penstock_papers.floodgate._mix import TEXT
from penstock_papers.floodgate._setup import DCQCN, FLOODGATE, PER_RACK, RECEIVERS, Scheme
from penstock_papers.sentences import Numbers, about, ascending, holds, within
from penstock_papers.style import PAGE, figure, legend_above, lettered

TITLE = "Throughput of victims over time, Web Server"
PAPER = "Floodgate, CoNEXT 2021, section 2.2, figure 2"
KINDS = ("victims of incast", "victims of PFC")
SHOWN = (DCQCN, FLOODGATE, TEXT)
LOAD = 80.0  # Gbit/s of a host
ARRIVALS = (0.1, 2.0)  # ms, when flows arrive and have had time to
DELAY = "start to be received by hosts after a long delay, i.e., 1.8ms"
DOWNGRADE, AS_SAID = "a significant throughput downgrade also occurs", '"significant" as "significantly": a factor of 1.5 or more'
SEEDS = setup.SEEDS
DIFFERS: dict[str, Differs] = {}
NOT_HURT = "throughput of flows is not hurt either by incast"
CLAIMS = (
    ascending("order", "when victims of incast start to be received (ms): Floodgate before DCQCN", DELAY, kind=OURS),
    about("start", "DCQCN: when victims of incast start to be received (ms)", DELAY, 1.8),
    within(
        "at-once",
        "Floodgate: when victims of incast start to be received (ms)",
        NOT_HURT,
        high=0.1,
        quick=True,
        why="flows begin at 0.03 ms, and cannot be received before",
    ),
    within(
        "starved",
        "victims of incast from 0.1 to 1.5 ms: DCQCN over Floodgate",
        DELAY,
        high=0.1,
        why="the paper has nothing before 1.8 ms: at most a tenth, and at least 0",
    ),
    within("downgrade", "victims of PFC between 1 and 2 ms: Floodgate over DCQCN", DOWNGRADE, 1.5, why=AS_SAID),
    within(
        "steady",
        "Floodgate: worst 0.1 ms of the throughput over its average, {}",
        NOT_HURT,
        0.5,
        why="random arrivals fluctuate; below half of the average it is hurt, and the worst is at most the average",
    ),
    holds("pfc", "time that PFC held ports (us): none with Floodgate", "PFCs are not triggered", "0 with Floodgate only"),
)


def specs(scale: str) -> dict[str, Spec]:
    """The incast mix with what every port has sent."""
    return {"web_server": setup.mix(SHOWN, "web_server", scale, port_series=True)}


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: ms, the middle of a bin; y: Gbit/s per host; and the time that PFC held ports, us."""
    parts = []
    for scheme in SHOWN:
        label = setup.of(runs, "web_server", scheme)
        parts += [throughput(runs, label, scheme.legend, kind) for kind in KINDS]
        parts.append(setup.rows("pfc", scheme.legend, [0], [sum(setup.pfc_us(runs, label).values())]))
    return pl.concat(parts)


def throughput(runs: Runs, label: str, series: str, kind: str) -> pl.DataFrame:
    """Data for the average host of this kind."""
    hit = runs.scan(label, "flows").filter(pl.col("class").cast(pl.String) == "incast").select("dst").unique().collect()["dst"]
    near = (pl.col("peer") // PER_RACK).is_in((hit // PER_RACK).implode())
    peers = runs.scan(label, "ports").select("node", "port", "peer")
    hosts = runs.scan(label, "nodes").filter(pl.col("tier") == 0).select(pl.col("node").alias("peer"))
    ports = peers.join(hosts, on="peer").filter(near if kind == KINDS[0] else ~near, ~pl.col("peer").is_in(RECEIVERS))
    data = pl.col("tx_bytes") - pl.col("ack_bytes") - pl.col("control_bytes")
    sums = runs.scan(label, "port_series").join(ports, on=["node", "port"]).group_by("time_ns").agg(data.mean().alias("bytes"))
    bins = sums.sort("time_ns").with_columns(pl.col("time_ns", "bytes").diff().name.suffix("_more")).drop_nulls().collect()
    middle = (bins["time_ns"] - bins["time_ns_more"] / 2) / 1e6
    return setup.rows("throughput", series, middle, bins["bytes_more"] * 8 / bins["time_ns_more"], kind)


def curve(data: pl.DataFrame, series: str, kind: str, begin: float = 0.0, end: float = float("inf")) -> pl.DataFrame:
    """One line, or a part of it."""
    kept = (pl.col("panel") == "throughput") & (pl.col("series") == series) & (pl.col("traffic") == kind)
    return data.filter(kept, pl.col("x").is_between(begin, end)).sort("x")


def ratio(data: pl.DataFrame, of: Scheme, to: Scheme, kind: str, begin: float, end: float) -> float:
    """Throughput of one scheme over that of another between two times; not a number where the other has none."""
    first, second = (float(curve(data, one.legend, kind, begin, end)["y"].sum()) for one in (of, to))
    return first / second if second else float("nan")


def first(data: pl.DataFrame, series: str, kind: str) -> float:
    """When the throughput first is a tenth of the load, ms."""
    found = curve(data, series, kind).filter(pl.col("y") >= LOAD / 10)["x"]
    return float(found[0]) if len(found) else float("nan")


def lowest(data: pl.DataFrame, series: str, kind: str) -> float:
    """The worst tenth of a millisecond while flows arrive, over the average."""
    part = curve(data, series, kind, *ARRIVALS)["y"].to_numpy()
    if len(part) < 10 or not part.any():
        return float("nan")
    return float(np.convolve(part, np.full(10, 0.1), "valid").min() / part.mean())


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """DCQCN starves victims, Floodgate does not, and no PFC is triggered."""
    near, far = KINDS
    starts = {name: first(data, name, near) for name in (FLOODGATE.legend, DCQCN.legend)}
    pauses = {name: setup.value(data, "pfc", name) for name in starts}
    both = {kind: lowest(data, FLOODGATE.legend, kind) for kind in KINDS}
    return {
        "order": starts,
        "start": starts[DCQCN.legend],
        "at-once": starts[FLOODGATE.legend],
        "starved": ratio(data, DCQCN, FLOODGATE, near, 0.1, 1.5),
        "downgrade": ratio(data, FLOODGATE, DCQCN, far, 1, 2),
        "steady": setup.least(both),
        "pfc": (pauses[FLOODGATE.legend] == 0 < pauses[DCQCN.legend], frames.text(pauses)),
    }


def plot(data: pl.DataFrame) -> Any:
    """A panel per kind of victim."""
    made, axes = figure(1, 2, width=PAGE, height=2.3, sharey=True, sharex=True)
    for panel, kind in zip(axes, KINDS):
        for scheme in SHOWN:
            line = curve(data, scheme.legend, kind)
            panel.plot(line["x"], line["y"], label=scheme.legend, **{**scheme.style, "marker": "", "lw": 1.1})
        panel.set_xlabel("time (ms)")
    axes[0].set(ylabel="throughput of a host\n(Gbit/s)", ylim=(0, None), xlim=(0, None))
    lettered(axes, KINDS)
    legend_above(made, axes[0], columns=3)
    return made
