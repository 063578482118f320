"""As test_same_kernel: ports on existing interfaces (AF_PACKET), on the simulated kernel and on the real one."""

import contextlib

import pytest
from test_learning import arp
from test_same_kernel import FRAME, QUEUE, delete, kernel, packets, set_up, tap  # noqa: F401

from penstock_net.vswitch.attach.devices import Device
from penstock_net.vswitch.attach.open import kinds, open_link, open_port
from penstock_net.vswitch.dataplane.driver import attach_device
from penstock_net.vswitch.dataplane.switch import Switch
from penstock_net.vswitch.support.balance import balance

pytestmark = pytest.mark.usefixtures("kernel")
TAG = b"\x81\x00\x20\x07"  # priority 1, VLAN 7
kinds()  # compiled parts are loaded before a world is chosen


@contextlib.contextmanager
def ends(headers=False, **options):
    """A port on an interface, and the TAP that is its other end."""
    with tap() as far, open_port("packet", device="t0", headers=headers, **options) as near:
        yield near, far


def numbered(i, length=50):
    return FRAME[:14] + bytes([i]) * length


def all_of(port):
    found = []
    while (frame := port.receive()) is not None:
        found.append(frame)
    return found


@pytest.mark.parametrize("headers", [False, True])
def test_frames_go_both_ways(headers):
    """Many in one call, in their order; what the port sends does not come back to it."""
    before = bytes(10) if headers else b""
    with ends(headers, batch=8) as (near, far):
        assert near.receive() is None
        for i in range(70):
            assert far.send(numbered(i))
        assert all_of(near) == [before + numbered(i) for i in range(70)]
        for i in range(70):
            assert near.send(before + numbered(i, 50 + i))
        near.flush()
        assert all_of(far) == [numbered(i, 50 + i) for i in range(70)]
        assert near.receive() is None
        assert near.counters["frames_in"] == near.counters["frames_out"] == 70


@pytest.mark.parametrize("headers", [False, True])
def test_tags_are_put_back(headers):
    before = bytes(10) if headers else b""
    tagged = FRAME[:12] + TAG + FRAME[12:]
    with ends(headers) as (near, far):
        for frame in (tagged, FRAME, FRAME[:12] + TAG + TAG + FRAME[12:]):
            far.send(frame)
            assert near.receive() == before + frame
        near.send(before + tagged)
        near.flush()
        assert far.receive() == tagged


def test_what_is_longer_than_the_interface_takes():
    """1500 bytes after the header of Ethernet, 4 more with a tag."""
    long = numbered(1, 1500)
    with ends() as (near, far):
        for frame in (long, long + b"x", FRAME[:12] + TAG + long[12:], FRAME[:12] + TAG + long[12:] + b"x", FRAME):
            near.send(frame)
            near.flush()
        assert [len(frame) for frame in all_of(far)] == [1514, 1518, len(FRAME)]
        assert near.counters["errors_out"] == 2


def test_the_interface_is_down_and_up_again():
    """What had come stays; the port is told once; what is sent meanwhile waits for a while."""
    with ends() as (near, far):
        far.send(numbered(1))
        set_up("t0", False)
        assert near.receive() is None  # the error
        assert near.receive() == numbered(1)
        assert near.counters["errors_in"] == 1
        near.send(numbered(2))
        assert not near.flush()
        assert near.counters["no_room"] > 0
        set_up("t0")
        near.flush()
        assert all_of(far) == [numbered(2)]


def test_the_interface_is_deleted():
    with ends() as (near, far):
        far.send(numbered(1))
        delete("t0")
        near.receive()  # the error
        assert near.receive() == numbered(1)
        near.send(numbered(2))
        near.flush()
        assert near.counters["errors_out"] == 1
        assert near.last_error == 6  # ENXIO


def test_a_full_receive_buffer_drops_and_counts():
    with ends(receive_buffer=10_000) as (near, far):
        for i in range(100):
            far.send(numbered(i, 1000))
        came = all_of(near)
        assert 3 < len(came) < 25
        assert came == [numbered(i, 1000) for i in range(len(came))]
        assert near.kernel_lost() == 100 - len(came)
        far.send(FRAME)
        assert all_of(near) == [FRAME]


@pytest.mark.parametrize("bypass", [True, False])
def test_a_full_queue_of_the_interface(bypass):
    """Nobody reads: what does not fit is dropped at the interface."""
    with ends(bypass=bypass) as (near, far):
        for i in range(QUEUE + 20):
            near.send(numbered(i % 256))
        near.flush()
        counters = near.counters
        came = all_of(far)
        assert QUEUE - 16 <= len(came) <= QUEUE
        seen = (counters["frames_out"], counters["no_room"] > 0)
        assert seen == WHEN_FULL[bypass]


WHEN_FULL = {True: (QUEUE, True), False: (QUEUE + 20, False)}


def test_answers_and_copies_that_wait_are_no_frames_of_a_port():
    """The balance of a switch took them for frames that are parked, and those that came out were less by as many."""
    mine, other = b"\2\0\0\0\0\1", b"\2\0\0\0\0\2"
    with ends(batch=8) as (near, _), contextlib.closing(Switch()) as switch:
        far, link = open_link(rate="8Tbps", delay=0, headers=False)
        with far, link:
            attach_device(switch, "near", Device(near, mac=mine, broadcast=True), ["10.0.0.1"])
            attach_device(switch, "far", Device(link, mac=other, broadcast=True), ["10.0.0.2"])
            set_up("t0", False)
            near.put_back([arp(1, "10.0.0.1", "10.0.0.2", mine)])
            assert far.send(b"\xff" * 6 + other + b"\x88\xb5" + bytes(46))
            for i in range(20):
                switch.turn_at(10**9 + 1000 * i)
            row = switch.ports()[0]["device"]
            assert (row["answered"], row["waiting_out"], row["copies_waiting_out"]) == (1, 0, 2)
            found = balance(switch)
            assert (found["parked"], found["out"], found["unaccounted"]) == (0, 0, {})
