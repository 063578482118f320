"""The headroom of a scheme as text: what each kind of link needs and gets, and what that leaves of each buffer."""

from collections.abc import Iterator

import numpy as np

from penstock.composition import Scheme, declared
from penstock.sim.config import HostConfig
from penstock.sim.headroom import Headroom
from penstock.topology import Topology
from penstock.units import format_rate, format_size, format_time


def lines(topo: Topology, scheme: Scheme, host: HostConfig) -> Iterator[str]:
    """The text for one scheme of a spec."""
    parts = [part for part in scheme.parts if "headroom" in declared(part).parameters]
    if not parts:
        yield f"{scheme.name}: no part of it has headroom"
    for part in parts:
        found = Headroom(topo, scheme.values(part), host.mtu + host.header)
        yield f"{scheme.name}: headroom of {part}"
        yield from _priorities(found)
        yield from _links(topo, found)
        yield from _switches(topo, found)


def _priorities(found: Headroom) -> Iterator[str]:
    for i in range(found.priorities):
        what = "lossless" if found.is_lossless(i) else "dropped beyond its share, no headroom"
        name = f"priority {i}" if found.priorities > 1 else "all priorities"
        yield f"  {name}: {what}; {found.text_of_threshold(i)}"


def _links(topo: Topology, found: Headroom) -> Iterator[str]:
    """A line for each kind of link: its rate and delay, what can arrive after a pause, and the headroom."""
    links = topo.links
    kinds, place, count = np.unique(
        np.column_stack([links["ps_per_byte"], links["delay_ps"]]), axis=0, return_index=True, return_counts=True
    )
    for (ps_per_byte, delay_ps), i, n in zip(kinds.tolist(), place, count):
        needed, given = int(found.needed[i]), int(found.of_priority[i])
        short = f": {format_size(needed - given)} too little, packets may be lost" if given < needed else ""
        yield (
            f"  {n} links of {format_rate(8 * 10**12 // ps_per_byte)}, {format_time(delay_ps)}: {format_size(needed)} may arrive "
            f"after a pause, headroom {format_size(given)} for each lossless priority{short}"
        )


def _switches(topo: Topology, found: Headroom) -> Iterator[str]:
    """A line for each kind of switch: its buffer, the headroom and reserve of all its ports, and what is left to share."""
    needs = found.needs[topo.hosts :]
    kinds, place, count = np.unique(np.column_stack([topo.buffer_bytes, needs]), axis=0, return_index=True, return_counts=True)
    for (size, need), i, n in zip(kinds.tolist(), place, count):
        which = topo.names[topo.hosts + int(i)] + (f" and {n - 1} more" if n > 1 else "")
        if not size:
            yield f"  {which}: no limit to the buffer, nothing is paused"
            continue
        left = f"{format_size(size - need)} to share" if size >= need else f"{format_size(need - size)} more than there is"
        yield f"  {which}: headroom and reserve {format_size(need)} of {format_size(size)}, {left}"
