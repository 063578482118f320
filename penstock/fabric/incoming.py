"""What schemes do at a flow's receiver: a timer for each incoming flow, frames about it."""

import cython

if not cython.compiled:
    from penstock.fabric.heap import add, remove
    from penstock.fabric.queueing import set_node_event
    from penstock.fabric.state import FLOW_TIMER, NEVER, first_incoming, keyed_incoming, timers_of


def set_flow_timer(node, incoming, when):
    """Call on_flow_timer for this incoming flow at `when`; NEVER cancels it."""
    heap = timers_of(node.host)
    if incoming.heap_at >= 0:
        remove(heap, keyed_incoming(incoming))
    if when != NEVER:
        incoming.key = when
        add(node.worker.arena, heap, keyed_incoming(incoming))
    set_node_event(node, FLOW_TIMER, first_incoming(heap).key if heap.size else NEVER)


def about_incoming(frame, incoming):
    """Note an incoming flow in a frame to its sender, where flow_of() finds it."""
    frame.slot = incoming.slot
    frame.seq = incoming.number
    frame.hash = incoming.hash


def about_sent(frame, flow):
    """Note a flow in a frame to its receiver, where incoming_of() finds it."""
    frame.slot = flow.slot
    frame.seq = flow.number
    frame.hash = flow.hash


def incoming_of(node, frame):
    """The incoming flow that about_sent() noted, which is new if nothing of it has arrived; NO_INCOMING if it has ended."""
    return node.ops.find_incoming.call(node, frame)
