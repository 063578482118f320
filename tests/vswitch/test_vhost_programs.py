"""Front ends as users have them, at a port of a switch: a DPDK program, and a virtual machine of QEMU that boots by network."""

import contextlib
import os
import shutil
import socket
import struct
import subprocess

import pytest
from daemons import ended, running
from frames import payload_of, udp
from vhost_front_end import FrontEnd, connect
from waiting import until

from penstock_net.cli import main
from penstock_net.errors import SpecError
from penstock_net.vswitch.attach.devices import Device, ethernet_address, validate_device
from penstock_net.vswitch.attach.open import open_link, open_port
from penstock_net.vswitch.daemon import protocol
from penstock_net.vswitch.daemon.config import validate_spec
from penstock_net.vswitch.daemon.descriptors import needed
from penstock_net.vswitch.dataplane.driver import attach_device
from penstock_net.vswitch.dataplane.switch import Switch

GUEST, OTHER = "10.0.0.1", "10.0.0.2"
GUEST_MAC, OTHER_MAC = bytes.fromhex("525400000001"), bytes.fromhex("020000000002")
ALL = b"\xff" * 6
TESTPMD, QEMU = shutil.which("dpdk-testpmd"), shutil.which("qemu-system-x86_64")
ROM = "/usr/lib/ipxe/qemu/efi-virtio.rom"


@contextlib.contextmanager
def switched(path, server):
    """A running switch between a vhost-user port and a link: the link's other end, and the port."""
    end, wire = open_link(rate="8Tbps", delay=0, headers=False)
    with contextlib.ExitStack() as last:
        last.callback(end.close)
        last.callback(wire.close)
        port = last.enter_context(open_port("vhost-user", path=path, server=server, headers=False, pairs=2))
        switch = Switch()
        guest = Device(port, mac=GUEST_MAC, broadcast=True)
        attach_device(switch, "guest", guest, [GUEST, GUEST_MAC.hex(":")], guarded=False)
        attach_device(switch, "wire", Device(wire, mac=OTHER_MAC, broadcast=True), [OTHER], guarded=False)
        switch.start()
        last.callback(switch.stop)
        yield end, port


def receive(end, wanted):
    """The next frame for which `wanted` says something; that."""

    def look():
        while (frame := end.receive()) is not None:
            if found := wanted(frame):
                return found
        return None

    return until(look)


def checked(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF - total


def packet(source_mac, target_mac, source, target, protocol, body):
    """A frame of IPv4."""
    addresses = socket.inet_aton(source) + socket.inet_aton(target)
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 0, 0, 64, protocol, 0) + addresses
    header = header[:10] + struct.pack("!H", checked(header)) + header[12:]
    return target_mac + source_mac + b"\x08\0" + header + body


def echo_request(number):
    body = struct.pack("!BBHHH", 8, 0, 0, 7, number) + bytes(range(56))
    return packet(OTHER_MAC, GUEST_MAC, OTHER, GUEST, 1, body[:2] + struct.pack("!H", checked(body)) + body[4:])


def echo_reply(frame):
    """The number of an echo reply, from 1 on; else 0."""
    return struct.unpack("!H", frame[40:42])[0] if frame[12:14] == b"\x08\0" and frame[23] == 1 and frame[34] == 0 else 0


def answerer(folder, path, server):
    """A DPDK program that answers pings, at one processor and without huge pages."""
    cpu = min(os.sched_getaffinity(0))
    device = f"net_virtio_user0,mac={GUEST_MAC.hex(':')},path={path},queues=1{'' if server else ',server=1'}"
    own = ["--no-huge", "-m", "64", "--no-pci", "--file-prefix=guest", f"--lcores=0@{cpu},1@{cpu}", "--single-file-segments"]
    own += ["--no-telemetry", "--vdev", device, "--", "--no-mlockall", "--total-num-mbufs=2048", "--forward-mode=icmpecho"]
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(folder), "RUNTIME_DIRECTORY": str(folder)}
    log = (folder / "testpmd.log").open("w")
    with log:
        return subprocess.Popen([TESTPMD, *own, "--auto-start"], stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment)


