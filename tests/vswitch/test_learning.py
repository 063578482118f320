"""Ports that learn Ethernet addresses: stations, requests for their addresses, flows to them, and what ends them.

In virtual time, and with bridges of Linux."""

import json
import socket
import struct

import pytest
from daemons import running
from frames import udp
from learning_bench import OWN, SECOND, Bench, station, tagged
from test_lab import FORBIDDEN
from test_tap_ports import path_of, rows
from waiting import until

from penstock_net.errors import SpecError
from penstock_net.vswitch.attach.devices import validate_device
from penstock_net.vswitch.attach.lab import Namespace
from penstock_net.vswitch.client import tables
from penstock_net.vswitch.daemon import operations, protocol
from penstock_net.vswitch.daemon.config import validate_port
from penstock_net.vswitch.dataplane.driver import install_device, prepare_device, sizes
from penstock_net.vswitch.dataplane.switch import Switch
from penstock_net.vswitch.memory.region import Region
from penstock_net.vswitch.support import blocks, carried

real = pytest.mark.skipif(bool(FORBIDDEN), reason="; ".join(FORBIDDEN))
ALL = b"\xff" * 6
X, Y = station(1), station(2)
FIXED = {"broadcast": True, "addresses": ["10.0.0.1"]}
LEARN = {"learn": True, "mac": False}
PORTS = (FIXED, LEARN, LEARN)


def ip(source, to, source_mac, to_mac, payload=b"x" * 40, port=2000):
    return to_mac + source_mac + udp(source, to, target_port=port, payload=payload)[12:]


def arp(what, source, target, source_mac, to_mac=ALL, target_mac=bytes(6)):
    packed = socket.inet_aton(source), socket.inet_aton(target)
    head = to_mac + source_mac + struct.pack("!HHHBBH", 0x0806, 1, 0x0800, 6, 4, what)
    return head + source_mac + packed[0] + target_mac + packed[1]


@pytest.fixture
def bench():
    made = []

    def make(*arguments, **keys):
        made.append(Bench(*arguments, **keys))
        return made[-1]

    yield make
    for each in made:
        each.close()


def heard(b, port, mac=X):
    """Have a port hear a station."""
    b.send(port, ALL + mac + b"\x88\xb5" + bytes(50))
    b.got()


@pytest.mark.parametrize("headers", [False, True])
def test_a_port_and_a_station_find_each_other(bench, headers):
    b = bench(PORTS, headers)
    asked = arp(1, "10.0.0.1", "10.0.0.50", OWN[0])
    b.send(0, asked)
    assert b.got() == [[], [asked], [asked]], "who has the station's address: those that learn are asked"
    answer = arp(2, "10.0.0.50", "10.0.0.1", X, OWN[0], OWN[0])
    b.send(1, answer)
    assert b.got() == [[answer], [], []]
    there, back = ip("10.0.0.1", "10.0.0.50", OWN[0], X), ip("10.0.0.50", "10.0.0.1", X, OWN[0])
    b.send(0, there)
    assert b.got() == [[], [there], []], "with the station's Ethernet address, and to no other port"
    b.send(1, back)
    assert b.got() == [[back], [], []]
    b.send(1, arp(1, "10.0.0.50", "10.0.0.1", X))
    (reply,) = b.got()[1]
    assert reply[6:12] == bytes([2, 0, 10, 0, 0, 1]), "the switch answers for its own addresses as ever"
    by_stand_in = ip("10.0.0.50", "10.0.0.1", X, reply[6:12])
    b.send(1, by_stand_in)
    ((came,), _, _) = b.got()
    assert came[:6] == OWN[0] and came[6:] == by_stand_in[6:]
    (flow,) = [row for row in b.switch.flows() if row["from"] == "p0"]
    assert (flow["source"], flow["target"], flow["to"]) == ("10.0.0.1", "10.0.0.50", "p1")
    assert not b.counts(0) and not b.counts(1)


