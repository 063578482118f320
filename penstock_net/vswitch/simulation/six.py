"""IPv6 in a run: ports have an address of each version, frames are of either, and programs ask who has an address.

A flow of IPv6 has a queue of its own at applications, SIX beyond that of IPv4.
"""

import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock_net.vswitch.simulation.frames import SENDER, packed
from penstock_net.vswitch.simulation.laws import MS
from penstock_net.vswitch.simulation.layout import Layout, first_of_six
from penstock_net.vswitch.simulation.step import Step

if TYPE_CHECKING:
    from penstock_net.vswitch.simulation.machine import Machine

DRAWN = 0.25  # of the runs have addresses of IPv6
TYPES = {4: b"\x08\x06", 6: b"\x86\xdd"}
ARP_BYTES, ADVERTISEMENT_BYTES, SOLICITATION, ADVERTISEMENT = 42, 86, 135, 136


def is_drawn(seed: int) -> bool:
    return random.Random(f"IPv6 of {seed}").random() < DRAWN


def is_overlay_drawn(seed: int) -> bool:
    """Whether two switches have an overlay between addresses of IPv6."""
    return random.Random(f"overlay of IPv6 of {seed}").random() < DRAWN


def with_six(layout: Layout) -> Layout:
    """The same ports with an address of IPv6 each."""

    def address(number: int, which: int) -> str:
        return f"fd00:{which}::{number + 1:x}"

    tables = {}
    for name, table in layout.tables.items():
        own = [address(layout.numbers[name], 0)] if name not in layout.links else [address(i, 0) for i in _behind(layout, name)]
        tables[name] = {**table, "addresses": [*table["addresses"], *own]}
    others = {name: [*some, address(layout.numbers[name], 1)] for name, some in layout.others.items()}
    return replace(layout, tables=tables, others=others)


def has_six(layout: Layout) -> bool:
    """Whether two ports have an address of IPv6."""
    return sum(first_of_six(table["addresses"]) is not None for table in layout.tables.values()) > 1


def _behind(layout: Layout, link: str) -> list[int]:
    """The ports behind a link to another switch."""
    return [layout.numbers[name] for name in layout.known if name not in layout.ports and name != link]


# ---- Who has an address ----


def request(version: int, mac: bytes, source: str, target: str) -> bytes:
    """The question of a program at an interface, by ARP or as a neighbour solicitation."""
    here, there = packed(source), packed(target)
    if version == 4:
        header = struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1)
        return b"\xff" * 6 + mac + TYPES[4] + header + mac + here + bytes(6) + there
    group = bytes.fromhex("ff0200000000000000000001ff") + there[13:]
    content = struct.pack("!BBHI", SOLICITATION, 0, 0, 0) + there + b"\1\1" + mac
    ip = struct.pack("!IHBB", 6 << 28, len(content), 58, 255) + here + group
    return b"\x33\x33" + group[12:] + mac + TYPES[6] + ip + content


def answer(data: bytes) -> tuple[bytes, bytes, bytes] | None:
    """Of an answer to it: who asked, the address, and the Ethernet address for it; None: it is none, or not as it should be."""
    if data[12:14] == TYPES[4] and len(data) == ARP_BYTES and data[20:22] == b"\0\2" and data[6:12] == data[22:28]:
        return data[38:42], data[28:32], data[22:28]
    if data[12:14] == TYPES[6] and len(data) == ADVERTISEMENT_BYTES and data[20] == 58 and data[54] == ADVERTISEMENT:
        words = struct.unpack("!32H", data[22:86])
        total = sum(words) + 32 + 58
        total = (total & 0xFFFF) + (total >> 16)
        if (total & 0xFFFF) + (total >> 16) == 0xFFFF and data[22:38] == data[62:78] and data[80:86] == data[6:12]:
            return data[38:54], data[62:78], data[80:86]
    return None


def ask(machine: "Machine", name: str, target: str, version: int) -> None:
    """A program at an interface asks for the Ethernet address of another port's address."""
    link = machine.link(name)
    found = machine.present(name, target, version == 6)
    if link is None or not link.up or not (link.tap or link.cable) or found is None or (":" in found[0]) != (version == 6):
        return
    data = request(version, SENDER if link.cable else link.mac, *found)
    machine.record.asked(machine.layout.number(name), machine.layout.number(target), packed(found[0]), packed(found[1]), data)
    if link.cable:
        machine.unheard += version == 6 and not link.sockets
        link.receive(data)
    else:
        link.transmit(data)


DO: dict[str, Callable[..., None]] = {"ask": ask}


# ---- Drawing ----


def draw_steps(seed: int, until: int, names: Sequence[str], sizes: Sequence[int]) -> list[Step]:
    """Frames of IPv6, and questions, of a run; from a generator of their own."""
    draw = random.Random(f"frames of IPv6 of {seed}")
    found: list[Step] = []
    at = 0
    while at < until:
        at += draw.randrange(1, 6 * MS)
        name, target = draw.sample(list(names), 2)
        if draw.random() < 0.2:
            found.append(Step(at, "ask", name, (target, draw.choice((4, 6)))))
        else:
            found.append(Step(at, "send", name, (target, draw.choice((1, 2, 10, 40)), draw.choice(sizes), True)))
    return found
