"""Kernel ports: frames of all sizes pass unchanged, and frames that do not pass are counted."""

import contextlib
import multiprocessing
import os
import random
import shutil
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path

import pytest
from drawn import examples
from hypothesis import given
from hypothesis import strategies as st

from penstock_net.errors import PenstockError, SpecError
from penstock_net.vswitch.attach.open import capture, faults, open_link, open_port, trace
from penstock_net.vswitch.ports.base import Bridge, Clock
from penstock_net.vswitch.support import pcapfile

SIZES = [14, 15, 59, 60, 61, 128, 1000, 1513, 1514]


def random_frames(seed, count, sizes=SIZES, headers=False):
    """Frames that the kernel does not process: an experimental EtherType, and an empty header where there is one."""
    rng = random.Random(seed)
    start = bytes(10) if headers else b""
    return [
        start + rng.randbytes(12)[:12].replace(b"\xff", b"\x02") + b"\x88\xb5" + rng.randbytes(rng.choice(sizes) - 14)
        for _ in range(count)
    ]


def pass_through(a, b, frames, most=60.0, window=64, lost=lambda: 0):
    """What comes out of b when all of these go into a, and `lost()` of them do not arrive."""
    out, end, i = [], time.monotonic() + most, 0
    while len(out) + lost() < len(frames) and time.monotonic() < end:
        while i < len(frames) and i - len(out) < window and a.send(frames[i]):
            i += 1
        a.flush()
        while (frame := b.receive()) is not None:
            out.append(frame)
    return out


def check_both_ways(a, b, frames):
    assert pass_through(a, b, frames) == frames
    back = frames[::-1]
    assert pass_through(b, a, back) == back
    for port in (a, b):
        c = port.counters
        assert c["frames_in"] == c["frames_out"] == len(frames) and c["bytes_in"] == c["bytes_out"] == sum(map(len, frames))
        assert not any(c[k] for k in ("errors_in", "errors_out", "too_long", "refused", "lost")) and not c.get("kernel_lost")


# ---- UDP ----


def udp_pair(**options):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as x, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as y:
        x.bind(("127.0.0.1", 0))
        y.bind(("127.0.0.1", 0))
        one, two = (f"127.0.0.1:{s.getsockname()[1]}" for s in (x, y))
    return open_port("udp", local=one, peer=two, **options), open_port("udp", local=two, peer=one, **options)


@pytest.mark.parametrize("options", [{}, {"headers": False}, {"batch": 1}, {"segments": False}])
def test_udp_moves_frames_of_all_sizes(options):
    a, b = udp_pair(**options)
    with a, b:
        headers = options.get("headers", True)
        mixed = random_frames(1, 300, [*SIZES, 9000, 65_000], headers)
        runs = random_frames(2, 300, [1514], headers) + random_frames(3, 7, [800], headers) + random_frames(4, 64, [60], headers)
        check_both_ways(a, b, mixed + runs)


def test_udp_sends_runs_of_equal_frames_as_one_message():
    a, b = udp_pair(headers=False)
    with a, b:
        frames = random_frames(1, 31, [1000]) + random_frames(1, 1, [300])
        assert all(a.send(f) for f in frames)  # the batch is full
        with socket.socket(fileno=os.dup(b.fd)) as raw:
            data, ancillary, _, _ = raw.recvmsg(1 << 16, 64, socket.MSG_PEEK)
        assert data == b"".join(frames), "one message on the receiving side, too"
        assert [(level, kind, struct.unpack("i", value)[0]) for level, kind, value in ancillary] == [(17, 104, 1000)]
        assert pass_through(a, b, []) == [] and [b.receive() for _ in frames] == frames


def test_udp_keeps_a_batch_until_it_is_flushed_or_receives():
    a, b = udp_pair(headers=False)
    with a, b:
        (frame,) = random_frames(1, 1)
        assert a.send(frame) and b.receive() is None and a.counters["frames_out"] == 0
        assert a.flush() and b.receive() == frame and a.counters["frames_out"] == 1
        assert a.send(frame) and a.receive() is None and b.receive() == frame, "receiving sends what waits"


