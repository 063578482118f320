"""Buffers of a port's region that a worker takes and returns several at a time, so that few operations are atomic."""

import cython

if not cython.compiled:
    from penstock.vswitch.dataplane.buffers import AT_ONCE
    from penstock.vswitch.dataplane.state import view_of
    from penstock.vswitch.memory.layout import bring_line, bytes_at
    from penstock.vswitch.memory.rings import give_some, take_some


def take_buffers(port):
    """Take free receive buffers into `port.taken`, for a port that has none left there; whether there were any.

    Each time in a turn that a port runs out of them, it takes twice as many, up to AT_ONCE.
    """
    view = view_of(port)
    count = take_some(view.buffer_stack[1], view.buffer_next[1], view.buffers, port.taken, port.refill)
    if count <= 0:
        return False
    for i in range(count):
        bring_line(bytes_at(view.buffer[1], port.taken[i] * view.buffer_bytes))
    port.taken_count = count
    port.refill = min(2 * port.refill, AT_ONCE)
    return True


def return_buffers(port):
    """Return the emptied transmit buffers of a port to its region, and the receive buffers that were taken and not used."""
    view = view_of(port)
    if port.emptied_count:
        give_some(view.buffer_stack[0], view.buffer_next[0], port.emptied, port.emptied_count)
        port.emptied_count = 0
    if port.taken_count:
        give_some(view.buffer_stack[1], view.buffer_next[1], port.taken, port.taken_count)
        if 2 * port.taken_count > port.refill:
            port.refill = max(4, port.refill // 2)
        port.taken_count = 0
