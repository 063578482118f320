# cython: auto_pickle=False
"""Kernel ports: receive a frame, send a frame, and count lost ones by reason.

    port_receive(port, to, room)        bytes of one frame; 0: none now; -1: an error, counted
    port_send(port, frame, length)      False: the kernel has no room now, the caller keeps the frame
    port_flush(port)                    hand over what a batch holds; port_receive does it too

A frame is an Ethernet frame without its FCS.  With `headers`, a struct virtio_net_hdr precedes it, so that super-frames of up to
64 KB and partial checksums can pass from one kernel to the other.  All ports that exchange frames have the same `headers`.  One
thread at a time uses a port.  Each kind is a file of its own, KIND.py.
"""

import contextlib

import cython

from penstock_net.errors import PenstockError, SpecError
from penstock_net.vswitch.world import threading

if not cython.compiled:
    from cython.cimports.libc.errno import EAGAIN, EINTR, EIO, ENETDOWN, ENOBUFS, errno
    from cython.cimports.libc.string import memcpy

    from penstock_net.vswitch.ports.base import (
        A_MESSAGE,
        DOWN_GAP_NS,
        DOWN_NS,
        ETHERNET_BYTES,
        FRAME_BYTES,
        HEADER_BYTES,
        SPINS,
        VIRTIO_NET_HDR_F_NEEDS_CSUM,
        PyByteArray_AS_STRING,
        PyBytes_AS_STRING,
        PyBytes_FromStringAndSize,
        bytes_from,
        cross_released,
        flood_released,
        header_of,
        length_back,
        load64,
        octet,
        place_of,
        pointer_to,
        pointer_to_time,
        port_flush,
        port_receive,
        port_send,
        set_octet,
        stop_of,
        store64,
        swallow_released,
        time_of,
        wait_for,
    )
    from penstock_net.vswitch.world.calls.table import POLLIN

COUNTERS = (
    "frames_in",
    "bytes_in",
    "frames_out",
    "bytes_out",
    "errors_in",
    "errors_out",
    "too_long",
    "refused",
    "lost",
    "messages_lost",
    "no_room",
)


# ---- What every kind shares ----


def received(port, length):
    port.frames_in += 1
    port.bytes_in += length
    return length


def sent(port, length):
    port.frames_out += 1
    port.bytes_out += length
    return True


def receive_failed(port):
    """Result of a failed receive: nothing pending, or an error."""
    if errno in (EAGAIN, EINTR):
        return 0
    port.last_error = errno
    port.errors_in += 1
    return -1


def send_failed(port):
    """Result of a failed send: False if the frame can be sent later; otherwise it is lost and counted."""
    code = 0 + errno
    if code == ENOBUFS and port.no_carrier:
        code = ENETDOWN
    if code in (EAGAIN, ENOBUFS, EINTR) or (code in (EIO, ENETDOWN) and is_down_shortly(port)):
        port.no_room += 1
        return False
    port.last_error = code
    port.errors_out += 1
    return True


def is_down_shortly(port):
    """Whether an interface that is down has not been so for longer than DOWN_NS, as far as failed sends tell."""
    now = time_of(port)
    if now - port.down_at > DOWN_GAP_NS:
        port.down_since = now
    port.down_at = now
    return now - port.down_since < DOWN_NS


def received_too_long(port):
    port.too_long += 1
    return -1


def sent_too_long(port):
    port.too_long += 1
    return True


def flush_nothing(port):
    return True


def closed_receive(port, to, room):
    port.errors_in += 1
    return -1


def closed_send(port, frame, length):
    port.errors_out += 1
    return True


def forget(port):
    """Make a closed port discard frames, so that a wrapper of it does no harm."""
    port.receive = closed_receive
    port.send = closed_send
    port.flush = flush_nothing
    port.learn = cython.NULL


def receive_back(port, to, room):
    """Receive the next of the frames that were put back; from the last one on, the device's."""
    length = length_back(port)
    at = bytes_from(port.back, port.back_at + 8)
    port.back_at += 8 + length
    if port.back_at == port.back_end:
        port.receive = port.usual
    if length > room:
        return received_too_long(port)
    memcpy(to, at, length)
    return received(port, length)


def absent_receive(port, to, room):
    return 0


def absent_send(port, frame, length):
    if port.sends == A_MESSAGE:
        port.messages_lost += 1
    else:
        port.lost += 1
    return True


def make_absent(handle):
    port = pointer_to(handle)
    port.receive = absent_receive
    port.send = absent_send


