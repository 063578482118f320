"""Two switches and the link between them, turn by turn: frames, pause frames, invalid datagrams, and long frames."""

import os
import random
import struct
import time

import pytest
from frames import payload_of, udp

from penstock_net.errors import SpecError
from penstock_net.vswitch.attach.devices import Device, validate_device
from penstock_net.vswitch.attach.open import open_link
from penstock_net.vswitch.bench.two_switches import Servers
from penstock_net.vswitch.dataplane.driver import attach_device
from penstock_net.vswitch.dataplane.session_view import Endpoint
from penstock_net.vswitch.dataplane.switch import Switch
from penstock_net.vswitch.memory.region import Region
from penstock_net.vswitch.ports.base import Clock
from penstock_net.vswitch.ports.segment import Cutter

A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"
SECRET = bytes(range(16))
MASK = (1 << 64) - 1
PAUSE, FRAME, FIRST, LAST = 4, 5, 6, 8
HEADER = 40


class Pair:
    """Applications a and b, a switch each, and a link."""

    def __init__(self, secret=b"", loss=0.0, window=1 << 20, **settings):
        self.ends = open_link(rate="10Gbps", delay="20us", loss=loss, headers=False, memory="16MiB")
        self.switches, self.apps = [], []
        for i, (mine, other) in enumerate(((A, B), (B, A))):
            switch, app = Switch(**settings), Region.create(buffers=4096, rings=1024)
            switch.attach("app", Region.attach(app.fd, app.shape), [mine])
            attach_device(switch, "wire", Device(self.ends[i], window=window, secret=secret), [other])
            self.switches.append(switch)
            self.apps.append(app)

    def turn(self, seconds=0.0):
        end = time.monotonic() + seconds
        while True:
            for switch in self.switches:
                switch.turns(4)
            if time.monotonic() >= end:
                return

    def until(self, condition, seconds=120.0):
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, self.rows()
            self.turn()
            time.sleep(0.0001)

    def rows(self):
        return [switch.ports()[1]["device"]["overlay"] for switch in self.switches]

    def drops(self):
        return [port["drops"] for switch in self.switches for port in switch.ports() if port["drops"]]


@pytest.mark.parametrize("secret", [b"", SECRET])
def test_frames_cross_in_order(secret):
    pair = Pair(secret)
    sent, seen = 0, []

    def done():
        nonlocal sent
        sent += pair.apps[0].send(0, [udp(A, B, payload=b"%d" % i) for i in range(sent, min(sent + 50, 3000))])
        seen.extend(payload_of(f) for _, f in pair.apps[1].receive(1000))
        return len(seen) == 3000

    pair.until(done)
    assert seen == [b"%d" % i for i in range(3000)] and not pair.drops()
    pair.until(lambda: pair.rows()[0]["under_way"] == 0)
    assert [(row["state"], row["sessions"], row["lost_on_the_way"]) for row in pair.rows()] == [("up", 1, 0)] * 2


def test_nothing_is_sent_before_there_is_a_session():
    pair = Pair()
    pair.apps[0].send(0, [udp(A, B, payload=b"x")])
    for _ in range(50):
        pair.switches[0].turns(10)
    row = pair.switches[0].ports()[1]["device"]
    assert row["overlay"]["state"] == "connecting" and row["frames_out"] == row["overlay"]["hellos_sent"] >= 1
    pair.until(lambda: pair.apps[1].receive(10))


