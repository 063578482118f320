"""A trace as flows that wait for one another, with exactly its times, and the operations that they are part of.

Every message is a flow, and so is every computation: one of 0 bytes from the host to itself, which starts its time after the
last of what it waits for and is done at that moment. When something happens is kept as

    time = max(at, arrival of c1, arrival of c2, ...)

with flows c of its own host; `at` is a bound that is known beforehand, so that flows are numbered in about the order of their
starts. A rank enters a collective with a flow of 0 bytes, too, for which its messages wait.
"""

from array import array
from collections import deque
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from penstock_net.errors import SpecError
from penstock_net.inputs import MAX_TIME_PS, inside
from penstock_net.topology.scale_up import Servers
from penstock_net.workload import operations
from penstock_net.workload.algorithms import IN_NETWORK, PXN, WITHIN_SERVERS, in_servers
from penstock_net.workload.connections import ALONE, numbered
from penstock_net.workload.flows import Flows, circle, class_number, csr
from penstock_net.workload.latency import latency_of
from penstock_net.workload.operations import NO_OPERATION, Operation, Operations
from penstock_net.workload.traces.dag import CALC, COLLECTIVE, RECV, SEND, Call, Trace
from penstock_net.workload.traces.expand import Schedule, at_most, expand
from penstock_net.workload.traces.order import take_turns

MAX_FLOWS = 2**23
_WIDEST = 8  # flows that a time may depend on; more go through one of 0 bytes, or else chains of receipts grow with their square
_CLASSES = ("message", "computation")
_MESSAGE, _COMPUTATION = range(2)
_BEGINS, _SENDS = 1, 2  # what an operation waits for, beside the end of another one: `in_order`


class Circle(SpecError):
    """Operations wait for one another in a circle."""


class Time(NamedTuple):
    """When something happens: not before `at`, ps, and when all of these flows have arrived."""

    at: int
    after: frozenset[int] = frozenset()


_NOW = Time(0)


def latest(times: list[Time]) -> Time:
    """The maximum."""
    if len(times) == 1:
        return times[0]
    return Time(max((time.at for time in times), default=0), _NOW.after.union(*(time.after for time in times)))


class ScaleUp(NamedTuple):
    """What a trace does not say of the machines that it runs on.

    servers   by rank, which are in one server; None: a rank is one by itself
    chosen    algorithms by collective: all_reduce, all_to_all, sendrecv (of single messages)
    latency   what starting a message takes, see `workload.latency`
    """

    servers: Servers | None = None
    chosen: Mapping[str, str] = MappingProxyType({})
    latency: Any = None


ALONE_EACH = ScaleUp()


def lower(trace: Trace, hosts: np.ndarray, eager: int = 0, connections: str = "pair", scale_up: ScaleUp = ALONE_EACH) -> Flows:
    """The flows of a trace whose rank r is on host hosts[r], with their operations.

    connections: which messages from a rank to another share a connection, see `workload.connections`; "channel": of one tag.
    A send of at most `eager` bytes is complete when it is handed to the NIC, a longer one when it is acknowledged.
    SpecError with the place in the file: a message without its other half, ranks that wait in a circle, too many flows.
    """
    return _Lowering(trace, hosts, eager, connections, scale_up).flows()


