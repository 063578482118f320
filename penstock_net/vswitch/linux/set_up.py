"""How an interface of a namespace is set up, over rtnetlink (man 7 rtnetlink): its lengths, state, addresses and routes.

One socket and a request for each change: to start `ip` would cost each TAP of a switch tens of milliseconds.
"""

import errno
import ipaddress
import struct
from typing import NamedTuple

from penstock_net.errors import PenstockError, SpecError, nearest
from penstock_net.vswitch.linux.interfaces import refused
from penstock_net.vswitch.linux.netlink import (
    CREATE,
    DUMP,
    GET_LINK,
    NEW_LINK,
    QUEUE_LENGTH,
    REPLACE,
    SharedNetlink,
    attribute,
    attributes,
    keep_unresolved,
    link,
    outgoing,
)
from penstock_net.vswitch.world import socket

DELETE_LINK, NEW_ADDRESS, DELETE_ADDRESS, GET_ADDRESS, NEW_ROUTE, DELETE_ROUTE, GET_ROUTE = 17, 20, 21, 22, 24, 25, 26
MTU, LINK_INFO, OF_FAMILIES, LONGEST_SEGMENTS = 4, 18, 26, 41  # attributes of an interface
KIND_OF_LINK, ADDRESS_MODE = 1, 8  # of LINK_INFO; of a family's
EUI64, NO_ADDRESS = 0, 1  # how IPv6 makes the link-local address
WHOLE, LOCAL = 1, 2  # attributes of an address
TARGET, OUT_OF, TABLE = 1, 4, 15  # of a route
IFF_UP, NO_DETECTION = 1, 2  # the latter: no search for others that have an address
MAIN, BOOT, UNIVERSE, OF_LINK, NOWHERE, UNICAST = 254, 3, 0, 253, 255, 1
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class State(NamedTuple):
    """What an interface is like."""

    kind: str  # such as "tun"; "": it has none
    mtu: int
    queue_frames: int
    up: bool


def _number(value: int) -> bytes:
    return struct.pack("=I", value)


