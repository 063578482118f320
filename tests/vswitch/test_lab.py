"""TAPs, existing interfaces and unmodified programs in two network namespaces; skipped where the machine forbids them."""

import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path

import pytest
from test_ports import SIZES, check_both_ways, random_frames

from penstock.errors import PenstockError, SpecError
from penstock.vswitch.attach import edge
from penstock.vswitch.attach.lab import DutyCycle, Namespace, veth
from penstock.vswitch.attach.open import capture, faults, open_port
from penstock.vswitch.daemon.doctor import doctor
from penstock.vswitch.ports.base import Bridge
from penstock.vswitch.support import pcapfile

PERMITTED = {ability.name: ability for ability in doctor()}
NEEDED = ("tap", "packet", "namespaces", "ip")
FORBIDDEN = [f"{PERMITTED[n].name}: {PERMITTED[n].detail}" for n in NEEDED if not PERMITTED[n].permitted]
pytestmark = pytest.mark.skipif(bool(FORBIDDEN), reason="; ".join(FORBIDDEN))

PONG = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("0.0.0.0", 9000))
print("ready", flush=True)
while True:
    data, sender = s.recvfrom(65536)
    s.sendto(data, sender)
"""


@pytest.fixture
def two():
    with Namespace("left") as left, Namespace("right") as right:
        yield left, right


def test_a_namespace_leaves_nothing_behind(two):
    before = os.readlink("/proc/thread-self/ns/net")
    left, _ = two
    fd = left.fd
    with pytest.raises(ZeroDivisionError), left.tap("10.77.0.1/24") as port, left.inside():
        assert os.readlink("/proc/thread-self/ns/net") != before
        raise ZeroDivisionError
    assert os.readlink("/proc/thread-self/ns/net") == before
    with pytest.raises(PenstockError, match="closed"):
        port.receive()
    assert "tap0" not in left.run("ip", "-o", "link"), "the TAP went with its port"
    program = left.start("sleep", "100")
    left.close()
    assert program.poll() is not None
    with pytest.raises(OSError):
        os.fstat(fd)
    with pytest.raises(PenstockError, match="not open"), left.inside():
        pass


@pytest.mark.parametrize("headers", [True, False])
def test_tap_and_packet_move_frames_of_all_sizes(two, headers):
    """What a packet socket sends into a TAP's interface comes out of the TAP, and the other way round."""
    left, _ = two
    with left.tap("10.77.0.1/24", headers=headers) as tap:
        with left.inside():
            packet = open_port("packet", device="tap0", headers=headers)
        with packet:
            left.run("ip", "link", "set", "tap0", "arp", "off")
            drain(tap, packet)
            check_same(packet, tap, random_frames(1, 400, SIZES, headers))
            check_same(tap, packet, random_frames(2, 400, SIZES, headers))
            for port in (tap, packet):
                assert port.counters["errors_in"] == port.counters["errors_out"] == port.counters["kernel_lost"] == 0


def drain(*ports):
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        for port in ports:
            port.receive()


def check_same(a, b, frames, most=5.0):
    """All frames arrive as they were; what the kernel itself has to say (IPv6) is passed over.  Short frames may be padded."""
    out, end, i = [], time.monotonic() + most, 0
    offset = 10 if b.headers else 0
    while len(out) < len(frames) and time.monotonic() < end:
        while i < len(frames) and i - len(out) < 64 and a.send(frames[i]):
            i += 1
        a.flush()
        while (frame := b.receive()) is not None:
            if frame[offset + 12 : offset + 14] == b"\x88\xb5":
                out.append(frame)
    assert len(out) == len(frames)
    for x, y in zip(out, frames):
        assert x[offset:][: len(y) - offset] == y[offset:] and len(x) == len(y)


@pytest.mark.parametrize("headers", [True, False])
def test_packet_ports_on_a_veth_pair(two, headers):
    left, right = two
    with veth(left, right):
        for side in two:
            side.run("ip", "link", "set", "veth0", "addrgenmode", "none")
        with left.inside():
            a = open_port("packet", device="veth0", headers=headers)
        with right.inside():
            b = open_port("packet", device="veth0", headers=headers)
        with a, b:
            drain(a, b)
            check_same(a, b, random_frames(3, 500, SIZES, headers))
            check_same(b, a, random_frames(4, 500, SIZES, headers))
            tagged = [
                f[: len(f) - len(g) + 12] + b"\x81\x00\x60\x07" + b"\x88\xb5" + bytes(60)
                for f in random_frames(5, 3, [60], headers)
                for g in [f[10:] if headers else f]
            ]
            for frame in tagged:
                assert a.send(frame)
            a.flush()
            offset = 10 if headers else 0  # the kernel speaks too, now and then
            got = [f for _ in range(50) if (f := b.receive()) is not None and f[offset + 12 : offset + 14] == b"\x81\x00"]
            assert [f[offset:] for f in got] == [f[offset:] for f in tagged], "the VLAN tag that the kernel takes out is back"
            assert a.counters["kernel_lost"] == b.counters["kernel_lost"] == a.counters["errors_out"] == 0


