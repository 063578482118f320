"""Hosts as receivers: every packet is acknowledged.  In order (go-back-N), or, with several paths per flow, in any order."""

import cython

if not cython.compiled:
    from penstock.fabric.line import drop, kick
    from penstock.fabric.queueing import free_packet, push_control
    from penstock.fabric.state import (
        ACK,
        DROP_ADMISSION,
        LAST,
        NACK,
        NO_SINK,
        RETRANSMITTED,
        RING_WORDS,
        clear_bit,
        has_bit,
        new_int32,
        new_masks,
        new_sinks,
        port_at,
        set_bit,
        sink_at,
        sink_of,
    )
    from penstock.sim.core.sender import release_children


def sink_slot(host, number):
    """Home index of a flow number in the hash table of receiving flows."""
    return ((number * 1640531527) & 0x7FFFFFFF) >> (31 - host.sink_bits)


def find_sink(host, number):
    """The receiver's state of a flow; NO_SINK if there is none."""
    mask = (1 << host.sink_bits) - 1
    i = sink_slot(host, number)
    while sink_at(host, i).number:
        if sink_at(host, i).number == number + 1:
            return sink_at(host, i)
        i = (i + 1) & mask
    return NO_SINK


def copy_sink(to, sink):
    to.number = sink.number
    to.ring = sink.ring
    to.end = sink.end
    to.expected = sink.expected
    to.nack_seq = sink.nack_seq
    to.nack_at = sink.nack_at


def place_sink(host, number):
    """A free entry for a number that is not in the table."""
    mask = (1 << host.sink_bits) - 1
    i = sink_slot(host, number)
    while sink_at(host, i).number:
        i = (i + 1) & mask
    return sink_at(host, i)


def grow_sinks(node):
    host = node.host
    count = 1 << host.sink_bits
    old = host.sinks
    host.sink_bits += 1
    host.sinks = new_sinks(node.worker.arena, 2 * count)
    for i in range(count):
        sink = sink_of(old, i)
        if sink.number:
            copy_sink(place_sink(host, sink.number - 1), sink)


def add_sink(node, number):
    host = node.host
    if 2 * (host.sink_count + 1) > 1 << host.sink_bits:
        grow_sinks(node)
    host.sink_count += 1
    sink = place_sink(host, number)
    sink.number = number + 1
    sink.ring = 0
    sink.end = 0
    sink.expected = 0
    sink.nack_seq = -1
    sink.nack_at = 0
    return sink


def remove_sink(host, number):
    """Remove an entry and move back those after it (linear probing without tombstones)."""
    mask = (1 << host.sink_bits) - 1
    i = sink_slot(host, number)
    while sink_at(host, i).number != number + 1:
        i = (i + 1) & mask
    host.sink_count -= 1
    j = (i + 1) & mask
    while sink_at(host, j).number:
        home = sink_slot(host, sink_at(host, j).number - 1)
        if ((j - home) & mask) >= ((j - i) & mask):
            copy_sink(sink_at(host, i), sink_at(host, j))
            i = j
        j = (j + 1) & mask
    sink_at(host, i).number = 0


def record_arrival(node, number):
    """Record that a flow has been received in full; flows that depend on it are released."""
    world = node.worker.world
    node.host.finished[number & 4095] = number + 1
    if world.results.finish[number] < 0:
        world.results.finish[number] = node.now
        if world.child_offsets:
            release_children(node, number)


def receive_data(node, pkt):
    """In-order data advances; a gap is answered by a NACK, at most one per nack_interval; duplicates are acknowledged again."""
    host = node.host
    number = pkt.number
    if pkt.seq == 0 and pkt.flags == LAST:
        record_arrival(node, number)
        acknowledge(node, pkt, pkt.payload, 0)
        return
    sink = find_sink(host, number)
    if not sink:
        if pkt.flags & RETRANSMITTED and host.finished[number & 4095] == number + 1:
            acknowledge(node, pkt, pkt.seq + pkt.payload, 0)
            return
        sink = add_sink(node, number)
    if node.worker.world.reordering:
        receive_in_any_order(node, sink, pkt)
    elif pkt.seq == sink.expected:
        sink.expected += pkt.payload
        seq = sink.expected
        if pkt.flags & LAST:
            record_arrival(node, number)
            remove_sink(host, number)
        acknowledge(node, pkt, seq, 0)
    elif pkt.seq < sink.expected:
        acknowledge(node, pkt, sink.expected, 0)
    elif sink.nack_seq != sink.expected or node.now - sink.nack_at >= node.worker.world.nack_interval:
        sink.nack_seq = sink.expected
        sink.nack_at = node.now
        acknowledge(node, pkt, sink.expected, NACK)
    else:
        free_packet(node.worker, pkt)


