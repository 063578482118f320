"""Common set-up of figures 17 to 19 and table 2 of BFC (NSDI 2022), appendix A.2: shortest remaining flow first.

Fabric and traffic are those of `_fabric`, with the load of section 6.2.1. BFC-SRF is the BFC of all figures with queues served by
the remaining size of their first packet (`bfc+srf`); IdealSRF+ECMP is `ideal_fq+srf`: a queue per flow, no limit of the buffer.

Homa sprays packets (`homa+spray`) or has a path per flow (ECMP). "The Homa simulator assumes unbounded buffers at the switch. For
BFC, we use a 12 MB shared buffer. We use 32 queues for both". "The 32 priority levels are divided between unscheduled and
scheduled priorities based on the ratio of unscheduled and scheduled traffic; the overcommitment level is equal to the number of
scheduled priorities". Unscheduled is "first BDP of traffic": 104 KB, the window of the authors' simulator. Cutoffs give each
unscheduled level the same share of the bytes (Homa, section 3.4). Packets are ours, 1000 B and 48 B of headers, for all schemes.
"""

from collections.abc import Collection, Iterable
from typing import Any

import polars as pl

from penstock_papers import ages, blind, frames
from penstock_papers.bfc import _fabric as fabric
from penstock_papers.bfc._fabric import BFC
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import MORE
from penstock_papers.frames import Scheme
from penstock_papers.sentences import Numbers, Row, within
from penstock_papers.style import PAGE, figure, legend_above, lettered, log_axis, size_text

BDP = 104_000
PRIORITIES = 32
BFC_SRF = Scheme("BFC-SRF", {**BFC.table, "name": "bfc+srf"}, run="bfc-srf")
IDEAL_SRF = Scheme("IdealSRF+ECMP", {"name": "ideal_fq+srf"}, run="ideal-srf")
HOMA = Scheme("Homa", {"name": "homa+spray"}, run="homa")
HOMA_ECMP = Scheme("Homa ECMP", {"name": "homa"}, nth=2, run="homa-ecmp")
HOMAS = (HOMA, HOMA_ECMP)
SCHEMES = (*HOMAS, BFC_SRF, IDEAL_SRF)
WORKLOADS = {"google": "Google", "facebook_hadoop": "Facebook"}
STATISTICS = {"avg": "average", "p99": "99th percentile"}
CLOSE, CLOSE_IS = (1 / 1.5, 1.5), "close is at most half as much again, as in figure 12"
NEVER = "10s"  # Homa's timers: its simulator drops nothing and has none
UNBOUNDED = "-unbounded"  # of the specs whose switches have no limit of the buffer


def homa(scheme: Scheme, sizes: str) -> dict[str, Any]:
    """The [[scheme]] table of Homa for a distribution of sizes."""
    unscheduled = blind.levels(sizes, PRIORITIES, BDP)
    settings = {
        "rtt_bytes": BDP,
        "priorities": PRIORITIES,
        "unscheduled": unscheduled,
        "cutoffs": blind.cutoffs(sizes, unscheduled, BDP),
        "resend": NEVER,
    }
    return {**scheme.table, "homa": settings, "label": scheme.label}


def both(spec: Spec, name: str, sizes: str, homas: Iterable[Scheme] = HOMAS) -> dict[str, Spec]:
    """A spec as it is, and one of the same traffic with Homa and buffers without a limit."""
    unbounded = {**spec["topology"], "buffer": "0B"}
    tables = [homa(each, sizes) for each in homas]
    return {name: spec, name + UNBOUNDED: {**spec, "topology": unbounded, "scheme": tables, "host": {"rto": NEVER}}}


def of(traffic: str, scheme: Scheme) -> str:
    """The name of the spec that has a scheme."""
    return traffic + UNBOUNDED if scheme.label in (HOMA.label, HOMA_ECMP.label) else traffic


