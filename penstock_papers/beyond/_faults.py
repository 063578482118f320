"""The set-up and the statistics of beyond/faults, which says what they are for."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from penstock_net.topology import build
from penstock_net.topology.backpressure import over_time
from penstock_papers import frames
from penstock_papers.bfc._fabric import CORE, FABRIC, load_keys
from penstock_papers.cache import Runs, Spec
from penstock_papers.frames import Scheme

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
        "workload": [{"kind": "poisson", "sizes": "facebook_hadoop", **load_keys(LOAD, CORE)}],
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
