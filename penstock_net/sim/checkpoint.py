"""Checkpoints: the state of a run, saved so that another process can continue it, with any number of threads.

A run goes on from a simulation that is built anew from the same inputs.  So a checkpoint holds what a build does not make: of the
core's structs the fields that KEPT and REBUILT do not name are copied, and sim/core/checkpoint.py walks those in KEPT.  A pointer
that is in neither cannot be copied, and no checkpoint is made then.  What schemes add to the structs is copied as a whole,
with their tables.
"""

from __future__ import annotations

import dataclasses
import hashlib
import time
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock_net import scratch
from penstock_net.errors import InvariantError, SpecError
from penstock_net.identity import code, made_by_another
from penstock_net.inputs import time_ps
from penstock_net.pxd import FORMATS, Field
from penstock_net.sim import checkpoint_file
from penstock_net.sim.layouts import STATE, log_type
from penstock_net.sim.logs import NAMES as LOGS
from penstock_net.sim.window import Reading
from penstock_net.units import PS_PER_S

if TYPE_CHECKING:
    from penstock_net.composition import Composition
    from penstock_net.sim.settings import Settings

# Fields of structs that sim/core/checkpoint.py walks, and those that a build makes, by struct.
KEPT: dict[str, set[str]] = {
    "Packet": {"next"},
    "Ranking": {"arrivals"},
    "Queue": {"head", "tail", "next"},
    "Ring": {"head", "tail"},
    "Outbox": {"head", "tail"},
    "FlowRing": {"head", "tail"},
    "Heap": {"items", "size"},
    "Sink": {"incoming"},
    "Incoming": {"before", "after"},
    "Flow": {"next", "previous_active", "next_active", "nic"},
    "Port": {"control_head", "control_tail", "in_head", "in_tail", "queues", "rings", "queueing_delay", "flow_samples", "llr"},
    "Llr": {"head", "tail", "again"},
    "Host": {
        *("rings", "paced", "ranked", "timers", "active", "sinks", "finished", "parked", "queue_flows", "free_queue"),
        *("rings_of_bits", "free_ring", "ranking", "held", "leaving_head", "leaving_tail"),
    },
    "Node": {"tree", "ports", "voqs", "host"},
    "Worker": {
        *("window_start", "windows", "done", "reactions", "flows", "flows_used", "outboxes", "nodes"),
        *("afloat", "lost", "settled"),
        *("switch_rows", "port_rows", "queue_rows", "flow_rows", "pause_rows", "trace_rows", "count_rows"),
        *("record_rows", "print_rows", "printed"),
    },
    "World": {
        "nodes",
        "workers",
        "waiting",
        "pending",
        "results",
        "rankings",
        "connections",
        "messages",
        "seats",
        "parts",
        "turns",
        "unsent",
        "missing",
    },
}
REBUILT: dict[str, set[str]] = {
    # Ranked packets are ranked again, by the rank and the arrival of each.
    "Ranked": {"before", "earlier", "later", "backlog"},
    "Ranking": {"best", "worst", "buckets", "bits", "backlogs", "last", "spare"},
    "Heap": {"capacity"},
    "Incoming": {"next"},  # free ones
    "Flow": {"slot"},
    "Port": {
        *("near", "nic", "slot", "queue_size", "queue_count", "peer_node", "peer_slot", "peer_port", "peer_word", "peer_queues"),
        *("delay", "head_bytes", "label"),
    },
    "Host": {"nic_queues", "by_rank", "port", "slot"},
    "Node": {
        *("ops", "worker", "next_hops", "routes", "place", "port_count", "leaf_count", "is_host", "id", "first_port", "tier"),
        *("below", "span", "share", "beyond", "group"),
        *("hash_seed", "random_seed", "port_size", "voq_size", "voq_count", "buffer_size", "clock", "cut_through", "together"),
    },
    # What a worker has within a window only, what is free, and what the number of threads decides.
    "Worker": {
        *("window_end", "limit", "parity", "id", "sent", "finished", "node_count", "spare", "free", "pool", "free_frames"),
        *("pool_used", "pool_size", "packet_size", "flow_size", "frame_size", "packets", "next_window", "done_by", "world"),
        *("arena", "arrived_ports", "mailed", "mailed_words", "own", "agenda", "free_incoming", "incoming_size", "free_flow"),
        *(
            "free_backlog",
            "flows_end",
            "flow_limit",
            "print_until",
            "error",
            "error_time",
            "error_node",
            "error_value",
            "guard",
            "padding",
        ),
    },
}
WALKED = (
    "Packet",
    "Packet",
    "Port",
    "Queue",
    "Flow",
    "Node",
    "Incoming",
    "Host",
    "Sink",
    "Llr",
)  # as OF_PACKET ... in core/stream.pxd
OWNERS = ("packet", "frame", "port", "queue", "flow", "node", "incoming")  # of the first of them, whose structs schemes extend

