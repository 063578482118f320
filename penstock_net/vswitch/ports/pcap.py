"""Recordings: replays the frames of a file with their recorded timing or at a given pace; frames sent are written to a file.

The file has no headers; partial checksums are completed in it.
"""

import cython

from penstock_net.errors import SpecError
from penstock_net.units import parse_time
from penstock_net.vswitch.ports.base import PortHandle
from penstock_net.vswitch.support.pcapfile import PCAP_BEGINNING, PCAPNG_BEGINNING, as_records, clock_origin, read_frames
from penstock_net.vswitch.support.port_kind import HEADERS, Option, PortKind, anything, between
from penstock_net.vswitch.world import os

if not cython.compiled:
    from cython.cimports.libc.errno import EINTR, errno
    from cython.cimports.libc.string import memcpy

    from penstock_net.vswitch.ports.base import (
        ETHERNET_BYTES,
        FRAME_BYTES,
        PyBytes_AS_STRING,
        bytes_from,
        complete_copy,
        keep,
        pointer_to,
        received,
        received_too_long,
        sent,
        sent_too_long,
        set_octet,
        time_of,
    )
    from penstock_net.vswitch.ports.pcap import PAGE_BYTES, RECORD_BYTES, new_tape, number_at, put32, tape_of
    from penstock_net.vswitch.world.calls.table import write_to


def pcap_receive(port, to, room):
    tape = tape_of(port)
    if tape.at >= tape.size:
        port.ended = 1
        return 0
    now = time_of(port)
    if tape.start < 0:
        tape.start = now
        tape.next_time = now
    due = tape.next_time
    if tape.interval < 0:
        due = tape.start + number_at(tape.bytes, tape.at)[0]
    if now < due:
        return 0
    length = number_at(tape.bytes, tape.at)[1]
    frame = bytes_from(tape.bytes, tape.at + RECORD_BYTES)
    tape.at += (RECORD_BYTES + length + 7) & ~7
    tape.next_time += tape.interval
    if tape.at >= tape.size:
        tape.rounds -= 1
        if tape.rounds > 0:
            tape.at = 0
            if tape.interval < 0:
                tape.start = due
        else:
            port.ended = 1
    if length + port.header > room:
        return received_too_long(port)
    for i in range(port.header):
        set_octet(to, i, 0)
    memcpy(bytes_from(to, port.header), frame, length)
    return received(port, length + port.header)


def pcap_send(port, frame, length):
    if length > FRAME_BYTES:
        return sent_too_long(port)
    if tape_of(port).fd < 0:
        return sent(port, length)  # a sink that keeps nothing
    if record(port, frame, length, 0):
        sent(port, length)
    return True


def record(port, frame, length, direction):
    """Write one frame; direction 0: unknown, 1: inbound, 2: outbound.  False: the file cannot be written."""
    tape = tape_of(port)
    if length < port.header + ETHERNET_BYTES:
        port.refused += 1
        return False
    if tape.filled + length + 64 > PAGE_BYTES and not pcap_flush(port):
        return False
    now = time_of(port) + tape.origin
    header = port.header
    size = length - header
    padded = (size + 3) & ~3
    if tape.blocks:
        total = 32 + padded + (12 if direction else 0)
        put32(tape, 6)
        put32(tape, total)
        put32(tape, 0)
        put32(tape, now >> 32)
        put32(tape, now)
    else:
        padded = size
        put32(tape, now // 1000000000)
        put32(tape, now % 1000000000)
    put32(tape, size)
    put32(tape, size)
    at = bytes_from(tape.page, tape.filled)
    memcpy(at, bytes_from(frame, header), size)
    if header:
        complete_copy(frame, at, size)
    for i in range(padded - size):
        set_octet(at, size + i, 0)
    tape.filled += padded
    if tape.blocks:
        if direction:
            put32(tape, 2 | 4 << 16)  # option 2, 4 bytes: the direction
            put32(tape, direction)
            put32(tape, 0)
        put32(tape, total)
    return True


def pcap_flush(port):
    """Write the buffered frames; if that fails they are lost, which counts as one error."""
    tape = tape_of(port)
    done = 0
    while done < tape.filled and tape.fd >= 0:
        written = write_to(tape.fd, bytes_from(tape.page, done), tape.filled - done)
        if written < 0:
            if errno == EINTR:
                continue
            port.last_error = errno
            port.errors_out += 1
            tape.filled = 0
            return False
        done += written
    tape.filled = 0
    return True


def open_pcap(frames, interval, rounds, path, beginning, blocks, origin, headers, clock):
    """A port that replays `frames` (a bytearray of records) and writes to `path`, both optional."""
    fd = -1
    closing = None
    if path is not None:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)

        def closing():
            os.close(fd)

    handle = PortHandle("pcap", -1, headers, closing, clock)
    connect(handle, frames, interval, rounds, fd, blocks, origin, beginning)
    return handle


def connect(handle, frames, interval, rounds, fd, blocks, origin, beginning):
    port = pointer_to(handle)
    tape = new_tape(handle)
    port.own = tape
    tape.bytes = keep(handle, frames)
    tape.size = len(frames)
    tape.start = -1
    tape.interval = interval
    tape.rounds = rounds
    tape.page = keep(handle, bytearray(PAGE_BYTES))
    tape.fd = fd
    tape.filled = len(beginning)
    memcpy(tape.page, PyBytes_AS_STRING(beginning), tape.filled)
    tape.blocks = blocks
    tape.origin = origin
    port.receive = pcap_receive
    port.send = pcap_send
    port.flush = pcap_flush


def interval_ns(timing, what):
    """A check: ns from frame to frame; -1: as recorded, 0: as fast as there is room."""
    if timing == "recorded":
        return -1
    return 0 if timing == "fast" else parse_time(timing, f'{what} ("recorded", "fast", or the time from frame to frame)') // 1000


def path_or_none(value, what):
    """A check: the path of a file as text, or None."""
    if value is None:
        return None
    if not isinstance(value, (str, os.PathLike)):
        raise SpecError("must be the path of a file", path=what, value=value)
    return os.fspath(value)


def open_checked(read, write, timing, rounds, headers, clock):
    if read is None and write is None:
        raise SpecError("name a file to `read`, or one to `write`, or both", path="pcap")
    frames = as_records(read_frames(read)) if read is not None else bytearray()
    if read is not None and not frames:
        raise SpecError("there are no frames in it", place=read)
    suffix = None if write is None else os.path.splitext(write)[1]
    if suffix not in (None, ".pcap", ".pcapng"):
        raise SpecError("the name must end in .pcap or .pcapng", path="pcap.write", value=write)
    blocks = suffix == ".pcapng"
    origin = 0 if clock is not None else clock_origin()
    beginning = PCAPNG_BEGINNING if blocks else PCAP_BEGINNING
    try:
        port = open_pcap(frames, timing, rounds, write, beginning, blocks, origin, headers, clock)
    except OSError as e:
        raise SpecError(str(e.strerror or e), path="pcap.write", value=write) from None
    port.name = read or write
    return port


KIND = PortKind(
    "pcap",
    "a recording (pcap, pcapng) comes in as it was recorded, or at a pace; what is sent is written",
    [
        Option("read", path_or_none, "the file whose frames come in", None),
        Option("write", path_or_none, "the file to write", None),
        Option("timing", interval_ns, '"recorded", "fast", or the time from frame to frame', "recorded"),
        Option("rounds", between(1, 10**9), "how often the recording is replayed", 1),
        HEADERS,
        Option("clock", anything, "a Clock: virtual time", None),
    ],
    open_checked,
    ["read", "write", "timing", "rounds"],
)
