"""UDP of the simulated kernel, over IPv4 and IPv6: sockets, and the network between the interfaces that are joined to it.

`Network.fates` is what the network does to datagrams: it may lose, double, delay and reorder them. A path may be narrower than
the interfaces, and tell the sender so, or not.
"""

import errno
import ipaddress
import itertools
import select
import socket
import struct
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock_net.vswitch.world.simulated.descriptors import File, refused, said
from penstock_net.vswitch.world.simulated.links import Link, Space
from penstock_net.vswitch.world.simulated.netlink import SocketPlace, about_socket

if TYPE_CHECKING:
    from penstock_net.vswitch.world.simulated.kernel import Simulated

ROOM = 212_992  # of a socket's buffers
HEADERS, LONGEST = {4: 28, 16: 48}, {4: 65_507, 16: 65_527}  # bytes, by those of an address
LEAST_MTU, MOST_SEGMENTS = {4: 68, 16: 1280}, 128
SKB = 768  # what a datagram takes of a buffer beside its bytes
SOL_UDP, UDP_SEGMENT, UDP_GRO = 17, 103, 104
IP_MTU_DISCOVER, IPV6_MTU_DISCOVER, IP_PMTUDISC_DO = 10, 23, 2
MTU_OPTION: dict[int, tuple[int, int]] = {socket.AF_INET: (socket.IPPROTO_IP, 14), socket.AF_INET6: (socket.IPPROTO_IPV6, 24)}
KEEPS_WHOLE = ((socket.IPPROTO_IP, IP_MTU_DISCOVER), (socket.IPPROTO_IPV6, IPV6_MTU_DISCOVER))
FIRST_PORT, LAST_PORT = 32_768, 60_999  # of those that the kernel gives
ANY: dict[int, bytes] = {socket.AF_INET: bytes(4), socket.AF_INET6: bytes(16)}


class Address(NamedTuple):
    """Of a socket."""

    host: bytes
    port: int


def written(address: Address) -> bytes:
    """A sockaddr_in, or a sockaddr_in6."""
    if len(address.host) == 4:
        return struct.pack("=H", socket.AF_INET) + struct.pack("!H4s8x", address.port, address.host)
    return struct.pack("=H", socket.AF_INET6) + struct.pack("!HI16sI", address.port, 0, address.host, 0)


def read(name: bytes) -> Address:
    (family,) = struct.unpack_from("=H", name)
    port, host = struct.unpack_from("!H4s" if family == socket.AF_INET else "!H4x16s", name, 2)
    return Address(host, port)


def parsed(address: tuple[Any, ...]) -> Address:
    """As Python's sockets have it."""
    return Address(ipaddress.ip_address(address[0]).packed, address[1])


class Datagrams(File):
    """A UDP socket."""

    def __init__(self, network: "Network", family: int = socket.AF_INET) -> None:
        super().__init__()
        self.network, self.any = network, ANY[family]
        self.mtu_option = MTU_OPTION[family]
        self.here, self.cookie = Address(self.any, 0), 0
        self.peer: Address | None = None
        self.room = self.send_room = ROOM
        self.held = self.sending = self.dropped = self.error = 0
        self.joins, self.whole = False, False  # UDP_GRO; whether it sends no fragments
        self.came: deque[tuple[bytes, int, Address]] = deque()  # bytes, how long the segments are, from whom

    @property
    def space(self) -> Space:
        found: Space = self.keeps
        return found

    # ---- Addresses ----

    def bind(self, address: Address) -> None:
        """OSError: it is not an address of this machine, or it is taken."""
        if address.host != self.any and self.network.local(self.space, address.host) is None:
            raise refused(errno.EADDRNOTAVAIL)
        port = address.port or self.network.free_port(self.space)
        if self.network.bound(self.space, Address(address.host, port)):
            raise refused(errno.EADDRINUSE)
        self.here, self.cookie = Address(address.host, port), next(self.network.cookies)
        self.network.sockets.append(self)

    def connect(self, address: Address) -> None:
        """OSError: there is no way to it."""
        link = self.network.way(self.space, address.host)
        if link is None:
            raise refused(errno.ENETUNREACH)
        self.peer = address
        if not self.here.port:
            self.bind(Address(self.network.source(self.space, link, address.host), 0))

    # ---- Options ----

    def option(self, level: int, option: int, value: int) -> None:
        if (level, option) == (SOL_UDP, UDP_GRO):
            self.joins = bool(value)
        elif (level, option) in KEEPS_WHOLE:
            self.whole = value == IP_PMTUDISC_DO

    def path_mtu(self) -> int:
        """OSError: it is not connected, or there is no way to its peer."""
        link = self.network.way(self.space, self.peer.host) if self.peer else None
        if self.peer is None or link is None:
            raise refused(errno.ENOTCONN)
        return self.network.mtu(self.space, link, self.peer.host)

    # ---- Data ----

    def ready(self) -> int:
        found = select.EPOLLIN if self.came else 0
        found |= select.EPOLLOUT if 2 * self.sending <= self.send_room else 0
        return found | (select.EPOLLERR | select.EPOLLIN if self.error else 0)

    def failed(self, error: int) -> None:
        self.error = error
        self.happened(select.EPOLLIN | select.EPOLLERR)

    def _taken_error(self) -> int:
        error, self.error = self.error, 0
        return -error

    def write(self, data: bytes) -> int:
        return self.put_message(data, b"", b"")

    def put_message(self, data: bytes, name: bytes, control: bytes) -> int:
        to, segment = read(name) if name else self.peer, 0
        if len(control) >= 18 and struct.unpack_from("=ii", control, 8) == (SOL_UDP, UDP_SEGMENT):
            segment = struct.unpack_from("=H", control, 16)[0]
        if to is None:
            return -errno.EDESTADDRREQ
        if len(data) > LONGEST[len(self.any)]:
            return -errno.EMSGSIZE
        if self.error:
            return self._taken_error()
        return self.network.send(self, data, to, segment)

    def read(self, room: int) -> bytes | int:
        found = self.take_message(room)
        return found if isinstance(found, int) else found[0]

    def take_message(self, room: int) -> tuple[bytes, bytes, bytes, bool] | int:
        if self.error:
            return self._taken_error()
        if not self.came:
            return -errno.EAGAIN
        data, segment, sender = self.came.popleft()
        self.held -= len(data) + SKB
        control = said(SOL_UDP, UDP_GRO, struct.pack("=i", segment)) if segment else b""
        return data[:room], written(sender), control, len(data) > room

    def arrived(self, parts: Sequence[bytes], sender: Address) -> list[bool]:
        """Datagrams that came together; whether each has found room."""
        if self.joins and len(parts) > 1:
            return [self._take_in(b"".join(parts), len(parts[0]), sender)] * len(parts)
        return [self._take_in(part, 0, sender) for part in parts]

    def _take_in(self, data: bytes, segment: int, sender: Address) -> bool:
        if self.held > self.room:
            self.dropped += 1
            return False
        self.came.append((data, segment, sender))
        self.held += len(data) + SKB
        self.happened(select.EPOLLIN)
        return True

    def ended(self) -> None:
        if self in self.network.sockets:
            self.network.sockets.remove(self)


