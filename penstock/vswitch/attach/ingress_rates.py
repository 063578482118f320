"""Into the switch: a rate for each flow that the switch holds back, so that its sender waits in its own socket.

A flow that the switch pauses gets a class of the interface with the receiver's rate; all others go on as they are.  Packets that
wait in a class are charged to their socket, so its sender blocks (or is told EAGAIN) when its send buffer is full, and no queue
on the way can overflow.  The class goes when it has been empty for a while.
"""

import contextlib
import socket
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from penstock.errors import SpecError
from penstock.inputs import whole
from penstock.units import parse_size
from penstock.vswitch.linux.htb import REST, UNLIMITED, FiveTuple, Htb
from penstock.vswitch.linux.netlink import Outgoing
from penstock.vswitch.linux.netns import Place

GROWTH = 1.25  # of a limit that is not needed any longer, per step
HELD_BYTES = 32_768  # of a flow in front of the switch, half of what the worker raises its alarm for: it needs a class
NEAR_BYTES = 16_384  # at which the worker will raise it again: until then the flow is looked at
LEAST_RATE = 64_000  # bytes per second; a frame of 64 KB keeps its class busy for 1 s
STOPPED_S = 0.1  # a receiver that has taken nothing for so long has stopped
FRAME = 1500  # bytes, of one that passes to it in an eighth of the time since then
STOPPED_RATE = FRAME // 60  # bytes per second, at last: HTB makes a class wait for at most a minute
RING_FRAMES = 1000  # not read of the ring, at which all senders wait: it comes in, and a flow may hold some 3500 in the switch
HEADERS = 90  # bytes of a TCP segment that are not its content, at most
DRAIN_S = 1.1
FIRST_RATE = 125_000  # while the switch does not know the receiver's
MEAN_S = 0.1  # over so long, up to twice that, an edge measures what a receiver takes
SPARE_FRAMES = 3000  # a second, that it may be sent beyond that
Rows = Iterable[Mapping[str, Any]]


class Seen(NamedTuple):
    """Bytes and segments that have gone into the ring, and what was read from it, at a time (s)."""

    at: float
    passed: tuple[int, int]
    read: Outgoing


@dataclass
class Held:
    """A flow that has a class of its own."""

    minor: int
    rate: int
    taken: int = -1  # bytes that its receiver has taken, and when that last became more (s)
    taken_at: float = 0.0
    marks: tuple[tuple[float, int], ...] = ()  # (time, bytes taken), the older one first
    quiet: int = 0  # steps in a row in which its sender did not want more than its rate
    leaving: bool = False  # no filter any longer

    def mean_rate(self, now: float, taken: int) -> float:
        """Bytes per second that its receiver has taken on average, also of times when nothing waited; at first without end."""
        if not self.marks or taken < self.marks[-1][1]:  # a flow that has begun anew
            self.marks = ((now, taken),)
        elif now - self.marks[-1][0] > MEAN_S:
            self.marks = (self.marks[-1], (now, taken))
        at, before = self.marks[0]
        return (taken - before) / (now - at) if now > at else float("inf")


