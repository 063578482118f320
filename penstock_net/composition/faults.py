"""What is said of a fault in a running scheme: the texts of the numbers in fabric/faults.h."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from penstock_net.composition.hooks import HOOKS
from penstock_net.composition.places import Composition
from penstock_net.errors import SchemeError
from penstock_net.pxd import PACKAGE
from penstock_net.units import format_time

TEXTS = {
    "DIVISION": "division by zero",
    "OVERFLOW": "the result needs more than the 64 bits of a whole number",
    "FIT": "{value} does not fit into {limit} bits",
    "INDEX": "index {value} is not in 0..{last}",
    "NULL": "there is no such packet, flow, port or queue: it is null; compare it with NO_PACKET, NO_FLOW, ... first",
    "FINITE": "the result is infinite or not a number",
    "WHOLE": "the number is too large for a whole number, or none",
    "SHIFT": "a shift by {value} bits; 0..63 are possible",
    "NEGATIVE": "{value} is negative; a mask has 64 bits and no sign",
    "ROOT": "a negative number, which has no root or power",
    "LOG": "a number that is not positive, which has no logarithm",
    "NO_BIT": "lowest_bit(0): no bit is set",
    "ENDLESS": "more than {limit:,} rounds of loops in one event; does this loop end?",
    "STALE": "read before it was set; the memory of packets and frames is reused, so their state is not zero at first",
    "NOT_PACKET": "my_packet of a control frame; it is for data packets and ACKs",
    "NOT_FRAME": "the packet is no control frame of this scheme",
    "SENT": "the frame was sent before, or is not from new_frame",
    "PAST": "a timer set for {value} ps ago",
    "REPEAT": "a timer set {limit:,} times for the present time, which so never ends",
    "RATE": "the rate must be at least 1 bit/s and at most infinite; a gap 0..8e12 ps per byte",
    "KIND": "{value} is no kind of control frame; give me.at.kind",
    "PAUSE_BIT": "{value} is no bit for pauses; give me.at.bit",
    "LEAST": "{value} is too small; at least {limit} is possible",
    "ROUTE": "there is no route to host {value}",
}


class Fault(NamedTuple):
    """A fault as the core recorded it: its number, line of the file, value and limit of the check, the part of the composition,
    the hook's place in HOOKS, the node (-1: none), and the simulated time in ps."""

    number: int
    line: int
    value: int
    limit: int
    part: int
    hook: int
    node: int
    time: int


@cache
def names() -> tuple[str, ...]:
    """The names of the faults in the order of their numbers."""
    text = re.search(r"enum \{.*?\};", (PACKAGE / "fabric/faults.h").read_text(), re.S)
    assert text
    return tuple(re.findall(r"FAULT_(\w+)", text[0]))


def text_of(fault: int, value: int, limit: int) -> str:
    """What a fault says; value and limit as the check recorded them."""
    name = names()[fault]
    if name == "INDEX" and limit == 0:
        return f"index {value} of an empty table (those of ports are empty at hosts)"
    return TEXTS[name].format(value=value, limit=limit, last=limit - 1)


def error_of(fault: Fault, composition: Composition, nodes: Sequence[str]) -> SchemeError:
    """A fault as an error that names file, line, hook, node and time; `nodes`: their names."""
    declared = composition.parts[fault.part].declared
    where = list(HOOKS)[fault.hook]
    if fault.node >= 0:
        where += f" at {nodes[fault.node]}, {format_time(fault.time)}"
    source = declared.source.splitlines()[fault.line - 1].strip()
    return SchemeError(
        f"{text_of(fault.number, fault.value, fault.limit)}: {source} (in {where})", place=f"{declared.path}:{fault.line}"
    )
