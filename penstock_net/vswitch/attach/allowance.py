"""Byte budgets of UDP sockets: a table that an edge shares with the worker of a device, and an alarm.

For each UDP port the worker counts the socket memory that its frames take (`spent`, bytes) and sends no more than is `allowed`;
dataplane/socket_room.py has the rules.  It raises the alarm, an eventfd, when the edge should look.
"""

import numpy as np

from penstock_net.errors import SpecError
from penstock_net.pxd import read as read_pxd
from penstock_net.vswitch.world import fcntl, mmap, os, time

LAYOUT = read_pxd("vswitch/dataplane/socket_room.pxd").constants
PORTS, BYTES = LAYOUT["UDP_PORTS"], 8 * LAYOUT["TABLE_WORDS"]
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
UNLIMITED = 1 << 62


def _second() -> int:
    return (time.monotonic_ns() >> LAYOUT["SECOND_BITS"]) + 1


class Allowance:
    """The table, in a memfd that can be passed to another process together with the alarm."""

    def __init__(self, fd: int | None = None, alarm: int | None = None) -> None:
        if fd is None or alarm is None:
            self.fd = os.memfd_create("penstock-allowance", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            os.ftruncate(self.fd, BYTES)
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, SEALS)
            self.alarm = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        else:
            if os.fstat(fd).st_size != BYTES:
                raise SpecError(f"a file of {os.fstat(fd).st_size} B", path="allowance", remedy=f"it must have {BYTES} B")
            if fcntl.fcntl(fd, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK == 0:
                raise SpecError("the file is not sealed against shrinking", path="allowance")
            os.set_blocking(alarm, False)
            self.fd, self.alarm = os.dup(fd), os.dup(alarm)
        self.map = mmap.mmap(self.fd, BYTES)
        self.words = np.frombuffer(self.map, dtype=np.int64)
        self.spent, self.allowed, self.report_at = self.words[: 3 * PORTS].reshape(3, PORTS)
        self.pressed, self.busy_since, self.looked = (
            self.words[LAYOUT[name] :][:1] for name in ("PRESSED", "BUSY_SINCE", "LOOKED")
        )
        self.further = self.words[LAYOUT["FURTHER_READ"] :][:2]
        self.several = self.words[LAYOUT["SEVERAL"] :][:PORTS]
        if fd is None:
            self.free()

    def has_several(self, port: int) -> bool:
        """Whether the sockets of a UDP port exchanged frames with several peers of late."""
        at = int(self.several[port])
        return at > 0 and _second() - at <= LAYOUT["SEVERAL_SECONDS"]

    def note_several(self, port: int) -> None:
        """Treat the sockets of a UDP port as such from now on, for as long as if they were seen to."""
        self.several[port] = _second()

    @property
    def address(self) -> int:
        """Address of the table in this process."""
        return int(self.words.ctypes.data)

    def free(self) -> None:
        """Remove all limits, for the time when no edge reads the sockets."""
        self.allowed[:] = self.report_at[:] = UNLIMITED

    def close(self) -> None:
        """Remove all limits and close the table."""
        self.free()
        os.close(self.fd)
        os.close(self.alarm)
