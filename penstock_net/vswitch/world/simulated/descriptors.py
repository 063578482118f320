"""Descriptors of the simulated kernel: their table, counters that wake, and sets of descriptors that are waited for."""

import errno
import os
import struct
from collections.abc import Callable
from select import EPOLLERR, EPOLLET, EPOLLIN, EPOLLOUT
from typing import Any

MOST_COUNTED = 2**64 - 2
FIRST = 1 << 20  # the number of the first; those of the real kernel, such as memory files, are lower


def refused(number: int) -> OSError:
    """What a call that failed raises."""
    return OSError(number, os.strerror(number))


def said(level: int, kind: int, data: bytes) -> bytes:
    """A control message."""
    return struct.pack("=Qii", 16 + len(data), level, kind) + data + bytes(-len(data) % 8)


class File:
    """What a descriptor refers to; whoever waits for it is told when something has happened to it."""

    def __init__(self) -> None:
        self.watchers: list[Watched] = []
        self.sleepers: list[Any] = []  # tasks that wait for it
        self.descriptors = 0
        self.keeps: Any = None  # the namespace that it was opened in, or that it is a descriptor of

    def ready(self) -> int:
        """EPOLLIN, EPOLLOUT, EPOLLERR, as far as they hold now."""
        return 0

    def read(self, room: int) -> bytes | int:
        """Bytes, or -errno."""
        return -errno.EINVAL

    def write(self, data: bytes) -> int:
        """How many were taken, or -errno."""
        return -errno.EINVAL

    def take_message(self, room: int) -> tuple[bytes, bytes, bytes, bool] | int:
        """A message of a socket, who has sent it, control messages, and whether it was cut; or -errno."""
        return -errno.ENOTSOCK

    def put_message(self, data: bytes, name: bytes, control: bytes) -> int:
        """Send a message to somebody, with control messages; how much was taken, or -errno."""
        return -errno.ENOTSOCK

    def told(self) -> None:
        """What it is ready for has been reported to who waits for it."""

    def ended(self) -> None:
        """The last descriptor has been closed."""

    def happened(self, events: int) -> None:
        """Tell those who wait for any of these. Whatever makes a descriptor ready must do so: nobody looks at it before."""
        for task in self.sleepers:
            task.told = True
        for watched in self.watchers:
            if events & (watched.events | EPOLLERR):
                watched.epoll.put(watched)


class Table:
    """The descriptors of all processes, which are numbered together: the lowest free number is given out."""

    def __init__(self, pid: Callable[[], int], is_dead: Callable[[], bool], leave: Callable[[Any], None]) -> None:
        """Which process asks, and whether it was killed: then it has none, whatever it still does; who leaves a namespace."""
        self.files: dict[int, File] = {}
        self.lowest = FIRST  # no lower number is free
        self.is_dead, self.leave = is_dead, leave
        self.pid, self.owners = pid, dict[int, int]()  # processes, by descriptor
        self.heirs: dict[int, list[int]] = {}  # other processes that have one as well, since it was passed to them

    def add(self, file: File) -> int:
        number = self.lowest
        while number in self.files:
            number += 1
        self.lowest = number + 1
        self.files[number] = file
        self.owners[number] = self.pid()
        file.descriptors += 1
        return number

    def get(self, number: int) -> File:
        """OSError: there is no such descriptor."""
        if self.is_dead():
            raise refused(errno.EBADF)
        try:
            return self.files[number]
        except KeyError:
            raise refused(errno.EBADF) from None

    def inherit(self, number: int, pid: int) -> None:
        """A process that is started has this descriptor as well, under its number, until it closes it."""
        self.get(number)
        self.heirs.setdefault(number, []).append(pid)

    def close(self, number: int) -> None:
        self.get(number)
        self._remove(number, self.pid())

    def _remove(self, number: int, pid: int) -> None:
        """A process has it no longer."""
        if heirs := self.heirs.get(number):
            if pid in heirs:
                heirs.remove(pid)
            else:
                self.owners[number] = heirs.pop(0)
            return
        file = self.files.pop(number)
        self.lowest = min(self.lowest, number)
        del self.owners[number]
        self.release(file)

    def release(self, file: File) -> None:
        """One that refers to a file is gone, such as a descriptor."""
        file.descriptors -= 1
        if not file.descriptors:
            for watched in list(file.watchers):
                watched.epoll.forget(watched)
            file.ended()
            if file.keeps:
                self.leave(file.keeps)
                file.keeps = None

    def close_of(self, pid: int) -> None:
        """A process has ended."""
        for number in [number for number, owner in self.owners.items() if owner == pid or pid in self.heirs.get(number, ())]:
            self._remove(number, pid)


