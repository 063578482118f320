"""Floodgate (CoNEXT 2021), figure 13: the incast mix on a fat tree with k = 8: completion times, and buffers of every hop.

Section 6.2. The traffic of `_setup` for 128 hosts: a host sends as many flows of an incast as on the leaf-spine network, so 576
come instead of 720, and its receiver is the first host of each pod in turn (8 of 128 hosts, there 10 of 160), at the same
loads. Everything is 100 Gbit/s. "Significantly" is judged by the mean of the workloads, since even on the better topology one
of them gains no more than a tenth (section 1: "10.1% - 98.1%"). Effectiveness is the reduction of the average, in which the
paper has all its numbers. The same traffic on the leaf-spine network, which is figure 8's, says whether the gain is smaller.
"""

from typing import Any

import numpy as np
import polars as pl

from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import MORE, OURS, Differs
from penstock_papers.floodgate import _setup as setup
from penstock_papers.floodgate._setup import DCQCN, FLOODGATE, IDEAL, WORKLOADS, value
from penstock_papers.sentences import Numbers, as_said, holds, within
from penstock_papers.style import PAGE, figure, legend_above, lettered, log_axis

TITLE = "An 8-ary fat tree: completion times and buffers of every hop"
PAPER = "Floodgate, CoNEXT 2021, section 6.2, figure 13"
HOPS = {"Edge-Up": (1, 2), "Agg-Up": (2, 3), "Core": (3, 2), "Agg-Down": (2, 1), "Edge-Down": (1, 0)}
RECEIVERS = list(range(0, 128, 16))
FAN_IN = 720 * 128 // 160
SCHEMES = (DCQCN, FLOODGATE, IDEAL)
SHOWN = ("memcached", "web_server")  # whose buffers are drawn, and which are run at scale quick
SEEDS = setup.LONG_SEEDS
FASTER = "reduces the average FCT and tail latency of Poisson flows significantly, especially for Memcached"
DIFFERS: dict[str, Differs] = {}
AGGREGATION = {"Edge-Down": "last hop", "Agg-Down": "hop before it"}
BARS = "(the figure's bars; the text has no sentence)"
CLAIMS = (
    *(
        row
        for id, what in (("average", "average FCT"), ("tail", "99th percentile"))
        for row in (
            as_said(id, f"{what}: without / with Floodgate, geometric mean of the workloads", FASTER, "significantly"),
            as_said(f"{id}-least", f"{what}: without / with Floodgate, smallest ({{}})", FASTER, "significantly", kind=OURS),
        )
    ),
    within(
        "memcached-gain",
        "Memcached: average FCT without / with Floodgate",
        FASTER,
        2,
        why='"especially": more than the 1.5 of "significantly"; a larger gain agrees',
    ),
    holds("memcached", "the workload with the largest gain", FASTER, "Memcached"),
    *(
        as_said(
            f"smaller-{workload}",
            f"{name}: reduction of the average FCT, leaf-spine / fat tree",
            "The effectiveness of Floodgate is slightly smaller than in the two-tier topology",
            "slightly",
        ).at(*([] if workload in SHOWN else ["paper"]))
        for workload, name in WORKLOADS.items()
    ),
    *(
        within(
            f"buffer-{hop.lower()}",
            f"most stored at the {which} ({hop}): without / with Floodgate, smallest ({{}})",
            BARS,
            1,
            quick=True,
            kind=OURS,
            why=MORE,
        )
        for hop, which in AGGREGATION.items()
    ),
)


def shown(scale: str) -> tuple[str, ...]:
    """The workloads of a scale."""
    return SHOWN if scale == "quick" else tuple(WORKLOADS)


