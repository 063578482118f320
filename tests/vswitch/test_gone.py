"""Interfaces that are deleted, moved and changed while the switch runs, and namespaces that are made anew."""

import contextlib
import os
import select
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from daemons import running
from proven import accounted
from test_lab import FORBIDDEN
from waiting import LIMIT_S, until

from penstock_net.cli import main
from penstock_net.vswitch.attach.lab import Namespace
from penstock_net.vswitch.daemon import protocol
from penstock_net.vswitch.linux import netns
from penstock_net.vswitch.linux.netns import NetNs

pytestmark = pytest.mark.skipif(bool(FORBIDDEN), reason="; ".join(FORBIDDEN))
A, B = "10.76.0.1", "10.76.0.2"
COMMAND = [sys.executable, "-c", "import sys; from penstock_net.cli import main; sys.exit(main())", "vswitch"]
NAMES = f"gone{os.getpid()}a", f"gone{os.getpid()}b"


def ip(*words):
    return subprocess.run(("ip", *words), check=True, capture_output=True, text=True).stdout


def path_of(space):
    return f"/proc/{os.getpid()}/fd/{space.fd}"


def tap(name, address, where, **keys):
    return {"name": name, "addresses": [address], "kind": "tap", "device": "sw0", "netns": where, **keys}


@contextlib.contextmanager
def named():
    """Two namespaces with names, such as `ip netns add` makes."""
    for name in NAMES:
        ip("netns", "add", name)
    try:
        yield NAMES
    finally:
        for name in NAMES:
            subprocess.run(("ip", "netns", "del", name), capture_output=True)


@contextlib.contextmanager
def pair(tmp_path, left=None, right=None):
    """A switch with TAPs in two namespaces with names."""
    with named() as (a, b):
        spec = {"port": [tap("a", A, a, **(left or {})), tap("b", B, b, **(right or {}))]}
        with running(tmp_path / "s.sock", spec) as daemon:
            ready(daemon, 2)
            yield daemon, spec


def ready(daemon, taps):
    """Wait until a switch has so many TAPs with edges, and has looked at each once, the last of what it begins."""
    until(lambda: sum("edge" in row["device"] for row in protocol.ask(daemon.path, {"show": "ports"})["ports"]) == taps)
    until(lambda: daemon.keeper and len(daemon.keeper.kept) >= taps and not any(each.again for each in daemon.keeper.kept))


@contextlib.contextmanager
def inside(name):
    """A socket's place: what is opened in the `with` belongs to the namespace."""
    space = netns.open_netns(name)
    try:
        yield space
    finally:
        space.close()


def udp(name, address=None):
    """A UDP socket in a namespace, bound to port 9000 of an address."""
    with inside(name) as space, space.enter():
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.settimeout(60)
        s.bind((address or "0.0.0.0", 9000 if address else 0))
        return s


def row(daemon, port):
    return next(row for row in protocol.ask(daemon.path, {"show": "ports"})["ports"] if row["port"] == port)


def state(daemon, port):
    return row(daemon, port)["state"]


def becomes(daemon, port, wanted):
    """Wait until a port has this state; what the switch says about it."""
    until(lambda: state(daemon, port) == wanted, f"{port} is {wanted}: {row(daemon, port)}")
    return row(daemon, port)["device"]["why"]


def counted(daemon, port):
    """What came to a port, and what became of it: counters of its device."""
    found = row(daemon, port)["device"]
    return {key: found[key] for key in ("frames_out", "errors_out", "queued_when_gone", "device_gone")}


def send(name, count, address=B):
    """Datagrams, each in a frame of its own; returns how many were sent."""
    with contextlib.closing(udp(name)) as s:
        for _ in range(count):
            s.sendto(b"x" * 100, (address, 9000))
    return count


def passes(source, address, place):
    """Whether datagrams pass: one is sent again and again until one arrives, each time as soon as none came for a while."""
    with contextlib.closing(udp(place, address)) as to, contextlib.closing(udp(source)) as s:
        for _ in range(600):
            s.sendto(b"hello", (address, 9000))
            if select.select([to], [], [], 0.1)[0]:
                return bool(to.recv(100))
    return False


