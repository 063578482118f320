"""HPCC (SIGCOMM 2019): Algorithm 1 of section 3.2, line by line; section 5.4's other ways of reacting; appendix A.

Names are the paper's. Where it leaves a choice open, this file chooses:
* the first ACK (and the first after a change of pathID, section 4.1) has no L to compare with: it only stores L and
  sets lastUpdateSeq = snd_nxt, W and R stay as they are;
* U starts at 1; ack.seq is the cumulative sequence number that the receiver expects next;
* a link whose ts has not advanced since L is passed over (txRate would be 0/0);
* Algorithm 1 has no bounds on W: `paper()` has none either (W_min, W_max), `ns3()` bounds R to [min, line].

`MultiRate` is not in the paper: it is what the authors' simulator does with MULTI_RATE 1, as the Floodgate authors ran it.

Two statements of the paper hold only with care (the tests show both):
* figure 5's W(2) = W(1) needs both ACKs to lie within a round: if the first of them sets W^c = W (line 15),
  the second divides W^c again;
* lemma (iii) of A.2, R constant after at most I steps, is not true of the recursion (5)-(6) itself: paths whose rate is
  already fixed stay in Y_i, so that the others only converge geometrically. It is true if bottlenecked resources are
  removed with their paths *and the capacity these use*, as the proof has it: `next_rates_of_the_proof`.
"""

# ruff: noqa: SIM300 (the paper's symbols are capitals, not constants)

from dataclasses import dataclass, replace
from math import inf


@dataclass(frozen=True)
class Link:
    """INT of one link; times in any unit, B in bytes per that unit."""

    qLen: int
    txBytes: int
    ts: float
    B: float
    rxBytes: int = 0


@dataclass(frozen=True)
class Ack:
    seq: int
    snd_nxt: int  # of the sender, when it handles this ACK
    L: tuple
    pathID: int = 0


@dataclass
class Sender:
    T: float
    W_init: float  # B_NIC * T
    eta: float = 0.95
    maxStage: int = 5
    W_AI: float = 80
    W_min: float = 0
    W_max: float = inf
    U: float = 1
    reaction: str = "hpcc"  # | "per-ack" | "per-rtt" (section 5.4)
    rate: str = "txBytes"  # | "rxBytes" (section 3.4)

    def __post_init__(self):
        self.W = self.Wc = self.W_init
        self.R = self.W / self.T
        self.incStage = 0
        self.lastUpdateSeq = 0
        self.L = None
        self.pathID = None

    def MeasureInflight(self, ack):
        u = 0
        tau = 0
        for new, old in zip(ack.L, self.L, strict=True):
            if new.ts <= old.ts:
                continue
            txRate = (getattr(new, self.rate) - getattr(old, self.rate)) / (new.ts - old.ts)
            u_ = min(new.qLen, old.qLen) / (new.B * self.T) + txRate / new.B
            if u_ > u:
                u = u_
                tau = new.ts - old.ts
        tau = min(tau, self.T)
        self.U = (1 - tau / self.T) * self.U + tau / self.T * u
        return self.U

    def ComputeWind(self, U, updateWc):
        if U >= self.eta or self.incStage >= self.maxStage:
            W = self.bound(self.Wc / (U / self.eta) + self.W_AI)
            if updateWc:
                self.incStage = 0
                self.Wc = W
        else:
            W = self.bound(self.Wc + self.W_AI)
            if updateWc:
                self.incStage += 1
                self.Wc = W
        return W

    def bound(self, W):
        return min(max(W, self.W_min), self.W_max)

    def new_ack(self, ack):
        """NewAck(ack) -> W."""
        if self.L is None or ack.pathID != self.pathID:
            self.L, self.pathID = ack.L, ack.pathID
            self.lastUpdateSeq = ack.snd_nxt
            return self.W
        if self.reaction == "per-ack":  # equation (3), on every ACK
            self.W = self.bound(self.W / (self.MeasureInflight(ack) / self.eta) + self.W_AI)
        elif ack.seq > self.lastUpdateSeq:
            self.W = self.ComputeWind(self.MeasureInflight(ack), True)
            self.lastUpdateSeq = ack.snd_nxt
        elif self.reaction == "per-rtt":  # the ACKs in between are not looked at: neither U nor L changes
            return self.W
        else:
            self.W = self.ComputeWind(self.MeasureInflight(ack), False)
        self.R = self.W / self.T
        self.L = ack.L
        return self.W


@dataclass
class Hop:
    Wc: float
    U: float = 1
    incStage: int = 0


