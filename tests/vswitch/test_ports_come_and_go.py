"""Ports that are added to a running switch and removed from it."""

import contextlib
import json
import os
import socket
import threading

import pytest
from daemons import running
from frames import udp as frame
from proven import accounted, certain
from test_gone import FORBIDDEN, A, B, ip, passes, path_of, ready, send, state, tap, udp
from waiting import until

from penstock_net.cli import main
from penstock_net.errors import SpecError
from penstock_net.vswitch.attach.lab import Namespace
from penstock_net.vswitch.client.client import connect
from penstock_net.vswitch.daemon import protocol
from penstock_net.vswitch.daemon.keeper import Keeper
from penstock_net.vswitch.dataplane.switch import Switch
from penstock_net.vswitch.memory.region import Region

INSIDE = ("not_forwarded", "not_delivered")  # reasons of losses between `in` and `out`
needs_taps = pytest.mark.skipif(bool(FORBIDDEN), reason="; ".join(FORBIDDEN))


@contextlib.contextmanager
def two_places(tmp_path, **settings):
    """A switch with a TAP in the first of two namespaces."""
    with contextlib.ExitStack() as stack:
        left, right = (stack.enter_context(Namespace(name)) for name in ("left", "right"))
        daemon = stack.enter_context(running(tmp_path / "s.sock", {"switch": settings, "port": [tap("a", A, path_of(left))]}))
        ready(daemon, 1)
        yield daemon, path_of(left), path_of(right), right


def ask(daemon, **message):
    return protocol.ask(daemon.path, message)


@needs_taps
def test_a_tap_comes_and_goes(tmp_path):
    with two_places(tmp_path) as (daemon, left, right, space):
        for _ in range(2):
            added = ask(daemon, port_add=[tap("b", B, right)])["added"]
            assert added["b"]["kind"] == "tap" and added["b"]["addresses"] == [B]
            assert added["b"]["mac"] in space.run("ip", "link", "show", "sw0")
            assert passes(left, B, right) and passes(right, A, left) and state(daemon, "b") == "up"
            assert set(ask(daemon, port_del=["b"])["removed"]) == {"b"}
            assert "sw0" not in space.run("ip", "link")
            assert [row["port"] for row in ask(daemon, show="ports")["ports"]] == ["a"]
        accounted(ask(daemon, show="balance")["balance"])
        assert ask(daemon, port_del=["b"], missing_ok=True)["removed"] == {}
        with pytest.raises(SpecError, match="no such port"):
            ask(daemon, port_del=["b"])


@needs_taps
def test_what_has_happened_to_a_new_tap_before_it_was_watched_is_seen(tmp_path, monkeypatch):
    """It is looked at once more, though its addresses are told meanwhile."""
    monkeypatch.setattr(Keeper, "start", lambda self: None)
    with (
        Namespace("left") as left,
        Namespace("right") as right,
        running(tmp_path / "s.sock", {"port": [tap("a", A, path_of(left))]}) as daemon,
    ):
        ask(daemon, port_add=[tap("b", B, path_of(right))])
        assert [each.name for each in daemon.keeper.kept if each.again and each in daemon.keeper.polled] == ["a", "b"]


@needs_taps
def test_the_command(tmp_path, capsys):
    with two_places(tmp_path) as (daemon, left, right, _):
        where = ["--socket", daemon.path]
        keys = ["kind=tap", "device=eth0", f"netns={right}", f"addresses={B},10.76.0.9", "mtu=1400"]
        assert main(["vswitch", "port", "add", "pod7", *keys, *where]) == 0
        assert capsys.readouterr().out == f"added: port pod7, tap, {B}, 10.76.0.9\n"
        assert passes(left, B, right) and passes(left, "10.76.0.9", right)
        assert main(["vswitch", "port", "del", "pod7", *where]) == 0
        assert capsys.readouterr().out.startswith("removed: port pod7")
        assert main(["vswitch", "port", "del", "pod7", *where]) == 2


# ---- All or none ----


def everything(daemon):
    """What a request that is refused must leave as it was."""
    rows = [(row["port"], row["addresses"], row["number"]) for row in ask(daemon, show="ports")["ports"]]
    kept = [each.name for each in daemon.keeper.kept] if daemon.keeper else []
    return rows, daemon.ports, ask(daemon, show="settings"), ask(daemon, show="detached"), ask(daemon, show="changes"), kept


