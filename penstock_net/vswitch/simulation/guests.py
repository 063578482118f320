"""Virtual machines at vhost-user ports of a run: a front end, and a guest that drives split rings (virtio 1.2, 2.7) as it likes.

Each life of one has other features, rings and buffers.  A guest that breaks the rules harms itself: it is sent away.
"""

import contextlib
import random
import struct
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from select import EPOLLIN, POLLIN
from typing import TYPE_CHECKING, Any

from penstock_net.vswitch import world
from penstock_net.vswitch.simulation import frames, lies, standing
from penstock_net.vswitch.simulation.apps import FIRST_AGAIN_NS, LAST_AGAIN_NS, LONGEST_SLEEP_NS, ONE
from penstock_net.vswitch.simulation.laws import MS, Broken
from penstock_net.vswitch.simulation.layout import QUEUES, Layout
from penstock_net.vswitch.simulation.step import Step
from penstock_net.vswitch.support.vhost_protocol import (
    AREA,
    AREA_COUNT,
    HEADER,
    NUMBER,
    PAIRS,
    RING_ADDRESSES,
    STATE,
    GuestFeature,
    Request,
)
from penstock_net.vswitch.world.simulated.descriptors import Counter as Eventfd
from penstock_net.vswitch.world.simulated.descriptors import File

if TYPE_CHECKING:
    from penstock_net.vswitch.simulation.machine import Machine

DRAWN = 0.15  # of the runs have some
NAMES = ("g", "h", "i")  # at a port that listens, at one that connects, and at one that operators add and remove
CONNECTS, COMES = NAMES[1:]
GUEST, USER = 0x1_0000_0000, 0x7000_0000_0000  # where the memory begins, by the guest and by the front end
NEXT, WRITE, INDIRECT = 1, 2, 4  # flags of a descriptor
NO_SIGNAL, WORD = 1, 0xFFFF
BUFFER, SMALL, HEADER_BYTES, TABLE = 2048, 512, 12, 32  # bytes; the last: of two indirect descriptors
SIZES = (8, 16, 64, 256)
RETRY_S = 0.002
LONELY_NS = 60 * MS
BACK_NS = 3_000 * MS  # after which one that was sent away has a port again, or one whose port connects
REQUIRED = GuestFeature.PROTOCOL | GuestFeature.VERSION_1
FEATURES = (GuestFeature.MERGEABLE, GuestFeature.INDIRECT, GuestFeature.EVENT_INDEX)
OUTSIDE, LOOP, JUMP = "outside", "loop", "jump"  # how a guest breaks the rules
AWAY_NS = 6_000 * MS  # after which one that breaks them has no connection any more, also beside an upgrade that fails


def is_drawn(seed: int) -> bool:
    return random.Random(f"guests of {seed}").random() < DRAWN


def with_guests(layout: Layout) -> Layout:
    """The same ports, and those of guests."""
    tables, others = dict(layout.tables), dict(layout.others)
    for i, name in enumerate(NAMES):
        own = {"name": name, "addresses": [f"10.0.2.{i + 1}"], "kind": "vhost-user", "path": f"/simulated/guest-{name}"}
        tables[name] = {**own, "server": name != CONNECTS, "super_frames": False, "pairs": 2, "queues": QUEUES}
        others[name] = [f"10.0.3.{i + 1}"]
    apps, base = (*layout.apps, *NAMES), (*layout.base, *(name for name in NAMES if name != COMES))
    return replace(layout, apps=apps, base=base, tables=tables, others=others, guests=NAMES)


class Ended(Exception):
    """The port has closed the connection."""


