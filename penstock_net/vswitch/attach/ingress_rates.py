"""Towards the switch: a rate limit for each flow that the switch holds back, so that its sender blocks in its own socket.

A flow that the switch pauses gets an HTB class of the interface with the receiver's rate; other flows are not limited.  Packets
queued in a class are charged to their socket, so the sender blocks (or gets EAGAIN) when its send buffer is full, and no queue on
the path can overflow.  The class is deleted once it has been empty for a while.
"""

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from penstock_net.errors import SpecError
from penstock_net.inputs import whole
from penstock_net.units import parse_size
from penstock_net.vswitch.attach.senders import Sender, Senders
from penstock_net.vswitch.linux.htb import REST, UNLIMITED, FiveTuple, Htb
from penstock_net.vswitch.linux.netlink import Outgoing
from penstock_net.vswitch.linux.netns import NetNs
from penstock_net.vswitch.linux.set_up import Interface
from penstock_net.vswitch.world import socket, time

GROWTH = 1.25  # of a limit that is not needed any longer, per step
HELD_BYTES = 32_768  # of a flow in front of the switch, half of what the worker raises its alarm for: it needs a class
NEAR_BYTES = 16_384  # at which the worker will raise it again: until then the flow is looked at
LEAST_RATE = 64_000  # bytes per second; a frame of 64 KB keeps its class busy for 1 s
STOPPED_S = 0.1  # a receiver that has taken nothing for so long has stopped
FRAME = 1500  # bytes, or more if its frames are longer, of one that passes to it in an eighth of the time since then
FREE_S = 0.1  # or sooner than that, while its flow holds fewer than PARKED_FRAMES in the switch
PARKED_FRAMES = 1000  # of 1500 bytes; less of many flows, as with SPARE_FRAMES
LONGEST_WAIT_S = 60  # for which HTB makes a class wait: such a frame passes in it, at last
RING_FRAMES = 1000  # not read of the ring, at which all senders wait: it comes in, and a flow may hold some 3500 in the switch
HEADERS = 90  # bytes of a TCP segment that are not its content, at most
DRAIN_S = 1.1
FIRST_RATE = 125_000  # while the switch does not know the receiver's
MEAN_S = 0.1  # over so long, up to twice that, an edge measures what a receiver takes
SPARE_FRAMES = 3000  # a second, that it may be sent beyond that; less of many, as each then may hold less in the switch
INFINITE = float("inf")
WAITING = (Sender.CONNECTED, Sender.ALONE)  # those who may be made to wait
Rows = Iterable[Mapping[str, Any]]


CARRIED = ("rest_rate", "crowded", "near", "changes", "opened", "dropped", "dropped_before", "left", "behind")


class Seen(NamedTuple):
    """Bytes and segments that have entered the TAP's ring, and those read from it, at a time (s)."""

    at: float
    passed: tuple[int, int]
    read: Outgoing
    further: tuple[int, int] = (0, 0)  # of those read, datagrams in frames of several, beyond one of each, and their headers


@dataclass
class Held:
    """A flow with an HTB class of its own."""

    minor: int
    rate: int
    sender: Sender  # as last seen
    taken: int = -1  # bytes that its receiver has taken, and when that last became more (s)
    taken_at: float = 0.0
    marks: tuple[tuple[float, int], ...] = ()  # (time, bytes taken), the older one first
    quiet: int = 0  # steps in a row in which its sender did not want more than its rate
    leaving: bool = False  # no filter any longer

    def mean_rate(self, now: float, taken: int) -> float:
        """Mean rate of its receiver (bytes/s), idle times included; infinite at first."""
        if not self.marks or taken < self.marks[-1][1]:  # a flow that has begun anew
            self.marks = ((now, taken),)
        elif now - self.marks[-1][0] > MEAN_S:
            self.marks = (self.marks[-1], (now, taken))
        at, before = self.marks[0]
        return (taken - before) / (now - at) if now > at else INFINITE


