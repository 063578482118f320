"""Packets on the wire: when they are due at the peer, and the outbox from which it takes them."""

import cython

if not cython.compiled:
    from penstock_net.fabric.llr import protect
    from penstock_net.fabric.state import ACK, NO_PACKET, bit, outbox_at


def note_mail(worker, number):
    """Note that a node will receive packets of this worker in the next window."""
    word = number >> 6
    worker.mailed[worker.parity][word] |= bit(number & 63)
    worker.mailed_words[worker.parity][word >> 6] |= bit(word & 63)
    worker.sent = 1


def post(node, port, pkt):
    """Append a packet to the outbox that the peer reads in the next window; a peer that is near gets it now."""
    worker = node.worker
    port.tx_bytes += pkt.size
    port.tx_packets += 1
    if pkt.kind == ACK:
        port.ack_bytes += pkt.size
    elif pkt.kind > ACK:
        port.frame_bytes += pkt.size
    pkt.next = NO_PACKET
    outbox = outbox_at(worker, worker.parity, node.first_port + port.slot)
    if outbox.head:
        outbox.tail.next = pkt
    elif port.near:
        node.ops.deliver.call(node, port, pkt)
        return
    else:
        outbox.head = pkt
        arrived = worker.arrived_ports[worker.parity]
        if not arrived[port.peer_word]:
            note_mail(worker, port.peer_node)
        arrived[port.peer_word] |= bit(port.peer_slot & 63)
    outbox.tail = pkt


def part(node, port, pkt):
    """What a packet takes beyond whole picoseconds per byte, rounded up, ps; the next packet in a row takes so much less."""
    if node.now > port.free_at:
        port.carry = 0
    port.carry -= pkt.size * port.part_ps
    more = -(port.carry >> 32)
    port.carry += more << 32
    return more


def transmission(port, size):
    """Time for so many bytes at a port's rate, rounded down, ps."""
    return size * port.whole_ps + (size * port.part_ps >> 32)


def in_grains(time, grain):
    """A time cut to whole grains, at least one."""
    return max(time - time % grain, grain)


def ahead(port, pkt, took):
    """How long before its last bit the peer handles a packet, ps: a switch that cuts through does when it has the header.

    The peer finds out with the packet's `out_port`, by what its time was rounded up: see rest_of() in sim/core/cutthrough.py.
    """
    if not port.head_ps or pkt.size <= port.head_bytes:
        return 0
    pkt.out_port = took - transmission(port, pkt.size)
    return max(0, took - port.head_ps)


def time_on_wire(node, port, pkt):
    """Time on the wire, ps: exact but for less than a picosecond, or in whole grains.

    A picosecond is added before it is cut, since what takes whole grains may have been rounded down.
    """
    grain = node.worker.world.grain
    if grain:
        return in_grains(transmission(port, pkt.size) + 1, grain)
    return pkt.size * port.whole_ps + part(node, port, pkt)


def send_uneven(node, port, pkt):
    """Transmit a packet of no whole picoseconds per byte, to a switch that cuts through, in whole grains, or with retry."""
    if port.llr:
        protect(node, port, pkt)
    took = time_on_wire(node, port, pkt)
    port.free_at = node.now + took
    pkt.time = port.free_at + port.delay - ahead(port, pkt, took)
    post(node, port, pkt)
