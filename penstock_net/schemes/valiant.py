"""Valiant's routing, and UGAL's choice between that and minimal paths, in networks of groups such as a dragonfly (ISCA 2008).

Kim, Dally, Scott, Abts: Technology-Driven, Highly-Scalable Dragonfly Topology; details as in SST's `merlin/topology`.
The first switch of a packet draws a host that is neither in its own group nor in the destination's; the packet goes towards it
on a minimal path until it is in that host's group, and then to its destination.  Within a group it goes by way of a random switch
of it.  `ugal` takes the minimal path if the queue of its port is at most twice that of the other way's port, plus `bias`.

Packets are in one of `classes` virtual channels, which are queues: 0 at first, one more whenever they enter a group, two more at
the intermediate switch within a group.  Pauses of these classes (`valiant+pfc` with as many `pfc.priorities`) cannot wait for one
another in a circle; pauses of whole links, or of fewer classes, can.  The classes take the place of the flows' priorities.

SST looks at the links between two groups one by one; here the one of several is taken that the flow's hash gives.
"""

parameters = {
    "policy": ("choice valiant ugal minimal", "valiant", "which paths: by way of a random group, as queues suggest, minimal"),
    "bias": ("bytes", 0, "ugal: so much longer may the minimal path's queue be (SST: 50 flits)"),
    "classes": (
        "int32 1..8",
        3,
        "virtual channels; minimal paths need two, others three; 1 = queues by priority, as without them",
    ),
}
presets = {"ugal": {"policy": "ugal"}, "minimal": {"policy": "minimal"}}
packet_state = {"via": "int32", "next": "int8"}
scheme_state = {"last": "int32"}
fabric = {"queues": "classes", "classes": "classes", "reordering": "policy < 2", "groups": 3}

UGAL = 1  # policies
MINIMAL = 2


def set_up_node(valiant, node):
    """Find the last group, once; where there are fewer than three all paths are minimal."""
    host = valiant.at.world.host_count if valiant.last else 0
    valiant.last = max(valiant.last, 1)
    while host < valiant.at.world.host_count:
        valiant.last = max(valiant.last, group_of(node, host))
        host += 1


def choose_port(valiant, node, port, pkt):
    if pkt.kind > ACK or node.tier == 0:
        return -1
    mine = my_packet(valiant, pkt)
    if port.up < 0:
        mine.via = -1
        mine.next = 0
        set_out(valiant, node, pkt)
    else:
        go_on(valiant, node, port, pkt)
    way = port_towards(node, pkt, pkt.dst if mine.via < 0 else mine.via)
    if way == NO_PORT:
        return -1
    return way.slot


def set_out(valiant, node, pkt):
    """Decide at the first switch of a packet."""
    if valiant.policy == MINIMAL or valiant.last < 2:
        return
    direct = port_towards(node, pkt, pkt.dst)
    if direct == NO_PORT or direct.up < 0:
        return
    via = drawn(valiant, node, group_of(node, pkt.dst))
    way = port_towards(node, pkt, via)
    if way == NO_PORT or way.up < 0:
        return
    if valiant.policy == UGAL and direct.bytes <= 2 * way.bytes + valiant.bias:
        return
    my_packet(valiant, pkt).via = via


def drawn(valiant, node, home):
    """A random host: of this group, if the packet stays in it, else of neither its own nor the destination's, `home`."""
    while 1:
        host = draw(node, RANDOM_PATH) % valiant.at.world.host_count
        group = group_of(node, host)
        if home == node.group:
            if group == home:
                return host
        elif group != home and group != node.group:
            return host


def go_on(valiant, node, port, pkt):
    """A packet came from another switch, in the class that it was given there."""
    mine = my_packet(valiant, pkt)
    if valiant.classes > 1:
        pkt.priority = mine.next
    step = port.label & 1
    if mine.via >= 0:
        if group_of(node, mine.via) != group_of(node, pkt.dst):
            if node.group == group_of(node, mine.via):
                mine.via = -1
        elif is_at(node, pkt, mine.via):
            mine.via = -1
            step = 2
    mine.next = min(mine.next + step, valiant.classes - 1)


def is_at(node, pkt, host):
    """Whether a host is at this switch, or no way leads to it."""
    way = port_towards(node, pkt, host)
    return 1 if way == NO_PORT or way.up < 0 else 0


def choose_queue(valiant, node, port, pkt):
    """The class for the next link; to servers, and without classes, the one in which the packet came."""
    if valiant.classes == 1 or pkt.kind > ACK or node.tier == 0 or port.up < 0:
        return pkt.priority
    return my_packet(valiant, pkt).next
