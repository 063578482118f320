"""An edge that fails while nothing is wrong with its interface begins anew, and again if that fails, too."""

from unittest import mock

import pytest
from test_simulation import MS, SETTINGS

from penstock_net.vswitch.daemon.condition import EDGE_FAILED, UP
from penstock_net.vswitch.daemon.keeper import EDGE_AFTER_S, SLOW_POLL_S, Keeper
from penstock_net.vswitch.daemon.kept import Kept
from penstock_net.vswitch.simulation import edges
from penstock_net.vswitch.simulation.laws import Broken
from penstock_net.vswitch.simulation.machine import Machine

S = 1000 * MS
SEEN_NS = round((SLOW_POLL_S + 1) * S)  # no event tells of it


def port(machine, name="t"):
    (found,) = (row for row in machine.call(lambda switch: switch.ports()) if row["port"] == name)
    return found


def fail(machine, name="t"):
    """The edge of a port has failed, as when the kernel refuses a class; what it was."""
    device = machine.daemon.devices[name]
    found, device.edge.error = device.edge, OSError("the kernel has refused a class")
    return found


def begins_anew(machine, failed, within, name="t"):
    device = machine.daemon.devices[name]
    machine.wait(within, lambda: device.edge not in (failed, None) and not device.edge.error, "the edge does not begin anew")
    machine.world.wait(machine.world.now + 10 * MS)
    assert port(machine, name)["state"] == UP
    edges.check(machine)


def run():
    with Machine(1, {**SETTINGS, "edge": True}) as machine:
        machine.world.wait(machine.world.now + 20 * MS)
        other = machine.daemon.devices["u"].edge
        begins_anew(machine, fail(machine), SEEN_NS)
        again = fail(machine)
        (kept,) = (each for each in machine.daemon.keeper.kept if each.name == "t")
        machine.wait(SEEN_NS, lambda: kept.state == EDGE_FAILED, "it is not said")
        assert port(machine)["state"] == EDGE_FAILED
        assert "refused a class" in port(machine)["device"]["why"]
        begins_anew(machine, again, round(EDGE_AFTER_S * S) + SEEN_NS)
        assert machine.daemon.devices["u"].edge is other
        for name in "tu":
            machine.program_sends(name, "ut"["tu".index(name)], 0, 3, 200)
        machine.wait(25 * MS, lambda: machine.record.came == 6, "frames do not pass")
        machine.record.check()


def test_an_edge_that_fails_for_another_reason_begins_anew():
    """At once, and then after some time; the edges of other ports stay as they are."""
    run()


@pytest.mark.parametrize("mistake", ["nobody looks", "it is not begun anew"])
def test_a_mistake_is_found(mistake):
    if mistake == "nobody looks":
        wrong = mock.patch.object(Kept, "lacks_edge", False)
    else:
        wrong = mock.patch.object(Keeper, "_begin_edge", lambda self, kept: "")
    with wrong, pytest.raises(Broken, match="the edge does not begin anew"):
        run()
