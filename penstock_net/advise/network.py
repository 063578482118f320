"""The network that is simulated for a switch: a host at each of its ports, or leaves like it and the spines above them."""

from __future__ import annotations

from dataclasses import dataclass

from penstock_net.advise.site import Ports, Switch
from penstock_net.errors import SpecError

HOSTS = 128  # of a leaf-spine, unless the job says how many leaves there are


@dataclass(frozen=True)
class Fabric:
    """Leaves like the switch and their spines: which ports lead to spines, by rate in Gbit/s and metres of cable (None: any);
    how many leaves and spines there are (0: leaves for HOSTS hosts, a spine for each uplink)."""

    gbps: int | None = None
    metres: int | None = None
    leaves: int = 0
    spines: int = 0


@dataclass(frozen=True)
class Network:
    """A network as text with a line for each link.

    servers  kinds of ports to hosts, of a leaf; none, if the network is one switch
    leaves, spines, uplinks  their numbers, uplinks of one leaf; 0, if it is one switch
    """

    text: str
    hosts: int
    servers: tuple[Ports, ...] = ()
    leaves: int = 0
    spines: int = 0
    uplinks: int = 0
    uplink_gbps: int = 0


def star(switch: Switch) -> Network:
    """One switch: host i, h0 and on, is at its port i."""
    links = [
        f"h{number} switch {kind.gbps}Gbps {kind.metres}m"
        for number, kind in enumerate(kind for kind in switch.ports for _ in kind.names)
    ]
    return Network("\n".join(links) + "\n", switch.count)


def leaf_spine(switch: Switch, fabric: Fabric, share: int = 1) -> Network:
    """Leaves leaf0 and on, each like the switch, with hosts h0 and on; uplink u of each goes to spine u mod spines.

    share  only each of so many spines is there.  SpecError: no port, or every port, is an uplink; too many spines.
    """
    up = tuple(kind for kind in switch.ports if _is_uplink(kind, fabric))
    down = tuple(kind for kind in switch.ports if kind not in up)
    if not up or not down:
        which = ", ".join(kind.text for kind in switch.ports)
        rule = "no port is such an uplink" if not up else "every port is such an uplink"
        raise SpecError(rule, path="fabric.uplinks", remedy=f"the ports are {which}")
    uplinks = [kind for kind in up for _ in kind.names]
    places = [kind for kind in down for _ in kind.names]
    leaves, spines = fabric.leaves or max(HOSTS // len(places), 2), fabric.spines or len(uplinks)
    if spines > len(uplinks):
        rule = f"must be at most the {len(uplinks)} uplinks of a leaf"
        raise SpecError(rule, path="fabric.spines", value=spines, remedy="each leaf has one to each spine at least")
    links = []
    for leaf in range(leaves):
        for number, kind in enumerate(places):
            links.append(f"h{leaf * len(places) + number} leaf{leaf} {kind.gbps}Gbps {kind.metres}m")
    there = max(spines // share, 1)
    for leaf in range(leaves):
        for number, kind in enumerate(uplinks):
            if number % spines < there:
                links.append(f"leaf{leaf} spine{number % spines} {kind.gbps}Gbps {kind.metres}m")
    text = "\n".join(links) + "\n"
    return Network(text, leaves * len(places), down, leaves, there, len(uplinks), max(kind.gbps for kind in up))


def _is_uplink(kind: Ports, fabric: Fabric) -> bool:
    return fabric.gbps in (None, kind.gbps) and fabric.metres in (None, kind.metres)
