"""Two switches and the link between them, turn by turn: pause frames, grants, and invalid control frames."""

import os
import random
import struct
import time

import pytest
from frames import payload_of, udp
from waiting import Stopwatch

from penstock.errors import SpecError
from penstock.vswitch.attach.devices import Device, validate_device
from penstock.vswitch.attach.open import open_link
from penstock.vswitch.bench.two_switches import Servers
from penstock.vswitch.dataplane.driver import attach_device
from penstock.vswitch.dataplane.switch import Switch
from penstock.vswitch.memory.region import Region
from penstock.vswitch.ports.base import Clock

A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"
SECRET = bytes(range(16))
MASK = (1 << 64) - 1
KIND = 0x4B4F5453 << 32 | 1 << 8
PAUSE, GRANT, SYNC = 1, 2, 3


def siphash(key, data):
    """SipHash-2-4 as its authors describe it."""

    def turned(x, n):
        return (x << n | x >> (64 - n)) & MASK

    def turns(v, n):
        a, b, c, d = v
        for _ in range(n):
            a, c = (a + b) & MASK, (c + d) & MASK
            b, d = turned(b, 13) ^ a, turned(d, 16) ^ c
            a = turned(a, 32)
            a, c = (a + d) & MASK, (c + b) & MASK
            d, b = turned(d, 21) ^ a, turned(b, 17) ^ c
            c = turned(c, 32)
        return [a, b, c, d]

    k0, k1 = struct.unpack("<2Q", key)
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]
    padded = data + bytes(7 - len(data) % 8) + bytes([len(data) % 256])
    for (m,) in struct.iter_unpack("<Q", padded):
        v[3] ^= m
        v = turns(v, 2)
        v[0] ^= m
    v[2] ^= 0xFF
    a, b, c, d = turns(v, 4)
    return a ^ b ^ c ^ d


def test_the_hash_is_siphash():
    assert siphash(SECRET, b"").to_bytes(8, "little").hex() == "310e0edd47db6f72"
    assert siphash(SECRET, bytes(range(8))).to_bytes(8, "little").hex() == "6224939a79f5f593"


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
    assert pair.rows()[0]["greeted"] and pair.rows()[1]["greeted"]


