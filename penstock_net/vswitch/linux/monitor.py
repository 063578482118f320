"""What happens to the interfaces of a network namespace, by netlink, and to namespaces, by the table of mounts.

A message only says that something may have changed: whoever gets one reads the state anew, so that none is missed when the kernel
has dropped messages (ENOBUFS), and none is believed that came late.
"""

import contextlib
import errno
import ipaddress
import struct
from typing import NamedTuple

from penstock_net.errors import PenstockError
from penstock_net.vswitch.linux.netlink import (
    CREATE,
    DUMP,
    ECHO,
    GET_LINK,
    NEW_LINK,
    REPLACE,
    ROUTE,
    STATS64,
    TX_DROPPED,
    Netlink,
    attribute,
    attributes,
)
from penstock_net.vswitch.linux.netlink import (
    link as request,
)
from penstock_net.vswitch.linux.netns import NetNs, enter
from penstock_net.vswitch.world import ctypes, os, socket

DELETE_LINK, NEW_ADDRESS, DELETE_ADDRESS, GET_ADDRESS = 17, 20, 21, 22
NEW_NEIGHBOUR, DELETE_NEIGHBOUR, GET_NEIGHBOUR, REACHABLE, PERMANENT = 28, 29, 30, 0x02, 0x80
OF_ADDRESS, LINK_ADDRESS, OF_INTERFACE = 1, 2, 8  # attributes of a neighbour
NEW_QDISC, DELETE_QDISC, GET_QDISC = 36, 37, 38
GROUPS = 1 << 0 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 8  # RTMGRP_LINK, _NEIGH, _TC, _IPV4_IFADDR, _IPV6_IFADDR
IFF_UP, IFF_LOWER_UP, ROOT, OWN_QDISC = 1, 0x10000, 0xFFFFFFFF, 0x10000
HARDWARE_ADDRESS, NAME, MTU, MASTER, KIND = 1, 3, 4, 10, 1  # attributes of an interface; the last: of a queueing discipline
SO_ATTACH_FILTER = 26
LOAD_SHORT, LOAD_WORD, EQUAL, RETURN = 0x28, 0x20, 0x15, 0x06  # of classic BPF


Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Link(NamedTuple):
    """An interface; `carrier`: it is up, and so is its other end; `master`: the number of the bridge that it is in, or 0."""

    number: int
    name: str
    up: bool
    mac: bytes
    mtu: int
    dropped: int
    carrier: bool = True
    master: int = 0


class Change(NamedTuple):
    """A message about an interface.

    link    as it was then; None: the message is about its addresses or queueing disciplines
    found   an address that was resolved there, with its Ethernet address; the message is about nothing else
    """

    number: int
    link: Link | None = None
    deleted: bool = False
    found: tuple[Address, bytes] | None = None


def _swapped(number: int, size: int) -> int:
    """A number of the kernel's messages as classic BPF reads it, which takes all for big-endian."""
    return int.from_bytes(number.to_bytes(size, "little"), "big")


def _filter() -> bytes:
    """A socket filter: of queueing disciplines only a root's, but for the own one, and no classes and filters at all; of
    neighbours only those that were just resolved.

    An edge changes its classes up to 500 times a second, which shall wake nobody.
    """
    code = [
        (LOAD_SHORT, 0, 0, 4),  # the type of the message
        *((EQUAL, 12 - i, 0, _swapped(kind, 2)) for i, kind in enumerate((NEW_LINK, DELETE_LINK, NEW_ADDRESS, DELETE_ADDRESS))),
        (EQUAL, 6, 0, _swapped(NEW_NEIGHBOUR, 2)),
        (EQUAL, 3, 0, _swapped(DELETE_QDISC, 2)),
        (EQUAL, 0, 7, _swapped(NEW_QDISC, 2)),
        (LOAD_WORD, 0, 0, 24),  # the handle
        (EQUAL, 5, 0, _swapped(OWN_QDISC, 4)),
        (LOAD_WORD, 0, 0, 28),  # the parent
        (EQUAL, 2, 3, ROOT),
        (LOAD_SHORT, 0, 0, 24),  # the state of a neighbour
        (EQUAL, 0, 1, _swapped(REACHABLE, 2)),
        (RETURN, 0, 0, 0xFFFFFFFF),
        (RETURN, 0, 0, 0),
    ]
    return b"".join(struct.pack("=HBBI", *each) for each in code)


def _link(content: bytes) -> Link:
    index, flags = struct.unpack_from("=iI", content, 4)
    found = dict(attributes(content, 16))
    statistics = found.get(STATS64, bytes(64))
    return Link(
        index,
        found.get(NAME, b"").rstrip(b"\0").decode(errors="replace"),
        bool(flags & IFF_UP),
        found.get(HARDWARE_ADDRESS, b""),
        struct.unpack("=I", found[MTU])[0] if MTU in found else 0,
        struct.unpack_from("=8Q", statistics)[TX_DROPPED],
        bool(flags & IFF_LOWER_UP),
        struct.unpack("=I", found[MASTER])[0] if MASTER in found else 0,
    )


def _changes(data: bytes) -> list[Change]:
    """The messages that were received together.  struct.error: one is malformed."""
    found, at = [], 0
    while at < len(data):
        length, kind = struct.unpack_from("=IH", data, at)
        content = data[at + 16 : at + length]
        if kind in (NEW_LINK, DELETE_LINK):
            link = _link(content)
            found.append(Change(link.number, link, kind == DELETE_LINK))
        else:
            number = struct.unpack_from("=i", content, 4)[0]
            found.append(Change(number, found=_resolved(content) if kind == NEW_NEIGHBOUR else None))
        at += length + -length % 4
    return found


