"""Broadcasts and multicasts between the ports that take part, and frames that no port carries: all of them are counted."""

import ipaddress
import shutil
import socket
import struct

import pytest
from frames import udp
from test_lab import FORBIDDEN
from test_tap_ports import A, B, pair, rows
from waiting import until

from penstock_net.errors import SpecError
from penstock_net.vswitch.attach.devices import Device, link_local
from penstock_net.vswitch.attach.open import open_link
from penstock_net.vswitch.dataplane.driver import attach_device
from penstock_net.vswitch.dataplane.switch import Switch
from penstock_net.vswitch.ports.base import Clock

real = pytest.mark.skipif(bool(FORBIDDEN), reason="; ".join(FORBIDDEN))
ALL = b"\xff" * 6
MACS = [bytes([2, 0, 0, 1, 0, i]) for i in range(4)]


class Bench:
    """A switch in virtual time whose ports are links in this process; `ends` are their other ends."""

    def __init__(self, takes_part, headers, guarded=True):
        self.clock, self.switch, self.ends, self.devices = Clock(ns=10**9), Switch(), [], []
        for i, (broadcast, header) in enumerate(zip(takes_part, headers)):
            end, port = open_link(rate="8Tbps", delay=0, headers=header, clock=self.clock)
            device = Device(port, mac=MACS[i], broadcast=broadcast)
            attach_device(self.switch, f"p{i}", device, [f"10.0.0.{i + 1}"], guarded)
            self.ends.append(end)
            self.devices.append(device)

    def send(self, i, frame, header=bytes(10)):
        assert self.ends[i].send(header + frame if self.ends[i].headers else frame)

    def run(self, turns=20, ns=1000):
        for _ in range(turns):
            self.clock.ns += ns
            self.switch.turn_at(self.clock.ns)

    def got(self):
        """What came out of each port, without virtio_net_hdr."""
        found = []
        for end in self.ends:
            found.append([])
            while (frame := end.receive()) is not None:
                found[-1].append(frame[10:] if end.headers else frame)
        return found

    def row(self, i):
        return self.switch.ports()[i]["device"]

    def close(self):
        self.switch.close()
        for each in (*self.ends, *(device.port for device in self.devices)):
            each.close()


@pytest.fixture
def bench(request):
    made = []

    def make(*arguments, **keys):
        made.append(Bench(*arguments, **keys))
        return made[-1]

    yield make
    for each in made:
        each.close()


def to_all(source, target="255.255.255.255", payload=b"hello", mac=MACS[0]):
    return ALL + mac + udp(source, target, payload=payload)[12:]


def tagged(frame, kind=0x8100, tag=5):
    return frame[:12] + struct.pack("!HH", kind, tag) + frame[12:]


def solicitation(source, target, mac):
    """Neighbour solicitation of IPv6, to the group of the address."""
    packed = ipaddress.ip_address(target).packed
    group = ipaddress.ip_address("ff02::1:ff00:0").packed[:13] + packed[13:]
    body = struct.pack("!BBHI", 135, 0, 0, 0) + packed + b"\x01\x01" + mac
    head = struct.pack("!IHBB16s16s", 6 << 28, len(body), 58, 255, ipaddress.ip_address(source).packed, group)
    return b"\x33\x33" + group[12:] + mac + b"\x86\xdd" + head + body


@pytest.mark.parametrize("headers", [(True,) * 4, (False,) * 4, (True, False, True, False), (False, True, False, True)])
def test_a_copy_for_each_of_the_others(bench, headers):
    """Three of four ports take part; frames are as each port takes them."""
    b = bench((True, True, False, True), headers)
    frames = [to_all("0.0.0.0"), to_all("10.0.0.1"), tagged(to_all("10.0.0.1")), to_all("10.0.0.1", "224.0.0.251")]
    for frame in frames:
        b.send(0, frame)
    b.send(2, to_all("10.0.0.3", mac=MACS[2]))
    b.run()
    assert b.got() == [[], frames, [], frames]
    assert b.row(0)["flooded"] == 8 and b.row(0)["multicast"] == 0 and b.row(0)["flood_lost"] == 0
    assert b.row(2)["multicast"] == 1 and b.row(2)["flooded"] == 0


