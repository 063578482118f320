"""Conservative parallel simulation in windows of one link delay: every worker runs its nodes to the window's end, then a barrier.

Whatever arrives at a node within a window was sent in an earlier one, so within a window nodes are independent.  The events of a
node run in the order (time, leaf): arrivals by port, transmissions by port, then scheme timers, samples, flow starts, pacing,
timeouts.  That order does not depend on windows, chunks or threads, and so neither do the results.
"""

import cython

if not cython.compiled:
    from penstock.fabric.line import drop, receive_control, run_timers
    from penstock.fabric.queueing import draw, set_event
    from penstock.fabric.sampling import sample
    from penstock.fabric.state import (
        ACK,
        ADDRESSED,
        DATA,
        DROP_LOSS,
        FAILED,
        FLOW_TIMER,
        KEY_BITS,
        NEVER,
        NO_PACKET,
        PACE,
        RANDOM_LOSS,
        RETURNED,
        SAMPLE,
        START,
        TIMER,
        agenda_of,
        cpu_pause,
        fetch_add,
        load_acquire,
        load_relaxed,
        lowest_bit,
        outbox_at,
        port_at,
        prefetch,
        rare,
        sched_yield,
        store_release,
        worker_at,
    )
    from penstock.fabric.switch import receive, transmit
    from penstock.sim.core.agenda import clear_mail, take_mail
    from penstock.sim.core.receiver import receive_data, run_flow_timers
    from penstock.sim.core.sender import receive_ack, receive_returned, run_pacer, run_starts, run_tick, transmit_host


def wait_for_all(world):
    """Barrier: spin for a while, then yield the processor."""
    if world.worker_count == 1:
        return
    generation = load_relaxed(world.generation)
    if fetch_add(world.arrived, 1) == world.worker_count - 1:
        store_release(world.arrived, 0)
        store_release(world.generation, generation + 1)
    else:
        spins = 0
        while load_acquire(world.generation) == generation:
            cpu_pause()
            spins += 1
            if spins > 2000:
                sched_yield()
                spins = 0


def arrived_at(worker, word):
    """One word of the bitmap of ports that were sent packets in the last window, by any worker."""
    world = worker.world
    mask = worker_at(world, 0).arrived_ports[worker.parity ^ 1][word]
    for i in range(1, world.worker_count):
        mask |= worker_at(world, i).arrived_ports[worker.parity ^ 1][word]
    return mask


def collect(node, slot, parity):
    """Append what the peer sent in the last window to the packets on the wire towards this port."""
    port = port_at(node, slot)
    outbox = outbox_at(node.worker, parity, port.peer_port)
    if port.in_head:
        port.in_tail.next = outbox.head
    else:
        port.in_head = outbox.head
        set_event(node, slot, outbox.head.time << KEY_BITS | slot)
    port.in_tail = outbox.tail
    outbox.head = NO_PACKET


def collect_arrivals(node):
    """Collect from every port of the node that was sent packets in the last window."""
    worker = node.worker
    world = worker.world
    parity = worker.parity ^ 1
    for word in range(world.port_words):
        index = node.id * world.port_words + word
        mask = arrived_at(worker, index)
        if mask:
            for i in range(world.worker_count):
                worker_at(world, i).arrived_ports[parity][index] = 0
        while mask:
            collect(node, word * 64 + lowest_bit(mask), parity)
            mask &= mask - 1


def lost(node, port, pkt):
    """Whether a packet is lost on the wire, drawn at random."""
    chance = port.loss
    if pkt.kind > ACK:
        chance = port.control_loss
    if draw(node, RANDOM_LOSS) < chance:
        return True
    return False


def arrive(node, slot):
    """The first packet on the wire arrives at a port."""
    port = port_at(node, slot)
    pkt = port.in_head
    following = pkt.next
    port.in_head = following
    if following:
        set_event(node, slot, following.time << KEY_BITS | slot)
        prefetch(following.next)
    else:
        set_event(node, slot, NEVER)
    port.rx_bytes += pkt.size
    pkt.in_port = slot
    if port.control_loss:
        if lost(node, port, pkt):
            drop(node, port, pkt, DROP_LOSS)
            return
    if pkt.kind > ACK:
        if pkt.flags == ADDRESSED and not node.is_host:
            receive(node, slot, pkt)
        else:
            receive_control(node, slot, pkt)
        return
    node.hops += 1
    if not node.is_host:
        receive(node, slot, pkt)
    elif pkt.kind == DATA:
        if rare(pkt.flags & RETURNED):
            receive_returned(node, pkt)
        else:
            receive_data(node, pkt)
    else:
        receive_ack(node, pkt)


def run_leaf(node, which):
    """An event that is neither an arrival nor a transmission."""
    if which == PACE:
        run_pacer(node)
    elif which == START:
        run_starts(node)
    elif which == TIMER:
        run_timers(node)
    elif which == FLOW_TIMER:
        run_flow_timers(node)
    elif which == SAMPLE:
        sample(node)
    else:
        run_tick(node)


def process(node):
    """Execute the events of one node up to the end of the window; returns the time of its next one, in ps."""
    collect_arrivals(node)
    tree = node.tree
    limit = node.worker.limit
    ports = node.port_count
    key = tree[1]
    while key < limit:
        node.now = key >> KEY_BITS
        node.events += 1
        leaf = key & ((1 << KEY_BITS) - 1)
        if leaf < ports:
            arrive(node, leaf)
        elif leaf < 2 * ports:
            if node.is_host:
                transmit_host(node, port_at(node, leaf - ports))
            else:
                transmit(node, port_at(node, leaf - ports))
        else:
            run_leaf(node, leaf - 2 * ports)
        key = tree[1]
    return NEVER if key == NEVER else key >> KEY_BITS


def visit(worker, level, block):
    """Execute the events of this window of all nodes below a block; returns the time of the next one."""
    times = agenda_of(worker).times[level]
    soonest = NEVER
    for i in range(8 * block, 8 * block + 8):
        if times[i] < worker.window_end:
            if level == 0:
                times[i] = process(worker.nodes[i])
            else:
                times[i] = visit(worker, level - 1, i)
        soonest = min(soonest, times[i])
    return soonest


def run_window(worker):
    """Run the worker's nodes that have events; returns the time of its next event, in ps."""
    world = worker.world
    worker.window_end = min((worker.window_start // world.window + 1) * world.window, world.horizon)
    worker.limit = worker.window_end << KEY_BITS
    worker.windows += 1
    take_mail(worker)
    soonest = visit(worker, worker.agenda.levels - 1, 0)
    if worker.sent:
        soonest = min(soonest, worker.window_end)
    worker.sent = 0
    return soonest


def run_windows(worker, count):
    """Run until `count` windows, the horizon, the last flow or the last event, whichever comes first."""
    world = worker.world
    for _ in range(count):
        if worker.finished or worker.window_start >= world.horizon:
            return
        worker.next_window[worker.parity] = run_window(worker)
        worker.done_by[worker.parity] = FAILED if worker.error else worker.done
        wait_for_all(world)
        clear_mail(worker, worker.parity ^ 1)
        soonest = NEVER
        done = 0
        for i in range(world.worker_count):
            other = worker_at(world, i)
            soonest = min(soonest, other.next_window[worker.parity])
            done += other.done_by[worker.parity]
        worker.window_start = soonest
        worker.parity ^= 1
        if soonest == NEVER or done == world.flow_count or done < 0:
            worker.finished = 1
