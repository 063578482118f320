"""`upgrade`: a running switch starts its program anew and hands everything over to that process, which goes on with it.

    the old process                                     the new one
    starts it; frames pass meanwhile            ->
                                                <-      {"hello": formats}: which descriptions it understands
    {"content": ...}: the specification         ->      checks it
                                                <-      {"prepared": true}
    lets no request, edge and keeper act
    its ports, with all descriptors             ->      builds the same ports
                                                <-      {"built": true}
    stops the workers between two turns
    where everything is                         ->      puts it there
                                                <-      {"ready": true}
    {"go": true}; from here on it does nothing  ->      its workers begin
                                                <-      {"serving": ...}
    answers whoever asked, and ends

Until `go` the new process changes nothing that the old one uses.  So if it ends, answers wrongly or not in time, the old one goes
on where it stopped.
"""

import contextlib
import json
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from penstock_net.errors import PenstockError, SpecError
from penstock_net.vswitch.attach import handing as device_handing
from penstock_net.vswitch.attach.handing import Descriptors
from penstock_net.vswitch.daemon import handing, protocol
from penstock_net.vswitch.daemon.log import finish, log
from penstock_net.vswitch.daemon.systemd import notify
from penstock_net.vswitch.dataplane.driver import sizes
from penstock_net.vswitch.support import carried
from penstock_net.vswitch.support.blocks import Blocks
from penstock_net.vswitch.world import io, os, socket, subprocess, threading, time

if TYPE_CHECKING:
    from penstock_net.vswitch.daemon.server import Daemon

FORMAT = 1  # of the description; another one is needed when the layout of regions, or the meaning of a field, changes
VARIABLE = "PENSTOCK_UPGRADE"  # of the environment: the descriptor of the new process's socket
HELLO_S = 30.0  # until the new process has started, and has prepared: nothing has stopped yet
READY_S = 5.0  # until it has built the switch, while frames wait
SERVING_S = 5.0  # until its workers run
REQUESTS_S = 1.0  # for requests that are being answered
ANSWER_S = 60.0  # for whoever has asked
FDS_AT_ONCE = 250  # with a byte; the kernel takes 253
MORE, LAST = b"+", b"."


class Request:
    """What a connection has asked for: its thread waits until the main thread has an error for it."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection, self.done, self.error = connection, threading.Event(), ""


def ask(daemon: "Daemon", connection: socket.socket) -> dict[str, Any]:
    """Have the main thread hand the switch over.  PenstockError: it was not; otherwise this process ends."""
    refuse(daemon)
    with daemon.lock:
        if daemon.upgrading:
            raise PenstockError("the switch is being upgraded already")
        request = daemon.upgrading = Request(connection)
    request.done.wait(ANSWER_S)
    raise PenstockError(request.error or "the switch has not answered in time")


def refuse(daemon: "Daemon") -> None:
    """SpecError: the switch cannot be handed over as it is."""
    if not daemon.program:
        raise SpecError("this switch is part of another program, and was not started by `penstock vswitch up`")
    if not daemon.switch.takes_ports:
        raise SpecError("a switch that runs a scheme cannot be handed over", remedy="`down` and `up`")
    for name, port in daemon.ports.items():
        device_handing.refuse(name, port["kind"])


def run(daemon: "Daemon", request: Request) -> None:
    """Hand the switch over: then this process ends.  It returns if that fails, and the switch goes on here."""
    began = time.monotonic()
    try:
        refuse(daemon)
        with _started(daemon) as (child, channel):
            _prepare(daemon, channel)
            with _quiet(daemon) as stack:
                fds = Descriptors()
                _send(channel, handing.describe(daemon, fds), Blocks(), fds.fds)
                _rehearse(daemon)
                _answer(channel, "built")
                _rest(daemon, stack)
                why = daemon.switch.call(lambda: _hand_over(daemon, request, child, channel))
            raise PenstockError(why)
    except Exception as error:  # whatever it is, the switch goes on
        why = str(error) if isinstance(error, PenstockError) else f"{type(error).__name__}: {error}"
        request.error = f"not upgraded, the switch goes on as it was: {why}"
        daemon.events.add("not upgraded", None, f"{why} ({time.monotonic() - began:.2f} s)", logging.WARNING)
        log.debug("upgrade", exc_info=error)
    finally:
        request.done.set()


@contextlib.contextmanager
def _started(daemon: "Daemon") -> Iterator[tuple[subprocess.Popen[bytes], socket.socket]]:
    """The new process and our end of its socket; it is killed at the end."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with ours:
        with theirs:
            environment = {**os.environ, VARIABLE: str(theirs.fileno())}
            environment.pop("WATCHDOG_PID", None)  # of this process
            child = subprocess.Popen(daemon.program, env=environment, pass_fds=[theirs.fileno()])
        try:
            yield child, ours
        finally:
            child.kill()
            child.wait()


