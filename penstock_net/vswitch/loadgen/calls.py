"""Calls: RPCs of the load generator that retransmit lost frames.

A client has a fixed number of calls, and starts one whenever a request arrives and one of them is free.  The server asks for the
missing frames of a request when it has heard nothing for `resend`; the client asks about a call of which it has heard nothing for
three times that, and is told what is missing, all of it if the server does not know the call, or gets the answer again.  An
answer is one frame.
"""

import cython

if not cython.compiled:
    from math import log

    from penstock_net.vswitch.dataplane.state import byte_at, whole
    from penstock_net.vswitch.loadgen.frames import (
        ASK,
        AT_ONCE,
        CALL,
        ETHERNET,
        HEAD,
        IP_LENGTH,
        IPV4,
        NO_ROOM,
        REPLY,
        RESEND,
        SMALLEST,
        SOURCE_PORT,
        STAMP,
        TARGET_PORT,
        UDP_LENGTH,
        WHAT,
        WHOSE,
        app_bell_out,
        app_view,
        begin_frame,
        call_at,
        calls_at,
        end_frame,
        get32,
        get64,
        note,
        put8,
        put16,
        put32,
        put64,
        queue_of_call,
        real,
        shuffled,
        uniform,
    )
    from penstock_net.vswitch.memory.layout import bell_of, bytes_at, memcpy
    from penstock_net.vswitch.memory.rings import ring_bell


def next_gap(calls):
    """Ns from this call to the next."""
    if not calls.poisson:
        return calls.gap
    calls.random = shuffled(calls.random)
    return -log(uniform(calls.random)) * calls.gap


def call_wants(calls, number):
    """Append a call that has frames to send to the list of such calls."""
    call = call_at(calls, number)
    if call.listed:
        return
    call.listed = 1
    call.next = -1
    if calls.first < 0:
        calls.first = number
    else:
        call_at(calls, calls.last).next = number
    calls.last = number


def start_calls(calls, now):
    """Start a call for each request that has arrived, as long as one is free."""
    while calls.due <= now and calls.free >= 0:
        number = calls.free
        call = call_at(calls, number)
        calls.free = call.after
        calls.busy += 1
        call.open = 1
        call.ask = 0
        call.began = calls.due
        call.heard = now
        call.done = 0
        call.wanted = calls.whole_mask
        calls.due += next_gap(calls)
        call_wants(calls, number)


def check_calls(calls, now):
    """Ask about calls without news."""
    calls.checked = now
    if calls.client and calls.busy == 0:
        return
    for number in range(calls.count):
        call = call_at(calls, number)
        if calls.client:
            if call.open and call.wanted == 0 and not call.ask and now - call.heard > 3 * calls.resend:
                call.ask = 1
                call.heard = now
                call_wants(calls, number)
        elif call.done and call.done != calls.whole_mask and call.wanted == 0 and now - call.heard > calls.resend:
            call.wanted = calls.whole_mask & ~call.done
            call.about = call.began
            call.heard = now
            call_wants(calls, number)


def send_call_frame(app, calls, number, what, length, index, mask, began):
    """Put a frame of a call into its transmit queue; returns whether it is done: queued, or lost for lack of room."""
    view = app_view(app)
    queue = queue_of_call(calls, number)
    buffer = begin_frame(app, queue, length, calls.most)
    if buffer < 0:
        if buffer == NO_ROOM and calls.spills:
            calls.spilled += 1
            return True
        return False
    frame = bytes_at(view.buffer[0], buffer * view.buffer_bytes)
    memcpy(frame, calls.head, HEAD)
    put16(frame + IP_LENGTH, length - ETHERNET)
    put16(frame + UDP_LENGTH, length - ETHERNET - IPV4)
    put16(frame + (SOURCE_PORT if calls.client else TARGET_PORT), calls.port + number % calls.queues)
    put64(frame + STAMP, whole(began))
    put32(frame + WHOSE, number)
    put8(frame + WHAT, calls.kind)
    put8(frame + WHAT + 1, what)
    put8(frame + WHAT + 2, calls.core)
    put8(frame + WHAT + 3, calls.peer)
    put8(frame + WHAT + 4, index)
    put32(frame + WHAT + 5, mask)
    if not end_frame(app, queue, buffer, length):
        return False
    calls.rung += 1
    return True


