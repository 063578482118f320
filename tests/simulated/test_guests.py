"""Virtual machines at vhost-user ports of a simulated run."""

from itertools import product

import pytest
from test_simulation import MS, SETTINGS, Step, simulate

from penstock_net.vswitch.simulation import guests
from penstock_net.vswitch.simulation.layout import USUAL
from penstock_net.vswitch.support import vhost_peer
from penstock_net.vswitch.support.vhost_protocol import GuestFeature, Session

WITH = {**SETTINGS, "edge": False, "guests": True}
STARTS = [Step(0, "start", name) for name in "abcgh"]
BEGIN = 1_200 * MS  # by then a port that connects has done so
SIZES = (60, 700, 1400)


def sent(*pairs, count=40, begin=BEGIN):
    return [Step(begin + i * MS, "send", name, (to, count, SIZES[i % 3])) for i, (name, to) in enumerate(pairs)]


def run(*steps, seed=1):
    return simulate(seed, steps=sorted([*STARTS, *steps], key=lambda step: step.at), settings=WITH)


def guest_with(features, two, small, pairs, size):
    class Chosen(guests.Guest):
        def _make_memory(self):
            self.features, self.two, self.small = guests.REQUIRED | sum(features), two, small
            self.pairs, self.size = pairs, size
            super()._make_memory()

    return Chosen


COMBINATIONS = list(product([(), (GuestFeature.EVENT_INDEX,)], [(), (GuestFeature.INDIRECT,)], [False, True], [1, 2]))


@pytest.mark.parametrize("events, indirect, two, pairs", COMBINATIONS)
def test_all_frames_come_to_guests_and_from_them(events, indirect, two, pairs, monkeypatch):
    for small, size in ((False, 8), (True, 64)):
        features = (*events, *indirect, *((GuestFeature.MERGEABLE,) if small else ()))
        monkeypatch.setattr("penstock_net.vswitch.simulation.machine.Guest", guest_with(features, two, small, pairs, size))
        found = run(*sent(("g", "a"), ("a", "g"), ("g", "h"), ("h", "g"), ("t", "h"), ("h", "t")))
        assert not found.failure, found
        assert found.sent == found.came > 240 and not found.lost


def test_a_guest_that_does_not_read_holds_nobody_else():
    steps = [Step(BEGIN - MS, "stop reading", "g"), *sent(*[("a", "g"), ("a", "b"), ("t", "b")] * 4)]
    found = run(*steps, Step(BEGIN + 90 * MS, "read again", "g"))
    assert not found.failure, found
    assert found.sent == found.came


@pytest.mark.parametrize("what", ["kill", "end"])
@pytest.mark.parametrize("name", "gh")
def test_another_guest_has_the_port_of_one_that_ended(name, what):
    gone = [Step(BEGIN + 10 * MS, what, name), Step(BEGIN + 40 * MS, "start", name)]
    found = run(*sent(*[("a", name), (name, "b"), ("t", "b")] * 6), *gone, *sent((name, "a"), begin=BEGIN + 3_000 * MS))
    assert not found.failure, found
    assert found.lost["wire_lost"] > 0, "those that came while there was no guest"


@pytest.mark.parametrize("how", [guests.OUTSIDE, guests.LOOP, guests.JUMP])
@pytest.mark.parametrize("name", "gh")
def test_a_guest_that_breaks_the_rules_harms_itself(name, how):
    found = run(*sent(*[("a", "b"), (name, "b"), ("t", "b")] * 4), Step(BEGIN + 5 * MS, "break rules", name, (how,)))
    assert not found.failure, found
    (row,) = (row for row in found.ports if row.port == "b")
    assert row.came >= 8 * 40


@pytest.mark.parametrize("said, how", [("", ""), ("ready", "dies"), ("ready", "late")])
def test_a_guest_stays_connected_while_the_switch_is_upgraded(said, how):
    found = run(
        *sent(*[("a", "g"), ("g", "b"), ("h", "g")] * 8), Step(BEGIN + 8 * MS, "upgrade", "", (said, how) if said else ())
    )
    assert not found.failure, found
    assert found.sent == found.came


def test_runs_with_guests_are_drawn():
    seeds = [seed for seed in range(200) if guests.is_drawn(seed)]
    assert 15 < len(seeds) < 50
    named = set()
    for seed in seeds[:6]:
        found = simulate(seed)
        assert not found.failure, found
        assert found.settings["guests"] and {row.port for row in found.ports} > {"g", "h"}
        named |= {step.what for step in found.steps if step.to in guests.NAMES}
    assert named >= {"start", "send", "kill", "break rules"}
    assert not set(USUAL.ports) & set(guests.NAMES)


def keeps_areas(session):
    session.areas = []


MISTAKES = {
    "memory of a guest that has gone stays open": (Session, "_close_areas", keeps_areas),
    "who breaks the rules keeps the connection": (vhost_peer.Peer, "_pause", lambda self, seconds: setattr(self, "over", True)),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_found(name, monkeypatch):
    owner, attribute, other = MISTAKES[name]
    seeds = [seed for seed in range(1000) if guests.is_drawn(seed)]
    with monkeypatch.context() as patched:
        patched.setattr(owner, attribute, other)
        failed = next((seed for seed in seeds[:40] if simulate(seed).failure), None)
    assert failed is not None
    assert not simulate(failed).failure
