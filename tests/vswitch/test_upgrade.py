"""A switch that is handed over to a new process while frames pass, and one that goes on since the new process cannot."""

import contextlib
import hashlib
import os
import select
import signal
import socket
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from daemons import running
from frames import payload_of, udp
from proven import accounted
from test_gone import FORBIDDEN, path_of, tap
from upgrades import differences, repeated, upgradable
from vhost_front_end import FrontEnd
from vhost_front_end import connect as connect_front_end
from waiting import until

from penstock_net.cli import main
from penstock_net.errors import SpecError
from penstock_net.vswitch.attach.lab import Namespace
from penstock_net.vswitch.client.client import connect
from penstock_net.vswitch.client.plug import Plug
from penstock_net.vswitch.daemon import protocol, upgrade
from penstock_net.vswitch.daemon.server import Daemon

needs_taps = pytest.mark.skipif(bool(FORBIDDEN), reason="; ".join(FORBIDDEN))
A, B, C, D = "10.76.0.1", "10.76.0.2", "10.76.0.3", "10.76.0.4"
SHM = [{"name": "a", "addresses": [A]}, {"name": "b", "addresses": [B]}]
THRESHOLDS = 'th_goal = "2KB"\nth_over = "4KB"\nth_net = "8KB"'


def numbered(source, target, number, queue=0):
    return udp(source, target, 1000 + queue, 2000, number.to_bytes(8, "big") + bytes(200))


class Numbers:
    """Frames with numbers, that one application sends to another; it takes few, so that many wait."""

    def __init__(self, sender, receiver, source=A, target=B):
        self.sender, self.receiver, self.source, self.target = sender, receiver, source, target
        self.sent, self.seen = 0, []

    def send(self, count):
        for _ in range(count):
            self.sent += self.sender.send(self.sent % 3, [numbered(self.source, self.target, self.sent, self.sent % 3)])

    def take(self, most=10):
        self.seen += [int.from_bytes(payload_of(frame)[:8], "big") for _, frame in self.receiver.receive(most)]

    def step(self):
        self.send(5)
        self.take(4)
        time.sleep(0.001)

    def finish(self):
        until(lambda: self.take(100) or len(self.seen) == self.sent)
        for queue in range(3):
            assert self.seen_of(queue) == sorted(self.seen_of(queue)), "the order of a flow"
        assert sorted(self.seen) == list(range(self.sent))

    def seen_of(self, queue):
        return [number for number in self.seen if number % 3 == queue]


def counted(page):
    """The counters of the ports on the page of metrics, but for times."""
    text = urllib.request.urlopen(f"http://{page}/metrics", timeout=60).read().decode()
    assert text.endswith("# EOF\n")
    found = [line for line in text.splitlines() if line.startswith(("penstock_vswitch_port_", "penstock_vswitch_lost"))]
    return [line for line in found if "_total{" in line and "_seconds" not in line]


def test_applications_notice_nothing(tmp_path, capsys):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        page = f"127.0.0.1:{free.getsockname()[1]}"
    with upgradable(tmp_path, SHM, f'{THRESHOLDS}\nmetrics = "{page}"') as switch:
        with connect("a", switch.path) as a, connect("b", switch.path) as b:
            switch.ask(set={"th_net": "9KB"})
            switch.ask(port_add=[{"name": "x", "addresses": [D]}])
            numbers = Numbers(a, b)
            with repeated(numbers.step):
                first = switch.upgrade()
            a.send(5, [udp(C, B), udp(A, "10.9.9.9")])  # refused, for two reasons
            until(lambda: not a.waiting(5))
            until(lambda: all(row["waiting_bytes"] >= 9000 for row in switch.show("flows")))  # below th_net pauses are for a time
            before, metrics = switch.settled(), counted(page)
            assert before["balance"]["parked"] > 20 and before["changes"][0]["key"] == "th_net"
            assert main(["vswitch", "upgrade", "--socket", switch.path]) == 0
            assert capsys.readouterr().out.startswith("upgraded: process ")
            until(lambda: not os.path.exists(f"/proc/{first}/fd/0"), "the process before has ended")
            assert not list(differences(switch.everything(), before)) and counted(page) == metrics
            counters = switch.show("counters")
            assert counters["upgrades"] == 2 and time.time() - 600 < counters["started"] < time.time()
            assert main(["vswitch", "show", "--socket", switch.path]) == 0
            assert "upgraded 2 times" in capsys.readouterr().out
            with repeated(numbers.step):
                switch.ask(undo=True)
            numbers.finish()
            assert switch.balanced()[2] == 0
            assert main(["vswitch", "reload", str(tmp_path / "s.toml"), "--socket", switch.path]) == 0
            assert "ports x, a, b" in capsys.readouterr().out, "a port that was added is kept"
            texts = [row["event"] for row in switch.show("events")]
            assert texts.count("upgraded") == 2 and texts.count("attached") == 2 and texts.count("first refused") == 2
        until(lambda: [row["event"] for row in switch.show("events")].count("detached") == 2)


