"""Network namespaces: entering one for a while, in one thread."""

import contextlib
import ctypes
import fcntl
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from penstock.errors import PenstockError, SpecError

CLONE_NEWNET, GET_NAMESPACE_TYPE = 0x40000000, 0xB703
libc = ctypes.CDLL(None, use_errno=True)


def of_thread() -> int:
    """A descriptor of the namespace that this thread is in."""
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def check(result: int, what: str) -> None:
    """Raise what a call of libc says."""
    if result < 0:
        code = ctypes.get_errno()
        raise PenstockError(f"{what}: {os.strerror(code)}; it needs CAP_SYS_ADMIN, so run as root")


class Place:
    """A network namespace, by its descriptor."""

    def __init__(self, name: str = "namespace", fd: int = -1) -> None:
        self.name = name
        self.fd = fd

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """This thread is inside of it: what it opens or starts belongs there."""
        if self.fd < 0:
            raise PenstockError(f"namespace {self.name}: it is not open; use it in a `with`")
        before = of_thread()
        try:
            check(libc.setns(self.fd, CLONE_NEWNET), f"namespace {self.name}")
            try:
                yield
            finally:
                check(libc.setns(before, CLONE_NEWNET), "the former namespace")
        finally:
            os.close(before)

    def close(self) -> None:
        """Let go of it."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def here() -> Place:
    """The namespace that this thread is in."""
    return Place("here", of_thread())


def inside(place: Place | None) -> contextlib.AbstractContextManager[None]:
    """Enter a namespace, if one is given."""
    return place.inside() if place else contextlib.nullcontext()


def find(which: str | int) -> Place:
    """A namespace by its name (`ip netns add`), by a path such as /proc/123/ns/net, or by the number of a process in it."""
    if isinstance(which, int):
        return at_path(f"/proc/{which}/ns/net", which)
    return at_path(which, which) if which.startswith("/") else named(which)


def at_path(path: str, value: str | int) -> Place:
    """A namespace by the path of its file; `value` is what the user gave."""
    try:
        place = Place(path, os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError as error:
        if isinstance(value, int):
            raise SpecError("there is no process of that number", path="netns", value=value) from None
        raise SpecError(f"cannot be opened ({error.strerror})", path="netns", value=value) from None
    try:
        if fcntl.ioctl(place.fd, GET_NAMESPACE_TYPE) == CLONE_NEWNET:
            return place
    except OSError:
        pass
    place.close()
    raise SpecError("is no network namespace", path="netns", value=value, remedy="such as /proc/PID/ns/net or /run/netns/NAME")


def named(name: str) -> Place:
    """A namespace that `ip netns add` has made."""
    try:
        return Place(name, os.open(Path("/run/netns") / name, os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        known = sorted(p.name for p in Path("/run/netns").glob("*"))
        raise SpecError(
            "there is none of that name",
            path="netns",
            value=name,
            remedy=f"known: {', '.join(known) or 'none'}; make it: ip netns add {name}",
        ) from None


def ip(*words: str, text: str | None = None) -> None:
    """The `ip` program, in the namespace of this thread, with a text to read."""
    try:
        done = subprocess.run(["ip", *words], input=text, capture_output=True, text=True, timeout=30)
    except FileNotFoundError:
        raise PenstockError("ip is not installed; it is in the package iproute2") from None
    if done.returncode:
        raise SpecError(f"ip {' '.join(words)}: {done.stderr.strip() or 'failed'}")
