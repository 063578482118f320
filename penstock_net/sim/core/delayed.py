"""Dependent flows of a host whose parents are done and whose start time has not come, by time, then by number: a pairing heap.

A flow is named by its place in `world.waiting` plus one; 0: none. The soonest one is `host.delayed`; `first` of a flow is the
first of those below it, `following` the next one beside it.
"""

import cython

if not cython.compiled:
    from penstock_net.fabric.state import waiting_at


def joined(world, one, other):
    """The root of two heaps as one; what is beside the roots is forgotten."""
    if not one:
        return other
    if not other:
        return one
    a = waiting_at(world, one - 1)
    b = waiting_at(world, other - 1)
    if b.time < a.time or (b.time == a.time and b.number < a.number):
        a.following = b.first
        b.first = one
        return other
    b.following = a.first
    a.first = other
    return one


def add_delayed(world, host, i):
    start = waiting_at(world, i - 1)
    start.first = 0
    start.following = 0
    host.delayed = joined(world, host.delayed, i)


def take_soonest(world, host):
    """Remove the root; what was below it is joined in pairs, then the pairs, the last one first."""
    i = waiting_at(world, host.delayed - 1).first
    pairs = 0
    while i:
        other = waiting_at(world, i - 1).following
        following = 0
        if other:
            following = waiting_at(world, other - 1).following
        i = joined(world, i, other)
        waiting_at(world, i - 1).following = pairs
        pairs = i
        i = following
    host.delayed = 0
    while pairs:
        following = waiting_at(world, pairs - 1).following
        host.delayed = joined(world, host.delayed, pairs)
        pairs = following


def take_due(world, host, now):
    """Remove the flows that start by `now`: the first one, from which `following` leads to the others."""
    due = host.delayed
    last = 0
    while host.delayed and waiting_at(world, host.delayed - 1).time <= now:
        i = host.delayed
        take_soonest(world, host)
        if last:
            waiting_at(world, last - 1).following = i
        waiting_at(world, i - 1).following = 0
        last = i
    return due if last else 0
