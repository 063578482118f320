"""All-reduce in switches: a tree of them adds what its hosts send, packet by packet, and sends every sum back to all of them.

A group has a tree, each of whose nodes has a seat in it.  A chunk is what one packet carries.  A switch counts the parts of a
chunk that have come from its children; with the last one it sends one part up, and the root sends the sum down, which every
switch copies to its children.  A host is never more than a window of chunks ahead of the sums that it has received, so no switch
needs more accumulators than that for a group, and no port holds more of its packets: nothing is lost for lack of memory.

These packets are a class of their own: in the control lane, behind the control frames of schemes, which do not see them.

If a switch has room for so many groups only, a group first asks for it up its tree.  A switch passes that on when the group
before, in an order that is the same at all switches, has ended there; the root grants it to all hosts.
"""

import cython

if not cython.compiled:
    from penstock_net.fabric.line import kick, new_frame
    from penstock_net.fabric.queueing import push_control
    from penstock_net.fabric.state import ASK, GRANT, NEVER, PART, REDUCED, SUM, nic_at, port_at, seat_at


def new_chunk(node, seat, command, seq, payload):
    """A packet for a seat at the other end of a port; one without payload says only what its command does."""
    pkt = new_frame(node, REDUCED, command)
    pkt.slot = seat
    pkt.seq = seq
    pkt.payload = payload
    if payload:
        pkt.size = payload + node.worker.world.header
    node.frame_bytes += pkt.size
    return pkt


def pass_on(node, slot, seat, command, seq, payload):
    """Send such a packet when the line is free."""
    port = port_at(node, slot)
    push_control(port, new_chunk(node, seat, command, seq, payload))
    kick(node, port)


def spread(node, seat, command, seq, payload):
    """Send a packet to all children."""
    for i in range(seat.child, seat.child + seat.children):
        pass_on(node, seat_at(node.worker.world, i).down, i, command, seq, payload)


def ascend(node, seat, above, below, seq, payload):
    """All children have sent something: tell the parent, with the command `above`; the root tells all, with `below`."""
    if seat.parent >= 0:
        pass_on(node, seat.up, seat.parent, above, seq, payload)
    elif below == SUM:
        pass_down(node, seat, seq, payload)
    else:
        spread(node, seat, below, seq, payload)


def begin(node, seat):
    """Pass on that a group asks to begin, once all below have asked and the group before it has ended here."""
    if seat.asked == seat.children and (seat.before < 0 or seat_at(node.worker.world, seat.before).ended):
        ascend(node, seat, ASK, GRANT, 0, 0)


def end(node, seat):
    """The last sum of a group has passed: let the group that waits for its room begin."""
    seat.ended = 1
    if seat.after >= 0:
        begin(node, seat_at(node.worker.world, seat.after))


def add(node, seat, pkt):
    """A part of a sum has come from a child."""
    world = node.worker.world
    chunk = pkt.seq // world.mtu
    place = seat.parts + chunk % seat.ring
    if chunk == seat.begun:
        seat.begun += 1
        seat.most = max(seat.most, seat.begun - seat.summed)
    world.parts[place] += 1
    if world.parts[place] == seat.children:
        world.parts[place] = 0
        ascend(node, seat, PART, SUM, pkt.seq, pkt.payload)


def pass_down(node, seat, seq, payload):
    """Send a sum to all children."""
    seat.summed += 1
    spread(node, seat, SUM, seq, payload)
    if seq + payload == seat.size:
        end(node, seat)


def reduce(me, node, port, pkt):
    """A switch has received a packet of a tree."""
    seat = seat_at(node.worker.world, pkt.slot)
    node.hops += 1
    if pkt.number == PART:
        add(node, seat, pkt)
    elif pkt.number == SUM:
        pass_down(node, seat, pkt.seq, pkt.payload)
    elif pkt.number == ASK:
        seat.asked += 1
        begin(node, seat)
    else:
        spread(node, seat, GRANT, 0, 0)


# ---- Hosts ----


def enter(node, flow, seat):
    """Let a flow that starts be a host's part of a reduction: it has a window of chunks, leaves by the port to its tree, never
    times out."""
    world = node.worker.world
    place = seat_at(world, seat)
    flow.connection = -2 - seat
    flow.nic = nic_at(node, place.up)
    flow.rto = NEVER
    flow.window = world.chunks * world.mtu
    place.slot = flow.slot
    if world.groups_wait:
        flow.window = 0
        pass_on(node, place.up, place.parent, ASK, 0, 0)


def next_chunk(node, flow, seq):
    """The next packet of such a flow."""
    world = node.worker.world
    seat = seat_at(world, -2 - flow.connection)
    payload = min(flow.size - seq, world.mtu)
    flow.sent = seq + payload
    flow.high = flow.sent
    return new_chunk(node, seat.parent, PART, seq, payload)
