"""Floodgate (CoNEXT 2021), figure 11: where packets are stored and where Poisson flows queue, Web Server and Hadoop, DCQCN.

Section 6.1, see `_setup`: (a) the most that was stored for any port of a kind, virtual output queues included; (b) the average
queueing time of the packets of Poisson flows at the ports of a kind. ToR-Up is the first hop, ToR-Down the last. And the most
virtual output queues that any switch used at a time, in all workloads.
"""

from typing import Any

import polars as pl

from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import MORE, OURS, Differs
from penstock_papers.floodgate import _mix as mix
from penstock_papers.floodgate import _setup as setup
from penstock_papers.floodgate._mix import TRIO
from penstock_papers.floodgate._setup import DCQCN, FLOODGATE, HOPS, IDEAL, WORKLOADS, Scheme, value
from penstock_papers.sentences import Numbers, as_said, ascending, within
from penstock_papers.style import PAGE, figure, legend_above, lettered

TITLE = "Buffer and queueing time per hop"
PAPER = "Floodgate, CoNEXT 2021, section 6.1, figure 11"
SHOWN = {workload: WORKLOADS[workload] for workload in ("web_server", "hadoop")}
LARGEST = "the largest among all kinds, followed by buffer occupancy on core switches"
SMALLER = "the buffer occupancy on ToR-Up ports is smaller than Floodgate"
LARGER = "a relatively larger buffer occupancy on ToR-Up ports is observed"
SLIGHTLY = "A slightly larger buffer occupancy on ToR-Up ports does not affect flows' queuing time"
GREATLY = "the queuing time among each hop is greatly reduced"
SEEDS = setup.SEEDS
DIFFERS: dict[str, Differs] = {}
PRESSURE = "The buffer pressure put on the incast aggregation points is greatly reduced"
CLAIMS = (
    ascending("order", "DCQCN, Hadoop: buffer by hop (MB)", LARGEST),
    within(
        "tor-up-empty",
        "DCQCN, Hadoop: buffer of ToR-Up over that of ToR-Down",
        "the buffer occupancy on ToR-Up ports, i.e., the first hop of packets, is nearly zero",
        high=0.1,
        why="nearly zero: at most a tenth of the last hop's, and at least 0",
    ),
    within(
        "tor-up-storm",
        "DCQCN: buffer of ToR-Up, Web Server over Hadoop",
        "the maximum buffer occupancy on ToR-Up ports is also large because of the PFC frame storm",
        3,
        why=MORE,
    ),
    *(
        row
        for workload, name in SHOWN.items()
        for row in (
            as_said(f"less-{workload}-core", f"{name}: buffer of Core, DCQCN / Floodgate", PRESSURE, "greatly"),
            as_said(f"less-{workload}-tor-down", f"{name}: buffer of ToR-Down, DCQCN / Floodgate", PRESSURE, "greatly"),
            ascending(f"ideal-{workload}", f"{name}: buffer of ToR-Up (MB)", SMALLER),
        )
    ),
    ascending("tamed", "Hadoop: buffer of ToR-Up (MB)", LARGER),
    as_said("tamed-slightly", "Hadoop: buffer of ToR-Up, Floodgate / DCQCN", SLIGHTLY, "slightly"),
    within(
        "wait-web-server",
        "DCQCN, Web Server: share of ToR-Up in the queueing time",
        "packets spend much time on ToR-Up ports because of PFC frame storm",
        0.2,
        why="one of three hops with less than a fifth has not much, and a share is at most 1",
    ),
    within(
        "wait-hadoop",
        "DCQCN, Hadoop: share of the core in the queueing time",
        "the time spent on core switches constitutes most of the queuing time",
        0.5,
        why="most is more than half, and a share is at most 1",
    ),
    *(
        row
        for workload, name in SHOWN.items()
        for row in (
            as_said(
                f"sum-{workload}",
                f"{name}: queueing time of all hops, DCQCN / Floodgate",
                GREATLY,
                "greatly",
                kind=OURS,
            ),
            as_said(
                f"hops-{workload}",
                f"{name}: queueing time by hop, DCQCN / Floodgate, smallest ({{}})",
                GREATLY,
                "greatly",
            ),
        )
    ),
    within(
        "voqs",
        "Floodgate: most virtual output queues in use at a switch ({})",
        "at most one VOQ is used simultaneously by Floodgate's switch",
        0,
        1,
        quick=True,
        why="the paper's number, at most one",
    ),
)


