"""Packets that do not just arrive: lost, on a link with retry, at a switch that cuts through, or looked at by hosts' schemes.

`watched` of a port says that there may be such; below 0 its link is dead, and loses all that is sent over it.
"""

import cython

if not cython.compiled:
    from penstock_net.fabric.losses import drop
    from penstock_net.fabric.queueing import draw, free_frame
    from penstock_net.fabric.retry import is_kept_back, take_set
    from penstock_net.fabric.state import ACK, DATA_LANE, DROP_DOWN, DROP_LOSS, NOT_ROUTED, ORDERED, RANDOM_LOSS
    from penstock_net.sim.core.cutthrough import complete_later, forward_header, is_forwarded, rest_of, store


def lost(node, port, pkt):
    """Draw whether a packet is lost on the wire."""
    chance = port.loss
    if pkt.kind > ACK:
        chance = port.control_loss
    if draw(node, RANDOM_LOSS) < chance:
        return True
    return False


def lose(node, port, pkt):
    """The link is dead: what has been sent over it is lost."""
    if pkt.kind == ORDERED:
        free_frame(node.worker, pkt)
    else:
        drop(node, port, pkt, DROP_DOWN)


def kept_back(node, port, pkt):
    """Whether what has arrived on a link with retry is not passed on."""
    if pkt.kind == ORDERED:
        take_set(node, port, pkt)
        return True
    damaged = False
    if port.control_loss:
        damaged = lost(node, port, pkt)
    return is_kept_back(node, port, pkt, damaged)


def stops(node, port, pkt):
    """Whether nothing else is to be done about a packet that has arrived: it is lost, or a switch that cuts through has it."""
    if port.watched < 0:
        lose(node, port, pkt)
        return True
    rest = rest_of(node, port, pkt)
    if rest and not is_forwarded(pkt):
        complete_later(node, port, pkt, rest, NOT_ROUTED)
        return True
    if port.complete:
        port.complete -= 1
        if pkt.out_port != NOT_ROUTED:
            store(node, pkt)
            return True
    if port.llr:
        if kept_back(node, port, pkt):
            return True
    elif port.control_loss and lost(node, port, pkt):
        drop(node, port, pkt, DROP_LOSS)
        return True
    if node.is_host and pkt.lane == DATA_LANE:
        hook = node.ops.on_arrival
        while hook:
            hook.call(hook.me, node, port, pkt)
            hook = hook.next
    if rest:
        node.hops += 1
        forward_header(node, port, pkt, rest)
        return True
    return False
