"""A site: the switches that are to be configured, as `site.toml` says; and what one switch is, whoever says it."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from penstock_net.advise.formulas import Sonic
from penstock_net.advise.platform import ByHand, Platform, platform
from penstock_net.errors import SpecError
from penstock_net.inputs import (
    as_table,
    as_tables,
    inside,
    known_keys,
    read_text,
    real,
    size_bytes,
    time_ps,
    whole,
)
from penstock_net.spec.toml import line_of, syntax_error
from penstock_net.units import parse_metres, parse_rate

KEYS = ("name", "platform", "cell", "response", "buffer", "ports", "lossless", "shared_headroom")
MOST_PORTS = 4096
MOST_METRES = 100_000
DEFAULT_MTU, LARGEST_CELL, LONGEST_RESPONSE_NS = 4096, 65536, 1e6


@dataclass(frozen=True)
class Traffic:
    """A site's traffic: bytes of the largest lossless packet, share of bytes in small ones, senders to one port at a time."""

    mtu: int | None = None
    small: float | None = None
    fan_in: int = 1


@dataclass(frozen=True)
class Ports:
    """Ports of one kind: their names, Gbit/s, metres of cable, lanes.

    mtu      bytes of their largest packet, if their headroom depends on it; 0: as the platform's table has it
    dynamic  SONiC computes their headroom itself, and no profile is written for them
    """

    names: tuple[str, ...]
    gbps: int
    metres: int
    lanes: int = 0
    mtu: int = 0
    dynamic: bool = False

    @property
    def text(self) -> str:
        return f"{len(self.names)} x {self.gbps}G, {self.metres} m"


@dataclass(frozen=True)
class Switch:
    """A switch: what settings are for.

    buffer    bytes that packets may take; 0: not known      lossless  its priorities that pause
    ratio     all headrooms together are so many times the pool that they share; 0: private ones
    pool      or bytes of that pool, as shipped; 0: by ratio
    fan_in    ports that send to one at the same time; 1: nothing is said of it
    hwsku     what a configuration calls its hardware; "": nothing
    marking   K_min, K_max in bytes and P_max in percent that it has now; None: it marks nothing
    """

    name: str
    platform: Platform
    ports: tuple[Ports, ...]
    lossless: tuple[int, ...]
    buffer: int
    ratio: float = 0.0
    pool: int = 0
    fan_in: int = 1
    hwsku: str = ""
    marking: tuple[int, int, int] | None = None

    @property
    def shares(self) -> bool:
        """Whether the headrooms have a pool together."""
        return self.pool > 0 or self.ratio > 0

    @property
    def count(self) -> int:
        return sum(len(kind.names) for kind in self.ports)


def read_site(path: Path) -> list[Switch]:
    """The switches of a site.toml.  SpecError: what is wrong, and in which line."""
    text = read_text(str(path), "SITE")
    try:
        tables = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise syntax_error(str(path), text, error) from None
    try:
        known_keys(tables, ("switch", "traffic"))
        with inside("traffic"):
            traffic = _traffic(as_table(tables.get("traffic", {}), "", "[traffic]"))
        switches = as_tables(tables.get("switch", []), "switch", "[[switch]]")
        if not switches:
            raise SpecError("is missing", path="switch", remedy="give a table [[switch]] with platform, ports and lossless")
        found = []
        for number, table in enumerate(switches):
            with inside(f"switch.{number}"):
                found.append(_switch(table, traffic))
        names = [switch.name for switch in found]
        for number, name in enumerate(names):
            if name in names[:number]:
                raise SpecError("names two switches", path=f"switch.{number}.name", value=name, remedy="give each its own name")
        return found
    except SpecError as error:
        line = line_of(text, error.path.split("."))
        raise error.within(place=f"{path}:{line}" if line else path) from None


def _switch(table: dict[str, Any], traffic: Traffic) -> Switch:
    known_keys(table, KEYS)
    name = table.get("name", "switch")
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9][\w.-]{0,63}", name):
        raise SpecError("must be a letter or digit, then at most 63 letters, digits, dots, - and _", path="name", value=name)
    lossless = _lossless(table.get("lossless", [3]))
    of = _platform(table, traffic, len(lossless))
    buffer = size_bytes(table["buffer"], "buffer") if "buffer" in table else of.table.get("buffer", 0)
    if "buffer" in table and buffer <= 0:
        raise SpecError(
            "must be greater than zero", path="buffer", value=table["buffer"], remedy="leave it out if it is not known"
        )
    ratio, pool = _shared(table.get("shared_headroom"), of)
    ports = _ports(table)
    fan_in = min(traffic.fan_in, sum(len(kind.names) for kind in ports))
    return sharing(Switch(name, of, ports, lossless, buffer, ratio, pool, fan_in))


def sharing(switch: Switch) -> Switch:
    """A switch whose formula, if it depends on that, knows whether headrooms share a pool."""
    of = switch.platform
    if not isinstance(of.formula, Sonic) or of.formula.shared_pool == switch.shares:
        return switch
    return replace(switch, platform=replace(of, formula=replace(of.formula, shared_pool=switch.shares), fixed=True))


