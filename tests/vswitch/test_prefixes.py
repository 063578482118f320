"""Which port an address belongs to: the longest prefix, compared with Python's ipaddress."""

import ipaddress

import pytest
from frames import udp
from hypothesis import given
from hypothesis import strategies as st

from penstock_net.errors import SpecError
from penstock_net.vswitch.daemon.config import validate_port
from penstock_net.vswitch.dataplane.prefixes import AddressTable
from penstock_net.vswitch.dataplane.switch import Switch
from penstock_net.vswitch.memory.region import Region
from penstock_net.vswitch.support.settings import address_text, address_words

A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"


def near(version):
    """Addresses of which many share their first bits."""
    bits = 32 if version == 4 else 128
    kind = ipaddress.IPv4Address if version == 4 else ipaddress.IPv6Address
    base = int(kind("10.1.2.3" if version == 4 else "fd00:1::2:3"))
    flips = st.lists(st.integers(0, bits - 1), max_size=4)
    close = flips.map(lambda places: kind(base ^ sum({1 << place for place in places})))
    return close | st.integers(0, 2**bits - 1).map(kind)


addresses = near(4) | near(6)


@st.composite
def networks(draw):
    address = draw(addresses)
    return ipaddress.ip_network((address, draw(st.integers(0, address.max_prefixlen))), strict=False)


def scope(address):
    """Whether only an exact entry may match."""
    if address.version == 4:
        return int(address) >> 24 in (0, 127) or int(address) >> 24 >= 224
    return int(address) < 2 or address.is_multicast or address.is_link_local


@given(st.lists(networks(), unique=True, max_size=40), st.lists(addresses, min_size=1, max_size=20), st.data())
def test_the_longest_prefix_wins(found, asked, data):
    table = AddressTable()
    exact = [str(n.network_address) if n.prefixlen == n.max_prefixlen else str(n) for n in found]
    for port, text in enumerate(exact):
        table.add([text], port, {})
    asked = asked + [n[data.draw(st.integers(0, min(n.num_addresses, 2**62) - 1))] for n in found]
    for address in asked:
        if address.version == 6 and address.ipv4_mapped:
            continue
        fits = [i for i, n in enumerate(found) if n.version == address.version and address in n]
        if scope(address):
            fits = [i for i in fits if found[i].prefixlen == address.max_prefixlen]
        best = max(fits, key=lambda i: found[i].prefixlen, default=-1)
        assert table.find(str(address)) == best
    gone = data.draw(st.sets(st.integers(0, max(0, len(found) - 1))))
    for port in gone:
        table.remove(port)
    assert [table.of(port) for port in range(len(found))] == [[] if i in gone else [text] for i, text in enumerate(exact)]
    for address in asked:
        assert table.find(str(address)) not in gone


def test_families_and_ethernet_addresses_do_not_mix():
    table = AddressTable()
    table.add(["::/0"], 0, {})
    table.add(["0.0.0.0/0"], 1, {})
    table.add(["02:00:00:00:00:09"], 2, {})
    assert [table.find(text) for text in ("10.0.0.1", "fd00::1", "02:00:00:00:00:09", "02:00:00:00:00:08")] == [1, 0, 2, -1]
    assert [table.find(text) for text in ("0.0.0.0", "127.0.0.1", "224.0.0.1", "255.255.255.255", "::", "::1", "fe80::1")] == [
        -1
    ] * 7
    table.add(["fe80::1"], 3, {})
    assert table.find("fe80::1") == 3


def test_a_table_is_full_at_4096():
    table = AddressTable()
    table.add([f"10.{i >> 8}.{i & 255}.0/24" for i in range(4096)], 5, {})
    with pytest.raises(SpecError, match="holds 4096"):
        table.add(["192.168.0.0/16"], 6, {})
    assert len(table) == 4096 and table.find("10.15.255.17") == 5 and table.find("10.16.0.1") == -1
    table.clear()
    assert len(table) == 0 and table.find("10.3.255.17") == -1


@pytest.mark.parametrize("text", ["10.1.0.0/16", "0.0.0.0/0", "fd00:1::/64", "::/0", "10.0.0.0/31", "fd00::/127"])
def test_prefixes_are_written_as_they_are_read(text):
    assert address_text(*address_words(text)) == text


@pytest.mark.parametrize(
    "text, says",
    [("10.1.2.3/16", "its last 16 bits must be 0"), ("10.1.0.0/33", "or a prefix"), ("x/8", "or a prefix")],
)
def test_what_is_no_prefix(text, says):
    with pytest.raises(SpecError, match=says):
        validate_port({"name": "a", "addresses": [text]}, "port 1")


def switch_of(*ports):
    """A switch, and the applications' sides of its ports."""
    switch, apps = Switch(), []
    for i, addresses in enumerate(ports):
        apps.append(Region.create())
        switch.attach("abc"[i], Region.attach(apps[-1].fd, apps[-1].shape), addresses)
    return switch, apps


def test_frames_to_a_prefix_and_from_it():
    """Frames go by the longest prefix; a guarded port sends from its prefixes and from no other address."""
    switch, (a, b, c) = switch_of([A], [B, "10.1.0.0/16"], [C, "10.1.7.0/24"])
    for target in ("10.1.0.1", "10.1.7.1", B, "10.2.0.1"):
        assert a.send(0, [udp(A, target)]) == 1
    assert c.send(0, [udp("10.1.7.9", A)]) == 1  # its own
    assert b.send(0, [udp("10.1.7.9", A), udp("10.1.6.9", A)]) == 2  # c's, and its own
    switch.turns(20)
    rows = {row["port"]: row for row in switch.ports()}
    assert [rows[name]["sent_frames"] for name in "abc"] == [2, 2, 1]
    assert rows["a"]["drops"] == {"no_route": 1} and rows["b"]["drops"] == {"spoofed": 1}
    assert rows["b"]["addresses"] == [B, "10.1.0.0/16"]


def test_a_prefix_moves_between_ports():
    """A flow to it goes on to the new port; a prefix that two ports have is refused, and nothing has changed."""
    switch, (a, *_) = switch_of([A], [B, "10.1.0.0/16"], [C])
    with pytest.raises(SpecError, match="port 'b' has it"):
        switch.readdress({"c": {"addresses": [C, "10.1.0.0/16"], "guarded": True}})
    for _ in range(2):
        assert a.send(0, [udp(A, "10.1.2.3")]) == 1
        switch.turns(20)
        switch.readdress({"b": {"addresses": [B], "guarded": True}, "c": {"addresses": [C, "10.1.0.0/16"], "guarded": True}})
    assert {row["port"]: row["sent_frames"] for row in switch.ports()} == {"a": 0, "b": 1, "c": 1}
