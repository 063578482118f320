"""As test_same_kernel: HTB, its classes and filters, of the simulated kernel and of the real one."""

import contextlib
import ipaddress
import socket
import struct

import pytest
from test_same_kernel import kernel, says, set_up, tap  # noqa: F401

from penstock_net.vswitch import world
from penstock_net.vswitch.attach import ingress_rates
from penstock_net.vswitch.attach.ingress_rates import FlowRates
from penstock_net.vswitch.linux.htb import REST, UNLIMITED, FiveTuple, Htb
from penstock_net.vswitch.linux.monitor import OWN_QDISC, Monitor

pytestmark = pytest.mark.usefixtures("kernel")
IPV4 = 0x0800
SLOW = 25  # bytes per second: 32 frames of 64 B are its burst, and one more takes seconds
FLOW = FiveTuple(17, "10.1.0.1", 1000, "10.1.0.2", 2000)


def frame(flow=FLOW):
    """64 B of UDP."""
    source, target = (ipaddress.ip_address(text).packed for text in (flow.source, flow.target))
    body = struct.pack("!HHHH", flow.source_port, flow.target_port, 30, 0) + bytes(22)
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 0, 0, 64, flow.protocol, 0) + source + target
    return b"\2" * 6 + b"\4" * 6 + IPV4.to_bytes(2, "big") + header + body


@contextlib.contextmanager
def sender():
    with world.socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.htons(IPV4)) as sock:
        sock.bind(("t0", IPV4))
        yield sock


def came(port):
    return sum(1 for _ in iter(port.receive, None))


def test_classes_and_filters():
    with tap() as port, sender() as sock, Htb("t0") as htb:
        assert htb.waiting() == {REST: (0, 0, 0)}
        htb.set_class(5, SLOW)
        htb.add_filter(5, FLOW)
        for _ in range(40):
            sock.send(frame())
        size, frames, dropped = htb.waiting()[5]
        assert 1 <= frames <= 8 and size == frames * 64 and dropped == 0
        assert came(port) == 40 - frames
        sock.send(frame(FLOW._replace(source_port=1001)))  # another flow, which waits for nobody
        assert came(port) == 1
        assert htb.passed()[1] == 41 - frames
        assert says(htb.delete_class, 5) == "EBUSY"
        htb.delete_filter(5, FLOW)
        assert says(htb.delete_filter, 5, FLOW) == "ENOENT"
        sock.send(frame())
        assert came(port) == 1
        waits = htb.waiting()[5][1]
        assert htb.delete_class(5) == waits > 0  # with what waits in it
        assert says(htb.delete_class, 5) == "ENOENT"
        assert htb.waiting() == {REST: (0, 0, 0)}


def test_what_a_killed_process_has_limited_and_dropped_is_not_the_next_ones():
    """The class of all others kept its limit, for good: a step sets it only where it has changed."""
    with tap() as port, sender() as sock:
        for frames, room, dropped in ((0, 100, False), (40, 100, False), (40, 1, True)):
            killed = Htb("t0").__enter__()
            killed.set_class(REST, SLOW)
            killed.set_room(REST, room)
            for _ in range(frames):
                with contextlib.suppress(OSError):  # it was dropped
                    sock.send(frame())
            assert (killed.waiting()[REST][2] > 0) == dropped
            killed.route.close()
            came(port)
            with Htb("t0") as htb:
                for _ in range(60):
                    sock.send(frame())
                assert came(port) == 60
                assert htb.waiting() == {REST: (0, 0, 0)}


def test_classes_that_were_made_while_it_was_down_are_those_that_it_has():
    with tap(up=False) as port:
        Htb("t0").prepare()
        set_up("t0")
        with sender() as sock:
            sock.send(frame())
            with Htb("t0") as htb:
                assert (htb.passed(), htb.waiting(), came(port)) == ((64, 1), {REST: (0, 0, 0)}, 1)


def test_a_class_has_room_for_so_many_frames():
    with tap() as port, sender() as sock, Htb("t0") as htb:
        htb.set_class(REST, SLOW)
        htb.set_room(REST, 5)
        for _ in range(60):
            with contextlib.suppress(OSError):  # ENOBUFS
                sock.send(frame())
        _, frames, dropped = htb.waiting()[REST]
        assert 1 <= frames <= 5 and dropped > 0
        assert frames + dropped + came(port) == 60
        htb.set_class(REST, UNLIMITED)
        set_up("t0", False)
        assert htb.waiting()[REST][1] == 0  # it is emptied, and stays
        set_up("t0")
        assert htb.waiting().keys() == {REST}


PRESSED = {**FLOW._asdict(), "pauses": 1, "waiting_bytes": 20_000, "rate_bytes_per_s": 10, "bytes": 20_000, "frames": 0}


def test_what_passes_while_an_edge_ends_is_not_lost(monkeypatch):
    """It came, and was counted as lost as well: what waited was counted, passed, and only then was its class deleted."""
    with tap() as port, sender() as sock:
        with FlowRates("t0") as rates:
            rates.drains = False
            monkeypatch.setattr(ingress_rates, "LEAST_RATE", 400)
            rates.step([PRESSED])
            for _ in range(60):
                sock.send(frame())
            delete, seen = rates.htb.delete_class, []

            def delete_class(minor):
                """Of those that wait, some pass just before."""
                waits = rates.htb.waiting()[minor][1]
                seen.append(waits)
                while waits and rates.htb.waiting()[minor][1] == waits:
                    world.time.sleep(0.001)
                return delete(minor)

            monkeypatch.setattr(rates.htb, "delete_class", delete_class)
        assert came(port) + rates.left == 60
        assert 0 < rates.left < seen[0]


def test_what_waits_is_counted_though_a_filter_has_gone(monkeypatch):
    """Nothing was counted then."""
    monkeypatch.setattr(ingress_rates, "LEAST_RATE", 400)
    with tap() as port, sender() as sock:
        with FlowRates("t0") as rates:
            rates.drains = False
            rates.step([PRESSED])
            for _ in range(60):
                sock.send(frame())
            rates.htb.delete_filter(rates.held[FLOW].minor, FLOW)
        assert came(port) + rates.left == 60
        assert rates.left > 0


def test_classes_of_another_program_stay_as_they_are():
    """Its HTB may have our handle, and classes of our numbers: they were given our rates, or deleted."""
    with tap(), Htb("t0", None) as theirs:
        theirs.set_class(2, 1_000_000)
        rates = FlowRates("t0")
        rates.htb.replaced = True
        rates.__exit__()
        assert set(theirs.waiting()) == {1, 2}
        rates = FlowRates("t0")
        rates.__exit__()
        with pytest.raises(OSError):
            theirs.waiting()[2]


def test_whose_queueing_discipline_it_is():
    with tap(), contextlib.closing(Monitor()) as monitor:
        index = world.socket.if_nametoindex("t0")
        assert monitor.root_qdisc(index)[1] == 0
        with Htb("t0") as htb:
            assert monitor.root_qdisc(index) == ("htb", OWN_QDISC)
            assert says(Htb("t0").__exit__) is None
            assert monitor.root_qdisc(index)[1] == 0
            assert says(htb.waiting) == "ENODEV"
        assert says(Monitor.root_qdisc, monitor, index)[1] == 0