class _Lowering:
    def __init__(
        self, trace: Trace, hosts: np.ndarray, eager: int, connections: str = "pair", scale_up: ScaleUp = ALONE_EACH
    ) -> None:
        self.trace, self.hosts, self.eager, self.connections = trace, hosts, eager, connections
        self.servers, self.chosen = scale_up.servers, scale_up.chosen
        for key, algorithm in self.chosen.items():
            if algorithm in WITHIN_SERVERS:
                in_servers(algorithm, self.servers, key)
        self.latency = latency_of(scale_up.latency, self.servers)
        self.partner = match_messages(trace)
        self.matched = match_calls(trace)
        take_turns(trace, self.partner, [ops for _, ops in self.matched])
        sends = [op for op, kind in enumerate(trace.kind) if kind == SEND and trace.peer[op] != trace.rank[op]]
        self.flow_of = dict(zip(sends, range(len(sends))))  # by send: its first flow
        self.last_of = dict(self.flow_of)  # the one that the receiver waits for
        self.names: list[str] = list(_CLASSES)
        self.src, self.dst, self.bytes, self.class_id = array("i"), array("i"), array("q"), array("b")
        self.start, self.gap = array("q"), array("q")
        self.origin = array("i")  # the operation of the trace that a flow is of
        self.operation = array("i")  # what reports call it: a place in `listed`
        self.listed: list[Operation] = []
        self.same: dict[Operation, Operation] = {}
        self.child, self.parent = array("i"), array("i")
        relays = self._relays(sends)
        for op in sends:
            size = trace.amount[op]
            if not size:
                trace.note("messages of 0 bytes, which are sent as 1 byte")
            listed = self._listed(op, operations.SEND, "", 2, size or 1)
            self._flow(trace.rank[op], relays.get(op, trace.peer[op]), size or 1, _MESSAGE, op, listed)
        for op, relay in relays.items():
            first = self.flow_of[op]
            self.last_of[op] = self._flow(relay, trace.peer[op], self.bytes[first], _MESSAGE, op, self.operation[first])
            self._hang(self.last_of[op], Time(0, frozenset([first])))
        self.calls = self._expand_calls()
        self.begins: dict[int, int] = {}  # by rank: a flow that is done at 0
        self.joined: dict[tuple[int, Time], int] = {}

    def flows(self) -> Flows:
        trace = self.trace
        begin: list[Time] = [_NOW] * len(trace)
        complete: list[Time] = [_NOW] * len(trace)
        for op, parents in in_order(trace, self.partner):
            times, sent = [], _NOW
            for p, how in parents:
                kept = begin if how == _BEGINS else complete
                kept[p] = self._narrow(kept[p], p)
                if how == _SENDS:
                    sent = kept[p]
                else:
                    times.append(kept[p])
            if op in trace.earliest:
                times.append(Time(trace.earliest[op]))
            begin[op] = self._narrow(latest(times), op) if times else _NOW
            complete[op] = latest([self._run(op, begin[op]), sent])
        return self._collect()

    def _run(self, op: int, begin: Time) -> Time:
        """When an operation that begins then is complete; gives its flows what they wait for."""
        trace, kind = self.trace, self.trace.kind[op]
        if kind == CALC:
            return self._compute(op, begin)
        if kind == COLLECTIVE:
            return self._collective(op, begin)
        if trace.peer[op] == trace.rank[op]:  # within the host, at once
            return begin
        if kind == RECV:
            return latest([begin, Time(0, frozenset([self.last_of[self.partner[op]]]))])
        flow = self.flow_of[op]
        self._hang(flow, begin)
        return begin if trace.amount[op] <= self.eager else Time(begin.at, frozenset([flow]))

    def _compute(self, op: int, begin: Time) -> Time:
        time = self.trace.amount[op]
        if not time:
            return begin
        rank, end = self.trace.rank[op], begin.at + time
        if end > MAX_TIME_PS:
            rule = f"computations of more than {MAX_TIME_PS // 10**12} s in a row"
            raise SpecError(rule, remedy="is the unit right?", place=self.trace.where(op))
        after = begin.after or frozenset([self._begin(rank, op)])
        flow = self._flow(rank, rank, 0, _COMPUTATION, op, self._listed(op, operations.COMPUTE, "", 1, 0))
        self.gap[flow] = time
        self._hang(flow, Time(end, after))
        return Time(end, frozenset([flow]))

    def _begin(self, rank: int, op: int) -> int:
        """A flow that is done when the trace begins: a computation takes its time after another flow."""
        if rank not in self.begins:
            self.begins[rank] = self._flow(rank, rank, 0, _COMPUTATION, op)
        return self.begins[rank]

    def _collective(self, op: int, begin: Time) -> Time:
        first, schedule, member, number = self.calls[op]
        if number == NO_OPERATION:
            return begin
        rank, out, inward = self.trace.rank[op], schedule.sent_by(member), schedule.received_by(member)
        entered = self._flow(rank, rank, 0, _COMPUTATION, op, number)
        self._hang(entered, begin)
        for flow in (out + first).tolist():
            self._hang(flow, Time(begin.at, frozenset([entered])))
        ends = inward if len(inward) else out
        return Time(begin.at, frozenset([entered, *(ends + first).tolist()]))

    def _expand_calls(self) -> dict[int, tuple[int, Schedule, int, int]]:
        """For each operation that calls a collective: its first flow, the flows, which member the rank is, and its number in
        `listed`; NO_OPERATION: nothing is sent."""
        found = {}
        for call, ops in self.matched:
            where = self.trace.where(ops[0])
            first, count = len(self.src), at_most(call.kind, len(call.group))
            if first + count > MAX_FLOWS:
                rule = f"more than {MAX_FLOWS} flows, {count} of them of an {call.kind} of {len(call.group)} ranks"
                raise SpecError(rule, remedy="convert a part of the trace", place=where)
            group = np.array(call.group)
            algorithm = self.chosen.get(call.kind, "")
            with inside(place=where):
                schedule = expand(call.kind, len(group), call.bytes, call.root, algorithm, self._places(group, algorithm))
            number = NO_OPERATION
            if len(schedule.src):
                size = 0 if call.kind == "barrier" else call.bytes
                number = self._listed(ops[0], call.kind, schedule.algorithm, len(call.group), size)
            label = class_number(call.kind, self.names)
            self._extend(group[schedule.src], group[schedule.dst], schedule.bytes, label, ops[0], number)
            self.child.extend((schedule.child + first).tolist())
            self.parent.extend((schedule.parent + first).tolist())
            for member, op in enumerate(ops):
                found[op] = first, schedule, member, number
        return found

    def _places(self, group: np.ndarray, algorithm: str) -> tuple[tuple[int, int], ...]:
        """Server and place of each member of a group, for an algorithm that needs them; those of like groups are equal."""
        if algorithm not in WITHIN_SERVERS:
            return ()
        servers = in_servers(algorithm, self.servers).of(group)
        return tuple(zip(np.unique(servers.server, return_inverse=True)[1].tolist(), servers.place.tolist()))

    def _relays(self, sends: list[int]) -> dict[int, int]:
        """By send that goes by way of another rank of its server, which rank."""
        if self.chosen.get("sendrecv") != PXN or not sends:
            return {}
        src, dst = (np.array([column[op] for op in sends]) for column in (self.trace.rank, self.trace.peer))
        relay = in_servers(PXN, self.servers).relays(src, dst)
        return {sends[i]: int(relay[i]) for i in np.flatnonzero((relay >= 0) & (relay != src))}

    def _listed(self, op: int, kind: str, algorithm: str, ranks: int, size: int) -> int:
        """The number of a new operation of the reports."""
        what = Operation(kind, self.trace.names.get(op, kind), algorithm, ranks, size, 0, 0)
        self.listed.append(self.same.setdefault(what, what))
        return len(self.listed) - 1

    def _flow(self, rank: int, peer: int, size: int, kind: int, op: int, operation: int = NO_OPERATION) -> int:
        if len(self.src) >= MAX_FLOWS:
            raise SpecError(f"more than {MAX_FLOWS} flows", remedy="convert a part of the trace", place=self.trace.where(op))
        self.src.append(rank)
        self.dst.append(peer)
        self.bytes.append(size)
        self.start.append(0)
        self.gap.append(0)
        self.class_id.append(kind)
        self.origin.append(op)
        self.operation.append(operation)
        return len(self.src) - 1

    def _extend(self, src: np.ndarray, dst: np.ndarray, size: np.ndarray, kind: int, op: int, operation: int) -> None:
        """More flows, which wait for nothing yet."""
        zeros = np.zeros(len(src), dtype=np.int64)
        columns = (self.src, src), (self.dst, dst), (self.bytes, size), (self.start, zeros), (self.gap, zeros)
        numbers = (self.class_id, zeros + kind), (self.origin, zeros + op), (self.operation, zeros + operation)
        for column, values in (*columns, *numbers):
            column.frombytes(values.astype(column.typecode).tobytes())

    def _hang(self, flow: int, time: Time) -> None:
        """Let a flow start at this time."""
        self.start[flow] = time.at
        self.child.extend([flow] * len(time.after))
        self.parent.extend(sorted(time.after))

    def _narrow(self, time: Time, op: int) -> Time:
        """The same time; if it depends on many flows, as the arrival of one that waits for them."""
        if len(time.after) <= _WIDEST:
            return time
        rank = self.trace.rank[op]
        if (rank, time) not in self.joined:
            flow = self._flow(rank, rank, 0, _COMPUTATION, op)
            self._hang(flow, time)
            self.joined[rank, time] = flow
        return Time(time.at, frozenset([self.joined[rank, time]]))

    def _collect(self) -> Flows:
        child, parent = np.array(self.child, dtype=np.int64), np.array(self.parent, dtype=np.int64)
        n = len(self.src)
        if found := circle(child, parent, n):
            place = self.trace.where(self.origin[found[0]])
            raise Circle("waits for itself, by way of other ranks", remedy="the trace would never end", place=place)
        src, dst = np.array(self.src, dtype=np.int64), np.array(self.dst, dtype=np.int64)
        if np.array_equal(src, dst):
            left_out = ", ".join(f"{sentence} ({count})" for sentence, count in self.trace.notes.items())
            rule = f"nothing is sent{'; not in the flows: ' if left_out else ''}{left_out}"
            raise SpecError(rule, remedy="is it the right file?", place=self.trace.file)
        used, class_id = np.unique(np.array(self.class_id), return_inverse=True)
        late = self._latencies(src, dst)
        waits = np.zeros(n, dtype=bool)
        waits[child] = True
        return Flows(
            np.array(self.start) + late,
            self.hosts[src],
            self.hosts[dst],
            np.array(self.bytes),
            class_id,
            np.zeros(n, np.int8),
            tuple(self.names[i] for i in used),
            csr(child, parent, n),
            [{"kind": "trace", "file": self.trace.file, "ranks": self.trace.ranks, "flows": n}],
            np.array(self.gap) + np.where(waits, late, 0),
            Operations(np.array(self.operation), tuple(self.listed), (np.array(self.hosts, dtype=np.int32),)),
            numbered(self.connections, self._channels((src == dst) | self._in_switches())),
        )

    def _latencies(self, src: np.ndarray, dst: np.ndarray) -> np.ndarray:
        """What starting each message takes, ps; of a computation nothing."""
        late = np.zeros(len(src), dtype=np.int64)
        number = np.array(self.operation, dtype=np.int64)
        names, which = np.unique([operation.algorithm for operation in self.listed], return_inverse=True)
        for i, name in enumerate(names.tolist()):
            chosen = np.flatnonzero((src != dst) & (which[number] == i) & (number != NO_OPERATION))
            late[chosen] = self.latency.of(name, src[chosen], dst[chosen], self.servers)
        return late

    def _in_switches(self) -> np.ndarray:
        """Which flows belong to collectives that switches reduce."""
        number = np.array(self.operation, dtype=np.int64)
        return np.isin(number, [i for i, operation in enumerate(self.listed) if operation.algorithm == IN_NETWORK])

    def _channels(self, alone: np.ndarray) -> np.ndarray:
        """The channel of each flow: one for all of collectives, one for each tag of messages; none of those that are `alone`."""
        origin = np.array(self.origin, dtype=np.int64)
        tags = np.where(np.array(self.trace.kind)[origin] == SEND, np.array(self.trace.tag)[origin], -1)
        return np.where(alone, ALONE, np.unique(tags, return_inverse=True)[1])