class Queue:
    """A virtqueue in the guest's memory, and its driver's indices.  A slot is a chain of one descriptor or of two."""

    def __init__(self, guest: "Guest", number: int, size: int, at: int) -> None:
        self.guest, self.number, self.size, self.descriptors = guest, number, size, at
        self.available = at + 16 * size
        self.used = self.available + 6 + 2 * size
        self.used += -self.used % 4
        self.buffers = self.used + 6 + 8 * size
        self.buffers += -self.buffers % 64
        self.per_slot = 2 if guest.two else 1
        self.slots = size // self.per_slot
        self.tables = self.buffers + self.slots * BUFFER
        self.end = self.tables + self.slots * TABLE
        self.put = self.got = 0  # buffers that were made available, and that were taken back
        self.free = list(range(self.slots))
        self.kick, self.call = (world.os.eventfd(0) for _ in range(2))

    def describe(self, slot: int, parts: Sequence[tuple[int, int]], flags: int) -> int:
        """Let a slot's chain be of these places and lengths; its head."""
        memory, first = self.guest.memory, slot * self.per_slot
        table, base = self.descriptors + 16 * first, first
        if self.guest.has(GuestFeature.INDIRECT):
            own = self.tables + slot * TABLE
            struct.pack_into("<QIHH", memory, table, GUEST + own, 16 * len(parts), INDIRECT, 0)
            table, base = own, 0
        for i, (at, length) in enumerate(parts):
            more = i + 1 < len(parts)
            rest = flags | (NEXT if more else 0), base + i + 1 if more else 0
            struct.pack_into("<QIHH", memory, table + 16 * i, GUEST + at, length, *rest)
        return first

    def offer(self, head: int) -> None:
        """Make a chain available; the port is shown it by `show`."""
        struct.pack_into("<H", self.guest.memory, self.available + 4 + 2 * (self.put % self.size), head)
        self.put = (self.put + 1) & WORD

    def show(self, before: int) -> None:
        """Show the port what was offered since `put` was that, and kick it if it wishes so."""
        memory = self.guest.memory
        if before == self.put:
            return
        struct.pack_into("<H", memory, self.available + 2, self.put)
        world.time.monotonic_ns()  # others may do something here
        if self.guest.half:
            return
        if self.guest.has(GuestFeature.EVENT_INDEX):
            (wish,) = struct.unpack_from("<H", memory, self.used + 4 + 8 * self.size)
            wanted = (self.put - wish - 1) & WORD < (self.put - before) & WORD
        else:
            wanted = not struct.unpack_from("<H", memory, self.used)[0] & NO_SIGNAL
        if wanted:
            world.os.eventfd_write(self.kick, 1)

    @property
    def used_index(self) -> int:
        index: int = struct.unpack_from("<H", self.guest.memory, self.used + 2)[0]
        return index

    def collect(self, most: int) -> Iterator[tuple[int, int]]:
        """What the port has put back: heads, and bytes that it has written."""
        for _ in range(most):
            if self.got == self.used_index:
                return
            at = self.used + 4 + 8 * (self.got % self.size)
            self.got = (self.got + 1) & WORD
            yield struct.unpack_from("<II", self.guest.memory, at)

    def listens(self, on: bool) -> bool:
        """Have the port interrupt when it puts something back, or not; whether it has just done so."""
        memory = self.guest.memory
        if not self.guest.has(GuestFeature.EVENT_INDEX):
            struct.pack_into("<H", memory, self.available, 0 if on else NO_SIGNAL)
        elif on:
            struct.pack_into("<H", memory, self.available + 4 + 2 * self.size, self.got)
        if on:
            world.time.monotonic_ns()
        return self.got != self.used_index

    def untaken(self) -> int:
        """At most so many chains the port has not taken."""
        return (self.put - self.used_index) & WORD


