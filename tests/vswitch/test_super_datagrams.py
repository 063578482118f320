"""Frames of several UDP datagrams (UDP_SEGMENT): one frame from where the switch reads them to where they go out again."""

import contextlib
import hashlib
import socket
import struct
import threading
from types import SimpleNamespace

import pytest
from drawn import examples
from frames import udp
from hypothesis import given
from hypothesis import strategies as st
from proven import accounted, certain
from test_cutting import MAC, completed, datagrams, payload_in
from test_handing import handed_over
from test_lab import FORBIDDEN
from test_tap_ports import A, B, pair, rows
from waiting import until

from penstock_net.vswitch.attach.allowance import Allowance
from penstock_net.vswitch.attach.devices import Device
from penstock_net.vswitch.attach.ingress_rates import FlowRates, Seen
from penstock_net.vswitch.attach.lab import Namespace
from penstock_net.vswitch.attach.open import open_link
from penstock_net.vswitch.daemon import protocol
from penstock_net.vswitch.dataplane.driver import attach_device
from penstock_net.vswitch.dataplane.switch import Switch
from penstock_net.vswitch.linux import htb
from penstock_net.vswitch.linux.netlink import Outgoing
from penstock_net.vswitch.memory.region import Region
from penstock_net.vswitch.ports.base import Clock
from penstock_net.vswitch.ports.segment import Cutter
from penstock_net.vswitch.support import layouts
from penstock_net.vswitch.support.balance import balance

real = pytest.mark.skipif(bool(FORBIDDEN), reason="; ".join(FORBIDDEN))
SOL_UDP, UDP_SEGMENT = 17, 103
C = "10.78.0.3"
SIZE = 1400
COST = 2 * (10 + 42 + SIZE) + 1024  # of a datagram, in a socket
CONTENT = hashlib.shake_128(b"datagrams").digest(10 * SIZE - 99)
PARTS = [CONTENT[at : at + SIZE] for at in range(0, len(CONTENT), SIZE)]


class Rig:
    """Devices with super-frames, of which b has sockets that take so many datagrams, under a virtual clock."""

    def __init__(self, devices=(), stations=0, broadcast=False, station_idle_ns=10**12, **settings):
        self.clock, self.switch, self.now = Clock(ns=10**9), Switch(**settings), 10**9
        self.table, self.devices, self.wires = Allowance(), {}, {}
        for name, address, headers in devices or (("a", A, True), ("b", B, True)):
            self.wires[name], port = open_link(rate="8Tbps", delay=0, clock=self.clock, headers=headers, memory="16MB")
            device = self.devices[name] = Device(port, broadcast=broadcast)
            device.stations, device.station_idle_ns = stations, station_idle_ns
            device.table = self.table if name == "b" else None
            attach_device(self.switch, name, device, [address])

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.switch.close()
        for each in self.wires.values():
            each.close()
        for device in self.devices.values():
            device.port.close()
        self.table.close()

    def takes(self, count):
        """The socket has room for so many datagrams more."""
        self.table.allowed[9001] = self.table.spent[9001] + count * COST
        self.table.looked[0] += 1

    def turn(self, count=30):
        for _ in range(count):
            self.now += 200_000
            self.clock.ns = self.now
            self.switch.turn_at(self.now)

    def came(self, name):
        """The payloads that have come out, with right lengths and sums."""
        found = []
        while frame := self.wires[name].receive():
            found.append(payload_in(completed(frame) if self.wires[name].headers else frame))
        return found

    def row(self, name):
        return next(row for row in self.switch.ports() if row["port"] == name)

    def device(self, name):
        return self.row(name)["device"]

    def balanced(self):
        found = balance(self.switch)
        accounted(found)
        return found


# ---- In virtual time ----


