"""BFC (NSDI 2022), figure 24: BFC with an incast label, by incast degree.

Appendix A.7, "in the same setup as Fig. 13": section 6.3 on the set-up of `_fabric`, 55 % load of the Facebook distribution and
5 % incast, 20 MB every 500 us, of 10 to 2000 flows. "BFC + IncastLabel assigns all the incast flows at an egress port to the
same queue": here the last one, which no other flow gets. (a) Average slowdown of flows > 3 MB, (b) 99th percentile of flows
< 3 KB, neither with the incast flows; (c), ours, the average of the incast flows, which the paper does not show.
"""

from typing import Any

import polars as pl

from penstock_papers.bfc import _fabric as fabric
from penstock_papers.bfc import _options as options
from penstock_papers.bfc._fabric import BFC, DCTCP, HPCC, IDEAL, Scheme, value
from penstock_papers.bfc._options import BFC_LABEL
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import MORE, OURS, Differs
from penstock_papers.sentences import Numbers, within
from penstock_papers.style import PAGE, figure, legend_above, lettered

TITLE = "Slowdown by incast degree with incast flows in a queue of their own, Facebook"
PAPER = "BFC, NSDI 2022, appendix A.7, figure 24"
DEGREES = {"quick": (10, 100, 2000), "paper": (10, 100, 500, 2000)}
DURATION = {"quick": "2ms", "paper": "50ms"}
SEEDS = fabric.SEEDS
SIZES = "facebook_hadoop"
SCHEMES = (DCTCP, HPCC, BFC, BFC_LABEL, IDEAL)
RIVALS = (DCTCP, HPCC, BFC)
QUEUES = 32
DIFFERS: dict[str, Differs] = {}
BEST = "BFC + IncastLabel achieves the best performance across all the scenarios"
HIGHER = "the FCTs for incast flows is higher compared to BFC + Flow FQ"
ISOLATING = "By isolating incast flows, BFC + IncastLabel reduces collisions and achieves the best performance"
WHAT = {"long": "flows > 3 MB, average", "short": "flows < 3 KB, p99"}


_MANY = "smallest of degrees {}"
CLAIMS = (
    *(
        row
        for panel, what in WHAT.items()
        for quick in [panel == "short"]
        for row in (
            within(f"{panel}-best", f"{what}: best of DCTCP, HPCC, BFC / IncastLabel, {_MANY}", BEST, 1, why=MORE, quick=quick),
            within(f"{panel}-few", f"{what}: best of DCTCP, HPCC, BFC / IncastLabel, degree of 10", BEST, 1, why=MORE),
            within(f"{panel}-isolated", f"{what}: BFC / IncastLabel, degree of 2000", ISOLATING, 1, why=MORE, quick=quick),
        )
    ),
    within("incast", f"incast flows, average: IncastLabel / BFC, {_MANY}", HIGHER, 1, why=MORE),
    within(
        "incast-last",
        f"incast flows, p99: IncastLabel / BFC, {_MANY}",
        "the text names no statistic: flows one after the other halve the average, not the end of the last",
        1,
        why=MORE,
        kind=OURS,
    ),
    within(
        "drops",
        "packets dropped under BFC, degrees below 2000",
        "BFC never incurred drops except under a 2000-to-1 incast",
        0,
        0,
        why="never",
        quick=True,
    ),
)


def name(degree: int) -> str:
    """The label of the runs of a degree."""
    return f"degree{degree}"


def specs(scale: str) -> dict[str, Spec]:
    """A traffic per degree; the flows that are not incast are the same in all."""
    base = fabric.spec(SCHEMES, DURATION[scale], SIZES, incast=0.05)
    others, incast = base["workload"]
    return {name(n): {**base, "workload": [others, {**incast, "fan_in": n}]} for n in DEGREES[scale]}


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: degree; y: slowdown (panels long, short, incast)."""
    return pl.concat(part for n in DEGREES[scale] for scheme in SCHEMES for part in _one(runs, n, scheme))


def _one(runs: Runs, degree: int, scheme: Scheme) -> list[pl.DataFrame]:
    traffic = name(degree)
    found = fabric.statistics(runs, traffic, scheme, SIZES)
    incast = fabric.counted(runs, fabric.of(runs, traffic, scheme), incast=True).select("slowdown").collect()["slowdown"]
    numbers = {
        "long": value(found, traffic, scheme, "long avg"),
        "short": value(found, traffic, scheme, "short p99"),
        "incast": incast.mean(),
        "incast p99": incast.quantile(0.99, "linear"),
    }
    shown = [fabric.points(traffic, scheme, panel, [degree], [number]) for panel, number in numbers.items()]
    return [found, *shown, fabric.totals(runs, traffic, scheme)]


def _at(data: pl.DataFrame, degree: int, scheme: Scheme, panel: str) -> float:
    return value(data, name(degree), scheme, panel)


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """The label is best at every degree beyond the number of queues, does no harm below it, and costs the incast flows."""
    few, *_ = degrees = DEGREES[scale]
    many = [n for n in degrees if n > QUEUES]
    span = f"{many[0]} to {many[-1]}"

    def over(n: int, panel: str, others: tuple[Scheme, ...]) -> float:
        return min(_at(data, n, other, panel) for other in others) / _at(data, n, BFC_LABEL, panel)

    def cost(panel: str) -> float:
        return min(_at(data, n, BFC_LABEL, panel) / _at(data, n, BFC, panel) for n in many)

    found: Numbers = {}
    for panel in WHAT:
        found |= {
            f"{panel}-best": (min(over(n, panel, RIVALS) for n in many), span),
            f"{panel}-few": over(few, panel, RIVALS),
            f"{panel}-isolated": over(many[-1], panel, (BFC,)),
        }
    drops = max(_at(data, n, BFC, "drops") for n in degrees if n < 2000)
    return {**found, "incast": (cost("incast"), span), "incast-last": (cost("incast p99"), span), "drops": drops}


def plot(data: pl.DataFrame) -> Any:
    """Long, short and incast flows by degree."""
    made, grid = figure(1, 3, width=PAGE, height=2.6)
    degrees = [n for n in DEGREES["paper"] if name(n) in set(data["traffic"])]
    for axes, panel in zip(grid, ("long", "short", "incast")):
        for scheme in SCHEMES:
            axes.plot(degrees, [_at(data, n, scheme, panel) for n in degrees], label=scheme.legend, **scheme.style)
        options.slowdown_axes(axes, ylabel="FCT slowdown, " + ("p99" if panel == "short" else "average"))
        axes.set_xlabel("Incast degree")
    lettered(grid, ("flows > 3 MB", "flows < 3 KB", "incast flows"))
    legend_above(made, grid[0], columns=len(SCHEMES))
    return made
