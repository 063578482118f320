"""From the switch: when to read the fill of applications' UDP sockets, so that frames wait in the switch if a socket is full.

A look is due when the worker reports a port (dataplane/socket_room.py); one for all sockets takes the kernel some 0.15 ms.
Periodic looks are needed only while frames are sent, since a socket may receive from elsewhere too, or while they wait for a
full socket, since no event tells that it was read.
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
READ_S = 0.02  # at most, while it is read again and again: what it holds lasts for longer
STEADY_S = 0.15  # in which such a one is read of a quarter: the kernel gives its room back in so large parts
MOST_FULL_S = 0.032  # at last, if it is not read: an eighth of the time since it was


class SocketProbe:
    """The UDP sockets of a namespace; `look` writes the bytes that may be sent to each port into the `table`.

    No frame is lost as long as the limit is respected, by a worker or by `takes`, at any rate of arrival, unless several sockets
    share a port: see choose_room() in dataplane/socket_room.py.
    """

    def __init__(self, namespace: NetNs | None = None, table: Allowance | None = None, goes_on: bool = False) -> None:
        self.diag = Netlink(SOCK_DIAG, namespace)
        self.table, self.own_table = table or Allowance(), table is None
        self.looks, self.read_at, self.pace = 0, 0.0, FULL_S
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
        self._note_pace(found, now - self.read_at)
        if found & FOUND["PROGRESS"] or not found & FOUND["FULL_SOCKETS"]:
            self.read_at = now
        if found & FOUND["FULL_SOCKETS"] and found & (FOUND["WAITING"] | FOUND["MOVED"]):
            return self.pace
        if found & FOUND["MOVED"] or not self.rooms.rest():
            return REFRESH_S
        return None

    def _note_pace(self, found: int, since: float) -> None:
        """How long a full socket is left alone, `since` it was last read (s): while it is read again and again, a quarter of the
        time for which it has datagrams.  So what was read is sent again in one go, and its reader never waits for that.

        One that was not read for long may be read fast from now on, and is looked at soon.
        """
        if not found & FOUND["FULL_SOCKETS"]:
            self.pace = FULL_S
        elif not found & FOUND["PROGRESS"]:
            self.pace = min(MOST_FULL_S, max(self.pace, since / 8))
        elif since > STEADY_S:
            self.pace = FULL_S
        else:
            self.pace = max(FULL_S, min(READ_S, 2 * self.pace, since * self.rooms.lasts / 4))

    def close(self) -> None:
        """End the looks and lift all limits of the table."""
        self.table.free()
        self.diag.close()
        if self.own_table:
            self.table.close()
