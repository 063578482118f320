"""Hosts as senders: NIC scheduling, packet generation, pacing, go-back-N retransmission."""

import cython

if not cython.compiled:
    from penstock_net.fabric.failure import fail
    from penstock_net.fabric.heap import add, remove
    from penstock_net.fabric.line import arm, disarm, kick, send, wait
    from penstock_net.fabric.pacing import add_paced, paced, remove_paced, set_pace_timer
    from penstock_net.fabric.queueing import alloc_packet, call_flow_hooks, free_packet, list_queue, set_node_event
    from penstock_net.fabric.reduction import next_chunk
    from penstock_net.fabric.retry import hold
    from penstock_net.fabric.state import (
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
        OPEN_LOOP,
        PARKED,
        QUEUED,
        READY,
        RETRANSMITTED,
        TICK,
        UNANSWERED,
        bit,
        first_flow,
        flow_at,
        flow_ring_at,
        keyed,
        lowest_bit,
        message_at,
        paced_of,
        parked_at,
        port_at,
        port_of,
        queue_at,
        ranked_of,
        rare,
        whole,
    )
    from penstock_net.fabric.switch import dequeue
    from penstock_net.sim.core.connections import end_with_message, goes_on
    from penstock_net.sim.core.lifetimes import arm_tick, awaits_answer, count_pause, count_timeout, finish_flow, finish_messages
    from penstock_net.sim.core.nics import kick_others, next_nic
    from penstock_net.sim.core.openloop import end_if_sent, launch, receive_unanswered

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


def make_ready(node, flow):
    """Append a flow to the round robin of its priority, or add it to the flows that send in the order of their rank."""
    nic = flow.nic
    flow.state = READY
    if rare(nic.by_rank):
        if nic.by_rank == QUEUED and flow.connection >= 0:  # not what switches reduce, which is never to be dropped
            queue_packets(node, flow)
            return
        flow.key = flow.rank
        add(node.worker.arena, ranked_of(nic), keyed(flow))
        nic.levels = 1
        return
    append_flow(flow_ring_at(nic, flow.priority), flow)
    nic.levels |= bit(flow.priority)


def queue_packets(node, flow):
    """Make all packets that a flow may send, and store them at its port: with the scheme's hooks for that, as at a switch."""
    while may_send(flow):
        seq = flow.sent
        if flow.resend:
            seq = resent_offset(node, flow)
            if seq < 0:
                break
        pkt = make_packet(node, flow, seq)
        pkt.in_port = 0
        pkt.time = node.now
        port = port_of(flow)
        armed = port.armed
        port.armed = 1  # all are stored before the first one is sent
        node.ops.store.call(node, port, pkt)
        port.armed = armed
        if not armed:
            port.free_at = max(port.free_at, node.now)
            arm(node, port)
        if rare(node.worker.world.in_turn):
            flow.nic = next_nic(node, flow)
    flow.state = IDLE


def take_ready(host):
    """Remove the next ready flow: the first of the highest priority, or the one with the smallest rank."""
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
    if flow.sent < flow.size and flow.sent - flow.acked < min(flow.window, flow.most):
        return True
    if flow.resend:
        return True
    return False


def reschedule_flow(node, flow):
    """Move a flow that is in no queue to the round robin, the pacer, or idle."""
    if not may_send(flow):
        flow.state = IDLE
        return
    if flow.state != READY:
        flow.next_send = max(flow.next_send, node.now)  # it is late by its window, or by a pause, and not by its NIC
    if flow.next_send <= max(node.now, port_of(flow).free_at):
        make_ready(node, flow)
    else:
        add_paced(node, flow)


def park(node, flow):
    """Set a flow aside until its paused NIC queue is resumed."""
    flow.state = PARKED
    flow.paused_since = node.now
    append_flow(parked_at(flow.nic, flow.queue), flow)


def wake_flows(node, port, queue):
    """A NIC queue was resumed: reschedule the flows parked there, and the frames queued in it."""
    if queue.length > 0:
        port.active += 1
        if not queue.listed:
            list_queue(port, queue, node.worker.world.quantum)
    ring = parked_at(port.nic, queue.index)
    while ring.head:
        flow = take_first(ring)
        count_pause(node, flow)
        if node.worker.world.packets_differ:
            flow.queue = port.nic.nic_queues - 1
        reschedule_flow(node, flow)
    kick(node, port)


