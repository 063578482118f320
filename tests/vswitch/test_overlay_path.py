"""The overlay's port keeps to the MTU of its path: real sockets in two namespaces; skipped where the machine forbids them."""

import pytest
from waiting import until

from penstock.errors import SpecError
from penstock.vswitch.attach.devices import Device
from penstock.vswitch.attach.lab import Namespace, veth
from penstock.vswitch.attach.open import open_port
from penstock.vswitch.daemon.doctor import doctor
from penstock.vswitch.dataplane.driver import attach_device
from penstock.vswitch.dataplane.switch import Switch

PERMITTED = {ability.name: ability for ability in doctor()}
FORBIDDEN = [f"{PERMITTED[n].name}: {PERMITTED[n].detail}" for n in ("namespaces", "ip") if not PERMITTED[n].permitted]
pytestmark = pytest.mark.skipif(bool(FORBIDDEN), reason="; ".join(FORBIDDEN))

ENDS = {4: ("10.79.0.1", "10.79.0.2", "24"), 6: ("fd79::1", "fd79::2", "64 nodad")}


def row_of(switch):
    return switch.ports()[0]["device"]


@pytest.mark.parametrize(("version", "header"), [(4, 28), (6, 48)])
def test_the_path_is_known_and_what_no_longer_fits_is_counted(version, header):
    here, there, bits = ENDS[version]
    with Namespace("left") as left, Namespace("right") as right, veth(left, right, ("10.78.0.1/24", "10.78.0.2/24")):
        for namespace, address in ((left, here), (right, there)):
            namespace.run("ip", "address", "add", f"{address}/{bits.split()[0]}", *bits.split()[1:], "dev", "veth0")
        ports = []
        for namespace, (mine, other) in ((left, (here, there)), (right, (there, here))):
            with namespace.inside():
                a, b = (f"[{x}]:7000" if version == 6 else f"{x}:7000" for x in (mine, other))
                ports.append(open_port("udp", local=a, peer=b, headers=False, fragments=False))
        with ports[0] as near, ports[1] as far:
            switch = Switch()
            attach_device(switch, "other", Device(near, window=1 << 20), [])
            assert row_of(switch)["overlay"]["path_bytes"] == 1500 - header

            def arrives(size):
                assert near.send(bytes([2] * size)) and near.flush()
                return until(far.receive) == bytes([2] * size)

            assert arrives(1500 - header)
            assert near.send(bytes(1501 - header)) and near.flush()
            assert near.counters["too_long"] == 1, "no fragments"
            left.run("ip", "link", "set", "veth0", "mtu", "1400")
            for _ in range(3):  # a run of equal frames is one message
                assert near.send(bytes(1500 - header))
            assert near.flush() and near.counters["too_long"] == 4
            assert row_of(switch)["overlay"]["path_bytes"] == 1400 - header
            assert arrives(1400 - header) and near.counters["errors_out"] == 0


def test_a_configured_mtu_bounds_the_path():
    for mtu, path in ((1400, 1372), (0, 65507)):  # of the loopback interface: 65535
        with open_port("udp", local="127.0.0.1:0", peer="127.0.0.1:9", fragments=False, mtu=mtu) as port:
            switch = Switch()
            attach_device(switch, "other", Device(port, window=1 << 20), [])
            assert row_of(switch)["overlay"]["path_bytes"] == path
    for wrong in (100, 70_000, True, "a"):
        with pytest.raises(SpecError, match=r"udp\.mtu"):
            open_port("udp", local="127.0.0.1:0", peer="127.0.0.1:9", fragments=False, mtu=wrong)
