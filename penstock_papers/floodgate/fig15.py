"""Floodgate (CoNEXT 2021), figure 15: buffers under 1 to 24 incasts in quick succession, each to another host.

Section 6.3: "each host transmits an incast flow to one destination host and then another", "each time with hundreds of flows".
So an incast is 159 flows of 30 to 40 packets, one from every other host, as in figure 14. The paper does not give the interval:
the next incast comes 30 us later (the authors' INCAST_INTERVAL), to a host of the next rack. Such an incast is 8.5 MB. The same
with 320 flows, two for every host, from the hosts of other racks is (ours): 17 MB, nearly the buffer of a ToR.
docs/differences.md (floodgate-fig15) has other numbers and intervals.
"""

import itertools
import math
from dataclasses import replace
from typing import Any

import polars as pl

from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import FROM_PAPER, MORE, OURS, Differs
from penstock_papers.floodgate import _setup as setup
from penstock_papers.floodgate._setup import DCQCN, FLOODGATE, HOPS, scheme
from penstock_papers.registry import SCALES
from penstock_papers.sentences import Numbers, within
from penstock_papers.style import PAGE, PURPLE, figure, legend_above, lettered

TITLE = "Buffers under successive incasts, without and with per-destination PAUSE"
PAPER = "Floodgate, CoNEXT 2021, section 6.3, figure 15"
PAUSE = scheme(variant="Floodgate", host_pause=True)
LEGENDS = {DCQCN.legend: "DCQCN", FLOODGATE.legend: "Floodgate", "pause": "Floodgate (per-dst PAUSE)"}
TIMES = {"quick": (1, 4, 12), "paper": (1, 2, 4, 8, 12, 16, 20, 24)}
FAN_INS = (159, 320)
GAP_US = 30
TORS = 10
BUFFER_MB = 20
QUICKLY = "the incast traffic quickly fills up ToR-Down ports' buffer, as well as core switches' buffer"
STORM = "When the incast occurs 12 times or more, the buffer occupancy on ToR-Up ports starts to increase"
PROPORTIONAL = "the ToR-Up ports buffer occupancy increases at a rate proportional to the number of incast times"
SMALLEST = "With per-dst PAUSE, the buffer occupancy is extremely small"
EXTREMELY = 'twice the 2 of "greatly"; a larger factor agrees'
SMALL = Differs(
    "an incast of one flow from every host is 8.5 MB, which neither fills a ToR of 20 MB nor lets PFC begin", "floodgate-fig15"
)
PASSED = Differs(
    "a core passes such an incast on in 43 us and keeps 1.7 MB of it, so those of at most two are in it at a time",
    "floodgate-fig15",
)
HELD = Differs("a ToR holds 0.26 MB of such an incast, for some 190 us or six intervals, so no more adds up", "floodgate-fig15")
SENT = Differs("a host has sent its flow, which is less than a BDP, before a PAUSE can reach it", "floodgate-fig15")
SHARED = Differs("up to three of the receivers are in one rack and share a core's port to it", "floodgate-fig15")
SEEDS = setup.SEEDS
DIFFERS: dict[str, Differs] = {
    "dcqcn-tor-down": replace(SMALL, scales=SCALES).expecting(6, 9),
    "dcqcn-core": PASSED.expecting(1.7, 3.4),
    "dcqcn-storm": SMALL.expecting(24, 24),
    "dcqcn-tor-up": SMALL.expecting(0.9, 1.5),
    "floodgate-tor-up": HELD.expecting(0.85, 1.05),
    "floodgate-proportional": HELD.expecting(1, 1.35),
    "pause": replace(SENT, scales=SCALES).expecting(0.9, 1.5),
    "pause-everywhere": SENT.expecting(0.95, 1.05),
    "320-floodgate-tor-up": Differs(
        "from 20 incasts on, 17 MB each, the first ToRs are full", "floodgate-fig15", expected=(0.95, 1.05)
    ),
    "320-floodgate-core": SHARED.expecting(2.1, 3.0),
}
OTHER_END = "the other end is the buffer"
SENTENCES = (
    within("dcqcn-tor-down", "DCQCN, ToR-Down, 4 incasts (MB of 20)", QUICKLY, 0.75 * BUFFER_MB, quick=True, why=OTHER_END),
    within("dcqcn-core", "DCQCN, buffer of the fullest core, {} incasts (MB of 20)", QUICKLY, 0.75 * BUFFER_MB, why=OTHER_END),
    within(
        "dcqcn-storm",
        "DCQCN: most incasts, of those run, without PFC at the ToRs",
        STORM,
        4,
        20,
        why="half to twice of 12, that is a storm from 6 to 24 on, in the numbers that are run",
    ),
    within("dcqcn-tor-up", "DCQCN, ToR-Up: {} incasts / 4", STORM, 3, why=MORE),
    *(
        within(
            f"floodgate-{hop.lower()}",
            f"Floodgate, {hop}: largest over smallest of all numbers of incasts",
            "the buffer of core switches and ToR-Down ports are stable",
            1,
            2,
            why="as in figure 14 a factor of two is stable, and the largest over the smallest is at least 1",
        )
        for hop in ("Core", "ToR-Down")
    ),
    within(
        "floodgate-tor-up",
        "Floodgate, ToR-Up: smallest growth from one number of incasts to the next",
        PROPORTIONAL,
        1.1,
        1.4,
        why="the smallest step is from 20 to 24, by a fifth: half and double of that",
    ),
    within(
        "floodgate-proportional",
        "Floodgate, ToR-Up: 16 incasts / 8",
        PROPORTIONAL,
        1.4,
        2.8,
        why="proportional is 2, and 1 if it did not grow: the square root of 2 either way",
    ),
    within("pause", "ToR-Up, {} incasts: Floodgate / Floodgate with PAUSE", SMALLEST, 4, quick=True, why=EXTREMELY),
    within(
        "pause-everywhere", "most stored at any hop, {} incasts: Floodgate / Floodgate with PAUSE", SMALLEST, 4, why=EXTREMELY
    ),
)
CLAIMS = tuple(
    replace(row, id=prefix + row.id, claim=f"{fan_in} flows, {row.claim}", kind=kind)
    for fan_in, prefix, kind in ((FAN_INS[0], "", FROM_PAPER), (FAN_INS[1], f"{FAN_INS[1]}-", OURS))
    for row in SENTENCES
)


