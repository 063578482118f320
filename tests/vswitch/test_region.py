"""Regions of shared memory: queues that grow and shrink, doorbells, and peers that write invalid data or die."""

import fcntl
import mmap
import multiprocessing
import os
import random
import signal

import numpy as np
import pytest
from drawn import examples
from hypothesis import given
from hypothesis import strategies as st

from penstock_net.errors import SpecError
from penstock_net.vswitch.memory.region import Region

FORK = multiprocessing.get_context("fork")
SMALL = {"rings": 32, "queues": 4, "bells": 16, "buffers": 512, "buffer_bytes": 64}


def pair(**shape):
    """An application's side and the switch's, each with a mapping of its own."""
    app = Region.create(**{**SMALL, **shape})
    return app, Region.attach(app.fd, app.shape)


def everything(region, most=10_000):
    found = []
    while more := region.receive(most):
        found += more
    return found


def test_frames_come_out_as_they_went_in():
    app, switch = pair()
    assert app.send(2, [b"a", b"bc"]) == 2 and app.send(0, [b"d"]) == 1
    assert switch.receive(2) == [(2, b"a"), (2, b"bc")] and switch.receive() == [(0, b"d")] and switch.receive() == []
    assert switch.send(1, [b"back"]) == 1 and app.receive() == [(1, b"back")]


