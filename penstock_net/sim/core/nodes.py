"""Creates the nodes of a simulation and the links between them, empty and at time 0; takes links and switches down."""

import cython

if not cython.compiled:
    from penstock_net.fabric.line import disarm, is_stopped, resume_port, resume_queue
    from penstock_net.fabric.losses import drop
    from penstock_net.fabric.queueing import pop, set_event, set_node_event
    from penstock_net.fabric.ranking import is_ranked, withdraw_first
    from penstock_net.fabric.retry import begin_anew, bring_up, lose_from_wire
    from penstock_net.fabric.state import (
        DROP_REASONS,
        DROP_SWITCH,
        IN_NODE,
        LEAVES,
        LEVELS,
        LISTED,
        MOST_LEVELS,
        NEVER,
        NO_QUEUE,
        OPENED,
        SCHEDULED,
        TIMER,
        bit,
        clear,
        counted_at,
        host_ops,
        nic_at,
        node_at,
        number_in,
        outbox_at,
        plain_ops,
        port_at,
        queue_at,
        ring_at,
        switch_ops,
        voq_at,
        whole,
        worker_at,
    )
    from penstock_net.fabric.tables import (
        later_int32,
        new_flow_rings,
        new_host,
        new_int64,
        new_packet_refs,
        new_ports,
        new_queues,
        new_rings,
        new_sinks,
    )
    from penstock_net.fabric.wire import transmission
    from penstock_net.sim.core.cutthrough import complete_all
    from penstock_net.sim.core.pointers import (
        add_first,
        add_reduction,
        int32_table,
        int64_table,
        queue_area,
        recorded_table,
        seat_table,
    )

WHOLE = 3  # kind of a count, as number_in() takes it


def new_node(world, number, degree, node, port_size, queue_size, queue_count, voq_count):
    """Initialise node `number`: its ports, queues and event tree; sizes are in bytes of a struct."""
    node.worker = worker_at(world, 0)
    node.id = number
    node.first_port = world.port_count
    node.port_count = degree
    node.is_host = 1 if number < world.host_count else 0
    node.ops = host_ops(world) if node.is_host else switch_ops(world)
    node.leaf_count = 2
    while node.leaf_count < 2 * degree + LEAVES + world.retries:
        node.leaf_count *= 2
    node.tree = new_int64(world.arena, 2 * node.leaf_count)
    for i in range(2 * node.leaf_count):
        node.tree[i] = NEVER
    for i in range(16):
        node.deadlines[i] = NEVER
    node.voq_count = voq_count
    node.voq_size = queue_size
    node.voqs = new_queues(world.arena, voq_count, queue_size)
    node.ports = new_ports(world.arena, degree, port_size)
    node.port_size = port_size
    node.together = new_packet_refs(world.arena, degree)
    for slot in range(degree):
        port = port_at(node, slot)
        port.slot = slot
        port.flows = -1
        port.queue_size = queue_size
        port.queue_count = queue_count
        port.queues = new_queues(world.arena, queue_count, queue_size)
        port.rings = new_rings(world.arena, MOST_LEVELS)
    world.port_count += degree


def new_nic(world, node, nic_queues):
    """Initialise the host part of a node: NIC queues of each port, pacer, receiver."""
    for slot in range(node.port_count):
        host = new_host(world.arena)
        port_at(node, slot).nic = host
        host.port = port_at(node, slot)
        host.slot = slot
        host.nic_queues = nic_queues
        host.by_rank = world.ranked
        host.ranked.seed = node.random_seed
        host.parked = new_flow_rings(world.arena, nic_queues)
        host.queue_flows = later_int32(world.arena, nic_queues)
        host.free_queue = later_int32(world.arena, nic_queues)
        host.free_queues = nic_queues
    host = nic_at(node, 0)
    node.host = host
    host.paced.seed = node.random_seed
    host.timers.seed = node.random_seed
    host.sink_bits = 4
    host.sinks = new_sinks(world.arena, 16)
    host.acks_due = NEVER
    host.finished = later_int32(world.arena, 4096)


def begin_acks(world, settings, composition):
    """Take over what the settings and the composition say of acknowledgements."""
    world.ack_lane = settings["ack_lane"]
    world.ack_queue = composition.nic_queues * world.ack_lane
    world.acks_queued = world.ack_lane if composition.priorities else 0
    world.ack_every = settings["ack_every"]
    world.ack_after = settings["ack_after"]
    world.ack_delay = settings["ack_delay"]
    world.answer_at = composition.answer_at
    world.acks_held = world.ack_every != 1
    world.acks_apart = world.acks_queued or world.answer_at > 0


def own_scheduling(world):
    """A scheme has its own scheduler (next_queue): keep all queues out of the round robin."""
    for number in range(world.node_count):
        node = node_at(world, number)
        if node.ops == plain_ops(world):
            continue
        for slot in range(node.port_count):
            port = port_at(node, slot)
            for index in range(port.queue_count):
                queue_at(port, index).listed = SCHEDULED


