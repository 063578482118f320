"""Virtual cut-through: a switch forwards a packet when its header has arrived, if nothing is in its way.

Towards such a switch, a packet that is longer than a header is due when its header has arrived: it is routed then. If its egress
is idle and not too fast, it is sent on at once. Else it is due again when its last bit has arrived, and is stored and forwarded.
`time` of a packet is when it is due.
"""

import cython

if not cython.compiled:
    from penstock_net.fabric.losses import drop
    from penstock_net.fabric.queueing import set_event
    from penstock_net.fabric.routing import group_towards
    from penstock_net.fabric.state import (
        ACK,
        ADDRESSED,
        CONTROL_LANE,
        DROP_NO_ROUTE,
        KEY_BITS,
        NOT_ROUTED,
        node_at,
        outbox_at,
        port_at,
        queue_at,
    )
    from penstock_net.fabric.switch import chosen, enqueue
    from penstock_net.fabric.wire import transmission


def rest_of(node, port, pkt):
    """Time until the last bit of a packet arrives that is due at a port, ps; 0: all of it has."""
    if port.complete or not node.cut_through or pkt.size <= node.cut_through:
        return 0
    sender = port_at(node_at(node.worker.world, port.peer_node), port.peer_slot)
    return max(0, transmission(sender, pkt.size) + pkt.out_port - sender.head_ps)


def is_forwarded(pkt):
    """Whether a packet at a switch is not for the switch itself."""
    return pkt.kind <= ACK or pkt.flags == ADDRESSED


def complete_later(node, port, pkt, rest, slot):
    """A packet that was due is due again when its last bit has arrived; `slot`: its egress, NOT_ROUTED if it has none yet."""
    port.rx_bytes -= pkt.size
    port.complete = 1
    pkt.time = node.now + rest
    pkt.out_port = slot
    pkt.next = port.in_head
    if not port.in_head:
        port.in_tail = pkt
    port.in_head = pkt
    set_event(node, port.slot, pkt.time << KEY_BITS | port.slot)


def cuts_through(node, port, pkt, rest):
    """Whether a packet whose last bit arrives after `rest`, ps, may begin to leave by a port now.

    A line counts as free from 1 ps before it is: where a byte does not take whole picoseconds, packets in a row on the ingress
    and on the egress may be rounded differently.
    """
    if port.down or port.retrying or port.control_head or port.free_at > node.now + 1 or transmission(port, pkt.size) < rest:
        return False
    if pkt.lane == CONTROL_LANE:
        return True
    if port.bytes or port.paused:
        return False
    if node.ops.choose_queue:
        return True
    return not queue_at(port, pkt.priority).paused


def forward_header(node, port, pkt, rest):
    """The header of a packet has arrived at a port of a switch."""
    group = group_towards(node, pkt.dst)
    if group < 0:
        drop(node, port, pkt, DROP_NO_ROUTE)
        return
    count = node.next_hops[group]
    if count > 1:
        group += chosen(node, port.slot, pkt, count)
    egress = port_at(node, node.next_hops[group + 1])
    if cuts_through(node, egress, pkt, rest):
        enqueue(node, egress, pkt)
    else:
        complete_later(node, port, pkt, rest, egress.slot)


def store(node, pkt):
    """The last bit of a packet has arrived that was routed when its header had."""
    enqueue(node, port_at(node, pkt.out_port), pkt)


def complete_all(node, port):
    """Before the rate of a port changes: all that it has sent to a switch that cuts through is due when its last bit arrives."""
    peer = node_at(node.worker.world, port.peer_node)
    end = port_at(peer, port.peer_slot)
    count = await_last_bits(peer, end, end.in_head, 0)
    for parity in range(2):
        count = await_last_bits(peer, end, outbox_at(node.worker, parity, node.first_port + port.slot).head, count)
    end.complete = count
    if end.in_head:
        set_event(peer, end.slot, end.in_head.time << KEY_BITS | end.slot)


def await_last_bits(node, port, pkt, count):
    """The packets of a list, of which `count` come before it on the wire, are due at a port when their last bits arrive."""
    complete = port.complete
    port.complete = 0
    while pkt:
        if count >= complete:
            pkt.time += rest_of(node, port, pkt)
            pkt.out_port = NOT_ROUTED
        count += 1
        pkt = pkt.next
    port.complete = complete
    return count
