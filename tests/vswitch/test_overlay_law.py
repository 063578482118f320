"""The control law of pause frames and each of its constants, to the nanosecond (docs/vswitch-overlay.md, "The control law").

The switch runs under a virtual clock.  The test is both the peer, which does not obey, and the application, which takes frames
at a constant rate: so it sets the backlog, and knows the receiver's rate.
"""

import itertools
import struct

import pytest
from frames import udp
from test_overlay import FRAME, PAUSE, A, B, Raw

LENGTH = 200  # bytes of a frame
GOAL, OVER = 20_000, 60_000  # th_goal, th_over
STEP = 2500  # ns in which the application takes a frame
RATE = 1e9 * LENGTH / STEP
US, MS = 1000, 1_000_000


class Flow(Raw):
    """A flow, the bytes of it that wait before the next frame comes, and the pause frames: (time, ns, bytes per second)."""

    def __init__(self, step=STEP, goal=GOAL, over=OVER, length=LENGTH, buffers=None, window=1 << 30):
        super().__init__(window=window, buffers=buffers, th_goal=goal, th_over=over, th_net=900_000, idle="10s", burst=256)
        self.frame, self.step, self.queued, self.pauses = udp(B, A, payload=bytes(length - 42)), step, 0, []

    def pass_by(self, come=1, taken=1):
        """One step: frames are taken, then some come; the backlog is that before the last of them."""
        self.queued -= sum(len(frame) for _, frame in self.app.receive(taken))
        for _ in range(come):
            assert self.wire.send(self.peer.send(FRAME, self.frame, self.clock.ns))
            self.queued += len(self.frame)
        self.turn(1, self.step)
        said = [struct.unpack("<7Q", content)[5:] for kind, content in self.heard_of if kind == PAUSE]
        self.pauses += [(self.clock.ns, ns, rate) for ns, rate in said]
        self.heard_of = []

    def fill(self, size):
        """Let more and more wait, slowly at first, so that the receiver's rate is known; the pause frame that this causes."""
        self.pass_by(3, 0)
        for _ in range(1000):
            self.pass_by()
        while not self.pauses or self.queued < size:
            self.pass_by(2)
        return self.pauses[-1]

    def drain(self, size):
        """Nothing comes until so little is left that the next frame finds `size`."""
        while self.queued > size:
            self.pass_by(0)

    def hold(self, size, ns, frames=1):
        """Keep so much backlog for a time, in which so many frames come and are taken in a step."""
        self.drain(size)
        end = self.clock.ns + ns
        while self.clock.ns < end:
            self.pass_by(frames, frames)

    def corrected(self, part, ns, frames=1):
        """The next pause frame while so large a part of th_goal waits: (ns after the last one, rate), or none within `ns`."""
        count = len(self.pauses)
        self.hold(part * GOAL, ns, frames)
        return (self.pauses[count][0] - self.pauses[count - 1][0], self.pauses[count][2]) if self.pauses[count:] else None


def near(ns, rate):
    return pytest.approx(ns, abs=2 * STEP), pytest.approx(rate, rel=0.02)


def test_the_first_pause_is_short_as_no_rate_is_known():
    flow = Flow()
    while not flow.pauses:
        flow.pass_by(20, 0)
    assert [pause[1:] for pause in flow.pauses] == [(50 * US, 0)], "UNKNOWN_NS"


def test_a_pause_lasts_until_the_goal_is_left_and_then_the_rate_is_the_receivers():
    flow = Flow()
    _, ns, rate = flow.fill(OVER)
    assert rate == RATE and ns == pytest.approx(1e9 * (OVER - GOAL) / RATE, rel=0.02), "between LEAST_GAIN and MOST_GAIN: 1"


def test_a_long_pause_is_bounded_and_followed_by_half_the_rate():
    flow = Flow(step=500 * US)  # 400 KB/s: 60 KB last 150 ms
    _, ns, rate = flow.fill(OVER)
    assert ns == 5 * MS and rate == 0.5 * LENGTH / 500e-6, "MOST_NS, LEAST_GAIN"


def test_a_short_pause_has_a_least_length():
    flow = Flow(goal=500, over=1000)
    assert flow.fill(1000)[1] == 10 * US, "LEAST_NS; 500 bytes last 6 us"


