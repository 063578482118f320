"""PowerTCP and theta-PowerTCP (NSDI 2022): Algorithms 1 and 2, line by line.

Times in any unit, b in bytes per that unit; names are the paper's. Where it leaves a choice open, this file chooses:
* line 20 of Algorithm 1 compares and stores Gamma', which line 19 has normalised: it is the normalised power that is meant;
* the first ACK, and the first of another path, has no prevInt (prevRTT) to compare with: it is only stored;
* a port whose ts has not advanced is passed over; Gamma_smooth starts at 1;
* GETCWND returns what UPDATEOLD has stored: the window after the ACK of the first segment that was sent after the last time
  it was stored (Algorithm 1); in Algorithm 2 that is the window after the last update, which happens at the same ACKs;
* ack.seq < lastUpdated of Algorithm 2: of an ACK of all bytes before seq, seq <= lastUpdated;
* cwnd stays within cwnd_min and cwnd_max.

What the authors' simulator does otherwise are options: `target` (the power is divided by it), `least` (of the current,
relative to b), `average` (the old window instead of the present one), `first` (the current at the first ACK, relative to b),
`observed` (tau is the smallest RTT seen; rates stay when it falls), `margin` (tau is multiplied by it in the power).

ThetaCode is UpdateRatePower of that simulator (ns3-datacenter, commit 6ddb4a4, rdma-hw.cc) in its mode for theta-PowerTCP,
with its names and in its unit, rates; Theta is the paper's Algorithm 2.
"""

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True)
class Hop:
    """INT of an egress port."""

    qlen: int
    ts: float
    txBytes: int
    b: float


@dataclass
class PowerTCP:
    tau: float
    cwnd: float
    gamma: float = 0.9
    beta: float = 0
    cwnd_min: float = 0
    cwnd_max: float = inf
    target: float = 1
    least: float = 0
    average: str = "cwnd"
    first: float = 0

    def __post_init__(self):
        self.old = self.cwnd
        self.smooth = 1
        self.prevInt = self.pathID = None
        self.stored_at = 0  # sequence number

    def NEWACK(self, H, seq, snd_nxt, pathID=0):
        if self.prevInt is not None and pathID == self.pathID:
            self.UPDATEWINDOW(self.NORMPOWER(H), self.old)
        elif self.prevInt is None and self.first:
            self.smooth = self.first * max(1 + port.qlen / (port.b * self.tau) for port in H)
            self.UPDATEWINDOW(self.smooth, self.old)
        self.prevInt, self.pathID = H, pathID
        if seq > self.stored_at:  # UPDATEOLD
            self.old, self.stored_at = self.cwnd, snd_nxt
        return self.cwnd

    def NORMPOWER(self, H):
        norm = dt_of_norm = 0
        for port, prev in zip(H, self.prevInt, strict=True):
            dt = port.ts - prev.ts
            if dt <= 0:
                continue
            q_dot = (port.qlen - prev.qlen) / dt
            mu = (port.txBytes - prev.txBytes) / dt
            lamda = max(q_dot + mu, self.least * port.b)
            nu = port.qlen + port.b * self.tau
            power = lamda * nu / (port.b**2 * self.tau)
            if power > norm:
                norm, dt_of_norm = power, dt
        dt = min(dt_of_norm, self.tau)
        self.smooth = (self.smooth * (self.tau - dt) + norm * dt) / self.tau
        return self.smooth

    def UPDATEWINDOW(self, power, cwnd_old):
        cwnd = self.cwnd if self.average == "cwnd" else cwnd_old
        cwnd = self.gamma * (cwnd_old / (power / self.target) + self.beta) + (1 - self.gamma) * cwnd
        self.cwnd = min(self.cwnd_max, max(self.cwnd_min, cwnd))


@dataclass
class Theta:
    tau: float
    cwnd: float
    gamma: float = 0.9
    beta: float = 0
    cwnd_min: float = 0
    cwnd_max: float = inf
    least: float = 0.5
    observed: bool = False
    margin: float = 1

    def __post_init__(self):
        self.smooth = 1
        self.prev = None  # (RTT, t_c)
        self.lastUpdated = None

    def NEWACK(self, t_c, RTT, seq, snd_nxt):
        if self.observed and self.tau > RTT:
            self.cwnd, self.beta, self.cwnd_min, self.cwnd_max = (
                x * RTT / self.tau for x in (self.cwnd, self.beta, self.cwnd_min, self.cwnd_max)
            )
            self.tau = RTT
        if self.prev is None:
            self.lastUpdated = snd_nxt
        else:
            power = self.NORMPOWER(t_c, RTT)
            if seq > self.lastUpdated:
                cwnd = self.gamma * (self.cwnd / power + self.beta) + (1 - self.gamma) * self.cwnd
                self.cwnd = min(self.cwnd_max, max(self.cwnd_min, cwnd))
                self.lastUpdated = snd_nxt
        self.prev = RTT, t_c
        return self.cwnd

    def NORMPOWER(self, t_c, RTT):
        prevRTT, prev_t_c = self.prev
        dt = t_c - prev_t_c
        theta_dot = (RTT - prevRTT) / dt
        norm = max(theta_dot + 1, self.least) * RTT / (self.margin * self.tau)
        dt = min(dt, self.tau)
        self.smooth = (self.smooth * (self.tau - dt) + norm * dt) / self.tau
        return self.smooth


@dataclass
class ThetaCode:
    """Rates in bytes per unit of time; FAST_REACT is 1 and VAR_WIN is 1, as in config-burst.txt."""

    baseRtt: float
    max_rate: float
    weight: float = 0.7
    increase: float = 0
    m_minRate: float = 0
    least: float = 0.5
    margin: float = 1.05

    def __post_init__(self):
        self.m_rate = self.curRate = self.max_rate
        self.u = 1
        self.prevRtt = self.prevCompletion = None
        self.m_lastUpdateSeq = 0

    @property
    def tau(self):
        return self.baseRtt

    @property
    def cwnd(self):
        """GetWin."""
        return self.m_rate * self.baseRtt

    def NEWACK(self, now, rtt, ack_seq, snd_nxt):
        """HandleAckHp."""
        fast_react = ack_seq <= self.m_lastUpdateSeq
        self.baseRtt = min(self.baseRtt, rtt)
        if self.prevRtt is None:  # records of zero, long after the start of the simulation
            A, dt = 1, self.baseRtt
        else:
            dt = now - self.prevCompletion
            A = max((rtt - self.prevRtt) / dt + 1, self.least)
        U = A * rtt / (self.margin * self.baseRtt)
        dt = min(dt, self.baseRtt)
        self.u = (self.u * (self.baseRtt - dt) + U * dt) / self.baseRtt
        rate = self.weight * (self.curRate / self.u + self.increase) + (1 - self.weight) * self.curRate
        self.m_rate = min(max(rate, self.m_minRate), self.max_rate)
        self.prevRtt, self.prevCompletion = rtt, now
        if not fast_react:
            self.curRate, self.m_lastUpdateSeq = self.m_rate, max(snd_nxt, self.m_lastUpdateSeq)
        return self.cwnd


def equilibrium(b, tau, betas):
    """Theorem 1, for the control law with rates of cwnd / tau: the queue and the sum of the windows, w = w / Gamma + beta.

    A sender is paced by cwnd / tau, so that a full link means a sum of windows of b tau; then Gamma = (q + b tau) / (b tau).
    """
    w = b * tau
    return w * sum(betas) / (w - sum(betas)), w
