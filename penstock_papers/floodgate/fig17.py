"""Floodgate (CoNEXT 2021), figure 17: the credit timer T and the threshold thre_credit of delayed credits.

Section 6.5. The paper does not say with which traffic: here the incast mix of Web Server with DCQCN+Floodgate (`_setup`), all
other parameters at their defaults. The range of T is ours, a factor of 4 to 10 on either side of the paper's 10 us.
thre_credit is in BDPs of a hop of 400 Gbit/s, 60 KB; we go below and beyond the paper's 1 to 38. Five seeds (paper: ten
runs). Credits are in per cent of the capacity of the links between switches while flows arrive; the buffer is the most of any
port, what is held back for it included.
"""

import itertools
import math
from typing import Any

import polars as pl

from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import MORE, OURS, Differs
from penstock_papers.floodgate import _hops as hops
from penstock_papers.floodgate import _setup as setup
from penstock_papers.floodgate._setup import FLOODGATE, HOPS, rows, value
from penstock_papers.sentences import Numbers, Row, as_said, ascending, within
from penstock_papers.style import BLACK, DASHES, GREEN, MARKERS, PAGE, RED, figure, legend_above, lettered, log_axis

TITLE = "Credit timer T and delayed credits"
PAPER = "Floodgate, CoNEXT 2021, section 6.5, figure 17"
TIMERS = {"quick": (2, 10, 40), "paper": (1, 2, 5, 10, 20, 40, 100)}
THRESHOLDS = {"quick": (1, 10, 38), "paper": (0.1, 0.3, 1, 3, 10, 20, 38, 100)}
RANGE = (1, 38)
LESS = "The maximum buffer occupancy of ToR-Up ports decreases when T increases"
LARGER = "core and ToR-Down ports, absorb data at a higher rate when T increases, resulting in a larger buffer occupancy"
LONGER = "a larger T prolongs the average FCT and tail latency"
SEEDS = setup.SEEDS
TRAFFIC = "Web Server"
STATISTICS = ("average", "99th percentile")
DIFFERS: dict[str, Differs] = {}
LOWEST = "When thre_credit ranges from 1 to 38, Floodgate achieves the lowest buffer occupancy on core switches"


def _grows(id: str, what: str, paper: str, quick: bool = True) -> tuple[Row, Row]:
    """From end to end; and (ours) no value may be more than 5 % below the largest before it."""
    steps = f"{what} from {{}}: worst value over the largest before it"
    return (
        within(id, f"{what}: {{}}", paper, 1, quick=quick, why=MORE),
        within(f"{id}-steps", steps, paper, 0.95, quick=quick, kind=OURS, why=MORE),
    )


CLAIMS = (
    ascending(
        "overhead",
        "credits (%), from the longest T to the shortest",
        "the network throughput used by credit packets decreases when T increases",
    ),
    *_grows("tor-up", "ToR-Up buffer", LESS),
    *_grows("core", "core buffer", LARGER),
    *_grows("tor-down", "ToR-Down buffer", LARGER),
    *(row for name in STATISTICS for row in _grows(f"fct-{name[:3]}", f"{name} of the FCT", LONGER, quick=False)),
    within(
        "thre-core",
        "core buffer: largest with thre_credit of 1 to 38, over the smallest outside of that",
        LOWEST,
        high=1,
        why="the lowest is at most that outside of the range",
    ),
    *(
        as_said(
            f"thre-{hop.lower()}",
            f"{hop} buffer with thre_credit of 1 to 38: largest over smallest",
            "buffer occupancy on ToR-Up ports and ToR-Down ports remains almost unchanged",
            "slightly",
            said="almost unchanged",
            quick=True,
        )
        for hop in ("ToR-Up", "ToR-Down")
    ),
)


def by_timer(scale: str) -> dict[float, setup.Scheme]:
    """The schemes of (a) to (c)."""
    return {float(t): hops.named(FLOODGATE, f"T = {t} us", t=f"{t}us") for t in TIMERS[scale]}


def by_threshold(scale: str) -> dict[float, setup.Scheme]:
    """The schemes of (d)."""
    return {float(x): hops.named(FLOODGATE, f"thre_credit = {x}", thre_credit=x) for x in THRESHOLDS[scale]}


