"""Drops the given packets of flow 0, the first `times` times that they come to a switch."""

parameters = {"packets": ("bytes[32]", [], "their numbers, plus one"), "times": ("int32 1..100", 1, "how often")}
scheme_state = {"count": "int64"}
node_state = {"lost": "int32[32]"}


def admit(lose, node, port, pkt):
    if pkt.kind != DATA or pkt.number != 0 or node.tier == 0:
        return ADMITTED
    for i in range(32):
        if lose.packets[i] == pkt.seq // lose.at.world.mtu + 1 and my_node(lose, node).lost[i] < lose.times:
            my_node(lose, node).lost[i] += 1
            return DROPPED
    return ADMITTED
