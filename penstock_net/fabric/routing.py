"""Where a node sends what is for a host: computed from the hosts behind its ports, or from a table (topology/routes.py)."""

import cython

if not cython.compiled:
    from penstock_net.fabric.state import ATTACHED, NO_PORT, node_at, pick, port_at, within


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
    return port_by_hash(node, host, pkt.hash)


def port_by_hash(node, host, hash):
    """The same for what has this hash."""
    group = group_towards(node, host)
    if group < 0:
        return NO_PORT
    count = node.next_hops[group]
    return port_at(node, node.next_hops[group + 1 + (pick(hash, node.hash_seed, count) if count > 1 else 0)])


def passes(node, port, host, hash, switch, slot):
    """Whether what leaves by `port` for a host and has this hash leaves the switch of this number by its port `slot` later.

    Where something else than the hash chooses, only the link to a host that has one is known in advance.
    """
    world = node.worker.world
    there = port_at(node_at(world, switch), slot)
    if there.peer_node < world.host_count:
        if there.peer_node != host:
            return False
        if node_at(world, host).port_count == 1:
            return port != there
    while port.peer_node >= world.host_count:
        here = node_at(world, port.peer_node)
        if here.ops.choose_path or here.ops.choose_port:
            return False
        port = port_by_hash(here, host, hash)
        if port == NO_PORT or port == there:  # noqa: SIM109  (pointers)
            return port == there
    return False


def path_count(node, pkt):
    """Number of next hops of a packet."""
    return node.next_hops[group_towards(node, pkt.dst)]


def path_at(node, pkt, i):
    """The port of one of them."""
    return port_at(node, node.next_hops[group_towards(node, pkt.dst) + 1 + i])
