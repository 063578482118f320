"""Netlink of the simulated kernel: requests about interfaces, and reports of what happens to them."""

import ctypes
import errno
import functools
import select
import struct
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from penstock_net.vswitch.world.simulated.descriptors import File, refused
from penstock_net.vswitch.world.simulated.links import IFF_UP, Link, Space
from penstock_net.vswitch.world.simulated.queueing import ROOT, Queueing

if TYPE_CHECKING:
    from penstock_net.vswitch.world.simulated.kernel import Simulated

ERROR, DONE, NEW_LINK, DELETE_LINK, GET_LINK = 2, 3, 16, 17, 18
NEW_ADDRESS, DELETE_ADDRESS, GET_ADDRESS, NEW_NEIGHBOUR, DELETE_NEIGHBOUR, GET_NEIGHBOUR = 20, 21, 22, 28, 29, 30
NEW_ROUTE, DELETE_ROUTE, GET_ROUTE, MAIN, TARGET, OUT_OF = 24, 25, 26, 254, 1, 4  # the last two: attributes of a route
SET_NEIGHBOUR_TABLE = 67
NEW_QDISC, DELETE_QDISC, GET_QDISC, NEW_CLASS, DELETE_CLASS, GET_CLASS, NEW_FILTER, DELETE_FILTER = 36, 37, 38, 40, 41, 42, 44, 45
LAST_OF_QUEUEING, KIND, OPTIONS, STATISTICS, REACHABLE = DELETE_FILTER, 1, 2, 7, 2
SOCKET_BY_FAMILY, MEMORY = 20, 7  # of SOCK_DIAG
INET, INET6, PERMANENT, REPLACE = 2, 10, 0x80, 0x100
OF_NEIGHBOUR, ITS_HARDWARE, OF_INTERFACE = 1, 2, 8  # attributes of a neighbour
ACKNOWLEDGE, ECHO, MANY, DUMP = 4, 8, 2, 0x300
ADDRESS, NAME, MTU, QUEUE_LENGTH, LINK_INFO, STATS64, NAMESPACE_FD = 1, 3, 4, 13, 18, 23, 28
OF_LINKS = 1  # a group
TRUESIZE = 2304  # bytes of a receive buffer that a report takes, about
LEAST_ROOM = 2304
HEAD = struct.Struct("=HH")  # of an attribute
MESSAGE, OF_LINK = struct.Struct("=IHHII"), struct.Struct("=BBHiII")
# Attributes of an interface: the length of its queue, its MTU, its Ethernet address, and its counters.
VALUES = struct.Struct("=HHI HHI HH6s2x HH8Q136x")


def _attribute(kind: int, value: bytes) -> bytes:
    return HEAD.pack(4 + len(value), kind) + value + bytes(-len(value) % 4)


def _attributes(content: bytes, at: int = 16) -> Iterator[tuple[int, bytes]]:
    while at + 4 <= len(content):
        length, kind = HEAD.unpack_from(content, at)
        if length < 4:
            return
        yield kind & 0x3FFF, content[at + 4 : at + length]
        at += length + -length % 4


IS_TUN = _attribute(LINK_INFO, _attribute(KIND, b"tun\0"))


def message(kind: int, content: bytes, serial: int, flags: int = 0) -> bytes:
    return MESSAGE.pack(16 + len(content), kind, flags, serial, 0) + content


@functools.lru_cache(256)
def _name(name: str) -> bytes:
    return _attribute(NAME, name.encode() + b"\0")


def described(link: Link, changed: int = 0) -> bytes:
    """An interface, as the kernel reports it."""
    counts = (link.frames_in, link.frames_out, link.bytes_in, link.bytes_out, 0, 0, link.dropped_in, link.dropped_out)
    plain = 8, QUEUE_LENGTH, link.queue_frames, 8, MTU, link.mtu, 10, ADDRESS, link.mac
    found = OF_LINK.pack(0, 0, 1, link.index, link.flags, changed) + _name(link.name)
    found += VALUES.pack(*plain, 4 + 25 * 8, STATS64, *counts)
    return found + IS_TUN if link.tap or link.is_persistent else found


