"""Floodgate (CoNEXT 2021), figure 16: buffer of the last hop as flows to one receiver arrive, by DCQCN's marking thresholds.

Section 6.4: long flows to one host arrive one every 7.7 ms; K_min, K_max are 40, 160 KB or 40, 40 KB (at 100 Gbit/s). From
max(BW / Rate_min, K_max / MTU) flows on DCQCN cannot go slower, and each flow has a packet under way: the buffer grows by a
packet with each. The paper says neither how many flows there are nor Rate_min: with 1 Gbit/s (the HPCC authors' script) that
is 110 or 100 flows, and we let 400 arrive; with 100 Mbit/s (the Floodgate authors' file, which all figures have) it is 1000,
and we let 1300 arrive. Only these are judged as the paper's. The 400 arrive once more every 0.77 ms, to show that the interval
matters little to them. (The 1300 do need it: at 0.77 ms DCQCN does not settle from 300 flows on.) The settled buffer is the
median of the second half of an interval.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import FROM_PAPER, OURS, TWICE, WORDS, Differs
from penstock_papers.floodgate import _setup as setup
from penstock_papers.floodgate._setup import DCQCN, IDEAL, PACKETS, Scheme, rows
from penstock_papers.sentences import Numbers, Row, ascending, within
from penstock_papers.style import PAGE, figure, legend_above, lettered

TITLE = "Buffer of the last hop by marking thresholds as flows arrive"
PAPER = "Floodgate, CoNEXT 2021, section 6.4, figure 16"
MARKING = {"40, 160 KB": 160, "40, 40 KB": 40}  # K_max
SCHEMES = (DCQCN, IDEAL)
LAST_HOP = 160  # the ToR of host 0
SAMPLES = 20  # of an interval
PACKET_KB = (PACKETS["mtu"] + PACKETS["header"]) / 1000  # type: ignore[operator]
WINDOWS_KB = 4 * 1.5 * 60 + 4 * 3 * PACKET_KB + 4  # of the four cores, with their slack: what may be under way to the last hop
SEEDS = setup.LONG_SEEDS
LIKE_SIMILAR = 'the same, in the band of "similar"'
INSENSITIVE = "the buffer occupancy of Floodgate (ideal) is insensitive to the ECN-marking threshold"
CONVERGES = "the buffer occupancy of ToR-Down can converge to proportional to the initial sending window and topology scale"
INFLECTION = "an inflection point, i.e., the y-axis is K_max, and the corresponding x-axis is max(BW_host/Rate_min, K_max/MTU)"
GROWS = "there is at least one in-flight packet for a flow, the buffer continues increasing along with the number of flows"
FAR = "the buffer occupancy of DCQCN can not converge when flows continue arriving"
DIFFERS: dict[str, Differs] = {}


@dataclass(frozen=True)
class Case:
    """A number of flows, the interval between their starts, and DCQCN's lowest rate."""

    flows: int
    every_us: int
    min_rate: str

    def inflection(self, k_max: int) -> float:
        """max(BW / Rate_min, K_max / MTU)."""
        return max({"1Gbps": 100, "100Mbps": 1000}[self.min_rate], 1000 * k_max / PACKETS["mtu"])  # type: ignore[operator]


CASES = {
    "quick": {"400": Case(400, 100, "1Gbps")},
    "paper": {"400": Case(400, 7700, "1Gbps"), "400, soon": Case(400, 770, "1Gbps"), "1300": Case(1300, 7700, "100Mbps")},
}
OF_PAPER = "1300"  # has the lowest rate of the other figures
CALLED = {"400": "1 Gbit/s", "400, soon": "1 Gbit/s, 0.77 ms", "1300": "100 Mbit/s"}  # Rate_min, interval
BOUND = "what the windows of the four cores let be under way; less agrees"
BELOW = "the buffer is K_max at the inflection, and less before"


def _rows(name: str, case: Case) -> Iterator[Row]:
    of, kind = f"{name} flows", FROM_PAPER if name == OF_PAPER else OURS
    more: dict[str, Any] = {"quick": True, "kind": kind}
    ideal = f"{of}, ideal: most buffer"
    yield within(f"{name}-bounded", f"{ideal} (KB), either threshold", CONVERGES, high=WINDOWS_KB, why=BOUND, **more)
    same = f"{ideal}, 40, 160 KB over 40, 40 KB"
    yield within(f"{name}-insensitive", same, INSENSITIVE, *WORDS["similar"], why=LIKE_SIMILAR, **more)
    for text, k_max in MARKING.items():
        what, id, at = f"{of}, DCQCN {text}", f"{name}-{k_max}", case.inflection(k_max)
        before = f"{what}: settled buffer before it over K_max, median"
        yield within(f"{id}-before", before, INFLECTION, high=1, why=BELOW, **more)
        beyond = f"{what}: beyond K_max for good (flows)"
        yield within(f"{id}-knee", beyond, INFLECTION, at / 2, 2 * at, why=f"{TWICE}, {at:.0f}", **more)
        slope = f"{what}: growth at the end, packets per flow"
        yield within(f"{id}-slope", slope, GROWS, 0.5, 2, why=f"{TWICE}, 1", **more)
    yield ascending(f"{name}-far", f"{of}: settled buffer at the end (KB)", FAR, kind=kind)


CLAIMS = (
    *(row if name in CASES["quick"] else row.at("paper") for name, case in CASES["paper"].items() for row in _rows(name, case)),
    *(
        within(
            f"interval-{k_max}",
            f"400 flows, DCQCN {text}: settled buffer at the end, every 7.7 ms over every 0.77 ms",
            "-",
            *WORDS["similar"],
            kind=OURS,
            why=LIKE_SIMILAR,
        ).at("paper")
        for text, k_max in MARKING.items()
    ),
)


