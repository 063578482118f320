"""A picture of a run's network: where its nodes are drawn, from the frames `ports` and `nodes`.

Tiers are rows, hosts at the bottom. A network with links within a tier has no such rows: its switches are placed by a
spring layout, and hosts around their switch.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl

from penstock_net.results.links import Links, node_names
from penstock_net.results.run import Run

ROW, HOST_ROW, HOST, SWITCH, MARGIN = 150, 80, 8, 46, 30  # heights of rows, and widths per node, in units of the picture
FLAT = 0.11  # height of a row, of the picture's width, at least
SPRING = 400  # switches at most, for a spring layout; more are put on a circle


@dataclass(frozen=True)
class Network:
    """Nodes with their places, and egresses.

    x, y   of every node, float64; y downwards
    host   bool per node
    links  of the run
    """

    names: list[str]
    host: np.ndarray
    x: np.ndarray
    y: np.ndarray
    links: Links

    @property
    def size(self) -> tuple[float, float]:
        """Width and height."""
        return float(self.x.max()) + MARGIN, float(self.y.max()) + MARGIN

    def text(self) -> str:
        """What the picture shows, in a sentence."""
        hosts = int(self.host.sum())
        return f"Network of {hosts:,} hosts, {len(self.names) - hosts:,} switches and {len(self.links.far_end) // 2:,} links"


def network(run: Run) -> Network | None:
    """The network of a run; None: the run recorded no ports."""
    ends = Links.of(run.ports)
    if not ends.far_end:
        return None
    names = node_names(run)
    links = np.array(sorted({(node, peer) for (node, _), (peer, _) in ends.far_end.items()}))
    host = np.bincount(links[:, 0], minlength=len(names)) == 1
    tier = np.where(host, 0, 1)
    if "nodes" in run.frames:
        given = run.frame("nodes").sort("node").select(pl.col("tier").fill_null(1))["tier"].to_numpy().astype(np.int64)
        host = given == 0
        host[links[(given[links[:, 1]] == 0) & (links[:, 1] < links[:, 0]), 0]] = False  # a switch in a server: hosts come first
        tier = np.where(host, 0, given + (given[~host] == 0).any())  # such switches have a row of their own
    inner = links[~host[links].any(axis=1)]
    rows = not (tier[inner[:, 0]] == tier[inner[:, 1]]).any()
    x, y = _rows(links, host, tier) if rows else _springs(links, inner, host)
    return Network(names, host, x + MARGIN, y + MARGIN, ends)


def _rows(links: np.ndarray, host: np.ndarray, tier: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Hosts in the order of their switches, the lowest switches above their hosts, the others spread over the width."""
    count, levels = len(host), np.unique(tier)
    lowest = int(tier[~host].min()) if (~host).any() else 0
    widest = max([0, *(int((tier == level).sum()) for level in levels if level != 0)])
    groups = int((tier == lowest).sum())
    width = max(500.0, HOST * (int(host.sum()) + groups), SWITCH * widest)
    x, y = np.zeros(count), np.zeros(count)
    above = np.arange(count)
    above[links[host[links[:, 0]], 0]] = links[host[links[:, 0]], 1]  # the switch of each host
    hosts = np.flatnonzero(host)
    hosts = hosts[np.lexsort((hosts, above[hosts]))]
    group = np.cumsum(np.diff(above[hosts], prepend=above[hosts[0]]) != 0) if len(hosts) else hosts
    place = np.arange(len(hosts)) + group  # a free place between the hosts of two switches
    x[hosts] = (place + 0.5) * width / (place[-1] + 1) if len(hosts) else 0
    for level in levels[levels > 0]:
        nodes = np.flatnonzero(tier == level)
        x[nodes] = (np.arange(len(nodes)) + 0.5) * width / len(nodes)
    if lowest and groups > 1:
        for own in filter(len, np.split(hosts, np.flatnonzero(np.diff(above[hosts])) + 1)):
            switch = above[own[0]]
            x[switch] = x[own].mean() if tier[switch] == lowest else x[switch]
    top = int(levels.max())
    row = max(ROW, FLAT * width)
    y[:] = (top - tier) * row
    y[host] = (top - lowest) * row + HOST_ROW * row / ROW
    return x, y


def _springs(links: np.ndarray, inner: np.ndarray, host: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    import networkx

    switches = np.flatnonzero(~host)
    graph = networkx.Graph()
    graph.add_nodes_from(switches.tolist())
    graph.add_edges_from(inner.tolist())
    layout = networkx.spring_layout(graph, seed=1, iterations=300) if len(switches) <= SPRING else networkx.circular_layout(graph)
    side = max(360.0, 90 * len(switches) ** 0.5)
    at = np.zeros((len(host), 2))
    at[switches] = [layout[node] for node in switches.tolist()]
    at[switches] -= at[switches].mean(axis=0)
    at[switches] = at[switches] @ np.linalg.svd(at[switches])[2].T  # the longest direction lies flat
    low, high = at[switches].min(axis=0), at[switches].max(axis=0)
    at[switches] = (at[switches] - (low + high) / 2) / max(float((high - low).max()), 1e-9) * side
    down = links[host[links[:, 1]]]  # sorted
    hosts_of, first = down[:, 1], np.searchsorted(down[:, 0], np.arange(len(host) + 1))
    for switch in switches:
        own = hosts_of[first[switch] : first[switch + 1]]
        outward = np.arctan2(*at[switch][::-1]) if at[switch].any() else -np.pi / 2
        spread = min(np.pi * 1.2, 0.35 * len(own))
        angles = outward + (np.arange(len(own)) - (len(own) - 1) / 2) * spread / max(1, len(own) - 1)
        radius = max(55.0, HOST * len(own) / max(spread, 0.1))
        at[own] = at[switch] + radius * np.column_stack([np.cos(angles), np.sin(angles)])
    at -= at.min(axis=0)
    return at[:, 0], at[:, 1]
