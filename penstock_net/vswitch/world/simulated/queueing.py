"""Queueing of the simulated kernel in front of an interface: HTB with classes, their first-in-first-out queues and u32 filters.

A class sends while it has not used more than its burst beyond its rate; one that waits does so until its time, also if it gets
another rate meanwhile.
"""

import errno
import struct
from collections import deque
from collections.abc import Callable
from typing import Any

from penstock_net.vswitch.world.simulated.descriptors import refused

ROOT, NANO = 0xFFFFFFFF, 1_000_000_000
ETHERNET, LONGEST_DEBT_NS = 14, 60 * NANO
TICK_NS = 64


class Class:
    """One of HTB, with its queue."""

    def __init__(self, limit: int) -> None:
        self.rate, self.burst_ns, self.limit = 1, 0, limit
        self.frames: deque[bytes] = deque()
        self.bytes = self.dropped = self.free_at = 0  # the last: ns at which it has used up nothing of its burst
        self.waits = False  # for a time that is planned


class Filter:
    """A u32 filter: words of the network header, with a mask and a value each."""

    def __init__(self, info: int, minor: int, keys: list[tuple[int, int, int]]) -> None:
        self.info, self.minor, self.keys = info, minor, keys

    def matches(self, frame: bytes) -> bool:
        if frame[12:14] != (self.info & 0xFFFF).to_bytes(2, "little"):
            return False
        for offset, mask, value in self.keys:
            word = frame[ETHERNET + offset : ETHERNET + offset + 4]
            if len(word) < 4 or int.from_bytes(word, "big") & mask != value:
                return False
        return True


class Queueing:
    """The root queueing discipline of an interface; of a kind other than htb it only has its name."""

    def __init__(self, world: Any, kind: str, handle: int, rest: int, limit: int, out: Callable[[bytes], object]) -> None:
        self.world, self.kind, self.handle, self.rest, self.limit, self.out = world, kind, handle, rest, limit, out
        self.classes: dict[int, Class] = {}
        self.filters: list[Filter] = []
        self.passed_bytes = self.passed = 0

    def waiting(self) -> int:
        """Frames in its classes."""
        return sum(len(each.frames) for each in self.classes.values())

    def _class_of(self, frame: bytes) -> int:
        for each in self.filters:
            if each.matches(frame):
                return each.minor
        return self.rest

    def has_class(self, frame: bytes) -> bool:
        """Whether a filter assigns a frame to a class of its own."""
        return self._class_of(frame) != self.rest

    def put(self, frame: bytes) -> bool:
        """Whether there was room."""
        minor = self._class_of(frame)
        found = self.classes.get(minor)
        if self.kind != "htb" or found is None:
            self._pass(frame)
            return True
        if len(found.frames) >= found.limit:
            found.dropped += 1
            return False
        found.frames.append(frame)
        found.bytes += len(frame)
        if not found.waits:
            self._run(found)
        return True

    def _run(self, found: Class) -> None:
        """Send what may be sent now, and plan when more may be."""
        found.waits = False
        while found.frames:
            now = self.world.now
            due = found.free_at - found.burst_ns
            if due > now:
                found.waits = True
                self.world.at(min(due, now + LONGEST_DEBT_NS), lambda: self._run(found))
                return
            frame = found.frames.popleft()
            found.bytes -= len(frame)
            found.free_at = max(found.free_at, now) + len(frame) * NANO // found.rate
            self._pass(frame)

    def _pass(self, frame: bytes) -> None:
        self.passed += 1
        self.passed_bytes += len(frame)
        self.out(frame)

    def empty(self) -> int:
        """All that waits is gone; how many frames that were."""
        gone = self.waiting()
        for each in self.classes.values():
            each.frames.clear()
            each.bytes = 0
        return gone

    # ---- Changes ----

    def set_class(self, minor: int, options: dict[int, bytes]) -> None:
        found = self.classes.get(minor)
        if found is None:
            found = self.classes[minor] = Class(self.limit)
        spec = options[1]
        found.rate = struct.unpack("=Q", options[6])[0] if 6 in options else struct.unpack_from("=I", spec, 8)[0]
        found.burst_ns = struct.unpack_from("=I", spec, 24)[0] * TICK_NS

    def delete_class(self, minor: int) -> int:
        """How many frames are gone with it.  OSError: there is none, or a filter assigns packets to it."""
        if minor not in self.classes:
            raise refused(errno.ENOENT)
        if any(each.minor == minor for each in self.filters):
            raise refused(errno.EBUSY)
        gone = len(self.classes[minor].frames)
        self.classes.pop(minor).frames.clear()
        return gone

    def add_filter(self, info: int, options: dict[int, bytes]) -> None:
        selector = options[5]
        count = selector[2]
        keys = []
        for i in range(count):
            mask, value = struct.unpack_from(">II", selector, 16 + 16 * i)
            keys.append((struct.unpack_from("=i", selector, 24 + 16 * i)[0], mask, value))
        minor = struct.unpack("=I", options[1])[0] & 0xFFFF
        self.filters.append(Filter(info, minor, keys))
        self.filters.sort(key=lambda each: each.info >> 16)

    def delete_filter(self, info: int) -> None:
        left = [each for each in self.filters if each.info != info]
        if len(left) == len(self.filters):
            raise refused(errno.ENOENT)
        self.filters = left
