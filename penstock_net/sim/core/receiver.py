"""Hosts as receivers: every packet is acknowledged, in order (go-back-N) or, with several paths per flow, in any order."""

import cython

if not cython.compiled:
    from penstock_net.fabric.heap import remove
    from penstock_net.fabric.incoming import next_flow_timer, unrank_incoming
    from penstock_net.fabric.line import kick
    from penstock_net.fabric.losses import drop
    from penstock_net.fabric.queueing import free_packet, push_control, set_node_event
    from penstock_net.fabric.state import (
        ACK,
        BY_DEFAULT,
        COMPLETE,
        DROP_ADMISSION,
        FLOW_TIMER,
        LAST,
        MORE,
        NACK,
        NO_INCOMING,
        NO_SINK,
        RETRANSMITTED,
        RING_WORDS,
        TRIMMED,
        clear,
        clear_bit,
        first_incoming,
        first_of_incoming,
        has_bit,
        keyed_incoming,
        mask_of,
        past,
        port_at,
        rare,
        set_bit,
        sink_at,
        sink_of,
        timers_of,
        value_of,
    )
    from penstock_net.fabric.tables import new_incoming, new_int32, new_masks, new_sinks
    from penstock_net.sim.core.acks import (
        changes_mark,
        close_held,
        first_due,
        hold,
        leave,
        note_answer,
        schedule_acks,
        send_made,
        take_held,
        waits,
    )
    from penstock_net.sim.core.connections import begin_sink, next_arrived
    from penstock_net.sim.core.lifetimes import release_children


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
    to.incoming = sink.incoming
    to.message = sink.message
    to.held = sink.held
    to.begins = sink.begins


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
    sink.incoming = NO_INCOMING
    sink.message = 0
    sink.held = 0
    sink.begins = 0
    if node.worker.world.connection_of:
        begin_sink(node.worker.world, sink, number)
    return sink


def remove_sink(host, number):
    """Remove an entry and move back those after it (linear probing without tombstones)."""
    mask = (1 << host.sink_bits) - 1
    i = sink_slot(host, number)
    while sink_at(host, i).number != number + 1:
        i = (i + 1) & mask
    host.sink_count -= 1
    if rare(sink_at(host, i).held):
        close_held(host, sink_at(host, i).held)
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


def record_messages(node, sink, number):
    """Record the messages of a connection that have been received in full."""
    arrived = next_arrived(node.worker.world, sink, number)
    while arrived >= 0:
        record_arrival(node, arrived)
        arrived = next_arrived(node.worker.world, sink, number)


def receive_data(node, pkt):
    """In-order data advances; a gap is answered by a NACK, at most one per nack_interval; duplicates are acknowledged again."""
    if node.ops.on_data:
        receive_for_scheme(node, pkt)
        return
    host = node.host
    number = pkt.number
    if pkt.seq == 0 and pkt.flags == LAST:
        record_arrival(node, number)
        acknowledge(node, pkt, pkt.payload, 0)
        return
    sink = find_sink(host, number)
    if not sink:
        if rare(node.worker.world.reordering):
            if node.worker.world.results.finish[number] >= 0:  # by a copy that overtook this packet
                acknowledge(node, pkt, pkt.seq + pkt.payload, COMPLETE)
                return
        elif pkt.flags & RETRANSMITTED and host.finished[number & 4095] == number + 1:
            acknowledge(node, pkt, past(node.worker.world, pkt), 0)
            return
        sink = add_sink(node, number)
    if node.worker.world.reordering:
        receive_in_any_order(node, sink, pkt)
    elif pkt.seq == sink.expected:
        sink.expected += pkt.payload
        if rare(sink.message):
            sink.expected = past(node.worker.world, pkt)
            record_messages(node, sink, number)
        if pkt.flags & LAST:
            record_arrival(node, number)
            acknowledge(node, pkt, sink.expected, 0)
            remove_sink(host, number)
            return
        acknowledge(node, pkt, sink.expected, 0)
    elif pkt.seq < sink.expected:
        acknowledge(node, pkt, sink.expected, 0)
    else:
        answer_gap(node, sink, pkt)


def answer_gap(node, sink, pkt):
    """Ask for the first missing packet with a NACK, at most once per nack_interval."""
    if sink.nack_seq != sink.expected or node.now - sink.nack_at >= node.worker.world.nack_interval:
        sink.nack_seq = sink.expected
        sink.nack_at = node.now
        acknowledge(node, pkt, sink.expected, NACK)
    else:
        free_packet(node.worker, pkt)


