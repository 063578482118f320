"""Shortest remaining flow first (BFC, NSDI 2022, appendix A.2), and the best order of one link that serves whole packets.

    each packet carries the bytes that its flow has left, its own and those behind it
    a port serves the queue whose head carries the fewest, of those that are not paused; so do NICs with their flows

Choices: higher priorities first; of equals the one that the caller puts first; ACKs carry 0.
"""

from collections import defaultdict, deque


class Link:
    """A port: queues of packets (priority, bytes left, turn among equals, what identifies it)."""

    def __init__(self):
        self.queues, self.paused = defaultdict(deque), set()

    def enqueue(self, queue, packet):
        self.queues[queue].append(packet)

    def pause(self, queue):
        self.paused.add(queue)

    def resume(self, queue):
        self.paused.discard(queue)

    def dequeue(self):
        """-> (queue, packet)."""
        queue = min(
            (q for q, packets in self.queues.items() if packets and q not in self.paused), key=lambda q: self.queues[q][0]
        )
        return queue, self.queues[queue].popleft()


def srpt(flows, mtu, header):
    """flows: (arrival, bytes) at a link of a byte in a unit of time -> when each has been sent, preempted after packets."""
    left, ends, now = {}, [0] * len(flows), 0
    while len(left) < len(flows) or any(left.values()):
        for i, (arrival, size) in enumerate(flows):
            if arrival <= now:
                left.setdefault(i, size)
        active = [(rest, i) for i, rest in left.items() if rest]
        if not active:
            now = min(arrival for i, (arrival, _) in enumerate(flows) if i not in left)
            continue
        rest, i = min(active)
        payload = min(mtu, rest)
        left[i] -= payload
        now += payload + header
        ends[i] = now
    return ends
