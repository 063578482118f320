"""VLANs of ports: access and trunk, refused frames, ARP, broadcasts, and any tag that may come; in virtual time."""

import struct

import pytest
from drawn import examples
from frames import udp
from hypothesis import given
from hypothesis import strategies as st

from penstock_net.cli._ports import port_table
from penstock_net.errors import SpecError
from penstock_net.vswitch.attach.devices import Device, validate_device, vlans_of
from penstock_net.vswitch.attach.open import open_link
from penstock_net.vswitch.daemon.config import validate_port
from penstock_net.vswitch.dataplane.driver import attach_device
from penstock_net.vswitch.dataplane.switch import Switch
from penstock_net.vswitch.ports.base import Clock
from penstock_net.vswitch.support.balance import unaccounted
from penstock_net.vswitch.support.losses import counted

ACCESS, OTHER, TRUNK, PLAIN = {"vlan": 10}, {"vlan": 20}, {"trunk": [10, 20], "native": 30}, {}
PORTS = (ACCESS, ACCESS, OTHER, TRUNK, PLAIN, {"trunk": [10]})
MACS = [bytes([2, 0, 0, 1, 0, i]) for i in range(len(PORTS))]


class Bench:
    """A switch whose ports are links; frames are given and compared without virtio_net_hdr."""

    def __init__(self, headers=False, ports=PORTS, memory="4MiB"):
        self.clock, self.switch, self.ends = Clock(ns=10**9), Switch(), []
        for i, table in enumerate(ports):
            end, port = open_link(rate="8Tbps", delay=0, headers=headers, clock=self.clock, memory=memory)
            device = Device(port, mac=MACS[i], broadcast=True)
            device.vlans, device.untagged = vlans_of("tap", table, "port")
            attach_device(self.switch, f"p{i}", device, [f"10.0.0.{i + 1}"])
            self.ends.append(end)

    def send(self, i, frame, header=bytes(10)):
        assert self.ends[i].send(header + frame if self.ends[i].headers else frame)

    def run(self, turns=12):
        for _ in range(turns):
            self.clock.ns += 200_000
            self.switch.turn_at(self.clock.ns)

    def got(self):
        """What came out of each port."""
        self.run()
        found = [[] for _ in self.ends]
        for end, frames in zip(self.ends, found):
            while (frame := end.receive()) is not None:
                frames.append(frame[10:] if end.headers else frame)
        return found

    def refused(self):
        rows = self.switch.ports()
        left = [{**row, **more} for row, more in zip(rows, self.switch.left())]
        assert not unaccounted(left)
        return [(row["wrong_vlan"], row["wrong_vlan_out"]) for row in map(counted, rows)]


def tagged(frame, word):
    """A frame with a tag (None: without)."""
    return frame if word is None else frame[:12] + struct.pack("!HH", 0x8100, word) + frame[12:]


def frame_of(source, to, payload=b"x" * 40):
    return MACS[to] + MACS[source] + udp(f"10.0.0.{source + 1}", f"10.0.0.{to + 1}", payload=payload)[12:]


def carried(table):
    return set(vlans_of("tap", table, "port")[0])


def model(source, to, word):
    """What comes out of port `to` for a frame that goes into `source` with this tag: its tag, or "in" or "out": refused."""
    vlan = (word or 0) & 0xFFF
    mine, theirs = PORTS[source], PORTS[to]
    untagged = mine.get("vlan") or mine.get("native") or 0
    if mine:
        if "vlan" in mine and vlan:
            return "in"
        word = (word or 0) | untagged if not vlan else word
        vlan = word & 0xFFF
        if vlan not in carried(mine) or not theirs or vlan not in carried(theirs):
            return "in"
    elif theirs and vlan not in carried(theirs):
        return "out"
    return None if theirs and vlan == (theirs.get("vlan") or theirs.get("native")) else word


