"""The protocol between two switches: sessions, numbers, credits, and who is there.  It has no sockets, no clock and no memory
of its own: it is fed with datagrams and the time (ns), and asked for datagrams, so that the driver of a port and a simulation
in virtual time run the same code.  docs/vswitch-overlay.md has the states, the layout of the messages and the timers.

A datagram begins with five little-endian words:

    magic, version, kind, window | session | number | cum_ack | tag

`session` names the pair of ids that both ends have agreed on, in one direction; ids are random and used once.  `number` counts
the datagrams of a session; one that has arrived before is ignored.  `cum_ack`, the cumulative acknowledgement: the sender of
this datagram has received, or given up, all numbers of the other direction up to there; what they cost is no longer in flight.
`window` is what the peer may have in flight, in units of 64 bytes of a socket's memory.  In HELLO the second and third word are
an id and its echo, and the fourth is 1 if an answer is wanted.

PROBE and PROBED have no number: the second word is the probe's own, the third of PROBED the length of the probe.  STATE and ASK
have a word of content when something was lost: how many numbers of the other direction are missing.

With a secret the tag is SipHash-2-4 of header and content under a key of the session and the direction; without, a check word
of the header.
"""

import cython

if not cython.compiled:
    from penstock_net.vswitch.dataplane.path_search import begin_search, doubt, end_search, next_probe, take_answer
    from penstock_net.vswitch.dataplane.session import (
        ACK_EVERY,
        ACK_NS,
        ANSWER_NS,
        ANSWERS_PROBES,
        ASK,
        ASK_NS,
        CONNECTED,
        CONNECTING,
        CONTENT_AT,
        COUNT_BYTES,
        DEAD,
        DEAD_NS,
        GIVE_UP_NS,
        GROW_NS,
        HANDLED,
        HELLO,
        HELLO_NS,
        KEEP_NS,
        KINDS,
        LEAST_WINDOW,
        LIVE_NS,
        MAGIC,
        PAUSE,
        PROBE,
        PROBED,
        REFUSED,
        REORDER,
        REPEAT_NS,
        REPORT_NS,
        STATE,
        TAG_AT,
        UNCONFIRMED_NS,
        UNKNOWN_NS,
        VERSION,
        WINDOW,
        clear_all_seen,
        clear_seen,
        cost_of,
        datagram_check,
        datagram_tag,
        hello_key_of,
        in_key_of,
        is_seen,
        kind_of,
        memset,
        number_of,
        out_key_of,
        put_word,
        search_of,
        secret_of,
        seed_of,
        set_seen,
        signed_from,
        siphash,
        word_of,
        words_of,
    )
    from penstock_net.vswitch.memory.layout import ENDLESS, word_from

# ---- Sessions ----


def draw(s):
    """A random number that is not 0."""
    s.drawn += 1
    s.words[0] = s.drawn
    return siphash(seed_of(s), words_of(s), 1) | 1


def derived(s, label, first, second):
    """A number that only those can know who know the secret, if there is one, and both ids."""
    s.words[0] = label
    s.words[1] = first
    s.words[2] = second
    return siphash(secret_of(s), words_of(s), 3)


def tag_of(s, key, datagram, length):
    return datagram_tag(key, datagram, length) if s.authentic else datagram_check(key[0], datagram, length)


def start_session(s, window):
    """Begin without a peer; `secret`, `authentic`, `seed` and `headers` have been set."""
    s.full_window = window
    s.window = window
    s.hello_key[0] = derived(s, 1, 0, 0)
    s.hello_key[1] = derived(s, 2, 0, 0)
    new_offer(s)
    s.unknown_at = -UNKNOWN_NS
    s.answered_at = -ANSWER_NS
    leave_session(s, 0)


def new_offer(s):
    s.session_offer = draw(s)


