"""AF_XDP on a veth pair between two namespaces; skipped where the machine forbids it."""

import os
import sys

import pytest
from quiet import quiet
from test_lab import FORBIDDEN, PERMITTED, PONG, check_same, drain, ping
from test_ports import SIZES, random_frames

from penstock_net.errors import SpecError
from penstock_net.vswitch.attach.lab import Namespace, veth
from penstock_net.vswitch.attach.open import capture, open_port
from penstock_net.vswitch.linux import xdp_setup as xdp
from penstock_net.vswitch.ports.base import Bridge

FORBIDDEN = FORBIDDEN + ([] if PERMITTED["xdp"].permitted else [f"xdp: {PERMITTED['xdp'].detail}"])
pytestmark = pytest.mark.skipif(bool(FORBIDDEN), reason="; ".join(FORBIDDEN))
SMALL = bytes(12) + b"\x88\xb5" + bytes(50)
TROUBLE = ("errors_in", "errors_out", "too_long", "refused", "kernel_lost", "no_room")


@pytest.fixture
def two():
    with Namespace("left") as left, Namespace("right") as right, veth(left, right):
        for side in (left, right):
            quiet(side, "veth0")
        yield left, right


def open_in(namespace, kind="xdp", **options):
    with namespace.enter():
        return open_port(kind, device="veth0", **options)


@pytest.mark.parametrize("other", ["xdp", "packet"])
def test_frames_of_all_sizes_both_ways(two, other):
    options = {} if other == "xdp" else {"headers": False}
    with open_in(two[0]) as a, open_in(two[1], other, **options) as b:
        drain(a, b)
        for seed, (x, y) in enumerate(((a, b), (b, a), (a, b), (b, a))):
            check_same(x, y, random_frames(seed, 1500, SIZES))  # more than there are chunks, in the end
        assert a.counters["frames_out"] == b.counters["frames_out"] == 3000
        assert not any(port.counters[name] for port in (a, b) for name in TROUBLE)


def test_every_frame_that_the_receiver_does_not_take_in_time_is_counted(two):
    with open_in(two[0]) as a, open_in(two[1], memory="1MiB") as b:
        drain(a, b)
        before = b.counters["frames_in"]
        assert a.flood(SMALL, 5000) == 5000 and a.flush()
        assert b.swallow(10_000) == 128, "half of the chunks are for frames that come in"
        assert b.counters["kernel_lost"] == 5000 - 128 and b.counters["frames_in"] == before + 128
        check_same(a, b, random_frames(1, 500))


def test_a_batch_waits_until_it_is_flushed(two):
    with open_in(two[0], batch=8) as a, open_in(two[1]) as b:
        drain(a, b)
        assert all(a.send(SMALL) for _ in range(7)) and b.receive() is None
        assert a.send(SMALL) and b.swallow(100) == 8
        assert a.send(SMALL) and a.receive() is None and b.swallow(100) == 1, "receiving sends what waits"


def test_an_interface_that_goes_down(two):
    with open_in(two[0], memory="512KiB") as a, open_in(two[1]) as b:
        drain(a, b)
        two[0].run("ip", "link", "set", "veth0", "down")
        before = a.counters["frames_out"]
        assert a.flood(SMALL, 1000) == 1000 and not a.flush()
        assert a.counters["errors_out"] == 1000 - 64 and a.counters["frames_out"] == before + 64 and a.last_error == 100
        two[0].run("ip", "link", "set", "veth0", "up")
        assert a.flush() and b.swallow(1000) >= 64, "what was in the ring is sent when the interface is back"
        two[0].run("ip", "link", "set", "veth0", "down")
        assert all(a.send(SMALL) for _ in range(10))
    assert a.counters["errors_out"] == 1000 - 64 + 10, "what could not be sent by the end is lost, and counted"


def test_a_queue_has_one_port_at_a_time_and_is_free_when_it_is_closed(two):
    descriptors = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with open_in(two[0]) as a, open_in(two[1]) as b:
            with pytest.raises(SpecError, match="in use"):
                open_in(two[0])
            drain(a, b)
            check_same(a, b, random_frames(2, 50))
    assert len(os.listdir("/proc/self/fd")) == descriptors
    with open_in(two[0]) as a, open_in(two[1], "packet", headers=False) as b:
        drain(a, b)
        check_same(b, a, random_frames(3, 50))


def test_unmodified_programs_through_it(two):
    """left -- veth -- AF_XDP port, bridge, TAP -- a third namespace."""
    left, right = two
    left.run("ip", "address", "add", "10.77.0.1/24", "dev", "veth0")
    left.without_offloads("veth0")
    with Namespace("third") as third, third.tap("10.77.0.2/24", headers=False) as tap, open_in(right) as port, Bridge(port, tap):
        pong = third.start(sys.executable, "-c", PONG)
        assert pong.stdout.readline() == "ready\n"
        ping(left, "10.77.0.2", 200, pong)
        assert port.counters["frames_in"] >= 200
        assert not any(port.counters[name] for name in TROUBLE)


def test_wrappers_and_frames_that_are_too_long(two, tmp_path):
    with open_in(two[0]) as inner, open_in(two[1]) as b:
        a = capture(inner, tmp_path / "seen.pcapng")
        drain(a, b)
        check_same(a, b, random_frames(4, 100))
        tagged = random_frames(5, 1, [1514])[0][:12] + b"\x81\x00\x00\x07\x88\xb5" + bytes(1500)
        assert len(tagged) == 1518 and a.send(tagged) and a.flush() and b.receive() == tagged
        assert a.send(SMALL + bytes(1451)) and inner.counters["too_long"] == 1
        assert a.flush() and b.receive() is None
        a.close()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"device": "nowhere"}, "no such interface"),
        ({"device": "a name"}, "1 to 15 characters"),
        ({}, "xdp.device: is missing"),
        ({"device": "veth0", "headers": True}, "xdp.headers = True"),
        ({"device": "veth0", "queue": -1}, "xdp.queue"),
        ({"device": "veth0", "queue": 77}, "must have a queue 77"),
        ({"device": "veth0", "batch": 65}, "between 1 and 64"),
        ({"device": "veth0", "memory": "3MiB"}, "power of two"),
        ({"device": "veth0", "memory": "64KiB"}, "power of two"),
        ({"device": "veth8"}, "ip link set veth8 up"),
    ],
)
def test_mistakes_are_named(two, options, says):
    two[0].run("ip", "link", "add", "veth8", "type", "veth", "peer", "name", "veth9")
    with two[0].enter(), pytest.raises(SpecError) as e:
        open_port("xdp", **options)
    assert says in str(e.value)


def test_without_the_right_to_it(two, monkeypatch):
    def refuse(command, attributes):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(xdp, "bpf", refuse)
    with pytest.raises(SpecError, match="CAP_BPF"):
        open_in(two[0])


def test_the_program_is_what_it_says():
    """Decoded again: load the queue's number, redirect, return; the table's descriptor is the only thing that changes."""
    code = xdp.program(0x1234)
    assert len(code) == 48 and xdp.program(7) == code.replace(b"\x34\x12", b"\x07\x00")
    assert [code[8 * i] for i in range(6)] == [0x61, 0x18, 0x00, 0xB7, 0x85, 0x95]
    with pytest.raises(OSError):
        xdp.bpf(xdp.PROGRAM_LOAD, bytes(8))