def events(daemon, port):
    return [row["event"] for row in daemon.events.rows() if row["port"] == port]


def held(pid="self"):
    """Namespaces that a process has descriptors of, sockets in them apart."""
    found = set()
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            if (text := os.readlink(fd)).startswith("net:"):
                found.add(text)
    return found


# ---- Interfaces ----


def test_a_deleted_interface_is_gone_and_what_comes_to_it_is_counted(tmp_path, caplog):
    caplog.set_level("INFO", "penstock_net.vswitch")
    with pair(tmp_path) as (daemon, _):
        assert passes(NAMES[0], B, NAMES[1])
        ip("-n", NAMES[1], "link", "del", "sw0")
        why = becomes(daemon, "b", "gone")
        assert "sw0 in namespace" in why and "`reload`" in why
        before = counted(daemon, "b")["device_gone"]
        sent = send(NAMES[0], 200)
        until(lambda: counted(daemon, "b")["device_gone"] == before + sent)
        found = protocol.ask(daemon.path, {"show": "losses"})["losses"]
        assert ("b", "device_gone", "lost") in [(each["port"], each["reason"], each["kind"]) for each in found]
        assert "port gone" in events(daemon, "b")
        assert [record.levelname for record in caplog.records if "port gone" in record.getMessage()] == ["WARNING"]
        assert 'port_state{port="b",penstock_vswitch_port_state="gone"} 1' in daemon._metrics()


def test_what_waits_for_a_slow_program_is_lost_with_its_interface(tmp_path):
    with pair(tmp_path) as (daemon, _), contextlib.closing(udp(NAMES[1], B)):  # which is not read
        send(NAMES[0], 1000)
        until(lambda: row(daemon, "a")["device"]["frames_in"] >= 1000 or row(daemon, "a")["device"]["edge"]["classes"])
        passed = row(daemon, "b")["device"]["frames_out"]
        parked = until(lambda: protocol.ask(daemon.path, {"show": "balance"})["balance"]["parked"])
        ip("-n", NAMES[1], "link", "del", "sw0")
        becomes(daemon, "b", "gone")
        until(lambda: not protocol.ask(daemon.path, {"show": "balance"})["balance"]["parked"])
        found = protocol.ask(daemon.path, {"show": "balance"})["balance"]
        lost = sum(found["lost"].get(reason, 0) for reason in ("queued_when_gone", "errors_out", "device_gone"))
        passed = row(daemon, "b")["device"]["frames_out"] - passed  # after the first look
        accounted(found)
        assert lost and lost + passed >= parked, (found, passed)


def test_reload_makes_a_deleted_interface_again(tmp_path, capsys):
    file = tmp_path / "s.toml"
    with pair(tmp_path) as (daemon, spec):
        ports = "".join(
            f'[[port]]\nname = "{p["name"]}"\naddresses = ["{p["addresses"][0]}"]\nkind = "tap"\ndevice = "sw0"\n'
            f'netns = "{p["netns"]}"\n'
            for p in spec["port"]
        )
        file.write_text(ports)
        ip("-n", NAMES[1], "link", "del", "sw0")
        becomes(daemon, "b", "gone")
        assert main(["vswitch", "reload", str(file), "--socket", daemon.path]) == 0
        assert "ports a, b" in capsys.readouterr().out
        assert state(daemon, "b") == "up" and passes(NAMES[0], B, NAMES[1]) and passes(NAMES[1], A, NAMES[0])
        ip("netns", "del", NAMES[1])
        becomes(daemon, "b", "gone")
        assert main(["vswitch", "reload", str(file), "--socket", daemon.path]) == 1
        shown = capsys.readouterr().out
        assert "ports a\n" in shown and "not up: port b: gone: " in shown and "none of that name" in shown


