"""Devices on their way to another process: descriptors, and what only this process knows of them, as JSON can hold it.

Nothing is done to an interface, a socket or their limits: the other process has them as they are.  Most of it is given while
frames still pass; where each device is then (`stop`, `resume`) when its worker stands still.
"""

import contextlib
from collections.abc import Mapping
from typing import Any

from penstock_net.errors import PenstockError, SpecError
from penstock_net.vswitch.attach.allowance import Allowance
from penstock_net.vswitch.attach.devices import Device, name_of, place_of, plan_of, planned
from penstock_net.vswitch.attach.edge import Edge
from penstock_net.vswitch.attach.found import Found
from penstock_net.vswitch.attach.open import kinds
from penstock_net.vswitch.linux import netns
from penstock_net.vswitch.linux.netns import NetNs
from penstock_net.vswitch.linux.set_up import Interface
from penstock_net.vswitch.ports.base import open_absent
from penstock_net.vswitch.support.port_kind import Given
from penstock_net.vswitch.world import os


class Descriptors:
    """Descriptors that are sent with a message, in which each is a number."""

    def __init__(self) -> None:
        self.fds: list[int] = []

    def add(self, fd: int) -> int:
        self.fds.append(fd)
        return len(self.fds) - 1


def refuse(name: str, kind: str) -> None:
    """SpecError: ports of this kind cannot be handed over."""
    if kind != "shm" and kinds()[kind].give is None:
        rule = f"port {name!r}: a port of kind {kind} cannot be handed over to another process"
        raise SpecError(rule, remedy=f"remove it (`penstock vswitch port del {name}`), or `down` and `up`")


def give(device: Device, fds: Descriptors) -> dict[str, Any]:
    """What of a device does not change while frames pass."""
    port = device.port
    return {
        "port": None if port.closed else {"kind": port.kind, "name": port.name, **_given(port, fds)},
        "region": fds.add(device.driver.region.fd),
        "namespace": [device.namespace.name, fds.add(device.namespace.fd)] if device.namespace else None,
        "table": [fds.add(device.table.fd), fds.add(device.table.alarm)] if device.table else None,
        "is_guarded": bool(device.edge and not device.edge.error),
        "mac": {"bytes": device.mac.hex()} if isinstance(device.mac, bytes) else device.mac,
        "headers": port.headers,
        "kernel_lost": port.kernel_lost() if port.closed else port.lost_before,
        "interface": device.interface.index if device.interface else None,
        "dropped_before": device.dropped_before,
        "before": device.before.written() if device.before else None,
        **{key: getattr(device, key) for key in ("window", "lossless")},
        **{key: getattr(device.driver, key) for key in ("state", "why", "is_away")},
    }


def stop(device: Device) -> dict[str, Any]:
    """Where a device is when its worker stands still; what it has read ahead is taken out of it."""
    port, row = device.port, None
    if not port.closed:
        port.flush()
        back = port.take_out()
        port.put_back(back)
        row = {**_given(port, Descriptors()), "back": [frame.hex() for frame in back]}
    return {"port": row, "edge": _give_edge(device.edge)}


def _given(port: Any, fds: Descriptors) -> dict[str, Any]:
    give_one = kinds()[port.kind].give
    assert give_one is not None
    given = give_one(port)
    return {"fds": [fds.add(fd) for fd in given.fds], "numbers": given.numbers, "waiting": given.waiting.hex()}


def _give_edge(edge: Edge | None) -> dict[str, Any] | None:
    """What an edge does; None: it does not exist, or its interface has gone, which the other process will see."""
    with contextlib.suppress(OSError, PenstockError):
        return edge.state() if edge and not edge.error else None
    return None


def take(table: Mapping[str, Any] | None, found: Mapping[str, Any], fds: list[int]) -> Device:
    """The device that was given; `table` as of `validate_device`, None: of a TAP that another process has plugged in."""
    port = _take_port(table, found, fds)
    mac = bytes.fromhex(found["mac"]["bytes"]) if isinstance(found["mac"], dict) else found["mac"]
    namespace = NetNs(found["namespace"][0], fds[found["namespace"][1]]) if found["namespace"] else None
    device = planned(table, port, namespace, mac) if table else Device(port, mac=mac)
    if not port.closed:
        port.lost_before = found["kernel_lost"]  # it may be that nobody can read it any more
    device.window, device.lossless = found["window"], found["lossless"]
    device.before = Found.read(found["before"]) if found["before"] else None
    if found["table"]:
        memory, alarm = (fds[number] for number in found["table"])
        device.table = Allowance(memory, alarm)
        os.close(memory)
        os.close(alarm)
    if table and port.kind == "tap" and not port.closed:
        find_interface(device, found.get("interface"))
        device.count_losses_from(found["dropped_before"])
    return device


def find_interface(device: Device, number: int | None = None) -> None:
    """Open the socket about the interface of a TAP, if that is still where it should be, with the number that it had (None: any).

    What has its name there may be somebody else's by now.
    """
    with contextlib.suppress(OSError, PenstockError), netns.enter(device.namespace):
        here = device.namespace.identity if device.namespace else netns.identity("/proc/thread-self/ns/net")
        if here and place_of(device.port.fd, here) == here:
            interface = Interface(name_of(device.port.fd))
            if number in (None, interface.index):
                device.interface = interface
            else:
                interface.close()


def _take_port(table: Mapping[str, Any] | None, found: Mapping[str, Any], fds: list[int]) -> Any:
    row = found["port"]
    if row is None:
        port = open_absent(found["headers"], table["kind"] if table else "tap")
        port.losses = None if found["kernel_lost"] is None else lambda: found["kernel_lost"]
        port.close()
        return port
    options = plan_of(table).options if table else {"name": row["name"], "headers": found["headers"]}
    take_one = kinds()[row["kind"]].take
    assert take_one is not None
    return take_one(options, _taken(row, [fds[number] for number in row["fds"]]))


def resume(device: Device, found: Mapping[str, Any]) -> None:
    """Go on with a device where it was stopped, but for the edge, which is to be started."""
    if device.edge and found["edge"]:
        device.edge.take(found["edge"])
    elif device.edge:
        device.edge.abandon()
        device.edge = device.driver.edge = None
    if row := found["port"]:
        resume_one = kinds()[device.port.kind].resume
        assert resume_one is not None
        resume_one(device.port, _taken(row, []))
        device.port.put_back([bytes.fromhex(frame) for frame in row["back"]])


def _taken(row: Mapping[str, Any], fds: list[int]) -> Given:
    return Given(fds, row["numbers"], bytes.fromhex(row["waiting"]))
