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


def listen(listening: socket.socket, path: str, backlog: int, group: int | None = None) -> tuple[int, int]:
    """Listen at a path, also for members of a group; the device and number of its file.

    The file gets its name once somebody listens, so that whoever finds it is not refused.
    """
    folder, name = os.path.split(path)
    hidden = os.path.join(folder, f"~{name[:-1]}")  # as long as the path, so that it is not too long for a socket
    _remove(hidden)  # of a process that was killed just here
    listening.bind(hidden)
    try:
        file = os.lstat(hidden)
        if group is not None:
            os.chown(hidden, -1, group)
            os.chmod(hidden, stat.S_IMODE(file.st_mode) | stat.S_IRGRP | stat.S_IWGRP)
        listening.listen(backlog)
        os.replace(hidden, path)
    except OSError:
        _remove(hidden)
        raise
    return file.st_dev, file.st_ino


def _remove(path: str) -> None:
    """Remove a socket's file, if there is one."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISSOCK(os.lstat(path).st_mode):
            os.unlink(path)
