"""Dimension-order routing with virtual channels: Dally and Seitz, IEEE Transactions on Computers C-36 (1987), section 5.

A packet corrects one coordinate after the other. In each ring it is in the low channel until it takes the link that closes the
ring, and in the high one from there on.
"""


def towards(here, there, size):
    """The next coordinates on shorter ways around a ring: one, or two half-way around."""
    up, down = (there - here) % size, (here - there) % size
    return sorted({(here + 1) % size for _ in [0] if up <= down} | {(here - 1) % size for _ in [0] if down <= up})


def first_wrong(here, there):
    """The dimension in which a packet moves; None: it is there."""
    return next((d for d, (a, b) in enumerate(zip(here, there)) if a != b), None)


def channel(before, dimension, a, b, size):
    """The channel of the link from a to b of a ring, after a link (dimension, channel), or None."""
    closes = size > 2 and {a, b} == {0, size - 1}
    return 1 if closes or before == (dimension, 1) else 0