class FlowRates:
    """The HTB classes of one interface; call `step` with the rows of Switch.flows() of the flows that enter by it.

    `goal` is the target queue of a flow in the switch: half of th_goal, since with more the switch's own pauses would keep the
    backlog from draining.  A row may have `behind_bytes`, the flow's bytes queued elsewhere in the switch.  `senders`, if set,
    says who may be made to wait; else everybody may.
    """

    def __init__(
        self,
        device: str,
        namespace: NetNs | None = None,
        *,
        goal: str | int = "16KB",
        over: str | int = "128KB",
        classes: int = 256,
        rest: int = 10,
        queue_frames: int | None = None,
        interface: Interface | None = None,
    ) -> None:
        self.limit(goal, over)
        self.most, self.rest = whole(classes, "classes", 1, 1024), whole(rest, "rest", 1, 10**6)
        self.htb = Htb(device, namespace, queue_frames, interface)
        self.senders: Senders | None = None
        self.held: dict[FiveTuple, Held] = {}
        self.pauses: dict[FiveTuple, int] = {}
        self.rest_rate = UNLIMITED
        self.crowded = 0  # flows that should have a class, but there was none: the switch's own bounds hold them
        self.near = False  # whether a flow may need a class soon
        self.changes = self.opened = 0
        self.dropped = self.dropped_before = 0  # by classes whose senders' sockets hold more than a class may
        self.drains = True  # whether it waits for the frames in its classes when it ends
        self.left = 0  # frames that waited in classes when it ended: lost
        self.behind = 0  # frames in the ring, about; the kernel does not say
        self.last = self.empty = Seen(0.0, (0, 0), Outgoing(0, 0, 0))

    def limit(self, goal: str | int, over: str | int) -> None:
        """Go on with another `goal` and `over`."""
        self.goal, self.over = (parse_size(value, name, positive=True) for name, value in (("goal", goal), ("over", over)))
        if self.goal >= self.over:
            raise SpecError(f"goal = {self.goal} B: must be less than over = {self.over} B, which is th_over")

    def __enter__(self) -> "FlowRates":
        self.htb.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        try:
            if not self.htb.replaced:
                with contextlib.suppress(OSError):  # the interface may be gone by then
                    self._drain_classes()
                    self._delete_classes()
        finally:
            self.htb.__exit__(*error)

    def state(self) -> dict[str, Any]:
        """What another process goes on with: classes and limits stay as they are."""
        return {
            "held": [[flow, {**vars(held), "sender": held.sender.value}] for flow, held in self.held.items()],
            "pauses": list(self.pauses.items()),
            "htb": {"lost_before": self.htb.lost_before, "queue_frames": self.htb.queue_frames},
            "last": self.last,
            "empty": self.empty,
            **{key: getattr(self, key) for key in CARRIED},
        }

    def take(self, state: Mapping[str, Any]) -> None:
        for flow, held in state["held"]:
            marks = tuple((at, taken) for at, taken in held["marks"])
            self.held[FiveTuple(*flow)] = Held(**{**held, "sender": Sender(held["sender"]), "marks": marks})
        self.pauses = {FiveTuple(*flow): count for flow, count in state["pauses"]}
        self.htb.lost_before, self.htb.queue_frames = state["htb"]["lost_before"], state["htb"]["queue_frames"]
        self.last, self.empty = _seen(*state["last"]), _seen(*state["empty"])
        for key in CARRIED:
            setattr(self, key, state[key])

    def lift(self) -> None:
        """Remove all limits."""
        for minor in (REST, *(held.minor for held in self.held.values())):
            self.htb.set_class(minor, UNLIMITED)

    def await_empty(self, end: float) -> None:
        """Wait until nothing waits in the classes, until then at the latest (time.monotonic())."""
        while any(size for size, _, _ in self.htb.waiting().values()) and time.monotonic() < end:
            time.sleep(0.001)

    def _drain_classes(self) -> None:
        """Remove all limits and wait until the classes are empty: packets in a deleted class are lost."""
        if self.drains:
            self.lift()
            self.await_empty(time.monotonic() + DRAIN_S)

    def _delete_classes(self) -> None:
        """Count what waits in the classes as lost, and have nothing of it pass any more: else it would come as well."""
        for flow, held in self.held.items():
            if not held.leaving:
                with contextlib.suppress(OSError):  # somebody has removed it, or it could not be set
                    self.htb.delete_filter(held.minor, flow)
            self.left += self.htb.delete_class(held.minor)
        self.left += self.htb.delete_class(REST)

    @property
    def content(self) -> bool:
        """Whether no flow has a limit, and none can need one before the worker raises its alarm again."""
        return not self.held and self.rest_rate == UNLIMITED and not self.near

    def step(self, rows: Rows, standing: bool = False, busy: bool = True) -> None:
        """Update classes and rates from the rows of the switch.

        `standing`: the interface's ring was not seen empty since the last step; `busy`: nor just before this one.
        """
        found = {flow: row for row in rows if (flow := flow_of(row)) is not None}
        pressed = pressed_flows(found, self.pauses, self.over)
        self.pauses = {flow: row["pauses"] for flow, row in found.items()}
        waiting = self.htb.waiting()
        for flow, held in list(self.held.items()):
            bytes_waiting = waiting[held.minor][0]
            if held.leaving:
                if not bytes_waiting or held.sender is Sender.SHARED:  # the latter blocks its socket: the frames are dropped
                    _, _, dropped = waiting.pop(held.minor)
                    self.dropped_before += dropped + self.htb.delete_class(held.minor)
                    del self.held[flow]
            elif self._is_shared(flow, held):
                self._let_go(flow, held)
            else:
                held.quiet = 0 if bytes_waiting or flow in pressed else held.quiet + 1
                row = found.get(flow)
                if row is None or held.quiet > self.rest:  # the one after the other, so that no packet overtakes another
                    self._set(held, UNLIMITED)
                    if not bytes_waiting:
                        self._let_go(flow, held)
                else:
                    self._set(held, self._rate(row, held))
        self.dropped = self.dropped_before + sum(dropped for _, _, dropped in waiting.values())
        without = sorted(pressed - self.held.keys(), key=lambda flow: -_waiting(found[flow]))
        senders = [(flow, sender) for flow in without if (sender := self._sender(flow)) in WAITING]
        free = self._free(len(senders))
        for (flow, sender), minor in zip(senders, free):
            self._hold(flow, Held(minor, UNLIMITED, sender), found[flow])
        self.crowded = max(0, len(senders) - len(free))
        self.near = any(row.get("behind_bytes", 0) >= NEAR_BYTES for flow, row in found.items() if flow not in self.held)
        if busy or self.rest_rate < UNLIMITED:
            self._limit_rest(standing)

    def _free(self, most: int) -> list[int]:
        used = {held.minor for held in self.held.values()}
        return [minor for minor in range(REST + 1, REST + 1 + self.most) if minor not in used][:most]

    def _sender(self, flow: FiveTuple) -> Sender:
        return self.senders.of(flow) if self.senders else Sender.CONNECTED

    def _is_shared(self, flow: FiveTuple, held: Held) -> bool:
        """Whether the sender of a flow that has a class shall wait no longer."""
        if self.senders and (held.sender is not Sender.CONNECTED or self.senders.table.has_several(flow.source_port)):
            held.sender = self.senders.of(flow)
        return held.sender is Sender.SHARED

    def _hold(self, flow: FiveTuple, held: Held, row: Mapping[str, Any]) -> None:
        held.rate = self._rate(row, held)
        self.htb.set_class(held.minor, held.rate)
        self.held[flow] = held
        self.htb.add_filter(held.minor, flow)
        self.opened += 1

    def _let_go(self, flow: FiveTuple, held: Held) -> None:
        """Have no more frames of a flow wait in its class; those in it pass, as soon as the last one's time is over."""
        self._set(held, UNLIMITED)
        self.htb.delete_filter(held.minor, flow)
        held.leaving = True

    def _set(self, held: Held, rate: int) -> None:
        if abs(rate - held.rate) * 50 > held.rate:  # a change below 2 % is not worth a system call
            self.htb.set_class(held.minor, rate)
            held.rate = rate
            self.changes += 1

    def _rate(self, row: Mapping[str, Any], held: Held) -> int:
        """R_recv at the goal, 1.5 R_recv at an empty queue, half of R_recv at twice the goal, and so on.

        R_recv is bounded by the receiver's mean rate plus SPARE_FRAMES: the switch measures R_recv while frames are queued, so
        for a bursty receiver it is the rate of a burst.  If the edge is late, for want of a processor or of the kernel's RTNL
        lock, a flow at that rate could exceed the bytes that it may hold in the switch.
        The switch does not know R_recv of a receiver whose queue it has never seen shrink, perhaps since the receiver keeps up.
        Then it is what the receiver takes, but at least FIRST_RATE; FIRST_RATE alone would hold the flow to it for ever.
        The rate is at least R_recv/16, so that a frame occupies its class for about as long as the receiver needs for the goal.
        A stopped receiver gets a frame per eighth of the time since it stopped: the sum stays small, and after a rate was raised
        again the class is free within that time.  While its flow holds few frames in the switch one follows in each FREE_S, so
        that the class is free as soon after a stop of a minute as after a short one.
        """
        now, taken = time.monotonic(), row["bytes"] - row["waiting_bytes"]
        if taken != held.taken:
            held.taken, held.taken_at = taken, now
        frame = row["bytes"] / row["frames"] if row["frames"] else FRAME
        part = 2 / (1 + max(1, len(self.held)))
        spare = SPARE_FRAMES * part * frame
        mean = held.mean_rate(now, taken)
        served = min(row["rate_bytes_per_s"] or max(FIRST_RATE, mean if mean < INFINITE else 0), mean + spare)
        goals = _waiting(row) / self.goal
        rate = max(LEAST_RATE, min(UNLIMITED, int(served * (1.5 - 0.5 * goals if goals < 1 else max(1 / goals, 1 / 16)))))
        stopped = now - held.taken_at
        if goals > 1 and stopped > STOPPED_S:
            longest = max(FRAME, frame)  # of several datagrams
            most_s = FREE_S if _waiting(row) < PARKED_FRAMES * part * min(FRAME, frame) else LONGEST_WAIT_S
            rate = max(int(longest / most_s), min(rate, int(8 * longest / stopped)))
        return rate

    def _limit_rest(self, standing: bool) -> None:
        """Limit all flows without a class while they send more than the switch reads."""
        read, rate = self._look_at_ring(standing), min(self.rest_rate * GROWTH, UNLIMITED)
        if self.behind > min(RING_FRAMES, self.htb.queue_frames // 8):
            rate = min(rate, 0.9 * read)
        limit = max(LEAST_RATE, int(rate)) if rate < UNLIMITED / 10 else UNLIMITED
        if limit != self.rest_rate:
            self.htb.set_class(REST, limit)
            self.rest_rate = limit
            self.changes += 1

    def _look_at_ring(self, standing: bool) -> float:
        """Rate (bytes/s) at which the switch has read since the last step.

        `behind` is the backlog of the ring: what has entered since it was last empty, less what was read.  A long frame enters
        as several segments or datagrams, each with a header; of the datagrams that were read the worker has counted these.
        """
        before, now = self.last, Seen(time.monotonic(), self.htb.passed(), self.htb.outgoing(), self._further())
        self.last = now
        if not standing:
            self.empty = now
        size, frames = now.read.size - self.empty.read.size, now.read.frames - self.empty.read.frames
        passed, segments = (now.passed[i] - self.empty.passed[i] for i in range(2))
        datagrams, headers = (now.further[i] - self.empty.further[i] for i in range(2))
        entered = segments % 2**32 - datagrams  # the kernel counts in 32 bits
        self.behind = not_read(passed - headers - size, entered - frames, size // max(1, frames))
        return (now.read.size - before.read.size) / max(now.at - before.at, 1e-6)

    def _further(self) -> tuple[int, int]:
        count, size = self.senders.table.further if self.senders else (0, 0)
        return int(count), int(size)

    def rows(self) -> list[dict[str, Any]]:
        """One dict per class: the flow, its rate, its backlog."""
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


def limits_of(settings: Mapping[str, Any]) -> dict[str, int]:
    """The `goal` and the `over` of edges of a switch with these settings."""
    return {"goal": max(1, settings["th_goal"] // 2), "over": settings["th_over"]}


def _seen(at: float, passed: Iterable[int], read: Iterable[int], further: Iterable[int] = (0, 0)) -> Seen:
    (size, segments), (count, headers) = passed, further
    return Seen(at, (size, segments), Outgoing(*read), (count, headers))


def not_read(size: int, segments: int, mean: int) -> int:
    """Estimate of the frames not read, of `mean` length, from the segments and bytes that entered beyond those read.

    The excess segments are the unread frames and the further segments of long frames that were read, which add headers only.
    """
    if mean < 2 * HEADERS:  # no long ones
        return max(0, segments)
    return max(0, min(segments, (size - HEADERS * segments) // (mean - HEADERS)))


def pressed_flows(found: Mapping[FiveTuple, Mapping[str, Any]], pauses: Mapping[FiveTuple, int], over: int) -> set[FiveTuple]:
    """The flows paused since the step that saw these `pauses`, and those with a large backlog in the switch or in front of it.

    A backlog can form without a pause: a transmit queue inherited from another flow is paced from its first frame on.
    """
    return {
        flow
        for flow, row in found.items()
        if row["pauses"] > pauses.get(flow, 0) or _waiting(row) > over or row.get("behind_bytes", 0) > HELD_BYTES
    }


def _waiting(row: Mapping[str, Any]) -> int:
    return int(row["waiting_bytes"]) + int(row.get("behind_bytes", 0))


def flow_of(row: Mapping[str, Any]) -> FiveTuple | None:
    """The flow of a row; None if it is not IP, which no filter matches, or TCP, which has flow control of its own."""
    if row["protocol"] in (0, socket.IPPROTO_TCP):
        return None
    return FiveTuple(row["protocol"], row["source"], row["source_port"], row["target"], row["target_port"])
