"""Upgrades of one of two switches with an overlay, and switches that are killed; and mistakes in that which must be found."""

import pytest
from pair_mistakes import MISTAKES
from test_pair import MS, SETTINGS, STARTS

from penstock_net.vswitch.simulation import upgrades
from penstock_net.vswitch.simulation.pair import SIDES, Pair
from penstock_net.vswitch.simulation.pair_run import draw_changes, simulate_pair
from penstock_net.vswitch.simulation.step import Step

PAIRS = ("ac", "da", "bu", "ub", "tc", "pq", "qa")
SENT = [Step(i * MS, "send", name, (target, 3, 700)) for i in range(1, 90, 6) for name, target in PAIRS]


def run(*steps, seed=1, sent=SENT, **settings):
    plan = sorted([*STARTS, *sent, *steps], key=lambda step: step.at)
    return simulate_pair(seed, steps=plan, settings={**SETTINGS, **settings})


@pytest.mark.parametrize("secret", ["", "000102030405060708090a0b0c0d0e0f"], ids=["open", "secret"])
def test_nothing_is_lost_by_an_upgrade_of_both(secret):
    """One after the other, and the near one a second time: the session goes on, with all its numbers."""
    found = run(Step(5 * MS, "upgrade", "near"), Step(30 * MS, "upgrade", "far"), Step(70 * MS, "upgrade", "near"), secret=secret)
    assert not found.failure, found
    assert found.came == found.sent > 300


def test_a_session_goes_on_after_an_upgrade():
    with Pair(1, SETTINGS) as pair:
        pair.world.wait(pair.world.now + 200 * MS)
        before = {side: pair.overlay(side)["overlay"]["sessions"] for side in SIDES}
        upgrades.upgrade(pair.machines["far"], "")
        pair.machines["far"].answered()
        pair.world.wait(pair.world.now + 200 * MS)
        assert pair.is_connected()
        assert {side: pair.overlay(side)["overlay"]["sessions"] for side in SIDES} == before
        assert not pair.record.failure


@pytest.mark.parametrize("how", [upgrades.DIES, upgrades.LATE])
def test_the_old_process_goes_on_if_the_new_one_fails(how):
    found = run(Step(10 * MS, "upgrade", "far", ("ready", how)), sent=SENT[::4])
    assert not found.failure, found


def test_a_switch_that_is_killed_comes_back():
    """Frames to it wait for it at the other one; what is lost is what had not come when it was killed."""
    later = [Step((1800 + i) * MS, "send", name, (target, 3, 700)) for i in range(20) for name, target in PAIRS]
    found = run(Step(20 * MS, "crash", "far"), Step(60 * MS, "come back", "far"), sent=[*SENT, *later])
    assert not found.failure, found
    assert found.came > 60 * len(PAIRS)


def test_a_switch_that_is_killed_comes_back_in_the_end():
    """Also if the step is left out that says so, as when a failure is shortened."""
    found = run(Step(20 * MS, "crash", "near"), sent=SENT[:40])
    assert not found.failure, found


def test_a_path_that_was_not_there_at_the_start_is_found():
    """The interface to the other switch was down when this one started: it never asked again what passes (seed 3106)."""
    steps = [Step(20 * MS, "crash", "far"), Step(25 * MS, "uplink down", "far")]
    found = run(*steps, Step(60 * MS, "come back", "far"), Step(90 * MS, "mend", "far"), sent=[])
    assert not found.failure, found


def test_some_runs_have_changes():
    drawn = [{step.what for step in draw_changes(seed, 100 * MS)} for seed in range(1000)]
    assert 0.15 < sum(map(bool, drawn)) / 1000 < 0.25
    assert sum("crash" in each for each in drawn) > 50 < sum("upgrade" in each for each in drawn)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_found(name):
    for seed in range(100):
        if draw_changes(seed, 100 * MS):
            with MISTAKES[name]():
                found = simulate_pair(seed)
            if found.failure:
                break
    assert found.failure
    assert not simulate_pair(found.seed).failure
