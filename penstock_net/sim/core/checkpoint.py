"""The state of a simulation as bytes, and back into one that was built from the same inputs, for any number of workers.

One walk over the structs serves both directions: `keep` and its like append to a stream, or take from it.  Of each struct the
fields that sim/checkpoint.py lists are copied as they are; what they point to is walked here.  A flow is referred to by its slot,
an incoming flow by its number, a queue by its place in its port.  Packets are copied with the list that they are in.  Saving
changes nothing; loading needs a simulation in which nothing has run.
"""

import cython

if not cython.compiled:
    from penstock_net.fabric.heap import grow
    from penstock_net.fabric.queueing import alloc_frame, alloc_packet, set_event
    from penstock_net.fabric.ranking import ranking_of, restore
    from penstock_net.fabric.state import (
        ACK,
        FLOW_BINS,
        KEY_BITS,
        MOST_LEVELS,
        NEVER,
        NO_FLOW,
        NO_INCOMING,
        NO_PACKET,
        NO_QUEUE,
        RING_WORDS,
        first_of_incoming,
        flow_at,
        flow_ring_at,
        held_at,
        keyed,
        keyed_incoming,
        nic_at,
        node_at,
        paced_of,
        parked_at,
        port_at,
        queue_at,
        ranked_of,
        ring_at,
        sink_at,
        timers_of,
        voq_at,
        worker_at,
    )
    from penstock_net.fabric.tables import new_held, new_incoming, new_int32, new_int64, new_masks, new_sinks
    from penstock_net.sim.core.agenda import set_time
    from penstock_net.sim.core.checkpoint import stream_of
    from penstock_net.sim.core.nodes import totals_of
    from penstock_net.sim.core.pointers import rows_of
    from penstock_net.sim.core.receiver import find_sink
    from penstock_net.sim.core.stream import (
        OF_FLOW,
        OF_FRAME,
        OF_HOST,
        OF_INCOMING,
        OF_LLR,
        OF_NODE,
        OF_PACKET,
        OF_PORT,
        OF_QUEUE,
        OF_SCHEME,
        OF_SINK,
        begin,
        begin_loading,
        bytes_of,
        flow_in,
        free_stream,
        incoming_in,
        installed_in,
        keep,
        keep_fields,
        keep_number,
        keep_tables,
        outbox_of,
        own_of,
        place_of,
        put_rows,
        set_layout,
        sizes_of,
        world_of,
    )

# ---- Packets, queues, ports ----


def keep_packets(stream, worker, first):
    """A list of packets; returns its first one."""
    count = 0
    pkt = first
    while pkt:
        count += 1
        pkt = pkt.next
    count = keep_number(stream, count)
    pkt = first
    last = NO_PACKET
    for _ in range(count):
        frame = 0
        if not stream.loading and pkt.kind > ACK:
            frame = 1
        frame = keep_number(stream, frame)
        if stream.damaged:
            break
        if stream.loading:
            pkt = alloc_frame(worker) if frame else alloc_packet(worker)
            pkt.next = NO_PACKET
            if last:
                last.next = pkt
            else:
                first = pkt
            last = pkt
        keep_fields(stream, OF_FRAME if frame else OF_PACKET, pkt)
        pkt = pkt.next
    return first


def last_of(pkt):
    """The last packet of a list."""
    while pkt and pkt.next:
        pkt = pkt.next
    return pkt


def keep_reference(stream, number, count):
    """Which of `count` things is meant; -1: none."""
    number = keep_number(stream, number + 1)
    if number < 0 or number > count:
        stream.damaged = 1
    return -1 if stream.damaged else number - 1


def keep_queue(stream, worker, queue):
    """A queue with its packets."""
    keep_fields(stream, OF_QUEUE, queue)
    if stream.loading:
        queue.head = keep_packets(stream, worker, NO_PACKET)
        queue.tail = last_of(queue.head)
    else:
        keep_packets(stream, worker, queue.head if queue.length else NO_PACKET)


def keep_place(stream, port, queue):
    """A reference to a queue of a port, by its place."""
    place = keep_reference(stream, place_of(port, queue) if queue else -1, port.queue_count)
    return queue_at(port, place) if place >= 0 else NO_QUEUE


