"""Checks whether this machine can run a specification, without running the switch: `penstock vswitch up --check`.

Each ability is tried and undone, as in `doctor`; existing interfaces, namespaces and files are only inspected.
"""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from penstock_net.errors import PenstockError, SpecError
from penstock_net.vswitch.attach import devices
from penstock_net.vswitch.daemon import descriptors, places, protocol
from penstock_net.vswitch.daemon.config import Config, PortTable, build_switch, links_of, open_trunk, parse_address, validate_spec
from penstock_net.vswitch.daemon.doctor import BASIC, ability, needs, unwritable
from penstock_net.vswitch.linux import netns
from penstock_net.vswitch.linux.interfaces import device_name, exists, mtu_of
from penstock_net.vswitch.linux.scheduling import refusal
from penstock_net.vswitch.linux.set_up import Interface
from penstock_net.vswitch.world import os, socket


def missing(content: Mapping[str, Any], path: str | None = None) -> list[str]:
    """What this machine lacks for a specification, one line each; empty if the switch can run.  SpecError: it is not valid.

    path   control socket, in place of the specification's
    """
    config = validate_spec(content)
    found = [*_of_switch(config, path), *_of_links(content, config)]
    wanted = dict.fromkeys(name for port in config.ports.values() for name in _abilities(port))
    lacking = {each.name: each for each in map(ability, (*BASIC, *wanted)) if not each.permitted}
    for name in lacking.keys() & BASIC.keys():
        found.append(f"{name}: {lacking[name].detail}")
    for name, port in config.ports.items():
        lines = [f"{lacking[each].name}: {lacking[each].detail}" for each in _abilities(port) if each in lacking]
        found += [f"port {name}: {line}" for line in lines or _of_device(name, port)]
    return found


def _abilities(port: PortTable) -> list[str]:
    """The abilities that a port needs, in addition to those that every switch needs."""
    names = [name for name in needs()[port["kind"]] if name not in BASIC and name != "socket"]
    if port["kind"] == "tap":
        names += ["flow rates", "udp sockets"] if port.get("edge", True) else []
    return names


def _of_switch(config: Config, path: str | None) -> Iterator[str]:
    """Problems with the socket, the group, the limit of descriptors, and the address of the metrics."""
    try:
        where = path or config.socket or places.default_socket()
        if problem := unwritable(where):
            yield f"socket {where}: {problem}"
        elif os.path.exists(where):
            with socket.socket(socket.AF_UNIX) as probe, contextlib.suppress(OSError):
                probe.connect(where)
                yield f"socket {where}: {protocol.describe_listener(probe)}"
        if config.group:
            places.group_number(config.group)
    except PenstockError as error:
        yield str(error)
    if too_low := descriptors.problem(config.ports):
        yield str(too_low)
    if refused := refusal(config.realtime):
        yield str(refused)
    if config.metrics:
        host, number = parse_address(config.metrics)
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, number))
                probe.listen(1)
            except OSError as error:
                yield f"metrics {config.metrics}: cannot listen there ({error.strerror})"


def _of_links(content: Mapping[str, Any], config: Config) -> Iterator[str]:
    """Problems with the links of a switch that runs a scheme as one of several nodes."""
    switch = build_switch(content, config)
    try:
        if "scheme" in config.settings and switch.node >= 0:
            for i, link in links_of(switch, content.get("link", [])):
                try:
                    open_trunk(switch, i, link).close()
                except SpecError as error:
                    yield f"link {i + 1}: {error}"
    finally:
        switch.close()


def _of_device(name: str, port: PortTable) -> list[str]:
    """Problems with the device of a port."""
    kind = port["kind"]
    try:
        if kind == "pcap":
            return _of_files(port)
        if kind in ("packet", "udp"):  # opening them changes nothing
            table = devices.validate_device(port, f"port.{name}")
            devices.open_device(table, port["addresses"], f"port {name!r}").close()
        elif kind in ("tap", "xdp"):
            namespace = netns.open_netns(port["netns"]) if "netns" in port else None
            with contextlib.ExitStack() as at_end:
                if namespace:
                    at_end.callback(namespace.close)
                    at_end.enter_context(namespace.enter())
                if kind == "xdp":
                    mtu_of(port["device"], "device")
                elif _kind_of(device_name(port["device"], "device")) not in (None, "tun"):
                    return [f"device {port['device']}: an interface of that name exists and is not a TAP"]
    except PenstockError as error:
        return [str(error)]
    return []


def _kind_of(device: str) -> str | None:
    """Kind of an interface of this namespace, "" if it has none; None if the interface does not exist."""
    if not exists(device):
        return None
    with Interface(device) as interface:
        return interface.state().kind


def _of_files(port: PortTable) -> list[str]:
    """Problems with the files of a `pcap` port."""
    found = []
    read, write = port.get("read"), port.get("write")
    if read is not None and not os.access(str(read), os.R_OK):
        found.append(f"read {read}: cannot be read")
    if write is not None and (problem := unwritable(str(write))):
        found.append(f"write {write}: {problem}")
    return found
