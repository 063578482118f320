"""Open-loop senders around one switch with one shared buffer, first come first served: what arrives, when, and what is lost.

By hand, without events: hosts do not listen, so when each packet leaves them follows from their rates alone.  All times in ps.
"""

from collections import deque
from dataclasses import dataclass

HEADER, MTU = 48, 1000


@dataclass
class Sender:
    """One flow of a host of its own; gap: ps per byte of its packets, headers included; 0: the line's."""

    start: int
    size: int
    gap: float
    dst: int = 0


def departures(sender, ps_per_byte):
    """When the last bit of each packet has left the host, with its payload."""
    out, left, due, free = [], sender.size, sender.start, sender.start
    while left:
        payload = min(left, MTU)
        begin = max(due, free)
        free = begin + (payload + HEADER) * ps_per_byte
        due = begin + int((payload + HEADER) * sender.gap)
        left -= payload
        out.append((free, payload))
    return out


def run(senders, ps_per_byte, delay, buffer):
    """(bytes received, lost, time of the last byte if all came) of each sender, and when the last packet arrived: what is lost
    finds a full buffer, which is sent later."""
    arriving = []
    for number, sender in enumerate(senders):
        for left_at, payload in departures(sender, ps_per_byte):
            arriving.append((left_at + delay, number, payload))
    received, gone, finish = [0] * len(senders), [0] * len(senders), [None] * len(senders)
    free = {sender.dst: 0 for sender in senders}  # when the line of each port is
    waiting = {dst: deque() for dst in free}
    last = used = 0

    def begin(number, payload, at):
        """A packet begins to leave the switch."""
        nonlocal last
        dst = senders[number].dst
        free[dst] = at + (payload + HEADER) * ps_per_byte
        received[number] += payload
        last = max(last, free[dst] + delay)
        if received[number] == senders[number].size:
            finish[number] = free[dst] + delay

    def serve(until):
        """What begins to leave before this time; a packet that comes at the very instant finds the one before it still there."""
        nonlocal used
        for dst, queue in waiting.items():
            while queue and free[dst] < until:
                number, payload = queue.popleft()
                used -= payload + HEADER
                begin(number, payload, free[dst])

    for at, number, payload in sorted(arriving):
        serve(at)
        dst = senders[number].dst
        if used + payload + HEADER > buffer:
            gone[number] += payload
        elif not waiting[dst] and free[dst] <= at:
            begin(number, payload, at)
        else:
            used += payload + HEADER
            waiting[dst].append((number, payload))
    serve(1 << 62)
    return received, gone, finish, last