def test_stations_behind_two_ports(bench):
    """IPv4, IPv6, and fragments of one; multicast; a request to one address."""
    b = bench(PORTS)
    heard(b, 1, X)
    heard(b, 2, Y)
    for source, to, port, other, macs in (("10.1.0.1", "10.2.0.1", 1, 2, (X, Y)), ("2001:db8::1", "2001:db8::2", 2, 1, (Y, X))):
        frame = ip(source, to, *macs)
        b.send(port, frame)
        assert b.got()[other] == [frame]
    for to in (ALL, b"\x01\0\x5e\0\0\xfb"):
        frame = ip("10.1.0.1", "224.0.0.251", X, to)
        b.send(1, frame)
        assert b.got() == [[frame], [], [frame]]
    frame = arp(1, "10.1.0.1", "10.2.0.1", X, Y)
    b.send(1, frame)
    assert b.got() == [[], [], [frame]]
    b.send(1, arp(1, "10.1.0.1", "10.2.0.1", X, station(3)))
    assert [len(each) for each in b.got()] == [0, 0, 1], "one for nobody that is known"
    texts = {(row["from"], row["target"]) for row in b.switch.flows()}
    assert texts == {("p1", "10.2.0.1"), ("p2", X.hex(":"))}, "of IPv6 the flow has the station"


def test_a_station_that_moves_takes_its_flows_along(bench):
    b = bench(PORTS)
    heard(b, 1)
    frame = ip("10.0.0.1", "10.0.0.50", OWN[0], X)
    for port in (1, 2, 1):
        heard(b, port)
        b.send(0, frame)
        assert b.got()[port] == [frame]
    assert b.row(2)["stations_moved"] == 1 and b.row(1)["stations_moved"] == 1 and b.row(2)["stations"] == 0


def test_a_port_s_own_addresses_are_nobody_else_s(bench):
    b = bench(PORTS)
    heard(b, 1)
    b.send(1, ip("10.0.0.1", "10.2.0.1", X, Y))  # of another port: to a station
    heard(b, 2, Y)
    b.send(1, ip("10.0.0.1", "10.2.0.1", X, Y))
    b.send(2, ip("10.0.0.1", "10.0.0.1", Y, OWN[0]))  # ... and to a port
    b.send(1, arp(2, "10.0.0.1", "10.2.0.1", X, Y))
    b.send(1, ip("10.1.0.1", "10.2.0.1", OWN[0], Y))
    b.send(1, ip("10.1.0.1", "10.2.0.1", bytes(6), Y))
    b.send(1, ip("10.1.0.1", "10.2.0.1", ALL, Y))
    b.send(0, ip("10.0.0.1", "10.2.0.1", X, Y))  # a port without stations, with another's Ethernet address
    assert b.got() == [[], [], []]
    assert b.counts(1) == {"spoofed": 2, "flood_spoofed": 1, "station_spoofed": 3}
    assert b.counts(0) == b.counts(2) == {"spoofed": 1}
    assert b.stations(1) == {(0, X)} and b.stations(2) == {(0, Y)}


def test_an_address_that_a_port_gets_is_a_station_no_longer(bench):
    b = bench(PORTS)
    heard(b, 1)
    b.switch.readdress({"p0": {"addresses": ["10.0.0.1", X.hex(":")], "guarded": True}})
    assert b.stations(1) == set()
    heard(b, 1)
    assert b.stations(1) == set() and b.row(1)["station_spoofed"] == 1


def test_one_port_s_addresses_take_no_place_from_another_s(bench):
    b = bench((FIXED, {**LEARN, "stations": 10}, {**LEARN, "stations": 4}))
    heard(b, 2)
    for i in range(300):
        b.send(1, OWN[0] + b"\2\1\0\0" + struct.pack("!H", i) + b"\x88\xb5" + bytes(50))
    b.run(80)
    assert b.row(1)["stations"] == 10 and b.row(1)["stations_beyond"] == 290 and b.stations(2) == {(0, X)}
    assert len(b.got()[0]) == 300, "they pass, though their addresses are not learned"


