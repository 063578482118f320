"""Acknowledgements that are not sent at once: those that answer several packets of a flow, and those that take time to make.

A flow of which packets wait for others has an entry in its host's table `held`, from the first of them on until its last packet.
Entries with a packet are in a list by the time at which it is acknowledged at the latest, which begins and ends at entry 0.  The
packet that came last waits, and becomes the acknowledgement; those before it are free already.
"""

import cython

if not cython.compiled:
    from penstock_net.fabric.incoming import next_flow_timer
    from penstock_net.fabric.line import kick
    from penstock_net.fabric.queueing import free_packet, push_control, set_node_event
    from penstock_net.fabric.state import FLOW_TIMER, NEVER, NO_PACKET, answer_of, held_at, held_in, port_at, timers_of
    from penstock_net.fabric.tables import new_held

# ---- The table ----


def grow_held(node):
    """Double the table, when all its entries are in use."""
    host = node.host
    count = max(2 * host.held_count, 16)
    table = new_held(node.worker.arena, count)
    for i in range(host.held_count):
        old = held_at(host, i)
        new = held_in(table, i)
        new.pkt = old.pkt
        new.due = old.due
        new.arrived = old.arrived
        new.packets = old.packets
        new.marked = old.marked
        new.before = old.before
        new.after = old.after
    for i in range(max(host.held_count, 1), count):
        held_in(table, i).after = i + 1 if i + 1 < count else 0
    host.free_held = max(host.held_count, 1)
    host.held = table
    host.held_count = count


def open_held(node):
    """An entry for a flow, of which no packet waits, and none has had a mark."""
    host = node.host
    if host.free_held == 0:
        grow_held(node)
    place = host.free_held
    held = held_at(host, place)
    host.free_held = held.after
    held.pkt = NO_PACKET
    held.packets = 0
    held.marked = 0
    return place


def close_held(host, place):
    """The flow has ended, and with it no packet waits."""
    held_at(host, place).after = host.free_held
    host.free_held = place


# ---- Packets that wait for others ----


def changes_mark(node, sink, pkt):
    """Whether the mark of a packet is not that of the packet of its flow before it."""
    if sink.held == 0:
        sink.held = open_held(node)
    return held_at(node.host, sink.held).marked != pkt.ecn


def waits(node, sink):
    """Whether a packet of this flow waits."""
    if held_at(node.host, sink.held).pkt:
        return True
    return False


def hold(node, sink, pkt, seq):
    """Let a packet wait, in place of the one before it; returns how many are to be acknowledged together."""
    host = node.host
    held = held_at(host, sink.held)
    if held.pkt:
        free_packet(node.worker, held.pkt)
    else:
        last = held_at(host, 0).before
        held.due = node.now + node.worker.world.ack_after
        held.before = last
        held.after = 0
        held_at(host, last).after = sink.held
        held_at(host, 0).before = sink.held
    pkt.seq = seq
    pkt.next = NO_PACKET
    held.pkt = pkt
    held.arrived = node.now
    held.marked = pkt.ecn
    held.packets += 1
    return held.packets


def take_held(node, place):
    """Remove the packet that waits, which notes how many it answers and how long it has waited."""
    host = node.host
    held = held_at(host, place)
    held_at(host, held.before).after = held.after
    held_at(host, held.after).before = held.before
    pkt = held.pkt
    note_answer(node, pkt, held.packets, node.now - held.arrived)
    held.pkt = NO_PACKET
    held.packets = 0
    return pkt


def note_answer(node, pkt, packets, waited):
    answer = answer_of(node.worker.world, pkt)
    answer.packets = packets
    answer.waited = waited


def first_due(node):
    """The entry whose packet is to be acknowledged by now; 0: none."""
    host = node.host
    if not host.held:
        return 0
    place = held_at(host, 0).after
    return place if place and held_at(host, place).due <= node.now else 0


# ---- Acknowledgements that are being made ----


def leave(node, port, pkt):
    """An acknowledgement is to leave by this port: after the time that it takes to make one."""
    world = node.worker.world
    if world.answer_at and not world.acks_held:
        note_answer(node, pkt, 1, 0)
    if world.ack_delay == 0:
        send_ack(node, port, pkt)
        return
    host = node.host
    answer_of(world, pkt).waited += world.ack_delay
    pkt.time = node.now + world.ack_delay
    pkt.next = NO_PACKET
    if host.leaving_head:
        host.leaving_tail.next = pkt
    else:
        host.leaving_head = pkt
    host.leaving_tail = pkt
    schedule_acks(node)


def send_ack(node, port, pkt):
    """Put an acknowledgement into the control lane, or among the data."""
    if node.worker.world.acks_queued:
        node.ops.store.call(node, port, pkt)
        return
    push_control(port, pkt)
    kick(node, port)


def send_made(node):
    """Send the acknowledgements that are made by now."""
    host = node.host
    while host.leaving_head and host.leaving_head.time <= node.now:
        pkt = host.leaving_head
        host.leaving_head = pkt.next
        send_ack(node, port_at(node, pkt.in_port), pkt)


def schedule_acks(node):
    """Set the event of the next acknowledgement that is due."""
    host = node.host
    due = NEVER
    if host.leaving_head:
        due = host.leaving_head.time
    if host.held and held_at(host, 0).after:
        due = min(due, held_at(host, held_at(host, 0).after).due)
    if due != host.acks_due:
        host.acks_due = due
        if not host.in_flow_timers:
            set_node_event(node, FLOW_TIMER, min(next_flow_timer(timers_of(host)), due))
