"""No packet of an unmodified program is lost between the kernel and the switch; skipped where namespaces are not permitted."""

import socket
import struct
import sys
import threading
import time
from collections import deque
from pathlib import Path

import pytest
from daemons import running
from test_lab import FORBIDDEN, PERMITTED, mac
from waiting import until

from penstock.errors import PenstockError, SpecError
from penstock.vswitch.attach import ingress_rates
from penstock.vswitch.attach.edge import Edge
from penstock.vswitch.attach.ingress_rates import FIRST_RATE, LEAST_RATE, FlowRates
from penstock.vswitch.attach.lab import Namespace
from penstock.vswitch.attach.socket_watch import SocketProbe, cost
from penstock.vswitch.client.client import connect
from penstock.vswitch.client.plug import Plug
from penstock.vswitch.linux.htb import REST, UNLIMITED, FiveTuple, Htb
from penstock.vswitch.linux.losses import device_losses

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


def test_a_flow_gets_a_class_when_the_switch_pauses_it_and_loses_it_when_it_is_content(left, slowest):
    with FlowRates("tap0", left, rest=3, goal="10KB", over="50KB") as rates:
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


def test_when_classes_run_out_the_rest_shares_a_rate(left):
    with FlowRates("tap0", left, classes=2, goal="10KB") as rates:
        rates.step([row(source_port=i, pauses=1, waiting=30_000 + i) for i in range(1, 6)])
        assert {flow.source_port for flow in rates.held} == {5, 4}, "those with most waiting come first"
        assert rates.crowded == 3 and rates.rest_rate == 2_100_000
        for k in range(20):
            rates.step([row(source_port=i, pauses=2 + k, waiting=30_000) for i in range(1, 6)])
        assert rates.rest_rate == LEAST_RATE
        with blocking_sender(left, 99) as sock:
            assert blast(sock) < 500, "others wait as well"
            for _ in range(50):
                rates.step([])
            assert rates.rest_rate == UNLIMITED and rates.crowded == 0
            until(lambda: not any(size for size, _, _ in rates.htb.waiting().values()))
            assert blast(sock, 500) == 500


def test_mistakes_are_named(left):
    with pytest.raises(SpecError, match="there is none here"):
        FlowRates("tap7", left)
    with pytest.raises(SpecError, match="less than over"):
        FlowRates("tap0", left, goal="1MB")
    with pytest.raises(SpecError, match="classes"):
        FlowRates("tap0", left, classes=0)
    with pytest.raises(SpecError, match="low less than high"):
        SocketProbe(left, high=0.1, low=0.2)
    with pytest.raises(SpecError, match="idle_period"):
        Edge("tap0", left, look_period="10ms")


# ---- Out of the switch ----