def test_a_packet_port_on_an_interface_that_is_down(two):
    left, _ = two
    left.run("ip", "link", "add", "veth8", "type", "veth", "peer", "name", "veth9")
    with left.inside(), pytest.raises(SpecError, match="ip link set veth8 up"):
        open_port("packet", device="veth8")


def test_a_tap_that_is_in_use(two):
    left, _ = two
    with left.tap("10.77.0.1/24"), left.inside(), pytest.raises(SpecError, match=r"in use|choose another name"):
        open_port("tap", name="tap0")


def test_a_shared_tap_has_a_queue_for_each_port(two):
    """All frames of a flow come by one port, and the flows are spread over the ports."""
    left, _ = two
    with left.inside():
        ports = [open_port("tap", name="tap0", shared=True, headers=False) for _ in range(4)]
        with pytest.raises(SpecError, match="shared"):
            open_port("tap", name="tap0")
    left.run("ip", "link", "set", "tap0", "up")
    left.run("ip", "address", "add", "10.77.0.1/24", "dev", "tap0")
    left.run("ip", "neighbour", "replace", "10.77.0.9", "dev", "tap0", "lladdr", "02:00:00:00:00:09")
    senders = [left.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(40)]
    for _ in range(10):
        for sock in senders:
            sock.sendto(bytes(100), ("10.77.0.9", 9000))
    found = []
    for port in ports:
        frames = [f for f in iter(port.receive, None) if f[12:14] == b"\x08\x00"]
        found.append([f[34:36] for f in frames])
        port.close()
    assert sum(map(len, found)) == 400 and sum(len(set(flows)) for flows in found) == 40 and sum(map(bool, found)) >= 2
    for sock in senders:
        sock.close()


def test_a_tap_refuses_what_is_no_frame_and_counts_it(two):
    left, _ = two
    with left.tap("10.77.0.1/24") as port:
        header = struct.pack("=BBHHHH", 1, 1, 54, 1448, 60_000, 60_000)  # check sum beyond the frame
        assert port.send(header + bytes(60)) and port.counters["errors_out"] == 1 and port.last_error == 22
        left.run("ip", "link", "set", "tap0", "down")
        assert port.send(bytes(70)) and port.counters["errors_out"] == 2 and port.last_error == 5
        assert port.counters["frames_out"] == 0


def ping(namespace, address, count, size=100):
    """Round-trip times in s of UDP datagrams, answered by PONG."""
    sock = namespace.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.settimeout(2)
    times = []
    with sock:
        for i in range(count):
            start = time.perf_counter()
            sock.sendto(i.to_bytes(size, "big"), (address, 9000))
            assert sock.recv(65536) == i.to_bytes(size, "big")
            times.append(time.perf_counter() - start)
    return sorted(times)


@pytest.mark.parametrize("headers", [True, False])
def test_two_namespaces_ping_through_two_taps(two, headers, tmp_path):
    left, right = two
    with left.tap("10.77.0.1/24", headers=headers) as a, right.tap("10.77.0.2/24", headers=headers) as b:
        with Bridge(capture(a, tmp_path / "seen.pcapng"), b) as bridge:
            pong = right.start(sys.executable, "-c", PONG)
            assert pong.stdout.readline() == "ready\n"
            assert ping(left, "10.77.0.2", 300)[150] < 0.1
            ping(left, "10.77.0.2", 3, 5000)  # fragments
        bridge.a.close()
        assert min(bridge.moved) >= 300 and a.counters["kernel_lost"] == b.counters["kernel_lost"] == 0
    checked = 0
    for _, frame in pcapfile.read_frames(tmp_path / "seen.pcapng"):
        if frame[12:14] == b"\x08\x00" and frame[23] == 17 and frame[20:22] in (b"\x40\x00", b"\x00\x00"):
            udp = frame[34 : 34 + struct.unpack_from("!H", frame, 38)[0]]
            data = frame[26:34] + struct.pack("!HH", 17, len(udp)) + udp
            data += bytes(len(data) % 2)
            total = sum(struct.unpack(f"!{len(data) // 2}H", data))
            while total >> 16:
                total = (total & 0xFFFF) + (total >> 16)
            assert total == 0xFFFF, "a recorded frame has its check sum, also if the kernel had left it open"
            checked += 1
    assert checked >= 600


