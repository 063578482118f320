"""Paced flows of a host, by time of the next packet, and ready ones by rank."""

import cython

if not cython.compiled:
    from penstock_net.fabric.heap import add, fix, put, remove
    from penstock_net.fabric.queueing import set_node_event
    from penstock_net.fabric.state import (
        ACK,
        IDLE,
        NEVER,
        NO_FLOW,
        PACE,
        PACED,
        READY,
        apart,
        first_flow,
        flow_at,
        keyed,
        mask_of,
        paced_of,
        ranked_of,
        rare,
        value_of,
        whole,
    )
    from penstock_net.fabric.wire import in_grains


def set_pace_timer(node):
    heap = paced_of(node.host)
    set_node_event(node, PACE, first_flow(heap).next_send if heap.size else NEVER)


def add_paced(node, flow):
    flow.state = PACED
    flow.key = flow.next_send
    heap = paced_of(node.host)
    if heap.size or not heap.capacity:
        apart(add_to_paced)(node, flow)
        return
    heap.size = 1
    put(heap, 0, keyed(flow))
    set_node_event(node, PACE, flow.next_send)


def add_to_paced(node, flow):
    """Add it to others, or make the heap first."""
    add(node.worker.arena, paced_of(node.host), keyed(flow))
    if flow.heap_at == 0:
        set_pace_timer(node)


def remove_paced(node, flow):
    remove(paced_of(node.host), keyed(flow))
    flow.state = IDLE


def fix_paced(node, flow):
    """Restore the heap after the time of a flow's next packet has changed."""
    flow.key = flow.next_send
    if paced_of(node.host).size > 1:
        apart(fix_among_paced)(node, flow)
        return
    set_node_event(node, PACE, flow.next_send)


def fix_among_paced(node, flow):
    fix(paced_of(node.host), keyed(flow))
    set_pace_timer(node)


def set_rank(node, flow, rank):
    """Of the flows that may send, the one with the smallest rank does, if the scheme asks for nic_order = 1."""
    flow.rank = rank
    if flow.state == READY and flow.heap_at >= 0 and flow.nic.by_rank:  # not while its packet is being made
        flow.key = rank
        fix(ranked_of(flow.nic), keyed(flow))


def set_rate(flow, bits_per_second):
    """Pace a flow from its next packet on; one that is already scheduled keeps its time unless repace() follows."""
    flow.pacing_gap = 8e12 / bits_per_second


def paced(node, time):
    """The gap behind a packet, ps; in whole grains, where times on the line are."""
    gap = whole(time)
    grain = node.worker.world.grain
    return in_grains(gap, grain) if rare(grain) else gap


def repace(node, flow):
    """Reschedule the next packet at the new rate, not before now; a flow in the round robin stays there."""
    if flow.state == READY:
        return
    if rare(node.worker.world.grain):
        apart(repace_in_grains)(node, flow)
        return
    gap = max(max(flow.pacing_gap, flow.fc_gap), flow.rate_gap)
    send_after(node, flow, whole(flow.last_size * gap))


def repace_in_grains(node, flow):
    """The same where times on the line are whole grains."""
    gap = max(max(flow.pacing_gap, flow.fc_gap), flow.rate_gap)
    send_after(node, flow, paced(node, flow.last_size * gap))


def send_after(node, flow, gap):
    """Let the next packet go `gap` after the last one, not before now."""
    flow.next_send = max(max(flow.last_send + gap, node.now), flow.held_until)
    if flow.state == PACED:
        apart(fix_paced)(node, flow)


def flow_of(node, pkt):
    """The flow of this host that about_flow() noted in a control frame; NO_FLOW if it has ended."""
    if value_of(pkt) < 0 or value_of(pkt) >= node.worker.flow_limit:
        return NO_FLOW
    flow = flow_at(node.worker, value_of(pkt))
    if flow.number == mask_of(pkt) and flow.src == node.id:
        return flow
    return NO_FLOW


def about_flow(frame, pkt):
    """Note the flow of a packet, or that which another frame is about, in a control frame, so that flow_of() finds it at its
    sender; its hash is for symmetric paths."""
    frame.slot = pkt.slot
    frame.seq = pkt.number if pkt.kind <= ACK else pkt.seq
    frame.hash = pkt.hash


def try_send(node, flow):
    """Let a flow send at once if it may: after its window was opened, or packets were to be sent again, outside on_ack."""
    node.ops.reschedule.call(node, flow)


def send_from(node, flow, offset):
    """Go back: send again everything from this byte on."""
    node.ops.go_back.call(node, flow, offset)
    node.ops.reschedule.call(node, flow)


def report_loss(node, flow, offset):
    """Tell load balancers that the packet of a flow which begins at `offset` was lost."""
    flow.lost = offset
    told = node.ops.on_loss
    while told:
        told.call(told.me, node, flow)
        told = told.next


def avoid_ports(flow, ports):
    """Where packets take turns of the ports of their host, those of a flow pass over these, unless it has no others."""
    flow.avoided = ports


def hold_flow(node, flow, until):
    """Send no packet of a flow before `until`."""
    flow.held_until = until
    flow.next_send = max(flow.next_send, until)
    if flow.state == PACED:
        fix_paced(node, flow)


def let_go(node, flow):
    """End what hold_flow() began: the flow goes on at its pace, now or when its next packet is due."""
    flow.held_until = node.now
    gap = max(max(flow.pacing_gap, flow.fc_gap), flow.rate_gap)
    send_after(node, flow, paced(node, flow.last_size * gap))


def first_flow_of(node):
    """The youngest unfinished flow of a host; flow.next_active is the next one. NO_FLOW: there is none."""
    return node.host.active if node.is_host else NO_FLOW
