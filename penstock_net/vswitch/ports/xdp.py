"""One queue of an existing interface, by AF_XDP: frames bypass the kernel's network stack.

Frames are in chunks of memory shared with the kernel; rings pass their ownership.  The kernel fills chunks of one half and
returns them through `receive`; chunks of the other half are sent through `transmit` and return through `completion`.  No ring
can overflow, since it has as many slots as there are chunks.
"""

import errno as errno_of

import cython

from penstock_net.errors import PenstockError, SpecError
from penstock_net.inputs import boolean
from penstock_net.units import parse_size
from penstock_net.vswitch.linux.interfaces import device_name, mtu_of, refused
from penstock_net.vswitch.linux.set_up import Interface
from penstock_net.vswitch.linux.xdp_setup import Socket
from penstock_net.vswitch.ports.base import PortHandle
from penstock_net.vswitch.support.port_kind import BATCH, NO_NAMESPACE, Option, PortKind, anything, between

if not cython.compiled:
    from cython.cimports.libc.errno import EAGAIN, EINTR, ENOBUFS, errno
    from cython.cimports.libc.string import memcpy

    from penstock_net.vswitch.ports.base import (
        ETHERNET_BYTES,
        bytes_from,
        octet,
        pointer_to,
        received,
        received_too_long,
        sent,
        sent_too_long,
    )
    from penstock_net.vswitch.ports.xdp import (
        CHUNK_BYTES,
        EBUSY,
        NOTHING,
        SHORT_FRAMES,
        XDP_RING_NEED_WAKEUP,
        completion_of,
        fill_of,
        flags_now,
        got_chunk,
        index_ahead,
        new_xdp,
        next_frame,
        publish,
        put_chunk,
        receive_of,
        set_memory,
        set_ring,
        start_of,
        transmit_of,
        xdp_of,
    )
    from penstock_net.vswitch.world.calls.table import send_to


def there(ring):
    """Number of entries that the kernel has put into a ring."""
    if ring.seen == ring.mine:
        ring.seen += index_ahead(ring.producer, ring.mine)
    return ring.seen - ring.mine


def xdp_receive(port, to, room):
    xdp = xdp_of(port)
    ring, fill = receive_of(xdp), fill_of(xdp)
    for _ in range(SHORT_FRAMES):
        if there(ring) == 0:
            xdp_flush(port)
            return 0
        frame = next_frame(ring)
        length = 0 + frame.len
        start = start_of(frame)
        if ETHERNET_BYTES <= length <= room:
            memcpy(to, bytes_from(xdp.memory, start), length)
        put_chunk(fill, start & -CHUNK_BYTES)
        ring.mine += 1
        publish(ring.consumer, ring.mine)
        fill.mine += 1
        publish(fill.producer, fill.mine)
        if length > room:
            return received_too_long(port)
        if length >= ETHERNET_BYTES:
            return received(port, length)
        port.refused += 1
    return 0


def take_back(xdp):
    """Reclaim the chunks of frames that the kernel has sent."""
    ring = completion_of(xdp)
    while there(ring) > 0:
        xdp.free[xdp.free_count] = got_chunk(ring)
        xdp.free_count += 1
        ring.mine += 1
    publish(ring.consumer, ring.mine)


def xdp_send(port, frame, length):
    xdp = xdp_of(port)
    tag = 4 if length > 14 and octet(frame, 12) == 0x81 and octet(frame, 13) == 0 else 0
    if length > xdp.longest + tag:
        return sent_too_long(port)
    if xdp.free_count == 0:
        take_back(xdp)
    if xdp.free_count == 0:
        port.last_error = 0
        xdp_flush(port)
        take_back(xdp)
        if xdp.free_count == 0:
            if port.last_error:
                port.errors_out += 1
                return True
            port.no_room += 1
            return False
    xdp.free_count -= 1
    chunk = xdp.free[xdp.free_count]
    memcpy(bytes_from(xdp.memory, chunk), frame, length)
    ring = transmit_of(xdp)
    entry = next_frame(ring)
    entry.addr = chunk
    entry.len = length
    entry.options = 0
    ring.mine += 1
    xdp.unsent += 1
    sent(port, length)
    if xdp.unsent >= xdp.batch:
        xdp_flush(port)
    return True


