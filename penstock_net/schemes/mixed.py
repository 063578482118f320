"""The default load balancer of Ultra Ethernet's simulator: good entropies are taken again, others by a map of penalties.

The entropy of each good ACK, one without a mark, is taken once more, the oldest one first.  If there is none left, the flow walks
through all entropies, each combined with a random mask by exclusive or, a new one in every round, and skips those with a penalty.
A marked ACK adds 1 to the penalty of its entropy, a packet that was cut on the way adds 4, a timeout 15 to that of entropy 0;
15 is the most.  A packet that skips any takes 1 off the first that it meets, and gives up after one round.

`bitmap` is the walk alone.  The simulator keeps any number of good entropies, here the last 128.
"""

includes = ["entropy"]
packet_state = "entropy"
flow_state = {
    "index": "int32",
    "mask": "int32",
    "first": "int32",  # of the good ones
    "good": "int32",
    "ring": "int16[128]",
    "penalty": "int8[256]",
}
parameters = {
    "entropy_bits": ("int32 0..8", 6, "there are 2 to the power of this many entropies"),
    "recycle": ("bool", True, "take good entropies again"),
}
presets = {"bitmap": {"recycle": False}}
fabric = {"balances": 1, "acts": 0}

SLOTS = 128
MOST = 15
MARKED = 1
REJECTED = 4


def on_send(mixed, node, flow, pkt):
    mine = my_flow(mixed, flow)
    sent = my_packet(mixed, pkt)
    if mine.good > 0:
        sent.entropy = mine.ring[mine.first]
        mine.first = (mine.first + 1) % SLOTS
        mine.good -= 1
    else:
        sent.entropy = walk(mixed, node, flow)
    sent.way = hash31(flow.hash, sent.entropy)


def walk(mixed, node, flow):
    """The next entropy without a penalty; after a round the one that the round began with."""
    mine = my_flow(mixed, flow)
    entropy = step(mixed, node, flow)
    if mine.penalty[entropy] > 0:
        mine.penalty[entropy] -= 1
        for _ in range(1 << mixed.entropy_bits):
            entropy = step(mixed, node, flow)
            if mine.penalty[entropy] == 0:
                break
    return entropy


def step(mixed, node, flow):
    mine = my_flow(mixed, flow)
    last = (1 << mixed.entropy_bits) - 1
    if mine.index == 0:
        mine.mask = draw(node, RANDOM_PATH) & last
    entropy = mine.index ^ mine.mask
    mine.index = (mine.index + 1) & last
    return entropy


def on_ack(mixed, node, flow, pkt):
    mine = my_flow(mixed, flow)
    answer = my_packet(mixed, pkt)
    if answer.rejected:
        punish(mixed, flow, answer.entropy, REJECTED)
    elif pkt.ecn:
        punish(mixed, flow, answer.entropy, MARKED)
    elif mixed.recycle:
        mine.ring[(mine.first + mine.good) % SLOTS] = answer.entropy
        if mine.good < SLOTS:
            mine.good += 1
        else:
            mine.first = (mine.first + 1) % SLOTS


def on_expiry(mixed, node, flow):
    punish(mixed, flow, 0, MOST)


def punish(mixed, flow, entropy, penalty):
    mine = my_flow(mixed, flow)
    mine.penalty[entropy] = min(mine.penalty[entropy] + penalty, MOST)
