"""The hash functions against published outputs of splitmix64, and that they spread.

The outputs are those of S. Vigna's splitmix64.c (https://prng.di.unimi.it/splitmix64.c) for the states 0 and 1234567; the
latter are also the known answers of Rosetta Code's task "Pseudo-random numbers/Splitmix64".  From a state s, output k
is mix64(s + k * GOLDEN).  So flow_hash(k, seed) is output k from the state seed << 32, cut to 31 bits, node_seed(n, seed) is
output n + 2^40, and choice() scales the upper 31 bits of the first output from the state hash ^ seed.  What follows from
an output that is not published (other seeds) was computed once with that C program.

tests/laws/test_paths.py compares the compiled core with these functions.
"""

import numpy as np
import pytest

from penstock_net.hashing import choice, flow_hash, mix64, node_seed

GOLDEN = 0x9E3779B97F4A7C15
OUTPUTS = {  # state -> the first outputs of splitmix64
    0: [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC, 0x1B39896A51A8749B],
    1234567: [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821],
}
FLOW_HASHES = {  # seed -> of flows 1, 2, 3
    0: [0x7B1DCDAF, 0x21B965F4, 0x0009454F],  # OUTPUTS[0] without their upper 33 bits
    1: [595722552, 1465302333, 557984469],
    2: [2077013298, 1362196348, 1693992728],
    (1 << 32) + 2: [2077013298, 1362196348, 1693992728],  # a seed has 32 bits
}
NODE_SEEDS = {  # seed -> of nodes 0, 1, 2
    0: [1824779127, 378377074, 1286440904],
    1: [1853897624, 647340372, 1409279940],
    2**32 - 1: [2129154870, 1685645816, 603136896],
}
WAYS = [1, 2, 3, 8, 31, 1000]
CHOICES = {  # hash ^ seed -> among so many WAYS: parts of 2^31 times n, rounded down
    0: [0, 1, 2, 7, 27, 883],  # 0xE220A839 >> 1 = 0.88331 of 2^31
    1234567: [0, 0, 1, 2, 10, 350],  # 6457827717110365317 >> 33 = 0.35008 of 2^31
    ~1234567: [0, 1, 1, 4, 16, 526],  # of an ACK
}


@pytest.mark.parametrize("state", OUTPUTS)
def test_mix64_is_the_finaliser_of_splitmix64(state):
    assert [int(mix64((state + k * GOLDEN) % 2**64)) for k in range(1, 6)] == OUTPUTS[state]


@pytest.mark.parametrize("seed", FLOW_HASHES)
def test_flow_hash(seed):
    assert [int(flow_hash(number, seed)) for number in (1, 2, 3)] == FLOW_HASHES[seed]


@pytest.mark.parametrize("dtype", [np.int16, np.int32, np.uint32, np.int64])
def test_hashes_of_any_integers(dtype):
    for seed, known in FLOW_HASHES.items():
        assert flow_hash(np.array([1, 2, 3], dtype), seed).tolist() == known
    for seed, known in NODE_SEEDS.items():
        assert node_seed(np.array([0, 1, 2], dtype), seed).tolist() == known


@pytest.mark.parametrize("seed", NODE_SEEDS)
def test_node_seed(seed):
    assert [int(node_seed(node, seed)) for node in (0, 1, 2)] == NODE_SEEDS[seed]


@pytest.mark.parametrize("state", CHOICES)
@pytest.mark.parametrize("seed", [0, 595722552, 2**31 - 1])
def test_choice(state, seed):
    hash_ = state ^ seed
    assert choice(np.full(len(WAYS), hash_), np.full(len(WAYS), seed), np.array(WAYS)).tolist() == CHOICES[state]


def test_types():
    hashes = flow_hash(np.arange(3), 1)
    assert hashes.dtype == np.int32
    assert node_seed(np.arange(3), 1).dtype == np.int32
    assert choice(hashes, node_seed(np.arange(3), 1), 8).dtype == np.int64


@pytest.mark.parametrize("n", [2, 3, 8, 31])
def test_flows_spread_evenly_and_switches_disagree(n):
    hashes = flow_hash(np.arange(40_000), 1)
    first, second = (choice(hashes, node_seed(np.full(len(hashes), node), 1), n) for node in (128, 129))
    share = len(hashes) / n
    for taken in (first, second):
        assert np.abs(np.bincount(taken, minlength=n) - share).max() < 6 * share**0.5
    assert abs((first == second).mean() - 1 / n) < 0.05