class Interface:
    """An interface of this thread's namespace, by its name.  SpecError: there is none, or the kernel permits no netlink."""

    def __init__(self, name: str) -> None:
        self.name = name
        try:
            self.index = socket.if_nametoindex(name)
        except OSError:
            known = [name for _, name in socket.if_nameindex()]
            raise SpecError("there is no such interface", path="device", value=name, remedy=nearest(name, known)) from None
        try:
            self.route = SharedNetlink()
        except OSError as error:
            raise self._refusal(error, "device", name) from None

    def __enter__(self) -> "Interface":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self.route.close()

    # ---- What it is like ----

    def state(self) -> State:
        """As the kernel reports it now."""
        for _, content in self._ask(GET_LINK, link(self.index)):
            found = dict(attributes(content, 16))
            kind = dict(attributes(found.get(LINK_INFO, b""), 0)).get(KIND_OF_LINK, b"")
            mtu, queue_frames = (int(struct.unpack("=I", found[each])[0]) for each in (MTU, QUEUE_LENGTH))
            up = bool(struct.unpack_from("=I", content, 8)[0] & IFF_UP)
            return State(kind.rstrip(b"\0").decode(errors="replace"), mtu, queue_frames, up)
        raise PenstockError(f"interface {self.name}: the kernel does not report it")

    def dropped(self) -> int:
        """Packets that it has dropped; of a TAP: frames of applications that did not fit its ring.  OSError: it is gone."""
        return outgoing(self.route, self.index).dropped

    def addresses(self) -> list[ipaddress.IPv4Interface | ipaddress.IPv6Interface]:
        """Its IP addresses with the lengths of their prefixes, but for those that are valid on its link only."""
        found = []
        for _, content in self._ask(GET_ADDRESS, struct.pack("=BBBBI", 0, 0, 0, 0, self.index), DUMP):
            _, length, _, scope, index = struct.unpack_from("=BBBBI", content)
            values = dict(attributes(content, 8))
            if index == self.index and scope != OF_LINK:
                found.append(ipaddress.ip_interface((values.get(LOCAL) or values[WHOLE], length)))
        return found

    def routes(self) -> list[Network]:
        """Where routes of the main table lead out of it."""
        found: list[Network] = []
        for family, size in ((socket.AF_INET, 4), (socket.AF_INET6, 16)):
            asked = _route(family, 0, 0, UNIVERSE, 0) + attribute(OUT_OF, _number(self.index))
            for _, content in self._ask(GET_ROUTE, asked, DUMP):
                values, length, table = dict(attributes(content, 12)), content[1], content[4]
                if content[0] == family and table == MAIN and values.get(OUT_OF) == _number(self.index):
                    found.append(ipaddress.ip_network((values.get(TARGET, bytes(size)), length)))
        return found

    def _ask(self, kind: int, asked: bytes, flags: int = 0) -> list[tuple[int, bytes]]:
        try:
            return self.route.ask(kind, asked, flags)
        except OSError as error:
            raise self._refusal(error, "device", self.name) from None

    # ---- Changes; SpecError: the kernel refuses one ----

    def set(
        self, *, mtu: int = 0, queue_frames: int | None = None, segments_bytes: int | None = None, up: bool | None = None
    ) -> None:
        """Set lengths, and then its state; None, and of `mtu` 0: as it is.

        An interface that is up waits for all processors before it takes another queue; one that is down does not.
        """
        given = [(QUEUE_LENGTH, queue_frames), (LONGEST_SEGMENTS, segments_bytes)]
        if mtu:
            self._do(NEW_LINK, link(self.index, attribute(MTU, _number(mtu))), "mtu", mtu, "choose another mtu")
        if lengths := [attribute(kind, _number(value)) for kind, value in given if value is not None]:
            self._do(NEW_LINK, link(self.index, *lengths), "queue", queue_frames)
        if up is not None:
            flags = struct.pack("=BBHiII", 0, 0, 0, self.index, IFF_UP if up else 0, IFF_UP)
            self._do(NEW_LINK, flags, "state", "up" if up else "down")

    def set_address_mode(self, mode: int) -> None:
        """Have its link-local address made by EUI64, or by itself NO_ADDRESS; nothing if there is no IPv6 at it."""
        family = attribute(socket.AF_INET6, attribute(ADDRESS_MODE, bytes([mode])))
        try:
            self.route.do(NEW_LINK, link(self.index, attribute(OF_FAMILIES, family)))
        except OSError as error:
            if error.errno != errno.EAFNOSUPPORT:
                raise self._refusal(error, "address", "addrgenmode") from None

    def keep_unresolved(self, size: int) -> None:
        """Have it keep so many bytes of packets to each neighbour that is being resolved."""
        keep_unresolved(self.route, self.index, size)

    def add_address(self, address: Address, length: int) -> None:
        """Give it an address, with the length of its prefix; one that it has stays."""
        try:
            self.route.do(NEW_ADDRESS, self._address(address, length), CREATE | REPLACE)
        except OSError as error:
            remedy = "choose another address"
            if error.errno == errno.EACCES and address.version == 6:
                remedy = f"allow it (sysctl -w net.ipv6.conf.{self.name}.disable_ipv6=0), or remove the address"
            raise self._refusal(error, "addresses", f"{address}/{length}", remedy) from None

    def remove_address(self, address: Address, length: int) -> None:
        """Take an address from it."""
        self._do(DELETE_ADDRESS, self._address(address, length), "addresses", f"{address}/{length}")

    def add_route(self, network: Network) -> None:
        """Have a route of the main table lead out of it, in the place of the one there is."""
        scope = UNIVERSE if network.version == 6 else OF_LINK
        self._do(NEW_ROUTE, self._target(network, scope, BOOT), "routes", str(network), flags=CREATE | REPLACE)

    def remove_route(self, network: Network) -> None:
        """Remove a route of the main table that leads out of it."""
        self._do(DELETE_ROUTE, self._target(network, NOWHERE, 0), "routes", str(network))

    def delete(self) -> None:
        """Delete the interface."""
        self._do(DELETE_LINK, link(self.index), "device", self.name)

    def _address(self, address: Address, length: int) -> bytes:
        flags = NO_DETECTION if address.version == 6 else 0
        values = attribute(LOCAL, address.packed) + attribute(WHOLE, address.packed)
        return struct.pack("=BBBBI", _family(address), length, flags, UNIVERSE, self.index) + values

    def _target(self, network: Network, scope: int, protocol: int) -> bytes:
        target = attribute(TARGET, network.network_address.packed) if network.prefixlen else b""
        start = _route(_family(network), network.prefixlen, protocol, scope, UNICAST)
        return start + target + attribute(OUT_OF, _number(self.index))

    def _do(self, kind: int, content: bytes, key: str, value: object, remedy: str = "", flags: int = 0) -> None:
        try:
            self.route.do(kind, content, flags)
        except OSError as error:
            raise self._refusal(error, key, value, remedy) from None

    def _refusal(self, error: OSError, key: str, value: object, remedy: str = "") -> SpecError:
        if error.errno == errno.EPERM:
            return refused(f"interface {self.name}", error, "CAP_NET_ADMIN")
        if error.errno == errno.ENODEV:
            return SpecError("is gone", path=f"interface {self.name}")
        rule = f"the kernel refuses it for interface {self.name} ({error.strerror})"
        return SpecError(rule, path=key, value=value, remedy=remedy)


def _family(what: Address | Network) -> int:
    return socket.AF_INET if what.version == 4 else socket.AF_INET6


def _route(family: int, length: int, protocol: int, scope: int, kind: int) -> bytes:
    return struct.pack("=BBBBBBBBI", family, length, 0, 0, MAIN, protocol, scope, kind, 0)
