"""Interfaces of the simulated kernel: TAPs with their rings, and packet sockets on them."""

import errno
import select
import struct
from collections import deque
from collections.abc import Callable, Iterator

from penstock_net.vswitch.world.simulated.descriptors import File, said
from penstock_net.vswitch.world.simulated.queueing import Queueing

IFF_UP, IFF_BROADCAST, IFF_RUNNING, IFF_MULTICAST, IFF_LOWER_UP = 1, 2, 0x40, 0x1000, 0x10000
QUEUE_FRAMES, MTU, ETHERNET, HEADER = 1000, 1500, 14, 10
DRIVER_FRAMES = 64  # that the driver of an interface with a cable takes before they have left
VLAN, EVERY, INET = 0x8100, 0x0003, 2
SOL_PACKET, PACKET_AUXDATA, PACKET_VNET_HDR, PACKET_QDISC_BYPASS = 263, 8, 15, 20
STATUS_VLAN_VALID, STATUS_TPID_VALID = 0x10, 0x40
LOOPBACK = ((bytes([127, 0, 0, 1]), 8), (bytes(15) + b"\1", 128))


class Ring:
    """The kernel's ring of pointers: room is given back 16 frames at a time, so it may hold a few less."""

    def __init__(self, size: int) -> None:
        self.size, self.slots = size, dict[int, bytes]()  # those that are taken: a ring of 100,000 has a few frames
        self.batch = 16 if size >= 32 else 1
        self.producer = self.head = self.tail = 0

    def put(self, frame: bytes) -> bool:
        """Whether there was room."""
        if not self.size or self.producer in self.slots:
            return False
        self.slots[self.producer] = frame
        self.producer = (self.producer + 1) % self.size
        return True

    def take(self) -> bytes | None:
        frame = self.slots.get(self.head)
        if frame is None:
            return None
        after = self.head + 1
        if after - self.tail >= self.batch or after >= self.size:
            for i in range(self.tail, after):
                del self.slots[i]
            self.tail = after
        if after >= self.size:
            after = self.tail = 0
        self.head = after
        return frame

    def is_empty(self) -> bool:
        return self.head not in self.slots

    def count(self) -> int:
        """Frames that can be taken."""
        return len(self.slots) - (self.head - self.tail)

    def resized(self, size: int) -> "Ring":
        """Another one with the frames of this one; those for which it has no room are gone, and nobody counts them."""
        new = Ring(size)
        while (frame := self.take()) is not None:
            new.put(frame)
        return new


