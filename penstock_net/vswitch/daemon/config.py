"""Validation of a switch's SPEC.toml and of changes of a running switch: every value is checked before anything is opened.

Tables: [switch] (settings of the data plane, and `socket`, `group`, `cpu` or `cpus`, ...), [[port]], and for a switch that
runs a scheme of the simulator [scheme] and [[link]]. A SpecError names the key, the rule and the remedy.
"""

import contextlib
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock_net.errors import SpecError, nearest, shown
from penstock_net.inputs import boolean, inside, known_keys, real, whole
from penstock_net.units import parse_size
from penstock_net.vswitch.attach.devices import keys_of, validate_device
from penstock_net.vswitch.attach.open import open_port
from penstock_net.vswitch.dataplane.switch import Switch
from penstock_net.vswitch.linux.unix_socket import socket_path
from penstock_net.vswitch.support.settings import DEFAULTS, WHILE_RUNNING, address_words, validate_settings
from penstock_net.vswitch.world import os

TABLES = ("switch", "port", "scheme", "link")
SWITCH_KEYS = ("socket", "group", "cpu", "cpus", "realtime", "metrics")  # of [switch], beside the settings of the data plane
PORT_KEYS = ("name", "addresses", "uid", "memory", "guarded", "kind")
LINE_KEYS = ("rate", "delay", "node")  # of a [[port]] of a switch that runs a scheme
CHANGEABLE_PORT_KEYS = ("addresses", "uid", "memory", "guarded")  # while the switch runs
CAPTURE_KEYS = ("capture", "drops", "snap", "memory")
MOST_FLOWS_SHOWN = 1 << 20
LONGEST_DRAIN_S = 3600

PortTable = dict[str, Any]


@dataclass(frozen=True)
class Config:
    """A validated SPEC.toml."""

    settings: dict[str, Any]  # of the data plane, as given
    ports: dict[str, PortTable]  # by name
    socket: str | None  # path; None: the default
    group: str | None  # whose members may look
    cpus: list[int]  # one for each worker; empty: the workers are not pinned
    metrics: str | None  # address:port of the metrics page
    realtime: bool  # whether the workers precede all usual threads


def validate_spec(content: Mapping[str, Any]) -> Config:
    """Check a whole SPEC.toml.  SpecError: a table, key or value is wrong."""
    known_keys(content, TABLES)
    switch = content.get("switch", {})
    if not isinstance(switch, Mapping):
        raise SpecError("must be a table, [switch]", path="switch")
    settings = {k: v for k, v in switch.items() if k not in SWITCH_KEYS}
    if "scheme" not in settings:
        validate_settings(settings)
        _no_scheme_keys(content)
    path, group = switch.get("socket"), switch.get("group")
    if "socket" in switch:
        socket_path(path, "switch.socket")
    if "group" in switch and (not isinstance(group, str) or not group):
        raise SpecError('must be the name of a group, such as "netops"', path="switch.group", value=group)
    cpus = _cpus(switch, settings.get("workers", 1))
    if "metrics" in switch:
        parse_address(switch["metrics"])
    return Config(
        settings,
        _ports(content.get("port", [])),
        path,
        group,
        cpus,
        switch.get("metrics"),
        boolean(switch.get("realtime", False), "switch.realtime"),
    )


def _no_scheme_keys(content: Mapping[str, Any]) -> None:
    """SpecError for rates and links without [switch] scheme."""
    tables = content.get("port", [])
    found = [key for key in ("scheme", "link") if key in content]
    for table in tables if isinstance(tables, list) else []:
        found += [f"port.{key}" for key in LINE_KEYS if isinstance(table, Mapping) and key in table]
    if found:
        raise SpecError(
            "is only for a switch that runs a scheme of the simulator", path=found[0], remedy='give [switch] scheme = "bfc"'
        )


def _cpus(switch: Mapping[str, Any], workers: int) -> list[int]:
    """The CPUs to which the workers are pinned: one each, or none."""
    allowed = sorted(os.sched_getaffinity(0))
    if "cpu" in switch and "cpus" in switch:
        rule = f"switch.cpus = {switch['cpus']!r} is given too"
        raise SpecError(rule, path="switch.cpu", value=switch["cpu"], remedy="leave one out")
    key = "cpu" if "cpu" in switch else "cpus"
    cpus = [switch["cpu"]] if key == "cpu" else switch.get("cpus", [])
    if not isinstance(cpus, list) or any(isinstance(cpu, bool) or cpu not in allowed for cpu in cpus):
        raise SpecError(f"must be of {allowed}, or left out", path=f"switch.{key}", value=switch[key])
    if cpus and (len(cpus) != workers or len(set(cpus)) != workers):
        raise SpecError(f"must name one CPU for each of {workers} workers", path=f"switch.{key}", value=switch[key])
    return cpus


