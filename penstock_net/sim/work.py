"""How much of a run is done: by the payload that its flows send, since a phase without traffic takes no time to simulate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from penstock_net import scratch

if TYPE_CHECKING:
    from penstock_net.workload.flows import Flows

STEPS = 1000  # in time, linear in between


class Work:
    """The share of all payload that is sent by any time before `end_ps`, if flows do not delay one another.

    Where flows depend on others their starts are unknown; it is then the share of the time.
    """

    def __init__(self, flows: Flows, end_ps: int, ps_per_byte: float) -> None:
        self.times = np.linspace(0.0, end_ps, STEPS + 1)
        self.shares = np.linspace(0.0, 1.0, STEPS + 1)
        if flows.after is not None:
            return
        sent = np.zeros(STEPS + 1)
        for part in scratch.parts(*flows.columns):
            start = flows.start_ps[part].astype(float)
            sent += self._since(start) - self._since(start + flows.bytes[part] * ps_per_byte)
        if sent[-1] > 0:
            self.shares = np.maximum.accumulate(sent / sent[-1])

    def _since(self, start: np.ndarray) -> np.ndarray:
        """At each time, the sum of the times since all starts."""
        step = np.searchsorted(self.times, start)
        count = np.cumsum(np.bincount(step, minlength=STEPS + 2))[: STEPS + 1]
        total = np.cumsum(np.bincount(step, weights=start, minlength=STEPS + 2))[: STEPS + 1]
        return count * self.times - total

    def share(self, time_ps: int) -> float:
        """0 to 1."""
        return float(np.interp(time_ps, self.times, self.shares))
