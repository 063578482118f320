"""Output-queued switch: route, admit, enqueue, transmit; the control lane; pausing and resuming."""

import cython

if not cython.compiled:
    from penstock.fabric.queueing import (
        give_frame,
        give_packet,
        list_queue,
        next_queue,
        pop,
        push,
        push_control,
        set_event,
        set_node_event,
        take_frame,
        unlist_first,
    )
    from penstock.fabric.state import (
        ACK,
        ADDRESSED,
        CONTROL_LANE,
        CONTROL_SIZE,
        DATA,
        DROP_ADMISSION,
        DROP_BUFFER,
        DROP_NO_ROUTE,
        FLOW_BINS,
        KEY_BITS,
        NEVER,
        NO_PACKET,
        NO_QUEUE,
        NO_SUCH_PATH,
        NO_SUCH_PORT,
        NO_SUCH_QUEUE,
        NO_SUCH_VOQ,
        PAUSE,
        RESUME,
        SAMPLE,
        TIMER,
        bit,
        hash31,
        new_flow_row,
        new_pause_row,
        new_port_row,
        new_queue_row,
        new_switch_row,
        new_trace_row,
        outbox_at,
        pick,
        port_at,
        queue_at,
        voq_at,
    )


def arm(node, port):
    """Wake the port when its line is free."""
    leaf = node.port_count + port.slot
    port.armed = 1
    set_event(node, leaf, port.free_at << KEY_BITS | leaf)


def disarm(node, port):
    if port.armed:
        port.armed = 0
        set_event(node, node.port_count + port.slot, NEVER)


def send(node, port, pkt):
    """Put a packet on the line: into the outbox that the peer reads in the next window."""
    worker = node.worker
    port.free_at = node.now + pkt.size * port.ps_per_byte
    port.tx_bytes += pkt.size
    port.tx_packets += 1
    if pkt.kind == ACK:
        port.ack_bytes += pkt.size
    pkt.time = port.free_at + port.delay
    pkt.next = NO_PACKET
    outbox = outbox_at(worker, worker.parity, node.first_port + port.slot)
    if outbox.head:
        outbox.tail.next = pkt
    else:
        outbox.head = pkt
        word = port.peer_node * worker.world.mail_words + (port.peer_slot >> 6)
        worker.mail[worker.parity][word] |= bit(port.peer_slot & 63)
        worker.sent = 1
    outbox.tail = pkt


def drop(node, port, pkt, reason):
    """Count and free a packet that goes no further; `port` is where it would have been sent or came in."""
    port.drops[reason] += 1
    port.dropped_bytes += pkt.size
    if node.worker.world.trace:
        trace(node, port, NO_QUEUE, pkt, 2)
    if pkt.kind > ACK:
        give_frame(node.worker, pkt)
    else:
        give_packet(node.worker, pkt)


def trace(node, port, queue, pkt, event):
    """One row of the packet trace: event 0 enqueue, 1 dequeue, 2 drop, 3 control frame received, 4 hold."""
    row = new_trace_row(node.worker)
    row.time = node.now
    row.node = node.id
    row.event = event
    row.port = port.slot
    row.in_port = pkt.in_port
    row.number = pkt.number
    row.seq = pkt.seq
    row.size = pkt.size
    row.kind = pkt.kind
    row.ecn = pkt.ecn
    row.flags = pkt.flags
    row.upstream_q = pkt.queue
    row.port_bytes = port.bytes
    row.queue = -1
    if queue:
        row.queue = queue.index
        row.queue_bytes = queue.bytes


def fail(node, error, value):
    """Something that a scheme did cannot be: the run ends with this window."""
    worker = node.worker
    if not worker.error:
        worker.error = error
        worker.error_node = node.id
        worker.error_value = value


def has_voq(node, index):
    """Whether a switch has such a virtual output queue."""
    if 0 <= index < node.voq_count:
        return True
    fail(node, NO_SUCH_VOQ, index)
    return False


def has_queue(node, port, index):
    """Whether a port has such a queue; a scheme may be wrong about it."""
    if 0 <= index < port.queue_count:
        return True
    fail(node, NO_SUCH_QUEUE, index)
    return False


def dequeue(node, port):
    """The next data packet of a port, or nothing; its hooks run after it has left its queue."""
    queue = next_queue(port, node.worker.world.quantum)
    if not queue:
        return NO_PACKET
    pkt = pop(queue)
    port.bytes -= pkt.size
    node.buffer_used -= pkt.size
    if queue.length == 0:
        port.active -= 1
        unlist_first(port, queue.level)
    hook = node.ops.on_dequeue
    while hook:
        hook.call(hook.me, node, port, queue, pkt)
        hook = hook.next
    if node.worker.world.trace:
        trace(node, port, queue, pkt, 1)
    if port.waits and pkt.kind == DATA:
        count_wait(node, port, pkt)
    return pkt


def count_wait(node, port, pkt):
    """Queueing time by class of flow: from its arrival, which pkt.time still is, to the start of its transmission."""
    i = 2 * node.worker.world.classes[pkt.number]
    port.waits[i] += 1
    port.waits[i + 1] += node.now - pkt.time


