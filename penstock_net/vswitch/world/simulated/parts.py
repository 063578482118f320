"""What the simulated kernel puts in the place of standard modules: as much of the contract as is simulated."""

import errno
import math
import select
import socket
import threading
from typing import TYPE_CHECKING, Any, NoReturn

from penstock_net.errors import PenstockError
from penstock_net.vswitch.world.contract import asked
from penstock_net.vswitch.world.simulated.descriptors import Counter, Epoll, File, refused
from penstock_net.vswitch.world.simulated.links import Packets, Tap
from penstock_net.vswitch.world.simulated.netlink import LEAST_ROOM, Route

if TYPE_CHECKING:
    from penstock_net.vswitch.world.simulated.kernel import Simulated

ROOM = 212_992  # of a socket's receive buffer
SO_ATTACH_FILTER = 26
NANO = 1_000_000_000
BEGIN_NS, DATE_NS = 10**12, 1_700_000_000 * 10**9  # of the clock that never goes back; of the date at that time


class NotSimulated(PenstockError):
    """The simulated kernel does not have this yet."""


class Missing:
    """A part of which some names, or all, are not simulated: they say so when they are called."""

    def __init__(self, part: str, **known: Any) -> None:
        assert known.keys() <= asked(part), known.keys() - asked(part)
        self.__name__ = part
        self.__dict__.update(known)

    def __getattr__(self, name: str) -> Any:
        def missing(*_: Any, **__: Any) -> NoReturn:
            raise NotSimulated(f"{self.__name__}.{name} is not simulated")

        return missing


def parts_of(world: "Simulated") -> dict[str, Any]:
    """The parts by name; one that is not here is not simulated at all."""

    def date() -> int:
        return world.now - BEGIN_NS + DATE_NS

    def sleep(seconds: float) -> None:
        world.wait(world.now + round(seconds * NANO))

    def open_file(path: str, flags: int, mode: int = 0o777) -> int:
        if path != "/dev/net/tun":
            raise NotSimulated(f"os.open of {path}: only /dev/net/tun is simulated")
        return world.table.add(Tap(world.space))

    def numbered(name: str) -> int:
        link = world.space.named(name)
        if link is None:
            raise OSError("no interface with this name")
        return link.index

    def ioctl(fd: Any, request: int, argument: Any = 0) -> Any:
        number = fd if isinstance(fd, int) else fd.fileno()
        if isinstance(argument, bytes):
            return world.request(number, request, argument)[: len(argument)]
        if code := -world.ioctl(number, request, argument):
            raise refused(code)
        return 0

    def counter(start: int = 0, flags: int = 0) -> int:
        return world.table.add(Counter(start))

    def count(fd: int) -> int:
        return int.from_bytes(taken(world.of(fd, Counter).read(8)), "little")

    def raise_count(fd: int, number: int) -> None:
        taken(world.of(fd, Counter).write(number.to_bytes(8, "little")))

    def taken(answer: Any) -> Any:
        if isinstance(answer, int) and answer < 0:
            raise refused(-answer)
        return answer

    return {
        "time": Missing(
            "time",
            monotonic=lambda: world.now / NANO,
            monotonic_ns=lambda: world.now,
            time=lambda: date() / NANO,
            time_ns=date,
            sleep=sleep,
        ),
        "os": Missing(
            "os",
            eventfd=counter,
            eventfd_read=count,
            eventfd_write=raise_count,
            open=open_file,
            close=world.table.close,
            set_blocking=lambda fd, blocks: world.table.get(fd),
            urandom=world.random.randbytes,
            write=lambda fd, data: taken(world.write(fd, bytes(data))),
        ),
        "select": Missing("select", epoll=lambda *_: Set(world)),
        "socket": Missing(
            "socket",
            socket=lambda *kind: Socket(world, *kind),
            if_nametoindex=numbered,
            if_nameindex=lambda: [(link.index, link.name) for link in world.space],
        ),
        "fcntl": Missing("fcntl", ioctl=ioctl),
        "threading": Missing("threading", Lock=threading.Lock),  # there is one thread
    }