class FlowRates:
    """The classes of one interface; `step` with the rows of Switch.flows() of the flows that come in by it.

    `goal` is what should wait in the switch for a flow's receiver: half of th_goal, or the switch's own pauses would keep
    what has already come in from ever draining.  A row may have `behind_bytes`: what waits elsewhere in the switch.
    """

    def __init__(
        self,
        device: str,
        place: Place | None = None,
        *,
        goal: str | int = "16KB",
        over: str | int = "128KB",
        classes: int = 256,
        rest: int = 10,
        queue_frames: int = 100_000,
    ) -> None:
        self.goal, self.over = (parse_size(value, name, positive=True) for name, value in (("goal", goal), ("over", over)))
        if self.goal >= self.over:
            raise SpecError(f"goal = {self.goal} B: must be less than over = {self.over} B, which is th_over")
        self.most, self.rest = whole(classes, "classes", 1, 1024), whole(rest, "rest", 1, 10**6)
        self.htb = Htb(device, place, queue_frames)
        self.held: dict[FiveTuple, Held] = {}
        self.pauses: dict[FiveTuple, int] = {}
        self.rest_rate = UNLIMITED
        self.crowded = 0  # flows that should have a class, but there was none: the switch's own bounds hold them
        self.near = False  # whether a flow may need a class soon
        self.changes = self.opened = 0
        self.dropped = self.dropped_before = 0  # by classes whose senders' sockets hold more than a class may
        self.left = 0  # frames that waited in classes when it ended: lost
        self.behind = 0  # frames in the ring, about; the kernel does not say
        self.last = self.empty = Seen(0.0, (0, 0), Outgoing(0, 0, 0))

    def __enter__(self) -> "FlowRates":
        self.htb.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        try:
            with contextlib.suppress(OSError):  # the interface may be gone by then
                self._drain_classes()
        finally:
            self.htb.__exit__(*error)

    def _drain_classes(self) -> None:
        """Remove all limits and wait until the classes are empty, for what is in a class is lost with it."""
        for minor in (REST, *(held.minor for held in self.held.values())):
            self.htb.set_class(minor, UNLIMITED)
        end = time.monotonic() + DRAIN_S
        while any(size for size, _, _ in self.htb.waiting().values()) and time.monotonic() < end:
            time.sleep(0.001)
        self.left = sum(frames for _, frames, _ in self.htb.waiting().values())

    @property
    def content(self) -> bool:
        """Whether no flow has a limit, or may need one before the worker raises its alarm again."""
        return not self.held and self.rest_rate == UNLIMITED and not self.near

    def step(self, rows: Rows, standing: bool = False) -> None:
        """Update classes and rates from the rows of the switch.

        `standing`: the ring of the interface has not been seen empty since the last step.
        """
        found = {flow: row for row in rows if (flow := flow_of(row)) is not None}
        pressed = pressed_flows(found, self.pauses, self.over)
        self.pauses = {flow: row["pauses"] for flow, row in found.items()}
        waiting = self.htb.waiting()
        self.dropped = self.dropped_before + sum(dropped for _, _, dropped in waiting.values())
        for flow, held in list(self.held.items()):
            bytes_waiting = waiting[held.minor][0]
            if held.leaving:
                if not bytes_waiting:
                    self.dropped_before += waiting[held.minor][2]
                    self.htb.delete_class(held.minor)
                    del self.held[flow]
            else:
                held.quiet = 0 if bytes_waiting or flow in pressed else held.quiet + 1
                row = found.get(flow)
                if row is None or held.quiet > self.rest:  # the one after the other, so that no packet overtakes another
                    self._set(held, UNLIMITED)
                    if not bytes_waiting:
                        self.htb.delete_filter(held.minor, flow)
                        held.leaving = True
                else:
                    self._set(held, self._rate(row, held))
        without = sorted(pressed - self.held.keys(), key=lambda flow: -_waiting(found[flow]))
        free = self._free(len(without))
        for flow, minor in zip(without, free):
            self._hold(flow, minor, found[flow])
        self.crowded = max(0, len(without) - len(free))
        self.near = any(row.get("behind_bytes", 0) >= NEAR_BYTES for flow, row in found.items() if flow not in self.held)
        self._limit_rest(standing)

    def _free(self, most: int) -> list[int]:
        used = {held.minor for held in self.held.values()}
        return [minor for minor in range(REST + 1, REST + 1 + self.most) if minor not in used][:most]

    def _hold(self, flow: FiveTuple, minor: int, row: Mapping[str, Any]) -> None:
        held = Held(minor, UNLIMITED)
        held.rate = self._rate(row, held)
        self.htb.set_class(minor, held.rate)
        self.held[flow] = held
        self.htb.add_filter(minor, flow)
        self.opened += 1

    def _set(self, held: Held, rate: int) -> None:
        if abs(rate - held.rate) * 50 > held.rate:  # a change below 2 % is not worth a system call
            self.htb.set_class(held.minor, rate)
            held.rate = rate
            self.changes += 1

    def _rate(self, row: Mapping[str, Any], held: Held) -> int:
        """R_recv at the goal, one and a half of it where nothing waits, half of it where twice the goal does, and so on.

        R_recv counts for no more than what the receiver takes on average, and SPARE_FRAMES: the switch measures it while frames
        wait, so of a receiver that works in bursts it is a burst's.  What passes at that rate while an edge is late, for want of
        a processor or of the kernel's lock of interfaces, can be more than a flow may hold in the switch.
        At least a sixteenth, so that a frame keeps its class busy for about as long as the receiver needs for the goal.
        A receiver that has stopped gets a frame in an eighth of the time since then: the sum is small, however long that is, and
        a class whose rate was raised again is free after that time.
        """
        now, taken = time.monotonic(), row["bytes"] - row["waiting_bytes"]
        if taken != held.taken:
            held.taken, held.taken_at = taken, now
        spare = SPARE_FRAMES * (row["bytes"] / row["frames"] if row["frames"] else FRAME)
        served = min(row["rate_bytes_per_s"] or FIRST_RATE, held.mean_rate(now, taken) + spare)
        goals = _waiting(row) / self.goal
        rate = max(LEAST_RATE, min(UNLIMITED, int(served * (1.5 - 0.5 * goals if goals < 1 else max(1 / goals, 1 / 16)))))
        stopped = now - held.taken_at
        if goals > 1 and stopped > STOPPED_S:
            rate = max(STOPPED_RATE, min(rate, int(8 * FRAME / stopped)))
        return rate

    def _limit_rest(self, standing: bool) -> None:
        """A rate for all flows without a class, while the switch reads less than they send."""
        read, rate = self._look_at_ring(standing), min(self.rest_rate * GROWTH, UNLIMITED)
        if self.behind > min(RING_FRAMES, self.htb.queue_frames // 8):
            rate = min(rate, 0.9 * read)
        limit = max(LEAST_RATE, int(rate)) if rate < UNLIMITED / 10 else UNLIMITED
        if limit != self.rest_rate:
            self.htb.set_class(REST, limit)
            self.rest_rate = limit
            self.changes += 1

    def _look_at_ring(self, standing: bool) -> float:
        """Bytes per second that the switch has read since the last step.

        `behind` is what has gone into the ring since it was last empty and was not read.  A long TCP frame goes in as so many
        segments, with a header each.
        """
        before, now = self.last, Seen(time.monotonic(), self.htb.passed(), self.htb.outgoing())
        self.last = now
        if not standing:
            self.empty = now
        size, frames = now.read.size - self.empty.read.size, now.read.frames - self.empty.read.frames
        passed, segments = (now.passed[i] - self.empty.passed[i] for i in range(2))
        self.behind = not_read(passed - size, segments % 2**32 - frames, size // max(1, frames))  # the kernel counts in 32 bits
        return (now.read.size - before.read.size) / max(now.at - before.at, 1e-6)

    def rows(self) -> list[dict[str, Any]]:
        """One dict per class: the flow, its rate, what waits."""
        waiting = self.htb.waiting()
        return [
            {
                **flow._asdict(),
                "rate_bytes_per_s": held.rate,
                "waiting_bytes": waiting[held.minor][0],
                "dropped": waiting[held.minor][2],
            }
            for flow, held in self.held.items()
        ]


def not_read(size: int, segments: int, mean: int) -> int:
    """Frames of a `mean` length that were not read, of which the segments and bytes that went in beyond what was read are known.

    Those segments are the frames, and the further segments of long ones that were read: those are headers only.
    """
    if mean < 2 * HEADERS:  # no long ones
        return max(0, segments)
    return max(0, min(segments, (size - HEADERS * segments) // (mean - HEADERS)))


def pressed_flows(found: Mapping[FiveTuple, Mapping[str, Any]], pauses: Mapping[FiveTuple, int], over: int) -> set[FiveTuple]:
    """The flows that were paused since the step that saw these `pauses`, or hold much, in the switch or in front of it.

    A flow may do so without a pause: a transmit queue that was another flow's is paced from its first frame on.
    """
    return {
        flow
        for flow, row in found.items()
        if row["pauses"] > pauses.get(flow, 0) or _waiting(row) > over or row.get("behind_bytes", 0) > HELD_BYTES
    }


def _waiting(row: Mapping[str, Any]) -> int:
    return int(row["waiting_bytes"]) + int(row.get("behind_bytes", 0))


def flow_of(row: Mapping[str, Any]) -> FiveTuple | None:
    """The flow of a row; None: it is not of IP, and no filter finds it, or of TCP, which waits by itself."""
    if row["protocol"] in (0, socket.IPPROTO_TCP):
        return None
    return FiveTuple(row["protocol"], row["source"], row["source_port"], row["target"], row["target_port"])