def test_a_rate_of_an_empty_queue_is_twice_the_receivers_after_a_millisecond():
    flow = Flow()
    flow.fill(OVER)
    assert flow.corrected(0, 3 * MS) == near(1 * MS, 2 * RATE), "STARVING_NS, MOST_GAIN"


@pytest.mark.parametrize(
    ("part", "after"),
    [(0.05, 1 * MS), (0.15, 20 * MS), (0.75, 20 * MS), (0.85, None)],
    ids=["RAISE_ABOVE", "not RAISE_ABOVE", "RAISE_ABOVE_LATER", "not RAISE_ABOVE_LATER"],
)
def test_a_rate_is_raised_by_nine_tenths_soon_and_by_a_fifth_later(part, after):
    """The last rate was the receiver's; the new one is that times 2 - part."""
    flow = Flow()
    flow.fill(OVER)
    assert flow.corrected(part, 40 * MS) == (near(after, (2 - part) * RATE) if after else None)


@pytest.mark.parametrize(("part", "after"), [(0.85, None), (0.95, 20 * MS)], ids=["not LOWER_BELOW", "LOWER_BELOW"])
def test_a_rate_is_lowered_when_little_more_than_half_is_right(part, after):
    """The last rate was twice the receiver's; the new one is that times 2 - part."""
    flow = Flow()
    flow.fill(OVER)
    assert flow.corrected(0, 2 * MS) == near(1 * MS, 2 * RATE)
    while flow.queued < part * GOAL:
        flow.pass_by(2)
    assert flow.corrected(part, 40 * MS) == (near(after, (2 - part) * RATE) if after else None)


def test_a_receiver_that_becomes_faster_is_told_of_soon_only_while_little_waits():
    for part, soon in ((0.2, True), (0.3, False)):
        flow = Flow()
        flow.fill(OVER)
        after, _ = flow.corrected(part, 40 * MS, frames=2)
        assert after < 3 * MS if soon else after == pytest.approx(20 * MS, abs=2 * STEP), "STARVING_PART, CORRECT_NS"


@pytest.mark.parametrize(("ns", "known"), [(900 * MS, True), (1100 * MS, False)])
def test_a_rate_is_corrected_for_a_second(ns, known):
    """Then the peer has forgotten it: LEASE_NS."""
    flow = Flow(step=10 * STEP)
    flow.fill(OVER)
    assert flow.corrected(0.85, ns) is None
    assert (flow.corrected(0.05, 40 * MS) is not None) == known


def test_a_flow_may_occupy_an_eighth_of_the_free_buffers():
    """All come in one turn: behind 29 others, the 30th finds that they are more than an eighth of the 226 that are free."""
    for frames, pauses in ((29, 0), (30, 1)):
        flow = Flow(length=64, buffers=256, step=20 * US)
        flow.pass_by(frames, 0)
        flow.pass_by(0, 0)
        assert len(flow.pauses) == pauses, "BUFFERS_PART"


def test_a_flow_of_which_nothing_is_taken_is_paused_for_an_eighth_of_that_time_until_something_is():
    """No rate is known of it.  The peer does not obey, so that frames are dropped in the end: it is paused all the same, each
    millisecond once it is held."""
    flow = Flow(step=100 * US, length=1400, buffers=256)
    for _ in range(4500):
        flow.pass_by(1, 0)
    lengths = [ns for _, ns, _ in flow.pauses]
    assert lengths == sorted(lengths) and lengths[0] == 50 * US and lengths[-1] == 40 * MS, "UNKNOWN_NS, STOPPED_NS"
    growing = [(at, ns, rate) for at, ns, rate in flow.pauses if MS < ns < 40 * MS]
    for (at, ns, rate), (then, longer, _) in itertools.pairwise(growing):
        assert longer - ns == (then - at) // 8, "STOPPED_PART"
        assert rate == pytest.approx(1e9 * 1500 / ns, abs=1), "STOPPED_BYTES"
    count = len(flow.pauses)
    for _ in range(300):
        flow.pass_by(1, 100)
    last = [ns for _, ns, _ in flow.pauses[count:]]
    assert last[-1] == 0 and [ns for ns in last if ns] in ([], [4 * MS], [40 * MS, 4 * MS], [40 * MS]) and len(growing) > 5
    held = [at for at, ns, _ in flow.pauses[:count] if ns > 5 * MS]
    assert {then - at for at, then in itertools.pairwise(held)} == {MS}, "EARLY_NS"