def test_a_socket_gets_as_many_datagrams_as_it_takes_and_the_rest_waits():
    """In the switch one frame, of which the bytes that have gone out do not wait any longer."""
    with Rig() as rig:
        rig.takes(3)
        assert rig.wires["a"].send(datagrams(A, B, CONTENT, SIZE))
        rig.turn()
        assert rig.came("b") == PARTS[:3]
        whole = 10 + 42 + len(CONTENT)
        flow = rig.switch.flows()[0]
        assert (flow["frames"], flow["bytes"], flow["waiting_bytes"]) == (1, whole, whole - 3 * SIZE)
        found = rig.balanced()
        assert (found["in"], found["out"], found["parked"]) == (1, 0, 1) and rig.device("b")["further_out"] == 3
        rig.takes(6)
        rig.turn()
        assert rig.came("b") == PARTS[3:9]
        assert rig.wires["a"].send(datagrams(A, B, CONTENT, SIZE)), "behind it"
        rig.takes(2)
        rig.turn()
        assert rig.came("b") == [PARTS[9], PARTS[0]]
        rig.takes(100)
        rig.turn()
        assert rig.came("b") == PARTS[1:] and rig.switch.flows()[0]["waiting_bytes"] == 0
        found = rig.balanced()
        assert (found["in"], found["out"], found["parked"], found["lost"]) == (2, 2, 0, {})
        assert (rig.device("b")["frames_out"], rig.device("b")["further_out"]) == (20, 18)
        assert rig.table.spent[9001] == 18 * COST + 2 * (2 * (10 + 42 + SIZE - 99) + 1024), "as so many datagrams"
        assert not rig.device("b")["sent_direct"]


def test_one_does_not_take_the_direct_path():
    """It is free: frames of the flow have taken it."""
    with Rig() as rig:
        rig.takes(100)
        (single,) = Cutter().segments(datagrams(A, B, b"single", 6), 1500)
        for _ in range(2):
            assert rig.wires["a"].send(single)
            rig.turn()
        direct = rig.device("b")["sent_direct"]
        assert direct and rig.came("b") == 2 * [b"single"]
        assert rig.wires["a"].send(datagrams(A, B, CONTENT, SIZE))
        rig.turn()
        assert rig.came("b") == PARTS and rig.device("b")["sent_direct"] == direct


def test_another_flow_is_sent_between_the_datagrams_of_one_that_waits():
    with Rig() as rig:
        rig.takes(3)
        assert rig.wires["a"].send(datagrams(A, B, CONTENT, SIZE))
        rig.turn()
        assert rig.came("b") == PARTS[:3]
        assert rig.wires["a"].send(bytes(10) + udp(A, B, 9001, 9002, b"other"))
        rig.turn()
        assert payload_of_any(rig.wires["b"].receive()) == b"other"


def payload_of_any(frame):
    return frame[52:]


@pytest.mark.parametrize("how", ["suspended", "removed"])
def test_what_waits_of_one_is_lost_as_one_frame_when_its_port_goes(how):
    with Rig() as rig:
        rig.takes(3)
        for _ in range(2):
            assert rig.wires["a"].send(datagrams(A, B, CONTENT, SIZE))
        rig.turn()
        assert rig.came("b") == PARTS[:3]
        if how == "suspended":
            rig.devices["b"].driver.suspend(rig.switch)
            rig.takes(100)
            rig.turn()
            assert rig.device("b")["queued_when_gone"] == 2
            assert rig.wires["a"].send(datagrams(A, B, CONTENT, SIZE))
            rig.turn()
            assert rig.device("b")["device_gone"] == 1
        else:
            rig.switch.detach_name("b")
        found = rig.balanced()
        assert not found["parked"] and not rig.came("b")
        assert sum(found["lost"].values()) == (3 if how == "suspended" else 2), found


def test_a_queue_that_is_stuck_gives_up_the_rest_of_one():
    with Rig(idle="1ms") as rig:
        rig.takes(3)
        assert rig.wires["a"].send(datagrams(A, B, CONTENT, SIZE))
        rig.turn()
        for i in range(9000):  # of further flows, until buffers are short
            assert rig.wires["a"].send(bytes(10) + udp(A, B, i % 60_000, 9001, b"one more"))
            if i % 32 == 0:
                rig.table.looked[0] += 1
                rig.turn(1)
        rig.turn()
        assert rig.came("b") == PARTS[:3]
        found = rig.balanced()
        assert found["lost"].get("evicted_out"), found