def is_answered(end):
    """Whether the guest answers by now; it throws away what came while it began."""
    frame = end.receive()
    return (frame is not None and echo_reply(frame)) or not end.send(echo_request(1000))


@pytest.mark.skipif(not TESTPMD, reason="there is no dpdk-testpmd (Debian: dpdk-dev)")
@pytest.mark.parametrize("server", [True, False])
def test_a_dpdk_program_answers_pings(tmp_path, server):
    path = str(tmp_path / "v.sock")
    with switched(path, server) as (end, port):
        for _ in range(2):  # another one takes its place
            with ended(answerer(tmp_path, path, server)) as program:
                until(lambda: is_answered(end) or program.poll() is not None)
                assert program.poll() is None, (tmp_path / "testpmd.log").read_text()
                for number in range(1, 101):
                    assert end.send(echo_request(number))
                answers = [receive(end, echo_reply) for _ in range(100)]
                while answers[-1] < 100:
                    answers.append(receive(end, echo_reply))
                assert [each for each in answers if each <= 100] == list(range(1, 101))
            until(lambda: not port.report()["connected"])
            if not server:
                os.unlink(path)  # a DPDK program does not replace the socket of a dead one
        assert port.report()["protocol_errors"] == port.report()["bad_descriptors"] == 0


def qemu(path, server):
    """A virtual machine without a disk, which asks its network for something to boot."""
    listens = "" if server else ",server=on,wait=off"
    own = ["-accel", "tcg", "-M", "q35", "-m", "64M", "-nodefaults", "-display", "none", "-boot", "n", "-numa", "node,memdev=mem"]
    own += ["-object", "memory-backend-memfd,id=mem,size=64M,share=on"]
    own += ["-chardev", f"socket,id=c0,path={path}{listens}", "-netdev", "vhost-user,id=n0,chardev=c0,vhostforce=on"]
    own += ["-device", f"virtio-net-pci,netdev=n0,mac={GUEST_MAC.hex(':')}"]
    return subprocess.Popen([QEMU, *own], stdin=subprocess.DEVNULL)


def dhcp_message(frame):
    """The kind of a DHCP message from the guest, and its transaction."""
    if frame[12:14] != b"\x08\0" or frame[23] != 17 or frame[36:38] != b"\0\x43" or frame[6:12] != GUEST_MAC:
        return None
    options, at = frame[42 + 240 :], 0
    while at < len(options) and options[at] != 255:
        if options[at] == 53:
            return options[at + 2], frame[46:50]
        at += 1 if options[at] == 0 else 2 + options[at + 1]
    return None


def dhcp_offer(transaction):
    server = socket.inet_aton(OTHER)
    body = struct.pack("!BBBB4sHH", 2, 1, 6, 0, transaction, 0, 0x8000) + bytes(4) + socket.inet_aton(GUEST) + server + bytes(4)
    body += GUEST_MAC.ljust(16, b"\0") + bytes(192) + bytes.fromhex("63825363 350102 3604") + server
    body += bytes.fromhex("3304 00000e10 0104 ffffff00 ff")
    return packet(OTHER_MAC, ALL, OTHER, "255.255.255.255", 17, struct.pack("!HHHH", 67, 68, 8 + len(body), 0) + body)


@pytest.mark.skipif(not QEMU or not os.path.exists(ROM), reason="there is no QEMU (Debian: qemu-system-x86, ipxe-qemu)")
@pytest.mark.parametrize("server", [True, False])
def test_a_virtual_machine_boots_from_its_network(tmp_path, server):
    path = str(tmp_path / "v.sock")
    with switched(path, server) as (end, port), ended(qemu(path, server)):
        kind, transaction = receive(end, dhcp_message)
        assert kind == 1, "DHCPDISCOVER"
        assert end.send(dhcp_offer(transaction))
        assert receive(end, lambda frame: dhcp_message(frame) == (3, transaction)), "DHCPREQUEST: the offer has come to the guest"
        assert port.report()["bad_descriptors"] == port.report()["protocol_errors"] == 0


# ---- In a switch as operators start it ----


