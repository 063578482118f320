"""The overlay's protocol in deterministic simulation: nothing sticks, nothing comes twice, nothing forged is believed.

PENSTOCK_SEEDS=5000 runs that many seeds.
"""

import os

import pytest
from overlay_wire import CALM, MS, PAUSE, Faults, World

from penstock_net.vswitch.dataplane.session_view import Endpoint

SECRET = bytes(range(16))
SEEDS = int(os.environ.get("PENSTOCK_SEEDS", "200"))
PARTS = 4
BOUND = 1500 * MS  # within which both ends agree again once the wire is good


@pytest.mark.parametrize("secret", [b"", SECRET])
@pytest.mark.parametrize("part", range(PARTS))
def test_after_any_faults_the_two_ends_agree_again(secret, part):
    """Invariants during the faults: World.turn, World.send and World.check."""
    checks = 0
    for seed in range(part, SEEDS // 2, PARTS):
        world = World(seed, None, secret)
        world.run(CALM)
        while not world.agree():
            assert world.now < CALM + BOUND, (seed, world.faults, world.rows())
            world.run(world.now + 20 * MS)
        world.run(world.now + 250 * MS)  # what was late has arrived
        rows = world.rows()
        start = [set(end.sent) for end in world.ends]
        world.run(world.now + 60 * MS)
        world.traffic = 0
        sent = [set(end.sent) - old for end, old in zip(world.ends, start)]
        world.run(world.now + 300 * MS)
        after = world.rows()
        for end, contents in zip(world.ends, sent):
            assert len(contents) > 10 and contents <= set(world.ends[1 - end.name].got), (seed, "all of it arrives", after)
        for key in ("sessions", "lost_on_the_way", "deaths"):
            assert [row[key] for row in after] == [row[key] for row in rows], (seed, key)
        assert [row["under_way"] for row in after] == [0, 0], seed
        checks += world.checks
    assert checks > 100, "and what is in flight was counted"


@pytest.mark.parametrize("seed", range(6))
def test_forgers_and_replayers_do_not_disturb_a_session_that_has_a_secret(seed):
    """10 000 hostile datagrams a second, made of what passes by: one session, and every frame arrives."""
    world = World(seed, Faults(forged=10_000, jitter=0.1 * MS), SECRET)
    world.run(700 * MS)
    world.traffic = 0
    world.run(world.now + 200 * MS)
    for end, row in zip(world.ends, world.rows()):
        assert row["state"] == "up" and row["sessions"] == 1 and row["lost_on_the_way"] == 0
        assert row["forged"] > 20 and row["duplicates"] > 20
        assert len(end.sent) > 200 and set(end.sent) == set(world.ends[1 - end.name].got)


@pytest.mark.parametrize("seed", range(4))
def test_strangers_who_cannot_see_the_traffic_do_not_disturb_a_session_without_a_secret(seed):
    world = World(seed, Faults(forged=10_000), b"")
    world.seen = Nothing()
    world.run(700 * MS)
    world.traffic = 0
    world.run(world.now + 200 * MS)
    for end, row in zip(world.ends, world.rows()):
        assert row["state"] == "up" and row["sessions"] == 1
        assert set(end.sent) == set(world.ends[1 - end.name].got)


class Nothing(list):
    """Nothing is recorded."""

    def append(self, item):
        pass


def test_duplicates_do_not_stop_it():
    """2 % of the datagrams come twice (operator's report: stuck for good in 4 of 5 runs)."""
    world = World(1, Faults(duplicate=0.02, jitter=0.3 * MS))
    world.run(CALM)
    world.traffic = 0
    world.run(world.now + 100 * MS)
    for end, row in zip(world.ends, world.rows()):
        assert row["duplicates"] > 5 and row["under_way"] == 0 and row["sessions"] == 1
        assert len(end.sent) > 1000 and set(end.sent) == set(world.ends[1 - end.name].got)


def test_what_was_given_up_and_comes_after_all_is_not_lost():
    """Two of 400 datagrams do not come; 256 later ones give them up. One of them comes then, and once more."""
    ends = [Endpoint(bytes([i]) * 16) for i in (1, 2)]
    now = MS
    for _ in range(20):
        for end, other in (ends, ends[::-1]):
            while message := end.message(now):
                other.take(message, now)
        now += MS
    one, other = ends
    sent = [one.send(PAUSE, b"%d" % i, now) for i in range(400)]
    for i, datagram in enumerate(sent):
        assert i in (10, 20) or other.take(datagram, now) == (PAUSE, b"%d" % i)
    assert other.row(now)["lost_on_the_way"] == 2
    assert other.take(sent[10], now) == (PAUSE, b"10") and other.take(sent[10], now) is None
    row = other.row(now)
    assert (row["lost_on_the_way"], row["late"], row["duplicates"]) == (1, 1, 1)


def test_a_peer_that_was_killed_and_started_again_is_found_at_once():
    world = World(3, Faults(), traffic=0.9)
    world.run(300 * MS)
    world.ends[1].start()
    began = world.now
    world.run(began + 250 * MS)
    assert [row["state"] for row in world.rows()] == ["up", "up"]
    later = [time for end in world.ends for time in end.got.values() if time > began]
    assert min(later) < began + 120 * MS, "much sooner than the peer would be given up"
    assert world.rows()[0]["sessions"] == 2


def test_a_silent_peer_is_dead_and_comes_back():
    world = World(4, Faults(), traffic=0.9)
    world.run(100 * MS)
    world.cut = [10**15, 10**15]
    world.run(700 * MS)
    assert world.rows()[0]["state"] == "up"
    world.calm = 10**15
    world.run(1500 * MS)
    made = world.ends[0].made
    world.run(2500 * MS)
    row = world.rows()[0]
    assert row["state"] == "dead" and row["deaths"] == 1 and row["silent_ns"] > 2_000 * MS
    assert world.ends[0].made == made, "nothing is sent to the dead"
    world.cut = [0, 0]
    world.run(world.now + 400 * MS)
    assert [row["state"] for row in world.rows()] == ["up", "up"]
    assert [row["sessions"] for row in world.rows()] == [1, 1], "the session goes on"


def test_only_a_full_socket_makes_the_window_smaller():
    """20 % loss leaves the window as it is; a full socket halves it, and it grows again."""
    world = World(5, Faults(loss=0.2))
    world.run(CALM)
    assert all(row["window_cuts"] == 0 and row["lost_on_the_way"] > 50 for row in world.rows())
    world.ends[0].protocol.halve_window(world.now)
    world.run(world.now + 300 * MS)
    small, whole = world.rows()
    assert small["window"] < whole["window"] and whole["granted"] == small["window"] // 64 * 64
    world.traffic = 0
    world.run(world.now + 18_000 * MS)
    assert world.rows()[0]["window"] == whole["window"]
