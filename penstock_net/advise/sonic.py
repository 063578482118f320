"""A configuration of SONiC, config_db.json: read, looked into by port, and written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from penstock_net.advise.formulas import Sonic
from penstock_net.advise.platform import ByHand, Platform, by_text
from penstock_net.advise.site import (
    DEFAULT_MTU,
    LARGEST_CELL,
    LONGEST_RESPONSE_NS,
    MOST_PORTS,
    Ports,
    Switch,
    Traffic,
    sharing,
    with_traffic,
)
from penstock_net.errors import SpecError
from penstock_net.inputs import natural, read_text, time_ps, whole

Tables = dict[str, dict[str, dict[str, Any]]]
READ = (
    "PORT",
    "CABLE_LENGTH",
    "BUFFER_POOL",
    "BUFFER_PROFILE",
    "BUFFER_PG",
    "BUFFER_QUEUE",
    "DEFAULT_LOSSLESS_BUFFER_PARAMETER",
    "LOSSLESS_TRAFFIC_PATTERN",
    "WRED_PROFILE",
    "QUEUE",
    "SCHEDULER",
    "PORT_QOS_MAP",
    "DSCP_TO_TC_MAP",
    "TC_TO_QUEUE_MAP",
    "TC_TO_PRIORITY_GROUP_MAP",
    "MAP_PFC_PRIORITY_TO_QUEUE",
    "PFC_PRIORITY_TO_PRIORITY_GROUP_MAP",
    "PFC_WD",
    "DEVICE_METADATA",
    "DEVICE_NEIGHBOR",
)
LONGEST_KEY = 4096
MARKS = ("all", "green", "green_yellow", "green_red")  # WRED profiles that mark green packets


@dataclass(frozen=True)
class Config:
    """A configuration: its tables as they are, those that are read and all others."""

    tables: dict[str, Any]

    @property
    def unknown(self) -> list[str]:
        """Tables that nothing here reads; they stay as they are."""
        return sorted(set(self.tables) - set(READ))

    def rows(self, table: str) -> dict[str, dict[str, Any]]:
        """The rows of a table that is read; none, if it is not there."""
        return self.tables.get(table, {})

    def text(self) -> str:
        """What `parse` reads as the same."""
        return json.dumps(self.tables, indent=4, sort_keys=True, ensure_ascii=False) + "\n"


@dataclass
class Port:
    """A port as the tables say; None or nothing where they do not, or where the value is none."""

    name: str
    mbit: int | None = None
    mtu: int = 9100
    lanes: int = 0
    metres: int | None = None
    pfc: set[int] = field(default_factory=set)
    watched: set[int] = field(default_factory=set)
    groups: dict[int, str] = field(default_factory=dict)  # profile of each priority group
    queues: dict[int, dict[str, Any]] = field(default_factory=dict)
    buffers: dict[int, str] = field(default_factory=dict)  # profile of each queue
    maps: dict[str, str] = field(default_factory=dict)


def read_config(path: Path) -> Config:
    """The configuration in a file.  SpecError: it is none."""
    return parse(read_text(str(path), "SITE"), str(path))


def parse(text: str, place: str) -> Config:
    """The configuration in a text.  SpecError: it is none, or says something twice."""
    try:
        tables = json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        remedy = "config save writes it whole" if error.pos >= len(text.rstrip()) else ""
        where = f"{place}:{error.lineno}:{error.colno}"
        raise SpecError(f"not valid JSON: {error.msg}", place=where, remedy=remedy) from None
    except (RecursionError, ValueError):
        raise SpecError("not valid JSON: too deep, or a number too long", place=place) from None
    except SpecError as error:
        raise error.within(place=place) from None
    if not isinstance(tables, dict):
        raise SpecError("must be an object of tables", place=place, remedy='such as {"PORT": {"Ethernet0": {"speed": "400000"}}}')
    for name in READ:
        table = tables.get(name, {})
        if not isinstance(table, dict):
            raise SpecError("must be an object of rows", path=name, value=table, place=place)
        for key, row in table.items():
            if not isinstance(row, dict):
                raise SpecError("must be an object of fields", path=f"{name}|{key}", value=row, place=place)
            for what, value in row.items():
                if not isinstance(value, (str, list)) or (isinstance(value, list) and not all(isinstance(v, str) for v in value)):
                    rule = "must be a text, or a list of texts"
                    raise SpecError(rule, path=f"{name}|{key} {what}", value=value, remedy='write numbers as "1"', place=place)
    if not any(name in tables for name in READ):
        raise SpecError("has no table of SONiC that is known", remedy=f"one of {', '.join(READ[:6])}, ...", place=place)
    if len(tables.get("PORT", {})) > MOST_PORTS:
        raise SpecError(f"has more than {MOST_PORTS} ports", place=place)
    return Config(tables)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise SpecError("is there twice", path=key[:80], remedy="leave one of them")
        found[key] = value
    return found


def number(value: Any, low: int = 0, high: int = 10**15) -> int | None:
    """A whole number as SONiC writes it, in a text; None: it is none, or out of range."""
    if not isinstance(value, str) or not re.fullmatch(r"[+-]?[0-9]{1,18}", value):
        return None
    return int(value) if low <= int(value) <= high else None


def numbers(value: Any) -> set[int]:
    """The priorities of "3,4"; others are left out."""
    return {int(one) for one in str(value).split(",") if re.fullmatch(r"\s*[0-7]\s*", one)}


def name_in(value: Any) -> str:
    """The name that a reference means: "name", or "[TABLE|name]" of older files."""
    text = value if isinstance(value, str) else ""
    match = re.fullmatch(r"\[\w+\|(.*)\]", text)
    return match[1] if match else text


def metres_in(value: Any) -> int | None:
    """The metres of "40m"; None: it is no length."""
    match = re.fullmatch(r"([0-9]{1,6})m", value) if isinstance(value, str) else None
    return int(match[1]) if match else None


def keys_of(key: str) -> Iterator[tuple[str, int]]:
    """The port and the number of each that a key such as "Ethernet0,Ethernet4|3-4" names; none if it is no such key."""
    names, _, span = key.rpartition("|")
    match = re.fullmatch(r"([0-9]{1,3})(?:-([0-9]{1,3}))?", span)
    if match and names and len(key) <= LONGEST_KEY:
        low, high = int(match[1]), int(match[2] or match[1])
        for name in names.split(","):
            yield from ((name, i) for i in range(low, min(high, low + 63) + 1))


def ports_of(config: Config) -> dict[str, Port]:
    """All ports of PORT, in the order of their names, with what other tables say of them."""
    ports = {}
    for name in sorted(config.rows("PORT"), key=natural):
        row = config.rows("PORT")[name]
        lanes = row.get("lanes", "")
        port = Port(name, number(row.get("speed"), 1), lanes=len(lanes.split(",")) if isinstance(lanes, str) and lanes else 0)
        port.mtu = number(row.get("mtu"), 1) or 9100
        ports[name] = port
    for row in config.rows("CABLE_LENGTH").values():
        for name in set(row) & set(ports):
            ports[name].metres = metres_in(row[name])
    qos = config.rows("PORT_QOS_MAP")
    for key, row in sorted(qos.items(), key=lambda item: item[0] != "global"):
        for name in ports if key == "global" else set(key.split(",")) & set(ports):
            port = ports[name]
            port.maps |= {what: name_in(value) for what, value in row.items() if what.endswith("_map")}
            if "pfc_enable" in row:
                port.pfc = numbers(row["pfc_enable"])
            if "pfcwd_sw_enable" in row:
                port.watched = numbers(row["pfcwd_sw_enable"])
    for key, row in config.rows("BUFFER_PG").items():
        for name, i in keys_of(key):
            if name in ports:
                ports[name].groups[i] = name_in(row.get("profile", ""))
    for key, row in config.rows("BUFFER_QUEUE").items():
        for name, i in keys_of(key):
            if name in ports:
                ports[name].buffers[i] = name_in(row.get("profile", ""))
    for key, row in config.rows("QUEUE").items():
        for name, i in keys_of(key):
            if name in ports:
                ports[name].queues[i] = ports[name].queues.get(i, {}) | row
    return ports


def group_of(config: Config, port: Port, priority: int) -> int:
    """The priority group of a PFC priority at a port: by its map, or the one of the same number."""
    rows = config.rows("PFC_PRIORITY_TO_PRIORITY_GROUP_MAP").get(port.maps.get("pfc_to_pg_map", ""), {})
    found = number(rows.get(str(priority)), 0, 63)
    return priority if found is None else found


def queue_of(config: Config, port: Port, priority: int) -> int:
    """The queue that pauses of a priority stop at a port."""
    rows = config.rows("MAP_PFC_PRIORITY_TO_QUEUE").get(port.maps.get("pfc_to_queue_map", ""), {})
    found = number(rows.get(str(priority)), 0, 63)
    return priority if found is None else found


def lossless_pool(config: Config) -> str:
    """The name of the pool of lossless priority groups."""
    for row in config.rows("BUFFER_PROFILE").values():
        name = name_in(row.get("pool", ""))
        if "xoff" in row and name in config.rows("BUFFER_POOL"):
            return name
    return "ingress_lossless_pool"


def marking_of(config: Config, ports: Iterable[Port], lossless: Iterable[int]) -> tuple[int, int, int] | None:
    """K_min, K_max in bytes and P_max in percent of the first lossless queue that marks; None: none does."""
    for port in ports:
        for priority in sorted(port.pfc & set(lossless)):
            queue = port.queues.get(queue_of(config, port, priority), {})
            row = config.rows("WRED_PROFILE").get(name_in(queue.get("wred_profile", "")), {})
            low, high = number(row.get("green_min_threshold")), number(row.get("green_max_threshold"))
            if str(row.get("ecn", "")).removeprefix("ecn_") in MARKS and low is not None and high is not None and low <= high:
                percent = number(row.get("green_drop_probability"), 0, 100)
                return low, high, 100 if percent is None else percent
    return None


def platform_of(config: Config) -> Platform | None:
    """The platform that DEVICE_METADATA names; None: it names none that is known."""
    row = config.rows("DEVICE_METADATA").get("localhost", {})
    return by_text(" ".join(str(row.get(key, "")) for key in ("hwsku", "platform")))


def by_hand(response: str | None, cell: int | None, mtu: int | None) -> ByHand | None:
    """A platform that is none of those known, as options say it; None: they do not.  SpecError: a bad value, or no response."""
    if response is None:
        for option, given in (("--cell", cell), ("--mtu", mtu)):
            if given is not None:
                raise SpecError("is of a platform by hand", remedy="give --response, too", place=option)
        return None
    time = time_ps(response, "--response") / 1000
    if time > LONGEST_RESPONSE_NS:
        raise SpecError("must be at most 1ms", path="--response", value=response)
    size = whole(0 if cell is None else cell, "--cell", 0, LARGEST_CELL)
    return ByHand(0 if mtu is None else whole(mtu, "--mtu", 64, 16384), time, size)


def own_platform(config: Config, own: ByHand) -> Platform:
    """A platform by hand for a configuration, which says how many priorities pause, and which packets, if nobody else did:
    those of LOSSLESS_TRAFFIC_PATTERN, or else the largest ones that PORT lets through."""
    traffic = traffic_of(config)
    ports = ports_of(config).values()
    lossless = set().union(*(port.pfc for port in ports))
    small = 1.0 if traffic.small is None else traffic.small
    largest = max((port.mtu for port in ports if port.pfc), default=DEFAULT_MTU)
    formula = replace(own, mtu=own.mtu or traffic.mtu or largest, small=small, lossless=max(len(lossless), 1))
    return Platform("by hand", "", "", formula, {}, {})


def traffic_of(config: Config) -> Traffic:
    """What LOSSLESS_TRAFFIC_PATTERN says."""
    for row in config.rows("LOSSLESS_TRAFFIC_PATTERN").values():
        percent = number(row.get("small_packet_percentage"), 0, 100)
        return Traffic(number(row.get("mtu"), 64, 16384), None if percent is None else percent / 100)
    return Traffic()


def is_dynamic(config: Config, port: Port, platform: Platform) -> bool:
    """Whether SONiC computes the port's headroom by its formula, with the MTU in PORT: its lossless groups have "NULL" for a
    profile.  A table of rows is by speed and cable alone, whatever the MTU is."""
    groups = {port.groups.get(group_of(config, port, i)) for i in port.pfc}
    return isinstance(platform.formula, Sonic) and groups == {"NULL"}


def _set_aside(config: Config, ports: list[Port]) -> int:
    """Bytes that the lossless groups of ports have for themselves, by their profiles."""
    profiles = config.rows("BUFFER_PROFILE")
    names = (port.groups.get(group, "") for port in ports for group in {group_of(config, port, i) for i in port.pfc})
    return sum(number(profiles.get(name, {}).get("size")) or 0 for name in names)


def _computed(switch: Switch) -> int:
    """Bytes that the lossless groups have whose size SONiC computes itself."""
    total = 0
    for kind in switch.ports:
        if kind.dynamic:
            of = switch.platform.at_port(kind.mtu)
            size = of.profile(of.headroom(kind.gbps, kind.metres), kind.lanes, switch.shares)["size"]
            total += len(kind.names) * len(switch.lossless) * size
    return total


def switch_of(config: Config, platform: Platform) -> Switch | None:
    """The switch that a configuration is of; None: no port has PFC, a speed and a length of cable.

    Its buffer is what the pool, its headroom and the lossless groups have now, so that advice never hands out more.
    """
    ports = [p for p in ports_of(config).values() if p.pfc and p.mbit and p.mbit % 1000 == 0 and p.metres]
    if not ports:
        return None
    kinds: dict[tuple[int, int, int, int, bool], list[str]] = {}
    for port in ports:
        assert port.mbit is not None and port.metres is not None
        dynamic = is_dynamic(config, port, platform)
        own = port.mtu if dynamic else 0
        kinds.setdefault((port.mbit // 1000, port.metres, port.lanes, own, dynamic), []).append(port.name)
    classes = tuple(Ports(tuple(names), *kind) for kind, names in kinds.items())
    lossless = tuple(sorted(set().union(*(port.pfc for port in ports))))
    pool = config.rows("BUFFER_POOL").get(lossless_pool(config), {})
    shared = number(pool.get("xoff"))
    ratio = 0.0
    for row in config.rows("DEFAULT_LOSSLESS_BUFFER_PARAMETER").values():
        ratio = float(number(row.get("over_subscribe_ratio"), 0, 100) or 0)
    of = with_traffic(platform, traffic_of(config))
    about = config.rows("DEVICE_METADATA").get("localhost", {})
    name, hwsku = str(about.get("hostname", "switch"))[:64], str(about.get("hwsku", ""))[:64]
    size = number(pool.get("size"))
    buffer = of.table.get("buffer", 0) if size is None else size + (shared or 0) + _set_aside(config, ports)
    shares = shared is not None
    ratio = (ratio or 1.0) if shares and not shared else 0.0
    marking = marking_of(config, ports, lossless)
    switch = sharing(Switch(name, of, classes, lossless, buffer, ratio, shared or 0, hwsku=hwsku, marking=marking))
    return switch if size is None else replace(switch, buffer=buffer + _computed(switch))
