"""A TAP: an Ethernet interface of this machine whose other end is the port; applications need no change.

With headers (virtio_net_hdr) TCP frames of up to 64 KB pass without checksums, both ways (GSO, GRO).  Where the kernel knows them
(Linux 6.2), frames of several UDP datagrams do, too (UDP_SEGMENT), and consecutive datagrams of one UDP flow go to the kernel as
one frame, which it segments in front of the socket: the path through the kernel is most of the cost of a small frame.
"""

from errno import EINVAL

import cython

from penstock_net.errors import SpecError
from penstock_net.inputs import boolean
from penstock_net.vswitch.linux.interfaces import device_name, exists, refused
from penstock_net.vswitch.linux.losses import dropped_at
from penstock_net.vswitch.ports.base import PortHandle
from penstock_net.vswitch.support.port_kind import HEADERS, Given, Option, PortKind
from penstock_net.vswitch.world import os

if not cython.compiled:
    from cython.cimports.libc.errno import EAGAIN, errno
    from cython.cimports.libc.string import memcpy

    from penstock_net.vswitch.ports.base import (
        A_FRAME,
        HEADER_BYTES,
        VIRTIO_NET_HDR_F_NEEDS_CSUM,
        PyBytes_AS_STRING,
        PyBytes_FromStringAndSize,
        bytes_from,
        header_of,
        octet,
        pointer_to,
        receive_failed,
        received,
        received_too_long,
        send_failed,
        sent,
    )
    from penstock_net.vswitch.ports.segment import GSO_UDP_L4
    from penstock_net.vswitch.ports.tap import (
        DATAGRAM_AT,
        DATAGRAM_MOST,
        IFF_MULTI_QUEUE,
        IFF_NO_PI,
        IFF_TAP,
        IFF_VNET_HDR,
        JOINED_BYTES,
        JOINED_MOST,
        TUN_F_CSUM,
        TUN_F_TSO4,
        TUN_F_TSO6,
        TUN_F_TSO_ECN,
        TUN_F_USO4,
        TUN_F_USO6,
        keep_address,
        new_tap,
        pair_at,
        put_pair,
        same_bytes,
        set_header_bytes,
        set_interface,
        set_offloads,
        set_persistent,
        tap_of,
    )
    from penstock_net.vswitch.world.calls.table import read_into, write_to


def tap_receive(port, to, room):
    tap = tap_of(port)
    if tap.count:
        tap_flush(port)
    tap.vectors[0].iov_base = to
    tap.vectors[0].iov_len = room
    tap.vectors[1].iov_base = tap.rest
    tap.vectors[1].iov_len = 8
    length = read_into(port.fd, tap.vectors, 2)
    if length < 0:
        port.empty = errno == EAGAIN
        return receive_failed(port)
    if length > room:
        return received_too_long(port)
    return received(port, length)


def tap_send(port, frame, length):
    tap = tap_of(port)
    if tap.joins and port.sends == A_FRAME and is_datagram(frame, length):
        if tap.count and follows(tap, frame, length):
            tap.last = length - DATAGRAM_AT
            memcpy(bytes_from(tap.joined, tap.length), bytes_from(frame, DATAGRAM_AT), tap.last)
            tap.length += tap.last
            tap.count += 1
            return True
        if not tap_flush(port):
            return False
        memcpy(tap.joined, frame, length)
        tap.length = length
        tap.payload = tap.last = length - DATAGRAM_AT
        tap.count = 1
        return True
    if not tap_flush(port):
        return False
    if write_to(port.fd, frame, length) < 0:
        return send_failed(port)
    return sent(port, length)


def tap_flush(port):
    """Write the pending datagrams; False: the kernel has no room now."""
    tap = tap_of(port)
    if tap.count == 0:
        return True
    if tap.count > 1:
        make_joined(tap.joined, tap.length, tap.payload)
    if write_to(port.fd, tap.joined, tap.length) < 0:
        if not send_failed(port):
            return False
        port.errors_out += tap.count - 1
    else:
        port.frames_out += tap.count
        port.bytes_out += tap.length + (tap.count - 1) * DATAGRAM_AT
    tap.count = 0
    return True


# ---- Several datagrams in one frame ----


def is_datagram(frame, length):
    """Whether a frame is a short UDP datagram over IPv4 from a socket, with an IP identification that has no meaning."""
    header = header_of(frame)
    if header.flags != VIRTIO_NET_HDR_F_NEEDS_CSUM or header.gso_type or length <= DATAGRAM_AT or length > DATAGRAM_MOST:
        return False
    if header.csum_start != 34 or header.csum_offset != 6 or pair_at(frame, 22) != 0x0800 or octet(frame, 24) != 0x45:
        return False
    if octet(frame, 33) != 17 or pair_at(frame, 30) != 0x4000 or octet(frame, 10) & 1:  # no fragment, and never to be one
        return False
    return pair_at(frame, 26) == length - 24 and pair_at(frame, 48) == length - 44


def follows(tap, frame, length):
    """Whether a datagram has the flow and headers of the pending ones, and is no longer than they are."""
    if tap.last != tap.payload or length - DATAGRAM_AT > tap.payload:
        return False
    if tap.count == JOINED_MOST or tap.length + tap.payload > JOINED_BYTES:
        return False
    return (
        same_bytes(tap.joined, frame, 10, 16) and same_bytes(tap.joined, frame, 32, 2) and same_bytes(tap.joined, frame, 36, 12)
    )


