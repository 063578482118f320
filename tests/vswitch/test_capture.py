"""Captures: frames that pass a port in both directions, with queues; drops with reasons; and frames that the capture missed."""

import resource
import shutil
import struct
import subprocess
import sys
import threading
import time

import pytest
from daemons import running
from frames import payload_of, udp
from waiting import until

from penstock_net.cli import main
from penstock_net.errors import PenstockError, SpecError
from penstock_net.vswitch.client.capture import Output, Ring, beginning, capture, line, read_capture
from penstock_net.vswitch.client.client import connect
from penstock_net.vswitch.daemon import protocol
from penstock_net.vswitch.dataplane.mirror import Capture
from penstock_net.vswitch.dataplane.switch import REASON_NAMES, Switch
from penstock_net.vswitch.memory.region import Region
from penstock_net.vswitch.support import pcapfile

A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"
NAMES = {"a": A, "b": B, "c": C}


@pytest.fixture
def switch(tmp_path):
    path = str(tmp_path / "s.sock")
    with running(path, {"port": [{"name": n, "addresses": [a]} for n, a in NAMES.items()]}):
        yield path


def capturing_in_background(path, file, **options):
    """Start a capture; call the returned function to end it and get its result."""
    over, said = threading.Event(), {}
    thread = threading.Thread(target=lambda: said.update(capture(file=file, path=path, over=over, **options)))
    before = len(protocol.ask(path, {"show": "captures"})["captures"])
    thread.start()
    while len(protocol.ask(path, {"show": "captures"})["captures"]) == before:
        time.sleep(0.002)

    def end():
        over.set()
        thread.join(60)
        return said

    return end


def exchange(path, frames, queue=0):
    with connect("a", path) as a, connect("b", path) as b:
        assert a.send_all(queue, frames, timeout=120) == len(frames)
        got, end = [], time.monotonic() + 120
        while len(got) < len(frames) and time.monotonic() < end:
            got += b.receive(64, timeout=0.2)
        return got


def test_numbers_of_a_request_are_whole(switch):
    """JSON does not tell 262144.0 from 262144."""
    assert protocol.ask(switch, {"capture": [], "snap": 100.0, "memory": 262144.0})["ports"] == list(NAMES)
    for wish in ({"snap": 100.5}, {"snap": 13}, {"memory": 1000}, {"memory": "1MB"}):
        with pytest.raises(SpecError, match=f"capture.{next(iter(wish))} = "):
            protocol.ask(switch, {"capture": [], **wish})


def test_both_ends_of_what_passes(switch, tmp_path):
    """Bytes, directions, queues, times: as sent and as received, of frames shorter and longer than the copied header."""
    frames = [udp(A, B, 1000 + i % 3, payload=bytes([i]) * (7 * i)) for i in range(100)]
    end = capturing_in_background(switch, tmp_path / "x.pcapng")
    start = time.time_ns()
    got = exchange(switch, frames, queue=5)
    assert end() == {"ports": ["a", "b", "c"], "frames": 200, "missed": 0}
    seen = list(read_capture((tmp_path / "x.pcapng").read_bytes()))
    into, out = ([s for s in seen if s.direction == d] for d in ("in", "out"))
    assert [s.frame for s in into] == frames and {(s.interface, s.queue) for s in into} == {("a", 5)}
    by_queue = {q: [f for k, f in got if k == q] for q in {k for k, _ in got}}
    assert {q: [s.frame for s in out if s.queue == q] for q in by_queue} == by_queue and {s.interface for s in out} == {"b"}
    assert all(start <= s.ns <= time.time_ns() and s.comment == "" and s.missed == 0 for s in seen)
    assert [frame for _, frame in pcapfile.read_frames(tmp_path / "x.pcapng")] == [s.frame for s in seen]
    assert protocol.ask(switch, {"show": "captures"})["captures"] == []


