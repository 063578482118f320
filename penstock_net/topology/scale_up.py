"""Servers whose hosts (GPUs) are joined by a switch of their own, such as an NVSwitch, beside their links to the network."""

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, eq=False)
class Servers:
    """Which host is in which server.

    server  int64[hosts]: the number of its server, in the order of their first hosts; -1: it is in none
    place   int64[hosts]: which of the hosts of its server it is, its rail; -1: it is in none
    links   the links within servers, as indices
    """

    server: np.ndarray
    place: np.ndarray
    links: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @property
    def count(self) -> int:
        """Servers."""
        return int(self.server.max(initial=-1)) + 1

    @classmethod
    def even(cls, hosts: int, each: int) -> "Servers":
        """So many hosts, `each` to a server, in the order of their numbers."""
        return cls(np.arange(hosts) // each, np.arange(hosts) % each)

    def of(self, hosts: np.ndarray) -> "Servers":
        """The same of ranks that are on these hosts, by rank."""
        return Servers(self.server[hosts], self.place[hosts], self.links)

    def within(self, src: np.ndarray, dst: np.ndarray) -> np.ndarray:
        """Whether two are in one server."""
        return (self.server[src] >= 0) & (self.server[src] == self.server[dst])

    def relays(self, src: np.ndarray, dst: np.ndarray) -> np.ndarray:
        """Who is in the server of src, in the place that dst has in another one; -1: nobody, or the two are in one server.

        So a message goes from src to dst within the server first, then along the rail (NCCL's PXN).
        """
        at = np.full((max(self.count, 1), int(self.place.max(initial=0)) + 1), -1, dtype=np.int64)
        known = np.flatnonzero(self.server >= 0)
        at[self.server[known], self.place[known]] = known
        apart = (self.server[src] >= 0) & (self.server[dst] >= 0) & (self.server[src] != self.server[dst])
        return np.where(apart, at[self.server[src], self.place[dst]], -1)


def servers_of(hosts: int, nodes: int, tier: np.ndarray, links: np.ndarray) -> Servers | None:
    """The servers of a network: hosts joined by switches of tier 0 all of whose links are to hosts; None: there are none.

    A virtual switch has a link to the network, and joins no servers.
    """
    low, high = np.sort((links["a"], links["b"]), axis=0).astype(np.int64)
    inner = np.zeros(nodes, dtype=bool)
    inner[hosts:] = tier[hosts:] == 0
    inner[low[low >= hosts]] = inner[high[low >= hosts]] = False
    within = np.flatnonzero(inner[high])
    if not len(within):
        return None
    label = np.arange(nodes)  # the lowest node of what a node is joined to
    while True:
        found = label.copy()
        for one, other in ((low, high), (high, low)):
            np.minimum.at(found, one[within], label[other[within]])
        if np.array_equal(found, label):
            break
        label = found
    member = np.unique(low[within])
    server, place = np.full((2, hosts), -1, dtype=np.int64)
    first, number = np.unique(label[member], return_inverse=True)
    server[member] = number
    order = np.argsort(number, kind="stable")
    begin = np.searchsorted(number[order], np.arange(len(first)))
    place[member[order]] = np.arange(len(member)) - begin[number[order]]
    return Servers(server, place, within)
