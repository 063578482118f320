"""The protocol between two switches for Python: its state and counters, and one end of it for simulations."""

import cython

if not cython.compiled:
    from penstock_net.vswitch.dataplane.path_search import search_row, set_most
    from penstock_net.vswitch.dataplane.session import (
        CONNECTED,
        CONNECTING,
        CONTENT_AT,
        DEAD,
        PAUSE,
        in_flight,
        search_of,
        session_due,
        session_halve_window,
        session_may_send,
        session_message,
        session_seal,
        session_state,
        session_take,
        start_session,
    )
    from penstock_net.vswitch.dataplane.session_view import PyByteArray_AS_STRING, PyBytes_AS_STRING, PyBytes_FromStringAndSize
    from penstock_net.vswitch.memory.layout import memcpy

STATES = {CONNECTING: "connecting", CONNECTED: "up", DEAD: "dead"}


def session_row(s, now):
    """State and counters."""
    return {
        "state": STATES[session_state(s, now)],
        "silent_ns": now - s.received_at if s.peer_confirmed else 0,
        "sessions": s.sessions,
        "deaths": s.deaths,
        "under_way": in_flight(s),
        "granted": s.granted,
        "window": s.window,
        "window_cuts": s.window_halvings,
        "lost_on_the_way": s.lost,
        "lost_at_peer": s.peer_lost_before + s.peer_lost,
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
        **search_row(search_of(s)),
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

    def set_path(self, most, now):
        """The kernel lets datagrams of this length pass."""
        set_most(search_of(cython.address(self.session)), most, now)

    @property
    def longest(self):
        """The longest datagram that is known to pass; 0: the path is not probed."""
        return self.session.search.sure

    def halve_window(self, now):
        """The socket was full."""
        session_halve_window(cython.address(self.session), now)

    @property
    def due(self):
        return session_due(cython.address(self.session))

    @property
    def counts(self):
        """(sessions begun, cost in flight, cost permitted, cumulative acknowledgement, name of the session it receives)."""
        s = cython.address(self.session)
        return s.sessions, s.sent_cost - s.acked_cost, s.granted, s.cum_ack, s.in_word

    def row(self, now):
        """Its state and counters."""
        return session_row(cython.address(self.session), now)
