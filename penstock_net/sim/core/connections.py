"""Connections: flows between two hosts that are sent one after another, as messages of a queue pair.

A connection is one flow of the sender, whose sequence is that of its messages in the order in which they were handed to the NIC.
So the path, the window, the rate and all that a scheme keeps of a flow last from one message to the next.  A packet belongs to
one message; the sequence counts whole packets, so the next message begins at a multiple of the MTU.

An entry of `world.messages` is written by the sender before the first packet of its message leaves; the receiver reads it when
that packet has arrived in order.
"""

import cython

if not cython.compiled:
    from penstock_net.fabric.state import LAST, MORE, connection_at, hash31, message_at, past, whole_packets


def ends_at(world, connection):
    """The place behind the last message of a connection."""
    return connection.first + connection.count


def post(world, connection, number, begin, size):
    """Append a message to those of a connection; returns where it ends."""
    message = message_at(world, connection.first + connection.posted)
    message.number = number
    message.end = begin + size
    connection.posted += 1
    return message.end


def join(world, flow):
    """A flow that has just been handed to the NIC takes the path of its connection, and becomes that if it is the first."""
    place = world.connection_of[flow.number]
    if not place:
        return
    connection = connection_at(world, place - 1)
    flow.hash = hash31(connection.number, world.seed)
    if world.messages:
        post(world, connection, flow.number, 0, flow.size)
        flow.number = connection.number
        flow.connection = place
        flow.message = connection.first
        flow.sending = connection.first
        connection.slot = flow.slot + 1


def message_of(world, flow, seq):
    """The message that the byte `seq` of a connection belongs to: its place."""
    connection = connection_at(world, flow.connection - 1)
    at = flow.sending
    while at > connection.first and message_at(world, at - 1).end > seq:
        at -= 1
    while at + 1 < connection.first + connection.posted and message_at(world, at).end <= seq:
        at += 1
    flow.sending = at
    return at


def end_with_message(world, flow, pkt):
    """Let a packet end with its message, and say in it whether it is the last one of that or of the connection; returns the
    sequence number behind it."""
    end = message_at(world, message_of(world, flow, pkt.seq)).end
    pkt.payload = min(end - pkt.seq, world.mtu)
    pkt.flags = 0
    if pkt.seq + pkt.payload == end:
        last = ends_at(world, connection_at(world, flow.connection - 1)) - 1
        pkt.flags = LAST if flow.sending == last else MORE
    return past(world, pkt)


def goes_on(world, flow):
    """Whether a connection has messages left."""
    return flow.message < ends_at(world, connection_at(world, flow.connection - 1))


def begin_sink(world, sink, number):
    """What the receiver knows of a connection before its first message."""
    place = world.connection_of[number]
    if place and world.messages:
        sink.message = connection_at(world, place - 1).first + 1


def next_arrived(world, sink, number):
    """The number of the next message of a connection that has arrived in full; -1: none."""
    place = sink.message - 1
    if place == ends_at(world, connection_at(world, world.connection_of[number] - 1)) or sink.expected <= sink.begins:
        return -1
    message = message_at(world, place)
    if sink.expected < message.end:
        return -1
    sink.message += 1
    sink.begins = whole_packets(world, message.end)
    return message.number