@needs_taps
@pytest.mark.parametrize(
    ("last", "says"),
    [
        (tap("c", "10.76.0.3", "/proc/1/ns/none"), "cannot be opened"),
        (tap("c", A, "left"), "belongs to port 'a'"),
        (tap("a", "10.76.0.3", "left"), "exists already"),
        (
            {"name": "c", "addresses": ["10.76.0.3"], "kind": "udp", "local": "10.255.255.1:4000", "peer": "127.0.0.1:4001"},
            "local",
        ),
        ({"name": "c", "addresses": ["10.76.0.3"], "kind": "packet", "device": "none0"}, "no such interface"),
        (tap("c", "10.76.0.3", "left", queues=65536), "switch.flows"),
        (tap("c", "ff02::7", "left", persistent=True), "the kernel refuses it"),
        ({**tap("c", "10.76.0.3", "left"), "device": "lo"}, "not such a TAP"),
        ({"name": "c"}, "addresses"),
    ],
)
def test_a_request_of_which_one_port_fails_changes_nothing(tmp_path, uncollected, last, says):
    with two_places(tmp_path, flows=40_000) as (daemon, left, right, space):
        last = {key: left if value == "left" else value for key, value in last.items()}
        if last.get("device") == "sw0":
            last["device"] = "other0"
        before, files = everything(daemon), len(os.listdir("/proc/self/fd"))
        with pytest.raises(SpecError, match=says):
            ask(daemon, port_add=[tap("b", B, right, persistent=True), last])
        assert everything(daemon) == before
        assert "sw0" not in space.run("ip", "link")
        until(lambda: len(os.listdir("/proc/self/fd")) <= files)
        assert ask(daemon, port_add=[tap("b", B, right)]) and passes(left, B, right)


@needs_taps
def test_a_request_to_remove_ports_of_which_one_is_unknown_removes_none(tmp_path):
    with two_places(tmp_path) as (daemon, left, right, _):
        ask(daemon, port_add=[tap("b", B, right)])
        before = everything(daemon)
        with pytest.raises(SpecError, match="no such port"):
            ask(daemon, port_del=["b", "x"])
        assert everything(daemon) == before and passes(left, B, right)


# ---- What others know of them ----


def neighbours(space):
    return {line.split()[0] for line in space.run("ip", "neigh", "show", "nud", "permanent").splitlines()}


def speak(space, *addresses):
    """Send a datagram to each of these addresses."""
    for address in addresses:
        with space.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.sendto(b"x", (address, 9000))


@needs_taps
def test_an_address_that_was_asked_for_is_a_permanent_neighbour_until_its_port_has_gone(tmp_path):
    with Namespace("left") as left, Namespace("right") as right:
        spec = {"port": [tap("a", A, path_of(left), addresses=[A, "fd00::1"]), {"name": "n", "addresses": ["10.76.0.77"]}]}
        with running(tmp_path / "s.sock", spec) as daemon, contextlib.ExitStack() as stack:
            ready(daemon, 1)
            ask(daemon, port_add=[tap("b", B, path_of(right)), {"name": "m", "addresses": ["10.76.0.78", "fd00::78"]}])
            for name in ("n", "m"):
                stack.enter_context(connect(name, daemon.path))
            assert neighbours(left) == neighbours(right) == set()
            speak(left, "10.76.0.77", "10.76.0.78", "fd00::78", B, "10.76.0.99")
            speak(right, A)
            until(lambda: neighbours(left) == {B, "10.76.0.77", "10.76.0.78", "fd00::78"} and neighbours(right) == {A})
            ask(daemon, set={"port.m.addresses": ["10.76.0.79"]})
            assert neighbours(left) == {B, "10.76.0.77"}
            speak(left, "10.76.0.79")
            until(lambda: neighbours(left) == {B, "10.76.0.77", "10.76.0.79"})
            ask(daemon, set={"port.m.addresses": ["10.76.0.80"], "port.n.addresses": ["10.76.0.79"]})
            assert neighbours(left) == {B, "10.76.0.77", "10.76.0.79"} - {"10.76.0.77"}
            ask(daemon, set={"port.n.addresses": ["10.76.0.81"], "port.a.addresses": [A, "fd00::1", "10.76.0.79"]})
            assert neighbours(left) == {B}
            ask(daemon, port_del=["m", "b"])
            assert neighbours(left) == set() and neighbours(right) == set()


