"""Unix sockets by their paths: what can be one, and who listens at it."""

import contextlib
import stat
from collections.abc import Iterator
from typing import Any

from penstock_net.errors import SpecError
from penstock_net.vswitch.world import os, socket

LONGEST_PATH = 107  # bytes


def socket_path(path: Any, where: str) -> str:
    """A path that a unix socket can have."""
    if not isinstance(path, str) or "\0" in path or not 0 < len(os.fsencode(path)) <= LONGEST_PATH:
        raise SpecError(f"must be a path of at most {LONGEST_PATH} bytes", path=where, value=path)
    return path


@contextlib.contextmanager
def listener(path: str) -> Iterator[socket.socket | None]:
    """A connection to whoever listens at a path; None: nobody does, and the socket of a dead process was removed.

    FileExistsError: there is a file that is no socket.
    """
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:  # also of a file that is no socket
            if not stat.S_ISSOCK(os.lstat(path).st_mode):
                raise FileExistsError(path) from None
            os.unlink(path)
        except OSError:
            pass
        else:
            yield probe
            return
        yield None