def udp_socket(space, address=None):
    with space.enter():
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.settimeout(60)
        s.bind((address or "0.0.0.0", 9000 if address else 0))
        return s


class Datagrams:
    """Datagrams with numbers from a socket in one namespace to another; `rest`: of the receiver, after each."""

    def __init__(self, source, target, address, rest=0.0):
        self.to, self.source, self.address = udp_socket(target, address), udp_socket(source), address
        self.source.connect((address, 9000))
        self.sent, self.seen, self.rest = 0, [], rest

    def send(self):
        self.source.send(self.sent.to_bytes(8, "big") + bytes(100))
        self.sent += 1
        time.sleep(0.0005)

    def take(self):
        if select.select([self.to], [], [], 0.05)[0]:
            self.seen.append(int.from_bytes(self.to.recv(200)[:8], "big"))
            time.sleep(self.rest)

    def finish(self):
        until(lambda: self.take() or len(self.seen) == self.sent, f"{len(self.seen)} of {self.sent}")
        assert self.seen == list(range(self.sent))
        self.to.close()
        self.source.close()


def frames_of(receive, count=40):
    """The contents of so many frames."""
    found = []
    until(lambda: found.extend(receive()) or len(found) >= count)
    return [payload_of(frame) for _, frame in found]


@needs_taps
def test_devices_of_all_kinds_go_on(tmp_path):
    with contextlib.ExitStack() as stack:
        left, right, far = (stack.enter_context(Namespace(name)) for name in ("left", "right", "far"))
        far.run("ip", "link", "add", "v0", "type", "veth", "peer", "name", "v1")
        for device in ("v0", "v1"):
            far.run("ip", "link", "set", device, "addrgenmode", "none", "up")
        far.run("ip", "address", "add", f"{C}/24", "dev", "v1")
        far.run("ip", "neigh", "add", A, "lladdr", "02:00:0a:4c:00:01", "dev", "v1")
        guest = {"name": "v", "addresses": [D], "kind": "vhost-user", "path": str(tmp_path / "v.sock")}
        packet = {"name": "p", "addresses": [C], "kind": "packet", "device": "v0", "netns": path_of(far)}
        taps = [tap("a", A, path_of(left)), tap("b", B, path_of(right))]
        native = {"name": "n", "addresses": ["10.76.0.9"]}
        switch = stack.enter_context(upgradable(tmp_path, [*taps, packet, guest, native], THRESHOLDS))
        front = stack.enter_context(FrontEnd(connect_front_end(guest["path"]))).begin()
        application = stack.enter_context(connect("n", switch.path))
        until(lambda: sum("edge" in row.get("device", {}) for row in switch.show("ports")) == 2)
        flows = [Datagrams(left, right, B), Datagrams(right, left, A, 0.001), Datagrams(left, far, C)]
        front.provide(200)
        index = left.run("ip", "link", "show", "sw0").split(":")[0]
        for _ in range(2):
            with contextlib.ExitStack() as busy:
                for flow in flows:
                    busy.enter_context(repeated(flow.send))
                    busy.enter_context(repeated(flow.take))
                for i in range(20):
                    front.transmit(udp(D, "10.76.0.9", payload=bytes([i])))
                    application.send(0, [udp("10.76.0.9", D, payload=bytes([i]))])
                switch.upgrade()
                for i in range(20, 40):
                    front.transmit(udp(D, "10.76.0.9", payload=bytes([i])))
                    application.send(0, [udp("10.76.0.9", D, payload=bytes([i]))])
            got, came = frames_of(application.receive), frames_of(front.received)
            assert got == came == [bytes([i]) for i in range(40)]
            for ring in front.rings:
                ring.collect()
                ring.free = list(range(256))
            front.provide(60)
        for flow in flows:
            flow.finish()
        until(lambda: switch.balanced()[2] == 0)
        rows = {row["port"]: row for row in switch.show("ports")}
        assert all(row["state"] == "up" for row in rows.values()) and rows["v"]["device"]["front_end"]["connections"] == 1
        assert left.run("ip", "link", "show", "sw0").split(":")[0] == index, "the interface is the same"
        assert rows["a"]["device"]["frames_out"] >= flows[1].sent
        before = switch.settled()
        switch.upgrade()
        assert not list(differences(switch.everything(), before))
        application.close()
        right.run("ip", "link", "del", "sw0")
        until(lambda: {row["port"]: row["state"] for row in switch.show("ports")}["b"] == "gone")
        switch.upgrade()
        assert {row["port"]: row["state"] for row in switch.show("ports")}["b"] == "gone"
        assert "sw0" not in right.run("ip", "link"), "it was deleted: `reload` would make it again"


