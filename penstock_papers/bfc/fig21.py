"""BFC (NSDI 2022), figure 21: how much the parameters of HPCC, DCTCP and ExpressPass matter.

Appendix A.4 on the set-up of figure 11 (b): Facebook distribution, 60 % load, no incast, see `_fabric`. (a) HPCC's target
utilisation from 90 to 98 %; (b) DCTCP's marking thresholds, of which the text has only those of section 6.2.1, 100 and 400 KB:
here half, twice and four times of both; (c) ExpressPass's credit buffer and (d) its alpha, around the 16 credits and 0.5 of
section 6.2.1, the text has no other values. ExpressPass has the set-up and the clock of its simulator, see `_without_pfc`. (e)
and (f), ours: what that simulator has and its authors' paper has not, the two additions and another rule for the rate of credits.

The text is on the short flows and the long ones: as in section 6.3, the 99th percentile of flows < 3 KB and the average of flows
> 3 MB. Credits are wasted that reach a sender which has nothing to send, see `_without_pfc`.
"""

from dataclasses import dataclass
from typing import Any

import polars as pl

from penstock_papers.bfc import _fabric as fabric
from penstock_papers.bfc import _rivals as rivals
from penstock_papers.bfc import _without_pfc as without_pfc
from penstock_papers.bfc._fabric import DCTCP, HPCC, Scheme, value
from penstock_papers.bfc._rivals import EXPRESSPASS
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import MORE, OURS, WORDS, Differs
from penstock_papers.sentences import Numbers, ascending, within
from penstock_papers.style import PAGE, figure, lettered

TITLE = "Sensitivity of HPCC, DCTCP and ExpressPass to their parameters, Facebook"
PAPER = "BFC, NSDI 2022, appendix A.4, figure 21"
DURATION = {"quick": "1ms", "paper": "50ms"}
SEEDS = fabric.SEEDS
SIZES = "facebook_hadoop"
ETAS = (0.9, 0.92, 0.95, 0.98)
MARKING_KB = (50, 100, 200, 400)  # K_min; K_max is four times as much
CREDITS = (8, 16, 32)
ALPHAS = (1 / 16, 1 / 8, 1 / 4, 1 / 2)
ETA = "As expected, increasing eta worsens the FCT of short flows but improves the FCT for long flows (marginally for both)"
_MARGINALLY = "marginally is slightly: the band of that word"
MARKING = "increases the queuing at the switch, which increases FCT of short flows but improves link utilization"
BUFFER = "Varying the credit buffer size has little impact on performance"
WASTE = (
    'Reducing alpha reduces "credit waste", improving the FCT of long flows. However, it also increases the FCT of short flows'
)
DIFFERS: dict[str, Differs] = {}


@dataclass(frozen=True)
class Sweep:
    """A panel of the figure: a scheme with several values of a parameter, the smallest one first."""

    title: str
    traffic: str
    schemes: tuple[Scheme, ...]


def _sweep(base: Scheme, of: str, settings: dict[str, dict[str, Any]]) -> tuple[Scheme, ...]:
    """The scheme with several settings, by their legends; `of` is what the names of the runs begin with."""
    return tuple(
        Scheme(legend, {**base.table, **setting}, nth=nth, run=f"{base.label}_{of}{nth}")
        for nth, (legend, setting) in enumerate(settings.items())
    )


HPCCS = _sweep(HPCC, "eta", {f"eta = {eta:g}": {"eta": eta} for eta in ETAS})
DCTCPS = _sweep(DCTCP, "k", {f"{k} and {4 * k} KB": {"ecn": {"k_min": f"{k}KB", "k_max": f"{4 * k}KB"}} for k in MARKING_KB})
BUFFERS = _sweep(EXPRESSPASS, "credits", {f"{credits} credits": {"credits": credits} for credits in CREDITS})
STARTS = _sweep(EXPRESSPASS, "alpha", {f"alpha = 1/{1 / alpha:g}": {"alpha": alpha} for alpha in ALPHAS})
PLAIN = {"air": False, "ecs": False}
RULES = _sweep(
    EXPRESSPASS,
    "rule",
    {
        "judged": {},
        "as printed": {**PLAIN, "feedback": "printed", "target": 0.1},
        "without additions": PLAIN,
    },
)
SWEEPS = (
    Sweep("HPCC, target utilisation", "plain", HPCCS),
    Sweep("DCTCP, marking thresholds", "plain", DCTCPS),
    Sweep("ExpressPass, credit buffer", "expresspass", BUFFERS),
    Sweep("ExpressPass, alpha", "expresspass", STARTS),
    Sweep("ExpressPass, rule", "expresspass", RULES),
)
_ENDS = f"{DCTCPS[-1].legend} / {DCTCPS[0].legend}", f"{DCTCPS[0].legend} / {DCTCPS[-1].legend}"
GROUPS = {"short": "flows < 3 KB, p99", "long": "flows > 3 MB, average"}
CLAIMS = (
    within("eta-short", "HPCC, flows < 3 KB, p99: eta 0.98 / 0.9", ETA, *WORDS["slightly"], why=_MARGINALLY),
    within("eta-long", "HPCC, flows > 3 MB, average: eta 0.9 / 0.98", ETA, *WORDS["slightly"], why=_MARGINALLY),
    ascending("marking-buffer", "DCTCP, buffer in use (MB), p99", MARKING),
    within("marking-short", f"DCTCP, flows < 3 KB, p99: {_ENDS[0]}", MARKING, 1, why=MORE),
    within("marking-long", f"DCTCP, flows > 3 MB, average: {_ENDS[1]}", MARKING, 1, why=MORE),
    *(
        within(
            f"credits-{group}",
            f"ExpressPass, {what}: 8 to 32 credits, largest / smallest",
            BUFFER,
            1,
            WORDS["slightly"][1],
            why="little is slightly: the band of that word upwards",
        )
        for group, what in GROUPS.items()
    ),
    ascending("alpha-waste", "ExpressPass, credits that find nothing to send (%)", WASTE),
    within("alpha-long", "ExpressPass, flows > 3 MB, average: alpha 1/2 / 1/16", WASTE, 1, why=MORE),
    within("alpha-short", "ExpressPass, flows < 3 KB, p99: alpha 1/16 / 1/2", WASTE, 1, why=MORE),
    *(
        within(
            f"rule-{name}-{group}",
            f"ExpressPass, {what}: rule {scheme.legend} / judged",
            "for ExpressPass we use [1], the simulator of its authors",
            *WORDS["similar"],
            why="what is judged does not depend on it: similar",
            kind=OURS,
        )
        for name, scheme in zip(("printed", "code"), RULES[1:])
        for group, what in GROUPS.items()
    ),
)


