"""BFC (NSDI 2022), figure 11: 99th percentile of the slowdown for the Facebook distribution, with and without incast.

Section 6.2.2, "Another workload", on the set-up of section 6.2.1, see `_fabric`: (a) 55 % load and 5 % 100-to-1 incast,
(b) 60 % load. Averages and 95th percentiles are in data.parquet. HPCC-PFC and ExpressPass: `_without_pfc`; ExpressPass and BFC
ran with the Google distribution, too, as in figures 9 and 10, with which the text compares ExpressPass. (c) and (d), HPCC
and BFC with the load of the text, are ours.
"""

from typing import Any

import polars as pl

from penstock_papers.bfc import _fabric as fabric
from penstock_papers.bfc import _rivals as rivals
from penstock_papers.bfc import _without_pfc as without_pfc
from penstock_papers.bfc._fabric import BFC, HPCC, IDEAL, SCHEMES, named, value
from penstock_papers.bfc._rivals import EXPRESSPASS, HPCC_PFC
from penstock_papers.bfc._variants import LOAD, LOAD_BESIDE
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import Differs
from penstock_papers.sentences import Numbers, Row, ascending, within
from penstock_papers.style import PAGE, figure, legend_above, lettered

TITLE = "FCT slowdown (p99) with and without incast, Facebook"
PAPER = "BFC, NSDI 2022, section 6.2.2, figure 11"
DURATION = {"quick": "2ms", "paper": "50ms"}
SEEDS = fabric.MAIN_SEEDS
SIZES = "facebook_hadoop"
TRAFFIC = {"incast": 0.05, "plain": 0.0}
SHOWN = {LOAD: SCHEMES, LOAD_BESIDE: (HPCC, BFC)}
DIFFERS: dict[str, Differs] = {}
NAMES = {"incast": "55 % + 5 % incast", "plain": "60 %"}
GOOGLE = {"incast": (5, 30), "plain": (2.3, 3)}  # HPCC over BFC in figures 9 and 10
SIMILAR = "The trends in the FCT slowdowns are similar to that of the Google distribution"
FEWER = "ExpressPass performs better since it incurs fewer wasted credits (as a percentage) for the Facebook workload"


def _hpcc_row(traffic: str, load_of: str) -> Row:
    """HPCC's tail over BFC's by a definition of load; the range is that of Google's traffic."""
    prefix, where = fabric.prefix_of(load_of)
    return within(
        f"{prefix}{traffic}-hpcc",
        f"{where}{NAMES[traffic]}: short flows (< 3 KB), p99: HPCC / BFC",
        SIMILAR,
        *GOOGLE[traffic],
        why="the range that the paper has for Google's distribution",
        kind=fabric.kind_of(load_of),
    )


def _trend_rows(traffic: str, prefix: str, where: str) -> list[Row]:
    return [
        _hpcc_row(traffic, LOAD),
        fabric.best(f"{prefix}best", f"{where}short flows, p99"),
        ascending(f"{prefix}order", f"{where}short flows, p99: order of the schemes", SIMILAR, quick=False),
        *fabric.long_rows(prefix, where),
        *fabric.medium_rows(prefix, where),
        fabric.no_drops(prefix, where),
    ]


def fewer_rows(prefix: str, where: str) -> list[Row]:
    """ExpressPass with Facebook's sizes and with Google's; the numbers are those of `fewer`."""
    return [
        ascending(f"{prefix}expresspass-wasted", f"{where}ExpressPass: credits wasted (%)", FEWER, quick=False),
        ascending(f"{prefix}expresspass-better", f"{where}flows > 3 MB, average: ExpressPass / BFC", FEWER, quick=False),
    ]


INCAST, PLAIN = ("incast-", f"{NAMES['incast']}: "), ("plain-", f"{NAMES['plain']}: ")
CLAIMS = (
    *_trend_rows("incast", *INCAST),
    *_trend_rows("plain", *PLAIN),
    fabric.near_optimal("plain-ideal", "60 %: short flows, p99: BFC / Ideal-FQ"),
    *fabric.pfc_rows(*PLAIN),
    *(_hpcc_row(traffic, LOAD_BESIDE) for traffic in TRAFFIC),
    *without_pfc.incast_rows(*INCAST),
    *without_pfc.plain_rows(*PLAIN),
    *(row for each in (INCAST, PLAIN) for row in (*without_pfc.best_rows(*each, incast=each is INCAST), *fewer_rows(*each))),
)


