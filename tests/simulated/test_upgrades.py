"""Upgrades, ports that are kept, and restarts in a simulated world; and mistakes in them that must be found."""

import pytest
from test_simulation import MS, SETTINGS
from upgrade_mistakes import MISTAKES, RARE

from penstock_net.vswitch.simulation import restarts, upgrades
from penstock_net.vswitch.simulation.layout import USUAL
from penstock_net.vswitch.simulation.run import Step, simulate

SENT = [Step(i * MS, "send", "a", ("b", 5, 200)) for i in range(1, 260, 3)]
SENT += [Step(i * MS, "send", "t", ("u", 5, 200)) for i in range(1, 260, 3)]
STARTS = [Step(0, "start", name) for name in "abc"]


def run(*steps, seed=1, **settings):
    plan = sorted([*STARTS, *SENT, *steps], key=lambda step: step.at)
    return simulate(seed, steps=plan, settings={**SETTINGS, **settings})


@pytest.mark.parametrize("edge", [False, True], ids=["plain", "edge"])
def test_nothing_is_lost_by_an_upgrade(edge):
    """Frames pass before, meanwhile and afterwards; the second one is by a process that took over itself."""
    found = run(Step(10 * MS, "upgrade", ""), Step(250 * MS, "upgrade", ""), edge=edge, workers=2)
    assert not found.failure, found
    assert found.came == found.sent > 800


@pytest.mark.parametrize(
    ("said", "how"),
    [*((said, upgrades.DIES) for said in upgrades.SAID[:4]), *((said, upgrades.ENDS) for said in upgrades.SAID[:3])],
)
def test_the_old_process_goes_on_if_the_new_one_dies(said, how):
    found = run(Step(10 * MS, "upgrade", "", (said, how)), edge=said == "ready")
    assert not found.failure, found
    assert found.came == found.sent


def test_the_old_process_goes_on_if_the_new_one_is_late():
    """It stands still for as long as it waits, and no longer."""
    found = run(Step(10 * MS, "upgrade", "", ("ready", upgrades.LATE)), edge=True)
    assert not found.failure, found
    assert found.came == found.sent
    assert 5_000 * MS < found.simulated_ns < 9_000 * MS


@pytest.mark.parametrize("how", [restarts.DOWN, restarts.KILLED, restarts.LOST])
def test_kept_ports_come_back(how):
    steps = [*STARTS, Step(5 * MS, "add", "v", (True,)), Step(9 * MS, "restart", "", (how,))]
    found = simulate(2, steps=steps, settings={**SETTINGS, "edge": True, "netns": {"v": "left"}})
    assert not found.failure, found


def test_most_runs_are_what_they_were_without_upgrades():
    """They are drawn from generators of their own."""
    drawn = [bool(upgrades.draw_steps(seed, 100 * MS, USUAL)) for seed in range(1000)]
    assert 0.07 < sum(drawn) / 1000 < 0.13


# ---- Mistakes that are put back ----


def test_settings_that_are_not_carried_over_are_seen():
    steps = [*STARTS, Step(MS, "set", "", ("idle", "2ms")), Step(3 * MS, "upgrade", "")]
    assert not simulate(1, steps=steps, settings=SETTINGS).failure
    with RARE():
        assert "settings is not what it was: idle" in simulate(1, steps=steps, settings=SETTINGS).failure


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_found(name):
    for seed in range(100):
        if upgrades.draw_steps(seed, 100 * MS, USUAL) or restarts.draw_steps(seed, 100 * MS, USUAL):
            with MISTAKES[name]():
                found = simulate(seed)
            if found.failure:
                break
    assert found.failure
    assert not simulate(found.seed).failure
