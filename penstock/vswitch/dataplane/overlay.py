"""What two switches say to each other over an overlay: Overlay Pause Frames, and how much may be under way.

A pause frame (Backdraft, section 4) names a flow, how long it must rest and at what rate it may go on.  It is sent when what
waits here of the flow is above th_over, or leaves too few buffers to others; while the flow goes at a rate it was told, another
one follows when that rate has become wrong by a factor of two, at most every 20 ms (1 ms while next to nothing waits).
A rate that was told is forgotten after a second, by both.

So that no socket overflows, however late it is read, each side grants the other what it may have under way; what was lost on
the way is found out by asking (SYNC), and then does not count any longer, and halves what is put under way.

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
        key_of_lane,
        lane_at,
        outgoing_of,
        own_key,
        put_mac,
        put_short,
        side_of,
        told_at,
    )
    from penstock.vswitch.dataplane.flowmap import copy_key, find_name
    from penstock.vswitch.dataplane.flowtable import find_flow
    from penstock.vswitch.dataplane.forward import LEAST_NS, MOST_NS, UNKNOWN_NS, measure
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
    from penstock.vswitch.dataplane.state import REASONS, input_at, port_at, signed_of, unsigned_of, view_of, whole
    from penstock.vswitch.memory.layout import ENDLESS, load64, memcpy, word_at
    from penstock.vswitch.ports.base import port_flush, port_send

if not cython.compiled:
    raise ImportError("penstock.vswitch.dataplane.overlay works compiled only: run python setup.py build_ext --inplace")


# ---- How much may be under way ----


def cost_of(length):
    """What a frame takes of a socket's memory, at most."""
    return 2 * length + 2304


def may_send(o):
    return o.sent - o.granted < min(o.peer_window, o.limit)


def note_sent(o, length, now):
    if o.sent == o.granted:
        o.moved_at = now
    o.sent += cost_of(length)


def note_received(d, length):
    o = d.overlay
    o.received += cost_of(length)
    o.owes = 1
    if o.received - o.said > GRANT_EVERY:
        grant(d)


def grant(d):
    """Tell the peer what has come, what was lost on the way, and what it may have under way."""
    o = d.overlay
    own_key(d).words[0] = unsigned_of(o.lost)
    o.owes = not say(d, GRANT, own_key(d), o.received, o.window)


def overlay_turn(d, now):
    """Greet; grant what has been received lately; ask what has become of what was sent."""
    o = d.overlay
    if now < o.due:
        return
    o.due = now + (ASK_NS if o.greeted else GREET_NS)
    if o.owes:
        grant(d)
    if not o.greeted or (o.sent > o.granted and now - o.moved_at > ASK_NS):
        o.asked += 1
        say(d, SYNC, own_key(d), o.sent, 0)


# ---- Control frames ----


def tag_of(secret, words):
    return siphash(secret, words, CONTROL_WORDS - 1)


def say(d, kind, key, a, b):
    """Send a control frame; False: there is no room for it now."""
    o = d.overlay
    frame = frame_of(o) + d.kernel.header
    words = words_of(o)
    clear_bytes(frame_of(o), 128)
    put_mac(frame, 0xFFFFFFFFFFFF)
    put_mac(frame + 6, 2)
    put_short(frame + 12, OVERLAY_TYPE)
    o.sequence += 1
    words[0] = magic(kind)
    words[1] = o.epoch
    words[2] = o.sequence
    for i in range(5):
        words[3 + i] = key.words[i]
    words[8] = unsigned_of(a)
    words[9] = unsigned_of(b)
    words[10] = tag_of(secret_of(o), words) if o.authentic else 0
    memcpy(frame + 14, words, 8 * CONTROL_WORDS)
    if not port_send(d.kernel, frame_of(o), d.kernel.header + 14 + 8 * CONTROL_WORDS):
        o.no_room += 1
        return False
    port_flush(d.kernel)
    if kind == GRANT:
        o.grants_out += 1
        o.said = a
    return True