def test_copies_to_stations_that_are_not_known_are_bounded(bench):
    b = bench(PORTS)
    for _ in range(300):
        b.send(0, ip("10.0.0.1", "10.0.0.50", OWN[0], X))
    b.run(5)
    sent = len(b.got()[1])
    assert 100 <= sent <= 104 and b.row(0)["to_unknown"] == 300 and b.row(0)["flood_limited"] == 300 - sent
    heard(b, 1)
    for _ in range(300):
        b.send(0, ip("10.0.0.1", "10.0.0.50", OWN[0], X))
    assert len(b.got(80)[1]) == 300, "to one that is known there is no such bound"


def test_frames_to_a_station_wait_for_its_device(bench):
    """The link holds 150 of the 400 frames; none of the others is lost."""
    b = bench(PORTS, memory="256KiB")
    heard(b, 1)
    frames = [ip("10.0.0.1", "10.0.0.50", OWN[0], X, b"%4d" % i + bytes(1400)) for i in range(400)]
    for at in range(0, 400, 100):
        for frame in frames[at : at + 100]:
            b.send(0, frame)
        b.run(50)
    got = []
    for _ in range(10):
        got += b.got()[1]
    assert got == frames and b.row(1)["no_room"] > 10 and not b.counts(1)


def test_a_super_frame_to_a_station_of_a_port_without_them_is_cut(bench):
    b = bench(PORTS, headers=[True, False, True])
    segment = 1000
    body = struct.pack("!HHIIBBHHH", 1, 2, 0, 0, 0x50, 0x10, 500, 0, 0) + bytes(3 * segment)
    head = struct.pack("!HBBHHHBBH4s4s", 0x0800, 0x45, 0, 20 + len(body), 0, 0, 64, 6, 0, b"\x0a\0\0\1", b"\x0a\0\0\x32")
    virtio = struct.pack("<BBHHHH", 1, 1, 54, segment, 34, 16)
    b.send(0, X + OWN[0] + head + body, virtio)
    assert [len(each) for each in b.got()] == [0, 0, 1], "unknown: copied where it fits"
    assert b.counts(1) == {"flood_lost": 1}
    heard(b, 1)
    b.send(0, X + OWN[0] + head + body, virtio)
    assert [len(frame) for frame in b.got()[1]] == [54 + segment] * 3


def test_an_application_reaches_stations_by_an_ethernet_address_of_its_own(bench):
    b = bench(PORTS)
    app = Region.create(queues=16, buffers=64)
    b.switch.attach("app", Region.attach(app.fd, app.shape), ["10.0.0.9", Y.hex(":")])
    frame = ip("10.0.0.9", "10.0.0.50", Y, X)
    app.send(0, [frame])
    b.run()
    heard(b, 1)
    app.send(0, [frame, ip("10.0.0.9", "10.0.0.50", station(9), X)])
    assert b.got()[1] == [frame]
    answer = ip("10.0.0.50", "10.0.0.9", X, Y)
    b.send(1, answer)
    b.run()
    assert [came for _, came in app.receive(9)] == [answer]
    assert {reason: number for reason, number in b.switch.ports()[3]["drops"].items()} == {"no_route": 1, "spoofed": 1}


def test_what_ends_stations(bench):
    b = bench((FIXED, {**LEARN, "station_idle": "1s"}, LEARN))
    for port in (1, 2):
        heard(b, port, station(port))
    b.clock.ns += 2 * SECOND
    b.run(2)
    assert b.row(1)["stations"] == 0 and b.row(2)["stations"] == 1, "quiet ones are forgotten without a frame"
    driver = b.switch.drivers[2]
    driver.suspend(b.switch)
    assert b.stations(2) == set(), "those of an interface that is gone"
    driver.resume(b.switch, b.devices[2].port)
    heard(b, 2)
    b.switch.detach(2)
    b.switch.detach(1)
    b.send(0, ip("10.0.0.1", "10.0.0.50", OWN[0], X))
    b.run()
    assert b.switch.ports()[0]["drops"] == {"no_route": 1}, "no port learns: as if there had never been one"
    b.attach(1)
    b.attach(2)
    heard(b, 2)
    assert b.stations(2) == {(0, X)}


