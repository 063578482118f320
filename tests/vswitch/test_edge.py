"""No packet of an unmodified program is lost between the kernel and the switch; skipped where namespaces are not permitted."""

import contextlib
import os
import select
import socket
import struct
import sys
import threading
import time
import weakref
from collections import deque
from pathlib import Path
from types import SimpleNamespace

import pytest
from daemons import running
from frames import udp
from quiet import quiet
from test_lab import FORBIDDEN, PERMITTED, mac
from waiting import until

from penstock_net.errors import PenstockError, SpecError
from penstock_net.vswitch.attach import ingress_rates, socket_watch
from penstock_net.vswitch.attach.allowance import LAYOUT, Allowance
from penstock_net.vswitch.attach.allowance import UNLIMITED as NO_LIMIT
from penstock_net.vswitch.attach.devices import Device
from penstock_net.vswitch.attach.edge import LOOKS, NEVER, Edge, EdgeThreads, Rest
from penstock_net.vswitch.attach.ingress_rates import FIRST_RATE, LEAST_RATE, FlowRates, flow_of, not_read, pressed_flows
from penstock_net.vswitch.attach.lab import Namespace
from penstock_net.vswitch.attach.open import open_link
from penstock_net.vswitch.attach.socket_watch import FULL_S, MOST_FULL_S, REFRESH_S, SocketProbe
from penstock_net.vswitch.client.client import connect
from penstock_net.vswitch.client.plug import Plug
from penstock_net.vswitch.dataplane.driver import attach_device
from penstock_net.vswitch.dataplane.switch import Switch
from penstock_net.vswitch.linux.htb import REST, UNLIMITED, FiveTuple, Htb
from penstock_net.vswitch.linux.losses import dropped_at
from penstock_net.vswitch.memory.region import Region
from penstock_net.vswitch.ports.base import Clock

FORBIDDEN = FORBIDDEN + [f"{n}: {PERMITTED[n].detail}" for n in ("flow rates", "udp sockets") if not PERMITTED[n].permitted]
pytestmark = pytest.mark.skipif(bool(FORBIDDEN), reason="; ".join(FORBIDDEN))
HERE, THERE = "10.77.0.1", "10.77.0.2"
SLOW, FAST = 9001, 9002


@pytest.fixture
def left():
    with Namespace("left") as left, left.tap(f"{HERE}/24", headers=False, queue_frames=1000) as left.port:
        left.run("ip", "neighbour", "replace", THERE, "dev", "tap0", "lladdr", "02:00:00:00:00:09")
        yield left


def row(port=SLOW, source_port=7, pauses=0, waiting=0, rate=1_000_000, **others):
    return {
        "protocol": 17,
        "source": HERE,
        "source_port": source_port,
        "target": THERE,
        "target_port": port,
        "pauses": pauses,
        "waiting_bytes": waiting,
        "rate_bytes_per_s": rate,
        "bytes": waiting,
        "frames": 0,
        **others,
    }


def blocking_sender(namespace, source_port):
    sock = namespace.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((HERE, source_port))
    sock.setblocking(False)
    return sock


def blast(sock, most=2000, port=SLOW, size=1000):
    sent = 0
    try:
        while sent < most:
            sock.sendto(bytes(size), (THERE, port))
            sent += 1
    except BlockingIOError:
        pass
    return sent


# ---- Into the switch ----


def test_the_filter_takes_one_flow_and_no_other(left):
    flows = {7: (SLOW, 2), 8: (SLOW, 3)}
    with Htb("tap0", left) as htb, blocking_sender(left, 7) as x, blocking_sender(left, 8) as y, blocking_sender(left, 10) as z:
        for source_port, (port, minor) in flows.items():
            htb.set_class(minor, 20_000)
            htb.add_filter(minor, FiveTuple(17, HERE, source_port, THERE, port))
        assert blast(x) < 500, "its socket is full"
        before = htb.waiting()
        assert before[2][1] > 10 and before[3][1] == 0
        assert blast(y, port=FAST) == 2000 and blast(z) == 2000, "another port, another sender: they go on"
        assert htb.waiting()[3] == (0, 0, 0) and htb.waiting()[REST] == (0, 0, 0) and htb.outgoing().dropped == 0
        assert blast(y) < 500 and htb.waiting()[3][1] > 10
        with pytest.raises(OSError):
            htb.delete_class(2)  # a filter leads there
        for source_port, (port, minor) in flows.items():
            htb.delete_filter(minor, FiveTuple(17, HERE, source_port, THERE, port))
            htb.set_class(minor, UNLIMITED)
        until(lambda: not any(size for size, _, _ in htb.waiting().values()))
        assert blast(x) == 2000, "its socket is empty, and it has no class any longer"
        assert {minor: numbers for minor, numbers in htb.waiting().items() if any(numbers)} == {}
    assert "htb" not in left.run("tc", "qdisc", "show", "dev", "tap0")


def test_fragments_and_ipv6_have_filters_too(left):
    with Htb("tap0", left) as htb, blocking_sender(left, 7) as x:
        for minor, flow in (
            (2, FiveTuple(17, HERE, 0, THERE, 0)),
            (3, FiveTuple(17, HERE, 7, THERE, FAST)),
            (4, FiveTuple(6, "fd00::1", 7, "fd00::2", 80)),
        ):
            htb.set_class(minor, 2000)
            htb.add_filter(minor, flow)
        assert blast(x, size=4000) < 500 and htb.waiting()[2][1] > 10
        shown = left.run("tc", "filter", "show", "dev", "tap0", "parent", "1:")
        assert "00070050/ffffffff at 40" in shown and shown.index("flowid 1:3") < shown.index("flowid 1:2"), "ports go first"
        for minor, flow in ((2, FiveTuple(17, HERE, 0, THERE, 0)), (4, FiveTuple(6, "fd00::1", 7, "fd00::2", 80))):
            htb.delete_filter(minor, flow)
        assert left.run("tc", "filter", "show", "dev", "tap0", "parent", "1:").count("flowid") == 1


@pytest.fixture
def slowest(monkeypatch):
    """A class of a receiver that has stopped keeps what is in it for tens of seconds."""
    monkeypatch.setattr(ingress_rates, "LEAST_RATE", 4000)
    return 4000


