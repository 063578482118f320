"""Ports of a switch that are devices of the kernel: the keys of a [[port]], and how a device is opened.

Each kind has its own keys (`KIND` in ports/):

    [[port]]
    name = "a"
    addresses = ["10.0.0.1"]
    kind = "tap"                # of unmodified programs; device, netns
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

SHAPE = {"rings": 4096, "queues": 1024, "bells": 8192, "buffers": 2048}
LONGEST = {True: 65600, False: 9216}  # bytes of a buffer, with and without super-frames
QUEUE_FRAMES, SEGMENTS_BYTES = 10_000, 60_000  # what fits one UDP datagram with all headers
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
    ) -> None:
        self.port, self.place, self.mac, self.window, self.secret = port, place, mac, window, secret
        self.seed = os.urandom(16)  # of the ids of an overlay's sessions
        self.table: Allowance | None = None
        self.edge: Edge | None = None
        self.driver: Any = None  # set when it is attached to a switch

    @property
    def shape(self) -> dict[str, int]:
        """Of the region between it and the switch."""
        return {**SHAPE, "buffer_bytes": LONGEST[self.port.headers]}

    def guard(self, read_flows: Callable[[], Iterable[Mapping[str, Any]]], settings: Mapping[str, Any]) -> None:
        """Start an Edge, which keeps the kernel from losing frames at a TAP, in both directions, until `release`."""
        edge = Edge(
            self.port.name,
            self.place,
            read_flows,
            table=self.table,
            fd=self.port.fd,
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
    return tuple(found[kind].keys) if kind in found else ()


def validate_device(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The device keys of a [[port]], checked; empty: it is a port of native applications (kind shm)."""
    kind = table.get("kind", "shm")
    kinds = port_kinds()
    known = ("shm", *kinds)
    one_of(kind, f"{where}.kind", known)
    if kind == "shm":
        return {}
    found = {key: table[key] for key in kinds[kind].keys if key in table}
    for key in ("device", "netns"):
        if key in found and (not isinstance(found[key], str) or not re.fullmatch(r"[^\s/]{1,64}", found[key])):
            raise SpecError("must be a name", path=f"{where}.{key}", value=found[key])
    for key in kinds[kind].needs:
        if key not in found:
            raise SpecError(f"is missing; a port of kind {kind} needs it", path=f"{where}.{key}")
    for key in ("super_frames", "edge"):
        if key in found:
            boolean(found[key], f"{where}.{key}")
    if "prefix" in found:
        whole(found["prefix"], f"{where}.prefix", 0, 128)
    parse_secret(found.get("secret", ""), where)
    return {"kind": kind, **found}


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
    prefix, guarded = options.pop("prefix", 24), options.pop("edge", True)
    place = netns.named(options.pop("netns")) if "netns" in options else None
    with contextlib.ExitStack() as on_failure:
        if place:
            on_failure.callback(place.close)
        with netns.inside(place):
            port = open_port(kind, **_port_options(kind, options))
        on_failure.callback(port.close)
        device = Device(port, place, secret=secret)
        if kind == "tap":
            with netns.inside(place):
                set_up(port.name, addresses if prefix else [], prefix, others)
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


def set_up(name: str, addresses: list[str], prefix: int, others: Iterable[str] = ()) -> None:
    """Put a TAP up with room in its queue, its addresses, and those of the other ports.

    While an Ethernet address is asked for, the kernel keeps a few packets only; so programs that begin at full speed would
    lose some.
    """
    silent = [] if any(a.version == 6 for a in _ip_addresses(addresses)) else [f"link set {name} addrgenmode none"]
    lines = [*silent, f"link set {name} txqueuelen {QUEUE_FRAMES} gso_max_size {SEGMENTS_BYTES} up"]
    for address in _ip_addresses(addresses):
        bits = f"{prefix}" if address.version == 4 else "64 nodad"
        lines.append(f"address replace {address}/{bits.split()[0]} dev {name} {' '.join(bits.split()[1:])}")
    if addresses:
        lines += [f"neighbour replace {a} dev {name} lladdr {mac_standing_for(a)} nud permanent" for a in _ip_addresses(others)]
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


def tap_device(fd: int, table: int | None = None) -> Device:
    """A TAP that another process has opened and set up, by its descriptor, which is duplicated.

    `table` is the descriptor of an Allowance, which limits what the sockets behind the TAP are sent.
    """
    from penstock.vswitch.ports.tap import tap_on

    try:
        answer = fcntl.ioctl(fd, GET_TAP, bytes(40))
    except OSError:
        raise SpecError("the descriptor is not a TAP", path="plug") from None
    name, flags = answer[:16].rstrip(b"\0").decode("ascii", "replace"), struct.unpack_from("H", answer, 16)[0]
    if not flags & IFF_TAP or not flags & IFF_NO_PI:
        raise SpecError(f"{name} is no TAP without packet information", path="plug", remedy="open it with IFF_TAP | IFF_NO_PI")
    allowance = None if table is None else Allowance(table)
    os.set_blocking(fd, False)
    mac = mac_of(fd)
    device = Device(tap_on(os.dup(fd), name, bool(flags & IFF_VNET_HDR)), mac=mac)
    device.table = allowance
    return device
