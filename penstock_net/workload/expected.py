"""What a simulation of flows will cost, before it runs: packet-hops, and from them processor time and memory, roughly."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from penstock_net import scratch
from penstock_net.units import format_size, format_time

if TYPE_CHECKING:
    from penstock_net.topology.graph import Topology
    from penstock_net.workload.flows import Flows

SPEED = (20e6, 4e6)  # packet-hops per second of processor time: docs/performance.md and docs/scale.md
START = 100e6  # B, of Python and the libraries
SMALL = 60e3, 60e6  # B per host of a small network, and of all its hosts at most
HOST = 8e3  # B per host of any network
FLOW = 180  # B per flow of the workload, where all results are in memory
LARGE = 250e6  # B of flows and results at most, where they are on disk


@dataclass(frozen=True)
class Expected:
    """The cost of a run, or of several one after another.

    flows          that send something
    packet_hops    of data packets and their acknowledgements, by equal-cost shortest paths; without control frames and what
                   is sent again
    memory_bytes   at the peak, roughly; schemes with tables, samples of many switches and recorded packets take more
    """

    flows: int
    packet_hops: float
    memory_bytes: float

    @classmethod
    def of(cls, topo: "Topology", flows: "Flows", mtu: int) -> "Expected":
        """That of these flows in a network."""
        packets, sent = np.zeros(len(flows), dtype=np.int64), 0
        for part in scratch.parts(*flows.columns):
            real = flows.src[part] != flows.dst[part]
            packets[part] = np.where(real, -(-flows.bytes[part] // mtu), 0)
            sent += int(np.count_nonzero(real))
        between = float(topo.expected_bytes(flows.src, flows.dst, packets).sum())
        hops = 2 * (2 * int(packets.sum()) + between)  # the links of both hosts; there and back
        results = FLOW * len(flows)
        memory = START + min(SMALL[1], SMALL[0] * topo.hosts) + HOST * topo.hosts + min(LARGE, results)
        return cls(sent, hops, memory)

    def __add__(self, other: "Expected") -> "Expected":
        """Both, one after the other."""
        memory = max(self.memory_bytes, other.memory_bytes)
        return Expected(self.flows + other.flows, self.packet_hops + other.packet_hops, memory)

    def __str__(self) -> str:
        fast, slow = (format_time(float(f"{max(self.packet_hops, 1) / speed:.2g}") * 10**12) for speed in SPEED)
        memory = format_size(float(f"{self.memory_bytes:.2g}"))
        hops = f"{self.packet_hops / 1e6:.3g} M" if self.packet_hops >= 1e5 else f"{self.packet_hops:,.0f}"
        return f"{self.flows:,} flows, {hops} packet-hops, {fast} to {slow} of processor time, {memory} of memory or more"