def test_an_interface_that_another_program_makes_again_is_taken(tmp_path):
    with pair(tmp_path) as (daemon, _):
        ip("-n", NAMES[1], "link", "del", "sw0")
        becomes(daemon, "b", "gone")
        ip("-n", NAMES[1], "link", "add", "sw0", "type", "veth", "peer", "name", "veth1")
        until(lambda: "tap sw0" in row(daemon, "b")["device"]["why"])
        assert state(daemon, "b") == "gone"
        ip("-n", NAMES[1], "link", "del", "sw0")
        ip("-n", NAMES[1], "tuntap", "add", "sw0", "mode", "tap", "vnet_hdr")
        becomes(daemon, "b", "up")
        assert passes(NAMES[0], B, NAMES[1])


def test_an_interface_that_is_moved_away_and_back(tmp_path):
    with Namespace("elsewhere") as elsewhere, pair(tmp_path) as (daemon, _):
        ip("-n", NAMES[1], "link", "set", "sw0", "netns", path_of(elsewhere))
        assert "moved to another namespace" in becomes(daemon, "b", "gone")
        send(NAMES[0], 50)
        until(lambda: counted(daemon, "b")["device_gone"] >= 50)
        elsewhere.run("ip", "link", "set", "sw0", "netns", f"/run/netns/{NAMES[1]}")
        becomes(daemon, "b", "up")
        assert passes(NAMES[0], B, NAMES[1]) and passes(NAMES[1], A, NAMES[0])


def test_another_ethernet_address_is_followed(tmp_path):
    with pair(tmp_path) as (daemon, _):
        assert passes(NAMES[0], B, NAMES[1])
        ip("-n", NAMES[1], "link", "set", "sw0", "address", "02:00:00:00:77:77")
        assert passes(NAMES[0], B, NAMES[1]) and passes(NAMES[1], A, NAMES[0])
        until(lambda: "PERMANENT" in ip("-n", NAMES[1], "neighbour", "show", A))
        assert "address" in events(daemon, "b")
        assert state(daemon, "b") == "up"


def test_an_interface_that_is_down_for_a_moment_loses_nothing(tmp_path):
    """Frames to it wait; its routes, neighbours and IPv6 addresses are there again afterwards."""
    keys = {"addresses": [B, "fd76::2"], "routes": ["10.77.0.0/16"]}
    with pair(tmp_path, None, keys) as (daemon, _), contextlib.closing(udp(NAMES[1], B)) as to:
        send(NAMES[1], 1, A)
        until(lambda: "PERMANENT" in ip("-n", NAMES[1], "neighbour", "show", A))
        before = counted(daemon, "b")
        ip("-n", NAMES[1], "link", "set", "sw0", "down")
        sent = send(NAMES[0], 40)
        ip("-n", NAMES[1], "link", "set", "sw0", "up")
        for _ in range(sent):
            assert to.recv(1000)
        after = counted(daemon, "b")
        assert after["errors_out"] == before["errors_out"] and after["device_gone"] == 0
        until(lambda: "fd76::2" in ip("-n", NAMES[1], "address", "show", "sw0"))
        until(lambda: "10.77.0.0/16 dev sw0" in ip("-n", NAMES[1], "route"))
        until(lambda: "PERMANENT" in ip("-n", NAMES[1], "neighbour", "show", A))
        becomes(daemon, "b", "up")


def test_an_interface_that_stays_down_is_shown_and_its_frames_counted(tmp_path):
    with pair(tmp_path) as (daemon, _):
        ip("-n", NAMES[1], "link", "set", "sw0", "down")
        assert "is down" in becomes(daemon, "b", "down")
        before = counted(daemon, "b")["errors_out"]
        send(NAMES[0], 30)
        until(lambda: counted(daemon, "b")["errors_out"] >= before + 30)
        ip("-n", NAMES[1], "link", "set", "sw0", "up")
        becomes(daemon, "b", "up")
        assert passes(NAMES[0], B, NAMES[1])