def test_another_process_has_the_stations(bench):
    b = bench(PORTS)
    heard(b, 1)
    b.clock.ns += SECOND
    heard(b, 2, Y)
    out = blocks.Blocks()
    found = json.loads(json.dumps(carried.pack(b.switch, out, sizes())))
    new = Switch()
    for i, device in enumerate(b.devices):
        prepare_device(new, f"p{i}", device, b.switch.drivers[i].region.fd)
        install_device(new, f"p{i}", device, b.tables[i].get("addresses", []), number=i)
    carried.unpack(new, found, out.arrays, sizes())
    before = [b.switch.drivers[i].station_rows(b.clock.ns) for i in range(3)]
    b.switch = new
    assert [new.drivers[i].station_rows(b.clock.ns) for i in range(3)] == before and before[1] and before[2]
    frame = ip("10.0.0.1", "10.0.0.50", OWN[0], X)
    b.send(0, frame)
    assert b.got() == [[], [frame], []]


def test_addresses_are_shown(bench):
    b = bench(({"broadcast": True, "addresses": ["10.0.0.1"], "vlan": 10}, {**LEARN, "trunk": [10]}))
    b.send(1, tagged(ALL + X + b"\x88\xb5" + bytes(50), 10))
    b.run()
    rows = operations.addresses(b.switch)
    assert [(row["port"], row["vlan"], row["address"], row["kind"]) for row in rows] == [
        ("p0", None, "10.0.0.1", "static"),
        ("p0", None, OWN[0].hex(":"), "static"),
        ("p0", None, "fe80::ff:fe01:0", "static"),
    ], "long forgotten by the machine's clock"
    row = {"port": "p1", "vlan": 10, "address": X.hex(":"), "kind": "learned", "age_ns": 2 * SECOND}
    assert tables.shown("addresses", [row]) == [
        "port  vlan  address            kind     age",
        "p1      10  02:00:00:09:00:01  learned  2 s",
    ]


def test_what_a_specification_says_of_learning():
    tap = {"kind": "tap", "device": "sw0", "learn": True}
    found = validate_port({"name": "a", **tap}, "port 1")
    assert found["addresses"] == [] and found["broadcast"] is True and found["edge"] is False
    assert validate_port(found, "port 1") == found, "as it is checked again with each change"
    assert "edge" not in validate_device({"kind": "packet", "device": "eth0", "learn": True}, "port.a")
    for table, match in (
        ({**tap, "learn": 1}, "learn"),
        ({**tap, "edge": True}, "has none"),
        ({**tap, "broadcast": False}, "takes part in broadcasts"),
        ({**tap, "stations": 0}, "stations"),
        ({**tap, "stations": 16385}, "stations"),
        ({**tap, "station_idle": "0s"}, "station_idle"),
        ({**tap, "learn": False, "stations": 5}, "learn = true"),
        ({"kind": "udp", "local": "10.0.0.1:1", "peer": "10.0.0.2:1", "learn": True}, "of kind packet, tap, vhost-user, xdp"),
        ({"kind": "shm", "learn": True}, "kind shm learns no addresses"),
        ({"kind": "pcap", "read": "a.pcap", "learn": True}, "kind pcap learns no addresses"),
    ):
        with pytest.raises(SpecError, match=match):
            validate_device(table, "port.a")
    with pytest.raises(SpecError, match="is missing"):
        validate_port({"name": "a", "kind": "tap", "device": "sw0"}, "port 1")
    with pytest.raises(SpecError, match="one worker"):
        Bench((LEARN,), workers=2)
    full = Bench([{**LEARN, "stations": 16384}] * 4)
    full.tables.append({**LEARN, "stations": 1})
    full.headers.append(False)
    with pytest.raises(SpecError, match="room for 0 more of 65536"):
        full.attach(4)


# ---- With the kernel's own bridge ----

SERVER = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", 9000))
print("ready", flush=True)
while True:
    data, peer = s.recvfrom(2000)
    s.sendto(sys.argv[1].encode() + data, peer)
