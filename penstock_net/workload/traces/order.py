"""Operations of a rank that need the same resource take turns: a processor runs one at a time.

Which of several is first is decided once, by running the trace on a network without contention, in which a message takes
_LATENCY and its bytes at _RATE: an operation begins when what it waits for is complete and its resource is free; the one that
could begin first goes first, at equal times the one that is first in the file. All orders come from one such run of all ranks, so
they cannot contradict each other.
"""

import heapq
from collections.abc import Mapping

from penstock_net.workload.traces.dag import CALC, COLLECTIVE, RECV, SEND, Trace

_LATENCY = 10_000_000  # ps
_PS_PER_BYTE = 80


def take_turns(trace: Trace, partner: Mapping[int, int], calls: list[list[int]]) -> None:
    """Lets each operation with a resource wait for the one that has it before. `partner` is the other half of each message,
    `calls` the operations of each collective. A trace that waits for itself is left as it is."""
    if trace.resource:
        _Run(trace, partner, calls).run()


class _Run:
    def __init__(self, trace: Trace, partner: Mapping[int, int], calls: list[list[int]]) -> None:
        self.trace, self.partner = trace, partner
        self.call_of = {op: ops for ops in calls for op in ops}
        self.missing = [0] * len(trace)
        self.later: list[list[tuple[int, bool]]] = [[] for _ in range(len(trace))]
        for op, parent, on_start in zip(trace.child, trace.parent, trace.on_start):
            self.missing[op] += 1
            self.later[parent].append((op, bool(on_start)))
        self.entered: dict[int, int] = {}  # by first operation of a call: how many ranks have entered
        self.held: dict[int, int] = {}  # by resource: the operation that has it
        self.waiting: dict[int, list[int]] = {}  # by resource: operations that could begin, as a heap
        self.before: dict[int, int] = {}  # by resource: the last operation that had it
        self.arrived: set[int] = set()  # sends whose message is there, and receives that have begun
        self.events: list[tuple[int, int]] = []  # time, operation that is complete

    def run(self) -> None:
        self._ready([op for op, count in enumerate(self.missing) if not count], 0, set())
        while self.events:
            now, ended, free = self.events[0][0], [], set()
            while self.events and self.events[0][0] == now:
                ended.append(heapq.heappop(self.events)[1])
            for op in ended:
                if op in self.trace.resource:
                    del self.held[self.trace.resource[op]]
                    free.add(self.trace.resource[op])
            self._ready(self._freed(ended, False), now, free)

    def _freed(self, ops: list[int], on_start: bool) -> list[int]:
        """What can begin now that these have ended, or begun."""
        ready = []
        for op in ops:
            for other, how in self.later[op]:
                if how == on_start:
                    self.missing[other] -= 1
                    if not self.missing[other]:
                        ready.append(other)
        return ready

    def _ready(self, ops: list[int], now: int, asked: set[int]) -> None:
        """These wait for nothing but their resource any more; the resources `asked` are given to the next."""
        stack = sorted(ops, reverse=True)
        while stack:
            op = stack.pop()
            resource = self.trace.resource.get(op)
            if resource is None:
                stack += self._begin(op, now)
            else:
                heapq.heappush(self.waiting.setdefault(resource, []), op)
                asked.add(resource)
        for resource in sorted(asked):
            self._grant(resource, now)

    def _grant(self, resource: int, now: int) -> None:
        """Gives a free resource to the first that waits for it."""
        if resource in self.held or not self.waiting.get(resource):
            return
        op = heapq.heappop(self.waiting[resource])
        self.held[resource] = op
        if resource in self.before:
            self.trace.wait(op, self.before[resource])
        self.before[resource] = op
        self._ready(self._begin(op, now), now, set())

    def _begin(self, op: int, now: int) -> list[int]:
        """Begins an operation; what can begin because it has begun."""
        trace, kind = self.trace, self.trace.kind[op]
        now = max(now, trace.earliest.get(op, 0))
        if kind == CALC:
            heapq.heappush(self.events, (now + trace.amount[op], op))
        elif kind == COLLECTIVE:
            ops = self.call_of[op]
            self.entered[ops[0]] = self.entered.get(ops[0], 0) + 1
            if self.entered[ops[0]] == len(ops):
                end = now + self._time(trace.amount[op])
                for each in ops:
                    heapq.heappush(self.events, (end, each))
        else:
            other = self.partner[op]
            self.arrived.add(op)
            if kind == SEND:
                heapq.heappush(self.events, (now + self._time(trace.amount[op]), op))
            sent, received = (op, other) if kind == SEND else (other, op)
            if sent in self.arrived and received in self.arrived and trace.kind[received] == RECV:
                heapq.heappush(self.events, (now + self._time(trace.amount[sent]), received))
        return self._freed([op], True)

    @staticmethod
    def _time(size: int) -> int:
        return _LATENCY + size * _PS_PER_BYTE
