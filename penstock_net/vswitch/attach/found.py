"""An interface that was there before the switch: what it was like, so that it can be given back like that."""

import contextlib
import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from penstock_net.errors import PenstockError
from penstock_net.vswitch.linux.interfaces import exists
from penstock_net.vswitch.linux.set_up import Interface

EVERYWHERE = ("0.0.0.0/0", "::/0")


class Found(NamedTuple):
    """An interface as it was found."""

    mtu: int
    queue_frames: int
    up: bool
    addresses: frozenset[str]  # with their prefix lengths
    routes: frozenset[str]

    def written(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {**self._asdict(), "addresses": sorted(self.addresses), "routes": sorted(self.routes)}

    @classmethod
    def read(cls, row: Mapping[str, Any]) -> "Found":
        """Also of a process that has named routes as `ip` does: "default", or a host without a length."""
        routes = [each for route in row["routes"] for each in (EVERYWHERE if route == "default" else [route])]
        found = frozenset(str(ipaddress.ip_network(route)) for route in routes)
        return cls(**{**row, "addresses": frozenset(row["addresses"]), "routes": found})


def find(name: str) -> Found | None:
    """What an interface of this thread's namespace is like; None: there is none."""
    if not exists(name):
        return None
    with Interface(name) as interface:
        return _found(interface)


def _found(interface: Interface) -> Found:
    now = interface.state()
    addresses, routes = map(str, interface.addresses()), map(str, interface.routes())
    return Found(now.mtu, now.queue_frames, now.up, frozenset(addresses), frozenset(routes))


def give_back(name: str, found: Found, routes: Iterable[str]) -> None:
    """Take away what an interface of this thread's namespace has got since it was found; of routes, only these."""
    if not exists(name):
        return
    with Interface(name) as interface:
        now = _found(interface)
        for address in map(ipaddress.ip_interface, now.addresses - found.addresses):
            with contextlib.suppress(PenstockError):  # of several, one that is gone with another
                interface.remove_address(address.ip, address.network.prefixlen)
        for route in map(ipaddress.ip_network, now.routes & {str(ipaddress.ip_network(each)) for each in routes} - found.routes):
            with contextlib.suppress(PenstockError):
                interface.remove_route(route)
        with contextlib.suppress(PenstockError):
            interface.set(up=found.up)
        with contextlib.suppress(PenstockError):
            interface.set(mtu=found.mtu, queue_frames=found.queue_frames)
