"""Unmodified programs in network namespaces that communicate through the switch; skipped where these are not permitted."""

import contextlib
import hashlib
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from daemons import ended, running
from frames import payload_of, udp
from test_lab import FORBIDDEN, PONG
from waiting import Stopwatch, until

from penstock_net.errors import SpecError
from penstock_net.vswitch.attach.lab import Namespace, veth
from penstock_net.vswitch.client.client import connect
from penstock_net.vswitch.client.plug import Plug
from penstock_net.vswitch.daemon import protocol
from penstock_net.vswitch.daemon.server import Daemon

HERE, THERE, NATIVE = "10.77.0.1", "10.77.0.2", "10.77.0.3"
SIX_HERE, SIX_THERE = "fd77::1", "fd77::2"
pytestmark = pytest.mark.skipif(bool(FORBIDDEN), reason="; ".join(FORBIDDEN))
SINK = """
import hashlib, socket, sys
s = socket.create_server(("::", 9001), family=socket.AF_INET6, dualstack_ipv6=True)
print("ready", flush=True)
c, _ = s.accept()
digest, count = hashlib.sha256(), 0
while data := c.recv(1 << 16):
    digest.update(data); count += len(data)
c.close()
print(count, digest.hexdigest(), flush=True)
"""


@contextlib.contextmanager
def plugged(tmp_path, headers=True, guard=True, **settings):
    """Two namespaces, a TAP in each, and a switch between them."""
    ports = [
        {"name": "a", "addresses": [HERE, SIX_HERE]},
        {"name": "b", "addresses": [THERE, SIX_THERE]},
        {"name": "c", "addresses": [NATIVE]},
    ]
    with running(tmp_path / "switch.sock", {"switch": settings, "port": ports}) as daemon, contextlib.ExitStack() as stack:
        spaces = [stack.enter_context(Namespace(n)) for n in ("left", "right")]
        for name, space in zip("ab", spaces):
            with space.enter():
                stack.enter_context(Plug(name, path=daemon.path, headers=headers, guard=guard))
        yield (*spaces, daemon)


def rows(daemon):
    return {row["port"]: row for row in protocol.ask(daemon.path, {"show": "ports"})["ports"]}


MODES = [("backdraft", True), ("backdraft", False), ("dpfq", True), ("pfc", True), ("lossy", True)]


@pytest.mark.parametrize("mode, headers", MODES)
def test_datagrams_there_and_back(tmp_path, mode, headers):
    with plugged(tmp_path, mode=mode, headers=headers) as (left, right, daemon):
        pong = right.start("python3", "-c", PONG)
        assert pong.stdout.readline().strip() == "ready"
        with left.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(60)
            took = []
            for i in range(200):
                watch = Stopwatch(pong.pid)
                s.sendto(b"%d" % i + bytes(i), (THERE, 9000))
                assert s.recv(2000) == b"%d" % i + bytes(i)
                took.append(watch.elapsed())
        found = rows(daemon)
        assert all(found[n]["received_frames"] == found[n]["sent_frames"] == 200 and not found[n]["drops"] for n in "ab")
        assert found["a"]["device"]["malformed"] == 0
        assert sorted(took)[100] < 0.1, "half of the round trips take less than 100 ms"


@pytest.mark.parametrize("family, address", [(socket.AF_INET, THERE), (socket.AF_INET6, SIX_THERE)])
def test_a_stream_arrives_whole(tmp_path, family, address):
    """TCP, of the kernel's own, 40 MB through the switch in super-frames."""
    content = hashlib.shake_128(b"stream").digest(40_000_000)
    with plugged(tmp_path) as (left, right, daemon):
        sink = right.start("python3", "-c", SINK)
        assert sink.stdout.readline().strip() == "ready"
        with left.socket(family, socket.SOCK_STREAM) as s:
            s.settimeout(60)
            s.connect((address, 9001))
            s.sendall(content)
        count, digest = sink.stdout.readline().split()
        assert int(count) == len(content) and digest == hashlib.sha256(content).hexdigest()
        found = rows(daemon)
        assert not any(row["drops"] for row in found.values())
        assert found["a"]["received_bytes"] / found["a"]["received_frames"] > 3000, "super-frames"


