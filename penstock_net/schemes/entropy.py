"""Entropies: every packet carries a number, and among equal paths switches take the one that a hash of flow and number chooses.

This is what a UDP source port is to ECMP, for load balancers at senders: `oblivious`, `reps`, `mixed` and `plb` bring this part
along, declare packet_state = "entropy", and set `entropy` and `way` = hash31(flow.hash, entropy) in on_send.  The ACK of a packet
brings both back, and `rejected`: whether a switch before the last one has cut the payload off.  What a last switch cuts says
nothing of the path.  ACKs have a path of their own, by the same number.

By itself it leaves a flow on the path that it has without.  Queues of flows (`dqa`) are those of the flow whatever the entropy.
"""

packet_state = {"way": "int32", "entropy": "int32", "rejected": "int8"}
fabric = {"reordering": 1, "acts": 0}


def on_send(me, node, flow, pkt):
    mine = my_packet(me, pkt)
    mine.way = flow.hash
    mine.entropy = 0
    mine.rejected = 0


def choose_path(me, node, port, pkt):
    """Frames of schemes have no entropy."""
    way = pkt.hash
    if pkt.kind == DATA:
        way = my_packet(me, pkt).way
    elif pkt.kind == ACK:
        way = ~my_packet(me, pkt).way
    return pick(way, node.hash_seed, path_count(node, pkt))


def on_enqueue(me, node, port, queue, pkt):
    if pkt.kind == DATA and pkt.flags & TRIMMED and port.peer_node >= me.at.world.host_count:
        my_packet(me, pkt).rejected = 1
