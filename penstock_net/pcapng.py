"""Blocks of a pcapng file (draft-ietf-opsawg-pcapng), for captures of the switch and of simulations.

    out.write(section() + interface("tor0:3") + packet(0, 1_000, frame))

Little endian, Ethernet, times in ns since 1970.
"""

import struct

ETHERNET = 1
INBOUND, OUTBOUND = 1, 2
COMMENT, NAME, DESCRIPTION, FLAGS, QUEUE, SPEED, RESOLUTION = 1, 2, 3, 2, 6, 8, 9  # options


def block(kind: int, body: bytes) -> bytes:
    """A block; the body is a multiple of 4 bytes."""
    size = struct.pack("<I", 12 + len(body))
    return struct.pack("<I", kind) + size + body + size


def option(code: int, value: bytes) -> bytes:
    """One option, padded."""
    return struct.pack("<HH", code, len(value)) + value + bytes(-len(value) % 4)


def section() -> bytes:
    """The first block of a file."""
    return block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))


def interface(name: str = "", description: str = "", bits_per_second: int = 0) -> bytes:
    """The block of one interface; they are numbered from 0 in the order in which they are written."""
    options = option(NAME, name.encode()) if name else b""
    if description:
        options += option(DESCRIPTION, description.encode())
    if bits_per_second:
        options += option(SPEED, struct.pack("<Q", bits_per_second))
    options += option(RESOLUTION, b"\x09") + option(0, b"")
    return block(1, struct.pack("<HHI", ETHERNET, 0, 0) + options)


def packet(
    interface: int, ns: int, frame: bytes, length: int = 0, *, flags: int = 0, queue: int = -1, comment: str = ""
) -> bytes:
    """The block of one frame.

    ns       time since 1970
    length   of the whole frame, bytes; 0: `frame` is whole
    flags    INBOUND or OUTBOUND; 0: not known
    queue    of the interface; -1: none
    """
    options = b""
    if comment:
        options += option(COMMENT, comment.encode())
    if flags:
        options += option(FLAGS, struct.pack("<I", flags))
    if queue >= 0:
        options += option(QUEUE, struct.pack("<I", queue))
    if options:
        options += option(0, b"")
    kept = len(frame)
    head = struct.pack("<5I", interface, ns >> 32, ns & 0xFFFFFFFF, kept, length or kept)
    return block(6, head + frame + bytes(-kept % 4) + options)
