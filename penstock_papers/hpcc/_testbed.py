"""The testbeds of HPCC (SIGCOMM 2019): networks of sections 2.3 and 5.1, and what section 5.1 leaves open of its own.

Section 5.1: "one Agg switch and four ToRs [...] connected via four 100Gbps links.  There are 32 servers in total and each server
has two 25Gbps NICs.  16 servers are connected to ToR1 and ToR2 via two uplinks, and the other 16 servers are connected to ToR3
and ToR4."  As it is drawn, a server is one host with two ports, and a ToR has one link to the Agg: its 16 ports of 25 Gbit/s are
four times that.  A flow leaves a server by one of its ports, as with RDMA, and reaches the other one by either of its ToRs.
Section 2.3's PoD, "230 servers (each has two 25Gbps uplinks), 16 ToR switches and 8 Agg switches connected by 100Gbps links", is
drawn alike; 230 is no multiple of its eight pairs of ToRs: here a pair has 29 servers, 232 in all.

Delays give section 5.1's base RTTs, 5.4 us within a rack and 8.5 us across, for a packet of 1000 B.  Buffers are not published;
they have the simulations' 32 MiB, "derived from real device configurations".

What is not known of figure 10 is which links its "average link loads" are of, and which ports its CDF of "queue lengths at
switches" counts.  READINGS are the candidates, written down before any of them was run with the networks of this file; DRAWN is
the drawing's, and figure 10 shows it until one is chosen by DCQCN's 95th percentile of the queue at 50 % load:

* ends: a server is one host with two ports, or each of its two NICs is an end of its own, as a flow between two addresses is;
  then it crosses the Agg more often, also between the ToRs of one pair
* links: one of each ToR to the Agg; four, as many as nothing oversubscribes, if "four" is of each ToR (four switches here)
* load: the mean of the two tiers' average loads, servers' links and uplinks; that of the servers' links, as in the authors'
  generator.  With one link of each ToR the latter needs more than all of it at 50 %, and is no candidate
* ports: all egress ports of switches, or those between switches
"""

from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

DELAYS = {"rate": "25Gbps", "uplink_rate": "100Gbps", "delay": "1.17us", "uplink_delay": "0.73us", "buffer": "32MiB"}
SERVERS, PER_PAIR, PORTS = 32, 16, 2
RACK: dict[str, Any] = {"kind": "star", **{key: DELAYS[key] for key in ("rate", "delay", "buffer")}}


def _pairs(servers: int, per_pair: int, spines: int) -> dict[str, Any]:
    """Servers with a port at each of the two ToRs of a pair."""
    shape = {"servers": servers, "gpus": 1, "segment": per_pair, "ports": PORTS, "spines": spines}
    return {"kind": "rails", **shape, **DELAYS}


POD = _pairs(232, 29, 8)


Ends = Literal["servers", "NICs"]
Load = Literal["tiers", "hosts"]
Ports = Literal["all", "between"]
ENDS: tuple[Ends, ...] = ("servers", "NICs")
LOADS: tuple[Load, ...] = ("tiers", "hosts")
COUNTED: tuple[Ports, ...] = ("all", "between")


@dataclass(frozen=True)
class Reading:
    """One reading of the testbed of figure 10; the fields are those of the list above."""

    ends: Ends = "servers"
    links: int = 1
    load: Load = "tiers"
    ports: Ports = "all"

    @property
    def topology(self) -> dict[str, Any]:
        """[topology]."""
        if self.ends == "servers":
            return _pairs(SERVERS, PER_PAIR, self.links)
        return {"kind": "leaf_spine", "hosts": PORTS * SERVERS, "tors": 4, "spines": self.links, **DELAYS}

    @property
    def uplinks(self) -> float:
        """Average load of the ToRs' uplinks over that of the servers' links."""
        crossing = PER_PAIR / (SERVERS - 1) if self.ends == "servers" else 3 * PER_PAIR / (PORTS * SERVERS - 1)
        return crossing * PER_PAIR * 25 / (self.links * 100)

    def of_hosts(self, load: float) -> float:
        """The load of the servers' links, payload only, of which the average is `load`."""
        return load if self.load == "hosts" else round(2 * load / (1 + self.uplinks), 4)

    @property
    def queue(self) -> str:
        """What the panels of its queues begin with."""
        return "queue" if self.ports == "all" else "between queue"


def _candidates() -> dict[str, Reading]:
    made = (Reading(*each) for each in product(ENDS, (1, 4), LOADS, COUNTED))
    kept = [one for one in made if 0.5 * one.uplinks < 1 or one.load == "tiers"]
    return {f"{one.ends}, {one.links} link{'s' * (one.links > 1)}, {one.load}, {one.ports} ports": one for one in kept}


READINGS = _candidates()
DRAWN = Reading()
TESTBED = DRAWN.topology
