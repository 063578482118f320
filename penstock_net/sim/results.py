"""Converts the core's counters and logs to a Run, and checks the invariants that every run must satisfy."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from penstock_net import scratch
from penstock_net.composition import Composition
from penstock_net.errors import InvariantError
from penstock_net.results.columns import COLUMNS, PER_FLOW
from penstock_net.results.frames import flow_frame, make_frame
from penstock_net.results.requests import request_frame
from penstock_net.results.run import Run, peak_memory
from penstock_net.results.samples import Grid, Samples
from penstock_net.results.steps import job_names, step_frames, step_summary
from penstock_net.results.streamed import Parts, StreamedRun
from penstock_net.sim import retried
from penstock_net.sim.critical import add_waits
from penstock_net.sim.deadlock import Deadlock
from penstock_net.sim.decided import by_timeouts, overrun, slow_steps
from penstock_net.sim.headroom import too_little
from penstock_net.sim.layouts import DROPS, EVENTS, NO_ROUTE, REFUSED, SWITCH_DOWN
from penstock_net.sim.logs import Logs
from penstock_net.sim.open_loop import OpenLoop
from penstock_net.sim.recording import PRINTED, Counts, changes, meanings, printed, record_columns, records_of
from penstock_net.sim.settings import Settings
from penstock_net.sim.starts import Starts
from penstock_net.sim.window import Counters, Phases, Reading, Window
from penstock_net.topology.cautions import cautions
from penstock_net.topology.changes import LinkChange, SwitchChange
from penstock_net.topology.outages import sentences
from penstock_net.units import format_time
from penstock_net.version import version

if TYPE_CHECKING:
    from penstock_net.workload.flows import Flows

LOGS = {  # optional frame -> the core's log that it is made of; the name of a frame is that of its switch in Measure
    "pauses": "pause",
    "queues": "queue",
    "packets": "trace",
    "port_series": "port",
    "flow_series": "flow",
    "records": "record",
}
NO_WINDOW = np.iinfo(np.int64).max
MOST_PORTS = 8  # of which warnings tell one by one


@dataclass(frozen=True)
class Outcome:
    """The state of the core after a run or during one.

    state            progress and errors (Simulation.state)
    end_ps           simulated time at which the last flow was received or lost, or at which the run stopped
    nodes, ports     counters at the end, a row each; their maxima are since the end of the window
    phases           counters at the bounds of the measurement window
    per_flow         arrays by flow number, by the stems of columns.PER_FLOW
    logs             its logs, of which an interrupted run has a part
    sent_at_changes  (node, port) -> bytes sent at each change of its rate
    unrouted         packets that had no route, at each change of the links that are down
    deadlock         at the end of a run that has not finished
    began            time.perf_counter() when the run began
    reduced          what the summary says of what switches reduced
    short            warnings of headroom that is less than what its links need
    opened           what became of open-loop flows; None: there are none
    counts           what schemes have counted
    llr              what links with retry have counted, see `retried`
    """

    settings: Settings
    composition: Composition
    state: dict[str, Any]
    end_ps: int
    nodes: Counters
    ports: Counters
    per_flow: dict[str, np.ndarray]
    phases: Phases
    queueing: list[tuple[int, ...]]
    logs: Logs
    sent_at_changes: dict[tuple[int, int], list[int]]
    unrouted: list[int]
    deadlock: Deadlock | None
    interrupted: bool
    began: float
    reduced: dict[str, Any]
    short: list[str]
    opened: OpenLoop | None
    counts: Counts
    llr: np.ndarray

    @classmethod
    def of(
        cls,
        settings: Settings,
        composition: Composition,
        sim: Any,
        per_flow: dict[str, np.ndarray],
        logs: Logs,
        starts: Starts,
        window: Window,
        sent_at_changes: dict[tuple[int, int], list[int]],
        unrouted: list[int],
        deadlock: Deadlock | None,
        interrupted: bool,
        began: float,
    ) -> Outcome:
        """The outcome of a Simulation in its present state."""
        state = sim.state()
        end = min(int(state["time"]), settings.end_ps)
        if state["over"]:
            last = max(int(per_flow["finish"][part].max(initial=0)) for part in slices(settings.flows, per_flow))
            end = max(last, state["settled"])
        for number, _, _, retransmitted, paused, _ in sim.active_flows():
            per_flow["retransmitted"][number], per_flow["paused"][number] = retransmitted, paused
        final = Reading.of(sim, end)
        return cls(
            settings,
            composition,
            state,
            end,
            final.nodes,
            final.ports,
            per_flow,
            Phases.of(window, final, interrupted),
            sim.queueing() if settings.measure.queueing else [],
            logs,
            sent_at_changes,
            unrouted,
            deadlock,
            interrupted,
            began,
            settings.reductions.record(sim) if settings.reductions else {},
            too_little(sim, settings.topo, composition),
            OpenLoop.of(starts, state),
            Counts.of(composition, sim),
            retried.read(sim, final.ports),
        )

    @cached_property
    def paths(self) -> np.ndarray | None:
        """int64 by flow: the flow whose number decides its path, the first of its connection; None: each its own."""
        found = self.settings.flows.connections
        return None if found is None else found.leaders()


def collect(outcome: Outcome) -> Run:
    """The Run of a finished or interrupted simulation.  InvariantError: its counters contradict one another."""
    check_invariants(outcome)
    run, flows = _run(outcome), outcome.settings.flows
    if outcome.interrupted:
        never = int(np.count_nonzero(~flows.computes)) - run.summary["flows_started"]
        unfinished = run.summary["flows_started"] - run.summary["flows_finished"]
        told = f"{run.interruption}: {never:,} flows never started, {unfinished:,} had not finished"
        run.summary["warnings"].insert(0, told)
    run.simulated, run.summary["peak_memory_bytes"] = os.getpid(), peak_memory()
    return run


def _run(outcome: Outcome) -> Run:
    measure, flows = outcome.settings.measure, outcome.settings.flows
    logs = {"switches": "switch"} | {name: log for name, log in LOGS.items() if getattr(measure, name)}
    if not records_of(outcome.composition):
        logs.pop("records", None)
    frames: dict[str, Any] = {"ports": port_frame(outcome), "nodes": node_frame(outcome)}
    if len(outcome.llr):
        frames["llr"] = retried.frame(outcome.llr)
    if measure.queueing:
        frames["queueing"] = queueing_frame(outcome)
    if outcome.opened:
        frames["open_loop"] = outcome.opened.frame()
    counted = outcome.counts.frame(outcome.logs) if outcome.counts.fields else None
    if counted:
        frames["counts"] = counted
    if samples := outcome.phases.flow_samples():
        columns = np.array(samples, dtype=np.int64).T
        frames["active_flows"] = dict(zip(("node", "port", "active_flows", "samples"), columns))
    ready, per_flow = flow_starts(outcome), outcome.per_flow
    steps: dict[str, pl.DataFrame] = {}
    start = ready
    if flows.operations is not None:
        start = started(outcome, ready, slice(None))
        steps = step_frames(flows, start, per_flow["finish"], per_flow["paused"])
        if requests := request_frame(flows, start, per_flow["finish"]):
            frames["requests"] = requests
    about = summary(outcome) | ({"training": training_of(outcome, steps, start)} if steps else {}) | outcome.reduced
    about |= {"open_loop": outcome.opened.record()} if outcome.opened else {}
    topo = outcome.settings.topo
    about |= {"counts": outcome.counts.totals(counted)} if counted else {}
    if outcome.state["printed"]:
        frames["prints"] = printed(outcome.composition, outcome.logs, topo.names)
        about["printed"] = outcome.state["printed"]
    about |= {"meanings": said} if (said := meanings(outcome.composition, records=measure.records)) else {}
    grid = outcome.logs.grid(topo.hosts, topo.switches) if measure.sample_ps else None
    frames |= {name: frame.to_dict() for name, frame in steps.items()}
    if not scratch.in_use() or (len(flows) < scratch.LARGE and not outcome.logs.moved):
        tables = {name: list(log_tables(outcome, log, grid if log == "switch" else None)) for name, log in logs.items()}
        whole = {name: log_frame(outcome, name, np.concatenate(parts)) for name, parts in tables.items()}
        run = Run.from_arrays(flow_columns(outcome, ready, slice(0, len(flows))), summary=about, **whole, **frames)
        return run.changed(samples=Samples(run.samples.rows, grid))
    streams = {name: log_parts(outcome, name, log, grid if log == "switch" else None) for name, log in logs.items()}
    made = {name: make_frame(name, columns) for name, columns in frames.items()}
    return StreamedRun({"flows": flow_parts(outcome, ready), **streams}, made, about | counts(outcome, ready), grid)


def training_of(outcome: Outcome, steps: dict[str, pl.DataFrame], start: np.ndarray) -> dict[str, Any]:
    """`summary["training"]`: steps and jobs, and what the last rank of each waited for."""
    found = step_summary(steps, job_names(outcome.settings.flows))
    add_waits(found, outcome, start, busy_ps(outcome, outcome.ports) / max(1, outcome.end_ps))
    return found


def flow_parts(outcome: Outcome, ready: np.ndarray) -> Parts:
    """The frame of the flows, in parts."""

    def parts() -> Iterator[pl.DataFrame]:
        for part in slices(outcome.settings.flows, outcome.per_flow):
            yield flow_frame(**flow_columns(outcome, ready, part))

    return parts


def log_parts(outcome: Outcome, name: str, log: str, grid: Grid | None) -> Parts:
    """A frame made from a log of the core, in parts; grid: as `Logs.tables` takes it."""

    def parts() -> Iterator[pl.DataFrame]:
        for table in log_tables(outcome, log, grid):
            for low in range(0, max(1, len(table)), scratch.CHUNK):
                yield make_frame(name, log_frame(outcome, name, table[low : low + scratch.CHUNK]))

    return parts


def log_tables(outcome: Outcome, log: str, grid: Grid | None) -> Iterator[np.ndarray]:
    """The rows of a log of the core, part by part; grid: as `Logs.tables` takes it."""
    return changes(outcome.logs) if log == "record" else outcome.logs.tables(log, grid)


def counts(outcome: Outcome, ready: np.ndarray) -> dict[str, Any]:
    """The entries of a Run's summary that follow from its frames."""
    flows, start, finish = outcome.settings.flows, 0, 0
    for part in slices(flows, outcome.per_flow):
        sends = flows.src[part] != flows.dst[part]
        start += int(np.count_nonzero(started(outcome, ready, part)[sends] >= 0))
        finish += int(np.count_nonzero(outcome.per_flow["finish"][part][sends] >= 0))
    return {"penstock": version(), "flows_started": start, "flows_finished": finish}


