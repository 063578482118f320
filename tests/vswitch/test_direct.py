"""Frames that go from device to device without a receive queue, and datagrams that go to a TAP together."""

import contextlib
import socket
import struct

import pytest
from frames import payload_of, udp
from test_bounds import ADDRESSES, Rig
from test_lab import FORBIDDEN

from penstock_net.vswitch.attach.allowance import LAYOUT
from penstock_net.vswitch.attach.lab import Namespace

real = pytest.mark.skipif(bool(FORBIDDEN), reason="; ".join(FORBIDDEN))
PORT = 2000
COST = 2 * 46 + 1024  # of a frame of 46 B, in its socket's memory


class Wires(Rig):
    """Two driven ports, the second with sockets that can be closed; frames of one flow, with numbers."""

    def __init__(self, **given):
        super().__init__(**given)
        self.link(0)
        self.link(1, sockets=True)
        self.count = 0

    def put(self, count):
        for _ in range(count):
            assert self.wires[0].send(udp(*ADDRESSES[:2], 1000, PORT, struct.pack("!I", self.count)))
            self.count += 1

    def numbers(self):
        found = []
        self.clock.ns += 1000  # what is on the wire arrives
        while frame := self.wires[1].receive():
            found += struct.unpack("!I", payload_of(frame))
        return found

    @property
    def direct(self):
        return self.row(1)["device"]["sent_direct"]


@pytest.mark.parametrize("mode", ["lossy", "pfc", "dpfq", "backdraft"])
def test_frames_between_devices_go_straight_once_their_queue_is_known(mode):
    rig = Wires(mode=mode)
    rig.put(1)
    rig.turn(2)
    assert rig.numbers() == [0] and rig.direct == 0
    for _ in range(10):
        rig.put(20)
        rig.turn(4)  # a device found empty is not read again for 5 us
    assert rig.numbers() == list(range(1, 201)) and rig.direct == 200
    row = rig.row(1)
    assert row["sent_frames"] == row["device"]["frames_out"] == 201 and not rig.row(0)["drops"]
    assert rig.driver(0).held()["frames"] == 0 == rig.row(0)["device"]["buffers_used"]


def test_no_frame_overtakes_one_that_waits():
    rig = Wires(mode="backdraft")
    rig.put(1)
    rig.turn(2)
    rig.close(1, PORT)
    rig.put(10)
    rig.turn(5)
    assert rig.numbers() == [0]
    rig.open(1, PORT)
    rig.put(10)
    for _ in range(200):  # a frame for a full socket is tried again after 200 us
        rig.put(1)
        rig.turn(2)
    assert rig.numbers() == list(range(1, rig.count)) and rig.direct > 0


@pytest.mark.parametrize("woken", [True, False])
def test_frames_for_a_full_socket_are_tried_after_a_look_and_seldom_without_one(woken):
    """While nobody looks, every 20 ms; every 0.2 ms if looks wake nobody."""
    rig = Wires(mode="backdraft", spin="0ns")
    rig.looking = False
    rig.tables[1].words[LAYOUT["WAKES"]] = woken
    rig.put(1)
    rig.turn(2)
    rig.close(1, PORT)
    rig.put(10)
    rig.turn(2)
    held, before = rig.tables[1].words[LAYOUT["HELD"] :], rig.row(1)["device"]["full_sockets"]
    rig.turn(1000, 100_000)
    attempts = rig.row(1)["device"]["full_sockets"] - before
    assert attempts in range(4, 7) if woken else attempts in range(300, 600)
    assert held[0] == 1 and rig.numbers() == [0]
    rig.look()
    rig.turn(2)
    assert rig.row(1)["device"]["full_sockets"] - before == attempts + 1, "once for a look"
    rig.open(1, PORT)
    rig.look()
    rig.turn(2)
    assert rig.numbers() == list(range(1, 11)) and held[0] == 0


def test_a_flow_whose_frames_went_straight_ends_like_any_other():
    rig = Wires(mode="backdraft", idle="1ms")
    rings = rig.driver(1).region.free_rings()
    for _ in range(3):
        rig.put(1)
        rig.turn(2)
        rig.put(50)
        rig.turn(4)
        assert rig.switch.flows()
        rig.turn(3000)
        assert not rig.switch.flows() and rig.driver(0).held()["queues"] == 0
    assert rig.numbers() == list(range(153)) and rig.direct == 150
    assert rig.driver(1).region.free_rings() == rings


