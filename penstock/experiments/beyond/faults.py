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

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from penstock.experiments import frames
from penstock.experiments.bfc._fabric import FABRIC, core_load
from penstock.experiments.cache import Runs, Spec
from penstock.experiments.claims import OURS, WORDS, Claim, Differs, within
from penstock.experiments.frames import Scheme
from penstock.experiments.style import BLACK, PAGE, figure, legend_above, lettered, log_axis
from penstock.topology import build
from penstock.topology.backpressure import over_time

TITLE = "A spine that fails and an uplink that flaps"
PAPER = "Beyond the papers: failures of switches and links"
WINDOW = "run"
WINDOW_REASON = "flows are grouped by when they start; bytes sent by uplinks have a window of their own, the outage"
SEEDS = {"paper": 3}
DIFFERS: dict[str, Differs] = {}

SPINE, TOR, PER_RACK = "spine0", "tor0", 16
CALM, OUTAGE, FLAP = "calm", "spine", "flap"
FAULTS = (OUTAGE, FLAP)
MS = {"quick": (1, 2, 4), "paper": (3, 6, 12)}  # failure, repair, end of the arrivals
WINDOW_US = {"quick": 100, "paper": 250}
WARM_MS, HALF_US = 0.5, 50  # before it the network fills; a flap is down for so long, and up
LOAD, RTO_US = 0.5, 500
PHASES = ("before", "in flight", "during", "after")
BEFORE, IN_FLIGHT, DURING, AFTER = PHASES

LOSSY = {"pfc": False, "dynamic_threshold": {"alpha": 1}}
BFC = Scheme("BFC", {"name": "bfc"}, run="bfc")
HPCC = Scheme("HPCC", {"name": "hpcc"}, run="hpcc")
IRN = Scheme("HPCC, IRN", {"name": "hpcc+dynamic_threshold+recovery:irn", **LOSSY}, 1, run="irn")
DCQCN = Scheme("DCQCN", {"name": "dcqcn"}, run="dcqcn")
NDP = Scheme("NDP", {"name": "ndp"}, 2, run="ndp")
HOMA_TABLE = {"unscheduled": 2, "cutoffs": [57560], "resend": f"{RTO_US}us"}
HOMA = Scheme("Homa", {"name": "homa+spray", "homa": HOMA_TABLE}, 3, run="homa")
SCHEMES = (BFC, HPCC, IRN, DCQCN, NDP, HOMA)
LOSSLESS = (BFC, HPCC, DCQCN)
BY_FLOW = (BFC, HPCC, IRN, DCQCN)  # a path for each flow, and an ACK for each packet
SPRAYED = (NDP, HOMA)
BDP = 104_375  # bytes: 8.35 us at 100 Gbit/s


def specs(scale: str) -> dict[str, Spec]:
    """A spec for every fault and scheme, "FAULT-SCHEME"."""
    return {f"{fault}-{scheme.label}": _spec(fault, scheme, scale) for fault in (CALM, *FAULTS) for scheme in SCHEMES}


def _spec(fault: str, scheme: Scheme, scale: str) -> Spec:
    failure, repair, end = MS[scale]
    host = {} if scheme is IRN else {"host": {"rto": f"{RTO_US}us"}}
    return {
        "run": {"duration": f"{end}ms", "max_time": f"{end + 100}ms"},
        "topology": {**FABRIC, "changes": changes(fault, failure, repair)},
        "scheme": scheme.table,
        "workload": [{"kind": "poisson", "sizes": "facebook_hadoop", **core_load(LOAD)}],
        "measure": {"sample": "0us", "window": f"{failure}ms..{repair}ms"},
        **host,
    }


def changes(fault: str, failure_ms: float, repair_ms: float) -> list[dict[str, Any]]:
    """What fails, and when it is back."""
    if fault == OUTAGE:
        return [{"time": f"{ms}ms", "switch": SPINE, "up": up} for ms, up in ((failure_ms, False), (repair_ms, True))]
    times = range(round(1000 * failure_ms), round(1000 * repair_ms), HALF_US) if fault == FLAP else []
    return [{"time": f"{us}us", "a": TOR, "b": SPINE, "up": bool(i % 2)} for i, us in enumerate(times)]


def failures(scale: str) -> int:
    """How often the link that flaps goes down."""
    failure, repair, _ = MS[scale]
    return sum(not change["up"] for change in changes(FLAP, failure, repair))