def _prepare(daemon: "Daemon", channel: socket.socket) -> None:
    """Have the new process do what it can while frames still pass.  PenstockError: it cannot take over."""
    formats = _answer(channel, "hello")
    if not isinstance(formats, list) or FORMAT not in formats:
        raise PenstockError(f"the new process takes descriptions of format {formats}, and this one has format {FORMAT}")
    protocol.send(channel, {"content": daemon.content, "path": daemon.path})
    _answer(channel, "prepared")


def _answer(channel: socket.socket, key: str) -> Any:
    message, fds = protocol.receive(channel, within=HELLO_S)
    protocol.close(fds)
    if message is None:
        raise PenstockError("the new process has ended: it has failed, or is of a version before `upgrade`")
    if key not in message:
        raise PenstockError(f"the new process cannot go on: {message.get('error', message)}")
    return message[key]


def _rehearse(daemon: "Daemon") -> None:
    """Do once what takes longer the first time, for nothing, so that it takes less while frames wait."""
    with contextlib.suppress(Exception):  # the workers change what is read, so that it may not fit together
        blocks = Blocks()
        carried.pack(daemon.switch, blocks, sizes())
        fd, directory = blocks.write()
        os.close(fd)
        json.dumps(directory)


@contextlib.contextmanager
def _quiet(daemon: "Daemon") -> Iterator[contextlib.ExitStack]:
    """No request and no front end changes anything meanwhile, nor does the keeper: ports stay as they are."""
    end = time.monotonic() + REQUESTS_S
    while sum(daemon.requesting.values()) > 1 and time.monotonic() < end:  # one is that of the upgrade
        time.sleep(0.002)
    with contextlib.ExitStack() as stack:
        stack.enter_context(daemon.changing)
        if daemon.keeper:
            stack.enter_context(daemon.keeper.lock)
        stack.enter_context(daemon.watcher.lock)
        stack.enter_context(daemon.steady)
        for device in daemon.devices.values():
            if device.port.front:
                device.port.front.rest()
                stack.callback(device.port.front.resume)
        yield stack


def _rest(daemon: "Daemon", stack: contextlib.ExitStack) -> None:
    """Have the edges do nothing until the end of the `stack`."""
    for device in daemon.devices.values():
        if device.edge and not device.edge.error:
            device.edge.rest()
            stack.callback(device.edge.start)


def _hand_over(daemon: "Daemon", request: Request, child: "subprocess.Popen[bytes]", channel: socket.socket) -> str:
    """In the worker's thread: what has failed.  Otherwise this process ends here."""
    stopped, end = time.monotonic_ns(), time.monotonic() + READY_S
    try:
        blocks = Blocks()
        _send(channel, {**handing.stop(daemon, blocks), "stopped": stopped}, blocks, [])
        message, fds = protocol.receive(channel, within=end - time.monotonic())
    except (OSError, PenstockError) as error:
        return f"the state could not be handed over: {error}"
    protocol.close(fds)
    if message is None:
        is_late = time.monotonic() >= end
        return f"the new process was not ready within {READY_S:g} s" if is_late else "the new process has ended"
    if not message.get("ready"):
        return f"the new process cannot go on: {message.get('error', message)}"
    if daemon.over.is_set():
        return "the switch goes down"
    try:
        protocol.send(channel, {"go": True})
    except OSError as error:
        return f"the new process has ended: {error}"
    return _end(request, child, channel)


def _send(channel: socket.socket, found: dict[str, Any], blocks: Blocks, fds: list[int]) -> None:
    """Send a description, in two memfds, and descriptors: a byte with as many as fit, the last one `LAST`."""
    arrays, directory = blocks.write()
    text = os.memfd_create("penstock-description", os.MFD_CLOEXEC)
    try:
        with io.open(text, "wb", closefd=False) as file:
            file.write(json.dumps({**found, "blocks": directory}).encode())
        channel.settimeout(READY_S)
        sent = [arrays, text, *fds]
        for i in range(0, len(sent), FDS_AT_ONCE):
            socket.send_fds(channel, [LAST if i + FDS_AT_ONCE >= len(sent) else MORE], sent[i : i + FDS_AT_ONCE])
    finally:
        os.close(arrays)
        os.close(text)


def _end(request: Request, child: "subprocess.Popen[bytes]", channel: socket.socket) -> NoReturn:
    """End this process, whose switch is another one's: nothing is taken down."""
    notify(f"MAINPID={child.pid}")
    message, _ = protocol.receive(channel, within=SERVING_S)
    status = 0
    with contextlib.suppress(OSError):
        if message is None:
            status = 1
            protocol.send(request.connection, {"error": "the new process took over and has ended: start the switch anew"})
        else:
            protocol.send(request.connection, {"upgraded": child.pid, "paused_ns": message["serving"]})
            log.info("handed over to process %d", child.pid)
    finish()
    os._exit(status)
