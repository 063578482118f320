"""Beyond the papers: a ring all-reduce under switches that push back and under Ultra Ethernet's control at the ends.  All claims
are our own.

The schemes and fabrics of beyond/ultra_ethernet, without its variants of BFC + spray, for 1024 ranks at scale paper and 64 at
scale quick, one rank a host:

* non-blocking: ToRs of 16 hosts, 16 spines.  4:1: the same with 4 spines
* rails, 8 planes: servers of 8 GPUs, GPU i of all servers on leaf i of each plane; the uplinks of a leaf have the rate of its
  hosts' links, 400 Gbit/s each

Neighbours of the ring are in different racks, so that every message passes the core.  A message has 8 packets of 4086 bytes, and
a rank sends the next one when it has received the one before: 2 (ranks - 1) steps, each of 7.7 us on an empty network of one
plane.  The messages from a rank to the next one are one connection, so a scheme with a path for each flow has it for all steps.

Scale quick runs all steps, three seeds.  At scale paper a whole ring is 134 million packet-hops under each of 38 schemes and
fabrics, some half an hour of a processor: it runs the first 400 us, 52 steps of an empty network, one seed.  A step is judged
by the rank that is furthest behind: the time until its last message, or else until the end, over the number of its messages.
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
RANKS = {"quick": 64, "paper": 1024}
ENDS_US: dict[str, int | None] = {"quick": None, "paper": 400}  # None: with the ring
SHOWN = tuple(rival for rival in RIVALS if rival.legend not in ("BFC + spray, 128Q", "BFC + spray, IRN"))
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
    "paths": ("full", "BFC", "BFC + spray", 1.3, 3.0, "of 16 flows with 16 uplinks four or five share one, for all steps"),
    "paths-core": ("core", "BFC", "BFC + spray", 1.3, 3.0, "of 16 flows with 4 uplinks eight or more share one, not four"),
    "planes": ("rails", "MRC", "BFC + spray", 0.5, 0.9, "8 packets at once on 8 planes save 7 of their times of 0.33 us"),
    "dctcp": ("full", "DCTCP + spray", "BFC + spray", 0.9, 1.15, "queues are short: neither marks nor pauses are needed"),
    "pyrrha": ("full", "Pyrrha", "BFC", 0.8, 1.25, "both have the paths of ECMP, and the slowest of these decides"),
}


def empty_us() -> float:
    """A step on an empty network of one plane: 8 packets in a row, three times stored and forwarded, four links."""
    return 1e-3 * NS_PER_BYTE * (MTU["mtu"] + MTU["header"]) * (PACKETS + 3) + 4 * DELAY_US


def _question(id: str) -> Any:
    fabric, one, other, low, high, why = QUESTIONS[id]
    what = f"{NAMES[fabric]}: a step of {one} / {other}"
    return within(id, what, "see the band", low, high, why=f"{why}; {BEFORE}", kind=OURS)


CLAIMS = (
    holds("finish", "every cell: all messages arrive", "no scheme may leave a rank behind", "all arrive", kind=OURS).at("quick"),
    holds("lossless", "schemes that pause: packets lost", "a lossless fabric loses nothing", "none", kind=OURS),
    within(
        "empty",
        "non-blocking: the best scheme's step over that of an empty network",
        "see the band",
        1.0,
        1.3,
        why=f"a third of each link is used: a message waits for some packets of others, 2 us at most; {BEFORE}",
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
    every = [(fabric, rival) for fabric in NAMES for rival in SHOWN]
    return [(fabric, rival) for fabric, rival in every if fabric != "rails" or rival.scheme.table["name"] != ONE_LINK]


def label(fabric: str, rival: Rival) -> str:
    """Of a cell's run, and of its spec."""
    return f"{fabric}-{rival.scheme.label}"


def specs(scale: str) -> dict[str, Spec]:
    """One for each cell."""
    return {label(*cell): _spec(*cell, RANKS[scale], ENDS_US[scale]) for cell in cells()}