def in_order(trace: Trace, partner: dict[int, int]) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """(operation, its (parent, how) pairs), parents first: it waits for their end or _BEGINS, or receives what they sent, _SENDS,
    within its rank.

    Circle: operations of a rank wait in one.
    """
    own = [(op, sent) for op, sent in partner.items() if trace.kind[op] == RECV and trace.peer[op] == trace.rank[op]]
    received, sent = np.array(own, dtype=np.int64).reshape(-1, 2).T
    child, parent = (
        np.concatenate([np.array(a), b]).astype(np.int64) for a, b in ((trace.child, received), (trace.parent, sent))
    )
    how = np.concatenate([np.array(trace.on_start), np.full(len(own), _SENDS)]).astype(np.int64)
    begins, edges = csr(child, np.arange(len(child)), len(trace))
    later_begins, later = csr(parent, child, len(trace))
    missing = np.diff(begins).tolist()
    ready = deque(op for op, count in enumerate(missing) if not count)
    done = 0
    while ready:
        op = ready.popleft()
        edge = edges[begins[op] : begins[op + 1]]
        yield op, list(zip(parent[edge].tolist(), how[edge].tolist()))
        done += 1
        for other in later[later_begins[op] : later_begins[op + 1]].tolist():
            missing[other] -= 1
            if not missing[other]:
                ready.append(other)
    if done < len(trace):
        stuck = next(op for op, count in enumerate(missing) if count)
        raise Circle("waits for itself", remedy="remove the circle", place=trace.where(stuck))


