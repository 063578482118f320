"""Forwarding of one frame: classify it by its flow, admit it to the flow's queue, copy it, account for it; pausing and pacing.

Queue lengths are in bytes: what was put in, less what the receiver says it has taken out.  A receiver that reports a wrong
count changes only what it gets itself.
"""

import cython

if not cython.compiled:
    from penstock.vswitch.dataplane.flowtable import find_flow, new_flow
    from penstock.vswitch.dataplane.forward import (
        ADMITTED,
        AT_ONCE,
        LEAST_NS,
        MEMORY_NS,
        MOST_NS,
        SAMPLE_NS,
        STALE_NS,
        UNKNOWN_NS,
    )
    from penstock.vswitch.dataplane.mirror import mirror_drop, mirror_frame
    from penstock.vswitch.dataplane.parse import parse
    from penstock.vswitch.dataplane.state import (
        BACKDRAFT,
        BAD_DESCRIPTOR,
        DELIVERED,
        DROPPED,
        FULL,
        HEADER,
        LOSSY,
        MALFORMED,
        NO_BUFFER,
        NO_QUEUE,
        PFC,
        TOO_LONG,
        WAITS,
        announce,
        flow_at,
        flow_end,
        key_of,
        memset,
        no_flow,
        port_at,
        same_key,
        sent_to,
        signed_of,
        unsigned_of,
        view_of,
        whole,
    )
    from penstock.vswitch.memory.layout import (
        EMPTY,
        bring_line,
        buffer_of,
        bytes_at,
        descriptor,
        length_of,
        load64,
        memcpy,
        word_at,
    )
    from penstock.vswitch.memory.rings import give_some, open_queue, push, take_some
    from penstock.vswitch.ports.base import complete_copy


def deliver(worker, port, txq, word, now):
    """Forward the frame of a descriptor to the receive queue of its flow; DELIVERED, DROPPED, or WAITS.

    A frame that waits stays in its transmit queue until `txq.until`, or until the port's `paused_until`.
    """
    number = classify(worker, port, txq, word, now)
    if number < 0:
        return reject(worker, port, txq, word, -1 - number, now)
    flow = flow_at(worker, number)
    txq.last = number + 1
    to = port_at(worker, flow.target)
    size = length_of(word) - port.prefix + to.prefix
    reason = admit(worker, port, txq, flow, size, now)
    if reason == ADMITTED:
        reason = copy_frame(worker, port, flow, word, size)
    if reason == TOO_LONG:
        return drop(worker, port, txq, flow, word, TOO_LONG)
    if reason != ADMITTED:
        return backpressure(worker, port, txq, flow, word, reason, now)
    account(worker, port, txq, flow, word, size, now)
    return DELIVERED


def classify(worker, port, txq, word, now):
    """Copy the header of a frame and find its flow, or begin one: the flow's number; or, less than zero, -1 minus a reason."""
    view = view_of(port)
    buffer = buffer_of(word)
    length = length_of(word)
    if buffer < 0 or buffer >= view.buffers or length == 0 or length > view.buffer_bytes:
        view.protocol_errors += 1
        return -1 - BAD_DESCRIPTOR
    frame = frame_in(view, port, word)
    memcpy(worker.header, frame, 64)  # a region is longer than its buffers; parse() keeps to the length
    if length > 64:
        memcpy(worker.header + 64, frame + 64, HEADER - 64)
    key = key_of(worker)
    if not parse(worker.header, length - port.prefix, port.serial, key):
        return -1 - MALFORMED
    flow = last_flow(worker, txq, key)
    if not flow:
        flow = find_flow(worker, key)
    if not flow:
        return new_flow(worker, port, key, now)
    return flow.number


def reject(worker, port, txq, word, reason, now):
    """A frame without a flow is dropped; in a lossless mode it waits if its receiver has no queue for one more flow."""
    if reason != NO_QUEUE or worker.mode == LOSSY:
        return drop(worker, port, txq, no_flow(), word, reason)
    txq.until = now + UNKNOWN_NS
    if worker.mode == PFC:
        port.paused_until = txq.until
    return WAITS


