"""Output-queued switch: routing, admission to the shared buffer, virtual output queues, egress queues, transmission."""

import cython

if not cython.compiled:
    from penstock_net.fabric.failure import fail
    from penstock_net.fabric.line import arm, disarm, has_queue, kick, send, wait
    from penstock_net.fabric.losses import drop
    from penstock_net.fabric.queueing import (
        call_packet_hooks,
        list_queue,
        next_queue,
        pop,
        push,
        push_control,
        set_event,
        unlist_first,
    )
    from penstock_net.fabric.ranking import is_ranked, lead, rank_tail, withdraw
    from penstock_net.fabric.retry import hold
    from penstock_net.fabric.routing import tabulated_group
    from penstock_net.fabric.sampling import trace
    from penstock_net.fabric.state import (
        ACK,
        ADMITTED,
        CONTROL_LANE,
        CONTROL_SIZE,
        DATA,
        DROP_ADMISSION,
        DROP_BUFFER,
        DROP_HEADROOM,
        DROP_NO_ROUTE,
        EVENT_DEQUEUE,
        EVENT_ENQUEUE,
        EVENT_HOLD,
        LISTED,
        NEVER,
        NO_HEADROOM,
        NO_PACKET,
        NO_QUEUE,
        NO_SUCH_BACKLOG,
        NO_SUCH_PACKET,
        NO_SUCH_PATH,
        NO_SUCH_PORT,
        NO_SUCH_VOQ,
        RETURN,
        RETURNED,
        TRIM,
        TRIMMED,
        pick,
        port_at,
        prefetch,
        queue_at,
        rank_of,
        rare,
        swap_packets,
        voq_at,
        within,
    )


def chosen(node, slot, pkt, count):
    """Which of `count` next hops a packet takes that arrived on port `slot`."""
    choose = node.ops.choose_path
    if not choose:
        return pick(pkt.hash, node.hash_seed, count)
    index = choose.call(choose.me, node, port_at(node, slot), pkt)
    if index < 0 or index >= count:
        fail(node, NO_SUCH_PATH, index)
        return 0
    return index


def receive(node, slot, pkt):
    """Forward a packet that arrived on port `slot`, by ECMP on the flow's hash unless a scheme chooses the path.

    The first lines are group_towards(), inlined; exactly one port leads to each host below the switch.
    """
    below = pkt.dst - node.below
    if within(below, node.span):
        enqueue(node, port_at(node, below * node.share >> 32), pkt)
        return
    group = node.beyond
    if rare(group < 0):
        choose_port = node.ops.choose_port
        if choose_port:
            index = choose_port.call(choose_port.me, node, port_at(node, slot), pkt)
            if index >= 0:
                if rare(index >= node.port_count):
                    fail(node, NO_SUCH_PORT, index)
                    index = 0
                enqueue(node, port_at(node, index), pkt)
                return
        group = tabulated_group(node, pkt.dst)
        if group < 0:
            drop(node, port_at(node, slot), pkt, DROP_NO_ROUTE)
            return
    hops = node.next_hops
    count = hops[group]
    if count > 1:
        group += chosen(node, slot, pkt, count)
    enqueue(node, port_at(node, hops[group + 1]), pkt)


def enqueue(node, port, pkt):
    """Store a packet for a port: control lane, egress queue, or a virtual output queue if a scheme says so."""
    if pkt.lane == CONTROL_LANE:
        push_control(port, pkt)
        kick(node, port)
        return
    if not admitted(node, port, pkt):
        return
    port.bytes += pkt.size
    if port.bytes > port.max_bytes:
        port.max_bytes = port.bytes
    node.buffer_used += pkt.size
    if node.buffer_used > node.buffer_max:
        node.buffer_max = node.buffer_used
    choose = node.ops.choose_voq
    if choose:
        pkt.held = 0
        index = choose.call(choose.me, node, port, pkt)
        if index >= 0:
            enqueue_voq(node, port, pkt, index)
            return
    enqueue_egress(node, port, pkt)


def admitted(node, port, pkt):
    """Whether the shared buffer and every scheme accept the packet, perhaps trimmed; if not, it was dropped or sent back."""
    if node.buffer_used + pkt.size > node.buffer_size:
        drop(node, port, pkt, DROP_BUFFER)
        return False
    hook = node.ops.admit
    while hook:
        answer = hook.call(hook.me, node, port, pkt)
        if rare(answer != ADMITTED):
            return refused(node, port, pkt, answer)
        hook = hook.next
    return True


