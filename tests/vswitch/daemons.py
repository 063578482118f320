"""Switches for tests, in a thread or a process, and processes that use them; all are stopped with the test, even if it fails."""

import contextlib
import multiprocessing
import subprocess
import sys
import threading

from penstock.vswitch.daemon.server import Daemon

A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"
UP = [sys.executable, "-c", "import sys; from penstock.cli import main; sys.exit(main())", "vswitch", "up"]
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
