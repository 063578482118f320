"""Queue assignment of BFC (Goyal et al., NSDI 2022, section 3.3.1): a queue to each active flow, while there are some.

A flow without packets at this port, whose sticky time since its last packet has passed, is assigned a queue; `assignment` says
which one. The paper leaves open which of several empty queues it is, and whether a paused one counts. The readings:

* `reserved`: the first empty, unpaused queue outside the sticky time of its last flow; else the first empty, unpaused one
* `unpaused`: the first empty, unpaused queue
* `literal`: the first empty queue, paused or not (section 3.3.1 to the letter)
* `rotating`: the next empty queue, paused or not, from a point on that rotates, one per pipeline (section 4)
* `rotating_unpaused`: the next empty, unpaused queue in that order

and a random queue if there is none. Not from the paper:

* `shortest`: as `reserved`, but if none is empty, the shortest queue, of unpaused ones if there are some
* `two_choices`: the shorter one of two random queues
* `joined`: as `reserved`, but when at most one in eight queues is free, a flow joins the queue that a flow to the same
  destination got last, if that is still busy or paused: the last queues are for destinations that have none
* `penstock`, our rule: `joined` and `shortest` (docs/queue-assignment.md)
* `stochastic` hashes flows to queues (stochastic fair queueing); `single` uses one queue (both in section 6.1)

choose_queue and on_dequeue are the paper's On Enqueue and On Dequeue; flow_table is indexed by the flow's hash.
"""

title = "DQA"
structs = {"entry": {"expires": "time", "size": "int32", "q_assignment": "int32"}}
packet_state = {"entry": "int32"}
node_state = {"sticky": "time", "queues": "int32", "words": "int32"}
port_state = {
    "empty": "mask[16]",
    "flow_table": "entry[max(queues, edge_queues) * table]",
    "kept_until": "time[max(queues, edge_queues)]",
    "start": "int16[4]",
    "queue_to": "int16[16 * max(queues, edge_queues)]",
    "destination": "int16[max(queues, edge_queues)]",
}
parameters = {
    "queues": ("int32 1..1024", 32, "physical queues per port, beside the control queue (section 6.2.1: 32; Tofino2 400G: 128)"),
    "edge_queues": ("int32 0..1024", 0, "the same at virtual switches, which have more memory (Backdraft section 3); 0 = same"),
    "table": ("int32 1..10000", 100, "flow-table entries per queue (section 3.3.1)"),
    "sticky": ("float64", 2.0, "sticky threshold in one-hop round trips (section 3.3.2)"),
    "assignment": (
        "choice reserved unpaused literal rotating rotating_unpaused shortest joined penstock two_choices stochastic single",
        "reserved",
        "which queue a flow gets (open in sections 3.3.1 and 4)",
    ),
}
presets = {"stochastic": {"assignment": "stochastic"}, "single": {"assignment": "single"}}
fabric = {"queues": "max(queues, edge_queues)"}

RESERVED = 0
UNPAUSED = 1
LITERAL = 2
ROTATING = 3
ROTATING_UNPAUSED = 4
SHORTEST = 5
JOINED = 6
PENSTOCK = 7
TWO_CHOICES = 8
STOCHASTIC = 9
SINGLE = 10
FEW = 8  # `joined`: few queues are free when at most one in eight is
PAUSED = 1000000000000000  # bytes, more than any queue holds
PIPELINES = 4  # of a Tofino2; a quarter of the ports belongs to each


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
    queues = my_node(dqa, node).queues
    port.flows = 0
    for q in range(queues):
        set_bit(mine.empty, q)
    for i in range(PIPELINES):
        mine.start[i] = i * queues // PIPELINES


def empty_queue(dqa, node, port):
    """The first empty queue that is not paused and has no sticky flow; else the first one with a sticky flow; else -1."""
    mine = my_port(dqa, port)
    second = -1
    for w in range(my_node(dqa, node).words):
        candidates = mine.empty[w]
        while candidates:
            q = (w << 6) + lowest_bit(candidates)
            if not queue_at(port, q).paused:
                if node.now > mine.kept_until[q] or dqa.assignment == UNPAUSED:
                    return q
                if second < 0:
                    second = q
            candidates &= candidates - 1
    return second


def next_empty_queue(dqa, node, port, start):
    """The first empty queue from `start` on, around the end; -1 if none is. Paused ones count in `literal` and `rotating`."""
    mine = my_port(dqa, port)
    queues = my_node(dqa, node).queues
    for i in range(queues):
        q = (start + i) % queues
        if has_bit(mine.empty, q):
            if dqa.assignment != ROTATING_UNPAUSED or not queue_at(port, q).paused:
                return q
    return -1