def match_messages(trace: Trace) -> dict[int, int]:
    """The send of each receive and the other way round: the n-th of a sender, a receiver and a tag belong together.

    SpecError: one that has none, or a receive of fewer bytes than are sent.
    """
    lanes: dict[tuple[int, int, int], tuple[list[int], list[int]]] = {}
    for op, kind in enumerate(trace.kind):
        if kind in (SEND, RECV):
            ends = (trace.rank[op], trace.peer[op]) if kind == SEND else (trace.peer[op], trace.rank[op])
            lanes.setdefault((*ends, trace.tag[op]), ([], []))[kind].append(op)
    partner = {}
    for (src, dst, tag), (sends, recvs) in lanes.items():
        if len(sends) != len(recvs):
            left, what, verb = (sends, "send", "received") if len(sends) > len(recvs) else (recvs, "receive", "sent")
            place = trace.where(left[min(len(sends), len(recvs))])
            raise SpecError(f"the {what} of rank {src} to rank {dst}, tag {tag}, which is never {verb}", place=place)
        for sent, received in zip(sends, recvs):
            if trace.amount[received] < trace.amount[sent]:
                rule = f"receives {trace.amount[received]} bytes of the {trace.amount[sent]} that {trace.where(sent)} sends"
                raise SpecError(rule, place=trace.where(received))
            if trace.amount[received] > trace.amount[sent]:
                trace.note("receives of more bytes than are sent, which end with what is sent")
            partner[sent], partner[received] = received, sent
    return partner


