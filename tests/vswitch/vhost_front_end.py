"""A front end of vhost-user for tests: the socket's side that has the guest, and the guest's driver of split rings."""

import contextlib
import itertools
import mmap
import os
import select
import socket
import struct

from penstock_net.vswitch.support.vhost_protocol import AREA, AREA_COUNT, HEADER, NUMBER, RING_ADDRESSES, STATE, Request

GUEST, USER = 0x1_0000_0000, 0x7000_0000_0000  # where the guest's memory begins, by the guest and by the front end
RING_BYTES, BUFFER_BYTES = 1 << 16, 2048
F_NEXT, F_WRITE, F_INDIRECT = 1, 2, 4
MERGEABLE, INDIRECT, EVENTS, PROTOCOL, VERSION_1 = 1 << 15, 1 << 28, 1 << 29, 1 << 30, 1 << 32
USUAL = MERGEABLE | INDIRECT | PROTOCOL | VERSION_1
QUEUES, ACKNOWLEDGE = 1, 8


class GuestRing:
    """One virtqueue in the guest's memory, and the indices of its driver."""

    def __init__(self, front, number, size):
        self.front, self.number, self.size = front, number, size
        self.at = number * RING_BYTES
        self.available, self.used = self.at + 16 * size, self.at + 16 * size + 4096 + 2 * size
        self.used -= self.used % 4
        self.kick, self.call, self.err = [os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC) for _ in range(3)]
        self.put, self.got = 0, 0
        self.free = list(range(size))

    def close(self):
        for fd in (self.kick, self.call, self.err):
            os.close(fd)

    def describe(self, i, address, length, flags=0, following=0):
        self.front.write(self.at + 16 * i, struct.pack("<QIHH", address, length, flags, following))

    def offer(self, head):
        """Make a chain available, without telling."""
        self.front.write(self.available + 4 + 2 * (self.put % self.size), struct.pack("<H", head))
        self.put = (self.put + 1) & 0xFFFF
        self.show()

    def show(self):
        self.front.write(self.available + 2, struct.pack("<H", self.put))

    def ring(self):
        os.eventfd_write(self.kick, 1)

    def offer_bytes(self, parts, flags=0, indirect=False):
        """A chain of (address, length), each a descriptor of its own; its head."""
        if indirect:
            table = self.front.room(16 * len(parts))
            for i, (address, length) in enumerate(parts):
                more = F_NEXT if i + 1 < len(parts) else 0
                self.front.write(table + 16 * i, struct.pack("<QIHH", address, length, flags | more, i + 1))
            head = self.free.pop()
            self.describe(head, GUEST + table, 16 * len(parts), F_INDIRECT)
        else:
            chain = [self.free.pop() for _ in parts]
            for i, (address, length) in enumerate(parts):
                more = i + 1 < len(parts)
                self.describe(chain[i], address, length, flags | (F_NEXT if more else 0), chain[i + 1] if more else 0)
            head = chain[0]
        self.offer(head)
        return head

    @property
    def used_index(self):
        return struct.unpack("<H", self.front.read(self.used + 2, 2))[0]

    def collect(self):
        """What the port has put back: (head, bytes)."""
        found = []
        while self.got != self.used_index:
            found.append(struct.unpack("<II", self.front.read(self.used + 4 + 8 * (self.got % self.size), 8)))
            self.got = (self.got + 1) & 0xFFFF
        return found

    @property
    def flags(self):
        """The port's wish: 1, it needs no kick."""
        return struct.unpack("<H", self.front.read(self.used, 2))[0]

    def interrupts(self):
        try:
            return os.eventfd_read(self.call)
        except BlockingIOError:
            return 0


