"""Stochastic fair queueing (McKenney, INFOCOM 1990), as the BFC paper adds it to HPCC (NSDI 2022, section 6.4): `hpcc+sfq`.

Flows are hashed to the queues of a port, which deficit round robin serves; flows of one queue share its turn.  No queue is
paused.  The hash is that of `dqa:stochastic` and stays the same: McKenney's changes from time to time, which reorders packets.
"""

title = "SFQ"
parameters = {"queues": ("int32 1..1024", 32, "queues per port, beside the control queue (BFC section 6.4: as many as BFC)")}
fabric = {"queues": "queues"}


def choose_queue(sfq, node, port, pkt):
    return pick(pkt.hash, node.hash_seed + 2, sfq.queues)