def receive_in_any_order(node, sink, pkt):
    """For receivers that tolerate reordering: an early packet is recorded in a bitmap; its ACK does not advance."""
    number = pkt.number
    if pkt.flags & LAST:
        sink.end = pkt.seq + pkt.payload
    if pkt.seq == sink.expected:
        sink.expected = past(node.worker.world, pkt)
        if sink.ring:
            advance(node, sink)
        if rare(sink.message):
            record_messages(node, sink, number)
    elif pkt.seq > sink.expected and not note_ahead(node, sink, pkt):
        drop(node, port_at(node, pkt.in_port), pkt, DROP_ADMISSION)
        return
    if sink.end == 0 or sink.expected < sink.end:
        acknowledge(node, pkt, sink.expected, 0)
        return
    if sink.ring:
        node.host.free_ring[node.host.free_rings] = sink.ring
        node.host.free_rings += 1
    record_arrival(node, number)
    acknowledge(node, pkt, sink.expected, 0)
    remove_sink(node.host, number)


# ---- Flows of which a scheme has state at the receiver ----


def open_incoming(node, number, slot, src, hash, priority):
    """Create the receiver's state of a flow at its first packet or frame."""
    worker = node.worker
    sink = add_sink(node, number)
    incoming = worker.free_incoming
    if incoming:
        worker.free_incoming = incoming.next
        clear(incoming, worker.incoming_size)
    else:
        incoming = first_of_incoming(new_incoming(worker.arena, 1, worker.incoming_size))
    incoming.number = number
    incoming.slot = slot
    incoming.src = src
    incoming.dst = node.id
    incoming.hash = hash
    incoming.priority = priority
    incoming.heap_at = -1
    sink.incoming = incoming
    return sink


def close_incoming(node, sink):
    """Forget a flow that has arrived in full and has no timer."""
    incoming = sink.incoming
    if sink.ring:
        node.host.free_ring[node.host.free_rings] = sink.ring
        node.host.free_rings += 1
    remove_sink(node.host, incoming.number)
    unrank_incoming(node, incoming)
    incoming.next = node.worker.free_incoming
    node.worker.free_incoming = incoming


def find_incoming(node, frame):
    """The incoming flow that a frame refers to, created if necessary; NO_INCOMING if it has ended."""
    number = mask_of(frame)
    sink = find_sink(node.host, number)
    if sink:
        return sink.incoming
    if node.worker.world.results.finish[number] >= 0:
        return NO_INCOMING
    sink = open_incoming(node, number, value_of(frame), frame.src, frame.hash, frame.priority)
    return sink.incoming


def look_up_incoming(node, number):
    """The incoming flow with this number; NO_INCOMING if nothing of it has arrived, or if it has ended."""
    sink = find_sink(node.host, number)
    if not sink:
        return NO_INCOMING
    return sink.incoming


def receive_for_scheme(node, pkt):
    """Record what has arrived; the scheme's on_data says whether it is acknowledged."""
    sink = find_sink(node.host, pkt.number)
    if not sink:
        if node.worker.world.results.finish[pkt.number] >= 0:
            acknowledge(node, pkt, pkt.seq + pkt.payload, COMPLETE)
            return
        sink = open_incoming(node, pkt.number, pkt.slot, pkt.src, pkt.hash, pkt.priority)
    incoming = sink.incoming
    missing = pkt.seq - sink.expected
    if not pkt.flags & TRIMMED:
        incoming.received += take_in(node, sink, pkt)
        incoming.expected = sink.expected
        incoming.size = sink.end
        if rare(sink.message):
            record_messages(node, sink, pkt.number)
        if sink.end and sink.expected == sink.end and not incoming.complete:
            incoming.complete = 1
            record_arrival(node, pkt.number)
    hook = node.ops.on_data
    answer = hook.call(hook.me, node, incoming, pkt)
    if answer == BY_DEFAULT and missing > 0 and not node.worker.world.reordering:
        answer_gap(node, sink, pkt)
    elif answer:
        acknowledge(node, pkt, incoming.expected, COMPLETE if incoming.complete else 0)
    else:
        free_packet(node.worker, pkt)
    close_if_done(node, incoming)


