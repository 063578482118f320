"""Flows start, follow one another on a connection, and finish; those that waited for them start."""

import cython

if not cython.compiled:
    from penstock_net.fabric.failure import fail
    from penstock_net.fabric.heap import remove
    from penstock_net.fabric.pacing import remove_paced, set_pace_timer
    from penstock_net.fabric.queueing import call_flow_hooks, draw, set_node_event
    from penstock_net.fabric.reduction import enter
    from penstock_net.fabric.state import (
        IDLE,
        NEVER,
        NO_FLOW,
        NO_PACKET,
        OPEN_LOOP,
        OPENED,
        PACED,
        PARKED,
        RANDOM_QUEUE,
        READY,
        START,
        TICK,
        TOO_MANY_FLOWS,
        bit,
        clear,
        connection_at,
        flow_at,
        flow_ring_at,
        hash31,
        keyed,
        message_at,
        parked_at,
        ranked_of,
        rare,
        start_at,
        waiting_at,
        whole_packets,
    )
    from penstock_net.sim.core.connections import join, message_of, post
    from penstock_net.sim.core.delayed import add_delayed, take_due
    from penstock_net.sim.core.nics import choose_nic


def unlink_flow(ring, flow):
    """Remove a flow from the middle of a ring (rare: it finished while it was queued to retransmit)."""
    before = NO_FLOW
    current = ring.head
    while current != flow:
        before = current
        current = current.next
    if before:
        before.next = flow.next
    else:
        ring.head = flow.next
    if ring.tail == flow:
        ring.tail = before


def count_pause(node, flow):
    """A flow is parked no longer; of a connection the message that it will go on with was paused."""
    time = node.now - flow.paused_since
    flow.paused_ps += time
    if rare(flow.connection > 0):
        world = node.worker.world
        world.results.paused[message_at(world, message_of(world, flow, flow.sent)).number] += time


def count_timeout(node, flow):
    """A flow has had no progress until its timeout; of a connection the message that is to be acknowledged."""
    world = node.worker.world
    number = flow.number
    if rare(flow.connection > 0):
        number = message_at(world, message_of(world, flow, flow.acked)).number
    world.results.timeout[number] += node.now - flow.progress_at


def awaits_answer(node, flow):
    """Whether a flow times out unless it makes progress: of open-loop flows, which await none, none does."""
    if flow.acked >= flow.size or flow.connection == OPEN_LOOP:
        return False
    if node.ops.on_timeout or flow.sent > flow.acked:
        return True
    return False


def first_timeout(node):
    """When the first flow times out, unless it makes progress, and within an RTO: flows may start meanwhile."""
    world = node.worker.world
    soonest = node.now + world.rto
    flow = node.host.active
    while flow:
        if awaits_answer(node, flow):
            soonest = min(soonest, flow.progress_at + ((flow.rto if flow.rto else world.rto) << flow.backoff))
        flow = flow.next_active
    return soonest