def set_rate(world, node, port, ps_per_byte):
    """By the clock of the node."""
    if port.head_ps:
        complete_all(node, port)
    port.ps_per_byte = ps_per_byte * node.clock
    port.whole_ps = whole(port.ps_per_byte)
    port.part_ps = whole(min((port.ps_per_byte - port.whole_ps) * 4294967296.0 + 0.5, 4294967295.0))
    port.carry = 0
    port.head_ps = transmission(port, port.head_bytes) + (1 if port.head_bytes * port.part_ps & 4294967295 else 0)
    port.uneven = port.part_ps | port.head_ps | world.grain
    if port.llr:
        port.uneven = 1


def link(world, a, slot_a, b, slot_b, ps_per_byte, delay, near):
    """Connect a port of node `a` to one of node `b`, with the same ps per byte and delay (ps) in both directions.

    near: both are in the same group of an agenda.
    """
    port_a = port_at(node_at(world, a), slot_a)
    port_b = port_at(node_at(world, b), slot_b)
    port_a.peer_node = b
    port_a.peer_slot = slot_b
    port_a.peer_port = node_at(world, b).first_port + slot_b
    port_a.peer_word = b * world.port_words + (slot_b >> 6)
    port_a.peer_queues = port_b.queue_count
    port_b.peer_node = a
    port_b.peer_slot = slot_a
    port_b.peer_port = node_at(world, a).first_port + slot_a
    port_b.peer_word = a * world.port_words + (slot_a >> 6)
    port_b.peer_queues = port_a.queue_count
    port_a.head_bytes = node_at(world, b).cut_through
    port_b.head_bytes = node_at(world, a).cut_through
    port_a.watched = node_at(world, a).cut_through
    port_b.watched = node_at(world, b).cut_through
    set_rate(world, node_at(world, a), port_a, ps_per_byte)
    set_rate(world, node_at(world, b), port_b, ps_per_byte)
    port_a.peer_ps_per_byte = port_b.ps_per_byte
    port_b.peer_ps_per_byte = port_a.ps_per_byte
    port_a.delay = delay
    port_b.delay = delay
    port_a.near = near
    port_b.near = near


def set_loss(port, loss, control_loss):
    """Set the loss probabilities, scaled to 2^31, of packets and of control frames on the wire towards a port."""
    port.loss = loss
    port.control_loss = control_loss
    port.watched |= control_loss


def watch_hosts(world):
    """Have what arrives at hosts looked at before it is handled, where a scheme wants to."""
    if host_ops(world).on_arrival:
        for number in range(world.host_count):
            node = node_at(world, number)
            for slot in range(node.port_count):
                port_at(node, slot).watched = 1


def cut(world, node, slot):
    """Drop the packets on the wire towards a port whose link goes down."""
    port = port_at(node, slot)
    while port.in_head:
        pkt = port.in_head
        port.in_head = pkt.next
        lose_from_wire(node, port, pkt)
    port.complete = 0
    set_event(node, slot, NEVER)
    for parity in range(2):
        outbox = outbox_at(node.worker, parity, port.peer_port)
        while outbox.head:
            pkt = outbox.head
            outbox.head = pkt.next
            lose_from_wire(node, port, pkt)
    for i in range(world.worker_count):
        for parity in range(2):
            word = node.id * world.port_words + (slot >> 6)
            worker_at(world, i).arrived_ports[parity][word] &= ~bit(slot & 63)
    if port.llr:
        begin_anew(node_at(world, port.peer_node), port)


def end_pauses(node, port):
    """End every pause of a port and of its queues, whichever scheme set it."""
    resume_port(node, port, port.paused)
    for index in range(port.queue_count):
        resume_queue(node, port, index, queue_at(port, index).paused)


def set_state(world, node, slot, state):
    """The link of a port is up (0), down (1), dark (2), or loses what is sent over it (3); see Simulation.change_link."""
    port = port_at(node, slot)
    if state == 1 or state == 3 or port.watched < 0:
        cut(world, node, slot)
    if (port.watched < 0) != (state == 3):
        port.watched = ~port.watched
    if state == 1 or state == 2:
        port.down = state


def go_on(node, port, state):
    """A port sends if its link is up again, or loses what is sent, and then nobody is left who could end a pause."""
    if state == 0 or state == 3:
        if port.watched < 0:
            end_pauses(node, port)
        bring_up(node, port)
    tell_of_link(node, port)


def tell_of_link(node, port):
    """Schemes are told that the link of a port has changed, or that flows of its host leave by other ports."""
    hook = node.ops.on_link_change
    while hook:
        hook.call(hook.me, node, port)
        hook = hook.next


