"""What a flow, an application, a port may hold of the switch: bounds, what happens beyond them, and a model of the accounting.

Driven ports are links in this process, so that their kernel side is this test; time is virtual.
"""

import contextlib

import pytest
from drawn import examples
from frames import udp
from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock_net.errors import SpecError
from penstock_net.vswitch.attach.allowance import UNLIMITED, Allowance
from penstock_net.vswitch.attach.devices import BUFFERS, Device, validate_device
from penstock_net.vswitch.attach.open import open_link
from penstock_net.vswitch.dataplane.driver import attach_device
from penstock_net.vswitch.dataplane.switch import Switch
from penstock_net.vswitch.memory.region import Region
from penstock_net.vswitch.ports.base import Clock

FEW = 8  # of receiver.pxd
LENGTH = 100  # of a frame
BODY = bytes(LENGTH - 42)
ADDRESSES = [f"10.0.0.{i + 1}" for i in range(4)]


class Small(Device):
    """A device with few buffers and queues."""

    few, number = 256, 64

    @property
    def shape(self):
        rings = 2 * self.number + self.few // 8
        return {"rings": rings, "queues": self.number, "bells": 64, "buffers": self.few, "buffer_bytes": 2048}


class Rig:
    """A switch whose ports are links, or applications, under a virtual clock."""

    def __init__(self, device=Small, **given):
        self.clock, self.switch, self.now = Clock(), Switch(**given), 10**9
        self.device, self.wires, self.apps, self.tables = device, {}, {}, {}
        self.looking, self.look_at = True, 0

    def link(self, i, sockets=False):
        """Port i is driven; with `sockets`, frames to UDP ports wait while `close` holds them."""
        left, self.wires[i] = open_link(rate="1Tbps", delay="1ns", headers=False, clock=self.clock, memory="64MiB")
        device = self.device(left)
        if sockets:
            device.table = self.tables[i] = Allowance()
        attach_device(self.switch, str(i), device, [ADDRESSES[i]])

    def app(self, i, **shape):
        self.apps[i] = Region.create(**shape)
        self.switch.attach(str(i), Region.attach(self.apps[i].fd, self.apps[i].shape), [ADDRESSES[i]])

    def close(self, i, port):
        """The socket at this UDP port of a driven port takes nothing from now on."""
        self.tables[i].allowed[port] = 0

    def open(self, i, port):
        self.tables[i].allowed[port] = UNLIMITED

    def look(self):
        """As the edges do, every millisecond."""
        self.look_at = self.now + 10**6
        for table in self.tables.values():
            table.looked[0] += 1

    def send(self, source, target, port, back=2000):
        assert self.wires[source].send(udp(ADDRESSES[source], ADDRESSES[target], port, back, BODY))

    def turn(self, count=1, ns=2000):
        for _ in range(count):
            self.now += ns
            self.clock.ns = self.now
            if self.looking and self.now >= self.look_at:
                self.look()
            self.switch.turn_at(self.now)

    def read(self, i):
        """Source ports of the frames that have come out at a port."""
        frames = [frame for _, frame in self.apps[i].receive(10_000)] if i in self.apps else []
        while i in self.wires and (frame := self.wires[i].receive()):
            frames.append(frame)
        return [int.from_bytes(frame[34:36], "big") for frame in frames]

    def row(self, i):
        return next(row for row in self.switch.ports() if row["port"] == str(i))

    def driver(self, i):
        return self.switch.drivers[self.row(i)["number"]]


def test_a_flow_that_nobody_takes_does_not_stop_its_port():
    """An unread receiver, far more frames to it than there are buffers, and beside it a flow to another one."""
    rig = Rig()
    rig.link(0)
    rig.app(1)
    rig.app(2)
    for i in range(50):
        for _ in range(100):
            rig.send(0, 1, 1000)
        rig.send(0, 2, 3000 + i)
        rig.turn(20)
        assert rig.read(2) == [3000 + i], "within a few turns"
    row, held = rig.row(0), rig.driver(0).held()
    assert set(row["drops"]) == {"flow_over"} and row["device"]["waits_for_buffer"] == 0
    assert 0 < held["frames"] <= 256 // 2 and row["device"]["buffers_used"] == held["frames"]
    (flow,) = [flow for flow in rig.switch.flows() if flow["to"] == "1"]
    assert flow["frames"] + flow["dropped"] + held["frames"] == 5000 and flow["dropped"] == row["drops"]["flow_over"]
    while rig.read(1):  # it is read after all: what was accepted comes
        rig.turn(2000)
    assert rig.driver(0).held()["frames"] == 0 and rig.row(0)["drops"] == row["drops"]


def test_more_new_flows_than_queues_wait_for_none():
    """20 000 new flows a second from one sender, whose share of the receiver's queues is 31, and flows are kept for 100 ms."""
    rig = Rig()
    rig.link(0)
    rig.link(1)
    for i in range(2000):
        rig.send(0, 1, 1000 + i)
        rig.turn(5, 10_000)
        assert rig.read(1) == [1000 + i]
    assert rig.switch.counters()["reclaimed_flows"] > 1900 and rig.row(0)["shared_frames"] == 0
    assert not rig.row(0)["drops"] and rig.row(0)["device"]["shared_queues"] == 0


