"""What happens to links and switches during a run, and which links are down at a time."""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from penstock_net.errors import SpecError
from penstock_net.inputs import boolean, inside
from penstock_net.units import bits_per_second, format_time, ps_per_byte

CHANGE_KEYS = ("time", "a", "b", "parallel", "switch", "up", "rate", "of")
CHANGE_EXAMPLE = '{time = "1ms", a = "tor0", b = "spine1", up = false}'
SWITCH_EXAMPLE = '{time = "1ms", switch = "spine1", up = false}'


class LinkChange(NamedTuple):
    """From `time_ps` on, `link` is up or down, or has another rate; None: as before. `node`: only what that end sends."""

    time_ps: int
    link: int
    up: bool | None = None
    ps_per_byte: float | None = None
    node: int | None = None


class SwitchChange(NamedTuple):
    """At `time_ps` the node `switch` fails, with all its links and what it stores, or is back, empty."""

    time_ps: int
    switch: int
    up: bool


Change = LinkChange | SwitchChange


class LinkStates:
    """Which links are down, change by change: a link works if it is up itself, and neither of its ends has failed."""

    def __init__(self, links: np.ndarray) -> None:
        self.links = links
        self.cut: frozenset[int] = frozenset()  # links that are down themselves
        self.failed: dict[int, int] = {}  # switch -> when it failed, ps

    def apply(self, change: Change) -> None:
        """Apply the next change."""
        if isinstance(change, LinkChange):
            if change.up is not None:
                self.cut = self.cut - {change.link} if change.up else self.cut | {change.link}
        elif change.up:
            self.failed.pop(change.switch, None)
        else:
            self.failed[change.switch] = change.time_ps

    def of_switch(self, switch: int) -> list[int]:
        """The links of a switch."""
        return [int(link) for link in np.flatnonzero((self.links["a"] == switch) | (self.links["b"] == switch))]

    @property
    def down(self) -> frozenset[int]:
        """The links that do not work."""
        return self.cut.union(*(self.of_switch(switch) for switch in self.failed))


def check_switch(number: int, hosts: int, names: tuple[str, ...]) -> int:
    """The number of a node that is a switch.  SpecError: it is none."""
    if not 0 <= number < len(names):
        rule = f"node {number} does not exist"
        raise SpecError(rule, path="switch", remedy=f"switches are {hosts} to {len(names) - 1}")
    if number < hosts:
        rule = f"{names[number]} is a host, and only switches fail"
        raise SpecError(rule, path="switch", remedy="let its link fail: give a and b instead of switch")
    return number


def check_order(changes: Iterable[Change], names: tuple[str, ...]) -> None:
    """SpecError unless every switch fails and comes back in turn, each at a later time; `changes` are sorted by time."""
    last: dict[int, SwitchChange] = {}
    for change in changes:
        if not isinstance(change, SwitchChange):
            continue
        name, before = names[change.switch], last.get(change.switch)
        when = format_time(change.time_ps)
        if before is None and change.up:
            rule, remedy = f"{name} is back at {when}, but has not failed before", "let it fail at an earlier time"
        elif before is not None and before.up == change.up:
            what = "is back" if change.up else "fails"
            rule = f"{name} {what} at {when}, and did so at {format_time(before.time_ps)} already"
            remedy = f"remove one of them, or give the time at which it {'fails' if change.up else 'is back'} between them"
        elif before is not None and before.time_ps == change.time_ps:
            rule, remedy = f"{name} fails and is back at the same time, {when}", "give two times"
        else:
            last[change.switch] = change
            continue
        raise SpecError(rule, path="changes.time", remedy=remedy)


def exact(change: Change) -> Change:
    """A change with the rate that reading it from a spec gives, where rates are whole numbers of bit/s."""
    if isinstance(change, SwitchChange) or change.ps_per_byte is None or not 0 < change.ps_per_byte < math.inf:
        return change
    return change._replace(ps_per_byte=ps_per_byte(bits_per_second(change.ps_per_byte)))


def check_change(change: Change, links: np.ndarray, hosts: int, names: tuple[str, ...]) -> None:
    """SpecError for a change of a link or switch that does not exist, or of nothing."""
    if change.time_ps < 0:
        raise SpecError("must be zero or more", path="changes.time_ps", value=change.time_ps)
    if isinstance(change, SwitchChange):
        with inside("changes"):
            check_switch(change.switch, hosts, names)
            boolean(change.up, "up")
        return
    if not 0 <= change.link < len(links):
        raise SpecError(f"link {change.link} does not exist", path="changes", remedy=f"links are 0 to {len(links) - 1}")
    if change.up is None and change.ps_per_byte is None:
        raise SpecError("nothing changes", path="changes", remedy="give up = true or false, or a rate")
    if change.up is not None:
        boolean(change.up, "changes.up")
    if change.ps_per_byte is not None and not 0 < change.ps_per_byte < math.inf:
        rule = "must be greater than zero"
        raise SpecError(rule, path="changes.ps_per_byte", value=change.ps_per_byte, remedy="or give up = false")
    link: Any = links[change.link]
    if change.node is not None and (change.node not in (link["a"], link["b"]) or change.up is not None):
        raise SpecError("must be one end of the link, and can have a rate of its own, not a state", path="changes.of")
