"""`simulate`: a topology, flows and a scheme in, a Run out; the compiled core is entered in chunks."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.composition import Composition, Scheme, parse
from penstock.errors import InvariantError, SpecError
from penstock.hashing import flow_hash, node_seed
from penstock.results.run import Run
from penstock.sim import results
from penstock.sim.config import HostConfig, Measure
from penstock.sim.core.build import Simulation
from penstock.units import format_size, format_time, parse_time

if TYPE_CHECKING:
    from penstock.topology import Topology
    from penstock.workload.flows import Flows

NEVER = 2**63 - 1
LEVELS = 8
START = np.dtype(
    [
        ("time", "i8"),
        ("size", "i8"),
        ("number", "i4"),
        ("following", "i4"),
        ("src", "i2"),
        ("dst", "i2"),
        ("priority", "i1"),
        ("pad", "V3"),
    ]
)
FLOWS_AT_ONCE = 200_000  # flows handed to the core in one chunk
ACTIVE_AT_ONCE = 4_000_000  # flows that may be unfinished at the same time, per thread
CHUNK_S = 0.08  # wall time between two looks at the clock, the progress bar and Ctrl-C
MAX_END_PS = 2 * 10**15  # an event's key holds 51 bits of time, 2251 s
MAX_FRAME = 32_000  # packet sizes are 16 bits, and a scheme may add telemetry
NACK_INTERVAL_PS = 500_000_000
TOO_MANY_FLOWS = 1  # errors of the core (fabric/state.pxd)
NO_SUCH = {2: "queue", 3: "port", 4: "virtual output queue", 5: "path"}
ACK_HEADER = 46  # an ACK is padded to HostConfig.ack; telemetry comes on top of this


@dataclass(frozen=True)
class Progress:
    """Where a run is: simulated ps, where it will end at the latest, packet-hops, flows, seconds of wall time."""

    time_ps: int
    end_ps: int
    packet_hops: int
    flows_done: int
    flows_total: int
    wall_s: float


def core_sizes() -> dict[str, int]:
    """Bytes of the fabric's own structs."""
    from penstock.sim.core.build import struct_sizes

    return struct_sizes()


def simulate(
    topo: Topology,
    flows: Flows,
    scheme: str | Scheme = "fifo",
    *,
    seed: int = 1,
    threads: int = 1,
    duration: str | int | float | None = None,
    duration_ps: int | None = None,
    drain: bool = True,
    max_time_ps: int | None = None,
    measure: Measure | None = None,
    host: HostConfig | None = None,
    control_loss: float = 0.0,
    progress: Callable[[Progress], None] | None = None,
) -> Run:
    """Run `flows` over `topo` under `scheme`.

    seed          of ECMP, marking and loss; the flows have their own
    threads       results do not depend on it
    duration      how long flows arrive ("5ms" or seconds; duration_ps: in ps); default: until the last start
    drain         run on until every flow has finished, at most until max_time_ps (default: one second more)
    control_loss  chance that a control frame (a pause) is lost on each link, beside the links' own loss
    progress      called about ten times a second with a Progress

    Ctrl-C ends the run early: the Run then holds what was done so far and summary["interrupted"] is True.
    Raises SpecError for bad input and InvariantError when a law was broken.
    """
    return Runner(
        topo,
        flows,
        parse(scheme),
        seed,
        threads,
        _end(flows, duration, duration_ps),
        drain,
        max_time_ps,
        measure or Measure(),
        host or HostConfig(),
        control_loss,
        progress,
    ).run()


def _end(flows: Flows, duration: str | int | float | None, duration_ps: int | None) -> int:
    if duration is not None:
        return parse_time(duration, "duration", positive=True)
    if duration_ps is not None:
        return duration_ps
    return int(flows.start_ps[-1]) + 1 if len(flows) else 1


