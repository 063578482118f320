"""TAPs, existing interfaces and unmodified programs in two network namespaces; skipped where the machine forbids them."""

import contextlib
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
from daemons import ended
from test_ports import SIZES, check_both_ways, random_frames
from waiting import Stopwatch, until

from penstock_net.errors import PenstockError, SpecError
from penstock_net.vswitch.attach.lab import DutyCycle, Namespace, veth
from penstock_net.vswitch.attach.open import capture, faults, open_port
from penstock_net.vswitch.daemon.doctor import doctor
from penstock_net.vswitch.ports.base import Bridge
from penstock_net.vswitch.support import pcapfile

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
    with pytest.raises(ZeroDivisionError), left.tap("10.77.0.1/24") as port, left.enter():
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
    with pytest.raises(PenstockError, match="not open"), left.enter():
        pass


@pytest.mark.parametrize("headers", [True, False])
def test_tap_and_packet_move_frames_of_all_sizes(two, headers):
    """What a packet socket sends into a TAP's interface comes out of the TAP, and the other way round."""
    left, _ = two
    with left.tap("10.77.0.1/24", headers=headers) as tap:
        with left.enter():
            packet = open_port("packet", device="tap0", headers=headers)
        with packet:
            left.run("ip", "link", "set", "tap0", "arp", "off")
            drain(tap, packet)
            check_same(packet, tap, random_frames(1, 400, SIZES, headers))
            check_same(tap, packet, random_frames(2, 400, SIZES, headers))
            for port in (tap, packet):
                assert port.counters["errors_in"] == port.counters["errors_out"] == port.counters["kernel_lost"] == 0


def drain(*ports):
    """Take out what the kernel has said by itself."""
    for port in ports:
        while port.receive() is not None:
            pass


def check_same(a, b, frames, most=60.0):
    """All frames arrive unchanged; frames of the kernel itself (IPv6) are ignored.  Short frames may be padded."""
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
        with left.enter():
            a = open_port("packet", device="veth0", headers=headers)
        with right.enter():
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
            got = []

            def all_came():
                while (f := b.receive()) is not None:
                    got.extend([f] if f[offset + 12 : offset + 14] == b"\x81\x00" else [])
                return len(got) >= len(tagged)

            until(all_came)
            assert [f[offset:] for f in got] == [f[offset:] for f in tagged], "the VLAN tag that the kernel takes out is back"
            assert a.counters["kernel_lost"] == b.counters["kernel_lost"] == a.counters["errors_out"] == 0


def test_a_packet_port_on_an_interface_that_is_down(two):
    left, _ = two
    left.run("ip", "link", "add", "veth8", "type", "veth", "peer", "name", "veth9")
    with left.enter(), pytest.raises(SpecError, match="ip link set veth8 up"):
        open_port("packet", device="veth8")


def test_a_tap_that_is_in_use(two):
    left, _ = two
    with left.tap("10.77.0.1/24"), left.enter(), pytest.raises(SpecError, match=r"in use|choose another name"):
        open_port("tap", name="tap0")


def test_a_shared_tap_has_a_queue_for_each_port(two):
    """All frames of a flow come by one port, and the flows are spread over the ports."""
    left, _ = two
    with left.enter():
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
        assert not port.send(bytes(70)) and port.counters["errors_out"] == 1, "it may be up again in a moment"
        while not port.send(bytes(70)):
            pass
        assert port.counters["errors_out"] == 2 and port.last_error == 5
        assert port.counters["frames_out"] == 0


def ping(namespace, address, count, pong, size=100):
    """Round-trip times in s of UDP datagrams, answered by PONG, without waits for a processor."""
    sock = namespace.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.settimeout(60)
    times = []
    with sock:
        for i in range(count):
            watch = Stopwatch(pong.pid)
            sock.sendto(i.to_bytes(size, "big"), (address, 9000))
            assert sock.recv(65536) == i.to_bytes(size, "big")
            times.append(watch.elapsed())
    return sorted(times)


