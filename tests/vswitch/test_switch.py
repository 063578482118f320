"""The worker, driven turn by turn from this process: modes, thresholds, flows, schedules, and misbehaving applications."""

import mmap
import os
import time

import numpy as np
import pytest
from frames import payload_of, udp
from waiting import until

from penstock_net.errors import SpecError
from penstock_net.vswitch.dataplane.switch import Switch
from penstock_net.vswitch.memory.region import Region
from penstock_net.vswitch.support.settings import DEFAULTS, address_text, address_words, validate_settings

A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"
LOSSLESS = ["pfc", "dpfq", "backdraft"]


def switch_of(*addresses, shape=None, **settings):
    """A switch with a port per address, and the applications' regions."""
    switch, apps = Switch(**settings), []
    for i, address in enumerate(addresses):
        app = Region.create(**(shape or {}))
        switch.attach("abcdefgh"[i], Region.attach(app.fd, app.shape), [address] if isinstance(address, str) else address)
        apps.append(app)
    return switch, *apps


def drops(switch, port=0):
    return switch.ports()[port]["drops"]


def number(frame):
    return int(payload_of(frame))


def test_frames_come_out_as_they_went_in():
    """Of every size, over IPv4, IPv6 and neither, by their addresses; each flow in a receive queue of its own."""
    switch, a, b, c = switch_of([A, "fd00::1", "04:00:00:00:00:01"], B, [C, "fd00::3", "04:00:00:00:00:03"])
    for size in (0, 1, 22, 64, 85, 86, 87, 100, 1400, 2006):
        frame = udp(A, B, payload=os.urandom(size))
        assert a.send(0, [frame]) == 1
        switch.turns(1)
        assert b.receive() == [(0, frame)], size
    six = udp("fd00::1", "fd00::3", payload=b"six")
    other = bytes.fromhex("04000000000304000000000188b5") + b"other"
    assert a.send(1, [six, udp(A, C), other, udp(A, C, 7)]) == 4
    switch.turns(1)
    assert c.receive() == [(0, six), (1, udp(A, C)), (2, other), (3, udp(A, C, 7))]
    rows = {(f["source"], f["source_port"], f["target"], f["target_port"], f["protocol"]) for f in switch.flows()}
    assert rows == {
        (A, 1000, B, 2000, 17),
        ("fd00::1", 1000, "fd00::3", 2000, 17),
        (A, 1000, C, 2000, 17),
        (A, 7, C, 2000, 17),
        ("04:00:00:00:00:01", 0, "04:00:00:00:00:03", 0, 0),
    }
    assert not drops(switch) and a.protocol_errors == b.protocol_errors == 0


def edited(frame, **bytes_at):
    raw = bytearray(frame)
    for at, value in bytes_at.items():
        raw[int(at[1:])] = value
    return bytes(raw)


GOOD = udp(A, B, payload=b"0123456789")
BAD = {
    "malformed": [
        b"x",
        GOOD[:13],
        GOOD[:30],
        GOOD[:41],
        edited(GOOD, _14=0x44),
        edited(GOOD, _14=0x55),
        edited(GOOD, _14=0x4F),
        edited(GOOD, _16=2),
        edited(GOOD, _17=24),
        udp("fd00::1", "fd00::2")[:50],
        edited(udp("fd00::1", "fd00::2"), _14=0x40),
        edited(GOOD, _23=6),
        GOOD[:12] + b"\x81\x00\x00",
        GOOD[:12] + b"\x81\x00\x00\x01\x08\x00" + GOOD[14:30],
    ],
    "spoofed": [udp(C, B), udp("10.9.9.9", B)],
    "no_route": [udp(A, "10.0.0.9"), udp("fd00::1", "fd00::2"), b"\xff" * 12 + b"\x08\x06" + bytes(28)],
}


@pytest.mark.parametrize("reason", BAD)
def test_what_cannot_be_delivered_is_counted_by_port_queue_and_reason(reason):
    switch, a, b, _ = switch_of(A, B, C)
    for frame in BAD[reason]:
        assert a.send(3, [frame]) == 1
    switch.turns(2)
    assert switch.ports()[0]["drops_by_queue"] == {3: {reason: len(BAD[reason])}} and drops(switch) == {reason: len(BAD[reason])}
    assert b.receive() == []
    assert a.send(3, [GOOD] * 1024) == 1024, "every buffer has come back"


