"""A vhost-user port and a front end of the tests' own: messages, rings, offloads, connections that end and come back."""

import contextlib
import os
import struct

import pytest
from frames import udp
from test_cutting import super_frame
from test_tap_ports import A, B
from vhost_front_end import (
    EVENTS,
    GUEST,
    MERGEABLE,
    PROTOCOL,
    USER,
    USUAL,
    VERSION_1,
    FrontEnd,
    connect,
    readable,
)
from waiting import until

from penstock_net.errors import SpecError
from penstock_net.vswitch.attach.devices import Device
from penstock_net.vswitch.attach.open import open_link, open_port
from penstock_net.vswitch.dataplane.driver import attach_device
from penstock_net.vswitch.dataplane.switch import Switch
from penstock_net.vswitch.ports.base import Clock
from penstock_net.vswitch.support.balance import balance
from penstock_net.vswitch.support.vhost_peer import listen
from penstock_net.vswitch.support.vhost_protocol import AREA, AREA_COUNT, NUMBER, RING_ADDRESSES, STATE, Request

FRAME = bytes.fromhex("020000000001 020000000002 88b5") + bytes(range(90))
NO_HEADER = bytes(10)
SUMS = 1 << 0 | 1 << 1
SEGMENTS = SUMS | 1 << 7 | 1 << 8 | 1 << 11 | 1 << 12


@contextlib.contextmanager
def attached(tmp_path, features=USUAL, headers=True, **keys):
    """A port and a front end that is connected to it."""
    path = str(tmp_path / "v.sock")
    with open_port("vhost-user", path=path, headers=headers) as port, FrontEnd(connect(path), features, **keys) as front:
        yield port, front.begin()


def take(port):
    """All frames that are there."""
    found = []
    while (frame := port.receive()) is not None:
        found.append(frame)
    return found


# ---- Frames ----


@pytest.mark.parametrize("features", [PROTOCOL, PROTOCOL | MERGEABLE, USUAL, USUAL | EVENTS])
@pytest.mark.parametrize("headers", [True, False])
def test_frames_in_both_directions(tmp_path, features, headers):
    own = NO_HEADER if headers else b""
    with attached(tmp_path, features, headers) as (port, front):
        assert front.header == (10 if features == PROTOCOL else 12)
        for i in range(600):  # more than the ring has
            front.transmit(FRAME + bytes([i & 255]), split=[front.header] if i & 1 else [])
            assert take(port) == [own + FRAME + bytes([i & 255])]
            assert len(front.rings[1].collect()) == 1
            front.rings[1].free = list(range(256))
            front.provide()
            assert port.send(own + FRAME + bytes([i & 255])) and port.flush()
            assert [frame for _, frame in front.received()] == [FRAME + bytes([i & 255])]
            front.rings[0].free = list(range(256))
        assert port.counters["frames_in"] == port.counters["frames_out"] == 600


def test_a_frame_in_many_descriptors_direct_and_indirect(tmp_path):
    with attached(tmp_path) as (port, front):
        for indirect in (False, True):
            front.transmit(FRAME, split=[1, 5, 11, 13, 40, 41, 41, 100], indirect=indirect)
            assert take(port) == [NO_HEADER + FRAME]
            front.provide(sizes=(3, 8, 2, 30, 0, 7, 2000), indirect=indirect)
            assert port.send(NO_HEADER + FRAME) and port.flush()
            [(header, frame)] = front.received()
            assert frame == FRAME and struct.unpack("<H", header[10:])[0] == 1


def test_mergeable_buffers_take_what_a_frame_needs(tmp_path):
    with attached(tmp_path) as (port, front):
        front.provide(3, sizes=(1000,))
        long = FRAME[:14] + os.urandom(3000)
        assert not port.send(NO_HEADER + long), "three buffers have 3000 B, with 12 B of header"
        front.provide(2, sizes=(1000,))
        assert port.send(NO_HEADER + long) and port.flush()
        [(header, frame)] = front.received()
        assert frame == long and struct.unpack("<H", header[10:])[0] == 4
        assert port.send(NO_HEADER + FRAME) and port.flush()
        assert [frame for _, frame in front.received()] == [FRAME], "the fifth was left"