@pytest.mark.skipif(not shutil.which("tcpdump"), reason="no tcpdump")
def test_others_can_read_it(switch, tmp_path):
    end = capturing_in_background(switch, tmp_path / "x.pcapng", ports=["b"], snap=60)
    exchange(switch, [udp(A, B, 7, 9, payload=bytes(300))] * 5)
    assert end()["frames"] == 5
    done = subprocess.run(["tcpdump", "-nr", str(tmp_path / "x.pcapng")], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.count(f"IP {A}.7 > {B}.9: UDP, length 300") == 5, done.stdout + done.stderr


def test_drops_have_their_reasons(switch, tmp_path, capsys):
    end = capturing_in_background(switch, tmp_path / "x.pcapng", drops=True)
    with connect("a", switch) as a, connect("b", switch):
        a.send(2, [udp(A, B), udp(A, "10.9.9.9"), b"x", udp(C, B), udp(A, B)])
        while sum(protocol.ask(switch, {"show": "ports"})["ports"][0]["drops"].values()) < 3:
            time.sleep(0.002)
    end()
    seen = list(read_capture((tmp_path / "x.pcapng").read_bytes()))
    assert [(s.interface, s.direction, s.queue, s.comment, s.frame) for s in seen] == [
        ("a", "in", 2, "dropped: no_route", udp(A, "10.9.9.9")),
        ("a", "in", 2, "dropped: malformed", b"x"),
        ("a", "in", 2, "dropped: spoofed", udp(C, B)),
    ]
    assert "a in  queue 2  10.0.0.3:1000 > 10.0.0.2:2000 UDP" in line(seen[2])
    assert "dropped: malformed" in line(seen[1])


def test_drops_at_the_port_that_they_were_meant_for(switch, tmp_path):
    """A capture at a slow receiver in mode lossy has the frames that it does not get."""
    protocol.ask(switch, {"set": {"mode": "lossy", "th_goal": "1KB", "th_over": "2KB", "th_net": "3KB"}})
    end = capturing_in_background(switch, tmp_path / "x.pcapng", ports=["b"], drops=True)
    with connect("a", switch) as a, connect("b", switch):
        a.send_all(0, [udp(A, B, payload=b"%04d" % i + bytes(996)) for i in range(20)])
        while a.waiting(0):
            time.sleep(0.002)
        dropped = protocol.ask(switch, {"show": "ports"})["ports"][0]["drops"]["full"]
        assert dropped == 18
    assert end()["frames"] == dropped
    seen = list(read_capture((tmp_path / "x.pcapng").read_bytes()))
    assert [payload_of(s.frame)[:4] for s in seen] == [b"%04d" % i for i in range(2, 20)]
    assert {(s.interface, s.direction, s.comment) for s in seen} == {("b", "out", "dropped: full")}


def direct(memory=1 << 17, **options):
    """A switch in this thread with a capture whose memory we hold."""
    switch, apps = Switch(), []
    mirror = Capture(["a", "b"], REASON_NAMES, 0, memory=memory, **options)
    switch.start_capture(mirror)
    for name in "ab":
        app = Region.create()
        switch.attach(name, Region.attach(app.fd, app.shape), [NAMES[name]])
        apps.append(app)
    return switch, mirror, Ring(mirror.fd), *apps


def send(switch, a, b, payloads):
    for payload in payloads:
        assert a.send(0, [udp(A, B, payload=payload)]) == 1
        switch.turns(1)
        assert len(b.receive()) == 1, "a frame was lost because of a capture"


def test_missed_frames_are_counted_and_recorded():
    """A sleeping reader does not delay traffic; the next block has the number of missed frames, also around the ring's end."""
    switch, mirror, ring, a, b = direct()
    missed = told = 0
    for round_ in range(12):
        send(switch, a, b, [bytes([i]) * (11 * i + round_) for i in range(150)])
        seen = list(read_capture(beginning("ab") + ring.take()))
        row = mirror.row()
        assert ring.missed == row["missed"] and row["frames"] + row["missed"] == 300 * (round_ + 1)
        assert 100 < len(seen) < 300 and row["missed"] > 0
        assert seen[0].missed == missed - told
        for s in seen:
            assert len(set(payload_of(s.frame))) <= 1, "bytes of two frames"
        told += sum(s.missed for s in seen)
        missed = row["missed"]
    switch.end_capture(mirror)
    before = mirror.row()
    send(switch, a, b, [b"x"])
    assert mirror.row() == before


@pytest.mark.parametrize("read", [1 << 63, (1 << 64) - 1, 1, 12345, 0])
def test_a_reader_may_write_any_position(read):
    """It reads arbitrary data or nothing; frames pass."""
    switch, _, ring, a, b = direct()
    for i in range(64):
        ring.words[8] = read + i & (1 << 64) - 1
        ring.words[0] = read
        send(switch, a, b, [bytes(1500)] * 5)
    ring.map[:] = b"\xff" * len(ring.map)
    send(switch, a, b, [bytes(1500)] * 5)


def test_ports_that_come_and_go():
    switch, mirror, ring, a, _ = direct()
    switch.detach_name("b")
    app = Region.create()
    switch.attach("z", Region.attach(app.fd, app.shape), [B])  # the number is b's, the name is not
    send(switch, a, app, [b"1"])
    assert [s.interface for s in read_capture(beginning("ab") + ring.take())] == ["a"]
    switch.end_capture(mirror)


def test_several_at_a_time():
    switch, first, ring, a, b = direct()
    second = Capture(["b"], REASON_NAMES, 0, most=50)
    switch.start_capture(second)
    other = Ring(second.fd)
    send(switch, a, b, [bytes(100)])
    assert len(list(read_capture(beginning("ab") + ring.take()))) == 2
    (seen,) = read_capture(beginning("b") + other.take())
    assert len(seen.frame) == 50 and seen.length == 142
    switch.end_capture(first)
    send(switch, a, b, [bytes(100)])
    assert ring.take() == b"" and len(other.take()) > 0
    with pytest.raises(SpecError, match="captures are running"):
        for _ in range(10):
            switch.start_capture(Capture(["a"], REASON_NAMES, 0))


def test_the_command(switch, tmp_path, capsys):
    file = str(tmp_path / "x.pcapng")
    assert main(["vswitch", "capture", "--for", "0.05", "-w", file, "--socket", switch]) == 0
    assert f"0 frames in {file}" in capsys.readouterr().err
    assert struct.unpack_from("<I", (tmp_path / "x.pcapng").read_bytes())[0] == 0x0A0D0D0A
    for wrong, message in (
        (["--port", "aa"], 'did you mean "a"'),
        (["-w", str(tmp_path)], "cannot be written"),
        (["--snap", "1B"], "capture.snap"),
        (["--memory", "1TB"], "capture.memory"),
    ):
        assert main(["vswitch", "capture", "--for", "0.05", *wrong, "--socket", switch]) == 2
        assert message in capsys.readouterr().err


def test_a_closed_connection_ends_its_capture(switch):
    with connect("a", switch) as a, connect("b", switch) as b:
        end = capturing_in_background(switch, None, ports=["a"], count=3)
        a.send_all(0, [udp(A, B)] * 10)
        while protocol.ask(switch, {"show": "captures"})["captures"]:
            time.sleep(0.01)
        assert end()["frames"] == 3
        assert len(b.receive(32, timeout=120)) > 0


def test_a_full_disk_ends_a_capture_in_one_line(switch, capsys):
    """It says so with exit status 1, and the switch's side of the capture ends."""
    with connect("a", switch) as a, connect("b", switch) as b:
        a.send_all(0, [udp(A, B)] * 10, timeout=60)
        assert main(["vswitch", "capture", "-w", "/dev/full", "--for", "60", "--socket", switch]) == 1
        err = capsys.readouterr().err
        assert err == "error: -w /dev/full: the rest cannot be written (No space left on device)\n"
        until(lambda: not protocol.ask(switch, {"show": "captures"})["captures"])
        assert len(b.receive(64, timeout=60)) == 10


@pytest.mark.parametrize("room", [0, 1, 30, 100, 500, 1000])
def test_a_file_that_may_not_grow_has_whole_blocks(tmp_path, room):
    """As many as fit, whatever is written at once."""
    path = tmp_path / "x.pcapng"
    start = beginning(["a"])
    blocks = [packet_block(0, 5, bytes([n]) * (40 + 7 * n)) for n in range(20)]
    with Output(path) as out:
        out.write(start)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(start) + room, hard))
        try:
            with pytest.raises(PenstockError, match="cannot be written"):
                out.write(b"".join(blocks))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    kept = path.read_bytes()
    fit = [n for n in range(21) if len(b"".join(blocks[:n])) <= room][-1]
    assert kept == start + b"".join(blocks[:fit]) and len(list(read_capture(kept))) == fit


def packet_block(interface, ns, frame):
    """An enhanced packet block with the options that the switch writes."""
    padded = frame + bytes(-len(frame) % 4)
    options = struct.pack("<HHI", 2, 4, 1) + struct.pack("<HHI", 6, 4, 0) + struct.pack("<HH", 0, 0)
    body = struct.pack("<5I", interface, ns >> 32, ns & 0xFFFFFFFF, len(frame), len(frame)) + padded + options
    size = len(body) + 12
    return struct.pack("<II", 6, size) + body + struct.pack("<I", size)


def test_standard_output_is_not_cut(tmp_path):
    """It may be a file that had something before."""
    (tmp_path / "x").write_bytes(b"before")
    code = (
        "import resource; from penstock_net.vswitch.client.capture import Output\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))\n"
        "Output('-').write(bytes(100))"
    )
    with open(tmp_path / "x", "ab") as file:
        done = subprocess.run([sys.executable, "-c", code], stdout=file, stderr=subprocess.PIPE, text=True)
    assert "-w -: the rest cannot be written" in done.stderr and (tmp_path / "x").read_bytes().startswith(b"before")
