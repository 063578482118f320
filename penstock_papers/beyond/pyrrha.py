"""Pyrrha (Liu et al., NSDI 2025): the numbers of its abstract, for flows beside an incast and flows of it.

"Compared with state-of-the-art approaches, the average FCT of uncongested flows is reduced by 42%-98%, and 99th-tail latency can
be 1.6x-215x lower, without compromising the performance of congested flows."  The set-up is that of its authors' public simulator
(NASA-NJU/Pyrrha-NS3, 3765687, the files of `mix_withcc`).  The text beyond the abstract was not at hand, so what the files leave
open is named below.

Network: a fat tree with k = 8, 128 hosts, 100 Gbit/s, 600 ns; 20 MiB a switch under PFC, 32 MiB under what replaces it.  Packets
of 1460 B payload and 76 B of headers, ACKs queue behind data.

Traffic: an incast of 720 flows of 30 to 40 packets to host 0 from hosts of other pods, all in the first 200 ns, and from 30 us on
50 000 flows of the Web Server sizes at 80 % of the hosts' links, that is 2.456 ms of arrivals.  Host 0 has no other flows.

Schemes: DCQCN, HPCC and TIMELY with a window over PFC (alpha 1/4, headroom as printed by the simulator), the first two with
Floodgate, BFC with 32 queues as in that simulator, and Pyrrha with its thresholds and the nearest root first.  Its file for DCQCN
has no ECN, so that Pyrrha has no congestion control but a window of one bandwidth-delay product; it has files with HPCC and
TIMELY, too, and with downward ports alone as roots.  These three are shown beside it.

What is open, and what chooses:

* which flows are uncongested: all but the incast's, as in the statistics of the authors' script (get_victim_others_fct.py), which
  divides them into victims, to or from the pod of the incast's receiver, and others; both are shown, (ours)
* what is compared: a range over the approaches, so both the best and the worst other one have to be inside
* which approaches: those of the simulator (FC_MODE 0, 1, 2); it has no file for Floodgate, so ours is that of Floodgate's figures
  and keeps PFC below it.  Its 3, a pause for each destination, is left out
* pairs: the simulator's racks are pods; here the other flows are between racks of four hosts, so that a tenth stay in a pod
* number of runs: the simulator's files have one seed; here three

Scale quick has 400 us of arrivals and the whole incast.  Completion times are by the receiver's clock.
"""

from typing import Any

import numpy as np
import polars as pl

from penstock_papers import ages, frames
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import OURS, Differs
from penstock_papers.floodgate import _setup as setup
from penstock_papers.frames import Scheme
from penstock_papers.sentences import Numbers, holds, within
from penstock_papers.style import PAGE, figure, lettered

TITLE = "Pyrrha: uncongested flows beside an incast"
PAPER = "Beyond the papers: Pyrrha, NSDI 2025, abstract, in the set-up of its authors' simulator"
SEEDS = {"quick": 3, "paper": 3}
DIFFERS: dict[str, Differs] = {}
ARRIVE_US = {"quick": 400, "paper": 2456}
POD = 16
RECEIVER = 0
PACKETS = {**setup.PACKETS, "header": 76}
PFC: dict[str, Any] = {"pfc": {"alpha": 0.25, **setup.OF_CODE}}
ISOLATED: dict[str, Any] = {"pfc": False, "pyrrha": {"nearest": True}}
CONTROLS = {"DCQCN": "dcqcn:config", "HPCC": "hpcc:floodgate", "TIMELY": "timely:floodgate"}
DCQCN: dict[str, Any] = {"dcqcn": {"window": True}}
OTHERS = (
    Scheme("DCQCN", {"name": CONTROLS["DCQCN"], **DCQCN, **PFC}),
    Scheme("HPCC", {"name": CONTROLS["HPCC"], **PFC}),
    Scheme("TIMELY", {"name": CONTROLS["TIMELY"], **PFC}),
    Scheme("DCQCN+Floodgate", {"name": f"{CONTROLS['DCQCN']}+floodgate", **DCQCN, **PFC}, like="floodgate"),
    Scheme("HPCC+Floodgate", {"name": f"{CONTROLS['HPCC']}+floodgate", **PFC}, 1, like="floodgate"),
    Scheme("BFC", {"name": "bfc:pyrrha_ns3", "dqa": {"queues": 32}}),
)
PYRRHA = Scheme("Pyrrha", {"name": "pyrrha:ns3+window_cap", "pyrrha": {"nearest": True}})
DOWN = Scheme("Pyrrha, roots down", {"name": PYRRHA.table["name"], "pyrrha": {"nearest": True, "roots": "down"}}, 1)
WITH = {
    name: Scheme(f"{name}+Pyrrha", {"name": f"{CONTROLS[name]}+pyrrha:ns3", **ISOLATED}, 2, like="pyrrha")
    for name in ("HPCC", "TIMELY")
}
ALL = (*OTHERS, PYRRHA, DOWN, *WITH.values())
BUFFERS = {"20MiB": [s for s in ALL if s.table.get("pfc")], "32MiB": [s for s in ALL if not s.table.get("pfc")]}
STATISTICS = ("average", "tail")
MEASURES = {
    "buffer": "largest buffer (MB)",
    "queues": "isolation queues",
    "pauses": "pauses",
    "control": "control frames (% of bytes)",
    "drops": "packets lost",
    "refused": "pauses not obeyed",
}
LABELS = {"average": "average FCT (us)", "tail": "p99 of the FCT (us)", "buffer": MEASURES["buffer"]}
QUEUES = 32 * 8  # that BFC has at a switch