def test_without_mergeable_buffers_a_long_frame_is_too_long(tmp_path):
    with attached(tmp_path, PROTOCOL | VERSION_1) as (port, front):
        front.provide(2, sizes=(1000,))
        assert port.send(NO_HEADER + FRAME[:14] + bytes(2000)) and port.counters["too_long"] == 1
        assert port.send(NO_HEADER + FRAME) and port.flush()
        assert [frame for _, frame in front.received()] == [FRAME]


def test_a_guest_that_does_not_read_fills_its_own_ring_only(tmp_path):
    with attached(tmp_path) as (port, front):
        front.provide(8)
        assert port.flood(NO_HEADER + FRAME, 20) == 8 and not port.send(NO_HEADER + FRAME)
        assert port.counters["lost"] == 0 and len(front.received()) == 8
        front.provide(1)
        assert port.flood(NO_HEADER + FRAME, 20) == 1


def test_short_and_long_frames_of_a_guest_are_counted(tmp_path):
    with attached(tmp_path, memory=1 << 23) as (port, front):
        front.transmit(bytes(13))
        front.transmit(bytes(70_000))
        front.transmit(FRAME)
        assert port.receive() is None and port.receive() is None and port.receive() == NO_HEADER + FRAME
        assert (port.counters["refused"], port.counters["too_long"]) == (1, 1)
        assert len(front.rings[1].collect()) == 3 or (port.receive() is None and len(front.rings[1].collect()) == 3)


# ---- Several pairs of queues ----


def test_several_pairs_and_those_that_are_enabled(tmp_path):
    with attached(tmp_path, USUAL | 1 << 22, pairs=3) as (port, front):
        assert front.ask_number(Request.GET_QUEUE_NUM) == 8
        for pair in range(3):
            front.transmit(FRAME + bytes([pair]), pair=pair)
            front.provide(200, pair=pair)
        assert sorted(frame[-1] for frame in take(port)) == [0, 1, 2]
        flows = [udp("10.0.0.1", "10.0.0.2", 1000 + i, 9) for i in range(100)]
        for _ in range(2):
            assert all(port.send(NO_HEADER + flow) for flow in flows)
        port.flush()
        seen = [[frame for _, frame in front.received(pair)] for pair in range(3)]
        assert sum(map(len, seen)) == 200 and all(len(each) > 30 for each in seen)
        assert not set(seen[0]) & set(seen[1]), "a flow has one ring"
        front.enable(front.rings[2], 0)
        front.enable(front.rings[3], 0)
        assert all(port.send(NO_HEADER + flow) for flow in flows)
        port.flush()
        assert not front.received(1) and len(front.received(0)) + len(front.received(2)) == 100
        front.transmit(FRAME, pair=1)
        assert take(port) == []
        front.enable(front.rings[3])
        assert take(port) == [NO_HEADER + FRAME]


# ---- Notifications ----


def test_interrupts_and_kicks_by_flags(tmp_path):
    with attached(tmp_path) as (port, front):
        assert port.receive() is None and front.rings[1].flags == 0, "idle: the guest is to kick"
        os.eventfd_read(front.rings[1].call) if front.rings[1].interrupts() else None
        front.transmit(FRAME)
        assert readable(port.fd), "its worker wakes"
        assert port.receive() and front.rings[1].flags == 1, "busy: it need not"
        assert port.receive() is None and front.rings[1].flags == 0 and front.rings[1].interrupts() == 1
        front.write(front.rings[1].available, b"\1\0")
        front.transmit(FRAME)
        assert len(take(port)) == 1 and front.rings[1].interrupts() == 0, "the guest wants none"


