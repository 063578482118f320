"""Beyond the papers: a ring all-reduce under switches that push back and under Ultra Ethernet's control at the ends.  All claims
are our own.

The schemes and fabrics of beyond/ultra_ethernet, for 1024 ranks at scale paper and 128 at scale quick, one rank a host:

* non-blocking: ToRs of 16 hosts, 16 spines.  4:1: the same with 4 spines
* rails, 8 planes: servers of 8 GPUs, GPU i of all servers on leaf i of each plane; the uplinks of a leaf have the rate of its
  hosts' links, 400 Gbit/s each

Neighbours of the ring are in different racks, so that every message passes the core.  A message has 8 packets of 4086 bytes, and
a rank sends the next one when it has received the one before: 2 (ranks - 1) steps, each of 7.7 us on an empty network of one
plane.  The messages from a rank to the next one are one connection, so a scheme with a path for each flow has it for all steps.

A ring draws nothing but paths and hashes, and each of its steps waits for the slowest of them.  So one seed is the default at
scale paper; `--seeds` runs more.
"""

from typing import Any

import numpy as np
import polars as pl

from penstock_papers import frames
from penstock_papers.beyond._ultra_ethernet import LEAF_SPINE, LINKS, MTU, NAMES, ONE_LINK, RIVALS, Rival, ends_of
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import OURS, Differs
from penstock_papers.sentences import Numbers, holds, within
from penstock_papers.style import PAGE, figure

TITLE = "A ring all-reduce: per-hop backpressure beside Ultra Ethernet"
PAPER = "Beyond the papers: switches that push back, control at the ends, or both, under a ring all-reduce of 1024 ranks"
SEEDS = {"quick": 3, "paper": 1}
DIFFERS: dict[str, Differs] = {}
RANKS = {"quick": 128, "paper": 1024}
PACKETS = 8  # of a message
RACK, GPUS, LEAF_UPLINK_GBPS = 16, 8, 400
NS_PER_BYTE, DELAY_US = 0.08, 1.0
MEASURES = {
    "step": "a step (us)",
    "p99": "p99 of messages (us)",
    "max": "slowest message (us)",
    "again": "sent again (%)",
    "queue": "longest queue (KB)",
    "control": "pauses and credits (%)",
}
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
BEFORE = "written before any run"
QUESTIONS = {  # id: fabric, ours over theirs, band, why
    "ends-full": ("full", "BFC + spray", "NSCC + RCCC", 0.8, 1.25, "a third of each link is used: both wait for delays"),
    "ends-core": ("core", "BFC + spray", "NSCC + RCCC", 0.8, 1.25, "both fill the uplinks, and a ring never sends ahead"),
    "paths": ("full", "BFC", "BFC + spray", 1.3, 3.0, "of 16 flows with 16 uplinks some four share one, for all steps"),
    "paths-core": ("core", "BFC", "BFC + spray", 1.3, 3.0, "of 16 flows with 4 uplinks some eight share one, not four"),
    "planes": ("rails", "MRC", "BFC + spray", 0.5, 0.9, "8 packets at once on 8 planes save 7 of their times of 0.33 us"),
    "queues": ("core", "BFC + spray, 128Q", "BFC + spray", 0.9, 1.1, "16 flows come to a port, and it has 32 queues"),
}


def empty_us() -> float:
    """A step on an empty network of one plane: 8 packets in a row, three times stored and forwarded, four links."""
    return 1e-3 * NS_PER_BYTE * (MTU["mtu"] + MTU["header"]) * (PACKETS + 3) + 4 * DELAY_US


def _question(id: str) -> Any:
    fabric, one, other, low, high, why = QUESTIONS[id]
    what = f"{NAMES[fabric]}: a step of {one} / {other}"
    return within(id, what, "see the band", low, high, why=f"{why}; {BEFORE}", kind=OURS)


CLAIMS = (
    holds("finish", "every cell: all messages arrive", "no scheme may leave a rank behind", "all arrive", kind=OURS),
    holds("lossless", "schemes that pause: packets lost", "a lossless fabric loses nothing", "none", kind=OURS),
    within(
        "empty",
        "non-blocking: the best scheme's step over that of an empty network",
        "see the band",
        1.0,
        1.2,
        why=f"a third of each link is used, and what is sprayed waits little; {BEFORE}",
        kind=OURS,
    ),
    *(_question(id) for id in QUESTIONS),
)


