"""What the operators of a switch ask its process for, beside showing and setting: captures, draining, going down."""

import contextlib
import socket
import time
from typing import TYPE_CHECKING, Any

from penstock.errors import SpecError, nearest
from penstock.vswitch.attach import devices
from penstock.vswitch.client.tables import size
from penstock.vswitch.daemon import protocol as messages
from penstock.vswitch.dataplane.mirror import Capture
from penstock.vswitch.dataplane.switch import REASON_NAMES
from penstock.vswitch.support.settings import DEFAULTS, WHILE_RUNNING, address_words, validate_settings

if TYPE_CHECKING:
    from penstock.vswitch.daemon.server import Daemon

LEFT = ("port", "waiting_frames", "waiting_bytes", "waiting_by_queue", "not_taken_frames", "not_taken_bytes")
PORT_KEYS = ("addresses", "uid", "memory", "guarded")  # that can be changed while running
MOST_NAMED = 6
CAPTURE_KEYS = ("capture", "drops", "snap", "memory")


def capture(daemon: "Daemon", connection: socket.socket, message: dict[str, Any]) -> None:
    """Write frames into memory that goes to the one who asks, until that one hangs up or says that it is enough."""
    ports = message["capture"]
    if not isinstance(ports, list) or not all(isinstance(name, str) for name in ports):
        raise SpecError(f"capture: {ports!r}: must be a list of ports; none: all of them")
    for name in ports:
        if name not in daemon.ports:
            raise SpecError(f"port {name!r}: the switch has none of that name{nearest(name, daemon.ports)}")
    for key in message:
        if key not in CAPTURE_KEYS:
            raise SpecError(f"capture.{key}: unknown key{nearest(key, CAPTURE_KEYS)}")
    names = list(dict.fromkeys(ports)) or list(daemon.ports)
    clock = time.time_ns() - time.monotonic_ns()
    settings = {"most": message.get("snap", 65536), "memory": message.get("memory", 1 << 24)}
    mirror = Capture(names, REASON_NAMES, clock, bool(message.get("drops")), **settings)
    try:
        daemon.switch.call(lambda: daemon.switch.start_capture(mirror))
        try:
            messages.send(connection, {"ports": names}, (mirror.fd,))
            while not daemon.over.is_set():
                with contextlib.suppress(TimeoutError):
                    connection.settimeout(0.2)
                    connection.recv(1)
                    break
        finally:
            row = daemon.switch.call(lambda: daemon.switch.end_capture(mirror))
        messages.send(connection, row)
    finally:
        mirror.close()


def change(daemon: "Daemon", changes: dict[str, Any]) -> dict[str, Any]:
    """Settings (`th_over`) and keys of ports (`port.NAME.addresses`), all of them or none."""
    settings, tables = {}, {name: dict(port) for name, port in daemon.ports.items()}
    for key, value in changes.items():
        if not key.startswith("port."):
            settings[key] = value
            continue
        name, _, what = key.removeprefix("port.").rpartition(".")
        if name not in tables:
            raise SpecError(f"{key}: the switch has no port {name!r}{nearest(name, tables)}")
        if what not in PORT_KEYS:
            raise SpecError(f"{key}: cannot be set while running{nearest(what, PORT_KEYS)}; known: {', '.join(PORT_KEYS)}")
        tables[name][what] = value
    return _apply(daemon, settings, tables)


def reload(daemon: "Daemon", content: dict[str, Any]) -> dict[str, Any]:
    """Become what a specification says: thresholds, ports that are new, changed or gone; nothing that takes a new start."""
    from penstock.vswitch.daemon.server import checked

    given, tables, _, _ = checked(content)
    for key, value in daemon.fixed.items():
        if content.get("switch", {}).get(key) != value:
            raise SpecError(f"switch.{key}: cannot be changed while running; it takes a new start")
    settings = validate_settings(given)
    now = daemon.switch.settings
    for key in settings:
        if settings[key] != now[key] and key not in WHILE_RUNNING:
            raise SpecError(f"switch.{key}: cannot be changed while running; it takes a new start")
    changes = {key: given.get(key, DEFAULTS[key]) for key in settings if settings[key] != now[key]}
    return _apply(daemon, changes, tables)


