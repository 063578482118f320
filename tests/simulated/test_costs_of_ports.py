"""What a port costs does not depend on how many there are: counted in requests to the kernel, its answers, sockets, and more."""

import contextlib
from collections import Counter
from unittest import mock

import pytest
from test_simulation import MS, SETTINGS

from penstock_net.vswitch.attach import edge
from penstock_net.vswitch.daemon import events
from penstock_net.vswitch.daemon.keeper import Keeper
from penstock_net.vswitch.linux import netlink, netns
from penstock_net.vswitch.simulation.layout import Layout
from penstock_net.vswitch.simulation.machine import Machine

FEW, MANY = 3, 16
QUIET_NS = 200 * MS  # after which the switch has done what a change has brought about


@contextlib.contextmanager
def counting():
    """How often the kernel is asked, how many answers it gives, how many sockets of netlink are opened, how often a thread enters
    a namespace, and an edge is made due."""
    found = Counter()
    ask = netlink.Netlink.ask

    def counted(owner, name, what):
        function = getattr(owner, name)

        def count(*arguments, **options):
            found[what] += 1
            return function(*arguments, **options)

        return mock.patch.object(owner, name, count)

    def asked(self, *arguments):
        answers = ask(self, *arguments)
        found["asked"] += 1
        found["answers"] += len(answers)
        return answers

    with (
        counted(netlink.Netlink, "__init__", "opened"),
        counted(netns.NetNs, "enter", "entered"),
        counted(edge.Dues, "set", "due"),
        mock.patch.object(netlink.Netlink, "ask", asked),
        mock.patch.object(events, "LOOK_S", 3600.0),
    ):
        yield found


def layout_of(number):
    """So many TAPs in one namespace, and one that is added later."""
    taps = tuple(f"p{i}" for i in range(number + 1))
    tables = {
        name: {"name": name, "addresses": [f"10.76.1.{i + 1}"]}
        | {"kind": "tap", "device": f"sw{i}", "super_frames": False, "edge": False, "queues": 64}
        for i, name in enumerate(taps)
    }
    return Layout((), taps, taps[:-1], tables, {name: [f"10.76.2.{i + 1}"] for i, name in enumerate(taps)})


def costs(number):
    """The counts of each stage."""
    layout = layout_of(number)
    new = layout.taps[-1]
    settings = {**SETTINGS, "edge": True, "netns": dict.fromkeys(layout.taps, "left")}
    with counting() as counted, Machine(1, settings, layout) as machine:

        def asked(**message):
            answers = []
            machine.ask(message, answers.append)
            machine.answered()
            assert isinstance(answers[0], dict), answers

        machine.world.wait(machine.world.now + QUIET_NS)
        found = {"start": Counter(counted)}
        stages = {
            "reload": lambda: asked(reload=machine.specification()),
            "show": lambda: asked(show="ports"),
            "add": lambda: asked(port_add=[machine.table_of(new)]),
            "set": lambda: asked(set={f"port.{new}.addresses": ["10.76.2.1"]}),
            "an event": lambda: machine.link("p0").change(),
            "delete": lambda: asked(port_del=[new]),
        }
        for name, stage in stages.items():
            counted.clear()
            stage()
            machine.world.wait(machine.world.now + QUIET_NS)
            found[name] = Counter(counted)
    return found


def total(counts):
    """All that does not depend on how often a thread has been woken."""
    return counts.total() - counts["due"]


def check():
    few, many = costs(FEW), costs(MANY)
    for name in ("add", "set", "an event", "delete"):
        assert total(many[name]) <= total(few[name]), f"{name}: {few[name]} beside {FEW} ports, {many[name]} beside {MANY}"
    for name in ("start", "reload", "show"):
        most = total(few[name]) * MANY / FEW
        assert total(many[name]) <= most, f"{name}: {few[name]} of {FEW} ports, {many[name]} of {MANY}"
    start = many["start"]
    assert start["opened"] <= 3 * MANY + 4, "one to ask about the interface, and two about sockets; and those of the keeper"
    assert start["entered"] <= 2 * MANY + 4
    assert start["due"] <= 6 * MANY
    assert start["asked"] <= 30 * MANY
    assert many["add"]["due"] < MANY


def test_a_port_costs_the_same_beside_many_others():
    check()


# ---- Mistakes that are put back ----

CONCERNED, FOLLOW = Keeper._concerned, edge.Dues.follow


def all_of_a_namespace(self, place):
    """Each report of an interface is one about all that are there."""
    return CONCERNED(self, place) and place.kept


def all_anew(self, edges):
    """For each edge that begins, all are made due."""
    FOLLOW(self, edges)
    return list(edges)


@pytest.mark.parametrize("owner, name, wrong", [(Keeper, "_concerned", all_of_a_namespace), (edge.Dues, "follow", all_anew)])
def test_a_mistake_is_found(owner, name, wrong):
    with mock.patch.object(owner, name, wrong), pytest.raises(AssertionError):
        check()
