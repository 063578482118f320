"""The simulated kernel, as a world that the switch may be given."""

import ctypes
import errno
import heapq
import random
import select
import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from penstock_net.vswitch.world.simulated import datagrams, parts
from penstock_net.vswitch.world.simulated.datagrams import Datagrams, Network
from penstock_net.vswitch.world.simulated.descriptors import Epoll, File, Table, refused
from penstock_net.vswitch.world.simulated.files import Files
from penstock_net.vswitch.world.simulated.links import IFF_UP, Link, Packets, Space, Tap
from penstock_net.vswitch.world.simulated.namespaces import GET_KIND, Opened, Spaces, kept_by
from penstock_net.vswitch.world.simulated.netlink import (
    DELETE_LINK,
    NEW_LINK,
    Route,
    address_report,
    described,
    message,
    neighbour_report,
    root_report,
)
from penstock_net.vswitch.world.simulated.streams import Listening
from penstock_net.vswitch.world.simulated.tasks import Tasks, never

IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 0x0002, 0x1000, 0x4000
SET_TAP, SET_PERSISTENT, SET_OFFLOADS, SET_HEADER_BYTES, GET_TAP = 0x400454CA, 0x400454CB, 0x400454D0, 0x400454D8, 0x800454D2
GET_FLAGS, SET_FLAGS, GET_MTU, SET_MTU, SET_HARDWARE, GET_HARDWARE = 0x8913, 0x8914, 0x8921, 0x8922, 0x8924, 0x8927
GET_FEATURES, GET_INDEX, GET_TAP_NAMESPACE = 0x800454CF, 0x8933, 0x54E3
ETHERNET_KIND = 1
Kind = TypeVar("Kind", bound=File)


