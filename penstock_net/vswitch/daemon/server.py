"""The switch daemon: worker threads, and a thread per connection that attaches an application or answers requests.

An application stays attached until its connection is closed or its process ends; the thread of its connection waits for either.
"""

import collections
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock_net.errors import PenstockError, SpecError, nearest
from penstock_net.vswitch.attach import devices, edge, ending
from penstock_net.vswitch.daemon import descriptors, metrics, operations, places, ports, protocol, upgrade
from penstock_net.vswitch.daemon.config import fixed_of, make_switch, validate_most, validate_spec
from penstock_net.vswitch.daemon.events import Events, Watcher
from penstock_net.vswitch.daemon.keeper import Keeper
from penstock_net.vswitch.daemon.log import log
from penstock_net.vswitch.daemon.page_server import PageServer
from penstock_net.vswitch.daemon.stopping import end_all
from penstock_net.vswitch.daemon.systemd import Pulse, notify
from penstock_net.vswitch.dataplane.driver import attach_device
from penstock_net.vswitch.linux import scheduling
from penstock_net.vswitch.linux.unix_socket import listen, listener, socket_path
from penstock_net.vswitch.memory.region import Region
from penstock_net.vswitch.memory.region import checked as validate_shape
from penstock_net.vswitch.support import layouts
from penstock_net.vswitch.support.balance import balance
from penstock_net.vswitch.world import os, pathlib, select, socket, threading, time

if TYPE_CHECKING:
    from penstock_net.vswitch.daemon.takeover import Taken

MOST_CONNECTIONS = 128  # of other users, without those that have attached
MOST_OF_A_USER = 32
BACKLOG = 64  # connections that wait to be accepted
REQUEST_BYTES, OWN_REQUEST_BYTES = 1 << 13, 1 << 20  # of other users; and of the own one, as a specification may be longer
ACCEPT_S = 0.2  # until the main thread sees to other things
REQUEST_S = 5.0  # to receive a whole request, and to send an answer
ATTACH_AFTER_S = 0.02  # between two attachments to a port, since each takes time of the worker
ATTACH_AFTER_ERRORS_S = 1.0
REFUSALS_LOGGED_S = 10.0  # between two lines about refused connections
MOST_FLOWS_OF_OTHERS = 1000  # that `show` lists for a member of the group: collecting all takes time of the worker


