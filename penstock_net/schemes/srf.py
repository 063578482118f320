"""Shortest remaining flow first, the order of BFC-SRF and IdealSRF (BFC, Goyal et al., NSDI 2022, appendix A.2).

`bfc+srf` is the paper's BFC-SRF, `ideal_fq+srf` its IdealSRF; it serves the queues of any other scheme as well.  Each packet
carries the bytes that its flow has left: its own and those behind it.  A port serves the queue whose first packet carries the
fewest, of those that are not paused; a NIC serves the flow whose next packet would.  Flows that have equally much left are
served in an order that the seed decides.

Flows of a higher priority go first at ports; at NICs priorities mean nothing.  ACKs that are queued with the data go before it.
"""

title = "SRF"
packet_state = {"left": "int64"}
queue_state = {"place": "int32"}
port_state = {"backlog": "int16[upstreams]", "backlogged": "int32"}
fabric = {"nic_order": 1, "by_message": 1}


# ---- Host ----


def on_start(srf, node, flow, pkt):
    set_rank(node, flow, flow.size)


def on_send(srf, node, flow, pkt):
    my_packet(srf, pkt).left = flow.size - pkt.seq
    set_rank(node, flow, flow.size - pkt.seq - pkt.payload)


# ---- Switch: the queues that have packets are listed; a queue's place in the list is stored plus one ----


def on_enqueue(srf, node, port, queue, pkt):
    mine = my_port(srf, port)
    if my_queue(srf, queue).place == 0:
        mine.backlog[mine.backlogged] = queue.index
        mine.backlogged += 1
        my_queue(srf, queue).place = mine.backlogged


def on_dequeue(srf, node, port, queue, pkt):
    if queue.length > 0:
        return
    mine = my_port(srf, port)
    place = my_queue(srf, queue).place
    mine.backlogged -= 1
    last = mine.backlog[mine.backlogged]
    mine.backlog[place - 1] = last
    my_queue(srf, queue_at(port, last)).place = place
    my_queue(srf, queue).place = 0


def left(srf, pkt):
    if pkt.kind == DATA:
        return my_packet(srf, pkt).left
    return 0


def precedes(node, pkt, bytes, level, fewest, number):
    """Whether a packet with `bytes` left goes before one of priority `level` of the flow `number`, which has `fewest` left."""
    if pkt.priority != level:
        return pkt.priority < level
    if bytes != fewest:
        return bytes < fewest
    return hash31(pkt.number, node.random_seed) < hash31(number, node.random_seed)


def first_backlogged(port):
    """At a host, where frames may wait among the data."""
    for i in range(port.queue_count):
        if queue_at(port, i).length > 0 and not queue_at(port, i).paused:
            return i
    return -1


def next_queue(srf, node, port):
    if node.is_host:
        return first_backlogged(port)
    mine = my_port(srf, port)
    best = -1
    level = 0
    fewest = 0
    number = 0
    for i in range(mine.backlogged):
        queue = queue_at(port, mine.backlog[i])
        if queue.length > 0 and not queue.paused:
            pkt = queue.head
            if best < 0 or precedes(node, pkt, left(srf, pkt), level, fewest, number):
                best = queue.index
                level = pkt.priority
                fewest = left(srf, pkt)
                number = pkt.number
    return best
