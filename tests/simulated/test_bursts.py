"""More frames at once than a ring, a socket or a flow's share holds: in simulated runs."""

import pytest
from test_pair import SETTINGS as OF_PAIRS
from test_pair import STARTS as OF_BOTH
from test_simulation import MS, SETTINGS, Step, simulate

from penstock_net.vswitch.simulation import bursts
from penstock_net.vswitch.simulation.pair_run import ALL, simulate_pair

STARTS = [Step(0, "start", name) for name in "abc"]


@pytest.mark.parametrize("name", ["a", "t"])
def test_what_a_flow_may_not_hold_is_lost_and_counted(name):
    """An application waits until its queue has room; who sends by a TAP without an edge does not. Others lose nothing."""
    others = [Step((5 + i) * MS, "send", "u", ("c", 10, 200)) for i in range(20)]
    steps = [*STARTS, Step(5 * MS, "stop reading", "b"), Step(6 * MS, "burst", name, ("b", 5000, 60)), *others]
    found = simulate(1, steps=[*steps, Step(90 * MS, "read again", "b")], settings={**SETTINGS, "edge": False})
    assert not found.failure, found
    lost = found.sent - found.came
    assert found.sent > 5200 and sum(found.lost.values()) == lost
    assert lost == 0 if name == "a" else found.lost.keys() == {"flow_over"} and 1000 < lost < 2000


def test_a_burst_for_a_packet_socket_is_more_than_it_holds():
    found = simulate_pair(1, steps=[*OF_BOTH, Step(5 * MS, "burst", "p", ("a", 5000, 60))], settings=OF_PAIRS)
    assert not found.failure, found
    assert found.sent - found.came == sum(found.lost.values()) > 1000


def test_bursts_are_drawn():
    seeds = [seed for seed in range(400) if bursts.draw_steps(seed, 100 * MS, ALL)]
    assert 8 < len(seeds) < 40
    for seed in seeds[:3]:
        for found in (simulate(seed), simulate_pair(seed)):
            assert any(step.what == "burst" for step in found.steps)
            assert not found.failure, found