def test_nothing_is_sent_before_the_first_control_frame_of_the_peer():
    pair = Pair()
    pair.apps[0].send(0, [udp(A, B, payload=b"x")])
    for _ in range(50):
        pair.switches[0].turns(10)
    row = pair.switches[0].ports()[1]["device"]
    assert not row["overlay"]["greeted"] and row["overlay"]["asked"] >= 1 and row["frames_out"] == row["overlay"]["asked"]
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
        watch = Stopwatch()
        assert pair.apps[0].send(1, [fast]) == 1
        pair.until(lambda: pair.apps[1].receive(1))
        took.append(watch.elapsed())
    assert not pair.drops() and got > 3000, "the slow one was kept busy"
    near, far = pair.rows()
    assert 1 <= far["pauses_sent"] < 200 and far["pauses_sent"] <= near["pauses_received"] + 1
    assert sorted(took)[len(took) // 2] < 0.01 and len(took) > 50
    flows = {f["target"]: f for f in pair.switches[1].flows()}
    assert flows[C]["longest_bytes"] < 256_000 and flows[B]["pauses"] == 0


class Raw:
    """A switch at one end of a link, and the other end in our hands."""

    def __init__(self, secret=b"", clock=None):
        left, self.wire = open_link(rate="10Gbps", delay="1ns", headers=False, clock=clock)
        self.clock = clock
        self.switch, self.app = Switch(), Region.create()
        self.switch.attach("app", Region.attach(self.app.fd, self.app.shape), [A])
        attach_device(self.switch, "wire", Device(left, window=1 << 20, secret=secret), [B])
        self.secret, self.sequence = secret, 0

    def say(self, kind, a=0, b=0, key=(0,) * 5, epoch=10, sequence=None, tag=None, cut=None):
        self.sequence = sequence = self.sequence + 1 if sequence is None else sequence
        words = struct.pack("<10Q", KIND | kind, epoch, sequence, *key, a, b)
        if tag is None:
            tag = siphash(self.secret, words) if self.secret else 0
        frame = b"\xff" * 6 + b"\2" + bytes(5) + b"\x88\xb5" + words + struct.pack("<Q", tag)
        assert self.wire.send(frame[:cut])
        self.turn(20)

    def turn(self, turns):
        if self.clock is None:
            time.sleep(0.00002)
            self.switch.turns(turns)
            return
        for _ in range(turns):
            self.clock.ns += 1000
            self.switch.turn_at(self.clock.ns)

    def heard(self):
        self.turn(5)
        frames = []
        while (frame := self.wire.receive()) is not None:
            frames.append(frame)
        return [f for f in frames if f[12:14] != b"\x88\xb5"]

    @property
    def row(self):
        return self.switch.ports()[1]["device"]["overlay"]


def flow_key(source=A, target=B, source_port=1000, target_port=2000):
    def address(text):
        return 0, int.from_bytes(b"\0\0\xff\xff" + bytes(map(int, text.split("."))), "little")

    ports = int.from_bytes(struct.pack("!HH", source_port, target_port), "little")
    return (*address(source), *address(target), ports << 32 | 17 << 16)


@pytest.mark.parametrize("secret", [b"", SECRET])
def test_control_frames_that_are_wrong_are_counted_and_change_nothing(secret):
    raw = Raw(secret)
    raw.say(GRANT, b=1 << 20)
    raw.app.send(0, [udp(A, B, payload=b"first")])
    assert len(raw.heard()) == 1 and raw.row["greeted"]
    raw.say(PAUSE, a=4_000_000, b=1000, key=flow_key(), sequence=1)  # again
    raw.say(PAUSE, a=4_000_000, b=1000, key=flow_key(), epoch=9, sequence=100)  # of an earlier life
    assert raw.row["replayed"] == 2
    raw.sequence = 100
    raw.say(PAUSE, a=4_000_000, b=1000, key=flow_key(), cut=60)
    raw.say(PAUSE, a=4_000_000, b=1000, key=flow_key(), cut=101)
    assert raw.row["truncated"] == 2
    raw.say(7, key=flow_key())
    raw.say(PAUSE | 1 << 34, key=flow_key())
    assert raw.row["forged"] == 2
    if secret:
        raw.say(PAUSE, a=4_000_000, b=1000, key=flow_key(), tag=1)
        assert raw.row["forged"] == 3
    raw.say(PAUSE, a=4_000_000, b=1000, key=flow_key(source_port=9))
    assert raw.row["unknown_flow"] == 1 and raw.row["pauses_received"] == 0
    raw.app.send(0, [udp(A, B, payload=b"second")])
    assert any(f.endswith(b"second") for f in raw.heard())
    raw.say(PAUSE, a=1 << 63, b=MASK, key=flow_key())  # a negative time: at once, and as fast as can be
    raw.app.send(0, [udp(A, B, payload=b"third")])
    assert any(f.endswith(b"third") for f in raw.heard()) and raw.row["pauses_received"] == 1


def test_a_pause_holds_a_flow_and_no_other():
    raw = Raw(clock=Clock(1_000_000))
    raw.say(GRANT, b=1 << 20)
    raw.app.send(0, [udp(A, B, payload=b"first")])
    raw.app.send(1, [udp(A, B, 7, payload=b"other")])
    raw.heard()
    raw.say(PAUSE, a=5_000_000, key=flow_key())
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
    raw = Raw(clock=Clock(1_000_000))
    raw.say(GRANT, b=1 << 30)
    raw.app.send(0, [udp(A, B, payload=b"first")])
    raw.heard()
    raw.say(PAUSE, a=0, b=100_000, key=flow_key())  # 100 frames of 1000 B per second
    assert raw.app.send(0, [udp(A, B, payload=bytes(958))] * 400) == 400
    began, came = raw.clock.ns, []
    while len(came) < 400:
        raw.clock.ns += 100_000
        came.extend([(raw.clock.ns - began) / 1e9] * len(raw.heard()))
        assert raw.clock.ns < began + 8 * 10**9
    assert 0.4 < came[60] < 1.2 and came[-1] - came[150] < 0.5, "slowly at first, all at once when the rate is forgotten"


def test_a_rate_is_kept_at_any_polling_interval():
    """A switch that runs every 7 us sends what the rate allows for that time, not less."""
    raw = Raw(clock=Clock(1_000_000))
    raw.say(GRANT, b=1 << 30)
    raw.app.send(0, [udp(A, B, payload=b"first")])
    raw.heard()
    raw.say(PAUSE, a=0, b=200_000_000, key=flow_key())  # 200 frames of 1000 B in a millisecond
    frames, came = [udp(A, B, payload=bytes(958))] * 20, []
    for _ in range(600):
        raw.app.send(0, frames)
        raw.clock.ns += 7000
        raw.switch.turn_at(raw.clock.ns)
        while (frame := raw.wire.receive()) is not None:
            came.append(len(frame) == 1000)
    assert sum(came) == pytest.approx(200 * 4.2, rel=0.02)


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


def test_applications_cannot_send_control_frames_to_the_other_switch():
    raw = Raw()
    raw.switch.set_addresses(1, ["02:00:00:00:00:02"])
    raw.switch.set_addresses(0, ["02:00:00:00:00:01"])
    raw.say(GRANT, b=1 << 20)
    raw.heard()
    raw.app.send(0, [bytes.fromhex("02000000000202000000000188b5") + bytes(88)])
    assert raw.heard() == [] and raw.switch.ports()[1]["device"]["refused_out"] == 1


def test_loss_on_the_way_does_not_use_up_the_window():
    pair = Pair(loss=0.2, window=200_000)
    frame, got, sent = udp(A, B, payload=os.urandom(900)), 0, 0

    def done():
        nonlocal got, sent
        sent += pair.apps[0].send(0, [frame] * min(20, 4000 - sent))
        got += len(pair.apps[1].receive(1000))
        row = pair.rows()[0]
        return sent == 4000 and row["under_way"] == 0 and pair.switches[0].ports()[1]["device"]["frames_out"] >= 4000

    pair.until(done, 30)
    pair.turn(0.01)
    got += len(pair.apps[1].receive(5000))
    near, far = pair.rows()
    assert 2800 < got < 3600 and near["asked"] > 1, "a fifth was lost, a multiple of the window got through"
    assert far["lost_on_the_way"] > 0 and near["limit"] < 1 << 22, "and less is put under way"


def test_a_peer_that_begins_anew():
    raw = Raw()
    raw.say(GRANT, b=20_000)
    raw.app.send(0, [udp(A, B, payload=bytes(900))] * 30)
    first = raw.heard()
    assert 3 <= len(first) < 30, "no more than was granted"
    raw.say(SYNC, epoch=11, sequence=1)
    raw.say(GRANT, b=1 << 20, epoch=11, sequence=2)
    rest = raw.heard()
    assert len(first) + len(rest) == 30


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
    """Control frames with any words and of any length, frames with any bytes: counted, and valid traffic goes on."""
    rng, raw = random.Random(5), Raw(secret)
    raw.say(GRANT, b=1 << 30)
    base = bytearray(udp(B, A, payload=bytes(40)))
    for _ in range(4000):
        if rng.random() < 0.5:
            frame = bytearray(b"\xff" * 12 + b"\x88\xb5" + struct.pack("<Q", KIND | rng.randrange(5)) + rng.randbytes(80))
            if rng.random() < 0.5:
                frame[22:38] = struct.pack("<QQ", 10, rng.choice([rng.getrandbits(64), raw.sequence + 1]))
        else:
            frame = bytearray(base)
        for _ in range(rng.choice([0, 1, 3, 10])):
            frame[rng.randrange(len(frame))] = rng.randrange(256)
        raw.wire.send(bytes(frame[: rng.choice([len(frame)] * 3 + [rng.randrange(14, len(frame) + 1)])]))
        if rng.random() < 0.05:
            raw.switch.turns(5)
            raw.app.receive(1000)
            raw.heard()
    raw.switch.turns(50)
    device, row = raw.switch.ports()[1]["device"], raw.row
    assert row["truncated"] > 10 and row["forged"] > 100 and device["malformed"] > 10
    if secret:
        assert row["pauses_received"] == 0 and row["grants_received"] == 1, "nobody without the secret is believed"
    raw.say(SYNC, epoch=MASK, sequence=1)
    raw.say(GRANT, b=1 << 30, epoch=MASK, sequence=2)
    raw.app.send(9, [udp(A, B, 4242, payload=b"still there")])
    if secret:
        assert any(f.endswith(b"still there") for f in raw.heard())


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
    clock = Clock(10**9)
    left, wire = open_link(rate="10Gbps", delay="1ns", headers=False, clock=clock)
    switch, app = Switch(), Region.create(buffers=2048)
    switch.attach("app", Region.attach(app.fd, app.shape), [A])
    attach_device(switch, "wire", Device(left, window=1 << 30), [B])
    frame, told = udp(B, A, payload=bytes(958)), []

    def pass_by(us, every, takes):
        """Run for a time (us) with a frame per interval (us); the application takes a number of frames every 100 us."""
        for now in range(0, us, 5):
            if now % every == 0:
                assert wire.send(frame)
            if now % 100 == 0:
                app.receive(takes)
            clock.ns += 5000
            switch.turn_at(clock.ns)
            while (said := wire.receive()) is not None:
                words = struct.unpack("<11Q", said[14:])
                if words[0] & 0xFF == PAUSE:
                    told.append((clock.ns, words[9]))

    while not told:
        pass_by(100, 10, 4)  # 100 MB/s come, 40 MB/s are taken
    rate = told[-1][1]
    assert 20e6 < rate < 60e6, "it is told the receiver's rate"
    pass_by(5_000, 10**9, 4)  # it rests, and what waits is taken
    gap, before, start = round(1000 / (0.75 * rate / 1e6) / 5) * 5, len(told), clock.ns
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
