"""Adaptive routing in a switch: SAI's Adaptive Routing and Switching (bands of load), uet-htsim (pauses first, ties at random).

Of the ports that are not stopped, or of all if every one is, those in the lowest band are equally good.  Without bands a port's
load is its bytes.  One of several is drawn.  With an idle time a flow that has not been idle for longer keeps its port.
"""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Switch:
    """`draw()`: the next random number; `entry_of`: the entry of a flow's hash.  All times in ps."""

    draw: Callable[[], int]
    bands: tuple[int, ...] = ()
    idle: int = 0
    entry_of: Callable[[int], int] = lambda flow_hash: flow_hash
    heeds_pauses: bool = True
    macro_flows: dict = field(default_factory=dict)  # entry -> (port, time of its last packet)

    def best_of(self, loads, stopped):
        """loads: port -> bytes; stopped: ports that may not send."""
        free = [port for port in loads if port not in stopped] if self.heeds_pauses else []
        band = {port: bisect_right(self.bands, load) if self.bands else load for port, load in loads.items()}
        among = free or list(loads)
        best = [port for port in among if band[port] == min(band[p] for p in among)]
        return best[self.draw() % len(best)] if len(best) > 1 else best[0]

    def port_of(self, now, flow_hash, loads, stopped=()):
        if not self.idle:
            return self.best_of(loads, stopped)
        entry = self.entry_of(flow_hash)
        port, last = self.macro_flows.get(entry, (None, now))
        if port not in loads or now - last > self.idle:
            port = self.best_of(loads, stopped)
        self.macro_flows[entry] = port, now
        return port