def statistics(runs: Runs, traffic: str, scheme: Scheme, sizes: str) -> pl.DataFrame:
    """The statistics of `_fabric`, and drops."""
    spec = of(traffic, scheme)
    found = pl.concat([fabric.statistics(runs, spec, scheme, sizes), fabric.totals(runs, spec, scheme)])
    return found.with_columns(traffic=pl.lit(traffic))


def tail_between(runs: Runs, traffic: str, scheme: Scheme, panel: str, low: float, high: float | None = None) -> pl.DataFrame:
    """p99 of the slowdown of the flows of more than `low` and at most `high` bytes, without incast flows."""
    spec = of(traffic, scheme)
    flows = fabric.counted(runs, fabric.of(runs, spec, scheme)).filter(pl.col("bytes") > low)
    flows = flows if high is None else flows.filter(pl.col("bytes") <= high)
    found = flows.select(ages.number_finished().alias("flows"), pl.col("slowdown").quantile(0.99, "linear")).collect()
    return fabric.points(traffic, scheme, panel, [low], found["slowdown"], found["flows"])


def over_sizes(data: pl.DataFrame, traffic: str, one: Scheme, other: Scheme, panel: str) -> float:
    """The ratio of two schemes' slowdowns, the mean over the size bins that both have."""
    one_s, other_s = (fabric.curve(data, traffic, each.label, panel).select("x", "y") for each in (one, other))
    both_s = one_s.sort("x").with_row_index("bin").join(other_s.sort("x").with_row_index("bin"), on="bin").drop_nulls()
    return float((both_s["y"] / both_s["y_right"]).mean())  # type: ignore[arg-type]


def close(traffic: str, said: str) -> list[Row]:
    """BFC-SRF beside IdealSRF, over all sizes; the numbers are those of `beside_ideal`."""
    return [
        within(
            f"ideal-{traffic}-{panel}",
            f"{WORKLOADS[traffic]}: {text}, mean over the size bins: BFC-SRF / IdealSRF+ECMP",
            said,
            *CLOSE,
            why=CLOSE_IS,
        )
        for panel, text in STATISTICS.items()
    ]


def beside_ideal(data: pl.DataFrame, traffic: str) -> Numbers:
    """The numbers of `close`."""
    return {f"ideal-{traffic}-{panel}": over_sizes(data, traffic, BFC_SRF, IDEAL_SRF, panel) for panel in STATISTICS}


def no_drops(traffic: str) -> Row:
    """None under BFC-SRF; the number is that of `dropped`."""
    return fabric.no_drops(f"{traffic}-", f"{WORKLOADS[traffic]}: ")


def dropped(data: pl.DataFrame, traffic: str) -> float:
    """Packets dropped under BFC-SRF."""
    return fabric.dropped(data, traffic, (BFC_SRF,))


def ratio(id: str, claim: str, said: str) -> Row:
    """A factor above one, where the paper says which of two is better and gives no number."""
    return within(id, claim, said, 1, why=MORE)


def panels(data: pl.DataFrame, schemes: Collection[Scheme] = SCHEMES) -> tuple[Any, Any]:
    """The figure and its axes: average and tail by flow size, a row per workload."""
    made, grid = figure(2, 2, width=PAGE, height=4.9)
    for row, sizes in zip(grid, WORKLOADS):
        for axes, panel in zip(row, STATISTICS):
            draw(axes, data, sizes, panel, schemes)
    lettered(grid.flat, [f"{where}, {text}" for where in WORKLOADS.values() for text in STATISTICS.values()])
    legend_above(made, grid[0, 0], columns=len(schemes))
    return made, grid


def draw(axes: Any, data: pl.DataFrame, traffic: str, panel: str, schemes: Iterable[Scheme]) -> None:
    """FCT slowdown by flow size."""
    for scheme in schemes:
        line = frames.chosen(data, traffic=traffic, scheme=scheme.label, panel=panel).drop_nulls("y")
        axes.plot(line["x"], line["y"], label=scheme.legend, **scheme.style)
    log_axis(axes.xaxis, size_text)
    log_axis(axes.yaxis, None, (1, 1.5, 2, 3, 5))
    axes.set(xlabel="Flow size", ylabel="FCT slowdown")
