"""From the core's counters and logs to a Run, with the laws that every run must obey."""

from __future__ import annotations

import resource
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.errors import InvariantError
from penstock.results.run import Run
from penstock.units import format_time

if TYPE_CHECKING:
    from penstock.sim.simulate import Runner

REASONS = ("buffer full", "refused by the scheme", "link loss", "link down", "no route")
EVENTS = ("enqueue", "dequeue", "drop", "receive", "hold")
ROWS = {
    "switch": np.dtype([("time", "i8"), ("buffer", "i8"), ("longest", "i8"), ("node", "i4"), ("flows", "i4")]),
    "port": np.dtype(
        [
            ("time", "i8"),
            ("bytes", "i8"),
            ("tx_bytes", "i8"),
            ("ack_bytes", "i8"),
            ("frame_bytes", "i8"),
            ("node", "i4"),
            ("port", "i4"),
            ("active", "i4"),
            ("flows", "i4"),
        ]
    ),
    "queue": np.dtype([("time", "i8"), ("bytes", "i8"), ("node", "i4"), ("port", "i4"), ("queue", "i4"), ("paused", "i4")]),
    "flow": np.dtype([("time", "i8"), ("acked", "i8"), ("window", "i8"), ("number", "i4"), ("node", "i4")]),
    "pause": np.dtype([("time", "i8"), ("node", "i4"), ("port", "i4"), ("queue", "i4"), ("command", "i4")]),
    "trace": np.dtype(
        [
            ("time", "i8"),
            ("seq", "i8"),
            ("node", "i4"),
            ("number", "i4"),
            ("event", "i2"),
            ("port", "i2"),
            ("in_port", "i2"),
            ("queue", "i2"),
            ("upstream_q", "i2"),
            ("size", "i2"),
            ("kind", "i1"),
            ("ecn", "i1"),
            ("flags", "i1"),
            ("spare", "i1"),
            ("queue_bytes", "i8"),
            ("port_bytes", "i8"),
        ]
    ),
}


def rows(runner: Runner, name: str) -> np.ndarray:
    """One log of all workers, by time, then node (within a node as it happened)."""
    parts = [np.frombuffer(b, dtype=ROWS[name]) for b in runner.sim.rows(name)]
    table = np.concatenate(parts)
    return table[np.lexsort((table["node"], table["time"]))]


def collect(runner: Runner) -> Run:
    """The Run of a finished or interrupted simulation."""
    state = runner.sim.state()
    over = state["done"] == len(runner.flows)
    end = min(int(state["time"]), runner.end_ps) if not over else int(runner.finish.max(initial=0))
    ports = runner.sim.port_counters(end)
    nodes = runner.sim.node_counters()
    check_laws(runner, nodes, ports)
    measure = runner.measure
    frames: dict[str, Any] = {"nodes": node_frame(runner, nodes)}
    if measure.pauses:
        frames["pauses"] = pause_frame(rows(runner, "pause"))
    if measure.queues:
        frames["queues"] = queue_frame(rows(runner, "queue"))
    if measure.packets:
        frames["packets"] = packet_frame(rows(runner, "trace"))
    if measure.port_series:
        frames["port_series"] = port_series(rows(runner, "port"))
    if measure.flow_series:
        frames["flow_series"] = flow_series(rows(runner, "flow"))
    if measure.queueing:
        frames["queueing"] = queueing_frame(runner)
    samples = runner.sim.flow_samples()
    if samples:
        columns = np.array(samples, dtype=np.int64).T
        frames["active_flows"] = dict(zip(("node", "port", "active_flows", "samples"), columns))
    return Run.from_arrays(
        flow_columns(runner, end),
        switches=switch_frame(rows(runner, "switch")),
        ports=port_frame(runner, ports, end),
        summary=summary(runner, state, nodes, ports, end),
        **frames,
    )


def flow_columns(runner: Runner, end: int) -> dict[str, Any]:
    """Flows that had no time to start are left out of the frame's times."""
    flows, finish, start = runner.flows, runner.finish, flow_starts(runner)
    late = (finish < 0) & (start >= end)
    if late.any():
        start = np.where(late, -1, start)
    for number, _, _, retransmitted, paused, _ in runner.sim.active_flows():
        runner.retransmitted[number], runner.paused[number] = retransmitted, paused
    return {
        "start_ps": start,
        "finish_ps": finish,
        "ideal_ps": runner.ideal_ps(),
        "src": flows.src,
        "dst": flows.dst,
        "bytes": flows.bytes,
        "class_id": flows.class_id,
        "classes": flows.classes,
        "priority": flows.priority,
        "retransmitted_bytes": runner.retransmitted,
        "paused_ps": runner.paused,
    }


