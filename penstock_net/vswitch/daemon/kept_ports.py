"""Ports that were added while a switch ran and come back when it is started again: a file for each, beside the control socket.

The folder is below /run, so that it is gone when the machine starts anew, as are the namespaces of containers.  What another user
could have written is not read.
"""

import contextlib
import errno
import json
import stat
from typing import Any

from penstock_net.vswitch.world import io, os

FOUND = "found"  # a key of a file that is none of a port


def _folder(socket: str) -> str:
    return f"{socket}.ports"


def _file(socket: str, name: str) -> str:
    return os.path.join(_folder(socket), f"{name.replace('%', '%25').replace('/', '%2F')}.json")


def _is_trusted(socket: str, allow_uid: int | None = None) -> bool:
    """Whether the folder is root's, this user's or that of `allow_uid`, and no other may write to it."""
    try:
        found = os.lstat(_folder(socket))
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid in (0, os.geteuid(), allow_uid) and not found.st_mode & 0o022


def names(socket: str, allow_uid: int | None = None) -> list[str]:
    """The names of the ports that are kept for a switch, given by its control socket; `allow_uid`: as of `connect`."""
    if not _is_trusted(socket, allow_uid):
        return []
    found = [file.removesuffix(".json") for file in os.listdir(_folder(socket)) if file.endswith(".json")]
    return sorted(name.replace("%2F", "/").replace("%25", "%") for name in found)


def keep(socket: str, table: dict[str, Any], found: bool = False) -> None:
    """Keep a [[port]] table; `found`: its interface was there before.  OSError: it cannot be, or the folder is not ours."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(_folder(socket), 0o700)
    if not _is_trusted(socket):
        raise OSError(errno.EPERM, "it is no folder that only this user may write to; remove it", _folder(socket))
    file = _file(socket, table["name"])
    with io.open(f"{file}.new", "w") as written:
        json.dump({**table, FOUND: True} if found else table, written)
    os.replace(f"{file}.new", file)


def forget(socket: str, name: str) -> None:
    """Keep a port no longer."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        os.unlink(_file(socket, name))


def read(socket: str, name: str, allow_uid: int | None = None) -> dict[str, Any] | None:
    """The table of a kept port; None: there is none that can be read and trusted."""
    table = _content(socket, name, allow_uid)
    if table:
        table.pop(FOUND, None)
    return table


def was_found(socket: str, name: str, allow_uid: int | None = None) -> bool:
    """Whether the interface of a kept port was there before it was added for the first time."""
    return bool((_content(socket, name, allow_uid) or {}).get(FOUND))


def _content(socket: str, name: str, allow_uid: int | None = None) -> dict[str, Any] | None:
    if not _is_trusted(socket, allow_uid):
        return None
    try:
        with io.open(_file(socket, name)) as file:
            table = json.load(file)
    except (OSError, ValueError, RecursionError):
        return None
    return table if isinstance(table, dict) and table.get("name") == name else None
