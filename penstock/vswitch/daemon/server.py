"""A switch as a process: a worker in one thread, a thread per connection that admits applications and answers questions.

An application is attached as long as its connection lives and its process does; the control thread sees either end.
"""

import collections
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
from penstock.vswitch.attach import devices
from penstock.vswitch.daemon import metrics
from penstock.vswitch.daemon import operations as operating
from penstock.vswitch.daemon import protocol as messages
from penstock.vswitch.daemon.choose import LINE_KEYS, check_no_lines, switch_of
from penstock.vswitch.daemon.systemd import Pulse, notify
from penstock.vswitch.dataplane.driver import attach_device
from penstock.vswitch.memory.region import Region
from penstock.vswitch.memory.region import checked as checked_shape
from penstock.vswitch.support.settings import address_words, validate_settings

MOST_CONNECTIONS = 128  # of other users, beside those that have attached
MOST_OF_A_USER = 32
REQUEST_BYTES = 1 << 13  # of other users; a specification may be longer
OWN_REQUEST_BYTES = 1 << 16
REQUEST_S = 5.0  # for a whole request to come in, and for an answer to be taken
AGAIN_S = 0.02  # between two attachments to a port; each costs the worker some time
AGAIN_AFTER_NONSENSE_S = 1.0
PORT_KEYS = ("name", "addresses", "uid", "memory", "guarded", "kind")
TABLES = ("switch", "port", "scheme", "link")
SWITCH_KEYS = ("socket", "cpu", "cpus", "metrics")


def checked(content: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]], str, list[int]]:
    """A SPEC.toml: settings of the switch, ports by name, socket, CPUs."""
    for key in content:
        if key not in TABLES:
            raise SpecError(f"[{key}]: unknown table{nearest(key, TABLES)}")
    switch = content.get("switch", {})
    if not isinstance(switch, Mapping):
        raise SpecError("switch: must be a table, [switch]")
    settings = {k: v for k, v in switch.items() if k not in SWITCH_KEYS}
    if "scheme" not in settings:
        validate_settings(settings)
        check_no_lines(content)
    path = switch.get("socket", messages.default_socket())
    if not isinstance(path, str) or not 0 < len(path) < 108:
        raise SpecError(f"switch.socket = {path!r}: must be a path of at most 107 characters")
    cpus = _cpus(switch, settings.get("workers", 1))
    if "metrics" in switch:
        metrics.parse_address(switch["metrics"])
    tables = content.get("port", [])
    if not isinstance(tables, list) or not all(isinstance(t, Mapping) for t in tables):
        raise SpecError("port: must be tables, [[port]]")
    ports = {}
    for i, table in enumerate(tables):
        port = checked_port(table, f"port {i + 1}")
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


