"""Where a node sends what is for a host: computed from the hosts behind its ports, or from a table (topology/routes.py)."""

import cython

if not cython.compiled:
    from penstock_net.fabric.state import ATTACHED, NO_PORT, pick, port_at, within


def group_towards(node, dst):
    """Where the group of next hops towards a host begins in node.next_hops; -1: there is none."""
    below = dst - node.below
    if within(below, node.span):
        return 2 * (below * node.share >> 32)
    if node.beyond >= 0:
        return node.beyond
    return tabulated_group(node, dst)


def tabulated_group(node, dst):
    """The same from the node's table."""
    world = node.worker.world
    group = node.routes[world.host_class[dst]]
    if group == ATTACHED:
        return world.host_group[dst]
    return group


def port_towards(node, pkt, host):
    """The port by which ECMP would send a packet if it were for this host; NO_PORT: no path leads there."""
    group = group_towards(node, host)
    if group < 0:
        return NO_PORT
    count = node.next_hops[group]
    return port_at(node, node.next_hops[group + 1 + (pick(pkt.hash, node.hash_seed, count) if count > 1 else 0)])


def path_count(node, pkt):
    """Number of next hops of a packet."""
    return node.next_hops[group_towards(node, pkt.dst)]


def path_at(node, pkt, i):
    """The port of one of them."""
    return port_at(node, node.next_hops[group_towards(node, pkt.dst) + 1 + i])
