"""The protocol between two switches: sessions, numbers, credits, and who is there.  It has no sockets, no clock and no memory
of its own: it is fed with datagrams and the time (ns), and asked for datagrams, so that the driver of a port and a simulation
in virtual time run the same code.  docs/vswitch-overlay.md has the states, the layout of the messages and the timers.

A datagram begins with five little-endian words:

    magic, version, kind, window | session | number | settled | tag

`session` names the pair of ids that both ends have agreed on, in one direction; ids are random and used once.  `number` counts
the datagrams of a session; one that has arrived before is ignored.  `settled`: the sender of this datagram has received, or
given up, all numbers of the other direction up to there; what they cost is no longer in flight.  `window` is what the peer may
have in flight, in units of 64 bytes of a socket's memory.  In HELLO the second and third word are an id and its echo, and the
fourth is 1 if an answer is wanted.

With a secret the tag is SipHash-2-4 of header and content under a key of the session and the direction; without, a check word
of the header.
"""

import cython

if not cython.compiled:
    from penstock.vswitch.dataplane.session import (
        ACK_NS,
        ANSWER_NS,
        ASK,
        ASK_NS,
        CONNECTED,
        CONNECTING,
        CONTENT_AT,
        DEAD,
        DEAD_NS,
        GIVE_UP_NS,
        GREET_NS,
        GROW_NS,
        HALF_NS,
        HANDLED,
        HELLO,
        KEEP_NS,
        KINDS,
        LEAST_WINDOW,
        LIVE_NS,
        MAGIC,
        PAUSE,
        REFUSED,
        REORDER,
        STATE,
        TAG_AT,
        UNKNOWN_NS,
        UNSAID,
        VERSION,
        WINDOW,
        PyByteArray_AS_STRING,
        PyBytes_AS_STRING,
        PyBytes_FromStringAndSize,
        clear_all_seen,
        clear_seen,
        cost_of,
        datagram_check,
        datagram_tag,
        greeting_of,
        in_flight,
        in_key_of,
        is_seen,
        number_of,
        out_key_of,
        put_word,
        secret_of,
        seed_of,
        set_seen,
        signed_from,
        siphash,
        word_of,
        words_of,
    )
    from penstock.vswitch.memory.layout import ENDLESS, memcpy, word_from


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
    s.greeting[0] = derived(s, 1, 0, 0)
    s.greeting[1] = derived(s, 2, 0, 0)
    new_offer(s)
    s.unknown_at = -UNKNOWN_NS
    s.answered_at = -ANSWER_NS
    leave_session(s, 0)


def new_offer(s):
    s.offer = draw(s)


def agree(s, peer, now):
    """Begin a session with the peer's id and the one that we have offered: all counts start at zero."""
    s.own = s.offer
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
    s.settled = 0
    s.said = 0
    s.fresh = 0
    s.owes_at = now  # the first STATE says that we use the session
    clear_all_seen(s)


def begin_counts(s):
    """Nothing was sent in this session, nothing heard, and nothing is due."""
    s.heard = 0
    s.last_content = 0
    s.settled_out = 0
    s.spent = 0
    s.freed = 0
    s.granted = 0
    s.mark_at = ENDLESS
    s.owes_at = ENDLESS
    s.ask_at = ENDLESS


def leave_session(s, now):
    """There is no session: say HELLO."""
    s.own = 0
    s.peer = 0
    begin_counts(s)
    s.hello_at = now
    s.echo = 0
    s.told = 0


def is_live(s, now):
    """Whether the peer has used this session a short while ago."""
    return s.heard and now - s.heard_at < LIVE_NS


def session_state(s, now):
    if not s.heard:
        return CONNECTING
    return DEAD if s.dead or now - s.heard_at >= DEAD_NS else CONNECTED


def answer(s, peer, told, now):
    """A HELLO to the peer is due, which tells the id of our session, or none (0)."""
    s.hello_at = now
    s.told = told
    s.echo = peer


