"""Frames that wait in an application's region: not taken by the switch, and not taken by the application.

The application writes this memory, so every word is read once and checked, and the number of steps is bounded.
"""

import cython

if not cython.compiled:
    from penstock.vswitch.dataplane.state import txq_at, view_of
    from penstock.vswitch.memory.layout import CLOSED, SLOTS, buffer_of, half_at, is_link, length_of, load32, load64, low, word_at


def next_queue(port, number, found):
    """The first transmit queue from this number on that holds frames, which are added up; -1: there is none."""
    view = view_of(port)
    while number < view.queues:
        txq = txq_at(port, number)
        found.frames = 0
        found.bytes = 0
        if txq.held:
            found.frames = 1
            found.bytes = length_of(txq.held)
        if txq.known:
            follow(view, number, txq.end.ring, txq.end.at, found)
        else:
            follow(view, number, low(load64(word_at(view.first[0], number))) - 1, 0, found)
        if found.frames:
            return number
        number += 1
    return -1


def follow(view, queue, ring, at, found):
    """Add up the frames of a queue from there on."""
    if ring < 0 or ring >= view.rings:
        return
    while found.steps > 0:
        found.steps -= 1
        word = load64(word_at(view.slots, SLOTS * ring + at))
        if word == 0:
            return
        if is_link(word) or word == CLOSED:
            ring = low(word) if is_link(word) else low(load64(word_at(view.first[0], queue))) - 1
            at = 0
            if ring < 0 or ring >= view.rings:
                return
            continue
        length = length_of(word)
        if 0 <= buffer_of(word) < view.buffers and 0 < length <= view.buffer_bytes:
            found.frames += 1
            found.bytes += length
        at = (at + 1) & (SLOTS - 1)


def not_taken(view):
    """Receive buffers that are not free: frames that the application has not taken out."""
    free_ones = 0
    number = low(load64(view.buffer_stack[1])) - 1
    while 0 <= number < view.buffers and free_ones < view.buffers:
        free_ones += 1
        number = low(load32(half_at(view.buffer_next[1], number))) - 1
    return view.buffers - free_ones