def _address(link: Link, address: bytes, prefix: int) -> bytes:
    family = INET if len(address) == 4 else INET6
    return struct.pack("=BBBBI", family, prefix, 0x80, 0, link.index) + _attribute(1, address) + _attribute(2, address)


def address_report(link: Link, address: bytes, deleted: bool) -> bytes:
    """That an interface has got an address, or has lost one."""
    return message(DELETE_ADDRESS if deleted else NEW_ADDRESS, _address(link, address, link.addresses.get(address, 0)), 0)


def neighbour_report(link: Link, address: bytes, mac: bytes) -> bytes:
    """That the kernel has found who has an address."""
    return message(NEW_NEIGHBOUR, _neighbour(link, address, mac, REACHABLE), 0)


def _route(link: Link, family: int, length: int, target: bytes) -> bytes:
    values = (_attribute(TARGET, target) if length else b"") + _attribute(OUT_OF, struct.pack("=I", link.index))
    return struct.pack("=BBBBBBBBI", family, length, 0, 0, MAIN, 3, 253, 1, 0) + values


def _about(link: Link, handle: int, parent: int, *attributes: bytes) -> bytes:
    return struct.pack("=BxxxiIII", 0, link.index, handle, parent, 0) + b"".join(attributes)


def _root(link: Link) -> bytes:
    """The queueing discipline of an interface."""
    found = link.queueing
    assert found
    basic = _attribute(1, struct.pack("=QI4x", found.passed_bytes, found.passed))
    options = _attribute(OPTIONS, _attribute(2, struct.pack("=5I", 0x30011, 10, found.rest, 0, 0)))
    return _about(link, found.handle, ROOT, _attribute(KIND, found.kind.encode() + b"\0"), options, _attribute(STATISTICS, basic))


def root_report(link: Link) -> bytes:
    return message(NEW_QDISC, _root(link), 0)


def _class(link: Link, found: Queueing, minor: int) -> bytes:
    each = found.classes[minor]
    numbers = struct.pack("=5I", len(each.frames), each.bytes, each.dropped, 0, 0)
    return _about(link, found.handle + minor, ROOT, _attribute(STATISTICS, _attribute(3, numbers)))


def _neighbour(link: Link, address: bytes, mac: bytes, state: int = PERMANENT) -> bytes:
    family = INET if len(address) == 4 else INET6
    kinds = _attribute(OF_NEIGHBOUR, address) + _attribute(ITS_HARDWARE, mac)
    return struct.pack("=BxxxiHBB", family, link.index, state, 0, 1) + kinds


@functools.lru_cache(64)
def _instructions(program: bytes) -> tuple[tuple[int, int, int, int], ...]:
    return tuple(struct.iter_unpack("=HBBI", program))


def passes(program: bytes, packet: bytes) -> bool:
    """Whether a filter of classic BPF keeps a packet: loads at fixed places, comparisons and returns."""
    at = value = 0
    instructions = _instructions(program)
    while True:
        code, yes, no, number = instructions[at]
        at += 1
        if code in (0x28, 0x20):
            size = 2 if code == 0x28 else 4
            if number + size > len(packet):
                return False
            value = int.from_bytes(packet[number : number + size], "big")
        elif code == 0x15:
            at += yes if value == number else no
        elif code == 0x06:
            return number > 0
        else:
            raise NotImplementedError(f"classic BPF, code {code:#x}")