def _resolved(content: bytes) -> tuple[Address, bytes]:
    values = dict(attributes(content, 12))
    try:
        return ipaddress.ip_address(values[OF_ADDRESS]), values[LINK_ADDRESS]
    except (KeyError, ValueError):
        raise struct.error("a neighbour without an address") from None


def neighbour(index: int, address: Address) -> bytes:
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    return struct.pack("=BxxxiHBB", family, index, PERMANENT, 0, 0) + attribute(OF_ADDRESS, address.packed)


class Monitor:
    """The interfaces of a namespace: `changes` after its descriptor is readable, and the state of each."""

    def __init__(self, namespace: NetNs | None = None) -> None:
        with enter(namespace):
            self.events = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK, ROUTE)
            try:
                code = _filter()
                kept = ctypes.create_string_buffer(code, len(code))
                program = struct.pack("@HP", len(code) // 8, ctypes.addressof(kept))
                self.events.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)
                self.events.bind((0, GROUPS))
                self.route = Netlink(ROUTE)
            except BaseException:
                self.events.close()
                raise

    def fileno(self) -> int:
        return self.events.fileno()

    def changes(self) -> list[Change] | None:
        """What was reported since the last call; None: anything may have changed, since the kernel has dropped messages."""
        found: list[Change] = []
        while True:
            try:
                found += _changes(self.events.recv(1 << 17))
            except BlockingIOError:
                return found
            except struct.error:  # it is no message that is known
                return None
            except OSError as error:
                if error.errno == errno.ENOBUFS:
                    return None
                raise

    def named(self, name: str) -> Link | None:
        """The interface of this name, if there is one."""
        return self._ask(request(0, attribute(NAME, name.encode() + b"\0")))

    def numbered(self, index: int) -> Link | None:
        """The interface of this index, if there is one."""
        return self._ask(request(index))

    def _ask(self, content: bytes) -> Link | None:
        try:
            return next((_link(answer) for kind, answer in self.route.ask(GET_LINK, content) if kind == NEW_LINK), None)
        except OSError as error:
            if error.errno == errno.ENODEV:
                return None
            raise

    def take_down(self, index: int) -> None:
        """Set an interface down.  OSError: it is not there, or that is not permitted."""
        self.route.do(NEW_LINK, struct.pack("=BBHiII", 0, 0, 0, index, 0, IFF_UP))

    def addresses(self, index: int) -> set[str]:
        """The IP addresses of an interface."""
        found = set()
        for _, content in self.route.ask(GET_ADDRESS, struct.pack("=BBBBI", 0, 0, 0, 0, index), DUMP):
            if struct.unpack_from("=I", content, 4)[0] == index:
                values = dict(attributes(content, 8))
                if packed := values.get(2) or values.get(1):  # IFA_LOCAL, else IFA_ADDRESS
                    found.add(str(ipaddress.ip_address(packed)))
        return found

    def set_neighbour(self, index: int, address: Address, mac: str) -> None:
        """Have a permanent neighbour at an interface.  OSError: the interface is down, or gone."""
        content = neighbour(index, address) + attribute(LINK_ADDRESS, bytes.fromhex(mac.replace(":", "")))
        self.route.do(NEW_NEIGHBOUR, content, CREATE | REPLACE)

    def neighbours(self, index: int) -> list[tuple[Address, bytes]]:
        """The permanent neighbours at an interface."""
        content = bytes(12) + attribute(OF_INTERFACE, struct.pack("=I", index))
        found = [content for _, content in self.route.ask(GET_NEIGHBOUR, content, DUMP)]
        return [_resolved(content) for content in found if struct.unpack_from("=H", content, 8)[0] == PERMANENT]

    def remove_neighbour(self, index: int, address: Address) -> None:
        """Forget a neighbour at an interface.  OSError: there is none."""
        self.route.do(DELETE_NEIGHBOUR, neighbour(index, address))

    def root_qdisc(self, index: int) -> tuple[str, int]:
        """Kind and handle of an interface's queueing discipline; handle 0: the kernel has chosen it.

        The own one is asked for by its handle.  To find any other the kernel reports those of all interfaces.
        """
        with contextlib.suppress(OSError):
            for _, content in self.route.ask(GET_QDISC, struct.pack("=BxxxiIII", 0, index, OWN_QDISC, ROOT, 0), ECHO):
                return _kind(content), OWN_QDISC
        for _, content in self.route.ask(GET_QDISC, struct.pack("=BxxxiIII", 0, index, 0, 0, 0), DUMP):
            number, handle, parent = struct.unpack_from("=iII", content, 4)
            if number == index and parent == ROOT:
                return _kind(content), handle
        return "noqueue", 0

    def close(self) -> None:
        self.events.close()
        self.route.close()


def _kind(content: bytes) -> str:
    """Of a message about a queueing discipline."""
    return dict(attributes(content, 20)).get(KIND, b"").rstrip(b"\0").decode(errors="replace")


class Mounts:
    """The table of mounts, whose descriptor reports when it has changed: namespaces by name are mounted and unmounted."""

    def __init__(self) -> None:
        try:
            self.fd = os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise PenstockError(f"the table of mounts cannot be read ({error.strerror})") from None

    def fileno(self) -> int:
        return self.fd

    def close(self) -> None:
        os.close(self.fd)