def test_a_flow_gets_a_class_when_the_switch_pauses_it_and_loses_it_when_it_is_content(left, slowest, monkeypatch):
    with FlowRates("tap0", left, rest=3, goal="10KB", over="50KB") as rates:
        now = time.monotonic()
        with monkeypatch.context() as stopped:  # its rates are of one moment, however long the steps take
            stopped.setattr(ingress_rates.time, "monotonic", lambda: now)
            rates.step([row(), row(FAST)])
            assert not rates.held, "nobody is held back yet"
            rates.step([row(pauses=2, waiting=10_000), row(FAST)])
            ((flow, held),) = rates.held.items()
            assert flow.target_port == SLOW and held.rate == 1_000_000, "at the goal it is the receiver's rate"
            rates.step([row(pauses=2, waiting=0)])
            assert held.rate == 1_500_000
            rates.step([row(pauses=2, waiting=20_000)])
            assert held.rate == 500_000
            rates.step([row(pauses=2, waiting=5_000, behind_bytes=5_000)])
            assert held.rate == 1_000_000, "what waits elsewhere in the switch counts, too"
            changes = rates.changes
            rates.step([row(pauses=3, waiting=10_100)])
            assert rates.changes == changes, "less than 2 % is no change"
            rates.step([row(pauses=4, rate=0, waiting=10_000)])
            assert held.rate == FIRST_RATE
            rates.step([row(pauses=4, rate=10, waiting=10_000)])
            assert held.rate == slowest
        with blocking_sender(left, 7) as sock:
            blast(sock)
            for _ in range(6):
                rates.step([row(pauses=4, rate=1000)])
            assert rates.held, "its sender wants more: it stays"
            assert rates.rows()[0]["waiting_bytes"] > 10_000 and rates.dropped == 0
            rates.step([])  # the switch has forgotten the flow
            until(lambda: rates.step([]) or not rates.held)
            assert rates.content
        assert not rates.held and rates.htb.outgoing().dropped == 0
        assert "flowid" not in left.run("tc", "filter", "show", "dev", "tap0", "parent", "1:")
        assert left.run("tc", "class", "show", "dev", "tap0").count("class htb") == 1


def test_what_waits_in_a_class_is_not_lost_when_the_edge_ends(left, slowest):
    with FlowRates("tap0", left, goal="10KB") as rates, blocking_sender(left, 7) as sock:
        left.port.swallow(1000)
        rates.step([row(pauses=1, waiting=20_000, rate=10)])
        sent = blast(sock)
        assert 10 < sent < 500 and left.port.swallow(1000) < sent - 10
    left.port.swallow(1000)
    assert left.port.counters["frames_in"] >= sent


@pytest.mark.parametrize("drain_s", [ingress_rates.DRAIN_S, 0])
def test_all_that_the_killed_sender_of_a_slow_flow_has_sent_comes_or_is_counted(left, slowest, monkeypatch, drain_s):
    """What waits in a class stays there when its socket is closed; what an edge that ends leaves there is lost with the class."""
    monkeypatch.setattr(ingress_rates, "DRAIN_S", drain_s)
    quiet(left, "tap0")
    with FlowRates("tap0", left, goal="10KB") as rates:
        left.port.swallow(1000)
        rates.step([row(pauses=1, waiting=20_000, rate=10)])
        with blocking_sender(left, 7) as sock:
            sent = blast(sock)
    got = left.port.swallow(1000)
    assert got + rates.left == sent > 10 and (rates.left > 0) == (drain_s == 0)
    assert rates.dropped == 0


def test_when_classes_run_out_nobody_else_waits(left):
    """Those without a class are held by the bounds of the switch."""
    with FlowRates("tap0", left, classes=2, goal="10KB") as rates, blocking_sender(left, 99) as sock:
        rates.step([row(source_port=i, pauses=1, waiting=30_000 + i) for i in range(1, 6)])
        assert {flow.source_port for flow in rates.held} == {5, 4}, "those with most waiting come first"
        assert rates.crowded == 3 and rates.rest_rate == UNLIMITED
        assert blast(sock, 500) == 500
        rates.step([])
        assert rates.crowded == 0


