"""The new process of an upgrade (upgrade.py): it builds the switch that the old one describes, and goes on with it."""

import json
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from penstock_net.errors import PenstockError
from penstock_net.vswitch.daemon import handing, protocol
from penstock_net.vswitch.daemon.server import Daemon
from penstock_net.vswitch.daemon.upgrade import FDS_AT_ONCE, FORMAT, LAST, READY_S, VARIABLE
from penstock_net.vswitch.support import layouts
from penstock_net.vswitch.support.blocks import read
from penstock_net.vswitch.world import io, os, socket, time

WAIT_S = 60.0  # for the old process, which stops its workers when it has nothing else to do


def program() -> list[str]:
    """The command by which this process was started, for a process of the same program as it is by then."""
    script = os.path.abspath(sys.argv[0])
    if os.path.isfile(script) and os.access(script, os.X_OK):
        return [script, *sys.argv[1:]]
    return [sys.executable, *sys.orig_argv[1:]]


def channel() -> socket.socket | None:
    """The socket to the old process, if this one was started for an upgrade."""
    number = os.environ.pop(VARIABLE, "")
    return socket.socket(fileno=int(number)) if number.isdigit() else None


class Taken:
    """What the old process hands over, of which the control socket and the page of metrics come with the rest."""

    def __init__(self, old: socket.socket) -> None:
        self.old = old
        self.found: Mapping[str, Any] = {}  # what does not change while frames pass
        self.stopped: Mapping[str, Any] = {}  # where everything is since the old process has stopped
        self.fds: list[int] = []

    def build(self, program: list[str]) -> Daemon:
        """The daemon, once the old process has ceased to be one.  PenstockError: that goes on."""
        try:
            protocol.send(self.old, {"hello": [FORMAT]})
            asked, _ = protocol.receive(self.old, within=WAIT_S)
            if asked is None:
                raise PenstockError("the old process has ended")
            layouts.prepare()
            daemon = Daemon(asked["content"], asked["path"], program, self)
            protocol.send(self.old, {"prepared": True})
            self.found, _, self.fds = self._receive()
            handing.build(daemon, self.found, self.fds)
            protocol.send(self.old, {"built": True})
            self.stopped, arrays, _ = self._receive()
            handing.resume(daemon, self.stopped, arrays)
        except Exception as error:
            protocol.send(self.old, {"error": f"{type(error).__name__}: {error}"})
            raise
        protocol.send(self.old, {"ready": True})
        message, _ = protocol.receive(self.old, within=READY_S)
        if message is None or not message.get("go"):
            raise PenstockError("the old process goes on")
        daemon.upgrades += 1
        return daemon

    def _receive(self) -> tuple[Mapping[str, Any], Mapping[str, np.ndarray], list[int]]:
        """Receive a description, its arrays, and descriptors."""
        self.old.settimeout(WAIT_S)
        data, fds = b"", list[int]()
        while data != LAST:
            data, more, _, _ = socket.recv_fds(self.old, 1, FDS_AT_ONCE, socket.MSG_CMSG_CLOEXEC)
            if not data:
                raise PenstockError("the old process goes on")
            fds += more
        arrays, text, *rest = fds
        found = json.loads(_read_all(text))
        try:
            return found, read(arrays, found["blocks"]), rest
        finally:
            os.close(arrays)

    def begin(self, daemon: Daemon) -> None:
        """The workers run: begin all else, and let the old process end."""
        paused = time.monotonic_ns() - self.stopped["stopped"]
        handing.begin(daemon, self.found, self.fds)
        protocol.send(self.old, {"serving": paused})
        self.old.close()
        daemon.events.add("upgraded", None, f"process {os.getpid()} goes on after {paused / 1e6:.0f} ms")


def _read_all(fd: int) -> bytes:
    with io.open(fd, "rb") as file:
        file.seek(0)
        return file.read()