# Attributes of the runner of simulate.py: those in a checkpoint, and those that are made anew.
KEPT_OF_RUNNER = {
    "sim",
    "per_flow",
    "logs",
    "starts",
    "window",
    "changes",
    "links",
    "sent_at_changes",
    "unrouted",
    "stopped",
    "now",
}
KEPT_OF_RUNNER |= {"began"}
MADE_OF_RUNNER = {
    "settings",
    "progress",
    "stop",
    "composition",
    "computations",
    "work",
    "look_ps",
    "next_start",
    "keeper",
    "routes",
}
KEPT_OF_STARTS = {"batch", "waiting", "pending", "connections", "messages", "seats", "parts", "turns", "unsent", "missing"}
MADE_OF_STARTS = {"sim", "flows", "hosts", "seed", "loaded", "order", "paths"}
KEPT_OF_WINDOW = {"first", "last", "pending"}
MADE_OF_WINDOW = {"start_ps", "end_ps"}

Spans = list[tuple[int, int]]  # offset and length, bytes


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """Where a run saves its state, and how often.

    path   the file.  A run goes on from it if it is there; it stays when the run has ended
    every  wall time between two checkpoints; one more is written when Ctrl-C ends the run
    note   a text of the caller's, for `note_of`
    """

    path: str | Path
    every: str | int | float = "600s"
    note: str = ""

    def __post_init__(self) -> None:
        time_ps(self.every, "checkpoint.every", positive=True)

    @property
    def every_s(self) -> float:
        """Seconds of wall time between two checkpoints."""
        return time_ps(self.every, "checkpoint.every", positive=True) / PS_PER_S


def note_of(path: Path) -> str | None:
    """The note of a checkpoint; None if there is no usable checkpoint of this version."""
    try:
        saved = checkpoint_file.Reader(path)
    except SpecError:
        return None
    about = saved.json("about.json")
    saved.close()
    return str(about["note"])


# -- layouts of structs ------------------------------------------------------------------------------------------------


@cache
def dtype_of(struct: str) -> np.dtype:
    """The numpy type of any struct of fabric/state.pxd, as the C compiler lays it out; pointers are u8."""
    return np.dtype([(field.name, *_format(field)) for field in STATE.structs[struct]], align=True)


def _format(field: Field) -> tuple[Any, ...]:
    if field.pointer or not field.type:
        kind: Any = "u8"
    elif field.type in STATE.structs:
        kind = dtype_of(field.type)
    else:
        kind = FORMATS[field.type]
    return (kind, (field.length,)) if field.length else (kind,)


def copied(struct: str) -> Spans:
    """Byte ranges of the fields that are copied unchanged.  InvariantError: one of them is or contains a pointer."""
    by_hand = KEPT.get(struct, set()) | REBUILT.get(struct, set())
    spans: Spans = []
    for field in STATE.structs[struct]:
        if field.name in by_hand:
            continue
        if field.pointer or field.type in STATE.structs or not field.type:
            raise InvariantError(f"{struct}.{field.name}: no checkpoint knows what it points to")
        kind, at = dtype_of(struct).fields[field.name][:2]  # type: ignore[index]
        spans.append((at, kind.itemsize))
    return joined(spans)


