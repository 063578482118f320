"""Floodgate (CoNEXT 2021), figure 6: the testbed, DCQCN without and with Floodgate under an incast mix.

Section 5.2: two servers at each of three ToRs, 10 Gbit/s, one core switch, 20 Gbit/s; the delay of a link is such that the
base BDP is the paper's 45 KB. The four hosts of the other racks send 45 KB each to host 0 at once, again and again; Poisson
flows go among all others. Open in the paper, and taken from its simulations: sizes (Web Server), load 0.8 of a host's link,
incasts at load 0.5 of the receiver's (one in 288 us), 20 MB of buffer, thresholds in proportion to the rate, DCQCN with a
window. 200 ms, seed 1.

The prototype is software on servers, whose switches have queues and delays of their own; ours has none of that.
"""

from typing import Any

import polars as pl

from penstock.experiments.cache import Runs, Spec
from penstock.experiments.claims import Claim, Differs, holds, within
from penstock.experiments.floodgate import _hops as hops
from penstock.experiments.floodgate import _setup as setup
from penstock.experiments.floodgate._setup import DCQCN, FLOODGATE, HOPS, rows, value
from penstock.experiments.style import PAGE, figure, legend_above, lettered, log_axis

TITLE = "The testbed: completion time and buffer under an incast mix"
PAPER = "Floodgate, CoNEXT 2021, figure 6"
TESTBED = {
    "kind": "leaf_spine",
    "hosts": 6,
    "tors": 3,
    "spines": 1,
    "rate": "10Gbps",
    "uplink_rate": "20Gbps",
    "delay": "4.062us",
    "buffer": "20MB",
}
SHOWN = (DCQCN, FLOODGATE)
DURATION = {"quick": "20ms", "paper": "200ms"}
STATISTICS = ("average", "99th percentile")
DIFFERS = {
    "average": Differs(
        "the 180 KB of an incast hold another flow up for some 40 us here, a tenth of an average flow", "floodgate-fig06"
    ),
    "down": Differs(
        "what stays at the last hop depends on the load, and the prototype's thresholds are not known", "floodgate-fig06"
    ),
    "up": Differs(
        "the first hop holds two packets without Floodgate here, where the prototype's software queues hold more",
        "floodgate-fig06",
    ),
}


def specs(scale: str) -> dict[str, Spec]:
    """One traffic."""
    incast = {
        "kind": "incast",
        "fan_in": 4,
        "size": "45KB",
        "load": 0.5,
        "load_on": "receiver",
        "receivers": [0],
        "pairs": "inter_rack",
    }
    traffic = [setup.poisson("web_server", exclude=[0]), incast]
    return {"testbed": setup.spec(SHOWN, traffic, DURATION[scale], TESTBED)}


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """Panel "FCT": y us; "CDF": x us; "buffer": y MB, series the hop, traffic the scheme."""
    frames = []
    for scheme in SHOWN:
        label = setup.of(runs, "testbed", scheme)
        frames += [rows("FCT", scheme.legend, [0], [time], name) for name, time in zip(STATISTICS, setup.fct(runs, label))]
        frames += hops.buffer_rows(runs, label, "buffer", traffic=scheme.legend)
        frames.append(rows("CDF", scheme.legend, *setup.cdf(setup.flows(runs, label)["fct"])))
    return pl.concat(frames)


def claims(data: pl.DataFrame, scale: str) -> list[Claim]:
    """Directions first, then the factors within 2x."""
    average, tail = ({s.legend: value(data, "FCT", s.legend, name) for s in SHOWN} for name in STATISTICS)
    cut = 100 * (1 - average[FLOODGATE.legend] / average[DCQCN.legend])
    factor = tail[DCQCN.legend] / tail[FLOODGATE.legend]
    ratio = {hop: value(data, "buffer", hop, DCQCN.legend) / value(data, "buffer", hop, FLOODGATE.legend) for hop in HOPS}
    return [
        holds("better", "average FCT (us): Floodgate below DCQCN", "-30.6 %", setup.text(average), cut > 0, "lower"),
        holds("better-p99", "p99 FCT (us): Floodgate below DCQCN", "1.6x", setup.text(tail), factor > 1, "lower"),
        within("average", "average FCT: reduction, %", "30.6", cut, 15.3, 61.2),
        within("p99", "p99 FCT: DCQCN / Floodgate", "1.6", factor, 0.8, 3.2),
        holds("down-lower", "ToR-Down buffer: DCQCN / Floodgate", "17.2", ratio["ToR-Down"], ratio["ToR-Down"] > 1, "> 1"),
        within("down", "ToR-Down buffer: DCQCN / Floodgate", "17.2", ratio["ToR-Down"], 8.6, 34.4),
        holds("core-lower", "core buffer: DCQCN / Floodgate", "1.8", ratio["Core"], ratio["Core"] > 1, "> 1"),
        within("core", "core buffer: DCQCN / Floodgate", "1.8", ratio["Core"], 0.9, 3.6),
        within("up", "ToR-Up buffer: Floodgate / DCQCN", "slightly larger", 1 / ratio["ToR-Up"], 1, 2),
    ]


def plot(data: pl.DataFrame) -> Any:
    """CDF of the completion times, and the buffer at each hop."""
    made, (left, right) = figure(1, 2, width=PAGE, height=2.5)
    for i, scheme in enumerate(SHOWN):
        line = data.filter((pl.col("panel") == "CDF") & (pl.col("series") == scheme.legend)).sort("y")
        left.plot(line["x"], line["y"], label=scheme.legend, color=scheme.style["color"], ls=scheme.style["linestyle"])
        heights = [1000 * value(data, "buffer", hop, scheme.legend) for hop in HOPS]
        bars = right.bar([x + 0.4 * (i - 0.5) for x in range(3)], heights, 0.37, color=scheme.style["color"])
        right.bar_label(bars, [f"{height:.0f}" for height in heights], fontsize=7.5)
    log_axis(left.xaxis)
    left.set(xlabel="FCT (us)", ylabel="CDF", ylim=(0, 1.01))
    right.set_xticks(range(3), list(HOPS))
    right.set(ylabel="Most buffer (KB)")
    right.grid(visible=False, axis="x")
    lettered((left, right), ("Poisson flows", "buffer"))
    legend_above(made, left, columns=2)
    return made
