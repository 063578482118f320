"""The simulated kernel, as a world that the switch may be given."""

import ctypes
import errno
import heapq
import math
import random
import select
import struct
from collections.abc import Callable
from typing import Any, TypeVar

from penstock_net.errors import PenstockError
from penstock_net.vswitch.world.simulated import parts
from penstock_net.vswitch.world.simulated.descriptors import Epoll, File, Table, refused
from penstock_net.vswitch.world.simulated.links import IFF_UP, Link, Packets, Space, Tap
from penstock_net.vswitch.world.simulated.netlink import DELETE_LINK, NEW_LINK, Route, described, message

IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 0x0002, 0x1000, 0x4000
SET_TAP, SET_PERSISTENT, SET_OFFLOADS, SET_HEADER_BYTES, GET_TAP = 0x400454CA, 0x400454CB, 0x400454D0, 0x400454D8, 0x800454D2
GET_FLAGS, SET_FLAGS, GET_MTU, SET_MTU, SET_HARDWARE, GET_HARDWARE = 0x8913, 0x8914, 0x8921, 0x8922, 0x8924, 0x8927
GET_FEATURES, GET_INDEX = 0x800454CF, 0x8933
ETHERNET_KIND = 1
Kind = TypeVar("Kind", bound=File)


class Stuck(PenstockError):
    """Somebody waits for what can never happen."""


