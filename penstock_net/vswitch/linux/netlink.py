"""Netlink: requests to the kernel about its interfaces and sockets.

A netlink socket belongs to the network namespace in which it was opened, whichever thread uses it later.
"""

import contextlib
import errno
import struct
from collections.abc import Iterator
from typing import NamedTuple

from penstock_net.errors import PenstockError
from penstock_net.vswitch.linux.netns import NetNs, enter, identity
from penstock_net.vswitch.world import os, socket, threading
from penstock_net.vswitch.world.kept import once

ROUTE, SOCK_DIAG = 0, 4
REQUEST, ACKNOWLEDGE, ECHO, REPLACE, EXCLUSIVE, CREATE, DUMP = 1, 4, 8, 0x100, 0x200, 0x400, 0x300
DONE, ERROR = 3, 2
NEW_LINK, GET_LINK, SET_NEIGHBOUR_TABLE = 16, 18, 67
SOL_NETLINK, SHORT_ACKNOWLEDGMENTS, REASONS, GET_STRICT_CHECK = 270, 10, 11, 12
HAS_REASON, REASON = 0x200, 1  # flag of a refusal with attributes, and the one that is a text
NAME, QUEUE_LENGTH, STATS64 = 3, 13, 23  # attributes of an interface
TABLE_NAME, PARAMETERS, OF_INTERFACE, UNRESOLVED_BYTES = 1, 6, 1, 16  # of a table of neighbours; of the parameters
TABLES = (b"arp_cache\0", b"ndisc_cache\0")
NOWHERE = (0, 0)  # the namespace of a process that is not told which one it is in
TX_PACKETS, TX_BYTES, TX_DROPPED = 1, 3, 7  # of struct rtnl_link_stats64


MESSAGE, HEAD = struct.Struct("=IHHII"), struct.Struct("=HH")  # of a message: its header; of an attribute: its length, its kind


