"""Open-loop flows: they send at their rate, nobody answers them, and nothing of them is sent again.

A flow ends at its sender with its last packet.  Its packets are counted until each has arrived or is lost, and the run lasts as
long.  Schemes see its packets as any others, but no answer of any: on_ack, on_data, on_timeout, on_return and on_drop are not
called for it, and what on_start makes of its window and rate is undone, as is a window of on_send.
"""

import cython

if not cython.compiled:
    from penstock_net.fabric.losses import settle
    from penstock_net.fabric.queueing import free_packet
    from penstock_net.fabric.state import IDLE, NEVER, OPEN_LOOP, PARKED, RETURNED, TRIMMED, UNANSWERED
    from penstock_net.sim.core.lifetimes import finish_flow
    from penstock_net.sim.core.receiver import record_arrival


def launch(node, flow, pkt):
    """A packet is made, that counts as acknowledged at once."""
    worker = node.worker
    pkt.flags |= UNANSWERED
    flow.acked = pkt.seq + pkt.payload
    worker.afloat += 1
    worker.world.unsent[flow.number] -= pkt.payload


def end_if_sent(node, flow):
    """End such a flow that has sent its last packet; returns whether it has.  Another one has no window."""
    if flow.connection != OPEN_LOOP:
        return False
    flow.window = NEVER  # whatever a transport makes of it when it sends
    if flow.sent < flow.size:
        return False
    if flow.state != PARKED:  # in a list of those
        flow.state = IDLE
    finish_flow(node, flow)
    return True


def receive_unanswered(node, pkt):
    """Count what a packet brings; with the last byte that was missing the flow has finished."""
    missing = node.worker.world.missing
    if pkt.flags & (TRIMMED | RETURNED):
        settle(node, pkt.payload)
    else:
        settle(node, 0)
        missing[pkt.number] -= pkt.payload
        if missing[pkt.number] == 0:
            record_arrival(node, pkt.number)
    free_packet(node.worker, pkt)