def admit(worker, port, txq, flow, size, now):
    """Whether the receive queue of a flow has room for a frame of `size` bytes: ADMITTED, TOO_LONG, NO_BUFFER or FULL.

    A queue is full above th_net; one that has been full is so until it is below th_over.
    """
    into = view_of(port_at(worker, flow.target))
    if size > into.buffer_bytes:
        return TOO_LONG
    if not flow.open and not open_flow(worker, flow, into):
        return NO_BUFFER
    if flow.sent + size - flow.consumed > flow.goal or now - flow.sampled_at > SAMPLE_NS:
        measure(worker, flow, into, now)
    queued = flow.sent - flow.consumed + size
    if queued > (flow.over if txq.blocked or port.waiting == flow.number + 1 else flow.net) and queued > size:
        return FULL
    return ADMITTED


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
    return True


def copy_frame(worker, port, flow, word, size):
    """Copy a frame into a receive buffer and append it to the queue of its flow: ADMITTED, or NO_BUFFER.

    The first HEADER bytes come from the worker's own copy, which the flow was chosen by.
    """
    to = port_at(worker, flow.target)
    into = view_of(to)
    place = receive_buffer(to)
    if place < 0:
        return NO_BUFFER
    frame = frame_in(view_of(port), port, word)
    length = length_of(word) - port.prefix
    to_frame = bytes_at(into.buffer[1], place * into.buffer_bytes)
    if port.prefix or to.prefix:
        copy_with_prefix(worker, port, to, frame, to_frame, length)
    else:
        memcpy(to_frame, worker.header, min(length, HEADER))
        if length > HEADER:
            memcpy(to_frame + HEADER, frame + HEADER, length - HEADER)
    if push(into, flow_end(flow), descriptor(place, size)):
        return ADMITTED
    to.taken[to.taken_count] = place
    to.taken_count += 1
    return NO_BUFFER


def copy_with_prefix(worker, port, to, frame, to_frame, length):
    """Copy a frame of `length` bytes between ports of which at least one has virtio_net_hdr before its frames.

    The header is copied, or empty, or its open check sum is completed.
    """
    if to.prefix:
        if port.prefix:
            memcpy(to_frame, frame - port.prefix, port.prefix)
        else:
            memset(to_frame, 0, to.prefix)
        to_frame += to.prefix
    memcpy(to_frame, worker.header, min(length, HEADER))
    if length > HEADER:
        memcpy(to_frame + HEADER, frame + HEADER, length - HEADER)
    if port.prefix > to.prefix:
        complete_copy(frame - port.prefix, to_frame, length)


def account(worker, port, txq, flow, word, size, now):
    """Count a delivered frame of `size` bytes, return its transmit buffer, and pace its transmit queue."""
    to = port_at(worker, flow.target)
    length = length_of(word)
    if worker.mirrors:
        mirror_frame(worker, port, txq, flow, frame_in(view_of(port), port, word), length - port.prefix)
    give_back(port, buffer_of(word))
    flow.sent += size
    flow.longest = max(flow.longest, flow.sent - flow.consumed)
    flow.used_at = now
    flow.frames += 1
    port.received_frames += 1
    port.received_bytes += length
    to.sent_frames += 1
    to.sent_bytes += size
    announce(to, flow.queue)
    txq.blocked = 0
    port.waiting = 0
    if worker.mode == BACKDRAFT:
        pace(worker, txq, flow, size, now)


def frame_in(view, port, word):
    """Where the Ethernet header of a transmitted frame is, whose descriptor has been checked."""
    return bytes_at(view.buffer[0], buffer_of(word) * view.buffer_bytes) + port.prefix


def last_flow(worker, txq, key):
    """The flow of the last frame of a transmit queue, if this frame is of the same one; else NULL."""
    if txq.last == 0:
        return no_flow()
    flow = flow_at(worker, txq.last - 1)
    return flow if flow.used and same_key(cython.address(flow.key), key) else no_flow()


def receive_buffer(port):
    """A free receive buffer, or EMPTY.  Several are taken at once; those left at the end of the turn are returned."""
    if port.taken_count == 0:
        view = view_of(port)
        count = take_some(view.buffer_stack[1], view.buffer_next[1], view.buffers, port.taken, port.refill)
        if count <= 0:
            return EMPTY
        for i in range(count):
            bring_line(bytes_at(view.buffer[1], port.taken[i] * view.buffer_bytes))
        port.taken_count = count
        port.refill = min(2 * port.refill, AT_ONCE)
    port.taken_count -= 1
    return port.taken[port.taken_count]


