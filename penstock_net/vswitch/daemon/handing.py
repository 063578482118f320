"""A running switch on its way to another process: everything that the one knows, and the other goes on with.

The one says what it has (`describe`), of which the other builds its switch (`build`) while frames still pass; then the one stops
and says where everything is (`stop`), and the other goes on from there (`resume`), and starts what acts by itself (`begin`).
"""

import contextlib
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock_net.errors import PenstockError
from penstock_net.vswitch.attach import devices, edge, handing
from penstock_net.vswitch.attach.handing import Descriptors
from penstock_net.vswitch.daemon import operations
from penstock_net.vswitch.dataplane.driver import install_device, prepare_device, sizes
from penstock_net.vswitch.memory.region import Region
from penstock_net.vswitch.support import carried
from penstock_net.vswitch.support.blocks import Blocks
from penstock_net.vswitch.support.settings import WHILE_RUNNING, with_units
from penstock_net.vswitch.world import os, socket

if TYPE_CHECKING:
    from penstock_net.vswitch.daemon.server import Daemon


def describe(daemon: "Daemon", fds: Descriptors) -> dict[str, Any]:
    """What does not change while frames pass, when nothing else acts, as JSON can hold it: ports, and all their descriptors."""
    numbers, settings = daemon.switch.numbers, with_units(daemon.switch.settings)
    with daemon.lock:
        attached = {name: connection for name, connection in daemon.attached.items() if name in numbers}
    return {
        "identity": daemon.identity,
        "listener": fds.add(daemon.listener.fileno()),
        "metrics": fds.add(daemon.metrics.listener.fileno()) if daemon.metrics else None,
        "ports": daemon.ports,
        "base": daemon.base._asdict(),
        "added": sorted(daemon.added),
        "settings": {key: settings[key] for key in WHILE_RUNNING},
        "draining": daemon.draining,
        "attach_after": daemon.attach_after,
        "started": daemon.started,
        "upgrades": daemon.upgrades,
        "devices": {name: _device(device, numbers[name], fds) for name, device in daemon.devices.items()},
        "plugged": {name: _plugged(daemon, name, numbers[name], fds) for name in daemon.plugged if name in attached},
        "applications": {name: _application(daemon, name, numbers[name], fds) for name in attached if name not in daemon.plugged},
        "kept": daemon.keeper.state() if daemon.keeper else {},
    }


def stop(daemon: "Daemon", blocks: Blocks) -> dict[str, Any]:
    """Where everything is when the workers stand still; arrays are in `blocks`.  To be called in the first worker's thread."""
    return {
        "events": daemon.events.state(),
        "watch": daemon.watcher.watch.state(),
        "devices": {name: handing.stop(device) for name, device in _all_devices(daemon)},
        "plane": carried.pack(daemon.switch, blocks, sizes()),
    }


def _all_devices(daemon: "Daemon") -> list[tuple[str, devices.Device]]:
    return [*daemon.devices.items(), *daemon.plugged.items()]


def _device(device: devices.Device, number: int, fds: Descriptors) -> dict[str, Any]:
    return {"number": number, **handing.give(device, fds)}


def _holder(daemon: "Daemon", name: str, fds: Descriptors) -> dict[str, Any]:
    """Who has attached to a port, and the connection."""
    return {"connection": fds.add(daemon.attached[name].fileno()), "who": list(daemon.holders[name])}


def _plugged(daemon: "Daemon", name: str, number: int, fds: Descriptors) -> dict[str, Any]:
    device = daemon.plugged[name]
    edge = device.driver.edge
    return {"lost": edge.lost if edge else None, **_holder(daemon, name, fds), **_device(device, number, fds)}


def _application(daemon: "Daemon", name: str, number: int, fds: Descriptors) -> dict[str, Any]:
    region = daemon.switch.regions[number]
    wake, bell = daemon.switch.fds[number]
    shared = {"region": fds.add(region.fd), "wake": fds.add(wake), "bell": fds.add(bell), "shape": region.shape}
    return {"number": number, **shared, **_holder(daemon, name, fds)}


# ---- The other process ----


def build(daemon: "Daemon", found: Mapping[str, Any], fds: list[int]) -> None:
    """Give a daemon that has done nothing yet the ports that were described, while the other process still drives them."""
    daemon.ports = found["ports"]
    daemon.base = operations.Base(found["base"]["settings"], found["base"]["ports"])
    daemon.added = set(found["added"])
    daemon.identity = (found["identity"][0], found["identity"][1])
    page = None if found["metrics"] is None else socket.socket(fileno=fds[found["metrics"]])
    daemon.listen_at(socket.socket(fileno=fds[found["listener"]]), page)
    daemon.draining, daemon.started, daemon.upgrades = found["draining"], found["started"], found["upgrades"]
    daemon.attach_after = dict(found["attach_after"])
    daemon.switch.set(found["settings"])
    rows = {**found["devices"], **found["plugged"], **found["applications"]}
    for name, row in sorted(rows.items(), key=lambda item: int(item[1]["number"])):
        port = daemon.ports[name]
        if name in found["applications"]:
            region = Region.attach(fds[row["region"]], row["shape"])
            os.close(fds[row["region"]])
            pair = fds[row["wake"]], fds[row["bell"]]
            daemon.switch.attach(name, region, port["addresses"], pair, port["guarded"], row["number"])
        else:
            _install(daemon, name, row, fds, plugged=name in found["plugged"])


def _install(daemon: "Daemon", name: str, row: Mapping[str, Any], fds: list[int], *, plugged: bool) -> None:
    port = daemon.ports[name]
    device = handing.take(None if plugged else devices.validate_device(port, name), row, fds)
    prepare_device(daemon.switch, name, device, fds[row["region"]])
    os.close(fds[row["region"]])
    install_device(daemon.switch, name, device, port["addresses"], port["guarded"], row["number"])
    if row["is_away"]:
        device.driver.suspend(daemon.switch)
    device.driver.state, device.driver.why = row["state"], row["why"]
    (daemon.plugged if plugged else daemon.devices)[name] = device
    if row["is_guarded"]:
        with contextlib.suppress(OSError, PenstockError):  # its interface is gone: the keeper says so
            device.guard_on(partial(daemon.switch.held_flows, name), daemon.switch.settings)
    if plugged and row["lost"] is not None:
        operations.count_reported(device, row["lost"])


def resume(daemon: "Daemon", found: Mapping[str, Any], blocks: Mapping[str, np.ndarray]) -> None:
    """Have everything be where it was stopped."""
    daemon.events.take(found["events"])
    daemon.watcher.watch.take(found["watch"])
    for name, device in _all_devices(daemon):
        handing.resume(device, found["devices"][name])
    carried.unpack(daemon.switch, found["plane"], blocks, sizes())


def begin(daemon: "Daemon", found: Mapping[str, Any], fds: list[int]) -> None:
    """Start what acts by itself: edges, the keeper, and a thread for each application."""
    edge.start_all([device.edge for device in daemon.devices.values() if device.edge])
    for device in daemon.devices.values():
        if device.port.front:
            device.port.front.start()
    assert daemon.keeper is not None
    daemon.keeper.take(daemon.devices, found["kept"])
    for name, row in [*found["applications"].items(), *found["plugged"].items()]:
        connection = socket.socket(fileno=fds[row["connection"]])
        daemon.stay_attached(name, connection, operations.Peer(*row["who"]))