def agree(s, peer, now):
    """Begin a session with the peer's id and the one that we have offered: all counts start at zero."""
    s.own = s.session_offer
    s.peer = peer
    new_offer(s)
    s.sessions += 1
    s.out_word = derived(s, 3, s.own, s.peer)
    s.in_word = derived(s, 3, s.peer, s.own)
    for i in range(2):
        s.out_key[i] = derived(s, word_of(4 + i), s.own, s.peer)
        s.in_key[i] = derived(s, word_of(4 + i), s.peer, s.own)
    begin_counts(s)
    s.dead = 0
    s.began_at = now
    s.number = 0
    s.highest = 0
    s.cum_ack = 0
    s.last_acked = 0
    s.lost_before = s.lost
    s.told = 0
    s.peer_lost_before += s.peer_lost
    s.peer_lost = 0
    s.unacked_cost = 0
    s.ack_due = now  # the first STATE says that we use the session
    clear_all_seen(s)


def begin_counts(s):
    """Nothing was sent or received in this session, and nothing is due."""
    s.peer_confirmed = 0
    s.last_content = 0
    s.peer_cum_ack = 0
    s.sent_cost = 0
    s.acked_cost = 0
    s.granted = 0
    s.gap_deadline = ENDLESS
    s.ack_due = ENDLESS
    s.ask_at = ENDLESS
    s.answer_at = ENDLESS
    s.report_at = ENDLESS
    end_search(search_of(s))


def leave_session(s, now):
    """There is no session: say HELLO."""
    s.own = 0
    s.peer = 0
    begin_counts(s)
    s.hello_at = now
    s.echo = 0
    s.confirm_id = 0


def is_live(s, now):
    """Whether the peer has used this session a short while ago."""
    return s.peer_confirmed and now - s.received_at < LIVE_NS


def session_state(s, now):
    if not s.peer_confirmed:
        return CONNECTING
    return DEAD if s.dead or now - s.received_at >= DEAD_NS else CONNECTED


def answer(s, peer, confirm_id, now):
    """A HELLO to the peer is due, which confirms the session of this id of ours, or offers one (0)."""
    s.hello_at = now
    s.confirm_id = confirm_id
    s.echo = peer


def take_hello(s, peer, echo, wanted, answers, now):
    """The peer offers an id.  It is believed if it knows the one that we offer, which is used once: so it is no replay."""
    s.hellos_in += 1
    if peer == s.session_offer or peer == s.own or peer == 0:  # our own, sent back
        s.ignored += 1
    elif echo == s.session_offer:
        agree(s, peer, now)
        s.peer_answers = answers
        s.hello_at = ENDLESS
        if wanted:
            answer(s, peer, s.own, now)
    elif s.own and peer == s.peer and echo == s.own:  # it does not know yet that we have agreed
        if wanted:
            answer(s, peer, s.own, now)
    elif not wanted or now - s.answered_at < ANSWER_NS or (echo and is_live(s, now)):
        s.ignored += 1  # an answer to somebody else, while we have a peer
    else:
        s.answered_at = now
        answer(s, peer, 0, now)


def write_hello(s, to, now):
    """The HELLO that is due; its length."""
    wanted = 1 if s.confirm_id == 0 else 0
    put_word(to, MAGIC | VERSION << 16 | HELLO << 24 | word_of(s.headers) << 31 | word_of(ANSWERS_PROBES) << 32)
    put_word(to + 8, s.session_offer if wanted else s.confirm_id)
    put_word(to + 16, s.echo)
    put_word(to + 24, word_of(wanted))
    put_word(to + TAG_AT, tag_of(s, hello_key_of(s), to, CONTENT_AT))
    s.hellos_out += 1
    s.echo = 0 if wanted else s.echo
    s.hello_at = now + HELLO_NS if not s.own or not s.peer_confirmed else ENDLESS
    return CONTENT_AT


# ---- What comes in ----