@needs_taps
def test_what_many_sockets_send_while_an_address_is_resolved_waits_for_the_answer(tmp_path):
    """By itself the kernel keeps some 200 KB of its memory, and drops the rest without a count."""
    with two_places(tmp_path) as (daemon, left, right, _):
        ask(daemon, port_add=[tap("b", B, right)])
        begun, over = threading.Event(), threading.Event()
        held = threading.Thread(target=daemon.switch.call, args=(lambda: begun.set() or over.wait(60),))
        held.start()
        assert begun.wait(60)
        with contextlib.closing(udp(right, B)) as receiver, contextlib.ExitStack() as stack:
            for _ in range(20):
                sender = stack.enter_context(contextlib.closing(udp(left)))
                for _ in range(50):
                    sender.sendto(bytes(100), (B, 9000))
            over.set()
            held.join()
            assert sum(len(receiver.recv(200)) == 100 for _ in range(1000)) == 1000


# ---- Files ----


@needs_taps
def test_a_reload_keeps_what_was_added_and_adds_and_removes_what_the_file_does(tmp_path):
    with two_places(tmp_path) as (daemon, left, right, space):
        ask(daemon, port_add=[tap("b", B, right), {"name": "n", "addresses": ["10.76.0.7"]}])
        file = {"port": [tap("a", A, left), tap("c", "10.76.0.3", right, device="sw1")]}
        ask(daemon, reload=file)
        assert set(daemon.ports) == {"a", "b", "c", "n"} and passes(left, B, right) and passes(left, "10.76.0.3", right)
        ask(daemon, reload={"port": [tap("c", "10.76.0.3", right, device="sw1")]})
        assert set(daemon.ports) == {"b", "c", "n"} and "sw0" not in ip("-br", "link")
        with pytest.raises(SpecError, match="belongs to port 'b'"):
            ask(daemon, reload={"port": [{"name": "d", "addresses": [B]}]})
        with pytest.raises(SpecError, match="penstock vswitch port del c"):
            ask(daemon, reload={"port": [tap("c", "10.76.0.3", right, device="sw2")]})
        ask(daemon, reload={"port": [tap("b", B, right)]})  # which is the file's from now on
        assert set(daemon.ports) == {"b", "n"}
        ask(daemon, port_del=["b"])
        ask(daemon, undo=True)
        assert set(daemon.ports) == {"n"}
        ask(daemon, reload={"port": [tap("b", "10.76.0.8", right)]})
        assert daemon.ports["b"]["addresses"] == ["10.76.0.8"] and "sw0" in space.run("ip", "link")


@needs_taps
def test_a_file_of_ports(tmp_path, capsys):
    with two_places(tmp_path) as (daemon, *_):
        file = tmp_path / "ports.toml"
        tables = [f'[[port]]\nname = "p{i}"\naddresses = ["10.76.1.{i}"]\n' for i in range(3)]
        file.write_text("".join(tables))
        assert main(["vswitch", "port", "add", "--file", str(file), "--socket", daemon.path]) == 0
        assert capsys.readouterr().out == "".join(f"added: port p{i}, shm, 10.76.1.{i}\n" for i in range(3))
        file.write_text('[switch]\nmode = "pfc"\n' + tables[0])
        assert main(["vswitch", "port", "add", "--file", str(file), "--socket", daemon.path]) == 2
        assert main(["vswitch", "port", "add", "--socket", daemon.path]) == 2
        assert main(["vswitch", "port", "del", "p0", "p1", "p2", "--json", "--socket", daemon.path]) == 0
        assert json.loads(capsys.readouterr().out) == {f"p{i}": {"lost": {}} for i in range(3)}


# ---- What waits in them ----


@needs_taps
def test_what_waits_in_a_removed_port_is_lost_with_a_reason(tmp_path):
    with two_places(tmp_path) as (daemon, left, right, _):
        ask(daemon, port_add=[tap("b", B, right)])
        with contextlib.closing(udp(right, B)):  # which is not read
            send(left, 1000)
            until(lambda: ask(daemon, show="balance")["balance"]["parked"] > 10)
            lost = ask(daemon, port_del=["a", "b"])["removed"]
        found = ask(daemon, show="balance")["balance"]
        accounted(found)
        assert not found["parked"]
        assert found["in"] == found["out"] + sum(found["lost"].get(reason, 0) for reason in INSIDE)
        assert sum(lost["a"]["lost"].values()) + sum(lost["b"]["lost"].values()) > 10
        assert set(lost["a"]["lost"]) <= {"not_forwarded", "not_read", "no_route"}
        assert set(lost["b"]["lost"]) <= {"not_delivered", "queued_when_gone", "device_gone"}


