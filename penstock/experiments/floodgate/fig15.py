"""Floodgate (CoNEXT 2021), figure 15: buffers under 1 to 24 incasts in quick succession, each to another host.

Section 6.3: "several successive incast traffic for different destination hosts, each time with hundreds of flows". Here an incast
is 320 flows of 30 to 40 packets, two for every host there is, from the hosts of other racks; the next one comes 30 us later (the
authors' INCAST_INTERVAL), to a host of the next rack. The paper gives neither number. An incast is 17 MB, the buffer of a ToR, so
that more than ten are needed before the cores fill, too, as in the paper (12). docs/differences.md (floodgate-fig15) has others.
"""

import math
from typing import Any

import polars as pl

from penstock.experiments.cache import Runs, Spec
from penstock.experiments.claims import MORE, Claim, Differs, ascending, holds, within
from penstock.experiments.floodgate import _setup as setup
from penstock.experiments.floodgate._setup import DCQCN, FLOODGATE, HOPS, scheme
from penstock.experiments.style import PAGE, PURPLE, figure, legend_above, lettered

TITLE = "Buffers under successive incasts, without and with per-destination PAUSE"
PAPER = "Floodgate, CoNEXT 2021, figure 15"
PAUSE = scheme(variant="Floodgate", host_pause=True)
LEGENDS = {DCQCN.legend: "DCQCN", FLOODGATE.legend: "Floodgate", "pause": "Floodgate (per-dst PAUSE)"}
TIMES = {"quick": (1, 4, 12), "paper": (1, 2, 4, 8, 12, 16, 20, 24)}
FAN_IN, GAP_US = 320, 30
TORS = 10
BUFFER_MB = 20
DIFFERS: dict[str, Differs] = {
    "floodgate-tor-up": Differs("from 20 incasts on, 17 MB each, the first ToRs are full", "floodgate-fig15"),
    "floodgate-core": Differs(
        "up to three of the receivers are in one rack and share a core's port to it", "floodgate-fig15", expected=(2, 3.5)
    ),
}


