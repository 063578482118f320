"""HTB over netlink: classes of an interface, each with a rate, and u32 filters that assign a flow to one."""

import contextlib
import errno
import ipaddress
import struct
from typing import NamedTuple

from penstock_net.errors import SpecError
from penstock_net.vswitch.linux.netlink import (
    CREATE,
    DUMP,
    ECHO,
    EXCLUSIVE,
    REPLACE,
    Outgoing,
    SharedNetlink,
    attribute,
    attributes,
    lengthen_queue,
    outgoing,
)
from penstock_net.vswitch.linux.netns import NetNs, enter
from penstock_net.vswitch.linux.set_up import Interface
from penstock_net.vswitch.world import os, socket

NEW_QDISC, DELETE_QDISC, GET_QDISC, NEW_CLASS, DELETE_CLASS, GET_CLASS, NEW_FILTER, DELETE_FILTER = 36, 37, 38, 40, 41, 42, 44, 45
KIND, OPTIONS, STATS = 1, 2, 7
ROOT, HANDLE = 0xFFFFFFFF, 0x10000
CLASS, INIT, RATE64, CEIL64 = 1, 2, 6, 7
CLASSID, SELECTOR = 1, 5
BASIC_STATS, QUEUE_STATS = 1, 3
IPV4, IPV6 = 0x0800, 0x86DD
UNLIMITED = 12_500_000_000  # bytes per second: more than any interface takes
REST = 1  # the class of all packets that no filter takes
GLOBAL = (3, 10, REST)  # of the qdisc: version, divisor of quanta, the class REST
QUEUE_FRAMES = 100_000  # of the ring of the interface whose classes they are, at most
LEAST_QUEUE_FRAMES, SUPER_FRAME_MEMORY = (
    16_384,
    65_536,
)  # of them at least; bytes that one of several datagrams takes in the kernel
FRAME_MEMORY = 2304  # bytes that a frame of 1500 B takes in the kernel


class FiveTuple(NamedTuple):
    """A flow; without ports it is all fragments and other packets from the one address to the other."""

    protocol: int
    source: str
    source_port: int
    target: str
    target_port: int


def _keys(flow: FiveTuple) -> tuple[int, list[tuple[int, int, int]]]:
    """The Ethernet type, and (offset, mask, value) of the words of an IP header that are this flow's."""
    source, target = ipaddress.ip_address(flow.source), ipaddress.ip_address(flow.target)
    ports = flow.source_port << 16 | flow.target_port
    if source.version == 4:
        keys = [(8, 0x00FF0000, flow.protocol << 16), (12, 0xFFFFFFFF, int(source)), (16, 0xFFFFFFFF, int(target))]
        if ports:  # of a header without options, of no fragment
            keys += [(0, 0x0F000000, 0x05000000), (4, 0x3FFF, 0), (20, 0xFFFFFFFF, ports)]
        return IPV4, keys
    keys = [(4, 0x0000FF00, flow.protocol << 8)]
    for at, address in ((8, source), (24, target)):
        keys += [(at + i, 0xFFFFFFFF, int.from_bytes(address.packed[i : i + 4], "big")) for i in range(0, 16, 4)]
    return IPV6, keys + ([(40, 0xFFFFFFFF, ports)] if ports else [])


def _priority(minor: int, flow: FiveTuple) -> int:
    """Priority of a filter: those with ports come first."""
    return minor if flow.source_port or flow.target_port else 0x4000 + minor


def _statistics(content: bytes, wanted: int) -> bytes | None:
    """One of the statistics in the kernel's message about a class or qdisc."""
    statistics = dict(attributes(content, 20)).get(STATS, b"")
    return dict(attributes(statistics, 0)).get(wanted)


