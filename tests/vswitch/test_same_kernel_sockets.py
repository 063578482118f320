"""As test_same_kernel: Unix sockets, polling, threads, addresses and neighbours of the simulated kernel and of the real one."""

import contextlib
import ipaddress
import os
import select
import socket
import stat

import pytest
from test_same_kernel import FRAME, delete, kernel, packets, says, set_up, tap  # noqa: F401

from penstock_net.vswitch import world
from penstock_net.vswitch.attach import devices
from penstock_net.vswitch.daemon import protocol
from penstock_net.vswitch.linux import netns, unix_socket
from penstock_net.vswitch.linux.monitor import Monitor
from penstock_net.vswitch.linux.netlink import NEW_LINK, attribute, link
from penstock_net.vswitch.linux.set_up import Interface

pytestmark = pytest.mark.usefixtures("kernel")
HERE = ipaddress.ip_address("10.1.0.1")
MAC = "02:00:0a:01:00:01"


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "s")


@contextlib.contextmanager
def listening(path):
    with world.socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(1)
        listener.settimeout(0.01)
        yield listener


# ---- Unix sockets ----


def test_who_listens_and_who_does_not(path):
    with world.socket.socket(socket.AF_UNIX) as client:
        assert says(client.connect, path) == "ENOENT"
        with listening(path) as listener:
            assert stat.S_ISSOCK(world.os.lstat(path).st_mode)
            with world.socket.socket(socket.AF_UNIX) as other:
                assert says(other.bind, path) == "EADDRINUSE"
            with pytest.raises(TimeoutError):
                listener.accept()
            client.connect(path)
            end, _ = listener.accept()
            assert protocol.peer(end)[:2] == protocol.peer(client)[:2] == (world.os.getpid(), world.os.geteuid())
            end.close()
        with world.socket.socket(socket.AF_UNIX) as late:
            assert says(late.connect, path) == "ECONNREFUSED"
        world.os.unlink(path)
        assert says(world.os.lstat, path) == "ENOENT"


def test_a_socket_of_another_name(path):
    """As `unix_socket.listen` has it: it listens by the time that it has its name."""
    with world.socket.socket(socket.AF_UNIX) as listener, world.socket.socket(socket.AF_UNIX) as client:
        number = unix_socket.listen(listener, path, 1)
        file = world.os.lstat(path)
        assert number == (file.st_dev, file.st_ino)
        assert says(world.os.replace, path + "1", path) == "ENOENT"
        world.os.replace(path, path + "1")
        assert says(client.connect, path) == "ENOENT"
        assert says(client.connect, path + "1") is None
        world.os.unlink(path + "1")


def test_a_full_backlog(path):
    with listening(path), contextlib.ExitStack() as stack:
        clients = [stack.enter_context(world.socket.socket(socket.AF_UNIX)) for _ in range(3)]
        for each in clients:
            each.setblocking(False)
        assert [says(each.connect, path) for each in clients] == [None, None, "EAGAIN"]


def test_bytes_and_descriptors_go_through():
    first, second = world.socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with first, second:
        second.settimeout(0.01)
        with pytest.raises(TimeoutError):
            second.recv(10)
        first.send(b"abc")
        first.send(b"def")
        assert [second.recv(4), second.recv(10)] == [b"abcd", b"ef"]
        second.setblocking(False)
        assert says(second.recv, 10) == "EAGAIN"
        fd = world.os.eventfd(0, os.EFD_NONBLOCK)
        protocol.send(first, {"a": 1}, (fd,))
        world.os.close(fd)
        message, (came,) = protocol.receive(second, within=1.0)
        assert message == {"a": 1}
        world.os.eventfd_write(came, 3)
        assert world.os.eventfd_read(came) == 3
        world.os.close(came)


@pytest.mark.parametrize("ends", ["close", "shutdown"])
def test_the_other_end_has_gone(ends):
    """What it has sent can be read, then there is the end; who sends is told."""
    first, second = world.socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with first, second:
        poll = world.select.poll()
        poll.register(second, select.POLLIN)
        assert poll.poll(0) == []
        first.send(b"last")
        assert poll.poll(0) == [(second.fileno(), select.POLLIN)]
        first.close() if ends == "close" else first.shutdown(socket.SHUT_RDWR)
        assert poll.poll(0) == [(second.fileno(), select.POLLIN | select.POLLHUP)]
        assert [second.recv(10), second.recv(10)] == [b"last", b""]
        assert says(second.send, b"x") == "EPIPE"


# ---- Threads ----


def test_threads_wait_for_each_other():
    event, gate, seen = world.threading.Event(), world.threading.Condition(), []

    def work():
        event.wait()
        with gate:
            seen.append("worked")
            gate.notify_all()

    thread = world.threading.Thread(target=work, daemon=True)
    thread.start()
    assert not event.wait(0.005)
    assert not event.is_set() and thread.is_alive()
    with gate:
        event.set()
        assert gate.wait_for(lambda: seen, 60)
        assert not gate.wait_for(lambda: len(seen) > 1, 0.005)
        assert seen == ["worked"]
    thread.join(5)
    assert not thread.is_alive()
    lock = world.threading.Lock()
    assert lock.acquire(timeout=0.001)
    assert not lock.acquire(timeout=0.001) and not lock.acquire(blocking=False)
    lock.release()
    with lock:
        assert lock.locked()


# ---- Addresses ----


@pytest.mark.parametrize("ends", ["down", "address"])
def test_permanent_neighbours(ends):
    with tap() as port, contextlib.closing(Monitor()) as monitor:
        index = world.socket.if_nametoindex("t0")
        with Interface("t0") as interface:
            interface.add_address(ipaddress.ip_address("10.1.0.9"), 24)
        monitor.set_neighbour(index, HERE, MAC)
        assert monitor.neighbours(index) == [(HERE, bytes.fromhex(MAC.replace(":", "")))]
        if ends == "down":
            set_up("t0", False)
        else:
            monitor.route.do(NEW_LINK, link(index, attribute(1, bytes.fromhex("060000000007"))))
            assert devices.mac_of(port.fd).hex(":") == "06:00:00:00:00:07"
        assert monitor.neighbours(index) == []
        assert says(monitor.remove_neighbour, index, HERE) == "ENOENT"


def test_where_a_tap_is():
    """It is in this namespace, until it is deleted; frames to it still fail in the same way."""
    here = (
        netns.identity("/proc/self/ns/net") if world.chosen() is not world.KERNEL else netns.identity("/proc/thread-self/ns/net")
    )
    with tap() as port, packets() as sock:
        assert devices.place_of(port.fd, (0, 0)) == here
        sock.send(FRAME)
        delete("t0")
        assert devices.place_of(port.fd, (0, 0)) is None
