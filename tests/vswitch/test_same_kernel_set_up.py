"""How interfaces are set up: the simulated kernel and the real one do the same."""

import contextlib
import ipaddress
import json

import pytest
from test_same_kernel import kernel, set_up, tap  # noqa: F401

from penstock_net.errors import SpecError
from penstock_net.vswitch import world
from penstock_net.vswitch.attach import devices
from penstock_net.vswitch.attach.found import Found
from penstock_net.vswitch.linux.monitor import Monitor
from penstock_net.vswitch.linux.set_up import NO_ADDRESS, Interface, State

pytestmark = pytest.mark.usefixtures("kernel")
FIRST, SECOND = map(ipaddress.ip_address, ("10.1.0.1", "10.1.0.2"))
FAR, ONE, ALL = map(ipaddress.ip_network, ("10.2.0.0/16", "10.3.0.1", "0.0.0.0/0"))


def of_monitor(monitor):
    return monitor.addresses(world.socket.if_nametoindex("t0"))


def test_addresses_come_and_go():
    with tap(), contextlib.closing(Monitor()) as monitor, Interface("t0") as interface:
        for _ in range(2):  # one that it has stays
            interface.add_address(FIRST, 24)
        interface.add_address(SECOND, 24)
        assert of_monitor(monitor) == {str(FIRST), str(SECOND)}
        assert sorted(map(str, interface.addresses())) == ["10.1.0.1/24", "10.1.0.2/24"]
        assert {change.link for change in monitor.changes()} == {None}
        interface.remove_address(SECOND, 24)
        assert of_monitor(monitor) == {str(FIRST)}
        assert [change.link for change in monitor.changes()] == [None]
        with pytest.raises(SpecError, match=r"addresses = .10.1.0.2/24.: the kernel refuses it for interface t0"):
            interface.remove_address(SECOND, 24)
        with pytest.raises(SpecError, match=r"addresses = .10.1.0.1/25.: the kernel refuses it for interface t0"):
            interface.remove_address(FIRST, 25)
        set_up("t0", False)
        set_up("t0")
        assert of_monitor(monitor) == {str(FIRST)}


def test_addresses_of_ipv6_are_gone_when_the_interface_is_down(kernel):  # noqa: F811
    """Those of IPv4 stay."""
    if kernel.is_real:
        kernel.space.run("sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=0", "net.ipv6.conf.all.disable_ipv6=0")
    with tap(up=False), contextlib.closing(Monitor()) as monitor, Interface("t0") as interface:
        interface.set_address_mode(NO_ADDRESS)
        set_up("t0")
        six = ipaddress.ip_address("fd00::1")
        for address in (FIRST, six):
            interface.add_address(address, 24)
        assert of_monitor(monitor) == {str(FIRST), str(six)}
        set_up("t0", False)
        assert of_monitor(monitor) == {str(FIRST)}
        set_up("t0")
        assert of_monitor(monitor) == {str(FIRST)}


def test_routes_come_and_go_and_are_gone_when_the_interface_is_down():
    with tap() as _, Interface("t0") as interface:
        for route in (FAR, ONE, ALL, FAR):
            interface.add_route(route)
        assert sorted(interface.routes()) == [ALL, FAR, ONE]
        interface.remove_route(ONE)
        interface.remove_route(ALL)
        assert interface.routes() == [FAR]
        with pytest.raises(SpecError, match=r"routes = .10.3.0.1/32.: the kernel refuses it for interface t0"):
            interface.remove_route(ONE)
        set_up("t0", False)
        assert interface.routes() == []
        with pytest.raises(SpecError, match=r"routes = .10.2.0.0/16.: the kernel refuses it for interface t0"):
            interface.add_route(FAR)


def test_routes_go_with_the_last_address():
    with tap(), Interface("t0") as interface:
        interface.add_address(FIRST, 24)
        interface.add_address(SECOND, 24)
        interface.add_route(FAR)
        interface.remove_address(SECOND, 24)
        assert FAR in interface.routes()
        interface.remove_address(FIRST, 24)
        assert interface.routes() == []


def test_a_route_is_in_the_place_of_that_out_of_another_interface():
    with tap(), tap("t1"), Interface("t0") as interface, Interface("t1") as other:
        interface.add_route(FAR)
        other.add_route(FAR)
        assert (interface.routes(), other.routes()) == ([], [FAR])


