"""Requests come in the middle of what they must not disturb: an application that attaches to a port that goes, and others."""

import random

import pytest
from test_simulation import MS, SETTINGS

from penstock_net.vswitch.daemon import operations
from penstock_net.vswitch.daemon.server import Daemon
from penstock_net.vswitch.simulation import moments
from penstock_net.vswitch.simulation.layout import USUAL
from penstock_net.vswitch.simulation.run import simulate
from penstock_net.vswitch.simulation.steps import DO

SEEDS = range(8)


def laws_hold(seed, made):
    steps = sorted(made(random.Random(seed), 2 * MS), key=lambda step: step.at)
    found = simulate(seed, steps=steps, settings=SETTINGS)
    assert not found.failure, found


def test_changes_are_asked_for_while_a_port_is_removed(monkeypatch):
    """At that moment a port of the specification is in the daemon no longer."""
    seen, changes = [], operations.changes

    def looked(daemon):
        seen.append(daemon.base.ports.keys() - daemon.ports.keys())
        return changes(daemon)

    monkeypatch.setattr(operations, "changes", looked)
    for seed in SEEDS:
        laws_hold(seed, moments.gone)
    assert any(seen) and not all(seen)


def test_an_application_comes_while_its_port_is_removed(monkeypatch):
    """At that moment the switch has found the port, and then it is not there."""
    seen, port_now = [], Daemon._port_now

    def looked(daemon, name):
        seen.append(name in daemon.ports)
        return port_now(daemon, name)

    monkeypatch.setattr(Daemon, "_port_now", looked)
    for seed in SEEDS:
        laws_hold(seed, moments.attached)
    assert any(seen) and not all(seen)


@pytest.mark.parametrize("seed", [4, 9])
def test_a_run_has_them_at_times(seed):
    steps = moments.draw_steps(seed, 100 * MS, USUAL)
    assert {step.what for step in steps} <= DO.keys()
    (gone,) = (step.at for step in steps if step.what == "remove")
    near = [step for step in steps if abs(step.at - gone) <= moments.SHORT_NS and step.what != "remove"]
    assert len(near) >= 2
    assert not moments.draw_steps(seed + 1, 100 * MS, USUAL)
