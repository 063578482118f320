"""What starting a message of a collective takes before its first byte: software and hardware of a GPU and its NIC.

SimAI adds this to each message that it sends, by algorithm, protocol of NCCL, and whether the two GPUs are in one server
(docs/configuration/send-lat-analysis.md of aliyun/SimAI): a coarse form of the latencies in NCCL's tuning.cc.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from penstock_net.errors import SpecError, nearest
from penstock_net.inputs import known_keys, time_ps
from penstock_net.topology.scale_up import Servers
from penstock_net.workload.algorithms import IN_NETWORK, TWO_LEVEL

PROTOCOLS = ("ll", "ll128", "simple")
TABLE = {  # ns by protocol, 0: NCCL has no such; within a server, between servers
    "tree": ((7400, 15250, 12400), (11800, 22500, 22400)),
    "ring": ((7200, 15900, 11800), (9300, 18000, 22400)),
    "nvls": ((0, 0, 25000), (0, 0, 18000)),
    "nvls_tree": ((0, 0, 25000), (0, 0, 20900)),
    "pat": ((0, 0, 12000), (0, 0, 22000)),
}
OTHERWISE = 6000  # ns, of what is not in the table
ALIKE = {TWO_LEVEL: "ring", IN_NETWORK: "nvls"}  # by algorithm: that of the table that it is made of
PLACES = ("scale_up", "network")
EXAMPLE = '"simple", "6us", or {scale_up = "3us", network = "9us"}'


class Latency(NamedTuple):
    """Of a message within a server, and of others, ps, by algorithm; "": of those that are not listed."""

    scale_up: dict[str, int]
    network: dict[str, int]

    def of(self, algorithm: str, src: np.ndarray, dst: np.ndarray, servers: Servers | None) -> np.ndarray | int:
        """The latency of each message, ps."""
        outside = self.network.get(algorithm, self.network[""])
        if servers is None:
            return outside
        return np.where(servers.within(src, dst), self.scale_up.get(algorithm, self.scale_up[""]), outside)


def latency_of(given: Any, servers: Servers | None) -> Latency:
    """What `latency` says: nothing, a protocol, a time of every message, or one of those within servers and one of the others.

    SpecError: it is none of these, or there are no servers.
    """
    if given is None:
        return Latency({"": 0}, {"": 0})
    if isinstance(given, Mapping):
        known_keys(given, PLACES, "latency")
        if servers is None:
            rule = "tells messages within servers from others, and there are no servers"
            raise SpecError(rule, path="latency", value=dict(given), remedy='give one time, such as latency = "6us"')
        inside, outside = (time_ps(given.get(place, "0s"), f"latency.{place}") for place in PLACES)
        return Latency({"": inside}, {"": outside})
    if isinstance(given, str) and given.isalnum() and not given[0].isdecimal():
        if given not in PROTOCOLS:
            rule = f"must be a time or a protocol, one of {', '.join(PROTOCOLS)}"
            raise SpecError(rule, path="latency", value=given, remedy=nearest(given, PROTOCOLS) or f"write {EXAMPLE}")
        return _of_protocol(PROTOCOLS.index(given))
    every = time_ps(given, "latency")
    return Latency({"": every}, {"": every})


def _of_protocol(number: int) -> Latency:
    inside, outside = (
        {name: 1000 * (columns[place][number] or OTHERWISE) for name, columns in TABLE.items()} for place in range(2)
    )
    for times in (inside, outside):
        times.update({name: times[like] for name, like in ALIKE.items()} | {"": 1000 * OTHERWISE})
    return Latency(inside, outside)
