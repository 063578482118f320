"""Messages between daemon and clients: a JSON object per line over a unix socket, with file descriptors as ancillary data.

A client sends nothing, above all no descriptor, before it has verified that the listener is root, its own user, or an explicitly
trusted one. The kernel identifies the listener (SO_PEERCRED), so neither the path nor its permissions have to be trusted.
"""

import array
import contextlib
import json
import struct
from collections.abc import Callable
from typing import Any

from penstock_net.errors import PenstockError, SpecError
from penstock_net.vswitch.world import os, select, socket, time

LONGEST = 1 << 24
TIMEOUT_S = 15.0
DOWN_S = 120.0  # in which a switch goes down, however many interfaces it has
SO_PEERGROUPS = 59
MOST_GROUPS = 256  # of a peer that are looked at
# What an answer has, by what was asked for; that to `show` has what was named.
ANSWERS: dict[str, dict[str, type | tuple[type, ...]]] = {
    "attach": {"attached": str, "doorbells": bool, "addresses": list},
    "plug": {"plugged": str, "addresses": list},
    "capture": {"ports": list},
    "set": {"settings": dict, "ports": dict},
    "undo": {"settings": dict, "ports": dict, "undone": list},
    "reload": {"settings": dict, "ports": dict, "not_up": dict},
    "port_add": {"added": dict},
    "port_del": {"removed": dict},
    "drain": {"drained": bool, "left": list},
    "upgrade": {"upgraded": int, "paused_ns": int},
    "down": {"left": list},
}
DESCRIPTORS = {"attach": 2, "capture": 1}  # that come with an answer


class NoAnswer(SpecError):
    """No switch answers at the socket."""


class Busy(SpecError):
    """The switch has as many connections as it takes: the same may be asked again."""


def send(connection: socket.socket, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
    """Send one message, with file descriptors.  OSError: the connection is closed or timed out."""
    data = json.dumps(message).encode() + b"\n"
    sent = socket.send_fds(connection, [data], list(fds)) if fds else 0
    if sent < len(data):
        connection.sendall(data[sent:])


def answered(answer: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """What `answer` returns.  PenstockError: also for what the kernel refuses, about an interface that changes just then."""
    try:
        return answer(*arguments)
    except OSError as error:
        raise PenstockError(str(error)) from error


def readable(*sockets: socket.socket, wait_s: float = 0.0) -> bool:
    """Whether one of the sockets is readable or closed, now or within `wait_s` s.

    By poll(): select() refuses descriptors above 1023.
    """
    poll = select.poll()
    for each in sockets:
        poll.register(each, select.POLLIN)
    return bool(poll.poll(1000 * wait_s))


def receive(
    connection: socket.socket, longest: int = LONGEST, most_fds: int = 4, within: float | None = None
) -> tuple[dict[str, Any] | None, list[int]]:
    """Receive one message with its descriptors, which the caller must close.

    longest  largest size of a message, bytes
    within   timeout for the whole message, s
    None: the peer closed the connection, the timeout expired, or the message is malformed or too large.
    """
    data = bytearray()
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


def peer(connection: socket.socket) -> tuple[int, int, set[int]]:
    """Process ID, user ID and groups of the peer at the time when it connected or began to listen."""
    pid, uid, gid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    groups = {gid}
    with contextlib.suppress(OSError):  # it has more groups than MOST_GROUPS
        data = connection.getsockopt(socket.SOL_SOCKET, SO_PEERGROUPS, 4 * MOST_GROUPS)
        groups |= set(struct.unpack(f"{len(data) // 4}I", data))
    return pid, uid, groups


def describe_listener(connection: socket.socket) -> str:
    """Describes the process listening on the control socket, for error messages; it need not be a switch."""
    pid, uid, _ = peer(connection)
    who = f"process {pid} of user {uid}" if pid else f"a process of user {uid}, in another container,"
    return f"{who} is listening there" + ("" if _is_trusted(uid) else ", not root and not you")


def _is_trusted(uid: int, allow_uid: int | None = None) -> bool:
    return uid in (0, os.geteuid(), allow_uid)


def ask(path: str, message: dict[str, Any], timeout: float = TIMEOUT_S, allow_uid: int | None = None) -> dict[str, Any]:
    """Send one request to a running switch; returns its answer.  SpecError: no switch answers, or it reports an error."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(timeout)
        answer, fds = converse(connection, path, message, allow_uid=allow_uid)
        close(fds)
    return answer


def converse(
    connection: socket.socket, path: str, message: dict[str, Any], fds: tuple[int, ...] = (), allow_uid: int | None = None
) -> tuple[dict[str, Any], list[int]]:
    """Connect, send a message, and return the answer with its descriptors.

    allow_uid   a user whose switch is trusted, in addition to root's and this user's
    SpecError: there is no answer (NoAnswer), the listener is not trusted, or the answer is an error (Busy: that of a switch with
    too many connections) or not that of a switch.
    """
    timeout = connection.gettimeout() or TIMEOUT_S
    _connect(connection, path, time.monotonic() + timeout)
    _verify_listener(connection, path, allow_uid)
    end = time.monotonic() + timeout
    with contextlib.suppress(OSError):  # the switch stops, or answers and hangs up, before it has read everything
        send(connection, message, fds)
    answer, came = receive(connection, within=timeout)
    connection.settimeout(timeout)
    if answer is None and time.monotonic() >= end:
        raise NoAnswer(f"the switch has not answered for {timeout:g} s", remedy="is it stopped, or overloaded?", place=path)
    if answer is None:
        raise NoAnswer("the switch has closed the connection", remedy="is it going down?", place=path)
    if "error" in answer:
        close(came)
        raise (Busy if answer.get("busy") else SpecError)(str(answer["error"]))
    if not _is_answer(answer, message, came):
        close(came)
        raise SpecError("the listener is not a switch", remedy="or it is a switch of another version", place=path)
    return answer, came


def _connect(connection: socket.socket, path: str, end: float) -> None:
    try:
        while True:
            try:
                connection.connect(path)
                return
            except BlockingIOError:  # the backlog is full
                if time.monotonic() > end:
                    raise
                time.sleep(0.005)
    except OSError as error:
        raise NoAnswer(
            f"no switch answers ({error.strerror or error})", remedy="start one: `penstock vswitch up SPEC.toml`", place=path
        ) from None


def _verify_listener(connection: socket.socket, path: str, allow_uid: int | None) -> None:
    """SpecError unless the listener is root, this process's user, or the user `allow_uid`."""
    _, uid, _ = peer(connection)
    if not _is_trusted(uid, allow_uid):
        rule = f"user {uid} listens there, not root and not you: nothing was sent"
        raise SpecError(rule, remedy=f"if that user runs the switch: --allow-uid {uid}", place=path)


def _is_answer(answer: dict[str, Any], message: dict[str, Any], came: list[int]) -> bool:
    """Whether an answer has the keys that the request asks for."""
    if "show" in message:
        return isinstance(answer.get(message["show"]), (list, dict)) and not came
    asked = next((key for key in ANSWERS if key in message), "")
    fields = ANSWERS.get(asked, {})
    return all(isinstance(answer.get(key), kind) for key, kind in fields.items()) and len(came) == DESCRIPTORS.get(asked, 0)
