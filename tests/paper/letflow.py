"""LetFlow (Vanini et al., NSDI 2017): a switch's flowlet table, with the time of a flow's last packet instead of an age bit.

A packet whose entry is valid takes the port stored there. Otherwise it takes one of the available ports, drawn at random, which
is stored. An entry is valid until no packet has come for the timeout.
"""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Entry:
    port: int | None = None  # None: not valid
    last: int = 0


@dataclass
class Switch:
    """`entry_of`: the entry of a flow's hash; `draw`: the next random number of the switch.  All times in ps."""

    gap: int
    entry_of: Callable[[int], int]
    draw: Callable[[], int]
    table: dict[int, Entry] = field(default_factory=dict)
    flowlets: int = 0

    def port_of(self, now, flow_hash, ports):
        """The port of a packet that may leave by several."""
        entry = self.table.setdefault(self.entry_of(flow_hash), Entry())
        if entry.port is not None and now - entry.last > self.gap:
            entry.port = None
        if entry.port not in ports:
            entry.port = ports[self.draw() % len(ports)]
            self.flowlets += 1
        entry.last = now
        return entry.port
