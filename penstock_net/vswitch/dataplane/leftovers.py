"""Frames that wait in an application's region: not taken by the switch, and not taken by the application.

The application writes this memory, so every word is read once and checked, and the number of steps is bounded.
"""

import cython

if not cython.compiled:
    from penstock_net.vswitch.dataplane.leftovers import first_ring
    from penstock_net.vswitch.dataplane.state import txq_at, view_of
    from penstock_net.vswitch.memory.layout import (
        CLOSED,
        SLOTS,
        buffer_of,
        half_at,
        is_link,
        length_of,
        load32,
        load64,
        low,
        word_at,
    )


def scan_budget(view):
    """Slots that a scan of all queues of a port reads at most.

    Rings that are as they should be have far fewer.  An application may write rings that lead back to themselves; a scan of
    them ends when the budget is spent, and what it has counted until then is reported.
    """
    return 4 * (view.buffers + view.rings)


def next_waiting_queue(port, number, scan):
    """The first transmit queue from this number on that holds frames, which `scan` then has; -1: there is none."""
    view = view_of(port)
    while number < view.queues:
        txq = txq_at(port, number)
        scan.frames = 0
        scan.bytes = 0
        if txq.held:
            scan.frames = 1
            scan.bytes = length_of(txq.held)
        if txq.known:
            scan_queue(view, number, txq.end.ring, txq.end.at, scan)
        else:
            scan_queue(view, number, first_ring(view, number), 0, scan)
        if scan.frames:
            return number
        number += 1
    return -1


def scan_queue(view, queue, ring, at, scan):
    """Add up the frames of a queue from this slot of a ring on; each slot read is taken from the budget."""
    while scan.budget > 0 and 0 <= ring < view.rings:
        scan.budget -= 1
        word = load64(word_at(view.slots, SLOTS * ring + at))
        if word == 0:
            return
        if is_link(word) or word == CLOSED:
            ring = next_ring(view, queue, word)
            at = 0
            continue
        length = length_of(word)
        if 0 <= buffer_of(word) < view.buffers and 0 < length <= view.buffer_bytes:
            scan.frames += 1
            scan.bytes += length
        at = (at + 1) & (SLOTS - 1)


def next_ring(view, queue, word):
    """The ring in which a queue goes on: the one that a link names, or the first one when the queue was closed and opened."""
    return low(word) if is_link(word) else first_ring(view, queue)


def unread_frames(view):
    """Frames that were delivered and not yet read by the application: receive buffers that are not in the list of free ones.

    The list is followed for no more steps than there are buffers, since the application may have made a circle of it.
    """
    free_ones = 0
    number = low(load64(view.buffer_stack[1])) - 1
    while 0 <= number < view.buffers and free_ones < view.buffers:
        free_ones += 1
        number = low(load32(half_at(view.buffer_next[1], number))) - 1
    return view.buffers - free_ones
