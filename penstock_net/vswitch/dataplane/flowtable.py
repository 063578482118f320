"""A worker's flow table: open addressing, numbers from a free list; flows are removed when idle and drained."""

import cython

if not cython.compiled:
    from penstock_net.vswitch.dataplane.flowtable import LOOKS, PROBES, RECENT_NS
    from penstock_net.vswitch.dataplane.prefixes import port_of
    from penstock_net.vswitch.dataplane.state import (
        NO_FLOW,
        NO_QUEUE,
        NO_ROUTE,
        SPOOFED,
        announce,
        clear_flow,
        flow_at,
        flow_end,
        flow_key,
        no_flow,
        port_at,
        same_key,
        set_key,
        view_of,
    )
    from penstock_net.vswitch.memory.layout import load64, mixed, word_at
    from penstock_net.vswitch.memory.rings import close_queue, is_drained


def hash_of(worker, key):
    hash = mixed(worker.seed, key.words[4])
    for i in range(4):
        hash = mixed(hash, key.words[i])
    return hash


def find_flow(worker, key):
    at = hash_of(worker, key) & worker.table_mask
    while worker.table[at]:
        flow = flow_at(worker, worker.table[at] - 1)
        if same_key(flow_key(flow), key):
            return flow
        at = (at + 1) & worker.table_mask
    return no_flow()


def owner_of(worker, high, low_half):
    """The port of an address, or -1."""
    return port_of(worker.prefixes, high, low_half)


def new_flow(worker, port, key, now):
    """Create a flow; returns its number, or -1 minus the reason of a failure."""
    target = owner_of(worker, key.words[2], key.words[3])
    if target < 0:
        return -1 - NO_ROUTE
    if port.guarded and not may_send_from(worker, port, key):
        return -1 - SPOOFED
    return flow_between(worker, port, port_at(worker, target), key, now)


def may_send_from(worker, port, key):
    """Whether a guarded port may send from the source address of a flow: its own, or a station's, which no port has."""
    owner = owner_of(worker, key.words[0], key.words[1])
    return owner == port.number or (owner < 0 and port.learns)


def flow_between(worker, port, to, key, now):
    """Create a flow between two ports; returns its number, or -1 minus the reason of a failure."""
    if not may_open(worker, port, to) and not reclaim(worker, port, to, now):
        return -1 - NO_QUEUE
    if worker.free_flow_count == 0:
        return -1 - NO_FLOW
    worker.free_flow_count -= 1
    number = worker.free_flows[worker.free_flow_count] - 1
    if number < 0:
        number = worker.flow_room - 1 - worker.free_flow_count
    flow = flow_at(worker, number)
    clear_flow(flow)
    set_key(flow, key)
    flow.number = number
    flow.used = 1
    flow.source = port.number
    flow.target = to.number
    flow.used_at = now
    flow.sampled_at = now
    to.free_count -= 1
    flow.queue = to.free_queues[to.free_count]
    to.flow_of[flow.queue] = number + 1
    to.flows += 1
    to.flows_from[port.number] += 1
    worker.flow_count += 1
    worker.flow_top = max(worker.flow_top, number + 1)
    link_flow(worker, flow)
    join_ring(worker, to, flow)
    return number


# ---- What a sender may take of a receiver's queues ----