def refused(node, port, pkt, answer):
    """Trim, return or drop a packet that a scheme has not admitted; returns whether it is stored (trimmed)."""
    if answer == TRIM and pkt.kind <= ACK:
        port.trims += 1
        port.trimmed_bytes += pkt.size - CONTROL_SIZE
        pkt.size = CONTROL_SIZE
        pkt.priority = 0
        pkt.flags |= TRIMMED
        return True
    if answer == RETURN and pkt.kind == DATA and not pkt.flags & RETURNED:
        port.returns += 1
        port.trimmed_bytes += pkt.size - CONTROL_SIZE
        pkt.size = CONTROL_SIZE
        source = pkt.src
        pkt.src = pkt.dst
        pkt.dst = source
        pkt.priority = 0
        pkt.flags |= RETURNED
        receive(node, pkt.in_port, pkt)
        return False
    drop(node, port, pkt, DROP_HEADROOM if answer == NO_HEADROOM else DROP_ADMISSION)
    return False


def exchange_with_tail(node, port, queue, pkt):
    """Swap the arriving packet with the last one of a queue, which is then admitted or not instead."""
    tail = queue.tail
    if queue.length == 0 or tail.kind > ACK:
        return
    change = pkt.size - tail.size
    queue.bytes += change
    port.bytes += change
    node.buffer_used += change
    ranked = is_ranked(node, port, queue, tail)
    if ranked:
        withdraw(node, tail)
    swap_packets(tail, pkt, node.worker.packet_size)
    if ranked:
        rank_tail(node, port, queue, tail)


def unlink(node, port, queue, pkt):
    """Take a packet out of its queue, at whatever position; False, and the run fails, if it is not there."""
    before = NO_PACKET
    ranked = is_ranked(node, port, queue, pkt)
    if ranked:
        before = rank_of(node, pkt).before
    if not before or before.next != pkt:
        before = NO_PACKET
        current = queue.head
        while current and current != pkt:
            before = current
            current = current.next
        if not current:
            fail(node, NO_SUCH_PACKET, pkt.number)
            return False
    if before:
        before.next = pkt.next
    else:
        queue.head = pkt.next
    if queue.tail == pkt:
        queue.tail = before
    elif ranked:
        rank_of(node, pkt.next).before = before
    return True


def move_to_head(node, port, queue, pkt):
    """Move a packet to the head of its queue, so that it is sent next."""
    if pkt == queue.head or not unlink(node, port, queue, pkt):
        return
    if is_ranked(node, port, queue, pkt):
        lead(node, pkt, queue.head)
    pkt.next = queue.head
    queue.head = pkt


def drop_queued(node, port, queue, pkt):
    """Drop a packet of this queue, at whatever position."""
    if not unlink(node, port, queue, pkt):
        return
    if is_ranked(node, port, queue, pkt):
        withdraw(node, pkt)
    queue.length -= 1
    queue.bytes -= pkt.size
    port.bytes -= pkt.size
    node.buffer_used -= pkt.size
    if queue.length == 0 and not queue.paused:
        port.active -= 1
    drop(node, port, pkt, DROP_ADMISSION)


def discard(node, port, queue):
    """Drop all packets of a queue.  Their on_dequeue hooks are called before, as if they were sent."""
    armed = port.armed
    port.armed = 1  # as in transmit
    while queue.length > 0:
        pkt = pop(queue)
        port.bytes -= pkt.size
        node.buffer_used -= pkt.size
        if queue.length == 0 and not queue.paused:
            port.active -= 1
        call_packet_hooks(node.ops.on_dequeue, node, port, queue, pkt)
        drop(node, port, pkt, DROP_ADMISSION)
    port.armed = armed
    if may_transmit(port):
        kick(node, port)


def has_voq(node, index):
    """Whether a switch has a virtual output queue of this index; if not, the run fails."""
    if 0 <= index < node.voq_count:
        return True
    fail(node, NO_SUCH_VOQ, index)
    return False


def enqueue_voq(node, port, pkt, index):
    """Store a packet in a virtual output queue until release()."""
    if not has_voq(node, index):
        enqueue_egress(node, port, pkt)
        return
    voq = voq_at(node, index)
    if voq.length == 0:
        voq.index = index
        node.voqs_used += 1
        node.voqs_max = max(node.voqs_max, node.voqs_used)
    pkt.held = 1
    pkt.out_port = port.slot
    port.held += pkt.size
    push(voq, pkt)
    if node.worker.world.trace:
        trace(node, port, voq, pkt, EVENT_HOLD)


