"""Hosts receive what the switches of a tree have added up: each sum acknowledges their own part of it."""

import cython

if not cython.compiled:
    from penstock_net.fabric.state import GRANT, flow_at, seat_at
    from penstock_net.sim.core.lifetimes import finish_flow
    from penstock_net.sim.core.receiver import record_arrival
    from penstock_net.sim.core.sender import reschedule


def receive_sum(me, node, port, pkt):
    """A sum lets the host send its next part; with the last one it has everything.  A grant lets it begin."""
    world = node.worker.world
    seat = seat_at(world, pkt.slot)
    flow = flow_at(node.worker, seat.slot)
    node.hops += 1
    flow.progress_at = node.now
    if pkt.number == GRANT:
        flow.window = world.chunks * world.mtu
    else:
        flow.acked = pkt.seq + pkt.payload
        if flow.acked == flow.size:
            record_arrival(node, seat.awaited)
            finish_flow(node, flow)
            return
    reschedule(node, flow)
