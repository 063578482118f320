"""Losses in the kernel: at an interface, and at a socket that was not read in time."""

import struct

from penstock_net.errors import SpecError
from penstock_net.vswitch.linux.netlink import ROUTE, SharedNetlink, dropped_by
from penstock_net.vswitch.linux.netns import NetNs
from penstock_net.vswitch.world import socket

SO_MEMINFO = 55  # linux/socket.h: nine numbers, of which the last are packets dropped because the receive buffer was full


def dropped_at(device: str, namespace: NetNs | None = None) -> int:
    """Packets that an interface has dropped; at a TAP: frames of applications that did not fit its ring."""
    try:
        with SharedNetlink(ROUTE, namespace) as route:
            return dropped_by(route, device)
    except OSError as error:
        raise SpecError(f"device {device!r}: {error.strerror}", remedy="`ip link` has the interfaces that there are") from None


def socket_losses(fd: int) -> int:
    """Packets that the kernel has dropped since the socket was opened, because its receive buffer was full.

    A run of equal frames that came as one UDP message counts once.
    """
    with socket.socket(fileno=fd) as sock:
        try:
            return int(struct.unpack("9I", sock.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 36))[8])
        finally:
            sock.detach()
