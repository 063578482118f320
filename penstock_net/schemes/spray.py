"""Packet spraying (Dixit et al., INFOCOM 2013; DRILL, Ghorbani et al., SIGCOMM 2017): each packet takes its own equal-cost path.

`random` draws a path for every packet.  `shortest` is DRILL(d, 1): the shortest of `d` random ones and the one that was
shortest last time, by bytes stored for the port.  Receivers tolerate reordering then, and losses are repaired by timeouts.
"""

parameters = {
    "policy": ("choice random shortest", "random", "choice of the next hop"),
    "d": ("int32 1..64", 2, "policy shortest: samples (DRILL section 3.2)"),
}
fabric = {"reordering": 1}
node_state = {"best": "int16[hosts * switch]"}

SHORTEST = 1


def choose_path(spray, node, port, pkt):
    count = path_count(node, pkt)
    chosen = draw(node, RANDOM_PATH) % count
    if spray.policy == SHORTEST:
        best = my_node(spray, node).best
        for i in range(spray.d):
            other = best[pkt.dst] % count if i == 0 else draw(node, RANDOM_PATH) % count
            if path_at(node, pkt, other).bytes < path_at(node, pkt, chosen).bytes:
                chosen = other
        best[pkt.dst] = chosen
    return chosen
