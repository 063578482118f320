"""The thread of a vhost-user port that answers its front end (QEMU, DPDK): one connection after another.

A front end that breaks the rules, and one whose guest does, loses its connection; then the next one is awaited, or made.
"""

import contextlib
from typing import Any

from penstock_net.errors import PenstockError, SpecError
from penstock_net.vswitch.linux import unix_socket
from penstock_net.vswitch.support.port_kind import Given
from penstock_net.vswitch.support.vhost_protocol import Refused, Session, receive
from penstock_net.vswitch.world import os, select, socket, threading

RETRY_S, LONGEST_RETRY_S = 0.05, 1.0  # between two attempts to connect
AFTER_ERRORS_S = 1.0  # before the next connection, when one was ended by force
REST_S = 1.0  # for the thread to come to the end of a message
CARRIED = ("connections", "errors", "refused", "why", "features", "identity")


class Peer:
    """The thread: waits for a front end, or connects to it, and answers it until it goes."""

    def __init__(
        self, path: str, server: bool, pairs: int, headers: bool, rings: Any, epoll: select.epoll, given: Given | None = None
    ) -> None:
        self.path, self.server = path, server
        self.make = lambda: Session(rings, epoll, pairs, headers)
        self.rings, self.over = rings, False
        self.connection: socket.socket | None = None
        self.lock = threading.Lock()
        self.connections, self.errors, self.refused = 0, 0, 0
        self.why = "no front end has connected yet"
        self.features = 0
        self.session: Session | None = None  # of the connection
        self.pause, self.resting, self.go_on = False, threading.Event(), threading.Event()
        self.listener: socket.socket | None = None
        self.identity = 0
        if given:
            self._take(given)
        elif server:
            self.listener = listen(path)
            self.identity = os.stat(path).st_ino
        self.thread = threading.Thread(target=self._run, name=f"vhost-user {path}", daemon=True)

    def start(self) -> None:
        self.thread.start()

    def close(self) -> None:
        self.over = True
        self.rings.wake()
        with self.lock:
            if self.connection:
                with contextlib.suppress(OSError):
                    self.connection.shutdown(socket.SHUT_RDWR)
        if self.thread.ident:
            self.thread.join()
        if self.listener:
            self.listener.close()
            with contextlib.suppress(OSError):
                if os.stat(self.path).st_ino == self.identity:
                    os.unlink(self.path)

    def row(self) -> dict[str, Any]:
        """What is connected, and what was refused."""
        return {
            "connected": self.connection is not None,
            "why": self.why,
            "connections": self.connections,
            "features": self.features,
            "protocol_errors": self.errors,
            "refused_requests": self.refused,
            **self.rings.row(),
        }

    # ---- Handing it over to another process ----

    def rest(self) -> None:
        """Have the thread wait between two messages, until `resume`.  PenstockError: its front end stops within one."""
        self.go_on.clear()
        self.pause = True
        self.rings.wake()
        if not self.resting.wait(REST_S):
            self.resume()
            raise PenstockError(f"{self.path}: its front end has stopped in the middle of a message")

    def resume(self) -> None:
        self.pause = False
        self.resting.clear()
        self.go_on.set()

    def _rest(self) -> None:
        if self.pause:
            self.resting.set()
            self.go_on.wait()

    def state(self) -> tuple[list[int], dict[str, Any]]:
        """Descriptors, and what another process goes on with; while the thread rests."""
        fds: list[int] = []
        if self.listener:
            fds.append(self.listener.fileno())
        if self.connection:
            fds.append(self.connection.fileno())
        row = {key: getattr(self, key) for key in CARRIED}
        session = self.session.state(fds) if self.session else None
        return fds, {**row, "connected": self.connection is not None, "session": session, "rings": self.rings.state()}

    def _take(self, given: Given) -> None:
        numbers, fds = given.numbers, list(given.fds)
        for key in CARRIED:
            setattr(self, key, numbers[key])
        if self.server:
            self.listener = socket.socket(fileno=fds[0])
        if numbers["connected"]:
            self.connection = socket.socket(fileno=fds[1 if self.server else 0])
        if numbers["session"]:
            self.session = self.make()
            self.session.take(numbers["session"], fds)

    def go_on_from(self, numbers: dict[str, Any]) -> None:
        """Go on with the rings where another process has stopped, between two frames."""
        if self.session:
            self.session.set_rings(numbers["session"])
        self.rings.take(numbers["rings"])

    # ---- The thread ----

    def _run(self) -> None:
        wait = RETRY_S
        if self.connection and self.session and not self._serve(self.connection, self.session) and not self.over:
            self._pause(AFTER_ERRORS_S)
        while not self.over:
            self._rest()
            connection = self._accept() if self.listener else self._connect()
            if connection is None:
                if not self.listener:
                    self._pause(wait)
                    wait = min(2 * wait, LONGEST_RETRY_S)
                continue
            wait = RETRY_S
            self.connections += 1
            if not self._serve(connection, self.make()) and not self.over:
                self._pause(AFTER_ERRORS_S)

    def _pause(self, seconds: float) -> None:
        """Wait so long, or until the port is closed."""
        poll = select.poll()
        poll.register(self.rings.wake_fd, select.POLLIN)
        if poll.poll(1000 * seconds):
            self.rings.woken()

    def _accept(self) -> socket.socket | None:
        assert self.listener is not None
        poll = select.poll()
        poll.register(self.rings.wake_fd, select.POLLIN)
        poll.register(self.listener, select.POLLIN)
        ready = [fd for fd, _ in poll.poll()]
        if self.rings.wake_fd in ready:
            self.rings.woken()
            return None
        with contextlib.suppress(OSError):
            return self.listener.accept()[0]
        return None

    def _connect(self) -> socket.socket | None:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(self.path)
        except OSError as error:
            connection.close()
            self.why = f"{self.path}: {error.strerror}"
            return None
        return connection

    def _serve(self, connection: socket.socket, session: Session) -> bool:
        """Answer one front end until it goes; False: it was sent away."""
        with self.lock:
            self.connection, self.session = connection, session
        self.why = ""
        try:
            self._converse(connection, session)
            self.why = "the front end has closed its connection"
            return True
        except Refused as error:
            self.errors += 1
            self.why = str(error)
            return False
        except OSError as error:
            self.why = error.strerror or str(error)
            return True
        finally:
            session.end()
            with self.lock:
                self.connection = self.session = None
                connection.close()

    def _converse(self, connection: socket.socket, session: Session) -> None:
        poll = select.poll()
        poll.register(self.rings.wake_fd, select.POLLIN)
        poll.register(connection, select.POLLIN)
        while not self.over:
            ready = [fd for fd, _ in poll.poll()]
            if self.rings.wake_fd in ready:
                self.rings.woken()
                self._rest()
                if self.rings.broken:
                    raise Refused(f"vhost-user: {self.rings.reason()}")
                continue
            message = receive(connection)
            if message is None:
                return
            request, flags, payload, fds = message
            try:
                answer = session.answer(request, flags, payload, fds)
            finally:
                for fd in fds:
                    os.close(fd)
            self.features, self.refused = session.features, self.refused + session.refused
            session.refused = 0
            if answer is not None:
                connection.sendall(answer)


def listen(path: str) -> socket.socket:
    """A socket that listens; that of a dead process is replaced.  SpecError: it cannot be bound."""
    try:
        with unix_socket.listener(path) as other:
            if other:
                raise SpecError("another program listens there", path="vhost-user.path", value=path, remedy="choose another path")
    except FileExistsError:
        raise SpecError("is a file, and no socket", path="vhost-user.path", value=path, remedy="choose another path") from None
    listener = socket.socket(socket.AF_UNIX)
    try:
        unix_socket.listen(listener, path, 1)
    except OSError as error:
        listener.close()
        rule = f"cannot listen there ({error.strerror})"
        raise SpecError(rule, path="vhost-user.path", value=path, remedy="make its folder, or choose another path") from None
    return listener


def socket_path(value: Any, what: str) -> str:
    """A check: the path of a unix socket."""
    return unix_socket.socket_path(os.fspath(value) if isinstance(value, os.PathLike) else value, what)
