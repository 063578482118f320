"""Frames that say what they are: from which incarnation of which sender, of which flow, and which of it."""

import functools
import ipaddress
import struct
import zlib
from typing import NamedTuple

HEADERS, SIX_HEADERS = 42, 62  # Ethernet, IPv4 or IPv6, UDP
TYPE_OF_SIX, SIX = b"\x86\xdd", 16  # the latter: what is added to the number of a queue
FLOW = struct.Struct("!HHHHH")
REST = struct.Struct("!IHI")  # a number in it, the length of what follows the headers, and a checksum of the flow and the number
NUMBER_BYTES = 4
MARK_BYTES = FLOW.size + REST.size
HEADER = struct.Struct("!12sHBBHHHBBH4s4sHHHH")
HEADER_OF_SIX = struct.Struct("!12sHIHBB16s16sHHHH")
SENDER, EVERYBODY = b"\4" * 6, b"\xff" * 6
MACS = b"\2" * 6 + SENDER
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
    """A frame of at least `size` bytes from one IPv4 address to another, or from one of IPv6."""
    flow, number = frame
    length = max(size - (SIX_HEADERS if ":" in source else HEADERS), MARK_BYTES)
    begin, check = _begin(flow, source, target, length)
    rest = REST.pack(number, length, zlib.crc32(number.to_bytes(NUMBER_BYTES, "big"), check))
    return begin + rest + FILLERS[(number + flow.queue) & 0xFF] * (length - MARK_BYTES)


@functools.lru_cache(KNOWN)
def _begin(flow: Flow, source: str, target: str, length: int) -> tuple[bytes, int]:
    """The headers and the flow, and the checksum of the latter."""
    ports, mark = (PORT + flow.queue, PORT + flow.source, 8 + length, 0), FLOW.pack(*flow)
    if ":" in source:
        headers = HEADER_OF_SIX.pack(MACS, 0x86DD, 6 << 28, 8 + length, 17, 64, packed(source), packed(target), *ports)
    else:
        ip = (0x0800, 0x45, 0, 28 + length, 0, 0, 64, 17, 0)
        headers = HEADER.pack(MACS, *ip, packed(source), packed(target), *ports)
    return headers + mark, zlib.crc32(mark)


@functools.cache
def packed(address: str) -> bytes:
    return ipaddress.ip_address(address).packed


def _content_at(data: bytes) -> int:
    return SIX_HEADERS if data[12:14] == TYPE_OF_SIX else HEADERS


def marked(data: bytes) -> Frame:
    """What a frame is, of which there are only the first bytes."""
    number_at = _content_at(data) + FLOW.size
    number = int.from_bytes(data[number_at : number_at + NUMBER_BYTES], "big")
    return Frame(_flow(data[number_at - FLOW.size : number_at])[0], number)


def read(data: bytes) -> Frame | None:
    """What a frame is; None: it is not as it was sent."""
    at = _content_at(data)
    if len(data) < at + MARK_BYTES:
        return None
    rest_at = at + FLOW.size
    flow, checked = _flow(data[at:rest_at])
    number, length, check = REST.unpack_from(data, rest_at)
    if check != zlib.crc32(data[rest_at : rest_at + NUMBER_BYTES], checked):
        return None
    is_whole = data[at + MARK_BYTES :] == FILLERS[(number + flow.queue) & 0xFF] * (length - MARK_BYTES)
    return Frame(flow, number) if is_whole else None


def target_of(data: bytes) -> bytes:
    """Its IP destination."""
    return data[38:54] if data[12:14] == TYPE_OF_SIX else data[30:34]


def mac_of(data: bytes) -> bytes:
    """Its Ethernet destination."""
    return data[:6]
