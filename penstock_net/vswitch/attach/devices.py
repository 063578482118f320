"""Ports of a switch that are kernel devices: validation of their keys in a [[port]], and opening them.

Each kind has its own keys (`KIND` in ports/):

    [[port]]
    name = "a"
    addresses = ["10.0.0.1"]
    kind = "tap"                # of unmodified programs; device, netns, prefix, routes, mtu, persistent
    netns = "left"

    kind = "udp"                # to another switch; local, peer, secret
    kind = "vhost-user"         # of a virtual machine or a DPDK program; path, server, pairs
    kind = "packet" or "xdp"    # an existing interface; device, netns
    kind = "pcap"               # a recording; read, write, timing, rounds
"""

import contextlib
import errno
import ipaddress
import re
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from penstock_net.errors import PenstockError, SpecError
from penstock_net.inputs import boolean, one_of, whole
from penstock_net.units import parse_time
from penstock_net.vswitch.attach.allowance import Allowance
from penstock_net.vswitch.attach.edge import Edge
from penstock_net.vswitch.attach.found import Found, find, give_back
from penstock_net.vswitch.attach.ingress_rates import limits_of
from penstock_net.vswitch.attach.open import kinds as port_kinds
from penstock_net.vswitch.attach.open import open_port
from penstock_net.vswitch.linux import netns
from penstock_net.vswitch.linux.htb import Htb, ring_frames
from penstock_net.vswitch.linux.losses import dropped_at
from penstock_net.vswitch.linux.set_up import EUI64, NO_ADDRESS, Interface
from penstock_net.vswitch.ports.base import PortHandle
from penstock_net.vswitch.support.settings import MAC
from penstock_net.vswitch.world import fcntl, os, socket

QUEUES, MOST_QUEUES = 8192, 65536  # of a port, each way
BUFFERS = {False: 8192, True: 16384}  # of a port, each way; True: to another switch, which may send two windows before it pauses
LONGEST = {True: 65600, False: 9216}  # bytes of a buffer, with and without super-frames
FRAMES_WITHOUT_EDGE = 10_000  # of a TAP's ring
SEGMENTS_BYTES = 65_536  # of a super-frame, which is shorter: one of TCP still fits a datagram with all headers
UNRESOLVED_BYTES = 64 << 20  # of the kernel's memory, for an address that is being resolved: some 300 sockets
LINK_BYTES = {True: 10 + 14 + 4, False: 14 + 4}  # before the IP header: virtio_net_hdr, Ethernet, a VLAN tag
LEAST_MTU, LEAST_MTU_IPV6, MOST_MTU = 68, 1280, 65_535 - 14  # of a TAP, as the kernel takes it
MOST_PID = 1 << 22
VLAN_KEYS, LAST_VLAN = ("vlan", "trunk", "native"), 4094
STATION_KEYS, STATIONS, MOST_STATIONS, STATION_IDLE = ("learn", "stations", "station_idle"), 1024, 16384, "300s"
MESSAGES_AT_ONCE = 64  # of an overlay: as many as the segments of a super-frame
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
GET_HARDWARE_ADDRESS, GET_TAP, GET_TAP_NAMESPACE = 0x8927, 0x800454D2, 0x54E3
SET_TAP_PERSISTENT = 0x400454CB
IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 0x0002, 0x1000, 0x4000


