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
from collections.abc import Iterator, Mapping
from typing import Any

from penstock.errors import SpecError, nearest
from penstock.inputs import boolean, whole
from penstock.vswitch import edge, netns
from penstock.vswitch.kernel import Port
from penstock.vswitch.ports import open_port

OPTIONS = {
    "tap": ("device", "netns", "prefix", "super_frames"),
    "packet": ("device", "netns", "super_frames"),
    "xdp": ("device", "netns", "queue"),
    "udp": ("local", "peer", "secret", "netns", "super_frames"),
    "pcap": ("read", "write", "timing", "rounds"),
}
SHAPE = {"rings": 4096, "queues": 1024, "bells": 8192, "buffers": 512}
LONGEST = {True: 65600, False: 9216}        # bytes of a buffer, with and without super-frames
QUEUE_FRAMES, SEGMENTS_BYTES = 10_000, 60_000      # what fits one UDP datagram with all headers
GET_HARDWARE_ADDRESS, GET_TAP = 0x8927, 0x800454D2
IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 0x0002, 0x1000, 0x4000


class Device:
    """An open device and what the switch must know of it."""

    def __init__(self, port: Port, place: netns.Place | None = None, mac: bytes | str | None = None, window: int = 0,
                 secret: bytes = b"") -> None:
        self.port, self.place, self.mac, self.window, self.secret = port, place, mac, window, secret
        self.epoch = time.time_ns()

    @property
    def shape(self) -> dict[str, int]:
        """Of the region between it and the switch."""
        return {**SHAPE, "buffer_bytes": LONGEST[self.port.headers]}

    def close(self) -> None:
        """Give everything back."""
        self.port.close()
        if self.place:
            self.place.close()


def checked(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """What a [[port]] says of its device; empty: it has none, applications attach to it."""
    kind = table.get("kind", "shm")
    known = ("shm", *OPTIONS)
    if kind not in known:
        raise SpecError(f"{where}.kind = {kind!r}: must be one of {', '.join(known)}{nearest(str(kind), known)}")
    if kind == "shm":
        return {}
    found = {key: table[key] for key in OPTIONS[kind] if key in table}
    for key in ("device", "netns"):
        if key in found and (not isinstance(found[key], str) or not re.fullmatch(r"[^\s/]{1,64}", found[key])):
            raise SpecError(f"{where}.{key} = {found[key]!r}: must be a name")
    for key in {"tap": ("device",), "packet": ("device",), "xdp": ("device",), "udp": ("local", "peer")}.get(kind, ()):
        if key not in found:
            raise SpecError(f"{where}: a port of kind {kind} needs {key!r}")
    if "super_frames" in found:
        boolean(found["super_frames"], f"{where}.super_frames")
    if "prefix" in found:
        whole(found["prefix"], f"{where}.prefix", 0, 128)
    secret_of(found.get("secret", ""), where)
    return {"kind": kind, **found}


def secret_of(text: Any, where: str) -> bytes:
    """What two peers know and nobody else."""
    if not isinstance(text, str) or not re.fullmatch(r"|[0-9a-fA-F]{32}", text):
        raise SpecError(f"{where}.secret: must be 32 hexadecimal digits, such as `openssl rand -hex 16` prints, or left out")
    return bytes.fromhex(text)


@contextlib.contextmanager
def _within(place: netns.Place | None) -> Iterator[None]:
    with place.inside() if place else contextlib.nullcontext():
        yield


def opened(table: Mapping[str, Any], addresses: list[str], where: str = "port") -> Device:
    """Open what `checked` has found good."""
    options = dict(table)
    kind = options.pop("kind")
    place = netns.named(options.pop("netns")) if "netns" in options else None
    try:
        secret = secret_of(options.pop("secret", ""), where)
        prefix = options.pop("prefix", 24)
        if kind in ("tap", "packet", "udp"):
            options["headers"] = options.pop("super_frames", True)
        elif kind == "pcap":
            options["headers"] = False
        if kind == "tap":
            options["name"] = options.pop("device")
        with _within(place):
            port = open_port(kind, **options)
        try:
            device = Device(port, place, secret=secret)
            if kind == "tap":
                with _within(place):
                    set_up(port.name, [a for a in addresses if prefix], prefix)
                device.mac = mac_of(port.fd)
                name = port.name
                port.losses = lambda: edge.device_losses(name, place)["tx_dropped"]
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


def set_up(name: str, addresses: list[str], prefix: int) -> None:
    """Put a TAP up, with its addresses, and with room in its queue."""
    netns.ip("link", "set", name, "txqueuelen", str(QUEUE_FRAMES), "gso_max_size", str(SEGMENTS_BYTES), "up")
    for text in addresses:
        with contextlib.suppress(ValueError):      # an Ethernet address
            address = ipaddress.ip_address(text)
            bits = prefix if address.version == 4 else 64
            netns.ip("address", "replace", f"{address}/{bits}", "dev", name, *(["nodad"] if address.version == 6 else []))


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


def of_descriptor(fd: int) -> Device:
    """A TAP that somebody else has opened and set up: the descriptor becomes ours."""
    from penstock.vswitch.port_tap import tap_on

    try:
        answer = fcntl.ioctl(fd, GET_TAP, bytes(40))
    except OSError:
        raise SpecError("plug: the descriptor is not a TAP") from None
    name, flags = answer[:16].rstrip(b"\0").decode("ascii", "replace"), struct.unpack_from("H", answer, 16)[0]
    if not flags & IFF_TAP or not flags & IFF_NO_PI:
        raise SpecError(f"plug: {name} is no TAP without packet information; open it with IFF_TAP | IFF_NO_PI")
    os.set_blocking(fd, False)
    port = tap_on(fd, name, bool(flags & IFF_VNET_HDR))
    return Device(port, mac=mac_of(fd))
