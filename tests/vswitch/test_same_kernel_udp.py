"""As test_same_kernel: UDP sockets of the simulated kernel and of the real one, by the port of the overlay and by themselves."""

import contextlib
import select
import socket
import struct
import subprocess
from typing import NamedTuple

import pytest
from test_same_kernel import kernel, says, set_up  # noqa: F401

from penstock_net.vswitch import world
from penstock_net.vswitch.attach.allowance import Allowance
from penstock_net.vswitch.attach.open import kinds, open_port
from penstock_net.vswitch.dataplane.socket_room import SocketRooms
from penstock_net.vswitch.linux.losses import socket_losses
from penstock_net.vswitch.linux.netlink import DUMP, SOCK_DIAG, Netlink, attributes
from penstock_net.vswitch.linux.set_up import Interface

IP_PMTUDISC_DO = 2
FRAME = b"\2" * 6 + b"\4" * 6 + b"\x88\xb5" + bytes(100)
kinds()  # compiled parts are loaded before a world is chosen


@pytest.fixture(autouse=True)
def loopback(kernel):  # noqa: F811
    """127.0.0.1 and ::1 are there, on an interface with the MTU of Ethernet."""
    if kernel.is_real:
        for which in ("all", "lo"):
            kernel.space.run("sysctl", "-qw", f"net.ipv6.conf.{which}.disable_ipv6=0")
    set_up("lo")
    with Interface("lo") as interface:
        interface.set(mtu=1500)


def numbered(i):
    return FRAME + bytes([i])


class Version(NamedTuple):
    """Of IP: what sockets are told and asked for, and the bytes of headers and of the longest datagram."""

    family: int
    host: str
    elsewhere: str
    headers: int
    longest: int
    discover: tuple[int, int]
    mtu: tuple[int, int]


V4 = Version(socket.AF_INET, "127.0.0.1", "192.0.2.1", 28, 65_507, (socket.IPPROTO_IP, 10), (socket.IPPROTO_IP, 14))
V6 = Version(socket.AF_INET6, "::1", "2001:db8::1", 48, 65_527, (socket.IPPROTO_IPV6, 23), (socket.IPPROTO_IPV6, 24))


@pytest.fixture(params=[V4, V6], ids=["v4", "v6"])
def v(request):
    return request.param


@contextlib.contextmanager
def sockets(v, *numbers, whole=True):
    with contextlib.ExitStack() as stack:
        found = []
        for number in numbers:
            sock = stack.enter_context(world.socket.socket(v.family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK))
            if whole:
                sock.setsockopt(*v.discover, IP_PMTUDISC_DO)
            sock.bind((v.host, number))
            found.append(sock)
        yield found


@contextlib.contextmanager
def overlay(v, **options):
    """The two ends of an overlay."""
    ends = [f"[{v.host}]:{number}" if v is V6 else f"{v.host}:{number}" for number in (7001, 7002)]
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


def test_who_has_which_address(v):
    with sockets(v, 7001) as (sock,), sockets(v, 7002) as (other,):
        for address, why in (((v.host, 7001), "EADDRINUSE"), ((v.elsewhere, 7003), "EADDRNOTAVAIL")):
            with world.socket.socket(v.family, socket.SOCK_DGRAM) as late:
                assert says(late.bind, address) == why
        assert says(sock.send, b"x") == "EDESTADDRREQ"
        assert says(sock.connect, (v.elsewhere, 7003)) == "ENETUNREACH"
        assert says(sock.getsockopt, *v.mtu) == "ENOTCONN"
        sock.connect((v.host, 7002))
        assert sock.getsockopt(*v.mtu) == 1500
        assert says(other.recv, 100) == "EAGAIN"
        assert sock.send(b"abc") == 3
        assert sock.send(b"") == 0
        assert [other.recv(2), other.recv(100), says(other.recv, 100)] == [b"ab", b"", "EAGAIN"]


def test_nobody_is_at_the_port_of_the_peer(v):
    """Who is connected is told, once."""
    with sockets(v, 7001) as (sock,):
        sock.connect((v.host, 7002))
        assert sock.send(b"abc") == 3
        assert [says(sock.recv, 100), says(sock.recv, 100)] == ["ECONNREFUSED", "EAGAIN"]
        assert [says(sock.send, b"abc") for _ in range(3)] == [3, "ECONNREFUSED", 3]


def test_what_is_longer_than_the_path(v):
    with sockets(v, 7001) as (sock,), sockets(v, 7002) as (other,):
        sock.connect((v.host, 7002))
        assert says(sock.send, bytes(1500 - v.headers)) == 1500 - v.headers
        assert says(sock.send, bytes(1501 - v.headers)) == "EMSGSIZE"
        with Interface("lo") as interface:
            interface.set(mtu=1300)
        assert sock.getsockopt(*v.mtu) == 1300
        assert says(sock.send, bytes(1301 - v.headers)) == "EMSGSIZE"
        assert [len(other.recv(2000)), says(other.recv, 100)] == [1500 - v.headers, "EAGAIN"]
        assert says(sock.send, bytes(v.longest + 1)) == "EMSGSIZE"