class Daemon:
    """A running switch and its socket."""

    def __init__(
        self,
        content: Mapping[str, Any],
        path: str | None = None,
        program: Sequence[str] = (),
        taken: "Taken | None" = None,
    ) -> None:
        """program: a command that starts such a switch anew, for an upgrade; taken: what another process hands over."""
        config = validate_spec(content)
        self.content, self.program, self.taken = content, list(program), taken
        self.ports, self.cpus, self.realtime = config.ports, config.cpus, config.realtime
        self.fixed = fixed_of(content)
        self.path = socket_path(path, "--socket") if path else config.socket or places.default_socket()
        self.group = places.group_number(config.group) if config.group else None  # whose members may look
        descriptors.allow(config.ports)
        scheduling.permit(config.realtime)
        self.switch = make_switch(content, config)
        self.events = Events()
        self.watcher = Watcher(self.switch, self.events)
        self.base = operations.Base(dict(self.switch.settings), dict(self.ports))  # what the file says, or `port add`
        self.added: set[str] = set()  # ports that the file does not name
        self.changing = threading.Lock()  # one change of settings or ports at a time
        self.metrics: PageServer | None = None
        if config.metrics and not taken:
            self.metrics = PageServer(config.metrics, metrics.CONTENT_TYPE, self._metrics)
        self.over = threading.Event()  # set to stop the switch
        self.ended = threading.Event()  # set when the switch has stopped
        self.draining, self.failed = False, ""  # the latter: what could not be ended when the switch stopped
        self.keeper: Keeper | None = None  # of the devices, while it serves
        self.broken: set[str] = set()  # ports whose applications made too many protocol errors
        self.left: list[dict[str, Any]] = []  # frames left at each port when the switch stopped
        self.losses: list[dict[str, Any]] = []  # in the switch's life, when it has stopped: rows of its ledger
        self.down_threads: list[threading.Thread] = []  # of connections that requested `down`
        self.attached: dict[str, socket.socket] = {}  # the connection of the application at each port
        self.holders: dict[str, operations.Peer] = {}  # and whose it is
        self.steady = threading.Lock()  # held while an application is attached or detached, and while the switch is handed over
        self.started, self.upgrades = time.time(), 0
        self.upgrading: upgrade.Request | None = None  # what the main thread is asked to do
        self.devices: dict[str, devices.Device] = {}
        self.plugged: dict[str, devices.Device] = {}
        self.requesting: collections.Counter[int] = collections.Counter()  # connections that have not attached, by user
        self.refused = 0  # connections since the last line about them
        self.refusals_after = 0.0  # time.monotonic() of the next
        self.attach_after: dict[str, float] = {}  # time.monotonic() from which a port may be attached to again
        self.detached_regions: list[Any] = []  # to be unmapped, which takes time, outside the worker's thread
        self.lock = threading.Lock()
        self.unreachable = ""  # why the control socket cannot be made again
        self.listener = socket.socket(socket.AF_UNIX)
        if not taken:
            self._bind()

    def listen_at(self, listener: socket.socket, page: socket.socket | None) -> None:
        """Go on with the control socket of another process, and with the socket of its page of metrics."""
        self.listener.close()
        self.listener = listener
        listener.settimeout(ACCEPT_S)
        if page:
            self.metrics = PageServer(self.fixed["switch.metrics"], metrics.CONTENT_TYPE, self._metrics, page)

    def _bind(self) -> None:
        """Bind the control socket; the stale socket of a dead switch is replaced.  SpecError: it cannot be bound."""
        places.make_folder(self.path)
        with places.alone_in(pathlib.Path(self.path).parent):  # else two that start at once take the same stale socket away
            self._bind_alone()

    def _bind_alone(self) -> None:
        remedy = "choose another switch.socket, or --socket"
        try:
            with listener(self.path) as other:
                if other:
                    found = protocol.describe_listener(other)
                    raise SpecError(found, remedy=f"stop it if it is your switch, or {remedy}", place=self.path)
        except FileExistsError:
            raise SpecError("a file exists there that is not a socket", remedy=remedy, place=self.path) from None
        except OSError:
            pass
        try:
            self.identity = listen(self.listener, self.path, BACKLOG, self.group)
        except OSError as error:
            raise SpecError(f"cannot listen there ({error.strerror or error})", remedy=remedy, place=self.path) from None
        self.listener.settimeout(ACCEPT_S)

    def _stay_reachable(self) -> None:
        """Bind the control socket again if its file was removed, unless there is another switch's by now."""
        with contextlib.suppress(OSError):
            found = os.lstat(self.path)
            if (found.st_dev, found.st_ino) == self.identity:
                self.unreachable = ""
                return
        before, self.listener = self.listener, socket.socket(socket.AF_UNIX)
        try:
            self._bind()
        except PenstockError as error:
            self.listener.close()
            self.listener = before
            if str(error) != self.unreachable:
                self.unreachable = str(error)
                self.events.add("control socket", None, f"was removed, and cannot be made again: {error}", logging.WARNING)
        else:
            before.close()
            self.events.add("control socket", None, f"{self.path} was removed, and was made again", logging.WARNING)

    def _unbind(self) -> None:
        """Close the socket and remove its file, if it is still ours."""
        self.listener.close()
        with contextlib.suppress(OSError):
            found = os.lstat(self.path)
            if (found.st_dev, found.st_ino) == self.identity:
                os.unlink(self.path)

    def serve(self, ready: Callable[[], None] = lambda: None) -> None:
        """Run until `down`, or until `over` is set; `ready` is called when everything is open."""
        if not self.taken:
            self._open_devices()
        self.switch.start(self.cpus, self._hang_up, self.realtime)
        if self.metrics:
            self.metrics.start()
            if not self.metrics.local:
                log.warning("metrics: every host that reaches %s can read them, without authentication", self.metrics.address)
        pulse = Pulse()
        self.watcher.start()
        try:
            self.keeper = Keeper(self)
            if self.taken:
                self.taken.begin(self)
            else:
                self._begin()
            self.keeper.start()
            if not self.taken:
                ports.add_kept(self)
            self._notify_status("READY=1")
            ready()
            if self.program:
                layouts.prepare()  # now, since its files may be another version's by the time of an upgrade
            log.info("serving at %s, mode %s, ports %s", self.path, self.switch.settings["mode"], ", ".join(self.ports))
            while not self.over.is_set():
                pulse.beat(lambda: self.switch.call(lambda: True))
                if self.upgrading:
                    upgrade.run(self, self.upgrading)
                    self.upgrading = None
                try:
                    connection, _ = self.listener.accept()
                except TimeoutError:
                    self._stay_reachable()
                    continue
                except OSError:  # out of descriptors until a connection ends
                    time.sleep(0.01)
                    continue
                self._admit(connection)
        finally:
            self._stop()

    def _stop(self) -> None:
        """End everything; PenstockError: parts of it could not be, the others were."""
        notify("STOPPING=1")
        self.failed = end_all(
            {
                "the control socket": self._unbind,
                "the page of metrics": self.metrics.close if self.metrics else None,
                "the keeper of the devices": self.keeper.close if self.keeper else None,
                "the events": self.watcher.close,
                "the edges": lambda: ending.release_all(self.devices.values()),
                "the workers": self.switch.stop,  # if they cannot, ports stay in `numbers`, and workers may use their memory
                "the losses": partial(self._say_lost, list(self.attached)),
                "the devices": lambda: ending.close_all(d for n, d in self.devices.items() if n not in self.switch.numbers),
            }
        )
        self.ended.set()
        for thread in self.down_threads:
            thread.join(2)
        if self.failed:
            raise PenstockError(self.failed)

    def _say_lost(self, names: list[str]) -> None:
        self.left, self.losses = operations.last_rows(self.switch.detached, names), self.switch.ledger.rows()
        for line in operations.lost(self.left):
            log.warning("%s", line)
        log.info("down")
        for each in list(self.attached.values()):
            _shut(each)

    def _begin(self) -> None:
        """Begin the edges of the devices, and keep them."""
        self.guard(self.devices)  # at the moment when it is set, frames that are sent are lost
        for name in self.devices:
            self.events.add("port up", name, f"device of kind {self.ports[name]['kind']}")
        if self.keeper:
            self.keeper.add(self.devices)

    def _notify_status(self, *lines: str) -> None:
        """Report the status of the switch to the service manager."""
        attached = ", ".join(sorted(self.attached)) or "none"
        notify(*lines, f"STATUS=mode {self.switch.settings['mode']}, {len(self.ports)} ports, attached: {attached}")

    def guard(self, opened: Mapping[str, devices.Device]) -> None:
        """Begin the edges of devices, of those that shall have one."""
        reads = {name: partial(self.switch.held_flows, name) for name, device in opened.items() if device.table}
        edge.start_all([opened[name].open_edge(read, self.switch.settings) for name, read in reads.items()])

    def _open_devices(self) -> None:
        """Open and attach the ports of the specification that are devices."""
        try:
            for name, port in self.ports.items():
                if port["kind"] != "shm":
                    device = self.devices[name] = ports.open_device(name, port)
                    attach_device(self.switch, name, device, port["addresses"], port["guarded"])
        except BaseException:
            self.switch.close()
            ending.close_all(self.devices.values())
            self._unbind()
            if self.metrics:
                self.metrics.close()
            raise

    def _admit(self, connection: socket.socket) -> None:
        """Start a thread for a connection; refuse it if its user, or all users other than the switch's own, have too many."""
        pid, uid, groups = protocol.peer(connection)
        with self.lock:
            others = sum(n for user, n in self.requesting.items() if not _is_owner(user))
            if self.requesting[uid] >= MOST_OF_A_USER:
                refusal = f"user {uid} has {MOST_OF_A_USER} connections open, the limit per user: close some"
            elif others >= MOST_CONNECTIONS and not _is_owner(uid):
                refusal = f"users other than the switch's own have {MOST_CONNECTIONS} connections open, the limit: try again"
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
        """Send the reason and close the connection without waiting; log refusals at a limited rate: a client may cause many."""
        connection.setblocking(False)
        with contextlib.suppress(OSError):
            protocol.send(connection, {"error": why, "busy": True})
        connection.close()
        self.refused += 1
        if time.monotonic() >= self.refusals_after:
            log.warning("%d connections refused, the last one of user %d: too many open connections", self.refused, uid)
            self.refused, self.refusals_after = 0, time.monotonic() + REFUSALS_LOGGED_S

    def _end_request(self, uid: int) -> None:
        with self.lock:
            self.requesting[uid] -= 1
            if not self.requesting[uid]:
                del self.requesting[uid]

    def _hang_up(self, names: list[str], regions: list[Any]) -> None:
        """Close the connections of applications whose ports were detached after protocol errors."""
        self.detached_regions += regions
        for name in names:
            self.broken.add(name)
            self.attach_after[name] = time.monotonic() + ATTACH_AFTER_ERRORS_S
            self.hang_up(name)

    def hang_up(self, name: str) -> None:
        """Close the connection of the application at a port, whose thread then detaches it."""
        if connection := self.attached.get(name):
            _shut(connection)

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
                        name = admit(connection, message, fds, who)
                        self.events.add("attached", name, f"{'TAP' if 'plug' in message else 'application'} of {who}")
                        self._notify_status()
                        break
                    if "capture" in message:
                        who.must_own()
                        protocol.close(fds)  # one may be of the client's own end, whose closing ends the capture
                        fds = []
                        log.info("%s captures %s", who, message["capture"] or "all ports")
                        operations.capture(self, connection, message)
                        return
                    if "upgrade" in message:
                        who.must_own()
                        log.info("%s upgrades the switch", who)
                        protocol.send(connection, upgrade.ask(self, connection))
                        continue
                    protocol.send(connection, protocol.answered(self._answer, message, who))
                except PenstockError as error:
                    log.info("%s: refused: %s", who, error)
                    protocol.send(connection, {"error": str(error)})
                finally:
                    protocol.close(fds)
        except (OSError, RuntimeError):
            pass
        finally:
            self._end_request(who.uid)
            if name is not None:
                self._stay(name, connection, who)
            connection.close()

    def _stay(self, name: str, connection: socket.socket, who: operations.Peer) -> None:
        """Wait until an application that is attached has gone, and detach it."""
        try:
            self._report_end(name, self._wait_for_end(connection, who.pid))
        finally:
            self._detach(name)
            connection.close()

    def stay_attached(self, name: str, connection: socket.socket, who: operations.Peer) -> None:
        """Go on with an application that has attached in another process."""
        self.attached[name], self.holders[name] = connection, who
        threading.Thread(target=self._stay, args=(name, connection, who), daemon=True).start()

    def _report_end(self, name: str, ended: bool) -> None:
        if name in self.broken:
            self.broken.discard(name)
            self.events.add("detached", name, "the application made too many protocol errors", logging.WARNING)
        elif not self.over.is_set():
            self.events.add("detached", name, "its process has ended" if ended else "it has closed its connection")

    def _wait_for_end(self, connection: socket.socket, pid: int) -> bool:
        """Wait until the application closes its connection or its process ends; returns whether the process has ended."""
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
        """The port of this name.  SpecError: it does not exist, or this user may not attach to it now."""
        port = self.ports.get(name) if isinstance(name, str) else None
        if port is None:
            raise SpecError(f"port {name!r}: the switch has no such port", remedy=nearest(str(name), self.ports))
        if port["kind"] != "shm":
            raise SpecError(f"port {name!r}: is a device of kind {port['kind']}", remedy="applications need one of kind shm")
        if port["uid"] is not None and uid not in (port["uid"], 0):
            raise SpecError(f"port {name!r}: belongs to user {port['uid']}; you are user {uid}")
        if self.draining:
            raise SpecError("the switch is being drained and admits no applications")
        return name, port

    def _plug(self, connection: socket.socket, message: dict[str, Any], fds: list[int], who: operations.Peer) -> str:
        """Attach a TAP that another process has created, in any namespace; the process sends its descriptor."""
        if not who.owns:
            raise SpecError(operations.NOT_YOURS.format(uid=who.uid))
        name, _ = self._port_for(message["plug"], who.uid)
        if len(fds) not in (1, 3):
            raise SpecError("needs the file descriptor of a TAP, and optionally those of an allowance", path="plug")
        device = devices.tap_device(*fds)
        try:
            self._claim(name, connection, who)
            try:
                with self.steady:
                    port = self.switch.call(lambda: self._attach_plugged(name, device))
                    self.plugged[name] = device
            except (PenstockError, RuntimeError):
                del self.attached[name]
                raise
        except BaseException:
            device.close()
            raise
        try:
            protocol.send(connection, {"plugged": name, "addresses": port["addresses"]})
        except OSError:
            self._detach(name)
            raise
        return name

    def _attach(self, connection: socket.socket, message: dict[str, Any], fds: list[int], who: operations.Peer) -> str:
        name, port = self._port_for(message["attach"], who.uid)
        if len(fds) != 1 or not isinstance(message.get("shape"), dict):
            raise SpecError("needs the shape of a region and its file descriptor", path="attach")
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
        self._claim(name, connection, who)
        try:
            with self.steady:
                self._attach_and_answer(name, region, connection)
        except BaseException:
            self._detach(name)
            raise
        return name

    def _claim(self, name: str, connection: socket.socket, who: operations.Peer) -> None:
        """Reserve a port; waits up to 0.5 s for an application that is being detached.  ConnectionError: who asks has gone."""
        end = max(time.monotonic(), self.attach_after.get(name, 0.0)) + 0.5
        while (now := time.monotonic()) < end:
            with self.lock:
                if name not in self.attached and now >= self.attach_after.get(name, 0.0):
                    self.attached[name], self.holders[name], self.attach_after[name] = connection, who, now + ATTACH_AFTER_S
                    return
            if protocol.readable(connection, wait_s=0.005):  # it waits for the answer, and sends nothing
                raise ConnectionError(f"port {name!r}: who asked for it has gone")
        raise SpecError(f"port {name!r}: an application is attached", remedy="a port takes one application at a time")

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
        port = self._port_now(name)
        self.switch.attach(name, region, port["addresses"], pair, port["guarded"])
        return port

    def _port_now(self, name: str) -> dict[str, Any]:
        """The port of this name; runs in the worker's thread.  SpecError: it has been removed since it was claimed."""
        if name not in self.ports:
            raise SpecError(f"port {name!r}: it was removed just now")
        return self.ports[name]

    def _attach_plugged(self, name: str, device: devices.Device) -> dict[str, Any]:
        """Attach a device that another process has opened; runs in the worker's thread."""
        port = self._port_now(name)
        attach_device(self.switch, name, device, port["addresses"], port["guarded"])
        return port

    def _detach(self, name: str) -> None:
        with self.steady:
            with contextlib.suppress(RuntimeError):  # the switch has stopped, and has detached all ports
                self.switch.call(lambda: self.detached_regions.append(self.switch.detach_name(name)))
            self.detached_regions.clear()
            if name in self.plugged and name not in self.switch.numbers:  # else a worker may use it yet
                self.plugged.pop(name).close()
            self.attached.pop(name, None)
        self._notify_status()

    def _metrics(self) -> str:
        found = self.switch.call(lambda: metrics.snapshot(self.switch))
        return metrics.page(found | {"life": self.life})

    @property
    def life(self) -> dict[str, float]:
        """When the switch was started (s since 1970), and how often another process has gone on with it."""
        return {"started": self.started, "upgrades": self.upgrades}

    def counters(self) -> Any:
        found = self.switch.counters()
        return [{**row, **self.life} for row in found] if isinstance(found, list) else {**found, **self.life}

    def _answer(self, message: dict[str, Any], who: operations.Peer) -> dict[str, Any]:
        if "show" in message:
            who.must_look()
            return self._show(message, who)
        who.must_own()
        with self.changing:
            if answer := self._change(message, who):
                return answer
        if "report" in message:
            return operations.report(self, message)
        if message.get("drain"):
            log.info("%s drains the switch", who)
            return operations.drain(self, message.get("seconds", 10))
        if message.get("down"):
            log.info("%s takes the switch down", who)
            self.down_threads.append(threading.current_thread())
            self.over.set()
            if not self.ended.wait(protocol.DOWN_S):
                rule = f"the switch is going down, and has not ended after {protocol.DOWN_S:g} s"
                raise PenstockError(f"{rule}: what it has lost will be in its log")
            if self.failed:
                raise PenstockError(f"the switch is down, but {self.failed}")
            return {"down": True, "left": self.left, "losses": self.losses}
        known = "attach, plug, show, set, undo, reload, port_add, port_del, capture, report, drain, upgrade, down"
        raise SpecError("unknown request", remedy=f"known: {known}")

    def _change(self, message: dict[str, Any], who: operations.Peer) -> dict[str, Any] | None:
        """The answer to a request that changes settings or ports; None: it is another request."""
        if isinstance(message.get("set"), dict):
            log.info("%s sets %s", who, message["set"])
            return operations.change(self, message["set"])
        if message.get("undo"):
            log.info("%s undoes what was set", who)
            return operations.undo(self)
        if isinstance(message.get("reload"), dict):
            log.info("%s reloads the specification", who)
            return operations.reload(self, message["reload"])
        if "port_add" in message:
            log.info("%s adds ports", who)
            return {"added": ports.add(self, message["port_add"], bool(message.get("keep")))}
        if "port_del" in message:
            log.info("%s removes ports %s", who, message["port_del"])
            return {"removed": ports.remove(self, message["port_del"], bool(message.get("missing_ok")))}
        return None

    def _show(self, message: dict[str, Any], who: operations.Peer) -> dict[str, Any]:
        what, most = message["show"], message.get("most")
        if what in operations.LOOKS:
            return operations.look(self, what)
        if not who.owns:
            most = MOST_FLOWS_OF_OTHERS if most is None else min(validate_most(most), MOST_FLOWS_OF_OTHERS)
        shows: dict[str, Callable[[], Any]] = {
            "flows": lambda: operations.flows(self.switch, most),
            "held": lambda: operations.held(self.switch, message.get("port")),
            "addresses": lambda: operations.addresses(self.switch, most),
            "pauses": self.switch.pauses,
            "counters": self.counters,
            "balance": lambda: balance(self.switch),
            "settings": lambda: self.switch.settings,
            "changes": lambda: operations.changes(self),
            "detached": lambda: list(self.switch.detached),
            "captures": lambda: [each.row() for each in self.switch.captures],
        }
        if not isinstance(what, str) or what not in shows:
            raise SpecError(f"show {what!r}: unknown", remedy=nearest(str(what), (*operations.LOOKS, *shows)))
        found = self.switch.call(shows[what])
        return found if what in ("flows", "held") else {what: found}


def _is_owner(uid: int) -> bool:
    return uid in (0, os.getuid())


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