def advance_cum_ack(s, upto):
    """Advance over what has arrived, and up to `upto` over what has not: that is given up."""
    while s.cum_ack < s.highest and (s.cum_ack < upto or is_seen(s, s.cum_ack + 1)):
        s.cum_ack += 1
        if not is_seen(s, s.cum_ack):
            s.lost += 1


def take_number(s, number, now):
    """Whether a datagram is new; one that was given up may still come, late."""
    if number <= 0 or number <= s.highest - WINDOW:
        s.old += 1
        return False
    if number > s.highest:
        advance_cum_ack(s, number - WINDOW)
        if s.cum_ack < number - WINDOW:
            s.lost += number - WINDOW - s.cum_ack
            s.cum_ack = number - WINDOW
        if number - s.highest >= WINDOW:
            clear_all_seen(s)
        else:
            at = s.highest + 1
            while at < number:
                clear_seen(s, at)
                at += 1
        s.highest = number
    elif is_seen(s, number):
        s.duplicates += 1
        return False
    elif number <= s.cum_ack:
        s.lost -= 1
        s.late += 1
    set_seen(s, number)
    advance_cum_ack(s, s.highest - REORDER)
    if s.cum_ack < s.highest and s.gap_deadline == ENDLESS:
        s.gap_end = s.highest
        s.gap_deadline = now + GIVE_UP_NS
    return True


def take_ack(s, number, now):
    """The peer has received or given up all that we have sent up to a number."""
    if number <= s.peer_cum_ack or number > s.number:
        return
    if s.number - number < WINDOW:
        s.acked_cost = s.costs[number & (WINDOW - 1)]
        s.peer_cum_ack = number
        s.ask_gap = ASK_NS
        s.ask_at = now + ASK_NS if s.last_content > number else ENDLESS


def session_take(s, datagram, length, now):
    """A datagram that came in: its kind if its content (from CONTENT_AT on) is for the caller; HANDLED; or REFUSED, counted."""
    if not has_known_header(s, datagram, length):
        return REFUSED
    kind = kind_of(datagram)
    if kind == HELLO:
        return receive_hello(s, datagram, length, now)
    if s.own == 0 or word_from(datagram + 8) != s.in_word:
        count_stale(s, now)
        return REFUSED
    if not is_authentic(s, kind, datagram, length):
        s.forged += 1
        return REFUSED
    if kind >= PROBE:
        take_probe(s, kind, datagram, length, now)
        return HANDLED
    number = signed_from(datagram + 16)
    newest = 1 if number > s.highest else 0
    if not take_number(s, number, now):
        return REFUSED
    note_peer(s, now)
    note_losses(s, now)
    take_ack(s, signed_from(datagram + 24), now)
    if newest:
        s.granted = number_of(word_from(datagram) >> 32) * 64
    s.unacked_cost += cost_of(length)
    schedule_ack(s, kind, now)
    if kind >= PAUSE:
        return kind
    s.states_in += 1
    take_report(s, datagram, length, now)
    return HANDLED


def has_known_header(s, datagram, length):
    """Whether a datagram is of this protocol, this version and the same frames as ours; else it is counted."""
    if length < CONTENT_AT:
        s.truncated += 1
        return False
    word = word_from(datagram)
    if number_of(word & 0xFFFFFF) != (MAGIC | VERSION << 16):
        s.other_version += 1
        return False
    if number_of(word >> 31 & 1) != s.headers:
        s.other_headers += 1
        return False
    return True


def is_authentic(s, kind, datagram, length):
    """Whether a datagram of this session has a kind that exists, and the peer's tag."""
    return kind != HANDLED and kind < KINDS and word_from(datagram + TAG_AT) == tag_of(s, in_key_of(s), datagram, length)


def receive_hello(s, datagram, length, now):
    if word_from(datagram + TAG_AT) != tag_of(s, hello_key_of(s), datagram, length):
        s.forged += 1
        return REFUSED
    wanted = 1 if signed_from(datagram + 24) == 1 else 0
    answers = number_of(word_from(datagram) >> 32 & ANSWERS_PROBES)
    take_hello(s, word_from(datagram + 8), word_from(datagram + 16), wanted, answers, now)
    return HANDLED