def specs(scale: str) -> dict[str, Spec]:
    """One traffic, a scheme for each value."""
    schemes = [*by_timer(scale).values(), *by_threshold(scale).values()]
    return {TRAFFIC: setup.mix(schemes, "web_server", scale, port_series=True)}


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: T in us or thre_credit; y: per cent, MB or us, by panel."""
    parts = []
    for t, scheme in by_timer(scale).items():
        label = setup.of(runs, TRAFFIC, scheme)
        parts.append(rows("overhead", "credits", [t], [hops.overhead(runs, label)["credits"]]))
        parts += hops.buffer_rows(runs, label, "buffer", t)
        parts += [rows("FCT", name, [t], [time]) for name, time in zip(STATISTICS, setup.fct(runs, label))]
    for x, scheme in by_threshold(scale).items():
        parts += hops.buffer_rows(runs, setup.of(runs, TRAFFIC, scheme), "thre_credit", x)
    return pl.concat(parts)


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """What falls and what grows with T; what does not depend on thre_credit."""
    timers = [float(t) for t in TIMERS[scale]]

    def over(panel: str, series: str, down: bool = False) -> dict[str, float]:
        return {f"T = {t:g}": value(data, panel, series, x=t) for t in (reversed(timers) if down else timers)}

    spans = {hop: [value(data, "thre_credit", hop, x=x) for x in THRESHOLDS[scale] if RANGE[0] <= x <= RANGE[1]] for hop in HOPS}
    outside = [value(data, "thre_credit", "Core", x=x) for x in THRESHOLDS[scale] if not RANGE[0] <= x <= RANGE[1]]
    return {
        "overhead": over("overhead", "credits", down=True),
        **_growth("tor-up", over("buffer", "ToR-Up", down=True)),
        **_growth("core", over("buffer", "Core")),
        **_growth("tor-down", over("buffer", "ToR-Down")),
        **{id: number for name in STATISTICS for id, number in _growth(f"fct-{name[:3]}", over("FCT", name)).items()},
        "thre-core": max(spans["Core"]) / min(outside, default=math.nan),
        **{f"thre-{hop.lower()}": max(spans[hop]) / min(spans[hop]) for hop in ("ToR-Up", "ToR-Down")},
    }


def _growth(id: str, found: dict[str, float]) -> Numbers:
    """The last value over the first, and the worst one over the largest before it."""
    (first, *_, last), y = found, list(found.values())
    worst = min(b / most for most, b in zip(itertools.accumulate(y, max), y[1:]))
    return {id: (y[-1] / y[0], f"{last} / {first}"), f"{id}-steps": (worst, f"{first} to {last}")}


def plot(data: pl.DataFrame) -> Any:
    """Overhead, buffers and completion times over T; buffers over thre_credit."""
    made, grid = figure(1, 4, width=PAGE, height=2.3)
    hops.draw_lines(grid[0], data, "overhead", {"credits": (BLACK, DASHES[0], MARKERS[3])})
    hops.draw_lines(grid[1], data, "buffer", hops.OF_HOP)
    hops.draw_lines(grid[2], data, "FCT", dict(zip(STATISTICS, zip((GREEN, RED), DASHES, MARKERS[4:]))))
    hops.draw_lines(grid[3], data, "thre_credit", hops.OF_HOP)
    for axes, label in zip(grid, ("Credits (%)", "Buffer (MB)", "FCT (us)", "Buffer (MB)")):
        log_axis(axes.xaxis)
        axes.set(xlabel="T (us)", ylabel=label)
    for axes in (grid[0], grid[2]):
        log_axis(axes.yaxis)
    for axes in (grid[1], grid[3]):
        axes.margins(y=0.08)
        axes.set_ylim(bottom=0)
    grid[2].set(ylim=(None, 9000))
    grid[2].legend(loc="upper left", handlelength=1.4, fontsize=7, borderaxespad=0.1)
    grid[3].set(xlabel="$thre_{credit}$ (BDP)")
    grid[3].axvspan(*RANGE, color="0.93", zorder=0)
    lettered(grid, ("overhead", "buffer", "completion time", "delayed credits"))
    legend_above(made, grid[1], columns=3)
    return made
