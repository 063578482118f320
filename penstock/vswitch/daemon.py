"""A switch as a process: a worker in one thread, a thread per connection that admits applications and answers questions.

An application is attached as long as its connection lives and its process does; the control thread sees either end.
"""

import contextlib
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from penstock.errors import PenstockError, SpecError, nearest
from penstock.units import parse_size
from penstock.vswitch import messages
from penstock.vswitch.choose import LINE_KEYS, check_no_lines, switch_of
from penstock.vswitch.region import Region
from penstock.vswitch.region import checked as checked_shape
from penstock.vswitch.switch import address_words
from penstock.vswitch.switch import checked as checked_settings

MOST_CONNECTIONS = 128
PORT_KEYS = ("name", "addresses", "uid", "memory", "guarded")
TABLES = ("switch", "port", "scheme", "link")
SWITCH_KEYS = ("socket", "cpu")


def checked(content: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]], str, int | None]:
    """A SPEC.toml: settings of the switch, ports by name, socket, CPU."""
    for key in content:
        if key not in TABLES:
            raise SpecError(f"[{key}]: unknown table{nearest(key, TABLES)}")
    switch = content.get("switch", {})
    if not isinstance(switch, Mapping):
        raise SpecError("switch: must be a table, [switch]")
    settings = {k: v for k, v in switch.items() if k not in SWITCH_KEYS}
    if "scheme" not in settings:
        checked_settings(settings)
        check_no_lines(content)
    path, cpu = switch.get("socket", messages.default_socket()), switch.get("cpu")
    if not isinstance(path, str) or not 0 < len(path) < 108:
        raise SpecError(f"switch.socket = {path!r}: must be a path of at most 107 characters")
    allowed = os.sched_getaffinity(0)
    if cpu is not None and (isinstance(cpu, bool) or cpu not in allowed):
        raise SpecError(f"switch.cpu = {cpu!r}: must be one of {sorted(allowed)}, or left out")
    tables = content.get("port", [])
    if not isinstance(tables, list) or not all(isinstance(t, Mapping) for t in tables):
        raise SpecError("port: must be tables, [[port]]")
    ports = {}
    for i, table in enumerate(tables):
        port = _port(table, f"port {i + 1}")
        if port["name"] in ports:
            raise SpecError(f"port {i + 1}: there is a {port['name']!r} already; take another name")
        ports[port["name"]] = port
    if not ports:
        raise SpecError('no [[port]]: applications attach to ports, such as name = "a", addresses = ["10.0.0.1"]')
    return settings, ports, path, cpu