def parse_address(text: Any) -> tuple[str, int]:
    """Address and port of "127.0.0.1:9464" or "[::1]:9464"."""
    host, colon, port = text.rpartition(":") if isinstance(text, str) else ("", "", "")
    with contextlib.suppress(ValueError):
        address = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
        if colon and port.isdigit() and int(port) < 65536 and (address.version == 6) == host.startswith("["):
            return str(address), int(port)
    raise SpecError('must be an address and a port, such as "127.0.0.1:9464" or "[::1]:9464"', path="switch.metrics", value=text)


def _ports(tables: Any) -> dict[str, PortTable]:
    if not isinstance(tables, list) or not all(isinstance(table, Mapping) for table in tables):
        raise SpecError("must be tables, [[port]]", path="port")
    ports: dict[str, PortTable] = {}
    for i, table in enumerate(tables):
        port = validate_port(table, f"port {i + 1}")
        if port["name"] in ports:
            raise SpecError(f"port {i + 1}: a port named {port['name']!r} exists already", remedy="use another name")
        ports[port["name"]] = port
    if not ports:
        raise SpecError('no [[port]]: applications attach to ports, such as name = "a", addresses = ["10.0.0.1"]')
    _each_once(ports)
    return ports


def _each_once(ports: Mapping[str, PortTable]) -> None:
    """SpecError: two ports share an address or a device, or a port has an address twice."""
    owners: dict[tuple[int, int, int], str] = {}
    devices: dict[tuple[Any, ...], str] = {}
    for name, port in ports.items():
        where = f"port.{name}.addresses"
        if len(set(map(address_words, port["addresses"]))) < len(port["addresses"]):
            raise SpecError("has an address twice", path=where, value=port["addresses"], remedy="remove one")
        for address in port["addresses"]:
            if (owner := owners.setdefault(address_words(address), name)) != name:
                remedy = "an address belongs to one port only; change both at once, or use another address"
                raise SpecError(f"{address} belongs to port {owner!r}", path=where, remedy=remedy)
        for what, key in _devices_of(port):
            if (owner := devices.setdefault(key, name)) != name:
                rule = f"{what} belongs to port {owner!r}"
                raise SpecError(rule, path=f"port.{name}", remedy="use another one")


def _devices_of(port: PortTable) -> list[tuple[str, tuple[Any, ...]]]:
    """Resources that no two ports can share, in words and as a key: an interface or a queue of it, a local address, a file."""
    place = port.get("node"), port.get("netns")
    inside = f" in namespace {port['netns']}" if "netns" in port else ""
    found: list[tuple[str, tuple[Any, ...]]] = []
    if "device" in port:
        queue = port.get("queue", 0) if port["kind"] == "xdp" else None
        of_queue = "" if queue is None else f" queue {queue}"
        found.append((f"device {port['device']}{of_queue}{inside}", ("device", *place, port["device"], queue)))
    if "local" in port:
        found.append((f"local {shown(port['local'])}{inside}", ("local", *place, str(port["local"]))))
    if "path" in port:
        found.append((f"the socket {shown(port['path'])}", ("path", port.get("node"), os.path.realpath(str(port["path"])))))
    if "write" in port:
        found.append((f"the file {shown(port['write'])}", ("write", port.get("node"), os.path.realpath(str(port["write"])))))
    return found