@pytest.mark.parametrize("frame", [1500, 56_042])
def test_a_receiver_that_has_stopped_gets_less_the_longer_it_lasts(left, monkeypatch, frame):
    """What passes meanwhile stays in the switch: however long it is, its sum is small; and it is free soon after."""
    now = 1000.0
    monkeypatch.setattr(ingress_rates.time, "monotonic", lambda: now)
    with FlowRates("tap0", left, goal="10KB") as rates:
        holds = 224_168 // frame * frame
        stuck = row(pauses=1, waiting=holds, rate=0, frames=holds // frame)
        rates.step([stuck])
        ((_, held),) = rates.held.items()
        first, rate = held.rate, []
        while now < 1000 + 86_400:
            few = holds < 1000 * 1500
            holds += held.rate * (after := 0.02 if few else max(0.02, (now - 1000) / 100))
            now += after
            rates.step([{**stuck, "bytes": holds, "waiting_bytes": holds, "frames": holds / frame}])
            if now > 1000.12:
                rate.append(held.rate)
                if holds < 1000 * 1500:
                    assert frame / held.rate < 0.11, "the class is free in 0.1 s"
                assert frame / held.rate < max(0.9, (now - 1000) / 8 * 1.1), "or in an eighth of the time"
        assert first == LEAST_RATE and frame // 60 <= rate[-1] < 1.03 * frame / 60 and rate == sorted(rate, reverse=True)
        assert holds < 1000 * 1500 + 1600 * frame, "in a day: a frame a minute, and a share of the buffers before"
        rates.step([{**stuck, "bytes": 300_000, "rate": 0}])
        assert held.rate == LEAST_RATE, "it has taken something"


def test_an_edge_that_is_late_lets_no_more_pass_than_a_flow_may_hold(left, monkeypatch):
    """The switch knows a receiver's rate from its bursts: 30 MB/s, of one that takes 7.5 on average.

    A class had that rate while an edge was late by 0.12 s, and 3.4 MB came in; at another time more than a flow's share.
    """
    now, size, share = 1000.0, 1052, (8192 - 1024) // 2
    monkeypatch.setattr(ingress_rates.time, "monotonic", lambda: now)

    def run(rates, seconds, average):
        """Steps with a receiver that takes all that comes, up to this on average (bytes per second)."""
        nonlocal now, taken
        for _ in range(round(seconds / 0.02)):
            ((_, held),) = rates.held.items()
            now += 0.02
            taken += int(0.02 * min(average, held.rate))
            rates.step([row(pauses=1, rate=30_000_000 if average < 30_000_000 else average, bytes=taken, frames=taken // size)])
            yield held.rate

    with FlowRates("tap0", left, rest=1000) as rates:
        taken = 1000 * size
        rates.step([row(pauses=1, rate=30_000_000, waiting=100_000, bytes=taken, frames=1000)])
        slow = list(run(rates, 2, 7_500_000))
        assert 0.2 * max(slow[5:]) < share * size and min(slow[5:]) > 1.2 * 7_500_000
        fast = list(run(rates, 2, 200_000_000))
        assert fast[-1] > 200_000_000, "a receiver that has become faster gets more"


@pytest.mark.parametrize(
    "unread, length, before, segments",
    [(3000, 60, 10**6, 1), (3000, 1042, 10**7, 1), (3000, 200, 10**6, 1), (500, 65_000, 10**6, 45), (0, 65_000, 10**6, 45)],
)
def test_what_stands_in_the_ring_is_known_however_much_was_read_before(unread, length, before, segments):
    """Of datagrams 4 % of all that was read were taken for headers, and not seen to stand there: 4000 frames after a second."""
    size = unread * length + (unread + before) * (segments - 1) * 66
    found = not_read(size, unread + (unread + before) * (segments - 1), length)
    assert found == unread if segments == 1 else found <= unread


def test_a_flow_that_waits_in_front_of_the_switch_is_reported_though_it_was_never_paused():
    """Its transmit queue was another flow's before, which was paced: so it is from its first frame on, and has no pause.

    All buffers of the port were held by such a flow, without a class: all others waited for it.
    """
    clock = Clock()
    outside, inside = open_link(rate="1Gbps", delay="1us", headers=False, clock=clock, memory="16MiB")
    switch, app, table = Switch(), Region.create(buffers=4096, rings=1024), Allowance()
    device = Device(inside)
    device.table = table
    attach_device(switch, "dev", device, [HERE])
    switch.attach("app", Region.attach(app.fd, app.shape), [THERE])

    def run(source_port, sent, ms):
        """`sent` frames each 50 us, of which the receiver takes one each 200 us, and more if none are sent."""
        for step in range(20 * ms):
            clock.ns += 50_000
            for _ in range(sent):
                outside.send(udp(HERE, THERE, source_port, SLOW, bytes(958)))
            app.receive(int(step % 4 == 0) if sent else 20)
            for _ in range(4):
                switch.turn_at(clock.ns)

    assert not select.select([table.alarm], [], [], 0)[0] and not switch.held_flows("dev")
    run(1, 2, 20)
    ((flow),) = switch.held_flows("dev")
    assert flow["source_port"] == 1 and flow["pauses"] and table.pressed[0] == 1
    assert select.select([table.alarm], [], [], 0)[0], "the edge is woken"
    run(1, 0, 400)
    assert not switch.flows()
    run(2, 2, 10)
    (flow,) = switch.held_flows("dev")
    assert flow["source_port"] == 2 and flow["pauses"] == 0 and flow["behind_bytes"] > 100_000
    assert table.pressed[0] == 2, "once for each of them"
    assert pressed_flows({flow_of(flow): flow}, {}, 10**9) == {flow_of(flow)}
    run(2, 0, 400)
    assert not switch.held_flows("dev")
    switch.close()
    table.close()


def test_mistakes_are_named(left):
    with pytest.raises(SpecError, match="does not exist in this namespace"):
        FlowRates("tap7", left)
    with pytest.raises(SpecError, match="less than over"):
        FlowRates("tap0", left, goal="1MB")
    with pytest.raises(SpecError, match="classes"):
        FlowRates("tap0", left, classes=0)
    with pytest.raises(SpecError, match="period"):
        Edge("tap0", left, period="0ms")


# ---- Out of the switch ----


def empty(sock):
    """Datagrams that were in a socket."""
    sock.setblocking(False)
    count = 0
    try:
        while sock.recv(2000):
            count += 1
    except BlockingIOError:
        return count


def raised(table):
    """Whether the alarm is raised; answered, as an edge does, if it is."""
    if not select.select([table.alarm], [], [], 0)[0]:
        return False
    os.eventfd_read(table.alarm)
    return True


@pytest.fixture
def probe(left):
    probe = SocketProbe(left)
    yield probe
    probe.close()


def test_a_look_sees_the_room_of_a_port_and_counts_what_was_lost(left):
    left.run("ip", "address", "add", "10.77.0.3/24", "dev", "tap0")
    slow, other = (left.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    v6 = left.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    with slow, other, v6, left.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        slow.bind((HERE, SLOW))
        other.bind(("0.0.0.0", FAST))
        v6.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        v6.bind(("::", FAST))
        v6.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 5000)
        probe, table = SocketProbe(left), None
        rooms, table = probe.rooms, probe.table
        whole = slow.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        assert rooms.room(SLOW) == whole and rooms.room(FAST) == 10_000 and rooms.room(9003) is None
        for sent in range(1, 30):
            sender.sendto(bytes(1000), (HERE, SLOW))
            assert probe.look() is None, "these frames are no affair of the switch"
            assert whole - 4000 * sent < rooms.room(SLOW) <= whole - 1000 * sent
            assert table.allowed[SLOW] == rooms.room(SLOW) and rooms.lost == 0
        for _ in range(1000):
            sender.sendto(bytes(1000), (HERE, SLOW))
        probe.look()
        assert rooms.full == rooms.episodes == 1 and rooms.lost == 1029 - empty(slow) > 0
        lost = rooms.lost
        probe.look()
        assert rooms.full == 0 and rooms.room(SLOW) == whole and rooms.lost == lost
        with left.socket(socket.AF_INET, socket.SOCK_DGRAM) as third:
            third.bind(("10.77.0.3", SLOW))
            for _ in range(1000):
                sender.sendto(bytes(1000), ("10.77.0.3", SLOW))
            probe.look()
            assert rooms.lost == lost + 1000 - empty(third) > lost
        slow.close()
        lost = rooms.lost
        probe.look()
        assert rooms.room(SLOW) is None and rooms.lost == lost, "what was seen of sockets that are gone"
        probe.close()
        assert set(table.allowed) == set(table.report_at) == {NO_LIMIT}


def test_the_losses_of_many_sockets_that_come_and_go(left, probe):
    with left.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        found = []
        for turn in range(6):
            for _ in range(40):
                found.append(left.socket(socket.AF_INET, socket.SOCK_DGRAM))
                found[-1].bind(("127.0.0.1", 0))
                found[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2000)
                for _ in range(20):
                    sender.sendto(bytes(1000), found[-1].getsockname())
            probe.look()
            for sock in found[:: turn + 2]:
                found.remove(sock)
                sock.close()
        assert 6 * 40 * 14 < probe.rooms.lost < 6 * 40 * 20
        lost = probe.rooms.lost
        probe.look()
        assert probe.rooms.lost == lost
        for sock in found:
            sock.close()


def test_the_first_frames_to_a_port_pass_at_once_and_ask_for_a_look(left, probe):
    table, rooms = probe.table, probe.rooms
    assert not raised(table)
    assert probe.takes(SLOW, 100) and raised(table), "nobody has looked at its sockets"
    assert all(probe.takes(SLOW, 100) for _ in range(30)) and not raised(table), "once is enough"
    assert not all(probe.takes(SLOW, 1000) for _ in range(100)), "but not so many that a common buffer overflows"
    assert rooms.answer() and probe.look() == REFRESH_S
    assert all(probe.takes(SLOW, 1000) for _ in range(100)) and raised(table), "nobody is there to miss them"
    assert rooms.answer()
    with left.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((HERE, SLOW))
        assert probe.look() == REFRESH_S
        sent = 0
        while probe.takes(SLOW, 1000):
            sent += 1
        assert sent == rooms.room(SLOW) // 3024 and raised(table)
        assert rooms.answer() and probe.look() == REFRESH_S, "it was read"
        assert probe.takes(SLOW, 1000) and not raised(table), "most of its room is left"
        assert probe.look() == REFRESH_S
        assert probe.look() is None, "nothing was sent since"
        assert not rooms.answer()
        assert probe.takes(SLOW, 100) and raised(table) and rooms.answer(), "so the next frame asks for a look"
    assert probe.look() == REFRESH_S
    assert table.allowed[SLOW] == NO_LIMIT
    assert probe.look() is None
    assert table.allowed[SLOW] == table.spent[SLOW] + LAYOUT["PROVISIONAL"], "there may be a socket by then"


def test_more_reports_than_are_kept(left, probe):
    assert all(probe.takes(port, 100) for port in range(1, 2 * LAYOUT["REPORTS_KEPT"]))
    assert probe.rooms.answer() and probe.look() == REFRESH_S
    assert {int(probe.table.allowed[port]) for port in range(1, 2 * LAYOUT["REPORTS_KEPT"])} == {NO_LIMIT}


def test_a_full_socket_is_looked_at_often_while_it_is_read_and_seldom_if_not(left, probe, monkeypatch):
    now = 1000.0
    monkeypatch.setattr(socket_watch.time, "monotonic", lambda: now)
    with (
        left.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock,
        left.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        sock.bind((HERE, SLOW))

        def fill():
            while probe.takes(SLOW, 1042):
                sender.sendto(bytes(1000), (HERE, SLOW))
            probe.look()
            return probe.table.allowed[SLOW] - probe.table.spent[SLOW] < 3108

        while not fill():
            pass
        pauses = []
        while now < 1002:
            assert not probe.takes(SLOW, 1042), "a frame waits"
            pauses.append(probe.look())
            now += pauses[-1]
        assert pauses[0] == FULL_S and pauses[-1] == MOST_FULL_S and sorted(pauses) == pauses and len(pauses) < 150
        for _ in range(30):  # the kernel returns a quarter of a buffer at a time
            sock.recv(2000)
        assert not probe.takes(SLOW, 100_000)
        assert probe.look() == FULL_S, "it was read"
        assert probe.look() is None, "no frame waits"
        assert not probe.takes(SLOW, 100_000) and raised(probe.table), "one does"
        assert probe.rooms.lost == 0


@pytest.mark.parametrize("rate, most", [(100, 0.8), (250, 0.3), (1000, 0.12)])
def test_looks_at_a_socket_that_is_read_slowly_are_few_and_it_always_has_datagrams(left, probe, monkeypatch, rate, most):
    """There was one each ms, more than one for each datagram, though the kernel says only of a quarter of it that it was read."""
    now, looks, frames = 1000.0, 0, 400
    monkeypatch.setattr(socket_watch.time, "monotonic", lambda: now)
    with (
        left.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock,
        left.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        sock.bind((HERE, SLOW))
        sock.setblocking(False)

        def look():
            """As the thread does, and what the worker does then, whose frames never end."""
            nonlocal looks
            while True:
                looks += 1
                after = probe.look()
                while probe.takes(SLOW, 1042):
                    sender.sendto(bytes(1000), (HERE, SLOW))
                if not raised(probe.table) or not probe.rooms.answer():
                    return now + after

        look_at = look()
        for _ in range(200):  # until the socket is full
            now, look_at = look_at, look()
        looks, read_at = 0, now
        for _ in range(frames):
            read_at += 1 / rate
            while look_at < read_at:
                now = look_at
                look_at = look()
            now = read_at
            assert len(sock.recv(2000)) == 1000, "it waits for none"
        assert looks <= most * frames
        for fast in (now, now + 0.05, now + 2):  # it is read fast, at once or after it has stopped
            while look_at < fast:
                now = look_at
                look_at = look()
            now = fast
            assert empty(sock) > 20
            now = look_at
            look_at = look()
            assert now - fast <= MOST_FULL_S and len(sock.recv(2000)) == 1000
        assert probe.rooms.lost == 0


def test_a_look_wakes_the_worker_if_it_has_found_room_for_a_frame_that_waits(left, probe):
    alarm = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def woken():
        with contextlib.suppress(BlockingIOError):
            return os.eventfd_read(alarm)
        return 0

    with (
        left.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock,
        left.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        sock.bind((HERE, SLOW))
        probe.look()
        probe.rooms.wake(alarm)
        assert probe.table.words[LAYOUT["WAKES"]] == 1
        while probe.table.allowed[SLOW] - probe.table.spent[SLOW] >= 3108:
            while probe.takes(SLOW, 1042):
                sender.sendto(bytes(1000), (HERE, SLOW))
            probe.look()
        woken()
        assert not probe.takes(SLOW, 1042)
        probe.look()
        assert not woken(), "there is no more room than before"
        for _ in range(60):
            sock.recv(2000)
        probe.table.words[LAYOUT["HELD"]] = 1
        probe.look()
        assert woken() == 1
        probe.table.words[LAYOUT["HELD"]] = 0
        for _ in range(5):
            sock.recv(2000)
        probe.look()
        assert not woken(), "no frame waits"
    probe.rooms.wake(-1)
    os.close(alarm)


def test_the_end_of_an_edge_wakes_the_worker_for_what_waits(left):
    """Nobody would tell it that there are no limits any longer, and it tries again by itself only now and then."""
    alarm = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    edge = Edge("tap0", left)
    edge.open()
    edge.wake_worker_by(alarm)
    looked = int(edge.table.looked[0])
    edge.end()
    assert os.eventfd_read(alarm) == 1 and edge.table.looked[0] == looked + 1 and edge.table.allowed[SLOW] == NO_LIMIT
    edge.__exit__()
    os.close(alarm)


def frame_to(namespace, port, size):
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 28 + size, 0, 0, 64, 17, 0, socket.inet_aton(THERE), socket.inet_aton(HERE))
    total = sum(struct.unpack("!10H", head))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return (
        bytes.fromhex(mac(namespace).replace(":", ""))
        + b"\x02\0\0\0\0\x09\x08\0"
        + head[:10]
        + struct.pack("!H", 0xFFFF - total)
        + head[12:]
        + struct.pack("!HHHH", 7, port, 8 + size, 0)
        + bytes(size)
    )


def test_what_is_sent_while_the_probe_looks_is_not_given_twice():
    """A driver in another thread uses all that it may, while the kernel is asked and when the limits are new."""
    with (
        Namespace("left") as left,
        left.tap(f"{HERE}/24", headers=False) as tap,
        left.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock,
    ):
        sock.bind((HERE, SLOW))
        probe, frame, over, sent = SocketProbe(left), frame_to(left, SLOW, 10), threading.Event(), [0]

        def send():
            while not over.is_set():
                while probe.takes(SLOW, len(frame)):
                    assert tap.send(frame)
                    sent[0] += 1

        thread = threading.Thread(target=send)
        thread.start()
        got = 0
        while got < 5000:
            probe.look()
            got += empty(sock)
        over.set()
        thread.join()
        probe.look()
        got += empty(sock)
        assert sent[0] == got and probe.rooms.lost == 0
        probe.close()


@pytest.mark.parametrize("size", [1, 100, 1000, 1472])
def test_who_asks_for_every_frame_loses_none_at_any_speed(size):
    with (
        Namespace("left") as left,
        left.tap(f"{HERE}/24", headers=False) as tap,
        left.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock,
    ):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 30_000)
        sock.bind((HERE, SLOW))
        sock.setblocking(False)
        probe, frame = SocketProbe(left), frame_to(left, SLOW, size)
        arrived = sent = 0
        for _ in range(50):
            while probe.takes(SLOW, len(frame)):
                assert tap.send(frame)
                sent += 1
            probe.look()
            arrived += empty(sock)
            probe.look()
        assert sent == arrived > 400 and probe.rooms.lost == 0, "and room is used: several frames at a time"
        for _ in range(300):
            tap.send(frame)
        probe.look()
        assert probe.rooms.lost > 100, "without asking, they are lost"
        probe.close()


@pytest.mark.parametrize("size", [1472, 5000])
def test_a_frame_that_costs_more_than_a_socket_holds_arrives_when_it_is_empty(size):
    """The kernel takes one then, and such a frame would wait for ever."""
    with (
        Namespace("left") as left,
        left.tap(f"{HERE}/24", headers=False) as tap,
        left.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock,
    ):
        left.run("ip", "link", "set", "tap0", "mtu", "9000")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        sock.bind((HERE, SLOW))
        probe, frame = SocketProbe(left), frame_to(left, SLOW, size)
        for _ in range(20):
            while not probe.takes(SLOW, len(frame)):
                assert raised(probe.table) and probe.rooms.answer()
                probe.look()
            assert tap.send(frame) and not probe.takes(SLOW, len(frame)), "one"
            probe.look()
            assert not probe.takes(SLOW, len(frame)), "until it is empty again"
            assert empty(sock) == 1
            probe.look()
        assert probe.rooms.lost == 0
        probe.close()


def test_a_kernel_without_udp_diag(left, monkeypatch):
    def refuse(*_):
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(socket_watch, "SocketRooms", refuse)
    with pytest.raises(PenstockError, match="udp_diag"):
        SocketProbe(left)


# ---- The threads ----


def switches_of(name):
    """How often the threads of this process with that name have run."""
    found = 0
    for task in Path("/proc/self/task").iterdir():
        lines = dict(line.split(":", 1) for line in (task / "status").read_text().splitlines())
        if lines["Name"].strip() == name:
            found += int(lines["voluntary_ctxt_switches"]) + int(lines["nonvoluntary_ctxt_switches"])
    return found


def test_nobody_wakes_up_while_nothing_leaves_the_switch():
    """Ten edges, whatever else happens in their namespaces; then as often as there is something to see, and no more."""
    with contextlib.ExitStack() as stack:
        spaces = [stack.enter_context(Namespace(f"n{i}")) for i in range(10)]
        for space in spaces:
            stack.enter_context(space.tap(f"{HERE}/24", headers=False))
        edges = [stack.enter_context(Edge("tap0", space, list)) for space in spaces]
        sock, sender = (stack.enter_context(spaces[0].socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(2))
        sock.bind(("127.0.0.1", SLOW))
        until(lambda: all(edge.look_at == NEVER for edge in edges), "the first look was the last")
        before = [edge.sockets.looks for edge in edges]
        ran = switches_of("edge")
        for i in range(2000):
            sender.sendto(b"%d" % i, ("127.0.0.1", SLOW))
            assert sock.recv(10) == b"%d" % i
        assert [edge.sockets.looks for edge in edges] == before and not any(edge.steps or edge.wakes for edge in edges)
        if ran:  # where the kernel names threads as Python does
            assert switches_of("edge") == ran
        for _ in range(10):
            wakes = edges[0].wakes
            assert edges[0].takes(SLOW, 100)
            until(lambda wakes=wakes: edges[0].wakes > wakes and edges[0].look_at == NEVER)
        assert edges[0].sockets.looks <= before[0] + 30 and edges[0].steps == 0
        assert [edge.sockets.looks for edge in edges[1:]] == before[1:]


def test_a_flow_gets_its_class_in_the_first_step_after_the_alarm(left):
    rows, opened = [row(FAST), row(pauses=0, waiting=10_000, behind_bytes=200_000)], []

    def read():
        opened.append(edge.rates.opened)  # before a step
        return rows

    with (
        blocking_sender(left, 7),
        blocking_sender(left, 8),
        Edge("tap0", left, read, goal="10KB", over="50KB") as edge,
    ):
        until(lambda: edge.look_at == NEVER)
        assert edge.steps == 0
        edge.press()
        until(lambda: len(opened) > 1)
        assert opened[:2] == [0, 1] and [flow.target_port for flow in edge.rates.held] == [SLOW]
        rows[1:] = [row(pauses=0, waiting=0, behind_bytes=20_000, source_port=8)]
        until(lambda: not edge.rates.held)
        steps = edge.steps
        until(lambda: edge.steps > steps + 3, "another one may need a class, and the worker does not tell before it has drained")
        rows.clear()
        until(lambda: edge.rates.content and edge.step_at == NEVER)
        steps = edge.steps
        edge.press()
        until(lambda: edge.steps == steps + 1)
        until(lambda: edge.step_at == NEVER)
        assert edge.steps == steps + 1 and edge.wakes == 2, "there was nothing to do"


def test_an_update_of_rates_asks_for_the_ring_only_while_that_is_not_empty(left, monkeypatch):
    with FlowRates("tap0", left) as rates:
        passed, asked = rates.htb.passed, []
        monkeypatch.setattr(rates.htb, "passed", lambda: asked.append("passed") or passed())
        rates.step([row(waiting=200_000)], busy=False)
        assert not asked
        rates.step([row(waiting=200_000)], busy=True)
        assert asked
        left.run("ip", "link", "delete", "tap0")
        with pytest.raises(OSError):
            rates.step([], busy=False)


def test_a_thread_that_rests_answers_flows_that_hold_much_and_nobody_else(left):
    edge = Edge("tap0", left, lambda: [row(pauses=0, waiting=10_000, behind_bytes=200_000)], goal="10KB", over="50KB")
    with contextlib.ExitStack() as stack:
        stack.callback(edge.__exit__)
        stack.enter_context(blocking_sender(left, 7))
        edge.open()
        later = time.monotonic() + 1000
        resting, rested = rest(later), rest(0.0)
        assert edge.look_due(resting) == edge.step_due(resting) == NEVER
        edge.look_at = edge.step_at = 0.0
        looks = edge.sockets.looks
        edge.serve_sockets(False, resting)
        edge.serve_rates(resting)
        assert (edge.sockets.looks, edge.steps) == (looks, 0) and edge.look_due(resting) == edge.step_due(resting) == later
        edge.press()
        assert edge.step_due(resting) == 0.0
        edge.serve_sockets(True, resting)
        edge.serve_rates(resting)
        assert (edge.sockets.looks, edge.steps) == (looks, 1) and [flow.target_port for flow in edge.rates.held] == [SLOW]
        assert edge.step_due(resting) == later
        edge.serve_sockets(False, rested)
        assert edge.sockets.looks == looks + 1


def test_the_threads_of_the_edges_have_no_more_weight_than_others(left):
    """Linux schedules by session: a heavy thread takes the share of applications of its session on other processors."""
    before = threading.enumerate()
    with Edge("tap0", left, list) as edge:
        until(lambda: edge.look_at == NEVER)
        tasks = [task for task in threading.enumerate() if task.name.startswith("edge") and task not in before]
        assert len(tasks) == 2
        assert {os.getpriority(os.PRIO_PROCESS, task.native_id) for task in tasks} == {os.getpriority(os.PRIO_PROCESS, 0)}


class Quiet:
    """An edge that has nothing to do."""

    is_pressed, error = False, None

    def __init__(self):
        self.serial = 0
        self.table = SimpleNamespace(alarm=os.eventfd(0))

    def look_due(self, _):
        return NEVER

    step_due = look_due


def test_an_edge_that_goes_while_another_one_s_end_is_seen_to_ends_the_threads():
    """The thread has asked which edges there are, and has not yet gone to sleep."""
    first, second, before = Quiet(), Quiet(), set(threading.enumerate())

    class Interrupted(EdgeThreads):
        def _edges(self, epoll):
            found = super()._edges(epoll)
            if threading.current_thread().name == "edge" and found == {second.table.alarm: second}:
                self.leave(second)
            return found

    threads = Interrupted()
    threads.add(first)
    threads.add(second)
    threads.leave(first)
    until(lambda: not any(thread.name.startswith("edge") for thread in set(threading.enumerate()) - before), "the threads end")
    for edge in (first, second):
        os.close(edge.table.alarm)


class Counted(Quiet):
    """An edge that counts how often it is asked when it is due, and has a step to do after each alarm."""

    def __init__(self):
        super().__init__()
        self.asked = self.served = self.stepped = 0

    def look_due(self, _):
        self.asked += 1
        return NEVER

    def step_due(self, _):
        self.asked += 1
        return 0.0 if self.is_pressed else NEVER

    def serve_sockets(self, alarmed, _):
        assert alarmed and os.eventfd_read(self.table.alarm)
        self.is_pressed = True
        self.served += 1

    def serve_rates(self, _):
        self.is_pressed = False
        self.stepped += 1


def test_edges_without_anything_to_do_cost_nothing_when_another_one_is_alarmed():
    """Each was asked at each wake of the two threads, however many there were."""
    threads, edges = EdgeThreads(), [Counted() for _ in range(40)]
    for edge in edges:
        threads.add(edge)

    def alarm(edge):
        stepped = edge.stepped
        os.eventfd_write(edge.table.alarm, 1)
        until(lambda: edge.stepped > stepped)

    for edge in edges:  # both threads know them all by then
        alarm(edge)
    before = [edge.asked for edge in edges]
    for _ in range(30):
        alarm(edges[7])
    assert edges[7].served >= 31 and edges[7].asked > before[7]
    assert [edge.asked for edge in edges if edge is not edges[7]] == before[:7] + before[8:]
    for edge in edges:
        threads.leave(edge)
        os.close(edge.table.alarm)


def test_the_threads_keep_no_edge_that_has_left(uncollected):
    """They wait for one that has nothing to do: what they served last may be closed, with the memory of its table."""
    threads, stays, leaves = EdgeThreads(), Counted(), Counted()
    threads.add(stays, leaves)
    os.eventfd_write(leaves.table.alarm, 1)
    until(lambda edge=leaves: edge.stepped)
    threads.leave(leaves)
    os.close(leaves.table.alarm)
    seen = weakref.ref(leaves)
    del leaves
    until(lambda: seen() is None, limit=20)
    threads.leave(stays)
    os.close(stays.table.alarm)


def test_looks_do_not_wait_for_updates_of_rates(left, monkeypatch):
    """Which wait for the kernel's RTNL lock, for as long as another program holds it."""
    stands, goes_on = threading.Event(), threading.Event()

    def wait_for_the_lock(*_):
        stands.set()
        goes_on.wait()

    with Edge("tap0", left, list) as edge:
        monkeypatch.setattr(edge.rates, "step", wait_for_the_lock)
        edge.press()
        try:
            until(stands.is_set)
            for _ in range(3):
                looks = edge.sockets.looks
                until(lambda: edge.look_at == NEVER)
                assert edge.takes(SLOW, 100)
                until(lambda looks=looks: edge.sockets.looks > looks)
        finally:
            goes_on.set()


def rest(until_s):
    made = Rest(LOOKS)
    made.until = until_s
    made.begin(time.monotonic())
    return made


def test_the_thread_of_the_edges_leaves_processors_to_others(left, monkeypatch):
    """However much there is to do."""
    work, ends = 0.003, []

    def look():
        end = time.thread_time() + work
        while time.thread_time() < end:
            pass
        ends.append(time.monotonic())
        edge.look_at = ends[-1]

    with Edge("tap0", left, list) as edge:
        until(lambda: edge.look_at == NEVER)
        monkeypatch.setattr(edge, "look", look)
        assert edge.takes(SLOW, 100)  # the first frame to a port asks for a look
        until(lambda: len(ends) > 5)
    assert ends[5] - ends[0] >= 5 * work / LOOKS


# ---- Both, beside each other ----

BLASTER = """
import signal, socket, sys, time
over = []
signal.signal(signal.SIGTERM, lambda *_: over.append(True))
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
port, pause = int(sys.argv[1]), float(sys.argv[2])
sent = 0
while not over:
    s.sendto(sent.to_bytes(4, "big") + bytes(996), ("10.77.0.2", port))
    sent += 1
    if pause:
        time.sleep(pause)
print(sent, flush=True)
"""
SINK = """
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("0.0.0.0", int(sys.argv[1])))
print("ready", flush=True)
count, wrong = 0, 0
while True:
    data = s.recv(2000)
    if len(data) == 5:
        break
    wrong += int.from_bytes(data[:4], "big") != count
    count += 1
    if float(sys.argv[2]):
        time.sleep(float(sys.argv[2]))
print(count, wrong, flush=True)
"""


class SmallSwitch:
    """A switch from one TAP to another, with a queue for each flow, which an edge can pause."""

    def __init__(self, source, target, target_mac, over=50_000):
        self.source, self.target, self.over = source, target, over
        self.mac = bytes.fromhex(target_mac.replace(":", ""))
        self.flows, self.edges, self.longest, self.left, self.sent = {}, [], 0, {}, 0
        self.over_event = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def flow(self, frame):
        key = struct.unpack_from("!HH", frame, 34)
        if key not in self.flows:
            self.flows[key] = {
                "queue": deque(),
                "bytes": 0,
                "passed": 0,
                "at": time.monotonic(),
                "rate": 0,
                "pauses": 0,
                "taken": 0,
            }
        return self.flows[key]

    def rows(self):
        return [
            row(port, source_port, flow["pauses"], flow["bytes"], int(flow["rate"])) | {"bytes": flow["bytes"] + flow["taken"]}
            for (source_port, port), flow in list(self.flows.items())
        ]

    def run(self):
        while not self.over_event.is_set():
            moved = 0
            while moved < 200 and (frame := self.source.receive()) is not None:
                moved += 1
                if frame[12:14] == b"\x08\x00" and frame[23] == 17:
                    flow = self.flow(frame)
                    flow["queue"].append(self.mac + frame[6:])
                    flow["bytes"] += len(frame)
                    if flow["bytes"] > self.over and self.edges and not flow["pauses"]:
                        self.edges[0].press()
                    flow["pauses"] += flow["bytes"] > self.over
                    self.longest = max(self.longest, len(flow["queue"]))
            now = time.monotonic()
            for (_, port), flow in self.flows.items():
                queue = flow["queue"]
                for _ in range(20):
                    if not queue or (self.edges and not self.edges[1].takes(port, len(queue[0]))):
                        break
                    assert self.target.send(queue[0])
                    self.sent += 1
                    flow["bytes"] -= len(queue[0])
                    flow["passed"] += len(queue[0])
                    flow["taken"] += len(queue.popleft())
                    moved += 1
                if now - flow["at"] > 0.02:
                    rate = flow["passed"] / (now - flow["at"])
                    if queue or rate > flow["rate"]:  # as R_recv of the switch
                        flow["rate"] += (rate - flow["rate"]) / 4 if flow["rate"] else rate
                    flow["passed"], flow["at"] = 0, now
            if not moved:
                time.sleep(0.0005)

    def empty(self):
        return not any(flow["queue"] for flow in self.flows.values())

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over_event.set()
        self.thread.join()


def datagrams(space):
    """UDP datagrams that have come into a namespace and were read, or dropped."""
    with space.enter():
        names, numbers = (x.split()[1:] for x in Path("/proc/thread-self/net/snmp").read_text().splitlines() if x[:4] == "Udp:")
    counts = dict(zip(names, map(int, numbers)))
    return counts["InDatagrams"] + counts["InErrors"] + counts["NoPorts"]


def blaster_beside_a_fast_flow(with_edge, seconds=1.2):
    """So long at least, and until the edges have had something to do, or without them more was lost than could be received."""
    with (
        Namespace("left") as left,
        Namespace("right") as right,
        left.tap(f"{HERE}/24", headers=False, queue_frames=1000) as a,
        right.tap(f"{THERE}/24", headers=False) as b,
        SmallSwitch(a, b, mac(right)) as switch,
    ):
        left.run("ip", "neighbour", "replace", THERE, "dev", "tap0", "lladdr", "02:00:00:00:00:09")
        probe = SocketProbe(right)
        edges = [Edge("tap0", left, switch.rows, over="50KB", goal="10KB"), Edge("tap0", right)] if with_edge else []
        for edge in edges:
            edge.__enter__()
        switch.edges = edges
        sinks = [right.start(sys.executable, "-c", SINK, str(port), pause) for port, pause in ((SLOW, "0.0005"), (FAST, "0"))]
        for sink in sinks:
            assert sink.stdout.readline() == "ready\n"
        senders = [left.start(sys.executable, "-c", BLASTER, str(port), pause) for port, pause in ((SLOW, "0"), (FAST, "0.0005"))]
        start = time.monotonic()

        def seen_enough():
            took = time.monotonic() - start
            if took < seconds or len(switch.flows) < 2:
                return False
            if with_edge:
                return edges[0].rates.opened and edges[1].sockets.rooms.episodes
            probe.look()
            return a.counters["kernel_lost"] + probe.rooms.lost > max(1000, 1.2 * took / 0.0005)

        until(seen_enough, pause=0.02)
        for sender in senders:
            sender.terminate()
        sent = [int(sender.stdout.readline()) for sender in senders]
        switch.left = {port: len(flow["queue"]) for (_, port), flow in switch.flows.items()}
        until(lambda: switch.empty() and a.counters["frames_in"] + a.counters["kernel_lost"] >= sum(sent))
        until(lambda: not edges or not edges[0].rates.rows())
        until(lambda: datagrams(right) >= switch.sent, "all that was sent to the sockets is read or lost")
        probe.look()
        counters = [edge.counters() for edge in edges]
        for edge in edges:
            assert edge.error is None
        with right.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            for port in (SLOW, FAST):
                last.sendto(bytes(5), ("127.0.0.1", port))
        got = [tuple(map(int, sink.stdout.readline().split())) for sink in sinks]
        lost = a.counters["kernel_lost"], probe.rooms.lost
        for edge in edges:
            edge.__exit__()
        probe.close()
        return sent, got, lost, counters, switch


def test_an_unmodified_blaster_loses_nothing_and_slows_nobody():
    sent, got, lost, counters, switch = blaster_beside_a_fast_flow(True)
    print("with edges:", sent, got, lost, counters, switch.longest, switch.left)
    assert switch.left[FAST] < sent[1] / 4, "the fast flow does not wait for the slow one"
    assert lost[1] == 0 and [g[0] for g in got] == sent and [g[1] for g in got] == [0, 0], "all of it, and in order"
    assert counters[0]["classes_opened"] >= 1 and counters[1]["waits"] >= 1
    assert counters[0]["tx_dropped"] == counters[0]["socket_lost"] == counters[1]["socket_lost"] == 0


def test_a_switch_that_does_not_read_loses_what_its_ring_has_no_room_for(left):
    before = dropped_at("tap0", left)
    sender = left.start(sys.executable, "-c", BLASTER, str(SLOW), "0")
    until(lambda: dropped_at("tap0", left) - before > 2000)
    sender.terminate()
    sent = int(sender.stdout.readline())
    assert sent > dropped_at("tap0", left) - before - 1000


def test_a_switch_that_reads_too_slowly_makes_all_senders_wait_and_lets_them_go_again(left):
    """No flow is paused: it is the switch itself that does not keep up, with less than a third of what is sent.

    The ring holds 4 s of it, so that no other load of the machine keeps the edge from seeing it fill.
    """
    with Edge("tap0", left, queue_frames=20_000) as edge:

        def read(most):
            """As the worker does: it says since when it never found nothing to read."""
            count = left.port.swallow(most)
            if count < most:
                edge.table.busy_since[0] = 0
            elif not edge.table.busy_since[0]:
                edge.table.busy_since[0] = time.monotonic_ns()
                edge.press()
            return count

        assert "htb" in left.run("tc", "qdisc", "show", "dev", "tap0")
        sender = left.start(sys.executable, "-c", BLASTER, str(SLOW), "0.0001")
        got = limited = 0
        while limited <= 10 or got < 200:
            assert sender.poll() is None and edge.error is None
            got += read(1)
            limited += edge.rates.rest_rate < UNLIMITED
            time.sleep(0.001)
        sender.terminate()
        end = time.monotonic() + 120
        while time.monotonic() < end and (sender.poll() is None or edge.rates.rest_rate < UNLIMITED or read(100)):
            got += read(1000)
            time.sleep(0.001)
        sent = int(sender.stdout.readline())
        assert edge.rates.rest_rate == UNLIMITED and edge.error is None and edge.rates.changes >= 1
        counters = edge.counters()
        print(sent, got, counters)
        assert counters["tx_dropped"] == counters["class_dropped"] == 0 and left.port.counters["frames_in"] >= sent
    assert "htb" not in left.run("tc", "qdisc", "show", "dev", "tap0")


def test_without_edges_the_same_blaster_loses_packets():
    sent, got, lost, _, switch = blaster_beside_a_fast_flow(False)
    print("without:", sent, got, lost, switch.longest)
    assert lost[0] + lost[1] > 1000 and got[0][0] < sent[0] / 2


def slow_native_receiver(tmp_path, with_edge):
    """A blaster behind a TAP, the switch, and an application that takes 4 frames every 2 ms until all has been seen."""
    spec = {"port": [{"name": "a", "addresses": [HERE]}, {"name": "b", "addresses": [THERE]}]}
    with (
        running(tmp_path / "switch.sock", spec) as daemon,
        Namespace("left") as left,
        left.enter(),
        Plug("a", path=daemon.path, guard=with_edge) as plug,
        connect("b", daemon.path) as b,
    ):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as first:  # what waits for an address goes beside what comes later
            first.sendto(b"", (THERE, SLOW + 1))
        until(lambda: any(frame[23] == 17 for _, frame in b.receive(64)), "the kernel has resolved its address")
        sender = left.start(sys.executable, "-c", BLASTER, str(SLOW), "0")
        got, held, edge = [], [[]], plug.device.edge

        def take(most):
            frames = [frame for _, frame in b.receive(most)]
            got.extend(int.from_bytes(frame[42:46], "big") for frame in frames if frame[23] == 17)

        def seen_enough():
            take(4)
            if len(got) > 500 and not held[0]:
                held[:] = daemon.switch.call(lambda: [daemon.switch.held_flows(name) for name in ("a", "b", "c")])
            return held[0] and (edge.rates.opened if edge else lost() > 1000)

        def row_of_port():
            return next(each for each in daemon.switch.call(daemon.switch.ports) if each["port"] == "a")

        def lost():
            """In the kernel, or in the switch, which bounds what a flow may hold."""
            return plug.losses()["device"] + sum(row_of_port()["drops"].values())

        until(seen_enough)
        sender.terminate()
        until(lambda: take(64) or sender.poll() is not None)
        sent = int(sender.stdout.readline())
        if edge:
            until(lambda: take(64) or len(got) + lost() >= sent)
            assert edge.error is None
        (row,), back, unknown = held
        assert row["from"] == "a" and row["pauses"] and row["target_port"] == SLOW and back == unknown == []
        return sent, got, lost(), edge.counters() if edge else {}, row_of_port()


@pytest.mark.parametrize("with_edge", [True, False])
def test_a_blaster_and_a_slow_application_of_the_switch(tmp_path, with_edge):
    sent, got, lost, counters, port = slow_native_receiver(tmp_path, with_edge)
    print(sent, len(got), lost, counters, port["drops"], port["pauses"])
    assert port["pauses"]
    if with_edge:  # what comes before a late edge has opened the class may be more than a flow may hold, and is counted
        assert port["drops"].keys() <= {"flow_over"} and len(got) + lost == sent and got == sorted(set(got))
        assert counters["classes_opened"] >= 1 and counters["tx_dropped"] == 0
    else:
        assert lost > 1000 and len(got) < sent


def test_an_edge_ends_when_the_interface_has_gone_and_lets_everything_pass(left):
    with (
        left.socket(socket.AF_INET, socket.SOCK_DGRAM) as slow,
        Namespace("other") as other,
        other.tap(f"{HERE}/24", headers=False),
        Edge("tap0", left, list) as edge,
        Edge("tap0", other, list) as second,
    ):
        slow.bind((HERE, SLOW))
        while edge.takes(SLOW, 1000):
            pass
        left.run("ip", "link", "delete", "tap0")
        edge.press()
        until(lambda: edge.error)
        assert isinstance(edge.error, OSError), "it says why it does nothing any longer"
        assert edge.takes(SLOW, 10**6)
        second.press()
        until(lambda: second.steps, "the others go on")
        assert second.error is None