def joined(spans: Spans) -> Spans:
    """Merge adjacent spans."""
    out: Spans = []
    for at, size in sorted(spans):
        if out and sum(out[-1]) == at:
            out[-1] = (out[-1][0], out[-1][1] + size)
        elif size:
            out.append((at, size))
    return out


def without(spans: Spans, holes: Spans) -> Spans:
    """Spans minus the holes, each of which lies within one span."""
    for hole, length in holes:
        cut = [(at, size) for at, size in spans if at <= hole and hole + length <= at + size]
        spans = [span for span in spans if span not in cut]
        spans += [piece for at, size in cut for piece in ((at, hole - at), (hole + length, at + size - hole - length))]
    return joined(spans)


def layouts(composition: Composition) -> list[tuple[np.ndarray, np.ndarray]]:
    """(copied fields, tables) of each struct in WALKED with what schemes add to it; arrays of pairs, int64."""
    from penstock_net.sim.core.checkpoint import struct_bytes

    out = []
    for number, struct in enumerate(WALKED):
        end = dtype_of(struct).itemsize
        if end != struct_bytes(struct):
            raise InvariantError(f"{struct} has {struct_bytes(struct)} bytes, not {end}: no checkpoint can be made")
        spans, tables = copied(struct), []
        if number < len(OWNERS):
            owner = OWNERS[number]
            ranked_at = composition.rank_at if struct == "Packet" else 0
            spans = [*spans, (end, (ranked_at or composition.sizes[owner]) - end)]
            if ranked_at:
                spans += [(ranked_at + at, size) for at, size in copied("Ranked")]
            if ranked_at and composition.answer_at and struct == "Packet":
                spans.append((composition.answer_at, dtype_of("Answer").itemsize))
            for part in composition.parts:
                tables += [(part.places[owner] + field.at, field.size) for field in part.declared.tables(owner)]
        out.append(pairs(joined(spans), tables))
    return out


def pairs(spans: Spans, tables: Spans) -> tuple[np.ndarray, np.ndarray]:
    """The same as arrays for the core; pointers and lengths of tables are not copied."""
    spans = without(spans, [(at, 16) for at, _ in tables])
    return tuple(np.array(found, dtype=np.int64).reshape(-1, 2) for found in (spans, tables))  # type: ignore[return-value]


# -- which run it is ---------------------------------------------------------------------------------------------------


def digest(value: Any) -> str:
    """A hash of a value made of dataclasses, containers, arrays, numbers and texts."""
    found = hashlib.sha256()
    _feed(found, value)
    return found.hexdigest()[:16]


def _feed(found: Any, value: Any) -> None:
    if isinstance(value, np.ndarray):
        found.update(f"{value.dtype.str} {value.shape} ".encode())
        found.update(np.ascontiguousarray(value))
    elif dataclasses.is_dataclass(value):
        _feed(found, [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)])
    elif isinstance(value, dict):
        _feed(found, sorted(value.items(), key=repr))
    elif isinstance(value, list | tuple):
        found.update(b"%d:" % len(value))
        for item in value:
            _feed(found, item)
    else:
        found.update(f"{value!r};".encode())


def identity(settings: Settings) -> dict[str, Any]:
    """Digests of everything that the results depend on, by what it is."""
    scheme = settings.scheme
    end = settings.duration_ps, settings.drain, settings.max_time_ps, settings.arrivals_ps
    return {
        "code": code(frozenset(scheme.parts)),
        "topology": settings.topo.key(),
        "flows": digest(settings.flows),
        "scheme": digest((scheme.name, scheme.key(), scheme.unchecked)),
        "seed": str(settings.seed),
        "duration": repr(end),
        "measure": digest(settings.measure),
        "host": digest(settings.host),
        "control_loss": repr(settings.control_loss),
        "in_network": digest(settings.in_network),
        "paths": digest(settings.paths),
        "link_clock": settings.link_clock,
    }


