"""An interface that is deleted while the switch sets it up leaves nothing open, and who has asked gets an answer."""

import pytest
from test_simulation import MS, SETTINGS

from penstock_net.vswitch.attach import devices
from penstock_net.vswitch.attach.ingress_rates import FlowRates
from penstock_net.vswitch.daemon.server import Daemon
from penstock_net.vswitch.simulation import steps
from penstock_net.vswitch.simulation.machine import Machine


def deleted_first(machine, monkeypatch, owner, attribute, name):
    """The first call of a function comes when the interface of a port has been deleted."""
    wrapped, left = getattr(owner, attribute), [name]

    def call(*arguments):
        if left:
            steps.delete(machine, left.pop())
        return wrapped(*arguments)

    monkeypatch.setattr(owner, attribute, call)


def asked(machine, message):
    answers = []
    machine.ask(message, answers.append)
    machine.answered()
    machine.world.wait(machine.world.now + 40 * MS)
    return answers[0]


@pytest.mark.parametrize(
    "owner, attribute, said",
    [(devices, "mac_of", "interface tap-v was deleted while it was set up"), (FlowRates, "__enter__", "")],
    ids=["its address", "its edge"],
)
def test_a_port_that_cannot_be_added_leaves_nothing_open(owner, attribute, said, monkeypatch):
    """The TAP and netlink sockets stayed open, and the request had no answer (seeds 6272 and 5812 with guests in all runs)."""
    with Machine(1, {**SETTINGS, "edge": True}) as machine:
        machine.world.wait(machine.world.now + 40 * MS)
        before, table = machine.inventory(), machine.table_of("v")
        deleted_first(machine, monkeypatch, owner, attribute, "v")
        answer = asked(machine, {"port_add": [table]})
        assert isinstance(answer, str) and said in answer
        assert machine.inventory() == before
        assert isinstance(asked(machine, {"port_add": [table]}), dict)
        assert isinstance(asked(machine, {"port_del": ["v"]}), dict)
        assert machine.inventory() == before


def test_a_request_about_which_the_kernel_says_no_has_an_answer(monkeypatch):
    def refused(*_):
        raise OSError(77, "File descriptor in bad state")

    with Machine(1, {**SETTINGS, "edge": False}) as machine:
        machine.world.wait(machine.world.now + 40 * MS)
        with monkeypatch.context() as patched:
            patched.setattr(Daemon, "_answer", refused)
            assert "File descriptor in bad state" in asked(machine, {"show": "ports"})
        assert isinstance(asked(machine, {"show": "ports"}), dict)
