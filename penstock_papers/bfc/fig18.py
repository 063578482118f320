"""BFC (NSDI 2022), figure 18: FCT slowdown of Homa, BFC-SRF and IdealSRF at one receiver, from senders in its rack.

Appendix A.2, schemes in `_srf`: the "same Google and Facebook workloads but with all flows destined to a single receiver, and the
senders located within the same rack as the receiver. Since there is no traffic in the core, load balancing (ECMP vs. packet
spraying) does not matter in this case. Flow arrivals are log-normal and the load on the receiver's link is 60%". 15 senders, 1 us
per link. Facebook's flows arrive for 500 ms: 30 800 of them; 50 ms would have 3 080, too few for a tail by size.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from penstock_net import SizeDistribution
from penstock_papers.bfc import _fabric as fabric
from penstock_papers.bfc import _srf as srf
from penstock_papers.bfc._srf import BDP, BFC_SRF, HOMA_ECMP, IDEAL_SRF, WORKLOADS, over_sizes, ratio
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import Differs
from penstock_papers.sentences import Numbers

TITLE = "FCT slowdown of Homa and of BFC-SRF within a rack"
PAPER = "BFC, NSDI 2022, appendix A.2, figure 18"
SEEDS = fabric.SEEDS
MS = {"quick": {"google": 2, "facebook_hadoop": 20}, "paper": {"google": 50, "facebook_hadoop": 500}}
RACK: dict[str, Any] = {"kind": "star", "hosts": 16, "rate": "100Gbps", "delay": "1us", "buffer": "12MB"}
RECEIVER, LOAD, SIGMA = 15, 0.6, 2.0
HOMA = replace(HOMA_ECMP, legend="Homa", nth=0)
SHOWN = (HOMA, BFC_SRF, IDEAL_SRF)
TAIL = "BFC-SRF achieves better FCTs primarily at the tail"
CLOSE = "BFC-SRF achieves close to optimal FCTs"
MEAN = "mean over the size bins: Homa / BFC-SRF"
LONGER = "increases FCT for flows larger than a BDP"
DIFFERS: dict[str, Differs] = {}


CLAIMS = tuple(
    row
    for sizes, where in WORKLOADS.items()
    for row in (
        ratio(f"tail-{sizes}", f"{where}: {MEAN}, p99", TAIL),
        ratio(f"primarily-{sizes}", f"{where}: {MEAN}, p99, over the same of the averages", TAIL),
        *srf.close(sizes, CLOSE),
        ratio(f"beyond-{sizes}", f"{where}: flows > 1 BDP, p99: Homa / BFC-SRF", LONGER),
        srf.no_drops(sizes),
    )
)


def specs(scale: str, seed: int = 1) -> dict[str, Spec]:
    """Both workloads, with Homa in buffers without a limit."""
    made: dict[str, Spec] = {}
    for sizes in WORKLOADS:
        spec = {
            "run": {"duration": f"{MS[scale][sizes]}ms", "seed": seed, "drain": False},
            "topology": RACK,
            "scheme": [{**scheme.table, "label": scheme.label} for scheme in (BFC_SRF, IDEAL_SRF)],
            "workload": [{"kind": "list", "class": "poisson", "flows": flows(sizes, MS[scale][sizes], seed)}],
            "measure": {"sample": "100us"},
        }
        made |= srf.both(spec, sizes, sizes, (HOMA,))
    return made


def flows(sizes: str, ms: int, seed: int) -> list[list[Any]]:
    """Sender, receiver, bytes and start of flows of 60 % load with lognormal gaps."""
    rng, distribution = np.random.default_rng([18, seed, ms]), SizeDistribution.load(sizes)
    gap_ns = distribution.mean() * 8 / (LOAD * 100)
    gaps = rng.lognormal(np.log(gap_ns) - SIGMA**2 / 2, SIGMA, int(1.5 * ms * 1e6 / gap_ns) + 100)
    starts = np.cumsum(gaps)
    starts = starts[starts < ms * 1e6]
    senders, lengths = rng.integers(RECEIVER, size=len(starts)), distribution.sample(rng, len(starts))
    return [[int(src), RECEIVER, int(size), f"{int(1000 * start)}ps"] for src, size, start in zip(senders, lengths, starts)]


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: flow size; y: slowdown, by workload (traffic) and panel; panel "beyond": flows > 1 BDP, p99."""
    parts = []
    for sizes in WORKLOADS:
        for scheme in SHOWN:
            parts.append(srf.statistics(runs, sizes, scheme, sizes))
            parts.append(srf.tail_between(runs, sizes, scheme, "beyond", BDP))
    return pl.concat(parts)


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """BFC-SRF beside Homa and beside IdealSRF."""
    return {id: number for sizes in WORKLOADS for id, number in _workload(data, sizes).items()}


def _workload(data: pl.DataFrame, sizes: str) -> Numbers:
    average, tail = (over_sizes(data, sizes, HOMA, BFC_SRF, panel) for panel in ("avg", "p99"))
    return {
        f"tail-{sizes}": tail,
        f"primarily-{sizes}": tail / average,
        **srf.beside_ideal(data, sizes),
        f"beyond-{sizes}": fabric.value(data, sizes, HOMA, "beyond") / fabric.value(data, sizes, BFC_SRF, "beyond"),
        f"{sizes}-drops": srf.dropped(data, sizes),
    }


def plot(data: pl.DataFrame) -> Any:
    """Average and tail by flow size, a row per workload."""
    return srf.panels(data, SHOWN)[0]
