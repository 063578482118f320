"""Ports of a switch that are devices of the kernel: what a SPEC.toml or `plug` says of them, and how they are opened.

[[port]]
name = "a"
addresses = ["10.0.0.1"]
kind = "tap"                # of unmodified programs; device, netns
netns = "left"

kind = "udp"                # to another switch; local, peer, secret
kind = "packet" or "xdp"    # an interface that is there; device, netns
kind = "pcap"               # a recording; read, write, timing, rounds
"""

import contextlib
import fcntl
import ipaddress
import os
import re
import socket
import struct
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from penstock.errors import SpecError, nearest
from penstock.inputs import boolean, whole
from penstock.vswitch.attach import edge as edges
from penstock.vswitch.attach.allowance import Allowance
from penstock.vswitch.attach.edge import Edge
from penstock.vswitch.attach.open import kinds as port_kinds
from penstock.vswitch.attach.open import open_port
from penstock.vswitch.linux import netns
from penstock.vswitch.ports.base import PortHandle

SHAPE = {"rings": 4096, "queues": 1024, "bells": 8192, "buffers": 2048}
LONGEST = {True: 65600, False: 9216}  # bytes of a buffer, with and without super-frames
QUEUE_FRAMES, SEGMENTS_BYTES = 10_000, 60_000  # what fits one UDP datagram with all headers
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
GET_HARDWARE_ADDRESS, GET_TAP = 0x8927, 0x800454D2
IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 0x0002, 0x1000, 0x4000


class Device:
    """An open device and what the switch must know of it."""

    def __init__(
        self,
        port: PortHandle,
        place: netns.Place | None = None,
        mac: bytes | str | None = None,
        window: int = 0,
        secret: bytes = b"",
    ) -> None:
        self.port, self.place, self.mac, self.window, self.secret = port, place, mac, window, secret
        self.epoch = time.time_ns()
        self.table: Allowance | None = None
        self.edge: Edge | None = None
        self.driver: Any = None  # set when a switch has it

    @property
    def shape(self) -> dict[str, int]:
        """Of the region between it and the switch."""
        return {**SHAPE, "buffer_bytes": LONGEST[self.port.headers]}

    def guard(self, read_flows: Callable[[], Iterable[Mapping[str, Any]]], settings: Mapping[str, Any]) -> None:
        """Keep the kernel from losing anything at a TAP, in both directions, as long as it is open."""
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
        """From now on: while an interface is being set up, the kernel may lose announcements of its own."""
        name, place = self.port.name, self.place
        before = edges.device_losses(name, place)["tx_dropped"]
        self.port.losses = lambda: edges.device_losses(name, place)["tx_dropped"] - before

    def release(self) -> None:
        """Let senders and receivers go: nobody looks after them any longer."""
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