def test_fragments_are_joined(v):
    with sockets(v, 7001, whole=False) as (sock,), sockets(v, 7002) as (other,):
        sock.connect((v.host, 7002))
        assert says(sock.send, bytes(v.longest)) == v.longest
        assert says(sock.send, bytes(v.longest + 1)) == "EMSGSIZE"
        assert len(other.recv(70_000)) == v.longest


def test_news_of_datagrams(v):
    """Edge-triggered: once for each that comes."""
    with sockets(v, 7001) as (sock,), sockets(v, 7002) as (other,), contextlib.closing(world.select.epoll()) as waited:
        sock.connect((v.host, 7002))
        waited.register(other.fileno(), select.EPOLLIN | select.EPOLLET)
        seen = [(other.fileno(), select.EPOLLIN)]
        assert waited.poll(0) == []
        for _ in range(2):
            sock.send(b"x")
            assert [waited.poll(0), waited.poll(0)] == [seen, []]
        sock.send(b"x")
        sock.send(b"x")
        assert [waited.poll(0), waited.poll(0)] == [seen, []]


def test_a_full_receive_buffer_drops_and_counts(v):
    with sockets(v, 7001) as (sock,), sockets(v, 7002) as (other,):
        other.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 10_000)
        assert other.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 20_000
        sock.connect((v.host, 7002))
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


def test_a_full_send_buffer(kernel, v):  # noqa: F811
    """The queue of the interface stands still: what is sent waits in the sender's buffer, until there is no room."""
    with sockets(v, 7001) as (sock,), sockets(v, 7002) as (other,):
        sock.connect((v.host, 7002))
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


def test_the_interface_is_down(v):
    """It has no address of IPv6 then."""
    with sockets(v, 7001) as (sock,), sockets(v, 7002) as (other,):
        sock.connect((v.host, 7002))
        set_up("lo", False)
        assert says(sock.send, b"abc") == (3 if v is V4 else "ENETUNREACH")
        set_up("lo")
        assert says(other.recv, 100) == "EAGAIN"
        assert sock.send(b"abc") == 3
        assert other.recv(100) == b"abc"


# ---- The port of an overlay: many messages in one call ----


def test_frames_go_both_ways(v):
    with overlay(v) as (near, far):
        assert near.receive() is None
        for port, other in ((near, far), (far, near)):
            for i in range(70):
                assert port.send(numbered(i))
            port.flush()
            assert all_of(other) == [numbered(i) for i in range(70)]
        assert near.counters["frames_out"] == far.counters["frames_in"] == 70


@pytest.mark.parametrize("segments", [True, False])
def test_runs_of_equal_frames_and_others(v, segments):
    lengths = [100, 100, 100, 60, 1000, 1000, 200, 300, 60, 60, 60]
    frames = [FRAME[:14] + bytes([i]) * length for i, length in enumerate(lengths)]
    with overlay(v, segments=segments) as (near, far):
        for frame in frames:
            assert near.send(frame)
        near.flush()
        assert all_of(far) == frames


def test_strangers_are_refused(v):
    with overlay(v) as (near, far), sockets(v, 7003) as (stranger,):
        stranger.connect((v.host, 7002))
        stranger.send(FRAME)
        near.send(FRAME)
        near.flush()
        assert all_of(far) == [FRAME]
        assert far.counters["refused"] == 1


def test_the_path_becomes_narrower_between_two_batches(v):
    """A frame that is too long now is lost and counted, one that fits passes."""
    with overlay(v) as (near, far):
        frames = [numbered(0), FRAME[:14] + bytes(1400), numbered(1)]
        near.send(frames[0])
        with Interface("lo") as interface:
            interface.set(mtu=1300)
        for frame in frames[1:]:
            near.send(frame)
        near.flush()
        assert all_of(far) == [frames[0], frames[2]]
        assert near.counters["too_long"] == 1


def test_a_full_buffer_of_the_overlay(v):
    with overlay(v, receive_buffer=10_000) as (near, far):
        for i in range(200):
            assert near.send(FRAME[:14] + bytes([i]) * (1000 + i))  # of other lengths: no runs
        near.flush()
        came = all_of(far)
        assert 5 < len(came) < 40 and came == sorted(came, key=len)
        assert far.kernel_lost() == 200 - len(came)


# ---- What it says of sockets ----

BY_FAMILY, MEMORY = 20, 7
FULL, WAITING = 2, 4  # what a look found


@contextlib.contextmanager
def open_to_all(*numbers):
    """Sockets at all addresses of the machine."""
    with contextlib.ExitStack() as stack:
        found = []
        for number in numbers:
            found.append(stack.enter_context(world.socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)))
            found[-1].bind(("0.0.0.0", number))
        yield found


def about(diag, port, peer=(b"", 0), host=b"", cookie=b"\xff" * 8, flags=0, family=socket.AF_INET):
    """What the kernel says of sockets: ports, whether it is connected, cookie and memory of each, by port."""
    question = struct.pack("=BBBxI", family, socket.IPPROTO_UDP, 1 << MEMORY - 1, 0xFFFFFFFF)
    question += struct.pack("!HH16s16s", peer[1], port, peer[0], host) + struct.pack("=I", 0) + cookie
    found = {}
    for _, answer in diag.ask(BY_FAMILY, question, flags):
        memory = struct.unpack("=9I", dict(attributes(answer, 72))[MEMORY][:36])
        found[struct.unpack_from("!H", answer, 4)[0]] = answer[1], answer[6:8], answer[44:52], memory
    return found


