"""The headroom of a scheme as text: what each kind of link needs and gets, and what that leaves of each buffer."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from penstock_net.composition import declared
from penstock_net.sim.builder import has_headroom
from penstock_net.sim.headroom import Headroom, headroom, kinds
from penstock_net.sim.settings import Settings
from penstock_net.topology import Topology
from penstock_net.units import format_size, format_time

PARTS = ("cable", "response", "frames", "cells")


def lines(settings: Settings) -> Iterator[str]:
    """The text for the scheme of a run."""
    scheme, topo = settings.scheme, settings.topo
    parts = [part for part in scheme.parts if has_headroom(declared(part))]
    if not parts:
        yield f"{scheme.name}: no part of it has headroom"
    for part in parts:
        found = headroom(settings, part)
        yield f"{scheme.name}: headroom of {part}"
        yield from _priorities(found)
        yield from _counted(found)
        if found.lossless:
            yield from _links(topo, found, _parts(settings, part, found))
        yield from _late(topo, found)
        yield from _switches(topo, found, settings.host.mtu + settings.host.header)


def _priorities(found: Headroom) -> Iterator[str]:
    for i, (alpha, reserve) in enumerate(found.thresholds):
        what = "lossless" if i in found.lossless else "dropped beyond its share, no headroom"
        name = f"priority {i}" if len(found.thresholds) > 1 else "all priorities"
        own = f"{format_size(reserve)} of its own"
        threshold = f"threshold {alpha:g} x free buffer + {own}" if alpha else f"static threshold, {own}"
        yield f"  {name}: {what}; {threshold}"


def _counted(found: Headroom) -> Iterator[str]:
    """What is counted besides the link, where it is."""
    about = found.about
    if response := about.get("response"):
        yield f"  a neighbour is silent {format_time(int(response))} after a pause has reached it"
    if cell := about.get("cell"):
        small = f"{about['small_packets']:.0%} of the bytes in the smallest packets"
        yield f"  the buffer is counted in cells of {format_size(int(cell))}, headroom for {small}"


def _parts(settings: Settings, name: str, found: Headroom) -> list[np.ndarray]:
    """What can arrive after a pause, by what it is for, as PARTS: all but the cable as the scheme says without it."""
    bytes_only = _needed(settings, name, found, "cell")
    at_once = _needed(settings, name, found, "cell", "response")
    links = settings.topo.links
    cable = np.where(at_once > 0, 2 * ((links["delay_ps"] / links["ps_per_byte"]).astype(np.int64) + 1), 0)
    return [cable, bytes_only - at_once, at_once - cable, found.needed - bytes_only]


def _needed(settings: Settings, name: str, found: Headroom, *without: str) -> np.ndarray:
    """What the scheme says of links if some of its parameters are zero."""
    if not any(found.about.get(key) for key in without):
        return found.needed
    scheme = settings.scheme
    values = {key: value for key, value in scheme.parts[name].items() if key not in without}
    plain = replace(scheme, parts={**scheme.parts, name: values})
    return headroom(replace(settings, scheme=plain), name).needed


def _links(topo: Topology, found: Headroom, parts: list[np.ndarray]) -> Iterator[str]:
    """Two lines for each kind of link: its rate and delay, what can arrive after a pause, and the headroom; what that is for."""
    for links, most, size, shares in kinds(topo, found, parts):
        short = f": {format_size(most - size)} too little, packets may be lost" if size < most else ""
        room = f"headroom {format_size(size)} for each lossless priority"
        yield f"  {links}: {format_size(most)} may arrive after a pause, {room}{short}"
        yield f"    {', '.join(f'{name} {format_size(share)}' for name, share in zip(PARTS, shares) if share)}"


def _late(topo: Topology, found: Headroom) -> Iterator[str]:
    """A line for each port of a switch whose pauses may wait behind a slow packet."""
    for i, (end, other) in enumerate((("a", "b"), ("b", "a"))):
        for link in np.flatnonzero(found.late[i]).tolist():
            node, peer = (topo.names[topo.links[e][link]] for e in (end, other))
            late = format_size(int(found.late[i, link]))
            yield f"  {node} to {peer}, slower than back: {late} more may arrive, so {node} pauses {peer} that much earlier"


def _switches(topo: Topology, found: Headroom, frame: int) -> Iterator[str]:
    """A line for each kind of switch: its buffer, the headroom and reserve of all its ports, and what is left to share."""
    columns = np.column_stack([topo.buffer_bytes, found.taken, found.shared, found.promised])
    kinds, place, count = np.unique(columns, axis=0, return_index=True, return_counts=True)
    for (size, taken, shared, promised), i, n in zip(kinds.tolist(), place, count):
        which = topo.names[topo.hosts + int(i)] + (f" and {n - 1} more" if n > 1 else "")
        if taken < 0:
            yield f"  {which}: without the scheme"
        elif not size:
            yield f"  {which}: no limit to the buffer, nothing is paused"
        else:
            spare = f", {format_size(size - taken - shared)} kept for one more packet" if size > taken + shared else ""
            left = f"{format_size(shared)} to share" if shared >= frame else f"{format_size(frame - shared)} more than there is"
            yield f"  {which}: headroom and reserve {format_size(taken)} of {format_size(size)}{spare}, {left}"
            if found.pool:
                times = f"{promised / found.pool:.3g} times the pool of {format_size(found.pool)}"
                yield f"  {which}: the headrooms of all ports together are {format_size(promised)}, {times}"
