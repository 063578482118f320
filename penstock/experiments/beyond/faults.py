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

from typing import Any

import polars as pl

from penstock.experiments import frames
from penstock.experiments.beyond import _faults
from penstock.experiments.beyond._faults import (
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
from penstock.experiments.beyond._faults import measure as measure
from penstock.experiments.beyond._faults import specs as specs
from penstock.experiments.bfc._fabric import FABRIC
from penstock.experiments.claims import OURS, WORDS, Claim, Differs, within
from penstock.experiments.frames import Scheme
from penstock.experiments.style import BLACK, PAGE, figure, legend_above, lettered, log_axis

TITLE = "A spine that fails and an uplink that flaps"
PAPER = "Beyond the papers: failures of switches and links"
WINDOW = "run"
WINDOW_REASON = "flows are grouped by when they start; bytes sent by uplinks have a window of their own, the outage"
SEEDS = {"paper": 3}
DIFFERS: dict[str, Differs] = {}


# -- claims


def claims(data: pl.DataFrame, scale: str) -> list[Claim]:
    """Laws of failures, what is lost by the load of the links, and who suffers for how long."""

    def of(panel: str, scheme: Scheme, fault: str, x: float = 0.0) -> float:
        return frames.value(data, panel=panel, series=scheme.legend, traffic=fault, x=x)

    return [*_laws(data, of), *_losses(of, scale), *_tails(of), *_times(of, scale), *_comparisons(of)]


def _laws(data: pl.DataFrame, of: Any) -> list[Claim]:
    every = [(scheme, fault) for scheme in SCHEMES for fault in (CALM, *FAULTS)]

    def none(id: str, what: str, said: str, number: float, why: str) -> Claim:
        return within(id, what, said, number, 0, 0, why=why, quick=True, kind=OURS)

    total = lambda panel, pairs: sum(of(panel, *pair) for pair in pairs)  # noqa: E731
    faulty = [(scheme, fault) for scheme, fault in every if fault != CALM]
    return [
        none(
            "finished",
            "all schemes and faults: flows that have not finished",
            "after the repair everything finishes",
            total("unfinished", every),
            "what is lost is sent again, and what waits for the spine goes on",
        ),
        none(
            "deadlocks",
            "all schemes and faults: runs that end in a deadlock",
            "paths go up and then down, whatever fails of one spine",
            total("deadlocks", every),
            "no cycle, no deadlock",
        ),
        none(
            "cycles",
            "cycles of the backpressure graphs of the network with all, without the spine, without the link",
            "paths go up and then down, whatever fails of one spine",
            frames.value(data, panel="cycles"),
            "a count: the sentence leaves no other",
        ),
        none(
            "causal",
            "all schemes and faults: flows that had finished before the failure, at another time than without it",
            "what comes later changes nothing",
            total("changed", faulty),
            "the same bits",
        ),
        none(
            "calm",
            "all schemes, nothing fails: packets lost",
            "at half load nothing is dropped, with PFC or without",
            total("elsewhere", [(scheme, CALM) for scheme in SCHEMES]),
            "never",
        ),
        none(
            "calm-resent",
            "BFC, HPCC, DCQCN, nothing fails: packets sent more than once",
            "without losses no timeout expires",
            total("resent", [(scheme, CALM) for scheme in LOSSLESS]),
            "never",
        ),
        *(
            none(
                f"{fault}-elsewhere",
                f"BFC, HPCC, DCQCN, {fault}: packets lost, but in the switch that failed and on the links that went down",
                "a lossless fabric loses nothing else",
                total("elsewhere", [(scheme, fault) for scheme in LOSSLESS]),
                "never",
            )
            for fault in FAULTS
        ),
        none(
            "flap-stored",
            "all schemes, flap: packets lost in switches",
            "a link that fails empties no switch",
            total("in the switch", [(scheme, FLAP) for scheme in SCHEMES]),
            "never",
        ),
    ]


def _losses(of: Any, scale: str) -> list[Claim]:
    """A link in use half of the time has 6.25 of its 12.5 packets of 1 KB on the wire in each direction, and as many ACKs."""
    a_link = 2 * 2 * LOAD * 12.5
    found = []
    for scheme in BY_FLOW:
        for fault, links, number in (
            (OUTAGE, FABRIC["tors"], of("on the wire", scheme, OUTAGE)),
            (FLAP, 1, of("on the wire", scheme, FLAP) / failures(scale)),
        ):
            found.append(
                within(
                    f"{fault}-wire-{scheme.label}",
                    f"{scheme.legend}, {fault}: packets lost on the wire" + (" for each failure" if fault == FLAP else ""),
                    f"{links} links with 6.25 packets and as many ACKs in each direction",
                    number,
                    links * a_link / 2,
                    links * a_link * 2,
                    why="half and double: links are busy or idle at the instant",
                    kind=OURS,
                )
            )
    return found


def _tails(of: Any) -> list[Claim]:
    """p99 of flows that start during and after the outage, and of those elsewhere, over that of the same flows under calm."""
    found = []
    for scheme in SCHEMES:
        ratios = {name: of("p99", scheme, OUTAGE, i) / of("calm p99", scheme, OUTAGE, i) for i, name in enumerate(PHASES)}
        found += [
            within(
                f"during-{scheme.label}",
                f"{scheme.legend}, spine: p99 of flows that start during the outage / without it",
                "seven spines carry what eight did: 57 % instead of 50 %",
                ratios[DURING],
                0.95,
                1.5,
                why="queueing grows by 1 / (1 - load), 17 %; three times that at most, and no gain beyond chance",
                kind=OURS,
            ),
            within(
                f"after-{scheme.label}",
                f"{scheme.legend}, spine: p99 of flows that start after the repair / without the outage",
                "the network is the same again",
                ratios[AFTER],
                0.9,
                1.1,
                why="a tenth either way: where flows met is chance",
                kind=OURS,
            ),
        ]
    found += [
        within(
            f"others-{scheme.label}",
            f"{scheme.legend}, flap: p99 of flows of other racks / without it",
            "one link of 64 is nothing to the others",
            of("others", scheme, FLAP),
            *WORDS["similar"],
            why="as similar is judged in all figures",
            kind=OURS,
        )
        for scheme in SCHEMES
    ]
    return found


def _times(of: Any, scale: str) -> list[Claim]:
    """How long the fault is felt."""
    failure, repair, _ = _faults.MS[scale]
    outage = 1000 * (repair - failure)
    found = []
    for scheme in SCHEMES:
        for at, what in ((failure, "failure"), (repair, "repair")):
            found.append(
                within(
                    f"settled-{what}-{scheme.label}",
                    f"{scheme.legend}, spine: time from the {what} until the tail of new flows is as before, us",
                    "routes change at once, and what was lost has been sent again after a timeout",
                    of("settled", scheme, OUTAGE, at),
                    0,
                    RTO_US,
                    why="one timeout",
                    kind=OURS,
                )
            )
    bounded = [scheme for scheme in SCHEMES if scheme is not NDP]
    most = max(bounded, key=lambda scheme: of("longest small", scheme, OUTAGE))
    found.append(
        within(
            "longest",
            f"all but NDP, spine: longest delay of a flow of up to a BDP in flight at the failure ({most.legend}), us",
            "what waits for the spine goes on when it is back; timers have expired by then",
            of("longest small", most, OUTAGE),
            0,
            outage + 2.5 * RTO_US,
            why="the outage, and a timeout that has doubled once and is noticed a quarter late",
            quick=True,
            kind=OURS,
        )
    )
    found.append(
        within(
            "ndp-longest",
            "NDP, spine: longest delay of a flow in flight at the failure, us",
            "packets that were lost, not trimmed, are repaired by one timeout each, and an eighth of those in flight is lost",
            of("longest", NDP, OUTAGE),
            2 * RTO_US,
            why="some flow has lost two; how many the unluckiest one has lost is open",
            kind=OURS,
        )
    )
    found.append(
        within(
            "bfc-waits",
            "BFC, spine: longest delay of a flow in flight at the failure / the outage",
            "packets queued for the dead spine keep their NIC queues paused until it is back",
            of("longest", BFC, OUTAGE) / outage,
            1,
            1.5,
            why="at half load flows share an uplink a quarter of the time, so that one of eight is likely; then the rest is sent",
            kind=OURS,
        )
    )
    return found


def _comparisons(of: Any) -> list[Claim]:
    during = PHASES.index(DURING)

    def ratio(id: str, what: str, said: str, number: float, why: str) -> Claim:
        return within(id, what, said, number, 1, why=why, kind=OURS)

    def worse(scheme: Scheme) -> float:
        """p99 of the rack's flows while its link flaps, over calm."""
        return float(of("p99", scheme, FLAP, during) / of("calm p99", scheme, FLAP, during))

    found = [
        ratio(
            "irn-tail",
            "flap, flows of the rack, p99: HPCC / HPCC with IRN",
            "selective repeat does not go back when flows change their path, and its timeouts are shorter",
            of("p99", HPCC, FLAP, during) / of("p99", IRN, FLAP, during),
            "how much is open",
        ),
        ratio(
            "irn-resent",
            "flap, packets sent again: HPCC / HPCC with IRN",
            "selective repeat does not send again what has arrived",
            of("resent", HPCC, FLAP) / of("resent", IRN, FLAP),
            "how much is open",
        ),
        ratio(
            "irn-longest",
            "spine, longest delay of a flow of up to a BDP in flight: HPCC / HPCC with IRN",
            "timeouts of 500 us, and of 100 and 320 us",
            of("longest small", HPCC, OUTAGE) / of("longest small", IRN, OUTAGE),
            "IRN's timeouts are shorter; by how much depends on the flows that lost their last packets",
        ),
        ratio(
            "dcqcn",
            "spine, flows that start during the outage, p99: DCQCN / BFC",
            "as without a fault",
            of("p99", DCQCN, OUTAGE, during) / of("p99", BFC, OUTAGE, during),
            "how much is BFC's figures' matter",
        ),
    ]
    for scheme in LOSSLESS:
        found.append(
            within(
                f"flap-{scheme.label}",
                f"{scheme.legend}, flows of the rack, p99 over calm: flap",
                "every change moves half of the flows in flight, so that they go back, and loses what is on the wire",
                worse(scheme),
                1,
                why="how much is open; that frequent changes help nobody is not",
                kind=OURS,
            )
        )
    for scheme in SPRAYED:
        found.append(
            ratio(
                f"sprayed-{scheme.label}",
                f"flap, flows of the rack, p99 over calm: {scheme.legend} / HPCC with IRN",
                "sprayed, every flow has packets on the link that flaps; with a path for each flow one of eight has",
                worse(scheme) / worse(IRN),
                "how much is open",
            )
        )
    found += [
        within(
            "homa-uneven",
            "Homa, outage: bytes to the spine that gets most / mean of seven",
            "sprayed at random",
            of("uneven", HOMA, OUTAGE),
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
            of("uneven", NDP, OUTAGE),
            None,
            1.05,
            why="thousands of packets each; a largest one is no less than the mean",
            quick=True,
            kind=OURS,
        ),
    ]
    return found


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
