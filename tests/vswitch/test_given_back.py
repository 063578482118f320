"""Interfaces that were there before the switch, ports that come back with it, and namespaces that are given by a process."""

import contextlib
import json
import os

import pytest
from daemons import ended, running
from test_gone import FORBIDDEN, A, B, becomes, path_of, ready, tap
from test_ports_come_and_go import ask, neighbours, speak
from waiting import until

from penstock_net.cli import main
from penstock_net.errors import SpecError
from penstock_net.vswitch.attach.lab import Namespace
from penstock_net.vswitch.client.client import connect
from penstock_net.vswitch.daemon import kept_ports
from penstock_net.vswitch.linux import netns
from penstock_net.vswitch.linux.htb import ring_frames

pytestmark = pytest.mark.skipif(bool(FORBIDDEN), reason="; ".join(FORBIDDEN))


def prepare(space, up):
    """An interface as an operator makes it."""
    for words in (
        ("tuntap", "add", "sw0", "mode", "tap"),
        ("address", "add", "10.80.0.1/24", "dev", "sw0"),
        ("link", "set", "sw0", "mtu", "1400", "txqueuelen", "77", "up" if up else "down"),
        *((("route", "add", "10.81.0.0/16", "dev", "sw0"),) if up else ()),
    ):
        space.run("ip", *words)


def described(space):
    """What an interface is like, but for its counters."""
    (row,) = json.loads(space.run("ip", "-json", "address", "show", "dev", "sw0"))
    addresses = sorted(each["local"] for each in row["addr_info"] if each["scope"] != "link")
    routes = json.loads(space.run("ip", "-json", "route", "show", "dev", "sw0"))
    return row["mtu"], row["txqlen"], "UP" in row["flags"], addresses, sorted(each["dst"] for each in routes)


@contextlib.contextmanager
def switch(tmp_path):
    with running(tmp_path / "s.sock", {"port": [{"name": "n", "addresses": ["10.76.0.77"]}]}) as daemon:
        until(lambda: daemon.keeper)
        yield daemon


KEYS = {"persistent": True, "mtu": 1300, "routes": ["10.82.0.0/16", "10.81.0.0/16"]}


@pytest.mark.parametrize("up", [False, True])
def test_an_interface_that_was_there_before_is_given_back_as_it_was(tmp_path, up):
    with Namespace() as space, switch(tmp_path) as daemon:
        prepare(space, up)
        before = described(space)
        ask(daemon, port_add=[tap("b", B, path_of(space), **KEYS)])
        assert described(space) == (
            1300,
            ring_frames(),
            True,
            [B, "10.80.0.1"],
            ["10.76.0.0/24", "10.80.0.0/24", "10.81.0.0/16", "10.82.0.0/16"],
        )
        ask(daemon, port_del=["b"])
        assert described(space) == before
        with pytest.raises(SpecError, match="cannot be opened"):
            ask(daemon, port_add=[tap("b", B, path_of(space), **KEYS), tap("c", A, "/proc/1/ns/none")])
        assert described(space) == before


def test_the_ring_keeps_its_length_when_the_interface_was_down(tmp_path):
    """It was shortened to that of a TAP without an edge, with the loss of what did not fit."""
    with Namespace() as space, switch(tmp_path) as daemon:
        ask(daemon, port_add=[tap("b", B, path_of(space), routes=["10.82.0.0/16"])])
        space.run("ip", "link", "set", "sw0", "down")
        becomes(daemon, "b", "down")
        space.run("ip", "link", "set", "sw0", "up")
        until(lambda: "10.82.0.0/16" in described(space)[4], "it is set up again")
        assert described(space)[1] == ring_frames()


def test_a_default_route_is_taken_away_again(tmp_path):
    """`ip` calls it "default", which is not what the port calls it."""
    with Namespace() as space, switch(tmp_path) as daemon:
        prepare(space, True)
        before = described(space)
        ask(daemon, port_add=[tap("b", B, path_of(space), persistent=True, mtu=1400, routes=["0.0.0.0/0", "10.83.0.1/32"])])
        assert "default" in described(space)[4]
        ask(daemon, port_del=["b"])
        assert described(space) == before