def test_udp_accepts_only_frames_and_only_from_its_peer():
    a, b = udp_pair(headers=False)
    with a, b, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        address = ("127.0.0.1", int(b.name.split("-")[0].rpartition(":")[2]))
        (frame,) = random_frames(1, 1)
        for data in (frame, b"", b"x" * 20):
            stranger.sendto(data, address)
        assert b.receive() is None and b.counters["refused"] == 3
        with socket.socket(fileno=os.dup(a.fd)) as raw:
            for data in (b"", b"short", b"x" * 13, frame):
                raw.sendto(data, address)
        assert b.receive() == frame and b.receive() is None
        assert b.counters["refused"] == 6 and b.counters["frames_in"] == 1


def test_udp_counts_what_is_too_long_and_what_the_kernel_dropped():
    a, b = udp_pair(headers=False, receive_buffer=20_000, segments=False)
    with a, b:
        assert a.send(bytes(65_508)) and a.counters["too_long"] == 1
        frames = random_frames(1, 500, [1000])
        assert pass_through(a, b, [], 0) == [] and all(a.send(f) for f in frames) and a.flush()
        arrived = 0
        while b.receive():
            arrived += 1
        assert arrived < 500 and b.counters["kernel_lost"] == 500 - arrived


def test_udp_over_ipv6():
    if not socket.has_ipv6 or not os.path.exists("/proc/net/if_inet6"):
        pytest.skip("no IPv6 here")
    one, two = "[::1]:47311", "[::1]:47312"
    with open_port("udp", local=one, peer=two) as a, open_port("udp", local=two, peer=one) as b:
        check_both_ways(a, b, random_frames(1, 200, SIZES, True))


def echo(local, peer, count, ready):
    with open_port("udp", local=local, peer=peer, headers=False) as port:
        ready.set()
        end = time.monotonic() + 120
        while count and time.monotonic() < end:
            frame = port.receive()
            if frame is None:
                time.sleep(0.0005)
            else:
                while not port.send(frame[::-1]):
                    pass
                count -= 1


def test_udp_between_two_processes():
    a, b = udp_pair(headers=False)
    local, peer = b.name.split("-")
    b.close()
    spawn = multiprocessing.get_context("spawn")
    ready = spawn.Event()
    process = spawn.Process(target=echo, args=(local, peer, 2000, ready), daemon=True)
    process.start()
    try:
        with a:
            assert ready.wait(120)
            frames = random_frames(5, 2000, [*SIZES, 9000])
            assert [f[::-1] for f in pass_through(a, a, frames)] == frames
        process.join(60)
        assert process.exitcode == 0
    finally:
        process.kill()
        process.join()


# ---- Links ----


def test_a_link_has_rate_delay_and_burst_to_the_nanosecond():
    clock = Clock()
    a, b = open_link(rate="1Gbps", delay="5us", headers=False, clock=clock)
    frame = bytes(1000)
    for at in (8_000, 16_000):  # one after the other: 8 us each
        assert a.send(frame)
        clock.ns = 0
        assert b.receive() is None, at
    for at in (13_000, 21_000):
        clock.ns = at - 1
        assert b.receive() is None
        clock.ns = at
        assert b.receive() == frame
    a, b = open_link(rate="1Gbps", delay="5us", burst=2000, headers=False, clock=clock)
    clock.ns = 0
    assert all(a.send(frame) for _ in range(3))
    clock.ns = 5000
    assert b.receive() and b.receive() and not b.receive(), "a burst of 2000 B passes at once"
    clock.ns = 13_000
    assert b.receive()


def test_a_link_moves_frames_of_all_sizes_and_loses_none_for_want_of_room():
    clock = Clock()
    a, b = open_link(rate="100Gbps", delay=0, headers=False, clock=clock, memory="256KiB")
    rng = random.Random(4)
    frames = random_frames(6, 3000, [*SIZES, 9000, 65_000])
    out, i = [], 0
    while len(out) < len(frames):
        while i < len(frames) and a.send(frames[i]):
            i += 1
        clock.ns += 50_000
        for _ in range(rng.randrange(1, 40)):
            if (frame := b.receive()) is not None:
                out.append(frame)
    assert out == frames and a.counters["no_room"] > 100 and a.counters["lost"] == 0 and b.receive() is None


def test_a_link_between_two_threads():
    a, b = open_link(rate="1Tbps", delay=0, headers=False, memory="256KiB")
    frames = random_frames(7, 20_000)

    def sender():
        for frame in frames:
            while not a.send(frame):
                time.sleep(0)

    thread = threading.Thread(target=sender)
    thread.start()
    end = time.monotonic() + 120
    out = []
    while len(out) < len(frames) and time.monotonic() < end:
        if (frame := b.receive()) is not None:
            out.append(frame)
    thread.join()
    assert out == frames


