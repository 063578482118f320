"""Forwarding of a frame from a transmit queue to the receive queue of its flow, and backpressure if there is no room."""

import cython

if not cython.compiled:
    from penstock_net.vswitch.dataplane.mirror import mirror_drop
    from penstock_net.vswitch.dataplane.receiver import UNKNOWN_NS, pause_time
    from penstock_net.vswitch.dataplane.state import (
        BAD_DESCRIPTOR,
        DELIVERED,
        DROPPED,
        EVICTED,
        LOSSY,
        NO_QUEUE,
        PFC,
        TOO_LONG,
        WAITS,
        announce,
        driven_side,
        no_flow,
        port_at,
        send_to_driver,
        view_of,
    )
    from penstock_net.vswitch.dataplane.steps import ADMITTED, account, admit, classify, copy_frame, frame_in, give_back
    from penstock_net.vswitch.memory.layout import buffer_of, length_of


def deliver(worker, port, txq, word, now):
    """Forward the frame of a descriptor to the receive queue of its flow; DELIVERED, DROPPED, or WAITS.

    A frame that waits stays in its transmit queue until `txq.until`, or until the port's `paused_until`.
    """
    frame = frame_in(view_of(port), port, word)
    flow = classify(worker, port, txq, frame, word, now)
    if not flow:
        return reject(worker, port, txq, word, worker.reason, now)
    txq.last = flow.number + 1
    to = port_at(worker, flow.target)
    size = length_of(word) - port.prefix + to.prefix
    reason = admit(worker, port, txq, to, flow, size, now)
    if reason == ADMITTED and sent_direct(worker, port, to, flow, frame, size, now):
        account(worker, port, txq, to, flow, frame, word, size, now)
        return DELIVERED
    if reason == ADMITTED:
        reason = copy_frame(worker, port, to, flow, frame, word, size)
    if reason == TOO_LONG:
        return drop(worker, port, txq, flow, word, TOO_LONG)
    if reason != ADMITTED:
        return backpressure(worker, port, txq, flow, word, reason, now)
    announce(to, flow.queue)
    account(worker, port, txq, to, flow, frame, word, size, now)
    return DELIVERED


def sent_direct(worker, port, to, flow, frame, size, now):
    """Send a frame between two devices of this worker on the direct path, if possible; returns whether it was sent.

    Not for frames of an application, which could modify them meanwhile, nor during captures, which record the received addresses.
    """
    if not port.wakes or port.prefix != to.prefix or worker.mirrors or not driven_side(worker, to.number):
        return False
    return send_to_driver(worker, driven_side(worker, to.number), flow.queue, frame - port.prefix, size, now)


def reject(worker, port, txq, word, reason, now):
    """Drop a frame without a flow; in a lossless mode it waits if its receiver has no queue for another flow."""
    if reason != NO_QUEUE or worker.mode == LOSSY:
        return drop(worker, port, txq, no_flow(), word, reason)
    if txq.taken < txq.evicted:
        return drop(worker, port, txq, no_flow(), word, EVICTED)
    txq.until = now + UNKNOWN_NS
    if worker.mode == PFC:
        port.paused_until = txq.until
    return WAITS


def drop(worker, port, txq, flow, word, reason):
    """Drop a frame: count it by reason and return its buffer; `flow` is NULL for a frame that has none."""
    if worker.mirrors:
        mirror_drop(worker, port, txq, flow, word, reason)
    if reason != BAD_DESCRIPTOR:
        give_back(port, buffer_of(word))
    port.drops[reason] += 1
    txq.drops[reason] += 1
    return DROPPED


def backpressure(worker, port, txq, flow, word, reason, now):
    """Handle a frame for which the receiver has no room: drop it (lossy), pause its port (pfc), or pause its transmit queue.

    The pause backs off exponentially, up to 1 ms, or 1 us per paused queue if that is more, so the rate of failed attempts is
    bounded for any number of queues.
    """
    if worker.mode == LOSSY:
        flow.dropped += 1
        return drop(worker, port, txq, flow, word, reason)
    if txq.taken < txq.evicted:
        flow.dropped += 1
        return drop(worker, port, txq, flow, word, EVICTED)
    ns = min(pause_time(worker, flow) << txq.blocked, max(1000000, 1000 * worker.timer_count))
    if worker.mode == PFC:
        if port.waiting != flow.number + 1:
            flow.pauses += 1
            port.pauses += 1
        port.waiting = flow.number + 1
        ns = min(ns, UNKNOWN_NS)
        port.paused_until = now + ns
    else:
        if not txq.blocked:
            flow.pauses += 1
            port.pauses += 1
        txq.blocked = min(txq.blocked + 1, 10)
        txq.until = now + ns
    flow.paused_ns += ns
    port.paused_ns += ns
    return WAITS
