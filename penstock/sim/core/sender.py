"""Hosts as senders: flow arrivals, NIC scheduling, packet generation, pacing, go-back-N retransmission."""

import cython

if not cython.compiled:
    from penstock.fabric.failure import fail
    from penstock.fabric.heap import add, remove
    from penstock.fabric.line import arm, disarm, kick, send, wait
    from penstock.fabric.pacing import add_paced, remove_paced, set_pace_timer
    from penstock.fabric.queueing import alloc_packet, call_flow_hooks, draw, free_packet, list_queue, set_node_event
    from penstock.fabric.state import (
        COMPLETE,
        DATA,
        DATA_LANE,
        IDLE,
        LAST,
        NACK,
        NEVER,
        NO_FLOW,
        NO_PACKET,
        NO_SUCH_PACKET,
        NO_SUCH_QUEUE,
        PACED,
        PARKED,
        RANDOM_QUEUE,
        READY,
        RETRANSMITTED,
        START,
        TICK,
        TOO_MANY_FLOWS,
        bit,
        clear,
        first_flow,
        flow_at,
        flow_ring_at,
        hash31,
        keyed,
        lowest_bit,
        paced_of,
        parked_at,
        port_at,
        queue_at,
        ranked_of,
        rare,
        start_at,
        waiting_at,
        whole,
    )
    from penstock.fabric.switch import dequeue

# ---- The NIC: ready flows in round robin, one ring per priority ----


def append_flow(ring, flow):
    flow.next = NO_FLOW
    if ring.head:
        ring.tail.next = flow
    else:
        ring.head = flow
    ring.tail = flow


def take_first(ring):
    flow = ring.head
    ring.head = flow.next
    return flow


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


def make_ready(node, flow):
    """Append a flow to the round robin of its priority, or add it to the flows that send in the order of their rank."""
    host = node.host
    flow.state = READY
    if rare(host.by_rank):
        flow.key = flow.rank
        add(node.worker.arena, ranked_of(host), keyed(flow))
        host.levels = 1
        return
    append_flow(flow_ring_at(host, flow.priority), flow)
    host.levels |= bit(flow.priority)


def take_ready(node):
    """Remove the next ready flow: the first of the highest priority, or the one with the smallest rank."""
    host = node.host
    if rare(host.by_rank):
        heap = ranked_of(host)
        flow = first_flow(heap)
        remove(heap, keyed(flow))
        if heap.size == 0:
            host.levels = 0
        return flow
    level = lowest_bit(host.levels)
    ring = flow_ring_at(host, level)
    flow = take_first(ring)
    if not ring.head:
        host.levels &= ~bit(level)
    return flow


def may_send(flow):
    """Whether a flow has data left and its window is open, or packets to send again."""
    if flow.sent < flow.size and flow.sent - flow.acked < flow.window:
        return True
    if flow.resend:
        return True
    return False


def reschedule_flow(node, flow):
    """Move a flow that is in no queue to the round robin, the pacer, or idle."""
    if not may_send(flow):
        flow.state = IDLE
        return
    port = port_at(node, 0)
    if flow.next_send <= max(node.now, port.free_at):
        make_ready(node, flow)
    else:
        add_paced(node, flow)


def park(node, flow):
    """Its NIC queue is paused: keep the flow aside until the resume."""
    flow.state = PARKED
    flow.paused_since = node.now
    append_flow(parked_at(node.host, flow.queue), flow)


def wake_flows(node, port, queue):
    """A NIC queue was resumed: reschedule the flows parked there, and the frames queued in it."""
    if queue.length > 0:
        port.active += 1
        if not queue.listed:
            list_queue(port, queue, node.worker.world.quantum)
    ring = parked_at(node.host, queue.index)
    while ring.head:
        flow = take_first(ring)
        flow.paused_ps += node.now - flow.paused_since
        if node.worker.world.packets_differ:
            flow.queue = node.host.nic_queues - 1
        reschedule_flow(node, flow)
    kick(node, port)


