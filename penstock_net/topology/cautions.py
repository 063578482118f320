"""What of a network is possible but hardly meant, as sentences for `summary["warnings"]`."""

import re
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from penstock_net.topology.changes import LinkChange
from penstock_net.topology.graph import Topology
from penstock_net.units import PS_PER_S, format_rate, format_time

SLOWEST_BPS = 10**6
LONGEST_PS = PS_PER_S // 10


def cautions(topo: Topology) -> list[str]:
    """A rate below 1 Mbit/s, a delay above 100 ms, and a node of a file that has a host's name and a switch's links."""
    return [*_rates(topo), *_delays(topo), *_hosts_with_links(topo)]


def _rates(topo: Topology) -> Iterator[str]:
    slowest = int(np.argmax(topo.links["ps_per_byte"]))
    changes = [(change.ps_per_byte or 0, change.link) for change in topo.changes if isinstance(change, LinkChange)]
    ps_per_byte, link = max([(float(topo.links["ps_per_byte"][slowest]), slowest), *changes])
    if ps_per_byte * SLOWEST_BPS > 8 * PS_PER_S:
        rate = format_rate(Fraction(8 * PS_PER_S) / Fraction(ps_per_byte))
        yield f'the link {_name(topo, link)} has a rate of {rate}, below 1Mbps; a number without a unit is bit/s: write "100Gbps"'


def _delays(topo: Topology) -> Iterator[str]:
    link = int(np.argmax(topo.links["delay_ps"]))
    delay = int(topo.links["delay_ps"][link])
    if delay > LONGEST_PS:
        shown = format_time(delay)
        yield f'the link {_name(topo, link)} has a delay of {shown}, above 100ms; a number without a unit is seconds: write "1us"'


def _name(topo: Topology, link: int) -> str:
    return f"{topo.names[topo.links['a'][link]]} - {topo.names[topo.links['b'][link]]}"


def _hosts_with_links(topo: Topology) -> Iterator[str]:
    if topo.kind != "file" or "hosts" in topo.params:
        return
    hosts: dict[str, str] = {}
    for name in topo.names[: topo.hosts]:
        hosts.setdefault(_kind(name), name)
    alike = [i for i in range(topo.hosts, topo.nodes) if _kind(topo.names[i]) in hosts]
    if alike:
        name, links = topo.names[alike[0]], int(topo.port_count[alike[0]])
        more = f" (and {len(alike) - 1} more nodes)" if len(alike) > 1 else ""
        host = hosts[_kind(name)]
        meant = f"{name}{more} has {links} links and so is a switch, while {host} has one and is a host"
        yield f'{meant}; hosts = "NAME*" says which are'


def _kind(name: str) -> str:
    """What names of a kind have in common: "h#" of "h12"; a name without digits, or of digits only, is of its own kind."""
    stem = re.sub(r"\d+", "#", name)
    return stem if "#" in stem and stem != "#" else f"{name}!"
