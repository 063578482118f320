"""An application at a switch that runs a scheme: its frames become packets, and packets become frames in its receive queues.

An application's transmit queue is the upstream queue of its flow, like a NIC queue in the simulator: while the scheme pauses it,
the switch takes no frame from it.  A slow receiver pauses the switch's queue that feeds it; senders are paused only by the
scheme's reaction to that.
"""

import cython

if not cython.compiled:
    from penstock_net.fabric.line import (
        arm,
        pause_port,
        pause_queue,
        receive_control,
        resume_port,
        resume_queue,
        run_timers,
        send,
    )
    from penstock_net.fabric.queueing import alloc_packet, free_packet, set_event
    from penstock_net.fabric.state import (
        CONTROL,
        DATA,
        DATA_LANE,
        KEY_BITS,
        NEVER,
        NO_PACKET,
        TIMER,
        hash31,
        node_at,
        queue_at,
        ring_at,
    )
    from penstock_net.fabric.state import port_at as line_at
    from penstock_net.sim.core.agenda import set_time
    from penstock_net.sim.core.engine import collect_arrivals
    from penstock_net.vswitch.dataplane.flowtable import find_flow, new_flow, owner_of
    from penstock_net.vswitch.dataplane.forward import drop
    from penstock_net.vswitch.dataplane.parse import parse
    from penstock_net.vswitch.dataplane.receiver import SAMPLE_NS, measure, open_flow
    from penstock_net.vswitch.dataplane.schedule import activate, take_head
    from penstock_net.vswitch.dataplane.state import (
        BAD_DESCRIPTOR,
        MALFORMED,
        NO_QUEUE,
        PAUSED,
        SPOOFED,
        TOO_LONG,
        UP,
        announce,
        flow_at,
        flow_end,
        no_flow,
        port_at,
        short_at,
        txq_at,
        view_of,
    )
    from penstock_net.vswitch.dataplane.steps import next_word
    from penstock_net.vswitch.memory.layout import (
        CLOSED,
        buffer_of,
        bytes_at,
        descriptor,
        length_of,
        low,
        memcpy,
        mixed,
        store64,
        word_at,
    )
    from penstock_net.vswitch.memory.rings import give_buffer, push, take_buffer
    from penstock_net.vswitch.schemes.state import (
        FAR_FLOW,
        FULL_BIT,
        MOST_NAMES,
        RETRY_PS,
        bytes_of,
        carried_by,
        carried_key,
        far_at,
        no_queue,
        sender_of,
        set_short,
    )

# ---- The host that stands for an application ----


def run_host(emulation, endpoint):
    """Run the events of the host that stands for an application, to the end of the window."""
    node = endpoint.node
    collect_arrivals(node)
    key = node.tree[1]
    while key < emulation.engine.limit:
        node.now = key >> KEY_BITS
        leaf = key & ((1 << KEY_BITS) - 1)
        if leaf == 0:
            arrive(emulation, endpoint)
        elif leaf == 1:
            transmit(emulation, endpoint)
        elif leaf == 2 + TIMER:
            run_timers(node)
        else:
            set_event(node, leaf, NEVER)
        key = node.tree[1]
    note_next(emulation, node)


def arrive(emulation, endpoint):
    """A packet or a control frame arrives at an application."""
    node = endpoint.node
    line = line_at(node, 0)
    pkt = line.in_head
    line.in_head = pkt.next
    set_event(node, 0, line.in_head.time << KEY_BITS if line.in_head else NEVER)
    line.rx_bytes += pkt.size
    if pkt.kind >= CONTROL:
        receive_control(node, 0, pkt)
    else:
        take_in(emulation, endpoint, pkt)


def start_line(emulation, endpoint):
    """Start the line of an application with frames to transmit, unless it is busy or paused."""
    line = line_at(endpoint.node, 0)
    if not line.armed and not line.paused:
        endpoint.node.now = max(endpoint.node.now, emulation.time)
        begin(endpoint.node, line)
        note_next(emulation, endpoint.node)


# ---- In: from a transmit queue onto the line ----


def begin(node, line):
    """Hook of the fabric: the line of an application may transmit again."""
    line.free_at = max(line.free_at, node.now)
    arm(node, line)


def woken(node, line, queue):
    """Hook of the fabric: a queue of an application was resumed; `unpark` takes it from this list."""
    if not queue.listed:
        queue.listed = 1
        queue.next = no_queue()
        ring = ring_at(line, 0)
        if ring.head:
            ring.tail.next = queue
        else:
            ring.head = queue
        ring.tail = queue
    if not line.armed:
        begin(node, line)


