"""Ports of a switch that are devices of the kernel: the keys of a [[port]], and how a device is opened.

Each kind has its own keys (`KIND` in ports/):

    [[port]]
    name = "a"
    addresses = ["10.0.0.1"]
    kind = "tap"                # of unmodified programs; device, netns, prefix, routes, mtu, persistent
    netns = "left"

    kind = "udp"                # to another switch; local, peer, secret
    kind = "packet" or "xdp"    # an existing interface; device, netns
    kind = "pcap"               # a recording; read, write, timing, rounds
"""

import contextlib
import fcntl
import ipaddress
import os
import re
import socket
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from penstock.errors import SpecError
from penstock.inputs import boolean, one_of, whole
from penstock.vswitch.attach.allowance import Allowance
from penstock.vswitch.attach.edge import Edge
from penstock.vswitch.attach.open import kinds as port_kinds
from penstock.vswitch.attach.open import open_port
from penstock.vswitch.linux import netns
from penstock.vswitch.linux.losses import device_losses
from penstock.vswitch.ports.base import PortHandle

QUEUES, MOST_QUEUES = 8192, 65536  # of a port, each way
BUFFERS = {False: 8192, True: 16384}  # of a port, each way; True: to another switch, which may send two windows before it pauses
LONGEST = {True: 65600, False: 9216}  # bytes of a buffer, with and without super-frames
QUEUE_FRAMES, SEGMENTS_BYTES = 10_000, 60_000  # what fits one UDP datagram with all headers
LINK_BYTES = {True: 10 + 14 + 4, False: 14 + 4}  # before the IP header: virtio_net_hdr, Ethernet, a VLAN tag
LEAST_MTU, LEAST_MTU_IPV6, MOST_MTU = 68, 1280, 65_535 - 14  # of a TAP, as the kernel takes it
MOST_PID = 1 << 22
MESSAGES_AT_ONCE = 64  # of an overlay: as many as the segments of a super-frame
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
GET_HARDWARE_ADDRESS, GET_TAP = 0x8927, 0x800454D2
IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 0x0002, 0x1000, 0x4000


class Device:
    """An open device, with the properties that a port of the switch takes from it."""

    def __init__(
        self,
        port: PortHandle,
        place: netns.Place | None = None,
        mac: bytes | str | None = None,
        window: int = 0,
        secret: bytes = b"",
        broadcast: bool = False,
        lossless: bool = False,
    ) -> None:
        self.port, self.place, self.mac, self.window, self.secret = port, place, mac, window, secret
        self.broadcast, self.lossless = broadcast, lossless
        self.queues, self.buffers = QUEUES, BUFFERS[window > 0]
        self.seed = os.urandom(16)  # of the ids of an overlay's sessions
        self.table: Allowance | None = None
        self.edge: Edge | None = None
        self.driver: Any = None  # set when it is attached to a switch

    @property
    def shape(self) -> dict[str, int]:
        """Of the region between it and the switch."""
        rings = 2 * self.queues + self.buffers // 8  # one for each open queue, and what full ones need
        return {
            "rings": rings,
            "queues": self.queues,
            "bells": 8192,
            "buffers": self.buffers,
            "buffer_bytes": LONGEST[self.port.headers],
        }

    @property
    def own_addresses(self) -> list[str]:
        """Those of the interface itself, beside the ones of its port: where broadcasts pass, all Ethernet types do."""
        if not self.broadcast or not isinstance(self.mac, bytes):
            return []
        return [self.mac.hex(":"), link_local(self.mac)]

    def guard(self, read_flows: Callable[[], Iterable[Mapping[str, Any]]], settings: Mapping[str, Any]) -> None:
        """Start an Edge, which keeps the kernel from losing frames at a TAP, in both directions, until `release`."""
        edge = Edge(
            self.port.name,
            self.place,
            read_flows,
            table=self.table,
            goal=settings["th_goal"] // 2,
            over=settings["th_over"],
        )
        edge.open()
        self.edge = edge.start()
        if self.driver:
            self.driver.edge = self.edge
        self.count_losses()

    def count_losses(self) -> None:
        """Count losses from now on: while an interface is set up, the kernel may lose frames of its own (IPv6 announcements)."""
        name, place = self.port.name, self.place
        before = device_losses(name, place)["tx_dropped"]
        self.port.losses = lambda: device_losses(name, place)["tx_dropped"] - before

    def release(self) -> None:
        """End the edge: senders and receivers have no limits any longer."""
        if self.edge:
            if self.driver:
                self.driver.edge = None
            self.edge.__exit__()
            if self.driver:
                self.driver.not_read += self.edge.rates.left
            self.edge = None

    def close(self) -> None:
        """Give everything back."""
        self.release()
        if self.table:
            self.table.close()
            self.table = None
        self.port.close()
        if self.place:
            self.place.close()


def keys_of(kind: str) -> tuple[str, ...]:
    """The keys of a [[port]] that are particular to its kind."""
    found = port_kinds()
    return (*found[kind].keys, "queues") if kind in found else ()


