"""Frames that lie, from programs at ports: too short, with lengths that contradict them, of others' addresses, to the link.

Each may come at most once, unchanged, to the port that has its destination, if it is one that may pass; else it is counted.
Nothing else may be different for it.
"""

import random
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock_net.vswitch.simulation.frames import MACS, SENDER, SIX, packed
from penstock_net.vswitch.simulation.laws import MS
from penstock_net.vswitch.simulation.step import Step

if TYPE_CHECKING:
    from penstock_net.vswitch.simulation.machine import Machine

IPV4, IPV6, ARP, VLAN, PAUSE = (kind.to_bytes(2, "big") for kind in (0x0800, 0x86DD, 0x0806, 0x8100, 0x8808))
UDP, TCP, ICMP = 17, 6, 1
QUEUE = 2 * SIX  # of an application, for them
ETHERNET, SHORTEST_OF_KERNEL = 14, 14  # bytes: a shorter frame no kernel takes
NOBODY = "203.0.113.7"
STATIONS = (b"\x01\x80\xc2\0\0\0", b"\x01\x80\xc2\0\0\x01", b"\x01\x80\xc2\0\0\x0e", b"\xff" * 6, b"\x33\x33\0\0\0\1")
GROUP_MACS = (b"\xff" * 6, b"\x01\0\x5e\0\0\1", bytes(6))
REFUSED, PASSES, COMES_BACK = "refused", "passes", "comes back"
DRAWN = 0.15  # of the runs have some
Draw = random.Random


class Lie(NamedTuple):
    """A frame, and the number of the port to which it may come."""

    data: bytes
    to: int | None


def udp(draw: Draw, source: str, target: str, **other: int) -> bytes:
    """What follows the Ethernet addresses of a frame by UDP, but for what is `other`."""
    content = b"lie" + draw.randbytes(draw.randrange(9, 120))
    length = other.get("length", 28 + len(content))
    first, protocol = other.get("first", 0x45), other.get("protocol", UDP)
    ip = struct.pack("!BBHHHBBH", first, 0, length, 0, other.get("fragment", 0), 64, protocol, 0)
    ports = struct.pack("!HHHH", 4000 + draw.randrange(9), 4000, other.get("udp", 8 + len(content)), 0)
    return IPV4 + ip + packed(source) + packed(target) + ports + content


def six(draw: Draw, length: int) -> bytes:
    """The same of one by IPv6, whose header says that so many bytes follow."""
    addresses = bytes(12) + draw.randbytes(4) + bytes(12) + draw.randbytes(4)
    return IPV6 + struct.pack("!IHBB", 6 << 28, length, UDP, 64) + addresses + draw.randbytes(40)


def request(draw: Draw, source: str, target: str, operation: int) -> bytes:
    """One of ARP: that `source` is at another Ethernet address, and asks for that of `target`."""
    header = struct.pack("!HHBBH", 1, 0x0800, 6, 4, operation)
    return ARP + header + b"\6" + draw.randbytes(5) + packed(source) + bytes(6) + packed(target)


