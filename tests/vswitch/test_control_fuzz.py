"""The control socket under generated attacks, beside two clients that work: they go on, and nothing of an attack is left."""

import array
import contextlib
import json
import os
import socket
import threading
from pathlib import Path

import pytest
from daemons import A, B, C, running
from drawn import examples
from frames import udp
from hypothesis import HealthCheck, Phase, example, given
from hypothesis import strategies as st
from waiting import until

from penstock_net.vswitch.client.client import connect
from penstock_net.vswitch.daemon import protocol, server
from penstock_net.vswitch.memory.region import Region

PORTS = [{"name": name, "addresses": [address]} for name, address in (("a", A), ("b", B), ("c", C))]
KEYS = [
    "attach",
    "plug",
    "capture",
    "set",
    "undo",
    "reload",
    "drain",
    "show",
    "seconds",
    "most",
    "shape",
    "snap",
    "memory",
    "drops",
]
WORDS = [
    "a",
    "c",
    "z",
    "ports",
    "flows",
    "held",
    "settings",
    "changes",
    "captures",
    "port.c.addresses",
    "th_goal",
    "burst",
    "1KB",
    "",
]
NUMBERS = st.one_of(st.integers(-2, 70), st.sampled_from([2**31, 2**63, 2**64, -(2**63), 1e300]), st.floats())
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, st.sampled_from(WORDS), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from([*WORDS, *KEYS, "rings", "queues", "port"]), inner, max_size=4),
    ),
    max_leaves=8,
)
REQUESTS = st.dictionaries(st.sampled_from(KEYS), VALUES, min_size=1, max_size=3).map(
    lambda request: json.dumps({**request, "seconds": 0.01} if "drain" in request else request).encode() + b"\n"
)
SHAPE = {"rings": 16, "queues": 4, "bells": 16, "buffers": 16, "buffer_bytes": 64}
MESSAGES = st.one_of(
    REQUESTS,
    st.tuples(REQUESTS, st.integers(0, 40)).map(lambda pair: pair[0][: pair[1]]),
    st.binary(max_size=60),
    st.just(b" " * 9000),
    st.just(b"[" * 3000 + b"\n"),
    st.just(json.dumps({"attach": "c", "shape": SHAPE}).encode() + b"\n"),
    st.just(json.dumps({"plug": "c"}).encode() + b"\n"),
)
DESCRIPTORS = st.lists(st.sampled_from(["null", "folder", "pipe", "socket", "unsealed", "region", "itself"]), max_size=5)
ACTIONS = st.one_of(
    st.tuples(st.just("send"), MESSAGES, DESCRIPTORS),
    st.tuples(st.just("receive"), st.integers(1, 100)),
    st.tuples(st.just("end"), st.sampled_from([socket.SHUT_RD, socket.SHUT_WR, socket.SHUT_RDWR])),
    st.tuples(st.just("close")),
)
# Connections, and which of them acts when.
ATTACKS = st.lists(st.tuples(st.integers(0, 7), ACTIONS), min_size=1, max_size=30)


def watched_processes():
    """The number of this process's descriptors by which a switch waits for the end of a process."""
    found = 0
    for file in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found += "pidfd" in os.readlink(file)
    return found


class Working:
    """A switch with two applications that exchange frames, and what must be as before after an attack."""

    def __init__(self, daemon, a, b, path):
        self.daemon, self.a, self.b, self.path, self.count = daemon, a, b, path, 0
        self.failed = []
        self.descriptors = len(os.listdir("/proc/self/fd"))

    def works(self):
        """A frame passes, and a request is answered."""
        self.count += 1
        frame = udp(A, B, payload=b"%d" % self.count)
        assert self.a.send(0, [frame]) == 1
        assert [f for _, f in self.b.receive(1, timeout=120)] == [frame]
        assert isinstance(protocol.ask(self.path, {"show": "captures"})["captures"], list)

    def recovered(self):
        """Nothing is left of the attack."""
        until(lambda: not self.daemon.requesting and set(self.daemon.attached) == {"a", "b"})
        until(self.idle_threads)
        assert protocol.ask(self.path, {"show": "captures"}) == {"captures": []}
        until(lambda: len(os.listdir("/proc/self/fd")) <= self.descriptors)
        assert not self.daemon.detached_regions and not self.daemon.plugged and not self.daemon.over.is_set()
        self.daemon.draining = False
        protocol.ask(self.path, {"undo": True})
        assert self.failed == []

    def idle_threads(self):
        """Whether the only threads of connections are those of the two applications."""
        return sum("_serve_connection" in t.name for t in threading.enumerate()) == 2