def park(endpoint, port, number, queue):
    """Hold a transmit queue back until the scheme resumes its queue."""
    txq = txq_at(port, number)
    txq.state = PAUSED
    txq.next = -1
    if endpoint.parked[queue]:
        txq_at(port, endpoint.last_parked[queue] - 1).next = number
    else:
        endpoint.parked[queue] = number + 1
    endpoint.last_parked[queue] = number + 1


def unpark(endpoint, port, line):
    """Activate the transmit queues whose queue was resumed."""
    ring = ring_at(line, 0)
    while ring.head:
        queue = ring.head
        ring.head = queue.next
        queue.listed = 0
        number = endpoint.parked[queue.index] - 1
        endpoint.parked[queue.index] = 0
        while number >= 0:
            following = txq_at(port, number).next
            activate(port, number)
            number = following


def has_memory(emulation):
    if emulation.closed:
        return False
    if emulation.engine.free:
        return True
    return emulation.engine.packets < emulation.most_packets


def fetch(emulation, endpoint, port, number):
    """Convert the first frame of a transmit queue to a packet, or NULL; invalid frames are dropped and counted."""
    txq = txq_at(port, number)
    view = view_of(port)
    worker = emulation.worker
    for _ in range(worker.burst):
        if not has_memory(emulation):
            endpoint.retry = 1
            return NO_PACKET
        word = txq.held
        txq.held = 0
        if word == 0:
            word = next_word(view, txq, 0, number)
        if word == 0:
            return NO_PACKET
        if word == CLOSED:
            txq.known = 0
            continue
        buffer = buffer_of(word)
        length = length_of(word)
        if buffer < 0 or buffer >= view.buffers or length == 0 or length > view.buffer_bytes:
            view.protocol_errors += 1
            drop(emulation.worker, port, txq, no_flow(), word, BAD_DESCRIPTOR)
            count_taken(view, txq, number, length)
            continue
        if length > emulation.longest:
            drop(emulation.worker, port, txq, no_flow(), word, TOO_LONG)
            count_taken(view, txq, number, length)
            continue
        pkt = alloc_packet(emulation.engine)
        frame = bytes_of(emulation, pkt)
        memcpy(frame, bytes_at(view.buffer[0], buffer * view.buffer_bytes), length)
        fate = address(emulation, port, pkt, length)
        if fate == -1 - NO_QUEUE:  # its receiver has no queue for one more flow
            free_packet(emulation.engine, pkt)
            txq.held = word
            endpoint.retry = 1
            return NO_PACKET
        if fate < 0:
            free_packet(emulation.engine, pkt)
            drop(emulation.worker, port, txq, no_flow(), word, -1 - fate)
            count_taken(view, txq, number, length)
            continue
        give_buffer(view, 0, buffer)
        count_taken(view, txq, number, length)
        port.received_frames += 1
        port.received_bytes += length
        describe(emulation, endpoint, txq, number, pkt, fate)
        return pkt
    endpoint.retry = 1
    return NO_PACKET


def count_taken(view, txq, number, length):
    """Tell the application that a frame was taken out of a transmit queue, delivered or dropped."""
    txq.taken += length
    txq.served += 1
    store64(word_at(view.consumed[0], number), txq.taken)


def address(emulation, port, pkt, length):
    """The number of a frame's flow, or -1 minus the reason to drop the frame."""
    carried = carried_by(emulation, pkt)
    key = carried_key(carried)
    if not parse(bytes_of(emulation, pkt), length, port.serial, key):
        return -1 - MALFORMED
    carried.length = length
    carried.source = port.number
    host = far_host(emulation, key)
    if host < 0:
        return flow_number(emulation, port, key)
    if port.guarded and owner_of(emulation.worker, key.words[0], key.words[1]) != port.number:
        return -1 - SPOOFED
    pkt.dst = host
    return FAR_FLOW


def far_host(emulation, key):
    """The host of an address that is at another switch, or -1."""
    for i in range(emulation.far_count):
        far = far_at(emulation, i)
        if far.low == key.words[3] and far.high == key.words[2]:
            return far.host
    return -1


def far_name(emulation, key):
    """A number of 31 bits for a flow that goes to another switch."""
    hash = mixed(emulation.world.seed, key.words[4])
    for i in range(4):
        hash = mixed(hash, key.words[i])
    return low(hash) >> 1


