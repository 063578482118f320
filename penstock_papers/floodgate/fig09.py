"""Floodgate (CoNEXT 2021), figure 9: distribution of completion times in the Web Server incast mix, DCQCN.

Section 6.1: Poisson flows to the rack of the incast's receiver (victims of incast), to other racks (victims of PFC), and the
flows of the incast; see `_setup`.
"""

from typing import Any

import numpy as np
import polars as pl

from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import OURS, Differs
from penstock_papers.floodgate import _mix as mix
from penstock_papers.floodgate import _setup as setup
from penstock_papers.floodgate._mix import STATISTICS, TRIO
from penstock_papers.floodgate._setup import DCQCN, FLOODGATE, IDEAL
from penstock_papers.sentences import Numbers, as_said, within
from penstock_papers.style import PAGE, figure, legend_above, lettered, log_axis

TITLE = "Distribution of completion times, Web Server"
PAPER = "Floodgate, CoNEXT 2021, section 6.1, figure 9"
KINDS = ("victims of incast", "victims of PFC", "incast")
IMPROVED = "the performance of victim flows of incast/PFC is significantly improved"
DECILES = np.arange(0.1, 1, 0.1)
SEEDS = {"paper": 10}  # "ten times" (section 6); five left a claim undecided
DIFFERS = {
    "victims-of-PFC-deciles": Differs(
        "what DCQCN starves leaves room at the senders for other flows", "floodgate-room", expected=(0.67, 0.92)
    ),
}
NAMES = {kind: kind.replace(" ", "-") for kind in KINDS[:2]}
CLAIMS = (
    *(
        as_said(
            f"{name}-{panel[:3]}-{scheme.legend[6:]}",
            f"{kind}, {panel}: DCQCN / {scheme.legend}",
            IMPROVED,
            "significantly",
        )
        for kind, name in NAMES.items()
        for panel in STATISTICS
        for scheme in (FLOODGATE, IDEAL)
    ),
    *(
        as_said(
            f"{name}-deciles",
            f"{kind}, worst decile: DCQCN / Floodgate",
            IMPROVED,
            "significantly",
            quick=kind == KINDS[0],
            kind=OURS,
        )
        for kind, name in NAMES.items()
    ),
    *(
        within(
            f"incast-{panel[:3]}",
            f"incast flows, {panel}: Floodgate / DCQCN",
            "without compromising the performance of incast flows",
            high=1.05,
            quick=True,
            why="within what seeds differ; what is faster is not compromised",
        )
        for panel in STATISTICS
    ),
)


def specs(scale: str) -> dict[str, Spec]:
    """The incast mix of one workload."""
    return {"web_server": setup.mix(TRIO, "web_server", scale)}


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: us; y: share of the flows; and the average and 99th percentile, by kind of flow (`traffic`)."""
    frames = []
    for scheme in TRIO:
        for kind in KINDS:
            label = setup.of(runs, "web_server", scheme)
            frames.append(setup.rows("cdf", scheme.legend, *setup.cdf(setup.flows(runs, label, kind)["fct"]), kind))
            both = setup.fct(runs, label, kind)
            frames += [setup.rows(panel, scheme.legend, [0], [y], kind) for panel, y in zip(STATISTICS, both)]
    return pl.concat(frames)


def deciles(data: pl.DataFrame, series: str, kind: str) -> np.ndarray:
    """The times below which 10 %, 20 %, ..., 90 % of the flows are."""
    kept = (pl.col("panel") == "cdf") & (pl.col("series") == series) & (pl.col("traffic") == kind)
    curve = data.filter(kept).sort("y")
    return np.interp(DECILES, curve["y"], curve["x"])


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Victims are significantly better off, in every part of the distribution; incast flows are not harmed."""
    found: Numbers = {}
    for kind, name in NAMES.items():
        for panel in STATISTICS:
            for scheme in (FLOODGATE, IDEAL):
                found[f"{name}-{panel[:3]}-{scheme.legend[6:]}"] = mix.ratios(data, panel, DCQCN, scheme, [kind])[kind]
        found[f"{name}-deciles"] = (deciles(data, DCQCN.legend, kind) / deciles(data, FLOODGATE.legend, kind)).min()
    for panel in STATISTICS:
        found[f"incast-{panel[:3]}"] = mix.ratios(data, panel, FLOODGATE, DCQCN, ["incast"])["incast"]
    return found


def plot(data: pl.DataFrame) -> Any:
    """A panel per kind of flow."""
    made, axes = figure(1, 3, width=PAGE, height=2.3, sharey=True)
    for panel, kind in zip(axes, KINDS):
        mix.draw_cdf(panel, data, kind, TRIO)
        if kind != "incast":
            log_axis(panel.xaxis)
    axes[0].set_ylabel("CDF")
    lettered(axes, ("victims of incast", "victims of PFC", "incast flows"))
    legend_above(made, axes[0], columns=3)
    return made