def flow_starts(runner: Runner) -> np.ndarray:
    """When each flow was handed to its NIC: a dependent flow when the last of its parents had arrived."""
    flows = runner.flows
    if flows.after is None:
        return flows.start_ps
    offsets, parents = flows.after
    start = flows.start_ps.copy()
    child = np.repeat(np.arange(len(flows)), np.diff(offsets))
    arrived = runner.finish[parents]
    np.maximum.at(start, child, np.where(arrived < 0, np.iinfo(np.int64).max, arrived))
    return start


def node_frame(runner: Runner, nodes: list[dict[str, Any]]) -> dict[str, Any]:
    topo = runner.topo
    most = np.array([n["buffer_max"] for n in nodes], dtype=np.int64)
    most[: topo.hosts] = 0
    return {
        "node": np.arange(topo.hosts + topo.switches),
        "name": list(topo.names),
        "tier": topo.tier,
        "max_buffer_bytes": most,
        "max_voqs": [n["voqs_max"] for n in nodes],
    }


def queueing_frame(runner: Runner) -> dict[str, Any]:
    columns = np.array(runner.sim.waits(), dtype=np.int64).reshape(-1, 5).T
    classes = [runner.flows.classes[i] for i in columns[2]]
    return {"node": columns[0], "port": columns[1], "class": classes, "packets": columns[3], "queueing_ps": columns[4]}


def switch_frame(table: np.ndarray) -> dict[str, Any]:
    return {
        "time_ps": table["time"],
        "switch": table["node"],
        "buffer_bytes": table["buffer"],
        "max_queue_bytes": table["longest"],
        "active_flows": table["flows"],
    }


def port_series(table: np.ndarray) -> dict[str, Any]:
    return {
        "time_ps": table["time"],
        "node": table["node"],
        "port": table["port"],
        "queue_bytes": table["bytes"],
        "tx_bytes": table["tx_bytes"],
        "ack_bytes": table["ack_bytes"],
        "control_bytes": table["frame_bytes"],
        "active_queues": table["active"],
        "active_flows": table["flows"],
    }


def flow_series(table: np.ndarray) -> dict[str, Any]:
    window = np.where(table["window"] == np.iinfo(np.int64).max, -1, table["window"])
    return {"time_ps": table["time"], "flow_id": table["number"], "acked_bytes": table["acked"], "window_bytes": window}


def pause_frame(table: np.ndarray) -> dict[str, Any]:
    return {
        "time_ps": table["time"],
        "node": table["node"],
        "port": table["port"],
        "queue": table["queue"],
        "paused": table["command"] == 1,
    }


def queue_frame(table: np.ndarray) -> dict[str, Any]:
    return {
        "time_ps": table["time"],
        "node": table["node"],
        "port": table["port"],
        "queue": table["queue"],
        "bytes": table["bytes"],
        "paused": table["paused"] != 0,
    }


def packet_frame(table: np.ndarray) -> dict[str, Any]:
    return {
        "time_ps": table["time"],
        "node": table["node"],
        "port": table["port"],
        "in_port": table["in_port"],
        "queue": table["queue"],
        "upstream_q": table["upstream_q"],
        "event": np.array(EVENTS)[table["event"]].tolist(),
        "kind": np.minimum(table["kind"], 2),
        "flow_id": table["number"],
        "offset_bytes": table["seq"],
        "bytes": table["size"],
        "ecn": table["ecn"] != 0,
        "queue_bytes": table["queue_bytes"],
        "port_bytes": table["port_bytes"],
    }


def port_frame(runner: Runner, ports: list[dict[str, Any]], end: int) -> dict[str, Any]:
    columns = {
        c: [p[c] for p in ports]
        for c in (
            "node",
            "port",
            "peer",
            "tx_bytes",
            "ack_bytes",
            "tx_packets",
            "ecn_marks",
            "pauses_sent",
            "pauses_received",
            "max_queue_bytes",
        )
    }
    columns["control_bytes"] = [p["frame_bytes"] for p in ports]
    reasons = [", ".join(f"{r}: {n}" for r, n in zip(REASONS, p["drops"]) if n) or None for p in ports]
    busy = np.array([busy_ps(runner, p) for p in ports], dtype=float)
    return {
        **columns,
        "drops": [sum(p["drops"]) for p in ports],
        "drop_reason": reasons,
        "paused_ps": np.array([p["paused_ps"] for p in ports], dtype=np.int64),
        "utilization": busy / max(end, 1),
    }


def busy_ps(runner: Runner, port: dict[str, Any]) -> int:
    """Time that a port spent sending, each byte at the rate of its moment."""
    marks = runner.spent.get((port["node"], port["port"]), [])
    if not marks:
        return int(port["tx_bytes"] * port["ps_per_byte"])
    links = runner.topo.links
    at = ((links["a"] == port["node"]) & (links["port_a"] == port["port"])) | (
        (links["b"] == port["node"]) & (links["port_b"] == port["port"])
    )
    link = int(np.flatnonzero(at)[0])
    rates = [int(links["ps_per_byte"][link])] + [
        c.ps_per_byte for c in runner.topo.changes if c.link == link and c.ps_per_byte and c.node in (None, port["node"])
    ]
    bounds = [0, *marks, port["tx_bytes"]]
    return sum(rate * (high - low) for rate, low, high in zip(rates, bounds, bounds[1:]))


