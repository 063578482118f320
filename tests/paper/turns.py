"""Who goes first at a node, of those for whom nothing else decides it (docs/modelling.md, "Ties")."""

BITS = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def mixed(x):
    """splitmix64's finalizer."""
    x &= BITS
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & BITS
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & BITS
    return x ^ x >> 31


def hashed(number, seed):
    return mixed(((seed & 0xFFFFFFFF) << 32) + number * GOLDEN) & 0x7FFFFFFF


def seed_of(node, seed):
    return 4 * hashed(node + (1 << 41), seed)


def turn(number, node, rank=0, seed=1):
    """Of flows of equal rank the one of the least turn goes first."""
    return hashed(number, rank ^ seed_of(node, seed)), number


def in_turn(by_port, time, node, seed=1):
    """What arrives at ports in one picosecond, in their order, shuffled as by Fisher and Yates."""
    items, drawn = list(by_port), hashed(time, seed_of(node, seed))
    for i in range(len(items) - 1):
        chosen = i + ((mixed((drawn ^ i) + GOLDEN) >> 33) * (len(items) - i) >> 31)
        items[i], items[chosen] = items[chosen], items[i]
    return items[::-1]