class Counter(File):
    """An eventfd that does not block."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def ready(self) -> int:
        return (EPOLLIN if self.count else 0) | (EPOLLOUT if self.count < MOST_COUNTED else 0)

    def read(self, room: int) -> bytes | int:
        if room < 8:
            return -errno.EINVAL
        if not self.count:
            return -errno.EAGAIN
        count, self.count = self.count, 0
        self.happened(EPOLLOUT)
        return count.to_bytes(8, "little")

    def write(self, data: bytes) -> int:
        added = int.from_bytes(data[:8], "little")
        if len(data) < 8 or added > MOST_COUNTED:
            return -errno.EINVAL
        if self.count + added > MOST_COUNTED:
            return -errno.EAGAIN
        self.count += added
        self.happened(EPOLLIN)
        return 8


class Watched:
    """A descriptor in an epoll set."""

    def __init__(self, epoll: "Epoll", number: int, file: File, events: int, data: int) -> None:
        self.epoll, self.number, self.file, self.events, self.data = epoll, number, file, events, data


class Epoll(File):
    """An epoll set. What has happened is pending until it is reported; edge-triggered, it is reported once."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[tuple[int, int], Watched] = {}
        self.pending: dict[Watched, None] = {}  # in the order in which it happened

    def ready(self) -> int:
        for watched in self.pending:
            if self.due(watched):
                return EPOLLIN
        return 0

    def due(self, watched: Watched) -> int:
        return watched.file.ready() & (watched.events | EPOLLERR)

    def add(self, number: int, file: File, events: int, data: int) -> None:
        """OSError: it is in the set."""
        if (number, id(file)) in self.known:
            raise refused(errno.EEXIST)
        watched = self.known[number, id(file)] = Watched(self, number, file, events, data)
        file.watchers.append(watched)
        if self.due(watched):
            self.put(watched)

    def put(self, watched: Watched) -> None:
        """Something has happened to a descriptor of the set."""
        self.pending.setdefault(watched)
        self.happened(EPOLLIN)

    def change(self, number: int, file: File, events: int) -> None:
        watched = self._known(number, file)
        watched.events = events
        if self.due(watched):
            self.put(watched)

    def remove(self, number: int, file: File) -> None:
        """OSError: it is not in the set."""
        self.forget(self._known(number, file))

    def _known(self, number: int, file: File) -> Watched:
        try:
            return self.known[number, id(file)]
        except KeyError:
            raise refused(errno.ENOENT) from None

    def forget(self, watched: Watched) -> None:
        del self.known[watched.number, id(watched.file)]
        watched.file.watchers.remove(watched)
        self.pending.pop(watched, None)

    def news(self, most: int) -> list[tuple[Watched, int]]:
        """What is due now; what is not due any more is forgotten."""
        found: list[tuple[Watched, int]] = []
        for watched in list(self.pending):
            if len(found) == most:
                break
            del self.pending[watched]
            if events := self.due(watched):
                found.append((watched, events))
                watched.file.told()
                if not watched.events & EPOLLET:
                    self.pending[watched] = None
        return found

    def ended(self) -> None:
        for watched in list(self.known.values()):
            self.forget(watched)