def specs(scale: str) -> dict[str, Spec]:
    """One traffic; ExpressPass has the set-up of its simulator."""
    return {
        "plain": fabric.spec((*HPCCS, *DCTCPS), DURATION[scale], SIZES),
        "expresspass": rivals.as_its_script(
            fabric.spec((*BUFFERS, *STARTS, *RULES), DURATION[scale], SIZES, load_of=fabric.UPLINKS)
        ),
    }


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: flow size or buffer; y: slowdown, CDF or per cent of ExpressPass's credits that are wasted, by panel."""
    parts = [fabric.everything(runs, "plain", scheme, SIZES) for scheme in (*HPCCS, *DCTCPS)]
    for scheme in (*BUFFERS, *STARTS, *RULES):
        flows = without_pfc.by_script(runs, fabric.of(runs, "expresspass", scheme))
        parts.append(fabric.of_flows(flows, "expresspass", scheme, SIZES))
        wasted = without_pfc.wasted(runs, fabric.of(runs, "expresspass", scheme))
        parts.append(fabric.points("expresspass", scheme, "wasted", [0], [wasted]))
    return pl.concat(parts)


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """What each parameter does to short and to long flows."""
    return {**_hpcc(data), **_dctcp(data), **_expresspass(data), **_rules(data)}


def _numbers(data: pl.DataFrame, traffic: str, schemes: tuple[Scheme, ...]) -> tuple[list[float], list[float]]:
    """Short flows' tail and long flows' average for each value of a parameter."""
    short, long = ([value(data, traffic, each, panel) for each in schemes] for panel in ("short p99", "long avg"))
    return short, long


def _hpcc(data: pl.DataFrame) -> Numbers:
    short, long = _numbers(data, "plain", HPCCS)
    return {"eta-short": short[-1] / short[0], "eta-long": long[0] / long[-1]}


def _dctcp(data: pl.DataFrame) -> Numbers:
    short, long = _numbers(data, "plain", DCTCPS)
    queued = {each.legend: rivals.buffer_at(data, "plain", each, 0.99) for each in DCTCPS}
    return {"marking-buffer": queued, "marking-short": short[-1] / short[0], "marking-long": long[0] / long[-1]}


def _expresspass(data: pl.DataFrame) -> Numbers:
    by_credits = zip(GROUPS, _numbers(data, "expresspass", BUFFERS))
    short, long = _numbers(data, "expresspass", STARTS)
    return {
        **{f"credits-{group}": max(slowdowns) / min(slowdowns) for group, slowdowns in by_credits},
        "alpha-waste": {each.legend: value(data, "expresspass", each, "wasted") for each in STARTS},
        "alpha-long": long[-1] / long[0],
        "alpha-short": short[0] / short[-1],
    }


def _rules(data: pl.DataFrame) -> Numbers:
    """The simulator's rule for credits, and the one of the paper, against what is judged."""
    return {
        f"rule-{name}-{group}": other / judged
        for group, (judged, *others) in zip(GROUPS, _numbers(data, "expresspass", RULES))
        for name, other in zip(("printed", "code"), others)
    }


def plot(data: pl.DataFrame) -> Any:
    """99th percentile of the slowdown by size, a panel per parameter; of ExpressPass's rules the average, too."""
    made, grid = figure(2, 3, width=PAGE, height=4.4)
    panels = [(sweep, "p99", sweep.title) for sweep in SWEEPS] + [(SWEEPS[-1], "avg", f"{SWEEPS[-1].title}, average")]
    for axes, (sweep, statistic, _) in zip(grid.flat, panels):
        rivals.draw_sizes(axes, data, sweep.traffic, sweep.schemes, statistic)
        axes.legend(fontsize=6.5)
    lettered(grid.flat, [title for *_, title in panels])
    return made
