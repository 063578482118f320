"""The module `socket` of the simulated kernel: packet, UDP, netlink and Unix sockets."""

import array
import errno
import math
import select
import socket
import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from penstock_net.errors import PenstockError
from penstock_net.vswitch.world.simulated.datagrams import ANY, Datagrams, parsed
from penstock_net.vswitch.world.simulated.descriptors import File, refused
from penstock_net.vswitch.world.simulated.links import SOL_PACKET, Packets
from penstock_net.vswitch.world.simulated.netlink import LEAST_ROOM, Diagnosis, Route
from penstock_net.vswitch.world.simulated.streams import Carried, Listening, Stream, joined

if TYPE_CHECKING:
    from penstock_net.vswitch.world.simulated.kernel import Simulated

ROOM = 212_992  # of a socket's receive buffer
SO_ATTACH_FILTER, SO_RCVBUFFORCE, SO_MEMINFO, SOCK_DIAG = 26, 33, 55, 4
NANO = 1_000_000_000


class NotSimulated(PenstockError):
    """The simulated kernel does not have this yet."""


class Socket:
    """socket.socket."""

    def __init__(
        self,
        world: "Simulated",
        family: int = socket.AF_INET,
        kind: int = socket.SOCK_STREAM,
        proto: int = 0,
        fileno: int | None = None,
    ) -> None:
        self.world, self.timeout = world, 0.0 if kind & socket.SOCK_NONBLOCK else math.inf
        if fileno is not None:
            self.file: Any = world.table.get(fileno)
            self.number = fileno
            return
        if family == socket.AF_PACKET:
            self.file = Packets(ROOM)
            self.file.protocol = socket.ntohs(proto)
        elif family == socket.AF_NETLINK and proto == 0:
            self.file = Route(world, ROOM)
        elif family == socket.AF_NETLINK and proto == SOCK_DIAG:
            self.file = Diagnosis(world.here, world.network.diagnosed)
        elif family == socket.AF_UNIX and kind & 0xF == socket.SOCK_STREAM:
            self.file = Stream(world.tasks.current.pid)
        elif family in ANY and kind & 0xF == socket.SOCK_DGRAM:
            self.file = Datagrams(world.network, family)
        else:
            raise NotSimulated(f"a socket of family {family}, kind {kind & 0xF}, protocol {proto}")
        self.file.keeps = world.spaces.keep(world.here)
        self.number = world.table.add(self.file)

    def fileno(self) -> int:
        return self.number

    def setblocking(self, blocks: bool) -> None:
        self.timeout = math.inf if blocks else 0.0

    def settimeout(self, seconds: float | None) -> None:
        self.timeout = math.inf if seconds is None else seconds

    def gettimeout(self) -> float | None:
        return None if math.isinf(self.timeout) else self.timeout

    # ---- Addresses ----

    def bind(self, address: Any) -> None:
        if isinstance(self.file, Packets):
            link = self.file.keeps.named(address[0])
            if link is None:
                raise OSError(errno.ENODEV, "No such device")
            self.file.bind(link, address[1] or self.file.protocol)
        elif isinstance(self.file, Datagrams):
            self.file.bind(parsed(address))
        elif isinstance(self.file, Route):
            self.world.listen(self.file, address[1])
        elif isinstance(self.file, Stream):
            if address in self.world.paths:
                raise refused(errno.EADDRINUSE)
            self.world.count += 1
            listening = Listening(self.world.tasks.current.pid, self.world.count)
            self._become(listening)
            self.world.paths[address] = listening
        else:
            raise NotSimulated("bind of such a socket")

    def _become(self, file: File) -> None:
        before, self.file = self.file, file
        self.world.table.files[self.number] = file
        file.descriptors += 1
        self.world.table.release(before)

    def listen(self, backlog: int) -> None:
        self.file.backlog = backlog

    def connect(self, path: Any) -> None:
        self.world.tasks.maybe_pass()
        if isinstance(self.file, Datagrams):
            self.file.connect(parsed(path))
            return
        if path not in self.world.paths:
            raise refused(errno.ENOENT)
        self.world.paths[path].connect(self.file)

    def accept(self) -> tuple["Socket", str]:
        self._wait(select.EPOLLIN)
        if not self.file.waiting:
            raise self._late()
        end = self.file.waiting.popleft()
        return Socket(self.world, fileno=self.world.table.add(end)), ""

    def shutdown(self, how: int) -> None:
        if self.number >= 0 and isinstance(self.file, Stream):
            self.file.shut()

    # ---- Options ----

    def setsockopt(self, level: int, option: int, value: Any) -> None:
        file = self.file
        if level == socket.SOL_SOCKET and option in (socket.SO_RCVBUF, SO_RCVBUFFORCE) and hasattr(file, "room"):
            file.room = max(2 * value, LEAST_ROOM)
        elif isinstance(file, Route):
            if option == SO_ATTACH_FILTER and level == socket.SOL_SOCKET:
                file.attach_filter(value)
        elif isinstance(file, Datagrams):
            file.option(level, option, value)
        elif isinstance(file, Packets) and level == SOL_PACKET:
            file.option(option, value)

    def getsockopt(self, level: int, option: int, size: int = 0) -> Any:
        if level == socket.SOL_SOCKET and isinstance(self.file, (Datagrams, Packets)):
            if option == SO_MEMINFO:
                return struct.pack("9I", self.file.held, self.file.room, *[0] * 6, self.file.dropped)
            if option == socket.SO_RCVBUF:
                return self.file.room
        if isinstance(self.file, Datagrams) and (level, option) == self.file.mtu_option:
            return self.file.path_mtu()
        if (level, option) == (socket.SOL_SOCKET, socket.SO_PEERCRED) and isinstance(self.file, Stream):
            return struct.pack("3i", self.file.other_pid, 0, 0)
        raise refused(errno.ENOPROTOOPT)

    # ---- Data ----

    def send(self, data: bytes) -> int:
        self.world.tasks.maybe_pass()
        return self._taken(self.world.table.get(self.number).write(data))

    def sendall(self, data: bytes) -> None:
        while data:
            self._wait(select.EPOLLOUT)
            data = data[self.send(data) :]

    def send_fds(self, data: bytes, fds: Iterable[int]) -> int:
        self._wait(select.EPOLLOUT)
        rights = [Carried(self.world, fd) for fd in fds]
        answer = self.file.write(data, rights)
        for each in rights if answer < 0 else ():
            each.drop()
        return self._taken(answer)

    def recv(self, room: int) -> bytes:
        self._wait(select.EPOLLIN | select.EPOLLERR)
        answer = self.world.table.get(self.number).read(room)
        if answer == -errno.EAGAIN and self.timeout:
            raise self._late()
        return bytes(self._taken(answer))

    def recvmsg(self, room: int, ancillary: int = 0, flags: int = 0) -> tuple[bytes, list[tuple[int, int, bytes]], int, None]:
        self._wait(select.EPOLLIN)
        answer, rights = self.file.take(room)
        if answer == -errno.EAGAIN and self.timeout:
            raise self._late()
        fds = array.array("i", [each.make() for each in rights])
        came = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds.tobytes())] if fds else []
        return self._taken(answer), came, 0, None

    def recv_fds(self, room: int) -> tuple[bytes, list[int], int, None]:
        data, came, _, _ = self.recvmsg(room)
        return data, [fd for _, _, content in came for fd in array.array("i", content)], 0, None

    def _wait(self, events: int) -> None:
        file = self.world.table.get(self.number)
        self.world.tasks.maybe_pass()
        if self.timeout:
            self.world.wait_unless(self.world.now + self.timeout * NANO, lambda: file.ready() & events != 0, [file])

    def _late(self) -> OSError:
        return TimeoutError("timed out") if self.timeout else refused(errno.EAGAIN)

    def _taken(self, answer: Any) -> Any:
        if type(answer) is int and answer < 0:
            raise refused(-answer)
        return answer

    # ---- Its end ----

    def detach(self) -> int:
        number, self.number = self.number, -1
        return number

    def close(self) -> None:
        if self.number >= 0:
            self.world.table.close(self.detach())

    def __enter__(self) -> "Socket":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def pair(world: "Simulated", *kind: int) -> tuple[Socket, Socket]:
    """socket.socketpair."""
    ends = Stream(world.tasks.current.pid), Stream(world.tasks.current.pid)
    joined(*ends)
    first, second = (Socket(world, fileno=world.table.add(end)) for end in ends)
    return first, second
