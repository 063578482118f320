"""TAPs as an operator expects them: MTU, routes, namespaces, and what stays over a restart; with programs in namespaces."""

import contextlib
import os
import re
import signal
import socket
import subprocess

import pytest
from daemons import UP, ended, running
from test_lab import FORBIDDEN, PONG
from waiting import until

from penstock_net.errors import PenstockError, SpecError
from penstock_net.vswitch.attach.devices import link_local, validate_device
from penstock_net.vswitch.attach.lab import Namespace
from penstock_net.vswitch.daemon import protocol
from penstock_net.vswitch.daemon.server import Daemon
from penstock_net.vswitch.linux import netns

A, B = "10.78.0.1", "10.78.0.2"
real = pytest.mark.skipif(bool(FORBIDDEN), reason="; ".join(FORBIDDEN))


def path_of(space):
    """A namespace of this process, as a path."""
    return f"/proc/{os.getpid()}/fd/{space.fd}"


def tap(name, address, space, **keys):
    return {"name": name, "addresses": [address], "kind": "tap", "device": "sw0", "netns": path_of(space), **keys}


@contextlib.contextmanager
def pair(tmp_path, left=None, right=None):
    """Two namespaces and a switch whose TAPs are in them; extra keys of both ports."""
    with Namespace("left") as a, Namespace("right") as b:
        ports = [tap("a", A, a, **(left or {})), tap("b", B, b, **(right or {}))]
        with running(tmp_path / "switch.sock", {"port": ports}) as daemon:
            until(lambda: len(rows(daemon)) == len(ports))
            yield a, b, daemon


def rows(daemon):
    return {row["port"]: row for row in protocol.ask(daemon.path, {"show": "ports"})["ports"]}


def pong(space):
    """A program that sends back each datagram to its port 9000."""
    program = space.start("python3", "-c", PONG)
    assert program.stdout.readline().strip() == "ready"
    return program


def ask(space, address, payload=b"question", family=socket.AF_INET):
    with space.socket(family, socket.SOCK_DGRAM) as s:
        s.settimeout(60)
        s.sendto(payload, (address, 9000))
        assert s.recv(65_000) == payload


# ---- Keys that are refused ----

TAP = {"name": "a", "addresses": [A], "kind": "tap", "device": "sw0"}


@pytest.mark.parametrize(
    "keys, says",
    [
        ({"mtu": 67}, "67"),
        ({"mtu": 65_522}, "65522"),
        ({"mtu": "big"}, "must be a whole number"),
        ({"mtu": True}, "must be a whole number"),
        ({"mtu": 1279, "addresses": ["fd78::1"]}, "IPv6 needs at least 1280"),
        ({"mtu": 9199, "super_frames": False}, "at most 9198, or super_frames = true"),
        ({"routes": "10.0.0.0/8"}, "must be a list"),
        ({"routes": ["10.0.0.1/8"]}, "must be prefixes"),
        ({"routes": [8]}, "must be prefixes"),
        ({"persistent": 1}, "persistent"),
        ({"broadcast": "yes"}, "broadcast"),
        ({"netns": "a b"}, "a name, a path, or a process ID"),
        ({"netns": 0}, "netns"),
        ({"netns": True}, "a name, a path, or a process ID"),
    ],
)
def test_keys_that_are_refused(keys, says):
    with pytest.raises(SpecError, match=re.escape(says)):
        validate_device({**TAP, **keys}, "port 1")


@pytest.mark.parametrize(
    "keys", [{"mtu": 68}, {"mtu": 65_521}, {"mtu": 9198, "super_frames": False}, {"routes": ["0.0.0.0/0", "::/0"]}]
)
def test_keys_that_are_taken(keys):
    assert validate_device({**TAP, **keys}, "port 1").items() >= keys.items()


def test_the_link_local_address_of_an_ethernet_address():
    assert link_local(bytes.fromhex("021122334455")) == "fe80::11:22ff:fe33:4455"


# ---- Namespaces ----


@real
def test_a_namespace_by_path_and_by_process(tmp_path):
    with Namespace("here") as space:
        sleeper = space.start("sleep", "1000")
        inode = os.stat(path_of(space)).st_ino
        for which in (path_of(space), sleeper.pid, f"/proc/{sleeper.pid}/ns/net"):
            namespace = netns.open_netns(which)
            assert os.stat(f"/proc/self/fd/{namespace.fd}").st_ino == inode
            namespace.close()
    file = tmp_path / "file"
    file.write_text("")
    for which, says in (
        (str(file), "no network namespace"),
        ("/proc/self/ns/pid", "no network"),
        (str(tmp_path / "x"), "opened"),
    ):
        with pytest.raises(SpecError, match=says):
            netns.open_netns(which)
    with pytest.raises(SpecError, match="no process of that number"):
        netns.open_netns(1 << 22)
    with pytest.raises(SpecError, match="none of that name"):
        netns.open_netns("no-such-namespace")


# ---- MTU, routes ----


@real
def test_an_mtu_is_set_and_holds_a_datagram_in_one_frame(tmp_path):
    with pair(tmp_path, {"mtu": 9000}, {"mtu": 9000}) as (left, right, daemon):
        assert " mtu 9000 " in left.run("ip", "link", "show", "sw0")
        pong(right)
        before = rows(daemon)["a"]["received_frames"]
        ask(left, B, bytes(8900))
        assert rows(daemon)["a"]["received_frames"] == before + 1