def test_what_an_interface_lacks_is_said_and_reload_gives_it_back(tmp_path):
    with pair(tmp_path, None, {"mtu": 1400}) as (daemon, spec):
        ip("-n", NAMES[1], "address", "del", f"{B}/24", "dev", "sw0")
        assert f"lacks its address {B}" in becomes(daemon, "b", "changed")
        assert protocol.ask(daemon.path, {"reload": spec})["not_up"] == {}
        assert state(daemon, "b") == "up" and f"{B}/24" in ip("-n", NAMES[1], "address", "show", "sw0")
        ip("-n", NAMES[1], "link", "set", "sw0", "mtu", "1300")
        assert "an MTU of 1300, not 1400" in becomes(daemon, "b", "changed")
        ip("-n", NAMES[1], "link", "set", "sw0", "mtu", "1400")
        becomes(daemon, "b", "up")
        ip("-n", NAMES[1], "link", "set", "sw0", "name", "sw7")
        assert "is named sw7 now: ip link set sw7 name sw0" in becomes(daemon, "b", "changed")
        assert passes(NAMES[0], B, NAMES[1])
        ip("-n", NAMES[1], "link", "set", "sw7", "name", "sw0")
        becomes(daemon, "b", "up")


def test_an_interface_has_the_addresses_that_its_port_is_given(tmp_path):
    """Also those that the kernel takes away with the first one of their network; the routes, and what another program gave it."""

    def addresses():
        shown = ip("-n", NAMES[1], "-oneline", "address", "show", "sw0")
        return {line.split()[3] for line in shown.splitlines() if " scope link" not in line}

    more, six, own = "10.76.0.9", "fd76::2", "10.99.0.1/32"
    with pair(tmp_path, None, {"addresses": [B, more, six], "routes": ["10.98.0.0/16"]}) as (daemon, spec):
        ip("-n", NAMES[1], "address", "add", own, "dev", "sw0")
        ip("-n", NAMES[1], "link", "set", "sw0", "txqueuelen", "77777")
        assert addresses() == {f"{B}/24", f"{more}/24", f"{six}/64", own}
        protocol.ask(daemon.path, {"set": {"port.b.addresses": [more, "fd76::3", "10.76.0.7"]}})
        assert addresses() == {f"{more}/24", "10.76.0.7/24", "fd76::3/64", own}
        assert "10.98.0.0/16" in ip("-n", NAMES[1], "route") and "qlen 77777" in ip("-n", NAMES[1], "link", "show", "sw0")
        assert passes(NAMES[0], "10.76.0.7", NAMES[1]) and state(daemon, "b") == "up"
        ip("-n", NAMES[1], "address", "del", "10.76.0.7/24", "dev", "sw0")  # it has no such address when the switch removes it
        protocol.ask(daemon.path, {"reload": spec})
        assert addresses() == {f"{B}/24", f"{more}/24", f"{six}/64", own} and passes(NAMES[0], B, NAMES[1])
        becomes(daemon, "b", "up")


# ---- Namespaces ----


def test_a_namespace_that_is_made_anew_gets_an_interface_and_the_old_one_vanishes(tmp_path, uncollected):
    """Several times, while datagrams are sent there: none is unaccounted for, and nothing is left behind."""
    with pair(tmp_path) as (daemon, _):
        over, sent = threading.Event(), [0]

        def traffic():
            with contextlib.closing(udp(NAMES[0])) as s:
                while not over.wait(0.001):
                    s.sendto(b"x" * 100, (B, 9000))
                    sent[0] += 1

        assert passes(NAMES[0], B, NAMES[1])
        first = counted_in(daemon, "a")
        sender = threading.Thread(target=traffic)
        sender.start()
        descriptors = threads = 0
        try:
            for turn in range(5):
                old = os.stat(f"/run/netns/{NAMES[1]}").st_ino
                ip("netns", "del", NAMES[1])
                becomes(daemon, "b", "gone")
                assert f"net:[{old}]" not in held()
                vanishes(old)
                if turn == 0:  # the reason names another one: no event
                    ip("netns", "add", f"{NAMES[1]}x")
                    try:
                        until(lambda: f"{NAMES[1]}x" in row(daemon, "b")["device"]["why"])
                    finally:
                        ip("netns", "del", f"{NAMES[1]}x")
                ip("netns", "add", NAMES[1])
                becomes(daemon, "b", "up")
                assert passes(NAMES[0], B, NAMES[1])
                if turn == 0:
                    descriptors, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
        finally:
            over.set()
            sender.join()
        until(lambda: counted_in(daemon, "a") >= first + sent[0])
        accounted(protocol.ask(daemon.path, {"show": "balance"})["balance"])
        until(lambda: len(os.listdir("/proc/self/fd")) <= descriptors and threading.active_count() <= threads, "nothing is left")
        assert events(daemon, "b").count("port gone") == 5
        assert counted(daemon, "b")["device_gone"] > 0


