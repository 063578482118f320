"""Which host is which rank of a collective or of a job."""

from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.inputs import one_of, whole
from penstock.workload.flows import host_numbers
from penstock.workload.streams import stream

if TYPE_CHECKING:
    from penstock.topology import Topology

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
    if placement == "packed":
        return chosen
    number = len(chosen)
    pool = chosen if hasattr(hosts, "__len__") else np.arange(topo.hosts, dtype=np.int32)
    if placement == "random":
        return stream(seed, index, "placement").permutation(pool)[:number]
    rack = topo.host_switches[pool]
    by_rack = np.argsort(rack, kind="stable")
    racks, size = np.unique(rack, return_counts=True)
    place = np.arange(len(pool)) - np.repeat(np.cumsum(size) - size, size)  # within its rack
    return pool[by_rack][np.lexsort((np.repeat(np.arange(len(racks)), size), place))][:number]