def test_interrupts_and_kicks_by_index(tmp_path):
    with attached(tmp_path, USUAL | EVENTS) as (port, front):
        ring = front.rings[1]
        assert port.receive() is None
        wish = lambda: struct.unpack("<H", front.read(ring.used + 4 + 8 * ring.size, 2))[0]  # noqa: E731
        assert wish() == 0
        for i in range(5):
            front.transmit(FRAME, kick=i == 0)
        assert len(take(port)) == 5 and wish() == 5
        ring.interrupts()
        front.write(ring.available + 4 + 2 * ring.size, struct.pack("<H", 7))  # when 8 are used
        for expected in (0, 0, 1, 0):
            front.transmit(FRAME)
            assert len(take(port)) == 1 and ring.interrupts() == expected


def test_an_interrupt_never_waits(tmp_path):
    """The front end may fill the counter of its eventfd and let it block: the kernel signals it nevertheless."""
    with attached(tmp_path) as (port, front):
        call = front.rings[1].call
        os.set_blocking(call, True)
        os.eventfd_write(call, (1 << 64) - 2)
        for _ in range(40):
            front.transmit(FRAME)
            assert len(take(port)) == 1
        assert port.report()["interrupts"] >= 40


# ---- Check sums and super-frames ----


def partial(size=400, gso=0, of=6, gso_type=1):
    """A frame of TCP over IPv4, and its header: its check sum is still to be made."""
    length = size - 14
    ip = bytearray(struct.pack("!BBHHHBBH4s4s", 0x45, 0, length, 1, 0x4000, 64, 6, 0, bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])))
    struct.pack_into("!H", ip, 10, 0xFFFF - folded(sum(struct.unpack("!10H", ip))))
    pseudo = folded(sum(struct.unpack("!4H", bytes(ip[12:20]))) + 6 + length - 20)
    tcp = struct.pack("!HHIIBBHHH", 1, 2, 3, 4, 0x50, 0x10, 1000, pseudo, 0)
    frame = FRAME[:12] + b"\x08\0" + bytes(ip) + tcp + os.urandom(size - 54)
    return struct.pack("<BBHHHH", 1, gso_type if gso else 0, 54, gso, 34, 16), frame


def folded(total):
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def is_right(frame):
    """Whether the check sum of a TCP frame is."""
    tcp = frame[34:] + bytes(len(frame) % 2)
    return (
        folded(sum(struct.unpack(f"!{len(tcp) // 2}H", tcp)) + sum(struct.unpack("!4H", frame[26:34])) + 6 + len(frame) - 34)
        == 0xFFFF
    )


def test_partial_check_sums_and_super_frames_pass_both_ways(tmp_path):
    with attached(tmp_path, USUAL | SEGMENTS) as (port, front):
        header, frame = partial(20_000, gso=1448)
        front.transmit(frame, header)
        assert take(port) == [header + frame]
        front.provide(20)
        assert port.send(header + frame) and port.flush()
        [(found, same)] = front.received()
        assert found[:10] == header and same == frame


def test_a_guest_without_offloads_gets_frames_as_on_a_wire(tmp_path):
    with attached(tmp_path) as (port, front):
        header, frame = partial(10_054, gso=1000)
        front.provide(9)
        assert port.send(header + frame) and not port.flush(), "the tenth segment waits"
        assert not port.send(NO_HEADER + FRAME)
        front.provide(2)
        assert port.send(NO_HEADER + FRAME) and port.flush()
        *segments, (_, last) = front.received()
        assert last == FRAME and len(segments) == 10
        assert all(found[:10] == NO_HEADER and is_right(segment) for found, segment in segments)
        assert b"".join(segment[54:] for _, segment in segments) == frame[54:]
        header, frame = partial()
        front.provide(1)
        assert port.send(header + frame) and port.flush()
        [(found, made)] = front.received()
        assert found[:10] == NO_HEADER and is_right(made)