def test_a_slow_receiver_far_away_pauses_its_flow_only():
    """One port far away takes 2 MB/s, another everything at once: nothing is lost, few pause frames, the other never waits."""
    pair = Pair(th_goal="16KB", th_over="64KB", th_net="256KB")
    slow_app = Region.create(buffers=4096, rings=1024)
    pair.switches[1].attach("slow", Region.attach(slow_app.fd, slow_app.shape), [C])
    pair.switches[0].set_addresses(1, [C])
    slow, fast = udp(A, C, 1, 1, bytes(958)), udp(A, B, 2, 2, bytes(958))
    got, sent, took = 0, 0, []
    start = time.monotonic()
    while (now := time.monotonic() - start) < 2 or got <= 3000 or len(took) <= 50:
        if pair.apps[0].waiting(0) < 1 << 20:
            sent += pair.apps[0].send(0, [slow] * 20)
        if got < 2000 * now:
            got += len(slow_app.receive(int(2000 * now) - got))
        before = time.monotonic()
        assert pair.apps[0].send(1, [fast]) == 1
        pair.until(lambda: pair.apps[1].receive(1))
        took.append(time.monotonic() - before)
        time.sleep(0.0002)
    assert not pair.drops() and got > 3000, "the slow one was kept busy"
    near, far = pair.rows()
    assert 1 <= far["pauses_sent"] < 200 and far["pauses_sent"] <= near["pauses_received"] + 1
    assert sorted(took)[len(took) // 2] < 0.01 and len(took) > 50
    flows = {f["target"]: f for f in pair.switches[1].flows()}
    assert flows[C]["longest_bytes"] < 256_000 and flows[B]["pauses"] == 0


class Raw:
    """A switch at one end of a link under a virtual clock, and at the other end the protocol in our hands."""

    def __init__(self, secret=b"", window=1 << 30, buffers=None, **settings):
        self.clock = Clock(1_000_000)
        left, self.wire = open_link(rate="10Gbps", delay="1ns", headers=False, clock=self.clock, memory="16MiB")
        self.switch, self.app = Switch(**settings), Region.create(buffers=4096)
        self.switch.attach("app", Region.attach(self.app.fd, self.app.shape), [A])
        device = Device(left, window=1 << 20, secret=secret)
        device.buffers = buffers or device.buffers
        attach_device(self.switch, "wire", device, [B])
        self.secret, self.window, self.pending, self.heard_of = secret, window, [], []
        self.restart()

    def restart(self):
        self.peer = Endpoint(os.urandom(16), self.secret, self.window)
        self.until_up()

    def until_up(self):
        for _ in range(2000):
            self.turn(5)
            if self.row["state"] == "up" and self.peer.row(self.clock.ns)["state"] == "up":
                return
            self.clock.ns += 1_000_000
        raise AssertionError(self.row)

    def turn(self, turns, ns=1000):
        """Turns of the switch, and what the protocol at our end does in them."""
        for _ in range(turns):
            self.clock.ns += ns
            self.switch.turn_at(self.clock.ns)
            while (datagram := self.wire.receive()) is not None:
                if (found := self.peer.take(datagram, self.clock.ns)) is not None:
                    self.heard_of.append(found)
            while (message := self.peer.message(self.clock.ns)) is not None:
                assert self.wire.send(message)

    def say(self, content, kind=FRAME):
        datagram = self.peer.send(kind, content, self.clock.ns)
        assert datagram is not None
        self.put(datagram)
        return datagram

    def pause(self, ns=0, rate=0, key=None):
        return self.say(struct.pack("<7Q", *(flow_key() if key is None else key), ns & MASK, rate & MASK), PAUSE)

    def put(self, datagram):
        assert self.wire.send(datagram)
        self.turn(20)

    def heard(self, kind=FRAME):
        self.turn(5)
        found = [content for k, content in self.heard_of if k == kind]
        self.heard_of = [pair for pair in self.heard_of if pair[0] != kind]
        return found

    @property
    def row(self):
        return self.switch.ports()[1]["device"]["overlay"]


def flow_key(source=A, target=B, source_port=1000, target_port=2000):
    def address(text):
        return 0, int.from_bytes(b"\0\0\xff\xff" + bytes(map(int, text.split("."))), "little")

    ports = int.from_bytes(struct.pack("!HH", source_port, target_port), "little")
    return (*address(source), *address(target), ports << 32 | 17 << 16)


@pytest.mark.parametrize("secret", [b"", SECRET])
def test_datagrams_that_are_wrong_are_counted_and_change_nothing(secret):
    raw = Raw(secret)
    raw.app.send(0, [udp(A, B, payload=b"first")])
    assert len(raw.heard()) == 1
    again = raw.pause(rate=10**9)
    assert raw.row["pauses_received"] == 1
    raw.put(again)
    assert raw.row["duplicates"] == 1 and raw.row["pauses_received"] == 1
    late = raw.peer.send(PAUSE, struct.pack("<7Q", *flow_key(), 4_000_000, 1000), raw.clock.ns)
    raw.pause(rate=10**9)
    raw.put(late)  # overtaken by a later one
    assert raw.row["old_pauses"] == 1 and raw.row["pauses_received"] == 2
    raw.put(again[:39])
    raw.say(bytes(8), PAUSE)
    assert raw.row["truncated"] == 2
    harmed = bytearray(raw.peer.send(PAUSE, struct.pack("<7Q", *flow_key(), 4_000_000, 1000), raw.clock.ns))
    for at in (17, 25, 33, 60) if secret else (17, 25, 33):
        harmed[at] ^= 1
        raw.put(bytes(harmed))
        harmed[at] ^= 1
    assert raw.row["forged"] == (4 if secret else 3)
    for at, counter in ((2, "other_version"), (3, "forged"), (8, "other_session")):
        before = raw.row[counter]
        harmed[at] ^= 0x40
        raw.put(bytes(harmed))
        harmed[at] ^= 0x40
        assert raw.row[counter] == before + 1
    raw.put(b"\xff" * 6 + b"\2" + bytes(5) + b"\x88\xb5" + bytes(88))  # of a switch that has no sessions
    raw.put(bytes(harmed[:3]) + bytes([harmed[3] | 0x80]) + bytes(harmed[4:]))
    assert raw.row["other_version"] == 2 and raw.row["other_super_frames"] == 1
    raw.pause(ns=4_000_000, rate=1000, key=flow_key(source_port=9))
    assert raw.row["unknown_flow"] == 1 and raw.row["pauses_received"] == 2
    raw.app.send(0, [udp(A, B, payload=b"second")])
    assert any(f.endswith(b"second") for f in raw.heard())
    raw.pause(ns=1 << 63, rate=MASK)  # a negative time: at once, and as fast as can be
    raw.app.send(0, [udp(A, B, payload=b"third")])
    assert any(f.endswith(b"third") for f in raw.heard()) and raw.row["pauses_received"] == 3


def test_a_pause_holds_a_flow_and_no_other():
    raw = Raw()
    raw.app.send(0, [udp(A, B, payload=b"first")])
    raw.app.send(1, [udp(A, B, 7, payload=b"other")])
    raw.heard()
    raw.pause(ns=5_000_000)
    began = raw.clock.ns
    raw.app.send(0, [udp(A, B, payload=b"second")])
    raw.app.send(1, [udp(A, B, 7, payload=b"another")])
    seen = {}
    while b"second" not in seen:
        for frame in raw.heard():
            seen[frame[42:]] = raw.clock.ns - began
        assert raw.clock.ns < began + 100_000_000
    assert seen[b"second"] > 3_000_000 and seen[b"another"] < seen[b"second"]


def test_a_rate_is_kept_and_forgotten_after_a_second():
    raw = Raw()
    raw.app.send(0, [udp(A, B, payload=b"first")])
    raw.heard()
    raw.pause(rate=100_000)  # 100 frames of 1000 B per second
    assert raw.app.send(0, [udp(A, B, payload=bytes(958))] * 400) == 400
    began, came = raw.clock.ns, []
    while len(came) < 400:
        raw.clock.ns += 100_000
        came.extend([(raw.clock.ns - began) / 1e9] * len(raw.heard()))
        assert raw.clock.ns < began + 8 * 10**9
    assert 0.4 < came[60] < 1.2 and came[-1] - came[150] < 0.5, "slowly at first, all at once when the rate is forgotten"


def test_a_rate_is_kept_at_any_polling_interval():
    """A switch that runs every 7 us sends what the rate allows for that time, not less."""
    raw = Raw()
    raw.app.send(0, [udp(A, B, payload=b"first")])
    raw.heard()
    raw.pause(rate=200_000_000)  # 200 frames of 1000 B in a millisecond
    frames, came = [udp(A, B, payload=bytes(958))] * 20, 0
    for _ in range(600):
        raw.app.send(0, frames)
        raw.turn(1, 7000)
        came += sum(len(content) == 1000 for _, content in raw.heard_of)
        raw.heard_of = []
    assert came == pytest.approx(200 * 4.2, rel=0.02)


def test_a_slow_flow_of_small_frames_leaves_buffers_to_others_and_finds_out_that_it_may_go_faster():
    """512 frames of 64 B are less than th_over, yet all that there is for frames from the other switch."""
    servers = Servers({"mode": "backdraft"}, "10Gbps", overlay=True)
    sender = servers.near.app("sender", queues=4)
    receiver = servers.far.app("receiver", queues=64, service=[1000 / 3])
    servers.connect()
    servers.udp(sender, receiver, 1000, 64, gap=100, most=1 << 20)
    servers.run(5)  # less than the 20 ms between two rates that are told
    servers.far.harness.service(receiver, 0, 1000 / 6)
    servers.run(3)
    rates = []
    for _ in range(40):
        servers.reset()
        servers.run(1)
        rates.append(servers.far.rate(receiver))
    counts = servers.totals()
    servers.close()
    assert counts["server frames"] == counts["network frames"] == 0, "the link was read all the time"
    assert min(rates) > 0.9 * 6 and sum(rates[-15:]) > 0.98 * 6 * 15, "and the receiver was busy"
    assert 2 <= counts["overlay pauses"] < 100


@pytest.mark.parametrize(("length", "gbps"), [(500, 2.0), (1500, 4.0)])
def test_a_queue_above_its_goal_is_no_reason_to_send_at_half_the_rate(length, gbps):
    """A rate is kept for 20 ms, a queue of 50 KB lasts 0.1 to 0.2: a pause for the queue, and then the receiver's rate."""
    servers = Servers({"mode": "backdraft"}, "10Gbps", overlay=True)
    sender = servers.near.app("sender", queues=4, buffers=1024, buffer_bytes=1536)
    receiver = servers.far.app("receiver", queues=64, buffers=1024, buffer_bytes=1536, service=[8 * length / gbps])
    servers.connect()
    servers.udp(sender, receiver, 1000, length, gap=8 * length / 8, most=1 << 20)
    servers.run(5)
    rates = []
    for _ in range(60):
        servers.reset()
        servers.run(1)
        rates.append(servers.far.goodput(receiver))
    pauses = servers.totals()["overlay pauses"]
    servers.close()
    assert min(rates) > 0.95 * gbps and pauses < 40


def test_what_looks_like_a_message_of_the_protocol_is_a_frame_as_any_other():
    raw = Raw()
    raw.switch.set_addresses(1, ["02:00:00:00:00:02"])
    raw.switch.set_addresses(0, ["02:00:00:00:00:01"])
    frame = bytes.fromhex("02000000000202000000000188b5") + bytes(88)
    raw.app.send(0, [frame])
    assert raw.heard() == [frame]
    assert raw.row["pauses_received"] == 0


def test_loss_on_the_way_does_not_use_up_the_window():
    """A fifth is lost; a multiple of the window gets through, and the window stays."""
    pair = Pair(loss=0.2, window=200_000)
    frame, got, sent = udp(A, B, payload=os.urandom(900)), 0, 0

    def done():
        nonlocal got, sent
        sent += pair.apps[0].send(0, [frame] * min(20, 4000 - sent))
        got += len(pair.apps[1].receive(1000))
        row = pair.rows()[0]
        return sent == 4000 and row["under_way"] == 0 and pair.switches[0].ports()[1]["device"]["frames_out"] >= 4000

    pair.until(done, 60)
    pair.turn(0.01)
    got += len(pair.apps[1].receive(5000))
    near, far = pair.rows()
    assert 2800 < got < 3600 and near["asked"] > 1
    assert far["lost_on_the_way"] > 0 and near["granted"] >= 199_000 and far["window_cuts"] == 0


def test_a_peer_that_begins_anew():
    """Killed and started again under load: what the old one was permitted does not matter (it never recovered before)."""
    raw = Raw(window=20_000)
    raw.app.send(0, [udp(A, B, payload=bytes(900))] * 30)
    raw.switch.turn_at(raw.clock.ns)
    in_flight = 0
    for _ in range(20):  # the peer is stopped: nobody takes anything
        raw.clock.ns += 1000
        raw.switch.turn_at(raw.clock.ns)
    while (datagram := raw.wire.receive()) is not None:
        in_flight += len(datagram) > 900
    assert 3 <= in_flight < 10 and raw.row["under_way"] <= 20_000, "no more than was permitted"
    raw.restart()
    for _ in range(100):
        raw.turn(20)
    assert len(raw.heard()) == 30 - in_flight and raw.row["sessions"] == 2


def tcp(payload, flags=0x18, version=4, sequence=1000, options=b"\1\1\x08\x0a" + bytes(8), vlan=b""):
    """A TCP super-frame with a virtio_net_hdr, its check sum left to the network card."""
    head = struct.pack("!HHIIBBHHH", 1000, 2000, sequence, 77, (20 + len(options)) << 2, flags, 500, 0, 0) + options
    if version == 4:
        ip = struct.pack(
            "!BBHHHBBH4s4s",
            0x45,
            0,
            20 + len(head) + len(payload),
            9,
            0x4000,
            64,
            6,
            0,
            bytes([10, 0, 0, 1]),
            bytes([10, 0, 0, 2]),
        )
    else:
        ip = struct.pack("!IHBB16s16s", 6 << 28, len(head) + len(payload), 6, 64, bytes(15) + b"\1", bytes(15) + b"\2")
    ethernet = bytes.fromhex("0200000000020200000000010800") if version == 4 else bytes.fromhex("02000000000202000000000186dd")
    ethernet = ethernet[:12] + (b"\x81\0\0\5" if vlan else b"") + ethernet[12:]
    at = len(ethernet) + len(ip)
    virtio = struct.pack("<BBHHHH", 1, 1 if version == 4 else 4, at + len(head), 1448, at, 16)
    return virtio + ethernet + ip + head + payload


def checked(frame):
    """A segment as a network card sends it, taken apart, its lengths and check sums verified: (flags, sequence, id, payload)."""

    def folded(data):
        total = sum(struct.unpack(f"!{len(data) // 2}H", data))
        while total >> 16:
            total = (total & 0xFFFF) + (total >> 16)
        return total

    flags, kind, head, _, start, offset = struct.unpack_from("<BBHHHH", frame)
    assert (flags, kind, offset) == (1, 0, 16)
    wire = frame[10:]
    at = 18 if wire[12:14] == b"\x81\0" else 14
    if wire[at - 2 : at] == b"\x08\0":
        ip = wire[at : at + 20]
        assert folded(ip) == 0xFFFF and struct.unpack_from("!H", ip, 2)[0] == len(wire) - at
        pseudo, number, segment = ip[12:20], struct.unpack_from("!H", ip, 4)[0], wire[at + 20 :]
    else:
        ip = wire[at : at + 40]
        assert struct.unpack_from("!H", ip, 4)[0] == len(wire) - at - 40
        pseudo, number, segment = ip[8:40], 0, wire[at + 40 :]
    assert struct.unpack_from("!H", segment, 16)[0] == folded(pseudo + struct.pack("!HH", 6, len(segment)))
    length = segment[12] >> 4 << 2
    assert head == start + length
    return segment[13], struct.unpack_from("!I", segment, 4)[0], number, segment[length:]


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("vlan", [b"", b"v"])
def test_super_frames_are_cut_into_segments_and_joined_again(version, vlan):
    payload, cutter = os.urandom(40_000), Cutter()
    frame = tcp(payload, 0x99, version, 0xFFFFF000, vlan=vlan)  # CWR, ACK, PSH, FIN; the sequence numbers wrap around
    segments = cutter.segments(frame, 1432)
    found = [checked(segment) for segment in segments]
    assert max(map(len, segments)) == 1432 and b"".join(data for *_, data in found) == payload
    at = 0
    for i, (flags, sequence, number, data) in enumerate(found):
        last = i == len(found) - 1
        assert flags == 0x10 | (0x80 if i == 0 else 0) | (0x09 if last else 0)
        assert sequence == (0xFFFFF000 + at) % 2**32 and number == (9 + i if version == 4 else 0)
        at += len(data)
    plain = tcp(payload, 0x18, version, 0xFFFFF000, vlan=vlan)
    parts = cutter.segments(plain, 1432)
    (again,) = cutter.join(parts)
    assert struct.unpack_from("<H", again, 4)[0] == len(checked(parts[0])[3])
    at = len(plain) - len(payload) - 32
    assert again[10 : at + 16] == plain[10 : at + 16] if version == 6 else again[22 : at - 10] != b""
    assert again[at + 18 :] == plain[at + 18 :] and len(again) == len(plain)
    assert cutter.segments(again, 1432) == parts, "and what was joined is cut the same way"


def test_only_what_belongs_together_is_joined():
    cutter = Cutter()
    a, b, c, d = cutter.segments(tcp(os.urandom(5000)), 1500)
    assert len(cutter.join([a, b, c, d])) == 1
    assert cutter.join([a, c, d]) == [a, *cutter.join([c, d])], "one is missing"
    first, _ = cutter.segments(tcp(bytes(1000), 0x10, 6, 0), 10 + 86 + 600)  # headers: Ethernet, IPv6, TCP with its options
    (long,), (short,) = (cutter.segments(tcp(bytes(size), 0x10, 6, 600), 1500) for size in (700, 500))
    assert cutter.join([first, long]) == [first, long] and len(cutter.join([first, short])) == 1, "none is longer than the first"
    assert cutter.join([b, a]) == [b, a] and cutter.join([a, a]) == [a, a]
    for at in (10, 25, 32, 36, 44, 52, 57, 58, 69):  # addresses, TOS, TTL, ports, acknowledgement, flags, window, options
        other = bytearray(b)
        other[at] ^= 4
        assert cutter.join([a, bytes(other)]) == [a, bytes(other)], at
    assert len(cutter.join([d, a])) == 2, "nothing follows a PSH"
    assert cutter.segments(udp(A, B, payload=bytes(2000)).rjust(2060, b"\0"), 1500) is None
    assert cutter.segments(tcp(b"x" * 3000)[:-1], 1500) is None, "not whole"


def test_any_bytes_can_be_cut_and_joined():
    rng, cutter = random.Random(8), Cutter()
    base = tcp(os.urandom(3000))
    pieces = cutter.segments(base, 1500)
    for _ in range(20_000):
        frame = bytearray(rng.choice((base, *pieces)))
        for _ in range(rng.choice((1, 2, 6))):
            frame[rng.randrange(min(len(frame), 90))] = rng.randrange(256)
        frame = bytes(frame[: rng.choice((len(frame), rng.randrange(24, len(frame))))])
        for segment in cutter.segments(frame, rng.choice((200, 1500))) or []:
            assert len(segment) <= 1500
        assert sum(map(len, cutter.join([pieces[0], frame, pieces[1]]))) <= len(pieces[0]) + len(frame) + len(pieces[1])


def test_what_a_specification_says_of_devices():
    assert validate_device({}, "port 1") == {}
    assert validate_device({"kind": "tap", "device": "tap0", "name": "a"}, "port 1") == {"kind": "tap", "device": "tap0"}
    for wrong, match in (
        ({"kind": "tab"}, 'port 1.kind = "tab": must be one of shm, .*; did you mean "tap"'),
        ({"kind": "tap"}, "port 1.device: is missing; a port of kind tap needs it"),
        ({"kind": "udp", "local": "1.1.1.1:1"}, "port 1.peer: is missing; a port of kind udp needs it"),
        ({"kind": "udp", "local": "a", "peer": "b", "secret": "12"}, "32 hexadecimal digits"),
        ({"kind": "tap", "device": 3}, "must be a name"),
        ({"kind": "tap", "device": "t", "netns": "../x"}, "must be a name"),
        ({"kind": "tap", "device": "t", "prefix": 129}, "prefix"),
    ):
        with pytest.raises(SpecError, match=match):
            validate_device(wrong, "port 1")


@pytest.mark.parametrize("secret", [b"", SECRET])
def test_anything_may_come_over_the_wire(secret):
    """Datagrams with any words and of any length, of every kind: counted, and valid traffic goes on."""
    rng, raw = random.Random(5), Raw(secret)
    session = struct.unpack_from("<Q", raw.pause(), 8)[0]
    before = raw.row
    for _ in range(4000):
        words = [0x5350 | 2 << 16 | rng.randrange(12) << 24 | rng.getrandbits(32) << 32]
        words += [rng.choice((0, 1, session, rng.getrandbits(64))) for _ in range(4)]
        data = struct.pack("<5Q", *words) + rng.randbytes(rng.choice((0, 56, 200)))
        raw.wire.send(data[: rng.choice([len(data)] * 3 + [rng.randrange(14, len(data) + 1)])])
        if rng.random() < 0.05:
            raw.turn(5)
            raw.app.receive(1000)
    raw.turn(50)
    row = raw.row
    assert row["truncated"] > 10 and row["forged"] > 100 and row["other_session"] > 100
    for key in ("pauses_received", "sessions", "state"):
        assert row[key] == before[key], "nobody is believed"
    raw.app.send(9, [udp(A, B, 4242, payload=b"still there")])
    assert any(f.endswith(b"still there") for f in raw.heard())


@pytest.mark.parametrize("kinds", [(FIRST, LAST), (FIRST, 7, LAST)])
def test_a_frame_in_parts_is_put_together_if_all_of_it_comes_in_order(kinds):
    raw = Raw()
    frame = udp(B, A, payload=os.urandom(900))
    size = -(-len(frame) // len(kinds))
    pieces = [frame[i * size : (i + 1) * size] for i in range(len(kinds))]
    for kind, piece in zip(kinds, pieces):
        raw.say(piece, kind)
    assert [f for _, f in raw.app.receive(10)] == [frame]
    made = [raw.peer.send(kind, piece, raw.clock.ns) for kind, piece in zip(kinds, pieces)]
    for datagram in (*made[1:], made[0]):
        raw.put(datagram)
    for kind, piece in zip(kinds, pieces):
        raw.say(piece, kind)
    assert [f for _, f in raw.app.receive(10)] == [frame] and raw.row["parts_lost"] == 1


class Small(Device):
    """A device with eight queues to the switch."""

    @property
    def shape(self):
        return {**Device.shape.fget(self), "queues": 8}


def test_queues_of_flows_that_have_gone_are_given_to_others():
    """Hundreds of flows one after another through eight queues; and more than eight at a time share them."""
    left, wire = open_link(rate="10Gbps", delay="1ns", headers=False)
    switch, app = Switch(idle="1ms"), Region.create(queues=64)
    switch.attach("app", Region.attach(app.fd, app.shape), [A])
    attach_device(switch, "wire", Small(left), [B])

    def come(ports):
        for port in ports:
            assert wire.send(udp(B, A, port, payload=b"%d" % port))
        end, found = time.monotonic() + 120, []
        while len(found) < len(ports):
            switch.turns(20)
            found += [payload_of(frame) for _, frame in app.receive(100)]
            assert time.monotonic() < end, (ports, found)
        return found

    for k in range(60):
        ports = range(1000 + 6 * k, 1006 + 6 * k)
        assert sorted(come(ports)) == sorted(b"%d" % port for port in ports)
        assert switch.ports()[1]["device"]["shared_queues"] == 0
        end = time.monotonic() + 120
        while switch.flows() or any(switch.drivers[1].behind()):  # until all of them are forgotten
            app.receive(1)
            switch.turns(20)
            assert time.monotonic() < end
    assert len(come(range(5000, 5020))) == 20
    assert switch.ports()[1]["device"]["shared_queues"] > 0


def test_a_low_rate_is_soon_raised_again():
    """The receiver is slow, then fast; a peer that sends slightly below its rate soon gets a higher one."""
    raw = Raw()
    frame, told = udp(B, A, payload=bytes(958)), []

    def pass_by(us, every, takes):
        """Run for a time (us) with a frame per interval (us); the application takes a number of frames every 100 us."""
        for now in range(0, us, 5):
            if now % every == 0:
                datagram = raw.peer.send(FRAME, frame, raw.clock.ns)
                assert datagram is None or raw.wire.send(datagram)
            if now % 100 == 0:
                raw.app.receive(takes)
            raw.turn(1, 5000)
            told.extend((raw.clock.ns, struct.unpack("<7Q", content)[6]) for kind, content in raw.heard_of if kind == PAUSE)
            raw.heard_of = []

    while not told:
        pass_by(100, 10, 4)  # 100 MB/s come, 40 MB/s are taken
    rate = told[-1][1]
    assert 20e6 < rate < 60e6, "it is told the receiver's rate"
    pass_by(5_000, 10**9, 4)  # it rests, and what waits is taken
    gap, before, start = round(1000 / (0.75 * rate / 1e6) / 5) * 5, len(told), raw.clock.ns
    pass_by(3_000, gap, 2)  # slower still, for a moment
    pass_by(60_000, gap, 100)
    assert told[before:] and told[-1][1] > 1.2 * rate and told[before][0] - start < 40_000_000


@pytest.mark.parametrize("cycles", [0, 500, 5000])
def test_pause_frames_are_few_beside_a_receiver_with_so_many_cycles_per_packet(cycles):
    """300 000 frames/s are for a receiver that spends so long on each, under a virtual clock: one pause frame for 100 frames."""
    servers = Servers({"mode": "backdraft"}, "10Gbps", overlay=True)
    shape = {"buffers": 4096, "rings": 1024, "buffer_bytes": 256}
    client = servers.near.app("client", **shape)
    slow = servers.far.app("slow", service=[cycles / 2.4], **shape)
    fast = servers.far.app("fast", **shape)
    servers.connect()
    servers.udp(client, slow, 1000, 200, queue=0, gap=3333)
    servers.udp(client, fast, 1001, 200, queue=1, gap=50_000)
    servers.run(200)
    got = [servers.far.harness.received(number)[0] for number in (slow, fast)]
    counts = servers.totals()
    servers.close()
    assert got[0] > 50_000 and got[1] > 3900, "the victim goes on at its rate"
    assert counts["overlay pauses"] < 0.01 * got[0] and not counts["drops at switches"] and not counts["drops in the network"]
