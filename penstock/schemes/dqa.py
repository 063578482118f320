"""Queue assignment of BFC (Goyal et al., NSDI 2022, section 3.3.1): a queue to each active flow, while there are some.

`dynamic` assigns an empty queue to a flow without packets at this port, a random one if none is empty, and keeps the
assignment for a sticky time after its last packet; `stochastic` hashes flows to queues (stochastic fair queueing); `single`
uses one queue.  choose_queue and on_dequeue are the paper's On Enqueue and On Dequeue; flow_table is indexed by the flow's hash.
"""

title = "DQA"
structs = {"entry": {"expires": "time", "size": "int32", "q_assignment": "int32"}}
packet_state = {"entry": "int32"}
node_state = {"sticky": "time", "queues": "int32", "words": "int32"}
port_state = {
    "empty": "mask[16]",
    "flow_table": "entry[max(queues, edge_queues) * table]",
    "kept_until": "time[max(queues, edge_queues)]",
}
parameters = {
    "queues": ("int32 1..1024", 32, "physical queues per port, beside the control queue (section 6.2.1: 32; Tofino2 400G: 128)"),
    "edge_queues": ("int32 0..1024", 0, "the same at virtual switches, which have more memory (Backdraft section 3); 0 = same"),
    "table": ("int32 1..10000", 100, "flow-table entries per queue (section 3.3.1)"),
    "sticky": ("float64", 2.0, "sticky threshold in one-hop round trips (section 3.3.2)"),
    "kept_queues": (
        "choice last alike",
        "last",
        "an empty queue that a flow sticks to is taken if there is no other, or like any other (open in 3.3.1)",
    ),
    "assignment": ("choice dynamic stochastic single", "dynamic", "how flows get their queues (sections 3.3.1, 6.1)"),
}
presets = {"stochastic": {"assignment": "stochastic"}, "single": {"assignment": "single"}}
fabric = {"queues": "max(queues, edge_queues)"}

DYNAMIC = 0
STOCHASTIC = 1
SINGLE = 2
ALIKE = 1  # kept_queues


def set_up_node(dqa, node):
    """Number of queues and sticky time; HRTT is the largest over the ports, as for the threshold of BFC."""
    mine = my_node(dqa, node)
    mine.queues = dqa.queues
    if node.tier == 0 and dqa.edge_queues > 0:
        mine.queues = dqa.edge_queues
    mine.words = (mine.queues + 63) >> 6
    hrtt = 0
    for slot in range(node.port_count):
        hrtt = max(hrtt, 2 * port_at(node, slot).delay)
    mine.sticky = whole(dqa.sticky * hrtt)


def set_up_port(dqa, node, port):
    mine = my_port(dqa, port)
    port.flows = 0
    for q in range(my_node(dqa, node).queues):
        set_bit(mine.empty, q)


def empty_queue(dqa, node, port):
    """The first empty queue that is not paused and has no sticky flow; else the first one with a sticky flow; else -1."""
    mine = my_port(dqa, port)
    second = -1
    for w in range(my_node(dqa, node).words):
        candidates = mine.empty[w]
        while candidates:
            q = (w << 6) + lowest_bit(candidates)
            if not queue_at(port, q).paused:
                if node.now > mine.kept_until[q] or dqa.kept_queues == ALIKE:
                    return q
                if second < 0:
                    second = q
            candidates &= candidates - 1
    return second


def choose_queue(dqa, node, port, pkt):
    mine = my_port(dqa, port)
    queues = my_node(dqa, node).queues
    index = pick(pkt.hash, node.hash_seed + 1, queues * dqa.table)
    my_packet(dqa, pkt).entry = index
    entry = flow_table_at(mine, index)
    if entry.size == 0:
        port.flows += 1
        if dqa.assignment == DYNAMIC:
            if node.now > entry.expires:
                q = empty_queue(dqa, node, port)
                entry.q_assignment = q if q >= 0 else draw(node, RANDOM_QUEUE) % queues
        elif dqa.assignment == STOCHASTIC:
            entry.q_assignment = pick(pkt.hash, node.hash_seed + 2, queues)
    entry.size += 1
    clear_bit(mine.empty, entry.q_assignment)
    return entry.q_assignment


def on_dequeue(dqa, node, port, queue, pkt):
    mine = my_port(dqa, port)
    entry = flow_table_at(mine, my_packet(dqa, pkt).entry)
    entry.size -= 1
    if entry.size == 0:
        port.flows -= 1
        entry.expires = node.now + my_node(dqa, node).sticky
    if queue.length == 0:
        set_bit(mine.empty, queue.index)
        mine.kept_until[queue.index] = node.now + my_node(dqa, node).sticky
