"""Captures: the worker copies the frames of chosen ports, as blocks of pcapng, into a ring that another process reads.

The worker never waits for the reader: frames that do not fit the ring are counted, and the next block has the count.  The worker
reads nothing but the reader's position from the shared memory; a wrong position affects that reader's capture only.
"""

import struct

import cython
import numpy as np

from penstock_net.errors import SpecError
from penstock_net.inputs import whole as whole_number
from penstock_net.vswitch.world import fcntl, mmap, os

if not cython.compiled:
    from penstock_net.vswitch.dataplane.mirror import (
        COMMENT_BYTES,
        INBOUND,
        MOST_REASONS,
        NO_REASON,
        OUTBOUND,
        SHARED_BYTES,
        base_of,
        comment_at,
        new_mirror,
        number_of,
        shared_of,
        strlen,
        taken_of,
        text_of,
        words_of,
    )
    from penstock_net.vswitch.dataplane.state import BAD_DESCRIPTOR, HEADER, MOST_PORTS, free, view_of
    from penstock_net.vswitch.memory.layout import buffer_of, bytes_at, cas64, length_of, load64, low, memcpy, relax, store64
    from penstock_net.vswitch.world.calls.table import now_ns

SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def mirror_frame(worker, port, txq, flow, frame, length):
    """Record a delivered frame, at the port where it entered and at the port where it left."""
    mirror = worker.mirrors
    while mirror:
        if not mirror.only_drops:
            note(mirror, port.number, INBOUND, number_of(port, txq), worker.header, frame, length, NO_REASON)
            note(mirror, flow.target, OUTBOUND, flow.queue, worker.header, frame, length, NO_REASON)
        mirror = mirror.next


def mirror_drop(worker, port, txq, flow, word, reason):
    """Record a dropped frame, at the port where it entered, or else at the port of its destination."""
    view = view_of(port)
    length = length_of(word)
    frame = worker.header
    if reason == BAD_DESCRIPTOR:  # then there are no bytes of it
        length = 0
    else:
        frame = bytes_at(view.buffer[0], buffer_of(word) * view.buffer_bytes) + port.prefix
        length = max(0, length - port.prefix)
    mirror = worker.mirrors
    while mirror:
        if mirror.interfaces[port.number] >= 0:
            note(mirror, port.number, INBOUND, number_of(port, txq), worker.header, frame, length, reason)
        elif flow:
            note(mirror, flow.target, OUTBOUND, flow.queue, worker.header, frame, length, reason)
        mirror = mirror.next


def note(mirror, number, direction, queue, header, frame, length, reason):
    """Write an Enhanced Packet Block; one worker at a time."""
    if mirror.interfaces[number] < 0:
        return
    while not cas64(taken_of(mirror), 0, 1):
        relax()
    write(mirror, number, direction, queue, header, frame, length, reason)
    store64(taken_of(mirror), 0)


def write(mirror, number, direction, queue, header, frame, length, reason):
    """Write a block; the first HEADER bytes are the worker's own copy, by which the frame was classified."""
    kept = min(length, mirror.most)
    padded = (kept + 3) & ~3
    missed = mirror.missed - mirror.reported
    comment = 0
    if reason >= 0:
        comment = 4 + ((strlen(comment_at(mirror, reason) + 4) + 3) & ~3)
    size = 28 + padded + 16 + (12 if missed else 0) + comment + 4 + 4
    read = load64(mirror.shared + 8)
    if mirror.written - read > mirror.size or mirror.written - read + size > mirror.size:
        mirror.missed += 1
        store64(mirror.shared + 16, mirror.missed)
        return
    time = now_ns() + mirror.clock
    words = mirror.words
    words[0] = 6
    words[1] = size
    words[2] = mirror.interfaces[number]
    words[3] = time >> 32
    words[4] = low(time)
    words[5] = kept
    words[6] = length
    put(mirror, words_of(mirror), 28)
    put(mirror, header, min(kept, HEADER))
    if kept > HEADER:
        put(mirror, frame + HEADER, kept - HEADER)
    words[0] = 0
    put(mirror, words_of(mirror), padded - kept)
    words[0] = 2 | 4 << 16  # epb_flags
    words[1] = direction
    words[2] = 6 | 4 << 16  # epb_queue
    words[3] = queue
    put(mirror, words_of(mirror), 16)
    if missed:
        words[0] = 4 | 8 << 16  # epb_dropcount
        words[1] = low(missed)
        words[2] = missed >> 32
        put(mirror, words_of(mirror), 12)
        mirror.reported = mirror.missed
    put(mirror, comment_at(mirror, reason), comment)
    words[0] = 0  # the end of the options
    words[1] = size
    put(mirror, words_of(mirror), 8)
    mirror.frames += 1
    store64(mirror.shared, mirror.written)


def put(mirror, source, length):
    """Copy into the ring, with wrap-around."""
    if length <= 0:
        return
    at = mirror.written & (mirror.size - 1)
    first = min(length, mirror.size - at)
    memcpy(mirror.base + at, source, first)
    if length > first:
        memcpy(mirror.base, source + first, length - first)
    mirror.written += length


class Capture:
    """A capture of some ports; `fd` is the memory that its reader maps."""

    def __init__(self, names, reasons, clock, only_drops=False, most=65536, memory=1 << 24):
        most = whole_number(most, "capture.snap", 14, 65536)
        memory = whole_number(memory, "capture.memory", 1 << 17, 1 << 30)
        if len(reasons) > MOST_REASONS:
            raise SpecError(f"{len(reasons)} reasons of drops: a capture knows {MOST_REASONS}")
        size = 1 << (memory - 1).bit_length()
        self.fd = os.memfd_create("penstock-capture", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, SHARED_BYTES + size)
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, SEALS)
        self.map = mmap.mmap(self.fd, SHARED_BYTES + size)
        self.memory = np.frombuffer(self.map, dtype=np.uint8)
        self.names = list(names)
        mirror = self.mirror = new_mirror()
        mirror.shared = shared_of(self.memory.ctypes.data)
        mirror.base = base_of(self.memory.ctypes.data + SHARED_BYTES)
        mirror.size, mirror.most, mirror.only_drops, mirror.clock = size, most, only_drops, clock
        for i in range(MOST_PORTS):
            mirror.interfaces[i] = -1
        for i, reason in enumerate(reasons):
            text = f"dropped: {reason}".encode()[: COMMENT_BYTES - 5]
            option = struct.pack("<HH", 1, len(text)) + text  # opt_comment; the rest is zero
            memcpy(comment_at(mirror, i), text_of(option), len(option))

    def __dealloc__(self):
        free(self.mirror)

    def close(self):
        """Close the memory; the capture must have been ended before."""
        if not self.closed:
            self.closed = True
            os.close(self.fd)

    def follow(self, number, name):
        """A port of this number and name was attached; None: the port was detached."""
        self.mirror.interfaces[number] = self.names.index(name) if name in self.names else -1

    def row(self):
        """Counters of the capture."""
        return {
            "ports": self.names,
            "only_drops": bool(self.mirror.only_drops),
            "frames": self.mirror.frames,
            "bytes": self.mirror.written,
            "missed": self.mirror.missed,
        }