@pytest.mark.parametrize("count", [0, 3, 9])
def test_one_that_is_going_out_is_handed_over_to_another_process(count):
    with Rig() as rig:
        rig.takes(count)
        assert rig.wires["a"].send(datagrams(A, B, CONTENT, SIZE))
        rig.turn()
        rig.switch = handed_over(rig.switch, rig.devices, {"a": A, "b": B})
        rig.takes(20)
        rig.turn()
        assert rig.came("b") == PARTS
        assert rig.balanced()["out"] == 1


@pytest.mark.parametrize("how", ["suspended", "removed"])
@pytest.mark.parametrize("frames", [3, 1])
def test_the_rest_of_one_that_is_cut_as_it_comes_in_is_lost_as_one_frame_when_its_port_goes(how, frames):
    with Rig([("a", A, True), ("b", B, True), ("c", C, False)]) as rig:
        for _ in range(frames):
            assert rig.wires["a"].send(datagrams(A, C, CONTENT, SIZE))
        rig.turn(1)
        if how == "suspended":
            rig.devices["a"].driver.suspend(rig.switch)
        else:
            rig.switch.detach_name("a")
        rig.turn()
        came = rig.came("c")
        assert came == (3 * PARTS)[: len(came)] and len(came) == (23 if frames == 3 else 10)
        assert sum(rig.balanced()["lost"].values()) == (frames == 3)


def test_what_an_older_version_has_cut_is_no_frame_from_nowhere():
    """It did not count what it made of a frame."""
    with Rig([("a", A, True), ("b", B, True), ("c", C, False)]) as rig:
        for _ in range(3):
            assert rig.wires["a"].send(datagrams(A, C, CONTENT, SIZE))
        rig.turn(1)  # of one only a part goes in
        state = layouts.memory(rig.devices["a"].driver.place, layouts.struct_type("Driver"))[0]
        assert state["further_in"] == 20
        state["further_in"] = 0
        assert balance(rig.switch)["unaccounted"] == {"a: as they came in": -20}
        rig.switch = handed_over(rig.switch, rig.devices, {"a": A, "b": B, "c": C})
        rig.turn()
        assert rig.came("c") == 3 * PARTS
        rig.balanced()


def test_a_port_without_headers_that_has_got_the_address_since_takes_none():
    """It would take all datagrams for one."""
    with Rig(mode="pfc") as rig:
        rig.takes(0)
        for _ in range(600):
            assert rig.wires["a"].send(datagrams(A, B, CONTENT[: 2 * SIZE], SIZE))
        rig.turn()
        waiting = rig.balanced()["parked"]
        rig.switch.detach_name("b")
        app = Region.create(queues=64, buffers=1024, buffer_bytes=9024)
        rig.switch.attach("b", Region.attach(app.fd, app.shape), [B])
        found = []
        for _ in range(600):
            rig.turn(3)
            found += [payload_in(frame) for _, frame in app.receive(100)]
        assert waiting and all(part in PARTS for part in found)
        rig.balanced()


def lies(draw, whole):
    """A frame of datagrams with a header that says something else, or with other bytes, or less of it."""
    frame = bytearray(whole)
    for at in draw(st.lists(st.integers(0, min(80, len(frame) - 1)), max_size=3)):
        frame[at] = draw(st.integers(0, 255))
    frame[1] = 5
    return bytes(frame[: draw(st.sampled_from([len(frame), len(frame) - 1, 60, 52]))])


@pytest.mark.parametrize("target", ["224.0.0.9", B])
def test_copies_are_of_single_datagrams(target):
    """For ports with and without super-frames, also if the address is that of a port that would take them whole."""
    with Rig([("a", A, True), ("b", B, True), ("c", C, False)], broadcast=True) as rig:
        frame = datagrams(A, target, CONTENT, SIZE)
        assert rig.wires["a"].send(frame[:10] + b"\x01\x00\x5e\0\0\x09" + frame[16:])
        rig.turn()
        assert rig.came("b") == rig.came("c") == PARTS
        assert rig.device("a")["flooded"] == 20
        rig.balanced()


def test_datagrams_for_a_station_that_nobody_has_heard_of():
    with Rig([("a", A, True), ("b", B, True), ("c", C, False)], stations=16, broadcast=True) as rig:
        frame = datagrams("10.80.0.1", "10.80.0.2", CONTENT, SIZE)
        assert rig.wires["a"].send(frame[:10] + b"\2\0\0\2\0\0" + frame[16:])
        rig.turn()
        assert rig.came("b") == rig.came("c") == PARTS
        assert rig.device("a")["to_unknown"] == 10
        rig.balanced()


