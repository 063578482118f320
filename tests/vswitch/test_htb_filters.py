"""Which packets the filters of HTB give to a flow's class: their words, matched against headers as the kernel does."""

import ipaddress
import struct

import pytest

from penstock_net.vswitch.linux.htb import FiveTuple, _keys, _priority

ADDRESSES = {4: ("10.0.0.1", "10.0.0.2"), 6: ("fd00::1", "fd00::2")}


def packet(version, ports=(1234, 80), protocol=17, fragment=0, options=b"", ends=None):
    """An IP header, and what begins behind it."""
    source, target = (ipaddress.ip_address(address).packed for address in ends or ADDRESSES[version])
    behind = struct.pack("!HH", *ports)
    if version == 6:
        return struct.pack("!IHBB", 6 << 28, 4, protocol, 64) + source + target + behind
    first = 0x45 + len(options) // 4
    return struct.pack("!BBHHHBBH", first, 0, 24, 7, fragment, 64, protocol, 0) + source + target + options + behind


def takes(flow, content):
    return all(struct.unpack_from("!I", content, at)[0] & mask == value for at, mask, value in _keys(flow)[1])


@pytest.mark.parametrize("version", [4, 6])
def test_a_filter_takes_the_packets_of_its_flow_only(version):
    source, target = ADDRESSES[version]
    flow = FiveTuple(17, source, 1234, target, 80)
    assert takes(flow, packet(version)) and _keys(flow)[0] == (0x0800 if version == 4 else 0x86DD)
    others = [{"ports": (1234, 81)}, {"ports": (1235, 80)}, {"protocol": 6}, {"ends": (target, source)}]
    assert not any(takes(flow, packet(version, **other)) for other in others)


@pytest.mark.parametrize("odd", [{"fragment": 0x2000}, {"fragment": 0x0001}, {"fragment": 0x1FFF}, {"options": bytes(4)}])
def test_what_has_no_ports_where_they_are_looked_for_is_not_taken_for_them(odd):
    """Of a fragment, and of a header with options, only the filter without ports tells the sender."""
    source, target = ADDRESSES[4]
    flow, rest = FiveTuple(17, source, 1234, target, 80), FiveTuple(17, source, 0, target, 0)
    found = packet(4, **odd)
    if "options" in odd:
        found = found[:20] + struct.pack("!HH", 1234, 80) + found[24:]  # that look like the ports
    assert not takes(flow, found) and takes(rest, found)
    assert takes(flow, packet(4, fragment=0x4000)), "not to be fragmented is no fragment"
    assert _priority(9, flow) < _priority(2, rest), "the one with ports comes first"
