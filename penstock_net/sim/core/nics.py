"""Hosts with several ports: which one a flow leaves by, and all of them at once."""

import cython

if not cython.compiled:
    from penstock_net.fabric.line import kick
    from penstock_net.fabric.pinned import hop_at, pinned_slot
    from penstock_net.fabric.routing import group_towards
    from penstock_net.fabric.state import nic_at, pick, port_at, queue_at


def choose_nic(node, flow):
    """The part of a host for the port by which a flow is to leave: of those on a shortest path, by the path given to it,
    its rail or its hash.  The one that it has if there is no path."""
    group = group_towards(node, flow.dst)
    if group < 0:
        return flow.nic
    if node.worker.world.pin_of:
        given = hop_at(node, group, pinned_slot(node, flow.number, flow.src, flow.dst))
        if given >= 0:
            return nic_at(node, node.next_hops[group + 1 + given])
    rails = node.worker.world.rails
    if rails and rails[flow.number] >= 0:
        return nic_at(node, node.next_hops[group + 1 + rails[flow.number] % node.next_hops[group]])
    return nic_at(node, node.next_hops[group + 1 + pick(flow.hash, node.hash_seed, node.next_hops[group])])


def next_nic(node, flow):
    """The part of a host for the port by which the next packet of a flow is to leave, where its packets take turns: of those on a
    shortest path the one after the last packet's, or the first after it that is not paused, and none that its flow avoids."""
    group = group_towards(node, flow.dst)
    if group < 0:
        return flow.nic
    count = node.next_hops[group]
    last = 0
    for i in range(count):
        if node.next_hops[group + 1 + i] == flow.nic.port.slot:
            last = i
    avoided = flow.avoided
    for i in range(1, count + 1):
        nic = nic_at(node, node.next_hops[group + 1 + (last + i) % count])
        if not nic.port.paused and not queue_at(nic.port, flow.queue).paused and not avoided >> (nic.port.slot & 63) & 1:
            return nic
    return nic_at(node, node.next_hops[group + 1 + (last + 1) % count])


def kick_others(node):
    """Let the other ports of a host transmit if they have flows."""
    for slot in range(1, node.port_count):
        if nic_at(node, slot).levels:
            kick(node, port_at(node, slot))
