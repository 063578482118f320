"""Interfaces, addresses and sockets of this machine: validation before they are opened, and errors if that fails."""

import errno
import ipaddress
import re
import struct
from typing import Any

from penstock_net.errors import SpecError, nearest
from penstock_net.vswitch.world import fcntl, socket

SIOCGIFFLAGS, SIOCGIFMTU, IFF_UP = 0x8913, 0x8921, 1
SO_RCVBUFFORCE, IP_MTU = 33, 14
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_DOCTOR = "(penstock_net.vswitch.daemon.doctor.doctor() says what this machine permits)"


def refused(what: str, error: OSError, rights: str = "CAP_NET_ADMIN and CAP_NET_RAW") -> SpecError:
    """The error for an interface or socket that the kernel refused to open, with a remedy."""
    if error.errno in (errno.EPERM, errno.EACCES):
        return SpecError("not permitted", path=what, remedy=f"run as root or with {rights} {_DOCTOR}")
    if error.errno == errno.ENOENT:
        return SpecError(
            f"{error.filename or 'it'} does not exist on this machine", path=what, remedy="load the kernel's module for it"
        )
    if error.errno == errno.EBUSY:
        return SpecError("is in use by another program", path=what, remedy="end that program or choose another name")
    return SpecError(str(error.strerror or error), path=what)


def device_name(name: Any, what: str) -> str:
    """A check: a valid name of an interface."""
    if not isinstance(name, str) or not re.fullmatch(r"[^\s/:%\x00]{1,15}", name) or not name.isascii() or name in (".", ".."):
        raise SpecError("must be 1 to 15 characters without space, '/', ':' and '%'", path=what, value=name)
    return name


def exists(device: str) -> bool:
    """Whether there is an interface of this name."""
    try:
        return socket.if_nametoindex(device) > 0
    except OSError:
        return False


def is_here(address: Address) -> bool:
    """Whether an interface of this thread's namespace has this address."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((str(address), 0))
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                return False
            raise
    return True


def mtu_of(device: str, what: str) -> int:
    """The MTU of an interface, which must exist and be up."""
    if not exists(device):
        names = [name for _, name in socket.if_nameindex()]
        raise SpecError("there is no such interface", path=what, value=device, remedy=nearest(device, names))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        flags, mtu = (
            struct.unpack_from(form, fcntl.ioctl(probe, call, struct.pack("16s24x", device.encode())), 16)[0]
            for call, form in ((SIOCGIFFLAGS, "H"), (SIOCGIFMTU, "i"))
        )
    if not flags & IFF_UP:
        raise SpecError("the interface is down", path=what, value=device, remedy=f"ip link set {device} up")
    return int(mtu)


def set_receive_buffer(sock: socket.socket, size: int) -> None:
    """Set the size of a socket's receive buffer, beyond net.core.rmem_max if that is permitted."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, size)
    except PermissionError:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)


def address_and_port(text: Any, what: str, *, any_port: bool = False) -> tuple[Address, int]:
    """The parts of "10.0.0.1:7000" or "[fd00::1]:7000"; `any_port`: the port may be 0."""
    match = re.fullmatch(r"(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})", text) if isinstance(text, str) else None
    try:
        if not match:
            raise ValueError
        number = int(match[3])
        if number > 65535 or (number == 0 and not any_port):
            raise ValueError
        return ipaddress.ip_address(match[1] or match[2]), number
    except ValueError:
        raise SpecError('expected address and port, such as "10.0.0.1:7000" or "[fd00::1]:7000"', path=what, value=text) from None


def path_mtu(here: Address, there: Address, number: int) -> int:
    """The path MTU to a UDP port; for IPv6 the minimum of every path."""
    if here.version == 6:
        return 1280
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind((str(here), 0))
        try:
            probe.connect((str(there), number))
        except OSError:  # no way there yet
            return 1500
        return probe.getsockopt(socket.IPPROTO_IP, IP_MTU)
