"""As test_same_kernel: processes that are started, descriptors on their way to them, memory, and files."""

import contextlib
import json
import os
import select
import signal
import socket
import stat
import sys

import pytest
from test_same_kernel import kernel, says  # noqa: F401

from penstock_net.vswitch import world
from penstock_net.vswitch.daemon import kept_ports
from penstock_net.vswitch.memory.region import Region
from penstock_net.vswitch.support.blocks import Blocks, read

pytestmark = pytest.mark.usefixtures("kernel")
BEGIN = "channel = socket.socket(fileno=int(os.environ['CHANNEL']))\n"


@contextlib.contextmanager
def started(text, **environment):
    """A process that runs this program, and our end of a socket to it, whose number is in its environment."""
    ours, theirs = world.socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    command = [sys.executable, "-c", f"import os, socket\n{BEGIN}{text}"]
    if world.chosen() is not world.KERNEL:
        world.chosen().programs[sys.executable] = lambda: exec(BEGIN + text, {"os": world.os, "socket": world.socket})
    with ours:
        ours.settimeout(20)
        with theirs:
            given = {**world.os.environ, **environment, "CHANNEL": str(theirs.fileno())}
            process = world.subprocess.Popen(command, env=given, pass_fds=[theirs.fileno()])
        yield process, ours
        process.kill()
        process.wait()


# ---- Processes ----


def test_a_process_has_the_descriptor_and_the_environment_that_it_was_given():
    with started("channel.sendall((os.environ['WORD'] + str(os.getpid())).encode())\nos._exit(3)", WORD="word") as (
        process,
        ours,
    ):
        assert ours.recv(100) == f"word{process.pid}".encode()
        assert ours.recv(100) == b""  # with its end the last descriptor of the other end is gone
        assert process.wait() == 3
    assert "WORD" not in world.os.environ


def test_an_environment_is_the_process_s_own():
    with started("os.environ.pop('WORD')\nchannel.sendall(os.environ.get('WORD', 'none').encode())", WORD="word") as (_, ours):
        assert ours.recv(100) == b"none"
    assert says(world.subprocess.Popen, ["/there/is/no/such/program"]) == "ENOENT"


def test_a_process_that_is_killed_does_nothing_any_more():
    text = "try:\n    channel.sendall(b'here')\n    channel.recv(1)\nfinally:\n    channel.sendall(b'no')"
    with started(text) as (process, ours):
        assert ours.recv(100) == b"here"
        fd = world.os.pidfd_open(process.pid)
        poll = world.select.poll()
        poll.register(fd, select.POLLIN)
        assert poll.poll(0) == []
        process.kill()
        assert poll.poll(20_000) == [(fd, select.POLLIN)]
        assert process.wait() == -signal.SIGKILL
        assert ours.recv(100) == b""
        process.kill()  # again
        world.os.close(fd)


def test_a_process_that_ends_at_once_cleans_nothing_up():
    with started("try:\n    os._exit(1)\nfinally:\n    channel.sendall(b'no')") as (process, ours):
        assert ours.recv(100) == b""
        assert process.wait() == 1


def test_what_two_processes_have_open_ends_with_the_second():
    """A socket that listens goes on when the process that has made it closes it."""
    with started("channel.recv(1)\nos._exit(0)") as (process, ours):
        poll = world.select.poll()
        poll.register(ours, select.POLLIN)
        assert poll.poll(0) == []  # ours was closed in this process, and is open in the other
        ours.sendall(b"x")
        assert ours.recv(1) == b""
        assert process.wait() == 0


# ---- Descriptors on their way ----


def test_descriptors_go_with_their_byte():
    """Each byte has those that were sent with it, under new numbers; what was sent first may be closed by then."""
    first, second = world.socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with first, second:
        sent = [world.os.eventfd(count, os.EFD_NONBLOCK) for count in (1, 2, 3)]
        assert world.socket.send_fds(first, [b"+"], sent[:2]) == 1
        world.socket.send_fds(first, [b"."], sent[2:])
        for fd in sent:
            world.os.close(fd)
        for byte, counts in ((b"+", [1, 2]), (b".", [3])):
            data, came, _, _ = world.socket.recv_fds(second, 1, 10, socket.MSG_CMSG_CLOEXEC)
            assert (data, [world.os.eventfd_read(fd) for fd in came]) == (byte, counts)
            for fd in came:
                world.os.close(fd)


