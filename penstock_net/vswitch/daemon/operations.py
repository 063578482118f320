"""Operators' requests to a running switch: captures, changes and their undoing, draining; and reports of undelivered frames."""

import contextlib
import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock_net.errors import SpecError, nearest
from penstock_net.inputs import known_keys, one_of
from penstock_net.units import format_size
from penstock_net.vswitch.attach.devices import Device, mac_of, name_of
from penstock_net.vswitch.attach.ingress_rates import limits_of
from penstock_net.vswitch.daemon import protocol
from penstock_net.vswitch.daemon.condition import CHANGED, DOWN, UP
from penstock_net.vswitch.daemon.config import (
    CHANGEABLE_PORT_KEYS,
    validate_capture,
    validate_change,
    validate_most,
    validate_reload,
    validate_seconds,
)
from penstock_net.vswitch.daemon.ports import apply
from penstock_net.vswitch.dataplane.mirror import Capture
from penstock_net.vswitch.support import losses
from penstock_net.vswitch.support.settings import REASON_NAMES, with_units
from penstock_net.vswitch.world import socket, time

if TYPE_CHECKING:
    from penstock_net.vswitch.daemon.server import Daemon

LOOKS = ("ports", "losses", "events")  # of `show`: what brings the ledger of lost frames up to date
LEFT = ("port", "waiting_frames", "waiting_bytes", "waiting_by_queue", "not_taken_frames", "not_taken_bytes")
MOST_REASON = 300  # characters of what a plugged TAP lacks
MOST_NAMED = 6  # queues of a port in a line
NOT_YOURS = "you are user {uid}: only the switch's own user may do that"


class Peer(NamedTuple):
    """The client of a connection and its permissions; every client may attach."""

    pid: int
    uid: int
    owns: bool  # the switch's own user, or root: everything
    looks: bool  # a member of switch.group: `show`

    def __str__(self) -> str:
        return f"process {self.pid} of user {self.uid}"

    def must_own(self) -> None:
        """SpecError unless everything is permitted."""
        if not self.owns:
            raise SpecError(NOT_YOURS.format(uid=self.uid), remedy="others may attach")

    def must_look(self) -> None:
        """SpecError unless `show` is permitted."""
        if not self.looks:
            raise SpecError(NOT_YOURS.format(uid=self.uid), remedy="members of switch.group may `show`, others may attach")


class Base(NamedTuple):
    """Settings and ports of the specification that was last loaded, at the start or by `reload`."""

    settings: dict[str, Any]
    ports: dict[str, dict[str, Any]]


def capture(daemon: "Daemon", connection: socket.socket, message: dict[str, Any]) -> None:
    """Serve a capture: frames are copied into memory shared with the client until it closes the connection or sends a message."""
    names = validate_capture(message, daemon.ports)
    clock = time.time_ns() - time.monotonic_ns()
    settings = {"most": message.get("snap", 65536), "memory": message.get("memory", 1 << 24)}
    mirror = Capture(names, REASON_NAMES, clock, bool(message.get("drops")), **settings)
    try:
        daemon.switch.call(lambda: daemon.switch.start_capture(mirror))
        daemon.events.add("capture", None, f"begun, of {', '.join(names)}")
        try:
            protocol.send(connection, {"ports": names}, (mirror.fd,))
            while not daemon.over.is_set():
                with contextlib.suppress(TimeoutError):
                    connection.settimeout(0.2)
                    connection.recv(1)
                    break
        finally:
            row = daemon.switch.call(lambda: daemon.switch.end_capture(mirror))
            daemon.events.add("capture", None, f"ended: {row['frames']:,} frames, {row['missed']:,} missed")
        protocol.send(connection, row)
    finally:
        mirror.close()


def change(daemon: "Daemon", changes: dict[str, Any]) -> dict[str, Any]:
    """Change settings (`th_over`) and keys of ports (`port.NAME.addresses`), all or nothing."""
    return _apply(daemon, *validate_change(changes, daemon.ports))


def reload(daemon: "Daemon", content: dict[str, Any]) -> dict[str, Any]:
    """Apply a changed specification: settings, and new, changed and removed ports; all or nothing.

    Ports that were added by `port_add` are kept if it does not name them.  Devices that are not up are tried again; the answer
    says of which ports they still are not, and why.
    """
    added = {name: daemon.ports[name] for name in daemon.added}
    settings, ports = validate_reload(content, daemon.fixed, daemon.switch.settings, daemon.ports, added)
    found = _apply(daemon, settings, ports)
    daemon.base = Base(dict(found["settings"]), dict(ports))
    daemon.added -= {port["name"] for port in content.get("port", ())}
    return {**found, "not_up": daemon.keeper.retry() if daemon.keeper else {}}