def specs(scale: str) -> dict[str, Spec]:
    """Two traffics, for HPCC and BFC by both definitions of load, and ExpressPass with Google's sizes."""
    found: dict[str, Spec] = {}
    for name, incast in TRAFFIC.items():
        for load_of, shown in {LOAD: (*SHOWN[LOAD], HPCC_PFC), LOAD_BESIDE: SHOWN[LOAD_BESIDE]}.items():
            found[named(name, load_of)] = fabric.spec(shown, DURATION[scale], SIZES, incast=incast, load_of=load_of)
        found |= without_pfc.expresspass_spec(name, DURATION[scale], SIZES, incast=incast)
        found[_google(name)] = fabric.spec([BFC], DURATION[scale], "google", incast=incast, load_of=LOAD)
        found |= without_pfc.expresspass_spec(_google(name), DURATION[scale], "google", incast=incast)
    return found


def _google(traffic: str) -> str:
    """The traffic with the sizes of figures 9 and 10."""
    return f"google-{traffic}"


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: flow size or buffer; y: slowdown or CDF, by traffic and panel."""
    parts = [
        fabric.everything(runs, named(traffic, load_of), scheme, SIZES)
        for load_of, shown in SHOWN.items()
        for traffic in TRAFFIC
        for scheme in shown
    ]
    for traffic in TRAFFIC:
        google = _google(traffic)
        parts += [
            without_pfc.measure(runs, traffic, SIZES),
            fabric.statistics(runs, google, BFC, "google"),
            without_pfc.expresspass(runs, google, "google"),
        ]
    return pl.concat(parts)


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """The trends of figures 9 and 10 with this distribution."""
    tail = {scheme.legend: value(data, "plain", scheme, "short p99") for scheme in (BFC, IDEAL)}
    return {
        **{id: number for traffic in TRAFFIC for id, number in _trends(data, traffic, f"{traffic}-").items()},
        "plain-ideal": tail["BFC"] / tail["Ideal-FQ"],
        **fabric.paused(data, "plain", "plain-"),
        **without_pfc.recovery_with_incast(data, "incast", "incast-"),
        **without_pfc.recovery_without_incast(data, "plain", "plain-"),
    }


def _trends(data: pl.DataFrame, traffic: str, prefix: str) -> Numbers:
    tail = {scheme.legend: value(data, traffic, scheme, "short p99") for scheme in SCHEMES}
    return {
        f"{prefix}hpcc": _hpcc(data, traffic, LOAD),
        f"{fabric.prefix_of(LOAD_BESIDE)[0]}{prefix}hpcc": _hpcc(data, traffic, LOAD_BESIDE),
        f"{prefix}best": fabric.best_existing(tail),
        f"{prefix}order": {name: tail[name] for name in ("BFC", "HPCC", "DCTCP", "DCQCN")},
        **fabric.long_flows(data, traffic, prefix),
        **fabric.medium_flows(data, traffic, prefix),
        f"{prefix}drops": fabric.dropped(data, traffic),
        **without_pfc.best(data, traffic, prefix, incast=traffic == "incast"),
        **fewer(data, traffic, prefix),
    }


def _hpcc(data: pl.DataFrame, traffic: str, load_of: str) -> float:
    hpcc, bfc = (value(data, named(traffic, load_of), scheme, "short p99") for scheme in (HPCC, BFC))
    return hpcc / bfc


def fewer(data: pl.DataFrame, traffic: str, prefix: str) -> Numbers:
    """The numbers of `fewer_rows`."""
    of = {"Facebook": traffic, "Google": _google(traffic)}
    long = {s: value(data, name, EXPRESSPASS, "long avg") / value(data, name, BFC, "long avg") for s, name in of.items()}
    return {
        f"{prefix}expresspass-wasted": {sizes: value(data, name, EXPRESSPASS, "wasted") for sizes, name in of.items()},
        f"{prefix}expresspass-better": long,
    }


def plot(data: pl.DataFrame) -> Any:
    """Slowdown by size, with incast and without, by both definitions of load."""
    made, grid = figure(2, 2, width=PAGE, height=4.9)
    for row, load_of, more in zip(grid, SHOWN, (without_pfc.SERIES, ())):
        for panel, traffic in zip(row, TRAFFIC):
            rivals.draw_sizes(panel, data, named(traffic, load_of), (*SHOWN[load_of], *more), "p99")
    lettered(grid.flat, [*NAMES.values(), *(f"{name}, {fabric.SHORTER[LOAD_BESIDE]}" for name in NAMES.values())])
    legend_above(made, grid[0, 0], columns=4)
    return made