class Link:
    """An interface. `change` after anything that netlink reports."""

    def __init__(self, space: "Space", index: int, name: str, mac: bytes) -> None:
        self.space, self.index, self.name, self.mac = space, index, name, mac
        self.up, self.mtu, self.queue_frames, self.is_persistent = False, MTU, QUEUE_FRAMES, False
        self.tap: Tap | None = None
        self.is_wired = False  # joined to the network between machines, or to a cable
        self.cable: Callable[[bytes], None] | None = None  # takes what goes out,
        self.is_stopped, self.held = False, deque[bytes]()  # unless the other end takes nothing: then it is in the driver's ring
        self.sockets: list[Packets] = []
        self.frames_in = self.bytes_in = self.frames_out = self.bytes_out = self.dropped_in = self.dropped_out = 0
        self.addresses: dict[bytes, int] = {}  # lengths of their prefixes
        self.routes: set[tuple[int, int, bytes]] = set()  # out of it: the family, the length of the prefix, and the prefix
        self.neighbours: dict[bytes, bytes] = {}  # Ethernet addresses of those that are permanent
        self.purged = 0  # frames that were in its ring when it was deleted, or made shorter: nobody counts them
        self.program: Callable[[bytes], None] | None = None  # takes what comes in
        self.queueing: Queueing | None = None  # what somebody has set as its queueing discipline

    def change(self) -> None:
        """Something has changed of it that netlink reports."""
        self.space.report(self, False)

    def add_address(self, address: bytes, prefix: int) -> None:
        self.addresses[address] = prefix
        self.space.report_address(self, address, False)

    def remove_address(self, address: bytes, prefix: int) -> bool:
        """Whether it had it with this length; routes go with the last one of IPv4."""
        if self.addresses.get(address) != prefix:
            return False
        del self.addresses[address]
        if len(address) == 4 and not any(len(each) == 4 for each in self.addresses):
            self.routes = {route for route in self.routes if route[0] != INET}
        self.space.report_address(self, address, True)
        return True

    @property
    def flags(self) -> int:
        """As netlink reports them."""
        running = IFF_RUNNING | IFF_LOWER_UP if self.up and (self.tap or self.is_wired) else 0
        return IFF_BROADCAST | IFF_MULTICAST | (IFF_UP if self.up else 0) | running

    def set_up(self, up: bool) -> None:
        if self.up != up:
            self.up = up
            self.change()
            if up and self.tap:
                self.tap.happened(select.EPOLLOUT)
            for address, prefix in LOOPBACK if up and self.name == "lo" else ():
                if address not in self.addresses:
                    self.add_address(address, prefix)
            if not up:
                self.purged += len(self.held)
                self.held.clear()
                self.neighbours.clear()
                self.routes.clear()
                for address, prefix in [each for each in self.addresses.items() if len(each[0]) == 16]:
                    self.remove_address(address, prefix)
                if self.queueing:
                    self.space.lost_in_classes += self.queueing.empty()
                for each in self.sockets:
                    each.failed(errno.ENETDOWN)

    def set_mac(self, mac: bytes) -> None:
        self.mac = mac
        self.neighbours.clear()
        self.change()

    def set_queue(self, frames: int) -> None:
        self.queue_frames = frames
        if self.tap:
            before, self.tap.ring = self.tap.ring.count(), self.tap.ring.resized(frames)
            self.purged += before - self.tap.ring.count()
        self.change()

    def transmit(self, frame: bytes) -> None:
        """A frame that a program of this machine sends: into a class, or into the ring."""
        if self.queueing is None:
            self.into_ring(frame)
        else:
            self.queueing.put(frame)

    def drop_queueing(self) -> None:
        """There is none any more, but for the kernel's own."""
        if self.queueing:
            self.space.lost_in_classes += self.queueing.empty()
            self.queueing = None

    def resolved(self, address: bytes, mac: bytes) -> None:
        """The kernel has found who has an address; who is permanent needs no search."""
        if address not in self.neighbours:
            self.space.report_neighbour(self, address, mac)

    def into_ring(self, frame: bytes) -> bool:
        """Into the ring, or out by the cable; else it is dropped and counted."""
        if self.cable and not (self.is_stopped and len(self.held) == DRIVER_FRAMES):
            self.held.append(frame)
            if not self.is_stopped:
                self.go()
        elif self.tap and self.tap.ring.put(bytes(HEADER) + frame if self.tap.headers else frame):
            self.tap.happened(select.EPOLLIN)
        else:
            self.dropped_out += 1
            return False
        return True

    def go(self) -> None:
        """The other end of the cable takes frames again."""
        self.is_stopped = False
        while self.cable and self.held:
            frame = self.held.popleft()
            self.frames_out += 1
            self.bytes_out += len(frame)
            self.cable(frame)

    def receive(self, frame: bytes) -> None:
        """A frame that comes from the other end."""
        self.frames_in += 1
        self.bytes_in += len(frame) - ETHERNET
        if self.program:
            self.program(frame)
        protocol = int.from_bytes(frame[12:14], "big")
        for each in self.sockets:
            if each.protocol in (protocol, EVERY):
                each.arrived(frame)

    def vanish(self) -> None:
        """The interface is deleted."""
        self.set_up(False)
        self.drop_queueing()
        if self.tap:
            tap, self.tap = self.tap, None
            tap.link = None
            self.purged += tap.ring.count()
            tap.happened(select.EPOLLERR)
        self.leave_sockets()

    def leave_sockets(self) -> None:
        """It is not there any more for the sockets on it."""
        for each in self.sockets:
            each.lost = True
        self.sockets = []