def take_hello(s, peer, echo, wanted, now):
    """The peer offers an id.  It is believed if it knows the one that we offer, which is used once: so it is no replay."""
    s.hellos_in += 1
    if peer == s.offer or peer == s.own or peer == 0:  # our own, sent back
        s.ignored += 1
    elif echo == s.offer:
        agree(s, peer, now)
        s.hello_at = ENDLESS
        if wanted:
            answer(s, peer, s.own, now)
    elif s.own and peer == s.peer and echo == s.own:  # it has not heard that we have agreed
        if wanted:
            answer(s, peer, s.own, now)
    elif not wanted or now - s.answered_at < ANSWER_NS or (echo and is_live(s, now)):
        s.ignored += 1  # an answer to somebody else, while we have a peer
    else:
        s.answered_at = now
        answer(s, peer, 0, now)


def write_hello(s, to, now):
    """The HELLO that is due; its length."""
    wanted = 1 if s.told == 0 else 0
    put_word(to, MAGIC | VERSION << 16 | HELLO << 24 | word_of(s.headers) << 31)
    put_word(to + 8, s.offer if wanted else s.told)
    put_word(to + 16, s.echo)
    put_word(to + 24, word_of(wanted))
    put_word(to + TAG_AT, tag_of(s, greeting_of(s), to, CONTENT_AT))
    s.hellos_out += 1
    s.echo = 0 if wanted else s.echo
    s.hello_at = now + GREET_NS if not s.own or not s.heard else ENDLESS
    return CONTENT_AT


# ---- What comes in ----


def settle(s, upto):
    """Advance over what has arrived, and up to `upto` over what has not: that is given up."""
    while s.settled < s.highest and (s.settled < upto or is_seen(s, s.settled + 1)):
        s.settled += 1
        if not is_seen(s, s.settled):
            s.lost += 1


def take_number(s, number, now):
    """Whether a datagram is new; one that was given up may still come, late."""
    if number <= 0 or number <= s.highest - WINDOW:
        s.old += 1
        return False
    if number > s.highest:
        settle(s, number - WINDOW)
        if s.settled < number - WINDOW:
            s.lost += number - WINDOW - s.settled
            s.settled = number - WINDOW
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
    elif number <= s.settled:
        s.lost -= 1
        s.late += 1
    set_seen(s, number)
    settle(s, s.highest - REORDER)
    if s.settled < s.highest and s.mark_at == ENDLESS:
        s.mark = s.highest
        s.mark_at = now + GIVE_UP_NS
    return True


def take_settled(s, settled, now):
    """The peer has received or given up all that we have sent up to a number."""
    if settled <= s.settled_out or settled > s.number:
        return
    if s.number - settled < WINDOW:
        s.freed = s.costs[settled & (WINDOW - 1)]
        s.settled_out = settled
        s.ask_gap = ASK_NS
        s.ask_at = now + ASK_NS if s.last_content > settled else ENDLESS


