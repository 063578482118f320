"""TIMELY (SIGCOMM 2015, section 4, Algorithm 1): a rate from the RTTs of completion events, and from their gradient.

`Paper` is Algorithm 1 as printed; `Simulator` is the same law as the HPCC simulator runs it, where hyperactive increase
follows five increases of any kind, below T_low too, and is a constant. Both see one RTT per completion event. `Sender` says
which ACK is one: the first beyond what had been sent at the one before. Times are in picoseconds, rates in bit/s.

Where the paper leaves a choice open, this file chooses:
* the first completion event has no prev_rtt and changes nothing; rtt_diff is 0 then;
* "gradient < 0 for five completion events" looks at the normalized gradients of the last five events, this one included,
  whatever they did to the rate; a gradient of 0 is not negative;
* the rate starts at line rate, ends there, and never falls below R_min: 1 - beta * gradient may be negative;
* alpha = 0.875 is the weight of the new difference, as the simulator has it.
"""

from dataclasses import dataclass

US = 1_000_000


@dataclass(frozen=True)
class Parameters:
    line: float  # bit/s
    delta: float = 100e6
    hai: float = 500e6  # N delta in HAI mode
    R_min: float = 100e6
    alpha: float = 0.875
    beta: float = 0.8
    T_low: int = 50 * US
    T_high: int = 500 * US
    minRTT: int = 20 * US


class Paper:
    def __init__(self, parameters):
        self.p = parameters
        self.rate = parameters.line
        self.prev_rtt = None
        self.rtt_diff = 0.0
        self.gradients = []  # of all completion events
        self.branches = []  # what each did

    def hai_mode(self):
        last = self.gradients[-5:]
        return len(last) == 5 and all(g < 0 for g in last)

    def on_completion(self, new_rtt):
        if self.prev_rtt is None:
            self.prev_rtt = new_rtt
            return self.rate
        new_rtt_diff = new_rtt - self.prev_rtt
        self.prev_rtt = new_rtt
        self.rtt_diff = (1 - self.p.alpha) * self.rtt_diff + self.p.alpha * new_rtt_diff
        self.gradients.append(self.rtt_diff / self.p.minRTT)
        self.react(new_rtt, self.gradients[-1])
        self.rate = min(self.p.line, max(self.p.R_min, self.rate))
        return self.rate

    def react(self, new_rtt, normalized_gradient):
        if new_rtt < self.p.T_low:
            self.additive("below", self.p.delta)
            return
        if new_rtt > self.p.T_high:
            self.multiplicative("above", 1 - self.p.beta * (1 - self.p.T_high / new_rtt))
            return
        if normalized_gradient <= 0:
            hai = self.hai_mode()
            self.additive("hai" if hai else "additive", self.p.hai if hai else self.p.delta)
        else:
            self.multiplicative("gradient", 1 - self.p.beta * normalized_gradient)

    def additive(self, branch, step):
        self.branches.append(branch)
        self.rate = self.rate + step

    def multiplicative(self, branch, factor):
        self.branches.append(branch)
        self.rate = self.rate * factor


class Simulator(Paper):
    """A stage counts the increases since the last decrease; the sixth and all later ones are by `hai`."""

    stage = 0

    def react(self, new_rtt, normalized_gradient):
        factor = None
        if new_rtt > self.p.T_high:
            factor = 1 - self.p.beta * (1 - self.p.T_high / new_rtt)
        elif new_rtt >= self.p.T_low and normalized_gradient > 0:
            factor = max(0.0, 1 - self.p.beta * normalized_gradient)
        if factor is None:
            hai = self.stage >= 5
            self.additive("hai" if hai else "additive", self.p.hai if hai else self.p.delta)
            self.stage += 1
        else:
            self.multiplicative("above" if new_rtt > self.p.T_high else "gradient", factor)
            self.stage = 0


class Sender:
    """seq: cumulative sequence number of an ACK; snd_nxt: of the sender when it handles the ACK."""

    def __init__(self, law):
        self.law = law
        self.last_update_seq = 0

    def on_ack(self, now, stamp, seq, snd_nxt):
        if seq > self.last_update_seq:
            self.law.on_completion(now - stamp)
            self.last_update_seq = snd_nxt
        return self.law.rate


def variable_window(W, rate, line):
    """TIMELY+win: the window follows the rate, at least one byte."""
    return max(1, int(W * rate / line))
