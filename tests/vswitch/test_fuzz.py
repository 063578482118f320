"""The fuzzers, for a short while; by hand they run as long as one likes (fuzz_region.py, fuzz_kill.py)."""

import random

import fuzz_kill
import fuzz_region
import pytest


@pytest.mark.parametrize("mode", fuzz_region.MODES)
@pytest.mark.parametrize("doorbells", [True, False])
def test_a_hostile_application(mode, doorbells):
    seed = random.randrange(10**6)
    print(f"{seed=}")
    found = fuzz_region.run(seed, mode, 50_000, 0.0, doorbells, lives=24)
    print(found.report())
    assert found.turns >= 50_000 and found.lives >= 24 and found.received == found.sent > 1000


@pytest.mark.parametrize("step", [False, True])
def test_applications_killed_at_any_instruction(step):
    """The bound is 100 ms, waits for a processor not counted; the longest of many may be more, for the hypervisor's sake."""
    seed = random.randrange(10**6)
    print(f"{seed=}")
    found = fuzz_kill.run(seed, 60, step)
    print(found.report())
    times = sorted(found.times)
    assert len(times) == 60 and times[len(times) // 2] < 0.1 and times[-1] < 5.0
    assert found.instructions > 2000 if step else found.foreign > 0