def count_stale(s, now):
    """Count a datagram of another session; a HELLO is due if ours is not alive, as the peer may have begun anew."""
    s.stale += 1
    if not is_live(s, now) and now - s.unknown_at >= UNKNOWN_NS and s.hello_at > now:
        s.unknown_at = now
        s.hello_at = now
        s.confirm_id = 0


def note_peer(s, now):
    """The peer uses this session."""
    if not s.peer_confirmed:
        s.peer_confirmed = 1
        s.hello_at = ENDLESS
        s.ack_due = now
    if s.peer_answers and not s.search.on:
        begin_search(search_of(s), now)
    s.dead = 0
    s.received_at = now


def take_probe(s, kind, datagram, length, now):
    """The peer asks whether a datagram of this length passes, or says that one of ours has."""
    if kind == PROBED:
        take_answer(search_of(s), signed_from(datagram + 16), signed_from(datagram + 24), now)
    else:
        s.probe_number = signed_from(datagram + 16)
        s.probe_bytes = length
        s.answer_at = now


def take_report(s, datagram, length, now):
    """What the peer says is missing there of this session: no more than was sent."""
    if length < CONTENT_AT + COUNT_BYTES:
        return
    count = max(0, min(signed_from(datagram + CONTENT_AT), s.number))
    if count > s.peer_lost:
        doubt(search_of(s), now)
    s.peer_lost = count


def note_losses(s, now):
    """Have a change of what is missing here reported soon."""
    if s.lost - s.lost_before != s.told:
        s.report_at = min(s.report_at, now + REPORT_NS)


def schedule_ack(s, kind, now):
    """When a datagram that has come in is acknowledged: content soon, or at once if much is not yet acknowledged; ASK at once."""
    if kind >= PAUSE:
        if s.unacked_cost > s.window // 8 or s.highest - s.last_acked > ACK_EVERY:
            s.ack_due = now
        else:
            s.ack_due = min(s.ack_due, now + ACK_NS)
    elif kind == ASK:
        s.ack_due = now


# ---- What goes out ----


def session_may_send(s, length):
    """Whether a datagram with content is within what the peer permits."""
    if not s.peer_confirmed or s.dead or s.number - s.peer_cum_ack >= WINDOW - REORDER:
        return False
    return s.sent_cost - s.acked_cost + cost_of(length) <= s.granted or (s.sent_cost == s.acked_cost and s.granted > 0)


def session_seal(s, datagram, kind, length, now):
    """Fill in the header of a datagram of this session; `length` includes it."""
    s.number += 1
    s.sent_cost += cost_of(length)
    s.costs[s.number & (WINDOW - 1)] = s.sent_cost
    put_word(datagram, MAGIC | VERSION << 16 | word_of(kind) << 24 | word_of(s.headers) << 31 | word_of(s.window >> 6) << 32)
    put_word(datagram + 8, s.out_word)
    put_word(datagram + 16, word_of(s.number))
    put_word(datagram + 24, word_of(s.cum_ack))
    put_word(datagram + TAG_AT, tag_of(s, out_key_of(s), datagram, length))
    s.last_acked = s.cum_ack
    s.unacked_cost = 0
    s.ack_due = ENDLESS
    s.sent_at = now
    if kind >= PAUSE:
        s.last_content = s.number
        if s.ask_at == ENDLESS:
            s.ask_gap = ASK_NS
            s.ask_at = now + ASK_NS


def session_unsend(s, length, now):
    """There was no room for the last datagram: it has not been sent."""
    s.number -= 1
    s.sent_cost -= cost_of(length)
    s.last_content = min(s.last_content, s.number)
    s.ack_due = min(s.ack_due, now + ACK_NS)


