"""REPS, recycled entropies (Bonato et al., arXiv 2407.21625), as in Ultra Ethernet's simulator: good paths are taken again.

A sender keeps the entropies of the last eight good ACKs of a flow, those without a mark, in a ring.  A packet takes the oldest
one that has not been taken since; if there is none, a random one of all.  So paths without queues are used as often as they
return good ACKs, and a flow needs no more than these eight numbers.  Marked ACKs and packets that were cut on the way are
ignored.

A timeout may mean that a link has failed: for `freeze` the packets take the entropies of the ring in turn, taken before or not.
The first ACK or timeout after that empties it, and the next 16 packets explore: they take random ones.

Without marks (`ecn`, `uec`) every ACK is good, and each path is taken as often as it returns ACKs.
"""

title = "REPS"
includes = ["entropy"]
packet_state = "entropy"
flow_state = {
    "ring": "int32[8]",
    "head": "int32",  # where the next good entropy is written
    "fresh": "int32",  # entropies before it that have not been taken
    "filled": "int32",
    "next": "int32",  # while frozen
    "explore": "int32",  # packets that still take random ones
    "frozen_until": "time",  # 0: not frozen
}
parameters = {
    "entropy_bits": ("int32 0..16", 6, "there are 2 to the power of this many entropies"),
    "freeze": ("time 1..1e15", "10ms", "time after a timeout in which only entropies of the ring are used"),
}
fabric = {"balances": 1, "acts": 0}

SLOTS = 8
EXPLORED = 16  # packets


def on_send(reps, node, flow, pkt):
    sent = my_packet(reps, pkt)
    sent.entropy = next_entropy(reps, node, flow)
    sent.way = hash31(flow.hash, sent.entropy)


def next_entropy(reps, node, flow):
    mine = my_flow(reps, flow)
    if mine.explore > 0:
        mine.explore -= 1
    elif mine.frozen_until > 0:
        if mine.filled > 0:
            mine.next = mine.next % mine.filled + 1
            return mine.ring[mine.next - 1]
    elif mine.fresh > 0:
        mine.fresh -= 1
        return mine.ring[(mine.head + SLOTS - mine.fresh - 1) % SLOTS]
    return draw(node, RANDOM_PATH) & ((1 << reps.entropy_bits) - 1)


def on_ack(reps, node, flow, pkt):
    mine = my_flow(reps, flow)
    answer = my_packet(reps, pkt)
    thaw(reps, node, flow)
    if not pkt.ecn and not answer.rejected:
        if mine.filled == 0:
            mine.head = 0
        mine.ring[mine.head] = answer.entropy
        mine.head = (mine.head + 1) % SLOTS
        mine.fresh = min(mine.fresh + 1, SLOTS)
        mine.filled = min(mine.filled + 1, SLOTS)


def thaw(reps, node, flow):
    mine = my_flow(reps, flow)
    if mine.frozen_until > 0 and node.now >= mine.frozen_until:
        mine.frozen_until = 0
        mine.filled = 0
        mine.fresh = 0
        mine.explore = EXPLORED


def on_expiry(reps, node, flow):
    mine = my_flow(reps, flow)
    thaw(reps, node, flow)
    if mine.frozen_until == 0 and mine.explore == 0:
        mine.frozen_until = node.now + reps.freeze
        mine.next = 0
