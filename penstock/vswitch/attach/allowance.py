"""How much a device may put into each UDP socket: a table that the thread which polls the sockets shares with the worker.

For each UDP port the worker counts the socket memory that its frames take (`spent`, bytes) and sends no more than is `allowed`.
Only the worker writes the one column, only the polling thread the other, so neither waits for the other.
"""

import fcntl
import mmap
import os
from collections.abc import Iterable, Mapping

import numpy as np

from penstock.errors import SpecError

PORTS = 1 << 16
BYTES = 2 * 8 * PORTS
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
UNLIMITED = np.iinfo(np.int64).max


class Allowance:
    """The table, in a file of memory that can be handed to another process."""

    def __init__(self, fd: int | None = None) -> None:
        if fd is None:
            self.fd = os.memfd_create("penstock-allowance", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            os.ftruncate(self.fd, BYTES)
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, SEALS)
        else:
            if os.fstat(fd).st_size != BYTES:
                raise SpecError(f"a file of {os.fstat(fd).st_size} B", path="allowance", remedy=f"it must have {BYTES} B")
            if fcntl.fcntl(fd, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK == 0:
                raise SpecError("the file is not sealed against shrinking", path="allowance")
            self.fd = os.dup(fd)
        self.map = mmap.mmap(self.fd, BYTES)
        self.spent, self.allowed = np.frombuffer(self.map, dtype=np.int64).reshape(2, PORTS)
        if fd is None:
            self.allowed[:] = UNLIMITED
        self.limited: set[int] = set()

    def before(self) -> dict[int, int]:
        """`spent` of each port that has a limit; read it before the sockets are polled."""
        return {port: int(self.spent[port]) for port in self.limited}

    def grant(self, before: Mapping[int, int], credit: Mapping[int, int], waits: Iterable[int]) -> bool:
        """Set the limits from a poll: free bytes by port (`credit`) and ports that shall get nothing (`waits`).

        False: a port is new, so the sockets should be polled again.
        """
        held = set(waits)
        for port in self.limited - credit.keys():  # its socket has gone
            self.allowed[port] = UNLIMITED
        new = credit.keys() - before.keys()
        for port, room in credit.items():
            base = before.get(port, int(self.spent[port]))
            self.allowed[port] = base + (0 if port in held or port in new else max(room, 0))
        self.limited = set(credit)
        return not new

    def takes(self, port: int, cost: int) -> bool:
        """Count `cost` bytes for a port, if they are allowed; returns whether they were."""
        if self.spent[port] + cost > self.allowed[port]:
            return False
        self.spent[port] += cost
        return True

    def close(self) -> None:
        """The sockets are polled no longer: remove all limits."""
        self.allowed[:] = UNLIMITED
        os.close(self.fd)
