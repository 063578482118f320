"""Ports that come and go while the switch runs, and changes of its settings: all of a request or none.

Devices are opened, set up and given their memory before the workers stop for a moment to take them; what was opened is closed
again when something fails.  Ports are removed at last, since that cannot be undone.
"""

import contextlib
import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from penstock_net.errors import PenstockError, SpecError, nearest
from penstock_net.vswitch.attach import devices
from penstock_net.vswitch.daemon import descriptors, kept_ports
from penstock_net.vswitch.daemon.config import PortTable, validate_new_ports
from penstock_net.vswitch.daemon.log import log
from penstock_net.vswitch.dataplane.driver import install_device, prepare_device
from penstock_net.vswitch.linux import netns
from penstock_net.vswitch.support import losses
from penstock_net.vswitch.support.settings import with_units
from penstock_net.vswitch.world import time

if TYPE_CHECKING:
    from penstock_net.vswitch.daemon.server import Daemon

HANG_UP_S = 5.0  # until the thread of an application's connection has ended
Losses = dict[str, dict[str, int]]  # frames by port and reason


def add(daemon: "Daemon", tables: Any, keep: bool = False) -> dict[str, dict[str, Any]]:
    """Add ports from tables as [[port]] has them; what became of each: its number, and the Ethernet address of its interface.

    keep    add them again when a switch with this control socket is started
    """
    if daemon.draining:
        raise SpecError("the switch is being drained and takes no ports", path="port_add")
    new = validate_new_ports(tables, daemon.ports)
    apply(daemon, {}, {**daemon.ports, **new})
    daemon.base.ports.update(new)
    daemon.added.update(new)
    if keep:
        _keep(daemon, tables)
    return {name: _answer(port, daemon.devices.get(name)) for name, port in new.items()}


def _keep(daemon: "Daemon", tables: Iterable[dict[str, Any]]) -> None:
    """Keep ports that were added.  PenstockError: they cannot be, and were removed."""
    try:
        for table in tables:
            device = daemon.devices.get(table["name"])
            kept_ports.keep(daemon.path, table, device is not None and device.before is not None)
    except OSError as error:
        remove(daemon, [table["name"] for table in tables])
        raise PenstockError(f"{error.filename}: the port cannot be kept ({error.strerror})") from None


def add_kept(daemon: "Daemon") -> None:
    """Add the ports that are kept from an earlier run, but those whose namespace is gone; what fails is an event."""
    tables = []
    for name in kept_ports.names(daemon.path):
        table = kept_ports.read(daemon.path, name)
        if table is None or ("netns" in table and netns.identity(table["netns"]) is None):
            kept_ports.forget(daemon.path, name)
            daemon.events.add("port not kept", name, "its namespace is gone" if table else "its file cannot be read")
        else:
            tables.append(table)
    if tables:
        with contextlib.suppress(PenstockError):  # of one of them: then one by one
            add(daemon, tables)
    for table in tables:
        if table["name"] not in daemon.added:
            try:
                add(daemon, [table])
            except PenstockError as error:
                daemon.events.add("port not added", table["name"], str(error), logging.WARNING)
        if table["name"] in daemon.devices and not kept_ports.was_found(daemon.path, table["name"]):
            daemon.devices[table["name"]].before = None  # an earlier run has made it


def _answer(port: PortTable, device: devices.Device | None) -> dict[str, Any]:
    found: dict[str, Any] = {"kind": port["kind"], "addresses": port["addresses"]}
    if device is not None and isinstance(device.mac, bytes):
        found["mac"] = device.mac.hex(":")
    return found


def remove(daemon: "Daemon", names: Any, missing_ok: bool = False) -> dict[str, dict[str, Any]]:
    """Remove ports, with what waits in them and the applications that are attached; the frames lost with each, by reason."""
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise SpecError("must be a list of names of ports", path="port_del", value=names)
    for name in names:
        if name not in daemon.ports and not missing_ok:
            raise SpecError(f"port {name!r}: the switch has no such port", remedy=nearest(name, daemon.ports))
    gone = [name for name in dict.fromkeys(names) if name in daemon.ports]
    try:
        _, lost = apply(daemon, {}, {name: port for name, port in daemon.ports.items() if name not in gone}, hang_up=True)
    finally:
        for name in gone:
            if name not in daemon.ports:
                daemon.base.ports.pop(name, None)
                daemon.added.discard(name)
    return {name: {"lost": lost[name]} for name in gone}


