"""NDP on a permutation, with and without oversubscription, beside `htsim_ndp` of uet-htsim (commit 40ccb05): the same flows.

docs/agreement.md says how theirs was made.  In both 128 hosts send 2 MB each to another one through 8 ToRs, whose 16, 4 or 2
uplinks of 100 Gbit/s are shared by 16 hosts; packets of 9000 B, queues of 8 packets, 23 packets in the first window, and paths
in random permutations.  With 2 uplinks packets have 4150 B and the window 30 packets.
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


WITH_2 = (2.99, 1314, 1495)  # sent again, for each packet; median and 99th percentile, us; nothing is dropped there


def with_2_uplinks(path_penalty):
    topo = leaf_spine(hosts=128, tors=8, spines=2, rate="100Gbps", uplink_rate="100Gbps", delay="1us", buffer="20MB")
    flows = flow_list(topo, [(src, dst, 490 * 4086) for src, dst in enumerate(receivers())])
    scheme = parse("ndp", {"iw": 30, "path_penalty": path_penalty})
    return simulate(topo, flows, scheme, host=HostConfig(mtu=4086, header=64, ack=64), measure=Measure(sample="0s", flows=False))


def test_permutation_with_2_uplinks():
    """There packets take permutations of all paths (`-strat perm`), so the path penalty is off here."""
    run = with_2_uplinks(path_penalty=False)
    again, median, tail = WITH_2
    times = run.flows["fct_ns"].to_numpy() / 1000
    assert np.median(times) == pytest.approx(median, rel=0.03)
    assert np.percentile(times, 99) == pytest.approx(tail, rel=0.03)
    assert run.summary["retransmissions"] / (128 * 490) == pytest.approx(again, rel=0.03)
    assert run.summary["drops"] == 0 and run.ports["returns"].sum() == 0


def test_the_path_penalty_is_what_costs_headers_with_2_uplinks():
    """Who leaves one of two paths out sends twice as much over the other, whose headers then find no room."""
    run = with_2_uplinks(path_penalty=True)
    assert run.summary["drops"] > 100 and np.percentile(run.flows["fct_ns"].to_numpy() / 1000, 99) > 3 * WITH_2[2]
