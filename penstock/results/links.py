"""The links of a run, from its frame of ports: the other end of each, and which links follow which on the paths of packets."""

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from penstock.results.run import Run

Port = tuple[int, int]  # node, number of the egress within it


@dataclass(frozen=True)
class Links:
    """Every egress with its link; an egress whose other end was not recorded is left out.

    far_end   the egress at the other end of each egress's link
    delay_ns  of the link of each egress; 0: not known, in runs of an earlier version
    """

    far_end: dict[Port, Port]
    delay_ns: dict[Port, float]

    @classmethod
    def of(cls, ports: pl.DataFrame) -> "Links":
        """From the frame `ports`: the k-th port from a to b belongs to the k-th from b to a."""
        rows = ports.sort("node", "port").select("node", "port", "peer", "delay_ns").rows()
        between: dict[tuple[int, int], list[int]] = defaultdict(list)
        for node, port, peer, _ in rows:
            between[node, peer].append(port)
        ends = {
            (node, port): (peer, back)
            for (node, peer), own in list(between.items())
            for port, back in zip(own, between[peer, node])
        }
        return cls(ends, {(node, port): delay or 0.0 for node, port, _, delay in rows if (node, port) in ends})

    @cached_property
    def following(self) -> dict[Port, list[Port]]:
        """Of every egress: the egresses of its peer that a shortest path, with every link up, leads to over its link."""
        reached = _destinations(self.far_end)
        egresses = defaultdict(list)
        for port in sorted(self.far_end):
            egresses[port[0]].append(port)
        return {
            port: [other for other in egresses[back[0]] if other != back and (reached[port] & reached[other]).any()]
            for port, back in self.far_end.items()
        }

    @cached_property
    def preceding(self) -> dict[Port, list[Port]]:
        """Of every egress: the egresses that it follows."""
        found: dict[Port, list[Port]] = {port: [] for port in self.far_end}
        for port in sorted(self.following):
            for other in self.following[port]:
                found[other].append(port)
        return found


def node_names(run: Run) -> list[str]:
    """The name of every node, "node 7" in runs that have none."""
    if "nodes" in run.frames:
        return run.frame("nodes").sort("node")["name"].to_list()
    count = max([-1, *run.ports["node"].to_list(), *run.ports["peer"].to_list()]) + 1
    return [f"node {number}" for number in range(count)]


def _destinations(far_end: dict[Port, Port]) -> dict[Port, np.ndarray]:
    """Of every egress: to which switches with hosts its link is on a shortest path, bool[nodes]; from a host: to all."""
    links = np.array([(node, peer) for (node, _), (peer, _) in far_end.items()])
    count = int(links.max()) + 1
    host = np.bincount(links[:, 0], minlength=count) == 1
    inner = links[~host[links].any(axis=1)]
    ends = np.zeros(count, dtype=bool)
    ends[links[host[links[:, 0]], 1]] = True
    near = np.zeros((count, count), dtype=np.float32)
    near[inner[:, 0], inner[:, 1]] = 1
    hops = np.where(np.eye(count, dtype=bool), 0, count)
    reached, distance = np.eye(count, dtype=bool), 0
    while True:
        distance += 1
        new = (near @ reached > 0) & ~reached
        if not new.any():
            break
        hops[new] = distance
        reached |= new
    own = np.eye(count, dtype=bool)
    return {
        port: ends if host[port[0]] else own[port[0]] if host[peer] else ends & (hops[port[0]] == hops[peer] + 1)
        for port, (peer, _) in far_end.items()
    }