def log_frame(outcome: Outcome, name: str, table: np.ndarray) -> dict[str, Any]:
    """The columns of a frame that is a log of the core: fields of its rows, and some computed columns."""
    if name == "records":
        return record_columns(outcome.composition, table)
    computed: dict[str, Any] = {}
    if name == "pauses":
        computed["paused"] = table["command"] == 1
    elif name == "queues":
        computed["paused"] = table["paused"] != 0
    elif name == "flow_series":
        computed["window_bytes"] = np.where(table["window"] == NO_WINDOW, -1, table["window"])
    elif name == "packets":
        computed["event"] = np.array(EVENTS)[table["event"]].tolist()
        computed["kind"] = np.minimum(table["kind"], 2)
        computed["ecn"] = table["ecn"] != 0
    return {c.key: table[c.source or c.name] for c in COLUMNS[name].values() if c.name not in computed} | computed


def slices(flows: Flows, per_flow: dict[str, np.ndarray]) -> Iterator[slice]:
    """All flows, in parts; see `scratch.parts`."""
    return scratch.parts(*flows.columns, *per_flow.values())


def flow_columns(outcome: Outcome, ready: np.ndarray, part: slice) -> dict[str, Any]:
    """The columns of flows.parquet as `flow_frame` takes them, of a part of the flows, without computations.

    ready: see `flow_starts`
    """
    settings, flows = outcome.settings, outcome.settings.flows
    numbers = part.start + np.flatnonzero(flows.src[part] != flows.dst[part])
    sent = part if len(numbers) == part.stop - part.start else numbers
    of_path = numbers if outcome.paths is None else outcome.paths[numbers]
    received, acked = settings.alone_ps(sent, of_path, flows.bytes[sent])
    return {
        "flow_id": numbers,
        "start_ps": started(outcome, ready, sent),
        "ideal_ps": received,
        "ideal_acked_ps": acked,
        **{name: getattr(flows, name)[sent] for name in ("src", "dst", "bytes", "class_id", "priority")},
        "classes": flows.classes,
        **{c.key: outcome.per_flow[c.stem][sent] for c in PER_FLOW},
    }