def keep_port(stream, node, port):
    """A port with its queues and the packets on the wire towards it."""
    worker = node.worker
    keep_fields(stream, OF_PORT, port)
    port.control_head = keep_packets(stream, worker, port.control_head)
    if stream.loading:
        port.control_tail = last_of(port.control_head)
        if port.flow_bins < 0 or port.flow_bins > 4 * FLOW_BINS:
            stream.damaged = 1
            return
        if port.flow_bins:
            port.flow_samples = new_int64(worker.arena, port.flow_bins)
    keep_wire(stream, node, port)
    if port.llr:
        keep_llr(stream, worker, port.llr)
    for i in range(port.queue_count):
        keep_queue(stream, worker, queue_at(port, i))
    for i in range(port.queue_count):
        queue = queue_at(port, i)
        queue.next = keep_place(stream, port, queue.next)
    for level in range(MOST_LEVELS):
        ring = ring_at(port, level)
        ring.head = keep_place(stream, port, ring.head)
        ring.tail = keep_place(stream, port, ring.tail)
    if port.queueing_delay:
        keep(stream, port.queueing_delay, 16 * worker.world.class_count)
    keep(stream, port.flow_samples, 8 * port.flow_bins)
    if node.ops.rank_packet:
        arrivals = keep_number(stream, ranking_of(node, port).arrivals)
        if stream.loading and not stream.damaged:
            restore(node, port, arrivals)
    keep_tables(stream, OF_PORT, port)


def keep_llr(stream, worker, llr):
    """The state of retry at a port, with the frames that wait for an acknowledgement."""
    keep_fields(stream, OF_LLR, llr)
    left = 0
    pkt = llr.again
    while pkt:
        left += 1
        pkt = pkt.next
    left = keep_number(stream, left)
    if not stream.loading:
        keep_packets(stream, worker, llr.head)
        return
    llr.head = keep_packets(stream, worker, NO_PACKET)
    llr.tail = last_of(llr.head)
    llr.again = NO_PACKET
    if left:
        llr.again = llr.head
        for _ in range(llr.frames - left):
            if llr.again:
                llr.again = llr.again.next


def keep_wire(stream, node, port):
    """The packets towards a port: those that it has collected, then those of the last window, which it collects now."""
    worker = node.worker
    if not stream.loading:
        keep_packets(stream, worker, port.in_head)
        for parity in range(2):
            keep_packets(stream, worker, outbox_of(node, port, parity).head)
        return
    port.in_head = NO_PACKET
    for _ in range(3):
        first = keep_packets(stream, worker, NO_PACKET)
        if port.in_head:
            port.in_tail.next = first
        else:
            port.in_head = first
        if first:
            port.in_tail = last_of(first)


# ---- Flows ----


def keep_flow(stream, worker, flow):
    """A reference to a flow, by its slot."""
    slot = keep_reference(stream, flow.slot if flow else -1, worker.flow_limit)
    return flow_at(worker, slot) if slot >= 0 else NO_FLOW


def keep_flows(stream, node):
    """All unfinished flows of a host."""
    worker = node.worker
    host = node.host
    count = 0
    flow = host.active
    while flow:
        count += 1
        flow = flow.next_active
    count = keep_number(stream, count)
    flow = host.active
    for _ in range(count):
        flow = keep_flow(stream, worker, flow)
        if not flow:
            stream.damaged = 1
            return
        keep_fields(stream, OF_FLOW, flow)
        slot = keep_reference(stream, flow.nic.slot if not stream.loading else 0, node.port_count)
        flow.nic = nic_at(node, max(slot, 0))
        flow.next = keep_flow(stream, worker, flow.next)
        flow.previous_active = keep_flow(stream, worker, flow.previous_active)
        flow.next_active = keep_flow(stream, worker, flow.next_active)
        flow = flow.next_active
    host.active = keep_flow(stream, worker, host.active)


def make_room(stream, worker, heap, size):
    """Let a heap hold this many items."""
    if size < 0 or size > stream.size:
        stream.damaged = 1
        return
    while heap.capacity < size:
        grow(worker.arena, heap)
    heap.size = size


def keep_heap(stream, worker, heap):
    """A heap of flows."""
    size = keep_number(stream, heap.size)
    if stream.loading:
        make_room(stream, worker, heap, size)
    if not stream.damaged:
        for i in range(size):
            heap.items[i] = keyed(keep_flow(stream, worker, flow_in(heap, i)))


def keep_timers(stream, worker, host):
    """The heap of incoming flows."""
    heap = timers_of(host)
    size = keep_number(stream, heap.size)
    if stream.loading:
        make_room(stream, worker, heap, size)
    if not stream.damaged:
        for i in range(size):
            heap.items[i] = keyed_incoming(keep_incoming(stream, host, incoming_in(heap, i)))


# ---- Receivers ----


