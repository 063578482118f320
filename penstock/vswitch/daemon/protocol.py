"""Messages between daemon and clients: a JSON object per line over a unix socket, with file descriptors as ancillary data."""

import array
import contextlib
import json
import os
import socket
import time
from pathlib import Path
from typing import Any

from penstock.errors import SpecError

LONGEST = 1 << 24


def default_socket() -> str:
    """The default path of a switch's socket: in the user's runtime folder."""
    return str(Path(os.environ.get("XDG_RUNTIME_DIR") or "/tmp") / f"penstock-vswitch-{os.getuid()}.sock")


def send(connection: socket.socket, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
    """Send one message, with file descriptors.  OSError: the connection is closed or timed out."""
    data = json.dumps(message).encode() + b"\n"
    sent = socket.send_fds(connection, [data], list(fds)) if fds else 0
    connection.sendall(data[sent:])


def receive(
    connection: socket.socket, longest: int = LONGEST, most_fds: int = 4, within: float | None = None
) -> tuple[dict[str, Any] | None, list[int]]:
    """Receive one message with its descriptors, which the caller must close.

    longest  largest size of a message, bytes
    within   timeout for the whole message, s
    None: the peer closed the connection, the time is over, or the message is malformed or too large.
    """
    data = b""
    fds: list[int] = []
    size = socket.CMSG_SPACE(most_fds * array.array("i").itemsize)
    end = None if within is None else time.monotonic() + within
    try:
        while not data.endswith(b"\n"):
            if end is not None:
                connection.settimeout(max(0.0, end - time.monotonic()))
            part, ancillary, _, _ = connection.recvmsg(65536, size, socket.MSG_CMSG_CLOEXEC)
            for level, kind, content in ancillary:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    numbers = array.array("i")
                    numbers.frombytes(content[: len(content) - len(content) % numbers.itemsize])
                    fds += numbers
            data += part
            if not part or len(data) > longest or len(fds) > most_fds:
                close(fds)
                return None, []
        message = json.loads(data)
    except (OSError, ValueError, RecursionError):
        close(fds)
        return None, []
    if not isinstance(message, dict):
        close(fds)
        return None, []
    return message, fds


def close(fds: list[int]) -> None:
    """Close descriptors that came with a message."""
    for fd in fds:
        os.close(fd)


def ask(path: str, message: dict[str, Any], timeout: float = 15.0) -> dict[str, Any]:
    """Send one request to a running switch; returns its answer.  SpecError: no switch answers, or it reports an error."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(timeout)
        answer, fds = converse(connection, path, message)
        close(fds)
    return answer


def converse(
    connection: socket.socket, path: str, message: dict[str, Any], fds: tuple[int, ...] = ()
) -> tuple[dict[str, Any], list[int]]:
    """Connect, send a message, and return the answer with its descriptors.  SpecError: there is none, or it is an error."""
    end = time.monotonic() + (connection.gettimeout() or 0.0)
    try:
        while True:
            try:
                connection.connect(path)
                break
            except BlockingIOError:  # the backlog is full
                if time.monotonic() > end:
                    raise
                time.sleep(0.005)
    except OSError as error:
        raise SpecError(
            f"no switch answers ({error.strerror})", remedy="start one: `penstock vswitch up SPEC.toml`", place=path
        ) from None
    answer: dict[str, Any] | None = None
    came: list[int] = []
    with contextlib.suppress(OSError):  # the switch stops between request and answer
        send(connection, message, fds)
        answer, came = receive(connection)
    if answer is None:
        raise SpecError("the switch has hung up", remedy="is it going down?", place=path)
    if "error" in answer:
        close(came)
        raise SpecError(str(answer["error"]))
    return answer, came
