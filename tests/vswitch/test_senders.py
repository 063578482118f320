"""A sender with several peers is not made to wait for one of them: whose sockets wait, and what becomes of what waits."""

import contextlib
import socket

import pytest
from drawn import examples
from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from quiet import quiet
from test_bounds import Rig
from test_edge import FORBIDDEN, HERE, SLOW, THERE, blast, blocking_sender, row
from waiting import until

from penstock_net.vswitch.attach import ingress_rates
from penstock_net.vswitch.attach.allowance import LAYOUT, Allowance
from penstock_net.vswitch.attach.ingress_rates import FlowRates
from penstock_net.vswitch.attach.lab import Namespace
from penstock_net.vswitch.attach.senders import Sender, Senders
from penstock_net.vswitch.linux.htb import REST, FiveTuple

needs_root = pytest.mark.skipif(bool(FORBIDDEN), reason="; ".join(FORBIDDEN))
UDP, V6 = socket.IPPROTO_UDP, "fd77::1"


@pytest.fixture
def left():
    with Namespace("left") as left, left.tap(f"{HERE}/24", headers=False, queue_frames=1000) as left.port:
        left.run("ip", "neighbour", "replace", THERE, "dev", "tap0", "lladdr", "02:00:00:00:00:09")
        left.run("ip", "address", "add", f"{V6}/64", "dev", "tap0", "nodad")
        yield left


@pytest.fixture
def senders(left):
    with left.enter():
        index = socket.if_nametoindex("tap0")
    with contextlib.closing(Allowance()) as table, contextlib.closing(Senders(index, left, table)) as senders:
        yield senders


def bound(space, port, address=HERE, **options):
    sock = space.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
    if options.get("group"):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    if options.get("device"):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, options["device"].encode())
    sock.bind((address, port))
    return sock


def to(port=SLOW, source_port=7, source=HERE, target=THERE):
    return FiveTuple(UDP, source, source_port, target, port)


# ---- Whose socket it is ----


@needs_root
@pytest.mark.parametrize("address", [HERE, "0.0.0.0", "::", V6])
def test_a_socket_may_wait_if_it_is_connected_or_has_one_peer(left, senders, address):
    ends = {"source": V6, "target": "fd77::2"} if address == V6 else {}
    other = "127.0.0.1" if address in ("0.0.0.0", "::") else V6 if address == V6 else HERE
    with bound(left, 7, address) as sock, bound(left, 8, "::" if ":" in other else other) as third:
        assert senders.of(to(**ends)) is Sender.ALONE and senders.of(to(source_port=9, **ends)) is Sender.UNKNOWN
        third.sendto(b"who waits for an answer", (other, 7))
        until(lambda: senders.of(to(**ends)) is Sender.SHARED, "it is kept from reading that")
        sock.recv(100)
        assert senders.of(to(**ends)) is Sender.SHARED, "for a while"
        senders.table.several[7] -= LAYOUT["SEVERAL_SECONDS"] + 1
        assert senders.of(to(**ends)) is Sender.ALONE


@needs_root
def test_a_connected_socket_waits_for_its_peer_whatever_others_do_by_its_port(left, senders):
    """A server with a socket for each of its clients, beside one for new clients."""
    with bound(left, 7, group=True) as listener, bound(left, 7, group=True) as child:
        child.connect((THERE, SLOW))
        senders.table.note_several(7)
        assert senders.of(to(SLOW)) is Sender.CONNECTED and senders.of(to(SLOW + 1)) is Sender.SHARED
        child.close()
        assert senders.of(to(SLOW)) is Sender.SHARED
        listener.close()
        assert senders.of(to(SLOW, source_port=8)) is Sender.UNKNOWN


@needs_root
def test_what_is_no_datagram_of_a_socket_here_never_waits(left, senders):
    """Forwarded datagrams, fragments, and protocols whose sockets may have several peers."""
    with bound(left, 7, device="tap0"):
        assert senders.of(to()) is Sender.ALONE
        assert senders.of(to(source="10.77.0.9")) is Sender.UNKNOWN
        assert senders.of(FiveTuple(UDP, HERE, 0, THERE, 0)) is Sender.UNKNOWN
        assert senders.of(FiveTuple(socket.IPPROTO_ICMP, HERE, 0, THERE, 0)) is Sender.UNKNOWN


# ---- What waits, and what becomes of it ----


