"""What the switch may ask of the world, and what it relies on: the contract of the kernel and of a simulated world.

A world has parts, named after the standard modules that it takes the place of (`World.part`), and the calls of the compiled parts
(`World.calls`; None: the kernel's own functions). A name that is not listed here cannot be reached through `vswitch.world`.
Constants, in capitals, are those of Linux in every world. Functions raise what the standard module raises, such as OSError.
"""

import functools
from typing import Any, Protocol


class World(Protocol):
    """The kernel, or one that is simulated."""

    calls: Any

    def part(self, name: str) -> Any:
        """What takes the place of the standard module of that name, which has the names of ASKED."""


class Calls(Protocol):
    """What the compiled parts ask. A number that is returned is -errno if the call failed."""

    def now_ns(self) -> int:
        """ns of the clock that never goes back; the same as `time.monotonic_ns`."""

    def watch_with(self, epoll: int, fd: int, place: int) -> int:
        """Add a descriptor to an epoll set, edge-triggered, for reading; `place` is the address of a flag, or 0."""

    def sleep_on(self, epoll: int, ns: int) -> list[int]:
        """Until a descriptor of the set has news, at most so long; the places of those that have, which are then cleared."""

    def poll_pair(self, fds: tuple[int, int], events: tuple[int, int], ns: int) -> tuple[int, int]:
        """Until one of two descriptors (-1: none) is ready, at most so long; what each is ready for."""

    def read(self, fd: int, room: int) -> bytes | int:
        """One frame of a TAP, cut to `room`; what an eventfd counts; bytes of a file."""

    def write(self, fd: int, data: bytes) -> int:
        """One frame to a TAP; eight bytes to an eventfd; bytes to a file. A TAP has queued it or has dropped and counted it."""

    def send(self, fd: int, data: bytes) -> int:
        """To the peer of a connected socket, without waiting."""

    def recv(self, fd: int, room: int) -> bytes | int:
        """From the peer of a connected socket, without waiting; a message that is longer than `room` is cut."""

    def recvmmsg(self, fd: int, rooms: list[int]) -> list[tuple[bytes, bytes, bytes, bool]] | int:
        """Messages that have come, at most one for each room: bytes, who has sent it, control messages, whether it was cut."""

    def sendmmsg(self, fd: int, messages: list[tuple[bytes, bytes, bytes]]) -> int:
        """Send messages (bytes, to whom, control messages), without waiting: how many were taken, or the error of the first."""

    def path_mtu_now(self, fd: int, peer: bytes) -> int:
        """The MTU to a peer, as it is known to this machine, on a socket that is connected to the peer for it; 0: it is not."""

    def ioctl(self, fd: int, number: int, place: int) -> int:
        """A request to a device; `place` is the address of its argument, or the argument if that is a number."""

    def socket_drops(self, fd: int) -> int:
        """Messages that a socket has dropped because its buffer was full; 0 of anything else."""


Rows = tuple[tuple[str, str], ...]
ASKED: dict[str, Rows] = {
    "time": (
        ("monotonic monotonic_ns", "the clock that never goes back"),
        ("time time_ns localtime", "the date; it may jump"),
        ("sleep", "at least so long; other threads go on"),
        ("thread_time", "what this thread has computed"),
    ),
    "select": (("epoll poll select", "wait for descriptors, as the system calls of these names do"),),
    "threading": (
        ("Condition Event Lock", "wait for another thread"),
        ("Thread current_thread", "threads, which run in any order"),
    ),
    "queue": (("Queue", "wait for another thread"),),
    "asyncio": (
        ("Event StreamReader StreamWriter Task create_task current_task gather", "tasks of a thread"),
        ("get_running_loop new_event_loop", "what runs them"),
        ("shield sleep start_server timeout", "tasks that wait for a clock or for a connection"),
    ),
    "socket": (
        ("socket", "of the namespace of the thread: AF_INET, AF_INET6, AF_UNIX, AF_PACKET, AF_NETLINK (ROUTE, SOCK_DIAG)"),
        ("socketpair recv_fds send_fds", "connected sockets, and descriptors that go through them"),
        ("if_nameindex if_nametoindex", "interfaces of the namespace of the thread; one that comes back has another index"),
    ),
    "fcntl": (
        ("ioctl", "requests to a TAP, to an interface, to a namespace"),
        ("fcntl", "seals of a memory file; flags of a descriptor"),
        ("flock", "who holds a file; it ends with the process"),
    ),
    "mmap": (("mmap", "memory that is shared through a descriptor"),),
    "os": (
        ("eventfd eventfd_read eventfd_write", "counters that wake"),
        ("close dup set_blocking fstat", "descriptors: the lowest number that is free, used again at once"),
        ("memfd_create ftruncate pread pwrite", "memory files"),
        ("access chmod chown listdir lstat mkdir open path readlink replace stat unlink write", "files, also those of /proc"),
        ("getpid kill fork posix_spawn pidfd_open waitpid _exit", "processes; a number is used again"),
        ("geteuid getuid environ", "who runs this process, and what it was given"),
        ("getloadavg sched_getaffinity sched_setaffinity sysconf", "the machine"),
        ("getpriority sched_getscheduler sched_setscheduler", "its scheduler"),
        ("sched_yield", "another thread may run"),
        ("urandom", "random bytes"),
    ),
    "io": (("open", "a file by its path"),),
    "pathlib": (("Path", "files by their paths"),),
    "shutil": (("which", "where a program is"),),
    "subprocess": (("Popen run", "other programs, which are started in the namespace of the thread"),),
    "resource": (("getrlimit setrlimit", "limits of this process"),),
    "pwd": (("getpwnam", "users"),),
    "grp": (("getgrnam", "groups"),),
    "ctypes": (("CDLL get_errno", "functions of the C library that Python does not have: setns, unshare, bpf"),),
}
# What is computed from its arguments alone, and types: always the standard module's.
COMPUTED: dict[str, frozenset[str]] = {
    "time": frozenset({"strftime"}),
    "queue": frozenset({"Full"}),
    "asyncio": frozenset({"CancelledError"}),
    "socket": frozenset({"htons"}),
    "pathlib": frozenset({"PurePosixPath"}),
    "os": frozenset(
        {"PathLike", "devnull", "fsencode", "fspath", "pathsep", "sched_param", "strerror", "waitstatus_to_exitcode"}
    ),
    "ctypes": frozenset({"addressof", "byref", "c_char", "c_uint32", "create_string_buffer"}),
}


@functools.cache
def asked(part: str) -> frozenset[str]:
    """The names of a part that a world provides."""
    return frozenset(name for names, _ in ASKED[part] for name in names.split())