@pytest.fixture(scope="module")
def working(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "REQUEST_S", 0.1)
        path, before = str(tmp_path_factory.mktemp("fuzz") / "s.sock"), watched_processes()
        with running(path, {"port": PORTS}) as daemon, connect("a", path) as a, connect("b", path) as b:
            until(lambda: watched_processes() == before + 2)  # which the switch opens after it has answered
            found = Working(daemon, a, b, path)
            patch.setattr(threading, "excepthook", lambda problem: found.failed.append(problem))
            yield found
    assert found.failed == []


def opened(kind, connection):
    """A descriptor that is sent along; the caller closes it."""
    if kind == "null":
        return os.open(os.devnull, os.O_RDWR)
    if kind == "folder":
        return os.open("/", os.O_RDONLY)
    if kind == "pipe":
        ours, theirs = os.pipe()
        os.close(ours)
        return theirs
    if kind == "socket":
        return socket.socket(socket.AF_UNIX).detach()
    if kind == "unsealed":
        fd = os.memfd_create("unsealed", os.MFD_ALLOW_SEALING)
        os.ftruncate(fd, 1 << 20)
        return fd
    if kind == "region":
        region = Region.create(**SHAPE)
        return os.dup(region.fd)
    return os.dup(connection.fileno())


def act(connection, action):
    """One step of an attack; the switch may have closed the connection."""
    what, *rest = action
    if what == "send":
        data, kinds = rest
        fds = []
        try:
            fds += (opened(kind, connection) for kind in kinds)
            ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
            connection.sendmsg([data or b" "], ancillary)
        finally:
            for fd in fds:
                os.close(fd)
    elif what == "receive":
        connection.recv(rest[0])
    elif what == "end":
        connection.shutdown(rest[0])
    else:
        connection.close()


@given(attack=ATTACKS)
@example(attack=[(1, ("send", b'{"capture": []}\n', ["itself"])), (1, ("close",))])
@examples(100, suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.reuse, Phase.generate])
def test_clients_go_on_beside_any_attack(working, attack):
    """Interleaved connections that send requests, halves of them, anything else, descriptors of any kind; and read little."""
    with contextlib.ExitStack() as stack:
        connections = {}
        for number, action in attack:
            if number not in connections or connections[number].fileno() < 0:
                connections[number] = stack.enter_context(socket.socket(socket.AF_UNIX))
                connections[number].connect(working.path)
                connections[number].setblocking(False)
            with contextlib.suppress(OSError):
                act(connections[number], action)
        working.works()
    working.recovered()


@given(answers=st.integers(50, 400), size=st.sampled_from(["settings", "ports", "counters"]))
@examples(10, suppress_health_check=list(HealthCheck))
def test_a_client_that_reads_no_answers(working, answers, size):
    """It asks until the switch waits for it, which ends after REQUEST_S."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        connection.connect(working.path)
        connection.settimeout(0.01)
        with contextlib.suppress(OSError):
            for _ in range(answers):
                connection.sendall(json.dumps({"show": size}).encode() + b"\n")
        working.works()
    working.recovered()


def test_many_connections_at_once(working):
    """More than the switch admits are closed; when they have gone, everything is admitted again."""
    with contextlib.ExitStack() as stack:
        for _ in range(300):
            connection = stack.enter_context(socket.socket(socket.AF_UNIX))
            connection.connect(working.path)
            connection.setblocking(False)
            with contextlib.suppress(OSError):
                connection.send(b'{"show"')
        assert working.daemon.requesting[os.getuid()] <= server.MOST_OF_A_USER
        until(lambda: not working.daemon.requesting)
        working.works()
    working.recovered()
