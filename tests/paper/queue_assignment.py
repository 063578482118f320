"""Readings of BFC's queue assignment (NSDI 2022, sections 3.3.1 and 4): which queue a new flow gets, and rules beyond the paper.

Each is the transcription of bfc.py with another choose_queue. `draw()` returns the next random number of the switch.
A queue is `kept` while a flow may still stick to it: for the sticky time after its last packet was scheduled.
"""

from collections.abc import Callable
from dataclasses import dataclass

from paper import bfc


@dataclass
class Literal(bfc.Switch):
    """Section 3.3.1 to the letter: the first empty queue, paused or not, as in bfc.py."""

    draw: Callable[[], int] = lambda: 0
    paused_if_full: bool = True  # whether the random queue may be a paused one
    host_ports: frozenset[int] = frozenset()

    def __post_init__(self):
        super().__post_init__()
        self.kept_until = [[-1] * self.queues for _ in self.empty]

    def choose_queue(self, now_ps, packet, random_queue):
        found = self.candidates(now_ps, packet)
        return found[0] if found else self.otherwise(packet.egress_port)

    def candidates(self, now_ps, packet):
        """Queues that the flow may get, best first."""
        return [q for q in range(self.queues) if self.empty[packet.egress_port][q]]

    def otherwise(self, egress):
        """The queue if there is no candidate."""
        unpaused = [q for q in self.shared() if not self.paused[egress][q]]
        return self.any_of(self.shared() if self.paused_if_full or not unpaused else unpaused)

    def shared(self):
        """The queues among which there is a choice."""
        return range(self.queues)

    def any_of(self, queues):
        return queues[self.draw() % len(queues)]

    def on_dequeue(self, now_ps, packet):
        frames = super().on_dequeue(now_ps, packet)
        if self.empty[packet.egress_port][packet.q_assignment]:
            self.kept_until[packet.egress_port][packet.q_assignment] = now_ps + self.sticky_hrtts * self.hrtt
        return frames


class Unpaused(Literal):
    """The first empty queue that is not paused."""

    def candidates(self, now_ps, packet):
        return [q for q in super().candidates(now_ps, packet) if not self.paused[packet.egress_port][q]]


class Reserved(Unpaused):
    """Among empty, unpaused queues rather one that no flow may stick to."""

    def candidates(self, now_ps, packet):
        kept = self.kept_until[packet.egress_port]
        return sorted(super().candidates(now_ps, packet), key=lambda q: now_ps <= kept[q])  # sorted() is stable


class Shortest(Reserved):
    """As Reserved; but if there is none, the shortest queue, an unpaused one if possible."""

    def otherwise(self, egress):
        return min(range(self.queues), key=lambda q: (self.paused[egress][q], self.q_length[egress][q]))


class Joined(Reserved):
    """As Reserved; but while at most a sixteenth of the queues are empty and unpaused, a flow joins the queue that was given to
    its destination last, if it still has packets or is paused, and has been given to no other since. Not at ports to hosts.
    """

    def __post_init__(self):
        super().__post_init__()
        self.last = [{} for _ in self.empty]  # destination's hash -> queue
        self.owner = [{} for _ in self.empty]  # queue -> destination

    def choose_queue(self, now_ps, packet, random_queue):
        egress = packet.egress_port
        free = [q for q in range(self.queues) if self.empty[egress][q] and not self.paused[egress][q]]
        if egress not in self.host_ports and len(free) <= self.queues / 16:
            q = self.last[egress].get(packet.destination_hash)
            if self.owner[egress].get(q) == packet.destination and (self.paused[egress][q] or not self.empty[egress][q]):
                return q
        candidates = self.candidates(now_ps, packet)
        if not candidates:
            return self.otherwise(egress)
        self.last[egress][packet.destination_hash], self.owner[egress][candidates[0]] = candidates[0], packet.destination
        return candidates[0]


class Penstock(Joined, Shortest):
    """Joined, and the shortest queue if there is no other."""


class Rotating(Literal):
    """Section 4: the next empty queue from a starting point on; each of four ingress pipelines has one, which moves behind it."""

    def __post_init__(self):
        super().__post_init__()
        self.start = [[quarter * self.queues // 4 for quarter in range(4)] for _ in self.empty]

    def choose_queue(self, now_ps, packet, random_queue):
        start = self.start[packet.egress_port]
        pipeline = 4 * packet.ingress_port // len(self.empty)
        order = [*range(start[pipeline], self.queues), *range(start[pipeline])]
        candidates = self.candidates(now_ps, packet)
        for q in order:
            if q in candidates:
                start[pipeline] = (q + 1) % self.queues
                return q
        return self.otherwise(packet.egress_port)


class RotatingUnpaused(Rotating, Unpaused):
    """The same, without paused queues."""


class TwoChoices(Literal):
    """Power of two choices: the shorter one of two random queues, whatever is empty or paused."""

    def choose_queue(self, now_ps, packet, random_queue):
        first, second = self.any_of(self.shared()), self.any_of(self.shared())
        return min(first, second, key=lambda q: self.q_length[packet.egress_port][q])


READINGS = {
    "reserved": Reserved,
    "unpaused": Unpaused,
    "literal": Literal,
    "rotating": Rotating,
    "rotating_unpaused": RotatingUnpaused,
    "shortest": Shortest,
    "joined": Joined,
    "penstock": Penstock,
    "two_choices": TwoChoices,
}
