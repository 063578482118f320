"""Queue assignment of BFC (Goyal et al., NSDI 2022, section 3.3.1): a queue to each active flow, while there are some.

A flow without packets at this port, whose sticky time since its last packet has passed, is assigned a queue; `assignment` says
which one. The paper leaves open which of several empty queues it is, and whether a paused one counts. The readings:

* `reserved`: the first empty, unpaused queue outside the sticky time of its last flow; else the first empty, unpaused one
* `unpaused`: the first empty, unpaused queue
* `literal`: the first empty queue, paused or not (section 3.3.1 to the letter)
* `rotating`: the next empty queue, paused or not, from a point on that rotates, one per pipeline (section 4)
* `rotating_unpaused`: the next empty, unpaused queue in that order

and a random queue if there is none: any ("for hardware simplicity", section 3.3.1), or, with `if_full` = `unpaused`, one that is
not paused, if there is one. Not from the paper:

* `shortest`: as `reserved`, but if none is empty, the shortest queue, of unpaused ones if there are some
* `two_choices`: the shorter one of two random queues
* `joined`: as `reserved`, but when at most one in sixteen queues is free, a flow joins the queue that a flow to the same
  destination got last, if that is still busy or paused: the last queues are for destinations that have none. Not at ports to
  hosts, where all flows have one destination
* `penstock`, our rule: `joined` and `shortest` (docs/queue-assignment.md)
* `stochastic` hashes flows to queues (stochastic fair queueing); `single` uses one queue (both in section 6.1)

choose_queue and on_dequeue are the paper's On Enqueue and On Dequeue; flow_table is indexed by the flow's hash.

Variants of the appendices, all of them without effect by default:

* `classes` (A.3): queues and flow table are divided evenly among traffic classes of strict priority, which are the flows'
  priorities (the last class has the lower ones, too); a flow gets queues of its class only
* `incast_label` (A.7): the last queue of a class is for the flows of class "incast", which senders label, and for no others;
  these share an entry of the flow table
"""

title = "DQA"
structs = {"entry": {"expires": "time", "size": "int32", "q_assignment": "int32"}}
packet_state = {"entry": "int32"}
node_state = {
    "sticky": "time",
    "queues": "int32",
    "entries": "int32",
    "classes": "int16",
    "labelled": "int16",
    "first": "int16[9]",
}
port_state = {
    "empty": "mask[16]",
    "flow_table": "entry[max(queues, edge_queues) * table + classes]",
    "kept_until": "time[max(queues, edge_queues)]",
    "start": "int16[4]",
    "queue_to": "int16[16 * max(queues, edge_queues)]",
    "destination": "int32[max(queues, edge_queues)]",
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
    "if_full": ("choice any unpaused", "any", "the random queue of a flow when no queue is free: any, or one that is not paused"),
    "classes": ("int32 1..8", 1, "traffic classes with queues of their own (appendix A.3); no more than queues"),
    "incast_label": ("bool", False, "one queue per class is for the flows of class incast (appendix A.7), if it has two"),
}
presets = {"stochastic": {"assignment": "stochastic"}, "single": {"assignment": "single"}}
fabric = {"queues": "max(queues, edge_queues)", "incast": "incast_label"}

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
OPEN = 1  # `if_full`: one that is not paused
FEW = 16  # `joined`: few queues are free when at most one in sixteen is
PAUSED = 1000000000000000  # bytes, more than any queue holds
PIPELINES = 4  # of a Tofino2; a quarter of the ports belongs to each


def set_up_node(dqa, node):
    """Queues, those of each class, and sticky time; HRTT is the largest over the ports, as for the threshold of BFC."""
    mine = my_node(dqa, node)
    mine.queues = dqa.queues
    if node.tier == 0 and dqa.edge_queues > 0:
        mine.queues = dqa.edge_queues
    mine.classes = min(dqa.classes, mine.queues)
    for i in range(mine.classes + 1):
        mine.first[i] = i * mine.queues // mine.classes
    mine.labelled = 1 if dqa.incast_label and 2 * mine.classes <= mine.queues else 0
    mine.entries = mine.queues * dqa.table if mine.classes == 1 and not mine.labelled else 0
    hrtt = 0
    for slot in range(node.port_count):
        hrtt = max(hrtt, 2 * port_at(node, slot).delay)
    mine.sticky = whole(dqa.sticky * hrtt)