"""


def bridged(space, *interfaces):
    """A bridge of these interfaces of a namespace."""
    space.run("ip", "link", "add", "br0", "type", "bridge")
    for each in interfaces:
        space.run("ip", "link", "set", each, "master", "br0", "up")
    space.run("ip", "link", "set", "br0", "up")


def connect_guest(space, number, guest, address, mac):
    """Have a namespace have an interface at the bridge of another one."""
    space.run("ip", "link", "add", f"v{number}", "type", "veth", "peer", "name", f"w{number}")
    space.run("ip", "link", "set", f"w{number}", "netns", path_of(guest))
    guest.run("ip", "link", "set", f"w{number}", "name", "eth0", "address", mac.hex(":"))
    guest.run("ip", "address", "add", f"{address}/24", "dev", "eth0")
    guest.run("ip", "link", "set", "eth0", "up")
    space.run("ip", "link", "set", f"v{number}", "master", "br0", "up")


def echo(space, address, payload=b"?", timeout=60.0):
    with space.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(timeout)
        s.sendto(payload, (address, 9000))
        return s.recv(2000)


@real
@pytest.mark.real_time
def test_stations_behind_bridges_of_linux(tmp_path):
    """A TAP in a bridge with two namespaces, an interface whose other end is in another bridge, and a port without stations.

    One of the namespaces moves to the other bridge with its address.
    """
    program = "python3", "-c", SERVER
    with Namespace("hub") as hub, Namespace("far") as far, Namespace("plain") as plain:
        hub.run("ip", "link", "add", "up0", "type", "veth", "peer", "name", "up1")
        hub.run("ip", "link", "set", "up1", "netns", path_of(far))
        hub.run("ip", "link", "set", "up0", "up")
        at = {"netns": path_of(hub), "learn": True}
        ports = [
            {"name": "bridge", "kind": "tap", "device": "sw0", **at},
            {"name": "uplink", "kind": "packet", "device": "up0", **at},
            {
                "name": "plain",
                "kind": "tap",
                "device": "sw0",
                "netns": path_of(plain),
                "addresses": ["10.0.0.1"],
                "broadcast": True,
            },
        ]
        with running(tmp_path / "switch.sock", {"port": ports}) as daemon:
            bridged(hub, "sw0")
            bridged(far, "up1")
            with Namespace("near") as near, Namespace("there") as there:
                connect_guest(hub, 1, near, "10.0.0.11", X)
                connect_guest(far, 2, there, "10.0.0.12", Y)
                for space, name in ((near, "near"), (there, "there"), (plain, "plain")):
                    assert space.start(*program, name).stdout.readline().strip() == "ready"
                for source, address, name in (
                    (plain, "10.0.0.11", b"near?"),
                    (plain, "10.0.0.12", b"there?"),
                    (near, "10.0.0.12", b"there?"),
                    (there, "10.0.0.11", b"near?"),
                    (near, "10.0.0.1", b"plain?"),
                    (there, "10.0.0.1", b"plain?"),
                ):
                    assert echo(source, address) == name

                def where(mac):
                    found = protocol.ask(daemon.path, {"show": "addresses"})["addresses"]
                    return [(row["port"], row["kind"]) for row in found if row["address"] == mac.hex(":")]

                assert where(X) == [("bridge", "learned")] and where(Y) == [("uplink", "learned")]
                assert rows(daemon)["bridge"]["state"] == "up"
                # it moves: the same address at the other bridge, and a frame from there
                near.run("ip", "link", "del", "eth0")
                connect_guest(far, 3, near, "10.0.0.11", X)
                assert echo(near, "10.0.0.1") == b"plain?"
                assert echo(plain, "10.0.0.11") == b"near?"
                assert where(X) == [("uplink", "learned")] and rows(daemon)["uplink"]["device"]["stations_moved"] == 1
                far.run("ip", "link", "set", "br0", "down")
                hub.run("ip", "link", "set", "up0", "down")
                until(lambda: where(X) == [] and where(Y) == [])