def undo(daemon: "Daemon") -> dict[str, Any]:
    """Restore the values of the specification; the answer lists those that were restored."""
    undone = daemon.switch.call(lambda: changes(daemon))
    settings = {row["key"]: row["file"] for row in undone if row["key"] in daemon.base.settings}
    return {**_apply(daemon, with_units(settings), daemon.base.ports), "undone": undone}


def changes(daemon: "Daemon") -> list[dict[str, Any]]:
    """Settings, and changeable keys of ports, that differ from the specification."""
    settings, now = daemon.base.settings, daemon.switch.settings
    rows = [{"key": key, "now": now[key], "file": settings[key]} for key in settings if now[key] != settings[key]]
    for name, port in daemon.base.ports.items():
        present = daemon.ports.get(name, port)  # one that is being removed has no changes
        for key in CHANGEABLE_PORT_KEYS:
            if present[key] != port[key]:
                rows.append({"key": f"port.{name}.{key}", "now": present[key], "file": port[key]})
    return rows


def _apply(daemon: "Daemon", settings: dict[str, Any], ports: dict[str, dict[str, Any]]) -> dict[str, Any]:
    before, ports_before = dict(daemon.switch.settings), daemon.ports
    found, _ = apply(daemon, settings, ports)
    for key in settings:
        if found[key] != before[key]:
            daemon.events.add("set", None, f"{key} = {found[key]}, before {before[key]}")
    for name in [name for name in ports if name in ports_before]:
        old, new = ports_before[name], ports[name]
        if said := ", ".join(f"{key} = {new[key]}, before {old[key]}" for key in CHANGEABLE_PORT_KEYS if new[key] != old[key]):
            daemon.events.add("set", name, said)
    return {"settings": found, "ports": {name: {key: ports[name][key] for key in CHANGEABLE_PORT_KEYS} for name in ports}}


def look(daemon: "Daemon", what: str) -> dict[str, Any]:
    """The answer to `show` ports, losses or events; that of ports also has the losses of the switch's life, and its beginning."""
    rows, found = daemon.watcher.look()
    if what == "events":
        return {"events": daemon.events.rows()}
    ports = {"ports": [losses.with_sums(row) for row in rows], "life": daemon.life} if what == "ports" else {}
    return {"losses": found, **ports}


class Reported:
    """Kernel losses at a plugged TAP, as reported by the process that plugged it; stands for the edge of a local device."""

    error = None

    def __init__(self, lost: dict[str, int]) -> None:
        self.lost = lost

    def losses(self) -> dict[str, int]:
        return {"class_dropped": self.lost.get("classes", 0), "socket_lost": self.lost.get("sockets", 0)}

    counters = losses

    def wake_worker_by(self, fd: int) -> None:
        """Its looks are those of the other process, and wake nobody here."""


def report(daemon: "Daemon", message: dict[str, Any]) -> dict[str, Any]:
    """Store what `plug` reports of its TAP: losses, which never decrease, and its state; follow its Ethernet address."""
    name, lost = message["report"], message.get("lost")
    state, why = message.get("state", UP), message.get("why", "")
    known_keys(lost if isinstance(lost, dict) else {}, ("device", "classes", "sockets"), "lost")
    if not isinstance(lost, dict) or not all(isinstance(number, int) and 0 <= number < 1 << 63 for number in lost.values()):
        raise SpecError("must be numbers of frames", path="lost", value=lost)
    device = daemon.plugged.get(name) if isinstance(name, str) else None
    if device is None:
        raise SpecError("no TAP is plugged into this port", path="report", value=name, remedy=nearest(str(name), daemon.plugged))
    one_of(state, "state", (UP, DOWN, CHANGED))
    if not isinstance(why, str):
        raise SpecError("must be a text", path="why", value=why)
    mac = mac_of(device.port.fd)

    def act() -> None:
        count_reported(device, lost)
        device.driver.set_mac(mac)
        device.driver.state, device.driver.why = state, why[:MOST_REASON]

    before = device.driver.state, device.driver.why
    daemon.switch.call(act)
    if mac != device.mac:
        device.mac = mac
        daemon.events.add("address", name, f"{name_of(device.port.fd)} has the Ethernet address {mac.hex(':')} now")
    if before != (state, device.driver.why):
        daemon.events.add(f"port {state}", name, device.driver.why, logging.INFO if state == UP else logging.WARNING)
    return {"reported": name}