def test_a_tagged_frame_a_fragment_and_one_too_long():
    switch, a, b = switch_of(A, B)
    tagged = GOOD[:12] + b"\x81\x00\x00\x01" + GOOD[12:]
    fragment = edited(GOOD, _20=0x20)
    assert a.send(0, [tagged, fragment]) == 2
    switch.turns(1)
    assert [f for _, f in b.receive()] == [tagged, fragment] and len(switch.flows()) == 2
    small = Region.create(buffer_bytes=64)
    switch.attach("small", Region.attach(small.fd, small.shape), [C])
    a.send(0, [udp(A, C, payload=bytes(22)), udp(A, C, payload=bytes(23))])
    switch.turns(1)
    assert len(small.receive()) == 1 and drops(switch) == {"too_long": 1}


def push_through(switch, a, b, count, most=3, every=1):
    """A receiver slower than the sender; all numbers that arrive."""
    sent, found = 0, []
    for i in range(200_000):
        if sent < count:
            sent += a.send(0, [udp(A, B, payload=b"%d" % n) for n in range(sent, min(count, sent + 16))])
        switch.turns(1)
        if i % every == 0:
            found += [number(f) for _, f in b.receive(most)]
        if sent == count and not switch.waiting() and not b.free_rings() < 255:
            more = b.receive(1000)
            found += [number(f) for _, f in more]
            if not more:
                break
    return found


@pytest.mark.parametrize("mode", LOSSLESS)
@pytest.mark.parametrize("doorbells", [True, False])
@pytest.mark.parametrize("workers", [1, 3])
def test_nothing_is_lost_with_a_slow_receiver(mode, doorbells, workers):
    switch, a, b = switch_of(A, B, mode=mode, doorbells=doorbells, workers=workers, th_goal="1KB", th_over="3KB", th_net="6KB")
    a.doorbells = doorbells
    assert push_through(switch, a, b, 5000) == list(range(5000))
    flow = switch.flows()[0]
    assert flow["pauses"] > 0 and flow["longest_bytes"] <= 6000 and not drops(switch)
    if mode == "backdraft":
        assert flow["longest_bytes"] <= 3100, "the queue is paused as it passes th_over"


def test_lossy_drops_are_counted_exactly():
    switch, a, b = switch_of(A, B, mode="lossy", th_goal="1KB", th_over="3KB", th_net="6KB")
    found = push_through(switch, a, b, 3000)
    lost = drops(switch)
    assert lost["full"] > 100 and set(lost) == {"full"} and len(found) + lost["full"] == 3000 and found == sorted(found)
    assert switch.ports()[0]["drops_by_queue"] == {0: lost} and switch.flows()[0]["dropped"] == lost["full"]


@pytest.mark.parametrize("mode", ["lossy", *LOSSLESS])
def test_a_victim_is_harmed_by_pausing_the_port_only(mode):
    """One transmit queue goes to a receiver that has stopped, the other must not wait for it."""
    switch, a, _, c = switch_of(A, B, C, mode=mode)
    prompt = 0
    for i in range(100):
        a.send(0, [udp(A, B, payload=bytes(100))] * 10)  # nobody receives them
        a.send(1, [udp(A, C, payload=b"%d" % i)])
        switch.turns(4)
        taken = [number(f) for _, f in c.receive()]
        prompt += taken == [i]
    flows = {f["to"]: f for f in switch.flows()}
    if mode == "pfc":
        assert prompt < 90 and flows["b"]["pauses"] >= 1
    else:
        assert prompt == 100
    if mode in LOSSLESS:
        assert not drops(switch) and flows["b"]["frames"] < 1000
    else:
        assert drops(switch)["full"] == 1000 - flows["b"]["frames"] > 0


def test_several_stopped_flows_leave_buffers_for_others():
    switch, a, b = switch_of(A, B, mode="dpfq", shape={"buffers": 512, "buffer_bytes": 64})
    for q in range(6):
        for _ in range(8):
            if a.waiting(q) < 500:
                a.send(q, [udp(A, B, 5000 + q)] * 32)
            switch.turns(20)
    a.send(9, [udp(A, B, 9999)])
    switch.turns(2)
    assert [f["frames"] for f in switch.flows() if f["source_port"] == 9999] == [1] and not drops(switch)
    assert b.protocol_errors == 0


