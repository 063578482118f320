"""The other end of a cable takes nothing for a while: the driver's ring fills, and then who sends past the queues is told."""

import random
from collections.abc import Sequence

from penstock_net.vswitch.simulation.laws import MS
from penstock_net.vswitch.simulation.machine import Machine
from penstock_net.vswitch.simulation.step import Step

DRAWN = 0.1  # of the runs
LONG_NS = 300 * MS
WHY = "its cable stands still"
SIZES = (60, 700, 1400)


def stop(machine: Machine, name: str) -> None:
    if name in machine.layout.cables and (link := machine.link(name)):
        machine.record.disturb(machine.layout.number(name), WHY)
        link.is_stopped = True


def go(machine: Machine, name: str) -> None:
    if link := machine.link(name):
        link.go()
    machine.record.calm(machine.layout.number(name), WHY)


DO = {"cable stops": stop, "cable goes": go}


def draw_steps(seed: int, until: int, cables: Sequence[str], names: Sequence[str]) -> list[Step]:
    """Those of a run, from a generator of their own: with more for the port than its ring holds, and with less."""
    draw = random.Random(f"cables of {seed}")
    found: list[Step] = []
    if draw.random() >= DRAWN:
        return found
    for _ in range(draw.randrange(1, 4)):
        cable, begin = draw.choice(cables), draw.randrange(max(1, until))
        end = begin + draw.choice((draw.randrange(5 * MS), draw.randrange(LONG_NS)))
        found += [Step(begin, "cable stops", cable), Step(end, "cable goes", cable)]
        others = [name for name in names if name != cable]
        for _ in range(draw.randrange(12)):
            at, numbers = begin + draw.randrange(20 * MS), (cable, draw.choice((4, 40)), draw.choice(SIZES))
            found.append(Step(at, "send", draw.choice(others), numbers))
    return found
