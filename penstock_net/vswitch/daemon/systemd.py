"""Notifications of a service manager (sd_notify): ready, status, watchdog, stopping."""

from collections.abc import Callable

from penstock_net.vswitch.world import os, socket, time


def notify(*lines: str) -> bool:
    """Send lines such as READY=1 to the service manager; False if there is none or it cannot be reached."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path.startswith(("/", "@")):
        return False
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
            sock.connect(path.replace("@", "\0", 1) if path.startswith("@") else path)
            sock.send("\n".join(lines).encode())
    except OSError:
        return False
    return True


class Pulse:
    """Sends the watchdog notification twice per WatchdogSec= while the switch responds."""

    def __init__(self) -> None:
        ours = os.environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        number = os.environ.get("WATCHDOG_USEC", "")
        self.period = int(number) / 2e6 if ours and number.isdigit() else 0.0
        self.next = time.monotonic()

    def beat(self, alive: Callable[[], object]) -> None:
        """Send WATCHDOG=1 if it is due, unless `alive` raises RuntimeError; the manager then restarts the switch."""
        if not self.period or time.monotonic() < self.next:
            return
        try:
            alive()
        except RuntimeError:
            return
        self.next = time.monotonic() + self.period
        notify("WATCHDOG=1")