def flow_starts(outcome: Outcome) -> np.ndarray:
    """When each flow was to be handed to its NIC, ps: a dependent flow a gap after the last of its parents had arrived at its
    host, or had been acknowledged to it."""
    flows, finish = outcome.settings.flows, outcome.per_flow["finish"]
    if flows.after is None:
        return flows.start_ps
    start = flows.start_ps.copy()
    offsets, parents = flows.after
    child = np.repeat(np.arange(len(flows)), np.diff(offsets))
    arrived = np.where(flows.dst[parents] == flows.src[child], finish[parents], outcome.per_flow["acked"][parents])
    np.maximum.at(start, child, np.where(arrived < 0, np.iinfo(np.int64).max, arrived + flows.gap_ps[child]))
    return start


def started(outcome: Outcome, ready: np.ndarray, chosen: slice | np.ndarray) -> np.ndarray:
    """When each of these flows was handed to its NIC, ps; -1 if the run ended before."""
    start = ready[chosen]
    late = (outcome.per_flow["finish"][chosen] < 0) & (start >= outcome.end_ps)
    return np.where(late, -1, start) if late.any() else start


def node_frame(outcome: Outcome) -> dict[str, Any]:
    topo, phases = outcome.settings.topo, outcome.phases
    return {
        "node": np.arange(topo.nodes),
        "name": list(topo.names),
        "tier": topo.tier,
        "max_buffer_bytes": of_switches(topo.hosts, phases.node_maxima("buffer_max")),
        "window_max_buffer_bytes": of_switches(topo.hosts, phases.last.of_nodes("buffer_max")),
        "max_voqs": phases.node_maxima("voqs_max"),
    }