@pytest.mark.parametrize("headers", [False, True])
def test_every_port_to_every_other_with_every_tag(headers):
    bench = Bench(headers)
    expected = [[0, 0] for _ in PORTS]
    for source in range(len(PORTS)):
        for to in range(len(PORTS)):
            for word in (None, 0, 3 << 13, 10, 5 << 13 | 10, 20, 30, 40, 4095):
                if source == to:
                    continue
                frame, found = frame_of(source, to), model(source, to, word)
                bench.send(source, tagged(frame, word))
                got = bench.got()
                if found in ("in", "out"):
                    expected[source if found == "in" else to][found == "out"] += 1
                    assert not any(got), (source, to, word)
                else:
                    assert got.pop(to) == [tagged(frame, found)] and not any(got), (source, to, word)
    assert bench.refused() == [tuple(each) for each in expected]


SOURCES = st.integers(0, len(PORTS) - 1)


@examples(80)
@given(st.booleans(), st.lists(st.tuples(SOURCES, SOURCES, st.binary(max_size=30), st.integers(0, 60)), max_size=12))
def test_whatever_comes_is_of_its_vlan_or_refused(headers, frames):
    """Any bytes behind the addresses, cut anywhere: each frame is counted, and comes out of no port without its VLAN."""
    bench = Bench(headers)
    for source, to, words, size in frames:
        frame = MACS[to] + MACS[source] + words + udp(f"10.0.0.{source + 1}", f"10.0.0.{to + 1}")[12:]
        bench.send(source, frame[: max(14, size)])
        for port, got in enumerate(bench.got()):
            assert not got or bool(PORTS[port]) == bool(PORTS[source]) or PORTS[port]
    bench.refused()
    bench.send(0, frame_of(0, 1))
    assert bench.got()[1] == [frame_of(0, 1)], "and what is right passes"


def request(source, target, word=None):
    """An ARP request."""
    addresses = MACS[source] + bytes([10, 0, 0, source + 1]) + bytes(6) + bytes([10, 0, 0, target + 1])
    return tagged(b"\xff" * 6 + MACS[source] + struct.pack("!HHHBBH", 0x0806, 1, 0x0800, 6, 4, 1) + addresses, word)


@pytest.mark.parametrize("headers", [False, True])
@pytest.mark.parametrize("unicast", [False, True])
def test_requests_for_addresses_are_answered_in_their_vlan(headers, unicast):
    bench = Bench(headers)

    def answer(source, target, word=None):
        frame = request(source, target, word)
        bench.send(source, bytes([2, 0, 10, 0, 0, target + 1]) + frame[6:] if unicast else frame)
        return [reply for reply in bench.got()[source] if reply[6:12] == bytes([2, 0, 10, 0, 0, target + 1])]

    for source, target, word, tag in ((0, 1, None, None), (0, 3, None, None), (3, 0, 10, 10), (3, 2, 20, 20)):
        (reply,) = answer(source, target, word)
        assert reply[:6] == MACS[source] and reply[12:] == tagged(bytes(12) + reply[-30:], tag)[12:], (source, target)
        assert reply[-28:][6:8] == b"\0\2" and reply[-20:-10] == reply[6:12] + bytes([10, 0, 0, target + 1])
    for source, target, word in ((0, 2, None), (3, 0, 20), (3, 1, None), (4, 0, None), (0, 4, None), (5, 3, 20)):
        assert not answer(source, target, word), (source, target)


@pytest.mark.parametrize("headers", [False, True])
def test_a_broadcast_passes_to_the_ports_of_its_vlan(headers):
    bench = Bench(headers)
    for source, word, expected in (
        (0, None, {1: None, 3: 10, 5: 10}),
        (2, None, {3: 20}),
        (3, 3 << 13 | 10, {0: None, 1: None, 5: 3 << 13 | 10}),
        (3, None, {}),
        (4, None, {}),
        (4, 20, {2: None, 3: 20}),
    ):
        frame = b"\xff" * 6 + frame_of(source, source)[6:]
        bench.send(source, tagged(frame, word))
        got = {port: frames for port, frames in enumerate(bench.got()) if frames}
        assert got == {port: [tagged(frame, tag)] for port, tag in expected.items()}, (source, word)