def _spec(fabric: str, rival: Rival, ranks: int, ends_us: int | None) -> Spec:
    ring = {"kind": "collective", "collective": "all_reduce", "algorithm": "ring", "placement": "strided"}
    return {
        "run": {"duration": f"{ends_us or 100}us", **({"drain": False} if ends_us else {"max_time": "1s"})},
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
    """The numbers of one run, of the messages that have arrived."""
    said = runs.summary(name)
    columns = ("dst", "start_ns", "finish_ns", "bytes", "retransmitted_bytes")
    arrived = runs.scan(name, "flows").select(columns).filter(pl.col("finish_ns").is_not_null()).collect()
    took = (arrived["finish_ns"] - arrived["start_ns"]).cast(pl.Float64).to_numpy() / 1e3
    ports, payload = runs.scan(name, "ports").collect(), float(arrived["bytes"].sum())
    return {
        "unfinished": 2 * (ranks - 1) * ranks - len(arrived),
        "drops": said["drops"],
        "step": slowest_step(arrived, ranks, said["end_ns"]),
        "p99": float(np.quantile(took, 0.99)),
        "max": float(took.max()),
        "again": 100 * float(arrived["retransmitted_bytes"].sum()) / payload,
        "queue": float(ports.filter(pl.col("node") >= ranks)["max_queue_bytes"].cast(pl.Float64).to_numpy().max()) / 1e3,
        "control": 100 * float(ports["control_bytes"].sum()) / payload,
    }


def slowest_step(arrived: pl.DataFrame, ranks: int, end_ns: float) -> float:
    """us of a step of the rank that is furthest behind: until its last message, or else the run's end, by their number."""
    steps = 2 * (ranks - 1)
    done = arrived.group_by("dst").agg(last=pl.col("finish_ns").max(), count=pl.len())
    ended = done.filter(count=steps)["last"].max()
    if len(done) < ranks:
        return float(end_ns) / 1e3
    behind = done.filter(pl.col("count") < steps)["count"].min()
    return float(ended if behind is None else end_ns) / 1e3 / float(behind or steps)  # type: ignore[arg-type]


def of(data: pl.DataFrame, fabric: str, panel: str) -> dict[str, float]:
    """A measure by scheme; NaN where there is none."""
    found = dict(frames.chosen(data, fabric=fabric, panel=panel).select("series", "y").iter_rows())
    return {rival.legend: float("nan") if found.get(rival.legend) is None else found[rival.legend] for rival in SHOWN}


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Laws, and the answers to the questions."""
    steps = {fabric: of(data, fabric, "step") for fabric in NAMES}

    def some(panel: str, names: tuple[str, ...]) -> dict[str, float]:
        """The cells in which a measure is not 0."""
        found = {fabric: of(data, fabric, panel) for fabric in NAMES}
        return {f"{NAMES[fabric]}, {name}": found[fabric][name] for fabric in NAMES for name in names if found[fabric][name] > 0}

    unfinished, lost = some("unfinished", tuple(rival.legend for rival in SHOWN)), some("drops", LOSSLESS)
    return {
        **({} if ENDS_US[scale] else {"finish": (not unfinished, frames.text(unfinished) or "all do")}),
        "lossless": (not lost, frames.text(lost) or "none"),
        "empty": float(np.nanmin(list(steps["full"].values()))) / empty_us(),
        **{id: steps[fabric][one] / steps[fabric][other] for id, (fabric, one, other, *_) in QUESTIONS.items()},
    }


def plot(data: pl.DataFrame) -> Any:
    """What a step takes, of every scheme in each fabric, and on an empty network of one plane."""
    made, grid = figure(1, len(NAMES), width=PAGE, height=3.2, sharey=True)
    places = np.arange(len(SHOWN))
    for axes, fabric in zip(grid, NAMES):
        steps = of(data, fabric, "step")
        axes.barh(places, list(steps.values()), color=[rival.scheme.style["color"] for rival in SHOWN])
        for place, step in zip(places, steps.values()):
            if step == step:
                axes.text(0.02, place, f"{step:.3g}", va="center", size=6, color="white", transform=axes.get_yaxis_transform())
        axes.axvline(empty_us(), color="0.4", linewidth=0.8, linestyle="--")
        axes.set_yticks(places, [rival.legend for rival in SHOWN], size=7)
        axes.margins(x=0.15)
        axes.set_xlabel("a step (us)")
        axes.set_title(NAMES[fabric], size=8)
    grid[0].invert_yaxis()
    return made
