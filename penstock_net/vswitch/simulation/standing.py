"""The switch gets no processor for a while, or the whole machine stands still, as a virtual machine that is moved elsewhere.

While only the switch stands, all others go on: applications fill their queues, programs the rings of interfaces, pauses come to
their end unseen, interfaces change. When everything stands, the clock has gone on, and all that was to happen is late at once.
"""

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from penstock_net.vswitch.simulation.laws import MS
from penstock_net.vswitch.simulation.step import Step

if TYPE_CHECKING:
    from penstock_net.vswitch.simulation.machine import Machine

DRAWN = 0.15  # of the runs
SHORT_NS = 60 * MS
LONG_NS = 12_000 * MS  # the whole machine; longer than whatever the switch waits for
WHY = "the switch stands still"


def is_standing(machine: "Machine") -> bool:
    """Whether the switch gets no processor."""
    return machine.pid in machine.world.tasks.standing


def stand_still(machine: "Machine", name: str, ns: int) -> None:
    """The process of the switch gets no processor for a time, unless it is being handed over."""
    if machine.is_upgrading or machine.is_down or is_standing(machine):
        return
    ports = [machine.layout.number(each) for each in machine.layout.ports]
    for at in ports:
        machine.record.disturb(at, WHY)

    def again() -> None:
        machine.record.awake_ns = machine.world.now
        for at in ports:
            machine.record.calm(at, WHY)

    machine.world.tasks.stand(machine.pid, ns, again)


def clock_jumps(machine: "Machine", name: str, ns: int) -> None:
    """Everything stands still for a time, and then all sees that it has passed; not while a new process has so long to begin."""
    if machine.is_upgrading:
        return
    machine.world.now += ns
    machine.stood_ns += ns
    machine.record.stood(ns)


def later(machine: "Machine", ns: int, do: Callable[[], None]) -> None:
    """Something happens in so long a time, in which the switch has not stood still."""
    world, record = machine.world, machine.record

    def when_over() -> None:
        begin = world.now if is_standing(machine) else record.awake_ns
        if world.now < begin + ns:
            world.at(begin + ns, when_over)
        else:
            do()

    world.at(world.now + ns, when_over)


DO = {"stand still": stand_still, "clock jumps": clock_jumps}


def draw_steps(seed: int, until: int, names: Sequence[str] = ("",), longest: int = SHORT_NS) -> list[Step]:
    """Those of a run, from a generator of their own; names: of the switches, which stand for at most so long."""
    draw = random.Random(f"standing of {seed}")
    if draw.random() >= DRAWN:
        return []
    found = []
    for _ in range(draw.randrange(1, 6)):
        at, name = draw.randrange(max(1, until)), draw.choice(names)
        if draw.random() < 0.7:
            found.append(Step(at, "stand still", name, (draw.randrange(draw.choice((2 * MS, SHORT_NS, longest))),)))
        else:
            found.append(Step(at, "clock jumps", name, (draw.randrange(draw.choice((2 * MS, SHORT_NS, LONG_NS))),)))
    return found