def summary(
    runner: Runner, state: dict[str, Any], nodes: list[dict[str, Any]], ports: list[dict[str, Any]], end: int
) -> dict[str, Any]:
    wall = time.perf_counter() - runner.began
    flows = runner.flows
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return {
        "scheme": runner.scheme.name,
        "scheme_parameters": runner.scheme.parameters(),
        "label": runner.scheme.label,
        "seed": runner.seed,
        "threads": runner.threads,
        "duration_ns": runner.duration_ps / 1000,
        "end_ns": end / 1000,
        "wall_s": wall,
        "packet_hops": state["hops"],
        "packet_hops_per_s": state["hops"] / wall,
        "peak_memory_bytes": memory,
        "drops": sum(sum(p["drops"]) for p in ports),
        "pfc_pause_fraction": sum(p["paused_ps"] for p in ports) / max(1, end * len(ports)),
        "retransmissions": -(-int(runner.retransmitted.sum()) // runner.host.mtu),
        "max_buffer_bytes": max((n["buffer_max"] for n in nodes[runner.topo.hosts :]), default=0),
        "nominal": flows.nominal,
        "realised": flows.realised(runner.topo, runner.duration_ps),
        "interrupted": runner.stop,
        "warnings": warnings(runner, state, ports),
    }


def warnings(runner: Runner, state: dict[str, Any], ports: list[dict[str, Any]]) -> list[str]:
    """What to know before one trusts the numbers."""
    out = []
    hooks: set[str] = set().union(*(p.declared.hooks for p in runner.composition.parts if p.declared.fabric.get("acts", 1)))
    if "on_ack" in hooks and not state["reactions"]:
        out.append("the congestion control never acted: no acknowledgement changed a window or a rate")
    if "on_control" in hooks and "on_ack" not in hooks and not any(p["frame_bytes"] for p in ports):
        out.append("the flow control never acted: no control frame was sent")
    unfinished = int((runner.finish < 0).sum())
    if unfinished and runner.drain and not runner.stop:
        out.append(f"{unfinished} flows had not finished at {format_time(runner.end_ps)}, where the drain is cut off")
    return out


def check_laws(runner: Runner, nodes: list[dict[str, Any]], ports: list[dict[str, Any]]) -> None:
    """Bytes are conserved on every link and in every switch, nothing is negative, a lossless scheme lost nothing."""
    by_node: dict[int, list[dict[str, Any]]] = {}
    index = {(p["node"], p["port"]): p for p in ports}
    for p in ports:
        by_node.setdefault(p["node"], []).append(p)
        sent = index[p["peer"], p["peer_port"]]["tx_bytes"]
        _law(
            runner,
            p["node"],
            p["port"],
            sent == p["rx_bytes"] + p["wire_bytes"] + p["cut_bytes"],
            f"{sent} B were sent towards it, {p['rx_bytes']} B came in, {p['wire_bytes']} B are on the wire",
        )
        _law(runner, p["node"], p["port"], p["queued_bytes"] >= 0, f"queue of {p['queued_bytes']} B")
        if runner.composition.lossless and not runner.pauses_may_be_lost:
            refused = p["drops"][0] + p["drops"][1]
            _law(runner, p["node"], p["port"], refused == 0, f"{refused} packets were dropped under a lossless scheme")
    for node in nodes[runner.topo.hosts :]:
        mine = by_node[node["node"]]
        total = lambda key, mine=mine: sum(p[key] for p in mine)  # noqa: E731
        came = total("rx_bytes") + node["frame_bytes"]
        went = (
            total("tx_bytes")
            + total("control_bytes")
            + total("dropped_bytes")
            - total("cut_bytes")
            + node["buffer_used"]
            + node["frame_bytes_received"]
        )
        _law(runner, node["node"], None, came == went, f"{came} B came in or were made here, {went} B left or are still here")
        _law(
            runner,
            node["node"],
            None,
            node["buffer_used"] == total("queued_bytes") >= 0,
            f"buffer {node['buffer_used']} B, queues {total('queued_bytes')} B",
        )


def _law(runner: Runner, node: int, port: int | None, holds: bool, text: str) -> None:
    if not holds:
        where = runner.topo.names[node] + ("" if port is None else f" port {port}")
        at = format_time(int(runner.sim.state()["time"]))
        raise InvariantError(f"{where}, at {at}: {text} (scheme {runner.scheme.name}, seed {runner.seed})")
