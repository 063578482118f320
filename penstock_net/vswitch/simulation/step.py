"""A step of a run: something that is done to the machine at a time."""

from typing import Any, NamedTuple

from penstock_net.vswitch.simulation.laws import MS


class Step(NamedTuple):
    """Something that is done at a time, ns after the switch is up."""

    at: int
    what: str
    to: str
    numbers: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return f"{self.at / MS:9.3f} ms  {self.what} {self.to} {' '.join(map(str, self.numbers))}".rstrip()