def flow_number(emulation, port, key):
    flow = find_flow(emulation.worker, key)
    if flow:
        return flow.number
    number = new_flow(emulation.worker, port, key, emulation.now)
    if number >= 0:
        emulation.names[number] = emulation.next_name
        emulation.next_name = 0 if emulation.next_name == MOST_NAMES else emulation.next_name + 1
    return number


def describe(emulation, endpoint, txq, number, pkt, flow):
    """Fill in the packet's fields that the fabric and the scheme read, as a host of the simulator does."""
    if flow == FAR_FLOW:
        pkt.number = far_name(emulation, carried_key(carried_by(emulation, pkt)))
        pkt.seq = 0
    else:
        found = flow_at(emulation.worker, flow)
        found.used_at = emulation.now
        pkt.number = emulation.names[flow]
        pkt.seq = found.sent
        pkt.dst = emulation.endpoint_of[found.target] - 1
    pkt.size = carried_by(emulation, pkt).length
    pkt.payload = max(pkt.size - emulation.world.header, 0)
    pkt.slot = number
    pkt.hash = hash31(pkt.number, emulation.world.seed)
    pkt.src = endpoint.node.id
    pkt.kind = DATA
    pkt.lane = DATA_LANE
    pkt.ecn = 0
    pkt.priority = txq.priority
    pkt.queue = pkt.dst if emulation.by_destination else number % endpoint.queues
    pkt.flags = 0


def next_packet(emulation, endpoint, port, line):
    """The next packet: by priority, then weighted round robin over the transmit queues."""
    while port.levels:
        level = 0
        while not port.levels >> level & 1:
            level += 1
        number = port.head[level]
        txq = txq_at(port, number)
        pkt = endpoint.hand[number]
        if not pkt:
            pkt = fetch(emulation, endpoint, port, number)
            if not pkt:
                if endpoint.retry:
                    return NO_PACKET
                take_head(port, level)
                txq.deficit = 0
                continue
            endpoint.hand[number] = pkt
        queue = pkt.queue
        if queue_at(line, queue).paused:
            take_head(port, level)
            park(endpoint, port, number, queue)
            continue
        endpoint.hand[number] = NO_PACKET
        if txq.deficit <= 0:
            txq.deficit = txq.weight
        txq.deficit -= 1
        if txq.deficit <= 0:
            take_head(port, level)
            activate(port, number)
        return pkt
    return NO_PACKET


def transmit(emulation, endpoint):
    """Transmit the next frame of an application, whose line is free."""
    node = endpoint.node
    line = line_at(node, 0)
    line.armed = 0
    set_event(node, 1, NEVER)
    if endpoint.port < 0 or line.paused:
        return
    port = port_at(emulation.worker, endpoint.port)
    if port.state != UP:
        return
    unpark(endpoint, port, line)
    endpoint.retry = 0
    pkt = next_packet(emulation, endpoint, port, line)
    if pkt:
        hook = node.ops.on_send
        while hook:
            hook.call(hook.me, node, sender_of(emulation), pkt)
            hook = hook.next
        send(node, line, pkt)
    elif endpoint.retry:
        line.free_at = node.now + RETRY_PS
    if port.levels or endpoint.retry:
        arm(node, line)


# ---- Out: into the receiver's memory ----


def discard(emulation, endpoint, pkt):
    endpoint.lost += 1
    free_packet(emulation.engine, pkt)
    return True


def mark(frame):
    """Set Congestion Experienced (RFC 3168) in a parsed IP frame of an ECN-capable transport."""
    at = 14
    if short_at(frame, 12) == 0x8100:
        at = 18
    kind = short_at(frame, at - 2)
    word = short_at(frame, at)
    if kind == 0x0800 and (word & 3) in (1, 2):
        set_short(frame, at, word | 3)
        total = (short_at(frame, at + 10) ^ 0xFFFF) + (word ^ 0xFFFF) + (word | 3)  # RFC 1624
        total = (total & 0xFFFF) + (total >> 16)
        total = (total & 0xFFFF) + (total >> 16)
        set_short(frame, at + 10, total ^ 0xFFFF)
    elif kind == 0x86DD and (word >> 4 & 3) in (1, 2):
        set_short(frame, at, word | 0x30)