STATION, IDLE_NS = b"\2\0\0\2\0\0", 10**9


def aged(rig, source):
    """A station has been heard behind b, and has been quiet for longer than stations are known; none was removed yet."""
    assert rig.wires["b"].send(bytes(10) + b"\2\0\0\1\0\0" + STATION + source[12:])
    rig.turn()
    for wire in rig.wires.values():
        while wire.receive():
            pass
    assert rig.device("b")["stations"] == 1
    rig.now += 2 * IDLE_NS


def test_datagrams_for_a_station_that_has_aged():
    """For whom a frame is was asked as of time 0, when no station has aged: it stayed whole, and its copies were of no use."""
    devices = [("a", A, True), ("b", B, True), ("c", C, False)]
    with Rig(devices, stations=16, broadcast=True, station_idle_ns=IDLE_NS) as rig:
        frame = datagrams("10.80.0.1", "10.80.0.2", CONTENT, SIZE)
        aged(rig, udp("10.80.0.2", "10.80.0.1", 9, 9, b"here"))
        assert rig.wires["a"].send(frame[:10] + STATION + frame[16:])
        rig.turn()
        assert rig.came("b") == rig.came("c") == PARTS
        assert rig.device("a")["to_unknown"] == 10
        rig.balanced()


def test_a_frame_of_another_protocol_for_a_station_that_has_aged():
    with Rig(stations=16, station_idle_ns=IDLE_NS) as rig:
        own = b"\2\0\0\1\0\0" + b"\x88\xb5" + bytes(50)
        aged(rig, bytes(12) + own[6:])
        assert rig.wires["a"].send(bytes(10) + STATION + own)
        rig.turn()
        rig.balanced()
        assert (rig.device("a")["not_carried"], rig.row("a")["drops"]) == (1, {}), "as one for an address of nobody"


LIES = {
    "gso_size 0": lambda f: f[:4] + bytes(2) + f[6:],
    "gso_size above the payload": lambda f: f[:4] + struct.pack("<H", 9 * SIZE + SIZE - 98) + f[6:],
    "too many": lambda f: f[:4] + struct.pack("<H", 100) + f[6:],
    "ECN": lambda f: f[:1] + b"\x85" + f[2:],
    "of TCP": lambda f: f[:33] + b"\x06" + f[34:],
    "length of IP": lambda f: f[:26] + b"\x01\x00" + f[28:],
    "length of UDP": lambda f: f[:48] + b"\x01\x00" + f[50:],
    "header of IP": lambda f: f[:24] + b"\x4f" + f[25:],
    "a fragment": lambda f: f[:30] + b"\x20\x00" + f[32:],
    "cut off": lambda f: f[:-1],
    "no payload": lambda f: f[:52],
    "no IP": lambda f: f[:22] + b"\x12\x34" + f[24:],
}


def test_headers_that_lie_are_refused_and_counted():
    with Rig() as rig:
        rig.takes(1000)
        for count, (what, wrong) in enumerate(LIES.items(), 1):
            assert rig.wires["a"].send(wrong(datagrams(A, B, CONTENT, SIZE)))
            assert rig.wires["a"].send(datagrams(A, B, CONTENT, SIZE))
            rig.turn(10)
            assert rig.came("b") == PARTS, what
            found = rig.balanced()
            assert rig.device("a")["malformed"] == sum(found["refused"].values()) == count and not found["lost"], what


@examples(6)
@given(st.data())
def test_whatever_a_header_says_nothing_breaks(data):
    with Rig([("a", A, True), ("b", B, True), ("c", C, False)]) as rig:
        rig.takes(10_000)
        sent = 0
        for _ in range(data.draw(st.integers(1, 40))):
            target = data.draw(st.sampled_from([B, C]))
            sent += rig.wires["a"].send(lies(data.draw, datagrams(A, target, CONTENT[: data.draw(st.integers(1, 3000))], 1000)))
        assert rig.wires["a"].send(datagrams(A, B, CONTENT, SIZE))
        rig.turn(100)
        rig.balanced()
        last = []
        while frame := rig.wires["b"].receive():
            last.append(frame[52:])
        assert last[-len(PARTS) :] == PARTS


