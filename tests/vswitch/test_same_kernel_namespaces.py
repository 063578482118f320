"""As test_same_kernel: network namespaces of the simulated kernel and of the real one."""

import contextlib
import ipaddress
import os
import select
import struct
import subprocess

import pytest
from test_same_kernel import FRAME, kernel, packets, says, set_up, tap  # noqa: F401
from waiting import until

from penstock_net.errors import SpecError
from penstock_net.vswitch import world
from penstock_net.vswitch.attach import devices
from penstock_net.vswitch.attach.lab import Namespace
from penstock_net.vswitch.linux import interfaces, netlink, netns
from penstock_net.vswitch.linux.monitor import Monitor, Mounts
from penstock_net.vswitch.linux.set_up import Interface

pytestmark = pytest.mark.usefixtures("kernel")
NAME = f"same{os.getpid()}"
INTO = 28  # IFLA_NET_NS_FD


def is_real():
    return world.chosen() is world.KERNEL


def spaces():
    return world.chosen().spaces


def ip(*words):
    subprocess.run(("ip", *words), check=True, capture_output=True)


def make():
    """As `ip netns add`; the kernel sends nothing by itself in it."""
    if not is_real():
        spaces().name(NAME, spaces().make())
        return
    ip("netns", "add", NAME)
    for which in ("default", "all"):
        ip("netns", "exec", NAME, "sysctl", "-qw", f"net.ipv6.conf.{which}.disable_ipv6=1")


def delete():
    ip("netns", "del", NAME) if is_real() else spaces().unname(NAME)


@contextlib.contextmanager
def named():
    """A namespace with a name, which the test may delete."""
    make()
    try:
        yield NAME
    finally:
        if netns.identity(NAME):
            delete()


@contextlib.contextmanager
def opened(which=NAME):
    with contextlib.closing(netns.open_netns(which)) as space:
        yield space


@contextlib.contextmanager
def program():
    """A process in a namespace that only it keeps: its number, and a function that ends it."""
    if is_real():
        with Namespace("program") as space:
            found = space.start("sleep", "600")
            until(lambda: netns.identity(found.pid) == space.identity)
            yield found.pid, lambda: (found.kill(), found.wait(), None)[-1]
        return
    tasks = world.chosen().tasks
    pid = tasks.hold(spaces().make())
    yield pid, lambda: tasks.end(pid)


def passed(check):
    """Wait until something is so, in time of the world."""
    if is_real():
        until(check)
    else:
        world.chosen().wait(world.chosen().now + 10**9, check)
        assert check()


def move(name, space):
    with netlink.Netlink() as route:
        index = world.socket.if_nametoindex(name)
        route.do(netlink.NEW_LINK, netlink.link(index, netlink.attribute(INTO, struct.pack("=i", space.fd))))


# ---- What it is opened by ----


def test_a_namespace_by_its_name():
    assert netns.identity(NAME) is None
    with named():
        with opened() as space:
            assert space.identity == netns.identity(NAME) != netns.identity("/proc/thread-self/ns/net")
            assert space.name == NAME
            assert any(path.name == NAME for path in world.pathlib.Path("/run/netns").glob("*"))
        assert not world.os.path.islink(netns.path_of(NAME))
    assert netns.identity(NAME) is None
    with pytest.raises(SpecError, match="there is none of that name"):
        netns.open_netns(NAME)


def test_a_file_that_is_no_namespace():
    path = netns.path_of(NAME)
    open(path, "x").close() if is_real() else spaces().name(NAME, None)
    with pytest.raises(SpecError, match="is no network namespace"):
        netns.open_netns(NAME)
    os.unlink(path) if is_real() else spaces().unname(NAME)
    assert netns.identity(NAME) is None


def test_a_namespace_of_a_process():
    with program() as (pid, end):
        known = netns.process_of(pid)
        assert known[0] == pid and known[1] != ""
        assert known == netns.process_of(f"/proc/{pid}/ns/net")
        with opened(pid) as space:
            assert space.identity == netns.identity(pid) != netns.identity("/proc/self/ns/net")
        end()
        assert netns.identity(pid) is None
        assert netns.process_of(pid) == (pid, "")
        with pytest.raises(SpecError, match="there is no process of that number"):
            netns.open_netns(pid)


# ---- Inside of one ----


