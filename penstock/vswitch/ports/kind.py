"""What a kind of port declares: `KIND`, a PortKind, in its own file of this folder.

penstock.vswitch.attach.open finds it by listing the folder:

    KIND = PortKind(
        "tap",                                              # its name, also in TOML
        "an interface whose other end is the port",         # for the table in docs/vswitch-ports.md
        [Option("name", device_name, "of the interface")],  # keyword arguments of `open`; without a default: required
        open_named,                                         # gets checked values only, and returns a PortHandle
        ["device", "netns"],                                # keys of a [[port]] of this kind; `needs` are required
        ["device"],
    )
"""

import collections

from penstock.inputs import boolean, whole
from penstock.units import parse_size

REQUIRED = object()
PortKind = collections.namedtuple("PortKind", ["name", "summary", "options", "open", "keys", "needs"], defaults=[()])
Option = collections.namedtuple("Option", ["name", "check", "help", "default"], defaults=[REQUIRED])


def between(low, high):
    """A check: a whole number in [low, high]."""
    return lambda value, what: whole(value, what, low, high)


def size(value, what):
    """A check: bytes, such as "8MB", at least 1."""
    return parse_size(value, what, positive=True)


def anything(value, what):
    """A check that `open` makes itself, as the value is to be seen together with others."""
    return value


HEADERS = Option("headers", boolean, "struct virtio_net_hdr before each frame", True)
BATCH = Option("batch", between(1, 64), "frames per system call", 32)
RECEIVE_BUFFER = Option("receive_buffer", size, "bytes of the socket's buffer", "8MB")
