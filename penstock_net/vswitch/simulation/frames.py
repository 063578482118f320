"""Frames that say what they are: from which incarnation of which sender, of which flow, and which of it."""

import functools
import ipaddress
import struct
import zlib
from typing import NamedTuple

HEADERS = 42  # Ethernet, IPv4, UDP
MARK = struct.Struct("!HHHHHIHI")
FRAME = struct.Struct("!HHHHHI")
HEADER = struct.Struct("!12sHBBHHHBBH4s4sHHHH")
SENDER, EVERYBODY = b"\4" * 6, b"\xff" * 6
MACS = b"\2" * 6 + SENDER
LEAST = HEADERS + MARK.size
PORT = 1000  # of UDP, of the first flow


class Flow(NamedTuple):
    """What must not overtake itself."""

    source: int  # number of the port
    life: int  # of the program there
    queue: int
    target: int  # number of the port
    way: int  # how often the addresses of the two ports had changed: then it is another flow


class Frame(NamedTuple):
    """One of a flow."""

    flow: Flow
    number: int


def written(frame: Frame, source: str, target: str, size: int) -> bytes:
    """A frame of at least `size` bytes from one IPv4 address to another."""
    flow = frame.flow
    length = max(size, LEAST) - HEADERS
    mark = MARK.pack(*flow, frame.number, length, _check(frame))
    filler = bytes([(frame.number + flow.queue) & 0xFF]) * (length - MARK.size)
    ip, udp = (0x0800, 0x45, 0, 28 + length, 0, 0, 64, 17, 0), (PORT + flow.queue, PORT + flow.source, 8 + length, 0)
    return HEADER.pack(MACS, *ip, packed(source), packed(target), *udp) + mark + filler


@functools.cache
def packed(address: str) -> bytes:
    return ipaddress.IPv4Address(address).packed


def _check(frame: Frame) -> int:
    return zlib.crc32(FRAME.pack(*frame.flow, frame.number))


def marked(data: bytes) -> Frame:
    """What a frame is, of which there are only the first bytes."""
    *flow, number, _, _ = MARK.unpack_from(data, HEADERS)
    return Frame(Flow(*flow), number)


def read(data: bytes) -> Frame | None:
    """What a frame is; None: it is not as it was sent."""
    if len(data) < LEAST:
        return None
    *flow, number, length, check = MARK.unpack_from(data, HEADERS)
    found = Frame(Flow(*flow), number)
    filler = bytes([(number + found.flow.queue) & 0xFF]) * (length - MARK.size)
    is_whole = check == _check(found) and data[HEADERS + MARK.size :] == filler
    return found if is_whole else None


def target_of(data: bytes) -> bytes:
    """Its IPv4 destination."""
    return data[30:34]


def mac_of(data: bytes) -> bytes:
    """Its Ethernet destination."""
    return data[:6]