class Route(File):
    """A netlink socket of the family ROUTE."""

    def __init__(self, world: "Simulated", room: int) -> None:
        super().__init__()
        self.world, self.space_of = world, world.space_of
        self.space, self.room, self.groups, self.error, self.program = world.here, room, 0, 0, b""
        self.queue: deque[bytes] = deque()

    def attach_filter(self, program: bytes) -> None:
        """From a struct sock_fprog of this process."""
        count, place = struct.unpack("@HP", program)
        self.program = ctypes.string_at(place, 8 * count)

    def ready(self) -> int:
        return select.EPOLLOUT | (select.EPOLLIN if self.queue else 0) | (select.EPOLLERR if self.error else 0)

    def report(self, packet: bytes) -> None:
        """To a group that it listens to: what does not fit is lost, and the next reception says so."""
        if self.program and not passes(self.program, packet):
            return
        if len(self.queue) * TRUESIZE >= self.room:
            self.overrun()
        else:
            self._put(packet)

    def overrun(self) -> None:
        """Reports were lost."""
        self.error = errno.ENOBUFS
        self.happened(select.EPOLLERR)

    def ended(self) -> None:
        if self in self.world.listeners:
            self.world.listeners.remove(self)

    def _put(self, packet: bytes) -> None:
        self.queue.append(packet)
        self.happened(select.EPOLLIN)

    def read(self, room: int) -> bytes | int:
        if self.error:
            error, self.error = self.error, 0
            return -error
        return self.queue.popleft()[:room] if self.queue else -errno.EAGAIN

    def write(self, data: bytes) -> int:
        """One request; its answer is there at once."""
        length, kind, flags, serial, _ = MESSAGE.unpack_from(data)
        content = data[16:length]
        try:
            answers = self._answers(kind, content, flags & DUMP == DUMP)
        except OSError as error:
            self._put(message(ERROR, struct.pack("=i", -(error.errno or 0)) + data[:16], serial))
            return len(data)
        if flags & DUMP == DUMP:
            rows = b"".join(message(kind - 2, each, serial, MANY) for each in answers)
            self._put(rows + message(DONE, bytes(4), serial, MANY))
            return len(data)
        if kind == DELETE_CLASS:  # as it was before, if that is wanted
            answers, kind = answers if flags & ECHO else [], kind + 2
        for each in answers:
            self._put(message(kind - 2, each, serial))
        if flags & ACKNOWLEDGE:
            self._put(message(ERROR, bytes(4) + data[:16], serial))
        return len(data)

    def _answers(self, kind: int, content: bytes, all_of_them: bool) -> list[bytes]:
        """What a request asks for, as messages of the kind that is two less."""
        if kind == GET_LINK and all_of_them:
            return [described(link) for link in self.space]
        if kind == GET_LINK:
            return [described(self._meant(content))]
        if kind == DELETE_LINK:
            self.space.delete(self._meant(content))
        elif kind == NEW_LINK:
            self._set(self._meant(content), content)
        elif kind == GET_ADDRESS:
            links = [link for link in self.space if link.index == (struct.unpack_from("=I", content, 4)[0] or link.index)]
            return [_address(link, *each) for link in links for each in link.addresses.items()]
        elif kind in (NEW_ADDRESS, DELETE_ADDRESS):
            self._change_address(content, kind == DELETE_ADDRESS)
        elif kind in (NEW_ROUTE, DELETE_ROUTE, GET_ROUTE):
            return self._routes(kind, content)
        elif kind == GET_NEIGHBOUR:
            index = struct.unpack("=I", dict(_attributes(content, 12)).get(OF_INTERFACE, bytes(4)))[0]
            links = [link for link in self.space if index in (0, link.index)]
            return [_neighbour(link, *each) for link in links for each in link.neighbours.items()]
        elif kind in (NEW_NEIGHBOUR, DELETE_NEIGHBOUR):
            self._neighbour(self._meant(content), dict(_attributes(content, 12)), kind == DELETE_NEIGHBOUR)
        elif NEW_QDISC <= kind <= LAST_OF_QUEUEING:
            return self._queueing(kind, content, all_of_them)
        elif kind != SET_NEIGHBOUR_TABLE:  # how many frames wait for an address: none is resolved here
            raise OSError(errno.EOPNOTSUPP, f"request {kind}")
        return []

    def _queueing(self, kind: int, content: bytes, all_of_them: bool) -> list[bytes]:
        """About queueing disciplines, classes and filters of an interface."""
        _, index, handle, parent, info = struct.unpack_from("=BxxxiIII", content)
        values = dict(_attributes(content, 20))
        options = dict(_attributes(values.get(OPTIONS, b""), 0))
        if kind == GET_QDISC and all_of_them:
            return [_root(link) for link in self.space if link.queueing]
        link = self.space.links.get(index)
        if link is None:
            raise refused(errno.ENODEV)
        found = link.queueing
        if kind == NEW_QDISC and parent == ROOT:
            self._set_root(link, values, options, handle)
            return []
        if found is None:
            if kind == GET_CLASS:
                return []
            raise refused(errno.ENOENT)
        if kind == GET_QDISC:
            if found.handle != handle:
                raise refused(errno.EINVAL)
            return [_root(link)]
        if kind == DELETE_QDISC:
            gone = _root(link)
            link.drop_queueing()
            self.world.report_queueing(link, DELETE_QDISC, gone)
        elif kind == GET_CLASS:
            return [_class(link, found, minor) for minor in found.classes]
        elif kind == NEW_QDISC:
            found.classes[parent & 0xFFFF].limit = struct.unpack_from("=I", values[OPTIONS])[0]
        elif kind == NEW_CLASS:
            found.set_class(handle & 0xFFFF, options)
        elif kind == DELETE_CLASS:
            was = [_class(link, found, handle & 0xFFFF)] if handle & 0xFFFF in found.classes else []
            self.space.lost_in_classes += found.delete_class(handle & 0xFFFF)
            return was
        elif kind == NEW_FILTER:
            found.add_filter(info, options)
        elif kind == DELETE_FILTER:
            found.delete_filter(info)
        return []

    def _set_root(self, link: Link, values: dict[int, bytes], options: dict[int, bytes], handle: int) -> None:
        if link.queueing and link.queueing.handle == handle:
            raise refused(errno.EEXIST)
        link.drop_queueing()
        rest = struct.unpack_from("=3I", options[2])[2] if 2 in options else 0
        name = values[KIND].rstrip(b"\0").decode()
        link.queueing = Queueing(self.world, name, handle, rest, link.queue_frames, link.into_ring)
        self.world.report_root(link)

    def _neighbour(self, link: Link, values: dict[int, bytes], deleted: bool) -> None:
        if deleted and link.neighbours.pop(values[OF_NEIGHBOUR], None) is None:
            raise OSError(errno.ENOENT, "no such neighbour")
        if not deleted:
            link.neighbours[values[OF_NEIGHBOUR]] = values[ITS_HARDWARE]

    def _change_address(self, content: bytes, deleted: bool) -> None:
        link, address = self._numbered(struct.unpack_from("=I", content, 4)[0]), dict(_attributes(content, 8))[1]
        if not deleted:
            link.add_address(address, content[1])
        elif not link.remove_address(address, content[1]):
            raise refused(errno.EADDRNOTAVAIL)

    def _routes(self, kind: int, content: bytes) -> list[bytes]:
        """About routes out of an interface; those that its addresses bring with them are not listed."""
        family, length, values = content[0], content[1], dict(_attributes(content, 12))
        link = self._numbered(struct.unpack("=I", values[OUT_OF])[0])
        if kind == GET_ROUTE:
            return [_route(link, *each) for each in sorted(link.routes) if each[0] == family]
        asked = (family, length, values.get(TARGET, b""))
        if kind == NEW_ROUTE and not link.up:
            raise refused(errno.ENETDOWN)
        if kind == NEW_ROUTE:  # in the place of that out of another one
            for each in self.space:
                each.routes.discard(asked)
            link.routes.add(asked)
        elif asked not in link.routes:
            raise refused(errno.ESRCH)
        else:
            link.routes.discard(asked)
        return []

    def _numbered(self, index: int) -> Link:
        """OSError: there is no such interface."""
        if index not in self.space.links:
            raise refused(errno.ENODEV)
        return self.space.links[index]

    def _meant(self, content: bytes) -> Link:
        """OSError: there is no such interface."""
        if index := struct.unpack_from("=i", content, 4)[0]:
            link = self.space.links.get(index)
        else:
            link = self.space.named(dict(_attributes(content)).get(NAME, b"").rstrip(b"\0").decode())
        if link is None:
            raise OSError(errno.ENODEV, "no such interface")
        return link

    def _set(self, link: Link, content: bytes) -> None:
        flags, mask = struct.unpack_from("=II", content, 8)
        for kind, value in _attributes(content):
            if kind == MTU:
                link.mtu = struct.unpack("=I", value)[0]
            elif kind == ADDRESS:
                link.set_mac(value)
                continue
            elif kind == QUEUE_LENGTH:
                link.set_queue(struct.unpack("=I", value)[0])
                continue
            elif kind == NAMESPACE_FD:
                if not link.space.move(link, self.space_of(struct.unpack("=i", value)[0])):
                    raise OSError(errno.EEXIST, "there is an interface of this name")
                continue
            else:
                continue
            link.change()
        if mask & IFF_UP:
            link.set_up(bool(flags & IFF_UP))


