"""A device that the keeper keeps, and the namespaces that it watches."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from penstock_net.vswitch.attach import devices
from penstock_net.vswitch.daemon.condition import GONE, UP
from penstock_net.vswitch.linux import netns
from penstock_net.vswitch.linux.interfaces import Address, address_and_port
from penstock_net.vswitch.linux.monitor import Monitor

CARRIED = (
    "addresses",
    "identity",
    "process",
    "index",
    "final",
    "removed",
    "moved",
    "was_down",
    "is_silent",
    "edge_after",
    "state",
    "why",
)  # over an upgrade


class Kept:
    """A device, and what is known of its interface."""

    def __init__(self, name: str, device: devices.Device) -> None:
        self.name, self.device, self.plan = name, device, device.plan
        self.where = device.plan.where
        self.local = _local(device.plan)
        self.addresses: list[str] = []  # that the interface was given
        self.neighbours: set[devices.Address] = set()  # that are permanent at the interface
        self.identity: tuple[int, int] | None = None  # of its namespace, None: that is gone
        self.process: tuple[int, str] | None = None  # whose namespace it is, if it is given by that
        self.place: Place | None = None  # its namespace, where that is watched
        self.index = 0  # of the interface
        self.mtu = 0  # of the interface, as it was seen last; 0: not yet
        self.final: int | None = None  # frames that the interface had dropped when it was deleted
        self.removed = False  # the interface was deleted, but not its namespace
        self.moved = False  # it is in another namespace
        self.was_away = False  # it was deleted or moved, as was reported; it may have come back before that was seen
        self.was_down = False  # since it was set up
        self.unsure = False  # whether it was, since reports were lost
        self.is_silent = False  # its namespace is a process's, and no mount
        self.again = False  # its state could not be read
        self.edge_after = 0.0  # time.monotonic()
        self.state, self.why = UP, ""

    @property
    def monitor(self) -> Monitor | None:
        return self.place.monitor if self.place else None

    @property
    def is_polled(self) -> bool:
        """Whether events do not tell all: of a namespace that is a process's and no mount, and of what failed."""
        return self.again or self.is_silent or self.state == GONE

    @property
    def lacks_edge(self) -> bool:
        """Whether it should have an edge, and has none, or one that has failed, which no event tells."""
        device = self.device
        return bool(device.table and not device.port.closed and (not device.edge or device.edge.error))

    @property
    def has_another_namespace(self) -> bool:
        """Whether its namespace is gone, or another one is in its place."""
        return self.where is not None and netns.identity(self.where) != self.identity

    @property
    def there(self) -> str:
        """The interface in words."""
        inside = "" if self.where is None else f" in namespace {self.where}"
        return f"{self.plan.interface}{inside}" if self.plan.interface else f"the socket{inside}"

    @property
    def is_watched(self) -> bool:
        """Whether events of its namespace concern it."""
        return bool(self.plan.interface or self.local)

    def known(self) -> dict[str, Any]:
        """What another process goes on with; what the kernel knows is read anew there."""
        return {key: getattr(self, key) for key in CARRIED}

    def know(self, found: Mapping[str, Any]) -> None:
        for key in CARRIED:
            setattr(self, key, found[key])
        for key in ("identity", "process"):  # pairs, of which JSON makes lists
            setattr(self, key, None if found[key] is None else (found[key][0], found[key][1]))


def _local(plan: devices.Plan) -> Address | None:
    """The address of this machine to which a socket is bound; None: it is none, or bound to any."""
    if plan.kind != "udp":
        return None
    address = address_and_port(plan.options["local"], "local", any_port=True)[0]
    return None if address.is_unspecified else address


class Place:
    """A namespace that is watched, and the devices whose interfaces are there, by number and by name."""

    def __init__(self, monitor: Monitor) -> None:
        self.monitor = monitor
        self.kept: set[Kept] = set()
        self.numbered: defaultdict[int, set[Kept]] = defaultdict(set)
        self.named: defaultdict[str | None, set[Kept]] = defaultdict(set)

    def take(self, kept: Kept) -> None:
        self.kept.add(kept)
        self.named[kept.plan.interface].add(kept)

    def leave(self, kept: Kept) -> None:
        self.renumber(kept, 0)
        self.kept.discard(kept)
        without(self.named, kept.plan.interface, kept)

    def renumber(self, kept: Kept, index: int) -> None:
        """Note the number of a device's interface; 0: it has none."""
        without(self.numbered, kept.index, kept)
        kept.index = index
        if index:
            self.numbered[index].add(kept)


def without(found: dict[Any, set[Kept]], key: Any, kept: Kept) -> None:
    """Remove a device from those of a key, and the key with the last of them."""
    if key in found:
        found[key].discard(kept)
        if not found[key]:
            del found[key]
