"""A switch as a process: a worker in one thread, a thread per connection that admits applications and answers questions.

An application is attached as long as its connection lives and its process does; the control thread sees either end.
"""

import contextlib
import functools
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
from penstock.vswitch import devices, messages
from penstock.vswitch.driver import attach_device
from penstock.vswitch.region import Region
from penstock.vswitch.region import checked as checked_shape
from penstock.vswitch.switch import Switch, address_words
from penstock.vswitch.switch import checked as checked_settings

MOST_CONNECTIONS = 128
PORT_KEYS = ("name", "addresses", "uid", "memory", "guarded", "kind")
SWITCH_KEYS = ("socket", "cpu", "cpus")


def checked(content: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]], str, list[int]]:
    """A SPEC.toml: settings of the switch, ports by name, socket, CPUs."""
    for key in content:
        if key not in ("switch", "port"):
            raise SpecError(f"[{key}]: unknown table{nearest(key, ('switch', 'port'))}")
    switch = content.get("switch", {})
    if not isinstance(switch, Mapping):
        raise SpecError("switch: must be a table, [switch]")
    settings = {k: v for k, v in switch.items() if k not in SWITCH_KEYS}
    path = switch.get("socket", messages.default_socket())
    if not isinstance(path, str) or not 0 < len(path) < 108:
        raise SpecError(f"switch.socket = {path!r}: must be a path of at most 107 characters")
    cpus = _cpus(switch, checked_settings(settings)["workers"])
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
    return settings, ports, path, cpus


def _cpus(switch: Mapping[str, Any], workers: int) -> list[int]:
    """Which CPUs the workers are pinned to: one each, or none at all."""
    allowed = sorted(os.sched_getaffinity(0))
    if "cpu" in switch and "cpus" in switch:
        raise SpecError(f"switch.cpu = {switch['cpu']!r} and switch.cpus = {switch['cpus']!r}: leave one out")
    key = "cpu" if "cpu" in switch else "cpus"
    cpus = [switch["cpu"]] if key == "cpu" else switch.get("cpus", [])
    if not isinstance(cpus, list) or any(isinstance(cpu, bool) or cpu not in allowed for cpu in cpus):
        raise SpecError(f"switch.{key} = {switch[key]!r}: must be of {allowed}, or left out")
    if cpus and (len(cpus) != workers or len(set(cpus)) != workers):
        raise SpecError(f"switch.{key} = {switch[key]!r}: must name one CPU for each of {workers} workers")
    return cpus


