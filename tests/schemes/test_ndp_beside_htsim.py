"""NDP on a permutation, with and without oversubscription, beside `htsim_ndp` of uet-htsim (commit 40ccb05): the same flows.

docs/agreement.md says how theirs was made.  In both 128 hosts send 2 MB each to another one through 8 ToRs, whose 16 or 4
uplinks of 100 Gbit/s are shared by 16 hosts; packets of 9000 B, queues of 8 packets, 23 packets in the first window, and paths
in random permutations.
"""

import random

import numpy as np
import pytest

from penstock_net.composition import parse
from penstock_net.sim.config import HostConfig, Measure
from penstock_net.sim.simulate import simulate
from penstock_net.topology import leaf_spine
from penstock_net.workload import flow_list

PACKETS = 128 * 223  # as many have 2 MB there, in payloads of 9000 B
THEIRS = {16: (92, 177.8, 182.1), 4: (63_947, 624.0, 712.0)}  # sent again; median, 99th percentile, us: means of three seeds


def receivers():
    """By random() alone, which is the same in every Python; nobody sends to itself."""
    draw, order = random.Random(5).random, list(range(128))
    for last in range(127, 0, -1):
        other = int(draw() * last)
        order[last], order[other] = order[other], order[last]
    return order


@pytest.mark.parametrize("uplinks", THEIRS)
def test_permutation(uplinks):
    """With 4 uplinks three of four packets find no place: each receiver pulls at its link's rate, as the paper's rules say."""
    topo = leaf_spine(hosts=128, tors=8, spines=uplinks, rate="100Gbps", uplink_rate="100Gbps", delay="1us", buffer="20MB")
    flows = flow_list(topo, [(src, dst, 2_000_000) for src, dst in enumerate(receivers())])
    host = HostConfig(mtu=8936, header=64)
    run = simulate(topo, flows, parse("ndp", {"iw": 23}), host=host, measure=Measure(sample="0s", flows=False))
    again, median, tail = THEIRS[uplinks]
    times = run.flows["fct_ns"].to_numpy() / 1000
    assert np.median(times) == pytest.approx(median, rel=0.04)
    assert np.percentile(times, 99) == pytest.approx(tail, rel=0.05)
    assert run.summary["retransmissions"] / PACKETS == pytest.approx(again / PACKETS, rel=0.1, abs=0.02)