def counted_in(daemon, port):
    return row(daemon, port)["device"]["frames_in"]


def test_a_port_that_is_removed_while_its_namespace_comes_back_ends_nothing(tmp_path):
    """The switch forgets a port before its keeper does, which went on with nothing else once."""
    with pair(tmp_path) as (daemon, _):
        ip("netns", "del", NAMES[1])
        becomes(daemon, "b", "gone")
        ports, daemon.ports = daemon.ports, {"a": daemon.ports["a"]}
        ip("netns", "add", NAMES[1])
        kept = next(each for each in daemon.keeper.kept if each.name == "b")
        until(lambda: kept.state == "up" and not kept.again)
        daemon.ports = ports
        assert daemon.keeper.thread.is_alive() and passes(NAMES[0], B, NAMES[1])


def test_a_file_of_that_name_that_is_no_namespace_yet(tmp_path):
    """`ip netns add` makes a file and then mounts the namespace on it."""
    with pair(tmp_path) as (daemon, _):
        ip("netns", "del", NAMES[1])
        becomes(daemon, "b", "gone")
        file = Path("/run/netns", NAMES[1])
        file.touch()
        until(lambda: "is no network namespace" in row(daemon, "b")["device"]["why"])
        file.unlink()
        ip("netns", "add", NAMES[1])
        becomes(daemon, "b", "up")


def vanishes(inode):
    """Wait until a network namespace does not exist, as far as processes, mounts and descriptors can tell."""
    command = ("lsns", "-t", "net", "-n", "-o", "NS")
    until(lambda: str(inode) not in subprocess.run(command, capture_output=True, text=True).stdout.split(), "the old namespace")


def test_a_namespace_by_its_path(tmp_path):
    """It is a link, such as `ln -s /proc/PID/ns/net /run/netns/NAME`: no event tells of it, so it is looked at twice a second."""
    link = tmp_path / "space"
    with Namespace("one") as one, Namespace("two") as two, Namespace("other") as other:
        os.symlink(path_of(one), link)
        spec = {"port": [tap("a", A, path_of(other)), tap("b", B, str(link))]}
        with running(tmp_path / "s.sock", spec) as daemon:
            ready(daemon, 2)
            os.unlink(link)
            becomes(daemon, "b", "gone")
            assert not is_there(one)
            os.symlink(path_of(two), link)
            becomes(daemon, "b", "up")
            assert is_there(two) and passes(path_of(other), B, path_of(two))


def is_there(space: NetNs):
    with space.enter():
        return "sw0" in [name for _, name in socket.if_nameindex()]


