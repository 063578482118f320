"""The set-up and the statistics of beyond/ultra_ethernet, which says what they are for."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from penstock_papers import ages, frames
from penstock_papers.cache import Runs, Spec
from penstock_papers.frames import Scheme

# -- networks


LINKS: dict[str, Any] = {"rate": "100Gbps", "delay": "1us", "buffer": "12MB"}
LEAF_SPINE: dict[str, Any] = {"kind": "leaf_spine", "hosts": 128, "tors": 8, **LINKS}
RAILS = {"kind": "rails", "servers": 16, "gpus": 8, "planes": 8, "spines": 4, "uplink_rate": "400Gbps", **LINKS}
FABRICS = {"full": {**LEAF_SPINE, "spines": 16}, "core": {**LEAF_SPINE, "spines": 4}, "rails": RAILS}
NAMES = {"full": "non-blocking", "core": "4:1", "rails": "rails, 8 planes"}

# -- schemes


@dataclass(frozen=True)
class Rival:
    """A scheme of the table: whether its packets take turns of a host's links, and what it asks of the hardware."""

    scheme: Scheme
    turns: bool
    switches: str
    hosts: str

    @property
    def legend(self) -> str:
        return self.scheme.legend


_TRIM = "cut payloads and serve headers first, ECN, ECMP by a field of each packet"
_UEC_HOSTS = "reordering, 64-bit bitmaps, NACKs, a table of entropies, no PFC"
_BFC = "a table of flows, 32 queues a port that are paused one by one"
RIVALS = (
    Rival(Scheme("NSCC", {"name": "uec:nscc+mixed"}, run="nscc"), True, _TRIM, _UEC_HOSTS),
    Rival(Scheme("RCCC", {"name": "uec:rccc+mixed"}, 1, run="rccc"), True, _TRIM, f"{_UEC_HOSTS}, a pacer of credit"),
    Rival(Scheme("NSCC + RCCC", {"name": "uec:both+mixed"}, 2, run="both"), True, _TRIM, f"{_UEC_HOSTS}, a pacer of credit"),
    Rival(
        Scheme("MRC", {"name": "mrc"}, 3, run="mrc"), False, _TRIM, "the same without credit, values by path, probes, all ports"
    ),
    Rival(Scheme("BFC", {"name": "bfc"}, run="bfc"), False, _BFC, "queues of flows that obey pauses, go-back-N"),
    Rival(
        Scheme("BFC + spray", {"name": "bfc+spray"}, 1, run="bfc-spray"),
        False,
        f"{_BFC}, a port for each packet",
        "the same, reordering",
    ),
    Rival(
        Scheme("BFC + spray, 128Q", {"name": "bfc+spray", "dqa": {"queues": 128}}, 4, run="bfc-spray-128"),
        False,
        "a table of flows, 128 queues a port that are paused one by one, a port for each packet",
        "queues of flows that obey pauses, reordering, go-back-N",
    ),
    Rival(
        Scheme("BFC + spray, IRN", {"name": "bfc+spray+recovery:irn"}, 3, run="bfc-spray-irn"),
        False,
        f"{_BFC}, a port for each packet",
        "queues of flows that obey pauses, a bitmap of one bandwidth-delay product",
    ),
    Rival(
        Scheme("BFC + REPS", {"name": "bfc+reps"}, 2, run="bfc-reps"),
        False,
        f"{_BFC}, ECMP by a field of each packet",
        "the same, entropies",
    ),
    Rival(
        Scheme("Pyrrha", {"name": "pyrrha"}, run="pyrrha"),
        False,
        "isolation queues for the roots of congestion, frames for them",
        "obey them",
    ),
    Rival(
        Scheme("DCQCN + Floodgate", {"name": "dcqcn:bfc+floodgate"}, 1, run="floodgate"),
        False,
        "windows for each destination, virtual output queues, ECN, PFC",
        "pacing for each flow, go-back-N",
    ),
    Rival(
        Scheme("HPCC + PFC", {"name": "hpcc"}, run="hpcc"),
        False,
        "telemetry of 8 B a hop, PFC",
        "pacing and a window by telemetry",
    ),
    Rival(Scheme("DCQCN + PFC", {"name": "dcqcn:bfc"}, run="dcqcn"), False, "ECN, PFC", "pacing for each flow, go-back-N"),
    Rival(
        Scheme("NDP", {"name": "ndp"}, run="ndp"),
        True,
        "cut payloads and serve headers first, return them",
        "a pacer of pulls, reordering",
    ),
    Rival(
        Scheme("DCTCP + spray", {"name": "dctcp+spray"}, run="dctcp-spray"),
        True,
        "ECN, PFC, a port for each packet",
        "a window, reordering",
    ),
)
ONE_LINK = "ndp"  # whose receivers pace what they are sent for one link

