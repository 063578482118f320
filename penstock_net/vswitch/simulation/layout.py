"""The ports of a simulated machine: those that a run has usually, or an operator's own.

Ports are known by their numbers. Each has its usual addresses and another one, which `set` may give it.
"""

import functools
import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock_net.errors import SpecError
from penstock_net.vswitch.daemon.config import LINE_KEYS, SWITCH_KEYS, validate_spec

APP_KEYS = ("name", "addresses", "uid", "memory", "guarded", *LINE_KEYS)
TAP_KEYS = (*APP_KEYS, "kind", "device", "mtu", "queues")
GUEST_KEYS = (*APP_KEYS, "kind", "path", "server", "pairs", "queues")
PROGRAMS, OF_LANS, UNSAID = ("shm", "vhost-user"), ("vlan", "trunk", "native"), ("edge", "super_frames")
KEYS = {"shm": APP_KEYS, "tap": TAP_KEYS, "vhost-user": GUEST_KEYS}
PER_QUEUE = ("backdraft", "dpfq")  # modes in which who does not read pauses only who sends to it
QUEUES = 64  # of a TAP
MOST_PORTS = 16


@dataclass(frozen=True)
class Layout:
    """Applications and TAPs by name; those of `base` are in the specification from the begin."""

    apps: tuple[str, ...]
    taps: tuple[str, ...]
    base: tuple[str, ...]
    tables: Mapping[str, dict[str, Any]]  # [[port]] of the specification
    others: Mapping[str, list[str]]  # other addresses of each port
    settings: dict[str, Any] | None = None  # those of [switch]; None: they are drawn
    stand_ins: list[str] = field(default_factory=list)  # what is simulated otherwise than it was given
    cables: tuple[str, ...] = ()  # ports on existing interfaces, with a program at the other end of the cable
    guests: tuple[str, ...] = ()  # of the applications, those that are virtual machines
    links: tuple[str, ...] = ()  # ports to other switches
    known: tuple[str, ...] = ()  # ports that are numbered, also those of other switches; none: those of this one
    tables_of_scheme: Mapping[str, Any] = field(default_factory=dict)  # [scheme] and [[link]], if the switch runs one
    numbers: dict[str, int] = field(init=False)  # of the ports

    def __post_init__(self) -> None:
        object.__setattr__(self, "numbers", {name: i for i, name in enumerate(self.known or self.ports)})

    @property
    def ports(self) -> tuple[str, ...]:
        return (*self.apps, *self.taps, *self.cables)

    def number(self, name: str) -> int:
        return self.numbers[name]

    def device(self, name: str) -> str:
        """The interface of a port."""
        return str(self.tables[name].get("device", ""))

    def usual(self, name: str) -> list[str]:
        return list(self.tables[name]["addresses"])

    @property
    def extras(self) -> tuple[str, ...]:
        """Ports that are not in the specification: operators add and remove them."""
        return tuple(name for name in self.ports if name not in self.base)

    @property
    def pauses_queues(self) -> bool:
        """Whether a slow receiver leaves frames to others alone; a scheme may do as it does."""
        return self.settings is None or (self.settings.get("mode", PER_QUEUE[0]) in PER_QUEUE and not self.runs_scheme)

    @property
    def runs_scheme(self) -> bool:
        """Whether the switch runs a scheme of the simulator: then its ports stay, and it is not handed over."""
        return self.settings is not None and "scheme" in self.settings


def _usual() -> Layout:
    """Three applications and two TAPs; `d` and `v` come by `port add`, `w` by `reload`."""
    apps, taps = ("a", "b", "c", "d"), ("t", "u", "v", "w")
    tables: dict[str, dict[str, Any]] = {}
    for i, name in enumerate((*apps, *taps)):
        tables[name] = {"name": name, "addresses": [f"10.0.0.{i + 1}"]}
        if name in taps:
            tap = {"kind": "tap", "device": f"tap-{name}", "super_frames": False, "edge": False, "queues": QUEUES}
            tables[name] |= tap
    others = {name: [f"10.0.1.{i + 1}"] for i, name in enumerate(tables)}
    return Layout(apps, taps, ("a", "b", "c", "t", "u"), tables, others)