def lost_numbers(seed, loss):
    clock = Clock()
    a, b = open_link(rate="100Gbps", delay=0, loss=loss, seed=seed, headers=False, clock=clock)
    assert all(a.send(i.to_bytes(14, "big")) for i in range(10_000))
    clock.ns = 10**9
    there = set()
    while (frame := b.receive()) is not None:
        there.add(int.from_bytes(frame, "big"))
    assert a.counters["lost"] == 10_000 - len(there)
    return set(range(10_000)) - there


def test_loss_is_as_asked_for_and_the_same_every_time():
    lost = lost_numbers(1, 0.1)
    assert 850 < len(lost) < 1150 and lost == lost_numbers(1, 0.1) and lost != lost_numbers(2, 0.1)
    assert not lost_numbers(1, 0.0) and len(lost_numbers(1, 1.0)) == 10_000


# ---- Recordings ----


@pytest.mark.parametrize("suffix", ["pcap", "pcapng"])
@pytest.mark.parametrize("headers", [True, False])
def test_what_is_recorded_is_replayed_with_its_times(tmp_path, suffix, headers):
    path, clock = tmp_path / f"x.{suffix}", Clock(5_000_000_000)
    frames = random_frames(8, 2000, [*SIZES, 65_000], headers)  # more than one page
    with open_port("pcap", write=path, headers=headers, clock=clock) as port:
        for frame in frames:
            assert port.send(frame)
            clock.ns += 1001
    assert [t for t, _ in pcapfile.read_frames(path)] == [5_000_000_000 + 1001 * i for i in range(2000)]
    clock.ns = 0
    with open_port("pcap", read=path, headers=headers, clock=clock) as port:
        for i, frame in enumerate(frames):
            clock.ns = 1001 * i - 1 if i else 0
            assert i == 0 or port.receive() is None
            clock.ns = 1001 * i
            assert port.receive() == frame
        assert port.ended and port.receive() is None
    with open_port("pcap", read=path, headers=headers, clock=clock, timing="2us", rounds=2) as port:
        out = []
        for i in range(4000):
            out.append(port.receive())
            assert port.receive() is None, i
            clock.ns += 2000
        assert out == frames * 2
    if shutil.which("tcpdump"):
        said = subprocess.run(["tcpdump", "-n", "-r", path], capture_output=True, text=True)
        assert len([line for line in said.stdout.splitlines() if "ethertype" in line]) == 2000, said.stderr


def recording(suffix, tmp_path):
    path = tmp_path / f"small.{suffix}"
    with open_port("pcap", write=path, headers=False) as port:
        for frame in random_frames(9, 5, [14, 60, 77]):
            port.send(frame)
    return path.read_bytes()


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    return [recording(suffix, tmp_path_factory.mktemp("small")) for suffix in ("pcap", "pcapng")]


