"""What the simulated kernel puts in the place of standard modules: as much of the contract as is simulated.

Memory is the real kernel's: files of memory have its descriptors, which are below those of the simulated one.
"""

import errno
import fcntl
import functools
import math
import mmap
import os
import select
import stat
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn

from penstock_net.vswitch.world.contract import asked
from penstock_net.vswitch.world.simulated import files, namespaces, programs, sockets, tasks
from penstock_net.vswitch.world.simulated.descriptors import FIRST, Counter, Epoll, File, refused
from penstock_net.vswitch.world.simulated.links import Tap
from penstock_net.vswitch.world.simulated.namespaces import Opened, kept_by, paths_of
from penstock_net.vswitch.world.simulated.sockets import NotSimulated, Socket
from penstock_net.vswitch.world.simulated.streams import Carried

if TYPE_CHECKING:
    from penstock_net.vswitch.world.simulated.kernel import Simulated

NANO = 1_000_000_000
BEGIN_NS, DATE_NS = 10**12, 1_700_000_000 * 10**9  # of the clock that never goes back; of the date at that time
ALWAYS = select.POLLERR | select.POLLHUP  # told of even if nobody asks
OF_TASKS = ("Condition", "Event", "Lock", "Thread", "current_thread")
OTHER_SCHEDULER = 3  # not that of usual threads: nobody asks for another time slice


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

    def monotonic_ns() -> int:
        world.tasks.maybe_pass()
        return world.now

    def open_file(path: Any, flags: int, mode: int = 0o777) -> int:
        if path != "/dev/net/tun":
            return world.table.add(world.spaces.open(path))
        return world.table.add(kept_by(Tap(world.here), world.spaces.keep(world.here)))

    def open_text(file: Any, mode: str = "r", closefd: bool = True) -> Any:
        """A memory file by its descriptor, or a file by its path."""
        if not isinstance(file, int):
            return world.files.open(file, mode)
        if closefd:
            world.memory.pop(file, None)
        return open(file, mode, closefd=closefd)

    def create_memory(name: str, flags: int = 0) -> int:
        fd = os.memfd_create(name, flags)
        world.memory[fd] = world.tasks.current.pid
        return fd

    def close(fd: int) -> None:
        if fd >= FIRST:
            world.table.close(fd)
        else:
            world.memory.pop(fd, None)
            os.close(fd)

    def duplicate(fd: int) -> int:
        return Carried(world, fd).make()

    def status(fd: int) -> Any:
        if fd < FIRST:
            return os.fstat(fd)
        file = world.table.get(fd)
        return namespaces.status_of(file.space) if isinstance(file, Opened) else files.status(stat.S_IFREG)

    def status_of(path: Any) -> Any:
        if path in world.paths:
            return files.status(stat.S_IFSOCK, world.paths[path].number)
        return world.files.status(path) if path in world.files else world.spaces.status(path)

    def unlink(path: Any) -> None:
        if path in world.paths:
            del world.paths[path]
        else:
            world.files.unlink(path)

    def replace(path: Any, name: Any) -> None:
        if path in world.paths:
            world.paths[name] = world.paths.pop(path)
        else:
            world.files.replace(path, name)

    def open_process(pid: int, flags: int = 0) -> int:
        process = world.tasks.processes.get(pid)
        if process is None:
            raise refused(errno.ESRCH)
        return world.table.add(process)

    def link_of(path: str) -> str:
        """Of a descriptor of this process: what it refers to."""
        file = world.table.get(int(path.rpartition("/")[2])) if path.startswith("/proc/self/fd/") else None
        if not isinstance(file, Counter):
            raise NotSimulated(f"os.readlink of {path}, which is no eventfd,")
        return "anon_inode:[eventfd]"

    def numbered(name: str) -> int:
        link = world.here.named(name)
        if link is None:
            raise OSError("no interface with this name")
        return link.index

    def ioctl(fd: Any, request: int, argument: Any = 0) -> Any:
        number = fd if isinstance(fd, int) else fd.fileno()
        if isinstance(argument, bytes):
            return world.request(number, request, argument)[: len(argument)]
        answer = world.ioctl(number, request, argument)
        if answer < 0:
            raise refused(-answer)
        return answer

    def counter(start: int = 0, flags: int = 0) -> int:
        return world.table.add(Counter(start))

    def count(fd: int) -> int:
        world.tasks.maybe_pass()
        return int.from_bytes(taken(world.of(fd, Counter).read(8)), "little")

    def raise_count(fd: int, number: int) -> None:
        world.tasks.maybe_pass()
        taken(world.of(fd, Counter).write(number.to_bytes(8, "little")))

    def taken(answer: Any) -> Any:
        if isinstance(answer, int) and answer < 0:
            raise refused(-answer)
        return answer

    path, path_class = paths_of(world.spaces)

    def library(name: str | None, use_errno: bool = False) -> Any:
        return SimpleNamespace(setns=world.spaces.enter)

    of_tasks = {name: functools.partial(getattr(tasks, name), world.tasks) for name in OF_TASKS}
    return {
        "time": Missing(
            "time",
            monotonic=lambda: monotonic_ns() / NANO,
            monotonic_ns=monotonic_ns,
            time=lambda: date() / NANO,
            time_ns=date,
            sleep=sleep,
            thread_time=lambda: 0.0,
        ),
        "os": Missing(
            "os",
            eventfd=counter,
            eventfd_read=count,
            eventfd_write=raise_count,
            open=open_file,
            close=close,
            dup=duplicate,
            fstat=status,
            stat=status_of,
            lstat=status_of,
            unlink=unlink,
            readlink=link_of,
            replace=replace,
            listdir=world.files.listed,
            mkdir=world.files.make_folder,
            path=path,
            memfd_create=create_memory,
            ftruncate=os.ftruncate,
            set_blocking=lambda fd, blocks: world.table.get(fd),
            urandom=world.random.randbytes,
            write=lambda fd, data: taken(world.write(fd, bytes(data))),
            getpid=lambda: world.tasks.current.pid,
            getuid=lambda: 0,
            geteuid=lambda: 0,
            environ=programs.Environment(world),
            _exit=lambda status: world.tasks.stop(world.tasks.current.pid, status),
            pidfd_open=open_process,
            sched_getscheduler=lambda pid: OTHER_SCHEDULER,
            sysconf={"SC_PHYS_PAGES": 1 << 20, "SC_PAGE_SIZE": 4096}.__getitem__,
            sched_yield=lambda: sleep(1e-6),
            sched_getaffinity=lambda pid: {0},
        ),
        "select": Missing("select", epoll=lambda *_: Set(world), poll=lambda: Poll(world)),
        "socket": Missing(
            "socket",
            socket=functools.partial(Socket, world),
            socketpair=functools.partial(sockets.pair, world),
            send_fds=lambda sock, parts, fds: sock.send_fds(b"".join(parts), fds),
            recv_fds=lambda sock, room, most, flags=0: sock.recv_fds(room),
            if_nametoindex=numbered,
            if_nameindex=lambda: [(link.index, link.name) for link in world.here],
        ),
        "fcntl": Missing("fcntl", ioctl=ioctl, fcntl=fcntl.fcntl),
        "mmap": Missing("mmap", mmap=mmap.mmap),
        "threading": Missing("threading", **of_tasks),
        "pathlib": Missing("pathlib", Path=path_class),
        "ctypes": Missing("ctypes", CDLL=library, get_errno=lambda: world.tasks.errno),
        "subprocess": Missing("subprocess", Popen=functools.partial(programs.Started, world)),
        "io": Missing("io", open=open_text),
        "resource": Missing("resource", getrlimit=lambda which: (FIRST, FIRST)),
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
        self.world.tasks.maybe_pass()
        until = math.inf if timeout is None or timeout < 0 else self.world.now + math.ceil(timeout * NANO)
        self.world.wait_unless(until, lambda: self.epoll.ready() != 0, [self.epoll])
        return [(watched.number, events) for watched, events in self.epoll.news(maxevents if maxevents > 0 else 1 << 20)]

    def close(self) -> None:
        if self.number >= 0:
            self.world.table.close(self.number)
            self.number = -1

    @property
    def closed(self) -> bool:
        return self.number < 0


class Poll:
    """select.poll."""

    def __init__(self, world: "Simulated") -> None:
        self.world, self.wanted = world, dict[int, int]()

    def register(self, what: Any, events: int = select.POLLIN) -> None:
        self.wanted[what if isinstance(what, int) else what.fileno()] = events

    def poll(self, ms: float | None = None) -> list[tuple[int, int]]:
        files = [(number, self.world.table.files.get(number), events) for number, events in self.wanted.items()]

        def ready() -> list[tuple[int, int]]:
            rows = [(fd, file.ready() & (events | ALWAYS) if file else select.POLLNVAL) for fd, file, events in files]
            return [row for row in rows if row[1]]

        self.world.tasks.maybe_pass()
        until = math.inf if ms is None or ms < 0 else self.world.now + ms * NANO / 1000
        self.world.wait_unless(until, lambda: bool(ready()), [file for _, file, _ in files if file])
        return ready()
