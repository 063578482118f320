"""As test_same_kernel: UDP sockets of the simulated kernel and of the real one, by the port of the overlay and by themselves."""

import contextlib
import select
import socket
import subprocess

import pytest
from test_same_kernel import kernel, says, set_up  # noqa: F401

from penstock_net.vswitch import world
from penstock_net.vswitch.attach.open import kinds, open_port
from penstock_net.vswitch.linux.losses import socket_losses
from penstock_net.vswitch.linux.set_up import Interface

IP_MTU, IP_MTU_DISCOVER, IP_PMTUDISC_DO = 14, 10, 2
HEADERS = 28
FRAME = b"\2" * 6 + b"\4" * 6 + b"\x88\xb5" + bytes(100)
kinds()  # compiled parts are loaded before a world is chosen


@pytest.fixture(autouse=True)
def loopback(kernel):  # noqa: F811
    """127.0.0.1 is there, on an interface with the MTU of Ethernet."""
    set_up("lo")
    with Interface("lo") as interface:
        interface.set(mtu=1500)


def numbered(i):
    return FRAME + bytes([i])


@contextlib.contextmanager
def sockets(*numbers, whole=True):
    with contextlib.ExitStack() as stack:
        found = []
        for number in numbers:
            sock = stack.enter_context(world.socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK))
            if whole:
                sock.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
            sock.bind(("127.0.0.1", number))
            found.append(sock)
        yield found


@contextlib.contextmanager
def overlay(**options):
    """The two ends of an overlay."""
    ends = ["127.0.0.1:7001", "127.0.0.1:7002"]
    options = {"fragments": False, "batch": 8, "headers": False, **options}
    near, far = (open_port("udp", local=here, peer=there, **options) for here, there in (ends, ends[::-1]))
    with near, far:
        yield near, far


def all_of(port):
    found = []
    while (frame := port.receive()) is not None:
        found.append(frame)
    return found


# ---- Sockets ----


def test_who_has_which_address():
    with sockets(7001) as (sock,), sockets(7002) as (other,):
        for address, why in ((("127.0.0.1", 7001), "EADDRINUSE"), (("192.0.2.1", 7003), "EADDRNOTAVAIL")):
            with world.socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as late:
                assert says(late.bind, address) == why
        assert says(sock.send, b"x") == "EDESTADDRREQ"
        assert says(sock.connect, ("192.0.2.1", 7003)) == "ENETUNREACH"
        assert says(sock.getsockopt, socket.IPPROTO_IP, IP_MTU) == "ENOTCONN"
        sock.connect(("127.0.0.1", 7002))
        assert sock.getsockopt(socket.IPPROTO_IP, IP_MTU) == 1500
        assert says(other.recv, 100) == "EAGAIN"
        assert sock.send(b"abc") == 3
        assert sock.send(b"") == 0
        assert [other.recv(2), other.recv(100), says(other.recv, 100)] == [b"ab", b"", "EAGAIN"]


def test_nobody_is_at_the_port_of_the_peer():
    """Who is connected is told, once."""
    with sockets(7001) as (sock,):
        sock.connect(("127.0.0.1", 7002))
        assert sock.send(b"abc") == 3
        assert [says(sock.recv, 100), says(sock.recv, 100)] == ["ECONNREFUSED", "EAGAIN"]
        assert [says(sock.send, b"abc") for _ in range(3)] == [3, "ECONNREFUSED", 3]


def test_what_is_longer_than_the_path():
    with sockets(7001) as (sock,), sockets(7002) as (other,):
        sock.connect(("127.0.0.1", 7002))
        assert says(sock.send, bytes(1500 - HEADERS)) == 1500 - HEADERS
        assert says(sock.send, bytes(1501 - HEADERS)) == "EMSGSIZE"
        with Interface("lo") as interface:
            interface.set(mtu=1300)
        assert sock.getsockopt(socket.IPPROTO_IP, IP_MTU) == 1300
        assert says(sock.send, bytes(1301 - HEADERS)) == "EMSGSIZE"
        assert [len(other.recv(2000)), says(other.recv, 100)] == [1500 - HEADERS, "EAGAIN"]
        assert says(sock.send, bytes(65_508)) == "EMSGSIZE"


def test_fragments_are_joined():
    with sockets(7001, whole=False) as (sock,), sockets(7002) as (other,):
        sock.connect(("127.0.0.1", 7002))
        assert says(sock.send, bytes(65_507)) == 65_507
        assert says(sock.send, bytes(65_508)) == "EMSGSIZE"
        assert len(other.recv(70_000)) == 65_507


def test_news_of_datagrams():
    """Edge-triggered: once for each that comes."""
    with sockets(7001) as (sock,), sockets(7002) as (other,), contextlib.closing(world.select.epoll()) as waited:
        sock.connect(("127.0.0.1", 7002))
        waited.register(other.fileno(), select.EPOLLIN | select.EPOLLET)
        seen = [(other.fileno(), select.EPOLLIN)]
        assert waited.poll(0) == []
        for _ in range(2):
            sock.send(b"x")
            assert [waited.poll(0), waited.poll(0)] == [seen, []]
        sock.send(b"x")
        sock.send(b"x")
        assert [waited.poll(0), waited.poll(0)] == [seen, []]


