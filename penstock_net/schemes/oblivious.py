"""Oblivious spraying by the sender, as in Ultra Ethernet's simulator: packets take all entropies in turn.

A flow walks through its entropies, 0, 1, 2 and so on, each combined with a random mask by exclusive or: a random order of them,
and another one in the next round.
"""

includes = ["entropy"]
packet_state = "entropy"
flow_state = {"index": "int32", "mask": "int32"}
parameters = {"entropy_bits": ("int32 0..16", 6, "there are 2 to the power of this many entropies")}
fabric = {"balances": 1, "acts": 0}


def on_send(oblivious, node, flow, pkt):
    mine = my_flow(oblivious, flow)
    last = (1 << oblivious.entropy_bits) - 1
    if mine.index == 0:
        mine.mask = draw(node, RANDOM_PATH) & last
    sent = my_packet(oblivious, pkt)
    sent.entropy = mine.index ^ mine.mask
    sent.way = hash31(flow.hash, sent.entropy)
    mine.index = (mine.index + 1) & last
