"""Two switches with an overlay between them, and a receiver that stops reading: its sender behind the other switch is held."""

import pytest
from test_pair import MS, SETTINGS, STARTS
from test_pair_edges import classes

from penstock_net.vswitch.simulation import edges
from penstock_net.vswitch.simulation import steps as known
from penstock_net.vswitch.simulation.laws import BOUND_NS
from penstock_net.vswitch.simulation.pair import Pair
from penstock_net.vswitch.support.balance import balance

STOPS, STOP_NS = 60, 5 * MS  # for which it has stopped, in steps
EACH = 75  # frames: 4500 in all, and a flow may hold 3600 at the far side
FRAME = 1400


def send_to_stopped(pair, sender):
    """Frames for c, which does not read, at full speed; and some for d beside it, which come in time: a law."""
    known.stop_reading(pair.machines["far"], "c")
    for _ in range(STOPS):
        known.send(pair.machines["near"], "b", "d", 4, 700)
        known.send(pair.machines["near"], sender, "c", EACH, FRAME)
        pair.pass_time(STOP_NS)


def started(pair):
    for step in STARTS:
        known.start(pair.machine(step.to), step.to)
    pair.world.wait(pair.world.now + 20 * MS)


@pytest.mark.parametrize("delay_ns", [500_000, 10_000])
@pytest.mark.parametrize("sender", ["a", "t"])
@pytest.mark.parametrize("before", ["none", "some", "slowly"])
def test_the_sender_of_a_stopped_receiver_is_held(sender, before, delay_ns):
    """It was not: the far side took all that came, and dropped what was beyond the share of a flow.

    An application holds its frames in its own memory; those of a TAP wait in a class of its edge.  `before`: whether c has read.
    """
    with Pair(1, {**SETTINGS, "delay_ns": delay_ns, "edge": sender == "t"}) as pair:
        started(pair)
        near, far = pair.machines["near"], pair.machines["far"]
        if before == "slowly":
            known.read_slowly(far, "c", 4, MS // 4)  # so its rate is known
        for _ in range(20 if before != "none" else 0):
            known.send(near, sender, "c", 10, FRAME)
            pair.pass_time(MS)
        send_to_stopped(pair, sender)
        assert far.call(balance)["parked"] < 250, "an eighth more each time: logarithmic"
        if sender == "t":
            assert classes(pair, "near", "t") == 1 and near.link("t").queueing.waiting() > 3500
        known.read_again(far, "c")
        sent = pair.record.sent
        pair.pass_time(BOUND_NS)
        if sender == "a":
            assert pair.record.came >= sent, "what waited comes within the bound"
        pair.pass_time(edges.EMPTY_NS)
        assert pair.record.came == pair.record.sent > STOPS * EACH
        assert [sum(pair.account().values()), far.call(balance)["parked"]] == [0, 0]


# ---- For good ----

PAUSE = 4  # the kind of a pause frame
SECONDS = 1000 * MS
GOES_ON_NS = 120 * MS  # 40 ms of a pause, as much for what is lost on the way, and the time that the frames take


def lose_pauses(pair, share):
    """The network loses this share of the pause frames, and nothing else."""
    usual = pair.world.network.fates

    def fates(source, target, parts):
        found = usual(source, target, parts)
        return [
            [] if part[3] & 0x7F == PAUSE and pair.world.random.random() < share else fate
            for part, fate in zip(parts, found, strict=True)
        ]

    pair.world.network.fates = fates


@pytest.mark.parametrize(("lost", "seconds"), [(0.0, 10), (0.3, 10), (0.0, 120), (0.3, 120)])
def test_a_receiver_may_stop_for_minutes(lost, seconds):
    """A frame followed every 10 ms: 3600 after 36 s, and those that followed were dropped.

    Now the far side renews a pause when a fifth of it is over: none follows unless four in a row are lost.
    """
    with Pair(1, SETTINGS) as pair:
        started(pair)
        near, far = pair.machines["near"], pair.machines["far"]
        lose_pauses(pair, lost)
        send_to_stopped(pair, "a")
        before = far.call(balance)["parked"]
        pauses = pair.overlay("far")["overlay"]["pauses_sent"]
        pair.pass_time(seconds * SECONDS, counters=False)
        pair.check()
        more = far.call(balance)["parked"] - before
        assert 0 <= more <= (5 * seconds if lost else 0), (
            "nothing follows while nothing is taken; 0.3 to the fourth: one a second"
        )
        assert pair.overlay("far")["overlay"]["pauses_sent"] - pauses == pytest.approx(125 * seconds, rel=0.3)
        known.read_again(far, "c")
        pair.pass_time(GOES_ON_NS)
        assert pair.record.came == pair.record.sent > STOPS * EACH
        assert [sum(pair.account().values()), far.call(balance)["parked"], near.call(balance)["parked"]] == [0, 0, 0]
        known.send(near, "a", "c", 100, FRAME)
        pair.pass_time(20 * MS)
        assert pair.record.came == pair.record.sent, "and nothing is held any more"


def test_one_who_reads_a_frame_now_and_then_holds_its_sender():
    """Each time something is taken the rate is that of the last ms, and far too high: its flow stays held while much waits."""
    with Pair(1, SETTINGS) as pair:
        started(pair)
        far = pair.machines["far"]
        send_to_stopped(pair, "a")
        before = far.call(balance)["parked"]
        known.read_slowly(far, "c", 1, 1000 * MS)
        pair.pass_time(3 * SECONDS, counters=False)
        assert far.call(balance)["parked"] <= before
        known.read_again(far, "c")
        pair.pass_time(GOES_ON_NS)
        assert pair.record.came == pair.record.sent


# ---- Soon after ----

SOON_NS = 500 * MS  # 0.1 s of a frame in the class, two steps, and what it takes until a receiver's rate is known


@pytest.mark.parametrize("seconds", [1, 3, 12, 40])
@pytest.mark.parametrize("target", ["a", "c"])
def test_what_waits_in_a_class_comes_soon_however_long_its_receiver_had_stopped(target, seconds):
    """A frame a second and a half long was in the class after 12 s: the next ones, and those of the next flow, took 2 s."""
    with Pair(1, {**SETTINGS, "edge": True}) as pair:
        started(pair)
        near = pair.machines["near"]
        known.stop_reading(pair.machine(target), target)
        for _ in range(8):
            known.send(near, "t", target, 40, FRAME)
            pair.pass_time(MS)
        pair.pass_time(seconds * SECONDS, counters=False)
        assert classes(pair, "near", "t") == 1
        known.send(near, "t", target, 40, FRAME)
        pair.pass_time(SOON_NS // 5)
        known.read_again(pair.machine(target), target)
        pair.pass_time(SOON_NS)
        assert pair.record.came == pair.record.sent == 360
        pair.pass_time(edges.EMPTY_NS)
        assert edges.are_empty(near)
