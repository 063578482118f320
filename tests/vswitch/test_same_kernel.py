"""The simulated kernel does what the real one does: each behaviour is asked of both, by the functions that the switch uses.

The real kernel is asked in a network namespace that the test makes. What it does not permit here is skipped, with its reason.
"""

import contextlib
import errno
import math
import os
import select
import socket
import struct
from types import SimpleNamespace

import pytest
from test_lab import FORBIDDEN

from penstock_net.vswitch import world
from penstock_net.vswitch.attach import devices
from penstock_net.vswitch.attach.lab import Namespace
from penstock_net.vswitch.linux import interfaces, netlink
from penstock_net.vswitch.linux.monitor import DELETE_LINK, Monitor
from penstock_net.vswitch.memory.region import Region  # noqa: F401  (compiled parts are loaded before a world is chosen)
from penstock_net.vswitch.ports.tap import open_tap
from penstock_net.vswitch.world.calls import table
from penstock_net.vswitch.world.simulated.descriptors import refused
from penstock_net.vswitch.world.simulated.kernel import Simulated

TYPE = 0x88B5  # of frames, for local experiments
FRAME = b"\2" * 6 + b"\4" * 6 + TYPE.to_bytes(2, "big") + bytes(range(50))
QUEUE = 1000
real = pytest.mark.skipif(bool(FORBIDDEN), reason="; ".join(FORBIDDEN))


@pytest.fixture(params=[pytest.param("real", marks=real), "simulated"])
def kernel(request):
    """The world is one or the other; this thread is in a namespace without IPv6, whose kernel sends nothing by itself."""
    with contextlib.ExitStack() as stack:
        space = None
        if request.param == "real":
            space = stack.enter_context(Namespace("conformance"))
            for which in ("default", "all"):
                space.run("sysctl", "-qw", f"net.ipv6.conf.{which}.disable_ipv6=1")
            stack.enter_context(space.enter())
        else:
            stack.callback(table.check)
            stack.callback(world.use, world.KERNEL)
            world.use(Simulated(seed=1))
        yield SimpleNamespace(is_real=request.param == "real", space=space)


def says(call, *arguments):
    """What a call returns, or the name of its error."""
    try:
        return call(*arguments)
    except OSError as error:
        return errno.errorcode.get(error.errno, "OSError")


@contextlib.contextmanager
def tap(name="t0", up=True, headers=False, **keys):
    """A TAP of the switch, set up."""
    with open_tap(name, headers, **keys) as port:
        if up:
            set_up(name)
        yield port


def set_up(name, up=True):
    with netlink.Netlink() as route:
        flags = interfaces.IFF_UP if up else 0
        route.do(netlink.NEW_LINK, struct.pack("=BBHiII", 0, 0, 0, world.socket.if_nametoindex(name), flags, interfaces.IFF_UP))


def delete(name):
    with netlink.Netlink() as route:
        route.do(DELETE_LINK, netlink.link(world.socket.if_nametoindex(name)))


def lengthen(name, frames):
    with netlink.Netlink() as route:
        index = world.socket.if_nametoindex(name)
        route.do(netlink.NEW_LINK, netlink.link(index, netlink.attribute(netlink.QUEUE_LENGTH, struct.pack("=I", frames))))


@contextlib.contextmanager
def packets(name="t0"):
    with world.socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.htons(TYPE)) as sock:
        sock.bind((name, TYPE))
        yield sock


def monitored(monitor, number):
    """What was reported of an interface; equal reports in a row once, since the kernel repeats some."""
    found = []
    for change in monitor.changes():
        if change.number == number and change.link:
            row = (change.deleted, change.link.name, change.link.up, change.link.mtu)
            if found[-1:] != [row]:
                found.append(row)
    return found


# ---- The clock ----


def test_the_clock_never_goes_back_and_a_sleep_is_long_enough(kernel):
    before = world.time.monotonic_ns()
    world.time.sleep(0.002)
    after = world.time.monotonic_ns()
    assert after - before >= 2_000_000
    assert math.isclose(world.time.monotonic(), after / 1e9, abs_tol=60)
    assert world.time.time_ns() // 10**9 == pytest.approx(world.time.time(), abs=60)


# ---- Counters and sets of descriptors ----


