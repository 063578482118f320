"""The driver's side of an overlay: frames in datagrams of the protocol (session.py), and Overlay Pause Frames.

A frame that is longer than the path takes in one piece goes as TCP segments, which the receiver joins again (segment.py), or in
parts.  Nothing is left to fragments of IP, of which one that is lost costs all others.

A pause frame (Backdraft, section 4) names a flow, how long it is paused and the rate at which it then continues.  It is sent
when more than th_over of the flow waits here, or when the flow leaves too few buffers to others.  While a flow is paced, another
one follows when the rate is wrong by a factor of two, at most every 20 ms (1 ms while the queue is nearly empty).  Both sides
forget a rate after a second.
"""

import cython

if not cython.compiled:
    from penstock_net.vswitch.dataplane.driver_state import (
        held_in,
        key_of_tx_flow,
        note_progress,
        outgoing_of,
        own_key,
        rxq_at,
        side_of,
        tx_flow_at,
    )
    from penstock_net.vswitch.dataplane.flowmap import copy_key, find_name
    from penstock_net.vswitch.dataplane.flowtable import find_flow
    from penstock_net.vswitch.dataplane.overlay import (
        BUFFERS_PART,
        CORRECT_NS,
        EARLY_NS,
        HELD_AT_ONCE,
        HELD_EACH_NS,
        HOLD_NS,
        LEASE_NS,
        LOOK_NS,
        LOWER_BELOW,
        MOST_RATE,
        PAUSE_BYTES,
        PAUSES_PART,
        PIECES,
        RAISE_ABOVE,
        RAISE_ABOVE_LATER,
        RENEWED_PART,
        REPEAT_NS,
        RETRY_NS,
        ROOM,
        STARVING_NS,
        STARVING_PART,
        STOPPED_BYTES,
        STOPPED_NS,
        STOPPED_PART,
        cut_of,
        joint_of,
        rate_of,
        session_of,
    )
    from penstock_net.vswitch.dataplane.path_search import set_most
    from penstock_net.vswitch.dataplane.receiver import drain_ns, gain, measure
    from penstock_net.vswitch.dataplane.schedule import hasten
    from penstock_net.vswitch.dataplane.session import (
        CONTENT_AT,
        FIRST,
        FRAME,
        HELLO,
        LAST,
        MIDDLE,
        PAUSE,
        PROBE,
        put_word,
        search_of,
        session_due,
        session_halve_window,
        session_may_send,
        session_message,
        session_seal,
        session_take,
        session_unsend,
        signed_from,
        word_of,
    )
    from penstock_net.vswitch.dataplane.session_view import session_row
    from penstock_net.vswitch.dataplane.state import (
        BACKDRAFT,
        MOST_PORTS,
        REASONS,
        byte_at,
        port_at,
        signed_of,
        txq_at,
        view_of,
        whole,
    )
    from penstock_net.vswitch.memory.layout import load64, memcpy, word_at, word_from
    from penstock_net.vswitch.ports.base import (
        A_FRAME,
        A_MESSAGE,
        ETHERNET_BYTES,
        path_of,
        port_flush,
        port_learn,
        port_receive,
        port_send,
        received_too_long,
        set_sends,
        set_sure,
    )
    from penstock_net.vswitch.ports.segment import begin_cut, begin_join, finish_join, joined, next_segment
    from penstock_net.vswitch.world.calls.table import socket_drops

# ---- Messages that are due ----


def overlay_turn(worker, driver, now):
    """Send the messages that are due, and see whether our socket was full; driver.next_due is when there is more to do."""
    overlay = driver.overlay
    if overlay.first_held:
        if now >= overlay.held_at:
            renew_pauses(worker, driver, now)
        driver.next_due = min(driver.next_due, overlay.held_at)
    session = session_of(overlay)
    overlay.now = now
    set_sure(driver.kernel, session.search.sure if session.search.sure < session.search.most else 0)
    if session.lost != overlay.lost_seen and now >= overlay.look_at:
        look_at_socket(driver, now)
    due = session_due(session)
    if now < due:  # most turns
        driver.next_due = min(driver.next_due, due)
        return
    follow_path(driver, now)
    sent = 0
    while sent < PIECES:
        length = session_message(session, overlay.outgoing, now)
        if length == 0:
            break
        if not send_message(driver, length):
            kind = byte_at(overlay.outgoing, 3) & 0x7F
            if kind == HELLO:
                session.hello_at = now + RETRY_NS
            elif kind < PROBE:
                session_unsend(session, length, now)
            break
        sent += 1
    if sent:
        port_flush(driver.kernel)
    driver.next_due = min(driver.next_due, max(session_due(session), now + 1))


