"""Swift (SIGCOMM 2020, sections 3.1 to 3.6, Algorithm 1): windows of packets from delays, for the fabric and for the
endpoint.

Names are the paper's; times in ps. Where it leaves a choice open, this file chooses:
* t_last_decrease is the time at which the window was last made smaller; a cut that min_cwnd undoes counts as one;
* rtt is that of the last ACK, before the first one that of the empty network;
* num_acked is in packets of one MTU, so that the last packet of a flow counts for less;
* fast recovery cuts fcwnd alone, and so does a timeout; each window has its own t_last_decrease;
* ecwnd has a fixed target, and follows the delay of each packet (the paper's follows an average).
"""

from dataclasses import dataclass
from math import sqrt

US = 1_000_000


@dataclass
class Parameters:
    ai: float = 1.0
    beta: float = 0.8
    max_mdf: float = 0.5
    base_target: int = 15 * US
    hop_scale: int = 1 * US
    fs_range: int = 75 * US
    fs_min_cwnd: float = 0.1
    fs_max_cwnd: float = 100.0
    endpoint_target: int = 15 * US
    min_cwnd: float = 0.001
    max_cwnd: float = 1000.0
    retx_reset_threshold: int = 5


def target_delay(p, hops, fcwnd):
    """Section 3.5."""
    alpha = p.fs_range / (1 / sqrt(p.fs_min_cwnd) - 1 / sqrt(p.fs_max_cwnd))
    beta = -alpha / sqrt(p.fs_max_cwnd)
    return p.base_target + hops * p.hop_scale + max(0, min(alpha / sqrt(fcwnd) + beta, p.fs_range))


class Window:
    def __init__(self, p, cwnd):
        self.p, self.cwnd, self.t_last_decrease = p, cwnd, None

    def multiply(self, now, rtt, factor):
        can_decrease = self.t_last_decrease is None or now - self.t_last_decrease >= rtt
        if can_decrease:
            self.cwnd = factor * self.cwnd
            self.t_last_decrease = now

    def on_ack(self, now, rtt, delay, target, num_acked):
        if delay < target:
            if self.cwnd >= 1:
                self.cwnd = self.cwnd + self.p.ai / self.cwnd * num_acked
            else:
                self.cwnd = self.cwnd + self.p.ai * num_acked
        else:
            self.multiply(now, rtt, max(1 - self.p.beta * (delay - target) / delay, 1 - self.p.max_mdf))

    def clamp(self):
        self.cwnd = max(self.p.min_cwnd, min(self.cwnd, self.p.max_cwnd))


class Sender:
    """After each event: cwnd in packets, and pacing_delay between two packets, 0 if they are not paced."""

    def __init__(self, p, cwnd, rtt):
        self.p, self.rtt = p, rtt
        self.fabric, self.endpoint = Window(p, cwnd), Window(p, cwnd)
        self.retransmit_cnt = 0
        self.events = []  # what was done
        self.least = cwnd  # cwnd so far
        self.finish("start")

    def finish(self, event):
        self.fabric.clamp()
        self.endpoint.clamp()
        self.cwnd = min(self.fabric.cwnd, self.endpoint.cwnd)
        self.pacing_delay = self.rtt / self.cwnd if self.cwnd < 1 else 0
        self.events.append(event)
        self.least = min(self.least, self.cwnd)

    def on_ack(self, now, rtt, endpoint_delay, hops, num_acked):
        self.rtt, self.retransmit_cnt = rtt, 0
        before = self.fabric.cwnd
        self.fabric.on_ack(now, rtt, rtt - endpoint_delay, target_delay(self.p, hops, before), num_acked)
        self.endpoint.on_ack(now, rtt, endpoint_delay, self.p.endpoint_target, num_acked)
        self.finish("more" if self.fabric.cwnd > before else "less" if self.fabric.cwnd < before else "same")

    def on_fast_recovery(self, now, rtt):
        self.rtt, self.retransmit_cnt = rtt, 0
        self.fabric.multiply(now, rtt, 1 - self.p.max_mdf)
        self.finish("recovery")

    def on_retransmit_timeout(self, now):
        self.retransmit_cnt += 1
        if self.retransmit_cnt >= self.p.retx_reset_threshold:
            self.fabric.cwnd = self.p.min_cwnd
        else:
            self.fabric.multiply(now, self.rtt, 1 - self.p.max_mdf)
        self.finish("timeout")
