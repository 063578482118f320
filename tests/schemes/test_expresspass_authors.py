"""`expresspass:code` beside its authors' simulator, transcribed in tests/paper/ns2_xpass.py: flows alone and together."""

import numpy as np
import pytest
from paper import ns2_xpass

from penstock_net.composition import parse
from penstock_net.sim.config import HostConfig
from penstock_net.sim.simulate import simulate
from penstock_net.topology import star
from penstock_net.workload import flow_list

HOST = HostConfig(mtu=1460, header=78)  # frames of 1538 B
EVEN = {"jitter": 0.0, "spread": 0, "host.control": 84}
SIZES = (100, 1000, 1460, 3000, 14_600, 58_400, 100_000, 146_000, 400_000, 1_460_000, 5_000_000)


def completion_times(flows, hosts, seed=1, parameters=None):
    """Of flows (src, dst, bytes, start in s), ns."""
    topo = star(hosts=hosts)
    listed = flow_list(topo, [(src, dst, size, f"{round(start * 1e12)}ps") for src, dst, size, start in flows])
    return simulate(topo, listed, parse("expresspass:code", parameters), host=HOST, seed=seed).flows["fct_ns"].to_list()


def theirs(flows, hosts, seed=1, even=False):
    made, _ = ns2_xpass.transfer(flows, hosts, seed, even=even)
    return [1e9 * (flow.finish - flow.start) for flow in made]


@pytest.mark.parametrize("size", SIZES)
def test_a_lone_flow_is_theirs(size):
    """Within 10 ns: their buckets count whole bytes, their rates whole bytes per second."""
    flow = [(1, 0, size, 0.0)]
    assert completion_times(flow, 2, parameters=EVEN) == pytest.approx(theirs(flow, 2, even=True), abs=10)


def test_two_flows_to_one_receiver_are_theirs():
    """Mean of both over five seeds within 2 %."""
    flows = [(1, 0, 1_460_000, 0.0), (2, 0, 1_460_000, 1e-6)]
    ours, expected = (np.mean([one(flows, 3, seed) for seed in range(1, 6)]) for one in (completion_times, theirs))
    assert ours == pytest.approx(expected, rel=0.02)
    assert expected > 1.7 * theirs(flows[:1], 2)[0]  # they share the link


def test_flows_that_are_stopped_too_early_are_theirs():
    """In an incast some senders ask again, with the packets that they have left: the mean over five seeds within 6 %."""
    flows = [(src, 0, 100_000, 0.0) for src in range(1, 13)]
    ours, expected = (np.mean([one(flows, 13, seed) for seed in range(1, 6)]) for one in (completion_times, theirs))
    assert ours == pytest.approx(expected, rel=0.06)
    assert sum(flow.asked > 1 for seed in range(1, 6) for flow in ns2_xpass.transfer(flows, 13, seed)[0]) > 5