def test_a_socket_is_charged_for_each_frame_once():
    rig = Wires(mode="backdraft")
    for _ in range(10):
        rig.put(7)
        rig.turn(4)
    assert rig.numbers() == list(range(70))
    assert rig.tables[1].spent[PORT] == 70 * COST
    rig.tables[1].allowed[PORT] = 73 * COST  # room for three more
    rig.put(7)
    rig.turn(4)
    assert rig.numbers() == [70, 71, 72] and rig.tables[1].spent[PORT] == 73 * COST


def test_a_frame_of_an_application_is_never_sent_out_of_its_memory():
    rig = Rig()
    rig.app(0)
    rig.link(1)
    for i in range(10):
        assert rig.apps[0].send(0, [udp(*ADDRESSES[:2], 1000 + i, PORT)])
        rig.turn(2)
    assert rig.read(1) == [1000 + i for i in range(10)] and rig.row(1)["device"]["sent_direct"] == 0


# ---- TAPs ----


def as_sent_by_a_socket(mac, source_port, target_port, payload, identifier=0, flags=0x4000):
    """A frame with a virtio_net_hdr that leaves the check sum of UDP open, as the kernel hands it to a TAP."""
    frame = bytearray(udp("10.78.1.2", "10.78.1.1", source_port, target_port, payload))
    frame[0:6] = mac
    frame[18:22] = struct.pack("!HH", identifier, flags)
    frame[24:26] = struct.pack("!H", 0xFFFF - folded(frame[14:34]))
    pseudo = frame[26:34] + struct.pack("!HH", 17, 8 + len(payload))
    frame[40:42] = struct.pack("!H", folded(pseudo))
    return struct.pack("=BBHHHH", 1, 0, 0, 0, 34, 6) + bytes(frame)


def folded(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", bytes(data)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


@contextlib.contextmanager
def tap_with_sockets(count):
    """A TAP in a namespace, its Ethernet address, and sockets there, bound to ports from 9000 on."""
    with Namespace("here") as space, space.tap("10.78.1.1/24") as port, contextlib.ExitStack() as stack:
        socks = [stack.enter_context(space.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(count)]
        for i, sock in enumerate(socks):
            sock.bind(("10.78.1.1", 9000 + i))
            sock.settimeout(30)
        mac = bytes.fromhex(space.run("ip", "-br", "link", "show", "tap0").split()[2].replace(":", ""))
        yield port, mac, socks, lambda: int(space.run("cat", "/proc/net/dev").split("tap0:")[1].split()[1])


@real
def test_datagrams_of_a_flow_are_joined_and_arrive_as_they_were():
    with tap_with_sockets(2) as (port, mac, (one, two), received):
        before = received()
        lengths = (
            [(0, 100)] * 50 + [(0, 60)] + [(1, 300)] * 3 + [(0, 100), (0, 101), (0, 1400), (0, 1400), (1, 1)] + [(1, 18)] * 200
        )
        sent = [(flow, bytes([i % 251]) * length) for i, (flow, length) in enumerate(lengths)]
        for i, (flow, payload) in enumerate(sent):
            assert port.send(as_sent_by_a_socket(mac, 5000 + flow, 9000 + flow, payload, identifier=i))
        assert port.flush()
        for flow, payload in sent:
            assert (one, two)[flow].recvfrom(2000) == (payload, ("10.78.1.2", 5000 + flow))
        assert port.counters["frames_out"] == len(sent)
        assert port.counters["bytes_out"] == sum(52 + length for _, length in lengths)
        if received() - before == len(sent):
            pytest.skip("this kernel takes no joined datagrams")
        assert received() - before == 10  # of 51, 3, 1, 1, 2, 1 datagrams, and of 64, 64, 64, 8


@real
@pytest.mark.parametrize("odd", [{"flags": 0}, {"flags": 0, "identifier": 7}])
def test_datagrams_that_may_be_fragmented_stay_alone(odd):
    """Their IP identifiers matter, and those of joined ones are the kernel's."""
    with tap_with_sockets(1) as (port, mac, (sock,), received):
        before = received()
        for i in range(5):
            assert port.send(as_sent_by_a_socket(mac, 5000, 9000, bytes([i]) * 20, **odd))
        assert port.flush() and [sock.recv(100)[0] for _ in range(5)] == list(range(5))
        assert received() - before == 5