class Simulated:
    """A world in one thread. Time passes only while somebody waits: then what was planned with `at` happens, in its order."""

    def __init__(self, seed: int = 0) -> None:
        self.random = random.Random(seed)
        self.now, self.table, self.calls = parts.BEGIN_NS, Table(), self
        self.planned: list[tuple[int, int, Callable[[], None]]] = []
        self.count = 0
        self.listeners: list[Route] = []
        self.space = Space(lambda: b"\2" + self.random.randbytes(5), self._report)
        self.parts = parts.parts_of(self)

    def part(self, name: str) -> Any:
        """As `contract.World` says; what is not simulated says so when it is asked."""
        return self.parts.get(name) or parts.Missing(name)

    # ---- Time ----

    def at(self, ns: int, do: Callable[[], None]) -> None:
        """Have something happen at a time of the clock that never goes back."""
        self.count += 1
        heapq.heappush(self.planned, (max(ns, self.now), self.count, do))

    def wait(self, until: float, is_over: Callable[[], bool] = lambda: False) -> None:
        """Let time pass until something is so, or until then.  Stuck: neither will come."""
        while not is_over():
            if self.planned and self.planned[0][0] <= until:
                self.now, _, do = heapq.heappop(self.planned)
                do()
            elif math.isinf(until):
                raise Stuck("a wait without an end, and nothing is planned")
            else:
                self.now = max(self.now, int(until))
                return

    # ---- Descriptors ----

    def of(self, number: int, kind: type[Kind]) -> Kind:
        """OSError: it refers to something else, or to nothing."""
        file = self.table.get(number)
        if not isinstance(file, kind):
            raise refused(errno.EINVAL)
        return file

    def _report(self, link: Link, deleted: bool) -> None:
        packet = message(DELETE_LINK if deleted else NEW_LINK, described(link, 0xFFFFFFFF), 0)
        for each in self.listeners:
            each.report(packet)

    def listen(self, route: Route, groups: int) -> None:
        route.groups = groups
        if groups & 1 and route not in self.listeners:
            self.listeners.append(route)

    # ---- Requests to a device ----

    def request(self, fd: int, number: int, argument: bytes) -> bytes:
        """An ioctl whose argument is a block of bytes; returns the block as it is then.  OSError: refused."""
        file = self.table.get(fd)
        if isinstance(file, Tap) and number == SET_TAP:
            return self._set_tap(file, argument)
        if isinstance(file, Tap) and number == GET_FEATURES:
            return struct.pack("=I", IFF_TAP | IFF_NO_PI | IFF_VNET_HDR)
        link = file.link if isinstance(file, Tap) else self.space.named(argument[:16].rstrip(b"\0").decode())
        if link is None:
            raise refused(errno.EBADFD if isinstance(file, Tap) else errno.ENODEV)
        name = link.name.encode().ljust(16, b"\0")
        if number == GET_TAP:
            kind = IFF_TAP | IFF_NO_PI | (IFF_VNET_HDR if isinstance(file, Tap) and file.headers else 0)
            return name + struct.pack("=H22x", kind)
        if number == GET_HARDWARE:
            return name + struct.pack("=H6s16x", ETHERNET_KIND, link.mac)
        if number == SET_HARDWARE:
            link.mac = argument[18:24]
            link.change(link)
        elif number == GET_FLAGS:
            return name + struct.pack("=H22x", link.flags & 0xFFFF)
        elif number == SET_FLAGS:
            link.set_up(bool(struct.unpack_from("=H", argument, 16)[0] & IFF_UP))
        elif number == GET_MTU:
            return name + struct.pack("=i20x", link.mtu)
        elif number == SET_MTU:
            link.mtu = struct.unpack_from("=i", argument, 16)[0]
            link.change(link)
        elif number == GET_INDEX:
            return name + struct.pack("=i20x", link.index)
        else:
            raise refused(errno.ENOTTY)
        return argument

    def _set_tap(self, tap: Tap, argument: bytes) -> bytes:
        name, flags = argument[:16].rstrip(b"\0").decode(), struct.unpack_from("=H", argument, 16)[0]
        if tap.link:
            raise refused(errno.EEXIST)
        if name == "lo" or not flags & IFF_TAP:
            raise refused(errno.EINVAL)
        link = self.space.named(name)
        if link and link.tap:
            raise refused(errno.EBUSY)
        is_new = link is None
        link = link or self.space.make(name)
        tap.attach(link, bool(flags & IFF_VNET_HDR))
        if not is_new:
            link.change(link)
        return argument

    # ---- Calls of the compiled parts: contract.Calls ----

    def now_ns(self) -> int:
        return self.now

    def watch_with(self, epoll: int, fd: int, place: int) -> int:
        return self._tried(lambda: self.of(epoll, Epoll).add(fd, self.table.get(fd), select.EPOLLIN | select.EPOLLET, place))

    def sleep_on(self, epoll: int, ns: int) -> list[int]:
        waited = self.of(epoll, Epoll)
        self.wait(self.now + ns, lambda: waited.ready() != 0)
        return [watched.data for watched, _ in waited.news(64) if watched.data]

    def poll_pair(self, fds: tuple[int, int], events: tuple[int, int], ns: int) -> tuple[int, int]:
        files = [self.table.get(fd) if fd >= 0 else None for fd in fds]

        def ready() -> tuple[int, int]:
            first, second = (file.ready() & (wanted | select.EPOLLERR) if file else 0 for file, wanted in zip(files, events))
            return first, second

        self.wait(self.now + ns, lambda: any(ready()))
        return ready()

    def read(self, fd: int, room: int) -> bytes | int:
        return self.table.files[fd].read(room) if fd in self.table.files else -errno.EBADF

    def write(self, fd: int, data: bytes) -> int:
        return self.table.files[fd].write(data) if fd in self.table.files else -errno.EBADF

    def send(self, fd: int, data: bytes) -> int:
        return self.write(fd, data)

    def recv(self, fd: int, room: int) -> bytes | int:
        return self.read(fd, room)

    def socket_drops(self, fd: int) -> int:
        file = self.table.files.get(fd)
        return file.dropped if isinstance(file, Packets) else 0

    def ioctl(self, fd: int, number: int, place: int) -> int:
        """`place` is the argument's address, or the argument itself where the request takes a number."""
        if number in (SET_PERSISTENT, SET_OFFLOADS, SET_HEADER_BYTES):
            return self._tried(lambda: self._set(fd, number, place))

        def ask() -> None:
            ctypes.memmove(place, self.request(fd, number, ctypes.string_at(place, 40)), 40)

        return self._tried(ask)

    def _set(self, fd: int, number: int, value: int) -> None:
        """Offloads are taken and not used: frames come to this end as they were sent."""
        link = self.of(fd, Tap).link
        if link is None:
            raise refused(errno.EBADFD)
        if number == SET_PERSISTENT:
            link.is_persistent = bool(value)

    def _tried(self, do: Callable[[], None]) -> int:
        try:
            do()
        except OSError as error:
            return -(error.errno or errno.EIO)
        return 0