@needs_root
@pytest.mark.parametrize("rate, lost", [(1_000_000, False), (25, True)])
def test_what_waits_when_a_second_peer_appears_passes_or_is_counted(left, senders, monkeypatch, rate, lost):
    """Its class has had a rate at which the last frame takes a minute, so that it cannot be changed before; or a higher one."""
    monkeypatch.setattr(ingress_rates, "LEAST_RATE", 25)
    quiet(left, "tap0")
    with FlowRates("tap0", left, goal="10KB") as rates, blocking_sender(left, 7) as sock:
        rates.senders = senders
        left.port.swallow(1000)
        slow = row(pauses=1, waiting=10_000, rate=rate)
        rates.step([slow])
        assert [held.sender for held in rates.held.values()] == [Sender.ALONE]
        sent = blast(sock)
        with pytest.raises(BlockingIOError):
            sock.sendto(b"to another", (THERE, SLOW + 1))
        senders.table.note_several(7)
        rates.step([slow])
        if not lost:
            until(lambda: not any(size for size, _, _ in rates.htb.waiting().values()))
        rates.step([slow])
        assert not rates.held and (rates.dropped > 10 if lost else rates.dropped == 0)
        assert sock.sendto(b"to another", (THERE, SLOW + 1)) and not any(size for size, _, _ in rates.htb.waiting().values())
        assert left.port.swallow(1000) + rates.dropped == sent + 1
        rates.step([{**slow, "pauses": 2}])
        assert not rates.held and blast(sock) == 2000, "it does not wait again"


@needs_root
def test_the_class_of_a_socket_that_is_closed_stays(left, senders, monkeypatch):
    """What it has sent still passes; nobody waits for that."""
    monkeypatch.setattr(ingress_rates, "LEAST_RATE", 4000)
    with FlowRates("tap0", left, goal="10KB") as rates:
        rates.senders = senders
        with blocking_sender(left, 7) as sock:
            rates.step([row(pauses=1, waiting=20_000, rate=10)])
            blast(sock)
        rates.step([row(pauses=1, waiting=20_000, rate=10)])
        assert [held.sender for held in rates.held.values()] == [Sender.UNKNOWN] and rates.dropped == 0
        senders.table.note_several(7)
        rates.step([row(pauses=1, waiting=20_000, rate=10)])
        rates.step([row(pauses=1, waiting=20_000, rate=10)])
        assert not rates.held, "its port has another socket by now"