def validate_device(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The device keys of a [[port]], checked; empty: it is a port of native applications (kind shm)."""
    kind = table.get("kind", "shm")
    kinds = port_kinds()
    known = ("shm", *kinds)
    one_of(kind, f"{where}.kind", known)
    if kind == "shm":
        return {}
    found = {key: table[key] for key in keys_of(kind) if key in table}
    if "device" in found and (not isinstance(found["device"], str) or not re.fullmatch(r"[^\s/]{1,64}", found["device"])):
        raise SpecError("must be a name", path=f"{where}.device", value=found["device"])
    if "netns" in found:
        _check_netns(found["netns"], f"{where}.netns")
    for key in kinds[kind].needs:
        if key not in found:
            raise SpecError(f"is missing; a port of kind {kind} needs it", path=f"{where}.{key}")
    for key in ("super_frames", "edge", "persistent", "broadcast"):
        if key in found:
            boolean(found[key], f"{where}.{key}")
    if "prefix" in found:
        whole(found["prefix"], f"{where}.prefix", 0, 128)
    if "mtu" in found:
        found["mtu"] = _check_mtu(found, table.get("addresses"), f"{where}.mtu")
    if "routes" in found:
        _check_routes(found["routes"], f"{where}.routes")
    if "queues" in found:
        whole(found["queues"], f"{where}.queues", 8, MOST_QUEUES)
    parse_secret(found.get("secret", ""), where)
    return {"kind": kind, **found}


def _check_netns(value: Any, path: str) -> None:
    if isinstance(value, int) and not isinstance(value, bool):
        whole(value, path, 1, MOST_PID)
    elif not isinstance(value, str) or not re.fullmatch(r"[^\s/]{1,64}|/\S{1,200}", value):
        raise SpecError(
            "must be a name, a path, or the number of a process",
            path=path,
            value=value,
            remedy='such as "left", "/proc/123/ns/net" or 123',
        )


def _check_mtu(found: Mapping[str, Any], addresses: Any, path: str) -> int:
    """The kernel takes the MTU, IPv6 works with it, and a frame of that length fits a buffer of the port."""
    super_frames = found.get("super_frames", True)
    least, most = LEAST_MTU, min(MOST_MTU, LONGEST[super_frames] - LINK_BYTES[super_frames])
    if isinstance(addresses, list) and any(address.version == 6 for address in _ip_addresses(addresses)):
        least = LEAST_MTU_IPV6
    mtu = found["mtu"]
    if isinstance(mtu, int) and not isinstance(mtu, bool) and LEAST_MTU <= mtu < least:
        raise SpecError(f"IPv6 takes at least {least}", path=path, value=mtu, remedy="or leave its IPv6 addresses out")
    if not super_frames and isinstance(mtu, int) and most < mtu <= MOST_MTU:
        raise SpecError(
            f"longer frames than its buffers of {LONGEST[False]} B hold",
            path=path,
            value=mtu,
            remedy=f"at most {most}, or super_frames = true",
        )
    return whole(mtu, path, least, most)


def _check_routes(routes: Any, path: str) -> None:
    if not isinstance(routes, list):
        raise SpecError("must be a list of prefixes", path=path, value=routes, remedy='such as ["10.1.0.0/16"]')
    for route in routes:
        try:
            ipaddress.ip_network(route if isinstance(route, str) else "")
        except ValueError:
            raise SpecError(
                "must be prefixes of IPv4 or IPv6", path=path, value=route, remedy='such as "10.1.0.0/16" or "0.0.0.0/0"'
            ) from None


def parse_secret(text: Any, where: str) -> bytes:
    """The 16 bytes that two peers share, of 32 hexadecimal digits; none, of an empty text."""
    if not isinstance(text, str) or not re.fullmatch(r"|[0-9a-fA-F]{32}", text):
        raise SpecError(
            "must be 32 hexadecimal digits, such as `openssl rand -hex 16` prints, or left out", path=f"{where}.secret"
        )
    return bytes.fromhex(text)


def open_device(table: Mapping[str, Any], addresses: list[str], others: Iterable[str], where: str = "port") -> Device:
    """Open a device that `validate_device` has found good.

    `addresses` are those of its port, `others` those of all other ports; `where` begins the messages of errors.
    """
    options = dict(table)
    kind = options.pop("kind")
    secret = parse_secret(options.pop("secret", ""), where)
    queues = options.pop("queues", QUEUES)
    prefix, guarded, broadcast = options.pop("prefix", 24), options.pop("edge", True), options.pop("broadcast", False)
    mtu, routes = options.pop("mtu", 0), options.pop("routes", [])
    place = netns.find(options.pop("netns")) if "netns" in options else None
    with contextlib.ExitStack() as on_failure:
        if place:
            on_failure.callback(place.close)
        with netns.inside(place):
            port = open_port(kind, **_port_options(kind, options))
        on_failure.callback(port.close)
        device = Device(port, place, secret=secret, broadcast=broadcast)
        device.queues = queues
        if kind == "tap":
            with netns.inside(place):
                set_up(port.name, addresses if prefix else [], prefix, others, mtu=mtu, routes=routes, link_local=broadcast)
            device.mac = mac_of(port.fd)
            device.count_losses()
            device.table = Allowance() if guarded else None
        elif kind in ("packet", "xdp"):
            device.mac = "learn"
        elif kind == "udp":
            device.window = window_of(port.fd)
        on_failure.pop_all()
    return device


def _port_options(kind: str, options: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `open_port` for the keys of a [[port]]."""
    options = dict(options)
    if kind == "udp":
        options["fragments"] = False
        options["batch"] = MESSAGES_AT_ONCE
    if kind in ("tap", "packet", "udp"):
        options["headers"] = options.pop("super_frames", True)
    elif kind == "pcap":
        options["headers"] = False
    if kind == "tap":
        options["name"] = options.pop("device")
    return options


def set_up(
    name: str,
    addresses: list[str],
    prefix: int,
    others: Iterable[str] = (),
    *,
    mtu: int = 0,
    routes: Iterable[str] = (),
    link_local: bool = False,
) -> None:
    """Put a TAP up with room in its queue, its addresses, those of the other ports, and routes through it.

    While an Ethernet address is asked for, the kernel keeps a few packets only; so programs that begin at full speed would
    lose some.  `link_local` gives it an address of its link made from its Ethernet address.  What a persistent TAP has beside
    this stays; `mtu` 0: as it is.
    """
    lines = []
    if link_local:
        lines.append(f"link set {name} addrgenmode eui64")
    elif not any(a.version == 6 for a in _ip_addresses(addresses)):
        lines.append(f"link set {name} addrgenmode none")
    length = f" mtu {mtu}" if mtu else ""
    lines.append(f"link set {name}{length} txqueuelen {QUEUE_FRAMES} gso_max_size {SEGMENTS_BYTES} up")
    for address in _ip_addresses(addresses):
        bits = f"{prefix}" if address.version == 4 else "64 nodad"
        lines.append(f"address replace {address}/{bits.split()[0]} dev {name} {' '.join(bits.split()[1:])}")
    if addresses:
        lines += [f"neighbour replace {a} dev {name} lladdr {mac_standing_for(a)} nud permanent" for a in _ip_addresses(others)]
    lines += [f"route replace {route} dev {name}" for route in routes]
    netns.ip("-batch", "-", text="\n".join(lines))


def _ip_addresses(addresses: Iterable[str]) -> list[Address]:
    """Those that are no Ethernet addresses."""
    found = []
    for text in addresses:
        with contextlib.suppress(ValueError):
            found.append(ipaddress.ip_address(text))
    return found


def mac_standing_for(address: Address) -> str:
    """The Ethernet address that driver.py gives out for an address of the switch."""
    return (b"\x02\0" + address.packed[-4:]).hex(":")


def link_local(mac: bytes) -> str:
    """The IPv6 address of its link that the kernel gives to an interface with this Ethernet address (EUI-64)."""
    packed = b"\xfe\x80" + bytes(6) + bytes([mac[0] ^ 2]) + mac[1:3] + b"\xff\xfe" + mac[3:]
    return str(ipaddress.IPv6Address(packed))


def mac_of(fd: int) -> bytes:
    """The Ethernet address of a TAP."""
    return bytes(fcntl.ioctl(fd, GET_HARDWARE_ADDRESS, bytes(40))[18:24])


def window_of(fd: int) -> int:
    """Bytes that a peer may have in flight: a third of the socket's memory, for a restarted peer may send a window again."""
    sock = socket.socket(fileno=fd)
    try:
        return sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 3
    finally:
        sock.detach()


def tap_device(fd: int, table: int | None = None, alarm: int | None = None) -> Device:
    """A TAP that another process has opened and set up, by its descriptor, which is duplicated.

    `table` and `alarm` are the descriptors of an Allowance, which limits what the sockets behind the TAP are sent.
    """
    from penstock.vswitch.ports.tap import tap_on

    try:
        answer = fcntl.ioctl(fd, GET_TAP, bytes(40))
    except OSError:
        raise SpecError("the descriptor is not a TAP", path="plug") from None
    name, flags = answer[:16].rstrip(b"\0").decode("ascii", "replace"), struct.unpack_from("H", answer, 16)[0]
    if not flags & IFF_TAP or not flags & IFF_NO_PI:
        raise SpecError(f"{name} is no TAP without packet information", path="plug", remedy="open it with IFF_TAP | IFF_NO_PI")
    allowance = None if table is None else Allowance(table, alarm)
    os.set_blocking(fd, False)
    mac = mac_of(fd)
    device = Device(tap_on(os.dup(fd), name, bool(flags & IFF_VNET_HDR)), mac=mac)
    device.table = allowance
    return device