def test_weights_and_priorities():
    switch, a, b = switch_of(A, B, mode="dpfq", burst=32, shape={"buffers": 4096})
    a.send(0, [udp(A, B, 1, payload=bytes(1000))] * 200, weight=3, priority=1)
    a.send(1, [udp(A, B, 2, payload=bytes(1000))] * 200, weight=1, priority=1)
    switch.turns(4)
    done = {f["source_port"]: f["frames"] for f in switch.flows()}
    assert 2.4 < done[1] / done[2] < 3.6, done
    a.send(2, [udp(A, B, 3)] * 40, weight=1, priority=0)
    before = sum(f["frames"] for f in switch.flows() if f["source_port"] < 3)
    while {f["source_port"]: f["frames"] for f in switch.flows()}.get(3, 0) < 40:
        switch.turns(1)
    assert sum(f["frames"] for f in switch.flows() if f["source_port"] < 3) - before < 40
    a.send(2, [udp(A, B, 3)], weight=0)
    with pytest.raises(SpecError, match="1 to 255"):
        a.send(0, [], weight=256)
    assert b.protocol_errors == 0


def test_idle_flows_are_forgotten_and_their_rings_come_back():
    switch, a, b = switch_of(A, B, mode="dpfq", idle="1ms", flows=256, shape={"queues": 128})
    for _ in range(5):
        for q in range(40):
            a.send(q, [udp(A, B, 1 + q)] * 70)
            switch.turns(20)
            b.receive(1000)
        assert len(switch.flows()) <= 40
        end = time.monotonic() + 120
        while switch.flows() and time.monotonic() < end:
            time.sleep(0.002)
            switch.turns(2)
            b.receive(10)
        switch.turns(2)
        b.receive(100)
        assert switch.flows() == [] and switch.counters()["free_flows"] == 256
        assert b.free_rings() == 256 and b.protocol_errors == 0
        assert all(a.close(q) for q in range(40))
        switch.turns(10)
        assert a.free_rings() == 256
    assert not drops(switch)


def test_flow_table_like_a_dict():
    """Thousands of flows come and go; each keeps its own count."""
    rng = np.random.default_rng(5)
    shape = {"queues": 512, "rings": 2048, "buffers": 2048, "buffer_bytes": 64}
    switch, a, b = switch_of(A, B, mode="dpfq", idle="2ms", flows=1024, shape=shape)
    sent = 0
    for _ in range(60):
        for port in rng.integers(1, 3000, 40):
            sent += a.send(int(port) % 512, [udp(A, B, int(port))] * 2)
        switch.turns(10)
        got = b.receive(5000)
        by_queue = {}
        for queue, frame in got:
            by_queue.setdefault(queue, set()).add(frame[34:36])
        assert all(len(ports) == 1 for ports in by_queue.values()), "one flow per receive queue"
        sent -= len(got)
        rows = [f["source_port"] for f in switch.flows()]
        assert len(rows) == len(set(rows))
        time.sleep(0.0003)

    def forgotten():
        nonlocal sent
        switch.turns(5)
        sent -= len(b.receive(5000))
        return sent == 0 and switch.flows() == []

    until(forgotten)
    assert not drops(switch)