def send_message(driver, length):
    """Send a message in `outgoing`, which is no frame; False: the device has no room, counted."""
    set_sends(driver.kernel, A_MESSAGE)
    done = port_send(driver.kernel, driver.overlay.outgoing, length)
    set_sends(driver.kernel, A_FRAME)
    if not done:
        driver.overlay.no_room += 1
    return done


def follow_path(driver, now):
    """Tell the search what the kernel lets pass; it is asked before each probe."""
    search = search_of(session_of(driver.overlay))
    if now >= search.due:
        port_learn(driver.kernel)
    set_most(search, path_of(driver.kernel), now)


def longest_datagram(driver):
    """What passes to the peer in one piece."""
    path = path_of(driver.kernel)
    sure = driver.overlay.session.search.sure
    if path == 0:
        return ROOM
    return min(path, sure) if sure else path


def look_at_socket(driver, now):
    """After a loss: was it our socket that was full?  Then the peer is permitted less; other losses do not mean that."""
    overlay = driver.overlay
    overlay.look_at = now + LOOK_NS
    overlay.lost_seen = overlay.session.lost
    drops = socket_drops(driver.kernel.fd)
    if drops > overlay.drops_seen:
        session_halve_window(session_of(overlay), now)
    overlay.drops_seen = drops


def overlay_may_send(overlay):
    return session_may_send(session_of(overlay), CONTENT_AT)


# ---- Frames that go out ----


def send_content(driver, kind, length, now):
    """Send a datagram whose content is in `outgoing`: 1, or 0: the device has no room, or -1: the peer permits no more now."""
    overlay = driver.overlay
    session = session_of(overlay)
    length += CONTENT_AT
    if not session_may_send(session, length):
        return -1
    session_seal(session, overlay.outgoing, kind, length, now)
    if not port_send(driver.kernel, overlay.outgoing, length):
        overlay.no_room += 1
        session_unsend(session, length, now)
        return 0
    return 1


def overlay_send(driver, frame, length, now):
    """Send a frame to the peer: 1, or 0 or -1 as send_content().  What was sent of it is not sent again with the next attempt."""
    overlay = driver.overlay
    session = session_of(overlay)
    content = overlay.outgoing + CONTENT_AT
    room = longest_datagram(driver) - CONTENT_AT
    if length <= room:
        memcpy(content, frame, length)
        return send_content(driver, FRAME, length, now)
    if (
        overlay.sending != frame
        or overlay.sending_length != length
        or overlay.sending_room != room
        or overlay.sending_session != session.sessions
    ):
        overlay.sending = frame
        overlay.sending_length = length
        overlay.sending_room = room
        overlay.sending_session = session.sessions
        overlay.sent_bytes = 0
        overlay.cutting = driver.kernel.header and begin_cut(cut_of(overlay), frame, length, room)
    if not overlay.cutting:
        return send_parts(driver, frame, length, room, now)
    cut = cut_of(overlay)
    while session_may_send(session, CONTENT_AT + room):
        before = cut.at
        size = next_segment(cut, frame, content)
        if size == 0:
            overlay.frames_cut += 1
            overlay.sending_length = 0
            return 1
        done = send_content(driver, FRAME, size, now)
        if done <= 0:
            cut.at = before
            return done
        overlay.segments_out += 1
    return -1


def send_parts(driver, frame, length, room, now):
    """Send a frame that is too long, and cannot be cut into segments, in parts."""
    overlay = driver.overlay
    if room < ETHERNET_BYTES:
        overlay.unsendable += 1
        return 1
    while overlay.sent_bytes < length:
        size = min(room, length - overlay.sent_bytes)
        memcpy(overlay.outgoing + CONTENT_AT, frame + overlay.sent_bytes, size)
        kind = MIDDLE
        if overlay.sent_bytes == 0:
            kind = FIRST
        elif overlay.sent_bytes + size == length:
            kind = LAST
        done = send_content(driver, kind, size, now)
        if done <= 0:
            return done
        overlay.sent_bytes += size
    overlay.frames_in_parts += 1
    overlay.sending_length = 0
    return 1


