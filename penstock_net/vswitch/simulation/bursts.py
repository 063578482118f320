"""More frames at once than a ring, a socket or a flow's share of the switch holds: what is too much is lost and counted.

Of the port of a burst some may be lost, or late, for as long as it takes; all else is as it always is.
"""

import random
from collections.abc import Sequence

from penstock_net.vswitch.simulation.laws import MS
from penstock_net.vswitch.simulation.step import Step

DRAWN = 0.05  # of the runs
FRAMES, SIZES = (300, 1100, 2500, 5000), (60, 60, 700)
OVER_NS = 60 * MS  # after which the rest of one has passed
WHY = "a burst"


def draw_steps(seed: int, until: int, names: Sequence[str]) -> list[Step]:
    """Those of a run, from a generator of their own."""
    draw = random.Random(f"bursts of {seed}")
    if draw.random() >= DRAWN:
        return []
    found = []
    for _ in range(draw.randrange(1, 4)):
        name, target = draw.sample(list(names), 2)
        found.append(Step(draw.randrange(max(1, until)), "burst", name, (target, draw.choice(FRAMES), draw.choice(SIZES))))
    return found