SocketPlace = tuple[bytes, int, bytes | None, int]  # address and port of a socket, and of its peer; None, 0: it has none


def about_socket(place: SocketPlace, cookie: int, memory: Sequence[int]) -> bytes:
    """A message about a UDP socket; `memory`: what it holds and may, of what came and what it sends, and its losses."""
    host, port, peer, peer_port = place
    ids = struct.pack("!HH16s16s", port, peer_port, host, peer or b"") + struct.pack("=IQ", 0, cookie)
    found = struct.pack("=BBBB", INET if len(host) == 4 else INET6, 7 if peer is None else 1, 0, 0) + ids + bytes(20)
    return found + _attribute(MEMORY, struct.pack("=9I", *memory[:4], 0, 0, 0, 0, memory[4]))


class Diagnosis(File):
    """A netlink socket of the family SOCK_DIAG, for UDP: sockets, and those of programs that only send.

    `sockets` gives the messages about the sockets of a namespace, by their places.
    """

    def __init__(self, space: Space, sockets: Callable[[Space], Mapping[SocketPlace, bytes]]) -> None:
        super().__init__()
        self.space, self.sockets = space, sockets
        self.queue: deque[bytes] = deque()

    def ready(self) -> int:
        return select.EPOLLOUT | (select.EPOLLIN if self.queue else 0)

    def _put(self, packet: bytes) -> None:
        self.queue.append(packet)
        self.happened(select.EPOLLIN)

    def read(self, room: int) -> bytes | int:
        return self.queue.popleft()[:room] if self.queue else -errno.EAGAIN

    def write(self, data: bytes) -> int:
        _, _, flags, serial, _ = MESSAGE.unpack_from(data)
        sockets = self.sockets(self.space)
        if flags & DUMP == DUMP:
            for content in sockets.values():
                if content[0] == data[16]:
                    self._put(message(SOCKET_BY_FAMILY, content, serial, MANY))
            self._put(message(DONE, bytes(4), serial, MANY))
            return len(data)
        peer, port = struct.unpack_from("!HH", data, 24)
        size = 4 if data[16] == INET else 16
        source, target, cookie = data[28 : 28 + size], data[44 : 44 + size], data[64:72]
        for place in (
            (target, port, source, peer),
            (target, port, None, 0),
            (bytes(size), port, source, peer),
            (bytes(size), port, None, 0),
        ):
            if place in sockets:
                if cookie in (bytes([255] * 8), sockets[place][44:52]):
                    self._put(message(SOCKET_BY_FAMILY, sockets[place], serial))
                else:
                    self._put(message(ERROR, struct.pack("=i", -errno.ESTALE) + data[:16], serial))
                return len(data)
        if port in self.space.senders:
            found = struct.pack("=BBBB", data[16], 1, 0, 0) + struct.pack("!HH", port, peer) + bytes(64)
            self._put(message(SOCKET_BY_FAMILY, found + _attribute(MEMORY, bytes(36)), serial))
        else:
            self._put(message(ERROR, struct.pack("=i", -errno.ENOENT) + data[:16], serial))
        return len(data)