def next_flow(node, port):
    """The next flow of this port in strict priority and round robin; NO_FLOW if none may send."""
    nic = port.nic
    while nic.levels:
        flow = take_ready(nic)
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
    """First byte of the packet that a scheme retransmits or, if it names none, of the next one; -1 if the flow may not send."""
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
    """Make a packet of up to one MTU from `seq` on; count retransmissions, call on_send, queue it if its priority is paused."""
    world = node.worker.world
    pkt = alloc_packet(node.worker)
    pkt.seq = seq
    pkt.payload = min(flow.size - seq, world.mtu)
    end = seq + pkt.payload
    pkt.flags = LAST if end == flow.size else 0
    if rare(flow.connection):
        if flow.connection < OPEN_LOOP:
            free_packet(node.worker, pkt)
            return next_chunk(node, flow, seq)
        if flow.connection == OPEN_LOOP:
            launch(node, flow, pkt)
        else:
            end = end_with_message(world, flow, pkt)
    pkt.size = pkt.payload + world.header
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
    if flow.sent == flow.acked:
        flow.progress_at = node.now
    flow.sent = max(flow.sent, end)
    if end > flow.high:
        flow.high = end
    else:
        pkt.flags |= RETRANSMITTED
        flow.retransmitted += pkt.payload
        if rare(flow.connection):
            world.results.retransmitted[message_at(world, flow.sending).number] += pkt.payload
    call_flow_hooks(node.ops.on_send, node, flow, pkt)
    if pkt.priority < 0 or pkt.priority >= world.levels:
        fail(node, NO_SUCH_QUEUE, pkt.priority)
        pkt.priority = 0
    if rare(world.packets_differ):
        node.ops.keep.call(node, port_of(flow), pkt)
    return pkt


def may_acknowledge(port):
    """Whether the first packet of the control lane may be sent; ACKs with the priority of data are paused as data is."""
    if not port.control_head:
        return False
    if port.paused and port.control_head.lane == DATA_LANE:
        return False
    return True


def may_transmit_host(node, port):
    """Whether a host has an ACK or a ready flow that may be sent."""
    if may_acknowledge(port):
        return True
    if port.nic.levels and not port.paused:
        return True
    return False


def transmit_host(node, port):
    """A host's link is free: send an ACK, else a packet of the next flow."""
    if port.down or port.retrying:
        hold(node, port)
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
    due = flow.next_send
    flow.last_send = node.now
    flow.last_size = pkt.size
    flow.next_send = node.now
    gap = max(max(flow.pacing_gap, flow.fc_gap), flow.rate_gap)
    if gap > port.ps_per_byte:
        flow.last_send = max(due, node.now - whole(node.worker.world.pacing_debt * port.ps_per_byte))
        flow.next_send = flow.last_send + whole(pkt.size * gap)
        if rare(node.worker.world.grain):
            flow.next_send = flow.last_send + paced(node, pkt.size * gap)
    if rare(flow.state == PARKED):
        end_if_sent(node, flow)
        return
    send(node, port, pkt)
    if rare(node.worker.world.served_apart):
        go_on(node, flow)
        return
    reschedule_flow(node, flow)


def go_on(node, flow):
    """After a packet: where packets take turns of the ports the next one leaves by the next port, and what was never to be
    answered may have ended."""
    if end_if_sent(node, flow):
        return
    turns = node.worker.world.in_turn
    if turns and flow.connection >= OPEN_LOOP:  # not what switches reduce: its tree begins at one port
        flow.nic = next_nic(node, flow)
    reschedule_flow(node, flow)
    if turns and flow.nic.levels:
        kick(node, port_of(flow))


def run_pacer(node):
    """Flows whose next packet is due join the round robin."""
    heap = paced_of(node.host)
    while heap.size and first_flow(heap).next_send <= node.now:
        flow = first_flow(heap)
        remove_paced(node, flow)
        make_ready(node, flow)
    set_pace_timer(node)
    kick(node, port_at(node, 0))
    if rare(node.port_count > 1):
        kick_others(node)


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
    """Let a flow send after a scheme has opened its window, or asked for retransmissions, outside on_ack."""
    if flow.state == IDLE:
        reschedule_flow(node, flow)
    if flow.nic.levels:
        kick(node, port_of(flow))


def receive_apart(node, pkt):
    """Data that no receiver answers has arrived: of an open-loop flow, or sent back."""
    if pkt.flags & UNANSWERED:
        receive_unanswered(node, pkt)
    else:
        receive_returned(node, pkt)


def receive_returned(node, pkt):
    """Process a packet that a switch has returned: call on_return."""
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
    nic = flow.nic
    call_flow_hooks(node.ops.on_ack, node, flow, pkt)
    if flow.window != window or flow.pacing_gap != gap:
        worker.reactions += 1
    free_packet(worker, pkt)
    if rare(flow.connection):
        finish_messages(node, flow)
        if flow.acked >= flow.size and not goes_on(worker.world, flow):
            finish_flow(node, flow)
        elif flow.state == IDLE:
            reschedule_flow(node, flow)
    elif flow.acked >= flow.size:
        finish_flow(node, flow)
    elif flow.state == IDLE:
        reschedule_flow(node, flow)
    if nic.levels:
        kick(node, nic.port)


def run_tick(node):
    """Retransmission timeouts: a flow with unacknowledged data and no progress for one RTO goes back; the RTO backs off by 2.

    A scheme with on_timeout is told of flows that wait for permission to send, too; those with on_expiry are told first.
    """
    hook = node.ops.on_timeout
    flow = node.host.active
    while flow:
        following = flow.next_active
        waits = (flow.rto if flow.rto else node.worker.world.rto) << flow.backoff
        if awaits_answer(node, flow) and node.now - flow.progress_at >= waits:
            count_timeout(node, flow)
            flow.progress_at = node.now
            flow.backoff = min(flow.backoff + 1, 6)
            told = node.ops.on_expiry
            while told:
                told.call(told.me, node, flow)
                told = told.next
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
    if rare(node.port_count > 1):
        kick_others(node)