# -- saving and loading ------------------------------------------------------------------------------------------------


class Keeper:
    """Writes the checkpoints of one run, and restores the run from an existing one.

    SpecError: no file can be written there; what is there is damaged, or the checkpoint of another run or version.
    """

    def __init__(self, checkpoint: Checkpoint, settings: Settings) -> None:
        self.checkpoint, self.path = checkpoint, Path(checkpoint.path)
        self.identity = identity(settings)
        self.written = time.perf_counter()
        self.archive: Any = None
        self.saved: checkpoint_file.Reader | None = None
        checkpoint_file.check_writable(self.path)
        if self.path.exists():
            self.saved = checkpoint_file.Reader(self.path)
            self._check(self.saved.json("about.json"))

    def _check(self, about: dict[str, Any]) -> None:
        differ = [name for name, value in self.identity.items() if about["identity"].get(name) != value]
        if "code" in differ:
            rule = f"cannot go on: {made_by_another(about['identity'].get('code', {}), self.identity['code'])}"
            remedy = f"go on with that version (penstock {about['version']}), or {checkpoint_file.ANEW}"
            raise SpecError(rule, remedy=remedy, place=self.path)
        if differ:
            rule = f"is the checkpoint of another run: {', '.join(differ)} {'differ' if differ[1:] else 'differs'}"
            raise SpecError(rule, remedy=f"give another file, or {checkpoint_file.ANEW}", place=self.path)

    @property
    def flow_parts(self) -> int:
        """Parts of the flow table that the existing checkpoint uses; 0 if there is no checkpoint."""
        return len(self.saved.json("run.json")["totals"]["flows"]) if self.saved else 0

    def due(self) -> bool:
        """Whether a checkpoint is due."""
        return time.perf_counter() - self.written >= self.checkpoint.every_s

    def write(self, runner: Any) -> None:
        """Write a checkpoint, between two calls of the core; warn if that fails."""
        try:
            checkpoint_file.write(self.path, lambda out: self._fill(out, runner))
        except SpecError as error:
            warnings.warn(f"{self.path}: no checkpoint: {error.rule}", RuntimeWarning, stacklevel=2)
        self.written = time.perf_counter()

    def _archive(self, runner: Any) -> Any:
        from penstock_net.sim.core.checkpoint import Archive

        if self.archive is None:
            self.archive = Archive(runner.sim, layouts(runner.composition))
        return self.archive

    def _fill(self, out: checkpoint_file.Writer, runner: Any) -> None:
        from penstock_net.version import version

        core, window, topo = self._archive(runner), runner.window, runner.settings.topo
        out.json("about.json", {"version": version(), "note": self.checkpoint.note, "identity": self.identity})
        out.json(
            "run.json",
            {
                "totals": core.totals(),
                "now": runner.now,
                "batch": runner.starts.batch,
                "changes": len(runner.changes),
                "sent_at_changes": [(*end, sent) for end, sent in runner.sent_at_changes.items()],
                "unrouted": runner.unrouted,
                "stopped": runner.stopped,
                "pending": window.pending,
                "wall_s": time.perf_counter() - runner.began,
            },
        )
        for name, values in _arrays(runner).items():
            out.array(f"run/{name}", values)
            scratch.release(values)
        for name in ("first", "last"):
            if reading := getattr(window, name):
                for part, values in _of_reading(reading).items():
                    out.array(f"{name}/{part}", values)
        out.chunks("schemes", (core.save_scheme(i, *pair) for i, pair in enumerate(_own(runner.composition))))
        out.chunks("nodes", (core.save_node(number) for number in range(topo.nodes)))
        out.chunks("rows", (core.save_rows(log) for log in LOGS))
        for log in LOGS:
            if runner.logs.parts[log]:
                out.chunks(f"moved/{log}", (part.tobytes() for part in runner.logs.moved_parts(log)))

    def restore(self, runner: Any) -> None:
        """Restore a new runner to the state of the checkpoint; do nothing if there is none."""
        if not self.saved:
            return
        try:
            self._load(runner, self.saved)
        except (ValueError, KeyError) as error:
            raise SpecError(f"does not fit this run: {error}", remedy=checkpoint_file.ANEW, place=self.path) from error
        self.saved.close()
        self.saved = None

    def _load(self, runner: Any, saved: checkpoint_file.Reader) -> None:
        core, run = self._archive(runner), saved.json("run.json")
        if core.totals()["flow_limit"] != run["totals"]["flow_limit"]:
            raise SpecError("are too many for this checkpoint", path="threads", value=runner.settings.threads, place=self.path)
        runner.now, runner.stopped = run["now"], [_stopped(row) for row in run["stopped"]]
        runner.began = time.perf_counter() - run["wall_s"]
        runner.next_start = runner.starts.reload(run["batch"])
        runner.pass_changes(len(runner.changes) - run["changes"])
        runner.sent_at_changes = {(node, port): sent for node, port, sent in run["sent_at_changes"]}
        runner.unrouted = run["unrouted"]
        runner.window.pending = run["pending"]
        for name in ("first", "last"):
            setattr(runner.window, name, _reading(saved.arrays(name)))
        for name, values in _arrays(runner).items():
            saved.array_into(f"run/{name}", values)
        for (i, pair), chunk in zip(enumerate(_own(runner.composition)), saved.chunks("schemes")):
            core.load_scheme(i, *pair, chunk)
        for number, chunk in enumerate(saved.chunks("nodes")):
            core.load_node(number, chunk)
        for log, rows in zip(LOGS, saved.chunks("rows")):
            core.load_rows(log, rows, log_type(log).itemsize)
            for part in saved.chunks(f"moved/{log}"):
                runner.logs.add(log, np.frombuffer(part, dtype=log_type(log)))
        core.set_totals(run["totals"])