def test_the_offsets_of_a_super_frame_follow_its_tag():
    bench = Bench(True)
    virtio = struct.pack("<BBHHHH", 1, 0, 42, 0, 34, 6)
    bench.send(0, frame_of(0, 3), virtio)
    bench.run()
    frame = bench.ends[3].receive()
    assert struct.unpack_from("<BBHHHH", frame) == (1, 0, 46, 0, 38, 6) and frame[10:] == tagged(frame_of(0, 3), 10)
    bench.send(3, tagged(frame_of(3, 0), 10), struct.pack("<BBHHHH", 1, 0, 46, 0, 38, 6))
    bench.run()
    frame = bench.ends[0].receive()
    assert struct.unpack_from("<BBHHHH", frame) == (1, 0, 42, 0, 34, 6) and frame[10:] == frame_of(3, 0)


@pytest.mark.parametrize("to", [1, 3])
def test_frames_for_a_device_without_room_wait_as_they_are(to):
    """The link holds 150 of the 400 frames; none of the others is lost, or harmed by the attempts to send it."""
    bench = Bench(memory="256KiB")
    frames = [frame_of(0, to, b"%4d" % i + bytes(1400)) for i in range(400)]
    for at in range(0, 400, 100):
        for frame in frames[at : at + 100]:
            bench.send(0, frame)
        bench.run(50)
    got = []
    for _ in range(10):
        got += bench.got()[to]
    assert got == [tagged(frame, None if to == 1 else 10) for frame in frames]
    assert bench.switch.ports()[to]["device"]["no_room"] > 10


def test_what_a_specification_says_of_vlans():
    tap = {"kind": "tap", "device": "sw0"}
    assert validate_device({**tap, "vlan": 10}, "port.a")["vlan"] == 10
    assert vlans_of("tap", {"trunk": [20, 10], "native": 5}, "p") == ([5, 10, 20], 5)
    udp_port = {"kind": "udp", "local": "10.0.0.1:1", "peer": "10.0.0.2:1"}
    assert validate_device({**udp_port, "trunk": [7]}, "port.a")["trunk"] == [7]
    for table, match in (
        ({**tap, "vlan": 0}, "vlan"),
        ({**tap, "vlan": 4095}, "vlan"),
        ({**tap, "vlan": True}, "vlan"),
        ({**tap, "vlan": 1, "trunk": [2]}, "of an access port"),
        ({**tap, "native": 1}, "add `trunk`"),
        ({**tap, "trunk": []}, "list of VLANs"),
        ({**tap, "trunk": [1, 1]}, "each once"),
        ({**tap, "trunk": 1}, "list of VLANs"),
        ({**tap, "trunk": ["1"]}, "trunk"),
        ({**udp_port, "vlan": 1}, "have tags"),
    ):
        with pytest.raises(SpecError, match=match):
            validate_device(table, "port.a")
    several = Switch(workers=2)
    device = Device(open_link(headers=False)[0])
    device.vlans = [10]
    with pytest.raises(SpecError, match="one worker"):
        attach_device(several, "a", device, [])


def test_a_trunk_is_a_list_of_numbers_on_the_command_line():
    """Of `penstock vswitch port add`; it was a text."""
    found = port_table("x", ["addresses=10.0.0.1", "kind=tap", "device=sw0", "trunk=10,20", "native=30"])
    assert validate_port(found, "port")["trunk"] == [10, 20]
    assert port_table("x", ["trunk=10"])["trunk"] == [10]
    with pytest.raises(SpecError, match=r"port\.trunk = .x.: must be a whole number"):
        validate_port(port_table("x", ["addresses=10.0.0.1", "kind=tap", "device=sw0", "trunk=10,x"]), "port")


def test_a_secret_of_decimal_digits_is_a_text_on_the_command_line():
    wire = ["addresses=10.0.0.1", "kind=udp", "local=192.0.2.1:7000", "peer=192.0.2.2:7000", f"secret={'12' * 16}"]
    assert validate_port(port_table("x", wire), "port")["secret"] == "12" * 16
