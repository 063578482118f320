"""Edges at the interfaces of two switches with an overlay between them: flows to the other side that have a class."""

import random
from unittest import mock

import pytest
from test_pair import MS, SETTINGS, STARTS

from penstock_net.vswitch.attach.ingress_rates import FlowRates
from penstock_net.vswitch.linux.htb import Htb
from penstock_net.vswitch.simulation import edges, upgrades
from penstock_net.vswitch.simulation import steps as known
from penstock_net.vswitch.simulation.pair import Pair
from penstock_net.vswitch.simulation.pair_run import draw_settings, draw_steps, simulate_pair, uplink_stops
from penstock_net.vswitch.simulation.step import Step

WITH_EDGES = {**SETTINGS, "edge": True}
FULL = [Step((3 + i) * MS, "send", "t", ("c", 40, 1400)) for i in range(8)]
SLOW = [Step(2 * MS, "read slowly", "c", (1, 4 * MS)), *FULL]


def run(*steps):
    plan = sorted([*STARTS, *steps], key=lambda step: step.at)
    return simulate_pair(1, steps=plan, settings=WITH_EDGES)


def classes(pair, side, name):
    return pair.machines[side].daemon.devices[name].edge.counters()["classes"]


@pytest.mark.parametrize("what", ["reads slowly", "a full send buffer"])
def test_a_flow_that_is_held_by_the_overlay_has_a_class(what):
    """Its frames wait at its sender, until the far side takes them."""
    with Pair(1, WITH_EDGES) as pair:
        for step in STARTS:
            known.start(pair.machine(step.to), step.to)
        pair.world.wait(pair.world.now + 20 * MS)
        if what == "reads slowly":
            known.read_slowly(pair.machines["far"], "c", 1, 4 * MS)
        else:
            uplink_stops(pair, "near")
        for _ in range(10):
            known.send(pair.machines["near"], "t", "c", 40, 1400)
            pair.pass_time(MS)
        queueing = pair.machines["near"].link("t").queueing
        assert classes(pair, "near", "t") == 1 and queueing.waiting() > 100
        known.read_again(pair.machines["far"], "c")
        pair.mend()
        pair.pass_time(edges.EMPTY_NS)
        assert edges.are_empty(pair.machines["near"]) and classes(pair, "near", "t") == 0
        assert pair.record.came == pair.record.sent == 400


def test_nothing_is_lost_by_upgrades_while_flows_have_classes():
    found = run(
        *SLOW,
        Step(12 * MS, "upgrade", "near"),
        Step(14 * MS, "upgrade", "far"),
        *(Step((40 + i) * MS, "send", "t", ("c", 4, 1400)) for i in range(10)),
        Step(55 * MS, "upgrade", "near", ("ready", upgrades.DIES)),
        Step(80 * MS, "read again", "c"),
    )
    assert not found.failure, found
    assert found.came == found.sent > 350


@pytest.mark.parametrize("side", ["near", "far"])
def test_a_switch_is_killed_while_a_flow_has_a_class(side):
    """If it is the near one, its interface is gone, with the frames in the class."""
    later = [Step((1800 + i) * MS, "send", "t", ("c", 4, 1400)) for i in range(10)]
    found = run(*SLOW, Step(14 * MS, "crash", side), Step(40 * MS, "come back", side), *later)
    assert not found.failure, found
    assert found.came > 40


def test_another_program_sets_a_queueing_discipline():
    found = run(
        *SLOW, Step(14 * MS, "replace qdisc", "t"), Step(30 * MS, "reload", "near", (False,)), Step(60 * MS, "read again", "c")
    )
    assert not found.failure, found


def test_most_runs_have_edges_and_some_of_their_steps_are_for_them():
    drawn = [draw_settings(random.Random(seed))["edge"] for seed in range(200)]
    assert 0.65 < sum(drawn) / 200 < 0.85
    for edge in (True, False):
        steps = [step for seed in range(40) for step in draw_steps(random.Random(seed), 100 * MS, edge)]
        assert ("replace qdisc" in {step.what for step in steps}) is edge


def forgets_rates(self, held, rate):
    """A class keeps its first rate, and the edge does not know that."""
    held.rate = rate


@pytest.mark.parametrize(
    "owner, name, wrong, said",
    [
        (FlowRates, "_set", forgets_rates, "port t has classes with these rates"),
        (Htb, "add_filter", lambda self, minor, flow: None, "port t has filters for the classes"),
    ],
    ids=["a rate", "a filter"],
)
def test_a_mistake_is_found(owner, name, wrong, said):
    with mock.patch.object(owner, name, wrong):
        found = run(*SLOW, Step(60 * MS, "read again", "c"))
    assert said in found.failure
