"""Control frames between two switches of an overlay: Overlay Pause Frames, and credits for the bytes in flight.

A pause frame (Backdraft, section 4) names a flow, how long it is paused and the rate at which it then continues.  It is sent
when more than th_over of the flow waits here, or when the flow leaves too few buffers to others.  While a flow is paced, another
one follows when the rate is wrong by a factor of two, at most every 20 ms (1 ms while the queue is nearly empty).  Both sides
forget a rate after a second.

So that no socket overflows, however late it is read, each side grants the other credits for bytes in flight.  Losses are detected
by SYNC, which asks for the receiver's count: lost bytes then no longer count as in flight, and the limit is halved.

A control frame is 88 bytes after an Ethernet header of type 0x88B5, little-endian words: kind, epoch and sequence number of the
sender, the flow (5 words), two values, and a tag (SipHash-2-4 with the peers' secret, if they have one).  Frames with an old
sequence number, a wrong tag or a wrong length are counted and dropped; the port has refused those that do not come from the peer.
"""

import cython

if not cython.compiled:
    from penstock.vswitch.dataplane.driver_state import (
        CONTROL_WORDS,
        OVERLAY_TYPE,
        clear_bytes,
        key_of_tx_flow,
        outgoing_of,
        own_key,
        put_mac,
        put_short,
        rxq_at,
        side_of,
        tx_flow_at,
    )
    from penstock.vswitch.dataplane.flowmap import copy_key, find_name
    from penstock.vswitch.dataplane.flowtable import find_flow
    from penstock.vswitch.dataplane.overlay import (
        ASK_NS,
        CORRECT_NS,
        GRANT,
        GRANT_EVERY,
        GREET_NS,
        LEASE_NS,
        LEAST_LIMIT,
        PAUSE,
        STARVING_NS,
        SYNC,
        frame_of,
        magic,
        rate_of,
        secret_of,
        siphash,
        words_of,
    )
    from penstock.vswitch.dataplane.receiver import LEAST_NS, MOST_NS, UNKNOWN_NS, measure
    from penstock.vswitch.dataplane.state import REASONS, port_at, signed_of, txq_at, unsigned_of, view_of, whole
    from penstock.vswitch.memory.layout import ENDLESS, load64, memcpy, word_at
    from penstock.vswitch.ports.base import port_flush, port_send


# ---- How much may be under way ----


def cost_of(length):
    """Bytes of a socket's memory that a frame takes at most."""
    return 2 * length + 2304


def may_send(overlay):
    return overlay.sent - overlay.granted < min(overlay.peer_window, overlay.limit)


def note_sent(overlay, length, now):
    if overlay.sent == overlay.granted:
        overlay.moved_at = now
    overlay.sent += cost_of(length)


def note_received(driver, length):
    overlay = driver.overlay
    overlay.received += cost_of(length)
    overlay.owes = 1
    if overlay.received - overlay.said > GRANT_EVERY:
        grant(driver)


def grant(driver):
    """Send the peer a GRANT: bytes received, bytes lost, and what it may have in flight."""
    overlay = driver.overlay
    own_key(driver).words[0] = unsigned_of(overlay.lost)
    overlay.owes = not send_control(driver, GRANT, own_key(driver), overlay.received, overlay.window)


def overlay_turn(driver, now):
    """Send what is due: the first SYNC, a GRANT that is owed, a SYNC for bytes in flight without an answer."""
    overlay = driver.overlay
    if now < overlay.due:
        return
    overlay.due = now + (ASK_NS if overlay.greeted else GREET_NS)
    if overlay.owes:
        grant(driver)
    if not overlay.greeted or (overlay.sent > overlay.granted and now - overlay.moved_at > ASK_NS):
        overlay.asked += 1
        send_control(driver, SYNC, own_key(driver), overlay.sent, 0)


# ---- Control frames ----


def tag_of(secret, words):
    return siphash(secret, words, CONTROL_WORDS - 1)


