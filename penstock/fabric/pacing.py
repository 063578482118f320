"""Paced flows of a host: a binary heap by time of the next packet, then by flow number."""

import cython

if not cython.compiled:
    from penstock.fabric.queueing import set_node_event
    from penstock.fabric.state import IDLE, NEVER, NO_FLOW, PACE, PACED, READY, flow_at, mask_of, new_flow_refs, value_of, whole


def sooner(a, b):
    if a.next_send < b.next_send or (a.next_send == b.next_send and a.number < b.number):
        return True
    return False


def put_flow(host, i, flow):
    host.heap[i] = flow
    flow.heap_at = i


def sift_up(host, i):
    flow = host.heap[i]
    while i > 0 and sooner(flow, host.heap[(i - 1) >> 1]):
        put_flow(host, i, host.heap[(i - 1) >> 1])
        i = (i - 1) >> 1
    put_flow(host, i, flow)


def sift_down(host, i):
    flow = host.heap[i]
    child = 2 * i + 1
    while child < host.heap_size:
        if child + 1 < host.heap_size and sooner(host.heap[child + 1], host.heap[child]):
            child += 1
        if not sooner(host.heap[child], flow):
            break
        put_flow(host, i, host.heap[child])
        i = child
        child = 2 * i + 1
    put_flow(host, i, flow)


def grow_heap(node):
    host = node.host
    heap = new_flow_refs(node.worker.arena, 2 * host.heap_capacity)
    for i in range(host.heap_size):
        heap[i] = host.heap[i]
    host.heap = heap
    host.heap_capacity *= 2


def set_pace_timer(node):
    host = node.host
    set_node_event(node, PACE, host.heap[0].next_send if host.heap_size else NEVER)


def add_paced(node, flow):
    host = node.host
    if host.heap_size == host.heap_capacity:
        grow_heap(node)
    flow.state = PACED
    host.heap_size += 1
    put_flow(host, host.heap_size - 1, flow)
    sift_up(host, host.heap_size - 1)
    if flow.heap_at == 0:
        set_pace_timer(node)


def remove_paced(node, flow):
    host = node.host
    i = flow.heap_at
    host.heap_size -= 1
    last = host.heap[host.heap_size]
    flow.heap_at = -1
    flow.state = IDLE
    if i < host.heap_size:
        put_flow(host, i, last)
        sift_down(host, i)
        sift_up(host, last.heap_at)


def fix_paced(node, flow):
    """Restore the heap after the time of a flow's next packet has changed."""
    host = node.host
    sift_down(host, flow.heap_at)
    sift_up(host, flow.heap_at)
    set_pace_timer(node)


def set_rate(flow, bits_per_second):
    """Pace a flow from its next packet on; one that is already scheduled keeps its time unless repace() follows."""
    flow.pacing_gap = 8e12 / bits_per_second


def repace(node, flow):
    """Reschedule the next packet at the new rate, not before now; a flow in the round robin stays there."""
    if flow.state == READY:
        return
    gap = max(flow.pacing_gap, flow.fc_gap)
    flow.next_send = max(max(flow.last_send + whole(flow.last_size * gap), node.now), flow.held_until)
    if flow.state == PACED:
        fix_paced(node, flow)


def flow_of(node, pkt):
    """The flow of this host that about_flow() noted in a control frame; NO_FLOW if it has ended."""
    if value_of(pkt) < 0 or value_of(pkt) >= node.worker.flow_limit:
        return NO_FLOW
    flow = flow_at(node.worker, value_of(pkt))
    if flow.number == mask_of(pkt) and flow.src == node.id:
        return flow
    return NO_FLOW


def about_flow(frame, pkt):
    """Note the flow of a packet in a control frame, so that flow_of() finds it at its sender."""
    frame.slot = pkt.slot
    frame.seq = pkt.number


def hold_flow(node, flow, until):
    """Send no packet of a flow before `until`."""
    flow.held_until = until
    flow.next_send = max(flow.next_send, until)
    if flow.state == PACED:
        fix_paced(node, flow)
