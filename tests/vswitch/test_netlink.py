"""Sockets of netlink that several threads use: the end of one, and the one that all who ask in a namespace share."""

import contextlib
import errno
import socket
import struct
import threading

import pytest
from test_lab import FORBIDDEN
from waiting import until

from penstock_net.vswitch import world
from penstock_net.vswitch.attach.lab import Namespace
from penstock_net.vswitch.linux import netlink
from penstock_net.vswitch.linux.losses import dropped_at
from penstock_net.vswitch.linux.netlink import Netlink, SharedNetlink
from penstock_net.vswitch.linux.set_up import Interface
from penstock_net.vswitch.memory.region import Region  # noqa: F401  (compiled parts are loaded before a world is chosen)
from penstock_net.vswitch.ports.tap import open_tap
from penstock_net.vswitch.world.calls import table
from penstock_net.vswitch.world.simulated.kernel import Simulated

real = pytest.mark.skipif(bool(FORBIDDEN), reason="; ".join(FORBIDDEN))
LOOPBACK = netlink.link(1)


@pytest.fixture(params=[pytest.param("real", marks=real), "simulated"])
def space(request):
    """A namespace of the kernel, or the one of the simulated one."""
    with contextlib.ExitStack() as stack:
        if request.param == "real":
            stack.enter_context(stack.enter_context(Namespace("shared")).enter())
        else:
            stack.callback(table.check)
            stack.callback(world.use, world.KERNEL)
            world.use(Simulated(seed=1))
        yield


class Watched:
    """A lock that says when somebody waits for it."""

    def __init__(self):
        self.lock, self.awaited = threading.Lock(), threading.Event()

    def __enter__(self):
        if not self.lock.acquire(blocking=False):
            self.awaited.set()
            self.lock.acquire()

    def __exit__(self, *error):
        self.lock.release()


class Answering:
    """A socket whose user is closed by another thread while an answer is awaited."""

    def __init__(self, route):
        self.route, self.real, self.closed = route, route.socket, False
        self.closing = threading.Thread(target=route.close)

    def send(self, message):
        return self.real.send(message)

    def recv(self, size):
        self.closing.start()
        until(lambda: self.route.lock.awaited.is_set() or self.closed)
        assert not self.closed, "its descriptor may be another file's by now"
        return self.real.recv(size)

    def close(self):
        self.closed = True
        self.real.close()


def test_a_socket_is_closed_after_the_answer_that_another_thread_awaits():
    """It was closed at once: the thread read from whatever had got its descriptor then."""
    route = Netlink()
    route.lock, route.socket = Watched(), Answering(route)
    ((kind, content),) = route.ask(netlink.GET_LINK, LOOPBACK)
    route.socket.closing.join()
    assert kind == netlink.NEW_LINK and struct.unpack_from("=i", content, 4) == (1,) and route.socket.closed
    with pytest.raises(OSError, match="Bad file descriptor"):
        route.ask(netlink.GET_LINK, LOOPBACK)


def test_all_in_a_namespace_share_a_socket_until_the_last_one_closes_it(space):
    with contextlib.ExitStack() as stack:
        for name in ("t0", "t1"):
            stack.enter_context(open_tap(name, True))
        taps = [Interface(name) for name in ("t0", "t1")]
        assert taps[0].route.found is taps[1].route.found and [each.dropped() for each in taps] == [0, 0]
        assert dropped_at("t0") == 0
        taps[0].close()
        taps[0].close()
        with pytest.raises(OSError) as refused:
            taps[0].dropped()
        assert refused.value.errno == errno.EBADF and taps[1].dropped() == 0
        sock = taps[1].route.found.socket
        taps[1].close()
        assert sock.fileno() < 0


@real
def test_each_namespace_and_each_protocol_has_its_own():
    with Namespace("left") as left, contextlib.ExitStack() as stack:
        asked = [(netlink.ROUTE, None), (netlink.ROUTE, left), (netlink.SOCK_DIAG, left), (netlink.ROUTE, left)]
        found = [stack.enter_context(SharedNetlink(*each)).found for each in asked]
        assert len(set(map(id, found))) == 3 and found[1] is found[3]
        with left.enter(), SharedNetlink() as here:
            assert here.found is found[1]
            names = dict(netlink.attributes(here.ask(netlink.GET_LINK, LOOPBACK)[0][1], 16))
            assert names[netlink.NAME] == b"lo\0" and [name for _, name in socket.if_nameindex()] == ["lo"]
