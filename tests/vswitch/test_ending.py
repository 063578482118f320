"""The end of many devices at once, in the simulated kernel and in the real one."""

import contextlib

import pytest
from test_same_kernel import kernel  # noqa: F401
from test_same_kernel_queueing import SLOW, frame, sender

from penstock_net.errors import PenstockError
from penstock_net.vswitch import world
from penstock_net.vswitch.attach import devices, ending
from penstock_net.vswitch.attach.ingress_rates import DRAIN_S
from penstock_net.vswitch.linux.htb import REST
from penstock_net.vswitch.linux.interfaces import exists
from penstock_net.vswitch.linux.monitor import OWN_QDISC, Monitor

SETTINGS = {"th_goal": 32_768, "th_over": 131_072}


@pytest.fixture
def opened(kernel):  # noqa: F811
    """Three TAPs with edges, of which the last one stays."""
    found = []
    with contextlib.ExitStack() as stack:
        for i in range(3):
            table = {"kind": "tap", "device": f"t{i}", "persistent": i == 2}
            device = devices.open_device(devices.validate_device(table, "p"), [f"10.1.0.{i + 1}"])
            stack.callback(device.discard)
            device.edge = device._edge(tuple, SETTINGS)
            device.edge.open()
            found.append(device)
        yield found


def test_only_what_stays_is_cleared(opened):
    """To take HTB away from an interface costs the kernel as much as to remove it: 512 of them took a minute."""
    with contextlib.closing(Monitor()) as monitor:
        numbers = [world.socket.if_nametoindex(f"t{i}") for i in range(3)]
        ending.release_all(opened)
        assert [device.edge for device in opened] == [None] * 3
        assert [monitor.root_qdisc(number)[1] == OWN_QDISC for number in numbers] == [True, True, False]
        ending.close_all(opened)
        assert [exists(f"t{i}") for i in range(3)] == [False, False, True]
        opened[2].port = devices.open_device(devices.validate_device({"kind": "tap", "device": "t2"}, "p"), []).port


def test_devices_wait_together_for_the_frames_in_their_classes(opened, kernel):  # noqa: F811
    """Each had 1.1 s for them, one after the other."""
    for device in opened:
        device.edge.rates.htb.set_class(REST, SLOW)
    with sender() as sock:
        for i in range(3):
            sock.bind((f"t{i}", 0x0800))
            for _ in range(40):
                sock.send(frame())
    assert all(device.edge.rates.htb.waiting()[REST][1] for device in opened)
    rates, before = [device.edge.rates for device in opened], world.time.monotonic()
    ending.release_all(opened)
    if not kernel.is_real:  # whose clock is any process's
        assert world.time.monotonic() - before < 2 * DRAIN_S
        assert all(each.left for each in rates)


def test_all_are_closed_before_an_error_is_raised(opened, monkeypatch):
    def fails():
        raise OSError("one")

    monkeypatch.setattr(opened[0], "close", fails)
    with pytest.raises(OSError, match="one"):
        ending.close_all(opened)
    monkeypatch.undo()
    assert [device.port.closed for device in opened] == [False, True, True]


def test_all_edges_end_before_an_error_is_raised(opened, monkeypatch):
    """Errors other than the kernel's left the edges of all that came later."""

    def fails():
        raise PenstockError("malformed")

    monkeypatch.setattr(opened[0].edge.rates, "lift", fails)
    with pytest.raises(PenstockError, match="malformed"):
        ending.release_all(opened)
    assert [device.edge for device in opened] == [None] * 3


class NoThread:
    def __init__(self, **options):
        pass

    def start(self):
        raise RuntimeError("can't start new thread")


def test_all_are_closed_if_no_thread_can_be_started(opened, monkeypatch):
    """Else none is closed: this thread has not begun to close any when it starts the others."""
    monkeypatch.setattr(world.threading, "Thread", NoThread)
    ending.close_all(opened)
    monkeypatch.undo()
    assert [device.port.closed for device in opened] == [True] * 3
    opened[2].port = devices.open_device(devices.validate_device({"kind": "tap", "device": "t2"}, "p"), []).port