def test_a_socket_of_the_overlay_does_not_keep_its_namespace(tmp_path):
    """It is opened anew in the next one of that name, and the peer goes on."""
    a = NAMES[0]
    ends = {"local": "127.0.0.1:7000", "peer": "127.0.0.1:7001"}
    with named():
        for name in NAMES:
            ip("-n", name, "link", "set", "lo", "up")
        wire = {"name": "wire", "addresses": [B], "kind": "udp", "netns": a, **ends}
        with running(tmp_path / "s.sock", {"port": [tap("a", A, a), wire]}) as daemon:
            ready(daemon, 1)
            old = os.stat(f"/run/netns/{a}").st_ino
            ip("netns", "del", a)
            becomes(daemon, "wire", "gone")
            becomes(daemon, "a", "gone")
            vanishes(old)
            ip("netns", "add", a)  # without `lo`, there is no such address
            until(lambda: state(daemon, "a") == "up" and "not an address" in row(daemon, "wire")["device"]["why"])
            ip("-n", a, "link", "set", "lo", "up")
            becomes(daemon, "wire", "up")


def test_a_packet_port_takes_an_interface_that_was_made_again(tmp_path):
    """Its hosts have other Ethernet addresses then."""
    a, b = NAMES

    def make():
        ip("-n", a, "link", "add", "v0", "type", "veth", "peer", "name", "sw0", "netns", b)
        ip("-n", a, "link", "set", "v0", "up")
        ip("-n", b, "link", "set", "sw0", "up")
        ip("-n", b, "address", "add", f"{B}/24", "dev", "sw0")

    with Namespace("left") as left, named():
        make()
        far = {"name": "b", "addresses": [B], "kind": "packet", "device": "v0", "netns": a}
        with running(tmp_path / "s.sock", {"port": [tap("a", A, path_of(left)), far]}) as daemon:
            ready(daemon, 1)
            assert passes(path_of(left), B, b)
            ip("-n", a, "link", "del", "v0")
            becomes(daemon, "b", "gone")
            send(path_of(left), 20)
            until(lambda: counted(daemon, "b")["device_gone"] >= 20)
            make()
            becomes(daemon, "b", "up")
            assert passes(path_of(left), B, b)
            ip("-n", a, "link", "set", "v0", "down")
            becomes(daemon, "b", "down")
            ip("-n", a, "link", "set", "v0", "up")
            becomes(daemon, "b", "up")


def test_a_plugged_tap_that_is_deleted_is_unplugged(tmp_path):
    path = str(tmp_path / "s.sock")
    with running(path, {"port": [{"name": "p", "addresses": [A]}]}) as daemon, Namespace("left") as left:
        plug = left.start(*COMMAND, "plug", "p", "--socket", path)
        assert "is port p" in plug.stdout.readline()
        left.run("ip", "link", "del", "tap0")
        plug.wait(LIMIT_S)
        assert "unplugged" in plug.stdout.read()
        until(lambda: not daemon.plugged)


# ---- Queueing disciplines ----


def test_a_queueing_discipline_that_is_deleted_comes_back(tmp_path):
    with pair(tmp_path) as (daemon, _):
        tc("qdisc", "del", "dev", "sw0", "root")
        until(lambda: "htb 1:" in tc("qdisc", "show", "dev", "sw0"))
        becomes(daemon, "b", "up")


def test_a_queueing_discipline_of_another_program_is_said_and_reload_replaces_it(tmp_path):
    with pair(tmp_path) as (daemon, spec):
        tc("qdisc", "replace", "dev", "sw0", "root", "pfifo", "limit", "1000")
        assert "another program has set the queueing discipline pfifo" in becomes(daemon, "b", "edge failed")
        assert "edge failed" in events(daemon, "b") and state(daemon, "a") == "up"
        assert protocol.ask(daemon.path, {"reload": spec})["not_up"] == {}
        assert state(daemon, "b") == "up" and "htb 1:" in tc("qdisc", "show", "dev", "sw0")
        assert row(daemon, "b")["device"]["edge"]["failed"] == 0
        tc("qdisc", "replace", "dev", "sw0", "root", "tbf", "rate", "1mbit", "burst", "32kbit", "latency", "400ms")
        becomes(daemon, "b", "edge failed")
        tc("qdisc", "del", "dev", "sw0", "root")
        becomes(daemon, "b", "up")


def tc(*words):
    return subprocess.run(("tc", "-n", NAMES[1], *words), check=True, capture_output=True, text=True).stdout
