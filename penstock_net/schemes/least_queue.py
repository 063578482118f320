"""Adaptive routing in switches: a packet takes the equal-cost port with the least to send, as switches for AI fabrics do.

A port's load is what is stored for it and what is left of the packet on its line, in bytes.  Switches compare few grades of it
(SAI's Adaptive Routing and Switching: up to eight bands), which `grades` says: a load's grade is the number of these thresholds
that it has reached.  uet-htsim's are 5, 10 and 20 % of a queue.  Of equal ports one is drawn at random, as there.

A port that may not send what the packet is comes behind all others, whatever its load: it is paused (or where priorities are
paused apart, the packet's is), or its link is dark.  In a lossless fabric that comes first, as with uet-htsim's comparison of
pauses.  A pause of a flow's own queue (`bfc`) says nothing of the port, and what such queues hold counts as all that is stored.

With a `gap` a flow keeps its port until it pauses for longer (flowlets, by a table as that of `flowlet`): packets stay in order
where the gap is longer than the delays of a flow's paths differ.  Without it receivers tolerate reordering, and losses are
repaired by timeouts, or as the transport or `recovery` says.

A switch knows its own ports only: of a link further on that is slow or has failed balancers at senders (`reps`) learn, or the
routes leave it out.  Not here: loads averaged over time, and samples of them that are some time old.
"""

structs = {"entry": {"last": "time", "port": "int32"}}
node_state = {"entries": "entry[entries * switch * (gap > 0)]"}
parameters = {
    "gap": ("time", 0, "a flow keeps its port until a pause that is longer; 0 = every packet is on its own"),
    "grades": (
        "bytes[7]",
        [0, 0, 0, 0, 0, 0, 0],
        "loads from which on a port is of the next grade; 0 = no more; none: the bytes",
    ),
    "pauses": ("bool", True, "a port that may not send comes behind all others"),
    "entries": ("int32 1..16777216", 65536, "with a gap: entries of a switch's table, to which flows are hashed"),
}
fabric = {"reordering": "gap == 0"}

GRADES = 7
STOPPED = 1099511627776  # more than any load


def choose_path(least, node, port, pkt):
    if least.gap == 0:
        return best(least, node, pkt)
    entry = entries_at(my_node(least, node), pick(pkt.hash, node.hash_seed + 3, least.entries))
    chosen = -1
    if node.now - entry.last <= least.gap:
        chosen = known(node, pkt, entry)
    if chosen < 0:
        chosen = best(least, node, pkt)
        entry.port = path_at(node, pkt, chosen).slot + 1
    entry.last = node.now
    return chosen


def known(node, pkt, entry):
    """Which of a packet's next hops an entry's port is; -1: none (a new entry, one of another flow, or routes have changed)."""
    for i in range(path_count(node, pkt)):
        if path_at(node, pkt, i).slot + 1 == entry.port:
            return i
    return -1


def best(least, node, pkt):
    """One of the next hops that have the smallest load."""
    count = path_count(node, pkt)
    smallest = cost_of(least, node, path_at(node, pkt, 0), pkt)
    equal = 1
    for i in range(1, count):
        cost = cost_of(least, node, path_at(node, pkt, i), pkt)
        if cost < smallest:
            smallest = cost
            equal = 1
        elif cost == smallest:
            equal += 1
    skipped = draw(node, RANDOM_PATH) % equal if equal > 1 else 0
    for i in range(count):
        if cost_of(least, node, path_at(node, pkt, i), pkt) == smallest:
            if skipped == 0:
                return i
            skipped -= 1
    return 0


def cost_of(least, node, port, pkt):
    """The load of a port, or its grade, and more than any load if it may not send this packet."""
    load = port.bytes
    if port.free_at > node.now:
        load += whole((port.free_at - node.now) / port.ps_per_byte)
    if least.grades[0] > 0:
        grade = 0
        while grade < GRADES and least.grades[grade] > 0 and load >= least.grades[grade]:
            grade += 1
        load = grade
    if least.pauses and is_stopped(least, node, port, pkt):
        load += STOPPED
    return load


def is_stopped(least, node, port, pkt):
    """Whether a port is paused or dark, or the packet's priority is paused there."""
    if port.paused or port.down:
        return True
    if least.at.world.nic_by_priority and queue_at(port, pkt.priority).paused:
        return True
    return False
