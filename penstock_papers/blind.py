"""Homa's priorities for a distribution of sizes: how many levels blind packets have, and their cutoffs (Homa, section 3.4)."""

import functools

import numpy as np

from penstock_net import SizeDistribution

MESSAGES = 20_000  # of the distribution, at equal distances of its CDF


@functools.cache
def levels(sizes: str, priorities: int, rtt_bytes: int) -> int:
    """The levels of blind packets: their share of all levels is that of the first `rtt_bytes` of each message of all bytes."""
    messages = _messages(sizes)
    return min(max(round(priorities * float(np.minimum(messages, rtt_bytes).sum() / messages.sum())), 1), priorities - 1)


@functools.cache
def cutoffs(sizes: str, unscheduled: int, rtt_bytes: int, mtu: int = 1000, header: int = 48) -> list[int]:
    """Most bytes left at each of `unscheduled` levels but the last, so that each has the same share of the bytes on the wire.

    Blind levels are those of the first `rtt_bytes` of a message, rounded up to packets, and of its last `rtt_bytes`.
    """
    messages, ahead = _messages(sizes), -(-rtt_bytes // mtu) * mtu
    packets = -(-messages // mtu)
    left = [messages[messages > offset] - offset for offset in range(0, ahead, mtu)]
    for behind in range(-(-rtt_bytes // mtu)):  # packets that follow
        rest = messages - (packets - 1 - behind) * mtu
        left.append(rest[(rest <= rtt_bytes) & (messages - rest >= ahead)])
    every = np.sort(np.concatenate(left))
    wire = np.cumsum(np.minimum(every, mtu) + header)
    return [int(every[np.searchsorted(wire, wire[-1] * level / unscheduled)]) for level in range(1, unscheduled)]


def _messages(sizes: str) -> np.ndarray:
    return np.asarray(SizeDistribution.load(sizes).quantile((np.arange(MESSAGES) + 0.5) / MESSAGES)).astype(np.int64)