def test_an_open_check_sum_is_completed_for_a_port_without_headers(bench):
    b = bench((True, True), (True, False))
    frame = to_all("10.0.0.1", payload=b"odd")
    b.send(0, frame, struct.pack("=BBHHHH", 1, 0, 0, 0, 34, 6))  # to be summed from byte 34 on, into byte 40
    b.run()
    ((), (came,)) = b.got()
    words = came[34:] + bytes(len(came) % 2)
    total = sum(struct.unpack(f"!{len(words) // 2}H", words))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    assert total == 0xFFFF and came[:40] == frame[:40] and came[42:] == frame[42:]


def test_a_guarded_port_floods_from_its_own_addresses_only(bench):
    """Those of its link are of the Ethernet address; none yet (DHCP, duplicate address detection) is permitted."""
    b = bench((True, True), (True, True))
    own, other = link_local(MACS[0]), link_local(MACS[1])
    arp = (
        ALL
        + MACS[0]
        + struct.pack("!HHHBBH6s4s6s4s", 0x0806, 1, 0x0800, 6, 4, 1, MACS[0], b"\x0a\0\0\2", bytes(6), b"\x0a\0\0\x09")
    )
    forged = [to_all("10.0.0.2"), tagged(to_all("10.0.0.2")), tagged(arp), solicitation(other, "fe80::9", MACS[0])]
    forged.append(ALL + MACS[1] + b"\x88\xcc" + bytes(50))
    forged += [ALL + MACS[0] + kind + bytes(3) for kind in (b"\x08\0", b"\x86\xdd", b"\x81\0\x08\x06\x08\x06")]
    good = [solicitation("::", own, MACS[0]), solicitation(own, "fe80::9", MACS[0]), ALL + MACS[0] + b"\x88\xcc" + bytes(50)]
    for frame in forged + good:
        b.send(0, frame)
    b.run()
    assert b.got() == [[], good]
    assert b.row(0)["flood_spoofed"] == len(forged) and b.row(0)["flooded"] == len(good)
    open_bench = bench((True, True), (True, True), guarded=False)
    open_bench.send(0, forged[0])
    open_bench.run()
    assert open_bench.got() == [[], [forged[0]]]


def test_addresses_of_the_link_are_answered_for_and_carried(bench):
    """Where broadcasts pass, IPv6 works on the link, and any Ethernet type between the devices' own addresses."""
    b = bench((True, True, False), (True,) * 3)
    own, other = link_local(MACS[0]), link_local(MACS[1])
    b.send(0, solicitation(own, other, MACS[0]))
    b.run()
    (((answer,), _, _), flooded) = (b.got(), b.row(0)["flooded"])
    assert answer[54] == 136 and flooded == 0 and b.row(0)["answered"] == 1
    frames = [MACS[1] + MACS[0] + udp(own, other)[12:], MACS[1] + MACS[0] + tagged(udp("10.0.0.1", "10.0.0.2"))[12:]]
    frames.append(MACS[1] + MACS[0] + b"\x88\x47" + bytes(50))
    for frame in frames:
        b.send(0, frame)
    b.run()
    assert [sorted(each) for each in b.got()] == [[], sorted(frames), []]
    b.switch.readdress({"p0": {"addresses": ["10.0.0.9"], "guarded": True}})
    b.send(0, frames[0])
    b.run()
    assert b.got()[1] == [frames[0]], "a change of addresses leaves those of the device"


def test_what_no_port_carries_is_counted(bench):
    """Q-in-Q and MPLS to a port that does not take part in broadcasts."""
    b = bench((False, False), (True, True))
    ip = udp("10.0.0.1", "10.0.0.2")
    for frame in (tagged(tagged(ip)), tagged(tagged(ip), 0x88A8), MACS[1] + MACS[0] + b"\x88\x47" + bytes(50)):
        b.send(0, frame)
    b.send(0, solicitation(link_local(MACS[0]), link_local(MACS[1]), MACS[0]))
    b.run()
    row = b.switch.ports()[0]
    assert b.got() == [[], []] and row["device"]["not_carried"] == 3 and row["device"]["multicast"] == 1 and not row["drops"]