def frames_of_many_sockets() -> int:
    """Queue limit of a class, in frames, for thousands of sockets, bounded to an eighth of the memory."""
    return max(100_000, min(1_000_000, _memory() // 8 // FRAME_MEMORY))


def ring_frames() -> int:
    """Frames of an interface's ring: those of several datagrams fill a quarter of the memory at most while nobody reads them."""
    return max(LEAST_QUEUE_FRAMES, min(QUEUE_FRAMES, _memory() // 4 // SUPER_FRAME_MEMORY))


def _memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


class Htb:
    """The HTB classes of one interface, from `__enter__` to `__exit__`; class REST always exists, at first without a limit.

    Both replace the qdisc, and the kernel drops packets that are sent at that moment: enter before applications send.
    """

    def __init__(
        self,
        device: str,
        namespace: NetNs | None = None,
        queue_frames: int | None = None,
        interface: Interface | None = None,
    ) -> None:
        """interface: of this device, which stays open for as long; None: it is found, and asked by a socket of its own."""
        self.device, self.queue_frames, self.lost_before = device, queue_frames or ring_frames(), 0
        self.stays = False  # whether its queueing discipline stays: it ends with its interface
        self.replaced = False  # whether that of the interface is another program's by now
        self.interface = interface
        if interface:
            self.index, self.route = interface.index, interface.route
            return
        with enter(namespace):
            try:
                self.index = socket.if_nametoindex(device)
            except OSError:
                raise SpecError(
                    f"device {device!r}: does not exist in this namespace", remedy="create it first (open_port, or ip tuntap add)"
                ) from None
            self.route = SharedNetlink()

    def __enter__(self) -> "Htb":
        try:
            lengthen_queue(self.route, self.index, self.queue_frames)
            if self._is_new():
                self.set_class(REST, UNLIMITED)  # a switch that was killed may have left a limit
            else:
                with contextlib.suppress(OSError):  # there is nothing but the kernel's own
                    self._do(DELETE_QDISC, 0, ROOT)
                self._make()
            self.lost_before = outgoing(self.route, self.index).dropped
        except OSError as e:
            self.close()
            if e.errno == errno.ENOENT:
                raise SpecError(
                    f"device {self.device}: this kernel has no HTB", remedy="load sch_htb (CONFIG_NET_SCH_HTB)"
                ) from None
            raise SpecError(f"device {self.device}: {e.strerror}", remedy="rates of flows need CAP_NET_ADMIN") from None
        return self

    def __exit__(self, *error: object) -> None:
        try:
            with contextlib.suppress(OSError):  # the interface may be gone by then
                if not (self.stays or self.replaced):
                    self._do(DELETE_QDISC, HANDLE, ROOT)
        finally:
            self.close()

    def close(self) -> None:
        """Close its own socket; nothing is changed."""
        if not self.interface:
            self.route.close()

    def prepare(self) -> None:
        """Make the classes of an interface that is still down, for an `__enter__` after it is up; a refusal is left to that.

        So no packet is lost, the kernel makes no queue of its own for it, and nobody waits for all processors to leave that one.
        """
        with contextlib.closing(self), contextlib.suppress(OSError):
            lengthen_queue(self.route, self.index, self.queue_frames)
            self._make()

    def _make(self) -> None:
        start = attribute(INIT, struct.pack("=5I", *GLOBAL, 0, 0))
        self._do(NEW_QDISC, HANDLE, ROOT, attribute(KIND, b"htb\0"), attribute(OPTIONS, start), flags=CREATE | EXCLUSIVE)
        self.set_class(REST, UNLIMITED)
        self.set_room(REST, frames_of_many_sockets())

    def _is_new(self) -> bool:
        """Whether it is as `prepare` has made it, but perhaps for a limit of REST: nothing waits or was dropped."""
        try:
            ((_, content),) = self.route.ask(GET_QDISC, self._about(HANDLE, ROOT), ECHO)
            options = dict(attributes(dict(attributes(content, 20)).get(OPTIONS, b""), 0))
            return options.get(INIT, b"")[4:12] == struct.pack("=2I", *GLOBAL[1:]) and self.waiting() == {REST: (0, 0, 0)}
        except OSError:
            return False

    def _do(self, kind: int, handle: int, parent: int, *content: bytes, info: int = 0, flags: int = 0) -> None:
        self.route.do(kind, self._about(handle, parent, info) + b"".join(content), flags)

    def _about(self, handle: int, parent: int, info: int = 0) -> bytes:
        return struct.pack("=BxxxiIII", 0, self.index, handle, parent, info)

    def set_class(self, minor: int, rate: int) -> None:
        """Create a class, or change its rate (bytes/s); its queue is kept."""
        ticks = max(2000, rate // 500) * 10**9 // rate >> 6  # a burst of 2 ms; a tick is 64 ns
        spec = struct.pack("=BBHhHI", 0, 1, 0, -1, 0, min(rate, 0xFFFFFFFF))
        burst = min(ticks, 0xFFFFFFFF)
        content = attribute(CLASS, spec + spec + struct.pack("=5I", burst, burst, 60_000, 0, 0))
        exact = struct.pack("=Q", rate)
        self._do(
            NEW_CLASS,
            HANDLE + minor,
            HANDLE,
            attribute(KIND, b"htb\0"),
            attribute(OPTIONS, content, attribute(RATE64, exact), attribute(CEIL64, exact)),
            flags=CREATE | REPLACE,
        )

    def set_room(self, minor: int, frames: int) -> None:
        """Set the queue limit of a class in frames; the default is that of the interface."""
        handle, options = (0x100 + minor) << 16, attribute(OPTIONS, struct.pack("=I", frames))
        self._do(NEW_QDISC, handle, HANDLE + minor, attribute(KIND, b"pfifo\0"), options, flags=CREATE | REPLACE)

    def delete_class(self, minor: int) -> int:
        """Delete a class, to which no filter assigns packets; how many were queued in it, which are lost.

        The kernel says so itself: between a look at `waiting` and the deletion some could still pass.
        """
        ((_, content),) = self.route.ask(DELETE_CLASS, self._about(HANDLE + minor, HANDLE), ECHO)
        numbers = _statistics(content, QUEUE_STATS)
        return int(struct.unpack_from("=I", numbers)[0]) if numbers else 0

    def waiting(self) -> dict[int, tuple[int, int, int]]:
        """Bytes and packets queued in each class, and packets that it has dropped.  OSError: the interface or its HTB is gone."""
        found = {}
        for _, content in self.route.ask(GET_CLASS, self._about(0, 0), DUMP):
            (handle,) = struct.unpack_from("=I", content, 8)
            if numbers := _statistics(content, QUEUE_STATS):
                frames, size, dropped = struct.unpack_from("=3I", numbers)
                found[handle & 0xFFFF] = (size, frames, dropped)
        if REST not in found:
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
        return found

    def add_filter(self, minor: int, flow: FiveTuple) -> None:
        """Assign the packets of a flow to a class from now on."""
        kind, keys = _keys(flow)
        selector = struct.pack("=BBBxHHhhI", 1, 0, len(keys), 0, 0, 0, 0, 0)
        for offset, mask, value in keys:
            selector += struct.pack(">II", mask, value) + struct.pack("=ii", offset, 0)
        content = attribute(CLASSID, struct.pack("=I", HANDLE + minor)) + attribute(SELECTOR, selector)
        self._do(
            NEW_FILTER,
            0,
            HANDLE,
            attribute(KIND, b"u32\0"),
            attribute(OPTIONS, content),
            info=_priority(minor, flow) << 16 | socket.htons(kind),
            flags=CREATE | EXCLUSIVE,
        )

    def delete_filter(self, minor: int, flow: FiveTuple) -> None:
        """Assign the packets of a flow to class REST again."""
        self._do(DELETE_FILTER, 0, HANDLE, info=_priority(minor, flow) << 16 | socket.htons(_keys(flow)[0]))

    def outgoing(self) -> Outgoing:
        """Packets read from the interface, and packets dropped because its ring was full."""
        found = outgoing(self.route, self.index)
        return found._replace(dropped=found.dropped - self.lost_before)

    def passed(self) -> tuple[int, int]:
        """Bytes and segments that the classes have handed to the interface."""
        ((_, content),) = self.route.ask(GET_QDISC, self._about(HANDLE, ROOT), ECHO)
        numbers = _statistics(content, BASIC_STATS)
        size, segments = struct.unpack_from("=QI", numbers) if numbers else (0, 0)
        return size, segments
