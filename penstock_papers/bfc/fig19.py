"""BFC (NSDI 2022), figure 19: FCT slowdown of Homa, BFC-SRF and IdealSRF under a 100-to-1 incast, 55 % and 5 %.

Appendix A.2, set-up in `_srf`: "we repeat the experiments in Fig. 9 and Fig. 11a (55% load plus 5% 100-1 incast traffic)". Flows
that share a queue with a longer one wait for all incast flows under BFC-SRF; under Homa the blind packets of incast flows, 200 KB
each, go ahead of the granted ones of flows of one to two BDP. Homa's levels are those of the workload without the incast.
"""

from dataclasses import replace
from typing import Any

import polars as pl

from penstock_papers.bfc import _fabric as fabric
from penstock_papers.bfc import _srf as srf
from penstock_papers.bfc._srf import BDP, BFC_SRF, HOMA, HOMA_ECMP, IDEAL_SRF, SCHEMES, WORKLOADS, ratio
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import MORE, OURS, Differs
from penstock_papers.sentences import Numbers, within

TITLE = "FCT slowdown of Homa and of BFC-SRF with incast"
PAPER = "BFC, NSDI 2022, appendix A.2, figure 19"
DURATION = {"quick": "2ms", "paper": "50ms"}
SEEDS = fabric.SEEDS
HIGHER = "the average FCT for short flows is higher with BFC-SRF"
FRACTION = "high completion times for a (small) fraction of short flows sharing queues with longer flows"
BETWEEN = "with Homa, flows with size greater than 1 BDP but less than 2 BDP have high FCTs at the tail"
RANGES = {"half BDP": (BDP / 2, BDP), "1 BDP": (BDP, 2 * BDP), "2 BDP": (2 * BDP, 4 * BDP)}  # panels
DIFFERS: dict[str, Differs] = {}


CLAIMS = tuple(
    row
    for sizes, where in WORKLOADS.items()
    for row in (
        *(
            ratio(f"short-{each.label}-{sizes}", f"{where}: short flows (< 3 KB), average: BFC-SRF / {each.legend}", HIGHER)
            for each in (HOMA, IDEAL_SRF)
        ),
        within(
            f"fraction-{sizes}",
            f"{where}: short flows, BFC-SRF: 99th percentile / 95th percentile",
            FRACTION,
            1.5,
            why="high, as significantly: a factor of 1.5; a 99th percentile is always above the 95th",
        ),
        *(
            within(
                f"hump-{each.label}-{sizes}",
                f"{where}: {each.legend}, p99: flows of 1 to 2 BDP / of half to 1 BDP",
                BETWEEN,
                1.5,
                why=f"high beside smaller flows, of the same curve: a factor of 1.5, as significantly; {MORE}",
            )
            for each in (HOMA, HOMA_ECMP)
        ),
        *(
            replace(
                ratio(f"between-{each.label}-{sizes}", f"{where}: flows of 1 to 2 BDP, p99: {each.legend} / BFC-SRF", ""),
                kind=OURS,
            )
            for each in (HOMA, HOMA_ECMP)
        ),
        srf.no_drops(sizes),
    )
)


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


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Whom the priority inversions of both schemes hurt."""
    return {id: number for sizes in WORKLOADS for id, number in _workload(data, sizes).items()}


def _workload(data: pl.DataFrame, sizes: str) -> Numbers:
    def of(scheme: fabric.Scheme, panel: str) -> float:
        return fabric.value(data, sizes, scheme, panel)

    return {
        **{f"short-{each.label}-{sizes}": of(BFC_SRF, "short avg") / of(each, "short avg") for each in (HOMA, IDEAL_SRF)},
        f"fraction-{sizes}": of(BFC_SRF, "short p99") / of(BFC_SRF, "short p95"),
        **{f"between-{each.label}-{sizes}": of(each, "1 BDP") / of(BFC_SRF, "1 BDP") for each in (HOMA, HOMA_ECMP)},
        **{f"hump-{each.label}-{sizes}": of(each, "1 BDP") / of(each, "half BDP") for each in (HOMA, HOMA_ECMP)},
        f"{sizes}-drops": srf.dropped(data, sizes),
    }


def plot(data: pl.DataFrame) -> Any:
    """Average and tail by flow size, a row per workload."""
    made, grid = srf.panels(data)
    for axes in grid.flat:
        axes.axvspan(BDP, 2 * BDP, color="0.93", zorder=0)
    return made