def next_flow(node, port):
    """The next flow in strict priority and round robin; NO_FLOW if none may send."""
    host = node.host
    while host.levels:
        flow = take_ready(node)
        if queue_at(port, flow.queue).paused:
            park(node, flow)
        elif not may_send(flow):
            flow.state = IDLE
        elif flow.next_send > node.now:  # its pace has changed since it became ready
            add_paced(node, flow)
        else:
            return flow
    return NO_FLOW


def resent_offset(node, flow):
    """Where the packet begins that a scheme sends again, or, if it names none, the next one; -1: the flow may not send."""
    flow.resend -= 1
    hook = node.ops.choose_packet
    seq = hook.call(hook.me, node, flow)
    if seq >= flow.sent:
        fail(node, NO_SUCH_PACKET, seq)
    elif seq >= 0:
        return seq
    flow.resend = 0
    return flow.sent if may_send(flow) else -1


def make_packet(node, flow, seq):
    """The flow's packet from `seq` on, of up to one MTU; counts retransmissions, calls on_send, and keeps it if it is paused."""
    world = node.worker.world
    pkt = alloc_packet(node.worker)
    payload = min(flow.size - seq, world.mtu)
    end = seq + payload
    pkt.payload = payload
    pkt.size = payload + world.header
    pkt.seq = seq
    pkt.number = flow.number
    pkt.slot = flow.slot
    pkt.hash = flow.hash
    pkt.src = flow.src
    pkt.dst = flow.dst
    pkt.kind = DATA
    pkt.lane = DATA_LANE
    pkt.ecn = 0
    pkt.priority = flow.priority
    pkt.queue = flow.queue
    pkt.flags = 0
    if flow.sent == flow.acked:
        flow.progress_at = node.now
    flow.sent = max(flow.sent, end)
    if end == flow.size:
        pkt.flags = LAST
    if end > flow.high:
        flow.high = end
    else:
        pkt.flags |= RETRANSMITTED
        flow.retransmitted += payload
    call_flow_hooks(node.ops.on_send, node, flow, pkt)
    if pkt.priority < 0 or pkt.priority >= world.levels:
        fail(node, NO_SUCH_QUEUE, pkt.priority)
        pkt.priority = 0
    if rare(world.packets_differ):
        node.ops.keep.call(node, port_at(node, 0), pkt)
    return pkt


def may_acknowledge(port):
    """Whether the first packet of the control lane may be sent; an ACK of the data lane's priority is paused with the data."""
    if not port.control_head:
        return False
    if port.paused and port.control_head.lane == DATA_LANE:
        return False
    return True


def may_transmit_host(node, port):
    """Whether a host has an ACK or a ready flow that may be sent."""
    if may_acknowledge(port):
        return True
    if node.host.levels and not port.paused:
        return True
    return False


def transmit_host(node, port):
    """A host's link is free: send an ACK, else a packet of the next flow."""
    if port.down:
        disarm(node, port)
        return
    if may_acknowledge(port):
        pkt = port.control_head
        port.control_head = pkt.next
        send(node, port, pkt)
    elif not port.paused:
        pkt = NO_PACKET
        if rare(port.active):
            pkt = dequeue(node, port)
        if pkt:
            send(node, port, pkt)
        else:
            flow = next_flow(node, port)
            if flow:
                serve(node, port, flow)
    if may_transmit_host(node, port) or (port.active and not port.paused and port.free_at > node.now):
        arm(node, port)
    elif node.ops.next_queue:
        wait(node, port)
    else:
        disarm(node, port)


def serve(node, port, flow):
    """Send one packet of a flow and schedule its next one by the larger of its two gaps."""
    seq = flow.sent
    if rare(flow.resend):
        seq = resent_offset(node, flow)
        if seq < 0:
            flow.state = IDLE
            port.free_at = max(port.free_at, node.now)
            return
    pkt = make_packet(node, flow, seq)
    flow.last_send = node.now
    flow.last_size = pkt.size
    flow.next_send = node.now
    gap = max(flow.pacing_gap, flow.fc_gap)
    if gap > port.ps_per_byte:
        flow.next_send = node.now + whole(pkt.size * gap)
    if rare(flow.state == PARKED):
        return
    send(node, port, pkt)
    reschedule_flow(node, flow)