def test_what_is_opened_inside_belongs_there():
    """Interfaces, sockets and reports; of the same name there may be one in each."""
    with named(), opened() as space, contextlib.closing(Monitor()) as here, contextlib.closing(Monitor(space)) as there:
        before = netns.identity("/proc/thread-self/ns/net")
        with tap("t0") as outside, contextlib.ExitStack() as inside:
            with space.enter():
                assert netns.identity("/proc/thread-self/ns/net") == space.identity
                assert not interfaces.exists("t0")
                port, sock = inside.enter_context(tap("t0")), inside.enter_context(packets())
            assert netns.identity("/proc/thread-self/ns/net") == before
            sock.send(FRAME)
            assert [outside.receive(), port.receive()] == [None, FRAME]
            assert devices.place_of(port.fd, (0, 0)) == space.identity
            assert devices.place_of(outside.fd, (0, 0)) == before
            assert there.named("t0").mac == devices.mac_of(port.fd) != here.named("t0").mac
        for monitor in (here, there):
            assert {change.link.name for change in monitor.changes() if change.link} == {"t0"}


def test_what_is_no_namespace_is_not_entered():
    fd = world.os.eventfd(0, os.EFD_NONBLOCK)
    assert netns.libc().setns(fd, netns.CLONE_NEWNET) == -1
    assert world.ctypes.get_errno() == 22  # EINVAL
    assert says(world.fcntl.ioctl, fd, netns.GET_NAMESPACE_TYPE) in ("ENOTTY", "EINVAL")
    world.os.close(fd)


# ---- Its end ----


def test_a_namespace_lives_as_long_as_something_keeps_it():
    """Its name is gone at once; its interfaces when the last socket, TAP or descriptor of it is closed."""
    with named(), contextlib.closing(Mounts()) as mounts:
        with opened() as space:
            with space.enter():
                port = devices.open_port("tap", name="t0", headers=False)
                set_up("t0")
            other = contextlib.closing(Monitor(space))
            delete()
            assert netns.identity(NAME) is None
            assert space.identity != netns.identity("/proc/thread-self/ns/net")
        with other as monitor:
            assert monitor.named("t0").up
            make()
            with opened() as new:
                assert new.identity != devices.place_of(port.fd, (0, 0))
            port.close()
            assert monitor.named("t0") is None
        assert mounts.fileno() >= 0


def test_an_interface_dies_with_the_namespace_that_it_was_moved_to():
    with named(), tap("t0") as port:
        with opened() as space:
            move("t0", space)
            assert not interfaces.exists("t0")
        delete()
        passed(lambda: devices.place_of(port.fd, (0, 0)) is None)
        assert says(world.os.write, port.fd, FRAME) == "EBADFD"


def test_news_of_mounts():
    """Told once for each change, to each who waits."""
    with contextlib.closing(Mounts()) as mounts, contextlib.closing(world.select.epoll()) as waited:
        waited.register(mounts.fileno(), select.EPOLLPRI)
        assert waited.poll(0) == []
        with named():
            assert waited.poll(0) == [(mounts.fileno(), select.EPOLLPRI | select.EPOLLERR)]
            assert waited.poll(0) == []
        assert waited.poll(0) == [(mounts.fileno(), select.EPOLLPRI | select.EPOLLERR)]


def test_an_interface_that_is_moved():
    """It is down there and has nothing; what is in its ring stays; sockets on it are told that it has gone."""
    with named(), opened() as space, tap("t0") as port, packets() as sock, contextlib.closing(Monitor(space)) as there:
        here = netns.identity("/proc/thread-self/ns/net")
        with Interface("t0") as interface:
            interface.add_address(ipaddress.ip_address("10.1.0.1"), 24)
        sock.send(FRAME)
        with contextlib.closing(Monitor()) as monitor:
            number = monitor.named("t0").number
            move("t0", space)
            assert [change.deleted for change in monitor.changes() if change.link][-1]
        link = there.named("t0")
        assert (link.up, there.addresses(link.number)) == (False, set())
        assert devices.place_of(port.fd, here) == space.identity
        assert [says(sock.recv, 100), says(sock.send, FRAME)] == ["ENETDOWN", "ENXIO"]
        assert says(world.os.write, port.fd, FRAME) == "EIO"
        assert port.receive() == FRAME
        with opened("/proc/thread-self/ns/net") as home, space.enter():
            move("t0", home)
        assert devices.place_of(port.fd, (0, 0)) == here
        assert interfaces.exists("t0") and number > 0
        with tap("t2"):
            with space.enter():
                other = devices.open_port("tap", name="t2", headers=False)
            with other:
                assert says(move, "t2", space) == "EEXIST"
