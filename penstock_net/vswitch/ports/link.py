"""A link inside this process: a token bucket, a delay line and loss, both ways; deterministic under a virtual clock.

Each direction has one sender and one receiver, which may be different threads.  A sender has no room while the frames on the
way, the ones that wait for the token bucket included, fill the link's memory.
"""

import cython

from penstock_net.vswitch.ports.base import PortHandle

if not cython.compiled:
    from cython.cimports.libc.string import memcpy

    from penstock_net.vswitch.ports.base import (
        FRAME_BYTES,
        bytes_from,
        keep,
        load64,
        pointer_to,
        received,
        received_too_long,
        sent,
        sent_too_long,
        store64,
        time_of,
    )
    from penstock_net.vswitch.ports.link import (
        RECORD,
        ends_of,
        head_of,
        new_ends,
        new_wire,
        next_random,
        number_at,
        random_of,
        tail_of,
        time_of_bytes,
    )


def link_send(port, frame, length):
    wire = ends_of(port).out
    need = (length + RECORD + 15) & ~15
    at = wire.head % wire.size
    skip = wire.size - at if wire.size - at < need else 0
    if length > FRAME_BYTES:
        return sent_too_long(port)
    if wire.head - load64(tail_of(wire)) + skip + need > wire.size:
        port.no_room += 1
        return False
    now = time_of(port) * 1000
    wire.free_at = max(wire.free_at, now) + time_of_bytes(wire, length)
    if wire.loss and next_random(random_of(wire)) < wire.loss:
        port.lost += 1
        return sent(port, length)
    if skip:
        number_at(wire.bytes, at)[0] = -1
        at = 0
    number_at(wire.bytes, at)[0] = length
    number_at(wire.bytes, at)[1] = max(now, wire.free_at - wire.burst_ps) + wire.delay_ps
    memcpy(bytes_from(wire.bytes, at + RECORD), frame, length)
    store64(head_of(wire), wire.head + skip + need)
    return sent(port, length)


def link_receive(port, to, room):
    wire = ends_of(port).into
    for _ in range(2):
        if load64(head_of(wire)) == wire.tail:
            return 0
        at = wire.tail % wire.size
        length = number_at(wire.bytes, at)[0]
        if length >= 0:
            break
        store64(tail_of(wire), wire.tail + wire.size - at)
    if number_at(wire.bytes, at)[1] > time_of(port) * 1000:
        return 0
    if length <= room:
        memcpy(to, bytes_from(wire.bytes, at + RECORD), length)
    store64(tail_of(wire), wire.tail + ((length + RECORD + 15) & ~15))
    if length > room:
        return received_too_long(port)
    return received(port, length)


def open_link(headers, clock, way_a, way_b):
    """Two ports; each way is [ps per byte, delay in ps, burst in bytes, loss of 2**32, seed, bytes of memory]."""
    a, b = PortHandle("link", -1, headers, None, clock), PortHandle("link", -1, headers, None, clock)
    connect(a, b, way_a, way_b)
    return a, b


def connect(a, b, way_a, way_b):
    out = make_wire(a, way_a[0], way_a[1], way_a[2], way_a[3], way_a[4], way_a[5])
    back = make_wire(b, way_b[0], way_b[1], way_b[2], way_b[3], way_b[4], way_b[5])
    join(a, out, back)
    join(b, back, out)
    a.memory.append(b.memory)  # both ends use both wires
    b.memory.append(a.memory)


def make_wire(handle, ps_per_byte, delay_ps, burst, loss, seed, size):
    wire = new_wire(handle)
    wire.bytes = keep(handle, bytearray(size))
    wire.size = size
    wire.ps_per_byte = ps_per_byte
    wire.delay_ps = delay_ps
    wire.burst_ps = time_of_bytes(wire, burst)
    wire.loss = loss
    wire.random = seed | 1
    return wire


def join(handle, out, into):
    port = pointer_to(handle)
    ends = new_ends(handle)
    ends.out = out
    ends.into = into
    port.own = ends
    port.send = link_send
    port.receive = link_receive
