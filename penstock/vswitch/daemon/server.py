"""The switch daemon: the threads of its workers, and a thread per connection, which attaches an application or answers requests.

An application is attached until its connection is closed or its process ends; the thread of its connection waits for either.
"""

import collections
import contextlib
import functools
import logging
import os
import select
import socket
import stat
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from penstock.errors import PenstockError, SpecError, nearest
from penstock.vswitch.attach import devices
from penstock.vswitch.daemon import metrics, operations, places, protocol
from penstock.vswitch.daemon.config import SWITCH_KEYS, make_switch, validate_most, validate_socket, validate_spec
from penstock.vswitch.daemon.events import Events, Watcher
from penstock.vswitch.daemon.log import log
from penstock.vswitch.daemon.page_server import PageServer
from penstock.vswitch.daemon.systemd import Pulse, notify
from penstock.vswitch.dataplane.driver import attach_device
from penstock.vswitch.memory.region import Region
from penstock.vswitch.memory.region import checked as validate_shape

MOST_CONNECTIONS = 128  # of other users, without those that have attached
MOST_OF_A_USER = 32
REQUEST_BYTES = 1 << 13  # of other users; a specification may be longer
OWN_REQUEST_BYTES = 1 << 16
REQUEST_S = 5.0  # to receive a whole request, and to send an answer
ATTACH_AFTER_S = 0.02  # between two attachments to a port, since each takes time of the worker
ATTACH_AFTER_ERRORS_S = 1.0
REFUSALS_LOGGED_S = 10.0  # between two lines about refused connections
MOST_FLOWS_OF_OTHERS = 1000  # that `show` lists for a member of the group: collecting all takes time of the worker


