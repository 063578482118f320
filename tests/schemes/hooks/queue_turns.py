"""Round robin by packets in the order of the queues' numbers, from behind the queue served last: where the ring has no tail."""

port_state = {"turn": "int32"}


def next_queue(queue_turns, node, port):
    mine = my_port(queue_turns, port)
    for i in range(port.queue_count):
        k = (mine.turn + i) % port.queue_count
        queue = queue_at(port, k)
        if queue.length > 0 and not queue.paused:
            mine.turn = (k + 1) % port.queue_count
            return k
    return -1