def test_settings_change_while_it_runs_and_nothing_is_lost():
    switch, a, b = switch_of(A, B, mode="dpfq")
    switch.start()
    found, sent = [], 0
    for i in range(300):
        frames = [udp(A, B, payload=b"%d" % n) for n in range(sent, sent + 20)]
        sent += a.send(0, frames)
        found += [number(f) for _, f in b.receive(18)]
        if i % 3 == 0:
            goal = 200 + 97 * i % 3000
            changes = {
                "mode": LOSSLESS[i // 3 % 3],
                "th_goal": goal,
                "th_over": 3 * goal,
                "th_net": 9 * goal,
                "burst": 1 + i % 40,
            }
            assert switch.call(lambda c=changes: switch.set(c))["th_over"] == 3 * goal
    end = time.monotonic() + 120
    while len(found) < sent and time.monotonic() < end:
        found += [number(f) for _, f in b.receive(100)]
    assert found == list(range(sent)) and sent > 1000 and not switch.call(lambda: drops(switch))
    with pytest.raises(SpecError, match="rise"):
        switch.call(lambda: switch.set({"th_goal": "100MB"}))
    with pytest.raises(SpecError, match="new start"):
        switch.call(lambda: switch.set({"doorbells": False}))
    switch.stop()


def slow_run(mode, frames=6000, per_s=20_000):
    """A receiver that takes so many frames a second from a sender that wants to send many more; pauses and frames lost."""
    switch, a, b = switch_of(A, B, mode=mode, th_goal="8KB", th_over="24KB", th_net="32KB", shape={"buffers": 4096})
    batch = [udp(A, B, payload=bytes(100))] * 16
    got, starved, now, due = 0, 0, 10**9, 0.0  # ns of a virtual clock; a turn takes 2 us
    while got < frames:
        if a.waiting(0) < 100_000:
            a.send(0, batch)
        switch.turn_at(now)
        now += 2000
        if now >= due:
            due = max(due, now) + 1e9 / per_s
            starved += not b.receive(1)
            got += 1
    return switch.flows()[0], sum(drops(switch).values()), starved / frames


def test_the_rate_makes_pauses_few():
    """Sent on at the receiver's rate, a queue is paused far more rarely than without, and the receiver does not starve."""
    plain, lost_plain, _ = slow_run("dpfq")
    paced, lost_paced, starved = slow_run("backdraft")
    print(plain, paced, starved)
    assert lost_plain == lost_paced == 0
    assert paced["pauses"] <= 0.25 * plain["pauses"], (paced["pauses"], plain["pauses"])
    assert starved < 0.02 and paced["longest_bytes"] <= 24_200


def test_ports_are_told_from_each_other():
    switch, *_ = switch_of(A, B)
    app = Region.create()
    for name, addresses, message in (("a", [C], "of that name"), ("x", [A], "'a' has it"), ("x", ["nowhere"], "must be an IPv4")):
        with pytest.raises(SpecError, match=message):
            switch.attach(name, Region.attach(app.fd, app.shape), addresses)
    switch.detach(0)
    assert switch.attach("x", Region.attach(app.fd, app.shape), [A]) == 0
    for text in (A, "fd00::7", "02:00:00:00:00:09"):
        assert address_text(*address_words(text)) == text


@pytest.mark.parametrize(
    "settings",
    [
        {"mode": "lossles"},
        {"th_over": "1KB"},
        {"burst": 0},
        {"burst": True},
        {"doorbells": 1},
        {"th_net": -1},
        {"colour": 1},
        {"th_goal": "many"},
        {"flows": 10**9},
    ],
)
def test_settings_may_be_anything(settings):
    with pytest.raises(SpecError):
        validate_settings(settings)
    assert set(validate_settings({})) == set(DEFAULTS)


def liar(app):
    length = os.fstat(app.fd).st_size
    return np.frombuffer(mmap.mmap(app.fd, length), dtype=np.uint64, count=length // 8)


@pytest.mark.parametrize("mode", ["lossy", *LOSSLESS])
@pytest.mark.parametrize(("seed", "workers"), [(0, 1), (1, 1), (2, 1), (3, 2), (4, 2)])
def test_invalid_words_in_a_region_harm_only_its_application(mode, seed, workers):
    """Random and plausible words anywhere in its region, while two others exchange frames: they lose nothing; it is detached."""
    rng = np.random.default_rng(seed)
    shape = {"rings": 64, "queues": 8, "bells": 32, "buffers": 128, "buffer_bytes": 128}
    switch, a, b, bad = switch_of(A, B, C, mode=mode, idle="1ms", workers=workers, shape=shape)
    region, sent, found, detached = liar(bad), 0, [], 0
    for i in range(4000):
        at = rng.integers(0, len(region), 30)
        kind = rng.integers(0, 5)
        words = rng.integers(0, 2**63, 30, dtype=np.uint64) if kind == 0 else rng.integers(0, 70, 30, dtype=np.uint64)
        if kind == 2:
            words |= np.uint64(1 << 63)
        if kind == 3:
            words |= rng.integers(0, 140, 30, dtype=np.uint64) << np.uint64(32) | np.uint64(1 << 62) * rng.integers(
                0, 2, 30, dtype=np.uint64
            )
        if kind == 4:
            words = np.full(30, 1 << 61, dtype=np.uint64)
        region[at] = words
        bad.send(int(rng.integers(0, 8)), [udp(C, B, int(rng.integers(0, 99)), payload=b"bad")] * 3)
        if mode != "pfc" and a.waiting(2) < 500:
            a.send(2, [udp(A, C)])
        if i % 4 == 0:
            sent += a.send(0, [udp(A, B, payload=b"%d" % sent)])
        switch.turns(2)
        found += [number(f) for _, f in b.receive(64) if f[26:30] == bytes([10, 0, 0, 1])]
        if 2 not in switch.regions or switch.ports()[2]["state"] == "nonsense":
            switch.detach(2)
            detached += 1
            bad = Region.create(**bad.shape)
            switch.attach("c", Region.attach(bad.fd, bad.shape), [C])
            region = liar(bad)

    def all_here():
        switch.turns(2)
        found.extend(number(f) for _, f in b.receive(64) if f[26:30] == bytes([10, 0, 0, 1]))
        return len(found) >= sent

    until(all_here)
    assert found == list(range(sent)) and sent > 500
    assert (detached > 0 or switch.ports()[2]["nonsense"] > 0) and b.protocol_errors == 0
    switch.detach(2)
    end = time.monotonic() + 120
    while switch.flows() and time.monotonic() < end:
        switch.turns(2)
        b.receive(1000)
        time.sleep(0.001)
    assert switch.flows() == [] and switch.counters()["free_flows"] == workers * switch.settings["flows"], "no flow has leaked"


def test_wrong_counts_of_frames_taken_fill_only_the_receivers_own_buffers():
    switch, a, b, c = switch_of(A, B, C, mode="dpfq", shape={"buffers": 256})
    shape = b.shape
    side = 16 * shape["queues"] + 8 * shape["bells"] + 256 * shape["buffer_bytes"]
    consumed = (4096 + 8 * 64 * shape["rings"] + side + 8 * shape["queues"]) // 8
    region = liar(b)
    for i in range(100):
        honest = sum(f["bytes"] for f in switch.flows() if f["to"] == "b")
        region[consumed] = np.uint64([honest, 10**15, 2**63, 2**64 - 1, 0][i % 5])  # "I have taken all"; nonsense
        if a.waiting(0) < 2000:
            a.send(0, [GOOD] * 8)
        a.send(1, [udp(A, C, payload=b"%d" % i)])
        for now in (300_000 * i, 300_000 * i + 2000):
            switch.turn_at(10**9 + now)
        assert [number(f) for _, f in c.receive()] == [i]
    frames = {f["to"]: f["frames"] for f in switch.flows()}
    assert frames["b"] == 256 and frames["c"] == 100 and not drops(switch), frames


def test_the_rate_of_a_receiver_that_works_in_bursts():
    """A millisecond in ten: what the switch takes for its rate stays near what it takes on the average, whenever one looks."""
    switch, a, b = switch_of(A, B, mode="dpfq", th_goal="8KB", th_over="24KB", th_net="32KB", shape={"buffers": 4096})
    batch, now, seen, taken = [udp(A, B, payload=bytes(100))] * 16, 10**9, [], 0
    for ms in range(300):
        for step in range(200):  # 5 us each
            if a.waiting(0) < 100_000:
                a.send(0, batch)
            switch.turn_at(now)
            now += 5000
            if ms % 10 == 0 and step % 2 == 0:
                taken += sum(len(frame) for _, frame in b.receive(1))
        if ms >= 100:
            seen.append(switch.flows()[0]["rate_bytes_per_s"] / (taken / (ms + 10 - ms % 10) * 1000))
    print(min(seen), max(seen))
    assert min(seen) > 0.5 and max(seen) < 2


def test_the_queues_of_all_ports_must_be_fewer_than_the_flows():
    switch = Switch(flows=100)
    switch.attach("a", Region.attach((a := Region.create(queues=64)).fd, a.shape), [])
    with pytest.raises(SpecError, match=r"64 queues are too many: switch\.flows = 100"):
        switch.attach("b", Region.attach((b := Region.create(queues=64)).fd, b.shape), [])
