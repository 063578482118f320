"""PIAS (NSDI 2015): the level of a packet by the bytes that its flow has sent; a port of strict priorities that marks by port.

Choices: a flow is demoted by the packet before which it has sent alpha_i bytes or more; a packet is marked as it leaves, by what
stays behind it; a NIC with levels sends the packet of the highest one, of the flow that has waited longest there.
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


class Nic:
    """Flows that may always send: number -> [bytes left, bytes sent, the turn at which it began to wait]."""

    def __init__(self, alpha, mtu):
        self.alpha, self.mtu, self.flows, self.turn = alpha, mtu, {}, 0

    def wait(self, number, left, sent):
        self.turn += 1
        self.flows[number] = [left, sent, self.turn]

    def send(self):
        """The next packet: its flow, its offset."""
        number = min(self.flows, key=lambda n: (level(self.flows[n][1], self.alpha), self.flows[n][2]))
        left, sent, _ = self.flows.pop(number)
        if left > self.mtu:
            self.wait(number, left - self.mtu, sent + self.mtu)
        return number, sent