def of_switches(hosts: int, values: np.ndarray) -> np.ndarray:
    """Values by node, with zeros for the hosts."""
    return np.where(np.arange(len(values)) < hosts, 0, values)


def queueing_frame(outcome: Outcome) -> dict[str, Any]:
    columns = np.array(outcome.queueing, dtype=np.int64).reshape(-1, 5).T
    classes = [outcome.settings.flows.classes[i] for i in columns[2]]
    return {"node": columns[0], "port": columns[1], "class": classes, "packets": columns[3], "queueing_ps": columns[4]}


def port_frame(outcome: Outcome) -> dict[str, Any]:
    """The columns of ports.parquet: counters of the ports, and some computed columns."""
    ports, phases = outcome.ports, outcome.phases
    topo = outcome.settings.topo
    delays = np.zeros(len(ports), dtype=np.int64)
    for end in "ab":
        delays[topo.first_port[topo.links[end]] + topo.links[f"port_{end}"]] = topo.links["delay_ps"]
    before = 0 if phases.first is None else busy_ps(outcome, phases.first.ports)
    reasons: list[str | None] = [None] * len(ports)
    for i in np.flatnonzero(ports["drops"].any(axis=1)):
        reasons[i] = ", ".join(f"{why}: {n}" for why, n in zip(DROPS, ports["drops"][i]) if n)
    computed = {
        "drops": ports["drops"].sum(axis=1),
        "drop_reason": reasons,
        "paused_ps": ports["paused_ps"],
        "max_queue_bytes": phases.port_maxima("max_queue_bytes"),
        "utilization": (busy_ps(outcome, phases.last.ports) - before) / phases.window_ps,
        "window_tx_bytes": phases.in_window("tx_bytes"),
        "window_paused_ps": phases.in_window("paused_ps"),
        "window_max_queue_bytes": phases.last.of_ports("max_queue_bytes"),
        "rate_bps": np.rint(8e12 / ports["ps_per_byte"]).astype(np.int64),
        "delay_ps": delays,
    }
    return {c.key: ports[c.source or c.name] for c in COLUMNS["ports"].values() if c.key not in computed} | computed


