"""Network namespaces: entering one for a while, in one thread."""

import contextlib
import re
from collections.abc import Iterator
from typing import Any

from penstock_net.errors import PenstockError, SpecError
from penstock_net.vswitch.world import ctypes, fcntl, os, pathlib
from penstock_net.vswitch.world.kept import once

CLONE_NEWNET, GET_NAMESPACE_TYPE = 0x40000000, 0xB703


@once
def libc() -> Any:
    """The functions of the C library, which Python has not all; to load it takes longer than what it is asked for."""
    return ctypes.CDLL(None, use_errno=True)


def current_fd() -> int:
    """A descriptor of the network namespace that this thread is in."""
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def check(result: int, what: str) -> None:
    """Raise what a call of libc says."""
    if result < 0:
        code = ctypes.get_errno()
        raise PenstockError(f"{what}: {os.strerror(code)}; it needs CAP_SYS_ADMIN, so run as root")


class NetNs:
    """A network namespace, by its descriptor."""

    def __init__(self, name: str = "namespace", fd: int = -1) -> None:
        self.name = name
        self.fd = fd

    @contextlib.contextmanager
    def enter(self) -> Iterator[None]:
        """This thread is in it for the `with` block: what it opens or starts belongs there."""
        if self.fd < 0:
            raise PenstockError(f"namespace {self.name}: it is not open; use it in a `with`")
        before = current_fd()
        try:
            check(libc().setns(self.fd, CLONE_NEWNET), f"namespace {self.name}")
            try:
                yield
            finally:
                check(libc().setns(before, CLONE_NEWNET), "the former namespace")
        finally:
            os.close(before)

    @property
    def identity(self) -> tuple[int, int]:
        """As `identity` gives it for a name."""
        found = os.fstat(self.fd)
        return found.st_dev, found.st_ino

    def close(self) -> None:
        """Close the descriptor."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def current() -> NetNs:
    """The namespace that this thread is in."""
    return NetNs("here", current_fd())


def enter(namespace: NetNs | None) -> contextlib.AbstractContextManager[None]:
    """Enter a namespace, if one is given."""
    return namespace.enter() if namespace else contextlib.nullcontext()


def path_of(which: str | int) -> str:
    """The file of a namespace that is given by its name, by a path, or by the number of a process in it."""
    if isinstance(which, int):
        return f"/proc/{which}/ns/net"
    return which if which.startswith("/") else f"/run/netns/{which}"


def identity(which: str | int) -> tuple[int, int] | None:
    """What tells a namespace from all others, as long as it exists; None: there is none there."""
    try:
        found = os.stat(path_of(which))
    except OSError:
        return None
    return found.st_dev, found.st_ino


def process_of(which: str | int) -> tuple[int, str] | None:
    """The process by which a namespace is given, and its start, which tells it from others of its number; None: there is none."""
    found = re.fullmatch(r"/proc/(\d+)/ns/net", path_of(which))
    if not found:
        return None
    started = ""
    with contextlib.suppress(OSError):
        started = pathlib.Path(f"/proc/{found[1]}/stat").read_text().rpartition(")")[2].split()[19]
    return int(found[1]), started


def open_netns(which: str | int) -> NetNs:
    """A namespace by its name (`ip netns add`), by a path such as /proc/123/ns/net, or by the number of a process in it."""
    if isinstance(which, int):
        return open_path(path_of(which), which)
    return open_path(which, which) if which.startswith("/") else open_named(which)


def open_path(path: str, value: str | int) -> NetNs:
    """A namespace by the path of its file; `value` is what the user gave."""
    try:
        namespace = NetNs(path, os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError as error:
        if isinstance(value, int):
            raise SpecError("there is no process of that number", path="netns", value=value) from None
        raise SpecError(f"cannot be opened ({error.strerror})", path="netns", value=value) from None
    try:
        if fcntl.ioctl(namespace.fd, GET_NAMESPACE_TYPE) == CLONE_NEWNET:
            return namespace
    except OSError:
        pass
    namespace.close()
    raise SpecError("is no network namespace", path="netns", value=value, remedy="such as /proc/PID/ns/net or /run/netns/NAME")


def open_named(name: str) -> NetNs:
    """A namespace that `ip netns add` has made."""
    path = path_of(name)
    if os.path.exists(path):
        namespace = open_path(path, name)
        namespace.name = name
        return namespace
    known = sorted(p.name for p in pathlib.Path("/run/netns").glob("*"))
    raise SpecError(
        "there is none of that name",
        path="netns",
        value=name,
        remedy=f"known: {', '.join(known) or 'none'}; make it: ip netns add {name}",
    )
