"""Completion times beside those of the HPCC authors' simulator (commit 9f4be2a) at 100 Gbit/s, by its clock of whole nanoseconds.

The flows of test_beside_ns3.py on the same 16 hosts and one spine, 1 us, 32 MiB; constants as its run.py writes them, with
ACK_HIGH_PRIO 0. Times are the sender's, to the last ACK. docs/agreement.md has all quantiles.
"""

import pytest
from test_beside_ns3 import HOSTS, PER_RACK, flows

from penstock_net.composition import parse
from penstock_net.sim.config import HostConfig, Measure
from penstock_net.sim.simulate import simulate
from penstock_net.topology import leaf_spine
from penstock_net.workload import flow_list

SCHEMES = {  # preset, parameters, bytes of an ACK
    "dctcp": ("dctcp:ns3", {}, 60),
    "dcqcn": ("dcqcn:ns3", {"window": True}, 60),
    "timely": ("timely:ns3_win", {}, 60),
}
ALONE = [(0, 2, 1000), (0, 2, 20_000), (0, 2, 123_456), (0, 2, 1_000_000), (0, 1, 1000), (0, 1, 1_000_000)]
THEIRS_ALONE = {  # ns
    "dctcp": [8348, 9925, 18514, 91265, 4174, 87091],
    "dcqcn": [8348, 9925, 18514, 91265, 4174, 87091],
    "timely": [8352, 9948, 18640, 92268, 4176, 88092],
}
THEIRS = {("dctcp", 1): 386.002, ("dctcp", 2): 444.837, ("dcqcn", 1): 379.941, ("dcqcn", 2): 446.713}  # mean, us


def times(scheme, given, link_clock):
    """Completion times in ns, by the sender's clock."""
    preset, parameters, ack = SCHEMES[scheme]
    topo = leaf_spine(hosts=HOSTS, tors=HOSTS // PER_RACK, spines=1, rate="100Gbps", delay="1us", buffer="32MiB")
    host = HostConfig(mtu=1000, header=48, ack=ack, ack_priority="data")
    quiet = Measure(sample="0s", flows=False)
    run = simulate(topo, given(topo), parse(preset, parameters), host=host, measure=quiet, link_clock=link_clock)
    return (run.flows["acked_ns"] - run.flows["start_ns"]).to_numpy()


def one_by_one(topo):
    return flow_list(topo, [(src, dst, size, f"{1 + i}ms") for i, (src, dst, size) in enumerate(ALONE)])


@pytest.mark.parametrize("scheme", THEIRS_ALONE)
def test_lone_flows_are_as_long_to_the_nanosecond(scheme):
    assert times(scheme, one_by_one, "ns").tolist() == THEIRS_ALONE[scheme]
    assert times(scheme, one_by_one, "ps")[3] > THEIRS_ALONE[scheme][3] + 400


@pytest.mark.parametrize("scheme", ["dctcp", "dcqcn"])
def test_means_agree_to_a_per_cent(scheme):
    """Of two lists of flows; a tenth of that is for the order of what arrives together. An exact clock is 4 to 6 % off."""

    def ratio(seed, link_clock):
        return times(scheme, lambda topo: flows(topo, seed), link_clock).mean() / 1000 / THEIRS[scheme, seed]

    assert (ratio(1, "ns") + ratio(2, "ns")) / 2 == pytest.approx(1, abs=0.011)
    assert ratio(2, "ps") > 1.03