def test_one_that_the_switch_has_made_is_removed(tmp_path):
    with Namespace() as space, switch(tmp_path) as daemon:
        ask(daemon, port_add=[tap("b", B, path_of(space), **KEYS)])
        ask(daemon, port_del=["b"])
        assert "sw0" not in space.run("ip", "link")


@pytest.mark.parametrize("was_there", [False, True])
def test_a_kept_port_comes_back_and_its_interface_goes_if_it_was_made_for_it(tmp_path, was_there, capsys):
    with Namespace() as space:
        if was_there:
            prepare(space, True)
        with switch(tmp_path) as daemon:
            keys = ["kind=tap", "device=sw0", f"netns={path_of(space)}", f"addresses={B}", "persistent=true"]
            assert main(["vswitch", "port", "add", "b", *keys, "--keep", "--socket", daemon.path]) == 0
            assert kept_ports.names(daemon.path) == ["b"]
        with switch(tmp_path) as daemon:
            until(lambda: "b" in daemon.devices and ask(daemon, show="ports")["ports"][-1]["port"] == "b")
            ask(daemon, port_del=["b"])
            assert not kept_ports.names(daemon.path)
            assert ("sw0" in space.run("ip", "link")) == was_there


def test_a_process_that_has_the_number_of_one_that_has_ended_is_not_taken_for_it(tmp_path, monkeypatch):
    path_before = netns.path_of
    with Namespace("left") as left, Namespace("right") as right, ended(left.start("sleep", "600")) as first:
        second = right.start("sleep", "600")
        with running(tmp_path / "s.sock", {"port": [tap("a", A, first.pid)]}) as daemon:
            ready(daemon, 1)
            monkeypatch.setattr(netns, "path_of", lambda which: path_before(second.pid if which == first.pid else which))
            assert f"process {first.pid} has ended" in becomes(daemon, "a", "gone")
            assert "sw0" not in right.run("ip", "link") and not daemon.devices["a"].namespace
            assert ask(daemon, reload={"port": [tap("a", A, first.pid)]})["not_up"] == {}
            assert "sw0" in right.run("ip", "link")


def test_when_its_process_has_ended_a_namespace_is_not_kept(tmp_path):
    with Namespace("left") as left, contextlib.ExitStack() as stack:
        process = stack.enter_context(ended(left.start("sleep", "600")))
        daemon = stack.enter_context(running(tmp_path / "s.sock", {"port": [tap("a", A, process.pid)]}))
        ready(daemon, 1)
        process.kill()
        process.wait()
        assert "no process of that number" in becomes(daemon, "a", "gone")
        found = []
        for fd in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                found.append(os.readlink(f"/proc/self/fd/{fd}"))
        assert found.count(f"net:[{os.fstat(left.fd).st_ino}]") == 1, "the test's own"


def test_permanent_neighbours_from_an_earlier_switch_go_with_their_ports(tmp_path):
    with Namespace() as space:
        port = tap("a", A, path_of(space), persistent=True)
        others = [{"name": name, "addresses": [address]} for name, address in (("n", "10.76.0.77"), ("m", "10.76.0.78"))]
        with running(tmp_path / "s.sock", {"port": [port, *others]}) as daemon, contextlib.ExitStack() as stack:
            ready(daemon, 1)
            for other in others:
                stack.enter_context(connect(other["name"], daemon.path))
            speak(space, "10.76.0.77", "10.76.0.78")
            until(lambda: neighbours(space) == {"10.76.0.77", "10.76.0.78"})
        assert neighbours(space) == {"10.76.0.77", "10.76.0.78"}
        with running(tmp_path / "s.sock", {"port": [port, others[0]]}) as daemon:
            ready(daemon, 1)
            assert neighbours(space) == {"10.76.0.77"}
            ask(daemon, port_del=["n"])
            assert neighbours(space) == set()