def store(emulation, endpoint, pkt):
    """Copy a packet's frame into its receive queue, or drop it if the receiver is detached; False: no room now."""
    worker = emulation.worker
    carried = carried_by(emulation, pkt)
    if endpoint.port < 0:
        return discard(emulation, endpoint, pkt)
    flow = find_flow(worker, carried_key(carried))
    if not flow:  # forgotten while this frame was on its way
        source = port_at(worker, carried.source)
        number = flow_number(emulation, source, carried_key(carried)) if source.state == UP else -1
        if number < 0:
            return discard(emulation, endpoint, pkt)
        flow = flow_at(worker, number)
    if flow.target != endpoint.port:
        return discard(emulation, endpoint, pkt)
    to = port_at(worker, endpoint.port)
    into = view_of(to)
    length = carried.length
    if length > into.buffer_bytes:
        to.drops[TOO_LONG] += 1
        return discard(emulation, endpoint, pkt)
    if not flow.open and not open_flow(worker, flow, into):
        return False
    place = take_buffer(into, 1)
    if place < 0:
        return False
    if pkt.ecn:
        mark(bytes_of(emulation, pkt))
    memcpy(bytes_at(into.buffer[1], place * into.buffer_bytes), bytes_of(emulation, pkt), length)
    if not push(into, flow_end(flow), descriptor(place, length)):
        give_buffer(into, 1, place)
        return False
    flow.sent += length
    if flow.sent - flow.consumed > flow.goal or emulation.now - flow.sampled_at > SAMPLE_NS:
        measure(worker, flow, into, emulation.now)
    queued = flow.sent - flow.consumed
    flow.longest = max(flow.longest, queued)
    flow.used_at = emulation.now
    flow.frames += 1
    to.sent_frames += 1
    to.sent_bytes += length
    announce(to, flow.queue)
    if queued > flow.over:
        stop(emulation, endpoint, flow, pkt)
    free_packet(emulation.engine, pkt)
    return True


def stop(emulation, endpoint, flow, pkt):
    """Pause the switch's queue that this packet came from: its flow has a backlog above th_over."""
    line = line_at(endpoint.node, 0)
    queue = pkt.queue
    if endpoint.stopped[queue] or queue >= endpoint.stop_room:
        return
    endpoint.stopped[queue] = flow.number + 1
    endpoint.stops[endpoint.stop_count] = queue
    endpoint.stop_count += 1
    endpoint.stop_total += 1
    flow.pauses += 1
    node = node_at(emulation.world, line.peer_node)
    node.now = max(node.now, endpoint.node.now)
    pause_queue(node, line_at(node, line.peer_slot), queue, FULL_BIT)


def take_in(emulation, endpoint, pkt):
    """Deliver a packet to its application; without room it waits, and the switch's port is paused."""
    if not endpoint.late:
        if store(emulation, endpoint, pkt):
            return
        line = line_at(endpoint.node, 0)
        node = node_at(emulation.world, line.peer_node)
        node.now = max(node.now, endpoint.node.now)
        pause_port(node, line_at(node, line.peer_slot), FULL_BIT)
        endpoint.late = pkt
    else:
        endpoint.last_late.next = pkt
    pkt.next = NO_PACKET
    endpoint.last_late = pkt
    endpoint.held_frames += 1


def retry_delivery(emulation, endpoint):
    """Deliver waiting packets and resume the queues whose flows are below th_goal; returns whether anything changed."""
    line = line_at(endpoint.node, 0)
    node = node_at(emulation.world, line.peer_node)
    node.now = max(node.now, emulation.time)
    changed = 0
    while endpoint.late:
        pkt = endpoint.late
        following = pkt.next
        if not store(emulation, endpoint, pkt):
            break
        endpoint.late = following
        changed = 1
        if not following:
            resume_port(node, line_at(node, line.peer_slot), FULL_BIT)
    i = 0
    while i < endpoint.stop_count:
        queue = endpoint.stops[i]
        flow = flow_at(emulation.worker, endpoint.stopped[queue] - 1)
        waits = 0
        if flow.used and flow.open and flow.target == endpoint.port:
            measure(emulation.worker, flow, view_of(port_at(emulation.worker, endpoint.port)), emulation.now)
            waits = 1 if flow.sent - flow.consumed > flow.goal else 0
        if waits:
            i += 1
            continue
        endpoint.stopped[queue] = 0
        endpoint.stop_count -= 1
        endpoint.stops[i] = endpoint.stops[endpoint.stop_count]
        resume_queue(node, line_at(node, line.peer_slot), queue, FULL_BIT)
        changed = 1
    if changed:
        note_next(emulation, node)
    return changed > 0


def note_next(emulation, node):
    """Update a node's next event time after a change from outside."""
    key = node.tree[1]
    set_time(emulation.engine, node.place, NEVER if key == NEVER else key >> KEY_BITS)
