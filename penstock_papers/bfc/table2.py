"""BFC (NSDI 2022), table 2: queueing delay of Homa's scheduled packets at the links between ToR and spine switches.

Appendix A.2, set-up in `_srf` and traffic of figure 17: 95th and 99th percentile of the time that a packet behind the first BDP
of its flow waits at a link, with spraying and with ECMP. The table does not name the workload; Google is that of the base figures
9 and 10. Facebook is shown beside it, (ours).
"""

import itertools
import math
from typing import Any

import polars as pl

from penstock_papers import frames
from penstock_papers.bfc import _fabric as fabric
from penstock_papers.bfc import _srf as srf
from penstock_papers.bfc._srf import BDP, HOMA, HOMA_ECMP, HOMAS, WORKLOADS
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import FROM_PAPER, OURS, Differs
from penstock_papers.sentences import Numbers, about, as_said, ascending
from penstock_papers.style import COLUMN, figure, legend_above

TITLE = "Queueing delay of Homa's scheduled packets in the core"
PAPER = "BFC, NSDI 2022, appendix A.2, table 2"
DURATION = {"quick": "500us", "paper": "4ms"}
SEEDS = fabric.SEEDS
REDUCED = "4 ms of arrivals instead of the other figures' 50, as all packets at all hops are recorded"
LINKS = {"Agg-ToR": (2, 1), "ToR-Agg": (1, 2)}  # tiers of the port and of its peer
PERCENTILES = (95, 99)
US = {  # of the table
    (HOMA.label, "Agg-ToR"): (2.4, 6.7),
    (HOMA.label, "ToR-Agg"): (2.1, 6.0),
    (HOMA_ECMP.label, "Agg-ToR"): (40.8, 87.2),
    (HOMA_ECMP.label, "ToR-Agg"): (43.7, 93.3),
}
HIGHER = "with ECMP, the scheduled traffic encounters significantly higher queuing in the core"
DIFFERS: dict[str, Differs] = {}


CLAIMS = tuple(
    row
    for sizes, where in WORKLOADS.items()
    for kind in [FROM_PAPER if sizes == "google" else OURS]
    for row in (
        *(
            about(
                f"{sizes}-{scheme.label}-{link.lower()}-{percentile}",
                f"{where}: {scheme.legend}, {link}, p{percentile} (us)",
                f"{number}",
                number,
                kind=kind,
            )
            for scheme in HOMAS
            for link in LINKS
            for percentile, number in zip(PERCENTILES, US[scheme.label, link])
        ),
        *(
            each
            for link in LINKS
            for each in (
                as_said(f"{sizes}-{link.lower()}", f"{where}: {link}, p99: Homa ECMP / Homa", HIGHER, "significantly", kind=kind),
                ascending(f"{sizes}-{link.lower()}-order", f"{where}: {link}, p99 (us)", HIGHER, kind=OURS),
            )
        ),
    )
)


def specs(scale: str) -> dict[str, Spec]:
    """Both workloads with both kinds of Homa."""
    made = {}
    for sizes in WORKLOADS:
        traced = {**fabric.spec(HOMAS, DURATION[scale], sizes), "measure": {"packets": True}}
        label = srf.of(sizes, HOMA)
        made[label] = srf.both(traced, sizes, sizes)[label]
    return made


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: percentile; y: us; panel: the links; series: the scheme; traffic: the workload."""
    parts = []
    for sizes in WORKLOADS:
        for scheme in HOMAS:
            waits = delays(runs, f"{srf.of(sizes, scheme)}/{scheme.label}")
            for link in LINKS:
                of_link = waits.filter(pl.col("link") == link)["us"]
                y = [of_link.quantile(p / 100, "linear") for p in PERCENTILES]
                parts.append(frames.rows(link, scheme.legend, PERCENTILES, y, traffic=sizes))
    return pl.concat(parts)


def delays(runs: Runs, label: str) -> pl.DataFrame:
    """link and us: the time from arrival to start of transmission of every scheduled packet that left a port of the core."""
    tier = runs.scan(label, "nodes").select("node", "tier")
    ports = runs.scan(label, "ports").select("node", "port", "peer")
    ports = ports.join(tier, on="node").join(tier.rename({"node": "peer", "tier": "to"}), on="peer")
    links = pl.concat(
        ports.filter((pl.col("tier") == a) & (pl.col("to") == b)).select("node", "port", link=pl.lit(name))
        for name, (a, b) in LINKS.items()
    )
    scheduled = (
        (pl.col("kind") == 0) & (pl.col("offset_bytes") >= BDP) & pl.col("event").cast(pl.String).is_in(["enqueue", "dequeue"])
    )
    packets = runs.scan(label, "packets").filter(scheduled).select("node", "port", "flow_id", "offset_bytes", "time_ns")
    of_core = packets.join(links, on=["node", "port"])
    waited = of_core.group_by("link", "node", "flow_id", "offset_bytes").agg(
        us=(pl.col("time_ns").max() - pl.col("time_ns").min()) / 1e3, events=pl.len()
    )
    return waited.filter(pl.col("events") == 2).select("link", "us").collect()


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """The eight numbers of the table, and the effect of ECMP."""
    found: Numbers = {}
    for sizes, link in itertools.product(WORKLOADS, LINKS):
        for scheme, percentile in itertools.product(HOMAS, PERCENTILES):
            found[f"{sizes}-{scheme.label}-{link.lower()}-{percentile}"] = _us(data, sizes, scheme, link, percentile)
        wait = {scheme.legend: _us(data, sizes, scheme, link, 99) for scheme in HOMAS}
        found[f"{sizes}-{link.lower()}"] = wait["Homa ECMP"] / wait["Homa"] if wait["Homa"] else math.inf
        found[f"{sizes}-{link.lower()}-order"] = wait
    return found


def _us(data: pl.DataFrame, sizes: str, scheme: fabric.Scheme, link: str, percentile: int) -> float:
    return frames.value(data, traffic=sizes, series=scheme.legend, panel=link, x=percentile)


def plot(data: pl.DataFrame) -> Any:
    """Bars by link and percentile; the paper's numbers as dashes."""
    made, axes = figure(1, 2, width=2 * COLUMN, height=2.6, sharey=True)
    places = [(link, percentile) for link in LINKS for percentile in PERCENTILES]
    for panel, (sizes, where) in zip(axes, WORKLOADS.items()):
        for i, scheme in enumerate(HOMAS):
            x = [place + (i - 0.5) * 0.36 for place in range(len(places))]
            ours = [_us(data, sizes, scheme, link, percentile) for link, percentile in places]
            alpha = 1.0 if i == 0 else 0.55
            panel.bar(x, ours, 0.34, color=scheme.style["color"], alpha=alpha, label=scheme.legend)
            paper = [US[scheme.label, link][PERCENTILES.index(percentile)] for link, percentile in places]
            label = "paper" if i == 0 else None
            panel.hlines(paper, [at - 0.17 for at in x], [at + 0.17 for at in x], color="black", lw=1.4, label=label)
        panel.set_xticks(range(len(places)), [f"{link}\np{percentile}" for link, percentile in places])
        panel.tick_params(axis="x", length=0)
        panel.grid(visible=False, axis="x")
        fabric.log_axis(panel.yaxis, None, (1, 2, 5))
        panel.set(ylabel="Queueing delay (us)", title=where)
    legend_above(made, axes[0], columns=3)
    return made