def traffic(times: int, fan_in: int) -> list[dict[str, Any]]:
    """`times` incasts, to the first hosts of the racks, then to the second ones."""
    receivers = [i % TORS * setup.PER_RACK + i // TORS for i in range(times)]
    one = {**setup.incast(receivers, fan_in), "every": f"{GAP_US}us"}
    if fan_in == FAN_INS[0]:
        one |= {"pairs": "any", "replace": False}
    return [{key: value for key, value in one.items() if not key.startswith("load")}]


def specs(scale: str) -> dict[str, Spec]:
    """A traffic for each number of incasts and of flows."""
    schemes = (DCQCN, FLOODGATE, setup.Scheme("pause", PAUSE.table))
    return {
        f"{times} x {fan_in}": setup.spec(schemes, traffic(times, fan_in), f"{GAP_US * times}us")
        for fan_in in FAN_INS
        for times in TIMES[scale]
    }


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """Panels of the hops and "switch Core", its whole buffer: x incasts, y MB; "pfc Host", "pfc ToR" and "pfc Core": y us;
    traffic: the flows of an incast."""
    frames = []
    for fan_in, times in itertools.product(FAN_INS, TIMES[scale]):
        for legend, name in LEGENDS.items():
            label = f"{times} x {fan_in}/{legend}"
            numbers = setup.hop_buffers(runs, label)
            cores = setup.switches(runs, label).filter(pl.col("tier") == 2)["max_buffer_bytes"]
            numbers["switch Core"] = float(cores.max()) / 1e6  # type: ignore[arg-type]
            numbers |= {f"pfc {tier}": held for tier, held in setup.pfc_us(runs, label).items()}
            frames += [setup.rows(panel, name, [times], [y], str(fan_in)) for panel, y in numbers.items()]
    return pl.concat(frames)


def curve(data: pl.DataFrame, panel: str, series: str) -> dict[int, float]:
    """MB (or us) by number of incasts."""
    kept = data.filter((pl.col("panel") == panel) & (pl.col("series") == series)).sort("x")
    return {int(x): y for x, y in kept.select("x", "y").iter_rows()}


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Of one flow from every host, and of two (ours)."""
    one, two = (_numbers(data.filter(pl.col("traffic") == str(fan_in))) for fan_in in FAN_INS)
    return one | {f"{FAN_INS[1]}-{id}": number for id, number in two.items()}


def _numbers(data: pl.DataFrame) -> Numbers:
    """DCQCN fills one hop after the other; Floodgate keeps the incasts at the first hop, or with PAUSE at the hosts."""
    dcqcn, flood, pause = ({hop: curve(data, hop, series) for hop in HOPS} for series in LEGENDS.values())
    cores, up = curve(data, "switch Core", LEGENDS["DCQCN"]), flood["ToR-Up"]
    most = max(cores)
    name = str(most)
    return {
        "dcqcn-tor-down": dcqcn["ToR-Down"][4],
        "dcqcn-core": (cores[most], name),
        "dcqcn-storm": calm(data),
        "dcqcn-tor-up": (dcqcn["ToR-Up"][most] / dcqcn["ToR-Up"][4], name),
        "floodgate-core": max(flood["Core"].values()) / min(flood["Core"].values()),
        "floodgate-tor-down": max(flood["ToR-Down"].values()) / min(flood["ToR-Down"].values()),
        "floodgate-tor-up": min(b / a for a, b in itertools.pairwise(up.values())),
        "floodgate-proportional": up.get(16, math.nan) / up.get(8, math.nan),
        "pause": (up[most] / pause["ToR-Up"][most], name),
        "pause-everywhere": (max(flood[hop][most] for hop in HOPS) / max(pause[hop][most] for hop in HOPS), name),
    }


def calm(data: pl.DataFrame) -> float:
    """The largest number of incasts at which no core pauses a ToR."""
    return max((times for times, us in curve(data, "pfc ToR", LEGENDS["DCQCN"]).items() if us == 0), default=0)


def plot(data: pl.DataFrame) -> Any:
    """A row per number of flows, a panel per hop."""
    made, grid = figure(2, 3, width=PAGE, height=4.2, sharex=True)
    styles = (DCQCN.style, FLOODGATE.style, {**FLOODGATE.style, "color": PURPLE, "linestyle": "--"})
    for row, fan_in in zip(grid, FAN_INS):
        part = data.filter(pl.col("traffic") == str(fan_in))
        for axes, hop in zip(row, HOPS):
            for name, style in zip(LEGENDS.values(), styles):
                line = curve(part, hop, name)
                axes.plot(list(line), list(line.values()), **style, label=name)
            axes.set(ylabel="Port buffer (MB)", xlim=(0, None), ylim=(0, None))
    for axes in grid[-1]:
        axes.set(xlabel="Incasts")
    lettered(grid.flat, [f"{hop}, {fan_in} flows" for fan_in in FAN_INS for hop in HOPS])
    legend_above(made, grid[0, 0], columns=3)
    return made