class Tap(File):
    """/dev/net/tun: the other end of an interface, once it has one."""

    def __init__(self, space: "Space") -> None:
        super().__init__()
        self.link: Link | None = None
        self.ring, self.headers, self.space = Ring(0), False, space

    def attach(self, link: Link, headers: bool) -> None:
        self.link, self.headers, self.ring = link, headers, Ring(link.queue_frames)
        link.tap = self

    def ready(self) -> int:
        if self.link is None:
            return select.EPOLLERR
        return (0 if self.ring.is_empty() else select.EPOLLIN) | (select.EPOLLOUT if self.link.up else 0)

    def read(self, room: int) -> bytes | int:
        if self.link is None:
            return -errno.EBADFD
        frame = self.ring.take()
        if frame is None:
            return -errno.EAGAIN
        self.link.frames_out += 1
        self.link.bytes_out += len(frame) - (HEADER if self.headers else 0)
        return frame[:room]

    def write(self, data: bytes) -> int:
        if self.link is None:
            return -errno.EBADFD
        frame = data[HEADER:] if self.headers else data
        if len(frame) < ETHERNET:
            return -errno.EINVAL
        if not self.link.up:
            self.link.dropped_in += 1
            return -errno.EIO
        self.link.receive(frame)
        return len(data)

    def ended(self) -> None:
        if self.link and self.link.is_persistent:
            self.link.purged += self.ring.count()
            link, self.link = self.link, None
            link.tap = None
            link.change()
        elif self.link:
            self.link.space.delete(self.link)


