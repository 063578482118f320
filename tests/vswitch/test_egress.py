"""In which order frames of several flows go out to a device."""

import itertools
import struct

from frames import udp

from penstock.pxd import read as read_pxd
from penstock.vswitch.attach.devices import Device
from penstock.vswitch.attach.open import open_link
from penstock.vswitch.dataplane.driver import attach_device
from penstock.vswitch.dataplane.switch import Switch
from penstock.vswitch.ports.base import Clock

TURN = read_pxd("vswitch/dataplane/egress.pxd").constants["TURN_BYTES"]
SENDERS, FRAMES, SIZE = 3, 64, 1000


def test_flows_that_wait_together_have_turns_of_several_frames_and_the_same_share():
    """A TAP hands datagrams of one flow over together only if they come one after another; and no flow waits for longer."""
    clock, switch = Clock(ns=10**9), Switch()
    left = [open_link(rate="8Tbps", delay=0, headers=False, clock=clock, memory="16MB") for _ in range(SENDERS)]
    right, port = open_link(rate="8Mbps", delay=0, headers=False, clock=clock, memory="16MB")
    for i, (_, side) in enumerate(left):
        attach_device(switch, f"left{i}", Device(side), [f"10.0.0.{i + 1}"])
    attach_device(switch, "right", Device(port), ["10.0.1.1"])
    for k in range(FRAMES):
        for i, (end, _) in enumerate(left):
            assert end.send(udp(f"10.0.0.{i + 1}", "10.0.1.1", payload=struct.pack("!HH", i, k).ljust(SIZE, b".")))
    came = []
    while len(came) < SENDERS * FRAMES:
        clock.ns += 1_000_000
        switch.turn_at(clock.ns)
        while frame := right.receive():
            came.append(struct.unpack_from("!HH", frame, 42))
    for i in range(SENDERS):
        assert [k for flow, k in came if flow == i] == list(range(FRAMES)), "in order, and none is lost"
    runs = [len(list(group)) for _, group in itertools.groupby(flow for flow, _ in came)]
    most = -(-TURN // SIZE)
    assert max(runs) <= most and len(runs) < len(came) / 4, runs
    for count in range(0, len(came), SENDERS * most):  # all have something to send until the last turns
        shares = [sum(flow == i for flow, _ in came[: count + 1]) for i in range(SENDERS)]
        assert max(shares) - min(shares) <= most
    switch.close()
    for each in itertools.chain(*left, (right, port)):
        each.close()
