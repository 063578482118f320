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
    from penstock.vswitch.dataplane.driver_state import key_of_tx_flow, outgoing_of, own_key, rxq_at, side_of, tx_flow_at
    from penstock.vswitch.dataplane.flowmap import copy_key, find_name
    from penstock.vswitch.dataplane.flowtable import find_flow
    from penstock.vswitch.dataplane.overlay import (
        CORRECT_NS,
        LEASE_NS,
        LOOK_NS,
        PAUSE_BYTES,
        PIECES,
        RETRY_NS,
        ROOM,
        STARVING_NS,
        cut_of,
        joint_of,
        rate_of,
        session_of,
        socket_drops,
    )
    from penstock.vswitch.dataplane.receiver import LEAST_NS, MOST_NS, UNKNOWN_NS, measure
    from penstock.vswitch.dataplane.segment import begin_cut, begin_join, finish_join, joined, next_segment
    from penstock.vswitch.dataplane.session import (
        CONTENT_AT,
        FIRST,
        FRAME,
        HELLO,
        LAST,
        MIDDLE,
        PAUSE,
        put_word,
        session_cut,
        session_due,
        session_may_send,
        session_message,
        session_row,
        session_seal,
        session_take,
        session_unsend,
        signed_from,
        word_of,
    )
    from penstock.vswitch.dataplane.state import REASONS, byte_at, port_at, signed_of, txq_at, view_of, whole
    from penstock.vswitch.memory.layout import load64, memcpy, word_at, word_from
    from penstock.vswitch.ports.base import ETHERNET_BYTES, path_of, port_flush, port_receive, port_send, received_too_long


# ---- Messages that are due ----


def overlay_turn(driver, now):
    """Send the messages that are due, and see whether our socket was full; driver.next_due is when there is more to do."""
    overlay = driver.overlay
    session = session_of(overlay)
    overlay.now = now
    if session.lost != overlay.lost_seen and now >= overlay.look_at:
        look_at_socket(driver, now)
    due = session_due(session)
    if now < due:  # most turns
        driver.next_due = min(driver.next_due, due)
        return
    sent = 0
    while sent < PIECES:
        length = session_message(session, overlay.outgoing, now)
        if length == 0:
            break
        if not port_send(driver.kernel, overlay.outgoing, length):
            overlay.no_room += 1
            if byte_at(overlay.outgoing, 3) & 0x7F == HELLO:
                session.hello_at = now + RETRY_NS
            else:
                session_unsend(session, length, now)
            break
        sent += 1
    if sent:
        port_flush(driver.kernel)
    driver.next_due = min(driver.next_due, max(session_due(session), now + 1))


def look_at_socket(driver, now):
    """After a loss: was it our socket that was full?  Then the peer is permitted less; other losses do not mean that."""
    overlay = driver.overlay
    overlay.look_at = now + LOOK_NS
    overlay.lost_seen = overlay.session.lost
    drops = socket_drops(driver.kernel.fd)
    if drops > overlay.drops_seen:
        session_cut(session_of(overlay), now)
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
    room = (path_of(driver.kernel) or ROOM) - CONTENT_AT
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
    """Send a pause frame; False: there is no peer, or no room for it now.  It does not count against what the peer permits."""
    overlay = driver.overlay
    session = session_of(overlay)
    if not session.heard:
        return False
    content = overlay.outgoing + CONTENT_AT
    for i in range(5):
        put_word(content + 8 * i, key.words[i])
    put_word(content + 40, word_of(ns))
    put_word(content + 48, word_of(rate))
    length = CONTENT_AT + PAUSE_BYTES
    session_seal(session, overlay.outgoing, PAUSE, length, now)
    if not port_send(driver.kernel, overlay.outgoing, length):
        overlay.no_room += 1
        session_unsend(session, length, now)
        return False
    port_flush(driver.kernel)
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
    ns = max(0, min(signed_from(content + 40), MOST_NS))
    rxq.at = now
    rxq.rate = rate_of(word_from(content + 48))
    rxq.next_at = now + ns
    if ns:
        txq_at(side_of(driver), number).until = now + ns
        driver.side.pauses += 1
        driver.side.paused_ns += ns


def taken_from(port):
    """Frames that the switch has taken out of a port's transmit queues."""
    count = port.received_frames
    for i in range(REASONS):
        count += port.drops[i]
    return count


def send_pause(worker, driver, number, length, now):
    """After a frame of a flow has come in: send the peer a pause, or a new rate, if one is due.

    A pause is due when more than th_over of the flow waits, or when it occupies more than an eighth of the buffers that are free,
    counted in frames of this length.  It lasts until th_goal is left at the receiver, and no frame of the flow here.
    """
    tx_flow = tx_flow_at(driver, number)
    key = own_key(driver)
    copy_key(key, key_of_tx_flow(tx_flow))
    key.words[4] |= port_at(worker, driver.port).serial
    behind = tx_flow.sent - length - signed_of(load64(word_at(driver.side.view.consumed[0], number)))
    free = driver.side.view.buffers - driver.put + taken_from(port_at(worker, driver.port))
    queued = behind
    goal = worker.th_goal
    over = worker.th_over
    rate = 0.0
    flow = find_flow(worker, key)
    if flow:
        measure(worker, flow, view_of(port_at(worker, flow.target)), now)
        queued += flow.sent - flow.consumed
        goal = flow.goal
        over = flow.over
        rate = flow.rate
    if now - tx_flow.pause_sent_at > LEASE_NS:
        tx_flow.rate_sent = 0
    ns = 0
    much = 1 if queued > over or behind > free * length // 8 else 0
    if much and now < tx_flow.quiet_until:
        return
    if not much and (
        tx_flow.rate_sent < 1 or rate < 1 or now < tx_flow.pause_sent_at + (CORRECT_NS if queued > goal // 4 else STARVING_NS)
    ):
        return
    excess = max(queued - goal, behind if much else 0)
    if much or excess > 0:
        ns = UNKNOWN_NS
        if rate >= 1:
            ns = max(LEAST_NS, min(MOST_NS, whole(min(1e9, 1e9 * excess / rate))))
    rate *= max(0.5, min(2.0, 2.0 - (queued - 1e-9 * ns * rate) / max(goal, 1)))
    enough = 1.2 if now > tx_flow.pause_sent_at + CORRECT_NS else 1.9  # a rate from a congested moment is corrected upwards early
    if not much and 0.55 * tx_flow.rate_sent < rate < enough * tx_flow.rate_sent:
        return
    if write_pause(driver, key_of_tx_flow(tx_flow), ns, whole(min(rate, 1e15)), now):
        tx_flow.rate_sent = rate
        tx_flow.pause_sent_at = now
        tx_flow.quiet_until = now + ns


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
        "path_bytes": path_of(driver.kernel),
        "frames_cut": overlay.frames_cut,
        "segments_sent": overlay.segments_out,
        "segments_joined": overlay.joined_in,
        "frames_in_parts": overlay.frames_in_parts,
        "parts_lost": overlay.parts_lost,
        "unsendable": overlay.unsendable,
        "no_room": overlay.no_room,
    }