# ---- Frames that come in ----


def overlay_receive(worker, driver, to, room, now):
    """The next frame from the peer, consecutive segments joined, into `to`: its bytes; 0: there is none now; -1: none yet."""
    overlay = driver.overlay
    joint = joint_of(overlay)
    joint.count = 0
    length = 0
    came = 0
    for _ in range(PIECES):
        if overlay.held_length == 0:
            came = fetch(worker, driver, now)
            if came <= 0:
                break
        if length == 0:
            size = overlay.held_length
            overlay.held_length = 0
            if size > room:
                received_too_long(driver.kernel)
                continue
            memcpy(to, overlay.held, size)
            length = size
            if driver.kernel.header == 0:
                return length
            begin_join(joint, to, length)
            if joint.count == 0:
                return length
            continue
        more = joined(joint, to, length, overlay.held, overlay.held_length, room)
        if more == 0:
            break
        length = more
        overlay.held_length = 0
        if joint.full:
            break
    if length == 0:
        return came if came < 0 else 0
    if joint.count > 1:
        overlay.joined_in += joint.count - 1
        finish_join(joint, to, length)
    return length


def fetch(worker, driver, now):
    """Receive datagrams until there is a frame, which is then held: its bytes; 0: there is no datagram left; -1: none so far."""
    overlay = driver.overlay
    session = session_of(overlay)
    datagram = overlay.incoming
    for _ in range(PIECES):
        length = port_receive(driver.kernel, datagram, ROOM)
        if length <= 0:
            return length
        kind = session_take(session, datagram, length, now)
        if kind == PAUSE:
            take_pause(worker, driver, datagram, length, now)
        elif kind == FRAME:
            overlay.held = datagram + CONTENT_AT
            overlay.held_length = length - CONTENT_AT
        elif kind > FRAME:
            take_part(driver, kind, datagram, length - CONTENT_AT)
        if overlay.held_length:
            if overlay.held_length >= driver.kernel.header + ETHERNET_BYTES:
                return overlay.held_length
            overlay.held_length = 0
            driver.malformed += 1
    return -1


def take_part(driver, kind, datagram, size):
    """A part of a frame, which is held when it is complete; if one is missing or out of order the others are dropped, counted."""
    overlay = driver.overlay
    number = signed_from(datagram + 16)
    if kind == FIRST:
        overlay.parts_lost += 1 if overlay.parts_length else 0
        overlay.parts_length = 0
        overlay.parts_session = overlay.session.sessions
    elif overlay.parts_length == 0 or number != overlay.parts_next or overlay.parts_session != overlay.session.sessions:
        overlay.parts_lost += 1 if overlay.parts_length else 0
        overlay.parts_length = 0
        return
    if overlay.parts_length + size > ROOM:
        overlay.parts_lost += 1
        overlay.parts_length = 0
        return
    memcpy(overlay.parts + overlay.parts_length, datagram + CONTENT_AT, size)
    overlay.parts_length += size
    overlay.parts_next = number + 1
    if kind == LAST:
        overlay.held = overlay.parts
        overlay.held_length = overlay.parts_length
        overlay.parts_length = 0


# ---- Pause frames ----


def write_pause(driver, key, ns, rate, now):
    """Send a pause frame, with what is flushed next; False: there is no peer, or no room for it now.

    It is sent whatever the peer permits, but uses that up.
    """
    overlay = driver.overlay
    session = session_of(overlay)
    if not session.peer_confirmed:
        return False
    content = overlay.outgoing + CONTENT_AT
    for i in range(5):
        put_word(content + 8 * i, key.words[i])
    put_word(content + 40, word_of(ns))
    put_word(content + 48, word_of(rate))
    length = CONTENT_AT + PAUSE_BYTES
    session_seal(session, overlay.outgoing, PAUSE, length, now)
    if not send_message(driver, length):
        session_unsend(session, length, now)
        return False
    overlay.pauses_out += 1
    return True


