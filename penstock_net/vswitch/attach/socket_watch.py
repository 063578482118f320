"""From the switch: when to read the fill of applications' UDP sockets, so that frames wait in the switch if a socket is full.

A look takes some 10 us and is due when the worker reports a port (dataplane/socket_room.py).  Periodic looks are needed only
while frames are sent, since a socket may receive from elsewhere too, or while they wait for a full socket, since no event tells
that it was read.
"""

from penstock_net.errors import PenstockError
from penstock_net.pxd import read as read_pxd
from penstock_net.vswitch.attach.allowance import Allowance
from penstock_net.vswitch.dataplane.socket_room import SocketRooms
from penstock_net.vswitch.linux.netlink import SOCK_DIAG, Netlink
from penstock_net.vswitch.linux.netns import NetNs
from penstock_net.vswitch.world import time

FOUND = read_pxd("vswitch/dataplane/socket_room.pxd").constants
REFRESH_S = 0.05  # between looks while frames go out
FULL_S = 0.001  # the same while frames wait for a full socket, at first
MOST_FULL_S = 0.032  # at last: an eighth of the time since it was last read


class SocketProbe:
    """The UDP sockets of a namespace; `look` writes the bytes that may be sent to each port into the `table`.

    No frame is lost as long as the limit is respected, by a worker or by `takes`, at any rate of arrival, unless several sockets
    share a port: see choose_room() in dataplane/socket_room.py.
    """

    def __init__(self, namespace: NetNs | None = None, table: Allowance | None = None, goes_on: bool = False) -> None:
        self.diag = Netlink(SOCK_DIAG, namespace)
        self.table, self.own_table = table or Allowance(), table is None
        self.looks, self.read_at = 0, 0.0
        try:
            self.rooms = SocketRooms(self.diag.socket, self.table, goes_on)
        except FileNotFoundError:
            self.close()
            raise PenstockError("this kernel does not report UDP sockets (CONFIG_INET_UDP_DIAG); modprobe udp_diag") from None
        self.takes = self.rooms.takes

    def look(self) -> float | None:
        """Query the kernel; returns the seconds until the next look, None if none is due before a port is reported."""
        found, now = self.rooms.look(), time.monotonic()
        self.looks += 1
        if found & FOUND["PROGRESS"] or not found & FOUND["FULL_SOCKETS"]:
            self.read_at = now
        if found & FOUND["FULL_SOCKETS"] and found & (FOUND["WAITING"] | FOUND["MOVED"]):
            return max(FULL_S, min(MOST_FULL_S, (now - self.read_at) / 8))
        if found & FOUND["MOVED"] or not self.rooms.rest():
            return REFRESH_S
        return None

    def close(self) -> None:
        """End the looks and lift all limits of the table."""
        self.table.free()
        self.diag.close()
        if self.own_table:
            self.table.close()