def keep_incoming(stream, host, incoming):
    """A reference to an incoming flow: its number plus one."""
    number = 0
    if incoming:
        number = incoming.number + 1
    number = keep_number(stream, number)
    if stream.damaged or number == 0:
        return NO_INCOMING
    sink = find_sink(host, number - 1)
    if not sink or not sink.incoming:
        stream.damaged = 1
        return NO_INCOMING
    return sink.incoming


def keep_sinks(stream, worker, host):
    """What a receiver knows of the flows of which something is missing."""
    bits = keep_number(stream, host.sink_bits)
    if bits < 4 or bits > 30 or (stream.loading and 1 << bits > stream.size):
        stream.damaged = 1
        return
    if stream.loading and bits > host.sink_bits:
        host.sink_bits = bits
        host.sinks = new_sinks(worker.arena, 1 << bits)
    for i in range(1 << bits):
        sink = sink_at(host, i)
        keep_fields(stream, OF_SINK, sink)
        if sink.number:
            incoming = 0
            if sink.incoming:
                incoming = 1
            incoming = keep_number(stream, incoming)
            if incoming:
                if stream.loading:
                    sink.incoming = first_of_incoming(new_incoming(worker.arena, 1, worker.incoming_size))
                keep_fields(stream, OF_INCOMING, sink.incoming)
    for i in range(1 << bits):
        sink = sink_at(host, i)
        if sink.number and sink.incoming and sink.incoming.ranked:
            sink.incoming.before = keep_incoming(stream, host, sink.incoming.before)
            sink.incoming.after = keep_incoming(stream, host, sink.incoming.after)
    host.ranking = keep_incoming(stream, host, host.ranking)


def keep_bitmaps(stream, worker, host):
    """The packets that have been received out of order."""
    count = keep_number(stream, host.ring_count)
    if count < 0 or (stream.loading and count > stream.size):
        stream.damaged = 1
        return
    if stream.loading and count:
        host.ring_count = count
        host.rings_of_bits = new_masks(worker.arena, count * RING_WORDS)
        host.free_ring = new_int32(worker.arena, count)
    keep(stream, host.rings_of_bits, 8 * RING_WORDS * count)
    keep(stream, host.free_ring, 4 * count)


def keep_acks(stream, worker, host):
    """The packets that wait to be acknowledged, and the acknowledgements that are being made."""
    count = keep_number(stream, host.held_count)
    if count < 0 or (stream.loading and count > stream.size):
        stream.damaged = 1
        return
    if stream.loading and count:
        host.held_count = count
        host.held = new_held(worker.arena, count)
    for i in range(count):
        held = held_at(host, i)
        held.due = keep_number(stream, held.due)
        held.arrived = keep_number(stream, held.arrived)
        held.packets = keep_number(stream, held.packets)
        held.marked = keep_number(stream, held.marked)
        held.before = max(keep_reference(stream, held.before, count), 0)
        held.after = max(keep_reference(stream, held.after, count), 0)
        held.pkt = keep_packets(stream, worker, held.pkt)
    host.leaving_head = keep_packets(stream, worker, host.leaving_head)
    if stream.loading:
        host.leaving_tail = last_of(host.leaving_head)


def keep_host(stream, node):
    """Both sides of a host."""
    worker = node.worker
    host = node.host
    keep_sinks(stream, worker, host)
    keep_bitmaps(stream, worker, host)
    keep_acks(stream, worker, host)
    for slot in range(node.port_count):
        keep_fields(stream, OF_HOST, nic_at(node, slot))
    keep_flows(stream, node)
    for slot in range(node.port_count):
        keep_nic(stream, worker, nic_at(node, slot))
    keep_heap(stream, worker, paced_of(host))
    keep_timers(stream, worker, host)
    keep(stream, host.finished, 4 * 4096)


def keep_nic(stream, worker, host):
    """The flows that are to be sent by one port."""
    for level in range(MOST_LEVELS):
        ring = flow_ring_at(host, level)
        ring.head = keep_flow(stream, worker, ring.head)
        ring.tail = keep_flow(stream, worker, ring.tail)
    for i in range(host.nic_queues):
        ring = parked_at(host, i)
        ring.head = keep_flow(stream, worker, ring.head)
        ring.tail = keep_flow(stream, worker, ring.tail)
    keep_heap(stream, worker, ranked_of(host))
    keep(stream, host.queue_flows, 4 * host.nic_queues)
    keep(stream, host.free_queue, 4 * host.nic_queues)


