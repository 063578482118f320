"""Where the interfaces of a simulated machine are: namespaces by name, and namespaces of processes by their number.

A place whose name begins with PROCESS is the namespace of a process, and the specification names it by the process's number.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock_net.vswitch.simulation import standing
from penstock_net.vswitch.simulation.frames import PORT, SIX
from penstock_net.vswitch.simulation.laws import MS, Broken
from penstock_net.vswitch.world.simulated.links import Link, Space

if TYPE_CHECKING:
    from penstock_net.vswitch.simulation.machine import Machine

SENDERS = 2 * SIX  # UDP ports
PROCESS, ELSEWHERE = "process ", "elsewhere"
NAMES, PROCESSES = ("left", "right"), (f"{PROCESS}one",)
KEPT_NS = {False: 60 * MS, True: 1200 * MS}  # after that a lost namespace is dead; True: a process's, of which no event tells


class Places:
    """The namespaces of a machine's TAPs; a port that is not in `where` is in that of the switch's process."""

    def __init__(self, machine: "Machine", where: Mapping[str, str]) -> None:
        self.machine, self.where = machine, dict(where)
        self.pids: dict[str, int] = {}
        self.strangers: dict[str, Space] = {}  # of another process with the number of one that has ended, and nobody has agreed
        self.agreeing = 0  # requests of operators that agree with what is there when they are answered
        self.lost_at: dict[Space, int] = {}
        self.slow = False  # whether a process has ended

    def begin(self) -> None:
        """Make them, before the switch starts."""
        self._inhabit(self.machine.home)
        for place in sorted({*self.where.values()}):
            self.make(place)
        if self.where:
            self.machine.world.spaces.name(ELSEWHERE, self._new())

    def _new(self) -> Space:
        return self._inhabit(self.machine.world.spaces.make())

    def _inhabit(self, space: Space) -> Space:
        """Programs at TAPs take what comes, and send from sockets that are connected."""
        space.programs, space.senders = self.machine.programs, set(range(PORT, PORT + SENDERS))
        return space

    def make(self, place: str) -> Space:
        """A place that is not there; one by a process has its number again."""
        space = self._new()
        if place.startswith(PROCESS):
            again = self.pids.get(place, 0)
            self.pids[place] = self.machine.world.tasks.hold(space, again)
            if again and not self.agreeing:
                self.strangers[place] = space
        else:
            self.machine.world.spaces.name(place, space)
        return space

    def lose(self, place: str) -> None:
        """A place is deleted, or its process ends."""
        if place.startswith(PROCESS):
            self.strangers.pop(place, None)
            self.slow = True
            self.machine.world.tasks.end(self.pids[place])
        else:
            self.machine.world.spaces.unname(place)

    def there(self, place: str) -> Space | None:
        """The namespace of a place now."""
        if place.startswith(PROCESS):
            process = self.machine.world.tasks.processes[self.pids[place]]
            return None if process.ended_ else process.space
        return self.machine.world.spaces.named(place)

    def of(self, port: str) -> Space | None:
        """Where the interface of a port should be; None: there is no such place now."""
        return self.there(self.where[port]) if port in self.where else self.machine.home

    def moved(self, port: str) -> Link | None:
        """The interface of a port, if somebody has moved it to another namespace."""
        space = self.machine.world.spaces.named(ELSEWHERE)
        return space.named(self.machine.layout.device(port)) if space else None

    def keys(self, port: str) -> dict[str, Any]:
        """Of a [[port]]."""
        place = self.where.get(port)
        return {} if place is None else {"netns": self.pids.get(place, place)}

    def agree(self) -> None:
        """An operator asks for what is there, with whatever processes have the numbers, until `agreed`."""
        self.strangers.clear()
        self.agreeing += 1

    def agreed(self) -> None:
        """That has an answer, perhaps of a process to which the switch was handed over meanwhile."""
        self.agreeing -= 1

    @property
    def settle_ns(self) -> int:
        """After which the switch has seen all that has happened to them."""
        return 700 * MS if self.slow else 0

    def in_classes(self, missing: int) -> dict[str, int]:
        """Frames in classes of interfaces, and those of the missing ones that were in a class when it was removed.

        The switch counts what it sees in its classes before it removes them, so of the latter at most what is missing.
        """
        spaces = self.machine.world.spaces
        waiting = sum(link.queueing.waiting() for link in spaces.links() if link.queueing)
        lost = spaces.lost_in_classes + sum(space.lost_in_classes for space in spaces.living)
        return {"in classes": waiting, "in classes that are gone": max(0, min(lost, missing - waiting))}

    # ---- Laws ----

    def check(self) -> None:
        """Broken: a namespace lives that only the switch keeps, or it is in one of a process that it was not told of."""
        spaces, now = self.machine.world.spaces, self.machine.world.now
        processes = self.machine.world.tasks.processes.values()
        owned = [spaces.first, self.machine.home, *spaces.names.values(), *(each.space for each in processes if not each.ended_)]
        for space in [each for each in spaces.living if each not in owned]:
            since = max(self.lost_at.setdefault(space, now), self.machine.record.awake_ns)
            if now - since > KEPT_NS[self.slow] and not standing.is_standing(self.machine):
                raise Broken(f"a namespace that was deleted lives on, {(now - since) // MS} ms later")
        self.lost_at = {space: at for space, at in self.lost_at.items() if space in spaces.living}
        for place, space in self.strangers.items():
            if taken := [link.name for link in space if link.tap]:
                raise Broken(f"the switch has made {taken[0]} in the namespace of another process with the number of {place}")