def session_take(s, datagram, length, now):
    """A datagram that came in: its kind if its content (from CONTENT_AT on) is for the caller; HANDLED; or REFUSED, counted."""
    if length < CONTENT_AT:
        s.truncated += 1
        return REFUSED
    word = word_from(datagram)
    kind = number_of(word >> 24 & 0x7F)
    if number_of(word & 0xFFFFFF) != (MAGIC | VERSION << 16):
        s.other_version += 1
        return REFUSED
    if number_of(word >> 31 & 1) != s.headers:
        s.other_headers += 1
        return REFUSED
    tag = word_from(datagram + TAG_AT)
    session = word_from(datagram + 8)
    if kind == HELLO:
        if tag != tag_of(s, greeting_of(s), datagram, length):
            s.forged += 1
            return REFUSED
        take_hello(s, session, word_from(datagram + 16), signed_from(datagram + 24) == 1, now)
        return HANDLED
    if s.own == 0 or session != s.in_word:
        s.stale += 1
        if not is_live(s, now) and now - s.unknown_at >= UNKNOWN_NS and s.hello_at > now:
            s.unknown_at = now
            s.hello_at = now
            s.told = 0
        return REFUSED
    if kind == HANDLED or kind >= KINDS or tag != tag_of(s, in_key_of(s), datagram, length):
        s.forged += 1
        return REFUSED
    number = signed_from(datagram + 16)
    newest = 1 if number > s.highest else 0
    if not take_number(s, number, now):
        return REFUSED
    if not s.heard:
        s.heard = 1
        s.hello_at = ENDLESS
        s.owes_at = now
    s.dead = 0
    s.heard_at = now
    take_settled(s, signed_from(datagram + 24), now)
    if newest:
        s.granted = number_of(word >> 32) * 64
    s.fresh += cost_of(length)
    if kind >= PAUSE:
        if s.fresh > s.window // 8 or s.highest - s.said > UNSAID:
            s.owes_at = now
        else:
            s.owes_at = min(s.owes_at, now + ACK_NS)
        return kind
    s.states_in += 1
    if kind == ASK:
        s.owes_at = now
    return HANDLED


# ---- What goes out ----


def session_may_send(s, length):
    """Whether a datagram with content is within what the peer permits."""
    if not s.heard or s.dead or s.number - s.settled_out >= WINDOW - REORDER:
        return False
    return s.spent - s.freed + cost_of(length) <= s.granted or (s.spent == s.freed and s.granted > 0)


def session_seal(s, datagram, kind, length, now):
    """Fill in the header of a datagram of this session; `length` includes it."""
    s.number += 1
    s.spent += cost_of(length)
    s.costs[s.number & (WINDOW - 1)] = s.spent
    put_word(datagram, MAGIC | VERSION << 16 | word_of(kind) << 24 | word_of(s.headers) << 31 | word_of(s.window >> 6) << 32)
    put_word(datagram + 8, s.out_word)
    put_word(datagram + 16, word_of(s.number))
    put_word(datagram + 24, word_of(s.settled))
    put_word(datagram + TAG_AT, tag_of(s, out_key_of(s), datagram, length))
    s.said = s.settled
    s.fresh = 0
    s.owes_at = ENDLESS
    s.spoke_at = now
    if kind >= PAUSE:
        s.last_content = s.number
        if s.ask_at == ENDLESS:
            s.ask_gap = ASK_NS
            s.ask_at = now + ASK_NS


def session_unsend(s, length, now):
    """There was no room for the last datagram: it has not been sent."""
    s.number -= 1
    s.spent -= cost_of(length)
    s.last_content = min(s.last_content, s.number)
    s.owes_at = min(s.owes_at, now + ACK_NS)