def close_if_done(node, incoming):
    if incoming.complete and incoming.heap_at < 0:
        close_incoming(node, find_sink(node.host, incoming.number))


def take_in(node, sink, pkt):
    """Record a packet; returns its bytes of payload if they are new and can be recorded, else 0."""
    if pkt.seq < sink.expected:
        return 0
    if pkt.seq == sink.expected:
        sink.expected = past(node.worker.world, pkt)
        if pkt.flags & LAST:
            sink.end = sink.expected
        if sink.ring:
            advance(node, sink)
        return pkt.payload
    if not node.worker.world.reordering or already_ahead(node, sink, pkt) or not note_ahead(node, sink, pkt):
        return 0
    if pkt.flags & LAST:
        sink.end = pkt.seq + pkt.payload
    return pkt.payload


def already_ahead(node, sink, pkt):
    """Whether an early packet has arrived before."""
    if sink.ring == 0:
        return False
    i = pkt.seq // node.worker.world.mtu % (64 * RING_WORDS)
    if has_bit(node.host.rings_of_bits, 64 * (sink.ring - 1) * RING_WORDS + i):
        return True
    return False


def run_flow_timers(node):
    """Send the acknowledgements that are due; call on_flow_timer of every incoming flow whose timer has expired."""
    host = node.host
    heap = timers_of(host)
    hook = node.ops.on_flow_timer
    host.in_flow_timers = 1
    if host.acks_due <= node.now:
        run_acks(node)
    while next_flow_timer(heap) <= node.now:
        incoming = first_incoming(heap)
        remove(heap, keyed_incoming(incoming))
        if hook:
            hook.call(hook.me, node, incoming)
        close_if_done(node, incoming)
    host.in_flow_timers = 0
    set_node_event(node, FLOW_TIMER, min(next_flow_timer(heap), host.acks_due))


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
    """Acknowledge a packet: at once or, where hosts do so, with others that follow it."""
    if rare(node.worker.world.acks_held):
        acknowledge_together(node, pkt, seq, flags)
        return
    answer(node, pkt, seq, flags)


def acknowledge_together(node, pkt, seq, flags):
    """One acknowledgement for several packets of a flow, sent with the n-th of them or a time after the first.

    One that ends the flow or a message, fills or leaves a gap, or was sent again is acknowledged at once, with those that wait.
    So is one whose mark is not that of the packet before it, after those that wait (RFC 8257, section 3.2).
    """
    sink = find_sink(node.host, pkt.number)
    if not sink:
        note_answer(node, pkt, 1, 0)
        answer(node, pkt, seq, flags)
        return
    urgent = is_urgent(node.worker.world, pkt, seq, flags)
    changed = changes_mark(node, sink, pkt)
    if changed and waits(node, sink):
        earlier = take_held(node, sink.held)
        answer(node, earlier, earlier.seq, 0)
    if hold(node, sink, pkt, seq) == node.worker.world.ack_every or urgent or changed:
        answer(node, take_held(node, sink.held), seq, flags)
    schedule_acks(node)


def is_urgent(world, pkt, seq, flags):
    """Whether a packet, whose acknowledgement is to say `seq` and `flags`, is to be acknowledged at once, but for its mark."""
    if flags or pkt.flags & (LAST | MORE | RETRANSMITTED | TRIMMED) or seq != past(world, pkt):
        return True
    return False


def run_acks(node):
    """Send the acknowledgements whose time has come."""
    place = first_due(node)
    while place:
        pkt = take_held(node, place)
        answer(node, pkt, pkt.seq, 0)
        place = first_due(node)
    send_made(node)
    schedule_acks(node)


def answer(node, pkt, seq, flags):
    """Turn the data packet into its own ACK and send it by the port at which it came; marks, what switches wrote and `payload`
    are kept."""
    world = node.worker.world
    source = pkt.src
    pkt.src = pkt.dst
    pkt.dst = source
    pkt.size = max(world.ack_min, world.ack_header + pkt.size - pkt.payload - world.header)
    pkt.seq = seq
    if not world.symmetric:
        pkt.hash = ~pkt.hash
    pkt.kind = ACK
    pkt.lane = world.ack_lane
    pkt.flags = flags
    pkt.queue = world.ack_queue
    port = port_at(node, pkt.in_port)
    if rare(world.acks_apart):
        leave(node, port, pkt)
        return
    push_control(port, pkt)
    kick(node, port)
