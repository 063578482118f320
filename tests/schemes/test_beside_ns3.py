"""Completion times beside those of the Floodgate authors' simulator (NASA-NJU/Floodgate-NS3, commit 5071599): the same flows.

docs/differences.md, the section "HPCC beside the authors' simulator", says what is the same and what is not.
"""

import math
import random

import numpy as np
import pytest

from penstock_net.composition import parse
from penstock_net.sim.config import HostConfig
from penstock_net.sim.simulate import simulate
from penstock_net.topology import leaf_spine
from penstock_net.workload import flow_list

HOSTS, PER_RACK, SIZE, LOAD = 16, 2, 1_000_000, 0.6
ACK = {"hpcc": 112, "dcqcn": 84}  # wire bytes there
THEIRS = {  # scheme, seed: median and mean of the completion times, us
    ("hpcc", 1): (507.3, 916.1),
    ("hpcc", 2): (746.8, 1259.7),
    ("dcqcn", 1): (316.7, 387.1),
    ("dcqcn", 2): (363.7, 455.0),
}


def flows(topo, seed):
    """1000 flows between racks at 60 % of the links to the spine; by random() alone, which is the same in every Python."""
    drawn, start, listed = random.Random(seed), 0.0, []
    per_second = HOSTS // PER_RACK * 100e9 * LOAD / 8 / SIZE
    for _ in range(1000):
        start -= math.log(1 - drawn.random()) / per_second
        src = int(drawn.random() * HOSTS)
        other = int(drawn.random() * (HOSTS - PER_RACK))
        dst = (src // PER_RACK * PER_RACK + PER_RACK + other) % HOSTS
        listed.append((src, dst, f"{SIZE}B", f"{round(start * 1e9)}ns"))
    return flow_list(topo, listed)


def ratios(preset, seed, **parameters):
    """Median and mean of the completion times over theirs; one spine, so that paths are the same."""
    scheme = preset.partition(":")[0]
    topo = leaf_spine(hosts=HOSTS, tors=HOSTS // PER_RACK, spines=1, rate="100Gbps", delay="1us", buffer="20MB")
    host = HostConfig(mtu=1460, header=72, ack=ACK[scheme], ack_priority="data")
    run = simulate(topo, flows(topo, seed), parse(preset, parameters), host=host)
    times = run.flows["fct_ns"].to_numpy() / 1000
    median, mean = THEIRS[scheme, seed]
    return np.median(times) / median, times.mean() / mean


@pytest.mark.parametrize("seed", [1, 2])
def test_hpcc_as_the_floodgate_authors_ran_it(seed):
    """To 5 %, and 3 % for the order of what arrives together: two standard deviations of the median over our seeds."""
    assert ratios("hpcc:floodgate", seed) == pytest.approx((1.0, 1.0), abs=0.08)


@pytest.mark.parametrize("seed", [1, 2])
def test_one_reference_window_is_another_scheme(seed):
    median, mean = ratios("hpcc", seed)
    assert median > 1.3 and mean > 1.15


@pytest.mark.parametrize("seed", [1, 2])
def test_dcqcn_with_a_window(seed):
    assert ratios("dcqcn:config", seed, window=True, alpha=0.25) == pytest.approx((1.0, 1.0), abs=0.05)