def folded(total):
    """Fold a sum of 16-bit words into 16 bits."""
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def make_joined(frame, length, payload):
    """Set the headers of concatenated datagrams: lengths, both checksums, and the segment size for the kernel."""
    header = header_of(frame)
    header.gso_type = GSO_UDP_L4
    header.gso_size = payload
    header.hdr_len = DATAGRAM_AT - 10
    before = pair_at(frame, 48)
    put_pair(frame, 48, length - 44)
    put_pair(frame, 50, folded(pair_at(frame, 50) + (0xFFFF - before) + length - 44))
    put_pair(frame, 26, length - 24)
    put_pair(frame, 34, 0)
    total = 0
    for i in range(10):
        total += pair_at(frame, 24 + 2 * i)
    put_pair(frame, 34, 0xFFFF - folded(total))


# ---- Opening ----


def open_tap(name, headers, shared=False, persistent=False):
    """Create a TAP in the current network namespace, or attach to it; OSError if the machine does not permit it.

    A persistent TAP remains without carrier when it is closed; opened without `persistent` it is no longer persistent.  The
    address of a new TAP counts as set from the beginning: systemd's udev gives another one to those whose kind is random.
    """
    is_new = not exists(name)
    kind = IFF_TAP | IFF_NO_PI | (IFF_VNET_HDR if headers else 0) | (IFF_MULTI_QUEUE if shared else 0)
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if set_interface(fd, name.encode(), kind) < 0:
            raise OSError(errno, os.strerror(errno))
        if (
            (is_new and keep_address(fd) < 0)
            or (headers and set_header_bytes(fd, HEADER_BYTES) < 0)
            or set_offloads(fd, offloads(headers)) < 0
            or set_persistent(fd, persistent) < 0
        ):
            raise OSError(errno, os.strerror(errno))
    except BaseException:
        os.close(fd)
        raise
    return tap_on(fd, name, headers)


def offloads(headers):
    """Offloads that this end accepts in frames from the kernel."""
    return TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN if headers else 0


def tap_on(fd, name, headers):
    port = connected(fd, name, headers)
    if headers:
        find_joins(port)
    return port


def connected(fd, name, headers):
    port = PortHandle("tap", fd, headers, lambda: os.close(fd))
    connect(port)
    port.on_close(lambda: give_up(port))
    port.name = name
    return port


def waiting_datagrams(handle):
    """Datagrams that it has taken, and the kernel has not yet; none of a port of another module."""
    port = pointer_to(handle)
    return tap_of(port).count if port.flush == tap_flush else 0


def give_up_datagrams(handle):
    """Count the datagrams that the kernel does not take now as lost, of a port of this module."""
    port = pointer_to(handle)
    if port.flush == tap_flush and not tap_flush(port):
        give_up(handle)


def give_up(handle):
    """Count the datagrams that the kernel has not taken by the end as lost."""
    tap = tap_of(pointer_to(handle))
    pointer_to(handle).errors_out += tap.count
    tap.count = 0


def connect(handle):
    port = pointer_to(handle)
    port.own = new_tap(handle)
    port.receive = tap_receive
    port.send = tap_send
    port.flush = tap_flush


def find_joins(handle):
    """Accept frames of several datagrams from the kernel, and hand them over to it, if it knows them."""
    port = pointer_to(handle)
    known = offloads(True)
    tap_of(port).joins = set_offloads(port.fd, known | TUN_F_USO4 | TUN_F_USO6) == 0
    if not tap_of(port).joins:
        set_offloads(port.fd, known)


# ---- Handing it over to another process ----


def give(handle):
    tap = tap_of(pointer_to(handle))
    numbers = {"joins": tap.joins, "count": tap.count, "payload": tap.payload, "last": tap.last}
    return Given([handle.fd], numbers, PyBytes_FromStringAndSize(tap.joined, tap.length if tap.count else 0))


def take(options, given):
    return tap_on(given.fds[0], options["name"], options["headers"])


def resume(handle, given):
    tap, numbers = tap_of(pointer_to(handle)), given.numbers
    tap.joins, tap.count, tap.payload, tap.last = numbers["joins"], numbers["count"], numbers["payload"], numbers["last"]
    tap.length = len(given.waiting)
    memcpy(tap.joined, PyBytes_AS_STRING(given.waiting), tap.length)


def open_checked(name, headers, shared, persistent):
    try:
        port = open_tap(name, headers, shared, persistent)
    except OSError as e:
        if e.errno == EINVAL:
            raise SpecError(
                f"tap {name}: an interface of that name exists and is not such a TAP, or was opened with another `shared`",
                remedy="choose another name, or open all of its ports alike",
            ) from None
        raise refused(f"tap {name}", e) from None
    port.losses = lambda: dropped_at(name)
    return port


def attempt(namespace):
    with open_tap("doctor0", True):
        pass


KIND = PortKind(
    "tap",
    "an interface of this machine whose other end is the port; unmodified applications",
    [
        Option("name", device_name, "of the interface"),
        HEADERS,
        Option("shared", boolean, "it may be opened several times: each port is a queue of it", False),
        Option("persistent", boolean, "it stays, without carrier, when it is closed", False),
    ],
    open_checked,
    ["device", "netns", "prefix", "routes", "mtu", "super_frames", "edge", "persistent", "broadcast"],
    ["device"],
    serves="ports of unmodified applications",
    attempt=attempt,
    give=give,
    take=take,
    resume=resume,
)
