"""The fuzzers, for a short while; by hand they run as long as one likes (fuzz_region.py, fuzz_kill.py)."""

import random

import fuzz_region
import pytest


@pytest.mark.parametrize("mode", fuzz_region.MODES)
@pytest.mark.parametrize("doorbells", [True, False])
def test_a_hostile_application(mode, doorbells):
    seed = random.randrange(10**6)
    print(f"{seed=}")
    found = fuzz_region.run(seed, mode, 50_000, 1.0, doorbells)
    print(found.report())
    assert found.turns >= 50_000 and found.lives >= 5 and found.received == found.sent > 1000