@pytest.mark.parametrize("headers", [True, False])
def test_two_namespaces_ping_through_two_taps(two, headers, tmp_path):
    left, right = two
    with left.tap("10.77.0.1/24", headers=headers) as a, right.tap("10.77.0.2/24", headers=headers) as b:
        with Bridge(capture(a, tmp_path / "seen.pcapng"), b) as bridge:
            pong = right.start(sys.executable, "-c", PONG)
            assert pong.stdout.readline() == "ready\n"
            assert ping(left, "10.77.0.2", 300, pong)[150] < 0.1
            ping(left, "10.77.0.2", 3, pong, 5000)  # fragments
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
        sock.settimeout(0.01)
        out = left.socket(socket.AF_INET, socket.SOCK_DGRAM)
        left.run("ip", "neighbour", "replace", "10.77.0.2", "dev", "tap0", "lladdr", mac(right))
        with Bridge(a, lossy), sock, out:
            for i in range(500):
                out.sendto(i.to_bytes(4, "big"), ("10.77.0.2", 9000))
                time.sleep(0.0005)
            got, end = 0, time.monotonic() + 120
            while got + lossy.report()["out"]["dropped"] < 500:
                assert time.monotonic() < end, "a frame is neither dropped nor delivered"
                with contextlib.suppress(TimeoutError):
                    got += bool(sock.recv(100))
        assert lossy.report()["out"]["dropped"] > 60 and 350 < got < 440
        assert 500 - got <= lossy.counters["lost"] <= 500 - got + 20  # beside it, the kernel's own frames


def test_an_idle_bridge_sleeps(two):
    left, right = two
    with left.tap("10.77.0.1/24") as a, right.tap("10.77.0.2/24") as b, Bridge(a, b):
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
        end = json.loads(left.run("iperf3", "-c", "10.77.0.2", "-n", "50M", "-J", timeout=120))["end"]
        rate = end["sum_received"]["bits_per_second"]
        print(f"iperf3 over two TAPs: {rate / 1e9:.1f} Gbit/s")
        assert end["sum_received"]["bytes"] >= 40_000_000
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
        end = json.loads(left.run("iperf3", "-c", "10.77.0.2", "-n", "50M", "-J", timeout=120))["end"]
        print(f"iperf3 over TAP, UDP, TAP: {end['sum_received']['bits_per_second'] / 1e9:.1f} Gbit/s")
        assert end["sum_received"]["bytes"] >= 40_000_000
        assert u.counters["refused"] == v.counters["refused"] == u.counters["errors_out"] == 0


def test_a_duty_cycle_slows_a_program_down_and_lets_it_go():
    """A tenth of the time: half of it at most, and what the cycle itself waits for a processor, before it stops the program."""

    def state():
        return Path(f"/proc/{program.pid}/stat").read_text().rpartition(")")[2].split()

    def used():
        return (int(state()[11]) + int(state()[12])) / os.sysconf("SC_CLK_TCK")

    with ended(subprocess.Popen([sys.executable, "-c", "while True: pass"])) as program:
        until(lambda: used() > 0.1)
        start, watch = used(), Stopwatch()
        with DutyCycle(program.pid, 0.005, 0.045):
            time.sleep(1)
        assert used() - start < 0.5 * (time.monotonic() - watch.start) + watch.waited()
        until(lambda: state()[0] in "RS", "it runs again")


def test_what_the_doctor_says():
    for ability in doctor():
        assert ability.detail and ability.serves and isinstance(ability.permitted, bool)
    assert len(PERMITTED) == len(doctor()) == 18


def test_udp_pairs_are_checked_both_ways_in_a_namespace(two):
    left, right = two
    with veth(left, right, ("10.78.0.1/24", "10.78.0.2/24")):
        with left.enter():
            a = open_port("udp", local="10.78.0.1:7000", peer="10.78.0.2:7000", headers=False)
        with right.enter():
            b = open_port("udp", local="10.78.0.2:7000", peer="10.78.0.1:7000", headers=False)
        with a, b:
            check_both_ways(a, b, random_frames(6, 300, [*SIZES, 9000]))  # below and above the MTU of 1500
