"""What a network is made of, and what it carries at most: the first questions of who pays for it."""

from collections import Counter

import numpy as np

from penstock_net.topology.graph import Topology
from penstock_net.units import PS_PER_S, format_rate


def inventory(topo: Topology) -> list[str]:
    """Lines of text: switches with their ports, cables, and the bisection where there is a simple answer."""
    lines = [f"switches      {', '.join(_switches(topo)) or 'none'}"]
    fabric = len(topo.core_links)
    far = int((topo.label[topo.core_links] & 1).sum()) if topo.group.any() else 0
    between = f" ({fabric - far} within groups, {far} between them)" if far else ""
    within = "" if topo.servers is None else f", {len(topo.servers.links)} within servers"
    lines.append(f"cables        {len(topo.nic_links)} of hosts, {fabric} between switches{between}{within}")
    if bisection := bisection_bps(topo):
        lines.append(f"bisection     {format_rate(bisection)} between the hosts of {_halves(topo)}, each way")
    return lines


def bisection_bps(topo: Topology) -> float:
    """What the hosts of one half of a network can send to those of the other half at once, bit/s; 0: not known.

    Known where ToRs are alike and of an even number, links lead from each tier to the next one only, and pods are even:
    half of what the tier with the least capacity has.  In a dragonfly halves are of groups, in a torus of its longest rows.
    """
    if topo.kind in ("dragonfly", "torus"):
        return _cut(topo)
    links = topo.links if topo.servers is None else np.delete(topo.links, topo.servers.links)
    low, high = np.sort((topo.tier[links["a"]], topo.tier[links["b"]]), axis=0)
    tors = topo.hosts + np.flatnonzero(topo.tier[topo.hosts :] == 1)
    rates = 8 * PS_PER_S / links["ps_per_byte"]
    of_tor = [np.bincount(links[end], rates, topo.nodes)[tors] for end in ("a", "b")]
    alike = len(tors) > 1 and len(tors) % 2 == 0 and np.ptp(sum(of_tor)) == 0
    pods = {"fat_tree": 2, "clos": topo.params.get("pods", 1)}.get(topo.kind, 1)
    if not alike or (high - low != 1).any() or topo.tier.max() > (2 if pods % 2 else 3):
        return 0.0
    return min(rates[low == tier].sum() for tier in range(topo.tier.max())) / 2


def _layers(topo: Topology) -> tuple[np.ndarray, int, str]:
    """Of a dragonfly or a torus: the layer of each switch, how many there are, and what they are."""
    if topo.kind == "dragonfly":
        return topo.group, int(topo.group.max()) + 1, "groups"
    sizes = topo.params["dims"]
    return np.indices(sizes).reshape(len(sizes), -1)[sizes.index(max(sizes))], max(sizes), "layers"


def _cut(topo: Topology) -> float:
    """Of the links between the halves, and no more than the hosts of the smaller one have."""
    place, count, _ = _layers(topo)
    links = topo.links[topo.core_links]
    ends = [place[links[end] - topo.hosts] < count // 2 for end in ("a", "b")]
    between = (8 * PS_PER_S / links["ps_per_byte"])[ends[0] != ends[1]].sum()
    return float(min(between, topo.host_bps[place[topo.host_switches - topo.hosts] < count // 2].sum()))


def _halves(topo: Topology) -> str:
    """What the bisection is between."""
    if topo.kind not in ("dragonfly", "torus"):
        return "half of the ToRs and the others"
    _, count, what = _layers(topo)
    return f"{count // 2} of {count} {what} and the others"


def _switches(topo: Topology) -> list[str]:
    """ "8 ToR of 24 ports" for each tier and number of ports."""
    kinds = Counter(zip(topo.tier[topo.hosts :].tolist(), topo.port_count[topo.hosts :].tolist()))
    return [f"{count} {topo.tier_names[tier]} of {ports} ports" for (tier, ports), count in sorted(kinds.items())]
