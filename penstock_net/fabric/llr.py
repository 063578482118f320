"""Link-level retry where frames leave: they are numbered, and kept until the other end of the link has acknowledged them.

A frame has its number in `out_port`, which means nothing else on a wire whose peer stores and forwards. Numbers are counted
modulo 2^15, on a real link modulo 2^20: nothing differs while fewer than 2^14 wait.
"""

import cython

if not cython.compiled:
    from penstock_net.fabric.queueing import alloc_frame, alloc_packet, free_frame, free_packet, set_node_event
    from penstock_net.fabric.state import ACK, KEY_BITS, NEVER, NO_PACKET, RETRY, THROW_AWAY, THROWN_AWAY, UNNUMBERED, copy_packet


def copy_of(node, pkt):
    """A copy of a frame, in memory of this node's worker."""
    worker = node.worker
    if pkt.kind > ACK:
        copy = alloc_frame(worker)
        copy_packet(copy, pkt, worker.frame_size)
    else:
        copy = alloc_packet(worker)
        copy_packet(copy, pkt, worker.packet_size)
    copy.next = NO_PACKET
    return copy


def free_copy(node, pkt):
    """Free a packet or control frame."""
    if pkt.kind > ACK:
        free_frame(node.worker, pkt)
    else:
        free_packet(node.worker, pkt)


def is_full(llr):
    """Whether a frame more, of the largest size so far, may not wait for its acknowledgement."""
    return llr.frames >= llr.most_frames or llr.bytes + llr.largest > llr.most_bytes


def protect(node, port, pkt):
    """Number a frame that is about to leave, and keep a copy; where no more may be kept, hold the port."""
    llr = port.llr
    if not llr.on or llr.flushing or port.watched < 0:  # the link is dead
        pkt.out_port = UNNUMBERED
        if llr.flushing and llr.on_flush == THROW_AWAY:
            pkt.out_port = THROWN_AWAY
            llr.tx_discard += 1
        return
    pkt.out_port = llr.next
    pkt.held = 0
    llr.next = (llr.next + 1) & 32767
    llr.tx_ok += 1
    copy = copy_of(node, pkt)
    if llr.head:
        llr.tail.next = copy
    else:
        llr.head = copy
        llr.progress_at = node.now
    llr.tail = copy
    llr.frames += 1
    llr.bytes += pkt.size
    llr.largest = max(llr.largest, pkt.size)
    llr.most_bytes_kept = max(llr.most_bytes_kept, llr.bytes)
    if is_full(llr):
        port.retrying = 1
    if llr.due == NEVER:
        llr.due = llr.progress_at + llr.timeout
        look_at(node, llr.due)


def look_at(node, when):
    """Look at the node's retry timers at `when` at the latest."""
    leaf = 2 * node.port_count + RETRY
    if when < node.tree[node.leaf_count + leaf] >> KEY_BITS:
        set_node_event(node, RETRY, when)