def match_calls(trace: Trace) -> list[tuple[Call, list[int]]]:
    """Each collective with the operations that call it, in the order of its group.

    SpecError: ranks of a group that call different ones, or not equally many.
    """
    groups: dict[tuple[int, str], tuple[set[int], dict[int, list[int]]]] = {}  # by the tuple's identity: many share a long one
    order: dict[tuple[tuple[int, ...], str], dict[int, list[int]]] = {}
    for op, call in trace.calls.items():
        rank = trace.rank[op]
        key = id(call.group), call.name
        if key not in groups:
            groups[key] = set(call.group), order.setdefault((call.group, call.name), {})
        members, by_rank = groups[key]
        if rank not in members:
            raise SpecError(f"rank {rank} is not in the group {list(call.group[:16])}", place=trace.where(op))
        by_rank.setdefault(rank, []).append(op)
    found = []
    for (group, _), by_rank in order.items():
        longest = max(by_rank.values(), key=len)
        for rank in group:
            if len(by_rank.get(rank, [])) < len(longest):
                n = len(by_rank.get(rank, []))
                rule = f"rank {rank} does not call this {trace.calls[longest[n]].kind}, the {n + 1}. of its group"
                raise SpecError(rule, place=trace.where(longest[n]))
        for ops in zip(*(by_rank[rank] for rank in group)):
            call = trace.calls[ops[0]]
            for op in ops[1:]:
                other = trace.calls[op]
                if (other.kind, other.bytes, other.root) != (call.kind, call.bytes, call.root):
                    rule = f"rank {trace.rank[op]} calls {other.kind} of {other.bytes} B, where {trace.where(ops[0])} calls "
                    raise SpecError(f"{rule}{call.kind} of {call.bytes} B", place=trace.where(op))
            found.append((call, list(ops)))
    found.sort(key=lambda each: each[1][0])
    return found