def listen(w, d, frame, size, now):
    """A control frame has come in."""
    o = d.overlay
    if size < 14 + 8 * CONTROL_WORDS:
        o.truncated += 1
        return
    words = words_of(o)
    memcpy(words, frame + 14, 8 * CONTROL_WORDS)
    if o.authentic and words[10] != tag_of(secret_of(o), words):
        o.forged += 1
        return
    kind = words[0] & 0xFF
    if words[0] != magic(kind):
        o.forged += 1
        return
    if words[1] < o.peer_epoch or (words[1] == o.peer_epoch and words[2] <= o.peer_sequence):
        o.replayed += 1
        return
    if words[1] > o.peer_epoch:  # the peer has begun anew, and knows nothing of what we have sent
        o.received = 0
        o.said = 0
        o.sent = 0
        o.granted = 0
        o.greeted = 0
        o.due = 0
        o.lost = 0
        o.peer_lost = 0
    o.peer_epoch = words[1]
    o.peer_sequence = words[2]
    a = min(signed_of(words[8]), ENDLESS)
    b = signed_of(words[9])
    if kind == GRANT:
        o.grants_in += 1
        o.greeted = 1
        lost = signed_of(words[3])
        if lost > o.peer_lost:
            o.limit = max(LEAST_LIMIT, o.limit // 2)
        elif o.granted < a <= o.sent:
            o.limit = min(o.limit + (a - o.granted) // 8, ENDLESS)
        o.peer_lost = lost
        if o.granted < a <= o.sent:
            o.granted = a
            o.moved_at = now
        o.peer_window = max(0, min(b, ENDLESS))
    elif kind == SYNC:
        if o.received and a > o.received:
            o.lost += a - o.received
        o.received = max(o.received, a)
        grant(d)
    elif kind == PAUSE:
        take_pause(w, d, words, now)
    else:
        o.forged += 1


# ---- Pause frames ----


def take_pause(w, d, words, now):
    """The peer wants a flow to rest, and then to go at a rate."""
    o = d.overlay
    key = own_key(d)
    for i in range(5):
        key.words[i] = words[3 + i]
    number = find_name(w, outgoing_of(d), key)
    if number < 0:
        o.unknown += 1
        return
    o.pauses_in += 1
    ns = max(0, min(signed_of(words[8]), MOST_NS))
    told = told_at(d, number)
    told.at = now
    told.rate = rate_of(words[9])
    told.next_at = now + ns
    if ns:
        input_at(side_of(d), number).until = now + ns
        d.side.pauses += 1
        d.side.paused_ns += ns


def taken_from(port):
    """Frames that the switch has taken out of a port's transmit queues."""
    count = port.received_frames
    for i in range(REASONS):
        count += port.drops[i]
    return count


def tell(w, d, number, length, now):
    """A frame of a flow has come in: whether the peer should send it more slowly, or may send it faster.

    Too much of it waits when that is more than th_over, or when it has more of our buffers than it leaves to others: half of
    those that are free, as frames of this length.  A pause lasts until th_goal is left, and nothing of it here.
    """
    lane = lane_at(d, number)
    key = own_key(d)
    copy_key(key, key_of_lane(lane))
    key.words[4] |= port_at(w, d.port).serial
    behind = lane.sent - length - signed_of(load64(word_at(d.side.view.consumed[0], number)))
    free = d.side.view.buffers - d.put + taken_from(port_at(w, d.port))
    queued = behind
    goal = w.th_goal
    over = w.th_over
    rate = 0.0
    flow = find_flow(w, key)
    if flow:
        measure(w, flow, view_of(port_at(w, flow.target)), now)
        queued += flow.sent - flow.consumed
        goal = flow.goal
        over = flow.over
        rate = flow.rate
    if now - lane.told_at > LEASE_NS:
        lane.told = 0
    ns = 0
    much = 1 if queued > over or behind > free * length // 2 else 0
    if much and now < lane.quiet_until:
        return
    if not much and (lane.told < 1 or rate < 1 or now < lane.told_at + (CORRECT_NS if queued > goal // 4 else STARVING_NS)):
        return
    excess = max(queued - goal, behind if much else 0)
    if much or excess > 0:
        ns = UNKNOWN_NS
        if rate >= 1:
            ns = max(LEAST_NS, min(MOST_NS, whole(min(1e9, 1e9 * excess / rate))))
    rate *= max(0.5, min(2.0, 2.0 - (queued - 1e-9 * ns * rate) / max(goal, 1)))
    enough = 1.2 if now > lane.told_at + CORRECT_NS else 1.9  # a rate that was told in bad times does not last
    if not much and 0.55 * lane.told < rate < enough * lane.told:
        return
    if say(d, PAUSE, key_of_lane(lane), ns, whole(min(rate, 1e15))):
        d.overlay.pauses_out += 1
        lane.told = rate
        lane.told_at = now
        lane.quiet_until = now + ns