class Plan(NamedTuple):
    """How the interface of a device is opened, and set up if it is a TAP."""

    kind: str
    options: dict[str, Any]  # of open_port
    where: str | int | None  # its namespace; None: that of the process
    prefix: int
    mtu: int  # 0: as it is
    routes: list[str]
    link_local: bool
    queue_frames: int  # of a TAP

    @property
    def interface(self) -> str | None:
        """The name of the interface that it is on; None: of none."""
        return self.options.get("name") if self.kind == "tap" else self.options.get("device")

    @property
    def is_persistent(self) -> bool:
        return bool(self.options.get("persistent"))

    def open(self, namespace: netns.NetNs | None, addresses: list[str]) -> "Opened":
        """Open it, and set it up if it is a TAP."""
        with contextlib.ExitStack() as on_failure, netns.enter(namespace):
            before, interface = find(str(self.interface)) if self.is_persistent else None, None
            port = on_failure.enter_context(open_port(self.kind, **self.options))
            if self.is_persistent and before is None:
                on_failure.callback(make_temporary, port.fd)
            if self.kind == "tap":
                interface = on_failure.enter_context(Interface(self.options["name"]))
                if before is None and self.queue_frames != FRAMES_WITHOUT_EDGE:
                    Htb(interface.name, interface=interface).prepare()
                self._set_up(interface, addresses)
            try:
                mac = mac_of(port.fd) if interface else None
            except OSError:
                raise PenstockError(f"interface {self.interface} was deleted while it was set up") from None
            on_failure.pop_all()
        if interface:
            return Opened(port, mac, before, interface)
        own = ethernet_address(addresses) if self.kind == "vhost-user" else None
        return Opened(port, own or ("learn" if self.kind in ("packet", "xdp", "vhost-user") else None))

    def set_up(self, namespace: netns.NetNs | None, addresses: list[str]) -> None:
        """Bring the TAP up, with what belongs to it."""
        with netns.enter(namespace), Interface(self.options["name"]) as interface:
            self._set_up(interface, addresses)

    def _set_up(self, interface: Interface, addresses: list[str]) -> None:
        own, frames = addresses if self.prefix else [], self.queue_frames
        set_up(interface, own, self.prefix, frames, mtu=self.mtu, routes=self.routes, link_local=self.link_local)

    def readdress(self, namespace: netns.NetNs | None, before: Iterable[str], after: list[str]) -> None:
        """Have the TAP have the addresses `after` instead of `before`; others that it has are somebody else's."""
        name = self.options["name"]
        with netns.enter(namespace):
            kept = ip_addresses(after)
            with Interface(name) as interface:
                for address in [each for each in ip_addresses(before) if each not in kept]:
                    with contextlib.suppress(PenstockError):  # somebody has removed it
                        interface.remove_address(address, _length(address, self.prefix))
                _address(interface, after, self.prefix, self.routes)


class Opened(NamedTuple):
    """What a device is opened as."""

    port: PortHandle
    mac: bytes | str | None  # its Ethernet address; "learn": those of its senders
    before: Found | None = None  # its interface, if that stays and was there before
    interface: Interface | None = None  # of a TAP, by the socket by which the kernel is asked about it as long as it is open