def test_a_queue_grows_and_gives_its_rings_back():
    app, switch = pair()
    for i in range(400 // 25):
        assert app.send(1, [b"%d" % (25 * i + k) for k in range(25)]) == 25
        if i % 2:
            switch.receive(1)
    assert app.linked >= 5 and app.free_rings() <= 32 - 6
    assert [int(f) for _, f in everything(switch)] == list(range(8, 400))
    assert app.free_rings() == 31, "one ring is the queue's, all others are free again"


def test_cycles_of_appends_are_no_negative_numbers_that_wrapped():
    plain, extended = Region.create(rings=16).extension_cycles(1000)
    assert len(extended) >= 1000 and len(plain) > 60 * len(extended)
    assert min(*plain, *extended) >= 0 and max(*plain, *extended) < 1 << 62


def test_room_ends_with_buffers_rings_and_doorbells():
    app, switch = pair(buffers=10)
    assert app.send(0, [b"x"] * 12) == 10 and app.send(0, [b"x"]) == 0
    assert len(switch.receive(100)) == 10 and app.send(0, [b"x"] * 3) == 3
    app, _ = pair(rings=2)
    assert app.send(0, [b"x"] * 300) == 126, "63 frames in each of two rings"
    assert app.send(1, [b"x"]) == 0, "no ring is left to begin a queue with"
    app, _ = pair()
    assert sum(app.send(3, [b"x"]) for _ in range(40)) == 16


@examples(60)
@given(st.lists(st.tuples(st.sampled_from(["send", "receive"]), st.integers(0, 3), st.integers(1, 90)), max_size=120))
def test_like_lists(steps):
    """Against plain lists: nothing is lost, doubled or overtaken within a queue; all memory comes back."""
    app, switch = pair()
    model = {q: [] for q in range(4)}
    number = 0
    for what, queue, count in steps:
        if what == "send":
            frames = [b"%d" % (number + i) for i in range(count)]
            taken = app.send(queue, frames)
            model[queue] += frames[:taken]
            number += count
        else:
            for q, frame in switch.receive(count):
                assert frame == model[q].pop(0)
    for q, frame in everything(switch):
        assert frame == model[q].pop(0)
    assert not any(model.values()) and app.protocol_errors == switch.protocol_errors == 0
    used = sum(1 for q in range(4) if any(s == ("send", q) for s in [(w, x) for w, x, _ in steps]))
    assert app.free_rings() == 32 - used


def spread(fd, shape, count):
    """Number n goes to queue n // 20 % 4."""
    app = Region.attach(fd, shape, switch=False)
    sent = 0
    while sent < count:
        last = min(count, (sent // 20 + 1) * 20)
        sent += app.send(sent // 20 % 4, [b"%d" % i for i in range(sent, last)])


def test_two_processes():
    app, switch = pair()
    count = 200_000
    child = FORK.Process(target=spread, args=(app.fd, app.shape, count), daemon=True)
    child.start()
    seen, last = 0, [-1] * 4
    while seen < count:
        for queue, frame in switch.receive(256):
            assert int(frame) // 20 % 4 == queue and int(frame) > last[queue]
            last[queue] = int(frame)
            seen += 1
        assert seen == count or child.is_alive() or child.exitcode == 0, "the sender has died"
    child.join(60)
    assert child.exitcode == 0 and switch.protocol_errors == 0


def test_a_shape_may_be_anything():
    for shape in (
        {"rings": 0},
        {"queues": -1},
        {"bells": 3},
        {"buffers": 10**9},
        {"rings": "many"},
        {"colour": 3},
        {"queues": True},
        {"buffer_bytes": 100},
    ):
        with pytest.raises(SpecError):
            Region.create(**shape)
    app = Region.create(**SMALL)
    with pytest.raises(SpecError, match="needs"):
        Region.attach(app.fd, {**SMALL, "buffers": 5000})
    with pytest.raises(SpecError, match="0 to 3"):
        app.send(4, [b"x"])
    with pytest.raises(SpecError, match="1 to 64"):
        app.send(0, [b"x" * 65])
    fd = os.memfd_create("plain")
    os.ftruncate(fd, 1 << 20)
    with pytest.raises(SpecError, match="sealed"):
        Region.attach(fd, SMALL)
    with pytest.raises(PermissionError):
        os.ftruncate(app.fd, 0)
    assert fcntl.fcntl(app.fd, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK


def liar(app):
    """The region as an array of words, for someone who writes what he likes."""
    length = os.fstat(app.fd).st_size
    return np.frombuffer(mmap.mmap(app.fd, length), dtype=np.uint64, count=length // 8)


@pytest.mark.parametrize("seed", range(4))
def test_invalid_words_are_counted_and_skipped(seed):
    """Random words anywhere in the region, plausible ones among them: no crash, no frame from outside, bounded work."""
    rng = np.random.default_rng(seed)
    app, switch = pair()
    region = liar(app)
    frames = 0
    for _ in range(3000):
        at = rng.integers(0, len(region), 40)
        kind = rng.integers(0, 4)
        words = rng.integers(0, 2**63, 40, dtype=np.uint64) if kind == 0 else rng.integers(0, 40, 40, dtype=np.uint64)
        if kind == 2:  # links
            words |= np.uint64(1 << 63)
        if kind == 3:  # packets and doorbells
            words |= rng.integers(0, 100, 40, dtype=np.uint64) << np.uint64(32)
            words |= rng.integers(0, 2, 40, dtype=np.uint64) << np.uint64(62)
        region[at] = words
        app.send(int(rng.integers(0, 4)), [b"y" * 30])
        found = switch.receive(64)
        switch.send(int(rng.integers(0, 4)), [b"z" * 30])
        app.receive(64)
        frames += len(found)
        assert all(0 < len(frame) <= 64 and 0 <= queue < 4 for queue, frame in found)
    assert switch.protocol_errors > 20 and frames > 0, (switch.protocol_errors, frames)


def writer(fd, shape, seed):
    app = Region.attach(fd, shape, switch=False)
    region, rng = liar(app), np.random.default_rng(seed)
    while True:
        at = rng.integers(0, len(region), 2000)
        region[at] = rng.integers(0, 64, 2000, dtype=np.uint64) | (rng.integers(0, 2, 2000, dtype=np.uint64) << np.uint64(63))
        app.send(int(rng.integers(0, 4)), [b"y" * 8] * 4)


def test_a_neighbour_that_writes_all_the_time_and_is_killed():
    app, switch = pair()
    child = FORK.Process(target=writer, args=(app.fd, app.shape, random.randrange(99)), daemon=True)
    child.start()
    polls = 0
    while polls < 300_000 or not switch.protocol_errors:
        switch.receive(32)
        polls += 1
        assert polls < 50_000_000
    os.kill(child.pid, signal.SIGKILL)
    child.join(60)
    for _ in range(1000):
        switch.receive(32)
    assert child.exitcode == -signal.SIGKILL


def test_a_batch_with_a_wrong_frame_is_refused_whole():
    app, switch = pair()
    with pytest.raises(SpecError, match="1 to 64"):
        app.send(0, [b"good", b"x" * 65])
    assert app.send(0, iter([b"next"])) == 1 and switch.receive(8) == [(0, b"next")]