def with_options(frame, version):
    """The same frame with options of IP in front of UDP."""
    if version == 4:
        head = bytearray(frame[24:44])
        head[0] = 0x46
        head[2:4] = struct.pack("!H", len(frame) - 24 + 4)
        return frame[:24] + bytes(head) + b"\x01\x01\x01\x00" + frame[44:]
    head = bytearray(frame[24:64])
    head[4:6], head[6] = struct.pack("!H", len(frame) - 64 + 24), 0
    return frame[:24] + bytes(head) + b"\x3c\x00" + b"\x01\x04" + bytes(4) + b"\x11\x01" + b"\x01\x0c" + bytes(12) + frame[64:]


@pytest.mark.parametrize("addresses", [(A, B), ("fd00::1", "fd00::2")])
def test_options_of_ip_are_in_front_of_each_datagram(addresses):
    plain = datagrams(*addresses, CONTENT, SIZE)
    version = plain[24] >> 4
    optional = with_options(plain, version)
    one, other = (Cutter().segments(each, 1600) for each in (plain, optional))
    assert len(one) == len(other) == 10
    ip = 44 if version == 4 else 64
    more = len(optional) - len(plain)
    for a, b in zip(one, other):
        assert b[ip : ip + more] == optional[ip : ip + more] and b[ip + more :] == a[ip:], "UDP and its sum are the same"
        at = 26 if version == 4 else 28  # the length of the packet; of IPv6 without its own header
        assert struct.unpack_from("!H", b, at)[0] == struct.unpack_from("!H", a, at)[0] + more
        assert Cutter().segments(b[:1] + b"\x05" + b[2:4] + struct.pack("<H", len(b) - ip - more - 8) + b[6:], 1600) == [b]
    if version == 6:
        routed = bytearray(optional)
        routed[30] = 43
        assert Cutter().segments(bytes(routed), 1600) is None, "the sum is of another address"


@pytest.mark.parametrize("kind", [0x8100, 0x88A8])
def test_a_tag_stays_in_front_of_each_datagram(kind):
    frame = datagrams(A, B, CONTENT, SIZE)
    tagged = frame[:22] + struct.pack("!HH", kind, 5) + frame[22:]
    found = Cutter().segments(tagged, 1600)
    assert [each[22:26] for each in found] == 10 * [struct.pack("!HH", kind, 5)]
    assert [each[10:22] + each[26:] for each in found] == [each[10:] for each in Cutter().segments(frame, 1600)]


# ---- What an edge makes of them ----


class Counted:
    """In place of the kernel's counters of an interface: what has entered its ring, and what was read."""

    def __init__(self, frames, further):
        self.frames, self.each, self.unread = 0, frames, 0
        self.bytes, self.headers, self.segments = frames * SIZE + 42, further * 42, further + 1

    def passed(self):
        entered = self.frames + self.unread
        return entered * (self.bytes + self.headers), entered * self.segments % 2**32

    def outgoing(self):
        return Outgoing(frames=self.frames, size=self.frames * self.bytes, dropped=0)


@pytest.mark.parametrize("datagrams_each", [1, 2, 40])
@pytest.mark.parametrize("unread", [0, 3000])
def test_what_stands_in_the_ring_is_known_however_many_datagrams_were_read_before(datagrams_each, unread):
    """Each beyond the first of a frame adds a header to what has entered, less than a segment of TCP."""
    rates, further = FlowRates.__new__(FlowRates), datagrams_each - 1
    rates.htb = Counted(datagrams_each, further)
    with contextlib.closing(Allowance()) as table:
        rates.senders = SimpleNamespace(table=table)
        rates.last = rates.empty = Seen(0.0, (0, 0), Outgoing(0, 0, 0))
        for _ in range(10):
            rates.htb.frames += 300_000
            table.further[:] = rates.htb.frames * further, rates.htb.frames * further * 42
            rates.htb.unread = unread
            rates._look_at_ring(True)
            assert 0.9 * unread <= rates.behind <= unread


