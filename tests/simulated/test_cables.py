"""A port on an existing interface whose cable takes nothing for a while: its ring is full, and frames wait in the switch."""

import pytest
from test_pair import MS, SETTINGS, STARTS, Step

from penstock_net.vswitch.simulation import cables
from penstock_net.vswitch.simulation.pair_run import ALL, CABLES, simulate_pair

SENT = 200  # more than the ring holds


def run(*steps, seed=1):
    sent = [Step((6 + i) * MS, "send", "a", ("p", SENT // 5, 700)) for i in range(5)]
    return simulate_pair(seed, steps=[*STARTS, Step(5 * MS, "cable stops", "p"), *sent, *steps], settings=SETTINGS)


def test_frames_wait_until_the_cable_takes_them_again():
    found = run(Step(40 * MS, "cable goes", "p"))
    assert not found.failure, found
    assert found.sent == found.came > SENT and not found.lost


@pytest.mark.parametrize("what", ["delete", "down"])
def test_what_is_in_the_ring_of_an_interface_that_goes_is_lost_and_what_waits_is_not_counted_twice(what):
    """An interface counts each frame for which it has no room, which comes again: when it was deleted, all were `kernel_lost`."""
    found = run(Step(40 * MS, what, "p"))
    assert not found.failure, found
    assert found.lost["in rings of interfaces that are gone"] >= 64 and "kernel_lost" not in found.lost
    assert sum(found.lost.values()) == found.sent - found.came


def test_a_switch_that_was_killed_starts_though_the_address_of_its_uplink_had_gone():
    """In the harness: an address of IPv6 goes with its interface (seed 1115)."""
    steps = [*STARTS, Step(5 * MS, "crash", "far"), Step(6 * MS, "uplink down", "far"), Step(20 * MS, "come back", "far")]
    found = simulate_pair(1, steps=steps, settings={**SETTINGS, "overlay_six": True})
    assert not found.failure, found


def test_such_cables_are_drawn():
    seeds = [seed for seed in range(200) if cables.draw_steps(seed, 100 * MS, CABLES, ALL)]
    assert 8 < len(seeds) < 40
    for seed in seeds[:4]:
        found = simulate_pair(seed)
        assert any(step.what == "cable stops" for step in found.steps)
        assert not found.failure, found
