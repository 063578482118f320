"""Steps that are done to the namespaces of a machine's interfaces."""

import random
from collections.abc import Callable
from typing import Any

from penstock_net.vswitch.simulation import standing
from penstock_net.vswitch.simulation.laws import MS
from penstock_net.vswitch.simulation.layout import USUAL
from penstock_net.vswitch.simulation.machine import SETTLE_NS, Machine
from penstock_net.vswitch.simulation.places import ELSEWHERE, NAMES, PROCESS, PROCESSES
from penstock_net.vswitch.simulation.step import Step

WHY, MOVED = "its namespace is gone", "it was moved"


def _ports(machine: Machine, place: str) -> list[int]:
    return [machine.layout.number(name) for name, where in machine.places.where.items() if where == place]


def lose(machine: Machine, place: str) -> None:
    """A namespace is deleted, or the process by which it is given ends."""
    if place in machine.places.where.values() and machine.places.there(place):
        for at in _ports(machine, place):
            machine.record.disturb(at, WHY)
        machine.places.lose(place)


def make(machine: Machine, place: str, half_ns: int = 0) -> None:
    """One of that name is made again, perhaps as `ip netns add` does: a file first; or another process has the number."""
    if place not in machine.places.where.values() or machine.places.there(place):
        return
    if half_ns and not place.startswith(PROCESS):
        machine.world.spaces.name(place, None)
        machine.world.at(machine.world.now + half_ns, lambda: make(machine, place))
        return
    space = machine.places.make(place)

    def calm() -> None:
        if machine.places.there(place) is space and not place.startswith(PROCESS):
            for at in _ports(machine, place):
                machine.record.calm(at, WHY)

    standing.later(machine, SETTLE_NS, calm)


def move(machine: Machine, name: str) -> None:
    """An interface is moved to another namespace."""
    elsewhere, link = machine.world.spaces.named(ELSEWHERE), machine.link(name)
    if elsewhere and link and not elsewhere.named(link.name):
        machine.record.disturb(machine.layout.number(name), MOVED)
        link.space.move(link, elsewhere)


def move_back(machine: Machine, name: str) -> None:
    home, link = machine.places.of(name), machine.places.moved(name)
    if home in machine.places.strangers.values():  # nobody moves it to another process, because that has the number
        return
    if home and link and link.space.move(link, home):
        standing.later(machine, SETTLE_NS, lambda: machine.record.calm(machine.layout.number(name), MOVED))


def loaded_again(machine: Machine) -> None:
    """After `reload` all interfaces are there whose namespaces are."""
    for name in machine.layout.taps:
        if (link := machine.link(name)) and link.tap:
            for why in (WHY, MOVED):
                machine.record.calm(machine.layout.number(name), why)


def mend(machine: Machine) -> None:
    """All places are there again."""
    for place in sorted({*machine.places.where.values()}):
        make(machine, place)
    for name in machine.layout.taps:
        move_back(machine, name)


DO: dict[str, Callable[..., None]] = {
    "lose namespace": lose,
    "make namespace": make,
    "move": move,
    "move back": move_back,
}


def draw_places(draw: random.Random) -> dict[str, str]:
    """Where TAPs are that are not in the switch's own namespace, by name of the port."""
    if draw.random() < 0.6:
        return {}
    some = draw.choice((NAMES[:1], NAMES, PROCESSES, (*NAMES, *PROCESSES)))
    return {name: draw.choice(some) for name in USUAL.taps if draw.random() < 0.75}


def troubles(draw: random.Random, at: int, where: dict[str, Any]) -> list[list[Step]]:
    """What may be done to the namespaces of these ports; each is undone after a while."""
    if not where:
        return []
    name = draw.choice(sorted(where))
    place, later = where[name], at + draw.choice((draw.randrange(2 * MS), draw.randrange(40 * MS)))
    half = draw.choice((0, 0, draw.randrange(3 * MS)))
    return [
        [Step(at, "lose namespace", place), Step(later, "make namespace", place, (half,))],
        [Step(at, "lose namespace", place), Step(later, "make namespace", place), Step(later + 30 * MS, "lose namespace", place)],
        [Step(at, "lose namespace", place), Step(later, "reload", "", (False,)), Step(later + MS, "make namespace", place)],
        [
            Step(at, "lose namespace", place),
            Step(at + MS, "remove", "v"),
            Step(later, "make namespace", place),
            Step(later, "add", "v"),
        ],
        [Step(at, "move", name), Step(later, "move back", name)],
        [Step(at, "move", name), Step(later, "lose namespace", place), Step(later + MS, "make namespace", place)],
    ]