def take_pause(worker, driver, datagram, length, now):
    """PAUSE from the peer: pause a flow, then pace it.  A pause that was sent before the last one changes nothing."""
    overlay = driver.overlay
    if length != CONTENT_AT + PAUSE_BYTES:
        overlay.session.truncated += 1
        return
    content = datagram + CONTENT_AT
    key = own_key(driver)
    for i in range(5):
        key.words[i] = word_from(content + 8 * i)
    number = find_name(worker, outgoing_of(driver), key)
    if number < 0:
        overlay.unknown += 1
        return
    rxq = rxq_at(driver, number)
    at = signed_from(datagram + 16)
    if rxq.pause_session == overlay.session.sessions and at < rxq.pause_number:
        overlay.old_pauses += 1
        return
    rxq.pause_session = overlay.session.sessions
    rxq.pause_number = at
    overlay.pauses_in += 1
    ns = max(0, min(signed_from(content + 40), STOPPED_NS))
    rxq.at = now
    rxq.rate = rate_of(word_from(content + 48))
    rxq.next_at = now + ns
    if ns:
        txq_at(side_of(driver), number).until = now + ns
        driver.side.pauses += 1
        driver.side.paused_ns += ns
    elif rxq.rate < 1 and txq_at(side_of(driver), number).until > now:
        txq_at(side_of(driver), number).until = now
        hasten(worker, MOST_PORTS + driver.port, now)


def taken_from(port):
    """Frames that the switch has taken out of a port's transmit queues."""
    count = port.received_frames
    for i in range(REASONS):
        count += port.drops[i]
    return count