def may_transmit(port):
    if port.control_head:
        return True
    if port.active and not port.paused:
        return True
    return False


def transmit(node, port):
    """The line of a switch is free: send from the control lane, else the next data packet."""
    if port.down:
        disarm(node, port)
        return
    armed = port.armed
    port.armed = 1  # what a hook adds to this port meanwhile does not start it again
    if port.control_head:
        pkt = port.control_head
        port.control_head = pkt.next
        send(node, port, pkt)
    elif not port.paused:
        pkt = dequeue(node, port)
        if pkt:
            send(node, port, pkt)
    if may_transmit(port):
        arm(node, port)
    else:
        port.armed = armed
        disarm(node, port)


def kick(node, port):
    """There is something to send: start now if the line is free."""
    if not port.armed:
        if node.now >= port.free_at:
            node.ops.transmit.call(node, port)
        else:
            arm(node, port)


def admitted(node, port, pkt):
    """Whether the shared buffer and every scheme take the packet; if not it has been dropped and counted."""
    if node.buffer_used + pkt.size > node.buffer_size:
        drop(node, port, pkt, DROP_BUFFER)
        return False
    hook = node.ops.admit
    while hook:
        if not hook.call(hook.me, node, port, pkt):
            drop(node, port, pkt, DROP_ADMISSION)
            return False
        hook = hook.next
    return True


def enqueue(node, port, pkt):
    """Store a packet for a port: in the egress queue, or held back in a virtual output queue if a scheme says so."""
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
            hold(node, port, pkt, index)
            return
    place(node, port, pkt)


def hold(node, port, pkt, index):
    """Keep a packet back in a virtual output queue, until release()."""
    if not has_voq(node, index):
        place(node, port, pkt)
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
        trace(node, port, voq, pkt, 4)


def release(node, index):
    """The first packet of a virtual output queue goes on to its egress queue."""
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
    place(node, port, pkt)


def place(node, port, pkt):
    """Put a packet into an egress queue.  Until its hooks have run, pkt.queue is the queue it came from upstream."""
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
    hook = ops.on_enqueue
    while hook:
        hook.call(hook.me, node, port, queue, pkt)
        hook = hook.next
    if node.worker.world.trace:
        trace(node, port, queue, pkt, 0)
    pkt.queue = index
    kick(node, port)


def receive(node, slot, pkt):
    """Forward a packet that came in on `slot`: equal-cost next hops are chosen by the flow's hash, unless a scheme chooses."""
    group = node.routes[pkt.dst]
    if group < 0:
        drop(node, port_at(node, slot), pkt, DROP_NO_ROUTE)
        return
    hops = node.next_hops
    count = hops[group]
    if count > 1:
        choose = node.ops.choose_path
        if choose:
            index = choose.call(choose.me, node, port_at(node, slot), pkt)
            if index < 0 or index >= count:
                fail(node, NO_SUCH_PATH, index)
                index = 0
            group += index
        else:
            group += pick(pkt.hash, node.hash_seed, count)
    enqueue(node, port_at(node, hops[group + 1]), pkt)


def receive_control(node, slot, pkt):
    """Hand a control frame to the scheme that owns its kind."""
    hook = node.ops.on_control[pkt.kind]
    if node.worker.world.trace:
        trace(node, port_at(node, slot), NO_QUEUE, pkt, 3)
    node.frame_bytes_received += pkt.size
    if hook:
        hook.call(hook.me, node, port_at(node, slot), pkt)
    give_frame(node.worker, pkt)


def log_pause(node, port, queue, command):
    row = new_pause_row(node.worker)
    row.time = node.now
    row.node = node.id
    row.port = port.slot
    row.queue = queue
    row.command = command


def pause_queue(node, port, index, bit):
    """Stop one of our queues; `bit` tells the schemes apart, so that one does not undo another's pause."""
    if not has_queue(node, port, index):
        return
    queue = queue_at(port, index)
    queue.index = index
    if not queue.paused:
        if queue.length > 0:
            port.active -= 1
        port.pauses_received += 1
        if node.worker.world.log_pauses:
            log_pause(node, port, index, PAUSE)
    queue.paused |= bit


def resume_queue(node, port, index, bit):
    if not has_queue(node, port, index):
        return
    queue = queue_at(port, index)
    if not queue.paused & bit:
        return
    queue.paused &= ~bit
    if queue.paused:
        return
    if node.worker.world.log_pauses:
        log_pause(node, port, index, RESUME)
    node.ops.wake.call(node, port, queue)


def wake(node, port, queue):
    """A queue of a switch may send again."""
    if queue.length > 0:
        port.active += 1
        if not queue.listed:
            list_queue(port, queue, node.worker.world.quantum)
        kick(node, port)


def pause_port(node, port, bit):
    """Stop the whole data lane of one of our ports."""
    if not port.paused:
        port.paused_since = node.now
        port.pauses_received += 1
        if node.worker.world.log_pauses:
            log_pause(node, port, -1, PAUSE)
    port.paused |= bit


