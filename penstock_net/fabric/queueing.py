"""Event keys, packet pool, FIFO queues, deficit round robin, random numbers, hook lists: leaf functions, inlined everywhere."""

import cython

if not cython.compiled:
    from penstock_net.fabric.state import (
        KEY_BITS,
        LISTED,
        NEVER,
        NO_PACKET,
        NO_QUEUE,
        bit,
        first_of,
        hash31,
        lowest_bit,
        pool_at,
        ring_at,
    )
    from penstock_net.fabric.tables import new_packets


def set_event(node, leaf, key):
    """Set the key of one leaf and update its ancestors; the root, tree[1], is the earliest key."""
    tree = node.tree
    i = node.leaf_count + leaf
    tree[i] = key
    while i > 1:
        key = min(key, tree[i ^ 1])
        i >>= 1
        tree[i] = key


def set_node_event(node, which, time):
    """Set one of the leaves behind those of the ports.  NEVER, or a time that a key cannot hold (37 minutes), disables it."""
    leaf = 2 * node.port_count + which
    set_event(node, leaf, NEVER if time >> 51 else time << KEY_BITS | leaf)


def alloc_packet(worker):
    """A packet from the worker's free list, or from its pool; its fields hold what they held before."""
    pkt = worker.free
    if pkt:
        worker.free = pkt.next
    else:
        if worker.pool_used >= worker.pool_size:
            worker.pool = new_packets(worker.arena, worker.pool_size, worker.packet_size)
            worker.pool_used = 0
        pkt = pool_at(worker, worker.pool_used)
        worker.pool_used += 1
        worker.packets += 1
    return pkt


def free_packet(worker, pkt):
    pkt.next = worker.free
    worker.free = pkt


def alloc_frame(worker):
    """A control frame from the worker's free list, or a new one; its fields hold what they held before."""
    frame = worker.free_frames
    if not frame:
        return first_of(new_packets(worker.arena, 1, worker.frame_size))
    worker.free_frames = frame.next
    return frame


def free_frame(worker, frame):
    frame.next = worker.free_frames
    worker.free_frames = frame


def push(queue, pkt):
    pkt.next = NO_PACKET
    if queue.length == 0:
        queue.head = pkt
    else:
        queue.tail.next = pkt
    queue.tail = pkt
    queue.length += 1
    queue.bytes += pkt.size


def pop(queue):
    pkt = queue.head
    queue.head = pkt.next
    queue.length -= 1
    queue.bytes -= pkt.size
    return pkt


def push_control(port, pkt):
    pkt.next = NO_PACKET
    if port.control_head:
        port.control_tail.next = pkt
    else:
        port.control_head = pkt
    port.control_tail = pkt


def list_queue(port, queue, quantum):
    """Append a queue to the round robin of its priority level, with a deficit of one quantum."""
    ring = ring_at(port, queue.level)
    queue.listed = LISTED
    queue.deficit = quantum
    queue.next = NO_QUEUE
    if ring.head:
        ring.tail.next = queue
    else:
        ring.head = queue
        port.levels |= bit(queue.level)
    ring.tail = queue


def unlist_first(port, level):
    ring = ring_at(port, level)
    queue = ring.head
    ring.head = queue.next
    queue.listed = 0
    if not ring.head:
        port.levels &= ~bit(level)


def next_queue(port, quantum):
    """The queue that deficit round robin serves next, its deficit already charged; NO_QUEUE if none may send."""
    while port.levels:
        level = lowest_bit(port.levels)
        ring = ring_at(port, level)
        queue = ring.head
        if queue.paused or queue.length == 0:
            unlist_first(port, level)
        elif queue.deficit < queue.head.size:
            queue.deficit += quantum
            if queue.next:
                ring.head = queue.next
                ring.tail.next = queue
                ring.tail = queue
                queue.next = NO_QUEUE
        else:
            queue.deficit -= queue.head.size
            return queue
    return NO_QUEUE


def draw(node, stream):
    """31 random bits of one of the node's streams (RANDOM_*).  Counter-based: only earlier draws from that stream matter."""
    node.draws[stream] += 1
    return hash31(node.draws[stream], node.random_seed + stream)


def call_packet_hooks(hook, node, port, queue, pkt):
    """Call the hooks of one event point (on_enqueue, on_dequeue) in the order in which their schemes were named."""
    while hook:
        hook.call(hook.me, node, port, queue, pkt)
        hook = hook.next


def call_flow_hooks(hook, node, flow, pkt):
    """The same for flows (on_start, on_send, on_ack, on_finish); `pkt` may be NO_PACKET."""
    while hook:
        hook.call(hook.me, node, flow, pkt)
        hook = hook.next