def lose(node, port, pkt):
    """Drop a packet that was stored for a port of a switch that has failed."""
    port.bytes -= pkt.size
    node.buffer_used -= pkt.size
    drop(node, port, pkt, DROP_SWITCH)


def empty_port(node, port):
    """Drop all packets queued at a port and reset its state."""
    for index in range(port.queue_count):
        queue = queue_at(port, index)
        while queue.length:
            pkt = pop(queue)
            if is_ranked(node, port, queue, pkt):
                withdraw_first(node, queue, pkt)
            lose(node, port, pkt)
        queue.deficit = 0
        if queue.listed == LISTED:
            queue.listed = 0
    for level in range(MOST_LEVELS):
        ring_at(port, level).head = NO_QUEUE
    port.levels = 0
    port.active = 0
    while port.control_head:
        pkt = port.control_head
        port.control_head = pkt.next
        drop(node, port, pkt, DROP_SWITCH)
    disarm(node, port)


def empty_switch(world, node):
    """Fail a switch whose links are down already: drop its packets, cancel its timers and end all pauses on its links."""
    for slot in range(node.port_count):
        port = port_at(node, slot)
        peer = node_at(world, port.peer_node)
        end_pauses(peer, port_at(peer, port.peer_slot))
        end_pauses(node, port)
    for index in range(node.voq_count):
        voq = voq_at(node, index)
        while voq.length:
            pkt = pop(voq)
            port_at(node, pkt.out_port).held -= pkt.size
            lose(node, port_at(node, pkt.out_port), pkt)
    node.voqs_used = 0
    for slot in range(node.port_count):
        empty_port(node, port_at(node, slot))
    for index in range(world.scheme_count):
        node.deadlines[index] = NEVER
    set_node_event(node, TIMER, NEVER)


def clear_queues(node, at, size):
    """Zero a scheme's state, `size` bytes at `at`, in every queue of a switch."""
    for index in range(node.voq_count):
        clear(queue_area(voq_at(node, index), at), size)
    for slot in range(node.port_count):
        port = port_at(node, slot)
        for index in range(port.queue_count):
            clear(queue_area(queue_at(port, index), at), size)


def chain_bytes(pkt):
    """Bytes of a list of packets."""
    total = 0
    while pkt:
        total += pkt.size
        pkt = pkt.next
    return total


def paused_queues(port):
    """How many queues of a port are paused."""
    count = 0
    if port.pauses_received:
        for i in range(port.queue_count):
            if queue_at(port, i).paused:
                count += 1
    return count


def ingresses(pkt):
    """The ports by which the packets of a list came in."""
    found = set()
    while pkt:
        found.add(pkt.in_port)
        pkt = pkt.next
    return found


# ---- What a node tells ----


def count_node(node, end, row):
    """Fill the row of a node in Simulation.node_counters; a pause in progress counts until `end`, ps."""
    row.node = node.id
    row.events = node.events
    row.hops = node.hops
    row.control_frames = node.control_frames
    row.frame_bytes = node.frame_bytes
    row.frame_bytes_received = node.frame_bytes_received
    row.voqs_max = node.voqs_max
    row.buffer_used = node.buffer_used
    row.buffer_max = node.buffer_max
    row.buffer_size = node.buffer_size
    for i in range(LEVELS):
        row.pauses[i] = node.pauses[i]
        row.stopped_ps[i] = node.stopped_ps[i] + node.stopped[i] * end


def count_port(node, slot, end, row):
    """Fill the row of a port in Simulation.port_counters; a pause in progress counts until `end`, ps."""
    port = port_at(node, slot)
    row.node = node.id
    row.port = slot
    row.peer = port.peer_node
    row.peer_port = port.peer_slot
    row.tx_bytes = port.tx_bytes
    row.tx_packets = port.tx_packets
    row.rx_bytes = port.rx_bytes
    row.max_queue_bytes = port.max_bytes
    row.queued_bytes = port.bytes
    row.held_bytes = port.held
    row.control_bytes = chain_bytes(port.control_head)
    row.wire_bytes = chain_bytes(port.in_head)
    for parity in range(2):
        row.wire_bytes += chain_bytes(outbox_at(node.worker, parity, port.peer_port).head)
    row.pauses_sent = port.pauses_sent
    row.pauses_received = port.pauses_received
    row.paused_ps = port.paused_ps
    if is_stopped(node, port):
        row.paused_ps += end - port.paused_since
    row.paused = port.paused
    row.paused_queues = paused_queues(port)
    row.cut_bytes = port.cut_bytes
    row.ecn_marks = port.ecn_marks
    row.dropped_bytes = port.dropped_bytes
    row.trims = port.trims
    row.trimmed_bytes = port.trimmed_bytes
    row.returns = port.returns
    row.storms = port.storms
    row.restored = port.restored
    row.ps_per_byte = port.ps_per_byte
    row.ack_bytes = port.ack_bytes
    row.frame_bytes = port.frame_bytes
    for i in range(DROP_REASONS):
        row.drops[i] = port.drops[i]