def _port(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    for key in table:
        if key not in (*PORT_KEYS, *LINE_KEYS):
            raise SpecError(f"{where}.{key}: unknown key{nearest(key, (*PORT_KEYS, *LINE_KEYS))}")
    name, addresses, uid = table.get("name"), table.get("addresses"), table.get("uid")
    if not isinstance(name, str) or not name:
        raise SpecError(f'{where}.name = {name!r}: must be a name, such as "a"')
    if not isinstance(addresses, list) or not addresses:
        raise SpecError(f'{where}.addresses = {addresses!r}: must be a list, such as ["10.0.0.1"]')
    for address in addresses:
        address_words(address)
    if uid is not None and (isinstance(uid, bool) or not isinstance(uid, int)):
        raise SpecError(f"{where}.uid = {uid!r}: must be the number of a user, or left out: any user that may open the socket")
    guarded = table.get("guarded", True)
    if not isinstance(guarded, bool):
        raise SpecError(f"{where}.guarded = {guarded!r}: must be true or false")
    memory = parse_size(table.get("memory", "64MB"), f"{where}.memory", positive=True)
    lines = {key: table[key] for key in LINE_KEYS if key in table}
    return {"name": name, "addresses": addresses, "uid": uid, "guarded": guarded, "memory": memory, **lines}


class Daemon:
    """A running switch and its socket."""

    def __init__(self, content: Mapping[str, Any], path: str | None = None) -> None:
        settings, self.ports, found, self.cpu = checked(content)
        self.path = path or found
        self.switch = switch_of(content, settings, self.ports)
        self.over = threading.Event()
        self.draining = False
        self.attached: dict[str, socket.socket] = {}
        self.connections = 0
        self.lock = threading.Lock()
        self.listener = socket.socket(socket.AF_UNIX)
        self._bind()

    def _bind(self) -> None:
        """Take the path; a socket that a dead switch has left is replaced."""
        try:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(self.path)
            raise SpecError(f"{self.path}: a switch is listening there; take it down or choose another switch.socket")
        except ConnectionRefusedError:
            Path(self.path).unlink()
        except OSError:
            pass
        try:
            self.listener.bind(self.path)
        except OSError as error:
            raise SpecError(f"{self.path}: cannot listen there ({error.strerror}); choose another switch.socket") from None
        self.listener.listen(64)

    def serve(self) -> None:
        """Run until `down`, or until `over` is set."""
        self.switch.start(self.cpu, self._hang_up)
        self.listener.settimeout(0.2)
        try:
            while not self.over.is_set():
                try:
                    connection, _ = self.listener.accept()
                except TimeoutError:
                    continue
                if self.connections >= MOST_CONNECTIONS:
                    connection.close()
                    continue
                with self.lock:
                    self.connections += 1
                threading.Thread(target=self._converse, args=(connection,), daemon=True).start()
        finally:
            self.listener.close()
            Path(self.path).unlink(missing_ok=True)
            for each in list(self.attached.values()):
                _shut(each)
            self.switch.stop()

    def _hang_up(self, names: list[str]) -> None:
        """The worker has detached ports whose applications wrote nonsense."""
        for name in names:
            if name in self.attached:
                _shut(self.attached[name])

    def _converse(self, connection: socket.socket) -> None:
        pid, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        name = None
        connection.settimeout(10)
        try:
            while not self.over.is_set():
                message, fds = messages.receive(connection, 1 << 16)
                if message is None:
                    return
                try:
                    if "attach" in message:
                        name = self._attach(connection, message, fds, uid)
                        self._wait_for_end(connection, pid)
                        return
                    messages.send(connection, self._answer(message, uid))
                except PenstockError as error:
                    messages.send(connection, {"error": str(error)})
                finally:
                    messages.close(fds)
        except (OSError, RuntimeError):
            pass
        finally:
            if name is not None:
                self._detach(name)
            connection.close()
            with self.lock:
                self.connections -= 1

    def _wait_for_end(self, connection: socket.socket, pid: int) -> None:
        """Until the application hangs up or dies; it has nothing more to say."""
        poll = select.poll()
        poll.register(connection, select.POLLIN)
        pidfd = -1
        try:
            pidfd = os.pidfd_open(pid)
            poll.register(pidfd, select.POLLIN)
        except OSError:  # of another namespace, or gone already: then the connection tells
            pass
        try:
            poll.poll()
        finally:
            if pidfd >= 0:
                os.close(pidfd)

    def _attach(self, connection: socket.socket, message: dict[str, Any], fds: list[int], uid: int) -> str:
        name = message["attach"]
        port = self.ports.get(name) if isinstance(name, str) else None
        if port is None:
            raise SpecError(f"port {name!r}: the switch has none of that name{nearest(str(name), self.ports)}")
        if port["uid"] is not None and uid not in (port["uid"], 0):
            raise SpecError(f"port {name!r}: it belongs to user {port['uid']}, you are {uid}")
        if self.draining:
            raise SpecError("the switch is being drained and takes no more applications")
        if len(fds) != 1 or not isinstance(message.get("shape"), dict):
            raise SpecError("attach: must come with the shape of a region and its file descriptor")
        shape = checked_shape(message["shape"])
        if os.fstat(fds[0]).st_size > port["memory"]:
            raise SpecError(
                f"port {name!r}: a region of {os.fstat(fds[0]).st_size} B is too large; port.memory = {port['memory']} B: "
                "ask for fewer "
                "buffers, or allow more"
            )
        end = time.monotonic() + 0.5  # the one before may be on its way out
        while name in self.attached and time.monotonic() < end:
            time.sleep(0.005)
        with self.lock:
            if name in self.attached:
                raise SpecError(f"port {name!r}: an application is attached; there can be one")
            self.attached[name] = connection
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        try:
            region = Region.attach(fds[0], shape)
            pair = (os.dup(ours.fileno()), bell)
            try:
                self.switch.call(lambda: self.switch.attach(name, region, port["addresses"], pair, port["guarded"]))
            except (PenstockError, RuntimeError):
                del self.attached[name]
                messages.close(list(pair))
                raise
            try:
                answer = {"attached": name, "doorbells": self.switch.settings["doorbells"], "addresses": port["addresses"]}
                messages.send(connection, answer, (bell, theirs.fileno()))
            except OSError:
                self._detach(name)
                raise
        finally:
            ours.close()
            theirs.close()
        return name

    def _detach(self, name: str) -> None:
        with contextlib.suppress(RuntimeError):  # the switch has ended, and has let all ports go
            self.switch.call(lambda: self.switch.detach_name(name))
        self.attached.pop(name, None)

    def _answer(self, message: dict[str, Any], uid: int) -> dict[str, Any]:
        if "show" in message:
            what = message["show"]
            shows: dict[str, Callable[[], Any]] = {
                "ports": self.switch.ports,
                "flows": self.switch.flows,
                "pauses": self.switch.pauses,
                "counters": self.switch.counters,
                "settings": lambda: self.switch.settings,
                "detached": lambda: list(self.switch.detached),
            }
            if what not in shows:
                raise SpecError(f"show {what!r}: unknown{nearest(str(what), shows)}")
            return {what: self.switch.call(shows[what])}
        if uid not in (0, os.getuid()):
            raise SpecError(f"you are user {uid}: only the switch's own user may do that")
        if isinstance(message.get("set"), dict):
            return {"settings": self.switch.call(lambda: self.switch.set(message["set"]))}
        if message.get("drain"):
            return self._drain()
        if message.get("down"):
            self.over.set()
            return {"down": True}
        raise SpecError("unknown request; known: attach, show, set, drain, down")

    def _drain(self) -> dict[str, Any]:
        """Admit nobody any more and wait until nothing waits in the switch, at most 10 s."""
        self.draining = True
        end = time.monotonic() + 10
        while time.monotonic() < end:
            if not self.switch.call(self.switch.waiting):
                return {"drained": True}
            time.sleep(0.01)
        return {"drained": False, "pauses": self.switch.call(self.switch.pauses)[:20]}


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
