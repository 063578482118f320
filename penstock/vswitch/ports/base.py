# cython: auto_pickle=False
"""Ports of the kernel: receive a frame, send a frame, and count those that were lost, by reason.

    port_receive(port, to, room)        bytes of one frame; 0: none now; -1: an error, counted
    port_send(port, frame, length)      False: the kernel has no room now, the caller keeps the frame
    port_flush(port)                    hand over what a batch holds; port_receive does it too

A frame is an Ethernet frame without its check sum.  Ports opened with `headers` put a struct virtio_net_hdr before it, so that
frames of up to 64 KB and check sums that are still to be computed can pass from the one kernel to the other.  All ports that
exchange frames are opened alike.  One thread at a time uses a port.  Each kind is a file of its own, KIND.py.
"""

import contextlib
import threading

import cython

if not cython.compiled:
    from cython.cimports.libc.errno import EAGAIN, EINTR, ENOBUFS, errno

    from penstock.vswitch.ports.base import (
        ETHERNET_BYTES,
        FRAME_BYTES,
        HEADER_BYTES,
        POLLIN,
        SPINS,
        VIRTIO_NET_HDR_F_NEEDS_CSUM,
        PyByteArray_AS_STRING,
        PyBytes_AS_STRING,
        PyBytes_FromStringAndSize,
        bytes_from,
        cross_released,
        flood_released,
        header_of,
        load64,
        octet,
        pointer_to,
        pointer_to_time,
        port_flush,
        port_receive,
        port_send,
        set_octet,
        stop_of,
        store64,
        swallow_released,
        wait_for,
    )


from penstock.errors import PenstockError, SpecError

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
    """After a system call that failed: nothing there, or an error."""
    if errno in (EAGAIN, EINTR):
        return 0
    port.last_error = errno
    port.errors_in += 1
    return -1


def send_failed(port):
    """After a system call that failed: False if the frame can be sent later; a frame that is refused for good is lost."""
    if errno in (EAGAIN, ENOBUFS, EINTR):
        port.no_room += 1
        return False
    port.last_error = errno
    port.errors_out += 1
    return True


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
    """A closed port takes frames and loses them, so that a wrapper of it does no harm."""
    port.receive = closed_receive
    port.send = closed_send
    port.flush = flush_nothing


def complete_checksum(frame, length):
    """Compute the check sum that the header of a frame leaves to the network card."""
    complete_copy(frame, bytes_from(frame, HEADER_BYTES), length - HEADER_BYTES)
    header_of(frame).flags &= 0xFE


def complete_copy(frame, to, size):
    """The same for a copy of the frame, without its header, at `to`."""
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
    """Up to 32 frames one way; the one that could not be sent stays."""
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
    """Move frames both ways until told to stop; sleep while there are none."""
    idle = 0
    while not load64(stop_of(crossing)):
        count = move(a, b, crossing, 0)
        count += move(b, a, crossing, 1)
        if count:
            idle = 0
            continue
        idle += 1
        if idle >= SPINS:
            crossing.wait.tv_nsec = 50000 if a.fd < 0 or b.fd < 0 or crossing.held[0] or crossing.held[1] else 5000000
            wait_for(crossing)


# ---- Many at once, to measure with ----


def flood_port(port, frame, length, count):
    """Send the same frame again and again; how often there was room before there was none."""
    taken = 0
    while taken < count and port_send(port, frame, length):
        taken += 1
    port_flush(port)
    return taken


def swallow_port(port, to, count):
    """Receive up to so many frames until there is none."""
    taken = 0
    while taken < count and port_receive(port, to, FRAME_BYTES) > 0:
        taken += 1
    return taken


# ---- Python's side ----


class Clock:
    """Nanoseconds that pass when told to: a virtual clock, for ports that know the time."""

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
        """A frame (bytes), or None: there is none now, or an error that was counted."""
        self.check_open()
        to = PyByteArray_AS_STRING(self.scratch)
        length = port_receive(pointer_to(self), to, FRAME_BYTES)
        return PyBytes_FromStringAndSize(to, length) if length > 0 else None

    def send(self, frame):
        """Whether the frame was taken; if not, send it again later."""
        text = self.checked(frame)
        return bool(port_send(pointer_to(self), PyBytes_AS_STRING(text), len(text)))

    def flood(self, frame, count):
        """Send a frame up to so many times, until there is no room; how often it was taken."""
        text = self.checked(frame)
        return flood_released(pointer_to(self), PyBytes_AS_STRING(text), len(text), count)

    def swallow(self, count):
        """Receive and forget up to so many frames; how many there were."""
        self.check_open()
        return swallow_released(pointer_to(self), PyByteArray_AS_STRING(self.scratch), count)

    def flush(self):
        """Hand over what a batch still holds; whether all of it is gone."""
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
        """What passed and what did not, by reason."""
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
            p.no_room,
        )
        out = dict(zip(COUNTERS, values))
        if (lost := self.kernel_lost()) is not None:
            out["kernel_lost"] = lost
        return out

    def kernel_lost(self):
        """What the kernel lost for this port, until it was closed or its interface deleted; None: there is no telling."""
        if self.losses is not None and not self.closed:
            with contextlib.suppress(OSError, PenstockError):
                self.lost_before = self.losses()
        return self.lost_before

    @property
    def last_error(self):
        """errno of the last error, or 0."""
        return self.port.last_error

    def close(self):
        """Send what is still to be sent, as far as there is room, and give everything back."""
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


class Bridge:
    """A thread that moves frames between two ports: `with Bridge(a, b): ...`; what it cannot send yet, it keeps."""

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
