"""Python interface to both sides of a region of shared memory, for the client library and the tests.

    region = Region.create(queues=64)                  # an application: a sealed memfd
    region.send(3, [frame, frame])                     # frames (bytes) into queue 3, and a doorbell
    other = Region.attach(fd, region.shape, switch=True)
    other.receive(32)                                  # [(3, frame), (3, frame)]

An application and the switch each attach once.  Frames are copied in both directions: no side refers to memory of the other.
"""

import cython

from penstock_net.errors import SpecError
from penstock_net.inputs import known_keys, whole
from penstock_net.vswitch.world import fcntl, os

if not cython.compiled:
    from penstock_net.vswitch.memory.layout import (
        CLOSED,
        MOST_WORKERS,
        bell_of,
        buffer_of,
        bytes_at,
        count_of,
        cycles,
        descriptor,
        full_fence,
        half_at,
        length_of,
        load32,
        load64,
        low,
        memcpy,
        queue_of,
        store64,
        word_at,
    )
    from penstock_net.vswitch.memory.region import (
        PyBytes_AS_STRING,
        PyBytes_FromStringAndSize,
        base_of,
        end_at,
        free,
        map_guarded,
        new_counts,
        new_ends,
        new_flags,
        signed_of,
        unmap_guarded,
    )
    from penstock_net.vswitch.memory.rings import (
        answer_bell,
        close_queue,
        fill,
        find_queue,
        give_buffer,
        is_drained,
        lay_out,
        open_queue,
        pop,
        push,
        ring_bell,
        size_of,
        take_buffer,
    )
    from penstock_net.vswitch.world.calls.table import wake_switch

SHAPE = {"rings": 256, "queues": 64, "bells": 1024, "buffers": 1024, "buffer_bytes": 2048}
MOST = {"rings": 1 << 20, "queues": 1 << 20, "bells": 1 << 20, "buffers": 1 << 20, "buffer_bytes": 1 << 17}
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def checked(shape):
    """Validate a region's shape and fill in defaults.  SpecError: a number is out of range."""
    out = {}
    for key, default in SHAPE.items():
        value = shape.get(key, default)
        out[key] = whole(value, f"region.{key}", 1, MOST[key])
    if out["bells"] & (out["bells"] - 1):
        raise SpecError(
            f"must be a power of two, such as {1 << out['bells'].bit_length()}", path="region.bells", value=out["bells"]
        )
    if out["buffer_bytes"] % 64:
        enough = out["buffer_bytes"] // 64 * 64 + 64
        raise SpecError(f"must be a multiple of 64, such as {enough}", path="region.buffer_bytes", value=out["buffer_bytes"])
    known_keys(shape, SHAPE, "region")
    return out


