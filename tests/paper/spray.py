"""Packet spraying: a random path for each packet (Dixit et al., INFOCOM 2013), and DRILL(d, 1) (Ghorbani et al., SIGCOMM 2017).

DRILL: the least loaded of d random ports and of the one that was the least loaded among the samples of the last packet. Open
there, and chosen here: of equal ones the first drawn, then the remembered one, then the others; each destination has a memory
of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Switch:
    """`draw()`: the next random number. `d`: 0 for a random path."""

    draw: Callable[[], int]
    d: int = 0
    memory: dict = field(default_factory=dict)  # destination -> path

    def choose(self, destination, loads):
        """-> index of a path; loads: bytes stored for the port of each."""
        samples = [self.draw() % len(loads)]
        if self.d:
            samples.append(self.memory.get(destination, 0))
            samples += [self.draw() % len(loads) for _ in range(self.d - 1)]
            self.memory[destination] = min(samples, key=lambda i: loads[i])
            return self.memory[destination]
        return samples[0]
