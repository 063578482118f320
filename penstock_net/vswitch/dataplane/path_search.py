"""The search for the longest datagram that the path to the peer takes, by probes that the peer answers (RFC 8899).

A network may drop what is too long for it and say nothing.  So datagrams are no longer than one that was answered: BASE at first,
then what the kernel's MTU permits if that is answered, else as a bisection finds.  The length in use is probed anew when the peer
reports losses; without an answer the path is narrower, and the search begins below.  It has neither sockets nor a clock.
"""

import cython

if not cython.compiled:
    from penstock_net.vswitch.dataplane.path_search import AGAIN_NS, BASE, CALM_NS, CLOSE, LEAST, PROBE_NS, TRIES
    from penstock_net.vswitch.memory.layout import ENDLESS


def end_search(p):
    """There is no peer that answers."""
    p.on = 0
    p.sure = 0
    p.size = 0
    p.due = ENDLESS


def begin_search(p, now):
    """A peer that answers is there: is BASE short enough?"""
    p.on = 1
    p.doubtful = 0
    p.known = 0
    if p.most:
        p.bad = p.most + 1
        p.sure = min(BASE, p.most)
        p.again_at = now + AGAIN_NS
        probe(p, p.sure, now)
    else:
        p.due = now  # the kernel may know the path by now: it is asked before each probe


def probe(p, size, now):
    p.size = size
    p.tries = 0
    p.first = p.number + 1
    p.due = now


def set_most(p, most, now):
    """What the kernel permits, which others may have changed."""
    if most == p.most:
        return
    before = p.most
    p.most = most
    if not p.on:
        return
    if most == 0:
        end_search(p)
        p.on = 1
    elif p.sure == 0:
        begin_search(p, now)
    else:
        p.sure = min(p.sure, most)
        p.bad = most + 1 if most > before else min(p.bad, most + 1)
        aim(p, now)


def doubt(p, now):
    """Datagrams were lost: do those of the length in use still pass?"""
    if p.sure and now - p.answered_at >= CALM_NS:
        p.doubtful = 1
        if p.size == 0:
            aim(p, now)


def next_probe(p, now):
    """The length of the probe that is due; 0: none is."""
    if p.size == 0:
        p.again_at = now + AGAIN_NS
        p.bad = p.most + 1
        aim(p, now)
    elif p.tries == TRIES:
        give_up(p, now)
    if p.size == 0:
        return 0
    p.due = now + (PROBE_NS << p.tries)
    p.tries += 1
    p.number += 1
    p.probes += 1
    return p.size


def give_up(p, now):
    """No probe of this length was answered.  If one was before, all of them may have been lost by chance: begin anew, below."""
    if p.size > p.sure:
        p.bad = p.size
        aim(p, now)
    elif p.size > LEAST:
        p.narrowed += 1
        p.known = 0
        p.bad = p.most + 1
        p.sure = BASE if p.size > BASE else LEAST
        p.doubtful = 0
        p.again_at = now + AGAIN_NS
        probe(p, p.sure, now)
    else:
        p.size = 0
        p.due = p.again_at


def aim(p, now):
    """Choose the next length to probe; none if the longest one is known well enough."""
    if p.doubtful:
        p.doubtful = 0
        probe(p, p.sure, now)
    elif p.bad > p.most and p.sure < p.most:
        probe(p, p.most, now)
    elif p.bad <= p.most and p.bad - p.sure > CLOSE:
        probe(p, (p.sure + p.bad) // 2, now)
    else:
        p.known = 1
        p.size = 0
        p.due = p.again_at


def take_answer(p, number, size, now):
    """The peer has received a probe."""
    if p.size and size == p.size and p.first <= number <= p.number:
        p.sure = size
        p.doubtful = 0
        p.answered_at = now
        aim(p, now)


# ---- For Python ----


def search_row(p):
    """What is known of the path."""
    state = "not probed"
    if p.sure:
        state = "whole" if p.sure == p.most else "narrow" if p.known else "searched"
    return {"path": state, "path_most": p.most, "probes_sent": p.probes, "path_narrowed": p.narrowed}