def test_more_flows_at_a_time_than_queues_share_them():
    rig = Rig()
    rig.link(0)
    rig.link(1)
    for _ in range(20):
        for i in range(150):
            rig.send(0, 1, 1000 + i)
        found = []
        for _ in range(30):
            rig.turn(1)
            found += rig.read(1)
        assert sorted(found) == list(range(1000, 1150))
    assert rig.row(0)["shared_frames"] > 0 and not rig.row(0)["drops"]


class Many(Small):
    few, number = 256, 4096


def test_a_backlog_of_many_flows_is_read_no_faster_than_it_is_served():
    """What has come to a device while the worker did not run: a frame of each of many flows, far more than there are buffers."""
    rig = Rig(Many)
    rig.link(0)
    rig.link(1)
    for i in range(1500):
        rig.send(0, 1, 1000 + i)
    rig.turn(100)
    assert sorted(rig.read(1)) == list(range(1000, 2500)) and not rig.row(0)["drops"]


def test_a_frame_leaves_in_the_turn_in_which_it_was_read():
    rig = Rig()
    rig.link(0)
    rig.link(1)
    rig.send(0, 1, 1000)
    rig.turn()
    rig.clock.ns += 1000  # it is on the wire
    assert rig.read(1) == [1000]


def test_busy_devices_share_a_turn():
    """One alone reads more at once; a turn does not get longer with the number of devices that have many frames."""
    alone = Rig()
    alone.link(0)
    alone.app(1)
    for _ in range(100):
        alone.send(0, 1, 1000)
    for _ in range(3):
        alone.turn()
        assert alone.read(1) == [1000] * 32
    rig = Rig()
    rig.app(3)
    for i in range(3):
        rig.link(i)
        for _ in range(100):
            rig.send(i, 3, 1000 + i)
    rig.turn()  # from here on it is known how many are busy
    rig.read(3)
    for _ in range(5):
        rig.turn()
        came = rig.read(3)
        assert [came.count(1000 + i) for i in range(3)] == [10, 10, 10]


