"""The whole switch in a simulated world: laws on drawn schedules, faults that were found so, and mistakes that must be found."""

import os
import random
import subprocess
import sys

import pytest
from mistakes import MISTAKES

from penstock_net.vswitch.simulation.run import Found, Step, shorten, simulate
from penstock_net.vswitch.simulation.steps import draw_steps

MS = 1_000_000
SETTINGS = {
    "mode": "backdraft",
    "flows": 2048,
    "th_goal": 4000,
    "th_over": 12_000,
    "th_net": 36_000,
    "idle": "100ms",
    "workers": 1,
}


@pytest.mark.parametrize("seed", range(24))
def test_laws_hold(seed):
    found = simulate(seed)
    assert not found.failure, f"{found}\nfewer steps: penstock vswitch simulate --seed {seed} --shorten"
    assert found.came > 300


def test_a_seed_is_the_same_bits():
    """Also in another process, in which sets of texts have another order."""
    first = [simulate(seed, "30ms").digest for seed in (5, 6, 5)]
    assert first[0] == first[2] != first[1]
    program = "from penstock_net.vswitch.simulation.run import simulate; print(simulate(5, '30ms').digest)"
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    assert said.stdout.strip() == first[0]


def test_time_in_which_nothing_happens_costs_little():
    """Nobody wakes up without work: what more there is to do in ten seconds more."""
    starts = [Step(0, "start", name) for name in "abc"]
    short, long = (
        simulate(1, steps=[*starts, Step(seconds * 1000 * MS, "show", "", ("ports",))], settings=SETTINGS) for seconds in (1, 11)
    )
    assert not short.failure and not long.failure
    assert long.simulated_ns > short.simulated_ns + 9_000 * MS
    assert long.questions - short.questions < 10 * 25


def test_steps_do_not_grow_with_the_length_of_a_run():
    numbers = [[len(draw_steps(random.Random(i), seconds * 1000 * MS)) for i in range(20)] for seconds in (1, 3600)]
    assert sum(numbers[1]) < 2 * sum(numbers[0])


# ---- Faults that were found so: the seed, and the steps that were left of it ----


def test_the_memory_of_a_port_that_was_removed_is_freed_at_once():
    """The keeper's thread slept until the next change of an interface and still referred to the last device that it had seen."""
    found = simulate(3, steps=[Step(5 * MS, "add", "v")], settings=SETTINGS)
    assert not found.failure, found


def test_an_application_attaches_while_its_port_is_removed():
    """The thread of its connection ended with a KeyError."""
    times = {"add": 22_964_000, "start": 23_964_000, "end": 76_015_000}
    steps = [*(Step(at, what, "d") for what, at in times.items()), Step(76_034_000, "start", "d")]
    settings = {**SETTINGS, "th_goal": 13_333, "th_over": 40_000, "th_net": 120_000, "workers": 2}
    for seed in (29, 30):
        found = simulate(seed, steps=steps, settings=settings)
        assert not found.failure, found


def test_changes_are_shown_while_a_port_is_removed():
    """The port was in the specification and no longer in the switch: the thread of the request ended with a KeyError."""
    shows = [Step(23 * MS + i * 20_000, "show", "", ("changes",)) for i in range(20)]
    found = simulate(0, steps=[Step(MS, "add", "v"), Step(23 * MS, "remove", "v"), *shows], settings=SETTINGS)
    assert not found.failure, found


# ---- Mistakes that are put back ----


def first_found(name):
    for seed in range(30):
        with MISTAKES[name]():
            found = simulate(seed)
        if found.failure:
            return found
    raise AssertionError("it was not found")


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_found(name):
    found = first_found(name)
    assert found.failure
    assert not simulate(found.seed).failure


def test_few_steps_are_left_of_a_failure():
    name = "`set` leaves old addresses"
    found = first_found(name)
    with MISTAKES[name]():
        few = shorten(found)
    assert few.failure
    assert [step.what for step in few.steps] in (["readdress"], ["readdress", "readdress"])
    assert "readdress" in str(few) and isinstance(few, Found)