def resume_port(node, port, bit):
    if not port.paused & bit:
        return
    port.paused &= ~bit
    if port.paused:
        return
    port.paused_ps += node.now - port.paused_since
    if node.worker.world.log_pauses:
        log_pause(node, port, -1, RESUME)
    kick(node, port)


def push_frame(port, pkt):
    """Control frames keep their order and go before the acknowledgements: a pause that waited would come too late."""
    before = NO_PACKET
    current = port.control_head
    while current and current.kind > ACK:
        before = current
        current = current.next
    pkt.next = current
    if before:
        before.next = pkt
    else:
        port.control_head = pkt
    if not current:
        port.control_tail = pkt


def send_control(node, slot, kind, command, value, mask):
    """Send a frame that carries two small numbers and a mask."""
    pkt = new_frame(node, kind, command)
    pkt.slot = value
    pkt.seq = mask
    send_frame(node, slot, pkt)


def new_frame(node, kind, command):
    """A control frame to be filled in: pkt.slot, pkt.seq, what the scheme declares, and its size if it is a long one."""
    pkt = take_frame(node.worker)
    pkt.size = CONTROL_SIZE
    pkt.payload = 0
    pkt.kind = kind
    pkt.lane = CONTROL_LANE
    pkt.flags = 0
    pkt.ecn = 0
    pkt.queue = 0
    pkt.number = command
    pkt.slot = 0
    pkt.seq = 0
    return pkt


def send_to_host(node, dst, pkt):
    """Send a frame to a host, whatever lies between; its on_control gets it."""
    pkt.dst = dst
    pkt.hash = hash31(dst, pkt.number)
    pkt.flags = ADDRESSED
    group = node.routes[dst]
    if group < 0:
        give_frame(node.worker, pkt)
        return
    send_frame(node, node.next_hops[group + 1 + pick(pkt.hash, node.hash_seed, node.next_hops[group])], pkt)


def send_frame(node, slot, pkt):
    """Append a frame to the control lane of a port.  Never transmits at once: may be called from a transmit."""
    if slot < 0 or slot >= node.port_count:
        fail(node, NO_SUCH_PORT, slot)
        give_frame(node.worker, pkt)
        return
    port = port_at(node, slot)
    push_frame(port, pkt)
    node.control_frames += 1
    node.frame_bytes += pkt.size
    port.frame_bytes += pkt.size
    if pkt.number == PAUSE:
        port.pauses_sent += 1
    if not port.armed:
        port.free_at = max(port.free_at, node.now)
        arm(node, port)


def set_timer(node, index, when):
    """Wake a scheme (by its index) at a node at `when`; NEVER cancels."""
    node.deadlines[index] = when
    soonest = NEVER
    for i in range(node.worker.world.scheme_count):
        soonest = min(soonest, node.deadlines[i])
    set_node_event(node, TIMER, soonest)


def run_timers(node):
    """Call every scheme whose deadline has come, in the order in which they were named."""
    for i in range(node.worker.world.scheme_count):
        if node.deadlines[i] <= node.now:
            set_timer(node, i, NEVER)
            hook = node.ops.on_timer[i]
            if hook:
                hook.call(hook.me, node)


def sample(node):
    """Rows of the time series, at multiples of the sampling period."""
    worker = node.worker
    world = worker.world
    set_node_event(node, SAMPLE, node.now + world.sample)
    largest = 0
    flows = -1
    for slot in range(node.port_count):
        port = port_at(node, slot)
        largest = max(largest, port.bytes)
        flows = max(flows, port.flows)
        if port.flow_samples:
            port.flow_samples[min(port.flows, FLOW_BINS - 1)] += 1
        if world.sample_ports:
            sample_port(node, port)
        if world.sample_queues and not node.is_host:
            sample_queues(node, port)
    if not node.is_host:
        row = new_switch_row(worker)
        row.time = node.now
        row.node = node.id
        row.buffer_bytes = node.buffer_used
        row.max_queue_bytes = largest
        row.flows = flows
    elif world.sample_flows:
        sample_flows(node)


def sample_port(node, port):
    row = new_port_row(node.worker)
    row.time = node.now
    row.node = node.id
    row.port = port.slot
    row.bytes = port.bytes
    row.tx_bytes = port.tx_bytes
    row.ack_bytes = port.ack_bytes
    row.frame_bytes = port.frame_bytes
    row.active = port.active
    row.flows = port.flows


def sample_queues(node, port):
    if port.bytes == 0:
        return
    for i in range(port.queue_count):
        queue = queue_at(port, i)
        if queue.length > 0:
            row = new_queue_row(node.worker)
            row.time = node.now
            row.node = node.id
            row.port = port.slot
            row.queue = i
            row.bytes = queue.bytes
            row.paused = queue.paused


def sample_flows(node):
    flow = node.host.active
    while flow:
        row = new_flow_row(node.worker)
        row.time = node.now
        row.node = node.id
        row.number = flow.number
        row.acked = flow.acked
        row.window = flow.window
        flow = flow.next_active