def send_call(app, calls, number, budget, now):
    """Send pending frames of a call, up to `budget`; returns their number.  The others stay pending."""
    call = call_at(calls, number)
    count = 0
    if calls.client:
        for index in range(calls.frames):
            if call.wanted >> index & 1:
                if count == budget or not send_call_frame(app, calls, number, CALL, calls.length, index, 0, call.began):
                    return count
                call.wanted &= ~(1 << index)
                if call.done >> index & 1:
                    calls.repeated += 1
                call.done |= 1 << index
                call.heard = now
                calls.sent += 1
                count += 1
        if call.ask and count < budget and send_call_frame(app, calls, number, ASK, SMALLEST, 0, 0, call.began):
            call.ask = 0
            calls.asked += 1
            count += 1
        return count
    if call.ask and send_call_frame(app, calls, number, REPLY, calls.length, 0, 0, call.began):
        call.ask = 0
        calls.sent += 1
        count += 1
    if call.wanted and count < budget and send_call_frame(app, calls, number, RESEND, SMALLEST, 0, call.wanted, call.about):
        call.wanted = 0
        calls.asked += 1
        count += 1
    return count


def send_calls(app, calls, budget, now):
    """Send for the calls that want to, the first to begin first, with a doorbell for each run of frames; returns their number.

    A call whose queue is full lets those pass that have another one.
    """
    view = app_view(app)
    if calls.client:
        start_calls(calls, now)
    if calls.resend > 0 and now - calls.checked >= calls.resend / 4:
        check_calls(calls, now)
    sent = blocked = 0
    while sent < budget and blocked < AT_ONCE and calls.first >= 0:
        number = calls.first
        call = call_at(calls, number)
        if call.heard > now:  # its last frame is still being served
            break
        calls.rung = 0
        sent += send_call(app, calls, number, budget - sent, now)
        if app.doorbells and calls.rung > 0:
            ring_bell(view, app_bell_out(app), 0, bell_of(queue_of_call(calls, number), calls.rung, 0, 0))
        if (call.wanted or call.ask) and (sent == budget or calls.queues == 1):
            break
        calls.first = call.next
        call.listed = 0
        if call.wanted or call.ask:
            app.blocked += 1
            blocked += 1
            call_wants(calls, number)
    return sent


def handle_call(app, what, frame, length, done):
    """Handle a received frame of a call."""
    which, number = byte_at(frame, WHAT + 3), get32(frame + WHOSE)
    if which >= app.calls_count or number < 0 or number >= calls_at(app, which).count:
        return
    calls = calls_at(app, which)
    began = real(get64(frame + STAMP))
    if calls.client:
        hear_server(app, calls, number, what, frame, length, began, done)
    else:
        hear_client(calls, number, what, frame, began, done)


def hear_server(app, calls, number, what, frame, length, began, done):
    """Handle a frame from the server: an answer ends its call; frames that the server lacks are sent again."""
    call = call_at(calls, number)
    if not call.open or whole(call.began) != whole(began):
        return
    if what == RESEND:
        call.heard = done
        call.wanted |= get32(frame + WHAT + 5) & calls.whole_mask
        call_wants(calls, number)
        return
    call.open = 0
    call.wanted = 0
    call.ask = 0
    call.after = calls.free
    calls.free = number
    calls.busy -= 1
    calls.finished += 1
    if done >= app.since:
        app.frames[calls.kind] += 1
        app.bytes[calls.kind] += length
        note(app, calls.kind, done - call.began)


def hear_client(calls, number, what, frame, began, done):
    """Handle a frame from a client: answer a complete request; report the missing frames if the client asks about a call."""
    call = call_at(calls, number)
    if began < call.began:  # of a call that is over
        return
    if what == CALL:
        if began > call.began:
            call.began = began
            call.done = 0
            call.wanted = 0
            call.ask = 0
        bit = 1 << (byte_at(frame, WHAT + 4) & 31)
        if call.done & bit:
            return
        call.done |= bit
        call.heard = done
        if call.done == calls.whole_mask:
            call.wanted = 0
            call.ask = 1
            call_wants(calls, number)
        return
    call.heard = done
    if began == call.began and call.done == calls.whole_mask:
        call.ask = 1
    else:
        call.about = began
        call.wanted = calls.whole_mask & ~(call.done if began == call.began else 0)
    call_wants(calls, number)
