"""Packets arrive at the ports of a node.

Those that arrive in one picosecond are served in an order that is drawn by seed, node and time.  Otherwise the port of the
smallest number would always be the first one, and with senders in step the same host would always win.
"""

import cython

if not cython.compiled:
    from penstock_net.fabric.line import receive_control
    from penstock_net.fabric.queueing import set_event
    from penstock_net.fabric.state import (
        ACK,
        ADDRESSED,
        DATA,
        KEY_BITS,
        NEVER,
        NO_PACKET,
        ORDERED,
        RETURNED,
        UNANSWERED,
        hash31,
        pick,
        port_at,
        prefetch,
        rare,
    )
    from penstock_net.fabric.switch import receive
    from penstock_net.sim.core.receiver import receive_data
    from penstock_net.sim.core.sender import receive_ack, receive_apart
    from penstock_net.sim.core.watched import stops


def take(node, port):
    """Take the first packet from the wire towards a port."""
    pkt = port.in_head
    following = pkt.next
    port.in_head = following
    if following:
        set_event(node, port.slot, following.time << KEY_BITS | port.slot)
        prefetch(following.next)
    else:
        set_event(node, port.slot, NEVER)
    port.rx_bytes += pkt.size
    pkt.in_port = port.slot
    return pkt


def accept(node, port, pkt):
    """A packet has arrived at a port."""
    if rare(port.watched):
        if stops(node, port, pkt):
            return
    if pkt.kind > ACK:
        if pkt.flags == ADDRESSED:
            node.hops += 1
            if not node.is_host:
                receive(node, port.slot, pkt)
                return
        receive_control(node, port.slot, pkt)
        return
    node.hops += 1
    if not node.is_host:
        receive(node, port.slot, pkt)
    elif pkt.kind == DATA:
        if rare(pkt.flags & (RETURNED | UNANSWERED)):
            receive_apart(node, pkt)
        else:
            receive_data(node, pkt)
    else:
        receive_ack(node, pkt)


def take_sets(node, end):
    """Ordered sets that are next at a node, at keys before `end`, are no packets, and handled at once."""
    while node.tree[1] < end:
        port = port_at(node, node.tree[1] & ((1 << KEY_BITS) - 1))
        if port.in_head.kind != ORDERED:
            return
        node.events += 1
        accept(node, port, take(node, port))


def first_frame(node, pkt, end):
    """The first one of what arrives with an ordered set, which is handled; NO_PACKET: nothing does."""
    if pkt.kind != ORDERED:
        return pkt
    accept(node, port_at(node, pkt.in_port), pkt)
    take_sets(node, end)
    if node.tree[1] >= end:
        return NO_PACKET
    node.events += 1
    return take(node, port_at(node, node.tree[1] & ((1 << KEY_BITS) - 1)))


def shuffle(node, pkt, end):
    """Take what arrives with a packet, at keys before `end`, and draw an order of all of it; returns the place of the first one,
    from which the order leads down to 0; -1: there were ordered sets only."""
    together = node.together
    retries = node.worker.world.retries
    if rare(retries):
        pkt = first_frame(node, pkt, end)
        if not pkt:
            return -1
        take_sets(node, end)
    together[0] = pkt
    last = 0
    while node.tree[1] < end:
        slot = node.tree[1] & ((1 << KEY_BITS) - 1)
        if slot <= together[last].in_port:  # it brings several in this picosecond, as a real switch's link may: in their order
            break
        last += 1
        together[last] = take(node, port_at(node, slot))
        if rare(retries):
            take_sets(node, end)
    node.events += last
    hash = hash31(node.now, node.random_seed)
    for i in range(last):
        chosen = i + pick(hash, i, last + 1 - i)
        pkt = together[chosen]
        together[chosen] = together[i]
        together[i] = pkt
    return last


def arrive(node, key):
    """The event of an arrival: a packet arrives at its port, and with it those that arrive elsewhere in this picosecond."""
    slot = key & ((1 << KEY_BITS) - 1)
    port = port_at(node, slot)
    pkt = take(node, port)
    others = 0
    if rare(node.tree[1] < key - slot + node.port_count):
        others = shuffle(node, pkt, key - slot + node.port_count)
        if rare(others < 0):
            return
        pkt = node.together[others]
        port = port_at(node, pkt.in_port)
    while True:
        accept(node, port, pkt)
        if others == 0:
            return
        others -= 1
        pkt = node.together[others]
        port = port_at(node, pkt.in_port)
