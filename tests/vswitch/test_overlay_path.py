"""The overlay's port keeps to the MTU of its path: real sockets in two namespaces; skipped where the machine forbids them."""

import socket

import pytest
from frames import payload_of, udp
from waiting import until

from penstock_net.errors import SpecError
from penstock_net.vswitch.attach.devices import Device
from penstock_net.vswitch.attach.lab import Namespace, veth
from penstock_net.vswitch.attach.open import open_port
from penstock_net.vswitch.client.tables import shown
from penstock_net.vswitch.daemon.doctor import doctor
from penstock_net.vswitch.dataplane.driver import attach_device
from penstock_net.vswitch.dataplane.switch import Switch
from penstock_net.vswitch.memory.region import Region
from penstock_net.vswitch.support.losses import LOST, counted, of_kind, with_sums

PERMITTED = {ability.name: ability for ability in doctor()}
FORBIDDEN = [f"{PERMITTED[n].name}: {PERMITTED[n].detail}" for n in ("namespaces", "ip") if not PERMITTED[n].permitted]
pytestmark = pytest.mark.skipif(bool(FORBIDDEN), reason="; ".join(FORBIDDEN))

APPS = ("10.0.0.1", "10.0.0.2")
ENDS = {4: ("10.79.0.1", "10.79.0.2", "24"), 6: ("fd79::1", "fd79::2", "64 nodad")}


def row_of(switch):
    return switch.ports()[0]["device"]


@pytest.mark.parametrize(("version", "header"), [(4, 28), (6, 48)])
def test_the_path_is_known_and_what_no_longer_fits_is_counted(version, header):
    here, there, bits = ENDS[version]
    with Namespace("left") as left, Namespace("right") as right, veth(left, right, ("10.78.0.1/24", "10.78.0.2/24")):
        for namespace, address in ((left, here), (right, there)):
            namespace.run("ip", "address", "add", f"{address}/{bits.split()[0]}", *bits.split()[1:], "dev", "veth0")
        ports = []
        for namespace, (mine, other) in ((left, (here, there)), (right, (there, here))):
            with namespace.enter():
                a, b = (f"[{x}]:7000" if version == 6 else f"{x}:7000" for x in (mine, other))
                ports.append(open_port("udp", local=a, peer=b, headers=False, fragments=False))
        with ports[0] as near, ports[1] as far:
            switch = Switch()
            attach_device(switch, "other", Device(near, window=1 << 20), [])
            assert row_of(switch)["overlay"]["path_bytes"] == 1500 - header

            def arrives(size):
                assert near.send(bytes([2] * size)) and near.flush()
                return until(far.receive) == bytes([2] * size)

            assert arrives(1500 - header)
            assert near.send(bytes(1501 - header)) and near.flush()
            assert near.counters["too_long"] == 1, "no fragments"
            left.run("ip", "link", "set", "veth0", "mtu", "1400")
            for _ in range(3):  # a run of equal frames is one message
                assert near.send(bytes(1500 - header))
            assert near.flush() and near.counters["too_long"] == 4
            assert row_of(switch)["overlay"]["path_bytes"] == 1400 - header
            assert arrives(1400 - header) and near.counters["errors_out"] == 0


def test_a_configured_mtu_bounds_the_path():
    for mtu, path in ((1400, 1372), (0, 65507)):  # of the loopback interface: 65535
        with open_port("udp", local="127.0.0.1:0", peer="127.0.0.1:9", fragments=False, mtu=mtu) as port:
            switch = Switch()
            attach_device(switch, "other", Device(port, window=1 << 20), [])
            assert row_of(switch)["overlay"]["path_bytes"] == path
    for wrong in (100, 70_000, True, "a"):
        with pytest.raises(SpecError, match=r"udp\.mtu"):
            open_port("udp", local="127.0.0.1:0", peer="127.0.0.1:9", fragments=False, mtu=wrong)


def test_messages_of_the_protocol_that_are_refused_are_no_lost_frames():
    """They were counted as such: of a switch whose peer cannot be reached, more and more, while nothing was sent."""
    with open_port("udp", local="127.0.0.1:0", peer="255.255.255.255:9") as port:  # which takes an option of the socket
        switch, device = Switch(), Device(port, window=1 << 20)
        attach_device(switch, "other", device, [])
        for i in range(20):
            switch.turn_at(10**12 + 10**9 * i)
        row = row_of(switch)
        assert row["messages_lost"] >= 10 and not any(counted(switch.ports()[0]).values())
        assert port.send(bytes(200)) and port.flush() and row_of(switch)["errors_out"] == 1
        device.driver.suspend(switch)
        for i in range(20, 40):
            switch.turn_at(10**12 + 10**9 * i)
        assert row_of(switch)["device_gone"] == 0, "nor while its interface is away"
        switch.close()