def test_the_pause_of_a_held_flow_is_renewed_until_its_receiver_reads_and_then_it_is_told_until_it_goes_on():
    flow = Flow(step=100 * US, length=1400, buffers=256)
    for _ in range(1500):
        flow.pass_by(1, 0)  # the queue takes 900 kB, in 64 ms; 32 ms after that the flow is held
    count, queued = len(flow.pauses), flow.queued
    for _ in range(4000):
        flow.pass_by(0, 0)
    renewed = flow.pauses[count:]
    for (at, ns, _), (then, longer, rate) in itertools.pairwise(renewed):
        assert ns <= longer <= 40 * MS and rate == pytest.approx(1e9 * 1500 / longer, abs=1)
        assert ns // 5 <= then - at <= max(MS, ns // 5) + 100 * US, "RENEWED_PART"
    assert renewed[0][1] < 12 * MS and renewed[-1][1] == 40 * MS, "STOPPED_NS"
    count = len(flow.pauses)
    flow.pass_by(0, 5)
    for _ in range(100):
        flow.pass_by(0, 0)
    assert queued - flow.queued < OVER and {ns for _, ns, _ in flow.pauses[count:]} <= {4 * MS, 40 * MS}, "HOLD_NS"
    count = len(flow.pauses)
    for _ in range(600):
        flow.pass_by(0, 100)
    told = [at for at, ns, rate in flow.pauses[count:] if (ns, rate) == (0, 0)]
    assert {then - at for at, then in itertools.pairwise(told)} == {2 * MS} and 1 < len(told) <= 20, "REPEAT_NS"
    assert flow.pauses[-1][0] == told[-1]


def held(**options):
    """A flow that is held: nothing of it has been taken for 150 ms."""
    flow = Flow(step=100 * US, length=1400, buffers=256, **options)
    for _ in range(1500):
        flow.pass_by(1, 0)
    return flow


def test_a_flow_that_has_gone_on_is_told_so_while_its_last_pause_lasts_and_then_no_more():
    """A frame that comes may have been sent before that pause: it does not say that the word has come."""
    flow = held()
    count = len(flow.pauses)
    for _ in range(500):
        flow.pass_by(1, 100)
    ends = [at + ns for at, ns, _ in flow.pauses if ns][-1]
    told = [at for at, ns, rate in flow.pauses[count:] if (ns, rate) == (0, 0)]
    assert len(told) > 2 and ends - 2 * MS < told[-1] <= ends and flow.pauses[-1][0] == told[-1]


def test_a_held_flow_may_go_on_when_the_mode_is_another():
    flow = held()
    flow.switch.set({"mode": "dpfq"})
    flow.pass_by(0, 0)  # hears what was said in the step before
    count = len(flow.pauses)
    for _ in range(1000):
        flow.pass_by(0, 0)
    told = flow.pauses[count:]
    assert {(ns, rate) for _, ns, rate in told} == {(0, 0)} and 1 < len(told) <= 21 and told[-1][0] < flow.clock.ns - 50 * MS


def test_pauses_that_are_renewed_use_up_a_quarter_of_what_the_peer_permits():
    """A peer that stands still for less than a second finds few datagrams, and frames of others may follow at once."""
    flow = held(window=1 << 16)
    for _ in range(50):
        flow.pass_by(0, 0)
    sent = flow.row["pauses_sent"]
    for _ in range(5000):
        flow.clock.ns += flow.step
        flow.switch.turn_at(flow.clock.ns)
    assert flow.row["state"] == "up" and 2 < flow.row["pauses_sent"] - sent <= (1 << 16) // 4 // 2400 + 1
    for _ in range(1500):
        flow.pass_by(0, 0)
    assert flow.row["pauses_sent"] - sent > 15, "they go on when the peer answers"
