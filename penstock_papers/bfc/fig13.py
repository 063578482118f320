"""BFC (NSDI 2022), figure 13: slowdown of long and of short flows as the degree of the incast goes from 10 to 2000.

Section 6.3, "Incast degree", on the set-up of section 6.2.1, see `_fabric`: 55 % load and 5 % incast, 20 MB in all every 500 us,
from 10 to 2000 flows; lognormal arrivals; BFC with 32 and with 128 queues per port. (a) Average slowdown of flows > 3 MB, (b)
99th percentile of flows < 3 KB, neither with the incast flows; (c), ours, packets dropped, on which section 5 has a number. The
text names no distribution: it is Facebook's, as in figure 12. Senders are drawn with replacement, as in the authors' simulator,
so that a host sends 16 flows of the largest incast.

Up to "8x the number of queues per port" are degrees up to 200 for 32 queues and up to 1000 for 128.
"""

from dataclasses import replace
from typing import Any

import polars as pl

from penstock_papers.bfc import _fabric as fabric
from penstock_papers.bfc import _rivals as rivals
from penstock_papers.bfc._fabric import BFC, BFC_128, DCQCN, DCTCP, HPCC, IDEAL, value
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import MORE, OURS, WORDS, Differs
from penstock_papers.sentences import Numbers, about, ascending, within
from penstock_papers.style import PAGE, figure, legend_above, lettered

TITLE = "Slowdown of long and short flows by incast degree, Facebook"
PAPER = "BFC, NSDI 2022, section 6.3, figure 13"
DEGREES = {"quick": (10, 100, 2000), "paper": (10, 50, 100, 200, 500, 1000, 2000)}
DURATION = {"quick": "2ms", "paper": "50ms"}
SEEDS = fabric.MAIN_SEEDS
SIZES = "facebook_hadoop"
BFC_32 = replace(BFC, legend="BFC, 32 queues")
SCHEMES = (DCQCN, DCTCP, HPCC, BFC_32, BFC_128, IDEAL)
QUEUES = ((BFC_32, 32), (BFC_128, 128))
REACH = 8  # degrees up to so many times the queues per port do no harm
WELL = "both BFC 32 and BFC 128 perform well as long as the incast degree is moderate compared to the number of queues"
DEGRADE = "Both start to degrade when the incast degree exceeds 8x the number of queues per port"
RETAIN = "As the incast degree scales up further, BFC 32 is able to retain some of its advantage relative to HPCC and DCTCP"
WORSE = "For high incast degree, the tail latency for short flows becomes worse than HPCC"
SHARE = "As the incast degree increases, more small flows share physical queues with incast flows, leading to more HoL blocking"
NO_DROPS = "BFC never incurred drops except under a 2000-to-1 incast"
DROPS = "and even then only 0.007% of the packets were dropped"
DIFFERS: dict[str, Differs] = {}


_LONG, _SHORT, _LOST = "flows > 3 MB, average", "flows < 3 KB, p99", "packets dropped under BFC (%)"
CLAIMS = (
    *(
        row
        for scheme, queues in QUEUES
        for row in (
            within(
                f"well-{queues}",
                f"{_LONG}: {scheme.legend} / Ideal-FQ, largest up to a degree of {{}}",
                WELL,
                0.5,
                2,
                why="well is near the optimum, which the abstract claims: within a factor of two",
            ),
            within(
                f"flat-{queues}",
                f"{_LONG}: {scheme.legend}, largest / smallest up to a degree of {{}}",
                DEGRADE,
                1,
                WORDS["similar"][1],
                why="not degraded is similar: the band of that word upwards",
            ),
            within(f"degrade-{queues}", f"{_LONG}: {scheme.legend}, degree of 2000 / largest up to {{}}", DEGRADE, 1, why=MORE),
        )
    ),
    within(
        "retain", f"{_LONG}: better of HPCC and DCTCP / BFC 32, smallest beyond a degree of {REACH * 32}", RETAIN, 1, why=MORE
    ),
    ascending("retain-some", f"{_LONG}: better of HPCC and DCTCP / BFC 32 by degree", RETAIN, quick=False),
    within("becomes", f"{_SHORT}: HPCC / BFC 32, degree of 10", WORSE, 1, why=MORE),
    within("worse", f"{_SHORT}: BFC 32 / HPCC, degree of 2000", WORSE, 1, why=MORE),
    within(
        "worse-128", f"{_SHORT}: BFC 128 / HPCC, degree of 2000", "the sentence names no number of queues", 1, why=MORE, kind=OURS
    ),
    ascending("share", f"{_SHORT}: BFC 32 by degree", SHARE),
    within("drops-none", f"{_LOST}, degrees up to 1000", NO_DROPS, 0, 0, why="never", quick=True),
    about("drops-2000", f"{_LOST}, degree of 2000, 32 queues", DROPS, 0.007),
)


