"""Load balancers that choose an entropy for each packet, as described for Ultra Ethernet's simulator uet-htsim.

Oblivious: rounds through all entropies.  REPS (Bonato et al., arXiv 2407.21625): a ring of eight good ones.  Bitmap: the rounds,
but for entropies with a penalty.  Mixed: good ones first in, first out, else the bitmap.
"""

from collections import deque


def entropies(masks, bits=6):
    """Oblivious spraying: rounds through all entropies, each with the next one of the masks."""
    for mask in masks:
        yield from (i ^ mask for i in range(1 << bits))


class Reps:
    """The ring of recycled entropies. `draw()`: a random entropy."""

    def __init__(self, draw, freeze, size=8, explore=16):
        self.draw, self.freeze, self.size, self.explore = draw, freeze, size, explore
        self.written, self.fresh = [], deque()  # slots in the order in which they were written; those not taken since
        self.slots = {}
        self.exploring, self.until, self.turn = 0, None, 0

    def feedback(self, now):
        """An answer or a timeout, whatever it says, ends a freeze whose time is over."""
        if self.until is not None and now >= self.until:
            self.until, self.exploring = None, self.explore
            self.slots, self.fresh, self.written = {}, deque(), []

    def answer(self, now, entropy, good):
        self.feedback(now)
        if good:
            slot = len(self.written) % self.size
            self.written.append(entropy)
            self.slots[slot] = entropy
            if slot in self.fresh:
                self.fresh.remove(slot)
            self.fresh.append(slot)

    def timeout(self, now):
        self.feedback(now)
        if self.until is None and not self.exploring:
            self.until, self.turn = now + self.freeze, 0

    def send(self):
        if self.exploring:
            self.exploring -= 1
            return self.draw()
        if self.until is not None:
            if not self.slots:
                return self.draw()
            slot = self.turn if self.turn < len(self.slots) else 0
            self.turn = slot + 1
            return self.slots[slot]
        return self.slots[self.fresh.popleft()] if self.fresh else self.draw()


class Mixed:
    """Good entropies, the oldest one first; else a walk that skips penalties. `mask()`: a random mask for each round."""

    def __init__(self, mask, bits=6, recycle=True):
        self.mask, self.n, self.good = mask, 1 << bits, deque(maxlen=128 if recycle else 0)
        self.penalties, self.order = [0] * self.n, deque()

    def answer(self, entropy, kind):
        if kind == "good":
            self.good.append(entropy)
        else:
            more = {"mark": 1, "nack": 4, "timeout": 15}[kind]
            entropy = 0 if kind == "timeout" else entropy
            self.penalties[entropy] = min(self.penalties[entropy] + more, 15)

    def next(self):
        if not self.order:
            mask = self.mask()
            self.order.extend(i ^ mask for i in range(self.n))
        return self.order.popleft()

    def send(self):
        if self.good:
            return self.good.popleft()
        entropy = self.next()
        if self.penalties[entropy]:
            self.penalties[entropy] -= 1
            for _ in range(self.n):
                entropy = self.next()
                if not self.penalties[entropy]:
                    break
        return entropy