class Crossing:
    """Two switches with an application each, and between them a network that drops, without a word, what is too long for it."""

    def __init__(self, ports):
        self.now, self.switches, self.apps, self.got = 10**9, [], [], []
        for i, port in enumerate(ports):
            switch, app = Switch(), Region.create(buffers=4096)
            switch.attach("app", Region.attach(app.fd, app.shape), [APPS[i]])
            attach_device(switch, "other", Device(port, window=1 << 20), [APPS[1 - i]])
            self.switches.append(switch)
            self.apps.append(app)

    @property
    def near(self):
        return self.switches[0].ports()[1]

    def turn(self, turns):
        """Turns of a virtual millisecond."""
        for _ in range(turns):
            self.now += 1_000_000
            for switch in self.switches:
                switch.turn_at(self.now)
            self.got += [payload_of(frame) for _, frame in self.apps[1].receive(100)]

    def send(self, count, size=1400):
        """Frames that are as long as an interface of 1500 B takes, one in each turn; those that arrive."""
        self.got = []
        for i in range(count):
            assert self.apps[0].send(0, [udp(*APPS, payload=b"%06d" % i + bytes(size))]) == 1
            self.turn(1)
        self.turn(100)
        return len(self.got)

    def until(self, condition, turns=10_000):
        while not condition(self.near["device"]["overlay"]):
            self.turn(1)
            turns -= 1
            assert turns, self.near


def ports_of(left, right, **options):
    """The two ends of an overlay between two namespaces."""
    found = []
    for namespace, mine, other in ((left, *ENDS[4][:2]), (right, *ENDS[4][1::-1])):
        with namespace.enter():
            found.append(open_port("udp", local=f"{mine}:7000", peer=f"{other}:7000", headers=False, fragments=False, **options))
    return found


def test_a_network_that_drops_long_datagrams_without_a_word_loses_no_frames():
    """A veth drops what is longer than its other end's MTU: the usual fault of clouds and tunnels (it stopped TCP for good)."""
    here, there, _ = ENDS[4]
    with Namespace("left") as left, Namespace("right") as right, veth(left, right, (f"{here}/24", f"{there}/24")):
        right.run("ip", "link", "set", "veth0", "mtu", "1328")
        ports = ports_of(left, right, segments=False)
        with ports[0], ports[1]:
            crossing = Crossing(ports)
            crossing.until(lambda overlay: overlay["path"] == "narrow")
            overlay = crossing.near["device"]["overlay"]
            assert 1296 <= overlay["path_bytes"] <= 1304 and overlay["path_most"] == 1472
            assert crossing.send(500) == 500 and counted(crossing.near)["lost_at_peer"] == 0
            assert shown("ports", [with_sums(crossing.near)])[-1].startswith("path, port other: datagrams of up to 1,")
            right.run("ip", "link", "set", "veth0", "mtu", "1500")
            crossing.until(lambda overlay: overlay["path"] == "whole")
            right.run("ip", "link", "set", "veth0", "mtu", "1428")
            came = crossing.send(2000, 1380)
            assert 1500 < came < 2000, "it begins as a black hole"
            row = crossing.near
            assert row["device"]["overlay"]["path_narrowed"] == 1 and counted(row)["lost_at_peer"] == 2000 - came
            assert of_kind(counted(row), LOST) == {"lost_at_peer": 2000 - came}, "and its sender says what is lost"
            assert crossing.send(500) == 500
            left.run("ip", "link", "set", "veth0", "mtu", "1400")
            crossing.until(lambda overlay: (overlay["path"], overlay["path_bytes"]) == ("whole", 1372))
            for side in (left, right):
                side.run("ip", "link", "set", "veth0", "mtu", "9000")
            crossing.until(lambda overlay: (overlay["path"], overlay["path_bytes"]) == ("whole", 8972))


def test_no_run_of_frames_is_sent_as_one_message_where_long_datagrams_are_dropped():
    """A filter by length on the same machine sees a run as one datagram."""
    here, there, _ = ENDS[4]
    with Namespace("left") as left, Namespace("right") as right, veth(left, right, (f"{here}/24", f"{there}/24")):
        ports = ports_of(left, right)
        with ports[0], ports[1], right.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x0300) as seen:
            seen.bind(("veth0", 3))
            crossing = Crossing(ports)

            def longest():
                assert crossing.apps[0].send(0, [udp(*APPS, payload=bytes(900))] * 20) == 20
                crossing.turn(20)
                with pytest.raises(BlockingIOError):
                    while frame := seen.recv(1 << 16, socket.MSG_DONTWAIT):
                        lengths.append(len(frame))
                return max(lengths)

            lengths = []
            crossing.until(lambda overlay: overlay["path"] == "whole")
            assert longest() > 9000
            right.run("ip", "link", "set", "veth0", "mtu", "1328")
            crossing.send(500, 1380)
            longest()
            lengths = []
            assert longest() < 1328 + 18 and crossing.near["device"]["overlay"]["path_narrowed"] == 1