@real
def test_a_prefix_behind_a_port_and_a_route_to_it(tmp_path):
    """The switch answers address requests for every address of the prefix, and guards it."""
    keys = {"addresses": [B, "10.79.0.0/16", "fd79::/64"]}
    six = {"addresses": [A, "fd78::1"], "routes": ["10.79.0.0/16", "fd79::/64"]}
    with pair(tmp_path, six, keys | {"routes": ["fd78::/64"]}) as (left, right, daemon):
        right.run("ip", "address", "add", "10.79.3.4/32", "dev", "lo")
        right.run("ip", "address", "add", "fd79::4/128", "dev", "lo", "nodad")
        assert "10.79.0.0/16 dev sw0" in left.run("ip", "route")
        pong(right)
        ask(left, "10.79.3.4")
        with right.socket(socket.AF_INET6, socket.SOCK_DGRAM) as s, left.socket(socket.AF_INET6, socket.SOCK_DGRAM) as t:
            s.bind(("fd79::4", 9001))
            s.settimeout(60)
            t.sendto(b"six", ("fd79::4", 9001))
            data, source = s.recvfrom(100)
            assert data == b"six" and source[0] == "fd78::1"
        assert rows(daemon)["a"]["device"]["answered"] >= 2 and not rows(daemon)["a"]["drops"] and not rows(daemon)["b"]["drops"]
        right.run("ip", "address", "add", "10.80.0.1/32", "dev", "lo")
        with right.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.bind(("10.80.0.1", 0))
            s.sendto(b"x", (A, 9))
            until(lambda: rows(daemon)["b"]["drops"].get("spoofed"))


# ---- Persistent TAPs ----


def state(space):
    return space.run("ip", "address", "show", "sw0")


@real
def test_a_persistent_tap_waits_for_the_next_switch(tmp_path):
    """Over a stop and a kill it keeps its addresses, MTU and routes; without a switch it has no carrier."""
    with Namespace("left") as left, Namespace("right") as right:
        keys = {"persistent": True}
        spec = {"port": [tap("a", A, left, **keys), tap("b", B, right, **keys)]}
        with running(tmp_path / "one.sock", spec) as daemon:
            until(lambda: rows(daemon) and "LOWER_UP" in state(left))
            left.run("ip", "link", "set", "sw0", "mtu", "1400")
            left.run("ip", "address", "add", "10.81.0.1/24", "dev", "sw0")
            left.run("ip", "route", "add", "10.82.0.0/16", "dev", "sw0")
            number = re.search(r"\d+: sw0", state(left))[0]
        assert "NO-CARRIER" in state(left) and number in state(left)
        with left.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.sendto(b"nobody is there, and that is no error", (B, 9000))
        file = tmp_path / "two.toml"
        lines = [f'[switch]\nsocket = "{tmp_path / "two.sock"}"\n']
        for name, address, space in (("a", A, left), ("b", B, right)):
            lines.append(
                f'[[port]]\nname = "{name}"\naddresses = ["{address}"]\nkind = "tap"\ndevice = "sw0"\npersistent = true\n'
            )
            lines.append(f'netns = "{path_of(space)}"\n')
        file.write_text("".join(lines))
        with ended(subprocess.Popen([*UP, str(file)], stdout=subprocess.PIPE, text=True)) as process:
            assert process.stdout.readline().startswith("up: ")
            pong(right)
            ask(left, B)
            process.send_signal(signal.SIGKILL)
            process.wait()
            until(lambda: "NO-CARRIER" in state(left))
        spec["port"][0].pop("persistent")
        with running(tmp_path / "three.sock", spec) as daemon:
            until(lambda: rows(daemon) and "LOWER_UP" in state(left))
            ask(left, B)
            for what in (number, " mtu 1400 ", "10.81.0.1/24", f"{A}/24"):
                assert what in state(left)
            assert "10.82.0.0/16 dev sw0" in left.run("ip", "route")
            with pytest.raises(SpecError, match="in use by another program"):
                Daemon(spec, str(tmp_path / "four.sock")).serve()
        with pytest.raises(PenstockError, match="does not exist"):
            state(left)  # opened without the key, it went with the switch
        assert "NO-CARRIER" in state(right)


@real
def test_an_adopted_tap_takes_the_new_kind_of_frames(tmp_path):
    """A TAP that had super-frames is opened again without them."""
    with Namespace("left") as left, Namespace("right") as right:
        for super_frames in (True, False, True):
            keys = {"persistent": True, "super_frames": super_frames}
            spec = {"port": [tap("a", A, left, **keys), tap("b", B, right, **keys)]}
            with running(tmp_path / "one.sock", spec) as daemon:
                until(lambda d=daemon: rows(d), "it serves")
                server = right.start("python3", "-c", SINK)
                assert server.stdout.readline().strip() == "ready"
                with left.socket(socket.AF_INET, socket.SOCK_STREAM) as s:
                    s.settimeout(60)
                    s.connect((B, 9001))
                    s.sendall(bytes(300_000))
                assert server.stdout.readline().strip() == "300000"
                row = rows(daemon)["a"]
                assert not row["drops"] and (row["received_bytes"] / row["received_frames"] > 2000) == super_frames


SINK = """
import socket
s = socket.create_server(("0.0.0.0", 9001))
print("ready", flush=True)
c, _ = s.accept()
count = 0
while data := c.recv(1 << 16):
    count += len(data)
print(count, flush=True)
"""
