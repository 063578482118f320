"""BFC's switch on Tofino2 (NSDI 2022, section 4), with sampling (appendix A.8): what its ingress pipelines know, and when.

Everything that the paper gives no number for is a field. Its readings, beside those of bfc.py:
* an update is a copy of all queue lengths and of N_active, taken at each multiple of `update_ps`;
* a packet takes a cycle of its ingress pipeline when it arrives, its header another one, which waits for cycles without arrivals;
* packets that are not sampled, and those that arrive while `most` of the pipeline are unfinished, change only the timestamp.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from paper import bfc

PIPELINES = 4


@dataclass
class Pipeline:
    link_ps: int  # of a header on the recirculation link
    cycle_ps: int
    link_free: int = 0
    cycle_free: int = 0
    headers: deque = field(default_factory=deque)  # (arrival at ingress, packet), in the order in which they left
    unfinished: int = 0


@dataclass
class Switch(bfc.Switch):
    """`table_size` is that of one pipeline. Frames are (time, Frame), since dequeue operations have a time of their own."""

    pipelines: list[Pipeline] = field(default_factory=list)
    update_ps: int = 0  # 0: the present
    latency_ps: int = 0
    most: int = 1 << 30
    draw: Callable[[], int] = lambda: 0

    def __post_init__(self):
        super().__post_init__()
        self.start = [[quarter * self.queues // PIPELINES for quarter in range(PIPELINES)] for _ in self.empty]
        self.updates = -1
        self.advance(0)

    def pipeline(self, packet):
        return PIPELINES * packet.ingress_port // len(self.empty)

    def entry(self, packet):
        key = self.pipeline(packet), packet.egress_port, packet.fid_hash % self.table_size
        return self.flow_table.setdefault(key, bfc.Entry())

    def advance(self, now_ps):
        """Everything before an event at now_ps: dequeue operations, then the update. -> frames."""
        frames = []
        for one in self.pipelines:
            while one.headers and max(one.headers[0][0], one.cycle_free) < now_ps:
                frames += self.finish(one, max(one.headers[0][0], one.cycle_free))
        if not self.update_ps or now_ps // self.update_ps > self.updates:
            self.updates = now_ps // self.update_ps if self.update_ps else 0
            self.known_length = [list(lengths) for lengths in self.q_length]
            self.known_active = [len(self.eligible(egress)) for egress in range(len(self.empty))]
        return sorted(frames, key=lambda frame: frame[0])

    def finish(self, pipeline, now_ps):
        """The dequeue operations of a header."""
        _, packet = pipeline.headers.popleft()
        pipeline.cycle_free = now_ps + pipeline.cycle_ps
        pipeline.unfinished -= 1
        entry = self.entry(packet)
        entry.size -= 1
        entry.timestamp = now_ps
        key = packet.ingress_port, packet.upstream_q
        if packet.counter_incr:
            self.pause_counter[key] -= 1
            if self.pause_counter[key] == 0:
                return [(now_ps, bfc.Frame("resume", *key))]
        return []

    def choose_queue(self, now_ps, packet, random_queue):
        egress, pipeline = packet.egress_port, self.pipeline(packet)
        start = self.start[egress][pipeline]
        for q in [*range(start, self.queues), *range(start)]:
            if self.known_length[egress][q] == 0:
                self.start[egress][pipeline] = (q + 1) % self.queues
                return q
        return self.draw()

    def exceeds_th(self, egress, q):
        length, active = self.known_length[egress][q], self.known_active[egress]
        if not self.update_ps:
            length, active = self.q_length[egress][q], len(self.eligible(egress))
        active += self.paused[egress][q]
        return length * max(active, 1) * self.ps_per_byte[egress] > self.hrtt

    def on_enqueue(self, now_ps, packet, random_queue=None):
        frames = self.advance(now_ps)
        pipeline = self.pipelines[self.pipeline(packet)]
        pipeline.cycle_free = max(pipeline.cycle_free, now_ps) + pipeline.cycle_ps
        packet.counts = packet.sampled and pipeline.unfinished < self.most
        self.assign_queue(now_ps, packet, random_queue)
        egress, q = packet.egress_port, packet.q_assignment
        if packet.counts:
            pipeline.unfinished += 1
        else:
            self.entry(packet).size -= 1
        self.q_length[egress][q] += packet.size
        self.q_packets[egress][q] += 1
        packet.counter_incr = packet.counts and self.exceeds_th(egress, q)
        if packet.counter_incr:
            key = packet.ingress_port, packet.upstream_q
            self.pause_counter[key] = self.pause_counter.get(key, 0) + 1
            if self.pause_counter[key] == 1:
                frames.append((now_ps, bfc.Frame("pause", *key)))
        return q, frames

    def on_dequeue(self, now_ps, packet):
        frames = self.advance(now_ps)
        egress, q = packet.egress_port, packet.q_assignment
        self.q_length[egress][q] -= packet.size
        self.q_packets[egress][q] -= 1
        if packet.counts:
            pipeline = self.pipelines[self.pipeline(packet)]
            pipeline.link_free = max(pipeline.link_free, now_ps) + pipeline.link_ps
            pipeline.headers.append((pipeline.link_free + self.latency_ps, packet))
        return frames
