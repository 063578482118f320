"""A receiver that acknowledges several packets of a flow together, by hand: from what arrives, what it answers and when.

RFC 5681, section 4.2, with any number and any time: an ACK with the n-th packet, or a time after the first of those that wait;
at once for what is out of order, fills a gap, was sent again, or ends the flow.  RFC 8257, section 3.2: when the mark changes,
those that wait are answered with the old mark, and the packet itself at once.  A packet that arrives at the time when others
are due comes first.  An ACK takes `delay` to make; the line sends them in the order in which they are made.

`in_order`: go-back-N, whose receiver discards what is out of order and asks for the first missing byte once per 500 us.
"""

from dataclasses import dataclass
from typing import NamedTuple

NACK_EVERY = 500_000_000


class Arrival(NamedTuple):
    at: int  # ps
    flow: int
    offset: int
    payload: int
    ecn: bool
    again: bool  # sent for the second time or later


@dataclass
class Ack:
    made: int
    flow: int
    seq: int
    ecn: bool
    packets: int  # that it answers
    waited: int  # ps since the last of them came


@dataclass
class Waiting:
    due: int
    last_at: int
    packets: int
    ecn: bool


@dataclass
class Flow:
    size: int
    expected: int = 0
    ecn: bool = False
    nack: tuple = (-1, 0)
    waiting: Waiting | None = None


class Receiver:
    def __init__(self, sizes, every, after, delay, in_order=True):
        self.every, self.after, self.delay, self.in_order = every, after, delay, in_order
        self.flows = [Flow(size) for size in sizes]
        self.early = [set() for _ in sizes]  # offsets of packets beyond the first missing one
        self.acks = []

    def run(self, arrivals):
        for arrival in arrivals:
            self.timers(arrival.at)
            self.arrive(arrival)
        self.timers(2**62)
        self.acks.sort(key=lambda ack: ack.made)  # stable
        return self.acks

    def timers(self, before):
        waiting = [(flow.waiting.due, flow.waiting.last_at, i) for i, flow in enumerate(self.flows) if flow.waiting]
        for due, _, i in sorted(waiting):
            if due < before:
                self.answer(i, due)

    def answer(self, i, now, seq=None):
        flow = self.flows[i]
        w, flow.waiting = flow.waiting, None
        made = now + self.delay
        self.acks.append(Ack(made, i, flow.expected if seq is None else seq, w.ecn, w.packets, made - w.last_at))

    def arrive(self, a):
        flow, end = self.flows[a.flow], a.offset + a.payload
        if flow.expected == flow.size or flow.size <= a.payload:  # nothing is kept of such flows
            flow.expected = flow.size
            self.acks.append(Ack(a.at + self.delay, a.flow, end, a.ecn, 1, self.delay))
            return
        at_once = a.again or end == flow.size
        before = flow.expected
        if a.offset > before and self.in_order:
            if flow.nack[0] == before and a.at - flow.nack[1] < NACK_EVERY:
                return
            flow.nack, at_once = (before, a.at), True
        elif a.offset == before:
            flow.expected = end
            while flow.expected in self.early[a.flow]:
                flow.expected = min(flow.expected + a.payload, flow.size)
        elif a.offset > before:
            self.early[a.flow].add(a.offset)
        at_once |= flow.expected != end
        if a.ecn != flow.ecn:
            flow.ecn, at_once = a.ecn, True
            if flow.waiting:
                self.answer(a.flow, a.at, before)
        due = flow.waiting.due if flow.waiting else a.at + self.after
        flow.waiting = Waiting(due, a.at, flow.waiting.packets + 1 if flow.waiting else 1, a.ecn)
        if at_once or flow.waiting.packets == self.every:
            self.answer(a.flow, a.at)


def on_the_line(acks, wire, delay):
    """When each of them has arrived at the other end of a line that takes `wire` for one, ps."""
    free, out = 0, []
    for ack in acks:
        free = max(free, ack.made) + wire
        out.append(free + delay)
    return out