class Device:
    """An open device, and the properties of the switch port that it becomes."""

    plan: Plan  # of a device that `open_device` has opened

    def __init__(
        self,
        port: PortHandle,
        namespace: netns.NetNs | None = None,
        mac: bytes | str | None = None,
        window: int = 0,
        secret: bytes = b"",
        broadcast: bool = False,
        lossless: bool = False,
    ) -> None:
        self.port, self.namespace, self.mac, self.window, self.secret = port, namespace, mac, window, secret
        self.broadcast, self.lossless = broadcast, lossless
        self.queues, self.buffers = QUEUES, BUFFERS[window > 0]
        self.vlans: list[int] = []  # that it carries
        self.untagged = 0  # of these, the one whose frames have no tags outside
        self.stations, self.station_idle_ns = 0, 0  # that it may learn, and when a quiet one is forgotten; 0: it learns none
        self.seed = os.urandom(16)  # of the ids of an overlay's sessions
        self.table: Allowance | None = None
        self.edge: Edge | None = None
        self.dropped_before = 0  # frames that the kernel had dropped when they began to count
        self.driver: Any = None  # set when it is attached to a switch
        self.before: Found | None = None  # its interface, if that stays and was there before
        self.interface: Interface | None = None  # of a TAP, until it is moved

    @property
    def shape(self) -> dict[str, int]:
        """Shape of the region between the device and the switch."""
        rings = 2 * self.queues + self.buffers // 8  # one for each open queue, and what full ones need
        return {
            "rings": rings,
            "queues": self.queues,
            "bells": 8192,
            "buffers": self.buffers,
            "buffer_bytes": LONGEST[self.port.headers],
        }

    @property
    def own_addresses(self) -> list[str]:
        """The interface's own Ethernet and link-local addresses, added to its port's where broadcasts pass; of a guest: none."""
        if not self.broadcast or not isinstance(self.mac, bytes) or self.port.kind == "vhost-user":
            return []
        return [self.mac.hex(":"), link_local(self.mac)]

    def open_edge(self, read_flows: Callable[[], Iterable[Mapping[str, Any]]], settings: Mapping[str, Any]) -> Edge:
        """An Edge, which keeps the kernel from losing frames at a TAP, in both directions, from its start until `release`."""
        edge = self._edge(read_flows, settings)
        edge.open()
        self._begin(edge)
        self.count_losses_from(edge.rates.htb.lost_before)
        return edge

    def guard_on(self, read_flows: Callable[[], Iterable[Mapping[str, Any]]], settings: Mapping[str, Any]) -> None:
        """Have an Edge that goes on with another process's: it does nothing until its `take` and `start`.

        PenstockError: the interface is not the one that it had; what has its name by now is somebody else's.
        """
        if self.interface is None:
            raise PenstockError(f"device {self.port.name!r}: the interface is gone")
        self._begin(self._edge(read_flows, settings, goes_on=True))

    def _edge(
        self, read_flows: Callable[[], Iterable[Mapping[str, Any]]], settings: Mapping[str, Any], goes_on: bool = False
    ) -> Edge:
        own, limits = self.interface, limits_of(settings)
        return Edge(self.port.name, self.namespace, read_flows, table=self.table, goes_on=goes_on, interface=own, **limits)

    def _begin(self, edge: Edge) -> None:
        self.edge = edge
        if self.driver:
            self.driver.edge = edge
            edge.wake_worker_by(self.driver.waker)

    def count_losses(self) -> None:
        """Count losses from now on. During set-up the kernel may drop its own frames (IPv6 announcements), which do not count."""
        self.count_losses_from(self.interface.dropped() if self.interface else dropped_at(self.port.name, self.namespace))

    def count_losses_from(self, before: int) -> None:
        """Count losses beyond these, of the interface."""
        fd, namespace, interface = self.port.fd, self.namespace, self.interface
        self.dropped_before = before
        if interface:
            self.port.losses = lambda: interface.dropped() - before
        else:
            self.port.losses = lambda: dropped_at(name_of(fd), namespace) - before

    def take(self, opened: Opened) -> None:
        """Be what was opened anew."""
        self.port, self.mac, self.before, self.interface = opened

    def leave_interface(self) -> None:
        """Close the socket about its interface, which would keep its namespace, too; whoever asks the kernel later opens one."""
        if self.interface:
            self.interface.close()
            self.interface = None

    def make_temporary(self) -> None:
        """Have the interface of a TAP vanish when it is closed, but for one that was there before."""
        if self.plan.kind == "tap" and not self.port.closed and self.before is None:
            make_temporary(self.port.fd)
            self.plan.options["persistent"] = False

    def give_back(self) -> None:
        """Have an interface that was there before be as it was."""
        if self.before:
            with netns.enter(self.namespace):
                give_back(str(self.plan.interface), self.before, self.plan.routes)

    def release(self, drain: bool = True) -> None:
        """End the edge: lift all rate and socket limits.  `drain`: wait a while for the frames in its classes."""
        if self.edge:
            self.edge.rates.drains = drain
            self.edge.__exit__()
            if self.driver:
                self.driver.not_read += self.edge.rates.left
                self.driver.end_edge()
            self.edge = None

    def discard(self) -> None:
        """Close the device and remove what was made for it, an interface that would stay included."""
        self.make_temporary()
        self.release()
        self.give_back()
        self.close()
        self.driver = None  # with its memory

    def close(self) -> None:
        """Close the device and everything that belongs to it."""
        self.release()
        if self.table:
            self.table.close()
            self.table = None
        self.port.close()
        self.leave_interface()
        if self.namespace:
            self.namespace.close()


