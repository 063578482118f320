"""Rows of the logs: the packet trace, pauses, and time series of switches, ports, queues and flows."""

import cython

if not cython.compiled:
    from penstock_net.fabric.queueing import set_node_event
    from penstock_net.fabric.recording import record
    from penstock_net.fabric.rows import new_flow_row, new_pause_row, new_port_row, new_queue_row, new_switch_row, new_trace_row
    from penstock_net.fabric.state import (
        FLOW_BINS,
        KEY_BITS,
        NEVER,
        SAMPLE,
        connection_at,
        message_at,
        port_at,
        queue_at,
        whole_packets,
    )
    from penstock_net.fabric.tables import new_int64


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


# Nothing of a node changes between its events, so samples before the next one are rows that stand for many.  The event of the
# next sample stays in the tree of a node that has no other event, but its root says that there is none: nobody visits the node
# until a packet arrives, which makes the root right again, or until catch_up().


def start_sampling(node):
    """Samples are due at multiples of the period, from time 0 on."""
    root = node.tree[1]
    set_node_event(node, SAMPLE, 0)
    if root == NEVER:
        node.tree[1] = NEVER


def sample(node):
    """Take the sample that is due, and those until the node's next event or the end of its window."""
    set_node_event(node, SAMPLE, NEVER)
    following = node.tree[1]
    until = min(following, node.worker.limit) >> KEY_BITS
    if following < node.worker.limit and following & ((1 << KEY_BITS) - 1) > 2 * node.port_count + SAMPLE:
        until += 1
    take_samples(node, node.now, until)
    if following == NEVER:
        node.tree[1] = NEVER


def catch_up(node, until):
    """Take the samples of an idle node that are due before `until`, ps."""
    key = node.tree[node.leaf_count + 2 * node.port_count + SAMPLE]
    if key != NEVER and key >> KEY_BITS < until:
        root = node.tree[1]
        take_samples(node, key >> KEY_BITS, until)
        if root == NEVER:
            node.tree[1] = NEVER


def take_samples(node, first, until):
    """A row of each time series that is wanted of this node for the samples from `first` on and before `until`, ps."""
    worker = node.worker
    world = worker.world
    repeat = (until - 1 - first) // world.sample + 1
    set_node_event(node, SAMPLE, first + repeat * world.sample)
    largest = 0
    flows = -1
    for slot in range(node.port_count):
        port = port_at(node, slot)
        largest = max(largest, port.bytes)
        flows = max(flows, port.flows)
        if world.count_flows and port.flows >= 0:
            count_flows(node, port, repeat)
        if world.sample_ports:
            sample_port(node, port, first, repeat)
        if world.sample_queues and not node.is_host:
            sample_queues(node, port, first, repeat)
    if not node.is_host:
        row = new_switch_row(worker)
        row.time = first
        row.repeat = repeat
        row.node = node.id
        row.buffer_bytes = node.buffer_used
        row.max_queue_bytes = largest
        row.flows = flows
    elif world.sample_flows:
        sample_flows(node, first, repeat)
    if world.recorded_count:
        record(node, first, repeat)


def count_flows(node, port, repeat):
    """Add samples to the histogram of the port's active flows."""
    i = min(port.flows, FLOW_BINS - 1)
    if i == 0:
        port.idle_samples += repeat
        return
    if i >= port.flow_bins:
        grow_histogram(node, port, i)
    port.flow_samples[i] += repeat


def grow_histogram(node, port, i):
    """Make room for bin i."""
    bins = max(port.flow_bins, 16)
    while bins <= i:
        bins *= 4
    table = new_int64(node.worker.arena, bins)
    for k in range(port.flow_bins):
        table[k] = port.flow_samples[k]
    port.flow_samples = table
    port.flow_bins = bins


def sample_port(node, port, first, repeat):
    row = new_port_row(node.worker)
    row.time = first
    row.repeat = repeat
    row.node = node.id
    row.port = port.slot
    row.bytes = port.bytes
    row.tx_bytes = port.tx_bytes
    row.ack_bytes = port.ack_bytes
    row.frame_bytes = port.frame_bytes
    row.active = port.active
    row.flows = port.flows


def sample_queues(node, port, first, repeat):
    if port.bytes == 0:
        return
    for i in range(port.queue_count):
        queue = queue_at(port, i)
        if queue.length > 0:
            row = new_queue_row(node.worker)
            row.time = first
            row.repeat = repeat
            row.node = node.id
            row.port = port.slot
            row.queue = i
            row.bytes = queue.bytes
            row.paused = queue.paused


def sample_flow(node, flow, first, repeat):
    """A row of a flow; of a connection it is the first message that is not acknowledged."""
    row = new_flow_row(node.worker)
    row.time = first
    row.repeat = repeat
    row.node = node.id
    row.number = flow.number
    row.acked = flow.acked
    row.window = flow.window
    if flow.connection > 0:
        world = node.worker.world
        row.number = message_at(world, flow.message).number
        if flow.message > connection_at(world, flow.connection - 1).first:
            row.acked -= whole_packets(world, message_at(world, flow.message - 1).end)


def sample_flows(node, first, repeat):
    flow = node.host.active
    while flow:
        if not flow.resting:
            sample_flow(node, flow, first, repeat)
        flow = flow.next_active
