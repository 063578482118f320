"""Flows that were paused once go on at the receiver's rate, however long the worker's turns are; in virtual time."""

import pytest
from frames import udp

from penstock_net.vswitch.dataplane.switch import Switch
from penstock_net.vswitch.memory.region import Region

A, B = "10.0.0.1", "10.0.0.2"
ALL = 10_000


def taken(turn_ns, *phases):
    """Frames that a receiver takes in each turn; a phase is how many turns, frames sent per turn, and how many it may take."""
    switch, apps = Switch(idle="3600s"), []
    for name, address in (("a", A), ("b", B)):
        apps.append(Region.create())
        switch.attach(name, Region.attach(apps[-1].fd, apps[-1].shape), [address])
    a, b = apps
    frame, now, due, got = udp(A, B, payload=bytes(958)), 10**9, 0.0, []
    for turns, sent, takes in phases:
        for _ in range(turns):
            due = min(due + sent, 64)
            due -= a.send(0, [frame] * int(due))
            now += turn_ns
            switch.turn_at(now)
            got.append(len(b.receive(takes)) if takes else 0)
    assert not any(row["drops"] for row in switch.ports()) and switch.flows()[0]["pauses"] > 0
    return got


@pytest.mark.parametrize("turn_ns, stopped", [(50_000, 700), (50_000, 10_000), (200_000, 150), (200_000, 2500)])
def test_a_receiver_that_stopped_once_is_sent_as_much_as_before(turn_ns, stopped):
    """With many ports a turn is longer than a frame's time at the receiver's rate: then a turn must be worth several frames."""
    got = taken(turn_ns, (400, 64, ALL), (stopped, 64, 0), (2000, 64, ALL))
    before, after = sum(got[100:400]) / 300, sum(got[-100:]) / 100
    assert before > 10 and after > 0.9 * before, (before, after)


def test_a_slow_flow_does_not_pay_for_a_receiver_that_stopped():
    """While it stops, its rate seems to be next to nothing; a frame sent then is no reason to delay later ones for long."""
    paced = ((200, 64, ALL), (700, 64, 0), (4000, 64, ALL), (4000, 1 / 40, ALL))
    got = taken(50_000, *paced, (4000, 1 / 40, 0), (20_000, 1 / 10, ALL))
    assert sum(got[-10_000:]) > 990, "one in ten turns"


def test_nothing_is_due_for_a_paced_flow_that_sends_nothing():
    """The worker was woken for each frame of a slow flow a second time, when its pause ended and no other frame was there."""
    switch, apps = Switch(idle="3600s"), []
    for name, address in (("a", A), ("b", B)):
        apps.append(Region.create())
        switch.attach(name, Region.attach(apps[-1].fd, apps[-1].shape), [address])
    a, b = apps
    frame, now = udp(A, B, payload=bytes(958)), 10**9

    def turn(takes=0):
        nonlocal now
        now += 50_000
        switch.turn_at(now)
        return len(b.receive(takes)) if takes else 0

    i = waited = 0
    while i < 20_000 or a.waiting(0):  # the receiver takes a frame each 2 ms
        if i < 20_000:
            a.send(0, [frame] * 8)
        turn(0 if i % 40 else 1)
        waited += bool(a.waiting(0) and switch.pauses(now))
        i += 1
    assert waited and not switch.pauses(now), "of frames that wait, but of no others"
    b.receive(ALL)
    assert a.send(0, [frame]) == 1 and not turn(ALL)
    (paused,) = switch.pauses(now)
    assert paused["port"] == "a" and 0 < paused["left_ns"] < 5_000_000
    now += paused["left_ns"]
    assert turn(ALL) == 1


@pytest.mark.parametrize("again", [True, False])
def test_a_queue_that_is_closed_while_its_last_frame_waits_can_be_opened_again(again):
    """The word that closes it is read when the worker looks for a frame that waits for the end of the next pause."""
    switch, apps = Switch(idle="3600s"), []
    for name, address in (("a", A), ("b", B)):
        apps.append(Region.create())
        switch.attach(name, Region.attach(apps[-1].fd, apps[-1].shape), [address])
    a, b = apps
    frame, now, sent, came = udp(A, B, payload=bytes(958)), 10**9, 0, 0

    def turn(takes):
        nonlocal now, came
        now += 50_000
        switch.turn_at(now)
        came += len(b.receive(takes)) if takes else 0

    i = 0
    while i < 20_000 or a.waiting(0):  # the receiver takes a frame each 2 ms
        sent += a.send(0, [frame] * 8) if i < 20_000 else 0
        turn(0 if i % 40 else 1)
        i += 1
    sent += a.send(0, [frame] * 2)
    while a.waiting(0) > len(frame):
        turn(ALL)
    assert a.waiting(0) and a.close(0), "the worker holds the other one"
    if again:
        sent += a.send(0, [frame])
    while a.waiting(0) > (len(frame) if again else 0):
        turn(0)
    parked = sum(row["waiting_frames"] for row in switch.left() if row["port"] == "a")
    assert parked == again, "the word that closes a queue is no frame"
    sent += a.send(0, [frame])
    for _ in range(2000):
        turn(ALL)
    assert came == sent and not a.waiting(0) and not switch.pauses(now)