def complete_checksum(frame, length):
    """Complete a partial checksum, which a frame's header leaves to the network card."""
    complete_copy(frame, bytes_from(frame, HEADER_BYTES), length - HEADER_BYTES)
    header_of(frame).flags &= 0xFE


def complete_copy(frame, to, size):
    """Complete the checksum in a copy of a frame, without its header, at `to`."""
    header = header_of(frame)
    at = header.csum_start + header.csum_offset
    if not header.flags & VIRTIO_NET_HDR_F_NEEDS_CSUM or at + 2 > size:
        return
    total = 0
    i = 0 + header.csum_start
    while i + 1 < size:
        total += (octet(to, i) << 8) | octet(to, i + 1)
        i += 2
    if i < size:
        total += octet(to, i) << 8
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    total = 0xFFFF - total
    if total == 0:
        total = 0xFFFF
    set_octet(to, at, total >> 8)
    set_octet(to, at + 1, total & 0xFF)


# ---- A bridge: two ports and nothing between them ----


def move(source, to, crossing, way):
    """Move up to 32 frames in one direction; a frame that cannot be sent is kept."""
    count = 0
    while count < 32:
        if crossing.held[way] == 0:
            length = port_receive(source, crossing.buffer[way], FRAME_BYTES)
            if length == 0:
                break
            count += 1
            if length < 0:
                continue
            crossing.held[way] = length
        if not port_send(to, crossing.buffer[way], crossing.held[way]):
            break
        crossing.held[way] = 0
        crossing.moved[way] += 1
    port_flush(to)
    return count


def cross(a, b, crossing):
    """Move frames in both directions until stopped; sleep while there are none."""
    idle = 0
    while not load64(stop_of(crossing)):
        count = move(a, b, crossing, 0)
        count += move(b, a, crossing, 1)
        if count:
            idle = 0
            continue
        idle += 1
        if idle >= SPINS:
            crossing.wait = 50000 if a.fd < 0 or b.fd < 0 or crossing.held[0] or crossing.held[1] else 5000000
            wait_for(crossing)


# ---- Many at once, to measure with ----


def flood_port(port, frame, length, count):
    """Send the same frame repeatedly until there is no room; returns how often it was sent."""
    taken = 0
    while taken < count and port_send(port, frame, length):
        taken += 1
    port_flush(port)
    return taken


def swallow_port(port, to, count):
    """Receive and discard up to so many frames."""
    taken = 0
    while taken < count and port_receive(port, to, FRAME_BYTES) > 0:
        taken += 1
    return taken


# ---- Python's side ----


class Clock:
    """A virtual clock in ns, for ports that use the time."""

    def __init__(self, ns=0):
        self.ns = ns