def test_the_rate_of_broadcasts_is_bounded(bench):
    """1000 a second from each port, 100 at once: what is more is counted, and the other port has its own share."""
    b = bench((True, True, True), (True,) * 3)
    for _ in range(300):
        b.send(0, to_all("10.0.0.1"))
    b.run(40)
    sent = len(b.got()[1])
    assert 100 <= sent <= 102 and b.row(0)["flood_limited"] == 300 - sent
    b.send(1, to_all("10.0.0.2", mac=MACS[1]))
    b.run()
    assert [len(each) for each in b.got()] == [1, 0, 1]
    for _ in range(10):
        b.run(1, 10_000_000)
        for _ in range(30):
            b.send(0, to_all("10.0.0.1"))
        b.run(5)
    assert 85 <= len(b.got()[1]) <= 105, "10 in each 10 ms; the first ones were sent in advance"


def test_several_workers_are_refused():
    end, port = open_link()
    with end, port, pytest.raises(SpecError, match=r"takes a switch with one worker.*workers = 1"):
        attach_device(Switch(workers=2), "a", Device(port, mac=MACS[0], broadcast=True), [A])


# ---- With the kernel's own programs ----


@real
def test_ipv6_on_the_link_and_a_multicast_between_namespaces(tmp_path):
    with pair(tmp_path, {"broadcast": True}, {"broadcast": True}) as (left, right, daemon):

        def address(space):
            found = space.run("ip", "-6", "-o", "address", "show", "dev", "sw0", "scope", "link", "-tentative").split()
            return found[3].split("/")[0] if found else None

        there = until(lambda: address(right) and address(left) and address(right))
        with right.socket(socket.AF_INET6, socket.SOCK_DGRAM) as s, left.socket(socket.AF_INET6, socket.SOCK_DGRAM) as t:
            for each in (s, t):
                each.settimeout(60)
            with right.enter():
                scope = socket.if_nametoindex("sw0")
                s.bind(("::", 9002))
            t.sendto(b"on the link", (there, 9002, 0, 2))
            data, source = s.recvfrom(100)
            assert data == b"on the link" and source[0].startswith("fe80::")
            s.setsockopt(
                socket.IPPROTO_IPV6,
                socket.IPV6_JOIN_GROUP,
                socket.inet_pton(socket.AF_INET6, "ff02::99") + struct.pack("=I", scope),
            )
            t.sendto(b"to the group", ("ff02::99", 9002, 0, 2))
            assert s.recv(100) == b"to the group"
        assert rows(daemon)["a"]["device"]["flooded"] > 0 and not rows(daemon)["a"]["drops"]


@real
@pytest.mark.skipif(not shutil.which("busybox"), reason="needs busybox, for udhcpd and udhcpc")
def test_a_dhcp_server_behind_another_port(tmp_path):
    """The client's TAP begins without an address; the server gives it the one that the switch knows.

    A static lease: before any other the server asks by ARP whether the address is in use, which the switch says.
    """
    script = tmp_path / "client.sh"
    script.write_text("#!/bin/sh\n[ $1 = bound ] && ip address add $ip/24 dev $interface && echo bound $ip\nexit 0\n")
    script.chmod(0o755)
    (tmp_path / "leases").write_text("")
    conf = f"start 10.78.0.9\nend 10.78.0.9\ninterface sw0\nlease_file {tmp_path}/leases\npidfile {tmp_path}/pid\n"
    with pair(tmp_path, {"broadcast": True, "prefix": 0}, {"broadcast": True}) as (left, right, daemon):
        mac = left.run("ip", "-br", "link", "show", "sw0").split()[2]
        (tmp_path / "d.conf").write_text(f"{conf}static_lease {mac} {A}\n")
        right.start("busybox", "udhcpd", "-f", str(tmp_path / "d.conf"))
        client = left.start("busybox", "udhcpc", "-f", "-q", "-t", "100", "-T", "1", "-i", "sw0", "-s", str(script))
        lines = client.communicate(timeout=100)[0]
        assert f"bound {A}" in lines, lines
        assert rows(daemon)["a"]["device"]["flooded"] >= 2
        with left.socket(socket.AF_INET, socket.SOCK_DGRAM) as s, right.socket(socket.AF_INET, socket.SOCK_DGRAM) as t:
            t.bind((B, 9003))
            t.settimeout(60)
            s.sendto(b"with an address", (B, 9003))
            assert t.recv(100) == b"with an address"
