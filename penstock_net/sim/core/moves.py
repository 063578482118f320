"""Flows that go over to another port of their host, because links have gone down or come back."""

import cython

if not cython.compiled:
    from penstock_net.fabric.line import kick
    from penstock_net.fabric.state import PARKED, READY, port_at
    from penstock_net.sim.core.lifetimes import claim_queue, own_queues, release_queue, withdraw
    from penstock_net.sim.core.nics import choose_nic
    from penstock_net.sim.core.nodes import tell_of_link
    from penstock_net.sim.core.sender import reschedule_flow


def move_flows(node):
    """The routes of a host with several ports have changed: flows go to the ports that are theirs now, and schemes are told."""
    moved = 0
    flow = node.host.active
    while flow:
        nic = choose_nic(node, flow)
        if nic != flow.nic:
            move_flow(node, flow, nic)
            kick(node, nic.port)
            moved = 1
        flow = flow.next_active
    for slot in range(node.port_count if moved else 0):
        tell_of_link(node, port_at(node, slot))


def move_flow(node, flow, nic):
    """Let a flow leave by another port."""
    state = flow.state
    if state in (READY, PARKED):
        withdraw(node, flow)
    if own_queues(node) and not flow.resting:
        release_queue(flow.nic, flow)
        flow.nic = nic
        claim_queue(node, flow)
    elif node.worker.world.packets_differ:
        flow.queue = nic.nic_queues - 1
    flow.nic = nic
    if state in (READY, PARKED):
        reschedule_flow(node, flow)