def test_the_probe_reports_which_port_to_pause(left):
    told = []
    slow, other = (left.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    v6 = left.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    with slow, other, v6, left.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        slow.bind(("127.0.0.1", SLOW))
        other.bind(("0.0.0.0", FAST))
        v6.bind(("::1", 9003))
        probe = SocketProbe(left, lambda port, on: told.append((port, on)))
        assert {(s.address, s.port) for s in probe.sockets} == {("127.0.0.1", SLOW), ("0.0.0.0", FAST), ("::1", 9003)}
        assert probe.look() == set() and told == []
        sent = 0
        while SLOW not in probe.look():
            sender.sendto(bytes(1000), ("127.0.0.1", SLOW))
            sent += 1
        assert 10 < sent < 100 and told == [(SLOW, True)]
        slow.recv(2000)
        assert probe.look() == {SLOW}, "until it is half as full"
        slow.setblocking(False)
        for _ in range(sent - 1):
            slow.recv(2000)
        assert probe.look() == set() and told == [(SLOW, True), (SLOW, False)] and probe.lost == 0
        for _ in range(1000):
            sender.sendto(bytes(1000), ("127.0.0.1", SLOW))
        probe.look()
        arrived = 0
        try:
            while slow.recv(2000):
                arrived += 1
        except BlockingIOError:
            pass
        assert probe.lost == 1000 - arrived > 0
        slow.close()
        assert probe.look() == set() and told[-1] == (SLOW, False), "a socket that has gone holds nobody up"
        assert probe.lost == 1000 - arrived
        probe.close()


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


def test_what_is_sent_while_the_probe_looks_is_not_given_twice(monkeypatch):
    """A driver in another thread uses all that it may just after the kernel has answered, and again once the limits are new."""
    with (
        Namespace("left") as left,
        left.tap(f"{HERE}/24", headers=False) as tap,
        left.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock,
    ):
        sock.bind((HERE, SLOW))
        sock.setblocking(False)
        probe, frame = SocketProbe(left, high=1.0, low=0.5), frame_to(left, SLOW, 10)
        ask, sent, got = probe.diag.ask, 0, 0

        def send():
            nonlocal sent
            while probe.takes(SLOW, len(frame)):
                assert tap.send(frame)
                sent += 1

        def ask_and_send(*question):
            answer = ask(*question)
            send()
            return answer

        monkeypatch.setattr(probe.diag, "ask", ask_and_send)
        for _ in range(20):
            probe.look()
            send()
            try:
                while sock.recv(100):
                    got += 1
            except BlockingIOError:
                pass
        assert sent == got > 1000 and probe.lost == 0
        sock.close()
        monkeypatch.setattr(probe.diag, "ask", ask)
        probe.look()
        assert probe.takes(SLOW, 10**6), "whom nobody listens to has no limit"
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
            try:
                while sock.recv(2000):
                    arrived += 1
            except BlockingIOError:
                pass
            probe.look()
        assert sent == arrived > 400 and probe.lost == 0, "and room is used: several frames at a time"
        assert probe.takes(12345, len(frame)), "nobody is there to miss it"
        for _ in range(300):
            tap.send(frame)
        probe.look()
        assert probe.lost > 100, "without asking, they are lost"
        probe.close()
    assert cost(size) > size


def test_a_kernel_without_udp_diag(left, monkeypatch):
    probe = SocketProbe(left)

    def refuse(*_):
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(probe.diag, "ask", refuse)
    with pytest.raises(PenstockError, match="udp_diag"):
        probe.look()
    probe.close()


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
        self.flows, self.edge, self.longest, self.left, self.sent = {}, None, 0, {}, 0
        self.over_event = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def flow(self, frame):
        key = struct.unpack_from("!HH", frame, 34)
        if key not in self.flows:
            self.flows[key] = {"queue": deque(), "bytes": 0, "passed": 0, "at": time.monotonic(), "rate": 0, "pauses": 0}
        return self.flows[key]

    def rows(self):
        return [
            row(port, source_port, flow["pauses"], flow["bytes"], int(flow["rate"]))
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
                    flow["pauses"] += flow["bytes"] > self.over
                    self.longest = max(self.longest, len(flow["queue"]))
            now = time.monotonic()
            for (_, port), flow in self.flows.items():
                queue = flow["queue"]
                for _ in range(20):
                    if not queue or (self.edge and not self.edge.takes(port, len(queue[0]))):
                        break
                    assert self.target.send(queue[0])
                    self.sent += 1
                    flow["bytes"] -= len(queue[0])
                    flow["passed"] += len(queue.popleft())
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
    with space.inside():
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
        switch.edge = edges[1] if edges else None
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
                return edges[0].rates.opened and edges[1].sockets.changes
            probe.look()
            return a.counters["kernel_lost"] + probe.lost > max(1000, 1.2 * took / 0.0005)

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
        lost = a.counters["kernel_lost"], probe.lost
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
    before = device_losses("tap0", left)["tx_dropped"]
    sender = left.start(sys.executable, "-c", BLASTER, str(SLOW), "0")
    until(lambda: device_losses("tap0", left)["tx_dropped"] - before > 2000)
    sender.terminate()
    sent = int(sender.stdout.readline())
    assert sent > device_losses("tap0", left)["tx_dropped"] - before - 1000


def test_a_switch_that_reads_too_slowly_makes_all_senders_wait_and_lets_them_go_again(left):
    """No flow is paused: it is the switch itself that does not keep up, with less than a third of what is sent.

    The ring holds 4 s of it, so that no other load of the machine keeps the edge from seeing it fill.
    """
    with Edge("tap0", left, fd=left.port.fd, queue_frames=20_000) as edge:
        assert "htb" in left.run("tc", "qdisc", "show", "dev", "tap0")
        sender = left.start(sys.executable, "-c", BLASTER, str(SLOW), "0.0001")
        got = limited = 0
        while limited <= 10 or got < 200:
            assert sender.poll() is None and edge.error is None
            got += left.port.swallow(1)
            limited += edge.rates.rest_rate < UNLIMITED
            time.sleep(0.001)
        sender.terminate()
        end = time.monotonic() + 120
        while time.monotonic() < end and (sender.poll() is None or edge.rates.rest_rate < UNLIMITED or left.port.swallow(100)):
            got += left.port.swallow(1000)
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
        left.inside(),
        Plug("a", path=daemon.path, guard=with_edge) as plug,
        connect("b", daemon.path) as b,
    ):
        sender = left.start(sys.executable, "-c", BLASTER, str(SLOW), "0")
        got, held, edge = [], [[]], plug.device.edge

        def take(most):
            frames = [frame for _, frame in b.receive(most)]
            got.extend(int.from_bytes(frame[42:46], "big") for frame in frames if frame[23] == 17)

        def seen_enough():
            take(4)
            if len(got) > 500 and not held[0]:
                held[:] = daemon.switch.call(lambda: [daemon.switch.held_flows(name) for name in ("a", "b", "c")])
            return held[0] and (edge.rates.opened if edge else plug.losses()["device"] > 1000)

        until(seen_enough)
        sender.terminate()
        until(lambda: take(64) or sender.poll() is not None)
        sent = int(sender.stdout.readline())
        if edge:
            until(lambda: take(64) or len(got) >= sent)
            assert edge.error is None
        (row,), back, unknown = held
        assert row["from"] == "a" and row["pauses"] and row["target_port"] == SLOW and back == unknown == []
        (port,) = [each for each in daemon.switch.call(daemon.switch.ports) if each["port"] == "a"]
        return sent, got, plug.losses()["device"], edge.counters() if edge else {}, port


@pytest.mark.parametrize("with_edge", [True, False])
def test_a_blaster_and_a_slow_application_of_the_switch(tmp_path, with_edge):
    sent, got, lost, counters, port = slow_native_receiver(tmp_path, with_edge)
    print(sent, len(got), lost, counters, port["drops"], port["pauses"])
    assert not port["drops"] and port["pauses"]
    if with_edge:
        assert got == list(range(sent)) and counters["classes_opened"] >= 1 and counters["tx_dropped"] == 0
    else:
        assert lost > 1000 and len(got) < sent


def test_an_edge_reports_the_port_to_pause_and_ends_when_the_interface_has_gone():
    told = []
    with (
        Namespace("left") as left,
        left.socket(socket.AF_INET, socket.SOCK_DGRAM) as slow,
        left.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        slow.bind(("127.0.0.1", SLOW))
        with (
            left.tap(f"{HERE}/24", headers=False),
            Edge("tap0", left, list, wait=lambda port, on: told.append((port, on)), period="5ms") as edge,
        ):
            for _ in range(200):
                sender.sendto(bytes(1000), ("127.0.0.1", SLOW))
            until(lambda: told)
            assert told == [(SLOW, True)] and edge.error is None
            left.run("ip", "link", "delete", "tap0")
            until(lambda: edge.error)
            assert isinstance(edge.error, OSError), "it says why it does nothing any longer"
        slow.close()
