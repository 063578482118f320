"""Dimension-order routing in a torus, with a dateline in every ring (Dally and Seitz, IEEE Transactions on Computers C-36, 1987).

A packet goes the shorter way around the ring of the first dimension in which it is not yet where it shall be, then of the next
one; half-way around, its flow's hash says which way.  It has two virtual channels, which are queues: 0 at first and in every
new dimension, 1 from the link on that closes the ring.  Pauses of these (`dimension_order+pfc` with `pfc.priorities = 2`) cannot
wait for one another in a circle; pauses of whole links can.  The classes take the place of the flows' priorities.
"""

parameters = {"classes": ("int32 1..2", 2, "virtual channels; 1 = queues by priority, as without them")}
packet_state = {"next": "int8"}
fabric = {"queues": "classes", "classes": "classes", "rings": 1}


def choose_port(dimension_order, node, port, pkt):
    if pkt.kind > ACK or node.tier == 0:
        return -1
    if port_towards(node, pkt, pkt.dst) == NO_PORT:
        return -1
    mine = my_packet(dimension_order, pkt)
    if port.up < 0:
        mine.next = 0
    elif dimension_order.classes > 1:
        pkt.priority = mine.next
    way = path_at(node, pkt, pick(pkt.hash, node.hash_seed, alike(node, pkt)))
    if way.label >> 1 != port.label >> 1:
        mine.next = 0
    if way.label & 1:
        mine.next = dimension_order.classes - 1
    return way.slot


def alike(node, pkt):
    """How many of a packet's next hops are in the first dimension of all of them; ports are in the order of dimensions."""
    count = 1
    while count < path_count(node, pkt) and path_at(node, pkt, count).label >> 1 == path_at(node, pkt, 0).label >> 1:
        count += 1
    return count


def choose_queue(dimension_order, node, port, pkt):
    """The class for the next link; to servers, and without classes, the one in which the packet came."""
    if dimension_order.classes == 1 or pkt.kind > ACK or node.tier == 0 or port.up < 0:
        return pkt.priority
    return my_packet(dimension_order, pkt).next
