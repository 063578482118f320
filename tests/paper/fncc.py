"""FNCC (arXiv 2405.07608) as it was understood from its abstract, from summaries and from what others say of it; see the scheme.

The paper's own pseudocode was not read.  The reaction point is HPCC's Algorithm 1 (hpcc.py beside this file), on telemetry that
comes in the order of the return path: the last hop first.

Decided here:
* LHCS looks at u' of the last hop (lines 4 and 5), not at its average, and is no more than a new W^c and W: U goes on;
* a link whose telemetry is not newer than L says nothing, so it is not congested either;
* txBytes is what has left the port by then: of the packet on the line the bytes that have;
* N counts flows of which data has come and, of what their senders had when they sent it, some has not.
"""

from dataclasses import dataclass, field
from math import floor

from paper import hpcc


class EgressPort:
    """What a switch knows of a port: what it has begun to send, and its queue."""

    def __init__(self, ps_per_byte):
        self.ps_per_byte = ps_per_byte
        self.begun, self.start, self.size = 0, 0, 0  # bytes; when the last packet began, and its size
        self.qLen = 0

    def begin(self, now, size):
        self.begun += size
        self.start, self.size = now, size

    def txBytes(self, now):
        left = self.size - (now - self.start) / self.ps_per_byte
        return self.begun - floor(max(left, 0))

    def INT(self, now):
        return hpcc.Link(self.qLen, self.txBytes(now), now, 1 / self.ps_per_byte)


@dataclass
class CongestionPoint:
    """A switch: All_INT_Table is filled every `period`, or (0) whenever it is read."""

    ports: list
    period: int = 0

    def __post_init__(self):
        self.All_INT_Table = {}

    def fill(self, now):
        self.All_INT_Table = {i: port.INT(now) for i, port in enumerate(self.ports)}

    def on_ack(self, now, input_port, L, most=5):
        """-> the ACK's telemetry when it leaves."""
        if not self.period:
            self.fill(now)
        return [*L, self.All_INT_Table.get(input_port, hpcc.Link(0, 0, 0, 1))][:most]


@dataclass
class Receiver:
    """N, by the port at which data comes."""

    at: dict = field(default_factory=dict)  # flow -> port, while it is concurrent

    def on_data(self, flow, port, expected, size):
        """A packet of a flow that now has all before `expected`; its sender had data up to `size`.  -> N for its ACK."""
        home = self.at.setdefault(flow, port)
        N = sum(p == home for p in self.at.values())
        if expected >= size:
            del self.at[flow]
        return N


@dataclass(frozen=True)
class Ack(hpcc.Ack):
    N: int = 1


@dataclass
class ReactionPoint(hpcc.Sender):
    alpha: float = 1.05
    beta: float = 0.9
    LHCS: bool = True
    speedups: int = 0

    def load_of_last_hop(self, ack):
        new, old = ack.L[0], self.L[0]
        if new.ts <= old.ts:
            return 0
        txRate = (new.txBytes - old.txBytes) / (new.ts - old.ts)
        return min(new.qLen, old.qLen) / (new.B * self.T) + txRate / new.B

    def new_ack(self, ack):
        known = self.L is not None and ack.pathID == self.pathID
        u = self.load_of_last_hop(ack) if known else 0
        super().new_ack(ack)
        if known and self.LHCS and u > self.alpha:
            self.W = self.Wc = self.bound(ack.L[0].B * self.T * self.beta / ack.N)
            self.R = self.W / self.T
            self.incStage = 0
            self.speedups += 1
        return self.W
