"""Servers whose answers a client does not read serve the others; a group of sockets goes on when one of them is not read."""

import contextlib
import shutil
import socket
import struct
import sys

import pytest
from daemons import running
from test_edge import FORBIDDEN
from test_tap_ports import rows, tap
from waiting import until

from penstock_net.vswitch.attach.lab import Namespace

pytestmark = pytest.mark.skipif(bool(FORBIDDEN), reason="; ".join(FORBIDDEN))
SERVER, ATTACKER, VICTIM = "10.78.0.1", "10.78.0.2", "10.78.0.3"
ECHO = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("0.0.0.0", int(sys.argv[1])))
print("ready", flush=True)
while True:
    data, peer = s.recvfrom(2000)
    s.sendto(data, peer)
"""
PORT, REQUESTS, BURST = 5353, 200, 40


def question(number, name=b"honest"):
    """A query of the DNS for the address of NAME.test."""
    labels = b"".join(bytes([len(label)]) + label for label in (name, b"test"))
    return struct.pack("!6H", number, 0x100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!HH", 1, 1)


def get(number):
    """A GET of memcached for the value of 1200 B that `fill` has stored."""
    return struct.pack("!4H", number, 0, 1, 0) + b"get k\r\n"


def fill(space):
    with space.socket(socket.AF_INET, socket.SOCK_STREAM) as s:
        s.settimeout(60)
        until(lambda: s.connect_ex((SERVER, PORT)) in (0, 106))
        s.sendall(b"set k 0 0 1200\r\n" + bytes(1200) + b"\r\n")
        assert s.recv(100) == b"STORED\r\n"


def initial(number):
    """A packet of QUIC in a version that no server has: it answers which it has."""
    return (b"\xc0\x1a\x2a\x3a\x4a\x08" + struct.pack("!H", number) + bytes(6) + b"\x08" + bytes(8)).ljust(1200, b"\0")


SERVERS = {
    "echo": ([sys.executable, "-c", ECHO, str(PORT)], lambda number: struct.pack("!H", number) + bytes(1000)),
    "dnsmasq": (
        ["dnsmasq", "-k", "-p", str(PORT), "-C", "/dev/null", "-R", "-h", "--address=/test/10.1.2.3", "-u", "root", "-x", ""],
        question,
    ),
    "memcached": (["memcached", "-u", "nobody", "-l", SERVER, "-p", str(PORT), "-U", str(PORT)], get),
    "gtlsserver": (["gtlsserver", "-q", SERVER, str(PORT), "key.pem", "certificate.pem"], initial),
}


@pytest.fixture
def three(tmp_path):
    """A switch with a server's namespace, an attacker's and a victim's."""
    with contextlib.ExitStack() as stack:
        spaces = [stack.enter_context(Namespace(name)) for name in ("server", "attacker", "victim")]
        ports = [tap(space.name, address, space) for space, address in zip(spaces, (SERVER, ATTACKER, VICTIM))]
        daemon = stack.enter_context(running(tmp_path / "switch.sock", {"port": ports}))
        until(lambda: len(rows(daemon)) == 3)
        yield (*spaces, daemon)


def member(space):
    """One more socket of a group at the same port."""
    sock = space.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    sock.bind(("0.0.0.0", PORT))
    return sock


def asks(sock, request):
    """Send a request until something comes, which it does at once; whether it came to the first."""
    sock.sendto(request, (SERVER, PORT))
    try:
        return bool(sock.recv(4000))
    except TimeoutError:
        return False