def _own(composition: Composition) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The layout of each scheme's own state."""
    for part in composition.parts:
        own = part.declared.own
        yield pairs([(0, own.size)] if own.size else [], [(field.at, field.size) for field in part.declared.tables("scheme")])


def _arrays(runner: Any) -> dict[str, np.ndarray]:
    """The arrays in Python's memory that the core writes to."""
    found = dict(runner.per_flow)
    if runner.starts.waiting is not None:
        found |= {"waiting": runner.starts.waiting, "pending": runner.starts.pending}
    if runner.starts.connections is not None:
        found |= {"connections": runner.starts.connections, "messages": runner.starts.messages}
    if runner.starts.seats is not None:
        found |= {"seats": runner.starts.seats, "parts": runner.starts.parts}
    if runner.starts.turns is not None:
        found["turns"] = runner.starts.turns
    if runner.starts.unsent is not None:
        found |= {"unsent": runner.starts.unsent, "missing": runner.starts.missing}
    return found


def _of_reading(reading: Reading) -> dict[str, np.ndarray]:
    samples = [(*place, count) for place, count in reading.flow_samples.items()]
    return {
        "time_ps": np.array([reading.time_ps]),
        "ports": reading.ports,
        "nodes": reading.nodes,
        "flow_samples": np.array(samples, dtype=np.int64).reshape(-1, 4),
    }


def _reading(found: dict[str, np.ndarray]) -> Reading | None:
    if not found:
        return None
    samples = {(node, port, flows): count for node, port, flows, count in found["flow_samples"].tolist()}
    return Reading(int(found["time_ps"][0]), found["ports"], found["nodes"], samples)


def _stopped(row: list[Any]) -> tuple[Any, ...]:
    """A row of Simulation.stopped_queues, whose tuples JSON has made lists."""
    node, port, queue, first, since, ingresses = row
    return node, port, queue, tuple(first), since, ingresses
