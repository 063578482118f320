"""The control socket under attack: refused requests leave no resources behind, and no client can lock others out."""

import contextlib
import fcntl
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from daemons import UP, ended
from frames import udp
from waiting import Stopwatch, until

from penstock_net.errors import SpecError
from penstock_net.vswitch.client.client import connect
from penstock_net.vswitch.daemon import protocol, server
from penstock_net.vswitch.daemon.operations import Peer
from penstock_net.vswitch.daemon.server import Daemon
from penstock_net.vswitch.dataplane.switch import Switch
from penstock_net.vswitch.memory.region import Region

A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"
CONTENT = {"port": [{"name": n, "addresses": [a]} for n, a in (("a", A), ("b", B), ("c", C))]}
NOBODY = 65534
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")


@contextlib.contextmanager
def running(**settings):
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    path = str(folder / "s.sock")
    daemon = Daemon({**CONTENT, "switch": {**CONTENT.get("switch", {}), **settings}}, path)
    os.chmod(path, 0o777)
    thread = threading.Thread(target=daemon.serve)
    thread.start()
    try:
        yield daemon, path
    finally:
        daemon.over.set()
        thread.join(60)
        folder.rmdir()
    assert not thread.is_alive()


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def no_connections():
    """Every thread of a connection has ended, and has closed what it had."""
    return not any("_serve_connection" in thread.name for thread in threading.enumerate())


def talk(path):
    """Two applications exchange a frame."""
    with connect("a", path) as a, connect("b", path) as b:
        assert a.send(0, [udp(A, B, payload=b"hello")]) == 1
        assert b.receive(1, timeout=120)[0][1].endswith(b"hello")


def unsealed(shape):
    """A file that is large enough, and could become shorter at any time."""
    fd = os.memfd_create("unsealed", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, 8 << 20)
    return fd, shape


def sealed(shape, length=8 << 20):
    fd, _ = unsealed(shape)
    os.ftruncate(fd, length)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    return fd, shape


