"""Changes during traffic: thresholds, modes, addresses that move from port to port; none of them loses a frame."""

import contextlib
import itertools
import json
import random
import threading
import time

import pytest
from daemons import running
from frames import payload_of, udp
from test_switch import switch_of
from waiting import until

from penstock_net.cli import main
from penstock_net.errors import SpecError
from penstock_net.vswitch.client.client import connect
from penstock_net.vswitch.daemon import protocol
from penstock_net.vswitch.daemon.config import validate_spec

A, B, C, D = "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"
CONTENT = {
    "switch": {"th_goal": "4KB", "th_over": "16KB", "th_net": "64KB", "idle": "5ms"},
    "port": [{"name": n, "addresses": a} for n, a in (("a", [A]), ("b", [B, D]), ("c", [C]))],
}


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "s.sock")


def test_changes_lose_no_frame(path):
    """Two flows, one with an address that moves between ports; a thousand changes: tests/simulated/test_moving_addresses.py."""
    rng, over = random.Random(5), threading.Event()
    sent, got = {B: 0, D: 0}, {name: {B: [], D: []} for name in "bc"}

    def send(port):
        while not over.is_set():
            for queue, to in enumerate((B, D)):
                if port.waiting(queue) < 20_000:
                    frames = [udp(A, to, payload=b"%d" % (sent[to] + i)) for i in range(20)]
                    sent[to] += port.send(queue, frames)
            time.sleep(0.0005)

    def receive(name, port):
        while not over.is_set() or not quiet.is_set():
            for _, frame in port.receive(64, timeout=0.02):
                got[name][{2: B, 4: D}[frame[33]]].append(int(payload_of(frame)))

    quiet = threading.Event()
    with running(path, CONTENT), connect("a", path) as a, connect("b", path) as b, connect("c", path) as c:
        threads = [
            threading.Thread(target=send, args=(a,)),
            threading.Thread(target=receive, args=("b", b)),
            threading.Thread(target=receive, args=("c", c)),
        ]
        for thread in threads:
            thread.start()
        for i in itertools.count():
            if i >= 60 and min(sent.values()) > 200 and got["b"][D] and got["c"][D]:
                break
            goal = rng.choice([1, 4, 16])
            change = {
                "th_goal": f"{goal}KB",
                "th_over": f"{4 * goal}KB",
                "th_net": f"{16 * goal}KB",
                "mode": rng.choice(["pfc", "dpfq", "backdraft"]),
                "burst": rng.choice([1, 7, 64]),
            }
            if i % 3 == 0:
                moves = rng.random() < 0.5
                change |= {"port.b.addresses": [B] if moves else [D, B], "port.c.addresses": [C, D] if moves else [C]}
            if i % 5 == 0:
                change["port.a.guarded"] = rng.random() < 0.5
            protocol.ask(path, {"set": change})
        over.set()
        threads[0].join(60)
        end = time.monotonic() + 120
        while sum(len(f) for by in got.values() for f in by.values()) < sum(sent.values()) and time.monotonic() < end:
            time.sleep(0.01)
        quiet.set()
        for thread in threads[1:]:
            thread.join(60)
        rows = {p["port"]: p for p in protocol.ask(path, {"show": "ports"})["ports"]}
    assert all(row["drops"] == {} and row["nonsense"] == 0 for row in rows.values())
    assert min(sent.values()) > 200 and got["b"][D] and got["c"][D], "both have had the address"
    assert got["b"][B] == list(range(sent[B])) and got["c"][B] == []
    assert sorted(got["b"][D] + got["c"][D]) == list(range(sent[D]))
    assert all(found == sorted(found) for by in got.values() for found in by.values())


def test_a_flow_follows_its_address():
    """What is delivered stays; the next frame goes to the new owner; the old queue is given back."""
    switch, a, b, c = switch_of(A, [B, D], C, idle="1ms")
    a.send(0, [udp(A, D, payload=b"1")])
    switch.turns(1)
    switch.readdress({"b": {"addresses": [B], "guarded": True}, "c": {"addresses": [C, D], "guarded": True}})
    a.send(0, [udp(A, D, payload=b"2")])
    switch.turns(1)
    assert [payload_of(f) for _, f in c.receive()] == [b"2"] and len(switch.flows()) == 2
    assert [payload_of(f) for _, f in b.receive()] == [b"1"]

    def given_back():
        switch.turns(2)
        b.receive(), c.receive()
        return switch.flows() == [] and b.free_rings() == c.free_rings() == 256

    until(given_back)


def test_who_loses_an_address_may_not_send_from_it():
    switch, a, b = switch_of([A, D], B)
    a.send(0, [udp(D, B)])
    switch.turns(1)
    switch.readdress({"a": {"addresses": [A], "guarded": True}})
    a.send(0, [udp(D, B), udp(A, B)])
    switch.turns(2)
    assert switch.ports()[0]["drops"] == {"spoofed": 1} and len(b.receive()) == 2
    switch.readdress({"a": {"addresses": [A], "guarded": False}})
    a.send(0, [udp(D, B)])
    switch.turns(2)
    assert len(b.receive()) == 1


