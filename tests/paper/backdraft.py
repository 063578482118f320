"""Backdraft (NSDI 2022), section 4.3: the frames of a virtual switch about a slow receiver, and the reaction of its sender.

Th_curr, Th_goal, Th_over and R_recv are the paper's; sizes are in bytes, times in any unit, rates in bytes per unit of time.
Exact if times and weight are Fractions.  Where the paper leaves a choice open, this file chooses:
* a sample of R_recv is one packet, over the time until the packet behind it is taken; the average is that of the time per byte;
* a packet that has been waited for longer than the average allows counts as a sample of its own until it is taken;
* "starvation is observed" when a queue runs empty while its sender waits, or still sends at the signalled rate, and its flow
  goes on; then Th_goal, and Th_over with it, grow by one batch for the application, up to half of what it may have;
* a frame is sent again within its pause when more has come than can have been on its way;
* a sender that receives no frame doubles its rate in each `recovery` after the pause, evenly.
"""

from dataclasses import dataclass, field
from typing import NamedTuple


class OPF(NamedTuple):
    """1) flow identifier, 2) pause time, 3) new transmission rate."""

    flow: object
    pause: float
    rate: float | None  # None: the receiver has not been waited for


@dataclass
class Queue:
    """A receive queue: one flow of one application."""

    packets: list = field(default_factory=list)  # (flow, size, whether its flow's last)
    R_recv: float | None = None
    waits_since: float = 0  # for its next packet to be taken
    in_service: int | None = None  # size of the packet taken last, while others wait
    paused_until: float | None = None
    Th_then: int = 0  # its length when it was said

    @property
    def Th_curr(self):
        return sum(size for _, size, _ in self.packets)


@dataclass
class Application:
    """Its receive queues at the virtual switch, and what section 4.3 decides about them."""

    Th_goal: int
    Th_over: int
    weight: float
    longest: float
    in_flight: float | None = None  # beyond this a frame is taken for lost; None: never
    patience: float | None = None  # a round trip and `recovery`: an empty queue is starved for so long; None: never
    most: int | None = None
    batch: int = 0
    queues: dict = field(default_factory=dict)

    def __post_init__(self):
        self.batch = self.batch or self.Th_goal

    def on_enqueue(self, now, i, flow, size, last=False):
        """-> the OPF that is sent, or None."""
        q = self.queues.setdefault(i, Queue())
        if not q.packets:
            q.waits_since, q.in_service = now, None
        q.packets.append((flow, size, last))
        if q.Th_curr <= self.Th_over:
            return None
        over = q.paused_until is None or now >= q.paused_until
        if not over and (self.in_flight is None or q.Th_curr - q.Th_then <= self.in_flight):
            return None
        time_per_byte = self.time_per_byte(now, q, size)
        pause = min(max(q.Th_curr - self.Th_goal, 0) * time_per_byte, self.longest)
        q.paused_until, q.Th_then = now + int(pause), q.Th_curr
        return OPF(flow, pause, 1 / time_per_byte if time_per_byte else None)

    def time_per_byte(self, now, q, size):
        waiting = (now - q.waits_since) / max(q.in_service or 0, size)
        if q.R_recv is None:
            return waiting
        average = 1 / q.R_recv
        return average if waiting <= average else (1 - self.weight) * average + self.weight * waiting

    def on_dequeue(self, now, i):
        q = self.queues[i]
        _, size, last = q.packets.pop(0)
        if q.in_service is not None:
            sample = (now - q.waits_since) / q.in_service
            q.R_recv = 1 / (sample if q.R_recv is None else (1 - self.weight) / q.R_recv + self.weight * sample)
        q.waits_since, q.in_service = now, size
        if q.packets:
            return
        if q.paused_until is not None and self.patience is not None and now < q.paused_until + self.patience and not last:
            self.starves()
        q.paused_until = q.in_service = None

    def starves(self):
        if self.most is None or 2 * (self.Th_over + self.batch) <= self.most:
            self.Th_goal += self.batch
            self.Th_over += self.batch


@dataclass
class Sender:
    """One flow at the upstream virtual switch."""

    line: float  # bytes per unit of time
    recovery: float
    paused_until: float = 0
    rate: float | None = None  # as told; None: it is free

    def on_opf(self, now, pause, rate):
        self.paused_until, self.rate = now + int(pause), rate

    def rate_at(self, now):
        """-> its rate, by the time since the end of the pause; the line's once it has reached that."""
        if self.rate is None:
            return self.line
        doublings, rest = divmod(max(now - self.paused_until, 0), self.recovery)
        return min(self.rate * 2 ** int(doublings) * (1 + rest / self.recovery), self.line)