def send_pause(worker, driver, number, length, now):
    """After a frame of a flow has come in: send the peer a pause, or a new rate, if one is due.

    A pause is due when more than th_over of the flow waits, or when it occupies more than its part of the free buffers, counted
    in frames of this length.  It lasts until th_goal is left at the receiver, and no frame of the flow here.  Of a flow of which
    nothing has been taken for long, at no known rate, it lasts an eighth of that time, and one frame follows in each further
    eighth.  Once that is HOLD_NS, the flow is held: the pause is renewed before it ends, with a `length` of 0 as no frame has
    come, until no pause is due any more.
    docs/vswitch-overlay.md derives the control law and its constants.
    """
    tx_flow = tx_flow_at(driver, number)
    key = own_key(driver)
    copy_key(key, key_of_tx_flow(tx_flow))
    key.words[4] |= port_at(worker, driver.port).serial
    behind = tx_flow.sent - length - signed_of(load64(word_at(driver.side.view.consumed[0], number)))
    free = driver.side.view.buffers - driver.put + taken_from(port_at(worker, driver.port))
    queued = behind
    frame = length if length else behind // max(1, held_in(tx_flow, txq_at(port_at(worker, driver.port), number)))
    goal = worker.th_goal
    over = worker.th_over
    rate = 0.0
    flow = find_flow(worker, key)
    if flow:
        taken = flow.consumed
        measure(worker, flow, view_of(port_at(worker, flow.target)), now)
        if flow.consumed != taken:
            tx_flow.moved_at = now
        queued += flow.sent - flow.consumed
        goal = flow.goal
        over = flow.over
        rate = flow.rate
    excess = queued - goal
    ns = 0
    held_to = 0.0
    pausing = 1 if worker.mode == BACKDRAFT and (queued > over or behind > free * frame // BUFFERS_PART) else 0
    is_held = 1 if tx_flow.hold_until and tx_flow.rate_sent < 0 else 0
    if pausing:
        if length and now < (tx_flow.pause_sent_at + EARLY_NS if is_held else tx_flow.quiet_until):
            return
        ns = drain_ns(max(excess, behind), rate)
        stopped_ns = min((now - tx_flow.moved_at) // STOPPED_PART, STOPPED_NS)
        if is_held or (rate < 1 and stopped_ns > ns):
            ns = max(stopped_ns, HOLD_NS) if is_held else stopped_ns
            held_to = 1e9 * max(frame, STOPPED_BYTES) / ns
    elif tx_flow.rate_sent < 0 or length == 0:
        rate = 0.0
    elif not may_correct(tx_flow, rate, queued, goal, now):
        return
    elif excess > 0:
        ns = drain_ns(excess, rate)
    rate *= gain(queued - 1e-9 * ns * rate, goal)
    if not pausing and is_about_right(tx_flow, rate, now):
        return
    if write_pause(driver, key_of_tx_flow(tx_flow), ns, whole(min(max(rate, held_to), MOST_RATE)), now):
        tx_flow.rate_sent = -1.0 if held_to > 0 else rate
        tx_flow.pause_sent_at = now
        tx_flow.quiet_until = now + ns
        if length:
            port_flush(driver.kernel)
        if held_to > 0 and ns >= HOLD_NS:
            tx_flow.hold_until = now + ns
            hold_flow(driver, number, now + ns // RENEWED_PART)
        elif ns or rate > 0:
            tx_flow.hold_until = 0  # this word is a newer one than that it may go on


def may_correct(tx_flow, rate, queued, goal, now):
    """Whether the peer has a rate that may be corrected by now: soon if the receiver may be idle."""
    if tx_flow.rate_sent < 1 or rate < 1 or now - tx_flow.pause_sent_at > LEASE_NS:
        return False
    return now >= tx_flow.pause_sent_at + (CORRECT_NS if queued > goal // STARVING_PART else STARVING_NS)


def is_about_right(tx_flow, rate, now):
    """Whether the last rate is so near to the new one that it need not be sent.

    A rate that is too low is corrected earlier once it has been used for a while: it may have been measured when the receiver
    was not scheduled.
    """
    raise_above = RAISE_ABOVE_LATER if now > tx_flow.pause_sent_at + CORRECT_NS else RAISE_ABOVE
    return LOWER_BELOW * tx_flow.rate_sent < rate < raise_above * tx_flow.rate_sent


# ---- Flows that are held ----


def hold_flow(driver, number, at):
    """Look at a flow at a time (ns), to renew its pause or to end it."""
    overlay = driver.overlay
    tx_flow = tx_flow_at(driver, number)
    if not tx_flow.check_at:
        tx_flow.next_held = 0
        if overlay.last_held:
            tx_flow_at(driver, overlay.last_held - 1).next_held = number + 1
        else:
            overlay.first_held = number + 1
            overlay.held_at = at
        overlay.last_held = number + 1
        overlay.held_count += 1
    tx_flow.check_at = at
    overlay.held_at = min(overlay.held_at, at)


def renew_pauses(worker, driver, now):
    """Look at the held flows whose time has come: at all of few, else at a part, each ms."""
    overlay = driver.overlay
    count = min(overlay.held_count, HELD_AT_ONCE + overlay.held_count // 8)
    due = now + HELD_EACH_NS if count < overlay.held_count else now + STOPPED_NS
    for _ in range(count):
        number = overlay.first_held - 1
        tx_flow = tx_flow_at(driver, number)
        at = tx_flow.check_at
        overlay.first_held = tx_flow.next_held
        if not overlay.first_held:
            overlay.last_held = 0
        overlay.held_count -= 1
        if now >= at:
            at = tx_flow.check_at if is_still_held(worker, driver, number, now) else 0
        tx_flow.check_at = 0
        if at:
            hold_flow(driver, number, at)
            due = min(due, at)
    port_flush(driver.kernel)
    overlay.held_at = max(due, now + EARLY_NS)


def is_still_held(worker, driver, number, now):
    """Renew the pause of a flow, or say that it may go on: again and again, as such a word may be lost.

    False: the last pause of which the peer can know has ended, there has been another word since, or the peer is silent.
    `check_at` is when to look again.  What is renewed takes a quarter of what the peer permits, and leaves the rest to frames.
    """
    tx_flow = tx_flow_at(driver, number)
    session = session_of(driver.overlay)
    if session.dead or (tx_flow.rate_sent >= 0 and now >= tx_flow.hold_until):
        return False
    note_progress(tx_flow, txq_at(port_at(worker, driver.port), number), now)
    tx_flow.check_at = now + REPEAT_NS
    if session.sent_cost - session.acked_cost <= session.granted // PAUSES_PART:
        send_pause(worker, driver, number, 0, now)
    return True


# ---- For Python ----


def overlay_row(driver):
    """State and counters of an overlay."""
    overlay = driver.overlay
    return {
        **session_row(session_of(overlay), overlay.now),
        "pauses_sent": overlay.pauses_out,
        "pauses_received": overlay.pauses_in,
        "unknown_flow": overlay.unknown,
        "old_pauses": overlay.old_pauses,
        "path_bytes": longest_datagram(driver) if path_of(driver.kernel) else 0,
        "frames_cut": overlay.frames_cut,
        "segments_sent": overlay.segments_out,
        "segments_joined": overlay.joined_in,
        "frames_in_parts": overlay.frames_in_parts,
        "parts_lost": overlay.parts_lost,
        "unsendable": overlay.unsendable,
        "no_room": overlay.no_room,
    }