class Guest:
    """One life of a virtual machine.  It is told the same as an application."""

    def __init__(self, machine: "Machine", name: str, life: int) -> None:
        self.machine, self.name, self.life = machine, name, life
        self.table = machine.layout.tables[name]
        self.wanted: deque[tuple[str, int | lies.Lie, bool]] = deque()  # receivers, lengths or lies, whether by IPv6
        self.numbers: Counter[int] = Counter()  # of frames, by queue
        self.most = 32  # frames that it reads at once; 0: it does not read
        self.pause_ns = 0  # between two readings
        self.half = self.over = False  # the former: it does not kick for what it sends
        self.sent = 0  # frames
        self.breaks = ""  # how it is to break the rules
        self.port: Any = None  # the connection
        self.queues: list[Queue] = []
        self.orders = Eventfd(0)  # raised when it is told something
        draw = random.Random(f"guest {name} {life} {machine.world.random.random()}")
        self.two, self.small = draw.random() < 0.5, False  # two descriptors a chain; short buffers for what comes
        self.features = REQUIRED | sum(feature for feature in FEATURES if draw.random() < 0.5)
        if self.has(GuestFeature.MERGEABLE):
            self.small = draw.random() < 0.5
        self.pairs = draw.choice((1, min(2, self.table.get("pairs", PAIRS))))
        self.size, self.is_polite = draw.choice(SIZES), draw.random() < 0.5
        self.task = machine.world.tasks.process(f"{name}.{life}", self._run)

    def has(self, feature: GuestFeature) -> bool:
        return bool(self.features & feature)

    def told(self) -> None:
        """Something else is asked of it."""
        self.orders.write(ONE)

    # ---- The front end ----

    def _run(self) -> None:
        self._make_memory()
        at = self.machine.layout.number(self.name)
        try:
            if not self._connect():
                return
            self._begin()
            if not (self.over or self.half):
                self.machine.record.calm(at, "not there")
            self._serve()
        except (Ended, BrokenPipeError, ConnectionResetError):
            pass
        self.machine.record.disturb(at, "not there")
        self.port.close()

    def _make_memory(self) -> None:
        """Memory with all rings and their buffers."""
        at = 0
        for number in range(2 * self.pairs):
            self.queues.append(Queue(self, number, self.size, at))
            at = self.queues[-1].end
            at += -at % 4096
        self.fd = world.os.memfd_create("guest")
        world.os.ftruncate(self.fd, at)
        self.bytes, self.memory = at, world.mmap.mmap(self.fd, at)

    def _connect(self) -> bool:
        """Whether there is a connection; else it is over."""
        path = self.table["path"]
        if self.table.get("server", True):
            while not self.over:
                self.port = world.socket.socket(world.socket.AF_UNIX)
                try:
                    self.port.connect(path)
                    return True
                except OSError:
                    self.port.close()
                    world.time.sleep(RETRY_S)
            return False
        listening = world.socket.socket(world.socket.AF_UNIX)
        with contextlib.suppress(FileNotFoundError):
            world.os.unlink(path)
        listening.bind(path)
        listening.listen(1)
        waiting = self.machine.world.table.get(listening.fileno())
        while not self.over and not waiting.ready():
            self._wait(LONGEST_SLEEP_NS, [waiting])
        if not self.over:
            self.port = listening.accept()[0]
        with contextlib.suppress(FileNotFoundError):
            world.os.unlink(path)
        listening.close()
        return not self.over

    def _tell(self, request: Request, payload: bytes, fds: Sequence[int] = ()) -> None:
        """A message that is acknowledged."""
        self._send_message(request, payload, fds, 9)
        if self._answer(request) != NUMBER.pack(0):
            raise Broken(f"the port of guest {self.name} refuses {request.name}")

    def _ask(self, request: Request, payload: bytes = b"") -> bytes:
        self._send_message(request, payload, (), 1)
        return self._answer(request)

    def _send_message(self, request: Request, payload: bytes, fds: Sequence[int], flags: int) -> None:
        world.socket.send_fds(self.port, [HEADER.pack(request, flags, len(payload)) + payload], list(fds))

    def _answer(self, request: Request) -> bytes:
        said, flags, size = HEADER.unpack(self._exactly(HEADER.size))
        if (said, flags) != (request, 5):
            raise Broken(f"the port of guest {self.name} answers {request.name} with {said}, flags {flags}")
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            if not (more := self.port.recv(size - len(found))):
                raise Ended
            found += more
        return found

    def _begin(self) -> None:
        """Say all that has to be said, and give buffers for what comes."""
        self._send_message(Request.SET_OWNER, b"", (), 1)
        offered = NUMBER.unpack(self._ask(Request.GET_FEATURES))[0]
        if self.features & ~offered:
            raise Broken(f"the port of guest {self.name} offers {offered:#x}")
        self._ask(Request.GET_PROTOCOL_FEATURES)
        self._send_message(Request.SET_PROTOCOL_FEATURES, NUMBER.pack(9), (), 1)
        self._tell(Request.SET_FEATURES, NUMBER.pack(self.features))
        self._tell(Request.SET_MEM_TABLE, AREA_COUNT.pack(1, 0) + AREA.pack(GUEST, self.bytes, USER, 0), [self.fd])
        for queue in self.queues:
            number = queue.number
            self._tell(Request.SET_VRING_NUM, STATE.pack(number, queue.size))
            self._tell(Request.SET_VRING_BASE, STATE.pack(number, 0))
            self._tell(Request.SET_VRING_CALL, NUMBER.pack(number), [queue.call])
            places = USER + queue.descriptors, USER + queue.used, USER + queue.available
            self._tell(Request.SET_VRING_ADDR, RING_ADDRESSES.pack(number, 0, *places, 0))
            self._tell(Request.SET_VRING_KICK, NUMBER.pack(number), [queue.kick])
        for queue in self.queues[::2]:
            size = SMALL if self.small else BUFFER
            for slot in range(queue.slots):
                at = queue.buffers + slot * BUFFER
                parts = [(at, HEADER_BYTES), (at + HEADER_BYTES, size - HEADER_BYTES)] if self.two else [(at, size)]
                queue.offer(queue.describe(slot, parts, WRITE))
            queue.show(0)
        for queue in self.queues:
            self._tell(Request.SET_VRING_ENABLE, STATE.pack(queue.number, 1))

    # ---- The guest ----

    def _serve(self) -> None:
        """Until it is over, or the port has closed the connection."""
        again_ns = FIRST_AGAIN_NS
        while not self.over:
            if self.breaks:
                self._break()
                if not self._wait_for_end():
                    self.machine.record.fail(f"guest {self.name} has broken the rules, and is not sent away")
                return
            sent = self._send()
            came = sum(self._read(queue) for queue in self.queues[::2]) if self.most else 0
            if self._has_ended():
                return
            if self.pause_ns:
                self._sleep(self.pause_ns)
            elif not self.wanted and not came:
                self._sleep(LONGEST_SLEEP_NS)
            elif not sent and not came:  # its rings are full
                again_ns = min(2 * again_ns, LAST_AGAIN_NS)
                self._sleep(again_ns)
            if sent:
                again_ns = FIRST_AGAIN_NS
        if self.is_polite:
            for queue in self.queues:
                (_, base) = STATE.unpack(self._ask(Request.GET_VRING_BASE, STATE.pack(queue.number, 0)))
                if base != queue.used_index:
                    raise Broken(f"ring {queue.number} of guest {self.name} ends at {base}, and {queue.used_index} were put back")

    def _has_ended(self) -> bool:
        """Whether the port has closed the connection."""
        return bool(self.machine.world.table.get(self.port.fileno()).ready() & POLLIN)

    def _wait_for_end(self) -> bool:
        """Whether it does so, or it is over."""
        machine, stood_ns = self.machine, self.machine.stood_ns
        since = machine.world.now
        while not (self.over or self._has_ended()):
            if machine.world.now - since > AWAY_NS + machine.stood_ns - stood_ns and not standing.is_standing(machine):
                return False
            self._wait(AWAY_NS, [machine.world.table.get(self.port.fileno())])
        return True

    def _sleep(self, ns: int) -> None:
        """Until it is told something, or is interrupted, or so long."""
        table = self.machine.world.table
        files = [table.get(self.port.fileno())]
        reads = self.queues[::2] if self.most and not self.pause_ns else []
        sends = self.queues[1::2] if self.wanted else []
        for queue in (*reads, *sends):
            if queue.listens(True):
                return
            files.append(table.get(queue.call))
        self._wait(ns, files)
        for file in files[1:]:
            file.read(8)
        for queue in (*reads, *sends):
            queue.listens(False)

    def _wait(self, ns: int, files: Sequence[File]) -> None:
        """Until one of these has news, it is told something, or so long."""
        each = [self.orders, *files]
        self.machine.world.wait(self.machine.world.now + ns, lambda: any(file.ready() & EPOLLIN for file in each), each)
        self.orders.read(8)

    def _read(self, queue: Queue) -> int:
        """Take frames that have come, and give their buffers again; how many there were."""
        before, count, at = queue.put, 0, self.machine.layout.number(self.name)
        heads: list[int] = []
        chains = queue.collect(self.most)
        for head, length in chains:
            heads.append(head)
            data = self._buffer(queue, head, length)
            for _ in range(struct.unpack_from("<H", data, 10)[0] - 1):
                if not (rest := next(queue.collect(1), None)):
                    raise Broken(f"guest {self.name} has a part of a frame, and no more")
                heads.append(rest[0])
                data += self._buffer(queue, *rest)
            self.machine.record.arrived(data[HEADER_BYTES:], at)
            count += 1
        for head in heads:
            queue.offer(head)
        queue.show(before)
        return count

    def _buffer(self, queue: Queue, head: int, length: int) -> bytes:
        at = queue.buffers + head // queue.per_slot * BUFFER
        return bytes(self.memory[at : at + length])

    def _send(self) -> int:
        """Send what the rings have room for; how many frames that were."""
        sent, at = 0, self.machine.layout.number(self.name)
        before = [queue.put for queue in self.queues]
        self._take_back()
        while self.wanted:
            to, size, by_six = self.wanted[0]
            number = lies.QUEUE if isinstance(size, lies.Lie) else self.machine.layout.number(to) + by_six * frames.SIX
            queue = self.queues[2 * (number % self.pairs) + 1]
            if not queue.free:
                break
            self.wanted.popleft()
            if isinstance(size, lies.Lie):
                self._put(queue, size.data)
                self.machine.record.lied(size.data, at, size.to, size.data[12:14] != lies.ARP)
            elif found := self.machine.frame(self.name, self.life, number, to, self.numbers[number], size):
                self._put(queue, found[1])
                self.numbers[number] += 1
                self.machine.record.accepted(*found)
            else:
                continue
            sent += 1
        for queue, was in zip(self.queues, before):
            if queue.number % 2:
                queue.show(was)
        return sent

    def _take_back(self) -> None:
        """The slots of what the port has taken are free."""
        for queue in self.queues[1::2]:
            queue.free += [head // queue.per_slot for head, _ in queue.collect(queue.size)]

    def _put(self, queue: Queue, data: bytes) -> None:
        self.sent += 1
        slot, data = queue.free.pop(0), bytes(HEADER_BYTES) + data
        at = queue.buffers + slot * BUFFER
        self.memory[at : at + len(data)] = data
        middle = HEADER_BYTES if self.has(GuestFeature.MERGEABLE) else len(data) // 2
        parts = [(at, middle), (at + middle, len(data) - middle)] if self.two else [(at, len(data))]
        queue.offer(queue.describe(slot, parts, 0))

    def _break(self) -> None:
        """Offer what must not be offered, after all that was offered before."""
        self._take_back()
        queue, how, self.breaks = self.queues[1], self.breaks, ""
        before = queue.put
        if how == JUMP or not queue.free:
            queue.put = (queue.put + queue.size + 1) & WORD
        else:
            head = queue.describe(queue.free.pop(), [(self.bytes if how == OUTSIDE else 0, 64)], 0)
            if how == LOOP:
                struct.pack_into("<QIHH", self.memory, queue.descriptors + 16 * head, GUEST, 64, NEXT, head)
            queue.offer(head)
        queue.show(before)


# ---- Steps ----


def break_rules(machine: "Machine", name: str, how: str) -> None:
    """A guest breaks the rules, and is sent away; after a while there is another one."""
    guest = machine.apps.get(name)
    if isinstance(guest, Guest) and not guest.half:
        machine.record.disturb(machine.layout.number(name), "not there")
        guest.breaks = how
        guest.told()


DO = {"break rules": break_rules}


def draw_steps(seed: int, until: int, layout: Layout) -> list[Step]:
    """What guests do beyond what applications do, from a generator of their own."""
    draw, found = random.Random(f"steps of guests of {seed}"), []
    for i in range(draw.randrange(1, 5) if layout.guests else 0):  # while nobody else wakes the switch
        name = draw.choice([each for each in layout.guests if each in layout.base])
        to = draw.choice([each for each in layout.base if each != name])
        found.append(Step(until + (i + 1) * LONELY_NS, "send", name, (to, draw.choice((1, 4)), 60)))
    for _ in range(draw.randrange(4) if COMES in layout.extras else 0):
        at, names = draw.randrange(max(1, until)), [name for name in layout.base if name not in layout.guests]
        found += [Step(at, "add", COMES), Step(at + draw.randrange(3 * MS), "start", COMES)]
        later = at + draw.randrange(40 * MS)
        for _ in range(draw.randrange(6)):
            way = draw.sample((COMES, draw.choice(names)), 2)
            found.append(Step(draw.randrange(at, later + 1), "send", way[0], (way[1], draw.choice((4, 40)), 200)))
        found.append(Step(later, "remove", COMES, (draw.random() < 0.5,)))
    for _ in range(draw.randrange(3) if layout.guests else 0):  # for long: ports that connect try less and less often
        name, at = draw.choice(layout.guests), draw.randrange(max(1, until))
        found += [Step(at, "kill", name), Step(at + draw.randrange(AWAY_NS // 10), "start", name)]
    for _ in range(draw.randrange(4) if layout.guests else 0):
        name, at = draw.choice(layout.guests), draw.randrange(max(1, until))
        found.append(Step(at, "break rules", name, (draw.choice((OUTSIDE, LOOP, JUMP)),)))
        later = at + draw.randrange(30 * MS)
        found += [Step(later, "kill", name)] if draw.random() < 0.5 else []
        found.append(Step(later + draw.randrange(5 * MS), "start", name))
    return found


# ---- Laws ----


def counted(machine: "Machine") -> tuple[int, int]:
    """Frames in rings of guests, also of those that have ended; and how many there are at most in those of ports that came and
    went.  Broken: there cannot be so many.
    """
    found = most = 0
    if not machine.layout.guests:
        return found, most
    rows = {row["port"]: row["device"] for row in machine.call(lambda switch: switch.ports()) if row["device"]}
    lives = [*machine.former_guests, *(app for app in machine.apps.values() if isinstance(app, Guest))]
    for name in machine.layout.guests:
        mine = [guest for guest in lives if guest.name == name]
        room = sum(queue.slots for guest in mine for queue in guest.queues[::2])
        left = sum(queue.untaken() for guest in mine for queue in guest.queues[1::2])
        if name in machine.layout.extras:
            most += room + left
            continue
        row = rows[name]
        untaken = sum(guest.sent for guest in mine) - row["frames_in"] - row["refused"]
        if not 0 <= untaken <= left:
            raise Broken(f"the port of {name} has not taken {untaken} frames, and {left} is the most")
        unread = row["frames_out"] - machine.record.came_to[machine.layout.number(name)]
        if not 0 <= unread <= room:
            raise Broken(f"guest {name} has not read {unread} frames, and {room} is the most")
        found += untaken + unread
    return found, most


def wait_for(machine: "Machine") -> None:
    """Give those that are connected late the time for it, and start those again that were sent away."""
    until, names = machine.world.now + BACK_NS, [name for name in machine.layout.guests if name in machine.layout.base]
    for guest in machine.apps.values():
        if isinstance(guest, Guest):
            guest.breaks = ""
    while machine.world.now < until and any(machine.record.disturbed.get(machine.layout.number(name)) for name in names):
        machine.world.wait(machine.world.now + 10 * MS)
        for name in names:
            machine.start_app(name)
