"""The link layer of hosts and switches: transmission, the control lane, control frames, pauses, timers."""

import cython

if not cython.compiled:
    from penstock_net.fabric.failure import fail
    from penstock_net.fabric.queueing import alloc_frame, free_frame, set_event, set_node_event
    from penstock_net.fabric.routing import group_towards
    from penstock_net.fabric.sampling import log_pause, trace
    from penstock_net.fabric.state import (
        ACK,
        ADDRESSED,
        CONTROL_LANE,
        DATA_LANE,
        EVENT_RECEIVE,
        KEY_BITS,
        NEVER,
        NO_PACKET,
        NO_QUEUE,
        NO_SUCH_PORT,
        NO_SUCH_QUEUE,
        PAUSE,
        REDUCED,
        RESUME,
        TIMER,
        command_of,
        hash31,
        pick,
        port_at,
        queue_at,
        rare,
    )
    from penstock_net.fabric.wire import post, send_uneven


def has_queue(node, port, index):
    """Whether a port has a queue of this index; if not, the run fails."""
    if 0 <= index < port.queue_count:
        return True
    fail(node, NO_SUCH_QUEUE, index)
    return False


def may_pause(node, port, index):
    """Whether a port has a queue to pause. The index behind its last queue is that of packets that wait in none of them: a host's
    ACKs, and frames that a node makes. No flow is to be paused for these, so such a pause stops nothing."""
    return index != port.queue_count and has_queue(node, port, index)


def arm(node, port):
    """Schedule the port's next transmission for when its line is free."""
    leaf = node.port_count + port.slot
    port.armed = 1
    set_event(node, leaf, port.free_at << KEY_BITS | leaf)


def disarm(node, port):
    """Cancel the port's next transmission."""
    if port.armed or port.wake_at:
        port.armed = 0
        port.wake_at = 0
        set_event(node, node.port_count + port.slot, NEVER)


def wake_port(node, port, when):
    """Ask next_queue again at `when`, though nothing arrives; for a scheme that holds back what is queued at a port."""
    if not port.wake_at or when < port.wake_at:
        port.wake_at = max(when, node.now + 1)


def wait(node, port):
    """Put a port to sleep whose scheduler sends nothing now: until wake_port's time, or until a packet arrives."""
    leaf = node.port_count + port.slot
    key = NEVER
    port.armed = 0
    if port.wake_at > node.now:
        key = port.wake_at << KEY_BITS | leaf
    else:
        port.wake_at = 0
    if node.tree[node.leaf_count + leaf] != key:
        set_event(node, leaf, key)


def send(node, port, pkt):
    """Transmit a packet."""
    if rare(port.uneven):
        send_uneven(node, port, pkt)
        return
    port.free_at = node.now + pkt.size * port.whole_ps
    pkt.time = port.free_at + port.delay
    post(node, port, pkt)


def kick(node, port):
    """Transmit now if the line is free, else when it is."""
    if not port.armed:
        if node.now >= port.free_at:
            node.ops.transmit.call(node, port)
        else:
            arm(node, port)


def is_stopped(node, port):
    """Whether a port is paused, or a priority of it where these are paused apart."""
    if port.paused:
        return True
    if node.worker.world.nic_by_priority:
        for i in range(port.queue_count):
            if queue_at(port, i).paused:
                return True
    return False


def pause_queue(node, port, index, bit):
    """Pause one queue of this node's port.  `bit` is the scheme's: a queue sends again once every scheme has resumed it."""
    if not may_pause(node, port, index):
        return
    queue = queue_at(port, index)
    queue.index = index
    if not queue.paused:
        if node.worker.world.nic_by_priority and not is_stopped(node, port):
            port.paused_since = node.now
        if queue.length > 0:
            port.active -= 1
        port.pauses_received += 1
        if node.worker.world.nic_by_priority:
            node.pauses[index] += 1
            node.stopped[index] += 1
            node.stopped_ps[index] -= node.now
        if node.worker.world.log_pauses:
            log_pause(node, port, index, PAUSE)
    queue.paused |= bit


def resume_queue(node, port, index, bit):
    """Undo pause_queue of the same scheme."""
    if not may_pause(node, port, index):
        return
    queue = queue_at(port, index)
    if not queue.paused & bit:
        return
    queue.paused &= ~bit
    if queue.paused:
        return
    if node.worker.world.nic_by_priority:
        node.stopped[index] -= 1
        node.stopped_ps[index] += node.now
        if not is_stopped(node, port):
            port.paused_ps += node.now - port.paused_since
    if node.worker.world.log_pauses:
        log_pause(node, port, index, RESUME)
    node.ops.wake.call(node, port, queue)


def pause_port(node, port, bit):
    """Pause the data lane of this node's port; `bit` as in pause_queue."""
    if not port.paused:
        if not is_stopped(node, port):
            port.paused_since = node.now
        port.pauses_received += 1
        if node.worker.world.log_pauses:
            log_pause(node, port, -1, PAUSE)
    port.paused |= bit


def resume_port(node, port, bit):
    """Undo pause_port of the same scheme."""
    if not port.paused & bit:
        return
    port.paused &= ~bit
    if port.paused:
        return
    if not is_stopped(node, port):
        port.paused_ps += node.now - port.paused_since
    if node.worker.world.log_pauses:
        log_pause(node, port, -1, RESUME)
    kick(node, port)