def keys_of(kind: str) -> tuple[str, ...]:
    """The keys of a [[port]] that only its kind has."""
    found = port_kinds()
    if kind not in found:
        return ()
    own = found[kind].keys
    return (*own, "queues", *(VLAN_KEYS if kind != "pcap" else ()), *(STATION_KEYS if "broadcast" in own else ()))


def validate_device(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The device keys of a [[port]], checked; empty: it is a port of native applications (kind shm)."""
    kind = table.get("kind", "shm")
    kinds = port_kinds()
    known = ("shm", *kinds)
    one_of(kind, f"{where}.kind", known)
    if given := [key for key in STATION_KEYS if key in table and key not in keys_of(kind)]:
        learning = ", ".join(each for each in sorted(kinds) if "learn" in keys_of(each))
        raise SpecError(f"a port of kind {kind} learns no addresses", path=f"{where}.{given[0]}", remedy=f"of kind {learning}")
    if kind == "shm":
        return {}
    found = {key: table[key] for key in keys_of(kind) if key in table}
    if "device" in found and (not isinstance(found["device"], str) or not re.fullmatch(r"[^\s/]{1,64}", found["device"])):
        raise SpecError("must be a name", path=f"{where}.device", value=found["device"])
    if "netns" in found:
        _check_netns(found["netns"], f"{where}.netns")
    for key in kinds[kind].needs:
        if key not in found:
            raise SpecError(f"is missing; a port of kind {kind} needs it", path=f"{where}.{key}")
    for key in ("super_frames", "edge", "persistent", "broadcast", "server", "learn"):
        if key in found:
            boolean(found[key], f"{where}.{key}")
    if "prefix" in found:
        whole(found["prefix"], f"{where}.prefix", 0, 128)
    if "mtu" in found:
        found["mtu"] = _check_mtu(found, table.get("addresses"), f"{where}.mtu")
    if "routes" in found:
        _check_routes(found["routes"], f"{where}.routes")
    if "queues" in found:
        whole(found["queues"], f"{where}.queues", 8, MOST_QUEUES)
    vlans_of(kind, found, where)
    _check_stations(kind, found, where)
    parse_secret(found.get("secret", ""), where)
    return {"kind": kind, **found}


def _check_stations(kind: str, found: dict[str, Any], where: str) -> None:
    """The keys of a port that learns, which takes part in broadcasts and has no edge."""
    if not found.get("learn"):
        for key in STATION_KEYS[1:]:
            if key in found:
                raise SpecError("is of a port that learns addresses", path=f"{where}.{key}", remedy="learn = true")
        return
    if found.get("broadcast") is False:
        raise SpecError("a port that learns addresses takes part in broadcasts", path=f"{where}.broadcast", remedy="remove it")
    if found.get("edge"):
        rule = "a port that learns addresses has none: what it receives is for stations, not for sockets of its namespace"
        raise SpecError(rule, path=f"{where}.edge", remedy="remove it")
    found["broadcast"] = True
    if "edge" in keys_of(kind):
        found["edge"] = False
    whole(found.get("stations", STATIONS), f"{where}.stations", 1, MOST_STATIONS)
    parse_time(found.get("station_idle", STATION_IDLE), f"{where}.station_idle", positive=True)


def vlans_of(kind: str, table: Mapping[str, Any], where: str) -> tuple[list[int], int]:
    """The VLANs that a port carries, and the one whose frames have no tags outside (0: none), from `vlan`, `trunk`, `native`."""
    for key in ("vlan", "native"):
        if key in table:
            whole(table[key], f"{where}.{key}", 1, LAST_VLAN)
        if key in table and kind == "udp":
            raise SpecError("frames to another switch have tags", path=f"{where}.{key}", value=table[key], remedy="`trunk`")
    if "vlan" in table:
        if "trunk" in table or "native" in table:
            raise SpecError(
                "is of an access port", path=f"{where}.vlan", value=table["vlan"], remedy="without `trunk` and `native`"
            )
        return [table["vlan"]], table["vlan"]
    if "trunk" not in table:
        if "native" in table:
            raise SpecError("is of a trunk", path=f"{where}.native", value=table["native"], remedy="add `trunk`, or use `vlan`")
        return [], 0
    trunk = table["trunk"]
    if not isinstance(trunk, list) or not trunk or len({str(each) for each in trunk}) < len(trunk):
        raise SpecError("must be a list of VLANs, each once", path=f"{where}.trunk", value=trunk, remedy="such as [10, 20]")
    for vlan in trunk:
        whole(vlan, f"{where}.trunk", 1, LAST_VLAN)
    native = table.get("native", 0)
    return sorted({*trunk, native} - {0}), native


def _check_netns(value: Any, path: str) -> None:
    if isinstance(value, int) and not isinstance(value, bool):
        whole(value, path, 1, MOST_PID)
    elif not isinstance(value, str) or not re.fullmatch(r"[^\s/]{1,64}|/\S{1,200}", value):
        raise SpecError(
            "must be a name, a path, or a process ID",
            path=path,
            value=value,
            remedy='such as "left", "/proc/123/ns/net" or 123',
        )


def _check_mtu(found: Mapping[str, Any], addresses: Any, path: str) -> int:
    """The MTU, checked against the kernel, the minimum of IPv6, and the port's buffers."""
    super_frames = found.get("super_frames", True)
    least, most = LEAST_MTU, min(MOST_MTU, LONGEST[super_frames] - LINK_BYTES[super_frames])
    if isinstance(addresses, list) and any(address.version == 6 for address in ip_addresses(addresses)):
        least = LEAST_MTU_IPV6
    mtu = found["mtu"]
    if isinstance(mtu, int) and not isinstance(mtu, bool) and LEAST_MTU <= mtu < least:
        raise SpecError(f"IPv6 needs at least {least}", path=path, value=mtu, remedy="or remove its IPv6 addresses")
    if not super_frames and isinstance(mtu, int) and most < mtu <= MOST_MTU:
        raise SpecError(
            f"frames would not fit its buffers of {LONGEST[False]} B",
            path=path,
            value=mtu,
            remedy=f"at most {most}, or super_frames = true",
        )
    return whole(mtu, path, least, most)


def _check_routes(routes: Any, path: str) -> None:
    if not isinstance(routes, list):
        raise SpecError("must be a list of prefixes", path=path, value=routes, remedy='such as ["10.1.0.0/16"]')
    for route in routes:
        try:
            ipaddress.ip_network(route if isinstance(route, str) else "")
        except ValueError:
            raise SpecError(
                "must be prefixes of IPv4 or IPv6", path=path, value=route, remedy='such as "10.1.0.0/16" or "0.0.0.0/0"'
            ) from None


def parse_secret(text: Any, where: str) -> bytes:
    """The 16-byte key that two peers share, from 32 hexadecimal digits; empty for an empty text."""
    if not isinstance(text, str) or not re.fullmatch(r"|[0-9a-fA-F]{32}", text):
        raise SpecError(
            "must be 32 hexadecimal digits, such as `openssl rand -hex 16` prints, or left out", path=f"{where}.secret"
        )
    return bytes.fromhex(text)


def open_device(table: Mapping[str, Any], addresses: list[str], where: str = "port") -> Device:
    """Open a device from a table that `validate_device` has returned.

    `addresses` are those of its port; `where` begins the messages of errors.
    """
    plan = plan_of(table)
    namespace = netns.open_netns(plan.where) if plan.where is not None else None
    with contextlib.ExitStack() as on_failure:
        if namespace:
            on_failure.callback(namespace.close)
        opened = plan.open(namespace, addresses)
        on_failure.callback(opened.port.close)
        device = planned(table, opened.port, namespace, opened.mac, where)
        device.take(opened)
        on_failure.callback(device.leave_interface)
        if plan.kind == "tap":
            device.count_losses()
            device.table = Allowance() if table.get("edge", True) else None
        elif plan.kind == "udp":
            device.window = window_of(opened.port.fd)
        on_failure.pop_all()
    return device


def plan_of(table: Mapping[str, Any]) -> Plan:
    """How the device of a table that `validate_device` has returned is opened."""
    options = {key: value for key, value in table.items() if key not in (*VLAN_KEYS, *STATION_KEYS, "secret", "queues", "edge")}
    kind, queue_frames = options.pop("kind"), ring_frames() if table.get("edge", True) else FRAMES_WITHOUT_EDGE
    place, broadcast = options.pop("netns", None), options.pop("broadcast", False)
    prefix, routes = options.pop("prefix", 24), options.pop("routes", [])
    mtu = options.pop("mtu", 0) if kind == "tap" else 0
    return Plan(kind, _port_options(kind, options), place, prefix, mtu, routes, broadcast, queue_frames)


def planned(
    table: Mapping[str, Any], port: PortHandle, namespace: netns.NetNs | None, mac: bytes | str | None, where: str = "port"
) -> Device:
    """The device of a table, on an open port."""
    plan = plan_of(table)
    device = Device(port, namespace, mac, secret=parse_secret(table.get("secret", ""), where), broadcast=plan.link_local)
    device.plan, device.queues = plan, table.get("queues", QUEUES)
    device.vlans, device.untagged = vlans_of(plan.kind, table, where)
    if table.get("learn"):
        device.stations = table.get("stations", STATIONS)
        device.station_idle_ns = parse_time(table.get("station_idle", STATION_IDLE)) // 1000
    return device


def make_temporary(fd: int) -> None:
    """Have a TAP vanish when it is closed, if its interface is there."""
    with contextlib.suppress(OSError):  # it was deleted: EBADFD
        fcntl.ioctl(fd, SET_TAP_PERSISTENT, 0)


def _port_options(kind: str, options: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `open_port` for the keys of a [[port]]."""
    options = dict(options)
    if kind == "udp":
        options["fragments"] = False
        options["batch"] = MESSAGES_AT_ONCE
    if kind in ("tap", "packet", "udp", "vhost-user"):
        options["headers"] = options.pop("super_frames", True)
    elif kind == "pcap":
        options["headers"] = False
    if kind == "tap":
        options["name"] = options.pop("device")
    return options


def set_up(
    interface: Interface,
    addresses: list[str],
    prefix: int,
    queue_frames: int,
    *,
    mtu: int = 0,
    routes: Iterable[str] = (),
    link_local: bool = False,
) -> None:
    """Bring a TAP up: queue length, addresses, routes, and room for what waits while an address is resolved.

    By itself the kernel keeps some hundred packets meanwhile, and a program that starts at full speed would lose the others.
    `link_local` adds an EUI-64 link-local address.  Other settings of a persistent TAP are kept; `mtu` 0 keeps the MTU.
    """
    interface.set(mtu=mtu)  # first: below 1280 there is no IPv6, and what is said of it is not kept
    if link_local:
        interface.set_address_mode(EUI64)
    elif not any(a.version == 6 for a in ip_addresses(addresses)):
        interface.set_address_mode(NO_ADDRESS)
    interface.set(queue_frames=queue_frames, segments_bytes=SEGMENTS_BYTES, up=True)
    _address(interface, addresses, prefix, routes)
    interface.keep_unresolved(UNRESOLVED_BYTES)


def _address(interface: Interface, addresses: Iterable[str], prefix: int, routes: Iterable[str]) -> None:
    """Give an interface its addresses, and the routes that it loses with its last one."""
    for address in ip_addresses(addresses):
        interface.add_address(address, _length(address, prefix))
    for route in routes:
        interface.add_route(ipaddress.ip_network(route))


def _length(address: Address, prefix: int) -> int:
    return prefix if address.version == 4 else 64


def ip_addresses(addresses: Iterable[str]) -> list[Address]:
    """The IP addresses among them."""
    found = []
    for text in addresses:
        with contextlib.suppress(ValueError):
            found.append(ipaddress.ip_address(text))
    return found


def ethernet_address(addresses: Iterable[str]) -> bytes | None:
    """The first Ethernet address among them."""
    found = [text for text in addresses if MAC.fullmatch(text)]
    return bytes.fromhex(found[0].replace(":", "")) if found else None


def mac_standing_for(address: Address) -> str:
    """The Ethernet address with which the switch answers ARP for an IP address."""
    return (b"\x02\0" + address.packed[-4:]).hex(":")


def link_local(mac: bytes) -> str:
    """The link-local IPv6 address of an interface with this Ethernet address (EUI-64)."""
    packed = b"\xfe\x80" + bytes(6) + bytes([mac[0] ^ 2]) + mac[1:3] + b"\xff\xfe" + mac[3:]
    return str(ipaddress.IPv6Address(packed))


def mac_of(fd: int) -> bytes:
    """The Ethernet address of a TAP."""
    return bytes(fcntl.ioctl(fd, GET_HARDWARE_ADDRESS, bytes(40))[18:24])


def name_of(fd: int) -> str:
    """The name of a TAP, which may have been renamed."""
    return bytes(fcntl.ioctl(fd, GET_TAP, bytes(40))[:16]).rstrip(b"\0").decode(errors="replace")


def place_of(fd: int, here: tuple[int, int]) -> tuple[int, int] | None:
    """The identity of the namespace that a TAP is in, `here` if that is not ours to know; None: it has been deleted."""
    try:
        found = fcntl.ioctl(fd, GET_TAP_NAMESPACE)
    except OSError as error:
        return None if error.errno == errno.EBADFD else here
    try:
        space = os.fstat(found)
        return space.st_dev, space.st_ino
    finally:
        os.close(found)


def window_of(fd: int) -> int:
    """Bytes that a peer may have in flight: a third of the socket buffer, since a restarted peer may send another window."""
    sock = socket.socket(fileno=fd)
    try:
        return sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 3
    finally:
        sock.detach()


def tap_device(fd: int, table: int | None = None, alarm: int | None = None) -> Device:
    """A TAP that another process has opened and set up; its descriptor is duplicated.

    `table` and `alarm` are the descriptors of an Allowance, which limits the bytes sent to the sockets behind the TAP.
    """
    from penstock_net.vswitch.ports.tap import tap_on

    try:
        answer = fcntl.ioctl(fd, GET_TAP, bytes(40))
    except OSError:
        raise SpecError("the file descriptor is not a TAP", path="plug") from None
    name, flags = answer[:16].rstrip(b"\0").decode("ascii", "replace"), struct.unpack_from("H", answer, 16)[0]
    if not flags & IFF_TAP or not flags & IFF_NO_PI:
        raise SpecError(f"{name} is not a TAP without packet information", path="plug", remedy="open it with IFF_TAP | IFF_NO_PI")
    allowance = None if table is None else Allowance(table, alarm)
    os.set_blocking(fd, False)
    device = Device(mac=mac_of(fd), port=tap_on(os.dup(fd), name, bool(flags & IFF_VNET_HDR)))  # the former may fail
    device.table = allowance
    return device
