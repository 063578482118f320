"""Beyond the papers: a spine that fails and is repaired, and an uplink that flaps, under six schemes. All claims are our own.

Network: that of BFC's figures 9 to 12 (section 6.2.1: 128 hosts, 8 ToR and 8 spine switches, 100 Gbit/s, 1 us, 12 MB per switch).
Traffic: the Facebook sizes, Poisson arrivals, 50 % of the links between ToR and spine; all flows finish.  The same flows run
three times under each scheme, so that every statistic is compared with that of the same flows without a fault:

* calm: nothing fails
* spine: spine0 fails, and is back after the outage
* flap: in the same time the link tor0 - spine0 is down for 50 us and up for 50 us, again and again

Routes are recomputed when something changes (docs/modelling.md): with 7 next hops instead of 8 the hash gives half of the flows
another uplink, at each change.  Timeouts are shorter than by default, so that they do not outlast the run: 500 us; IRN has its
own, 100 and 320 us; Homa's receivers ask after 500 us, too.  Homa sprays packets over the uplinks, as NDP does.  IRN is HPCC
without PFC, with dynamic thresholds.

Flows are grouped by when they start and by when they finish under calm: those that have finished before the failure, those in
flight at it, those that start during the outage, and those that start after it.  With the link that flaps, only flows from or
to its rack are shown, those of other racks are claims.  Slowdowns are by the receiver's clock.  The tail is as before from
the first window of starts on in which, and in the next two, the p99 is at most 1.25 of that of calm.

4 ms of arrivals, an outage from 1 to 2 ms; scale paper: 12 ms, 3 to 6 ms, three seeds.
"""

from collections.abc import Sequence
from typing import Any

import polars as pl

from penstock_papers import frames
from penstock_papers.beyond import _faults
from penstock_papers.beyond._faults import (
    AFTER,
    BFC,
    BY_FLOW,
    CALM,
    DCQCN,
    DURING,
    FAULTS,
    FLAP,
    HOMA,
    HPCC,
    IRN,
    LOAD,
    LOSSLESS,
    NDP,
    OUTAGE,
    PHASES,
    RTO_US,
    SCHEMES,
    SPRAYED,
    failures,
)
from penstock_papers.beyond._faults import measure as measure
from penstock_papers.beyond._faults import specs as specs
from penstock_papers.bfc._fabric import FABRIC
from penstock_papers.claims import OURS, WORDS, Differs
from penstock_papers.frames import Scheme
from penstock_papers.sentences import Numbers, Row, within
from penstock_papers.style import BLACK, PAGE, figure, legend_above, lettered, log_axis

TITLE = "A spine that fails and an uplink that flaps"
PAPER = "Beyond the papers: failures of switches and links"
WINDOW = "run"
WINDOW_REASON = "flows are grouped by when they start; bytes sent by uplinks have a window of their own, the outage"
SEEDS = {"paper": 3}
DIFFERS: dict[str, Differs] = {}


# a link in use half of the time has 6.25 of its 12.5 packets of 1 KB on the wire in each direction, and as many ACKs
A_LINK = 2 * 2 * LOAD * 12.5
BOUNDED = [scheme for scheme in SCHEMES if scheme is not NDP]  # whose small flows wait no longer than for the repair


# -- claims


def _none(id: str, what: str, said: str, why: str) -> Row:
    return within(id, what, said, 0, 0, why=why, quick=True, kind=OURS)


def _more(id: str, what: str, said: str, why: str) -> Row:
    return within(id, what, said, 1, why=why, kind=OURS)


