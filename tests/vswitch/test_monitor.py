"""What the kernel reports of interfaces, what wakes the switch and what does not; the law that all frames are accounted for."""

import errno
import random
import select
import socket
import struct

import pytest
from frames import udp
from hypothesis import given
from hypothesis import strategies as st
from proven import accounted
from test_lab import FORBIDDEN
from test_switch import switch_of

from penstock_net.vswitch.attach.lab import Namespace
from penstock_net.vswitch.linux import monitor, netlink, netns
from penstock_net.vswitch.linux.htb import FiveTuple, Htb
from penstock_net.vswitch.linux.monitor import Change, Link, Monitor
from penstock_net.vswitch.support.balance import balance, unaccounted

A, B = "10.0.0.1", "10.0.0.2"
real = pytest.mark.skipif(bool(FORBIDDEN), reason="; ".join(FORBIDDEN))


@pytest.fixture
def space():
    with Namespace("watched") as found:
        yield found


@real
def test_the_state_of_an_interface(space):
    watched = Monitor(space)
    try:
        assert watched.named("sw0") is None and watched.numbered(77) is None
        with space.tap("10.5.0.1/24", name="sw0", mtu=1400) as port:
            space.run("ip", "address", "add", "fd05::1/64", "dev", "sw0", "nodad")
            space.run("ip", "link", "set", "sw0", "address", "02:00:00:00:00:07")
            link = watched.named("sw0")
            assert link == watched.numbered(link.number) == Link(link.number, "sw0", True, bytes([2, 0, 0, 0, 0, 7]), 1400, 0)
            assert {"10.5.0.1", "fd05::1"} <= watched.addresses(link.number)
            assert watched.root_qdisc(link.number)[1] == 0
            watched.changes()
            watched.take_down(link.number)
            assert watched.numbered(link.number).up is False
            changes = watched.changes()
            assert changes and all(change.number == link.number for change in changes)
            assert not any(change.link.up for change in changes if change.link)
            port.close()
        assert watched.changes()[-1].deleted and watched.named("sw0") is None
    finally:
        watched.close()


@real
def test_an_edge_that_changes_its_classes_wakes_nobody(space):
    """It does so hundreds of times a second; another program's queueing discipline does wake."""
    with space.tap("10.5.0.1/24", name="sw0"):
        watched = Monitor(space)
        try:
            with Htb("sw0", space) as htb:
                watched.changes()
                htb.set_class(2, 1_000_000)
                htb.add_filter(2, FiveTuple(17, A, 1000, B, 2000))
                htb.set_room(2, 500)
                for rate in range(1, 50):
                    htb.set_class(2, rate * 100_000)
                    htb.passed()
                    htb.waiting()
                assert watched.changes() == []
                assert watched.root_qdisc(htb.index) == ("htb", monitor.OWN_QDISC)
                space.run("tc", "qdisc", "replace", "dev", "sw0", "root", "pfifo")
                assert Change(htb.index, None, False) in watched.changes()
                assert watched.root_qdisc(htb.index)[0] == "pfifo"
        finally:
            watched.close()


@real
def test_a_mount_is_an_event(space, tmp_path):
    mounts, epoll = monitor.Mounts(), select.epoll()
    epoll.register(mounts, select.EPOLLPRI)
    place = tmp_path / "space"
    place.write_text("")
    epoll.poll(0)  # what was mounted elsewhere before
    space.run("mount", "--bind", "/proc/self/ns/net", str(place))
    try:
        assert epoll.poll(60)
        assert netns.identity(str(place)) == space.identity
    finally:
        space.run("umount", str(place))
    assert epoll.poll(60) and netns.identity(str(place)) != space.identity
    place.unlink()
    assert netns.identity(str(place)) is None
    epoll.close()
    mounts.close()


class Messages:
    """In place of a netlink socket."""

    def __init__(self, *data):
        self.data = list(data)

    def recv(self, size):
        if not self.data:
            raise BlockingIOError
        return self.data.pop(0)


