"""Switches for tests, in a thread or a process, and processes that use them; all are stopped with the test, even if it fails.

What a program starts in the background belongs to the process of the tests once its parent has ended (`adopt_orphans`), so
`conftest.py` finds and ends everything that a test has started, whatever became of the programs between.
"""

import contextlib
import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from penstock_net.vswitch.daemon.server import Daemon

A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"
UP = [sys.executable, "-c", "import sys; from penstock_net.cli import main; sys.exit(main())", "vswitch", "up"]
FORK = multiprocessing.get_context("fork")


@contextlib.contextmanager
def running(path, content):
    """A daemon that serves while the `with` lasts, and has ended after it."""
    daemon = Daemon(content, str(path))
    thread = threading.Thread(target=daemon.serve)
    thread.start()
    try:
        yield daemon
    finally:
        daemon.over.set()
        thread.join(60)
        assert not thread.is_alive()


@contextlib.contextmanager
def ended(process):
    """A subprocess that is killed in the end, if it is still there."""
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream:
                stream.close()


@contextlib.contextmanager
def up(folder, mode="backdraft", **settings):
    """`penstock vswitch up` in a process of its own, with ports a, b, c: the process and the path of its socket."""
    path = str(folder / "s.sock")
    lines = [f'{key} = "{value}"\n' for key, value in {"mode": mode, "socket": path, **settings}.items()]
    ports = [f'[[port]]\nname = "{n}"\naddresses = ["{a}"]\n' for n, a in (("a", A), ("b", B), ("c", C))]
    (folder / "s.toml").write_text("".join(["[switch]\n", *lines, *ports]))
    with ended(subprocess.Popen([*UP, str(folder / "s.toml")], stdout=subprocess.PIPE, text=True)) as process:
        assert process.stdout.readline().startswith("up: "), "it says when it is ready"
        yield process, path


@contextlib.contextmanager
def forked(target, *arguments):
    """A function in a forked process, which is killed in the end."""
    child = FORK.Process(target=target, args=arguments, daemon=True)
    child.start()
    try:
        yield child
    finally:
        child.kill()
        child.join()
        child.close()  # its descriptor, of which an hour of faults would leave more than a thousand


# ---- What is left ----

LASTING = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")  # of Python itself, until the interpreter ends
PR_SET_CHILD_SUBREAPER, GONE_S = 36, 30


def adopt_orphans():
    """Descendants whose parent ends become children of this process."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(pid=None):
    """All processes that this one has started, or they have, with their command lines; not those that have ended."""
    pid, found = pid or os.getpid(), {}
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError):
            for child in map(int, (task / "children").read_text().split()):
                command = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                if command and not any(name in command for name in LASTING):  # without one: it has ended, but not been waited for
                    found[child] = command
                found |= descendants(child)
    return found


def end_descendants(except_for=()):
    """Kill them, parents first, until there are none but these; what was found, as texts."""
    seen, end = {}, time.monotonic() + GONE_S
    while left := {pid: text for pid, text in descendants().items() if pid not in except_for}:
        assert time.monotonic() < end, f"cannot be ended: {left}"
        seen |= left
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    for pid in seen:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
    return [f"{text[:80]} ({pid})" for pid, text in seen.items()]


def open_namespaces():
    """Network namespaces that this process holds open: they live as long."""
    found = []
    for fd in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            if (name := os.readlink(fd)).startswith("net:"):
                found.append(f"{name} (descriptor {fd.name})")
    return found
