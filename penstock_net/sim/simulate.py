"""`simulate` runs flows over a topology under a scheme and returns a Run; the compiled core is called in chunks."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl

from penstock_net import scratch
from penstock_net.composition import Scheme, available, parse
from penstock_net.composition.faults import Fault, error_of
from penstock_net.errors import Interrupted, InvariantError, SpecError
from penstock_net.inputs import inside, instance, one_of, time_ps
from penstock_net.progress import shown
from penstock_net.results.columns import PER_FLOW
from penstock_net.results.run import Run
from penstock_net.sim import deadlock, results
from penstock_net.sim.builder import ACTIVE_AT_ONCE, build, compose, ends, route_tables, routes_of
from penstock_net.sim.checkpoint import Checkpoint, Keeper
from penstock_net.sim.config import HostConfig, InNetwork, Measure
from penstock_net.sim.layouts import DROPS, NO_ROUTE, NO_SUCH, SCHEME_FAULT, TOO_MANY_FLOWS
from penstock_net.sim.logs import Logs
from penstock_net.sim.lookahead import lookahead
from penstock_net.sim.settings import Settings
from penstock_net.sim.starts import NEVER, Starts
from penstock_net.sim.window import Window
from penstock_net.sim.work import Work
from penstock_net.topology import Topology
from penstock_net.topology.changes import Change, LinkChange, LinkStates, SwitchChange
from penstock_net.topology.graph import check_topology
from penstock_net.units import format_time
from penstock_net.workload.flows import Flows

INCAST = "incast"  # the class of flows that from_incast() is true of
KEPT_ROUTES = 4  # sets of links that were down
CHUNK_S = 0.08  # wall time between two checks of the clock, the progress bar and Ctrl-C


@dataclass(frozen=True)
class Progress:
    """Progress of a run: simulated time and its latest end (ps), packet-hops, flows without computations, wall time (s).

    share   0 to 1, of the work until the flows' arrival ends: of the payload that flows send, see sim/work.py
    wall_s  with that before a checkpoint that the run has gone on from
    """

    time_ps: int
    end_ps: int
    packet_hops: int
    flows_done: int
    flows_total: int
    wall_s: float
    share: float


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
    in_network: InNetwork | None = None,
    paths: str | Path | pl.DataFrame | None = None,
    link_clock: Literal["ps", "ns"] = "ps",
    progress: Callable[[Progress], None] | bool | None = None,
    checkpoint: Checkpoint | str | Path | None = None,
    on_interrupt: Literal["raise", "return"] = "raise",
) -> Run:
    """Run `flows` over `topo` under `scheme`.

    seed          seed of ECMP, marking and loss; the flows have their own
    threads       results do not depend on it
    duration      how long flows arrive ("5ms" or seconds; duration_ps: in ps); default: until the last start.  The
                  measurement window "arrivals" ends then; without it when the flows' generators end, if these have a duration
    drain         run on until every flow has finished, at most until max_time_ps (default: one second more)
    control_loss  probability that a control frame (a pause) is lost on a link, in addition to the link's own loss
    in_network    what switches do for collectives with the algorithm "in_network"
    paths         a CSV file, or a frame with its columns, of the paths of flows or of packets (docs/formats.md); without it
                  ECMP chooses them, or the scheme
    link_clock    "ns": times on the line, and gaps of paced flows, are cut to whole nanoseconds, as simulators on ns-3 do; to
                  compare with these only, since links are then faster than their rate. The run warns of it
    progress      True: a bar on the terminal or in the notebook, until the last flow has started; or a function that is called
                  about ten times a second with a Progress
    checkpoint    a file to which the state of the run is written at intervals, and when Ctrl-C ends it; with that file the same
                  call goes on, to the same bits as if nothing had happened, also with other threads.  It stays when the run
                  has ended: remove it once the results are saved
    on_interrupt  what Ctrl-C does, which ends the run early: "raise" an Interrupted (a KeyboardInterrupt), whose `run` holds the
                  results so far, or "return" that Run.  Its `interruption` says how far it came

    Raises SpecError for bad input, SchemeError when a user's scheme failed, and InvariantError when an invariant of the simulator
    was violated.
    """
    if not isinstance(scheme, (str, Scheme)):
        name = getattr(scheme, "__name__", "")
        remedy = f"write ps.{available()[name].title}()" if name in available() else "ps.scheme(NAME) makes one"
        raise SpecError("must be a scheme or the name of one", path="scheme", value=scheme, remedy=remedy)
    with inside("scheme"):
        parsed = parse(scheme)
    one_of(on_interrupt, "on_interrupt", ("raise", "return"))
    check_topology(topo)
    instance(flows, Flows, "flows", 'such as ps.flow_list(topo, [(0, 1, "1MB", "0s")])')
    if isinstance(checkpoint, str | Path):
        checkpoint = Checkpoint(checkpoint)
    for name, value, kind in (
        ("measure", measure, Measure),
        ("host", host, HostConfig),
        ("in_network", in_network, InNetwork),
        ("checkpoint", checkpoint, Checkpoint),
    ):
        if value is not None:
            instance(value, kind, name, f"such as ps.{kind.__name__}(...)")
    if duration is not None:
        duration_ps = time_ps(duration, "duration", positive=True)
    last_ps = int(flows.start_ps[-1]) + 1 if len(flows) else 1
    settings = Settings(
        topo,
        flows,
        parsed,
        seed=seed,
        threads=threads,
        duration_ps=last_ps if duration_ps is None else duration_ps,
        drain=drain,
        max_time_ps=max_time_ps,
        measure=measure or Measure(),
        host=host or HostConfig(),
        control_loss=control_loss,
        in_network=in_network or InNetwork(),
        paths=paths,
        link_clock=link_clock,
        arrivals_ps=_end_of_arrivals(flows) if duration_ps is None else duration_ps,
    )
    with shown(progress, parsed.label, settings.duration_ps) as told:
        runner = Runner(settings, told, checkpoint)
        run = runner.run()
    if runner.stop and on_interrupt == "raise":
        raise Interrupted(run)
    return run


def _end_of_arrivals(flows: Flows) -> int | None:
    """When the last generator of flows stops, ps; None if one of them has no duration, such as a list of flows."""
    if not flows.nominal or not all("duration_ps" in source for source in flows.nominal):
        return None
    return max(source.get("start_ps", 0) + source["duration_ps"] for source in flows.nominal)


class Runner:
    """One run of the core: from horizon to horizon, in chunks of wall time."""

    def __init__(
        self, settings: Settings, progress: Callable[[Progress], None] | None = None, checkpoint: Checkpoint | None = None
    ) -> None:
        self.settings, self.progress, self.stop = settings, progress, False
        flows, topo = settings.flows, settings.topo
        self.keeper = Keeper(checkpoint, settings) if checkpoint else None
        self.composition = compose(settings)
        self.began = time.perf_counter()  # a scheme of the user's has been compiled
        parts = self.keeper.flow_parts if self.keeper else 0
        self.sim = build(settings, self.composition, lookahead(topo, settings.threads, flows), parts)
        self.check_errors(self.sim.state())
        self.per_flow = {c.stem: scratch.filled(len(flows), c.per_flow or 0) for c in PER_FLOW}
        self.sim.set_results(len(flows), self.per_flow)
        if settings.measure.queueing:
            self.sim.count_queueing(flows.class_id, len(flows.classes))
        if self.composition.incast and INCAST in flows.classes:
            self.sim.label_flows(flows.class_id, flows.classes.index(INCAST))
        self.logs = Logs(self.sim, settings.measure.sample_ps)
        self.starts = Starts(self.sim, flows, topo.hosts, settings.seed, self.composition.by_message)
        self.starts.reduce(settings.reductions, settings.in_network)
        self.starts.guide(settings)
        if self.composition.round_trips:
            self.sim.set_round_trips(self.round_trips())
        self.computations = np.flatnonzero(flows.computes)
        self.work = Work(flows, settings.duration_ps, float(topo.links["ps_per_byte"].min())) if progress else None
        self.window = Window(*settings.window_ps, int(flows.start_ps[0]) if len(flows) else 0)
        self.changes = [c for c in topo.changes if c.time_ps < settings.end_ps]
        self.links = LinkStates(topo.links)
        self.routes: dict[frozenset[int], dict[str, Any]] = {}
        self.sent_at_changes: dict[tuple[int, int], list[int]] = {}
        self.unrouted: list[int] = []  # packets that had no route so far, at each change of the links that are down
        self.look_ps = deadlock.first_look_ps(settings.end_ps)
        self.stopped: deadlock.Stopped = []
        self.now = self.next_start = 0  # the last horizon, ps; the start of the first flow that is not loaded
        if self.keeper:
            self.keeper.restore(self)

    def round_trips(self) -> np.ndarray:
        """Time of a full packet there and of its ACK back, for each flow alone in the network, ps."""
        flows, paths = self.settings.flows, self.starts.paths
        out = scratch.filled(len(flows), 0)
        for part in scratch.parts(*flows.columns, out):
            sent = part.start + np.flatnonzero(flows.src[part] != flows.dst[part])
            numbers = sent if paths is None else paths[sent]
            out[sent] = self.settings.alone_ps(sent, numbers, self.settings.host.mtu)[1]
        return out

    def run(self) -> Run:
        """Run to the end and collect the results."""
        self.loop()
        return results.collect(self.outcome())

    def outcome(self) -> results.Outcome:
        """The present state of the core."""
        found = None
        if self.stopped:
            by_priority = self.composition.priorities > 0
            found = deadlock.find(self.settings.topo, self.stopped, self.sim.stopped_queues(), by_priority)
        return results.Outcome.of(
            self.settings,
            self.composition,
            self.sim,
            self.per_flow,
            self.logs,
            self.starts,
            self.window,
            self.sent_at_changes,
            self.unrouted,
            found,
            self.stop,
            self.began,
        )

    def loop(self) -> None:
        """Run the core to its end, or to Ctrl-C."""
        previous = None
        if threading.current_thread() is threading.main_thread():
            previous = signal.signal(signal.SIGINT, self.interrupt)
        try:
            with ThreadPoolExecutor(max(1, self.settings.threads - 1)) as pool:
                self.advance_to_end(pool)
            if self.keeper and self.stop and not self.sim.state()["finished"]:
                self.keeper.write(self)
        finally:
            if previous is not None:
                signal.signal(signal.SIGINT, previous)

    def interrupt(self, *_: Any) -> None:
        self.stop = True

    def advance_to_end(self, pool: ThreadPoolExecutor) -> None:
        """Run from horizon to horizon: flows to load, changes of the network, bounds of the measurement window, the end.

        A run that lasts until `look_ps` also stops there, to note which queues are paused.
        """
        end = self.settings.end_ps
        while not self.stop:
            if self.now >= self.next_start:
                self.next_start = self.starts.load()
                scratch.release(*self.per_flow.values(), *self.settings.flows.columns)
            change = self.changes[0].time_ps if self.changes else NEVER
            look = self.look_ps if self.now < self.look_ps else end
            horizon = min(self.next_start, change, self.window.next_ps(NEVER), look)
            self.sim.run_until(horizon)
            self.run_to_horizon(pool)
            state = self.sim.state()
            if self.stop or state["over"] or horizon == end:
                return
            self.now = horizon
            self.window.read(self.sim, self.now)
            if self.now == self.look_ps:
                self.stopped = self.sim.stopped_queues()
            while self.changes and self.changes[0].time_ps <= self.now:
                self.change(self.changes.pop(0))

    def run_to_horizon(self, pool: ThreadPoolExecutor) -> None:
        """Run the core to its horizon, in calls that take about CHUNK_S each."""
        windows, more, shown, threads = 1, True, 0.0, self.settings.threads
        while more and not self.stop:
            began = time.perf_counter()
            others = [pool.submit(self.sim.run, i, windows) for i in range(1, threads)]
            more = self.sim.run(0, windows)
            for other in others:
                other.result()
            took = time.perf_counter() - began
            windows = max(1, min(1 << 20, int(windows * min(4.0, CHUNK_S / max(took, 1e-6)))))
            if threads > 1:
                self.sim.balance_packets()
            self.logs.relieve()
            if self.keeper and more and self.keeper.due():
                self.keeper.write(self)
            if self.progress and time.perf_counter() - shown > 0.1:
                shown = time.perf_counter()
                self.report(self.progress)
        if self.progress:
            self.report(self.progress)
        self.check_errors(self.sim.state())

    def check_errors(self, state: dict[str, Any]) -> None:
        """SchemeError or InvariantError if the core has stopped with an error."""
        if state["error"] == TOO_MANY_FLOWS:
            raise InvariantError(
                f"more than {ACTIVE_AT_ONCE} flows were unfinished at the same time; the network is overloaded: "
                f"lower the load or the duration"
            )
        if state["error"] == SCHEME_FAULT:
            raise error_of(Fault(*state["fault"]), self.composition, self.settings.topo.names)
        if state["error"]:
            what = NO_SUCH[state["error"]]
            known = {
                "queue": f"{self.composition.queues} queues a port",
                "port": "its own ports",
                "virtual output queue": f"{self.composition.voqs} virtual output queues",
                "path": "the paths of a route",
                "packet": "the packets that a flow has sent, and those that a queue has",
                "backlogged queue": "queues that are neither empty nor paused",
            }[what]
            where = self.settings.topo.names[state["error_node"]]
            raise InvariantError(
                f"{where}, at {format_time(state['error_time'])}: the scheme {self.settings.scheme.name} "
                f"named {what} {state['error_value']}; a switch has {known}, counted from 0"
            )

    def report(self, progress: Callable[[Progress], None]) -> None:
        """Report progress to the caller."""
        state, settings = self.sim.state(), self.settings
        now = min(state["time"], settings.end_ps)
        end = settings.duration_ps if now < settings.duration_ps else settings.end_ps
        wall = time.perf_counter() - self.began
        computed = int(np.count_nonzero(self.per_flow["finish"][self.computations] >= 0))
        total = len(settings.flows) - len(self.computations)
        share = self.work.share(now) if self.work else 0.0
        progress(Progress(now, end, state["hops"], state["done"] - computed, total, wall, share))

    def change(self, change: Change) -> None:
        """Apply a change of a link or a switch at the present simulated time."""
        before = self.links.down
        self.links.apply(change)
        if self.links.down != before:
            drops = self.sim.port_counters(change.time_ps)["drops"]
            self.unrouted.append(int(drops[:, DROPS.index(NO_ROUTE)].sum()))
            self.route()
            self.sim.move_all_flows(change.time_ps)
        if isinstance(change, LinkChange):
            self.change_link(change)
        else:
            self.change_switch(change)

    def pass_changes(self, number: int) -> None:
        """Re-apply the changes of the network that precede a checkpoint; routes are not part of a checkpoint."""
        for change in self.changes[:number]:
            self.links.apply(change)
        self.changes = self.changes[number:]
        if self.links.down:
            self.route()

    def route(self) -> None:
        """Set the routes without the links that are down, which are kept for links that flap."""
        down = self.links.down
        if down not in self.routes:
            while len(self.routes) >= KEPT_ROUTES:
                del self.routes[next(iter(self.routes))]
            self.routes[down] = route_tables(routes_of(self.settings.topo, self.composition, down))
        self.sim.set_routes(self.routes[down])

    def change_link(self, change: LinkChange) -> None:
        """Take a link down, let it go dark, bring it up (unless a switch at its end has failed), or change its rate."""
        link = self.settings.topo.links[change.link]
        if change.ps_per_byte:
            for node, port in ((link["a"], link["port_a"]), (link["b"], link["port_b"])):
                if change.node in (None, node):
                    end = int(node), int(port)
                    self.sent_at_changes.setdefault(end, []).append(self.sim.tx_bytes(*end))
        if change.llr is not None:
            self.sim.retry(ends(self.settings.topo, [change.link]), int(change.llr))
        state = -1 if change.up is None else self.links.state(change.link)
        self.set_link(change.time_ps, change.link, state, change.ps_per_byte or 0.0, -1 if change.node is None else change.node)

    def change_switch(self, change: SwitchChange) -> None:
        """Fail a switch: its links go down and its packets are lost.  Or bring it back, with all links that can be up."""
        for link in self.links.of_switch(change.switch):
            self.set_link(change.time_ps, link, self.links.state(link))
        if not change.up:
            self.sim.fail_switch(change.switch)

    def set_link(self, time_ps: int, number: int, state: int, ps_per_byte: float = 0.0, only: int = -1) -> None:
        """Set a link's state and rate in the core; see Simulation.change_link."""
        a, b, port_a, port_b = (int(self.settings.topo.links[number][column]) for column in ("a", "b", "port_a", "port_b"))
        self.sim.change_link(time_ps, a, port_a, b, port_b, state, ps_per_byte, only)