def release(node, index):
    """Move the first packet of a virtual output queue to its egress queue; nothing if it is empty."""
    if not has_voq(node, index):
        return
    voq = voq_at(node, index)
    if voq.length == 0:
        return
    pkt = pop(voq)
    if voq.length == 0:
        node.voqs_used -= 1
    port = port_at(node, pkt.out_port)
    port.held -= pkt.size
    enqueue_egress(node, port, pkt)


def requeue(node, index, other):
    """Move the first packet of a virtual output queue to the end of another one; nothing if it is empty."""
    if not has_voq(node, index) or not has_voq(node, other):
        return
    if voq_at(node, index).length == 0:
        return
    pkt = pop(voq_at(node, index))
    if voq_at(node, index).length == 0:
        node.voqs_used -= 1
    port = port_at(node, pkt.out_port)
    port.held -= pkt.size
    enqueue_voq(node, port, pkt, other)


def enqueue_egress(node, port, pkt):
    """Store a packet in an egress queue.  During its hooks pkt.queue is still the queue it had upstream."""
    ops = node.ops
    index = pkt.priority
    if ops.choose_queue:
        index = ops.choose_queue.call(ops.choose_queue.me, node, port, pkt)
        if not has_queue(node, port, index):
            index = 0
    queue = queue_at(port, index)
    if queue.length == 0:
        queue.index = index
        queue.level = pkt.priority
        if not queue.paused:
            port.active += 1
    push(queue, pkt)
    if not queue.listed and not queue.paused:
        list_queue(port, queue, node.worker.world.quantum)
    call_packet_hooks(ops.on_enqueue, node, port, queue, pkt)
    if node.worker.world.trace:
        trace(node, port, queue, pkt, EVENT_ENQUEUE)
    pkt.queue = index
    kick(node, port)


def dequeue(node, port):
    """Take the next data packet from its queue, call its hooks and return it; NO_PACKET if no queue may send."""
    queue = next_queue(port, node.worker.world.quantum)
    if rare(not queue):
        queue = scheduled_queue(node, port)
        if not queue:
            return NO_PACKET
    pkt = pop(queue)
    prefetch(queue.head)
    port.bytes -= pkt.size
    node.buffer_used -= pkt.size
    if queue.length == 0:
        port.active -= 1
        if queue.listed == LISTED:
            unlist_first(port, queue.level)
    call_packet_hooks(node.ops.on_dequeue, node, port, queue, pkt)
    if node.worker.world.trace:
        trace(node, port, queue, pkt, EVENT_DEQUEUE)
    if port.queueing_delay and pkt.kind == DATA:
        count_queueing_delay(node, port, pkt)
    return pkt


def scheduled_queue(node, port):
    """The queue that the scheme's scheduler chooses; NO_QUEUE if there is no scheduler, or if it sends nothing now."""
    serve = node.ops.next_queue
    if not serve:
        return NO_QUEUE
    if port.wake_at:
        port.wake_at = 0
        set_event(node, node.port_count + port.slot, NEVER)
    if not port.active:
        return NO_QUEUE
    index = serve.call(serve.me, node, port)
    if index < 0 or not has_queue(node, port, index):
        return NO_QUEUE
    queue = queue_at(port, index)
    if queue.length == 0 or queue.paused:
        fail(node, NO_SUCH_BACKLOG, index)
        return NO_QUEUE
    return queue


def count_queueing_delay(node, port, pkt):
    """Queueing delay by class of flow: from the packet's arrival, pkt.time, to the start of its transmission."""
    i = 2 * node.worker.world.classes[pkt.number]
    port.queueing_delay[i] += 1
    port.queueing_delay[i + 1] += node.now - pkt.time


def may_transmit(port):
    """Whether a port has a control frame, or data that is not paused."""
    if port.control_head:
        return True
    if port.active and not port.paused:
        return True
    return False


def transmit(node, port):
    """A port's line is free: send from the control lane, else the next data packet."""
    if port.down or port.retrying:
        hold(node, port)
        return
    armed = port.armed
    port.armed = 1  # so that what a hook enqueues here does not start another transmission
    if port.control_head:
        pkt = port.control_head
        port.control_head = pkt.next
        send(node, port, pkt)
    elif not port.paused:
        pkt = dequeue(node, port)
        if pkt:
            send(node, port, pkt)
        elif node.ops.next_queue:
            wait(node, port)
            return
    if may_transmit(port):
        arm(node, port)
    else:
        port.armed = armed
        disarm(node, port)


def wake(node, port, queue):
    """Put a resumed queue into the round robin if it is backlogged."""
    if queue.length > 0:
        port.active += 1
        if not queue.listed:
            list_queue(port, queue, node.worker.world.quantum)
        kick(node, port)