def set_up_port(dqa, node, port):
    mine = my_port(dqa, port)
    here = my_node(dqa, node)
    port.flows = 0
    for q in range(here.queues):
        set_bit(mine.empty, q)
    for i in range(PIPELINES):
        mine.start[i] = i * (here.queues // here.classes) // PIPELINES


def class_of(dqa, node, pkt):
    return min(pkt.priority, my_node(dqa, node).classes - 1)


def empty_queue(dqa, node, port, first, end):
    """The first empty queue that is not paused and has no sticky flow; else the first one with a sticky flow; else -1."""
    mine = my_port(dqa, port)
    second = -1
    for w in range(first >> 6, (end + 63) >> 6):
        candidates = mine.empty[w]
        while candidates:
            q = (w << 6) + lowest_bit(candidates)
            if first <= q < end and not queue_at(port, q).paused:
                if node.now > mine.kept_until[q] or dqa.assignment == UNPAUSED:
                    return q
                if second < 0:
                    second = q
            candidates &= candidates - 1
    return second


def next_empty_queue(dqa, node, port, first, end, start):
    """The first empty queue from `start` on, around the end; -1 if none is. Paused ones count in `literal` and `rotating`."""
    mine = my_port(dqa, port)
    for i in range(end - first):
        q = first + (start + i) % (end - first)
        if has_bit(mine.empty, q):
            if dqa.assignment != ROTATING_UNPAUSED or not queue_at(port, q).paused:
                return q
    return -1


def shortest_queue(dqa, port, first, end):
    """The queue with the fewest bytes, of the unpaused ones if there are some; the first of several."""
    best = first
    fewest = NEVER
    for q in range(first, end):
        queue = queue_at(port, q)
        length = queue.bytes
        if queue.paused:
            length += PAUSED
        if length < fewest:
            best = q
            fewest = length
    return best


def random_queue(dqa, node, first, end):
    return first + draw(node, RANDOM_QUEUE) % (end - first)


def queue_if_full(dqa, node, port, first, end):
    """The queue of a flow when none is free: a random one, see `if_full`."""
    unpaused = 0
    if dqa.if_full == OPEN:
        for q in range(first, end):
            unpaused += 0 if queue_at(port, q).paused else 1
    if unpaused == 0:
        return random_queue(dqa, node, first, end)
    left = draw(node, RANDOM_QUEUE) % unpaused
    for q in range(first, end):
        if not queue_at(port, q).paused:
            if left == 0:
                return q
            left -= 1
    return first


def shorter_of_two(dqa, node, port, first, end):
    """The shorter one of two random queues, the first if they are equal."""
    a = random_queue(dqa, node, first, end)
    b = random_queue(dqa, node, first, end)
    return b if queue_at(port, b).bytes < queue_at(port, a).bytes else a


def rotating_queue(dqa, node, port, pkt, first, end):
    """The next empty queue from the starting point of the packet's pipeline on, which moves behind it; else a random one.

    With several classes a pipeline has one starting point for all of them, counted from the first queue of each.
    """
    mine = my_port(dqa, port)
    pipeline = pkt.in_port * PIPELINES // node.port_count
    q = next_empty_queue(dqa, node, port, first, end, mine.start[pipeline])
    if q < 0:
        return queue_if_full(dqa, node, port, first, end)
    mine.start[pipeline] = (q + 1 - first) % (end - first)
    return q


def few_are_free(dqa, port, first, end):
    """Whether at most one in FEW queues is empty and not paused."""
    mine = my_port(dqa, port)
    free = 0
    for w in range(first >> 6, (end + 63) >> 6):
        candidates = mine.empty[w]
        while candidates:
            q = (w << 6) + lowest_bit(candidates)
            if first <= q < end and not queue_at(port, q).paused:
                free += 1
            candidates &= candidates - 1
    return free * FEW <= end - first


def place_of(dqa, node, pkt):
    """Index of a packet's destination in queue_to."""
    return pick(pkt.dst, node.hash_seed + 3, 16 * my_node(dqa, node).queues)


def joined_queue(dqa, node, port, pkt, first, end):
    """The queue that a flow to the same destination got last, if it still has packets or is paused; else -1."""
    mine = my_port(dqa, port)
    q = mine.queue_to[place_of(dqa, node, pkt)]
    queue = queue_at(port, q)
    if first <= q < end and mine.destination[q] == pkt.dst + 1 and (queue.paused or queue.length > 0):
        return q
    return -1


def queue_by_destination(dqa, node, port, pkt, first, end):
    """`joined` and `penstock`; destinations are stored plus one."""
    mine = my_port(dqa, port)
    if (node.tier != 1 or port.up >= 0) and few_are_free(dqa, port, first, end):
        q = joined_queue(dqa, node, port, pkt, first, end)
        if q >= 0:
            return q
    q = empty_queue(dqa, node, port, first, end)
    if q >= 0:
        mine.queue_to[place_of(dqa, node, pkt)] = q
        mine.destination[q] = pkt.dst + 1
        return q
    if dqa.assignment == PENSTOCK:
        return shortest_queue(dqa, port, first, end)
    return queue_if_full(dqa, node, port, first, end)


def assigned_queue(dqa, node, port, pkt, index):
    """The queue of a flow without packets at this port and outside its sticky time; `index`: of its entry in the flow table."""
    here = my_node(dqa, node)
    first = here.first[class_of(dqa, node, pkt)]
    end = here.first[class_of(dqa, node, pkt) + 1] - here.labelled
    if index >= here.queues * dqa.table:
        return end
    if dqa.assignment == SINGLE:
        return first
    if dqa.assignment == STOCHASTIC:
        return first + pick(pkt.hash, node.hash_seed + 2, end - first)
    if dqa.assignment == TWO_CHOICES:
        return shorter_of_two(dqa, node, port, first, end)
    if dqa.assignment == JOINED or dqa.assignment == PENSTOCK:
        return queue_by_destination(dqa, node, port, pkt, first, end)
    if dqa.assignment == ROTATING or dqa.assignment == ROTATING_UNPAUSED:
        return rotating_queue(dqa, node, port, pkt, first, end)
    if dqa.assignment == LITERAL:
        q = next_empty_queue(dqa, node, port, first, end, 0)
    else:
        q = empty_queue(dqa, node, port, first, end)
    if q >= 0:
        return q
    return shortest_queue(dqa, port, first, end) if dqa.assignment == SHORTEST else queue_if_full(dqa, node, port, first, end)


def entry_index(dqa, node, pkt):
    """Index of a packet's flow in the flow table, of which each class has a part; then come the entries of labelled flows."""
    here = my_node(dqa, node)
    if here.entries:  # one class, no label
        return pick(pkt.hash, node.hash_seed + 1, here.entries)
    i = class_of(dqa, node, pkt)
    if here.labelled and from_incast(node, pkt):
        return here.queues * dqa.table + i
    first = here.first[i]
    return first * dqa.table + pick(pkt.hash, node.hash_seed + 1, (here.first[i + 1] - first) * dqa.table)


def choose_queue(dqa, node, port, pkt):
    mine = my_port(dqa, port)
    index = entry_index(dqa, node, pkt)
    my_packet(dqa, pkt).entry = index
    entry = flow_table_at(mine, index)
    if entry.size == 0:
        port.flows += 1
        if node.now > entry.expires or dqa.assignment == STOCHASTIC:
            entry.q_assignment = assigned_queue(dqa, node, port, pkt, index)
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
