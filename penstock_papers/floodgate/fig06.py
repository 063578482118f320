"""Floodgate (CoNEXT 2021), figure 6: the testbed, DCQCN without and with Floodgate under an incast mix.

Section 5.2: two servers at each of three ToRs, 10 Gbit/s, one core switch, 20 Gbit/s; the delay of a link is such that the
base BDP is the paper's 45 KB. The four hosts of the other racks send 45 KB each to host 0 at once, again and again; Poisson
flows go among all others. Open in the paper, and taken from its simulations: sizes (Web Server), load 0.8 of a host's link,
incasts at load 0.5 of the receiver's (one in 288 us), 20 MiB of buffer, thresholds in proportion to the rate, DCQCN with a
window. At 0.8 the Poisson flows to one host are an incast of their own, so half of it is shown as well (ours). Twenty
seeds of 200 ms: section 6 ran everything ten times, which left two claims at 0.8 undecided.

The prototype is software on servers, whose switches have queues and delays of their own; ours has none of that.
"""

from typing import Any

import polars as pl

from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import FROM_PAPER, MORE, OURS, TWICE, Differs
from penstock_papers.floodgate import _setup as setup
from penstock_papers.floodgate._setup import DCQCN, FLOODGATE, HOPS, rows, value
from penstock_papers.sentences import Numbers, about, as_said, within
from penstock_papers.style import DASHES, PAGE, figure, legend_above, lettered, log_axis

TITLE = "The testbed: completion time and buffer under an incast mix"
PAPER = "Floodgate, CoNEXT 2021, section 5.2, figure 6"
TESTBED = {
    "kind": "leaf_spine",
    "hosts": 6,
    "tors": 3,
    "spines": 1,
    "rate": "10Gbps",
    "uplink_rate": "20Gbps",
    "delay": "4.062us",
    "buffer": setup.BUFFER,
}
SHOWN = (DCQCN, FLOODGATE)
DURATION = {"quick": "20ms", "paper": "200ms"}
LOADS = (0.8, 0.4)  # that of the simulations, and half of it (ours)
SEEDS = {"paper": 20}  # fewer left a claim undecided
STATISTICS = ("average", "99th percentile")
REDUCED = "the average FCT is reduced by 30.6%"
TAIL = "the 99th-tail latency is reduced by a factor of 1.6x"
BUFFER = "on ToR-Down and core switches is reduced by a factor of 17.2x and 1.8x, respectively"
UP_BUFFER = "the buffer on ToR-Up is slightly larger"
SMALL = Differs(
    "what an incast leaves in the core holds another flow up for at most 36 us, a tenth of the average", "floodgate-fig06"
)
HELD = Differs(
    "at half of the load the last hop is spared half of an incast or all, 90 to 180 KB over 39, which waits in the core",
    "floodgate-fig06",
)
DIFFERS = {
    "0.4-average": SMALL.expecting(1.05, 1.11),
    "0.4-down": HELD.expecting(2.3, 4.6),
    "0.4-core": HELD.expecting(0.75, 0.99),
}
WIDER = f"{TWICE}, a reduction of 15.3 to 61.2 %"
CLAIMS = (
    *(
        row
        for load, kind in zip(LOADS, (FROM_PAPER, OURS))
        for row in (
            within(f"{load}-better", f"load {load}, average FCT: DCQCN / Floodgate", REDUCED, 1, kind=OURS, why=MORE),
            within(
                f"{load}-average",
                f"load {load}, average FCT: DCQCN / Floodgate",
                REDUCED,
                1 / 0.847,
                1 / 0.388,
                kind=kind,
                why=WIDER,
            ),
            about(f"{load}-p99", f"load {load}, p99 FCT: DCQCN / Floodgate", TAIL, 1.6, gain=True, kind=kind),
            within(
                f"{load}-down-lower",
                f"load {load}, ToR-Down buffer: DCQCN / Floodgate",
                BUFFER,
                1,
                quick=True,
                kind=OURS,
                why=MORE,
            ),
            about(f"{load}-down", f"load {load}, ToR-Down buffer: DCQCN / Floodgate", BUFFER, 17.2, kind=kind),
            about(f"{load}-core", f"load {load}, core buffer: DCQCN / Floodgate", BUFFER, 1.8, gain=True, kind=kind),
            as_said(f"{load}-up", f"load {load}, ToR-Up buffer: Floodgate / DCQCN", UP_BUFFER, "slightly", kind=kind),
        )
    ),
)


