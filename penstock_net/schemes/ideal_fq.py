"""Ideal-FQ (BFC, NSDI 2022, section 6.2.1): a queue for every flow at every port, and no limit on the buffer.

A port assigns a queue to a flow with its first packet and releases it with its last one; the queues are served by deficit
round robin.  Flows have a window of one bandwidth-delay product (window_cap), so that NICs do not fill the buffers.  ACKs that
share the data's priority are a flow of their own.  A port that runs out of queues lets flows share one; a port with 60000 active
flows drops the packets of others.
"""

title = "IdealFQ"
includes = ["window_cap"]
structs = {"entry": {"key": "int32", "packets": "int32", "queue": "int32"}}
port_state = {"active": "entry[65536]", "free": "int16[queues]", "spare": "int32", "unused": "int32", "shared": "int64"}
parameters = {"queues": ("int32 1..16384", 8192, "queues per port; memory is used from their first packet on")}
fabric = {"queues": "queues", "buffer": "unbounded"}

BITS = 16  # of the table of active flows
MASK = 65535
MOST = 60000


def set_up_port(ideal_fq, node, port):
    port.flows = 0


def admit(ideal_fq, node, port, pkt):
    return port.flows < MOST


def key_of(pkt):
    """Key of a packet's flow in the table: unique, not 0."""
    if pkt.kind == ACK:
        return -1 - pkt.number
    return pkt.number + 1


def home(key):
    return ((key * 1640531527) & 0x7FFFFFFF) >> (31 - BITS)


def place_of(ideal_fq, port, key):
    """Index of a flow in the table of its port, or where it would be (linear probing)."""
    mine = my_port(ideal_fq, port)
    i = home(key)
    while active_at(mine, i).key != 0 and active_at(mine, i).key != key:
        i = (i + 1) & MASK
    return i


def take_queue(ideal_fq, port, key):
    """The queue released last, else an unused one, else one shared with other flows."""
    mine = my_port(ideal_fq, port)
    if mine.spare > 0:
        mine.spare -= 1
        return mine.free[mine.spare]
    if mine.unused < ideal_fq.queues:
        mine.unused += 1
        return mine.unused - 1
    mine.shared += 1
    return home(key) % ideal_fq.queues


def choose_queue(ideal_fq, node, port, pkt):
    key = key_of(pkt)
    entry = active_at(my_port(ideal_fq, port), place_of(ideal_fq, port, key))
    if entry.key == 0:
        entry.key = key
        entry.packets = 0
        entry.queue = take_queue(ideal_fq, port, key)
        port.flows += 1
    entry.packets += 1
    return entry.queue


def on_dequeue(ideal_fq, node, port, queue, pkt):
    mine = my_port(ideal_fq, port)
    i = place_of(ideal_fq, port, key_of(pkt))
    active_at(mine, i).packets -= 1
    if active_at(mine, i).packets == 0:
        remove(ideal_fq, port, i)
        port.flows -= 1
    if queue.length == 0:
        mine.free[mine.spare] = queue.index
        mine.spare += 1


def remove(ideal_fq, port, i):
    """Remove an entry of the table and move back those after it that were displaced."""
    mine = my_port(ideal_fq, port)
    j = (i + 1) & MASK
    while active_at(mine, j).key != 0:
        if ((j - home(active_at(mine, j).key)) & MASK) >= ((j - i) & MASK):
            move(ideal_fq, port, j, i)
            i = j
        j = (j + 1) & MASK
    active_at(mine, i).key = 0


def move(ideal_fq, port, source, target):
    entry = active_at(my_port(ideal_fq, port), source)
    to = active_at(my_port(ideal_fq, port), target)
    to.key = entry.key
    to.packets = entry.packets
    to.queue = entry.queue
