"""Out of the switch: how full the UDP sockets of applications are, so that frames wait in the switch instead of being lost.

The kernel drops what comes to a socket whose buffer is full, and tells nobody.  A look asks for all UDP sockets of a network
namespace at once (NETLINK_SOCK_DIAG); the kernel's numbers are of memory, so a small frame counts much more than its bytes.
"""

import socket
import struct
from array import array
from collections.abc import Callable
from typing import NamedTuple

from penstock.errors import PenstockError, SpecError
from penstock.vswitch.netlink import DUMP, SOCK_DIAG, Netlink, Place, attributes

BY_FAMILY = 20                  # SOCK_DIAG_BY_FAMILY
MEMORY = 7                      # INET_DIAG_SKMEMINFO
ALL_STATES = 0xFFFFFFFF
FRAME_OVERHEAD = 1024           # of a frame in a socket, at most, beside twice its bytes
PORTS = 1 << 16
NO_LIMIT = 1 << 62
Address = tuple[str, int]


class Socket(NamedTuple):
    """What the kernel says of a UDP socket."""

    address: str                # "0.0.0.0" and "::" take frames for all addresses
    port: int
    waiting: int                # bytes of memory that its datagrams hold
    room: int                   # of those that it may hold
    lost: int                   # datagrams dropped because its buffer was full, since it was opened


def cost(length: int) -> int:
    """Memory that a frame of so many bytes takes in a socket, at most."""
    return 2 * length + FRAME_OVERHEAD


def udp_sockets(diag: Netlink) -> list[Socket]:
    """All UDP sockets of the namespace in which `diag` was opened."""
    found = []
    for family in (socket.AF_INET, socket.AF_INET6):
        request = struct.pack("=BBBxI48x", family, socket.IPPROTO_UDP, 1 << MEMORY - 1, ALL_STATES)
        for _, content in _answers(diag, request):
            port, = struct.unpack_from("!H", content, 4)
            address = socket.inet_ntop(family, content[8 : 12 if family == socket.AF_INET else 24])
            for kind, value in attributes(content, 72):
                if kind == MEMORY and port:
                    waiting, room, *_, lost = struct.unpack_from("=9I", value)
                    found.append(Socket(address, port, waiting, room, lost))
    return found


def _answers(diag: Netlink, request: bytes) -> list[tuple[int, bytes]]:
    try:
        return diag.ask(BY_FAMILY, request, DUMP)
    except FileNotFoundError:
        raise PenstockError("this kernel does not tell of UDP sockets (CONFIG_INET_UDP_DIAG); modprobe udp_diag") from None


class SocketProbe:
    """Which UDP sockets should get no more frames for now.

    `look` asks the kernel and calls `wait(port, on)` for each local port whose answer has changed: on at `high` of its buffer,
    off below `low`.  Of several sockets on one port the fullest counts.  A driver that looks at every frame loses none, however
    fast they come and however rarely we look: it sends one only if used[port] + cost(length) <= limits[port], and adds that cost
    to used[port].  Both are arrays of int64 by port; the one is written by the driver alone, the other by `look` alone, so that
    they can be in different threads.  `takes` is this rule for Python.
    """

    def __init__(self, place: Place | None = None, wait: Callable[[int, bool], None] | None = None, *, high: float = 0.25,
                 low: float = 0.125) -> None:
        if not 0 <= low < high <= 1:
            raise SpecError(f"low = {low}, high = {high}: must be shares of a socket's buffer, low less than high")
        self.wait, self.high, self.low = wait, high, low
        self.diag = Netlink(SOCK_DIAG, place)
        self.sockets: list[Socket] = []
        self.waits: set[int] = set()
        self.used = array("q", bytes(8 * PORTS))
        self.limits = array("q", [NO_LIMIT]) * PORTS
        self.known: set[int] = set()        # ports with a socket
        self.lost_of: dict[Address, int] = {}
        self.lost = 0                       # since the probe began; of sockets that are gone, what was seen of them
        self.looks = self.changes = 0
        self.used_before = 0
        self.look()
        self.look()
        self.lost = 0

    def look(self) -> set[int]:
        """Ask the kernel; the local ports whose frames should wait."""
        before = {port: self.used[port] for port in self.known}     # what is sent from here on may count twice, never not at all
        self.sockets = udp_sockets(self.diag)
        self.looks += 1
        self.waits, changed = self._full(), self.waits
        self._set_limits(before)
        self._count_lost()
        for port in changed ^ self.waits:
            self.changes += 1
            if self.wait:
                self.wait(port, port in self.waits)
        return self.waits

    def _full(self) -> set[int]:
        return {s.port for s in self.sockets if s.waiting > s.room * (self.low if s.port in self.waits else self.high)}

    def _set_limits(self, before: dict[int, int]) -> None:
        free: dict[int, int] = {}
        for each in self.sockets:
            left = 0 if each.port in self.waits else each.room - each.waiting
            free[each.port] = min(left, free.get(each.port, left))
        for port, left in free.items():     # of a new socket the next look tells
            self.limits[port] = before[port] + left if port in before else self.used[port]
        for port in before.keys() - free.keys():
            self.limits[port] = NO_LIMIT
        self.known = set(free)

    def _count_lost(self) -> None:
        lost_of: dict[Address, int] = {}
        for each in self.sockets:
            lost_of[each.address, each.port] = lost_of.get((each.address, each.port), 0) + each.lost
        for address, lost in lost_of.items():
            before = self.lost_of.get(address, 0)
            self.lost += lost - before if lost >= before else lost      # less: another socket has taken its place
        self.lost_of = lost_of

    @property
    def busy(self) -> bool:
        """Whether something waits in a socket, or was sent to one since this was asked."""
        used = sum(self.used[port] for port in self.known)
        used, self.used_before = used - self.used_before, used
        return used != 0 or any(each.waiting for each in self.sockets)

    def takes(self, port: int, length: int) -> bool:
        """Whether a frame for this port fits, which then counts; a port without a socket takes all: nobody misses them."""
        used = self.used[port] + cost(length)
        if used > self.limits[port]:
            return False
        self.used[port] = used
        return True

    def close(self) -> None:
        self.diag.close()