LAWS = (
    _none(
        "finished",
        "all schemes and faults: flows that have not finished",
        "after the repair everything finishes",
        "what is lost is sent again, and what waits for the spine goes on",
    ),
    _none(
        "deadlocks",
        "all schemes and faults: runs that end in a deadlock",
        "paths go up and then down, whatever fails of one spine",
        "no cycle, no deadlock",
    ),
    _none(
        "cycles",
        "cycles of the backpressure graphs of the network with all, without the spine, without the link",
        "paths go up and then down, whatever fails of one spine",
        "a count: the sentence leaves no other",
    ),
    _none(
        "causal",
        "all schemes and faults: flows that had finished before the failure, at another time than without it",
        "what comes later changes nothing",
        "the same bits",
    ),
    _none("calm", "all schemes, nothing fails: packets lost", "at half load nothing is dropped, with PFC or without", "never"),
    _none(
        "calm-resent",
        "BFC, HPCC, DCQCN, nothing fails: packets sent more than once",
        "without losses no timeout expires",
        "never",
    ),
    *(
        _none(
            f"{fault}-elsewhere",
            f"BFC, HPCC, DCQCN, {fault}: packets lost, but in the switch that failed and on the links that went down",
            "a lossless fabric loses nothing else",
            "never",
        )
        for fault in FAULTS
    ),
    _none("flap-stored", "all schemes, flap: packets lost in switches", "a link that fails empties no switch", "never"),
)
LOSSES = tuple(
    within(
        f"{fault}-wire-{scheme.label}",
        f"{scheme.legend}, {fault}: packets lost on the wire{each}",
        f"{links} links with 6.25 packets and as many ACKs in each direction",
        links * A_LINK / 2,
        links * A_LINK * 2,
        why="half and double: links are busy or idle at the instant",
        kind=OURS,
    )
    for scheme in BY_FLOW
    for fault, each, links in ((OUTAGE, "", FABRIC["tors"]), (FLAP, " for each failure", 1))
)
TAILS = (
    *(
        row
        for scheme in SCHEMES
        for row in (
            within(
                f"during-{scheme.label}",
                f"{scheme.legend}, spine: p99 of flows that start during the outage / without it",
                "seven spines carry what eight did: 57 % instead of 50 %",
                0.95,
                1.5,
                why="queueing grows by 1 / (1 - load), 17 %; three times that at most, and no gain beyond chance",
                kind=OURS,
            ),
            within(
                f"after-{scheme.label}",
                f"{scheme.legend}, spine: p99 of flows that start after the repair / without the outage",
                "the network is the same again",
                0.9,
                1.1,
                why="a tenth either way: where flows met is chance",
                kind=OURS,
            ),
        )
    ),
    *(
        within(
            f"others-{scheme.label}",
            f"{scheme.legend}, flap: p99 of flows of other racks / without it",
            "one link of 64 is nothing to the others",
            *WORDS["similar"],
            why="as similar is judged in all figures",
            kind=OURS,
        )
        for scheme in SCHEMES
    ),
)
TIMES = (
    *(
        within(
            f"settled-{what}-{scheme.label}",
            f"{scheme.legend}, spine: time from the {what} until the tail of new flows is as before, us",
            "routes change at once, and what was lost has been sent again after a timeout",
            0,
            RTO_US,
            why="one timeout",
            kind=OURS,
        )
        for scheme in SCHEMES
        for what in ("failure", "repair")
    ),
    *(
        within(
            "longest",
            "all but NDP, spine: longest delay of a flow of up to a BDP in flight at the failure ({}), us",
            "what waits for the spine goes on when it is back; timers have expired by then",
            0,
            1000 * (repair - failure) + 2.5 * RTO_US,
            why="the outage, and a timeout that has doubled once and is noticed a quarter late",
            quick=True,
            kind=OURS,
        ).at(scale)
        for scale, (failure, repair, _) in _faults.MS.items()
    ),
    within(
        "ndp-longest",
        "NDP, spine: longest delay of a flow in flight at the failure, us",
        "packets that were lost, not trimmed, are repaired by one timeout each, and an eighth of those in flight is lost",
        2 * RTO_US,
        why="some flow has lost two; how many the unluckiest one has lost is open",
        kind=OURS,
    ),
    within(
        "bfc-waits",
        "BFC, spine: longest delay of a flow in flight at the failure / the outage",
        "packets queued for the dead spine keep their NIC queues paused until it is back",
        1,
        1.5,
        why="at half load flows share an uplink a quarter of the time, so that one of eight is likely; then the rest is sent",
        kind=OURS,
    ),
)
COMPARISONS = (
    _more(
        "irn-tail",
        "flap, flows of the rack, p99: HPCC / HPCC with IRN",
        "selective repeat does not go back when flows change their path, and its timeouts are shorter",
        "how much is open",
    ),
    _more(
        "irn-resent",
        "flap, packets sent again: HPCC / HPCC with IRN",
        "selective repeat does not send again what has arrived",
        "how much is open",
    ),
    _more(
        "irn-longest",
        "spine, longest delay of a flow of up to a BDP in flight: HPCC / HPCC with IRN",
        "timeouts of 500 us, and of 100 and 320 us",
        "IRN's timeouts are shorter; by how much depends on the flows that lost their last packets",
    ),
    _more(
        "dcqcn",
        "spine, flows that start during the outage, p99: DCQCN / BFC",
        "as without a fault",
        "how much is BFC's figures' matter",
    ),
    *(
        _more(
            f"flap-{scheme.label}",
            f"{scheme.legend}, flows of the rack, p99 over calm: flap",
            "every change moves half of the flows in flight, so that they go back, and loses what is on the wire",
            "how much is open; that frequent changes help nobody is not",
        )
        for scheme in LOSSLESS
    ),
    *(
        _more(
            f"sprayed-{scheme.label}",
            f"flap, flows of the rack, p99 over calm: {scheme.legend} / HPCC with IRN",
            "sprayed, every flow has packets on the link that flaps; with a path for each flow one of eight has",
            "how much is open",
        )
        for scheme in SPRAYED
    ),
    within(
        "homa-uneven",
        "Homa, outage: bytes to the spine that gets most / mean of seven",
        "sprayed at random",
        1,
        1.05,
        why="thousands of packets each",
        quick=True,
        kind=OURS,
    ),
    within(
        "ndp-uneven",
        "NDP, outage: bytes to the spine that gets most / mean of seven",
        "each round of eight packets gives one of the seven next hops two, any one",
        None,
        1.05,
        why="thousands of packets each; a largest one is no less than the mean",
        quick=True,
        kind=OURS,
    ),
)
CLAIMS = (*LAWS, *LOSSES, *TAILS, *TIMES, *COMPARISONS)


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Laws of failures, what is lost by the load of the links, and who suffers for how long."""

    def of(panel: str, scheme: Scheme, fault: str, x: float = 0.0) -> float:
        return frames.value(data, panel=panel, series=scheme.legend, traffic=fault, x=x)

    return {**_laws(data, of), **_losses(of, scale), **_tails(of), **_times(of, scale), **_comparisons(of)}


def _laws(data: pl.DataFrame, of: Any) -> Numbers:
    def total(panel: str, schemes: Sequence[Scheme], *faults: str) -> float:
        return sum(of(panel, scheme, fault) for scheme in schemes for fault in faults)

    return {
        "finished": total("unfinished", SCHEMES, CALM, *FAULTS),
        "deadlocks": total("deadlocks", SCHEMES, CALM, *FAULTS),
        "cycles": frames.value(data, panel="cycles"),
        "causal": total("changed", SCHEMES, *FAULTS),
        "calm": total("elsewhere", SCHEMES, CALM),
        "calm-resent": total("resent", LOSSLESS, CALM),
        **{f"{fault}-elsewhere": total("elsewhere", LOSSLESS, fault) for fault in FAULTS},
        "flap-stored": total("in the switch", SCHEMES, FLAP),
    }


def _losses(of: Any, scale: str) -> Numbers:
    return {
        f"{fault}-wire-{scheme.label}": of("on the wire", scheme, fault) / times
        for scheme in BY_FLOW
        for fault, times in ((OUTAGE, 1), (FLAP, failures(scale)))
    }


def _tails(of: Any) -> Numbers:
    """p99 of flows that start during and after the outage, and of those elsewhere, over that of the same flows under calm."""
    found: Numbers = {}
    for scheme in SCHEMES:
        for phase in (DURING, AFTER):
            found[f"{phase}-{scheme.label}"] = _over_calm(of, scheme, OUTAGE, phase)
        found[f"others-{scheme.label}"] = of("others", scheme, FLAP)
    return found


def _over_calm(of: Any, scheme: Scheme, fault: str, phase: str) -> float:
    x = PHASES.index(phase)
    return float(of("p99", scheme, fault, x) / of("calm p99", scheme, fault, x))


def _times(of: Any, scale: str) -> Numbers:
    """How long the fault is felt."""
    failure, repair, _ = _faults.MS[scale]
    longest = {scheme.legend: of("longest small", scheme, OUTAGE) for scheme in BOUNDED}
    most = max(longest, key=longest.__getitem__)
    return {
        **{
            f"settled-{what}-{scheme.label}": of("settled", scheme, OUTAGE, at)
            for scheme in SCHEMES
            for at, what in ((failure, "failure"), (repair, "repair"))
        },
        "longest": (longest[most], most),
        "ndp-longest": of("longest", NDP, OUTAGE),
        "bfc-waits": of("longest", BFC, OUTAGE) / (1000 * (repair - failure)),
    }


def _comparisons(of: Any) -> Numbers:
    during = PHASES.index(DURING)
    flap = {scheme.label: _over_calm(of, scheme, FLAP, DURING) for scheme in SCHEMES}
    return {
        "irn-tail": of("p99", HPCC, FLAP, during) / of("p99", IRN, FLAP, during),
        "irn-resent": of("resent", HPCC, FLAP) / of("resent", IRN, FLAP),
        "irn-longest": of("longest small", HPCC, OUTAGE) / of("longest small", IRN, OUTAGE),
        "dcqcn": of("p99", DCQCN, OUTAGE, during) / of("p99", BFC, OUTAGE, during),
        **{f"flap-{scheme.label}": flap[scheme.label] for scheme in LOSSLESS},
        **{f"sprayed-{scheme.label}": flap[scheme.label] / flap[IRN.label] for scheme in SPRAYED},
        "homa-uneven": of("uneven", HOMA, OUTAGE),
        "ndp-uneven": of("uneven", NDP, OUTAGE),
    }


# -- figure


def plot(data: pl.DataFrame) -> Any:
    """The tail over time of both faults, the delay of flows in flight, and what is lost and sent again."""
    made, grid = figure(2, 2, width=PAGE, height=5.0)
    for axes, fault in zip(grid[0], FAULTS):
        _draw_tail(axes, data, fault)
    _draw_delays(grid[1, 0], data)
    _draw_counts(grid[1, 1], data)
    titles = (
        "a spine fails: all flows",
        "an uplink flaps: flows of its rack",
        "a spine fails: flows in flight",
        "packets lost and sent again",
    )
    lettered(grid.flat, titles)
    legend_above(made, grid[0, 0], columns=len(SCHEMES))
    return made


def _line(scheme: Scheme) -> dict[str, Any]:
    return {**scheme.style, "marker": None, "lw": 1.2}


def _draw_tail(axes: Any, data: pl.DataFrame, fault: str) -> None:
    times = frames.chosen(data, panel="settled", traffic=fault, series=BFC.legend)["x"].to_list()
    axes.axvspan(*times, color="0.92", lw=0)
    for scheme in SCHEMES:
        part = frames.chosen(data, panel="tail", traffic=fault, series=scheme.legend).drop_nulls("y")
        axes.plot(part["x"], part["y"], label=scheme.legend, drawstyle="steps-post", **_line(scheme))
    log_axis(axes.yaxis)
    axes.set(xlabel="Start of the flow (ms)", ylabel="p99 slowdown over calm", xlim=(0, None), ylim=(0.5, None))


def _draw_delays(axes: Any, data: pl.DataFrame) -> None:
    """The complementary CDF: shares of flows that the failure has delayed by more than x."""
    for scheme in SCHEMES:
        part = frames.chosen(data, panel="delay", traffic=OUTAGE, series=scheme.legend).filter(pl.col("x") > 0.01)
        axes.plot(part["x"], 100 * (1 - part["y"]), **_line(scheme))
    log_axis(axes.xaxis)
    axes.set(xlabel="Delay by the failure (us)", ylabel="Flows delayed by more (%)", ylim=(0, None), xlim=(0.1, None))


COUNTS = {"lost": ("on the wire", "in the switch", "elsewhere"), "sent again": ("resent",)}


def _beyond_calm(data: pl.DataFrame, panel: str, scheme: Scheme, fault: str) -> float:
    """A count, less that without a fault: NDP sends again what was trimmed."""
    count, without = (frames.value(data, panel=panel, series=scheme.legend, traffic=each) for each in (fault, CALM))
    return count - without


def _draw_counts(axes: Any, data: pl.DataFrame) -> None:
    """Bars for each scheme: lost and sent again with the spine's failure, then with the link that flaps."""
    bars = [(fault, what) for fault in FAULTS for what in COUNTS]
    for i, (fault, what) in enumerate(bars):
        for k, scheme in enumerate(SCHEMES):
            height = sum(_beyond_calm(data, panel, scheme, fault) for panel in COUNTS[what])
            looks = {"color": scheme.style["color"]} if what == "lost" else {"color": "white", "edgecolor": scheme.style["color"]}
            axes.bar(k + 0.2 * (i - 1.5), max(height, 0.5), 0.17, lw=0.9, hatch="////" if fault == FLAP else None, **looks)
    axes.set_xticks(range(len(SCHEMES)), [scheme.legend.replace(", ", ",\n") for scheme in SCHEMES])
    axes.grid(visible=False, axis="x")
    axes.tick_params(axis="x", length=0)
    for what, looks in (("lost", {"color": "0.5"}), ("sent again", {"color": "white", "edgecolor": "0.3"})):
        axes.bar([0], [0], label=what, **looks)
    axes.bar([0], [0], color="white", edgecolor=BLACK, hatch="////", label="flap")
    log_axis(axes.yaxis)
    axes.set(ylabel="Packets beyond those of calm", ylim=(10, 2e5))
    axes.legend(loc="upper left", ncols=3, fontsize=7, handlelength=1.2)