@pytest.mark.parametrize("flows", [1, 5, 25, 200])
def test_full_sockets_do_not_keep_others_from_a_port(flows):
    """Flows to sockets that nobody reads, more than there are queues at last; others reach that port, and the one behind it."""
    rig = Rig(idle="5ms")
    rig.link(0)
    rig.link(1, sockets=True)
    rig.link(2)
    rig.close(1, 7000)
    for _ in range(60):
        for k in range(flows):
            for _ in range(max(1, 50 // flows)):
                rig.send(0, 1, 10_000 + k, 7000)
        rig.turn(200)
    found = {1: [], 2: []}
    for i in range(40):
        for to in (1, 2):
            rig.send(0, to, 3000 + i, 8000)
        rig.turn(2000)
        for to in (1, 2):
            found[to] += [port for port in rig.read(to) if port < 10_000]
    assert found[2] == [*range(3000, 3040)] if flows < 25 else len(found[2]) > 30
    assert len(found[1]) == 40 if flows < 25 else len(found[1]) > 30
    device = rig.row(0)["device"]
    assert device["waits_for_buffer"] == 0 and rig.driver(0).held()["frames"] == device["buffers_used"] < 256


def test_a_frame_gives_way_only_after_a_look_at_its_socket():
    """The edge has no processor for longer than `idle`, and all queues wait for it: its next look lets everything pass."""
    rig = Rig(idle="5ms")
    rig.link(0)
    rig.link(1, sockets=True)
    rig.looking = False
    rig.close(1, 7000)
    for k in range(60):
        rig.send(0, 1, 10_000 + k, 7000)
    rig.turn(100, 1_000_000)
    rig.open(1, 7000)
    rig.look()
    found = []
    for _ in range(100):
        rig.turn(10, 20_000)
        found += rig.read(1)
    assert sorted(found) == list(range(10_000, 10_060))
    assert rig.row(1)["device"]["evicted_out"] == 0 and not rig.row(0)["drops"]


def test_the_number_of_queues_is_configured_and_checked():
    kind = {"kind": "tap", "device": "tap0"}
    assert validate_device({**kind, "queues": 16}, "port 1") == {**kind, "queues": 16}
    for wrong in (7, 1 << 17, "many", True):
        with pytest.raises(SpecError, match="queues"):
            validate_device({**kind, "queues": wrong}, "port 1")
    (left, right), device = open_link(headers=False), None
    with contextlib.closing(left), contextlib.closing(right):
        device = Device(left)
        device.queues = 100
        assert device.shape["queues"] == 100 and device.shape["rings"] >= 2 * 100 + BUFFERS[False] // 63


class Tiny(Small):
    few, number = 64, 16


class Accounting(RuleBasedStateMachine):
    """Senders, receivers, stops, deaths and restarts in any order; ports 0 to 2 are driven, 3 is an application.

    Nobody waits in front of port 2, so that what goes there comes out.  What was taken is counted, bounded, and comes back.
    """

    @initialize(mode=st.sampled_from(["backdraft", "dpfq"]), workers=st.sampled_from([1, 1, 2]))
    def begin(self, mode, workers):
        self.rig = Rig(Tiny, mode=mode, workers=workers, idle="1ms", flows=512, th_goal="300B", th_over="1KB", th_net="1MB")
        for i in range(3):
            self.rig.link(i, sockets=i == 1)
        self.rig.app(3, queues=8, buffers=32, rings=64)
        self.probe = 40_000

    @rule(source=st.sampled_from([0, 1, 2]), to=st.sampled_from([1, 3, 9]), flow=st.integers(0, 40), count=st.integers(1, 150))
    def send(self, source, to, flow, count):
        for _ in range(count):
            frame = udp(ADDRESSES[source], f"10.0.0.{to + 1}", 1000 + flow, 7000 + flow % 4, BODY)
            self.rig.wires[source].send(frame)

    @rule(first=st.integers(0, 5000), count=st.integers(1, 60))
    def churn(self, first, count):
        for i in range(count):
            self.rig.send(0, 1, 10_000 + first + i, 7000 + i % 4)

    @rule(flow=st.integers(0, 7), count=st.integers(1, 20))
    def send_from_the_application(self, flow, count):
        self.rig.apps[3].send(flow, [udp(ADDRESSES[3], ADDRESSES[1], flow, 7000, BODY)] * count)

    @rule(count=st.integers(1, 40), ns=st.sampled_from([1000, 20_000, 300_000]))
    def turns(self, count, ns):
        self.rig.turn(count, ns)

    @rule(port=st.integers(0, 3), stopped=st.booleans())
    def socket(self, port, stopped):
        (self.rig.close if stopped else self.rig.open)(1, 7000 + port)

    @rule(i=st.integers(0, 2))
    def read_wire(self, i):
        self.rig.read(i)

    @rule(count=st.integers(1, 50))
    def read_application(self, count):
        self.rig.apps[3].receive(count)

    @rule()
    def restart_the_application(self):
        self.rig.switch.detach_name("3")
        self.rig.turn(2)
        self.rig.app(3, queues=8, buffers=32, rings=64)

    @rule(i=st.integers(0, 2))
    def restart_a_device(self, i):
        self.rig.switch.detach_name(str(i))
        self.rig.turn(2)
        self.rig.link(i, sockets=i == 1)

    @rule(to=st.sampled_from([1, 2]))
    def a_stranger_gets_through(self, to):
        """Whatever the others hold: some of a few frames of a new flow arrive, each within bounded time."""
        self.rig.read(0), self.rig.read(1), self.rig.read(2)
        found = []
        for _ in range(20):
            self.probe += 1
            self.rig.send(0, to, self.probe, 8000)
            for _ in range(20):
                self.rig.turn(10, 20_000)
                found += [port for port in self.rig.read(to) if port >= 40_000]
            if found:
                return
        raise AssertionError([(row["drops"], row["device"]) for row in self.rig.switch.ports()])

    @invariant()
    def what_is_held_is_counted_and_bounded(self):
        if not hasattr(self, "rig"):
            return
        buffers, kept = Tiny.few, Tiny.few // 8
        for i in range(3):
            held, row = self.rig.driver(i).held(), self.rig.row(i)
            assert held["frames"] == held["counted"] <= buffers - 1
            assert held["most"] <= max(FEW, (buffers - 1 - kept + 1) // 2), held
            assert held["queues"] == held["queues_counted"] <= Tiny.number
            assert row["device"]["waits_for_buffer"] == 0
        counters = self.rig.switch.counters()
        flows = self.rig.switch.flows()
        assert counters["flows"] == len(flows) and counters["flows"] + counters["free_flows"] == 512 * self.rig.switch.count
        for row in flows:
            room = 32 if row["to"] == "3" else (buffers - kept) // 2 + 2
            assert row["waiting_bytes"] <= room * LENGTH, row

    def teardown(self):
        """All receivers read: everything comes back."""
        if not hasattr(self, "rig"):
            return
        rig = self.rig
        for port in range(7000, 7004):
            rig.open(1, port)
        for _ in range(150):
            rig.turn(10, 50_000)
            for i in range(4):
                rig.read(i)
        assert rig.switch.flows() == [] and rig.switch.counters()["flows"] == 0
        for i in range(3):
            held = rig.driver(i).held()
            assert held["frames"] == held["counted"] == held["queues"] == 0
            assert rig.driver(i).region.free_rings() == rig.driver(i).region.shape["rings"]
            row = next(row for row in rig.switch.left() if row["port"] == str(i))
            assert row["waiting_frames"] == row["not_taken_frames"] == 0
        rig.switch.close()


Accounting.TestCase.settings = examples(20, stateful_step_count=25, suppress_health_check=list(HealthCheck))
test_accounting = Accounting.TestCase