def name(degree: int) -> str:
    """The label of the runs of a degree."""
    return f"degree{degree}"


def specs(scale: str) -> dict[str, Spec]:
    """A traffic per degree; the flows that are not incast are the same in all."""
    found = {}
    for degree in DEGREES[scale]:
        spec = fabric.spec(SCHEMES, DURATION[scale], SIZES, incast=0.05)
        poisson, incast = spec["workload"]
        found[name(degree)] = {**spec, "workload": [poisson, {**incast, "fan_in": degree}]}
    return found


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: degree; y: slowdown (panels long, short) or per cent of packets (panel lost)."""
    return pl.concat(_one(runs, degree, scheme) for degree in DEGREES[scale] for scheme in SCHEMES)


def _one(runs: Runs, degree: int, scheme: fabric.Scheme) -> pl.DataFrame:
    traffic = name(degree)
    numbers = fabric.statistics(runs, traffic, scheme, SIZES)
    lost = rivals.dropped(runs, traffic, scheme)
    read = {"long": (numbers, "long avg"), "short": (numbers, "short p99"), "lost": (lost, "dropped")}
    shown = [
        fabric.points(traffic, scheme, panel, [degree], [value(data, traffic, scheme, of)]) for panel, (data, of) in read.items()
    ]
    return pl.concat([numbers, *shown, fabric.totals(runs, traffic, scheme)])


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Up to which degree long flows are unharmed, what remains beyond it, the tail of short flows, drops."""
    degrees = DEGREES[scale]
    return {**_long(data, degrees), **_short(data, degrees), **_drops(data, degrees)}


def _at(data: pl.DataFrame, degree: int, scheme: fabric.Scheme, panel: str) -> float:
    return value(data, name(degree), scheme, panel)


def _long(data: pl.DataFrame, degrees: tuple[int, ...]) -> Numbers:
    found: Numbers = {}
    for scheme, queues in QUEUES:
        moderate = [degree for degree in degrees if degree <= REACH * queues]
        mean = {degree: _at(data, degree, scheme, "long") for degree in degrees}
        optimal, most = max(mean[degree] / _at(data, degree, IDEAL, "long") for degree in moderate), moderate[-1]
        usual = max(mean[degree] for degree in moderate)
        found |= {
            f"well-{queues}": (optimal, most),
            f"flat-{queues}": (usual / min(mean[degree] for degree in moderate), most),
            f"degrade-{queues}": (mean[2000] / usual, most),
        }

    def advantage(degree: int) -> float:
        return min(_at(data, degree, each, "long") for each in (HPCC, DCTCP)) / _at(data, degree, BFC_32, "long")

    high = {degree: advantage(degree) for degree in degrees if degree > REACH * 32}
    return {**found, "retain": min(high.values()), "retain-some": {"2000": high[2000], "100": advantage(100)}}


def _short(data: pl.DataFrame, degrees: tuple[int, ...]) -> Numbers:
    tail = {degree: _at(data, degree, BFC_32, "short") for degree in degrees}

    def over_hpcc(degree: int, scheme: fabric.Scheme) -> float:
        return _at(data, degree, scheme, "short") / _at(data, degree, HPCC, "short")

    return {
        "becomes": 1 / over_hpcc(10, BFC_32),
        "worse": over_hpcc(2000, BFC_32),
        "worse-128": over_hpcc(2000, BFC_128),
        "share": {str(degree): tail[degree] for degree in degrees if degree in (10, 100, 500, 2000)},
    }


def _drops(data: pl.DataFrame, degrees: tuple[int, ...]) -> Numbers:
    fewer = max(_at(data, degree, scheme, "lost") for degree in degrees if degree < 2000 for scheme, _ in QUEUES)
    return {"drops-none": fewer, "drops-2000": _at(data, 2000, BFC_32, "lost")}


def plot(data: pl.DataFrame) -> Any:
    """Long flows, short flows and drops by degree."""
    made, grid = figure(1, 3, width=PAGE, height=2.6)
    degrees = [degree for degree in DEGREES["paper"] if name(degree) in set(data["traffic"])]
    for scheme in SCHEMES:
        for axes, panel in zip(grid, ("long", "short", "lost")):
            axes.plot(degrees, [_at(data, degree, scheme, panel) for degree in degrees], label=scheme.legend, **scheme.style)
    for axes, text in zip(grid, ("FCT slowdown, average", "FCT slowdown, p99", "Packets dropped (%)")):
        axes.set(ylabel=text, xlabel="Incast degree")
        fabric.log_axis(axes.xaxis)
    fabric.log_axis(grid[1].yaxis, None, (1, 2, 5))
    grid[2].set_ylim(bottom=0)
    lettered(grid, ("flows > 3 MB", "flows < 3 KB", "drops"))
    legend_above(made, grid[0], columns=3)
    return made