def test_a_counter(kernel):
    fd = world.os.eventfd(0, os.EFD_NONBLOCK)
    assert says(world.os.eventfd_read, fd) == "EAGAIN"
    world.os.eventfd_write(fd, 3)
    world.os.eventfd_write(fd, 4)
    assert world.os.eventfd_read(fd) == 7
    assert says(world.os.write, fd, b"1234") == "EINVAL"
    world.os.eventfd_write(fd, 2**64 - 2)
    assert says(world.os.eventfd_write, fd, 1) == "EAGAIN"
    world.os.close(fd)
    assert says(world.os.close, fd) == "EBADF"


def test_what_a_descriptor_is_can_be_read(kernel):
    fd = world.os.eventfd(0)
    assert world.os.readlink(f"/proc/self/fd/{fd}") == "anon_inode:[eventfd]"
    world.os.close(fd)
    assert says(world.os.readlink, f"/proc/self/fd/{fd}") in ("ENOENT", "EBADF")


def test_a_number_is_used_again(kernel):
    first, second = (world.os.eventfd(0, os.EFD_NONBLOCK) for _ in range(2))
    world.os.close(first)
    assert world.os.eventfd(0, os.EFD_NONBLOCK) == first
    for fd in (first, second):
        world.os.close(fd)


@pytest.mark.parametrize("edge", [0, select.EPOLLET], ids=["level", "edge"])
def test_news_of_a_counter(kernel, edge):
    """Level-triggered, as long as it is readable; edge-triggered, once for each write."""
    fd, waited = world.os.eventfd(1, os.EFD_NONBLOCK), world.select.epoll()
    waited.register(fd, select.EPOLLIN | edge)
    seen = [(fd, select.EPOLLIN)]
    assert [waited.poll(0), waited.poll(0)] == [seen, [] if edge else seen]
    world.os.eventfd_write(fd, 1)
    world.os.eventfd_write(fd, 1)
    assert [waited.poll(0), waited.poll(0)] == [seen, [] if edge else seen]
    world.os.eventfd_write(fd, 1)
    assert world.os.eventfd_read(fd) == 4
    assert waited.poll(0) == []
    world.os.eventfd_write(fd, 1)
    waited.modify(fd, select.EPOLLIN | edge)  # looks anew
    assert waited.poll(0) == seen
    world.os.close(fd)
    assert waited.poll(0) == []
    waited.close()


def test_a_set_of_descriptors(kernel):
    waited = world.select.epoll()
    first, second = (world.os.eventfd(0, os.EFD_NONBLOCK) for _ in range(2))
    waited.register(first, select.EPOLLIN)
    assert says(waited.register, first, select.EPOLLIN) == "EEXIST"
    assert says(waited.unregister, second) == "ENOENT"
    waited.register(second, select.EPOLLIN)
    world.os.eventfd_write(second, 1)
    world.os.eventfd_write(first, 1)
    assert waited.poll(0) == [(second, select.EPOLLIN), (first, select.EPOLLIN)]  # as they happened
    assert len(waited.poll(0, 1)) == 1
    before = world.time.monotonic_ns()
    world.os.eventfd_read(first)
    world.os.eventfd_read(second)
    assert waited.poll(0.003) == []
    assert world.time.monotonic_ns() - before >= 3_000_000
    waited.unregister(first)
    world.os.close(first)
    assert says(waited.register, first, select.EPOLLIN) == "EBADF"
    waited.close()
    world.os.close(second)


# ---- A TAP ----


def test_a_frame_goes_both_ways(kernel):
    for headers in (False, True):
        with tap(headers=headers) as port, packets() as sock:
            assert port.receive() is None
            sock.send(FRAME)
            got = port.receive()
            assert got[10 if headers else 0 :] == FRAME
            assert port.receive() is None
            assert port.send(got)
            assert sock.recv(100) == FRAME
            assert says(sock.recv, 100) == "EAGAIN"


def test_a_frame_is_cut_to_the_room_for_it(kernel):
    with tap() as port, packets() as sock:
        sock.send(FRAME)
        with contextlib.closing(Raw("t1")) as other, packets("t1") as beside:
            beside.send(FRAME)
            assert other.read(20) == FRAME[:20]
            assert other.read(20) == "EAGAIN"
        assert port.receive() == FRAME