def test_an_application_is_detached_with_its_port(tmp_path):
    with running(tmp_path / "s.sock", {"port": [{"name": "a", "addresses": [A]}]}) as daemon:
        for _ in range(2):
            ask(daemon, port_add=[{"name": "b", "addresses": [B]}])
            with connect("b", daemon.path) as b:
                b.receive(1, timeout=0)
                assert ask(daemon, port_del=["b"]) == {"removed": {"b": {"lost": {}}}}
                until(lambda: b.gone)
            with pytest.raises(SpecError, match="no such port"):
                connect("b", daemon.path)


def test_a_switch_that_runs_a_scheme_takes_no_ports(tmp_path):
    spec = {"switch": {"scheme": "bfc"}, "port": [{"name": "a", "addresses": [A]}, {"name": "b", "addresses": [B]}]}
    with running(tmp_path / "s.sock", spec) as daemon:
        for message in ({"port_add": [{"name": "c", "addresses": ["10.0.0.3"]}]}, {"port_del": ["b"]}):
            with pytest.raises(SpecError, match="runs a scheme"):
                ask(daemon, **message)


# ---- Others ----


@needs_taps
def test_frames_of_others_pass_in_order_meanwhile(tmp_path):
    ends = [{"name": "x", "addresses": ["10.0.0.1"]}, {"name": "y", "addresses": ["10.0.0.2"]}]
    with contextlib.ExitStack() as stack:
        left = stack.enter_context(Namespace("left"))
        daemon = stack.enter_context(running(tmp_path / "s.sock", {"port": ends}))
        x, y = (stack.enter_context(connect(name, daemon.path)) for name in ("x", "y"))
        sent = got = 0
        for _ in range(3):
            ask_now = threading.Thread(target=ask, args=(daemon,), kwargs={"port_add": [tap("a", A, path_of(left))]})
            ask_now.start()
            while ask_now.is_alive() or got < sent:
                if ask_now.is_alive():
                    sent += x.send(0, [frame("10.0.0.1", "10.0.0.2", payload=b"%9d" % i) for i in range(sent, sent + 8)])
                for _, each in y.receive(32, timeout=0 if ask_now.is_alive() else 60):
                    certain(int(each[-9:]) == got, f"{each[-9:]!r} and not {got}")
                    got += 1
            assert ask(daemon, port_del=["a"])["removed"] == {"a": {"lost": {}}}
        assert got == sent > 0
        accounted(ask(daemon, show="balance")["balance"])


# ---- Many ----


def test_512_ports():
    """Frames pass between the first and the last; one more is refused, and fits once another one is gone."""
    shape = {"rings": 32, "queues": 8, "bells": 16, "buffers": 16, "buffer_bytes": 256}
    apps = [Region.create(**shape) for _ in range(513)]
    addresses = [f"10.{i >> 8}.{i & 255}.1" for i in range(513)]
    switch = Switch()
    for i in range(512):
        assert switch.attach(f"p{i}", Region.attach(apps[i].fd, apps[i].shape), [addresses[i]]) == i
    with pytest.raises(SpecError, match="512 ports already"):
        switch.attach("more", Region.attach(apps[512].fd, apps[512].shape), [addresses[512]])
    there, back = frame(addresses[0], addresses[511]), frame(addresses[511], addresses[0])
    assert apps[0].send(0, [there]) == apps[511].send(0, [back]) == 1
    switch.turns(3)
    assert [each for _, each in apps[511].receive()] == [there] and [each for _, each in apps[0].receive()] == [back]
    switch.detach_name("p100")
    assert switch.attach("more", Region.attach(apps[512].fd, apps[512].shape), [addresses[512]]) == 100
    assert apps[0].send(0, [frame(addresses[0], addresses[512])]) == 1
    switch.turns(3)
    assert len(apps[512].receive()) == 1
    switch.close()
