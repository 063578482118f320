"""PIAS (NSDI 2015): the level of a packet by the bytes that its flow has sent; a port of strict priorities that marks by port.

Choices: a flow is demoted by the packet before which it has sent alpha_i bytes or more; a packet is marked as it leaves, by what
stays behind it.
"""

from bisect import bisect_right
from collections import deque


def level(sent, alpha):
    return bisect_right(alpha, sent)


class Port:
    def __init__(self, K, levels=8):
        self.K, self.queues, self.bytes = K, [deque() for _ in range(levels)], 0

    def enqueue(self, packet, level, size):
        self.queues[level].append((packet, size))
        self.bytes += size

    def dequeue(self):
        packet, size = next(q for q in self.queues if q).popleft()
        self.bytes -= size
        return packet, self.bytes > self.K
