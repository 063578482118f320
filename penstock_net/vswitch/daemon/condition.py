"""What an interface is like that is there: its state in `show`, and what is wrong with it."""

from collections.abc import Iterable

from penstock_net.vswitch.attach.devices import ip_addresses
from penstock_net.vswitch.linux.monitor import Link, Monitor
from penstock_net.vswitch.support.settings import DEVICE_STATES

UP, (GONE, DOWN, EDGE_FAILED, CHANGED, NO_GUEST) = "up", DEVICE_STATES


def passes_nothing(link: Link, there: str, is_tap: bool) -> str:
    """Why frames do not pass an interface, `there` in words, and what to do; empty: they do."""
    if not link.up:
        return f"{there} is down: ip link set {link.name} up"
    if link.carrier:
        return ""
    return f"{there} has no carrier: " + (f"ip link set {link.name} carrier on" if is_tap else "its other end is down")


def difference(
    monitor: Monitor, link: Link, there: str, *, name: str, mtu: int, addresses: Iterable[str], remedy: str = ""
) -> str:
    """What a TAP lacks or has in another way than it was given, and what to do; `mtu` 0: any, no addresses: any."""
    if link.name != name:
        return f"{there} is named {link.name} now: ip link set {link.name} name {name}"
    wanted = {str(each) for each in ip_addresses(addresses)}
    if link.master and wanted:
        return f"{there} is a port of a bridge now, which takes what is sent to its addresses: ip link set {name} nomaster"
    if mtu and link.mtu != mtu:
        return f"{there} has an MTU of {link.mtu}, not {mtu}{remedy}"
    missing = wanted - monitor.addresses(link.number) if wanted else set()
    return f"{there} lacks its address {', '.join(sorted(missing))}{remedy}" if missing else ""