REFUSED = {
    "not sealed": lambda: unsealed({}),
    "too short": lambda: sealed({"buffers": 16384}),
    "too large": lambda: sealed({}, 128 << 20),
    "a shape out of range": lambda: sealed({"bells": 3}),
    "a socket": lambda: (socket.socket().detach(), {}),
    "a directory": lambda: (os.open("/", os.O_RDONLY), {}),
    "a file": lambda: (os.open(__file__, os.O_RDONLY), {}),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_was_refused_leaves_nothing_behind(what):
    """Neither descriptors nor a port that nobody can attach to any more."""
    with running() as (daemon, path):
        talk(path)
        until(no_connections)
        before = descriptors()
        for _ in range(10):
            fd, shape = REFUSED[what]()
            with socket.socket(socket.AF_UNIX) as connection, pytest.raises(SpecError):
                protocol.converse(connection, path, {"attach": "a", "shape": shape}, (fd,))
            os.close(fd)
        until(lambda: descriptors() <= before)
        assert not daemon.attached
        talk(path)


def test_a_flood_of_descriptors():
    """A message brings at most one; more are closed, and the connection with them."""
    with running() as (_, path):
        talk(path)
        until(no_connections)
        before = descriptors()
        for count in (2, 3, 100, 250):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(path)
                with contextlib.suppress(OSError):
                    for _ in range(5):
                        socket.send_fds(connection, [b'{"x": '], [0] * count)
        until(lambda: descriptors() <= before)
        talk(path)


def test_no_application_takes_the_queues_of_others():
    """Each port has its share of the flows; before, one application could ask for nearly all."""
    with running(flows=524_288) as (_, path):
        with pytest.raises(SpecError, match="174762 each"):
            connect("c", path, queues=200_000, buffers=64, buffer_bytes=64)
        most = {"queues": 174_762, "rings": 64, "buffers": 64, "buffer_bytes": 64}
        with connect("c", path, **most), connect("b", path, **most):
            connect("a", path, **most).close()


def test_a_request_must_come_within_its_time(monkeypatch):
    """Single bytes at intervals do not keep a connection open."""
    monkeypatch.setattr(server, "REQUEST_S", 0.3)
    with running() as (daemon, path), socket.socket(socket.AF_UNIX) as connection:
        start, watch = time.monotonic(), Stopwatch()
        connection.connect(path)
        with pytest.raises(OSError):
            while time.monotonic() - start < 60:
                connection.sendall(b" ")
                time.sleep(0.02)
        assert time.monotonic() - start > 0.2 and watch.elapsed() < 3
        until(lambda: not daemon.requesting)


HOLD = """
import os, socket, sys, time
os.setuid(int(sys.argv[2]))
held = []
for _ in range(300):
    s = socket.socket(socket.AF_UNIX)
    s.connect(sys.argv[1])
    s.setblocking(False)
    held.append(s)
print("held", flush=True)
while True:
    for s in held:
        try: s.send(b" ")
        except OSError: pass
    time.sleep(0.1)
"""


@as_root
def test_another_user_with_many_slow_connections():
    with running() as (daemon, path):
        child = subprocess.Popen([sys.executable, "-c", HOLD, path, str(NOBODY)], stdout=subprocess.PIPE, text=True)
        with ended(child):
            assert child.stdout.readline() == "held\n"
            until(lambda: daemon.requesting[NOBODY] >= server.MOST_OF_A_USER)
            assert daemon.requesting[NOBODY] == server.MOST_OF_A_USER
            talk(path)
            assert "mode" in protocol.ask(path, {"show": "settings"})["settings"]


def test_who_has_too_many_connections_is_told_so(monkeypatch):
    """Also the switch's own user, whose `show` said that the switch was going down."""
    monkeypatch.setattr(server, "REQUEST_S", 600.0)  # on a slow machine the first must not be closed before the last comes
    with running() as (daemon, path), contextlib.ExitStack() as stack:
        for _ in range(server.MOST_OF_A_USER):
            stack.enter_context(socket.socket(socket.AF_UNIX)).connect(path)
        until(lambda: daemon.requesting[os.getuid()] == server.MOST_OF_A_USER)
        with pytest.raises(SpecError, match=f"user {os.getuid()} has {server.MOST_OF_A_USER} connections open"):
            protocol.ask(path, {"show": "settings"})


ASK = """
import json, os, socket, sys
os.setuid(int(sys.argv[2]))
for request in ({"show": "flows"}, {"show": "ports"}, {"set": {"burst": 1}}, {"down": True}, {"drain": True}):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(60)
    s.connect(sys.argv[1])
    s.sendall(json.dumps(request).encode() + b"\\n")
    print(s.recv(65536).decode(), end="")
"""


ATTACH = """
import os, sys
from penstock_net.vswitch.client.client import connect
os.setuid(int(sys.argv[2]))
connect("a", sys.argv[1])
print("in")
"""


@as_root
def test_another_user_may_attach_and_nothing_else():
    """Nor show flows and rates: they belong to other users, and collecting them delays the worker."""
    with running() as (daemon, path):
        done = subprocess.run([sys.executable, "-c", ASK, path, str(NOBODY)], capture_output=True, text=True, timeout=120)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(answers) == 5 and all(set(a) == {"error"} and f"user {NOBODY}" in a["error"] for a in answers), done
        assert not daemon.draining and not daemon.over.is_set()
        done = subprocess.run([sys.executable, "-c", ATTACH, path, str(NOBODY)], capture_output=True, text=True, timeout=120)
        assert done.stdout == "in\n", done.stderr


def test_without_descriptors_the_switch_goes_on(tmp_path):
    """Connections take all that it may have; when they have gone it answers again."""
    path = str(tmp_path / "s.sock")
    (tmp_path / "s.toml").write_text(
        f'[switch]\nsocket = "{path}"\n[[port]]\nname = "a"\naddresses = ["{A}"]\n[[port]]\nname = "b"\naddresses = ["{B}"]\n'
    )
    with ended(subprocess.Popen([*UP, str(tmp_path / "s.toml")], stdout=subprocess.PIPE, text=True)) as process:
        assert process.stdout.readline().startswith("up: ")

        def used():
            return len(os.listdir(f"/proc/{process.pid}/fd"))

        held = used()
        soft, hard = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (held + 10, hard))
        connections = [socket.socket(socket.AF_UNIX) for _ in range(31)]
        for connection in connections:
            connection.connect(path)
        until(lambda: used() == held + 10)
        assert process.poll() is None
        for connection in connections:
            connection.close()
        until(lambda: used() == held)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (soft, hard))
        talk(path)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_regions_are_given_back_without_the_worker():
    """With or without protocol errors: when an application has gone, its memory is not mapped any more."""
    with running() as (daemon, path):
        others = mapped()  # of tests before this one, until they are collected
        for nonsense in (False, True):
            with connect("c", path) as c:
                if nonsense:
                    for _ in range(200):
                        c.region.ring_doorbell(1 << 19, 1)
                        time.sleep(0.0002)
                    until(lambda port=c: port.gone)
            del c
            until(lambda: not daemon.attached and mapped() <= others)
            assert not daemon.detached_regions
        assert daemon.switch.detached[-1]["state"] == "nonsense"


def mapped():
    return Path("/proc/self/maps").read_text().count("memfd:penstock (deleted)")


def test_after_protocol_errors_a_port_can_be_attached_to_only_later():
    with running() as (_, path):
        start = time.monotonic()
        with connect("c", path) as c:
            while not c.gone:
                c.region.ring_doorbell(1 << 19, 1)
                time.sleep(0.0002)
        with connect("c", path):
            assert time.monotonic() - start > server.ATTACH_AFTER_ERRORS_S
        talk(path)


def test_a_region_is_handed_back_and_not_unmapped_by_the_worker():
    app, switch = Region.create(), Switch()
    region = Region.attach(app.fd, app.shape)
    number = switch.attach("a", region, [A])
    assert switch.detach(number) is region and switch.detach(number) is None
    switch.close()


def test_who_asks_for_a_port_and_goes_is_not_waited_for():
    """A thread of the switch waited half a second for the port that somebody else has, to tell nobody."""
    with running() as (daemon, path), connect("a", path):
        ours, theirs = socket.socketpair()
        theirs.close()
        with ours, pytest.raises(ConnectionError):
            daemon._claim("a", ours, Peer(os.getpid(), os.getuid(), True, True))
        ours, theirs = socket.socketpair()
        with ours, theirs, pytest.raises(SpecError, match="an application is attached"):
            daemon._claim("a", ours, Peer(os.getpid(), os.getuid(), True, True))