def simulated_read(fd, room):
    answer = world.chosen().read(fd, room)
    if isinstance(answer, int):
        raise refused(-answer)
    return answer


class Raw:
    """A TAP as its descriptor is."""

    def __init__(self, name, persistent=False, up=True):
        self.port = open_tap(name, False, False, persistent)
        if up:
            set_up(name)

    def read(self, room):
        """Bytes, or the name of an error."""
        return says(os.read if world.chosen() is world.KERNEL else simulated_read, self.port.fd, room)

    def write(self, data):
        return says(world.os.write, self.port.fd, data)

    def close(self):
        self.port.close()


def test_what_a_tap_refuses(kernel):
    with contextlib.closing(Raw("t0", up=False)) as end:
        assert end.write(FRAME) == "EIO"  # it is down
        set_up("t0")
        assert end.write(FRAME[:13]) == "EINVAL"
        assert [end.write(frame) for frame in (FRAME, FRAME[:14])] == [64, 14]
        assert says(open_tap, "t0", False) == "EBUSY"
        assert says(open_tap, "lo", False) == "EINVAL"


def test_a_ring_is_full(kernel):
    """1000 frames wait in it; others are dropped and counted, and their sender is not told."""
    with tap() as port, packets() as sock, netlink.Netlink() as route:
        index = world.socket.if_nametoindex("t0")
        assert {sock.send(FRAME) for _ in range(QUEUE + 7)} == {len(FRAME)}
        assert netlink.outgoing(route, index).dropped == netlink.dropped_by(route, "t0") == 7
        assert sum(1 for _ in iter(port.receive, None)) == QUEUE
        found = netlink.outgoing(route, index)
        assert (found.frames, found.size) == (QUEUE, QUEUE * len(FRAME))


@pytest.mark.parametrize("read", [0, 1, 3, 15, 16, 17, 40])
def test_room_comes_back_sixteen_at_a_time(kernel, read):
    with tap() as port, packets() as sock, netlink.Netlink() as route:
        for _ in range(QUEUE):
            sock.send(FRAME)
        assert all(port.receive() for _ in range(read))
        for _ in range(50):
            sock.send(FRAME)
        assert netlink.dropped_by(route, "t0") == 50 - read // 16 * 16


def test_a_ring_gets_another_length(kernel):
    with tap() as port, packets() as sock, netlink.Netlink() as route:
        for _ in range(9):
            sock.send(FRAME)
        lengthen("t0", 5)
        assert netlink.dropped_by(route, "t0") == 0  # four are gone
        assert sum(1 for _ in iter(port.receive, None)) == 5
        for _ in range(8):
            sock.send(FRAME)
        assert netlink.dropped_by(route, "t0") == 3
        lengthen("t0", 20)
        for _ in range(20):
            sock.send(FRAME)
        assert netlink.dropped_by(route, "t0") == 3 + 5
        assert sum(1 for _ in iter(port.receive, None)) == 20


def test_news_of_a_tap(kernel):
    """Edge-triggered, once for each frame that has room."""
    with tap() as port, packets() as sock, contextlib.closing(world.select.epoll()) as waited:
        lengthen("t0", 2)
        waited.register(port.fd, select.EPOLLIN | select.EPOLLET)
        assert waited.poll(0) == []
        seen = [(port.fd, select.EPOLLIN)]
        for expected in (seen, seen, []):
            sock.send(FRAME)
            assert waited.poll(0) == expected
        assert port.receive() == FRAME
        assert waited.poll(0) == []


def test_what_a_packet_socket_says(kernel):
    with tap(up=False) as port, packets() as sock:
        assert says(sock.send, FRAME) == "ENETDOWN"
        assert [says(sock.recv, 100), says(sock.recv, 100)] == ["ENETDOWN", "EAGAIN"]
        set_up("t0")
        assert says(sock.recv, 100) == "EAGAIN"
        assert says(sock.send, FRAME + bytes(1500)) == "EMSGSIZE"
        assert sock.send(FRAME[:14] + bytes(1500)) == 1514
        assert len(port.receive()) == 1514


