"""Applications that are killed again and again, and receivers that are slow: others lose nothing, and nothing is left of them."""

import pytest
from mistakes import MISTAKES
from test_simulation import MS, SETTINGS

from penstock_net.vswitch.simulation.run import Step, simulate

STARTS = [Step(0, "start", name) for name in "abc"]
KILLS = 25
# c sends to b and gets frames of a; it is killed at other times of its work, and comes again 2 ms later. A port is attached to
# every 20 ms at most.
TIMES = [15 * MS + i * 25 * MS + i * i % 97 * 10_000 for i in range(KILLS)]


def run(kills=TIMES, seed=1, **settings):
    steps = [Step(at, "kill", "c") for at in kills] + [Step(at + 2 * MS, "start", "c") for at in kills]
    end = kills[-1] + 10 * MS
    for at in range(MS, end, 3 * MS):
        steps += [
            Step(at, "send", "a", ("b", 4, 200)),
            Step(at, "send", "a", ("c", 3, 700)),
            Step(at, "send", "c", ("b", 5, 900)),
        ]
    return simulate(seed, steps=sorted([*STARTS, *steps], key=lambda step: step.at), settings={**SETTINGS, **settings})


@pytest.mark.parametrize("workers, mode", [(1, "backdraft"), (2, "dpfq")])
def test_an_application_is_killed_again_and_again(workers, mode):
    """What is lost are frames to it; those of others come in time, in their order, whatever it was doing."""
    found = run(workers=workers, mode=mode)
    assert not found.failure, found
    rows = {row.port: row for row in found.ports}
    assert rows["b"].lost == {} and rows["a"].sent > 600 and rows["b"].came > 600
    assert found.sent - found.came == sum(found.lost.values())


@pytest.mark.parametrize(
    "name",
    [
        "a descriptor of each application's process stays open",
        "an eventfd of each application stays open",
        "losses of applications that have gone are forgotten",
    ],
)
def test_a_mistake_is_found(name):
    with MISTAKES[name]():
        assert run(TIMES[:6]).failure


@pytest.mark.parametrize("workers", [1, 2])
def test_a_slow_receiver_gets_all_that_was_sent(workers):
    """Nothing is lost, doubled or overtaken, though the receiver takes 5 frames and pauses; who else sends is not held up."""
    steps = [Step(MS, "read slowly", "b", (5, MS))]
    steps += [Step((2 + i) * MS, "send", name, ("b", 5, 200)) for i in range(400) for name in "at"]
    steps += [Step((2 + i) * MS, "send", "a", ("c", 2, 200)) for i in range(400)]
    steps = [*STARTS, *sorted(steps, key=lambda step: step.at)]
    found = simulate(1, steps=steps, settings={**SETTINGS, "workers": workers, "edge": True})
    assert not found.failure, found
    assert found.came == found.sent > 4800
    assert {row.port: row.pauses for row in found.ports}["a"] > 0


def test_a_receiver_that_pauses_all_who_send_is_found():
    """The law that it would break."""
    steps = [Step(MS, "stop reading", "b"), *(Step((2 + i) * MS, "send", "a", (to, 5, 1000)) for i in range(40) for to in "bc")]
    assert not simulate(1, steps=[*STARTS, *steps], settings=SETTINGS).failure
    assert (
        "with nothing wrong at either port" in simulate(1, steps=[*STARTS, *steps], settings={**SETTINGS, "mode": "pfc"}).failure
    )