class PortHandle:
    """A port, for Python; close it, or use it in a `with`.  `losses` and `report` are functions, or None."""

    def __init__(self, kind, fd=-1, headers=False, closing=None, clock=None):
        self.kind = kind
        self.name = kind
        self.port.fd = fd
        self.port.header = HEADER_BYTES if headers else 0
        forget(pointer_to(self))
        self.closing = [closing] if closing else []
        self.memory = [clock]
        if clock is not None:
            self.port.clock = pointer_to_time(clock)
        self.scratch = bytearray(FRAME_BYTES)

    def on_close(self, action):
        self.closing.append(action)

    @property
    def headers(self):
        return self.port.header > 0

    @property
    def fd(self):
        return self.port.fd

    @property
    def ended(self):
        """Whether a recording has been replayed to its end."""
        return bool(self.port.ended)

    def receive(self):
        """Receive a frame (bytes); None if there is none, or after an error, which is counted."""
        self.check_open()
        to = PyByteArray_AS_STRING(self.scratch)
        length = port_receive(pointer_to(self), to, FRAME_BYTES)
        return PyBytes_FromStringAndSize(to, length) if length > 0 else None

    def send(self, frame):
        """Send a frame; False if there is no room, so that it has to be sent again later."""
        text = self.checked(frame)
        return bool(port_send(pointer_to(self), PyBytes_AS_STRING(text), len(text)))

    def flood(self, frame, count):
        """Send a frame up to so many times, until there is no room; returns how often it was sent."""
        text = self.checked(frame)
        return flood_released(pointer_to(self), PyBytes_AS_STRING(text), len(text), count)

    def swallow(self, count):
        """Receive and discard up to so many frames; returns their number."""
        self.check_open()
        return swallow_released(pointer_to(self), PyByteArray_AS_STRING(self.scratch), count)

    @property
    def place(self):
        """Address of its state, a KernelPort."""
        return place_of(pointer_to(self))

    def take_out(self):
        """The frames that were read from the kernel and not received yet, which then count as neither."""
        self.check_open()
        port = pointer_to(self)
        to = PyByteArray_AS_STRING(self.scratch)
        found = []
        frames, size = port.frames_in, port.bytes_in
        port.sealed = 1
        while port.back_at < port.back_end or port.reads_ahead:
            length = port_receive(port, to, FRAME_BYTES)
            if length == 0:
                break
            if length > 0:
                found.append(PyBytes_FromStringAndSize(to, length))
        port.sealed = 0
        port.frames_in, port.bytes_in = frames, size
        return found

    def put_back(self, frames):
        """Have these frames received before those of the device; all that were put back before have been."""
        if frames:
            port = pointer_to(self)
            block = bytearray(b"".join([len(frame).to_bytes(8, "little") + frame for frame in frames]))
            self.block = block
            port.back = PyByteArray_AS_STRING(block)
            port.back_at, port.back_end = 0, len(block)
            port.usual = port.receive
            port.receive = receive_back

    def flush(self):
        """Send the frames of an incomplete batch; returns whether all were sent."""
        self.check_open()
        return bool(port_flush(pointer_to(self)))

    def checked(self, frame):
        self.check_open()
        if len(frame) < self.port.header + ETHERNET_BYTES:
            raise SpecError(f"a frame of {len(frame)} B: a frame of this port has at least {self.port.header + ETHERNET_BYTES} B")
        return bytes(frame)

    def check_open(self):
        if self.closed:
            raise PenstockError(f"port {self.name}: it is closed")

    @property
    def counters(self):
        """Counters of frames received, sent and lost, by reason."""
        p = cython.address(self.port)
        values = (
            p.frames_in,
            p.bytes_in,
            p.frames_out,
            p.bytes_out,
            p.errors_in,
            p.errors_out,
            p.too_long,
            p.refused,
            p.lost,
            p.messages_lost,
            p.no_room,
        )
        out = dict(zip(COUNTERS, values))
        if (lost := self.kernel_lost()) is not None:
            out["kernel_lost"] = lost
        return out

    def kernel_lost(self):
        """Frames lost in the kernel at this port, until it was closed or its interface deleted; None if that is not known."""
        if self.losses is not None and not self.closed:
            with contextlib.suppress(OSError, PenstockError):
                self.lost_before = self.losses()
        return self.lost_before

    @property
    def last_error(self):
        """errno of the last error, or 0."""
        return self.port.last_error

    def close(self):
        """Send pending frames as far as there is room, and release everything."""
        if not self.closed:
            port_flush(pointer_to(self))
            self.kernel_lost()
            forget(pointer_to(self))
            self.closed = True
        while self.closing:
            self.closing.pop()()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def __repr__(self):
        return f"<port {self.name} ({self.kind})>"


def open_absent(headers, kind="absent"):
    """A port in place of one whose interface is gone: no frame comes in, and those sent are counted as `lost`."""
    handle = PortHandle(kind, -1, headers)
    make_absent(handle)
    return handle


class Bridge:
    """A thread that moves frames between two ports: `with Bridge(a, b): ...`; it keeps a frame until it can be sent."""

    def __init__(self, a, b):
        if a.headers != b.headers:
            raise SpecError(f"bridge between {a.name} and {b.name}: open both with headers or both without")
        self.a, self.b = a, b
        self.memory = [bytearray(FRAME_BYTES), bytearray(FRAME_BYTES)]
        for i in range(2):
            self.crossing.buffer[i] = PyByteArray_AS_STRING(self.memory[i])
        self.crossing.fds[0].fd, self.crossing.fds[1].fd = self.a.port.fd, self.b.port.fd
        self.crossing.fds[0].events = self.crossing.fds[1].events = POLLIN

    def run(self):
        cross_released(pointer_to(self.a), pointer_to(self.b), cython.address(self.crossing))

    @property
    def moved(self):
        """Frames from a to b, and from b to a."""
        return self.crossing.moved[0], self.crossing.moved[1]

    def __enter__(self):
        self.a.check_open()
        self.b.check_open()
        store64(stop_of(cython.address(self.crossing)), 0)
        self.thread = threading.Thread(target=self.run, name=f"bridge {self.a.name} {self.b.name}")
        self.thread.start()
        return self

    def __exit__(self, *error):
        store64(stop_of(cython.address(self.crossing)), 1)
        self.thread.join()
