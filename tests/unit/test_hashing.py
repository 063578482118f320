"""The hash functions against twins in plain Python integers, and that they spread."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.hashing import choice, flow_hash, mix64, node_seed

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15

numbers = st.integers(0, 2**40)
seeds = st.integers(0, 2**63 - 1)


def mix64_twin(x):
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & MASK
    return x ^ (x >> 31)


def flow_hash_twin(number, seed):
    return mix64_twin((((seed & 0xFFFFFFFF) << 32) + number * GOLDEN) & MASK) & 0x7FFFFFFF


def choice_twin(hash_, seed, n):
    return (mix64_twin((((hash_ ^ seed) & 0xFFFFFFFF) + GOLDEN) & MASK) >> 33) * n >> 31


@given(x=st.integers(0, MASK))
def test_mix64(x):
    assert int(mix64(x)) == mix64_twin(x)


def test_mix64_is_splitmix64():
    # the first outputs of splitmix64 from state 0 (the reference's increment is the golden ratio)
    assert [int(mix64((i * GOLDEN) & MASK)) for i in (1, 2)] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4]


@given(number=numbers, seed=seeds)
def test_flow_hash(number, seed):
    assert int(flow_hash(number, seed)) == flow_hash_twin(number, seed)
    assert flow_hash(np.array([number]), seed).tolist() == [flow_hash_twin(number, seed)]


@given(node=st.integers(0, 2**31 - 1), seed=seeds)
def test_node_seed(node, seed):
    assert int(node_seed(node, seed)) == flow_hash_twin(node + 2**40, seed)


@pytest.mark.parametrize("dtype", [np.int16, np.int32, np.uint32, np.int64])
def test_node_seed_of_any_integers(dtype):
    assert node_seed(np.arange(5, dtype=dtype), 7).tolist() == [flow_hash_twin(n + 2**40, 7) for n in range(5)]


@given(number=numbers, node=st.integers(0, 40_000), seed=seeds, n=st.integers(1, 2000), ack=st.booleans())
def test_choice(number, node, seed, n, ack):
    hashes, own = flow_hash(np.array([number]), seed), node_seed(np.array([node]), seed)
    taken = int(choice(~hashes if ack else hashes, own, n)[0])
    hash_ = flow_hash_twin(number, seed)
    assert taken == choice_twin(~hash_ if ack else hash_, flow_hash_twin(node + 2**40, seed), n)
    assert 0 <= taken < n


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