def test_addresses_that_cannot_be_change_nothing():
    switch, a, b, _ = switch_of(A, B, C)
    before = {row["port"]: row["addresses"] for row in switch.ports()}
    for wrong, message in (([C], "has it"), (["x"], "IPv4"), ([f"10.1.{i // 250}.{i % 250}" for i in range(4100)], "holds 4096")):
        with pytest.raises(SpecError, match=message):
            switch.readdress({"b": {"addresses": wrong, "guarded": True}})
        assert {row["port"]: row["addresses"] for row in switch.ports()} == before
    a.send(0, [udp(A, B)])
    switch.turns(1)
    assert len(b.receive()) == 1


def test_all_changes_or_none(path):
    with running(path, CONTENT) as daemon, connect("b", path):
        for change, message in (
            ({"port.b.addresses": [B], "th_over": "1TB"}, "must rise"),
            ({"port.b.addresses": [C]}, "port 'c'|port 'b'"),
            ({"port.b.addresses": [B, B]}, "twice"),
            ({"port.b.addresses": "x"}, "must be a list"),
            ({"port.z.addresses": [B]}, "no port 'z'"),
            ({"port.b.name": "x"}, "cannot be set while running"),
            ({"port.b.guarded": 1}, "true or false"),
            ({"port.b.memory": "x", "th_goal": "1KB"}, "memory"),
            ({"flows": 3}, "new start"),
        ):
            with pytest.raises(SpecError, match=message):
                protocol.ask(path, {"set": change})
            assert daemon.ports["b"]["addresses"] == [B, D] and daemon.switch.settings["th_goal"] == 4000
            assert protocol.ask(path, {"show": "ports"})["ports"][0]["addresses"] == [B, D]


def test_set_from_the_command_line(path, capsys):
    with running(path, CONTENT) as daemon:
        what = ["port.b.addresses=10.0.0.2,fd00::2", "port.b.guarded=false", "port.c.memory=8MB", "port.c.uid=7", "burst=5"]
        assert main(["vswitch", "set", *what, "--socket", path]) == 0
        said = "port.b.addresses=10.0.0.2,fd00::2  port.b.guarded=False  port.c.memory=8000000  port.c.uid=7  burst=5\n"
        assert capsys.readouterr().out == said
        with connect("b", path) as b:
            assert b.addresses == [B, "fd00::2"] and daemon.ports["c"]["uid"] == 7


def test_reload(path, tmp_path, capsys):
    """New ports come, unused ones go, thresholds and addresses change; what takes a new start is refused as a whole."""
    spec = tmp_path / "s.toml"

    def reload(text):
        spec.write_text(text)
        status = main(["vswitch", "reload", str(spec), "--socket", path])
        out = capsys.readouterr()
        return status, out.out + out.err

    a, b, d = (f'[[port]]\nname = "{n}"\naddresses = ["{x}"]\n' for n, x in (("a", A), ("b", B), ("d", C)))
    same = '[switch]\nidle = "5ms"\n'
    with running(path, CONTENT) as daemon, connect("a", path) as app:
        assert reload(same + a + b + d) == (0, "reloaded: mode backdraft, ports a, b, d\n")
        assert daemon.switch.settings["th_goal"] == 32000, "a key that is left out has its default"
        with connect("d", path) as other:
            app.send(0, [udp(A, C)])
            assert len(other.receive(1, timeout=120)) == 1
            assert "port 'd': an application is attached" in reload(same + a + b)[1]
        for wrong, message in (
            ("flows = 7\n", "switch.flows"),
            ('socket = "/x"\n', "switch.socket"),
            ("doorbells = false\n", "new start"),
            ('mode = "fast"\n', "one of"),
            ('metrics = "127.0.0.1:1"\n', "switch.metrics"),
        ):
            status, said = reload(same + 'th_goal = "1KB"\n' + wrong + a + b + d)
            assert status == 2 and message in said and daemon.switch.settings["th_goal"] == 32000
        end = time.monotonic() + 120
        while "d" in daemon.attached and time.monotonic() < end:
            time.sleep(0.005)
        assert reload(same + 'mode = "dpfq"\n' + a)[1] == "reloaded: mode dpfq, ports a\n"
        with pytest.raises(SpecError, match="no such port"):
            connect("d", path)


