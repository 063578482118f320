"""One frame: from a transmit queue, through the flow table, into the receive queue of its flow; and what a slow receiver changes.

Queue lengths are in bytes: what was put in, less what the receiver says it has taken out.  A receiver that lies about that
changes only what it gets itself.
"""

import cython

if not cython.compiled:
    from penstock.vswitch.dataplane.flowtable import find_flow, new_flow
    from penstock.vswitch.dataplane.forward import AT_ONCE, LEAST_NS, MEMORY_NS, MOST_NS, SAMPLE_NS, STALE_NS, UNKNOWN_NS
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
        nothing,
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

if not cython.compiled:
    raise ImportError("penstock.vswitch.dataplane.forward works compiled only: run python setup.py build_ext --inplace")


def deliver(worker, port, txq, word, now):
    """What became of the frame: DELIVERED, DROPPED, or WAITS (as long as `until`, or the port's `paused_until`)."""
    view = view_of(port)
    buffer = buffer_of(word)
    length = length_of(word)
    if buffer < 0 or buffer >= view.buffers or length == 0 or length > view.buffer_bytes:
        view.protocol_errors += 1
        return drop(worker, port, txq, nothing(), word, BAD_DESCRIPTOR)
    frame = bytes_at(view.buffer[0], buffer * view.buffer_bytes)
    memcpy(worker.header, frame + port.prefix, 64)  # a region is longer than its buffers; parse() keeps to the length
    if length > 64:
        memcpy(worker.header + 64, frame + port.prefix + 64, HEADER - 64)
    key = key_of(worker)
    if not parse(worker.header, length - port.prefix, port.serial, key):
        return drop(worker, port, txq, nothing(), word, MALFORMED)
    flow = expected(worker, txq, key)
    if not flow:
        flow = find_flow(worker, key)
    if not flow:
        number = new_flow(worker, port, key, now)
        if number == -1 - NO_QUEUE and worker.mode != LOSSY:
            txq.until = now + UNKNOWN_NS
            if worker.mode == PFC:
                port.paused_until = txq.until
            return WAITS
        if number < 0:
            return drop(worker, port, txq, nothing(), word, -1 - number)
        flow = flow_at(worker, number)
    txq.last = flow.number + 1
    to = port_at(worker, flow.target)
    into = view_of(to)
    size = length - port.prefix + to.prefix
    if size > into.buffer_bytes:
        return drop(worker, port, txq, flow, word, TOO_LONG)
    if not flow.open:
        if not open_queue(into, flow_end(flow), 1, flow.queue):
            return backpressure(worker, port, txq, flow, word, NO_BUFFER, now)
        flow.open = 1
        flow.sent = 0
        flow.consumed = 0
        flow.sampled = 0
        set_limits(worker, flow, into, now)
        flow.base = load64(word_at(into.consumed[1], flow.queue))
    if flow.sent + size - flow.consumed > flow.goal or now - flow.sampled_at > SAMPLE_NS:
        measure(worker, flow, into, now)
    queued = flow.sent - flow.consumed + size
    if queued > (flow.over if txq.blocked or port.waiting == flow.number + 1 else flow.net) and queued > size:
        return backpressure(worker, port, txq, flow, word, FULL, now)
    place = receive_buffer(to)
    if place < 0:
        return backpressure(worker, port, txq, flow, word, NO_BUFFER, now)
    to_frame = bytes_at(into.buffer[1], place * into.buffer_bytes)
    if port.prefix or to.prefix:
        copy_with_prefix(worker, port, to, frame, to_frame, length)
    else:
        memcpy(to_frame, worker.header, min(length, HEADER))
        if length > HEADER:
            memcpy(to_frame + HEADER, frame + HEADER, length - HEADER)
    if not push(into, flow_end(flow), descriptor(place, size)):
        to.taken[to.taken_count] = place
        to.taken_count += 1
        return backpressure(worker, port, txq, flow, word, NO_BUFFER, now)
    if worker.mirrors:
        mirror_frame(worker, port, txq, flow, frame + port.prefix, length - port.prefix)
    give_back(port, buffer)
    flow.sent += size
    if queued > flow.longest:
        flow.longest = queued
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
    return DELIVERED


