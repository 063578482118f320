"""Unix sockets of the simulated kernel: streams, with descriptors as ancillary data, and those that listen at a path."""

import errno
import os
import select
from collections import deque
from typing import Any

from penstock_net.vswitch.world.simulated.descriptors import FIRST, File, refused

ROOM = 212_992
HUNG_UP = select.EPOLLHUP


class Stream(File):
    """One end of a connection. What goes with a piece of data: functions that make a descriptor for who receives it."""

    def __init__(self, pid: int) -> None:
        super().__init__()
        self.other: Stream | None = None
        self.pid, self.other_pid = pid, 0  # of the processes, when they were connected
        self.pieces: deque[tuple[bytes, list[Carried]]] = deque()
        self.held = 0
        self.no_more = False  # comes in
        self.is_shut = False  # for writing

    def ready(self) -> int:
        found = select.EPOLLIN if self.pieces or self.no_more else 0
        if self.other is None or self.other.held < ROOM:
            found |= select.EPOLLOUT
        return found | (HUNG_UP if self.no_more and self.is_shut else 0)

    def write(self, data: bytes, rights: "list[Carried] | None" = None) -> int:
        if self.is_shut or self.other is None:
            return -errno.EPIPE
        if self.other.held >= ROOM:
            return -errno.EAGAIN
        self.other.pieces.append((data, rights or []))
        self.other.held += len(data)
        self.other.happened(select.EPOLLIN)
        return len(data)

    def take(self, room: int) -> "tuple[bytes | int, list[Carried]]":
        """The next bytes, or -errno, and what came with them."""
        if not self.pieces:
            return (b"" if self.no_more else -errno.EAGAIN), []
        data, rights = self.pieces.popleft()
        while len(data) < room and self.pieces and not self.pieces[0][1]:
            data += self.pieces.popleft()[0]
        if len(data) > room:
            self.pieces.appendleft((data[room:], []))
        self.held -= len(data[:room])
        if self.other:
            self.other.happened(select.EPOLLOUT)
        return data[:room], rights

    def read(self, room: int) -> bytes | int:
        return self.take(room)[0]

    def shut(self) -> None:
        """Neither end sends any more."""
        for each in (self, self.other):
            if each:
                each.no_more = each.is_shut = True
                each.happened(select.EPOLLIN | HUNG_UP)

    def ended(self) -> None:
        self.shut()
        while self.pieces:  # nobody receives what is on its way
            for each in self.pieces.popleft()[1]:
                each.drop()
        if self.other:
            self.other.other = None
            self.other.happened(select.EPOLLOUT)
            self.other = None


def joined(first: Stream, second: Stream) -> None:
    first.other, second.other = second, first
    first.other_pid, second.other_pid = second.pid, first.pid


class Listening(File):
    """A socket that listens at a path."""

    def __init__(self, pid: int, number: int) -> None:
        super().__init__()
        self.pid, self.number, self.backlog, self.is_open = pid, number, 0, True
        self.waiting: deque[Stream] = deque()

    def ready(self) -> int:
        return select.EPOLLIN if self.waiting else 0

    def connect(self, stream: Stream) -> None:
        """OSError: it does not listen, or too many wait already."""
        if not self.is_open or not self.backlog:
            raise refused(errno.ECONNREFUSED)
        if len(self.waiting) > self.backlog:
            raise refused(errno.EAGAIN)
        end = Stream(self.pid)
        joined(stream, end)
        self.waiting.append(end)
        self.happened(select.EPOLLIN)

    def ended(self) -> None:
        self.is_open = False
        for each in self.waiting:
            each.ended()
        self.waiting.clear()


class Carried:
    """What a descriptor refers to, on its way to another process; memory files are the real kernel's."""

    def __init__(self, world: Any, fd: int) -> None:
        self.world = world
        self.file: File | None = world.table.get(fd) if fd >= FIRST else None
        self.memory = -1 if self.file else os.dup(fd)
        if self.file:
            self.file.descriptors += 1

    def make(self) -> int:
        """A descriptor of it, in the process that asks; it is on its way no longer."""
        if self.file is None:
            self.world.memory[self.memory] = self.world.tasks.current.pid
            return self.memory
        number: int = self.world.table.add(self.file)
        self.file.descriptors -= 1
        return number

    def drop(self) -> None:
        """Nobody will receive it."""
        if self.file is None:
            os.close(self.memory)
        else:
            self.world.table.release(self.file)
