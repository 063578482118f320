"""Batched allocation and release of a port's buffers, so that few operations are atomic."""

import cython

if not cython.compiled:
    from penstock_net.vswitch.dataplane.buffers import AT_ONCE
    from penstock_net.vswitch.dataplane.state import view_of
    from penstock_net.vswitch.memory.layout import bring_line, bytes_at
    from penstock_net.vswitch.memory.rings import give_some, take_some


def take_buffers(port):
    """Refill `port.taken`, which is empty, with free receive buffers; returns whether there were any.

    Each time that a port runs out of them within a turn, the batch doubles, up to AT_ONCE.
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
    """Return a port's emptied transmit buffers and its unused receive buffers to its region."""
    view = view_of(port)
    if port.emptied_count:
        give_some(view.buffer_stack[0], view.buffer_next[0], port.emptied, port.emptied_count)
        port.emptied_count = 0
    if port.taken_count:
        give_some(view.buffer_stack[1], view.buffer_next[1], port.taken, port.taken_count)
        if 2 * port.taken_count > port.refill:
            port.refill = max(4, port.refill // 2)
        port.taken_count = 0
