"""Rows of the logs: the packet trace, pauses, and time series of switches, ports, queues and flows."""

import cython

if not cython.compiled:
    from penstock.fabric.queueing import set_node_event
    from penstock.fabric.state import (
        FLOW_BINS,
        SAMPLE,
        new_flow_row,
        new_pause_row,
        new_port_row,
        new_queue_row,
        new_switch_row,
        new_trace_row,
        port_at,
        queue_at,
    )


def trace(node, port, queue, pkt, event):
    """One row of the packet trace.  event: 0 enqueue, 1 dequeue, 2 drop, 3 control frame received, 4 stored in a VOQ."""
    row = new_trace_row(node.worker)
    row.time = node.now
    row.node = node.id
    row.event = event
    row.port = port.slot
    row.in_port = pkt.in_port
    row.number = pkt.number
    row.seq = pkt.seq
    row.size = pkt.size
    row.kind = pkt.kind
    row.ecn = pkt.ecn
    row.flags = pkt.flags
    row.upstream_q = pkt.queue
    row.port_bytes = port.bytes
    row.queue = -1
    if queue:
        row.queue = queue.index
        row.queue_bytes = queue.bytes


def log_pause(node, port, queue, command):
    """One row of the pause log: PAUSE or RESUME of a queue, or of the whole port if `queue` is -1."""
    row = new_pause_row(node.worker)
    row.time = node.now
    row.node = node.id
    row.port = port.slot
    row.queue = queue
    row.command = command


def sample(node):
    """One row of each time series that is wanted of this node; called at multiples of the sampling period."""
    worker = node.worker
    world = worker.world
    set_node_event(node, SAMPLE, node.now + world.sample)
    largest = 0
    flows = -1
    for slot in range(node.port_count):
        port = port_at(node, slot)
        largest = max(largest, port.bytes)
        flows = max(flows, port.flows)
        if port.flow_samples:
            port.flow_samples[min(port.flows, FLOW_BINS - 1)] += 1
        if world.sample_ports:
            sample_port(node, port)
        if world.sample_queues and not node.is_host:
            sample_queues(node, port)
    if not node.is_host:
        row = new_switch_row(worker)
        row.time = node.now
        row.node = node.id
        row.buffer_bytes = node.buffer_used
        row.max_queue_bytes = largest
        row.flows = flows
    elif world.sample_flows:
        sample_flows(node)


def sample_port(node, port):
    row = new_port_row(node.worker)
    row.time = node.now
    row.node = node.id
    row.port = port.slot
    row.bytes = port.bytes
    row.tx_bytes = port.tx_bytes
    row.ack_bytes = port.ack_bytes
    row.frame_bytes = port.frame_bytes
    row.active = port.active
    row.flows = port.flows


def sample_queues(node, port):
    if port.bytes == 0:
        return
    for i in range(port.queue_count):
        queue = queue_at(port, i)
        if queue.length > 0:
            row = new_queue_row(node.worker)
            row.time = node.now
            row.node = node.id
            row.port = port.slot
            row.queue = i
            row.bytes = queue.bytes
            row.paused = queue.paused


def sample_flows(node):
    flow = node.host.active
    while flow:
        row = new_flow_row(node.worker)
        row.time = node.now
        row.node = node.id
        row.number = flow.number
        row.acked = flow.acked
        row.window = flow.window
        flow = flow.next_active