class Set:
    """select.epoll."""

    def __init__(self, world: "Simulated") -> None:
        self.world, self.epoll = world, Epoll()
        self.number = world.table.add(self.epoll)

    def fileno(self) -> int:
        return self.number

    def _file(self, what: Any) -> tuple[int, File]:
        number = what if isinstance(what, int) else what.fileno()
        return number, self.world.table.get(number)

    def register(self, what: Any, events: int = select.EPOLLIN | select.EPOLLOUT | select.EPOLLPRI) -> None:
        self.epoll.add(*self._file(what), events, 0)

    def modify(self, what: Any, events: int) -> None:
        self.epoll.change(*self._file(what), events)

    def unregister(self, what: Any) -> None:
        self.epoll.remove(*self._file(what))

    def poll(self, timeout: float | None = None, maxevents: int = -1) -> list[tuple[int, int]]:
        until = math.inf if timeout is None or timeout < 0 else self.world.now + math.ceil(timeout * NANO)
        self.world.wait(until, lambda: self.epoll.ready() != 0)
        return [(watched.number, events) for watched, events in self.epoll.news(maxevents if maxevents > 0 else 1 << 20)]

    def close(self) -> None:
        if self.number >= 0:
            self.world.table.close(self.number)
            self.number = -1

    @property
    def closed(self) -> bool:
        return self.number < 0


class Socket:
    """socket.socket, of AF_PACKET and AF_NETLINK; AF_INET only to ask about interfaces."""

    def __init__(self, world: "Simulated", family: int = socket.AF_INET, kind: int = socket.SOCK_STREAM, proto: int = 0) -> None:
        self.world, self.timeout = world, 0.0 if kind & socket.SOCK_NONBLOCK else math.inf
        if family == socket.AF_PACKET:
            self.file: Any = Packets(ROOM)
            self.file.protocol = socket.ntohs(proto)
        elif family == socket.AF_NETLINK and proto == 0:
            self.file = Route(world.space, ROOM)
        elif family == socket.AF_INET and kind & 0xF == socket.SOCK_DGRAM:
            self.file = File()
        else:
            raise NotSimulated(f"a socket of family {family}, kind {kind & 0xF}, protocol {proto}")
        self.number = world.table.add(self.file)

    def fileno(self) -> int:
        return self.number

    def setblocking(self, blocks: bool) -> None:
        self.timeout = math.inf if blocks else 0.0

    def settimeout(self, seconds: float | None) -> None:
        self.timeout = math.inf if seconds is None else seconds

    def bind(self, address: Any) -> None:
        if isinstance(self.file, Packets):
            link = self.world.space.named(address[0])
            if link is None:
                raise OSError(errno.ENODEV, "No such device")
            self.file.bind(link, address[1] or self.file.protocol)
        elif isinstance(self.file, Route):
            self.world.listen(self.file, address[1])
        else:
            raise NotSimulated("bind of such a socket")

    def setsockopt(self, level: int, option: int, value: Any) -> None:
        if option == socket.SO_RCVBUF and level == socket.SOL_SOCKET and hasattr(self.file, "room"):
            self.file.room = max(2 * value, LEAST_ROOM)
        elif option == SO_ATTACH_FILTER and level == socket.SOL_SOCKET and isinstance(self.file, Route):
            self.file.attach_filter(value)

    def send(self, data: bytes) -> int:
        return self._taken(self.world.table.get(self.number).write(data))

    def recv(self, room: int) -> bytes:
        file = self.world.table.get(self.number)
        self.world.wait(self.world.now + self.timeout * NANO, lambda: file.ready() & (select.EPOLLIN | select.EPOLLERR) != 0)
        answer = file.read(room)
        if answer == -errno.EAGAIN and self.timeout:
            raise TimeoutError("timed out")
        return self._taken(answer)

    def _taken(self, answer: Any) -> Any:
        if isinstance(answer, int) and answer < 0:
            raise refused(-answer)
        return answer

    def close(self) -> None:
        if self.number >= 0:
            if self.file in self.world.listeners:
                self.world.listeners.remove(self.file)
            self.world.table.close(self.number)
            self.number = -1

    def __enter__(self) -> "Socket":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
