"""What `show` says of pauses, flows and waiting frames is looked at in simulated runs; and what was found so."""

from unittest import mock

import pytest
from test_simulation import MS, SETTINGS

from penstock_net.vswitch.daemon import server
from penstock_net.vswitch.dataplane.switch import Switch
from penstock_net.vswitch.simulation import shown
from penstock_net.vswitch.simulation.laws import Broken
from penstock_net.vswitch.simulation.machine import Machine
from penstock_net.vswitch.simulation.run import Step, simulate

STOPPED = [
    Step(0, "start", "a"),
    Step(0, "start", "c"),
    Step(18 * MS, "stop reading", "a"),
    Step(19 * MS, "send", "c", ("a", 60, 1400)),
]
SMALL = {**SETTINGS, "th_goal": 2000, "th_over": 6000, "th_net": 18_000}


@pytest.fixture(autouse=True)
def each_look(monkeypatch):
    monkeypatch.setattr(shown, "LOOKS", 1)


def test_flows_of_a_port_that_is_gone_are_not_those_of_the_next_one_of_its_number():
    """`show flows` said that they come from that, and its edge had classes for them (seed 32)."""
    steps = [*STOPPED, Step(21 * MS, "end", "c"), Step(30 * MS, "add", "v"), Step(42 * MS, "show", "", ("flows",))]
    found = simulate(32, steps=steps, settings=SMALL)
    assert not found.failure, found


@pytest.mark.parametrize("seed", range(3))
def test_whole_ports_may_be_paused(seed):
    """A port keeps the end of its last pause, which says nothing when it is over."""
    ports = [{"name": name, "addresses": [f"10.0.0.{i + 1}"]} for i, name in enumerate("abc")]
    found = simulate(seed, "60ms", content={"switch": {"mode": "pfc", "th_goal": "2KB", "th_over": "6KB"}, "port": ports})
    assert not found.failure, found


class Short(Switch):
    """It forgets for how long ports were paused."""

    def port_row(self, *more):
        return {**super().port_row(*more), "paused_ns": 0}


class Long(Switch):
    """Its pauses are longer than any may be."""

    def pauses(self, now=None):
        return [{**row, "left_ns": row["left_ns"] + shown.LONGEST_NS} for row in super().pauses(now)]


class Late(Switch):
    """Its pauses go on when they are over."""

    def pauses(self, now=None):
        return [{**row, "left_ns": row["left_ns"] - 3 * shown.LONGEST_NS} for row in super().pauses(now)]


class Behind(Switch):
    """It knows what waits in a queue as of the last frame."""

    def flow_row(self, *more):
        row = super().flow_row(*more)
        return {**row, "waiting_bytes": row["bytes"]}


@pytest.mark.parametrize(
    "kind, said", [(Short, "paused_ns of port c"), (Long, "ns more"), (Late, "after the end"), (Behind, "no frame")]
)
def test_a_mistake_is_found(kind, said):
    settings = {**SMALL, "idle": "20s"}
    with mock.patch.object(server, "make_switch", lambda content, config: kind(**config.settings)):
        found = simulate(32, steps=[*STOPPED, Step(25 * MS, "show", "", ("flows",))], settings=settings)
    assert said in found.failure, found


def test_what_waits_when_nobody_sends_is_found():
    """An application does not read, and nobody says that something is wrong with it."""
    with Machine(1, SETTINGS) as machine:
        for name in "ab":
            machine.start_app(name)
        machine.world.wait(machine.world.now + 20 * MS)
        shown.check_quiet(machine)
        machine.apps["a"].most = 0
        machine.apps["a"].told()
        machine.world.wait(machine.world.now + MS)
        machine.apps["b"].wanted.append(("a", 60, False))
        machine.apps["b"].told()
        machine.world.wait(machine.world.now + 20 * MS)
        with pytest.raises(Broken, match=r"1 frames wait at a \(not_taken_frames\)"):
            shown.check_quiet(machine)
