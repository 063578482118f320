"""Deficit round robin (Shreedhar & Varghese, SIGCOMM 1995, section 3, enqueuing and dequeuing modules) below strict
priority levels, with queues that a downstream device may pause (BFC, NSDI 2022, section 3.3.1).

`DRR` keeps the paper's ActiveList. `CyclicDRR` visits the backlogged queues in the order of their numbers instead,
the text's "round robin" before the ActiveList is introduced. Both take packet after packet.
A paused queue is treated as an empty one: it leaves the round with DeficitCounter 0 and rejoins it when resumed.
A queue whose last packet has been taken leaves the round at once, not when that packet's transmission ends; a visit
with packets left ends when the next packet is asked for. A packet is its size in bytes.
"""

from collections import deque


class DRR:
    def __init__(self, queues, quantum):
        self.quantum = [quantum] * queues if isinstance(quantum, int) else list(quantum)
        self.queue = [deque() for _ in range(queues)]
        self.DC = [0] * queues  # DeficitCounter
        self.paused = [False] * queues
        self.active_list = deque()
        self.in_service = None  # the queue whose visit has begun and not ended

    def eligible(self, i):
        return bool(self.queue[i]) and not self.paused[i]

    def activate(self, i):
        if self.eligible(i) and i not in self.active_list and i != self.in_service:
            self.active_list.append(i)
            self.DC[i] = 0

    def enqueue(self, i, size):
        self.queue[i].append(size)
        self.activate(i)

    def pause(self, i):
        self.paused[i] = True
        self.DC[i] = 0
        if i in self.active_list:
            self.active_list.remove(i)
        if i == self.in_service:
            self.in_service = None

    def resume(self, i):
        self.paused[i] = False
        self.activate(i)

    def next_visit(self):
        """The queue to visit next, or None; it must be eligible."""
        return self.active_list.popleft() if self.active_list else None

    def end_visit(self, i):
        if self.eligible(i):
            self.active_list.append(i)
        else:
            self.DC[i] = 0

    def dequeue(self):
        """-> (queue, size), or None if every queue is empty or paused."""
        while True:
            if self.in_service is None:
                i = self.next_visit()
                if i is None:
                    return None
                self.in_service = i
                self.DC[i] += self.quantum[i]
            i = self.in_service
            if self.eligible(i) and self.queue[i][0] <= self.DC[i]:
                size = self.queue[i].popleft()
                self.DC[i] -= size
                if not self.queue[i]:
                    self.in_service = None
                    self.end_visit(i)
                return i, size
            self.in_service = None
            self.end_visit(i)


class CyclicDRR(DRR):
    """The round goes by queue number: after queue i comes the next eligible one, i itself last."""

    def __init__(self, queues, quantum):
        super().__init__(queues, quantum)
        self.last = queues - 1

    def activate(self, i):
        pass  # there is no list to join

    def end_visit(self, i):
        if not self.eligible(i):
            self.DC[i] = 0

    def next_visit(self):
        n = len(self.queue)
        for i in (k % n for k in range(self.last + 1, self.last + 1 + n)):
            if self.eligible(i):
                self.last = i
                return i
        return None


class Strict:
    """Strict priority levels, level 0 first; each level is one scheduler (a lone FIFO is DRR with one queue)."""

    def __init__(self, levels):
        self.levels = levels

    def enqueue(self, level, i, size):
        self.levels[level].enqueue(i, size)

    def dequeue(self):
        """-> (level, queue, size) or None."""
        for level, scheduler in enumerate(self.levels):
            served = scheduler.dequeue()
            if served is not None:
                return level, *served
        return None