def restart_maxima_of(node):
    node.buffer_max = node.buffer_used
    node.voqs_max = node.voqs_used
    for slot in range(node.port_count):
        port_at(node, slot).max_bytes = port_at(node, slot).bytes


def stopped_queues_of(node):
    """Rows of Simulation.stopped_queues."""
    out = []
    for slot in range(node.port_count):
        port = port_at(node, slot)
        for index in range(port.queue_count):
            queue = queue_at(port, index)
            if queue.length > 0 and (port.paused or queue.paused):
                first = (queue.head.number, queue.head.seq, queue.head.kind)
                out.append((node.id, slot, index, first, queue.tail.time, sorted(ingresses(queue.head))))
    return out


def plant(world, seat_of, seats, parts, chunks, groups_wait):
    """Set up the trees of Simulation.set_reductions."""
    world.seat_of = int32_table(seat_of)
    world.seats = seat_table(seats)
    world.parts = int32_table(parts)
    world.chunks = chunks
    world.groups_wait = groups_wait
    add_reduction(world)


def guide(world, tables):
    """Set the tables of Simulation.set_given."""
    if "rails" in tables:
        world.rails = int32_table(tables["rails"])
    if "pins" in tables:
        world.pin_of = int32_table(tables["pin_of"])
        world.pins = int32_table(tables["pins"])
        add_first(world, "pins")
    if "turns" in tables:
        world.turns = int64_table(tables["turns"])
        add_first(world, "turns")
    if "rates" in tables:
        world.rates = int64_table(tables["rates"])
        world.windows = int64_table(tables["windows"])
        world.limited = 1
    if "unsent" in tables:
        world.unsent = int64_table(tables["unsent"])
        world.missing = int64_table(tables["missing"])
        world.limited = OPENED
        world.served_apart = 1


def totals_of(world):
    """What workers count: flows done, reactions; of open-loop flows packets afloat, bytes lost and when the last one ended."""
    workers = range(world.worker_count)
    return {
        "done": sum([worker_at(world, i).done for i in workers]),
        "printed": sum([worker_at(world, i).printed for i in workers]),
        "reactions": sum([worker_at(world, i).reactions for i in workers]),
        "afloat": sum([worker_at(world, i).afloat for i in workers]),
        "lost": sum([worker_at(world, i).lost for i in workers]),
        "settled": max([worker_at(world, i).settled for i in workers]),
    }


def queueing_of(node):
    """Rows of Simulation.queueing."""
    out = []
    for slot in range(node.port_count):
        port = port_at(node, slot)
        for i in range(node.worker.world.class_count):
            if port.queueing_delay[2 * i]:
                out.append((node.id, slot, i, port.queueing_delay[2 * i], port.queueing_delay[2 * i + 1]))
    return out


def flow_samples_of(node):
    """Rows of Simulation.flow_samples."""
    out = []
    for slot in range(node.port_count):
        port = port_at(node, slot)
        if port.idle_samples:
            out.append((node.id, slot, 0, port.idle_samples))
        for i in range(port.flow_bins):
            if port.flow_samples[i]:
                out.append((node.id, slot, i, port.flow_samples[i]))
    return out


def record_fields(world, counted, recorded, print_limit):
    """Set what schemes count of flows and record, arrays of Recorded, and how many lines they may print."""
    world.counted, world.counted_count = recorded_table(counted), len(counted)
    world.recorded, world.recorded_count = recorded_table(recorded), len(recorded)
    world.print_limit = print_limit


def counts_of(world, number, owner, area, at):
    """Counts of a node or its ports that are not 0: (node, port, value); port -1: of the node."""
    node = node_at(world, number)
    if owner == IN_NODE:
        found = [(number, -1, number_in(node, area, at, WHOLE))]
    else:
        found = [(number, slot, number_in(port_at(node, slot), area, at, WHOLE)) for slot in range(node.port_count)]
    return [row for row in found if row[2]]


def flow_counts_of(world, number):
    """(node, number, field, value) of the counts of the unfinished flows of a host that are not 0."""
    out = []
    flow = node_at(world, number).host.active
    while flow:
        for i in range(world.counted_count):
            field = counted_at(world, i)
            value = number_in(flow, field.area, field.at, field.kind)
            if value != 0.0:
                out.append((number, flow.number, i, value))
        flow = flow.next_active
    return out


def active_flows_of(node):
    """Rows of Simulation.active_flows."""
    out = []
    flow = node.host.active
    while flow:
        if flow.connection <= 0:
            out.append((flow.number, flow.acked, flow.size, flow.retransmitted, flow.paused_ps, flow.window))
        flow = flow.next_active
    return out
