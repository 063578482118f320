"""The load generator's sources and sinks, which drive the application's side of regions without the interpreter.

`step(app, now)` runs one iteration of an application, as `turn(worker, now)` does of the switch; `now` is in ns, of a virtual
clock or of real time.  Arrivals are open-loop: a frame carries its scheduled sending time, and latency counts from that time,
including the time for which it waited in the application.  The Python interface is penstock_net.vswitch.loadgen.harness.
"""

import cython

if not cython.compiled:
    from math import log

    from penstock_net.vswitch.dataplane.state import byte_at, whole
    from penstock_net.vswitch.loadgen.calls import handle_call, send_calls
    from penstock_net.vswitch.loadgen.frames import (
        ANSWER,
        AT_ONCE,
        CALL,
        DATA,
        HEAD,
        KINDS,
        REQUEST,
        STAMP,
        WHAT,
        WHOSE,
        app_bell_in,
        app_bell_out,
        app_view,
        begin_frame,
        calls_at,
        core_at,
        end_frame,
        get32,
        get64,
        inbox_at,
        inbox_end,
        note,
        put8,
        put32,
        put64,
        real,
        shuffled,
        stream_at,
        uniform,
    )
    from penstock_net.vswitch.memory.layout import (
        CLOSED,
        bell_of,
        buffer_of,
        bytes_at,
        count_of,
        is_link,
        length_of,
        load64,
        low,
        memcpy,
        queue_of,
        store64,
        word_at,
    )
    from penstock_net.vswitch.memory.rings import answer_bell, find_queue, give_buffer, pop, ring_bell, slot_of


def interval(stream):
    """Ns from this message to the next."""
    if not stream.poisson:
        return stream.gap
    stream.random = shuffled(stream.random)
    return -log(uniform(stream.random)) * stream.gap


# ---- Sending ----


def send_one(app, stream, now):
    """Put one frame into its transmit queue; returns whether there was room."""
    view = app_view(app)
    buffer = begin_frame(app, stream.queue, stream.length, stream.most)
    if buffer < 0:
        return False
    frame = bytes_at(view.buffer[0], buffer * view.buffer_bytes)
    memcpy(frame, stream.head, HEAD)
    put64(frame + STAMP, whole(stream.began))
    put32(frame + WHOSE, stream.peer)
    put8(frame + WHAT, stream.kind)
    put8(frame + WHAT + 1, stream.what)
    put8(frame + WHAT + 2, stream.core)
    if not end_frame(app, stream.queue, buffer, stream.length):
        return False
    stream.sent += 1
    stream.left -= 1
    return True


def begin_message(stream, now):
    """Whether a message is to be sent now, which is started if it is due; an answer starts when its request is served."""
    if stream.left > 0:
        return stream.what != ANSWER or stream.due <= now
    if stream.what == ANSWER:
        return False
    if stream.waiting:
        if stream.timeout > 0 and now - stream.tried_at > stream.timeout:
            stream.repeated += 1
            stream.tried_at = now
            stream.got = 0
            stream.left = stream.burst
            return True
        return False
    if stream.due > now:
        return False
    stream.began = stream.due if stream.gap > 0 else now
    if stream.gap > 0:
        stream.due += interval(stream)
    stream.left = stream.burst
    stream.got = 0
    stream.tried_at = now
    stream.waiting = 1 if stream.what == REQUEST else 0
    return True


def send(app, now):
    """Send due messages, streams in round robin, with a doorbell for each run of frames; returns the number of frames."""
    view = app_view(app)
    budget = AT_ONCE
    first = app.stream_at
    for i in range(app.stream_count):
        at = first + i if first + i < app.stream_count else first + i - app.stream_count
        stream = stream_at(app, at)
        count = 0
        while budget > 0 and count < 8 and begin_message(stream, now):
            if not send_one(app, stream, now):
                app.blocked += 1
                break
            count += 1
            budget -= 1
        if count == 0:
            continue
        if app.doorbells:
            ring_bell(view, app_bell_out(app), 0, bell_of(stream.queue, count, 0, 0))
        app.stream_at = at + 1 if at + 1 < app.stream_count else 0  # the stream after the last that sent
        if budget <= 0:
            break
    return AT_ONCE - budget


# ---- Receiving ----


def find(app, inbox, queue):
    if not inbox.known:
        if not find_queue(app_view(app), inbox_end(inbox), 1, queue):
            return False
        inbox.known = 1
    return True


def core_of(app, inbox):
    """The core that serves the first frame of a queue."""
    if app.core_count == 1 or not inbox.known:
        return inbox.core
    view = app_view(app)
    end = inbox.end
    for _ in range(2):
        word = load64(slot_of(view, cython.address(end)))
        if is_link(word):
            end.ring = low(word)
            end.at = 0
    if word == 0 or word == CLOSED or is_link(word):
        return inbox.core
    frame = bytes_at(view.buffer[1], buffer_of(word) * view.buffer_bytes)
    return byte_at(frame, WHAT + 2) % app.core_count


