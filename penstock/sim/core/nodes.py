"""Creates the nodes of a simulation and the links between them, empty and at time 0; takes a link down."""

import cython

if not cython.compiled:
    from penstock.fabric.line import drop
    from penstock.fabric.queueing import set_event
    from penstock.fabric.state import (
        DROP_DOWN,
        LEAVES,
        MOST_LEVELS,
        NEVER,
        SCHEDULED,
        bit,
        host_ops,
        later_int32,
        new_flow_rings,
        new_host,
        new_int32,
        new_int64,
        new_ports,
        new_queues,
        new_rings,
        new_sinks,
        node_at,
        outbox_at,
        plain_ops,
        port_at,
        queue_at,
        switch_ops,
        worker_at,
    )


def new_node(world, number, degree, node, port_size, queue_size, queue_count, voq_count):
    """Initialise node `number`: its ports, queues and event tree; sizes are in bytes of a struct."""
    node.worker = worker_at(world, 0)
    node.id = number
    node.first_port = world.port_count
    node.port_count = degree
    node.is_host = 1 if number < world.host_count else 0
    node.ops = host_ops(world) if node.is_host else switch_ops(world)
    node.leaf_count = 2
    while node.leaf_count < 2 * degree + LEAVES:
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
    """Initialise the host part of a node: NIC queues, pacer, receiver."""
    host = new_host(world.arena)
    node.host = host
    host.nic_queues = nic_queues
    host.by_rank = world.ranked
    host.parked = new_flow_rings(world.arena, nic_queues)
    host.queue_flows = later_int32(world.arena, nic_queues)
    host.free_queue = new_int32(world.arena, nic_queues)
    for i in range(nic_queues):
        host.free_queue[i] = i
    host.free_queues = nic_queues
    host.sink_bits = 4
    host.sinks = new_sinks(world.arena, 16)
    host.finished = later_int32(world.arena, 4096)
    host.delayed_until = NEVER


def own_scheduling(world):
    """A scheme says which queue is served: none joins the round robin."""
    for number in range(world.node_count):
        node = node_at(world, number)
        if node.ops == plain_ops(world):
            continue
        for slot in range(node.port_count):
            port = port_at(node, slot)
            for index in range(port.queue_count):
                queue_at(port, index).listed = SCHEDULED


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
    port_a.ps_per_byte = ps_per_byte
    port_b.ps_per_byte = ps_per_byte
    port_a.delay = delay
    port_b.delay = delay
    port_a.near = near
    port_b.near = near


def set_loss(port, loss, control_loss):
    """Set the loss probabilities, scaled to 2^31, of packets and of control frames on the wire towards a port."""
    port.loss = loss
    port.control_loss = control_loss


def cut(world, node, slot):
    """A link goes down: packets on the wire towards this port are lost."""
    port = port_at(node, slot)
    while port.in_head:
        pkt = port.in_head
        port.in_head = pkt.next
        port.cut_bytes += pkt.size
        drop(node, port, pkt, DROP_DOWN)
    set_event(node, slot, NEVER)
    for parity in range(2):
        outbox = outbox_at(node.worker, parity, port.peer_port)
        while outbox.head:
            pkt = outbox.head
            outbox.head = pkt.next
            port.cut_bytes += pkt.size
            drop(node, port, pkt, DROP_DOWN)
    for i in range(world.worker_count):
        for parity in range(2):
            word = node.id * world.port_words + (slot >> 6)
            worker_at(world, i).arrived_ports[parity][word] &= ~bit(slot & 63)
