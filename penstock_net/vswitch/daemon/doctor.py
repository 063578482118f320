"""Checks what this machine permits: each ability is tried and undone."""

import contextlib
import platform
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from penstock_net.errors import PenstockError
from penstock_net.vswitch.attach.open import kinds as port_kinds
from penstock_net.vswitch.daemon.places import default_socket, is_made
from penstock_net.vswitch.linux.scheduling import refusal
from penstock_net.vswitch.support.port_kind import NO_NAMESPACE
from penstock_net.vswitch.world import ctypes, os, resource, shutil, socket

DESCRIPTORS = 640
Attempt = Callable[[], str | None]


class Ability(NamedTuple):
    """An ability of this machine that ports, the laboratory or measurements need."""

    name: str
    permitted: bool
    detail: str  # the result, or the remedy
    serves: str
    needed: bool = False  # or the switch cannot run at all


def _try(attempt: Attempt) -> tuple[bool, str]:
    try:
        return True, attempt() or "works"
    except (OSError, PenstockError, ImportError) as e:
        return False, str(e)


def _of_kind(attempt: Callable[[Any], None]) -> Attempt:
    def in_namespace() -> None:
        with _scratch_namespace() as there:
            attempt(there)

    return in_namespace


@contextlib.contextmanager
def _scratch_namespace():  # type: ignore[no-untyped-def]
    """Run the body in a fresh network namespace where that is permitted, otherwise in the present one (and yield None)."""
    from penstock_net.vswitch.attach.lab import Namespace

    try:
        namespace = Namespace("doctor").__enter__()
    except (OSError, PenstockError):
        yield None
        return
    try:
        with namespace.enter():
            yield namespace
    finally:
        namespace.close()


def _namespace() -> None:
    from penstock_net.vswitch.attach.lab import Namespace

    with Namespace("doctor"):
        pass


def _user_namespace() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0 if ctypes.CDLL(None).unshare(0x10000000) == 0 else 1)
    if os.waitpid(pid, 0)[1]:
        raise OSError("unshare(CLONE_NEWUSER) is refused; see kernel.unprivileged_userns_clone, user.max_user_namespaces")


def _kernel() -> str:
    if tuple(int(n) for n in platform.release().split("-")[0].split(".")[:2]) < (5, 11):
        raise PenstockError(f"{platform.release()}: 5.11 or later is needed to sleep for microseconds")
    return platform.release()


def _byte_order() -> str:
    if sys.byteorder != "little":
        raise PenstockError(f"{sys.byteorder}: addresses are compared as little-endian words")
    return sys.byteorder


def _shared_memory() -> None:
    from penstock_net.vswitch.memory.region import Region

    Region.create(rings=2, queues=1, bells=1, buffers=1, buffer_bytes=64)


def _pidfd() -> None:
    os.close(os.pidfd_open(os.getpid()))


def _load() -> str:
    load, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
    if load >= cores / 2:
        raise PenstockError(f"load average {load:.1f} on {cores} cores; measure times on a quiet machine")
    return f"load average {load:.1f}"


def _udp_segments() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(17, 103, 1400)  # UDP_SEGMENT
        sock.setsockopt(17, 104, 1)  # UDP_GRO


def _flow_rates() -> None:
    from penstock_net.vswitch.linux.htb import FiveTuple, Htb

    with _scratch_namespace() as there:
        if not there:
            raise PenstockError(NO_NAMESPACE)
        with Htb("lo", there) as htb:
            htb.set_class(2, 1_000_000)
            htb.add_filter(2, FiveTuple(17, "127.0.0.1", 7, "127.0.0.2", 7))


def _udp_sockets() -> None:
    from penstock_net.vswitch.attach.socket_watch import SocketProbe

    SocketProbe().close()


def _realtime() -> None:
    if problem := refusal():
        raise problem


def _program(name: str, package: str) -> Callable[[], str]:
    def look() -> str:
        if path := shutil.which(name):
            return path
        raise PenstockError(f"not found; install the package {package}")

    return look


