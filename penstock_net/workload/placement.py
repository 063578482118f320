"""Which host is which rank of a collective or of a job."""

from typing import TYPE_CHECKING, Any

import numpy as np

from penstock_net.inputs import one_of, whole
from penstock_net.workload.flows import host_numbers
from penstock_net.workload.streams import stream

if TYPE_CHECKING:
    from penstock_net.topology import Topology

PLACEMENTS = ("packed", "strided", "random")


def placed(topo: "Topology", hosts: Any, placement: str = "packed", seed: int = 1, index: int = 0) -> np.ndarray:
    """int32[ranks]: the host of each rank.

    hosts      None: all; a number: so many of all; a list: those
    packed     in the order of their numbers, or of the list: neighbours share a rack
    strided    one rack after another: neighbours are in different racks
    random     drawn, by `seed` and the position `index` of the source
    SpecError: an unknown placement, no such host, fewer than two.
    """
    one_of(placement, "placement", PLACEMENTS)
    whole(seed, "seed", 0, 2**64 - 1)
    chosen = host_numbers(topo, hosts)
    pool = chosen if hasattr(hosts, "__len__") else np.arange(topo.hosts, dtype=np.int32)
    return in_order(pool, topo.host_switches[pool], placement, seed, index)[: len(chosen)]


def in_order(hosts: np.ndarray, racks: np.ndarray, placement: str, seed: int, index: int = 0) -> np.ndarray:
    """Hosts in the order in which a placement gives them to ranks, see `placed`; `racks`: of each host."""
    if placement == "packed":
        return hosts
    if placement == "random":
        return stream(seed, index, "placement").permutation(hosts)
    by_rack = np.argsort(racks, kind="stable")
    numbers, size = np.unique(racks, return_counts=True)
    place = np.arange(len(hosts)) - np.repeat(np.cumsum(size) - size, size)  # within its rack
    return hosts[by_rack][np.lexsort((np.repeat(np.arange(len(numbers)), size), place))]
