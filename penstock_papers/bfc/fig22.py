"""BFC (NSDI 2022), figure 22: the traffic of figure 11 with spatial locality: 99th percentile of the slowdown.

Appendix A.5 on the set-up of section 6.2.1, see `_fabric`: source-destination pairs have "spatial locality [...] such that the
average load on all links across the network is same". With 128 hosts over 64 uplinks that is so if half of the traffic stays in
its rack. The paper does not say how pairs are drawn. Here one lognormal process has uniform pairs in different racks and loads
the core, and one for each rack has uniform pairs in it and loads the hosts' links as much again: with a load of 60 % both carry
60 %, where the hosts' links have 34 % in figure 11. (a) 55 % load and 5 % 100-to-1 incast, (b) 60 %; Facebook distribution.
"""

from typing import Any

import polars as pl

from penstock_papers.bfc import _fabric as fabric
from penstock_papers.bfc import _rivals as rivals
from penstock_papers.bfc._fabric import BFC, HPCC, IDEAL, SCHEMES, value
from penstock_papers.bfc.fig11 import GOOGLE, NAMES, SIZES, TRAFFIC
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import MORE, Differs
from penstock_papers.sentences import Numbers, Row, ascending, within
from penstock_papers.style import PAGE, figure, legend_above, lettered

TITLE = "FCT slowdown (p99) with spatial locality, Facebook"
PAPER = "BFC, NSDI 2022, appendix A.5, figure 22"
DURATION = {"quick": "2ms", "paper": "50ms"}
SEEDS = fabric.SEEDS
TRENDS = "The trends are similar to Fig. 11"
DIFFERS: dict[str, Differs] = {}


def _trend_rows(prefix: str, where: str, low: float, high: float) -> list[Row]:
    return [
        within(
            f"{prefix}hpcc",
            f"{where}short flows (< 3 KB), p99: HPCC / BFC",
            TRENDS,
            low,
            high,
            why="the range that the paper has for Google's distribution, to which figure 11 is said to be similar",
        ),
        fabric.best(f"{prefix}best", f"{where}short flows, p99"),
        ascending(f"{prefix}order", f"{where}short flows, p99: order of the schemes", TRENDS, quick=False),
        within(f"{prefix}long-best", f"{where}flows > 3 MB, p99: best existing scheme ({{}}) / BFC", TRENDS, 1, why=MORE),
        fabric.no_drops(prefix, where),
    ]


CLAIMS = (
    *(row for traffic, where in NAMES.items() for row in _trend_rows(f"{traffic}-", f"{where}: ", *GOOGLE[traffic])),
    fabric.near_optimal("plain-ideal", f"{NAMES['plain']}: short flows, p99: BFC / Ideal-FQ"),
)


def specs(scale: str) -> dict[str, Spec]:
    """Two traffics, of which half stays in the racks."""
    found = {}
    for traffic, incast in TRAFFIC.items():
        spec = fabric.spec(SCHEMES, DURATION[scale], SIZES, incast=incast)
        poisson, *rest = spec["workload"]
        found[traffic] = {**spec, "workload": [*_local(poisson, 0.6 - incast), *rest]}
    return found


def _local(poisson: dict[str, Any], share: float) -> list[dict[str, Any]]:
    """Sources of flows that load all links of the fabric with this share."""
    racks, hosts = fabric.FABRIC["tors"], fabric.FABRIC["hosts"]
    size, uplinks = hosts // racks, racks * fabric.FABRIC["spines"]
    inside = round(share * (1 - uplinks / hosts) / racks, 6)  # of the load of all hosts' links
    across = {**poisson, "load": round(share, 6), "load_on": "core", "pairs": "inter_rack"}
    members = ([*range(size * rack, size * rack + size)] for rack in range(racks))
    return [across, *({**poisson, "load": inside, "load_on": "host", "hosts": each} for each in members)]


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: flow size; y: slowdown, by traffic and panel."""
    return pl.concat(fabric.everything(runs, traffic, scheme, SIZES) for traffic in TRAFFIC for scheme in SCHEMES)


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """The trends of figure 11."""
    ideal = value(data, "plain", BFC, "short p99") / value(data, "plain", IDEAL, "short p99")
    return {"plain-ideal": ideal, **{id: number for traffic in TRAFFIC for id, number in _trends(data, traffic).items()}}


def _trends(data: pl.DataFrame, traffic: str) -> Numbers:
    tail, long = ({each.legend: value(data, traffic, each, f"{group} p99") for each in SCHEMES} for group in ("short", "long"))
    return {
        f"{traffic}-hpcc": tail[HPCC.legend] / tail[BFC.legend],
        f"{traffic}-best": fabric.best_existing(tail),
        f"{traffic}-order": {name: tail[name] for name in ("BFC", "HPCC", "DCTCP", "DCQCN")},
        f"{traffic}-long-best": fabric.best_existing(long),
        f"{traffic}-drops": fabric.dropped(data, traffic),
    }


def plot(data: pl.DataFrame) -> Any:
    """Slowdown by size, with incast and without."""
    made, grid = figure(1, 2, width=PAGE, height=2.7)
    for panel, traffic in zip(grid, TRAFFIC):
        rivals.draw_sizes(panel, data, traffic, SCHEMES, "p99")
    lettered(grid, NAMES.values())
    legend_above(made, grid[0], columns=len(SCHEMES))
    return made