def give_back(port, buffer):
    """Return a transmit buffer: with others, at the end of the turn at the latest."""
    port.emptied[port.emptied_count] = buffer
    port.emptied_count += 1
    if port.emptied_count == AT_ONCE:
        return_buffers(port)


def return_buffers(port):
    """Return the emptied transmit buffers of a port to its region, and the receive buffers that were taken and not used."""
    view = view_of(port)
    if port.emptied_count:
        give_some(view.buffer_stack[0], view.buffer_next[0], port.emptied, port.emptied_count)
        port.emptied_count = 0
    if port.taken_count:
        give_some(view.buffer_stack[1], view.buffer_next[1], port.taken, port.taken_count)
        if 2 * port.taken_count > port.refill:
            port.refill = max(4, port.refill // 2)
        port.taken_count = 0


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
    """A receiver has no room for a frame: drop it (lossy), pause its port (pfc), or pause its transmit queue.

    Each attempt in vain doubles the pause, up to 1 ms.
    """
    if worker.mode == LOSSY:
        flow.dropped += 1
        return drop(worker, port, txq, flow, word, reason)
    ns = min(pause_time(worker, flow) << txq.blocked, 1000000)
    if worker.mode == PFC:
        if port.waiting != flow.number + 1:
            flow.pauses += 1
            port.pauses += 1
        port.waiting = flow.number + 1
        ns = min(ns, UNKNOWN_NS)
        port.paused_until = now + ns
        port.paused_ns += ns
    else:
        if not txq.blocked:
            flow.pauses += 1
            port.pauses += 1
        txq.blocked = min(txq.blocked + 1, 10)
        txq.until = now + ns
    flow.paused_ns += ns
    return WAITS


def measure(worker, flow, view, now):
    """Read what the receiver has taken, and update its rate: a moving average over the times when frames were waiting.

    A sample is weighted by its duration, so that the idle times of a receiver that works in bursts count, too.  An empty queue
    bounds the rate from below only: such a sample can raise the rate, not lower it.
    """
    consumed = flow.consumed
    read = load64(word_at(view.consumed[1], flow.queue)) - flow.base
    if 0 <= read - consumed <= flow.sent - consumed:
        consumed = read
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


def set_limits(worker, flow, view):
    """The thresholds of a flow in bytes: as configured, but no more than the receiver's free buffers hold.

    A buffer counts as one frame of the recent mean size.  So one flow may take half of the free buffers, two stopped flows a
    third each, and some are always left for another.
    """
    to = port_at(worker, flow.target)
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


def pause_time(worker, flow):
    """How long the receiver needs to drain a queue to th_goal, (length - th_goal) / R_recv, in ns within bounds."""
    over = flow.sent - flow.consumed - flow.goal
    if flow.rate < 1.0:
        return UNKNOWN_NS
    return max(LEAST_NS, min(MOST_NS, whole(min(1e9, 1e9 * over / flow.rate))))


def pace(worker, txq, flow, length, now):
    """Pause a transmit queue above th_over; afterwards pace it at the receiver's rate, steered so that th_goal bytes wait.

    The pacing rate is half the receiver's at twice th_goal and twice the receiver's at an empty queue, so that a receiver that
    becomes faster is noticed.  The frame itself, which may be longer than th_goal, does not count.
    """
    queued = flow.sent - flow.consumed
    if queued > flow.over:
        ns = pause_time(worker, flow)
        flow.pauses += 1
        flow.paused_ns += ns
        port_at(worker, flow.source).pauses += 1
        txq.paced = 1
        txq.until = now + ns
        txq.next_at = txq.until
        return
    if not txq.paced or flow.rate < 1.0:
        return
    rate = flow.rate * max(0.5, min(2.0, 2.0 - 1.0 * (queued - length) / max(flow.goal, 1)))
    txq.next_at = max(txq.next_at, now) + whole(1e9 * length / rate)
    if txq.next_at > now + LEAST_NS:
        txq.until = min(txq.next_at, now + MOST_NS)