def test_lost_frames_on_the_way_are_counted_and_nothing_else_is_lost(two):
    left, right = two
    with left.tap("10.77.0.1/24") as a, right.tap("10.77.0.2/24") as b:
        lossy = faults(b, drop=0.2, direction="out", seed=5)
        sock = right.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.bind(("10.77.0.2", 9000))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_000_000)
        sock.settimeout(0.5)
        out = left.socket(socket.AF_INET, socket.SOCK_DGRAM)
        left.run("ip", "neighbour", "replace", "10.77.0.2", "dev", "tap0", "lladdr", mac(right))
        with Bridge(a, lossy), sock, out:
            for i in range(500):
                out.sendto(i.to_bytes(4, "big"), ("10.77.0.2", 9000))
                time.sleep(0.0005)
            got = 0
            try:
                while sock.recv(100):
                    got += 1
            except TimeoutError:
                pass
        assert lossy.report()["out"]["dropped"] > 60 and 350 < got < 440
        assert 500 - got <= lossy.counters["lost"] <= 500 - got + 20  # beside it, the kernel's own frames


def test_an_idle_bridge_sleeps(two):
    left, right = two
    with left.tap("10.77.0.1/24") as a, right.tap("10.77.0.2/24") as b, Bridge(a, b):
        time.sleep(0.3)
        start = time.process_time()
        time.sleep(1)
        assert time.process_time() - start < 0.1


def mac(namespace, device="tap0"):
    return json.loads(namespace.run("ip", "-j", "link", "show", device))[0]["address"]


@pytest.mark.skipif(not shutil.which("iperf3"), reason="iperf3 is not installed")
def test_iperf3_through_two_taps(two):
    left, right = two
    with left.tap("10.77.0.1/24") as a, right.tap("10.77.0.2/24") as b, Bridge(a, b):
        server = right.start("iperf3", "-s", "-1", "--forceflush")
        while "listening" not in server.stdout.readline():
            pass
        end = json.loads(left.run("iperf3", "-c", "10.77.0.2", "-t", "2", "-J"))["end"]
        rate = end["sum_received"]["bits_per_second"]
        print(f"iperf3 over two TAPs: {rate / 1e9:.1f} Gbit/s")
        assert rate > 5e8
        mean = a.counters["bytes_in"] / a.counters["frames_in"]
        assert mean > 5000, "TCP sends super-frames"
        for port in (a, b):
            assert port.counters["kernel_lost"] == port.counters["errors_in"] == port.counters["errors_out"] == 0


def test_iperf3_through_an_overlay_of_udp(two):
    if not shutil.which("iperf3"):
        pytest.skip("iperf3 is not installed")
    left, right = two
    with (
        left.tap("10.77.0.1/24") as a,
        right.tap("10.77.0.2/24") as b,
        open_port("udp", local="127.0.0.1:47001", peer="127.0.0.1:47002", receive_buffer="64MB") as u,
        open_port("udp", local="127.0.0.1:47002", peer="127.0.0.1:47001", receive_buffer="64MB") as v,
        Bridge(a, u),
        Bridge(v, b),
    ):
        server = right.start("iperf3", "-s", "-1", "--forceflush")
        while "listening" not in server.stdout.readline():
            pass
        end = json.loads(left.run("iperf3", "-c", "10.77.0.2", "-t", "2", "-J"))["end"]
        print(f"iperf3 over TAP, UDP, TAP: {end['sum_received']['bits_per_second'] / 1e9:.1f} Gbit/s")
        assert end["sum_received"]["bits_per_second"] > 2e8
        assert u.counters["refused"] == v.counters["refused"] == u.counters["errors_out"] == 0


# ---- The kernel's edges ----


def sender(namespace, stop, sent, pause=0.0):
    sock = namespace.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 100_000)
    with sock:
        while not stop.is_set():
            sent[0] += sock.sendto(bytes(1000), ("10.77.0.9", 9000)) > 0
            if pause:
                time.sleep(pause)


def serve_slowly(port, seconds, frames_per_ms, feedback=None):
    """A switch with a slow receiver: it reads while its queue holds less than 1000 frames; with feedback, it steers the rate."""
    queue, taken, size = deque(), 0, 0
    before = now = time.monotonic()
    end, served = now + seconds, now
    while now < end:
        while len(queue) < 1000 and (frame := port.receive()) is not None:
            queue.append(frame)
        while queue and served < now:
            size += len(queue.popleft())
            taken += 1
            served += 0.001 / frames_per_ms
        if not queue:
            served = now
        if feedback and now > before + 0.05:
            feedback.follow(8 * size / (now - before), sum(map(len, queue)))
            size, before = 0, now
        time.sleep(0.001)
        now = time.monotonic()
    return taken


