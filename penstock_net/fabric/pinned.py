"""Paths that are given: of single flows, or of packets by turns, instead of those that a hash or a scheme chooses.

The first hook of choose_path, where paths are given; those of schemes follow it.  A table `pins` has for each flow that has a
path its source, its destination, and where the hops of the two directions begin; at each of these places so many hops as
it says, each a node and the port by which packets leave it.  Only nodes with a choice are listed.
"""

import cython

if not cython.compiled:
    from penstock_net.fabric.routing import group_towards, path_count
    from penstock_net.fabric.state import ACK, mask_of, pick


def pinned_slot(node, number, src, dst):
    """The port by which what goes from src to dst for a flow is to leave a node; -1: none is given."""
    world = node.worker.world
    if number < 0 or number >= world.flow_count or world.pin_of[number] == 0:
        return -1
    pins = world.pins
    at = world.pin_of[number]
    if pins[at] == src and pins[at + 1] == dst:
        at = pins[at + 2]
    elif pins[at] == dst and pins[at + 1] == src:
        at = pins[at + 3]
    else:
        return -1
    for i in range(pins[at]):
        if pins[at + 1 + 2 * i] == node.id:
            return pins[at + 2 + 2 * i]
    return -1


def hop_at(node, group, slot):
    """The place of a port in a group of next hops; -1: it is not among them, such as when its link is down."""
    for i in range(node.next_hops[group]):
        if node.next_hops[group + 1 + i] == slot:
            return i
    return -1


def otherwise(node, port, pkt):
    """What the scheme chooses, else the hash."""
    hook = node.ops.choose_path.next
    if hook:
        return hook.call(hook.me, node, port, pkt)
    return pick(pkt.hash, node.hash_seed, path_count(node, pkt))


def choose_pinned(me, node, port, pkt):
    """The next hop of a packet of a flow whose path is given; frames that schemes send about a flow take its paths, too."""
    number = pkt.number
    if pkt.kind > ACK:
        number = mask_of(pkt)
    given = hop_at(node, group_towards(node, pkt.dst), pinned_slot(node, number, pkt.src, pkt.dst))
    if given >= 0:
        return given
    return otherwise(node, port, pkt)


def choose_turn(me, node, port, pkt):
    """The next hop of a packet, where all that come by a port of a switch take turns."""
    turns = node.worker.world.turns
    at = node.first_port + port.slot
    if turns[at] < 0:
        return otherwise(node, port, pkt)
    turns[at] += 1
    return (turns[at] - 1) % path_count(node, pkt)