def scheme(one: Scheme, k_max: int, case: Case) -> dict[str, Any]:
    """Its table with these thresholds and this lowest rate."""
    marking = {"k_min": "40KB", "k_max": f"{k_max}KB"}
    return {**one.table, "ecn": marking, "dcqcn": {"window": True, "min_rate": case.min_rate}}


def specs(scale: str) -> dict[str, Spec]:
    """A traffic for each case; schemes by thresholds."""
    made = {}
    for name, case in CASES[scale].items():
        every, sample = f"{case.every_us}us", f"{case.every_us / SAMPLES:g}us"
        traffic = {"kind": "incast", "fan_in": 1, "size": "20GB", "receivers": [0], "pairs": "inter_rack", "every": every}
        spec = setup.spec((), [traffic], f"{case.flows * case.every_us}us", sample=sample, queueing=False)
        table = [{**scheme(one, k, case), "label": f"{one.legend}, {text}"} for text, k in MARKING.items() for one in SCHEMES]
        made[name] = {**spec, "scheme": table, "run": {**spec["run"], "drain": False}}
    return made


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """Panels "settled", "least", "most": x the number of flows, y KB; series the scheme and its thresholds; traffic the case."""
    frames = []
    for name, case in CASES[scale].items():
        for text in MARKING:
            for one in SCHEMES:
                legend = f"{one.legend}, {text}"
                table = runs.scan(f"{name}/{legend}", "switches").filter(pl.col("switch") == LAST_HOP).sort("time_ns").collect()
                lengths = table["max_queue_bytes"].to_numpy()[: SAMPLES * case.flows] / 1000
                grid = lengths[: len(lengths) // SAMPLES * SAMPLES].reshape(-1, SAMPLES)
                x = np.arange(1, len(grid) + 1)
                frames += [
                    rows("settled", legend, x, np.median(grid[:, SAMPLES // 2 :], axis=1), name),
                    rows("least", legend, x, grid.min(axis=1), name),
                    rows("most", legend, x, grid.max(axis=1), name),
                ]
    return pl.concat(frames)


def curve(data: pl.DataFrame, name: str, legend: str, panel: str = "settled") -> np.ndarray:
    """KB with 1, 2, ... flows."""
    kept = (pl.col("panel") == panel) & (pl.col("series") == legend) & (pl.col("traffic") == name)
    return data.filter(kept).sort("x")["y"].to_numpy()


def knee(settled: np.ndarray, level: float) -> float:
    """With how many flows the buffer goes beyond a level for good."""
    below = np.flatnonzero(settled <= level)
    return float(below[-1] + 2) if len(below) else 1.0


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """DCQCN up to and from its inflection on; the ideal design at both thresholds."""
    found: Numbers = {}
    for name, case in CASES[scale].items():
        most = [float(curve(data, name, f"{IDEAL.legend}, {text}", "most").max()) for text in MARKING]
        found |= {f"{name}-bounded": max(most), f"{name}-insensitive": most[0] / most[1]}
        for text, k_max in MARKING.items():
            settled, at = curve(data, name, f"{DCQCN.legend}, {text}"), case.inflection(k_max)
            found |= {
                f"{name}-{k_max}-before": float(np.median(settled[: int(0.9 * at)])) / k_max,
                f"{name}-{k_max}-knee": knee(settled, k_max),
                f"{name}-{k_max}-slope": (np.mean(settled[-10:]) - np.mean(settled[-40:-30])) / 30 / PACKET_KB,
            }
        found[f"{name}-far"] = {s.legend: float(curve(data, name, f"{s.legend}, 40, 160 KB")[-1]) for s in reversed(SCHEMES)}
    return found | (_interval(data) if scale == "paper" else {})


def _interval(data: pl.DataFrame) -> Numbers:
    ends = {
        k_max: [curve(data, name, f"{DCQCN.legend}, {text}")[-1] for name in ("400", "400, soon")]
        for text, k_max in MARKING.items()
    }
    return {f"interval-{k_max}": slow / soon for k_max, (slow, soon) in ends.items()}


def plot(data: pl.DataFrame) -> Any:
    """A row per pair of thresholds, a panel per case; the bands are the extremes of an interval."""
    cases = [name for name in CALLED if name in data["traffic"].unique()]
    made, grid = figure(2, len(cases), width=PAGE, height=4.2, squeeze=False)
    for row, (text, k_max) in zip(grid, MARKING.items()):
        for axes, name in zip(row, cases):
            for one in SCHEMES:
                legend = f"{one.legend}, {text}"
                least, settled, most = (curve(data, name, legend, panel) for panel in ("least", "settled", "most"))
                x = np.arange(1, len(settled) + 1)
                axes.fill_between(x, least, most, color=one.style["color"], alpha=0.25, lw=0)
                axes.plot(
                    x,
                    settled,
                    color=one.style["color"],
                    ls=one.style["linestyle"],
                    label=one.legend,
                    lw=1.5 if len(x) < 500 else 0.7,
                )
            axes.axhline(k_max, color="0.35", lw=0.8)
            axes.text(0.98, k_max, "$K_{max}$", transform=axes.get_yaxis_transform(), ha="right", va="bottom", fontsize=7.5)
            axes.set(ylim=(0, None), xlim=(1, len(curve(data, name, f"{SCHEMES[0].legend}, {text}"))))
        row[0].set(ylabel=f"Buffer (KB), $K$: {text}")
    for axes in grid[-1]:
        axes.set(xlabel="Flows")
    lettered(grid.flat, [CALLED[name] for _ in MARKING for name in cases])
    legend_above(made, grid[0, 0], columns=2)
    return made
