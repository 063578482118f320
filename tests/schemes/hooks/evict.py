"""A short queue keeps the packets of the flows that come first by number, whatever arrives; what is dropped is counted twice."""

parameters = {"queue": ("int32 1..1000", 8, "full packets in one"), "exchange": ("bool", True, "else the first one is dropped")}
scheme_state = {"dropped": "int64"}
fabric = {"reordering": 1}


def admit(evict, node, port, pkt):
    world = evict.at.world
    queue = queue_at(port, 0)  # although a parameter has its name
    if pkt.kind != DATA or queue.bytes < evict.queue * world.quantum:
        return ADMITTED
    if evict.exchange:
        if pkt.number < queue.tail.number:
            exchange_with_tail(node, port, queue, pkt)
        return DROPPED
    drop_queued(node, port, queue, queue.head)
    return ADMITTED


def on_drop(evict, node, port, pkt):
    evict.dropped += 1
