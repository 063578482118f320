"""The search for the longest datagram that passes, and reports of losses: two ends of the protocol in virtual time."""

import random
import struct

import pytest
from drawn import examples
from hypothesis import given
from hypothesis import strategies as st
from overlay_wire import HEADER, MS

from penstock_net.vswitch.dataplane.session_view import Endpoint

HELLO, STATE, FRAME, PROBE, PROBED, KERNEL = 1, 2, 5, 9, 10, 1472
SECRET = bytes(range(16))
MASK, STEP, LAST = (1 << 64) - 1, 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93


def resealed(like, datagram):
    """A datagram with the check word that an end without a secret gives it, as it gave one to another of the same session."""
    total = struct.unpack_from("<Q", like, 32)[0] * pow(LAST, -1, 1 << 64) & MASK
    for word in reversed(struct.unpack_from("<4Q", like)):
        total = (total ^ total >> 32) * pow(STEP, -1, 1 << 64) & MASK ^ word
    total ^= len(like) ^ len(datagram)
    for word in struct.unpack_from("<4Q", datagram):
        total = (total ^ word) * STEP & MASK
        total ^= total >> 32
    return datagram[:32] + struct.pack("<Q", total * LAST & MASK) + datagram[HEADER:]


class Path:
    """Two ends, and a wire that drops what is longer than `passes`, and says nothing."""

    def __init__(self, passes=KERNEL, most=KERNEL, secret=b"", loss=0.0, old=False):
        self.ends = [Endpoint(bytes([i]) * 16, secret) for i in (1, 2)]
        self.now, self.passes, self.loss, self.old, self.rng = MS, passes, loss, old, random.Random(1)
        self.seen, self.got, self.sent, self.silent = [], 0, 0, False
        for end in self.ends:
            end.set_path(most, self.now)

    @property
    def near(self):
        return self.ends[0].row(self.now)

    def pass_on(self, sender, datagram):
        self.seen.append((sender, datagram))
        if self.silent or len(datagram) > self.passes or self.rng.random() < self.loss:
            return
        if self.old and datagram[3] == HELLO:
            datagram = resealed(datagram, datagram[:4] + bytes(4) + datagram[8:])
        if self.ends[1 - sender].take(datagram, self.now) is not None:
            self.got += 1

    def run(self, ms, traffic=False):
        for _ in range(int(ms)):
            self.now += MS
            for i, end in enumerate(self.ends):
                while (message := end.message(self.now)) is not None:
                    self.pass_on(i, message)
            if traffic:  # frames as long as is thought to pass
                datagram = self.ends[0].send(FRAME, bytes((self.ends[0].longest or KERNEL) - HEADER), self.now)
                if datagram is not None:
                    self.sent += 1
                    self.pass_on(0, datagram)

    def probes(self):
        return [len(datagram) for sender, datagram in self.seen if sender == 0 and datagram[3] == PROBE]


@pytest.mark.parametrize("secret", [b"", SECRET])
def test_a_path_that_takes_what_the_kernel_says_needs_two_probes(secret):
    path = Path(secret=secret)
    path.run(3000, traffic=True)
    assert path.probes() == [1200, KERNEL] and path.near["path"] == "whole" and path.near["path_narrowed"] == 0
    assert path.got == path.sent > 2000 and path.near["lost_at_peer"] == 0, "a probe is no frame"


@pytest.mark.parametrize("passes", [520, 700, 1199, 1200, 1201, 1272, 1465, 8000, 8972])
def test_what_passes_is_found_and_no_frame_is_lost_meanwhile(passes):
    path = Path(passes=passes, most=8972)
    path.run(8000, traffic=passes >= 1200)
    assert passes - 8 <= path.ends[0].longest <= passes and path.near["path"] == ("whole" if passes == 8972 else "narrow")
    assert path.got == path.sent and path.near["lost_at_peer"] == path.ends[1].row(path.now)["lost_on_the_way"] == 0
    assert path.sent > 5000 or passes < 1200


