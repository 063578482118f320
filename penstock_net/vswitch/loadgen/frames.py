"""Frames of the load generator: how they are put into transmit queues, and how latencies are counted."""

import cython

if not cython.compiled:
    from penstock_net.vswitch.dataplane.state import signed_of, whole
    from penstock_net.vswitch.loadgen.frames import BINS, NO_ROOM, app_view, log2_of, out_at
    from penstock_net.vswitch.memory.layout import descriptor, load64, word_at
    from penstock_net.vswitch.memory.rings import give_buffer, open_queue, push, take_buffer


def shuffled(r):
    r ^= r << 13
    r ^= r >> 7
    r ^= r << 17
    return r


def note(app, kind, ns):
    """Add a latency (ns) to the histogram of a kind."""
    v = whole(max(ns, 0.0))
    e = log2_of(v | 1)
    i = v
    if e >= 6:
        i = min((e - 5) * 64 + (v >> (e - 6) & 63), BINS - 1)
    app.bins[kind * BINS + i] += 1


def begin_frame(app, queue, length, most):
    """Take a buffer for a frame of a transmit queue; negative: there is none now, NO_ROOM: `most` bytes wait in the queue."""
    view = app_view(app)
    if app.put[queue] + length - signed_of(load64(word_at(view.consumed[0], queue))) > most:
        return NO_ROOM
    if app.doorbells and load64(word_at(view.bell[0], app.bell_out)):
        return -1
    if not app.opened[queue]:
        if not open_queue(view, out_at(app, queue), 0, queue):
            return -1
        app.opened[queue] = 1
    return take_buffer(view, 0)


def end_frame(app, queue, buffer, length):
    """Put a frame that has been written into its transmit queue; returns whether there was room."""
    view = app_view(app)
    if not push(view, out_at(app, queue), descriptor(buffer, length)):
        give_buffer(view, 0, buffer)
        return False
    app.put[queue] += length
    return True