USUAL = _usual()


def layout_of(content: Mapping[str, Any]) -> Layout:
    """The ports and settings of an operator's SPEC.toml.  SpecError: it is wrong, or something of it cannot be simulated."""
    config = validate_spec(content)
    if "node" in config.settings:
        rule = "a switch that runs a scheme as one of several processes is not simulated here"
        raise SpecError(
            rule, path="switch.node", value=config.settings["node"], remedy="leave it out: one process runs all nodes"
        )
    given = {str(table["name"]): dict(table) for table in content["port"]}
    if not 2 <= len(given) <= MOST_PORTS:
        raise SpecError(f"must be 2 to {MOST_PORTS} ports, and {len(given)} are given", path="port", remedy="leave some out")
    said = [f"switch.{key} is left out" for key in SWITCH_KEYS if key in content.get("switch", {})]
    apps: list[str] = []
    taps: list[str] = []
    guests: list[str] = []
    tables: dict[str, dict[str, Any]] = {}
    for i, (name, table) in enumerate(given.items()):
        kind = table.get("kind", "shm")
        if first_address(table.get("addresses", [])) is None and first_of_six(table.get("addresses", [])) is None:
            remedy = "give it one such as 10.0.0.1 to try it"
            raise SpecError("has no IP address: the frames of a simulation have", path=f"port.{name}.addresses", remedy=remedy)
        keys = KEYS.get(kind, TAP_KEYS)
        left_out = [key for key in table if key not in (*keys, *UNSAID) and (kind in KEYS or key in OF_LANS)]
        tables[name] = {key: value for key, value in table.items() if key in keys}
        (apps if kind in PROGRAMS else taps).append(name)
        if kind == "shm":
            continue
        tables[name]["super_frames"] = False
        if kind == "vhost-user":
            guests.append(name)
        else:
            tables[name] |= {"kind": "tap", "edge": False}
            if kind != "tap":
                said.append(f"port {name}: kind {kind} is not simulated, a TAP stands in")
                tables[name]["device"] = f"sim{i}"
            elif table.get("edge", True):
                said.append(f"port {name}: without its edge")
        if left_out:
            said.append(f"port {name}: without {', '.join(left_out)}")
    others = {}
    for i, name in enumerate((*apps, *taps)):
        both = {first_address: f"198.18.0.{i + 1}", first_of_six: f"2001:2::{i + 1:x}"}
        others[name] = [other for first, other in both.items() if first(tables[name]["addresses"])]
    of_scheme = {key: content[key] for key in ("scheme", "link") if key in content}
    found = Layout(
        tuple(apps),
        tuple(taps),
        tuple(given),
        tables,
        others,
        config.settings,
        said,
        guests=tuple(guests),
        tables_of_scheme=of_scheme,
    )
    if found.runs_scheme:
        said.append("switch.scheme: frames may be late and overtake as it has them, which is no failure")
    elif not found.pauses_queues:
        said.append("switch.mode: pauses whole ports, so that late frames are no failure")
    return found


def first_address(addresses: list[str]) -> str | None:
    """The first IPv4 address of a port, also one of a prefix; None: it has none."""
    for text in addresses:
        if ":" not in text and (found := _first_of(text)):
            return found
    return None


def first_of_six(addresses: list[str]) -> str | None:
    """The same of IPv6."""
    for text in addresses:
        if ":" in text and (found := _first_of(text)):
            return found
    return None


@functools.cache  # it is asked for each frame
def _first_of(text: str) -> str | None:
    """Of an address or a prefix; None: it is of an Ethernet address."""
    try:
        network = ipaddress.ip_network(text)
    except ValueError:
        return None
    return str(network[1] if network.num_addresses > 2 else network[0])


def in_prefix(target: bytes, addresses: Iterable[str]) -> bool:
    """Whether an IP address is of a prefix among these."""
    return any(ipaddress.ip_address(target) in ipaddress.ip_network(text) for text in addresses if "/" in text)