def test_a_path_that_becomes_narrow_is_noticed_by_the_losses_and_one_that_recovers_is_used():
    path = Path()
    path.run(500, traffic=True)
    assert path.ends[0].longest == KERNEL
    path.passes, before = 1272, path.sent
    path.run(450, traffic=True)
    assert path.ends[0].longest <= 1272 and path.near["path_narrowed"] == 1
    lost = path.sent - path.got
    assert 0 < lost <= 400 and path.sent > before
    path.run(4000, traffic=True)
    assert 1264 <= path.ends[0].longest <= 1272 and path.sent - path.got == lost, "none is lost after that"
    assert path.near["lost_at_peer"] == path.ends[1].row(path.now)["lost_on_the_way"] == lost
    path.passes = KERNEL
    path.run(6000, traffic=True)
    assert path.ends[0].longest == KERNEL and path.sent - path.got == lost


def test_losses_of_any_length_do_not_make_the_path_narrow_for_long():
    path = Path(loss=0.2)
    narrow = 0
    for _ in range(100):
        path.run(200, traffic=True)
        narrow += path.ends[0].longest < KERNEL
    assert narrow < 10
    near, far = path.near, path.ends[1].row(path.now)
    path.loss = 0
    path.run(2500)
    assert path.near["lost_at_peer"] == path.ends[1].row(path.now)["lost_on_the_way"] > 2000, (near, far)


def test_a_peer_that_was_silent_or_began_anew_is_probed_anew():
    path = Path()
    path.run(300)
    path.silent = True
    path.run(2000)
    assert path.near["state"] == "dead" and path.ends[0].longest == 0
    count = len(path.probes())
    path.run(2000)
    assert len(path.probes()) == count, "nobody would answer"
    path.silent, path.passes = False, 1300
    path.run(6000)
    assert 1292 <= path.ends[0].longest <= 1300 and path.near["sessions"] == 1
    path.ends[1], path.passes = Endpoint(bytes(16)), KERNEL
    path.run(2000)
    assert path.near["sessions"] == 2 and path.ends[0].longest == KERNEL


def test_the_kernel_may_change_its_mind():
    path = Path(passes=9000)
    path.run(300)
    for most, passes in ((1300, 1300), (8972, 8972), (400, 400), (0, 0), (KERNEL, KERNEL)):
        path.ends[0].set_path(most, path.now)
        path.run(1000)
        assert path.ends[0].longest == passes


def test_losses_are_reported_though_reports_are_lost_and_are_counted_over_sessions():
    path = Path(loss=0.5)
    path.run(1000, traffic=True)
    path.loss = 0
    path.run(1500)
    first = path.ends[1].row(path.now)["lost_on_the_way"]
    assert path.near["lost_at_peer"] == first > 100
    path.ends[1] = Endpoint(bytes(16))
    path.run(1500)
    assert path.near["sessions"] == 2 and path.near["lost_at_peer"] == first
    path.loss = 0.5
    path.run(500, traffic=True)
    path.loss = 0
    path.run(1500)
    assert path.near["lost_at_peer"] == first + path.ends[1].row(path.now)["lost_on_the_way"] > first + 50


def test_an_end_of_before_that_answers_no_probes_is_sent_none():
    path = Path(old=True)
    path.run(3000, traffic=True)
    assert path.near["path"] == "not probed" and path.near["state"] == "up" and not path.probes()
    assert path.got == path.sent > 2000


WORDS = st.integers(0, MASK) | st.integers(0, 40) | st.sampled_from((1200, KERNEL, 65_507))


@examples(60)
@given(st.lists(st.tuples(st.sampled_from((STATE, PROBE, PROBED)), WORDS, WORDS, WORDS, st.integers(0, 1600)), max_size=30))
def test_anything_may_be_said_of_the_path(messages):
    """By somebody who knows the session: lengths stay in bounds, and the search comes to its end when they are quiet."""
    path = Path(passes=1300)
    path.run(200)
    like = next(datagram for sender, datagram in reversed(path.seen) if sender == 1 and datagram[3] == STATE)
    for kind, number, size, word, content in messages:
        head = struct.pack(
            "<4Q",
            struct.unpack_from("<Q", like)[0] & ~(0xFF << 24) | kind << 24,
            *struct.unpack_from("<Q", like, 8),
            number,
            size,
        )
        datagram = (head + bytes(8) + struct.pack("<Q", word) + bytes(1600))[: HEADER + content]
        path.ends[0].take(resealed(like, datagram), path.now)
        assert path.ends[0].longest in (0, *range(512, KERNEL + 1)) and 0 <= path.near["lost_at_peer"] < 1000
        path.run(20)
    path.ends[1] = Endpoint(bytes(16))
    path.run(6000)
    assert 1292 <= path.ends[0].longest <= 1300 and path.near["state"] == "up"