class FrontEnd:
    """A connection to a port, with a guest of one memory area and some rings."""

    def __init__(self, connection, features=USUAL, pairs=1, size=256, memory=1 << 22):
        self.connection, self.features, self.pairs = connection, features, pairs
        self.fd = os.memfd_create("guest", os.MFD_CLOEXEC)
        os.ftruncate(self.fd, memory)
        self.bytes, self.memory = mmap.mmap(self.fd, memory), memory
        self.header = 12 if features & (MERGEABLE | VERSION_1) else 10
        self.rings = [GuestRing(self, i, size) for i in range(2 * pairs)]
        self.next = 2 * pairs * RING_BYTES
        self.buffers = {}  # of the rings to the guest: by ring and head, where they are

    def close(self):
        self.connection.close()
        for ring in self.rings:
            ring.close()
        self.bytes.close()
        os.close(self.fd)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    # ---- Memory ----

    def write(self, at, data):
        self.bytes[at : at + len(data)] = data

    def read(self, at, size):
        return self.bytes[at : at + size]

    def room(self, size):
        """The offset of new memory."""
        if self.next + size > self.memory:
            self.next = 2 * self.pairs * RING_BYTES
        at, self.next = self.next, self.next + size + -size % 64
        return at

    # ---- Messages ----

    def send(self, request, payload=b"", fds=(), flags=1):
        socket.send_fds(self.connection, [HEADER.pack(request, flags, len(payload)) + payload], list(fds))

    def receive(self):
        """A reply: request and payload; None: the connection has ended."""
        header = self._exactly(HEADER.size)
        if not header:
            return None
        request, flags, size = HEADER.unpack(header)
        assert flags == 5
        return request, self._exactly(size)

    def _exactly(self, size):
        found = b""
        while len(found) < size:
            try:
                more = self.connection.recv(size - len(found))
            except ConnectionResetError:
                more = b""
            if not more:
                return b""
            found += more
        return found

    def ask(self, request, payload=b"", fds=()):
        self.send(request, payload, fds)
        answer = self.receive()
        assert answer is not None and answer[0] == request
        return answer[1]

    def ask_number(self, request):
        return NUMBER.unpack(self.ask(request))[0]

    def tell(self, request, payload=b"", fds=()):
        """Have a message acknowledged; whether it was taken."""
        self.send(request, payload, fds, flags=9)
        answer = self.receive()
        return answer is not None and NUMBER.unpack(answer[1])[0] == 0

    @property
    def has_ended(self):
        """Whether the port has closed the connection; waits for it."""
        self.connection.settimeout(60)
        with contextlib.suppress(ConnectionResetError):
            return self.connection.recv(1) == b""
        return True

    # ---- A usual beginning ----

    def begin(self, enable=True):
        self.send(Request.SET_OWNER)
        offered = self.ask_number(Request.GET_FEATURES)
        assert self.features & ~offered == 0, f"{self.features & ~offered:#x} is not offered"
        self.ask_number(Request.GET_PROTOCOL_FEATURES)
        self.send(Request.SET_PROTOCOL_FEATURES, NUMBER.pack(QUEUES | ACKNOWLEDGE))
        self.send(Request.SET_FEATURES, NUMBER.pack(self.features))
        self.share_memory()
        for ring in self.rings:
            self.start(ring)
            if enable:
                self.enable(ring)
        return self

    def share_memory(self):
        assert self.tell(Request.SET_MEM_TABLE, AREA_COUNT.pack(1, 0) + AREA.pack(GUEST, self.memory, USER, 0), [self.fd])

    def start(self, ring):
        number = ring.number
        assert self.tell(Request.SET_VRING_NUM, STATE.pack(number, ring.size))
        assert self.tell(Request.SET_VRING_BASE, STATE.pack(number, ring.got))
        assert self.tell(Request.SET_VRING_CALL, NUMBER.pack(number), [ring.call])
        assert self.tell(Request.SET_VRING_ERR, NUMBER.pack(number), [ring.err])
        assert self.tell(Request.SET_VRING_ADDR, self.addresses(ring))
        assert self.tell(Request.SET_VRING_KICK, NUMBER.pack(number), [ring.kick])

    def addresses(self, ring):
        return RING_ADDRESSES.pack(ring.number, 0, USER + ring.at, USER + ring.used, USER + ring.available, 0)

    def enable(self, ring, on=1):
        assert self.tell(Request.SET_VRING_ENABLE, STATE.pack(ring.number, on))

    def stop(self, ring):
        """Stop a ring; where the port was."""
        return STATE.unpack(self.ask(Request.GET_VRING_BASE, STATE.pack(ring.number, 0)))[1]

    # ---- Frames ----

    def transmit(self, frame, header=None, split=(), pair=0, indirect=False, kick=True):
        """Send a frame, cut into descriptors at these bytes."""
        data = (header or b"").ljust(self.header, b"\0") + frame
        at = self.room(len(data))
        self.write(at, data)
        edges = [0, *split, len(data)]
        parts = [(GUEST + at + a, b - a) for a, b in itertools.pairwise(edges)]
        ring = self.rings[2 * pair + 1]
        head = ring.offer_bytes(parts, indirect=indirect)
        if kick:
            ring.ring()
        return head

    def provide(self, count=1, sizes=(BUFFER_BYTES,), pair=0, indirect=False):
        """Buffers for received frames, each a chain of descriptors of these sizes."""
        ring = self.rings[2 * pair]
        for _ in range(count):
            parts = [(GUEST + self.room(size), size) for size in sizes]
            self.buffers[ring.number, ring.offer_bytes(parts, F_WRITE, indirect)] = parts
        ring.ring()

    def received(self, pair=0):
        """Frames that have come: (header, frame)."""
        ring, found, missing = self.rings[2 * pair], [], 0
        for head, length in ring.collect():
            data = b"".join(self.read(at - GUEST, size) for at, size in self.buffers.pop((ring.number, head)))[:length]
            if missing:
                header, frame = found.pop()
                found.append((header, frame + data))
            else:
                missing = struct.unpack_from("<H", data, 10)[0] if self.header == 12 else 1
                found.append((data[: self.header], data[self.header :]))
            missing -= 1
        assert not missing
        return found


def connect(path):
    """A connection to a port that listens."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    return connection


def readable(fd, seconds=60):
    return bool(select.select([fd], [], [], seconds)[0])