def _socket() -> str:
    path = default_socket()
    if problem := unwritable(path):
        raise PenstockError(f"{path}: {problem}; choose another switch.socket, or set XDG_RUNTIME_DIR")
    return path


def unwritable(path: str) -> str:
    """Why this user cannot create a file at this path; "" if it can. The switch creates the folder of the default socket."""
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder) and is_made(path):
        folder = os.path.dirname(folder)
    if not os.path.isdir(folder):
        return "its folder does not exist"
    return "" if os.access(folder, os.W_OK | os.X_OK) else "its folder cannot be written"


def _descriptors() -> str:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if 0 <= limit < DESCRIPTORS:
        raise PenstockError(f"at most {limit}; {DESCRIPTORS} are enough for all ports: ulimit -n {DESCRIPTORS}")
    return "no limit" if limit < 0 else f"at most {limit}"


def _cores() -> str:
    count = len(os.sched_getaffinity(0))
    if count < 2:
        raise PenstockError("1 core: workers and applications share it; latencies mean little")
    return f"{count} cores"


BASIC: dict[str, tuple[Attempt, str]] = {  # without which the switch cannot run at all
    "kernel": (_kernel, "short sleeps"),
    "byte order": (_byte_order, "everything"),
    "shared memory": (_shared_memory, "ports of native applications"),
}
MORE: dict[str, tuple[Attempt, str]] = {
    "socket": (_socket, "the switch's own socket"),
    "descriptors": (_descriptors, "ports (5 for each) and connections"),
    "pidfd": (_pidfd, "immediate detection of an application's end"),
    "namespaces": (_namespace, "the laboratory"),
    "user namespaces": (_user_namespace, "the laboratory without root"),
    "udp segments": (_udp_segments, "a fast overlay"),
    "flow rates": (_flow_rates, "rates of single flows of unmodified applications (HTB, u32)"),
    "udp sockets": (_udp_sockets, "slow unmodified receivers of UDP (udp_diag)"),
    "real-time priority": (_realtime, "workers with `realtime = true`"),
    "ip": (_program("ip", "iproute2"), "the laboratory"),
    "cores": (_cores, "pinned workers"),
    "quiet": (_load, "measurements"),
}


def attempts() -> dict[str, tuple[Attempt, str]]:
    """Every ability by name, with what it serves: those of the machine, and those that kinds of port declare."""
    of_kinds = {kind.name: (_of_kind(kind.attempt), kind.serves) for kind in port_kinds().values() if kind.attempt}
    return {**BASIC, **of_kinds, **MORE}


def needs() -> dict[str, tuple[str, ...]]:
    """Kind of port -> the abilities that it requires, without optional ones."""
    return {"shm": (*BASIC, "socket")} | {kind.name: (kind.name,) if kind.attempt else () for kind in port_kinds().values()}


def ability(name: str) -> Ability:
    """Try one ability."""
    return _tried(name, *attempts()[name])


def _tried(name: str, attempt: Attempt, serves: str) -> Ability:
    return Ability(name, *_try(attempt), serves, name in BASIC)


def doctor() -> list[Ability]:
    """Try all abilities; `permitted` of each is the result."""
    return [_tried(name, *each) for name, each in attempts().items()]


def kinds(found: list[Ability]) -> dict[str, list[str]]:
    """Kind of port -> names of the abilities that are missing for it."""
    permitted = {ability.name for ability in found if ability.permitted}
    return {kind: [name for name in names if name not in permitted] for kind, names in needs().items()}


def examine() -> list[dict[str, Any]]:
    """The results of `doctor` and `kinds` as rows of a table: what, ok, needed, detail."""
    found = doctor()
    rows = [{"what": a.name, "ok": a.permitted, "needed": a.needed, "detail": f"{a.detail}; for {a.serves}"} for a in found]
    for kind, missing in kinds(found).items():
        detail = f"not permitted: {', '.join(missing)}" if missing else "can be used"
        rows.append({"what": f"port {kind}", "ok": not missing, "needed": False, "detail": detail})
    return rows