# -- claims: written before any run

REDUCED = "the average FCT of uncongested flows is reduced by 42%-98%"
LOWER = "99th-tail latency can be 1.6x-215x lower"
WHOLE = "without compromising the performance of congested flows"
RANGE = "the paper's range, over all approaches"
KEPT = "within what seeds differ; what is faster is not compromised"


def _number(id: str, what: str, low: float | None, high: float | None, why: str) -> Any:
    return within(id, what, "see the band", low, high, why=f"{why}; written before any run", kind=OURS)


CLAIMS = (
    within("average-best", "reduction of the average FCT against the best other ({})", REDUCED, 0.42, 0.98, why=RANGE),
    within("average-worst", "reduction of the average FCT against the worst other ({})", REDUCED, 0.42, 0.98, why=RANGE),
    within("tail-best", "p99 of uncongested flows: the best other ({}) / Pyrrha", LOWER, 1.6, 215, why=RANGE),
    within("tail-worst", "p99 of uncongested flows: the worst other ({}) / Pyrrha", LOWER, 1.6, 215, why=RANGE),
    within(
        "incast-average",
        "incast flows, average: Pyrrha / the best other ({})",
        WHOLE,
        high=1.05,
        why=f"{KEPT}, and the best one leaves no room",
        quick=True,
    ),
    within(
        "incast-tail",
        "incast flows, p99: Pyrrha / the best other ({})",
        WHOLE,
        high=1.05,
        why=f"{KEPT}: the receiver's link is the bottleneck",
        quick=True,
    ),
    *(
        _number(
            f"{name.lower()}-average",
            f"average FCT of uncongested flows: {name} over PFC / with Pyrrha",
            1.0,
            None,
            "what is behind paused packets without it is not with it",
        )
        for name in WITH
    ),
    _number(
        "victims-tail",
        "p99 of the flows of the incast's pod: DCQCN / Pyrrha",
        1.6,
        None,
        "they share the paused links with the incast; the abstract's least factor",
    ),
    _number(
        "queues",
        "isolation queues of a switch in use at once, most, over the 256 that BFC has there",
        None,
        0.5,
        "one for each root behind a port, not for each flow",
    ),
    _number("pauses", "pauses sent, Pyrrha / BFC", None, 1.0, "one for a root, not for each flow that waits for it"),
    _number("control", "bytes of control frames, Pyrrha / BFC", None, 1.0, "one for a root, not for each queue"),
    _number("buffer", "largest buffer in use under Pyrrha (MB)", None, 20.97, "20 MiB would do, so its 32 MiB help nothing"),
    holds("lossless", "packets lost under any scheme", "all are lossless", "none", kind=OURS),
    holds("obeyed", "pauses that were not obeyed for want of queues", "256 isolation queues are enough", "none", kind=OURS),
)


# -- set-up


def specs(scale: str) -> dict[str, Spec]:
    """One for each buffer, with the same flows."""
    return {buffer: _spec(buffer, schemes, scale) for buffer, schemes in BUFFERS.items()}


def _spec(buffer: str, schemes: list[Scheme], scale: str) -> Spec:
    crowd = {**setup.incast([RECEIVER]), "start": "100ns", "hosts": list(range(POD, 128)), "pairs": "any"}
    return {
        "run": {"duration": f"{30 + ARRIVE_US[scale]}us", "max_time": "1s"},
        "topology": {**setup.FAT_TREE, "buffer": buffer},
        "host": PACKETS,
        "scheme": [{**scheme.table, "label": scheme.legend} for scheme in schemes],
        "workload": [setup.poisson("web_server", [RECEIVER]), crowd],
        "measure": {"sample": "0us"},
    }