def checked_port(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """A [[port]] with every value understood and in range; the options of its device are as they were."""
    device = devices.checked(table, where)
    known = (*PORT_KEYS, *LINE_KEYS, *devices.keys_of(device.get("kind", "")))
    for key in table:
        if key not in known:
            raise SpecError(f"{where}.{key}: unknown key{nearest(key, known)}")
    name, addresses, uid = table.get("name"), table.get("addresses"), table.get("uid")
    if not isinstance(name, str) or not name:
        raise SpecError(f'{where}.name = {name!r}: must be a name, such as "a"')
    if not isinstance(addresses, list) or not addresses or not all(isinstance(address, str) for address in addresses):
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
    port = {"name": name, "addresses": addresses, "uid": uid, "guarded": guarded, "memory": memory, "kind": "shm"}
    return {**port, **device, **lines}


class Daemon:
    """A running switch and its socket."""

    def __init__(self, content: Mapping[str, Any], path: str | None = None) -> None:
        settings, self.ports, found, self.cpus = checked(content)
        self.fixed = {key: content.get("switch", {}).get(key) for key in SWITCH_KEYS}
        self.path = path or found
        self.switch = switch_of(content, settings, self.ports)
        at = content.get("switch", {}).get("metrics")
        self.metrics = metrics.Server(at, self._metrics) if at else None
        self.over = threading.Event()
        self.draining = False
        self.ended = threading.Event()
        self.left: list[dict[str, Any]] = []  # what waited at each port when the switch went down
        self.asked_down: list[threading.Thread] = []
        self.attached: dict[str, socket.socket] = {}
        self.plugged: dict[str, devices.Device] = {}
        self.asking: collections.Counter[int] = collections.Counter()  # connections that have not attached, by user
        self.again: dict[str, float] = {}  # when a port may next be attached to
        self.leaving: list[Any] = []  # regions to unmap, which takes time
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

    def serve(self, ready: Callable[[], None] = lambda: None) -> None:
        """Run until `down`, or until `over` is set; `ready` is called when everything is open."""
        opened = self._open_devices()
        self.switch.start(self.cpus, self._hang_up)
        if self.metrics:
            self.metrics.start()
        self.listener.settimeout(0.2)
        pulse = Pulse()
        self._tell("READY=1")
        ready()
        try:
            for name, device in opened.items():
                if device.table:
                    device.guard(functools.partial(self._flows_from, name), self.switch.settings)
            while not self.over.is_set():
                pulse.beat(lambda: self.switch.call(lambda: True))
                try:
                    connection, _ = self.listener.accept()
                except TimeoutError:
                    continue
                except OSError:  # no descriptor is left; there will be, when a connection ends
                    time.sleep(0.01)
                    continue
                self._admit(connection)
        finally:
            notify("STOPPING=1")
            self.listener.close()
            Path(self.path).unlink(missing_ok=True)
            if self.metrics:
                self.metrics.close()
            names = list(self.attached)
            for device in opened.values():
                device.release()
            self.switch.stop()
            self.left = operating.last_rows(self.switch.detached, names)
            for each in list(self.attached.values()):
                _shut(each)
            for device in opened.values():
                device.close()
            self.ended.set()
            for thread in self.asked_down:
                thread.join(2)

    def _tell(self, *lines: str) -> None:
        """The service manager, which shows the status."""
        attached = ", ".join(sorted(self.attached)) or "none"
        notify(*lines, f"STATUS=mode {self.switch.settings['mode']}, {len(self.ports)} ports, attached: {attached}")

    def _others(self, name: str) -> list[str]:
        return [address for other, port in self.ports.items() if other != name for address in port["addresses"]]

    def _flows_from(self, name: str) -> list[dict[str, Any]]:
        return list(self.switch.call(lambda: self.switch.held_flows(name)))

    def _open_devices(self) -> dict[str, devices.Device]:
        """The ports of the specification that are devices, attached."""
        opened: dict[str, devices.Device] = {}
        try:
            for name, port in self.ports.items():
                if port["kind"] != "shm":
                    device = devices.opened(devices.checked(port, name), port["addresses"], self._others(name), f"port {name!r}")
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

    def _admit(self, connection: socket.socket) -> None:
        """A thread for a connection, unless its user has many, or others than the switch's own user have."""
        pid, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        with self.lock:
            others = sum(n for user, n in self.asking.items() if not _is_owner(user))
            if self.asking[uid] >= MOST_OF_A_USER or (others >= MOST_CONNECTIONS and not _is_owner(uid)):
                connection.close()
                return
            self.asking[uid] += 1
        try:
            threading.Thread(target=self._converse, args=(connection, pid, uid), daemon=True).start()
        except RuntimeError:  # no thread is left
            connection.close()
            self._asks_no_more(uid)

    def _asks_no_more(self, uid: int) -> None:
        with self.lock:
            self.asking[uid] -= 1
            if not self.asking[uid]:
                del self.asking[uid]

    def _hang_up(self, names: list[str], regions: list[Any]) -> None:
        """The worker has detached ports whose applications wrote nonsense."""
        self.leaving += regions
        for name in names:
            self.again[name] = time.monotonic() + AGAIN_AFTER_NONSENSE_S
            if name in self.attached:
                _shut(self.attached[name])

    def _converse(self, connection: socket.socket, pid: int, uid: int) -> None:
        name = None
        try:
            while not self.over.is_set():
                message, fds = messages.receive(connection, OWN_REQUEST_BYTES if _is_owner(uid) else REQUEST_BYTES, 2, REQUEST_S)
                if message is None:
                    return
                connection.settimeout(REQUEST_S)
                try:
                    if "attach" in message or "plug" in message:
                        admit = self._attach if "attach" in message else self._plug
                        name = admit(connection, message, fds, uid)
                        self._tell()
                        break
                    if "capture" in message:
                        self._permit(uid)
                        operating.capture(self, connection, message)
                        return
                    messages.send(connection, self._answer(message, uid))
                except PenstockError as error:
                    messages.send(connection, {"error": str(error)})
                finally:
                    messages.close(fds)
        except (OSError, RuntimeError):
            pass
        finally:
            self._asks_no_more(uid)
            try:
                if name is not None:
                    self._wait_for_end(connection, pid)
            finally:
                if name is not None:
                    self._detach(name)
                connection.close()

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
        if port["kind"] != "shm":
            raise SpecError(f"port {name!r}: it is a device, of kind {port['kind']}; applications attach to others")
        if port["uid"] is not None and uid not in (port["uid"], 0):
            raise SpecError(f"port {name!r}: it belongs to user {port['uid']}, you are {uid}")
        if self.draining:
            raise SpecError("the switch is being drained and takes no more applications")
        return name, port

    def _plug(self, connection: socket.socket, message: dict[str, Any], fds: list[int], uid: int) -> str:
        """A TAP that another process has made, in whatever namespace, and whose descriptor it sends."""
        self._permit(uid)
        name, port = self._allowed(message["plug"], uid)
        if len(fds) not in (1, 2):
            raise SpecError("plug: must come with the file descriptor of a TAP, and perhaps that of an allowance")
        device = devices.of_descriptor(*fds)
        try:
            self._claim(name, connection)
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
        most = self.switch.settings["flows"] // len(self.ports)
        if shape["queues"] > most:
            raise SpecError(
                f"port {name!r}: {shape['queues']} queues are too many; switch.flows = {self.switch.settings['flows']} are for "
                f"{len(self.ports)} ports, {most} each: ask for fewer, or start the switch with more flows"
            )
        region = Region.attach(fds[0], shape)
        self._claim(name, connection)
        try:
            self._take_in(name, region, connection)
        except BaseException:
            self._detach(name)
            raise
        return name

    def _claim(self, name: str, connection: socket.socket) -> None:
        """Have a port for oneself; the application before may be on its way out."""
        end = max(time.monotonic(), self.again.get(name, 0.0)) + 0.5
        while time.monotonic() < end:
            with self.lock:
                if name not in self.attached and time.monotonic() >= self.again.get(name, 0.0):
                    self.attached[name] = connection
                    self.again[name] = time.monotonic() + AGAIN_S
                    return
            time.sleep(0.005)
        raise SpecError(f"port {name!r}: an application is attached; there can be one")

    def _take_in(self, name: str, region: Any, connection: socket.socket) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with ours, theirs, contextlib.ExitStack() as unless_taken:
            bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            unless_taken.callback(os.close, bell)
            fd = os.dup(ours.fileno())
            unless_taken.callback(os.close, fd)
            port = self.switch.call(lambda: self._attach_region(name, region, (fd, bell)))
            unless_taken.pop_all()
            answer = {"attached": name, "doorbells": self.switch.settings["doorbells"], "addresses": port["addresses"]}
            messages.send(connection, answer, (bell, theirs.fileno()))

    def _attach_region(self, name: str, region: Any, pair: tuple[int, int]) -> dict[str, Any]:
        """In the worker's thread, where ports are changed as well."""
        port = self.ports[name]
        self.switch.attach(name, region, port["addresses"], pair, port["guarded"])
        return port

    def _detach(self, name: str) -> None:
        with contextlib.suppress(RuntimeError):  # the switch has ended, and has let all ports go
            self.switch.call(lambda: self.leaving.append(self.switch.detach_name(name)))
        self.leaving.clear()
        if name in self.plugged:
            self.plugged.pop(name).close()
        self.attached.pop(name, None)
        self._tell()

    def _metrics(self) -> str:
        return metrics.page(self.switch.call(lambda: metrics.snapshot(self.switch)))

    def _permit(self, uid: int) -> None:
        if uid not in (0, os.getuid()):
            raise SpecError(f"you are user {uid}: only the switch's own user may do that")

    def _answer(self, message: dict[str, Any], uid: int) -> dict[str, Any]:
        if not _is_owner(uid):
            raise SpecError(f"you are user {uid}: only the switch's own user may do that; others may attach")
        if "show" in message:
            what = message["show"]
            shows: dict[str, Callable[[], Any]] = {
                "ports": self.switch.ports,
                "flows": lambda: operating.flows(self.switch, message.get("most")),
                "held": lambda: self.switch.held_flows(message.get("port")),
                "pauses": self.switch.pauses,
                "counters": self.switch.counters,
                "settings": lambda: self.switch.settings,
                "detached": lambda: list(self.switch.detached),
                "captures": lambda: [each.row() for each in self.switch.captures],
            }
            if not isinstance(what, str) or what not in shows:
                raise SpecError(f"show {what!r}: unknown{nearest(str(what), shows)}")
            found = self.switch.call(shows[what])
            return found if what == "flows" else {what: found}
        if isinstance(message.get("set"), dict):
            return operating.change(self, message["set"])
        if isinstance(message.get("reload"), dict):
            return operating.reload(self, message["reload"])
        if message.get("drain"):
            return operating.drain(self, message.get("seconds", 10))
        if message.get("down"):
            self.asked_down.append(threading.current_thread())
            self.over.set()
            self.ended.wait(12)
            return {"down": True, "left": self.left}
        raise SpecError("unknown request; known: attach, plug, show, set, reload, capture, drain, down")


def _is_owner(uid: int) -> bool:
    return uid in (0, os.getuid())


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
