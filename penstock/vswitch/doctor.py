"""What this machine permits: each ability is tried, and left as it was."""

import contextlib
import ctypes
import os
import shutil
import socket
import threading
from collections.abc import Callable
from typing import NamedTuple

from penstock.errors import PenstockError


class Ability(NamedTuple):
    """One thing that a port or the laboratory needs."""

    name: str
    permitted: bool
    detail: str     # what was found, or what to do
    serves: str


def _try(attempt: Callable[[], str | None]) -> tuple[bool, str]:
    try:
        return True, attempt() or "works"
    except (OSError, PenstockError, ImportError) as e:
        return False, str(e)


def _tap() -> None:
    from penstock.vswitch.port_tap import open_tap

    with _somewhere_else(), open_tap("doctor0", True):
        pass


def _packet() -> None:
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close()


@contextlib.contextmanager
def _somewhere_else():  # type: ignore[no-untyped-def]
    """Inside a fresh network namespace where that is allowed; else here."""
    from penstock.vswitch.lab import Namespace

    try:
        namespace = Namespace("doctor").__enter__()
    except (OSError, PenstockError):
        yield
        return
    try:
        with namespace.inside():
            yield
    finally:
        namespace.close()


def _namespace() -> None:
    from penstock.vswitch.lab import Namespace

    with Namespace("doctor"):
        pass


def _user_namespace() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0 if ctypes.CDLL(None).unshare(0x10000000) == 0 else 1)
    if os.waitpid(pid, 0)[1]:
        raise OSError("unshare(CLONE_NEWUSER) is refused; see kernel.unprivileged_userns_clone, user.max_user_namespaces")


def _memfd() -> None:
    os.close(os.memfd_create("doctor", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))


def _udp_segments() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(17, 103, 1400)  # UDP_SEGMENT
        sock.setsockopt(17, 104, 1)     # UDP_GRO


def _tbf() -> None:
    from penstock.vswitch.edge import RateFeedback
    from penstock.vswitch.lab import Namespace

    with Namespace("doctor") as there, RateFeedback("lo", there, rate="1Gbps"):
        pass


def _realtime() -> None:
    problem: list[OSError] = []

    def attempt() -> None:
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        except OSError as e:
            problem.append(e)

    thread = threading.Thread(target=attempt)  # its scheduling ends with it
    thread.start()
    thread.join()
    if problem:
        raise problem[0]


def _program(name: str, package: str) -> Callable[[], str]:
    def look() -> str:
        if path := shutil.which(name):
            return path
        raise PenstockError(f"not found; install the package {package}")
    return look


def _cores() -> str:
    count = len(os.sched_getaffinity(0))
    if count < 2:
        raise PenstockError("1 core: workers and applications share it; latencies mean little")
    return f"{count} cores"


def doctor() -> list[Ability]:
    """Try everything; `permitted` of each says how it went."""
    checks: list[tuple[str, Callable[[], str | None], str]] = [
        ("tap", _tap, "ports of unmodified applications"),
        ("packet", _packet, "ports on existing interfaces"),
        ("namespaces", _namespace, "the laboratory"),
        ("user namespaces", _user_namespace, "a laboratory without root"),
        ("memfd", _memfd, "ports of native applications"),
        ("udp segments", _udp_segments, "a fast overlay"),
        ("tbf", _tbf, "rate feedback to unmodified applications"),
        ("real-time priority", _realtime, "workers that are not interrupted"),
        ("ip", _program("ip", "iproute2"), "the laboratory"),
        ("cores", _cores, "pinned workers"),
    ]
    return [Ability(name, *_try(attempt), serves) for name, attempt, serves in checks]