@examples(400)
@given(data=st.data())
def test_a_malformed_recording_is_an_error_and_never_a_crash(recordings, data):
    text = bytearray(data.draw(st.sampled_from(recordings)))
    for _ in range(data.draw(st.integers(0, 4))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    text = bytes(text[: data.draw(st.integers(0, len(text)))]) + data.draw(st.binary(max_size=20))
    try:
        frames = list(pcapfile.parse_frames(text))
        pcapfile.as_records(frames)
    except SpecError as e:
        assert "recording" in str(e) or "frame" in str(e)
    else:
        assert all(14 <= len(frame) <= pcapfile.LONGEST for _, frame in frames)


@examples(200)
@given(st.sampled_from([b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\x3c\x4d", b"\x0a\x0d\x0d\x0a"]), st.binary(max_size=200))
def test_random_data_after_a_valid_header(magic, rest):
    with contextlib.suppress(SpecError):
        assert all(len(frame) >= 14 for _, frame in pcapfile.parse_frames(magic + rest))


def test_files_of_others_are_read(tmp_path):
    """Big-endian, microseconds; and a pcapng with a simple packet block."""
    frame = bytes(range(60))
    big = struct.pack(">IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1) + struct.pack(">IIII", 7, 5, 60, 60) + frame
    assert list(pcapfile.parse_frames(big)) == [(7_000_005_000, frame)]
    simple = pcapfile.PCAPNG_BEGINNING + struct.pack("<III", 3, 76, 60) + frame + struct.pack("<I", 76)
    assert list(pcapfile.parse_frames(simple)) == [(0, frame)]
    with pytest.raises(SpecError, match="captured; record whole frames"):
        list(pcapfile.parse_frames(big[:32] + struct.pack(">II", 60, 1500) + frame))


def test_a_full_disk_is_counted(tmp_path):
    path = tmp_path / "full.pcap"
    path.symlink_to("/dev/full")
    with open_port("pcap", write=path, headers=False) as port:
        port.send(bytes(60))
        assert not port.flush() and port.counters["errors_out"] == 1 and port.last_error == 28


# ---- Wrappers ----


def test_capture_writes_both_directions(tmp_path):
    a, b = open_link(rate="1Tbps", delay=0, headers=False)
    port = capture(a, tmp_path / "seen.pcapng")
    frames = random_frames(10, 40)
    check_both_ways(port, b, frames)
    port.close()
    assert [f for _, f in pcapfile.read_frames(tmp_path / "seen.pcapng")] == frames + frames[::-1]
    text = (tmp_path / "seen.pcapng").read_bytes()
    assert text.count(struct.pack("<HHI", 2, 4, 1)) == text.count(struct.pack("<HHI", 2, 4, 2)) == 40
    with pytest.raises(PenstockError, match="closed"):
        a.receive()


def test_faults_do_what_was_asked_for_in_the_direction_asked_for():
    a, b = open_link(rate="1Tbps", delay=0, headers=False, memory="64MiB")
    port = faults(a, drop=0.1, direction="out", seed=3)
    frames = [i.to_bytes(14, "big") for i in range(5000)]
    out = pass_through(port, b, frames, 60, 10**6, lost=lambda: port.report()["out"]["dropped"])
    done = port.report()
    assert 400 < done["out"]["dropped"] < 600 and len(out) == 5000 - done["out"]["dropped"] and not any(done["in"].values())
    assert port.counters["lost"] == done["out"]["dropped"] and set(out) < set(frames)
    assert pass_through(b, port, frames, 60, 10**6) == frames


@pytest.mark.parametrize("direction", ["in", "out"])
def test_each_fault_is_what_it_says(direction):
    frames = [i.to_bytes(20, "big") for i in range(3000)]

    def send(**fault):
        a, b = open_link(rate="1Tbps", delay=0, headers=False, memory="64MiB")
        port = faults(a, direction=direction, **fault)
        ends = (b, port) if direction == "in" else (port, b)
        out = pass_through(*ends, frames, 60, 10**6)
        while (frame := ends[1].receive()) is not None:
            out.append(frame)
        return out, port.report()[direction]

    out, done = send(duplicate=0.1)
    assert len(out) == 3000 + done["duplicated"] > 3200 and sorted(set(out)) == frames
    out, done = send(corrupt=0.1)
    wrong = [(x, y) for x, y in zip(out, frames) if x != y]
    assert len(wrong) == done["corrupted"] > 200 and len(out) == 3000
    assert all(sum((p ^ q).bit_count() for p, q in zip(x, y)) == 1 for x, y in wrong)
    out, done = send(reorder=0.1)
    assert sorted(out) == frames and out != frames and done["reordered"] > 200
    assert all(abs(int.from_bytes(f, "big") - i) <= 2 for i, f in enumerate(out)), "a frame changes its place with the next"
    if direction == "out":
        out, done = send(no_room=0.5)
        assert out == frames and done["put_off"] > 1000, "what has no room is sent again by the caller: nothing is lost"


def test_faults_lose_nothing_but_what_they_say_when_the_port_inside_is_full():
    clock = Clock()
    a, b = open_link(rate="1Tbps", delay=0, headers=False, memory="256KiB", clock=clock)
    port = faults(a, duplicate=0.2, reorder=0.2, direction="out")
    frames = [i.to_bytes(1000, "big") for i in range(3000)]
    out, i = [], 0
    while i < len(frames):
        if port.send(frames[i]):
            i += 1
        else:
            clock.ns += 10**9
            out += iter(b.receive, None)
    clock.ns += 10**9
    out += iter(b.receive, None)
    port.flush()
    clock.ns += 10**9
    out += iter(b.receive, None)
    assert sorted(set(out)) == frames and len(out) == 3000 + port.report()["out"]["duplicated"] and a.counters["no_room"] > 5


def test_trace_remembers_the_last_frames():
    clock = Clock()
    a, b = open_link(rate="1Tbps", delay=0, headers=False, clock=clock)
    port = trace(a, last=3)
    for i in range(5):
        clock.ns = 100 * i
        port.send(bytes([i]) * (20 + i))
    b.send(bytes(30))
    clock.ns = 1000
    assert port.receive() == bytes(30)
    passed = port.report()
    assert [p[:3] for p in passed] == [(300, "out", 23), (400, "out", 24), (1000, "in", 30)] and len({p[3] for p in passed}) == 3


# ---- What is refused ----


@pytest.mark.parametrize(
    ("kind", "options", "says"),
    [
        ("tpa", {}, 'did you mean "tap"'),
        ("tap", {"name": "a name"}, "1 to 15 characters"),
        ("tap", {}, "tap.name: is missing"),
        ("tap", {"name": "lo"}, "lo"),
        ("tap", {"nam": "x"}, 'did you mean "name"'),
        ("packet", {"device": "nowhere"}, "no such interface"),
        ("packet", {"device": "lo", "batch": 0}, "between 1 and 64"),
        ("udp", {"local": "127.0.0.1", "peer": "127.0.0.1:1"}, "udp.local"),
        ("udp", {"local": "127.0.0.1:0", "peer": "127.0.0.1:0"}, "udp.peer"),
        ("udp", {"local": "127.0.0.1:0", "peer": "0.0.0.0:5"}, "one machine"),
        ("udp", {"local": "127.0.0.1:0", "peer": "[::1]:5"}, "IPv6"),
        ("udp", {"local": "203.0.113.7:7000", "peer": "127.0.0.1:5"}, "not an address of this machine"),
        ("pcap", {}, "read"),
        ("pcap", {"read": "/nowhere.pcap"}, "No such file"),
        ("pcap", {"write": "x.txt"}, ".pcapng"),
        ("pcap", {"write": "/nowhere/x.pcap"}, "No such file"),
        ("pcap", {"read": 3}, "pcap.read = 3: must be the path of a file"),
    ],
)
def test_mistakes_are_named(kind, options, says):
    with pytest.raises(SpecError) as e:
        open_port(kind, **options)
    assert says in str(e.value)


@pytest.mark.parametrize("as_path", [str, Path])
def test_a_recording_without_frames(tmp_path, as_path):
    open_port("pcap", write=tmp_path / "empty.pcapng").close()
    with pytest.raises(SpecError) as e:
        open_port("pcap", read=as_path(tmp_path / "empty.pcapng"))
    assert str(e.value) == f"{tmp_path}/empty.pcapng: there are no frames in it"


def test_more_mistakes():
    for options in ({"loss": 2}, {"rate": "9Tbps"}, {"memory": "1KB"}, {"delay": "-1us"}):
        with pytest.raises(SpecError, match=f"link.{next(iter(options))}"):
            open_link(**options)
    a, b = open_link()
    with pytest.raises(SpecError, match="at least 24 B"):
        a.send(bytes(23))
    with pytest.raises(SpecError, match="at least 24 B"):
        a.flood(bytes(9), 3)
    with pytest.raises(SpecError, match="direction"):
        faults(a, direction="up")
    plain, _ = open_link(headers=False)
    with pytest.raises(SpecError, match="both with headers or both without"):
        Bridge(a, plain)
    b.close()
    with pytest.raises(PenstockError, match="closed"):
        b.send(bytes(60))
    b.close()


def test_a_bridge_between_links_keeps_the_order_and_loses_nothing():
    a, left = open_link(rate="10Gbps", delay="10us", headers=False, memory="256KiB")
    right, b = open_link(rate="2Gbps", delay="10us", headers=False, memory="256KiB")
    frames = random_frames(11, 2000)
    with Bridge(left, right) as bridge:
        assert pass_through(a, b, frames, 60, 10**6) == frames
        assert pass_through(b, a, frames, 60, 10**6) == frames
    assert bridge.moved == (2000, 2000)


def test_many_at_once_stop_where_there_is_no_room():
    clock = Clock()
    a, b = open_link(rate="1Tbps", delay=0, headers=False, memory="256KiB", clock=clock)
    taken = a.flood(bytes(1008), 1000)
    assert taken == a.counters["frames_out"] == (1 << 18) // 1024 and a.counters["no_room"] == 1
    clock.ns = 10**9
    assert b.swallow(100) == 100 and b.swallow(1000) == taken - 100 and b.swallow(5) == 0