def busy_ps(outcome: Outcome, ports: Counters) -> np.ndarray:
    """Time that each port spent sending, ps, float64; each byte counts at the rate at which it was sent."""
    busy = ports["tx_bytes"] * ports["ps_per_byte"]
    topo = outcome.settings.topo
    links = topo.links
    link_of, rates_of = np.empty(len(ports), dtype=np.int64), defaultdict[int, list[LinkChange]](list)
    for end in "ab":
        link_of[topo.first_port[links[end]] + links[f"port_{end}"]] = np.arange(len(links))
    for change in topo.changes:
        if isinstance(change, LinkChange) and change.ps_per_byte:
            rates_of[change.link].append(change)
    for (node, port), marks in outcome.sent_at_changes.items():
        place = topo.first_port[node] + port
        link = int(link_of[place])
        changed = [c.ps_per_byte for c in rates_of[link] if c.ps_per_byte and c.node in (None, node)]
        rates = [float(links["ps_per_byte"][link]), *changed]
        bounds = [0, *marks, int(ports["tx_bytes"][place])]
        busy[place] = sum(rate * (high - low) for rate, low, high in zip(rates, bounds, bounds[1:]))
    return busy


def summary(outcome: Outcome) -> dict[str, Any]:
    wall = time.perf_counter() - outcome.began
    settings, state, ports, end, phases = outcome.settings, outcome.state, outcome.ports, outcome.end_ps, outcome.phases
    scheme, topo = settings.scheme, settings.topo
    retransmitted = sum(int(outcome.per_flow["retransmitted"][part].sum()) for part in slices(settings.flows, outcome.per_flow))
    return {
        "scheme": scheme.name,
        "scheme_parameters": scheme.parameters(),
        "label": scheme.label,
        "seed": settings.seed,
        "threads": settings.threads,
        "duration_ns": settings.duration_ps / 1000,
        "end_ns": end / 1000,
        "window": "run" if settings.window_ps[1] is None else settings.measure.window,
        "window_ns": [phases.start_ps / 1000, phases.end_ps / 1000],
        "wall_s": wall,
        "packet_hops": state["hops"],
        "packet_hops_per_s": state["hops"] / wall,
        "peak_memory_bytes": 0,
        "drops": int(ports["drops"].sum()),
        "pfc_pause_fraction": int(phases.in_window("paused_ps").sum()) / (phases.window_ps * len(ports)),
        "pauses": pauses(outcome),
        "storms": int(ports["storms"].sum()),
        "retransmissions": -(-retransmitted // settings.host.mtu),
        "max_buffer_bytes": int(phases.last.of_nodes("buffer_max")[topo.hosts :].max(initial=0)),
        "drain": drain(phases, topo.hosts),
        "nominal": settings.flows.nominal,
        "realised": settings.flows.realised(topo, settings.duration_ps),
        "deadlock": outcome.deadlock and outcome.deadlock.record(topo),
        "interrupted": outcome.interrupted,
        "warnings": warnings(outcome),
    }


def pauses(outcome: Outcome) -> list[dict[str, Any]]:
    """Pauses of egresses, and how long these were paused, by priority where they are paused apart."""
    nodes, ports, count = outcome.nodes, outcome.ports, outcome.composition.priorities
    if not count:
        return [{"priority": None, "pauses": int(ports["pauses_received"].sum()), "paused_ns": ports["paused_ps"].sum() / 1000}]
    times, paused = nodes["pauses"].sum(axis=0).tolist(), (nodes["stopped_ps"].sum(axis=0) / 1000).tolist()
    return [{"priority": i, "pauses": times[i], "paused_ns": paused[i]} for i in range(count)]


def drain(phases: Phases, hosts: int) -> dict[str, Any]:
    """What happened between the end of the window and the end of the run."""
    length = phases.drain_ps
    if not length:
        return {"ns": 0.0}
    return {
        "ns": length / 1000,
        "pfc_pause_fraction": int(phases.in_drain("paused_ps").sum()) / (length * len(phases.final.ports)),
        "max_buffer_bytes": int(phases.final.of_nodes("buffer_max")[hosts:].max(initial=0)),
    }


def warnings(outcome: Outcome) -> list[str]:
    """Warnings about a run: control that never acted, flows that the drain cut off."""
    out, settings = [], outcome.settings
    parts = outcome.composition.parts
    hooks: set[str] = set().union(*(part.hooks for part in parts if part.declared.fabric.get("acts", 1)))
    out += [*cautions(settings.topo), *settings.scheme.without_effect()]
    groups = len(np.unique(settings.topo.group))
    for name, asked in ((part.name, part.declared.fabric) for part in parts):
        if asked.get("groups", 0) > groups:
            out.append(f"{name} found fewer than three groups of switches, such as a dragonfly has: all paths were minimal")
        if asked.get("rings") and (groups > 1 or not settings.topo.label.any()):
            out.append(f"{name} found no dimensions, such as a torus has: paths were as without it")
    if settings.link_clock == "ns":
        out.append('link_clock = "ns": times on the line are cut to whole nanoseconds, so links are faster than their rate')
    if "on_ack" in hooks and not outcome.state["reactions"]:
        out.append("the congestion control never acted: no acknowledgement changed a window or a rate")
    if "on_control" in hooks and "on_ack" not in hooks and not outcome.ports["frame_bytes"].any():
        out.append("the flow control never acted: no control frame was sent")
    if outcome.paths is not None and outcome.composition.by_message:
        out.append(f"{settings.scheme.name} sends each message of a connection as a flow by itself: they share its path only")
    if outcome.phases.first is outcome.phases.final:
        out.append("the run ended before its measurement window began: there are no statistics over time")
    for links, load in settings.flows.overloaded(settings.topo, settings.duration_ps).items():
        out.append(
            f"the flows that start within {format_time(settings.duration_ps)} offer {load:.0%} of what the {links} links carry "
            f"in that time: queues grow, and statistics depend on run.duration"
        )
    for source in settings.flows.nominal:
        if "senders" in source:
            out.append(
                f"incast: fan_in = {source['fan_in']}, but some events have {source['senders']} possible senders: they are drawn "
                f"with replacement, so some send several flows and some none; lower fan_in, or set replace = true"
            )
    if settings.paths is not None:
        out += settings.paths.cautions(settings.topo, settings.flows)
    out += outcome.short
    out += outcome.opened.warnings() if outcome.opened else []
    if outcome.deadlock:
        out.append(outcome.deadlock.text(settings.topo))
    out += [*overrun(outcome), *slow_steps(outcome)]
    if any(outcome.per_flow["timeout"][part].any() for part in slices(settings.flows, outcome.per_flow)):
        out += by_timeouts(outcome, flow_starts(outcome))
    if outcome.state["printed"] > PRINTED:
        out.append(f"the scheme printed {outcome.state['printed']:,} lines, of which the first {PRINTED:,} are kept")
    out += lost_in_switches(outcome)
    out += lost_without_route(outcome)
    out += ended_pauses(outcome)
    unfinished = 0
    if settings.drain and not outcome.interrupted:
        flows, finish = settings.flows, outcome.per_flow["finish"]
        for part in slices(flows, outcome.per_flow):
            unfinished += int(np.count_nonzero((finish[part] < 0) & (flows.src[part] != flows.dst[part])))
            unfinished -= len(outcome.opened.waiting(part)) if outcome.opened else 0
    if unfinished:
        out.append(f"{unfinished} flows had not finished at {format_time(settings.end_ps)}, where the drain is cut off")
    return out


def lost_in_switches(outcome: Outcome) -> list[str]:
    """Packets lost in switches that failed."""
    topo, drops, out = outcome.settings.topo, outcome.ports["drops"][:, DROPS.index(SWITCH_DOWN)], []
    for switch in np.unique(outcome.ports["node"][drops > 0]).tolist():
        times = [c.time_ps for c in topo.changes if isinstance(c, SwitchChange) and c.switch == switch and not c.up]
        lost = int(drops[outcome.ports["node"] == switch].sum())
        out.append(f"{topo.names[switch]} failed at {', '.join(map(format_time, times))} and lost the {lost} packets in it")
    return out


def lost_without_route(outcome: Outcome) -> list[str]:
    """Changes that left hosts without a route, and the packets lost by it."""
    total = int(outcome.ports["drops"][:, DROPS.index(NO_ROUTE)].sum())
    return sentences(outcome.settings.topo, np.diff([*outcome.unrouted, total]).tolist())


def ended_pauses(outcome: Outcome) -> list[str]:
    """Where a watchdog ended pauses, and what the neighbours dropped that had asked for them."""
    topo, ports = outcome.settings.topo, outcome.ports
    refused = refusals(ports)
    stormy, out = ports[ports["storms"] > 0], []
    for port in stormy[:MOST_PORTS]:
        node, peer = topo.names[port["node"]], topo.names[port["peer"]]
        lost = int(refused[ports["node"] == port["peer"]].sum())
        out.append(
            f"the watchdog at {node} port {port['port']} (to {peer}) ended pauses {counted(port['storms'], 'time')} and obeyed "
            f"them again {counted(port['restored'], 'time')}; {peer} dropped {counted(lost, 'packet')}"
        )
    if len(stormy) > MOST_PORTS:
        out.append(f"watchdogs acted at {len(stormy) - MOST_PORTS} more ports: column storms of ports.parquet")
    return out


def refusals(ports: Any) -> Any:
    """Packets of each port that found no room, or that a scheme refused."""
    return ports["drops"][..., [DROPS.index(why) for why in REFUSED]].sum(axis=-1)


def counted(number: int, word: str) -> str:
    return f"{number} {word}" + ("" if number == 1 else "s")


def check_invariants(outcome: Outcome) -> None:
    """InvariantError unless bytes are conserved on every link and in every switch, no queue is negative, and a lossless
    scheme has dropped nothing."""
    topo, scheme, ports = outcome.settings.topo, outcome.settings.scheme, outcome.ports

    def require(holds: np.ndarray, what: Counters, text: Callable[[Any], str]) -> None:
        if holds.all():
            return
        first = what[int(np.argmin(holds))]
        where = topo.names[first["node"]] + (f" port {first['port']}" if "port" in (what.dtype.names or ()) else "")
        at = format_time(int(outcome.state["time"]))
        raise InvariantError(f"{where}, at {at}: {text(first)} (scheme {scheme.name}, seed {outcome.settings.seed})")

    sent = ports["tx_bytes"][topo.first_port[ports["peer"]] + ports["peer_port"]]
    require(
        sent == ports["rx_bytes"] + ports["wire_bytes"] + ports["cut_bytes"],
        ports,
        lambda p: (
            f"{sent[topo.first_port[p['node']] + p['port']]} B were sent towards it, {p['rx_bytes']} B came in, "
            f"{p['wire_bytes']} B are on the wire"
        ),
    )
    if outcome.opened:
        outcome.opened.check()
    require(ports["queued_bytes"] >= 0, ports, lambda p: f"queue of {p['queued_bytes']} B")
    refused = refusals(ports)
    if outcome.composition.lossless and not outcome.settings.pauses_may_be_lost:
        require(refused == 0, ports, lambda p: f"{refusals(p)} packets were dropped under a lossless scheme")
    nodes = outcome.nodes[topo.hosts :]

    def total(key: str) -> np.ndarray:
        return np.add.reduceat(ports[key], topo.first_port[topo.hosts :])

    came = total("rx_bytes") + nodes["frame_bytes"]
    left = (
        total("tx_bytes") + total("dropped_bytes") + total("trimmed_bytes") - total("cut_bytes") + nodes["frame_bytes_received"]
    )
    here = left + total("control_bytes") + nodes["buffer_used"]
    require(
        came == here,
        nodes,
        lambda n: (
            f"{came[n['node'] - topo.hosts]} B came in or were made here, {here[n['node'] - topo.hosts]} B left or are still here"
        ),
    )
    queued = total("queued_bytes")
    require(
        (nodes["buffer_used"] == queued) & (queued >= 0),
        nodes,
        lambda n: f"buffer {n['buffer_used']} B, queues {queued[n['node'] - topo.hosts]} B",
    )