def test_lengths_and_state():
    with tap(up=False) as _, Interface("t0") as interface:
        assert interface.state() == State("tun", 1500, 1000, False)
        interface.set(mtu=1400, queue_frames=50, segments_bytes=60_000, up=True)
        assert interface.state() == State("tun", 1400, 50, True)
        interface.set_address_mode(NO_ADDRESS)
        interface.set(up=False)
        assert interface.state() == State("tun", 1400, 50, False)
        interface.set(queue_frames=0)
        assert interface.state().queue_frames == 0


def test_an_interface_that_is_gone():
    with tap() as port, Interface("t0") as interface:
        port.close()
        with pytest.raises(SpecError, match="interface t0: is gone"):
            interface.add_address(FIRST, 24)
        with pytest.raises(SpecError, match="interface t0: is gone"):
            interface.state()
        with pytest.raises(SpecError, match=r"device = .t0.: there is no such interface"):
            Interface("t0")


def test_one_that_is_deleted():
    with tap():
        with Interface("t0") as interface:
            interface.delete()
        with pytest.raises(SpecError, match=r"device = .t0."):
            Interface("t0")


def test_what_the_program_ip_sees_of_it(kernel):  # noqa: F811
    if not kernel.is_real:
        pytest.skip("a program of the real kernel")
    with tap(up=False), Interface("t0") as interface:
        interface.set_address_mode(NO_ADDRESS)
        interface.set(mtu=1400, queue_frames=50, segments_bytes=60_000, up=True)
        interface.add_address(FIRST, 24)
        interface.add_route(FAR)

        def said(*words):
            return json.loads(kernel.space.run("ip", "-json", "-details", *words))[0]

        row = said("link", "show", "dev", "t0")
        assert (row["mtu"], row["txqlen"], row["gso_max_size"], row["inet6_addr_gen_mode"]) == (1400, 50, 60_000, "none")
        row = said("address", "show", "dev", "t0")
        assert [(each["local"], each["prefixlen"], each["scope"]) for each in row["addr_info"]] == [("10.1.0.1", 24, "global")]
        route = said("route", "show", "10.2.0.0/16")
        assert (route["dev"], route["scope"], route["protocol"], route["type"]) == ("t0", "link", "boot", "unicast")


def test_one_that_was_too_short_for_ipv6_makes_no_address_of_its_own(kernel):  # noqa: F811
    """That it is to make none was said while there was no IPv6 at it, and forgotten."""
    if not kernel.is_real:
        pytest.skip("IPv6 is the real kernel's")
    kernel.space.run("sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=0", "net.ipv6.conf.all.disable_ipv6=0")
    with tap(up=False):
        kernel.space.run("ip", "link", "set", "t0", "mtu", "600")
        with Interface("t0") as interface:
            devices.set_up(interface, [], 24, 50, mtu=1500)
        (row,) = json.loads(kernel.space.run("ip", "-json", "address", "show", "dev", "t0"))
        assert (row["mtu"], row["addr_info"]) == (1500, [])


def test_what_a_former_version_has_found():
    """It has named routes as `ip` does; they would have been taken away with the port's."""
    row = {"mtu": 1500, "queue_frames": 1000, "up": True, "addresses": ["10.1.0.1/24"]}
    found = Found.read({**row, "routes": ["default", "10.2.0.0/16", "10.3.0.1", "fd00::1"]})
    assert found.routes == {"0.0.0.0/0", "::/0", "10.2.0.0/16", "10.3.0.1/32", "fd00::1/128"}
    assert Found.read(found.written()) == found


def test_a_refusal_names_the_value_the_rule_and_the_remedy(kernel):  # noqa: F811
    if not kernel.is_real:
        pytest.skip("what is refused there is the real kernel's")
    with tap(), Interface("t0") as interface:
        rule = r"mtu = 70000: the kernel refuses it for interface t0 \(mtu greater than device maximum\); choose another mtu"
        with pytest.raises(SpecError, match=rule):
            interface.set(mtu=70_000)
        with pytest.raises(SpecError, match=r"addresses = .fd00::1/64..*disable_ipv6=0"):
            interface.add_address(ipaddress.ip_address("fd00::1"), 64)
        kernel.space.run("sysctl", "-qw", "net.ipv6.conf.t0.disable_ipv6=0")
        with pytest.raises(SpecError, match=r"addresses = .ff02::1/64.*\); choose another address$"):
            interface.add_address(ipaddress.ip_address("ff02::1"), 64)
