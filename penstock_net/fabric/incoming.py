"""What schemes do at a flow's receiver: a timer for each incoming flow, an order of them, frames about it, what links bring."""

import cython

if not cython.compiled:
    from penstock_net.fabric.heap import add, fix, goes_first, remove
    from penstock_net.fabric.queueing import set_node_event
    from penstock_net.fabric.state import FLOW_TIMER, NEVER, NO_INCOMING, first_incoming, keyed_incoming, port_at, timers_of


def set_flow_timer(node, incoming, when):
    """Call on_flow_timer for this incoming flow at `when`; NEVER cancels it."""
    host = node.host
    heap = timers_of(host)
    soonest = next_flow_timer(heap)
    if incoming.heap_at < 0:
        if when == NEVER:
            return
        incoming.key = when
        add(node.worker.arena, heap, keyed_incoming(incoming))
    elif when == NEVER:
        remove(heap, keyed_incoming(incoming))
    else:
        incoming.key = when
        fix(heap, keyed_incoming(incoming))
    if next_flow_timer(heap) != soonest and not host.in_flow_timers:
        set_node_event(node, FLOW_TIMER, min(next_flow_timer(heap), host.acks_due))


def next_flow_timer(heap):
    """When the first timer expires; NEVER if none is set."""
    return first_incoming(heap).key if heap.size else NEVER


def precedes(node, a, b):
    """Whether an incoming flow comes before another in the order of ranks; the seed decides between those of the same one."""
    if a.rank != b.rank:
        return a.rank < b.rank
    return goes_first(a.number, b.number, node.random_seed)


def rank_incoming(node, incoming, rank):
    """Place an incoming flow among those of this receiver that are ranked, or move it to where its new rank belongs."""
    before = NO_INCOMING
    after = node.host.ranking
    if incoming.ranked:
        before = incoming.before
        after = incoming.after
        unrank_incoming(node, incoming)
    incoming.ranked = 1
    incoming.rank = rank
    while before and precedes(node, incoming, before):
        after = before
        before = before.before
    while after and precedes(node, after, incoming):
        before = after
        after = after.after
    incoming.before = before
    incoming.after = after
    if before:
        before.after = incoming
    else:
        node.host.ranking = incoming
    if after:
        after.before = incoming


def unrank_incoming(node, incoming):
    """Remove an incoming flow from those that are ranked; nothing if it is not among them."""
    if not incoming.ranked:
        return
    incoming.ranked = 0
    if incoming.before:
        incoming.before.after = incoming.after
    else:
        node.host.ranking = incoming.after
    if incoming.after:
        incoming.after.before = incoming.before


def first_ranked(node):
    """The incoming flow of the smallest rank; the others follow it by `after`.  NO_INCOMING if there is none."""
    if not node.is_host:
        return NO_INCOMING
    return node.host.ranking


def about_incoming(frame, incoming):
    """Note an incoming flow in a frame to its sender, where flow_of() finds it."""
    frame.slot = incoming.slot
    frame.seq = incoming.number
    frame.hash = incoming.hash


def about_sent(frame, flow):
    """Note a flow in a frame to its receiver, where incoming_of() finds it."""
    frame.slot = flow.slot
    frame.seq = flow.number
    frame.hash = flow.hash


def incoming_of(node, frame):
    """The incoming flow that about_sent() noted, which is new if nothing of it has arrived; NO_INCOMING if it has ended."""
    return node.ops.find_incoming.call(node, frame)


def incoming_at(node, number):
    """The incoming flow of this number; NO_INCOMING if nothing of it has arrived, or if it has ended."""
    if not node.is_host:
        return NO_INCOMING
    return node.ops.look_up_incoming.call(node, number)


def inbound_ps_per_byte(node):
    """Time per byte of what the links of a host bring, together those that are not down; it may take more, or send faster."""
    first = port_at(node, 0).peer_ps_per_byte
    if node.port_count == 1:
        return first
    links = 0.0
    for slot in range(node.port_count):
        if not port_at(node, slot).down:
            links += first / port_at(node, slot).peer_ps_per_byte
    return first / links if links > 0.0 else first