@needs_root
def test_many_slow_flows_may_together_be_late_by_as_much_as_one(left, monkeypatch):
    """What an edge that is late lets pass beyond their receivers' rates is bounded for all of them: each may hold less then."""
    now, size = 1000.0, 1052
    monkeypatch.setattr(ingress_rates.time, "monotonic", lambda: now)
    monkeypatch.setattr(ingress_rates, "LEAST_RATE", 1)
    with FlowRates("tap0", left, rest=1000) as rates:
        for step in range(30):
            now += 0.02
            sent = size * (100 + 2 * step)  # 100 frames a second each
            rates.step(
                [row(source_port=i, pauses=1 + step, rate=30_000_000, bytes=sent, frames=sent // size) for i in range(1, 41)]
            )
        beyond = sum(held.rate - 1.5 * 100 * size for held in rates.held.values())
        assert len(rates.held) == 40 and beyond < 1.5 * 2 * ingress_rates.SPARE_FRAMES * size


class Classes:
    """Stands for the HTB classes of an interface: frames wait in a class, charged to their socket, until they pass."""

    def __init__(self):
        self.queues, self.rates, self.of, self.passed_frames = {REST: 0}, {REST: 1 << 40}, {}, 0
        self.queue_frames = 1000

    def set_class(self, minor, rate):
        self.queues.setdefault(minor, 0)
        self.rates[minor] = rate

    def delete_class(self, minor):
        assert minor not in self.of.values(), "a filter leads there"
        del self.rates[minor]
        return self.queues.pop(minor)

    def add_filter(self, minor, flow):
        self.of[flow] = minor

    def delete_filter(self, minor, flow):
        assert self.of.pop(flow) == minor

    def waiting(self):
        return {minor: (1000 * frames, frames, 0) for minor, frames in self.queues.items()}

    def outgoing(self):
        return ingress_rates.Outgoing(0, 0, 0)

    def passed(self):
        return 0, 0


class Kernel(RuleBasedStateMachine):
    """Sockets with several peers, connected or not, that send into HTB classes while rates of flows are set: who waits for whom.

    A socket takes 20 frames.  After each step one that is shared by several peers has none of its frames in a class with a
    limit, except in one whose last frame passes late: that is gone after the next step.
    """

    SOCKETS, BUFFER = 2, 20

    @initialize(connected=st.sampled_from([set(), set(), {0}]), pass_late=st.booleans())
    def begin(self, connected, pass_late):
        self.connected, self.pass_late, self.table = connected, pass_late, Allowance()
        self.sent = self.entered = 0
        self.pauses, self.seen = {}, {i: set() for i in range(self.SOCKETS)}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ingress_rates, "Htb", lambda *_: Classes())
            self.rates = FlowRates("tap0", rest=3)
        self.rates.senders = self
        self.charged = {}  # frames of a socket by class

    def of(self, flow):
        i = flow.source_port
        if i in self.connected:
            return Sender.CONNECTED
        return Sender.SHARED if self.table.has_several(i) else Sender.ALONE

    def flow(self, i, peer):
        return FiveTuple(UDP, HERE, i, THERE, 9000 + (0 if i in self.connected else peer))

    def held_of(self, i):
        return sum(frames for (who, _), frames in self.charged.items() if who == i)

    @rule(i=st.integers(0, 1), peer=st.sampled_from([0, 0, 1]), count=st.integers(1, 30), slow=st.booleans())
    def send(self, i, peer, count, slow):
        """And its receiver may be slow."""
        flow = self.flow(i, peer)
        self.pauses[flow] = self.pauses.get(flow, 0) + slow
        self.seen[i].add(flow)
        if len(self.seen[i]) > 1:
            self.table.note_several(i)
        for _ in range(count):
            if self.held_of(i) == self.BUFFER:
                return
            minor = self.rates.htb.of.get(flow, REST)
            self.sent += 1
            if minor == REST:
                self.entered += 1
            else:
                self.rates.htb.queues[minor] += 1
                self.charged[i, minor] = self.charged.get((i, minor), 0) + 1

    @rule()
    def step(self):
        before = {flow: held.sender for flow, held in self.rates.held.items()}
        rows = [row(flow.target_port, flow.source_port, n, 20_000) for flow, n in self.pauses.items()]
        self.rates.step(rows)
        for minor, rate in list(self.rates.htb.rates.items()):
            if rate >= ingress_rates.UNLIMITED and not self.pass_late and minor != REST:
                self.entered += self.rates.htb.queues[minor]
                self.rates.htb.queues[minor] = 0
        self.charged = {key: n for key, n in self.charged.items() if self.rates.htb.queues.get(key[1])}
        for i in range(self.SOCKETS):
            flows = [flow for flow in self.rates.htb.of if flow.source_port == i]
            if i not in self.connected and self.table.has_several(i):
                assert not flows, "none of its frames goes into a class any longer"
                late = all(before.get(flow) in (Sender.ALONE, None) for flow in self.rates.held if flow.source_port == i)
                assert self.held_of(i) == 0 or (self.pass_late and late), "what waited has passed, or is dropped in the next step"

    @precondition(lambda self: any(self.table.several))
    @rule(i=st.integers(0, 1))
    def forget_the_peers(self, i):
        self.table.several[i] = 0
        self.seen[i] = set()

    @invariant()
    def every_frame_is_accounted_for(self):
        if hasattr(self, "rates"):
            waiting = sum(self.rates.htb.queues.values())
            assert self.sent == self.entered + waiting + self.rates.dropped_before

    def teardown(self):
        if hasattr(self, "table"):
            self.table.close()


Kernel.TestCase.settings = examples(60, stateful_step_count=25, suppress_health_check=list(HealthCheck))
test_nobody_waits_for_one_of_several_peers = Kernel.TestCase


# ---- What the worker notes ----


def test_the_worker_notes_whose_peers_are_several():
    """By what a port is sent, or sends; also by what its full sockets have no room for, as a server's that cannot read."""
    rig, second = Rig(), 1 << LAYOUT["SECOND_BITS"]
    rig.link(0)
    rig.link(1, sockets=True)
    several = rig.tables[1].several

    def sends(source, target, port, back):
        rig.send(source, target, port, back)
        rig.turn(5)

    for _ in range(3):
        sends(1, 0, 7, 2000)
        sends(0, 1, 2000, 7)
        sends(1, 0, 8, 3000)
    assert not several.any(), "a peer each, whoever has begun"
    rig.close(1, 7)
    sends(0, 1, 2001, 7)
    assert several[7] == (rig.now >> LAYOUT["SECOND_BITS"]) + 1 and several.sum() == several[7]
    sends(1, 0, 8, 3001)
    assert several[8] == several[7], "by what it sends"
    rig.now += (LAYOUT["SEVERAL_SECONDS"] + 1) * second
    before = several[8]
    sends(1, 0, 8, 3002)
    assert several[8] == before, "the one before was long ago"
    sends(1, 0, 8, 3001)
    assert several[8] == (rig.now >> LAYOUT["SECOND_BITS"]) + 1


@pytest.mark.parametrize("others", [0, 1])
def test_what_a_sender_with_several_peers_loses_has_a_reason_of_its_own(others):
    rig = Rig()
    rig.link(0, sockets=True)
    rig.app(1)
    for i in range(40):
        for _ in range(50):
            rig.send(0, 1, 7, 2000)
        if others:
            rig.send(0, 1, 7, 3000 + i)
        rig.turn(20)
    row = rig.row(0)
    assert set(row["drops"]) == {"not_paused" if others else "flow_over"}
    assert sum(flow["dropped"] for flow in rig.switch.flows()) == sum(row["drops"].values()) > 1000
