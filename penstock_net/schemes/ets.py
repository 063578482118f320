"""Enhanced transmission selection (IEEE 802.1Qaz): the priorities of a port share its link by weights, instead of strictly.

Those in `strict` go first, in their order.  The others are served by deficit round robin (Shreedhar and Varghese, SIGCOMM 1995,
section 3), with a quantum of one full packet times the `weights` of the priority.  What one does not use, because it has nothing
or is paused, the others share.  A NIC serves its flows in strict priority; this is the order at switches: `pfc+ets`, `dcqcn+ets`.
"""

title = "ETS"
parameters = {
    "weights": ("float64[8] 0..1000", [], "share of each priority, from 0 on, relative to the others; 0 or none given = 1"),
    "strict": ("set 0..7", [], "priorities that go before those with weights"),
}
port_state = {"turn": "int32"}
queue_state = {"deficit": "int64"}
fabric = {"priorities": 8}

PRIORITIES = 8


def quantum(ets, i):
    """Bytes for which a priority is credited when its turn comes."""
    weight = ets.weights[i] if ets.weights[i] > 0 else 1.0
    return max(whole(weight * ets.at.world.quantum), 1)


def may_send(queue):
    if queue.length > 0 and not queue.paused:
        return 1
    return 0


def next_queue(ets, node, port):
    for i in range(PRIORITIES):
        if ets.strict & 1 << i and may_send(queue_at(port, i)):
            return i
    mine = my_port(ets, port)
    while 1:
        queue = queue_at(port, mine.turn)
        credit = my_queue(ets, queue)
        if may_send(queue) and credit.deficit >= queue.head.size:
            credit.deficit -= queue.head.size
            if queue.length == 1:
                credit.deficit = 0
            return mine.turn
        if not may_send(queue):
            credit.deficit = 0
        mine.turn = (mine.turn + 1) % PRIORITIES
        my_queue(ets, queue_at(port, mine.turn)).deficit += quantum(ets, mine.turn)
