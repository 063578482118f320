"""Requests at the moment when a port is attached to, is made or goes: a few in so short a time that they come in the middle."""

import random
from typing import Any

from penstock_net.vswitch.simulation.laws import MS
from penstock_net.vswitch.simulation.layout import Layout
from penstock_net.vswitch.simulation.step import Step

DRAWN = 0.12  # of the runs; each step of these costs as much as many frames
SHORT_NS = 400_000  # in which a request of an operator has its answer, mostly
AFTER_NS = 40_000  # in which the switch has noticed that an application has ended
SHOWN = (*("changes",) * 6, "ports", "flows", "pauses", "balance", "detached", "losses")


def draw_steps(seed: int, until: int, layout: Layout) -> list[Step]:
    """Those of a run, from a generator of their own."""
    draw = random.Random(f"moments of {seed}")
    if draw.random() >= DRAWN or layout.settings is not None or not layout.extras:
        return []
    at = draw.randrange(max(1, until))
    return attached(draw, at) if draw.random() < 0.4 else gone(draw, at)


def attached(draw: random.Random, at: int) -> list[Step]:
    """An application comes again just when the last one has ended, and its port goes."""
    again = at + draw.randrange(3 * MS, 20 * MS)
    found = [Step(at, "add", "d"), Step(at + MS, "start", "d"), Step(again, "end", "d")]
    found.append(Step(again + draw.randrange(AFTER_NS), "start", "d"))
    return [*found, Step(again + draw.randrange(2 * AFTER_NS), "remove", "d", (False,)), *_asked(draw, again, 2)]


def gone(draw: random.Random, at: int) -> list[Step]:
    """A port comes and goes, and others ask meanwhile."""
    name, later = draw.choice("vvdw"), at + draw.randrange(2 * MS, 20 * MS)
    removed = Step(later, "remove", name, (draw.random() < 0.5,))
    return [Step(at, "add", name), *_asked(draw, at, 3), removed, *_asked(draw, later, 8)]


def _asked(draw: random.Random, at: int, count: int) -> list[Step]:
    """Requests of operators just after a time; most only look."""
    found = []
    for _ in range(count):
        what, to, numbers = "show", "", tuple[Any, ...]((draw.choice(SHOWN),))
        if draw.random() < 0.1:
            what, to, numbers = draw.choice(
                (("readdress", draw.choice("dvw"), (draw.randrange(3),)), ("undo", "", ()), ("set", "", ("idle", "50ms")))
            )
        found.append(Step(at + draw.randrange(SHORT_NS), what, to, numbers))
    return found