def checked(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """What a [[port]] says of its device; empty: it has none, applications attach to it."""
    kind = table.get("kind", "shm")
    kinds = port_kinds()
    known = ("shm", *kinds)
    if kind not in known:
        raise SpecError(f"{where}.kind = {kind!r}: must be one of {', '.join(known)}{nearest(str(kind), known)}")
    if kind == "shm":
        return {}
    found = {key: table[key] for key in kinds[kind].keys if key in table}
    for key in ("device", "netns"):
        if key in found and (not isinstance(found[key], str) or not re.fullmatch(r"[^\s/]{1,64}", found[key])):
            raise SpecError(f"{where}.{key} = {found[key]!r}: must be a name")
    for key in kinds[kind].needs:
        if key not in found:
            raise SpecError(f"{where}: a port of kind {kind} needs {key!r}")
    for key in ("super_frames", "edge"):
        if key in found:
            boolean(found[key], f"{where}.{key}")
    if "prefix" in found:
        whole(found["prefix"], f"{where}.prefix", 0, 128)
    secret_of(found.get("secret", ""), where)
    return {"kind": kind, **found}


def secret_of(text: Any, where: str) -> bytes:
    """What two peers know and nobody else."""
    if not isinstance(text, str) or not re.fullmatch(r"|[0-9a-fA-F]{32}", text):
        raise SpecError(f"{where}.secret: must be 32 hexadecimal digits, such as `openssl rand -hex 16` prints, or left out")
    return bytes.fromhex(text)


def opened(table: Mapping[str, Any], addresses: list[str], others: Iterable[str], where: str = "port") -> Device:
    """Open what `checked` has found good, for a port with these addresses; the others are those of other ports."""
    options = dict(table)
    kind = options.pop("kind")
    place = netns.named(options.pop("netns")) if "netns" in options else None
    try:
        secret = secret_of(options.pop("secret", ""), where)
        prefix = options.pop("prefix", 24)
        guarded = options.pop("edge", True) and kind == "tap"
        if kind in ("tap", "packet", "udp"):
            options["headers"] = options.pop("super_frames", True)
        elif kind == "pcap":
            options["headers"] = False
        if kind == "tap":
            options["name"] = options.pop("device")
        with netns.inside(place):
            port = open_port(kind, **options)
        try:
            device = Device(port, place, secret=secret)
            if kind == "tap":
                with netns.inside(place):
                    set_up(port.name, [a for a in addresses if prefix], prefix, others)
                device.mac = mac_of(port.fd)
                device.count_losses()
                device.table = Allowance() if guarded else None
            elif kind in ("packet", "xdp"):
                device.mac = "learn"
            elif kind == "udp":
                device.window = window_of(port.fd)
        except BaseException:
            port.close()
            raise
    except BaseException:
        if place:
            place.close()
        raise
    return device


def set_up(name: str, addresses: list[str], prefix: int, others: Iterable[str] = ()) -> None:
    """Put a TAP up with room in its queue, its addresses, and those of the other ports.

    While an Ethernet address is asked for, the kernel keeps a few packets only; so programs that begin at full speed would
    lose some.
    """
    silent = [] if any(a.version == 6 for a in _internet(addresses)) else [f"link set {name} addrgenmode none"]
    lines = [*silent, f"link set {name} txqueuelen {QUEUE_FRAMES} gso_max_size {SEGMENTS_BYTES} up"]
    for address in _internet(addresses):
        bits = f"{prefix}" if address.version == 4 else "64 nodad"
        lines.append(f"address replace {address}/{bits.split()[0]} dev {name} {' '.join(bits.split()[1:])}")
    if addresses:
        lines += [f"neighbour replace {a} dev {name} lladdr {stands_for(a)} nud permanent" for a in _internet(others)]
    netns.ip("-batch", "-", text="\n".join(lines))


def _internet(addresses: Iterable[str]) -> list[Address]:
    """Those that are no Ethernet addresses."""
    found = []
    for text in addresses:
        with contextlib.suppress(ValueError):
            found.append(ipaddress.ip_address(text))
    return found


def stands_for(address: Address) -> str:
    """The Ethernet address that driver.py gives out for an address of the switch."""
    return (b"\x02\0" + address.packed[-4:]).hex(":")


def mac_of(fd: int) -> bytes:
    """The Ethernet address of a TAP."""
    return bytes(fcntl.ioctl(fd, GET_HARDWARE_ADDRESS, bytes(40))[18:24])


def window_of(fd: int) -> int:
    """What a peer may have under way: a third of the socket's memory, for a peer that begins anew may forget as much once."""
    sock = socket.socket(fileno=fd)
    try:
        return sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 3
    finally:
        sock.detach()


def of_descriptor(fd: int, table: int | None = None) -> Device:
    """A TAP that somebody else has opened and set up: we get a descriptor of our own; `table` limits what its sockets get."""
    from penstock.vswitch.ports.tap import tap_on

    try:
        answer = fcntl.ioctl(fd, GET_TAP, bytes(40))
    except OSError:
        raise SpecError("plug: the descriptor is not a TAP") from None
    name, flags = answer[:16].rstrip(b"\0").decode("ascii", "replace"), struct.unpack_from("H", answer, 16)[0]
    if not flags & IFF_TAP or not flags & IFF_NO_PI:
        raise SpecError(f"plug: {name} is no TAP without packet information; open it with IFF_TAP | IFF_NO_PI")
    allowance = None if table is None else Allowance(table)
    os.set_blocking(fd, False)
    mac = mac_of(fd)
    device = Device(tap_on(os.dup(fd), name, bool(flags & IFF_VNET_HDR)), mac=mac)
    device.table = allowance
    return device
