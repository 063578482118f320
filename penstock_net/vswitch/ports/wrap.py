# cython: auto_pickle=False
"""Ports around a port: one that captures all frames, one that injects faults, one that traces the last frames."""

import cython

from penstock_net.vswitch.ports.base import PortHandle

if not cython.compiled:
    from cython.cimports.libc.string import memcpy

    from penstock_net.vswitch.ports.base import (
        FRAME_BYTES,
        keep,
        octet,
        pointer_to,
        port_flush,
        port_receive,
        port_send,
        received,
        received_too_long,
        sent,
        sent_too_long,
        set_octet,
        time_of,
    )
    from penstock_net.vswitch.ports.pcap import record
    from penstock_net.vswitch.ports.wrap import (
        FNV_BASIS,
        FNV_PRIME,
        chance,
        faults_of,
        new_faults,
        new_passages,
        new_trace,
        number,
        passage_at,
        trace_of,
        way_of,
    )

HARM = ("dropped", "duplicated", "corrupted", "reordered", "put_off")


def inner_flush(port):
    return port_flush(port.inner)


# ---- Capture ----


def copy_to_sink(port, frame, length, direction):
    if record(port.sink, frame, length, direction):
        sent(port.sink, length)


def capture_receive(port, to, room):
    length = port_receive(port.inner, to, room)
    if length <= 0:
        return length
    copy_to_sink(port, to, length, 1)
    return received(port, length)


def capture_send(port, frame, length):
    if not port_send(port.inner, frame, length):
        port.no_room += 1
        return False
    copy_to_sink(port, frame, length, 2)
    return sent(port, length)


def capture_flush(port):
    port_flush(port.sink)
    return port_flush(port.inner)


# ---- Faults ----


def changed(way, frame, length, port):
    """Apply faults to a frame; returns its length, 0 if it is lost or held back until the next one has passed."""
    if chance(way, way.drop):
        way.dropped += 1
        port.lost += 1
        return 0
    if length > port.header and chance(way, way.corrupt):
        way.corrupted += 1
        at = port.header + number(way) % (length - port.header)
        set_octet(frame, at, octet(frame, at) ^ (1 << (number(way) & 7)))
    if way.length == 0:
        if chance(way, way.duplicate):
            way.duplicated += 1
            memcpy(way.kept, frame, length)
            way.length = length
            way.due = 1
        elif chance(way, way.reorder):
            way.reordered += 1
            memcpy(way.kept, frame, length)
            way.length = length
            way.due = 0
            return 0
    return length


def faults_receive(port, to, room):
    way = way_of(faults_of(port), 0)
    for _ in range(64):
        if way.length and way.due:
            length = way.length
            way.length = 0
            if length > room:
                return received_too_long(port)
            memcpy(to, way.kept, length)
            return received(port, length)
        length = port_receive(port.inner, to, room)
        if length < 0:
            return length
        if length == 0:
            if way.length == 0:
                return 0
            way.due = 1  # nothing follows: it was kept long enough
            continue
        waited = way.length
        length = changed(way, to, length, port)
        if waited:
            way.due = 1
        if length:
            return received(port, length)
    return 0


def faults_send(port, frame, length):
    """A held-back frame goes first once it is due. Frames are modified in a copy, since the caller may have to keep them."""
    faults = faults_of(port)
    way = way_of(faults, 1)
    if length > FRAME_BYTES:
        return sent_too_long(port)
    if chance(way, way.no_room):
        way.put_off += 1
        port.no_room += 1
        return False
    if way.length and way.due:
        if not port_send(port.inner, way.kept, way.length):
            port.no_room += 1
            return False
        way.length = 0
    waited = way.length
    duplicated = way.duplicated
    corrupted = way.corrupted
    memcpy(faults.work, frame, length)
    size = changed(way, faults.work, length, port)
    if size and not port_send(port.inner, faults.work, size):
        if way.length and not waited:
            way.length = 0  # what befell it is decided again when it comes again
        way.duplicated = duplicated
        way.corrupted = corrupted
        port.no_room += 1
        return False
    if waited:
        way.due = 1
    return sent(port, length)