def _lossless(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or not value:
        raise SpecError("must be a list of priorities, such as [3]", path="lossless", value=value)
    found = sorted({whole(one, "lossless", 0, 7) for one in value})
    if len(found) < len(value):
        raise SpecError("names a priority twice", path="lossless", value=value)
    return tuple(found)


def _platform(table: dict[str, Any], traffic: Traffic, lossless: int) -> Platform:
    by_hand = [key for key in ("cell", "response") if key in table]
    if "platform" in table:
        if by_hand:
            raise SpecError("belongs to a switch without a platform", path=by_hand[0], remedy="leave out one of the two")
        if not isinstance(table["platform"], str):
            raise SpecError("must be a name", path="platform", value=table["platform"])
        return with_traffic(platform(table["platform"]), traffic)
    if "response" not in table:
        raise SpecError("is missing", path="response", remedy="give platform, or response and, if its buffer has cells, cell")
    response = time_ps(table["response"], "response") / 1000
    if response > LONGEST_RESPONSE_NS:
        raise SpecError("must be at most 1ms", path="response", value=table["response"])
    cell = whole(table.get("cell", 0), "cell", 0, LARGEST_CELL)
    small = 1.0 if traffic.small is None else traffic.small
    return Platform("by hand", "", "", ByHand(traffic.mtu or DEFAULT_MTU, response, cell, small, lossless), {}, {})


def with_traffic(of: Platform, traffic: Traffic) -> Platform:
    """A platform whose formula, if it depends on the traffic, is for this one."""
    if not isinstance(of.formula, Sonic):
        return of
    formula = of.formula
    if traffic.small is not None:
        formula = replace(formula, small_percent=round(100 * traffic.small))
    if traffic.mtu is not None:
        formula = replace(formula, lossless_mtu=traffic.mtu)
    return replace(of, formula=formula, fixed=of.fixed or formula != of.formula)


def _ports(table: dict[str, Any]) -> tuple[Ports, ...]:
    kinds = as_tables(table.get("ports", []), "ports", '[{ count = 32, rate = "400Gbps", cable = "5m" }]')
    if not kinds:
        raise SpecError("is missing", path="ports", remedy='such as ports = [{ count = 32, rate = "400Gbps", cable = "5m" }]')
    found: list[Ports] = []
    for number, kind in enumerate(kinds):
        with inside(f"ports.{number}"):
            known_keys(kind, ("count", "rate", "cable", "lanes"))
            for key in ("count", "rate", "cable"):
                if key not in kind:
                    raise SpecError("is missing", path=key, remedy='such as { count = 32, rate = "400Gbps", cable = "5m" }')
            count = whole(kind["count"], "count", 1, MOST_PORTS)
            rate = parse_rate(kind["rate"], "rate")
            if rate % 10**9 or not 1 <= rate // 10**9 <= 3200:
                raise SpecError("must be whole Gbit/s, at most 3200Gbps", path="rate", value=kind["rate"])
            metres = parse_metres(kind["cable"], "cable")
            if not 1 <= metres <= MOST_METRES or metres.denominator != 1:
                remedy = "round it up" if 0 < metres <= MOST_METRES else ""
                raise SpecError("must be whole metres, 1m to 100km", path="cable", value=kind["cable"], remedy=remedy)
            lanes = whole(kind.get("lanes", 8 if rate >= 800 * 10**9 else 4), "lanes", 1, 8)
            first = sum(len(each.names) for each in found)
            if first + count > MOST_PORTS:
                raise SpecError(f"must be at most {MOST_PORTS} ports in all", path="count", value=count)
            names = tuple(f"Ethernet{8 * (first + i)}" for i in range(count))
            found.append(Ports(names, rate // 10**9, int(metres), lanes))
    return tuple(found)


def _shared(value: Any, of: Platform) -> tuple[float, int]:
    """The ratio of oversubscription, and bytes of a pool; what is shipped if nothing is said."""
    if value is None:
        shared = isinstance(of.formula, Sonic) and of.formula.shared_pool
        return (1.0 if shared else 0.0), of.table.get("headroom_pool", 0)
    if value == "none":
        return 0.0, 0
    head, colon, tail = value.partition(":") if isinstance(value, str) else ("", "", "")
    try:
        if colon and tail == "1" and len(head) < 10 and 1 <= float(head) <= 100:
            return float(head), 0
    except ValueError:
        pass
    raise SpecError('must be a ratio such as "3:1", at most 100:1, or "none"', path="shared_headroom", value=value)


def _traffic(table: dict[str, Any]) -> Traffic:
    known_keys(table, ("incast", "mtu", "small_packets"))
    small = real(table["small_packets"], "small_packets", 0, 1) if "small_packets" in table else None
    mtu = whole(table["mtu"], "mtu", 64, 16384) if "mtu" in table else None
    incast = as_table(table.get("incast", {}), "incast", "{ fan_in = 64 }")
    known_keys(incast, ("fan_in",), "incast")
    return Traffic(mtu, small, whole(incast.get("fan_in", 1), "incast.fan_in", 1, MOST_PORTS))