# -- traffics

TRAFFICS = {
    "permutation": "Permutation",
    "incasts": "Incasts of 8",
    "all_to_all": "All-to-all",
    "rpc": "RPCs and an incast",
    "slow": "Slow receivers",
    "failing": "A link fails",
    "lossy": "Links lose 0.1 %",
    "retry": "The same with LLR",
    "order": "Permutation, every packet",
}
SLOW = list(range(0, 128, 16))  # a host of each rack
BYTES = {  # of a flow
    "quick": {"permutation": "500KB", "incasts": "100KB", "all_to_all": "8KB", "failing": "1MB", "order": "200KB"},
    "paper": {"permutation": "2MB", "incasts": "500KB", "all_to_all": "64KB", "failing": "8MB", "order": "200KB"},
}
LASTS_US = {"quick": {"rpc": 100, "slow": 200}, "paper": {"rpc": 600, "slow": 2000}}
FAILS_US = {"quick": (20, 320), "paper": (200, 1200)}  # a link goes down, and comes up
MTU = {"mtu": 4086, "header": 64}  # uet-htsim's packets of 4150 B for all
CUT = 64  # bytes of a packet without payload
RTO = "500us"
OWN_RTO = ("uec", "mrc", "irn")  # which have a timeout of their own, 100 us


def cells() -> list[tuple[str, str, Rival]]:
    """Every cell of the table: fabric, traffic, scheme."""
    every = ((fabric, traffic, rival) for fabric in FABRICS for traffic in TRAFFICS for rival in RIVALS)
    return [
        (fabric, traffic, rival)
        for fabric, traffic, rival in every
        if fabric != "rails" or rival.scheme.table["name"] != ONE_LINK
    ]


def label(fabric: str, traffic: str, rival: Rival) -> str:
    """Of a cell's run, and of its spec."""
    return f"{fabric}-{traffic}-{rival.scheme.label}"


def specs(scale: str) -> dict[str, Spec]:
    """One for each cell."""
    return {label(*cell): _spec(*cell, scale) for cell in cells()}


def ends_of(fabric: str, rival: Rival) -> dict[str, Any]:
    """What hosts have beside the scheme."""
    host: dict[str, Any] = {**MTU}
    if not any(part in rival.scheme.table["name"] for part in OWN_RTO):
        host["rto"] = RTO
    if fabric == "rails" and rival.turns:
        host["ports"] = "packet"
    return host


def _spec(fabric: str, traffic: str, rival: Rival, scale: str) -> Spec:
    return {
        "run": {"duration": f"{LASTS_US[scale].get(traffic, 100)}us", "max_time": "200ms"},
        "topology": _network(fabric, traffic, scale),
        "host": ends_of(fabric, rival),
        "scheme": rival.scheme.table,
        "workload": _workload(traffic, scale),
        "measure": {"sample": "0us", "packets": traffic == "order"},
    }


def _network(fabric: str, traffic: str, scale: str) -> dict[str, Any]:
    network = dict(FABRICS[fabric])
    if traffic == "failing":
        times = zip(FAILS_US[scale], (False, True))
        network["changes"] = [{"time": f"{us}us", "a": "tor0", "b": "spine0", "up": up} for us, up in times]
    elif traffic in ("lossy", "retry"):
        network["loss"] = 0.001
        if traffic == "retry":
            network["llr"] = {}
    elif traffic == "slow":
        if fabric == "rails":  # a receiver's rate is that of its one link
            network["changes"] = [
                {
                    "time": "1ps",
                    "a": f"host{host}",
                    "b": f"tor{8 * plane + host % 8}",
                    "rate": "1.25Gbps",
                    "of": f"tor{8 * plane + host % 8}",
                }
                for host in SLOW
                for plane in range(8)
            ]
        else:
            network["receivers"] = [{"host": host, "rate": "10Gbps"} for host in SLOW]
    return network


