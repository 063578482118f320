"""An interface that was there before the switch: what it was like, so that it can be given back like that."""

import contextlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from penstock_net.errors import PenstockError
from penstock_net.vswitch.linux import netns
from penstock_net.vswitch.linux.interfaces import exists


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
        return cls(**{**row, "addresses": frozenset(row["addresses"]), "routes": frozenset(row["routes"])})


def find(name: str) -> Found | None:
    """What an interface of this thread's namespace is like; None: there is none."""
    if not exists(name):
        return None
    (row,) = json.loads(netns.ip("-json", "address", "show", "dev", name))
    routes = [
        each["dst"] for version in ("-4", "-6") for each in json.loads(netns.ip("-json", version, "route", "show", "dev", name))
    ]
    return Found(row["mtu"], row["txqlen"], "UP" in row["flags"], frozenset(_addresses(row)), frozenset(routes))


def _addresses(row: dict[str, list[dict[str, str]]]) -> Iterable[str]:
    return (f"{each['local']}/{each['prefixlen']}" for each in row["addr_info"] if each["scope"] != "link")


def give_back(name: str, found: Found, routes: Iterable[str]) -> None:
    """Take away what an interface of this thread's namespace has got since it was found; of routes, only these."""
    now = find(name)
    if now is None:
        return
    lines = [["address", "del", address, "dev", name] for address in now.addresses - found.addresses]
    lines += [["route", "del", route, "dev", name] for route in now.routes & {*routes} - found.routes]
    lines += [["link", "set", name, "mtu", str(found.mtu), "txqueuelen", str(found.queue_frames), "up" if found.up else "down"]]
    for line in lines:
        with contextlib.suppress(PenstockError):  # of several, one that is gone with another
            netns.ip(*line)