def session_message(s, to, now):
    """Write the next message that is due to `to`; its length, or 0: there is none until session_due()."""
    check_peer(s, now)
    if now >= s.hello_at:
        return write_hello(s, to, now)
    if not s.own:
        return 0
    if now >= s.gap_deadline:
        give_up_gaps(s, now)
    if s.window < s.full_window and now >= s.grow_at:
        s.window = min(s.full_window, s.window + s.full_window // 16)
        s.grow_at = now + GROW_NS
    length = write_about_path(s, to, now)
    if length:
        return length
    kind = STATE
    if now >= s.ask_at:
        kind = ASK
        s.asked += 1
        s.ask_gap = min(2 * s.ask_gap, KEEP_NS)
        s.ask_at = now + s.ask_gap
    elif now < s.ack_due and now < s.report_at and now - s.sent_at < KEEP_NS:
        return 0
    s.states_out += 1
    length = CONTENT_AT + write_report(s, to, now)
    session_seal(s, to, kind, length, now)
    return length


def write_report(s, to, now):
    """What is missing here of this session, if anything is or was; its bytes."""
    s.report_at = ENDLESS
    count = s.lost - s.lost_before
    if count == 0 and s.told == 0:
        return 0
    put_word(to + CONTENT_AT, word_of(count))
    s.told = count
    s.report_at = now + REPEAT_NS
    return COUNT_BYTES


def write_about_path(s, to, now):
    """The answer to a probe, or the probe, that is due; its length, or 0."""
    if now >= s.answer_at:
        s.answer_at = ENDLESS
        return write_probe(s, to, PROBED, s.probe_number, s.probe_bytes, CONTENT_AT)
    if now < s.search.due:
        return 0
    size = next_probe(search_of(s), now)
    if size == 0:
        return 0
    memset(to, 0, size)
    return write_probe(s, to, PROBE, s.search.number, 0, size)


def write_probe(s, to, kind, number, size, length):
    """A datagram about the path; its length."""
    put_word(to, MAGIC | VERSION << 16 | word_of(kind) << 24 | word_of(s.headers) << 31)
    put_word(to + 8, s.out_word)
    put_word(to + 16, word_of(number))
    put_word(to + 24, word_of(size))
    put_word(to + TAG_AT, tag_of(s, out_key_of(s), to, length))
    return length


def check_peer(s, now):
    """Leave a session that the peer does not use; a peer that has been silent for long is dead."""
    if s.own and not s.peer_confirmed and now - s.began_at >= UNCONFIRMED_NS:
        leave_session(s, now)
    if s.peer_confirmed and not s.dead and now - s.received_at >= DEAD_NS:
        s.dead = 1
        s.deaths += 1
        end_search(search_of(s))


def give_up_gaps(s, now):
    """Give up the numbers that are missing up to gap_end, and set the next deadline if more are missing."""
    before = s.cum_ack
    advance_cum_ack(s, s.gap_end)
    s.gap_end = s.highest
    s.gap_deadline = now + GIVE_UP_NS if s.cum_ack < s.highest else ENDLESS
    if s.cum_ack > before:
        s.ack_due = now
        note_losses(s, now)


def session_due(s):
    """When session_message() has something to do."""
    due = s.hello_at
    if s.own:
        due = min(due, min(min(s.gap_deadline, s.ack_due), min(s.ask_at, s.sent_at + KEEP_NS)))
        due = min(due, min(s.report_at, min(s.answer_at, s.search.due)))
        if not s.peer_confirmed:
            due = min(due, s.began_at + UNCONFIRMED_NS)
        elif not s.dead:
            due = min(due, s.received_at + DEAD_NS)
    return due


def session_halve_window(s, now):
    """Our socket was full: the peer may have half as much in flight, and more again as time passes."""
    s.window = max(min(LEAST_WINDOW, s.full_window), s.window // 2)
    s.grow_at = now + GROW_NS
    s.ack_due = now
    s.window_halvings += 1
