"""Frames that say what they are: from which incarnation of which sender, of which flow, and which of it."""

import functools
import ipaddress
import struct
import zlib
from typing import NamedTuple

HEADERS = 42  # Ethernet, IPv4, UDP
FLOW = struct.Struct("!HHHHH")
REST = struct.Struct("!IHI")  # a number in it, the length of what follows the headers, and a checksum of the flow and the number
REST_AT, NUMBER_BYTES = 42 + FLOW.size, 4
MARK_BYTES = FLOW.size + REST.size
HEADER = struct.Struct("!12sHBBHHHBBH4s4sHHHH")
SENDER, EVERYBODY = b"\4" * 6, b"\xff" * 6
MACS = b"\2" * 6 + SENDER
LEAST = HEADERS + MARK_BYTES
FILLERS = [bytes([i]) for i in range(256)]
KNOWN = 1 << 14  # flows, headers and texts that are kept: they recur with each frame
PORT = 1000  # of UDP, of the first flow


class Flow(NamedTuple):
    """What must not overtake itself."""

    source: int  # number of the port
    life: int  # of the program there
    queue: int
    target: int  # number of the port
    way: int  # how often the addresses of the two ports had changed: then it is another flow

    def __repr__(self) -> str:
        return _text(self)


class Frame(NamedTuple):
    """One of a flow."""

    flow: Flow
    number: int

    def __repr__(self) -> str:  # each frame is noted
        return f"Frame(flow={_text(self.flow)}, number={self.number})"


@functools.lru_cache(KNOWN)
def _text(flow: Flow) -> str:
    return f"Flow({', '.join(f'{name}={number}' for name, number in zip(Flow._fields, flow))})"


@functools.lru_cache(KNOWN)
def flow_of(source: int, life: int, queue: int, target: int, way: int) -> Flow:
    """The same object for the same flow."""
    return Flow(source, life, queue, target, way)


@functools.lru_cache(KNOWN)
def _flow(data: bytes) -> tuple[Flow, int]:
    """A flow, and the checksum of its bytes."""
    return flow_of(*FLOW.unpack(data)), zlib.crc32(data)


def written(frame: Frame, source: str, target: str, size: int) -> bytes:
    """A frame of at least `size` bytes from one IPv4 address to another."""
    flow, number = frame
    length = max(size, LEAST) - HEADERS
    begin, check = _begin(flow, source, target, length)
    rest = REST.pack(number, length, zlib.crc32(number.to_bytes(NUMBER_BYTES, "big"), check))
    return begin + rest + FILLERS[(number + flow.queue) & 0xFF] * (length - MARK_BYTES)


@functools.lru_cache(KNOWN)
def _begin(flow: Flow, source: str, target: str, length: int) -> tuple[bytes, int]:
    """The headers and the flow, and the checksum of the latter."""
    ip = (0x0800, 0x45, 0, 28 + length, 0, 0, 64, 17, 0)
    udp = (PORT + flow.queue, PORT + flow.source, 8 + length, 0)
    mark = FLOW.pack(*flow)
    return HEADER.pack(MACS, *ip, packed(source), packed(target), *udp) + mark, zlib.crc32(mark)


@functools.cache
def packed(address: str) -> bytes:
    return ipaddress.IPv4Address(address).packed


def marked(data: bytes) -> Frame:
    """What a frame is, of which there are only the first bytes."""
    number = int.from_bytes(data[REST_AT : REST_AT + NUMBER_BYTES], "big")
    return Frame(_flow(data[HEADERS:REST_AT])[0], number)


def read(data: bytes) -> Frame | None:
    """What a frame is; None: it is not as it was sent."""
    if len(data) < LEAST:
        return None
    flow, checked = _flow(data[HEADERS:REST_AT])
    number, length, check = REST.unpack_from(data, REST_AT)
    if check != zlib.crc32(data[REST_AT : REST_AT + NUMBER_BYTES], checked):
        return None
    is_whole = data[LEAST:] == FILLERS[(number + flow.queue) & 0xFF] * (length - MARK_BYTES)
    return Frame(flow, number) if is_whole else None


def target_of(data: bytes) -> bytes:
    """Its IPv4 destination."""
    return data[30:34]


def mac_of(data: bytes) -> bytes:
    """Its Ethernet destination."""
    return data[:6]
