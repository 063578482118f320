"""Round-trip time of a cache line between two processors: applications and the switch wait as long for each other's writes."""

import cython

if not cython.compiled:
    from penstock_net.vswitch.loadgen.cache_line import CLOSE, answers_released, free, new_word, rounds_released
    from penstock_net.vswitch.memory.layout import load64, now_ns, store64

PATIENCE_NS = 2_000_000_000


class CacheLine:
    """One thread asks, another one answers; each writes a line of its own."""

    def __cinit__(self):
        self.asked, self.answered, self.turn = new_word(), new_word(), CLOSE

    def __dealloc__(self):
        free(self.asked)
        free(self.answered)

    def ask(self, count):
        """Ask `count` times and wait for each answer; returns the mean time of them in ns, infinity if they take over 2 s."""
        began = now_ns()
        if not rounds_released(self, count, began + PATIENCE_NS):
            return float("inf")
        return (now_ns() - began) / count

    def answer(self):
        """Answer until `close` is called, or nobody has asked for 2 s."""
        answers_released(self, now_ns() + PATIENCE_NS)

    def close(self):
        """End the other thread's `answer`."""
        store64(self.asked, CLOSE)

    def rounds(self, count, until):
        for _ in range(count):
            self.turn += 1
            store64(self.asked, self.turn)
            looks = 0
            while load64(self.answered) != self.turn:
                looks += 1
                if not looks & 0xFFFF and now_ns() > until:
                    return False
        return True

    def answers(self, until):
        looks, seen = 0, load64(self.answered)
        while True:
            word = load64(self.asked)
            if word == CLOSE:
                return
            if word != seen:
                seen = word
                store64(self.answered, word)
            looks += 1
            if not looks & 0xFFFF and now_ns() > until:
                return