@given(st.lists(st.binary(max_size=200), max_size=4), st.integers(0, 120), st.integers(0, 300))
def test_messages_may_be_anything(contents, kind, length):
    """A kernel of another version, a message that was cut off: nothing breaks, and the loop ends."""
    watched = Monitor.__new__(Monitor)
    watched.events = Messages(*(struct.pack("=IHHII", length, kind, 0, 0, 0) + content for content in contents))
    assert all(isinstance(change, Change) for change in watched.changes() or ())


# ---- The law ----


def test_every_frame_of_a_switch_is_accounted_for():
    """Of applications that send to one another and nowhere, read or not, and come and go."""
    switch, a, b = switch_of(A, B, mode="lossy", th_goal="1KB", th_over="2KB", th_net="4KB")
    rng, sent, read = random.Random(5), 0, 0
    for _ in range(200):
        target = rng.choice((B, B, "10.9.9.9"))
        sent += a.send(rng.randrange(8), [udp(A, target, payload=bytes(rng.randrange(900)))] * rng.randrange(5))
        switch.turns(rng.randrange(3))
        read += len(b.receive(rng.randrange(3)))
        found = balance(switch)
        accounted(found)
        assert found["in"] == sent and found["out"] == read
        missing = sum(found["lost"].values()) + sum(found["refused"].values())
        assert sent == read + found["parked"] + missing
    assert found["lost"] and found["refused"] and found["parked"]


DEVICE = {
    **dict.fromkeys(("malformed", "not_carried", "wrong_vlan", "wrong_vlan_out", "answered"), 0),
    **dict.fromkeys(("station_spoofed", "same_port", "to_unknown"), 0),
    **dict.fromkeys(("flooded", "errors_out", "waiting_out", "copies_waiting_out", "too_long", "further_in", "further_out"), 0),
    **{"kind": "tap", "frames_in": 7, "taken_in": 5, "of_the_link": 2, "taken_out": 5, "frames_out": 3},
    **{"evicted_out": 1, "queued_when_gone": 0, "device_gone": 1},
}
ROW = {"port": "a", "received_frames": 4, "sent_frames": 6, "drops": {"no_route": 1}, "waiting_frames": 0, "not_taken_frames": 1}


@pytest.mark.parametrize(
    "key, place",
    [
        ("frames_in", "a: as they came in"),
        ("taken_in", "a: in the queues of its device"),
        ("taken_out", "a: in its receive queues"),
        ("frames_out", "as they went out"),
        ("device_gone", "as they went out"),
        ("wrong_vlan", "a: as they came in"),
        ("wrong_vlan_out", "as they went out"),
        ("received_frames", "between ports"),
        ("further_in", "a: as they came in"),
        ("further_out", "as they went out"),
    ],
)
def test_a_frame_that_vanishes_is_found(key, place):
    other = {**ROW, "port": "b", "received_frames": 2, "sent_frames": 0, "not_taken_frames": 0}
    assert unaccounted([{**ROW, "device": DEVICE}, other]) == {}
    row = {**ROW, "device": {**DEVICE, **({key: DEVICE[key] + 1} if key in DEVICE else {})}}
    if key in ROW:
        row[key] += 1
    assert place in unaccounted([row, other])


@pytest.mark.parametrize(("flags", "said"), [(0, "Device or resource busy"), (netlink.HAS_REASON, "later")])
def test_a_list_that_the_kernel_breaks_off_is_an_error(monkeypatch, flags, said):
    """Its last message says so; what had come before was taken for all that there is."""

    def message(kind, content, flags=0):
        return struct.pack("=IHHII", 16 + len(content), kind, flags, 1, 0) + content

    why = netlink.attribute(netlink.REASON, b"later\0")
    end = message(netlink.DONE, struct.pack("=i", -errno.EBUSY) + why, flags)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs, netlink.Netlink() as route:
        monkeypatch.setattr(route, "socket", ours)
        theirs.send(message(netlink.NEW_LINK, netlink.link(1)) + end)
        with pytest.raises(OSError, match=said) as error:
            route.ask(netlink.GET_LINK, netlink.link(0), netlink.DUMP)
        assert error.value.errno == errno.EBUSY
        monkeypatch.undo()
