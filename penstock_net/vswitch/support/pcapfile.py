"""Reads frames with their times from pcap and pcapng files; errors give the position in a malformed file."""

import struct
from collections.abc import Iterator

import penstock_net.pcapng as pcapng
from penstock_net.errors import SpecError
from penstock_net.pcapng import ETHERNET
from penstock_net.vswitch.world import pathlib, time

LATEST = 100 * 366 * 86_400 * 10**9
LONGEST = 65_550  # bytes of a frame
PCAP_BEGINNING = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, ETHERNET)
PCAPNG_BEGINNING = pcapng.section() + pcapng.interface()

_PCAP = {0xA1B2C3D4: 1000, 0xA1B23C4D: 1}  # magic number -> ns per unit of the fraction


def read_frames(path: str | pathlib.Path) -> list[tuple[int, bytes]]:
    """(time in ns, frame) of every frame of a file."""
    try:
        data = pathlib.Path(path).read_bytes()
    except OSError as e:
        raise SpecError(str(e.strerror or e), place=path) from None
    return list(parse_frames(data, str(path)))


def parse_frames(data: bytes, name: str = "recording") -> Iterator[tuple[int, bytes]]:
    """(time in ns, frame) of every frame in the bytes of a file."""
    for order in "<>":
        if len(data) >= 4 and struct.unpack_from(order + "I", data)[0] in _PCAP:
            return _pcap(data, order, name)
    if data[:4] == b"\x0a\x0d\x0d\x0a":
        return _pcapng(data, name)
    raise SpecError(f"begins with {data[:4].hex() or 'nothing'}, which is neither pcap nor pcapng", place=name)


def _check_frame(size: int, whole: int, at: int, name: str) -> None:
    if size < 14 or size > LONGEST:
        raise SpecError(f"byte {at}: a frame of {size} B", place=name, remedy=f"an Ethernet frame has 14 to {LONGEST} B")
    if size < whole:
        raise SpecError(
            f"byte {at}: {size} of {whole} B of a frame were captured", place=name, remedy="record whole frames (tcpdump -s 0)"
        )


def _check_type(kind: int, name: str) -> None:
    if kind != ETHERNET:
        raise SpecError(f"link type {kind}", place=name, remedy="only Ethernet (1) can be replayed")


def _pcap(data: bytes, order: str, name: str) -> Iterator[tuple[int, bytes]]:
    if len(data) < 24:
        raise SpecError(f"{len(data)} B", place=name, remedy="the header of a pcap file has 24 B")
    unit = _PCAP[struct.unpack_from(order + "I", data)[0]]
    _check_type(struct.unpack_from(order + "I", data, 20)[0] & 0xFFFF, name)
    at = 24
    while at < len(data):
        if at + 16 > len(data):
            raise SpecError(f"byte {at}: the file ends inside of a frame's header", place=name)
        seconds, fraction, size, whole = struct.unpack_from(order + "IIII", data, at)
        if at + 16 + size > len(data):
            raise SpecError(f"byte {at}: the file ends inside of a frame of {size} B", place=name)
        _check_frame(size, whole, at, name)
        yield seconds * 10**9 + fraction * unit, data[at + 16 : at + 16 + size]
        at += 16 + size


def _resolution(options: bytes, order: str, name: str, at: int) -> int:
    """Units per second of an interface's time stamps."""
    place = 0
    while place + 4 <= len(options):
        code, size = struct.unpack_from(order + "HH", options, place)
        if code == 0:
            break
        if code == 9 and size == 1 and place + 4 < len(options):
            value = options[place + 4]
            power = value & 0x7F
            if power > (63 if value & 0x80 else 18):
                raise SpecError(
                    f"byte {at}: times in units of {'2' if value & 128 else '10'}**-{power} s are too fine", place=name
                )
            return 2**power if value & 0x80 else 10**power
        place += 4 + (size + 3 & ~3)
    return 10**6


def _pcapng(data: bytes, name: str) -> Iterator[tuple[int, bytes]]:
    at, order = 0, "<"
    units: list[int] = []
    while at < len(data):
        if at + 12 > len(data):
            raise SpecError(f"byte {at}: the file ends inside of a block", place=name)
        if data[at : at + 4] == b"\x0a\x0d\x0d\x0a":
            magic = data[at + 8 : at + 12]
            if magic not in (b"\x4d\x3c\x2b\x1a", b"\x1a\x2b\x3c\x4d"):
                raise SpecError(f"byte {at}: byte-order magic {magic.hex()} is not that of a section", place=name)
            order, units = "<" if magic[0] == 0x4D else ">", []
        kind, total = struct.unpack_from(order + "II", data, at)
        if total < 12 or total % 4 or at + total > len(data):
            raise SpecError(f"byte {at}: a block of {total} B, with {len(data) - at} B left in the file", place=name)
        if struct.unpack_from(order + "I", data, at + total - 4)[0] != total:
            raise SpecError(f"byte {at}: a block whose two lengths differ", place=name)
        body = data[at + 8 : at + total - 4]
        if kind == 1:
            if len(body) < 8:
                raise SpecError(f"byte {at}: an interface of {len(body)} B", place=name, remedy="it has at least 8 B")
            _check_type(struct.unpack_from(order + "H", body)[0], name)
            units.append(_resolution(body[8:], order, name, at))
        elif kind in (3, 6):
            if len(body) < (20 if kind == 6 else 4):
                raise SpecError(f"byte {at}: a frame's block of {len(body)} B is too short", place=name)
            interface, high, low, size, whole = struct.unpack_from(order + "IIIII", body) if kind == 6 else (0, 0, 0, 0, 0)
            start = 20
            if kind == 3:  # a simple block: no time, and its size is the block's
                whole = struct.unpack_from(order + "I", body)[0]
                size, start = min(whole, len(body) - 4), 4
            if interface >= len(units):
                raise SpecError(f"byte {at}: a frame of interface {interface}, of which the file says nothing", place=name)
            if start + size > len(body):
                raise SpecError(f"byte {at}: a frame of {size} B in a block of {total} B", place=name)
            _check_frame(size, whole, at, name)
            yield (high << 32 | low) * 10**9 // units[interface], body[start : start + size]
        at += total


def as_records(frames: list[tuple[int, bytes]]) -> bytearray:
    """The records that the port replays: time since the first frame (ns), never decreasing, length, frame."""
    out = bytearray()
    latest = 0
    for moment, frame in frames:
        latest = max(latest, moment - frames[0][0])
        if latest > LATEST:
            raise SpecError(f"a frame {latest / 1000000000.0:.3g} s after the first one: a recording lasts at most 100 years")
        out += struct.pack("=qq", latest, len(frame)) + frame
        out += bytes(-len(out) % 8)
    return out


def clock_origin() -> int:
    """Ns since 1970 when the machine's monotonic clock was 0."""
    return time.time_ns() - time.monotonic_ns()
