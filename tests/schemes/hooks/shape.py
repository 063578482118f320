"""A port serves small packets, in queue 0, at most once in `gap`, and others at any time."""

parameters = {"gap": ("time", "2us", "between two small packets")}
port_state = {"last": "time"}
fabric = {"queues": 2}


def choose_queue(shape, node, port, pkt):
    return pkt.size > 500


def next_queue(shape, node, port):
    mine = my_port(shape, port)
    small = queue_at(port, 0)
    if small.length and (mine.last == 0 or node.now >= mine.last + shape.gap):
        mine.last = node.now
        return 0
    if queue_at(port, 1).length:
        return 1
    wake_port(node, port, mine.last + shape.gap)
    return -1
