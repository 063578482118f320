"""DCQCN as the HPCC simulator runs it: the timer-driven "Mellanox" state machine. The echo of ECN rides on every ACK,
there are no CNP packets. One flow at a time, with real timers that fire in the order of time.

Where the description leaves a choice open, this file chooses:
* the first echo belongs to the first slot of the decrease timer, not to that of the alpha timer (it sets alpha = 1);
* the decrease timer runs 1 ns after the alpha timer; the increase timer starts at the first cut;
* timers due at one instant fire in the order alpha, increase, decrease, all of them before an ACK of that instant;
* the stage counts the increases since the last cut: the (F+1)-th is additive, later ones are hyper;
* rates are real numbers; nothing happens before the first echo (the flow is at line rate).
"""

from dataclasses import dataclass, replace

US = 1_000_000  # picoseconds
NS = 1_000


@dataclass(frozen=True)
class Parameters:
    line: float  # bit/s
    g: float = 1 / 256
    alpha_interval: int = 1 * US
    decrease_interval: int = 4 * US
    increase_interval: int = 300 * US
    F: int = 1  # fast recovery times
    R_AI: float = 20e6
    R_HAI: float = 200e6
    R_min: float = 1e9
    cut_at_once: bool = False  # the DCQCN paper: alpha is 1, so the first notification halves the rate
    clamp_target_rate: bool = False


def ns3(line):
    """The production-like settings of the HPCC paper's runs; the steps scale with the line's rate."""
    return Parameters(line, R_AI=5e6 * line / 25e9, R_HAI=50e6 * line / 25e9)


def paper(line):
    """The intervals of the DCQCN paper."""
    return replace(ns3(line), alpha_interval=50 * US, decrease_interval=50 * US, increase_interval=55 * US)


def config(line):
    """The simulator's shipped configuration file."""
    return Parameters(line, increase_interval=900 * US, R_AI=50e6, R_HAI=100e6, R_min=100e6)


class Sender:
    def __init__(self, now, parameters):
        self.p = parameters
        self.now = now
        self.rate = self.target = parameters.line
        self.alpha = 1.0
        self.first_cnp = True
        self.alpha_echo = False  # an echo came in this slot of the alpha timer
        self.decrease_echo = False
        self.stage = 0
        self.timers = {}  # name -> time at which it fires

    def advance(self, now):
        """Fire every timer due until `now`, in the order of time."""
        order = ["alpha", "increase", "decrease"]
        while True:
            due = [(at, order.index(name), name) for name, at in self.timers.items() if at <= now]
            if not due:
                break
            at, _, name = min(due)
            self.now = at
            getattr(self, f"on_{name}_timer")()
        self.now = now

    def on_alpha_timer(self):
        self.timers["alpha"] = self.now + self.p.alpha_interval
        self.alpha = (1 - self.p.g) * self.alpha + (self.p.g if self.alpha_echo else 0)
        self.alpha_echo = False

    def on_decrease_timer(self):
        self.timers["decrease"] = self.now + self.p.decrease_interval
        if not self.decrease_echo:
            return
        self.decrease_echo = False
        if self.stage > 0 or self.p.clamp_target_rate:
            self.target = self.rate
        self.rate = max(self.p.R_min, self.rate * (1 - self.alpha / 2))
        self.stage = 0
        self.timers["increase"] = self.now + self.p.increase_interval

    def on_increase_timer(self):
        self.timers["increase"] = self.now + self.p.increase_interval
        if self.stage == self.p.F:
            self.target += self.p.R_AI
        elif self.stage > self.p.F:
            self.target += self.p.R_HAI
        self.target = min(self.target, self.p.line)
        self.rate = (self.rate + self.target) / 2
        self.stage += 1

    def on_ack(self, now, ecn_echo):
        self.advance(now)
        if not ecn_echo:
            return
        self.decrease_echo = True
        if self.first_cnp:
            self.first_cnp = False
            self.alpha = 1.0
            self.timers["alpha"] = now + self.p.alpha_interval
            self.timers["decrease"] = now + self.p.decrease_interval + 1 * NS
            self.target = self.rate
            if self.p.cut_at_once:
                self.rate = max(self.p.R_min, self.rate * (1 - self.alpha / 2))
                self.decrease_echo = False
                self.timers["increase"] = now + self.p.increase_interval
        else:
            self.alpha_echo = True

    def rate_at(self, now):
        self.advance(now)
        return self.rate


class Notified(Sender):
    """The reaction point of DCQCN's section 3.1, told by CNPs: R_T = R_C, R_C = R_C (1 - alpha / 2), alpha = (1 - g) alpha + g,
    and the timers of alpha and of the increases begin anew.  alpha is 1 before the first CNP.  No byte counter."""

    def on_cnp(self, now):
        self.advance(now)
        if self.first_cnp:
            self.first_cnp = False
            self.alpha = 1.0
        if self.stage > 0 or self.p.clamp_target_rate:
            self.target = self.rate
        self.rate = max(self.p.R_min, self.rate * (1 - self.alpha / 2))
        self.alpha = (1 - self.p.g) * self.alpha + self.p.g
        self.stage = 0
        self.timers = {"alpha": now + self.p.alpha_interval, "increase": now + self.p.increase_interval}


def notifications(marks, N, delay=0):
    """When the notification point of section 3.1 sends CNPs of a flow whose marked packets arrive at `marks`: one for the first,
    and one at the end of each window of N in which there was one; a packet at the end of a window belongs to the next one.
    Each leaves `delay` later."""
    out, marks = [], sorted(marks)
    while marks:
        begin = marks.pop(0)
        out.append(begin + delay)
        while any(begin <= t < begin + N for t in marks):
            marks = [t for t in marks if t >= begin + N]
            begin += N
            out.append(begin + delay)
    return out


def mark_probability(qlen, k_min, k_max, p_max):
    """RED on the instantaneous queue, after the departing packet has been removed: 0 up to k_min, then linear to p_max
    at k_max, 1 above."""
    if qlen > k_max:
        return 1.0
    if qlen <= k_min:
        return 0.0
    return p_max * (qlen - k_min) / (k_max - k_min)


def variable_window(W, rate, line):
    """DCQCN+win: the window follows the rate, at least one byte."""
    return max(1, int(W * rate / line))
