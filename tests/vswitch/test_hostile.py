"""Attacks of an application on others by writes to its region, turn by turn; each of them succeeded once."""

import mmap
import os
import time

import numpy as np
import pytest
from frames import udp

from penstock_net.vswitch.dataplane.switch import Switch
from penstock_net.vswitch.memory.region import Region

A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"
SIDE_1 = 1


class Places:
    """Where things are in a region, as numbers of 64-bit words or (next_*) 32-bit words; see rings.lay_out."""

    def __init__(self, shape):
        rings, queues, bells, buffers, size = shape.values()
        self.ring_stack, self.buffer_stack, self.total = 32, (48, 64), (112, 128)
        at, self.slots = 512 + 64 * rings, 512
        self.first, self.consumed, self.bell = [], [], []
        for workers in (1, 4):  # each worker has a ring of doorbells to the application
            self.first.append(at)
            self.consumed.append(at + queues)
            self.bell.append(at + 2 * queues)
            at += 2 * queues + workers * bells + buffers * size // 8
        at *= 2
        self.ring_next = at
        self.buffer_next = [at + rings, at + rings + buffers]


def opened(app):
    """The words and half words of a region, and where things are."""
    memory = mmap.mmap(app.fd, os.fstat(app.fd).st_size // 8 * 8)
    return np.frombuffer(memory, np.uint64), np.frombuffer(memory, np.uint32), Places(app.shape)


def switch_of(*addresses, shapes=None, **settings):
    switch, apps = Switch(**settings), []
    for i, address in enumerate(addresses):
        app = Region.create(**((shapes or {}).get(i, {})))
        switch.attach("abc"[i], Region.attach(app.fd, app.shape), [address])
        apps.append(app)
    return switch, *apps


def test_places():
    switch, a, b = switch_of(A, B)
    words, halves, at = opened(b)
    a.send(0, [udp(A, B)] * 3)
    switch.turns(1)
    assert words[at.bell[1]] >> np.uint64(32) & np.uint64(0xFFFF) == 3 and words[at.first[1]] > 0
    assert halves[2 * at.buffer_stack[1]] == 1 and halves[at.buffer_next[1]] == 5, "of four that were taken one came back"
    frames = b.receive()
    assert words[at.consumed[1]] == words[at.total[1]] == sum(len(f) for _, f in frames) == 126
    assert halves[2 * at.ring_stack] - 1 < b.shape["rings"] and halves[at.ring_next + 5] == 7


def endless(app):
    """Stacks that never end, whose first number leads to itself; and a reader that claims to have read everything."""
    words, halves, at = opened(app)
    for stack, following in ((at.buffer_stack[1], at.buffer_next[1]), (at.ring_stack, at.ring_next)):
        first = int(halves[2 * stack])
        halves[following + first - 1] = first
    words[at.total[1]] = np.uint64(1 << 62)
    return words, at


def test_endless_memory_does_not_overflow_a_doorbell():
    """A receiver that takes frames without answering doorbells: what waits to be announced stays a number that a bell can hold.

    Counted on, it passed zero, and the queue was listed twice.
    """
    switch, a, b = switch_of(A, B, mode="lossy")
    words, at = endless(b)
    frame = udp(A, B)
    batch = [frame] * 512
    for n in range(b.shape["bells"]):
        words[at.bell[1] + n] = 1  # no bell can be rung
    sent = 0
    while sent < (1 << 20) + 4096:
        sent += a.send(0, batch)
        switch.turns(17)
        words[at.consumed[1]] = switch.ports()[1]["sent_bytes"]
    assert switch.ports()[1]["sent_frames"] > (1 << 20) and not switch.ports()[0]["drops"]
    words[at.bell[1]] = 0
    switch.turns(1)
    assert int(words[at.bell[1]]) >> 32 & 0x3FFFFFFF == 1 << 20


@pytest.mark.parametrize("total", [2**63, 2**63 + 5, 2**64 - 1, 1])
def test_any_count_of_what_was_taken(total):
    """No arithmetic overflows, whatever is said; the sanitizers look on in tools/checked_build.sh."""
    switch, a, b = switch_of(A, B)
    words, _, at = opened(b)
    for place in (at.total[1], at.consumed[1], at.total[0], at.consumed[0]):
        words[place] = total
        a.send(0, [udp(A, B)] * 20)
        switch.turns(3)
        time.sleep(0.0003)
    assert len(b.receive(200)) == 80


def test_long_frames_do_not_take_more_of_the_worker():
    """A turn moves 32 frames of 2 KB for a port, or two of 60 KB; it was 32 of those, and others waited for 2 MB to be copied."""
    big = {"buffers": 64, "buffer_bytes": 65536}
    switch, a, b = switch_of(A, B, mode="lossy", shapes={0: big, 1: big})
    long, short = udp(A, B, payload=bytes(60000)), udp(A, B, payload=bytes(1986))
    assert a.send(0, [short] * 30, weight=255) == 30
    switch.turns(1)
    assert len(b.receive(99)) == 30
    assert a.send(0, [long] * 8, weight=255) == 8
    moved = 0
    for _ in range(100):
        if moved == 8:
            return
        switch.turns(1)
        found = len(b.receive(99))
        assert found <= 2
        moved += found
    raise AssertionError(f"{moved} of 8 frames came")


def test_pauses_that_end_at_once_end_in_bounded_steps():
    """5000 queues whose pauses are over after the worker was away: each turn lets 1024 go on."""
    queues = 5000
    shape = {"queues": queues, "rings": queues + 10, "buffers": 8192, "buffer_bytes": 64}
    switch, a, _ = switch_of(A, B, mode="dpfq", shapes={0: shape}, th_goal="100B", th_over="200B", th_net="300B")
    now = 10**9  # ns of a virtual clock
    for i in range(queues):
        assert a.send(i, [udp(A, B)])
        switch.turn_at(now := now + 100)
    for _ in range(20 * queues):  # they try again and again, each time after a longer pause
        switch.turn_at(now := now + 100)
    before = len(switch.pauses())
    assert before > 1100
    switch.turn_at(now := now + 10_000_000)
    assert before - 1024 <= len(switch.pauses()) < before


def test_counters_of_detached_applications_take_little_memory():
    """Of 100 ports with 20 000 queues, each with a drop, it was hundreds of megabytes, and the worker collected it."""
    shape = {"queues": 2000, "rings": 2010, "buffers": 2048, "buffer_bytes": 64}
    switch, c = switch_of(C, shapes={0: shape})
    for queue in range(2000):
        assert c.send(queue, [b"x"])
        switch.turns(1)
    assert len(switch.ports()[0]["drops_by_queue"]) == 2000
    switch.detach(0)
    assert len(switch.detached[-1]["drops_by_queue"]) == 64 and switch.detached[-1]["drops"] == {"malformed": 2000}
