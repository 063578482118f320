"""The soak, for a short while; `python tests/vswitch/soak.py --seconds 3600` runs it for as long as one likes."""

import random

import pytest
import soak
import soak_faults
from test_lab import FORBIDDEN

pytestmark = pytest.mark.skipif(bool(FORBIDDEN), reason="; ".join(FORBIDDEN))


def test_honest_traffic_beside_faults():
    seed = random.randrange(10**6)
    print(f"{seed=}")
    done, text = soak.run(seed, steps=200)
    print(text)
    assert set(done.begun) == set(soak_faults.FAULTS), "each fault has been there"
    assert done.datagrams.received > 1000 and done.frames.received > 1000 and done.streams.complete > 10


def test_streams_to_another_switch_over_a_bad_network():
    """They go on when the network is good again and when the other switch is back; the other traffic is not affected."""
    seed = random.randrange(10**6)
    print(f"{seed=}")
    done, text = soak.run(seed, steps=60, overlay=True, names=list(soak_faults.OF_TWO))
    print(text)
    assert set(done.begun) == set(soak_faults.OF_TWO) and done.far_streams[0].complete > 1