def _workload(traffic: str, scale: str) -> list[dict[str, Any]]:
    size = BYTES[scale]
    if traffic == "incasts":
        receivers = list(range(0, 128, 8))
        crowds = {"kind": "incast", "fan_in": 8, "size": size[traffic], "every": "1us", "duration": f"{len(receivers)}us"}
        return [{**crowds, "receivers": receivers, "order": "in_turn"}]
    if traffic == "all_to_all":
        return [{"kind": "all_to_all", "bytes": size[traffic]}]
    if traffic in ("rpc", "slow"):
        sizes, load = ("google", 0.4) if traffic == "rpc" else ("facebook_hadoop", 0.3)
        flows = {"kind": "poisson", "sizes": sizes, "load": load, "load_on": "host"}
        if traffic == "rpc":
            return [flows, {"kind": "incast", "fan_in": 60, "size": "100KB", "every": "300us", "start": "20us"}]
        others = [host for host in range(128) if host not in SLOW]
        crowd = {"kind": "incast", "fan_in": 8, "total": "400KB", "every": "50us", "receivers": SLOW, "order": "in_turn"}
        return [{**flows, "hosts": others}, {**crowd, "hosts": others}]
    return [{"kind": "permutation", "bytes": size.get(traffic, size["permutation"])}]


# -- statistics

MEASURES = {
    "p50": "p50 (us)",
    "p99": "p99 (us)",
    "max": "slowest (us)",
    "again": "sent again (%)",
    "queue": "longest queue (KB)",
    "control": "pauses and credits (%)",
    "fairness": "Jain's index",
    "late": "overtaken (%)",
    "behind": "by at most (packets)",
}


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """y: a number of MEASURES, `unfinished` or `drops`, of each scheme (series), traffic and fabric."""
    parts = []
    for fabric, traffic, rival in cells():
        found = measured(runs, label(fabric, traffic, rival), traffic)
        parts += [frames.rows(panel, rival.legend, [0], [y], traffic=traffic, fabric=fabric) for panel, y in found.items()]
    return pl.concat(parts)


def measured(runs: Runs, name: str, traffic: str) -> dict[str, float]:
    """The numbers of one run; what the crowds of `rpc` and `slow` take is not judged."""
    said = runs.summary(name)
    flows = ages.counted(runs, name, "receiver").collect()
    judged = flows if traffic == "incasts" else flows.filter(pl.col("class").cast(pl.String) != "incast")
    us = judged["fct_ns"].to_numpy() / 1e3
    found: dict[str, Any] = {"unfinished": said["flows_started"] - said["flows_finished"], "drops": said["drops"]}
    if traffic == "order":
        return {**found, **order(runs, name)}
    ports, payload = runs.scan(name, "ports").collect(), float(flows["bytes"].sum())
    hosts = runs.scan(name, "nodes").filter(pl.col("tier") == 0).collect().height
    if judged["bytes"].n_unique() == 1:
        rates = 1 / us
        found["fairness"] = float(rates.sum() ** 2 / len(rates) / (rates**2).sum())
    return {
        **found,
        "p50": float(np.quantile(us, 0.5)),
        "p99": float(np.quantile(us, 0.99)),
        "max": float(us.max()),
        "again": 100 * float(flows["retransmitted_bytes"].sum()) / payload,
        "queue": float(ports.filter(pl.col("node") >= hosts)["max_queue_bytes"].cast(pl.Float64).to_numpy().max()) / 1e3,
        "control": 100 * float(ports["control_bytes"].sum()) / payload,
    }


def order(runs: Runs, name: str) -> dict[str, float]:
    """Of the packets that leave the last switch for the first time: how many had been overtaken, and by how many packets."""
    nodes = runs.scan(name, "nodes").filter(pl.col("tier") == 0).collect().height
    ports = runs.scan(name, "ports").filter((pl.col("node") >= nodes) & (pl.col("peer") < nodes)).select("node", "port").collect()
    data = (pl.col("kind") == 0) & (pl.col("event") == "dequeue") & (pl.col("bytes") > CUT)
    left = runs.scan(name, "packets").filter(data).select("time_ns", "node", "port", "flow_id", "offset_bytes").collect()
    left = left.join(ports, on=["node", "port"]).sort("flow_id", "time_ns", "offset_bytes", maintain_order=True)
    left = left.unique(["flow_id", "offset_bytes"], keep="first", maintain_order=True)
    ahead = left.select(behind=(pl.col("offset_bytes").cum_max() - pl.col("offset_bytes")).over("flow_id"))["behind"]
    most = ahead.max()
    return {"late": 100 * float((ahead > 0).mean() or 0), "behind": round(float(most or 0) / MTU["mtu"])}  # type: ignore[arg-type]