def keep_node(stream, node):
    """A node with all that is in it."""
    keep_fields(stream, OF_NODE, node)
    keep(stream, node.tree, 16 * node.leaf_count)
    for i in range(node.voq_count):
        keep_queue(stream, node.worker, voq_at(node, i))
    for slot in range(node.port_count):
        port = port_at(node, slot)
        keep_port(stream, node, port)
        if stream.loading and port.in_head:
            set_event(node, slot, port.in_head.time << KEY_BITS | slot)
    keep_tables(stream, OF_NODE, node)
    if node.is_host:
        keep_host(stream, node)


class Archive:
    """Saves a Simulation, piece by piece, or loads what another one has saved into it.

    layouts: (fields, tables) of each kind of struct, int64 arrays of pairs, see `Spans`; those of schemes are given with the call
    """

    def __init__(self, sim, layouts):
        self.world = world_of(sim)
        self.installed = installed_in(sim)
        self.kept = [sim, layouts]
        self.beyond = []
        for kind in range(OF_SCHEME):
            fields, tables = layouts[kind]
            set_layout(stream_of(self), kind, fields, tables)

    def __dealloc__(self):
        free_stream(stream_of(self))

    def save_node(self, number):
        stream = stream_of(self)
        begin(stream)
        keep_node(stream, node_at(self.world, number))
        return self.saved()

    def load_node(self, number, data):
        """ValueError: these bytes are not those of such a node."""
        stream = stream_of(self)
        begin_loading(stream, data)
        keep_node(stream, node_at(self.world, number))
        self.check_end()

    def save_scheme(self, index, fields, tables):
        """The own state of the scheme of this index, with its tables."""
        stream = stream_of(self)
        begin(stream)
        self.keep_scheme(index, fields, tables)
        return self.saved()

    def load_scheme(self, index, fields, tables, data):
        stream = stream_of(self)
        begin_loading(stream, data)
        self.keep_scheme(index, fields, tables)
        self.check_end()

    def keep_scheme(self, index, fields, tables):
        stream = stream_of(self)
        set_layout(stream, OF_SCHEME, fields, tables)
        _, me = self.installed[index]
        keep_fields(stream, OF_SCHEME, own_of(me))
        keep_tables(stream, OF_SCHEME, own_of(me))

    def saved(self):
        stream = stream_of(self)
        if stream.damaged:
            raise MemoryError("no memory for a checkpoint")
        return bytes_of(stream)

    def check_end(self):
        stream = stream_of(self)
        if stream.damaged or stream.at != stream.size:
            raise ValueError("it does not fit this simulation")

    def totals(self):
        """What workers count, and `flows`: how many slots of each part of the table of flows have been used."""
        world = self.world
        worker = worker_at(world, 0)
        out = totals_of(world) | {"window_start": worker.window_start, "windows": worker.windows, "flows": []}
        out["flow_limit"] = worker.flows_end
        for i in range(world.worker_count):
            worker = worker_at(world, i)
            out["flows"].append(worker.flows_used - i * out["flow_limit"])
        out["flows"] += self.beyond
        return out

    def set_totals(self, totals):
        """Call when all nodes are loaded."""
        world = self.world
        first = worker_at(world, 0)
        limit = first.flows_end
        first.done, first.reactions, first.printed = totals["done"], totals["reactions"], totals["printed"]
        first.afloat, first.lost, first.settled = totals["afloat"], totals["lost"], totals["settled"]
        for i in range(world.worker_count):
            worker_at(world, i).window_start = totals["window_start"]
            worker_at(world, i).windows = totals["windows"]
        for part, used in enumerate(totals["flows"]):
            worker = worker_at(world, part % world.worker_count)
            if part < world.worker_count:
                worker.flows_used = part * limit + used
            for slot in range(part * limit, part * limit + used):
                flow = flow_at(worker, slot)
                flow.slot = slot
                if not flow.size:
                    flow.number = -1
                    flow.next = worker.free_flow
                    worker.free_flow = flow
        self.beyond = totals["flows"][world.worker_count :]
        for number in range(world.node_count):
            node = node_at(world, number)
            time = NEVER
            if node.tree[1] != NEVER:
                time = max(node.tree[1] >> KEY_BITS, first.window_start)
            set_time(node.worker, node.place, time)

    def save_rows(self, name):
        """The rows of one log, as they are."""
        return b"".join([rows_of(worker_at(self.world, i), name, False) for i in range(self.world.worker_count)])

    def load_rows(self, name, rows, size):
        """Let the first worker's log begin with these rows of `size` bytes."""
        put_rows(worker_at(self.world, 0), name, rows, size)


def struct_bytes(name):
    """The size of a struct in memory."""
    return sizes_of(name)