def traffic(times: int) -> list[dict[str, Any]]:
    """`times` incasts, to the first hosts of the racks, then to the second ones."""
    receivers = [i % TORS * setup.PER_RACK + i // TORS for i in range(times)]
    one = {**setup.incast(receivers, FAN_IN), "every": f"{GAP_US}us"}
    return [{key: value for key, value in one.items() if not key.startswith("load")}]


def specs(scale: str) -> dict[str, Spec]:
    """A traffic for each number of incasts."""
    schemes = (DCQCN, FLOODGATE, setup.Scheme("pause", PAUSE.table))
    return {str(times): setup.spec(schemes, traffic(times), f"{GAP_US * times}us") for times in TIMES[scale]}


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """Panels of the hops and "switch Core", its whole buffer: x incasts, y MB; "pfc Host", "pfc ToR" and "pfc Core": y us."""
    frames = []
    for times in TIMES[scale]:
        for legend, name in LEGENDS.items():
            label = f"{times}/{legend}"
            for hop, most in setup.hop_buffers(runs, label).items():
                frames.append(setup.rows(hop, name, [times], [most]))
            cores = setup.switches(runs, label).filter(pl.col("tier") == 2)["max_buffer_bytes"]
            frames.append(setup.rows("switch Core", name, [times], [cores.max() / 1e6]))  # type: ignore[operator]
            for tier, held in setup.pfc_us(runs, label).items():
                frames.append(setup.rows(f"pfc {tier}", name, [times], [held]))
    return pl.concat(frames)


def curve(data: pl.DataFrame, panel: str, series: str) -> dict[int, float]:
    """MB (or us) by number of incasts."""
    kept = data.filter((pl.col("panel") == panel) & (pl.col("series") == series)).sort("x")
    return {int(x): y for x, y in kept.select("x", "y").iter_rows()}


def claims(data: pl.DataFrame, scale: str) -> list[Claim]:
    """DCQCN fills one hop after the other; Floodgate keeps the incasts at the first hop, or with PAUSE at the hosts."""
    dcqcn, flood, pause = ({hop: curve(data, hop, series) for hop in HOPS} for series in LEGENDS.values())
    cores = curve(data, "switch Core", LEGENDS["DCQCN"])
    most = max(cores)
    return [
        within(
            "dcqcn-tor-down",
            "DCQCN, ToR-Down, 4 incasts (MB of 20)",
            "quickly filled up",
            dcqcn["ToR-Down"][4],
            0.75 * BUFFER_MB,
            quick=True,
            why="the other end is the buffer",
        ),
        within(
            "dcqcn-core",
            f"DCQCN, buffer of the fullest core, {most} incasts (MB of 20)",
            "filled up, too",
            cores[most],
            0.75 * BUFFER_MB,
            why="the other end is the buffer",
        ),
        within(
            "dcqcn-storm",
            "DCQCN: incasts from which PFC holds ToR-Up",
            "12 or more: a PFC storm, ToR-Up increases",
            storm(data),
            6,
            24,
        ),
        holds(
            "dcqcn-tor-up",
            f"DCQCN, ToR-Up (MB): {most} incasts against 4",
            "increases once there is a PFC storm",
            f"{dcqcn['ToR-Up'][most]:.3g} against {dcqcn['ToR-Up'][4]:.3g}",
            dcqcn["ToR-Up"][most] > 3 * dcqcn["ToR-Up"][4],
            "more than three times",
            quick=False,
        ),
        *(
            within(
                f"floodgate-{hop.lower()}",
                f"Floodgate, {hop}: largest over smallest of all numbers of incasts",
                "stable",
                max(flood[hop].values()) / min(flood[hop].values()),
                1,
                2,
            )
            for hop in ("Core", "ToR-Down")
        ),
        ascending(
            "floodgate-tor-up",
            "Floodgate, ToR-Up (MB) by number of incasts",
            "increases with the number of incasts",
            {str(times): y for times, y in flood["ToR-Up"].items()},
        ),
        within(
            "floodgate-proportional",
            "Floodgate, ToR-Up: 16 incasts / 8",
            "proportional to the number of incasts",
            flood["ToR-Up"].get(16, math.nan) / flood["ToR-Up"].get(8, math.nan),
            1.4,
            2.8,
        ),
        within(
            "pause",
            f"ToR-Up, {most} incasts: Floodgate / Floodgate with PAUSE",
            "extremely small with PAUSE",
            flood["ToR-Up"][most] / pause["ToR-Up"][most],
            4,
            quick=True,
            why=MORE,
        ),
        ascending(
            "pause-everywhere",
            f"most stored at any hop (MB), {most} incasts",
            "extremely small with PAUSE",
            {
                name: max(hops[hop][most] for hop in HOPS)
                for name, hops in zip(("PAUSE", "Floodgate", "DCQCN"), (pause, flood, dcqcn))
            },
        ),
    ]


def storm(data: pl.DataFrame) -> float:
    """The smallest number of incasts at which cores pause ToRs."""
    return min((times for times, us in curve(data, "pfc ToR", LEGENDS["DCQCN"]).items() if us > 0), default=math.nan)


def plot(data: pl.DataFrame) -> Any:
    """A panel per hop."""
    made, panels = figure(1, 3, width=PAGE, height=2.4)
    styles = (DCQCN.style, FLOODGATE.style, {**FLOODGATE.style, "color": PURPLE, "linestyle": "--"})
    for axes, hop in zip(panels, ("ToR-Up", "Core", "ToR-Down")):
        for name, style in zip(LEGENDS.values(), styles):
            line = curve(data, hop, name)
            axes.plot(list(line), list(line.values()), **style, label=name)
        axes.set(xlabel="Incasts", ylabel="Port buffer (MB)", xlim=(0, None), ylim=(0, None))
    lettered(panels, ("ToR-Up", "Core", "ToR-Down"))
    legend_above(made, panels[0], columns=3)
    return made