def apply(
    daemon: "Daemon", settings: dict[str, Any], ports: dict[str, PortTable], hang_up: bool = False
) -> tuple[dict[str, Any], Losses]:
    """Change settings, and have these ports and no others: the settings then, and the frames lost with each port removed.

    hang_up   applications are detached from ports that are removed; else such a port is an error
    """
    before = daemon.ports
    new = {name: port for name, port in ports.items() if name not in before}
    gone = [name for name in before if name not in ports]
    if (new or gone) and not daemon.switch.takes_ports:
        raise SpecError("a switch that runs a scheme has the ports of its specification", path="port", remedy="a new start")
    descriptors.allow(ports)
    with contextlib.ExitStack() as on_failure:
        opened = _open(daemon, new, on_failure)
        found = daemon.switch.call(lambda: _take(daemon, settings, ports, opened, None if hang_up else gone))
        on_failure.pop_all()
    daemon.devices |= opened
    for name, port in new.items():
        daemon.events.add("port added", name, f"of kind {port['kind']}, {', '.join(port['addresses'])}")
    if daemon.keeper:
        daemon.keeper.add(opened)
        daemon.keeper.tell(before, ports)
        if settings:
            daemon.keeper.limit(found)
    return found, _remove(daemon, gone) if gone else {}


def open_device(name: str, port: PortTable) -> devices.Device:
    """Open the device that a port is."""
    return devices.open_device(devices.validate_device(port, name), port["addresses"], f"port {name!r}")


def _open(daemon: "Daemon", new: Mapping[str, PortTable], on_failure: contextlib.ExitStack) -> dict[str, devices.Device]:
    """Open the devices among new ports, and make all that they need."""
    opened = {}
    for name, port in new.items():
        if port["kind"] != "shm":
            device = open_device(name, port)
            on_failure.callback(device.discard)
            prepare_device(daemon.switch, name, device)
            opened[name] = device
    daemon.guard(opened)
    return opened


def _take(
    daemon: "Daemon",
    settings: dict[str, Any],
    ports: dict[str, PortTable],
    opened: Mapping[str, devices.Device],
    gone: Iterable[str] | None,
) -> dict[str, Any]:
    """Change the settings and take ports, all or none; runs in the worker's thread.

    `gone`: no application may be attached to these; None: any may.
    """
    switch = daemon.switch
    for name in gone or ():
        if name in daemon.attached:
            raise SpecError(f"port {name!r}: an application is attached", remedy="let it detach, or keep the port")
    switch.must_take({name: device.shape["queues"] for name, device in opened.items()})
    before = {key: switch.settings[key] for key in settings if key in switch.settings}
    found: dict[str, Any] = switch.set(settings) if settings else switch.settings
    left = {name: {**port, "addresses": []} for name, port in daemon.ports.items() if name not in ports}
    moves = bool(left and opened) or any(ports[name] != port for name, port in daemon.ports.items() if name not in left)
    numbers = []
    try:
        if moves:
            switch.readdress({**ports, **left})
        for name, device in opened.items():
            numbers.append(install_device(switch, name, device, ports[name]["addresses"], ports[name]["guarded"]))
    except BaseException:
        for number in numbers:
            switch.detach(number)
        if before:
            switch.set(with_units(before))
        if moves:
            switch.readdress(daemon.ports)
        raise
    daemon.ports = ports
    return found


def _remove(daemon: "Daemon", names: list[str]) -> Losses:
    """Remove ports that the switch has no address of any longer."""
    for name in names:
        daemon.hang_up(name)
    _wait_for_ends(daemon, names)
    before = daemon.switch.call(lambda: _losses(daemon, names))
    for name in names:
        kept_ports.forget(daemon.path, name)
        if name in daemon.devices:
            daemon.devices[name].make_temporary()
    if daemon.keeper:
        daemon.keeper.remove(names)
    opened = {name: daemon.devices.pop(name) for name in names if name in daemon.devices}
    for device in opened.values():
        device.release(drain=False)
    regions = daemon.switch.call(lambda: [daemon.switch.detach_name(name) for name in opened])
    del regions  # which takes time, outside of the worker's thread
    for device in opened.values():
        device.close()
    after = daemon.switch.call(lambda: _losses(daemon, names))
    found = {}
    for name in names:
        lost = {reason: number - before[name].get(reason, 0) for reason, number in after[name].items()}
        found[name] = {reason: number for reason, number in lost.items() if number}
        said = losses.reasons_text(found[name])
        daemon.events.add("port removed", name, f"lost: {said}" if said else "nothing was lost")
    return found


def _losses(daemon: "Daemon", names: Iterable[str]) -> dict[str, dict[str, int]]:
    daemon.switch.ledger.look(daemon.switch.ports(names))
    return {name: dict(daemon.switch.ledger.counts_of(name)) for name in names}


def _wait_for_ends(daemon: "Daemon", names: Iterable[str]) -> None:
    """Wait until the threads of these ports' connections have detached them."""
    end = time.monotonic() + HANG_UP_S
    while left := [name for name in names if name in daemon.attached]:
        if time.monotonic() > end:
            log.warning("port %s: its application is not detached yet", left[0])
            return
        time.sleep(0.002)
