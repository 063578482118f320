"""A TAP created by this process and driven by an unprivileged switch, which receives its descriptor."""

import contextlib
from typing import Any

from penstock_net.errors import PenstockError
from penstock_net.vswitch.attach import devices
from penstock_net.vswitch.attach.allowance import Allowance
from penstock_net.vswitch.attach.open import open_port
from penstock_net.vswitch.daemon import places, protocol
from penstock_net.vswitch.daemon.condition import CHANGED, DOWN, UP, difference, passes_nothing
from penstock_net.vswitch.linux import netns
from penstock_net.vswitch.linux.monitor import Monitor
from penstock_net.vswitch.linux.set_up import Interface
from penstock_net.vswitch.world import os, select, socket, threading

REPORT_S = 1.0  # between two reports of losses to the switch


class Plug:
    """`with Plug("a"): ...`: a TAP in this thread's namespace becomes port a of a running switch.

    prefix: prefix length of its addresses, 0: none; allow_uid: as of `connect`.  Unless `guard` is false, an Edge of this process
    prevents frame loss in the kernel at the device: senders too fast for the switch block in their sockets, frames for full
    sockets stay in the switch.
    """

    def __init__(
        self,
        port: str,
        tap: str = "tap0",
        prefix: int = 24,
        path: str | None = None,
        headers: bool = True,
        guard: bool = True,
        allow_uid: int | None = None,
    ) -> None:
        self.name, self.path, self.allow_uid = port, path or places.default_socket(), allow_uid
        self.device = devices.Device(open_port("tap", name=tap, headers=headers), netns.current())
        self.connection = socket.socket(socket.AF_UNIX)
        self.connection.settimeout(15)
        self.tap, self.over, self.wake = tap, False, os.eventfd(0, os.EFD_CLOEXEC)
        self.monitor: Monitor | None = None
        self.reporting = threading.Thread(target=self._report_often, name="losses", daemon=True)
        try:
            self.device.table = Allowance() if guard else None
            table = self.device.table
            fds = (self.device.port.fd, table.fd, table.alarm) if table else (self.device.port.fd,)
            mac = devices.mac_of(self.device.port.fd)
            answer, came = protocol.converse(self.connection, self.path, {"plug": port}, fds, allow_uid)
            protocol.close(came)
            self.addresses: list[str] = answer["addresses"]
            queue_frames = devices.ring_frames() if guard else devices.FRAMES_WITHOUT_EDGE
            with Interface(tap) as interface:
                devices.set_up(interface, self.addresses if prefix else [], prefix, queue_frames)
            self.device.count_losses()
            if guard:
                self.device.open_edge(self._flows, self._ask("settings")["settings"]).start()
            self.wanted = self.addresses if prefix else []
            with netns.enter(self.device.namespace):
                self.monitor, self.index = Monitor(), socket.if_nametoindex(tap)
            # The last report; that of an interface to which nothing has happened says nothing.
            self.reported = (dict.fromkeys(self.losses(), 0), UP, "", mac)
            self.reporting.start()
        except BaseException:
            self.close()
            raise

    def _report_often(self) -> None:
        """Report losses now and then, and at once what happens to the interface."""
        assert self.monitor
        told = self.monitor.fileno()
        while not self.over:
            ready = select.select([told, self.wake], [], [], REPORT_S)[0]
            changes = self.monitor.changes() if told in ready else []
            if not ready or changes is None or any(not change.found for change in changes):
                self._report()

    def _report(self) -> None:
        """Report new losses to the switch, which cannot read the counters of this namespace, and what the interface is like."""
        with contextlib.suppress(PenstockError, OSError):
            now = self.losses(), *self._state(), devices.mac_of(self.device.port.fd)
            if now != self.reported:
                lost, state, why, _ = now
                protocol.ask(self.path, {"report": self.name, "lost": lost, "state": state, "why": why}, allow_uid=self.allow_uid)
                self.reported = now

    def _state(self) -> tuple[str, str]:
        link = self.monitor.numbered(self.index) if self.monitor else None
        if self.monitor is None or link is None:
            return CHANGED, f"{self.tap} was moved to another namespace; move it back"
        if why := passes_nothing(link, self.tap, True):
            return DOWN, why
        why = difference(self.monitor, link, self.tap, name=self.tap, mtu=0, addresses=self.wanted)
        return (CHANGED, why) if why else (UP, "")

    def _flows(self) -> list[dict[str, Any]]:
        """What the edge needs of the switch in each step; it follows the settings, which the answer has, too."""
        answer = self._ask("held", port=self.name)
        if self.device.edge and "limits" in answer:  # a switch of an older version does not say them
            self.device.edge.rates.limit(answer["limits"]["goal"], answer["limits"]["over"])
        return list(answer["held"])

    def _ask(self, what: str, **options: Any) -> dict[str, Any]:
        return protocol.ask(self.path, {"show": what, **options}, allow_uid=self.allow_uid)

    @property
    def gone(self) -> bool:
        """Whether the switch has closed the connection, or the TAP has been deleted."""
        return protocol.readable(self.connection) or devices.place_of(self.device.port.fd, (0, 0)) is None

    def losses(self) -> dict[str, int]:
        """Frames lost in the kernel: at the device and its HTB classes, and at sockets since the device was attached."""
        lost = {"device": self.device.port.kernel_lost() or 0}
        if self.device.edge:
            found = self.device.edge.losses()
            lost |= {"classes": found["class_dropped"], "sockets": found["socket_lost"]}
        return lost

    def close(self) -> None:
        """Detach and remove the device."""
        if self.over:
            return
        self.over = True
        os.eventfd_write(self.wake, 1)
        if self.reporting.ident:
            self.reporting.join()
            self._report()
        if self.monitor:
            self.monitor.close()
        os.close(self.wake)
        self.device.release()
        self.connection.close()
        self.device.close()

    def __enter__(self) -> "Plug":
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()
