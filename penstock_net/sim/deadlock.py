"""Detects deadlocks at the end of a run: a cycle of paused egress ports, none of which has sent anything for long.

A paused queue with packets waits for those queues of the next switch that hold packets of its link. If they are paused, too, and
wait for the first one in the end, nothing of them will ever move. The runner looks at the paused queues twice, the second time at
the end of a run that has not finished: queues that have the same first packet both times have not moved in between.
"""

from dataclasses import dataclass, replace
from typing import Any

from penstock_net.topology import Topology
from penstock_net.topology.backpressure import Egress, far_ends, shortest_cycles
from penstock_net.units import format_time

QUIET_PS = 10**9  # between the two looks; less in runs that are not twice as long
Stopped = list[tuple[int, int, int, tuple[int, int, int], int, list[int]]]  # see Simulation.stopped_queues


@dataclass(frozen=True)
class Deadlock:
    """A cycle of egress ports (node, port), each paused by the next one.

    since_ps  when the last packet came to one of their queues
    priority  of the flows that are stuck, where priorities are paused apart
    """

    egresses: list[Egress]
    since_ps: int
    priority: int | None = None

    def record(self, topo: Topology) -> dict[str, Any]:
        """Its entry in summary.json."""
        record = {"since_ns": self.since_ps / 1000, "egresses": self.egresses, "names": self.names(topo)}
        return record if self.priority is None else {**record, "priority": self.priority}

    def names(self, topo: Topology) -> list[str]:
        """ "tor2 -> spine0" of each egress."""
        far = far_ends(topo)
        return [f"{topo.names[node]} -> {topo.names[far[node, port][0]]}" for node, port in self.egresses]

    def text(self, topo: Topology) -> str:
        """A sentence for people."""
        names = ", ".join(self.names(topo))
        what = "" if self.priority is None else f" of priority {self.priority}"
        return (
            f"deadlock{what} since {format_time(self.since_ps)}: {names}; each is paused by the next one, the last by the first"
        )


def first_look_ps(end_ps: int) -> int:
    """Time of the first look at the paused queues, in a run that ends at `end_ps` at the latest."""
    return end_ps - min(QUIET_PS, end_ps // 2)


def find(topo: Topology, before: Stopped, now: Stopped, by_priority: bool = False) -> Deadlock | None:
    """A shortest cycle of queues that were stopped at both times.

    by_priority: queues are of priorities, of which one does not pause another; a circle is within one.
    """
    if not by_priority:
        return _find(topo, before, now)
    priorities = sorted({row[2] for row in now})
    found = [(number, _find(topo, before, [row for row in now if row[2] == number])) for number in priorities]
    circles = [replace(circle, priority=number) for number, circle in found if circle]
    return min(circles, key=lambda circle: len(circle.egresses), default=None)


def _find(topo: Topology, before: Stopped, now: Stopped) -> Deadlock | None:
    known = {row[:4] for row in before}
    stopped = [row for row in now if row[:4] in known]
    far = far_ends(topo)
    last: dict[Egress, int] = {}  # when its last packet came
    holders: dict[Egress, set[Egress]] = {}  # by ingress: the egresses at which packets from there wait
    for node, port, _, _, since, ingresses in stopped:
        last[node, port] = max(since, last.get((node, port), 0))
        for ingress in ingresses:
            holders.setdefault((node, ingress), set()).add((node, port))
    edges = {(egress, other) for egress in last for other in holders.get(far[egress], ())}
    circles = shortest_cycles(edges)
    if not circles:
        return None
    circle = min(circles, key=lambda found: (len(found), found))
    return Deadlock(circle, max(last[egress] for egress in circle))
