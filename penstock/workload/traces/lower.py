"""A trace as flows that wait for one another, with exactly its times.

Every message is a flow. What an operation waits for is kept in the max-plus form

    time = max(at, arrival of c1 + gap1, arrival of c2 + gap2, ...)

with the flows c of its own host. A computation adds its time to `at` and to all gaps, an operation with several parents takes
the maximum of each: exact, whatever the order in which things happen. A flow can have this form if its gaps are all equal,
since `gap_ps` counts from its last parent. Where they differ, the parents with a longer gap go through a computation (a flow
of the host to itself, which takes no bandwidth) that takes the difference. So a chain of computations costs nothing, and two
branches of different length that meet cost one flow.
"""

from array import array
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from penstock.errors import SpecError
from penstock.inputs import MAX_TIME_PS
from penstock.workload.flows import Flows, csr, in_a_circle
from penstock.workload.traces.dag import CALC, COLLECTIVE, RECV, SEND, Call, Trace
from penstock.workload.traces.expand import Schedule, at_most, expand

MAX_FLOWS = 2**22
_WIDEST = 8  # flows that a time may depend on; more go through one computation, or else chains of receipts grow with their square
_CLASSES = ("message", "computation")
_BEGINS, _SENDS = 1, 2  # what an operation waits for, beside the end of another one: `in_order`


class Time(NamedTuple):
    """When something happens: not before `at`, ps, and gaps[f] after flow f has arrived."""

    at: int
    gaps: dict[int, int]

    def later(self, by: int) -> "Time":
        return Time(self.at + by, {flow: gap + by for flow, gap in self.gaps.items()}) if by else self


_NOW = Time(0, {})


def latest(times: list[Time]) -> Time:
    """The maximum."""
    if len(times) == 1:
        return times[0]
    gaps: dict[int, int] = {}
    for time in times:
        for flow, gap in time.gaps.items():
            gaps[flow] = max(gap, gaps.get(flow, 0))
    return Time(max((time.at for time in times), default=0), gaps)


def lower(trace: Trace, hosts: np.ndarray, eager: int = 0) -> Flows:
    """The flows of a trace whose rank r is on host hosts[r].

    A send of at most `eager` bytes is complete when it is handed to the NIC, a longer one when it is acknowledged.
    SpecError with the place in the file: a message without its other half, ranks that wait in a circle, too many flows.
    """
    return _Lowering(trace, hosts, eager).flows()