def xdp_flush(port):
    """Notify the kernel, which sends some 32 frames per call; returns whether it has taken all."""
    xdp = xdp_of(port)
    ring = transmit_of(xdp)
    if xdp.unsent:
        publish(ring.producer, ring.mine)
        xdp.unsent = 0
    ahead = ring.mine - ring.seen
    if ahead == 0:
        return True
    ring.seen += index_ahead(ring.consumer, ring.seen)
    while ring.seen < ring.mine:
        if flags_now(ring.flags) & XDP_RING_NEED_WAKEUP == 0:
            return False
        done = send_to(port.fd, NOTHING, 0)
        if done < 0 and errno not in (EAGAIN, EBUSY, ENOBUFS, EINTR):
            port.last_error = errno
            return False
        ahead = index_ahead(ring.consumer, ring.seen)
        if ahead == 0:
            return False
        ring.seen += ahead
    return True


def open_xdp(device, queue, chunks, batch, longest):
    """A port on a queue of an interface; OSError if the machine does not permit it."""
    sock = Socket(chunks, CHUNK_BYTES)
    try:
        handle = PortHandle("xdp", sock.fd, False, sock.close)
        connect(handle, sock.rings, sock.memory_at, chunks, longest, batch)
        handle.on_close(lambda: give_up(handle))  # comes before sock.close
        handle.losses = sock.losses
        sock.bind(device, queue)
    except BaseException:
        sock.close()
        raise
    return handle


def connect(handle, rings, memory, chunks, longest, batch):
    port = pointer_to(handle)
    xdp = new_xdp(handle, chunks)
    port.own = xdp
    set_memory(xdp, memory)
    fill = fill_of(xdp)
    set_ring(fill, rings["fill"])
    set_ring(completion_of(xdp), rings["completion"])
    set_ring(receive_of(xdp), rings["receive"])
    set_ring(transmit_of(xdp), rings["transmit"])
    for i in range(chunks // 2):
        put_chunk(fill, i * CHUNK_BYTES)
        fill.mine += 1
        xdp.free[i] = (chunks // 2 + i) * CHUNK_BYTES
    publish(fill.producer, fill.mine)
    xdp.free_count = chunks // 2
    xdp.longest = longest
    xdp.batch = batch
    port.receive = xdp_receive
    port.send = xdp_send
    port.flush = xdp_flush


def give_up(handle):
    """Count the frames that the kernel has not sent by the end as lost."""
    port = pointer_to(handle)
    ring = transmit_of(xdp_of(port))
    left = ring.mine - ring.seen
    port.frames_out -= left
    port.errors_out += left


def no_headers(value, what):
    """A check: AF_XDP has no virtio_net_hdr."""
    if boolean(value, what):
        raise SpecError(
            "xdp.headers = True: AF_XDP carries frames as they are on a wire", remedy="use headers = False, or a packet port"
        )
    return False


def open_checked(device, queue, headers, batch, memory):
    chunks = parse_size(memory, "xdp.memory", positive=True) // CHUNK_BYTES
    if not 128 <= chunks <= 1 << 18 or chunks & (chunks - 1):
        raise SpecError("must be a power of two from 512KiB to 1GiB", path="xdp.memory", value=memory)
    mtu = mtu_of(device, "xdp.device")
    try:
        port = open_xdp(device, queue, chunks, batch, min(mtu + 14, 4092))
    except OSError as e:
        if e.errno in (errno_of.EINVAL, errno_of.ERANGE, errno_of.EOPNOTSUPP):
            why = f"it must have a queue {queue}, and an MTU of at most about 3500 (it is {mtu}; veth: the other end's)"
            raise SpecError(f"xdp {device}: the interface refuses it", remedy=why) from None
        if e.errno in (errno_of.EAFNOSUPPORT, errno_of.ENOSYS):
            raise SpecError(f"xdp {device}: this kernel has no AF_XDP (CONFIG_XDP_SOCKETS)", remedy="use a packet port") from None
        raise refused(f"xdp {device} queue {queue}", e, "CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF") from None
    port.name = device
    return port


def attempt(namespace):
    if not namespace:
        raise PenstockError(NO_NAMESPACE)
    with Interface("lo") as loopback:
        loopback.set(mtu=1500)
    with open_xdp("lo", 0, 128, 1, 1514):
        pass


KIND = PortKind(
    "xdp",
    "one queue of an existing interface (AF_XDP, copy mode); its frames come to the port and not to the kernel; "
    "`headers=False` only",
    [
        Option("device", device_name, "the interface"),
        Option("queue", between(0, 1023), "of the interface", 0),
        Option("headers", no_headers, "must be false", False),
        BATCH,
        Option("memory", anything, "bytes shared with the kernel: a power of two", "16MiB"),
    ],
    open_checked,
    ["device", "netns", "queue", "broadcast"],
    ["device"],
    serves="ports on existing interfaces that bypass the kernel's stack",
    attempt=attempt,
)