# -- statistics


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """Of every scheme and fault; x is 0 unless said otherwise.

    "tail": x ms, y p99 of the flows that start in the window from x on, over that of calm. "p99" and "calm p99": x the phase.
    "others": p99 of flows of other racks that start during the fault, over calm. "delay": y CDF, x us that the fault has
    delayed flows in flight. "longest": the largest of these; "longest small": of flows of up to a BDP. "settled": x ms of failure
    or repair, y us until the tail is as before. "unfinished", "deadlocks", "changed" (flows that had finished before the
    failure, and otherwise than under calm), "resent", "on the wire", "in the switch", "elsewhere" (lost packets); "uneven": bytes
    sent to the spine that got most, over the mean of all spines in service. Of the network: "cycles" of backpressure."""
    parts = [_row("cycles", "network", "", 0, cycles())]
    for scheme in SCHEMES:
        calm = _flows(runs, CALM, scheme)
        parts += [_row(panel, scheme.legend, CALM, 0, y) for panel, y in _totals(runs, CALM, scheme).items()]
        for fault in FAULTS:
            hit = _flows(runs, fault, scheme)
            totals = {**_totals(runs, fault, scheme), **_compared(calm, hit, scale)}
            parts += [_row(panel, scheme.legend, fault, 0, y) for panel, y in totals.items()]
            parts += _by_start(calm, hit, fault, scheme.legend, scale)
            parts.append(_delays(calm, hit, fault, scheme.legend, scale))
    return pl.concat(parts)


def _row(panel: str, series: str, fault: str, x: Any, y: Any) -> pl.DataFrame:
    return frames.rows(panel, series, np.atleast_1d(x), np.atleast_1d(np.asarray(y, float)), traffic=fault)


def cycles() -> int:
    """Of the backpressure graphs of all states of the network."""
    both = [*changes(OUTAGE, 1, 2), *changes(FLAP, 3, 3 + 2 * HALF_US / 1000)]
    return sum(len(graph.cycles) for graph in over_time(build({**FABRIC, "changes": both})))


def _flows(runs: Runs, fault: str, scheme: Scheme) -> pl.DataFrame:
    """The flows of a run; `rack`: from or to the rack of the link that flaps, and not within it."""
    rack = (pl.col("src") < PER_RACK) != (pl.col("dst") < PER_RACK)
    columns = ("flow_id", "src", "dst", "bytes", "start_ns", "finish_ns", "slowdown")
    return runs.scan(f"{fault}-{scheme.label}", "flows").select(*columns, rack=rack).sort("flow_id").collect()


def phase(calm: pl.DataFrame, scale: str) -> pl.Series:
    """The phase of every flow; null: none of them."""
    failure, repair, _ = (1e6 * ms for ms in MS[scale])
    start, finish = pl.col("start_ns"), pl.col("finish_ns")
    early = pl.when(finish > failure).then(pl.lit(IN_FLIGHT)).when(start >= 1e6 * WARM_MS).then(pl.lit(BEFORE))
    late = pl.when(start < repair).then(pl.lit(DURING)).otherwise(pl.lit(AFTER))
    return calm.select(pl.when(start < failure).then(early).otherwise(late).alias("phase"))["phase"]


def _shown(flows: pl.DataFrame, fault: str) -> pl.DataFrame:
    return flows.filter("rack") if fault == FLAP else flows


def p99(flows: pl.DataFrame) -> float:
    """Of the slowdown; unfinished flows have none."""
    found = flows["slowdown"].drop_nulls().quantile(0.99, "linear")
    return float("nan") if found is None else float(found)


def _by_start(calm: pl.DataFrame, hit: pl.DataFrame, fault: str, legend: str, scale: str) -> list[pl.DataFrame]:
    """Panels "tail", "settled", "p99" and "calm p99"."""
    which = pl.Series("phase", phase(calm, scale))
    without, with_fault = (_shown(flows.with_columns(which), fault) for flows in (calm, hit))
    found = []
    for panel, flows in (("p99", with_fault), ("calm p99", without)):
        found.append(_row(panel, legend, fault, range(len(PHASES)), [p99(flows.filter(phase=name)) for name in PHASES]))
    failure, repair, end = MS[scale]
    width = WINDOW_US[scale] / 1000
    starts = np.arange(0, end, width)
    tails = [
        [p99(flows.filter(pl.col("start_ns").is_between(1e6 * at, 1e6 * (at + width), "left"))) for at in starts]
        for flows in (with_fault, without)
    ]
    ratio = np.array(tails[0]) / np.array(tails[1])
    found.append(_row("tail", legend, fault, starts, ratio))
    since = [settled(starts, ratio, at) for at in (failure, repair)]
    return [*found, _row("settled", legend, fault, [failure, repair], since)]