@contextlib.contextmanager
def switched(tmp_path):
    """A switch between a link and a guest without offloads: the link, the guest, what it has counted, and its turns."""
    clock, switch, path = Clock(ns=10**9), Switch(), str(tmp_path / "v.sock")
    wire, end = open_link(rate="8Tbps", delay=0, clock=clock, headers=True, memory="16MB")

    def turn():
        for _ in range(30):
            clock.ns += 200_000
            switch.turn_at(clock.ns)
        found = balance(switch)
        assert not found["unaccounted"], found
        return found, next(row["device"] for row in switch.ports() if row["port"] == "b")

    ends = open_port("vhost-user", path=path, headers=True), contextlib.closing(switch)
    with wire, end, ends[0] as port, ends[1], FrontEnd(connect(path), USUAL) as front:
        attach_device(switch, "a", Device(end), [A])
        attach_device(switch, "b", Device(port), [B])
        yield wire, front.begin(), turn


def test_no_frame_vanishes_or_comes_from_nowhere_while_one_is_cut_for_a_guest(tmp_path):
    """Nine segments too many had gone out of ten, and what waited for room was nowhere."""
    with switched(tmp_path) as (wire, front, turn):
        for _ in range(2):
            assert wire.send(super_frame(A, B, bytes(10 * 1448)))
        front.provide(4)
        found, device = turn()
        assert (found["in"], found["out"], found["parked"]) == (2, 0, 2)
        assert (device["frames_out"], device["waiting_out"], device["further_out"]) == (4, 1, 4)
        front.provide(9)
        found, device = turn()
        assert (found["in"], found["out"], found["parked"]) == (2, 1, 1)
        front.provide(20)
        found, device = turn()
        assert (found["in"], found["out"], found["parked"]) == (2, 2, 0)
        assert (device["frames_out"], device["waiting_out"], device["further_out"]) == (20, 0, 18)


def test_nor_when_the_guest_goes_meanwhile(tmp_path):
    with switched(tmp_path) as (wire, front, turn):
        assert wire.send(super_frame(A, B, bytes(10 * 1448)))
        front.provide(4)
        turn()
        for ring in front.rings:
            front.stop(ring)
        assert wire.send(super_frame(A, B, bytes(1448)))
        found, device = turn()
        assert (found["in"], found["parked"], device["frames_out"], device["lost"]) == (2, 0, 4, 7)


def test_in_wire_format_no_offload_is_offered(tmp_path):
    with attached(tmp_path, headers=False) as (port, front):
        assert front.ask_number(Request.GET_FEATURES) & SEGMENTS == 0
        header, frame = partial()
        front.transmit(frame, header)
        assert is_right(take(port)[0]), "one that comes all the same is completed"


@pytest.mark.parametrize(
    "header",
    [
        (1, 0, 0, 0, 380, 20),  # a sum that ends behind the frame
        (1, 0, 0, 0, 0xFFFF, 0xFFFF),
        (0, 1, 54, 1000, 0, 0),  # segments without sums
        (1, 1, 54, 0, 34, 16),  # of no size
        (1, 3, 54, 1000, 34, 6),  # fragments, which are not offered
        (1, 5, 54, 1000, 34, 6),
    ],
)
def test_headers_that_are_refused(tmp_path, header):
    with attached(tmp_path, USUAL | SEGMENTS) as (port, front):
        front.transmit(partial()[1], struct.pack("<BBHHHH", *header))
        front.transmit(FRAME, struct.pack("<BBHHHH", 0xFE, 0, 9, 9, 9, 9))  # nothing of it is passed on
        assert port.receive() is None and port.counters["refused"] == 1
        assert port.receive() == NO_HEADER + FRAME


# ---- Messages ----


def test_a_ring_stops_and_goes_on_where_it_was(tmp_path):
    with attached(tmp_path) as (port, front):
        for _ in range(2):
            front.transmit(FRAME)
            front.provide()
        assert len(take(port)) == 2 and port.send(NO_HEADER + FRAME)
        assert [front.stop(ring) for ring in front.rings] == [1, 2]
        assert front.rings[0].used_index == 1, "the frame was shown"
        assert port.send(NO_HEADER + FRAME) and port.counters["lost"] == 1
        front.transmit(FRAME)
        assert take(port) == []
        for ring in front.rings:
            ring.collect()
            front.start(ring)
        assert len(take(port)) == 1 and port.send(NO_HEADER + FRAME) and port.flush()
        assert len(front.rings[0].collect()) == 1