@pytest.mark.parametrize(("gigabytes", "frames"), [(1, 16_384), (8, 32_768), (64, 100_000)])
def test_the_ring_of_a_switch_that_is_stopped_does_not_fill_the_memory(monkeypatch, gigabytes, frames):
    monkeypatch.setattr(htb, "_memory", lambda: gigabytes << 30)
    assert htb.ring_frames() == frames


def test_the_worker_counts_what_the_kernel_adds_for_each_datagram():
    with Rig() as rig:
        for count in (1, 2):
            assert rig.wires["b"].send(datagrams(B, A, CONTENT, SIZE))
            rig.turn()
            assert rig.table.further.tolist() == [9 * count, 9 * count * 42]


# ---- With the kernel ----


@real
def test_datagrams_that_wait_for_an_interface_that_is_down_are_counted():
    """They are joined in the port, and neither in the switch nor in the kernel."""
    with Namespace() as space, space.tap("10.78.0.2/24") as port, contextlib.closing(Switch()) as switch:
        app = Region.create(queues=64, buffers=1024)
        switch.attach("a", Region.attach(app.fd, app.shape), [A])
        attach_device(switch, "b", Device(port, mac=MAC), [B])
        space.run("ip", "link", "set", "tap0", "down")
        wire, ours = open_link(rate="8Tbps", delay=0)
        attach_device(switch, "c", Device(ours), [C])
        for _ in range(5):
            assert wire.send(datagrams(C, B, bytes(100), 100))

        def waits():
            switch.turns(3)
            return rows_of(switch)["b"]["waiting_out"]

        until(waits)
        found = balance(switch)
        accounted(found)
        assert (found["in"], found["out"], found["parked"]) == (5, 0, 5)
        switch.detach_name("b")
        assert port.counters["errors_out"] == 5
        wire.close()
        ours.close()


def rows_of(switch):
    return {row["port"]: row["device"] for row in switch.ports() if "device" in row}


def sending(sock, calls, segments, size, done):
    """Send so many calls of numbered datagrams, as fast as the socket takes them."""
    number = 0
    for _ in range(calls):
        content = b"".join(struct.pack("!I", number + i) + bytes(size - 4) for i in range(segments))
        number += segments
        sock.send(content)
    done.set()


def transfer(daemon, left, right, calls, segments, size, slow):
    """Send so many calls to a receiver that is slow at first, so many datagrams long: each comes, in order."""
    with right.socket(socket.AF_INET, socket.SOCK_DGRAM) as sink, left.socket(socket.AF_INET, socket.SOCK_DGRAM) as source:
        sink.bind((B, 9001))
        sink.settimeout(60)
        source.connect((B, 9001))
        source.send(b"resolved")
        assert sink.recv(100) == b"resolved"
        source.setsockopt(SOL_UDP, UDP_SEGMENT, size)
        done = threading.Event()
        sender = threading.Thread(target=sending, args=(source, calls, segments, size, done))
        sender.start()
        try:
            for i in range(calls * segments):
                if i < slow:
                    done.wait(0.004)
                found = sink.recv(2000)
                certain(len(found) == size and struct.unpack_from("!I", found)[0] == i, f"datagram {i}: {found[:8]!r}")
        finally:
            source.close()
            sender.join()
    row = rows(daemon)
    assert not row["a"]["drops"] and not row["a"]["device"]["kernel_lost"] and not row["b"]["device"]["edge"]["socket_lost"]
    accounted(protocol.ask(daemon.path, {"show": "balance"})["balance"])


@real
def test_a_slow_receiver_gets_all_of_many_datagrams_a_call(tmp_path):
    """16 000 datagrams from a sender that nothing makes wait, far more than the frames that a flow may hold."""
    with pair(tmp_path, {"edge": False}) as (left, right, daemon):
        transfer(daemon, left, right, calls=400, segments=40, size=1400, slow=100)


@real
def test_a_program_at_full_speed_with_many_datagrams_a_call_waits_for_a_slow_receiver(tmp_path):
    """The sender is made to wait before its flow holds all that it may."""
    with pair(tmp_path) as (left, right, daemon):
        transfer(daemon, left, right, calls=2500, segments=40, size=1400, slow=500)
