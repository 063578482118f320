"""The headroom of a lossless scheme, what an ingress can store after it has paused its neighbour: as the scheme has set it up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock_net.sim.builder import at_all_rates, compose, has_headroom
from penstock_net.units import bits_per_second, format_rate, format_size, format_time

if TYPE_CHECKING:
    from penstock_net.composition import Composition
    from penstock_net.sim.core.build import Simulation
    from penstock_net.sim.settings import Settings
    from penstock_net.topology import Topology


@dataclass(frozen=True)
class Headroom:
    """What a scheme has set up for the highest rates of all links.

    Arrays are by end, a and b, and link: the ingress of that end, 0 where it is none of a switch with the scheme.

    thresholds  alpha and reserve of each priority         lossless  those that pause
    needed      bytes that can arrive after a pause        given     bytes of headroom that one lossless priority has
    late        bytes that may arrive while a pause waits behind a packet, where an end sends more slowly than the other one: it
                pauses so much earlier, and no other port has less for that
    taken       by switch, bytes of headroom and reserve   shared    what is left to share; both -1 without the scheme
    pool        bytes that the headrooms of a switch may hold together, which then are no part of `taken` themselves; 0: no limit
    promised    by switch, bytes of all its headrooms
    about       what else the headroom depends on, by parameter
    """

    thresholds: list[tuple[float, int]]
    lossless: list[int]
    needed: np.ndarray
    given: np.ndarray
    late: np.ndarray
    taken: np.ndarray
    shared: np.ndarray
    pool: int
    promised: np.ndarray
    about: dict[str, float]


def headroom(settings: Settings, name: str) -> Headroom:
    """That of one part of the scheme.  SpecError: a buffer is too small for a packet."""
    composition = compose(settings)
    return headroom_in(at_all_rates(settings, composition), settings.topo, composition, name)


def headroom_in(sim: Simulation, topo: Topology, composition: Composition, name: str) -> Headroom:
    """That of one part of the scheme as a core has it, for the rates that its links have had."""
    values = next(part.values for part in composition.parts if part.name == name)
    lossless = [i for i in range(values.get("priorities", 1)) if values.get("lossless", 1) >> i & 1]
    needed, given, late = (np.zeros((2, len(topo.links)), dtype=np.int64) for _ in range(3))
    taken, promised = (np.zeros(topo.nodes, dtype=np.int64) for _ in range(2))
    pool = int(values.get("headroom_pool", 0))
    groups: list[dict[str, Any]] = []
    for end in range(2):
        nodes, ports = (topo.links[column].tolist() for column in (("a", "port_a"), ("b", "port_b"))[end])
        for link, (node, port) in enumerate(zip(nodes, ports)):
            state = sim.scheme_state(name, node, port)
            if state:
                groups = [*state["first"], *state["others"]]
                needed[end, link] = state["buffer"][0]["lossless"]
                given[end, link] = max(group["headroom_size"] for group in groups)
                late[end, link] = groups[0]["late"]
                taken[node] += sum(group["reserve"] for group in groups)
                promised[node] += sum(group["headroom_size"] for group in groups)
    taken += pool if pool else promised
    nodes = range(topo.hosts, topo.nodes)
    states = [sim.scheme_state(name, node, -1) for node in nodes]
    return Headroom(
        [(group["alpha"], group["reserve"]) for group in groups],
        lossless,
        needed,
        given,
        late,
        np.array([taken[node] if state else -1 for node, state in zip(nodes, states)]),
        np.array([state["shared_size"] if state else -1 for state in states]),
        pool,
        promised[topo.hosts :],
        {key: values[key] for key in ("response", "cell", "small_packets") if key in values},
    )


def kinds(topo: Topology, found: Headroom, parts: Sequence[np.ndarray] = ()) -> list[tuple[str, int, int, list[int]]]:
    """Each kind of link into a switch with headroom: "3 links of 100Gbps, 1us", the bytes that can arrive after a pause, and the
    headroom; of a link with two such ends the one that lacks more; and of each of `parts`, arrays by end and link, that end's."""
    end = np.where(found.given > 0, found.needed - found.given, np.iinfo(np.int64).min).argmax(axis=0)
    needed, given, *others = (column[end, np.arange(len(end))] for column in (found.needed, found.given, *parts))
    links = topo.links[given > 0]
    columns = [links["ps_per_byte"], links["delay_ps"], *(column[given > 0] for column in (needed, given, *others))]
    rows, count = np.unique(np.column_stack(columns), axis=0, return_counts=True)
    names = [f"{n} links of {format_rate(bits_per_second(row[0]))}, {format_time(int(row[1]))}" for row, n in zip(rows, count)]
    return [(name, int(row[2]), int(row[3]), [int(part) for part in row[4:]]) for name, row in zip(names, rows.tolist())]


def too_little(sim: Simulation, topo: Topology, composition: Composition) -> list[str]:
    """A warning for each kind of link whose headroom, as configured, is less than what can arrive after a pause."""
    out = []
    for name in (part.name for part in composition.parts if has_headroom(part.declared)) if not composition.lossless else ():
        for links, needed, given, _ in kinds(topo, headroom_in(sim, topo, composition, name)):
            if given < needed:
                short = f"{links}: {name}'s headroom of {format_size(given)} is {format_size(needed - given)} too little"
                out.append(f"{short}, packets may be lost after a pause (penstock explain --headroom)")
    return out