def specs(scale: str) -> dict[str, Spec]:
    """A traffic for each load."""
    incast = {
        "kind": "incast",
        "fan_in": 4,
        "size": "45KB",
        "load": 0.5,
        "load_on": "receiver",
        "receivers": [0],
        "pairs": "inter_rack",
    }
    made = {}
    for load in LOADS:
        traffic = [setup.poisson("web_server", exclude=[0], load=load), incast]
        made[str(load)] = setup.spec(SHOWN, traffic, DURATION[scale], TESTBED)
    return made


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """Panel "FCT": y us; "CDF": x us; "buffer": y MB, x the hop; series the scheme; traffic the load."""
    parts = []
    for load in LOADS:
        for scheme in SHOWN:
            label = setup.of(runs, str(load), scheme)
            parts += [rows(name, scheme.legend, [0], [y], str(load)) for name, y in zip(STATISTICS, setup.fct(runs, label))]
            stored = list(setup.hop_buffers(runs, label).values())
            parts.append(rows("buffer", scheme.legend, range(len(HOPS)), stored, str(load)))
            parts.append(rows("CDF", scheme.legend, *setup.cdf(setup.flows(runs, label)["fct"]), str(load)))
    return pl.concat(parts)


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Half to twice the factors, but no loss; and whether the average and the last hop's buffer are lower at all (ours)."""
    return {id: number for load in map(str, LOADS) for id, number in _at_load(data, load).items()}


def _at_load(data: pl.DataFrame, load: str) -> Numbers:
    average, tail = ({s.legend: value(data, name, s.legend, load) for s in SHOWN} for name in STATISTICS)
    gain = average[DCQCN.legend] / average[FLOODGATE.legend]
    without, with_it = ([value(data, "buffer", s.legend, load, x) for x in range(len(HOPS))] for s in SHOWN)
    _, core, down = (a / b for a, b in zip(without, with_it))
    return {
        f"{load}-better": gain,
        f"{load}-average": gain,
        f"{load}-p99": tail[DCQCN.legend] / tail[FLOODGATE.legend],
        f"{load}-down-lower": down,
        f"{load}-down": down,
        f"{load}-core": core,
        f"{load}-up": with_it[0] / without[0],
    }


def plot(data: pl.DataFrame) -> Any:
    """CDF of the completion times, and the buffer at each hop; a column pair per load."""
    made, grid = figure(1, 4, width=PAGE, height=2.3)
    for load, (left, right) in zip(map(str, LOADS), (grid[:2], grid[2:])):
        for i, scheme in enumerate(SHOWN):
            kept = (pl.col("panel") == "CDF") & (pl.col("series") == scheme.legend) & (pl.col("traffic") == load)
            line = data.filter(kept).sort("y")
            left.plot(line["x"] / 1000, line["y"], label=scheme.legend, color=scheme.style["color"], ls=DASHES[i])
            heights = [1000 * value(data, "buffer", scheme.legend, load, x) for x in range(len(HOPS))]
            bars = right.bar([x + 0.4 * (i - 0.5) for x in range(3)], heights, 0.37, color=scheme.style["color"])
            right.bar_label(bars, [f"{height:.0f}" for height in heights], fontsize=6)
        log_axis(left.xaxis)
        left.set(xlabel="FCT (ms)", ylabel="CDF", ylim=(0, 1.01))
        right.set_xticks(range(3), ["ToR-\nUp", "Core", "ToR-\nDown"])
        right.set(ylabel="Most buffer (KB)")
        right.grid(visible=False, axis="x")
    lettered(grid, [f"load {load}" for load in LOADS for _ in range(2)])
    legend_above(made, grid[0], columns=2)
    return made
