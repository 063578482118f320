"""A short queue keeps the packets of the flows that come first by number, whatever arrives; what is dropped is counted twice."""

parameters = {"limit": ("int32 1..1000", 8, "packets in a queue"), "exchange": ("bool", True, "else the first one is dropped")}
scheme_state = {"dropped": "int64"}
fabric = {"reordering": 1}


def admit(evict, node, port, pkt):
    queue = queue_at(port, 0)
    if pkt.kind != DATA or queue.length < evict.limit:
        return ADMITTED
    if evict.exchange:
        if pkt.number < queue.tail.number:
            exchange_with_tail(node, port, queue, pkt)
        return DROPPED
    drop_queued(node, port, queue, queue.head)
    return ADMITTED


def on_drop(evict, node, port, pkt):
    evict.dropped += 1