def test_a_guest_that_does_not_read_makes_its_senders_wait(tmp_path):
    """Its frames wait in the switch; another guest goes on, and nothing is lost when it reads again."""
    addresses = ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
    paths = [str(tmp_path / f"{name}.v") for name in "abc"]
    ports = [
        {"name": name, "addresses": [address], "kind": "vhost-user", "path": path, "pairs": 1}
        for name, address, path in zip("abc", addresses, paths, strict=True)
    ]
    with running(tmp_path / "s.sock", {"port": ports}) as daemon, contextlib.ExitStack() as last:
        until(lambda: all(os.path.exists(path) for path in paths))
        a, b, c = [last.enter_context(FrontEnd(connect(path))).begin() for path in paths]
        row = lambda i: protocol.ask(daemon.path, {"show": "ports"})["ports"][i]["device"]  # noqa: E731
        b.provide(8)
        for number in range(100):
            a.transmit(udp(addresses[0], addresses[1], payload=number.to_bytes(2, "big")))
        until(lambda: row(0)["frames_in"] == 100 and row(1)["no_room"] > 0)
        c.provide(50)
        for number in range(50):
            a.transmit(udp(addresses[0], addresses[2], payload=number.to_bytes(2, "big")))
        until(lambda: row(2)["frames_out"] == 50)
        assert [payload_of(frame)[:2] for _, frame in c.received()] == [number.to_bytes(2, "big") for number in range(50)]
        assert row(1)["frames_out"] == 8 and row(1)["front_end"]["connected"]
        b.provide(92)
        until(lambda: row(1)["frames_out"] == 100)
        assert [payload_of(frame)[:2] for _, frame in b.received()] == [number.to_bytes(2, "big") for number in range(100)]
        assert all(row(i)["lost"] == row(i)["errors_out"] == 0 for i in range(3))


def test_a_port_without_a_guest_is_not_up(tmp_path, capsys):
    port = {"name": "vm", "addresses": ["10.0.0.1"], "kind": "vhost-user", "path": str(tmp_path / "vm.v"), "pairs": 1}
    with running(tmp_path / "s.sock", {"port": [port]}) as daemon:
        row = lambda: protocol.ask(daemon.path, {"show": "ports"})["ports"][0]  # noqa: E731
        assert row()["state"] == "no guest" and row()["device"]["why"] == "no front end has connected yet"
        assert main(["vswitch", "show", "ports", "--socket", daemon.path]) == 0
        assert "no guest, port vm: no front end has connected yet" in capsys.readouterr().out
        assert 'penstock_vswitch_port_state{port="vm",penstock_vswitch_port_state="no guest"} 1' in daemon._metrics()
        with FrontEnd(connect(port["path"])) as guest:
            until(lambda: row()["device"]["front_end"]["connected"])
            assert row()["state"] == "no guest" and row()["device"]["why"] == "its guest has no rings yet"
            guest.begin()
            until(lambda: row()["state"] == "up" and not row()["device"]["why"])
        until(lambda: row()["state"] == "no guest")
        assert "closed its connection" in row()["device"]["why"]


def test_two_ports_of_one_socket_and_other_keys(tmp_path):
    port = {"name": "a", "addresses": ["10.0.0.1", "52:54:00:00:00:01"], "kind": "vhost-user", "path": str(tmp_path / "v")}
    assert validate_device(port, "port 1")["path"] == str(tmp_path / "v")
    assert ethernet_address(port["addresses"]) == GUEST_MAC and ethernet_address(["10.0.0.1"]) is None
    with pytest.raises(SpecError, match="path"):
        validate_device({key: value for key, value in port.items() if key != "path"}, "port 1")
    with pytest.raises(SpecError, match="server"):
        validate_device({**port, "server": "yes"}, "port 1")
    with pytest.raises(SpecError, match=r"the socket .* belongs to port 'a'"):
        validate_spec({"port": [port, {**port, "name": "b", "addresses": ["10.0.0.2"]}]})
    assert needed({"a": {**port, "pairs": 3}}) == needed({"a": {**port, "pairs": 2}}) + 6 < needed({"a": port})
