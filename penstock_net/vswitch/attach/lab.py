"""A test bed on one machine: network namespaces with TAPs or a veth pair, removed when the `with` ends or the process dies.

    with Namespace("left") as left, Namespace("right") as right:
        with left.tap("10.77.0.1/24") as a, right.tap("10.77.0.2/24") as b, Bridge(a, b):
            right.start("iperf3", "-s")
            print(left.run("iperf3", "-c", "10.77.0.2"))

A namespace has no visible name and exists as long as its descriptor is open, so nothing is left behind.
"""

import contextlib
import signal
import struct
from collections.abc import Iterator
from typing import Any

from penstock_net.errors import PenstockError, SpecError
from penstock_net.vswitch.attach.open import open_port
from penstock_net.vswitch.linux.losses import dropped_at
from penstock_net.vswitch.linux.netns import CLONE_NEWNET, NetNs, check, current_fd, libc
from penstock_net.vswitch.linux.set_up import Interface
from penstock_net.vswitch.ports.base import PortHandle
from penstock_net.vswitch.world import ctypes, fcntl, os, pathlib, shutil, socket, subprocess, threading, time


class Namespace(NetNs):
    """A network namespace of its own; programs and ports are started inside of it."""

    def __init__(self, name: str = "namespace") -> None:
        super().__init__(name)
        self.programs: list[subprocess.Popen[str]] = []

    def __enter__(self) -> "Namespace":
        problem: list[Exception] = []

        def make() -> None:  # in a thread of its own, which ends: the caller stays where it is
            try:
                check(libc().unshare(CLONE_NEWNET), f"namespace {self.name}")
                self.fd = current_fd()
            except (OSError, PenstockError) as e:
                problem.append(e)

        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        if problem:
            raise problem[0]
        try:
            with self.enter(), Interface("lo") as loopback:
                loopback.set(up=True)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill every process inside of it, orphans included, and close its descriptor."""
        while self.fd >= 0 and (members := self.members()):
            for pid in members:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.001)
        for program in self.programs:
            program.wait()
            if program.stdout:
                program.stdout.close()
        self.programs.clear()
        super().close()

    def members(self) -> list[int]:
        """IDs of all processes inside of it, except this one, whose threads enter it for a while."""
        here, found = os.fstat(self.fd), []
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                space = os.stat(folder / "ns/net")
                if (space.st_dev, space.st_ino) == (here.st_dev, here.st_ino) and int(folder.name) != os.getpid():
                    found.append(int(folder.name))
        return found

    def run(self, *command: str, timeout: float = 30) -> str:
        """Run a program to its end; returns its standard output. PenstockError if it fails."""
        if not shutil.which(command[0]):
            raise PenstockError(f"{command[0]} is not installed; the laboratory needs it")
        with self.enter():
            done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
        if done.returncode:
            raise PenstockError(f"{' '.join(command)}: {(done.stderr or done.stdout).strip() or 'failed'}")
        return done.stdout

    def start(self, *command: str) -> "subprocess.Popen[str]":
        """Start a program in the background, in a process group of its own; it is ended with the namespace."""
        if not shutil.which(command[0]):
            raise PenstockError(f"{command[0]} is not installed; the laboratory needs it")
        with self.enter():
            program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, process_group=0)
        self.programs.append(program)
        return program

    def socket(self, *kind: Any) -> socket.socket:
        """Open a socket inside of it."""
        with self.enter():
            return socket.socket(*kind)

    @contextlib.contextmanager
    def tap(
        self, address: str, *, name: str = "tap0", headers: bool = True, queue_frames: int = 10_000, mtu: int = 1500
    ) -> Iterator[PortHandle]:
        """Create a TAP with this address and bring it up; returns the port at its other end."""
        with contextlib.ExitStack() as stack:
            with self.enter():
                port = stack.enter_context(open_port("tap", name=name, headers=headers))
            self.run("ip", "link", "set", name, "mtu", str(mtu), "txqueuelen", str(queue_frames), "gso_max_size", "60000", "up")
            self.run("ip", "address", "add", address, "dev", name)
            port.losses = lambda: dropped_at(name, self)
            yield port

    def without_offloads(self, device: str) -> None:
        """Switch the interface's offloads off: a port without headers at the other end needs frames in wire format."""
        with self.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            for setting in (0x17, 0x1F, 0x24):  # ETHTOOL_STXCSUM, _STSO, _SGSO
                off = ctypes.create_string_buffer(struct.pack("=II", setting, 0), 8)
                fcntl.ioctl(sock, 0x8946, struct.pack("16sQ16x", device.encode(), ctypes.addressof(off)))

    def slow(self, program: "subprocess.Popen[str]", work: float, rest: float) -> "DutyCycle":
        """Make an unmodified program slow: run it for `work` s and stop it for `rest` s, in turns."""
        return DutyCycle(program.pid, work, rest)


class DutyCycle:
    """Stops and continues a program periodically (SIGSTOP, SIGCONT) while the `with` lasts."""

    def __init__(self, pid: int, work: float, rest: float) -> None:
        if work <= 0 or rest <= 0:
            raise SpecError(f"duty cycle {work} s, {rest} s: both must be greater than zero")
        self.pid, self.work, self.rest = pid, work, rest
        self.end = threading.Event()
        self.thread = threading.Thread(target=self._cycle)

    def _cycle(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            while not self.end.wait(self.work):
                os.kill(self.pid, signal.SIGSTOP)
                self.end.wait(self.rest)
                os.kill(self.pid, signal.SIGCONT)

    def __enter__(self) -> "DutyCycle":
        self.thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.end.set()
        self.thread.join()


@contextlib.contextmanager
def veth(left: Namespace, right: Namespace, addresses: tuple[str, str] | None = None) -> Iterator[tuple[str, str]]:
    """A veth pair between two namespaces: the baseline of measurements."""
    left.run("ip", "link", "add", "veth0", "type", "veth", "peer", "name", "veth0", "netns", f"/proc/{os.getpid()}/fd/{right.fd}")
    try:
        for i, side in enumerate((left, right)):
            if addresses:
                side.run("ip", "address", "add", addresses[i], "dev", "veth0")
            side.run("ip", "link", "set", "veth0", "up")
        yield "veth0", "veth0"
    finally:
        left.run("ip", "link", "delete", "veth0")