def _port(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    device = devices.checked(table, where)
    known = (*PORT_KEYS, *devices.OPTIONS.get(device.get("kind", ""), ()))
    for key in table:
        if key not in known:
            raise SpecError(f"{where}.{key}: unknown key{nearest(key, known)}")
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
    return {"name": name, "addresses": addresses, "uid": uid, "guarded": guarded, "memory": memory, "device": device}


class Daemon:
    """A running switch and its socket."""

    def __init__(self, content: Mapping[str, Any], path: str | None = None) -> None:
        settings, self.ports, found, self.cpus = checked(content)
        self.path = path or found
        self.switch = Switch(**settings)
        self.over = threading.Event()
        self.draining = False
        self.attached: dict[str, socket.socket] = {}
        self.plugged: dict[str, devices.Device] = {}
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
        opened = self._open_devices()
        self.switch.start(self.cpus, self._hang_up)
        self.listener.settimeout(0.2)
        try:
            for name, device in opened.items():
                if device.table:
                    device.guard(functools.partial(self._flows_from, name), self.switch.settings)
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
            for device in opened.values():
                device.release()
            self.switch.stop()
            for device in opened.values():
                device.close()

    def _others(self, name: str) -> list[str]:
        return [address for other, port in self.ports.items() if other != name for address in port["addresses"]]

    def _flows_from(self, name: str) -> list[dict[str, Any]]:
        return list(self.switch.call(lambda: self.switch.held_flows(name)))

    def _open_devices(self) -> dict[str, devices.Device]:
        """The ports of the specification that are devices, attached."""
        opened: dict[str, devices.Device] = {}
        try:
            for name, port in self.ports.items():
                if port["device"]:
                    device = devices.opened(port["device"], port["addresses"], self._others(name), f"port {name!r}")
                    opened[name] = device
                    attach_device(self.switch, name, device, port["addresses"], port["guarded"])
        except BaseException:
            self.switch.close()
            for device in opened.values():
                device.close()
            self.listener.close()
            Path(self.path).unlink(missing_ok=True)
            raise
        return opened

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
                    if "attach" in message or "plug" in message:
                        admit = self._attach if "attach" in message else self._plug
                        name = admit(connection, message, fds, uid)
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

    def _allowed(self, name: Any, uid: int) -> tuple[str, dict[str, Any]]:
        port = self.ports.get(name) if isinstance(name, str) else None
        if port is None:
            raise SpecError(f"port {name!r}: the switch has none of that name{nearest(str(name), self.ports)}")
        if port["device"]:
            raise SpecError(f"port {name!r}: it is a device, of kind {port['device']['kind']}; applications attach to others")
        if port["uid"] is not None and uid not in (port["uid"], 0):
            raise SpecError(f"port {name!r}: it belongs to user {port['uid']}, you are {uid}")
        if self.draining:
            raise SpecError("the switch is being drained and takes no more applications")
        return name, port

    def _reserve(self, name: str, connection: socket.socket) -> None:
        end = time.monotonic() + 0.5  # the one before may be on its way out
        while name in self.attached and time.monotonic() < end:
            time.sleep(0.005)
        with self.lock:
            if name in self.attached:
                raise SpecError(f"port {name!r}: an application is attached; there can be one")
            self.attached[name] = connection

    def _plug(self, connection: socket.socket, message: dict[str, Any], fds: list[int], uid: int) -> str:
        """A TAP that another process has made, in whatever namespace, and whose descriptor it sends."""
        if uid not in (0, os.getuid()):
            raise SpecError(f"you are user {uid}: only the switch's own user may plug devices in")
        name, port = self._allowed(message["plug"], uid)
        if len(fds) not in (1, 2):
            raise SpecError("plug: must come with the file descriptor of a TAP, and perhaps that of an allowance")
        device = devices.of_descriptor(os.dup(fds[0]), *fds[1:])
        try:
            self._reserve(name, connection)
            try:
                self.switch.call(lambda: attach_device(self.switch, name, device, port["addresses"], port["guarded"]))
            except (PenstockError, RuntimeError):
                del self.attached[name]
                raise
        except BaseException:
            device.close()
            raise
        self.plugged[name] = device
        try:
            messages.send(connection, {"plugged": name, "addresses": port["addresses"], "others": self._others(name)})
        except OSError:
            self._detach(name)
            raise
        return name

    def _attach(self, connection: socket.socket, message: dict[str, Any], fds: list[int], uid: int) -> str:
        name, port = self._allowed(message["attach"], uid)
        if len(fds) != 1 or not isinstance(message.get("shape"), dict):
            raise SpecError("attach: must come with the shape of a region and its file descriptor")
        shape = checked_shape(message["shape"])
        if os.fstat(fds[0]).st_size > port["memory"]:
            raise SpecError(
                f"port {name!r}: a region of {os.fstat(fds[0]).st_size} B is too large; port.memory = {port['memory']} B: "
                "ask for fewer "
                "buffers, or allow more"
            )
        self._reserve(name, connection)
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
        if name in self.plugged:
            self.plugged.pop(name).close()
        self.attached.pop(name, None)

    def _answer(self, message: dict[str, Any], uid: int) -> dict[str, Any]:
        if "show" in message:
            what = message["show"]
            shows: dict[str, Callable[[], Any]] = {
                "ports": self.switch.ports,
                "flows": self.switch.flows,
                "held": lambda: self.switch.held_flows(message.get("port")),
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
        raise SpecError("unknown request; known: attach, plug, show, set, drain, down")

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
