"""ConWeave (Song et al., SIGCOMM 2023): source and destination switch, by the rules of the paper and of its authors' simulator.

Left out: ageing, and tables that are full.  A random number is drawn only where a path is needed.  All times in ps.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

NS = 1000
DATA, INIT, TAIL = "data", "init", "tail"  # what a packet is: INIT asks for RTT_REPLY, TAIL for CLEAR


class Tag(NamedTuple):
    """What a packet carries between the two switches."""

    path: Any
    epoch: int
    phase: int  # 1: REROUTED
    kind: str
    sent: int
    tail_sent: int


class Reply(NamedTuple):
    """phase 0: RTT_REPLY; 1: CLEAR."""

    flow: int
    epoch: int
    phase: int


@dataclass
class Sending:
    path: Any = None
    epoch: int = 0
    phase: int = 0
    stabilized: bool = True
    active: int | None = None
    deadline: int | None = None
    tail_sent: int = 0


@dataclass
class Source:
    """`draw()`: the next random number; `paths(dst)`: those to a destination switch."""

    draw: Callable[[], int]
    paths: Callable[[Any], list]
    base_rtt: int
    extra_reply: int
    path_busy: int
    inactive: int
    flows: dict[int, Sending] = field(default_factory=dict)
    busy_until: dict[Any, int] = field(default_factory=dict)  # (destination, path) -> time
    reroutes: int = 0

    def good_path(self, now, dst):
        """-> (the first one drawn, a good one or None)."""
        known = self.paths(dst)
        first = known[self.draw() % len(known)]
        if now >= self.busy_until.get((dst, first), 0):
            return first, first
        second = known[self.draw() % len(known)]
        return first, second if now >= self.busy_until.get((dst, second), 0) else None

    def on_data(self, now, flow, dst):
        new = flow not in self.flows
        s = self.flows.setdefault(flow, Sending())
        expired = new or s.active + self.inactive < now
        stabilized = not expired and s.stabilized
        s.stabilized = False
        s.active = now
        late = False
        if expired or stabilized:
            s.deadline = now + self.base_rtt + self.extra_reply
            s.epoch += 1
            s.phase = 0
            s.tail_sent = 0
        elif s.deadline is not None and s.deadline < now:
            s.deadline = None
            late = True
        if expired:
            first, good = self.good_path(now, dst)
            s.path = good if good is not None else first if new else s.path
            self.reroutes += good is not None and not new
        path, phase = s.path, s.phase
        if late:
            s.phase = 1
            s.tail_sent = now
            _, good = self.good_path(now, dst)
            if good is not None:
                s.path = good
                self.reroutes += 1
        return Tag(path, s.epoch, phase, TAIL if late else INIT if expired or stabilized else DATA, now, s.tail_sent)

    def on_reply(self, now, reply):
        s = self.flows.get(reply.flow)
        if s is None or (reply.epoch, reply.phase) != (s.epoch, s.phase):
            return
        if reply.phase == 1 or (s.deadline is not None and now < s.deadline):
            s.stabilized = True
            s.deadline = None

    def on_notify(self, now, dst, path):
        self.busy_until[dst, path] = now + self.path_busy


@dataclass
class Receiving:
    epoch: int = 1
    phase: int = 0
    phase0_sent: int = 0
    phase0_came: int = 0
    phase0_cache: bool = False
    tail_sent: int = 0
    voq: list | None = None  # None: no reordering is going on
    flush_at: int = 0


@dataclass
class Destination:
    extra_flush: int
    default_wait: int
    flows: dict[int, Receiving] = field(default_factory=dict)

    def on_data(self, now, flow, tag, marked, packet):
        """-> (whether it is queued, what is sent back: a Reply or the path of a NOTIFY)."""
        r = self.flows.setdefault(flow, Receiving())
        if tag.epoch < r.epoch:
            return False, []
        if tag.phase == 0:
            r.phase0_sent, r.phase0_came = tag.sent, now
        early = False
        if tag.epoch > r.epoch:
            r.epoch = tag.epoch
            r.phase = 1 if tag.kind == TAIL else 0
            early = tag.phase > r.phase
            r.phase0_cache = tag.phase == 0
        else:
            if tag.kind == TAIL:
                if r.voq is None:
                    r.phase = 1
            else:
                early = tag.phase > r.phase
            r.phase0_cache = r.phase0_cache or tag.phase == 0
        if tag.kind == TAIL or tag.phase == 1:
            r.tail_sent = tag.tail_sent
        gap = max(r.tail_sent - r.phase0_sent, 0) if r.phase0_cache else self.default_wait
        if tag.phase == 0:
            if r.voq is not None:
                r.flush_at = now + NS if tag.kind == TAIL else now + gap + self.extra_flush
        elif early:
            if r.voq is None:
                r.voq = []
                since = r.phase0_came if r.phase0_cache else now
                r.flush_at = max(since + gap + self.extra_flush, now)
            r.voq.append(packet)
        back = [tag.path] if marked else []
        if tag.kind != DATA:
            back.append(Reply(flow, tag.epoch, 1 if tag.kind == TAIL else 0))
        return early, back

    def on_time(self, now):
        """-> flows whose queue is flushed, and its packets."""
        out = {}
        for flow, r in self.flows.items():
            if r.voq is not None and r.flush_at <= now:
                out[flow] = r.voq
                r.voq, r.phase = None, 1
        return out
