"""BFC (NSDI 2022), figure 17: FCT slowdown of Homa, Homa with ECMP, BFC-SRF and IdealSRF+ECMP, Google and Facebook at 60 %.

Appendix A.2, set-up in `_srf`: "We repeat the experiments in Fig. 10 and Fig. 11b for the Google and Facebook workloads at 60%
load (log-normal flow arrivals without incast)".
"""

from typing import Any

import polars as pl

from penstock.experiments.bfc import _fabric as fabric
from penstock.experiments.bfc import _srf as srf
from penstock.experiments.bfc._srf import BFC_SRF, HOMA, HOMA_ECMP, IDEAL_SRF, SCHEMES, STATISTICS, WORKLOADS, over_sizes, ratio
from penstock.experiments.cache import Runs, Spec
from penstock.experiments.claims import OURS, Claim, Differs, about, ascending

TITLE = "FCT slowdown of Homa and of BFC with shortest remaining flow first"
PAPER = "BFC, NSDI 2022, appendix A.2, figure 17"
DURATION = {"quick": {"google": "1ms", "facebook_hadoop": "2ms"}, "paper": dict.fromkeys(WORKLOADS, "50ms")}
SEEDS = fabric.SEEDS
BEST = "Homa performs the best out of all schemes, achieving up to 2\u00d7 better FCTs for long flows"
EVEN = "Homa even outperforms IdealSRF+ECMP"
AMONG = "Among the ECMP approaches, BFC-SRF is close to Ideal-SRF+ECMP and Homa is worse"
DIFFERS: dict[str, Differs] = {}


def specs(scale: str) -> dict[str, Spec]:
    """Both workloads, with Homa in buffers without a limit."""
    return {
        label: spec
        for sizes in WORKLOADS
        for label, spec in srf.both(fabric.spec((BFC_SRF, IDEAL_SRF), DURATION[scale][sizes], sizes), sizes, sizes).items()
    }


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: flow size; y: slowdown, by workload (traffic) and panel."""
    return pl.concat(srf.statistics(runs, sizes, scheme, sizes) for sizes in WORKLOADS for scheme in SCHEMES)


def claims(data: pl.DataFrame, scale: str) -> list[Claim]:
    """Homa first with spraying and last without; BFC-SRF close to IdealSRF."""
    gain = {sizes: _long(data, sizes, BFC_SRF) / _long(data, sizes, HOMA) for sizes in WORKLOADS}
    most = max(gain, key=gain.__getitem__)
    return [
        about(
            "long-2x",
            f"flows > 3 MB, average: BFC-SRF / Homa, the larger of both workloads ({WORKLOADS[most]})",
            BEST,
            gain[most],
            2,
            gain=True,
        ),
        *(claim for sizes in WORKLOADS for claim in _workload(data, sizes)),
    ]


def _long(data: pl.DataFrame, sizes: str, scheme: fabric.Scheme) -> float:
    return fabric.value(data, sizes, scheme, "long avg")


def _workload(data: pl.DataFrame, sizes: str) -> list[Claim]:
    where, others = WORKLOADS[sizes], (HOMA_ECMP, BFC_SRF, IDEAL_SRF)
    found = []
    for panel, text in STATISTICS.items():
        over = {scheme.legend: over_sizes(data, sizes, scheme, HOMA, panel) for scheme in others}
        best = min(over, key=over.__getitem__)
        what = f"{where}: {text}, mean over the size bins"
        found.append(ratio(f"best-{sizes}-{panel}", f"{what}: best other scheme ({best}) / Homa", BEST, over[best]))
        worse = over_sizes(data, sizes, HOMA_ECMP, BFC_SRF, panel)
        found.append(ratio(f"ecmp-{sizes}-{panel}", f"{what}: Homa ECMP / BFC-SRF", AMONG, worse))
    long = {scheme.legend: _long(data, sizes, scheme) for scheme in (HOMA, IDEAL_SRF)}
    return [
        *found,
        ratio(
            f"even-{sizes}", f"{where}: flows > 3 MB, average: IdealSRF+ECMP / Homa", EVEN, long["IdealSRF+ECMP"] / long["Homa"]
        ),
        *srf.close(data, sizes, AMONG),
        ascending(
            f"spray-{sizes}",
            f"{where}: slowdown over that of IdealSRF+ECMP, p99, mean over the size bins",
            "packet spraying essentially eliminates congestion on the core links",
            {scheme.legend: over_sizes(data, sizes, scheme, IDEAL_SRF, "p99") for scheme in (HOMA, HOMA_ECMP)},
            kind=OURS,
        ),
        srf.drops(data, sizes),
    ]


def plot(data: pl.DataFrame) -> Any:
    """Average and tail by flow size, a row per workload."""
    return srf.panels(data)[0]