@pytest.mark.skipif(not PERMITTED["tbf"].permitted, reason="no tbf")
@pytest.mark.parametrize("library", ["pyroute2", "tc"])
def test_rate_feedback_makes_an_application_wait_instead_of_losing(two, library, monkeypatch):
    left, _ = two
    if library == "tc":
        monkeypatch.setitem(sys.modules, "pyroute2", None)
    else:
        pytest.importorskip("pyroute2")

    def run(feedback):
        stop, sent = threading.Event(), [0]
        lost = edge.device_losses("tap0", left)["tx_dropped"]
        thread = threading.Thread(target=sender, args=(left, stop, sent))
        thread.start()
        taken = serve_slowly(port, 1.0, 2, feedback)
        stop.set()
        end = time.monotonic() + 5
        while thread.is_alive() and time.monotonic() < end:
            port.receive()
        thread.join()
        return taken, sent[0], edge.device_losses("tap0", left)["tx_dropped"] - lost

    with left.tap("10.77.0.1/24", queue_frames=1000) as port:
        left.run("ip", "neighbour", "replace", "10.77.0.9", "dev", "tap0", "lladdr", "02:00:00:00:00:09")
        taken, sent, lost = run(None)
        assert lost > 2000 and sent > taken + lost - 1000, "without feedback the TAP's ring overflows"
        while port.receive():
            pass
        with edge.RateFeedback("tap0", left, rate="50Mbps", queue="1MB", goal="100KB") as feedback:
            assert "tbf" in left.run("tc", "qdisc", "show", "dev", "tap0")
            taken, sent, lost = run(feedback)
            assert lost == 0 and taken > 200 and sent < 5000 and feedback.changes >= 1
        assert "tbf" not in left.run("tc", "qdisc", "show", "dev", "tap0")


def test_the_rate_comes_to_what_the_receiver_takes(two):
    left, _ = two
    with left.tap("10.77.0.1/24"), edge.RateFeedback("tap0", left, rate="200Mbps", goal="100KB") as feedback:
        for _ in range(30):
            feedback.follow(30e6, 100_000)
        assert abs(feedback.rate - 30e6) < 1e6, "at its goal the queue stays"
        assert feedback.follow(30e6, 300_000) < 25e6 and feedback.follow(30e6, 0) > 35e6
        changes = feedback.changes
        feedback.follow(30e6, 0)
        assert feedback.changes == changes, "a change that is none is not made"
    with pytest.raises(SpecError, match="weight"):
        edge.RateFeedback("tap0", left, weight=0)
    with pytest.raises(SpecError, match="there is none here"), edge.RateFeedback("tap7", left):
        pass


def test_the_occupancy_probe_sees_a_slow_application(two):
    left, _ = two
    slow = left.socket(socket.AF_INET, socket.SOCK_DGRAM)
    fast = left.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with slow, fast:
        slow.bind(("127.0.0.1", 9001))
        probe = edge.OccupancyProbe(9001, high="20KB", low="4KB", place=left)
        assert not probe.look()
        sent = 0
        while not probe.look():
            fast.sendto(bytes(1000), ("127.0.0.1", 9001))
            sent += 1
            assert sent < 100
        assert sent > 5
        slow.recv(2000)
        assert probe.look(), "it waits until the socket is nearly empty"
        slow.setblocking(False)
        for _ in range(sent - 1):
            slow.recv(2000)
        assert not probe.look() and probe.lost == 0
        for _ in range(2000):
            fast.sendto(bytes(1000), ("127.0.0.1", 9001))
        assert probe.look() and probe.lost > 100
    with pytest.raises(SpecError, match="less than high"):
        edge.OccupancyProbe(9001, high=10, low=10)


def test_a_duty_cycle_slows_a_program_down_and_lets_it_go():
    program = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:

        def used():
            fields = Path(f"/proc/{program.pid}/stat").read_text().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

        time.sleep(0.2)
        start = used()
        with DutyCycle(program.pid, 0.005, 0.045):
            time.sleep(1)
        assert used() - start < 0.5
        time.sleep(0.05)
        assert Path(f"/proc/{program.pid}/stat").read_text().rpartition(")")[2].split()[0] in "RS", "it runs again"
    finally:
        program.kill()
        program.wait()


def test_what_the_doctor_says():
    for ability in doctor():
        assert ability.detail and ability.serves and isinstance(ability.permitted, bool)
    assert len(PERMITTED) == len(doctor()) == 19


def test_udp_pairs_are_checked_both_ways_in_a_namespace(two):
    left, right = two
    with veth(left, right, ("10.78.0.1/24", "10.78.0.2/24")):
        with left.inside():
            a = open_port("udp", local="10.78.0.1:7000", peer="10.78.0.2:7000", headers=False)
        with right.inside():
            b = open_port("udp", local="10.78.0.2:7000", peer="10.78.0.1:7000", headers=False)
        with a, b:
            check_both_ways(a, b, random_frames(6, 300, [*SIZES, 9000]))  # below and above the MTU of 1500