class Packets(File):
    """A packet socket on one interface, of one protocol; it sees what comes in."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.link: Link | None = None
        self.protocol, self.room, self.error, self.lost = 0, room, 0, False
        self.headers = self.tells_tags = self.passes_by = False  # PACKET_VNET_HDR, PACKET_AUXDATA, PACKET_QDISC_BYPASS
        self.frames: deque[bytes] = deque()
        self.held = self.dropped = 0

    def bind(self, link: Link, protocol: int) -> None:
        self.unbind()
        self.link, self.protocol, self.lost = link, protocol, False
        link.sockets.append(self)
        if not link.up:
            self.failed(errno.ENETDOWN)

    def unbind(self) -> None:
        if self.link and self in self.link.sockets:
            self.link.sockets.remove(self)

    def failed(self, error: int) -> None:
        self.error = error
        self.happened(select.EPOLLERR)

    def arrived(self, frame: bytes) -> None:
        if self.held >= self.room:
            self.dropped += 1
            return
        self.frames.append(frame)
        self.held += len(frame)
        self.happened(select.EPOLLIN)

    def ready(self) -> int:
        return select.EPOLLOUT | (select.EPOLLIN if self.frames else 0) | (select.EPOLLERR if self.error else 0)

    def option(self, option: int, value: int) -> None:
        if option == PACKET_VNET_HDR:
            self.headers = bool(value)
        elif option == PACKET_AUXDATA:
            self.tells_tags = bool(value)
        elif option == PACKET_QDISC_BYPASS:
            self.passes_by = bool(value)

    def read(self, room: int) -> bytes | int:
        found = self.take_message(room)
        return found if isinstance(found, int) else found[0]

    def take_message(self, room: int) -> tuple[bytes, bytes, bytes, bool] | int:
        """The kernel takes the outer tag out of a frame, and tells of it beside."""
        if self.error:
            error, self.error = self.error, 0
            return -error
        if not self.frames:
            return -errno.EAGAIN
        frame = self.frames.popleft()
        self.held -= len(frame)
        status = tag = 0
        if frame[12:14] == VLAN.to_bytes(2, "big"):
            status, tag = STATUS_VLAN_VALID | STATUS_TPID_VALID, int.from_bytes(frame[14:16], "big")
            frame = frame[:12] + frame[16:]
        told = struct.pack("=IIIHHHH", status, len(frame), min(room, len(frame)), 0, ETHERNET, tag, VLAN if status else 0)
        control = said(SOL_PACKET, PACKET_AUXDATA, told) if self.tells_tags else b""
        data = bytes(HEADER) + frame if self.headers else frame
        return data[:room], b"", control, len(data) > room

    def put_message(self, data: bytes, name: bytes, control: bytes) -> int:
        return self.write(data)

    def write(self, data: bytes) -> int:
        if self.link is None or self.lost:
            return -errno.ENXIO
        if not self.link.up:
            return -errno.ENETDOWN
        if self.headers:
            sent = self.write_frame(data[HEADER:]) if len(data) >= HEADER else -errno.EINVAL
            return sent if sent < 0 else len(data)
        return self.write_frame(data)

    def write_frame(self, data: bytes) -> int:
        assert self.link
        if len(data) < ETHERNET:
            return -errno.EINVAL
        if len(data) > self.link.mtu + ETHERNET + (4 if data[12:14] == VLAN.to_bytes(2, "big") else 0):
            return -errno.EMSGSIZE
        if self.passes_by:
            return len(data) if self.link.into_ring(data) else -errno.ENOBUFS
        self.link.transmit(data)
        return len(data)

    def ended(self) -> None:
        self.unbind()
        if self.keeps:
            self.keeps.purged += len(self.frames)


class Space:
    """A network namespace: its interfaces. `report(link, deleted)` is called when one has changed, `report_address(link, address,
    deleted)` when one has got or lost an address.
    """

    def __init__(
        self,
        address: Callable[[], bytes],
        report: Callable[[Link, bool], None],
        report_address: Callable[[Link, bytes, bool], None],
    ) -> None:
        self.links: dict[int, Link] = {}
        self.last, self.address, self.report, self.report_address = 0, address, report, report_address
        self.report_neighbour: Callable[[Link, bytes, bytes], None] = lambda link, address, mac: None
        self.senders: set[int] = set()  # UDP ports of sockets that are connected
        self.lost_in_classes = 0  # frames that were in a class when it was removed
        self.number = self.keepers = 0  # the former tells it from all others; how many keep it
        self.programs: dict[str, Callable[[bytes], None]] = {}  # by the name of the interface that they use, whenever it is there
        self.purged = 0  # frames in rings of interfaces, and in packet sockets, that are gone: nobody counts them
        self.make("lo").mtu = 65536

    def named(self, name: str) -> Link | None:
        for link in self.links.values():
            if link.name == name:
                return link
        return None

    def make(self, name: str) -> Link:
        self.last += 1  # never used again
        link = Link(self, self.last, name, self.address())
        self._take(link)
        return link

    def _take(self, link: Link) -> None:
        link.program = self.programs.get(link.name)
        self.links[link.index] = link
        self.report(link, False)

    def delete(self, link: Link) -> None:
        link.vanish()
        self.purged += link.purged
        del self.links[link.index]
        self.report(link, True)

    def move(self, link: Link, other: "Space") -> bool:
        """Move an interface to another namespace, where it is down and has no addresses; False: there is one of its name."""
        if other.named(link.name):
            return False
        link.set_up(False)
        link.drop_queueing()
        link.leave_sockets()
        for address, prefix in list(link.addresses.items()):
            link.remove_address(address, prefix)
        del self.links[link.index]
        self.report(link, True)
        if link.index in other.links:
            other.last += 1
            link.index = other.last
        link.space = other
        other.last = max(other.last, link.index)
        other._take(link)
        return True

    def __iter__(self) -> Iterator[Link]:
        return iter(list(self.links.values()))
