"""Queues that grow and shrink, between two processes that do not trust each other (Backdraft, NSDI 2022, section 4).

A queue is a chain of rings of 64 slots from a lock-free pool.  A slot of zero is empty, so producer and consumer share no index;
each has its own.  Before its ring is full, a producer takes another one and writes a link to it into the last slot; the consumer
that follows the link releases the old ring.  A producer closes an emptied queue with a last word; the consumer that reads it
releases the last ring.  Doorbells are a ring of the same kind, of fixed size.

A word read from a region may have any value.  Each is read once; ring and buffer numbers are validated before use; every loop is
bounded.  An application that violates the protocol damages its own region only.
"""

import cython

if not cython.compiled:
    from penstock_net.vswitch.memory.layout import (
        BROKEN,
        CLOSED,
        EMPTY,
        HEADER_BYTES,
        MOST_WORKERS,
        SLOTS,
        bytes_at,
        cas64,
        half_at,
        halves,
        is_link,
        link_to,
        load32,
        load64,
        low,
        relax,
        store32,
        store64,
        tagged,
        word_at,
        words,
    )

# ---- Layout: header, rings, queues, doorbells, buffers; side 0 is what the application transmits, side 1 what it receives ----
# An application rings one worker; all workers ring an application, each in a ring of its own.


def size_of(rings, queues, bells, buffers, buffer_bytes):
    """Bytes of a region."""
    of_a_side = 16 * queues + 4 * buffers + buffers * buffer_bytes
    return HEADER_BYTES + 4 * rings + 8 * SLOTS * rings + 2 * of_a_side + 8 * bells * (1 + MOST_WORKERS) + 8 * SLOTS


def lay_out(view, base, rings, queues, bells, buffers, buffer_bytes):
    """The layout of a region, computed from the sizes and never read from the region."""
    view.base = base
    view.length = size_of(rings, queues, bells, buffers, buffer_bytes)
    view.rings = rings
    view.queues = queues
    view.bells = bells
    view.buffers = buffers
    view.buffer_bytes = buffer_bytes
    view.ring_stack = words(base, 256)
    for side in range(2):
        view.buffer_stack[side] = words(base, 384 + 128 * side)
        view.sleeps[side] = words(base, 640 + 128 * side)
        view.total[side] = words(base, 896 + 128 * side)
    at = HEADER_BYTES
    view.slots = words(base, at)
    at += 8 * SLOTS * rings
    for side in range(2):
        view.first[side] = words(base, at)
        at += 8 * queues
        view.consumed[side] = words(base, at)
        at += 8 * queues
        view.bell[side] = words(base, at)
        at += 8 * bells * (MOST_WORKERS if side else 1)
        view.buffer[side] = bytes_at(base, at)
        at += buffers * buffer_bytes
    view.ring_next = halves(base, at)
    at += 4 * rings
    for side in range(2):
        view.buffer_next[side] = halves(base, at)
        at += 4 * buffers


def fill(view):
    """Initialise a region: all rings and buffers are free."""
    for i in range(view.rings):
        give_ring(view, view.rings - 1 - i)
    for side in range(2):
        for i in range(view.buffers):
            give_buffer(view, side, view.buffers - 1 - i)


# ---- Lock-free stacks of numbers; a tag in the head solves the ABA problem ----


def take(stack, following, count):
    """Pop a free number from a stack; EMPTY, or BROKEN if the stack has a number out of range."""
    for _ in range(1000):
        head = load64(stack)
        number = low(head) - 1
        if number < 0:
            return EMPTY
        if number >= count:
            return BROKEN
        if cas64(stack, head, tagged(head, load32(half_at(following, number)))):
            return number
        relax()
    return EMPTY


def give(stack, following, number):
    for _ in range(100000):
        head = load64(stack)
        store32(half_at(following, number), low(head))
        if cas64(stack, head, tagged(head, number + 1)):
            return
        relax()


def take_some(stack, following, count, found, most):
    """Pop up to `most` free numbers at once into `found`; returns their number, or BROKEN."""
    for _ in range(1000):
        head = load64(stack)
        number = low(head) - 1
        n = 0
        while n < most and number >= 0:
            if number >= count:
                return BROKEN
            found[n] = number
            n += 1
            number = low(load32(half_at(following, number))) - 1
        if n == 0 or cas64(stack, head, tagged(head, number + 1)):
            return n
        relax()
    return 0