def test_memory_may_change_while_rings_are_in_use(tmp_path):
    with attached(tmp_path) as (port, front):
        front.transmit(FRAME)
        half = front.memory // 2
        areas = AREA.pack(GUEST, half, USER, 0) + AREA.pack(GUEST + half, half, USER + half, half)
        assert front.tell(Request.SET_MEM_TABLE, AREA_COUNT.pack(2, 0) + areas, [front.fd, front.fd])
        assert take(port) == [NO_HEADER + FRAME]
        front.next = half - 300  # one buffer in two areas
        front.transmit(FRAME * 8)
        assert take(port) == [NO_HEADER + FRAME * 8]


def test_reset_owner_stops_all_rings(tmp_path):
    with attached(tmp_path) as (port, front):
        assert front.tell(Request.RESET_OWNER)
        assert port.report()["rings_to_guest"] == port.report()["rings_from_guest"] == 0
        assert front.tell(Request.SET_OWNER)


def test_without_protocol_features_rings_need_not_be_enabled(tmp_path):
    path = str(tmp_path / "v.sock")
    with open_port("vhost-user", path=path) as port, FrontEnd(connect(path), VERSION_1) as front:
        front.begin(enable=False)
        front.transmit(FRAME)
        assert take(port) == [NO_HEADER + FRAME]


@pytest.mark.parametrize("request_number", [6, 7, 19, 20, 37, 40, 99])
def test_what_is_not_offered_is_refused_and_the_connection_goes_on(tmp_path, request_number):
    with attached(tmp_path) as (port, front):
        assert front.ask_number(Request.GET_FEATURES) & (1 << 26 | 1 << 34) == 0, "no logging, no packed rings"
        assert not front.tell(request_number, bytes(16))
        front.send(request_number, bytes(16))
        assert front.ask_number(Request.GET_QUEUE_NUM) and port.report()["refused_requests"] == 2
        front.transmit(FRAME)
        assert take(port) == [NO_HEADER + FRAME]


BAD = {
    "logging": (Request.SET_FEATURES, NUMBER.pack(USUAL | 1 << 26)),
    "packed rings": (Request.SET_FEATURES, NUMBER.pack(USUAL | 1 << 34)),
    "protocol features": (Request.SET_PROTOCOL_FEATURES, NUMBER.pack(1 << 1)),
    "a ring that is not there": (Request.SET_VRING_NUM, STATE.pack(16, 256)),
    "a size that is no power of two": (Request.SET_VRING_NUM, STATE.pack(2, 100)),
    "a size of nothing": (Request.SET_VRING_NUM, STATE.pack(2, 0)),
    "a ring in use": (Request.SET_VRING_NUM, STATE.pack(0, 128)),
    "no memory at all": (Request.SET_MEM_TABLE, AREA_COUNT.pack(0, 0)),
    "more memory than is told": (Request.SET_MEM_TABLE, AREA_COUNT.pack(8, 0)),
    "a short payload": (Request.SET_VRING_NUM, b"\0"),
    "a long payload": (Request.SET_FEATURES, bytes(5000)),
    "addresses elsewhere": (Request.SET_VRING_ADDR, RING_ADDRESSES.pack(0, 0, USER - 16, USER + 8192, USER + 4096, 0)),
    "addresses out of line": (Request.SET_VRING_ADDR, RING_ADDRESSES.pack(0, 0, USER + 1, USER + 8192, USER + 4096, 0)),
    "addresses at the end": (Request.SET_VRING_ADDR, RING_ADDRESSES.pack(0, 0, USER + (1 << 22) - 16, USER, USER, 0)),
    "a logged ring": (Request.SET_VRING_ADDR, RING_ADDRESSES.pack(0, 1, USER, USER + 8192, USER + 4096, 0)),
    "a ring to be polled": (Request.SET_VRING_KICK, NUMBER.pack(0 | 1 << 8)),
    "no eventfd": (Request.SET_VRING_KICK, NUMBER.pack(2)),
    "a start without a size": (Request.SET_VRING_KICK, NUMBER.pack(2)),
}