class Waiting(NamedTuple):
    """A message that waits in the queue of an interface."""

    sock: Datagrams
    parts: list[bytes]
    source: Address
    target: Address
    cost: int


class Path(NamedTuple):
    """What passes between two machines, and whether the sender of what is longer is told."""

    mtu: int
    tells: bool


class Network:
    """Interfaces of namespaces that are joined to it reach each other by their addresses."""

    def __init__(self, world: "Simulated") -> None:
        self.world = world
        self.sockets: list[Datagrams] = []  # that have an address
        self.cookies = itertools.count(1)  # by which they are told apart
        self.joined: list[Link] = []
        self.paths: dict[tuple[bytes, bytes], Path] = {}
        self.known: dict[tuple[Space, bytes], int] = {}  # MTUs that a namespace was told of
        self.stopped: dict[Link, deque[Waiting]] = {}  # interfaces whose queues stand still
        self.exhausted: set[Space] = set()  # in which there is no memory for what is to be sent
        # What becomes of datagrams of one message: delays of the copies of each, in ns; none: it is lost. None: at once.
        self.fates: Callable[[Address, Address, list[bytes]], list[list[int]] | None] = lambda source, target, parts: None
        # What becomes of each: "sent", "lost", "came", or "full": the socket that it was for was.
        self.see: Callable[[str, Address, bytes], None] = lambda what, source, data: None

    # ---- Ways ----

    def join(self, link: Link) -> None:
        self.joined.append(link)
        link.is_wired = True

    def local(self, space: Space, host: bytes) -> Link | None:
        """The interface of a namespace that has an address."""
        return next((link for link in space if host in link.addresses), None)

    def way(self, space: Space, host: bytes) -> Link | None:
        """The interface by which datagrams to an address leave."""
        if self.local(space, host):
            return space.named("lo")
        for link in space:
            if link.up and link.is_wired:
                for address, prefix in link.addresses.items():
                    if len(address) == len(host) and _same_prefix(address, host, prefix):
                        return link
        return None

    def source(self, space: Space, link: Link, host: bytes) -> bytes:
        """The address of who sends to another one."""
        return host if link.name == "lo" else next(each for each in link.addresses if len(each) == len(host))

    def mtu(self, space: Space, link: Link, host: bytes) -> int:
        return min(link.mtu, self.known.get((space, host), link.mtu))

    def bound(self, space: Space, address: Address) -> Datagrams | None:
        """The socket that has an address."""
        for each in self.sockets:
            hosts, is_there = {each.here.host, address.host}, each.space is space and each.here.port == address.port
            if is_there and len(each.any) == len(address.host) and (len(hosts) == 1 or each.any in hosts):
                return each
        return None

    def diagnosed(self, space: Space) -> dict[SocketPlace, bytes]:
        """What SOCK_DIAG says of each socket of a namespace."""
        found = {}
        for each in self.sockets:
            if each.space is space:
                place = (
                    each.here.host,
                    each.here.port,
                    each.peer.host if each.peer else None,
                    each.peer.port if each.peer else 0,
                )
                memory = (each.held, each.room, each.sending, each.send_room, each.dropped)
                found[place] = about_socket(place, each.cookie, memory)
        return found

    def free_port(self, space: Space) -> int:
        taken = {each.here.port for each in self.sockets if each.space is space}
        while (port := self.world.random.randrange(FIRST_PORT, LAST_PORT)) in taken:
            pass
        return port

    # ---- Sending ----

    def send(self, sock: Datagrams, data: bytes, to: Address, segment: int) -> int:
        """How many bytes were taken, or -errno."""
        link = self.way(sock.space, to.host)
        if link is None:
            return -errno.ENETUNREACH
        if not sock.here.port:
            sock.bind(Address(self.source(sock.space, link, to.host), 0))
        longest = (min(segment, len(data)) if segment else len(data)) + HEADERS[len(to.host)]
        if segment and (longest > self.mtu(sock.space, link, to.host) or len(data) > segment * MOST_SEGMENTS):
            return -errno.EINVAL
        if sock.whole and longest > self.mtu(sock.space, link, to.host):
            return -errno.EMSGSIZE
        if sock.sending >= sock.send_room:
            return -errno.EAGAIN
        if sock.space in self.exhausted:
            return -errno.ENOBUFS
        parts = [data[at : at + segment] for at in range(0, len(data), segment)] if segment else [data]
        source = Address(sock.here.host if sock.here.host != sock.any else self.source(sock.space, link, to.host), sock.here.port)
        message = Waiting(sock, parts, source, to, len(data) + SKB)
        self._see("sent", source, parts)
        if link not in self.stopped:
            self._carry(link, message)
        elif len(self.stopped[link]) < link.queue_frames:
            sock.sending += message.cost
            self.stopped[link].append(message)
        else:
            link.dropped_out += 1
            self._see("lost", source, parts)
        return len(data)

    def _see(self, what: str, source: Address, parts: Sequence[bytes]) -> None:
        for part in parts:
            self.see(what, source, part)

    def stop(self, link: Link) -> None:
        """The interface sends nothing more; what it is given waits."""
        self.stopped.setdefault(link, deque())

    def go_on(self, link: Link, purge: bool = False) -> None:
        """It sends again; purge: what has waited is lost, as with a queueing discipline that is removed."""
        for message in self.stopped.pop(link, ()):
            message.sock.sending -= message.cost
            message.sock.happened(select.EPOLLOUT)
            if purge:
                self._see("lost", message.source, message.parts)
            else:
                self._carry(link, message)

    def _carry(self, link: Link, message: Waiting) -> None:
        _, parts, source, target, _ = message
        if link.name == "lo":
            if link.up:
                self._arrive(link.space, parts, source, target)
            else:
                self._see("lost", source, parts)
            return
        path = self.paths.get((source.host, target.host))
        if path and message.sock.whole and len(parts[0]) + HEADERS[len(target.host)] > path.mtu:
            self._see("lost", source, parts)
            if path.tells:
                self._tell_mtu(message, path.mtu)
            return
        fates = self.fates(source, target, parts)
        if fates is None:
            self._reach(parts, source, target)
            return
        together: list[bytes] = []  # datagrams with one copy each, which take the same time
        for i, (part, delays) in enumerate(zip(parts, fates)):
            if not delays:
                self.see("lost", source, part)
            if len(delays) == 1 and together and fates[i - 1] == delays:
                together.append(part)
                continue
            for delay in delays:
                together = [part]
                self.world.at(self.world.now + delay, lambda here=together: self._reach(here, source, target))  # type: ignore[misc]

    def _tell_mtu(self, message: Waiting, mtu: int) -> None:
        """The sender's kernel is told that the path is narrower; it believes no less than a path has by its standard."""
        key = (message.sock.space, message.target.host)
        mtu = max(mtu, LEAST_MTU[len(message.target.host)])
        self.known[key] = min(mtu, self.known.get(key, mtu))
        for each in self.sockets:
            if each.space is key[0] and each.peer == message.target:
                each.failed(errno.EMSGSIZE)

    # ---- Arriving ----

    def _reach(self, parts: Sequence[bytes], source: Address, target: Address) -> None:
        """They have come to the machine with their address, if there is one."""
        for link in self.joined:
            if link.up and target.host in link.addresses and link in link.space.links.values():
                self._arrive(link.space, parts, source, target)
                return
        self._see("lost", source, parts)

    def _arrive(self, space: Space, parts: Sequence[bytes], source: Address, target: Address) -> None:
        sock = self.bound(space, target)
        if sock is None or (sock.peer and sock.peer != source):
            self._see("lost", source, parts)
            for each in self.sockets:
                if each.peer == target and each.here.port == source.port:
                    each.failed(errno.ECONNREFUSED)
            return
        for part, taken in zip(parts, sock.arrived(parts, source)):
            self.see("came" if taken else "full", source, part)


def _same_prefix(first: bytes, second: bytes, bits: int) -> bool:
    rest = 8 * len(first) - bits
    return int.from_bytes(first, "big") >> rest == int.from_bytes(second, "big") >> rest
