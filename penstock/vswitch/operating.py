"""What the operators of a switch ask its process for, beside showing and setting: captures, draining, going down."""

import contextlib
import socket
import time
from typing import TYPE_CHECKING, Any

from penstock.errors import SpecError, nearest
from penstock.vswitch import messages
from penstock.vswitch.mirror import Capture
from penstock.vswitch.switch import REASON_NAMES

if TYPE_CHECKING:
    from penstock.vswitch.daemon import Daemon

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