def list_queue(app, queue):
    """Append a queue with announced frames to the list of its core."""
    inbox = inbox_at(app, queue)
    core = core_at(app, inbox.core)
    inbox.next = -1
    inbox.listed = 1
    if core.head < 0:
        core.head = queue
    else:
        inbox_at(app, core.tail).next = queue
    core.tail = queue


def take_bells(app, now):
    view = app_view(app)
    for _ in range(256):
        bell = answer_bell(view, app_bell_in(app), 1)
        if bell == 0:
            return
        queue = queue_of(bell)
        inbox = inbox_at(app, queue)
        inbox.announced += count_of(bell)
        if not inbox.listed and find(app, inbox, queue):
            inbox.core = core_of(app, inbox)
            list_queue(app, queue)


def next_frame(app, inbox, queue):
    """The descriptor of the next frame of a queue, or zero; handles the end of a closed queue."""
    while inbox.announced > 0:
        if not find(app, inbox, queue):
            inbox.announced = 0
            return 0
        word = pop(app_view(app), inbox_end(inbox))
        if word == 0:
            inbox.announced = 0
            return 0
        inbox.announced -= 1
        if word != CLOSED:
            return word
        inbox.known = 0
    return 0


def serve(app, core, now, waited):
    """Let a core serve frames until it is busy beyond `now`, a batch from each queue in turn; returns the number of frames."""
    view = app_view(app)
    served = 0
    start = core.free_at if waited else max(core.free_at, now)
    while core.free_at <= now and core.head >= 0 and served < 256:
        queue = core.head
        inbox = inbox_at(app, queue)
        core.head = inbox.next
        inbox.listed = 0
        for _ in range(app.batch):
            word = next_frame(app, inbox, queue)
            if word == 0:
                break
            served += 1
            buffer = buffer_of(word)
            length = length_of(word)
            frame = bytes_at(view.buffer[1], buffer * view.buffer_bytes)
            start += core.service
            if app.loss > 0:
                app.random = shuffled(app.random)
            if app.loss > 0 and uniform(app.random) < app.loss:
                app.lost += 1
            else:
                handle(app, frame, length, max(start, now))
            give_buffer(view, 1, buffer)
            consumed = word_at(view.consumed[1], queue)
            store64(consumed, load64(consumed) + length)
            store64(view.total[1], load64(view.total[1]) + length)
        core.free_at = start
        if inbox.announced > 0:
            inbox.core = core_of(app, inbox)  # one queue may hold frames for several cores, in order
            list_queue(app, queue)
    return served


def handle(app, frame, length, done):
    what = byte_at(frame, WHAT + 1)
    if what == DATA:
        if done >= app.since:
            kind = byte_at(frame, WHAT) % KINDS
            app.frames[kind] += 1
            app.bytes[kind] += length
            note(app, kind, done - real(get64(frame + STAMP)))
        return
    if what >= CALL:
        handle_call(app, what, frame, length, done)
        return
    which = get32(frame + WHOSE)
    if which < 0 or which >= app.stream_count:
        return
    if what == REQUEST:
        answer(app, stream_at(app, which), frame, done)
    elif what == ANSWER:
        answered(app, stream_at(app, which), frame, length, done)


def answer(app, stream, frame, done):
    """Start the answer to a request that has been served; for a repeated request it starts again."""
    stream.began = real(get64(frame + STAMP))
    stream.due = done
    stream.left = stream.burst


def answered(app, stream, frame, length, done):
    """Handle a received frame of an answer; the last one completes the request."""
    if not stream.waiting or get64(frame + STAMP) != whole(stream.began):
        return
    stream.got += 1
    if done >= app.since:
        app.frames[stream.kind] += 1
        app.bytes[stream.kind] += length
    if stream.got < stream.answers:
        return
    stream.waiting = 0
    stream.finished += 1
    if stream.gap <= 0:
        stream.due = done
    if done >= app.since:
        note(app, stream.kind, done - stream.began)


def step(app, now):
    """Receive available frames and send due ones; returns the number of frames sent."""
    waited = 0
    for i in range(app.core_count):
        if core_at(app, i).head >= 0:
            waited |= 1 << i
    take_bells(app, now)
    for i in range(app.core_count):
        core = core_at(app, i)
        if core.head >= 0 and core.free_at <= now:
            serve(app, core, now, waited >> i & 1)
    sent = send(app, now) if app.stream_count else 0
    for i in range(app.calls_count):
        sent += send_calls(app, calls_at(app, i), AT_ONCE, now)
    return sent
