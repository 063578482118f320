"""How well a receiver keeps up: its rate, the thresholds of its flows, pauses and pacing (Backdraft, section 4).

Queue lengths are in bytes: what was put in, less what the receiver says it has taken out.  A receiver that reports a wrong
count changes only what it gets itself.
"""

import cython

if not cython.compiled:
    from penstock_net.vswitch.dataplane.receiver import (
        LEAST_FRAMES,
        LEAST_NS,
        MEMORY_NS,
        MOST_NS,
        SAMPLE_NS,
        STALE_NS,
        UNKNOWN_NS,
        gain,
    )
    from penstock_net.vswitch.dataplane.state import (
        counter_at,
        flow_end,
        frames_to,
        port_at,
        sent_to,
        signed_of,
        unsigned_of,
        view_of,
        whole,
    )
    from penstock_net.vswitch.memory.layout import load64, word_at
    from penstock_net.vswitch.memory.rings import open_queue


def open_flow(worker, flow, view):
    """Open the receive queue of a flow in its receiver's region; False: the region has no free ring."""
    if not open_queue(view, flow_end(flow), 1, flow.queue):
        return False
    flow.open = 1
    flow.sent = 0
    flow.consumed = 0
    flow.sampled = 0
    set_limits(worker, flow, view)
    flow.base = load64(word_at(view.consumed[1], flow.queue))
    if port_at(worker, flow.target).returned:
        flow.returned = load64(counter_at(port_at(worker, flow.target).returned, flow.queue))
    return True


def measure(worker, flow, view, now):
    """Read what the receiver has taken, and update its rate: a moving average over the times when frames were waiting.

    A sample is weighted by its duration, so that the idle times of a receiver that works in bursts count, too.  An empty queue
    bounds the rate from below only: such a sample can raise the rate, not lower it.
    """
    consumed = taken_by_now(flow, view)
    flow.consumed = consumed
    set_limits(worker, flow, view)
    passed = now - flow.sampled_at
    if passed < SAMPLE_NS:
        return
    gained = consumed - flow.sampled
    if gained == 0 and passed < STALE_NS:
        return
    rate = 1e9 * gained / passed
    if consumed < flow.sent or (flow.rate > 0 and rate > flow.rate):
        weight = 1.0 * passed / (passed + MEMORY_NS)
        flow.rate = flow.rate + (rate - flow.rate) * weight if flow.rate > 0 else rate
    flow.sampled = consumed
    flow.sampled_at = now


def taken_by_now(flow, view):
    """Bytes of a flow that its receiver has taken: as it says now, if that is possible, or as it was last seen."""
    consumed = flow.consumed
    read = load64(word_at(view.consumed[1], flow.queue)) - flow.base
    return read if 0 <= read - consumed <= flow.sent - consumed else consumed


def waiting_now(worker, flow):
    """Bytes in the queue of a flow now, also if no frame has come to it since the receiver took some."""
    return flow.sent - taken_by_now(flow, view_of(port_at(worker, flow.target)))


def set_limits(worker, flow, view):
    """The thresholds of a flow in bytes: as configured, but no more than the receiver's free buffers hold.

    So one flow may take half of the buffers, two stopped flows a third each, and some are always left for another.  A driver
    counts the frames that it takes out; elsewhere a buffer counts as one frame of the recent mean size.
    """
    to = port_at(worker, flow.target)
    if to.returned:
        flow.net = max(1, min(worker.th_net, room_at_driver(worker, to, flow, view)))
        flow.over = min(worker.th_over, flow.net // 2)
        flow.goal = min(worker.th_goal, flow.over // 2)
        return
    if to.sent_frames > to.mean_frames:
        mean = (to.sent_bytes - to.mean_bytes) // (to.sent_frames - to.mean_frames)
        to.mean = to.mean + (mean - to.mean) // 4 if to.mean_frames else mean
        to.mean_frames = to.sent_frames
        to.mean_bytes = to.sent_bytes
    taken = load64(view.total[1]) - to.total_base  # written by the receiver: unsigned, so that any value is safe
    sent = 0
    for i in range(worker.workers):
        sent += sent_to(worker.peers[i], to.number)
    stored = signed_of(unsigned_of(sent) - taken)
    flow.net = max(1, min(worker.th_net, view.buffers * to.mean - max(stored, 0)))
    flow.over = min(worker.th_over, flow.net // 2)
    flow.goal = min(worker.th_goal, flow.over // 2)


def room_at_driver(worker, to, flow, view):
    """Bytes that a flow may have at a driven port: as many frames as there are free buffers, or a few, of its mean size."""
    sent = 0
    for i in range(worker.workers):
        sent += frames_to(worker.peers[i], to.number)
    free = view.buffers - to.kept - (sent - signed_of(load64(counter_at(to.returned, view.queues))))
    held = flow.frames - (signed_of(load64(counter_at(to.returned, flow.queue))) - flow.returned)
    mean = max(1, (flow.sent - flow.consumed) // held) if held > 0 else view.buffer_bytes
    return max(free, LEAST_FRAMES) * mean


def drain_ns(excess, rate):
    """How long a receiver of this rate (bytes per second) needs for so many bytes, in ns within the bounds of a pause."""
    if rate < 1.0:
        return UNKNOWN_NS
    return max(LEAST_NS, min(MOST_NS, whole(min(1e9, 1e9 * excess / rate))))


def pause_time(worker, flow):
    """How long the receiver needs to drain a queue to th_goal, (length - th_goal) / R_recv, in ns within bounds."""
    return drain_ns(flow.sent - flow.consumed - flow.goal, flow.rate)


def pace(worker, txq, flow, length, now):
    """Pause a transmit queue above th_over; afterwards pace it at the receiver's rate, steered so that th_goal bytes wait.

    The pacing rate is twice the receiver's at an empty queue, so that a receiver that becomes faster is noticed, equal to it at
    th_goal, and half of it from one and a half times th_goal on.  The frame itself, which may be longer than th_goal, does not
    count.  A worker that comes late, up to MOST_NS, makes up for it; no frame delays the next by more than that, as the rate may
    be known better by then.
    """
    queued = flow.sent - flow.consumed
    if queued > flow.over:
        ns = pause_time(worker, flow)
        flow.pauses += 1
        flow.paused_ns += ns
        port_at(worker, flow.source).pauses += 1
        port_at(worker, flow.source).paused_ns += ns
        txq.paced = 1
        txq.until = now + ns
        txq.next_at = txq.until
        return
    if not txq.paced or flow.rate < 1.0:
        return
    rate = flow.rate * gain(queued - length, flow.goal)
    txq.next_at = min(max(txq.next_at, now - MOST_NS) + whole(1e9 * length / rate), now + MOST_NS)
    if txq.next_at > now + LEAST_NS:
        txq.until = txq.next_at