def specs(scale: str) -> dict[str, Spec]:
    """Per workload the fat tree with three schemes, and the leaf-spine network with two."""
    found = {}
    for workload in shown(scale):
        traffic = [setup.poisson(workload, RECEIVERS), setup.incast(RECEIVERS, FAN_IN)]
        found[workload] = setup.spec(SCHEMES, traffic, setup.DURATION[scale][workload], setup.FAT_TREE)
        found[f"leaf-spine {workload}"] = setup.mix((DCQCN, FLOODGATE), workload, scale)
    return found


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """Panels "average" and "99th percentile": y us; "leaf-spine average" likewise; "buffer": x number of the hop, y MB."""
    parts = []
    for workload in shown(scale):
        for scheme in SCHEMES:
            label = setup.of(runs, workload, scheme)
            average, tail = setup.fct(runs, label)
            hops = setup.hop_buffers(runs, label, HOPS)
            parts += [
                setup.rows("average", scheme.legend, [0], [average], workload),
                setup.rows("99th percentile", scheme.legend, [0], [tail], workload),
                setup.rows("buffer", scheme.legend, range(len(HOPS)), list(hops.values()), workload),
            ]
        for scheme in (DCQCN, FLOODGATE):
            average, _ = setup.fct(runs, setup.of(runs, f"leaf-spine {workload}", scheme))
            parts.append(setup.rows("leaf-spine average", scheme.legend, [0], [average], workload))
    return pl.concat(parts)


def gains(data: pl.DataFrame, panel: str) -> dict[str, float]:
    """Time without over time with Floodgate, by workload."""
    return {
        name: value(data, panel, "DCQCN", workload) / value(data, panel, "DCQCN+Floodgate", workload)
        for workload, name in WORKLOADS.items()
        if workload in set(data["traffic"])
    }


def reduction(gain: float) -> float:
    """By which share a time is shorter."""
    return 1 - 1 / gain


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Faster, Memcached most, by slightly less than on the leaf-spine network; less buffer where the incast accumulates."""
    average, tail, two_tiers = (gains(data, panel) for panel in ("average", "99th percentile", "leaf-spine average"))
    best = max(average, key=average.__getitem__)
    found: Numbers = {
        "average": setup.mean_ratio(average),
        "average-least": setup.least(average),
        "tail": setup.mean_ratio(tail),
        "tail-least": setup.least(tail),
        "memcached-gain": average["Memcached"],
        "memcached": (best == "Memcached", best),
        **{f"smaller-{w}": reduction(two_tiers[WORKLOADS[w]]) / reduction(average[WORKLOADS[w]]) for w in shown(scale)},
    }
    for hop in AGGREGATION:
        x = list(HOPS).index(hop)
        without, with_it = ({w: value(data, "buffer", s.legend, w, x) for w in shown(scale)} for s in (DCQCN, FLOODGATE))
        found[f"buffer-{hop.lower()}"] = setup.least({WORKLOADS[w]: without[w] / with_it[w] for w in without})
    return found


def plot(data: pl.DataFrame) -> Any:
    """Completion times of the workloads above; buffers by hop below."""
    workloads = [workload for workload in WORKLOADS if workload in set(data["traffic"])]
    made, grid = figure(2, 2, width=PAGE, height=4)
    for axes, panel in zip(grid[0], ("average", "99th percentile")):
        for i, scheme in enumerate(SCHEMES):
            heights = [value(data, panel, scheme.legend, workload) for workload in workloads]
            axes.bar(
                np.arange(len(workloads)) + 0.27 * (i - 1), heights, 0.25, color=setup.COLOURS[scheme.legend], label=scheme.legend
            )
        axes.set_xticks(range(len(workloads)), [WORKLOADS[workload] for workload in workloads])
        axes.set_ylabel("FCT (us)")
        log_axis(axes.yaxis)
        axes.set_ylim(bottom=1)
        axes.grid(visible=False, axis="x")
    for axes, workload in zip(grid[1], SHOWN):
        for i, scheme in enumerate(SCHEMES):
            heights = [value(data, "buffer", scheme.legend, workload, x) for x in range(len(HOPS))]
            axes.bar(np.arange(len(HOPS)) + 0.27 * (i - 1), heights, 0.25, color=setup.COLOURS[scheme.legend])
        axes.set_xticks(range(len(HOPS)), [hop.replace("-", "-\n") for hop in HOPS])
        axes.set_ylabel("Port buffer (MB)")
        axes.grid(visible=False, axis="x")
    lettered(grid.flat, ["average", "99th percentile", *(f"buffers, {WORKLOADS[workload]}" for workload in SHOWN)])
    legend_above(made, grid[0, 0], columns=3)
    return made