def count_reported(device: Device, lost: dict[str, int]) -> None:
    """Have a plugged TAP show these losses; in the worker's thread."""
    device.port.losses = lambda: lost.get("device", 0)
    device.driver.edge = Reported(lost)


def flows(switch: Any, most: Any = None) -> dict[str, Any]:
    """All flows, which is slow if there are many; or the `most` with the longest queues, and the sum of the others."""
    if most is None:
        return {"flows": switch.flows()}
    rows, others = switch.longest_flows(validate_most(most))
    return {"flows": rows, "others": others}


def held(switch: Any, port: Any) -> dict[str, Any]:
    """The flows that come in by a port, as its edge wants them, and the limits of an edge by the settings of now."""
    return {"held": switch.held_flows(port), "limits": limits_of(switch.settings)}


def addresses(switch: Any, most: int | None = None) -> list[dict[str, Any]]:
    """The addresses of all ports, and those that ports have learned, the last seen first; at most so many."""
    now, rows = time.monotonic_ns(), list[dict[str, Any]]()
    for number, name in sorted(switch.names.items()):
        rows += [
            {"port": name, "vlan": None, "address": each, "kind": "static", "age_ns": None} for each in switch.addresses(number)
        ]
        if driver := switch.drivers.get(number):
            rows += [{"port": name, "kind": "learned", **row} for row in driver.station_rows(now)]
    return rows[:most]


def drain(daemon: "Daemon", seconds: Any = 10) -> dict[str, Any]:
    """Admit no more applications and wait until the switch has taken all frames sent; the answer lists the remaining ones."""
    end, wait = time.monotonic() + validate_seconds(seconds), 0.005
    daemon.draining = True
    daemon.events.add("drain", None, "no more applications are admitted")

    def look() -> tuple[list[dict[str, Any]], bool]:
        rows = daemon.switch.left()
        return rows, not daemon.switch.waiting() and not any(row["waiting_frames"] for row in rows)

    while True:
        rows, drained = daemon.switch.call(look)
        if drained or time.monotonic() >= end:
            daemon.events.add(
                "drain", None, "all that was sent has been taken" if drained else "not all that was sent was taken in time"
            )
            pauses = daemon.switch.call(daemon.switch.pauses)[:20]
            return {"drained": drained, "left": rows, "pauses": pauses, "losses": daemon.watcher.look()[1]}
        time.sleep(wait)
        wait = min(2 * wait, 0.1)


def last_rows(detached: list[dict[str, Any]], names: list[str]) -> list[dict[str, Any]]:
    """The frames left at each of these ports when it was last detached."""
    rows = {row["port"]: {key: row[key] for key in LEFT} for row in detached if row["port"] in names}
    return [rows[name] for name in names if name in rows]


def _size(count: int) -> str:
    """Bytes in the format of the tables of `show`."""
    return format_size(count, " ", digits=3)


def lost(rows: list[dict[str, Any]]) -> list[str]:
    """Lines that report the frames lost when a switch stopped."""
    return [f"lost: {line}" for line in waiting(rows)] + not_taken(rows)


def in_all(rows: list[dict[str, Any]]) -> list[str]:
    """Lines that report all losses since the start of a switch, by port and reason, from rows of its ledger."""
    reasons = losses.total(rows)
    if not reasons:
        return []
    frames = sum(reasons.values())
    lines = [f"lost in all: {frames:,} {'frame' if frames == 1 else 'frames'}"]
    return lines + [
        f"  port {row['port']}: {row['frames']:,} {row['reason']}: {row['text']}" for row in rows if row["kind"] == losses.LOST
    ]


def waiting(rows: list[dict[str, Any]]) -> list[str]:
    """Lines about frames that applications have sent and the switch has not taken: by port, with the longest queues."""
    lines = []
    for row in rows:
        if row["waiting_frames"]:
            queues = [f"queue {number}: {q['frames']:,}" for number, q in row["waiting_by_queue"].items()]
            more = ", ..." if len(queues) > MOST_NAMED else ""
            lines.append(
                f"port {row['port']}: {row['waiting_frames']:,} frames, {_size(row['waiting_bytes'])}, not taken by the "
                f"switch ({', '.join(queues[:MOST_NAMED])}{more})"
            )
    return lines


def not_taken(rows: list[dict[str, Any]]) -> list[str]:
    """Lines about frames that were delivered to a receiver's memory and not read by it."""
    return [
        f"port {row['port']}: {row['not_taken_frames']:,} frames, {_size(row['not_taken_bytes'])}, "
        "delivered and not yet taken by its application"
        for row in rows
        if row["not_taken_frames"]
    ]
