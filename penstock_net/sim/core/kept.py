"""Senders whose flows may mix priorities: packets whose priority is paused wait in the NIC queue."""

import cython

if not cython.compiled:
    from penstock_net.fabric.state import flow_at, queue_at
    from penstock_net.sim.core.sender import park


def keep_if_paused(node, port, pkt):
    """If the NIC queue of a new packet's priority is paused, queue the packet there and park its flow until the resume."""
    pkt.queue = pkt.priority
    if not queue_at(port, pkt.priority).paused:
        return
    pkt.in_port = 0
    pkt.time = node.now
    port.free_at = max(port.free_at, node.now)
    port.armed = 1  # the next transmission is arranged by transmit_host
    node.ops.store.call(node, port, pkt)
    flow = flow_at(node.worker, pkt.slot)
    flow.queue = pkt.priority
    park(node, flow)