def shortest_queue(dqa, node, port):
    """The queue with the fewest bytes, of the unpaused ones if there are some; the first of several."""
    best = 0
    fewest = NEVER
    for q in range(my_node(dqa, node).queues):
        queue = queue_at(port, q)
        length = queue.bytes
        if queue.paused:
            length += PAUSED
        if length < fewest:
            best = q
            fewest = length
    return best


def random_queue(dqa, node):
    return draw(node, RANDOM_QUEUE) % my_node(dqa, node).queues


def shorter_of_two(dqa, node, port):
    """The shorter one of two random queues, the first if they are equal."""
    a = random_queue(dqa, node)
    b = random_queue(dqa, node)
    return b if queue_at(port, b).bytes < queue_at(port, a).bytes else a


def rotating_queue(dqa, node, port, pkt):
    """The next empty queue from the starting point of the packet's pipeline on, which moves behind it; else a random one."""
    mine = my_port(dqa, port)
    pipeline = pkt.in_port * PIPELINES // node.port_count
    q = next_empty_queue(dqa, node, port, mine.start[pipeline])
    if q < 0:
        return random_queue(dqa, node)
    mine.start[pipeline] = (q + 1) % my_node(dqa, node).queues
    return q


def few_are_free(dqa, node, port):
    """Whether at most one in FEW queues is empty and not paused."""
    mine = my_port(dqa, port)
    free = 0
    for w in range(my_node(dqa, node).words):
        candidates = mine.empty[w]
        while candidates:
            if not queue_at(port, (w << 6) + lowest_bit(candidates)).paused:
                free += 1
            candidates &= candidates - 1
    return free * FEW <= my_node(dqa, node).queues


def place_of(dqa, node, pkt):
    """Index of a packet's destination in queue_to."""
    return pick(pkt.dst, node.hash_seed + 3, 16 * my_node(dqa, node).queues)


def joined_queue(dqa, node, port, pkt):
    """The queue that a flow to the same destination got last, if it still has packets or is paused; else -1."""
    mine = my_port(dqa, port)
    q = mine.queue_to[place_of(dqa, node, pkt)]
    queue = queue_at(port, q)
    if mine.destination[q] == pkt.dst + 1 and (queue.paused or queue.length > 0):
        return q
    return -1


def queue_by_destination(dqa, node, port, pkt):
    """`joined` and `penstock`; destinations are stored plus one."""
    mine = my_port(dqa, port)
    if few_are_free(dqa, node, port):
        q = joined_queue(dqa, node, port, pkt)
        if q >= 0:
            return q
    q = empty_queue(dqa, node, port)
    if q >= 0:
        mine.queue_to[place_of(dqa, node, pkt)] = q
        mine.destination[q] = pkt.dst + 1
        return q
    return shortest_queue(dqa, node, port) if dqa.assignment == PENSTOCK else random_queue(dqa, node)


def assigned_queue(dqa, node, port, pkt):
    """The queue of a flow without packets at this port and outside its sticky time."""
    if dqa.assignment == SINGLE:
        return 0
    if dqa.assignment == TWO_CHOICES:
        return shorter_of_two(dqa, node, port)
    if dqa.assignment == JOINED or dqa.assignment == PENSTOCK:
        return queue_by_destination(dqa, node, port, pkt)
    if dqa.assignment == ROTATING or dqa.assignment == ROTATING_UNPAUSED:
        return rotating_queue(dqa, node, port, pkt)
    q = next_empty_queue(dqa, node, port, 0) if dqa.assignment == LITERAL else empty_queue(dqa, node, port)
    if q >= 0:
        return q
    return shortest_queue(dqa, node, port) if dqa.assignment == SHORTEST else random_queue(dqa, node)


def choose_queue(dqa, node, port, pkt):
    mine = my_port(dqa, port)
    queues = my_node(dqa, node).queues
    index = pick(pkt.hash, node.hash_seed + 1, queues * dqa.table)
    my_packet(dqa, pkt).entry = index
    entry = flow_table_at(mine, index)
    if entry.size == 0:
        port.flows += 1
        if dqa.assignment == STOCHASTIC:
            entry.q_assignment = pick(pkt.hash, node.hash_seed + 2, queues)
        elif node.now > entry.expires:
            entry.q_assignment = assigned_queue(dqa, node, port, pkt)
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
