"""Event keys, packet pool, FIFO queues, deficit round robin and random draws: the leaves that are inlined everywhere."""

import cython

if not cython.compiled:
    from penstock.fabric.state import (
        KEY_BITS,
        NEVER,
        NO_PACKET,
        NO_QUEUE,
        bit,
        first_of,
        hash31,
        lowest_bit,
        new_packets,
        pool_at,
        ring_at,
    )


def set_event(node, leaf, key):
    """Set the key of one leaf; the winner moves up to tree[1]."""
    tree = node.tree
    i = node.leaf_count + leaf
    tree[i] = key
    while i > 1:
        key = min(key, tree[i ^ 1])
        i >>= 1
        tree[i] = key


def set_node_event(node, which, time):
    """Set one of the leaves behind those of the ports; `time` may be NEVER, and is when a key cannot hold it (37 minutes)."""
    leaf = 2 * node.port_count + which
    set_event(node, leaf, NEVER if time >> 51 else time << KEY_BITS | leaf)


def take_packet(worker):
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


def give_packet(worker, pkt):
    pkt.next = worker.free
    worker.free = pkt


def take_frame(worker):
    """Memory for a control frame."""
    frame = worker.free_frames
    if not frame:
        return first_of(new_packets(worker.arena, 1, worker.frame_size))
    worker.free_frames = frame.next
    return frame


def give_frame(worker, frame):
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
    """Append a queue to the round robin of its level, with one quantum to spend on its first turn."""
    ring = ring_at(port, queue.level)
    queue.listed = 1
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
    """Queue whose turn it is to send, its deficit already charged, or nothing."""
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


def draw(node, purpose):
    """31 random bits: a counter-based stream per node and purpose (0 queues, 1 marking, 2 loss, 3 a user's scheme, 4 paths)."""
    node.draws[purpose] += 1
    return hash31(node.draws[purpose], node.random_seed + purpose)
