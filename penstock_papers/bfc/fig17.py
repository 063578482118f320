"""BFC (NSDI 2022), figure 17: FCT slowdown of Homa, Homa with ECMP, BFC-SRF and IdealSRF+ECMP, Google and Facebook at 60 %.

Appendix A.2, set-up in `_srf`: "We repeat the experiments in Fig. 10 and Fig. 11b for the Google and Facebook workloads at 60%
load (log-normal flow arrivals without incast)".
"""

from typing import Any

import polars as pl

from penstock_papers.bfc import _fabric as fabric
from penstock_papers.bfc import _srf as srf
from penstock_papers.bfc._srf import BFC_SRF, HOMA, HOMA_ECMP, IDEAL_SRF, SCHEMES, STATISTICS, WORKLOADS, over_sizes, ratio
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import OURS, Differs
from penstock_papers.sentences import Numbers, about, ascending

TITLE = "FCT slowdown of Homa and of BFC with shortest remaining flow first"
PAPER = "BFC, NSDI 2022, appendix A.2, figure 17"
DURATION = {"quick": {"google": "1ms", "facebook_hadoop": "2ms"}, "paper": dict.fromkeys(WORKLOADS, "50ms")}
SEEDS = fabric.SEEDS
BEST = "Homa performs the best out of all schemes, achieving up to 2\u00d7 better FCTs for long flows"
EVEN = "Homa even outperforms IdealSRF+ECMP"
AMONG = "Among the ECMP approaches, BFC-SRF is close to Ideal-SRF+ECMP and Homa is worse"
DIFFERS: dict[str, Differs] = {}


CLAIMS = (
    about("long-2x", "flows > 3 MB, average: BFC-SRF / Homa, the larger of both workloads ({})", BEST, 2, gain=True),
    *(
        row
        for sizes, where in WORKLOADS.items()
        for row in (
            *(
                each
                for panel, text in STATISTICS.items()
                for what in [f"{where}: {text}, mean over the size bins"]
                for each in (
                    ratio(f"best-{sizes}-{panel}", f"{what}: best other scheme ({{}}) / Homa", BEST),
                    ratio(f"ecmp-{sizes}-{panel}", f"{what}: Homa ECMP / BFC-SRF", AMONG),
                )
            ),
            ratio(f"even-{sizes}", f"{where}: flows > 3 MB, average: IdealSRF+ECMP / Homa", EVEN),
            *srf.close(sizes, AMONG),
            ascending(
                f"spray-{sizes}",
                f"{where}: slowdown over that of IdealSRF+ECMP, p99, mean over the size bins",
                "packet spraying essentially eliminates congestion on the core links",
                kind=OURS,
            ),
            srf.no_drops(sizes),
        )
    ),
)


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


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Homa first with spraying and last without; BFC-SRF close to IdealSRF."""
    gain = {sizes: _long(data, sizes, BFC_SRF) / _long(data, sizes, HOMA) for sizes in WORKLOADS}
    most = max(gain, key=gain.__getitem__)
    of = {id: number for sizes in WORKLOADS for id, number in _workload(data, sizes).items()}
    return {"long-2x": (gain[most], WORKLOADS[most]), **of}


def _long(data: pl.DataFrame, sizes: str, scheme: fabric.Scheme) -> float:
    return fabric.value(data, sizes, scheme, "long avg")


def _workload(data: pl.DataFrame, sizes: str) -> Numbers:
    found: Numbers = {}
    for panel in STATISTICS:
        over = {each.legend: over_sizes(data, sizes, each, HOMA, panel) for each in (HOMA_ECMP, BFC_SRF, IDEAL_SRF)}
        best = min(over, key=over.__getitem__)
        found[f"best-{sizes}-{panel}"] = (over[best], best)
        found[f"ecmp-{sizes}-{panel}"] = over_sizes(data, sizes, HOMA_ECMP, BFC_SRF, panel)
    return {
        **found,
        f"even-{sizes}": _long(data, sizes, IDEAL_SRF) / _long(data, sizes, HOMA),
        **srf.beside_ideal(data, sizes),
        f"spray-{sizes}": {scheme.legend: over_sizes(data, sizes, scheme, IDEAL_SRF, "p99") for scheme in (HOMA, HOMA_ECMP)},
        f"{sizes}-drops": srf.dropped(data, sizes),
    }


def plot(data: pl.DataFrame) -> Any:
    """Average and tail by flow size, a row per workload."""
    return srf.panels(data)[0]