def session_message(s, to, now):
    """Write the next message that is due to `to`; its length, or 0: there is none until session_due()."""
    if s.own and not s.heard and now - s.began_at >= HALF_NS:
        leave_session(s, now)
    if s.heard and not s.dead and now - s.heard_at >= DEAD_NS:
        s.dead = 1
        s.deaths += 1
    if now >= s.hello_at:
        return write_hello(s, to, now)
    if not s.own:
        return 0
    if now >= s.mark_at:
        before = s.settled
        settle(s, s.mark)
        s.mark = s.highest
        s.mark_at = now + GIVE_UP_NS if s.settled < s.highest else ENDLESS
        if s.settled > before:
            s.owes_at = now
    if s.window < s.full_window and now >= s.grow_at:
        s.window = min(s.full_window, s.window + s.full_window // 16)
        s.grow_at = now + GROW_NS
    kind = HANDLED
    if now >= s.ask_at:
        kind = ASK
        s.asked += 1
        s.ask_gap = min(2 * s.ask_gap, KEEP_NS)
        s.ask_at = now + s.ask_gap
    elif now >= s.owes_at or now - s.spoke_at >= KEEP_NS:
        kind = STATE
    if kind == HANDLED:
        return 0
    s.states_out += 1
    session_seal(s, to, kind, CONTENT_AT, now)
    return CONTENT_AT


def session_due(s):
    """When session_message() has something to do."""
    due = s.hello_at
    if s.own:
        due = min(due, min(min(s.mark_at, s.owes_at), min(s.ask_at, s.spoke_at + KEEP_NS)))
        if not s.heard:
            due = min(due, s.began_at + HALF_NS)
        elif not s.dead:
            due = min(due, s.heard_at + DEAD_NS)
    return due


def session_cut(s, now):
    """Our socket was full: the peer may have half as much in flight, and more again as time passes."""
    s.window = max(min(LEAST_WINDOW, s.full_window), s.window // 2)
    s.grow_at = now + GROW_NS
    s.owes_at = now
    s.cuts += 1


# ---- For Python ----

STATES = {CONNECTING: "connecting", CONNECTED: "up", DEAD: "dead"}


def session_row(s, now):
    """State and counters."""
    return {
        "state": STATES[session_state(s, now)],
        "silent_ns": now - s.heard_at if s.heard else 0,
        "sessions": s.sessions,
        "deaths": s.deaths,
        "under_way": in_flight(s),
        "granted": s.granted,
        "window": s.window,
        "window_cuts": s.cuts,
        "lost_on_the_way": s.lost,
        "late": s.late,
        "duplicates": s.duplicates,
        "too_old": s.old,
        "other_session": s.stale,
        "truncated": s.truncated,
        "forged": s.forged,
        "other_version": s.other_version,
        "other_super_frames": s.other_headers,
        "hellos_sent": s.hellos_out,
        "hellos_received": s.hellos_in,
        "hellos_ignored": s.ignored,
        "states_sent": s.states_out,
        "states_received": s.states_in,
        "asked": s.asked,
    }


class Endpoint:
    """One end of the protocol, for simulations: datagrams are bytes, times ns.

    `seed` (16 bytes) stands for the random numbers, `window` is what the peer may have in flight.
    """

    def __init__(self, seed, secret=b"", window=1 << 20):
        s = cython.address(self.session)
        self.scratch = bytearray(65600)
        for i in range(2):
            s.seed[i] = int.from_bytes(seed[8 * i : 8 * i + 8], "little")
            s.secret[i] = int.from_bytes(secret[8 * i : 8 * i + 8], "little")
        s.authentic = len(secret) == 16
        start_session(s, window)

    def take(self, datagram, now):
        """(kind, content) if a datagram has content that is new, else None."""
        text = bytes(datagram)
        kind = session_take(cython.address(self.session), PyBytes_AS_STRING(text), len(text), now)
        return (kind, text[CONTENT_AT:]) if kind >= PAUSE else None

    def message(self, now):
        """The next message that is due, or None."""
        to = PyByteArray_AS_STRING(self.scratch)
        length = session_message(cython.address(self.session), to, now)
        return PyBytes_FromStringAndSize(to, length) if length else None

    def send(self, kind, content, now):
        """A datagram with content, or None: the peer permits none now."""
        s = cython.address(self.session)
        length = CONTENT_AT + len(content)
        if not session_may_send(s, length):
            return None
        to = PyByteArray_AS_STRING(self.scratch)
        text = bytes(content)
        memcpy(to + CONTENT_AT, PyBytes_AS_STRING(text), len(text))
        session_seal(s, to, kind, length, now)
        return PyBytes_FromStringAndSize(to, length)

    def cut(self, now):
        """The socket was full."""
        session_cut(cython.address(self.session), now)

    @property
    def due(self):
        return session_due(cython.address(self.session))

    @property
    def counts(self):
        """(sessions begun, cost in flight, cost permitted, own numbers settled by the peer's, name of the session it hears)."""
        s = cython.address(self.session)
        return s.sessions, s.spent - s.freed, s.granted, s.settled, s.in_word

    def row(self, now):
        """Its state and counters."""
        return session_row(cython.address(self.session), now)