def _apply(daemon: "Daemon", settings: dict[str, Any], tables: dict[str, dict[str, Any]]) -> dict[str, Any]:
    from penstock.vswitch.daemon.server import checked_port

    ports = {name: checked_port(table, f"port.{name}") for name, table in tables.items()}
    owners: dict[tuple[int, int], str] = {}
    for name, port in ports.items():
        for address in port["addresses"]:
            if (owner := owners.setdefault(address_words(address), name)) != name:
                raise SpecError(f"port.{name}.addresses: {address} is port {owner!r}'s; change both at once, or take another one")
        if len(set(map(address_words, port["addresses"]))) < len(port["addresses"]):
            raise SpecError(f"port.{name}.addresses: one of them stands there twice; leave one out")

    for name in ports.keys() | daemon.ports.keys():
        if devices.checked(daemon.ports.get(name, {}), name) != devices.checked(ports.get(name, {}), name):
            raise SpecError(f"port {name!r}: a device cannot come, go or change while running; it takes a new start, or `plug`")

    def act() -> dict[str, Any]:
        for name in list(daemon.attached):
            if name not in ports:
                raise SpecError(f"port {name!r}: an application is attached; let it detach, or keep the port")
        before = {name: daemon.ports[name] for name in list(daemon.attached) if name in daemon.ports}
        daemon.switch.readdress(ports)
        try:
            found: dict[str, Any] = daemon.switch.set(settings) if settings else daemon.switch.settings
        except SpecError:
            daemon.switch.readdress(before)
            raise
        daemon.ports = ports
        return found

    found = daemon.switch.call(act)
    return {"settings": found, "ports": {name: {key: ports[name][key] for key in PORT_KEYS} for name in ports}}


def flows(switch: Any, most: Any = None) -> dict[str, Any]:
    """All flows, which takes the worker long if there are many; or those for which most waits, and the sum of the others."""
    if most is None:
        return {"flows": switch.flows()}
    if isinstance(most, bool) or not isinstance(most, int) or not 0 <= most <= 1 << 20:
        raise SpecError(f"show.most = {most!r}: must be a whole number from 0 to {1 << 20}")
    rows, others = switch.longest_flows(most)
    return {"flows": rows, "others": others}


def drain(daemon: "Daemon", seconds: Any = 10) -> dict[str, Any]:
    """Admit nobody any more and wait until the switch has taken all that was sent; and say what receivers have not taken."""
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds <= 3600:
        raise SpecError(f"drain: {seconds!r} seconds: must be a number from 0 to 3600")
    daemon.draining = True
    end, wait = time.monotonic() + seconds, 0.005

    def look() -> tuple[list[dict[str, Any]], bool]:
        rows = daemon.switch.left()
        return rows, not daemon.switch.waiting() and not any(row["waiting_frames"] for row in rows)

    while True:
        rows, drained = daemon.switch.call(look)
        if drained or time.monotonic() >= end:
            return {"drained": drained, "left": rows, "pauses": daemon.switch.call(daemon.switch.pauses)[:20]}
        time.sleep(wait)
        wait = min(2 * wait, 0.1)


def last_rows(detached: list[dict[str, Any]], names: list[str]) -> list[dict[str, Any]]:
    """What was left at each of these ports when it was detached last."""
    rows = {row["port"]: {key: row[key] for key in LEFT} for row in detached if row["port"] in names}
    return [rows[name] for name in names if name in rows]


def lost(rows: list[dict[str, Any]]) -> list[str]:
    """What was lost with a switch that has gone down, in lines."""
    return [f"lost: {line}" for line in waiting(rows)] + not_taken(rows)


def waiting(rows: list[dict[str, Any]]) -> list[str]:
    """Frames that applications have sent and the switch has not taken: by port, with the longest queues."""
    lines = []
    for row in rows:
        if row["waiting_frames"]:
            queues = [f"queue {number}: {q['frames']:,}" for number, q in row["waiting_by_queue"].items()]
            more = ", ..." if len(queues) > MOST_NAMED else ""
            lines.append(
                f"port {row['port']}: {row['waiting_frames']:,} frames, {size(row['waiting_bytes'])}, not taken by the "
                f"switch ({', '.join(queues[:MOST_NAMED])}{more})"
            )
    return lines


def not_taken(rows: list[dict[str, Any]]) -> list[str]:
    """Frames that are in the memory of their receivers, which have not taken them out."""
    return [
        f"port {row['port']}: {row['not_taken_frames']:,} frames, {size(row['not_taken_bytes'])}, delivered and not yet taken by "
        "its application"
        for row in rows
        if row["not_taken_frames"]
    ]