def give_some(stack, following, numbers, count):
    """Push `count` numbers at once, at least one."""
    for i in range(count - 1):
        store32(half_at(following, numbers[i]), numbers[i + 1] + 1)
    for _ in range(100000):
        head = load64(stack)
        store32(half_at(following, numbers[count - 1]), low(head))
        if cas64(stack, head, tagged(head, numbers[0] + 1)):
            return
        relax()


def take_ring(view):
    return take(view.ring_stack, view.ring_next, view.rings)


def give_ring(view, ring):
    give(view.ring_stack, view.ring_next, ring)


def take_buffer(view, side):
    return take(view.buffer_stack[side], view.buffer_next[side], view.buffers)


def give_buffer(view, side, buffer):
    give(view.buffer_stack[side], view.buffer_next[side], buffer)


# ---- Queues ----


def slot_of(view, end):
    return word_at(view.slots, SLOTS * end.ring + end.at)


def open_queue(view, end, side, queue):
    """Open a queue, as its producer."""
    ring = take_ring(view)
    if ring < 0:
        return False
    end.ring = ring
    end.at = 0
    store64(word_at(view.first[side], queue), ring + 1)
    return True


def find_queue(view, end, side, queue):
    """Find the first ring of a queue, as its consumer."""
    if queue < 0 or queue >= view.queues:
        view.protocol_errors += 1
        return False
    ring = low(load64(word_at(view.first[side], queue))) - 1
    if ring < 0 or ring >= view.rings:
        view.protocol_errors += 1
        return False
    end.ring = ring
    end.at = 0
    return True


def is_open(view, side, queue):
    return load64(word_at(view.first[side], queue)) != 0


def is_drained(view, end):
    """Whether the consumer has emptied a queue, as seen by its producer."""
    return load64(word_at(view.slots, SLOTS * end.ring + ((end.at - 1) & (SLOTS - 1)))) == 0


def close_queue(view, end, side, queue):
    """Close a drained queue, as its producer. The consumer has found its first ring, so the entry can be cleared."""
    store64(word_at(view.first[side], queue), 0)
    return push(view, end, CLOSED)


def push(view, end, word):
    """Append a word that is neither zero nor a link; returns whether there was room."""
    following = (end.at + 1) & (SLOTS - 1)
    if load64(word_at(view.slots, SLOTS * end.ring + following)) == 0:
        store64(slot_of(view, end), word)
        end.at = following
        return True
    ring = take_ring(view)
    if ring < 0:
        return False
    store64(word_at(view.slots, SLOTS * ring), word)
    store64(slot_of(view, end), link_to(ring))
    end.ring = ring
    end.at = 1
    view.linked += 1
    return True


def pop(view, end):
    """Remove the first word; zero if the queue is empty or its link is invalid.  After CLOSED, call find_queue() again."""
    slot = slot_of(view, end)
    word = load64(slot)
    if word == 0:
        return 0
    if word < CLOSED:  # a frame
        store64(slot, 0)
        end.at = (end.at + 1) & (SLOTS - 1)
        return word
    return pop_special(view, end)


def pop_special(view, end):
    """`pop` at a link, a CLOSED, or an invalid word."""
    for _ in range(4):
        slot = slot_of(view, end)
        word = load64(slot)
        if word == 0:
            return 0
        store64(slot, 0)
        if not is_link(word):
            end.at = (end.at + 1) & (SLOTS - 1)
            if word == CLOSED:
                give_ring(view, end.ring)
            return word
        ring = low(word)
        if ring >= view.rings or ring == end.ring:
            view.protocol_errors += 1
            return 0
        give_ring(view, end.ring)
        end.ring = ring
        end.at = 0
    view.protocol_errors += 1
    return 0


# ---- Doorbells: which queue has frames; `at` stays in the ring in which it begins ----


def next_place(view, at):
    return at & ~(view.bells - 1) | (at + 1) & (view.bells - 1)


def ring_bell(view, at, side, word):
    """Write a doorbell; returns whether there was room. `at` is this side's position in the ring."""
    slot = word_at(view.bell[side], at[0])
    if load64(slot) != 0:
        return False
    store64(slot, word)
    at[0] = next_place(view, at[0])
    return True


def answer_bell(view, at, side):
    """Read the next doorbell, or zero."""
    slot = word_at(view.bell[side], at[0])
    word = load64(slot)
    if word:
        store64(slot, 0)
        at[0] = next_place(view, at[0])
    return word
