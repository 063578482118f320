"""Out of the switch: when to look how full the UDP sockets of applications are, so that frames wait in the switch.

A look takes some 10 us, and is due when the worker reports a port (dataplane/socket_room.py).  The clock asks for one only while
frames go out (their socket may get others from elsewhere) or wait for a full socket, of which no event tells that it was read.
"""

import time

from penstock.errors import PenstockError
from penstock.pxd import read as read_pxd
from penstock.vswitch.attach.allowance import Allowance
from penstock.vswitch.dataplane.socket_room import SocketRooms
from penstock.vswitch.linux.netlink import SOCK_DIAG, Netlink
from penstock.vswitch.linux.netns import Place

FOUND = read_pxd("vswitch/dataplane/socket_room.pxd").constants
REFRESH_S = 0.05  # between looks while frames go out
FULL_S = 0.001  # the same while frames wait for a full socket, at first
MOST_FULL_S = 0.032  # at last: an eighth of the time since it was last read


class SocketProbe:
    """The UDP sockets of a namespace; `look` sets in the `table` how much may be sent to each port.

    Who keeps to it, a worker or by `takes`, loses none, however fast frames come.  Of several sockets on one port the fullest
    counts.
    """

    def __init__(self, place: Place | None = None, table: Allowance | None = None) -> None:
        self.diag = Netlink(SOCK_DIAG, place)
        self.table, self.own_table = table or Allowance(), table is None
        self.looks, self.read_at = 0, 0.0
        try:
            self.rooms = SocketRooms(self.diag.socket, self.table)
        except FileNotFoundError:
            self.close()
            raise PenstockError("this kernel does not report UDP sockets (CONFIG_INET_UDP_DIAG); modprobe udp_diag") from None
        self.takes = self.rooms.takes

    def look(self) -> float | None:
        """Ask the kernel; the seconds until the next look, None: not before a port is reported."""
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
        """End the looks: whoever keeps to the table has no limits any longer."""
        self.table.free()
        self.diag.close()
        if self.own_table:
            self.table.close()
