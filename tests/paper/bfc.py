"""Backpressure Flow Control (NSDI 2022): the pseudocode of sections 3.3.1 and 3.3.2, appendices B and C.

Names are the paper's. Where the paper leaves a choice open, this file chooses:
* "timestamp is older than the sticky threshold" is strict: now - timestamp > 2 HRTT;
* an empty queue is one without packets, even if it is paused or was the last one of a flow that may stick to it;
* qLength includes the arriving packet, whole packets count until they are scheduled (on_dequeue);
* N_active = unpaused queues with packets, and always the arriving packet's queue, paused or not;
* entries never used have no timestamp, so they are assigned at their first packet.
"""

from dataclasses import dataclass, field
from math import sqrt
from typing import NamedTuple


class Frame(NamedTuple):
    """A pause or resume frame, sent out of `ingress_port` to the upstream device about its `upstream_q`."""

    kind: str  # "pause" | "resume"
    ingress_port: int
    upstream_q: int


@dataclass
class Packet:
    ingress_port: int
    egress_port: int
    fid_hash: int  # hash(packet.FID)
    upstream_q: int
    size: int
    destination: int = -1  # a host, for rules that look at it
    destination_hash: int = -1
    priority: int = 0  # paper/bfc_variants.py: traffic class, whether the sender labelled it
    incast: bool = False
    sampled: bool = True  # paper/bfc_tofino2.py: whether it is to be recirculated, whether it counts
    counts: bool = True
    q_assignment: int = -1  # packet.qAssignment: written by the switch
    counter_incr: bool = False  # packet.metadata.counterIncr: written by the switch


@dataclass
class Entry:
    q_assignment: int = -1
    size: int = 0  # packets in the switch from the flows mapped to this entry
    timestamp: int | None = None


@dataclass
class Switch:
    """`hrtt_ps[ingress]`: 1-hop RTT to each upstream; `ps_per_byte[egress]`: 1/mu."""

    queues: int
    hrtt_ps: list[int]
    ps_per_byte: list[int]
    assignment: str = "dynamic"  # | "stochastic" | "single"
    sticky_hrtts: int = 2
    table_size: int | None = None  # entries per egress port; the paper's 100 x queues if not given
    no_backpressure: frozenset = frozenset()  # appendix B: pairs (ingress, egress) whose backpressure is elided
    flow_table: dict = field(default_factory=dict)  # <egressPort, hash(FID)> -> Entry
    pause_counter: dict = field(default_factory=dict)  # <ingressPort, upstreamQ> -> int

    def __post_init__(self):
        ports = range(len(self.ps_per_byte))
        self.hrtt = max(self.hrtt_ps)  # "we use the max of HRTT across all the ingresses"
        self.table_size = self.table_size or 100 * self.queues
        self.q_length = [[0] * self.queues for _ in ports]  # bytes
        self.q_packets = [[0] * self.queues for _ in ports]
        self.empty = [[True] * self.queues for _ in ports]  # bit map of empty queues
        self.paused = [[False] * self.queues for _ in ports]  # by the downstream device

    def entry(self, packet):
        key = packet.egress_port, packet.fid_hash % self.table_size
        return self.flow_table.setdefault(key, Entry())

    def assign_queue(self, now_ps, packet, random_queue):
        entry = self.entry(packet)
        old = entry.timestamp is None or now_ps - entry.timestamp > self.sticky_hrtts * self.hrtt
        reassign_queue = entry.size == 0 and old
        entry.size += 1
        if reassign_queue:
            if self.assignment == "single":
                entry.q_assignment = 0
            elif self.assignment == "stochastic":
                entry.q_assignment = packet.fid_hash % self.queues
            else:
                entry.q_assignment = self.choose_queue(now_ps, packet, random_queue)
        entry.timestamp = now_ps
        packet.q_assignment = entry.q_assignment

    def choose_queue(self, now_ps, packet, random_queue):
        """The first empty queue, else the random one. paper/queue_assignment.py has other readings."""
        empty = self.empty[packet.egress_port]
        return empty.index(True) if any(empty) else random_queue

    def n_active(self, egress, arriving_q):
        return sum(q == arriving_q or (self.q_packets[egress][q] > 0 and not self.paused[egress][q]) for q in range(self.queues))

    def exceeds_th(self, egress, q):
        """qLength > Th = HRTT * (mu / N_active), in whole numbers."""
        return self.q_length[egress][q] * self.n_active(egress, q) * self.ps_per_byte[egress] > self.hrtt

    def on_enqueue(self, now_ps, packet, random_queue=None):
        """-> (queue, pause frames sent). `random_queue` is used when no queue of the egress port is empty."""
        self.assign_queue(now_ps, packet, random_queue)
        egress, q = packet.egress_port, packet.q_assignment
        self.q_length[egress][q] += packet.size
        self.q_packets[egress][q] += 1
        self.empty[egress][q] = False
        frames = []
        key = packet.ingress_port, packet.upstream_q
        packet.counter_incr = False
        if (packet.ingress_port, egress) not in self.no_backpressure and self.exceeds_th(egress, q):
            packet.counter_incr = True
            self.pause_counter[key] = self.pause_counter.get(key, 0) + 1
            if self.pause_counter[key] == 1:
                frames.append(Frame("pause", *key))
        return q, frames

    def on_dequeue(self, now_ps, packet):
        """-> resume frames sent. The packet leaves with this switch's queue as its upstreamQ: packet.q_assignment."""
        entry = self.entry(packet)
        entry.size -= 1
        entry.timestamp = now_ps
        egress, q = packet.egress_port, packet.q_assignment
        self.q_length[egress][q] -= packet.size
        self.q_packets[egress][q] -= 1
        if self.q_packets[egress][q] == 0:  # "when the last packet in a queue is scheduled"
            self.empty[egress][q] = True
        frames = []
        key = packet.ingress_port, packet.upstream_q
        if packet.counter_incr:
            self.pause_counter[key] -= 1
            if self.pause_counter[key] == 0:
                frames.append(Frame("resume", *key))
        return frames

    # What a switch obeys, as the upstream of somebody else
    def on_pause(self, egress, q):
        self.paused[egress][q] = True

    def on_resume(self, egress, q):
        self.paused[egress][q] = False

    def on_bitmap(self, egress, bitmap):
        self.paused[egress] = list(bitmap)

    def eligible(self, egress):
        """The queues that deficit round robin may serve."""
        return [q for q in range(self.queues) if self.q_packets[egress][q] and not self.paused[egress][q]]

    def pause_bitmap(self, ingress, upstream_queues):
        """The periodic refresh sent out of an ingress port: the queues that should be paused at the upstream."""
        return [self.pause_counter.get((ingress, q), 0) > 0 for q in range(upstream_queues)]


def E_f(x, th):
    """(4): the fraction of time a flow has no packets at its bottleneck; th = Th / (HRTT * mu_f), x > 1."""
    return (x - 1) / (th * x + (x * x - 1))


def E_f_by_phases(x, th):
    """(1)-(3), with HRTT = mu_f = 1."""
    tp1 = th / (x - 1) + 1
    tp2 = th + (x - 1)
    tp3 = 1
    return tp3 / (tp1 + tp2 + tp3)


def E_f_max(th):
    """(5): the largest E_f over x > 1, and where it is."""
    return 1 / ((sqrt(th) + 1) ** 2 + 1), sqrt(th) + 1