def send_control(driver, kind, key, a, b):
    """Send a control frame; False: there is no room for it now."""
    overlay = driver.overlay
    frame = frame_of(overlay) + driver.kernel.header
    words = words_of(overlay)
    clear_bytes(frame_of(overlay), 128)
    put_mac(frame, 0xFFFFFFFFFFFF)
    put_mac(frame + 6, 2)
    put_short(frame + 12, OVERLAY_TYPE)
    overlay.sequence += 1
    words[0] = magic(kind)
    words[1] = overlay.epoch
    words[2] = overlay.sequence
    for i in range(5):
        words[3 + i] = key.words[i]
    words[8] = unsigned_of(a)
    words[9] = unsigned_of(b)
    words[10] = tag_of(secret_of(overlay), words) if overlay.authentic else 0
    memcpy(frame + 14, words, 8 * CONTROL_WORDS)
    if not port_send(driver.kernel, frame_of(overlay), driver.kernel.header + 14 + 8 * CONTROL_WORDS):
        overlay.no_room += 1
        return False
    port_flush(driver.kernel)
    if kind == GRANT:
        overlay.grants_out += 1
        overlay.said = a
    return True


def receive_control(worker, driver, frame, size, now):
    """Check and handle a control frame from the peer."""
    overlay = driver.overlay
    if size < 14 + 8 * CONTROL_WORDS:
        overlay.truncated += 1
        return
    words = words_of(overlay)
    memcpy(words, frame + 14, 8 * CONTROL_WORDS)
    if overlay.authentic and words[10] != tag_of(secret_of(overlay), words):
        overlay.forged += 1
        return
    kind = words[0] & 0xFF
    if words[0] != magic(kind):
        overlay.forged += 1
        return
    if words[1] < overlay.peer_epoch or (words[1] == overlay.peer_epoch and words[2] <= overlay.peer_sequence):
        overlay.replayed += 1
        return
    if words[1] > overlay.peer_epoch:  # the peer has restarted: its counts are zero
        overlay.received = 0
        overlay.said = 0
        overlay.sent = 0
        overlay.granted = 0
        overlay.greeted = 0
        overlay.due = 0
        overlay.lost = 0
        overlay.peer_lost = 0
    overlay.peer_epoch = words[1]
    overlay.peer_sequence = words[2]
    a = min(signed_of(words[8]), ENDLESS)
    b = signed_of(words[9])
    if kind == GRANT:
        overlay.grants_in += 1
        overlay.greeted = 1
        lost = signed_of(words[3])
        if lost > overlay.peer_lost:
            overlay.limit = max(LEAST_LIMIT, overlay.limit // 2)
        elif overlay.granted < a <= overlay.sent:
            overlay.limit = min(overlay.limit + (a - overlay.granted) // 8, ENDLESS)
        overlay.peer_lost = lost
        if overlay.granted < a <= overlay.sent:
            overlay.granted = a
            overlay.moved_at = now
        overlay.peer_window = max(0, min(b, ENDLESS))
    elif kind == SYNC:
        if overlay.received and a > overlay.received:
            overlay.lost += a - overlay.received
        overlay.received = max(overlay.received, a)
        grant(driver)
    elif kind == PAUSE:
        take_pause(worker, driver, words, now)
    else:
        overlay.forged += 1


# ---- Pause frames ----


def take_pause(worker, driver, words, now):
    """PAUSE from the peer: pause a flow, then pace it."""
    overlay = driver.overlay
    key = own_key(driver)
    for i in range(5):
        key.words[i] = words[3 + i]
    number = find_name(worker, outgoing_of(driver), key)
    if number < 0:
        overlay.unknown += 1
        return
    overlay.pauses_in += 1
    ns = max(0, min(signed_of(words[8]), MOST_NS))
    rxq = rxq_at(driver, number)
    rxq.at = now
    rxq.rate = rate_of(words[9])
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

    A pause is due when more than th_over of the flow waits, or when it occupies more than half of the buffers that are free,
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
    much = 1 if queued > over or behind > free * length // 2 else 0
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
    if send_control(driver, PAUSE, key_of_tx_flow(tx_flow), ns, whole(min(rate, 1e15))):
        driver.overlay.pauses_out += 1
        tx_flow.rate_sent = rate
        tx_flow.pause_sent_at = now
        tx_flow.quiet_until = now + ns
