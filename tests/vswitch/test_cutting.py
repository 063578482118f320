"""Super-frames that are cut: for ports that take none where they come in, datagrams where they go out."""

import hashlib
import ipaddress
import socket
import struct

import pytest
from daemons import running
from proven import accounted
from test_lab import FORBIDDEN
from test_tap_ports import B, pair, path_of, rows
from waiting import until

from penstock_net.vswitch.attach.devices import Device
from penstock_net.vswitch.attach.lab import Namespace, veth
from penstock_net.vswitch.attach.open import open_link
from penstock_net.vswitch.daemon import protocol
from penstock_net.vswitch.dataplane.driver import attach_device
from penstock_net.vswitch.dataplane.switch import Switch
from penstock_net.vswitch.memory.region import Region
from penstock_net.vswitch.ports.base import Clock
from penstock_net.vswitch.ports.segment import Cutter
from penstock_net.vswitch.support.balance import balance

real = pytest.mark.skipif(bool(FORBIDDEN), reason="; ".join(FORBIDDEN))
MAC = b"\x02\0\0\1\0\0"
SINK = """
import hashlib, socket
s = socket.create_server(("0.0.0.0", 9001))
print("ready", flush=True)
c, _ = s.accept()
digest, count = hashlib.sha256(), 0
while data := c.recv(1 << 16):
    digest.update(data); count += len(data)
print(count, digest.hexdigest(), flush=True)
"""


def super_frame(source, target, payload, sequence=1000, mss=1448):
    """A TCP frame as the kernel gives it to a TAP, with the sum of the pseudo header in its check sum field."""
    a, b = ipaddress.ip_address(source), ipaddress.ip_address(target)
    tcp = struct.pack("!HHIIBBHHH", 5000, 9001, sequence, 0, 5 << 4, 0x18, 1000, 0, 0)
    size = len(tcp) + len(payload)
    total = sum(struct.unpack(f"!{len(a.packed)}H", a.packed + b.packed)) + 6 + size
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    tcp = tcp[:16] + struct.pack("!H", total) + tcp[18:]
    if a.version == 4:
        head = struct.pack("!HBBHHHBBH", 0x0800, 0x45, 0, (20 + size) & 0xFFFF, 7, 0, 64, 6, 0) + a.packed + b.packed
    else:
        head = struct.pack("!HIHBB", 0x86DD, 6 << 28, size, 6, 64) + a.packed + b.packed
    kind = 1 if a.version == 4 else 4
    ip = 34 if a.version == 4 else 54
    return struct.pack("=BBHHHH", 1, kind, ip + 20, mss, ip, 16) + MAC + MAC + head + tcp + payload


def bytes_of(frame):
    """Sequence number and payload of a TCP frame in wire format, whose check sums are right."""
    ip = 14
    version = frame[ip] >> 4
    at = ip + (20 if version == 4 else 40)
    addresses = frame[ip + 12 : at] if version == 4 else frame[ip + 8 : at]
    if version == 4:
        assert added(frame[ip:at]) == 0xFFFF and int.from_bytes(frame[ip + 2 : ip + 4], "big") == len(frame) - ip
    assert added(addresses + struct.pack("!HH", 6, len(frame) - at) + frame[at:]) == 0xFFFF
    return int.from_bytes(frame[at + 4 : at + 8], "big"), frame[at + 20 :]


