"""The steps of forwarding a frame: dequeue, classify, admit to the queue of its flow, copy, account.

setup.py inlines them into worker.serve_queue and forward.deliver.
"""

import cython

if not cython.compiled:
    from penstock_net.vswitch.dataplane.buffers import AT_ONCE, return_buffers, take_buffers
    from penstock_net.vswitch.dataplane.flowtable import find_flow, new_flow
    from penstock_net.vswitch.dataplane.mirror import mirror_frame
    from penstock_net.vswitch.dataplane.parse import parse
    from penstock_net.vswitch.dataplane.receiver import SAMPLE_NS, measure, open_flow, pace
    from penstock_net.vswitch.dataplane.state import (
        BACKDRAFT,
        BAD_DESCRIPTOR,
        FULL,
        HEADER,
        MALFORMED,
        NO_BUFFER,
        TOO_LONG,
        flow_at,
        flow_end,
        flow_key,
        key_of,
        memset,
        no_flow,
        same_key,
        txq_end,
        view_of,
    )
    from penstock_net.vswitch.dataplane.station_flows import other_flow
    from penstock_net.vswitch.dataplane.steps import ADMITTED, copy_bytes
    from penstock_net.vswitch.memory.layout import EMPTY, buffer_of, bytes_at, descriptor, length_of, memcpy
    from penstock_net.vswitch.memory.rings import find_queue, is_open, pop, push
    from penstock_net.vswitch.ports.base import complete_copy
    from penstock_net.vswitch.ports.segment import is_of_datagrams


def next_word(view, txq, side, number):
    """Dequeue the next word of a queue that the other side fills, or zero."""
    if not txq.known:
        if not is_open(view, side, number):  # its last word has been answered already
            return 0
        if not find_queue(view, txq_end(txq), side, number):
            return 0
        txq.known = 1
    return pop(view, txq_end(txq))


def classify(worker, port, txq, frame, word, now):
    """Copy the header of a frame and find or create its flow, or find one to share; NULL: `worker.reason` says why."""
    view = view_of(port)
    buffer = buffer_of(word)
    length = length_of(word)
    if buffer < 0 or buffer >= view.buffers or length == 0 or length > view.buffer_bytes:
        view.protocol_errors += 1
        worker.reason = BAD_DESCRIPTOR
        return no_flow()
    memcpy(worker.header, frame, 64)  # a region is longer than its buffers; parse() keeps to the length
    if length > 64:
        memcpy(worker.header + 64, frame + 64, HEADER - 64)
    key = key_of(worker)
    if not parse(worker.header, length - port.prefix, port.serial, key):
        worker.reason = MALFORMED
        return no_flow()
    flow = last_flow(worker, txq, key)
    if flow:
        return flow
    flow = find_flow(worker, key)
    if flow:
        return flow
    number = new_flow(worker, port, key, now)
    if number >= 0:
        return flow_at(worker, number)
    return other_flow(worker, port, key, -1 - number, now)


def last_flow(worker, txq, key):
    """The flow of the last frame of a transmit queue, if this frame belongs to it; else NULL."""
    if txq.last == 0:
        return no_flow()
    flow = flow_at(worker, txq.last - 1)
    return flow if flow.used and same_key(flow_key(flow), key) else no_flow()


def frame_in(view, port, word):
    """Address of the Ethernet header of a transmitted frame; not to be read before classify() has checked the descriptor."""
    return bytes_at(view.buffer[0], buffer_of(word) * view.buffer_bytes) + port.prefix


def admit(worker, port, txq, to, flow, size, now):
    """Whether the receive queue of a flow has room for a frame of `size` bytes: ADMITTED, TOO_LONG, NO_BUFFER or FULL.

    A queue is full above th_net, with hysteresis: once full it stays so until it is below th_over.
    """
    into = view_of(to)
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


def copy_frame(worker, port, to, flow, frame, word, size):
    """Copy a frame into a receive buffer and append it to the queue of its flow: ADMITTED, NO_BUFFER or TOO_LONG."""
    into = view_of(to)
    if port.prefix > to.prefix and is_of_datagrams(frame - port.prefix):  # its port has come since it was not cut
        return TOO_LONG
    place = receive_buffer(to)
    if place < 0:
        return NO_BUFFER
    length = length_of(word) - port.prefix
    to_frame = bytes_at(into.buffer[1], place * into.buffer_bytes)
    if port.prefix or to.prefix:
        copy_with_prefix(worker, port, to, frame, to_frame, length)
    else:
        copy_from_header(worker, frame, to_frame, length)
    if push(into, flow_end(flow), descriptor(place, size)):
        return ADMITTED
    to.taken[to.taken_count] = place
    to.taken_count += 1
    return NO_BUFFER


def copy_with_prefix(worker, port, to, frame, to_frame, length):
    """Copy a frame of `length` bytes between ports of which at least one uses virtio_net_hdr.

    The header is copied, or zeroed; without one, a partial checksum is completed.
    """
    if to.prefix:
        if port.prefix:
            memcpy(to_frame, frame - port.prefix, port.prefix)
        else:
            memset(to_frame, 0, to.prefix)
        to_frame += to.prefix
    copy_from_header(worker, frame, to_frame, length)
    if port.prefix > to.prefix:
        complete_copy(frame - port.prefix, to_frame, length)


def copy_from_header(worker, frame, to_frame, length):
    """Copy `length` bytes of a frame: its first HEADER bytes from the worker's own copy, by which it was classified."""
    if length < 64:
        copy_bytes(to_frame, worker.header, length)
        return
    memcpy(to_frame, worker.header, 64)
    if length > 64:
        copy_bytes(to_frame + 64, worker.header + 64, min(length, HEADER) - 64)
    if length > HEADER:
        memcpy(to_frame + HEADER, frame + HEADER, length - HEADER)


def account(worker, port, txq, to, flow, frame, word, size, now):
    """Count a delivered frame of `size` bytes, return its transmit buffer, and pace its transmit queue."""
    length = length_of(word)
    if worker.mirrors:
        mirror_frame(worker, port, txq, flow, frame, length - port.prefix)
    give_back(port, buffer_of(word))
    queued = flow.sent - flow.consumed + size
    flow.sent += size
    if queued > flow.longest:
        flow.longest = queued
    flow.used_at = now
    flow.frames += 1
    port.received_frames += 1
    port.received_bytes += length
    to.sent_frames += 1
    to.sent_bytes += size
    txq.blocked = 0
    port.waiting = 0
    if worker.mode == BACKDRAFT:
        pace(worker, txq, flow, size, now)


def receive_buffer(port):
    """Allocate a receive buffer, or EMPTY.  They are taken in batches; unused ones are returned at the end of the turn."""
    if port.taken_count == 0 and not take_buffers(port):
        return EMPTY
    port.taken_count -= 1
    return port.taken[port.taken_count]


def give_back(port, buffer):
    """Return a transmit buffer; buffers are returned in batches, at the end of the turn at the latest."""
    port.emptied[port.emptied_count] = buffer
    port.emptied_count += 1
    if port.emptied_count == AT_ONCE:
        return_buffers(port)