class _Lowering:
    def __init__(self, trace: Trace, hosts: np.ndarray, eager: int) -> None:
        self.trace, self.hosts, self.eager = trace, hosts, eager
        self.partner = match_messages(trace)
        sends = [op for op, kind in enumerate(trace.kind) if kind == SEND and trace.peer[op] != trace.rank[op]]
        self.flow_of = dict(zip(sends, range(len(sends))))
        self.names = list(_CLASSES)
        self.src, self.dst, self.bytes, self.class_id = array("i"), array("i"), array("q"), array("b")
        self.start, self.gap = array("q"), array("q")
        self.origin = array("i")  # the operation that a flow is of
        self.child, self.parent = array("i"), array("i")
        for op in sends:
            size = trace.amount[op]
            if not size:
                trace.note("messages of 0 bytes, which are sent as 1 byte")
            self._flow(trace.rank[op], trace.peer[op], size or 1, 0, op)
        self.calls = self._expand_calls()
        self.computations: dict[tuple[int, tuple[int, ...], int, int], int] = {}

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
            begin[op] = self._narrow(latest(times), op) if times else _NOW
            complete[op] = latest([self._run(op, begin[op]), sent])
        return self._collect()

    def _run(self, op: int, begin: Time) -> Time:
        """When an operation that begins then is complete; gives its flows what they wait for."""
        trace, kind = self.trace, self.trace.kind[op]
        if kind == CALC:
            return self._bounded(begin.later(trace.amount[op]), op)
        if kind == COLLECTIVE:
            return self._collective(op, begin)
        if trace.peer[op] == trace.rank[op]:  # within the host, at once
            return begin
        flow = self.flow_of[op if kind == SEND else self.partner[op]]
        if kind == RECV:
            return latest([begin, Time(0, {flow: 0})])
        self._hang(flow, begin, op)
        return begin if trace.amount[op] <= self.eager else Time(begin.at, {flow: 0})

    def _collective(self, op: int, begin: Time) -> Time:
        first, schedule, member = self.calls[op]
        out, inward = schedule.sent_by(member), schedule.received_by(member)
        forwards = out[schedule.waits[out]]
        if len(forwards):  # they wait for what they forward, and for this rank to have come here
            begin = self._single(begin, op)
            ready = list(begin.gaps)
            for flow in (forwards + first).tolist():
                self.start[flow] = begin.at
                self._after(flow, ready)
        for flow in (out[~schedule.waits[out]] + first).tolist():
            self._hang(flow, begin, op)
        ends = inward if len(inward) else out
        return latest([begin, Time(0, dict.fromkeys((ends + first).tolist(), 0))])

    def _expand_calls(self) -> dict[int, tuple[int, Schedule, int]]:
        """For each operation that calls a collective: its first flow, the flows, and which member the rank is."""
        found = {}
        for call, ops in match_calls(self.trace):
            where = self.trace.where(ops[0])
            first, count = len(self.src), at_most(call.kind, len(call.group))
            if first + count > MAX_FLOWS:
                rule = f"more than {MAX_FLOWS} flows, {count} of them of an {call.kind} of {len(call.group)} ranks"
                raise SpecError(rule, remedy="convert a part of the trace", place=where)
            schedule = expand(call.kind, len(call.group), call.bytes, call.root)
            if call.kind not in self.names:
                self.names.append(call.kind)
            group = np.array(call.group)
            self._extend(group[schedule.src], group[schedule.dst], schedule.bytes, self.names.index(call.kind), ops[0])
            self.child.extend((schedule.child + first).tolist())
            self.parent.extend((schedule.parent + first).tolist())
            for member, op in enumerate(ops):
                found[op] = first, schedule, member
        return found

    def _flow(self, rank: int, peer: int, size: int, kind: int, op: int) -> int:
        if len(self.src) >= MAX_FLOWS:
            raise SpecError(f"more than {MAX_FLOWS} flows", remedy="convert a part of the trace", place=self.trace.where(op))
        self._extend(np.array([rank]), np.array([peer]), np.array([size]), kind, op)
        return len(self.src) - 1

    def _extend(self, src: np.ndarray, dst: np.ndarray, size: np.ndarray, kind: int, op: int) -> None:
        """More flows, which wait for nothing yet."""
        zeros = np.zeros(len(src), dtype=np.int64)
        columns = (self.src, src), (self.dst, dst), (self.bytes, size), (self.start, zeros), (self.gap, zeros)
        for column, values in (*columns, (self.class_id, zeros + kind), (self.origin, zeros + op)):
            column.frombytes(values.astype(column.typecode).tobytes())

    def _after(self, flow: int, parents: list[int]) -> None:
        self.child.extend([flow] * len(parents))
        self.parent.extend(parents)

    def _hang(self, flow: int, time: Time, op: int) -> None:
        """Let a flow start at this time."""
        self.start[flow] = time.at
        if not time.gaps:
            return
        least = min(time.gaps.values())
        by_gap: dict[int, list[int]] = {}
        for parent, gap in time.gaps.items():
            by_gap.setdefault(gap - least, []).append(parent)
        self.gap[flow] = least
        for longer, parents in sorted(by_gap.items()):
            self._after(flow, [self._computation(parents, longer, 0, op)] if longer else parents)

    def _computation(self, parents: list[int], gap: int, at: int, op: int) -> int:
        """A flow of the host to itself, which has arrived `gap` after the last of the parents."""
        key = (self.trace.rank[op], tuple(sorted(parents)), gap, at)
        if key not in self.computations:
            rank = self.trace.rank[op]
            flow = self._flow(rank, rank, 0, 1, op)
            self.start[flow], self.gap[flow] = at, gap
            self._after(flow, parents)
            self.computations[key] = flow
        return self.computations[key]

    def _single(self, time: Time, op: int) -> Time:
        """The same time as one flow's arrival, if it depends on any and is not that already."""
        if not time.gaps or (len(time.gaps) == 1 and not any(time.gaps.values())):
            return time
        if len(set(time.gaps.values())) == 1:
            return Time(time.at, {self._computation(list(time.gaps), next(iter(time.gaps.values())), 0, op): 0})
        rank = self.trace.rank[op]
        flow = self._flow(rank, rank, 0, 1, op)
        self._hang(flow, time, op)
        return Time(time.at, {flow: 0})

    def _narrow(self, time: Time, op: int) -> Time:
        return self._single(time, op) if len(time.gaps) > _WIDEST else time

    def _bounded(self, time: Time, op: int) -> Time:
        if max(time.at, max(time.gaps.values(), default=0)) > MAX_TIME_PS:
            place = self.trace.where(op)
            raise SpecError(
                f"computations of more than {MAX_TIME_PS // 10**12} s in a row", remedy="is the unit right?", place=place
            )
        return time

    def _collect(self) -> Flows:
        child, parent = np.array(self.child, dtype=np.int64), np.array(self.parent, dtype=np.int64)
        n = len(self.src)
        stuck = in_a_circle(child, parent, n)
        if stuck is not None:
            place = self.trace.where(self.origin[stuck])
            raise SpecError("waits for itself, by way of other ranks", remedy="the trace would never end", place=place)
        if not n:
            raise SpecError("nothing is sent", remedy="is it the right file?", place=self.trace.file)
        used, class_id = np.unique(np.array(self.class_id), return_inverse=True)
        src, dst = (self.hosts[np.array(column)] for column in (self.src, self.dst))
        return Flows(
            np.array(self.start),
            src,
            dst,
            np.array(self.bytes),
            class_id,
            np.zeros(n, np.int8),
            tuple(self.names[i] for i in used),
            csr(child, parent, n),
            [{"kind": "trace", "file": self.trace.file, "ranks": self.trace.ranks, "flows": n}],
            np.array(self.gap),
        )


def in_order(trace: Trace, partner: dict[int, int]) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """(operation, its (parent, how) pairs), parents first: it waits for their end or _BEGINS, or receives what they sent, _SENDS,
    within its rank.

    SpecError: operations of a rank that wait in a circle.
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
        raise SpecError("waits for itself", remedy="remove the circle", place=trace.where(stuck))


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
    groups: dict[int, tuple[set[int], dict[int, list[int]]]] = {}  # by the identity of the tuple: many calls share a long one
    order: dict[tuple[int, ...], dict[int, list[int]]] = {}
    for op, call in trace.calls.items():
        rank = trace.rank[op]
        if id(call.group) not in groups:
            groups[id(call.group)] = set(call.group), order.setdefault(call.group, {})
        members, by_rank = groups[id(call.group)]
        if rank not in members:
            raise SpecError(f"rank {rank} is not in the group {list(call.group[:16])}", place=trace.where(op))
        by_rank.setdefault(rank, []).append(op)
    found = []
    for group, by_rank in order.items():
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