def new_frame(node, kind, command):
    """A control frame with value and mask 0; the caller sets what its scheme declares, and pkt.size if it is longer."""
    pkt = alloc_frame(node.worker)
    pkt.size = node.worker.world.control
    pkt.payload = 0
    pkt.kind = kind
    pkt.lane = CONTROL_LANE
    pkt.flags = 0
    pkt.ecn = 0
    pkt.priority = 0
    pkt.hash = 0
    pkt.src = node.id
    pkt.in_port = 0
    pkt.queue = 0
    pkt.number = command
    pkt.slot = 0
    pkt.seq = 0
    return pkt


def push_frame(port, pkt):
    """Insert a control frame in the control lane: after those of schemes, before ACKs, so that pauses are not delayed."""
    before = NO_PACKET
    current = port.control_head
    while current and current.kind > ACK and current.kind != REDUCED:
        before = current
        current = current.next
    pkt.next = current
    if before:
        before.next = pkt
    else:
        port.control_head = pkt
    if not current:
        port.control_tail = pkt


def send_frame(node, slot, pkt):
    """Append a frame to the control lane of a port.  Never transmits at once, since hooks call it during a transmission."""
    if slot < 0 or slot >= node.port_count:
        fail(node, NO_SUCH_PORT, slot)
        free_frame(node.worker, pkt)
        return
    port = port_at(node, slot)
    push_frame(port, pkt)
    node.control_frames += 1
    node.frame_bytes += pkt.size
    if command_of(pkt) == PAUSE:
        port.pauses_sent += 1
    if not port.armed:
        port.free_at = max(port.free_at, node.now)
        arm(node, port)


def send_control(node, slot, kind, command, value, mask):
    """Send a control frame with a command, an int32 and an int64 mask; see command_of, value_of, mask_of."""
    pkt = new_frame(node, kind, command)
    pkt.slot = value
    pkt.seq = mask
    send_frame(node, slot, pkt)


def slot_towards(node, dst, pkt):
    """Address a frame to a host; returns the port of its first hop, by ECMP, -1 and frees it if there is none."""
    pkt.dst = dst
    if not node.worker.world.symmetric:
        pkt.hash = hash31(dst, pkt.number)
    pkt.flags = ADDRESSED
    group = group_towards(node, dst)
    if group < 0 or dst == node.id:
        free_frame(node.worker, pkt)
        return -1
    return node.next_hops[group + 1 + pick(pkt.hash, node.hash_seed, node.next_hops[group])]


def send_to_host(node, dst, pkt):
    """Send a control frame to a host over any number of hops; the host's on_control receives it."""
    slot = slot_towards(node, dst, pkt)
    if slot >= 0:
        send_frame(node, slot, pkt)


def send_along(node, slot, dst, way, pkt):
    """Send a control frame to a host by this port and, from there on, where data of the hash `way` goes."""
    pkt.dst = dst
    pkt.hash = way
    pkt.flags = ADDRESSED
    send_frame(node, slot, pkt)


def send_with_data(node, dst, pkt):
    """The same, but the frame is stored, queued, paused and dropped like data: in the queues of pkt.priority."""
    slot = slot_towards(node, dst, pkt)
    if slot < 0:
        return
    port = port_at(node, slot)
    pkt.lane = DATA_LANE
    pkt.in_port = slot
    pkt.queue = port.peer_queues
    node.control_frames += 1
    node.frame_bytes += pkt.size
    armed = port.armed
    port.armed = 1  # as with send_frame, a hook may have called this during a transmission
    node.ops.store.call(node, port, pkt)
    if node.is_host and not node.worker.world.nic_by_priority:
        pkt.queue = port.queue_count
    if not armed:
        port.free_at = max(port.free_at, node.now)
        arm(node, port)


def receive_control(node, slot, pkt):
    """Pass a control frame to the on_control hook of the scheme that sent it, and free it."""
    hook = node.ops.on_control[pkt.kind]
    if node.worker.world.trace:
        trace(node, port_at(node, slot), NO_QUEUE, pkt, EVENT_RECEIVE)
    node.frame_bytes_received += pkt.size
    if hook:
        hook.call(hook.me, node, port_at(node, slot), pkt)
    free_frame(node.worker, pkt)


def set_timer(node, index, when):
    """Set the one timer that a scheme (by its index) has at a node; NEVER cancels it."""
    node.deadlines[index] = when
    schedule_timers(node)


def schedule_timers(node):
    """Set the event of the schemes' timers."""
    soonest = NEVER
    for i in range(node.worker.world.scheme_count):
        soonest = min(soonest, node.deadlines[i])
    set_node_event(node, TIMER, soonest)


def wake_by(node, index, when):
    """Set a scheme's timer unless it expires earlier anyway."""
    if when < node.deadlines[index]:
        set_timer(node, index, when)


def run_timers(node):
    """Call on_timer of every scheme whose timer has expired, in the order in which they were named."""
    for i in range(node.worker.world.scheme_count):
        if node.deadlines[i] <= node.now:
            node.deadlines[i] = NEVER
            hook = node.ops.on_timer[i]
            if hook:
                hook.call(hook.me, node)
    schedule_timers(node)