class Simulated:
    """A world of which one thread runs at a time. Time passes while all wait: then what was planned with `at` happens, in its
    order; and a little when compiled code asks for it, since code takes time.
    """

    def __init__(self, seed: int = 0) -> None:
        self.random = random.Random(seed)
        self.now = parts.BEGIN_NS
        self.calls: Any = self
        self.tasks = Tasks(self)
        self.table = Table(
            lambda: self.tasks.current.pid, lambda: self.tasks.current.killed, lambda space: self.spaces.leave(space)
        )
        self.memory: dict[int, int] = {}  # processes that have a memory file open, by its descriptor, which is the real kernel's
        self.paths: dict[str, Listening] = {}  # sockets by their paths
        self.files = Files()
        self.programs: dict[str, Callable[[], object]] = {}  # what a process does that is started with such a command
        self.planned: list[tuple[int, int, Callable[[], None]]] = []
        self.count = 0
        self.listeners: list[Route] = []
        self.spaces = Spaces(self)
        self.network = Network(self)
        self.tasks.settle(self.spaces.first)
        self.parts = parts.parts_of(self)

    def part(self, name: str) -> Any:
        """As `contract.World` says; what is not simulated says so when it is asked."""
        return self.parts.get(name) or parts.Missing(name)

    # ---- Namespaces ----

    @property
    def here(self) -> Space:
        """The namespace of this thread."""
        return self.tasks.current.space or self.spaces.first

    def space_of(self, fd: int) -> Space:
        """The namespace that a descriptor is of."""
        return self.of(fd, Opened).space

    # ---- Time ----

    def at(self, ns: int, do: Callable[[], None]) -> None:
        """Have something happen at a time of the clock that never goes back."""
        self.count += 1
        heapq.heappush(self.planned, (max(ns, self.now), self.count, do))

    def happen(self) -> None:
        """Do what is planned next, at its time."""
        at, _, do = heapq.heappop(self.planned)
        self.now = max(self.now, at)
        do()

    def wait(self, until: float, is_over: Callable[[], bool] = never, files: Sequence[File] = ()) -> None:
        """Let time pass until something is so, or until then; `files` as `Tasks.wait` has it.  Stuck: neither will come."""
        self.tasks.wait(until, is_over, files)

    def wait_unless(self, until: float, is_over: Callable[[], bool], files: Sequence[File]) -> None:
        """The same for a call of the kernel: it does not wait if it need not."""
        if until > self.now and not is_over():
            self.tasks.wait(until, is_over, files)

    # ---- Descriptors ----

    def of(self, number: int, kind: type[Kind]) -> Kind:
        """OSError: it refers to something else, or to nothing."""
        file = self.table.get(number)
        if not isinstance(file, kind):
            raise refused(errno.EINVAL)
        return file

    def report(self, link: Link, deleted: bool) -> None:
        """To all who listen in its namespace: an interface has changed, or was deleted."""
        self.tell(link, message(DELETE_LINK if deleted else NEW_LINK, described(link, 0xFFFFFFFF), 0))

    def report_address(self, link: Link, address: bytes, deleted: bool) -> None:
        self.tell(link, address_report(link, address, deleted))

    def report_neighbour(self, link: Link, address: bytes, mac: bytes) -> None:
        self.tell(link, neighbour_report(link, address, mac))

    def report_root(self, link: Link) -> None:
        """The queueing discipline of an interface is another one."""
        self.tell(link, root_report(link))

    def report_queueing(self, link: Link, kind: int, content: bytes) -> None:
        self.tell(link, message(kind, content, 0))

    def tell(self, link: Link, packet: bytes) -> None:
        for each in self.listeners:
            if each.space is link.space:
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
        space = self.here if file.keeps is None else file.keeps
        link = file.link if isinstance(file, Tap) else space.named(argument[:16].rstrip(b"\0").decode())
        if link is None:
            raise refused(errno.EBADFD if isinstance(file, Tap) else errno.ENODEV)
        name = link.name.encode().ljust(16, b"\0")
        if number == GET_TAP:
            kind = IFF_TAP | IFF_NO_PI | (IFF_VNET_HDR if isinstance(file, Tap) and file.headers else 0)
            return name + struct.pack("=H22x", kind)
        if number == GET_HARDWARE:
            return name + struct.pack("=H6s16x", ETHERNET_KIND, link.mac)
        if number == SET_HARDWARE:
            link.set_mac(argument[18:24])
        elif number == GET_FLAGS:
            return name + struct.pack("=H22x", link.flags & 0xFFFF)
        elif number == SET_FLAGS:
            link.set_up(bool(struct.unpack_from("=H", argument, 16)[0] & IFF_UP))
        elif number == GET_MTU:
            return name + struct.pack("=i20x", link.mtu)
        elif number == SET_MTU:
            link.mtu = struct.unpack_from("=i", argument, 16)[0]
            link.change()
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
        link = tap.space.named(name)
        if link and link.tap:
            raise refused(errno.EBUSY)
        is_new = link is None
        link = link or tap.space.make(name)
        tap.attach(link, bool(flags & IFF_VNET_HDR))
        if not is_new:
            link.change()
        return argument

    # ---- Calls of the compiled parts: contract.Calls ----

    def now_ns(self) -> int:
        self.now += 50 + int(950 * self.tasks.random())
        self.tasks.maybe_pass()
        return self.now

    def watch_with(self, epoll: int, fd: int, place: int) -> int:
        return self._tried(lambda: self.of(epoll, Epoll).add(fd, self.table.get(fd), select.EPOLLIN | select.EPOLLET, place))

    def sleep_on(self, epoll: int, ns: int) -> list[int]:
        try:
            waited = self.of(epoll, Epoll)
        except OSError as error:  # a worker that cannot sleep would never stop
            self.tasks.failed(error)
            self.wait(self.now + max(ns, 1_000_000))
            return []
        self.wait_unless(self.now + ns, lambda: waited.ready() != 0, [waited])
        return [watched.data for watched, _ in waited.news(64) if watched.data]

    def poll_pair(self, fds: tuple[int, int], events: tuple[int, int], ns: int) -> tuple[int, int]:
        files = [self.table.get(fd) if fd >= 0 else None for fd in fds]

        def ready() -> tuple[int, int]:
            first, second = (file.ready() & (wanted | select.EPOLLERR) if file else 0 for file, wanted in zip(files, events))
            return first, second

        self.wait_unless(self.now + ns, lambda: any(ready()), [file for file in files if file])
        return ready()

    def read(self, fd: int, room: int) -> bytes | int:
        file = self.table.files.get(fd)
        return file.read(room) if file else -errno.EBADF

    def write(self, fd: int, data: bytes) -> int:
        file = self.table.files.get(fd)
        return file.write(data) if file else -errno.EBADF

    def send(self, fd: int, data: bytes) -> int:
        return self.write(fd, data)

    def recv(self, fd: int, room: int) -> bytes | int:
        return self.read(fd, room)

    def socket_drops(self, fd: int) -> int:
        file = self.table.files.get(fd)
        return file.dropped if isinstance(file, (Packets, Datagrams)) else 0

    def recvmmsg(self, fd: int, rooms: list[int]) -> list[tuple[bytes, bytes, bytes, bool]] | int:
        """An error after the first message is reported the next time."""
        found: list[tuple[bytes, bytes, bytes, bool]] = []
        for room in rooms:
            came = self.table.files[fd].take_message(room) if fd in self.table.files else -errno.EBADF
            if isinstance(came, int):
                return found or came
            found.append(came)
        return found

    def sendmmsg(self, fd: int, messages: list[tuple[bytes, bytes, bytes]]) -> int:
        for count, given in enumerate(messages):
            answer = self.table.files[fd].put_message(*given) if fd in self.table.files else -errno.EBADF
            if answer < 0:
                return count or answer
        return len(messages)

    def path_mtu_now(self, fd: int, peer: bytes) -> int:
        file = self.table.files.get(fd)
        try:
            if isinstance(file, Datagrams):
                file.connect(datagrams.read(peer))
                return file.path_mtu()
        except OSError:
            pass
        return 0

    def ioctl(self, fd: int, number: int, place: int) -> int:
        """`place` is the argument's address, or the argument itself where the request takes a number."""
        if number in (SET_PERSISTENT, SET_OFFLOADS, SET_HEADER_BYTES):
            return self._tried(lambda: self._set(fd, number, place))

        if number == GET_TAP_NAMESPACE:
            return self._tried(lambda: self._namespace_of(fd))
        if number == GET_KIND:
            return self._tried(lambda: self.spaces.kind(self.table.get(fd)))

        def ask() -> None:
            ctypes.memmove(place, self.request(fd, number, ctypes.string_at(place, 40)), 40)

        return self._tried(ask)

    def _namespace_of(self, fd: int) -> int:
        """A descriptor of the namespace in which an interface is."""
        link = self.of(fd, Tap).link
        if link is None:
            raise refused(errno.EBADFD)
        return self.table.add(kept_by(Opened(link.space), self.spaces.keep(link.space)))

    def _set(self, fd: int, number: int, value: int) -> None:
        """Offloads are taken and not used: frames come to this end as they were sent."""
        link = self.of(fd, Tap).link
        if link is None:
            raise refused(errno.EBADFD)
        if number == SET_PERSISTENT:
            link.is_persistent = bool(value)

    def _tried(self, do: Callable[[], int | None]) -> int:
        try:
            return do() or 0
        except OSError as error:
            return -(error.errno or errno.EIO)
