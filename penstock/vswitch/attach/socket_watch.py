"""Out of the switch: how full the UDP sockets of applications are, so that frames wait in the switch instead of being lost.

The kernel drops what comes to a socket whose buffer is full, and reports it to nobody.  A poll asks for all UDP sockets of a
network namespace at once (NETLINK_SOCK_DIAG); the numbers are of memory, so a small frame counts much more than its bytes.
"""

import socket
import struct
from collections.abc import Callable
from typing import NamedTuple

from penstock.errors import PenstockError, SpecError
from penstock.vswitch.attach.allowance import Allowance
from penstock.vswitch.linux.netlink import DUMP, SOCK_DIAG, Netlink, attributes
from penstock.vswitch.linux.netns import Place

BY_FAMILY = 20  # SOCK_DIAG_BY_FAMILY
MEMORY = 7  # INET_DIAG_SKMEMINFO
ALL_STATES = 0xFFFFFFFF
FRAME_OVERHEAD = 1024  # of a frame in a socket, at most, beside twice its bytes
Address = tuple[str, int]


class Socket(NamedTuple):
    """The kernel's counters of a UDP socket."""

    address: str  # "0.0.0.0" and "::" take frames for all addresses
    port: int
    waiting: int  # bytes of memory that its datagrams hold
    room: int  # of those that it may hold
    lost: int  # datagrams dropped because its buffer was full, since it was opened


def cost(length: int) -> int:
    """Memory that a frame of so many bytes takes in a socket, at most."""
    return 2 * length + FRAME_OVERHEAD


def udp_sockets(diag: Netlink) -> list[Socket]:
    """All UDP sockets of the namespace in which `diag` was opened."""
    found = []
    for family in (socket.AF_INET, socket.AF_INET6):
        request = struct.pack("=BBBxI48x", family, socket.IPPROTO_UDP, 1 << MEMORY - 1, ALL_STATES)
        for _, content in _answers(diag, request):
            (port,) = struct.unpack_from("!H", content, 4)
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
        raise PenstockError("this kernel does not report UDP sockets (CONFIG_INET_UDP_DIAG); modprobe udp_diag") from None


class SocketProbe:
    """Which UDP sockets should get no more frames for now.

    `look` asks the kernel and calls `wait(port, on)` for each local port whose answer has changed: on at `high` of its buffer,
    off below `low`.  Of several sockets on one port the fullest counts.  Each look also tells the `table` how much may be sent to
    each port until the next: who keeps to it, a worker or by `takes`, loses none, however fast frames come.
    """

    def __init__(
        self,
        place: Place | None = None,
        wait: Callable[[int, bool], None] | None = None,
        *,
        high: float = 0.25,
        low: float = 0.125,
        table: Allowance | None = None,
    ) -> None:
        if not 0 <= low < high <= 1:
            raise SpecError(f"low = {low}, high = {high}: must be shares of a socket's buffer, low less than high")
        self.wait, self.high, self.low = wait, high, low
        self.diag = Netlink(SOCK_DIAG, place)
        self.table, self.own_table = table or Allowance(), table is None
        self.spent: dict[int, int] = {}  # before the last look
        self.sockets: list[Socket] = []
        self.waits: set[int] = set()
        self.lost_of: dict[Address, int] = {}
        self.lost = 0  # since the probe began; of sockets that are gone, what was seen of them
        self.looks = self.changes = 0
        self.new = self.busy = False  # whether a port was not seen before; whether frames came or wait
        self.look()
        self.look()
        self.lost = 0

    def look(self) -> set[int]:
        """Ask the kernel; the local ports whose frames should wait."""
        before = self.table.before()  # what is sent from here on may count twice, never not at all
        self.sockets = udp_sockets(self.diag)
        self.looks += 1
        waits = {s.port for s in self.sockets if s.waiting > s.room * (self.low if s.port in self.waits else self.high)}
        room: dict[int, int] = {}
        for each in self.sockets:
            room[each.port] = min(each.room - each.waiting, room.get(each.port, each.room))
        self.new = not self.table.grant(before, room, waits)
        self.busy = before != self.spent or any(each.waiting for each in self.sockets)
        self.spent = before
        self._count_lost()
        for port in waits ^ self.waits:
            self.changes += 1
            if self.wait:
                self.wait(port, port in waits)
        self.waits = waits
        return waits

    def _count_lost(self) -> None:
        lost_of: dict[Address, int] = {}
        for each in self.sockets:
            lost_of[each.address, each.port] = lost_of.get((each.address, each.port), 0) + each.lost
        for address, lost in lost_of.items():
            before = self.lost_of.get(address, 0)
            self.lost += lost - before if lost >= before else lost  # less: another socket has taken its place
        self.lost_of = lost_of

    def takes(self, port: int, length: int) -> bool:
        """Whether a frame for this port fits, which then counts; a port without a socket takes all: nobody misses them."""
        return self.table.takes(port, cost(length))

    def close(self) -> None:
        self.diag.close()
        if self.own_table:
            self.table.close()