def validate_port(table: Mapping[str, Any], where: str) -> PortTable:
    """A validated [[port]] with defaults, sizes in bytes; the options of its device are returned unchanged."""
    device = validate_device(table, where)
    known_keys(table, (*PORT_KEYS, *LINE_KEYS, *keys_of(device.get("kind", ""))), where)
    name, addresses, uid = table.get("name"), table.get("addresses"), table.get("uid")
    if name is None:
        raise SpecError("is missing", path=f"{where}.name", remedy='such as name = "a"')
    if not isinstance(name, str) or not name:
        raise SpecError('must be a name, such as "a"', path=f"{where}.name", value=name)
    if addresses is None and device.get("learn"):
        addresses = []
    if addresses is None:
        raise SpecError("is missing", path=f"{where}.addresses", remedy='such as addresses = ["10.0.0.1"]')
    needed = not device.get("learn")
    if (
        not isinstance(addresses, list)
        or (needed and not addresses)
        or not all(isinstance(address, str) for address in addresses)
    ):
        raise SpecError('must be a list, such as ["10.0.0.1"]', path=f"{where}.addresses", value=addresses)
    with inside(f"{where}.addresses"):
        for address in addresses:
            address_words(address)
    if uid is not None and (isinstance(uid, bool) or not isinstance(uid, int) or uid < 0):
        raise SpecError("must be a user ID, or left out for any user that may open the socket", path=f"{where}.uid", value=uid)
    guarded = boolean(table.get("guarded", True), f"{where}.guarded")
    memory = parse_size(table.get("memory", "64MB"), f"{where}.memory", positive=True)
    lines = {key: table[key] for key in LINE_KEYS if key in table}
    port = {"name": name, "addresses": addresses, "uid": uid, "guarded": guarded, "memory": memory, "kind": "shm"}
    return {**port, **device, **lines}


# ---- Changes of a running switch ----


def validate_change(changes: Mapping[str, Any], ports: Mapping[str, PortTable]) -> tuple[dict[str, Any], dict[str, PortTable]]:
    """The new settings and all ports after changes such as {"th_over": "64KB", "port.a.uid": 1000}.

    The settings are checked by the switch itself.
    """
    settings: dict[str, Any] = {}
    tables = {name: dict(port) for name, port in ports.items()}
    for key, value in changes.items():
        if not key.startswith("port."):
            settings[key] = value
            continue
        name, _, what = key.removeprefix("port.").rpartition(".")
        if name not in tables:
            raise SpecError(f"the switch has no port {name!r}", path=key, remedy=nearest(name, tables))
        if what not in CHANGEABLE_PORT_KEYS:
            known = ", ".join(CHANGEABLE_PORT_KEYS)
            raise SpecError("cannot be set while running", path=key, remedy=f"these can: {known}")
        tables[name][what] = value
    return settings, validate_ports(tables, ports)


def fixed_of(content: Mapping[str, Any]) -> dict[str, Any]:
    """What of a SPEC.toml cannot change while the switch runs, by path: also a scheme of the simulator, its links and lines."""
    switch = content.get("switch", {})
    found = {f"switch.{key}": switch.get(key) for key in SWITCH_KEYS}
    found |= {f"switch.{key}": value for key, value in switch.items() if key not in DEFAULTS}
    found |= {key: content[key] for key in ("scheme", "link") if key in content}
    lines = [(table, key) for table in content["port"] for key in LINE_KEYS if key in table]
    return found | {f"port.{table['name']}.{key}": table[key] for table, key in lines}


def validate_reload(
    content: Mapping[str, Any],
    before: Mapping[str, Any],
    settings: Mapping[str, Any],
    ports: Mapping[str, PortTable],
    added: Mapping[str, PortTable],
) -> tuple[dict[str, Any], dict[str, PortTable]]:
    """The settings that change and all ports after a reload of a changed SPEC.toml.

    `before` is what cannot change of that which the switch was started with; `settings` and `ports` are the present ones; `added`
    those that no file has named, which are kept.
    """
    config = validate_spec(content)
    fixed = fixed_of(content)
    for path in {**before, **fixed}:
        if fixed.get(path) != before.get(path):
            raise SpecError("cannot be changed while running", path=path, remedy="it takes a new start")
    wanted = validate_settings({key: value for key, value in config.settings.items() if key in DEFAULTS})
    if "scheme" in config.settings:
        del wanted["mode"]  # whose place the scheme has taken
    changed = [key for key in wanted if wanted[key] != settings[key]]
    for key in changed:
        if key not in WHILE_RUNNING:
            raise SpecError("cannot be changed while running", path=f"switch.{key}", remedy="it takes a new start")
    wanted_ports = {**{name: port for name, port in added.items() if name not in config.ports}, **config.ports}
    return {key: config.settings.get(key, DEFAULTS[key]) for key in changed}, validate_ports(wanted_ports, ports)


def validate_ports(tables: Mapping[str, Mapping[str, Any]], before: Mapping[str, PortTable]) -> dict[str, PortTable]:
    """All ports of a running switch after a change: no address may occur twice, and a device must be the same as before."""
    ports = {name: validate_port(table, f"port.{name}") for name, table in tables.items()}
    _each_once(ports)
    for name in ports.keys() & before.keys():
        if validate_device(before[name], name) != validate_device(ports[name], name):
            remedy = f"remove it, `penstock vswitch port del {name}`, and try again"
            raise SpecError(f"port {name!r}: its device cannot be changed while running", remedy=remedy)
    return ports


