"""BFC's Algorithm 1 (NSDI 2022, appendix A.1), in packets and in RTTs of the paper: "BFC 32 (CC)".

Where the text leaves a choice open, this file chooses: w is kept between one packet and RTTTarget times the line rate.
"""

from dataclasses import dataclass


@dataclass
class Sender:
    """`base_rtt` in ps; `bdp` in packets."""

    base_rtt: int
    bdp: float
    factor: float = 2.5

    def __post_init__(self):
        self.RTTTarget = self.factor * self.base_rtt
        self.w = self.bdp

    def acknowledgement(self, rtt):
        if rtt <= self.RTTTarget:
            self.w = self.w + (self.RTTTarget - rtt) / rtt
        else:
            self.w = self.w - (rtt - self.RTTTarget) / rtt
        if self.w < 1:
            self.w = 1
        if self.w > self.factor * self.bdp:
            self.w = self.factor * self.bdp
