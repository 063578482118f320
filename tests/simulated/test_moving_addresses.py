"""Changes during traffic: thresholds, modes, and an address that moves from port to port; none of them loses a frame."""

import random
import struct
from unittest import mock

import pytest
from test_simulation import MS

from penstock_net.vswitch import world
from penstock_net.vswitch.client.client import connect
from penstock_net.vswitch.daemon import server
from penstock_net.vswitch.dataplane.switch import Switch
from penstock_net.vswitch.simulation.laws import Broken
from penstock_net.vswitch.simulation.layout import layout_of
from penstock_net.vswitch.simulation.machine import Machine
from penstock_net.vswitch.world.calls import table

A, B, C, D = (bytes((10, 0, 0, i)) for i in range(1, 5))
CONTENT = {
    "switch": {"th_goal": "4KB", "th_over": "16KB", "th_net": "64KB", "idle": "5ms"},
    "port": [{"name": n, "addresses": a} for n, a in (("a", ["10.0.0.1"]), ("b", ["10.0.0.2", "10.0.0.4"]), ("c", ["10.0.0.3"]))],
}
MOVES = [("10.0.0.2",), ("10.0.0.2", "10.0.0.4")], [("10.0.0.3", "10.0.0.4"), ("10.0.0.3",)]  # of b and c
PAUSE_S = 0.0003


def frame(target, number):
    body = struct.pack("!HHHHI", 1000, 2000, 12, 0, number)
    header = struct.pack("!HBBHHHBBH4s4s", 0x0800, 0x45, 0, 20 + len(body), 0, 0, 64, 17, 0, A, target)
    return b"\2" * 6 + b"\4" * 6 + header + body


class Traffic:
    """Two flows of an application, to B and to D; what has come, by port and address."""

    def __init__(self, machine):
        self.machine, self.is_sending, self.over = machine, True, False
        self.sent = {B: 0, D: 0}
        self.got = {name: {B: [], D: []} for name in "bc"}
        self.open = 0
        for name, run in (("a", self.send), ("b", self.receive), ("c", self.receive)):
            machine.world.tasks.process(name, lambda name=name, run=run: self.attached(name, run))
        machine.wait(1000 * MS, lambda: self.open == 3, "applications do not attach")

    def attached(self, name, run):
        with connect(name, self.machine.socket) as port:
            self.open += 1
            while not self.over:
                run(name, port)
                world.time.sleep(PAUSE_S)

    def send(self, name, port):
        for queue, to in enumerate((B, D)):
            if self.is_sending and port.waiting(queue) < 20_000:
                self.sent[to] += port.send(queue, [frame(to, self.sent[to] + i) for i in range(4)])

    def receive(self, name, port):
        for _, data in port.receive(64):
            self.got[name][data[30:34]].append(int.from_bytes(data[42:46], "big"))

    def came(self):
        return sum(len(each) for by in self.got.values() for each in by.values())


def changes(count):
    """Changes of an operator, one after another; D is moved to c and back."""
    draw = random.Random(5)
    for i in range(count):
        goal = (1, 4, 16)[i % 3]
        change = {"th_goal": goal * 1000, "th_over": 4 * goal * 1000, "th_net": 16 * goal * 1000}
        change |= {"mode": ("pfc", "dpfq", "backdraft")[i // 3 % 3], "burst": (1, 7, 64)[i // 9 % 3]}
        if i % 3 == 0:
            which = draw.randrange(2)
            change |= {f"port.{name}.addresses": list(MOVES[k][which]) for k, name in enumerate("bc")}
        if i % 5 == 0:
            change["port.a.guarded"] = i % 2 == 0
        yield change


def run(count, workers=1):
    """How many frames were sent to B and D, and the numbers of those that came.  Broken: they do not come."""
    layout = layout_of({**CONTENT, "switch": {**CONTENT["switch"], "workers": workers}})
    with Machine(1, layout.settings, layout) as machine:
        traffic = Traffic(machine)
        for i, change in enumerate(changes(count)):
            answers = []
            machine.ask({"set": change}, answers.append)
            machine.answered()
            assert isinstance(answers[0], dict), answers
            machine.world.wait(machine.world.now + i % 7 * 100_000)
        traffic.is_sending = False
        machine.wait(25 * MS, lambda: traffic.came() == sum(traffic.sent.values()), "frames do not come")
        rows = machine.call(lambda switch: switch.ports())
        traffic.over = True
        machine.world.wait(machine.world.now + 20 * MS)
        table.check()
    assert all(row["drops"] == {} and row["nonsense"] == 0 for row in rows)
    return traffic.sent, traffic.got


def check(sent, got):
    """Each frame came once, at a port that had its address, in the order of its flow at each."""
    assert min(sent.values()) > 500 and got["b"][D] and got["c"][D], "both have had the address"
    assert got["b"][B] == list(range(sent[B])) and got["c"][B] == []
    assert sorted(got["b"][D] + got["c"][D]) == list(range(sent[D]))
    assert all(found == sorted(found) for by in got.values() for found in by.values())


@pytest.mark.parametrize("workers", [1, 2])
def test_a_thousand_changes_lose_no_frame(workers):
    """Two flows, one with an address that moves between ports all the time; its present port gets the frames, in order."""
    check(*run(1000, workers))


# ---- Mistakes that are put back ----


class Deaf(Switch):
    """Flows go on as before when addresses move."""

    def readdress(self, ports):
        pass


class Forgetful(Switch):
    """With its address a flow loses what waits in its queues."""

    def readdress(self, ports):
        super().readdress(ports)
        for number in self.names:
            self.forget_flows(0, number)


@pytest.mark.parametrize("kind", [Deaf, Forgetful])
def test_a_mistake_is_found(kind):
    made = mock.patch.object(server, "make_switch", lambda content, config: kind(**config.settings))
    with made, pytest.raises((AssertionError, Broken)):
        check(*run(60))
