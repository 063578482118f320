"""The overlay's protocol in deterministic simulation: nothing sticks, nothing comes twice, nothing forged is believed.

PENSTOCK_SEEDS=5000 runs so many more seeds.
"""

import os

import pytest
from overlay_wire import CALM, FRAME, MS, WINDOW, Faults, World

SECRET = bytes(range(16))
SEEDS = int(os.environ.get("PENSTOCK_SEEDS", "100"))
BOUND = 1500 * MS  # within which both ends agree again once the wire is good


@pytest.mark.parametrize("secret", [b"", SECRET])
@pytest.mark.parametrize("part", range(3))
def test_after_any_faults_the_two_ends_agree_again(secret, part):
    for seed in range(part, SEEDS, 3):
        world = World(seed, None, secret)
        world.faults = Faults.drawn(world.rng)
        world.run(CALM + BOUND)
        assert [row["state"] for row in world.rows()] == ["up", "up"], (seed, world.faults, world.rows())
        sessions = [row["sessions"] for row in world.rows()]
        before = [row["lost_on_the_way"] for row in world.rows()]
        start = [set(end.sent) for end in world.ends]
        world.run(world.now + 300 * MS)
        world.traffic = 0
        sent = [set(end.sent) - old for end, old in zip(world.ends, start)]
        world.run(world.now + 300 * MS)
        for end, contents in zip(world.ends, sent):
            peer = world.ends[1 - end.name]
            assert len(contents) > 20 and contents <= set(peer.got), (seed, "all of it arrives", world.rows())
        assert [row["sessions"] for row in world.rows()] == sessions, (seed, "and the session stays")
        assert [row["lost_on_the_way"] for row in world.rows()] == before, seed
        assert [row["under_way"] for row in world.rows()] == [0, 0], seed
