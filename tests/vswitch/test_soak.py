"""The soak, for a short while; `python tests/vswitch/soak.py --seconds 3600` runs it for as long as one likes."""

import random

import pytest
import soak
from test_lab import FORBIDDEN


@pytest.mark.skipif(bool(FORBIDDEN), reason="; ".join(FORBIDDEN))
def test_honest_traffic_beside_faults():
    seed = random.randrange(10**6)
    print(f"{seed=}")
    done, text = soak.run(seed, steps=200)
    print(text)
    assert set(done.begun) == set(done.names), "each fault has been there"
    assert done.datagrams.received > 1000 and done.frames.received > 1000 and done.streams.complete > 10
