"""Netlink: requests to the kernel about its interfaces and sockets.

A netlink socket belongs to the network namespace in which it was opened, whichever thread uses it later.
"""

import os
import socket
import struct
import threading
from collections.abc import Iterator
from typing import NamedTuple

from penstock.errors import PenstockError
from penstock.vswitch.linux.netns import Place, inside

ROUTE, SOCK_DIAG = 0, 4
REQUEST, ACKNOWLEDGE, ECHO, REPLACE, EXCLUSIVE, CREATE, DUMP = 1, 4, 8, 0x100, 0x200, 0x400, 0x300
DONE, ERROR = 3, 2
NEW_LINK, GET_LINK = 16, 18
QUEUE_LENGTH, STATS64 = 13, 23  # attributes of an interface
TX_PACKETS, TX_BYTES, TX_DROPPED = 1, 3, 7  # of struct rtnl_link_stats64


class Netlink:
    """One netlink socket; a lock lets threads use it in turn."""

    def __init__(self, protocol: int = ROUTE, place: Place | None = None) -> None:
        with inside(place):
            self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 18)
        self.socket.settimeout(5)
        self.serial = 0
        self.lock = threading.Lock()

    def ask(self, kind: int, content: bytes, flags: int = 0) -> list[tuple[int, bytes]]:
        """Send one message; (kind, content) of each answer."""
        with self.lock:
            self.serial += 1
            self.socket.send(struct.pack("=IHHII", 16 + len(content), kind, REQUEST | flags, self.serial, 0) + content)
            return list(self._answers(flags & DUMP == DUMP))

    def _answers(self, many: bool) -> Iterator[tuple[int, bytes]]:
        while True:
            answer, at = self.socket.recv(1 << 17), 0
            while at + 16 <= len(answer):
                length, kind, _, serial, _ = struct.unpack_from("=IHHII", answer, at)
                if length < 16:
                    raise PenstockError("netlink: a malformed answer of the kernel")
                if serial == self.serial:  # else of a request that timed out
                    if kind == ERROR:
                        if code := -struct.unpack_from("=i", answer, at + 16)[0]:
                            raise OSError(code, os.strerror(code))
                        return
                    if kind == DONE:
                        return
                    yield kind, answer[at + 16 : at + length]
                    if not many:
                        return
                at += length + -length % 4

    def do(self, kind: int, content: bytes, flags: int = 0) -> None:
        """Send a message that changes something; OSError if the kernel refuses."""
        self.ask(kind, content, flags | ACKNOWLEDGE)

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> "Netlink":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def attributes(content: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    """(kind, value) of each attribute from there on."""
    while at + 4 <= len(content):
        length, kind = struct.unpack_from("=HH", content, at)
        if length < 4:
            return
        yield kind & 0x3FFF, content[at + 4 : at + length]
        at += length + -length % 4


def attribute(kind: int, *values: bytes) -> bytes:
    """One attribute; several values are attributes that it holds."""
    value = b"".join(values)
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def link(index: int, *attributes_: bytes) -> bytes:
    return struct.pack("=BBHiII", 0, 0, 0, index, 0, 0) + b"".join(attributes_)


def _of_link(route: Netlink, index: int, wanted: int) -> bytes:
    for _, content in route.ask(GET_LINK, link(index)):
        for kind, value in attributes(content, 16):
            if kind == wanted:
                return value
    raise PenstockError(f"interface {index}: the kernel does not say its attribute {wanted}")


class Outgoing(NamedTuple):
    """What has left an interface, of a TAP: what was read; and what was dropped on its way out, for its ring had no room."""

    frames: int
    size: int
    dropped: int


def outgoing(route: Netlink, index: int) -> Outgoing:
    numbers = struct.unpack_from("=8Q", _of_link(route, index, STATS64))
    return Outgoing(numbers[TX_PACKETS], numbers[TX_BYTES], numbers[TX_DROPPED])


def lengthen_queue(route: Netlink, index: int, frames: int) -> None:
    """Give an interface (a TAP: its ring) room for so many frames, if it has less."""
    if struct.unpack("=I", _of_link(route, index, QUEUE_LENGTH))[0] < frames:
        route.do(NEW_LINK, link(index, attribute(QUEUE_LENGTH, struct.pack("=I", frames))))