@needs_taps
def test_a_plugged_tap_stays(tmp_path):
    with Namespace("left") as left, upgradable(tmp_path, SHM) as switch:
        with left.enter():
            plug = Plug("a", "tap0", 24, switch.path)
        with plug, connect("b", switch.path) as b, contextlib.closing(udp_socket(left)) as s:
            for i in range(2):
                s.sendto(bytes([i]) * 9, (B, 9))
                assert until(lambda: b.receive(1))[0][1][42:] == bytes([i]) * 9
                if i == 0:
                    switch.upgrade()
            assert not plug.gone
        until(lambda: [row["event"] for row in switch.show("events")].count("detached") == 2)


def test_an_overlay_keeps_its_session(tmp_path):
    with contextlib.ExitStack() as stack:
        ports = []
        for _ in range(2):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
                s.bind(("127.0.0.1", 0))
                ports.append(s.getsockname()[1])
        ends = [f"127.0.0.1:{number}" for number in ports]
        wires = [{"local": ends[i], "peer": ends[1 - i], "kind": "udp", "secret": "ab" * 16} for i in range(2)]
        tables = [[SHM[i], {"name": "w", "addresses": [(B, A)[i]], **wires[i]}] for i in range(2)]
        other = stack.enter_context(running(tmp_path / "other.sock", {"port": tables[1]}))
        switch = stack.enter_context(upgradable(tmp_path, tables[0], THRESHOLDS))
        a, b = stack.enter_context(connect("a", switch.path)), stack.enter_context(connect("b", other.path))
        there, back = Numbers(a, b), Numbers(b, a, B, A)
        until(lambda: overlay(switch)["state"] == "up")
        with repeated(there.step), repeated(back.step):
            switch.upgrade()
        there.finish()
        back.finish()
        row = overlay(switch)
        assert (row["sessions"], row["deaths"], row["lost_on_the_way"], row["lost_at_peer"]) == (1, 0, 0, 0)
        assert switch.balanced()[2] == 0


def overlay(switch):
    return next(row["device"]["overlay"] for row in switch.show("ports") if row["port"] == "w")


# ---- The new process fails ----

START = f"import os, socket, time; s = socket.socket(fileno=int(os.environ['{upgrade.VARIABLE}']));"
HELLO, PREPARED = """s.send(b'{"hello": [1]}\\n'); s.recv(9999);""", """s.send(b'{"prepared": true}\\n'); s.recv(1);"""
BUILT = """s.send(b'{"built": true}\\n'); s.recv(1);"""  # from here on the workers stand still
FAILURES = {
    "the new process has ended: it has failed": "import sys; sys.exit(3)",
    "format [99]": START + """s.send(b'{"hello": [99]}\\n'); time.sleep(60)""",
    "cannot go on: no room": START + HELLO + """s.send(b'{"error": "no room"}\\n'); time.sleep(60)""",
    "cannot go on: no ports": START + HELLO + PREPARED + """s.send(b'{"error": "no ports"}\\n'); time.sleep(60)""",
    "was not ready within 0.2 s": START + HELLO + PREPARED + BUILT + "time.sleep(60)",
    "the new process has ended": START + HELLO + PREPARED + BUILT,
    "cannot go on: nonsense": START + HELLO + PREPARED + BUILT + """s.send(b'{"error": "nonsense"}\\n'); s.recv(1)""",
}


