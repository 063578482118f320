"""Whether a network is a tree of tiers where a host's number says where it is: fat trees, leaf-spine networks, stars, any Clos.

The hosts behind a switch are consecutive, equally many behind each of its ports 0, 1, ...; all other ports lead up. Whatever port
is taken upwards, the switches above have the same hosts behind them, tier by tier. So a switch goes down if the destination is
behind it, by the one port that leads there, else up by any port; and that is all there is to shortest paths. Found by looking at
the links, not at how the network was made.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock_net.scratch import parts


@dataclass(frozen=True)
class Structure:
    """Hosts and switches by number of the node.

    below, span  int64[nodes]: the hosts behind a switch are below .. below + span - 1; of a host itself
    unit         int64[nodes]: hosts behind each of its lower ports; 1 at hosts
    ports        int64[nodes]: how many ports there are
    tier         int64[nodes]: 0 host, 1 switch with hosts, ...
    parent       int64[nodes]: one of the nodes above; -1: none
    kinds        (ps per byte, delay in ps) of the links from each tier upwards, if those of a tier are alike; else None
    regular      switches of a tier have equally many ports up
    """

    below: np.ndarray
    span: np.ndarray
    unit: np.ndarray
    ports: np.ndarray
    tier: np.ndarray
    parent: np.ndarray
    kinds: list[tuple[int, int]] | None
    regular: bool

    @property
    def tiers(self) -> int:
        """Tiers of switches."""
        return int(self.tier.max())

    def meeting_tiers(self, src: np.ndarray, dst: np.ndarray) -> np.ndarray:
        """The tier at which paths between two hosts turn."""
        found = np.full(len(src), self.tiers)
        node = self.parent[src]
        for tier in range(1, self.tiers):
            here = (found == self.tiers) & (dst >= self.below[node]) & (dst < self.below[node] + self.span[node])
            found[here] = tier
            node = np.where(self.parent[node] < 0, node, self.parent[node])
        return found

    @property
    def farthest(self) -> int:
        """The highest tier at which a path turns: one with a switch that has several lower ports."""
        return int(self.tier[self.span > self.unit].max(initial=1))

    def base_rtt_ps(self, data: int, ack: int) -> int | None:
        """A frame of `data` bytes to the farthest host and one of `ack` bytes back, ps; None: links of a tier differ."""
        if self.kinds is None:
            return None
        return int(2 * sum((data + ack) * rate + 2 * delay for rate, delay in self.kinds[: self.farthest]))

    def expected_bytes(self, links: np.ndarray, src: np.ndarray, dst: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """float64[links, 2]: bytes that flows put on each link between switches, see routes.expected_bytes; if `regular`."""
        out = np.zeros((len(links), 2))
        downwards = self.tier[links["a"]] > self.tier[links["b"]]  # from a to b
        low = np.where(downwards, links["b"], links["a"]).astype(np.int64)
        high = np.where(downwards, links["a"], links["b"]).astype(np.int64)
        up = self.ports - self.span // self.unit
        for ends, upwards in ((src, True), (dst, False)):  # what a switch gets from above came by all links from there alike
            sums = np.zeros(len(self.tier) * (self.tiers + 1))
            for part in parts(src, dst, sizes):
                place = self.parent[ends[part]] * (self.tiers + 1) + self.meeting_tiers(src[part], dst[part])
                sums += np.bincount(place, weights=sizes[part], minlength=len(sums))
            held = sums.reshape(len(self.tier), -1)
            for tier in range(1, self.tiers):
                edges = np.flatnonzero(self.tier[low] == tier)
                share = held[low[edges], tier + 1 :] / up[low[edges], None]
                np.add.at(held[:, tier + 1 :], high[edges], share)
                out[edges, (downwards[edges] == upwards).astype(int)] = share.sum(axis=1)
        return out


def structure_of(hosts: int, switches: int, links: np.ndarray, tier: np.ndarray) -> Structure | None:
    """The structure of a network; None: it has none."""
    nodes, tier = hosts + switches, tier.astype(np.int64)
    tier[hosts:] += (tier[hosts:] == 0).any()  # virtual switches are of tier 0, like hosts
    if (tier[:hosts] != 0).any() or (tier[hosts:] < 1).any():
        return None
    low = np.where(tier[links["a"]] < tier[links["b"]], links["a"], links["b"]).astype(np.int64)
    high = np.where(low == links["a"], links["b"], links["a"]).astype(np.int64)
    port = np.where(high == links["a"], links["port_a"], links["port_b"]).astype(np.int64)
    if (tier[high] != tier[low] + 1).any():
        return None
    ports = np.bincount(np.concatenate((low, high)), minlength=nodes)
    below, span, unit = np.arange(nodes), np.ones(nodes, dtype=np.int64), np.ones(nodes, dtype=np.int64)
    order = np.lexsort((port, high))
    low, high, port, links = low[order], high[order], port[order], links[order]
    for level in range(1, int(tier.max()) + 1):
        if not _join(np.flatnonzero(tier == level), np.flatnonzero(tier[high] == level), (low, high, port), (below, span, unit)):
            return None
    parent = np.full(nodes, -1, dtype=np.int64)
    parent[low] = high
    if not _alike_above(hosts, low, high, tier, parent, below, span):
        return None
    kinds = [np.unique(links[["ps_per_byte", "delay_ps"]][tier[low] == level]).tolist() for level in range(int(tier.max()))]
    up = ports - span // unit
    return Structure(
        below,
        span,
        unit,
        ports,
        tier,
        parent,
        [kind[0] for kind in kinds] if all(len(kind) == 1 for kind in kinds) else None,
        all(len(np.unique(up[tier == level])) == 1 for level in range(1, int(tier.max()) + 1)),
    )


def _join(
    members: np.ndarray,
    edges: np.ndarray,
    ends: tuple[np.ndarray, np.ndarray, np.ndarray],
    found: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> bool:
    """Find the hosts behind the switches `members` of a tier; whether they are as a structure has them."""
    (low, high, port), (below, span, unit) = (column[edges] for column in ends), found
    first = np.searchsorted(high, members)
    count = np.diff(np.append(first, len(high)))
    if not len(members) or (count == 0).any() or (high[first] != members).any():
        return False
    below[members], unit[members] = below[low[first]], span[low[first]]
    span[members] = unit[members] * count
    place = np.arange(len(high)) - np.repeat(first, count)
    in_order = (port == place) & (span[low] == unit[high]) & (below[low] == below[high] + place * unit[high])
    return bool(in_order.all())


def _alike_above(
    hosts: int, low: np.ndarray, high: np.ndarray, tier: np.ndarray, parent: np.ndarray, below: np.ndarray, span: np.ndarray
) -> bool:
    """Whether all nodes above a node have the same hosts behind them, tier by tier, and the highest ones have all hosts."""
    if (span[parent < 0] != hosts).any():
        return False
    above = np.full(len(tier), -1, dtype=np.int64)  # a number of what is above a node: the same for the same intervals
    for level in range(int(tier.max()) - 1, -1, -1):
        edges = np.flatnonzero(tier[low] == level)
        what = np.stack((below[high[edges]], span[high[edges]], above[high[edges]]), axis=1)
        _, number = np.unique(what, axis=0, return_inverse=True)
        above[low[edges]] = number.ravel()
        if (above[low[edges]] != number.ravel()).any():
            return False
    return True