def test_a_descriptor_that_nobody_receives_is_closed():
    """With the socket to which it is on its way: here the last of an end of another pair."""
    first, second = world.socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with contextlib.ExitStack() as stack:
        here, there = (stack.enter_context(each) for each in world.socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM))
        here.settimeout(0.01)
        world.socket.send_fds(first, [b"x"], [there.fileno()])
        there.close()
        with pytest.raises(TimeoutError):
            here.recv(1)
        first.close()
        with pytest.raises(TimeoutError):
            here.recv(1)  # it is kept by what is on its way
        second.close()
        assert here.recv(1) == b""


def test_a_descriptor_that_cannot_be_sent_is_not_kept():
    first, second = world.socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    here, there = world.socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with first, here:
        second.close()
        assert says(world.socket.send_fds, first, [b"x"], [there.fileno()]) == "EPIPE"
        there.close()
        assert here.recv(1) == b""


def test_what_is_handed_over_goes_on_where_it_was():
    """A listener with who waits at it, a connection with bytes that nobody has read."""
    first, second = world.socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    one, other = world.socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with first, second, one:
        one.sendall(b"unread")
        world.socket.send_fds(first, [b"."], [other.fileno()])
        other.close()
        _, (fd,), _, _ = world.socket.recv_fds(second, 1, 4)
        with world.socket.socket(fileno=fd) as again:
            again.settimeout(1)
            assert again.recv(10) == b"unread"
            again.sendall(b"back")
            assert one.recv(10) == b"back"


# ---- Memory ----


def test_memory_is_one_for_all_who_have_its_descriptor():
    first, second = world.socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with first, second:
        mine = Region.create(queues=4, rings=16, bells=16, buffers=8)
        world.socket.send_fds(first, [b"."], [mine.fd])
        _, (fd,), _, _ = world.socket.recv_fds(second, 1, 4)
        one, two = (Region.attach(fd, mine.shape) for _ in range(2))
        world.os.close(fd)
        mine.send(1, [b"a" * 60, b"b" * 60])
        assert [frame for _, frame in one.receive(1)] == [b"a" * 60]
        del one
        assert two.shape == mine.shape


def test_a_memory_file_is_a_file():
    blocks = Blocks()
    fd, directory = blocks.write()
    assert read(fd, directory) == {}
    with world.io.open(fd, "wb", closefd=False) as file:
        file.write(b"text")
    with world.io.open(fd, "rb") as file:
        file.seek(0)
        assert file.read() == b"text"
    assert says(os.close, fd) == "EBADF"  # it was closed with the object


# ---- Files ----


def test_files_in_a_folder(tmp_path):
    folder = str(tmp_path / "ports")
    file = f"{folder}/a"
    assert says(world.io.open, file, "w") == says(world.os.listdir, folder) == says(world.os.lstat, folder) == "ENOENT"
    world.os.mkdir(folder, 0o700)
    assert says(world.os.mkdir, folder) == "EEXIST"
    found = world.os.lstat(folder)
    assert stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) == 0o700 and found.st_uid == world.os.geteuid()
    assert world.os.listdir(folder) == []
    with world.io.open(f"{file}.new", "w") as written:
        written.write("first")
    assert says(world.io.open, file) == "ENOENT"
    world.os.replace(f"{file}.new", file)
    assert world.os.listdir(folder) == ["a"]
    with world.io.open(file) as text:
        assert text.read() == "first"
    with world.io.open(file, "w") as written:
        written.write("2")
    assert (stat.S_ISREG(world.os.lstat(file).st_mode), world.os.lstat(file).st_size) == (True, 1)
    assert says(world.os.replace, f"{file}.new", file) == "ENOENT"
    assert says(world.os.unlink, folder) == "EISDIR"
    world.os.unlink(file)
    assert says(world.os.unlink, file) == "ENOENT"


def test_ports_are_kept(tmp_path):
    path = str(tmp_path / "s.sock")
    table = {"name": "a/b", "addresses": ["10.0.0.1"]}
    kept_ports.keep(path, table, found=True)
    assert (kept_ports.names(path), kept_ports.read(path, "a/b"), kept_ports.was_found(path, "a/b")) == (["a/b"], table, True)
    kept_ports.forget(path, "a/b")
    kept_ports.forget(path, "a/b")
    assert kept_ports.names(path) == [] and json.dumps(kept_ports.read(path, "a/b")) == "null"