def test_a_refused_change_leaves_devices_as_they_were(path, tmp_path):
    """Their addresses, too, although no application is attached to them."""
    recorder = {"name": "r", "addresses": ["10.0.0.9"], "kind": "pcap", "write": str(tmp_path / "r.pcap")}
    with running(path, {**CONTENT, "port": [*CONTENT["port"], recorder]}) as daemon:

        def addresses():
            return {row["port"]: row["addresses"] for row in protocol.ask(path, {"show": "ports"})["ports"]}

        before = addresses()
        assert before == {"r": ["10.0.0.9"]}
        with pytest.raises(SpecError, match="must rise"):
            protocol.ask(path, {"set": {"port.r.addresses": ["10.0.0.8"], "th_over": "1TB"}})
        assert addresses() == before and daemon.ports["r"]["addresses"] == ["10.0.0.9"]
        many = [f"10.1.{i // 250}.{i % 250}" for i in range(4100)]
        with pytest.raises(SpecError, match="holds 4096"):
            protocol.ask(path, {"set": {"port.r.addresses": many, "th_goal": "1KB", "idle": "7ms"}})
        assert addresses() == before and daemon.switch.settings["th_goal"] == 4000 and daemon.switch.settings["idle"] == 5_000_000


def test_undo(path, capsys):
    """What was set since the start, or the last reload, is as in the file again; it is listed before, and none is left after."""

    def run(*words):
        assert main(["vswitch", *words, "--socket", path]) == 0
        return capsys.readouterr().out

    with running(path, CONTENT) as daemon, connect("b", path):
        start = dict(daemon.switch.settings), daemon.ports
        assert run("show", "changes") == "no changes\n" and run("set", "--undo") == "nothing was changed\n"
        run("set", "th_goal=1KB", "idle=9ms", "mode=pfc")
        run("set", "port.b.addresses=10.0.0.2", "port.c.uid=7")
        rows = json.loads(run("show", "changes", "--json"))
        assert {row["key"]: (row["now"], row["file"]) for row in rows} == {
            "th_goal": (1000, 4000),
            "idle": (9_000_000, 5_000_000),
            "mode": ("pfc", "backdraft"),
            "port.b.addresses": ([B], [B, D]),
            "port.c.uid": (7, None),
        }
        assert "port.b.addresses=10.0.0.2,10.0.0.4" in run("set", "--undo")
        assert (daemon.switch.settings, daemon.ports) == start and run("show", "changes") == "no changes\n"
        assert protocol.ask(path, {"show": "ports"})["ports"][0]["addresses"] == [B, D]
        protocol.ask(path, {"reload": {**CONTENT, "switch": {**CONTENT["switch"], "th_goal": "2KB"}}})
        run("set", "th_goal=1KB")
        assert run("set", "--undo") == "th_goal=2000\n" and daemon.switch.settings["th_goal"] == 2000
    for wrong in ([], ["--undo", "burst=1"]):
        assert main(["vswitch", "set", *wrong, "--socket", path]) == 2 and "either" in capsys.readouterr().err


TAP, UDP = {"kind": "tap", "device": "sw0"}, {"kind": "udp", "local": "127.0.0.1:7000", "peer": "127.0.0.1:7001"}


@pytest.mark.parametrize(
    "one, other, message",
    [
        ({"addresses": [A, B]}, {}, f"{B} belongs to port 'a'; an address belongs to one port only"),
        ({"addresses": ["10.0.0.1", "10.0.0.1"]}, {}, "twice"),
        ({"addresses": ["fd00::1", "fd00:0::1"]}, {}, "twice"),
        ({"addresses": ["02:00:00:00:00:0a"]}, {"addresses": ["02:00:00:00:00:0A"]}, "belongs to port 'a'"),
        (TAP, TAP, "device sw0 belongs to port 'a'"),
        ({**TAP, "netns": "x"}, {**TAP, "netns": "x"}, "device sw0 in namespace x belongs to port 'a'"),
        (TAP, {"kind": "packet", "device": "sw0"}, "device sw0 belongs to port 'a'"),
        ({"kind": "xdp", "device": "e"}, {"kind": "xdp", "device": "e", "queue": 0}, "device e queue 0 belongs to port 'a'"),
        (UDP, UDP, "local \"127.0.0.1:7000\" belongs to port 'a'"),
        ({"kind": "pcap", "write": "x.pcap"}, {"kind": "pcap", "write": "./x.pcap"}, "the file .* belongs to port 'a'"),
        ({**TAP, "netns": "x"}, {**TAP, "netns": "y"}, None),
        (TAP, {**TAP, "netns": "y"}, None),
        ({"kind": "xdp", "device": "e"}, {"kind": "xdp", "device": "e", "queue": 1}, None),
        ({"kind": "pcap", "read": "x.pcap"}, {"kind": "pcap", "read": "x.pcap"}, None),
        (UDP, {**UDP, "local": "127.0.0.1:7002"}, None),
    ],
)
def test_nothing_is_given_to_two_ports(one, other, message):
    """Neither an address nor a device; otherwise the second would get nothing, or the switch would not start."""
    content = {"port": [{"name": "a", "addresses": [A], **one}, {"name": "b", "addresses": [B], **other}]}
    with pytest.raises(SpecError, match=message) if message else contextlib.nullcontext():
        validate_spec(content)
