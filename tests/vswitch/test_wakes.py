"""What the worker does without need: reads of devices that have no frames, and looks for work before it sleeps."""

import contextlib
import socket
from pathlib import Path
from statistics import median

import pytest
from frames import udp
from quiet import quiet
from test_lab import FORBIDDEN
from test_switch import A, B, switch_of
from waiting import until

from penstock_net.vswitch.attach.devices import Device
from penstock_net.vswitch.attach.lab import Namespace
from penstock_net.vswitch.dataplane.driver import attach_device
from penstock_net.vswitch.dataplane.switch import Switch

IO = Path("/proc/thread-self/io")
MS = 1_000_000


def reads():
    """How often this thread has read from a descriptor, also in vain."""
    return int(dict(line.split(": ") for line in IO.read_text().splitlines())["syscr"])


@pytest.mark.skipif(bool(FORBIDDEN), reason="; ".join(FORBIDDEN))
@pytest.mark.skipif(not IO.exists(), reason="this kernel does not count reads (CONFIG_TASK_IO_ACCOUNTING)")
def test_only_devices_with_news_are_read():
    """A look for news of all devices costs as much as a read of one of them in vain."""
    with contextlib.ExitStack() as stack:
        spaces = [stack.enter_context(Namespace(f"n{i}")) for i in range(5)]
        devices = [Device(stack.enter_context(space.tap(f"10.77.{i}.1/24"))) for i, space in enumerate(spaces)]
        switch = stack.enter_context(contextlib.closing(Switch()))
        for i, (space, device) in enumerate(zip(spaces, devices, strict=True)):
            attach_device(switch, f"n{i}", device, [f"10.77.{i}.1"])
            quiet(space, "tap0")
            space.run("ip", "neighbour", "replace", f"10.77.{i}.2", "dev", "tap0", "lladdr", "02:00:00:00:00:09")
        for now in range(MS, 100 * MS, MS):
            switch.turn_at(now)
        here = -reads() + reads()
        before = reads()
        for now in range(100 * MS, 400 * MS, MS):
            switch.turn_at(now)
        assert reads() - before == here
        with spaces[3].socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            taken = switch.drivers[3].row()["frames_in"]
            for now in range(400 * MS, 420 * MS, 2 * MS):
                sock.sendto(b"hello", ("10.77.3.2", 9))
                before = reads()
                switch.turn_at(now)
                switch.turn_at(now + MS)
                assert reads() - before - here == 2, "the frame, and that there is no other"
            assert switch.drivers[3].row()["frames_in"] == taken + 10


def test_a_worker_looks_for_work_before_it_sleeps_only_while_that_finds_some():
    """Frames come one by one, and each after the worker has gone to sleep: of 16 sleeps one follows a vain look."""
    switch, a, b = switch_of(A, B, spin="10ms")
    rounds = []
    switch.start()
    try:
        for _ in range(60):
            before = switch.counters()
            assert a.send(0, [udp(A, B)]) == 1
            until(b.receive)
            naps = switch.counters()["naps"]
            until(lambda naps=naps: switch.counters()["naps"] > naps)
            rounds.append(switch.counters()["rounds"] - before["rounds"])
    finally:
        switch.stop()
    assert 10 * median(rounds) < max(rounds)