# -- statistics


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """y: us of a statistic (panel) of a kind of flow (traffic), or a number of MEASURES, of each scheme (series)."""
    parts = []
    for buffer, schemes in BUFFERS.items():
        for scheme in schemes:
            label = f"{buffer}/{scheme.legend}"
            for kind, fct in times(ages.counted(runs, label, "receiver").collect()).items():
                numbers = (float(fct.mean()), float(np.quantile(fct, 0.99)))
                parts += [frames.rows(panel, scheme.legend, [0], [y], traffic=kind) for panel, y in zip(STATISTICS, numbers)]
            parts += [frames.rows(panel, scheme.legend, [0], [y], traffic="") for panel, y in used(runs, label).items()]
    return pl.concat(parts)


def times(flows: pl.DataFrame) -> dict[str, np.ndarray]:
    """Completion times (us) of each kind of flow."""
    incast = pl.col("class").cast(pl.String) == "incast"
    near = (pl.col("src") < POD) | (pl.col("dst") < POD)
    kept = {"uncongested": ~incast, "victims": ~incast & near, "others": ~incast & ~near, "incast": incast}
    return {kind: flows.filter(wanted)["fct_ns"].to_numpy() / 1e3 for kind, wanted in kept.items()}


def used(runs: Runs, label: str) -> dict[str, float]:
    """What the switches of a run needed."""
    said, ports = runs.summary(label), setup.ports(runs, label).filter(pl.col("tier") > 0)
    found = {
        "buffer": setup.max_buffer_mb(runs, label),
        "drops": said["drops"],
        "pauses": int(ports["pauses_sent"].sum()),
        "control": 100 * float(ports["control_bytes"].sum()) / float(ports["tx_bytes"].sum()),
    }
    refused = said.get("counts", {}).get("pyrrha.refused")
    return found if refused is None else {**found, "queues": setup.max_voqs(runs, label), "refused": refused}


def of(data: pl.DataFrame, panel: str, kind: str = "") -> dict[str, float]:
    """A number by scheme; NaN where there is none."""
    return {scheme.legend: frames.value(data, panel=panel, series=scheme.legend, traffic=kind) for scheme in ALL}


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Pyrrha against the best and the worst other approach."""
    found: Numbers = {}
    for panel in STATISTICS:
        taken = of(data, panel, "uncongested")
        others = {scheme.legend: taken[scheme.legend] for scheme in OTHERS}
        for end, (us, name) in {"best": setup.least(others), "worst": setup.most(others)}.items():
            ours = taken[PYRRHA.legend]
            found[f"{panel}-{end}"] = (1 - ours / us if panel == "average" else us / ours, name)
        crowd = of(data, panel, "incast")
        us, name = setup.least({scheme.legend: crowd[scheme.legend] for scheme in OTHERS})
        found[f"incast-{panel}"] = (crowd[PYRRHA.legend] / us, name)
    average, tail = of(data, "average", "uncongested"), of(data, "tail", "victims")
    queues, pauses, control, lost, refused = (of(data, panel) for panel in ("queues", "pauses", "control", "drops", "refused"))
    dropping = {name: number for name, number in lost.items() if number > 0}
    deaf = {name: number for name, number in refused.items() if number > 0}
    return {
        **found,
        **{f"{name.lower()}-average": average[name] / average[scheme.legend] for name, scheme in WITH.items()},
        "victims-tail": tail["DCQCN"] / tail[PYRRHA.legend],
        "queues": queues[PYRRHA.legend] / QUEUES,
        "pauses": pauses[PYRRHA.legend] / pauses["BFC"],
        "control": control[PYRRHA.legend] / control["BFC"],
        "buffer": of(data, "buffer")[PYRRHA.legend],
        "lossless": (not dropping, frames.text(dropping) or "none"),
        "obeyed": (not deaf, frames.text(deaf) or "none"),
    }


def plot(data: pl.DataFrame) -> Any:
    """Average and tail of the uncongested flows, average of those of the incast, and the largest buffer, by scheme."""
    made, grid = figure(1, 4, width=PAGE, height=2.9, sharey=True)
    places = np.arange(len(ALL))
    colours = [scheme.style["color"] for scheme in ALL]
    shown = [("average", "uncongested"), ("tail", "uncongested"), ("average", "incast"), ("buffer", "")]
    for axes, (panel, kind) in zip(grid, shown):
        heights = list(of(data, panel, kind).values())
        axes.barh(places, heights, 0.7, color=colours)
        for place, number in zip(places, heights):  # beside the bars and what their errors are
            text = f"{number:.0f}" if number >= 100 else f"{number:.3g}"
            axes.text(0.99, place, text, ha="right", va="center", size=6.5, transform=axes.get_yaxis_transform())
        axes.set_yticks(places, [scheme.legend for scheme in ALL], size=7)
        axes.grid(visible=False, axis="y")
        axes.set_xlim(0, 1.5 * max(heights))
        axes.set_xlabel(LABELS[panel])
    grid[0].invert_yaxis()
    lettered(grid, ("uncongested", "uncongested", "incast", "buffer"))
    return made