def validate_new_ports(tables: Any, ports: Mapping[str, PortTable]) -> dict[str, PortTable]:
    """Ports that are added to a running switch: [[port]] tables whose names, addresses and devices no other port has."""
    if not isinstance(tables, list) or not tables or not all(isinstance(table, Mapping) for table in tables):
        raise SpecError("must be a list of tables as [[port]]", path="port_add")
    new: dict[str, PortTable] = {}
    for i, table in enumerate(tables):
        port = validate_port(table, f"port {table.get('name', i + 1)}")
        _no_scheme_keys({"port": [table]})
        if port["name"] in ports or port["name"] in new:
            raise SpecError(f"a port named {port['name']!r} exists already", remedy="use another name, or remove it: port del")
        new[port["name"]] = port
    _each_once({**ports, **new})
    return new


# ---- Requests to a running switch ----


def validate_capture(message: Mapping[str, Any], ports: Mapping[str, PortTable]) -> list[str]:
    """The ports of a capture: those named, or all."""
    names = message["capture"]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise SpecError("must be a list of ports", path="capture", value=names, remedy="an empty list captures all ports")
    for name in names:
        if name not in ports:
            raise SpecError(f"port {name!r}: the switch has no such port", remedy=nearest(name, ports))
    known_keys(message, CAPTURE_KEYS, "capture")
    return list(dict.fromkeys(names)) or list(ports)


def validate_most(most: Any) -> int:
    """The largest number of flows to show."""
    return whole(most, "show.most", 0, MOST_FLOWS_SHOWN)


def validate_seconds(seconds: Any) -> float:
    """The timeout of a drain, s."""
    return real(seconds, "drain.seconds", 0, LONGEST_DRAIN_S)


# ---- The switch that a specification asks for ----


def make_switch(content: Mapping[str, Any], config: Config) -> Any:
    """A Switch, or with [switch] scheme a SchemeSwitch, which runs a scheme of the simulator, with its links to other nodes."""
    switch = build_switch(content, config)
    if "scheme" in config.settings and switch.node >= 0:
        _join_nodes(switch, config.ports, content.get("link", []))
    return switch


def build_switch(content: Mapping[str, Any], config: Config) -> Any:
    """The same without links to other nodes: no device or socket is opened."""
    if "scheme" not in config.settings:
        return Switch(**config.settings)
    from penstock_net.vswitch.schemes.switch import SchemeSwitch  # imports the simulator, which the switch itself does without

    places = [{key: port[key] for key in ("name", *LINE_KEYS) if key in port} for port in config.ports.values()]
    parameters, links = content.get("scheme", {}), content.get("link", [])
    if not isinstance(parameters, Mapping):
        raise SpecError("must be a table, [scheme], of its parameters", path="scheme")
    if not isinstance(links, list) or not all(isinstance(link, Mapping) for link in links):
        raise SpecError("must be tables, [[link]], such as between = [0, 1]", path="link")
    return SchemeSwitch(places, links, parameters, **config.settings)


def _join_nodes(switch: Any, ports: Mapping[str, PortTable], links: Any) -> None:
    """Set up one of several nodes: the addresses at other nodes, and a UDP port for each of its links."""
    for name, port in ports.items():
        if port.get("node", 0) != switch.node:
            switch.know(name, port["addresses"])
    for i, link in links_of(switch, links):
        trunk = open_trunk(switch, i, link)
        try:
            switch.join(link["between"][1 - link["between"].index(switch.node)], trunk)
        except SpecError:
            trunk.close()
            raise


def links_of(switch: Any, links: Any) -> list[tuple[int, Mapping[str, Any]]]:
    """The links of a switch that is one of several nodes, with their numbers."""
    return [(i, link) for i, link in enumerate(links) if switch.node in link["between"]]


def open_trunk(switch: Any, i: int, link: Mapping[str, Any]) -> Any:
    """The UDP port of a link to another node."""
    ends, here = link.get("ends"), link["between"].index(switch.node)
    if not isinstance(ends, list) or len(ends) != 2 or not all(isinstance(end, str) for end in ends):
        rule = 'must be the addresses of both nodes, such as ["10.0.0.1:4800", "10.0.0.2:4800"]'
        remedy = f"[switch] node = {switch.node} runs one of them"
        raise SpecError(rule, path=f"link {i + 1}.ends", value=ends, remedy=remedy)
    return open_port("udp", local=ends[here], peer=ends[1 - here], headers=False)