@pytest.mark.parametrize("what", BAD)
def test_messages_that_end_the_connection(tmp_path, what):
    request, payload = BAD[what]
    fds = [] if what != "a start without a size" else [os.eventfd(0)]
    with attached(tmp_path) as (port, front):
        front.send(Request.SET_VRING_ENABLE, STATE.pack(2, 1))
        front.send(request, payload, fds)
        assert front.has_ended
        until(lambda: not port.report()["connected"])
        assert port.report()["protocol_errors"] == 1 and port.report()["why"].startswith("vhost-user: ")
        assert port.send(NO_HEADER + FRAME) and port.counters["lost"] == 1
    for fd in fds:
        os.close(fd)


def test_memory_that_could_make_a_worker_wait_is_refused(tmp_path):
    file = os.open("/proc/self/exe", os.O_RDONLY)
    pipe = os.pipe()
    for fd in (file, pipe[0]):
        with attached(tmp_path) as (port, front):
            front.send(Request.SET_MEM_TABLE, AREA_COUNT.pack(1, 0) + AREA.pack(GUEST, 4096, USER, 0), [fd])
            assert front.has_ended
            until(lambda: not port.report()["connected"])
            assert "tmpfs" in port.report()["why"]
    for fd in (file, *pipe):
        os.close(fd)


def test_an_eventfd_must_be_one(tmp_path):
    for request in (Request.SET_VRING_KICK, Request.SET_VRING_CALL, Request.SET_VRING_ERR):
        with attached(tmp_path) as (_, front):
            front.send(request, NUMBER.pack(0), [front.fd])
            assert front.has_ended


# ---- Connections ----


def test_a_guest_comes_back(tmp_path):
    path = str(tmp_path / "v.sock")
    with open_port("vhost-user", path=path) as port:
        for i in range(3):
            with FrontEnd(connect(path)) as front:
                front.begin()
                front.transmit(FRAME)
                assert take(port) == [NO_HEADER + FRAME]
            until(lambda: not port.report()["connected"])
            assert port.report()["connections"] == i + 1 and port.receive() is None
            assert port.send(NO_HEADER + FRAME) and port.counters["lost"] == i + 1


def test_the_front_end_may_be_the_server(tmp_path):
    path = str(tmp_path / "v.sock")
    with open_port("vhost-user", path=path, server=False) as port:
        until(lambda: "No such file" in port.report()["why"])
        for _ in range(2):
            listener = listen(path)
            with FrontEnd(listener.accept()[0]) as front:
                front.begin()
                front.transmit(FRAME)
                assert take(port) == [NO_HEADER + FRAME]
            listener.close()
            until(lambda: not port.report()["connected"])


def test_a_port_that_is_closed_lets_its_guest_go_and_removes_its_socket(tmp_path):
    before = os.listdir("/proc/self/fd")
    with attached(tmp_path) as (port, front):
        port.close()
        assert front.has_ended and not (tmp_path / "v.sock").exists()
    assert os.listdir("/proc/self/fd") == before
    with pytest.raises(SpecError, match="no socket"):
        (tmp_path / "v.sock").write_text("")
        open_port("vhost-user", path=str(tmp_path / "v.sock"))
    with pytest.raises(SpecError, match="make its folder"):
        open_port("vhost-user", path=str(tmp_path / "no" / "v.sock"))
    with pytest.raises(SpecError, match="107"):
        open_port("vhost-user", path="x" * 108)


def test_a_socket_belongs_to_one_program_and_a_stale_one_is_replaced(tmp_path):
    path = str(tmp_path / "v.sock")
    listen(path).close()
    with open_port("vhost-user", path=path), pytest.raises(SpecError, match="another program"):
        open_port("vhost-user", path=path)