def test_a_full_receive_buffer_drops_and_counts():
    with sockets(7001) as (sock,), sockets(7002) as (other,):
        other.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 10_000)
        assert other.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 20_000
        sock.connect(("127.0.0.1", 7002))
        for _ in range(100):
            assert sock.send(bytes(1000)) == 1000
        came = 0
        while says(other.recv, 2000) != "EAGAIN":
            came += 1
        assert 5 < came < 25
        assert socket_losses(other.fileno()) == table_drops(other) == 100 - came
        sock.send(b"room")
        assert other.recv(100) == b"room"


def table_drops(sock):
    """As the switch's compiled code asks for it."""
    return socket_losses(sock.fileno()) if world.chosen() is world.KERNEL else world.chosen().socket_drops(sock.fileno())


def test_a_full_send_buffer(kernel):  # noqa: F811
    """The queue of the interface stands still: what is sent waits in the sender's buffer, until there is no room."""
    with sockets(7001) as (sock,), sockets(7002) as (other,):
        sock.connect(("127.0.0.1", 7002))
        poll = world.select.poll()
        poll.register(sock, select.POLLOUT)
        words = "qdisc add dev lo root tbf rate 8bit burst 1600 limit 10000000"
        if kernel.is_real:
            subprocess.run(["tc", *words.split()], check=True)
        else:
            world.chosen().network.stop(world.chosen().here.named("lo"))
        answers = [says(sock.send, bytes(1000)) for _ in range(1000)]
        taken = answers.index("EAGAIN")
        assert 50 < taken < 300 and answers == [1000] * taken + ["EAGAIN"] * (1000 - taken)
        assert poll.poll(0) == []
        if kernel.is_real:
            subprocess.run(["tc", "qdisc", "del", "dev", "lo", "root"], check=True)
        else:
            world.chosen().network.go_on(world.chosen().here.named("lo"), purge=True)
        assert poll.poll(0) == [(sock.fileno(), select.POLLOUT)]
        while says(other.recv, 2000) != "EAGAIN":
            pass
        assert sock.send(b"later") == 5
        assert other.recv(100) == b"later"


def test_the_interface_is_down():
    with sockets(7001) as (sock,), sockets(7002) as (other,):
        sock.connect(("127.0.0.1", 7002))
        set_up("lo", False)
        assert says(sock.send, b"abc") == 3
        set_up("lo")
        assert says(other.recv, 100) == "EAGAIN"
        assert sock.send(b"abc") == 3
        assert other.recv(100) == b"abc"


# ---- The port of an overlay: many messages in one call ----


def test_frames_go_both_ways():
    with overlay() as (near, far):
        assert near.receive() is None
        for port, other in ((near, far), (far, near)):
            for i in range(70):
                assert port.send(numbered(i))
            port.flush()
            assert all_of(other) == [numbered(i) for i in range(70)]
        assert near.counters["frames_out"] == far.counters["frames_in"] == 70


@pytest.mark.parametrize("segments", [True, False])
def test_runs_of_equal_frames_and_others(segments):
    lengths = [100, 100, 100, 60, 1000, 1000, 200, 300, 60, 60, 60]
    frames = [FRAME[:14] + bytes([i]) * length for i, length in enumerate(lengths)]
    with overlay(segments=segments) as (near, far):
        for frame in frames:
            assert near.send(frame)
        near.flush()
        assert all_of(far) == frames


def test_strangers_are_refused():
    with overlay() as (near, far), sockets(7003) as (stranger,):
        stranger.connect(("127.0.0.1", 7002))
        stranger.send(FRAME)
        near.send(FRAME)
        near.flush()
        assert all_of(far) == [FRAME]
        assert far.counters["refused"] == 1


def test_the_path_becomes_narrower_between_two_batches():
    """A frame that is too long now is lost and counted, one that fits passes."""
    with overlay() as (near, far):
        frames = [numbered(0), FRAME[:14] + bytes(1400), numbered(1)]
        near.send(frames[0])
        with Interface("lo") as interface:
            interface.set(mtu=1300)
        for frame in frames[1:]:
            near.send(frame)
        near.flush()
        assert all_of(far) == [frames[0], frames[2]]
        assert near.counters["too_long"] == 1


def test_a_full_buffer_of_the_overlay():
    with overlay(receive_buffer=10_000) as (near, far):
        for i in range(200):
            assert near.send(FRAME[:14] + bytes([i]) * (1000 + i))  # of other lengths: no runs
        near.flush()
        came = all_of(far)
        assert 5 < len(came) < 40 and came == sorted(came, key=len)
        assert far.kernel_lost() == 200 - len(came)