def receive_in_any_order(node, sink, pkt):
    """For receivers that tolerate reordering: an early packet is recorded in a bitmap; its ACK does not advance."""
    number = pkt.number
    if pkt.flags & RETRANSMITTED and sink.expected == 0 and pkt.seq > 0:  # its flow may have ended long ago
        acknowledge(node, pkt, 0, NACK)
        return
    if pkt.flags & LAST:
        sink.end = pkt.seq + pkt.payload
    if pkt.seq == sink.expected:
        sink.expected += pkt.payload
        if sink.ring:
            advance(node, sink)
    elif pkt.seq > sink.expected and not note_ahead(node, sink, pkt):
        drop(node, port_at(node, 0), pkt, DROP_ADMISSION)
        return
    seq = sink.expected
    if sink.end and seq == sink.end:
        if sink.ring:
            node.host.free_ring[node.host.free_rings] = sink.ring
            node.host.free_rings += 1
        record_arrival(node, number)
        remove_sink(node.host, number)
    acknowledge(node, pkt, seq, 0)


def note_ahead(node, sink, pkt):
    """Record an early packet in the flow's bitmap; False if it is too far ahead."""
    mtu = node.worker.world.mtu
    if pkt.seq - sink.expected >= (64 * RING_WORDS - 1) * mtu:
        return False
    if sink.ring == 0:
        sink.ring = alloc_ring(node)
    i = pkt.seq // mtu % (64 * RING_WORDS)
    set_bit(node.host.rings_of_bits, 64 * (sink.ring - 1) * RING_WORDS + i)
    return True


def advance(node, sink):
    """Advance to the first missing packet and clear the bits passed."""
    mtu = node.worker.world.mtu
    base = (sink.ring - 1) * RING_WORDS
    bits = node.host.rings_of_bits
    i = sink.expected // mtu % (64 * RING_WORDS)
    while has_bit(bits, 64 * base + i):
        clear_bit(bits, 64 * base + i)
        sink.expected += mtu
        if sink.end and sink.expected > sink.end:
            sink.expected = sink.end
        i = sink.expected // mtu % (64 * RING_WORDS)


def alloc_ring(node):
    """Allocate an empty bitmap; returns its index plus one."""
    host = node.host
    if host.free_rings == 0:
        grow_rings(node)
    host.free_rings -= 1
    return host.free_ring[host.free_rings]


def grow_rings(node):
    """Double the number of bitmaps, when all are in use."""
    host = node.host
    count = max(2 * host.ring_count, 16)
    bits = new_masks(node.worker.arena, count * RING_WORDS)
    for i in range(host.ring_count * RING_WORDS):
        bits[i] = host.rings_of_bits[i]
    host.free_ring = new_int32(node.worker.arena, count)
    for i in range(count - host.ring_count):
        host.free_ring[i] = count - i
    host.free_rings = count - host.ring_count
    host.rings_of_bits = bits
    host.ring_count = count


def acknowledge(node, pkt, seq, flags):
    """Turn the data packet into its own ACK and send it: what switches wrote into it, and the size of its payload, stay."""
    world = node.worker.world
    source = pkt.src
    pkt.src = pkt.dst
    pkt.dst = source
    pkt.size = max(world.ack_min, world.ack_header + pkt.size - pkt.payload - world.header)
    pkt.seq = seq
    pkt.hash = ~pkt.hash
    pkt.kind = ACK
    pkt.lane = world.ack_lane
    pkt.flags = flags
    pkt.queue = 0
    port = port_at(node, 0)
    push_control(port, pkt)
    kick(node, port)