def run_pacer(node):
    """Flows whose next packet is due join the round robin."""
    heap = paced_of(node.host)
    while heap.size and first_flow(heap).next_send <= node.now:
        flow = first_flow(heap)
        remove_paced(node, flow)
        make_ready(node, flow)
    set_pace_timer(node)
    kick(node, port_at(node, 0))


# ---- Starting and finishing flows ----


def claim_queue(node, flow):
    """Assign a NIC queue to a new flow: the one unused for longest, or a random one if all are in use."""
    host = node.host
    if host.free_queues:
        flow.queue = host.free_queue[host.free_head]
        host.free_head = (host.free_head + 1) % host.nic_queues
        host.free_queues -= 1
    else:
        flow.queue = draw(node, RANDOM_QUEUE) % host.nic_queues
    host.queue_flows[flow.queue] += 1


def release_queue(host, flow):
    """A flow leaves its NIC queue, which becomes unused with its last flow."""
    host.queue_flows[flow.queue] -= 1
    if host.queue_flows[flow.queue] == 0:
        host.free_queue[(host.free_head + host.free_queues) % host.nic_queues] = flow.queue
        host.free_queues += 1


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
    flow.heap_at = -1
    flow.next_active = host.active
    flow.previous_active = NO_FLOW
    if host.active:
        host.active.previous_active = flow
    else:
        arm_tick(node)
    host.active = flow
    if worker.world.nic_by_destination:
        flow.queue = flow.dst
    elif worker.world.nic_by_priority:
        flow.queue = host.nic_queues - 1 if worker.world.packets_differ else flow.priority
    elif host.nic_queues > 1:
        claim_queue(node, flow)
    call_flow_hooks(node.ops.on_start, node, flow, NO_PACKET)
    reschedule_flow(node, flow)
    kick(node, port_at(node, 0))


def finish_flow(node, flow):
    """Finish a flow whose bytes are all acknowledged: store its results, call on_finish and free it."""
    worker = node.worker
    host = node.host
    withdraw(node, flow)
    worker.world.results.acked[flow.number] = node.now
    if flow.retransmitted:
        worker.world.results.retransmitted[flow.number] = flow.retransmitted
    if flow.paused_ps:
        worker.world.results.paused[flow.number] = flow.paused_ps
    call_flow_hooks(node.ops.on_finish, node, flow, NO_PACKET)
    if host.nic_queues > 1 and not worker.world.nic_by_destination and not worker.world.nic_by_priority:
        release_queue(host, flow)
    if flow.previous_active:
        flow.previous_active.next_active = flow.next_active
    else:
        host.active = flow.next_active
    if flow.next_active:
        flow.next_active.previous_active = flow.previous_active
    number = flow.number
    flow.number = -1
    flow.next = worker.free_flow
    worker.free_flow = flow
    worker.done += 1
    if worker.world.child_offsets:
        release_children(node, number)


def withdraw(node, flow):
    """Remove a flow from the list that it is in."""
    host = node.host
    if flow.state == PACED:
        remove_paced(node, flow)
        set_pace_timer(node)
    elif flow.state == PARKED:
        flow.paused_ps += node.now - flow.paused_since
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
        soonest = min(soonest, host.delayed_until)
    set_node_event(node, START, soonest)


def run_starts(node):
    world = node.worker.world
    host = node.host
    while host.next_start < host.last_start and start_at(world, host.next_start).time <= node.now:
        host.next_start += 1
        admit_flow(node, start_at(world, host.next_start - 1))
    if host.delayed and host.delayed_until <= node.now:
        run_delayed(node)
    set_start_timer(node)