# By kind: what becomes of such a frame, and the frame from an address to another one.
KINDS: dict[str, tuple[str, Callable[[Draw, str, str], bytes]]] = {
    "runt": (REFUSED, lambda draw, a, b: (MACS + udp(draw, a, b))[: draw.randrange(1, ETHERNET)]),
    "cut short": (REFUSED, lambda draw, a, b: (MACS + udp(draw, a, b))[: draw.randrange(ETHERNET, 54)]),
    "header too long": (REFUSED, lambda draw, a, b: MACS + udp(draw, a, b, length=30, first=0x4F)),
    "header too short": (REFUSED, lambda draw, a, b: MACS + udp(draw, a, b, first=0x40 + draw.randrange(5))),
    "too long for it": (REFUSED, lambda draw, a, b: MACS + udp(draw, a, b, length=draw.randrange(200, 1 << 16))),
    "less than a header": (REFUSED, lambda draw, a, b: MACS + udp(draw, a, b, length=draw.randrange(20))),
    "no room for UDP": (REFUSED, lambda draw, a, b: MACS + udp(draw, a, b, length=20 + draw.randrange(8))),
    "no room for TCP": (REFUSED, lambda draw, a, b: MACS + udp(draw, a, b, length=20 + draw.randrange(20), protocol=TCP)),
    "another version": (REFUSED, lambda draw, a, b: MACS + udp(draw, a, b, first=0x65)),
    "IPv6, too long for it": (REFUSED, lambda draw, a, b: MACS + six(draw, draw.randrange(41, 1 << 16))),
    "IPv6 to nobody": (REFUSED, lambda draw, a, b: MACS + six(draw, 40)),
    "of nobody": (REFUSED, lambda draw, a, b: MACS + udp(draw, NOBODY, b)),
    "of its receiver": (REFUSED, lambda draw, a, b: MACS + udp(draw, b, b)),
    "to itself": (COMES_BACK, lambda draw, a, b: MACS + udp(draw, a, a)),
    "to nobody": (REFUSED, lambda draw, a, b: MACS + udp(draw, a, NOBODY)),
    "to the link": (REFUSED, lambda draw, a, b: draw.choice(STATIONS) + SENDER + PAUSE + draw.randbytes(46)),
    "to all": (REFUSED, lambda draw, a, b: b"\xff" * 6 + SENDER + udp(draw, a, "255.255.255.255")),
    "noise": (REFUSED, lambda draw, a, b: MACS + draw.randbytes(draw.randrange(1, 90))),
    "tagged": (REFUSED, lambda draw, a, b: MACS + VLAN + b"\0\7" + draw.randbytes(2)),
    "ARP": (REFUSED, lambda draw, a, b: b"\xff" * 6 + SENDER + request(draw, b, a, draw.choice((1, 2, 9)))),
    "ARP, cut short": (REFUSED, lambda draw, a, b: (b"\xff" * 6 + SENDER + request(draw, a, b, 1))[: draw.randrange(16, 42)]),
    "wrong length of UDP": (PASSES, lambda draw, a, b: MACS + udp(draw, a, b, udp=draw.randrange(1 << 16))),
    "padded": (PASSES, lambda draw, a, b: MACS + udp(draw, a, b) + draw.randbytes(18)),
    "a fragment": (PASSES, lambda draw, a, b: MACS + udp(draw, a, b, fragment=0x2000 + draw.randrange(1, 9))),
    "ICMP": (PASSES, lambda draw, a, b: MACS + udp(draw, a, b, protocol=ICMP)),
    "of a group's Ethernet address": (PASSES, lambda draw, a, b: MACS[:6] + draw.choice(GROUP_MACS) + udp(draw, a, b)),
}


def lie(machine: "Machine", name: str, kind: str, target: str, seed: int) -> None:
    """A program at a port sends one."""
    draw = random.Random(f"{kind} {seed}")
    becomes, made = KINDS[kind]
    addresses = machine.present(name, target)
    if addresses is None or ":" in addresses[0]:
        return
    data = made(draw, *addresses)
    at, there = machine.layout.number(name), machine.layout.number(target)
    to = {REFUSED: None, COMES_BACK: at, PASSES: there}[becomes]
    if app := machine.apps.get(name):
        app.wanted.append((target, Lie(data, to), False))
        app.told()
        return
    link = machine.link(name)
    if link is None or not link.up or not (link.tap or link.cable) or len(data) < SHORTEST_OF_KERNEL:
        return
    counts = data[12:14] != ARP
    machine.record.lied(data, at, to, counts)
    if link.cable:
        machine.unheard += counts and not link.sockets
        link.receive(data)
    else:
        link.transmit(data)


DO: dict[str, Callable[..., None]] = {"lie": lie}


def draw_steps(seed: int, until: int, ports: Sequence[str]) -> list[Step]:
    """Those of a run, from a generator of their own."""
    draw = random.Random(f"lies of {seed}")
    found: list[Step] = []
    for _ in range(draw.randrange(1, 8) if draw.random() < DRAWN else 0):
        at, name = draw.randrange(max(1, until)), draw.choice(ports)
        for _ in range(draw.choice((1, 3, 12))):
            target = draw.choice([each for each in ports if each != name])
            numbers: tuple[Any, ...] = (draw.choice(tuple(KINDS)), target, draw.randrange(1 << 30))
            found.append(Step(at + draw.randrange(2 * MS), "lie", name, numbers))
    return found