def may_open(worker, port, to):
    """Whether a sender may open another queue of a receiver: it has fewer than are free, less one per other port."""
    others = min(worker.port_count - 2, to.view.queues // 8)
    return to.free_count > to.flows_from[port.number] + (max(others, 0) if to.flows_from[port.number] else 0)


def reclaim(worker, port, to, now):
    """Remove a drained, not recently used flow between two ports, among the next few; returns whether there was one."""
    if worker.scheme:  # it may have packets of the flow
        return False
    for _ in range(LOOKS):
        if to.hand[port.number] == 0:
            return False
        flow = flow_at(worker, to.hand[port.number] - 1)
        to.hand[port.number] = flow.after
        if now - flow.used_at > RECENT_NS and close_flow(worker, flow):
            remove_flow(worker, flow)
            worker.reclaimed += 1
            return may_open(worker, port, to)
    return False


def host_of(worker, port, to, key):
    """The flow whose receive queue a flow without one shares: same sender and receiver, chosen by hash; or NULL."""
    if to.hand[port.number] == 0:
        return no_flow()
    at = hash_of(worker, key) % to.view.queues
    for _ in range(PROBES):
        number = to.flow_of[at] - 1
        if number >= 0 and flow_at(worker, number).source == port.number:
            return flow_at(worker, number)
        at = at + 1 if at + 1 < to.view.queues else 0
    return flow_at(worker, to.hand[port.number] - 1)


def join_ring(worker, to, flow):
    """Append a flow to the ring of flows between its two ports; reclaim() reaches it last."""
    if to.hand[flow.source] == 0:
        to.hand[flow.source] = flow.before = flow.after = flow.number + 1
        return
    first = flow_at(worker, to.hand[flow.source] - 1)
    flow.after = first.number + 1
    flow.before = first.before
    flow_at(worker, first.before - 1).after = flow.number + 1
    first.before = flow.number + 1


def leave_ring(worker, to, flow):
    if flow.after == flow.number + 1:
        to.hand[flow.source] = 0
        return
    flow_at(worker, flow.before - 1).after = flow.after
    flow_at(worker, flow.after - 1).before = flow.before
    if to.hand[flow.source] == flow.number + 1:
        to.hand[flow.source] = flow.after


def link_flow(worker, flow):
    at = hash_of(worker, flow_key(flow)) & worker.table_mask
    while worker.table[at]:
        at = (at + 1) & worker.table_mask
    worker.table[at] = flow.number + 1


def enter_flows(worker):
    """Enter all flows into an empty hash table."""
    for i in range(worker.flow_top):
        if flow_at(worker, i).used:
            link_flow(worker, flow_at(worker, i))


def renew_flow(worker, flow):
    """Give a flow a key that no frame has and let it age: its next frame creates a new flow, perhaps with another target."""
    unlink_flow(worker, flow)
    flow.key.words[4] |= 1 << 30
    link_flow(worker, flow)


def is_misled(worker, flow):
    """Whether the addresses of a flow no longer belong to its ports."""
    key = flow_key(flow)
    if owner_of(worker, key.words[2], key.words[3]) != flow.target:
        return True
    return port_at(worker, flow.source).guarded and owner_of(worker, key.words[0], key.words[1]) != flow.source


def unlink_flow(worker, flow):
    """Remove a flow from the hash table; later entries of its probe sequence move up."""
    at = hash_of(worker, flow_key(flow)) & worker.table_mask
    while worker.table[at] != flow.number + 1:
        at = (at + 1) & worker.table_mask
    worker.table[at] = 0
    hole = at
    at = (at + 1) & worker.table_mask
    while worker.table[at]:
        home = hash_of(worker, flow_key(flow_at(worker, worker.table[at] - 1))) & worker.table_mask
        if ((at - home) & worker.table_mask) >= ((at - hole) & worker.table_mask):
            worker.table[hole] = worker.table[at]
            worker.table[at] = 0
            hole = at
        at = (at + 1) & worker.table_mask


def remove_flow(worker, flow):
    """Remove a flow whose queue is closed or whose receiver is detached."""
    unlink_flow(worker, flow)
    to = port_at(worker, flow.target)
    leave_ring(worker, to, flow)
    to.flow_of[flow.queue] = 0
    to.free_queues[to.free_count] = flow.queue
    to.free_count += 1
    to.flows -= 1
    to.flows_from[flow.source] -= 1
    worker.flow_count -= 1
    flow.used = 0
    worker.free_flows[worker.free_flow_count] = flow.number + 1
    worker.free_flow_count += 1


def close_flow(worker, flow):
    """Close a flow's receive queue; False: the receiver has not emptied it, or has not reported it."""
    if not flow.open:
        return True
    to = port_at(worker, flow.target)
    view = view_of(to)
    if load64(word_at(view.consumed[1], flow.queue)) - flow.base != flow.sent or not is_drained(view, flow_end(flow)):
        return False
    if not close_queue(view, flow_end(flow), 1, flow.queue):
        return False
    announce(to, flow.queue)
    return True


def age(worker, now, count):
    """Remove those of the next `count` flows that have been idle for `idle_ns` and are drained."""
    for _ in range(min(count, worker.flow_top)):
        worker.age_at += 1
        if worker.age_at >= worker.flow_top:
            worker.age_at = 0
        flow = flow_at(worker, worker.age_at)
        if flow.used and now - flow.used_at > worker.idle_ns:
            if close_flow(worker, flow):
                remove_flow(worker, flow)