def added(data):
    data += bytes(len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


@pytest.mark.parametrize("mode", ["backdraft", "pfc", "dpfq"])
@pytest.mark.parametrize("addresses", [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")])
def test_a_native_application_with_short_buffers_gets_segments(mode, addresses):
    """In order, complete, with check sums; while it does not read, the rest waits, and nothing is lost."""
    clock, switch = Clock(ns=10**9), Switch(mode=mode)
    end, port = open_link(rate="8Tbps", delay=0, clock=clock, memory="16MB")
    attach_device(switch, "tap", Device(port, mac=MAC), [addresses[0]])
    app = Region.create(buffers=256)
    switch.attach("app", Region.attach(app.fd, app.shape), [addresses[1]])
    content = hashlib.shake_128(b"cut").digest(40 * 60_001)
    for i in range(40):
        part = content[60_001 * i : 60_001 * (i + 1)]
        assert end.send(super_frame(*addresses, part, 1000 + 60_001 * i))
    found, got = bytearray(), 0
    for turn in range(200_000):
        clock.ns += 1000
        switch.turn_at(clock.ns)
        if turn > 2000:
            for _, frame in app.receive(100):
                sequence, payload = bytes_of(frame)
                assert sequence == 1000 + len(found) and len(payload) <= 1448
                found += payload
                got += 1
        if len(found) == len(content):
            break
    row = switch.ports()[0]
    assert bytes(found) == content and not row["drops"] and row["device"]["cut_frames"] == 40 and got == 40 * 42
    switch.close()
    for each in (end, port):
        each.close()


def test_between_ports_that_take_them_they_stay_whole():
    clock, switch = Clock(ns=10**9), Switch()
    ends = [open_link(rate="8Tbps", delay=0, clock=clock, memory="16MB") for _ in range(2)]
    for i, (_, port) in enumerate(ends):
        attach_device(switch, "ab"[i], Device(port), [f"10.0.0.{i + 1}"])
    frame = super_frame("10.0.0.1", "10.0.0.2", bytes(50_000))
    assert ends[0][0].send(frame)
    for _ in range(20):
        clock.ns += 1000
        switch.turn_at(clock.ns)
    assert ends[1][0].receive() == frame and switch.ports()[0]["device"]["cut_frames"] == 0
    switch.close()
    for pair_of_ends in ends:
        for each in pair_of_ends:
            each.close()


def datagrams(source, target, payload, size):
    """A frame of UDP datagrams of this size, as the kernel gives it to a port."""
    a, b = ipaddress.ip_address(source), ipaddress.ip_address(target)
    length = 8 + len(payload)
    if a.version == 4:
        head = struct.pack("!HBBHHHBBH", 0x0800, 0x45, 0, 20 + length, 7, 0x4000, 64, 17, 0) + a.packed + b.packed
    else:
        head = struct.pack("!HIHBB", 0x86DD, 6 << 28, length, 17, 64) + a.packed + b.packed
    ip = 34 if a.version == 4 else 54
    return (
        struct.pack("=BBHHHH", 1, 5, ip + 8, size, ip, 6)
        + MAC
        + MAC
        + head
        + struct.pack("!HHHH", 5000, 9001, length, 0)
        + payload
    )


def payload_in(frame):
    """The payload of a UDP frame in wire format, whose lengths and check sums are right."""
    at = 34 if frame[14] >> 4 == 4 else 54
    addresses = frame[26:34] if at == 34 else frame[22:54]
    if at == 34:
        assert added(frame[14:34]) == 0xFFFF and int.from_bytes(frame[16:18], "big") == len(frame) - 14
    assert int.from_bytes(frame[at + 4 : at + 6], "big") == len(frame) - at
    assert added(addresses + struct.pack("!HH", 17, len(frame) - at) + frame[at:]) == 0xFFFF
    return frame[at + 8 :]


@pytest.mark.parametrize("headers", [True, False])
@pytest.mark.parametrize("addresses", [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")])
def test_frames_of_several_datagrams_are_cut_for_everybody(addresses, headers):
    """Where they go out, or where they come in if their receiver takes no super-frames."""
    clock, switch = Clock(ns=10**9), Switch()
    ends = [open_link(rate="8Tbps", delay=0, clock=clock, headers=each) for each in (True, headers)]
    for i, (_, port) in enumerate(ends):
        attach_device(switch, "ab"[i], Device(port), [addresses[i]])
    content = hashlib.shake_128(b"datagrams").digest(40_001)
    assert ends[0][0].send(datagrams(*addresses, content, 1400))
    found = []
    for _ in range(100):
        clock.ns += 1000
        switch.turn_at(clock.ns)
        while frame := ends[1][0].receive():
            found.append(completed(frame) if headers else frame)
    row = switch.ports()[0]
    assert [len(payload_in(frame)) for frame in found] == [1400] * 28 + [801]
    assert b"".join(map(payload_in, found)) == content
    further = row["device"]["further_in"], switch.ports()[1]["device"]["further_out"]
    assert not row["drops"] and row["device"]["cut_frames"] == 1 - headers
    assert (row["received_frames"], further) == ((1, (0, 28)) if headers else (29, (28, 0)))
    accounted(balance(switch))
    switch.close()
    for each in (*ends[0], *ends[1]):
        each.close()


def completed(frame):
    """A frame without its header, which leaves the check sum to the network card."""
    flags, kind, _, _, start, offset = struct.unpack_from("=BBHHHH", frame)
    assert (flags, kind) == (1, 0)
    found = bytearray(frame[10:])
    struct.pack_into("!H", found, start + offset, 0xFFFF - added(bytes(found[start:])) or 0xFFFF)
    return bytes(found)


def test_what_is_no_frame_of_datagrams_is_not_cut():
    cutter, whole = Cutter(), datagrams("10.0.0.1", "10.0.0.2", bytes(5000), 1400)
    assert len(cutter.segments(whole, 1452)) == 4 and cutter.segments(whole, 1451) is None, "none can be cut any further"
    assert cutter.segments(datagrams("10.0.0.1", "10.0.0.2", bytes(129), 1), 100) is None, "more than the kernel makes"
    assert len(cutter.segments(datagrams("10.0.0.1", "10.0.0.2", bytes(128), 1), 100)) == 128
    for wrong in (whole[:-1], whole + b"x", whole[:4] + bytes(2) + whole[6:], whole[:33] + b"\x06" + whole[34:]):
        assert cutter.segments(wrong, 1500) is None
    assert cutter.segments(whole[:1] + b"\x85" + whole[2:], 1500) is None, "ECN is of TCP: it was cut as that"
    assert cutter.segments(datagrams("10.0.0.1", "10.0.0.2", bytes(99), 100), 1500) is None, "of less than one"
    nothing = super_frame("10.0.0.1", "10.0.0.2", b"")
    assert cutter.segments(nothing, 1500) is None, "it became no segment, and was lost without a count"
    for i in range(10, 52):
        for segment in cutter.segments(whole[:i] + b"\xff" + whole[i + 1 :], 1500) or []:
            assert len(segment) <= 1500


@real
def test_many_datagrams_in_one_call_to_a_socket_that_is_not_read(tmp_path):
    """From an interface that does not cut them: the switch took 64 of them for one, and most were lost at the socket."""
    with Namespace() as far, Namespace() as near, Namespace() as other, veth(far, near):
        far.run("ip", "address", "add", "10.78.0.1/24", "dev", "veth0")
        tables = [
            {"name": "p", "addresses": ["10.78.0.1"], "kind": "packet", "device": "veth0", "netns": path_of(near)},
            {"name": "t", "addresses": ["10.78.0.2"], "kind": "tap", "device": "sw0", "netns": path_of(other)},
        ]
        with running(tmp_path / "s.sock", {"port": tables}) as daemon:
            until(lambda: daemon.keeper and len(protocol.ask(daemon.path, {"show": "ports"})["ports"]) == 2)
            with other.socket(socket.AF_INET, socket.SOCK_DGRAM) as sink, far.socket(socket.AF_INET, socket.SOCK_DGRAM) as source:
                sink.bind(("10.78.0.2", 9001))
                sink.settimeout(60)
                source.sendto(b"", ("10.78.0.2", 9001))
                assert sink.recv(1) == b""  # the address is resolved by then
                source.setsockopt(17, 103, 100)  # UDP_SEGMENT
                for i in range(20):
                    source.sendto(bytes([i]) * 6400, ("10.78.0.2", 9001))
                until(lambda: protocol.ask(daemon.path, {"show": "ports"})["ports"][0]["device"]["frames_in"] >= 20)
                assert [sink.recv(2000) for _ in range(20 * 64)] == [bytes([i]) * 100 for i in range(20) for _ in range(64)]


@real
@pytest.mark.parametrize("super_frames", [(True, False), (False, True)])
def test_tcp_between_a_tap_with_super_frames_and_one_without(tmp_path, super_frames):
    """5 MB arrive whole, and no frame is dropped, where most used to be dropped as too long."""
    content = hashlib.shake_128(b"tcp").digest(5_000_000)
    keys = [{"super_frames": each} for each in super_frames]
    with pair(tmp_path, *keys) as (left, right, daemon):
        sink = right.start("python3", "-c", SINK)
        assert sink.stdout.readline().strip() == "ready"
        with left.socket(socket.AF_INET, socket.SOCK_STREAM) as s:
            s.settimeout(100)
            s.connect((B, 9001))
            s.sendall(content)
        count, digest = sink.stdout.readline().split()
        assert int(count) == len(content) and digest == hashlib.sha256(content).hexdigest()
        row = until(lambda: rows(daemon)["a"])
        assert not row["drops"] and (row["device"]["cut_frames"] > 0) == super_frames[0]