def settled(starts: np.ndarray, ratio: np.ndarray, since_ms: float, within_: float = 1.25) -> float:
    """us from a time to the first of three windows in a row with a ratio of at most `within_`; to the end if there are none."""
    at = np.flatnonzero(starts >= since_ms - 1e-9)
    calm = ratio <= within_
    for i in at[:-2]:
        if calm[i : i + 3].all():
            return float(1000 * (starts[i] - since_ms))
    return float(1000 * (starts[-1] - since_ms))


def _compared(calm: pl.DataFrame, hit: pl.DataFrame, scale: str) -> dict[str, float]:
    """Panels "changed", "others", "longest" and "longest small"."""
    which = phase(calm, scale)
    early, during = calm["finish_ns"] < 1e6 * MS[scale][0], which == DURING
    away = during & (calm["src"] >= PER_RACK) & (calm["dst"] >= PER_RACK)
    found = {
        "changed": int((calm["finish_ns"] != hit["finish_ns"]).filter(early).fill_null(True).sum()),
        "others": p99(hit.filter(away)) / p99(calm.filter(away)),
    }
    late = delay_us(calm, hit).filter(which == IN_FLIGHT)
    small = late.filter(calm.filter(which == IN_FLIGHT)["bytes"] <= BDP)
    return {**found, "longest": _most(late), "longest small": _most(small)}


def delay_us(calm: pl.DataFrame, hit: pl.DataFrame) -> pl.Series:
    """By how much the fault has delayed each flow, in us."""
    return (hit["finish_ns"] - calm["finish_ns"]) / 1000


def _most(values: pl.Series) -> float:
    return float(values.max()) if len(values) and values.null_count() == 0 else float("inf")  # type: ignore[arg-type]


def _delays(calm: pl.DataFrame, hit: pl.DataFrame, fault: str, legend: str, scale: str) -> pl.DataFrame:
    late = delay_us(calm, hit).filter(phase(calm, scale) == IN_FLIGHT).drop_nulls().to_numpy()
    share = np.linspace(0, 1, 201)
    return _row("delay", legend, fault, np.quantile(late, share), share)


def _totals(runs: Runs, fault: str, scheme: Scheme) -> dict[str, float]:
    """What is counted over a whole run, but for "uneven"."""
    label = f"{fault}-{scheme.label}"
    said, flows = runs.summary(label), runs.scan(label, "flows").select("finish_ns").collect()
    nodes = runs.scan(label, "nodes").select("node", "name").collect()
    number = dict(zip(nodes["name"], nodes["node"]))
    ports = runs.scan(label, "ports").collect()
    return {
        "unfinished": flows["finish_ns"].null_count(),
        "deadlocks": int(said["deadlock"] is not None),
        "resent": said["retransmissions"],
        **lost(ports, fault, number),
        "uneven": _uneven(ports, fault, number),
    }


def lost(ports: pl.DataFrame, fault: str, number: Mapping[str, int]) -> dict[str, int]:
    """Packets lost on what fails, in the switch that fails, and elsewhere or for another reason."""
    found = {"on the wire": 0, "in the switch": 0, "elsewhere": 0}
    ends = {OUTAGE: {number[SPINE]}, FLAP: {number[SPINE], number[TOR]}}.get(fault)
    for node, peer, reasons in ports.select("node", "peer", "drop_reason").drop_nulls().iter_rows():
        where = {}
        if ends and ends <= {node, peer}:
            where["link down"] = "on the wire"
        if ends == {node}:
            where["switch down"] = "in the switch"
        for reason, count in (each.rsplit(": ", 1) for each in reasons.split(", ")):
            found[where.get(reason, "elsewhere")] += int(count)
    return found


def _uneven(ports: pl.DataFrame, fault: str, number: Mapping[str, int]) -> float:
    out = {number[SPINE]} if fault == OUTAGE else set()
    spines = [node for name, node in number.items() if name.startswith("spine") and node not in out]
    sent = ports.filter(pl.col("peer").is_in(spines)).group_by("peer").agg(pl.col("window_tx_bytes").sum())["window_tx_bytes"]
    return float(sent.max() / sent.mean())  # type: ignore[operator, arg-type]


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
    failure, repair, _ = MS[scale]
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
            "permutations of eight paths, modulo seven next hops: one has two of eight",
            of("uneven", NDP, OUTAGE),
            1.5,
            1.8,
            why="7/4, less what this link trims at 105 % of its rate",
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