def faults_flush(port):
    way = way_of(faults_of(port), 1)
    if way.length:
        if not port_send(port.inner, way.kept, way.length):
            return False
        way.length = 0
    return port_flush(port.inner)


# ---- Trace ----


def note(port, frame, length, sign):
    trace = trace_of(port)
    passage = passage_at(trace, trace.count)
    digest = FNV_BASIS
    for i in range(min(length, 64)):
        digest = (digest ^ octet(frame, i)) * FNV_PRIME
    passage.time = time_of(port)
    passage.length = sign * length
    passage.digest = digest
    trace.count += 1


def trace_receive(port, to, room):
    length = port_receive(port.inner, to, room)
    if length <= 0:
        return length
    note(port, to, length, 1)
    return received(port, length)


def trace_send(port, frame, length):
    if not port_send(port.inner, frame, length):
        port.no_room += 1
        return False
    note(port, frame, length, -1)
    return sent(port, length)


# ---- Python's side ----


def wrapped(inner, kind):
    handle = PortHandle(kind, inner.port.fd, inner.headers, inner.close)
    handle.name = f"{kind}({inner.name})"
    handle.port.clock = inner.port.clock
    handle.port.inner = pointer_to(inner)
    handle.port.flush = inner_flush
    handle.losses = inner.losses
    handle.memory.append(inner)
    return handle


def open_capture(inner, sink):
    handle = wrapped(inner, "capture")
    handle.on_close(sink.close)
    connect_capture(handle, inner, sink)
    return handle


def connect_capture(handle, inner, sink):
    port = pointer_to(handle)
    handle.memory.append(sink)
    port.sink = pointer_to(sink)
    port.receive = capture_receive
    port.send = capture_send
    port.flush = capture_flush


def open_faults(inner, ways):
    handle = wrapped(inner, "faults")
    connect_faults(handle, inner, ways)
    handle.report = Report(handle).harm
    return handle


def connect_faults(handle, inner, ways):
    port = pointer_to(handle)
    faults = new_faults(handle)
    port.own = faults
    faults.work = keep(handle, bytearray(FRAME_BYTES))
    for i in range(2):
        way = way_of(faults, i)
        way.kept = keep(handle, bytearray(FRAME_BYTES))
        way.random, way.drop, way.duplicate, way.corrupt, way.reorder, way.no_room = ways[i]
    port.receive = faults_receive
    port.send = faults_send
    port.flush = faults_flush


def open_trace(inner, size):
    handle = wrapped(inner, "trace")
    connect_trace(handle, inner, size)
    handle.report = Report(handle).passages
    return handle


def connect_trace(handle, inner, size):
    port = pointer_to(handle)
    trace = new_trace(handle)
    port.own = trace
    trace.passages = new_passages(handle, size)
    trace.size = size
    port.receive = trace_receive
    port.send = trace_send


class Report:
    """Implements `report` of the wrappers."""

    def __init__(self, port):
        self.port = port

    def harm(self):
        """Faults by direction: {"in": {"dropped": 3, ...}, "out": {...}}."""
        out = {}
        for i in range(2):
            way = way_of(faults_of(pointer_to(self.port)), i)
            numbers = (way.dropped, way.duplicated, way.corrupted, way.reordered, way.put_off)
            out["out" if i else "in"] = dict(zip(HARM, numbers))
        return out

    def passages(self):
        """The last frames that passed: (time in ns, "in" or "out", bytes, digest of their first 64 bytes)."""
        trace = trace_of(pointer_to(self.port))
        out = []
        for i in range(max(0, trace.count - trace.size), trace.count):
            passage = passage_at(trace, i)
            out.append((passage.time, "in" if passage.length > 0 else "out", abs(passage.length), passage.digest))
        return out