def copy_with_prefix(worker, port, to, frame, to_frame, length):
    """The same with a virtio_net_hdr before the frame, which is copied, put or resolved."""
    frame += port.prefix
    if to.prefix:
        if port.prefix:
            memcpy(to_frame, frame - port.prefix, port.prefix)
        else:
            memset(to_frame, 0, to.prefix)
        to_frame += to.prefix
    length -= port.prefix
    memcpy(to_frame, worker.header, min(length, HEADER))
    if length > HEADER:
        memcpy(to_frame + HEADER, frame + HEADER, length - HEADER)
    if port.prefix > to.prefix:
        complete_copy(frame - port.prefix, to_frame, length)


def expected(worker, txq, key):
    """The flow of the last frame of a transmit queue, if this frame is of the same: a queue should carry one flow."""
    if txq.last == 0:
        return nothing()
    flow = flow_at(worker, txq.last - 1)
    return flow if flow.used and same_key(cython.address(flow.key), key) else nothing()


def receive_buffer(port):
    """A free receive buffer.  Several are taken at once; those that are left at the end of the turn go back."""
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
    """A transmit buffer is empty; several are given back at once, at the end of the turn at the latest."""
    port.emptied[port.emptied_count] = buffer
    port.emptied_count += 1
    if port.emptied_count == AT_ONCE:
        return_buffers(port)


def return_buffers(port):
    """Give transmit buffers back, and receive buffers that were taken and not used."""
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
    """Give the buffer back and count; of a frame that came no further than its header there is no flow."""
    if worker.mirrors:
        mirror_drop(worker, port, txq, flow, word, reason)
    if reason != BAD_DESCRIPTOR:
        give_back(port, buffer_of(word))
    port.drops[reason] += 1
    txq.drops[reason] += 1
    return DROPPED


def backpressure(worker, port, txq, flow, word, reason, now):
    """There is no room for a frame: drop it, or let the port or the transmit queue wait."""
    if worker.mode == LOSSY:
        flow.dropped += 1
        return drop(worker, port, txq, flow, word, reason)
    ns = min(pause_time(worker, flow) << txq.blocked, 1000000)  # again and again in vain: more and more rarely
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
    """What the receiver has taken since, and its rate: a moving average over the times when frames were waiting for it.

    A sample counts for as long as it took: of a receiver that works in bursts the rests count, too.  Of a queue that is empty
    only the arrivals are known: they can raise the rate, not lower it.
    """
    consumed = flow.consumed
    read = load64(word_at(view.consumed[1], flow.queue)) - flow.base
    if 0 <= read - consumed <= flow.sent - consumed:
        consumed = read
    flow.consumed = consumed
    set_limits(worker, flow, view, now)
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


def set_limits(worker, flow, view, now):
    """The thresholds of a flow: as configured, but no more than what is free of the receiver's buffers.

    Free buffers count as frames of the size that the last ones had.  So one flow may take half of them, two stopped flows a third
    each, and there is always something left for another.
    """
    to = port_at(worker, flow.target)
    if to.sent_frames > to.mean_frames:
        mean = (to.sent_bytes - to.mean_bytes) // (to.sent_frames - to.mean_frames)
        to.mean = to.mean + (mean - to.mean) // 4 if to.mean_frames else mean
        to.mean_frames = to.sent_frames
        to.mean_bytes = to.sent_bytes
    taken = load64(view.total[1]) - to.total_base  # of unsigned numbers: it may be anything
    sent = 0
    for i in range(worker.workers):
        sent += sent_to(worker.peers[i], to.number)
    stored = signed_of(unsigned_of(sent) - taken)
    flow.net = max(1, min(worker.th_net, view.buffers * to.mean - max(stored, 0)))
    flow.over = min(worker.th_over, flow.net // 2)
    flow.goal = min(worker.th_goal, flow.over // 2)


def pause_time(worker, flow):
    """(length - th_goal) / R_recv in ns."""
    over = flow.sent - flow.consumed - flow.goal
    if flow.rate < 1.0:
        return UNKNOWN_NS
    return max(LEAST_NS, min(MOST_NS, whole(min(1e9, 1e9 * over / flow.rate))))


def pace(worker, txq, flow, length, now):
    """Pause a transmit queue above th_over; afterwards let it go at the receiver's rate, steered so that th_goal bytes wait.

    Half that rate at twice th_goal, twice the rate at an empty queue: a receiver that becomes faster is found out.  The frame
    itself, which may be longer than th_goal, does not count.
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
