"""Packets that are dropped.  A module of its own, not inlined: drops are rare, and their code would be in the way of others."""

import cython

if not cython.compiled:
    from penstock_net.fabric.queueing import free_frame, free_packet
    from penstock_net.fabric.sampling import trace
    from penstock_net.fabric.state import ACK, EVENT_DROP, NO_QUEUE, UNANSWERED, count_shared


def drop(node, port, pkt, reason):
    """Count and free a packet; `port` is the one by which it came in or would have left, `reason` one of DROP_*."""
    port.drops[reason] += 1
    port.dropped_bytes += pkt.size
    if node.worker.world.trace:
        trace(node, port, NO_QUEUE, pkt, EVENT_DROP)
    if pkt.kind > ACK:
        free_frame(node.worker, pkt)
        return
    if pkt.flags & UNANSWERED:
        settle(node, pkt.payload)
    else:
        count_shared(node.worker.world.results.lost_packets, pkt.number)
        hook = node.ops.on_drop
        while hook:
            hook.call(hook.me, node, port, pkt)
            hook = hook.next
    free_packet(node.worker, pkt)


def settle(node, lost):
    """A packet of an open-loop flow has arrived, or so many bytes of payload are lost with it."""
    worker = node.worker
    worker.afloat -= 1
    worker.lost += lost
    worker.settled = max(worker.settled, node.now)