def run_delayed(node):
    """Start the dependent flows whose start time has come; keep the others listed."""
    world = node.worker.world
    host = node.host
    i = host.delayed
    host.delayed = 0
    host.delayed_until = NEVER
    while i:
        start = waiting_at(world, i - 1)
        following = start.following
        if start.time <= node.now:
            admit_flow(node, start)
        else:
            delay_start(host, i - 1, start)
        i = following


def delay_start(host, i, start):
    start.following = host.delayed
    if not host.delayed:
        host.delayed_until = start.time
    host.delayed = i + 1
    host.delayed_until = min(host.delayed_until, start.time)


def release_children(node, number):
    """A flow was received in full by this host, or acknowledged in full to it: start the flows of this host whose last parent
    it was, each after its gap."""
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
                delay_start(node.host, i, start)
                set_start_timer(node)


# ---- The sender: acknowledgements and timeouts ----


def go_back(node, flow, seq):
    """Go-back-N: retransmit from `seq` on."""
    if seq < flow.acked:
        flow.acked = seq
    if seq < flow.sent:
        flow.sent = seq
        if flow.state == IDLE:
            reschedule_flow(node, flow)


def reschedule(node, flow):
    """A scheme has opened the window of a flow, or asked for packets to be sent again, outside on_ack."""
    if flow.state == IDLE:
        reschedule_flow(node, flow)
    if node.host.levels:
        kick(node, port_at(node, 0))


def receive_returned(node, pkt):
    """A packet that a switch has sent back."""
    worker = node.worker
    flow = flow_at(worker, pkt.slot)
    if flow.number == pkt.number:
        call_flow_hooks(node.ops.on_return, node, flow, pkt)
        reschedule(node, flow)
    free_packet(worker, pkt)


def receive_ack(node, pkt):
    """Process an ACK: advance or go back, call on_ack, finish or reschedule the flow."""
    worker = node.worker
    flow = flow_at(worker, pkt.slot)
    if flow.number != pkt.number:
        free_packet(worker, pkt)
        return
    if pkt.flags & COMPLETE:
        pkt.seq = flow.size
    if pkt.seq > flow.acked:
        flow.acked = pkt.seq
        flow.sent = max(flow.sent, flow.acked)
        flow.progress_at = node.now
        flow.backoff = 0
    if pkt.flags & NACK:
        go_back(node, flow, pkt.seq)
    window = flow.window
    gap = flow.pacing_gap
    call_flow_hooks(node.ops.on_ack, node, flow, pkt)
    if flow.window != window or flow.pacing_gap != gap:
        worker.reactions += 1
    free_packet(worker, pkt)
    if flow.acked >= flow.size:
        finish_flow(node, flow)
    elif flow.state == IDLE:
        reschedule_flow(node, flow)
    if node.host.levels:
        kick(node, port_at(node, 0))


def arm_tick(node):
    """Schedule the next check for timeouts, at a multiple of a quarter of the RTO."""
    period = node.worker.world.rto // 4
    set_node_event(node, TICK, (node.now // period + 1) * period)


def run_tick(node):
    """Retransmission timeouts: a flow with unacknowledged data and no progress for one RTO goes back; the RTO backs off by 2.

    A scheme with on_timeout is told of flows that wait for permission to send, too.
    """
    hook = node.ops.on_timeout
    flow = node.host.active
    while flow:
        following = flow.next_active
        waits = (flow.rto if flow.rto else node.worker.world.rto) << flow.backoff
        if (hook or flow.sent > flow.acked) and node.now - flow.progress_at >= waits:
            flow.progress_at = node.now
            flow.backoff = min(flow.backoff + 1, 6)
            if hook:
                hook.call(hook.me, node, flow)
            else:
                go_back(node, flow, flow.acked)
        flow = following
    if node.host.active:
        arm_tick(node)
    else:
        set_node_event(node, TICK, NEVER)
    if node.host.levels:
        kick(node, port_at(node, 0))
