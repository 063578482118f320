"""A TAP made here and driven by a switch that need not have any privilege: its descriptor is handed over."""

import select
import socket
from typing import Any

from penstock.vswitch import devices, edge, messages
from penstock.vswitch.ports import open_port


class Plug:
    """`with Plug("a"): ...`: a TAP in this thread's namespace is port a of a running switch."""

    def __init__(self, port: str, tap: str = "tap0", prefix: int = 24, path: str | None = None, headers: bool = True) -> None:
        self.tap = tap
        self.device = open_port("tap", name=tap, headers=headers)
        self.connection = socket.socket(socket.AF_UNIX)
        self.connection.settimeout(15)
        try:
            answer, fds = messages.converse(self.connection, path or messages.default_socket(), {"plug": port}, (self.device.fd,))
            messages.close(fds)
            self.addresses: list[str] = answer["addresses"]
            devices.set_up(tap, self.addresses if prefix else [], prefix)
        except BaseException:
            self.close()
            raise

    @property
    def gone(self) -> bool:
        """Whether the switch has hung up."""
        return bool(select.select([self.connection], [], [], 0)[0])

    def kernel_lost(self) -> int:
        """Frames for which the device's queue had no room."""
        return edge.device_losses(self.tap)["tx_dropped"]

    def close(self) -> None:
        """Unplug; the device ends with it."""
        self.connection.close()
        self.device.close()

    def __enter__(self) -> "Plug":
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()