@dataclass
class MultiRate(Sender):
    """U, W^c and incStage of each hop; a window for each, of which the flow takes the smallest, at most W_max.

    pathID and the links without progress as above. Beyond the simulator, which has it for reaction "hpcc" and (FAST_REACT 0)
    "per-rtt" only: with "per-ack" each hop proposes a window by equation (3).
    """

    def __post_init__(self):
        super().__post_init__()
        self.hops = {}

    def window_of(self, i, new, old, updateWc):
        hop = self.hops.setdefault(i, Hop(self.W_init))
        tau = new.ts - old.ts
        if tau > 0:
            txRate = (getattr(new, self.rate) - getattr(old, self.rate)) / tau
            u = txRate / new.B + min(new.qLen, old.qLen) / (new.B * self.T)
            tau = min(tau, self.T)
            hop.U = (hop.U * (self.T - tau) + u * tau) / self.T
        c = hop.U / self.eta
        if self.reaction == "per-ack":
            return self.bound(self.W / c + self.W_AI)
        if c >= 1 or hop.incStage >= self.maxStage:
            W, incStage = self.bound(hop.Wc / c + self.W_AI), 0
        else:
            W, incStage = self.bound(hop.Wc + self.W_AI), hop.incStage + 1
        if updateWc:
            hop.Wc, hop.incStage = W, incStage
        return W

    def new_ack(self, ack):
        updateWc = ack.seq > self.lastUpdateSeq
        if self.L is None or ack.pathID != self.pathID:
            self.pathID, self.lastUpdateSeq = ack.pathID, ack.snd_nxt
        elif updateWc or self.reaction != "per-rtt":
            pairs = enumerate(zip(ack.L, self.L, strict=True))
            self.W = min([self.W_max, *[self.window_of(i, new, old, updateWc) for i, (new, old) in pairs]])
            self.R = self.W / self.T
            if updateWc:
                self.lastUpdateSeq = ack.snd_nxt
        else:
            return self.W
        self.L = ack.L
        return self.W


def paper(T, B_NIC, **changes):
    """Sections 3.3 and 5.1: eta 95 %, maxStage 5, W_AI 80 bytes, no bounds."""
    return replace(Sender(T, B_NIC * T), **changes)


def ns3(T, B_NIC, W_AI, R_min, **changes):
    """The paper's simulations: maxStage 0, R within [R_min, line]."""
    return replace(Sender(T, B_NIC * T, maxStage=0, W_AI=W_AI, W_min=R_min * T, W_max=B_NIC * T), **changes)


def floodgate(T, B_NIC, W_AI, R_min, **changes):
    """The Floodgate authors' simulations: a reference window for each hop, maxStage 5, R within [R_min, line]."""
    return replace(MultiRate(T, B_NIC * T, W_AI=W_AI, W_min=R_min * T, W_max=B_NIC * T), **changes)


def rule_of_thumb_W_AI(W_init, eta, N):
    """Section 3.3: W_AI = W_init (1 - eta) / N for N concurrent flows on a link."""
    return W_init * (1 - eta) / N


def loads(A, R):
    """(5): Y = A R."""
    return [sum(a * r for a, r in zip(row, R, strict=True)) for row in A]


def next_rates(A, C, R):
    """(6): R_j(n+1) = R_j(n) / max_i {Y_i(n) A_ij / C_i}."""
    Y = loads(A, R)
    return [r / max(Y[i] * A[i][j] / C[i] for i in range(len(A))) for j, r in enumerate(R)]


def next_rates_of_the_proof(A, C, R):
    """(5)-(6) in the network that is left when every full resource, its paths and their loads have been removed."""
    Y = loads(A, R)
    I, J = range(len(C)), range(len(R))
    fixed = [any(A[i][j] and Y[i] == C[i] for i in I) for j in J]
    gone = loads(A, [r if f else 0 for r, f in zip(R, fixed, strict=True)])
    return [R[j] if fixed[j] else R[j] / max((Y[i] - gone[i]) / (C[i] - gone[i]) for i in I if A[i][j]) for j in J]


def is_pareto_optimal(A, C, R):
    """Feasible, and every path crosses a bottlenecked resource (exact numbers expected)."""
    Y = loads(A, R)
    full = [y == c for y, c in zip(Y, C, strict=True)]
    return all(y <= c for y, c in zip(Y, C, strict=True)) and all(
        any(full[i] and A[i][j] for i in range(len(A))) for j in range(len(R))
    )


def sum_d_i_d_1(periods, phases, until):
    """Appendix A.1: sum D_i/D/1, unit service times; source i sends at phases[i] + k periods[i].

    -> list of (arrival, departure), first come first served.
    """
    arrivals = sorted(
        phase + k * period
        for period, phase in zip(periods, phases, strict=True)
        for k in range(int((until - phase) / period) + 1)
    )
    packets, free_at = [], 0
    for t in arrivals:
        free_at = max(free_at, t) + 1
        packets.append((t, free_at))
    return packets


def mean_number(packets, start, end):
    """Mean number of packets in the system (waiting and in service) over [start, end)."""
    return sum(max(0, min(end, leaves) - max(start, comes)) for comes, leaves in packets) / (end - start)
