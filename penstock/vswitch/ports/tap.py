"""A TAP: an Ethernet interface of this machine whose other end is the port; applications need no change.

With headers (virtio_net_hdr) the kernel passes TCP frames of up to 64 KB without check sums, both ways (GSO, GRO).
"""

import os
from errno import EINVAL

import cython

if not cython.compiled:
    from cython.cimports.libc.errno import errno

    from penstock.vswitch.ports.base import (
        HEADER_BYTES,
        pointer_to,
        readv,
        receive_failed,
        received,
        received_too_long,
        send_failed,
        sent,
        write,
    )
    from penstock.vswitch.ports.tap import (
        IFF_MULTI_QUEUE,
        IFF_NO_PI,
        IFF_TAP,
        IFF_VNET_HDR,
        TUN_F_CSUM,
        TUN_F_TSO4,
        TUN_F_TSO6,
        TUN_F_TSO_ECN,
        new_spill,
        set_header_bytes,
        set_interface,
        set_offloads,
        set_persistent,
        spill_of,
    )


from penstock.errors import SpecError
from penstock.inputs import boolean
from penstock.vswitch.linux.interfaces import device_name, refused
from penstock.vswitch.linux.losses import device_losses
from penstock.vswitch.ports.base import PortHandle
from penstock.vswitch.ports.kind import HEADERS, Option, PortKind


def tap_receive(port, to, room):
    spill = spill_of(port)
    spill.vectors[0].iov_base = to
    spill.vectors[0].iov_len = room
    spill.vectors[1].iov_base = spill.rest
    spill.vectors[1].iov_len = 8
    length = readv(port.fd, spill.vectors, 2)
    if length < 0:
        return receive_failed(port)
    if length > room:
        return received_too_long(port)
    return received(port, length)


def tap_send(port, frame, length):
    if write(port.fd, frame, length) < 0:
        return send_failed(port)
    return sent(port, length)


def open_tap(name, headers, shared=False, persistent=False):
    """Make or join a TAP of the current network namespace; OSError if the machine does not permit it.

    A persistent TAP stays without carrier when it is closed; opened without `persistent` it is a usual one again.
    """
    kind = IFF_TAP | IFF_NO_PI | (IFF_VNET_HDR if headers else 0) | (IFF_MULTI_QUEUE if shared else 0)
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if set_interface(fd, name.encode(), kind) < 0:
            raise OSError(errno, os.strerror(errno))
        offloads = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN if headers else 0
        if (
            (headers and set_header_bytes(fd, HEADER_BYTES) < 0)
            or set_offloads(fd, offloads) < 0
            or set_persistent(fd, persistent) < 0
        ):
            raise OSError(errno, os.strerror(errno))
    except BaseException:
        os.close(fd)
        raise
    return tap_on(fd, name, headers)


def tap_on(fd, name, headers):
    port = PortHandle("tap", fd, headers, lambda: os.close(fd))
    connect(port)
    port.name = name
    return port


def connect(handle):
    port = pointer_to(handle)
    port.own = new_spill(handle)
    port.receive = tap_receive
    port.send = tap_send


def open_checked(name, headers, shared, persistent):
    try:
        port = open_tap(name, headers, shared, persistent)
    except OSError as e:
        if e.errno == EINVAL:
            raise SpecError(
                f"tap {name}: there is an interface of that name that is no such TAP, or it was opened with another `shared`",
                remedy="choose another name, or open all of its ports alike",
            ) from None
        raise refused(f"tap {name}", e) from None
    port.losses = lambda: device_losses(name)["tx_dropped"]
    return port


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
)