def test_an_interface_that_is_down(kernel):
    """What is in its ring may still be read; a socket on it is told once, and keeps what it has."""
    with tap() as port, packets() as sock:
        assert port.send(FRAME)
        sock.send(FRAME)
        set_up("t0", False)
        assert port.receive() == FRAME
        assert [says(sock.recv, 100) for _ in range(3)] == ["ENETDOWN", FRAME, "EAGAIN"]
        assert says(world.os.write, port.fd, FRAME) == "EIO"
        set_up("t0")
        assert port.send(FRAME)
        assert sock.recv(100) == FRAME


def test_an_interface_that_is_deleted(kernel):
    end = Raw("t0")
    with contextlib.closing(end), packets() as sock, contextlib.closing(world.select.epoll()) as waited:
        waited.register(end.port.fd, select.EPOLLIN | select.EPOLLET)
        sock.send(FRAME)
        assert end.write(FRAME) == 64
        delete("t0")
        assert [end.read(100), end.write(FRAME)] == ["EBADFD", "EBADFD"]
        assert says(world.fcntl.ioctl, end.port.fd, devices.SET_TAP_PERSISTENT, 0) == "EBADFD"
        devices.make_temporary(end.port.fd)  # nothing to do: an error was the end of `port del`
        assert waited.poll(0) == [(end.port.fd, select.EPOLLERR)]
        assert [says(sock.recv, 100) for _ in range(3)] == ["ENETDOWN", FRAME, "EAGAIN"]
        assert says(sock.send, FRAME) == "ENXIO"
        assert not interfaces.exists("t0")


def test_an_interface_that_comes_back(kernel):
    """Of the same name, and with another index; a socket on the old one stays there."""
    first = Raw("t0")
    number = world.socket.if_nametoindex("t0")
    with contextlib.closing(first), packets() as sock:
        delete("t0")
        with tap() as port, packets() as other:
            assert world.socket.if_nametoindex("t0") == number + 1
            assert port.send(FRAME)
            assert other.recv(100) == FRAME
            assert [says(sock.recv, 100), says(sock.recv, 100)] == ["ENETDOWN", "EAGAIN"]
            assert says(sock.send, FRAME) == "ENXIO"
            assert first.read(100) == "EBADFD"
    assert not interfaces.exists("t0")  # it has ended with its descriptor


def test_a_persistent_interface(kernel):
    """It stays, without carrier, with its index; whoever opens it again has it."""
    Raw("t0", persistent=True).close()
    number = world.socket.if_nametoindex("t0")
    with contextlib.closing(Monitor()) as monitor:
        assert not monitor.named("t0").carrier
        end = Raw("t0", persistent=False)
        assert monitor.named("t0").carrier
        assert world.socket.if_nametoindex("t0") == number
        end.close()
        assert monitor.named("t0") is None


# ---- Netlink ----


def test_reports_of_interfaces(kernel):
    with contextlib.closing(Monitor()) as monitor:
        assert monitor.changes() == []
        end = Raw("t0")
        number = world.socket.if_nametoindex("t0")
        assert monitored(monitor, number) == [(False, "t0", False, 1500), (False, "t0", True, 1500)]
        delete("t0")
        found = monitored(monitor, number)
        assert found[-1][0]
        assert not found[-1][2]
        assert monitor.named("t0") is None
        assert monitor.numbered(number) is None
        end.close()
        assert monitor.changes() == []


def test_reports_are_lost_and_that_is_said_once(kernel):
    """A receive buffer that is full: the next reception fails, what was in the buffer is there, and what is reported later."""
    with contextlib.closing(Monitor()) as monitor:
        monitor.events.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        with contextlib.ExitStack() as stack:
            for i in range(12):
                stack.enter_context(contextlib.closing(Raw(f"u{i}")))
            assert monitor.changes() is None
            assert monitor.changes() != []
            assert monitor.changes() == []
            set_up("u0", False)
            assert [change.link.up for change in monitor.changes()][-1:] == [False]


def test_requests_about_interfaces(kernel):
    with tap() as port, netlink.Netlink() as route:
        number = world.socket.if_nametoindex("t0")
        assert interfaces.mtu_of("t0", "x") == 1500
        assert says(route.ask, netlink.GET_LINK, netlink.link(999)) == "ENODEV"
        assert says(netlink.dropped_by, route, "nowhere") == "ENODEV"
        rows = route.ask(netlink.GET_LINK, netlink.link(0), netlink.DUMP)
        assert {struct.unpack_from("=i", content, 4)[0] for _, content in rows} == {1, number}
        assert port.fd >= 0