def specs(scale: str) -> dict[str, Spec]:
    """The incast mix of every workload."""
    return mix.specs(scale)


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: 0; y: MB or us by hop (`panel`: "buffer Core"), and the number of virtual output queues."""
    parts = [mix.numbers(runs, "VOQs", lambda runs, label: float(setup.max_voqs(runs, label)))]
    for workload in SHOWN:
        for scheme in TRIO:
            label = setup.of(runs, workload, scheme)
            for what, hops in (("buffer", setup.hop_buffers(runs, label)), ("queueing", setup.queueing(runs, label))):
                parts += [setup.rows(f"{what} {hop}", scheme.legend, [0], [y], workload) for hop, y in hops.items()]
    return pl.concat(parts)


def by_hop(data: pl.DataFrame, what: str, scheme: Scheme, workload: str) -> dict[str, float]:
    """MB or us at each hop."""
    return {hop: value(data, f"{what} {hop}", scheme.legend, workload) for hop in HOPS}


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Where DCQCN stores the incast and queues other flows, what Floodgate moves, and the gain."""
    voqs = {name: value(data, "VOQs", FLOODGATE.legend, workload) for workload, name in WORKLOADS.items()}
    return {**_buffers(data), **_queueing(data), "voqs": setup.most(voqs)}


def _buffers(data: pl.DataFrame) -> Numbers:
    mb = {workload: {s.legend: by_hop(data, "buffer", s, workload) for s in TRIO} for workload in SHOWN}
    alone, storm = (mb[workload][DCQCN.legend] for workload in ("hadoop", "web_server"))
    found: Numbers = {
        "order": alone,
        "tor-up-empty": alone["ToR-Up"] / alone["ToR-Down"],
        "tor-up-storm": storm["ToR-Up"] / alone["ToR-Up"],
    }
    for workload, schemes in mb.items():
        dcqcn, ours, _ = schemes.values()
        for hop in ("Core", "ToR-Down"):
            found[f"less-{workload}-{hop.lower()}"] = dcqcn[hop] / ours[hop]
        found[f"ideal-{workload}"] = {s.legend: schemes[s.legend]["ToR-Up"] for s in (IDEAL, FLOODGATE)}
    up = {s.legend: mb["hadoop"][s.legend]["ToR-Up"] for s in (DCQCN, FLOODGATE)}
    return {**found, "tamed": up, "tamed-slightly": up[FLOODGATE.legend] / up[DCQCN.legend]}


def _queueing(data: pl.DataFrame) -> Numbers:
    storm, alone = (by_hop(data, "queueing", DCQCN, workload) for workload in ("web_server", "hadoop"))
    found: Numbers = {
        "wait-web-server": storm["ToR-Up"] / sum(storm.values()),
        "wait-hadoop": alone["Core"] / sum(alone.values()),
    }
    for workload in SHOWN:
        dcqcn, ours = (by_hop(data, "queueing", scheme, workload) for scheme in (DCQCN, FLOODGATE))
        found[f"sum-{workload}"] = sum(dcqcn.values()) / sum(ours.values())
        found[f"hops-{workload}"] = setup.least({hop: dcqcn[hop] / ours[hop] for hop in HOPS})
    return found


def plot(data: pl.DataFrame) -> Any:
    """Buffers on the left, queueing times on the right."""
    made, axes = figure(1, 4, width=PAGE, height=2.2)
    panels = [(what, workload) for what in ("buffer", "queueing") for workload in SHOWN]
    for panel, (what, workload) in zip(axes, panels):
        heights = {scheme.legend: list(by_hop(data, what, scheme, workload).values()) for scheme in TRIO}
        mix.bars(panel, list(HOPS), heights, mix.COLOURS.values())
        panel.set_ylabel("maximum buffer (MB)" if what == "buffer" else "queueing time (us)")
    lettered(axes, [f"{WORKLOADS[workload]}" for _, workload in panels])
    legend_above(made, axes[0], columns=3)
    return made
