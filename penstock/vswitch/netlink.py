"""Questions to the kernel as messages: what its interfaces and sockets say of themselves.

A netlink socket belongs to the network namespace in which it was opened, whoever asks later.
"""

import os
import socket
import struct
from collections.abc import Iterator

from penstock.errors import PenstockError

ROUTE, SOCK_DIAG = 0, 4
REQUEST, DUMP = 1, 0x300
DONE, ERROR = 3, 2
GET_LINK, GET_QDISC, STATS64 = 18, 38, 23
TX_DROPPED = 7                      # of struct rtnl_link_stats64


class Netlink:
    """One conversation; one thread at a time."""

    def __init__(self, protocol: int = ROUTE) -> None:
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 18)
        self.socket.settimeout(5)
        self.serial = 0

    def ask(self, kind: int, content: bytes, flags: int = 0) -> Iterator[tuple[int, bytes]]:
        """Send one message and hand out (kind, content) of each answer."""
        self.serial += 1
        self.socket.send(struct.pack("=IHHII", 16 + len(content), kind, REQUEST | flags, self.serial, 0) + content)
        while True:
            answer, at = self.socket.recv(1 << 17), 0
            while at + 16 <= len(answer):
                length, kind, _, serial, _ = struct.unpack_from("=IHHII", answer, at)
                if length < 16:
                    raise PenstockError("netlink: an answer that makes no sense")
                if serial == self.serial:                   # else of a question that was given up
                    if kind == ERROR:
                        code = -struct.unpack_from("=i", answer, at + 16)[0]
                        raise OSError(code, os.strerror(code))
                    if kind == DONE:
                        return
                    yield kind, answer[at + 16 : at + length]
                    if not flags & DUMP:
                        return
                at += length + -length % 4

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


def tx_dropped(route: Netlink, index: int) -> int:
    """Frames that an interface dropped on their way out: those of applications for which the ring of a TAP had no room."""
    for _, content in route.ask(GET_LINK, struct.pack("=BBHiII", 0, 0, 0, index, 0, 0)):
        for kind, value in attributes(content, 16):
            if kind == STATS64:
                return int(struct.unpack_from("=Q", value, 8 * TX_DROPPED)[0])
    raise PenstockError(f"interface {index}: it has no statistics")
