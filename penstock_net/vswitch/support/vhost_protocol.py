"""The messages of vhost-user, and what a connection's front end (QEMU, DPDK) has said; vhost_peer.py has the thread."""

import contextlib
import enum
import struct
from collections.abc import Iterator
from typing import Any

from penstock_net.errors import PenstockError
from penstock_net.vswitch.world import os, select, socket

HEADER = struct.Struct("<III")  # request, flags, bytes of the payload
NUMBER, STATE, RING_ADDRESSES = struct.Struct("<Q"), struct.Struct("<II"), struct.Struct("<IIQQQQ")
AREA_COUNT, AREA = struct.Struct("<II"), struct.Struct("<QQQQ")
MOST_AREAS, MOST_PAYLOAD = 8, 4096
VERSION, VERSION_MASK, REPLY, NEED_REPLY = 1, 3, 4, 8  # flags of a message
RING_MASK, NO_FD = 0xFF, 0x100  # of the payload of SET_VRING_KICK, CALL and ERR
MOST_RING, PAIRS = 32768, 8  # buffers of a ring; pairs of rings that are offered
EVENTFD = "anon_inode:[eventfd]"


class Request(enum.IntEnum):
    """Those that are known; others are refused."""

    GET_FEATURES = 1
    SET_FEATURES = 2
    SET_OWNER = 3
    RESET_OWNER = 4
    SET_MEM_TABLE = 5
    SET_VRING_NUM = 8
    SET_VRING_ADDR = 9
    SET_VRING_BASE = 10
    GET_VRING_BASE = 11
    SET_VRING_KICK = 12
    SET_VRING_CALL = 13
    SET_VRING_ERR = 14
    GET_PROTOCOL_FEATURES = 15
    SET_PROTOCOL_FEATURES = 16
    GET_QUEUE_NUM = 17
    SET_VRING_ENABLE = 18


class GuestFeature(enum.IntFlag):
    """What the port offers to a guest; the second group with super-frames only."""

    MERGEABLE = 1 << 15
    QUEUE_PAIRS = 1 << 22
    INDIRECT = 1 << 28
    EVENT_INDEX = 1 << 29
    PROTOCOL = 1 << 30
    VERSION_1 = 1 << 32

    SUMS_FROM = 1 << 0
    SUMS_TO = 1 << 1
    TCP4_TO = 1 << 7
    TCP6_TO = 1 << 8
    ECN_TO = 1 << 9
    TCP4_FROM = 1 << 11
    TCP6_FROM = 1 << 12
    ECN_FROM = 1 << 13


OF_SUPER_FRAMES = (
    GuestFeature.SUMS_FROM
    | GuestFeature.SUMS_TO
    | GuestFeature.TCP4_TO
    | GuestFeature.TCP6_TO
    | GuestFeature.ECN_TO
    | GuestFeature.TCP4_FROM
    | GuestFeature.TCP6_FROM
    | GuestFeature.ECN_FROM
)
ALWAYS = ~OF_SUPER_FRAMES & sum(GuestFeature)
PROTOCOL_QUEUES, PROTOCOL_ACKNOWLEDGE = 1 << 0, 1 << 3
PROTOCOL_FEATURES = PROTOCOL_QUEUES | PROTOCOL_ACKNOWLEDGE


class Refused(PenstockError):
    """A message that breaks the rules: the connection ends."""


class NotOffered(PenstockError):
    """A message about what is not offered: the connection goes on."""


class Vring:
    """What the front end has said of a ring."""

    def __init__(self) -> None:
        self.size, self.base = 0, 0
        self.addresses: tuple[int, int, int] | None = None  # of descriptors, available and used buffers
        self.fds = {"kick": -1, "call": -1, "err": -1}
        self.enabled, self.live = False, False


