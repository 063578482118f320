"""Hosts with several ports: which one a flow leaves by, and all of them at once."""

import cython

if not cython.compiled:
    from penstock_net.fabric.line import kick
    from penstock_net.fabric.routing import group_towards
    from penstock_net.fabric.state import nic_at, pick, port_at


def choose_nic(node, flow):
    """The part of a host for the port by which a flow is to leave: of those on a shortest path, by its hash.  The one that it
    has if there is no path."""
    group = group_towards(node, flow.dst)
    if group < 0:
        return flow.nic
    return nic_at(node, node.next_hops[group + 1 + pick(flow.hash, node.hash_seed, node.next_hops[group])])


def kick_others(node):
    """Let the other ports of a host transmit if they have flows."""
    for slot in range(1, node.port_count):
        if nic_at(node, slot).levels:
            kick(node, port_at(node, slot))