def fabrics(ranks: int) -> dict[str, dict[str, Any]]:
    """The networks for so many ranks."""
    leaves = {**LEAF_SPINE, "hosts": ranks, "tors": ranks // RACK}
    servers = ranks // GPUS
    uplinks = servers * 100 // LEAF_UPLINK_GBPS
    rails = {"kind": "rails", "servers": servers, "gpus": GPUS, "planes": 8, "spines": uplinks, **LINKS}
    return {
        "full": {**leaves, "spines": 16},
        "core": {**leaves, "spines": 4},
        "rails": {**rails, "uplink_rate": f"{LEAF_UPLINK_GBPS}Gbps"},
    }


def cells() -> list[tuple[str, Rival]]:
    """Fabric and scheme of each run."""
    every = [(fabric, rival) for fabric in NAMES for rival in RIVALS]
    return [(fabric, rival) for fabric, rival in every if fabric != "rails" or rival.scheme.table["name"] != ONE_LINK]


def label(fabric: str, rival: Rival) -> str:
    """Of a cell's run, and of its spec."""
    return f"{fabric}-{rival.scheme.label}"


def specs(scale: str) -> dict[str, Spec]:
    """One for each cell."""
    return {label(*cell): _spec(*cell, RANKS[scale]) for cell in cells()}


def _spec(fabric: str, rival: Rival, ranks: int) -> Spec:
    ring = {"kind": "collective", "collective": "all_reduce", "algorithm": "ring", "placement": "strided"}
    return {
        "run": {"duration": "100us", "max_time": "1s"},
        "topology": fabrics(ranks)[fabric],
        "host": ends_of(fabric, rival),
        "scheme": rival.scheme.table,
        "workload": [{**ring, "bytes": f"{ranks * PACKETS * MTU['mtu']}B"}],
        "measure": {"sample": "0us"},
    }


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """y: a number of MEASURES, `unfinished` or `drops`, of each scheme (series) and fabric."""
    parts = []
    for fabric, rival in cells():
        found = measured(runs, label(fabric, rival), RANKS[scale])
        parts += [frames.rows(panel, rival.legend, [0], [y], fabric=fabric) for panel, y in found.items()]
    return pl.concat(parts)


def measured(runs: Runs, name: str, ranks: int) -> dict[str, float]:
    """The numbers of one run.  A ring that has not ended counts with the time that it has had, over all of its steps."""
    said = runs.summary(name)
    flows = runs.scan(name, "flows")
    columns = ("start_ns", "finish_ns", "bytes", "retransmitted_bytes")
    got = flows.select(columns).collect()
    took = (got["finish_ns"] - got["start_ns"]).cast(pl.Float64).drop_nulls().to_numpy() / 1e3
    last = got["finish_ns"].max() if got["finish_ns"].null_count() == 0 else said["end_ns"]
    ports, payload = runs.scan(name, "ports").collect(), float(got["bytes"].sum())
    hosts = runs.scan(name, "nodes").filter(pl.col("tier") == 0).collect().height
    return {
        "unfinished": said["flows_started"] - said["flows_finished"] + int(got["finish_ns"].null_count()),
        "drops": said["drops"],
        "step": float(last) / 1e3 / (2 * (ranks - 1)),  # type: ignore[arg-type]
        "p99": float(np.quantile(took, 0.99)),
        "max": float(took.max()),
        "again": 100 * float(got["retransmitted_bytes"].sum()) / payload,
        "queue": float(ports.filter(pl.col("node") >= hosts)["max_queue_bytes"].cast(pl.Float64).to_numpy().max()) / 1e3,
        "control": 100 * float(ports["control_bytes"].sum()) / payload,
    }


def of(data: pl.DataFrame, fabric: str, panel: str) -> dict[str, float]:
    """A measure by scheme; NaN where there is none."""
    found = dict(frames.chosen(data, fabric=fabric, panel=panel).select("series", "y").iter_rows())
    return {rival.legend: float("nan") if found.get(rival.legend) is None else found[rival.legend] for rival in RIVALS}


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Laws, and the answers to the questions."""
    steps = {fabric: of(data, fabric, "step") for fabric in NAMES}

    def some(panel: str, names: tuple[str, ...]) -> dict[str, float]:
        """The cells in which a measure is not 0."""
        found = {fabric: of(data, fabric, panel) for fabric in NAMES}
        return {f"{NAMES[fabric]}, {name}": found[fabric][name] for fabric in NAMES for name in names if found[fabric][name] > 0}

    unfinished, lost = some("unfinished", tuple(rival.legend for rival in RIVALS)), some("drops", LOSSLESS)
    return {
        "finish": (not unfinished, frames.text(unfinished) or "all do"),
        "lossless": (not lost, frames.text(lost) or "none"),
        "empty": float(np.nanmin(list(steps["full"].values()))) / empty_us(),
        **{id: steps[fabric][one] / steps[fabric][other] for id, (fabric, one, other, *_) in QUESTIONS.items()},
    }


def plot(data: pl.DataFrame) -> Any:
    """What a step takes, of every scheme in each fabric, and on an empty network of one plane."""
    made, grid = figure(1, len(NAMES), width=PAGE, height=3.2, sharey=True)
    places = np.arange(len(RIVALS))
    for axes, fabric in zip(grid, NAMES):
        steps = of(data, fabric, "step")
        axes.barh(places, list(steps.values()), color=[rival.scheme.style["color"] for rival in RIVALS])
        for place, step in zip(places, steps.values()):
            if step == step:
                axes.text(step, place, f" {step:.3g}", va="center", size=6)
        axes.axvline(empty_us(), color="0.4", linewidth=0.8, linestyle="--")
        axes.set_yticks(places, [rival.legend for rival in RIVALS], size=7)
        axes.margins(x=0.15)
        axes.set_xlabel("a step (us)")
        axes.set_title(NAMES[fabric], size=8)
    grid[0].invert_yaxis()
    return made
