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


@pytest.mark.parametrize("how", [upgrades.DIES, upgrades.LATE])
def test_edges_go_on_after_an_upgrade_that_has_failed(how):
    """A flow has a class meanwhile: the old process knows it, and nobody else has changed it."""
    held = [Step((3 + i) * MS, "send", "t", ("c", 40, 1400)) for i in range(4)]
    steps = [Step(2 * MS, "stop reading", "c"), *held, Step(20 * MS, "upgrade", "", ("ready", how))]
    steps += [Step(90 * MS, "read again", "c"), Step(95 * MS, "send", "t", ("c", 4, 1400))]
    found = simulate(1, steps=[*STARTS, *steps], settings={**SETTINGS, "edge": True})
    assert not found.failure, found
    assert found.came == found.sent
    with MISTAKES["edges rest for good after an upgrade that has failed"]():
        failed = simulate(1, steps=[*STARTS, *steps], settings={**SETTINGS, "edge": True})
    assert "the edge of port t does not go on: it rests" in failed.failure


@pytest.mark.parametrize("how", [restarts.DOWN, restarts.KILLED, restarts.LOST])
def test_kept_ports_come_back(how):
    steps = [*STARTS, Step(5 * MS, "add", "v", (True,)), Step(9 * MS, "restart", "", (how,))]
    found = simulate(2, steps=steps, settings={**SETTINGS, "edge": True, "netns": {"v": "left"}})
    assert not found.failure, found


def test_what_an_interface_has_lost_is_known_after_an_upgrade_when_nobody_can_read_it():
    """It was moved to another namespace: what was read before was forgotten (seed 1076)."""
    places = {name: "process one" for name in "tuvw"}
    settings = {**SETTINGS, "th_goal": 4000, "edge": True, "netns": places}
    for seed in (1076, 1077):
        steps = [Step(16_655_000, "move", "t"), Step(18_423_000, "move", "u"), Step(26_797_000, "upgrade", "")]
        found = simulate(seed, steps=steps, settings=settings)
        assert not found.failure, found


def test_a_reload_is_answered_by_the_process_that_has_the_switch_then():
    """Another process has the number of a namespace by then, with which the operator agrees: the machine called it a stranger."""
    times = {"lose namespace": 33_945_000, "make namespace": 51_640_000}
    steps = [Step(at, what, "process one") for what, at in times.items()]
    steps += [Step(39_410_000, "upgrade", ""), Step(42_076_000, "remove", "d", (True,)), Step(43_222_000, "reload", "", (False,))]
    places = {"u": "process one", "v": "right", "w": "right"}
    settings = {**SETTINGS, "th_goal": 2000, "th_over": 6000, "th_net": 18_000, "idle": "5ms", "workers": 2, "netns": places}
    found = simulate(639, steps=sorted(steps, key=lambda step: step.at), settings={**settings, "mode": "backdraft"})
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
