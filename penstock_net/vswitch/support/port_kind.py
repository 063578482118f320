"""The declaration of a kind of port: `KIND`, a PortKind, in its own file in `ports/`.

penstock_net.vswitch.attach.open finds it by listing the folder:

    KIND = PortKind(
        "tap",                                              # its name, also in TOML
        "an interface whose other end is the port",         # for the table in docs/vswitch-ports.md
        [Option("name", device_name, "of the interface")],  # keyword arguments of `open`; without a default: required
        open_named,                                         # gets checked values only, and returns a PortHandle
        ["device", "netns"],                                # keys of a [[port]] of this kind; `needs` are required
        ["device"],
        serves="ports of unmodified applications",          # for `penstock vswitch doctor`
        attempt=attempt,                                    # opens and closes a port in a Namespace, or here (None)
    )
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from penstock_net.inputs import boolean, whole
from penstock_net.units import parse_size

REQUIRED: Any = object()
NO_NAMESPACE = "tried on `lo` of a fresh network namespace only, and a new namespace is not permitted"  # of an attempt
Check = Callable[[Any, str], Any]  # (value, what it is) -> the value to use; SpecError


class Option(NamedTuple):
    """A keyword argument of a port's `open`; without a default it is required."""

    name: str
    check: Check
    help: str
    default: Any = REQUIRED


class Given(NamedTuple):
    """A port on its way to another process: its descriptors, numbers, and bytes that wait to be sent."""

    fds: list[int]
    numbers: dict[str, Any]
    waiting: bytes


class PortKind(NamedTuple):
    """A kind of port; `keys` are those of its table in TOML, of which `needs` are required.

    attempt   raises OSError or PenstockError if the kernel does not permit such ports; None: every kernel does
    give      what another process needs to go on with a port; None: such a port cannot be handed over
    take      the port, of the options that it was opened with and what was given, while it is still driven by the other process
    resume    goes on with it where that has stopped: with what was given then
    """

    name: str
    summary: str
    options: Sequence[Option]
    open: Callable[..., Any]
    keys: Sequence[str]
    needs: Sequence[str] = ()
    serves: str = ""
    attempt: Callable[[Any], None] | None = None
    give: Callable[[Any], Given] | None = None
    take: Callable[[dict[str, Any], Given], Any] | None = None
    resume: Callable[[Any, Given], None] | None = None


def between(low: int, high: int) -> Check:
    """A check: a whole number in [low, high]."""
    return lambda value, what: whole(value, what, low, high)


def size(value: Any, what: str) -> int:
    """A check: a size such as "8MB", at least 1 byte."""
    return parse_size(value, what, positive=True)


def anything(value: Any, what: str) -> Any:
    """No check here: `open` checks the value together with others."""
    return value


HEADERS = Option("headers", boolean, "struct virtio_net_hdr before each frame", True)
BATCH = Option("batch", between(1, 64), "frames per system call", 32)
RECEIVE_BUFFER = Option("receive_buffer", size, "bytes of the socket's buffer", "8MB")