@pytest.mark.parametrize("name", SERVERS)
def test_a_client_that_does_not_read_stops_no_server(three, tmp_path, monkeypatch, name):
    """Its answers wait, up to its share of the switch, and are lost beyond that; another one's requests are all answered.

    They waited in a class of the server's interface, charged to the only socket that the server has.
    """
    command, request = SERVERS[name]
    if not shutil.which(command[0]):
        pytest.skip(f"{command[0]} not installed")
    server, attacker, victim, daemon = three
    monkeypatch.chdir(tmp_path)
    if name == "gtlsserver":
        make = "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=test -keyout key.pem -out certificate.pem"
        server.run(*make.split())
    program = server.start(*command)
    with attacker.socket(socket.AF_INET, socket.SOCK_DGRAM) as unread, victim.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(0.2)
        until(lambda: program.poll() is None and asks(sock, request(0)), "the server answers")
        if name == "memcached":
            fill(server)
        sock.settimeout(20)
        unread.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        unread.setblocking(False)

        def attack():
            with contextlib.suppress(BlockingIOError):
                for number in range(BURST):
                    unread.sendto(request(1000 + number), (SERVER, PORT))

        def waits():
            attack()
            return rows(daemon)["attacker"]["device"]["edge"]["waiting_ports"]

        until(waits, "the attacker's socket is full", pause=0.01)
        answered = 0
        for number in range(REQUESTS):
            attack()
            answered += asks(sock, request(number))
            assert answered > number, f"request {number} was not answered"
    lost = {reason for row in rows(daemon).values() for reason, n in row["drops"].items() if n}
    assert lost <= {"not_paused", "evicted"}, lost
    assert rows(daemon)["victim"]["device"]["edge"]["socket_lost"] == 0


def test_a_server_that_waits_for_its_only_client_is_let_go_when_another_one_asks(three):
    """It waits, since nobody else has asked: what it sends is more than its client has asked for."""
    server, attacker, victim, daemon = three
    with (
        attacker.socket(socket.AF_INET, socket.SOCK_DGRAM) as unread,
        victim.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock,
        server.socket(socket.AF_INET, socket.SOCK_DGRAM) as stream,
    ):
        unread.bind((ATTACKER, PORT))
        stream.bind((SERVER, PORT))
        stream.setblocking(False)
        sock.settimeout(60)

        def blocked():
            with contextlib.suppress(BlockingIOError):
                for _ in range(20):
                    stream.sendto(bytes(1000), (ATTACKER, PORT))
                return False
            return rows(daemon)["server"]["device"]["edge"]["classes"] == 1

        until(blocked, "it has one peer, which does not read", pause=0.01)
        sock.sendto(b"question", (SERVER, PORT))
        stream.settimeout(60)
        question, peer = stream.recvfrom(2000)
        stream.sendto(question, peer)
        assert sock.recv(2000) == b"question"
        until(lambda: rows(daemon)["server"]["device"]["edge"]["classes"] == 0)
        stream.settimeout(60)
        for _ in range(2000):  # it is not made to wait again
            stream.sendto(bytes(1000), (ATTACKER, PORT))


def test_one_hung_member_of_a_group_of_sockets_does_not_stop_the_others(three):
    """SO_REUSEPORT: the kernel chooses a member by the addresses and ports, and drops what its full buffer has no room for."""
    server, _, victim, daemon = three
    with contextlib.ExitStack() as stack:
        hung, good = (stack.enter_context(member(server)) for _ in range(2))
        senders = [stack.enter_context(victim.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(24)]
        for sock in (hung, good):
            sock.setblocking(False)

        def came(sock):
            found = []
            with contextlib.suppress(BlockingIOError):
                while True:
                    found.append(int(sock.recv(2000)[:2]))
            return found

        for i, sock in enumerate(senders):
            sock.setblocking(False)
            sock.sendto(b"%02d" % i, (SERVER, PORT))
        of_hung, of_good = [], []
        until(lambda: of_hung.extend(came(hung)) or of_good.extend(came(good)) or len(of_hung + of_good) == len(senders))
        assert of_hung and of_good

        def flood():
            for i in of_hung:
                with contextlib.suppress(BlockingIOError):
                    senders[i].sendto(b"%02d" % i + bytes(1000), (SERVER, PORT))
            return rows(daemon)["server"]["device"]["edge"]["socket_lost"] > 20

        until(flood, "the hung member is full", pause=0.01)
        for number in range(1000):
            if number % 50 == 0:
                flood()
            i = of_good[number % len(of_good)]
            senders[i].sendto(b"%02d" % i + bytes(1000), (SERVER, PORT))
            assert until(lambda: came(good)) == [i]
    lost = {name: {reason for reason, n in row["drops"].items() if n} for name, row in rows(daemon).items()}
    assert not any(lost.values()), lost