class Netlink:
    """One netlink socket, with a lock for use by several threads."""

    def __init__(self, protocol: int = ROUTE, namespace: NetNs | None = None) -> None:
        with enter(namespace):
            self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 18)
        self.socket.setsockopt(SOL_NETLINK, SHORT_ACKNOWLEDGMENTS, 1)
        self.socket.setsockopt(SOL_NETLINK, REASONS, 1)
        if protocol == ROUTE:  # so that a dump is of the interface that it asks for
            self.socket.setsockopt(SOL_NETLINK, GET_STRICT_CHECK, 1)
        self.socket.settimeout(5)
        self.serial = 0
        self.lock = threading.Lock()

    def ask(self, kind: int, content: bytes, flags: int = 0) -> list[tuple[int, bytes]]:
        """Send one message; returns (kind, content) of each answer."""
        with self.lock:
            self.serial += 1
            self.socket.send(MESSAGE.pack(16 + len(content), kind, REQUEST | flags, self.serial, 0) + content)
            return list(self._answers(flags & DUMP == DUMP))

    def _answers(self, many: bool) -> Iterator[tuple[int, bytes]]:
        while True:
            answer, at = self.socket.recv(1 << 17), 0
            while at + 16 <= len(answer):
                length, kind, _, serial, _ = MESSAGE.unpack_from(answer, at)
                if length < 16:
                    raise PenstockError("netlink: malformed answer of the kernel")
                if serial == self.serial:  # else of a request that timed out
                    if kind in (ERROR, DONE):
                        _must_be_done(answer[at : at + length], 36 if kind == ERROR else 20)
                        return
                    yield kind, answer[at + 16 : at + length]
                    if not many:
                        return
                at += length + -length % 4

    def do(self, kind: int, content: bytes, flags: int = 0) -> None:
        """Send a request for a change; OSError if the kernel refuses it."""
        self.ask(kind, content, flags | ACKNOWLEDGE)

    def close(self) -> None:
        """Close it, after the answer to a request of another thread, which would read from whatever has its descriptor next."""
        with self.lock:
            self.socket.close()

    def __enter__(self) -> "Netlink":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _Sockets:
    """Those that are shared, by protocol, process and namespace, each with how many share it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.open: dict[tuple[int, int, tuple[int, int]], tuple[Netlink, int]] = {}


_sockets = once(_Sockets)


class SharedNetlink(Netlink):
    """The one netlink socket that this process has in a namespace, for all who ask there; the last one who closes it closes it.

    So a switch has as many as there are namespaces, however many interfaces.  A request waits for those of others.
    """

    def __init__(self, protocol: int = ROUTE, namespace: NetNs | None = None) -> None:
        place = namespace.identity if namespace else identity("/proc/thread-self/ns/net")
        self.key, self.sockets = (protocol, os.getpid(), place or NOWHERE), _sockets()
        with self.sockets.lock:
            found, users = self.sockets.open.get(self.key) or (Netlink(protocol, namespace), 0)
            self.sockets.open[self.key] = found, users + 1
        self.found: Netlink | None = found

    def ask(self, kind: int, content: bytes, flags: int = 0) -> list[tuple[int, bytes]]:
        if (found := self.found) is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return found.ask(kind, content, flags)

    def close(self) -> None:
        """Ask no more; closed twice is closed once."""
        with self.sockets.lock:
            found, self.found = self.found, None
            if found is None:
                return
            _, users = self.sockets.open.pop(self.key)
            if users > 1:
                self.sockets.open[self.key] = found, users - 1
                return
        found.close()


def _must_be_done(answer: bytes, end: int) -> None:
    """OSError: the last message of an answer says that it failed, and perhaps in attributes from `end` on why."""
    _, _, flags, _, _, result = struct.unpack_from("=IHHIIi", answer)
    if result < 0:
        given = dict(attributes(answer, end)) if flags & HAS_REASON else {}
        reason = given.get(REASON, b"").rstrip(b"\0").decode(errors="replace")
        raise OSError(-result, reason or os.strerror(-result))


def attributes(content: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    """(kind, value) of each attribute from there on."""
    while at + 4 <= len(content):
        length, kind = HEAD.unpack_from(content, at)
        if length < 4:
            return
        yield kind & 0x3FFF, content[at + 4 : at + length]
        at += length + -length % 4


def attribute(kind: int, *values: bytes) -> bytes:
    """One attribute; several values are nested attributes."""
    value = b"".join(values)
    return HEAD.pack(4 + len(value), kind) + value + bytes(-len(value) % 4)


def link(index: int, *attributes_: bytes) -> bytes:
    return struct.pack("=BBHiII", 0, 0, 0, index, 0, 0) + b"".join(attributes_)


def _of_link(route: Netlink, index: int, wanted: int) -> bytes:
    for _, content in route.ask(GET_LINK, link(index)):
        for kind, value in attributes(content, 16):
            if kind == wanted:
                return value
    raise PenstockError(f"interface {index}: the kernel does not report attribute {wanted}")


class Outgoing(NamedTuple):
    """Packets that have left an interface (of a TAP: that were read), and packets dropped because its ring was full."""

    frames: int
    size: int
    dropped: int


def outgoing(route: Netlink, index: int) -> Outgoing:
    numbers = struct.unpack_from("=8Q", _of_link(route, index, STATS64))
    return Outgoing(numbers[TX_PACKETS], numbers[TX_BYTES], numbers[TX_DROPPED])


def dropped_by(route: Netlink, device: str) -> int:
    """Packets that an interface has dropped as its ring was full, by its name.  OSError: there is no such interface."""
    for _, content in route.ask(GET_LINK, link(0, attribute(NAME, device.encode() + b"\0"))):
        return int(struct.unpack_from("=8Q", dict(attributes(content, 16))[STATS64])[TX_DROPPED])
    raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))


def keep_unresolved(route: Netlink, index: int, size: int) -> None:
    """Have an interface keep so many bytes of packets to each neighbour that is being resolved."""
    parameters = (struct.pack("=I", number) for number in (index, size))
    values = [attribute(kind, value) for kind, value in zip((OF_INTERFACE, UNRESOLVED_BYTES), parameters)]
    for table in TABLES:
        with contextlib.suppress(FileNotFoundError):  # without IPv6
            route.do(SET_NEIGHBOUR_TABLE, bytes(4) + attribute(TABLE_NAME, table) + attribute(PARAMETERS, *values))


def lengthen_queue(route: Netlink, index: int, frames: int) -> None:
    """Lengthen the transmit queue of an interface (of a TAP: its ring) to so many frames, if it is shorter."""
    if struct.unpack("=I", _of_link(route, index, QUEUE_LENGTH))[0] < frames:
        route.do(NEW_LINK, link(index, attribute(QUEUE_LENGTH, struct.pack("=I", frames))))
