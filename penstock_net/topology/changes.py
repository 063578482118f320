"""What happens to links and switches during a run, and which links are down at a time."""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from penstock_net.errors import SpecError
from penstock_net.inputs import boolean, inside, one_of
from penstock_net.units import bits_per_second, format_time, ps_per_byte

DROP, HOLD, LOSE, SILENT = ON_DOWN = ("drop", "hold", "lose", "silent")  # see LinkChange
OF_SWITCHES = (DROP, LOSE)  # that fail
MOST_CHANGES = 100_000  # that one table, or a network's receivers, may stand for
CHANGE_EXAMPLE = '{time = "1ms", a = "tor0", b = "spine1", up = false}'
SWITCH_EXAMPLE = '{time = "1ms", switch = "spine1", up = false}'


class LinkChange(NamedTuple):
    """From `time_ps` on, `link` is up or down, has another rate, or retries; None: as before. `node`: only what that end sends.

    on_down   what becomes of packets when the link goes down, one of ON_DOWN:
        drop     routes avoid the link; what is on the wire is lost, what waits for it waits
        hold     it is dark: it keeps its routes, packets for it wait, and what is on the wire arrives
        lose     routes avoid the link; what is on the wire and what waits for it is lost
        silent   the same, but routes stay, and what comes for it is lost, too
    """

    time_ps: int
    link: int
    up: bool | None = None
    ps_per_byte: float | None = None
    node: int | None = None
    on_down: str = DROP
    llr: bool | None = None

    @property
    def fails(self) -> bool:
        """Whether packets are lost by it."""
        return self.up is False and self.on_down != HOLD


class SwitchChange(NamedTuple):
    """At `time_ps` the node `switch` fails, with all its links and what it stores, or is back, empty.

    on_down   what becomes of packets that wait for it at its neighbours: they wait (drop), or are lost (lose)
    """

    time_ps: int
    switch: int
    up: bool
    on_down: str = DROP

    @property
    def fails(self) -> bool:
        """Whether packets are lost by it."""
        return not self.up


Change = LinkChange | SwitchChange


def in_order(change: Change) -> tuple[int, bool]:
    """By what changes are sorted: by time, and at one time rates first, so that a link that is up again sends at its new rate."""
    return change.time_ps, change.up is not None


UP, DOWN, DARK, DEAD = 0, 1, 2, 3  # states of a link in the core: see Simulation.change_link
STATES = {DROP: DOWN, HOLD: DARK, LOSE: DEAD, SILENT: DEAD}


class LinkStates:
    """Which links are down, change by change: a link works if it is up itself, and neither of its ends has failed."""

    def __init__(self, links: np.ndarray) -> None:
        self.links = links
        self.cut: frozenset[int] = frozenset()  # links that are down themselves, without those that keep their routes
        self.how: dict[int, str] = {}  # of all links that are down themselves
        self.failed: dict[int, int] = {}  # switch -> when it failed, ps
        self.lost: frozenset[int] = frozenset()  # those failed switches whose neighbours lose what waits for them

    def apply(self, change: Change) -> None:
        """Apply the next change."""
        if isinstance(change, LinkChange):
            if change.up is not None:
                one = {change.link}
                self.cut = self.cut - one if change.up or change.on_down in (HOLD, SILENT) else self.cut | one
                self.how.pop(change.link, None)
                if not change.up:
                    self.how[change.link] = change.on_down
        elif change.up:
            self.failed.pop(change.switch, None)
            self.lost = self.lost - {change.switch}
        else:
            self.failed[change.switch] = change.time_ps
            self.lost = self.lost | ({change.switch} if change.on_down == LOSE else set())

    def of_switch(self, switch: int) -> list[int]:
        """The links of a switch."""
        return [int(link) for link in np.flatnonzero((self.links["a"] == switch) | (self.links["b"] == switch))]

    def state(self, link: int) -> int:
        """UP, DOWN (no route leads over it, and what waits for it waits), DARK (it keeps its routes) or DEAD."""
        failed = {int(self.links[end][link]) for end in ("a", "b")} & self.failed.keys()
        if failed:
            return DEAD if failed & self.lost else DOWN
        return STATES[self.how[link]] if link in self.how else UP

    @property
    def down(self) -> frozenset[int]:
        """The links that do not work, without those that keep their routes."""
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


def check_agreement(tables: Iterable[Iterable[Change]], links: np.ndarray, names: tuple[str, ...]) -> None:
    """SpecError: two tables say of one link, or of what an end of it sends, that it becomes different things at the same time."""
    said: dict[tuple[int, int, int, str], tuple[int, Any]] = {}
    for i, changes in enumerate(tables):
        for change in (c for c in changes if isinstance(c, LinkChange)):
            ends = [int(links[end][change.link]) for end in ("a", "b")]
            state = None if change.up is None else (change.up, change.on_down)
            told = [(node, "rates", change.ps_per_byte) for node in ends if change.node in (None, node)] + [(-1, "states", state)]
            for node, what, value in told:
                if value is None:
                    continue
                table, before = said.setdefault((change.time_ps, change.link, node, what), (i, value))
                if table != i and before != value:
                    link = " - ".join(names[end] for end in ends)
                    rule = f"the link {link} is given two {what} at {format_time(change.time_ps)}, by tables {table} and {i}"
                    raise SpecError(rule, remedy="keep one of them")


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
            one_of(change.on_down, "on_down", OF_SWITCHES)
        return
    if not 0 <= change.link < len(links):
        raise SpecError(f"link {change.link} does not exist", path="changes", remedy=f"links are 0 to {len(links) - 1}")
    if change.up is None and change.ps_per_byte is None and change.llr is None:
        raise SpecError("nothing changes", path="changes", remedy="give up = true or false, a rate, or llr = true or false")
    if change.llr is not None:
        boolean(change.llr, "changes.llr")
    if change.up is not None:
        boolean(change.up, "changes.up")
    one_of(change.on_down, "changes.on_down", ON_DOWN)
    if change.on_down != DROP and change.up is not False:
        raise SpecError("is of a link that goes down", path="changes.on_down", value=change.on_down, remedy="give up = False")
    if change.ps_per_byte is not None and not 0 < change.ps_per_byte < math.inf:
        rule = "must be greater than zero"
        raise SpecError(rule, path="changes.ps_per_byte", value=change.ps_per_byte, remedy="or give up = false")
    link: Any = links[change.link]
    if change.node is not None and (change.node not in (link["a"], link["b"]) or change.up is not None):
        raise SpecError("must be one end of the link, and can have a rate of its own, not a state", path="changes.of")


WORDS = {HOLD: ("dark", "nights", "packets wait"), SILENT: ("silent", "failures", "routes stay, and packets are lost")}


def nights(changes: Iterable[Change], links: np.ndarray, names: tuple[str, ...]) -> list[str]:
    """Lines about the links that are dark, or fail silently; none if there are none.  `changes` are sorted by time."""
    out = []
    for on_down, (word, times, then) in WORDS.items():
        found = [change for change in changes if isinstance(change, LinkChange) and change.on_down == on_down]
        which = list(dict.fromkeys(change.link for change in found))
        shown = [f"{names[links['a'][link]]} - {names[links['b'][link]]}" for link in which[:4]]
        more = f" and {len(which) - 4} more" if len(which) > 4 else ""
        if found:
            first = format_time(found[0].time_ps)
            out.append(f"{word:<14}{', '.join(shown)}{more}: {len(found)} {times}, the first at {first}; {then}")
    return out
