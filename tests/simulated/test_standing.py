"""The switch gets no processor for a while, or the clock jumps: nothing is lost by it, and afterwards all is as before."""

import pytest
from test_simulation import MS, SETTINGS

from penstock_net.vswitch.simulation import standing
from penstock_net.vswitch.simulation.laws import Record
from penstock_net.vswitch.simulation.pair import SIDES
from penstock_net.vswitch.simulation.pair_run import DO as DO_OF_TWO
from penstock_net.vswitch.simulation.pair_run import simulate_pair
from penstock_net.vswitch.simulation.run import Step, simulate
from penstock_net.vswitch.simulation.steps import DO
from penstock_net.vswitch.world.simulated import tasks
from penstock_net.vswitch.world.simulated.kernel import Simulated

DRAWN = [seed for seed in range(200) if standing.draw_steps(seed, 100 * MS)]
STARTED = [Step(0, "start", "a"), Step(0, "start", "b")]


@pytest.mark.parametrize("seed", DRAWN[:6])
def test_laws_hold(seed):
    found = simulate(seed)
    assert not found.failure, found


@pytest.mark.parametrize("seed", DRAWN[:4])
def test_laws_of_two_switches_hold(seed):
    found = simulate_pair(seed)
    assert not found.failure, found


def test_a_run_has_them_at_times():
    assert 20 <= len(DRAWN) <= 40  # 0.15 of them
    for names, known in (([""], DO), (SIDES, DO_OF_TWO)):
        steps = [step for seed in DRAWN for step in standing.draw_steps(seed, 100 * MS, names)]
        assert {step.what for step in steps} == standing.DO.keys() <= known.keys()
        assert {step.to for step in steps} == {*names}


def test_frames_wait_while_the_switch_stands(monkeypatch):
    """They come when it goes on, which is later than frames may, and at once."""
    came, arrived = [], Record.arrived

    def noted(record, data, at):
        came.append(record.now())
        arrived(record, data, at)

    monkeypatch.setattr(Record, "arrived", noted)
    spans = []
    for ns in (0, 55 * MS):
        steps = [*STARTED, Step(10 * MS, "stand still", "", (ns,)), Step(11 * MS, "send", "a", ("b", 8, 60))]
        came.clear()
        found = simulate(3, steps=steps, settings=SETTINGS)
        assert not found.failure and found.sent == found.came, found
        spans.append(came[0])
    assert 53 * MS < spans[1] - spans[0] < 56 * MS


def test_a_frame_that_is_late_after_it_is_a_failure(monkeypatch):
    """What came while the switch stood is excused, what comes afterwards is not: here nobody is told that it goes on."""
    monkeypatch.setattr(tasks.Tasks, "_go_on", lambda self, pid, again: again and again())
    steps = [*STARTED, Step(10 * MS, "stand still", "", (MS,)), Step(12 * MS, "send", "a", ("b", 8, 60))]
    found = simulate(3, steps=[*steps, Step(60 * MS, "show", "", ("ports",))], settings=SETTINGS)
    assert "has not come in 25 ms" in found.failure


def test_a_process_that_stands_does_nothing_and_others_go_on():
    world, done = Simulated(), []

    def work(name):
        for _ in range(5):
            world.wait(world.now + MS)
            done.append(name)

    first, _ = (world.tasks.process(name, lambda name=name: work(name)) for name in "ab")
    world.tasks.stand(first.pid, 50 * MS, lambda: done.append("again"))
    world.wait(world.now + 40 * MS)
    assert done == ["b"] * 5
    world.wait(world.now + 40 * MS)
    assert done == [*"bbbbb", "again", *"aaaaa"]


def test_one_that_is_killed_while_it_stands_ends():
    world, done = Simulated(), []
    task = world.tasks.process("a", lambda: world.wait(world.now + MS))
    world.tasks.stand(task.pid, 50 * MS, lambda: done.append("again"))
    world.tasks.kill(task.pid)
    world.wait(world.now + MS)
    assert task.ended and done == ["again"] and not world.tasks.standing
    world.wait(world.now + 90 * MS)
    assert done == ["again"]


@pytest.mark.parametrize("seed", range(32, 36))
def test_a_port_whose_interface_was_deleted_unseen_is_removed(seed):
    """The kernel refused a request to it, the port was half removed, its name was taken, and `reload` failed (seeds 1766, 34)."""
    steps = [*STARTED, Step(5 * MS, "stand still", "", (20 * MS,)), Step(6 * MS, "remove", "t"), Step(7 * MS, "delete", "t")]
    steps += [Step(40 * MS, "add", "t"), Step(50 * MS, "reload", "", (False,))]
    found = simulate(seed, steps=steps, settings={**SETTINGS, "edge": True})
    assert not found.failure, found


@pytest.mark.parametrize("seed", range(2))
def test_addresses_come_back_though_all_reports_were_lost(seed):
    """The kernel takes IPv6 addresses away when an interface goes down; so many reports came at once that this one was lost, and
    the port was said to be changed by somebody (seed 11229).
    """
    steps = [
        Step(0, "start", "c"),
        Step(8 * MS, "stand still", "", (37 * MS,)),
        *(Step(9 * MS, "send", "t", ("b", count, 1400)) for count in (60, 40)),
        Step(29 * MS, "down", "t"),
        Step(30 * MS, "up", "t"),
        Step(82 * MS, "send", "c", ("t", 2, 60, True)),
    ]
    found = simulate(seed, steps=steps, settings={**SETTINGS, "six": True})
    assert not found.failure, found


@pytest.mark.parametrize("seed", range(2))
def test_an_interface_that_was_moved_and_moved_back_unseen_is_set_up(seed):
    """It was down, without addresses, and was taken for one that an operator had set down (seed 293)."""
    steps = [Step(8 * MS, "stand still", "", (37 * MS,)), Step(9 * MS, "move", "u"), Step(10 * MS, "move back", "u")]
    steps += [*STARTED, Step(82 * MS, "send", "a", ("u", 4, 60)), Step(130 * MS, "send", "u", ("a", 4, 60))]
    steps.sort(key=lambda step: step.at)
    found = simulate(seed, steps=steps, settings={**SETTINGS, "netns": {"u": "right"}, "edge": True})
    assert not found.failure and found.sent == found.came > 50, found