def test_one_socket_is_asked_for():
    with open_to_all(7001, 7002) as (_, other), contextlib.closing(Netlink(SOCK_DIAG)) as diag:
        other.connect(("127.0.0.1", 7001))
        assert other.send(bytes(1000)) == 1000
        listed = about(diag, 0, flags=DUMP)
        assert listed.keys() == {7001, 7002}
        state, peer, cookie, memory = listed[7001]
        assert (state, peer) == (7, bytes(2)) and 1000 < memory[0] < memory[1] and memory[8] == 0
        assert listed[7002][:2] == (1, (7001).to_bytes(2, "big"))
        assert about(diag, 7001) == about(diag, 7001, cookie=cookie) == {7001: listed[7001]}
        assert about(diag, 7001, (bytes([10, 0, 0, 9]), 9), bytes([127, 0, 0, 1])) == {7001: listed[7001]}, (
            "where a datagram goes"
        )
        here = bytes([127, 0, 0, 1])
        assert about(diag, 7002, (here, 7001), here) == {7002: listed[7002]}
        assert says(about, diag, 7002, (here, 7003), here) == says(about, diag, 7003) == "ENOENT"
        assert says(lambda: about(diag, 7001, cookie=listed[7002][2])) == "ESTALE"


def test_sockets_of_the_other_version_are_asked_for_by_it():
    here = bytes(15) + b"\1"
    with sockets(V4, 7001), sockets(V6, 7002) as (sock,), contextlib.closing(Netlink(SOCK_DIAG)) as diag:
        listed = about(diag, 0, flags=DUMP, family=socket.AF_INET6)
        assert listed.keys() == {7002} and about(diag, 0, flags=DUMP).keys() == {7001}
        assert about(diag, 7002, (here, 9), here, family=socket.AF_INET6) == listed
        assert says(lambda: about(diag, 7001, (here, 9), here, family=socket.AF_INET6)) == "ENOENT"
        sock.connect(("::1", 7003))
        assert about(diag, 7002, (here, 7003), here, family=socket.AF_INET6)[7002][:2] == (1, (7003).to_bytes(2, "big"))


def test_a_full_socket_is_asked_for_alone():
    """Each look walked through the kernel's whole table of UDP sockets."""
    with (
        open_to_all(7001, 7002, *range(7100, 7110)) as (full, sender, *_),
        contextlib.closing(Allowance()) as table,
        contextlib.closing(Netlink(SOCK_DIAG)) as diag,
    ):
        rooms = SocketRooms(diag.socket, table)

        def looked():
            """What a look found, the messages that it took, and the room of the socket."""
            before = rooms.messages
            return rooms.look(), rooms.messages - before, rooms.room(7001)

        sender.connect(("127.0.0.1", 7001))
        room = rooms.room(7001)
        while 2 * room >= rooms_of(diag, 7001)[1]:
            assert sender.send(bytes(1000)) == 1000
            found, messages, room = looked()
            assert messages > 1, "a list, as none was full"
        assert found & FULL
        for _ in range(15):
            assert sender.send(bytes(1000)) == 1000
            found, messages, room = looked()
            held, most = rooms_of(diag, 7001)
            assert (messages, room) == (1, most - held) and found & FULL
            assert table.allowed[7001] == table.spent[7001] + room
        assert looked()[1] > 1, "now and then there is a list: the port may have got another socket"
        lost = 0
        while not lost:  # it overflows
            sender.send(bytes(1000))
            found, messages, room = looked()
            lost = rooms.lost
        while True:
            try:
                full.recv(2000)
            except BlockingIOError:
                break
        assert not looked()[0] & FULL and looked()[1:] == (looked()[1], rooms_of(diag, 7001)[1])
        assert rooms.lost == lost


def rooms_of(diag, port):
    """What its socket holds, and may."""
    return about(diag, 0, flags=DUMP)[port][3][:2]


def test_a_full_socket_that_is_gone_or_has_a_successor_is_looked_for():
    with (
        open_to_all(7002) as (sender,),
        contextlib.closing(Allowance()) as table,
        contextlib.closing(Netlink(SOCK_DIAG)) as diag,
    ):
        rooms = SocketRooms(diag.socket, table)
        sender.connect(("127.0.0.1", 7001))
        for successor in (True, False):
            with open_to_all(7001):
                rooms.look()
                while not rooms.full:
                    assert sender.send(bytes(1000)) == 1000
                    rooms.look()
                before = rooms.messages
                assert rooms.look() & FULL and rooms.messages == before + 1
            with open_to_all(*[7001][: int(successor)]):
                before = rooms.messages
                assert not rooms.look() & FULL and rooms.messages > before + 1
                assert rooms.room(7001) == (rooms_of(diag, 7001)[1] if successor else None)