def test_a_program_and_a_native_application(tmp_path):
    """Check sums that the kernel leaves open are complete in what a native application gets, and it may leave its own out."""
    with (
        plugged(tmp_path) as (left, _, daemon),
        connect("c", daemon.path) as native,
        left.socket(socket.AF_INET, socket.SOCK_DGRAM) as s,
    ):
        s.bind((HERE, 7000))
        s.settimeout(60)
        s.sendto(b"question", (NATIVE, 7001))
        ((_, frame),) = native.receive(1, timeout=120)
        assert payload_of(frame) == b"question" and len(frame) == 50
        words = frame[26:34] + b"\0\x11" + frame[38:40] + frame[34:]
        total = sum(int.from_bytes(words[i : i + 2].ljust(2, b"\0"), "big") for i in range(0, len(words), 2))
        while total >> 16:
            total = (total & 0xFFFF) + (total >> 16)
        assert total == 0xFFFF
        assert native.send(0, [with_checksum(udp(NATIVE, HERE, 7001, 7000, b"answer"))]) == 1
        assert s.recv(100) == b"answer"


def test_only_addresses_of_the_switch_are_answered_for(tmp_path):
    with plugged(tmp_path) as (left, right, daemon):
        pong = right.start("python3", "-c", PONG)
        assert pong.stdout.readline().strip() == "ready"
        left.run("ip", "neighbour", "flush", "all", "nud", "permanent")
        with left.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(60)
            s.sendto(b"x", (THERE, 9000))
            assert s.recv(10) == b"x"
        assert rows(daemon)["a"]["device"]["answered"] == 1
        left.run("sysctl", "-qw", "net.ipv4.neigh.tap0.retrans_time_ms=50")  # it asks three times, a second apart
        with left.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(60)
            s.sendto(b"x", ("10.77.0.99", 9))
            until(lambda: "FAILED" in left.run("ip", "neighbour", "show", "10.77.0.99"), "the kernel has given up asking")
            s.sendto(b"x", (THERE, 9000))
            assert s.recv(10) == b"x", "which the switch has read after the questions"
        device = rows(daemon)["a"]["device"]
        assert device["answered"] == 1 and device["frames_in"] > 0 and not rows(daemon)["a"]["drops"]


def test_a_killed_plug_and_one_after_it(tmp_path):
    with plugged(tmp_path) as (_, _, daemon):
        code = (
            "import time; from penstock_net.vswitch.attach.lab import Namespace\n"
            "from penstock_net.vswitch.client.plug import Plug\n"
            f"with Namespace() as n, n.enter(), Plug('c', path={daemon.path!r}): print('in', flush=True); time.sleep(60)"
        )
        for _ in range(3):
            with ended(subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)) as child:
                assert child.stdout.readline().strip() == "in" and "c" in rows(daemon)
            until(lambda: "c" not in rows(daemon))


def pipes():
    """How many descriptors of pipes this process has."""
    found = 0
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found += os.readlink(each).startswith("pipe:")
    return found


def test_what_is_no_tap_is_refused(tmp_path):
    with running(tmp_path / "switch.sock", {"port": [{"name": "a", "addresses": [HERE]}]}) as daemon:
        reader, writer = os.pipe()
        before = pipes()
        for fds, match in (
            ((reader,), "not a TAP"),
            ((), "the file descriptor of a TAP"),
            ((reader, writer, writer), "not a TAP"),
        ):
            with socket.socket(socket.AF_UNIX) as connection, pytest.raises(SpecError, match=match):
                protocol.converse(connection, daemon.path, {"plug": "a"}, fds)
        until(lambda: pipes() == before, "what was refused is not kept")  # the daemon closes it after its answer
        os.close(reader)
        os.close(writer)
        with Namespace() as space, space.enter(), pytest.raises(SpecError, match="no such port"):
            Plug("x", path=daemon.path)
        assert rows(daemon) == {}


def test_the_edge_of_a_plugged_tap_follows_the_settings(tmp_path):
    """It had those of the moment when it was plugged, whatever was set later."""
    ports = [{"name": "a", "addresses": [HERE]}]
    content = {"switch": {"th_goal": "8KB", "th_over": "20KB"}, "port": ports}
    with running(tmp_path / "switch.sock", content) as daemon, Namespace() as space, space.enter():
        plug = Plug("a", path=daemon.path)
        edge = plug.device.edge

        def limits():
            with edge.stepping:
                edge.step()
            return edge.rates.goal, edge.rates.over

        with plug:
            assert limits() == (4000, 20_000)
            protocol.ask(daemon.path, {"set": {"th_goal": "6KB", "th_over": "30KB"}})
            assert limits() == (3000, 30_000)
            protocol.ask(daemon.path, {"undo": True})
            assert limits() == (4000, 20_000)


