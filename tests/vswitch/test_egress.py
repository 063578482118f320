"""In which order frames of several flows go out to a device."""

import itertools
import struct

from frames import udp

from penstock_net.pxd import read as read_pxd
from penstock_net.vswitch.attach.devices import Device
from penstock_net.vswitch.attach.open import open_link
from penstock_net.vswitch.dataplane.driver import attach_device
from penstock_net.vswitch.dataplane.switch import Switch
from penstock_net.vswitch.ports.base import Clock

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


def test_a_flow_to_a_device_is_paused_at_a_third_of_what_it_may_have():
    """Of 8192 buffers an eighth is kept for small flows. Half of what is free of 7168 is th_over: 2390 frames are more."""
    clock = Clock(ns=10**9)
    switch = Switch(mode="backdraft", th_goal="100MB", th_over="200MB", th_net="400MB")
    left, port = open_link(rate="8Tbps", delay=0, headers=False, clock=clock, memory="64MB")
    right, slow = open_link(rate="8kbps", delay=0, headers=False, clock=clock, memory="256KiB")
    for name, side, address in (("left", port, "10.0.0.1"), ("right", slow, "10.0.1.1")):
        attach_device(switch, name, Device(side), [address])
    assert switch.regions[1].shape["buffers"] == 8192
    for _ in range(6000):
        assert left.send(udp("10.0.0.1", "10.0.1.1", payload=bytes(SIZE - 42)))
    for _ in range(100):
        clock.ns += 50_000
        switch.turn_at(clock.ns)
        if switch.flows() and switch.flows()[0]["pauses"]:
            break
    flow = switch.flows()[0]
    assert (flow["pauses"], flow["longest_bytes"]) == (1, 2390 * SIZE)
    switch.close()
    for each in (left, port, right, slow):
        each.close()