def arm_tick(node):
    """Schedule the next check for timeouts: at a multiple of a quarter of the RTO, or when the first one may be due."""
    if rare(node.worker.world.exact_rto):
        set_node_event(node, TICK, first_timeout(node))
        return
    period = node.worker.world.rto // 4
    set_node_event(node, TICK, (node.now // period + 1) * period)


def claim_queue(node, flow):
    """Assign a NIC queue to a flow: the one unused for longest, or a random one if all are in use."""
    host = flow.nic
    if host.free_queues:
        flow.queue = host.free_head + host.free_queue[host.free_head]
        host.free_head = (host.free_head + 1) % host.nic_queues
        host.free_queues -= 1
    else:
        flow.queue = draw(node, RANDOM_QUEUE) % host.nic_queues
    host.queue_flows[flow.queue] += 1


def release_queue(host, flow):
    """A flow leaves its NIC queue, which becomes unused with its last flow."""
    host.queue_flows[flow.queue] -= 1
    if host.queue_flows[flow.queue] == 0:
        last = (host.free_head + host.free_queues) % host.nic_queues
        host.free_queue[last] = flow.queue - last
        host.free_queues += 1


def own_queues(node):
    """Whether a flow has a NIC queue that it takes and gives back."""
    if node.host.nic_queues > 1 and not node.worker.world.nic_by_destination and not node.worker.world.nic_by_priority:
        return True
    return False


def alloc_flow(node):
    """A zeroed flow; NO_FLOW and an error if the worker's part of the table is full."""
    worker = node.worker
    flow = worker.free_flow
    if flow:
        worker.free_flow = flow.next
        slot = flow.slot
        clear(flow, worker.flow_size)
        flow.slot = slot
        return flow
    if worker.flows_used == worker.flows_end:
        fail(node, TOO_MANY_FLOWS, 0)
        return NO_FLOW
    flow = flow_at(worker, worker.flows_used)
    flow.slot = worker.flows_used
    worker.flows_used += 1
    return flow


def finish_computation(node, number):
    """A flow from a host to itself sends nothing: it is received, and acknowledged, at the moment of its start."""
    worker = node.worker
    worker.world.results.finish[number] = node.now
    worker.world.results.acked[number] = node.now
    worker.done += 1
    if worker.world.child_offsets:
        release_children(node, number)


def admit_flow(node, start):
    """Start a flow: allocate it, assign its NIC queue, call on_start and schedule it."""
    if start.src == start.dst:
        finish_computation(node, start.number)
        return
    worker = node.worker
    host = node.host
    seat = 0
    if worker.world.seat_of:
        seat = worker.world.seat_of[start.number]
    if worker.world.connection_of:
        if follow(node, start):
            return
    flow = alloc_flow(node)
    if not flow:
        return
    flow.number = start.number
    flow.size = start.size
    flow.src = start.src
    flow.dst = start.dst
    flow.priority = start.priority
    flow.hash = hash31(start.number, worker.world.seed)
    flow.start = node.now
    flow.progress_at = node.now
    flow.window = NEVER
    limit(worker.world, flow)
    flow.heap_at = -1
    if worker.world.connection_of:
        join(worker.world, flow)
    flow.next_active = host.active
    flow.previous_active = NO_FLOW
    if host.active:
        host.active.previous_active = flow
    else:
        arm_tick(node)
    host.active = flow
    flow.nic = host
    if seat:
        enter(node, flow, seat - 1)
    elif rare(node.port_count > 1):
        flow.nic = choose_nic(node, flow)
    if worker.world.nic_by_destination:
        flow.queue = flow.dst
    elif worker.world.nic_by_priority:
        flow.queue = host.nic_queues - 1 if worker.world.packets_differ else flow.priority
    elif own_queues(node):
        claim_queue(node, flow)
    if not seat:
        call_flow_hooks(node.ops.on_start, node, flow, NO_PACKET)
    if rare(flow.connection == OPEN_LOOP):
        flow.window = NEVER
        flow.pacing_gap = 0.0
    node.ops.reschedule.call(node, flow)


def limit(world, flow):
    """Note the rate and the window that were given to a flow, and whether it is open-loop."""
    flow.most = NEVER
    if not world.limited:
        return
    if world.rates[flow.number]:
        flow.rate_gap = 8e12 / world.rates[flow.number]
    if world.windows[flow.number]:
        flow.most = world.windows[flow.number]
    if world.limited == OPENED and world.unsent[flow.number]:
        flow.connection = OPEN_LOOP


def follow(node, start):
    """Let a message follow those of its connection; False: it has none, or is its first one."""
    world = node.worker.world
    place = world.connection_of[start.number]
    if not place or not world.messages or not connection_at(world, place - 1).slot:
        return False
    connection = connection_at(world, place - 1)
    flow = flow_at(node.worker, connection.slot - 1)
    if flow.resting:
        flow.resting = 0
        flow.progress_at = node.now
        if own_queues(node):
            claim_queue(node, flow)
    flow.size = post(world, connection, start.number, whole_packets(world, flow.size), start.size)
    node.ops.reschedule.call(node, flow)
    return True


def finish_messages(node, flow):
    """Finish the messages of a connection that are acknowledged in full; those that waited for them start."""
    worker = node.worker
    world = worker.world
    connection = connection_at(world, flow.connection - 1)
    if flow.acked >= flow.size and not flow.resting and connection.posted < connection.count:
        rest(node, flow)
    while flow.message < connection.first + connection.posted and message_at(world, flow.message).end <= flow.acked:
        number = message_at(world, flow.message).number
        flow.message += 1
        world.results.acked[number] = node.now
        worker.done += 1
        if world.child_offsets:
            release_children(node, number)


def rest(node, flow):
    """A connection has nothing left to send for now."""
    flow.resting = 1
    withdraw(node, flow)
    if own_queues(node):
        release_queue(flow.nic, flow)


def store_results(node, flow):
    results = node.worker.world.results
    if flow.connection != OPEN_LOOP:
        results.acked[flow.number] = node.now
    if flow.retransmitted:
        results.retransmitted[flow.number] = flow.retransmitted
    if flow.paused_ps:
        results.paused[flow.number] = flow.paused_ps


def finish_flow(node, flow):
    """Finish a flow whose bytes are all acknowledged, or sent if it is open-loop: store its results, call on_finish, free it."""
    worker = node.worker
    host = node.host
    withdraw(node, flow)
    number = flow.number
    if rare(flow.connection > 0):
        connection_at(worker.world, flow.connection - 1).slot = 0
        number = -1
    else:
        store_results(node, flow)
    if flow.connection >= OPEN_LOOP:
        call_flow_hooks(node.ops.on_finish, node, flow, NO_PACKET)
    if own_queues(node):
        release_queue(flow.nic, flow)
    if flow.previous_active:
        flow.previous_active.next_active = flow.next_active
    else:
        host.active = flow.next_active
    if flow.next_active:
        flow.next_active.previous_active = flow.previous_active
    flow.number = -1
    flow.next = worker.free_flow
    worker.free_flow = flow
    if number < 0:
        return
    worker.done += 1
    if worker.world.child_offsets:
        release_children(node, number)


def withdraw(node, flow):
    """Remove a flow from the list that it is in."""
    host = flow.nic
    if flow.state == PACED:
        remove_paced(node, flow)
        set_pace_timer(node)
    elif flow.state == PARKED:
        count_pause(node, flow)
        unlink_flow(parked_at(host, flow.queue), flow)
    elif flow.state == READY and host.by_rank:
        remove(ranked_of(host), keyed(flow))
        host.levels = 1 if host.ranked.size else 0
    elif flow.state == READY:
        ring = flow_ring_at(host, flow.priority)
        unlink_flow(ring, flow)
        if not ring.head:
            host.levels &= ~bit(flow.priority)
    flow.state = IDLE


def set_start_timer(node):
    """Schedule the next flow start: of this batch, or of a dependent flow whose parents are done."""
    host = node.host
    soonest = NEVER
    if host.next_start < host.last_start:
        soonest = start_at(node.worker.world, host.next_start).time
    if host.delayed:
        soonest = min(soonest, waiting_at(node.worker.world, host.delayed - 1).time)
    set_node_event(node, START, soonest)


def run_starts(node):
    world = node.worker.world
    host = node.host
    while host.next_start < host.last_start and start_at(world, host.next_start).time <= node.now:
        host.next_start += 1
        admit_flow(node, start_at(world, host.next_start - 1))
    if host.delayed:
        run_delayed(node)
    set_start_timer(node)


def run_delayed(node):
    """Start the dependent flows whose start time has come."""
    world = node.worker.world
    i = take_due(world, node.host, node.now)
    while i:
        start = waiting_at(world, i - 1)
        i = start.following
        admit_flow(node, start)


def release_children(node, number):
    """A flow was received in full by this host, or acknowledged in full to it: start those flows of this host that were waiting
    for it alone, each after its gap."""
    world = node.worker.world
    for k in range(world.child_offsets[number], world.child_offsets[number + 1]):
        i = world.children[k]
        if waiting_at(world, i).src != node.id:
            continue
        world.pending[i] -= 1
        if world.pending[i] == 0:
            start = waiting_at(world, i)
            start.time = max(start.time, node.now + world.gaps[i])
            if start.time <= node.now and start.src != start.dst:  # computations may release one another without end
                admit_flow(node, start)
            else:
                add_delayed(world, node.host, i + 1)
                set_start_timer(node)