def test_the_switch_goes_on_if_the_new_process_fails(tmp_path, monkeypatch):
    monkeypatch.setattr(upgrade, "READY_S", 0.2)
    settings = {"th_goal": "2KB", "th_over": "4KB", "th_net": "8KB"}
    with contextlib.ExitStack() as stack:
        daemon = stack.enter_context(running(tmp_path / "s.sock", {"switch": settings, "port": SHM}))
        with connect("a", daemon.path) as a, connect("b", daemon.path) as b:
            numbers = Numbers(a, b)
            with repeated(numbers.step):
                for why, program in FAILURES.items():
                    daemon.program = [sys.executable, "-c", program]
                    with pytest.raises(SpecError) as raised:
                        protocol.ask(daemon.path, {"upgrade": True}, 60)
                    assert "not upgraded, the switch goes on as it was: " in str(raised.value) and why in str(raised.value)
                daemon.program = ["/nowhere/penstock"]
                with pytest.raises(SpecError, match="No such file"):
                    protocol.ask(daemon.path, {"upgrade": True}, 60)
                monkeypatch.setattr(upgrade.handing, "stop", lambda *_: {}["a fault of ours"])
                daemon.program = [sys.executable, "-c", FAILURES["was not ready within 0.2 s"]]
                with pytest.raises(SpecError, match="KeyError"):
                    protocol.ask(daemon.path, {"upgrade": True}, 60)
            numbers.finish()
            found = protocol.ask(daemon.path, {"show": "balance"})["balance"]
            accounted(found)
            assert not found["lost"] and not found["parked"]
            assert [row["event"] for row in daemon.events.rows()].count("not upgraded") == len(FAILURES) + 2


@needs_taps
def test_devices_go_on_if_the_new_process_fails_after_it_has_taken_them(tmp_path):
    with contextlib.ExitStack() as stack:
        left, right = (stack.enter_context(Namespace(name)) for name in ("left", "right"))
        switch = stack.enter_context(upgradable(tmp_path, [tap("a", A, path_of(left)), tap("b", B, path_of(right))], THRESHOLDS))
        flow = Datagrams(left, right, B, 0.001)
        switch.spoil(
            "import penstock_net.vswitch.daemon.handing as h\nresume = h.resume\n"
            "def fail(*given):\n    resume(*given)\n    raise RuntimeError('at the last moment')\nh.resume = fail\n"
        )
        with repeated(flow.send), repeated(flow.take):
            with pytest.raises(SpecError, match="at the last moment"):
                switch.upgrade()
            switch.spoil("")
            until(lambda: flow.sent > 200)
            switch.upgrade()
        flow.finish()
        until(lambda: switch.balanced()[2] == 0)


def until_told(manager, line):
    """What a service manager is told until it is told this, each as lines."""
    manager.settimeout(60)
    told = []
    while not told or line not in told[-1]:
        told.append(manager.recv(4096).decode().split("\n"))
    return told


def test_a_new_process_that_is_killed_is_a_crash_and_its_socket_can_be_taken(tmp_path, monkeypatch):
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(str(tmp_path / "notify"))
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    with manager, upgradable(tmp_path, SHM) as switch, connect("a", switch.path) as a:
        new = switch.upgrade()
        told = until_told(manager, f"MAINPID={new}")
        assert all("STOPPING=1" not in lines for lines in told) and until_told(manager, "READY=1")[-1][1].endswith("attached: a")
        monkeypatch.delenv("NOTIFY_SOCKET")
        os.kill(new, signal.SIGKILL)
        until(lambda: a.gone)
        with running(switch.path, {"port": SHM}), connect("a", switch.path):
            pass


# ---- What is refused, before anything stops ----


def test_a_format_has_one_layout_of_regions():
    text = (Path(upgrade.__file__).parents[1] / "memory/rings.py").read_text()
    layout = text[text.index("def size_of(") : text.index("def fill(")]
    digest = hashlib.sha256(layout.encode()).hexdigest()[:16]
    assert (upgrade.FORMAT, digest) == (1, "b923d0f159c98299"), "of another layout is another FORMAT"


def test_kinds_that_cannot_be_handed_over_are_named(tmp_path):
    recording = {"name": "r", "addresses": [B], "kind": "pcap", "write": str(tmp_path / "r.pcapng")}
    with running(tmp_path / "s.sock", {"port": [SHM[0], recording]}) as daemon:
        with pytest.raises(SpecError, match="part of another program"):
            protocol.ask(daemon.path, {"upgrade": True})
        daemon.program = ["false"]
        with pytest.raises(SpecError, match=r"port 'r': a port of kind pcap cannot be handed over.*port del r"):
            protocol.ask(daemon.path, {"upgrade": True})
        assert not [row for row in daemon.events.rows() if "upgrade" in row["event"]]


def test_a_switch_that_runs_a_scheme_is_not_handed_over(tmp_path):
    daemon = Daemon({"switch": {"scheme": "bfc"}, "port": SHM}, str(tmp_path / "s.sock"), ["false"])
    with pytest.raises(SpecError, match="runs a scheme"):
        upgrade.refuse(daemon)
    daemon.switch.close()
    daemon._unbind()