def test_a_port_of_the_specification_is_a_device(tmp_path):
    """A TAP in this process's namespace of its own: where the tests run, nothing is left behind."""
    with Namespace() as space, space.enter():
        spec = [{"name": "a", "addresses": [HERE], "kind": "tap", "device": "sw0"}, {"name": "b", "addresses": [THERE]}]
        with running(tmp_path / "switch.sock", {"port": spec}) as daemon, connect("b", daemon.path) as b:
            with space.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
                s.sendto(b"hello", (THERE, 9))
                ((_, frame),) = b.receive(1, timeout=120)
                assert payload_of(frame) == b"hello"
            edge = rows(daemon)["a"]["device"]["edge"]
            assert edge["looks"] > 0 == edge["failed"] == edge["socket_lost"]
            with pytest.raises(SpecError, match="is a device"):
                connect("a", daemon.path)
        for wrong in ({"device": "lo"}, {"netns": "none-such"}):
            with pytest.raises(SpecError):
                Daemon({"port": [{**spec[0], **wrong}]}, str(tmp_path / "other.sock")).serve()
            assert not (tmp_path / "other.sock").exists()


def test_a_recording_is_replayed_through_the_switch(tmp_path):
    from penstock_net.vswitch.attach.open import open_port

    with open_port("pcap", write=tmp_path / "in.pcapng", headers=False) as out:
        for i in range(50):
            assert out.send(udp(HERE, THERE, payload=b"%d" % i))
    spec = [
        {"name": "a", "addresses": [HERE], "kind": "pcap", "read": str(tmp_path / "in.pcapng"), "timing": "fast"},
        {"name": "b", "addresses": [THERE], "kind": "pcap", "write": str(tmp_path / "out.pcapng")},
    ]
    with running(tmp_path / "switch.sock", {"port": spec}) as daemon:
        until(lambda: rows(daemon)["b"]["device"]["frames_out"] >= 50)
    from penstock_net.vswitch.support.pcapfile import read_frames

    assert len(read_frames(tmp_path / "out.pcapng")) == 50


@pytest.mark.parametrize("scheme", ["bfc", "pfc"])
def test_programs_through_a_scheme_of_the_simulator(tmp_path, scheme):
    """TCP of the kernel's own through BFC's or PFC's queues: it arrives whole."""
    content = hashlib.shake_128(b"scheme").digest(4_000_000)
    with plugged(tmp_path, headers=False, scheme=scheme) as (left, right, daemon):
        sink = right.start("python3", "-c", SINK)
        assert sink.stdout.readline().strip() == "ready"
        with left.socket(socket.AF_INET, socket.SOCK_STREAM) as s:
            s.settimeout(60)
            s.connect((THERE, 9001))
            s.sendall(content)
        count, digest = sink.stdout.readline().split()
        assert int(count) == len(content) and digest == hashlib.sha256(content).hexdigest()
        assert not any(row["drops"] for row in rows(daemon).values())


def test_super_frames_and_a_scheme_do_not_go_together(tmp_path):
    with pytest.raises(SpecError, match="super_frames = false"), plugged(tmp_path, scheme="bfc"):
        pass


@pytest.mark.parametrize("kind", ["packet", "xdp"])
def test_an_interface_that_is_there(tmp_path, kind):
    """A program behind a veth pair, and a native application: addresses are asked for, answered and learned."""
    with Namespace("left") as left, Namespace("right") as right, veth(left, right, (f"{HERE}/24", "10.99.0.1/24")):
        if kind == "xdp":
            left.without_offloads("veth0")
        spec = [{"name": "a", "addresses": [HERE], "kind": kind, "device": "veth0"}, {"name": "b", "addresses": [THERE]}]
        with right.enter(), running(tmp_path / "switch.sock", {"port": spec}) as daemon, connect("b", daemon.path) as b:
            with left.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
                s.bind((HERE, 7000))
                s.settimeout(60)
                s.sendto(b"question", (THERE, 7001))
                ((_, frame),) = b.receive(1, timeout=120)
                assert payload_of(frame)[:8] == b"question"
                assert b.send(0, [with_checksum(udp(THERE, HERE, 7001, 7000, b"answer"))]) == 1
                assert s.recv(100) == b"answer"
            device = rows(daemon)["a"]["device"]
            assert device["kind"] == kind and device["answered"] >= 1 and not rows(daemon)["a"]["drops"]


def with_checksum(frame):
    """The same with the check sum of its IPv4 header."""
    reply = bytearray(frame)
    total = sum(int.from_bytes(reply[i : i + 2], "big") for i in range(14, 34, 2))
    reply[24:26] = (0xFFFF - (total & 0xFFFF) - (total >> 16)).to_bytes(2, "big")
    return bytes(reply)
