"""Conservative parallel simulation in windows: every worker runs its nodes to the window's end, then a barrier.

Whatever arrives at a node within a window was sent in an earlier one, so within a window nodes are independent.  A window is as
long as the shortest link delay, except that of links within a group of nodes (see agenda): a group belongs to one worker, which
runs it in steps of its own shortest delay.  The events of a node run in the order (time, leaf): arrivals by port, transmissions
by port, then scheme timers, samples, flow starts, pacing, timeouts.  That order does not depend on windows, groups, chunks or
threads, and so neither do the results.
"""

import cython

if not cython.compiled:
    from penstock_net.fabric.line import run_timers
    from penstock_net.fabric.queueing import set_event
    from penstock_net.fabric.retry import run_retries
    from penstock_net.fabric.sampling import sample
    from penstock_net.fabric.state import (
        FAILED,
        FLOW_TIMER,
        KEY_BITS,
        NEVER,
        NO_PACKET,
        PACE,
        SAMPLE,
        START,
        TICK,
        TIMER,
        agenda_of,
        cpu_pause,
        fetch_add,
        load_acquire,
        load_relaxed,
        lowest_bit,
        node_at,
        outbox_at,
        port_at,
        sched_yield,
        start_at,
        store_release,
        whole,
        worker_at,
    )
    from penstock_net.fabric.switch import transmit
    from penstock_net.sim.core.agenda import bring_forward, clear_mail, least, next_time, take_mail
    from penstock_net.sim.core.arrivals import arrive
    from penstock_net.sim.core.lifetimes import run_starts
    from penstock_net.sim.core.receiver import run_flow_timers
    from penstock_net.sim.core.sender import run_pacer, run_tick, transmit_host


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
    """One word of the bitmap of ports to which any worker sent packets in the last window."""
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


def deliver(node, port, pkt):
    """Append a packet to those on the wire towards a peer that is near."""
    worker = node.worker
    peer = node_at(worker.world, port.peer_node)
    end = port_at(peer, port.peer_slot)
    if end.in_head:
        end.in_tail.next = pkt
    else:
        end.in_head = pkt
        set_event(peer, port.peer_slot, pkt.time << KEY_BITS | port.peer_slot)
        bring_forward(worker, peer.place, pkt.time)
    end.in_tail = pkt


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


def run_leaf(node, which):
    """Execute an event that is neither an arrival nor a transmission."""
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
    elif which == TICK:
        run_tick(node)
    else:
        run_retries(node)


def process(node, limit):
    """Execute the events of one node before `limit`, a key; returns the time of its next one, in ps."""
    collect_arrivals(node)
    node.worker.limit = limit
    tree = node.tree
    ports = node.port_count
    key = tree[1]
    while key < limit:
        node.now = key >> KEY_BITS
        node.events += 1
        leaf = key & ((1 << KEY_BITS) - 1)
        if leaf < ports:
            arrive(node, key)
        elif leaf < 2 * ports:
            if node.is_host:
                transmit_host(node, port_at(node, leaf - ports))
            else:
                transmit(node, port_at(node, leaf - ports))
        else:
            run_leaf(node, leaf - 2 * ports)
        key = tree[1]
    return NEVER if key == NEVER else key >> KEY_BITS


def visit(worker, block, end):
    """Execute all events before `end` of the nodes below a block; returns the time of the next one."""
    times = agenda_of(worker).times
    for place in range(8 * block, 8 * block + 8):
        if times[place] < end:
            if worker.nodes[place]:
                times[place] = process(worker.nodes[place], end << KEY_BITS)
            else:
                times[place] = advance(worker, agenda_of(worker).below[place], times[place], end)
    return least(times, block)


def advance(worker, block, soonest, end):
    """Run a block from its next event to `end`, step by step; returns the time of the one after that."""
    while soonest < end:
        soonest = visit(worker, block, min(end, soonest + agenda_of(worker).steps[block]))
    return soonest


def end_of_window(worker):
    """End of a window: the shortest delay between groups; near the end of a run, a multiple of the shortest of all delays."""
    world = worker.world
    end = min(worker.window_start + world.window, worker.agenda.busy_until)
    return min(max(end, (worker.window_start // world.grid + 1) * world.grid), world.horizon)


def fastest(node):
    """Time for a byte, ps, of all ports of a host together."""
    if node.port_count == 1:
        return port_at(node, 0).ps_per_byte
    rate = 0.0
    for slot in range(node.port_count):
        rate += 1.0 / port_at(node, slot).ps_per_byte
    return 1.0 / rate


def busy(worker):
    """A lower bound on the end of this worker's flows: the time that their hosts need for the bytes not yet sent."""
    world = worker.world
    latest = 0
    for place in range(8 * worker.agenda.blocks):
        node = worker.nodes[place]
        if node and node.is_host:
            host = node.host
            ps_per_byte = fastest(node)
            flow = host.active
            while flow:
                if flow.connection <= 0:  # whose sequence counts more than bytes
                    latest = max(latest, worker.window_end + whole((flow.size - flow.high) * ps_per_byte))
                flow = flow.next_active
            if host.next_start < host.last_start:
                start = start_at(world, host.last_start - 1)
                latest = max(latest, start.time + whole(start.size * ps_per_byte))
    return latest


def look_ahead(worker):
    """A lower bound on the end of the run, recomputed at most once per window, and only if it limits the next window."""
    agenda = agenda_of(worker)
    window = worker.world.window
    if worker.window_start >= agenda.look_at and worker.window_end + window > agenda.busy_until:
        agenda.look_at = worker.window_start + window
        return busy(worker)
    return agenda.busy_by[worker.parity ^ 1]


def run_window(worker):
    """Run the worker's nodes that have events; returns the time of its next event, in ps."""
    worker.window_end = end_of_window(worker)
    worker.windows += 1
    take_mail(worker)
    soonest = advance(worker, worker.agenda.root, next_time(worker), worker.window_end)
    if worker.sent:
        soonest = min(soonest, worker.window_end)
    worker.sent = 0
    if worker.world.window > worker.world.grid:
        worker.agenda.busy_by[worker.parity] = look_ahead(worker)
    return soonest


def run_windows(worker, count):
    """Run until `count` windows, the horizon, the last flow or the last event, whichever comes first."""
    world = worker.world
    for _ in range(count):
        if worker.finished or worker.window_start >= world.horizon:
            return
        worker.next_window[worker.parity] = run_window(worker)
        worker.done_by[worker.parity] = FAILED if worker.error else worker.done - worker.afloat
        wait_for_all(world)
        clear_mail(worker, worker.parity ^ 1)
        soonest = NEVER
        done = 0
        for i in range(world.worker_count):
            other = worker_at(world, i)
            soonest = min(soonest, other.next_window[worker.parity])
            worker.agenda.busy_until = max(worker.agenda.busy_until, other.agenda.busy_by[worker.parity])
            done += other.done_by[worker.parity]
        worker.window_start = soonest
        worker.parity ^= 1
        if soonest == NEVER or done == world.flow_count or done <= FAILED + world.flow_count:
            worker.finished = 1