def sealed(fd):
    """Whether a file is sealed against shrinking; a file without seals is not."""
    try:
        return fcntl.fcntl(fd, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK
    except OSError:
        return False


class Region:
    """One side of a region of shared memory, between guard pages."""

    def __init__(self, fd, shape, switch):
        self.shape = checked(shape)
        rings, queues, bells, buffers, buffer_bytes = self.shape.values()
        length = size_of(rings, queues, bells, buffers, buffer_bytes)
        if os.fstat(fd).st_size < length:
            raise SpecError(f"the file has {os.fstat(fd).st_size} B, its shape needs {length} B", path="region")
        if not sealed(fd):
            raise SpecError("the file is not sealed against shrinking", path="region", remedy="make it with Region.create")
        base = map_guarded(fd, length, cython.address(self.reserved))
        if not base:
            raise SpecError(
                "its file cannot be mapped for reading and writing", path="region", remedy="make it with Region.create"
            )
        lay_out(cython.address(self.view), base, rings, queues, bells, buffers, buffer_bytes)
        self.fd = os.dup(fd)
        self.side = 1 if switch else 0
        self.bell_rings = 1 if switch else MOST_WORKERS
        for i in range(MOST_WORKERS):
            self.bell_in[i] = i * self.view.bells
        self.doorbells = True
        self.wakes = -1
        self.out = new_ends(self.shape["queues"])
        self.sent = new_counts(self.shape["queues"])
        self.into = new_ends(self.shape["queues"])
        for i in range(2):
            self.known[i] = new_flags(self.shape["queues"])

    @staticmethod
    def create(**shape):
        """Create a region, as an application."""
        sizes = checked(shape)
        fd = os.memfd_create("penstock", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            rings, queues, bells, buffers, buffer_bytes = sizes.values()
            os.ftruncate(fd, size_of(rings, queues, bells, buffers, buffer_bytes))
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SEALS)
            region = Region(fd, sizes, False)
        finally:
            os.close(fd)
        region.initialise()
        return region

    @staticmethod
    def attach(fd, shape, switch=True):
        """Map the other side of a region by its file descriptor."""
        return Region(fd, shape, switch)

    def __dealloc__(self):
        free(self.out)
        free(self.into)
        free(self.sent)
        for i in range(2):
            free(self.known[i])
        unmap_guarded(self.reserved, self.view.length)
        if self.fd > 2:
            os.close(self.fd)

    def initialise(self):
        fill(cython.address(self.view))

    @property
    def place(self):
        """Address and length of this side's mapping."""
        return base_of(self.view.base), self.view.length

    @property
    def protocol_errors(self):
        """Number of words from the other side that violated the protocol and were skipped."""
        return self.view.protocol_errors

    @property
    def linked(self):
        """Number of rings that this side has added to queues."""
        return self.view.linked

    def free_rings(self):
        """Number of free rings; valid only while both sides are idle."""
        count = 0
        number = low(load64(self.view.ring_stack)) - 1
        while 0 <= number < self.view.rings and count <= self.view.rings:
            count += 1
            number = load32(half_at(self.view.ring_next, number)) - 1
        return count

    def send(self, queue, frames, weight=0, priority=0):
        """Append frames (bytes) to a queue and ring the doorbell; returns how many fitted.

        A weight (1 to 255) gives the queue that share among those of its priority (0 to 7, 0 goes first) from now on.
        """
        if not (0 <= weight <= 255 and 0 <= priority <= 7):
            raise SpecError(f"weight {weight}, priority {priority}: a weight is 1 to 255 (0: as before), a priority 0 to 7")
        view = cython.address(self.view)
        if queue < 0 or queue >= view.queues:
            raise SpecError(f"queue {queue}: the region has queues 0 to {view.queues - 1}")
        frames = list(frames)
        for frame in frames:
            if not isinstance(frame, bytes) or not 0 < len(frame) <= view.buffer_bytes:
                what = f"{len(frame)} B" if isinstance(frame, bytes) else f"type {type(frame).__name__}"
                raise SpecError(f"a frame of {what}: the region takes bytes, 1 to {view.buffer_bytes} B")
        if self.doorbells and load64(word_at(view.bell[self.side], self.bell_out)):
            return 0
        end = end_at(self.out, queue)
        if not self.known[self.side][queue]:
            if not open_queue(view, end, self.side, queue):
                return 0
            self.known[self.side][queue] = 1
        sent = 0
        for frame in frames:
            if not self.put(end, PyBytes_AS_STRING(frame), len(frame)):
                break
            sent += 1
            self.sent[queue] += len(frame)
        if sent:
            self.ring_doorbell(queue, sent, weight, priority)
        return sent

    def ring_doorbell(self, queue, count, weight=0, priority=0):
        """Ring the doorbell, and wake the other side if it sleeps."""
        if self.doorbells:
            word = bell_of(queue, count, weight, priority)
            ring_bell(cython.address(self.view), cython.address(self.bell_out), self.side, word)
        self.wake_other()

    def wake_other(self):
        if self.wakes >= 0:  # an application's side
            full_fence()
            if load64(self.view.sleeps[1 - self.side]):
                store64(self.view.sleeps[1 - self.side], 0)
                wake_switch(self.wakes)
        return True

    def waiting(self, queue):
        """Bytes in a queue that the other side has not consumed yet."""
        if not 0 <= queue < self.view.queues:
            raise SpecError(f"queue {queue}: the region has queues 0 to {self.view.queues - 1}")
        return max(0, self.sent[queue] - signed_of(load64(word_at(self.view.consumed[self.side], queue))))

    def close(self, queue):
        """Release the ring of a queue if the other side has emptied it; returns whether it had."""
        if not 0 <= queue < self.view.queues:
            raise SpecError(f"queue {queue}: the region has queues 0 to {self.view.queues - 1}")
        end = end_at(self.out, queue)
        if not self.known[self.side][queue] or not is_drained(cython.address(self.view), end):
            return False
        if self.doorbells and load64(word_at(self.view.bell[self.side], self.bell_out)):
            return False
        if not close_queue(cython.address(self.view), end, self.side, queue):
            return False
        self.known[self.side][queue] = 0
        self.ring_doorbell(queue, 1)
        return True

    def sleep(self):
        """Request a wake-up before sleeping; False: a doorbell is pending, so this side must not sleep."""
        side = 1 - self.side
        store64(self.view.sleeps[self.side], 1)
        full_fence()
        pending = self.last != 0
        for i in range(self.bell_rings):
            if load64(word_at(self.view.bell[side], self.bell_in[i])):
                pending = True
        if pending:
            store64(self.view.sleeps[self.side], 0)
        return not pending

    def next_bell(self, side):
        """The next doorbell, from the rings in turn; zero if there is none."""
        for _ in range(self.bell_rings):
            i = self.bell_turn
            self.bell_turn = i + 1 if i + 1 < self.bell_rings else 0
            bell = answer_bell(cython.address(self.view), cython.address(self.bell_in[i]), side)
            if bell:
                return bell
        return 0

    def put(self, end, frame, length):
        """Append a frame to a queue; returns whether it fitted."""
        view = cython.address(self.view)
        buffer = take_buffer(view, self.side)
        if buffer < 0:
            return False
        memcpy(bytes_at(view.buffer[self.side], buffer * view.buffer_bytes), frame, length)
        if not push(view, end, descriptor(buffer, length)):
            give_buffer(view, self.side, buffer)
            return False
        return True

    def receive(self, most=32):
        """Up to `most` (queue, frame), as their doorbells announce; invalid words are counted and skipped."""
        view = cython.address(self.view)
        side = 1 - self.side
        found = []
        while len(found) < most:
            if self.last == 0:
                bell = self.next_bell(side)
                if bell == 0:
                    break
                self.last = count_of(bell)
                self.queue = queue_of(bell)
            word = self.next_word(side)
            if word == 0:
                self.last = 0
                continue
            self.last -= 1
            if word == CLOSED:
                self.known[side][self.queue] = 0
                continue
            buffer = buffer_of(word)
            length = length_of(word)
            if buffer < 0 or buffer >= view.buffers or length == 0 or length > view.buffer_bytes:
                view.protocol_errors += 1
                continue
            found.append((self.queue, PyBytes_FromStringAndSize(bytes_at(view.buffer[side], buffer * view.buffer_bytes), length)))
            give_buffer(view, side, buffer)
            consumed = word_at(view.consumed[side], self.queue)
            store64(consumed, load64(consumed) + length)
            store64(view.total[side], load64(view.total[side]) + length)
        return found

    def next_word(self, side):
        """The next word of the queue whose doorbell was read last; zero if there is none or the queue is invalid."""
        view = cython.address(self.view)
        if self.queue < 0 or self.queue >= view.queues:
            view.protocol_errors += 1
            return 0
        end = end_at(self.into, self.queue)
        if not self.known[side][self.queue]:
            if not find_queue(view, end, side, self.queue):
                return 0
            self.known[side][self.queue] = 1
        return pop(view, end)

    def extension_cycles(self, repeats):
        """Cycles until appends within a ring, and appends that link a new one, are seen by others; nobody else has the region."""
        view = cython.address(self.view)
        plain, extended, clock = [], [], 1 << 30
        for _ in range(1000):
            start = cycles()
            full_fence()
            clock = min(clock, cycles() - start)
        while len(extended) < repeats:
            end = end_at(self.out, 0)
            into = end_at(self.into, 0)
            open_queue(view, end, 0, 0)
            find_queue(view, into, 0, 0)
            for _ in range(63 * 8):
                linked = view.linked
                start = cycles()
                push(view, end, descriptor(1, 1))
                full_fence()
                took = cycles() - start
                took = took - clock if took > clock else 0
                if view.linked > linked:
                    extended.append(took)
                else:
                    plain.append(took)
            while pop(view, into):
                pass
            close_queue(view, end, 0, 0)
            pop(view, into)
        return plain, extended


def cycle_count():
    """The processor's time-stamp counter."""
    return cycles()
