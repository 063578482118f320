"""BFC (NSDI 2022), figure 19: FCT slowdown of Homa, BFC-SRF and IdealSRF under a 100-to-1 incast, 55 % and 5 %.

Appendix A.2, set-up in `_srf`: "we repeat the experiments in Fig. 9 and Fig. 11a (55% load plus 5% 100-1 incast traffic)". Flows
that share a queue with a longer one wait for all incast flows under BFC-SRF; under Homa the blind packets of incast flows, 200 KB
each, go ahead of the granted ones of flows of one to two BDP. Homa's levels are those of the workload without the incast.
"""

from typing import Any

import polars as pl

from penstock.experiments.bfc import _fabric as fabric
from penstock.experiments.bfc import _srf as srf
from penstock.experiments.bfc._srf import BDP, BFC_SRF, HOMA, HOMA_ECMP, IDEAL_SRF, SCHEMES, WORKLOADS, ratio
from penstock.experiments.cache import Runs, Spec
from penstock.experiments.claims import Claim, Differs, ascending, within

TITLE = "FCT slowdown of Homa and of BFC-SRF with incast"
PAPER = "BFC, NSDI 2022, appendix A.2, figure 19"
DURATION = {"quick": "2ms", "paper": "50ms"}
SEEDS = fabric.SEEDS
HIGHER = "the average FCT for short flows is higher with BFC-SRF"
FRACTION = "high completion times for a (small) fraction of short flows sharing queues with longer flows"
BETWEEN = "with Homa, flows with size greater than 1 BDP but less than 2 BDP have high FCTs at the tail"
RANGES = {"half BDP": (BDP / 2, BDP), "1 BDP": (BDP, 2 * BDP), "2 BDP": (2 * BDP, 4 * BDP)}  # panels
DIFFERS: dict[str, Differs] = {}


def specs(scale: str) -> dict[str, Spec]:
    """Both workloads, with Homa in buffers without a limit."""
    made: dict[str, Spec] = {}
    for sizes in WORKLOADS:
        spec = fabric.spec((BFC_SRF, IDEAL_SRF), DURATION[scale], sizes, incast=0.05)
        made |= srf.both(spec, sizes, sizes)
    return made


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: flow size; y: slowdown, by workload (traffic) and panel; RANGES: p99 of the flows of a range of sizes."""
    parts = []
    for sizes in WORKLOADS:
        for scheme in SCHEMES:
            parts.append(srf.statistics(runs, sizes, scheme, sizes))
            parts += [srf.tail_between(runs, sizes, scheme, panel, *ends) for panel, ends in RANGES.items()]
    return pl.concat(parts)


def claims(data: pl.DataFrame, scale: str) -> list[Claim]:
    """Whom the priority inversions of both schemes hurt."""
    return [claim for sizes in WORKLOADS for claim in _workload(data, sizes)]


def _workload(data: pl.DataFrame, sizes: str) -> list[Claim]:
    where = WORKLOADS[sizes]
    mean = {scheme.legend: fabric.value(data, sizes, scheme, "short avg") for scheme in SCHEMES}
    most = {panel: fabric.value(data, sizes, BFC_SRF, f"short {panel}") for panel in ("avg", "p95", "p99")}
    tail = {scheme.legend: {panel: fabric.value(data, sizes, scheme, panel) for panel in RANGES} for scheme in SCHEMES}
    others = [
        ratio(
            f"short-{scheme.label}-{sizes}",
            f"{where}: short flows (< 3 KB), average: BFC-SRF / {scheme.legend}",
            HIGHER,
            mean["BFC-SRF"] / mean[scheme.legend],
        )
        for scheme in (HOMA, IDEAL_SRF)
    ]
    return [
        *others,
        within(
            f"fraction-{sizes}",
            f"{where}: short flows, BFC-SRF: 99th percentile / 95th percentile",
            FRACTION,
            most["p99"] / most["p95"],
            1.5,
            why="high, as significantly: a factor of 1.5; a 99th percentile is always above the 95th",
        ),
        *(
            ratio(
                f"between-{scheme.label}-{sizes}",
                f"{where}: flows of 1 to 2 BDP, p99: {scheme.legend} / BFC-SRF",
                BETWEEN,
                tail[scheme.legend]["1 BDP"] / tail["BFC-SRF"]["1 BDP"],
            )
            for scheme in (HOMA, HOMA_ECMP)
        ),
        ascending(
            f"hump-{sizes}",
            f"{where}: Homa, p99 of flows of half to 1 BDP, and of 1 to 2 BDP",
            BETWEEN,
            {"half to 1": tail["Homa"]["half BDP"], "1 to 2": tail["Homa"]["1 BDP"]},
            quick=False,
        ),
        srf.drops(data, sizes),
    ]


def plot(data: pl.DataFrame) -> Any:
    """Average and tail by flow size, a row per workload."""
    made, grid = srf.panels(data)
    for axes in grid.flat:
        axes.axvspan(BDP, 2 * BDP, color="0.93", zorder=0)
    return made