class Daemon:
    """A running switch and its socket."""

    def __init__(self, content: Mapping[str, Any], path: str | None = None) -> None:
        config = validate_spec(content)
        self.ports, self.cpus = config.ports, config.cpus
        self.fixed = {key: content.get("switch", {}).get(key) for key in SWITCH_KEYS}  # cannot change while running
        self.path = validate_socket(path, "--socket") if path else config.socket or places.default_socket()
        self.group = places.group_number(config.group) if config.group else None  # whose members may look
        self.switch = make_switch(content, config)
        self.events = Events()
        self.watcher = Watcher(self.switch, self.events)
        self.base = operations.Base(dict(self.switch.settings), self.ports)  # what the file says
        self.metrics = PageServer(config.metrics, metrics.CONTENT_TYPE, self._metrics) if config.metrics else None
        self.over = threading.Event()  # set to stop the switch
        self.ended = threading.Event()  # set when the switch has stopped
        self.draining = False
        self.broken: set[str] = set()  # ports whose applications made too many protocol errors
        self.left: list[dict[str, Any]] = []  # frames left at each port when the switch stopped
        self.losses: list[dict[str, Any]] = []  # in the switch's life, when it has stopped: rows of its ledger
        self.down_threads: list[threading.Thread] = []  # of connections that requested `down`
        self.attached: dict[str, socket.socket] = {}  # the connection of the application at each port
        self.plugged: dict[str, devices.Device] = {}
        self.requesting: collections.Counter[int] = collections.Counter()  # connections that have not attached, by user
        self.refused = 0  # connections since the last line about them
        self.refusals_after = 0.0  # time.monotonic() of the next
        self.attach_after: dict[str, float] = {}  # time.monotonic() from which a port may be attached to again
        self.detached_regions: list[Any] = []  # to be unmapped, which takes time, outside the worker's thread
        self.lock = threading.Lock()
        self.listener = socket.socket(socket.AF_UNIX)
        self._bind()

    def _bind(self) -> None:
        """Bind the socket to its path; the stale socket of a dead switch is replaced.  SpecError: it cannot be bound."""
        places.make_folder(self.path)
        with places.alone_in(Path(self.path).parent):  # else two that start at once take the same stale socket away
            self._bind_alone()

    def _bind_alone(self) -> None:
        remedy = "choose another switch.socket, or --socket"
        try:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(self.path)
                found = protocol.describe_listener(probe)
            raise SpecError(found, remedy=f"take it down, if it is your switch, or {remedy}", place=self.path)
        except ConnectionRefusedError:  # also of a file that is no socket
            if not stat.S_ISSOCK(os.lstat(self.path).st_mode):
                raise SpecError("there is a file that is not a socket", remedy=remedy, place=self.path) from None
            Path(self.path).unlink()
        except OSError:
            pass
        try:
            self.listener.bind(self.path)
            file = os.lstat(self.path)
            self.identity = file.st_dev, file.st_ino
            if self.group is not None:
                os.chown(self.path, -1, self.group)
                os.chmod(self.path, stat.S_IMODE(file.st_mode) | stat.S_IRGRP | stat.S_IWGRP)
        except OSError as error:
            raise SpecError(f"cannot listen there ({error.strerror or error})", remedy=remedy, place=self.path) from None
        self.listener.listen(64)

    def _unbind(self) -> None:
        """Close the socket and remove its file, if it is still ours."""
        self.listener.close()
        with contextlib.suppress(OSError):
            found = os.lstat(self.path)
            if (found.st_dev, found.st_ino) == self.identity:
                os.unlink(self.path)

    def serve(self, ready: Callable[[], None] = lambda: None) -> None:
        """Run until `down`, or until `over` is set; `ready` is called when everything is open."""
        opened = self._open_devices()
        self.switch.start(self.cpus, self._hang_up)
        if self.metrics:
            self.metrics.start()
            if not self.metrics.local:
                log.warning(
                    "metrics: %s can be read by every host that reaches it; it asks nobody who it is", self.metrics.address
                )
        self.listener.settimeout(0.2)
        pulse = Pulse()
        self._notify_status("READY=1")
        self.watcher.start()
        for name in opened:
            self.events.add("port up", name, f"device of kind {self.ports[name]['kind']}")
        ready()
        log.info("serving at %s, mode %s, ports %s", self.path, self.switch.settings["mode"], ", ".join(self.ports))
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
                except OSError:  # out of descriptors until a connection ends
                    time.sleep(0.01)
                    continue
                self._admit(connection)
        finally:
            notify("STOPPING=1")
            self._unbind()
            if self.metrics:
                self.metrics.close()
            names = list(self.attached)
            self.watcher.close()
            for device in opened.values():
                device.release()
            self.switch.stop()
            self.left = operations.last_rows(self.switch.detached, names)
            self.losses = self.switch.ledger.rows()
            for line in operations.lost(self.left):
                log.warning("%s", line)
            log.info("down")
            for each in list(self.attached.values()):
                _shut(each)
            for device in opened.values():
                device.close()
            self.ended.set()
            for thread in self.down_threads:
                thread.join(2)

    def _notify_status(self, *lines: str) -> None:
        """Report the status of the switch to the service manager."""
        attached = ", ".join(sorted(self.attached)) or "none"
        notify(*lines, f"STATUS=mode {self.switch.settings['mode']}, {len(self.ports)} ports, attached: {attached}")

    def _others(self, name: str) -> list[str]:
        return [address for other, port in self.ports.items() if other != name for address in port["addresses"]]

    def _flows_from(self, name: str) -> list[dict[str, Any]]:
        return list(self.switch.held_flows(name))

    def _open_devices(self) -> dict[str, devices.Device]:
        """Open and attach the ports of the specification that are devices."""
        opened: dict[str, devices.Device] = {}
        try:
            for name, port in self.ports.items():
                if port["kind"] != "shm":
                    device = devices.open_device(
                        devices.validate_device(port, name), port["addresses"], self._others(name), f"port {name!r}"
                    )
                    opened[name] = device
                    attach_device(self.switch, name, device, port["addresses"], port["guarded"])
        except BaseException:
            self.switch.close()
            for device in opened.values():
                device.close()
            self._unbind()
            if self.metrics:
                self.metrics.close()
            raise
        return opened

    def _admit(self, connection: socket.socket) -> None:
        """Start a thread for a connection; close it if its user, or all users but the switch's own, have too many."""
        pid, uid, groups = protocol.peer(connection)
        with self.lock:
            others = sum(n for user, n in self.requesting.items() if not _is_owner(user))
            if self.requesting[uid] >= MOST_OF_A_USER:
                refusal = f"user {uid} has {MOST_OF_A_USER} connections open, which is the most: close some"
            elif others >= MOST_CONNECTIONS and not _is_owner(uid):
                refusal = (
                    f"users other than the switch's own have {MOST_CONNECTIONS} connections open, which is the most: try again"
                )
            else:
                refusal = ""
                self.requesting[uid] += 1
        if refusal:
            self._refuse(connection, uid, refusal)
            return
        who = operations.Peer(pid, uid, _is_owner(uid), _is_owner(uid) or self.group in groups)
        try:
            threading.Thread(target=self._serve_connection, args=(connection, who), daemon=True).start()
        except RuntimeError:  # no more threads can be started
            connection.close()
            self._end_request(uid)

    def _refuse(self, connection: socket.socket, uid: int, why: str) -> None:
        """Say why and hang up, waiting for nothing; log it in one line per while: who holds many connections makes many."""
        connection.setblocking(False)
        with contextlib.suppress(OSError):
            protocol.send(connection, {"error": why})
        connection.close()
        self.refused += 1
        if time.monotonic() >= self.refusals_after:
            log.warning("%d connections refused, the last of user %d, who has too many open", self.refused, uid)
            self.refused, self.refusals_after = 0, time.monotonic() + REFUSALS_LOGGED_S

    def _end_request(self, uid: int) -> None:
        with self.lock:
            self.requesting[uid] -= 1
            if not self.requesting[uid]:
                del self.requesting[uid]

    def _hang_up(self, names: list[str], regions: list[Any]) -> None:
        """Close the connections of applications whose ports the worker has detached after protocol errors."""
        self.detached_regions += regions
        for name in names:
            self.broken.add(name)
            self.attach_after[name] = time.monotonic() + ATTACH_AFTER_ERRORS_S
            if name in self.attached:
                _shut(self.attached[name])

    def _serve_connection(self, connection: socket.socket, who: operations.Peer) -> None:
        name = None
        try:
            while not self.over.is_set():
                message, fds = protocol.receive(connection, OWN_REQUEST_BYTES if who.owns else REQUEST_BYTES, 3, REQUEST_S)
                if message is None:
                    return
                connection.settimeout(REQUEST_S)
                log.debug("%s: %.200s", who, message)
                try:
                    if "attach" in message or "plug" in message:
                        admit = self._attach if "attach" in message else self._plug
                        name = admit(connection, message, fds, who.uid)
                        self.events.add("attached", name, f"{'TAP' if 'plug' in message else 'application'} of {who}")
                        self._notify_status()
                        break
                    if "capture" in message:
                        who.must_own()
                        log.info("%s captures %s", who, message["capture"] or "all ports")
                        operations.capture(self, connection, message)
                        return
                    protocol.send(connection, self._answer(message, who))
                except PenstockError as error:
                    log.info("%s: refused: %s", who, error)
                    protocol.send(connection, {"error": str(error)})
                finally:
                    protocol.close(fds)
        except (OSError, RuntimeError):
            pass
        finally:
            self._end_request(who.uid)
            try:
                if name is not None:
                    self._report_end(name, self._wait_for_end(connection, who.pid))
            finally:
                if name is not None:
                    self._detach(name)
                connection.close()

    def _report_end(self, name: str, ended: bool) -> None:
        if name in self.broken:
            self.broken.discard(name)
            self.events.add("detached", name, "too many protocol errors of the application", logging.WARNING)
        elif not self.over.is_set():
            self.events.add("detached", name, "its process has ended" if ended else "it has closed its connection")

    def _wait_for_end(self, connection: socket.socket, pid: int) -> bool:
        """Wait until the application, which sends no more requests, closes its connection or dies; whether it has died."""
        poll = select.poll()
        poll.register(connection, select.POLLIN)
        pidfd = -1
        try:
            pidfd = os.pidfd_open(pid)
            poll.register(pidfd, select.POLLIN)
        except OSError:  # in another PID namespace, or dead: its connection is closed when it ends
            pass
        try:
            return any(fd == pidfd for fd, _ in poll.poll())
        finally:
            if pidfd >= 0:
                os.close(pidfd)

    def _port_for(self, name: Any, uid: int) -> tuple[str, dict[str, Any]]:
        """The port of this name.  SpecError: there is none, or this user may not attach to it now."""
        port = self.ports.get(name) if isinstance(name, str) else None
        if port is None:
            raise SpecError(f"port {name!r}: the switch has none of that name", remedy=nearest(str(name), self.ports))
        if port["kind"] != "shm":
            raise SpecError(f"port {name!r}: it is a device, of kind {port['kind']}", remedy="applications attach to others")
        if port["uid"] is not None and uid not in (port["uid"], 0):
            raise SpecError(f"port {name!r}: it belongs to user {port['uid']}, you are {uid}")
        if self.draining:
            raise SpecError("the switch is being drained and takes no more applications")
        return name, port

    def _plug(self, connection: socket.socket, message: dict[str, Any], fds: list[int], uid: int) -> str:
        """Attach a TAP that another process has created, in any namespace, and whose descriptor it sends."""
        if not _is_owner(uid):
            raise SpecError(operations.NOT_YOURS.format(uid=uid))
        name, port = self._port_for(message["plug"], uid)
        if len(fds) not in (1, 3):
            raise SpecError("must come with the file descriptor of a TAP, and perhaps those of an allowance", path="plug")
        device = devices.tap_device(*fds)
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
            protocol.send(connection, {"plugged": name, "addresses": port["addresses"], "others": self._others(name)})
        except OSError:
            self._detach(name)
            raise
        return name

    def _attach(self, connection: socket.socket, message: dict[str, Any], fds: list[int], uid: int) -> str:
        name, port = self._port_for(message["attach"], uid)
        if len(fds) != 1 or not isinstance(message.get("shape"), dict):
            raise SpecError("must come with the shape of a region and its file descriptor", path="attach")
        shape = validate_shape(message["shape"])
        if os.fstat(fds[0]).st_size > port["memory"]:
            raise SpecError(
                f"port {name!r}: a region of {os.fstat(fds[0]).st_size} B is too large",
                remedy=f"port.memory = {port['memory']} B: ask for fewer buffers, or allow more",
            )
        most = self.switch.settings["flows"] // len(self.ports)
        if shape["queues"] > most:
            flows = self.switch.settings["flows"]
            rule = f"{shape['queues']} queues are too many: switch.flows = {flows} are for {len(self.ports)} ports, {most} each"
            raise SpecError(f"port {name!r}: {rule}", remedy="ask for fewer, or start the switch with more flows")
        region = Region.attach(fds[0], shape)
        self._claim(name, connection)
        try:
            self._attach_and_answer(name, region, connection)
        except BaseException:
            self._detach(name)
            raise
        return name

    def _claim(self, name: str, connection: socket.socket) -> None:
        """Reserve a port for a connection; waits up to 0.5 s for a previous application that is being detached."""
        end = max(time.monotonic(), self.attach_after.get(name, 0.0)) + 0.5
        while time.monotonic() < end:
            with self.lock:
                if name not in self.attached and time.monotonic() >= self.attach_after.get(name, 0.0):
                    self.attached[name] = connection
                    self.attach_after[name] = time.monotonic() + ATTACH_AFTER_S
                    return
            time.sleep(0.005)
        raise SpecError(f"port {name!r}: an application is attached", remedy="there can be one")

    def _attach_and_answer(self, name: str, region: Any, connection: socket.socket) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with ours, theirs, contextlib.ExitStack() as on_failure:
            bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            on_failure.callback(os.close, bell)
            fd = os.dup(ours.fileno())
            on_failure.callback(os.close, fd)
            port = self.switch.call(lambda: self._attach_region(name, region, (fd, bell)))
            on_failure.pop_all()
            answer = {"attached": name, "doorbells": self.switch.settings["doorbells"], "addresses": port["addresses"]}
            protocol.send(connection, answer, (bell, theirs.fileno()))

    def _attach_region(self, name: str, region: Any, pair: tuple[int, int]) -> dict[str, Any]:
        """Attach a region; runs in the worker's thread, like changes of ports."""
        port = self.ports[name]
        self.switch.attach(name, region, port["addresses"], pair, port["guarded"])
        return port

    def _detach(self, name: str) -> None:
        with contextlib.suppress(RuntimeError):  # the switch has stopped, and has detached all ports
            self.switch.call(lambda: self.detached_regions.append(self.switch.detach_name(name)))
        self.detached_regions.clear()
        if name in self.plugged:
            self.plugged.pop(name).close()
        self.attached.pop(name, None)
        self._notify_status()

    def _metrics(self) -> str:
        return metrics.page(self.switch.call(lambda: metrics.snapshot(self.switch)))

    def _answer(self, message: dict[str, Any], who: operations.Peer) -> dict[str, Any]:
        if "show" in message:
            who.must_look()
            return self._show(message, who)
        who.must_own()
        if isinstance(message.get("set"), dict):
            log.info("%s sets %s", who, message["set"])
            return operations.change(self, message["set"])
        if message.get("undo"):
            log.info("%s undoes what was set", who)
            return operations.undo(self)
        if isinstance(message.get("reload"), dict):
            log.info("%s reloads the specification", who)
            return operations.reload(self, message["reload"])
        if "report" in message:
            return operations.report(self, message)
        if message.get("drain"):
            log.info("%s drains the switch", who)
            return operations.drain(self, message.get("seconds", 10))
        if message.get("down"):
            log.info("%s takes the switch down", who)
            self.down_threads.append(threading.current_thread())
            self.over.set()
            self.ended.wait(12)
            return {"down": True, "left": self.left, "losses": self.losses}
        raise SpecError("unknown request", remedy="known: attach, plug, show, set, undo, reload, capture, report, drain, down")

    def _show(self, message: dict[str, Any], who: operations.Peer) -> dict[str, Any]:
        what, most = message["show"], message.get("most")
        if what in operations.LOOKS:
            return operations.look(self, what)
        if not who.owns:
            most = MOST_FLOWS_OF_OTHERS if most is None else min(validate_most(most), MOST_FLOWS_OF_OTHERS)
        shows: dict[str, Callable[[], Any]] = {
            "flows": lambda: operations.flows(self.switch, most),
            "held": lambda: self.switch.held_flows(message.get("port")),
            "pauses": self.switch.pauses,
            "counters": self.switch.counters,
            "settings": lambda: self.switch.settings,
            "changes": lambda: operations.changes(self),
            "detached": lambda: list(self.switch.detached),
            "captures": lambda: [each.row() for each in self.switch.captures],
        }
        if not isinstance(what, str) or what not in shows:
            raise SpecError(f"show {what!r}: unknown", remedy=nearest(str(what), (*operations.LOOKS, *shows)))
        found = self.switch.call(shows[what])
        return found if what == "flows" else {what: found}


def _is_owner(uid: int) -> bool:
    return uid in (0, os.getuid())


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