class Session:
    """One connection's state: requests in, answers out."""

    def __init__(self, rings: Any, epoll: select.epoll, pairs: int, headers: bool) -> None:
        self.rings, self.epoll, self.pairs = rings, epoll, pairs
        self.offered = int(ALWAYS | (OF_SUPER_FRAMES if headers else 0))
        self.features = 0
        self.protocol = 0
        self.vrings = [Vring() for _ in range(2 * pairs)]
        self.areas: list[tuple[int, int, int, int, int]] = []  # of memory, with descriptors
        self.refused = 0

    def answer(self, request: int, flags: int, payload: bytes, fds: list[int]) -> bytes | None:
        """Do what a message asks, and return the answer, if it has one.  Takes the descriptors that it removes from `fds`."""
        if flags & VERSION_MASK != VERSION or flags & REPLY:
            raise Refused(f"vhost-user: flags {flags:#x} are not those of a request of version {VERSION}")
        failed, reply = False, None
        try:
            reply = self._handle(request, payload, fds)
        except NotOffered:
            failed = True
            self.refused += 1
        if reply is None and flags & NEED_REPLY and self.protocol & PROTOCOL_ACKNOWLEDGE:
            reply = NUMBER.pack(failed)
        return None if reply is None else HEADER.pack(request, VERSION | REPLY, len(reply)) + reply

    def _handle(self, request: int, payload: bytes, fds: list[int]) -> bytes | None:
        try:
            known = Request(request)
        except ValueError:
            raise NotOffered(f"vhost-user: request {request} is not known") from None
        try:
            reply = getattr(self, f"_{known.name.lower()}")(payload, fds)
        except struct.error:
            raise Refused(f"vhost-user: {known.name} has a payload of {len(payload)} B") from None
        return None if reply is None else bytes(reply)

    # ---- Features ----

    def _get_features(self, payload: bytes, fds: list[int]) -> bytes:
        return NUMBER.pack(self.offered)

    def _set_features(self, payload: bytes, fds: list[int]) -> None:
        (wanted,) = NUMBER.unpack(payload)
        if unknown := wanted & ~self.offered:
            raise Refused(f"vhost-user: features {unknown:#x} are not offered")
        self.features = wanted
        with self._stopped():
            self.rings.set_features(wanted)
            self._arrange()

    def _get_protocol_features(self, payload: bytes, fds: list[int]) -> bytes:
        return NUMBER.pack(PROTOCOL_FEATURES)

    def _set_protocol_features(self, payload: bytes, fds: list[int]) -> None:
        (wanted,) = NUMBER.unpack(payload)
        if unknown := wanted & ~PROTOCOL_FEATURES:
            raise Refused(f"vhost-user: protocol features {unknown:#x} are not offered")
        self.protocol = wanted

    def _get_queue_num(self, payload: bytes, fds: list[int]) -> bytes:
        return NUMBER.pack(self.pairs)

    def _set_owner(self, payload: bytes, fds: list[int]) -> None:
        pass

    def _reset_owner(self, payload: bytes, fds: list[int]) -> None:
        with self._stopped():
            for vring in self.vrings:
                vring.enabled = False
                self._close_fd(vring, "kick")
            self._arrange()

    # ---- Memory ----

    def _set_mem_table(self, payload: bytes, fds: list[int]) -> None:
        count, _ = AREA_COUNT.unpack_from(payload)
        if not 1 <= count <= MOST_AREAS or count != len(fds):
            raise Refused(
                f"vhost-user: a memory table of {count} areas with {len(fds)} descriptors; 1 to {MOST_AREAS} are possible"
            )
        areas = []
        for i, fd in enumerate(fds):
            guest, size, user, offset = AREA.unpack_from(payload, AREA_COUNT.size + i * AREA.size)
            if not size or max(guest, user, offset) + size > 1 << 64:
                raise Refused(f"vhost-user: a memory area of {size:#x} B at {guest:#x} does not fit any address space")
            areas.append((guest, size, user, fd, offset))
        with self._stopped():
            if why := self.rings.set_memory(areas):
                raise Refused(f"vhost-user: {why}")
            self._close_areas()
            self.areas = areas
            fds.clear()
            for i, vring in enumerate(self.vrings):
                if vring.live and not self.rings.place(i, vring.size, *self._addresses(vring)):
                    raise Refused(f"vhost-user: ring {i} is outside of the new memory")

    def _close_areas(self) -> None:
        for *_, fd, _ in self.areas:
            os.close(fd)
        self.areas = []

    @staticmethod
    def _addresses(vring: Vring) -> tuple[int, int, int]:
        assert vring.addresses is not None
        return vring.addresses

    # ---- Rings ----

    def _vring(self, number: int) -> Vring:
        if number >= len(self.vrings):
            raise Refused(f"vhost-user: ring {number}; there are {len(self.vrings)}")
        return self.vrings[number]

    def _set_vring_num(self, payload: bytes, fds: list[int]) -> None:
        number, size = STATE.unpack(payload)
        if not 1 <= size <= MOST_RING or size & (size - 1):
            raise Refused(f"vhost-user: a ring of {size} buffers; must be a power of two up to {MOST_RING}")
        vring = self._idle(number)
        vring.size = size

    def _set_vring_addr(self, payload: bytes, fds: list[int]) -> None:
        number, flags, descriptors, used, available, _log = RING_ADDRESSES.unpack(payload)
        if flags:
            raise Refused(f"vhost-user: ring {number} is to be logged, which is not offered")
        vring = self._vring(number)
        vring.addresses = (descriptors, available, used)
        if vring.live:
            with self._stopped():
                if not self.rings.place(number, vring.size, *vring.addresses):
                    raise Refused(f"vhost-user: ring {number} is outside of the guest's memory, or not aligned")

    def _set_vring_base(self, payload: bytes, fds: list[int]) -> None:
        number, base = STATE.unpack(payload)
        self._idle(number).base = base & 0xFFFF

    def _get_vring_base(self, payload: bytes, fds: list[int]) -> bytes:
        number, _ = STATE.unpack(payload)
        vring = self._vring(number)
        with self._stopped():
            self._close_fd(vring, "kick")
            self._arrange()
        return STATE.pack(number, vring.base)

    def _idle(self, number: int) -> Vring:
        """A ring that is not in use now."""
        vring = self._vring(number)
        if vring.live:
            raise Refused(f"vhost-user: ring {number} is in use")
        return vring

    def _set_vring_kick(self, payload: bytes, fds: list[int]) -> None:
        number, vring, fd = self._ring_fd(payload, fds)
        if fd < 0:
            raise Refused(f"vhost-user: ring {number} has no eventfd to kick; a ring that is to be polled is not offered")
        with self._stopped():
            self._close_fd(vring, "kick")
            vring.fds["kick"] = fd
            self.epoll.register(fd, select.EPOLLIN | select.EPOLLET)
            self._arrange()

    def _set_vring_call(self, payload: bytes, fds: list[int]) -> None:
        number, vring, fd = self._ring_fd(payload, fds)
        with self._stopped():
            self._close_fd(vring, "call")
            vring.fds["call"] = fd
            self.rings.set_call(number, fd)

    def _set_vring_err(self, payload: bytes, fds: list[int]) -> None:
        _, vring, fd = self._ring_fd(payload, fds)
        self._close_fd(vring, "err")
        vring.fds["err"] = fd

    def _ring_fd(self, payload: bytes, fds: list[int]) -> tuple[int, Vring, int]:
        """The ring and the eventfd of a message; -1: none."""
        (word,) = NUMBER.unpack(payload)
        vring = self._vring(word & RING_MASK)
        if word & NO_FD:
            return word & RING_MASK, vring, -1
        if len(fds) != 1 or os.readlink(f"/proc/self/fd/{fds[0]}") != EVENTFD:
            raise Refused(f"vhost-user: ring {word & RING_MASK} needs one eventfd")
        return word & RING_MASK, vring, fds.pop()

    def _set_vring_enable(self, payload: bytes, fds: list[int]) -> None:
        number, on = STATE.unpack(payload)
        self._vring(number).enabled = bool(on)
        with self._stopped():
            self._arrange()

    def _close_fd(self, vring: Vring, which: str) -> None:
        fd, vring.fds[which] = vring.fds[which], -1
        if fd >= 0:
            if which == "kick":
                self.epoll.unregister(fd)  # which closing it would not: the front end has it, too
            os.close(fd)

    # ---- What follows from it ----

    @contextlib.contextmanager
    def _stopped(self) -> Iterator[None]:
        """No worker uses the rings meanwhile."""
        self.rings.stop()
        try:
            yield
        finally:
            self.rings.go()

    def _arrange(self) -> None:
        """Start and stop rings according to what was said of them."""
        to_guest: list[int] = []
        from_guest: list[int] = []
        for i, vring in enumerate(self.vrings):
            ready = vring.fds["kick"] >= 0 and (vring.enabled or not self.features & GuestFeature.PROTOCOL)
            if ready and not vring.live:
                if vring.addresses is None or not vring.size or not self.rings.has_memory:
                    raise Refused(f"vhost-user: ring {i} is started without a size, addresses or memory")
                if not self.rings.place(i, vring.size, *vring.addresses):
                    raise Refused(f"vhost-user: ring {i} is outside of the guest's memory, or not aligned")
                self.rings.begin(i, vring.fds["call"])
            elif vring.live and not ready:
                vring.base = self.rings.end(i)
            vring.live = ready
            if ready:
                (from_guest if i % 2 else to_guest).append(i)
        self.rings.use(to_guest, from_guest)

    def end(self) -> None:
        """Forget the guest, and tell it if it was its fault."""
        with self._stopped():
            broken = self.rings.broken
            self.rings.clear()
            for vring in self.vrings:
                if broken and vring.fds["err"] >= 0:
                    self.rings.signal(vring.fds["err"])
                for which in vring.fds:
                    self._close_fd(vring, which)
            self._close_areas()

    # ---- Handing it over to another process ----

    def state(self, fds: list[int]) -> dict[str, Any]:
        """All that was said, as JSON can hold it; descriptors are numbers in `fds`, which grows."""

        def number(fd: int) -> int:
            if fd >= 0:
                fds.append(fd)
            return -1 if fd < 0 else len(fds) - 1

        return {
            "features": self.features,
            "protocol": self.protocol,
            "areas": [[guest, size, user, number(fd), offset] for guest, size, user, fd, offset in self.areas],
            "vrings": [
                {
                    **{key: getattr(vring, key) for key in ("size", "base", "addresses", "enabled", "live")},
                    "fds": {which: number(fd) for which, fd in vring.fds.items()},
                    "ring": self.rings.ring_state(i),
                }
                for i, vring in enumerate(self.vrings)
            ],
        }

    def take(self, found: dict[str, Any], fds: list[int]) -> None:
        """Go on where another process has left it.  PenstockError: the guest's memory cannot be had."""
        self.features, self.protocol = found["features"], found["protocol"]
        self.rings.set_features(self.features)
        self.areas = [(guest, size, user, fds[fd], offset) for guest, size, user, fd, offset in found["areas"]]
        if self.areas and (why := self.rings.set_memory(self.areas)):
            raise PenstockError(f"vhost-user: {why}")
        for i, (vring, row) in enumerate(zip(self.vrings, found["vrings"])):
            vring.size, vring.base, vring.enabled, vring.live = row["size"], row["base"], row["enabled"], row["live"]
            vring.addresses = tuple(row["addresses"]) if row["addresses"] else None
            vring.fds = {which: -1 if fd < 0 else fds[fd] for which, fd in row["fds"].items()}
            if vring.fds["kick"] >= 0:
                self.epoll.register(vring.fds["kick"], select.EPOLLIN | select.EPOLLET)
            if vring.live and not self.rings.place(i, vring.size, *self._addresses(vring)):
                raise PenstockError(f"vhost-user: ring {i} is outside of the guest's memory")
        self.set_rings(found)
        live = [i for i, vring in enumerate(self.vrings) if vring.live]
        self.rings.use([i for i in live if i % 2 == 0], [i for i in live if i % 2])

    def set_rings(self, found: dict[str, Any]) -> None:
        for i, (vring, row) in enumerate(zip(self.vrings, found["vrings"])):
            self.rings.set_ring(i, vring.fds["call"], row["ring"])


def receive(connection: socket.socket) -> tuple[int, int, bytes, list[int]] | None:
    """One message: request, flags, payload and descriptors; None: the connection has ended.  Refused: it is none."""
    header, fds, flags, _ = socket.recv_fds(connection, HEADER.size, MOST_AREAS, socket.MSG_CMSG_CLOEXEC)
    try:
        if flags & socket.MSG_CTRUNC:
            raise Refused(f"vhost-user: more than {MOST_AREAS} descriptors in a message")
        if not header or len(header := header + _exactly(connection, HEADER.size - len(header))) < HEADER.size:
            return None
        request, flags, size = HEADER.unpack(header)
        if size > MOST_PAYLOAD:
            raise Refused(f"vhost-user: a payload of {size} B; at most {MOST_PAYLOAD}")
        payload = _exactly(connection, size)
        if len(payload) < size:
            return None
        found, fds = fds, []
        return request, flags, payload, found
    finally:
        for fd in fds:
            os.close(fd)


def _exactly(connection: socket.socket, size: int) -> bytes:
    """So many bytes; fewer: the connection has ended."""
    found = b""
    while len(found) < size and (more := connection.recv(size - len(found))):
        found += more
    return found