class Runner:
    """One call of simulate(): checks the input, builds the core, runs it in chunks, collects the results."""

    def __init__(
        self,
        topo: Topology,
        flows: Flows,
        scheme: Scheme,
        seed: int,
        threads: int,
        duration_ps: int,
        drain: bool,
        max_time_ps: int | None,
        measure: Measure,
        host: HostConfig,
        control_loss: float,
        progress: Callable[[Progress], None] | None,
    ) -> None:
        if threads < 1:
            raise SpecError(f"threads = {threads}: must be 1 or more")
        if not 0 <= control_loss < 1:
            raise SpecError(f"control_loss = {control_loss}: must be at least 0 and below 1")
        flows.check(topo)
        self.topo, self.flows, self.scheme, self.seed = topo, flows, scheme, seed
        self.threads = min(threads, topo.hosts + topo.switches)
        self.duration_ps, self.drain, self.measure, self.progress = duration_ps, drain, measure, progress
        self.end_ps = (max_time_ps or duration_ps + 10**12) if drain else duration_ps
        self.host = HostConfig(**{**vars(host), **scheme.host})
        self.control_loss = control_loss
        self.began = time.perf_counter()
        self.stop = False
        self.composition = self.compose()
        self.check_numbers()
        self.check_buffers()
        self.sim = Simulation(self.shape(), self.settings(), self.composition)
        self.finish = np.full(len(flows), -1, dtype=np.int64)
        self.retransmitted = np.zeros(len(flows), dtype=np.int64)
        self.paused = np.zeros(len(flows), dtype=np.int64)
        self.sim.set_results(len(flows), self.finish, self.retransmitted, self.paused)
        if measure.queueing:
            self.sim.count_waits(flows.class_id, len(flows.classes))
        self.order, self.loaded = self.arrange_starts(), 0
        self.changes = [c for c in topo.changes if c.time_ps < self.end_ps]
        self.down: frozenset[int] = frozenset()
        self.spent: dict[tuple[int, int], list[int]] = {}  # bytes that a port had sent at each change of its rate

    def compose(self) -> Composition:
        """The scheme's parts, each with its share of the core's structs."""
        return self.scheme.compose(core_sizes(), LEVELS, self.host.nic_queues, self.topo.hosts)

    @property
    def pauses_may_be_lost(self) -> bool:
        """Whether a lossless scheme cannot keep its promise: wires lose frames, or links fail."""
        fails = any(c.up is not None for c in self.topo.changes)
        return bool(self.control_loss or fails or self.topo.links["loss"].any())

    def check_numbers(self) -> None:
        """Refuse what the core's integers cannot hold."""
        host, links = self.host, self.topo.links
        if self.end_ps > MAX_END_PS:
            raise SpecError(
                f"simulated time = {format_time(self.end_ps)}: at most {format_time(MAX_END_PS)} are possible; "
                f"let flows start earlier, or set a lower max_time"
            )
        if host.mtu + host.header > MAX_FRAME:
            raise SpecError(f"host.mtu = {host.mtu}: mtu + header must be {MAX_FRAME} bytes or less")
        if host.ack > MAX_FRAME:
            raise SpecError(f"host.ack = {host.ack}: must be {MAX_FRAME} bytes or less")
        if host.rto_ps < 1000:
            raise SpecError(f"host.rto = {host.rto}: must be 1ns or more")
        hop = int((links["delay_ps"] + MAX_FRAME * links["ps_per_byte"]).max())
        if hop > MAX_END_PS // 10:
            raise SpecError(
                f"topology: a link takes {format_time(hop)} for a packet of {MAX_FRAME} B; at most "
                f"{format_time(MAX_END_PS // 10)} are possible"
            )

    def check_buffers(self) -> None:
        """A lossless scheme needs room for its headroom."""
        frame = self.host.mtu + self.host.header
        smallest = int(min((b for b in self.topo.buffer_bytes if b), default=NEVER))
        if smallest < frame:
            raise SpecError(f"topology.buffer = {format_size(smallest)}: less than one packet of {frame} B; use at least that")
        for part in self.composition.parts:
            if "headroom" in part.values and part.declared.fabric.get("lossless") and not self.composition.unbounded:
                self.check_headroom(part.values, frame)

    def check_headroom(self, values: dict[str, Any], frame: int) -> None:
        links = self.topo.links
        fastest = links["ps_per_byte"].copy()
        for change in self.topo.changes:
            if change.ps_per_byte:
                fastest[change.link] = min(fastest[change.link], change.ps_per_byte)
        bdp = links["delay_ps"] // fastest + 1
        room = np.maximum(values["headroom"] * bdp, 2 * bdp + 3 * (frame + 64)) + values.get("reserve", 0)
        need = np.zeros(self.topo.hosts + self.topo.switches)
        np.add.at(need, links["a"], room)
        np.add.at(need, links["b"], room)
        for i, size in enumerate(self.topo.buffer_bytes):
            if size and need[self.topo.hosts + i] + frame > size:
                name, least = self.topo.names[self.topo.hosts + i], need[self.topo.hosts + i] + frame
                raise SpecError(
                    f"topology.buffer = {format_size(int(size))}: the lossless headroom of {name} alone takes "
                    f"{format_size(int(least))}; give it more buffer, or less headroom"
                )

    def shape(self) -> dict[str, Any]:
        topo, nodes = self.topo, np.arange(self.topo.hosts + self.topo.switches)
        links = topo.links
        routes = topo.routes()
        chance = np.round(links["loss"] * 2**31).astype(np.int64)
        control = np.round((1 - (1 - links["loss"]) * (1 - self.control_loss)) * 2**31).astype(np.int64)
        host_links = links[(links["a"] < topo.hosts) | (links["b"] < topo.hosts)]
        line = int(host_links["ps_per_byte"].min())
        base_rtt = topo.base_rtt_ps(self.host.mtu, self.host.header, self.host.ack)
        columns = [links[c].tolist() for c in ("a", "port_a", "b", "port_b", "ps_per_byte", "delay_ps")]
        self.offsets, self.next_hops = self.plain_routes(routes)
        return {
            "hosts": topo.hosts,
            "nodes": len(nodes),
            "degrees": topo.port_count.tolist(),
            "window": int(links["delay_ps"].min()),
            "base_rtt": base_rtt,
            "bdp": -(-base_rtt // line),
            "line_ps_per_byte": line,
            "node_seeds": node_seed(nodes, self.seed).tolist(),
            "random_seeds": (flow_hash(nodes + (1 << 41), self.seed).astype(np.int64) * 4).tolist(),
            "buffers": topo.buffer_bytes.tolist(),
            "links": list(zip(*columns, chance.tolist(), control.tolist())),
            "tiers": topo.tier.tolist(),
            "worker_of": self.partition(),
            "offsets": self.offsets,
            "next_hops": self.next_hops,
        }

    @staticmethod
    def plain_routes(routes: Any) -> tuple[np.ndarray, list[np.ndarray]]:
        return (
            np.ascontiguousarray(routes.offsets, dtype=np.int32),
            [np.ascontiguousarray(h, dtype=np.int16) for h in routes.next_hops],
        )

    def partition(self) -> list[int]:
        """Worker of each node: switches are dealt out by weight, in order, and take their hosts along."""
        topo = self.topo
        weight = topo.port_count[topo.hosts :].astype(float)
        worker = np.zeros(topo.hosts + topo.switches, dtype=int)
        tiers = topo.tier[topo.hosts :]
        for tier in np.unique(tiers):
            members = np.flatnonzero(tiers == tier)
            share = np.cumsum(weight[members]) - weight[members] / 2
            worker[topo.hosts + members] = np.minimum(share / weight[members].sum() * self.threads, self.threads - 1).astype(int)
        for end, other in (("a", "b"), ("b", "a")):
            at_host = topo.links[end] < topo.hosts
            worker[topo.links[end][at_host]] = worker[topo.links[other][at_host]]
        return [int(w) for w in worker]

    def settings(self) -> dict[str, int]:
        m, h = self.measure, self.host
        return {
            "threads": self.threads,
            "seed": self.seed & 0xFFFFFFFF,
            "mtu": h.mtu,
            "header": h.header,
            "ack": h.ack,
            "ack_header": min(ACK_HEADER, h.ack),
            "ack_lane": int(h.ack_priority == "data"),
            "rto": h.rto_ps,
            "nack_interval": NACK_INTERVAL_PS,
            "sample": m.sample_ps,
            "sample_ports": int(m.port_series),
            "sample_queues": int(m.queues),
            "sample_flows": int(m.flow_series),
            "log_pauses": int(m.pauses),
            "trace": int(m.packets),
            "count_flows": int(m.flows),
            "flow_limit": max(1, min(len(self.flows), ACTIVE_AT_ONCE)),
        }

    # ---- flows to come ----

    def arrange_starts(self) -> np.ndarray:
        """Numbers of the flows that wait for no other, by time; the others are handed over at once with their parents."""
        flows = self.flows
        if flows.after is None:
            return np.arange(len(flows))
        offsets, parents = flows.after
        waits = np.diff(offsets)
        numbers = np.flatnonzero(waits > 0)
        place = np.full(len(flows), -1, dtype=np.int64)
        place[numbers] = np.arange(len(numbers))
        child = np.repeat(np.arange(len(flows)), waits)
        by_parent = np.argsort(parents, kind="stable")
        child_offsets = np.zeros(len(flows) + 1, dtype=np.int32)
        np.cumsum(np.bincount(parents, minlength=len(flows)), out=child_offsets[1:])
        self.sim.set_dependencies(
            self.start_table(numbers), waits[numbers].astype(np.int32), child_offsets, place[child[by_parent]].astype(np.int32)
        )
        return np.flatnonzero(waits == 0)

    def start_table(self, numbers: np.ndarray) -> np.ndarray:
        table = np.zeros(len(numbers), dtype=START)
        flows = self.flows
        table["time"], table["size"], table["number"] = flows.start_ps[numbers], flows.bytes[numbers], numbers
        table["src"], table["dst"], table["priority"] = flows.src[numbers], flows.dst[numbers], flows.priority[numbers]
        return table

    def load_starts(self) -> int:
        """Hand the next flows to the core; returns the time of the first one that was not handed over."""
        start = self.flows.start_ps
        low = self.loaded
        high = min(low + FLOWS_AT_ONCE, len(self.order))
        if high < len(self.order):
            limit = start[self.order[high]]
            high = int(np.searchsorted(start[self.order[low:high]], limit, side="left")) + low
            if high == low:
                high = int(np.searchsorted(start[self.order], limit, side="right"))
        numbers = self.order[low:high]
        numbers = numbers[np.argsort(self.flows.src[numbers], kind="stable")]
        firsts = np.searchsorted(self.flows.src[numbers], np.arange(self.topo.hosts + 1))
        self.sim.load_starts(self.start_table(numbers), firsts.tolist())
        self.loaded = high
        return int(start[self.order[high]]) if high < len(self.order) else NEVER

    # ---- running ----

    def run(self) -> Run:
        self.loop()
        return results.collect(self)

    def loop(self) -> None:
        """Run the core to its end, or to Ctrl-C."""
        previous = None
        if threading.current_thread() is threading.main_thread():
            previous = signal.signal(signal.SIGINT, self.interrupt)
        try:
            with ThreadPoolExecutor(max(1, self.threads - 1)) as pool:
                self.advance_to_end(pool)
        finally:
            if previous is not None:
                signal.signal(signal.SIGINT, previous)

    def interrupt(self, *_: Any) -> None:
        self.stop = True

    def advance_to_end(self, pool: ThreadPoolExecutor) -> None:
        """From horizon to horizon: the next flows to load, the next link change, the end."""
        next_start = 0
        at = 0
        while not self.stop:
            if at >= next_start:
                next_start = self.load_starts()
            horizon = min(next_start, self.changes[0].time_ps if self.changes else NEVER, self.end_ps)
            self.sim.run_until(horizon)
            self.run_to_horizon(pool)
            state = self.sim.state()
            if self.stop or state["done"] == len(self.flows) or horizon == self.end_ps:
                return
            at = horizon
            while self.changes and self.changes[0].time_ps <= at:
                self.change_link(self.changes.pop(0))

    def run_to_horizon(self, pool: ThreadPoolExecutor) -> None:
        windows, more, shown = 64, True, 0.0
        while more and not self.stop:
            began = time.perf_counter()
            others = [pool.submit(self.sim.run, i, windows) for i in range(1, self.threads)]
            more = self.sim.run(0, windows)
            for other in others:
                other.result()
            took = time.perf_counter() - began
            windows = max(16, min(1 << 20, int(windows * min(4.0, CHUNK_S / max(took, 1e-6)))))
            if self.threads > 1:
                self.sim.balance_packets()
            if self.progress and time.perf_counter() - shown > 0.1:
                shown = time.perf_counter()
                self.report()
        if self.progress:
            self.report()
        self.check_errors(self.sim.state())

    def check_errors(self, state: dict[str, Any]) -> None:
        """What the core stopped for."""
        if state["error"] == TOO_MANY_FLOWS:
            raise InvariantError(
                f"more than {ACTIVE_AT_ONCE} flows were unfinished at the same time; the network is overloaded: "
                f"lower the load or the duration"
            )
        if state["error"]:
            what = NO_SUCH[state["error"]]
            known = {
                "queue": f"{self.composition.queues} queues a port",
                "port": "its own ports",
                "virtual output queue": f"{self.composition.voqs} virtual output queues",
                "path": "the paths of a route",
            }[what]
            where = self.topo.names[state["error_node"]]
            raise InvariantError(
                f"{where}, at {format_time(state['time'])}: the scheme {self.scheme.name} "
                f"named {what} {state['error_value']}; a switch has {known}, counted from 0"
            )

    def report(self) -> None:
        state = self.sim.state()
        now = min(state["time"], self.end_ps)
        end = self.duration_ps if now < self.duration_ps else self.end_ps
        assert self.progress is not None
        self.progress(Progress(now, end, state["hops"], state["done"], len(self.flows), time.perf_counter() - self.began))

    def change_link(self, change: Any) -> None:
        link = self.topo.links[change.link]
        if change.ps_per_byte:
            for node, port in ((link["a"], link["port_a"]), (link["b"], link["port_b"])):
                if change.node not in (None, node):
                    continue
                self.spent.setdefault((int(node), int(port)), []).append(self.sim.tx_bytes(int(node), int(port)))
        up = -1 if change.up is None else int(change.up)
        if change.up is not None:
            self.down = self.down - {change.link} if change.up else self.down | {change.link}
            self.offsets, self.next_hops = self.plain_routes(self.topo.routes(self.down))
            self.sim.set_routes(self.offsets, self.next_hops)
        self.sim.change_link(
            change.time_ps,
            int(link["a"]),
            int(link["port_a"]),
            int(link["b"]),
            int(link["port_b"]),
            up,
            int(change.ps_per_byte or 0),
            -1 if change.node is None else change.node,
        )

    def ideal_ps(self) -> np.ndarray:
        flows = self.flows
        return self.topo.ideal_fct_ps(
            np.arange(len(flows)), flows.src, flows.dst, flows.bytes, self.seed, self.host.mtu, self.host.header
        )
